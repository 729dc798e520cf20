"""Measures on a grid, privacy under Wasserstein-1, and noise that only moves mass along edges.

Every row is spread over the corners of the grid's simplex that contains it, and Laplace noise is added to the *flow
along the grid's edges*. Two measures at transport distance ρ differ by a flow of cost ρ, so shifting the noise costs
e^{ερ}: one level, no split of the budget, and noise of total mass zero whose positive and negative parts are
neighbours.

Everything up to the noise is integer: rows are snapped to a fine lattice of the cube, and a row that moves by one
step of it along an axis moves one step of mass along one edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.optimize import minimize

from skprivate.metric._domains import Norm
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Events, Mechanism, PureEvent, Release, warn_caller
from skprivate.privacy.noise import FloatArray, IntArray

#: No grid has more nodes.
MAX_NODES = 1 << 18
#: A row has at most 2^36 steps of mass, so that the histograms of a block, in float64, are exact.
_MOST_BITS = 36
_BLOCK = 1 << 16
# Bits of the number of an axis: a grid of 2^18 nodes has at most 18 axes.
_AXIS_BITS = 5


def l1_factor(ground: Norm, n_features: int) -> float:
    """Compute the largest ‖t‖₁ / ‖t‖ of the ground norm, 1, √d or d; also that of the two Wasserstein distances."""
    exponent = {"l1": 0.0, "l2": 0.5, "linf": 1.0}[ground]
    return math.pow(n_features, exponent)


def star_edges(size: int) -> int:
    """Bound the edges between two categories: each is joined to the first one."""
    return min(size - 1, 2)


def edge_costs(n_features: int, ground: Norm, sizes: tuple[int, ...] = ()) -> float:
    """Compute the noise per node and unit of 1/ε, over the number of features (1 if there are none)."""
    stars = sum(star_edges(size) * (size - 1) / size for size in sizes)
    return math.prod(sizes) * (l1_factor(ground, max(n_features, 1)) + stars / max(n_features, 1))


def choose_cells(epsilon: float, n_features: int, ground: Norm, sizes: tuple[int, ...] = ()) -> int:
    """Choose the cells per coordinate by public numbers: (d·ε / (6·factor))^(1/(d+1)).

    Noise on d·K^d edges costs about factor·d·K^d/ε, the grid about 1/K; both are ε^(−1/(d+1)) here, the exponent of
    Theorem 6.2. With categories there are as many grids as combinations, and edges between them.
    """
    if n_features == 0:
        return 1
    effective = n_features * epsilon / (6 * edge_costs(n_features, ground, sizes))
    # No more nodes than the largest grid has.
    most = max(int((MAX_NODES / math.prod(sizes)) ** (1 / n_features)) - 1, 1)
    return int(min(max(round(effective ** (1 / (n_features + 1))), 1), most))


def hat_bits(n_rows: int, cells: int, n_features: int, ground: Norm, epsilon: float, weight: float = math.inf) -> int:
    """Choose the bits of a row's mass by public numbers: a row has 2^bits steps, and an edge of the grid as many.

    As fine as exact arithmetic allows: up to 2^36 steps per edge, 2^50 per side of the cube, 2^60 in all sums, and
    noise of up to about 2^46 steps.
    """
    moved = max(n_rows * cells * l1_factor(ground, n_features), 2 * n_rows / weight, 1)
    noise = 46 - math.log2(moved / epsilon)
    bits = min(_MOST_BITS, noise, 50 - math.log2(cells), 60 - math.log2(max(n_rows, 1) * cells))
    return max(math.floor(bits), 0)


def steps_per_distance(n_rows: int, steps: int, n_features: int, ground: Norm) -> int:
    """Bound the lattice steps along axes that ``n_rows`` rows move by per unit of W1, with ``steps`` per side."""
    total = n_rows * steps
    if ground == "l2":
        return math.isqrt(max(n_features * total**2 - 1, 0)) + 1
    return total * (n_features if ground == "linf" else 1)


def hat_sums(
    unit_rows: FloatArray, cells: int, bits: int, groups: IntArray | None = None, n_groups: int | None = None
) -> IntArray:
    """Sum all rows' masses on the nodes of a grid exactly, 2^bits steps each.

    A row is snapped to the nearest point of the lattice with cells · 2^bits steps a side, which depends on that row
    alone. Its cell is cut into simplices along the orders of the coordinates (Kuhn's triangulation): with fractions
    f_σ(1) ≥ … ≥ f_σ(d) the corners 0, e_σ(1), e_σ(1) + e_σ(2), … get the masses 1 − f_σ(1), f_σ(1) − f_σ(2), …,
    f_σ(d). These are values of continuous hat functions that add up to 1 and reproduce the row as their mean. One step
    along axis i moves one step of mass along one edge of axis i, and nothing else. Bits are at most 36, and
    n · cells · 2^bits is below 2^62 (`hat_bits`). Rows of different ``groups`` go to grids of their own.
    """
    n_features = unit_rows.shape[1]
    shape = (cells + 1,) * n_features
    per_group = math.prod(shape)
    size = per_group * (n_groups or 1)
    strides = np.array([(cells + 1) ** (n_features - 1 - axis) for axis in range(n_features)], dtype=np.int64)
    sums = np.zeros(size, dtype=np.int64)
    for start in range(0, unit_rows.shape[0], _BLOCK):
        block = unit_rows[start : start + _BLOCK]
        node = np.zeros(block.shape[0], dtype=np.int64)
        if groups is not None:
            node += groups[start : start + _BLOCK] * per_group
        keys = []  # the fraction along each axis, and the number of the axis in the last bits
        for axis in range(n_features):
            position = np.rint(block[:, axis] * float(cells << bits)).astype(np.int64)
            corner = np.minimum(position >> bits, cells - 1)
            node += corner * strides[axis]
            keys.append(((position - (corner << bits)) << _AXIS_BITS) | axis)
        for last in range(n_features - 1, 0, -1):
            for i in range(last):
                keys[i], keys[i + 1] = np.maximum(keys[i], keys[i + 1]), np.minimum(keys[i], keys[i + 1])
        above = np.full(block.shape[0], 1 << bits, dtype=np.int64)
        for key in keys:
            fraction = key >> _AXIS_BITS
            sums += _counts(node, above - fraction, size)
            node += strides[key & ((1 << _AXIS_BITS) - 1)]
            above = fraction
        sums += _counts(node, above, size)
    return sums.reshape(shape if n_groups is None else (n_groups, *shape))


def category_sums(block: tuple[FloatArray, IntArray | None], cells: int, bits: int, sizes: tuple[int, ...]) -> IntArray:
    """Compute `hat_sums` of (rows, combinations of categories or None), with one axis per categorical column."""
    rows, groups = block
    sums = hat_sums(rows, cells, bits, groups, math.prod(sizes))
    return sums.reshape(*sizes, *sums.shape[1:])


def _counts(nodes: IntArray, masses: IntArray, size: int) -> IntArray:
    """Sum a block's masses per node: below 2^53, so exact in the float64 of a weighted histogram."""
    return np.bincount(nodes, weights=masses, minlength=size).astype(np.int64)


def graph_laplacian(values: FloatArray, stars: Sequence[float] = ()) -> FloatArray:
    """Apply the Laplacian of the grid graph: degree · value − sum over neighbours, per node.

    Edges along the first axes, one for each of ``stars``, join every entry to the first, with that weight.
    """
    result = np.zeros_like(values)
    for axis in range(values.ndim):
        out = np.moveaxis(result, axis, 0)
        if axis < len(stars):
            here = np.moveaxis(values, axis, 0)
            flow = stars[axis] * (here[1:] - here[:1])
            out[1:] += flow
            out[0] -= flow.sum(axis=0)
            continue
        moved = np.moveaxis(np.diff(values, axis=axis), axis, 0)
        out[:-1] -= moved
        out[1:] += moved
    return result


def nearest_measure(signed: FloatArray, stars: Sequence[float] = (), *, max_iter: int = 2000) -> FloatArray:
    """Make a signed measure nonnegative by the least flow along the edges.

    Minimises ‖z‖² over edge flows z with signed + div z ≥ 0. The dual is an obstacle problem on the grid: with λ ≥ 0
    minimising ½⟨λ, Lλ⟩ + ⟨λ, signed⟩ the measure is signed + Lλ. Noise is corrected locally, by mass of neighbours,
    while a projection onto the simplex would take it from everywhere. Squares of flows along the first axes are divided
    by ``stars``. Negative entries that are left after ``max_iter`` steps of L-BFGS-B are set to 0.
    """
    shape = signed.shape
    # In units of the largest entry, so that the tolerances mean the same at every scale of the noise.
    unit = float(np.abs(signed).max()) or 1.0
    target = (signed / unit).ravel()

    def objective(dual: FloatArray) -> tuple[float, FloatArray]:
        image = graph_laplacian(dual.reshape(shape), stars).ravel()
        return float(0.5 * dual @ image + dual @ target), image + target

    found = minimize(
        objective,
        np.zeros(signed.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * signed.size,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-4 / signed.size},
    )
    measure = np.maximum(target.reshape(shape) + graph_laplacian(found.x.reshape(shape), stars), 0.0)
    total = measure.sum()
    result: FloatArray = measure / total if total > 0 else np.full(shape, 1 / signed.size)
    return result


@dataclass(frozen=True)
class LaplaceFlow(Mechanism):
    """ε-metrically private measure on the nodes of a grid of the unit cube, for W1 between data sets.

    ``epsilon`` is per unit of W1 in the unit cube with distance ``ground``; ``n_rows`` is public, the same in all
    neighbours. Data are pairs of rows and their combinations of categories, or None. With ``sizes``, the numbers of
    categories of each categorical column, the measure has one axis more for each of these columns, before the others.
    ``weight`` is the distance between rows that differ in one of these columns alone; others add to it.
    """

    epsilon: float
    n_rows: int
    n_features: int
    ground: Norm
    cells: int
    sizes: tuple[int, ...] = ()
    weight: float = 1.0
    theorem = "Laplace flow on a grid (docs/theory/metric.md, proposition 1 and Theorem 11)"

    def __post_init__(self) -> None:
        moved = self.n_rows * self.cells * l1_factor(self.ground, self.n_features)
        if max(moved, 2 * self.n_rows / self.weight if self.sizes else 0) > 2.0**50 * self.epsilon:
            raise ValueError(
                f"epsilon={self.epsilon:g} is too small: the noise exceeds the mass of all rows 2**50 times."
            )

    @property
    def events(self) -> Events:
        return [(PureEvent(self.epsilon, "Laplace flow"), 1)]

    @property
    def bits(self) -> int:
        """Bits of a row's mass."""
        weight = self.weight if self.sizes else math.inf
        return hat_bits(self.n_rows, self.cells, self.n_features, self.ground, self.epsilon, weight)

    @property
    def stars(self) -> tuple[Fraction, ...]:
        """Bound of the steps of mass along edges between the categories of each column, per unit of W1."""
        change = (self.n_rows << self.bits) / Fraction(self.weight)
        return tuple(max(star_edges(size), 1) * change for size in self.sizes)

    @property
    def coarse_error(self) -> float:
        """Bound of the expected W1 error by noise on the edges of the box alone."""
        d = self.n_features
        edges = d * 2.0 ** (d - 1) * math.prod(self.sizes) * l1_factor(self.ground, d)
        stars = sum(star_edges(size) * (size - 1) / size for size in self.sizes)
        return float(edges + 2.0**d * math.prod(self.sizes) * stars) / self.epsilon

    def run(self, data: tuple[FloatArray, IntArray | None] | Partitions, release: Release) -> FloatArray:
        """Release the measure of ``n_rows`` rows in the unit cube, of shape (*sizes, *(cells + 1,) * n_features)."""
        count = partial(category_sums, cells=self.cells, bits=self.bits, sizes=self.sizes)
        sensitivity = steps_per_distance(self.n_rows, self.cells << self.bits, self.n_features, self.ground)
        noisy = release.flow_laplace(
            as_partitions(data).sum(count), sensitivity=max(sensitivity, 1), epsilon=self.epsilon, stars=self.stars
        )
        # Flows are weighted by their noise, which is larger on edges between categories.
        stars = [float(star / max(sensitivity, 1)) ** 2 for star in self.stars]
        return nearest_measure(noisy.astype(np.float64) / (self.n_rows << self.bits), stars)


def check_nodes(cells: int, n_features: int, sizes: tuple[int, ...] = ()) -> None:
    """Refuse grids with more than `MAX_NODES` nodes."""
    if n_features * math.log(cells + 1) + math.log(math.prod(sizes)) > math.log(MAX_NODES) + 1e-9:
        times = f"{math.prod(sizes)} * " if sizes else ""
        raise ValueError(
            f"resolution={cells} gives {times}{cells + 1}**{n_features} grid nodes, more than {MAX_NODES}; use a "
            "smaller resolution, fewer columns or metric='rows'."
        )


class NoiseFillsBoxWarning(UserWarning):
    """The noise is as large as the box: the result hardly depends on the rows."""


def diameter(ground: Norm, n_features: int) -> float:
    """Compute the diameter of the unit cube."""
    return {"l1": float(n_features), "l2": math.sqrt(n_features), "linf": min(float(n_features), 1.0)}[ground]


def warn_if_noise_fills_box(mechanism: LaplaceFlow) -> None:
    """Warn if all mass in the middle of the box, a guess without data, errs as little as the noise alone.

    Only if the box is too small for two cells a side as well (`choose_cells`), so that no finer grid is better.
    """
    d, ground, epsilon = mechanism.n_features, mechanism.ground, mechanism.epsilon
    sizes = mechanism.sizes
    guess = diameter(ground, d) / 2 + mechanism.weight * sum(1 - 1 / size for size in sizes)
    if mechanism.coarse_error < guess or choose_cells(epsilon, d, ground, sizes) > 1:
        return
    needed = epsilon * mechanism.coarse_error / guess
    if d:
        needed = min(needed, 6 * edge_costs(d, ground, sizes) / d * 1.5 ** (d + 1))
    warn_caller(
        f"epsilon = {epsilon:g} per unit of Wasserstein distance is too small to say anything about the rows: the "
        f"noise alone moves the measure by up to {mechanism.coarse_error:.2g} sides of the box, and a guess without "
        f"data errs by at most {guess:.2g}. At least epsilon = {needed:.2g} is needed; epsilon = "
        f"{mechanism.n_rows}, the number of rows, is comparable with epsilon = 1 under metric='rows'.",
        NoiseFillsBoxWarning,
    )
