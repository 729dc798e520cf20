"""What a mechanism may ask of rows that lie in blocks: one exact sum at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy import exact_sum

#: From a block to integers, a function of each of its rows alone: the sum over any blocks is then the same.
Contribution = Callable[[Any], NDArray[Any]]
Part = TypeVar("Part")


class Partitions(ABC):
    """Rows in blocks.

    A block is whatever the source gives (a frame, an array), or what functions given to `map` have made of it.
    Subclasses say where blocks are; `sum` visits each once.

    Attributes
    ----------
    empty : Any
        A block of the source without rows: names and types, which are public.
    n_rows : int
        Number of rows, by a pass that also applies all functions: errors in them show before anything is spent.
    """

    _functions: tuple[Callable[[Any], Any], ...] = ()

    @property
    @abstractmethod
    def empty(self) -> Any:
        """A block of the source without rows."""

    @abstractmethod
    def sum(self, contribution: Contribution) -> NDArray[Any]:
        """Exact sum of integers over all blocks: one pass.

        Parameters
        ----------
        contribution : callable
            From a block to an array of integers that is a sum over its rows, of the same shape for all blocks. It
            travels to where the blocks are, so it holds public numbers only.

        Returns
        -------
        ndarray of int64, or of Python integers where int64 does not hold them
        """

    @abstractmethod
    def gather(self, part: Callable[[Any], Part], merge: Callable[[Sequence[Part]], Part]) -> Part:
        """What the blocks give together where no array holds it, such as sums in cells of a huge grid: one pass.

        Parameters
        ----------
        part : callable
            From a block to sums over its rows, or to rows of it that are public. It holds public numbers only.
        merge : callable
            From parts of neighbouring blocks, in their order, to one part. It raises nothing.

        Returns
        -------
        object
            A part.
        """

    def filter(self, function: Callable[[Any], Any]) -> Self:
        """Those rows that ``function`` leaves of every block, when it is visited.

        Parameters
        ----------
        function : callable
            From a block to some of its rows, in the same columns. It holds public numbers only.

        Returns
        -------
        Partitions
        """
        kept = self.map(function)
        kept.__dict__.pop("n_rows", None)  # it was that of all rows
        return kept

    def map(self, function: Callable[[Any], Any]) -> Self:
        """The same rows with ``function`` applied to every block when it is visited.

        Parameters
        ----------
        function : callable
            From a block to one of as many rows. It holds public numbers only.

        Returns
        -------
        Partitions
        """
        mapped = copy(self)  # what is known of the rows stays known
        mapped._functions = (*self._functions, function)
        return mapped

    def _check_found(self, found: int) -> None:
        """Refuse another number of rows: prices may rest on a public one, and least squares on equal totals."""
        if self.__dict__.setdefault("_found", found) != found:
            raise RuntimeError(
                "source gave another number of rows than in an earlier pass: it must give the same each time."
            )

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.sum(block_size)[0])


def contribute(
    block: Any, functions: tuple[Callable[[Any], Any], ...], contribution: Contribution
) -> NDArray[Any]:
    """The contribution of what the functions make of a block, with one more axis, along which blocks are added."""
    return contribution(apply(functions, block))[..., np.newaxis]


def apply(functions: tuple[Callable[[Any], Any], ...], block: Any) -> Any:
    """What the functions make of a block, one after the other."""
    for function in functions:
        block = function(block)
    return block


def block_size(block: Any) -> NDArray[np.int64]:
    """Number of rows of a block, or of the first member of a tuple."""
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

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.partitions import InMemory
    >>> rows = InMemory(np.array([[0.5], [2.5], [1.5]]))
    >>> rows.map(np.trunc).sum(lambda block: np.bincount(block[:, 0].astype(int)))
    array([1, 1, 1])
    """

    def __init__(self, block: Any) -> None:
        self._block = block

    @property
    def block(self) -> Any:
        """The one block."""
        return self._block

    @property
    def empty(self) -> Any:
        """The block without its rows."""
        return self._block[:0]

    def map(self, function: Callable[[Any], Any]) -> Self:
        """The rows with ``function`` applied, at once.

        Parameters
        ----------
        function : callable

        Returns
        -------
        InMemory
        """
        return type(self)(function(self._block))

    def sum(self, contribution: Contribution) -> NDArray[Any]:
        """The contribution of the one block.

        Parameters
        ----------
        contribution : callable

        Returns
        -------
        ndarray
        """
        return exact_sum([contribute(self._block, (), contribution)])

    def gather(self, part: Callable[[Any], Part], merge: Callable[[Sequence[Part]], Part]) -> Part:
        """The part of the one block.

        Parameters
        ----------
        part, merge : callable

        Returns
        -------
        object
        """
        return part(self._block)


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
        from skprivate.partitions._dask import DaskPartitions

        return DaskPartitions.of(X)
    from skprivate.partitions._blocks import Blocks

    return Blocks.from_arrow(X)
