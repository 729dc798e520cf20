"""Penalties from the aggregates themselves: one variance component per feature set, the label noise being known.

Model. Coefficients of feature set j are N(0, τ_j) a priori, the intercept is free. At the current fit the label sums of
all cells are s = Aᵀμ + G(θ − θ₀) + e with e ~ N(0, G + N): G = AᵀWA (W the loss's curvature per row) is their
sampling covariance and N the *known* variance of the noise added for label privacy. Hence

* generalised least squares: θ maximises the posterior through M = G(G + N)⁻¹G. It filters the noise out of the
  differences between sums that must agree (a pair's table adds up to its columns' tables), and equals the penalised
  likelihood of individual labels where N = 0;
* the τ_j maximise the marginal likelihood by MacKay's fixed point τ_j = ‖θ_j‖² / γ_j, γ_j = d_j − tr(C_jj)/τ_j with C
  the posterior covariance.

All of it reads noisy sums and public counts only: post-processing without privacy cost.

For many cells the mode is found by conjugate gradients. With θ ~ N(m, T) it is

    θ = m + T Gᵀ x,    S x = s − G m,    S = N + G + G T Gᵀ,

which needs products with G only: two gathers and two scatters of the rows, and no matrix over the cells. Columns and
the intercept have wide priors and many rows, so that S has few huge eigenvalues beside many moderate ones. The part of
those cells in G T Gᵀ goes into the preconditioner, by Woodbury's formula. For the residual r of x, the coefficients'
error in prior standard deviations has a norm of at most ‖N^(-1/2) r‖: with Δ = S⁻¹r it is ‖T^(1/2) Gᵀ Δ‖ ≤ √(Δᵀ S Δ) =
√(rᵀ S⁻¹ r), and S ≥ N. The iteration stops by this bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_factor, cho_solve, cholesky, lapack, solve_triangular
from sklearn.exceptions import ConvergenceWarning

from skprivate._sklearn import steps
from skprivate.aggregate._losses import FloatArray, Prior
from skprivate.aggregate.additive import _design
from skprivate.aggregate.additive._constant import LabelSums, no_worse_than_constant
from skprivate.privacy import warn_caller

#: Prior variances are kept within these multiples of the scale of the scores.
_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-6, 10.0
#: Weight of the starting values, in coefficients per feature set: little data must not prune or free a whole set.
#: More of it keeps useless crosses alive.
_PRIOR_WEIGHT = 0.1
_START_VARIANCE = (0.5, 0.005)
#: Standard deviations of the scores come from a prior of mean 4 (in those of the labels, for squares). Noise alone may
#: find a large one for a set of little information.
_SCALE_PRIOR = 0.25
#: Up to this many cells the posterior covariance is formed; each update of the penalties takes its cube.
DENSE_CELLS = 1000
#: Steps to the mode between two updates for more cells: the next update goes on from there.
_STEPS_PER_UPDATE = 8
#: Bound on the error of all coefficients together, in prior standard deviations.
_ERROR = 0.1
#: Most cells whose part of S is in the preconditioner, and most numbers in it.
_STRONG_CELLS = 200
_MOST_STRONG_NUMBERS = 2e7
#: Gauss–Newton steps for losses that are not quadratic.
_NEWTON_STEPS = 12
#: Most products with S per output, and most gathers in all.
_MOST_PRODUCTS = 1500
_MOST_GATHERS = 1e10


@dataclass(frozen=True, eq=False)
class EvidenceFit:
    """Coefficients (n_outputs, n_cells + 1), prior variance per set, dispersion (1 but for squares), updates."""

    coef: FloatArray
    variances: FloatArray
    dispersion: float
    n_iter: int


def fit_evidence(problem: LabelSums, order: NDArray[np.int64], *, tol: float = 1e-6, max_iter: int = 12) -> EvidenceFit:
    """Estimate the penalties by marginal likelihood, and the coefficients under them.

    ``order`` is the number of columns of each feature set. ``tol`` is for the final fit.
    """
    design = problem.design
    if design.n_cells <= DENSE_CELLS or not problem.is_noisy:
        return _fit_penalties(problem, order, tol, max_iter)
    # Penalties from the cells with most information, rare ones merged; then the coefficients of all cells.
    cell_of_cell, offsets = merge_rare(design, problem.noise, order, max(DENSE_CELLS - order.size, 0))
    n_merged = int(offsets[-1])
    merged = replace(
        problem,
        design=design.merged(cell_of_cell, offsets),
        sums=np.stack([np.bincount(cell_of_cell, row, n_merged) for row in problem.sums]),
        noise=np.bincount(cell_of_cell, problem.noise, n_merged).astype(np.float64, copy=False),
    )
    fit = _fit_penalties(merged, order, tol, max_iter)
    start = np.column_stack([fit.coef[:, cell_of_cell], fit.coef[:, -1]])
    prior = fit.variances[design.set_of_cell()]
    intercept = problem.loss.intercept_prior(problem.label_bounds)
    coef, optimism = filtered_mode(problem, start, prior, fit.dispersion, intercept)
    if optimism is not None:
        coef = no_worse_than_constant(problem, coef, optimism, fit.dispersion)
    return replace(fit, coef=coef)


def _fit_penalties(problem: LabelSums, order: NDArray[np.int64], tol: float, max_iter: int) -> EvidenceFit:
    design, loss, noisy = problem.design, problem.loss, problem.is_noisy
    intercept = loss.intercept_prior(problem.label_bounds) if noisy else None
    coef = problem.constant
    scale = dispersion = problem.dispersion
    set_of_cell = design.set_of_cell()
    n_sets = order.size
    size = np.bincount(set_of_cell, minlength=n_sets)
    start = scale * np.where(order == 1, *_START_VARIANCE)
    variances = start.copy()
    dense = design.n_cells <= DENSE_CELLS or noisy
    with steps("penalties", max_iter) as step:
        for iteration in range(max_iter):
            ridge = 1.0 / variances[set_of_cell]
            if dense:
                coef, spread = _posterior(problem, coef, ridge, dispersion, intercept)
            else:
                coef, spread = _diagonal_posterior(problem, coef, ridge, dispersion)
            squares = np.bincount(set_of_cell, (coef[:, :-1] ** 2).sum(axis=0), n_sets)
            trace = np.bincount(set_of_cell, spread.sum(axis=0), n_sets)
            n_coef = size * coef.shape[0]
            if iteration < 2:
                # EM steps first: they cannot leave the neighbourhood of the start as fast as the fixed point does.
                target = (squares + trace + _PRIOR_WEIGHT * start) / (n_coef + _PRIOR_WEIGHT)
            else:
                effective = np.maximum(n_coef - trace / variances, 0.0)
                if noisy:
                    effective = effective + _SCALE_PRIOR * np.sqrt(variances / scale)
                target = (squares + _PRIOR_WEIGHT * start) / (effective + _PRIOR_WEIGHT)
            new = np.clip(target, scale * _SMALLEST_VARIANCE, scale * _LARGEST_VARIANCE)
            converged = bool(np.all(np.abs(np.log(new / variances)) < 0.1))
            variances = new
            if loss.quadratic:
                dispersion = _residual_variance(problem, coef, dispersion)
            step()
            if converged and iteration >= 2:
                break
    ridge = 1.0 / variances[set_of_cell]
    if not noisy:
        penalty = np.append(dispersion * ridge, 0.0)
        coef = _design.fit_tables(design, loss, problem.linear, penalty, tol=tol, start=coef).coef
    else:
        coef, _ = _posterior(problem, coef, ridge, dispersion, intercept)
        optimism = _optimism(problem, coef, ridge, dispersion)
        coef = no_worse_than_constant(problem, coef, optimism, dispersion)
    return EvidenceFit(coef, variances, dispersion, iteration + 1)


def _filter(gram: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factor G(G + N)⁻¹G = BᵀB with B = L⁻¹G; return B and Cholesky's factor L of G + N.

    Nothing cancels, however large N is. Labels of a small range far from 0 leave less noise than the rounding of G.
    """
    least = 1e-12 * float(np.max(np.diag(gram)))
    factor = cholesky(gram + np.diag(np.maximum(noise, least)), lower=True)
    return solve_triangular(factor, gram, lower=True), factor


def _posterior(
    problem: LabelSums, coef: FloatArray, ridge: FloatArray, dispersion: float, intercept: Prior | None = None
) -> tuple[FloatArray, FloatArray]:
    """Take a Gauss–Newton step to the posterior mode; returns it and the posterior variances per cell."""
    design, loss = problem.design, problem.loss
    mean, curvature = loss.moments(design.scores(coef))
    curvature = curvature / dispersion
    residual = (problem.sums - design.scatter(mean * problem.multiplicity)[:, :-1]) / dispersion
    complete = int(np.argmax(design.complete_sets()))
    all_rows = slice(*design.offsets[complete : complete + 2].tolist())
    new = coef.copy()
    spread = np.empty_like(problem.sums)
    gram: FloatArray | None = None
    for k in range(coef.shape[0]):
        if gram is None or not loss.quadratic:
            gram = design.gram(curvature[k])
        information, pull = gram, residual[k]
        if problem.is_noisy:
            half, factor = _filter(gram, problem.noise / dispersion**2)
            information = _gram_of(half)
            pull = half.T @ solve_triangular(factor, pull, lower=True)
        # The intercept's column of the design is the sum of the columns of any one set of all rows.
        column = information[:, all_rows].sum(axis=1)
        full = np.empty((ridge.size + 1, ridge.size + 1))
        full[:-1, :-1] = information
        full[:-1, -1] = full[-1, :-1] = column
        full[-1, -1] = column[all_rows].sum()
        # Exact labels leave the intercept free.
        centre, free = (0.0, 0.0) if intercept is None else (intercept[0], 1.0 / intercept[1])
        centre = np.broadcast_to(centre, len(coef))[k]
        full_ridge = np.append(ridge, free)
        full[np.diag_indices_from(full)] += full_ridge
        full[-1, -1] += 1e-8 * (1.0 + full[-1, -1])
        gradient = np.append(pull, pull[all_rows].sum()) - full_ridge * coef[k]
        gradient[-1] += free * centre
        step, variances = _solve_with_variances(full, gradient)
        new[k] += loss.step_length(step) * step
        spread[k] = variances[:-1]
    return new, spread


def _optimism(problem: LabelSums, coef: FloatArray, ridge: FloatArray, dispersion: float) -> float:
    """Compute by how much the posterior mode fits its own sums better than new ones: the trace of C G."""
    design, loss = problem.design, problem.loss
    total = 0.0
    for weight in loss.moments(design.scores(coef))[1] / dispersion:
        gram = design.gram(weight)
        posterior = _gram_of(_filter(gram, problem.noise / dispersion**2)[0])
        posterior[np.diag_indices_from(posterior)] += ridge
        total += dispersion * float(np.trace(cho_solve(cho_factor(posterior), gram)))
    return total


def _diagonal_posterior(
    problem: LabelSums, coef: FloatArray, ridge: FloatArray, dispersion: float
) -> tuple[FloatArray, FloatArray]:
    """Step towards the posterior mode of exact sums; and variances from the diagonal of the information."""
    design, loss = problem.design, problem.loss
    _, curvature = loss.moments(design.scores(coef))
    information = design.scatter(curvature * problem.multiplicity)[:, :-1] / dispersion
    penalty = np.append(dispersion * ridge, 0.0)
    new = _design.fit_tables(
        design, loss, problem.linear, penalty, tol=1e-4, max_iter=_STEPS_PER_UPDATE, start=coef
    ).coef
    return new, 1.0 / (information + ridge)


def _residual_variance(problem: LabelSums, coef: FloatArray, current: float) -> float:
    """Estimate the residual variance, between a small share of the labels' variance and all of it."""
    if problem.square_sum is None:
        return current
    design, ceiling = problem.design, problem.dispersion
    fitted = float(np.sum(design.scores(coef) ** 2 * problem.multiplicity))
    n = design.n_samples
    residual = (problem.square_sum - 2.0 * float(np.sum(problem.linear * coef)) + fitted) / n
    # Noise in the sums moves the estimate; what it cannot resolve must not be taken for a perfect fit.
    error = 2.0 * float(np.sqrt(np.sum(problem.noise * coef[:, :-1] ** 2))) / n
    floor = max(error, (0.05 if problem.is_noisy else 1e-3) * ceiling)
    return float(np.clip(residual, min(floor, ceiling), ceiling))


def _gram_of(half: FloatArray) -> FloatArray:
    """Compute BᵀB by half the operations of a general product."""
    lower: FloatArray = blas.dsyrk(1.0, half, trans=1, lower=1)
    return lower + np.tril(lower, -1).T


def _solve_with_variances(matrix: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve, and return the diagonal of the inverse too."""
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


def merge_rare(
    design: _design.CellDesign, noise: FloatArray, order: NDArray[np.int64], n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Merge the cells with the fewest rows for their noise, one rest cell per set, until ``n_cells`` others are left.

    Cells of crosses go first, because their columns show the same rows; rare values of a column have no other table.
    Returns the new cell of every cell, and the offsets of the new cells.
    """
    information = design.counts / np.maximum(noise, 1e-300)
    keep = np.zeros(information.size, dtype=bool)
    keep[np.lexsort((-information, order[design.set_of_cell()]))[:n_cells]] = True
    cell_of_cell = np.empty(information.size, dtype=np.int64)
    offsets = [0]
    for start, stop in zip(design.offsets[:-1], design.offsets[1:], strict=True):
        kept = keep[start:stop]
        n_kept = int(kept.sum())
        cell_of_cell[start:stop] = offsets[-1] + np.where(kept, np.cumsum(kept) - 1, n_kept)
        offsets.append(offsets[-1] + n_kept + (not kept.all()))
    return cell_of_cell, np.array(offsets, dtype=np.int64)


def filtered_mode(
    problem: LabelSums, start: FloatArray, prior: FloatArray, dispersion: float, intercept: Prior | None
) -> tuple[FloatArray, float | None]:
    """Find the posterior mode of the coefficients of all cells, and the optimism of its fit to its own sums.

    The optimism is the trace of ∂θ/∂z (G + N), by one sample of noise. If the work allowed is not enough, the result is
    ``start`` and None, with a warning. ``prior`` holds the prior variances (n_cells,).
    """
    design, loss, n_outputs = problem.design, problem.loss, len(problem.sums)
    work = design.n_rows * max(design.n_groups, 1)
    products = min(_MOST_PRODUCTS * n_outputs, int(_MOST_GATHERS / work))
    n_strong = min(_STRONG_CELLS, products // (4 * n_outputs), int(_MOST_STRONG_NUMBERS / design.n_cells))
    preconditioners: list[_Preconditioner | None] = [None] * n_outputs
    n_steps = 1 if loss.quadratic else _NEWTON_STEPS
    coef, solutions = start.copy(), np.zeros_like(problem.sums)
    noise = np.maximum(problem.noise / dispersion**2, 1e-12 * float(np.max(design.counts)) / dispersion)
    centre = np.zeros((n_outputs, design.n_cells + 1))
    if intercept is None:  # as free as rounding allows
        centre[:, -1], free = start[:, -1], 100.0 * max(dispersion, 1.0)
    else:
        centre[:, -1], free = intercept
    spread = np.append(prior, free)
    with steps("noise filter", n_steps) as step:
        for _ in range(n_steps):
            mean, curvature = loss.moments(design.scores(coef))
            curvature = curvature * problem.multiplicity / dispersion
            systems = [_System(design, of_output, noise, spread) for of_output in curvature]
            pull = (problem.sums - design.scatter(mean * problem.multiplicity)[:, :-1]) / dispersion
            moved = 0.0
            for k, system in enumerate(systems):
                preconditioner = preconditioners[k]
                if preconditioner is None:
                    preconditioner = _Preconditioner(system, n_strong)
                    products -= preconditioner.n_products
                right = pull[k] + system.forward(coef[k] - centre[k])
                solutions[k], converged, used = system.solve(right, solutions[k], preconditioner, products)
                # It serves the next steps too, unless the curvature changes much.
                preconditioners[k] = preconditioner if used < n_strong else None
                products -= used
                if not converged:
                    warn_caller(
                        f"the noise filter of {design.n_cells} cells did not converge in the work allowed, so that "
                        "cells of few rows share one coefficient a feature set: use fewer feature sets or bins.",
                        ConvergenceWarning,
                    )
                    return start, None
                change = centre[k] + spread * system.adjoint(solutions[k]) - coef[k]
                coef[k] += change * loss.step_length(change)
                moved += float(np.sum(change**2 / spread))
            step()
            # Each step has this precision only.
            if moved < (3 * _ERROR) ** 2 * n_outputs:
                break
    optimism = 0.0
    for system, kept, noise_sample in zip(
        systems, preconditioners, problem.simulate_noise(coef, dispersion), strict=True
    ):
        preconditioner = kept or _Preconditioner(system, n_strong)
        right, start = noise_sample / dispersion, np.zeros_like(noise_sample)
        solution, _, _ = system.solve(right, start, preconditioner, max(products, n_strong))
        optimism += float(noise_sample @ (spread * system.adjoint(solution))[:-1])
    return coef, optimism


class _System:
    """S = N + G + G T Gᵀ of one output, in units that make N one."""

    def __init__(
        self, design: _design.CellDesign, curvature: FloatArray, noise: FloatArray, spread: FloatArray
    ) -> None:
        self.design, self.curvature, self.spread = design, curvature, spread
        self.root = np.sqrt(noise)
        self.diagonal = design.scatter(curvature[np.newaxis])[0, :-1]  # of G

    def forward(self, coef: FloatArray) -> FloatArray:
        """Multiply with G: the sums that coefficients of all cells and the intercept predict."""
        return self._sums(coef)[:-1]

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Multiply the solution, in units of the noise, with Gᵀ."""
        return self._sums(np.append(x / self.root, 0.0))

    def product(self, x: FloatArray) -> FloatArray:
        scaled = np.append(x / self.root, 0.0)
        return np.asarray(x + self.forward(scaled + self.spread * self._sums(scaled)) / self.root)

    def column(self, cell: int) -> FloatArray:
        """Compute one column of N^(-1/2) G T^(1/2)."""
        unit = np.zeros(self.spread.size)
        unit[cell] = np.sqrt(self.spread[cell])
        return np.asarray(self.forward(unit) / self.root)

    def solve(
        self, right: FloatArray, start: FloatArray, preconditioner: _Preconditioner, budget: int
    ) -> tuple[FloatArray, bool, int]:
        """Solve by conjugate gradients; returns whether the error is within its bound, and the products used."""
        x = start.copy()
        target = right / self.root
        residual = target - self.product(x)
        direction = fall = preconditioner.solve(residual)
        size = float(residual @ fall)
        used = 1
        while float(residual @ residual) > _ERROR**2 and used < budget:
            image = self.product(direction)
            length = size / float(direction @ image)
            x += length * direction
            residual -= length * image
            fall = preconditioner.solve(residual)
            new = float(residual @ fall)
            direction = fall + (new / size) * direction
            size = new
            used += 1
        # The recurrence drifts from the residual: the bound is claimed for the residual itself.
        residual = target - self.product(x)
        return x, bool(residual @ residual <= (2 * _ERROR) ** 2), used + 1

    def _sums(self, coef: FloatArray) -> FloatArray:
        scores = self.design.scores(coef[np.newaxis])
        return np.asarray(self.design.scatter(scores * self.curvature)[0])


class _Preconditioner:
    """Preconditioner of S: its diagonal, and the whole part of the cells with the largest diagonal."""

    def __init__(self, system: _System, n_strong: int) -> None:
        noise = system.root**2
        strength = system.spread[:-1] * system.diagonal**2 / noise
        strong = np.argsort(-strength, kind="stable")[:n_strong]
        strength[strong] = 0.0
        self.diagonal = 1.0 + system.diagonal / noise + strength
        self.part = np.column_stack([system.column(cell) for cell in [*strong.tolist(), noise.size]])
        self.n_products = (strong.size + 1) // 2
        small = self.part.T @ (self.part / self.diagonal[:, np.newaxis])
        small[np.diag_indices_from(small)] += 1.0
        self.factor = cho_factor(small)

    def solve(self, residual: FloatArray) -> FloatArray:
        first = residual / self.diagonal
        rest = self.part @ cho_solve(self.factor, self.part.T @ first)
        return np.asarray(first - rest / self.diagonal)
