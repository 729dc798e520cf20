"""Learning with user-level privacy, as published: Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh, NeurIPS 2021.

Algorithms 1 to 5 with the paper's constants, composition and Laplace noise. n users have m rows each; replacing all
rows of one user gives a neighbouring data set. The estimators of `skprivate.user_level` need less noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, column_or_1d

from skprivate import privacy, user_level
from skprivate._messages import must_be, one_of, positive
from skprivate.partitions import InMemory, Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, Branch, LaplaceEvent, PrivacyEvent, RandomStateLike, Release
from skprivate.user_level import Objective, UserData, UserProblem

__all__ = [
    "Plan",
    "PublishedFit",
    "phased_erm",
    "private_range",
    "winsorized_erm",
    "winsorized_mean",
    "winsorized_mean_1d",
]

FloatArray = npt.NDArray[np.float64]
Convexity = Literal["convex", "strongly-convex", "non-convex"]
Loss = Literal["squared", "huber", "log"]

_LOSSES: dict[str, Any] = {
    "squared": user_level.SquaredLoss(),
    "huber": user_level.HuberLoss(1.35),
    "log": user_level.LogisticLoss(),
}


def private_range(
    x: FloatArray, *, epsilon: float, tau: float, bound: float, release: Release, monotone: bool = False
) -> tuple[float, float]:
    """Select an interval of length 4τ around a private median: Algorithm 1, PrivateRange.

    Parameters
    ----------
    x : ndarray of shape (n_users,)
        One value a user.
    epsilon : float
        Cost of the draw, which is ε-bounded-range.
    tau : float
        τ.
    bound : float
        B, at most 2⁶² times τ.
    release : Release
        Opened for the user as unit.
    monotone : bool, default=False
        Whether neighbours have one user more or less: a cost then rises by 0 or 1.

    Returns
    -------
    low, high : float
        One point where 2τ is below the precision of float64.

    See Also
    --------
    winsorized_mean_1d : Averages within it.

    Notes
    -----
    Bins of width 2τ cover [−B, B]; every value is snapped to its bin. Bin j costs c(j) = max(#{values below}, #{values
    above}), and is drawn with P(j) ∝ exp(−ε c(j)/2), or exp(−ε c(j)) where monotone. Replacing one value changes every
    cost by at most 1. The cost is constant on every run of bins between occupied ones, so a run is one category whose
    multiplicity is its number of bins: time O(n log n + log(B/τ)).
    """
    counts = np.unique(user_level.snap(np.asarray(x, dtype=np.float64), tau, bound), return_counts=True)
    middle = user_level.select_middle(counts, epsilon=epsilon, tau=tau, bound=bound, release=release, monotone=monotone)
    return middle - 2.0 * tau, middle + 2.0 * tau


def winsorized_mean_1d(x: FloatArray, *, epsilon: float, tau: float, bound: float, release: Release | Branch) -> float:
    """Release the mean of one number per user, clipped to a private interval: Algorithm 2, WinsorizedMean1D.

    Parameters
    ----------
    x : ndarray of shape (n_users,)
        One value a user; how many is public.
    epsilon : float
        Cost of both draws together.
    tau, bound : float
        As in `private_range`.
    release : Release
        Opened for the user as unit.

    Returns
    -------
    float

    See Also
    --------
    private_range : Is its first draw.

    Notes
    -----
    [a, b] = PrivateRange(x, ε/2, τ, B) has length 4τ; returns mean(clip(x, a, b)) + Lap(8τ/(nε)). The users' offsets
    from the middle of [a, b], which is released, are summed as integers: wherever the interval is, replacing one user
    moves the sum by at most the 2ᵇⁱᵗˢ steps of its length.
    """
    rows = InMemory(np.asarray(x, dtype=np.float64)[None])
    return user_level.winsorized_means(rows, len(x), epsilon=epsilon, tau=tau, bound=bound, release=release)[0]


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
    """Return ε' = ε/√(8 d ln(1/δ)) of Algorithm 3, the pure cost of a coordinate under strong composition."""
    return epsilon / math.sqrt(8.0 * n_features * math.log(1.0 / delta))


def winsorized_mean(
    x: Any,
    *,
    epsilon: float,
    delta: float,
    tau: float,
    bound: float,
    gamma: float,
    release: Release | Branch,
    n_features: int | None = None,
) -> FloatArray:
    """Release the mean of one vector per user: Algorithm 3, WinsorizedMeanHighD, of Theorem 2.

    Parameters
    ----------
    x : array of shape (n_users, d), or blocks of such rows
        An entry that overflows is clipped; NaN counts as the middle of the interval.
    epsilon, delta : float
        Cost under strong composition over the coordinates, d rounded up to a power of two: each is a selection and a
        Laplace draw at half of ε/√(8 d ln(1/δ)).
    tau : float
        Public ℓ2 concentration radius.
    bound : float
        Public bound on the norms.
    gamma : float
        Probability with which concentration may fail.
    release : Release
        Opened for the user as unit.
    n_features : int, optional
        d, for blocks.

    Returns
    -------
    ndarray of shape (d,)
    """
    # The rotation adds and subtracts entries of one vector only: a user's does not depend on the others.
    rows = as_partitions(x)
    n_users = int(rows.sum(user_level.number_of_users)[0])
    rotation = RandomRotation(n_features or x.shape[1], release.public_rng)
    d = rotation.padded
    with np.errstate(all="ignore"):  # a warning about an overflow would reveal something about a user
        rotated = rows.map(rotation.columns)
    # A rotated coordinate of a vector of norm at most B is at most B; the paper's √d·B is looser.
    means = user_level.winsorized_means(
        rotated,
        n_users,
        epsilon=coordinate_epsilon(epsilon, delta, d),
        tau=rotated_radius(tau, d, n_users, gamma),
        bound=bound,
        release=release,
    )
    return rotation.backward(np.array(means))


@dataclass(frozen=True)
class Plan:
    """Public numbers of Algorithm 4.

    Attributes
    ----------
    epsilon, delta : float
        Budget of the whole descent.
    n_steps : int
        T.
    tau : float
        τ, concentration radius of the users' mean gradients (Proposition 1).
    bound : float
        G, bound on the norms of gradients.
    gamma : float
        γ, probability with which concentration may fail in a step.
    step : float
        η.
    radius : float
        R, radius of the ball of parameters.
    convexity : {"convex", "strongly-convex", "non-convex"}
        Variant of Proposition 3: averaged iterate; weighted average and one restart with decreasing steps; or a
        uniformly random iterate.
    """

    epsilon: float
    delta: float
    n_steps: int
    tau: float
    bound: float
    gamma: float
    step: float
    radius: float
    convexity: Convexity = "convex"

    @property
    def step_epsilon(self) -> float:
        """ε' = ε/(2√(2T ln(2/δ)))."""
        return self.epsilon / (2.0 * math.sqrt(2.0 * self.n_steps * math.log(2.0 / self.delta)))

    @property
    def step_delta(self) -> float:
        """δ' = δ/(2T)."""
        return self.delta / (2.0 * self.n_steps)

    def events(self, n_coef: int) -> list[tuple[PrivacyEvent, int]]:
        """List the draws for ``n_coef`` parameters; refuse ranges whose bins cannot be numbered."""
        padded = padded_size(n_coef)
        # The radius of the rotated coordinates grows with the number of users: one user has the most bins.
        for n_users in (1, 2**62):
            user_level.n_bins(self.bound, rotated_radius(self.tau, padded, n_users, self.gamma))
        cost = coordinate_epsilon(self.step_epsilon, self.step_delta, padded) / 2.0
        draws = self.n_steps * padded
        return [(BoundedRangeEvent(cost), draws), (LaplaceEvent(cost), draws)]


def winsorized_descent(
    data: Partitions | UserProblem,
    plan: Plan,
    n_coef: int,
    release: Release | Branch,
    *,
    start: FloatArray | None = None,
    pull: float = 0.0,
) -> FloatArray:
    """Descend along winsorised means of users' gradients, ``data.user_gradients(w)``, in an open release.

    ``pull`` is the strength λ of a public term λ/2·‖w − start‖².
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
        middle = _run(direction, start, [plan.step] * first, plan.radius, weighted=True)[0] if first else start
        steps = [plan.step * 2.0 / (t + 2.0) for t in range(plan.n_steps - first)]
        return _run(direction, middle, steps, plan.radius, weighted=True)[0]
    mean, iterates = _run(direction, start, [plan.step] * plan.n_steps, plan.radius, weighted=False)
    if plan.convexity == "convex":
        return mean
    return iterates[int(release.public_rng.integers(plan.n_steps))]


def phased_descent(
    phases: Sequence[Partitions | UserProblem], plan: Plan, n_coef: int, release: Release, *, pull: float
) -> FloatArray:
    """Solve one regularised problem after the other, in branches that cost what one costs.

    An exchanged user stays in its phase. Phase s takes steps of 1/(1/``plan.step`` + λ_s).
    """
    w = np.zeros(n_coef)
    branches = privacy.open_branches(release, len(phases), plan.events(n_coef), fixed_assignment=True)
    for s, (phase, branch) in enumerate(zip(phases, branches, strict=True), 1):
        strength = 4.0**s * pull
        steps = replace(plan, step=1.0 / (1.0 / plan.step + strength))
        w = winsorized_descent(phase, steps, n_coef, branch, start=w, pull=strength)
    return w


class PublishedFit(NamedTuple):
    """Released parameters, the intercept last, and what was paid for them.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    guarantee : PrivacyGuarantee
    """

    coef: FloatArray
    guarantee: privacy.PrivacyGuarantee


def winsorized_erm(
    X: Any,
    y: Any,
    user_ids: Any,
    plan: Plan,
    *,
    loss: Loss = "squared",
    fit_intercept: bool = True,
    random_state: RandomStateLike = None,
) -> PublishedFit:
    """Minimise the users' mean loss: Algorithm 4, winsorised first-order optimisation, of Theorem 4.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        Numbers; -1 and 1 for ``loss="log"``.
    user_ids : array-like of shape (n_rows,)
        Who each row belongs to. Their number is public.
    plan : Plan
        Public numbers.
    loss : {"squared", "huber", "log"}, default="squared"
    fit_intercept : bool, default=True
    random_state : int or None, default=None
        None: secure noise. An integer simulates noise that is not valid for release.

    Returns
    -------
    PublishedFit

    See Also
    --------
    phased_erm : Minimises the population's risk.
    skprivate.UserLevelSGDRegressor : Needs less noise, and no plan.

    Notes
    -----
    *Guarantee.* (ε, δ) of the plan, for one user, replace-one: each of the T steps is Algorithm 3 at ε′ and δ′.
    """
    data, objective = _linear_model(X, y, user_ids, loss, fit_intercept)
    with _published(plan, objective.n_coef, "Theorem 4", random_state) as release:
        coef = winsorized_descent(objective.problem(data), plan, objective.n_coef, release)
    return PublishedFit(coef, release.close())


def phased_erm(
    X: Any,
    y: Any,
    user_ids: Any,
    plan: Plan,
    *,
    regularisation: float,
    loss: Loss = "squared",
    fit_intercept: bool = True,
    random_state: RandomStateLike = None,
) -> PublishedFit:
    """Minimise the population's risk: Algorithm 5, phased empirical risk minimisation, of Theorem 5.

    Phase s = 1, 2, … has n/2ˢ users of its own, dealt at random. It adds λ_s/2·‖w − w_{s−1}‖² with λ_s = 4ˢ·λ.

    Parameters
    ----------
    X, y, user_ids
        As in `winsorized_erm`.
    plan : Plan
        One for all phases, where the paper sets T, τ and γ for each. Phase s takes steps of 1/(1/η + λ_s).
    regularisation : float > 0
        λ.
    loss, fit_intercept, random_state
        As in `winsorized_erm`.

    Returns
    -------
    PublishedFit

    See Also
    --------
    winsorized_erm : Solves one problem.
    skprivate.papers.user_level_bounds.risk_bound : Bounds the excess risk.

    Notes
    -----
    *Guarantee.* (ε, δ) of the plan, for one user, replace-one: groups are disjoint, so that phases do not compose.
    Assumed: the list of identifiers is public, and an exchanged user keeps the identifier.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.user_level import Plan, phased_erm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40_000, 2))
    >>> y = X @ [0.5, -0.3] + 0.1 * rng.normal(size=40_000)
    >>> plan = Plan(10.0, 1e-6, n_steps=4, tau=0.6, bound=10.0, gamma=0.05, step=1.0, radius=2.0)
    >>> fit = phased_erm(X, y, np.arange(40_000) // 8, plan, regularisation=1e-3, fit_intercept=False)
    >>> bool(fit.guarantee.epsilon <= 10.0)
    True
    """
    positive("regularisation", regularisation)
    data, objective = _linear_model(X, y, user_ids, loss, fit_intercept)
    n_users, n_coef = data.groups.n_users, objective.n_coef
    with _published(plan, n_coef, "Theorem 5", random_state, "the list of identifiers is public") as release:
        order, first, phases = release.public_rng.permutation(n_users), 0, []
        while (size := (n_users - first) // 2 or n_users - first) and first < n_users:
            phases.append(objective.problem(data.subset(np.sort(order[first : first + size]))))
            first += size
        coef = phased_descent(phases, plan, n_coef, release, pull=regularisation)
    return PublishedFit(coef, release.close())


def _linear_model(X: Any, y: Any, user_ids: Any, loss: str, fit_intercept: bool) -> tuple[UserData, Objective]:
    """Bring rows of users together, and state the objective."""
    if loss not in _LOSSES:
        raise ValueError(must_be("loss", one_of(tuple(_LOSSES)), loss))
    X = check_array(X, dtype=np.float64)
    y = column_or_1d(y).astype(np.float64)
    check_consistent_length(X, y, user_ids)
    codes, names = user_level.encode_users(user_ids, len(X))
    objective = Objective(_LOSSES[loss], X.shape[1], 1, fit_intercept)
    return UserData(X, y, user_level.UserGroups(codes), names), objective


def _published(plan: Plan, n_coef: int, theorem: str, random_state: RandomStateLike, *assumptions: str) -> Release:
    """Open the release of a published algorithm."""
    return privacy.open_release(
        epsilon=plan.epsilon,
        delta=plan.delta,
        unit="user",
        adjacency="replace-one",
        plan=plan.events(n_coef),
        theorem=f"Levy et al. 2021, {theorem}",
        assumptions=("the number of users is public", *assumptions),
        random_state=random_state,
    )


def _run(
    direction: Callable[[FloatArray], FloatArray], w: FloatArray, steps: list[float], radius: float, *, weighted: bool
) -> tuple[FloatArray, list[FloatArray]]:
    """Descend with projections; return the mean of the iterates, weighted by 1, 2, 3, … or evenly, and all of them."""
    iterates = []
    for step in steps:
        w = user_level.project(w - step * direction(w), radius)
        iterates.append(w)
    weights = np.arange(1.0, len(steps) + 1.0) if weighted else np.ones(len(steps))
    return np.asarray(np.average(iterates, axis=0, weights=weights)), iterates
