"""What a ledger says in a report: its budget, what is spent of it, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skprivate._html import small
from skprivate._messages import rounded_up
from skprivate.privacy import Adjacency, LedgerEntry, PrivacyGuarantee, PrivacyLedger
from skprivate.privacy.ledger._prices import NOTHING, Totals

__all__ = ["ledger_facts", "ledger_guarantee", "purposes", "spent_after_each"]

#: Of an entry, what is shown in any case, and what only the house itself is shown.
_SHOWN = (
    "id",
    "label",
    "unit",
    "adjacency",
    "epsilon",
    "delta",
    "rho",
    "converted",
    "own_epsilon",
    "own_delta",
    "opened",
    "closed",
    "simulated",
    "reservation",
    "note",
)
_DETAILS = ("data", "parameters", "user", "host", "process_id")


def spent_after_each(ledger: PrivacyLedger) -> list[tuple[LedgerEntry, float, float]]:
    """Entries that the total counts, each with the (ε, δ) that the ledger had spent with it.

    What a reservation has paid for is counted with the reservation.
    """
    with ledger._book.transaction(write=False) as (_, state):
        entries, rule = list(state.entries.values()), state.rule
    totals, found = Totals(), []
    for entry in entries:
        if entry.reservation is None:
            totals = totals.changed(NOTHING, entry.price)
            found.append((entry, *rule.spent(totals)))
    return found


def purposes(steps: Sequence[tuple[LedgerEntry, float, float]]) -> list[tuple[str, int, float]]:
    """Purposes, numbers of entries and shares of the spent ε, in the order in which they first spent.

    The purpose is the note, or who drew where there is none.
    """
    found: dict[str, tuple[int, float]] = {}
    before = 0.0
    for entry, epsilon, _ in steps:
        name = entry.note or entry.label or "no name"
        count, share = found.get(name, (0, 0.0))
        found[name] = count + 1, share + max(epsilon - before, 0.0)
        before = max(before, epsilon)
    return [(name, count, share) for name, (count, share) in found.items()]


def ledger_guarantee(ledger: PrivacyLedger) -> PrivacyGuarantee | None:
    """What everything that was charged promises together; None before the first release has set the unit."""
    if ledger.unit is None or ledger.adjacency is None:
        return None
    relation, _, metric = ledger.adjacency.partition(": ")
    epsilon, delta = ledger.spent
    said: tuple[str, ...] = ("everything that was released from these data was charged to this ledger",)
    if ledger.rows_per_user is not None:
        said += (f"a user has at most {ledger.rows_per_user} rows",)
    if ledger.public_features:
        said += ("everything in a row but its label is public",)
    if len(ledger.entries()) > 1:
        said += (
            "which rows a release saw was decided by nobody's private values: folds made from labels, or from how many "
            "rows others have, have no total (use UserKFold, or what check_cv admits)",
        )
    if delta > 0:
        said += (
            "how many releases were made, and at which prices, was not chosen by their results; where it was, only the "
            f"whole budget bounds them: ε = {rounded_up(ledger.epsilon)}, δ = {small(ledger.delta)}",
        )
    real = not (ledger.simulation or ledger.dry_run) and not any(e.simulated for e in ledger.entries())
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        unit=ledger.unit,  # type: ignore[arg-type] # members of enumerations are made of their values
        adjacency=Adjacency(relation),
        metric=metric or None,
        assumptions=said,
        theorem=_THEOREMS[ledger.composition],
        valid_for_release=real,
        adaptive=True,
    )


_THEOREMS = {
    "basic": "sums of (ε, δ) are a fully adaptive filter (Rogers, Roth, Ullman and Vadhan 2016)",
    "zcdp": "zero-concentrated privacy is a fully adaptive filter (Feldman and Zrnic 2021)",
    "filter": "sums of (ε, δ) and of ρ are fully adaptive filters, with half of δ each (Rogers et al. 2016; Feldman "
    "and Zrnic 2021)",
}


def ledger_facts(ledger: PrivacyLedger, *, details: bool = False) -> dict[str, Any]:
    """A ledger as plain data; accounts, machines, parameters and its file only with ``details``."""
    steps = spent_after_each(ledger)
    after = {entry.id: epsilon for entry, epsilon, _ in steps}
    names = _SHOWN + (_DETAILS if details else ())
    entries = [
        {**{name: getattr(entry, name) for name in names}, "spent_epsilon": after.get(entry.id)}
        for entry in ledger.entries()
    ]
    epsilon, delta = ledger.spent
    left, left_delta = ledger.remaining
    return {
        "identity": ledger.identity,
        **({"path": ledger.path} if details else {}),
        "unit": ledger.unit,
        "adjacency": ledger.adjacency,
        "composition": ledger.composition,
        "purpose": "dry runs" if ledger.dry_run else "simulation" if ledger.simulation else "releases",
        "budget": {"epsilon": ledger.epsilon, "delta": ledger.delta},
        "spent": {"epsilon": epsilon, "delta": delta},
        "left": {"epsilon": left, "delta": left_delta},
        "seal": ledger.seal,
        "shares": [
            {"purpose": name, "entries": count, "epsilon": share} for name, count, share in purposes(steps)
        ],
        "entries": entries,
    }
