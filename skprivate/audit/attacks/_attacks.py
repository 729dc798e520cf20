"""Membership attacks: likelihood ratio, few references, the loss threshold, and recorded class probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone

from skprivate._messages import number
from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate.audit import _auditor, _class_outputs, _epsilon
from skprivate.audit.attacks import _membership
from skprivate.audit.attacks._report import AttackReport, attack_report
from skprivate.privacy import public_generator


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


def attack_probabilities(
    outputs: npt.ArrayLike,
    membership: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    n_top: int = 4,
    estimator: BaseEstimator = None,
    train_size: float = 0.5,
    fpr: Iterable[float] = (0.01, 0.001),
    confidence: float = 0.95,
    random_state: int | None = None,
) -> AttackReport:
    """Attack membership by class probabilities: fitted on some records, evaluated on the others.

    The attacker sees the probability of the true label and the ``n_top`` largest, knows the membership of a part of
    the records, and learns from them what members look like. All figures are of the records left, of which nothing
    was used; the threshold behind ``accuracy`` is the attack's own.

    Parameters
    ----------
    outputs : array-like of shape (n, n_classes)
        Rows of ``predict_proba`` of the audited model.
    membership : array-like of shape (n,)
        True (1) where the record was in the model's training set.
    labels : array-like of shape (n,)
        True label of each record.
    classes : array-like of shape (n_classes,) or None, default=None
        ``model.classes_``; by default the distinct labels in order.
    n_top : int, default=4
        How many of the largest probabilities the attacker looks at.
    estimator : classifier or None, default=None
        What learns, with ``predict_proba`` or ``decision_function``; `FiniteAdversaryAuditor` by default.
    train_size : float, default=0.5
        Share of the records that the attack is fitted on, drawn at random from members and from non-members.
    fpr, confidence
        As in `attack_report`.
    random_state : int, RandomState or None, default=None
        Public randomness of the split.

    Returns
    -------
    AttackReport
        With ``accuracy`` and its exact interval.

    Raises
    ------
    ValueError
        If a part of the split would hold no members, or no others.

    See Also
    --------
    FiniteAdversaryAuditor : Bounds what every adversary could achieve.
    output_summary : Computes what the attacker sees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skprivate.audit import attack_probabilities
    >>> X, y = load_digits(return_X_y=True)
    >>> member = np.random.default_rng(0).random(len(y)) < 0.5
    >>> model = RandomForestClassifier(30, random_state=0).fit(X[member], y[member])
    >>> report = attack_probabilities(model.predict_proba(X), member, y, random_state=0)
    >>> bool(report.auc > 0.7 and report.accuracy_interval[0] > 0.6)
    True
    """
    number("train_size", train_size, "a number in (0, 1)", lambda value: 0 < value < 1)
    summary = _class_outputs.output_summary(outputs, labels, classes=classes, n_top=n_top)
    _, member = _epsilon._check_pair(summary[:, 0], membership, "outputs", "membership")
    rng = public_generator(random_state)
    fitted = np.zeros(member.size, dtype=bool)
    for group in (np.flatnonzero(member), np.flatnonzero(~member)):
        share = round(train_size * group.size)
        if not 0 < share < group.size:
            raise ValueError(
                f"train_size = {train_size:g} leaves a part without members or without others; there are "
                f"{int(member.sum())} of {member.size} records that are members."
            )
        fitted[rng.permutation(group)[:share]] = True
    attack = _auditor.FiniteAdversaryAuditor(confidence=confidence) if estimator is None else clone(estimator)
    if "random_state" in attack.get_params(deep=False) and attack.get_params(deep=False)["random_state"] is None:
        attack.set_params(random_state=int(rng.integers(2**31 - 1)))
    attack.fit(summary[fitted], member[fitted])
    rest = ~fitted
    if hasattr(attack, "decision_function"):
        scores, threshold = attack.decision_function(summary[rest]), 0.0
    else:
        scores, threshold = attack.predict_proba(summary[rest])[:, 1], 0.5
    return attack_report(scores, member[rest], fpr=fpr, confidence=confidence, threshold=threshold)
