"""Moments and fill values of every column as mechanisms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skprivate._validation import code_numbers
from skprivate.partitions import as_partitions
from skprivate.preprocessing._columns import (
    Column,
    Columns,
    Plan,
    Prices,
    Rows,
    column_cells,
    moment_events,
    moment_prices,
    selection_price,
)
from skprivate.preprocessing._quantile_edges import cells_within
from skprivate.privacy import (
    CONTRIBUTION_BITS,
    CONTRIBUTION_STEP,
    Adjacency,
    BoundedRangeEvent,
    Mechanism,
    exact_sum,
    upper_root,
)
from skprivate.privacy.draws import (
    FINE,
    OCTAVES,
    UNIT_WEIGHT,
    private_centre,
    private_reach,
    unit_means,
    units_beyond,
    units_for_median,
    weigh,
)
from skprivate.privacy.noise import FloatArray, IntArray

#: One step of contributions is 2⁻³⁰.
ONE = 1 << CONTRIBUTION_BITS
_SELECTIONS = 2
#: Numbers are clipped at twice what most of them reach: normal ones hardly ever, and long tails where few are left.
_REACH_FACTOR = 2.0


class Moments(NamedTuple):
    """Released numbers of all columns."""

    means: Any
    scales: Any
    centres: Any
    reaches: Any
    counts: Any


def contributions(column: Column, centre: float, reach: float, n_units: int) -> Any:
    """What each unit adds to the three sums of a column: integers, of shape (3, n_units).

    With z the mean of the unit's (x − centre)/reach, clipped to [−1, 1], and t that of the squares, it is
    (z, t − ½, ½) in steps of 2⁻³⁰, and 0 for a unit without values. Rounding keeps z² ≤ t ≤ 1.

    Parameters
    ----------
    column : Column
    centre, reach : float
        Released or public; ``reach > 0``.
    n_units : int
    """
    with np.errstate(over="ignore"):
        relative = np.clip((column.values - centre) / reach, -1.0, 1.0)
    z = np.trunc(relative * ONE).astype(np.int64)
    first, sizes = unit_means(z, column.units, n_units)
    second, _ = unit_means((z * z) >> CONTRIBUTION_BITS, column.units, n_units)
    second = np.maximum(second, -((-first * first) >> CONTRIBUTION_BITS))
    present = sizes > 0
    return np.stack([first, np.where(present, second - ONE // 2, 0), np.where(present, ONE // 2, 0)])


def fine_cells(values: FloatArray, j: int) -> IntArray:
    """Cells among which the centre of a column is found."""
    return FINE.cells(values)


def distance_cells(values: FloatArray, j: int, centres: Sequence[float]) -> IntArray:
    """Cells of the distances of column j from its centre."""
    with np.errstate(over="ignore"):
        return OCTAVES.cells(np.abs(values - centres[j]))


def moment_sums(block: Columns, centres: Sequence[float], reaches: Sequence[float]) -> Any:
    """Sums of `contributions` over the units of a block, of shape (n_columns, 3)."""
    return np.stack(
        [
            exact_sum(contributions(block.column(j), centre, reach or 1.0, block.n_units))
            for j, (centre, reach) in enumerate(zip(centres, reaches, strict=True))
        ]
    )


def sum_sensitivities(adjacency: Adjacency) -> tuple[int, float]:
    """ℓ1 and ℓ2 sensitivity of the sums of `contributions`, in steps.

    Contributions lie in the convex hull of the curve (z, z² − ½, ½), or are 0. Norms are convex, so the largest
    distances are those between ends of the curve: with d = z − z′ and s = z + z′, |d| ≤ 2 − |s|, the squared ℓ2
    distance d²(1 + s²) is at most 4 (s = 0), the ℓ1 distance |d|(1 + |s|) at most 9/4 (s = ½). From 0 they are
    at most 3/2 and 2.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return 9 * ONE // 4, float(2 * ONE)
    return 2 * ONE, upper_root(3 * ONE * ONE // 2)


@dataclass(frozen=True)
class ColumnMoments(Mechanism):
    """Noisy mean and scale of every column.

    Two selections find a centre (a median) and a reach of every column unless ``bounds`` are public; exact sums about
    the centre are released with noise.

    Parameters
    ----------
    n_columns : int
    epsilon, delta : float
    adjacency : Adjacency
    n_units : int or None
        Public number of units (replace-one).
    bounds : tuple of (float, float), or None
        Public range of every column.
    """

    n_columns: int
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_units: int | None = None
    bounds: tuple[tuple[float, float], ...] | None = None
    theorem = "clipped moments about a private centre, docs/preprocessing.md"

    @property
    def n_selections(self) -> int:
        return 0 if self.bounds is not None else _SELECTIONS

    @property
    def prices(self) -> Prices:
        l1, l2 = sum_sensitivities(self.adjacency)
        return moment_prices(
            self.n_columns, self.n_selections, (l1 / ONE, l2 / ONE), self.epsilon, self.delta
        )

    @property
    def events(self) -> Plan:
        return moment_events(self.prices, self.n_columns, self.n_selections)

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise on a sum, in units."""
        l1, l2 = sum_sensitivities(self.adjacency)
        prices = self.prices
        if prices.laplace is not None:
            return math.sqrt(2) * l1 / prices.laplace * CONTRIBUTION_STEP
        assert prices.noise_multiplier is not None
        return l2 * prices.noise_multiplier * CONTRIBUTION_STEP

    @property
    def least_units(self) -> float:
        """So many units are needed for a centre that has to do with the data (e⁻³ is left) and for its sums."""
        if not self.n_selections:
            return 4 * self.noise_scale
        price = self.prices.selection
        return max(units_for_median(price, self.adjacency), 3.0 * units_beyond(price), 4 * self.noise_scale)

    def run(self, data: Rows, release: Any) -> Moments:
        """Release the moments of all columns.

        Parameters
        ----------
        data : Columns or Partitions of Columns
        release : Release

        Returns
        -------
        Moments
        """
        centres, reaches = self._ranges(data, release)
        totals = as_partitions(data).sum(partial(moment_sums, centres=centres, reaches=reaches))
        columns = [
            self._column(total, centre, reach, release)
            for total, centre, reach in zip(totals, centres, reaches, strict=True)
        ]
        return Moments(*(np.array(numbers) for numbers in zip(*columns, strict=True)))

    def _column(
        self, total: Any, centre: float, reach: float, release: Any
    ) -> tuple[float, float, float, float, float]:
        first, second, half = self._sums(total, release)
        most = math.inf if self.n_units is None else float(self.n_units)
        count = min(max(2 * half, 1.0), most)
        mean = min(max(first / count, -1.0), 1.0)
        # No scale below what the noise can tell from 0.
        floor = min(self.noise_scale / count, 1.0)
        variance = min(max(second / count + 0.5 - mean * mean, floor), 1.0)
        if reach == 0.0:  # a constant column
            return centre, 1.0, centre, reach, count
        return centre + reach * mean, reach * math.sqrt(variance), centre, reach, count

    def _ranges(self, data: Rows, release: Any) -> tuple[list[float], list[float]]:
        """Centre and reach of every column."""
        if self.bounds is not None:
            halves = [0.5 * high - 0.5 * low for low, high in self.bounds]
            return [low + half for (low, _), half in zip(self.bounds, halves, strict=True)], halves
        price = self.prices.selection
        centres = [
            private_centre(cells, epsilon=price, adjacency=self.adjacency, release=release)
            for cells in column_cells(data, fine_cells, UNIT_WEIGHT)
        ]
        reaches = [
            private_reach(cells, epsilon=price, release=release)
            for cells in column_cells(data, partial(distance_cells, centres=centres), UNIT_WEIGHT)
        ]
        # The centre itself is no finer than that.
        return centres, [
            max(_REACH_FACTOR * reach, abs(centre) * 2.0**-16)
            for centre, reach in zip(centres, reaches, strict=True)
        ]

    def _sums(self, total: Any, release: Any) -> tuple[float, float, float]:
        prices = self.prices
        l1, l2 = sum_sensitivities(self.adjacency)
        if prices.laplace is not None:
            noisy = release.laplace(total, sensitivity=l1, epsilon=prices.laplace, step=CONTRIBUTION_STEP)
        else:
            noisy = release.gaussian(
                total, sensitivity=l2, noise_multiplier=prices.noise_multiplier, step=CONTRIBUTION_STEP
            )
        first, second, half = noisy.tolist()
        return first, second, half


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
