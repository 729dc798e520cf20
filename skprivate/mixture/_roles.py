"""Rows of a mixture and their roles, read from X, y and the privacy mask, and their problem."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from skprivate import _validation
from skprivate._validation import plain
from skprivate.mixture import _geometry
from skprivate.mixture._problem import ErrorWeights, Integers, MixtureRows, Problem
from skprivate.partitions import InMemory, as_partitions, is_partitioned, split_columns
from skprivate.partitions import Roles as SplitBlock
from skprivate.privacy import warn_caller

#: Pairs of labels whose larger one is private by custom (0 == False, 1 == True).
_CUSTOMARY = ({0, 1}, {-1, 1})
#: Largest number of labels that is collected from a block; two are allowed.
MOST_LABELS = 20
#: Numbers of rows of each label, among those that are marked private and others.
LabelCounts = dict[tuple[Any, bool], int]


class ProtectedLabelWarning(UserWarning):
    """A default, not the user, decided which label's rows are protected; all others count as published."""


@dataclass(frozen=True, eq=False)
class Roles:
    """Label set in ascending order, and for each row if it is private and if it has the private label.

    ``label_determined`` is True if exactly the rows of the private label are private. ``counts`` tells how many rows
    each entry stands for.
    """

    classes: NDArray[Any]
    private_index: int
    private: NDArray[np.bool_]
    has_private_label: NDArray[np.bool_]
    label_determined: bool
    counts: Integers | None = None

    def count(self, which: NDArray[np.bool_]) -> int:
        """Count rows."""
        return int(which.sum() if self.counts is None else self.counts[which].sum())

    @property
    def supports_candidates(self) -> NDArray[np.bool_]:
        """Public rows of the public label: the points that candidates are built from (Observation 4.2)."""
        return ~self.private & ~self.has_private_label


def assign_roles(
    y: NDArray[Any], private: object, private_label: object, classes: object, adjacency: str, *, simulated: bool
) -> Roles:
    """Find the roles, with an error for whatever does not fit.

    ``simulated`` fits protect nobody, so they go on with a warning. No error text holds a label or count that only
    private rows decide.
    """
    label_set = _label_set(y, classes, private_label, adjacency)
    codes = _validation.encode_classes(y, label_set, strict=True)
    mask = None if private is None else check_mask(private, y)
    if private_label is not None:
        # Without a mask the label set shows nothing about private rows; with one, only labels of public rows are shown.
        found = range(2) if mask is None or classes is not None else np.unique(codes[~mask])
        known = [label_set[code] for code in found]
        index = _stated_index(label_set, private_label, known)
    elif mask is not None:
        # The enclosed side is the one whose label public rows have; with a mask it protects nobody.
        present = np.isin([0, 1], codes[~mask])
        index = int(np.flatnonzero(~present)[0]) if present.sum() == 1 else 1
    else:
        index = _default_index(label_set, simulated)
    has_private_label = np.asarray(codes == index)
    if mask is None:
        mask = has_private_label.copy()
    if adjacency == "replace-one" and not mask.any():
        raise ValueError(
            "There are no private rows, so there is nothing to protect: check the parameter private, or use a "
            "classifier without privacy."
        )
    return Roles(_validation.label_array(label_set), index, mask, has_private_label, private is None)


def _stated_index(label_set: list[Any], private_label: object, known: list[Any]) -> int:
    if plain(private_label) not in label_set:
        raise ValueError(
            f"private_label must be one of the two labels{' of y, public rows have' if len(known) < 2 else ''} "
            f"{known}, got {private_label!r}."
        )
    return label_set.index(plain(private_label))


def _default_index(label_set: list[Any], simulated: bool) -> int:
    """Return the larger label, where custom or a simulation allows to guess, and warn."""
    other, larger = label_set
    state_it = f"private_label={larger!r} (or {other!r}, the other way round)"
    if {other, larger} not in _CUSTOMARY and not simulated:
        raise ValueError(
            f"private_label must say whose rows are private, one of the two labels {[other, larger]}, got None: the "
            f"rows of the other label are published. Pass {state_it}, or mark private rows by fit(…, private=mask). "
            "Only for labels {0, 1}, {False, True} and {-1, 1} is the larger one private by default."
        )
    warn_caller(
        f"private_label is None: rows with label {larger!r} are protected by default, and rows with label {other!r} "
        f"are published. Pass {state_it} to state it.",
        ProtectedLabelWarning,
    )
    return 1


def _label_set(y: NDArray[Any], classes: object, private_label: object, adjacency: str) -> list[Any]:
    if classes is None:
        if adjacency == "add-remove":
            raise ValueError(
                "With adjacency='add-remove' it is not public whether any private row exists, so the labels cannot "
                "be read off y: pass the label set as classes=(label, label)."
            )
        label_set = _validation.distinct_labels(y)
        if len(label_set) > 2:
            label = "label" if private_label is None else repr(private_label)
            # scikit-learn's common checks ask for the first two sentences.
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass. One population is "
                f"private against all others: merge the others first, y = (y == {label}), and pass "
                "private_label=True."
            )
        if len(label_set) < 2:
            raise ValueError(
                "y must hold two classes, got one class only. Pass the label set as classes=(label, label) if the "
                "other label may be absent."
            )
        return label_set
    label_set = _validation.together([_validation.check_classes(classes)])
    if len(label_set) != 2:
        raise ValueError(f"classes must hold two different labels, got {classes!r}.")
    return label_set


def check_mask(private: object, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Check a privacy mask with one entry for each label."""
    if np.ma.is_masked(private):
        raise ValueError("private must say of every row whether it is private, got missing entries.")
    mask = np.asarray(private)
    if mask.dtype == object and all(isinstance(value, (bool, np.bool_)) for value in mask.ravel()):
        mask = mask.astype(np.bool_)
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise ValueError(
            f"private must be a one-dimensional boolean mask, got dtype {mask.dtype} and shape {mask.shape}."
        )
    if mask.shape[0] != y.shape[0]:
        raise ValueError(f"private must have one entry for each of the {y.shape[0]} rows, got {mask.shape[0]}.")
    check_consistent_length(mask, y)
    return mask


def error_weights(roles: Roles, class_weight: object, adjacency: str) -> ErrorWeights:
    """Compute integer error weights from ``class_weight``: None, "balanced" or a mapping from label to weight.

    "balanced" uses public numbers only: the rows of each label that are public, and all private rows counted for the
    private label.
    """
    private_label, public_label = roles.classes[roles.private_index], roles.classes[1 - roles.private_index]
    if class_weight is None:
        weights = {public_label: 1.0, private_label: 1.0}
    elif isinstance(class_weight, Mapping):
        unknown = [label for label in class_weight if label not in roles.classes]
        if unknown:
            raise ValueError(f"class_weight has keys {unknown} that are neither of the two labels.")
        weights = {label: float(class_weight.get(label, 1.0)) for label in (public_label, private_label)}
        if not all(np.isfinite(w) and w > 0 for w in weights.values()):
            raise ValueError(f"class_weight must hold positive finite weights, got {dict(class_weight)!r}.")
    elif adjacency == "add-remove":
        raise ValueError(
            "class_weight='balanced' needs the number of private rows, which is not public with "
            "adjacency='add-remove': pass a dict of weights."
        )
    else:
        n_public_label = roles.count(roles.supports_candidates)
        n_private_label = roles.count(~roles.supports_candidates)
        weights = {public_label: 1.0, private_label: 1.0}
        if n_public_label and n_private_label:
            weights = {public_label: 1.0 / n_public_label, private_label: 1.0 / n_private_label}
    return ErrorWeights.from_class_weights(
        weights[public_label], weights[private_label], private_rows_have_private_label=roles.label_determined
    )


def read_problem(estimator: BaseEstimator, X: Any, y: Any, private: object) -> tuple[Problem, Roles]:
    """Make the problem of all rows, and their roles; the estimator learns the columns."""
    assign = partial(
        assign_roles,
        private_label=estimator.private_label,
        classes=estimator.classes,
        adjacency=estimator.adjacency,
        simulated=estimator.random_state is not None,
    )
    if is_partitioned(X):
        blocks = _read_blocks(estimator, X, y, private)
        # Labels are public, or the same everywhere: one row of each kind shows the roles.
        found = blocks.gather(label_counts, merge_counts)
        if not found:
            raise ValueError(f"X has no rows in its blocks; {type(estimator).__name__} needs at least 1.")
        labels = _validation.label_array([label for label, _ in found])
        marks = np.array([mark for _, mark in found], dtype=np.bool_)
        counts = np.array(list(found.values()), dtype=np.int64)
        roles = replace(assign(labels, None if private is None else marks), counts=counts)
        rows = blocks.map(
            partial(
                _with_roles, classes=roles.classes, index=roles.private_index, label_determined=roles.label_determined
            )
        )
    else:
        X, y = _validation.validate_data(
            estimator, X, _validation.read_labels(y, **_validation.public_labels(estimator)), dtype=np.float64
        )
        roles = assign(y, private)
        rows = InMemory(MixtureRows(X, roles.private, roles.has_private_label))
    problem = Problem.of(
        rows,
        error_weights(roles, estimator.class_weight, estimator.adjacency),
        n_rows=roles.count(np.ones_like(roles.private)),
        n_public=roles.count(~roles.private),
        n_public_label=roles.count(~roles.has_private_label),
        size_is_public=estimator.adjacency == "replace-one",
    )
    return problem, roles


class LabelledRows(NamedTuple):
    """Checked rows of a block, their labels and, where there is one, the privacy mask."""

    X: _geometry.Floats
    y: NDArray[Any]
    private: NDArray[np.bool_] | None


def _read_blocks(estimator: Any, X: Any, y: Any, private: Any) -> Any:
    if y is None:
        raise ValueError("y must name the column of X that holds the labels where X is in blocks, got None.")
    columns = {"y": y, "private": private}
    rows = split_columns(X, **columns)
    first = split_columns(InMemory(as_partitions(X).empty), **columns)
    blank, names = _validation.learn_columns(estimator, cast(InMemory, first).block.X)
    return rows.map(partial(_read_block, blank=blank, names=names, public=_validation.public_labels(estimator)))


def _read_block(block: SplitBlock, blank: BaseEstimator, names: Any, public: dict[str, Any]) -> LabelledRows:
    _validation.refuse_other_columns(block.X, names)
    y, private = block.of["y"], block.of.get("private")
    if not len(y):
        X = np.empty((0, blank.n_features_in_))
        return LabelledRows(X, y, None if private is None else np.zeros(0, dtype=np.bool_))
    X, y = _validation.validate_data(
        blank, block.X, _validation.read_labels(y, **public), dtype=np.float64, reset=False
    )
    return LabelledRows(X, y, None if private is None else check_mask(private, y))


def label_counts(rows: LabelledRows) -> LabelCounts:
    """Count labels in a block, among rows that are marked private and others."""
    marks = itertools.repeat(False) if rows.private is None else rows.private.tolist()
    return merge_counts([Counter(zip(rows.y.tolist(), marks, strict=False))])


def merge_counts(parts: Sequence[LabelCounts]) -> LabelCounts:
    """Add up the counts of several blocks."""
    labels = [label for part in parts for label, _ in part]
    _validation.kind_of(labels)  # or an error: one in all blocks
    read = (
        _validation.by_value if len(set(map(type, labels))) > 1 else plain
    )  # of blocks of several types none is the first
    total: Counter[tuple[Any, bool]] = Counter()
    for part in parts:
        total.update({(read(label), mark): count for (label, mark), count in part.items()})
    return dict(itertools.islice(total.items(), 2 * MOST_LABELS))


def _with_roles(rows: LabelledRows, classes: NDArray[Any], index: int, label_determined: bool) -> MixtureRows:
    has_private_label = np.asarray(_validation.encode_classes(rows.y, classes.tolist(), strict=True) == index)
    if label_determined or rows.private is None:
        return MixtureRows(rows.X, has_private_label, has_private_label)
    return MixtureRows(rows.X, rows.private, has_private_label)
