"""What pages are made of. Every text is escaped here, and nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from skprivate._html._style import STYLE
from skprivate._html._text import visible

__all__ = ["document", "framed", "grid", "items", "pairs", "sentence", "table", "text", "written"]


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
