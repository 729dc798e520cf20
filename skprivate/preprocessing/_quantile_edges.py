"""Quantiles of every column as a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skprivate.preprocessing._columns import Columns, Plan, Rows, column_cells, selection_price
from skprivate.privacy import Adjacency, BoundedRangeEvent, Mechanism
from skprivate.privacy.draws import (
    COARSE,
    FINE,
    ROW_WEIGHT,
    UNIT_WEIGHT,
    USER_WEIGHT,
    private_centre,
    private_quantiles,
    quantile_levels,
    units_for_median,
)
from skprivate.privacy.noise import FloatArray, IntArray

#: Public range of every column, or None.
Bounds = tuple[tuple[float, float], ...] | None


def cells_within(values: FloatArray, j: int, bounds: Bounds) -> IntArray:
    """Cells of the values of column j, clipped to its bounds."""
    return FINE.cells(values if bounds is None else np.clip(values, *bounds[j]))


def offset_cells(values: FloatArray, j: int, bounds: Bounds, centres: list[float]) -> IntArray:
    """Cells of the distances of the values of column j, clipped to its bounds, from its centre."""
    within = values if bounds is None else np.clip(values, *bounds[j])
    with np.errstate(over="ignore"):
        return COARSE.cells(within - centres[j])


@dataclass(frozen=True)
class ColumnQuantiles(Mechanism):
    """The numbers that split the units of every column into ``n_bins`` equal parts.

    Parameters
    ----------
    n_bins : tuple of int
        For each column; at least 2. Empty: nothing is released.
    epsilon, delta : float
    adjacency : Adjacency
    bounds : tuple of (float, float), or None
    """

    n_bins: tuple[int, ...]
    epsilon: float
    delta: float
    adjacency: Adjacency
    bounds: tuple[tuple[float, float], ...] | None = None
    theorem = "quantiles by recursive exponential mechanisms (Kaplan, Schnapp and Stemmer 2022), docs/preprocessing.md"

    @property
    def n_selections(self) -> int:
        return sum(map(quantile_levels, self.n_bins))

    @property
    def price(self) -> float:
        """ε of each selection."""
        return selection_price(self.n_selections, self.epsilon, self.delta)

    @property
    def events(self) -> Plan:
        return ((BoundedRangeEvent(self.price), self.n_selections),) if self.n_bins else ()

    @property
    def least_units(self) -> float:
        """So many units are needed for a median that has to do with the data."""
        return units_for_median(self.price, self.adjacency)

    def run(self, data: Rows, release: Any) -> list[FloatArray]:
        """Release the inner edges of all columns.

        Parameters
        ----------
        data : Columns or Partitions of Columns
        release : Release

        Returns
        -------
        list of ndarray of shape (n_bins[j] - 1,)
        """
        if not self.n_bins:
            return []
        draws: dict[str, Any] = {"epsilon": self.price, "adjacency": self.adjacency, "release": release}
        bounds = self.bounds or (None,) * len(self.n_bins)
        values = column_cells(data, partial(cells_within, bounds=self.bounds), UNIT_WEIGHT)
        centres = [
            private_centre(cells, bounds=limits, **draws)
            for cells, limits in zip(values, bounds, strict=True)
        ]
        # Users are in memory.
        by_row = not isinstance(data, Columns) or data.units is None
        total = ROW_WEIGHT if by_row else USER_WEIGHT
        offsets = column_cells(data, partial(offset_cells, bounds=self.bounds, centres=centres), total)
        return [
            private_quantiles(cells, centre, total=total, n_bins=n_bins, bounds=limits, **draws)
            for cells, centre, n_bins, limits in zip(offsets, centres, self.n_bins, bounds, strict=True)
        ]


def outer_edges(inner: FloatArray, bounds: tuple[float, float] | None) -> FloatArray:
    """Inner edges with an outer one on each side: the public bounds, or as far out as the next bin is wide.

    Parameters
    ----------
    inner : ndarray of shape (n_bins - 1,)
    bounds : (float, float) or None
    """
    if bounds is not None:
        low, high = bounds
    else:
        width = inner[-1] - inner[0]
        gaps = np.diff(inner)
        # Where neighbours coincide, the mean width; one edge alone: its own size.
        spare = width / max(len(gaps), 1) or max(abs(float(inner[0])), 1.0)
        low = inner[0] - (float(gaps[0]) if gaps.size and gaps[0] > 0 else spare)
        high = inner[-1] + (float(gaps[-1]) if gaps.size and gaps[-1] > 0 else spare)
    return np.concatenate([[low], inner, [high]])
