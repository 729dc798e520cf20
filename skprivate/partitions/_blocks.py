"""Blocks that are read one after the other, on one machine and out of core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.partitions._partitions import FAN_IN, Partitions, apply_all, block_size
from skprivate.partitions._spill import Spill, deal, keep

#: Rows read from a file at a time.
BATCH_ROWS = 1 << 18


class Blocks(Partitions):
    """Rows that are read block by block, as often as they are needed; one block is in memory at a time.

    Parameters
    ----------
    source : iterable of blocks, or callable
        A list of frames or arrays, or a function that returns a new iterator over them: a fit may read the rows
        several times. All blocks have the same columns.

    Raises
    ------
    TypeError
        If ``source`` can be read only once, or is one table.
    ValueError
        If there is no block.

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
            raise TypeError(
                f"source must be a list of blocks or a function, got one {type(source).__name__}."
            )
        self._read: Callable[[], Iterable[Any]] = source if callable(source) else lambda: source
        self._files: list[
            Callable[[], Any]
        ] = []  # of `shuffle` and `persisted`, shared by all that come from those

    @classmethod
    def from_arrow(cls, dataset: Any) -> Blocks:
        """Blocks of a pyarrow dataset, as tables.

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

    def __iter__(self) -> Iterator[Any]:
        """The blocks, one after the other, with all functions applied."""
        found = 0
        for block in self._read():
            found += int(block_size(block)[0])
            yield apply_all(self._functions, block)
        self._check_found(found)

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def _reduce(
        self, form: Callable[[Any], Any], merge: Callable[[list[Any]], Any], *, fan_in: int = FAN_IN
    ) -> Any:
        results: list[Any] = []
        for block in self:
            results.append(form(block))
            if len(results) == fan_in:
                results = [merge(results)]
        if not results:
            raise ValueError("source has no block: give at least one, even without rows.")
        return results[0] if len(results) == 1 else merge(results)

    def shuffle(self, place: Callable[[Any], NDArray[np.uint64]]) -> Blocks:
        """The same rows, once more, in blocks of whole places; see `skprivate.partitions.Partitions.shuffle`.

        They are written to a temporary file that has no name (`tempfile`), in parts of which one fits into memory.

        Parameters
        ----------
        place : callable

        Returns
        -------
        Blocks
        """
        return self._stored(partial(deal, self, place))

    def persisted(self) -> Blocks:
        """What the functions make of the blocks, in a temporary file that has no name.

        Returns
        -------
        Blocks
        """
        return self._stored(partial(keep, self))

    def close(self) -> None:
        """Close all temporary files; their contents are gone."""
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
