"""What a ledger is a budget for: its numbers, its unit and adjacency, and whether its noise is real."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from numbers import Integral
from typing import Any, NamedTuple

from skprivate.privacy._dialect import delta_number, member, must_be, one_of, positive
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy._ledger_rules import COMPOSITIONS
from skprivate.privacy._simulation import SimulatedNoiseError

#: ε per unit of one distance does not add up with ε per unit of another: a ledger names the distance.
_METRIC = f"{Adjacency.METRIC}: "


class Terms(NamedTuple):
    """What a ledger is created with, once and for all."""

    identity: str
    created: str
    epsilon: float
    delta: float
    unit: str | None
    adjacency: str | None
    composition: str
    rows_per_user: int | None
    public_features: bool
    simulation: bool
    dry_run: bool

    def differences(self, found: Terms) -> list[str]:
        """What was asked for and is not so in an existing ledger; None asks for nothing."""
        asked = self._asdict()
        return [
            f"{name}={getattr(found, name)!r}, not {asked[name]!r}"
            for name in Terms._fields[2:]
            if getattr(found, name) != asked[name] and asked[name] is not None
        ]


class HasTerms:
    """Reads what a ledger was created with."""

    _book: Any

    @property
    def _terms(self) -> Terms:
        terms: Terms = self._book.terms
        return terms

    @property
    def epsilon(self) -> float:
        """Budget ε."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Budget δ."""
        return self._terms.delta

    @property
    def composition(self) -> str:
        """How prices add up: "filter", "basic" or "zcdp"."""
        return self._terms.composition

    @property
    def rows_per_user(self) -> int | None:
        """Most rows that one user has, as declared; None where nothing was."""
        return self._terms.rows_per_user

    @property
    def public_features(self) -> bool:
        """Whether everything in a row but its label was declared public."""
        return self._terms.public_features

    @property
    def simulation(self) -> bool:
        """Whether the ledger is for trials with seeded noise."""
        return self._terms.simulation

    @property
    def dry_run(self) -> bool:
        """Whether what is charged here draws simulated noise only."""
        return self._terms.dry_run


def now() -> str:
    """UTC time (ISO 8601)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def checked_terms(
    *,
    epsilon: Any,
    delta: Any,
    unit: Any,
    adjacency: Any,
    composition: Any,
    rows_per_user: Any,
    public_features: Any,
    simulation: Any,
    dry_run: Any,
) -> Terms:
    """Terms of a new ledger, or an error that names what is not allowed."""
    delta = delta_number(delta)
    epsilon = positive("epsilon", epsilon)
    if composition not in COMPOSITIONS:
        raise ValueError(must_be("composition", one_of(COMPOSITIONS), composition))
    if composition == "zcdp" and delta == 0:
        why = "ρ-zCDP implies no (ε, 0)-differential privacy: give delta, or use composition='basic'."
        raise ValueError(must_be("delta", "positive with composition='zcdp'", delta, why))
    for name, value in (
        ("simulation", simulation),
        ("public_features", public_features),
        ("dry_run", dry_run),
    ):
        if not isinstance(value, bool):
            raise TypeError(must_be(name, "True or False", value))
    if rows_per_user is not None and (
        isinstance(rows_per_user, bool) or not isinstance(rows_per_user, Integral) or rows_per_user < 1
    ):
        raise ValueError(must_be("rows_per_user", "an integer >= 1, or None", rows_per_user))
    return Terms(
        identity=uuid.uuid4().hex,
        created=now(),
        epsilon=epsilon,
        delta=delta,
        unit=None if unit is None else str(member(PrivacyUnit, "unit", unit)),
        adjacency=None if adjacency is None else checked_relation(adjacency),
        composition=composition,
        rows_per_user=None if rows_per_user is None else int(rows_per_user),
        public_features=public_features,
        simulation=simulation,
        dry_run=dry_run,
    )


def checked_relation(adjacency: Any) -> str:
    """A neighbouring relation as a ledger names it, or an error that lists them."""
    text = str(adjacency)
    if text in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE) or (
        text.startswith(_METRIC) and text != _METRIC
    ):
        return text
    allowed = "'replace-one', 'add-remove', 'metric: ' and the name of the distance, or None"
    raise ValueError(must_be("adjacency", allowed, adjacency))


def require_noise(terms: Terms, path: str | None, label: str, *, simulated: bool) -> None:
    """Seeded noise in a file for releases is a mistake; so is a release in a ledger for simulation."""
    if terms.dry_run:
        return  # the ledger itself has made the noise a simulation
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
