"""Terms, entries and quotes of a ledger, and how they are shown."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from numbers import Integral
from operator import attrgetter
from typing import Any, NamedTuple

from skprivate import _messages
from skprivate._messages import SimulatedNoiseError
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy.ledger._costs import NOTHING, Account, Cost, Totals, stays_apart

#: The label of a cost for several releases.
RESERVATION = "reservation"
#: Names and order of what an entry holds, in tables and files.
ENTRY_COLUMNS = (
    "id", "label", "unit", "adjacency", "epsilon", "delta", "rho", "rho_delta", "converted", "own_epsilon",
    "own_delta", "events", "opened", "closed", "simulated", "reservation", "note", "data", "parameters", "user",
    "host", "process_id", "parts",
)  # fmt: skip
#: Entries of a table in a notebook.
_SHOWN = 10
#: ε per unit of one distance does not add up with ε per unit of another: a ledger names the distance.
_METRIC = f"{Adjacency.METRIC}: "


class Claim(NamedTuple):
    """Guarantee of a release for its own unit."""

    unit: str
    adjacency: str
    epsilon: float
    delta: float


class Charge(NamedTuple):
    """Cost of a release in the ledger's unit, and the reservation and its parts that pay for it."""

    cost: Cost
    converted: str
    reservation: int | None
    parts: tuple[int, ...]


class Origin(NamedTuple):
    """Purpose of a release, and where it was made."""

    note: str
    data: str
    parameters: dict[str, str]
    user: str
    host: str
    process_id: int


def _part(path: str) -> Any:
    return property(attrgetter(path))


@dataclass(frozen=True)
class LedgerEntry:
    """One release in a `PrivacyLedger`, or one reservation for several.

    ``epsilon``, ``delta``, ``rho`` (None where there is none) and ``rho_delta`` are the cost charged, in the ledger's
    unit of account. ``own_epsilon`` and ``own_delta`` are the cost for the release's own ``unit`` and ``adjacency``,
    and ``converted`` says why the two differ. ``events`` are what was drawn (closed) or paid ahead (still open).
    ``opened`` is the UTC day (ISO 8601); ``closed`` is None while the release runs, and for good where its process
    died, and then that day again: how long a release took may be a secret. ``reservation`` is the entry that has paid
    for this one, ``parts`` are the disjoint parts of a reservation that it is charged to, and ``simulated`` tells if
    the noise came from a seed. ``parameters`` are those of the estimator.
    """

    id: int
    label: str
    claim: Claim
    charge: Charge
    events: tuple[dict[str, Any], ...]
    opened: str
    closed: str | None
    simulated: bool
    origin: Origin

    unit, adjacency = _part("claim.unit"), _part("claim.adjacency")
    own_epsilon, own_delta = _part("claim.epsilon"), _part("claim.delta")
    cost, converted = _part("charge.cost"), _part("charge.converted")
    epsilon, delta = _part("charge.cost.epsilon"), _part("charge.cost.delta")
    rho, rho_delta = _part("charge.cost.rho"), _part("charge.cost.rho_delta")
    reservation, parts = _part("charge.reservation"), _part("charge.parts")
    note, data, parameters = _part("origin.note"), _part("origin.data"), _part("origin.parameters")
    user, host, process_id = _part("origin.user"), _part("origin.host"), _part("origin.process_id")

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> LedgerEntry:
        """Make an entry of the contents of its first record."""
        return cls(
            id=content["id"],
            label=content["label"],
            claim=Claim(*(content[name] for name in ("unit", "adjacency", "own_epsilon", "own_delta"))),
            charge=Charge(
                Cost(*(content[name] for name in Cost._fields)),
                content["converted"],
                content["reservation"],
                tuple(content["parts"]),
            ),
            events=tuple(content["events"]),
            opened=content["opened"],
            closed=None,
            simulated=content["simulated"],
            origin=Origin(*(content[name] for name in Origin._fields)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for tables and JSON."""
        return {name: deepcopy(getattr(self, name)) for name in ENTRY_COLUMNS}


def entries_html(entries: Sequence[LedgerEntry]) -> str:
    """Show the last entries as an HTML table."""
    rows = [("#", "release", "ε", "δ", "unit", "day (UTC)", "by", "for", "state")]
    for entry in entries[-_SHOWN:]:
        state = ("closed" if entry.closed else "open") + (", simulated" if entry.simulated else "")
        cost = (_messages.rounded_up(entry.epsilon, 4), _messages.rounded_up(entry.delta, 4))
        kind = f"{entry.unit}, {entry.adjacency}" + (" (converted)" if entry.converted else "")
        rows.append((str(entry.id), entry.label, *cost, kind, entry.opened, entry.user, entry.note, state))
    head, *rest = (
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * len(rows), rows, strict=False)
    )
    caption = f"<caption>the last {_SHOWN} of {len(entries)}</caption>" if len(entries) > _SHOWN else ""
    return f"<table>{caption}{head}{''.join(rest)}</table>"


class Terms(NamedTuple):
    """Terms of a ledger, fixed when it is created."""

    identity: str
    created: str
    epsilon: float
    delta: float
    account: Account
    composition: str
    simulation: bool
    dry_run: bool

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Terms:
        """Make terms of the contents of a record."""
        plain = dict(content)
        return cls(account=Account(*(plain.pop(name) for name in Account._fields)), **plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the first record."""
        plain = self._asdict()
        account: Account = plain.pop("account")
        return {**plain, **account._asdict()}

    def differences(self, found: Terms) -> list[str]:
        """List what was asked for and is not so in an existing ledger; None asks for nothing."""
        asked, there = self.to_dict(), found.to_dict()
        return [
            f"{name}={there[name]!r}, not {value!r}"
            for name, value in asked.items()
            if name not in ("identity", "created") and there[name] != value and value is not None
        ]


def today() -> str:
    """Return the UTC day (ISO 8601): a time would tell the next reader how long a private search took before it."""
    return datetime.now(UTC).date().isoformat()


def is_integer(value: object, least: int) -> bool:
    """Tell if a value is an integer, not True or False, of at least ``least``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def checked_relation(adjacency: object) -> str:
    """Return a neighbouring relation as a ledger names it, or raise an error that lists them."""
    text = str(adjacency)
    if text in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE) or (text.startswith(_METRIC) and text != _METRIC):
        return text
    allowed = "'replace-one', 'add-remove', 'metric: ' and the name of the distance, or None"
    raise ValueError(_messages.must_be("adjacency", allowed, adjacency))


def require_noise(terms: Terms, path: str | None, label: str, *, simulated: bool) -> None:
    """Refuse seeded noise in a file for releases, and releases in a ledger for simulation."""
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


@dataclass(frozen=True)
class Quote:
    """Cost of a fit or a search in the ledger's unit of account, made by `skprivate.inspection.quote`.

    ``epsilon`` and ``delta`` are plain sums over all releases, ``rho`` and ``rho_delta`` sums in zero-concentrated
    privacy and the δ of releases that have no such cost. ``admitted`` tells whether the ledger would admit them all
    now, and ``spent`` the (ε, δ) that it would count then. ``entries`` are the releases, as they would be entered.
    The cost is a bound, and not ``exact``, where candidates of a search cost differently: scores decide who goes on.
    """

    epsilon: float
    delta: float
    rho: float
    rho_delta: float
    unit: str | None
    adjacency: str | None
    admitted: bool
    spent: tuple[float, float]
    entries: tuple[LedgerEntry, ...] = field(repr=False)
    exact: bool = True

    @property
    def cost(self) -> Cost:
        """Cost of a reservation."""
        return Cost(self.epsilon, self.delta, self.rho, self.rho_delta)

    def __str__(self) -> str:
        count = len(self.entries)
        then = (
            f"the ledger would then count epsilon {_messages.rounded_up(self.spent[0])}, "
            f"delta {_messages.rounded_up(self.spent[1])}"
            if self.admitted
            else "more than the ledger has left"
        )
        most = "" if self.exact else "at most "
        return (
            f"{count} release{'s' * (count != 1)} for one {self.unit} ({self.adjacency}), {most}epsilon "
            f"{_messages.rounded_up(self.epsilon)} and delta {_messages.rounded_up(self.delta)} as a sum: {then}."
        )


def dearest_part(quotes: Sequence[Quote]) -> Quote:
    """Compute the most that the units of one part pay, for each kind of cost.

    The k-th quoted fit sees all parts but the k-th.
    """
    cost = NOTHING
    for k in range(len(quotes)):
        total = Totals()
        for j, quote in enumerate(quotes):
            apart = all(
                stays_apart(entry.unit, entry.adjacency, quote.unit, quote.adjacency) for entry in quote.entries
            )
            if j != k or not apart:
                total = total.changed(NOTHING, quote.cost)
        cost = total.cost().no_lower_than(cost)
    return replace(
        quotes[0],
        epsilon=cost.epsilon,
        delta=cost.delta,
        rho=cost.rho or 0.0,
        rho_delta=cost.rho_delta,
        entries=tuple(entry for quote in quotes for entry in quote.entries),
        exact=all(quote.exact for quote in quotes),
    )


class DisjointParts:
    """Handles to a ledger for releases that see some parts of the units only; made by `PrivacyLedger.parallel`."""

    def __init__(self, n_parts: int, handle: Callable[[tuple[int, ...]], Any]) -> None:
        self.n_parts = n_parts
        self._handle = handle

    def only(self, part: int) -> Any:
        """Return a handle for releases that see the units of one part: a model of one fold, or a score on one."""
        return self._handle((self._checked(part),))

    def without(self, part: int) -> Any:
        """Return a handle for releases that see all units but those of one part: a fit of a cross-validation."""
        out = self._checked(part)
        return self._handle(tuple(one for one in range(self.n_parts) if one != out))

    def _checked(self, part: Any) -> int:
        if not (is_integer(part, 0) and part < self.n_parts):
            raise ValueError(_messages.must_be("part", f"an integer from 0 to {self.n_parts - 1}", part))
        return int(part)
