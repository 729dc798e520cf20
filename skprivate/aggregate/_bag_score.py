"""Losses of predictions against label sums, which need no single label.

A semilinear loss ℓ(y, μ) = b(μ) − y·t(μ) of a prediction that is the same in a whole bag adds up over the bag to
c·b(μ) − S·t(μ), with the bag's count c and label sum S. So predictions are averaged over every bag, and what is
computed is *exactly* the mean loss of the averaged predictions over all rows. It is linear in S: noise of mean zero
leaves it unbiased, whatever its scale, and a negative sum is as good as any.

Over single rows, with the score ŷ = β₀ + Σ_j f_j of an additive model, Σ_rows ℓ(y, ŷ) = Σ_rows b(ŷ) − Σ_rows y·ŷ, and
where f_j is the same for all rows of a bag of some table, Σ_rows y·f_j is a sum over that table's bags of (label
sum)·f_j: exact, and linear in them (Theorem 1, read as an evaluation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray, LossName, partition
from skprivate.aggregate.random._bags import RandomBags, as_random_bags
from skprivate.aggregate.tables._blocks import read_columns
from skprivate.aggregate.tables._cells import IntArray
from skprivate.aggregate.tables._curated_bags import CuratedBags, as_curated_bags
from skprivate.aggregate.tables._membership import MatchedRows, match_rows

BagLoss = Literal["auto", "log", "squared", "poisson"]
LOSSES = ("auto", "log", "squared", "poisson")
#: Probabilities and Poisson means are kept away from 0 by this.
_SMALLEST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class _Part:
    """Disjoint bags of one table, or all random bags: member k is row ``rows[k]`` in bag ``bags[k]``."""

    rows: NDArray[Any] | slice
    bags: NDArray[Any]
    counts: IntArray
    sums: FloatArray
    noise_variance: float

    def averaged(self, predictions: FloatArray) -> FloatArray:
        """Mean prediction of every bag, shape (n_bags, n_outputs)."""
        members = predictions[self.rows]
        columns = [np.bincount(self.bags, m, self.counts.size) for m in members.T]
        return np.stack(columns, axis=1) / self.counts[:, np.newaxis]


def bag_score(
    model: Any, X: Any, bags: Any, *, loss: BagLoss = "auto", level: Literal["bags", "rows"] = "bags"
) -> float:
    """Minus the loss of a fitted model against label sums: the greater, the better.

    Parameters
    ----------
    model : estimator
        With ``predict_proba`` for classes, else with ``predict``.
    X : DataFrame or array-like of shape (n_samples, n_features)
        The rows of the bags, as the model takes them.
    bags : CuratedBags, RandomBags, or the to_dict() of one
        Best of other rows than those that the model learnt from.
    loss : {"auto", "log", "squared", "poisson"}, default="auto"
        "auto" is "log" for classifiers, "poisson" for Poisson models and "squared" for others.
    level : {"bags", "rows"}, default="bags"
        "bags": the loss of predictions that are averaged over every bag, of any model. "rows": the loss over single
        rows, for curated-bag models and curated bags within which each of the model's feature sets has one
        coefficient. It sees what "bags" averages away. Compare scores of one level only.

    Returns
    -------
    float
        Unbiased over label noise at both levels, so that a squared loss may be negative. The squared loss at level
        "rows" leaves out the mean square of the labels, the same for all models.

    Raises
    ------
    TypeError
        If bags are none.
    ValueError
        If predictions do not fit the bags; if the model does not know the classes of the bags, or has no
        probabilities; for "rows", if the model is not additive or no table tells the labels of one of its feature
        sets.

    Notes
    -----
    Level "bags": "log" is the mean log loss over all rows; "squared" the mean over all rows of (mean label of the bag −
    mean prediction)², less what the label noise adds to it; "poisson" the mean of μ − y log μ. Of several tables, the
    mean over tables. For one-bit ("bernoulli") random bags the squared loss is larger by the variance of the bits, the
    same for all models. Numbers are those that were summed, clipped to their bounds.

    What bags do not tell apart, the loss does not see: predictions that differ within bags only have the same loss. A
    model that learnt from the same bags (and from the same noise) is flattered, as any model on its training data:
    compare models on bags of other rows. Post-processing: nothing is drawn or spent.

    Examples
    --------
    >>> from skprivate import CuratedBagGAMClassifier, make_curated_bags
    >>> from skprivate.aggregate import bag_score
    >>> X, y = [["a"], ["b"]] * 50, [0, 1] * 50
    >>> model = CuratedBagGAMClassifier().fit_bags(X, make_curated_bags(X, y))
    >>> bag_score(model, X, make_curated_bags(X, y)) > -0.1
    True
    """
    report = _as_bags(bags)
    if level not in ("bags", "rows"):
        raise ValueError(f"level must be 'bags' or 'rows', got {level!r}.")
    if loss == "auto" and report.classes is None and getattr(model, "loss", None) == "poisson":
        loss = "poisson"
    if level == "rows":
        return -_row_loss(model, X, report, loss)
    if report.classes is None and not hasattr(model, "classes_"):
        return -bag_loss(report, model.predict(X), X, loss=loss)
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"model must have predict_proba for bags of classes, got {type(model).__name__}.")
    probabilities = model.predict_proba(X)
    if report.classes is not None:
        known = np.asarray(model.classes_).tolist()
        absent = [label for label in report.classes if label not in known]
        if absent or len(known) != len(report.classes):
            raise ValueError(f"model knows the classes {known}, bags count {list(report.classes)}.")
        probabilities = probabilities[:, [known.index(label) for label in report.classes]]
    return -bag_loss(report, probabilities, X, loss="log" if loss == "auto" else loss)


def bag_loss(bags: Any, y_pred: Any, X: Any = None, *, loss: BagLoss = "auto") -> float:
    """Loss of predictions, averaged over every bag, against label sums; of several tables, the mean over tables."""
    parts, multinomial, chosen, mean = _prepare(bags, X, loss, y_pred)
    return float(np.mean([_loss_of(part, part.averaged(mean), chosen, multinomial) for part in parts]))


def _row_loss(model: Any, X: Any, report: CuratedBags | RandomBags, loss: BagLoss) -> float:
    if not isinstance(report, CuratedBags) or not hasattr(model, "contributions"):
        raise ValueError(
            f"level='rows' is for curated bags and additive models of them, got {type(report).__name__} and "
            f"{type(model).__name__}. Use level='bags'."
        )
    own = model._loss()
    if loss not in ("auto", {"multinomial": "log"}.get(own, own)):
        raise ValueError(
            f"level='rows' is for the loss that the model was fitted by, got {loss!r} for {own!r}."
        )
    known = np.asarray(getattr(model, "classes_", ())).tolist()
    if known != list(report.classes or ()):
        raise ValueError(f"model knows the classes {known}, bags count {list(report.classes or ())}.")
    return _additive_loss(model, X, report, own)


def _additive_loss(model: Any, X: Any, bags: CuratedBags, loss: LossName) -> float:
    """Mean loss over rows of an additive model; of the squared loss, less the mean square of the labels."""
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


def _as_bags(bags: Any) -> CuratedBags | RandomBags:
    is_random = isinstance(bags, RandomBags) or (isinstance(bags, Mapping) and "members" in bags)
    return as_random_bags(bags) if is_random else as_curated_bags(bags)


def _prepare(bags: Any, X: Any, loss: Any, prediction: Any) -> tuple[list[_Part], bool, str, FloatArray]:
    """Parts, whether outputs are classes of one label, the loss, and predictions of shape (n_samples, n_outputs)."""
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {LOSSES}, got {loss!r}.")
    report = _as_bags(bags)
    chosen = ("squared" if report.classes is None else "log") if loss == "auto" else str(loss)
    if isinstance(report, RandomBags):
        outputs = report.label_sums.shape[1]
        bit = report.label_release == "bernoulli"
        sums = report.label_sums * report.sizes[:, np.newaxis] if bit else report.label_sums
        structure = report.structure
        parts = [_Part(structure.members, structure.bag_of_member, report.sizes, sums, report.noise_variance)]
    else:
        if X is None:
            raise ValueError(
                "X must be the rows that were aggregated, got None: curated bags do not list theirs."
            )
        outputs = report.n_outputs
        report, matched = match_rows(report, *read_columns(X))
        parts = [
            _Part(slice(None), cells, table.counts, table.label_sums, table.noise_variance)
            for cells, table in zip(matched.cells, report.tables, strict=True)
        ]
    multinomial = report.classes is not None and outputs > 1
    return parts, multinomial, chosen, _check(prediction, report.n_samples, outputs, chosen, multinomial)


def _check(prediction: Any, n: int, outputs: int, loss: str, multinomial: bool) -> FloatArray:
    means = np.asarray(prediction, dtype=np.float64)
    means = means[:, np.newaxis] if means.ndim == 1 else means
    if loss == "log" and outputs == 1 and means.ndim == 2 and means.shape[1] == 2:
        means = means[:, 1:]
    if means.shape != (n, outputs):
        raise ValueError(
            f"y_pred must have one row for each of the {n} rows of the bags and {outputs} columns, got shape "
            f"{np.shape(prediction)}."
        )
    low, high = {"log": (0.0, 1.0), "poisson": (0.0, np.inf)}.get(loss, (-np.inf, np.inf))
    if not np.all(np.isfinite(means)) or np.any(means < low) or np.any(means > high):
        raise ValueError(f"y_pred must hold finite numbers between {low} and {high} for loss={loss!r}.")
    if multinomial and loss == "log" and np.any(np.abs(means.sum(axis=1) - 1) > 1e-6):
        raise ValueError("y_pred must hold probabilities that add up to 1 in every row.")
    return means


def _loss_of(part: _Part, mean: FloatArray, loss: str, multinomial: bool) -> float:
    """Mean loss over rows of predictions that are the same in each bag."""
    counts, sums = part.counts[:, np.newaxis], part.sums
    if loss == "squared":
        total = ((sums - counts * mean) ** 2 - part.noise_variance) / counts
    else:
        total = counts * _OFFSETS[loss](mean, multinomial) - sums * _slope(mean, loss, multinomial)
    return float(np.sum(total)) / float(part.counts.sum())


def _slope(mean: FloatArray, loss: str, multinomial: bool) -> FloatArray:
    """t(μ): minus the derivative of the loss by the label sum, up to a term without μ."""
    if loss == "squared":
        return 2 * mean
    logs = np.log(np.maximum(mean, _SMALLEST))
    return logs if loss == "poisson" or multinomial else logs - np.log(np.maximum(1 - mean, _SMALLEST))


def _no_offset_of_classes(mean: FloatArray, multinomial: bool) -> FloatArray:
    return np.zeros_like(mean) if multinomial else cast(FloatArray, -np.log(np.maximum(1 - mean, _SMALLEST)))


#: b(μ) of the losses that are reported as they are.
_OFFSETS: dict[str, Callable[[FloatArray, bool], FloatArray]] = {
    "log": _no_offset_of_classes,
    "poisson": lambda mean, multinomial: mean,
}
