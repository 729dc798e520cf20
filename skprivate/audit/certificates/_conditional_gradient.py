"""Least squares over mixtures of atoms with a bounded total mass, by fully corrective conditional gradient.

The fit is a constant plus ``Σ masses_j atom_j``, ``Σ|masses_j| ≤ radius``. The oracle is ``max over atoms
|Σ r_i atom(t_i)|``, r the residuals: a search finds good atoms, and a bound on all of them certifies the fit. Both hand
back what the fit missed, and it goes on with that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skprivate._sklearn import steps

Array = npt.NDArray[np.float64]


class Candidates(NamedTuple):
    """Atoms, one a row of parameters; what residuals sum to over each; and a bound on that of any atom."""

    atoms: Array
    reached: Array
    upper: float = math.inf


class MixtureFit(ABC):
    """A mixture of atoms that is fitted to s, at distinct points; subclasses hold the atoms."""

    name: str
    #: Bounds on all atoms that are asked for at most.
    most_rounds: int
    #: The fit ends where no atom is found that lowers the loss by more than this share of the tolerance.
    negligible: float

    def __init__(self, points: Array, s: Array, radius: float) -> None:
        self.points, inverse = np.unique(points, axis=0, return_inverse=True)
        self._inverse, self._s, self.radius = inverse.ravel(), s, radius
        self.weight = np.bincount(self._inverse) / len(s)
        self._target = np.bincount(self._inverse, weights=s) / len(s)  # means of s, times the weights
        self.mean, self.lower_bound = float(s.mean()), 0.0
        self.masses = np.empty(0)
        self._values = np.full(len(self.points), self.mean)

    @abstractmethod
    def search(self, r: Array) -> Candidates:
        """Find good atoms, none of them certified; none where the bound is as cheap."""

    @abstractmethod
    def bound(self, r: Array, enough: float, refuted: float) -> Candidates:
        """Bound all atoms: by no more than ``enough``, unless one is found above ``refuted``."""

    @abstractmethod
    def enter(self, atoms: Array) -> Array:
        """Add atoms; return the values of all at the distinct points, one column an atom."""

    @abstractmethod
    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Drop the other atoms."""

    def run(self, max_atoms: int, tol: float) -> None:
        """Add atoms until the loss is within ``tol`` of the least, or no more may come."""
        rounds = 0
        with steps(self.name, max_atoms) as step:
            while True:
                r = self._target - self.weight * self._values
                explained = float(r @ self._values)
                found = self.search(r)
                full = self.masses.size >= max_atoms or rounds == self.most_rounds - 1
                missed = 2.0 * (self.radius * float(found.reached.max(initial=0.0)) - explained)
                if full or not found.reached.size or missed <= tol / 2.0:
                    enough = (explained + tol / 2.0) / self.radius if self.radius else math.inf
                    found = self.bound(r, enough, math.inf if full else enough)
                    gap = self._certify(self.radius * found.upper)
                    missed = 2.0 * (self.radius * float(found.reached.max()) - explained)
                    rounds += 1
                    if full or missed <= self.negligible * tol or gap <= tol:
                        return
                new = found.atoms[2.0 * (self.radius * found.reached - explained) > 0.0]
                self._refit(self.enter(new), max(tol, 0.5 * missed) / 10.0)
                for _ in new:
                    step()

    def intercept(self, features: Array) -> float:
        """Compute the constant beside atoms of these values at the distinct points."""
        return self.mean - float((self.weight @ features) @ self.masses)

    def fitted(self) -> tuple[Array, float]:
        """Return the values at all points, and their loss."""
        values = self._values[self._inverse]
        return values, float((self._s - values) @ (self._s - values) / len(self._s))

    def _certify(self, largest: float) -> float:
        """Raise the bound on the loss of the class, and return the duality gap.

        ``largest`` bounds what residuals sum to over any function of the class, without its constant.
        """
        r = self._target - self.weight * self._values
        gap = 2.0 * (largest - float(r @ self._values)) + 4.0 * abs(float(r.sum()))
        reached = 1.0 - float((2.0 * self._target - self.weight * self._values) @ self._values)
        # From x² ≥ 2ux − u² for every residual x, with u in proportion to those of the fit.
        certified = max(reached - max(gap, 0.0) / 2.0, 0.0) ** 2 / max(reached, 1e-300)
        self.lower_bound = max(self.lower_bound, certified)
        return gap

    def _refit(self, features: Array, tol: float) -> None:
        centred = features - self.weight @ features
        start = np.append(self.masses, np.zeros(features.shape[1] - self.masses.size))
        gram = centred.T @ (self.weight[:, None] * centred)
        masses = _corrective(gram, centred.T @ self._target, start, self.radius, tol)
        kept = masses != 0.0
        self.keep(kept)
        self.masses = masses[kept]
        self._values = self.mean + centred[:, kept] @ self.masses


def _corrective(gram: Array, target: Array, start: Array, radius: float, tol: float) -> Array:
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


def _project_l1(v: Array, radius: float) -> Array:
    """Project onto the ball ``Σ|v| ≤ radius``."""
    magnitude = np.abs(v)
    if magnitude.sum() <= radius:
        return v
    ordered = np.sort(magnitude)[::-1]
    cumulative = np.cumsum(ordered) - radius
    count = np.flatnonzero(ordered - cumulative / np.arange(1, v.size + 1) > 0.0)[-1]
    shrink = cumulative[count] / (count + 1.0)
    return np.asarray(np.sign(v) * np.maximum(magnitude - shrink, 0.0))
