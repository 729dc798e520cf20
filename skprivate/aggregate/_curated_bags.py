"""Curated bags (Algorithms 1 and 2): rows grouped by feature values, labels known as sums per bag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skprivate.aggregate._cells import CellIndex, IntArray, index_cells
from skprivate.aggregate._columns import (
    CodeArray,
    Column,
    column_from_dict,
    column_to_dict,
)
from skprivate.aggregate._label_sums import ReleasedSums, add_integers
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit

NO_PRIVACY = "labels are released in aggregates without noise"
THEOREM = (
    "Chen, Fu, Karbasi and Mirrokni (2023), Algorithms 1 and 2, with noise on the label sums; fitting is "
    "post-processing of the bags (Theorem 1)"
)
ASSUMPTIONS = (
    "features, and with them bag membership and counts, are public",
    "the set of classes is public",
    "labels of different rows belong to different people",
)
#: Of numbers, which have no classes.
NUMBER_ASSUMPTIONS = (ASSUMPTIONS[0], ASSUMPTIONS[2])


def no_privacy(assumptions: tuple[str, ...] = ASSUMPTIONS, theorem: str = THEOREM) -> PrivacyGuarantee:
    """The guarantee of a release without noise: none, said plainly."""
    return PrivacyGuarantee(
        epsilon=np.inf,
        delta=0.0,
        unit=PrivacyUnit.LABEL,
        adjacency=Adjacency.REPLACE_ONE,
        assumptions=(*assumptions, NO_PRIVACY),
        theorem=theorem,
    )


@dataclass(frozen=True, eq=False)
class BagTable:
    """The bags of one feature set.

    Parameters
    ----------
    feature_set : tuple of str
        Names of the columns.
    keys : ndarray of int32, shape (n_bags, len(feature_set))
        Codes of the column values that the bag's rows share (their meaning is in `CuratedBags.columns`), in
        increasing order. A last row of -1 is the bag of all rare combinations.
    counts : ndarray of int64, shape (n_bags,)
        Rows per bag; public.
    label_sums : ndarray of float64, shape (n_bags, n_outputs)
        Sum of the labels: of the positive class of two, per class of several, or of numbers.
    noise_variance : float
        Variance of the label-privacy noise in each sum.
    """

    feature_set: tuple[str, ...]
    keys: CodeArray
    counts: IntArray
    label_sums: FloatArray
    noise_variance: float = 0.0

    @property
    def n_bags(self) -> int:
        return int(self.counts.size)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return {
            "feature_set": list(self.feature_set),
            "keys": self.keys.tolist(),
            "counts": self.counts.tolist(),
            "label_sums": self.label_sums.tolist(),
            "noise_variance": self.noise_variance,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BagTable:
        """Inverse of `to_dict`, with checks of the shapes."""
        name = tuple(str(column) for column in plain["feature_set"])
        counts = np.asarray(plain["counts"], dtype=np.int64).reshape(-1)
        keys = np.asarray(plain["keys"], dtype=np.int32).reshape(counts.size, -1)
        sums = np.asarray(plain["label_sums"], dtype=np.float64)
        sums = sums[:, np.newaxis] if sums.ndim == 1 else sums
        if keys.shape[1] != len(name) or sums.shape[0] != counts.size:
            raise ValueError(
                f"bag table {name}: keys {keys.shape}, counts {counts.shape} and label_sums {sums.shape} do not fit "
                "together."
            )
        if not np.all(np.isfinite(sums)):
            raise ValueError(f"bag table {name}: label_sums must be finite.")
        return cls(name, keys, counts, sums, float(plain.get("noise_variance", 0.0)))


@dataclass(frozen=True, eq=False)
class CuratedBags:
    """Labels as sums per bag, for several feature sets: all that a fit learns about the labels.

    Parameters
    ----------
    columns : tuple of Column
        What the codes in the keys mean: categories or bin edges of every column.
    tables : tuple of BagTable
    n_samples : int
    classes : tuple or None
        Class labels; None for numbers.
    square_sum : float or None
        Sum of the squared numbers, if it was released; it estimates the residual variance.
    label_bounds : (float, float) or None
        Interval that numbers were clipped to.
    guarantee : PrivacyGuarantee
        Of the release of all tables together.
    """

    columns: tuple[Column, ...]
    tables: tuple[BagTable, ...]
    n_samples: int
    classes: tuple[Any, ...] | None = None
    square_sum: float | None = None
    label_bounds: tuple[float, float] | None = None
    guarantee: PrivacyGuarantee = field(default_factory=no_privacy)

    @property
    def n_outputs(self) -> int:
        return int(self.tables[0].label_sums.shape[1])

    def readable_keys(self, table: BagTable) -> list[tuple[str, ...]]:
        """Keys of a table with values or intervals in place of codes."""
        column = {c.name: c for c in self.columns}
        return [
            tuple(
                "(rare)" if code < 0 else column[name].label_of(int(code))
                for name, code in zip(table.feature_set, key, strict=True)
            )
            for key in table.keys
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings: ``json.dumps`` of it is a report that another process can learn from."""
        return {
            "columns": [column_to_dict(column) for column in self.columns],
            "tables": [table.to_dict() for table in self.tables],
            "n_samples": self.n_samples,
            "classes": None if self.classes is None else list(self.classes),
            "square_sum": self.square_sum,
            "label_bounds": None if self.label_bounds is None else list(self.label_bounds),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> CuratedBags:
        """Inverse of `to_dict`."""
        classes, bounds = plain.get("classes"), plain.get("label_bounds")
        return cls(
            columns=tuple(column_from_dict(column) for column in plain["columns"]),
            tables=tuple(BagTable.from_dict(table) for table in plain["tables"]),
            n_samples=int(plain["n_samples"]),
            classes=None if classes is None else tuple(classes),
            square_sum=plain.get("square_sum"),
            label_bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
            guarantee=PrivacyGuarantee.from_dict(plain["guarantee"]),
        )

    def __repr__(self) -> str:
        kind = "numbers" if self.classes is None else f"{len(self.classes)} classes"
        bags = sum(table.n_bags for table in self.tables)
        return f"CuratedBags({len(self.tables)} feature sets, {bags} bags, {self.n_samples} rows, {kind})"


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
            raise ValueError(
                f"bag keys do not match X: {int(np.sum(cells < 0))} rows of X have no bag in {table.feature_set}."
            )
        counts = np.bincount(cells, minlength=index.n_cells)
        if not np.array_equal(counts, table.counts):
            wrong = int(np.sum(counts != table.counts))
            raise ValueError(
                f"counts disagree: {wrong} of {table.n_bags} bags of {table.feature_set} do not have as many rows in "
                "X as their count says. X must hold the rows that were aggregated."
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
