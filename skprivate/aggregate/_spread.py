"""Distinct numbers of a public column with how often each occurs, coarser where there are too many to hold.

What is found from it is exact: cells that hold a wanted number are looked at again, in one more pass over the rows.
Numbers are ordered as unsigned integers, their keys; a cell of width w is 2ʷ keys. The width is the least that leaves
so many cells as may be held, a function of the numbers alone: any blocks, put together in any order, give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Cells of a column that are held at a time.
MOST_CELLS = 1 << 16
_SIGN = np.uint64(1 << 63)

KeyArray = NDArray[np.uint64]
Interval = tuple[KeyArray, KeyArray]


@dataclass(frozen=True, eq=False)
class Spread:
    """How numbers are spread.

    Parameters
    ----------
    keys : ndarray of uint64, shape (n_cells,)
        Lowest key of each cell, increasing.
    counts : ndarray of int64, shape (n_cells,)
    widths : ndarray of uint8, shape (n_cells,)
        Logarithm of the number of keys of each cell to base 2; 0 is a single number.
    """

    keys: KeyArray
    counts: NDArray[np.int64]
    widths: NDArray[np.uint8]

    @classmethod
    def of(cls, numbers: NDArray[np.float64], within: Interval | None = None) -> Spread:
        """Of the finite ones of some numbers, of all or of those in ``within``: first and last keys of intervals."""
        # -0.0 is 0.0.
        bits = (numbers[np.isfinite(numbers)] + 0.0).view(np.uint64)
        keys = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        if within is not None:
            place = np.searchsorted(within[0], keys, side="right") - 1
            keys = keys[(place >= 0) & (keys <= within[1][place])]
        keys, counts = np.unique(keys, return_counts=True)
        return cls(keys, counts.astype(np.int64), np.zeros(keys.size, dtype=np.uint8))

    def at_most(self, most: int) -> Spread:
        """The same in no more than so many cells, all of one width; that of its cells is one width already."""
        keys, counts = self.keys, self.counts
        width = int(self.widths.max(initial=0))
        if keys.size > most:
            # Neighbours are in one cell if they differ in its lowest bits only: so many of them may differ in others.
            apart = keys[1:] ^ keys[:-1]
            width = int(np.partition(apart, apart.size - most)[apart.size - most]).bit_length()
            keys, counts = _merged(keys, counts, width)
        return Spread(keys, counts, np.full(keys.size, width, dtype=np.uint8))

    @staticmethod
    def together(parts: Sequence[Spread], most: int) -> Spread:
        """Of the numbers of all parts."""
        width = max(int(part.widths.max(initial=0)) for part in parts)
        keys = np.concatenate([part.keys for part in parts])
        order = np.argsort(keys, kind="stable")
        counts = np.concatenate([part.counts for part in parts])[order]
        keys, counts = _merged(keys[order], counts, width)
        return Spread(keys, counts, np.full(keys.size, width, dtype=np.uint8)).at_most(most)

    def cells(self, which: NDArray[np.bool_]) -> Interval:
        """First and last keys of some cells."""
        first = self.keys[which]
        return first, first | ((np.uint64(1) << self.widths[which].astype(np.uint64)) - np.uint64(1))

    def refined(self, which: NDArray[np.bool_], finer: Spread) -> Spread:
        """With what was found in some cells in their place."""
        joined = [
            np.concatenate([old[~which], new])
            for old, new in (
                (self.keys, finer.keys),
                (self.counts, finer.counts),
                (self.widths, finer.widths),
            )
        ]
        order = np.argsort(joined[0], kind="stable")
        return Spread(*(one[order] for one in joined))

    def edges(self, n_bins: int) -> tuple[float, ...] | NDArray[np.bool_]:
        """Where to cut the numbers into about ``n_bins`` bins, or the cells to look at again first.

        Distinct numbers are cut between each other if there are at most ``n_bins``. Else each number that at least one
        in ``n_bins`` rows has is a bin of its own, and the others are cut at their quantiles.
        """
        n = self.keys.size
        if n <= 1 and not self.widths.any():
            return ()
        if n <= n_bins and not self.widths.any():
            distinct = _numbers(self.keys)
            # Halving first keeps the midpoint of two huge numbers finite. That of neighbours may be the lower one.
            middle = distinct[1:] / 2 + distinct[:-1] / 2
            return tuple(np.where(middle > distinct[:-1], middle, distinct[1:]).tolist())
        # A number of many rows is a bin of its own: quantiles alone put a column that is mostly zero into one bin.
        heavy: NDArray[np.bool_] = self.counts * n_bins >= self.counts.sum()
        unclear: NDArray[np.bool_] = heavy & (self.widths > 0)
        if unclear.any():
            return unclear
        wanted = heavy.copy()
        wanted[1:] |= heavy[:-1]
        others = np.cumsum(np.where(heavy, 0, self.counts))
        if others[-1]:
            n_cuts = max(n_bins - int(heavy.sum()), n_bins // 2)
            ranks = np.floor((others[-1] - 1) * np.linspace(0, 1, n_cuts + 1)[1:-1]).astype(np.int64)
            wanted[np.searchsorted(others, ranks, side="right")] = True
        unclear = wanted & (self.widths > 0)
        if unclear.any():
            return unclear
        # An edge at the least number would leave the first bin empty.
        wanted[0] = False
        return tuple(_numbers(self.keys[wanted]).tolist())


def _merged(keys: KeyArray, counts: NDArray[np.int64], width: int) -> tuple[KeyArray, NDArray[np.int64]]:
    """Cells of one width from sorted keys."""
    if keys.size == 0:
        return keys, counts
    coarse = keys & ~((np.uint64(1) << np.uint64(width)) - np.uint64(1))
    first = np.flatnonzero(np.append(True, coarse[1:] != coarse[:-1]))
    return coarse[first], np.add.reduceat(counts, first)


def _numbers(keys: KeyArray) -> NDArray[np.float64]:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
