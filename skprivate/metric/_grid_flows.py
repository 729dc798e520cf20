"""Measures on a grid, privacy under Wasserstein-1, and noise that only moves mass along edges.

The mechanism goes beyond the hierarchy of hat functions (`skprivate.metric._hat_measures`): rows are spread over the
corners of their grid cell by multilinear weights, and Laplace noise is put on the *flow along the grid's edges*.
Two measures at transport distance ρ differ by a flow of cost ρ, so the shift of the noise costs exp(ε ρ) and no more:
one level, no split of the budget, and noise of total mass zero whose positive and negative parts lie side by side.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate.privacy import Release

FloatArray = NDArray[np.float64]
GroundNorm: TypeAlias = Literal["l1", "l2", "linf"]

#: No grid has more nodes.
MAX_NODES = 1 << 18
_BLOCK = 1 << 17


def l1_factor(ground: GroundNorm, n_features: int) -> float:
    """Largest ‖t‖₁ / ‖t‖ of the ground norm: 1, √d or d. Also that of the two Wasserstein distances."""
    exponent = {"l1": 0.0, "l2": 0.5, "linf": 1.0}[ground]
    return math.pow(n_features, exponent)


def choose_cells(epsilon: float, n_features: int, ground: GroundNorm) -> int:
    """Cells per coordinate, from public numbers only: (d·ε / (6·factor))^(1/(d+1)).

    Noise on d·K^d edges costs about factor·d·K^d/ε, the grid about 1/K; both are ε^(−1/(d+1)) here, the exponent of
    Theorem 6.2.

    Parameters
    ----------
    epsilon : float
        Per unit of distance on the unit cube.
    n_features : int
    ground : {"l1", "l2", "linf"}

    Returns
    -------
    int, at least 1
    """
    effective = n_features * epsilon / (6 * l1_factor(ground, n_features))
    # Node counts beyond the largest grid are of no use, and powers of a huge epsilon overflow nothing this way.
    most = max(int(MAX_NODES ** (1 / n_features)) - 1, 1)
    return int(min(max(round(effective ** (1 / (n_features + 1))), 1), most))


def hat_moments(unit_rows: FloatArray, cells: int) -> FloatArray:
    """Mean of the multilinear hat functions: each row spread over the corners of its grid cell.

    The map from measures on the cube to measures on the nodes is 1-Lipschitz from W1 with ℓ1 ground distance to the
    transport cost along the grid's edges: moving a point by t along one axis inside a cell moves the mass t·K along
    edges of length 1/K.

    Parameters
    ----------
    unit_rows : ndarray of shape (n, d)
        Rows in the unit cube.
    cells : int
        Cells per coordinate.

    Returns
    -------
    ndarray of shape (cells + 1,) * d, adding up to 1
    """
    n_rows, n_features = unit_rows.shape
    size = (cells + 1) ** n_features
    moments = np.zeros(size)
    for start in range(0, n_rows, _BLOCK):
        position = unit_rows[start : start + _BLOCK] * cells
        corner = np.minimum(position.astype(np.int64), cells - 1)
        fraction = position - corner
        base = np.zeros(position.shape[0], dtype=np.int64)
        for column in range(n_features):
            base = base * (cells + 1) + corner[:, column]
        for shifts in itertools.product((0, 1), repeat=n_features):
            weight = np.ones(position.shape[0])
            offset = 0
            for column, shift in enumerate(shifts):
                weight *= fraction[:, column] if shift else 1 - fraction[:, column]
                offset = offset * (cells + 1) + shift
            moments += np.bincount(base + offset, weights=weight, minlength=size)
    moments /= n_rows
    return moments.reshape((cells + 1,) * n_features)


def graph_laplacian(values: FloatArray) -> FloatArray:
    """Apply the Laplacian of the grid graph: degree · value − sum over neighbours, per node."""
    result = np.zeros_like(values)
    for axis in range(values.ndim):
        step = np.diff(values, axis=axis)
        moved, out = np.moveaxis(step, axis, 0), np.moveaxis(result, axis, 0)
        out[:-1] -= moved
        out[1:] += moved
    return result


def nearest_measure(signed: FloatArray, *, max_iter: int = 2000) -> FloatArray:
    """Nonnegative measure that the least flow along the edges makes of a signed one.

    Minimises ‖z‖² over edge flows z with signed + div z ≥ 0. The dual is an obstacle problem on the grid: with λ ≥ 0
    minimising ½⟨λ, Lλ⟩ + ⟨λ, signed⟩ the measure is signed + Lλ. Noise is corrected where it is, by mass from next
    door, while a projection onto the simplex would take it from everywhere.

    Parameters
    ----------
    signed : ndarray of shape (k_1, …, k_d)
        Adds up to 1.
    max_iter : int
        Limit of L-BFGS-B; what is left negative then is cut off.

    Returns
    -------
    ndarray, same shape
    """
    shape = signed.shape
    # In units of the largest entry, so that the tolerances mean the same at every scale of the noise.
    unit = float(np.abs(signed).max()) or 1.0
    target = (signed / unit).ravel()

    def objective(dual: FloatArray) -> tuple[float, FloatArray]:
        image = graph_laplacian(dual.reshape(shape)).ravel()
        return float(0.5 * dual @ image + dual @ target), image + target

    found = minimize(
        objective,
        np.zeros(signed.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * signed.size,
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "maxcor": 20,
            "ftol": 1e-13,
            "gtol": 1e-4 / signed.size,
        },
    )
    measure = np.maximum(target.reshape(shape) + graph_laplacian(found.x.reshape(shape)), 0.0)
    total = measure.sum()
    result: FloatArray = measure / total if total > 0 else np.full(shape, 1 / signed.size)
    return result


def flow_measure(
    unit_rows: FloatArray, release: Release, *, epsilon: float, ground: GroundNorm, cells: int | None = None
) -> FloatArray:
    """ε-metrically private measure on the nodes of a grid of the unit cube, for W1 between data sets.

    Parameters
    ----------
    unit_rows : ndarray of shape (n, d)
        Rows in the unit cube.
    release : Release
        Under metric adjacency.
    epsilon : float
        Price per unit of W1 distance between the empirical measures (unit cube, ``ground`` distance).
    ground : {"l1", "l2", "linf"}
        Ground distance of W1.
    cells : int, optional
        Cells per coordinate (`choose_cells`).

    Returns
    -------
    ndarray of shape (cells + 1,) * d
        Nonnegative, adds up to 1.
    """
    n_features = unit_rows.shape[1]
    cells = choose_cells(epsilon, n_features, ground) if cells is None else cells
    moments = hat_moments(unit_rows, cells)
    # In ground-distance units an edge is shorter by the factor that ℓ1 exceeds the ground norm with.
    length = 1 / (cells * l1_factor(ground, n_features))
    return nearest_measure(release.flow_laplace(moments, length=length, epsilon=epsilon))


def check_nodes(cells: int, n_features: int) -> None:
    """Refuse grids that are too large to hold."""
    if n_features * math.log(cells + 1) > math.log(MAX_NODES) + 1e-9:
        raise ValueError(
            f"resolution={cells} gives {cells + 1}**{n_features} grid nodes, more than {MAX_NODES}; use a smaller "
            "resolution, fewer columns or metric='hamming'."
        )
