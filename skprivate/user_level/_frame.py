"""The released map under which features and target have about centre 0 and scale 1, and where both are meant to lie."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate.user_level._row_bound import bounded_rows

FloatArray = npt.NDArray[np.float64]

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
