"""Sums of costs in exact decimal arithmetic, and costs in a ledger's unit of account.

Three sums are kept: of ε, of δ, and of the cost in approximate zero-concentrated privacy, (ρ, δ′), where a release
without a ρ of its own counts as δ-approximately ε²/2-zCDP. Two filters read them:

* *sum*: Σε ≤ ε and Σδ ≤ δ (Rogers et al. 2016);
* *zcdp*: Σρ at most the largest ρ that implies ε at δ, and Σδ′ = 0 (Feldman and Zrnic 2021).

Σδ′ > 0 would need a share of δ that is fixed in advance (Whitehouse et al. 2023). To trade it against ρ on the way is
no filter: of two Gaussian draws, whoever makes the second where the loss is high and else spends what is left of δ on
a release without a ρ fails with 1.2 δ.

Each of them holds for paths that end within it. A ledger that admits what either of them admits must divide δ between
them: those paths that end within the one fail with its share, the others with the other's.

A release protects a unit u under a relation a; the ledger counts for a unit U under a relation A. Whoever is protected
as U is reached from u by a chain of at most k steps, so the release is private for U by group privacy. Each event of k
neighbours in a row is one of k times the sensitivity (`grouped`), which is exact; of (ε, δ) alone nothing better is
known than (kε, δ(e^{kε} − 1)/(e^ε − 1)).

What does not follow is refused: a label, a private row and a data set say nothing of the rest of a row, and a relation
that keeps the number of units public says nothing of one unit more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from typing import NamedTuple

from skprivate._messages import delta_number, number, rounded_up
from skprivate.privacy import _events
from skprivate.privacy._events import ApproximateEvent, GaussianEvent, PrivacyEvent, ZeroConcentratedEvent
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy.accounting import _composition, _zcdp

#: How costs may add up.
COMPOSITIONS = ("filter", "basic", "zcdp")
#: Floats print with 17 digits between 10⁻³²⁴ and 10³⁰⁸: 1000 digits hold any sum of them, and Inexact would tell.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation, Overflow])
_ULP = 2.0**-50
_REPLACE, _ADD = str(Adjacency.REPLACE_ONE), str(Adjacency.ADD_REMOVE)


class Cost(NamedTuple):
    """Cost of a release: (ε, δ), and (ρ, δ′) in approximate zero-concentrated privacy where that is known."""

    epsilon: float
    delta: float
    rho: float | None = None
    rho_delta: float = 0.0

    @classmethod
    def checked(cls, epsilon: float, delta: float, rho: float | None, rho_delta: float = 0.0) -> Cost:
        """Make a cost, or raise an error that names the wrong number."""

        def cost(name: str, value: float) -> float:
            # Above that, ε²/2 would overflow, and with it a sum that nothing could be taken from again.
            return number(name, value, "a number in [0, 1e150]", lambda result: 0 <= result <= 1e150)

        return cls(
            cost("epsilon", epsilon),
            delta_number(delta),
            None if rho is None else cost("rho", rho),
            delta_number(rho_delta, "rho_delta"),
        )

    @property
    def concentrated(self) -> tuple[float, float]:
        """(ρ, δ′) that holds in any case."""
        if self.rho is not None:
            return self.rho, self.rho_delta
        half = 0.5 * self.epsilon * self.epsilon
        return half * (1 + 2.0**-50) + (5e-324 if self.epsilon else 0.0), self.delta

    def exceeds(self, reserved: Cost) -> bool:
        """Compare with a reserved cost: true if any of the numbers is larger."""
        new, old = self.concentrated, reserved.concentrated
        return self.epsilon > reserved.epsilon or self.delta > reserved.delta or new[0] > old[0] or new[1] > old[1]

    def no_lower_than(self, before: Cost) -> Cost:
        """Return the least cost that is at least both, part by part."""
        rho, rho_delta = map(max, zip(self.concentrated, before.concentrated, strict=True))
        known = self.rho is not None or before.rho is not None
        return Cost(
            max(self.epsilon, before.epsilon), max(self.delta, before.delta), *((rho, rho_delta) if known else ())
        )

    def __str__(self) -> str:
        rho = "" if self.rho is None else f", rho={rounded_up(self.rho)}"
        return f"epsilon={rounded_up(self.epsilon)}, delta={rounded_up(self.delta)}{rho}"


NOTHING = Cost(0.0, 0.0, 0.0)


class Totals(NamedTuple):
    """Exact sums of costs."""

    epsilon: Decimal = Decimal()
    delta: Decimal = Decimal()
    rho: Decimal = Decimal()
    rho_delta: Decimal = Decimal()

    def changed(self, old: Cost, new: Cost) -> Totals:
        """Return the sums after one cost changed from ``old`` to ``new``."""
        return Totals(
            *(
                total if before == after else _EXACT.add(_EXACT.subtract(total, exact(before)), exact(after))
                for total, before, after in zip(self, _parts(old), _parts(new), strict=True)
            )
        )

    def within(self, cost: Cost) -> bool:
        """Check that no sum exceeds its part of a reserved cost."""
        return all(total <= exact(part) for total, part in zip(self, _parts(cost), strict=True))

    def cost(self) -> Cost:
        """Round the sums up."""
        return Cost(*map(round_up, self))


class Rule(NamedTuple):
    """Budget of a ledger, and the share of δ of each filter; None where a filter is not used."""

    epsilon: float
    delta: float
    sum_delta: float | None
    zcdp_delta: float | None

    @classmethod
    def of(cls, composition: str, epsilon: float, delta: float) -> Rule:
        """Divide a budget between the filters of a composition. Without δ only sums are left."""
        if composition == "basic" or delta == 0:
            return cls(epsilon, delta, delta, None)
        if composition == "zcdp":
            return cls(epsilon, delta, None, delta)
        return cls(epsilon, delta, delta / 2, delta / 2)

    def sums_only(self, composition: str) -> Rule:
        """Return the rule of a ledger whose first release fits no other."""
        return Rule.of("basic", self.epsilon, self.delta) if composition == "filter" else self

    def fits(self, totals: Totals) -> bool:
        """Check that one of the filters admits these sums."""
        return self._sum_fits(totals) or self._zcdp_fits(totals)

    def spent(self, totals: Totals) -> tuple[float, float]:
        """Convert the sums to (ε, δ), by the filter under which it is less."""
        counted = []
        if self.sum_delta is not None:
            counted.append((round_up(totals.epsilon), round_up(totals.delta)))
        if self.zcdp_delta is not None and self._zcdp_fits(totals):
            if totals.rho == 0:
                counted.append((0.0, 0.0))
            else:
                worth = _zcdp.epsilon_of_rho(round_up(totals.rho), self.zcdp_delta)
                counted.append((min(worth, self.epsilon), self.zcdp_delta))
        if len(counted) == 2 and not self._sum_fits(totals):
            return counted[1]
        return min(counted, default=(self.epsilon, self.delta))

    def remaining(self, totals: Totals) -> Cost:
        """Compute the most that a further release may cost, by the filter under which it is more."""
        sums, zcdp = Cost(0.0, 0.0), Cost(0.0, 0.0)
        if self.sum_delta is not None and self._sum_fits(totals):
            sums = Cost(_less(self.epsilon, totals.epsilon), _less(self.sum_delta, totals.delta))
        if self.zcdp_delta is not None and self._zcdp_fits(totals):
            rho = _less(_limit(self.epsilon, self.zcdp_delta), totals.rho)
            worth = _zcdp.epsilon_of_rho(rho, self.zcdp_delta) if rho > 0 else 0.0
            zcdp = Cost(min(worth, self.epsilon), self.zcdp_delta, rho)
        return max(sums, zcdp, key=lambda cost: cost.epsilon)

    def remaining_rho(self, totals: Totals) -> float | None:
        """Compute the ρ that is left; None where only sums count."""
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
    return _zcdp.rho_of_epsilon(epsilon, delta)


def _parts(cost: Cost) -> tuple[float, float, float, float]:
    return (cost.epsilon, cost.delta, *cost.concentrated)


@lru_cache(maxsize=1024, typed=True)
def exact(value: float) -> Decimal:
    """Return the decimal number that a float prints as: 0.1 is one tenth. −0.0, which equals 0.0, is 0, too."""
    return Decimal(repr(value or 0.0))


def round_down(value: Decimal) -> float:
    """Return the largest float whose `exact` value is at most ``value``."""
    result = float(value)
    while exact(result) > value:
        result = math.nextafter(result, -math.inf)
    return result


def round_up(value: Decimal) -> float:
    """Return the smallest float whose `exact` value is at least ``value``."""
    return -round_down(value.copy_negate()) + 0.0


def _less(budget: float, total: Decimal) -> float:
    return round_down(_EXACT.subtract(exact(budget), total))


class Account(NamedTuple):
    """Unit and relation of a ledger, and what was declared: most rows of a user, whether all but labels is public."""

    unit: str | None
    adjacency: str | None
    rows_per_user: int | None = None
    public_features: bool = False


def conversion(unit: str, adjacency: str, account: Account) -> tuple[int, str]:
    """Count the neighbours of the release's kind that lead from one of the account's to another, and say why.

    Raises ValueError with the reason where the release has no cost there.
    """
    if (unit, adjacency) == (account.unit, account.adjacency):
        return 1, ""
    if adjacency not in (_REPLACE, _ADD) or account.adjacency not in (_REPLACE, _ADD):
        raise ValueError(
            "ε per unit of a distance is no ε of a unit; open the release with the largest distance"
            if adjacency not in (_REPLACE, _ADD)
            else "the ledger counts ε per unit of a distance, in which the release has no cost"
        )
    steps, reasons = _unit_steps(unit, adjacency, account)
    # Replacing is removing and adding; the other way round, a public number of units stands in the way.
    if adjacency == _ADD and account.adjacency == _REPLACE:
        steps *= 2
        reasons.append("to replace is to remove and to add: 2 steps")
    elif adjacency != account.adjacency:
        raise ValueError(
            f"under {adjacency!r} the number of units is public, so it does not protect one unit more or less"
        )
    return steps, "; ".join(reasons)


def stays_apart(unit: str, adjacency: str, account_unit: str | None, account_adjacency: str | None) -> bool:
    """Check that a release that sees some of the account's parts costs the units of the others nothing.

    False where an exchanged unit counts as one removed and one added, since it may come to another part. Also false for
    whole data sets and distances, which no part bounds.
    """
    data_set = str(PrivacyUnit.DATASET)
    return adjacency == account_adjacency and adjacency in (_REPLACE, _ADD) and data_set not in (unit, account_unit)


def _unit_steps(unit: str, adjacency: str, account: Account) -> tuple[int, list[str]]:
    """Count the neighbours of the release's unit that make one of the account's, under the release's relation."""
    if unit == account.unit:
        return 1, []
    row, user, label, private = (
        str(kind) for kind in (PrivacyUnit.ROW, PrivacyUnit.USER, PrivacyUnit.LABEL, PrivacyUnit.PRIVATE_ROW)
    )
    within = {row: (label, private), user: (row, label, private)}
    if account.unit in within.get(unit, ()):
        why = [f"a {account.unit} is a part of one {unit}, and stays with it"]
        if unit == user and adjacency == _ADD == account.adjacency:
            # One row more is another user in place of the user, not one user more.
            return 2, [*why, "a row more or less replaces its user: 2 steps"]
        return 1, why
    if unit == label and account.unit in (row, user) and not account.public_features:
        raise ValueError(
            "it protects labels only, and may show the rest of the rows unchanged; if that is public anyway, "
            "create the ledger with public_features=True"
        )
    if private in (unit, account.unit):
        raise ValueError("it publishes what the ledger protects: all rows but the private ones")
    if unit == label and account.unit == row:
        return 1, ["all of a row but its label is public"]
    if account.unit == user and unit in (row, label):
        if account.rows_per_user is None:
            raise ValueError(
                "a user may have any number of rows; if there is a largest one, create the ledger with rows_per_user"
            )
        if unit == row and adjacency == _REPLACE:
            raise ValueError(
                "under 'replace-one' the number of rows is public, and a user in place of another may have more or "
                "fewer of them"
            )
        return account.rows_per_user, [f"a user has at most {account.rows_per_user} rows"]
    raise ValueError(f"nothing is known of a {account.unit} from what protects a {unit}")


def converted(cost: Cost, events: Iterable[tuple[PrivacyEvent, int]], steps: int, *, adaptive: bool) -> Cost:
    """Convert the cost of a release to inputs that differ in ``steps`` units, by group privacy of its events.

    ``events`` are empty where they are not known. Of ``adaptive`` draws the composition is no bound, so (ε, δ) alone is
    converted. Raises ValueError where nothing remains of the guarantee.
    """
    if steps == 1:
        return cost
    epsilon, delta = cost.epsilon * steps * (1 + _ULP), _group_delta(cost, steps)
    rho = None if cost.rho is None else cost.rho * steps * steps * (1 + _ULP)
    rho_delta = cost.rho_delta
    grouped_events = [(grouped(event, steps), count) for event, count in events]
    if grouped_events and not adaptive:
        exact = _composition.compose_epsilon(grouped_events, cost.delta)
        if math.isfinite(exact):
            epsilon, delta = exact, cost.delta
        total = _composition.rho_total(grouped_events)
        rho, rho_delta = (total, 0.0) if math.isfinite(total) else (rho, rho_delta)
    elif rho_delta > 0:
        rho = None  # of an approximate ρ only (ε, δ) is converted
    if not (delta < 1 and math.isfinite(epsilon)):
        raise ValueError(f"{steps} neighbours in a row leave nothing of its guarantee")
    return Cost(epsilon, delta, rho, rho_delta if rho is not None else 0.0)


def grouped(event: PrivacyEvent, steps: int) -> PrivacyEvent:
    """Convert an event to inputs that differ in ``steps`` units: its noise stays, its sensitivity grows."""
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / steps * (1 - _ULP), event.size)
    if isinstance(event, _events.LaplaceEvent | _events.BoundedRangeEvent | _events.PureEvent):
        # Losses of neighbours in a row add up, and so do the lengths of their intervals.
        return replace(event, epsilon=event.epsilon * steps * (1 + _ULP))
    if isinstance(event, ZeroConcentratedEvent):
        return ZeroConcentratedEvent(event.rho_ * steps * steps * (1 + _ULP), event.mechanism)
    if isinstance(event, ApproximateEvent):
        delta = _group_delta(Cost(event.epsilon, event.delta), steps)
        if not delta < 1:
            raise ValueError(f"{steps} neighbours in a row leave nothing of its guarantee")
        return ApproximateEvent(event.epsilon * steps * (1 + _ULP), delta, event.mechanism)
    raise ValueError(f"{type(event).__name__} has no group privacy that is known here")


def _group_delta(cost: Cost, steps: int) -> float:
    """Compute δ(1 + e^ε + … + e^{(k−1)ε}), rounded up."""
    if cost.delta == 0:
        return 0.0
    exponent = math.log(cost.delta) + (steps - 1) * cost.epsilon + math.log(steps)
    if exponent > 0:  # more than the largest term k times
        return 1.0
    return cost.delta * math.fsum(math.exp(k * cost.epsilon) for k in range(steps)) * (1 + _ULP)
