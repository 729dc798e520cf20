"""Blocks of a Dask collection: contributions are formed by the workers, which return sums of integers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.partitions._partitions import Contribution, Part, Partitions, apply, block_size
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
        return self.gather(partial(_integers, contribution=contribution), _add)

    def gather(self, part: Callable[[Any], Part], merge: Callable[[Sequence[Part]], Part]) -> Part:
        """What all blocks give together, merged in a tree of tasks.

        Parameters
        ----------
        part, merge : callable

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

        # Not pure: names of tasks are random, and no digest of anything.
        form, join = delayed(_form_or_fail, pure=False), delayed(_merge_or_fail, pure=False)
        parts = [form(block, self._functions, part) for block in self._blocks]
        while len(parts) > 1:
            parts = [join(parts[k : k + _FAN_IN], merge) for k in range(0, len(parts), _FAN_IN)]
        total = parts[0].compute()
        if isinstance(total, Failure):
            raise total.kind(total.text)
        self._check_found(total[0])
        result: Part = total[1]
        return result


def _form_or_fail(
    block: Any, functions: tuple[Callable[[Any], Any], ...], part: Callable[[Any], Any]
) -> tuple[int, Any] | Failure:
    try:
        return int(block_size(block)[0]), part(apply(functions, block))
    except Exception as error:
        return Failure(error)


def _merge_or_fail(
    parts: list[tuple[int, Any] | Failure], merge: Callable[[Sequence[Any]], Any]
) -> tuple[int, Any] | Failure:
    found, results = 0, []
    for part in parts:
        if isinstance(part, Failure):
            return part
        found += part[0]
        results.append(part[1])
    try:
        return found, merge(results)
    except Exception as error:
        return Failure(error)


def _integers(block: Any, contribution: Contribution) -> NDArray[Any]:
    return exact_sum([contribution(block)[..., np.newaxis]])


def _add(sums: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return exact_sum([np.asarray(part)[..., np.newaxis] for part in sums])
