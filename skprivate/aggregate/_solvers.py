"""Minimising the aggregate training objective over tables of coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize

from skprivate._progress import steps
from skprivate.aggregate._design import CellDesign
from skprivate.aggregate._losses import FloatArray, LossName, link, partition, variance

#: Rough costs that decide whether a dense factor pays: one floating-point operation of a Cholesky factorisation, one
#: gather and scatter of a row, and the passes over the rows that the factor saves.
_SECONDS_PER_FLOP = 1e-10
_SECONDS_PER_GATHER = 1e-8
_PASSES_SAVED = 100


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients of shape (n_outputs, n_cells + 1), the objective there, and how it was reached."""

    coef: FloatArray
    objective: float
    n_passes: int
    converged: bool


def constant_start(design: CellDesign, loss: LossName, linear: FloatArray) -> FloatArray:
    """Coefficients of the constant model with the right mean."""
    start = np.zeros_like(linear)
    start[:, -1] = link(loss, linear[:, -1] / max(design.n_samples, 1))
    return start


def fit_tables(
    design: CellDesign,
    loss: LossName,
    linear: FloatArray,
    ridge: FloatArray,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    start: FloatArray | None = None,
) -> Solution:
    """Minimise F(coef) = Σ b(score) − Σ linear·coef + ½ Σ ridge·coef² by preconditioned L-BFGS.

    The variables are transformed by the Hessian at the constant model. Where its Cholesky factor costs less than the
    passes it saves, the whole matrix is used (the sets of overlapping feature sets are strongly collinear);
    otherwise its diagonal, which at least brings cells of one row and of a hundred thousand to the same curvature.

    Parameters
    ----------
    design : CellDesign
    loss : {"squared", "log", "multinomial", "poisson"}
    linear : ndarray, shape (n_outputs, n_cells + 1)
        Label sums per cell, the total last.
    ridge : ndarray, shape (n_cells + 1,)
        Zero for the intercept.
    tol : float
        Largest entry of the scaled gradient of the mean objective at the solution.
    max_iter : int
    start : ndarray, optional
    """
    n = max(design.n_samples, 1)
    first = constant_start(design, loss, linear) if start is None else start
    change = _change_of_variables(design, loss, first, ridge)
    passes = 0

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal passes
        passes += 1
        step()
        coef = first + change.to_coef(flat.reshape(first.shape))
        value, gradient = design.value_and_gradient(coef, loss, linear, ridge)
        return value / n, change.to_gradient(gradient / n).ravel()

    with steps("coefficients", 2 * max_iter) as step:
        result = minimize(
            objective,
            np.zeros(first.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20},
        )
    coef = first + change.to_coef(result.x.reshape(first.shape))
    return Solution(coef, float(result.fun), passes, bool(np.max(np.abs(result.jac)) <= tol))


@dataclass(frozen=True, eq=False)
class _Change:
    """coef = R⁻¹ u for an upper triangular R with RᵀR ≈ Hessian; a vector stands for a diagonal R."""

    factor: FloatArray

    def to_coef(self, u: FloatArray) -> FloatArray:
        if self.factor.ndim == 1:
            return u / self.factor
        return solve_triangular(self.factor, u.T, check_finite=False).T

    def to_gradient(self, gradient: FloatArray) -> FloatArray:
        if self.factor.ndim == 1:
            return gradient / self.factor
        return solve_triangular(self.factor, gradient.T, trans="T", check_finite=False).T


def _change_of_variables(design: CellDesign, loss: LossName, start: FloatArray, ridge: FloatArray) -> _Change:
    n = max(design.n_samples, 1)
    size = design.n_cells + 1
    _, mean = partition(loss, start[:, -1:])
    weight = float(np.mean(variance(loss, mean)))
    counts = np.append(design.counts, n)
    floor = 1e-10 * n
    if (
        size**3 / 3 * _SECONDS_PER_FLOP
        < _PASSES_SAVED * design.n_rows * design.n_groups * _SECONDS_PER_GATHER + 0.1
    ):
        hessian = np.empty((size, size))
        hessian[:-1, :-1] = design.gram(np.ones(design.n_rows))
        hessian[-1, :] = hessian[:, -1] = counts
        hessian *= weight
        hessian[np.diag_indices(size)] += ridge + floor
        try:
            return _Change(cholesky(hessian / n, overwrite_a=True, check_finite=False))
        except LinAlgError:
            pass
    return _Change(np.sqrt((weight * counts + ridge + floor) / n))
