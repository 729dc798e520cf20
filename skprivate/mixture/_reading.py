"""Validated rows of a mixture, in memory or in blocks, and the problem that they make."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import (
    encode_classes,
    kind_of,
    label_array,
    learn_columns,
    public_labels,
    read_labels,
    refuse_other_columns,
    validate_data,
)
from skprivate.mixture._geometry import Floats
from skprivate.mixture._problem import MixtureRows, Problem, public_points
from skprivate.mixture._roles import Roles, assign_roles, check_mask, error_weights
from skprivate.partitions import InMemory, as_partitions, is_partitioned, split_columns
from skprivate.partitions import Roles as SplitBlock

#: Different labels of a block that are looked at: two are allowed.
MOST_LABELS = 20


def read_problem(estimator: Any, X: Any, y: Any, private: Any) -> tuple[Problem, Roles]:
    """The problem of all rows, and who is who in them; the estimator learns the columns.

    Parameters
    ----------
    estimator : PPMHalfspaceClassifier
    X : array-like of shape (n_rows, n_features), or rows in blocks
    y, private
        Labels and mask; the columns that hold them where X lies in blocks.
    """
    in_blocks = is_partitioned(X)
    assign = partial(
        assign_roles,
        private_label=estimator.private_label,
        classes=estimator.classes,
        adjacency=estimator.adjacency,
        simulated=estimator.random_state is not None,
    )
    if in_blocks:
        rows = _read_blocks(estimator, X, y, private)
        # Labels are public, or the same everywhere: one row of each kind says who is who.
        found = rows.gather(label_counts, merge_counts)
        if not found:
            raise ValueError(f"X has no rows in its blocks; {type(estimator).__name__} needs at least 1.")
        labels = label_array([label for label, _ in found])
        marks = np.array([mark for _, mark in found], dtype=np.bool_)
        counts = np.array(list(found.values()), dtype=np.int64)
        roles = replace(assign(labels, None if private is None else marks), counts=counts)
    else:
        X, y = validate_data(estimator, X, read_labels(y, **public_labels(estimator)), dtype=np.float64)
        roles = assign(y, private)
    weights = error_weights(roles, estimator.class_weight, estimator.adjacency)
    who: dict[str, Any]
    options: dict[str, Any] = {
        "weights": weights,
        "size_is_public": estimator.adjacency == "replace-one",
    }
    if not in_blocks:
        who = {"private": roles.private, "has_private_label": roles.has_private_label}
        return Problem.build(X, **who, **options), roles
    who = {"classes": roles.classes, "index": roles.private_index, "label_determined": roles.label_determined}
    mixed = rows.map(partial(_with_roles, **who))
    points = mixed.gather(public_points, np.concatenate)
    problem = Problem.of(
        mixed,
        points,
        np.arange(len(points)),
        n_rows=int(counts.sum()),
        n_public=roles.count(~roles.private),
        n_public_label=roles.count(~roles.has_private_label),
        **options,
    )
    return problem, roles


class LabelledRows(NamedTuple):
    """Checked rows of a block, their labels and, where there is one, the privacy mask."""

    X: Floats
    y: NDArray[Any]
    private: NDArray[np.bool_] | None


def _read_blocks(estimator: Any, X: Any, y: Any, private: Any) -> Any:
    if y is None:
        raise ValueError(
            "y must name the column of X that holds the labels where X lies in blocks, got None."
        )
    columns = {"y": y, "private": private}
    rows = split_columns(X, **columns)
    first = split_columns(InMemory(as_partitions(X).empty), **columns)
    blank, names = learn_columns(estimator, cast(InMemory, first).block.X)
    return rows.map(partial(_read_block, blank=blank, names=names, public=public_labels(estimator)))


def _read_block(block: SplitBlock, blank: Any, names: Any, public: dict[str, Any]) -> LabelledRows:
    refuse_other_columns(block.X, names)
    y, private = block.of["y"], block.of.get("private")
    if not len(y):
        X = np.empty((0, blank.n_features_in_))
        return LabelledRows(X, y, None if private is None else np.zeros(0, dtype=np.bool_))
    X, y = validate_data(blank, block.X, read_labels(y, **public), dtype=np.float64, reset=False)
    return LabelledRows(X, y, None if private is None else check_mask(private, y))


#: How many rows there are of each label, among those that are marked private and others.
LabelCounts = dict[tuple[Any, bool], int]


def label_counts(rows: LabelledRows) -> LabelCounts:
    """Which labels occur in a block, and how often."""
    marks = itertools.repeat(False) if rows.private is None else rows.private.tolist()
    return merge_counts([Counter(zip(rows.y.tolist(), marks, strict=False))])


def merge_counts(parts: Sequence[LabelCounts]) -> LabelCounts:
    """The same of several blocks together."""
    total: Counter[tuple[Any, bool]] = Counter()
    for part in parts:
        total.update(part)
    kind_of([label for label, _ in total])  # or an error: one in all blocks
    return dict(itertools.islice(total.items(), 2 * MOST_LABELS))


def _with_roles(rows: LabelledRows, classes: NDArray[Any], index: int, label_determined: bool) -> MixtureRows:
    has_private_label = np.asarray(encode_classes(rows.y, classes.tolist(), strict=True) == index)
    if label_determined or rows.private is None:
        return MixtureRows(rows.X, has_private_label, has_private_label)
    return MixtureRows(rows.X, rows.private, has_private_label)
