"""Prices in a ledger's unit of account: what a release costs somebody who is protected as another unit.

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
from typing import NamedTuple

from skprivate.privacy._accounting import compose_epsilon, rho_total
from skprivate.privacy._events import (
    ApproximateEvent,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
)
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy._ledger_rules import Price

_ULP = 2.0**-50
_REPLACE, _ADD = str(Adjacency.REPLACE_ONE), str(Adjacency.ADD_REMOVE)


class Account(NamedTuple):
    """What a ledger counts for.

    Parameters
    ----------
    unit, adjacency : str
        Its unit and neighbouring relation.
    rows_per_user : int or None
        Most rows that one user has, as declared.
    public_features : bool
        Whether everything in a row but its label is public, as declared.
    """

    unit: str
    adjacency: str
    rows_per_user: int | None = None
    public_features: bool = False


class Conversion(NamedTuple):
    """So many neighbours of the release's kind in a row, and why."""

    steps: int
    text: str


def conversion(unit: str, adjacency: str, account: Account) -> Conversion:
    """How a release counts for an account.

    Raises
    ------
    ValueError
        With the reason, where it cannot be counted.
    """
    if (unit, adjacency) == (account.unit, account.adjacency):
        return Conversion(1, "")
    if adjacency not in (_REPLACE, _ADD) or account.adjacency not in (_REPLACE, _ADD):
        raise ValueError(
            "ε per unit of a distance is no ε of a unit; state the largest distance (reach=) with the release"
            if adjacency not in (_REPLACE, _ADD)
            else "the ledger counts ε per unit of a distance, in which the release has no price"
        )
    steps, reasons = _unit_steps(unit, adjacency, account)
    # Replacing is removing and adding; the other way round, a public number of units stands in the way.
    if adjacency == _ADD and account.adjacency == _REPLACE:
        steps *= 2
        reasons.append("to replace is to remove and to add: 2 steps")
    elif adjacency != account.adjacency:
        raise ValueError(
            f"under {adjacency!r} the number of units is public, so that it says nothing of one unit more or less"
        )
    return Conversion(steps, "; ".join(reasons))


def stays_apart(unit: str, adjacency: str, account_unit: str | None, account_adjacency: str | None) -> bool:
    """Whether a release that sees some of the account's parts only is no matter to the units of the others.

    It is not where units exchanged are counted by one removed and one added: who comes may be in another part. Nor does
    a part bound what a whole data set, or a distance, does.
    """
    data_set = str(PrivacyUnit.DATASET)
    return (
        adjacency == account_adjacency
        and adjacency in (_REPLACE, _ADD)
        and data_set not in (unit, account_unit)
    )


def _unit_steps(unit: str, adjacency: str, account: Account) -> tuple[int, list[str]]:
    """Neighbours in a row of the release's unit that make one of the account's, under the release's relation."""
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
            "it protects labels only, and the rest of the rows may stand in it as it is; if that is public anyway, "
            "create the ledger with public_features=True"
        )
    if unit == private or account.unit == private:
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


def converted(
    price: Price, events: Iterable[tuple[PrivacyEvent, int]], steps: int, *, adaptive: bool
) -> Price:
    """The price of a release for ``steps`` neighbours in a row.

    Parameters
    ----------
    price : Price
        For one.
    events : iterable of (PrivacyEvent, int)
        What it is the price of; empty where that is not known.
    steps : int
    adaptive : bool
        Whether draws were chosen on the way, so that their composition says nothing.

    Returns
    -------
    Price

    Raises
    ------
    ValueError
        If nothing remains: δ reaches 1.
    """
    if steps == 1:
        return price
    epsilon, delta = price.epsilon * steps * (1 + _ULP), _group_delta(price, steps)
    rho = None if price.rho is None else price.rho * steps * steps * (1 + _ULP)
    rho_delta = price.rho_delta
    grouped_events = [(grouped(event, steps), count) for event, count in events]
    if grouped_events and not adaptive:
        exact = compose_epsilon(grouped_events, price.delta)
        if math.isfinite(exact):
            epsilon, delta = exact, price.delta
        total = rho_total(grouped_events)
        rho, rho_delta = (total, 0.0) if math.isfinite(total) else (rho, rho_delta)
    elif rho_delta > 0:
        rho = None  # of an approximate ρ only (ε, δ) is converted
    if not (delta < 1 and math.isfinite(epsilon)):
        raise ValueError(f"{steps} neighbours in a row leave nothing of its guarantee")
    return Price(epsilon, delta, rho, rho_delta if rho is not None else 0.0)


def grouped(event: PrivacyEvent, steps: int) -> PrivacyEvent:
    """The event for inputs that differ in ``steps`` units: its noise stays, its sensitivity grows."""
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / steps * (1 - _ULP), event.size)
    if isinstance(event, LaplaceEvent):
        return LaplaceEvent(event.epsilon * steps * (1 + _ULP))
    if isinstance(event, BoundedRangeEvent):
        # Losses of neighbours in a row add up, and so do the lengths of the intervals that they lie in.
        return BoundedRangeEvent(event.epsilon * steps * (1 + _ULP))
    if isinstance(event, PureEvent):
        return PureEvent(event.epsilon * steps * (1 + _ULP), event.mechanism)
    if isinstance(event, ZeroConcentratedEvent):
        return ZeroConcentratedEvent(event.rho_ * steps * steps * (1 + _ULP), event.mechanism)
    if isinstance(event, ApproximateEvent):
        delta = _group_delta(Price(event.epsilon, event.delta), steps)
        if not delta < 1:
            raise ValueError(f"{steps} neighbours in a row leave nothing of its guarantee")
        return ApproximateEvent(event.epsilon * steps * (1 + _ULP), delta, event.mechanism)
    raise ValueError(f"{type(event).__name__} has no group privacy that is known here")


def _group_delta(price: Price, steps: int) -> float:
    """δ(1 + e^ε + … + e^{(k−1)ε}), rounded up."""
    if price.delta == 0:
        return 0.0
    exponent = math.log(price.delta) + (steps - 1) * price.epsilon + math.log(steps)
    if exponent > 0:  # more than the largest term k times
        return 1.0
    return price.delta * math.fsum(math.exp(k * price.epsilon) for k in range(steps)) * (1 + _ULP)
