"""A secret sample of rows: enough to find centres and scales, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import InMemory, Partitions
from skprivate.privacy import public_generator
from skprivate.user_level._problems import UserData, UserGroups

IntArray = npt.NDArray[np.int64]


class Sample(Partitions):
    """A simple random sample of ``n_sample`` rows of the source, however it is cut into blocks.

    The seed is drawn without the data and published nowhere. Two tables that differ in one row, in any order, have
    samples that differ in one row at most, if each place of the one is matched with the place of its row in the other.
    Each row is its own user.
    """

    def __init__(self, rows: Partitions, n_rows: int, n_sample: int, seed: int) -> None:
        self.rows, self._places = rows, places(n_rows, n_sample, seed)
        sizes = rows.gather(_size, np.concatenate)
        self._firsts = (np.cumsum(sizes) - sizes).tolist()

    @property
    def empty(self) -> Any:
        return self.rows.empty_block

    def gather(
        self, part: Callable[..., Any], merge: Callable[[list[Any]], Any], *, beside: Sequence[Any] | None = None
    ) -> Any:
        assert beside is None
        form = _Part(self._places, self._functions, part)
        return self.rows.gather(form, merge, beside=self._firsts)


class _Part:
    """A part of the rows of a block at some of the places."""

    def __init__(self, places: IntArray, functions: tuple[Callable[[Any], Any], ...], part: Callable[..., Any]) -> None:
        self.places, self.functions, self.part = places, functions, part

    def __call__(self, data: UserData, first: int) -> Any:
        block: Any = rows_at(data, self.places, first)
        for function in self.functions:
            block = function(block)
        return self.part(block)


def sample_rows(rows: Partitions, n_rows: int, n_sample: int, seed: int) -> Partitions:
    """Take a simple random sample of the rows, or all."""
    if n_sample >= n_rows:
        return rows
    if isinstance(rows, InMemory):
        return InMemory(rows_at(rows.block, places(n_rows, n_sample, seed), 0))
    return Sample(rows, n_rows, n_sample, seed)


def places(n_rows: int, n_sample: int, seed: int) -> IntArray:
    """Draw places of rows without replacement, in order; all sets of them are equally likely."""
    drawn = public_generator(seed).choice(n_rows, n_sample, replace=False, shuffle=False)
    return np.sort(drawn.astype(np.int64))


def rows_at(data: UserData, places: IntArray, first: int) -> UserData:
    """Take the rows of a block that are at places of the source, where its first row has number ``first``."""
    low, high = np.searchsorted(places, [first, first + len(data)])
    index = places[low:high] - first
    own = np.arange(len(index))
    return UserData(np.asfortranarray(data.X[index]), data.y[index], UserGroups(own), own)


def _size(data: UserData) -> IntArray:
    return np.array([len(data)], dtype=np.int64)
