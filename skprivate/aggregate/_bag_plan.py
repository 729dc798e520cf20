"""Which feature sets and bags a label budget can tell apart: chosen from public numbers, before the release."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from skprivate.aggregate._cells import (
    CellIndex,
    IntArray,
    KeyCounts,
    add_key_counts,
    count_keys,
    make_cells,
    resolve_feature_sets,
)
from skprivate.aggregate._columns import Column
from skprivate.aggregate._label_sums import Labelled
from skprivate.aggregate._membership import Membership, assign_bags
from skprivate.partitions import Partitions

FeatureSet = tuple[int, ...]

#: Rows for each unit of noise variance from which on crosses are worth the noise that they bring to all tables.
_ROWS_FOR_CROSSES = 300
#: Pairs that are taken at most by default.
_MOST_PAIRS = 100
#: Rows of a cross's bag for each unit of noise variance, at least: bags below say nothing one by one.
_ROWS_FOR_BAG = 0.1


class KeyCounter:
    """How many rows have each value combination of feature sets; each set is counted once.

    Parameters
    ----------
    rows : Partitions
        Blocks are `Labelled`.
    columns : tuple of Column
    """

    def __init__(self, rows: Partitions, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.n_codes = [column.n_codes for column in columns]
        self._rows = rows
        self._known: dict[FeatureSet, KeyCounts] = {}

    def __call__(self, feature_sets: Sequence[FeatureSet]) -> list[KeyCounts]:
        """Counts of some sets; one pass over the rows for those that are new."""
        new = [one for one in feature_sets if one not in self._known]
        if new:
            form = partial(_count, n_codes=self.n_codes, feature_sets=new)
            counts: list[KeyCounts] = self._rows.gather(form, _add_counts)
            self._known.update(zip(new, counts, strict=True))
        return [self._known[one] for one in feature_sets]


def _count(block: Labelled, *, n_codes: list[int], feature_sets: Sequence[FeatureSet]) -> list[KeyCounts]:
    return [count_keys(block.codes, n_codes, one) for one in feature_sets]


def _add_counts(blocks: list[list[KeyCounts]]) -> list[KeyCounts]:
    return [add_key_counts(parts) for parts in zip(*blocks, strict=True)]


def plan_membership(counter: KeyCounter, feature_sets: Any, min_size: int) -> Membership:
    """The bags of the feature sets asked for, by public rules."""
    sets, given = resolve_feature_sets(
        feature_sets,
        [column.name for column in counter.columns],
        lambda asked: [found.counts for found in counter(asked)],
    )
    return assign_bags(counter.columns, sets, counter(sets), min_size=min_size, all_needed=given)


def plan_bags(
    counter: KeyCounter,
    n: int,
    feature_sets: Any,
    min_size: int | None,
    noise_variance: Callable[[Membership], float],
) -> Membership:
    """Make bags as the noise allows.

    Parameters
    ----------
    counter : KeyCounter
    n : int
        Number of rows.
    feature_sets : {"auto", "pairs", "singles"}, int, or list
        "auto" takes columns and their pairs (the widest hundred of them) where there are enough rows for the noise
        that so many tables need, else columns only.
    min_size : int or None
        None takes 10, or a tenth of the rows if there are fewer than 100; and for crosses that were not listed one by
        one, a tenth of the noise variance if that is more. A cross without a bag of so many rows is left out.
    noise_variance : callable
        Variance of the noise in each sum of a membership, in units of the largest label; 0 for exact sums.
    """
    base = min(10, max(n // 10, 1)) if min_size is None else min_size
    if isinstance(feature_sets, str) and feature_sets == "auto":
        n_pairs = len(counter.columns) * (len(counter.columns) - 1) // 2
        crossed = plan_membership(counter, min(n_pairs, _MOST_PAIRS), base)
        if n < _ROWS_FOR_CROSSES * noise_variance(crossed):
            return plan_membership(counter, "singles", base)
    else:
        crossed = plan_membership(counter, feature_sets, base)
    least = math.ceil(_ROWS_FOR_BAG * noise_variance(crossed))
    if min_size is not None or least <= base or isinstance(feature_sets, (list, tuple)):
        return crossed
    return _larger_crosses(crossed, counter, least)


def _larger_crosses(membership: Membership, counter: KeyCounter, least: int) -> Membership:
    indexes: list[CellIndex] = []
    counts: list[IntArray] = []
    for index, own_counts in zip(membership.indexes, membership.counts, strict=True):
        found = (index, own_counts)
        if len(index.columns) > 1:
            (known,) = counter([index.columns])
            found = make_cells(known, counter.n_codes, index.columns, min_size=least)[:2]
            if found[0].n_cells < 2:
                continue
        indexes.append(found[0])
        counts.append(found[1])
    return Membership(membership.columns, indexes, counts) if indexes else membership
