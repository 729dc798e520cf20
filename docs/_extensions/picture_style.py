"""The style of the gallery's pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt


def set_style(gallery_conf: dict[str, Any], script: str) -> None:
    """Set the style of all pictures before and after each script of the gallery."""
    plt.style.use(Path(__file__).parent.parent / "pictures.mplstyle")
