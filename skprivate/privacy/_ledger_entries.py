"""What a ledger holds, and how it is shown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skprivate.privacy._dialect import rounded_up
from skprivate.privacy._ledger_rules import Price

#: The label of a price for several releases.
RESERVATION = "reservation"


@dataclass(frozen=True)
class LedgerEntry:
    """One release in a `PrivacyLedger`, or one reservation for several.

    Attributes
    ----------
    id : int
        Number of the entry in its ledger, from 1.
    label : str
        Who drew: the estimator's class name.
    unit, adjacency : str
        What the release protects, and how neighbouring data sets differ.
    epsilon, delta : float
        The price charged, in the ledger's unit of account.
    rho : float or None
        The price in zero-concentrated differential privacy, where the release has one.
    rho_delta : float
        The δ beside ``rho``; 0 for a release, the sum of what has no ρ for a reservation.
    converted : str
        Why and how often the release's own price was taken for the ledger's unit; empty where the units are the same.
    own_epsilon, own_delta : float
        The price for the release's own unit.
    events : tuple of dict
        What was drawn (closed), or what was paid ahead (still open).
    opened : str
        UTC time of the first charge (ISO 8601).
    closed : str or None
        UTC time at which the release ended; None while it runs, and for good where its process died.
    simulated : bool
        Whether the noise came from a seed.
    reservation : int or None
        The entry that has paid for this one.
    note : str
        What for, in the words of whoever made the release.
    data : str
        Fingerprint of the data, if the caller gave one.
    parameters : dict of str
        Parameters of the estimator.
    user, host : str
        Account and machine.
    process_id : int
        The process that opened it.
    parts : tuple of int
        Of a reservation for disjoint parts, their numbers; of a release in it, those that it sees. Else empty.
    """

    id: int
    label: str
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    rho: float | None
    rho_delta: float
    converted: str
    own_epsilon: float
    own_delta: float
    events: tuple[dict[str, Any], ...]
    opened: str
    closed: str | None
    simulated: bool
    reservation: int | None
    note: str
    data: str
    parameters: dict[str, str]
    user: str
    host: str
    process_id: int
    parts: tuple[int, ...] = ()

    @property
    def price(self) -> Price:
        """The price charged."""
        return Price(self.epsilon, self.delta, self.rho, self.rho_delta)

    @property
    def is_open_reservation(self) -> bool:
        """Whether other entries may still be charged to this one."""
        return self.label == RESERVATION and self.closed is None


def entries_frame(entries: Sequence[LedgerEntry]) -> Any:
    """A data frame with one row for each entry."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    columns = list(LedgerEntry.__dataclass_fields__)
    return pd.DataFrame([asdict(entry) for entry in entries], columns=columns).set_index("id")


def entries_html(entries: Sequence[LedgerEntry], shown: int = 10) -> str:
    """The last entries as an HTML table."""
    rows = [("#", "release", "ε", "δ", "unit", "opened (UTC)", "by", "for", "state")]
    for entry in entries[-shown:]:
        state = ("closed" if entry.closed else "open") + (", simulated" if entry.simulated else "")
        price = (rounded_up(entry.epsilon, 4), rounded_up(entry.delta, 4))
        kind = f"{entry.unit}, {entry.adjacency}" + (" (converted)" if entry.converted else "")
        rows.append((str(entry.id), entry.label, *price, kind, entry.opened, entry.user, entry.note, state))
    head, *rest = (
        "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * len(rows), rows, strict=False)
    )
    caption = f"<caption>the last {shown} of {len(entries)}</caption>" if len(entries) > shown else ""
    return f"<table>{caption}{head}{''.join(rest)}</table>"
