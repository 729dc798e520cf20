"""Membership of rows in curated bags: the public half of every report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables._cells import BagTable, CellIndex, IntArray, KeyCounts, make_cells
from skprivate.aggregate.tables._columns import CodeArray, Column, encode_columns
from skprivate.aggregate.tables._curated_bags import CuratedBags
from skprivate.aggregate.tables._sums import Further, Integers, Labelled, ReleasedSums, block_sums
from skprivate.partitions import OTHER_ROWS, Partitions
from skprivate.privacy import PrivacyGuarantee


def _cell_sums(
    block: Labelled, *, indexes: Sequence[CellIndex], integers: Integers, further: Further | None
) -> NDArray[np.int64]:
    def members() -> Iterator[tuple[CodeArray, None, int]]:
        for index in indexes:
            cells = index.locate(block.codes)
            if np.any(cells < 0):
                raise RuntimeError(OTHER_ROWS)
            yield cells, None, index.n_cells

    return block_sums(block, members(), integers, further)


@dataclass(frozen=True, eq=False)
class Membership:
    """The bags of all feature sets, and how many rows each has: the public half of curated bags."""

    columns: tuple[Column, ...]
    indexes: list[CellIndex]
    counts: list[IntArray]

    @property
    def n_samples(self) -> int:
        return int(self.counts[0].sum())

    @property
    def n_bags(self) -> int:
        return sum(index.n_cells for index in self.indexes)

    def feature_set(self, j: int) -> tuple[str, ...]:
        """Name the columns of set j."""
        return tuple(self.columns[c].name for c in self.indexes[j].columns)

    @property
    def bag_sizes(self) -> IntArray:
        """Rows per bag, of all feature sets one after the other."""
        return np.concatenate(self.counts)

    def appearances(self) -> int:
        """Count the bags that each row is in: one of every feature set."""
        return len(self.indexes)

    def add_up(self, rows: Partitions, integers: Integers, further: Further | None = None) -> NDArray[Any]:
        """Sum integers exactly over bags, (n_bags, n_outputs) row by row, and further ones over all rows; private."""
        return rows.sum(partial(_cell_sums, indexes=self.indexes, integers=integers, further=further))

    def report(
        self, released: ReleasedSums, guarantee: PrivacyGuarantee, classes: tuple[Any, ...] | None = None
    ) -> CuratedBags:
        """Report released sums as curated bags."""
        return CuratedBags(
            self.columns,
            self.tables(released.sums, released.noise_variance),
            self.n_samples,
            classes,
            released.square_sum,
            released.label_bounds,
            guarantee,
        )

    def tables(self, sums: FloatArray, noise_variance: float) -> tuple[BagTable, ...]:
        """Make bag tables of the (noisy) sums of all bags."""
        ends = np.cumsum([index.n_cells for index in self.indexes])
        parts = np.split(sums, ends[:-1])
        return tuple(
            BagTable(self.feature_set(j), index.keys, counts, part, noise_variance)
            for j, (index, counts, part) in enumerate(zip(self.indexes, self.counts, parts, strict=True))
        )


def assign_bags(
    columns: tuple[Column, ...],
    feature_sets: Sequence[tuple[int, ...]],
    found: Sequence[KeyCounts],
    *,
    min_size: int,
    all_needed: bool,
) -> Membership:
    """Make bags by features alone.

    ``all_needed`` refuses a set without a bag of ``min_size`` rows; otherwise it is left out.
    """
    n_codes = [column.n_codes for column in columns]
    indexes, all_counts = [], []
    for feature_set, own in zip(feature_sets, found, strict=True):
        index, counts, _ = make_cells(own, n_codes, feature_set, min_size=min_size)
        if index.n_cells == 0:
            if all_needed:
                names = tuple(columns[c].name for c in feature_set)
                raise ValueError(
                    f"min_size={min_size} empties the feature set {names}: none of its bags has that many rows."
                )
            continue
        indexes.append(index)
        all_counts.append(counts)
    if not indexes:
        n = int(found[0].counts.sum()) if found else 0
        raise ValueError(
            f"no feature set has a bag of min_size={min_size} rows with n_samples={n}: lower min_size or n_bins."
        )
    return Membership(columns, indexes, all_counts)


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """Rows of a feature table in the bags of a report: codes by column, cells and their index by table."""

    codes: list[CodeArray]
    indexes: list[CellIndex]
    cells: list[CodeArray]


def match_rows(
    bags: CuratedBags, names: Sequence[str], values: Sequence[NDArray[Any]]
) -> tuple[CuratedBags, MatchedRows]:
    """Assign the rows of a feature table to the bags of a report, whose columns are put in the order of X."""
    coding = {column.name: column for column in bags.columns}
    if set(coding) != set(names) or len(names) != len(coding):
        raise ValueError(
            f"bags were made for the columns {list(coding)}, X has {list(names)}: select those columns of X. "
            "Columns of a table that group nothing are named by count= or sums=, or left out."
        )
    bags = replace(bags, columns=tuple(coding[name] for name in names))
    codes = encode_columns(values, bags.columns)
    grouped = {name for table in bags.tables for name in table.feature_set}
    for name, column_codes, column_values in zip(names, codes, values, strict=True):
        unknown = column_codes < 0
        if name in grouped and np.any(unknown):
            found = list(dict.fromkeys(repr(v) for v in column_values[unknown].tolist()))
            known = [repr(v) for v in getattr(coding[name], "categories", ())]
            raise ValueError(
                f"bag keys do not match X: column {name!r} of X has values that no bag has, in "
                f"{int(unknown.sum())} rows: {_some(found)}; bags have {_some(known)}."
            )
    return bags, match_bags(bags, codes)


def match_bags(bags: CuratedBags, codes: list[CodeArray]) -> MatchedRows:
    """Assign coded rows to the bags of a report, and check that every row has a bag and counts agree."""
    position = {column.name: j for j, column in enumerate(bags.columns)}
    indexes, all_cells = [], []
    for table in bags.tables:
        missing = [name for name in table.feature_set if name not in position]
        if missing:
            raise ValueError(f"bag table {table.feature_set} uses columns without a coding: {missing}.")
        columns = tuple(position[name] for name in table.feature_set)
        index = CellIndex(columns, tuple(bags.columns[c].n_codes for c in columns), table.keys)
        _check_keys(index, table.feature_set)
        cells = index.locate(codes)
        if np.any(cells < 0):
            row = int(np.argmax(cells < 0))
            raise ValueError(
                f"bag keys do not match X: {int(np.sum(cells < 0))} rows of X have no bag in {table.feature_set}; the "
                f"first is row {row}, {_said(bags, table.feature_set, [codes[c][row] for c in columns])}."
            )
        counts = np.bincount(cells, minlength=index.n_cells)
        if not np.array_equal(counts, table.counts):
            wrong = np.flatnonzero(counts != table.counts)
            bag = int(wrong[0])
            raise ValueError(
                f"counts disagree: {wrong.size} of {table.n_bags} bags of {table.feature_set} do not have as many rows "
                f"in X as their count says; the first is {_said(bags, table.feature_set, table.keys[bag])} with "
                f"{counts[bag]} rows in X and count {table.counts[bag]}. X must hold the rows that were aggregated."
            )
        indexes.append(index)
        all_cells.append(cells)
    return MatchedRows(codes, indexes, all_cells)


def project_table(table: BagTable, feature_set: tuple[str, ...]) -> tuple[BagTable, FloatArray]:
    """Add up bags to those of a subset E' of a table's columns (Theorem 1 with E' ⊂ C), and their noise variances."""
    if np.any(table.keys[-1] < 0):
        raise ValueError(
            f"the bags of {table.feature_set} cannot be added up to {feature_set}: rare combinations were merged "
            "across values. Report them with min_size=1, or report the subset itself."
        )
    picked = table.keys[:, [table.feature_set.index(name) for name in feature_set]]
    keys, inverse = np.unique(picked, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    size = keys.shape[0]
    parts = [np.bincount(inverse, column, size) for column in table.label_sums.T]
    sums = np.column_stack(parts).astype(np.float64, copy=False)
    counts = np.bincount(inverse, table.counts, size).astype(np.int64)
    noise: FloatArray = table.noise_variance * np.bincount(inverse, minlength=size).astype(np.float64)
    return BagTable(feature_set, keys, counts, sums, table.noise_variance), noise


def _check_keys(index: CellIndex, name: tuple[str, ...]) -> None:
    keys = index.keys[: index.n_cells - index.has_rest]
    if np.any(keys < 0) or np.any(keys >= np.array(index.radices)):
        raise ValueError(f"bag table {name} has keys outside the codes of its columns.")
    order = np.lexsort(keys.T[::-1])
    if np.any(order != np.arange(order.size)) or np.unique(keys, axis=0).shape[0] < keys.shape[0]:
        raise ValueError(f"bag table {name} must list distinct keys in increasing order.")


def _said(bags: CuratedBags, feature_set: Sequence[str], key: Sequence[Any]) -> str:
    column = {c.name: c for c in bags.columns}
    return ", ".join(
        f"{name}=" + ("(rare)" if code < 0 else column[name].label_of(int(code)))
        for name, code in zip(feature_set, key, strict=True)
    )


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:5]) + (", …" if len(values) > 5 else "")
