"""Long names in tables may break after their parts, so that a table of theorems and tests fits the page."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: Names of up to this many characters stay whole.
SHORT = 28
#: After an underscore, a dot or slash, a colon, and between the humps of CamelCase.
PART = re.compile(r"(?<=[a-zA-Z0-9]_)(?=\w)|(?<=[./:])(?=\w)|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def allow_breaks(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put ``<wbr>`` between the parts: copied text stays as it is."""
    if app.builder.format != "html":
        return
    for entry in doctree.findall(nodes.entry):
        for literal in entry.findall(nodes.literal):
            if len(literal.astext()) <= SHORT:
                continue
            for text in list(literal.findall(nodes.Text)):
                pieces: list[nodes.Node] = []
                for part in PART.split(text.astext()):
                    pieces += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]
                text.parent.replace(text, pieces[:-1])


def setup(app: Sphinx) -> dict[str, Any]:
    """Run when links have been made."""
    app.connect("doctree-resolved", allow_breaks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
