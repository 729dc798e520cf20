"""Linear functions of rows, the same whatever other rows lie in the block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def linear_rows(X: FloatArray, coef: FloatArray, intercept: FloatArray | float = 0.0) -> FloatArray:
    """X times coefficients, each row by one fixed sequence of operations.

    A BLAS product may round the same row differently at different positions of a block, so that predictions would
    depend on how rows are cut into blocks.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    coef : ndarray of shape (n_features,) or (n_outputs, n_features)
    intercept : float or ndarray of shape (n_outputs,)

    Returns
    -------
    ndarray of shape (n_rows,) or (n_rows, n_outputs)
    """
    outputs = np.zeros((1, len(X))) if coef.ndim == 1 else np.zeros((len(coef), len(X)))
    for column, weights in zip(np.ascontiguousarray(X.T), np.atleast_2d(coef).T, strict=True):
        for output, weight in zip(outputs, weights, strict=True):
            output += column * weight
    outputs += np.reshape(intercept, (-1, 1))
    return outputs[0] if coef.ndim == 1 else np.ascontiguousarray(outputs.T)
