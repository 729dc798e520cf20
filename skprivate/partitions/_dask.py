"""Blocks of a Dask collection: contributions are formed by the workers, which return sums of integers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.partitions._partitions import (
    Contribution,
    Partitions,
    beside_block,
    block_size,
    contribute,
    form_part,
)
from skprivate.privacy import exact_sum

#: Sums that one task adds up: a tree keeps the client's share small.
_FAN_IN = 16


class Failure:
    """What went wrong in a block, as a value.

    Dask writes the arguments of a task that raises, the rows among them, to its logs; so no task raises.

    Parameters
    ----------
    error : Exception
    """

    def __init__(self, error: Exception) -> None:
        # Messages of these are written here, and quote no row.
        said = isinstance(error, (ValueError, TypeError))
        self.kind = type(error) if said else RuntimeError
        self.text = str(error) if said else f"a block could not be read: {type(error).__name__}."


class DaskPartitions(Partitions):
    """Rows of a Dask array or DataFrame, block by block where they are.

    Parameters
    ----------
    blocks : sequence of dask.delayed.Delayed
    empty : Any
        A block without rows.
    """

    def __init__(self, blocks: Sequence[Any], empty: Any) -> None:
        self._blocks, self._empty = blocks, empty

    @classmethod
    def of(cls, collection: Any) -> DaskPartitions:
        """From a Dask array of shape (n, d), with whole rows in its chunks, or a Dask DataFrame.

        Parameters
        ----------
        collection : dask.array.Array or dask.dataframe.DataFrame

        Returns
        -------
        DaskPartitions

        Raises
        ------
        TypeError
            If it is none of them, or chunks do not hold whole rows.
        """
        kind = type(collection).__name__
        if kind == "Array" and collection.ndim == 2:
            if collection.numblocks[1] != 1:
                raise TypeError(
                    f"X is a Dask array in {collection.numblocks[1]} chunks along its columns: a contribution needs "
                    "whole rows. Use X.rechunk({1: -1})."
                )
            blocks = collection.to_delayed().ravel().tolist()
            return cls(blocks, np.empty((0, collection.shape[1]), dtype=collection.dtype))
        if kind == "DataFrame":
            return cls(collection.to_delayed(), collection._meta)
        raise TypeError(f"X must be a Dask DataFrame or a two-dimensional Dask array, got a Dask {kind}.")

    @property
    def empty(self) -> Any:
        """A block without rows."""
        return self._empty

    def sum(self, contribution: Contribution) -> NDArray[Any]:
        """Exact sum over all blocks, in a tree of tasks.

        Parameters
        ----------
        contribution : callable

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError, TypeError
            What a function raised for a block, once all are visited.
        RuntimeError
            If there are not as many rows as in an earlier pass.
        """
        from dask import delayed

        # Not pure: names of tasks are random, and no digest of anything.
        form, add = delayed(_contribute_or_fail, pure=False), delayed(_add, pure=False)
        parts = [form(block, self._functions, contribution) for block in self._blocks]
        while len(parts) > 1:
            parts = [add(parts[k : k + _FAN_IN]) for k in range(0, len(parts), _FAN_IN)]
        total = parts[0].compute()
        if isinstance(total, Failure):
            raise total.kind(total.text)
        found, result = total
        self._check_found(found)
        return np.asarray(result)

    def fold(
        self,
        form: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        *,
        beside: Sequence[Any] | None = None,
    ) -> Any:
        """Parts of all blocks, put together in a tree of tasks.

        Parameters
        ----------
        form, combine : callable
        beside : sequence, optional

        Returns
        -------
        object

        Raises
        ------
        ValueError, TypeError
            What a function raised for a block, once all are visited.
        RuntimeError
            If there are not as many rows as in an earlier pass.
        """
        from dask import delayed

        make, join = delayed(_form_or_fail, pure=False), delayed(_combine, pure=False)
        parts = [
            make(block, self._functions, form, beside_block(beside, k))
            for k, block in enumerate(self._blocks)
        ]
        while len(parts) > 1:
            parts = [join(parts[k : k + _FAN_IN], combine) for k in range(0, len(parts), _FAN_IN)]
        total = parts[0].compute()
        if isinstance(total, Failure):
            raise total.kind(total.text)
        found, result = total
        self._check_found(found)
        return result


def _form_or_fail(
    block: Any, functions: tuple[Callable[[Any], Any], ...], form: Callable[..., Any], beside: tuple[Any, ...]
) -> tuple[int, Any] | Failure:
    try:
        return int(block_size(block)[0]), form_part(block, functions, form, beside)
    except Exception as error:
        return Failure(error)


def _combine(
    parts: list[tuple[int, Any] | Failure], combine: Callable[[list[Any]], Any]
) -> tuple[int, Any] | Failure:
    failed = next((part for part in parts if isinstance(part, Failure)), None)
    if failed is not None:
        return failed
    good = [part for part in parts if not isinstance(part, Failure)]
    return sum(part[0] for part in good), combine([part[1] for part in good])


def _contribute_or_fail(
    block: Any, functions: tuple[Callable[[Any], Any], ...], contribution: Contribution
) -> tuple[int, NDArray[Any]] | Failure:
    try:
        return int(block_size(block)[0]), exact_sum([contribute(block, functions, contribution)])
    except Exception as error:
        return Failure(error)


def _add(parts: list[tuple[int, NDArray[Any]] | Failure]) -> tuple[int, NDArray[Any]] | Failure:
    found, sums = 0, []
    for part in parts:
        if isinstance(part, Failure):
            return part
        found += part[0]
        sums.append(np.asarray(part[1])[..., np.newaxis])
    return found, exact_sum(sums)


def lazily(collection: Any, function: Any) -> Any:
    """A function of rows over a Dask collection: a lazy array, or a DataFrame where it returns frames.

    Parameters
    ----------
    collection : dask.array.Array or dask.dataframe.DataFrame
    function : RowMethod

    Returns
    -------
    dask.array.Array or dask.dataframe.DataFrame
    """
    meta = function.nothing
    if type(collection).__name__ == "DataFrame":
        return collection.map_partitions(function, meta=meta, enforce_metadata=False)
    if hasattr(meta, "columns"):
        import dask.dataframe as dd
        from dask import delayed

        blocks = collection.to_delayed().ravel().tolist()
        return dd.from_delayed([delayed(function)(block) for block in blocks], meta=meta)
    if meta.ndim == 1:
        return collection.map_blocks(function, drop_axis=1, dtype=meta.dtype, meta=meta)
    chunks = (collection.chunks[0], (meta.shape[1],))
    return collection.map_blocks(function, chunks=chunks, dtype=meta.dtype, meta=meta)
