"""The multilevel hat-function mechanism: exact metric privacy for Wasserstein-1 at the optimal exponent.

Level j has a grid of spacing 2^−j with multilinear hat functions, a partition of unity. Their moments change by at
most 2·2^j·(ℓ1 distance) in ℓ1 when a unit mass moves, so Laplace noise on every level with a split of ε is metrically
private by composition. `skprivate.metric._grid_flows` is the same idea without the levels and has a smaller error;
this module is kept as the mechanism that the theory describes, and for comparison.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate.metric._grid_flows import GroundNorm, choose_cells, hat_moments, l1_factor
from skprivate.privacy import PrivacyEvent, PureEvent, Release

FloatArray = NDArray[np.float64]


def hat_sensitivity(level: int, n_features: int, ground: GroundNorm) -> float:
    """Lipschitz constant of the level's hat moments: ℓ1 change per unit of W1 with the given ground distance.

    Moving a point along one axis by t changes two faces of its cell by t·2^j each: 2·2^j·‖t‖₁ in all, and ‖t‖₁ is at
    most d^(1 − 1/p)‖t‖_p. The constant is attained at corners of the grid.
    """
    return 2.0 * 2.0**level * l1_factor(ground, n_features)


def restrict(moments: FloatArray) -> FloatArray:
    """Moments of the next coarser level (half as many cells): φ_{j−1,k} = φ_{j,2k} + ½(φ_{j,2k−1} + φ_{j,2k+1})."""
    for axis in range(moments.ndim):
        fine = np.moveaxis(moments, axis, 0)
        coarse = fine[::2].copy()
        coarse[:-1] += 0.5 * fine[1::2]
        coarse[1:] += 0.5 * fine[1::2]
        moments = np.moveaxis(coarse, 0, axis)
    return moments


def prolong(values: FloatArray) -> FloatArray:
    """Transpose of `restrict`: multilinear interpolation to the next finer grid."""
    for axis in range(values.ndim):
        coarse = np.moveaxis(values, axis, 0)
        fine = np.zeros((2 * coarse.shape[0] - 1, *coarse.shape[1:]))
        fine[::2] = coarse
        fine[1::2] = 0.5 * (coarse[:-1] + coarse[1:])
        values = np.moveaxis(fine, 0, axis)
    return values


def level_budgets(n_levels: int, epsilon: float, n_features: int) -> list[float]:
    """ε_j ∝ 2^(jd/2), which minimises Σ_j 2^−j · 2^(jd) · 2^j/ε_j; the last one is what is left of ε."""
    shares = 2.0 ** (0.5 * n_features * np.arange(n_levels))
    budgets = [float(share) for share in epsilon * shares / shares.sum()]
    budgets[-1] = epsilon - float(np.sum(budgets[:-1]))
    return budgets


def choose_levels(epsilon: float, n_features: int, ground: GroundNorm) -> int:
    """The finest level J, from public numbers only."""
    return max(round(math.log2(choose_cells(epsilon, n_features, ground))), 0)


def hat_events(epsilon: float, n_features: int, levels: int) -> list[tuple[PrivacyEvent, int]]:
    """Events of `hat_measure`."""
    return [(PureEvent(budget, "Laplace"), 1) for budget in level_budgets(levels + 1, epsilon, n_features)]


def hat_measure(
    unit_rows: FloatArray, release: Release, *, epsilon: float, ground: GroundNorm, levels: int
) -> FloatArray:
    """ε-metrically private measure on the finest grid of the hat hierarchy.

    Parameters
    ----------
    unit_rows : ndarray of shape (n, d)
        Rows in the unit cube.
    release : Release
        Under metric adjacency.
    epsilon : float
        Price per unit of W1 distance.
    ground : {"l1", "l2", "linf"}
    levels : int
        The finest level J; 2^J cells per coordinate.

    Returns
    -------
    ndarray of shape (2^J + 1,) * d
        Nonnegative, adds up to 1.
    """
    n_features = unit_rows.shape[1]
    moments = [hat_moments(unit_rows, 2**levels)]
    for _ in range(levels):
        moments.append(restrict(moments[-1]))
    moments.reverse()
    budgets = level_budgets(levels + 1, epsilon, n_features)
    scales = [hat_sensitivity(level, n_features, ground) / budget for level, budget in enumerate(budgets)]
    noisy = [
        release.laplace(
            exact.ravel(), sensitivity=hat_sensitivity(level, n_features, ground), epsilon=budgets[level]
        ).reshape(exact.shape)
        for level, exact in enumerate(moments)
    ]
    return fit_moments(noisy, scales)


def fit_moments(noisy: list[FloatArray], scales: list[float], *, max_iter: int = 1000) -> FloatArray:
    """Probability measure on the finest grid whose moments at all levels fit best (nonnegative least squares)."""
    shape = noisy[-1].shape
    finest = scales[-1]
    weights = [(finest / scale) ** 2 for scale in scales]

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        moments = [flat.reshape(shape)]
        for _ in noisy[1:]:
            moments.append(restrict(moments[-1]))
        residuals = [moment - target for moment, target in zip(reversed(moments), noisy, strict=True)]
        value = 0.5 * sum(w * float((r * r).sum()) for w, r in zip(weights, residuals, strict=True))
        gradient = weights[0] * residuals[0]
        for weight, residual in zip(weights[1:], residuals[1:], strict=True):
            gradient = prolong(gradient) + weight * residual
        # The total mass is known: it counts as ten nodes, and is set exactly in the end.
        excess = float(flat.sum()) - 1.0
        return value + 5.0 * excess**2, gradient.ravel() + 10.0 * excess

    size = int(np.prod(shape))
    found = minimize(
        objective,
        np.full(size, 1 / size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * size,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-7},
    )
    measure: FloatArray = found.x.reshape(shape)
    total = float(measure.sum())
    return measure / total if total > 0 else np.full(shape, 1 / size)
