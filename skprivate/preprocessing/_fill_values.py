"""What missing values are replaced by: private medians, or private modes among public categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skprivate._tables import code_numbers
from skprivate.partitions import as_partitions
from skprivate.preprocessing._budget import Plan, selection_price
from skprivate.preprocessing._columns import Columns, Rows, column_cells
from skprivate.preprocessing._quantile_edges import cells_within
from skprivate.privacy import Adjacency, BoundedRangeEvent, Mechanism
from skprivate.privacy.draws._quantiles import UNIT_WEIGHT, private_centre, units_for_median, weigh
from skprivate.privacy.noise._lattice import IntArray


@dataclass(frozen=True)
class OneSelection(Mechanism):
    """One selection by the exponential mechanism for every column.

    Parameters
    ----------
    n_columns : int
    epsilon, delta : float
    adjacency : Adjacency
    """

    n_columns: int
    epsilon: float
    delta: float
    adjacency: Adjacency

    @property
    def price(self) -> float:
        """ε of each selection."""
        return selection_price(self.n_columns, self.epsilon, self.delta)

    @property
    def events(self) -> Plan:
        return ((BoundedRangeEvent(self.price), self.n_columns),)

    @property
    def n_candidates(self) -> int:
        """Of a column, at most."""
        raise NotImplementedError

    @property
    def least_units(self) -> float:
        """So many units are needed for a selection that has to do with the data."""
        factor = 4 if self.adjacency is Adjacency.REPLACE_ONE else 2
        return factor * (math.log(self.n_candidates) + 3) / self.price

    def run(self, data: Rows, release: Any) -> list[Any]:
        """Release one value for every column.

        Parameters
        ----------
        data : Columns or Partitions of Columns
        release : Release

        Returns
        -------
        list
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ColumnMedians(OneSelection):
    """A median of every column.

    Parameters
    ----------
    bounds : tuple of (float, float), or None
        Public range of every column.
    """

    bounds: tuple[tuple[float, float], ...] | None = None
    theorem = "median by the exponential mechanism, docs/preprocessing.md"

    @property
    def least_units(self) -> float:
        """So many units are needed for a median that has to do with the data."""
        return units_for_median(self.price, self.adjacency)

    def run(self, data: Rows, release: Any) -> list[float]:
        """Release the medians."""
        columns = column_cells(data, partial(cells_within, bounds=self.bounds), UNIT_WEIGHT)
        return [
            private_centre(
                cells, epsilon=self.price, adjacency=self.adjacency, release=release, bounds=bounds
            )
            for cells, bounds in zip(columns, self.bounds or (None,) * self.n_columns, strict=True)
        ]


@dataclass(frozen=True)
class ColumnModes(OneSelection):
    """The most frequent one of the public categories of every column.

    Parameters
    ----------
    categories : tuple of tuple
    """

    categories: tuple[tuple[Any, ...], ...] = ()
    theorem = "mode by the exponential mechanism, docs/preprocessing.md"

    @property
    def n_candidates(self) -> int:
        return max(map(len, self.categories))

    def run(self, data: Rows, release: Any) -> list[Any]:
        """Release the modes."""
        sums = as_partitions(data).sum(partial(category_weights, categories=self.categories))
        return [
            self._select(weights, values, release)
            for weights, values in zip(sums, self.categories, strict=True)
        ]

    def _select(self, weights: IntArray, categories: tuple[Any, ...], release: Any) -> Any:
        chosen = release.select(
            weights[: len(categories)],
            sensitivity=UNIT_WEIGHT,
            epsilon=self.price,
            monotone=self.adjacency is Adjacency.ADD_REMOVE,
        )
        return categories[int(chosen)]


def category_weights(block: Columns, categories: tuple[tuple[Any, ...], ...]) -> IntArray:
    """Weights of the categories of every column in a block, of shape (n_columns, most categories + 1).

    Behind those of a column stands what is no category, of which nothing is released.
    """
    weights = np.zeros((len(categories), max(map(len, categories)) + 1), dtype=np.int64)
    for j, values in enumerate(categories):
        column = block.column(j)
        found = weigh(code_numbers(column.values, values), column.units, UNIT_WEIGHT)
        weights[j, found.cells] = found.weights
    return weights
