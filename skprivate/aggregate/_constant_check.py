"""Never worse than a constant: an estimate of the fit's loss from the noisy sums themselves.

The loss of scores ŷ over the rows, less that of the constant, is Σ b(ŷ) − Σ b(ŷ₀) − zᵀ(θ − θ₀) with the true label sums
z. Noisy ones that θ was fitted to flatter it: for θ linear in sums of covariance G + N, by the trace of ∂θ/∂z (G + N)
(Stein). With that added, the estimate is unbiased for the loss of new labels, and its error is known from the noise.
It is a safety net: sums of overlapping sets that contradict each other make that error large.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from skprivate.aggregate._design import CellDesign
from skprivate.aggregate._losses import FloatArray, LossName, partition, variance
from skprivate.privacy import warn_caller

#: A fit is drawn towards the constant when it seems worse by so many standard errors, and says so at the second.
_SHRINKS, _WARNS = 1.0, 3.0
_SHARES = np.linspace(0.0, 1.0, 21)


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
    first, way = design.scores(constant), design.scores(change)
    multiplicity = np.ones(design.n_rows) if design.multiplicity is None else design.multiplicity

    def estimate(share: float) -> float:
        value, _ = partition(loss, first + share * way)
        return float(value @ multiplicity) + share * (flattery - float(np.sum(linear * change)))

    worse = estimate(1.0) - estimate(0.0)
    _, mean = partition(loss, first)
    sampling = float(np.sum(variance(loss, mean) * way**2 * multiplicity)) + 2.0 * flattery
    error = float(np.sqrt(np.sum(noise * change[:, :-1] ** 2) + dispersion * sampling))
    if not worse > _SHRINKS * error:
        return coef
    if worse > _WARNS * error:
        warn_caller(
            "the fit was worse than a constant by its own noisy label sums, and was drawn towards the constant: use a "
            "larger epsilon, fewer feature sets or a stronger penalty.",
            UserWarning,
        )
    best = min(_SHARES, key=estimate)
    drawn: FloatArray = constant + best * change
    return drawn


def flattery_of_ridge(
    design: CellDesign,
    loss: LossName,
    noise: FloatArray,
    coef: FloatArray,
    ridge: FloatArray,
    dispersion: float = 1.0,
) -> float:
    """Trace of ∂θ/∂z (G + N) for a penalised fit to the sums as they are, where ∂θ/∂z is (AᵀWA + R)⁻¹."""
    _, mean = partition(loss, design.scores(coef))
    total = 0.0
    for weight in variance(loss, mean):
        gram = design.gram(weight)
        floor = 1e-9 * float(np.max(np.diag(gram))) + 1e-300
        try:
            factor = cho_factor(gram + np.diag(ridge + floor))
        except LinAlgError:
            return 0.0
        total += float(np.trace(cho_solve(factor, dispersion * gram + np.diag(noise))))
    return total
