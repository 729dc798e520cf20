"""Validated rows of a mixture, in memory or in blocks, and the problem that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import learn_columns, refuse_other_columns, validate_data
from skprivate.mixture._geometry import Floats
from skprivate.mixture._problem import MixtureRows, Problem, public_points
from skprivate.mixture._roles import Roles, assign_roles, check_mask, error_weights
from skprivate.mixture._selection import Integers
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
        labels, marks, counts = rows.gather(label_counts, merge_counts)
        if not counts.sum():
            raise ValueError(f"X has no rows in its blocks; {type(estimator).__name__} needs at least 1.")
        roles = replace(assign(labels, None if private is None else marks), counts=counts)
    else:
        X, y = validate_data(estimator, X, y, dtype=np.float64)
        roles = assign(y, private)
    weights = error_weights(roles, estimator.class_weight, estimator.adjacency)
    options: dict[str, Any] = {
        "weights": weights,
        "size_is_public": estimator.adjacency == "replace-one",
    }
    if not in_blocks:
        who: dict[str, Any] = {"private": roles.private, "has_private_label": roles.has_private_label}
        return Problem.build(X, **who, **options), roles
    label = roles.classes[roles.private_index]
    mixed = rows.map(partial(_with_roles, label=label, label_determined=roles.label_determined))
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
    return rows.map(partial(_read_block, blank=blank, names=names))


def _read_block(block: SplitBlock, blank: Any, names: Any) -> LabelledRows:
    refuse_other_columns(block.X, names)
    y, private = block.of["y"], block.of.get("private")
    if not len(y):
        X = np.empty((0, blank.n_features_in_))
        return LabelledRows(X, y, None if private is None else np.zeros(0, dtype=np.bool_))
    X, y = validate_data(blank, block.X, y, dtype=np.float64, reset=False)
    return LabelledRows(X, y, None if private is None else check_mask(private, y))


#: Labels, whether their rows are marked private, and how many rows there are.
LabelCounts = tuple[NDArray[Any], NDArray[np.bool_], Integers]


def label_counts(rows: LabelledRows) -> LabelCounts:
    """Which labels occur in a block, among marked rows and others, and how often."""
    marks = np.zeros(len(rows.y), dtype=np.bool_) if rows.private is None else rows.private
    return _counted(rows.y, marks, np.ones(len(rows.y), dtype=np.int64))


def merge_counts(parts: Sequence[LabelCounts]) -> LabelCounts:
    """The same of several blocks together."""
    held = [part for part in parts if len(part[0])] or [parts[0]]  # no rows, no type of labels
    # NumPy makes strings of numbers beside strings: "1" would be private, and a row with 1 in another block be public.
    kinds = {"number" if found.dtype.kind in "biuf" else found.dtype.kind for found, _, _ in held}
    if len(kinds - {"O"}) > 1:  # objects stay as they are
        raise TypeError("y must be of one kind in all blocks, strings or numbers, got several kinds.")
    labels, marks, counts = (np.concatenate(column) for column in zip(*held, strict=True))
    return _counted(labels, marks, counts)


def _counted(labels: NDArray[Any], marks: NDArray[np.bool_], counts: Integers) -> LabelCounts:
    parts = []
    for mark in (False, True):
        found, inverse = np.unique(labels[marks == mark], return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, inverse, counts[marks == mark])
        parts.append((found[:MOST_LABELS], np.full(len(found), mark)[:MOST_LABELS], sums[:MOST_LABELS]))
    labels, marks, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return labels, marks, counts


def _with_roles(rows: LabelledRows, label: Any, label_determined: bool) -> MixtureRows:
    has_private_label = np.asarray(rows.y == label, dtype=np.bool_)
    if label_determined or rows.private is None:
        return MixtureRows(rows.X, has_private_label, has_private_label)
    return MixtureRows(rows.X, rows.private, has_private_label)
