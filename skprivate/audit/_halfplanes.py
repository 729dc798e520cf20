"""The largest sum over a half-plane, exactly: a line that turns about every point.

Any half-plane can be moved, without changing which points it holds, until a point lies on its boundary, and turned
about that point until another does. So all half-planes are met by turning a line about each point in turn. While it
turns by π, every other point changes sides once, at its direction from the pivot modulo π; the sums over one side are
therefore cumulative sums in the order of these directions. The order depends on the points alone: it is found once, and
each vector of masses then costs n² additions.

Points on one line through the pivot change sides together: `Turns` decides exactly which do, where float64 cannot tell.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.audit._collinear import Turns, power_of_two_scale

__all__ = ["TurningLine"]

Array = npt.NDArray[np.float64]

#: Directions are compared as 1 − cos/(|cos| + sin), which float64 gets wrong by less than 1e-15.
_SURE = 1e-14
#: Entries of a block of pivots, for the processor's cache.
_BLOCK = 2**17
#: Up to so many points orders are kept as what arrays are indexed by, which is twice as long and twice as fast.
_FAST = 2000


class TurningLine:
    """Orders of all points around each of them.

    Parameters
    ----------
    points : array of shape (n, 2)
        Finite, with columns that `power_of_two_scale` takes.
    """

    def __init__(self, points: Array) -> None:
        scaled, self._exponents = power_of_two_scale(points)
        self.points, self._inverse = np.unique(scaled, axis=0, return_inverse=True)
        m = len(self.points)
        # Entry k of a row: the point that is passed k-th, plus m if it lies above the pivot.
        self._passed = np.empty((m, max(m - 1, 0)), dtype=np.intp if m <= _FAST else np.int32)
        self._together = np.zeros((m, max(m - 2, 0)), dtype=bool)  # entry k: ranks k and k + 1 on one line
        self._turns: Turns | None = None
        self._blocks = (
            [slice(i, i + max(1, _BLOCK // m)) for i in range(0, m, max(1, _BLOCK // m))] if m > 1 else []
        )
        for block in self._blocks:
            self._around(block)

    def _around(self, block: slice) -> None:
        """Order the other points by their directions from each pivot, modulo π."""
        m = len(self.points)
        x, y = np.ascontiguousarray(self.points.T)
        dx, dy = x - x[block, None], y - y[block, None]
        above = (dy > 0.0) | ((dy == 0.0) & (dx > 0.0))
        across = np.abs(dx)
        np.abs(dy, out=dy)
        np.negative(dx, out=dx, where=above)  # minus the difference towards the side above
        dy += across
        pivots = np.arange(m)[block]
        with np.errstate(invalid="ignore"):
            angles = np.divide(dx, dy, out=dx)  # rises from −1 to 1 as the direction turns by π
        angles[np.arange(pivots.size), pivots] = -2.0
        order = np.argsort(angles, axis=1)[:, 1:]
        places = order + np.arange(0, angles.size, m)[:, None]
        angles, above = angles.take(places, mode="clip"), above.take(places, mode="clip")
        near = angles[:, 1:] - angles[:, :-1] <= _SURE
        if near.any():
            self._settle(pivots, order, above, near)
            self._together[block] = near
        np.add(order, m * above, out=self._passed[block], casting="unsafe")

    def _settle(self, pivots: Any, order: Any, above: Any, near: Any) -> None:
        """Order exactly what float64 cannot tell apart; ``near`` becomes what is on one line."""
        turns = self._turns = self._turns or Turns(self.points)
        row, rank = np.nonzero(near)
        aligned = turns.aligned(pivots[row], order[row, rank], order[row, rank + 1])
        # Runs of neighbours that are near: where all are on one line their order is right already.
        runs = np.cumsum((np.diff(row, prepend=-1) != 0) | (np.diff(rank, prepend=-1) != 1)) - 1
        wrong = np.bincount(runs, weights=~aligned) > 0
        near[row, rank] = aligned
        chosen = wrong[runs]
        if not chosen.any():
            return
        last = np.flatnonzero(np.diff(runs, append=-1) != 0)
        ends = last[wrong]
        row, rank = np.append(row[chosen], row[ends]), np.append(rank[chosen], rank[ends] + 1)
        of = np.append(runs[chosen], runs[ends])
        placed = np.lexsort((rank, of))
        row, rank, of = row[placed], rank[placed], of[placed]
        point, side = order[row, rank], above[row, rank]
        moved, together = turns.order(pivots[row], point, side, of)
        order[row, rank], above[row, rank] = point[moved], side[moved]
        within = np.diff(of) == 0
        near[row[:-1][within], rank[:-1][within]] = together[within]

    def largest(self, r: Array, count: int = 1) -> tuple[float, float, Array]:
        """Largest ``|Σ_{i in half-plane} r_i|``.

        Parameters
        ----------
        r : array of shape (n,)
            Signed masses.
        count : int, default=1
            Half-planes wanted: the best, and the best through the points of as many parts of the plane.

        Returns
        -------
        value : float
            What the best half-plane holds, as computed.
        upper : float
            No half-plane does better: ``value`` and the rounding of its sums.
        directions : array of shape (at most count, 2)
            Normals, the best first; where directions are denser than float64, near to them.
        """
        weights: Array = np.zeros(len(self.points))
        np.add.at(weights, self._inverse.ravel(), r)
        total, m = float(weights.sum()), len(self.points)
        passed = np.concatenate([weights, -weights])
        extents = [self._extents(block, passed, weights[block], total)[0] for block in self._blocks]
        extent = np.concatenate(extents) if extents else np.zeros(0)
        best = max(abs(total), float(extent.max(initial=0.0)))
        upper = best + 4.0 * m * 2.0**-53 * float(np.abs(weights).sum())
        if not (extent == best).any():
            return best, upper, np.array([[1.0, 0.0]])
        parts = np.array_split(
            np.arange(m), min(count, m)
        )  # points are in the order of their first coordinates
        pivots = [int(part[np.argmax(extent[part])]) for part in parts]
        pivots.sort(key=lambda pivot: -extent[pivot])
        return best, upper, np.array([self._normal(pivot, passed, weights, total) for pivot in pivots])

    def _extents(self, block: slice, passed: Array, pivot: Array, total: float) -> tuple[Array, Any]:
        """The largest magnitudes for some pivots, and the ranks after which they are reached."""
        sums = passed.take(self._passed[block], mode="clip")
        np.cumsum(sums, axis=1, out=sums)
        # On the left of the line before it turns: the points above. Passing one of them takes it away.
        side = 0.5 * (total - pivot - sums[:, -1])
        together = self._together[block]
        if together.any():  # halfway through a line there is no half-plane
            sums[:, :-1][together] = 0.0
        high = sums.max(axis=1) + side + np.maximum(pivot, 0.0)
        low = sums.min(axis=1) + side + np.minimum(pivot, 0.0)
        # With the complements: sums from total − high to total − low.
        up, down = np.maximum(high, high - total), np.maximum(-low, total - low)
        return np.maximum(up, down), (sums, up >= down)

    def _normal(self, pivot: int, masses: Array, weights: Array, total: float) -> Array:
        """Normal of the best line through a point: turned past as many others as it wants, and no further."""
        block = slice(pivot, pivot + 1)
        _, (sums, up) = self._extents(block, masses, weights[block], total)
        rank = int(np.argmax(sums[0]) if up[0] else np.argmin(sums[0]))
        if rank < self._together.shape[1] and self._together[pivot, rank]:
            rank = (
                sums.shape[1] - 1
            )  # it stands for the line that has not turned: the complement of all passed
        passed = self._passed[pivot]
        above, order = passed >= len(self.points), passed % len(self.points)
        ends = [rank, rank + 1 if rank + 1 < order.size else 0]
        towards = np.where(above[ends], 1.0, -1.0)[:, None] * (self.points[order[ends]] - self.points[pivot])
        one, other = towards / np.abs(towards).max(axis=1, keepdims=True)
        if ends[1] == 0:
            other = -other
        along = one / math.hypot(*one) + other / math.hypot(*other)
        normal = np.array([-along[1], along[0]]) if along.any() else one
        # For the points as they came: a power of two per column, and one for both that keeps them in range.
        exponents = np.frexp(normal)[1] - self._exponents
        return np.asarray(
            np.ldexp(normal, -self._exponents - exponents.max(where=normal != 0.0, initial=-5000))
        )
