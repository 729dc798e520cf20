"""The compact set an audited output lies in: a ball around 0 or a cube."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["inside_support", "support_diameter"]

Array = npt.NDArray[np.float64]


def _cube(support: Any) -> tuple[float, float]:
    try:
        low, high = (float(edge) for edge in support)
    except (TypeError, ValueError):
        raise ValueError(f"support must be a radius or (low, high); got {support!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"support must be a radius or finite (low, high) with low < high; got {support!r}.")
    return low, high


def support_diameter(support: Any, n_features: int) -> float:
    """Diameter of the ball of radius ``support`` or of the cube ``[low, high]^q``."""
    if isinstance(support, Real):
        return 2.0 * float(support)
    low, high = _cube(support)
    return (high - low) * math.sqrt(n_features)


def inside_support(points: Array, support: Any) -> npt.NDArray[np.bool_]:
    """Which rows of ``points`` lie in the support."""
    if isinstance(support, Real):
        return np.asarray(np.linalg.norm(points, axis=1) <= float(support))
    low, high = _cube(support)
    return np.asarray(((points >= low) & (points <= high)).all(axis=1))
