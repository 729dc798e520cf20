"""What a ledger is a budget for: its numbers, its unit and adjacency, and whether its noise is real."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

from skprivate.privacy._dialect import delta_number, member, must_be, one_of, positive
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy._simulation import SimulatedNoiseError
from skprivate.privacy._zcdp import rho_of_epsilon

#: How prices may add up.
COMPOSITIONS = ("basic", "zcdp")
#: ε per unit of one distance does not add up with ε per unit of another: a ledger names the distance.
_METRIC = f"{Adjacency.METRIC}: "


class Terms(NamedTuple):
    """What a ledger is created with, once and for all."""

    identity: str
    created: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str | None
    composition: str
    rho: float | None
    simulation: bool = False


def now() -> str:
    """UTC time (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def checked_terms(
    epsilon: Any, delta: Any, unit: Any, adjacency: Any, composition: Any, simulation: Any
) -> Terms:
    """Terms of a new ledger, or an error that names what is not allowed."""
    epsilon, delta = positive("epsilon", epsilon), delta_number(delta)
    if composition not in COMPOSITIONS:
        raise ValueError(must_be("composition", one_of(COMPOSITIONS), composition))
    if composition == "zcdp" and delta == 0:
        why = "ρ-zCDP implies no (ε, 0)-differential privacy: give delta, or use composition='basic'."
        raise ValueError(must_be("delta", "positive with composition='zcdp'", delta, why))
    if not isinstance(simulation, bool):
        raise TypeError(must_be("simulation", "True or False", simulation))
    return Terms(
        identity=uuid.uuid4().hex,
        created=now(),
        epsilon=epsilon,
        delta=delta,
        unit=str(member(PrivacyUnit, "unit", unit)),
        adjacency=None if adjacency is None else _relation(adjacency),
        composition=composition,
        rho=rho_of_epsilon(epsilon, delta) if composition == "zcdp" else None,
        simulation=simulation,
    )


def _relation(adjacency: Any) -> str:
    text = str(adjacency)
    if text in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE) or (
        text.startswith(_METRIC) and text != _METRIC
    ):
        return text
    allowed = "'replace-one', 'add-remove', 'metric: ' and the name of the distance, or None"
    raise ValueError(must_be("adjacency", allowed, adjacency))


def require_noise(terms: Terms, path: str | None, label: str, *, simulated: bool) -> None:
    """Seeded noise in a file for releases is a mistake; so is a release in a ledger for simulation."""
    where = "in memory" if path is None else repr(path)
    if simulated and path is not None and not terms.simulation:
        raise SimulatedNoiseError(
            f"{label}: random_state must be None for the ledger {where}, got a seed (set by you, or by a "
            "meta-estimator such as BaggingRegressor, which gives its members integers): this ledger is for releases, "
            "and seeded noise protects nobody. For trials pass ledger=None, or a ledger of their own, "
            "PrivacyLedger(…, simulation=True). VotingRegressor and VotingClassifier leave random_state alone. Nothing "
            "was drawn or spent."
        )
    if terms.simulation and not simulated:
        raise SimulatedNoiseError(
            f"{label}: random_state must be an integer for the ledger {where}, got None: this ledger was opened with "
            "simulation=True, and what is released must be charged to the data's own. Pass that one, or a seed. "
            "Nothing was drawn or spent."
        )


def require_kind(terms: Terms, current: str | None, label: str, unit: str, adjacency: str) -> None:
    """A ledger holds releases of one unit and one adjacency, ``current``."""
    if unit != terms.unit:
        raise ValueError(
            f"{label} protects the unit {unit!r}, but this ledger is a budget per {terms.unit!r}, "
            f"and the two do not add up. Use a second PrivacyLedger(unit={unit!r}). Nothing was "
            "drawn or spent."
        )
    if current is not None and adjacency != current:
        raise ValueError(
            f"{label} is private under {adjacency!r} adjacency, but this ledger is a budget under "
            f"{current!r} adjacency, and prices are not converted. Use a second PrivacyLedger for "
            "it. Nothing was drawn or spent."
        )
