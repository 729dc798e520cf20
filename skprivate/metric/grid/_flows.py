"""Measures on a grid, privacy under Wasserstein-1, and noise that only moves mass along edges.

Every row is spread over the corners of the simplex of a grid that it lies in, and Laplace noise is put on the *flow
along the grid's edges*.
Two measures at transport distance ρ differ by a flow of cost ρ, so the shift of the noise costs exp(ε ρ) and no more:
one level, no split of the budget, and noise of total mass zero whose positive and negative parts lie side by side.

Everything up to the noise is integer: rows are snapped to a fine lattice of the cube, and a row that moves by one
step of it along an axis moves one step of mass along one edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Events, Mechanism, PureEvent, Release

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
GroundNorm: TypeAlias = Literal["l1", "l2", "linf"]

#: No grid has more nodes.
MAX_NODES = 1 << 18
#: A row has at most 2^36 steps of mass, so that the histograms of a block, in float64, are exact.
_MOST_BITS = 36
_BLOCK = 1 << 16
# Axes are numbered by so many bits: a grid of 2^18 nodes has at most 18 of them.
_AXIS_BITS = 5


def l1_factor(ground: GroundNorm, n_features: int) -> float:
    """Largest ‖t‖₁ / ‖t‖ of the ground norm: 1, √d or d. Also that of the two Wasserstein distances."""
    exponent = {"l1": 0.0, "l2": 0.5, "linf": 1.0}[ground]
    return math.pow(n_features, exponent)


def star_edges(size: int) -> int:
    """Edges between two categories, at most: each is joined to the first one."""
    return min(size - 1, 2)


def edge_costs(n_features: int, ground: GroundNorm, sizes: tuple[int, ...] = ()) -> float:
    """What noise costs per node and unit of 1/ε, over the number of features (1 if there are none)."""
    stars = sum(star_edges(size) * (size - 1) / size for size in sizes)
    return math.prod(sizes) * (l1_factor(ground, max(n_features, 1)) + stars / max(n_features, 1))


def choose_cells(epsilon: float, n_features: int, ground: GroundNorm, sizes: tuple[int, ...] = ()) -> int:
    """Cells per coordinate, from public numbers only: (d·ε / (6·factor))^(1/(d+1)).

    Noise on d·K^d edges costs about factor·d·K^d/ε, the grid about 1/K; both are ε^(−1/(d+1)) here, the exponent of
    Theorem 6.2. With categories there are as many grids as combinations, and edges between them.

    Parameters
    ----------
    epsilon : float
        Per unit of distance on the unit cube.
    n_features : int
    ground : {"l1", "l2", "linf"}
    sizes : tuple of int, default=()
        Number of categories of each categorical column.
    """
    if n_features == 0:
        return 1
    effective = n_features * epsilon / (6 * edge_costs(n_features, ground, sizes))
    # Node counts beyond the largest grid are of no use, and powers of a huge epsilon overflow nothing this way.
    most = max(int((MAX_NODES / math.prod(sizes)) ** (1 / n_features)) - 1, 1)
    return int(min(max(round(effective ** (1 / (n_features + 1))), 1), most))


def hat_bits(
    n_rows: int, cells: int, n_features: int, ground: GroundNorm, epsilon: float, weight: float = math.inf
) -> int:
    """Bits of a row's mass, from public numbers: a row has 2^bits steps, and an edge of the grid as many.

    As fine as exact arithmetic allows: up to 2^36 steps per edge, 2^50 per side of the cube, 2^60 in all sums, and
    noise of up to about 2^46 steps.
    """
    moved = max(n_rows * cells * l1_factor(ground, n_features), 2 * n_rows / weight, 1)
    noise = 46 - math.log2(moved / epsilon)
    bits = min(_MOST_BITS, noise, 50 - math.log2(cells), 60 - math.log2(max(n_rows, 1) * cells))
    return max(math.floor(bits), 0)


def steps_per_distance(n_rows: int, steps: int, n_features: int, ground: GroundNorm) -> int:
    """Lattice steps along the axes that ``n_rows`` rows move by per unit of W1, at most; ``steps`` to a side."""
    total = n_rows * steps
    if ground == "l2":
        return math.isqrt(max(n_features * total**2 - 1, 0)) + 1
    return total * (n_features if ground == "linf" else 1)


def hat_sums(
    unit_rows: FloatArray, cells: int, bits: int, groups: IntArray | None = None, n_groups: int | None = None
) -> IntArray:
    """Exact sum of all rows' masses on the nodes of a grid, 2^bits steps each.

    A row is snapped to the nearest point of the lattice with cells · 2^bits steps a side, which depends on that row
    alone. Its cell is cut into simplices along the orders of the coordinates (Kuhn's triangulation): with fractions
    f_σ(1) ≥ … ≥ f_σ(d) the corners 0, e_σ(1), e_σ(1) + e_σ(2), … get the masses 1 − f_σ(1), f_σ(1) − f_σ(2), …,
    f_σ(d). These are values of continuous hat functions that add up to 1 and reproduce the row as their mean. One step
    along axis i moves one step of mass along one edge of axis i, and nothing else.

    Parameters
    ----------
    unit_rows : ndarray of shape (n, d)
        Rows in the unit cube.
    cells : int
        Cells per coordinate.
    bits : int
        At most 36, and n · cells · 2^bits below 2^62 (`hat_bits`).
    groups : ndarray of int, shape (n,), optional
        Rows with different numbers go to grids of their own.
    n_groups : int, optional
        How many of these there are.

    Returns
    -------
    ndarray of int64, shape (cells + 1,) * d, or (n_groups, …)
        Adds up to n · 2^bits.
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


def category_sums(
    block: tuple[FloatArray, IntArray], cells: int, bits: int, sizes: tuple[int, ...]
) -> IntArray:
    """`hat_sums` of (rows, number of the combination of categories of each), with one axis per categorical column."""
    rows, groups = block
    sums = hat_sums(rows, cells, bits, groups, math.prod(sizes))
    return sums.reshape(*sizes, *sums.shape[1:])


def _counts(nodes: IntArray, masses: IntArray, size: int) -> IntArray:
    """Sum of a block's masses per node: below 2^53, hence exact in the float64 of a weighted histogram."""
    return np.bincount(nodes, weights=masses, minlength=size).astype(np.int64)


def graph_laplacian(values: FloatArray, stars: Sequence[float] = ()) -> FloatArray:
    """Apply the Laplacian of the grid graph: degree · value − sum over neighbours, per node.

    Edges along the first axes, one for each of ``stars``, join every entry to the first, and count so much.
    """
    result = np.zeros_like(values)
    for axis in range(values.ndim):
        out = np.moveaxis(result, axis, 0)
        if axis < len(stars):
            here = np.moveaxis(values, axis, 0)
            risen = stars[axis] * (here[1:] - here[:1])
            out[1:] += risen
            out[0] -= risen.sum(axis=0)
            continue
        moved = np.moveaxis(np.diff(values, axis=axis), axis, 0)
        out[:-1] -= moved
        out[1:] += moved
    return result


def nearest_measure(signed: FloatArray, stars: Sequence[float] = (), *, max_iter: int = 2000) -> FloatArray:
    """Nonnegative measure that the least flow along the edges makes of a signed one.

    Minimises ‖z‖² over edge flows z with signed + div z ≥ 0. The dual is an obstacle problem on the grid: with λ ≥ 0
    minimising ½⟨λ, Lλ⟩ + ⟨λ, signed⟩ the measure is signed + Lλ. Noise is corrected where it is, by mass from next
    door, while a projection onto the simplex would take it from everywhere.

    Parameters
    ----------
    signed : ndarray of shape (k_1, …, k_d)
        Adds up to 1.
    stars : sequence of float, default=()
        For the first axes, whose edges join every entry to the first: squares of flows along them are divided by this.
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
        image = graph_laplacian(dual.reshape(shape), stars).ravel()
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
    measure = np.maximum(target.reshape(shape) + graph_laplacian(found.x.reshape(shape), stars), 0.0)
    total = measure.sum()
    result: FloatArray = measure / total if total > 0 else np.full(shape, 1 / signed.size)
    return result


@dataclass(frozen=True)
class LaplaceFlow(Mechanism):
    """ε-metrically private measure on the nodes of a grid of the unit cube, for W1 between data sets.

    Parameters
    ----------
    epsilon : float
        Price per unit of W1 distance between the empirical measures (unit cube, ``ground`` distance).
    n_rows : int
        Public, the same in all neighbours.
    n_features : int
    ground : {"l1", "l2", "linf"}
        Ground distance of W1.
    cells : int
        Cells per coordinate (`choose_cells`).
    sizes : tuple of int, default=()
        Number of categories of each categorical column. With some, data are pairs of rows and the number of their
        combination, and the measure has one axis more for each of these columns, before the others.
    weight : float, default=1.0
        Distance between rows that differ in one of these columns alone; others add to it.
    """

    epsilon: float
    n_rows: int
    n_features: int
    ground: GroundNorm
    cells: int
    sizes: tuple[int, ...] = ()
    weight: float = 1.0
    theorem = "Laplace flow on a grid (docs/metric.md, proposition 1 and Theorem 11)"

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
        """Of a row's mass."""
        weight = self.weight if self.sizes else math.inf
        return hat_bits(self.n_rows, self.cells, self.n_features, self.ground, self.epsilon, weight)

    @property
    def stars(self) -> tuple[Fraction, ...]:
        """Steps of mass that rows move along the edges between categories per unit of W1, at most, for each column."""
        change = (self.n_rows << self.bits) / Fraction(self.weight)
        return tuple(max(star_edges(size), 1) * change for size in self.sizes)

    @property
    def coarse_error(self) -> float:
        """W1 distance that noise on the edges of the box alone moves the measure by, in expectation, at most."""
        d = self.n_features
        edges = d * 2.0 ** (d - 1) * math.prod(self.sizes) * l1_factor(self.ground, d)
        stars = sum(star_edges(size) * (size - 1) / size for size in self.sizes)
        return float(edges + 2.0**d * math.prod(self.sizes) * stars) / self.epsilon

    def run(
        self, data: FloatArray | tuple[FloatArray, IntArray] | Partitions, release: Release
    ) -> FloatArray:
        """Noisy measure of ``n_rows`` rows in the unit cube, in memory or in blocks.

        Returns
        -------
        ndarray of shape (*sizes, *(cells + 1,) * n_features)
            Nonnegative, adds up to 1.
        """
        count = (
            partial(category_sums, cells=self.cells, bits=self.bits, sizes=self.sizes)
            if self.sizes
            else partial(hat_sums, cells=self.cells, bits=self.bits)
        )
        sensitivity = steps_per_distance(self.n_rows, self.cells << self.bits, self.n_features, self.ground)
        noisy = release.flow_laplace(
            as_partitions(data).sum(count),
            sensitivity=max(sensitivity, 1),
            epsilon=self.epsilon,
            stars=self.stars,
        )
        # Flows count by what noise they had: an edge between categories is so many times as wide.
        stars = [float(star / max(sensitivity, 1)) ** 2 for star in self.stars]
        return nearest_measure(noisy.astype(np.float64) / (self.n_rows << self.bits), stars)


def check_nodes(cells: int, n_features: int, sizes: tuple[int, ...] = ()) -> None:
    """Refuse grids that are too large to hold."""
    if n_features * math.log(cells + 1) + math.log(math.prod(sizes)) > math.log(MAX_NODES) + 1e-9:
        times = f"{math.prod(sizes)} * " if sizes else ""
        raise ValueError(
            f"resolution={cells} gives {times}{cells + 1}**{n_features} grid nodes, more than {MAX_NODES}; use a "
            "smaller resolution, fewer columns or metric='rows'."
        )
