"""The constant model, and the check that a fit is not worse.

The loss of scores ŷ over the rows, less that of the constant, is Σ b(ŷ) − Σ b(ŷ₀) − zᵀ(θ − θ₀) with the true label sums
z. Noisy ones that θ was fitted to flatter it. For θ linear in sums of covariance G + N it is by the trace of
∂θ/∂z (G + N) (Stein); with that added, the estimate is unbiased for the loss of new labels, and its error is known from
the noise. For any other fit noise is halved: with b ~ N(0, G + N) of our own, s + b and s − b have independent noise.
The fit to the first, which is a little worse, is rated by the second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skprivate.aggregate._losses import FloatArray, LossName, partition, variance
from skprivate.aggregate.additive._design import CellDesign, constant_start
from skprivate.privacy import public_generator, warn_caller


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


#: By how many standard errors a fit must seem better than the constant. One whose penalties were estimated from the
#: same noise is careful already: that it seems better is enough.
ESTIMATED, ANY = 0.0, 1.0
#: From so many standard errors worse than the constant on it is said.
_WARNS = 3.0
_SHARES = np.linspace(0.0, 1.0, 21)
#: Loss of a constant of mean 1 where nine in ten counts are 0 and the model knows which.
_POISSON = 2.3


def share_to_keep(
    estimate: Callable[[float], float], error: float, best: float, *, doubt: float, advice: str
) -> float:
    """How far to go from the constant model, 0, to the fit, 1.

    Parameters
    ----------
    estimate : callable
        Estimated loss of new labels at a share of the way, in any unit, up to a constant.
    error : float
        Standard error of the difference between its values at 1 and 0, which is in proportion to the way.
    best : float
        By how much any model may be better than the constant. Where the error is larger, sums cannot tell.
    doubt : float
        Standard errors that the fit must seem better by: `ESTIMATED` or `ANY`.
    advice : str
        What to do against a fit that was worse than the constant; ends a warning.
    """
    worse = estimate(1.0) - estimate(0.0)
    farthest = min(1.0, best / error) if error > 0 else 1.0
    if worse < -doubt * error and farthest == 1.0:
        return 1.0
    if worse > _WARNS * error or farthest < 1.0:
        warn_caller(
            "the fit was worse than a constant by its own noisy label sums, or too noisy to tell, and was drawn "
            "towards the constant: " + advice,
            ConvergenceWarning,
        )
    shares = farthest * _SHARES
    return float(min(shares, key=lambda share: estimate(share) + doubt * share * error))


def no_worse_than_constant(
    design: CellDesign,
    loss: LossName,
    linear: FloatArray,
    noise: FloatArray,
    coef: FloatArray,
    constant: FloatArray,
    flattery: float,
    dispersion: float = 1.0,
) -> FloatArray:
    """The coefficients, or a point on the way from the constant model to them where sums speak against them.

    Parameters
    ----------
    design : CellDesign
    loss : {"squared", "log", "multinomial", "poisson"}
    linear : ndarray, shape (n_outputs, n_cells + 1)
        Noisy label sums, the total last.
    noise : ndarray, shape (n_cells,)
        Variance of the noise in each.
    coef, constant : ndarray, shape (n_outputs, n_cells + 1)
        The fit, and the constant model.
    flattery : float
        Trace of ∂θ/∂z (G + N).
    dispersion : float
        Of the labels.
    """
    change = coef - constant
    sampling = 2.0 * dispersion * flattery
    share = _share(design, loss, linear, noise, change, constant, flattery, sampling, dispersion, ESTIMATED)
    return coef if share == 1.0 else constant + share * change


def guarded_fit(
    fit: Callable[[FloatArray], FloatArray],
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    *,
    square_sum: float | None = None,
    label_bounds: tuple[float, float] | None = None,
) -> FloatArray:
    """What any method fits to the sums, drawn towards the constant where it follows their noise.

    Parameters
    ----------
    fit : callable
        From sums (n_outputs, n_cells) to coefficients (n_outputs, n_cells + 1); the same ones from the same sums.
        Called twice where there is noise.
    design, loss, sums, noise, square_sum, label_bounds
        As in `fit_evidence`.
    """
    coef = fit(sums)
    if not np.any(noise):
        return coef
    linear = np.column_stack([sums, total_sum(design, sums, noise)])
    constant = constant_model(design, loss, linear, noise, label_bounds)
    dispersion = start_dispersion(design, loss, sums, noise, square_sum)
    own = own_noise(design, loss, constant, noise, dispersion)
    change = fit(sums + own) - constant
    linear[:, :-1] -= own
    share = _share(design, loss, linear, 2.0 * noise, change, constant, 0.0, 0.0, 2.0 * dispersion, ANY)
    return coef if share == 1.0 else constant + share * (coef - constant)


def _share(
    design: CellDesign,
    loss: LossName,
    linear: FloatArray,
    noise: FloatArray,
    change: FloatArray,
    constant: FloatArray,
    flattery: float,
    sampling: float,
    dispersion: float,
    doubt: float,
) -> float:
    """How far to go to the change from the constant, as the sums rate it."""
    first, way = design.scores(constant), design.scores(change)
    multiplicity = np.ones(design.n_rows) if design.multiplicity is None else design.multiplicity
    start, mean = partition(loss, first)
    # About the constant: of labels far from 0 the parts would cancel.
    pull = float(np.sum((linear - design.scatter(mean * multiplicity)) * change))

    def estimate(share: float) -> float:
        if loss == "squared":
            rise = 0.5 * share**2 * np.sum(way**2, axis=0)
        else:
            rise = partition(loss, first + share * way)[0] - start - share * np.sum(mean * way, axis=0)
        return float(rise @ multiplicity) + share * (flattery - pull)

    spread = dispersion * float(np.sum(variance(loss, mean) * way**2 * multiplicity))
    error = float(np.sqrt(np.sum(noise * change[:, :-1] ** 2) + spread + sampling))
    best = design.n_samples * _most(loss, mean[:, 0], dispersion)
    advice = "use a larger epsilon, fewer feature sets or a stronger penalty."
    return share_to_keep(estimate, error, best, doubt=doubt, advice=advice)


def _most(loss: LossName, mean: FloatArray, dispersion: float) -> float:
    """By how much less the best model's loss of a row can be than that of the constant mean."""
    if loss == "squared":
        return 0.5 * dispersion
    if loss == "poisson":
        return float(mean[0]) * _POISSON
    shares = np.append(mean, 1.0 - mean) if loss == "log" else mean
    return -float(np.sum(shares * np.log(np.maximum(shares, 1e-300))))


def own_noise(
    design: CellDesign, loss: LossName, coef: FloatArray, noise: FloatArray, dispersion: float
) -> FloatArray:
    """A public draw of N(0, G + N): labels of rows that vary as at the coefficients, and noise in the sums."""
    rng = public_generator(0)
    _, mean = partition(loss, design.scores(coef))
    multiplicity = 1.0 if design.multiplicity is None else design.multiplicity
    rows = np.sqrt(dispersion * variance(loss, mean) * multiplicity) * rng.standard_normal(mean.shape)
    drawn: FloatArray = design.scatter(rows)[:, :-1]
    return drawn + np.sqrt(noise) * rng.standard_normal(drawn.shape)
