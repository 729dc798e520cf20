"""Tables of any kind as a list of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._columns import is_numeric


def read_columns(X: Any) -> tuple[list[str], list[NDArray[Any]]]:
    """Names and columns of a pandas, polars or pyarrow table, an array, or a list of rows.

    Returns
    -------
    names : list of str
        "x0", "x1", … where X has none.
    columns : list of ndarray of shape (n_samples,)
    """
    if nw.dependencies.is_pyarrow_table(X):
        return [str(name) for name in X.column_names], [_column(column) for column in X.columns]
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        names = [str(name) for name in X.columns]
        return names, [_column(X[name]) for name in X.columns]
    array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=_common_type(X))
    if array.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got shape {array.shape}. Reshape your data.")
    columns = [array[:, j] for j in range(array.shape[1])]
    if array.dtype == object:
        columns = [_tightened(column) for column in columns]
    return [f"x{j}" for j in range(array.shape[1])], columns


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


def _column(column: Any) -> NDArray[Any]:
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "kind", "") in "iufb" and isinstance(dtype, np.dtype):
        return np.asarray(column)
    array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    return _tightened(array) if array.dtype == object else array


def _tightened(column: NDArray[Any]) -> NDArray[Any]:
    """Floats in place of an object column that holds numbers only."""
    return column.astype(np.float64) if is_numeric(column) else column


def _common_type(X: Any) -> Any:
    try:
        array = np.asarray(X)
    except ValueError:
        return object
    # NumPy would turn a mixed list of rows into strings.
    return object if array.dtype.kind in "US" else None
