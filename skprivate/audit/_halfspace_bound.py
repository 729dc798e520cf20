"""The largest sum over a half-space in any dimension: branch and bound over its normal.

A half-space ``{a·t ≥ b}`` and its complement are described by normals a on the surface of the cube [−1, 1]^q with one
entry equal to 1. For normals in a box of one of these q faces each point's projection lies in an interval around that
of the box's middle; the points whose side is undecided count only where they help. One sort then bounds every
half-space of the box, and boxes whose bound is too large are halved.

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

    Returns
    -------
    HalfspaceSum
    """
    n, q = points.shape
    # A power of two per column is exact and makes the columns' spreads alike; shifts are only for narrow intervals.
    spread = np.maximum(points.std(axis=0), np.finfo(float).tiny)
    scale = np.exp2(-np.round(np.log2(spread)))
    scaled = points * scale
    middle = np.median(scaled, axis=0)
    centred = scaled - middle
    size = np.abs(centred)
    rounding = (q + 8.0) * 2.0**-52 * (size + np.abs(middle)).sum(axis=1)
    helps = r > 0.0
    margin = 4.0 * n * 2.0**-53 * float(np.abs(r).sum()) + 2.0 * abs(float(r.sum()))
    best = (-1.0, np.eye(q)[0])

    def bound(face: int, centre: Array, half: Array) -> tuple[float, int]:
        """Upper bound over a box, and the coordinate in which it is the widest."""
        nonlocal best
        projection = centred @ centre
        value = best_offset(projection, r)[1]
        if value > best[0]:
            best = value, centre.copy()
        reach = size * half
        slack = reach.sum(axis=1) + rounding
        upper = 0.0
        for helpful, sign in ((helps, 1.0), (~helps, -1.0)):
            key = projection + np.where(helpful, slack, -slack)
            order = np.argsort(np.where(helpful, np.nextafter(key, np.inf), key))[
                ::-1
            ]  # at ties, what helps first
            upper = max(upper, float((sign * np.cumsum(r[order])).max()))
        return upper + margin, int(np.argmax(np.abs(r) @ reach))

    heap: list[tuple[float, int, int, Array, Array, int]] = []
    nodes = 0

    def push(face: int, centre: Array, half: Array, at_most: float) -> None:
        nonlocal nodes
        upper, widest = bound(face, centre, half)
        nodes += 1
        step()
        heapq.heappush(heap, (-min(upper, at_most), nodes, face, centre, half, widest))

    with steps("certificate", max_nodes) as step:
        for face in range(q):
            centre, half = np.zeros(q), np.ones(q)
            centre[face], half[face] = 1.0, 0.0
            push(face, centre, half, np.inf)
        while nodes + 2 <= max_nodes:
            upper, _, face, centre, half, widest = heap[0]
            if -upper <= max(enough, best[0] + margin) or best[0] > refuted:
                break
            heapq.heappop(heap)
            half = half.copy()
            half[widest] /= 2.0
            for side in (-1.0, 1.0):
                child = centre.copy()
                child[widest] += side * half[widest]
                push(face, child, half, -upper)
    direction = best[1] * scale
    direction /= np.abs(direction).max()
    direction /= np.linalg.norm(direction)
    offset, value = best_offset(points @ direction, r)
    return HalfspaceSum(value, max(-heap[0][0], value), direction, offset)
