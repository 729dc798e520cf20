"""User-normalised descent that finds scale, centre and step by itself.

Every user contributes g_u/max(‖g_u‖, C), a vector of norm at most 1 whatever the data, so the noise of every step is
public. Three things usually tuned by hand are found on the way:

* the step, from correlations of successive *released* directions, which cost nothing (post-processing);
* the clipping radius C, by one private selection of the median gradient norm after a search with C = 0, if the
  users are numerous enough to decide it;
* the solution, as the average of the iterates after the search.

Derivations in docs/user_level.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy import Mechanism, PrivacyEvent
from skprivate.user_level._plan import BudgetSplit, DescentPlan, Terms, default_steps, split_budget
from skprivate.user_level._private_range import COARSE_SCALES, select_median_scale
from skprivate.user_level._problems import Objective, UserData, UserProblem
from skprivate.user_level._settled import Course
from skprivate.user_level._users import user_magnitudes

FloatArray = npt.NDArray[np.float64]

#: Projection radius in units of the private scale of the target.
RADIUS_FACTOR = 2.0
#: First step in units of the projection radius, and its length where there is none.
FIRST_STEP = 0.15
FIRST_STEP_UNBOUNDED = 0.5
#: Above this noise level a projection radius that is a default, not a bound, shrinks, down to a quarter.
SHRINK_LEVEL = 0.15
SHRINK_MOST = 0.25
#: Largest growth and decay of the log step in one step, while searching and while averaging.
_SEARCH_GROWTH = 0.3
_SEARCH_DECAY = 0.8
_REFINE_GAIN = 0.15
#: A vote below this, which noise alone hardly casts, is an overshoot: the step shrinks at once and momentum restarts.
_OVERSHOT = -0.8
#: Correlation of successive directions that the step settles at, in units of the noise power: −a/(2 − a) for a
#: step of a/curvature, so that 0.06 means about a ninth of 1/curvature.
_TARGET_CORRELATION = -0.06
#: Part of the refinement whose iterates are not averaged.
_BURN_IN = 0.07


def adaptive_descent(
    problem: UserProblem,
    plan: DescentPlan,
    release: Any,
    *,
    start: FloatArray | None = None,
    pull: float = 0.0,
) -> Course:
    """Minimise the users' mean objective by noisy normalised descent.

    Parameters
    ----------
    problem : UserProblem
    plan : DescentPlan
    release : Release
        The Gaussian sums, and the selection if planned, are drawn here.
    start : ndarray of shape (n_coef,), optional
        First iterate (released); by default the origin.
    pull : float
        Strength λ of a public term λ/2·‖w − start‖² beside the users' objective, whose gradients have norm at most 1.

    Returns
    -------
    Course
    """
    d = problem.n_coef
    terms, clip_epsilon = plan.split.terms, plan.split.clip_epsilon
    centre = np.zeros(d) if start is None else start
    w = centre
    total = np.zeros(d)
    directions: list[FloatArray] = []
    step = plan.first_step
    radius = plan.clip_radius
    previous: FloatArray | None = None
    previous_power = 1.0
    velocity = np.zeros(d)
    burn_in = plan.search_steps + math.ceil(_BURN_IN * plan.refine_steps)
    for t in range(plan.n_steps):
        searching = t < plan.search_steps
        if t == plan.search_steps and clip_epsilon is not None:
            median = select_median_scale(
                problem.gradient_norms(w), epsilon=clip_epsilon, release=release, monotone=terms.monotone
            )
            if plan.clip_decides:
                radius = plan.clip_factor * median
        multiplier = plan.search_multiplier if searching else plan.refine_multiplier
        contributions = problem.contribution_sum(w, radius)
        direction = terms.release_sum(contributions, multiplier, release) / plan.n_users
        if previous is not None:
            correlation = float(direction @ previous) / previous_power - _TARGET_CORRELATION
            vote = math.tanh(0.5 * math.sqrt(d) * correlation)
            if searching:
                step *= math.exp((_SEARCH_GROWTH if vote > 0.0 else _SEARCH_DECAY) * vote)
            elif vote < _OVERSHOT:
                step *= math.exp(_SEARCH_DECAY * vote)
                velocity = np.zeros(d)
            else:
                step *= math.exp(_REFINE_GAIN * vote)
        previous = direction
        previous_power = d * (terms.sum_sensitivity * multiplier / plan.n_users) ** 2
        if pull:
            direction = direction + pull * (w - centre)
        velocity = direction if searching else plan.momentum * velocity + direction
        w = project(w - step * velocity, plan.radius)
        if t >= burn_in or t == plan.n_steps - 1:
            total += w
            directions.append(previous)
    noise = terms.sum_sensitivity * plan.refine_multiplier / plan.n_users
    return Course(total / len(directions), radius, np.array(directions), noise)


def project(w: FloatArray, radius: float) -> FloatArray:
    """Nearest point of the ball of this radius."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


@dataclass(frozen=True)
class LinearResult:
    """What the fit of a linear model released.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    n_users : float
    radius, clip_radius : float
        Projection and clipping radius as used.
    noise_level : float
        Norm of all the noise, where a unanimous vote of the users has norm 1.
    scale_missed : bool
        Whether the users were too few for the scale of the target that was wanted.
    drift : float
        `Course.drift` of the descent; above 1 if it has not settled.
    at_bound : bool
        Whether the coefficients lie at the projection radius.
    """

    coef: FloatArray
    n_users: float
    radius: float
    clip_radius: float
    noise_level: float = 0.0
    scale_missed: bool = False
    drift: float = 0.0
    at_bound: bool = False


@dataclass(frozen=True)
class Descent(Mechanism):
    """A linear model by descent on all users: their number if it is private, a scale of the target, the steps.

    Attributes
    ----------
    terms : Terms
    objective : Objective
        Its ``alpha`` is replaced by `alpha`.
    given_alpha : float or None
        Strength of the penalty; None for ``record_ridge``·d·ν² with the noise level ν of the fit, where the number
        of users is public.
    record_ridge : float
    given_steps : int or None
        Number of steps; None to choose by public numbers, at most ``most_steps``.
    most_steps : int
    select_clip : bool
        Select a clipping radius privately if there are enough users; otherwise ``clip_radius``.
    clip_factor : float
        Clipping radius in units of the median gradient norm.
    clip_radius : float
    select_scale : bool
        Find the projection radius from the users' magnitudes if there are enough users; otherwise ``radius``.
    radius : float
    shrink_radius : bool
        Whether ``radius`` is a default rather than a bound, to be shrunk where noise is large.
    """

    terms: Terms
    objective: Objective
    given_alpha: float | None
    record_ridge: float
    given_steps: int | None
    most_steps: int
    select_clip: bool
    clip_factor: float
    clip_radius: float
    select_scale: bool
    radius: float
    shrink_radius: bool
    theorem = "user-normalised descent, docs/user_level.md"

    @cached_property
    def split(self) -> BudgetSplit:
        return split_budget(
            self.terms,
            n_numbers=self.objective.n_coef * (self.given_steps or self.most_steps),
            scales=int(self.select_scale),
            clip=self.select_clip,
        )

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def n_steps(self) -> int:
        """Number of steps. Events have to be known before a private number of users is released."""
        if self.given_steps is not None:
            return self.given_steps
        if self.terms.n_users is None:
            return self.most_steps
        return default_steps(self.split.level(self.terms.n_users, self.objective.n_coef), self.most_steps)

    @property
    def alpha(self) -> float:
        """Strength of the penalty."""
        if self.given_alpha is not None:
            return self.given_alpha
        if self.terms.n_users is None:
            return 0.0
        n_coef = self.objective.n_coef
        return self.record_ridge * n_coef * self.split.level(self.terms.n_users, n_coef) ** 2

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [*self.split.other, *self.plan(float(self.terms.n_users or 1), self.radius).sums]

    def plan(self, n_users: float, radius: float) -> DescentPlan:
        """The steps for so many users."""
        return DescentPlan(
            self.split,
            n_users,
            self.n_steps,
            self.objective.n_coef,
            radius,
            FIRST_STEP * radius if math.isfinite(radius) else FIRST_STEP_UNBOUNDED,
            self.clip_factor,
            self.clip_radius,
        )

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: UserData, release: Any) -> LinearResult:
        """Draw: the number of users, a scale of the target, the descent."""
        n_users = self.split.count(data.groups.n_users, release)
        level = self.split.level(n_users, self.objective.n_coef)
        radius = self.radius
        scale_missed = self.select_scale
        price = self.split.scale_epsilon
        if price is not None:
            # Drawn in any case: which events are drawn must not depend on a released number of users.
            scale = select_median_scale(
                user_magnitudes(data.y, data.groups),
                epsilon=price,
                release=release,
                monotone=self.terms.monotone,
                scales=COARSE_SCALES,
            )
            if self.terms.decides(price, self.split.at_least(n_users), len(COARSE_SCALES)):
                radius, scale_missed = RADIUS_FACTOR * scale, False
        if self.shrink_radius:
            radius *= min(1.0, max(SHRINK_LEVEL / level, SHRINK_MOST))
        course = self._descend(data, self.plan(n_users, radius), level, release)
        # A radius from the scale of the target should not be met: then features are small against it.
        drift = course.drift(math.inf if self.select_scale and not scale_missed else radius)
        return LinearResult(
            course.coef,
            n_users,
            radius,
            course.clip_radius,
            level,
            scale_missed,
            drift,
            course.at_bound(radius),
        )

    def _descend(self, data: UserData, plan: DescentPlan, level: float, release: Any) -> Course:
        return adaptive_descent(self._problem(data), plan, release)

    def _problem(self, data: UserData) -> UserProblem:
        return replace(self.objective, alpha=self.alpha).problem(data)
