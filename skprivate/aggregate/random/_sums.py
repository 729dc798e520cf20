"""Sums over random bags and back: the only structure that learning from random bags needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables._sums import Further, Integers, Labelled, block_sums
from skprivate.partitions import OTHER_ROWS, Partitions
from skprivate.privacy import exact_sum

IntArray = NDArray[np.int64]


def _member_sums(
    block: Labelled,
    beside: tuple[int, IntArray, IntArray],
    *,
    n_bags: int,
    integers: Integers,
    further: Further | None,
) -> NDArray[np.int64]:
    size, bags, rows = beside
    if size != len(block.size):
        raise RuntimeError(OTHER_ROWS)
    return block_sums(block, [(bags, rows, n_bags)], integers, further)


def _add_blocks(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return exact_sum(part[..., np.newaxis] for part in parts)


class BagSums:
    """Bags as lists of rows.

    Parameters
    ----------
    members : ndarray of int64, shape (n_memberships,)
        Rows of the first bag, then of the second, …
    sizes : ndarray of int64, shape (n_bags,)
    n_samples : int
        Number of rows that bags were drawn from.
    block_sizes : sequence of int, optional
        Rows of each block, where rows lie in blocks.
    """

    def __init__(
        self, members: IntArray, sizes: IntArray, n_samples: int, block_sizes: Sequence[int] | None = None
    ) -> None:
        self.block_sizes = [n_samples] if block_sizes is None else list(block_sizes)
        self.members = members
        self.sizes = sizes
        self.n_samples = n_samples
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.bag_of_member = np.repeat(np.arange(sizes.size), sizes)

    def take(self, which: IntArray) -> tuple[BagSums, IntArray]:
        """Some of the bags, and which memberships theirs are."""
        sizes = self.sizes[which]
        ends = np.cumsum(sizes)
        places = np.arange(int(sizes.sum())) + np.repeat(self.starts[which] - ends + sizes, sizes)
        return BagSums(self.members[places], sizes, self.n_samples), places

    @property
    def n_bags(self) -> int:
        return int(self.sizes.size)

    def appearances(self) -> int:
        """Largest number of times that one row is in a bag."""
        return int(np.bincount(self.members, minlength=1).max())

    @property
    def bag_sizes(self) -> IntArray:
        return self.sizes

    def add_up(self, rows: Partitions, integers: Integers, further: Further | None = None) -> NDArray[Any]:
        """Private: exact sums (n_bags, n_outputs) over bags, row by row, and further ones over all rows."""
        form = partial(_member_sums, n_bags=self.n_bags, integers=integers, further=further)
        total: NDArray[Any] = rows.gather(form, _add_blocks, beside=self._by_block())
        return total

    def _by_block(self) -> list[tuple[int, IntArray, IntArray]]:
        """Number of rows of every block, and bags and rows (counted within the block) of the memberships there."""
        if len(self.block_sizes) == 1:
            return [(self.n_samples, self.bag_of_member, self.members)]
        order = np.argsort(self.members, kind="stable")
        rows, bags = self.members[order], self.bag_of_member[order]
        ends = np.cumsum(self.block_sizes)
        cuts = np.searchsorted(rows, ends[:-1])
        return [
            (int(size), own_bags, own_rows - (end - size))
            for size, end, own_bags, own_rows in zip(
                self.block_sizes, ends, np.split(bags, cuts), np.split(rows, cuts), strict=True
            )
        ]

    def add(self, member_values: FloatArray) -> FloatArray:
        """Sum of member values (..., n_memberships) over each bag."""
        return np.add.reduceat(member_values, self.starts, axis=-1)

    def scatter(self, member_values: FloatArray) -> FloatArray:
        """Sum of member values (n_memberships,) over the bags of each row; shape (n_samples,)."""
        sums = np.bincount(self.members, weights=member_values, minlength=self.n_samples)
        return sums.astype(np.float64, copy=False)

    def means(self, X: FloatArray) -> FloatArray:
        """Mean row of each bag; shape (n_bags, n_features)."""
        ends = np.append(self.starts, self.members.size)
        incidence = sparse.csr_array(
            (np.repeat(1.0 / self.sizes, self.sizes), self.members, ends), shape=(self.n_bags, self.n_samples)
        )
        return np.asarray(incidence @ X)
