"""Curated bags from rows and labels (Algorithms 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import check_classes, distinct_labels, kind_of, read_labels, read_numbers, together
from skprivate.aggregate.tables._blocks import (
    categorical_mask,
    encode_blocks,
    learn_blocks,
    read_columns,
    table_blocks,
)
from skprivate.aggregate.tables._cells import (
    CellIndex,
    IntArray,
    KeyCounts,
    add_key_counts,
    count_keys,
    make_cells,
    resolve_feature_sets,
)
from skprivate.aggregate.tables._columns import Column, default_bins, learn_columns
from skprivate.aggregate.tables._curated_bags import (
    ASSUMPTIONS,
    NUMBER_ASSUMPTIONS,
    THEOREM,
    CuratedBags,
    no_privacy,
)
from skprivate.aggregate.tables._labels import (
    Bounds,
    NoiseName,
    check_bounds,
    check_label_privacy,
    class_targets,
    number_targets,
)
from skprivate.aggregate.tables._membership import Membership, assign_bags
from skprivate.aggregate.tables._sums import ClassSums, Labelled, NumberSums
from skprivate.partitions import InMemory, Partitions, is_partitioned
from skprivate.privacy import PrivacyLedger, open_release, refuse_other_index

FeatureSet = tuple[int, ...]

#: Rows for each unit of noise variance from which on crosses are worth the noise that they bring to all tables.
_ROWS_FOR_CROSSES = 300
#: Pairs that are taken at most by default.
_MOST_PAIRS = 100
#: Rows of a cross's bag for each unit of noise variance, at least: bags below say nothing one by one.
_ROWS_FOR_BAG = 0.1


class KeyCounter:
    """Counts rows per value combination of feature sets; each set is counted once."""

    def __init__(self, rows: Partitions, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.n_codes = [column.n_codes for column in columns]
        self._rows = rows
        self._known: dict[FeatureSet, KeyCounts] = {}

    def __call__(self, feature_sets: Sequence[FeatureSet]) -> list[KeyCounts]:
        """Count some sets, with one pass over the rows for those that are new."""
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
    """Make the bags of the requested feature sets, by public rules."""
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
    """Choose feature sets and bag sizes by the noise.

    "auto" takes columns and up to 100 pairs if there are enough rows for the noise of so many tables, else columns
    only. ``min_size=None`` takes 10, or a tenth of fewer than 100 rows; crosses that were not listed need a tenth of
    the noise variance. ``noise_variance`` maps a membership to that of each sum in units of the largest label, 0 for
    exact sums.
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


#: More different integers than this are numbers.
_MOST_CLASSES = 20
#: What ``classes="auto"`` finds beside the set of labels.
_READ_OFF = "that the labels are numbers and no classes is public"


def class_sums(
    membership: Membership, n_classes: int, given: Sequence[Any] | None = None, **asked: Any
) -> ClassSums:
    """Plan class counts of all bags: of the second class of two, or of each of several; ``given`` if public."""
    outputs, moved = (1, 1) if n_classes == 2 else (n_classes, 2)
    said: dict[str, Any] = {"classes": tuple(given or ()), "theorem": THEOREM, "assumptions": ASSUMPTIONS}
    return ClassSums.plan(membership, outputs, moved, **asked, **said)


def number_sums(
    membership: Membership,
    label_bounds: Bounds | None,
    *,
    with_squares: bool = True,
    assumptions: tuple[str, ...] = NUMBER_ASSUMPTIONS,
    **asked: Any,
) -> NumberSums:
    """Plan sums of numbers in all bags; the sum of squares costs as much as one more feature set."""
    said: dict[str, Any] = {"theorem": THEOREM, "assumptions": assumptions}
    return NumberSums.plan(membership, 1, label_bounds, with_squares=with_squares, **asked, **said)


def make_curated_bags(
    X: Any,
    y: Any,
    feature_sets: Any = "pairs",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    min_size: int = 1,
    classes: Sequence[Any] | Literal["auto"] | None = "auto",
    label_bounds: tuple[float, float] | None = None,
    mechanism: NoiseName = "auto",
    categorical_features: Any = "from_dtype",
    n_bins: int | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
    random_state: Any = None,
    ledger: PrivacyLedger | None = None,
) -> CuratedBags:
    """Group rows by feature values and release labels as sums per group (Algorithms 1 and 2).

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_samples, n_features), or rows in blocks
        Public features: numbers, strings, categories, missing values. Blocks (`skprivate.partitions`) give the same
        bags to the last bit.
    y : array-like of shape (n_samples,), or column of X
        Labels; private. Where X lies in blocks, the name (of an array: number) of its column of labels.
    feature_sets : {"singles", "pairs"}, int, or iterable, default="pairs"
        "singles": one set per column; "pairs": columns and all their pairs; an int: columns and that many pairs,
        chosen by their features' entropy; or sets of column names or positions.
    epsilon : float or None, default=None
        Privacy loss bound of the label of one row, for all tables together. None adds no noise.
    delta : float, default=0.0
        With ``delta > 0``, Gaussian noise may be used.
    min_size : int, default=1
        Bags of fewer rows are merged into one.
    classes : sequence, "auto" or None, default="auto"
        Public class labels. "auto" takes the distinct labels, as if they were public, where y holds strings,
        booleans or at most 20 integers, numbers elsewhere; the guarantee states it. None: numbers. With ``epsilon``,
        a label outside given classes counts as none of them (for two: not as the second): an error would tell of it.
    label_bounds : (float, float), optional
        Public interval that numbers are clipped to, within ±1e50; otherwise a tenth of the budget, or up to a
        half where n·ε is below 500, finds one.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
    categorical_features : "from_dtype", "all", or iterable of names or positions, default="from_dtype"
        Columns taken as they are; "from_dtype" takes those that are not numeric. Others are cut into bins.
    n_bins : int, optional
        Quantile bins of a numeric column; by default the cube root of n_samples, between 2 and 16.
    bin_edges : mapping from column name to increasing floats, optional
    random_state : None, int or RandomState
        Not None: simulated noise, not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    CuratedBags
        ``bags.to_dict()`` is plain; learn from it with ``CuratedBagGAMClassifier().fit_bags(X, bags)``.

    Notes
    -----
    ε-label differential privacy, replace-one: replacing one label moves one bag sum in each of the k feature sets by
    at most 1 (2 in ℓ1 for several classes, the width of ``label_bounds`` for numbers, whose squares are one more sum).
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
    check_label_privacy(epsilon, delta)
    coding = {"categorical_features": categorical_features, "n_bins": n_bins, "bin_edges": bin_edges}
    read = _read_blocks if is_partitioned(X) else _read_memory
    columns, rows, found = read(X, y, classes, epsilon is None, **coding)
    membership = plan_membership(KeyCounter(rows, columns), feature_sets, int(min_size))
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism}
    sums: ClassSums | NumberSums
    if found is None:
        assumptions = (*NUMBER_ASSUMPTIONS, *((_READ_OFF,) if _is_auto(classes) else ()))
        sums = number_sums(membership, check_bounds(label_bounds), assumptions=assumptions, **asked)
    else:
        sums = class_sums(membership, len(found), None if _is_auto(classes) else found, **asked)
    if epsilon is None:
        return membership.report(
            sums.exact(rows), no_privacy(sums.assumptions), None if found is None else tuple(found)
        )
    with open_release(
        epsilon=epsilon,
        delta=delta,
        unit="label",
        adjacency="replace-one",
        random_state=random_state,
        ledger=ledger,
        label="make_curated_bags",
        theorem=sums.theorem,
        assumptions=sums.assumptions,
        plan=sums.events,
    ) as release:
        released = sums.run(rows, release)
    return membership.report(released, release.close(), None if found is None else tuple(found))


def _read_memory(
    X: Any, y: Any, classes: Any, strict: bool, **coding: Any
) -> tuple[tuple[Column, ...], Partitions, list[Any] | None]:
    refuse_other_index(X, y)
    names, values = read_columns(X)
    labels = np.asarray(_reader(classes)(y))
    if labels.ndim != 1 or (values and labels.size != values[0].size):
        raise ValueError(f"y must hold one label per row of X, got shape {labels.shape}.")
    bin_edges, n_bins = coding["bin_edges"], coding["n_bins"]
    columns, codes = learn_columns(
        values,
        names,
        categorical=categorical_mask(coding["categorical_features"], names, values, bin_edges),
        n_bins=default_bins(labels.size) if n_bins is None else n_bins,
        bin_edges=bin_edges,
    )
    found = _find_classes(classes, _look_at_labels(labels, auto=_is_auto(classes)))
    return columns, InMemory(Labelled.of(_targets(found, strict)(labels), codes)), found


def _read_blocks(
    X: Any, y: Any, classes: Any, strict: bool, **coding: Any
) -> tuple[tuple[Column, ...], Partitions, list[Any] | None]:
    names, tables = table_blocks(X, y, partial(read_columns, tighten=False), _reader(classes))
    look = partial(_look_at_labels, auto=_is_auto(classes))
    columns, _, seen = learn_blocks(
        tables, names, look_at_labels=look, labels_together=_labels_together, **coding
    )
    found = _find_classes(classes, seen)
    return columns, encode_blocks(tables, columns, _targets(found, strict)), found


def _reader(classes: Any) -> Callable[[Any], Any]:
    """Choose the reader of labels, which refuses invalid ones before any privacy cost."""
    if classes is None:
        return read_numbers
    return partial(read_labels, classes=None if _is_auto(classes) else check_classes(classes))


def _targets(classes: list[Any] | None, strict: bool) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return number_targets if classes is None else partial(class_targets, classes=classes, strict=strict)


def _is_auto(classes: Any) -> bool:
    if isinstance(classes, str) and classes != "auto":
        raise ValueError(f"classes must be 'auto', None or a sequence of labels, got {classes!r}.")
    return isinstance(classes, str)


#: Kinds of the labels ("b", "i", "f", or "text"), and distinct ones: no more than it takes to see numbers.
_Seen = tuple[frozenset[str], frozenset[Any]]


def _look_at_labels(labels: NDArray[Any], *, auto: bool) -> _Seen:
    if not auto or labels.size == 0:
        return frozenset(), frozenset()
    kind = kind_of(labels)
    if kind != "numbers":
        return frozenset((str(kind),)), frozenset(distinct_labels(labels))
    types = set(map(type, labels.tolist())) if labels.dtype == object else {labels.dtype.type}
    kinds = {
        "b" if issubclass(each, bool | np.bool) else "i" if issubclass(each, Integral) else "f"
        for each in types
    }
    if "f" in kinds:
        read_numbers(labels)  # or an error
        return frozenset(kinds), frozenset(labels[:1].tolist())
    return frozenset(kinds), frozenset(distinct_labels(labels)[: _MOST_CLASSES + 1])


def _labels_together(seen: list[_Seen]) -> _Seen:
    return frozenset().union(*(kinds for kinds, _ in seen)), frozenset().union(*(one for _, one in seen))


def _find_classes(classes: Any, seen: _Seen) -> list[Any] | None:
    if classes is None:
        return None
    if not isinstance(classes, str):
        return check_classes(classes)
    kinds, labels = seen
    kind_of(labels)  # or an error: one in all blocks
    if "f" in kinds or (kinds == {"i"} and len(labels) > _MOST_CLASSES):
        return None
    if len(labels) < 2:
        raise ValueError("y holds one class only; pass the public classes.")
    return together([labels])
