"""Private measures, weights on a grid of a box, and their Wasserstein-1 distances to rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array, vstack
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from skprivate._messages import pyplot
from skprivate._validation import column_label
from skprivate.metric._domains import Box, Norm, degree_columns
from skprivate.privacy import Versioned, public_generator
from skprivate.privacy.noise import FloatArray, IntArray

#: Counts have an axis for each column of numbers, for categories and for sums, and NumPy's arrays have 64 at most.
MOST_NUMBERS = 62
#: Cells per side, and colours, of plots.
_PLOT_CELLS = 128
COLOURS = "magma_r"
#: Cells per side of the grid on which transport is solved, by number of features.
GRID_CELLS = {2: 32, 3: 10}
_LINE_CELLS = 4096
_SAMPLES = 1000
_CDIST: dict[str, Any] = {"l1": "cityblock", "l2": "euclidean", "linf": "chebyshev"}


@dataclass(frozen=True, eq=False)
class GridMeasure(Versioned):
    """A probability measure on a grid of a box, with a density inside the cells.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_features,)
        The box.
    weights : ndarray with one axis per feature
        Nonnegative, adds up to 1.
    kind : {"cells", "nodes"}
        "cells": weight i of an axis with k entries is spread evenly over [i/k, (i+1)/k] of the side. "nodes": it
        belongs to the hat function around i/(k−1), folded inwards at the ends; k ≥ 2.
    names : tuple of str, optional
        Of the features.
    """

    lower: FloatArray
    upper: FloatArray
    weights: FloatArray
    kind: Literal["cells", "nodes"]
    names: tuple[str, ...] | None = None

    @property
    def box(self) -> Box:
        return Box(self.lower, self.upper)

    @property
    def n_features(self) -> int:
        return self.weights.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Entries per axis."""
        return self.weights.shape

    def on_cells(self, cells: int) -> FloatArray:
        """Compute the probability of each cell of the grid with ``cells`` cells along every side."""
        mass = self.weights
        for axis in range(self.n_features):
            mass = np.moveaxis(np.diff(self._distribution(np.moveaxis(mass, axis, 0), cells), axis=0), 0, axis)
        return mass

    def _distribution(self, mass: FloatArray, cells: int) -> FloatArray:
        """Sum the mass below the edges of the cells along the first axis."""
        k = mass.shape[0]
        below = np.concatenate([np.zeros((1, *mass.shape[1:])), np.cumsum(mass, axis=0)])
        tail = (1,) * (mass.ndim - 1)
        edges = np.arange(cells + 1) / cells
        if self.kind == "cells":
            position = edges * k
            index = np.minimum(position.astype(np.int64), k - 1)
            inside = (position - index).reshape(-1, *tail)
            uniform: FloatArray = below[index] + inside * mass[index]
            return uniform
        position = edges * (k - 1)
        index = np.minimum(position.astype(np.int64), k - 2)
        u = position - index
        # Between two nodes: the rest of the triangle of the first, and the beginning of that of the second; those of
        # the first and of the last node are folded inwards.
        first = np.where(index == 0, 2 * u - u**2, 0.5 + u - 0.5 * u**2).reshape(-1, *tail)
        second = np.where(index == k - 2, u**2, 0.5 * u**2).reshape(-1, *tail)
        hats: FloatArray = below[index] + first * mass[index] + second * mass[index + 1]
        return hats

    def sample(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draw rows; each has the law of the measure, and together they spread evenly (systematic sampling).

        Weights are visited along a curve that keeps neighbours together, so that n rows follow the measure far more
        closely than independent ones would; rows are returned in random order.
        """
        (rows,) = self.sample_blocks(n_samples, n_samples, rng)
        return rows

    def sample_blocks(self, n_samples: int, n_rows: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Draw the rows of `sample` in blocks of ``n_rows``, with 8 bytes a row in memory besides a block."""
        order = _morton_order(self.shape)
        cumulated = np.cumsum(self.weights.ravel()[order])
        sizes = np.array(self.shape, dtype=np.float64)
        places, offset = rng.permutation(n_samples), rng.random()
        for start in range(0, max(n_samples, 1), max(n_rows, 1)):
            points = (places[start : start + n_rows] + offset) / n_samples * cumulated[-1]
            chosen = order[np.minimum(np.searchsorted(cumulated, points, side="right"), order.size - 1)]
            index = np.stack(np.unravel_index(chosen, self.shape), axis=1).astype(np.float64)
            if self.kind == "cells":
                unit = (index + rng.random(index.shape)) / sizes
            else:
                # Both numbers of a row together, so that rows do not depend on the blocks.
                ends = rng.random((len(index), 2, self.n_features))
                unit = (index + (ends[:, 0] - ends[:, 1])) / np.maximum(sizes - 1, 1)
                unit = 1 - np.abs(1 - np.abs(unit))
            yield self.box.from_unit(unit)

    def __repr__(self) -> str:
        return f"GridMeasure(shape={self.shape}, kind={self.kind!r})"

    def marginal(self, columns: list[int]) -> GridMeasure:
        """Sum over the other features; the given ones are kept in their order."""
        others = tuple(axis for axis in range(self.n_features) if axis not in columns)
        kept = [axis for axis in range(self.n_features) if axis in columns]
        weights = np.transpose(self.weights.sum(axis=others), [kept.index(axis) for axis in columns])
        names = None if self.names is None else tuple(self.names[axis] for axis in columns)
        return GridMeasure(self.lower[columns], self.upper[columns], weights, self.kind, names)

    def plot(self, ax: Any = None, *, columns: object = None) -> Any:
        """Plot the density of one feature or two; axes with one unit have one scale.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The current ones by default.
        columns : str, int, or sequence of one or two of them, optional
            Names or positions of the features; needed if there are more than two.

        Returns
        -------
        matplotlib Axes
        """
        chosen = plotted_columns(columns, self.n_features, self.names)
        ax = pyplot().gca() if ax is None else ax
        draw_density(ax, self.marginal(chosen))
        ax.set_xlabel(label(chosen[0], self.names))
        ax.set_ylabel("density" if len(chosen) == 1 else label(chosen[1], self.names))
        return ax


def _morton_order(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Order weights so that every aligned box of a binary hierarchy is one stretch (Morton)."""
    keys = []
    index = np.indices(shape).reshape(len(shape), -1)
    bits = max(max(k - 1, 1).bit_length() for k in shape)
    for bit in range(bits):  # least significant key first, as lexsort wants them
        keys += [(index[axis] >> bit) & 1 for axis in reversed(range(len(shape)))]
    return np.lexsort(keys).astype(np.int64)


def plotted_columns(columns: Any, n_features: int, names: Sequence[str] | None) -> list[int]:
    """Find the positions of the one or two columns to plot."""
    if columns is None:
        if n_features > 2:
            raise ValueError(
                f"only one or two features can be plotted, got {n_features}: choose them with columns, out of "
                f"{', '.join(column_label(j, names) for j in range(n_features))}."
            )
        return list(range(n_features))
    known: dict[Any, int] = {} if names is None else {name: j for j, name in enumerate(names)}
    chosen: list[Any] = [columns] if isinstance(columns, str | int) else list(columns)
    positions = [known.get(column, column) for column in chosen]
    if (
        not 1 <= len(positions) <= 2
        or len(set(positions)) < len(positions)
        or any(not isinstance(j, int | np.integer) or not 0 <= j < n_features for j in positions)
    ):
        raise ValueError(
            f"columns must be one or two of {', '.join(column_label(j, names) for j in range(n_features))}, got "
            f"{columns!r}."
        )
    return [int(j) for j in positions]


def label(position: int, names: Sequence[str] | None) -> str:
    """Name an axis."""
    return f"column {position}" if names is None else names[position]


def draw_density(ax: Any, measure: GridMeasure, text: str | None = None) -> None:
    """Plot the density of a measure of one or two features."""
    density = measure.on_cells(_PLOT_CELLS)
    if measure.n_features == 1:
        width = (measure.upper[0] - measure.lower[0]) / _PLOT_CELLS
        ax.stairs(density / width, measure.lower[0] + np.arange(_PLOT_CELLS + 1) * width, fill=text is None, label=text)
        return
    extent = (measure.lower[0], measure.upper[0], measure.lower[1], measure.upper[1])
    ax.imshow(np.sqrt(density.T), origin="lower", extent=extent, aspect=aspect_of(measure), cmap=COLOURS)


def aspect_of(measure: GridMeasure) -> Any:
    """Choose one scale for axes of one unit (the same bounds, or degrees of one place), "auto" for others."""
    latitudes, longitudes = degree_columns(measure.names)
    if latitudes and longitudes and latitudes != longitudes:
        middle = math.cos(math.radians(float(measure.lower[latitudes[0]] + measure.upper[latitudes[0]]) / 2))
        if middle > 0.01:
            return 1 / middle if latitudes[0] == 1 else middle
    same = measure.lower[0] == measure.lower[1] and measure.upper[0] == measure.upper[1]
    return "equal" if same else "auto"


def distance_to_rows(measure: GridMeasure, rows: FloatArray, ground: Norm, weights: FloatArray | None = None) -> float:
    """Compute W1 between a measure and rows with ``weights`` (all 1 by default), in fractions of the box.

    Exact up to half a cell of 1/4096 for d = 1; between the two measures on `GRID_CELLS` for d = 2, 3; between samples
    of up to 1000 rows for d ≥ 4.
    """
    unit = measure.box.to_unit(rows)
    d = measure.n_features
    if d == 1:
        cells = max(_LINE_CELLS // measure.shape[0], 1) * measure.shape[0] if measure.kind == "cells" else _LINE_CELLS
        centres = (np.arange(cells) + 0.5) / cells
        return float(wasserstein_distance(centres, unit[:, 0], measure.on_cells(cells), weights))
    if d in GRID_CELLS:
        cells = GRID_CELLS[d]
        counts = np.zeros((cells,) * d)
        cell = np.minimum((unit * cells).astype(np.int64), cells - 1)
        np.add.at(counts, tuple(cell.T), 1.0 if weights is None else weights)
        return wasserstein_grid(measure.on_cells(cells), counts / counts.sum(), ground)
    rng = public_generator(0)
    unit = some_rows(unit, weights, rng)
    drawn = measure.box.to_unit(measure.sample(unit.shape[0], rng))
    return assignment_cost(distances(drawn, unit, ground))


def some_rows(rows: NDArray[Any], weights: FloatArray | None, rng: np.random.Generator) -> NDArray[Any]:
    """Draw up to 1000 rows; 1000 in proportion to ``weights``, if there are any."""
    if weights is not None:
        return rows[even_draws(weights, _SAMPLES, rng)]
    if rows.shape[0] <= _SAMPLES:
        return rows
    return rows[rng.choice(rows.shape[0], _SAMPLES, replace=False)]


def even_draws(mass: FloatArray, n_samples: int, rng: np.random.Generator) -> IntArray:
    """Draw positions in proportion to ``mass``, spread evenly and in ascending order (systematic sampling)."""
    cumulated = np.cumsum(mass)
    points = (np.arange(n_samples) + rng.random()) / n_samples * cumulated[-1]
    last = int(np.flatnonzero(mass)[-1])
    positions: IntArray = np.minimum(np.searchsorted(cumulated, points, side="right"), last)
    return positions


def distances(x: FloatArray, y: FloatArray, ground: Norm) -> FloatArray:
    """Compute the distances between the rows of two tables."""
    return np.asarray(cdist(x, y, _CDIST[ground]))


def assignment_cost(cost: FloatArray) -> float:
    """Minimise the mean cost of an assignment of rows to columns: W1 between two samples of the same size."""
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())


def wasserstein_grid(p: FloatArray, q: FloatArray, ground: Norm = "linf") -> float:
    """Compute W1 between two measures on the same grid of the unit cube, by minimum-cost flow.

    The cost of moving mass is that of paths over grid edges: exact for "l1" (edges along axes) and "linf" on grids with
    equal sides (edges to all 3^d − 1 neighbours); for "l2" it uses these neighbours too and is at most 8 % above the
    Euclidean distance in the plane.
    """
    shape = p.shape
    index = np.arange(p.size).reshape(shape)
    tails, heads, costs = [], [], []
    for step in itertools.product((-1, 0, 1), repeat=p.ndim):
        if step <= (0,) * p.ndim or (ground == "l1" and np.count_nonzero(step) > 1):
            continue
        here = tuple(slice(max(0, -s), k - max(0, s)) for s, k in zip(step, shape, strict=True))
        there = tuple(slice(max(0, s), k - max(0, -s)) for s, k in zip(step, shape, strict=True))
        length = np.abs(np.array(step) / np.array(shape))
        cost = {"l1": length.sum(), "l2": np.sqrt((length**2).sum()), "linf": length.max()}[ground]
        tails.append(index[here].ravel())
        heads.append(index[there].ravel())
        costs.append(np.full(tails[-1].size, cost))
    tail, head, cost = (np.concatenate(parts) for parts in (tails, heads, costs))
    columns = np.arange(tail.size)
    half = csr_array(
        (
            np.concatenate([np.ones(tail.size), -np.ones(tail.size)]),
            (np.concatenate([tail, head]), np.concatenate([columns, columns])),
        ),
        shape=(p.size, tail.size),
    )
    # The dual: the largest difference of means of a function that is 1-Lipschitz along every edge. It has one
    # variable per cell instead of two per edge.
    difference = (p / p.sum() - q / q.sum()).ravel()
    slopes = half.T.tocsr()
    found: Any = linprog(  # type: ignore[call-overload]
        -difference,
        A_ub=vstack([slopes, -slopes]),
        b_ub=np.concatenate([cost, cost]),
        bounds=[(0, 0)] + [(None, None)] * (p.size - 1),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the transport problem was not solved: {found.message}")
    return float(-found.fun)
