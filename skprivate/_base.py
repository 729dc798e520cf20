"""What every private estimator shares. Think twice before adding anything."""

from __future__ import annotations

from numbers import Real
from typing import Any

from skprivate._sklearn import Interval
from skprivate.privacy import Adjacency, PrivacyLedger, PrivacyUnit, Release, open_release

#: Constraints of the parameters that every private estimator has.
PRIVACY_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state"],
    "ledger": [PrivacyLedger, None],
}
#: Constraint of ``delta`` for estimators whose mechanism is approximate.
DELTA_CONSTRAINT: dict[str, list[Any]] = {"delta": [Interval(Real, 0, 1, closed="neither")]}


class PrivateEstimatorMixin:
    """Opens the one door for an estimator's budget.

    Goes left of `BaseEstimator`. The estimator has the parameters ``epsilon``, ``random_state``, ``ledger`` and,
    where its mechanism is approximate, ``delta``; its ``fit`` stores what `Release.close` returns as
    ``privacy_guarantee_``.
    """

    def _open_release(
        self,
        *,
        unit: PrivacyUnit | str,
        adjacency: Adjacency | str,
        theorem: str,
        assumptions: tuple[str, ...] = (),
        plan: Any = (),
        metric: str | None = None,
    ) -> Release:
        return open_release(
            epsilon=self.epsilon,  # type: ignore[attr-defined]
            delta=getattr(self, "delta", 0.0),
            unit=unit,
            adjacency=adjacency,
            metric=metric,
            random_state=self.random_state,  # type: ignore[attr-defined]
            ledger=self.ledger,  # type: ignore[attr-defined]
            label=type(self).__name__,
            theorem=theorem,
            assumptions=assumptions,
            plan=plan,
        )
