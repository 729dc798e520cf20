"""What missing values are replaced by: private medians, or private modes among public categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.preprocessing._budget import Plan, selection_price
from skprivate.preprocessing._categories import code_numbers
from skprivate.preprocessing._columns import Column, Columns
from skprivate.privacy import Adjacency, BoundedRangeEvent, Mechanism
from skprivate.privacy._cells import weigh
from skprivate.privacy._quantiles import FINE, UNIT_WEIGHT, private_median, units_for_median


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

    def run(self, data: Columns, release: Any) -> list[Any]:
        """Release one value for every column.

        Parameters
        ----------
        data : Columns
        release : Release

        Returns
        -------
        list
        """
        return [self._select(data.column(j), j, release) for j in range(self.n_columns)]

    def _select(self, column: Column, j: int, release: Any) -> Any:
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

    def _select(self, column: Column, j: int, release: Any) -> float:
        low, high = (-math.inf, math.inf) if self.bounds is None else self.bounds[j]
        ends = FINE.cells(np.array([low, high]))
        cell = private_median(
            weigh(FINE.cells(np.clip(column.values, low, high)), column.units, UNIT_WEIGHT),
            epsilon=self.price,
            adjacency=self.adjacency,
            release=release,
            low=int(ends[0]),
            high=int(ends[1]),
        )
        return min(max(FINE.value(cell), low), high)


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

    def _select(self, column: Column, j: int, release: Any) -> Any:
        categories = list(self.categories[j])
        codes = np.array(code_numbers(column.values, categories), dtype=np.int64)
        data = weigh(codes, column.units, UNIT_WEIGHT)
        # One entry more: values that are no category, of which nothing is released.
        weights = np.zeros(len(categories) + 1, dtype=np.int64)
        weights[data.cells] = data.weights
        chosen = release.select(
            weights[:-1],
            sensitivity=UNIT_WEIGHT,
            epsilon=self.price,
            monotone=self.adjacency is Adjacency.ADD_REMOVE,
        )
        return categories[int(chosen)]
