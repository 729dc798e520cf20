"""Conversion of rows to `Partitions`, and their columns by role."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from skprivate._validation import column_array
from skprivate.partitions import _blocks, _dask, _partitions


def is_partitioned(X: Any) -> bool:
    """Tell if rows are in blocks: a `Partitions`, a Dask array or DataFrame, or a pyarrow dataset.

    Parameters
    ----------
    X : Any

    Returns
    -------
    bool
    """
    if isinstance(X, _partitions.Partitions):
        return True
    # The class tells the library of X: nothing is imported for those who have no such data.
    origin = {parent.__module__.partition(".")[0] for parent in type(X).__mro__}
    return bool("dask" in origin and hasattr(X, "dask")) or (
        "pyarrow" in origin and type(X).__name__.endswith("Dataset")
    )


def as_partitions(X: Any) -> _partitions.Partitions:
    """Convert rows of any kind to `Partitions`.

    Parameters
    ----------
    X : Partitions, Dask array or DataFrame, pyarrow dataset, or one block in memory

    Returns
    -------
    Partitions

    Raises
    ------
    TypeError
        If a Dask array is cut along its columns, or a Dask collection is neither an array nor a DataFrame.

    See Also
    --------
    is_partitioned : Tells which rows are in blocks.
    split_columns : Takes columns out by name.

    Examples
    --------
    >>> from skprivate.partitions import as_partitions
    >>> as_partitions([[1.0], [2.0]]).empty
    []
    """
    if isinstance(X, _partitions.Partitions):
        return X
    if not is_partitioned(X):
        return _partitions.InMemory(X)
    if hasattr(X, "dask"):
        return _dask.DaskPartitions.of(X)
    return _blocks.Blocks.from_arrow(X)


class Roles(NamedTuple):
    """A block of rows by the roles of its columns: X has the features, ``of`` the named columns, one array a role."""

    X: Any
    of: dict[str, NDArray[Any]]


def split_columns(X: Any, **roles: object) -> _partitions.Partitions:
    """Take some columns out of rows in blocks, by name.

    Parameters
    ----------
    X : Partitions, Dask array or DataFrame, pyarrow dataset
    **roles : column or None
        ``y="income"``: a column of a frame by name, or of an array by number. Roles without a column are left out.

    Returns
    -------
    Partitions
        Of each block ``X`` has the other columns, in the type of the block; ``of`` maps roles to arrays.

    Raises
    ------
    TypeError
        If a role is given values instead of a column: they could not be cut into the same blocks.
    ValueError
        If there is no such column, or a column has two roles.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.partitions import Blocks, split_columns
    >>> rows = split_columns(Blocks([np.array([[1.0, 2.0, 7.0], [3.0, 4.0, 9.0]])]), y=2, user_ids=None)
    >>> rows.sum(lambda block: block.X.sum(axis=0).astype(int)), rows.empty.shape
    (array([4, 6]), (0, 3))
    """
    source = as_partitions(X)
    columns = {role: column for role, column in roles.items() if column is not None}
    frame = _frame(source.empty)
    there = list(range(source.empty.shape[1])) if frame is None else list(frame.columns)
    for role, column in columns.items():
        if not isinstance(column, str | int | np.integer):
            raise TypeError(
                f"{role} must name a column of X for rows in blocks, got {type(column).__name__}: values apart from "
                "the rows could not be cut into the same blocks."
            )
        if column not in there or (frame is None and isinstance(column, str)):
            kind = "number" if frame is None else "name"
            raise ValueError(f"{role} must be the {kind} of a column of X; X has no column {column!r}.")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"each role needs a column of its own, got {columns!r}.")
    if len(columns) == len(there):
        raise ValueError("no column of X is left for features.")
    return source.map(partial(split_block, columns=columns))


def _frame(block: object) -> nw.DataFrame[Any] | None:
    frame = nw.from_native(block, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def split_block(block: object, columns: dict[str, Any]) -> Roles:
    """Split a block by the columns of roles."""
    frame = _frame(block)
    if frame is None:
        kept = [j for j in range(block.shape[1]) if j not in columns.values()]
        return Roles(block[:, kept], {role: block[:, column] for role, column in columns.items()})
    missing = [column for column in columns.values() if column not in frame.columns]
    if missing:
        raise ValueError(f"all blocks must have the columns of the first one; one has no column {missing[0]!r}.")
    return Roles(
        frame.drop(*columns.values()).to_native(),
        {role: column_array(frame[column]) for role, column in columns.items()},
    )
