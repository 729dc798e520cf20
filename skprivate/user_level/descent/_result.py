"""Released result of a linear model, whichever mechanism it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearResult:
    """Released result of a linear model.

    ``scale_missed`` is True if users were too few for the scale of the target. ``drift`` is above 1 if the descent did
    not converge (`Course.drift`). ``class_weights`` are public, or from released counts.
    """

    coef: FloatArray
    n_users: float
    radius: float
    clip_radius: float
    noise_level: float = 0.0
    scale_missed: bool = False
    drift: float = 0.0
    at_bound: bool = False
    target_range: tuple[float, float] = (-math.inf, math.inf)
    class_weights: FloatArray | None = None
    alpha: float = 0.0
    frame: Frame | None = None
