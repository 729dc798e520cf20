"""How the prices in a ledger add up: privacy filters in exact decimal arithmetic.

Most entries share a few prices, so an index groups them and the exact arithmetic runs over the groups:
nothing is kept that could differ from the entries themselves.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import NamedTuple

from skprivate.privacy._dialect import number
from skprivate.privacy._zcdp import epsilon_of_rho


class Price(NamedTuple):
    """What a release costs: (ε, δ), and ρ in zero-concentrated privacy where that exists."""

    epsilon: float
    delta: float
    rho: float | None = None

    @classmethod
    def checked(cls, epsilon: float, delta: float, rho: float | None) -> Price:
        """The price, or a clear error where the numbers are none."""
        return cls(
            number("epsilon", epsilon, "a finite price >= 0", lambda value: value >= 0),
            number("delta", delta, "a price in [0, 1)", lambda value: 0 <= value < 1),
            None
            if rho is None
            else number("rho", rho, "a finite price >= 0 or None", lambda value: value >= 0),
        )

    def exceeds(self, reserved: Price) -> bool:
        """Whether any of the numbers is above the reserved one."""
        more_rho = reserved.rho is not None and (self.rho is None or self.rho > reserved.rho)
        return self.epsilon > reserved.epsilon or self.delta > reserved.delta or more_rho

    def __str__(self) -> str:
        return f"epsilon={self.epsilon}, delta={self.delta}" + (
            "" if self.rho is None else f", rho={self.rho}"
        )


class BasicRule:
    """Σε ≤ ε and Σδ ≤ δ."""

    def __init__(self, budget: Price) -> None:
        self.budget = budget

    def spent(self, connection: sqlite3.Connection) -> tuple[float, float]:
        epsilon, delta = self._total(connection)
        return round_up(epsilon), round_up(delta)

    def remaining(self, connection: sqlite3.Connection) -> Price:
        epsilon, delta = self._total(connection)
        return Price(_left(exact(self.budget.epsilon), epsilon), _left(exact(self.budget.delta), delta))

    def fits(self, connection: sqlite3.Connection, new: Price, old: Price) -> bool:
        """Whether the total stays within the budget when an entry's price grows from ``old`` to ``new``."""
        epsilon, delta = self._total(connection)
        return _fits(epsilon, old.epsilon, new.epsilon, self.budget.epsilon) and _fits(
            delta, old.delta, new.delta, self.budget.delta
        )

    def _total(self, connection: sqlite3.Connection) -> tuple[Decimal, Decimal]:
        groups = connection.execute(
            "SELECT epsilon, delta, count(*) FROM entries GROUP BY epsilon, delta"
        ).fetchall()
        return (
            _sum((epsilon, count) for epsilon, _, count in groups),
            _sum((delta, count) for _, delta, count in groups),
        )


class ZcdpRule:
    """Σρ ≤ ρ*, where ρ*-zCDP implies the budget (ε, δ)."""

    def __init__(self, budget: Price) -> None:
        self.budget = budget
        self.limit = budget.rho or 0.0

    def spent(self, connection: sqlite3.Connection) -> tuple[float, float]:
        return self._worth(round_up(self._total(connection)))

    def remaining(self, connection: sqlite3.Connection) -> Price:
        rho = _left(exact(self.limit), self._total(connection))
        return Price(*self._worth(rho), rho)

    def fits(self, connection: sqlite3.Connection, new: Price, old: Price) -> bool:
        if new.rho is None:
            raise ValueError(
                "This release has no zCDP price, and its ledger adds up in zCDP. Use a PrivacyLedger with "
                "composition='basic'. Nothing was drawn or spent."
            )
        return _fits(self._total(connection), old.rho or 0.0, new.rho, self.limit)

    def _worth(self, rho: float) -> tuple[float, float]:
        if rho <= 0:
            return 0.0, 0.0
        return min(epsilon_of_rho(rho, self.budget.delta), self.budget.epsilon), self.budget.delta

    def _total(self, connection: sqlite3.Connection) -> Decimal:
        groups = connection.execute("SELECT rho, count(*) FROM entries GROUP BY rho").fetchall()
        return _sum(groups)


RULES: dict[str, type[BasicRule] | type[ZcdpRule]] = {"basic": BasicRule, "zcdp": ZcdpRule}


#: Floats print with 17 digits between 10⁻³²⁴ and 10³⁰⁸: 1000 digits hold any sum of them, and Inexact would tell.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation, Overflow])


def exact(value: float) -> Decimal:
    """The decimal number that a float prints as: 0.1 is one tenth."""
    return Decimal(repr(value))


def round_down(value: Decimal) -> float:
    """The largest float whose `exact` value is at most ``value``."""
    result = float(value)
    while exact(result) > value:
        result = math.nextafter(result, -math.inf)
    return result


def round_up(value: Decimal) -> float:
    """The smallest float whose `exact` value is at least ``value``."""
    return -round_down(value.copy_negate()) + 0.0


def _sum(groups: Iterable[tuple[float, int]]) -> Decimal:
    total = Decimal()
    for value, count in groups:
        total = _EXACT.fma(exact(value), Decimal(count), total)
    return total


def _left(budget: Decimal, total: Decimal) -> float:
    return round_down(_EXACT.subtract(budget, total))


def _fits(total: Decimal, old: float, new: float, budget: float) -> bool:
    changed = _EXACT.add(_EXACT.subtract(total, exact(old)), exact(new))
    return changed <= exact(budget)
