"""Least squares over the convex hull of half-space indicators in q ≥ 2 dimensions, with a duality gap.

A function with Barron constant C on a set of diameter d is a constant plus a signed mixture of half-space
indicators of total mass at most ``D = d·C``: write ``f(x) − f(x₀) = ∫ |f̂(ω)| [cos(ω·x + θ) − cos(ω·x₀ + θ)]
dω``; along each direction the cosine is a function of one variable with total variation at most ``|ω| d`` on
the set, hence such a mixture. The class is ``{c + Σ ν_j 1[a_j·t ≥ b_j] : Σ|ν_j| ≤ D}``; with ±1-valued steps
the mass is D/2.

The oracle of the conditional gradient is ``max over half-spaces |Σ_{t_i in half-space} r_i|``. In the plane
it is solved by branch and bound over the direction: within an interval of directions every point's projection
lies in an interval, and points whose side is undecided count only where they help, which gives an upper bound
by one sort. In higher dimensions only a lower estimate of the oracle is available and the gap is not
certified.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate._progress import steps

__all__ = ["HalfspaceFit", "fit_halfspaces", "largest_halfplane_sum"]

Array = npt.NDArray[np.float64]


class HalfspaceFit(NamedTuple):
    """The function ``intercept + Σ masses_j 1[directions_j · t ≥ offsets_j]`` and its optimality."""

    intercept: float
    masses: Array
    directions: Array
    offsets: Array
    values: Array
    loss: float
    lower_bound: float
    certified: bool

    def predict(self, t: Array) -> Array:
        """Values of the function at the rows of ``t``."""
        return self.intercept + (t @ self.directions.T >= self.offsets) @ self.masses


def _best_offset(projection: Array, r: Array) -> tuple[float, float]:
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


def largest_halfplane_sum(
    points: Array, r: Array, *, relative_tolerance: float = 0.02, max_nodes: int = 3000
) -> tuple[float, float, Array, float]:
    """Largest ``|Σ_{i in half-plane} r_i|`` over all half-planes, by branch and bound over the direction.

    Parameters
    ----------
    points : array of shape (n, 2)
    r : array of shape (n,)
        Signed masses. Both a half-plane and its complement are counted.
    relative_tolerance : float, default=0.02
        Stop when the upper bound exceeds the best half-plane found by less than this fraction.
    max_nodes : int, default=3000
        Most direction intervals examined; the upper bound stays valid when it is reached.

    Returns
    -------
    value : float
        The best half-plane found.
    upper : float
        Certified: no half-plane does better.
    direction : array of shape (2,)
    offset : float
    """
    centred = points - np.median(points, axis=0)
    positive = r > 0.0
    total = float(r.sum())
    best_value, best_angle = 0.0, 0.0

    def bound(angle: float, half_width: float) -> tuple[float, float]:
        along = centred[:, 0] * math.cos(angle) + centred[:, 1] * math.sin(angle)
        across = np.abs(centred[:, 1] * math.cos(angle) - centred[:, 0] * math.sin(angle))
        value = _best_offset(along, r)[1]
        # 1 + 1e-12 covers the rounding of the projections
        slack = (across * math.sin(half_width) + np.abs(along) * (1.0 - math.cos(half_width))) * (
            1.0 + 1e-12
        ) + 1e-300
        upper = 0.0
        for sign in (1.0, -1.0):
            helpful = positive if sign > 0.0 else ~positive
            key = along + np.where(helpful, slack, -slack)
            # at equal keys the helpful points come first, so that the bound is not cut by ties
            order = np.lexsort((np.where(helpful, 0, 1), -key))
            upper = max(upper, float((sign * np.cumsum(r[order])).max()))
        return value, upper

    # Half-planes of direction angle + π are complements; with Σr = 0 they have the same modulus.
    pieces = 32
    half = math.pi / pieces
    stack = [((2 * i + 1) * half / 1.0, half) for i in range(pieces)] if abs(total) > 1e-12 else []
    if not stack:
        half = math.pi / (2 * pieces)
        stack = [((2 * i + 1) * half, half) for i in range(pieces)]
    upper_closed = 0.0
    nodes = 0
    frontier: list[tuple[float, float, float]] = []
    with steps("certificate", max_nodes) as step:
        for angle, width in stack:
            value, upper = bound(angle, width)
            nodes += 1
            step()
            if value > best_value:
                best_value, best_angle = value, angle
            frontier.append((upper, angle, width))
        while frontier:
            frontier.sort()
            upper, angle, width = frontier.pop()
            if upper <= best_value * (1.0 + relative_tolerance) or nodes >= max_nodes:
                upper_closed = max(upper_closed, upper)
                break
            for child in (angle - width / 2.0, angle + width / 2.0):
                value, child_upper = bound(child, width / 2.0)
                nodes += 1
                step()
                if value > best_value:
                    best_value, best_angle = value, child
                frontier.append((min(child_upper, upper), child, width / 2.0))
    direction = np.array([math.cos(best_angle), math.sin(best_angle)])
    offset, value = _best_offset(points @ direction, r)
    return value, max(upper_closed, value), direction, offset


def _heuristic_oracle(
    points: Array, r: Array, rng: np.random.Generator, n_directions: int
) -> tuple[float, Array, float]:
    """A good half-space: best of the axes, the residual's own direction and random directions."""
    q = points.shape[1]
    spread = points.std(axis=0) + 1e-300
    directions = rng.normal(size=(n_directions, q)) / spread
    centred = points - points.mean(axis=0)
    candidates = np.vstack([np.eye(q), (r @ centred)[None, :] / spread**2, directions])
    best_value, best = -1.0, candidates[0]
    for _ in range(3):
        for direction in candidates:
            norm = float(np.linalg.norm(direction))
            if norm == 0.0 or not np.isfinite(norm):
                continue
            value = _best_offset(points @ (direction / norm), r)[1]
            if value > best_value:
                best_value, best = value, direction / norm
        step = rng.normal(size=(max(n_directions // 2, 4), q)) / spread
        scale = np.linalg.norm(best) / np.linalg.norm(step, axis=1, keepdims=True)
        candidates = best + 0.3 * scale * step
    offset, value = _best_offset(points @ best, r)
    return value, best, offset


def _project_l1(v: Array, radius: float) -> Array:
    """Euclidean projection onto the ball ``Σ|v| ≤ radius``."""
    magnitude = np.abs(v)
    if magnitude.sum() <= radius:
        return v
    ordered = np.sort(magnitude)[::-1]
    cumulative = np.cumsum(ordered) - radius
    count = np.flatnonzero(ordered - cumulative / np.arange(1, v.size + 1) > 0.0)[-1]
    shrink = cumulative[count] / (count + 1.0)
    return np.asarray(np.sign(v) * np.maximum(magnitude - shrink, 0.0))


def _corrective(gram: Array, target: Array, start: Array, radius: float, n_steps: int = 400) -> Array:
    """Minimise ``νᵀGν/2 − targetᵀν`` over the ℓ1 ball by accelerated projected gradient with restarts."""
    lipschitz = max(float(np.linalg.eigvalsh(gram)[-1]), 1e-12)
    x = momentum = start
    t = 1.0
    for _ in range(n_steps):
        new = _project_l1(momentum - (gram @ momentum - target) / lipschitz, radius)
        if (momentum - new) @ (new - x) > 0.0:
            t = 1.0
        t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        momentum = new + (t - 1.0) / t_new * (new - x)
        if np.abs(new - x).max(initial=0.0) < 1e-12:
            x = new
            break
        x, t = new, t_new
    return x


def fit_halfspaces(
    points: Array,
    s: Array,
    mass: float,
    rng: np.random.Generator,
    *,
    max_atoms: int = 40,
    tol: float = 1e-4,
    max_nodes: int = 3000,
) -> HalfspaceFit:
    """Fully corrective conditional gradient for the mean squared error over half-space mixtures.

    Parameters
    ----------
    points : array of shape (n, q), q ≥ 2
    s : array of shape (n,)
        Values ±1.
    mass : float
        D, the largest total mass.
    rng : numpy.random.Generator
        Public randomness for the search directions; the certificate does not depend on it.
    max_atoms : int, default=40
        Most half-spaces.
    tol : float, default=1e-4
        Stop when the (estimated) duality gap is below it.
    max_nodes : int, default=3000
        Effort of the exact oracle in the plane.

    Returns
    -------
    HalfspaceFit
        ``certified`` is True for q = 2, where ``lower_bound`` is a proven lower bound on the class's minimum.
    """
    n, q = points.shape
    features = np.empty((n, 0))
    directions, offsets = np.empty((0, q)), np.empty(0)
    masses = np.empty(0)
    mean = float(s.mean())
    values = np.full(n, mean)
    n_directions = 32 if q > 2 else 64
    plane = np.column_stack([np.cos(a := np.arange(64) * np.pi / 64), np.sin(a)]) if q == 2 else None

    def oracle(r: Array) -> tuple[float, Array, float]:
        if plane is None:
            return _heuristic_oracle(points, r, rng, n_directions)
        best = max(
            ((_best_offset(points @ d, r)[1], i) for i, d in enumerate(plane)), key=lambda pair: pair[0]
        )[1]
        angle, width = best * np.pi / 64, np.pi / 64
        choice = (_best_offset(points @ plane[best], r)[1], plane[best])
        for _ in range(4):
            width /= 2.0
            for candidate in (angle - width, angle + width):
                d = np.array([math.cos(candidate), math.sin(candidate)])
                value = _best_offset(points @ d, r)[1]
                if value > choice[0]:
                    choice, angle = (value, d), candidate
        offset, value = _best_offset(points @ choice[1], r)
        return value, choice[1], offset

    with steps("half-spaces", max_atoms) as step:
        for _ in range(max_atoms):
            r = (s - values) / n
            value, direction, offset = oracle(r)
            gap = 2.0 * (mass * value - float(r @ values))
            if gap <= tol:
                break
            column = (points @ direction >= offset).astype(float)
            features = np.column_stack([features, column])
            directions, offsets = np.vstack([directions, direction]), np.append(offsets, offset)
            centred = features - features.mean(axis=0)
            masses = _corrective(centred.T @ centred / n, centred.T @ s / n, np.append(masses, 0.0), mass)
            values = mean + centred @ masses
            step()
    intercept = mean - float(features.mean(axis=0) @ masses) if masses.size else mean
    residual = s - values
    loss = float(residual @ residual / n)
    r = residual / n
    certified = q == 2
    largest = largest_halfplane_sum(points, r, max_nodes=max_nodes)[1] if certified else oracle(r)[0]
    gap = 2.0 * (mass * largest - float(r @ values)) + 4.0 * abs(float(r.sum()))
    return HalfspaceFit(
        intercept, masses, directions, offsets, values, loss, max(0.0, loss - max(gap, 0.0)), certified
    )
