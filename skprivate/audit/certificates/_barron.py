"""Least squares over functions of a bounded Barron constant in q ≥ 2 dimensions, with a duality gap.

A function with ``∫ |ω| |f̂(ω)| dω ≤ C`` (normalised as in `skprivate.papers.auditing`) is a constant plus a mixture of
waves ``cos(ω·t + θ)/|ω|`` of total mass at most C. Half-spaces, of which these waves are mixtures, make a larger class:
their mass is C times the diameter of the support.

The oracle of the conditional gradient is ``max over ω of |R(ω)|/|ω|``, ``R(ω) = Σ r_i (exp(iω·t_i) − 1)``. What
certifies the fit is an upper bound on it by branch and bound over boxes of ω. In a box around ω₀, with D the gradient
of R and δ = ω − ω₀,

    |R(ω) − R(ω₀) − δ·D| ≤ ½ Σ |r_i| (δ·t_i)².

Near 0, where waves become linear functions, the expansion goes on to third order. Where |ω| is above Σ|r_i| over the
bound, no wave reaches it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from skprivate.audit.certificates._conditional_gradient import Candidates, MixtureFit

Array = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

#: Boxes that are split at a time, and most rows times frequencies that are evaluated at a time.
_AT_ONCE, _WORK = 256, 2**21
#: Frequencies that are searched for new waves, and those that are refined; most bounds of a fit.
_SEARCHED, _REFINED, _MOST_ROUNDS = 1000, 6, 12
#: A wave so long that it is a linear function, over the scale of the points.
_LINEAR = 1e-4
#: Boxes of a bound that only says whether the fit is done.
_FEW_BOXES = 2000


class BarronFit(NamedTuple):
    """The function ``intercept + Σ masses_j cos(frequencies_j · t + phases_j)/|frequencies_j|``, and its optimality."""

    intercept: float
    masses: Array
    frequencies: Array
    phases: Array
    values: Array
    loss: float
    lower_bound: float

    def predict(self, t: Array) -> Array:
        """Values of the function at the rows of ``t``."""
        return self.intercept + _waves(t, self.frequencies, self.phases) @ self.masses


def _waves(points: Array, frequencies: Array, phases: Array) -> Array:
    return np.asarray(np.cos(points @ frequencies.T + phases) / np.linalg.norm(frequencies, axis=1))


class Correlations:
    """The sums R(ω) of one residual r over the points, and bounds on |R(ω)|/|ω|."""

    def __init__(self, points: Array, r: Array) -> None:
        self.points, self.r, self.total = points, r, float(r.sum())
        heavy = np.abs(r)[:, None] * points
        self.second = np.abs(points.T @ heavy)
        self.linear = points.T @ r
        self._signed = float(np.linalg.norm((points.T * r) @ points, 2))
        third = points.T @ (np.linalg.norm(points, axis=1)[:, None] * heavy)
        self._third = float(np.linalg.eigvalsh(third)[-1])
        self.most = float(np.abs(r).sum()) + abs(self.total)
        length = float(np.linalg.norm(self.linear)) * float(np.linalg.norm(points, axis=1).max())
        self.longest = self.linear * (_LINEAR / length) if length else np.full_like(self.linear, _LINEAR)

    def sums(self, frequencies: Array) -> tuple[Complex, Complex]:
        """Compute R and its gradient (n_frequencies, q)."""
        value, gradient = np.empty(len(frequencies), complex), np.empty(frequencies.shape, complex)
        size = max(1, _WORK // len(self.r))
        for low in range(0, len(frequencies), size):
            part = slice(low, low + size)
            angles = frequencies[part] @ self.points.T
            cosine, sine = np.cos(angles) * self.r, np.sin(angles) * self.r
            value[part] = cosine.sum(axis=1) - self.total + 1j * sine.sum(axis=1)
            gradient[part] = 1j * (cosine @ self.points) - sine @ self.points
        return value, gradient

    def rest(self, half: Array) -> Array:
        """Bound R less its expansion to first order, anywhere in boxes of these half-widths."""
        return np.asarray(0.5 * np.einsum("bk,kl,bl->b", half, self.second, half))

    def near_zero(self, radius: Array) -> Array:
        """Bound |R(ω)|/|ω| for |ω| up to a radius by the expansion to third order, whose second term turns by 90°."""
        straight = np.hypot(np.linalg.norm(self.linear), 0.5 * radius * self._signed)
        return np.asarray(straight + radius**2 * self._third / 6.0)

    def boxes(self, centre: Array, half: Array, level: float) -> tuple[Array, Array]:
        """Evaluate |R|/|ω| at centres of boxes, and bound it in each; bounds are tight about ``level``."""
        value, gradient = self.sums(centre)
        size, length = np.abs(value), np.linalg.norm(centre, axis=1)
        near = np.linalg.norm(np.maximum(np.abs(centre) - half, 0.0), axis=1)
        far = np.linalg.norm(np.abs(centre) + half, axis=1)
        rest = self.rest(half)
        move = np.einsum("bk,bk->b", half, np.abs(gradient))
        with np.errstate(divide="ignore", invalid="ignore"):
            along = (value.conj()[:, None] * gradient).real / size[:, None]
            slope = np.einsum("bk,bk->b", half, np.abs(along - level * centre / length[:, None]))
            # |z + w| ≤ |z| + Re(z̄w)/|z| + |w|²/2|z|, and |ω| ≥ ω·ω₀/|ω₀|.
            excess = size + slope + move**2 / (2.0 * size) + rest - level * length
            bound = np.fmin(np.minimum(size + move + rest, self.most) / near, level + np.maximum(excess, 0.0) / near)
            here = np.where(length > 0.0, size / length, 0.0)
        return here, np.fmin(bound, self.near_zero(far))

    def largest(self, enough: float, refuted: float, max_boxes: int) -> tuple[float, float, Array]:
        """Find a large |R|/|ω| with its ω, and a bound on all: below ``enough`` unless one is above ``refuted``."""
        best, where = float(np.linalg.norm(self.linear)), self.longest
        level = max(best, enough) * (1.0 + 1e-9)
        if best > refuted or level <= 0.0:
            return best, math.inf if best > refuted else 0.0, where
        width = self.most / level
        half = np.full((1, self.points.shape[1]), width)
        half[0, 0] /= 2.0  # |R| is the same at −ω
        centre = np.zeros_like(half)
        centre[0, 0] = half[0, 0]
        upper, spread, made = np.array([math.inf]), np.sqrt(np.diag(self.second)), 0
        while upper.size and made < max_boxes:
            order = np.argsort(upper)[::-1]
            split, kept = order[:_AT_ONCE], order[_AT_ONCE:]
            axis = np.argmax(half[split] * spread, axis=1)
            rows = np.arange(split.size)
            smaller, moved = half[split].copy(), np.zeros((split.size, half.shape[1]))
            smaller[rows, axis] /= 2.0
            moved[rows, axis] = smaller[rows, axis]
            centres, halves = (np.vstack([centre[split] - moved, centre[split] + moved]), np.vstack([smaller, smaller]))
            here, bounds = self.boxes(centres, halves, level)
            made += len(centres)
            if here.max() > best:
                best, where = float(here.max()), centres[int(np.argmax(here))]
                level = max(best, enough) * (1.0 + 1e-9)
                if best > refuted:
                    return best, math.inf, where
            centre, half, upper = (
                np.concatenate([a[kept], b]) for a, b in ((centre, centres), (half, halves), (upper, bounds))
            )
            left = upper > level
            centre, half, upper = centre[left], half[left], upper[left]
        return best, max(level, float(upper.max(initial=0.0))), where

    def bounded(self, enough: float, refuted: float, max_boxes: int) -> tuple[float, float, Array]:
        """Find the `largest` with few boxes, or with all if these do not decide."""
        found = self.largest(enough, refuted, _FEW_BOXES)
        if found[0] > enough or found[1] <= enough * (1.0 + 1e-8):
            return found
        return self.largest(enough, refuted, max_boxes)

    def refine(self, frequency: Array) -> Array:
        """Climb from a frequency to a larger |R|/|ω|."""
        if not self.most:
            return frequency

        def falling(w: Array) -> tuple[float, Array]:
            value, gradient = self.sums(w[None])
            size, length = abs(value[0]) ** 2, float(w @ w)
            slope = 2.0 * (value[0].conj() * gradient[0]).real / length - 2.0 * size * w / length**2
            scale = self.most**2
            return -size / length / scale, -slope / scale

        found = minimize(falling, frequency, jac=True, method="BFGS", options={"maxiter": 30})
        return found.x if found.x @ found.x > 0.0 else frequency

    def search(self, tried: Array) -> Candidates:
        """Find frequencies with a large |R|/|ω|, none of them certified."""
        value, _ = self.sums(tried)
        reached = np.abs(value) / np.linalg.norm(tried, axis=1)
        best = [self.refine(tried[k]) for k in np.argsort(reached)[::-1][:_REFINED]]
        frequencies = np.array([*best, self.longest])
        value, _ = self.sums(frequencies)
        return Candidates(frequencies, np.abs(value) / np.linalg.norm(frequencies, axis=1))


class _Waves(MixtureFit):
    """A mixture of waves of a residual; an atom is its frequency, and gets the phase that suits the residual best."""

    name, most_rounds, negligible = "waves", _MOST_ROUNDS, 1.0

    def __init__(self, points: Array, s: Array, constant: float, rng: np.random.Generator, max_boxes: int) -> None:
        super().__init__(points, s, constant)
        self._max_boxes, q = max_boxes, points.shape[1]
        self.centre = self.weight @ self.points
        self.points = self.points - self.centre
        scale = math.sqrt(self.weight @ (self.points**2).sum(axis=1) / max(q, 1)) or 1.0
        self._tried = rng.normal(size=(_SEARCHED, q)) * np.geomspace(0.1, 30.0, _SEARCHED)[:, None] / scale
        self.frequencies, self.phases = np.empty((0, q)), np.empty(0)

    def search(self, r: Array) -> Candidates:
        self._correlations = Correlations(self.points, r)
        return self._correlations.search(self._tried)

    def bound(self, r: Array, enough: float, refuted: float) -> Candidates:
        best, upper, where = self._correlations.bounded(enough, refuted, self._max_boxes)
        return Candidates(self._correlations.refine(where)[None], np.array([best]), upper)

    def enter(self, atoms: Array) -> Array:
        value, _ = self._correlations.sums(atoms)
        self.frequencies = np.vstack([self.frequencies, atoms])
        self.phases = np.append(self.phases, -np.angle(value))
        return _waves(self.points, self.frequencies, self.phases)

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self.frequencies, self.phases = self.frequencies[kept], self.phases[kept]


def fit_barron(
    points: Array,
    s: Array,
    constant: float,
    rng: np.random.Generator,
    *,
    max_waves: int = 100,
    tol: float = 1e-3,
    max_boxes: int = 100_000,
) -> BarronFit:
    """Fit waves of total mass ``constant`` to s, by least squares; the bound holds for labels s = ±1 only."""
    varying = np.flatnonzero((points != points[0]).any(axis=0))  # no box is decided along others
    middle = points[0, varying]
    unit = np.ldexp(1.0, int(np.frexp(np.abs(points[:, varying] - middle).max(initial=0.0))[1]))
    found = _Waves((points[:, varying] - middle) / unit, s, constant * unit, rng, max_boxes)
    only_constants = not (varying.size and found.radius)
    if not only_constants:
        found.run(max_waves, tol)
    values, loss = found.fitted()
    frequencies = np.zeros((found.masses.size, points.shape[1]))
    frequencies[:, varying] = found.frequencies / unit
    return BarronFit(
        intercept=found.intercept(_waves(found.points, found.frequencies, found.phases)),
        masses=found.masses / unit,
        frequencies=frequencies,
        phases=found.phases - frequencies[:, varying] @ (middle + unit * found.centre),
        values=values,
        loss=loss,
        lower_bound=loss if only_constants else min(found.lower_bound, loss),
    )
