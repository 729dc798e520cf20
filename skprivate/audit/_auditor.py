"""The auditor: an attack, and a bound on what any other attack could do."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skprivate._sklearn import CallbackSupportMixin, Interval, StrOptions, _fit_context, check_class_labels
from skprivate._validation import validate_data
from skprivate.audit._certificates import certify_labels, certify_representation, confidence_bound
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit._report import AuditReport
from skprivate.audit._support import inside_support, support_diameter
from skprivate.audit._translation import (
    accuracy_upper_bound,
    advantage_upper_bound,
    mse_from_entropy,
    mutual_information_upper_bound,
)
from skprivate.privacy import public_generator


class FiniteAdversaryAuditor(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Guess a sensitive bit S from a model's outputs T, and bound what *every* adversary could achieve.

    The adversary is fitted on n audited pairs; its failure is turned into a statement about all measurable
    functions of T: with probability at least ``confidence`` over the audited sample,

    ``min over all h of E (h(T) − S)² ≥ loss_lower_bound_``  (or ``H(S|T) ≥ …`` for the log loss),

    provided that ``η(t) = E[S | T = t]`` obeys the stated assumption. The assumption cannot be checked on a
    finite sample; it follows from a known noise-adding release, or it is the auditor's own.

    Parameters
    ----------
    n_neurons : int, default=100
        Width k of the networks of ``certificate="paper"``.
    loss : {"squared", "log"}, default="squared"
        ``(h − S)²`` with S = ±1, in [0, 1] at the optimum; or the log loss in nats, at most ln 2 at the
        optimum.
    setting : {"auto", "representation", "classification"}, default="auto"
        ``"representation"``: T is real, of shape (n, q). ``"classification"``: T takes finitely many values,
        the model's predicted labels; no assumption on η is needed. ``"auto"`` chooses classification for
        one-dimensional arrays of integers, booleans or strings.
    assumption : {"total_variation", "barron", "monotone"}, default="total_variation"
        What is known about η. ``"total_variation"``: its variation is at most ``total_variation``.
        ``"barron"``: its Barron constant is at most ``barron_constant`` on ``support``, hence its variation
        at most their product. ``"monotone"``: it rises or falls throughout (q = 1), as under a monotone
        likelihood ratio; no constant needed.
    total_variation : float, default=2.0
        Bound on the total variation of η (q = 1), or on the mass of η as a mixture of half-space indicators
        (q ≥ 2). The default admits every monotone η, or one rise and fall over half the range.
    barron_constant : float or None, default=None
        ``(2π)^{−q/2} ∫ ‖ω‖ |η̂(ω)| dω``; see `gaussian_mixture_barron_constant` and `barron_constant`.
    support : float, (float, float) or None, default=None
        The compact set that holds T: the ball of this radius around 0, or the cube [low, high]^q. Needed for
        ``"barron"``; its diameter multiplies the constant.
    truncate : bool, default=False
        Audit the truncation of T to the support: rows outside are left out, and every statement is about T
        given that it lies inside. Without it, rows outside the support are an error.
    smoothing : float, default=0.0
        Audit T + smoothing·N(0, I) in place of T. The statements are then about a model that adds this noise.
    increasing : {"auto"} or bool, default="auto"
        Direction of a monotone η. ``"auto"`` allows both; nothing is lost for it but the smaller of two
        minima.
    prior : float or None, default=None
        P(S = ``classes_[1]``) if it is known by design, for example 0.5 for coin flips. Otherwise an exact
        interval takes half of the failure probability of ``advantage_upper_bound_`` and
        ``mutual_information_upper_bound_``.
    confidence : float, default=0.99
        Probability with which the bounds hold.
    certificate : {"convex", "paper"}, default="convex"
        ``"convex"``: the smallest empirical loss over *all* functions allowed by the assumption, with a
        duality gap. ``"paper"``: the paper's Theorems 1–3; with Theorem 1 the minimum over networks is
        replaced by a trained network's loss, which is not a proof.
    concentration : {"auto", "hoeffding", "bernstein"}, default="auto"
        Tail bound of the convex certificate under the squared loss. ``"auto"`` takes the tighter of the two,
        at no cost in confidence because both are deterministic functions of the loss.
    n_restarts : int, default=3
        Random starts of the networks.
    random_state : int, RandomState or None, default=None
        Public randomness: starts, search directions, smoothing.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two values of S.
    empirical_loss_ : float
        Loss of the fitted attack on the audited sample.
    loss_lower_bound_ : float
        No adversary has a smaller expected loss.
    gap_ : float
        ``empirical_loss_ − loss_lower_bound_``.
    duality_gap_ : float
        How far the attack may be from the best function of the class on the sample (0 for ``"paper"``).
    accuracy_upper_bound_ : float
        No adversary guesses S correctly with a larger probability, S drawn with the audited prior.
    advantage_upper_bound_ : float
        No adversary has a larger true minus false positive rate; does not depend on the prior.
    mutual_information_upper_bound_ : float
        Largest I(S; T), in nats.
    certified_ : bool
        Whether the bounds are proven. False for trained networks; ``caveats_`` says why.
    caveats_ : tuple of str
        Reservations in words.
    empirical_accuracy_ : float
        Share of the audited rows the attack guesses right; fitted on the same rows.
    variation_ : float
        The bound D on the variation of η that was assumed (2 for a monotone η; unused for labels).
    setting_ : str
        ``"representation"`` or ``"classification"``.
    n_audited_, n_truncated_ : int
        Rows used, and rows left out by truncation.
    n_features_in_ : int
        Number of columns of T.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.

    See Also
    --------
    epsilon_lower_bound : The other direction, what is leaked for certain.
    AuditDisplay : Both sides in one picture.

    References
    ----------
    Diaz, Kairouz, Liao and Sankar, "Theoretical guarantees for model auditing with finite adversaries", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import FiniteAdversaryAuditor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=20_000)
    >>> t = rng.normal(size=20_000) + 0.1 * (2 * s - 1)
    >>> auditor = FiniteAdversaryAuditor(assumption="monotone", prior=0.5).fit(t[:, None], s)
    >>> bool(0.96 < auditor.loss_lower_bound_ < 0.99)
    True
    >>> bool(auditor.accuracy_upper_bound_ < 0.6)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neurons": [Interval(Integral, 1, None, closed="left")],
        "loss": [StrOptions({"squared", "log"})],
        "setting": [StrOptions({"auto", "representation", "classification"})],
        "assumption": [StrOptions({"barron", "total_variation", "monotone"})],
        "total_variation": [Interval(Real, 0, None, closed="left")],
        "barron_constant": [Interval(Real, 0, None, closed="left"), None],
        "support": [Interval(Real, 0, None, closed="neither"), tuple, list, None],
        "truncate": ["boolean"],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "increasing": [StrOptions({"auto"}), "boolean"],
        "prior": [Interval(Real, 0, 1, closed="neither"), None],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "certificate": [StrOptions({"convex", "paper"})],
        "concentration": [StrOptions({"auto", "hoeffding", "bernstein"})],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }
    _most_fit_tasks: ClassVar[int] = 2

    def __init__(
        self,
        *,
        n_neurons=100,
        loss="squared",
        setting="auto",
        assumption="total_variation",
        total_variation=2.0,
        barron_constant=None,
        support=None,
        truncate=False,
        smoothing=0.0,
        increasing="auto",
        prior=None,
        confidence=0.99,
        certificate="convex",
        concentration="auto",
        n_restarts=3,
        random_state=None,
    ):
        self.n_neurons = n_neurons
        self.loss = loss
        self.setting = setting
        self.assumption = assumption
        self.total_variation = total_variation
        self.barron_constant = barron_constant
        self.support = support
        self.truncate = truncate
        self.smoothing = smoothing
        self.increasing = increasing
        self.prior = prior
        self.confidence = confidence
        self.certificate = certificate
        self.concentration = concentration
        self.n_restarts = n_restarts
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit the attack and compute the certificate.

        Parameters
        ----------
        X : array-like of shape (n, q), or (n,) for labels
            T, what the audited model reveals.
        y : array-like of shape (n,)
            S, the sensitive bit, in any two values. The pairs must be independent draws.

        Returns
        -------
        self : FiniteAdversaryAuditor
        """
        points, s = self._validate(X, y)
        self.variation_ = self._variation()
        outcome = self._certify(points, s)
        return self._store(outcome, points, s)

    def certificate_curve(self, X, y, constants):
        """Lower bound on the loss as a function of the assumed constant.

        All points of the curve hold simultaneously: they share one event of probability ``confidence``.

        Parameters
        ----------
        X, y : array-like
            The audited pairs, as in ``fit``.
        constants : array-like of shape (m,)
            Values of ``barron_constant`` or ``total_variation``, whichever the assumption uses.

        Returns
        -------
        ndarray of shape (m,)
            ``loss_lower_bound_`` under each constant.
        """
        name = {"barron": "barron_constant", "total_variation": "total_variation"}.get(self.assumption)
        if name is None:
            raise ValueError(
                "certificate_curve needs assumption='barron' or 'total_variation'; got 'monotone'."
            )
        parameters = self.get_params(deep=False)
        bounds = []
        for constant in np.asarray(constants, dtype=float):
            parameters[name] = float(constant)
            bounds.append(type(self)(**parameters).fit(X, y).loss_lower_bound_)
        return np.array(bounds)

    def report(self):
        """The findings as an `AuditReport`, readable in plain words."""
        check_is_fitted(self)
        return AuditReport(
            loss=self.loss,
            n=self.n_audited_,
            confidence=float(self.confidence),
            assumption=self._assumption_in_words(),
            empirical_loss=self.empirical_loss_,
            loss_lower_bound=self.loss_lower_bound_,
            empirical_accuracy=self.empirical_accuracy_,
            accuracy_upper_bound=self.accuracy_upper_bound_,
            advantage_upper_bound=self.advantage_upper_bound_,
            mutual_information_upper_bound=self.mutual_information_upper_bound_,
            certified=self.certified_,
            caveats=self.caveats_,
        )

    def decision_function(self, X):
        """Estimate of ``E[S | T]`` (S = ±1), positive where ``classes_[1]`` is more likely; shape (n,)."""
        check_is_fitted(self)
        if self.setting_ == "classification":
            return self._adversary.predict(self._codes(self._label_array(X))[:, None])
        return self._adversary.predict(validate_data(self, X, dtype=np.float64, reset=False))

    def predict_proba(self, X):
        """Estimated probabilities of the two values of S; shape (n, 2)."""
        p = np.clip(0.5 * (1.0 + self.decision_function(X)), 0.0, 1.0)
        return np.column_stack([1.0 - p, p])

    def predict(self, X):
        """Guess of S for each row; shape (n,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _assumption_in_words(self):
        if self.setting_ == "classification":
            return f"none ({self.values_.size} distinct outputs)"
        if self.assumption == "monotone":
            return "E[S|T] is monotone in T"
        if self.assumption == "barron":
            return f"Barron constant of E[S|T] <= {self.barron_constant:g} on {self.support!r}"
        return f"variation of E[S|T] <= {self.total_variation:g}"

    # -- steps of fit ---------------------------------------------------------------------------------------

    def _validate(self, X, y):
        labels = self._resolve_setting(X) == "classification"
        if labels:
            values = self._label_array(X)
            y = column_or_1d(y, warn=True)
            if len(values) != len(y):
                raise ValueError(f"T and S must have the same length; got {len(values)} and {len(y)}.")
            self.n_features_in_ = 1
        else:
            X, y = validate_data(self, X, y, dtype=np.float64)
        check_class_labels(y)
        self.classes_, coded = np.unique(y, return_inverse=True)
        if self.classes_.size > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: S must "
                "take two values, "
                f"got {self.classes_.size}."
            )
        if self.classes_.size < 2:
            raise ValueError("S is constant: an audit needs both classes of the sensitive bit, got 1 class.")
        s = 2.0 * coded - 1.0
        self.setting_ = "classification" if labels else "representation"
        self.n_truncated_ = 0
        if labels:
            self.values_ = np.unique(values)
            return self._codes(values)[:, None], s
        self._check_representation(X.shape[1])
        rng = public_generator(self.random_state)
        if self.smoothing > 0.0:
            X = X + self.smoothing * rng.normal(size=X.shape)
        return self._restrict(X, s)

    def _resolve_setting(self, X):
        if self.setting != "auto":
            return self.setting
        kind = getattr(getattr(X, "dtype", None), "kind", None)
        if kind is None and not hasattr(X, "shape") and isinstance(X, list | tuple) and len(X):
            kind = np.asarray(X).dtype.kind if np.ndim(X[0]) == 0 else None
        one_dimensional = np.ndim(X) == 1 if kind is not None else False
        return "classification" if one_dimensional and kind in "iubOUST" else "representation"

    @staticmethod
    def _label_array(X):
        values = np.asarray(X)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(
                f"Expected labels of shape (n,) or (n, 1); got an array of shape {values.shape}."
            )
        return values.astype(str) if values.dtype.kind in "OT" else values

    def _codes(self, values):
        """Code of each label; ``len(values_)`` for labels never seen."""
        codes = np.searchsorted(self.values_, values)
        codes = np.minimum(codes, self.values_.size - 1)
        return np.where(self.values_[codes] == values, codes, self.values_.size)

    def _check_representation(self, n_features):
        if self.assumption == "monotone" and n_features != 1:
            raise ValueError(f"assumption='monotone' needs a scalar T; got {n_features} columns.")
        if self.assumption == "barron" and self.barron_constant is None:
            raise ValueError(
                "assumption='barron' needs barron_constant: no finite sample bounds it from above. Derive "
                "it from the "
                "release (gaussian_mixture_barron_constant, barron_constant) or use another assumption."
            )
        if self.assumption == "barron" and self.support is None:
            raise ValueError(
                "assumption='barron' needs a bounded support: give support=radius or (low, high), with "
                "truncate=True if "
                "T can lie outside."
            )
        if self.certificate == "paper" and self.loss == "log":
            raise ValueError(
                "certificate='paper' has no theorem for the log loss of a real-valued T; use "
                "certificate='convex' or "
                "loss='squared'."
            )

    def _restrict(self, X, s):
        if self.support is None:
            return X, s
        inside = inside_support(X, self.support)
        if inside.all():
            return X, s
        if not self.truncate:
            raise ValueError(
                f"{int((~inside).sum())} of {inside.size} rows of T lie outside support={self.support!r}. "
                "Widen the support, or audit the truncated output with truncate=True."
            )
        self.n_truncated_ = int((~inside).sum())
        if np.unique(s[inside]).size < 2:
            raise ValueError("Fewer than two classes of S remain inside the support.")
        return X[inside], s[inside]

    def _variation(self):
        if self.setting_ == "classification" or self.assumption == "monotone":
            return 2.0  # a monotone η rises by at most 2; labels need no bound
        if self.assumption == "total_variation":
            return float(self.total_variation)
        return float(self.barron_constant) * support_diameter(self.support, self.n_features_in_)

    def _certify(self, points, s):
        if self.setting_ == "classification":
            return certify_labels(
                points[:, 0], s, self.values_.size, loss=self.loss, certificate=self.certificate
            )
        return certify_representation(
            points,
            s,
            assumption=self.assumption,
            variation=self.variation_,
            loss=self.loss,
            certificate=self.certificate,
            increasing=self.increasing if self.increasing == "auto" else bool(self.increasing),
            n_neurons=self.n_neurons,
            n_restarts=self.n_restarts,
            rng=public_generator(self.random_state),
        )

    def _store(self, outcome, points, s):
        confidence = float(self.confidence)
        bound = partial(confidence_bound, outcome, loss=self.loss, concentration=self.concentration)
        self._adversary = outcome.adversary
        self.n_audited_ = outcome.n
        self.certified_, self.caveats_ = outcome.certified, outcome.caveats
        self.empirical_loss_ = outcome.empirical_loss
        self.empirical_accuracy_ = float(((outcome.adversary.predict(points) > 0.0) == (s > 0.0)).mean())
        self.loss_lower_bound_ = bound(confidence=confidence)
        self.gap_ = self.empirical_loss_ - self.loss_lower_bound_
        self.duality_gap_ = float("nan") if outcome.converted else self.empirical_loss_ - outcome.minimum
        self.accuracy_upper_bound_ = accuracy_upper_bound(self.loss_lower_bound_, self.loss)
        # What also needs the prior holds together with it: half of the failure probability each.
        if self.prior is None:
            joint = (1.0 + confidence) / 2.0
            prior = clopper_pearson(int((s > 0.0).sum()), s.size, joint)
        else:
            joint, prior = confidence, (float(self.prior), float(self.prior))
        loss_bound = bound(confidence=joint)
        mse_bound = loss_bound if self.loss == "squared" else mse_from_entropy(loss_bound)
        self.advantage_upper_bound_ = advantage_upper_bound(mse_bound, *prior)
        self.mutual_information_upper_bound_ = mutual_information_upper_bound(
            loss_bound, *prior, loss=self.loss
        )
        return self
