"""From real statistics to integers with exact noise: lattice steps, sensitivities in steps, noise scales.

Pure arithmetic on public numbers, apart from `snap` and `selection_costs`, which round what is private. The
derivations are in docs/design.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple

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
# Steps by which rounding to a lattice may move two neighbouring values apart.
_ROUNDING_STEPS = 1
# Noise scales in steps, as powers of two: refined to the first, coarsened beyond the second.
_FINEST_BITS, _COARSEST_BITS = 33, 48
# Scores are rounded to this fraction of their sensitivity (a power of two), and clipped far away from overflow.
_SCORE_BITS = 20
_INTEGER_LIMIT = 2**60
_SCORE_LIMIT = float(_INTEGER_LIMIT)


class Lattice(NamedTuple):
    """A lattice step (a power of two) and the scale of the integer noise on it."""

    step: float
    scale: Fraction


@lru_cache(maxsize=256)
def laplace_lattice(sensitivity: float, epsilon: float, coordinates: int) -> Lattice:
    """Compute lattice and scale for Laplace noise with an ℓ1 ``sensitivity`` over ``coordinates`` numbers."""
    step = _step(sensitivity / epsilon, coordinates)
    # Two further steps: the discrete Laplace shifted by Δ steps is dominated by the continuous one shifted by
    # Δ + 2, whose profile is what the accountant uses.
    steps = rational(sensitivity) / rational(step) + _ROUNDING_STEPS * coordinates + 2
    return Lattice(step, steps / rational(epsilon) * WIDER)


@lru_cache(maxsize=256)
def gaussian_lattice(sensitivity: float, noise_multiplier: float, coordinates: int) -> Lattice:
    """Compute lattice and deviation for Gaussian noise with an ℓ2 ``sensitivity`` over ``coordinates`` numbers."""
    root = math.isqrt(max(coordinates, 1) - 1) + 1
    step = _step(sensitivity * noise_multiplier, root)
    steps = rational(sensitivity) / rational(step) + _ROUNDING_STEPS * root
    return Lattice(step, steps * rational(noise_multiplier) * WIDER)


class IntegerLattice(NamedTuple):
    """The lattice of the noise on integers: 2^shift points a step, or one point for 2^−shift steps."""

    shift: int
    scale: Fraction

    def place(self, integers: NDArray[Any]) -> NDArray[Any]:
        """Put integers on the lattice of the noise, exactly, or rounded to it where it is coarser."""
        if self.shift >= 0:
            if integers.dtype != object and largest(integers) < _INTEGER_LIMIT >> self.shift:
                return integers << self.shift
            return np.asarray(integers.astype(object) * (1 << self.shift))
        half = 1 << (-self.shift - 1)
        return np.asarray((integers.astype(object) + half) // (2 * half))

    def to_steps(self, total: NDArray[Any]) -> FloatArray:
        """Convert lattice points to steps: each the float64 nearest to the exact number."""
        if total.dtype == object or self.shift > 1000:
            point = Fraction(2) ** -self.shift
            exact = [float(int(value) * point) for value in total.ravel().tolist()]
            return np.array(exact, dtype=np.float64).reshape(total.shape)
        return np.asarray(np.ldexp(total.astype(np.float64), -self.shift))


@lru_cache(maxsize=256)
def integer_laplace_lattice(
    sensitivity: float | Fraction, epsilon: float, coordinates: int
) -> IntegerLattice:
    """Compute the lattice for Laplace noise on integers with this ℓ1 sensitivity in steps."""
    shift = _shift(rational(sensitivity) / rational(epsilon))
    steps = rational(sensitivity) * Fraction(2) ** shift + (0 if shift >= 0 else coordinates) + 2
    return IntegerLattice(shift, steps / rational(epsilon) * WIDER)


@lru_cache(maxsize=256)
def integer_gaussian_lattice(
    sensitivity: float | Fraction, noise_multiplier: float, coordinates: int
) -> IntegerLattice:
    """Compute the lattice for Gaussian noise on integers with this ℓ2 sensitivity in steps."""
    shift = _shift(rational(sensitivity) * rational(noise_multiplier))
    root = math.isqrt(max(coordinates, 1) - 1) + 1
    steps = rational(sensitivity) * Fraction(2) ** shift + (0 if shift >= 0 else root)
    return IntegerLattice(shift, steps * rational(noise_multiplier) * WIDER)


def _shift(scale: Fraction) -> int:
    bits = scale.numerator.bit_length() - scale.denominator.bit_length()  # ⌊log2 scale⌋ or one more
    return max(_FINEST_BITS - bits, 0) if bits <= _COARSEST_BITS else _COARSEST_BITS - bits


def snap(array: FloatArray, step: float) -> FloatArray:
    """Round to multiples of ``step``; float64 values too large to have other neighbours are multiples already."""
    with np.errstate(over="ignore", invalid="ignore"):
        lattice = np.rint(array / step) * step
    return np.where(np.isfinite(lattice), lattice, array)


def selection_costs(scores: ArrayLike, sensitivity: float, epsilon: float) -> tuple[IntArray, Fraction]:
    """Compute the distance of every score from the best, in steps, and the sensitivity in the same steps.

    Integer scores are used unchanged. Real ones are rounded to a lattice that is fine against the sensitivity and
    against what ε can distinguish. The last axis holds the candidates.
    """
    exact = as_integers(scores)
    if exact is not None:
        # Clipping is 1-Lipschitz: it cannot raise the sensitivity, and costs stay far from overflow.
        if exact.dtype == object:
            exact = np.minimum(np.maximum(exact, -_INTEGER_LIMIT), _INTEGER_LIMIT)
        lattice = np.clip(exact.astype(np.int64), -_INTEGER_LIMIT, _INTEGER_LIMIT)
        steps = rational(sensitivity)
    else:
        unit = sensitivity / max(1.0, epsilon)
        if unit < 2.0**-1000:
            raise ValueError("the sensitivity is too small for float64: rescale the scores.")
        step = math.ldexp(1.0, math.frexp(unit)[1] - 1 - _SCORE_BITS)
        real = finite(scores)
        with np.errstate(over="ignore"):
            lattice = np.rint(np.clip(real / step, -_SCORE_LIMIT, _SCORE_LIMIT)).astype(np.int64)
        steps = rational(sensitivity) / rational(step) + _ROUNDING_STEPS
    best = lattice.max(axis=-1, keepdims=True, initial=np.iinfo(np.int64).min)
    return best - lattice, steps


def selection_rate(epsilon: float, steps: Fraction, monotone: bool) -> Fraction:
    """Compute the exponent per step of cost."""
    return rational(epsilon) / (steps * (1 if monotone else 2)) / WIDER


def rational(value: Any) -> Fraction:
    """Return the exact value of a number; numpy's integers, which wrap around inside a `Fraction`, as Python's."""
    return Fraction(int(value)) if isinstance(value, Integral) else Fraction(value)


def check_positive(**values: float) -> None:
    """Refuse parameters that are not positive finite numbers."""
    for name, value in values.items():
        if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


def finite(value: ArrayLike) -> FloatArray:
    """Convert a statistic to float64, refused if not finite."""
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError("the statistic to be released must be finite.")
    return array


def as_integers(values: ArrayLike) -> NDArray[Any] | None:
    """Convert values to int64, or to Python integers where int64 does not hold them; None if they are not integers."""
    array = np.asarray(values)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        return array.astype(object)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype == object and all(isinstance(value, Integral) for value in array.ravel().tolist()):
        whole = np.array([int(value) for value in array.ravel().tolist()], dtype=object).reshape(array.shape)
        return whole if largest(whole) >= 2**63 else whole.astype(np.int64)
    return None


def largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value of integers, as a Python integer."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def integers(counts: ArrayLike) -> NDArray[Any]:
    """Convert counts to integers, refused if they are not."""
    array = as_integers(counts)
    if array is None:
        raise TypeError(f"counts must be integers, got dtype {np.asarray(counts).dtype}.")
    return array


def _step(scale: float, coordinates: int) -> float:
    bits = min(_STEP_BITS + max(coordinates - 1, 0).bit_length(), _MOST_STEP_BITS)
    step = math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits)
    if step < 2.0**-1000:
        raise ValueError("the noise scale is too small for float64: rescale the statistic.")
    return step
