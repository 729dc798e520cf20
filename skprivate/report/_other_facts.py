"""Facts of ledgers, and of audits beside a claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from skprivate._messages import rounded_down, rounded_up, small
from skprivate.audit.claims import EstimatorAudit, ReplayEvidence, ViolationReport
from skprivate.privacy import Adjacency, LedgerEntry, PrivacyGuarantee, PrivacyLedger
from skprivate.privacy.ledger import NOTHING, Totals

#: Fields of an entry that are always shown, and those for internal use.
_SHOWN = (
    "id", "label", "unit", "adjacency", "epsilon", "delta", "rho", "converted", "own_epsilon", "own_delta", "opened",
    "closed", "simulated", "reservation", "note",
)  # fmt: skip
_DETAILS = ("data", "parameters", "user", "host", "process_id")
_THEOREMS = {
    "basic": "sums of (ε, δ) are a fully adaptive filter (Rogers, Roth, Ullman and Vadhan 2016)",
    "zcdp": "zero-concentrated privacy is a fully adaptive filter (Feldman and Zrnic 2021)",
    "filter": "sums of (ε, δ) and of ρ are fully adaptive filters, with half of δ each (Rogers et al. 2016; Feldman "
    "and Zrnic 2021)",
}
Audit = EstimatorAudit | ViolationReport


def spent_after_each(ledger: PrivacyLedger) -> list[tuple[LedgerEntry, float, float]]:
    """List entries that the total counts, each with the (ε, δ) that the ledger had spent with it.

    What a reservation has paid for is counted with the reservation.
    """
    with ledger._book.transaction(write=False) as (_, state):
        entries, rule = list(state.entries.values()), state.rule
    totals, found = Totals(), []
    for entry in entries:
        if entry.reservation is None:
            totals = totals.changed(NOTHING, entry.cost)
            found.append((entry, *rule.spent(totals)))
    return found


def purpose(entry: LedgerEntry) -> str:
    """Name the purpose of an entry: its note, or who drew."""
    return entry.note or entry.label or "no name"


def purposes(steps: Sequence[tuple[LedgerEntry, float, float]]) -> list[tuple[str, int, float]]:
    """Sum the spent ε by purpose, in the order in which they first spent: name, number of entries and share."""
    found: dict[str, tuple[int, float]] = {}
    before = 0.0
    for entry, epsilon, _ in steps:
        count, share = found.get(name := purpose(entry), (0, 0.0))
        found[name] = count + 1, share + max(epsilon - before, 0.0)
        before = max(before, epsilon)
    return [(name, count, share) for name, (count, share) in found.items()]


def ledger_guarantee(ledger: PrivacyLedger) -> PrivacyGuarantee | None:
    """State the guarantee of everything that was charged; None before the first release has set the unit."""
    if ledger.unit is None or ledger.adjacency is None:
        return None
    relation, _, metric = ledger.adjacency.partition(": ")
    epsilon, delta = ledger.spent
    assumptions: tuple[str, ...] = ("everything that was released from these data was charged to this ledger",)
    if ledger.rows_per_user is not None:
        assumptions += (f"a user has at most {ledger.rows_per_user} rows",)
    if ledger.public_features:
        assumptions += ("everything in a row but its label is public",)
    if len(ledger.entries()) > 1:
        assumptions += (
            "which rows a release saw was decided by nobody's private values: folds made from labels, or from how many "
            "rows others have, have no total (use UserKFold, or what check_cv admits)",
        )
    if delta > 0:
        assumptions += (
            "how many releases were made, and at which costs, was not chosen by their results; where it was, only the "
            f"whole budget bounds them: ε = {rounded_up(ledger.epsilon)}, δ = {small(ledger.delta)}",
        )
    real = not (ledger.simulation or ledger.dry_run) and not any(e.simulated for e in ledger.entries())
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        unit=ledger.unit,  # type: ignore[arg-type] # members of enumerations are made of their values
        adjacency=Adjacency(relation),
        metric=metric or None,
        assumptions=assumptions,
        theorem=_THEOREMS[ledger.composition],
        valid_for_release=real,
        adaptive=True,
    )


def ledger_facts(ledger: PrivacyLedger, *, details: bool = False) -> dict[str, Any]:
    """Convert a ledger to plain data; accounts, machines, parameters and its file only with ``details``."""
    steps = spent_after_each(ledger)
    after = {entry.id: epsilon for entry, epsilon, _ in steps}
    names = _SHOWN + (_DETAILS if details else ())
    entries = [
        {**{name: getattr(entry, name) for name in names}, "spent_epsilon": after.get(entry.id)}
        for entry in ledger.entries()
    ]
    epsilon, delta = ledger.spent
    left, left_delta = ledger.remaining
    total = ledger_guarantee(ledger)
    guess = None if total is None or total.adjacency is Adjacency.METRIC else total.risk(fpr=0.01).best_guess
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
        "best_guess": guess,
        "seal": ledger.seal,
        "shares": [{"purpose": name, "entries": count, "epsilon": share} for name, count, share in purposes(steps)],
        "entries": entries,
    }


def audit_facts(audit: Audit, guarantee: PrivacyGuarantee | None, subject: str | None) -> dict[str, Any]:
    """Put a lower bound beside the claim, and check that it is about the same guarantee.

    ``subject`` is the class of the model that the report is about, if it is about one.
    """
    if isinstance(audit, ViolationReport):
        kind, number, failures = "runs", audit.counts.n_pairs, []
        family = "approximate" if audit.claimed_delta else "pure"
        unit, adjacency = audit.claim.unit, audit.claim.adjacency
    else:
        unit, adjacency, failures = audit.unit, audit.adjacency, list(audit.evidence.failures)
        if isinstance(audit.evidence, ReplayEvidence):
            kind, number = "draws", audit.evidence.n_neighbours
            family = "approximate" if audit.claimed_delta else "pure"
        else:
            kind, number, family = "fits", audit.evidence.n_runs, audit.evidence.family
    return {
        "kind": kind,
        "name": str(audit.name),
        "unit": unit,
        "adjacency": adjacency,
        "claimed_epsilon": _finite(audit.claimed_epsilon),
        "claimed_delta": float(audit.claimed_delta),
        "epsilon_lower_bound": _finite(audit.epsilon_lower_bound),
        "family": family,
        "p_value": None if kind == "draws" else min(float(audit.p_value), 1.0),
        "violated": bool(audit.violated),
        "failures": failures,
        "n_fits": int(number),
        "confidence": float(audit.confidence),
        "same_claim": _same(audit, guarantee, subject, (unit, adjacency)),
    }


def _same(audit: Audit, guarantee: PrivacyGuarantee | None, subject: str | None, protects: tuple[str, str]) -> bool:
    if guarantee is None or audit.claimed_delta != guarantee.delta or subject not in (None, audit.name):
        return False
    if protects != (str(guarantee.unit), str(guarantee.adjacency)):
        return False
    # Under a metric an audit of runs claims ε times the distance of its pair, which may be any.
    exact = isinstance(audit, EstimatorAudit) and audit.method == "replay"
    metric = guarantee.adjacency is Adjacency.METRIC and not exact
    return metric or audit.claimed_epsilon == guarantee.epsilon


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def audit_in_words(audit: Mapping[str, Any]) -> str:
    """Describe the audit and its findings; lower bounds are rounded down, the claim up."""
    found, claimed = audit["epsilon_lower_bound"], audit["claimed_epsilon"]
    bound = "∞" if found is None else rounded_down(found, 4)
    claim = f"claimed is ε ≤ {'∞' if claimed is None else rounded_up(claimed)}"
    at = f"at δ = {small(audit['claimed_delta'])}"
    sure = f"with confidence {rounded_down(audit['confidence'])}"
    number, name = audit["n_fits"], audit["name"]
    of = f"one {audit['unit']} ({audit['adjacency']})"
    if audit["kind"] == "draws":
        wrong = f" Wrong: {'; '.join(audit['failures'])}." if audit["failures"] else ""
        return (
            f"{name}: the draws of one fit, replayed on {number} neighbours that differ in {of}, attain ε = {bound} "
            f"{at} if they have the laws that they declare, which was tested as well; {claim}.{wrong}"
        )
    if audit["kind"] == "runs":
        return (
            f"{name}: a search among {number} pairs of inputs that differ in {of} shows ε ≥ {bound} {sure}, {at}; "
            f"{claim}. The p-value of the claim is {small(audit['p_value'])}."
        )
    among = " among mechanisms with Gaussian noise" if audit["family"] == "gaussian" else ""
    pair = " for the audited pair" if audit["adjacency"] == "metric" else ""
    return (
        f"{name}: {number} fits on inputs that differ in single units, {of} each, show ε ≥ {bound}{among} {sure}, "
        f"{at}; {claim}{pair}. The p-value of the claim is {small(audit['p_value'])}."
    )


def audit_verdict(audit: Mapping[str, Any]) -> tuple[str, str]:
    """Judge the claim: the verdict, and a remark on it."""
    found, claimed = (
        math.inf if audit[name] is None else audit[name] for name in ("epsilon_lower_bound", "claimed_epsilon")
    )
    if audit["violated"]:
        rest = "" if found > claimed else "; the claim as a whole, though the bound on ε alone is within it"
        return "refuted", rest
    if found > claimed:
        return "not refuted", ", but a claim of Gaussian noise at these numbers would be"
    return "not refuted", "; between the two numbers the audit leaves the question open"
