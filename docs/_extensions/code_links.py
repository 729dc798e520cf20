"""Public names in code font become links: ``UserLevelMean``, ``Release.select``, ``skprivate.metric.GridMeasure``."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from public_names import canonical_names
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"(@?)([A-Za-z_][\w.]*?)(\(.*\))?", re.DOTALL)


class CodeLinks(SphinxTransform):
    """Wrap inline code that begins with a public name in a reference to it."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        """Walk over the page's inline code, headings and links excepted."""
        for literal in list(self.document.findall(nodes.literal)):
            target = self._target(literal.astext())
            inside = (nodes.title, nodes.reference, addnodes.pending_xref)
            if target is None or any(isinstance(parent, inside) for parent in _parents(literal)):
                continue
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False
            )
            link.source, link.line = literal.source, literal.line
            literal.replace_self(link)
            link += literal

    def _target(self, text: str) -> str | None:
        match = NAME.fullmatch(text)
        if match is None:
            return None
        first, dot, rest = match[2].removeprefix("skprivate.").partition(".")
        if match[2] in self.config.public_names.values():
            return match[2]
        if first in self.config.public_names:
            return self.config.public_names[first] + dot + rest
        return None


def resolve_short(app: Sphinx, env: Any, node: addnodes.pending_xref, content: Any) -> Any:
    """Find a name that a docstring writes without its package, where the package is another one."""
    first, dot, rest = node.get("reftarget", "").partition(".")
    full = app.config.public_names.get(first)
    if node.get("refdomain") != "py" or full is None:
        return None
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", full + dot + rest, node, content)


def _parents(node: nodes.Node) -> Any:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform."""
    short: dict[str, str] = {}
    for name in canonical_names():
        short.setdefault(name.rpartition(".")[2], name)
    app.add_config_value("public_names", short, "env")
    app.add_transform(CodeLinks)
    app.connect("missing-reference", resolve_short)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
