"""Blocks of a Dask collection: workers form the contributions, and return sums of integers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from skprivate.partitions import _blocks
from skprivate.partitions._partitions import Part, Partitions, apply_all, beside_block, block_size

#: Parts that one task merges: a tree keeps the client's share small.
_FAN_IN = 16
#: Most blocks that a shuffle makes: its tasks are their number times that of the blocks before.
MOST_PARTS = 128

Functions = tuple[Callable[[Any], Any], ...]


class Failure:
    """An error in a block, as a value.

    Dask writes the arguments of a task that raises, the rows among them, to its logs; so no task raises.
    """

    def __init__(self, error: Exception) -> None:
        # Messages of these are written here, and quote no row; those of subclasses, such as UnicodeDecodeError, may,
        # and are not made from a text.
        is_plain = type(error) in (ValueError, TypeError)
        self.kind = type(error) if is_plain else RuntimeError
        self.text = str(error) if is_plain else f"a block could not be read: {type(error).__name__}."


class DaskPartitions(Partitions):
    """Rows of a Dask array or DataFrame, as delayed blocks, with a block without rows."""

    def __init__(self, blocks: Sequence[Any], empty: object) -> None:
        self._blocks, self._empty = blocks, empty

    @classmethod
    def of(cls, collection: Any) -> DaskPartitions:
        """Make partitions of a Dask array of shape (n, d), with whole rows in its chunks, or of a Dask DataFrame."""
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
        return self._empty

    def gather(
        self, part: Callable[..., Part], merge: Callable[[list[Part]], Part], *, beside: Sequence[Any] | None = None
    ) -> Part:
        from dask import delayed

        # Not pure: names of tasks are random, and no digest of anything.
        form, join = delayed(_form, pure=False), delayed(_join, pure=False)
        parts = [
            form(block, self._functions, part, beside_block(beside, number))
            for number, block in enumerate(self._blocks)
        ]
        while len(parts) > 1:
            parts = [join(parts[k : k + _FAN_IN], merge) for k in range(0, len(parts), _FAN_IN)]
        total = parts[0].compute()
        if isinstance(total, Failure):
            raise total.kind(total.text)
        self._check_n_rows(total[0])
        result: Part = total[1]
        return result

    def shuffle(self, place: Callable[[Any], NDArray[np.uint64]]) -> DaskPartitions:
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        # One graph instead of one for each task, of which there are thousands. Names of tasks are random.
        count, name = min(len(self._blocks), MOST_PARTS), f"shuffle-{uuid4().hex}"
        split = partial(_split, functions=self._functions, place=place, count=count)
        tasks: dict[Any, Any] = {}
        for i, block in enumerate(self._blocks):
            tasks[f"{name}-dealt", i] = (split, block.key)
            for k in range(count):
                tasks[f"{name}-part", i, k] = (_pick, (f"{name}-dealt", i), k)
        for k in range(count):
            tasks[name, k] = (_gather, [(f"{name}-part", i, k) for i in range(len(self._blocks))])
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=self._blocks)
        return DaskPartitions([Delayed((name, k), graph, layer=name) for k in range(count)], self._empty)

    def persisted(self) -> DaskPartitions:
        from dask import delayed, persist

        make = delayed(_make, pure=False)
        return DaskPartitions(persist(*(make(block, self._functions) for block in self._blocks)), self._empty)


def _or_failure(task: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a task would raise, and what has failed before it."""

    @wraps(task)
    def careful(first: object, *others: object, **more: object) -> Any:
        for given in first if isinstance(first, list) else [first]:
            if isinstance(given, Failure):
                return given
        try:
            # A warning would tell a log about somebody's number.
            with np.errstate(all="ignore"):
                return task(first, *others, **more)
        except Exception as error:
            return Failure(error)

    return careful


@_or_failure
def _form(block: object, functions: Functions, part: Callable[..., Any], beside: tuple[Any, ...]) -> tuple[int, Any]:
    return int(block_size(block)[0]), part(apply_all(functions, block), *beside)


@_or_failure
def _join(parts: list[tuple[int, Any]], merge: Callable[[list[Any]], Any]) -> tuple[int, Any]:
    return sum(part[0] for part in parts), merge([part[1] for part in parts])


@_or_failure
def _make(block: object, functions: Functions) -> Any:
    return apply_all(functions, block)


@_or_failure
def _split(
    block: object, functions: Functions, place: Callable[[Any], NDArray[np.uint64]], count: int
) -> tuple[tuple[NDArray[Any], ...], ...]:
    arrays = apply_all(functions, block)
    order, ends = _blocks.by_place(place(arrays), count)
    ordered = [array[order] for array in arrays]
    return tuple(tuple(array[start:end] for array in ordered) for start, end in pairwise(ends.tolist()))


@_or_failure
def _pick(parts: tuple[tuple[NDArray[Any], ...], ...], k: int) -> tuple[NDArray[Any], ...]:
    return parts[k]


@_or_failure
def _gather(parts: list[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def lazily(collection: object, function: object) -> Any:
    """Apply a function of rows to a Dask collection: a lazy array, or a DataFrame where it returns frames."""
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
