"""Numbers in cells of a public grid, with integer weights of which every unit has the same total.

The grid has a cell at 0 and cells of a fixed relative width on both sides, over all orders of magnitude, so that no
range has to be guessed. A unit spreads its weight evenly over its own rows; the sums of weights are exact integers, in
which nothing depends on the order of rows or on other units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy._lattice import FloatArray, IntArray

#: Smallest and largest magnitude told apart, as powers of two.
_LEAST, _MOST = -64, 64
_MANTISSA = 52


@dataclass(frozen=True)
class Grid:
    """Cells at 0 and at ±m·2^e for e from −64 to 63 and 2^bits values of m in [1, 2).

    Parameters
    ----------
    bits : int
        Relative width of a cell: 2^−bits.
    """

    bits: int

    @property
    def last(self) -> int:
        """The cells are numbered −last, …, last in the order of their values."""
        return (_MOST - _LEAST) << self.bits

    def cells(self, values: FloatArray) -> IntArray:
        """Number of the cell nearest to each value; infinite values belong to the outermost cells, NaN to none."""
        shift = _MANTISSA - self.bits
        # The bits of a positive float, read as an integer, are piecewise linear in its logarithm; the offset rounds.
        cells: IntArray = np.abs(np.ascontiguousarray(values, dtype=np.float64)).view(np.int64)
        cells += 1 << (shift - 1)
        cells >>= shift
        cells -= ((1022 + _LEAST + 1) << self.bits) - 1
        np.clip(cells, 0, self.last, out=cells)
        return np.negative(cells, out=cells, where=np.signbit(values))

    def value(self, cell: int) -> float:
        """Value of a cell."""
        number = abs(int(cell))
        if number == 0:
            return 0.0
        exponent, mantissa = divmod(number - 1, 1 << self.bits)
        return math.copysign(math.ldexp(1.0 + math.ldexp(mantissa, -self.bits), exponent + _LEAST), cell)

    def prior(self, cell: Any) -> Any:
        """Prior weight of the cells from 0 up to ``cell``, or minus that of those between it and 0.

        Coarse numbers are more likely a priori: the cells of the grids of 0, 4, 8, … bits, which are contained in this
        one, have the same weight in all. What needs few digits is then found with few units.

        Parameters
        ----------
        cell : int or ndarray of int

        Returns
        -------
        int or ndarray of int
            Differences of it are weights: of the cells above one and up to the other.
        """
        # The points of a coarser grid are every 2^shift-th cell from ±1 on: as many below 0 as above.
        number = np.maximum(cell, -cell - 1)
        total = number * 0
        for bits in self._levels:
            shift = self.bits - bits
            total += ((number + ((1 << shift) - 1)) >> shift) << shift
        return np.where(cell >= 0, self._prior_of_zero + total, -total)[()]

    @property
    def _levels(self) -> list[int]:
        return [*range(0, self.bits, 4), self.bits]

    @property
    def _prior_of_zero(self) -> int:
        return sum(1 << (self.bits - bits) for bits in self._levels)


@dataclass(frozen=True)
class WeightedCells:
    """Occupied cells in their order, and the total weight of the units in each.

    Parameters
    ----------
    cells : ndarray of shape (n_cells,), int64
    weights : ndarray of shape (n_cells,), int64
    """

    cells: IntArray
    weights: IntArray


def weigh(cells: IntArray, units: IntArray | None, total: int) -> WeightedCells:
    """Sum of the weights in every cell, where each unit spreads ``total`` evenly over its rows.

    Parameters
    ----------
    cells : ndarray of shape (n_rows,), int64
    units : ndarray of shape (n_rows,), int64, or None
        Unit of each row; None if every row is its own.
    total : int
        Weight of a unit. The i-th of its m rows, in the order of cells, gets ⌊(i+1)·total/m⌋ − ⌊i·total/m⌋: they add
        up to the total, and the weight in a cell is the same for every order of the rows.
    """
    if units is None:
        occupied, counts = np.unique(cells, return_counts=True)
        return WeightedCells(occupied.astype(np.int64), counts.astype(np.int64) * total)
    order = np.lexsort((cells, units))
    cells, units = cells[order], units[order]
    starts = np.flatnonzero(
        np.concatenate([np.ones(min(1, len(units)), dtype=bool), units[1:] != units[:-1]])
    )
    sizes = np.diff(np.append(starts, len(units)))
    place = np.arange(len(units), dtype=np.int64) - np.repeat(starts, sizes)
    size = np.repeat(sizes, sizes)
    weights = ((place + 1) * total) // size - (place * total) // size
    occupied, inverse = np.unique(cells, return_inverse=True)
    sums = np.zeros(len(occupied), dtype=np.int64)
    np.add.at(sums, inverse, weights)
    return WeightedCells(occupied.astype(np.int64), sums)


def merge_cells(parts: Sequence[WeightedCells]) -> WeightedCells:
    """Weights in every cell of several parts together."""
    if len(parts) == 1:
        return parts[0]
    cells = np.concatenate([part.cells for part in parts])
    order = np.argsort(cells, kind="stable")
    cells, weights = cells[order], np.concatenate([part.weights for part in parts])[order]
    if not cells.size:
        return WeightedCells(cells, weights)
    starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
    return WeightedCells(cells[starts], np.add.reduceat(weights, starts))


def unit_means(values: NDArray[Any], units: IntArray | None, n_units: int) -> tuple[IntArray, IntArray]:
    """Mean of the integers of each unit, rounded towards zero, and its number of rows.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Integers of absolute value below 2³².
    units : ndarray of shape (n_rows,), int64, or None
    n_units : int

    Returns
    -------
    means, sizes : ndarray of shape (n_units,), int64
        0 for units without rows.
    """
    whole = values.astype(np.int64)
    if units is None:
        return whole, np.ones(len(whole), dtype=np.int64)
    sums = np.zeros(n_units, dtype=np.int64)
    np.add.at(sums, units, whole)
    sizes = np.bincount(units, minlength=n_units).astype(np.int64)
    return np.sign(sums) * (np.abs(sums) // np.maximum(sizes, 1)), sizes
