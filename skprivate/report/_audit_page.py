"""An audit as a page: what was found, in which sense, and what it does not say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from math import inf
from numbers import Real
from typing import Any, NamedTuple

from skprivate._messages import rounded_down, rounded_up, small
from skprivate.report import _style
from skprivate.report._style import table

_SILENT = ("name", "claimed_epsilon", "claimed_delta", "epsilon_lower_bound", "confidence")
_CAVEATS = (
    "An audit that finds nothing proves nothing: it saw a few inputs, and what its attack can tell of them.",
    "The confidence is over the randomness of the audit, once for each audit that is made.",
)


def audit_page(audit: object, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
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

    See Also
    --------
    audit_estimator, find_violation : Make such findings.
    privacy_report : Reports on a release.

    Examples
    --------
    >>> from skprivate.audit import attack_report
    >>> from skprivate.report import audit_page
    >>> page = audit_page(attack_report([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0]), title="Four records")
    >>> "Four records" in page, "<script" in page
    (True, False)
    """
    if hasattr(audit, "claimed_epsilon"):
        found = _claim(audit)
    else:
        found = _certificate(audit) if hasattr(audit, "accuracy_upper_bound") else _attack(audit)
    name = found.title if title is None else str(title)
    body = _style.header("Audit", name, found.subject, (found.kind, found.verdict, ""), found.figures)
    if found.chart:
        body += f"<figure>{found.chart}</figure>"
    if found.table:
        body += table(found.table[0], found.table[1:], numbers=range(len(found.table[0])))
    if found.failures:
        body += f"<section><h2>What was wrong</h2>{_style.items(found.failures)}</section>"
    body += f"<section><h2>How it was found</h2>{_style.pairs(found.facts)}</section>"
    body += f"<section><h2>What it does not say</h2>{_style.items(found.caveats)}</section>"
    footer = "Lower bounds are rounded down and upper bounds up. This page loads nothing."
    return _style.written(_style.document(name, body, footer), path)


class _Findings(NamedTuple):
    """Findings of any kind of audit."""

    title: str
    subject: str
    kind: str  # of the box: "holds", "caution" or "stop"
    verdict: str
    figures: Sequence[tuple[str, str]]
    facts: Iterable[tuple[str, str]]
    caveats: Sequence[str]
    chart: str = ""
    table: Sequence[Sequence[str]] = ()  # the head first
    failures: Sequence[str] = ()


def _claim(audit: Any) -> _Findings:
    exact = getattr(audit, "method", "") == "replay"
    evidence = getattr(audit, "evidence", None) or audit.counts
    claimed, found = float(audit.claimed_epsilon), float(audit.epsilon_lower_bound)
    attained = "is attained, if draws have the laws that they declare" if exact else "was found"
    chart = _style.audit_chart(claimed, found, broken=bool(audit.violated)) if max(claimed, found) < inf else ""
    return _Findings(
        title="Audit of a claim",
        subject=audit.name,
        kind="stop" if audit.violated else "caution",
        verdict="The claim is refuted." if audit.violated else "The claim is not refuted. It is not proven either.",
        figures=[
            (f"ε ≥ {rounded_down(found, 4)}", attained),
            (f"ε ≤ {rounded_up(claimed, 4)}", f"is claimed, with δ = {small(float(audit.claimed_delta))}"),
            (f"{rounded_down(audit.confidence, 7)}", "confidence of the findings"),
        ],
        facts=[*_rest(audit), *_rest(evidence)],
        caveats=_CAVEATS,
        chart=chart,
        failures=getattr(evidence, "failures", ()),
    )


def _rest(audit: Any) -> Iterator[tuple[str, str]]:
    """List all further fields that are short: numbers and words."""
    for name in (part.name for part in fields(audit)):
        value = getattr(audit, name)
        if name not in _SILENT and isinstance(value, str | Real) and not isinstance(value, bool):
            yield name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value)


def _certificate(report: Any) -> _Findings:
    most = rounded_up(report.accuracy_upper_bound, 4)
    advantage = rounded_up(report.advantage_upper_bound, 4)
    unit = " nats" if report.loss == "log" else ""
    return _Findings(
        title="Audit of outputs",
        subject=f"{report.n} pairs of an output and a sensitive bit",
        kind="caution",
        verdict=f"No attack on these outputs guesses right with a probability above {most}.",
        figures=[
            (most, "largest accuracy of any attack"),
            (advantage, "largest difference of true and false positive rates"),
            (rounded_up(report.mutual_information_upper_bound, 4), "nats of information at most"),
            (f"{report.confidence:g}", "confidence of these bounds"),
        ],
        facts=[
            ("assumption", report.assumption),
            ("loss of any attack, at least", rounded_down(report.loss_lower_bound, 4) + unit),
            (f"{report.loss} loss of this attack", f"{report.empirical_loss:.4f}{unit}"),
            ("accuracy of this attack", f"{report.empirical_accuracy:.4f}, on the rows it was fitted on"),
        ],
        caveats=[
            *report.caveats,
            "The bounds hold for whoever sees these outputs, and no more than them.",
            "The assumption cannot be checked on data.",
        ],
    )


def _attack(report: Any) -> _Findings:
    members, others = report.n_members, report.n_nonmembers
    figures = [(f"{report.auc:.3f}", f"area under the curve, {_interval(report.auc_interval)}")]
    beaten = report.auc_interval[0] > 0.5
    if report.accuracy is not None:
        figures.append((f"{report.accuracy:.3f}", f"accuracy, {_interval(report.accuracy_interval)}"))
        beaten = beaten or report.accuracy_interval[0] > max(members, others) / (members + others)
    rows = [
        (f"{rate.requested:.3%}", f"{rate.fpr:.3%}", f"{rate.tpr:.3f}", _interval(rate.tpr_interval))
        for rate in report.rates
    ]
    curve = list(zip(report.fpr_curve.tolist(), report.tpr_curve.tolist(), strict=True))
    label = "True positive rate of the attack against its false positive rate"
    return _Findings(
        title="Attack on membership",
        subject=f"{members} members and {others} others",
        kind="stop" if beaten else "caution",
        verdict="Members are recognised better than by chance." if beaten else "This attack is not better than chance.",
        figures=[*figures, (f"{report.confidence:g}", "coverage of each interval")],
        facts=[("members", str(members)), ("others", str(others))],
        caveats=["Another attack may find more; this one is what was tried.", *_CAVEATS[1:]],
        chart=_style.trade_off_chart([("", curve)], label=label),
        table=[("false positives, at most", "found", "recognised", "interval"), *rows],
    )


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} – {ends[1]:.3f}"
