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


def group_ties(t: Array, s: Array) -> tuple[Array, Array, Array]:
    """Sort by ``t`` and merge equal values: the values, means of s, and shares of rows."""
    positions, inverse, counts = np.unique(t, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=s, minlength=positions.size)
    return positions, sums / counts, counts / t.size


class _FusionPath:
    """Groups of a chain, which only ever merge as the penalty on jumps grows."""

    def __init__(self, y: Array, w: Array) -> None:
        n = y.size
        self._value: list[float] = y.tolist()
        self._weight: list[float] = w.tolist()
        self._left, self._right = list(range(-1, n - 1)), [*range(1, n), -1]
        self._last = list(range(n))  # last member of the group that starts here
        self._since = [0.0] * n  # penalty at which the value was last brought up to date
        self._version = [0] * n
        # Of the jump to the right of a group: it never changes before the two meet.
        self._direction: list[float] = [*np.sign(np.diff(y)).tolist(), 0.0]
        self._slope = [self._pull(group) for group in range(n)]
        self._meetings: list[tuple[float, int, int, int, int]] = []
        for group in range(n):
            self._schedule(group, 0.0)

    def _pull(self, group: int) -> float:
        """Compute d value / d penalty of a group."""
        left = self._left[group]
        outwards = self._direction[group] - (self._direction[left] if left >= 0 else 0.0)
        return outwards / (2.0 * self._weight[group])

    def _at(self, group: int, penalty: float) -> float:
        return self._value[group] + self._slope[group] * (penalty - self._since[group])

    def _schedule(self, a: int, now: float) -> None:
        """Queue the meeting of a group with its right neighbour."""
        b, direction = self._right[a], self._direction[a]
        if b < 0:
            return
        gap = self._at(b, now) - self._at(a, now)
        closing = (self._slope[a] - self._slope[b]) * direction
        versions = self._version[a], self._version[b]
        if closing > 0.0:
            heapq.heappush(self._meetings, (now + max(gap * direction, 0.0) / closing, a, b, *versions))
        elif direction == 0.0 or gap * direction <= 0.0:
            heapq.heappush(self._meetings, (now, a, b, *versions))

    def _merge(self, a: int, b: int, now: float) -> None:
        """Take a group's right neighbour into it."""
        met_a, met_b = self._at(a, now), self._at(b, now)
        total = self._weight[a] + self._weight[b]
        self._value[a] = (self._weight[a] * met_a + self._weight[b] * met_b) / total
        self._weight[a], self._since[a], self._last[a] = total, now, self._last[b]
        self._version[a] += 1
        self._version[b] += 1
        self._direction[a], self._right[a] = self._direction[b], self._right[b]
        if self._right[b] >= 0:
            self._left[self._right[b]] = a
        self._slope[a] = self._pull(a)
        if self._left[a] >= 0:
            self._schedule(self._left[a], now)
        self._schedule(a, now)

    def until(self, variation: float, bound: float) -> Array:
        """Follow the path from this variation until no more than the bound is left."""

        def rate_of(group: int) -> float:
            return 2.0 * self._slope[group] ** 2 * self._weight[group]

        # −d variation / d penalty
        rate, now = sum(map(rate_of, range(len(self._value)))), 0.0
        while self._meetings:
            event, a, b, *versions = heapq.heappop(self._meetings)
            if versions != [self._version[a], self._version[b]]:
                continue
            event = max(event, now)
            if rate > 0.0 and variation - rate * (event - now) <= bound:
                break
            variation -= rate * (event - now)
            now = event
            rate -= rate_of(a) + rate_of(b)
            self._merge(a, b, now)
            rate += rate_of(a)
        stop = now + (variation - bound) / rate if rate > 0.0 else now
        out, group = np.empty(len(self._value)), 0
        while group >= 0:
            out[group : self._last[group] + 1] = self._at(group, stop)
            group = self._right[group]
        return out


def _fused(y: Array, w: Array, bound: float) -> Array:
    """Solve the constrained problem on a short chain, exactly."""
    variation = float(np.abs(np.diff(y)).sum())
    if variation <= bound:
        return y.copy()
    if bound <= 0.0:
        return np.full(y.size, float(w @ y / w.sum()))
    return _FusionPath(y, w).until(variation, bound)


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
        f = np.repeat(_fused(block_y, block_w, bound), np.diff(edges))
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


def log_loss(f: Array, y: Array, w: Array) -> float:
    """Compute the log loss of P(S = 1) = (1 + f)/2 where S has the means y."""
    plus, minus = w * (1.0 + y) / 2.0, w * (1.0 - y) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(plus > 0.0, -plus * np.log((1.0 + f) / 2.0), 0.0)
        terms += np.where(minus > 0.0, -minus * np.log((1.0 - f) / 2.0), 0.0)
    return float(terms.sum())


def fit_bounded_variation_log(
    y: Array, w: Array, bound: float, *, tol: float = 1e-7, max_newton: int = 100
) -> CertifiedFit:
    """Log loss over functions f into (−1, 1) with total variation ≤ ``bound``; P(S = 1 | t) = (1 + f(t))/2.

    Projected Newton steps, each a weighted least-squares problem of `fit_bounded_variation`, with a line
    search. The lower bound is the linearisation at the best iterate, minimised over the class.
    """
    plus, minus = w * (1.0 + y) / 2.0, w * (1.0 - y) / 2.0
    edge = 1e-9
    f = np.full(y.size, float(np.clip(w @ y, -1.0 + 1e-6, 1.0 - 1e-6)))
    loss, best_lower = log_loss(f, y, w), 0.0
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
            trial_loss = log_loss(trial, y, w)
            if trial_loss <= loss + 1e-4 * step * decrease:
                improved = trial_loss < loss
                f, loss = trial, trial_loss
                break
            step *= 0.5
        if not improved:
            break
    return CertifiedFit(f, loss, max(best_lower, 0.0))
