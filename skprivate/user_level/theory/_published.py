"""The published algorithm: winsorised first-order optimisation (Algorithm 4, Proposition 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, LaplaceEvent, Mechanism, PrivacyEvent
from skprivate.user_level._problems import Objective, UserData, UserProblem, count_users
from skprivate.user_level._ranges import n_bins
from skprivate.user_level.descent._descent import project
from skprivate.user_level.descent._linear import problems
from skprivate.user_level.descent._result import LinearResult
from skprivate.user_level.means._winsorized import coordinate_epsilon, rotated_radius, winsorized_mean_of

FloatArray = npt.NDArray[np.float64]
Convexity = Literal["convex", "strongly-convex", "non-convex"]


@dataclass(frozen=True)
class PaperPlan:
    """Public numbers of Algorithm 4.

    Attributes
    ----------
    epsilon, delta : float
        The whole budget, under the paper's strong composition.
    n_steps : int
        T.
    tau : float
        Concentration radius τ of the users' mean gradients.
    bound : float
        Bound G on their norms.
    gamma : float
        Probability with which concentration may fail.
    step : float
        Step size.
    radius : float
        Projection radius R.
    convexity : {"convex", "strongly-convex", "non-convex"}
        Which variant of Proposition 3: averaged iterate; weighted average and one restart with decreasing steps; or a
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
        """Everything that a run draws."""
        padded = 1 << max(0, (n_coef - 1).bit_length())
        price = coordinate_epsilon(self.step_epsilon, self.step_delta, padded) / 2.0
        draws = self.n_steps * padded
        return [(BoundedRangeEvent(price), draws), (LaplaceEvent(price), draws)]


@dataclass(frozen=True)
class PaperDescent(Mechanism):
    """Algorithm 4 on a problem with ``n_coef`` coefficients, under replacement of one user; their number is public.

    Attributes
    ----------
    plan : PaperPlan
    n_coef : int
    """

    plan: PaperPlan
    n_coef: int
    theorem = "Algorithm 4 and Theorem 4 (arXiv 2102.11845)"

    def __post_init__(self) -> None:
        # The radius of the rotated coordinates grows with the number of users: one user has the most bins.
        padded = 1 << max(0, (self.n_coef - 1).bit_length())
        for n_users in (1, 2**62):
            n_bins(self.plan.bound, rotated_radius(self.plan.tau, padded, n_users, self.plan.gamma))

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """A selection and a Laplace draw for every rotated coordinate of every step."""
        return self.plan.events(self.n_coef)

    def run(self, data: Partitions | UserProblem, release: Any) -> FloatArray:
        """Descend.

        Parameters
        ----------
        data : UserProblem, or Partitions of them
            Its ``user_gradients(w)`` are functions of one user's rows each.
        release : Release

        Returns
        -------
        ndarray of shape (n_coef,)
        """
        return winsorized_descent(data, self.plan, self.n_coef, release)


def winsorized_descent(
    data: Partitions | UserProblem, plan: PaperPlan, n_coef: int, release: Any
) -> FloatArray:
    """Projected gradient descent on winsorised means of the users' gradients (Algorithm 4)."""
    rows, start = as_partitions(data), np.zeros(n_coef)
    n_users: int | None = None

    def direction(w: FloatArray) -> FloatArray:
        nonlocal n_users
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            gradients = rows.map(methodcaller("user_gradients", w))
        n_users = n_users or int(gradients.sum(_number_of_users)[0])
        return winsorized_mean_of(
            gradients,
            n_users,
            n_coef,
            epsilon=plan.step_epsilon,
            delta=plan.step_delta,
            tau=plan.tau,
            bound=plan.bound,
            gamma=plan.gamma,
            release=release,
        )

    if plan.convexity == "strongly-convex":
        first = plan.n_steps // 2
        middle = (
            _run(direction, start, [plan.step] * first, plan.radius, weighted=True)[0] if first else start
        )
        rest = plan.n_steps - first
        steps = [plan.step * 2.0 / (t + 2.0) for t in range(rest)]
        return _run(direction, middle, steps, plan.radius, weighted=True)[0]
    mean, iterates = _run(direction, start, [plan.step] * plan.n_steps, plan.radius, weighted=False)
    if plan.convexity == "convex":
        return mean
    return iterates[int(release.public_rng.integers(plan.n_steps))]


def _number_of_users(gradients: FloatArray) -> npt.NDArray[np.int64]:
    return np.array([len(gradients)], dtype=np.int64)


def _run(
    direction: Any, w: FloatArray, steps: list[float], radius: float, *, weighted: bool
) -> tuple[FloatArray, list[FloatArray]]:
    """Projected descent; the mean of the iterates, weighted by 1, 2, 3, … or evenly, and the iterates."""
    iterates = []
    for step in steps:
        w = project(w - step * direction(w), radius)
        iterates.append(w)
    weights = np.arange(1.0, len(steps) + 1.0) if weighted else np.ones(len(steps))
    return np.asarray(np.average(iterates, axis=0, weights=weights)), iterates


@dataclass(frozen=True)
class PublishedDescent(Mechanism):
    """A linear model by Algorithm 4, on a public number of users."""

    objective: Objective
    plan: PaperPlan
    theorem = PaperDescent.theorem

    def __post_init__(self) -> None:
        assert self._paper.events  # refuses plans whose bins cannot be counted, before anything is drawn

    @property
    def _paper(self) -> PaperDescent:
        return PaperDescent(self.plan, self.objective.n_coef)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self.plan.n_steps

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return self._paper.events

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserData, release: Any) -> LinearResult:
        """Draw the steps."""
        rows = as_partitions(data)
        coef = self._paper.run(problems(self.objective, rows), release)
        n_users = float(count_users(rows, None))
        return LinearResult(coef, n_users, self.plan.radius, self.plan.tau, alpha=self.objective.alpha)
