"""Which directions from a point are equal, and which comes first, where float64 cannot tell.

Every float64 is an integer in units of a small enough power of two, and a power of two per column moves no point to
another side of any line. So ``turn(a, b) = a_x b_y − a_y b_x`` of two differences is an integer below a known bound:
its residues modulo a few numbers without common factors, whose product exceeds twice that bound, determine it. They
cost a few int64 products for whole arrays at a time. All residues are zero exactly if the directions are equal; else
the digits of the integer in the mixed base of the moduli give its sign and its leading 53 bits.
"""

from __future__ import annotations

import math
from functools import cached_property, cmp_to_key
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Turns", "power_of_two_scale"]

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Relative error of a direction's key in `Turns.order`, which is below 1e-15, with room.
_SURE = 1e-13
#: Up to so many bits in a coordinate, products of four of them are far from the ends of float64's range.
_MOST_BITS = 240


def power_of_two_scale(points: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Points with the columns' largest magnitudes in [½, 1), exactly, and the exponents that were taken away.

    Raises
    ------
    ValueError
        If a column holds magnitudes so far apart that no power of two keeps all of their digits.
    """
    exponents = np.frexp(np.abs(points).max(axis=0, initial=0.0))[1].astype(np.intp)
    scaled = np.ldexp(points, -exponents) + 0.0  # no negative zeros
    if not (np.ldexp(scaled, exponents) == points).all():
        raise ValueError(
            "X must have columns whose largest magnitude and smallest digit are within a factor of 2**1074 of each "
            "other; beyond it float64 cannot hold their differences. Round or transform the columns."
        )
    return scaled, exponents


class Turns:
    """Exact comparisons of directions between points of the plane.

    Parameters
    ----------
    points : array of shape (n, 2)
        As `power_of_two_scale` returns them.
    """

    def __init__(self, points: Array) -> None:
        self._points = points
        ratios = [value.as_integer_ratio() for value in points.T.ravel().tolist()]
        n, columns = len(points), []
        for column in (ratios[:n], ratios[n:]):
            unit = max(denominator for _, denominator in column)
            columns.append([numerator * (unit // denominator) for numerator, denominator in column])
        self._columns = columns
        self._bits = [max(abs(value).bit_length() for value in column) for column in columns]

    @cached_property
    def _moduli(self) -> list[int]:
        # A difference has a bit more than a coordinate, two products another one, and the sign one.
        needed = sum(self._bits) + 4
        found: list[int] = []
        candidate = 2**31 - 1
        while math.prod(found) < 2**needed:
            if all(math.gcd(candidate, modulus) == 1 for modulus in found):
                found.append(candidate)
            candidate -= 2
        return found

    @cached_property
    def _residues(self) -> list[Ints]:
        columns = [np.array(column, dtype=object) for column in self._columns]
        return [np.column_stack([c % m for c in columns]).astype(np.int64) for m in self._moduli]

    def _turns(self, pivot: Any, one: Any, other: Any) -> list[Ints]:
        """Residues of ``turn(one − pivot, other − pivot)``."""
        found = []
        for residues, modulus in zip(self._residues, self._moduli, strict=True):
            start = residues[pivot]
            a, b = residues[one] - start, residues[other] - start
            found.append((a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]) % modulus)
        return found

    def aligned(self, pivot: Any, one: Any, other: Any) -> npt.NDArray[np.bool_]:
        """Whether two points lie on one line with the pivot; indices of one shape."""
        result = np.ones(np.shape(one), dtype=bool)
        for residue in self._turns(pivot, one, other):
            result &= residue == 0
        return result

    def order(self, pivot: Any, point: Any, above: Any, run: Any) -> tuple[Any, npt.NDArray[np.bool_]]:
        """Order the members of runs of almost equal directions by their directions modulo π.

        Parameters
        ----------
        pivot, point : int arrays of shape (k,)
        above : bool array of shape (k,)
            Whether the point itself lies above the pivot or its mirror image does.
        run : int array of shape (k,)
            Number of the run, not falling.

        Returns
        -------
        order : int array of shape (k,)
            Runs stay where they are.
        together : bool array of shape (k − 1,)
            Whether the entries k and k + 1 of the result have equal directions.
        """
        starts = np.flatnonzero(np.diff(run, prepend=run[0] - 1))
        first = np.repeat(starts, np.diff(starts, append=run.size))
        if max(self._bits) <= _MOST_BITS:
            sign = np.where(above, 1.0, -1.0)
            away = (self._points[point] - self._points[pivot]) * sign[:, None]
            # The tangent of the angle from the first of the run, up to one factor for all of it.
            turned = sign * sign[first] * self._leading(self._turns(pivot, point[first], point))
            key = turned / (away[first] * away).sum(axis=1)
        else:
            key = np.zeros(run.size)
        order = np.lexsort((key, run))
        key = key[order]
        close = np.diff(key) <= _SURE * np.maximum(np.abs(key[1:]), np.abs(key[:-1]))
        close &= np.diff(run) == 0
        self._by_hand(order, close, pivot, point, above)
        place, after = order[:-1], order[1:]
        return order, close & self.aligned(pivot[place], point[place], point[after])

    def _leading(self, residues: list[Ints]) -> Array:
        """The integers with these residues, over the product of the moduli."""
        digits: list[Ints] = []
        for residue, modulus in zip(residues, self._moduli, strict=True):
            for digit, earlier in zip(digits, self._moduli, strict=False):
                residue = (residue - digit) % modulus * pow(earlier, -1, modulus) % modulus
            digits.append(np.where(residue > modulus // 2, residue - modulus, residue))
        value = np.zeros(residues[0].shape)
        for digit, modulus in zip(digits, self._moduli, strict=True):
            value = (value + digit) / modulus
        return value

    def _by_hand(self, order: Any, close: Any, pivot: Any, point: Any, above: Any) -> None:
        """Sort, in Python's integers, what lies close together and is not all on one line."""
        place, after = order[:-1], order[1:]
        wrong = close.copy()
        wrong[close] = ~self.aligned(pivot[place[close]], point[place[close]], point[after[close]])
        if not wrong.any():
            return
        xs, ys = self._columns

        def turn(one: int, other: int) -> int:
            p, a, b = int(pivot[one]), int(point[one]), int(point[other])
            value = (xs[a] - xs[p]) * (ys[b] - ys[p]) - (ys[a] - ys[p]) * (xs[b] - xs[p])
            value = value if above[one] == above[other] else -value
            return -1 if value > 0 else int(value < 0)

        edges = np.flatnonzero(np.diff(close.astype(np.int8), prepend=0, append=0))
        for start, stop in edges.reshape(-1, 2):
            if wrong[start:stop].any():
                members = slice(start, stop + 1)
                order[members] = sorted(order[members].tolist(), key=cmp_to_key(turn))
