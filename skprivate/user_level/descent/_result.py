"""What a fit of a linear model releases, whichever mechanism it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearResult:
    """What the fit of a linear model released.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    n_users : float
    radius, clip_radius : float
        Projection and clipping radius as used.
    noise_level : float
        Norm of all the noise, where a unanimous vote of the users has norm 1.
    scale_missed : bool
        Whether the users were too few for the scale of the target that was wanted.
    drift : float
        `Course.drift` of the descent; above 1 if it has not settled.
    at_bound : bool
        Whether the coefficients lie at the projection radius.
    target_range : (float, float)
        Where predictions are meant to lie.
    class_weights : ndarray of shape (n_classes,) or None
        Public, or from released counts.
    alpha : float
        Strength of the penalty.
    frame : Frame or None
        How features were centred, scaled and bounded.
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
