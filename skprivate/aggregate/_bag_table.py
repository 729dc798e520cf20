"""The bags of one feature set: counts and label sums by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.aggregate._cells import IntArray
from skprivate.aggregate._columns import CodeArray
from skprivate.aggregate._losses import FloatArray


@dataclass(frozen=True, eq=False)
class BagTable:
    """The bags of one feature set.

    Parameters
    ----------
    feature_set : tuple of str
        Names of the columns.
    keys : ndarray of int32, shape (n_bags, len(feature_set))
        Codes of the column values that the bag's rows share (their meaning is in `CuratedBags.columns`), in
        increasing order. A last row of -1 is the bag of all rare combinations.
    counts : ndarray of int64, shape (n_bags,)
        Rows per bag; public.
    label_sums : ndarray of float64, shape (n_bags, n_outputs)
        Sum of the labels: of the positive class of two, per class of several, or of numbers.
    noise_variance : float
        Variance of the label-privacy noise in each sum.
    """

    feature_set: tuple[str, ...]
    keys: CodeArray
    counts: IntArray
    label_sums: FloatArray
    noise_variance: float = 0.0

    @property
    def n_bags(self) -> int:
        return int(self.counts.size)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return {
            "feature_set": list(self.feature_set),
            "keys": self.keys.tolist(),
            "counts": self.counts.tolist(),
            "label_sums": self.label_sums.tolist(),
            "noise_variance": self.noise_variance,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BagTable:
        """Inverse of `to_dict`, with checks of the shapes."""
        name = tuple(str(column) for column in plain["feature_set"])
        counts = np.asarray(plain["counts"], dtype=np.int64).reshape(-1)
        keys = np.asarray(plain["keys"], dtype=np.int32).reshape(counts.size, -1)
        sums = np.asarray(plain["label_sums"], dtype=np.float64)
        sums = sums[:, np.newaxis] if sums.ndim == 1 else sums
        if keys.shape[1] != len(name) or sums.shape[0] != counts.size:
            raise ValueError(
                f"bag table {name}: keys {keys.shape}, counts {counts.shape} and label_sums {sums.shape} do not fit "
                "together."
            )
        if not np.all(np.isfinite(sums)):
            raise ValueError(f"bag table {name}: label_sums must be finite.")
        return cls(name, keys, counts, sums, float(plain.get("noise_variance", 0.0)))
