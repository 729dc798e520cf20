"""A range of every column from the data itself, by four private selections.

A centre is chosen as in PrivateRange (a median by the exponential mechanism), then a scale (the median distance from
it), then how many times the scale the range reaches below and above it. Candidates are fixed numbers of all orders of
magnitude, whose number enters through its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skprivate.metric._box import Box
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, Mechanism, Release
from skprivate.privacy._events import Events

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SELECTIONS = 4
_STEPS_PER_OCTAVE = 4
#: How much rarer twice the reach is a priori, in units of ln: what stops a range from being wider than its rows.
_DECAY = 2.0
#: With all steps of the reach this stays within the integers that selections take.
_LARGEST_PENALTY = 2.0**50

_POSITIVE: FloatArray = np.ldexp(
    1 + np.arange(1024)[np.newaxis] / 1024, np.arange(-40, 40)[:, np.newaxis].astype(np.int64)
).ravel()
#: Candidates for the centre: 0 and ±m·2^e with |values| from 2^−40 to 2^40 in relative steps of 2^−10.
CENTRES: FloatArray = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
#: Candidates for the scale and the reach: 2^(k/4) from 2^−30 to 2^41.
REACHES: FloatArray = 2.0 ** (
    np.arange(-30 * _STEPS_PER_OCTAVE, 41 * _STEPS_PER_OCTAVE + 1) / _STEPS_PER_OCTAVE
)


@dataclass(frozen=True)
class PrivateBounds(Mechanism):
    """Box that holds nearly all rows, ε-differentially private for one row more or less.

    Parameters
    ----------
    epsilon : float
        Price of all selections together: four per column, of the same price.
    n_features : int
    """

    epsilon: float
    n_features: int
    theorem = "bounds by the exponential mechanism (docs/metric.md, proposition 4)"

    @property
    def price(self) -> float:
        """Of one selection."""
        return self.epsilon / (_SELECTIONS * self.n_features)

    @property
    def events(self) -> Events:
        return [(BoundedRangeEvent(self.price), _SELECTIONS * self.n_features)]

    def run(self, data: FloatArray | Partitions, release: Release) -> Box:
        """The box of rows of shape (n, n_features), in memory or in blocks of them: three passes.

        Returns
        -------
        Box
            About 8·d/epsilon rows per side stay outside for every doubling of the reach that would take them in. With
            fewer than about 150·d/epsilon rows the box has little to do with them.
        """
        rows = as_partitions(data)
        centres = np.array([self._centre(counts, release) for counts in rows.sum(centre_counts)])
        # Far from 0, nothing finer than 2^−30 of the centre: lower and upper stay apart in float64.
        reaches = np.maximum(REACHES, np.abs(centres)[:, np.newaxis] * 2.0**-30)
        scales = [
            self._select(median_costs(counts), release)
            for counts in rows.sum(partial(distance_counts, centres=centres, reaches=reaches))
        ]
        sides = rows.sum(partial(offset_counts, centres=centres, reaches=reaches))
        below, above = (
            np.array(
                [
                    own[scale:][self._select(reach_costs(counts, scale, self.price), release)]
                    for own, scale, counts in zip(reaches, scales, side, strict=True)
                ]
            )
            for side in sides
        )
        return Box(centres - below, centres + above)

    def _centre(self, counts: IntArray, release: Release) -> float:
        costs, multiplicity, first = centre_costs(counts)
        chosen = release.select(
            -costs,
            sensitivity=1,
            epsilon=self.price,
            monotone=True,
            multiplicity=multiplicity,
            locate=partial(_candidate, first),
        )
        return float(CENTRES[chosen])

    def _select(self, costs: IntArray, release: Release) -> int:
        return int(release.select(-costs, sensitivity=1, epsilon=self.price, monotone=True))


def _candidate(first: IntArray, run: int, member: int) -> int:
    return int(first[run]) + member


def centre_counts(rows: FloatArray) -> IntArray:
    """Rows of each column whose nearest candidate each centre is."""
    midpoints = 0.5 * (CENTRES[1:] + CENTRES[:-1])
    return _histograms(rows, lambda column, j: np.searchsorted(midpoints, column), CENTRES.size)


def distance_counts(rows: FloatArray, centres: FloatArray, reaches: FloatArray) -> IntArray:
    """Rows of each column by the first reach that takes in their distance from the centre, or the last one."""
    last = reaches.shape[1] - 1
    return _histograms(
        rows,
        lambda column, j: np.minimum(np.searchsorted(reaches[j], np.abs(column - centres[j])), last),
        last + 1,
    )


def offset_counts(rows: FloatArray, centres: FloatArray, reaches: FloatArray) -> IntArray:
    """Rows of each column by the first reach that takes them in below the centre, and above it; then those beyond."""
    size = reaches.shape[1] + 1
    below = _histograms(rows, lambda column, j: np.searchsorted(reaches[j], centres[j] - column), size)
    above = _histograms(rows, lambda column, j: np.searchsorted(reaches[j], column - centres[j]), size)
    return np.stack([below, above])


def _histograms(rows: FloatArray, place: Callable[[FloatArray, int], IntArray], size: int) -> IntArray:
    """Counts (n_features, size) of where each entry is placed, by itself."""
    return np.stack(
        [
            np.bincount(place(np.ascontiguousarray(column), j), minlength=size)
            for j, column in enumerate(rows.T)
        ]
    )


def centre_costs(counts: IntArray) -> tuple[IntArray, list[int], IntArray]:
    """Cost of every run of neighbouring candidates that share it, number of candidates and first of the run.

    Values are snapped to the nearest candidate; a candidate costs the larger of the numbers of values below and above
    it. One value more raises every cost by 0 or 1.
    """
    costs = median_costs(counts)
    first = np.flatnonzero(np.concatenate([[True], np.diff(costs) != 0]))
    lengths = np.diff(np.append(first, costs.size))
    return costs[first], [int(length) for length in lengths], first.astype(np.int64)


def median_costs(counts: IntArray) -> IntArray:
    """Larger of the numbers of values below and above each candidate; a median costs least.

    One value more raises every cost by 0 or 1.
    """
    upto = np.cumsum(counts)
    costs: IntArray = np.maximum(upto - counts, upto[-1] - upto).astype(np.int64)
    return costs


def reach_costs(counts: IntArray, scale: int, price: float) -> IntArray:
    """Number of values beyond each reach from the scale on, plus a public penalty in rows for every step of the reach.

    The penalty, about 2/price per doubling, is the logarithm of a prior: without it the many candidates beyond all
    values would win. One value more raises every cost by 0 or 1.
    """
    penalty = math.ceil(min(_DECAY / (_STEPS_PER_OCTAVE * price), _LARGEST_PENALTY))
    upto = np.cumsum(counts)
    within = upto[scale:-1]
    costs: IntArray = upto[-1] - within + np.arange(within.size, dtype=np.int64) * penalty
    return costs
