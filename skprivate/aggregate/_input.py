"""Tables of any kind as a list of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate._tables import entries, frame_columns
from skprivate._validation import is_frame, learn_columns, refuse_elsewhere
from skprivate.aggregate._columns import is_numeric
from skprivate.partitions import Partitions, Roles, split_columns


class Table(NamedTuple):
    """A block of rows, column by column.

    Attributes
    ----------
    size : range
        As long as there are rows.
    values : list of ndarray of shape (n_rows,)
        Features as they came.
    labels : ndarray of shape (n_rows,)
    """

    size: range
    values: list[NDArray[Any]]
    labels: NDArray[Any]


def label_column(X: Any, y: Any, **roles: Any) -> Partitions:
    """Rows in blocks, their column of labels (and others) taken out; see `split_columns`."""
    if y is None:
        raise ValueError("y must name the column of X that holds the labels, got None.")
    return split_columns(X, y=y, **roles)


def learn_names(estimator: Any, X: Any, y: Any, **roles: Any) -> Any:
    """Let an estimator learn names and number of the features; returns one that knows nothing else, and may travel."""
    return learn_columns(estimator, label_column(X, y, **roles).empty_block.X)[0]


def table_blocks(
    X: Any,
    y: Any,
    read: Callable[[Any], tuple[list[str], list[NDArray[Any]]]],
    read_labels: Callable[[Any], Any],
) -> tuple[list[str], Partitions]:
    """Names of the features, and rows in blocks as `Table`.

    Parameters
    ----------
    X : Partitions, Dask array or DataFrame, pyarrow dataset
    y : str or int
        The column of the labels.
    read : callable
        From the features of a block to their names and columns.
    read_labels : callable
        From the labels of a block to checked ones.
    """
    rows = label_column(X, y)
    names, _ = read_columns(rows.empty_block.X, tighten=False)
    return names, rows.map(partial(_read_block, names=names, read=read, read_labels=read_labels))


def _read_block(
    block: Roles,
    *,
    names: list[str],
    read: Callable[[Any], tuple[list[str], list[NDArray[Any]]]],
    read_labels: Callable[[Any], Any],
) -> Table:
    labels = np.asarray(block.of["y"])
    if labels.size == 0:  # types of nothing are anything
        return Table(range(0), [np.zeros(0)] * len(names), labels)
    found, values = read(block.X)
    if found != names:
        raise ValueError(
            "blocks must all have the columns of the first one, in its order and by the same names."
        )
    return Table(range(labels.size), values, read_labels(labels))


def read_columns(X: Any, *, tighten: bool = True) -> tuple[list[str], list[NDArray[Any]]]:
    """Names and columns of a pandas, polars or pyarrow table, an array, or a list of rows.

    Parameters
    ----------
    X : table, array or list
    tighten : bool
        Whether a column of objects that are all numbers becomes one of numbers: what is true of a block may not be
        of others.

    Returns
    -------
    names : list of str
        "x0", "x1", … where X has none.
    columns : list of ndarray of shape (n_samples,)
        As `skprivate._tables.entries` has them.
    """
    refuse_elsewhere(X)
    if is_frame(X):
        columns, names = frame_columns(X), getattr(X, "column_names", X.columns)
    else:
        array = entries(np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X))
        if array.ndim != 2:
            raise ValueError(f"X must be two-dimensional, got shape {array.shape}. Reshape your data.")
        columns, names = list(array.T), [f"x{j}" for j in range(array.shape[1])]
    return list(map(str, names)), [_tightened(one) for one in columns] if tighten else columns


def categorical_mask(
    categorical_features: Any,
    names: Sequence[str],
    values: Sequence[NDArray[Any]],
    bin_edges: Mapping[str, Any] | None = None,
) -> list[bool]:
    """Which columns are taken as they are."""
    if isinstance(categorical_features, str):
        if categorical_features == "all":
            return [True] * len(names)
        if categorical_features == "from_dtype":
            edges = bin_edges or {}
            return [name not in edges and not is_numeric(v) for name, v in zip(names, values, strict=True)]
        raise ValueError(
            f"categorical_features must be 'from_dtype', 'all' or a list of columns, got {categorical_features!r}."
        )
    chosen = np.asarray(list(categorical_features))
    if chosen.dtype == bool:
        if chosen.size != len(names):
            raise ValueError(
                f"categorical_features is a mask of length {chosen.size}, X has {len(names)} columns."
            )
        return [bool(flag) for flag in chosen]
    mask = [False] * len(names)
    for column in chosen.tolist():
        if isinstance(column, str) and column in names:
            mask[list(names).index(column)] = True
        elif isinstance(column, int) and 0 <= column < len(names):
            mask[column] = True
        else:
            raise ValueError(
                f"categorical_features names column {column!r}; X has the columns {list(names)}."
            )
    return mask


def _tightened(column: NDArray[Any]) -> NDArray[Any]:
    """Floats, or integers that none is missing of, in place of objects that are just those."""
    if column.dtype != object or not is_numeric(column):
        return column
    if any(isinstance(value, float) for value in column):
        return column.astype(np.float64)
    try:
        return column if any(value is None for value in column) else column.astype(np.int64)
    except OverflowError:
        return column
