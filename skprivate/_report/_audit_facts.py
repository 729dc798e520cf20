"""Audits beside the claim: of whole fits, of the draws of a fit, and of runs on two inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skprivate._html import rounded_down, small
from skprivate._messages import rounded_up
from skprivate.audit import DrawAudit, EstimatorAudit, ReleaseAudit
from skprivate.privacy import Adjacency, PrivacyGuarantee

__all__ = ["Audit", "audit_facts", "audit_in_words", "audit_verdict"]

Audit = EstimatorAudit | DrawAudit | ReleaseAudit


def audit_facts(audit: Audit, guarantee: PrivacyGuarantee | None, subject: str | None) -> dict[str, Any]:
    """A lower bound beside the claim, and whether it speaks of the same guarantee.

    ``subject`` is the class of the model that the report is about, where it is about one.
    """
    of_fits, of_draws = isinstance(audit, EstimatorAudit), isinstance(audit, DrawAudit)
    if isinstance(audit, DrawAudit):
        found, number = audit.epsilon_attained, audit.n_neighbours
        confidence, failures = 1 - audit.false_alarm, [str(text) for text in audit.failures]
    else:
        found, confidence, failures = audit.epsilon_lower_bound, audit.confidence, []
        number = audit.n_fits if isinstance(audit, EstimatorAudit) else audit.n_runs
    unit, adjacency = getattr(audit, "unit", None), getattr(audit, "adjacency", None)
    return {
        "kind": "fits" if of_fits else "draws" if of_draws else "runs",
        "name": str(audit.name),
        "unit": None if unit is None else str(unit),
        "adjacency": None if adjacency is None else str(adjacency),
        "claimed_epsilon": _finite(audit.claimed_epsilon),
        "claimed_delta": float(audit.claimed_delta),
        "epsilon_lower_bound": _finite(found),
        "family": getattr(audit, "family", "approximate" if audit.claimed_delta else "pure"),
        "p_value": min(float(audit.p_value), 1.0) if isinstance(audit, EstimatorAudit) else None,
        "design": getattr(audit, "design", None),
        "observable": getattr(audit, "observable", None),
        "violated": bool(audit.violated),
        "failures": failures,
        "n_fits": int(number),
        "confidence": float(confidence),
        "same_claim": _same(audit, guarantee, subject),
    }


def _same(audit: Audit, guarantee: PrivacyGuarantee | None, subject: str | None) -> bool:
    if guarantee is None or audit.claimed_delta != guarantee.delta:
        return False
    metric = guarantee.adjacency is Adjacency.METRIC
    if isinstance(audit, ReleaseAudit):
        return metric or audit.claimed_epsilon == guarantee.epsilon
    if (audit.unit, audit.adjacency) != (str(guarantee.unit), str(guarantee.adjacency)):
        return False
    if subject not in (None, audit.name):
        return False
    # Under a metric an audit of fits claims ε times the distance of its pair, which may be any.
    return (metric and isinstance(audit, EstimatorAudit)) or audit.claimed_epsilon == guarantee.epsilon


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def audit_in_words(audit: Mapping[str, Any]) -> str:
    """What was done and found; lower bounds rounded down, the claim up."""
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
        return f"{name}: {number} runs on two neighbouring inputs show ε ≥ {bound} {sure}, {at}; {claim}."
    among = " among mechanisms with Gaussian noise" if audit["family"] == "gaussian" else ""
    pair = " for the audited pair" if audit["adjacency"] == "metric" else ""
    return (
        f"{name}: {number} fits on inputs that differ in single units, {of} each, show ε ≥ {bound}{among} {sure}, "
        f"{at}; {claim}{pair}. The p-value of the claim is {small(audit['p_value'])}."
    )


def audit_verdict(audit: Mapping[str, Any]) -> tuple[str, str]:
    """Whether the claim is refuted, and what is to be said of that."""
    found, claimed = (
        math.inf if audit[name] is None else audit[name]
        for name in ("epsilon_lower_bound", "claimed_epsilon")
    )
    if audit["violated"]:
        rest = "" if found > claimed else "; the claim as a whole, though the bound on ε alone is within it"
        return "refuted", rest
    if found > claimed:
        return "not refuted", ", but a claim of Gaussian noise at these numbers would be"
    return "not refuted", "; between the two numbers the audit leaves the question open"
