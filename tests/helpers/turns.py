"""Which cells of a large test a run takes: as many as are asked for, as various as they can be, others in each turn."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator

#: Of n shares of the cells a run takes so many: the first with the fast tests, the others with the slow ones.
SHARES = 3


def fast_and_slow(cells: dict[str, dict[str, Any]], n: int, turn: int = 0) -> tuple[set[str], set[str]]:
    """Choose a share of 1/n of the cells for the fast run, and twice as many for the slow one.

    Parameters
    ----------
    cells : dict of str to dict
        Parameters of each cell, by its name.
    n : int
    turn : int, default=0
        Each turn takes other cells, until all had theirs: after n/3 turns, rounded up.

    Returns
    -------
    fast, slow : set of str
        In turn 0 the fast cells show as many values of all parameters as so many cells can.
    """
    order = list(_by_variety(cells))
    shares = [order[len(order) * k // n : len(order) * (k + 1) // n] for k in range(n)]
    if 0 < len(order) < n:  # no turn without a cell
        shares = [[order[k % len(order)]] for k in range(n)]
    first = SHARES * (turn % -(-n // SHARES))
    fast, *slow = shares[first : first + SHARES]
    return set(fast), set().union(*slow) - set(fast)


def _by_variety(cells: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Order names by chance, but first those that show a value which none before them has; so again with the others."""
    names = sorted(cells, key=lambda name: zlib.crc32(name.encode()))
    while names:
        seen: set[Hashable] = set()
        others = []
        for name in names:
            values = {(argument, _value(value)) for argument, value in cells[name].items()}
            if values <= seen:
                others.append(name)
            else:
                seen |= values
                yield name
        names = others


def _value(value: Any) -> str:
    """What tells two values of a parameter apart: the check, not its bound estimator; an estimator's class."""
    if isinstance(value, partial):
        return value.func.__name__
    return type(value).__name__ if isinstance(value, BaseEstimator) else repr(value)
