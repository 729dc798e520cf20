"""Bounded integer contributions of single units, their exact sums, and the lattice they are on.

Pure arithmetic on public numbers, apart from `snap` and `selection_costs`, which round what is private. The
derivations are in docs/design.md.

A sensitivity is a statement about real numbers, but float64 sums round, and BLAS rounds differently according to the
number of rows. So whatever is summed over units is first made integer: multiples of a public step, rounded towards zero
so that a bound on the real contribution is a bound on the integer one. Integer sums are associative: order, chunks,
threads and machines cannot change a digit, and removing one unit changes the sum by exactly that unit's contribution.

Coordinates come first: ``values[j]`` holds coordinate j of all units, contiguously. All arithmetic is elementwise IEEE
arithmetic along units, in a fixed order over coordinates, so the contribution of one unit does not depend on its
neighbours in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Noise is this much wider than its cost says, so that budgets split in floating point never overrun.
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
#: A contribution of norm 1 has 2³⁰ steps: squares of norms fit into int64, and 2³² units add up in int64.
CONTRIBUTION_BITS = 30
#: The step of unit contributions.
CONTRIBUTION_STEP = 2.0**-CONTRIBUTION_BITS
_SAFE = 2**62
# Between these, squares of a vector's entries neither overflow nor lose anything that counts by underflow: what is
# lost is below n·2⁻¹⁰⁷⁵, and n·2⁻¹⁷⁵ of the whole.
_LEAST_SQUARE, _LARGEST_SQUARE = 2.0**-900, 2.0**900


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
def integer_laplace_lattice(sensitivity: float | Fraction, epsilon: float, coordinates: int) -> IntegerLattice:
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
    if isinstance(value, np.floating):
        return Fraction(float(value))
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
    array = _unrounded(values)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        return array.astype(object)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype == object and all(isinstance(value, Integral) for value in array.ravel().tolist()):
        exact = np.array([int(value) for value in array.ravel().tolist()], dtype=object).reshape(array.shape)
        return exact if largest(exact) >= 2**63 else exact.astype(np.int64)
    return None


def _unrounded(values: ArrayLike) -> NDArray[Any]:
    """Convert to an array; integers that NumPy makes floats of, since no one type of it holds all, to objects."""
    array = np.asarray(values)
    if array.dtype == object or (array.dtype.kind == "f" and not hasattr(values, "dtype")):
        objects = np.asarray(values, dtype=object)
        # Sums of single numbers are arrays without an axis.
        entries = [entry.item() if isinstance(entry, np.ndarray) else entry for entry in objects.ravel().tolist()]
        if all(isinstance(entry, Integral) for entry in entries):
            return np.array([*entries, None], dtype=object)[:-1].reshape(objects.shape)
    return array


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


def exact_sum(
    contributions: NDArray[Any] | Iterable[NDArray[Any]], *, axis: int = -1, bound: int | None = None
) -> NDArray[Any]:
    """Sum integers along ``axis`` without rounding and without wrapping around.

    Parameters
    ----------
    contributions : ndarray, or iterable of them
        Blocks of contributions; the sums of all blocks are added. float64 arrays are taken where all entries are
        integers (that is the caller's claim) and refused if they are not.
    axis : int, default=-1
        Along units.
    bound : int, optional
        What no entry of a float64 array passes in absolute value. The caller's claim, and that all entries are
        integers is then the caller's claim too; both are looked for otherwise.

    Returns
    -------
    ndarray of int64, or of Python integers (dtype object) where int64 does not hold them

    See Also
    --------
    ball_contributions, interval_contributions : Make integers of bounded norm.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.privacy import exact_sum
    >>> exact_sum(np.array([[1, 2, 3], [2**62, 2**62, 2**62]]))
    array([6, 13835058055282163712], dtype=object)
    """
    if isinstance(contributions, np.ndarray):
        return _block_sum(contributions, axis, bound)
    total: NDArray[Any] | None = None
    most = 0
    for block in contributions:
        part = _block_sum(block, axis, bound)
        # What no sum so far passes: where int64 holds it, sums are not looked at.
        most += _SAFE if bound is None or block.dtype.kind != "f" else int(bound) * block.shape[axis]
        add = np.add if most < _SAFE else add_exactly
        total = part if total is None else np.asarray(add(total, part))
    if total is None:
        raise ValueError("there must be at least one block of contributions.")
    return total


def add_exactly(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Add two integer arrays: int64 where every entry fits, Python integers otherwise."""
    if object not in (first.dtype, second.dtype) and largest(first) + largest(second) < _SAFE:
        return np.asarray(first + second)
    return as_small_as_possible(np.asarray(first.astype(object) + second.astype(object)))


def as_small_as_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Convert Python integers to int64 if all of them fit."""
    if values.dtype == object and largest(values) < _SAFE:
        return values.astype(np.int64)
    return values


def _block_sum(block: NDArray[Any], axis: int, bound: int | None) -> NDArray[Any]:
    block = _unrounded(block)
    count = block.shape[axis]
    if block.dtype.kind == "f":
        # Sums of integers below 2⁵³ are exact in float64, in any order.
        if bound is not None and int(bound) * max(count, 1) < 2**53:
            return np.asarray(np.sum(block, axis=axis, dtype=np.float64)).astype(np.int64)
        most = max(float(np.max(block, initial=0.0)), -float(np.min(block, initial=0.0)))
        if not math.isfinite(most) or not np.array_equal(np.trunc(block), block):
            raise ValueError("contributions must be integers, got floats that are not.")
        if most * max(count, 1) < 2.0**53:
            return np.asarray(np.sum(block, axis=axis, dtype=np.float64)).astype(np.int64)
        if most < _SAFE:
            block = block.astype(np.int64)
        else:
            exact = [int(value) for value in block.ravel().tolist()]
            block = np.array(exact, dtype=object).reshape(block.shape)
    if block.dtype.kind == "b":
        block = block.astype(np.int64)
    if block.dtype == object:
        if (integral := as_integers(block)) is None:
            raise ValueError("contributions must be integers, got objects that are not.")
        block = integral.astype(object)  # Python integers: numpy's wrap around
        return as_small_as_possible(np.asarray(np.sum(block, axis=axis), dtype=object))
    if block.dtype.kind not in "iu":
        raise TypeError(f"contributions must be integers, got dtype {block.dtype}.")
    if largest(block) * max(count, 1) < _SAFE:
        return np.asarray(np.sum(block, axis=axis, dtype=np.int64))
    # Two words: the low 32 bits, and what is above them (rounded down); both sums fit for 2³¹ units.
    high = np.sum(block >> 32, axis=axis, dtype=np.int64)
    low = np.sum(block & 0xFFFFFFFF, axis=axis, dtype=np.int64)
    total = np.asarray(high).astype(object) * 2**32 + np.asarray(low).astype(object)
    return as_small_as_possible(np.asarray(total, dtype=object))


def ball_margin(n_coordinates: int) -> float:
    """Compute 1 minus the relative error of float64 in scaling a vector of ``n_coordinates`` numbers to its norm.

    Scaling by the largest entry, n products, n sums, a root, a quotient and two products err by at most (n + 8)·2⁻⁵²;
    twice that is left.
    """
    return 1.0 - (n_coordinates + 8) * 2.0**-51


def ball_contributions(
    values: FloatArray,
    radius: float,
    *,
    weights: FloatArray | None = None,
    bits: int = CONTRIBUTION_BITS,
    out: FloatArray | None = None,
) -> FloatArray:
    """Contributions weight·v/max(‖v‖, radius) in steps of 2⁻ᵇⁱᵗˢ, of ℓ2 norm at most 2ᵇⁱᵗˢ steps.

    Parameters
    ----------
    values : ndarray of shape (n_coordinates, n_units)
        Any numbers, which are converted to float64: other types round or wrap around in squares. A unit with an entry
        that is not finite contributes nothing.
    radius : float >= 0
        Vectors within this radius keep their proportions to each other; 0 normalises all but the zero vector.
    weights : ndarray of shape (n_units,), optional
        In [0, 1].
    bits : int, default=30
    out : ndarray of float64, shape (n_coordinates, n_units), optional
        Where the result goes; may be ``values``.

    Returns
    -------
    ndarray of shape (n_coordinates, n_units), float64
        Integers, for `exact_sum`.

    See Also
    --------
    interval_contributions : Clips single numbers.
    exact_sum : Adds contributions.

    Notes
    -----
    A unit whose squares may underflow or overflow is divided by its largest entry first. The result is rounded
    towards zero after a factor of `ball_margin`, so its integer norm is at most 2ᵇⁱᵗˢ whatever the rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.privacy import ball_contributions
    >>> ball_contributions(np.array([[3.0, 0.3], [4.0, 0.4]]), 1.0, bits=4)
    array([[ 9.,  4.],
           [12.,  6.]])
    """
    values = np.asarray(values, dtype=np.float64)
    if out is not None and out.dtype != np.float64:
        raise TypeError(f"out must be an array of float64, got one of {out.dtype}.")
    n_coordinates, n_units = values.shape
    longest = math.ldexp(ball_margin(n_coordinates), bits)
    scale: FloatArray | float = longest if weights is None else weights * longest
    with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
        squares = np.zeros(n_units)
        square = np.empty(n_units)
        for row in values:
            squares += np.multiply(row, row, out=square)
        rescaled = None
        # NaN is the least and the largest of any numbers, and odd.
        if not (squares.min(initial=1.0) > _LEAST_SQUARE and squares.max(initial=1.0) < _LARGEST_SQUARE):
            odd = np.flatnonzero(~((squares > _LEAST_SQUARE) & (squares < _LARGEST_SQUARE)))
            rescaled = _ball_of_any_size(values[:, odd], radius, np.broadcast_to(scale, n_units)[odd])
        length = np.sqrt(squares, out=squares)
        np.maximum(length, radius, out=length)
        result = np.multiply(values, np.divide(scale, length, out=length), out=out)
        np.trunc(result, out=result)
    if rescaled is not None:
        result[:, odd] = rescaled
    return result


def _ball_of_any_size(values: FloatArray, radius: float, scale: FloatArray) -> FloatArray:
    """Compute the contributions of units whose squares underflow, overflow or are not numbers."""
    peak: FloatArray = np.zeros(values.shape[1])
    for row in values:
        np.maximum(peak, np.abs(row), out=peak)  # NaN stays
    usable = np.isfinite(peak) & (peak > 0.0)
    divisor = np.where(usable, peak, 1.0)
    scaled = np.where(usable, values, 0.0) / divisor
    squares = np.zeros(values.shape[1])
    for row in scaled:
        squares += row * row
    length = np.sqrt(squares)
    if radius > 0.0:
        np.maximum(length, radius / divisor, out=length)
    return np.asarray(np.trunc(scaled * np.where(usable, scale / length, 0.0)))


def interval_contributions(values: FloatArray, low: float, high: float, *, bits: int) -> FloatArray:
    """Numbers from an interval about its middle, in steps: integers of at most 2ᵇⁱᵗˢ⁻¹ in absolute value.

    Exchanging one number moves a sum by at most 2ᵇⁱᵗˢ steps. An interval far from zero loses nothing: its middle is
    subtracted first, and is public.

    Parameters
    ----------
    values : ndarray of float64
        Numbers outside the interval are clipped; NaN counts as its middle.
    low, high : float
        The interval, finite, ``low < high``.
    bits : int
        The step is ``(high - low) * 2**-bits``.

    Returns
    -------
    ndarray of float64, same shape
        Integers, for `exact_sum`.

    See Also
    --------
    ball_contributions : Clips vectors.
    exact_sum : Adds contributions.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.privacy import interval_contributions
    >>> interval_contributions(np.array([0.0, 0.75, 9.0]), 0.0, 1.0, bits=4)
    array([-8.,  4.,  8.])
    """
    half = 0.5 * high - 0.5 * low
    middle = low + half
    # In place: one new array instead of eight halves the time.
    relative = np.clip(np.asarray(values, dtype=np.float64), low, high, out=np.empty(np.shape(values)))
    with np.errstate(all="ignore"):
        relative -= middle
        relative /= half
    np.clip(relative, -1.0, 1.0, out=relative)
    relative[np.isnan(relative)] = 0.0
    relative *= math.ldexp(1.0, bits - 1)
    return np.trunc(relative, out=relative)


def upper_root(square: int) -> float:
    """Smallest float64 whose square is at least an integer: an ℓ2 sensitivity from its square, never below it.

    Parameters
    ----------
    square : int >= 0

    Returns
    -------
    float

    Examples
    --------
    >>> from skprivate.privacy import upper_root
    >>> upper_root(4), upper_root(3) ** 2 >= 3
    (2.0, True)
    """
    square = int(square)
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
