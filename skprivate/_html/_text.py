"""Texts whose marks cannot do anything to the page around them."""

from __future__ import annotations

import re

__all__ = ["visible"]


def visible(text: str) -> str:
    """Marks that change the direction of what follows, and other controls, by their numbers."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
