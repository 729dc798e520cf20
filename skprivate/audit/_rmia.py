"""Robust membership inference from few reference models."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from skprivate._sklearn import HasMethods, Interval
from skprivate.audit._membership import ReferenceAttack, side_means


class RMIAAttack(ReferenceAttack):
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
        "estimator": [HasMethods(["fit", "predict"])],
        "n_references": [Interval(Integral, 2, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: Any,
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
        mean_in, mean_out = side_means(references, inside)
        base = np.nanmean(np.vstack([mean_in, mean_out]), axis=0)
        ratio = (target + self.smoothing) / (base + self.smoothing)
        return np.searchsorted(np.sort(ratio), ratio / self.gamma, side="right") / ratio.size
