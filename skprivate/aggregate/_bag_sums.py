"""Sums over random bags and back: the only structure that learning from random bags needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray

IntArray = NDArray[np.int64]


class BagSums:
    """Bags as lists of rows.

    Parameters
    ----------
    members : ndarray of int64, shape (n_memberships,)
        Rows of the first bag, then of the second, …
    sizes : ndarray of int64, shape (n_bags,)
    n_samples : int
        Number of rows that bags were drawn from.
    """

    def __init__(self, members: IntArray, sizes: IntArray, n_samples: int) -> None:
        self.members = members
        self.sizes = sizes
        self.n_samples = n_samples
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.bag_of_member = np.repeat(np.arange(sizes.size), sizes)

    @property
    def n_bags(self) -> int:
        return int(self.sizes.size)

    def appearances(self) -> int:
        """Largest number of times that one row is in a bag."""
        return int(np.bincount(self.members, minlength=1).max())

    @property
    def bag_sizes(self) -> IntArray:
        return self.sizes

    def label_sums(self, targets: FloatArray) -> FloatArray:
        """Private: sums (n_bags, n_outputs) of the targets (n_outputs, n_samples)."""
        return np.ascontiguousarray(self.add(targets[:, self.members]).T)

    def integer_sums(self, contributions: FloatArray) -> IntArray:
        """Private: exact sums (n_bags, n_outputs) of integers (n_outputs, n_samples) of at most 2³⁰."""
        # In float64, 2²² of them stay below 2⁵³.
        exact: NDArray[Any] = contributions if self.sizes.max() <= 1 << 22 else contributions.astype(np.int64)
        return self.label_sums(exact).astype(np.int64)

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
