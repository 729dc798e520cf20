"""Exact error counts of all intersections of at most r candidate halfspaces, streamed.

The hypothesis of a set G of candidates labels a row public where every candidate in G contains it. Its weighted error
is ``constant + Σ_x w_x Π_{c ∈ G} 1[x ∈ c]``, where w_x is minus the weight of a row of the public label and plus the
weight of a row of the private label: correct for the first and wrong for the second where all of G contains it. All
weights are integers, so every error is an integer and the number of hypotheses of each error is exact.

Candidates come in pairs of opposite halfspaces, and only the positive sides are multiplied out. With A and B the 0/1
memberships of the positive sides and of the boundaries, the negative sides are 1 − A + B, so one product A diag(w) Aᵀ
per pair of pairs, B being sparse, gives all four combinations of sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skprivate.mixture._problem import Block, Enumeration, Integers

#: Numbers of pairs of opposite halfspaces per block, in the two directions of a product.
ROW_BLOCK = 256
COLUMN_BLOCK = 1024
#: Largest number of entries of a dense matrix: the overhead of sparse ones would dominate.
MOST_DENSE = 2**15


def count_intersections(n_candidates: int, max_size: int) -> int:
    """Count sets of at most ``max_size`` of ``n_candidates`` candidates, the empty set included."""
    return sum(comb(n_candidates, size) for size in range(min(max_size, n_candidates) + 1))


@dataclass(eq=False)
class _Level:
    """Candidate pairs from number ``shift`` on, and the rows that every candidate chosen before contains."""

    positive: NDArray[np.uint8]
    negative: NDArray[np.uint8]
    weights: Integers
    shift: int
    dtype: type[np.floating[Any]]

    @property
    def n_pairs(self) -> int:
        return int(self.positive.shape[1])

    def after(self, pair: int, rows: NDArray[np.bool_]) -> _Level:
        """Return the pairs behind ``pair``, on some of the rows."""
        positive, negative = self.positive[rows, pair + 1 :], self.negative[rows, pair + 1 :]
        return _Level(positive, negative, self.weights[rows], self.shift + pair + 1, self.dtype)

    @cached_property
    def row_weights(self) -> NDArray[Any]:
        return self.weights.astype(self.dtype)

    @cached_property
    def boundary(self) -> Any:
        """Membership in both sides of a pair, sparse where it is large."""
        if self.positive.size <= MOST_DENSE:
            return np.ascontiguousarray((self.positive & self.negative).T, dtype=self.dtype)
        pairs, rows = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for part in _slices(self.positive.shape[0], ROW_BLOCK):
            row, pair = np.nonzero(self.positive[part] & self.negative[part])
            pairs.append(pair)
            rows.append(row + part.start)
        index = (np.concatenate(pairs), np.concatenate(rows))
        shape = (self.n_pairs, self.positive.shape[0])
        return sparse.coo_array((np.ones(len(index[0]), dtype=self.dtype), index), shape=shape).tocsr()

    @cached_property
    def weighted_boundary(self) -> Any:
        if isinstance(self.boundary, np.ndarray):
            return self.boundary * self.row_weights
        return self.boundary.multiply(self.row_weights[None, :]).tocsr()

    @cached_property
    def on_boundary(self) -> NDArray[Any]:
        return np.asarray(self.boundary @ self.row_weights)

    @cached_property
    def in_positive(self) -> NDArray[Any]:
        return self.sums(self.positive)

    def sums(self, members: NDArray[np.uint8]) -> NDArray[Any]:
        """Sum the weights of each candidate's rows."""
        sums = np.zeros(members.shape[1], dtype=self.dtype)
        for part in _slices(members.shape[0], ROW_BLOCK):
            sums += self.row_weights[part] @ members[part].astype(self.dtype)
        return sums


def _slices(length: int, step: int) -> list[slice]:
    return [slice(low, min(low + step, length)) for low in range(0, length, step)]


class Intersections(Enumeration):
    """All sets of at most ``max_size`` candidates, in a fixed order.

    ``positive`` and ``negative``, 0 or 1 of shape (n_rows, n_pairs), are memberships in the sides of the candidates,
    which together cover every row. Candidate 2 t is the positive and 2 t + 1 the negative side of pair t. ``weights``
    are those of `ErrorWeights.signed`; ``offset`` counts the errors of calling every row private; errors are counted in
    units of ``resolution``, rounded down. Sums are formed in float32 while they are integers below 2²⁴ and in float64
    otherwise: both are exact, in whatever order BLAS adds.
    """

    def __init__(
        self,
        positive: NDArray[np.uint8],
        negative: NDArray[np.uint8],
        weights: Integers,
        max_size: int,
        *,
        offset: int = 0,
        resolution: int = 1,
    ) -> None:
        super().__init__(offset, resolution)
        self.n_pairs = positive.shape[1]
        self.max_size = min(max_size, 2 * self.n_pairs)
        total = int(np.abs(weights).sum())
        if 8 * total >= 2**53:
            raise ValueError(f"The weights add up to {total}, which is too large for exact sums.")
        dtype: type[np.floating[Any]] = np.float32 if 8 * total < 2**24 else np.float64
        self._top = _Level(positive, negative, weights, 0, dtype)
        # Sets of a size whose first candidate is a side of one of these pairs.
        self._stripes = [(0, 0, 0)]
        for size in range(1, self.max_size + 1):
            step = {1: COLUMN_BLOCK, 2: ROW_BLOCK}.get(size, 1)
            self._stripes += [(size, part.start, part.stop) for part in _slices(self.n_pairs, step)]

    def __len__(self) -> int:
        return count_intersections(2 * self.n_pairs, self.max_size)

    @property
    def part_sizes(self) -> list[int]:
        return [
            sum(self._starting_with(pair, size) for pair in range(start, stop)) if size else 1
            for size, start, stop in self._stripes
        ]

    def _starting_with(self, pair: int, size: int) -> int:
        """Count the sets of a size whose first candidate is a side of a pair."""
        later = 2 * (self.n_pairs - pair - 1)
        return 2 * comb(later, size - 1) + (comb(later, size - 2) if size > 1 else 0)

    def _blocks(self, parts: slice) -> Iterator[Block]:
        for size, start, stop in self._stripes[parts]:
            yield from _blocks(self._top, size, start, stop, ())


def _blocks(level: _Level, size: int, start: int, stop: int, prefix: tuple[int, ...]) -> Iterator[Block]:
    """Yield sets of ``size`` candidates whose first pair is one of start..stop of the level, added to ``prefix``."""
    if size == 0:
        yield np.array([level.weights.sum()]), lambda _: prefix
    elif size == 1:
        first = 2 * (level.shift + start)
        sides = [level.sums(level.positive[:, start:stop]), level.sums(level.negative[:, start:stop])]
        yield np.stack(sides, axis=1), lambda position: (*prefix, first + position)
    elif size == 2:
        yield from _pair_blocks(level, start, stop, prefix)
    else:
        for pair in range(start, stop):
            first = 2 * (level.shift + pair)
            plus, minus = level.positive[:, pair] == 1, level.negative[:, pair] == 1
            for rest, rows, added in (
                (size - 1, plus, (first,)),
                (size - 1, minus, (first + 1,)),
                (size - 2, plus & minus, (first, first + 1)),
            ):
                later = level.after(pair, rows)
                yield from _blocks(later, rest, 0, later.n_pairs, (*prefix, *added))


def _pair_blocks(level: _Level, start: int, stop: int, prefix: tuple[int, ...]) -> Iterator[Block]:
    """Yield sets of two candidates: the two sides of one pair, then one side each of two pairs."""
    if start == stop:
        return
    shift = level.shift
    yield (level.on_boundary[start:stop], lambda p: (*prefix, 2 * (shift + start + p), 2 * (shift + start + p) + 1))
    total = level.row_weights.sum(dtype=level.dtype)
    outside = level.on_boundary - level.in_positive
    largest = 4 * min(ROW_BLOCK, stop - start) * min(COLUMN_BLOCK, level.n_pairs - start)
    buffer = np.empty(largest, dtype=level.dtype)
    for low in range(start, stop, ROW_BLOCK):
        high = min(low + ROW_BLOCK, stop)
        rows = level.positive[:, low:high].astype(level.dtype)
        weighted_rows = np.ascontiguousarray((rows * level.row_weights[:, None]).T)
        edges = level.weighted_boundary[low:high]
        for left in range(low, level.n_pairs, COLUMN_BLOCK):
            right = min(left + COLUMN_BLOCK, level.n_pairs)
            columns = level.positive[:, left:right].astype(level.dtype)
            shape = (4, high - low, right - left)
            values = buffer[: shape[0] * shape[1] * shape[2]].reshape(shape)
            # A⁻ = 1 − A + B turns the three products with a negative side into A A, A B, B A and B B.
            both = np.matmul(weighted_rows, columns, out=values[0])
            edge_in = edges @ columns
            in_edge = (level.weighted_boundary[left:right] @ rows).T
            np.subtract(in_edge, both, out=values[1])
            np.subtract(edge_in, both, out=values[2])
            on_both = edges @ level.boundary[left:right].T
            np.subtract(on_both if isinstance(on_both, np.ndarray) else on_both.toarray(), values[1], out=values[3])
            values[3] -= edge_in
            values[1] += level.in_positive[low:high, None]
            values[2] += level.in_positive[left:right]
            values[3] += outside[low:high, None]
            values[3] += outside[left:right] + total
            yield from _later_columns(values, low, left, shift, prefix)


def _later_columns(values: NDArray[Any], low: int, left: int, shift: int, prefix: tuple[int, ...]) -> Iterator[Block]:
    """Split a block so that only columns later than their row remain."""
    _, n_rows, n_columns = values.shape

    def identify(sides: int, row: int, column: int) -> tuple[int, ...]:
        first = 2 * (shift + low + row) + sides // 2
        return (*prefix, first, 2 * (shift + left + column) + sides % 2)

    overlap = low + n_rows - left
    if overlap > 0:
        # The block's first columns are its own rows: keep the upper triangle of that square.
        upper = np.triu_indices(n_rows, k=1 + low - left, m=min(overlap, n_columns))
        square = values[:, upper[0], upper[1]]
        n_upper = upper[0].size
        yield (square, lambda p: identify(p // n_upper, int(upper[0][p % n_upper]), int(upper[1][p % n_upper])))
        rest = values[:, :, overlap:]
    else:
        overlap, rest = 0, values
    width = n_columns - overlap
    if width > 0:
        yield (rest, lambda p: identify(p // (n_rows * width), p // width % n_rows, overlap + p % width))
