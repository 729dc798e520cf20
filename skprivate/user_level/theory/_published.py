"""Algorithms 3, 4 and 5 as published, with their constants, their composition and Laplace noise.

Algorithms 1 and 2 are `private_range` and `winsorized_mean_1d`. All of them hold under replacement of one user; the
number of users is public. They serve to check the theorems: the estimators need less noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, LaplaceEvent, PrivacyEvent, open_branches
from skprivate.user_level._problems import UserProblem, number_of_users
from skprivate.user_level._ranges import n_bins
from skprivate.user_level.descent._descent import project
from skprivate.user_level.means._winsorized import winsorized_means

FloatArray = npt.NDArray[np.float64]
Convexity = Literal["convex", "strongly-convex", "non-convex"]


def padded_size(n_features: int) -> int:
    """Return the next power of two, the number of rotated coordinates."""
    return 1 << max(0, (n_features - 1).bit_length())


def hadamard_transform(x: FloatArray) -> FloatArray:
    """Apply d^{−1/2} H, the orthonormal Walsh–Hadamard transform, to the rows; it is its own inverse.

    d is a power of two. A C-contiguous float64 array is overwritten.
    """
    y = np.ascontiguousarray(x, dtype=np.float64)
    d = y.shape[-1]
    if d & (d - 1):
        raise ValueError(f"the length must be a power of two, got {d}.")
    half = 1
    while half < d:
        pairs = y.reshape(*y.shape[:-1], d // (2 * half), 2, half)
        upper = pairs[..., 0, :] + pairs[..., 1, :]
        pairs[..., 1, :] = pairs[..., 0, :] - pairs[..., 1, :]
        pairs[..., 0, :] = upper
        half *= 2
    y /= math.sqrt(d)
    return y


class RandomRotation:
    """U = d^{−1/2} H D with public random signs D, which spreads every vector evenly over the coordinates.

    Vectors are padded with zeros to the next power of two.
    """

    def __init__(self, n_features: int, rng: np.random.Generator) -> None:
        self.n_features = n_features
        self.padded = padded_size(n_features)
        self.signs = rng.integers(0, 2, size=self.padded) * 2.0 - 1.0

    def forward(self, x: FloatArray) -> FloatArray:
        """Rotate vectors of shape (..., n_features) into shape (..., padded)."""
        padded = np.zeros((*x.shape[:-1], self.padded))
        padded[..., : self.n_features] = x
        padded *= self.signs
        return hadamard_transform(padded)

    def columns(self, x: FloatArray) -> FloatArray:
        """Rotate vectors, coordinates first: shape (padded, n)."""
        return np.ascontiguousarray(self.forward(x).T)

    def backward(self, y: FloatArray) -> FloatArray:
        """Rotate back and drop the padding."""
        return (hadamard_transform(np.array(y)) * self.signs)[..., : self.n_features]


def rotated_radius(tau: float, n_features: int, n_users: int, gamma: float) -> float:
    """Return τ' = 10 τ √(ln(dn/γ)/d) of Algorithm 3, the radius of every rotated coordinate."""
    return 10.0 * tau * math.sqrt(math.log(n_features * n_users / gamma) / n_features)


def coordinate_epsilon(epsilon: float, delta: float, n_features: int) -> float:
    """Return ε' = ε/√(8 d ln(1/δ)) of Algorithm 3, the pure price of a coordinate under strong composition."""
    return epsilon / math.sqrt(8.0 * n_features * math.log(1.0 / delta))


def winsorized_mean(
    x: Any,
    *,
    epsilon: float,
    delta: float,
    tau: float,
    bound: float,
    gamma: float,
    release: Any,
    n_features: int | None = None,
) -> FloatArray:
    """Release the mean of one vector per user (Algorithm 3, WinsorizedMeanHighD), with the paper's constants.

    ``x`` has shape (n_users, d), or is such blocks with ``n_features`` = d. The price (ε, δ) holds under strong
    composition over the coordinates: each, rounded up to a power of two, is a selection and a Laplace draw at half of
    ε/√(8 d ln(1/δ)). ``tau`` is the public ℓ2 concentration radius, ``bound`` a public bound on the norms, and
    ``gamma`` the probability with which concentration may fail. The rotation adds and subtracts entries of one vector
    only, so a user's rotated vector does not depend on the others. An entry that overflows is clipped; NaN counts as
    the middle of the interval.
    """
    rows = as_partitions(x)
    n_users = int(rows.sum(number_of_users)[0])
    rotation = RandomRotation(n_features or x.shape[1], release.public_rng)
    d = rotation.padded
    with np.errstate(all="ignore"):  # a warning about an overflow would reveal something about a user
        rotated = rows.map(rotation.columns)
    # A rotated coordinate of a vector of norm at most B is at most B; the paper's √d·B is looser.
    means = winsorized_means(
        rotated,
        n_users,
        epsilon=coordinate_epsilon(epsilon, delta, d),
        tau=rotated_radius(tau, d, n_users, gamma),
        bound=bound,
        release=release,
    )
    return rotation.backward(np.array(means))


@dataclass(frozen=True)
class PaperPlan:
    """Public numbers of Algorithm 4, in the paper's symbols: T, τ, G, γ, η and R.

    ``convexity`` is a variant of Proposition 3: averaged iterate; weighted average and one restart with decreasing
    steps; or a uniformly random iterate. ``gamma`` is the probability with which concentration may fail.
    """

    epsilon: float
    delta: float
    n_steps: int
    tau: float
    bound: float
    gamma: float
    step: float
    radius: float
    convexity: Convexity

    @property
    def step_epsilon(self) -> float:
        """ε' = ε/(2√(2T ln(2/δ)))."""
        return self.epsilon / (2.0 * math.sqrt(2.0 * self.n_steps * math.log(2.0 / self.delta)))

    @property
    def step_delta(self) -> float:
        """δ' = δ/(2T)."""
        return self.delta / (2.0 * self.n_steps)

    def events(self, n_coef: int) -> list[tuple[PrivacyEvent, int]]:
        """List the draws of `winsorized_descent`; refuses ranges whose bins cannot be numbered."""
        padded = padded_size(n_coef)
        # The radius of the rotated coordinates grows with the number of users: one user has the most bins.
        for n_users in (1, 2**62):
            n_bins(self.bound, rotated_radius(self.tau, padded, n_users, self.gamma))
        price = coordinate_epsilon(self.step_epsilon, self.step_delta, padded) / 2.0
        draws = self.n_steps * padded
        return [(BoundedRangeEvent(price), draws), (LaplaceEvent(price), draws)]


def winsorized_descent(
    data: Partitions | UserProblem,
    plan: PaperPlan,
    n_coef: int,
    release: Any,
    *,
    start: FloatArray | None = None,
    pull: float = 0.0,
) -> FloatArray:
    """Minimise the users' mean objective by steps along winsorised means of their gradients (Algorithm 4, Theorem 4).

    ``data.user_gradients(w)`` has one row a user, a function of that user's rows alone (``Objective.problem``). The
    release is opened for ``plan.events(n_coef)``. ``pull`` is the strength λ of a public term λ/2·‖w − start‖².
    """
    rows = as_partitions(data)
    start = np.zeros(n_coef) if start is None else start

    def direction(w: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):  # a warning about an overflow would reveal something about a user
            gradients = rows.map(methodcaller("user_gradients", w)).persisted()
        return pull * (w - start) + winsorized_mean(
            gradients,
            epsilon=plan.step_epsilon,
            delta=plan.step_delta,
            tau=plan.tau,
            bound=plan.bound,
            gamma=plan.gamma,
            release=release,
            n_features=n_coef,
        )

    if plan.convexity == "strongly-convex":
        first = plan.n_steps // 2
        middle = (
            _run(direction, start, [plan.step] * first, plan.radius, weighted=True)[0] if first else start
        )
        steps = [plan.step * 2.0 / (t + 2.0) for t in range(plan.n_steps - first)]
        return _run(direction, middle, steps, plan.radius, weighted=True)[0]
    mean, iterates = _run(direction, start, [plan.step] * plan.n_steps, plan.radius, weighted=False)
    if plan.convexity == "convex":
        return mean
    return iterates[int(release.public_rng.integers(plan.n_steps))]


def phased_descent(
    phases: Sequence[Partitions | UserProblem], plan: PaperPlan, n_coef: int, release: Any, *, pull: float
) -> FloatArray:
    """Minimise the risk by ever more strongly regularised problems on disjoint users (Algorithm 5, Theorem 5).

    ``phases`` are problems as in `winsorized_descent`; phase s = 1, 2, … has n/2ˢ of the users. No user is in two, and
    an exchanged user stays in its own, so all phases cost what one costs, ``plan.events(n_coef)``. Phase s adds
    λ_s/2·‖w − w_{s−1}‖² with λ_s = 4ˢ·``pull``, and takes steps of 1/(1/``plan.step`` + λ_s).
    """
    w = np.zeros(n_coef)
    branches = open_branches(release, len(phases), plan.events(n_coef), fixed_assignment=True)
    for s, (phase, branch) in enumerate(zip(phases, branches, strict=True), 1):
        strength = 4.0**s * pull
        steps = replace(plan, step=1.0 / (1.0 / plan.step + strength))
        w = winsorized_descent(phase, steps, n_coef, branch, start=w, pull=strength)
    return w


def _run(
    direction: Callable[[FloatArray], FloatArray],
    w: FloatArray,
    steps: list[float],
    radius: float,
    *,
    weighted: bool,
) -> tuple[FloatArray, list[FloatArray]]:
    """Descend with projections; return the mean of the iterates, weighted by 1, 2, 3, … or evenly, and all of them."""
    iterates = []
    for step in steps:
        w = project(w - step * direction(w), radius)
        iterates.append(w)
    weights = np.arange(1.0, len(steps) + 1.0) if weighted else np.ones(len(steps))
    return np.asarray(np.average(iterates, axis=0, weights=weights)), iterates
