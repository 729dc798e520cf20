"""Rows in blocks, from which a mechanism reads one exact sum at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from skprivate._messages import unheard
from skprivate.privacy import exact_sum

OTHER_ROWS = "source gave another number of rows than in an earlier pass: it must give the same each time."
#: From a block to integers, a function of each of its rows alone: the sum over any blocks is then the same.
Contribution = Callable[[Any], NDArray[Any]]
#: Keys in ascending order, and how often each occurs.
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
Part = TypeVar("Part")
FloatArray = NDArray[np.float64]


class Partitions(ABC):
    """Rows in blocks.

    A block is what the source gives (a frame, an array), or the result of the functions given to `map`. Subclasses say
    where blocks are; `sum`, `count` and `gather` visit each once.

    Attributes
    ----------
    empty : Any
        A block of the source without rows: names and types, which are public.
    n_rows : int
        Number of rows, by a pass that also applies all functions: errors in them show before anything is spent.

    See Also
    --------
    as_partitions : Converts rows of any kind.
    Blocks, InMemory : Hold rows of a source or array.
    """

    _functions: tuple[Callable[[Any], Any], ...] = ()

    @property
    @abstractmethod
    def empty(self) -> Any:
        """A block of the source without rows."""

    @abstractmethod
    def gather(
        self, part: Callable[..., Part], merge: Callable[[list[Part]], Part], *, beside: Sequence[Any] | None = None
    ) -> Part:
        """Merge parts of all blocks, in one pass.

        Parameters
        ----------
        part : callable
            From a block to sums over its rows, or to what is public of them. It holds public numbers only.
        merge : callable
            From a list of parts, of blocks that follow each other, to the part of them together.
        beside : sequence, optional
            One public object for each block, which ``part`` gets as its second argument.

        Returns
        -------
        object
            A part.

        Raises
        ------
        ValueError, TypeError
            What a function raised for a block; ValueError also if there is no block.
        RuntimeError
            If there are not as many rows as in an earlier pass.
        """

    def sum(self, contribution: Contribution) -> NDArray[Any]:
        """Sum integers exactly over all blocks, in one pass.

        Parameters
        ----------
        contribution : callable
            From a block to an array of integers that is a sum over its rows, of the same shape for all blocks. It
            travels to where the blocks are, so it holds public numbers only.

        Returns
        -------
        ndarray of int64, or of Python integers where int64 does not hold them
        """
        return np.asarray(self.gather(partial(_integers, contribution=contribution), add_parts))

    def count(self, keys: Callable[[Any], Iterable[NDArray[np.int64]]]) -> list[Counts]:
        """Count keys in all blocks: sums over public ranges that are too large for arrays, in one pass.

        Parameters
        ----------
        keys : callable
            From a block to some arrays of integers, as many for all blocks; each integer is a function of one unit
            alone.

        Returns
        -------
        list of (ndarray, ndarray) of int64
            For each of the arrays the keys that occur, in ascending order, and how often.

        Examples
        --------
        >>> import numpy as np
        >>> from skprivate.partitions import Blocks
        >>> Blocks([np.array([[7, 2**60]]), np.array([[7, 7]])]).count(np.transpose)
        [(array([7]), array([2])), (array([                  7, 1152921504606846976]), array([1, 1]))]
        """
        found: list[Counts] = self.gather(partial(_occurrences, keys=keys), _merge_counts)
        return found

    @property
    def empty_block(self) -> Any:
        """A block without rows after the functions given to `map`."""
        return apply_all(self._functions, self.empty)

    def map(self, function: Callable[[Any], Any]) -> Self:
        """Apply a function to every block when it is visited.

        Parameters
        ----------
        function : callable
            From a block to another, of the same rows or of what each unit contributes. It holds public numbers only.

        Returns
        -------
        Partitions
        """
        mapped = copy(self)  # what is known of the rows stays known
        mapped._functions = (*self._functions, function)
        return mapped

    def shuffle(self, place: Callable[[Any], NDArray[np.uint64]]) -> Partitions:
        """Move rows of the same place into one block, in the order of the source.

        `Blocks` write them to a temporary file without a name (`tempfile`), in parts of which one fits into memory.

        Parameters
        ----------
        place : callable
            From a block, a tuple of arrays with one entry a row, to an integer for each row.

        Returns
        -------
        Partitions
            Blocks are tuples of arrays. `close` them.
        """
        del place
        return self  # there is one block only

    def persisted(self) -> Partitions:
        """Keep the blocks with all functions applied, in a temporary file or in the memory of the workers.

        Returns
        -------
        Partitions
            `close` them.
        """
        return self

    def close(self) -> None:  # noqa: B027
        """Close what `shuffle` and `persisted` have written, of these rows and all that come from them."""

    def _check_n_rows(self, n_rows: int) -> None:
        """Refuse another number of rows: costs may rest on a public one, and least squares on equal totals."""
        if self.__dict__.setdefault("_known_n_rows", n_rows) != n_rows:
            raise RuntimeError(OTHER_ROWS)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.sum(block_size)[0])


def apply_all(functions: tuple[Callable[[Any], Any], ...], block: object) -> Any:
    with unheard():  # they may be anybody's
        for function in functions:
            block = function(block)
    return block


def _integers(block: object, contribution: Contribution) -> NDArray[Any]:
    return exact_sum(contribution(block)[..., np.newaxis])


def add_parts(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return exact_sum(np.asarray(part)[..., np.newaxis] for part in parts)


def _occurrences(block: object, keys: Callable[[Any], Iterable[NDArray[np.int64]]]) -> list[Counts]:
    counted = (np.unique(array, return_counts=True) for array in keys(block))
    return [(occupied.astype(np.int64), counts.astype(np.int64)) for occupied, counts in counted]


def _merge_counts(parts: list[list[Counts]]) -> list[Counts]:
    merged = []
    for same in zip(*parts, strict=True):
        keys, counts = (np.concatenate(arrays) for arrays in zip(*same, strict=True))
        occupied, inverse = np.unique(keys, return_inverse=True)
        total = np.zeros(len(occupied), dtype=np.int64)
        np.add.at(total, inverse, counts)
        merged.append((occupied, total))
    return merged


def beside_block(beside: Sequence[Any] | None, number: int) -> tuple[Any, ...]:
    """Select the object beside a block; none or one."""
    if beside is None:
        return ()
    if number >= len(beside):
        raise RuntimeError(OTHER_ROWS)
    return (beside[number],)


def block_size(block: object) -> NDArray[np.int64]:
    """Count the rows of a block, or of the first member of a tuple."""
    first = block[0] if isinstance(block, tuple) else block
    return np.array([len(first)], dtype=np.int64)


class InMemory(Partitions):
    """Rows in one block in memory.

    Parameters
    ----------
    block : Any

    Attributes
    ----------
    block : Any

    See Also
    --------
    Blocks : Reads rows block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.partitions import InMemory
    >>> rows = InMemory(np.array([[0.5], [2.5], [1.5]]))
    >>> rows.map(np.trunc).sum(lambda block: np.bincount(block[:, 0].astype(int)))
    array([1, 1, 1])
    """

    def __init__(self, block: Any) -> None:
        self.block = block

    @property
    def empty(self) -> Any:
        """The block without its rows."""
        return self.block[:0]

    def map(self, function: Callable[[Any], Any]) -> Self:
        return type(self)(function(self.block))

    def gather(
        self, part: Callable[..., Part], merge: Callable[[list[Part]], Part], *, beside: Sequence[Any] | None = None
    ) -> Part:
        return part(self.block, *beside_block(beside, 0))


def linear_rows(X: FloatArray, coef: FloatArray, intercept: FloatArray | float = 0.0) -> FloatArray:
    """Multiply X by coefficients, each row by one fixed sequence of operations.

    A BLAS product may round the same row differently at different positions of a block, so that predictions would
    depend on how rows are cut into blocks. ``coef`` may have several outputs, one a row.
    """
    outputs = np.zeros((1, len(X))) if coef.ndim == 1 else np.zeros((len(coef), len(X)))
    for column, weights in zip(np.ascontiguousarray(X.T), np.atleast_2d(coef).T, strict=True):
        for output, weight in zip(outputs, weights, strict=True):
            output += column * weight
    outputs += np.reshape(intercept, (-1, 1))
    return outputs[0] if coef.ndim == 1 else np.ascontiguousarray(outputs.T)
