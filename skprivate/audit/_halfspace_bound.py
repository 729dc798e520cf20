"""The largest sum over a half-space in any dimension: branch and bound over its normal.

A half-space ``{a·t ≥ b}`` and its complement are described by normals a on the surface of the cube [−1, 1]^q with one
entry equal to 1. For normals in a box of one of these q faces each point's projection lies in an interval around that
of the box's middle; the points whose side is undecided count only where they help. One sort then bounds every
half-space of the box, and boxes whose bound is too large are halved, a batch at a time.

The problem is NP-hard in general (Johnson and Preparata 1978), so the number of boxes grows like the (q − 1)-th power
of the precision: the bound is proven whenever the search is stopped, and loose if q is large.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate._progress import steps

__all__ = ["HalfspaceSum", "best_offset", "largest_halfspace_sum"]

Array = npt.NDArray[np.float64]

#: Points times boxes of a batch, and its most boxes.
_BATCH = 2**14
_MOST_BOXES = 16


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
    """Largest ``|Σ_{i in half-space} r_i|`` over all half-spaces of R^q.

    Parameters
    ----------
    points : array of shape (n, q)
    r : array of shape (n,)
        Signed masses that sum to 0 up to rounding, so that a half-space and its complement are worth the same.
    enough : float, default=0.0
        Stop when the upper bound is at most this, or equal to what was found.
    refuted : float, default=inf
        Stop as soon as a half-space is found that holds more than this.
    max_nodes : int, default=2000
        Most boxes bounded.
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
        for bound, centre, half, side in zip(
            np.minimum(upper, at_most), centres, halves, widest, strict=True
        ):
            nodes += 1
            step()
            heapq.heappush(heap, (-float(bound), nodes, centre, half, int(side)))

    with steps("certificate", max_nodes) as step:
        push(np.eye(q), 1.0 - np.eye(q), np.full(q, np.inf))
        while nodes + 2 <= max_nodes and best[0] <= refuted:
            target = max(enough, best[0] + boxes.margin)
            worst: list[tuple[float, int, Array, Array, int]] = []
            while (
                heap
                and -heap[0][0] > target
                and len(worst) < batch
                and nodes + 2 * len(worst) + 2 <= max_nodes
            ):
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
    """Bounds on what a half-space holds whose normal lies in a box, for batches of boxes."""

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
        self.margin = 4.0 * n * 2.0**-53 * float(np.abs(r).sum()) + 2.0 * abs(float(r.sum()))

    def bound(self, centres: Array, halves: Array) -> tuple[Array, float, Array, npt.NDArray[np.intp]]:
        """Upper bounds; what some half-space holds, and its normal; and in which coordinate to halve each box."""
        projection, slack = centres @ self._centred, halves @ self._size
        slack += self._rounding
        p, far, near = self._positive, projection + slack, projection - slack
        # From the top: what may help is passed as early as it can be, what hinders as late.
        key = np.concatenate([-far[:, :p], -near[:, p:]], axis=1)
        upper = np.cumsum(self._r.take(np.argsort(key, axis=1), mode="clip"), axis=1).max(axis=1)
        np.negative(near[:, :p], out=key[:, :p])
        np.negative(far[:, p:], out=key[:, p:])
        lower = np.cumsum(self._r.take(np.argsort(key, axis=1), mode="clip"), axis=1).min(axis=1)
        upper = np.maximum(np.maximum(upper, -lower), 0.0)
        top = int(np.argmax(upper))
        value = best_offset(projection[top], self._r)[1]
        return upper + self.margin, value, centres[top], np.argmax(halves * self._spread, axis=1)
