"""The largest sum over a half-plane exactly, and over a half-space by branch and bound.

Every float64 is an integer in units of a small enough power of two, and a power of two per column moves no point to
another side of any line. So ``turn(a, b) = a_x b_y − a_y b_x`` of two differences is an integer below a known bound:
its residues modulo a few numbers without common factors, whose product exceeds twice that bound, determine it. They
cost a few int64 products for whole arrays at a time. All residues are zero exactly if the directions are equal; else
the digits of the integer in the mixed base of the moduli give its sign and its leading 53 bits.

Any half-plane can be moved, without changing which points it holds, until a point lies on its boundary, and turned
about that point until another does. So all half-planes are met by turning a line about each point in turn. While it
turns by π, every other point changes sides once, at its direction from the pivot modulo π; the sums over one side are
therefore cumulative sums in the order of these directions. The order depends on the points alone: it is found once, and
each vector of masses then costs n² additions.

Points on one line through the pivot change sides together: `ExactTurns` decides which do, where float64 cannot.

A half-space ``{a·t ≥ b}`` and its complement are described by normals a on the surface of the cube [−1, 1]^q with one
entry equal to 1. For normals in a box of one of these q faces each point's projection lies in an interval around that
of the box's middle; the points whose side is undecided count only where they help. One sort, or bins where intervals
are wide, then bounds every half-space of the box, and boxes whose bound is too large are halved, a batch at a time.

The problem is NP-hard in general (Johnson and Preparata 1978), so the number of boxes grows like the (q − 1)-th power
of the precision: the bound is proven whenever the search is stopped, and loose if q is large.
"""

from __future__ import annotations

import heapq
import math
from functools import cached_property, cmp_to_key
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate._sklearn import steps

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Relative error of a direction's key in `ExactTurns.order`, which is below 1e-15, with room.
_SURE_TURN = 1e-13
#: With at most this number of bits in a coordinate, products of four of them are far from the ends of float64's range.
_MOST_BITS = 240
#: Directions are compared as 1 − cos/(|cos| + sin), which float64 gets wrong by less than 1e-15.
_SURE = 1e-14
#: Entries of a block of pivots, for the processor's cache.
_BLOCK = 2**17
#: Up to this number of points, orders are kept as index arrays: twice the memory, half the time.
_FAST = 2000
#: Points times boxes of a batch, and its most boxes.
_BATCH = 2**14
_MOST_BOXES = 16
#: Bins of projections, for boxes in which their intervals are many bins wide: no order has to be found. A few points
#: are ordered as fast.
_BINS, _COARSE, _FEW = 1024, 8.0, 256


def power_of_two_scale(points: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Points with the columns' largest magnitudes in [½, 1), exactly, and the exponents that were taken away."""
    exponents = np.frexp(np.abs(points).max(axis=0, initial=0.0))[1].astype(np.intp)
    scaled = np.ldexp(points, -exponents) + 0.0  # no negative zeros
    if not (np.ldexp(scaled, exponents) == points).all():
        raise ValueError(
            "X must have columns whose largest magnitude and smallest digit are within a factor of 2**1074 of each "
            "other; beyond it float64 cannot hold their differences. Round or transform the columns."
        )
    return scaled, exponents


class ExactTurns:
    """Exact comparisons of directions between points of the plane."""

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

    def _cross_products(self, pivot: Ints, one: Ints, other: Ints) -> list[Ints]:
        """Compute residues of ``turn(one − pivot, other − pivot)``."""
        found = []
        for residues, modulus in zip(self._residues, self._moduli, strict=True):
            start = residues[pivot]
            a, b = residues[one] - start, residues[other] - start
            found.append((a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]) % modulus)
        return found

    def aligned(self, pivot: Ints, one: Ints, other: Ints) -> npt.NDArray[np.bool_]:
        """Check that two points are on one line with the pivot; indices of one shape."""
        result = np.ones(np.shape(one), dtype=bool)
        for residue in self._cross_products(pivot, one, other):
            result &= residue == 0
        return result

    def order(
        self, pivot: Ints, point: Ints, above: npt.NDArray[np.bool_], run: Ints
    ) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Order the members of runs of almost equal directions by their directions modulo π."""
        starts = np.flatnonzero(np.diff(run, prepend=run[0] - 1))
        first = np.repeat(starts, np.diff(starts, append=run.size))
        if max(self._bits) <= _MOST_BITS:
            sign = np.where(above, 1.0, -1.0)
            away = (self._points[point] - self._points[pivot]) * sign[:, None]
            # The tangent of the angle from the first of the run, up to one factor for all of it.
            turned = sign * sign[first] * self._reconstruct(self._cross_products(pivot, point[first], point))
            key = turned / (away[first] * away).sum(axis=1)
        else:
            key = np.zeros(run.size)
        order = np.lexsort((key, run))
        key = key[order]
        close = np.diff(key) <= _SURE_TURN * np.maximum(np.abs(key[1:]), np.abs(key[:-1]))
        close &= np.diff(run) == 0
        self._sort_exactly(order, close, pivot, point, above)
        place, after = order[:-1], order[1:]
        return order, close & self.aligned(pivot[place], point[place], point[after])

    def _reconstruct(self, residues: list[Ints]) -> Array:
        """Reconstruct the integers with these residues, over the product of the moduli."""
        digits: list[Ints] = []
        for residue, modulus in zip(residues, self._moduli, strict=True):
            for digit, earlier in zip(digits, self._moduli, strict=False):
                residue = (residue - digit) % modulus * pow(earlier, -1, modulus) % modulus
            digits.append(np.where(residue > modulus // 2, residue - modulus, residue))
        value = np.zeros(residues[0].shape)
        for digit, modulus in zip(digits, self._moduli, strict=True):
            value = (value + digit) / modulus
        return value

    def _sort_exactly(
        self, order: Ints, close: npt.NDArray[np.bool_], pivot: Ints, point: Ints, above: npt.NDArray[np.bool_]
    ) -> None:
        """Sort, in Python's integers, points that are close together and not all on one line."""
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


class TurningLine:
    """Orders of all points around each of them."""

    def __init__(self, points: Array) -> None:
        scaled, self._exponents = power_of_two_scale(points)
        self.points, self._inverse = np.unique(scaled, axis=0, return_inverse=True)
        m = len(self.points)
        # Entry k of a row: the point that is passed k-th, plus m if it lies above the pivot.
        self._passed = np.empty((m, max(m - 1, 0)), dtype=np.intp if m <= _FAST else np.int32)
        self._together = np.zeros((m, max(m - 2, 0)), dtype=bool)  # entry k: ranks k and k + 1 on one line
        self._exact_turns: ExactTurns | None = None
        self._blocks = [slice(i, i + max(1, _BLOCK // m)) for i in range(0, m, max(1, _BLOCK // m))] if m > 1 else []
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
            self._order_exactly(pivots, order, above, near)
            self._together[block] = near
        np.add(order, m * above, out=self._passed[block], casting="unsafe")

    def _order_exactly(
        self, pivots: Ints, order: Ints, above: npt.NDArray[np.bool_], near: npt.NDArray[np.bool_]
    ) -> None:
        """Order exactly what float64 cannot tell apart; ``near`` becomes what is on one line."""
        turns = self._exact_turns = self._exact_turns or ExactTurns(self.points)
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
        """Find the largest ``|Σ_{i in half-plane} r_i|``, an upper bound with the rounding of its sums, and normals.

        Of ``count`` parts of the plane the best normal through their points is returned, the best of all first.
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
        parts = np.array_split(np.arange(m), min(count, m))  # points are in the order of their first coordinates
        pivots = [int(part[np.argmax(extent[part])]) for part in parts]
        pivots.sort(key=lambda pivot: -extent[pivot])
        return best, upper, np.array([self._normal(pivot, passed, weights, total) for pivot in pivots])

    def _extents(self, block: slice, passed: Array, pivot: Array, total: float) -> tuple[Array, Any]:
        """Find the largest magnitudes for some pivots, and the ranks after which they are attained."""
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
        """Normal of the best line through a point, halfway between the last direction that it passes and the next."""
        block = slice(pivot, pivot + 1)
        _, (sums, up) = self._extents(block, masses, weights[block], total)
        rank = int(np.argmax(sums[0]) if up[0] else np.argmin(sums[0]))
        if rank < self._together.shape[1] and self._together[pivot, rank]:
            rank = sums.shape[1] - 1  # it stands for the line that has not turned: the complement of all passed
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
        return np.asarray(np.ldexp(normal, -self._exponents - exponents.max(where=normal != 0.0, initial=-5000)))


class HalfspaceSum(NamedTuple):
    """The best half-space found, and a bound on all: ``value ≤ maximum ≤ upper``."""

    value: float
    upper: float
    direction: Array
    offset: float


def best_offset(projection: Array, r: Array) -> tuple[float, float]:
    """Threshold b that maximises |Σ_{projection ≥ b} r|, and that value; equal projections stay together."""
    order = np.argsort(projection)[::-1]
    sums = np.cumsum(r[order])
    sorted_projection = projection[order]
    sums[:-1][sorted_projection[:-1] == sorted_projection[1:]] = 0.0
    best = int(np.argmax(np.abs(sums)))
    below = sorted_projection[best + 1] if best + 1 < sums.size else sorted_projection[best] - 2.0
    offset = 0.5 * (sorted_projection[best] + below)
    if not below < offset <= sorted_projection[best]:
        offset = sorted_projection[best]
    return float(offset), float(abs(sums[best]))


def largest_halfspace_sum(
    points: Array, r: Array, *, enough: float = 0.0, refuted: float = np.inf, max_nodes: int = 2000
) -> HalfspaceSum:
    """Find the largest ``|Σ_{i in half-space} r_i|`` over all half-spaces of R^q, by branch and bound.

    The masses sum to 0 up to rounding, so that a half-space and its complement have the same sum. The search stops when
    the upper bound is at most ``enough``, or a half-space holds more than ``refuted``.
    """
    boxes = _Boxes(points, r)
    q, batch = points.shape[1], max(1, min(_MOST_BOXES, _BATCH // len(points)))
    best = (-1.0, np.eye(q)[0])
    heap: list[tuple[float, int, Array, Array, int]] = []
    nodes = 0

    def push(centres: Array, halves: Array, at_most: Array) -> None:
        nonlocal best, nodes
        upper, value, normal, widest = boxes.bound(centres, halves)
        if value > best[0]:
            best = value, normal
        for bound, centre, half, side in zip(np.minimum(upper, at_most), centres, halves, widest, strict=True):
            nodes += 1
            step()
            heapq.heappush(heap, (-float(bound), nodes, centre, half, int(side)))

    with steps("certificate", max_nodes) as step:
        push(np.eye(q), 1.0 - np.eye(q), np.full(q, np.inf))
        while nodes + 2 <= max_nodes and best[0] <= refuted:
            target = max(enough, best[0] + boxes.margin)
            worst: list[tuple[float, int, Array, Array, int]] = []
            while heap and -heap[0][0] > target and len(worst) < batch and nodes + 2 * len(worst) + 2 <= max_nodes:
                worst.append(heapq.heappop(heap))
            if not worst:
                break
            parents, widest = np.arange(len(worst)), [entry[4] for entry in worst]
            halves = np.array([entry[3] for entry in worst])
            halves[parents, widest] /= 2.0
            centres = np.array([entry[2] for entry in worst])
            moves = np.zeros_like(centres)
            moves[parents, widest] = halves[parents, widest]
            push(
                np.concatenate([centres - moves, centres + moves]),
                np.tile(halves, (2, 1)),
                np.tile([-entry[0] for entry in worst], 2),
            )
    direction = best[1] * boxes.scale
    direction /= np.abs(direction).max()
    direction /= np.linalg.norm(direction)
    offset, value = best_offset(points @ direction, r)
    return HalfspaceSum(value, max(-heap[0][0], value), direction, offset)


class _Boxes:
    """Bounds on the mass of half-spaces with a normal in a box, for batches of boxes."""

    def __init__(self, points: Array, r: Array) -> None:
        n, q = points.shape
        # A power of two per column is exact and makes the columns' spreads alike; shifts are only for narrow intervals.
        spread = np.maximum(points.std(axis=0), np.finfo(float).tiny)
        self.scale = np.exp2(-np.round(np.log2(spread)))
        first = np.argsort(r <= 0.0, kind="stable")
        self._positive = int((r > 0.0).sum())
        self._r = r[first]
        scaled = points[first] * self.scale
        middle = np.median(scaled, axis=0)
        self._centred = np.ascontiguousarray((scaled - middle).T)
        self._size = np.abs(self._centred)
        self._rounding = (q + 8.0) * 2.0**-52 * (self._size + np.abs(middle)[:, None]).sum(axis=0)
        self._spread = self._size @ np.abs(self._r)
        self.margin = 4.0 * (n + _BINS) * 2.0**-53 * float(np.abs(r).sum()) + 2.0 * abs(float(r.sum()))

    def bound(self, centres: Array, halves: Array) -> tuple[Array, float, Array, npt.NDArray[np.intp]]:
        """Upper bounds; what some half-space holds, and its normal; and in which coordinate to halve each box."""
        projection, slack = centres @ self._centred, halves @ self._size
        slack += self._rounding
        p, far, near = self._positive, projection + slack, projection - slack
        low, high = float(near.min()), float(far.max())
        early: Any
        late: Any
        sums: Any
        if self._r.size >= _FEW and slack.mean() * _BINS > _COARSE * (high - low) > 0.0:
            early, late = (((ends - low) * (_BINS / (high - low))).astype(np.intp) for ends in (far, near))
            sums = self._binned_sums
        else:
            early, late, sums = -far, -near, self._sorted_sums
        # For the upper bound positive masses count from where they may lie, and negative ones from where they must.
        upper = sums(np.concatenate([early[:, :p], late[:, p:]], axis=1), slice(p, None)).max(axis=1)
        lower = sums(np.concatenate([late[:, :p], early[:, p:]], axis=1), slice(0, p)).min(axis=1)
        upper = np.maximum(np.maximum(upper, -lower), 0.0)
        top = int(np.argmax(upper))
        value = best_offset(projection[top], self._r)[1]
        return upper + self.margin, value, centres[top], np.argmax(halves * self._spread, axis=1)

    def _sorted_sums(self, keys: Array, late: slice) -> Array:
        """Sum the masses in the order of their keys."""
        return np.cumsum(self._r.take(np.argsort(keys, axis=1), mode="clip"), axis=1)

    def _binned_sums(self, bins: npt.NDArray[np.intp], late: slice) -> Array:
        """Sum the masses from the top by bins: for any threshold in bin k, all from k on, but the late ones from k + 1.

        A bin is a monotone function of a projection, so what is above a threshold has no lower bin.
        """
        bins[:, late] -= 1
        bins += 1 + (_BINS + 2) * np.arange(len(bins))[:, None]  # 0 is for what no threshold is sure to hold
        masses = np.broadcast_to(self._r, bins.shape)
        sums = np.bincount(bins.ravel(), masses.ravel(), len(bins) * (_BINS + 2)).reshape(len(bins), -1)
        return np.cumsum(sums[:, :0:-1], axis=1)
