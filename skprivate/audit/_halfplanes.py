"""The largest sum over a half-plane, exactly: a line that turns about every point.

Any half-plane can be moved, without changing which points it holds, until a point lies on its boundary, and turned
about that point until another does. So all half-planes are met by turning a line about each point in turn. While it
turns by π, every other point changes sides once, at its direction from the pivot modulo π; the sums over one side are
therefore cumulative sums in the order of these directions. The order depends on the points alone: it is found once, and
each vector of masses then costs n² additions.

Points on one line through the pivot change sides together. That two directions are equal is decided in integers
(every float64 is one, in units of a small enough power of two) where float64 cannot tell them apart.
"""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["TurningLine"]

Array = npt.NDArray[np.float64]

#: Directions are compared as 1 − cos/(|cos| + sin), which float64 gets wrong by less than 1e-15.
_SURE = 1e-14
#: Pivots at a time.
_BLOCK = 256


class TurningLine:
    """Orders of all points around each of them.

    Parameters
    ----------
    points : array of shape (n, 2)
        Differences must be finite.
    """

    def __init__(self, points: Array) -> None:
        self.points, self._inverse = np.unique(points, axis=0, return_inverse=True)
        m = len(self.points)
        # Entry k of a row: the point that is passed k-th, plus m if it lies above the pivot.
        self._passed = np.empty((m, max(m - 1, 0)), dtype=np.int32)
        self._together = np.zeros((m, max(m - 2, 0)), dtype=bool)  # entry k: ranks k and k + 1 on one line
        self._exact: npt.NDArray[Any] | None = None
        for pivot in range(m if m > 1 else 0):
            order, above, angles = self._around(pivot)
            near = np.flatnonzero(np.diff(angles) <= _SURE)
            if near.size:
                self._settle(pivot, order, above, near)
            self._passed[pivot] = order + m * above

    def _around(self, pivot: int) -> tuple[Any, Any, Array]:
        """The other points in the order of their directions modulo π, whether they lie above, and the directions."""
        dx, dy = (self.points - self.points[pivot]).T
        above = (dy > 0.0) | ((dy == 0.0) & (dx > 0.0))
        sign = np.where(above, 1.0, -1.0)
        dx, dy = sign * dx, sign * dy
        with np.errstate(invalid="ignore"):
            angles = 1.0 - dx / (np.abs(dx) + dy)  # rises from 0 to 2 as the direction turns by π
        angles[pivot] = -1.0
        rank = np.argsort(angles)[1:]
        return rank, above[rank], angles[rank]

    def _settle(self, pivot: int, order: Any, above: Any, near: Any) -> None:
        """Compare directions that float64 cannot tell apart, in integers."""
        if self._exact is None:
            self._exact = _integers(self.points)
        sign = np.where(above, 1, -1).astype(object)[:, None]
        touched = np.unique(np.concatenate([near, near + 1]))
        vectors: npt.NDArray[Any] = np.zeros((order.size, 2), dtype=object)
        vectors[touched] = (self._exact[order[touched]] - self._exact[pivot]) * sign[touched]

        def turn(one: Any, other: Any) -> Any:
            return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]

        def earlier(one: int, other: int) -> int:
            return -1 if turn(vectors[one], vectors[other]) > 0 else 1

        turns: Any = turn(vectors[near], vectors[near + 1])
        if (turns < 0).any():
            for run in np.split(touched, np.flatnonzero(np.diff(touched) > 1) + 1):
                places = sorted(run.tolist(), key=cmp_to_key(earlier))
                order[run], above[run], vectors[run] = order[places], above[places], vectors[places]
            turns = turn(vectors[near], vectors[near + 1])
        self._together[pivot, near] = turns == 0

    def largest(self, r: Array) -> tuple[float, float, Array]:
        """Largest ``|Σ_{i in half-plane} r_i|``.

        Parameters
        ----------
        r : array of shape (n,)
            Signed masses.

        Returns
        -------
        value : float
            What the best half-plane holds, as computed.
        upper : float
            No half-plane does better: ``value`` and the rounding of its sums.
        direction : array of shape (2,)
            A normal of the best half-plane; where directions are denser than float64, one near to it.
        """
        weights = np.bincount(self._inverse.ravel(), weights=r, minlength=len(self.points))
        total, m = float(weights.sum()), len(self.points)
        best, place = abs(total), (0, -1)
        passed = np.concatenate([weights, -weights])
        for start in range(0, m if m > 1 else 0, _BLOCK):
            block = slice(start, min(start + _BLOCK, m))
            sums = np.cumsum(passed[self._passed[block]], axis=1)
            # On the left of the line before it turns: the points above. Passing one of them takes it away.
            pivot = weights[block]
            side = 0.5 * (total - pivot - sums[:, -1])
            sums += side[:, None]
            together = self._together[block]
            if together.any():  # halfway through a line there is no half-plane
                np.copyto(sums[:, :-1], side[:, None], where=together)
            highest, lowest = sums.max(axis=1), sums.min(axis=1)
            high, low = highest + np.maximum(pivot, 0.0), lowest + np.minimum(pivot, 0.0)
            # With the complements: sums from total − high to total − low.
            extent = np.maximum(np.maximum(high, -low), np.maximum(high - total, total - low))
            row = int(np.argmax(extent))
            if extent[row] > best:
                best = float(extent[row])
                up = max(high[row], high[row] - total) == best
                place = start + row, int(np.argmax(sums[row]) if up else np.argmin(sums[row]))
        upper = best + 4.0 * m * 2.0**-53 * float(np.abs(weights).sum())
        return best, upper, self._normal(*place)

    def _normal(self, pivot: int, rank: int) -> Array:
        """Normal of a line through the pivot, turned past the points up to ``rank`` and no further."""
        if rank < 0:
            return np.array([1.0, 0.0])
        if rank < self._together.shape[1] and self._together[pivot, rank]:
            rank = (
                self._passed.shape[1] - 1
            )  # it stands for the line that has not turned: the complement of all passed
        passed = self._passed[pivot]
        above, order = passed >= len(self.points), passed % len(self.points)
        ends = [rank, rank + 1 if rank + 1 < order.size else 0]
        towards = np.where(above[ends], 1.0, -1.0)[:, None] * (self.points[order[ends]] - self.points[pivot])
        one, other = towards / np.abs(towards).max(axis=1, keepdims=True)
        if ends[1] == 0:
            other = -other
        along = one / math.hypot(*one) + other / math.hypot(*other)
        return np.array([-along[1], along[0]]) if along.any() else one


def _integers(points: Array) -> npt.NDArray[Any]:
    """The same points times one power of two that makes all coordinates integers."""
    ratios = [value.as_integer_ratio() for value in points.ravel().tolist()]
    scale = max(denominator for _, denominator in ratios)
    values = [numerator * (scale // denominator) for numerator, denominator in ratios]
    return np.array(values, dtype=object).reshape(points.shape)
