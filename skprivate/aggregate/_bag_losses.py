"""Losses against released aggregates of bags, which need no single label.

Scores of a model. A semilinear loss ℓ(y, μ) = b(μ) − y·t(μ) of a prediction that is the same in a whole bag adds up
to c·b(μ) − S·t(μ), with the bag's count c and label sum S. So predictions are averaged over every bag, and the result
is *exactly* the mean loss of the averaged predictions over all rows. It is linear in S: noise of mean zero leaves it
unbiased, whatever its scale. Over single rows, with the score ŷ = β₀ + Σ_j f_j of an additive model, Σ_rows ℓ(y, ŷ)
is Σ_rows b(ŷ) − Σ_rows y·ŷ. Where f_j is the same for all rows of a bag of some table, Σ_rows y·f_j is a sum over
that table's bags of (label sum)·f_j: exact, and linear in them (Theorem 1, read as an evaluation).

Objectives of networks. Every loss has the weight of as many observations as there are bags, so that a penalty means
the same for all of them: a bag counts as one row, less what the noise of its sum hides. Let u and v be numbers of
rows, and P the mean of u·v over all ordered pairs of different rows, R that over rows with themselves. Rows are put
into the places of the bags at random. A product of two bag means, weighted by the bags' sizes and averaged, has the
mean νR + (1 − ν)P, with ν = bags/memberships: that share of the pairs of places which it averages is of one row. The
product of the two means over all bags has ρR + (1 − ρ)P, ρ = Σ (bags of a row)²/memberships². Hence

    R = E[A + κV],   A = Σ w ū v̄,   V = Σ w (ū − mean)(v̄ − mean),   κ = (1 − ν)/(ν − ρ),

exactly, for bags that share rows or do not, of any sizes, and for some of the bags as for all of them. With u = v = h
− y that is the debiased square loss (for equal bags Theorem 2's, with the bias of ‖r̄‖² taken out). With u = y and v
the slope of a loss ℓ(y, f) = a(f) + y·d(f) in the label it is EasyLLP with both factors centred, which changes
nothing on average and leaves much less noise in a batch of few bags (Busa-Fekete and others, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator

from skprivate.aggregate._losses import FloatArray, SquaredLoss
from skprivate.aggregate.random import _fit, _quadratic
from skprivate.aggregate.random._bags import BagSums, RandomBags, as_random_bags
from skprivate.aggregate.tables import _aggregation, _blocks, _cells, _labels
from skprivate.aggregate.tables._curated_bags import CuratedBags, as_curated_bags

BagLoss = Literal["auto", "log", "squared", "poisson"]
LOSSES = ("auto", "log", "squared", "poisson")
#: Probabilities and Poisson means are kept away from 0 by this.
_SMALLEST = float(np.finfo(np.float64).eps)
BagLossName = Literal["likelihood", "log", "squared", "debiased", "easyllp"]
#: Labels vary by no less than this share of what bag means vary by, most of which may be noise.
_LEAST_SHARE = 0.01


def bag_score(
    model: BaseEstimator, X: Any, bags: object, *, loss: BagLoss = "auto", level: Literal["bags", "rows"] = "bags"
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

    See Also
    --------
    sklearn.metrics.log_loss : Computes the loss of individual labels.

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
    bags = _as_bags(bags)
    if level not in ("bags", "rows"):
        raise ValueError(f"level must be 'bags' or 'rows', got {level!r}.")
    if loss == "auto" and bags.classes is None and getattr(model, "loss", None) == "poisson":
        loss = "poisson"
    if level == "rows":
        return -_row_loss(model, X, bags, loss)
    if bags.classes is None and not hasattr(model, "classes_"):
        return -bag_loss(bags, model.predict(X), X, loss=loss)
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"model must have predict_proba for bags of classes, got {type(model).__name__}.")
    probabilities = model.predict_proba(X)
    if bags.classes is not None and not _labels.are_labels(bags.classes):
        _refuse_other_classes(model, bags)
    return -bag_loss(bags, probabilities, X, loss="log" if loss == "auto" else loss)


def bag_loss(bags: object, y_pred: object, X: Any = None, *, loss: BagLoss = "auto") -> float:
    """Average the loss of predictions over every bag, against label sums; of several tables, over tables."""
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
            raise ValueError("X must be the rows that were aggregated, got None: curated bags do not list theirs.")
        outputs = report.n_outputs
        report, matched = _aggregation.match_rows(report, *_blocks.read_columns(X))
        parts = [
            _Part(cells >= 0, cells[cells >= 0], table.counts, table.label_sums, table.noise_variance)
            for cells, table in zip(matched.cells, report.tables, strict=True)
        ]
    multinomial = report.classes is not None and outputs > 1 and not _labels.are_labels(report.classes)
    mean = _check_predictions(y_pred, report.n_samples, outputs, chosen, multinomial)
    return float(np.mean([part.loss(mean, chosen, multinomial) for part in parts]))


@dataclass(frozen=True, eq=False)
class _Part:
    """Disjoint bags of one table, or all random bags: member k is row ``rows[k]`` in bag ``bags[k]``."""

    rows: NDArray[Any] | slice
    bags: NDArray[Any]
    counts: _cells.IntArray
    sums: FloatArray
    noise_variance: Any

    def loss(self, predictions: FloatArray, loss: str, multinomial: bool) -> float:
        """Average the loss over rows of predictions (n_rows, n_outputs), which are averaged over every bag."""
        counts, sums = self.counts[:, np.newaxis], self.sums
        columns = [np.bincount(self.bags, m, self.counts.size) for m in predictions[self.rows].T]
        mean = np.stack(columns, axis=1) / counts
        if loss == "squared":
            total = ((sums - counts * mean) ** 2 - np.asarray(self.noise_variance)) / counts
        else:
            free: FloatArray | float = mean if loss == "poisson" else 0.0
            slope = np.log(np.maximum(mean, _SMALLEST))
            if loss == "log" and not multinomial:
                rest = np.log(np.maximum(1 - mean, _SMALLEST))
                free, slope = -rest, slope - rest
            total = counts * free - sums * slope
        return float(np.sum(total)) / float(self.counts.sum())


def _row_loss(model: BaseEstimator, X: Any, bags: CuratedBags | RandomBags, loss: BagLoss) -> float:
    """Average the loss of an additive model over rows; the squared loss leaves out the mean square of the labels."""
    if not isinstance(bags, CuratedBags) or not hasattr(model, "contributions"):
        raise ValueError(
            f"level='rows' is for curated bags and additive models of them, got {type(bags).__name__} and "
            f"{type(model).__name__}. Use level='bags'."
        )
    fitted_loss: SquaredLoss = model._loss(model.intercept_.size)
    if loss not in ("auto", {"multinomial": "log"}.get(fitted_loss.name, fitted_loss.name)):
        raise ValueError(
            f"level='rows' is for the loss that the model was fitted by, got {loss!r} for {fitted_loss.name!r}."
        )
    _refuse_other_classes(model, bags)
    bags, matched = _aggregation.match_rows(bags, *_blocks.read_columns(X))
    parts = model.contributions(X)
    parts = parts[:, :, np.newaxis] if parts.ndim == 2 else parts
    scores = parts.sum(axis=1) + model.intercept_
    totals = [table.label_sums.sum(axis=0) for table in bags.tables if table.counts.sum() == bags.n_samples]
    linear = np.mean(totals, axis=0) @ model.intercept_
    for j, feature_set in enumerate(model.feature_sets_):
        linear += _label_sum(bags, matched, parts[:, j], feature_set)
    value, _ = fitted_loss.partition(np.ascontiguousarray(scores.T))
    mean = (float(value.sum()) - float(linear)) / bags.n_samples
    return 2 * mean if fitted_loss.quadratic else mean


def _refuse_other_classes(model: BaseEstimator, bags: CuratedBags | RandomBags) -> None:
    known = np.asarray(getattr(model, "classes_", ())).tolist()
    if known != np.asarray(bags.classes or ()).tolist():
        raise ValueError(f"model knows the classes {known}, bags count {list(bags.classes or ())}.")


def _label_sum(bags: CuratedBags, matched: _aggregation.MatchedRows, part: FloatArray, feature_set: Any) -> float:
    """Sum label times contribution over rows, by the table of the least noise."""
    sums: list[tuple[float, float]] = []  # noise, and the sum
    for table, cells in zip(bags.tables, matched.cells, strict=True):
        of_bag = np.zeros((table.n_bags + 1, part.shape[1]))  # the last for rows without a bag
        of_bag[cells] = part
        if np.array_equal(of_bag[cells], part) and not np.any(of_bag[-1]):
            noise = float(np.sum(np.asarray(table.noise_variance) * of_bag**2))
            sums.append((noise, float(np.sum(table.label_sums * of_bag[:-1]))))
    if not sums:
        raise ValueError(
            f"level='rows' needs bags within which the model's feature set {tuple(feature_set)} has one coefficient: a "
            "table of the same or more columns, cut alike, without merged rare bags. Use level='bags'."
        )
    return min(sums)[1]


def _as_bags(bags: object) -> CuratedBags | RandomBags:
    is_random = isinstance(bags, RandomBags) or (isinstance(bags, Mapping) and "members" in bags)
    return as_random_bags(bags) if is_random else as_curated_bags(bags)


def _check_predictions(prediction: Any, n: int, outputs: int, loss: str, multinomial: bool) -> FloatArray:
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


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Mean products of rows from bag means: weights of the bags, and κ (0 where bags cannot tell)."""

    weight: FloatArray
    excess: float

    @classmethod
    def of(cls, bags: BagSums) -> RowProducts:
        """Compute weights and κ for bags that hold no row twice."""
        total = bags.members.size
        _, appearances = np.unique(bags.members, return_counts=True)
        same = bags.n_bags / total
        same_of_all = float(np.sum(appearances.astype(np.float64) ** 2)) / total**2
        between = same - same_of_all
        excess = (1.0 - same) / between if between > 1e-12 * same else 0.0
        return cls(bags.sizes / total, excess)

    def values(self, u: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate each bag's part (n_bags,) of the mean product, and its gradient in v."""
        slope = self.weight * (u + self.excess * (u - self.weight @ u))
        about = v - self.weight @ v
        return self.weight * (u * v + self.excess * (u - self.weight @ u) * about), slope


def square_loss(
    bags: BagSums, predicted: FloatArray, labels: FloatArray, *, debiased: bool
) -> tuple[FloatArray, FloatArray]:
    """Evaluate ½(prediction − label)² of bag means, or debiased to rows, by bag, and the gradient in each member.

    Noise on the labels adds its variance to the value, and nothing to the gradient, on average.
    """
    products = RowProducts.of(bags) if debiased else RowProducts(bags.sizes / bags.members.size, 0.0)
    residual = bags.add(predicted) / bags.sizes - labels
    values, slope = products.values(residual, residual)
    return 0.5 * values, (slope / bags.sizes)[bags.bag_of_member]


def easy_loss(
    bags: BagSums, scores: FloatArray, labels: FloatArray, *, logistic: bool
) -> tuple[FloatArray, FloatArray]:
    """Evaluate the mean of a(f) − y·f over rows, a = log(1 + eᶠ) or ½f², by bag, and the gradient in each member.

    Unbiased noise on the labels leaves everything unbiased.
    """
    total = bags.members.size
    if logistic:
        free, mean = np.logaddexp(0.0, scores), np.exp(-np.logaddexp(0.0, -scores))
    else:
        free, mean = 0.5 * scores**2, scores
    values, slope = RowProducts.of(bags).values(labels, bags.add(scores) / bags.sizes)
    return bags.add(free) / total - values, mean / total - (slope / bags.sizes)[bags.bag_of_member]


@dataclass(frozen=True, eq=False)
class OutputLoss:
    """Loss of one output's scores.

    ``labels`` are the mean labels of the bags, and ``start`` is the score of the constant model. ``weight``
    multiplies `square_loss` or `easy_loss`, ``counts`` is for the likelihoods. ``gain`` bounds by how much any scores
    beat the constant.
    """

    kind: BagLossName
    labels: FloatArray
    weight: float
    start: float
    gain: float
    counts: _fit.CountLoss | None = None
    logistic: bool = True

    def values(self, bags: BagSums, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate each bag's part of the loss per membership, and its gradient in the scores of memberships."""
        if self.counts is not None:
            values, slope = self.counts.values(bags, scores)
            return values / bags.members.size, slope / bags.members.size
        if self.kind == "easyllp":
            values, slope = easy_loss(bags, scores, self.labels, logistic=self.logistic)
        else:
            predicted = expit(scores) if self.logistic else scores
            values, slope = square_loss(bags, predicted, self.labels, debiased=self.kind == "debiased")
            if self.logistic:
                slope = slope * predicted * (1 - predicted)
        return self.weight * values, self.weight * slope

    def take(self, which: _cells.IntArray) -> OutputLoss:
        counts = None if self.counts is None else self.counts.take(which)
        return replace(self, labels=self.labels[which], counts=counts)


@dataclass(frozen=True, eq=False)
class BagObjective:
    """Loss of scores of shape (n_memberships, n_outputs): a sum over outputs."""

    bags: BagSums
    outputs: tuple[OutputLoss, ...]

    @property
    def start(self) -> FloatArray:
        return np.array([output.start for output in self.outputs])

    @property
    def gain(self) -> float:
        return sum(output.gain for output in self.outputs)

    def values(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate each bag's part of the loss per membership, and its gradient (n_memberships, n_outputs)."""
        parts = [output.values(self.bags, np.ascontiguousarray(scores[:, k])) for k, output in enumerate(self.outputs)]
        return np.sum([values for values, _ in parts], axis=0), np.stack([slope for _, slope in parts], axis=1)

    def take(self, which: _cells.IntArray) -> tuple[BagObjective, _cells.IntArray]:
        """Restrict the loss to some bags; returns the places of their memberships too."""
        bags, places = self.bags.take(which)
        return BagObjective(bags, tuple(output.take(which) for output in self.outputs)), places


def class_objective(bags: RandomBags, loss: BagLossName) -> BagObjective:
    """Make the objective of log-odds of each output, one against the rest.

    The losses "squared" and "debiased" are of probabilities, the others as in `fit_likelihood`.
    """
    total = float(bags.sizes.sum())
    size = total / bags.n_bags
    outputs = []
    for k, labels in enumerate(bags.means().T):
        error = math.sqrt(bags.n_bags * bags.noise_variance) / total + 0.5 / total
        share = float(np.clip(bags.sizes @ labels / total, min(error, 0.5), 1 - min(error, 0.5)))
        counts = None
        variance = share * (1 - share)
        signal = _signal_share(bags, variance, variance)
        gain = bags.n_bags * signal * (_fit.binary_entropy(share) if loss == "easyllp" else 0.5)
        if loss in ("likelihood", "log"):
            counts = _fit.CountLoss.of(bags, k, of_mean=loss == "log", tempered=True)
            gain = counts.gain(share)
        weight = signal * {"squared": 1 / variance, "debiased": 1 / variance / size}.get(loss, 1 / size)
        start = math.log(share / (1 - share))
        outputs.append(OutputLoss(kind=loss, labels=labels, weight=weight, start=start, gain=gain, counts=counts))
    return BagObjective(bags.structure, tuple(outputs))


def number_objective(
    bags: RandomBags, loss: BagLossName, label_bounds: tuple[float, float] | None
) -> tuple[BagObjective, FloatArray, FloatArray]:
    """Make the objective of standardised numbers, and centre and scale (n_outputs,) of the labels.

    Centre and scale are estimated from the released aggregates, so that the units of the labels do not matter.
    """
    size = float(bags.sizes.mean())
    means = bags.means()
    mean = bags.sizes @ means / float(bags.sizes.sum())
    centre = _quadratic.mean_label(bags, mean, label_bounds)
    about = means - mean
    # Of one row, as the means of bags vary: labels of rows that have nothing to do with each other, and noise.
    rows = bags.sizes if bags.label_release != "bernoulli" else np.ones(bags.n_bags)
    spread = rows @ about**2 / max(bags.n_bags - 1, 1)
    variance = np.maximum(spread - bags.noise_variance * float(np.mean(1 / bags.sizes)), _LEAST_SHARE * spread)
    if label_bounds is not None:
        variance = np.minimum(variance, ((label_bounds[1] - label_bounds[0]) / 2) ** 2)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    outputs = []
    for k, unit in enumerate(scale):
        signal = _signal_share(bags, float(unit**2), float(unit**2))
        weight = signal if loss == "squared" else signal / size
        labels, gain = (means[:, k] - centre[k]) / unit, 0.5 * bags.n_bags * signal
        outputs.append(OutputLoss(kind=loss, labels=labels, weight=weight, start=0.0, gain=gain, logistic=False))
    return BagObjective(bags.structure, tuple(outputs)), centre, scale


def _signal_share(bags: RandomBags, variance: float, bit_variance: float) -> float:
    """Compute the share of a bag mean's variance that its labels make, the rest being noise."""
    size = float(bags.sizes.mean())
    noise = bags.noise_variance / size
    if bags.label_release == "bernoulli":
        noise = size * bit_variance
    return variance / (variance + noise)
