"""Rows of any kind as `Partitions`."""

from __future__ import annotations

from typing import Any

from skprivate.partitions._blocks import Blocks
from skprivate.partitions._dask import DaskPartitions
from skprivate.partitions._partitions import InMemory, Partitions


def is_partitioned(X: Any) -> bool:
    """Whether rows lie in blocks: a `Partitions`, a Dask array or DataFrame, or a pyarrow dataset.

    Parameters
    ----------
    X : Any

    Returns
    -------
    bool
    """
    if isinstance(X, Partitions):
        return True
    # Where X comes from is told by its class: nothing is imported for those who have no such data.
    origin = {parent.__module__.partition(".")[0] for parent in type(X).__mro__}
    return bool("dask" in origin and hasattr(X, "dask")) or (
        "pyarrow" in origin and type(X).__name__.endswith("Dataset")
    )


def as_partitions(X: Any) -> Partitions:
    """Rows of any kind as `Partitions`.

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

    Examples
    --------
    >>> from skprivate.partitions import as_partitions
    >>> as_partitions([[1.0], [2.0]]).empty
    []
    """
    if isinstance(X, Partitions):
        return X
    if not is_partitioned(X):
        return InMemory(X)
    if hasattr(X, "dask"):
        return DaskPartitions.of(X)
    return Blocks.from_arrow(X)
