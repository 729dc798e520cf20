"""The loss of an additive model over single rows, from label sums alone (Theorem 1, read as an evaluation).

With the score ŷ = β₀ + Σ_j f_j, Σ_rows ℓ(y, ŷ) = Σ_rows b(ŷ) − Σ_rows y·ŷ, and where f_j is the same for all rows of
a bag of some table, Σ_rows y·f_j is a sum over that table's bags of (label sum)·f_j: exact, and linear in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skprivate.aggregate._curated_bags import CuratedBags
from skprivate.aggregate._input import read_columns
from skprivate.aggregate._losses import FloatArray, LossName, partition
from skprivate.aggregate._membership import MatchedRows, match_rows


def additive_loss(model: Any, X: Any, bags: CuratedBags, loss: LossName) -> float:
    """Mean loss over rows of an additive model; of the squared loss, less the mean square of the labels.

    Parameters
    ----------
    model : fitted curated-bag model
    X : DataFrame or array-like of shape (n_samples, n_features)
        The rows of the bags.
    bags : CuratedBags
    loss : {"log", "multinomial", "squared", "poisson"}

    Raises
    ------
    ValueError
        If some feature set of the model is the same within the bags of no table.
    """
    report, matched = match_rows(bags, *read_columns(X))
    parts = model.contributions(X)
    parts = parts[:, :, np.newaxis] if parts.ndim == 2 else parts
    scores = parts.sum(axis=1) + model.intercept_
    linear = np.mean([table.label_sums.sum(axis=0) for table in report.tables], axis=0) @ model.intercept_
    for j, feature_set in enumerate(model.feature_sets_):
        linear += _label_sum(report, matched, parts[:, j], feature_set)
    value, _ = partition(loss, np.ascontiguousarray(scores.T))
    mean = (float(value.sum()) - float(linear)) / report.n_samples
    return 2 * mean if loss == "squared" else mean


def _label_sum(report: CuratedBags, matched: MatchedRows, part: FloatArray, feature_set: Any) -> float:
    """Sum over rows of label times contribution, by the table that says it with the least noise."""
    found: list[tuple[float, float]] = []
    for table, cells in zip(report.tables, matched.cells, strict=True):
        of_bag = np.empty((table.n_bags, part.shape[1]))
        of_bag[cells] = part
        if np.array_equal(of_bag[cells], part):
            noise = table.noise_variance * float(np.sum(of_bag**2))
            found.append((noise, float(np.sum(table.label_sums * of_bag))))
    if not found:
        raise ValueError(
            f"level='rows' needs bags within which the model's feature set {tuple(feature_set)} has one coefficient: a "
            "table of the same or more columns, cut alike, without merged rare bags. Use level='bags'."
        )
    return min(found)[1]
