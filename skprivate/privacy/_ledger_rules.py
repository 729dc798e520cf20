"""How the prices in a ledger add up: privacy filters in exact decimal arithmetic.

Three sums are kept: of ε, of δ, and of the price in approximate zero-concentrated privacy, (ρ, δ′), where a release
without a ρ of its own counts as δ-approximately ε²/2-zCDP. Two filters read them:

* *sum*: Σε ≤ ε and Σδ ≤ δ (Rogers et al. 2016);
* *zcdp*: Σρ at most the largest ρ that implies ε at δ, and Σδ′ = 0 (Feldman and Zrnic 2021).

Σδ′ > 0 would need a share of δ that is fixed in advance (Whitehouse et al. 2023). To trade it against ρ on the way is
no filter: of two Gaussian draws, whoever makes the second where the loss is high and else spends what is left of δ on
a release without a ρ fails with 1.2 δ.

Each of them holds for paths that end within it. A ledger that admits what either of them admits must divide δ between
them: those paths that end within the one fail with its share, the others with the other's.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from typing import NamedTuple

from skprivate.privacy._dialect import delta_number, number, rounded_up
from skprivate.privacy._zcdp import epsilon_of_rho, rho_of_epsilon

#: How prices may add up.
COMPOSITIONS = ("filter", "basic", "zcdp")


class Price(NamedTuple):
    """What a release costs: (ε, δ), and (ρ, δ′) in approximate zero-concentrated privacy where that is known."""

    epsilon: float
    delta: float
    rho: float | None = None
    rho_delta: float = 0.0

    @classmethod
    def checked(cls, epsilon: float, delta: float, rho: float | None, rho_delta: float = 0.0) -> Price:
        """The price, or a clear error where the numbers are none."""

        def price(name: str, value: float) -> float:
            # Above that, ε²/2 would overflow, and with it a sum that nothing could be taken from again.
            return number(name, value, "a number in [0, 1e150]", lambda result: 0 <= result <= 1e150)

        return cls(
            price("epsilon", epsilon),
            delta_number(delta),
            None if rho is None else price("rho", rho),
            delta_number(rho_delta, "rho_delta"),
        )

    @property
    def concentrated(self) -> tuple[float, float]:
        """(ρ, δ′) that holds in any case."""
        if self.rho is not None:
            return self.rho, self.rho_delta
        half = 0.5 * self.epsilon * self.epsilon
        return half * (1 + 2.0**-50) + (5e-324 if self.epsilon else 0.0), self.delta

    def exceeds(self, reserved: Price) -> bool:
        """Whether any of the numbers is above the reserved one."""
        new, old = self.concentrated, reserved.concentrated
        return (
            self.epsilon > reserved.epsilon
            or self.delta > reserved.delta
            or new[0] > old[0]
            or new[1] > old[1]
        )

    def no_lower_than(self, before: Price) -> Price:
        """The least price that is at least both; every part of it bounds what either of them bounds."""
        rho, rho_delta = map(max, zip(self.concentrated, before.concentrated, strict=True))
        known = self.rho is not None or before.rho is not None
        return Price(
            max(self.epsilon, before.epsilon),
            max(self.delta, before.delta),
            *((rho, rho_delta) if known else ()),
        )

    def __str__(self) -> str:
        rho = "" if self.rho is None else f", rho={rounded_up(self.rho)}"
        return f"epsilon={rounded_up(self.epsilon)}, delta={rounded_up(self.delta)}{rho}"


NOTHING = Price(0.0, 0.0, 0.0)


class Totals(NamedTuple):
    """Exact sums of prices."""

    epsilon: Decimal = Decimal()
    delta: Decimal = Decimal()
    rho: Decimal = Decimal()
    rho_delta: Decimal = Decimal()

    def changed(self, old: Price, new: Price) -> Totals:
        """The sums after one price grew or shrank from ``old`` to ``new``."""
        return Totals(
            *(
                _EXACT.add(_EXACT.subtract(total, exact(before)), exact(after))
                for total, before, after in zip(self, _parts(old), _parts(new), strict=True)
            )
        )

    def within(self, price: Price) -> bool:
        """Whether no sum is above the like part of a reserved price."""
        return all(total <= exact(part) for total, part in zip(self, _parts(price), strict=True))

    def price(self) -> Price:
        """The sums, rounded up."""
        return Price(*map(round_up, self))


class Rule(NamedTuple):
    """The budget of a ledger as its filters read it.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    sum_delta, zcdp_delta : float or None
        Shares of δ that the filters have; None where a filter is not used.
    """

    epsilon: float
    delta: float
    sum_delta: float | None
    zcdp_delta: float | None

    @classmethod
    def of(cls, composition: str, epsilon: float, delta: float) -> Rule:
        """The rule of a composition. Without δ only sums are left."""
        if composition == "basic" or delta == 0:
            return cls(epsilon, delta, delta, None)
        if composition == "zcdp":
            return cls(epsilon, delta, None, delta)
        return cls(epsilon, delta, delta / 2, delta / 2)

    def sums_only(self, composition: str) -> Rule:
        """The rule of a ledger whose first release does not fit otherwise."""
        return Rule.of("basic", self.epsilon, self.delta) if composition == "filter" else self

    def fits(self, totals: Totals) -> bool:
        """Whether one of the filters admits these sums."""
        return self._sum_fits(totals) or self._zcdp_fits(totals)

    def spent(self, totals: Totals) -> tuple[float, float]:
        """(ε, δ) that the sums count for, by the filter under which it is less."""
        found = []
        if self.sum_delta is not None:
            found.append((round_up(totals.epsilon), round_up(totals.delta)))
        if self.zcdp_delta is not None and self._zcdp_fits(totals):
            if totals.rho == 0:
                found.append((0.0, 0.0))
            else:
                worth = epsilon_of_rho(round_up(totals.rho), self.zcdp_delta)
                found.append((min(worth, self.epsilon), self.zcdp_delta))
        if len(found) == 2 and not self._sum_fits(totals):
            return found[1]
        return min(found, default=(self.epsilon, self.delta))

    def remaining(self, totals: Totals) -> Price:
        """What one more release may cost, by the filter under which it is more; ρ where that filter counts it."""
        sums, zcdp = Price(0.0, 0.0), Price(0.0, 0.0)
        if self.sum_delta is not None and self._sum_fits(totals):
            sums = Price(_less(self.epsilon, totals.epsilon), _less(self.sum_delta, totals.delta))
        if self.zcdp_delta is not None and self._zcdp_fits(totals):
            rho = _less(_limit(self.epsilon, self.zcdp_delta), totals.rho)
            worth = epsilon_of_rho(rho, self.zcdp_delta) if rho > 0 else 0.0
            zcdp = Price(min(worth, self.epsilon), self.zcdp_delta, rho)
        return max(sums, zcdp, key=lambda price: price.epsilon)

    def remaining_rho(self, totals: Totals) -> float | None:
        """ρ that is left; None where only sums count."""
        if self.zcdp_delta is None:
            return None
        if totals.rho_delta > 0:
            return 0.0
        return max(_less(_limit(self.epsilon, self.zcdp_delta), totals.rho), 0.0)

    def _sum_fits(self, totals: Totals) -> bool:
        return (
            self.sum_delta is not None
            and totals.epsilon <= exact(self.epsilon)
            and totals.delta <= exact(self.sum_delta)
        )

    def _zcdp_fits(self, totals: Totals) -> bool:
        if self.zcdp_delta is None or totals.rho_delta > 0:
            return False
        return totals.rho <= exact(_limit(self.epsilon, self.zcdp_delta))


@lru_cache(maxsize=64)
def _limit(epsilon: float, delta: float) -> float:
    return rho_of_epsilon(epsilon, delta)


def _parts(price: Price) -> tuple[float, float, float, float]:
    return (price.epsilon, price.delta, *price.concentrated)


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


def _less(budget: float, total: Decimal) -> float:
    return round_down(_EXACT.subtract(exact(budget), total))
