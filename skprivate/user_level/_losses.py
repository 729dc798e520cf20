"""Losses of linear models, through their derivative with respect to the linear predictor.

A loss of a linear model is ℓ(w; x, y) = φ(⟨w, x⟩, y), so its gradient is φ'(⟨w, x⟩, y)·x: one number a row (one a
class for several outputs). All arithmetic is elementwise along rows, so that a row's derivative does not depend on
other rows. A custom loss gives per-row gradients itself, see `CustomLoss`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from skprivate._messages import unheard

FloatArray = npt.NDArray[np.float64]


class LinearLoss(Protocol):
    """A loss φ(f, y) of the linear predictor f."""

    #: Bound on the second derivative of φ in f.
    smoothness: float

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """φ'(f, y) for contiguous ``f`` and ``y`` of shape (n_outputs, n_rows)."""
        ...


@runtime_checkable
class CustomLoss(Protocol):
    """What an object passed as ``loss`` must implement.

    Attributes
    ----------
    lipschitz : float
        G: bound on the norm of a row's gradient, in the units of the loss. Only the published algorithm
        (``accounting="paper"``) uses it, as its range B. No privacy guarantee rests on it.
    smoothness : float
        H: bound on the curvature; with it the published algorithm sets its step. No privacy guarantee rests on it.
    """

    lipschitz: float
    smoothness: float

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

    smoothness = 1.0

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return f - y


class HuberLoss:
    """φ(f, y) = (f − y)²/2 where |f − y| ≤ threshold, linear beyond."""

    smoothness = 1.0

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.clip(f - y, -self.threshold, self.threshold)


class LogisticLoss:
    """φ(f, y) = ln(1 + exp(−y f)) with y = ±1; for several outputs their sum, one class against the rest."""

    smoothness = 0.25

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        # y/(−1 − exp(y f)): NumPy's vectorised exponential is several times as fast as a logistic function.
        slope = np.multiply(y, f)
        with np.errstate(over="ignore"):  # of margins beyond 700: their slope is 0
            np.exp(slope, out=slope)
        np.subtract(-1.0, slope, out=slope)
        return np.asarray(np.divide(y, slope, out=slope))


class SmoothedHingeLoss:
    """Hinge max(0, 1 − y f) smoothed quadratically on an interval of length ``width`` (y = ±1).

    For several outputs their sum, one class against the rest.
    """

    def __init__(self, width: float = 0.5) -> None:
        self.width = width
        self.smoothness = 1.0 / width

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(-y * np.clip((1.0 - y * f) / self.width + 0.5, 0.0, 1.0))


class MultinomialLoss:
    """φ(f, y) = −log softmax(f)_y with one output a class and y one-hot."""

    smoothness = 0.5

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
    """Refuse an object that is no `CustomLoss`, naming what it lacks; its gradient is asked for two made-up rows."""
    missing = [name for name in ("gradient", "lipschitz", "smoothness") if not hasattr(loss, name)]
    if missing:
        raise TypeError(
            f"loss={type(loss).__name__} is not compatible with this estimator. A custom loss must implement "
            f"gradient(X, y, coef) and declare lipschitz and smoothness; missing: {', '.join(missing)}."
        )
    for name in ("lipschitz", "smoothness"):
        value = getattr(loss, name)
        if not (isinstance(value, (int, float, np.number)) and 0 < value < np.inf):
            raise ValueError(f"loss.{name} must be a positive finite number, got {value!r}.")
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
    """Gradients by a loss from elsewhere; of a row that it fails for no numbers, which count for nothing.

    An error would say something about whoever has that row. A row by itself has the gradient that it has among others.
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
