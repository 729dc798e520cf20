"""Semilinear losses ℓ(y, ŷ) = b(ŷ) − T(y)·ŷ + c(y): what a fit needs is b and its derivatives.

The label enters the training objective through Σ T(y)·ŷ alone, which label sums per bag determine.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LossName = Literal["squared", "log", "multinomial", "poisson"]
#: Beyond this the exponential of a Poisson score would overflow during a line search.
_LARGEST_LOG_MEAN = 300.0


def partition(loss: LossName, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Evaluate b(ŷ) per row (n_rows,) and its gradient (n_outputs, n_rows), the mean of T(y) at ŷ."""
    if loss == "squared":
        return 0.5 * np.einsum("kn,kn->n", scores, scores), scores
    if loss == "log":
        score = scores[0]
        tail = np.exp(-np.abs(score))
        value = np.maximum(score, 0.0) + np.log(1.0 + tail)
        mean = np.where(score >= 0, 1.0, tail)
        mean /= 1.0 + tail
        return value, mean[np.newaxis]
    if loss == "multinomial":
        top = scores.max(axis=0)
        weight = np.exp(scores - top)
        total = weight.sum(axis=0)
        return top + np.log(total), weight / total
    mean = np.exp(np.minimum(scores, _LARGEST_LOG_MEAN))
    return mean[0], mean


def variance(loss: LossName, mean: FloatArray) -> FloatArray:
    """Evaluate the diagonal of the second derivative of b, from the mean; same shape."""
    if loss == "squared":
        return np.ones_like(mean)
    if loss == "poisson":
        return mean
    return mean * (1.0 - mean)


def link(loss: LossName, mean: FloatArray) -> FloatArray:
    """Score a constant model whose mean of T(y) is given; shape (n_outputs,)."""
    if loss == "squared":
        return np.asarray(mean, dtype=np.float64)
    if loss == "log":
        clipped = np.clip(mean, 1e-6, 1 - 1e-6)
        return np.log(clipped / (1 - clipped))
    logs = np.log(np.maximum(mean, 1e-6))
    return logs - logs.mean() if loss == "multinomial" else logs
