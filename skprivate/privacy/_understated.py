"""Compare guarantees with what was drawn and paid for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from skprivate._messages import rounded_up
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee
from skprivate.privacy.accounting._composition import compose_epsilon
from skprivate.privacy.ledger import _entries, _ledger

#: Sums of budgets may lie so little below what the accountant finds for all draws together.
_ROUNDING = 1 - 1e-3


def as_stated(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """Mark a guarantee with neither draws nor payment as one that somebody stated."""
    return guarantee if guarantee.events or guarantee.ledger_entry else replace(guarantee, stated=True)


def understated(guarantee: PrivacyGuarantee, ledgers: Iterable[_ledger.PrivacyLedger | None] = ()) -> str:
    """Explain why a guarantee is smaller than its draws or its ledger entry cost; empty where it is not."""
    delta = 0.0 if guarantee.adjacency is Adjacency.METRIC else guarantee.delta
    stated = f"its guarantee states epsilon {guarantee.epsilon!r} and delta {guarantee.delta!r}"
    # Draws that depended on results cost at least as much as those that did not.
    if guarantee.epsilon < (needed := _needed(guarantee, delta)) * _ROUNDING:
        return f"{stated}, and its draws compose to epsilon {rounded_up(needed)} at this delta"
    for ledger in ledgers:
        entry = None if ledger is None else _entry(guarantee, ledger)
        if entry is None:
            continue
        if (
            guarantee.epsilon < entry.own_epsilon * _ROUNDING
            or guarantee.delta < entry.own_delta * _ROUNDING
            or (str(guarantee.unit), str(guarantee.adjacency)) != (entry.unit, entry.adjacency.partition(":")[0])
            or (entry.simulated and guarantee.valid_for_release)
        ):
            noise = ", simulated" if entry.simulated else ""
            return (
                f"{stated} for one {guarantee.unit} ({guarantee.adjacency}), and entry {entry.id} of its ledger states "
                f"epsilon {entry.own_epsilon!r} and delta {entry.own_delta!r} for one {entry.unit} "
                f"({entry.adjacency}{noise})"
            )
    return ""


def _needed(guarantee: PrivacyGuarantee, delta: float) -> float:
    """Compute the least ε proven for its draws: all together, or the sum of the pure ones beside the others."""
    # At large ε the bound for all together is the looser one, by up to 2 %.
    rest = [(event, count) for event, count in guarantee.events if math.isinf(event.pure_epsilon)]
    pure = [(event, count) for event, count in guarantee.events if math.isfinite(event.pure_epsilon)]
    together = compose_epsilon(guarantee.events, delta)
    return min(together, compose_epsilon(pure) + compose_epsilon(rest, delta)) if rest and pure else together


def _entry(guarantee: PrivacyGuarantee, ledger: _ledger.PrivacyLedger) -> _entries.LedgerEntry | None:
    """Find the entry that paid for a guarantee, if the ledger is at hand."""
    identity, _, number = guarantee.ledger_entry.rpartition("#")
    if ledger.identity != identity:
        return None
    try:
        return next((entry for entry in ledger.entries() if str(entry.id) == number), None)
    except Exception:  # a file that was moved, or that is damaged: reading the ledger raises for its readers
        return None
