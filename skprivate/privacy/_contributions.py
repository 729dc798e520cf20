"""Bounded integer contributions of single units, and their exact sums.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy.noise._lattice import FloatArray, as_integers, largest

#: A contribution of norm 1 has 2³⁰ steps: squares of norms fit into int64, and 2³² units add up in int64.
CONTRIBUTION_BITS = 30
#: The step of unit contributions.
CONTRIBUTION_STEP = 2.0**-CONTRIBUTION_BITS
_SAFE = 2**62
# Between these, squares of a vector's entries neither overflow nor lose anything that counts by underflow: what is
# lost is below n·2⁻¹⁰⁷⁵, and n·2⁻¹⁷⁵ of the whole.
_LEAST_SQUARE, _LARGEST_SQUARE = 2.0**-900, 2.0**900


def exact_sum(
    contributions: NDArray[Any] | Iterable[NDArray[Any]], *, axis: int = -1, bound: int | None = None
) -> NDArray[Any]:
    """Sum integers along ``axis`` without rounding and without wrapping around.

    Parameters
    ----------
    contributions : integer ndarray, or iterable of them
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
    if first.dtype != object and second.dtype != object and largest(first) + largest(second) < _SAFE:
        return np.asarray(first + second)
    return as_small_as_possible(np.asarray(first.astype(object) + second.astype(object)))


def as_small_as_possible(values: NDArray[Any]) -> NDArray[Any]:
    """Convert Python integers to int64 if all of them fit."""
    if values.dtype == object and largest(values) < _SAFE:
        return values.astype(np.int64)
    return values


def _block_sum(block: NDArray[Any], axis: int, bound: int | None) -> NDArray[Any]:
    block = np.asarray(block)
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
            whole = [int(value) for value in block.ravel().tolist()]
            block = np.array(whole, dtype=object).reshape(block.shape)
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
        Any float64 values; a unit with an entry that is not finite contributes nothing.
    radius : float >= 0
        Vectors within this radius keep their proportions to each other; 0 normalises all but the zero vector.
    weights : ndarray of shape (n_units,), optional
        In [0, 1].
    bits : int, default=30
    out : ndarray of shape (n_coordinates, n_units), optional
        Where the result goes; may be ``values``.

    Returns
    -------
    ndarray of shape (n_coordinates, n_units), float64
        Integers, for `exact_sum`.

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
    n_coordinates, n_units = values.shape
    whole = math.ldexp(ball_margin(n_coordinates), bits)
    scale: FloatArray | float = whole if weights is None else weights * whole
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
    relative = np.clip(values, low, high, out=np.empty(np.shape(values)))
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
