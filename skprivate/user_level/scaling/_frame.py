"""The released affine map of features and target, the bound of rows, and the means of rows.

Noise moves a prediction by as much as the row is long. A row that is drawn into the ball of `REACH` times the typical
norm suffers at most `REACH`² times the variance of a typical one, whatever unit it came in. And a slope found on rows
whose gradients are not clipped has no meaning far beyond them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate.user_level._problems import row_blocks, vector_norms

FloatArray = npt.NDArray[np.float64]

#: Rows up to so many times the assumed norm are left alone. Of normal rows fewer than 5 % are longer, of those with
#: five and more features 1 in 1000.
REACH = 2.0
#: The same over the inverse root of the noise level, where that is larger: it grows as clipping radii do.
REACH_GROWTH = 0.04
#: Entries beyond are set to this: their norms stay finite.
_LARGEST = 1e300


def public_bound(n_features: int) -> float:
    """Bound of rows about whose norm nothing was found out: features are meant to have about deviation 1."""
    return REACH * math.sqrt(n_features)


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def bounded_columns(columns: FloatArray, bound: float, out: FloatArray | None = None) -> FloatArray:
    """Rows that are longer than ``bound`` drawn to that Euclidean norm, each from that row alone.

    Parameters
    ----------
    columns : ndarray of shape (n_features, n_rows)
    bound : float > 0
    out : ndarray of shape (n_features, n_rows), optional
        Where the result goes; may be ``columns``.

    Returns
    -------
    ndarray of shape (n_features, n_rows)
        ``columns`` itself where the bound is infinite.
    """
    if math.isinf(bound):
        return columns
    result = np.empty(columns.shape) if out is None else out
    for rows in row_blocks(columns.shape[1]):
        block = np.clip(columns[:, rows], -_LARGEST, _LARGEST)
        np.multiply(block, bound / np.maximum(vector_norms(block), bound), out=result[:, rows])
    return result


def reach_of_rows(reach: float, level: float) -> float:
    """Bound in typical norms, where a typical norm was found, for a fit of noise level ν."""
    return max(reach, REACH * REACH_GROWTH / math.sqrt(level))


def bounded_rows(
    X: FloatArray, centres: FloatArray, scales: FloatArray, bound: float, out: FloatArray | None = None
) -> FloatArray:
    """Rows drawn to their centre such that, over their scales, their distance from it is at most ``bound``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    centres, scales : ndarray of shape (n_features,)
    bound : float > 0
    out : ndarray of shape (n_features, n_rows), optional
        Where the columns of the result go; may be those of ``X``.
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


#: Predictions are kept within so many scales of the target about its centre, and within more below this noise level.
TARGET_REACH, RANGE_LEVEL = 6.0, 1e-5


class Frame(NamedTuple):
    """Released affine map of features and target to about centre 0 and scale 1.

    Attributes
    ----------
    centres, scales : ndarray of shape (n_features,)
    target_centre, target_scale : float
    row_norm : float
        Typical Euclidean norm of a row after the map, with the constant 1 of an intercept.
    target_found : bool
        Whether the centre and the scale of the target were found.
    row_bound : float
        Rows that are longer after the map are drawn to this Euclidean norm.
    reaches : ndarray of shape (n_features,) or inf
        Features are clipped to so much about their centres.
    target_reach : float
        Predictions are kept within so many scales of the target about its centre.
    """

    centres: FloatArray
    scales: FloatArray
    target_centre: float
    target_scale: float
    row_norm: float
    target_found: bool = False
    row_bound: float = math.inf
    reaches: FloatArray | float = math.inf
    target_reach: float = TARGET_REACH

    def coefficients(self, coef: FloatArray, fit_intercept: bool) -> FloatArray:
        """Coefficients of the features as they came, from those after the map: shape (n_outputs, n_coef)."""
        n_features = len(self.centres)
        result = coef * self.target_scale
        result[:, :n_features] /= self.scales
        if fit_intercept:
            result[:, -1] += self.target_centre - result[:, :n_features] @ self.centres
        return result

    @property
    def feature_range(self) -> tuple[FloatArray, FloatArray]:
        """Where features are meant to lie: lower and upper ends."""
        return self.centres - self.reaches, self.centres + self.reaches

    def bounded(self, X: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Rows as a fit looks at them: clipped and drawn in, in the units in which they came.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        out : ndarray of shape (n_features, n_rows), optional
            Where the columns of the result may go; may be those of ``X``.
        """
        if np.isfinite(self.reaches).any():
            X = np.clip(X, *self.feature_range)
        with np.errstate(all="ignore"):
            return bounded_rows(X, self.centres, self.scales, self.row_bound, out)

    def target_range(self, level: float) -> tuple[float, float]:
        """Where predictions are meant to lie, for a fit of this noise level; everywhere if no scale was found."""
        if not self.target_found:
            return -math.inf, math.inf
        reach = self.target_reach * max(1.0, RANGE_LEVEL / level) * self.target_scale
        return self.target_centre - reach, self.target_centre + reach


def identity(n_features: int) -> Frame:
    """The map that changes nothing."""
    return Frame(np.zeros(n_features), np.ones(n_features), 0.0, 1.0, math.sqrt(n_features))
