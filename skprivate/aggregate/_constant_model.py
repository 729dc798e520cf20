"""The constant model that noisy label sums lead to, and what is known of labels before any fit."""

from __future__ import annotations

import numpy as np

from skprivate.aggregate._design import CellDesign
from skprivate.aggregate._losses import FloatArray, LossName, partition
from skprivate.aggregate._solvers import constant_start


def total_sum(design: CellDesign, sums: FloatArray, noise: FloatArray) -> FloatArray:
    """Total of the labels: every feature set adds up to it, the best ones count most; shape (n_outputs,)."""
    set_of_cell = design.set_of_cell()
    n_sets = design.offsets.size - 1
    if n_sets == 0:
        raise ValueError("at least one feature set is needed to know the sum of the labels.")
    totals = np.stack([np.bincount(set_of_cell, row, n_sets) for row in sums])
    spread = np.bincount(set_of_cell, noise, n_sets)
    weight = 1.0 / spread if np.all(spread > 0) else (spread == 0).astype(np.float64)
    total: FloatArray = totals @ (weight / weight.sum())
    return total


def constant_model(
    design: CellDesign,
    loss: LossName,
    linear: FloatArray,
    noise: FloatArray,
    label_bounds: tuple[float, float] | None,
) -> FloatArray:
    """The constant model, kept where labels can be: a noisy total may be negative, or above the number of rows."""
    n = max(design.n_samples, 1)
    if np.any(noise):
        n_sets = design.offsets.size - 1
        spread = np.bincount(design.set_of_cell(), noise, n_sets)
        error = float(np.sqrt(1.0 / np.sum(1.0 / np.maximum(spread, 1e-300)))) / n
        low, high = (-np.inf, np.inf) if label_bounds is None else label_bounds
        if loss in ("log", "multinomial"):
            low, high = min(error, 0.5 / linear.shape[0]), 1.0 - min(error, 0.5)
        elif loss == "poisson":
            low = min(max(low, error), high)
        linear = linear.copy()
        linear[:, -1] = n * np.clip(linear[:, -1] / n, low, high)
    return constant_start(design, loss, linear)


def possible_sums(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    label_bounds: tuple[float, float] | None = None,
) -> FloatArray:
    """Sums that labels could have next to noisy ones, and the total: others leave some objectives without a minimum.

    Parameters
    ----------
    design : CellDesign
    loss : {"squared", "log", "multinomial", "poisson"}
    sums : ndarray, shape (n_outputs, n_cells)
    noise : ndarray, shape (n_cells,)
    label_bounds : (float, float), optional
        Interval of the labels.

    Returns
    -------
    ndarray, shape (n_outputs, n_cells + 1)
        The total last.
    """
    linear = np.column_stack([sums, total_sum(design, sums, noise)])
    if loss == "squared" or not np.any(noise):
        return linear
    constant = constant_model(design, loss, linear, noise, label_bounds)
    linear[:, -1] = design.n_samples * partition(loss, constant[:, -1:])[1][:, 0]
    if loss == "multinomial":  # a row has one class: the nearest point of a simplex
        ordered = -np.sort(-sums, axis=0)
        rank = np.arange(1, sums.shape[0] + 1)[:, np.newaxis]
        excess = (np.cumsum(ordered, axis=0) - design.counts) / rank
        last = np.sum(ordered > excess, axis=0, keepdims=True) - 1
        linear[:, :-1] = np.maximum(sums - np.take_along_axis(excess, last, axis=0), 0.0)
    else:
        low, high = (0.0, 1.0) if loss == "log" else label_bounds or (0.0, np.inf)
        linear[:, :-1] = np.clip(sums, low * design.counts, high * design.counts)
    return linear


def start_dispersion(
    design: CellDesign, loss: LossName, sums: FloatArray, noise: FloatArray, square_sum: float | None
) -> float:
    """Variance of the labels about their mean for the squared loss, else 1."""
    if loss != "squared":
        return 1.0
    n = design.n_samples
    total = total_sum(design, sums, noise)
    if square_sum is not None:
        return max((square_sum - float(np.sum(total**2)) / n) / n, 1e-12 * (1 + abs(square_sum) / n))
    # Without it: the spread of bag means around the total mean, which exceeds the dispersion by the signal.
    mean = total / n
    set_of_cell = design.set_of_cell()
    excess = (sums - design.counts * mean[:, np.newaxis]) ** 2 - noise
    per_set = np.bincount(set_of_cell, (excess / design.counts).mean(axis=0))
    freedom = np.maximum(np.bincount(set_of_cell) - 1, 1)
    spread = float(np.min(per_set / freedom))
    return max(spread, 1e-9 * (1.0 + float(np.max(np.abs(mean)) ** 2)))


def label_units(
    design: CellDesign, loss: LossName, sums: FloatArray, noise: FloatArray, square_sum: float | None
) -> tuple[FloatArray, float]:
    """Mean (n_outputs,) and standard deviation of the labels as released: what networks see does not depend on them.

    0 and 1 but for the squared loss: the others have scores of a scale of their own.
    """
    if loss != "squared":
        return np.zeros(sums.shape[0]), 1.0
    scale = float(np.sqrt(start_dispersion(design, loss, sums, noise, square_sum)))
    return total_sum(design, sums, noise) / max(design.n_samples, 1), scale
