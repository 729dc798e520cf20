"""From real statistics to integers with exact noise: lattice steps, sensitivities in steps, noise scales.

Pure arithmetic on public numbers, apart from `snap` and `selection_costs`, which round what is private. The
derivations stand in docs/design.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Noise is this much wider than its price says, so that budgets split in floating point never overrun.
WIDER = 1 + Fraction(1, 2**30)
#: Relative rounding of a budget split in floating point that is absorbed by `WIDER`.
ROUNDING = 2.0**-40
# Lattice steps per noise scale, as a power of two; long vectors get finer steps up to the second number.
_STEP_BITS, _MOST_STEP_BITS = 32, 44
# Steps by which two neighbouring values may differ beyond their sensitivity: one for rounding to the lattice,
# one for float64 error of the statistic itself (up to half a step each).
_ROUNDING_STEPS = 2
# Scores are rounded to this fraction of their sensitivity (a power of two), and clipped far away from overflow.
_SCORE_BITS = 20
_INTEGER_LIMIT = 2**60
_SCORE_LIMIT = float(_INTEGER_LIMIT)


class Lattice(NamedTuple):
    """A lattice step (a power of two) and the scale of the integer noise on it."""

    step: float
    scale: Fraction


def laplace_lattice(sensitivity: float, epsilon: float, coordinates: int) -> Lattice:
    """Lattice and scale for Laplace noise with an ℓ1 ``sensitivity`` over ``coordinates`` numbers."""
    step = _step(sensitivity / epsilon, coordinates)
    # Two further steps: the discrete Laplace shifted by Δ steps is dominated by the continuous one shifted by
    # Δ + 2, whose profile is what the accountant uses.
    steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS * coordinates + 2
    return Lattice(step, steps / Fraction(epsilon) * WIDER)


def gaussian_lattice(sensitivity: float, noise_multiplier: float, coordinates: int) -> Lattice:
    """Lattice and standard deviation for Gaussian noise with an ℓ2 ``sensitivity`` over ``coordinates`` numbers."""
    root = math.isqrt(max(coordinates, 1) - 1) + 1
    step = _step(sensitivity * noise_multiplier, root)
    steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS * root
    return Lattice(step, steps * Fraction(noise_multiplier) * WIDER)


def snap(array: FloatArray, step: float) -> FloatArray:
    """Round to multiples of ``step``; float64 values too large to have other neighbours are multiples already."""
    with np.errstate(over="ignore", invalid="ignore"):
        lattice = np.rint(array / step) * step
    return np.where(np.isfinite(lattice), lattice, array)


def selection_costs(scores: ArrayLike, sensitivity: float) -> tuple[IntArray, Fraction]:
    """Distance of every score from the best, in steps, and the sensitivity in the same steps.

    Integer scores with an integer sensitivity are used as they are. The last axis holds the candidates.
    """
    array = np.asarray(scores)
    if array.dtype.kind in "iub" and float(sensitivity).is_integer():
        # Clipping is 1-Lipschitz: it cannot raise the sensitivity, and costs stay far from overflow.
        lattice = np.clip(array, -_INTEGER_LIMIT, _INTEGER_LIMIT).astype(np.int64)
        steps = Fraction(int(sensitivity))
    else:
        step = math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - _SCORE_BITS)
        real = finite(array)
        with np.errstate(over="ignore"):
            lattice = np.rint(np.clip(real / step, -_SCORE_LIMIT, _SCORE_LIMIT)).astype(np.int64)
        steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS
    best = lattice.max(axis=-1, keepdims=True, initial=np.iinfo(np.int64).min)
    return best - lattice, steps


def selection_rate(epsilon: float, steps: Fraction, monotone: bool) -> Fraction:
    """Exponent per step of cost."""
    return Fraction(epsilon) / (steps * (1 if monotone else 2)) / WIDER


def check_positive(**values: float) -> None:
    """Refuse parameters that are not positive finite numbers."""
    for name, value in values.items():
        if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


def finite(value: ArrayLike) -> FloatArray:
    """The statistic as float64, refused if not finite."""
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError("the statistic to be released must be finite.")
    return array


def integers(counts: ArrayLike) -> IntArray:
    """The counts as int64, refused if not integers."""
    array = np.asarray(counts)
    if array.dtype.kind not in "iub":
        raise TypeError(f"counts must be integers, got dtype {array.dtype}.")
    return array.astype(np.int64)


def _step(scale: float, coordinates: int) -> float:
    bits = min(_STEP_BITS + max(coordinates - 1, 0).bit_length(), _MOST_STEP_BITS)
    step = math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits)
    if step < 2.0**-1000:
        raise ValueError("the noise scale is too small for float64: rescale the statistic.")
    return step
