"""Quantile cuts of the public points along public directions, and all intersections of a few of them.

A cut is the halfspace {z : ⟨direction, z⟩ ≤ threshold}. The cuts of one direction are nested, so the errors of all
intersections of cuts along r directions are cumulative sums of one r-dimensional histogram of the rows: n operations
for a whole block of hypotheses instead of n for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture import _problem
from skprivate.mixture._geometry import Floats

#: Fraction of the public points that a cut leaves in. Most of the public population should be called public, all of it
#: where the classes do not overlap.
KEPT_FRACTIONS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
FINE_KEPT_FRACTIONS = (*(0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8), *(0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 1.0))
#: Number of rows that stay in the cache while their products with the directions are formed.
ROWS = 2**13
#: Largest number of thresholds that a value is compared with one by one.
FEW_CUTS = 32
#: Largest number of rows times last directions that are counted in one call.
BATCH = 2**17
#: Number of rows that are sampled to see if many are equal.
SAMPLE = 2**12

#: Leading directions, and the last directions that are joined to them one by one.
Batch: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class CutCandidates:
    """Cuts {z : ⟨direction, z⟩ ≤ threshold + slack}, along directions of length one, with ascending distinct
    thresholds.
    """

    directions: Floats
    thresholds: tuple[Floats, ...]
    slack: float

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def n_cuts(self) -> tuple[int, ...]:
        return tuple(len(cuts) for cuts in self.thresholds)

    @property
    def offered_directions(self) -> Floats:
        """Directions that have a cut, or all where none has."""
        offered = np.array(self.n_cuts) > 0
        return self.directions[offered] if offered.any() else self.directions

    def bins(self, scaled: Floats) -> NDArray[Any]:
        """Find, for each direction and row, the first cut that contains the row: shape (n_directions, n_rows).

        The number of cuts means none. The integer type is as small as that number allows.
        """
        dtype = np.min_scalar_type(max(self.n_cuts, default=0))
        bins = np.empty((len(self.thresholds), scaled.shape[0]), dtype=dtype)
        for part, projections in self.projections(scaled):
            for k, projection in enumerate(projections):
                bins[k, part] = _count_below(self.thresholds[k] + self.slack, projection)
        return bins

    def projections(self, scaled: Floats) -> Iterator[tuple[slice, Iterator[Floats]]]:
        """Yield blocks of rows and their products with the directions, one after another: as `products` forms them."""
        used = [np.flatnonzero(direction).tolist() for direction in self.directions]
        columns = np.ascontiguousarray(scaled.T)
        for low in range(0, scaled.shape[0], ROWS):
            part = slice(low, min(low + ROWS, scaled.shape[0]))
            yield part, self._along(columns[:, part], used)

    def _along(self, columns: Floats, used: list[list[int]]) -> Iterator[Floats]:
        result, term = np.empty(columns.shape[1]), np.empty(columns.shape[1])
        for direction, axes in zip(self.directions, used, strict=True):
            if axes:
                np.multiply(columns[axes[0]], direction[axes[0]], out=result)
            else:
                result[:] = 0.0
            for axis in axes[1:]:
                np.multiply(columns[axis], direction[axis], out=term)
                np.add(result, term, out=result)
            yield result

    def sides(self, chosen: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return normals and intercepts of a set (direction, cut, direction, cut, …)."""
        pairs = [self.halfspace(*pair) for pair in zip(chosen[0::2], chosen[1::2], strict=True)]
        normals = np.array([normal for normal, _ in pairs]).reshape(-1, self.directions.shape[1])
        return normals, np.array([intercept for _, intercept in pairs])

    def halfspace(self, direction: int, cut: int) -> tuple[Floats, float]:
        """Return normal and intercept of a cut as {z : ⟨normal, z⟩ + intercept ≥ 0}."""
        return -self.directions[direction], float(self.thresholds[direction][cut]) + self.slack


def _count_below(thresholds: Floats, values: Floats) -> NDArray[Any]:
    """Count the ascending thresholds below each value."""
    if thresholds.size > FEW_CUTS:
        return np.searchsorted(thresholds, values)
    # Comparing with each of a few thresholds is several times faster than a search that branches.
    below = np.greater(values, thresholds[:, None])
    return np.asarray(np.add.reduce(below.view(np.uint8), axis=0, dtype=np.uint8))


def quantile_cuts(public: Floats, directions: Floats, kept: tuple[float, ...], slack: float) -> CutCandidates:
    """Make cuts that leave given fractions of the public points in, along given directions of any length.

    Thresholds are between two public points where there is a gap, so that neither side is touched.
    """
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    if len(public) == 0:
        return CutCandidates(directions, tuple(np.zeros(0) for _ in directions), slack)
    ordered = public @ directions.T
    ordered.sort(axis=0)
    last_in = np.clip(np.ceil(np.array(kept) * len(public)).astype(int) - 1, 0, len(public) - 1)
    thresholds = []
    for column in ordered.T:
        inside = np.unique(column[last_in])
        following = np.searchsorted(column, inside + slack, side="right")
        outside = column[np.minimum(following, len(column) - 1)]
        thresholds.append(np.where(following < len(column), (inside + outside) / 2, inside))
    return CutCandidates(directions, tuple(thresholds), slack)


def without_repetition(cuts: CutCandidates, public: Floats) -> CutCandidates:
    """Drop cuts that repeat another one, or cut nothing off, along columns with two public values.

    A one-hot column has one cut, between its values: along one sense of the axis or the other. A cut that leaves both
    values in is constant, and two columns of opposite values are the same.
    """
    smallest, largest = public.min(axis=0, initial=np.inf), public.max(axis=0, initial=-np.inf)
    two_valued = ((public == smallest) | (public == largest)).all(axis=0) & (smallest < largest)
    seen: set[bytes] = set()
    thresholds = []
    for direction, offered in zip(cuts.directions, cuts.thresholds, strict=True):
        axes = np.flatnonzero(direction)
        if offered.size and axes.size == 1 and two_valued[axes[0]]:
            values = public[:, axes[0]] * direction[axes[0]]
            members = [values <= threshold + cuts.slack for threshold in offered]
            kept = [not m.all() and np.packbits(m).tobytes() not in seen for m in members]
            seen.update(np.packbits(m).tobytes() for m in members)
            offered = offered[kept]
        thresholds.append(offered)
    return CutCandidates(cuts.directions, tuple(thresholds), cuts.slack)


def point_cuts(public: Floats, slack: float) -> CutCandidates:
    """Make both halfspaces bounded by each of the public points on a line: Algorithm 1 in one dimension."""
    points = np.unique(public[:, 0])
    return CutCandidates(np.array([[1.0], [-1.0]]), (points, np.sort(-points)), slack)


def count_cut_intersections(n_cuts: tuple[int, ...], max_size: int) -> int:
    """Count sets of at most ``max_size`` cuts along different directions, the empty set included."""
    by_size = [1] + [0] * max_size
    for count in n_cuts:
        for size in range(max_size, 0, -1):
            by_size[size] += by_size[size - 1] * count
    return sum(by_size)


def without_equal_rows(bins: NDArray[Any], weights: _problem.Integers) -> tuple[NDArray[Any], _problem.Integers]:
    """Merge rows that the same cuts contain, and add their weights: few are left of rows of categories."""
    rows = np.ascontiguousarray(bins[:, :: max(1, bins.shape[1] // SAMPLE)].T)
    if not rows.size or 2 * len(_distinct(rows)[0]) > len(rows):
        return bins, weights
    first, inverse = _distinct(np.ascontiguousarray(bins.T))
    sums = np.zeros(first.size, dtype=np.int64)
    np.add.at(sums, inverse, weights)
    return bins[:, first], sums


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return positions of the distinct rows of a contiguous array, and which of them every row is."""
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    return first, inverse


class CutIntersections(_problem.Enumeration):
    """All sets of at most ``max_size`` cuts along different directions, in a fixed order.

    ``bins`` are those of `CutCandidates`; ``weights`` those of `ErrorWeights.signed`, whose absolute values add up to
    less than 2⁵³; ``offset`` and ``resolution`` as in `Intersections`. A set is described by its directions and cuts,
    (direction, cut, direction, cut, …).
    """

    def __init__(
        self,
        bins: NDArray[Any],
        n_cuts: tuple[int, ...],
        weights: _problem.Integers,
        max_size: int,
        *,
        offset: int = 0,
        resolution: int = 1,
    ) -> None:
        super().__init__(offset, resolution)
        self.n_cuts = n_cuts
        # Sums of integers below 2⁵³ are exact in the float64 that weighted histograms are formed in.
        if int(np.abs(weights).sum()) >= 2**53:
            raise ValueError("The weights add up to too much for exact sums.")
        self.bins, weights = without_equal_rows(bins, weights)
        self._weights = weights.astype(np.float64)
        self._together = max(1, BATCH // max(1, weights.size))
        offered = [k for k, count in enumerate(n_cuts) if count]
        self._max_size = min(max_size, len(n_cuts))
        self._parts = list(_batches(offered, self._max_size))

    def __len__(self) -> int:
        return count_cut_intersections(self.n_cuts, self._max_size)

    @property
    def part_sizes(self) -> list[int]:
        """Numbers of sets that share the leading directions."""
        widths = [sum(self.n_cuts[k] for k in lasts) if lasts else 1 for _, lasts in self._parts]
        return [
            prod(self.n_cuts[k] for k in head) * width for (head, _), width in zip(self._parts, widths, strict=True)
        ]

    def _describe(self, head: tuple[int, ...], lasts: tuple[int, ...], position: int) -> tuple[int, ...]:
        group, shape = head, tuple(self.n_cuts[k] for k in head)
        for last in lasts:
            group, shape = (*head, last), (*(self.n_cuts[k] for k in head), self.n_cuts[last])
            if position < prod(shape):
                break
            position -= prod(shape)
        cuts = np.unravel_index(position, shape) if group else ()
        return tuple(int(value) for pair in zip(group, cuts, strict=True) for value in pair)

    def _blocks(self, parts: slice) -> Iterator[_problem.Block]:
        """Yield sums of all sets, a few last directions at a time; the last direction's cut varies fastest."""
        n_rows = self._weights.size
        code: NDArray[np.intp] = np.zeros(n_rows, dtype=np.intp)
        batches = [
            (head, lasts[low : low + self._together])
            for head, lasts in self._parts[parts]
            for low in range(0, max(1, len(lasts)), self._together)
        ]
        blocks = [self._weights[low : low + ROWS] for low in range(0, n_rows, ROWS)]
        most = max(len(lasts) for _, lasts in batches)
        tiled = [np.tile(block, most) for block in blocks] if most > 1 else blocks
        buffer = np.empty(max((block.size for block in tiled), default=0), dtype=np.intp)
        present: tuple[int, ...] = ()
        for head, lasts in batches:
            if head != present:
                # Batches follow in order, so all that share their leading directions share this.
                present = head
                code = np.zeros(n_rows, dtype=np.intp)
                for k in head:
                    code *= self.n_cuts[k] + 1
                    code += self.bins[k]
            cuts = np.array([self.n_cuts[k] for k in lasts], dtype=np.int64)
            width = int(cuts.max(initial=0)) + 1
            shape = (max(len(lasts), 1), *(self.n_cuts[k] + 1 for k in head), width)
            starts = (np.arange(shape[0]) * prod(shape[1:]))[:, None]
            leading = code * width
            sums = np.zeros(prod(shape))
            for number, weights in enumerate(tiled):
                part = slice(number * ROWS, min((number + 1) * ROWS, n_rows))
                cells = buffer[: shape[0] * (part.stop - part.start)].reshape(shape[0], -1)
                if len(lasts) == 1:  # without a copy of its bins
                    np.add(leading[part], self.bins[lasts[0], part], out=cells[0])
                else:
                    np.add(starts, leading[part], out=cells)
                    if lasts:
                        cells += self.bins[list(lasts), part]
                sums += np.bincount(cells.ravel(), weights=weights[: cells.size], minlength=sums.size)
            sums = sums.reshape(shape)
            for axis in range(1, len(shape)):
                np.cumsum(sums, axis=axis, out=sums)
            inside = sums[(slice(None), *(slice(self.n_cuts[k]) for k in head))]
            if lasts:
                inside = inside[..., : width - 1]
                if cuts.min() < width - 1:
                    offered = np.arange(width - 1) < cuts[:, None]
                    offered = offered.reshape(len(lasts), *[1] * len(head), width - 1)
                    inside = inside[np.broadcast_to(offered, inside.shape)]
            yield inside, partial(self._describe, head, lasts)


def _batches(directions: list[int], max_size: int) -> Iterator[Batch]:
    """Yield all sets of directions as (all but the last, those that may be last), the empty set as ((), ())."""
    yield (), ()
    for size in range(max_size):
        for places in combinations(range(len(directions)), size):
            lasts = directions[places[-1] + 1 :] if places else directions
            if lasts:
                yield tuple(directions[place] for place in places), tuple(lasts)
