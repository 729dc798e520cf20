"""A range of every column from the data itself, by four private selections.

A centre is chosen as in PrivateRange (a median by the exponential mechanism), then a scale (the median distance from
it), then how many times the scale the range reaches below and above it. Candidates are fixed numbers of all orders of
magnitude, whose number enters through its logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skprivate.metric._box import Box
from skprivate.privacy import BoundedRangeEvent, Mechanism, Release
from skprivate.privacy._events import Events

FloatArray = NDArray[np.float64]

_SELECTIONS = 4
_STEPS_PER_OCTAVE = 4
#: How much rarer twice the reach is a priori, in units of ln: what stops a range from being wider than its rows.
_DECAY = 2.0

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

    def run(self, data: FloatArray, release: Release) -> Box:
        """The box of rows of shape (n, n_features).

        Returns
        -------
        Box
            About 8·d/epsilon rows per side stay outside for every doubling of the reach that would take them in. With
            fewer than about 150·d/epsilon rows the box has little to do with them.
        """
        sides = [self._range(np.ascontiguousarray(column), release) for column in data.T]
        lower, upper = np.array(sides).T
        return Box(lower.copy(), upper.copy())

    def _range(self, column: FloatArray, release: Release) -> tuple[float, float]:
        """Lower and upper end of one column."""
        costs, multiplicity, first = centre_costs(column)
        chosen = release.select(
            -costs,
            sensitivity=1,
            epsilon=self.price,
            monotone=True,
            multiplicity=multiplicity,
            locate=partial(_candidate, first),
        )
        centre = float(CENTRES[chosen])
        # Far from 0, nothing finer than 2^−30 of the centre: lower and upper stay apart in float64.
        reaches = np.maximum(REACHES, abs(centre) * 2.0**-30)
        scale = self._select(scale_costs(np.abs(column - centre), reaches), release)
        reaches = reaches[scale:]
        below = self._select(reach_costs(centre - column, reaches, self.price), release)
        above = self._select(reach_costs(column - centre, reaches, self.price), release)
        return centre - float(reaches[below]), centre + float(reaches[above])

    def _select(self, costs: NDArray[np.int64], release: Release) -> int:
        return int(release.select(-costs, sensitivity=1, epsilon=self.price, monotone=True))


def _candidate(first: NDArray[np.int64], run: int, member: int) -> int:
    return int(first[run]) + member


def centre_costs(column: FloatArray) -> tuple[NDArray[np.int64], list[int], NDArray[np.int64]]:
    """Cost of every run of neighbouring candidates that share it, number of candidates and first of the run.

    Values are snapped to the nearest candidate; a candidate costs the larger of the numbers of values below and above
    it. One value more raises every cost by 0 or 1.
    """
    midpoints = 0.5 * (CENTRES[1:] + CENTRES[:-1])
    counts = np.bincount(np.searchsorted(midpoints, column), minlength=CENTRES.size)
    upto = np.cumsum(counts)
    costs = np.maximum(upto - counts, column.size - upto)
    first = np.flatnonzero(np.concatenate([[True], np.diff(costs) != 0]))
    lengths = np.diff(np.append(first, costs.size))
    return costs[first].astype(np.int64), [int(length) for length in lengths], first.astype(np.int64)


def scale_costs(distances: FloatArray, reaches: FloatArray) -> NDArray[np.int64]:
    """Larger of the numbers of distances below and above each reach, snapped upwards; a median costs least.

    One value more raises every cost by 0 or 1.
    """
    snapped = np.minimum(np.searchsorted(reaches, distances), reaches.size - 1)
    counts = np.bincount(snapped, minlength=reaches.size)
    upto = np.cumsum(counts)
    costs: NDArray[np.int64] = np.maximum(upto - counts, distances.size - upto).astype(np.int64)
    return costs


def reach_costs(offsets: FloatArray, reaches: FloatArray, price: float) -> NDArray[np.int64]:
    """Number of values beyond each reach, plus a public penalty in rows for every step of the reach.

    The penalty, about 2/price per doubling, is the logarithm of a prior: without it the many candidates beyond all
    values would win. One value more raises every cost by 0 or 1.
    """
    penalty = math.ceil(_DECAY / (_STEPS_PER_OCTAVE * price))
    within = np.searchsorted(np.sort(offsets), reaches, side="right")
    steps: NDArray[np.int64] = np.arange(reaches.size, dtype=np.int64) * penalty
    return offsets.size - within.astype(np.int64) + steps
