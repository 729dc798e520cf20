"""A page must not load anything from the network: it is read in hospitals, too."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

#: Elements that a browser loads by itself, and the attributes that say what.
LOADED = {
    "script": {"src"},
    "link": {"href"},
    "img": {"src", "srcset"},
    "iframe": {"src"},
    "source": {"src", "srcset"},
    "video": {"src", "poster"},
    "audio": {"src"},
    "object": {"data"},
    "embed": {"src"},
}


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in LOADED.get(tag, ()) and value and value.startswith(("http:", "https:", "//")):
                self.found.append(f"<{tag} {name}={value}>")


def external_loads(html: str) -> list[str]:
    """What a browser would fetch from elsewhere to show a page; links that a reader follows are none."""
    parser = _Loads()
    parser.feed(html)
    return parser.found


def warn(app: Any, exception: Exception | None) -> None:
    """One warning for each; ``sphinx -W`` then fails."""
    from sphinx.util import logging

    if exception is None and app.builder.format == "html":
        for page in sorted(Path(app.outdir).rglob("*.html")):
            for load in external_loads(page.read_text("utf-8")):
                logging.getLogger(__name__).warning("%s loads %s", page.relative_to(app.outdir), load)


def setup(app: Any) -> dict[str, Any]:
    """Look at the pages when they are written."""
    app.connect("build-finished", warn)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
