"""An audit as a page: what was found, in which sense, and what it does not say."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from skprivate._messages import rounded_down, rounded_up, small
from skprivate.report._style import (
    audit_chart,
    document,
    grid,
    items,
    pairs,
    table,
    text,
    trade_off_chart,
    written,
)

__all__ = ["audit_page"]

_SILENT = (
    "name",
    "claimed_epsilon",
    "claimed_delta",
    "epsilon_lower_bound",
    "confidence",
)
_CAVEATS = (
    "An audit that finds nothing proves nothing: it saw a few inputs, and what its attack can tell of them.",
    "The confidence is over the randomness of the audit, once for each audit that is made.",
)


def audit_page(audit: Any, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
    """Write the findings of an audit as a page: one file that loads nothing, for the screen and for paper.

    Parameters
    ----------
    audit : AttackReport, AuditReport or an audit of a claim
    path : str or os.PathLike, optional
        Where it is written as well.
    title : str, optional

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from skprivate.audit import attack_report
    >>> from skprivate.report import audit_page
    >>> page = audit_page(attack_report([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0]), title="Four records")
    >>> "Four records" in page, "<script" in page
    (True, False)
    """
    found = findings(audit)
    name = found.title if title is None else str(title)
    subject = f'<p class="by">{text(found.subject)}</p>' if found.subject else ""
    body = (
        f'<header><p class="eyebrow">Audit</p><h1>{text(name)}</h1>{subject}<div class="verdict {found.kind}">'
        f"<strong>{text(found.verdict)}</strong></div>{grid(found.figures)}</header>"
    )
    if found.chart:
        body += f"<figure>{found.chart}</figure>"
    if found.table:
        body += table(found.table[0], found.table[1:], numbers=range(len(found.table[0])))
    if found.failures:
        body += f"<section><h2>What was wrong</h2>{items(found.failures)}</section>"
    body += f"<section><h2>How it was found</h2>{pairs(found.facts)}</section>"
    body += f"<section><h2>What it does not say</h2>{items(found.caveats)}</section>"
    footer = "Lower bounds are rounded down and upper bounds up. This page loads nothing."
    return written(document(name, body, footer), path)


@dataclass(frozen=True)
class Findings:
    """Parts of a page, for every kind of audit."""

    title: str
    subject: str
    kind: str  # of the box: "holds", "caution" or "stop"
    verdict: str
    figures: tuple[tuple[str, str], ...] = ()
    chart: str = ""
    table: tuple[tuple[str, ...], ...] = ()  # the head first
    facts: tuple[tuple[str, str], ...] = ()
    failures: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


def findings(audit: Any) -> Findings:
    """Read the findings of any report, by its attributes."""
    if hasattr(audit, "claimed_epsilon"):
        return _claim(audit)
    return _certificate(audit) if hasattr(audit, "accuracy_upper_bound") else _attack(audit)


def _claim(audit: Any) -> Findings:
    exact = getattr(audit, "method", "") == "replay"
    claimed, found, delta = (
        float(getattr(audit, name)) for name in ("claimed_epsilon", "epsilon_lower_bound", "claimed_delta")
    )
    figures = [
        (
            f"ε ≥ {rounded_down(found, 4)}",
            "is attained, if draws have the laws that they declare" if exact else "was found",
        ),
        (f"ε ≤ {rounded_up(claimed, 4)}", f"is claimed, with δ = {small(delta)}"),
    ]
    figures.append((f"{rounded_down(audit.confidence, 7)}", "confidence of the findings"))
    return Findings(
        "Audit of a claim",
        audit.name,
        "stop" if audit.violated else "caution",
        "The claim is refuted." if audit.violated else "The claim is not refuted. It is not proven either.",
        tuple(figures),
        audit_chart(claimed, found, broken=bool(audit.violated))
        if max(claimed, found) < float("inf")
        else "",
        facts=_rest(audit) + _rest(getattr(audit, "evidence", None) or audit.counts),
        failures=tuple(getattr(getattr(audit, "evidence", None), "failures", ())),
        caveats=_CAVEATS,
    )


def _rest(audit: Any) -> tuple[tuple[str, str], ...]:
    """List all further fields that are short: numbers and words."""
    shown = []
    for name in (part.name for part in fields(audit)):
        value = getattr(audit, name)
        if name in _SILENT or isinstance(value, bool) or not isinstance(value, str | Real):
            continue
        shown.append((name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value)))
    return tuple(shown)


def _certificate(report: Any) -> Findings:
    most = rounded_up(report.accuracy_upper_bound, 4)
    unit = " nats" if report.loss == "log" else ""
    return Findings(
        "Audit of outputs",
        f"{report.n} pairs of an output and a sensitive bit",
        "caution",
        f"No attack on these outputs guesses right with a probability above {most}.",
        (
            (most, "largest accuracy of any attack"),
            (
                rounded_up(report.advantage_upper_bound, 4),
                "largest difference of true and false positive rates",
            ),
            (rounded_up(report.mutual_information_upper_bound, 4), "nats of information at most"),
            (f"{report.confidence:g}", "confidence of these bounds"),
        ),
        facts=(
            ("assumption", report.assumption),
            ("loss of any attack, at least", rounded_down(report.loss_lower_bound, 4) + unit),
            (f"{report.loss} loss of this attack", f"{report.empirical_loss:.4f}{unit}"),
            ("accuracy of this attack", f"{report.empirical_accuracy:.4f}, on the rows it was fitted on"),
        ),
        caveats=(
            *report.caveats,
            "The bounds hold for whoever sees these outputs, and no more than them.",
            "The assumption cannot be checked on data.",
        ),
    )


def _attack(report: Any) -> Findings:
    low, high = report.auc_interval
    figures = [(f"{report.auc:.3f}", f"area under the curve, {low:.3f} – {high:.3f}")]
    if report.accuracy is not None:
        low, high = report.accuracy_interval
        figures.append((f"{report.accuracy:.3f}", f"accuracy, {low:.3f} – {high:.3f}"))
    figures.append((f"{report.confidence:g}", "coverage of each interval"))
    head = ("false positives, at most", "found", "recognised", "interval")
    rows = [
        (
            f"{rate.requested:.3%}",
            f"{rate.fpr:.3%}",
            f"{rate.tpr:.3f}",
            f"{rate.tpr_interval[0]:.3f} – {rate.tpr_interval[1]:.3f}",
        )
        for rate in report.rates
    ]
    commoner = max(report.n_members, report.n_nonmembers) / (report.n_members + report.n_nonmembers)
    beaten = report.auc_interval[0] > 0.5 or (
        report.accuracy is not None and report.accuracy_interval[0] > commoner
    )
    curve = list(zip(report.fpr_curve.tolist(), report.tpr_curve.tolist(), strict=True))
    return Findings(
        "Attack on membership",
        f"{report.n_members} members and {report.n_nonmembers} others",
        "stop" if beaten else "caution",
        "Members are recognised better than by chance."
        if beaten
        else "This attack is not better than chance.",
        tuple(figures),
        trade_off_chart(
            [("", curve)], label="True positive rate of the attack against its false positive rate"
        ),
        (head, *rows),
        (("members", str(report.n_members)), ("others", str(report.n_nonmembers))),
        ("Another attack may find more; this one is what was tried.", *_CAVEATS[1:]),
    )
