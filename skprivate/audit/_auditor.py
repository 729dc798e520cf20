"""The auditor: an attack, and a bound on what any other attack could do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skprivate._sklearn import CallbackSupportMixin, Interval, StrOptions, _fit_context, check_class_labels
from skprivate._validation import refuse_elsewhere, validate_data
from skprivate.audit._class_outputs import as_labels, is_float_series, is_labels, output_summary
from skprivate.audit.attacks._report import clopper_pearson
from skprivate.audit.certificates import _certificates, _concentration
from skprivate.privacy import in_one_order, public_generator

_SEVERAL = (
    "Losses, advantage and information are those of the value that shows most against the rest; accuracy is that of "
    "guessing the value. All of it, and by_value_, holds together."
)


class AdversaryBounds(NamedTuple):
    """Bounds on every adversary: on the loss from below, on the others from above."""

    loss: float
    accuracy: float
    advantage: float
    mutual_information: float


@dataclass(frozen=True)
class AuditReport:
    """Both sides of an audit: what the fitted attack achieved, and what no adversary can exceed.

    Attributes
    ----------
    loss : str
        ``"squared"`` (S = ±1) or ``"log"`` (nats).
    n : int
        Audited rows.
    confidence : float
        Probability with which the bounds hold.
    assumption : str
        What was assumed of E[S | T], in words.
    empirical_loss : float
        Loss of the attack on the audited rows.
    empirical_accuracy : float
        Share of audited rows the attack guesses right; fitted on the same rows, so not itself a held-out
        figure.
    bounds : AdversaryBounds
        Bounds on every adversary; each is an attribute as well.
    caveats : tuple of str
        Reservations.
    """

    loss: str
    n: int
    confidence: float
    assumption: str
    empirical_loss: float
    empirical_accuracy: float
    bounds: AdversaryBounds
    caveats: tuple[str, ...] = ()

    @property
    def loss_lower_bound(self) -> float:
        """Bound on every adversary's expected loss."""
        return self.bounds.loss

    @property
    def accuracy_upper_bound(self) -> float:
        """Bound on every adversary's accuracy."""
        return self.bounds.accuracy

    @property
    def advantage_upper_bound(self) -> float:
        """Bound on every adversary's advantage."""
        return self.bounds.advantage

    @property
    def mutual_information_upper_bound(self) -> float:
        """Bound on the information I(S; T), in nats."""
        return self.bounds.mutual_information

    def __str__(self) -> str:
        unit = " nats" if self.loss == "log" else ""
        lines = [
            f"Audit of {self.n} pairs; what is said of every attack is proven, with confidence {self.confidence:g}",
            f"  assumption                    {self.assumption}",
            f"  this attack: {self.loss + ' loss':<17}{self.empirical_loss:.4f}{unit}",
            f"  this attack: accuracy         {self.empirical_accuracy:.4f} (on the rows it was fitted on)",
            f"  every attack: loss at least   {self.loss_lower_bound:.4f}{unit}",
            f"  every attack: accuracy up to  {self.accuracy_upper_bound:.4f}",
            f"  every attack: advantage up to {self.advantage_upper_bound:.4f}",
            f"  information I(S;T) up to      {self.mutual_information_upper_bound:.4f} nats",
        ]
        return "\n".join(lines + [f"  note: {caveat}" for caveat in self.caveats])


class FiniteAdversaryAuditor(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Guess a sensitive attribute S from a model's outputs T, and bound what *every* adversary could achieve.

    The adversary is fitted on n audited pairs; its failure is turned into a statement about all measurable
    functions of T: with probability at least ``confidence`` over the audited sample,

    ``min over all h of E (h(T) − S)² ≥ loss_lower_bound_``  (or ``H(S|T) ≥ …`` for the log loss),

    provided that ``η(t) = E[S | T = t]`` obeys the stated assumption. The assumption cannot be checked on a
    finite sample; it follows from a known noise-adding release, or it is the auditor's own.

    If S takes more than two values, each is audited against the rest (S = 1 for it, −1 otherwise), and the
    assumption is about each of these η. All statements share one failure probability, by the union bound.

    Parameters
    ----------
    loss : {"squared", "log"}, default="squared"
        ``(h − S)²`` with S = ±1, in [0, 1] at the optimum; or the log loss in nats, at most ln 2 at the
        optimum.
    setting : {"auto", "representation", "classification"}, default="auto"
        ``"representation"``: T is real, of shape (n, q). ``"classification"``: T takes finitely many values,
        the model's predicted labels; no assumption on η is needed. ``"auto"`` chooses classification for one
        column of text, and for one-dimensional arrays, lists and Series of integers or booleans.
    n_top : int, default=4
        Of class probabilities that come with ``labels``, how many of the largest are looked at, besides that of the
        true label. With 1 the certificate is tight; with more the attack is stronger and the certificate loose.
    assumption : {"total_variation", "barron", "monotone"}, default="total_variation"
        What is known about η. ``"total_variation"``: its variation is at most ``total_variation``.
        ``"barron"``: its Barron constant is at most ``barron_constant``, hence its variation on ``support`` at most
        their product. ``"monotone"``: it rises or falls throughout (q = 1), as under a monotone
        likelihood ratio; no constant needed.
    total_variation : float, default=2.0
        Bound on the total variation of η (q = 1), or on the mass of η as a mixture of half-space indicators
        (q ≥ 2). The default admits every monotone η, or one rise and fall over half the range.
    barron_constant : float or None, default=None
        ``(2π)^{−q/2} ∫ ‖ω‖ |η̂(ω)| dω``; see `skprivate.papers.auditing`.
    support : float, (float, float) or None, default=None
        The compact set that holds T: the ball of this radius around 0, or the cube [low, high]^q. Needed for
        ``"barron"``; for q = 1 its diameter multiplies the constant.
    truncate : bool, default=False
        Audit the truncation of T to the support: rows outside are left out, and every statement is about T
        given that it lies inside. Without it, rows outside the support are an error.
    smoothing : float, default=0.0
        Audit T + smoothing·N(0, I) in place of T. The statements are then about a model that adds this noise.
    prior : float or None, default=None
        P(S = ``classes_[1]``) of two values if known by design, for example 0.5 for coin flips. Otherwise an exact
        interval takes half of the failure probability of ``advantage_upper_bound_`` and
        ``mutual_information_upper_bound_``.
    confidence : float, default=0.99
        Probability with which the bounds hold.
    concentration : {"auto", "hoeffding", "bernstein"}, default="auto"
        Tail bound under the squared loss. ``"auto"`` takes the tighter of the two,
        at no cost in confidence because both are deterministic functions of the loss.
    random_state : int, RandomState or None, default=None
        Public randomness: search directions, smoothing.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The values of S.
    by_value_ : dict of value to AuditReport
        Findings for each value of S against the rest; for two values those for ``classes_[1]``.
    empirical_loss_ : float
        Loss of the fitted attack on the audited sample.
    loss_lower_bound_ : float
        No adversary has a smaller expected loss; the least of the values of S against the rest.
    gap_ : float
        ``empirical_loss_ − loss_lower_bound_``.
    duality_gap_ : float
        How far the attack may be from the best function of the class on the sample.
    accuracy_upper_bound_ : float
        No adversary guesses S correctly with a larger probability, S drawn with the audited prior.
    advantage_upper_bound_ : float
        No adversary has a larger true minus false positive rate, for any value; does not depend on the prior.
    mutual_information_upper_bound_ : float
        Largest I(S; T), in nats; of more than two values the largest of one against the rest.
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
    output_classes_ : ndarray of shape (n_features,)
        Class of each column, where T came with ``labels``.

    See Also
    --------
    attack_probabilities : Attacks in one call, without a bound.
    skprivate.papers.auditing.theorem_bound : Computes the paper's own bounds.
    epsilon_lower_bound : Bounds from below what is leaked.

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
        "loss": [StrOptions({"squared", "log"})],
        "setting": [StrOptions({"auto", "representation", "classification"})],
        "n_top": [Interval(Integral, 0, None, closed="left")],
        "assumption": [StrOptions({"barron", "total_variation", "monotone"})],
        "total_variation": [Interval(Real, 0, None, closed="left")],
        "barron_constant": [Interval(Real, 0, None, closed="left"), None],
        "support": [Interval(Real, 0, None, closed="neither"), tuple, list, None],
        "truncate": ["boolean"],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "prior": [Interval(Real, 0, 1, closed="neither"), None],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "concentration": [StrOptions({"auto", "hoeffding", "bernstein"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        loss: Literal["squared", "log"] = "squared",
        setting: Literal["auto", "representation", "classification"] = "auto",
        n_top: int = 4,
        assumption: Literal["total_variation", "barron", "monotone"] = "total_variation",
        total_variation: float = 2.0,
        barron_constant: float | None = None,
        support: float | tuple[float, float] | list[float] | None = None,
        truncate: bool = False,
        smoothing: float = 0.0,
        prior: float | None = None,
        confidence: float = 0.99,
        concentration: Literal["auto", "hoeffding", "bernstein"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.loss = loss
        self.setting = setting
        self.n_top = n_top
        self.assumption = assumption
        self.total_variation = total_variation
        self.barron_constant = barron_constant
        self.support = support
        self.truncate = truncate
        self.smoothing = smoothing
        self.prior = prior
        self.confidence = confidence
        self.concentration = concentration
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, labels: object = None, *, classes: object = None) -> Self:
        """Fit the attack and compute the certificate.

        Parameters
        ----------
        X : array-like of shape (n, q), or (n,) for labels
            T, what the audited model reveals. A Series of labels, of text or of scores is one column.
        y : array-like of shape (n,)
            S, the sensitive attribute, of two or more values. The pairs must be independent draws.
        labels : array-like of shape (n,) or None, default=None
            True labels of the records, where the rows of X are class probabilities as they come out of
            ``predict_proba``. The adversary then looks at `output_summary`, and the bounds hold for all functions of
            that.
        classes : array-like of shape (q,) or None, default=None
            Class of each column of X, for ``labels``; by default the distinct labels in order.

        Returns
        -------
        self : FiniteAdversaryAuditor
        """
        points, coded = self._validate(X, y, labels, classes)
        self.variation_ = self._variation(points.shape[1])
        k = self.classes_.size
        bits = [np.where(coded == value, 1.0, -1.0) for value in (range(k) if k > 2 else (1,))]
        outcomes = [self._certify(points, s) for s in bits]
        # One failure probability for all values (union bound).
        confidence = 1.0 - (1.0 - float(self.confidence)) / len(bits)
        reports = [self._findings(outcome, points, s, confidence) for outcome, s in zip(outcomes, bits, strict=True)]
        return self._store(outcomes, reports, points, coded)

    @in_one_order
    def certificate_curve(
        self, X: Any, y: Any, constants: object, labels: object = None, *, classes: object = None
    ) -> NDArray[np.float64]:
        """Lower bound on the loss as a function of the assumed constant.

        All points of the curve hold simultaneously: they share one event of probability ``confidence``.

        Parameters
        ----------
        X, y : array-like
            The audited pairs, as in ``fit``.
        constants : array-like of shape (m,)
            Values of ``barron_constant`` or ``total_variation``, whichever the assumption uses.
        labels, classes : array-like or None
            As in ``fit``.

        Returns
        -------
        ndarray of shape (m,)
            ``loss_lower_bound_`` under each constant.
        """
        name = {"barron": "barron_constant", "total_variation": "total_variation"}.get(self.assumption)
        if name is None:
            raise ValueError("certificate_curve needs assumption='barron' or 'total_variation'; got 'monotone'.")
        parameters = self.get_params(deep=False)
        bounds = []
        for constant in np.asarray(constants, dtype=float):
            parameters[name] = float(constant)
            bounds.append(type(self)(**parameters).fit(X, y, labels, classes=classes).loss_lower_bound_)
        return np.array(bounds)

    def report(self) -> AuditReport:
        """Summarise the findings in plain words.

        Returns
        -------
        AuditReport
        """
        check_is_fitted(self)
        return self._report

    @in_one_order
    def decision_function(self, X: Any, labels: object = None) -> NDArray[np.float64]:
        """Estimate of ``E[S | T]`` (S = ±1), positive where ``classes_[1]`` is more likely; shape (n,).

        With more than two values, that of each against the rest; shape (n, n_classes).
        """
        check_is_fitted(self)
        if self.setting_ == "classification":
            return self._outputs(self._codes(as_labels(X))[:, None])
        return self._outputs(self._points(X, labels, reset=False))

    @in_one_order
    def predict_proba(self, X: Any, labels: object = None) -> NDArray[np.float64]:
        """Estimated probabilities of the values of S; shape (n, n_classes)."""
        p = np.clip(0.5 * (1.0 + self.decision_function(X, labels)), 0.0, 1.0)
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        p += 1e-9  # no row adds up to 0
        return p / p.sum(axis=1, keepdims=True)

    @in_one_order
    def predict(self, X: Any, labels: object = None) -> NDArray[Any]:
        """Guess of S for each row; shape (n,)."""
        outputs = self.decision_function(X, labels)
        return self.classes_[(outputs > 0.0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)]

    @in_one_order
    def score(self, X: Any, y: Any, sample_weight: object = None, labels: object = None) -> float:
        """Share of rows that the attack guesses right."""
        return accuracy_score(y, self.predict(X, labels), sample_weight=sample_weight)

    def _assumption_in_words(self):
        if self.setting_ == "classification":
            return f"none ({self.values_.size} distinct outputs)"
        if self.assumption == "monotone":
            return "E[S|T] is monotone in T"
        if self.assumption == "barron":
            return f"Barron constant of E[S|T] <= {self.barron_constant:g} on {self.support!r}"
        return f"variation of E[S|T] <= {self.total_variation:g}"

    # -- steps of fit ---------------------------------------------------------------------------------------

    def _validate(self, X, y, labels, classes):
        refuse_elsewhere(X)
        discrete = labels is None and (is_labels(X) if self.setting == "auto" else self.setting == "classification")
        if discrete:
            values = as_labels(X)
            y = column_or_1d(y, warn=True)
            if len(values) != len(y):
                raise ValueError(f"T and S must have the same length; got {len(values)} and {len(y)}.")
            self.n_features_in_ = 1
        else:
            if is_float_series(X):
                X = X.to_frame()
            X, y = validate_data(self, X, y, dtype=np.float64)
        check_class_labels(y)
        self.classes_, coded = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError("S is constant: an audit needs two values of it, got 1 class.")
        if self.classes_.size > 2 and self.prior is not None:
            raise ValueError(
                f"prior must be None where S takes more than two values ({self.classes_.size}); got {self.prior!r}."
            )
        self.setting_ = "classification" if discrete else "representation"
        self.n_truncated_ = 0
        if discrete:
            self.values_ = np.unique(values)
            return self._codes(values)[:, None], coded
        if labels is not None:
            self.output_classes_ = np.unique(as_labels(labels, "labels")) if classes is None else np.asarray(classes)
            X = self._summary(X, labels)
        elif hasattr(self, "output_classes_"):
            del self.output_classes_
        self._check_representation(X.shape[1])
        if self.smoothing > 0.0:
            X = X + self.smoothing * public_generator(self.random_state).normal(size=X.shape)
        return self._restrict(X, coded)

    def _points(self, X, labels, *, reset):
        """Representations as ``fit`` saw them."""
        X = X.to_frame() if is_float_series(X) else X
        X = validate_data(self, X, dtype=np.float64, reset=reset)
        if (labels is None) == hasattr(self, "output_classes_"):
            with_or_without = "with" if labels is None else "without"
            raise ValueError(
                f"labels must be given if, and only if, fit had them: this auditor was fitted {with_or_without} labels."
            )
        return X if labels is None else self._summary(X, labels)

    def _summary(self, X, labels):
        return output_summary(X, labels, classes=self.output_classes_, n_top=self.n_top)

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
                "assumption='barron' needs barron_constant: no finite sample bounds it from above. Derive it from the "
                "release (gaussian_mixture_barron_constant, barron_constant) or use another assumption."
            )
        if self.assumption == "barron" and self.support is None:
            raise ValueError(
                "assumption='barron' needs a bounded support: give support=radius or (low, high), with truncate=True "
                "if T can be outside."
            )

    def _restrict(self, X, coded):
        if self.support is None:
            return X, coded
        inside = _certificates.inside_support(X, self.support)
        if inside.all():
            return X, coded
        if not self.truncate:
            raise ValueError(
                f"{int((~inside).sum())} of {inside.size} rows of T are outside support={self.support!r}. "
                "Widen the support, or audit the truncated output with truncate=True."
            )
        self.n_truncated_ = int((~inside).sum())
        if np.unique(coded[inside]).size < 2:
            raise ValueError("Fewer than two classes of S remain inside the support.")
        return X[inside], coded[inside]

    def _outputs(self, points):
        columns = [adversary.predict(points) for adversary in self._adversaries]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _variation(self, n_columns):
        if self.setting_ == "classification" or self.assumption == "monotone":
            return 2.0  # a monotone η rises by at most 2; labels need no bound
        if self.assumption == "total_variation":
            return float(self.total_variation)
        return float(self.barron_constant or 0.0) * _certificates.support_diameter(self.support, n_columns)

    def _certify(self, points, s):
        if self.setting_ == "classification":
            return _certificates.certify_labels(points[:, 0], s, self.values_.size, loss=self.loss)
        return _certificates.certify_representation(
            points,
            s,
            assumption=self.assumption,
            variation=self.variation_,
            barron_constant=self.barron_constant,
            loss=self.loss,
            rng=public_generator(self.random_state),
        )

    def _findings(self, outcome, points, s, confidence):
        """State what holds of one value of S (s = 1) against the rest, with this confidence."""
        bound = partial(_certificates.confidence_bound, outcome, loss=self.loss, concentration=self.concentration)
        lowest = bound(confidence=confidence)
        # What also needs the prior holds together with it: half of the failure probability each.
        if self.prior is None:
            joint = (1.0 + confidence) / 2.0
            prior = clopper_pearson(int((s > 0.0).sum()), s.size, joint)
        else:
            joint, prior = confidence, (float(self.prior), float(self.prior))
        loss_bound = bound(confidence=joint)
        return AuditReport(
            loss=self.loss,
            n=outcome.n,
            confidence=confidence,
            assumption=self._assumption_in_words(),
            empirical_loss=outcome.empirical_loss,
            empirical_accuracy=float(((outcome.adversary.predict(points) > 0.0) == (s > 0.0)).mean()),
            bounds=AdversaryBounds(
                loss=lowest,
                accuracy=_concentration.accuracy_upper_bound(lowest, self.loss),
                advantage=_concentration.advantage_upper_bound(self._squared(loss_bound), *prior),
                mutual_information=_concentration.mutual_information_upper_bound(loss_bound, *prior, loss=self.loss),
            ),
            caveats=outcome.caveats,
        )

    def _squared(self, bound):
        """Bound the squared loss by a bound on the audited one."""
        return bound if self.loss == "squared" else _concentration.mse_from_entropy(bound)

    def _store(self, outcomes, reports, points, coded):
        """Keep the report of two values; of several, what holds for each of them and for guessing among them."""
        worst = int(np.argmin([report.bounds.loss for report in reports]))
        report, outcome = reports[worst], outcomes[worst]
        self._adversaries = [each.adversary for each in outcomes]
        if len(reports) > 1:
            squared = [self._squared(each.bounds.loss) for each in reports]
            report = replace(
                report,
                confidence=float(self.confidence),
                empirical_accuracy=float((self._outputs(points).argmax(axis=1) == coded).mean()),
                bounds=AdversaryBounds(
                    loss=report.bounds.loss,
                    accuracy=_concentration.accuracy_among_several(squared),
                    advantage=max(each.bounds.advantage for each in reports),
                    mutual_information=max(each.bounds.mutual_information for each in reports),
                ),
                caveats=(_SEVERAL, *dict.fromkeys(note for each in reports for note in each.caveats)),
            )
        self._report = report
        self.by_value_ = dict(zip(self.classes_[-len(reports) :].tolist(), reports, strict=True))
        self.n_audited_ = report.n
        self.empirical_loss_, self.empirical_accuracy_ = report.empirical_loss, report.empirical_accuracy
        self.loss_lower_bound_, self.accuracy_upper_bound_ = report.bounds.loss, report.bounds.accuracy
        self.advantage_upper_bound_ = report.bounds.advantage
        self.mutual_information_upper_bound_ = report.bounds.mutual_information
        self.caveats_ = report.caveats
        self.gap_ = report.empirical_loss - report.bounds.loss
        self.duality_gap_ = float("nan") if outcome.converted else outcome.empirical_loss - outcome.minimum
        return self
