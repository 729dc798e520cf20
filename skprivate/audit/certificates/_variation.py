"""Least squares over functions of one variable with bounded total variation, with a certified minimum.

``minimise Σ w_i (y_i − f_i)²  subject to  Σ |f_{i+1} − f_i| ≤ D`` is the one-dimensional fused lasso in
constrained form. The method is a fully corrective conditional gradient: on a small set of knots the problem
is solved exactly by following the fusion path (groups of the chain only ever merge as the penalty grows); the
oracle, one cumulative sum, finds where a further jump would help and bounds how much all remaining jumps
together could help.

By convexity, for every f and every f' in the class, ``loss(f') ≥ loss(f) + ⟨∇loss(f), f' − f⟩``; minimising
the right side over the class (a jump of height ±D at the position with the largest cumulative residual) gives
a lower bound on the minimum which is valid for *any* iterate, converged or not.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class CertifiedFit(NamedTuple):
    """A fitted function, its loss, and a lower bound on the loss of every function of the class."""

    values: Array
    loss: float
    lower_bound: float


def group_ties(t: Array, s: Array) -> tuple[Array, Array, Array, npt.NDArray[np.intp]]:
    """Sort by ``t`` and merge equal values."""
    positions, inverse, counts = np.unique(t, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=s, minlength=positions.size)
    return positions, sums / counts, counts / t.size, inverse


def _fusion_path(y: Array, w: Array, bound: float) -> Array:
    """Exact solution of the constrained problem on a short chain by following its fusion path."""
    n = y.size
    jumps = np.abs(np.diff(y))
    variation = float(jumps.sum())
    if n == 1 or variation <= bound:
        return y.copy()
    if bound <= 0.0:
        return np.full(n, float(w @ y / w.sum()))
    left = list(range(-1, n - 1))
    right = list(range(1, n + 1))
    right[-1] = -1
    value = y.tolist()
    weight = w.tolist()
    born = [0.0] * n  # penalty at which `value` was last brought up to date
    version = [0] * n
    last = list(range(n))  # last member of the group that starts here
    alive = [True] * n
    slope = [0.0] * n

    def sign(a: int, b: int) -> float:
        """Sign of group b minus group a: the direction of the jump between neighbours."""
        return 1.0 if value[b] > value[a] else (-1.0 if value[b] < value[a] else 0.0)

    # Directions of jumps never change before the two groups meet, so they are stored once.
    direction = [0.0] * n  # of the jump to the right of a group
    for i in range(n - 1):
        direction[i] = sign(i, i + 1)

    def pull(g: int) -> float:
        """d value / d penalty of group g."""
        toward_right = direction[g] if right[g] >= 0 else 0.0
        toward_left = -direction[left[g]] if left[g] >= 0 else 0.0
        return float((toward_right + toward_left) / (2.0 * weight[g]))

    for i in range(n):
        slope[i] = pull(i)
    heap: list[tuple[float, int, int, int, int]] = []

    def schedule(a: int, now: float) -> None:
        """Queue the meeting of group a with its right neighbour."""
        b = right[a]
        if b < 0:
            return
        gap = (value[b] + slope[b] * (now - born[b])) - (value[a] + slope[a] * (now - born[a]))
        closing = (slope[a] - slope[b]) * direction[a]
        if closing > 0.0:
            heapq.heappush(heap, (now + max(gap * direction[a], 0.0) / closing, a, b, version[a], version[b]))
        elif direction[a] == 0.0 or gap * direction[a] <= 0.0:
            heapq.heappush(heap, (now, a, b, version[a], version[b]))

    for i in range(n - 1):
        schedule(i, 0.0)
    # d(variation)/d(penalty) = −Σ (pull)² · weight · 2
    rate = sum(2.0 * slope[i] * slope[i] * weight[i] for i in range(n))
    now = 0.0
    while heap:
        event, a, b, version_a, version_b = heapq.heappop(heap)
        if not (alive[a] and alive[b]) or version[a] != version_a or version[b] != version_b:
            continue
        event = max(event, now)
        if rate > 0.0 and variation - rate * (event - now) <= bound:
            break
        variation -= rate * (event - now)
        now = event
        rate -= 2.0 * (slope[a] ** 2 * weight[a] + slope[b] ** 2 * weight[b])
        met_a = value[a] + slope[a] * (now - born[a])
        met_b = value[b] + slope[b] * (now - born[b])
        total = weight[a] + weight[b]
        value[a] = (weight[a] * met_a + weight[b] * met_b) / total
        weight[a] = total
        born[a] = now
        last[a] = last[b]
        alive[b] = False
        version[a] += 1
        direction[a] = direction[b]
        right[a] = right[b]
        if right[b] >= 0:
            left[right[b]] = a
        slope[a] = pull(a)
        rate += 2.0 * slope[a] ** 2 * weight[a]
        if left[a] >= 0:
            schedule(left[a], now)
        schedule(a, now)
    stop = now + (variation - bound) / rate if rate > 0.0 else now
    out = np.empty(n)
    group = 0
    while group >= 0:
        out[group : last[group] + 1] = value[group] + slope[group] * (stop - born[group])
        group = right[group]
    return out


def _violations(tail: Array, starts: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Positions where a jump would help most: each block's extreme cumulative residuals.

    ``tail[k]`` is the weighted residual summed over positions ≥ k; a jump *before* position k is encoded as
    k.
    """
    n = tail.size
    level = np.abs(tail[starts]).max() if starts.size else 0.0
    block = np.zeros(n, dtype=np.intp)
    block[starts[1:]] = 1
    block = np.cumsum(block)
    order = np.lexsort((tail, block))
    ends = np.append(starts[1:], n) - 1
    lowest, highest = order[starts], order[ends]
    candidates = np.concatenate([lowest, highest])
    threshold = level * (1.0 + 1e-9) + 1e-15
    return np.asarray(candidates[np.abs(tail[candidates]) > threshold])


def _linear_minimum(gradient: Array, values: Array, bound: float) -> float:
    """``min ⟨gradient, f' − values⟩`` over the functions with variation ≤ ``bound`` and |f'| ≤ 1.

    A function is its value at the left end plus jumps of total height ≤ ``bound``.
    """
    tail = np.cumsum(gradient[::-1])[::-1]
    start = abs(float(tail[0]))  # zero for a stationary constant, up to rounding
    jump = float(np.abs(tail[1:]).max()) if tail.size > 1 else 0.0
    return -start - bound * jump - float(gradient @ values)


def fit_bounded_variation(
    y: Array, w: Array, bound: float, *, tol: float = 1e-9, max_rounds: int = 200
) -> CertifiedFit:
    """Weighted least squares over functions on an ordered set with total variation ≤ ``bound``."""
    m = y.size
    starts = np.zeros(1, dtype=np.intp)
    cumulative_w = np.concatenate([[0.0], np.cumsum(w)])
    cumulative_wy = np.concatenate([[0.0], np.cumsum(w * y)])
    best = CertifiedFit(np.zeros(m), np.inf, -np.inf)
    for _ in range(max_rounds):
        edges = np.append(starts, m)
        block_w = np.diff(cumulative_w[edges])
        block_y = np.diff(cumulative_wy[edges]) / block_w
        f = np.repeat(_fusion_path(block_y, block_w, bound), np.diff(edges))
        f += w @ (y - f)  # remove the rounding error of the mean; jumps stay as they are
        residual = w * (y - f)
        loss = float(residual @ (y - f))
        lower = loss + _linear_minimum(-2.0 * residual, f, bound)
        best = CertifiedFit(f, loss, max(lower, best.lower_bound, 0.0))
        if best.loss - best.lower_bound <= tol:
            break
        tail = np.cumsum(residual[::-1])[::-1]
        tail[0] = 0.0
        # Only true jumps carry the multiplier; blocks merged by the path do not.
        jumping = np.flatnonzero(np.diff(f, prepend=f[0]) != 0.0)
        anchor = np.union1d([0], jumping).astype(np.intp)
        grown = np.union1d(starts, _violations(tail, anchor)).astype(np.intp)
        if grown.size == starts.size:
            grown = np.union1d(starts, _violations(tail, starts)).astype(np.intp)
            if grown.size == starts.size:
                break
        starts = grown
    return best


def fit_bounded_variation_log(
    y: Array, w: Array, bound: float, *, tol: float = 1e-7, max_newton: int = 100
) -> CertifiedFit:
    """Log loss over functions f into (−1, 1) with total variation ≤ ``bound``; P(S = 1 | t) = (1 + f(t))/2.

    Projected Newton steps, each a weighted least-squares problem of `fit_bounded_variation`, with a line
    search. The lower bound is the linearisation at the best iterate, minimised over the class.
    """
    plus, minus = w * (1.0 + y) / 2.0, w * (1.0 - y) / 2.0

    def loss_of(f: Array) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(plus > 0.0, -plus * np.log((1.0 + f) / 2.0), 0.0)
            terms += np.where(minus > 0.0, -minus * np.log((1.0 - f) / 2.0), 0.0)
        return float(terms.sum())

    edge = 1e-9
    f = np.full(y.size, float(np.clip(w @ y, -1.0 + 1e-6, 1.0 - 1e-6)))
    loss, best_lower = loss_of(f), 0.0
    for _ in range(max_newton):
        gradient = minus / (1.0 - f) - plus / (1.0 + f)
        curvature = plus / (1.0 + f) ** 2 + minus / (1.0 - f) ** 2
        best_lower = max(best_lower, loss + _linear_minimum(gradient, f, bound))
        if loss - best_lower <= tol:
            break
        scale = curvature.sum()
        target = f - gradient / curvature
        proposal = fit_bounded_variation(target, curvature / scale, bound, tol=1e-13).values
        direction = np.clip(proposal, -1.0 + edge, 1.0 - edge) - f
        decrease = float(gradient @ direction)
        step, improved = 1.0, False
        while step > 1e-8:
            trial = f + step * direction
            trial_loss = loss_of(trial)
            if trial_loss <= loss + 1e-4 * step * decrease:
                improved = trial_loss < loss
                f, loss = trial, trial_loss
                break
            step *= 0.5
        if not improved:
            break
    return CertifiedFit(f, loss, max(best_lower, 0.0))
