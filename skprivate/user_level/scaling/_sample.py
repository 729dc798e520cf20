"""Rows at public places: enough to find centres and scales, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import InMemory, Partitions
from skprivate.user_level._problems import UserData, UserGroups

IntArray = npt.NDArray[np.int64]


class Sample(Partitions):
    """``n_sample`` of the rows, one of each of as many stretches of the source, however it is cut into blocks.

    Exchanging a row in its place exchanges one of the sample at most. Each row is its own user.
    """

    def __init__(self, rows: Partitions, n_rows: int, n_sample: int) -> None:
        self.rows, self._places = rows, places(n_rows, n_sample)
        sizes = rows.gather(_size, np.concatenate)
        self._firsts = (np.cumsum(sizes) - sizes).tolist()

    @property
    def empty(self) -> Any:
        return self.rows.empty_block

    def gather(
        self,
        part: Callable[..., Any],
        merge: Callable[[list[Any]], Any],
        *,
        beside: Sequence[Any] | None = None,
    ) -> Any:
        assert beside is None
        form = _Part(self._places, self._functions, part)
        return self.rows.gather(form, merge, beside=self._firsts)


class _Part:
    """A part of the rows of a block at some of the places."""

    def __init__(
        self, places: IntArray, functions: tuple[Callable[[Any], Any], ...], part: Callable[..., Any]
    ) -> None:
        self.places, self.functions, self.part = places, functions, part

    def __call__(self, data: UserData, first: int) -> Any:
        block: Any = rows_at(data, self.places, first)
        for function in self.functions:
            block = function(block)
        return self.part(block)


def sample_rows(rows: Partitions, n_rows: int, n_sample: int) -> Partitions:
    """Take rows at public places, or all."""
    if n_sample >= n_rows:
        return rows
    if isinstance(rows, InMemory):
        return InMemory(rows_at(rows.block, places(n_rows, n_sample), 0))
    return Sample(rows, n_rows, n_sample)


def places(n_rows: int, n_sample: int) -> IntArray:
    """Choose a place in each stretch by a fixed mixing function, so that no period of the rows is met."""
    first = np.arange(n_sample, dtype=np.int64) * n_rows // n_sample
    mixed = np.arange(1, n_sample + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    return first + (mixed % np.uint64(n_rows // n_sample)).astype(np.int64)


def rows_at(data: UserData, places: IntArray, first: int) -> UserData:
    """Take the rows of a block that are at places of the source, where its first row has number ``first``."""
    low, high = np.searchsorted(places, [first, first + len(data)])
    index = places[low:high] - first
    own = np.arange(len(index))
    return UserData(np.asfortranarray(data.X[index]), data.y[index], UserGroups(own), own)


def _size(data: UserData) -> IntArray:
    return np.array([len(data)], dtype=np.int64)
