"""A secret sample of users: enough to find centres and scales, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import InMemory, Partitions
from skprivate.privacy import identifier_tags, mix_tags, public_generator
from skprivate.user_level._problems import UserData

IntArray = npt.NDArray[np.int64]


class Sample(Partitions):
    """The users at some places of the source, in order, however it is cut into blocks."""

    def __init__(self, rows: Partitions, places: IntArray) -> None:
        self.rows, self._places = rows, places
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
    """A part of the users of a block at some of the places."""

    def __init__(self, places: IntArray, functions: tuple[Callable[[Any], Any], ...], part: Callable[..., Any]) -> None:
        self.places, self.functions, self.part = places, functions, part

    def __call__(self, data: UserData, first: int) -> Any:
        block: Any = users_at(data, self.places, first)
        for function in self.functions:
            block = function(block)
        return self.part(block)


def sampled(rows: Partitions, places: IntArray) -> Partitions:
    """Take the users at these places."""
    return InMemory(users_at(rows.block, places, 0)) if isinstance(rows, InMemory) else Sample(rows, places)


def row_places(n_rows: int, n_sample: int, seed: int) -> IntArray:
    """Draw places of rows, each its own user, without replacement; all sets of them are equally likely.

    Two tables that differ in one row, in any order, have samples that differ in one row at most, if each place of the
    one is matched with the place of its row in the other.
    """
    drawn = public_generator(seed).choice(n_rows, n_sample, replace=False, shuffle=False)
    return np.sort(drawn.astype(np.int64))


def user_places(rows: Partitions, n_sample: int, seed: int) -> IntArray:
    """Find the users whose keyed hashes are least, wherever their rows are.

    Whatever the key, an exchange of one user exchanges one of the least at most: ties are broken by identifiers.
    """
    tags = rows.gather(_tags, np.concatenate)
    hashes = mix_tags(tags, seed)
    users = np.flatnonzero(hashes <= np.partition(hashes, n_sample - 1)[n_sample - 1])
    return np.sort(users[np.lexsort((*tags[users].T, hashes[users]))[:n_sample]])


def users_at(data: UserData, places: IntArray, first: int) -> UserData:
    """Take the users at places of the source, where the first of the block has number ``first``."""
    low, high = np.searchsorted(places, [first, first + data.groups.n_users])
    return data.subset(places[low:high] - first)


def _size(data: UserData) -> IntArray:
    return np.array([data.groups.n_users], dtype=np.int64)


def _tags(data: UserData) -> npt.NDArray[np.uint64]:
    return identifier_tags(data.names) if data.names.ndim == 1 else data.names
