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
from skprivate.user_level._users import row_blocks

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
