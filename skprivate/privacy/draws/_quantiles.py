"""Private quantiles: a median, a range and levels, from weighted cells of a public grid.

The grid has a cell at 0 and cells of a fixed relative width on both sides, over all orders of magnitude, so that no
range has to be guessed. A unit spreads its weight evenly over its own rows; the sums of weights are exact integers, in
which nothing depends on the order of rows or on other units.

All draws are exponential mechanisms over cells, whose costs are integers: sums of the weights of units. Neighbouring
cells without data share a cost and are one category with a multiplicity. So a large grid costs no time, and only the
logarithm of its size in accuracy.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy._contributions import FloatArray, IntArray
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy.draws._draws import Draws

#: Smallest and largest magnitude that are distinguished, as powers of two.
_LEAST, _MOST = -64, 64
_MANTISSA = 52
#: Number of positions in a cell, over which its weight is spread: equal numbers may lie on both sides of a
#: quantile. The weight of a unit is this times ``ROW_WEIGHT`` (units are rows) or ``USER_WEIGHT``.
POSITIONS = 16
ROW_WEIGHT, USER_WEIGHT = 1, 1 << 10
#: A priori the next larger extent is e^−_DECAY times as likely; sums of costs stay far from overflow.
_DECAY, _MANY = 1 / 24, 1 << 36
#: Most bins of `private_quantiles`: their costs stay far from overflow.
MOST_BINS = 1024


@dataclass(frozen=True)
class Grid:
    """Cells at 0 and at ±m·2^e for e from −64 to 63 and 2^bits values of m in [1, 2)."""

    bits: int

    @property
    def last(self) -> int:
        """Number of the last cell: the cells are −last, …, last in the order of their values."""
        return (_MOST - _LEAST) << self.bits

    def cells(self, values: FloatArray) -> IntArray:
        """Number the cell nearest to each value; infinite values belong to the outermost cells, NaN to none."""
        shift = _MANTISSA - self.bits
        # The bits of a positive float, read as an integer, are piecewise linear in its logarithm; the offset rounds.
        cells: IntArray = np.abs(np.ascontiguousarray(values, dtype=np.float64)).view(np.int64)
        cells += 1 << (shift - 1)
        cells >>= shift
        cells -= ((1022 + _LEAST + 1) << self.bits) - 1
        np.clip(cells, 0, self.last, out=cells)
        return np.negative(cells, out=cells, where=np.signbit(values))

    def value(self, cell: int) -> float:
        """Return the value of a cell."""
        number = abs(int(cell))
        if number == 0:
            return 0.0
        exponent, mantissa = divmod(number - 1, 1 << self.bits)
        return math.copysign(math.ldexp(1.0 + math.ldexp(mantissa, -self.bits), exponent + _LEAST), cell)

    def prior(self, cell: Any) -> Any:
        """Sum the prior weights of the cells from 0 up to ``cell``; negative for the cells between it and 0.

        Coarse numbers are more likely a priori: the cells of the grids of 0, 4, 8, … bits, which are contained in this
        one, have the same weight in all. What needs few digits is then found with few units.
        """
        # The points of a coarser grid are every 2^shift-th cell from ±1 on: as many below 0 as above.
        number = np.maximum(cell, -cell - 1)
        total = number * 0
        for bits in self._levels:
            shift = self.bits - bits
            total += ((number + ((1 << shift) - 1)) >> shift) << shift
        prior_of_zero = sum(1 << (self.bits - bits) for bits in self._levels)
        return np.where(cell >= 0, prior_of_zero + total, -total)[()]

    @property
    def _levels(self) -> list[int]:
        return [*range(0, self.bits, 4), self.bits]


#: Medians are found up to a relative 2⁻¹⁷; the weight of a unit there.
FINE, UNIT_WEIGHT = Grid(16), 1 << 20
#: Extents and scales are found up to a factor.
OCTAVES = Grid(1)
#: Quantiles are found relative to their distance from a median.
COARSE = Grid(8)


@dataclass(frozen=True)
class WeightedCells:
    """Occupied cells in their order, and the total weight of the units in each."""

    cells: IntArray
    weights: IntArray


def weigh(cells: IntArray, units: IntArray | None, total: int) -> WeightedCells:
    """Sum the weights in every cell, where each unit spreads ``total`` evenly over its rows.

    The i-th of the m rows of a unit, in the order of cells, gets ⌊(i+1)·total/m⌋ − ⌊i·total/m⌋. These add up to the
    total, and the weight in a cell is the same for every order of the rows. Without ``units`` every row is a unit.
    """
    if units is None:
        low = int(cells.min(initial=0))
        if int(cells.max(initial=0)) - low <= len(cells):  # counting is faster than sorting
            counts = np.bincount(cells - low)
            occupied = np.flatnonzero(counts)
            return WeightedCells(occupied + low, counts[occupied] * total)
        occupied, counts = np.unique(cells, return_counts=True)
        return WeightedCells(occupied.astype(np.int64), counts.astype(np.int64) * total)
    order = np.lexsort((cells, units))
    cells, units = cells[order], units[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(units)), dtype=bool), units[1:] != units[:-1]]))
    sizes = np.diff(np.append(starts, len(units)))
    place = np.arange(len(units), dtype=np.int64) - np.repeat(starts, sizes)
    size = np.repeat(sizes, sizes)
    weights = ((place + 1) * total) // size - (place * total) // size
    occupied, inverse = np.unique(cells, return_inverse=True)
    sums = np.zeros(len(occupied), dtype=np.int64)
    np.add.at(sums, inverse, weights)
    return WeightedCells(occupied.astype(np.int64), sums)


def merge_cells(parts: Sequence[WeightedCells]) -> WeightedCells:
    """Add up the weights in every cell of several parts."""
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
    """Compute the mean of the integers (below 2³²) of each unit, rounded towards zero, and its number of rows."""
    numbers = values.astype(np.int64)
    if units is None:
        return numbers, np.ones(len(numbers), dtype=np.int64)
    sums = np.zeros(n_units, dtype=np.int64)
    np.add.at(sums, units, numbers)
    sizes = np.bincount(units, minlength=n_units).astype(np.int64)
    return np.sign(sums) * (np.abs(sums) // np.maximum(sizes, 1)), sizes


class Runs(NamedTuple):
    """Stretches of neighbouring candidates of equal cost, in order: first candidate, number of them, cost."""

    starts: IntArray
    lengths: IntArray
    costs: IntArray


def median_costs(data: WeightedCells, low: int, high: int) -> Runs:
    """Compute the cost max(weight below, weight above) of every cell from ``low`` to ``high``.

    One unit more, of weight w, raises every cost by 0 to w; a unit exchanged for another changes it by at most w. Cells
    beyond low and high count as those.
    """
    cells, weights = data.cells, data.weights
    if len(cells) and (cells[0] < low or cells[-1] > high or not (cells[1:] > cells[:-1]).all()):
        clipped = np.clip(cells, low, high)
        firsts = np.flatnonzero(np.diff(clipped, prepend=low - 1))  # cells are in order
        cells, weights = clipped[firsts], np.add.reduceat(weights, firsts)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
    beyond = upto[-1] - upto
    # Gap, cell, gap, cell, …, gap: the order of the candidates.
    starts, lengths, costs = (np.empty(2 * len(cells) + 1, dtype=np.int64) for _ in range(3))
    starts[0], starts[1::2], starts[2::2] = low, cells, cells + 1
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = high + 1 - starts[-1]
    costs[0::2], costs[1::2] = np.maximum(upto, beyond), np.maximum(upto[:-1], beyond[1:])
    present = np.flatnonzero(lengths)
    return Runs(starts[present], lengths[present], costs[present])


def private_median(
    data: WeightedCells,
    *,
    grid: Grid = FINE,
    epsilon: float,
    adjacency: Adjacency | str,
    release: Draws,
    low: int,
    high: int,
) -> int:
    """Draw the cell of a median, by the exponential mechanism on `median_costs`.

    It costs one ``BoundedRangeEvent(epsilon)``. With probability 1 − β its cost exceeds that of any cell of prior share
    π by at most (2/ε)·ln(1/(πβ)) units of weight `UNIT_WEIGHT` (half of that under add-remove).
    """
    runs = median_costs(data, low, high)
    before = grid.prior(runs.starts - 1)

    def locate(run: int, member: int) -> int:
        start, sought = int(runs.starts[run]), int(before[run]) + int(member)
        offset = bisect.bisect_right(range(int(runs.lengths[run])), sought, key=lambda k: int(grid.prior(start + k)))
        return start + offset

    chosen = release.select(
        -runs.costs,
        sensitivity=UNIT_WEIGHT,
        epsilon=epsilon,
        monotone=_monotone(adjacency),
        multiplicity=np.diff(before, append=grid.prior(high)),  # a run begins where another ends
        locate=locate,
    )
    return int(chosen)


def units_for_median(epsilon: float, adjacency: Adjacency | str) -> float:
    """Count the units for a `private_median` whose first two or three digits are right (up to e⁻³)."""
    candidates = len(FINE._levels) * (2 * FINE.last >> (FINE.bits - 8))
    return (2 if _monotone(adjacency) else 4) * (math.log(candidates) + 3) / epsilon


def extent_costs(data: WeightedCells, target: int, penalty: int) -> IntArray:
    """Compute how far the weights beyond each cell 0, …, last, without it and with it, are from enclosing ``target``.

    One unit more or less, or another one, changes every cost by at most its weight. A cell that holds the number sought
    costs nothing, whatever its weight. ``penalty`` is a public cost of every step: a prior that keeps the many cells
    beyond all numbers from outweighing the right one.
    """
    weights = np.zeros(OCTAVES.last + 1, dtype=np.int64)
    weights[data.cells] = data.weights
    beyond = weights.sum() - np.cumsum(weights)
    costs: IntArray = np.maximum(np.maximum(beyond - target, target - (beyond + weights)), 0)
    return costs + np.arange(OCTAVES.last + 1, dtype=np.int64) * penalty


def units_beyond(epsilon: float) -> int:
    """Count the units that stay beyond a `private_extent`: fewer cannot be distinguished from none (up to e⁻⁶)."""
    return math.ceil(2 * (math.log(1 / _DECAY) + 6) / epsilon)


def private_extent(data: WeightedCells, *, epsilon: float, release: Draws) -> float:
    """Draw a number beyond which about `units_beyond` units have their non-negative numbers.

    It costs one ``BoundedRangeEvent(epsilon)``. ``data`` are on the grid `OCTAVES`, with units of weight `UNIT_WEIGHT`.
    The result is the upper edge of a cell; 0 where too few numbers differ from 0.
    """
    cell = release.select(
        -extent_costs(
            data,
            target=min(units_beyond(epsilon), _MANY) * UNIT_WEIGHT,
            penalty=min(math.ceil(2 * _DECAY / epsilon * UNIT_WEIGHT), _MANY),
        ),
        sensitivity=UNIT_WEIGHT,
        epsilon=epsilon,
    )
    if cell == 0:
        return 0.0
    return 0.5 * (OCTAVES.value(int(cell)) + OCTAVES.value(min(int(cell) + 1, OCTAVES.last)))


@dataclass(frozen=True)
class _Node:
    """Neighbouring bins between two released positions."""

    first_bin: int
    n_bins: int
    low: int
    high: int

    @property
    def left(self) -> int:
        return self.n_bins // 2

    def split(self, at: int) -> tuple[_Node, _Node]:
        right = _Node(self.first_bin + self.left, self.n_bins - self.left, at, self.high)
        return _Node(self.first_bin, self.left, self.low, at), right


def split_costs(data: WeightedCells, low: int, high: int, left: int, n_bins: int) -> Runs:
    """Compute the cost |n_bins·below − left·(below + above)| of every position from ``low`` to ``high``.

    ``below`` is the weight between low and the position, ``above`` that between it and high, ``data`` hold the weight
    per position of each cell. A unit that adds weight a moves a cost by at most max(left, n_bins − left)·a.
    """
    first = data.cells * POSITIONS
    inside = (first + POSITIONS > low) & (first < high)
    begin = np.maximum(first[inside], low)
    end = np.minimum(first[inside] + POSITIONS, high)
    size = end - begin
    weights = data.weights[inside]
    # After `within` positions of a cell, below is what lies in earlier cells and `within` times the weight.
    within = np.arange(int(size.sum()), dtype=np.int64) - np.repeat(np.cumsum(size) - size, size) + 1
    earlier = np.cumsum(weights * size) - weights * size
    below = np.concatenate([np.zeros(1, np.int64), np.repeat(earlier, size) + within * np.repeat(weights, size)])
    lengths = np.ones(len(below), dtype=np.int64)
    # The last position of a cell shares its cost with all up to the next cell.
    lasts = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    lengths[lasts] += np.append(begin, high) - np.concatenate([np.full(1, low, np.int64), end])
    starts = low + np.cumsum(lengths) - lengths
    return Runs(starts.astype(np.int64), lengths, np.abs(n_bins * below - left * below[-1]))


def quantile_levels(n_bins: int) -> int:
    """Count the selections of `private_quantiles`, the one of a median included."""
    return 1 + (n_bins - 1).bit_length()


def private_centre(
    data: WeightedCells,
    *,
    epsilon: float,
    adjacency: Adjacency | str,
    release: Draws,
    bounds: tuple[float, float] | None = None,
) -> float:
    """Draw a median, as a number within ``bounds``.

    ``data`` hold the numbers, clipped to ``bounds``, on the grid `FINE`; units have the weight `UNIT_WEIGHT`.
    """
    low, high = (-math.inf, math.inf) if bounds is None else bounds
    ends = FINE.cells(np.array([low, high]))
    cell = private_median(
        data, epsilon=epsilon, adjacency=adjacency, release=release, low=int(ends[0]), high=int(ends[1])
    )
    return min(max(FINE.value(cell), low), high)


def private_quantiles(
    data: WeightedCells,
    centre: float,
    *,
    total: int,
    n_bins: int,
    epsilon: float,
    adjacency: Adjacency | str,
    release: Draws,
    bounds: tuple[float, float] | None = None,
) -> FloatArray:
    """Draw the n_bins − 1 numbers that split the weight of the units into equal parts.

    Distances from a median, which was found first, give the grid its resolution. Intervals are split, half of their
    bins to each side, all intervals of a level by one cost (Kaplan, Schnapp and Stemmer 2022): they are disjoint, and
    a unit has no more than its weight in all of them together. Equal numbers are no exception, because the weight of a
    cell is spread over its positions.

    ``data`` hold the differences from ``centre`` on the grid `COARSE`, ``total`` is the weight of a unit per position,
    and ``epsilon`` the cost of each of the `quantile_levels` selections.
    """
    low, high = (-math.inf, math.inf) if bounds is None else bounds
    last = COARSE.cells(np.array([low - centre, high - centre])) + np.array([0, 1])
    splits = np.empty(n_bins - 1, dtype=np.int64)
    nodes = [_Node(0, n_bins, int(last[0]) * POSITIONS, int(last[1]) * POSITIONS)]
    # A unit that is exchanged for another leaves some nodes with its weight and enters some.
    weight = POSITIONS * total * (1 if _monotone(adjacency) else 2)
    while nodes := [node for node in nodes if node.n_bins > 1]:
        common = math.lcm(*(node.n_bins for node in nodes))
        runs = [split_costs(data, node.low, node.high, node.left, node.n_bins) for node in nodes]
        chosen = release.select_parts(
            [-run.costs * (common // node.n_bins) for run, node in zip(runs, nodes, strict=True)],
            sensitivity=weight * max((node.n_bins - node.left) * (common // node.n_bins) for node in nodes),
            epsilon=epsilon,
            multiplicity=[run.lengths for run in runs],
            locate=partial(_position, runs),
        )
        splits[[node.first_bin + node.left - 1 for node in nodes]] = chosen
        nodes = [child for node, at in zip(nodes, chosen, strict=True) for child in node.split(at)]
    edges: FloatArray = np.array([centre + _position_value(int(at)) for at in splits])
    return np.clip(edges, low, high)


def _position(runs: Sequence[Runs], part: int, run: int, member: int) -> int:
    return int(runs[part].starts[run]) + int(member)


def _position_value(position: int) -> float:
    """Return the distance of a position from the centre: the value of a cell, or the middle between two cells."""
    cell, within = divmod(position, POSITIONS)
    if within:
        return COARSE.value(cell)
    below, above = (COARSE.value(min(max(k, -COARSE.last), COARSE.last)) for k in (cell - 1, cell))
    return 0.5 * (below + above)


def _monotone(adjacency: Adjacency | str) -> bool:
    return Adjacency(adjacency) is Adjacency.ADD_REMOVE
