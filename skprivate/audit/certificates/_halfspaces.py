"""Least squares over the convex hull of half-space indicators in q ≥ 2 dimensions, with a duality gap.

A function with Barron constant C on a set of diameter d is a constant plus a signed mixture of half-space
indicators of total mass at most ``D = d·C``: write ``f(x) − f(x₀) = ∫ |f̂(ω)| [cos(ω·x + θ) − cos(ω·x₀ + θ)]
dω``; along each direction the cosine is a function of one variable with total variation at most ``|ω| d`` on
the set, hence such a mixture. The class is ``{c + Σ ν_j 1[a_j·t ≥ b_j] : Σ|ν_j| ≤ D}``; with ±1-valued steps
the mass is D/2.

The oracle of the conditional gradient is ``max over half-spaces |Σ_{t_i in half-space} r_i|``. Half-spaces are added
by a search along many directions, whose orders of the points are computed once. What certifies the result is an upper
bound on the oracle: branch and bound over the normal (`largest_halfspace_sum`), and in the plane, where points on
common lines keep that from closing, a line turned about every point (`TurningLine`). Both hand back the half-space
that the search missed, and the fit goes on with it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate._sklearn import steps
from skprivate.audit.certificates import _halfplanes
from skprivate.audit.certificates._halfplanes import HalfspaceSum, TurningLine

Array = npt.NDArray[np.float64]

#: Points in the plane for which a turning line is tried: n² orders of 4 bytes are kept.
_MOST_TURNED = 5000
#: So few that the turning line is the search as well.
_FEW_TURNED = 1200
#: How well the masses are fitted, as a share of what the half-spaces leave unexplained.
_SHARE = 0.5
#: Where rows are put that lie further away than all that the fit has seen, which is scaled to lie within 1.
_FAR = 2.0**500
#: Half-spaces that enter the fit at a time.
_AT_ONCE = 8
#: Half-spaces taken from bounds, each of which costs as much as all that the search finds.
_MOST_ROUNDS = 12
_MANY_ROUNDS = 40
#: Boxes of a bound that only says whether the fit is done.
_FEW_NODES = 300


class HalfspaceFit(NamedTuple):
    """The function ``intercept + Σ masses_j 1[directions_j · u ≥ offsets_j]``, u = t / 2**exponents; its optimality."""

    intercept: float
    masses: Array
    directions: Array
    offsets: Array
    exponents: npt.NDArray[np.intp]
    values: Array
    loss: float
    lower_bound: float

    def predict(self, t: Array) -> Array:
        """Values of the function at the rows of ``t``."""
        with np.errstate(over="ignore"):
            scaled = np.clip(np.ldexp(t, -self.exponents), -_FAR, _FAR)
        return self.intercept + (scaled @ self.directions.T >= self.offsets) @ self.masses


class _Directions:
    """Many directions with the orders of the points along them."""

    def __init__(self, points: Array, rng: np.random.Generator) -> None:
        q = points.shape[1]
        self.points = points
        spread = points.std(axis=0)
        spread[spread == 0.0] = 1.0
        if q == 2:
            angles = np.arange(128) * np.pi / 128
            normals = np.column_stack([np.cos(angles), np.sin(angles)])
        else:
            normals = np.vstack([np.eye(q), rng.normal(size=(48 * q, q))])
        self.normals = _unit(normals / spread)
        projections = points @ self.normals.T
        self.order = np.argsort(projections, axis=0)[::-1].T.astype(np.int32).copy()
        along = np.take_along_axis(projections.T, self.order.astype(np.int64), axis=1)
        self.tied = along[:, :-1] == along[:, 1:]
        self.ties = bool(self.tied.any())
        self._rng, self._spread = rng, spread

    def best(self, r: Array, count: int) -> list[HalfspaceSum]:
        """Up to ``count`` good half-spaces, the best first; none of them certified."""
        sums = np.cumsum(r[self.order], axis=1)
        if self.ties:
            sums[:, :-1][self.tied] = 0.0
        reached = np.maximum(sums.max(axis=1), -sums.min(axis=1))
        chosen = np.argsort(reached)[::-1][:count]
        return [
            self._refine(self.normals[i], r, turns) for i, turns in zip(chosen, [6, 6, 6, *[0] * count], strict=False)
        ]

    def _refine(self, normal: Array, r: Array, turns: int) -> HalfspaceSum:
        offset, value = _halfplanes.best_offset(self.points @ normal, r)
        length = 0.05
        for _ in range(turns):
            turn = self._rng.normal(size=normal.size) / self._spread
            candidate = _unit((normal + length * np.linalg.norm(normal) * _unit(turn[None])[0])[None])[0]
            at, found = _halfplanes.best_offset(self.points @ candidate, r)
            if found > value:
                normal, offset, value = candidate, at, found
            else:
                length /= 2.0
        return HalfspaceSum(value, math.inf, normal, offset)


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0.0, length, 1.0)


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


def distinct_points(points: Array, s: Array) -> tuple[Array, npt.NDArray[np.intp], Array, Array]:
    """List distinct points, the place of each row, shares of rows, and means of s at a point times its share."""
    distinct, inverse = np.unique(points, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    return distinct, inverse, np.bincount(inverse) / len(s), np.bincount(inverse, weights=s) / len(s)


def certified_loss(largest: float, target: Array, weight: Array, values: Array) -> tuple[float, float]:
    """Find the duality gap of a fit, and a lower bound on the loss of the class.

    ``largest`` bounds what residuals sum to over any function of the class, without its constant.
    """
    r = target - weight * values
    gap = 2.0 * (largest - float(r @ values)) + 4.0 * abs(float(r.sum()))
    reached = 1.0 - float((2.0 * target - weight * values) @ values)
    # From x² ≥ 2ux − u² for every residual x, with u in proportion to those of the fit.
    return gap, max(reached - max(gap, 0.0) / 2.0, 0.0) ** 2 / max(reached, 1e-300)


def corrective(gram: Array, target: Array, start: Array, radius: float, tol: float) -> Array:
    """Minimise ``νᵀGν/2 − targetᵀν`` over the ℓ1 ball by accelerated projected gradient with restarts."""
    lipschitz = max(float(np.linalg.eigvalsh(gram)[-1]), 1e-12)
    x = momentum = start
    t = 1.0
    for count in range(400):
        new = _project_l1(momentum - (gram @ momentum - target) / lipschitz, radius)
        if (momentum - new) @ (new - x) > 0.0:
            t = 1.0
        t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        momentum = new + (t - 1.0) / t_new * (new - x)
        x, t = new, t_new
        if count % 10 == 9:
            gradient = gram @ x - target
            if radius * np.abs(gradient).max(initial=0.0) + gradient @ x <= tol:
                break
    return x


def fit_halfspaces(
    points: Array,
    s: Array,
    mass: float,
    rng: np.random.Generator,
    *,
    max_atoms: int = 100,
    tol: float = 1e-3,
    max_nodes: int = 3000,
) -> HalfspaceFit:
    """Fully corrective conditional gradient for the mean squared error over half-space mixtures."""
    varying = np.flatnonzero((points != points[0]).any(axis=0))
    if 2 <= varying.size < points.shape[1]:
        # A normal along a column that does not vary parts no points, and no box around it is ever decided.
        options: Any = {"max_atoms": max_atoms, "tol": tol, "max_nodes": max_nodes}
        fit = fit_halfspaces(points[:, varying], s, mass, rng, **options)
        directions, exponents = (np.zeros((fit.masses.size, points.shape[1])), np.zeros(points.shape[1], np.intp))
        directions[:, varying], exponents[varying] = fit.directions, fit.exponents
        return fit._replace(directions=directions, exponents=exponents)
    n, q = points.shape
    points, exponents = _halfplanes.power_of_two_scale(points)
    distinct, inverse, weight, target = distinct_points(points, s)
    mean = float(s.mean())
    bound = _Bound(distinct, max_nodes)
    search = None if bound.cheap else _Directions(distinct, rng)
    features = np.empty((len(distinct), 0))
    directions, offsets, masses = np.empty((0, q)), np.empty(0), np.empty(0)
    values = np.full(len(distinct), mean)
    lower, rounds = 0.0, 0

    with steps("half-spaces", max_atoms) as step:
        while True:
            r = target - weight * values
            explained = float(r @ values)
            found = [] if search is None else search.best(r, _AT_ONCE)
            full = masses.size >= max_atoms or rounds == (_MANY_ROUNDS if bound.cheap else _MOST_ROUNDS) - 1
            missed = 2.0 * (mass * max((half.value for half in found), default=math.inf) - explained)
            if full or bound.cheap or missed <= tol / 2.0:
                enough = (explained + tol / 2.0) / mass if mass else math.inf
                found = bound.largest(r, enough, math.inf if full else enough)
                gap, certified = certified_loss(mass * found[0].upper, target, weight, values)
                lower = max(lower, certified)
                missed = 2.0 * (mass * max(half.value for half in found) - explained)
                rounds += 1
                if full or missed <= tol / 2.0 or gap <= tol:
                    break
            new = [half for half in found if 2.0 * (mass * half.value - explained) > 0.0]
            columns = [(distinct @ half.direction >= half.offset).astype(float) for half in new]
            features = np.column_stack([features, *columns])
            directions = np.vstack([directions, *(half.direction for half in new)])
            offsets = np.append(offsets, [half.offset for half in new])
            centred = features - weight @ features
            start = np.append(masses, np.zeros(len(new)))
            gram = centred.T @ (weight[:, None] * centred)
            masses = corrective(gram, centred.T @ target, start, mass, max(tol, _SHARE * missed) / 10.0)
            kept = masses != 0.0
            features, directions, offsets, masses = (features[:, kept], directions[kept], offsets[kept], masses[kept])
            values = mean + centred[:, kept] @ masses
            for _ in new:
                step()
    intercept = mean - float((weight @ features) @ masses) if masses.size else mean
    fitted = values[inverse]
    loss = float((s - fitted) @ (s - fitted) / n)
    return HalfspaceFit(
        intercept=intercept,
        masses=masses,
        directions=directions,
        offsets=offsets,
        exponents=exponents,
        values=fitted,
        loss=loss,
        lower_bound=min(lower, loss),
    )


class _Bound:
    """Upper bounds on what any half-space holds, as cheap as the question allows."""

    def __init__(self, points: Array, max_nodes: int) -> None:
        self._points, self._max_nodes = points, max_nodes
        self._plane = points.shape[1] == 2 and len(points) <= _MOST_TURNED
        self.cheap = self._plane and len(points) <= _FEW_TURNED
        self._line = TurningLine(points) if self.cheap else None

    def largest(self, r: Array, enough: float, refuted: float) -> list[HalfspaceSum]:
        """Good half-spaces, and a bound on all: below ``enough`` unless one holds more than ``refuted``."""
        if self._line is None:
            for nodes in (_FEW_NODES,) if self._plane else (_FEW_NODES, self._max_nodes):
                best = _halfplanes.largest_halfspace_sum(
                    self._points, r, enough=enough, refuted=refuted, max_nodes=nodes
                )
                if best.value > refuted or best.upper <= max(enough, best.value * (1.0 + 1e-9)):
                    return [best]
            if not self._plane:
                return [best]
            self._line = TurningLine(self._points)
        _, upper, directions = self._line.largest(r, _AT_ONCE)
        return [
            HalfspaceSum(value, upper, direction, offset)
            for direction in directions
            for offset, value in [_halfplanes.best_offset(self._points @ direction, r)]
        ]
