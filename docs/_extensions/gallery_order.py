"""The order of the gallery: first models, then data and labels, then attacks, then the papers."""

from __future__ import annotations

import re
from pathlib import Path

#: The page that groups the scripts by subject has their order.
PAGE = Path(__file__).parent.parent / "examples_by_subject.md"
ORDER = re.findall(r"examples/plot_(\w+)\.py", PAGE.read_text("utf-8"))


def place(name: str) -> tuple[int, str]:
    """Place a script; one that is not named comes last."""
    stem = name.rpartition("/")[2].removeprefix("plot_").removesuffix(".py")
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)
