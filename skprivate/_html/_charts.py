"""Charts as inline SVG; colours are those of the page's style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

from skprivate._html._numbers import rounded_down
from skprivate._html._text import visible
from skprivate._messages import rounded_up

__all__ = ["audit_chart", "budget_chart", "trade_off_chart"]

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT, _BAR = 400, 330, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 14, 46


def trade_off_chart(
    curves: Sequence[tuple[str, Points]],
    *,
    log: bool = False,
    label: str = "Largest true positive rate of any attack against its false positive rate",
) -> str:
    """Curves (name, (false positive rate, true positive rate) …) with the diagonal of a mere guess."""
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
        parts.append(
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y(1):.1f}" y2="{y(0):.1f}"/>'
        )
        parts.append(
            f'<line class="grid" x1="{x(0):.1f}" x2="{x(1):.1f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(_text(x(tick), _HEIGHT - _BOTTOM + 17, shown, "middle"))
        parts.append(_text(_LEFT - 7, y(tick) + 4, shown, "end"))
    parts.append(
        _text((x(0) + x(1)) / 2, _HEIGHT - 8, "accused falsely, of those who took no part", "middle")
    )
    middle = (y(0) + y(1)) / 2
    parts.append(
        f'<text x="11" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 11 {middle:.0f})">'
        "recognised, of those who did</text>"
    )
    parts.append(_path([(0.0, 0.0), *((rate, rate) for rate in _dense(log)), (1.0, 1.0)], x, y, "guess"))
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
    """The budget as a bar, with a piece for each share that is spent."""
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
    """A lower bound on ε as a bar, and the claim as a line."""
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


def _dense(log: bool) -> list[float]:
    return [10.0 ** (-3 + k / 10) for k in range(30)] if log else []


def _at(points: Points, rate: float) -> float:
    """The curve at a rate, read at the next larger point: never below it."""
    return next((tpr for fpr, tpr in points if fpr >= rate), 1.0)


def _steps(points: Points, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    return "M" + "L".join(f"{x(f):.2f} {y(t):.2f}" for f, t in points)


def _path(points: Points, x: Callable[[float], float], y: Callable[[float], float], kind: str) -> str:
    return f'<path class="{kind}" d="{_steps(points, x, y)}"/>'
