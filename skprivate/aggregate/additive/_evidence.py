"""Penalties from the aggregates themselves: one variance component per feature set, the label noise being known.

Model. Coefficients of feature set j are N(0, τ_j) a priori, the intercept is free. At the current fit the label sums of
all cells are s = Aᵀμ + G(θ − θ₀) + e with e ~ N(0, G + N): G = AᵀWA (W the loss's curvature per row) is their
sampling covariance and N the *known* variance of the noise added for label privacy. Hence

* generalised least squares: θ maximises the posterior through M = G(G + N)⁻¹G, which filters
  the noise out of the differences between sums that must agree (a pair's table adds up to its columns' tables), and
  equals the penalised likelihood of individual labels where N = 0;
* the τ_j maximise the marginal likelihood by MacKay's fixed point τ_j = ‖θ_j‖² / γ_j, γ_j = d_j − tr(C_jj)/τ_j with C
  the posterior covariance.

All of it reads noisy sums and public counts only: post-processing, free of charge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_factor, cho_solve, cholesky, lapack, solve_triangular

from skprivate._progress import steps
from skprivate.aggregate._losses import FloatArray, LossName, partition, variance
from skprivate.aggregate.additive._constant import (
    constant_model,
    no_worse_than_constant,
    start_dispersion,
    total_sum,
)
from skprivate.aggregate.additive._design import CellDesign, fit_tables
from skprivate.aggregate.additive._filter import filtered_mode, intercept_prior, merge_rare

#: Prior variances are kept within these multiples of the scale of the scores.
_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-6, 10.0
#: Weight of the starting values, in coefficients per feature set: little data must not prune or free a whole set.
#: More of it keeps useless crosses alive.
_PRIOR_WEIGHT = 0.1
_START_VARIANCE = (0.5, 0.005)
#: Standard deviations of the scores come from a prior of mean 4 (in those of the labels, for squares): of a set that
#: says little, noise alone would find a large one now and then.
_SCALE_PRIOR = 0.25
#: Up to this many cells the posterior covariance is formed; each update of the penalties takes its cube.
DENSE_CELLS = 1000


@dataclass(frozen=True, eq=False)
class EvidenceFit:
    """Coefficients (n_outputs, n_cells + 1), prior variance per set, dispersion (1 but for squares), updates."""

    coef: FloatArray
    variances: FloatArray
    dispersion: float
    n_iter: int


def fit_evidence(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    order: NDArray[np.int64],
    *,
    square_sum: float | None = None,
    label_bounds: tuple[float, float] | None = None,
    tol: float = 1e-6,
    max_iter: int = 12,
) -> EvidenceFit:
    """Estimate the penalties by marginal likelihood, and the coefficients under them.

    Parameters
    ----------
    design : CellDesign
    loss : {"squared", "log", "multinomial", "poisson"}
    sums : ndarray, shape (n_outputs, n_cells)
        Label sums, noisy or not.
    noise : ndarray, shape (n_cells,)
        Variance of the noise in each.
    order : ndarray of int, shape (n_sets,)
        Number of columns of each feature set.
    square_sum : float, optional
        Sum of squared labels, for the dispersion of the squared loss.
    label_bounds : (float, float), optional
        Interval of the labels: noisy sums do not place the intercept far outside.
    tol, max_iter
        Of the final fit, and of the penalties.
    """
    if design.n_cells > DENSE_CELLS and np.any(noise):
        return _fit_many_cells(design, loss, sums, noise, order, square_sum, label_bounds, tol, max_iter)
    return _fit_penalties(design, loss, sums, noise, order, square_sum, label_bounds, tol, max_iter)


def _fit_penalties(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    order: NDArray[np.int64],
    square_sum: float | None,
    label_bounds: tuple[float, float] | None,
    tol: float,
    max_iter: int,
) -> EvidenceFit:
    total = total_sum(design, sums, noise)
    linear = np.column_stack([sums, total])
    intercept = intercept_prior(loss, label_bounds) if np.any(noise) else None
    coef = constant = constant_model(design, loss, linear, noise, label_bounds)
    dispersion = start_dispersion(design, loss, sums, noise, square_sum)
    set_of_cell = design.set_of_cell()
    n_sets = order.size
    size = np.bincount(set_of_cell, minlength=n_sets)
    scale = dispersion
    start = scale * np.where(order == 1, *_START_VARIANCE)
    variances = start.copy()
    dense = design.n_cells <= DENSE_CELLS or bool(np.any(noise))
    with steps("penalties", max_iter) as step:
        for iteration in range(max_iter):
            ridge = 1.0 / variances[set_of_cell]
            if dense:
                coef, spread = _posterior(design, loss, sums, noise, coef, ridge, dispersion, intercept)
            else:
                coef, spread = _diagonal_posterior(design, loss, linear, coef, ridge, dispersion)
            squares = np.bincount(set_of_cell, (coef[:, :-1] ** 2).sum(axis=0), n_sets)
            trace = np.bincount(set_of_cell, spread.sum(axis=0), n_sets)
            n_coef = size * coef.shape[0]
            if iteration < 2:
                # EM steps first: they cannot leave the neighbourhood of the start as fast as the fixed point does.
                target = (squares + trace + _PRIOR_WEIGHT * start) / (n_coef + _PRIOR_WEIGHT)
            else:
                effective = np.maximum(n_coef - trace / variances, 0.0)
                if np.any(noise):
                    effective = effective + _SCALE_PRIOR * np.sqrt(variances / scale)
                target = (squares + _PRIOR_WEIGHT * start) / (effective + _PRIOR_WEIGHT)
            new = np.clip(target, scale * _SMALLEST_VARIANCE, scale * _LARGEST_VARIANCE)
            settled = bool(np.all(np.abs(np.log(new / variances)) < 0.1))
            variances = new
            if loss == "squared":
                dispersion = _dispersion(design, linear, coef, square_sum, dispersion, scale, noise)
            step()
            if settled and iteration >= 2:
                break
    ridge = 1.0 / variances[set_of_cell]
    if not np.any(noise):
        penalty = np.append(dispersion * ridge, 0.0)
        coef = fit_tables(design, loss, linear, penalty, tol=tol, start=coef).coef
    elif dense:
        coef, _ = _posterior(design, loss, sums, noise, coef, ridge, dispersion, intercept)
        flattery = _flattery(design, loss, noise, coef, ridge, dispersion)
        coef = no_worse_than_constant(design, loss, linear, noise, coef, constant, flattery, dispersion)
    return EvidenceFit(coef, variances, dispersion, iteration + 1)


def _fit_many_cells(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    order: NDArray[np.int64],
    square_sum: float | None,
    label_bounds: tuple[float, float] | None,
    tol: float,
    max_iter: int,
) -> EvidenceFit:
    """Penalties from the cells that say most, rare ones merged; then the coefficients of all cells."""
    cell_of_cell, offsets = merge_rare(design, noise, order, max(DENSE_CELLS - order.size, 0))
    n_merged = int(offsets[-1])
    fit = _fit_penalties(
        design.merged(cell_of_cell, offsets),
        loss,
        np.stack([np.bincount(cell_of_cell, row, n_merged) for row in sums]),
        np.bincount(cell_of_cell, noise, n_merged).astype(np.float64, copy=False),
        order,
        square_sum,
        label_bounds,
        tol,
        max_iter,
    )
    start = np.column_stack([fit.coef[:, cell_of_cell], fit.coef[:, -1]])
    prior = fit.variances[design.set_of_cell()]
    intercept = intercept_prior(loss, label_bounds)
    coef, flattery = filtered_mode(design, loss, sums, noise, start, prior, fit.dispersion, intercept)
    if flattery is not None:
        linear = np.column_stack([sums, total_sum(design, sums, noise)])
        constant = constant_model(design, loss, linear, noise, label_bounds)
        coef = no_worse_than_constant(design, loss, linear, noise, coef, constant, flattery, fit.dispersion)
    return EvidenceFit(coef, fit.variances, fit.dispersion, fit.n_iter)


def _posterior(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    coef: FloatArray,
    ridge: FloatArray,
    dispersion: float,
    intercept: tuple[float, float] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """One Gauss–Newton step of the posterior mode; the mode and the posterior variances per cell."""
    _, mean = partition(loss, design.scores(coef))
    curvature = variance(loss, mean) / dispersion
    multiplicity = 1.0 if design.multiplicity is None else design.multiplicity
    residual = (sums - design.scatter(mean * multiplicity)[:, :-1]) / dispersion
    scaled_noise = noise / dispersion**2
    first_set = slice(0, int(design.offsets[1]))
    new = coef.copy()
    spread = np.empty_like(sums)
    gram: FloatArray | None = None
    for k in range(coef.shape[0]):
        if gram is None or loss != "squared":
            gram = design.gram(curvature[k])
        information, pull = gram, residual[k]
        if np.any(noise):
            # As G(G + N)⁻¹G = BᵀB with B = L⁻¹G, L Cholesky's factor of G + N: nothing cancels, however large N is.
            # Labels of a small range far from 0 leave less noise than the rounding of G.
            least = 1e-12 * float(np.max(np.diag(gram)))
            factor = cholesky(gram + np.diag(np.maximum(scaled_noise, least)), lower=True)
            half = solve_triangular(factor, gram, lower=True)
            information = _gram_of(half)
            pull = half.T @ solve_triangular(factor, pull, lower=True)
        # The intercept's column of the design is the sum of any one set's columns.
        column = information[:, first_set].sum(axis=1)
        full = np.empty((ridge.size + 1, ridge.size + 1))
        full[:-1, :-1] = information
        full[:-1, -1] = full[-1, :-1] = column
        full[-1, -1] = column[first_set].sum()
        # Exact labels leave the intercept free.
        centre, free = (0.0, 0.0) if intercept is None else (intercept[0], 1.0 / intercept[1])
        full_ridge = np.append(ridge, free)
        full[np.diag_indices_from(full)] += full_ridge
        full[-1, -1] += 1e-8 * (1.0 + full[-1, -1])
        gradient = np.append(pull, pull[first_set].sum()) - full_ridge * coef[k]
        gradient[-1] += free * centre
        step, variances = _solve_with_variances(full, gradient)
        # Classes are stepped separately although softmax couples them: damped, as that overshoots by up to 2.
        length = 0.7 if loss == "multinomial" else 1.0
        if loss != "squared":
            length *= min(1.0, 4.0 / max(float(np.max(np.abs(step))), 1e-300))
        new[k] += length * step
        spread[k] = variances[:-1]
    return new, spread


def _flattery(
    design: CellDesign,
    loss: LossName,
    noise: FloatArray,
    coef: FloatArray,
    ridge: FloatArray,
    dispersion: float,
) -> float:
    """By how much the posterior mode fits its own sums better than new ones: the trace of C G, see `_posterior`."""
    _, mean = partition(loss, design.scores(coef))
    total = 0.0
    for weight in variance(loss, mean) / dispersion:
        gram = design.gram(weight)
        least = 1e-12 * float(np.max(np.diag(gram)))
        factor = cholesky(gram + np.diag(np.maximum(noise / dispersion**2, least)), lower=True)
        half = solve_triangular(factor, gram, lower=True)
        posterior = _gram_of(half)
        posterior[np.diag_indices_from(posterior)] += ridge
        total += dispersion * float(np.trace(cho_solve(cho_factor(posterior), gram)))
    return total


def _diagonal_posterior(
    design: CellDesign,
    loss: LossName,
    linear: FloatArray,
    coef: FloatArray,
    ridge: FloatArray,
    dispersion: float,
) -> tuple[FloatArray, FloatArray]:
    """Posterior of exact sums: the mode, and variances from the diagonal of the information."""
    _, mean = partition(loss, design.scores(coef))
    multiplicity = 1.0 if design.multiplicity is None else design.multiplicity
    own = design.scatter(variance(loss, mean) * multiplicity)[:, :-1] / dispersion
    penalty = np.append(dispersion * ridge, 0.0)
    new = fit_tables(design, loss, linear, penalty, tol=1e-4, start=coef).coef
    return new, 1.0 / (own + ridge)


def _dispersion(
    design: CellDesign,
    linear: FloatArray,
    coef: FloatArray,
    square_sum: float | None,
    current: float,
    ceiling: float,
    noise: FloatArray,
) -> float:
    """Residual variance, between a small share of the labels' variance and all of it."""
    if square_sum is None:
        return current
    scores = design.scores(coef)
    multiplicity = 1.0 if design.multiplicity is None else design.multiplicity
    fitted = float(np.sum(scores**2 * multiplicity))
    n = design.n_samples
    residual = (square_sum - 2.0 * float(np.sum(linear * coef)) + fitted) / n
    # Noise in the sums moves the estimate; what it cannot resolve must not be taken for a perfect fit.
    error = 2.0 * float(np.sqrt(np.sum(noise * coef[:, :-1] ** 2))) / n
    floor = max(error, (0.05 if np.any(noise) else 1e-3) * ceiling)
    return float(np.clip(residual, min(floor, ceiling), ceiling))


def _gram_of(half: FloatArray) -> FloatArray:
    """BᵀB by half the operations of a general product."""
    lower: FloatArray = blas.dsyrk(1.0, half, trans=1, lower=1)
    return lower + np.tril(lower, -1).T


def _solve_with_variances(matrix: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solution and the diagonal of the inverse."""
    size = matrix.shape[0]
    jitter = 0.0
    for _ in range(8):
        factor, info = lapack.dpotrf(matrix + jitter * np.eye(size) if jitter else matrix, lower=1)
        if info == 0:
            break
        jitter = max(10 * jitter, 1e-10 * float(np.max(np.diag(matrix))))
    solution, _ = lapack.dpotrs(factor, right, lower=1)
    root, _ = lapack.dtrtri(factor, lower=1)
    root = np.tril(root)
    return solution, np.einsum("ij,ij->j", root, root)
