"""Attribute inference: does a model give away a feature of its records?"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import HasMethods, Interval, _fit_context
from skprivate._validation import validate_data
from skprivate.audit.attacks._membership import true_label_probability
from skprivate.audit.attacks._report import clopper_pearson
from skprivate.privacy import in_one_order

_NO_REGRESSOR = (
    "The attack asks a classifier for the probability of a record's label; for a regressor, attack a classifier of "
    "intervals of its target."
)


@dataclass(frozen=True)
class AttributeReport:
    """Accuracy of inferring a feature with and without the model, with exact intervals."""

    accuracy: float
    accuracy_interval: tuple[float, float]
    baseline_accuracy: float
    baseline_interval: tuple[float, float]
    n: int
    confidence: float

    @property
    def advantage(self) -> float:
        """Accuracy that access to the model adds."""
        return self.accuracy - self.baseline_accuracy


class AttributeInferenceAttack(BaseEstimator):
    """Infer a categorical feature of a record from its other features, its label and a classifier's outputs.

    For each value v of the feature the target is queried at the record completed by v; by Bayes' rule
    ``P(v | rest, y) ∝ P(v | rest) P(y | rest, v)``, the first factor from a model fitted on auxiliary data,
    the second from the target. The baseline knows the same auxiliary data and the label, but not the target.

    Parameters
    ----------
    feature : int, default=0
        Column of the sensitive feature.
    max_values : int, default=10
        A feature with more distinct values is cut into this many quantile bins, each represented by its
        median.
    imputer : classifier or None, default=None
        Model of the feature given the rest; a random forest of 100 trees by default.
    random_state : int, RandomState or None, default=None
        Passed to the imputer if it takes one.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Values of the feature in the auxiliary data, or representatives of its bins.
    edges_ : ndarray of shape (n_values - 1,)
        Midpoints between them.
    label_values_ : ndarray of shape (n_labels,)
        Class labels of the auxiliary records.
    imputer_, baseline_ : fitted classifiers
        The model of the feature given the rest, and the same given also the label: what is known without the target.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.

    See Also
    --------
    RMIAAttack : Infers membership instead of a feature.
    FiniteAdversaryAuditor : Bounds what every adversary could infer.

    References
    ----------
    Fredrikson, Jha, Ristenpart, "Model inversion attacks that exploit confidence information", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skprivate.audit import AttributeInferenceAttack
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 600), rng.normal(size=600)])
    >>> y = (X[:, 0] + 0.3 * X[:, 1] > 0.5).astype(int)
    >>> model = DecisionTreeClassifier(random_state=0).fit(X[300:], y[300:])
    >>> attack = AttributeInferenceAttack(feature=0, random_state=0).fit(X[:300], y[:300])
    >>> attack.evaluate(model, X[300:], y[300:]).accuracy > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature": [Interval(Integral, 0, None, closed="left")],
        "max_values": [Interval(Integral, 2, None, closed="left")],
        "imputer": [HasMethods(["fit", "predict"]), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        feature: int = 0,
        *,
        max_values: int = 10,
        imputer: BaseEstimator = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.feature = feature
        self.max_values = max_values
        self.imputer = imputer
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the feature given the rest from auxiliary records.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Auxiliary records, with the sensitive feature.
        y : array-like of shape (n,)
            Their class labels.

        Returns
        -------
        self : AttributeInferenceAttack

        Raises
        ------
        ValueError
            If y are the targets of a regressor.
        """
        X, y = validate_data(self, X, y)
        if type_of_target(y).startswith("continuous"):
            raise ValueError(f"y must hold class labels, got continuous numbers. {_NO_REGRESSOR}")
        check_classification_targets(y)
        if self.feature >= X.shape[1]:
            raise ValueError(f"feature must be below n_features = {X.shape[1]}; got {self.feature!r}.")
        if X.shape[1] < 2:
            raise ValueError("Inferring a feature needs at least one other; got n_features = 1, 1 feature(s).")
        self.values_, self.edges_ = self._value_bins(X[:, self.feature])
        coded = self._encode(X[:, self.feature])
        self.label_values_ = np.unique(y)
        rest = np.delete(X, self.feature, axis=1)
        self.imputer_ = self._new_imputer().fit(rest, coded)
        self.baseline_ = self._new_imputer().fit(self._with_label(rest, y), coded)
        return self

    @in_one_order
    def infer(self, model: BaseEstimator, X: Any, y: Any) -> NDArray[Any]:
        """Guess the feature of each record; its own column of ``X`` is not looked at.

        Parameters
        ----------
        model : fitted classifier
            The target.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
            Values out of ``values_``.

        Raises
        ------
        ValueError
            If the model is no classifier.
        """
        check_is_fitted(self)
        if not hasattr(model, "classes_"):
            raise ValueError(f"model must be a fitted classifier, got {type(model).__name__}. {_NO_REGRESSOR}")
        X = validate_data(self, X, reset=False)
        rest = np.delete(X, self.feature, axis=1)
        score = self._probabilities(self.imputer_, rest)
        for j, value in enumerate(self.values_):
            completed = X.copy()
            completed[:, self.feature] = value
            score[:, j] *= true_label_probability(model, completed, y) + 1e-3
        return self.values_[np.argmax(score, axis=1)]

    @in_one_order
    def evaluate(self, model: BaseEstimator, X: Any, y: Any, *, confidence: float = 0.95) -> AttributeReport:
        """Accuracy of the inference with and without the model.

        Parameters
        ----------
        model : fitted classifier
        X : array-like of shape (n, n_features)
            Records with the true feature, not among the auxiliary ones.
        y : array-like of shape (n,)
        confidence : float, default=0.95

        Returns
        -------
        AttributeReport
        """
        guess = self.infer(model, X, y)
        X = validate_data(self, X, reset=False)
        rest = np.delete(X, self.feature, axis=1)
        blind = self.values_[np.argmax(self._probabilities(self.baseline_, self._with_label(rest, y)), axis=1)]
        truth = self.values_[self._encode(X[:, self.feature])]
        hits, blind_hits, n = int((guess == truth).sum()), int((blind == truth).sum()), truth.size
        return AttributeReport(
            hits / n,
            clopper_pearson(hits, n, confidence),
            blind_hits / n,
            clopper_pearson(blind_hits, n, confidence),
            n,
            confidence,
        )

    def _value_bins(self, column):
        """Representative values of the feature and the edges between them."""
        values = np.unique(column)
        if values.size > self.max_values:
            cuts = np.unique(np.quantile(column, np.linspace(0, 1, self.max_values + 1)[1:-1], method="nearest"))
            bins = np.searchsorted(cuts, column, side="left")
            values = np.array([np.median(column[bins == b]) for b in np.unique(bins)])
        return values, 0.5 * (values[1:] + values[:-1])

    def _encode(self, column):
        return np.searchsorted(self.edges_, column, side="left")

    def _new_imputer(self):
        model = RandomForestClassifier(100) if self.imputer is None else clone(self.imputer)
        if "random_state" in model.get_params(deep=False) and self.random_state is not None:
            model.set_params(random_state=self.random_state)
        return model

    def _with_label(self, rest, y):
        one_hot = np.asarray(y)[:, None] == self.label_values_[None, :]
        return np.column_stack([rest, one_hot.astype(float)])

    def _probabilities(self, classifier, rest):
        out = np.zeros((rest.shape[0], self.values_.size))
        if hasattr(classifier, "predict_proba"):
            out[:, classifier.classes_] = classifier.predict_proba(rest)
        else:
            out[np.arange(rest.shape[0]), classifier.predict(rest)] = 1.0
        return out + 1e-3

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
