"""Rows grouped by the user they belong to.

The unit of privacy is a user, so everything that leaves this package passes through one vector per user. This
module turns ``user_ids`` into a sparse grouping that sums rows by user without sorting or copying the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from skprivate._identifiers import encode_identifiers

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    n_users, n_rows : int
    sizes : ndarray of shape (n_users,), int64
        Rows of each user.
    weights : ndarray of shape (n_users,)
        Weight of each user, in (0, 1].
    singletons : bool
        Every user has exactly one row, in row order.
    """

    def __init__(self, codes: IntArray, weight_cap: int = 1) -> None:
        self.weight_cap = weight_cap
        self.n_rows = len(codes)
        self.sizes: IntArray = np.bincount(codes).astype(np.int64)
        self.n_users = len(self.sizes)
        self.weights: FloatArray = np.minimum(self.sizes, weight_cap) / weight_cap
        self._starts: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])
        self.order: IntArray = np.argsort(codes, kind="stable").astype(np.int64)
        self._inverse_sizes: FloatArray = 1.0 / self.sizes
        self.singletons = self.n_users == self.n_rows and bool((np.diff(codes) == 1).all())

    @property
    def in_order(self) -> bool:
        """Whether every user's rows lie together, in the order of the users."""
        return bool((np.diff(self.order) == 1).all())

    def sorted(self) -> UserGroups:
        """The same users with their rows in ``order``."""
        return UserGroups(np.repeat(np.arange(self.n_users), self.sizes), self.weight_cap)

    def mean(self, rows: npt.NDArray[Any], row_factor: FloatArray | None = None) -> FloatArray:
        """Mean over each user's rows of ``row_factor[i] * rows[i]``.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, k) or (n_rows,)
        row_factor : ndarray of shape (n_rows,), optional

        Returns
        -------
        means : ndarray of shape (n_users, k) or (n_users,)
        """
        if self.singletons:
            if row_factor is None:
                return np.asarray(rows, dtype=np.float64)
            return np.asarray((rows.T * row_factor).T, dtype=np.float64)
        if row_factor is None:
            factor = np.repeat(self._inverse_sizes, self.sizes)
        else:
            factor = row_factor[self.order] * np.repeat(self._inverse_sizes, self.sizes)
        # A sparse product reads each row once and needs no sorted or scaled copy of the data.
        averaging = sparse.csr_array((factor, self.order, self._starts), shape=(self.n_users, self.n_rows))
        return np.asarray(averaging @ rows, dtype=np.float64)

    def rows_of(self, users: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of some users, and the new number of the user of each."""
        sizes = self.sizes[users]
        ends = np.cumsum(sizes)
        within = np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
        rows = self.order[np.repeat(self._starts[users], sizes) + within]
        return rows, np.repeat(np.arange(len(users)), sizes)

    def batches_of_equal_size(self, max_rows: int) -> list[tuple[IntArray, IntArray]]:
        """Users in batches whose members have equally many rows: (users, rows of shape (users, size)).

        At most ``max_rows`` rows a batch unless one user alone has more, so that batched BLAS calls need neither
        padding nor a loop over users.
        """
        batches = []
        if self.n_users == 0:
            return []
        by_size = np.argsort(self.sizes, kind="stable")
        boundaries = np.flatnonzero(np.diff(self.sizes[by_size])) + 1
        for same in np.split(by_size, boundaries):
            size = int(self.sizes[same[0]])
            step = max(1, max_rows // size)
            for first in range(0, len(same), step):
                users = same[first : first + step]
                rows = self.order[self._starts[users][:, None] + np.arange(size)]
                batches.append((users, rows))
        return batches


def user_magnitudes(y: FloatArray, groups: UserGroups) -> FloatArray:
    """Root mean square of each user's numbers; infinite where it overflows."""
    with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
        return np.asarray(np.sqrt(groups.mean(np.square(y))))


def encode_users(user_ids: Any, n_rows: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """Numbers of the users of the rows and their identifiers (`encode_identifiers`); without ``user_ids`` each row is
    its own user, with its position for a name."""
    if user_ids is None:
        codes = np.arange(n_rows, dtype=np.int64)
        return codes, codes
    return encode_identifiers(user_ids, n_rows)
