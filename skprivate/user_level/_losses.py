"""Losses of linear models, and what the noise level implies for a classifier.

A loss of a linear model is ℓ(w; x, y) = φ(⟨w, x⟩, y), so its gradient is φ'(⟨w, x⟩, y)·x: one number a row and output.
All arithmetic is elementwise along rows, so that a row's derivative does not depend on other rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from skprivate._messages import unheard
from skprivate.user_level import _plan

FloatArray = npt.NDArray[np.float64]
#: Least clipping radius, in norms of a row, of "auto", and that of "robust". Users that are classified well enough are
#: below it, so that noise falls with it.
LEAST_CLIP = 0.2
#: Penalty of an intercept over that of a slope: log odds vary more than slopes do.
INTERCEPT_PART = 0.5
#: Largest clipping radius over that of the residuals at the origin, where the noise costs a quarter of `EXAGGERATION`.
#: With it the rows of rare classes, whose residuals are larger, are not clipped either.
MOST_CLIP = 2.0
#: Excess log loss of weak effects that are fitted with `LEAST_CLIP`; so much noise is worth avoiding it.
EXAGGERATION = 0.08


class LinearLoss(Protocol):
    """Loss φ(f, y) of the linear predictor f."""

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Compute φ'(f, y) for contiguous ``f`` and ``y`` of shape (n_outputs, n_rows)."""
        ...


@runtime_checkable
class CustomLoss(Protocol):
    """Method that an object passed as ``loss`` must implement.

    See Also
    --------
    UserLevelSGDClassifier, UserLevelSGDRegressor : Minimise it.
    """

    def gradient(self, X: FloatArray, y: FloatArray, coef: FloatArray) -> FloatArray:
        """Gradient of each row's loss.

        The privacy guarantee assumes that each row of the result depends on the same row of ``X`` and ``y`` and on
        ``coef`` alone, to the last bit. Matrix products by BLAS (``X @ coef``) round a row differently according to
        where it stands; sums over columns, ``sum(X[:, j] * coef[j] …)``, do not. Two made-up rows are tried before
        anything is spent. A row for which it fails later counts for nothing, and nothing is said of it.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_coef)
            With a last column of ones if an intercept is fitted.
        y : ndarray of shape (n_rows,)
        coef : ndarray of shape (n_coef,)

        Returns
        -------
        gradients : ndarray of shape (n_rows, n_coef)
        """
        ...


class SquaredLoss:
    """φ(f, y) = (f − y)²/2."""

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return f - y


class HuberLoss:
    """φ(f, y) = (f − y)²/2 where |f − y| ≤ threshold, linear beyond."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.clip(f - y, -self.threshold, self.threshold)


class PinballLoss:
    """φ(f, y) = below·(y − f) where f < y, above·(f − y) beyond: least at the quantile below/(below + above)."""

    def __init__(self, below: float, above: float) -> None:
        self.below = below
        self.above = above

    @property
    def steepest(self) -> float:
        return max(self.below, self.above)

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        residual = f - y
        slope = np.where(residual < 0.0, -self.below, self.above)
        return np.where(np.abs(residual) > 0.0, slope, residual)  # 0 and NaN stay


class LogisticLoss:
    """φ(f, y) = ln(1 + exp(−y f)) with y = ±1; for several outputs their sum, one class against the rest."""

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        # y/(−1 − exp(y f)): NumPy's vectorised exponential is several times as fast as a logistic function.
        slope = np.multiply(y, f)
        with np.errstate(over="ignore"):  # of margins beyond 700: their slope is 0
            np.exp(slope, out=slope)
        np.subtract(-1.0, slope, out=slope)
        return np.asarray(np.divide(y, slope, out=slope))


class SmoothedHingeLoss:
    """Hinge max(0, 1 − y f), y = ±1, smoothed quadratically on an interval of length ``width``; sum over outputs."""

    def __init__(self, width: float = 0.5) -> None:
        self.width = width

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(-y * np.clip((1.0 - y * f) / self.width + 0.5, 0.0, 1.0))


class MultinomialLoss:
    """φ(f, y) = −log softmax(f)_y with one output a class and y one-hot."""

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        # Loops over the classes: a sum along an axis may run in another order where there is one row.
        top = f[0].copy()
        for scores in f[1:]:
            np.maximum(top, scores, out=top)
        parts = np.exp(f - top)
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return np.asarray(parts / total - y)


def check_custom_loss(loss: Any, n_coef: int, targets: tuple[float, float]) -> None:
    """Refuse a loss without finite gradients at two made-up rows."""
    with unheard():
        found = np.asarray(loss.gradient(np.ones((2, n_coef)), np.array(targets), np.zeros(n_coef)))
    numbers = found.dtype.kind in "biuf"
    if not (numbers and found.shape == (2, n_coef) and np.isfinite(found).all()):
        what = "NaN or infinity" if numbers and found.shape == (2, n_coef) else f"{found.dtype} {found.shape}"
        raise ValueError(
            f"loss.gradient must return finite numbers of shape (n_rows, n_coef) = (2, {n_coef}) for two rows, "
            f"got {what}."
        )


def row_gradients(loss: Any, rows: FloatArray, targets: FloatArray, coef: FloatArray) -> FloatArray:
    """Compute gradients by a custom loss; rows for which it fails get NaN, which counts as 0.

    An error would reveal something about whoever has that row.
    """
    try:
        with unheard():
            found = np.asarray(loss.gradient(rows.copy(), targets.copy(), coef.copy()), dtype=np.float64)
    except Exception:  # of what kind it was is not to be seen either
        found = np.empty(0)
    if found.shape == rows.shape:
        return found
    if len(rows) == 1:
        return np.full(rows.shape, np.nan)
    each = [row_gradients(loss, rows[[i]], targets[[i]], coef) for i in range(len(rows))]
    return np.concatenate([np.empty((0, rows.shape[1])), *each])


def first_residual(loss: object, n_outputs: int) -> float:
    """Return the norm of a row's residual at the origin; `LEAST_CLIP` where that is not known.

    This is the least clipping radius, in norms of a row, at which the slope at the origin is that of the mean. A
    smaller one has no less noise there, since all votes have norm 1 already, and exaggerates weak effects.
    """
    if isinstance(loss, LogisticLoss):
        return 0.5
    if isinstance(loss, MultinomialLoss):
        return math.sqrt(1.0 - 1.0 / n_outputs)
    return 1.0 if isinstance(loss, SmoothedHingeLoss) else LEAST_CLIP


def clip_noise(loss: object, n_outputs: int) -> float:
    """Return the c·√d·ν at which a clipping radius of c norms of a row costs `EXAGGERATION`; 0 if not known.

    Without a penalty, the coefficients of `noise_ridge` add ½·H times their variance to the loss.
    """
    curvature = mean_curvature(loss, n_outputs)
    return math.sqrt(2.0 * EXAGGERATION * n_outputs * curvature)


def noise_ridge(loss: object, n_outputs: int) -> float:
    """Return the penalty that balances noise and signal, in units of c²·d·ν², d coefficients in all.

    Coordinates of a gradient have noise of variance c²·δ·ν²/d for a clipping radius of c norms √δ of a row, δ =
    d/n_outputs. With curvature H the coefficients have H⁻² times that. The best shrinkage of a coefficient of variance
    1/δ, a logit of deviation 1, is H/(H + α) with α = c²·δ²·ν²/(d·H).
    """
    curvature = mean_curvature(loss, n_outputs)
    return 1.0 / (n_outputs**2 * curvature) if curvature else 0.0


def noise_penalty(ridge: float, level: float, clip: float, width: float, size: int, flat: bool) -> float:
    """Compute the penalty from `noise_ridge`, the noise level ν, the clipping radius c, and the coefficients δ of an
    output.

    With ``flat``, all users are clipped at the origin and the loss has no curvature there. Noise of norm c·√δ·ν then
    carries the coefficients as far as the penalty lets it: c·√δ·ν/√k leaves the k outputs a norm of 1 each. Both stop
    growing where the projection radius shrinks instead, because a much stronger pull would leave nothing of the votes.
    """
    balanced = ridge * size * (clip * min(level, _plan.LOUD_LEVEL)) ** 2
    return max(balanced, clip * width / math.sqrt(size) * min(level, _plan.MAX_NOISE_LEVEL)) if flat else balanced


def mean_curvature(loss: object, n_outputs: int) -> float:
    """Return the mean curvature of a row's loss in one of its scores; 0 where that is not known.

    It is half of that at the origin: rows that are well classified or clipped have none.
    """
    if isinstance(loss, MultinomialLoss):
        return 0.5 * (1.0 - 1.0 / n_outputs) / n_outputs
    return 0.125 if isinstance(loss, (LogisticLoss, SmoothedHingeLoss)) else 0.0


@lru_cache
def normal_quadrature() -> tuple[FloatArray, FloatArray]:
    """Return points and weights of Gauss–Hermite quadrature: means over standard normal numbers."""
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    return points, weights / weights.sum()
