"""How far a column extends from its released centre: one selection among powers of two and their halves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy.draws._quantiles import OCTAVES, UNIT_WEIGHT, Grid, WeightedCells, reach_costs

IntArray = npt.NDArray[np.int64]

#: A reach up to these, in units of the centre and in the column's own, is none. About the centre of a column that is
#: mostly one value all distances are the error of the grid; and where about as many users as are sought have another
#: value than 0, every number between the two is as good a reach.
LEAST_RELATIVE, LEAST_REACH = 2.0**-17, 2.0**-30
#: A priori the next larger reach is e^−DECAY times as likely.
DECAY = 1.0 / 24.0
#: A priori a reach k octaves from a released one, or from 1, is as likely as this power of 1 + k.
PRIOR_TAIL = 1.5
#: Targets and penalties are at most those of so many users: sums of costs stay far from overflow.
_MANY = 2.0**40


def least_reach(centre: float, grid: Grid = OCTAVES) -> int:
    """Last cell of reaches that are none about this centre."""
    return int(grid.cells(np.array([max(LEAST_REACH, LEAST_RELATIVE * abs(centre))]))[0])


def reach_of_column(
    cells: IntArray,
    least: int,
    n_beyond: float,
    epsilon: float,
    release: Any,
    known: list[int] | None = None,
    grid: Grid = OCTAVES,
) -> float:
    """Distance beyond which so many users lie, from the number of users in each cell; 0 if it is in ``least`` or below.

    All cells up to ``least`` say the same and are one candidate. Reaches near ``known`` ones, cells that were released
    before, are likelier a priori: columns tend to be alike, and one that is not loses no more than by a prior of all
    scales. Without them a smaller reach is likelier than a larger one.
    """
    finer = 2.0 ** (grid.bits - OCTAVES.bits)
    counts = np.concatenate([cells[: least + 1].sum(keepdims=True), cells[least + 1 :]])
    occupied = np.flatnonzero(counts)
    scale = min(2.0 / epsilon, _MANY / grid.last) * UNIT_WEIGHT
    costs = reach_costs(
        WeightedCells(occupied, counts[occupied] * UNIT_WEIGHT),
        target=math.ceil(min(n_beyond, _MANY) * UNIT_WEIGHT),
        penalty=0 if known else math.ceil(DECAY / finer * scale),
        grid=grid,
    )
    if known:
        steps = np.abs(np.subtract.outer(np.arange(1, len(costs)) + least, known)) / finer
        likelihood = np.mean((1.0 + steps) ** -PRIOR_TAIL, axis=1)
        costs[1:] += np.ceil(-np.log(likelihood) * scale).astype(np.int64)
    # That a column has a reach is as likely as on the coarsest grid, however many there are to choose from.
    costs[1:] += math.ceil(math.log(finer) * scale)
    chosen = int(release.select(-costs[: len(counts)], sensitivity=UNIT_WEIGHT, epsilon=epsilon))
    return grid.value(least + chosen) if chosen else 0.0
