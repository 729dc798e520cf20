"""What a ledger holds, and how it is shown."""

from __future__ import annotations

import html
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skprivate.privacy._dialect import must_be, rounded_up
from skprivate.privacy._ledger_rules import Price


@dataclass(frozen=True)
class LedgerEntry:
    """One release in a `PrivacyLedger`.

    Attributes
    ----------
    id : int
        Number of the entry in its ledger, from 1.
    label : str
        Who drew: the estimator's class name.
    unit, adjacency : str
        What neighbouring data sets differ in, and how.
    epsilon, delta : float
        The price charged.
    rho : float or None
        The price in zero-concentrated differential privacy, where the release has one.
    events : tuple of dict
        What was drawn (closed), or what was paid ahead (still open).
    opened : str
        UTC time of the first charge (ISO 8601).
    closed : str or None
        UTC time at which the release ended; None while it runs, and for good where its process died.
    simulated : bool
        Whether the noise came from a seed.
    process_id : int
        The process that opened it.
    """

    id: int
    label: str
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    rho: float | None
    events: tuple[dict[str, Any], ...]
    opened: str
    closed: str | None
    simulated: bool
    process_id: int


_COLUMNS = list(LedgerEntry.__dataclass_fields__)


def read_entries(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """All entries, oldest first."""
    rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM entries ORDER BY id")
    entries = []
    for row in rows:
        values = dict(zip(_COLUMNS, row, strict=True))
        values["events"] = tuple(json.loads(values["events"]))
        values["simulated"] = bool(values["simulated"])
        entries.append(LedgerEntry(**values))
    return entries


def open_entry(connection: sqlite3.Connection, entry: int) -> tuple[str, Price]:
    """Label and charged price of an entry that is still open."""
    row = connection.execute("SELECT label, closed, epsilon, delta, rho FROM entries WHERE id = ?", (entry,))
    found = row.fetchone()
    if found is None:
        raise ValueError(must_be("entry", "the number of an entry of this ledger", entry))
    label, closed, *price = found
    if closed is not None:
        raise ValueError(
            must_be("entry", "open", entry, f"This release was closed at {closed} and draws no more.")
        )
    return label, Price(*price)


def set_price(connection: sqlite3.Connection, entry: int, price: Price, events: list[dict[str, Any]]) -> None:
    """Overwrite the price and the events of an entry."""
    connection.execute(
        "UPDATE entries SET epsilon = ?, delta = ?, rho = ?, events = ? WHERE id = ?",
        (*price, to_json(events), entry),
    )


def to_json(events: list[dict[str, Any]]) -> str:
    """Events as text; NumPy scalars as plain numbers."""
    return json.dumps(
        list(events), default=lambda value: value.item() if hasattr(value, "item") else str(value)
    )


def entries_frame(entries: Sequence[LedgerEntry]) -> Any:
    """A data frame with one row for each entry."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    return pd.DataFrame([asdict(entry) for entry in entries], columns=_COLUMNS).set_index("id")


def entries_html(entries: Sequence[LedgerEntry], shown: int = 10) -> str:
    """The last entries as an HTML table."""
    rows = [("#", "release", "ε", "δ", "opened (UTC)", "state")]
    for entry in entries[-shown:]:
        state = ("closed" if entry.closed else "open") + (", simulated" if entry.simulated else "")
        price = (rounded_up(entry.epsilon), rounded_up(entry.delta))
        rows.append((str(entry.id), entry.label, *price, entry.opened, state))
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    caption = f"<caption>the last {shown} of {len(entries)}</caption>" if len(entries) > shown else ""
    return f"<table>{caption}{body}</table>"
