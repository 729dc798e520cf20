"""Blocks that are read one after the other, on one machine and out of core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from skprivate.partitions._partitions import (
    Contribution,
    Part,
    Partitions,
    apply,
    block_size,
    contribute,
)
from skprivate.privacy import exact_sum

#: Rows read from a file at a time.
BATCH_ROWS = 1 << 18
#: Parts that are held before they are merged.
_HELD = 8


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

    def sum(self, contribution: Contribution) -> NDArray[Any]:
        """Exact sum over all blocks, one after the other.

        Parameters
        ----------
        contribution : callable

        Returns
        -------
        ndarray

        Raises
        ------
        RuntimeError
            If there are not as many rows as in an earlier pass.
        """
        found = 0

        def parts() -> Iterator[NDArray[Any]]:
            nonlocal found
            for block in self._read():
                found += int(block_size(block)[0])
                yield contribute(block, self._functions, contribution)

        total = exact_sum(parts())
        self._check_found(found)
        return total

    def gather(self, part: Callable[[Any], Part], merge: Callable[[Sequence[Part]], Part]) -> Part:
        """What all blocks give together, a few merged at a time.

        Parameters
        ----------
        part, merge : callable

        Returns
        -------
        object

        Raises
        ------
        RuntimeError
            If there are not as many rows as in an earlier pass.
        """
        found, held = 0, []
        for block in self._read():
            found += int(block_size(block)[0])
            held.append(part(apply(self._functions, block)))
            if len(held) == _HELD:
                held = [merge(held)]
        self._check_found(found)
        return merge(held)
