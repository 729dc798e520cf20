"""Base of membership attacks: reference models, and scores for the records of a pool."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import joblib
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skprivate import _sklearn
from skprivate._sklearn import CallbackSupportMixin, HasMethods, Interval
from skprivate._validation import validate_data
from skprivate.audit._class_outputs import output_summary
from skprivate.audit.attacks._report import AttackReport, attack_report
from skprivate.privacy import in_one_order, public_generator

Array = npt.NDArray[np.float64]


def has_classes(model: BaseEstimator) -> bool:
    """Check that a model, or its record, gives probabilities of classes rather than numbers."""
    return hasattr(model, "classes_") or _is_recorded(model)


def _is_recorded(model: BaseEstimator) -> bool:
    """Outputs at the records in place of the model that gave them."""
    return not hasattr(model, "predict") and np.ndim(model) == 2


def true_label_probability(model: BaseEstimator, X: Any, y: npt.ArrayLike) -> Array:
    """Probability that a fitted classifier gives to each record's own label; 0 for labels it never saw.

    Without ``predict_proba`` the decision function is squashed; without both, 1 for a right and 0 for a wrong
    label. Recorded outputs of shape (n, n_classes) stand for the model itself; their columns are the classes in order.
    """
    if _is_recorded(model):
        return np.asarray(output_summary(model, y, n_top=0)[:, 0])
    labels, classes = np.asarray(y), np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        probability = np.asarray(model.predict_proba(X), dtype=float).reshape(labels.size, -1)
        if probability.shape[1] == 1 and classes.size == 2:  # of the second class
            probability = np.column_stack([1.0 - probability, probability])
        if probability.shape[1] != classes.size:
            raise ValueError(
                f"predict_proba of the model must have one column for each of its {classes.size} classes, got "
                f"{probability.shape[1]}."
            )
    elif hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(X), dtype=float)
        if decision.ndim == 1:
            p = expit(decision)
            probability = np.column_stack([1.0 - p, p])
        else:
            probability = softmax(decision, axis=1)
    else:
        return np.asarray(np.asarray(model.predict(X)) == labels, dtype=float)
    order = np.argsort(classes)
    position = np.minimum(np.searchsorted(classes, labels, sorter=order), classes.size - 1)
    column = order[position]
    own = probability[np.arange(labels.size), column]
    return np.where(classes[column] == labels, own, 0.0)


def residuals(model: BaseEstimator, X: Any, y: npt.ArrayLike) -> Array:
    """``y − prediction`` of a fitted regressor; Euclidean norm of the residual for several targets."""
    difference = np.asarray(y, dtype=float) - np.asarray(model.predict(X), dtype=float)
    return np.asarray(difference if difference.ndim == 1 else np.linalg.norm(difference, axis=1))


class MembershipAttack(BaseEstimator, metaclass=ABCMeta):
    """Scores records by how likely they were in a fitted model's training set.

    ``fit(X, y)`` takes what the attacker knows, a pool of records from the population (usually the audited
    records themselves); ``membership_scores(model, X, y)`` scores records against a fitted target model;
    ``evaluate`` compares the scores with the true membership. No membership of the target's is ever used for
    scoring, so every figure is held out.

    See Also
    --------
    LiRAAttack, LossThresholdAttack, RMIAAttack : Score records, each its own way.
    attack_report : Summarises the scores.
    """

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Prepare the attack from a pool of records."""

    @in_one_order
    def membership_scores(self, model: Any, X: Any, y: Any) -> NDArray[np.float64]:
        """Score each record against a fitted target model.

        Where there are references, records of the pool that ``fit`` saw (the same X and y) are calibrated by those with
        and without them; any other records by the references as outsiders.

        Parameters
        ----------
        model : fitted classifier or regressor, or array-like of shape (n, n_classes)
            The target, or its class probabilities at these records, columns in the order of the classes.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
            Larger means more likely a member.
        """
        check_is_fitted(self)
        return self._scores(model, *self._validate_pool(X, y, reset=False))

    @abstractmethod
    def _scores(self, model, X, y):
        """Score validated records."""

    @in_one_order
    def evaluate(
        self,
        model: Any,
        X: Any,
        y: Any,
        membership: Any,
        *,
        fpr: Iterable[float] = (0.01, 0.001),
        confidence: float = 0.95,
    ) -> AttackReport:
        """Score the records and compare with their true membership.

        Parameters
        ----------
        model : fitted classifier or regressor, or array-like of shape (n, n_classes)
            The target, or its class probabilities at these records, columns in the order of the classes.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
        membership : array-like of shape (n,)
            True (1) where the record was in the target's training set.
        fpr : iterable of float, default=(0.01, 0.001)
            False positive rates to report the true positive rate at.
        confidence : float, default=0.95
            Coverage of each interval.

        Returns
        -------
        AttackReport
        """
        return attack_report(self.membership_scores(model, X, y), membership, fpr=fpr, confidence=confidence)

    def _validate_pool(self, X, y, *, reset):
        validate_data(self, X, skip_check_array=True, reset=reset)
        if issparse(X):
            X = X.tocsr()  # type: ignore[attr-defined]
        if len(np.shape(X)) != 2:
            raise ValueError(f"Expected 2D array, got an array of shape {np.shape(X)}. Reshape your data.")
        if np.shape(X)[1] == 0:
            raise ValueError(f"Found array with 0 feature(s) (shape={np.shape(X)}) while a minimum of 1 is required.")
        if getattr(getattr(X, "dtype", None), "kind", None) == "c":
            raise ValueError("Complex data not supported.")
        if y is None:
            raise ValueError("A membership attack requires y to be passed, but the target y is None.")
        check_consistent_length(X, y)
        if _sklearn._num_samples(X) < 2:
            raise ValueError(f"A membership attack needs at least 2 records; got {_sklearn._num_samples(X)} sample.")
        return X, np.asarray(y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class ReferenceAttack(CallbackSupportMixin, MembershipAttack):
    """An attack that calibrates each record by models fitted with and without it.

    Reference models come in complementary pairs: one is fitted on a random half of the pool, its twin on the
    other half, so that every record is inside as often as outside. The halves are drawn independently of the
    target's membership.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "n_references": [Interval(Integral, 2, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    @_sklearn._fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the reference models on random halves of the pool.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        X, y = self._validate_pool(X, y, reset=True)
        rng = public_generator(self.random_state)
        n = _sklearn._num_samples(X)
        masks: list[npt.NDArray[np.bool_]] = []
        while len(masks) < self.n_references:
            mask = np.zeros(n, dtype=bool)
            mask[rng.permutation(n)[: n // 2]] = True
            masks += [mask, ~mask]
        masks = masks[: self.n_references]
        seeds = [int(seed) for seed in rng.integers(2**31 - 1, size=len(masks))]
        fitted = _sklearn.gather(
            "reference models",
            len(masks),
            Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(_fit_reference)(self.estimator, X, y, mask, seed)
                for mask, seed in zip(masks, seeds, strict=True)
            ),
        )
        self.reference_models_ = fitted
        self.reference_membership_ = np.array(masks)
        self.noise_scale_ = self._noise_scale(X, y)
        self.reference_signals_ = np.array([self._signal(model, X, y) for model in fitted])
        self._pool = joblib.hash((X, y))
        return self

    def _scores(self, model, X, y):
        """Compare records of the pool with references with and without them, any others with all as outsiders."""
        target = self._signal(model, X, y)
        if joblib.hash((X, y)) == self._pool:
            return self._compare(target, self.reference_signals_, self.reference_membership_)
        signals = np.array([self._signal(reference, X, y) for reference in self.reference_models_])
        return self._compare(target, signals, np.zeros(signals.shape, dtype=bool))

    def score_reference(self, index: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Scores of the pool when a reference model plays the target, and its membership.

        Calibration data for `epsilon_lower_bound`: they depend on the reference's own coins only.

        Parameters
        ----------
        index : int, default=0
            Which reference model; it is left out of the comparison together with its twin, if others remain.

        Returns
        -------
        scores : ndarray of shape (n,)
        membership : ndarray of shape (n,)
        """
        check_is_fitted(self)
        keep = np.ones(len(self.reference_signals_), dtype=bool)
        keep[index] = False
        if keep.sum() > 2:
            keep[index ^ 1 if (index ^ 1) < keep.size else index] = False
        scores = self._compare(
            self.reference_signals_[index], self.reference_signals_[keep], self.reference_membership_[keep]
        )
        return scores, self.reference_membership_[index].copy()

    def _noise_scale(self, X, y):
        """Residual scale of a regression on records that the references did not see; nan for a classifier."""
        if has_classes(self.reference_models_[0]):
            return float("nan")
        squares = []
        for model, mask in zip(self.reference_models_, self.reference_membership_, strict=True):
            unseen = np.flatnonzero(~mask)
            squares.append(np.mean(residuals(model, _sklearn._safe_indexing(X, unseen), y[unseen]) ** 2))
        return float(max(np.sqrt(np.mean(squares)), 1e-12))

    def _signal(self, model, X, y):
        """Likelihood of each record under a model, in [0, 1]."""
        if has_classes(model):
            return true_label_probability(model, X, y)
        return np.exp(-0.5 * np.minimum((residuals(model, X, y) / self.noise_scale_) ** 2, 200.0))

    @abstractmethod
    def _compare(self, target, references, inside):
        """Scores from the target's signals (n,), the references' (m, n) and their membership (m, n)."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _fit_reference(estimator, X, y, mask, seed):
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    rows = np.flatnonzero(mask)
    return model.fit(_sklearn._safe_indexing(X, rows), y[rows])


def side_means(references, inside):
    """Mean signal of each record over the references with and without it; nan where there is none."""
    count_in, count_out = inside.sum(axis=0), (~inside).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = np.where(count_in > 0, (references * inside).sum(axis=0) / count_in, np.nan)
        mean_out = np.where(count_out > 0, (references * ~inside).sum(axis=0) / count_out, np.nan)
    return mean_in, mean_out
