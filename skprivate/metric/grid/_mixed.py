"""Rows with categorical columns: public category values, their combinations, and measures on both kinds of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skprivate._messages import pyplot
from skprivate._validation import all_differ, code_numbers, column_label
from skprivate.metric import _domains, _tables
from skprivate.metric.grid import _measure
from skprivate.metric.grid._measure import GridMeasure
from skprivate.privacy import Versioned, public_generator
from skprivate.privacy.noise import FloatArray, IntArray

#: Most combinations of categories.
MAX_COMBINATIONS = 1 << 14


@dataclass(frozen=True)
class MixedColumns:
    """Categorical columns, with their public values by column number, and numeric ones."""

    n_features: int
    values: dict[int, tuple[Any, ...]]
    names: tuple[str, ...] | None = None

    @property
    def numeric(self) -> list[int]:
        """Numbers of the numeric columns."""
        return [column for column in range(self.n_features) if column not in self.values]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories per categorical column."""
        return tuple(len(self.values[column]) for column in sorted(self.values))

    @property
    def n_combinations(self) -> int:
        return math.prod(self.sizes)

    @property
    def bits(self) -> int:
        """Bits of the number of a combination."""
        return (self.n_combinations - 1).bit_length()

    def encode(self, X: NDArray[Any]) -> tuple[FloatArray, IntArray]:
        """Split rows into numeric columns and combinations of categories (the first column varies slowest).

        Errors name the column, not the value.
        """
        combination = np.zeros(X.shape[0], dtype=np.int64)
        for column in sorted(self.values):
            size, name = len(self.values[column]), column_label(column, self.names)
            codes = code_numbers(X[:, column], self.values[column])
            if (codes == size).any():
                raise ValueError(
                    f"column {name} of X has a value that is missing or not among categories[{name}]; list every "
                    "value, or map rare and missing ones to a category of their own first."
                )
            combination = combination * size + codes
        numeric = np.empty((X.shape[0], len(self.numeric)))
        for i, column in enumerate(self.numeric):
            numeric[:, i] = _tables.numbers(X[:, column], column_label(column, self.names))
        _tables.refuse_missing(numeric, self.names, "A numeric column", self.numeric)
        return numeric, combination

    def decode(self, numeric: FloatArray, combination: IntArray) -> list[NDArray[Any]]:
        """Invert `encode`: columns with the original values, as objects for categories."""
        if not self.values:
            return list(numeric.T)
        columns: list[NDArray[Any]] = [np.empty(0)] * self.n_features
        for i, column in enumerate(self.numeric):
            columns[column] = numeric[:, i]
        codes = np.unravel_index(combination, self.sizes)
        for column, code in zip(sorted(self.values), codes, strict=True):
            palette = np.empty(len(self.values[column]), dtype=object)
            palette[:] = self.values[column]
            columns[column] = palette[code]
        return columns

    def examples(self) -> list[NDArray[Any]]:
        """Make columns in which each category occurs, and zeros for numbers."""
        n_rows = max(self.sizes, default=1)
        places = [np.arange(n_rows) % size for size in self.sizes]
        combination = np.ravel_multi_index(places, self.sizes) if places else np.zeros(n_rows, dtype=np.int64)
        return self.decode(np.zeros((n_rows, len(self.numeric))), combination)


def check_categories(
    categories: object, n_features: int, names: Any = None, declared: Mapping[int, Any] | None = None
) -> MixedColumns:
    """Turn a parameter ``categories``, and values that types of columns declare, into `MixedColumns`."""
    if categories is None:
        categories = {}
    elif not isinstance(categories, Mapping) or not categories:
        raise ValueError(
            f"categories must be None or a non-empty dict of columns and their values, got {categories!r}."
        )
    known = {} if names is None else {str(name): i for i, name in enumerate(names)}
    values: dict[int, tuple[Any, ...]] = {}
    for key, listed in categories.items():
        column = known.get(key) if isinstance(key, str) else key
        if not isinstance(column, (int, np.integer)) or not 0 <= column < n_features:
            raise ValueError(
                f"categories has the key {key!r}, which is no column of X; the columns are "
                f"{', '.join(column_label(j, names) for j in range(n_features))}."
            )
        if isinstance(listed, str) or len(listed) == 0:
            raise ValueError(f"categories[{key!r}] must be a non-empty sequence of values, got {listed!r}.")
        if int(column) in values or not all_differ(listed):
            raise ValueError(f"categories[{key!r}] must list every value once, for every column once.")
        values[int(column)] = tuple(listed)
    values = {column: tuple(listed) for column, listed in (declared or {}).items()} | values
    columns = MixedColumns(n_features, values, None if names is None else tuple(map(str, names)))
    if columns.n_combinations > MAX_COMBINATIONS:
        raise ValueError(
            f"categories have {columns.n_combinations} combinations, more than {MAX_COMBINATIONS}; merge some, "
            "or give bounds of booleans and of other columns of numbers among them."
        )
    return columns


@dataclass(frozen=True, eq=False)
class MixedMeasure(Versioned):
    """A probability measure on combinations of categories × a grid of a box.

    Parameters
    ----------
    columns : MixedColumns
    lower, upper : ndarray of shape (n_numeric,)
    weights : ndarray of shape (n_combinations, *grid)
        Nonnegative, adds up to 1.
    kind : {"cells", "nodes"}, default="cells"
        Meaning of the weights, as in `GridMeasure`.
    """

    columns: MixedColumns
    lower: FloatArray
    upper: FloatArray
    weights: FloatArray
    kind: Literal["cells", "nodes"] = "cells"

    @property
    def n_features(self) -> int:
        return self.columns.n_features

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def draw(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draw numeric columns and combinations of rows, spread evenly over the measure, in random order."""
        mass = self.weights.reshape(self.shape[0], -1).sum(axis=1)
        combination = _measure.even_draws(mass, n_samples, rng)
        numeric = np.empty((n_samples, self.lower.size))
        if self.lower.size:
            for group in np.unique(combination):
                part = combination == group
                grid = GridMeasure(self.lower, self.upper, self.weights[group], self.kind)
                numeric[part] = grid.sample(int(part.sum()), rng)
        order = rng.permutation(n_samples)
        return numeric[order], combination[order]

    def distance_to_rows(
        self, X: NDArray[Any], ground: _domains.Norm, weight: float = 1.0, weights: FloatArray | None = None
    ) -> float:
        """Compute W1 to up to 1000 rows by assignment: in fractions of the bounds, plus ``weight`` per category."""
        rng = public_generator(0)
        X = _measure.some_rows(X, weights, rng)
        box = _domains.Box(self.lower, self.upper)
        (first, here), (second, there) = self.columns.encode(X), self.draw(X.shape[0], rng)
        cost = np.zeros((here.size, there.size))
        if self.lower.size:
            cost += _measure.distances(box.to_unit(first), box.to_unit(second), ground)
        sizes = self.columns.sizes
        for one, other in zip(np.unravel_index(here, sizes), np.unravel_index(there, sizes), strict=True):
            cost += weight * (one[:, None] != other[None])
        return _measure.assignment_cost(cost)

    def plot(self, ax: Any = None, *, columns: object = None) -> Any:
        """Plot columns as `GridMeasure.plot` does: bars for categories, one line per category beside a number."""
        names, numeric = self.columns.names, self.columns.numeric
        chosen = _measure.plotted_columns(columns, self.n_features, names)
        ax = pyplot().gca() if ax is None else ax
        labels = [_measure.label(j, names) for j in chosen]
        listed = [j for j in chosen if j in self.columns.values]
        if not listed:
            own = None if names is None else tuple(names[j] for j in numeric)
            grid = GridMeasure(self.lower, self.upper, self.weights.sum(axis=0), self.kind, own)
            return grid.plot(ax, columns=[numeric.index(j) for j in chosen])
        # One axis per categorical column, then one per numeric one.
        mass = self.weights.reshape(*self.columns.sizes, *self.weights.shape[1:])
        axes = [sorted(self.columns.values).index(j) for j in listed]
        if len(listed) == len(chosen):
            kept = np.moveaxis(mass, axes, range(len(axes)))
            table = kept.reshape(*kept.shape[: len(axes)], -1).sum(axis=-1)
            values = [self.columns.values[j] for j in listed]
            if len(listed) == 1:
                ax.bar(range(len(values[0])), table)
                labels.append("probability")
            else:
                ax.imshow(table.T, origin="lower", aspect="auto", cmap=_measure.COLOURS, vmin=0)
                ax.set_yticks(range(len(values[1])), [str(value) for value in values[1]])
            ax.set_xticks(range(len(values[0])), [str(value) for value in values[0]])
        else:
            (number,) = (j for j in chosen if j not in listed)
            by_value = np.moveaxis(mass, axes[0], 0)
            by_value = by_value.reshape(by_value.shape[0], -1, *self.weights.shape[1:]).sum(axis=1)
            for value, weights in zip(self.columns.values[listed[0]], by_value, strict=True):
                grid = GridMeasure(self.lower, self.upper, weights, self.kind)
                _measure.draw_density(ax, grid.marginal([numeric.index(number)]), str(value))
            ax.legend(title=_measure.label(listed[0], names))
            labels = [_measure.label(number, names), "density × probability"]
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        return ax

    def __repr__(self) -> str:
        return f"MixedMeasure(shape={self.shape})"
