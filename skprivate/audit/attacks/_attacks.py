"""Membership attacks: likelihood ratio, robust inference from few references, and the loss threshold."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator

from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate.audit.attacks import _membership


class LiRAAttack(_membership.ReferenceAttack):
    """Likelihood-ratio attack (Carlini et al. 2022): Gaussians for the logit with and without a record.

    Parameters
    ----------
    estimator : estimator
        Unfitted model of the target's kind, cloned for each reference.
    n_references : int, default=16
        Reference models, at least 2; the attack is made for many.
    variance : {"auto", "record", "pooled"}, default="auto"
        One variance for each record and side, or one for each side. ``"auto"``: by record from 64 references
        on.
    smoothing : float, default=0.01
        Keeps the logit of a likelihood finite.
    random_state : int, RandomState or None, default=None
        Public randomness: halves of the pool and seeds of the references.
    n_jobs : int or None, default=None
        Workers that fit references.

    Attributes
    ----------
    reference_models_ : list of estimators
        Models fitted on random halves of the pool.
    reference_membership_ : ndarray of shape (n_references, n)
        Whether each record of the pool was in the half of each reference.
    reference_signals_ : ndarray of shape (n_references, n)
        Likelihood of each record of the pool under each reference.
    noise_scale_ : float
        Residual scale (regression), nan otherwise.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.

    See Also
    --------
    RMIAAttack : Needs fewer reference models.
    LossThresholdAttack : Needs no reference models.

    References
    ----------
    Carlini, Chien, Nasr, Song, Terzis, Tramèr, "Membership inference attacks from first principles", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from skprivate.audit import LiRAAttack
    >>> X, y = load_diabetes(return_X_y=True)
    >>> member = np.random.default_rng(0).random(len(y)) < 0.5
    >>> tree = DecisionTreeRegressor(random_state=0)
    >>> target = tree.fit(X[member], y[member])
    >>> attack = LiRAAttack(tree, n_references=8, random_state=0).fit(X, y)
    >>> attack.evaluate(target, X, y, member).auc > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_membership.ReferenceAttack._parameter_constraints,
        "variance": [StrOptions({"auto", "record", "pooled"})],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        n_references: int = 16,
        variance: Literal["auto", "record", "pooled"] = "auto",
        smoothing: float = 0.01,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_references = n_references
        self.variance = variance
        self.smoothing = smoothing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _compare(self, target, references, inside):
        observed, known = self._logit(target), self._logit(references)
        mean_in, mean_out = _membership.side_means(known, inside)
        scale_in = self._scale(known, mean_in, inside)
        scale_out = self._scale(known, mean_out, ~inside)
        if not inside.any():  # offline: how unusually confident for an outsider
            return norm.cdf(observed, mean_out, scale_out)
        ratio = norm.logpdf(observed, mean_in, scale_in) - norm.logpdf(observed, mean_out, scale_out)
        return np.nan_to_num(ratio, nan=0.0)

    def _logit(self, likelihood):
        return np.log((likelihood + self.smoothing) / (1.0 - likelihood + self.smoothing))

    def _scale(self, signals, mean, mask):
        """Standard deviation around the mean of one side, by record or pooled."""
        squares = np.where(mask, (signals - np.nan_to_num(mean)) ** 2, 0.0)
        counts = mask.sum(axis=0)
        by_record = self.variance == "record" or (self.variance == "auto" and signals.shape[0] >= 64)
        if by_record:
            variance = squares.sum(axis=0) / np.maximum(counts - 1, 1)
        else:
            variance = squares.sum() / max(counts.sum() - np.count_nonzero(counts), 1)
            if counts.max(initial=0) < 2:  # one reference a side says nothing about its spread
                variance = float(np.var(signals)) / 4.0
        return np.sqrt(np.maximum(variance, 1e-4))


class RMIAAttack(_membership.ReferenceAttack):
    """Robust membership inference attack (Zarifzadeh, Liu and Shokri 2024): strong with few references.

    A record's likelihood under the target is divided by its likelihood on average over models with and
    without it; the score is the share of other records z whose ratio it exceeds by a factor ``gamma``: ``P_z[
    (p(x|θ)/p(x)) / (p(z|θ)/p(z)) ≥ γ ]``.

    Parameters
    ----------
    estimator : estimator
        Unfitted model of the target's kind, cloned for each reference.
    n_references : int, default=4
        Reference models, at least 2.
    gamma : float, default=1.0
        Factor γ.
    smoothing : float, default=0.01
        Added to both likelihoods of a ratio, so that confident zeros do not decide.
    random_state : int, RandomState or None, default=None
        Public randomness: halves of the pool and seeds of the references.
    n_jobs : int or None, default=None
        Workers that fit references.

    Attributes
    ----------
    reference_models_ : list of estimators
        Models fitted on random halves of the pool.
    reference_membership_ : ndarray of shape (n_references, n)
        Whether each record of the pool was in the half of each reference.
    reference_signals_ : ndarray of shape (n_references, n)
        Likelihood of each record of the pool under each reference.
    noise_scale_ : float
        Residual scale (regression), nan otherwise.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.

    See Also
    --------
    LiRAAttack : Compares with many reference models.
    LossThresholdAttack : Needs no reference models.

    References
    ----------
    Zarifzadeh, Liu, Shokri, "Low-cost high-power membership inference attacks", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skprivate.audit import RMIAAttack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> member = np.random.default_rng(0).random(len(y)) < 0.5
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> target = forest.fit(X[member], y[member])
    >>> attack = RMIAAttack(forest, random_state=0).fit(X, y)
    >>> attack.evaluate(target, X, y, member).auc > 0.65
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_membership.ReferenceAttack._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        n_references: int = 4,
        gamma: float = 1.0,
        smoothing: float = 0.01,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_references = n_references
        self.gamma = gamma
        self.smoothing = smoothing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _compare(self, target, references, inside):
        mean_in, mean_out = _membership.side_means(references, inside)
        base = np.nanmean(np.vstack([mean_in, mean_out]), axis=0)
        ratio = (target + self.smoothing) / (base + self.smoothing)
        return np.searchsorted(np.sort(ratio), ratio / self.gamma, side="right") / ratio.size


class LossThresholdAttack(_membership.MembershipAttack):
    """Membership by the target's own loss (Yeom et al. 2018): no reference models.

    The score is the probability of the true label (a monotone function of the log loss) for a classifier and
    minus the squared residual for a regressor.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.
    is_fitted_ : bool
        True; there is nothing to learn.

    See Also
    --------
    LiRAAttack, RMIAAttack : Are stronger, with reference models.

    References
    ----------
    Yeom, Giacomelli, Fredrikson, Jha, "Privacy risk in machine learning: analyzing the connection to
    overfitting", 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skprivate.audit import LossThresholdAttack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> member = [i % 2 == 0 for i in range(len(y))]
    >>> model = DecisionTreeClassifier(random_state=0).fit(X[member], y[member])
    >>> LossThresholdAttack().fit(X, y).evaluate(model, X, y, member).auc > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Check the pool; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        self : LossThresholdAttack
        """
        self._validate_pool(X, y, reset=True)
        self.is_fitted_ = True
        return self

    def _scores(self, model, X, y):
        if _membership.has_classes(model):
            return _membership.true_label_probability(model, X, y)
        return -np.square(_membership.residuals(model, X, y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The attack hands X to the target unseen: what the target takes, the attack takes.
        tags.input_tags.sparse = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
