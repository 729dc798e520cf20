"""Sums of numbers without noise that do not depend on the order of the rows: each number is three integers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._labels import Bounds
from skprivate.aggregate._losses import FloatArray
from skprivate.partitions import Partitions
from skprivate.privacy import exact_sum

#: Bits of each integer, and integers of a number: what is below 2⁻⁹⁰ of the largest one is left out.
_BITS, _PARTS = 30, 3
#: Of zeros, in 0 = 0·2ᵉ.
_LEAST_EXPONENT = -1100


def exact_number_sums(
    rows: Partitions, bags: Any, n_outputs: int, bounds: Bounds | None, *, with_squares: bool
) -> tuple[FloatArray, float | None]:
    """Sums (n_bags, n_outputs) of numbers, clipped to an interval if there is one, and that of all squares.

    Parameters
    ----------
    rows : Partitions
        Blocks are `Labelled`.
    bags : LabelBags
    n_outputs : int
    bounds : (float, float) or None
    with_squares : bool
    """
    exponent = rows.gather(partial(_exponent, bounds=bounds), max)
    known = {"bounds": bounds, "exponent": exponent}
    further = partial(_split_squares, **known) if with_squares else None
    found = bags.add_up(rows, partial(_split, **known), further)
    size = bags.n_bags * n_outputs * _PARTS
    sums = _join(found[:size].reshape(bags.n_bags, -1), exponent)
    return sums, float(_join(found[size:], 2 * exponent)[0]) if with_squares else None


def _exponent(block: Any, *, bounds: Bounds | None) -> int:
    """e such that all numbers are below 2ᵉ."""
    largest = float(np.max(np.abs(_clipped(block.targets, bounds)), initial=0.0))
    return int(math.frexp(largest)[1]) if largest else _LEAST_EXPONENT


def _clipped(numbers: NDArray[Any], bounds: Bounds | None) -> FloatArray:
    floats: FloatArray = numbers.astype(np.float64)
    return floats if bounds is None else np.clip(floats, *bounds)


def _split(block: Any, *, bounds: Bounds | None, exponent: int) -> FloatArray:
    return _integers(np.ldexp(_clipped(block.targets, bounds), -exponent))


def _split_squares(block: Any, _: FloatArray, *, bounds: Bounds | None, exponent: int) -> NDArray[np.int64]:
    scaled = np.ldexp(_clipped(block.targets, bounds), -exponent)
    return exact_sum(_integers(scaled * scaled).astype(np.int64))


def _integers(numbers: FloatArray) -> FloatArray:
    """Integers of numbers (n_outputs, n_rows) in (-1, 1), of shape (3·n_outputs, n_rows)."""
    parts = []
    for _ in range(_PARTS):
        scaled = numbers * (1 << _BITS)
        whole = np.trunc(scaled)
        parts.append(whole)
        numbers = scaled - whole
    return np.concatenate(parts)


def _join(sums: NDArray[Any], exponent: int) -> FloatArray:
    """Sums of numbers from those of their integers, along the last axis."""
    total: Any = 0.0
    for part in reversed(np.split(sums.astype(np.float64), _PARTS, axis=-1)):
        total = (total + part) / (1 << _BITS)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(total, exponent))
