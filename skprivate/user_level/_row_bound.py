"""Rows of features in unknown units: none has more than the say of a row of the size that is assumed.

Noise moves a prediction by as much as the row is long. A row that is drawn into the ball of `REACH` times the assumed
norm suffers at most `REACH`² times the variance of a typical one, whatever unit it came in.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from skprivate.user_level._problems import vector_norms

FloatArray = npt.NDArray[np.float64]

#: Rows up to so many times the assumed norm are left alone. Of normal rows fewer than 5 % are longer, of those with
#: five and more features 1 in 1000.
REACH = 2.0


def public_bound(n_features: int) -> float:
    """Bound of rows about whose norm nothing was found out: features are meant to have about deviation 1."""
    return REACH * math.sqrt(n_features)


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def bounded_columns(columns: FloatArray, bound: float) -> FloatArray:
    """Rows that are longer than ``bound`` drawn to that Euclidean norm, each from that row alone.

    Parameters
    ----------
    columns : ndarray of shape (n_features, n_rows)
    bound : float > 0

    Returns
    -------
    ndarray of shape (n_features, n_rows)
        ``columns`` itself where the bound is infinite.
    """
    if math.isinf(bound):
        return columns
    norms = vector_norms(columns)
    factors = bound / np.maximum(norms, bound)
    result = np.empty(columns.shape)
    for column, out in zip(columns, result, strict=True):
        np.multiply(column, factors, out=out)
    return result


def bounded_rows(X: FloatArray, bound: float) -> FloatArray:
    """`bounded_columns` of a table of shape (n_rows, n_features)."""
    return X if math.isinf(bound) else bounded_columns(np.ascontiguousarray(X.T), bound).T
