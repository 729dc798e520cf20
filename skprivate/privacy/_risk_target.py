"""Budgets stated as a risk: rates that no attacker may exceed, in place of an ε."""

from __future__ import annotations

import contextvars
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from scipy.optimize import brentq

from skprivate.privacy._dialect import delta_number, must_be, number
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy._risk import rates_of

#: No target is kept to by a larger ε that is not kept to by this one, as far as anybody would care.
_MOST = 64.0
#: Relative precision of the ε that is found. It lies below the one that would just do.
_PRECISION = 1e-3


@dataclass(frozen=True, repr=False)
class RiskTarget:
    """A budget stated as what the best attacker may achieve at most, for the ``epsilon`` of an estimator or a ledger.

    Parameters
    ----------
    tpr : float, optional
        How many of those who took part may be recognised where ``fpr`` of the others are accused falsely.
    advantage : float, optional
        By how much any test may be right more often about the ones than wrong about the others.
    posterior : float, optional
        Probability that an accusation at ``fpr`` may be true.
    best_guess : float, optional
        Probability with which a guess may be right after the release.
    prior : float, default=0.5
        Probability, before the release, that the attacker's guess about a unit is right.
    fpr : float, default=0.01
        How often the attacker may accuse a unit falsely.

    Raises
    ------
    TypeError, ValueError
        If nothing is asked for, a number is out of range, or a target cannot be kept to by any release: at ε = 0 an
        attacker has ``tpr = fpr``, ``advantage = 0``, ``posterior = prior``, ``best_guess = max(prior, 1 - prior)``.

    Notes
    -----
    The numbers are those of `PrivacyGuarantee.risk`; all that are given must hold.

    *An estimator* looks for the largest ε whose own events keep to the target, before anything is drawn: its ``fit``
    runs up to the payment several times, which takes public numbers only. The guarantee then keeps to the target by
    `PrivacyGuarantee.risk`, which is checked again when it is paid for. The fitted attribute ``epsilon_`` is the ε that
    was found, ``privacy_guarantee_`` its price. δ stays the parameter ``delta``. The parameter ``epsilon`` is left as
    it is, so `clone` and searches over it work.

    *A ledger* is charged by events that nobody knows beforehand. Its ε is the largest for which *every* (ε, δ)-private
    mechanism keeps to the target, `epsilon`; it is fixed when the ledger is created.

    Under metric privacy an attacker's odds depend on a distance, so a target is refused there; so it is where a release
    is made by ``transform``.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.privacy import RiskTarget
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> target = RiskTarget(tpr=0.05, fpr=0.01)
    >>> model = UserLevelMean(epsilon=target).fit(X)
    >>> model.privacy_guarantee_.risk(fpr=0.01).tpr <= 0.05
    True
    >>> bool(model.epsilon_ > target.epsilon(delta=1e-6))
    True
    """

    tpr: float | None = None
    advantage: float | None = None
    posterior: float | None = None
    best_guess: float | None = None
    prior: float = 0.5
    fpr: float = 0.01

    def __post_init__(self) -> None:
        for name in ("prior", "fpr"):
            value = number(name, getattr(self, name), "a number in (0, 1)", lambda value: 0 < value < 1)
            object.__setattr__(self, name, value)
        if not self._asked:
            raise ValueError(
                f"{type(self).__name__} must have one of {', '.join(self._idle)}, got none of them."
            )
        for name in self._asked:
            least = self._idle[name]
            allowed = f"a number in ({least:g}, 1)"
            value = number(name, getattr(self, name), allowed, partial(_between, least))
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        said = [
            f"{one.name}={value!r}"
            for one in dataclasses.fields(self)
            if (value := getattr(self, one.name)) is not None and (value != one.default or one.name == "fpr")
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    @property
    def _idle(self) -> dict[str, float]:
        """What an attacker has who sees nothing."""
        return {
            "tpr": self.fpr,
            "advantage": 0.0,
            "posterior": self.prior,
            "best_guess": max(self.prior, 1 - self.prior),
        }

    @property
    def _asked(self) -> list[str]:
        return [name for name in self._idle if getattr(self, name) is not None]

    def met_by(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a guarantee keeps to the target, by its own `PrivacyGuarantee.risk`.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Not one for metric privacy.

        Returns
        -------
        bool
        """
        return self._excess(guarantee) <= 0

    def epsilon(self, delta: float = 0.0) -> float:
        """The largest ε for which every (ε, δ)-differentially private mechanism keeps to the target.

        Parameters
        ----------
        delta : float in [0, 1), default=0.0
            δ of the budget.

        Returns
        -------
        float
            Rounded down by at most a thousandth.

        Raises
        ------
        ValueError
            If δ alone exceeds the target.
        """
        delta = delta_number(delta)
        found = self._largest(lambda epsilon: _bare(epsilon, delta), 2.0**-20)
        if found is None:
            raise ValueError(
                must_be("delta", f"small enough for {self}", delta, "It alone lets an attacker do better.")
            )
        return found

    def _excess(self, guarantee: PrivacyGuarantee) -> float:
        """Largest ln(risk above that of ε = 0 / what the target leaves there); at most 0 where the target is met."""
        rates, idle = rates_of(guarantee, self.prior, self.fpr, None, self._asked), self._idle
        shares = [(rate - idle[name]) / (getattr(self, name) - idle[name]) for name, rate in rates.items()]
        # The difference rounds: what is met is met exactly, as the risk says it.
        met = all(rate <= getattr(self, name) for name, rate in rates.items())
        excess = math.log(max(*shares, 1e-9))
        return min(excess, 0.0) if met else max(excess, 1e-15)

    def _largest(
        self, guarantee_at: Callable[[float], PrivacyGuarantee | None], start: float
    ) -> float | None:
        """The largest ε found whose guarantee meets the target; None where not even ``start`` does.

        Parameters
        ----------
        guarantee_at : callable
            What a budget of ε comes to; None where nothing can be released with it.
        start : float
        """
        excess: dict[float, float] = {}

        def at(logarithm: float) -> float:
            if logarithm not in excess:
                said = guarantee_at(math.exp(logarithm))
                excess[logarithm] = 1.0 if said is None else self._excess(said)
            return excess[logarithm]

        low = math.log(start)
        if at(low) > 0:
            return None
        high = low
        while at(high) <= 0:
            low, high = high, high + math.log(4.0)
            if high > math.log(_MOST):
                return math.exp(low)
        if at(low) < 0:
            root = float(brentq(at, low, high, xtol=_PRECISION / 4, rtol=1e-12))
            at(root - _PRECISION / 2)
        return math.exp(max(place for place, value in excess.items() if value <= 0))


class Planned(BaseException):
    """What a fit would pay for, said in place of paying."""

    def __init__(self, guarantee: PrivacyGuarantee) -> None:
        super().__init__()
        self.guarantee = guarantee


@dataclasses.dataclass(frozen=True)
class _Running:
    estimator: Any
    target: RiskTarget
    planning: bool
    paid: list[PrivacyGuarantee]


_RUNNING: contextvars.ContextVar[_Running | None] = contextvars.ContextVar("risk target", default=None)


@contextmanager
def settled_budget(estimator: Any, fit: Callable[[], Any]) -> Iterator[None]:
    """Give an estimator whose ``epsilon`` is a `RiskTarget` a number while the block runs.

    Parameters
    ----------
    estimator : estimator
        Its ``epsilon`` is the number while the block runs, and the target again after it.
    fit : callable
        Its fit, which is run up to the payment with several ε.
    """
    target = getattr(estimator, "epsilon", None)
    if not isinstance(target, RiskTarget):
        vars(estimator).pop("epsilon_", None)  # of an earlier fit
        yield
        return
    if getattr(estimator, "releases_in", "fit") != "fit":
        raise ValueError(
            must_be(
                "epsilon", "a number where transform makes the releases", target, "Each of them has a price."
            )
        )
    refuse_while_planning(type(estimator).__name__)
    delta = getattr(estimator, "delta", 0.0)

    def plan(epsilon: float) -> PrivacyGuarantee:
        try:
            with (
                _budget(estimator, _Running(estimator, target, True, []), epsilon),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")  # the fit itself will say it again
                fit()
        except Planned as found:
            return found.guarantee
        raise RuntimeError(f"{type(estimator).__name__} makes no release to which a risk would belong.")

    def plan_or_none(epsilon: float) -> PrivacyGuarantee | None:
        try:
            return plan(epsilon)
        except Exception:  # too large an ε for this mechanism; the fit itself will say what else is wrong
            return None

    try:
        start = target.epsilon(delta) * (1 - 2.0**-30)
        plan(start)  # whatever is wrong with the data or parameters is said here
        epsilon = target._largest(plan_or_none, start)
        if epsilon is None:
            raise ValueError(f"epsilon={target!r} cannot be kept to by {type(estimator).__name__}.")
        with _budget(estimator, _Running(estimator, target, False, []), epsilon):
            yield
            estimator.epsilon_ = epsilon
    finally:
        estimator.epsilon = target


def keep_to_target(
    estimator: Any, plan: Callable[[], PrivacyGuarantee]
) -> tuple[RiskTarget, PrivacyGuarantee] | None:
    """The target that an estimator must keep to and what it may pay for; None if it has a number.

    Parameters
    ----------
    estimator : estimator
        Who is about to pay.
    plan : callable
        What it would promise.

    Raises
    ------
    Planned
        While the ε is being looked for.
    ValueError
        For metric privacy, or a plan that does not keep to the target.
    """
    running = _RUNNING.get()
    if running is None or running.estimator is not estimator:
        return None
    planned = plan()
    if planned.adjacency is Adjacency.METRIC:
        raise ValueError(
            must_be(
                "epsilon",
                "a number under metric privacy",
                running.target,
                "What an attacker can know depends on a distance there.",
            )
        )
    if running.planning:
        raise Planned(planned)
    if running.paid or not running.target.met_by(planned):
        raise RuntimeError(
            f"{type(estimator).__name__} would release more than its budget {running.target} holds; nothing was drawn."
        )
    running.paid.append(planned)
    return running.target, planned


@contextmanager
def apart_from_target() -> Iterator[None]:
    """Let trials run whose noise is simulated and of which nobody sees more than a price, also while one plans."""
    token = _RUNNING.set(None)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def refuse_while_planning(label: str) -> None:
    """No release is opened while an ε is looked for."""
    running = _RUNNING.get()
    if running is not None and running.planning:
        raise RuntimeError(
            f"{label or 'a release'} would be drawn several times while an epsilon for a RiskTarget is found: give "
            "that part a number. Nothing was drawn or spent."
        )


@contextmanager
def _budget(estimator: Any, running: _Running, epsilon: float) -> Iterator[None]:
    estimator.epsilon = epsilon
    token = _RUNNING.set(running)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def _between(low: float, value: float) -> bool:
    return low < value < 1


def _bare(epsilon: float, delta: float) -> PrivacyGuarantee:
    return PrivacyGuarantee(epsilon, delta, PrivacyUnit.ROW, Adjacency.REPLACE_ONE)
