"""Private measures as they are published: weights on a grid of a public box."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import column_label
from skprivate.metric._domains import BallBox, Box, degree_columns
from skprivate.metric._transport import GroundNorm, wasserstein_1d, wasserstein_grid, wasserstein_samples
from skprivate.metric.grid._hierarchy import leaf_counts
from skprivate.privacy import Versioned, public_generator

FloatArray = NDArray[np.float64]

#: Of pictures.
_CELLS = 128
_COLOURS = "magma_r"


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
        "cells": weight i of an axis with k entries is spread evenly over [i/k, (i+1)/k] of the side. "nodes": it stands
        for the hat function around i/(k−1), folded inwards at the ends; k ≥ 2.
    names : tuple of str, optional
        Of the features.
    ball : BallBox, optional
        The ball in the box that rows lie in, where ``bounds`` were a `Ball`: rows that are drawn are brought into it.
    """

    lower: FloatArray
    upper: FloatArray
    weights: FloatArray
    kind: Literal["cells", "nodes"]
    names: tuple[str, ...] | None = None
    ball: BallBox | None = None

    @property
    def box(self) -> Box:
        """The domain: the ball, if there is one."""
        return Box(self.lower, self.upper) if self.ball is None else self.ball

    @property
    def n_features(self) -> int:
        return self.weights.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Entries per axis."""
        return self.weights.shape

    def points(self) -> FloatArray:
        """Where the weights stand: centres of the cells, or the nodes; shape (n_weights, n_features)."""
        axes = [
            (np.arange(k) + 0.5) / k if self.kind == "cells" else np.arange(k) / max(k - 1, 1)
            for k in self.shape
        ]
        unit = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.n_features)
        return self.box.from_unit(unit)

    def on_cells(self, cells: int) -> FloatArray:
        """Probability of each cell of the grid with ``cells`` cells along every side."""
        mass = self.weights
        for axis in range(self.n_features):
            mass = np.moveaxis(
                np.diff(self._distribution(np.moveaxis(mass, axis, 0), cells), axis=0), 0, axis
            )
        return mass

    def _distribution(self, mass: FloatArray, cells: int) -> FloatArray:
        """Mass below the edges of the cells along the first axis."""
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
        # Between two nodes: what is left of the triangle of the first, and the beginning of that of the second; those
        # of the first and of the last node are folded inwards.
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
        """What `sample` draws, in blocks of ``n_rows``: besides one of them, 8 bytes a row are in memory."""
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
                # Both numbers of a row in turn, so that rows do not depend on the blocks.
                ends = rng.random((len(index), 2, self.n_features))
                unit = (index + (ends[:, 0] - ends[:, 1])) / np.maximum(sizes - 1, 1)
                unit = 1 - np.abs(1 - np.abs(unit))
            yield self.box.from_unit(unit)

    def __repr__(self) -> str:
        return f"GridMeasure(shape={self.shape}, kind={self.kind!r})"

    def marginal(self, columns: list[int]) -> GridMeasure:
        """The measure of some of the features, in the given order."""
        others = tuple(axis for axis in range(self.n_features) if axis not in columns)
        kept = [axis for axis in range(self.n_features) if axis in columns]
        weights = np.transpose(self.weights.sum(axis=others), [kept.index(axis) for axis in columns])
        names = None if self.names is None else tuple(self.names[axis] for axis in columns)
        return GridMeasure(self.lower[columns], self.upper[columns], weights, self.kind, names)

    def plot(self, ax: Any = None, *, columns: Any = None) -> Any:
        """Draw the density of one feature or two; axes with one unit are drawn to one scale.

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
        ax = axes_or_current(ax)
        draw_density(ax, self.marginal(chosen))
        ax.set_xlabel(label(chosen[0], self.names))
        ax.set_ylabel("density" if len(chosen) == 1 else label(chosen[1], self.names))
        return ax


def _morton_order(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Order of the weights in which every aligned box of a binary hierarchy is visited at one stretch (Morton)."""
    keys = []
    index = np.indices(shape).reshape(len(shape), -1)
    bits = max(max(k - 1, 1).bit_length() for k in shape)
    for bit in range(bits):  # least significant key first, as lexsort wants them
        keys += [(index[axis] >> bit) & 1 for axis in reversed(range(len(shape)))]
    return np.lexsort(keys).astype(np.int64)


def plotted_columns(columns: Any, n_features: int, names: Sequence[str] | None) -> list[int]:
    """Positions of the one or two columns that are to be drawn."""
    if columns is None:
        if n_features > 2:
            raise ValueError(
                f"only one or two features can be drawn, got {n_features}: choose them with columns, out of "
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
    """What an axis is called."""
    return f"column {position}" if names is None else names[position]


def axes_or_current(ax: Any) -> Any:
    """The axes to draw into."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.gca()
    return ax


def draw_density(ax: Any, measure: GridMeasure, text: str | None = None) -> None:
    """Density of a measure of one or two features."""
    density = measure.on_cells(_CELLS)
    if measure.n_features == 1:
        width = (measure.upper[0] - measure.lower[0]) / _CELLS
        ax.stairs(
            density / width, measure.lower[0] + np.arange(_CELLS + 1) * width, fill=text is None, label=text
        )
        return
    extent = (measure.lower[0], measure.upper[0], measure.lower[1], measure.upper[1])
    ax.imshow(np.sqrt(density.T), origin="lower", extent=extent, aspect=aspect_of(measure), cmap=_COLOURS)


def aspect_of(measure: GridMeasure) -> Any:
    """Equal where both axes have one unit: the same bounds, or degrees of one place; "auto" otherwise."""
    latitudes, longitudes = ([], []) if measure.names is None else degree_columns(measure.names)
    if latitudes and longitudes and latitudes != longitudes:
        middle = math.cos(math.radians(float(measure.lower[latitudes[0]] + measure.upper[latitudes[0]]) / 2))
        if middle > 0.01:
            return 1 / middle if latitudes[0] == 1 else middle
    same = measure.lower[0] == measure.lower[1] and measure.upper[0] == measure.upper[1]
    return "equal" if same else "auto"


def draw_bars(ax: Any, mass: FloatArray, values: Sequence[Any]) -> None:
    """Probability of each category."""
    ax.bar(range(len(values)), mass)
    ax.set_xticks(range(len(values)), [str(value) for value in values])


def draw_table(ax: Any, mass: FloatArray, values: Sequence[Sequence[Any]]) -> None:
    """Probability of each combination of two columns of categories."""
    ax.imshow(mass.T, origin="lower", aspect="auto", cmap=_COLOURS, vmin=0)
    ax.set_xticks(range(len(values[0])), [str(value) for value in values[0]])
    ax.set_yticks(range(len(values[1])), [str(value) for value in values[1]])


#: Cells per side of the grid on which transport is solved, by number of features.
GRID_CELLS = {2: 32, 3: 10}
_LINE_CELLS = 4096
_SAMPLES = 1000


def distance_to_rows(measure: GridMeasure, rows: FloatArray, ground: GroundNorm) -> float:
    """W1 between a measure and rows, in fractions of the box.

    Parameters
    ----------
    measure : GridMeasure
    rows : ndarray of shape (n, d)
    ground : {"l1", "l2", "linf"}

    Returns
    -------
    float
        Exact up to half a cell of 1/4096 for d = 1; between the two measures on `GRID_CELLS` for d = 2, 3; between
        samples of up to 1000 rows for d ≥ 4.
    """
    unit = measure.box.to_unit(rows)
    d = measure.n_features
    if d == 1:
        cells = (
            max(_LINE_CELLS // measure.shape[0], 1) * measure.shape[0]
            if measure.kind == "cells"
            else _LINE_CELLS
        )
        centres = (np.arange(cells) + 0.5) / cells
        return wasserstein_1d(centres, unit[:, 0], measure.on_cells(cells))
    if d in GRID_CELLS:
        cells = GRID_CELLS[d]
        counts = leaf_counts(unit, (cells,) * d).astype(np.float64)
        return wasserstein_grid(measure.on_cells(cells), counts / counts.sum(), ground)
    rng = public_generator(0)
    if unit.shape[0] > _SAMPLES:
        unit = unit[rng.choice(unit.shape[0], _SAMPLES, replace=False)]
    drawn = measure.box.to_unit(measure.sample(unit.shape[0], rng))
    return wasserstein_samples(drawn, unit, ground)
