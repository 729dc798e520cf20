"""Which cells of a long test the fast run takes: every value of every parameter, and as many cells as are asked for."""

from __future__ import annotations

import zlib
from functools import partial

from sklearn.base import BaseEstimator


def fast_cells(cells, n):
    """Names of about one in n cells.

    Parameters
    ----------
    cells : dict of str to dict
        Parameters of each cell, by its name.
    n : int

    Returns
    -------
    kept : set of str
        In an order that has nothing to do with the grid's: first those that have a value that no other has shown, then
        any, up to a share of 1/n. More, if values are many.
    """
    order = sorted(cells, key=lambda name: zlib.crc32(name.encode()))
    kept, seen = [], set()
    for name in order:
        values = {(argument, _value(value)) for argument, value in cells[name].items()}
        if not values <= seen:
            kept.append(name)
            seen |= values
    others = (name for name in order if name not in set(kept))
    return {*kept, *(name for name, _ in zip(others, range(len(cells) // n - len(kept)), strict=False))}


def _value(value):
    """What tells two values of a parameter apart: the check, not its bound estimator; an estimator's class."""
    if isinstance(value, partial):
        return value.func.__name__
    return type(value).__name__ if isinstance(value, BaseEstimator) else repr(value)
