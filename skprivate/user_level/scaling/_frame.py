"""Released affine map of features and target, and bounds of rows.

Noise moves a prediction by as much as the row is long. A row clipped to `ROW_BOUND` times the typical norm suffers at
most `ROW_BOUND`² times the variance of a typical one. And a slope found on rows whose gradients are not clipped has no
meaning far beyond them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate.user_level._problems import row_blocks, vector_norms

FloatArray = npt.NDArray[np.float64]

#: Bound of rows, in typical norms. Of normal rows fewer than 5 % are longer, of those with five and more features 1 in
#: 1000.
ROW_BOUND = 2.0
#: The same times the root of the noise level, where that is larger: it grows as clipping radii do.
ROW_BOUND_GROWTH = 0.04
#: Largest entry, so that norms stay finite.
_LARGEST = 1e300


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
        block = np.clip(columns[:, rows], -_LARGEST, _LARGEST)
        np.multiply(block, bound / np.maximum(vector_norms(block), bound), out=result[:, rows])
    return result


def row_bound_factor(factor: float, level: float) -> float:
    """Return the bound in typical norms for a fit of noise level ν."""
    return max(factor, ROW_BOUND * ROW_BOUND_GROWTH / math.sqrt(level))


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


#: Range of predictions in scales of the target about its centre, and noise level below which it grows.
PREDICTION_RANGE, RANGE_LEVEL = 6.0, 1e-5


class Frame(NamedTuple):
    """Released affine map of features and target to about centre 0 and scale 1.

    Features are clipped to ``half_ranges`` about their centres, rows after the map to the Euclidean norm ``row_bound``,
    and predictions to ``prediction_range`` scales about the target's centre. ``row_norm`` is a typical norm after the
    map, with the constant 1 of an intercept.
    """

    centres: FloatArray
    scales: FloatArray
    target_centre: float
    target_scale: float
    row_norm: float
    target_found: bool = False
    row_bound: float = math.inf
    half_ranges: FloatArray | float = math.inf
    prediction_range: float = PREDICTION_RANGE

    def coefficients(self, coef: FloatArray, fit_intercept: bool) -> FloatArray:
        """Convert coefficients after the map, of shape (n_outputs, n_coef), to those of the original features."""
        n_features = len(self.centres)
        result = coef * self.target_scale
        result[:, :n_features] /= self.scales
        if fit_intercept:
            result[:, -1] += self.target_centre - result[:, :n_features] @ self.centres
        return result

    @property
    def feature_range(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the clipped features."""
        return self.centres - self.half_ranges, self.centres + self.half_ranges

    def bounded(self, X: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Clip features and rows as in a fit, in their original units; ``out`` as in `bounded_rows`."""
        if np.isfinite(self.half_ranges).any():
            X = np.clip(X, *self.feature_range)
        with np.errstate(all="ignore"):
            return bounded_rows(X, self.centres, self.scales, self.row_bound, out)

    def target_range(self, level: float) -> tuple[float, float]:
        """Return the range of predictions for a fit of this noise level; infinite if no scale was found."""
        if not self.target_found:
            return -math.inf, math.inf
        factor = self.prediction_range * max(1.0, RANGE_LEVEL / level) * self.target_scale
        return self.target_centre - factor, self.target_centre + factor


def identity(n_features: int) -> Frame:
    """Make the map that changes nothing."""
    return Frame(np.zeros(n_features), np.ones(n_features), 0.0, 1.0, math.sqrt(n_features))
