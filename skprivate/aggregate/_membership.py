"""Which rows are in which curated bag: the public half of every report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._bag_table import BagTable
from skprivate.aggregate._cells import CellIndex, IntArray, index_cells
from skprivate.aggregate._columns import CodeArray, Column, encode_columns
from skprivate.aggregate._curated_bags import CuratedBags
from skprivate.aggregate._label_sums import ReleasedSums, add_integers
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import PrivacyGuarantee


@dataclass(frozen=True, eq=False)
class Membership:
    """Which bag each row is in, for every feature set: the public half of curated bags."""

    columns: tuple[Column, ...]
    codes: list[CodeArray]
    indexes: list[CellIndex]
    cells: list[CodeArray]
    counts: list[IntArray]

    @property
    def n_samples(self) -> int:
        return int(self.codes[0].size)

    @property
    def n_bags(self) -> int:
        return sum(index.n_cells for index in self.indexes)

    def feature_set(self, j: int) -> tuple[str, ...]:
        """Column names of set j."""
        return tuple(self.columns[c].name for c in self.indexes[j].columns)

    @property
    def bag_sizes(self) -> IntArray:
        """Rows per bag, of all feature sets one after the other."""
        return np.concatenate(self.counts)

    def appearances(self) -> int:
        """Number of bags that each row is in: one of every feature set."""
        return len(self.indexes)

    def label_sums(self, targets: FloatArray) -> FloatArray:
        """Private: sums (n_bags, n_outputs) of the targets (n_outputs, n_samples) over all bags."""
        parts = [
            [np.bincount(cells, weights=t, minlength=index.n_cells) for t in targets]
            for index, cells in zip(self.indexes, self.cells, strict=True)
        ]
        return np.concatenate([np.column_stack(part) for part in parts])

    def integer_sums(self, contributions: FloatArray) -> IntArray:
        """Private: exact sums (n_bags, n_outputs) of integers (n_outputs, n_samples) of at most 2³⁰."""
        parts = [
            [add_integers(cells, c, index.n_cells) for c in contributions]
            for index, cells in zip(self.indexes, self.cells, strict=True)
        ]
        return np.concatenate([np.column_stack(part) for part in parts])

    def report(
        self, released: ReleasedSums, guarantee: PrivacyGuarantee, classes: tuple[Any, ...] | None = None
    ) -> CuratedBags:
        """What is said about the labels."""
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
        """Bag tables of the (noisy) sums of all bags."""
        ends = np.cumsum([index.n_cells for index in self.indexes])
        parts = np.split(sums, ends[:-1])
        return tuple(
            BagTable(self.feature_set(j), index.keys, counts, part, noise_variance)
            for j, (index, counts, part) in enumerate(zip(self.indexes, self.counts, parts, strict=True))
        )


def assign_bags(
    columns: tuple[Column, ...],
    codes: list[CodeArray],
    feature_sets: Sequence[tuple[int, ...]],
    *,
    min_size: int,
    all_needed: bool,
) -> Membership:
    """Assign rows to bags by their features alone.

    Parameters
    ----------
    columns, codes
        From `learn_columns`.
    feature_sets : sequence of tuple of int
    min_size : int
    all_needed : bool
        Whether a set without a bag of ``min_size`` rows is an error; otherwise it is left out.

    Raises
    ------
    ValueError
        If a needed set, or every set, has no bag of ``min_size`` rows.
    """
    n_codes = [column.n_codes for column in columns]
    indexes, all_cells, all_counts = [], [], []
    for feature_set in feature_sets:
        index, cells, counts = index_cells(codes, n_codes, feature_set, min_size=min_size)
        if index.n_cells == 0:
            if all_needed:
                names = tuple(columns[c].name for c in feature_set)
                raise ValueError(
                    f"min_size={min_size} empties the feature set {names}: none of its bags has that many rows."
                )
            continue
        indexes.append(index)
        all_cells.append(cells)
        all_counts.append(counts)
    if not indexes:
        n = codes[0].size if codes else 0
        raise ValueError(
            f"no feature set has a bag of min_size={min_size} rows with n_samples={n}: lower min_size or n_bins."
        )
    return Membership(columns, codes, indexes, all_cells, all_counts)


def match_rows(
    bags: CuratedBags, names: Sequence[str], values: Sequence[NDArray[Any]]
) -> tuple[CuratedBags, Membership]:
    """Assign the rows of a feature table, as it came, to the bags of a report.

    Returns
    -------
    bags : CuratedBags
        With its columns in the order of X.
    membership : Membership

    Raises
    ------
    ValueError
        If columns differ, a row has no bag, or a bag's count is not the number of its rows.
    """
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


def match_bags(bags: CuratedBags, codes: list[CodeArray]) -> Membership:
    """Assign the rows of a feature table to the bags of a report.

    Raises
    ------
    ValueError
        If a row has no bag, or a bag's count is not the number of its rows.
    """
    position = {column.name: j for j, column in enumerate(bags.columns)}
    indexes, all_cells, all_counts = [], [], []
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
        all_counts.append(counts.astype(np.int64))
    return Membership(bags.columns, codes, indexes, all_cells, all_counts)


def project_table(table: BagTable, feature_set: tuple[str, ...]) -> tuple[BagTable, FloatArray]:
    """Bags of a subset E' of a table's columns, by adding up bags (Theorem 1 with E' ⊂ C).

    Returns
    -------
    table : BagTable
    noise : ndarray of float64, shape (n_bags,)
        Variance of the noise in each sum, that of one times the number of bags added up.
    """
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
