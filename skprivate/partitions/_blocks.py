"""Blocks that are read one after the other, on one machine and out of core."""

from __future__ import annotations

import mmap
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._sklearn import begin_within
from skprivate._validation import dense
from skprivate.partitions._partitions import Part, Partitions, apply_all, beside_block, block_size

#: Rows read from a file at a time.
BATCH_ROWS = 1 << 18
#: Steps of a pass for callbacks, for any number of blocks: that one may tell the number of rows.
STEPS_OF_A_PASS = 20
#: Parts into which rows are dealt. One of them must fit into memory; small ones are read together.
PARTS = 512
#: Bytes that are read together where parts are small.
READ_BYTES = 1 << 26


class Blocks(Partitions):
    """Rows that are read block by block, as often as they are needed; one block is in memory at a time.

    Parameters
    ----------
    source : iterable of blocks, or callable
        A list of frames or arrays, or a function that returns a new iterator over them: a fit may read the rows
        several times. All blocks have the same columns. Sparse ones are made dense when they are read.

    Attributes
    ----------
    passes : int
        Number of passes over all blocks.

    Raises
    ------
    TypeError
        If ``source`` can be read only once, or is one table.
    ValueError
        If there is no block.

    See Also
    --------
    as_partitions : Converts files, frames and arrays.
    InMemory : Holds rows in one block.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import MetricPrivateSynthesizer
    >>> from skprivate.partitions import Blocks
    >>> X = np.linspace(0, 1, 1000).reshape(-1, 1)
    >>> def read():
    ...     return (X[start : start + 300] for start in range(0, 1000, 300))
    >>> model = MetricPrivateSynthesizer(100.0, metric="wasserstein", bounds=(0, 1), random_state=0)
    >>> whole, parts = model.fit(X).measure_, model.fit(Blocks(read)).measure_
    >>> np.array_equal(whole.weights, parts.weights)
    True
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(source) and iter(source) is source:
            raise TypeError(
                "source can be read only once, and a fit may need several passes: give a list of blocks, or a "
                "function that returns a new iterator over them."
            )
        if hasattr(source, "shape"):
            raise TypeError(f"source must be a list of blocks or a function, got one {type(source).__name__}.")
        self._read = _ProgressReader(source if callable(source) else lambda: source)
        # Of `shuffle` and `persisted`; shared by all that come from those.
        self._files: list[Callable[[], Any]] = []

    @classmethod
    def from_arrow(cls, dataset: object) -> Blocks:
        """Read a pyarrow dataset, block by block, as tables.

        Parameters
        ----------
        dataset : pyarrow.dataset.Dataset

        Returns
        -------
        Blocks
        """
        import pyarrow as pa

        def read() -> Iterator[Any]:
            # Little is read ahead: what is ahead is in memory.
            batches = dataset.to_batches(batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
            for batch in batches:
                yield pa.Table.from_batches([batch])

        blocks = cls(read)
        blocks.__dict__["empty"] = dataset.schema.empty_table()
        return blocks

    @cached_property
    def empty(self) -> Any:  # type: ignore[override]
        """The first block without its rows."""
        for block in self._read():
            return block[:0]
        raise ValueError("source has no block: give at least one, even without rows.")

    @property
    def passes(self) -> int:
        """Number of passes over all blocks."""
        return self._read.passes

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the blocks, with all functions applied."""
        n_rows = 0
        for block in self._read():
            n_rows += int(block_size(block)[0])
            yield apply_all(self._functions, block)
        self._check_n_rows(n_rows)

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def gather(
        self, part: Callable[..., Part], merge: Callable[[list[Part]], Part], *, beside: Sequence[Any] | None = None
    ) -> Part:
        # Parts of 2ᵏ blocks each, as the digits of a binary number: few are held, and each is merged log₂ times.
        held: list[tuple[int, Part]] = []
        for number, block in enumerate(self):
            held.append((0, part(block, *beside_block(beside, number))))
            while len(held) > 1 and held[-1][0] == held[-2][0]:
                (level, first), (_, second) = held[-2:]
                held[-2:] = [(level + 1, merge([first, second]))]
        if not held:
            raise ValueError("source has no block: give at least one, even without rows.")
        return held[0][1] if len(held) == 1 else merge([part for _, part in held])

    def shuffle(self, place: Callable[[Any], NDArray[np.uint64]]) -> Blocks:
        return self._stored(partial(deal, self, place))

    def persisted(self) -> Blocks:
        return self._stored(partial(keep, self))

    def close(self) -> None:
        while self._files:
            self._files.pop()()

    @np.errstate(all="ignore")
    def _stored(self, store: Callable[[Spill], Callable[[], Iterator[Any]]]) -> Blocks:
        spill = Spill()
        try:
            rows = Blocks(store(spill))
        except BaseException:
            spill.close()
            raise
        # What one fit has written is not closed by another one that reads the same source.
        rows._files = self._files if self._files else []
        rows._files.append(spill.close)
        rows.__dict__["empty"] = self.empty
        return rows


class _ProgressReader:
    """Iterator over blocks that reports progress, relative to the number of blocks of the previous pass."""

    def __init__(self, read: Callable[[], Iterable[Any]]) -> None:
        self.read, self.n_blocks, self.passes = read, 0, 0

    def __call__(self) -> Iterator[Any]:
        progress, done, number = begin_within("pass over blocks", STEPS_OF_A_PASS), 0, 0
        for number, block in enumerate(self.read(), start=1):
            yield dense(block)
            now = min(number * STEPS_OF_A_PASS // self.n_blocks, STEPS_OF_A_PASS) if self.n_blocks else 0
            if progress is not None and now > done:
                progress(now - done)
                done = now
        self.n_blocks, self.passes = number, self.passes + 1
        if progress is not None:
            progress(STEPS_OF_A_PASS - done)
            progress.task.end()


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
