"""Pictures of measures of one column or two; matplotlib is imported when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._bounds import column_label
from skprivate.metric._grid_measure import GridMeasure
from skprivate.metric._sphere import degree_columns

FloatArray = NDArray[np.float64]

_CELLS = 128
_COLOURS = "magma_r"


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
