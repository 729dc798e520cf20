"""The noise filter for many cells: the posterior mode by conjugate gradients, with a bound on what is left out.

The model is that of the penalties: sums s = Gθ + e about the current fit, e ~ N(0, G + N), θ ~ N(m, T). Its mode is

    θ = m + T Gᵀ x,    S x = s − G m,    S = N + G + G T Gᵀ,

which needs products with G = AᵀWA only: two gathers and two scatters of the rows, and no matrix over the cells. Columns
and the intercept have wide priors and many rows, so that S has few huge eigenvalues beside many moderate ones:
those cells' part of G T Gᵀ goes into the preconditioner, by Woodbury's formula. The noise N is a floor under S. Where r
is the residual of x, the coefficients' error in prior standard deviations has a norm of at most ‖N^(-1/2) r‖: for
Δ = S⁻¹r it is ‖T^(1/2) Gᵀ Δ‖ ≤ √(Δᵀ S Δ) = √(rᵀ S⁻¹ r). The iteration stops by this bound.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from skprivate._progress import steps
from skprivate.aggregate._losses import FloatArray, LossName, partition, variance
from skprivate.aggregate.additive._constant import own_noise
from skprivate.aggregate.additive._design import CellDesign
from skprivate.privacy import warn_caller

#: Prior scores of standard deviation 3, in place of a free intercept where label sums are noisy.
_INTERCEPT_VARIANCE = 9.0
#: Bound on the error of all coefficients together, in prior standard deviations.
_ERROR = 0.1
#: Cells whose part of S is in the preconditioner, at most, and numbers that it may hold.
_STRONG_CELLS = 200
_MOST_NUMBERS = 2e7
#: Gauss–Newton steps for losses that are not quadratic.
_NEWTON_STEPS = 12
#: Products with S: at most so many an output, and fewer where rows and groups are many.
_MOST_PRODUCTS = 1500
_MOST_GATHERS = 1e10


def intercept_prior(loss: LossName, label_bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """Mean and variance of the intercept a priori, from public numbers; None is a free one.

    Means of labels of an interval are taken to be in its middle, give or take a quarter of it.
    """
    if loss in ("log", "multinomial"):
        return 0.0, _INTERCEPT_VARIANCE
    if label_bounds is None:
        return None if loss == "squared" else (0.0, _INTERCEPT_VARIANCE)
    low, high = label_bounds
    middle = low / 2 + high / 2
    if loss == "squared":
        return middle, (high - low) ** 2 / 16
    return math.log(middle), _INTERCEPT_VARIANCE


def merge_rare(
    design: CellDesign, noise: FloatArray, order: NDArray[np.int64], n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Merge the cells with the fewest rows for their noise, one rest cell per set, until few enough are left.

    Cells of crosses go first: rare values of a column are told by no other table, those of a cross by its columns.

    Parameters
    ----------
    design : CellDesign
    noise : ndarray, shape (n_cells,)
        Variance of the noise in each label sum.
    order : ndarray of int, shape (n_sets,)
        Number of columns of each feature set.
    n_cells : int
        Cells to keep, one per set aside.

    Returns
    -------
    cell_of_cell : ndarray of int64, shape (n_cells,)
    offsets : ndarray of int64, shape (n_sets + 1,)
        Of the new cells, as in `CellDesign`.
    """
    said = design.counts / np.maximum(noise, 1e-300)
    keep = np.zeros(said.size, dtype=bool)
    keep[np.lexsort((-said, order[design.set_of_cell()]))[:n_cells]] = True
    cell_of_cell = np.empty(said.size, dtype=np.int64)
    offsets = [0]
    for start, stop in zip(design.offsets[:-1], design.offsets[1:], strict=True):
        own = keep[start:stop]
        n_kept = int(own.sum())
        cell_of_cell[start:stop] = offsets[-1] + np.where(own, np.cumsum(own) - 1, n_kept)
        offsets.append(offsets[-1] + n_kept + (not own.all()))
    return cell_of_cell, np.array(offsets, dtype=np.int64)


def filtered_mode(
    design: CellDesign,
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    start: FloatArray,
    prior: FloatArray,
    dispersion: float,
    intercept: tuple[float, float] | None,
) -> tuple[FloatArray, float | None]:
    """Posterior mode of the coefficients of all cells, and by how much it flatters its own sums.

    Where the work allowed is not enough it is ``start`` and None, and a warning.

    Parameters
    ----------
    design : CellDesign
    loss : {"squared", "log", "multinomial", "poisson"}
    sums : ndarray, shape (n_outputs, n_cells)
    noise : ndarray, shape (n_cells,)
        Variance of the noise in each sum, above 0.
    start : ndarray, shape (n_outputs, n_cells + 1)
    prior : ndarray, shape (n_cells,)
        Prior variances.
    dispersion : float
    intercept : (float, float) or None
        Mean and variance of the intercept's prior; None leaves it as free as rounding allows.

    Returns
    -------
    coef : ndarray, shape (n_outputs, n_cells + 1)
    flattery : float or None
        Trace of ∂θ/∂z (G + N), by one draw of noise that goes the same way as the sums.
    """
    n_outputs = sums.shape[0]
    work = design.n_rows * max(design.n_groups, 1)
    products = min(_MOST_PRODUCTS * n_outputs, int(_MOST_GATHERS / work))
    n_strong = min(_STRONG_CELLS, products // (4 * n_outputs), int(_MOST_NUMBERS / design.n_cells))
    rough: list[_Rough | None] = [None] * n_outputs
    n_steps = 1 if loss == "squared" else _NEWTON_STEPS
    multiplicity = np.ones(design.n_rows) if design.multiplicity is None else design.multiplicity
    coef, solutions = start.copy(), np.zeros_like(sums)
    scaled = np.maximum(noise / dispersion**2, 1e-12 * float(np.max(design.counts)) / dispersion)
    centre = np.zeros((coef.shape[0], design.n_cells + 1))
    if intercept is None:
        centre[:, -1], free = start[:, -1], 100.0 * max(dispersion, 1.0)
    else:
        centre[:, -1], free = intercept
    spread = np.append(prior, free)
    length = 0.7 if loss == "multinomial" else 1.0
    with steps("noise filter", n_steps) as step:
        for _ in range(n_steps):
            _, mean = partition(loss, design.scores(coef))
            curvature = variance(loss, mean) * multiplicity / dispersion
            systems = []
            pull = (sums - design.scatter(mean * multiplicity)[:, :-1]) / dispersion
            moved = 0.0
            for k in range(coef.shape[0]):
                system = _System(design, curvature[k], scaled, spread)
                systems.append(system)
                inverse = rough[k]
                if inverse is None:
                    inverse = _Rough(system, n_strong)
                    products -= inverse.n_products
                right = pull[k] + system.expected(coef[k] - centre[k])
                found, done, spent = system.solve(right, solutions[k], inverse, products)
                # It serves the next steps too, unless the curvature changes much.
                rough[k] = inverse if spent < n_strong else None
                products -= spent
                if not done:
                    warn_caller(
                        f"the noise filter of {design.n_cells} cells did not converge in the work allowed, so that "
                        "cells of few rows share one coefficient a feature set: use fewer feature sets or bins.",
                        ConvergenceWarning,
                    )
                    return start, None
                solutions[k] = found
                change = centre[k] + spread * system.pulled(found) - coef[k]
                size = float(np.max(np.abs(change)))
                coef[k] += change * (1.0 if loss == "squared" else length * min(1.0, 4.0 / max(size, 1e-300)))
                moved += float(np.sum(change**2 / spread))
            step()
            # Each step is known to so much only.
            if moved < (3 * _ERROR) ** 2 * n_outputs:
                break
    own = own_noise(design, loss, coef, noise, dispersion)
    flattery = 0.0
    for system, inverse, drawn in zip(systems, rough, own, strict=True):
        inverse = _Rough(system, n_strong) if inverse is None else inverse
        found, _, _ = system.solve(drawn / dispersion, np.zeros_like(drawn), inverse, max(products, n_strong))
        flattery += float(drawn @ (spread * system.pulled(found))[:-1])
    return coef, flattery


class _System:
    """S = N + G + G T Gᵀ of one output, in units that make N one."""

    def __init__(
        self, design: CellDesign, curvature: FloatArray, noise: FloatArray, spread: FloatArray
    ) -> None:
        self.design, self.curvature, self.spread = design, curvature, spread
        self.root = np.sqrt(noise)
        self.own = design.scatter(curvature[np.newaxis])[0, :-1]

    def expected(self, coef: FloatArray) -> FloatArray:
        """G coef: sums that coefficients of all cells and the intercept lead to."""
        sums: FloatArray = self._sums(coef)[:-1]
        return sums

    def pulled(self, x: FloatArray) -> FloatArray:
        """Gᵀ x for the solution in units of the noise."""
        return self._sums(np.append(x / self.root, 0.0))

    def product(self, x: FloatArray) -> FloatArray:
        own = np.append(x / self.root, 0.0)
        product: FloatArray = x + self.expected(own + self.spread * self._sums(own)) / self.root
        return product

    def column(self, cell: int) -> FloatArray:
        """One column of N^(-1/2) G T^(1/2)."""
        unit = np.zeros(self.spread.size)
        unit[cell] = np.sqrt(self.spread[cell])
        column: FloatArray = self.expected(unit) / self.root
        return column

    def solve(
        self, right: FloatArray, start: FloatArray, rough: _Rough, most: int
    ) -> tuple[FloatArray, bool, int]:
        """Conjugate gradients; the solution, whether its error is within the bound, and the products it took."""
        x = start.copy()
        target = right / self.root
        residual = target - self.product(x)
        direction = fall = rough.solve(residual)
        size = float(residual @ fall)
        spent = 1
        while float(residual @ residual) > _ERROR**2 and spent < most:
            image = self.product(direction)
            length = size / float(direction @ image)
            x += length * direction
            residual -= length * image
            fall = rough.solve(residual)
            new = float(residual @ fall)
            direction = fall + (new / size) * direction
            size = new
            spent += 1
        # The recurrence drifts from the residual: the bound is claimed for the residual itself.
        residual = target - self.product(x)
        return x, bool(residual @ residual <= (2 * _ERROR) ** 2), spent + 1

    def _sums(self, coef: FloatArray) -> FloatArray:
        scores = self.design.scores(coef[np.newaxis])
        sums: FloatArray = self.design.scatter(scores * self.curvature)[0]
        return sums


class _Rough:
    """A rough inverse of S: its diagonal, and the whole part of the cells whose own is largest."""

    def __init__(self, system: _System, n_strong: int) -> None:
        noise = system.root**2
        strength = system.spread[:-1] * system.own**2 / noise
        strong = np.argsort(-strength, kind="stable")[:n_strong]
        strength[strong] = 0.0
        self.diagonal = 1.0 + system.own / noise + strength
        self.part = np.column_stack([system.column(cell) for cell in [*strong.tolist(), noise.size]])
        self.n_products = (strong.size + 1) // 2
        small = self.part.T @ (self.part / self.diagonal[:, np.newaxis])
        small[np.diag_indices_from(small)] += 1.0
        self.factor = cho_factor(small)

    def solve(self, residual: FloatArray) -> FloatArray:
        first = residual / self.diagonal
        rest = self.part @ cho_solve(self.factor, self.part.T @ first)
        solution: FloatArray = first - rest / self.diagonal
        return solution
