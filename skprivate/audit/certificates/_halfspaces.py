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

from skprivate.audit.certificates import _halfplanes
from skprivate.audit.certificates._conditional_gradient import Candidates, MixtureFit
from skprivate.audit.certificates._halfplanes import HalfspaceSum, TurningLine

Array = npt.NDArray[np.float64]

#: Points in the plane for which a turning line is tried: n² orders of 4 bytes are kept.
_MOST_TURNED = 5000
#: So few that the turning line is the search as well.
_FEW_TURNED = 1200
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


class _Halfspaces(MixtureFit):
    """A mixture of half-spaces; an atom is its direction and its offset."""

    name, negligible = "half-spaces", 0.5

    def __init__(self, points: Array, s: Array, mass: float, rng: np.random.Generator, max_nodes: int) -> None:
        super().__init__(points, s, mass)
        self._max_nodes = max_nodes
        self._turns = self.points.shape[1] == 2 and len(self.points) <= _MOST_TURNED
        cheap = self._turns and len(self.points) <= _FEW_TURNED
        self._line = TurningLine(self.points) if cheap else None
        self._directions = None if cheap else _Directions(self.points, rng)
        self.most_rounds = _MANY_ROUNDS if cheap else _MOST_ROUNDS
        self.atoms, self.features = np.empty((0, self.points.shape[1] + 1)), np.empty((len(self.points), 0))

    def search(self, r: Array) -> Candidates:
        return _candidates([] if self._directions is None else self._directions.best(r, _AT_ONCE))

    def bound(self, r: Array, enough: float, refuted: float) -> Candidates:
        if self._line is None:
            for nodes in (_FEW_NODES,) if self._turns else (_FEW_NODES, self._max_nodes):
                best = _halfplanes.largest_halfspace_sum(
                    self.points, r, enough=enough, refuted=refuted, max_nodes=nodes
                )
                if best.value > refuted or best.upper <= max(enough, best.value * (1.0 + 1e-9)):
                    return _candidates([best])
            if not self._turns:
                return _candidates([best])
            self._line = TurningLine(self.points)
        _, upper, directions = self._line.largest(r, _AT_ONCE)
        offsets = [_halfplanes.best_offset(self.points @ direction, r) for direction in directions]
        atoms = np.column_stack([directions, [offset for offset, _ in offsets]])
        return Candidates(atoms, np.array([value for _, value in offsets]), upper)

    def enter(self, atoms: Array) -> Array:
        columns = [(self.points @ atom[:-1] >= atom[-1]).astype(float) for atom in atoms]
        self.atoms, self.features = np.vstack([self.atoms, atoms]), np.column_stack([self.features, *columns])
        return self.features

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self.atoms, self.features = self.atoms[kept], self.features[:, kept]


def _candidates(found: list[HalfspaceSum]) -> Candidates:
    atoms = np.array([[*half.direction, half.offset] for half in found])
    return Candidates(atoms, np.array([half.value for half in found]), found[0].upper if found else math.inf)


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
    """Fit mixtures of half-spaces of a total mass to s = ±1, by least squares."""
    varying = np.flatnonzero((points != points[0]).any(axis=0))
    if 2 <= varying.size < points.shape[1]:
        # A normal along a column that does not vary parts no points, and no box around it is ever decided.
        options: Any = {"max_atoms": max_atoms, "tol": tol, "max_nodes": max_nodes}
        fit = fit_halfspaces(points[:, varying], s, mass, rng, **options)
        directions, exponents = (np.zeros((fit.masses.size, points.shape[1])), np.zeros(points.shape[1], np.intp))
        directions[:, varying], exponents[varying] = fit.directions, fit.exponents
        return fit._replace(directions=directions, exponents=exponents)
    points, exponents = _halfplanes.power_of_two_scale(points)
    found = _Halfspaces(points, s, mass, rng, max_nodes)
    found.run(max_atoms, tol)
    values, loss = found.fitted()
    return HalfspaceFit(
        intercept=found.intercept(found.features),
        masses=found.masses,
        directions=found.atoms[:, :-1],
        offsets=found.atoms[:, -1],
        exponents=exponents,
        values=values,
        loss=loss,
        lower_bound=min(found.lower_bound, loss),
    )
