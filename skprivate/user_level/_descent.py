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
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.user_level._clipping import tail_factor, tail_rank
from skprivate.user_level._plan import DescentPlan
from skprivate.user_level._private_range import (
    FINE_SCALES,
    SCALES,
    scale_counts,
    select_median_scale,
    select_upper_scale,
)
from skprivate.user_level._problems import UserProblem
from skprivate.user_level._quasi_newton import QuasiNewton
from skprivate.user_level._settled import Course, average

FloatArray = npt.NDArray[np.float64]

#: Largest growth and decay of the log step in one step, while searching and while averaging.
_SEARCH_GROWTH = 0.3
_SEARCH_DECAY = 0.8
_REFINE_GAIN = 0.15
#: A vote below this, which noise alone hardly casts, is an overshoot: the step shrinks at once and momentum restarts.
_OVERSHOT = -0.8
#: Correlation of successive directions that the step settles at, in units of the noise power: −a/(2 − a) for a
#: step of a/curvature, so that 0.06 means about a ninth of 1/curvature.
_TARGET_CORRELATION = -0.06
#: Power of what noise and tail allow of the clipping radius, in medians of gradients' norms, by which steps are longer
#: after the search: there each gradient counted as one of norm 1, then by its norm over that radius. A power of 1 is
#: right near the solution, but too long a way where a few gradients are large.
STRETCHED = 0.5
#: Part of the refinement whose iterates are not averaged.
_BURN_IN = 0.07


def adaptive_descent(
    data: Partitions | UserProblem,
    plan: DescentPlan,
    release: Any,
    *,
    start: FloatArray | None = None,
    pull: float = 0.0,
) -> Course:
    """Minimise the users' mean objective by noisy normalised descent.

    Parameters
    ----------
    data : Partitions or UserProblem
        Problems of the users of each block.
    plan : DescentPlan
    release : Release
        The Gaussian sums, and the selection if planned, are drawn here.
    start : ndarray of shape (n_coef,), optional
        First iterate (released); by default the origin.
    pull : float
        Strength λ of a public term λ/2·‖w − start‖² beside the users' objective, whose gradients have norm at most 1.
    """
    rows, d = as_partitions(data), plan.n_coef
    terms = plan.split.terms
    centre = np.zeros(d) if start is None else start
    w = centre
    iterates: list[FloatArray] = []
    directions: list[FloatArray] = []
    times: list[float] = []
    time = 0.0
    step = plan.start_step
    radius = plan.clip_radius
    previous: FloatArray | None = None
    previous_power = 1.0
    velocity = np.zeros(d)
    gains = np.ones(d)
    gains[-1] = plan.intercept_gain
    newton = (
        QuasiNewton(step, 2.0 * plan.radius)
        if plan.quiet and radius and plan.split.clip_epsilon is None
        else None
    )
    burn_in = plan.search_steps + math.ceil(_BURN_IN * plan.refine_steps)
    for t in range(plan.n_steps):
        searching = t < plan.search_steps
        if t == plan.search_steps and plan.split.clip_epsilon is not None:
            radius, stretch = _selected_radius(rows, w, plan, release)
            step *= max(1.0, stretch) ** STRETCHED
            if plan.quiet and radius:
                newton = QuasiNewton(step, 2.0 * plan.radius)
        multiplier = plan.search_multiplier if searching else plan.refine_multiplier
        contributions = rows.sum(methodcaller("contribution_sum", w, radius))
        direction = terms.release_sum(contributions, multiplier, release) / plan.n_users
        if newton is not None:
            noise = terms.sum_sensitivity * multiplier / plan.n_users
            pulled = direction + pull * (w - centre)
            w = project(newton.step(w, pulled, noise), plan.radius)
        elif previous is not None:
            correlation = float(direction @ previous) / previous_power - _TARGET_CORRELATION
            vote = math.tanh(0.5 * math.sqrt(d) * correlation)
            if searching:
                step *= math.exp((_SEARCH_GROWTH if vote > 0.0 else _SEARCH_DECAY) * plan.search_gain * vote)
            elif vote < _OVERSHOT:
                step *= math.exp(_SEARCH_DECAY * vote)
                velocity = np.zeros(d)
            else:
                step *= math.exp(_REFINE_GAIN * vote)
        previous = direction
        previous_power = d * (terms.sum_sensitivity * multiplier / plan.n_users) ** 2
        if pull:
            direction = direction + pull * (w - centre)
        if newton is None:
            velocity = direction if searching else plan.momentum * velocity + direction
            w = project(w - step * gains * velocity, plan.radius)
            time += step / (1.0 if searching else 1.0 - plan.momentum)
        if t >= burn_in or t == plan.n_steps - 1:
            iterates.append(w)
            directions.append(previous)
            times.append(time if newton is None else math.inf)
    noise = terms.sum_sensitivity * plan.refine_multiplier / plan.n_users
    return average(np.array(iterates), np.array(directions), noise, radius, np.array(times))


def norm_counts(problem: UserProblem, w: FloatArray, scales: tuple[FloatArray, ...]) -> npt.NDArray[np.int64]:
    """How many users have a vector of about each norm, on some scales one after the other."""
    norms = problem.gradient_norms(w)
    return np.concatenate([scale_counts(norms, each) for each in scales])


def _selected_radius(rows: Partitions, w: FloatArray, plan: DescentPlan, release: Any) -> tuple[float, float]:
    """Clipping radius of the refinement, and how many medians of gradients' norms noise and their tail allow.

    What is planned is drawn in any case, whether users are enough or not.
    """
    split, monotone = plan.split, plan.split.terms.monotone
    assert split.clip_epsilon is not None
    tail = split.tail_epsilon
    scales = (SCALES,) if tail is None else (SCALES, FINE_SCALES)
    counts = rows.sum(partial(norm_counts, w=w, scales=scales))
    median = select_median_scale(
        counts[: len(SCALES)], epsilon=split.clip_epsilon, release=release, monotone=monotone
    )
    growth = plan.growth
    if tail is not None:
        rank = tail_rank(tail, len(FINE_SCALES))
        upper = select_upper_scale(
            counts[len(SCALES) :], rank, epsilon=tail, release=release, scales=FINE_SCALES, near=median
        )
        if split.at_least(plan.n_users) > 2 * rank:
            growth = tail_factor(median, upper, growth, rank / plan.n_users)
    return (max(plan.clip_factor, growth) * median, growth) if plan.clip_decides else (plan.clip_radius, 1.0)


def project(w: FloatArray, radius: float) -> FloatArray:
    """Nearest point of the ball of this radius."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)
