"""Formulas become MathML when the pages are built: browsers show it by themselves, without a network or JavaScript."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

SPACE = "http://www.w3.org/1998/Math/MathML"
#: Browsers break no line within a formula: a longer one in a line of text may break behind these, outside of brackets.
LONG, BREAKS = 16, frozenset("=≠<>≤≥≈∝∈⊂→←,;:+−")
OPENING, CLOSING = frozenset("([{⟨⌊⌈"), frozenset(")]}⟩⌋⌉")
#: Browsers know no variant of letters but "normal": those that are in use as characters of their own.
DOUBLE_STRUCK = {"E": "𝔼", "R": "ℝ", "Z": "ℤ"}
SCRIPTS = [f"{{{SPACE}}}{tag}" for tag in ("msub", "msup", "msubsup", "munder", "munderover")]
THIN = {"width": "0.17em"}
ElementTree.register_namespace("", SPACE)


def mathml(formula: str, display: str) -> str:
    """Write TeX as MathML; a long formula in a line of text becomes several elements, between which lines may break."""
    root = ElementTree.fromstring(convert(formula, display=display))
    for letter in root.iter(f"{{{SPACE}}}mi"):
        if letter.get("mathvariant") == "double-struck":
            del letter.attrib["mathvariant"]
            letter.text = DOUBLE_STRUCK[letter.text or ""]
    for parent in list(root.iter()):
        _space(parent)
    row = list(root[0])
    parts = [row] if display == "block" or len("".join(root.itertext())) <= LONG else _parts(row)
    return "<wbr>".join(_element(part, display) for part in parts)


def _space(parent: ElementTree.Element) -> None:
    """Set spaces as TeX does: none around a slash, thin ones beside names of functions, none before their brackets."""
    row = list(parent)
    for place, item in enumerate(row):
        if item.text == "/":
            item.attrib |= {"lspace": "0", "rspace": "0"}
        name = item[0] if item.tag in SCRIPTS else item
        if not (name.text or "").isalpha() or len(name.text or "") < 2 or name.tag == f"{{{SPACE}}}mtext":
            continue
        name.tag = f"{{{SPACE}}}mi"
        if parent.tag in (f"{{{SPACE}}}mrow", f"{{{SPACE}}}math"):
            before, after = row[place - 1 : place], row[place + 1 : place + 2]
            if after and (after[0].text or "") not in OPENING:
                parent.insert(list(parent).index(item) + 1, ElementTree.Element(f"{{{SPACE}}}mspace", THIN))
            if before and before[0].tag != f"{{{SPACE}}}mo":
                parent.insert(list(parent).index(item), ElementTree.Element(f"{{{SPACE}}}mspace", THIN))


def _parts(row: list[ElementTree.Element]) -> list[list[ElementTree.Element]]:
    """Cut a row of a formula where its lines may break."""
    parts: list[list[ElementTree.Element]] = [[]]
    depth = 0
    for item in row:
        parts[-1].append(item)
        sign = (item.text or "") if len(item) == 0 else ""
        depth += (sign in OPENING) - (sign in CLOSING)
        if sign in BREAKS and depth <= 0 and len(parts[-1]) > 1:
            item.set("form", "infix")  # it is the last of its element, which would make it a postfix
            parts.append([])
    return [part for part in parts if part]


def _element(row: list[ElementTree.Element], display: str) -> str:
    root = ElementTree.Element(f"{{{SPACE}}}math", {"display": display})
    ElementTree.SubElement(root, f"{{{SPACE}}}mrow").extend(row)
    return ElementTree.tostring(root, encoding="unicode")


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula in a paragraph of its own."""
    self.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer and choose it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
