"""Semilinear losses ℓ(y, ŷ) = b(ŷ) − T(y)·ŷ + c(y) (Definition 2): b, its derivatives, and what T can be.

The label enters the training objective through Σ T(y)·ŷ alone, which label sums per bag determine.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate._messages import unheard

FloatArray = NDArray[np.float64]
#: Lower and upper bound of T(y): numbers, or arrays with one entry per output.
Interval = tuple[Any, Any]
#: Mean (of one output, or per output) and variance of a normal prior of the intercept.
Prior = tuple[Any, float]
#: Beyond this the exponential of a Poisson score would overflow during a line search.
_LARGEST_LOG_MEAN = 300.0
#: Prior scores of standard deviation 3, in place of a free intercept where label sums are noisy.
_INTERCEPT_VARIANCE = 9.0
#: Loss of a constant of mean 1 where nine in ten counts are 0 and the model knows which.
_POISSON_GAIN = 2.3
#: For guarantees: what is assumed of a loss of the user's own.
OWN_STATISTICS = "statistics(y) of the loss is a function of its argument alone, not of what it saw before"


class GivenLoss(Protocol):
    """Methods that an object passed as ``loss`` must have."""

    def statistics(self, y: Any) -> Any:
        """Compute T of each label."""
        ...

    def potential(self, scores: FloatArray) -> Any:
        """Compute b of each row's scores."""
        ...

    def gradient(self, scores: FloatArray) -> Any:
        """Compute the derivative of b."""
        ...


class SquaredLoss:
    """b = ½‖ŷ‖²; also the base of the others, which are not ``quadratic``.

    Scores and means have shape (n_outputs, n_rows). Outputs of a ``separable`` loss can be learned one by one.
    """

    name = "squared"
    quadratic = separable = True

    def partition(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate b(ŷ) per row (n_rows,) and its gradient (n_outputs, n_rows), the mean of T(y) at ŷ."""
        return 0.5 * np.einsum("kn,kn->n", scores, scores), scores

    def moments(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate the gradient of b and the diagonal of its second derivative."""
        mean = self.partition(scores)[1]
        return mean, self._variance(mean)

    def _variance(self, mean: FloatArray) -> FloatArray:
        return np.ones_like(mean)

    def bend(self, scores: FloatArray, direction: FloatArray) -> FloatArray:
        """Multiply the second derivative of b with a direction per row."""
        return self.moments(scores)[1] * direction

    def link(self, mean: FloatArray) -> FloatArray:
        """Score a constant model whose mean of T(y) is given; shape (n_outputs,)."""
        return np.asarray(mean, dtype=np.float64)

    def clip_mean(self, mean: FloatArray, error: float, bounds: Interval | None) -> FloatArray:
        """Move a mean of this standard error to one that labels can have."""
        return mean if bounds is None else np.clip(mean, *bounds)

    def clip_sums(self, sums: FloatArray, counts: FloatArray, bounds: Interval | None) -> FloatArray:
        """Move noisy sums to those of some labels."""
        return sums

    def intercept_prior(self, bounds: Interval | None) -> Prior | None:
        """Choose the prior of the intercept from public numbers; None is a free one.

        Labels of an interval are assumed to have a mean in its middle, with a standard deviation of a quarter of it.
        """
        if bounds is None:
            return None
        low, high = bounds
        return low / 2 + high / 2, (high - low) ** 2 / 16

    def step_length(self, step: FloatArray) -> float:
        """Damp a Newton step of one output."""
        return 1.0

    def largest_gain(self, mean: FloatArray, dispersion: float) -> float:
        """Bound the loss of a row that any model saves over the constant mean."""
        return 0.5 * dispersion


class PoissonLoss(SquaredLoss):
    """b = exp(ŷ), the mean of counts."""

    name = "poisson"
    quadratic = False

    def partition(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.exp(np.minimum(scores, _LARGEST_LOG_MEAN))
        return mean.sum(axis=0), mean

    def _variance(self, mean: FloatArray) -> FloatArray:
        return mean

    def link(self, mean: FloatArray) -> FloatArray:
        return np.log(np.maximum(mean, 1e-6))

    def clip_mean(self, mean: FloatArray, error: float, bounds: Interval | None) -> FloatArray:
        low, high = (-np.inf, np.inf) if bounds is None else bounds
        return np.clip(mean, np.minimum(np.maximum(low, error), high), high)

    def clip_sums(self, sums: FloatArray, counts: FloatArray, bounds: Interval | None) -> FloatArray:
        low, high = (0.0, np.inf) if bounds is None else bounds
        return np.clip(sums, np.outer(low, counts), np.outer(high, counts))

    def intercept_prior(self, bounds: Interval | None) -> Prior | None:
        centre = 0.0 if bounds is None else self.link(np.asarray(bounds[0] / 2 + bounds[1] / 2))
        return centre, _INTERCEPT_VARIANCE

    def step_length(self, step: FloatArray) -> float:
        return min(1.0, 4.0 / max(float(np.max(np.abs(step))), 1e-300))

    def largest_gain(self, mean: FloatArray, dispersion: float) -> float:
        return float(mean.sum()) * _POISSON_GAIN


class LogLoss(PoissonLoss):
    """b = Σ log(1 + exp(ŷ)): one logit for each 0/1 label."""

    name = "log"

    def partition(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        tail = np.exp(-np.abs(scores))
        value = np.maximum(scores, 0.0) + np.log(1.0 + tail)
        mean = np.where(scores >= 0, 1.0, tail)
        mean /= 1.0 + tail
        return value.sum(axis=0), mean

    def _variance(self, mean: FloatArray) -> FloatArray:
        return mean * (1.0 - mean)

    def link(self, mean: FloatArray) -> FloatArray:
        clipped = np.clip(mean, 1e-6, 1 - 1e-6)
        return np.log(clipped / (1 - clipped))

    def clip_mean(self, mean: FloatArray, error: float, bounds: Interval | None) -> FloatArray:
        return np.clip(mean, min(error, 0.5), 1.0 - min(error, 0.5))

    def clip_sums(self, sums: FloatArray, counts: FloatArray, bounds: Interval | None) -> FloatArray:
        return np.clip(sums, 0.0, counts)

    def intercept_prior(self, bounds: Interval | None) -> Prior | None:
        return 0.0, _INTERCEPT_VARIANCE

    def largest_gain(self, mean: FloatArray, dispersion: float) -> float:
        shares = np.append(mean, 1.0 - mean)
        return -float(np.sum(shares * np.log(np.maximum(shares, 1e-300))))


class MultinomialLoss(LogLoss):
    """b = LogSumExp(ŷ): one logit for each class; a row has one class."""

    name = "multinomial"
    separable = False

    def partition(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        top = scores.max(axis=0)
        weight = np.exp(scores - top)
        total = weight.sum(axis=0)
        return top + np.log(total), weight / total

    def bend(self, scores: FloatArray, direction: FloatArray) -> FloatArray:
        mean = self.partition(scores)[1]
        return np.asarray(mean * (direction - np.sum(mean * direction, axis=0)))

    def link(self, mean: FloatArray) -> FloatArray:
        logs = np.log(np.maximum(mean, 1e-6))
        return np.asarray(logs - logs.mean())

    def clip_mean(self, mean: FloatArray, error: float, bounds: Interval | None) -> FloatArray:
        return np.clip(mean, min(error, 0.5 / mean.size), 1.0 - min(error, 0.5))

    def clip_sums(self, sums: FloatArray, counts: FloatArray, bounds: Interval | None) -> FloatArray:
        """Project to the nearest point of a simplex: a row has one class."""
        ordered = -np.sort(-sums, axis=0)
        rank = np.arange(1, sums.shape[0] + 1)[:, np.newaxis]
        excess = (np.cumsum(ordered, axis=0) - counts) / rank
        last = np.sum(ordered > excess, axis=0, keepdims=True) - 1
        return np.maximum(sums - np.take_along_axis(excess, last, axis=0), 0.0)

    def step_length(self, step: FloatArray) -> float:
        # Classes are stepped separately although softmax couples them, which overshoots by up to 2.
        return 0.7 * super().step_length(step)

    def largest_gain(self, mean: FloatArray, dispersion: float) -> float:
        return -float(np.sum(mean * np.log(np.maximum(mean, 1e-300))))


class OwnLoss(PoissonLoss):
    """A user's ``potential(scores)`` and ``gradient(scores)``, of scores (n_rows,) or (n_rows, n_outputs).

    Second derivatives are central differences, and a mean that no score has gets a large score.
    """

    name = "own"

    def __init__(self, given: GivenLoss, n_outputs: int) -> None:
        self.given, self.n_outputs = given, n_outputs
        self.separable = n_outputs == 1

    def partition(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = scores[0] if self.n_outputs == 1 else np.ascontiguousarray(scores.T)
        with unheard():
            value = np.asarray(self.given.potential(rows.copy()), dtype=np.float64)
            mean = np.asarray(self.given.gradient(rows.copy()), dtype=np.float64)
        return value, np.ascontiguousarray(np.atleast_2d(mean.T))

    def moments(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        units = np.eye(self.n_outputs)[:, :, np.newaxis]
        second = [self.bend(scores, np.broadcast_to(unit, scores.shape))[k] for k, unit in enumerate(units)]
        return self.partition(scores)[1], np.maximum(np.stack(second), 0.0)

    def bend(self, scores: FloatArray, direction: FloatArray) -> FloatArray:
        size = 1e-5 * (1.0 + np.abs(scores).max(axis=0)) / np.maximum(np.abs(direction).max(axis=0), 1e-300)
        change = self.partition(scores + size * direction)[1] - self.partition(scores - size * direction)[1]
        return np.asarray(change / (2.0 * size))

    def link(self, mean: FloatArray) -> FloatArray:
        mean = np.asarray(mean, dtype=np.float64)

        def objective(score: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.partition(score[:, np.newaxis])
            ridge = 1e-6 * score
            return float(value[0] - (mean - 0.5 * ridge) @ score), slope[:, 0] - mean + ridge

        return np.asarray(minimize(objective, np.zeros(self.n_outputs), jac=True, method="BFGS").x)

    def clip_mean(self, mean: FloatArray, error: float, bounds: Interval | None) -> FloatArray:
        if bounds is None:
            return mean
        low, high = bounds
        margin = np.minimum(error, (high - low) / 2)
        return np.clip(mean, low + margin, high - margin)

    def clip_sums(self, sums: FloatArray, counts: FloatArray, bounds: Interval | None) -> FloatArray:
        return sums if bounds is None else super().clip_sums(sums, counts, bounds)

    def intercept_prior(self, bounds: Interval | None) -> Prior | None:
        middle = np.zeros(self.n_outputs)
        return (middle if bounds is None else self.link(middle + (bounds[0] / 2 + bounds[1] / 2))), _INTERCEPT_VARIANCE

    def step_length(self, step: FloatArray) -> float:
        # Outputs are stepped separately, which overshoots by up to their number.
        return min(1.0, 1.4 / self.n_outputs) * super().step_length(step)

    def largest_gain(self, mean: FloatArray, dispersion: float) -> float:
        return np.inf


BUILT_IN = {loss.name: loss for loss in (SquaredLoss(), PoissonLoss(), LogLoss(), MultinomialLoss())}


def check_own_loss(given: GivenLoss, n_columns: int) -> int:
    """Try a user's loss on made-up labels and scores; returns the number of statistics T(y) of a row."""
    labels = np.array([1.0, 2.0]) if n_columns == 1 else np.outer([1.0, 2.0], np.ones(n_columns))
    with unheard():
        statistics = np.asarray(deepcopy(given).statistics(labels))
    shape = statistics.shape
    if statistics.dtype.kind not in "biuf" or shape[:1] != (2,) or len(shape) > 2 or shape[1:] in ((0,), (1,)):
        raise ValueError(
            "loss.statistics must return numbers of shape (n_rows,), or (n_rows, n_statistics) if there are several, "
            f"got {statistics.dtype} {shape} for labels of shape {labels.shape}."
        )
    n_outputs = 1 if len(shape) == 1 else int(shape[1])
    check_potential(given, n_outputs)
    return n_outputs


def check_potential(given: GivenLoss, n_outputs: int) -> None:
    """Refuse a potential that is not finite and convex at made-up scores, or a gradient that is not its own."""
    loss = OwnLoss(given, n_outputs)
    scores = 2.0 * np.cos(np.arange(9.0 * n_outputs)).reshape(n_outputs, 9)
    value, mean = loss.partition(scores)
    if value.shape != scores.shape[1:] or mean.shape != scores.shape:
        rows = "(n_rows,)" if n_outputs == 1 else f"(n_rows, {n_outputs})"
        raise ValueError(
            f"loss.potential must return shape (n_rows,) and loss.gradient {rows} for scores of shape {rows}, got "
            f"{value.shape} and {mean.T.shape} for 9 rows."
        )
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(mean))):
        raise ValueError(
            "loss.potential and loss.gradient must be finite for all scores, got NaN or infinity between -2 and 2: "
            "continue the potential by a parabola where its domain ends."
        )
    for k in range(n_outputs):
        step = 1e-4 * np.eye(n_outputs)[:, [k]]
        slope = (loss.partition(scores + step)[0] - loss.partition(scores - step)[0]) / 2e-4
        if np.any(np.abs(slope - mean[k]) > 1e-3 * (1.0 + np.abs(mean[k]))):
            raise ValueError("loss.gradient must be the derivative of loss.potential, and is not at made-up scores.")
    rise = np.einsum("kij,kij->ij", *(numbers[:, :, np.newaxis] - numbers[:, np.newaxis] for numbers in (mean, scores)))
    if np.any(rise < -1e-9):
        raise ValueError("loss.potential must be convex, and its gradient falls between made-up scores.")


def own_statistics(labels: NDArray[Any], *, given: GivenLoss, n_outputs: int, strict: bool) -> FloatArray:
    """Apply a user's T to labels (n,) or (n, n_columns); shape (n_outputs, n).

    Each distinct label is passed alone to a copy of the loss, so that no row can change the statistics of another one
    or stay in the model. Where T fails or is not finite it counts as 0, or is an error if ``strict``: an error would
    tell that there is such a label.
    """
    numbers = labels.astype(np.float64) + 0.0  # 0 and -0 are one label
    distinct, place = np.unique(numbers, axis=0, return_inverse=True)
    statistics = np.zeros((len(distinct), n_outputs))
    with unheard():
        for own, label in zip(statistics, distinct, strict=True):
            try:
                own[:] = np.asarray(deepcopy(given).statistics(label[np.newaxis].copy()), dtype=np.float64)[0]
            except Exception:
                if strict:
                    raise
                own[:] = 0.0
    if strict and not np.all(np.isfinite(statistics)):
        raise ValueError("loss.statistics must be finite for all labels, got NaN or infinity.")
    finite = np.where(np.isfinite(statistics), statistics, 0.0)
    return np.ascontiguousarray(finite[place.reshape(-1)].T)
