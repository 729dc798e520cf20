"""Rows as integers of one unit, once for a whole fit, and the sums of them that preconditioned steps need.

Each row is a function of itself, of released numbers and of public ones. It has integer entries below 2¹⁸, so that the
matrix products of a block are sums of integers below 2⁵³: exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy import CONTRIBUTION_BITS, exact_sum
from skprivate.user_level._problems import EXACT_BITS, UserData
from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]

#: Bits of the entries of a row, of the factor of a clipped one of typical norm, and of the largest factor.
SCALED_BITS, FACTOR_BITS, MOST_FACTOR_BITS = 18, 16, 21
#: Most rows of a block in a product, and numbers of a block that fit into the cache.
PRODUCT_ROWS, BLOCK_NUMBERS = 2**13, 2**17
#: Largest norm of a row, in roots of its length: without noise there is no other bound.
MOST_NORM = 64.0
#: Norms and quotients err by less than this.
MARGIN = 2.0**-40


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows ``whole`` in units of ``unit``, with a last 1 if there is an intercept, and bounds of their norms.

    ``shares`` are the parts of long rows that count in second moments; ``weights`` of a user's m rows are at most 1/√m.
    """

    whole: npt.NDArray[np.float32]
    y: FloatArray
    norms: FloatArray
    shares: FloatArray
    weights: FloatArray
    unit: float
    limits: FloatArray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.y)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of rows, and their integers."""
        for rows in self.slices():
            yield rows, self.whole[rows].astype(np.float64)

    def slices(self) -> Iterator[slice]:
        """Yield slices of rows whose integers fit into the cache."""
        yield slice(0)  # of nobody, too
        count = min(PRODUCT_ROWS, max(1, BLOCK_NUMBERS // self.whole.shape[1]))
        for first in range(0, len(self), count):
            yield slice(first, min(first + count, len(self)))

    def scores(self, coef: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield slices of rows, their integers, and their exact scores."""
        bits = EXACT_BITS - 1 - SCALED_BITS - len(coef).bit_length()
        step = math.ldexp(1.0, math.frexp(float(np.abs(coef).max(initial=0.0)))[1] - bits)
        whole = np.rint(coef / step)
        for rows, block in self.blocks():
            yield rows, block, (block @ whole) * (step * self.unit)


def row_unit(frame: Frame) -> float:
    """Return the unit of integer rows: a power of two from released numbers."""
    return math.ldexp(1.0, math.frexp(_bound(frame))[1] - SCALED_BITS)


def _bound(frame: Frame) -> float:
    return min(frame.row_bound, MOST_NORM * math.sqrt(len(frame.scales)))


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def scale_rows(data: UserData, frame: Frame, radius: float, constant: bool, target: bool) -> ScaledRows:
    """Fill, centre, scale, clip and round rows as predictions do; those beyond ``radius`` count in part in moments."""
    n, d = data.X.shape
    unit, bound = row_unit(frame), _bound(frame)
    one, limit, most = 1.0 / unit, math.floor(bound / unit), math.floor(radius / unit)
    whole = np.empty((n, d + constant), dtype=np.float32)
    norms, shares = np.empty(n), np.ones(n)
    short = min(float(limit) ** 2, float(most) ** 2 - constant * one**2)
    ends = np.minimum(np.broadcast_to(frame.half_ranges / frame.scales, d) * one, float(limit))
    fills = np.rint(np.clip((frame.fills - frame.centres) * (one / frame.scales), -ends, ends))
    count = max(1, BLOCK_NUMBERS // d)
    # Constants of a column, repeated: an operation on a flat block has no inner loops of d numbers.
    centres, factors, highest = (np.tile(each, (count, 1)) for each in (frame.centres, one / frame.scales, ends))
    lowest, block = -highest, np.empty((count, d))
    for first in range(0, n, count):
        m = min(count, n - first)
        rows, b = slice(first, first + m), block[:m]
        np.subtract(data.X[rows], centres[:m], out=b)
        b *= factors[:m]
        np.maximum(np.minimum(b, highest[:m], out=b), lowest[:m], out=b)
        np.rint(b, out=b)
        squares = np.einsum("ij,ij->i", b, b)  # of integers below 2⁵³
        if len(gaps := np.flatnonzero(np.isnan(squares))):
            z = np.where(np.isnan(b[gaps]), fills, b[gaps])
            b[gaps], squares[gaps] = z, np.einsum("ij,ij->i", z, z)
        far = np.flatnonzero(~(squares <= short))
        if len(far):
            length = np.sqrt(squares[far])
            z = np.trunc(b[far] * np.minimum(1.0, limit * (1.0 - MARGIN) / length)[:, None])
            z[~np.isfinite(z).all(axis=1)] = 0.0
            b[far] = z
            squares[far] = np.einsum("ij,ij->i", z, z)
            lengths = np.sqrt(squares[far] + constant * one**2)
            shares[first + far] = np.minimum(1.0, most * (1.0 - MARGIN) / lengths)
        whole[rows, :d] = b
        norms[rows] = np.sqrt(squares + constant * one**2)
    if constant:
        whole[:, d] = one
    norms *= 1.0 + MARGIN
    sizes = data.groups.sizes[data.groups.codes]
    weights = np.where(sizes > 1, (1.0 - MARGIN) / np.sqrt(sizes), 1.0)
    y = (data.y - frame.target_centre) / frame.target_scale if target else data.y.astype(np.float64)
    return ScaledRows(whole, y, norms, shares, weights, unit)


@np.errstate(all="ignore")
def moment_sum(rows: ScaledRows, most_target: float) -> npt.NDArray[Any]:
    """Sum vvᵀ of v = (z, y) over rows, in squared units; y is clipped, and long rows count in part.

    v has at most the norm (z's radius², most_target²)^½, and no two matrices are at an obtuse angle. A user's m rows
    are shorter by √m, so that their matrices add up to no more.
    """
    limit = math.floor(most_target / rows.unit)

    def products() -> Iterator[npt.NDArray[Any]]:
        for own in rows.slices():
            shares, weights, y = rows.shares[own], rows.weights[own], rows.y[own]
            far = np.flatnonzero((shares < 1.0) | (weights < 1.0))
            v = np.empty((len(y), rows.whole.shape[1] + 1))
            v[:, :-1] = rows.whole[own]
            v[:, -1] = np.fmax(np.fmin(np.rint(y * shares / rows.unit), limit), -limit)
            v[far, :-1] *= shares[far, None]
            v[far] = np.trunc(v[far] * weights[far, None])
            yield (v.T @ v)[..., None]

    return exact_sum(products(), bound=2**52)


def largest_moment(frame: Frame, radius: float, most_target: float) -> float:
    """Return the bound of the norm of a row's matrix in `moment_sum`."""
    unit = row_unit(frame)
    return float(math.floor(radius / unit)) ** 2 + float(math.floor(most_target / unit)) ** 2


def with_limits(rows: ScaledRows, matrix: FloatArray, steps: float) -> ScaledRows:
    """Find the largest multiples k of rows with |k|·‖Wᵀz‖ ≤ ``steps``, for a matrix W of integers, or a diagonal below
    2⁷.
    """
    limits = rows.norms.copy()
    for own, z in rows.blocks() if (matrix != 1.0).any() else ():
        if matrix.ndim == 1:
            squares = np.square(z, out=z) @ np.square(matrix)  # at most 2⁵²: exact
        else:
            squares = np.zeros(len(z))
            for each in (z @ matrix).T:  # exact products
                squares += each * each
        limits[own] = np.sqrt(squares)
    np.floor(np.divide(steps * (1.0 - MARGIN), limits, out=limits), out=limits)
    return replace(rows, limits=np.minimum(limits, 2.0**MOST_FACTOR_BITS, out=limits))


@np.errstate(all="ignore")
def gradient_sum(rows: ScaledRows, coef: FloatArray, loss: Any, steps: float) -> npt.NDArray[Any]:
    """Sum gradients: integer multiples of rows, slopes times ``steps``, within the limits of `with_limits`."""
    assert rows.limits is not None
    limits = rows.limits

    def sums() -> Iterator[npt.NDArray[Any]]:
        for own, z, scores in rows.scores(coef):
            factors = loss.derivative(scores[None], rows.y[None, own])[0]
            factors *= steps
            np.rint(factors, out=factors)
            # What is not a number is within the limits, too.
            np.fmin(np.fmax(factors, -limits[own], out=factors), limits[own], out=factors)
            yield (factors @ z)[:, None]

    return exact_sum(sums(), bound=2**52)


@np.errstate(all="ignore")
def slope_sum(rows: ScaledRows, coef: FloatArray, loss: Any, most: float) -> npt.NDArray[Any]:
    """Sum derivatives of the loss, clipped to ±``most``, in steps of 2⁻³⁰ of it."""

    def sums() -> Iterator[npt.NDArray[Any]]:
        for own, _, scores in rows.scores(coef):
            slopes = loss.derivative(scores[None], rows.y[None, own]) / most
            yield np.trunc(np.fmax(np.fmin(slopes, 1.0), -1.0) * 2.0**CONTRIBUTION_BITS)

    return exact_sum(sums(), bound=2**CONTRIBUTION_BITS)
