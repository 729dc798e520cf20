"""Rows that are too many for memory, in a temporary file: dealt out by place, or as they are.

The file has no name where the system allows for that (Linux, macOS): nobody else can open it, and it is gone with the
process, however that ends. Its contents are gone when it is closed.
"""

from __future__ import annotations

import mmap
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Parts into which rows are dealt. One of them must fit into memory; small ones are read together.
PARTS = 512
#: Bytes that are read together where parts are small.
READ_BYTES = 1 << 26


class Spill:
    """A temporary file, closed when this object goes; ``close`` does nothing the second time."""

    def __init__(self) -> None:
        self.file: Any = tempfile.TemporaryFile()  # noqa: SIM115
        self.close = weakref.finalize(self, self.file.close)


def by_place(places: NDArray[np.uint64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort rows by part, in their own order within each: part k is ``order[ends[k]:ends[k + 1]]``."""
    part = (places % np.uint64(count)).astype(np.int64)
    order = np.argsort(part.astype(np.uint16), kind="stable")  # a radix sort
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(part, minlength=count))])
    return order, ends


def deal(
    blocks: Iterable[tuple[NDArray[Any], ...]], place: Callable[[Any], NDArray[np.uint64]], spill: Spill
) -> Callable[[], Iterator[tuple[NDArray[Any], ...]]]:
    """Write rows part by part; returns a function that reads them."""
    dtype: np.dtype[Any] | None = None
    starts: list[int] = []
    ends: list[NDArray[np.int64]] = []
    for arrays in blocks:
        if dtype is None:
            dtype = np.dtype([(f"f{j}", array.dtype, array.shape[1:]) for j, array in enumerate(arrays)])
        order, end = by_place(place(arrays), PARTS)
        starts.append(spill.file.tell())
        ends.append(end)
        records = np.empty(len(order), dtype=dtype)
        for name, array in zip(dtype.names or (), arrays, strict=True):
            records[name] = array[order]
        spill.file.write(records.view(np.uint8).data)
    if dtype is None:
        raise ValueError("source has no block: give at least one, even without rows.")
    sizes, kind = np.array(ends), dtype
    # Parts up to the one with which a further READ_BYTES are full.
    filled = np.cumsum(np.diff(sizes, axis=1).sum(axis=0)) * kind.itemsize // READ_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), PARTS]

    def read(first: int, last: int) -> tuple[NDArray[Any], ...]:
        records = np.empty(int((sizes[:, last] - sizes[:, first]).sum()), dtype=kind)
        view, done = memoryview(records.view(np.uint8).data), 0
        for start, (begin, end) in zip(starts, (sizes[:, [first, last]] * kind.itemsize).tolist(), strict=True):
            spill.file.seek(start + begin)
            spill.file.readinto(view[done : done + end - begin])
            done += end - begin
        return tuple(np.ascontiguousarray(records[name]) for name in kind.names or ())

    return lambda: (read(first, last) for first, last in pairwise(bounds))


def keep(blocks: Iterable[Any], spill: Spill) -> Callable[[], Iterator[Any]]:
    """Write blocks as they are; returns a function that reads them."""
    kept = []
    for block in blocks:
        arrays: list[pickle.PickleBuffer] = []
        frame = pickle.dumps(block, protocol=5, buffer_callback=arrays.append)
        start = spill.file.tell()
        begins = []
        for array in arrays:
            begins.append(spill.file.tell() - start)
            spill.file.write(array.raw())
            spill.file.write(bytes(-spill.file.tell() % mmap.ALLOCATIONGRANULARITY))
        kept.append((frame, start, spill.file.tell() - start, begins, [array.raw().nbytes for array in arrays]))
    spill.file.flush()

    def read() -> Iterator[Any]:
        # Arrays are mapped from the file, and come to memory when they are used.
        number = spill.file.fileno()
        for frame, start, size, begins, lengths in kept:
            if size == 0:
                yield pickle.loads(frame, buffers=[b""] * len(begins))
                continue
            place = memoryview(mmap.mmap(number, size, access=mmap.ACCESS_READ, offset=start))
            arrays = [place[begin : begin + length] for begin, length in zip(begins, lengths, strict=True)]
            del place
            yield pickle.loads(frame, buffers=arrays)

    return read
