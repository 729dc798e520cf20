"""Rows as integers of one unit, once for a whole fit, and the sums of them that preconditioned steps need.

Each row is a function of itself, of released numbers and of public ones. It has integer entries below 2¹⁸, so that the
matrix products of a block are sums of integers below 2⁵³: exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from skprivate.privacy import CONTRIBUTION_BITS, ball_contributions, exact_sum
from skprivate.user_level import _ranges
from skprivate.user_level._losses import MultinomialLoss
from skprivate.user_level._problems import EXACT_BITS, UserData, UserGroups, slope_norms, vector_norms
from skprivate.user_level.scaling._frame import WHOLE_BITS, Frame

FloatArray = npt.NDArray[np.float64]

#: Bits of the factor of a clipped row of typical norm, and of the largest factor.
FACTOR_BITS, MOST_FACTOR_BITS = 16, 21
#: Most rows of a block in a product, and numbers of a block that fit into the cache.
PRODUCT_ROWS, BLOCK_NUMBERS = 2**13, 2**17
#: Largest norm of a row, in roots of its length: without noise there is no other bound.
MOST_NORM = 64.0
#: Norms and quotients err by less than this.
MARGIN = 2.0**-40


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows ``whole`` in units of ``unit``, with a last 1 if there is an intercept, and bounds of their norms.

    They are sorted by the users of ``groups``. ``shares`` are the parts of long rows that count in second moments;
    ``weights`` of a user's m rows are at most 1/√m.
    """

    whole: npt.NDArray[np.float32]
    y: FloatArray
    norms: FloatArray
    shares: FloatArray
    weights: FloatArray
    unit: float
    groups: UserGroups
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
        """Yield slices of rows, their integers, and their exact scores: for each row of ``coef``, if it has any."""
        whole, unit = self.whole_coef(coef)
        for rows, block in self.blocks():
            yield rows, block, (whole @ block.T) * unit

    def whole_coef(self, coef: FloatArray) -> tuple[FloatArray, float]:
        """Round coefficients to integers whose products with rows are exact; returns the unit of these, too."""
        bits = EXACT_BITS - 1 - WHOLE_BITS - coef.shape[-1].bit_length()
        step = math.ldexp(1.0, math.frexp(float(np.abs(coef).max(initial=0.0)))[1] - bits)
        return np.rint(coef / step), step * self.unit


@dataclass(frozen=True, kw_only=True)
class UserMeans:
    """Mean gradients of users in the coordinates Wᵀz, W = ``matrix`` of integers or a diagonal.

    Slopes are integers, 2²¹ for ``most``, and so are means, so that products with W are exact. Sums over a user's rows
    are, too; those of very many are in the user's own order.
    """

    coef: FloatArray
    loss: Any
    most: float
    matrix: FloatArray

    @property
    def _shift(self) -> int:
        """Bits that means have less than products of slopes and rows."""
        return len(self.coef).bit_length()

    def unit(self, rows: ScaledRows) -> float:
        """Return the unit of the integers."""
        return math.ldexp(rows.unit * self.most, self._shift - MOST_FACTOR_BITS)

    def means(self, rows: ScaledRows) -> Iterator[tuple[slice, FloatArray]]:
        """Yield users and the means of their gradients, coordinates first."""
        groups, count = rows.groups, min(PRODUCT_ROWS, max(1, BLOCK_NUMBERS // len(self.coef)))
        whole, unit = rows.whole_coef(self.coef)
        most, numbers = 2.0**MOST_FACTOR_BITS, np.arange(count, dtype=np.int32)
        for users, own in groups.blocks(count):
            starts, sums = groups.starts[users.start : users.stop + 1], np.zeros((users.stop - users.start, len(whole)))
            for first in range(own.start, own.stop, count):  # more than once for one user alone
                part = slice(first, min(first + count, own.stop))
                z = rows.whole[part].astype(np.float64)
                slopes = self.loss.derivative((z @ whole)[None] * unit, rows.y[None, part])[0] * (most / self.most)
                slopes = np.rint(np.fmax(np.fmin(slopes, most), -most))
                ends = np.clip(starts - first, 0, len(z)).astype(np.int32)
                sums += csr_array((slopes, numbers[: len(z)], ends), shape=(len(sums), len(z))) @ z
            means = np.multiply(sums.T, 2.0**-self._shift / groups.sizes[users], order="C")
            yield users, np.rint(means, out=means)

    def vectors(self, rows: ScaledRows) -> Iterator[tuple[slice, FloatArray]]:
        """Yield users and their vectors."""
        for users, means in self.means(rows):
            yield users, self.matrix[:, None] * means if self.matrix.ndim == 1 else self.matrix.T @ means

    @np.errstate(all="ignore")
    def contribution_sum(self, rows: ScaledRows, radius: float) -> npt.NDArray[Any]:
        """Sum users' vectors over max(norm, ``radius``), in steps of 2⁻³⁰."""
        blocks = (ball_contributions(v, radius / self.unit(rows), out=v) for _, v in self.vectors(rows))
        return exact_sum(chain([np.zeros((len(self.coef), 0))], blocks), bound=2**CONTRIBUTION_BITS)

    @np.errstate(all="ignore")
    def norm_counts(self, rows: ScaledRows) -> npt.NDArray[np.int64]:
        """Count users by the norm of their vector."""
        norms = np.empty(rows.groups.n_users)
        for users, vectors in self.vectors(rows):
            norms[users] = vector_norms(vectors) * self.unit(rows)
        return _ranges.scale_counts(norms)

    @np.errstate(all="ignore")
    def slope_sum(self, rows: ScaledRows) -> npt.NDArray[Any]:
        """Sum users' mean slopes over ``most``, in steps of 2⁻³⁰: the mean gradients of the last 1."""
        most, step = 2.0**CONTRIBUTION_BITS, math.ldexp(rows.unit, CONTRIBUTION_BITS - MOST_FACTOR_BITS + self._shift)
        blocks = (np.trunc(np.clip(means[-1:] * step, -most, most)) for _, means in self.means(rows))
        return exact_sum(chain([np.zeros((1, 0))], blocks), bound=2**CONTRIBUTION_BITS)


def row_unit(frame: Frame) -> float:
    """Return the unit of integer rows: a power of two from released numbers."""
    return math.ldexp(1.0, math.frexp(_bound(frame))[1] - WHOLE_BITS)


def _bound(frame: Frame) -> float:
    return min(frame.row_bound, MOST_NORM * math.sqrt(len(frame.scales)))


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def scale_rows(data: UserData, frame: Frame, radius: float, constant: bool, target: bool) -> ScaledRows:
    """Fill, centre, scale, clip and round rows as predictions do, sorted by user.

    Those beyond ``radius`` count in part in moments.
    """
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
        np.subtract(data.groups.sorted_rows(data.X, rows), centres[:m], out=b)
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
    groups = data.groups.sorted()
    weights = np.broadcast_to(1.0, n)
    if not groups.alone:
        weights = np.repeat(np.where(groups.sizes > 1, (1.0 - MARGIN) / np.sqrt(groups.sizes), 1.0), groups.sizes)
    y = data.groups.sorted_rows(data.y, slice(n))
    y = (y.astype(np.float64, copy=False) - frame.target_centre) / frame.target_scale if target else y
    return ScaledRows(whole=whole, y=y, norms=norms, shares=shares, weights=weights, unit=unit, groups=groups)


@np.errstate(all="ignore")
def moment_sum(rows: ScaledRows, most_target: float) -> npt.NDArray[Any]:
    """Sum vvᵀ of v = (z, y) over rows, in squared units; y is clipped, and long rows count in part.

    v has at most the norm (z's radius², most_target²)^½, since one class of several has a 1, and no two matrices are at
    an obtuse angle. A user's m rows are shorter by √m, so that their matrices add up to no more.
    """
    limit = math.floor(most_target / rows.unit)

    def products() -> Iterator[npt.NDArray[Any]]:
        for own in rows.slices():
            shares, weights, y = rows.shares[own], rows.weights[own], rows.y[own]
            d, n_targets = rows.whole.shape[1], 1 if y.ndim == 1 else y.shape[1]
            v = np.empty((len(y), d + n_targets))
            v[:, :d] = rows.whole[own]
            v[:, d:].T[:] = np.fmax(np.fmin(np.rint(y.T * shares / rows.unit), limit), -limit)
            far: Any = np.flatnonzero((shares < 1.0) | (weights < 1.0))
            if 2 * len(far) > len(v):
                far = slice(None)  # the others are as they were, by products with 1
            v[far, :d] *= shares[far, None]
            v[far] = np.trunc(v[far] * weights[far, None])
            yield (v.T @ v)[..., None]

    return exact_sum(products(), bound=2**52)


def largest_moment(frame: Frame, radius: float, most_target: float) -> float:
    """Return the bound of the norm of a row's matrix in `moment_sum`."""
    unit = row_unit(frame)
    return float(math.floor(radius / unit)) ** 2 + float(math.floor(most_target / unit)) ** 2


@np.errstate(all="ignore")
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


def _class_slopes(rows: ScaledRows, coef: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield slices of rows, their integers, and their slopes in the scores of several classes."""
    loss = MultinomialLoss()
    for own, z, scores in rows.scores(coef):
        slopes = loss.derivative(scores, np.ascontiguousarray(rows.y[own].T))
        slopes[~np.isfinite(slopes)] = 0.0
        yield own, z, slopes


@np.errstate(all="ignore")
def class_gradient_sum(rows: ScaledRows, coef: FloatArray, steps: float) -> npt.NDArray[Any]:
    """Sum kzᵀ as `gradient_sum` does; k has an integer for each class, and its norm is within `with_limits`."""
    assert rows.limits is not None
    limits, rounding = rows.limits, 0.5 * math.sqrt(len(coef))  # what it lengthens k by

    def sums() -> Iterator[npt.NDArray[Any]]:
        for own, z, slopes in _class_slopes(rows, coef):
            slopes *= np.fmin(steps, np.maximum(limits[own] - rounding, 0.0) / slope_norms(slopes))
            yield (np.rint(slopes, out=slopes) @ z)[..., None]

    return exact_sum(sums(), bound=2**52)


@np.errstate(all="ignore")
def class_slope_sum(rows: ScaledRows, coef: FloatArray) -> npt.NDArray[Any]:
    """Sum slopes in the scores of all classes over √2, which have norm 1 at most, in steps of 2⁻³⁰."""
    scale = math.sqrt(0.5) * (1.0 - MARGIN) * 2.0**CONTRIBUTION_BITS

    def sums() -> Iterator[npt.NDArray[Any]]:
        for _, _, slopes in _class_slopes(rows, coef):
            yield np.trunc(slopes * scale)

    return exact_sum(sums(), bound=2**CONTRIBUTION_BITS)
