"""Gaussian naive Bayes with differential privacy: a private estimator written with public names only."""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.privacy import Mechanism, PureEvent, exact_sum, interval_contributions

BITS = 24  # a number from an interval becomes an integer of at most 2**23


@dataclass(frozen=True)
class ClassMoments(Mechanism):
    """Noisy number of rows, sums and sums of squares of each class.

    A row adds to its class the number 2**23 and, for each feature, two integers of at most 2**23 in absolute value.
    """

    n_classes: int
    n_features: int
    bounds: tuple[float, float]
    epsilon: float
    replace: bool

    theorem = "Laplace mechanism (Dwork, McSherry, Nissim and Smith 2006)"

    @property
    def events(self):
        return [(PureEvent(self.epsilon, "Laplace"), 1)]

    def run(self, data, release):
        X, classes = data
        half = 2 ** (BITS - 1)
        first = interval_contributions(X.T, *self.bounds, bits=BITS)
        # Squares of integers below 2**23 are exact in float64, and so is their rounding.
        second = np.trunc(first * first / half)
        rows = np.vstack([np.full((1, len(X)), float(half)), first, second])
        sums = np.stack([exact_sum(rows[:, classes == k]) for k in range(self.n_classes)])
        sensitivity = (2 if self.replace else 1) * half * len(rows)
        return release.laplace(sums, sensitivity=sensitivity, epsilon=self.epsilon, step=1.0 / half)


class PrivateGaussianNB(PrivateEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Gaussian naive Bayes; one row is protected."""

    _parameter_constraints: ClassVar[dict] = {
        **PRIVACY_CONSTRAINTS,
        "bounds": [tuple],
        "classes": ["array-like", None],
        "adjacency": [str],
    }

    def __init__(
        self, epsilon=1.0, *, bounds=(-1.0, 1.0), classes=None, adjacency="replace-one",
        random_state=None, ledger=None,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.bounds = bounds
        self.classes = classes
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    @fit_context()
    def fit(self, X, y):
        low, high = self.bounds
        if not (isinstance(low, Real) and isinstance(high, Real) and low < high):
            raise ValueError(f"bounds must be two numbers, low < high, got {self.bounds!r}.")
        if self.adjacency not in ("replace-one", "add-remove"):
            raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {self.adjacency!r}.")
        if self.classes is not None and len(self.classes) == 0:
            raise ValueError("classes must hold a label, got none.")
        if self.adjacency == "add-remove" and self.classes is None:
            raise ValueError("adjacency='add-remove' needs classes: the labels of private rows are private.")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes = np.unique(y if self.classes is None else self.classes)
        index = np.searchsorted(classes, y)
        index = np.where(np.isin(y, classes), index, -1)  # rows of other classes count for nothing

        mechanism = ClassMoments(
            len(classes), X.shape[1], (float(low), float(high)), self.epsilon, self.adjacency == "replace-one"
        )
        with self._releasing(
            mechanism, unit="row", adjacency=self.adjacency, assumptions=("bounds and classes are public",)
        ) as release:
            moments = mechanism.run((X, index), release)

        # All below is post-processing of what was released.
        self.classes_ = classes
        n = np.maximum(moments[:, 0], 1.0)
        means, squares = np.split(moments[:, 1:] / n[:, None], 2, axis=1)
        half = 0.5 * (high - low)
        self.class_prior_ = n / n.sum()
        self.theta_ = low + half + half * np.clip(means, -1.0, 1.0)
        self.var_ = half**2 * np.clip(squares - means**2, 1e-3, 1.0)
        return self

    def predict(self, X):
        joint = self._joint(X)
        return self.classes_[joint.argmax(axis=1)]

    def predict_proba(self, X):
        joint = self._joint(X)
        proba = np.exp(joint - joint.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)

    def _joint(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        gaps = (X[:, None, :] - self.theta_) ** 2 / self.var_ + np.log(self.var_)
        return np.log(self.class_prior_) - 0.5 * gaps.sum(axis=2)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # scikit-learn's data are few, and unscaled
        return tags
