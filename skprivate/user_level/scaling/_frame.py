"""Released affine map of features and target, and bounds of rows.

Noise moves a prediction by as much as the row is long. A row clipped to `ROW_BOUND` times the typical norm suffers at
most `ROW_BOUND`² times the variance of a typical one. And a slope found on rows whose gradients are not clipped has no
meaning far beyond them.

A descent in whitened coordinates needs few steps. Where second moments are too noisy for that, means help: a
classifier's first gradients show what features have in common with the common class. Where the means are far from 0, as
in skewed columns, they hide the classes' difference until the intercept has been found.

For second moments every user contributes the mean of zzᵀ over the user's clipped rows, z = (x, 1). Its eigenvalues are
floored at what noise makes of 0, so that directions lost in noise keep their scale.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions
from skprivate.privacy import Release, ball_contributions, exact_sum
from skprivate.user_level import _plan, _ranges
from skprivate.user_level._problems import EXACT_BITS, UserData, row_blocks, vector_norms

FloatArray = npt.NDArray[np.float64]

#: Bound of rows, in typical norms. Of normal rows fewer than 5 % are longer, of those with five and more features 1 in
#: 1000.
ROW_BOUND = 2.0
#: Range of predictions in scales of the target about its centre.
TARGET_RANGE = 6.0
#: Bits of the integers of a row where rows or their squares are added up: sums stay below 2⁵³.
WHOLE_BITS = 18


def public_bound(n_features: int) -> float:
    """Return the norm bound of rows without a private norm: features should have about deviation 1."""
    return ROW_BOUND * math.sqrt(n_features)


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def bounded_columns(columns: FloatArray, bound: float, out: FloatArray | None = None) -> FloatArray:
    """Clip columns of shape (n_features, n_rows) to Euclidean norm ``bound``, each row by itself.

    ``out`` may be ``columns``, which is also the result where the bound is infinite.
    """
    if math.isinf(bound):
        return columns
    result = np.empty(columns.shape) if out is None else out
    for rows in row_blocks(columns.shape[1]):
        block = np.clip(columns[:, rows], -1e300, 1e300)  # so that norms stay finite
        np.multiply(block, bound / np.maximum(vector_norms(block), bound), out=result[:, rows])
    return result


def row_bound_factor(factor: float, level: float) -> float:
    """Return the bound in typical norms for a fit of noise level ν."""
    return max(factor, ROW_BOUND * _ranges.slow_growth(level))


def bounded_rows(
    X: FloatArray, centres: FloatArray, scales: FloatArray, bound: float, out: FloatArray | None = None
) -> FloatArray:
    """Clip rows about their centre so that, over their scales, their distance from it is at most ``bound``.

    ``out`` is for the columns of the result, and may be those of ``X``.
    """
    if math.isinf(bound):
        return X
    result = np.empty(X.shape[::-1]) if out is None else out
    for rows in row_blocks(len(X)):
        block = np.ascontiguousarray(X[rows].T)
        block = np.divide(block - centres[:, None], scales[:, None])
        bounded_columns(block, bound, out=block)
        block *= scales[:, None]
        np.add(block, centres[:, None], out=result[:, rows])
    return result.T


class Doubts(NamedTuple):
    """Columns that for a search are ``one_value``, or ``empty`` but for gaps; indicators that it has ``unseen``."""

    one_value: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()


class Frame(NamedTuple):
    """Released affine map of features and target to about centre 0 and scale 1.

    Features are clipped to ``half_ranges`` about their centres, and rows after the map to the Euclidean norm
    ``row_bound``. The target goes as far as ``target_range`` scales from its centre. Gaps are ``fills``.
    """

    centres: FloatArray
    scales: FloatArray
    target_centre: float
    target_scale: float
    target_found: bool = False
    row_bound: float = math.inf
    half_ranges: FloatArray | float = math.inf
    target_range: float = TARGET_RANGE
    fills: FloatArray | float = 0.0
    doubts: Doubts = Doubts()

    def coefficients(self, coef: FloatArray, fit_intercept: bool) -> FloatArray:
        """Convert coefficients after the map, of shape (n_outputs, n_coef), to those of the original features."""
        n_features = len(self.centres)
        result = coef * self.target_scale
        result[:, :n_features] /= self.scales
        if fit_intercept:
            result[:, -1] += self.target_centre - result[:, :n_features] @ self.centres
        return result

    def bounded_coefficients(self, coef: FloatArray, indicators: Collection[int]) -> FloatArray:
        """Bound those of unseen indicators, which are noise, to one scale of the target; after the map, as above."""
        limits = np.full(coef.shape[1], np.inf)
        unseen = [j for j in self.doubts.unseen if j in indicators]
        limits[unseen] = self.scales[unseen]
        return np.clip(coef, -limits, limits)

    @property
    def feature_range(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the clipped features."""
        return self.centres - self.half_ranges, self.centres + self.half_ranges

    def filled(self, X: FloatArray) -> FloatArray:
        """Fill gaps; returns ``X`` itself where there are none."""
        gaps = np.isnan(X)
        return np.where(gaps, self.fills, X) if gaps.any() else X

    def bounded(self, X: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Fill gaps, clip features and rows as in a fit, in their original units; ``out`` as in `bounded_rows`."""
        X = self.filled(X)
        if np.isfinite(self.half_ranges).any():
            X = np.clip(X, *self.feature_range)
        with np.errstate(all="ignore"):
            return bounded_rows(X, self.centres, self.scales, self.row_bound, out)


def identity(n_features: int) -> Frame:
    """Make the map that changes nothing."""
    return Frame(np.zeros(n_features), np.ones(n_features), 0.0, 1.0)


def row_means(
    rows: Partitions,
    n_features: int,
    *,
    row_norm: float,
    multiplier: float,
    n_users: float,
    terms: _plan.Terms,
    release: Release,
) -> FloatArray:
    """Release the means of features, shrunk by their noise.

    A user contributes x̄/max(‖x̄‖, r) with x̄ the mean of the user's rows and r the typical norm of a row: a vector of
    norm at most 1, so that the sum has the sensitivity of any vote.
    """
    total = rows.sum(partial(_sum_of_means, n_features=n_features, radius=row_norm))
    unit = row_norm / n_users
    means = np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64) * unit
    noise = (terms.sum_sensitivity * multiplier * unit) ** 2
    return _shrunk(means, noise, n_features)


def norm_without(row_norm: float, means: FloatArray) -> float:
    """Return the typical norm of rows and their 1, less their means."""
    return math.sqrt(max(row_norm**2 - float(means @ means), 1.0))


def _shrunk(means: FloatArray, noise: float, dimensions: int) -> FloatArray:
    """Shrink a noisy vector with this variance in each of the ``dimensions`` (James and Stein).

    It is 0 where noise alone may be as long: features that were centred by public numbers are left alone.
    """
    square, expected = float(means @ means), dimensions * noise
    if square <= expected + _plan.CLEAR_DEVIATIONS * noise * math.sqrt(2.0 * dimensions):
        return np.zeros_like(means)
    return means * (1.0 - expected / square)


def _sum_of_means(data: UserData, n_features: int, radius: float) -> npt.NDArray[Any]:
    """Sum the users' contributions exactly."""
    groups = data.groups
    columns = groups.columns(data.X)
    total: npt.NDArray[Any] = np.zeros(n_features, dtype=np.int64)
    for users, own in groups.blocks():
        means = groups.block_means(columns[:, own], users)
        total = total + exact_sum(ball_contributions(means, radius, weights=groups.weights[users]))
    return total


def shifted(data: UserData, centres: FloatArray) -> UserData:
    """Subtract centres from rows."""
    store = data.writable(data.X.shape[1])
    columns = store[: data.X.shape[1]]
    np.subtract(data.groups.columns(data.X), centres[:, None], out=columns)
    return replace(data, X=columns.T, store=store)


def relative_noise(terms: _plan.Terms, multiplier: float, d: int, n_users: float) -> float:
    """Return the spectral norm of the noise on the second moments, in units of their average eigenvalue.

    Entries have noise Δ z C/n with C = ‖z‖² ≈ d·λ for the average eigenvalue λ; a symmetric matrix of such entries has
    norm √(2d) times that.
    """
    return terms.acute_sensitivity * multiplier * d * math.sqrt(2.0 * d) / n_users


def whitening(
    rows: Partitions, d: int, *, constant: bool, multiplier: float, n_users: float, terms: _plan.Terms, release: Release
) -> tuple[FloatArray, float]:
    """Release the second moments of z, of size d; returns W, such that Wᵀz has about unit ones, and its typical norm.

    A user's matrix has norm 1 at most, and those of two users are at no obtuse angle. Both halves are released, so that
    the mean of the two has less noise.
    """
    clip = d * max(1.0, math.sqrt(0.1 / relative_noise(terms, multiplier, d, n_users)))
    total = rows.sum(partial(sum_of_squares, constant=constant, radius=math.sqrt(clip)))
    step = 2.0 ** (-2 * WHOLE_BITS)
    noisy = release.gaussian(
        total.ravel(), sensitivity=terms.acute_sensitivity / step, noise_multiplier=multiplier, step=step
    )
    second = np.asarray(noisy, dtype=np.float64).reshape(d, d) * (clip / n_users)
    noise = terms.acute_sensitivity * multiplier * clip / n_users * math.sqrt(2.0 * d)
    values, vectors = np.linalg.eigh(0.5 * (second + second.T))
    values = np.maximum(values, 0.0)
    least = max(noise, 1e-9 * float(values.mean()), 1e-300)
    matrix = vectors * (1.0 / np.sqrt(values + least))
    return matrix, math.sqrt(max(float((values / (values + least)).sum()), 1.0))


def sum_of_squares(data: UserData, constant: bool, radius: float) -> npt.NDArray[Any]:
    """Sum over users the mean zzᵀ of their rows, clipped to a radius, in steps of 2⁻³⁶.

    A user's m rows are integers of norm 2¹⁸/√m at most, so their matrices add up to norm 2³⁶ at most.
    """
    groups, n_columns = data.groups, data.X.shape[1]
    columns = groups.columns(data.X)
    weights = np.repeat(np.sqrt(groups.weights / groups.sizes), groups.sizes)

    def products() -> Iterator[npt.NDArray[Any]]:
        yield np.zeros((n_columns + constant,) * 2 + (1,), dtype=np.int64)
        for rows in row_blocks(groups.n_rows):
            z = np.ones((n_columns + constant, rows.stop - rows.start))
            z[:n_columns] = columns[:, rows]
            whole = ball_contributions(z, radius, weights=weights[rows], bits=WHOLE_BITS, out=z)
            yield (whole @ whole.T).astype(np.int64)[..., None]

    return exact_sum(products())


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def whiten(data: UserData, matrix: FloatArray, constant: bool) -> UserData:
    """Map rows, in order, to the coordinates Wᵀz.

    Rows and W are rounded to integers whose products and sums float64 holds exactly, so that what a row becomes depends
    on that row alone.
    """
    n_columns = data.X.shape[1]
    columns = data.groups.columns(data.X)
    store = data.writable(matrix.shape[1])
    bits = (EXACT_BITS - (len(matrix) - 1).bit_length()) // 2
    unit = math.ldexp(1.0, math.frexp(float(np.abs(matrix).max()))[1] - bits)
    weights = np.rint(matrix.T / unit)
    for rows in row_blocks(len(data)):
        z = np.ones((len(matrix), rows.stop - rows.start))
        z[:n_columns] = columns[:, rows]
        peaks = np.abs(z).max(axis=0)
        units = np.ldexp(1.0, np.maximum(np.frexp(peaks)[1], -999) - bits)
        units[~np.isfinite(peaks)] = np.nan  # infinities have no exponent: sums would depend on their order
        np.rint(np.divide(z, units, out=z), out=z)
        np.multiply(weights @ z, units * unit, out=store[: len(weights), rows])
    return replace(data, X=store[: len(weights)].T, store=store)
