"""Curated bags from rows and labels (Algorithms 1 and 2): membership of rows, which is public, and label sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skprivate import _validation
from skprivate.aggregate import _losses
from skprivate.aggregate.tables import _blocks, _cells, _curated_bags, _labels, _sums
from skprivate.aggregate.tables._cells import BagTable, CellIndex, IntArray, KeyCounts
from skprivate.aggregate.tables._columns import CodeArray, Column, encode_columns
from skprivate.aggregate.tables._curated_bags import CuratedBags
from skprivate.aggregate.tables._sums import ClassSums, Further, Integers, Labelled, NumberSums
from skprivate.partitions import OTHER_ROWS, InMemory, Partitions, is_partitioned
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, RandomStateLike, refuse_other_index

FeatureSet = tuple[int, ...]

#: Rows for each unit of noise variance from which on crosses are worth the noise that they bring to all tables.
_ROWS_FOR_CROSSES = 300
#: Pairs that are taken at most by default.
_MOST_PAIRS = 100
#: Rows of a cross's bag for each unit of noise variance, at least: bags below say nothing one by one.
_ROWS_FOR_BAG = 0.1
#: More different integers than this are numbers.
_MOST_CLASSES = 20
#: What ``classes="auto"`` finds beside the set of labels.
_CLASSES_FROM_LABELS = "that the labels are numbers and no classes is public"
#: Kinds of the labels ("b", "i", "f", or "text"), and distinct ones: no more than it takes to see numbers.
_LabelSummary = tuple[frozenset[str], frozenset[Any]]


def _cell_sums(
    block: Labelled, *, indexes: Sequence[CellIndex], integers: Integers, further: Further | None, drop: bool
) -> NDArray[np.int64]:
    def members() -> Iterator[tuple[CodeArray, NDArray[Any] | None, int]]:
        for index in indexes:
            cells = index.locate(block.codes)
            rows = np.flatnonzero(cells >= 0)
            if rows.size == cells.size:
                yield cells, None, index.n_cells
            elif drop:
                yield cells[rows], rows, index.n_cells
            else:
                raise RuntimeError(OTHER_ROWS)

    return _sums.block_sums(block, members(), integers, further)


@dataclass(frozen=True, eq=False)
class Membership:
    """The bags of all feature sets, and how many rows each has: the public half of curated bags."""

    columns: tuple[Column, ...]
    indexes: list[CellIndex]
    counts: list[IntArray]
    n_samples: int
    theorem = _curated_bags.THEOREM
    assumptions = _curated_bags.NUMBER_ASSUMPTIONS

    @property
    def n_bags(self) -> int:
        return sum(index.n_cells for index in self.indexes)

    def feature_set(self, j: int) -> tuple[str, ...]:
        return tuple(self.columns[c].name for c in self.indexes[j].columns)

    @property
    def bag_sizes(self) -> IntArray:
        """Rows per bag, of all feature sets one after the other."""
        return np.concatenate(self.counts)

    def appearances(self) -> int:
        """Count the bags that each row is in at most: one of every feature set."""
        return len(self.indexes)

    def add_up(self, rows: Partitions, integers: Integers, further: Further | None = None) -> NDArray[Any]:
        """Sum integers exactly over bags, (n_bags, n_outputs) row by row, and further ones over all rows; private."""
        return rows.sum(
            partial(
                _cell_sums,
                indexes=self.indexes,
                integers=integers,
                further=further,
                drop=bool(self.bag_sizes.sum() < self.n_samples * len(self.indexes)),
            )
        )

    def report(
        self, released: _sums.ReleasedSums, guarantee: PrivacyGuarantee, classes: tuple[Any, ...] | None = None
    ) -> CuratedBags:
        return CuratedBags(
            columns=self.columns,
            tables=self.tables(released.sums, released.noise_variance),
            n_samples=self.n_samples,
            classes=classes,
            square_sum=released.square_sum,
            label_bounds=released.label_bounds,
            guarantee=guarantee,
        )

    def tables(self, sums: _losses.FloatArray, noise_variance: Any) -> tuple[BagTable, ...]:
        """Make bag tables of the (noisy) sums of all bags."""
        ends = np.cumsum([index.n_cells for index in self.indexes])
        parts = np.split(sums, ends[:-1])
        return tuple(
            BagTable(self.feature_set(j), index.keys, counts, part, noise_variance)
            for j, (index, counts, part) in enumerate(zip(self.indexes, self.counts, parts, strict=True))
        )


class KeyCounter:
    """Counts rows per value combination of feature sets; each set is counted once."""

    def __init__(self, rows: Partitions, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.n_codes = [column.n_codes for column in columns]
        self._rows = rows
        self._known: dict[FeatureSet, KeyCounts] = {}

    def __call__(self, feature_sets: Sequence[FeatureSet]) -> list[KeyCounts]:
        new = [feature_set for feature_set in feature_sets if feature_set not in self._known]
        if new:
            counts: list[KeyCounts] = self._rows.gather(
                partial(_count, n_codes=self.n_codes, feature_sets=new),
                partial(_blocks.merge_each, merge=_cells.add_key_counts),
            )
            self._known.update(zip(new, counts, strict=True))
        return [self._known[feature_set] for feature_set in feature_sets]


def _count(block: Labelled, *, n_codes: list[int], feature_sets: Sequence[FeatureSet]) -> list[KeyCounts]:
    return [_cells.count_keys(block.codes, n_codes, feature_set) for feature_set in feature_sets]


def plan_membership(counter: KeyCounter, feature_sets: object, min_size: int, *, drop: bool = False) -> Membership:
    """Make the bags of the requested feature sets, by public rules.

    A set without a bag of ``min_size`` rows is left out, or refused if it was listed. If small bags are left out
    (``drop``), some set must have all rows: the sum of all labels comes from it.
    """
    columns = counter.columns
    sets, given = _cells.resolve_feature_sets(
        feature_sets, [column.name for column in columns], lambda singles: [keys.counts for keys in counter(singles)]
    )
    all_keys = counter(sets)
    indexes, all_counts = [], []
    for feature_set, keys in zip(sets, all_keys, strict=True):
        index, counts = _cells.make_cells(keys, counter.n_codes, feature_set, min_size=min_size, drop=drop)
        if index.n_cells:
            indexes.append(index)
            all_counts.append(counts)
        elif given:
            names = tuple(columns[c].name for c in feature_set)
            raise ValueError(
                f"min_size={min_size} empties the feature set {names}: none of its bags has that many rows."
            )
    n = int(all_keys[0].counts.sum()) if all_keys else 0
    if not indexes:
        raise ValueError(
            f"no feature set has a bag of min_size={min_size} rows with n_samples={n}: lower min_size or n_bins."
        )
    if all(counts.sum() < n for counts in all_counts):
        raise ValueError(
            f"small_bags='drop' leaves no feature set with all rows: each has a bag of fewer than min_size={min_size}. "
            "Use 'merge', lower min_size or n_bins, or list a set that has none."
        )
    return Membership(columns, indexes, all_counts, n)


def plan_bags(
    counter: KeyCounter,
    n: int,
    feature_sets: object,
    min_size: int | None,
    noise_variance: Callable[[Membership], float],
    *,
    drop: bool = False,
) -> Membership:
    """Choose feature sets and bag sizes by the noise.

    "auto" takes columns and up to 100 pairs if there are enough rows for the noise of all these tables, else columns
    only. ``min_size=None`` takes 10, or a tenth of fewer than 100 rows; crosses that were not listed need a tenth of
    the noise variance. ``noise_variance`` maps a membership to that of each sum in units of the largest label, 0 for
    exact sums.
    """
    base = min(10, max(n // 10, 1)) if min_size is None else min_size
    if isinstance(feature_sets, str) and feature_sets == "auto":
        n_pairs = len(counter.columns) * (len(counter.columns) - 1) // 2
        crossed = plan_membership(counter, min(n_pairs, _MOST_PAIRS), base, drop=drop)
        if n < _ROWS_FOR_CROSSES * noise_variance(crossed):
            return plan_membership(counter, "singles", base, drop=drop)
    else:
        crossed = plan_membership(counter, feature_sets, base, drop=drop)
    least = math.ceil(_ROWS_FOR_BAG * noise_variance(crossed))
    if min_size is not None or least <= base or isinstance(feature_sets, (list, tuple)):
        return crossed
    return _larger_crosses(crossed, counter, least, drop)


def _larger_crosses(membership: Membership, counter: KeyCounter, least: int, drop: bool) -> Membership:
    indexes: list[CellIndex] = []
    all_counts: list[IntArray] = []
    for index, counts in zip(membership.indexes, membership.counts, strict=True):
        if len(index.columns) > 1:
            (keys,) = counter([index.columns])
            index, counts = _cells.make_cells(keys, counter.n_codes, index.columns, min_size=least, drop=drop)
            if index.n_cells < 2:
                continue
        indexes.append(index)
        all_counts.append(counts)
    has_all_rows = any(counts.sum() == membership.n_samples for counts in all_counts)
    return replace(membership, indexes=indexes, counts=all_counts) if has_all_rows else membership


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
            others = list(dict.fromkeys(repr(v) for v in column_values[unknown].tolist()))
            known = [repr(v) for v in getattr(coding[name], "categories", ())]
            raise ValueError(
                f"bag keys do not match X: column {name!r} of X has values that no bag has, in "
                f"{int(unknown.sum())} rows: {_list_some(others)}; bags have {_list_some(known)}."
            )
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
        if np.sum(cells < 0) > max(bags.n_samples - int(table.counts.sum()), 0):  # beyond dropped bags
            row = int(np.argmax(cells < 0))
            raise ValueError(
                f"bag keys do not match X: {int(np.sum(cells < 0))} rows of X have no bag in {table.feature_set}; the "
                f"first is row {row}, {_describe(bags, table, [codes[c][row] for c in columns])}."
            )
        counts = np.bincount(cells[cells >= 0], minlength=index.n_cells)
        wrong = np.flatnonzero(counts != table.counts)
        if wrong.size:
            bag = int(wrong[0])
            raise ValueError(
                f"counts disagree: {wrong.size} of {table.n_bags} bags of {table.feature_set} do not have as many rows "
                f"in X as their count says; the first is {_describe(bags, table, table.keys[bag])} with "
                f"{counts[bag]} rows in X and count {table.counts[bag]}. X must hold the rows that were aggregated."
            )
        indexes.append(index)
        all_cells.append(cells)
    return bags, MatchedRows(codes, indexes, all_cells)


def project_table(table: BagTable, feature_set: tuple[str, ...]) -> tuple[BagTable, _losses.FloatArray]:
    """Add up bags to those of a subset E' of a table's columns (Theorem 1 with E' ⊂ C), and count the bags in each."""
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
    merged = np.bincount(inverse, minlength=size).astype(np.float64)
    return BagTable(feature_set, keys, counts, sums, table.noise_variance), merged


def _check_keys(index: CellIndex, name: tuple[str, ...]) -> None:
    keys = index.keys[: index.n_cells - index.has_rest]
    if np.any(keys < 0) or np.any(keys >= np.array(index.radices)):
        raise ValueError(f"bag table {name} has keys outside the codes of its columns.")
    order = np.lexsort(keys.T[::-1])
    if np.any(order != np.arange(order.size)) or np.unique(keys, axis=0).shape[0] < keys.shape[0]:
        raise ValueError(f"bag table {name} must list distinct keys in increasing order.")


def _describe(bags: CuratedBags, table: BagTable, key: Sequence[Any]) -> str:
    (values,) = bags.readable_keys(replace(table, keys=np.array([key])))
    return ", ".join(f"{name}={value}" for name, value in zip(table.feature_set, values, strict=True))


def _list_some(values: Sequence[str]) -> str:
    return ", ".join(values[:5]) + (", …" if len(values) > 5 else "")


def make_curated_bags(
    X: Any,
    y: Any,
    feature_sets: object = "pairs",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    min_size: int = 1,
    small_bags: Literal["merge", "drop"] = "merge",
    classes: Sequence[Any] | Literal["auto"] | None = "auto",
    label_bounds: object = None,
    mechanism: _labels.NoiseName = "auto",
    categorical_features: object = "from_dtype",
    n_bins: int | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
    random_state: RandomStateLike = None,
    ledger: PrivacyLedger | None = None,
) -> CuratedBags:
    """Group rows by feature values and release labels as sums per group (Algorithms 1 and 2).

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_samples, n_features), or rows in blocks
        Public features: numbers, strings, categories, missing values. Blocks (`skprivate.partitions`) give the same
        bags to the last bit.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or column of X
        Labels; private. Several columns are 0/1 labels (multilabel), or numbers with ``classes=None``. Where X lies in
        blocks, the name (of an array: number) of its one column of labels.
    feature_sets : {"singles", "pairs"}, int, or iterable, default="pairs"
        "singles": one set per column; "pairs": columns and all their pairs; an int: columns and that many pairs,
        chosen by their features' entropy; or sets of column names or positions.
    epsilon : float or None, default=None
        Privacy loss bound of the label of one row, for all tables together. None adds no noise.
    delta : float, default=0.0
        With ``delta > 0``, Gaussian noise may be used.
    min_size : int, default=1
        Bags of fewer rows, by their public counts, are small.
    small_bags : {"merge", "drop"}, default="merge"
        Whether the small bags of a set become one, or are left out; one set must then have none.
    classes : sequence, "auto" or None, default="auto"
        Public class labels. "auto" takes the distinct labels, as if they were public, where y holds strings,
        booleans or at most 20 integers, numbers elsewhere; the guarantee states it. None: numbers. With ``epsilon``,
        a label outside given classes counts as none of them (for two: not as the second): an error would tell of it.
    label_bounds : (float, float) or array-like of shape (n_outputs, 2), optional
        Public interval that numbers are clipped to, or one for each column, within ±1e50; otherwise a tenth of the
        budget, or up to a half where n·ε is below 500, finds them.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
    categorical_features : "from_dtype", "all", or iterable of names or positions, default="from_dtype"
        Columns taken as they are; "from_dtype" takes those that are not numeric. Others are cut into bins.
    n_bins, bin_edges
        As in `CuratedBagGAMClassifier`.
    random_state : None, int or RandomState
        Not None: simulated noise, not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    CuratedBags
        ``bags.to_dict()`` is plain; learn from it with ``CuratedBagGAMClassifier().fit_bags(X, bags)``.

    See Also
    --------
    bags_from_sql : Groups a table of any size.
    make_random_bags : Draws bags at random instead.
    CuratedBagGAMClassifier, CuratedBagGAMRegressor : Learn from the bags.

    Notes
    -----
    ε-label differential privacy, replace-one: replacing one label moves one bag sum in each of the k feature sets by
    at most 1 (2 in ℓ1 for several classes, the width of ``label_bounds`` for numbers, whose squares are one more sum).
    Of a row with K labels all may be replaced, which moves K times as many sums.
    Labels become integers (numbers in steps of 2⁻³⁰ of the interval) and are added exactly. Features and counts are
    not protected.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags".

    Examples
    --------
    >>> from skprivate import make_curated_bags
    >>> X = [["apple", "low"], ["apple", "high"], ["banana", "low"], ["apple", "low"]]
    >>> bags = make_curated_bags(X, [1, 0, 0, 1], [(0,), (1,)])
    >>> for table in bags.tables:
    ...     print(table.feature_set, bags.readable_keys(table), table.counts, table.label_sums.ravel())
    ('x0',) [('apple',), ('banana',)] [3 1] [2. 0.]
    ('x1',) [('high',), ('low',)] [1 3] [0. 2.]
    """
    if not isinstance(min_size, (int, np.integer)) or min_size < 1:
        raise ValueError(f"min_size must be an int of at least 1, got {min_size!r}.")
    if small_bags not in ("merge", "drop"):
        raise ValueError(f"small_bags must be 'merge' or 'drop', got {small_bags!r}.")
    _labels.check_label_privacy(epsilon, delta)
    names, tables, n_outputs = _read_tables(X, y, _reader(classes))
    columns, _, seen = _blocks.learn_blocks(
        tables,
        names,
        categorical_features=categorical_features,
        n_bins=n_bins,
        bin_edges=bin_edges,
        summarise_labels=partial(_summarise_labels, auto=_is_auto(classes) and n_outputs == 1),
        merge_labels=_merge_labels,
    )
    known = _find_classes(classes, seen) if n_outputs == 1 else _label_classes(classes, n_outputs)
    targets: Callable[[NDArray[Any]], NDArray[Any]] = _labels.number_targets
    if _labels.are_labels(known):
        targets = partial(_labels.indicator_targets, strict=epsilon is None)
    elif known is not None:
        targets = partial(_labels.class_targets, classes=known, strict=epsilon is None)
    rows = _blocks.encode_blocks(tables, columns, targets)
    drop = small_bags == "drop"
    membership = plan_membership(KeyCounter(rows, columns), feature_sets, int(min_size), drop=drop)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism}
    sums: ClassSums | NumberSums
    if known is None:
        further = (_CLASSES_FROM_LABELS,) if _is_auto(classes) else ()
        sums = NumberSums.plan(membership, n_outputs, label_bounds, with_squares=True, further=further, **budget)
    else:
        given = None if _is_auto(classes) or _labels.are_labels(known) else known
        sums = ClassSums.plan(membership, *_sums.outputs_of(known), classes=given, **budget)
    if epsilon is None:
        return membership.report(sums.exact(rows), _curated_bags.no_privacy(sums.assumptions), known)
    released, guarantee = _sums.release_sums(
        sums, rows, epsilon=epsilon, delta=delta, random_state=random_state, ledger=ledger, label="make_curated_bags"
    )
    return membership.report(released, guarantee, known)


def _read_tables(X: Any, y: Any, read_labels: Callable[[Any], Any]) -> tuple[list[str], Partitions, int]:
    """Read names of features, rows, and the number of columns of labels."""
    if is_partitioned(X):
        return *_blocks.table_blocks(X, y, partial(_blocks.read_columns, tighten=False), read_labels), 1
    refuse_other_index(X, y)
    names, values = _blocks.read_columns(X)
    labels = np.asarray(read_labels(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or (values and len(labels) != values[0].size):
        raise ValueError(f"y must hold one label per row of X, got shape {labels.shape}.")
    n_outputs = 1 if labels.ndim == 1 else labels.shape[1]
    return names, InMemory(_blocks.Table(range(len(labels)), values, labels)), n_outputs


def _reader(classes: Any) -> Callable[[Any], Any]:
    """Choose the reader of labels, which refuses invalid ones before any privacy cost."""
    if classes is None or (not isinstance(classes, str) and _labels.are_labels(classes)):
        return _validation.read_numbers
    return partial(_validation.read_labels, classes=None if _is_auto(classes) else _validation.check_classes(classes))


def _label_classes(classes: Any, n_outputs: int) -> tuple[Any, ...] | None:
    """Find the classes of several columns of labels, which must be (0, 1)."""
    if classes is None:
        return None
    pairs = classes if not isinstance(classes, str) and _labels.are_labels(classes) else [classes] * n_outputs
    if len(pairs) != n_outputs or any(pair != "auto" and list(pair) != [0, 1] for pair in pairs):
        raise ValueError(
            f"classes must be (0, 1), or None for numbers, for {n_outputs} columns of labels, got {classes!r}."
        )
    return ((0, 1),) * n_outputs


def _is_auto(classes: object) -> bool:
    if isinstance(classes, str) and classes != "auto":
        raise ValueError(f"classes must be 'auto', None or a sequence of labels, got {classes!r}.")
    return isinstance(classes, str)


def _summarise_labels(labels: NDArray[Any], *, auto: bool) -> _LabelSummary:
    if not auto or labels.size == 0:
        return frozenset(), frozenset()
    kind = _validation.kind_of(labels)
    if kind != "numbers":
        return frozenset((str(kind),)), frozenset(_validation.distinct_labels(labels))
    types = set(map(type, labels.tolist())) if labels.dtype == object else {labels.dtype.type}
    kinds = {"b" if issubclass(t, bool | np.bool) else "i" if issubclass(t, Integral) else "f" for t in types}
    if "f" in kinds:
        _validation.read_numbers(labels)  # or an error
        return frozenset(kinds), frozenset(labels[:1].tolist())
    return frozenset(kinds), frozenset(_validation.distinct_labels(labels)[: _MOST_CLASSES + 1])


def _merge_labels(seen: list[_LabelSummary]) -> _LabelSummary:
    return frozenset().union(*(kinds for kinds, _ in seen)), frozenset().union(*(labels for _, labels in seen))


def _find_classes(classes: object, seen: _LabelSummary) -> tuple[Any, ...] | None:
    if classes is None:
        return None
    if not isinstance(classes, str):
        return tuple(_validation.check_classes(classes))
    kinds, labels = seen
    _validation.kind_of(labels)  # or an error: one in all blocks
    if "f" in kinds or (kinds == {"i"} and len(labels) > _MOST_CLASSES):
        return None
    if len(kinds) > 1:  # of blocks of several types none is the first
        labels = frozenset(map(_validation.by_value, labels))
    if len(labels) < 2:
        raise ValueError("y holds one class only; pass the public classes.")
    return tuple(_validation.together([labels]))
