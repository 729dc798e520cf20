"""Rows grouped by the user they belong to.

The unit of privacy is a user, so everything that leaves this package passes through one vector per user. That vector
must be a function of the user's own rows, to the last bit: rows are brought together user by user, and sums over a
user's rows run over these rows alone, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from skprivate.privacy._identifiers import encode_identifiers

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32] | npt.NDArray[np.int64]

#: Rows whose columns are held in cache together. No result depends on it.
BLOCK_ROWS = 2**14


class UserGroups:
    """Which rows belong to which user.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,), int64
        User of each row, numbered 0 … n_users − 1 without gaps.
    weight_cap : int, default=1
        A user with m rows has weight min(m, weight_cap) / weight_cap, which is at most 1 whatever m.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,), int64
    n_users, n_rows : int
    sizes : ndarray of shape (n_users,), int64
        Rows of each user.
    weights : ndarray of shape (n_users,)
        Weight of each user, in (0, 1].
    starts : ndarray of shape (n_users + 1,), int64
        Where each user's rows begin when rows are sorted by user, and the number of rows.
    in_order : bool
        Whether the rows are sorted by user.
    """

    def __init__(self, codes: IntArray, weight_cap: int = 1) -> None:
        self._set_sizes(np.bincount(codes).astype(np.int64), weight_cap)
        self.in_order = bool((codes[1:] >= codes[:-1]).all())
        self._codes: IntArray | None = None if self.in_order else codes

    @classmethod
    def of_sizes(cls, sizes: IntArray, weight_cap: int = 1) -> Self:
        """Users with so many rows each, one user's rows after the other's."""
        groups = cls.__new__(cls)
        groups._set_sizes(sizes, weight_cap)
        groups.in_order, groups._codes = True, None
        return groups

    def _set_sizes(self, sizes: IntArray, weight_cap: int) -> None:
        self.weight_cap = weight_cap
        self.sizes: IntArray = sizes
        self.n_users = len(sizes)
        self.weights: FloatArray = np.minimum(sizes, weight_cap) / weight_cap
        self.starts: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self.n_rows = int(self.starts[-1])

    @property
    def codes(self) -> IntArray:
        """User of each row."""
        if self._codes is not None:
            return self._codes
        codes = np.repeat(np.arange(self.n_users), self.sizes)
        if not self.in_order:
            codes[self.order] = codes.copy()
        return codes

    @cached_property
    def order(self) -> Rows:
        """Rows sorted by user; those of one user in their own order."""
        if self.in_order:
            return np.arange(self.n_rows)
        # A matrix with one entry a row, read column by column: a stable sort by counting, in linear time.
        kind = np.int32 if self.n_rows < 2**31 else np.int64
        codes, ends = self.codes.astype(kind), np.arange(self.n_rows + 1, dtype=kind)
        entries = (np.ones(self.n_rows, dtype=bool), codes, ends)
        by_user: Rows = csr_array(entries, shape=(self.n_rows, self.n_users)).tocsc().indices
        self._codes = None  # they follow from the order
        return by_user

    def subset(self, users: IntArray) -> tuple[Rows, UserGroups]:
        """Rows of some users, sorted by user, and these users alone."""
        sizes = self.sizes[users]
        ends = np.cumsum(sizes)
        within = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
        rows = self.order[np.repeat(self.starts[users], sizes) + within]
        return rows, UserGroups.of_sizes(sizes, self.weight_cap)

    def sorted(self) -> UserGroups:
        """The same users where rows are sorted by user."""
        return self if self.in_order else UserGroups.of_sizes(self.sizes, self.weight_cap)

    def columns(self, X: FloatArray, room: int = 0) -> FloatArray:
        """Rows sorted by user, coordinates first: shape (n_columns, n_rows). No copy where X is that already."""
        if not room and self.in_order and X.T.flags.c_contiguous:
            return X.T
        columns = np.empty((X.shape[1] + room, self.n_rows))
        for rows in row_blocks(self.n_rows):
            columns[: X.shape[1], rows] = self.sorted_rows(X, rows).T
        return columns

    def sorted_rows(self, values: FloatArray, rows: slice) -> FloatArray:
        """Some of the rows sorted by user."""
        if self.in_order:
            return values[rows]
        # Two to three times as fast as an index, where it need not copy all values first.
        return (
            values.take(self.order[rows], axis=0) if values.flags.c_contiguous else values[self.order[rows]]
        )

    def blocks(self, most: int | None = None) -> Iterator[tuple[slice, slice]]:
        """Users and their sorted rows, block by block: at most `BLOCK_ROWS` rows unless one user alone has more.

        Or at most ``most``, where that is less.
        """
        most = BLOCK_ROWS if most is None else min(most, BLOCK_ROWS)
        first = 0
        while first < self.n_users:
            limit = self.starts[first] + most
            last = max(first + 1, int(np.searchsorted(self.starts, limit, side="right")) - 1)
            yield slice(first, last), slice(int(self.starts[first]), int(self.starts[last]))
            first = last

    def block_means(self, values: FloatArray, users: slice) -> FloatArray:
        """Means over each user's rows, for the users of a block and their sorted rows: along the last axis.

        The mean of one row is that row, so a block of users with one row each comes out the same without summing.
        """
        if values.shape[-1] == users.stop - users.start:
            return values
        begins = self.starts[users] - self.starts[users.start]
        return np.asarray(np.add.reduceat(values, begins, axis=-1) / self.sizes[users])

    def block_means_of(self, column: FloatArray) -> FloatArray:
        """Mean of each user's numbers, from numbers sorted by user."""
        return self.block_means(column, slice(0, self.n_users))

    def mean(self, values: FloatArray) -> FloatArray:
        """Mean of each user's rows."""
        means = np.empty((1 if values.ndim == 1 else values.shape[1], self.n_users))
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            for users, rows in self.blocks():
                block = self.sorted_rows(values, rows).reshape(-1, len(means))
                means[:, users] = self.block_means(np.ascontiguousarray(block.T, dtype=np.float64), users)
        return means[0] if values.ndim == 1 else means


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Rows that are held in cache together, where each is treated by itself."""
    for first in range(0, n_rows, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, n_rows))


def user_magnitudes(y: FloatArray, groups: UserGroups, centre: float = 0.0) -> FloatArray:
    """Root mean square distance of each user's numbers to a centre, scaled so that squares stay in range."""
    magnitudes = np.empty(groups.n_users)
    for users, rows in groups.blocks():
        begins, sizes = groups.starts[users] - rows.start, groups.sizes[users]
        distances = groups.sorted_rows(y, rows) - centre
        np.abs(distances, out=distances)
        if len(sizes) == len(distances):
            magnitudes[users] = distances + 0.0 * distances  # as below: infinite ones are not numbers
            continue
        peak = np.maximum.reduceat(distances, begins)
        distances /= np.repeat(np.where(peak > 0.0, peak, 1.0), sizes)
        distances *= distances
        magnitudes[users] = peak * np.sqrt(np.add.reduceat(distances, begins) / sizes)
    return magnitudes


def encode_users(user_ids: Any, n_rows: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """Numbers of the users of the rows and their identifiers (`encode_identifiers`); without ``user_ids`` each row is
    its own user, with its position for a name."""
    if user_ids is None:
        codes = np.arange(n_rows, dtype=np.int64)
        return codes, codes
    return encode_identifiers(user_ids, n_rows)
