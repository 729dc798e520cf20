"""Any audit as a page or in Markdown: what was found, in which sense, and what it does not say."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any

from skprivate._html import (
    audit_chart,
    document,
    framed,
    grid,
    items,
    pairs,
    plain,
    rounded_down,
    small,
    table,
    text,
    trade_off_chart,
    written,
)
from skprivate.privacy._dialect import must_be, rounded_up

__all__ = ["Shown", "audit_to_html", "audit_to_markdown"]

_SILENT = ("name", "claimed_epsilon", "claimed_delta", "epsilon_lower_bound", "violated", "confidence")
_CAVEATS = (
    "An audit that finds nothing proves nothing: it saw a few inputs, and what its attack can tell of them.",
    "The confidence is over the randomness of the audit, once for each audit that is made.",
)


class Shown:
    """A report that shows itself as a page, in Markdown and in notebooks."""

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
        """The page: one file that loads nothing.

        Parameters
        ----------
        path : str or os.PathLike, optional
            Where it is written as well.
        title : str, optional

        Returns
        -------
        str
        """
        return audit_to_html(self, path, title=title)

    def to_markdown(self, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
        """The same in Markdown.

        Parameters
        ----------
        path : str or os.PathLike, optional
            Where it is written as well.
        title : str, optional

        Returns
        -------
        str
        """
        return audit_to_markdown(self, path, title=title)

    def _repr_html_(self) -> str:
        return framed(audit_to_html(self), "34rem")


@dataclass(frozen=True)
class Findings:
    """What a page says: the parts of every kind of audit."""

    title: str
    subject: str
    kind: str  # of the box: "holds", "caution" or "stop"
    verdict: str
    figures: tuple[tuple[str, str], ...] = ()
    chart: str = ""
    table: tuple[tuple[str, ...], ...] = ()  # the head first
    facts: tuple[tuple[str, str], ...] = ()
    caveats: tuple[str, ...] = ()


def audit_to_html(audit: Any, path: str | os.PathLike[str] | None = None, *, title: str | None = None) -> str:
    """An audit as a page: one file that loads nothing, for the screen and for paper.

    Parameters
    ----------
    audit : AuditReport, AttackReport, EstimatorAudit, LabelAudit or another report of this package
        A claim and what was found, bounds on every adversary, or the figures of an attack.
    path : str or os.PathLike, optional
        Where it is written as well.
    title : str, optional

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If it is no report of an audit.

    Examples
    --------
    >>> from skprivate.audit import attack_report, audit_to_html
    >>> page = audit_to_html(attack_report([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0]), title="Four records")
    >>> "Four records" in page, "<script" in page
    (True, False)
    """
    found = findings(audit)
    name = found.title if title is None else str(title)
    subject = f'<p class="by">{text(found.subject)}</p>' if found.subject else ""
    body = (
        f'<header><p class="eyebrow">Audit</p><h1>{text(name)}</h1>{subject}'
        f'<div class="verdict {found.kind}"><strong>{text(found.verdict)}</strong></div>{grid(found.figures)}</header>'
    )
    if found.chart:
        body += f"<figure>{found.chart}</figure>"
    if found.table:
        body += table(found.table[0], found.table[1:], numbers=range(len(found.table[0])))
    body += f"<section><h2>How it was found</h2>{pairs(found.facts)}</section>"
    body += f"<section><h2>What it does not say</h2>{items(found.caveats)}</section>"
    footer = "Lower bounds are rounded down and upper bounds up. This page loads nothing."
    return written(document(name, body, footer), path)


def audit_to_markdown(
    audit: Any, path: str | os.PathLike[str] | None = None, *, title: str | None = None
) -> str:
    """An audit in Markdown, for a model card or a merge request.

    Parameters
    ----------
    audit : AuditReport, AttackReport, EstimatorAudit, LabelAudit or another report of this package
    path : str or os.PathLike, optional
        Where it is written as well.
    title : str, optional

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If it is no report of an audit.

    Examples
    --------
    >>> from skprivate.audit import attack_report, audit_to_markdown
    >>> print(audit_to_markdown(attack_report([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0])).splitlines()[0])
    ## Attack on membership
    """
    found = findings(audit)
    lines = [f"## {plain(found.title if title is None else str(title))}", ""]
    lines += [plain(found.subject), ""] if found.subject else []
    lines += [f"**{plain(found.verdict)}**", ""]
    lines += [f"- **{plain(value)}** {plain(name)}" for value, name in found.figures]
    if found.table:
        lines += ["", *(f"| {' | '.join(plain(cell) for cell in row)} |" for row in found.table)]
        lines.insert(len(lines) - len(found.table) + 1, "|---" * len(found.table[0]) + "|")
    lines += [
        "",
        "### How it was found",
        "",
        *(f"- {plain(name)}: {plain(value)}" for name, value in found.facts),
    ]
    lines += ["", "### What it does not say", "", *(f"- {plain(caveat)}" for caveat in found.caveats)]
    return written("\n".join(lines) + "\n", path)


def findings(audit: Any) -> Findings:
    """The findings of any report, by what it has."""
    if hasattr(audit, "claimed_epsilon") and hasattr(audit, "violated"):
        return _claim(audit)
    if hasattr(audit, "accuracy_upper_bound") and hasattr(audit, "loss_lower_bound"):
        return _certificate(audit)
    if hasattr(audit, "auc_interval") and hasattr(audit, "rates"):
        return _attack(audit)
    allowed = "the report of an audit: AuditReport, AttackReport, EstimatorAudit, LabelAudit and the like"
    raise TypeError(must_be("audit", allowed, type(audit).__name__))


def _claim(audit: Any) -> Findings:
    found, claimed = float(getattr(audit, "epsilon_lower_bound", 0.0)), float(audit.claimed_epsilon)
    delta = float(getattr(audit, "claimed_delta", 0.0))
    figures = [
        (f"ε ≥ {rounded_down(found, 4)}", "was found"),
        (f"ε ≤ {rounded_up(claimed, 4)}", f"is claimed, with δ = {small(delta)}"),
    ]
    if hasattr(audit, "confidence"):
        figures.append((f"{audit.confidence:g}", "confidence of what was found"))
    if hasattr(audit, "reconstruction_advantage"):
        more = f"{100 * audit.reconstruction_advantage:.1f} points"
        figures.append(
            (more, "reconstruction advantage: labels guessed right with the release, less without")
        )
    return Findings(
        "Audit of a claim",
        str(getattr(audit, "name", "")),
        "stop" if audit.violated else "caution",
        "The claim is refuted." if audit.violated else "The claim is not refuted. It is not proven either.",
        tuple(figures),
        audit_chart(claimed, found, broken=bool(audit.violated))
        if max(claimed, found) < float("inf")
        else "",
        facts=_rest(audit),
        caveats=_CAVEATS,
    )


def _rest(audit: Any) -> tuple[tuple[str, str], ...]:
    """All further fields that are short: numbers, words, flags."""
    names = [part.name for part in fields(audit)] if is_dataclass(audit) else sorted(vars(audit))
    shown = []
    for name in names:
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
