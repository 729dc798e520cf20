"""Private range of every column, by counts of octaves and four selections.

Octaves whose counts exceed the noise say which magnitudes rows have. Among these a centre is chosen by the exponential
mechanism (a median), then a scale (the median distance from it), then the ends of the range below and above it, as
multiples of the scale. Candidates are fixed numbers of all orders of magnitude, whose number enters through its
logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from skprivate.metric._domains import Box
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, Events, Mechanism, PureEvent, Release
from skprivate.privacy.noise import FloatArray, IntArray

_SELECTIONS = 4
_STEPS_PER_OCTAVE = 4
#: Share of the budget for the counts of octaves, and probability that noise alone makes any of them stand out.
_OCTAVE_SHARE, _FALSE_POSITIVE_RATE = 0.25, 1e-3
#: As improbably as one count exceeds a number, the sum of four exceeds this times that number.
_OF_FOUR = 1.5
#: Penalty of doubling an offset, in units of ln: without it a range would be wider than its rows.
_DECAY = 2.0
#: Times the number of offsets this is within the integers that selections take.
_LARGEST_PENALTY = 2.0**50

_POSITIVE: FloatArray = np.ldexp(
    1 + np.arange(1024)[np.newaxis] / 1024, np.arange(-40, 40)[:, np.newaxis].astype(np.int64)
).ravel()
#: Candidates for the centre: 0 and ±m·2^e with |values| from 2^−40 to 2^40 in relative steps of 2^−10.
CENTRES: FloatArray = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
#: Candidates for the scale and the offsets of the ends: 2^(k/4) from 2^−30 to 2^41.
OFFSETS: FloatArray = 2.0 ** (np.arange(-30 * _STEPS_PER_OCTAVE, 41 * _STEPS_PER_OCTAVE + 1) / _STEPS_PER_OCTAVE)
#: First candidates of octaves, of 1024 candidates each and of 0 alone, and the magnitudes that octaves end with.
_FIRSTS: IntArray = np.concatenate([np.arange(0, 81920, 1024), [81920], np.arange(81921, CENTRES.size, 1024)])
_EDGES: FloatArray = np.concatenate([np.ldexp(1.0, np.arange(40, -40, -1)), [0.0], np.ldexp(1.0, np.arange(-39, 41))])
#: Octaves of magnitudes up to 1.
_UNSEEN = (40, 120)
# Halfway between two candidates the lower one is the nearest.
_MIDPOINTS: FloatArray = 0.5 * (CENTRES[1:] + CENTRES[:-1])


@dataclass(frozen=True)
class FoundBox(Box):
    """A box found privately, and the columns without an octave above the noise: theirs is about 1 at most."""

    unseen: tuple[int, ...] = ()


@dataclass(frozen=True)
class PrivateBounds(Mechanism):
    """Box that holds nearly all rows, ε-differentially private for one row more or less."""

    epsilon: float
    n_features: int
    theorem = "bounds by noisy counts and the exponential mechanism (docs/theory/metric.md, proposition 4)"

    @property
    def selection_epsilon(self) -> float:
        """ε of one selection."""
        return (self.epsilon - self.octave_epsilon) / (_SELECTIONS * self.n_features)

    @property
    def octave_epsilon(self) -> float:
        """ε of the counts of all octaves."""
        return _OCTAVE_SHARE * self.epsilon

    @property
    def events(self) -> Events:
        return [
            (PureEvent(self.octave_epsilon, "discrete Laplace"), 1),
            (BoundedRangeEvent(self.selection_epsilon), _SELECTIONS * self.n_features),
        ]

    @property
    def least_rows(self) -> float:
        """Number of rows below which the many centres of a few octaves outweigh a median."""
        return 2 * math.log(self.n_features * 4096) / self.selection_epsilon

    def run(self, data: FloatArray | Partitions, release: Release) -> FoundBox:
        """Release the box of rows of shape (n, n_features), in memory or in blocks, in two passes.

        About 8·d/epsilon rows per side stay outside for every doubling of the offset that would include them.
        """
        rows = as_partitions(data)
        counts = rows.sum(centre_counts)
        octaves = np.add.reduceat(counts, _FIRSTS, axis=1)
        spans = self._spans(
            release.discrete_laplace(octaves.ravel(), sensitivity=self.n_features, epsilon=self.octave_epsilon)
        )
        centres = np.array([self._centre(own, span, release) for own, span in zip(counts, spans, strict=True)])
        far_ends = [2.0 * _EDGES[list(span)].max() or 1.0 for span in spans]
        # Far from 0, nothing finer than 2^−30 of the centre: lower and upper stay apart in float64.
        offsets = np.maximum(OFFSETS, np.abs(centres)[:, np.newaxis] * 2.0**-30)
        sides = rows.sum(partial(offset_counts, centres=centres, least=offsets[:, 0]))
        scales = [
            self._select(median_costs(own)[: max(int(np.searchsorted(OFFSETS, far, "right")), 1)], release)
            for own, far in zip(distance_counts(sides), far_ends, strict=True)
        ]
        below, above = (
            np.array(
                [
                    own[scale:][self._select(offset_costs(counts, scale, self.selection_epsilon), release)]
                    for own, scale, counts in zip(offsets, scales, side, strict=True)
                ]
            )
            for side in sides
        )
        unseen = tuple(j for j, span in enumerate(spans) if span == _UNSEEN)
        return FoundBox(centres - below, centres + above, unseen)

    def _spans(self, noisy: IntArray) -> list[tuple[int, int]]:
        """Find the first and the last octave of each column above the noise, or four that are together, or up to 1."""
        least = self.n_features * math.log(noisy.size / (2 * _FALSE_POSITIVE_RATE)) / self.octave_epsilon
        spans = []
        for own in noisy.reshape(self.n_features, -1):
            seen, four = np.flatnonzero(own > least), np.convolve(own, np.ones(4), "valid")
            best = int(np.argmax(four))
            wide = (best, best + 3) if four[best] > _OF_FOUR * least else _UNSEEN
            spans.append((int(seen[0]), int(seen[-1])) if seen.size else wide)
        return spans

    def _centre(self, counts: IntArray, span: tuple[int, int], release: Release) -> float:
        ends = int(_FIRSTS[span[0]]), int(np.append(_FIRSTS, CENTRES.size)[span[1] + 1])
        costs, multiplicity, first = centre_costs(counts, *ends)
        chosen = release.select(
            -costs,
            sensitivity=1,
            epsilon=self.selection_epsilon,
            monotone=True,
            multiplicity=multiplicity,
            locate=lambda run, member: int(first[run]) + member,
        )
        return float(CENTRES[chosen])

    def _select(self, costs: IntArray, release: Release) -> int:
        return int(release.select(-costs, sensitivity=1, epsilon=self.selection_epsilon, monotone=True))


def centre_counts(rows: FloatArray) -> IntArray:
    """Count the rows of each column by their nearest candidate centre; halfway between two, the lower one."""
    return np.stack([np.bincount(np.searchsorted(_MIDPOINTS, column), minlength=CENTRES.size) for column in rows.T])


def offset_counts(rows: FloatArray, centres: FloatArray, least: FloatArray) -> IntArray:
    """Count rows of each column by the first offset that includes them below and above the centre; then those beyond.

    The offsets of a column are `OFFSETS`, and no smaller than its ``least``.
    """
    counts = []
    for column, centre, low in zip(rows.T, centres, least, strict=True):
        offset = column - centre
        place = np.searchsorted(OFFSETS, np.abs(offset))
        place[np.abs(offset) <= low] = 0
        # One number for both sides: below the centre, the second half.
        place += (OFFSETS.size + 1) * (offset < 0)
        above, below = np.bincount(place, minlength=2 * (OFFSETS.size + 1)).reshape(2, -1)
        rest = above[0] + below[0]
        below[0], above[0] = rest + above[1:].sum(), rest + below[1:].sum()
        counts.append([below, above])
    return np.swapaxes(np.array(counts), 0, 1)


def distance_counts(sides: IntArray) -> IntArray:
    """Count rows of each column by the first offset that includes their distance from the centre, or the last one."""
    counts = sides.sum(axis=0)
    counts[:, 0] = sides[0].sum(axis=1) - counts[:, 1:].sum(axis=1)
    counts[:, -2] += counts[:, -1]
    return np.asarray(counts[:, :-1])


def centre_costs(counts: IntArray, start: int = 0, stop: int = CENTRES.size) -> tuple[IntArray, list[int], IntArray]:
    """Compute the cost of every run of neighbouring candidates that share it, its length and its first candidate.

    Candidates are those from ``start`` to before ``stop``.

    Values are snapped to the nearest candidate; a candidate costs the larger of the numbers of values below and above
    it. One value more raises every cost by 0 or 1.
    """
    costs = median_costs(counts)[start:stop]
    first = np.flatnonzero(np.concatenate([[True], np.diff(costs) != 0]))
    lengths = np.diff(np.append(first, costs.size))
    return costs[first], [int(length) for length in lengths], first.astype(np.int64) + start


def median_costs(counts: IntArray) -> IntArray:
    """Count the values below and above each candidate, and take the larger number; a median costs least.

    One value more raises every cost by 0 or 1.
    """
    upto = np.cumsum(counts)
    costs: IntArray = np.maximum(upto - counts, upto[-1] - upto).astype(np.int64)
    return costs


def offset_costs(counts: IntArray, scale: int, selection_epsilon: float) -> IntArray:
    """Count the values beyond each offset from the scale on, plus a public penalty in rows for every step.

    The penalty, about 2/selection_epsilon per doubling, is the logarithm of a prior: without it the many candidates
    beyond all values would win. One value more raises every cost by 0 or 1.
    """
    penalty = math.ceil(min(_DECAY / (_STEPS_PER_OCTAVE * selection_epsilon), _LARGEST_PENALTY))
    upto = np.cumsum(counts)
    within = upto[scale:-1]
    costs: IntArray = upto[-1] - within + np.arange(within.size, dtype=np.int64) * penalty
    return costs
