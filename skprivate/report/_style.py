"""Parts of a page: blocks, charts, style sheet, numbers. Every text is escaped here."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path

from skprivate._messages import rounded_down, rounded_up, visible

STYLE = "\n" + resources.files("skprivate.report").joinpath("report_style.css").read_text(encoding="utf-8")
Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT, _BAR = 400, 330, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 14, 46


def document(title: str, body: str, footer: str, more: str = "") -> str:
    """Render a whole page: one file that loads nothing, for screens of any width and for paper."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>"
        f"{body}<footer>{footer}</footer></main>{more}</body></html>"
    )


def header(eyebrow: str, title: str, by: str, verdict: tuple[str, str, str], figures: Sequence[tuple[str, str]]) -> str:
    """Render the head of a page; a verdict is the kind of its box, a text, and rendered paragraphs below it."""
    kind, headline, below = verdict
    line = f'<p class="by">{text(by)}</p>' if by else ""
    return (
        f'<header><p class="eyebrow">{eyebrow}</p><h1>{text(title)}</h1>{line}<div class="verdict {kind}">'
        f"<strong>{text(headline)}</strong>{below}</div>{grid(figures) if figures else ''}</header>"
    )


def framed(page: str) -> str:
    """Frame a page within a notebook's page, so that it keeps its style to itself."""
    inside = page.replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{inside}" style="width:100%;height:40rem;border:0"></iframe>'


def written(content: str, path: str | os.PathLike[str] | None) -> str:
    """Write the content to a file where there is a path, and return it."""
    if path is not None:
        Path(path).write_bytes(content.encode("utf-8", "backslashreplace"))
    return content


def text(value: object) -> str:
    """Escape a text; what has no encoding, and what would turn the rest of a line round, is shown by its number."""
    return html.escape(visible(str(value)).encode("utf-8", "backslashreplace").decode("utf-8"), quote=True)


def grid(figures: Iterable[tuple[str, str]]) -> str:
    inside = "".join(f"<div><b>{text(value)}</b><span>{text(name)}</span></div>" for value, name in figures)
    return f'<div class="figures">{inside}</div>'


def pairs(pairs: Iterable[tuple[str, str]]) -> str:
    inside = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs)
    return f'<dl class="facts">{inside}</dl>' if inside else ""


def items(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{sentence(item)}</li>" for item in items) + "</ul>"


def sentence(item: str) -> str:
    return text(item[:1].upper() + item[1:])


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), long: Iterable[int] = ()
) -> str:
    kinds = {**dict.fromkeys(numbers, ' class="n"'), **dict.fromkeys(long, ' class="long"')}

    def cell(k: int, value: str) -> str:
        # A block has a least width; a cell of a table need not.
        inside = f"<div>{text(value)}</div>" if "long" in kinds.get(k, "") else text(value)
        return f"<td{kinds.get(k, '')}>{inside}</td>"

    top = "".join(f"<th{kinds.get(k, '')}>{text(name)}</th>" for k, name in enumerate(head))
    body = "".join("<tr>" + "".join(cell(k, value) for k, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def trade_off_chart(
    curves: Sequence[tuple[str, Points]],
    *,
    log: bool = False,
    label: str = "Largest true positive rate of any attack against its false positive rate",
) -> str:
    """Plot curves (name, (false positive rate, true positive rate) …) with the diagonal of a mere guess."""
    lowest = 1e-3

    def scale(value: float) -> float:
        return 1 - math.log10(max(value, lowest)) / math.log10(lowest) if log else value

    def x(value: float) -> float:
        return _LEFT + scale(value) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - scale(value) * (_HEIGHT - _TOP - _BOTTOM)

    ticks = (0.001, 0.01, 0.1, 1.0) if log else (0.0, 0.25, 0.5, 0.75, 1.0)
    parts = []
    for tick in ticks:
        shown = f"{100 * tick:g}\u202f%"
        parts += [
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y(1):.1f}" y2="{y(0):.1f}"/>',
            f'<line class="grid" x1="{x(0):.1f}" x2="{x(1):.1f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>',
            _text(x(tick), _HEIGHT - _BOTTOM + 17, shown, "middle"),
            _text(_LEFT - 7, y(tick) + 4, shown, "end"),
        ]
    below = "accused falsely, of those who took no part"
    parts.append(_text((x(0) + x(1)) / 2, _HEIGHT - 8, below, "middle"))
    middle = (y(0) + y(1)) / 2
    parts.append(
        f'<text x="11" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 11 {middle:.0f})">'
        "recognised, of those who did</text>"
    )
    rates = [0.0, *(10.0 ** (-3 + k / 10) for k in range(30 if log else 0)), 1.0]
    parts.append(_path([(rate, rate) for rate in rates], x, y, "guess"))
    for k, (_, points) in enumerate(curves):
        visible = [(f, t) for f, t in points if not log or f >= lowest * (1 - 1e-9)]
        if log:
            visible = [(lowest, _at(points, lowest)), *visible]
        if k == 0:
            first, last = visible[0], visible[-1]
            area = _steps([(first[0], 0.0), *visible, (last[0], 0.0)], x, y)
            parts.append(f'<path class="area" d="{area}Z"/>')
        parts.append(_path(visible, x, y, f"curve c{k % 4}"))
    label += ", both on logarithmic axes" if log else ""
    return _svg("".join(parts), _HEIGHT, label)


def budget_chart(budget: float, shares: Sequence[tuple[str, float]]) -> str:
    """Plot the budget as a bar, with a piece for each share that is spent."""
    height, left, width = 46, 1.0, _BAR - 2.0
    parts = [f'<rect class="track" x="{left}" y="6" width="{width}" height="18" rx="4"/>']
    place = left
    for k, (name, share) in enumerate(shares):
        piece = width * min(share / budget, 1.0)
        parts.append(
            f'<rect class="fill c{k}" x="{place:.2f}" y="6" width="{piece:.2f}" height="18">'
            f"<title>{html.escape(visible(name))}: ε = {rounded_up(share, 4)}</title></rect>"
        )
        place += piece
    spent = math.fsum(share for _, share in shares)
    parts.append(_text(left, 41, f"spent ε = {rounded_up(spent, 4)}", "start"))
    parts.append(_text(left + width, 41, f"budget ε = {rounded_down(budget, 4)}", "end"))
    return _svg("".join(parts), height, "Share of the budget that is spent", _BAR)


def audit_chart(claimed: float, found: float, *, broken: bool) -> str:
    """Plot a lower bound on ε as a bar, and the claim as a line."""
    height, left, width = 46, 1.0, _BAR - 2.0
    most = max(claimed, found, 1e-12) * 1.04
    low, claim = (left + width * value / most for value in (found, claimed))
    kind = "fill broken" if broken else "fill c0"
    parts = [
        f'<rect class="track" x="{left}" y="6" width="{max(claim - left, 0):.2f}" height="18" rx="4"/>',
        f'<rect class="{kind}" x="{left}" y="6" width="{low - left:.2f}" height="18"/>',
        f'<line class="claim" x1="{claim:.2f}" x2="{claim:.2f}" y1="2" y2="28"/>',
        _text(left, 41, f"found: ε ≥ {rounded_down(found, 3)}", "start"),
        _text(left + width, 41, f"claimed: ε ≤ {rounded_up(claimed, 4)}", "end"),
    ]
    return _svg("".join(parts), height, "Audited lower bound on epsilon beside the claim", _BAR)


def _svg(inside: str, height: int, label: str, width: int = _WIDTH) -> str:
    text = html.escape(label, quote=True)
    kind = "" if width == _WIDTH else ' class="bar"'
    return f'<svg viewBox="0 0 {width} {height}"{kind} role="img" aria-label="{text}">{inside}</svg>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _at(points: Points, rate: float) -> float:
    """Read the curve at the next larger point of a rate: never below it."""
    return next((tpr for fpr, tpr in points if fpr >= rate), 1.0)


def _steps(points: Points, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    return "M" + "L".join(f"{x(f):.2f} {y(t):.2f}" for f, t in points)


def _path(points: Points, x: Callable[[float], float], y: Callable[[float], float], kind: str) -> str:
    return f'<path class="{kind}" d="{_steps(points, x, y)}"/>'
