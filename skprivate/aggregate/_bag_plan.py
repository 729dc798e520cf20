"""Which feature sets and bags a label budget can tell apart: chosen from public numbers, before the release."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from skprivate.aggregate._aggregation import plan_membership
from skprivate.aggregate._cells import CellIndex, IntArray, index_cells
from skprivate.aggregate._columns import CodeArray, Column
from skprivate.aggregate._membership import Membership

#: Rows for each unit of noise variance from which on crosses are worth the noise that they bring to all tables.
_ROWS_FOR_CROSSES = 300
#: Pairs that are taken at most by default.
_MOST_PAIRS = 100
#: Rows of a cross's bag for each unit of noise variance, at least: bags below say nothing one by one.
_ROWS_FOR_BAG = 0.1


def plan_bags(
    columns: tuple[Column, ...],
    codes: list[CodeArray],
    feature_sets: Any,
    min_size: int | None,
    noise_variance: Callable[[Membership], float],
) -> Membership:
    """Assign rows to bags as the noise allows.

    Parameters
    ----------
    columns, codes
        From `learn_columns`.
    feature_sets : {"auto", "pairs", "singles"}, int, or list
        "auto" takes columns and their pairs (the widest hundred of them) where there are enough rows for the noise
        that so many tables need, else columns only.
    min_size : int or None
        None takes 10, or a tenth of the rows if there are fewer than 100; and for crosses that were not listed one by
        one, a tenth of the noise variance if that is more. A cross without a bag of so many rows is left out.
    noise_variance : callable
        Variance of the noise in each sum of a membership, in units of the largest label; 0 for exact sums.
    """
    n = codes[0].size
    base = min(10, max(n // 10, 1)) if min_size is None else min_size
    if isinstance(feature_sets, str) and feature_sets == "auto":
        n_pairs = len(columns) * (len(columns) - 1) // 2
        crossed = plan_membership(columns, codes, min(n_pairs, _MOST_PAIRS), base)
        if n < _ROWS_FOR_CROSSES * noise_variance(crossed):
            return plan_membership(columns, codes, "singles", base)
    else:
        crossed = plan_membership(columns, codes, feature_sets, base)
    least = math.ceil(_ROWS_FOR_BAG * noise_variance(crossed))
    if min_size is not None or least <= base or isinstance(feature_sets, (list, tuple)):
        return crossed
    return _larger_crosses(crossed, least)


def _larger_crosses(membership: Membership, least: int) -> Membership:
    n_codes = [column.n_codes for column in membership.columns]
    indexes: list[CellIndex] = []
    cells: list[CodeArray] = []
    counts: list[IntArray] = []
    for index, own_cells, own_counts in zip(
        membership.indexes, membership.cells, membership.counts, strict=True
    ):
        found = (index, own_cells, own_counts)
        if len(index.columns) > 1:
            found = index_cells(membership.codes, n_codes, index.columns, min_size=least)
            if found[0].n_cells < 2:
                continue
        indexes.append(found[0])
        cells.append(found[1])
        counts.append(found[2])
    if not indexes:
        return membership
    return Membership(membership.columns, membership.codes, indexes, cells, counts)
