"""Texts in Markdown."""

from __future__ import annotations

import re

from skprivate._html._text import visible

__all__ = ["plain"]


def plain(text: str) -> str:
    """One line of Markdown that shows the text as it is."""
    return re.sub(r"([\\`*_\[\]<>#|~!&$])", r"\\\1", visible(" ".join(str(text).split())))
