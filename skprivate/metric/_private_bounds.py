"""A range of every column from the data itself, by four private selections.

A centre is chosen as in PrivateRange (a median by the exponential mechanism), then a scale (the median distance from
it), then how many times the scale the range reaches below and above it. Candidates are fixed numbers of all orders of
magnitude, whose number enters through its logarithm.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skprivate.metric._box import Box
from skprivate.privacy import BoundedRangeEvent, PrivacyEvent, Release

FloatArray = NDArray[np.float64]

#: Share of the budget for the ranges of all columns together.
RANGE_SHARE = 0.1
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


def bounds_events(epsilon: float, n_features: int) -> list[tuple[PrivacyEvent, int]]:
    """Events of `private_bounds`, whatever the data."""
    return [(BoundedRangeEvent(_price(epsilon, n_features)), _SELECTIONS * n_features)]


def private_bounds(X: FloatArray, release: Release, *, epsilon: float) -> Box:
    """Box that holds nearly all rows, ε-differentially private for one row more or less.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    release : Release
        Under add-remove adjacency.
    epsilon : float
        Price of all selections together: 4·d of epsilon/(4·d) each.

    Returns
    -------
    Box
        About 8·d/epsilon rows per side stay outside for every doubling of the reach that would take them in. With
        fewer than about 150·d/epsilon rows the box has little to do with them.
    """
    price = _price(epsilon, X.shape[1])
    lower, upper = [], []
    for column in X.T:
        costs, multiplicity, first = centre_costs(column)
        chosen = release.select(
            -costs,
            sensitivity=1,
            epsilon=price,
            monotone=True,
            multiplicity=multiplicity,
            locate=partial(_candidate, first),
        )
        centre = float(CENTRES[chosen])
        # Far from 0, nothing finer than 2^−30 of the centre: lower and upper stay apart in float64.
        reaches = np.maximum(REACHES, abs(centre) * 2.0**-30)
        costs = scale_costs(np.abs(column - centre), reaches)
        reaches = reaches[release.select(-costs, sensitivity=1, epsilon=price, monotone=True) :]
        below, above = (
            reaches[
                release.select(
                    -reach_costs(offsets, reaches, price), sensitivity=1, epsilon=price, monotone=True
                )
            ]
            for offsets in (centre - column, column - centre)
        )
        lower.append(centre - below)
        upper.append(centre + above)
    return Box(np.array(lower), np.array(upper))


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


def _price(epsilon: float, n_features: int) -> float:
    return epsilon / (_SELECTIONS * n_features)
