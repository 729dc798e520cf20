"""Reading of rows: checked blocks of X, y and user_ids, brought together by user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skprivate import privacy
from skprivate._validation import read_labels, read_numbers, validate_data
from skprivate.partitions import InMemory, Partitions, Roles, as_partitions, is_partitioned, split_columns
from skprivate.user_level._problems import UserData, UserGroups, encode_users, number_of_users

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
#: Options for features with gaps.
GAPS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
#: Checks X and y as scikit-learn's `validate_data` does, with its options.
Check = Callable[..., tuple[FloatArray, npt.NDArray[Any]]]


class CheckedRows(NamedTuple):
    """Rows whose features are numbers; y has shape (n_rows,), or (n_rows, 0) without a target."""

    X: FloatArray
    y: npt.NDArray[Any]
    user_ids: Any


def features_only(estimator: BaseEstimator, X: Any, y: None = None, **options: Any) -> tuple[FloatArray, FloatArray]:
    """Check features; there is no target."""
    X = validate_data(estimator, X, dtype=np.float64, **options)
    return X, np.empty((len(X), 0))


def numeric_target(estimator: BaseEstimator, X: Any, y: Any, **options: Any) -> tuple[FloatArray, FloatArray]:
    """Check features, which may have gaps, and a target of numbers."""
    X, y = validate_data(estimator, X, read_numbers(y), **GAPS, **options)
    return X, y.astype(np.float64, copy=False)


def labels(
    estimator: BaseEstimator, X: Any, y: Any, *, public: dict[str, Any], **options: Any
) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Check features, which may have gaps, and labels against the kind of the public ones."""
    X, y = validate_data(estimator, X, read_labels(y, **public), **GAPS, **options)
    return X, y


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def read_rows(
    estimator: BaseEstimator, X: Any, user_ids: Any, check: Check, *, blank: BaseEstimator, **target: object
) -> Partitions:
    """Check rows of X, y and user_ids; ``estimator`` learns the names of the features.

    ``blank``, an estimator of the same class with neither parameters nor a ledger, travels to where the rows are.
    """
    if not is_partitioned(X):
        return InMemory(CheckedRows(*check(estimator, X, **target), user_ids))
    if target and target["y"] is None:
        raise ValueError("y must name the column of X that holds the target where X is in blocks, got None.")
    columns = {**target, "user_ids": user_ids}
    source = as_partitions(X)
    nothing = _split_empty(source, columns)
    validate_data(estimator, nothing, skip_check_array=True)
    blank.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        blank.feature_names_in_ = estimator.feature_names_in_
    return split_columns(source, **columns).map(partial(_checked, check=check, blank=blank, names=_names(nothing)))


def _split_empty(source: Partitions, columns: dict[str, Any]) -> Any:
    """Return the features of a block without rows."""
    split = split_columns(InMemory(source.empty), **columns)
    assert isinstance(split, InMemory)
    return split.block.X


def _names(table: object) -> list[Any] | None:
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


@np.errstate(all="ignore")
def _checked(block: Roles, check: Check, blank: BaseEstimator, names: list[Any] | None) -> CheckedRows:
    # scikit-learn compares names that are text, where both have some.
    if _names(block.X) != names:
        raise ValueError("blocks must all have the columns of the first one, in its order and by the same names.")
    ids = block.of.get("user_ids")
    if block.X.shape[0] == 0:
        return CheckedRows(np.empty((0, blank.n_features_in_)), np.empty((0,) if "y" in block.of else (0, 0)), ids)
    target = {"y": block.of["y"]} if "y" in block.of else {}
    return CheckedRows(*check(blank, block.X, **target, reset=False), ids)


def by_user(rows: Partitions, *, named: bool, weight_cap: int = 1) -> tuple[Partitions, int]:
    """Bring each user's rows together, in their order; returns `UserData`, to be closed, and the number of users.

    Identifiers that are missing or of several kinds are refused.
    """
    together = isinstance(rows, InMemory) or not named
    users: Partitions = rows
    try:
        if together:
            users = rows.map(partial(_one_block, named=named, weight_cap=weight_cap)).persisted()
        else:
            users = rows.map(_tagged).shuffle(_place)
            users = users.map(partial(_of_users, weight_cap=weight_cap)).persisted()
        counts = users.sum(number_of_users if together else _users_of_each_kind)
        if np.count_nonzero(counts) > 1:
            raise privacy.several_kinds(privacy.kinds_in_words(np.flatnonzero(counts).tolist()))
        if not counts.any():
            raise ValueError("X has no rows (0 samples): at least one is needed.")
    except BaseException:
        users.close()
        raise
    return users, int(counts.sum())


def _one_block(rows: CheckedRows, named: bool, weight_cap: int) -> UserData:
    if not named:
        groups = UserGroups.of_rows(len(rows.X), weight_cap)
        return UserData(rows.X, rows.y, groups, groups.starts[:-1])
    codes, names = encode_users(rows.user_ids, len(rows.X))
    return UserData(rows.X, rows.y, UserGroups(codes, weight_cap), names)


def _tagged(rows: CheckedRows) -> tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]]:
    if len(rows.X) == 0:
        return rows.X, rows.y, np.empty((0, 4), dtype=np.uint64)
    codes, names = privacy.encode_identifiers(rows.user_ids, len(rows.X))
    return rows.X, rows.y, privacy.identifier_tags(names)[codes]


def _place(block: tuple[Any, ...]) -> npt.NDArray[np.uint64]:
    """Return a number for each user that spreads them evenly (the finaliser of SplitMix64)."""
    mixed: npt.NDArray[np.uint64] = block[-1][:, 0].copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed


def _of_users(block: tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]], weight_cap: int) -> UserData:
    """Sort rows by user, as contiguous columns."""
    X, y, tags = block
    order = np.argsort(tags[:, 0], kind="stable")
    new, alike = _first_rows(tags[order])
    if alike:  # two hashes that begin alike: one of 2⁶⁴
        order = np.lexsort(tags.T[::-1])
        new, _ = _first_rows(tags[order])
    columns = np.empty((X.shape[1], len(X)))
    for column, values in zip(columns, X.T, strict=True):
        column[:] = values[order]
    groups = UserGroups(np.cumsum(new) - 1, weight_cap)
    return UserData(columns.T, np.asfortranarray(y[order]), groups, tags[order][new])


def _first_rows(tags: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.bool_], bool]:
    """Mark sorted rows that begin a user, and tell if two users have the same first word."""
    new = np.ones(len(tags), dtype=bool)
    new[1:] = (tags[1:] != tags[:-1]).any(axis=1)
    return new, bool((new[1:] & (tags[1:, 0] == tags[:-1, 0])).any())


def _users_of_each_kind(data: UserData) -> IntArray:
    kinds = (data.names[:, 3] & np.uint64(255)).astype(np.int64)
    return np.bincount(kinds, minlength=privacy.N_KINDS).astype(np.int64)
