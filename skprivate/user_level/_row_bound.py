"""Rows that are far longer than others: none has more than the say of a row of the size that is typical or assumed.

Noise moves a prediction by as much as the row is long. A row that is drawn into the ball of `REACH` times the typical
norm suffers at most `REACH`² times the variance of a typical one, whatever unit it came in. And a slope found on rows
whose gradients are not clipped has no meaning far beyond them.
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
#: The same over the inverse root of the noise level, where that is larger: it grows as clipping radii do.
REACH_GROWTH = 0.04
#: Entries beyond are set to this: their norms stay finite.
_LARGEST = 1e300


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
    columns = np.clip(columns, -_LARGEST, _LARGEST)
    norms = vector_norms(columns)
    factors = bound / np.maximum(norms, bound)
    result = np.empty(columns.shape)
    for column, out in zip(columns, result, strict=True):
        np.multiply(column, factors, out=out)
    return result


def reach_of_rows(reach: float, level: float) -> float:
    """Bound in typical norms, where a typical norm was found, for a fit of noise level ν."""
    return max(reach, REACH * REACH_GROWTH / math.sqrt(level))


def bounded_rows(X: FloatArray, centres: FloatArray, scales: FloatArray, bound: float) -> FloatArray:
    """Rows drawn to their centre such that, over their scales, their distance from it is at most ``bound``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    centres, scales : ndarray of shape (n_features,)
    bound : float > 0
    """
    if math.isinf(bound):
        return X
    mapped = np.ascontiguousarray(((X - centres) / scales).T)
    return bounded_columns(mapped, bound).T * scales + centres
