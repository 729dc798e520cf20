"""The parts of a page: blocks, charts, style sheet, numbers. Every text is escaped here."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from skprivate._messages import rounded_down, rounded_up, visible

__all__ = [
    "audit_chart",
    "budget_chart",
    "document",
    "framed",
    "grid",
    "items",
    "pairs",
    "plain",
    "sentence",
    "table",
    "text",
    "trade_off_chart",
    "written",
]

STYLE = """
:root{color-scheme:light dark;--page:#f6f6f3;--sheet:#fff;--ink:#1d2329;--soft:#5b6670;--line:#d9dcd8;
--c0:#2f5d8a;--c1:#b0702b;--c2:#4c7d5b;--c3:#7a5793;--good:#2d6a4b;--goodbg:#eaf3ed;--care:#8a5a00;--carebg:#fbf3e1;
--stop:#a3271d;--stopbg:#fbe9e6;--track:#e6e8e5}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--sheet:#1b1f23;--ink:#e4e7e9;--soft:#9ba6ae;--line:#363d43;
--c0:#7fb0dd;--c1:#dfa463;--c2:#86bd97;--c3:#bb98d4;--good:#86c9a3;--goodbg:#1c2b23;--care:#e5b964;--carebg:#2d2615;
--stop:#f19b91;--stopbg:#351d1a;--track:#30363b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.58 "Source Serif 4",Charter,"Iowan Old Style",
"Palatino Linotype",Georgia,"DejaVu Serif",serif;overflow-wrap:anywhere}
main{max-width:54rem;margin:2.5rem auto;padding:3rem 3.5rem;background:var(--sheet);border:1px solid var(--line);
border-radius:6px}
h1,h2,h3,th,.eyebrow,.figures,.facts dt,figcaption,svg text,.by,footer,summary{font-family:system-ui,"Segoe UI",Roboto,
"Helvetica Neue","DejaVu Sans",sans-serif}
.eyebrow{margin:0;font-size:.78rem;letter-spacing:.09em;text-transform:uppercase;color:var(--soft)}
h1{margin:.2rem 0 .3rem;font-size:1.95rem;line-height:1.2;font-weight:650;letter-spacing:-.01em}
.by{margin:0 0 1.6rem;color:var(--soft);font-size:.88rem}
h2{margin:2.8rem 0 .7rem;padding-top:1.1rem;border-top:1px solid var(--line);font-size:1.18rem;font-weight:650;
display:flex;gap:.7rem}
h2 span{color:var(--soft);font-weight:400;min-width:1.1rem}
h3{margin:1.5rem 0 .4rem;font-size:.95rem}
p{margin:.6rem 0;max-width:42rem}
ul{margin:.6rem 0;padding-left:1.2rem;max-width:42rem}
li{margin:.4rem 0}
.verdict{margin:0 0 1.4rem;padding:.9rem 1.1rem;border-left:5px solid;border-radius:4px}
.verdict p{margin:.25rem 0}
.verdict strong{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.holds{border-color:var(--good);background:var(--goodbg)}.holds strong{color:var(--good)}
.caution{border-color:var(--care);background:var(--carebg)}.caution strong{color:var(--care)}
.stop{border-color:var(--stop);background:var(--stopbg)}.stop strong{color:var(--stop)}
.stop>strong:first-child{font-size:1.15rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.8rem;margin:1.2rem 0}
.figures div{padding:.75rem .9rem;border:1px solid var(--line);border-radius:5px}
.figures b{display:block;white-space:nowrap;font-size:1.5rem;
font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.figures span{display:block;color:var(--soft);font-size:.8rem;line-height:1.4}
.lead{font-size:1.08rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18rem,100%),1fr));gap:1.2rem;margin:1.1rem 0}
figure{margin:0}
figcaption{margin-top:.4rem;color:var(--soft);font-size:.82rem;line-height:1.45}
svg{display:block;width:100%;height:auto;max-width:32rem}
svg.bar{max-width:none;min-width:20rem}
svg text{font-size:11.5px;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1}
.guess{fill:none;stroke:var(--soft);stroke-width:1.3;stroke-dasharray:5 4}
.curve{fill:none;stroke-width:2.4;stroke-linejoin:round}
.area{fill:var(--c0);opacity:.1}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.fill{stroke:var(--sheet);stroke-width:1}
.fill.c0{fill:var(--c0)}.fill.c1{fill:var(--c1)}.fill.c2{fill:var(--c2)}.fill.c3{fill:var(--c3)}
.fill.broken{fill:var(--stop)}.track{fill:var(--track)}.claim{stroke:var(--ink);stroke-width:2.5}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em;vertical-align:-.05em}
.key.c0{background:var(--c0)}.key.c1{background:var(--c1)}.key.c2{background:var(--c2)}.key.c3{background:var(--c3)}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;line-height:1.4;font-variant-numeric:tabular-nums}
th{font-size:.78rem;font-weight:600;color:var(--soft);text-align:left;vertical-align:bottom}
th,td{padding:.42rem .8rem .42rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
td.long div{overflow-wrap:anywhere;min-width:9rem}td.long~td.long div{min-width:24rem}
th.n,td.n{text-align:right}td.n{white-space:nowrap}
.facts{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.3rem 1.2rem;margin:.9rem 0}
.facts dt{color:var(--soft);font-size:.85rem;line-height:1.75}
.facts dd{margin:0}
.facts.answers{grid-template-columns:1fr;max-width:42rem;gap:0}.answers dd{margin:0 0 .7rem}
code{font:.85em/1.4 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
.open{color:var(--soft);font-style:italic}
.open::after{content:"";display:block;border-bottom:1px dotted var(--soft);height:1.5rem}
details{margin:1rem 0}summary{cursor:pointer;color:var(--soft);font-size:.88rem}
.sign{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:1rem 2rem;margin-top:1.2rem}
.sign div{border-bottom:1px solid var(--ink);height:3.4rem;display:flex;align-items:flex-start;color:var(--soft);
font-size:.85rem}
footer{margin-top:2.5rem;color:var(--soft);font-size:.8rem;line-height:1.5}
@media (max-width:44rem){svg.bar text{font-size:18px}
main{margin:0;padding:1.4rem 1.15rem 2rem;border:0;border-radius:0}h1{font-size:1.5rem}
.figures{grid-template-columns:1fr 1fr}.figures b{font-size:1.2rem}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin:0 0 .6rem}}
@media print{details::details-content{content-visibility:visible;height:auto}summary{display:none}
:root{color-scheme:light;--page:#fff;--sheet:#fff;--ink:#000;--soft:#444;--line:#bbb;--c0:#2f5d8a;
--c1:#b0702b;--c2:#4c7d5b;--c3:#7a5793;--good:#1d5a3b;--goodbg:#fff;--care:#8a5a00;--carebg:#fff;--stop:#a3271d;
--stopbg:#fff;--track:#e6e8e5}body{font-size:10.5pt}main{margin:0;padding:0;border:0;max-width:none}
h2,h3{break-after:avoid}figure,tr,.verdict,.figures,.sign{break-inside:avoid}.scroll{overflow:visible}
svg,.verdict,.key{-webkit-print-color-adjust:exact;print-color-adjust:exact}@page{margin:18mm 16mm}}
"""


def document(title: str, body: str, footer: str, more: str = "") -> str:
    """A whole page: one file that loads nothing, for screens of any width and for paper."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>"
        f"{body}<footer>{footer}</footer></main>{more}</body></html>"
    )


def framed(page: str, height: str = "40rem") -> str:
    """A page within a notebook's page, which keeps its style to itself."""
    inside = page.replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{inside}" style="width:100%;height:{height};border:0"></iframe>'


def written(content: str, path: str | os.PathLike[str] | None) -> str:
    """The content, written to a file as well where there is a path."""
    if path is not None:
        Path(path).write_bytes(content.encode("utf-8", "backslashreplace"))
    return content


def text(value: object) -> str:
    """Escaped; what has no encoding, and what would turn the rest of a line round, is shown by its number."""
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
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    long: Iterable[int] = (),
) -> str:
    kinds = {**dict.fromkeys(numbers, ' class="n"'), **dict.fromkeys(long, ' class="long"')}

    def cell(k: int, value: str) -> str:
        # A block has a least width; a cell of a table need not.
        inside = f"<div>{text(value)}</div>" if "long" in kinds.get(k, "") else text(value)
        return f"<td{kinds.get(k, '')}>{inside}</td>"

    top = "".join(f"<th{kinds.get(k, '')}>{text(name)}</th>" for k, name in enumerate(head))
    body = "".join("<tr>" + "".join(cell(k, value) for k, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


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


def plain(text: str) -> str:
    """One line of Markdown that shows the text as it is."""
    return re.sub(r"([\\`*_\[\]<>#|~!&$])", r"\\\1", visible(" ".join(str(text).split())))
