"""Classifier from random bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils.validation import column_or_1d

from skprivate import _validation
from skprivate._sklearn import StrOptions, _fit_context
from skprivate.aggregate import _bag_losses, _classifier, _random_bag_base
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.random import _bags, _fit, _quadratic
from skprivate.aggregate.tables import _labels, _sums
from skprivate.partitions import InMemory
from skprivate.privacy import PrivacyLedger

_SMALLEST_ROW_PROBABILITY = 1e-3


class RandomBagClassifier(_classifier.BagClassifierMixin, _random_bag_base.BaseRandomBagModel):
    """Linear classifier or network from the class counts of random bags; binary, multiclass and multilabel.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss bound, ε > 0, of the labels of one row. None: no label privacy.
    bag_size : int, optional
        Rows per bag, m; by default n_samples/256, between 1 and 16.
    n_bags : int, optional
        By default ``n_samples // bag_size``.
    disjoint : bool, default=True
        Whether no row is in two bags; False draws bags independently, as in the paper, and pays for the largest
        number of bags that one row is in.
    label_release : {"auto", "mean", "bernoulli", "laplace"}, default="auto"
        "mean": exact class counts; "bernoulli": one bit per bag and class, the model of the paper's theory; "laplace":
        counts with discrete Laplace noise. The first two promise no privacy and need ``epsilon=None``.
    loss : {"likelihood", "log", "squared", "debiased", "easyllp"}, default="likelihood"
        "likelihood": that of what was released under a logistic model of the rows: the exact distribution of a
        bag's count (normal for bags of more than 64 rows or noisy counts). "log": cross-entropy of the bag
        mean. "squared": squared error of the bag mean under a linear model; "debiased": with the correction of
        Theorem 2 (networks: of probabilities, and the squared error of rows without any bias). "easyllp": log
        loss of rows, with m·(mean of the bag) − (m − 1)·(mean of all) in place of each label: unbiased, and
        noisier than the likelihood the larger bags are.
    alpha : "evidence" or float, default="evidence"
        Ridge penalty on scaled features, for the likelihoods on the sum over rows. "evidence" maximises the marginal
        likelihood of the released aggregates.
    fit_intercept : bool, default=True
        False is for the squared losses only.
    buckets : {"evidence"} or bool, default="evidence"
        Whether the model has, beside each column of more than two numbers, an indicator of each of about 16 buckets of
        its numbers. "evidence": if the marginal likelihood of the released aggregates is larger, and the columns with
        their buckets are at most 600 and 5e7 numbers; not with an ``alpha`` of your own or without an intercept.
    prior : {"evidence", "ridge", "spread"}, default="evidence"
        Covariance of the coefficients of scaled features: "ridge", a multiple of the identity; "spread", of the root of
        the features' own covariance Σ, which lets few bags tell what the features share. "evidence": of the larger
        marginal likelihood; "ridge" with an ``alpha`` of your own or without an intercept.
    submodel : {"linear", "mlp"}, torch.nn.Module or callable, default="linear"
        "mlp": a network of the rows' features; needs torch, as do the others. A module is one from rows, scaled
        as the model sees them, (n, n_inputs) to log-odds (n, n_outputs), and is copied. Any other callable gets
        n_inputs and n_outputs and returns one. Inputs are the columns, and indicators of their buckets unless
        ``buckets=False`` or there are too many. Descent on batches of whole bags; one network learns without
        each fold of bags, their mean predicts.
    submodel_options : dict, optional
        For networks: ``hidden`` (32,), ``weight_decay`` (a number ``alpha``, or 1.0), ``epochs`` 40 at most,
        ``learning_rate`` 0.005, ``batch_size`` in bags, by default about 1024 rows and 16 batches or more,
        ``folds`` 5.
    classes : sequence, optional
        Public class labels. By default the distinct labels of y, *taken as public*. With ``epsilon``, a label outside
        them counts as none of the classes (for two classes: not as the second): an error would tell that there is one.
    <random_state, ledger>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of such for multilabel targets
        Class labels.
    coef_ : ndarray of shape (1, n_features) for two classes, else (n_classes, n_features) or (n_labels, n_features)
        Coefficients of the features; 0 for networks.
    intercept_ : ndarray
        Intercepts.
    bucket_edges_ : list of ndarray
        For each feature, where it is cut into buckets; empty if it is not.
    bucket_coef_ : list of ndarray, each of shape (n_outputs, n_buckets)
        For each feature, what its buckets add to the score; shape (n_outputs, 0) if it has none.
    prior_ : {"ridge", "spread"} or None
        The prior of the coefficients as used; None for networks.
    alpha_ : ndarray of shape (n_outputs,) or None
        Penalty as used, one for each released column of labels; None for networks.
    condition_number_ : float or None
        Of the penalised quadratic; None for networks.
    networks_ : list of torch.nn.Module
        One for each fold of bags; empty for linear models and where no network was better than the constant.
    network_weight_ : float
        What the networks' added outputs are multiplied with: 1/folds but where the bags that each did not see tell that
        scores are too small, or no better than a constant.
    bags_ : RandomBags
        What was released about the labels.
    n_iter_ : int
        Iterations of the solver; passes over the bags for networks.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    RandomBagRegressor : Learns numbers instead of classes.
    CuratedBagGAMClassifier : Learns from bags of equal features.
    make_random_bags : Makes the bags, once for many fits.
    sklearn.linear_model.LogisticRegression : Learns from individual labels, without privacy.

    Notes
    -----
    ε-label differential privacy under replacement of one row's label(s); features and membership are public. All
    attributes are released. Several classes are fitted one against the rest.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags",
    section 4. Busa-Fekete, Choi, Dick, Gentile and Muñoz Medina (2023), "Easy Learning from Label Proportions".

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skprivate import RandomBagClassifier
    >>> X, y = make_classification(n_samples=10_000, class_sep=1.5, random_state=0)
    >>> model = RandomBagClassifier(epsilon=2.0, bag_size=4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_random_bag_base.RANDOM_BAG_CONSTRAINTS,
        "loss": [StrOptions({"likelihood", "log", "squared", "debiased", "easyllp"})],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        bag_size: int | None = None,
        n_bags: int | None = None,
        disjoint: bool = True,
        label_release: Literal["auto", "mean", "bernoulli", "laplace"] = "auto",
        loss: Literal["likelihood", "log", "squared", "debiased", "easyllp"] = "likelihood",
        alpha: float | Literal["evidence"] = "evidence",
        fit_intercept: bool = True,
        buckets: bool | Literal["evidence"] = "evidence",
        prior: Literal["evidence", "ridge", "spread"] = "evidence",
        submodel: Literal["linear", "mlp"] | Callable[..., Any] = "linear",
        submodel_options: dict[str, Any] | None = None,
        classes: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bag_size = bag_size
        self.n_bags = n_bags
        self.disjoint = disjoint
        self.label_release = label_release
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.buckets = buckets
        self.prior = prior
        self.submodel = submodel
        self.submodel_options = submodel_options
        self.classes = classes
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, row_keys: Any = None) -> Self:
        """Draw bags, aggregate their labels, forget the labels, and learn from the aggregates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            Public features. Of blocks (`skprivate.partitions`) all features are held in memory, labels are not.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or column of X where it lies in blocks
            Class labels, or a 0/1 indicator matrix; private. With ``epsilon``, other entries of a matrix count as 0.
        row_keys : array-like of shape (n_samples,), or column of X where it lies in blocks, optional
            Public identifiers, one for each row, that say nothing about labels: however rows are ordered, the same
            ones share a bag. By default bags are drawn from numbers of rows.

        Returns
        -------
        self
        """
        self._check_intercept()
        self._check_submodel()
        classes = None if self.classes is None else _validation.check_classes(self.classes)
        rows = self._read(X, y, row_keys, partial(_validation.read_labels, classes=classes), multi_output=True)
        if isinstance(rows, InMemory) and rows.block.labels.ndim == 2:
            if rows.block.labels.shape[1] > 1:
                return self._fit_indicators(rows)
            rows = InMemory(rows.block._replace(labels=column_or_1d(rows.block.labels, warn=True)))
        public = _bags.gather_rows(rows, _validation.distinct_labels if classes is None else _bags.no_labels)
        known = _validation.two_or_more(public.labels if classes is None else classes, self)
        rows = _bags.labelled_blocks(rows, partial(_labels.class_targets, classes=known, strict=self.epsilon is None))
        self.classes_ = _validation.label_array(known)
        self._fit_bags(
            public,
            rows,
            lambda bags: _sums.ClassSums.plan(bags, *_sums.outputs_of(known), epsilon=self.epsilon, classes=classes),
            tuple(known),
        )
        return self

    def _fit_indicators(self, rows: InMemory) -> Self:
        targets = _labels.indicator_targets(rows.block.labels, strict=self.epsilon is None)
        n_outputs = len(targets)
        self.classes_ = [np.array([0, 1])] * n_outputs
        self._fit_bags(
            _bags.gather_rows(rows, _bags.no_labels),
            InMemory(_sums.Labelled.of(targets)),
            lambda bags: _sums.ClassSums.plan(bags, n_outputs, n_outputs, epsilon=self.epsilon),
        )
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes); for multilabel targets, (n_samples, n_labels)
        """
        scores = self.decision_function(X)
        if self.submodel == "linear" and self.loss in ("squared", "debiased"):
            # The squared losses' scores are centred on the decision: h(x) - 1/2.
            shift = 0.5 if self._is_binary() or self._is_multilabel() else 0.0
            positive = np.clip(scores + shift, _SMALLEST_ROW_PROBABILITY, 1 - _SMALLEST_ROW_PROBABILITY)
        else:
            positive = expit(scores)
        if self._is_binary():
            return np.column_stack([1 - positive, positive])
        if self._is_multilabel():
            return positive
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.maximum(total, 1e-300), 1 / positive.shape[1])

    def _solve(self, X: FloatArray, bags: _bags.RandomBags, alpha: float | None) -> _fit.LinearFit:
        if self.loss == "squared" or self.loss == "debiased":  # noqa: PLR1714 - mypy narrows this
            fit = _quadratic.fit_quadratic(
                bags, X, loss=self.loss, alpha=alpha, fit_intercept=self.fit_intercept, label_bounds=(0.0, 1.0)
            )
            if self._is_binary() or self._is_multilabel():
                fit = replace(fit, intercept=fit.intercept - 0.5)
            return fit
        return _fit.fit_likelihood(bags, X, loss=self.loss, alpha=alpha)

    def _objective(self, bags: _bags.RandomBags) -> tuple[_bag_losses.BagObjective, FloatArray, FloatArray]:
        objective = _bag_losses.class_objective(bags, self.loss)
        return objective, np.zeros(objective.start.size), np.ones(objective.start.size)

    def _keep(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef
        self.intercept_ = intercept

    def _check_bags(self, bags: _bags.RandomBags) -> None:
        self._check_intercept()
        n_outputs = bags.label_sums.shape[1]
        unnamed = (0, 1) if n_outputs == 1 else ((0, 1),) * n_outputs
        self._read_classes(unnamed if bags.classes is None else bags.classes, n_outputs)

    def _check_intercept(self) -> None:
        if not self.fit_intercept and self.loss in ("likelihood", "log", "easyllp"):
            raise ValueError(f"fit_intercept=False is for the squared losses, got loss={self.loss!r}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.classifier_tags.multi_label = True
        return tags
