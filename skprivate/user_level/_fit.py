"""From settings to a run: what a descent reserves before it starts, and what it releases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy import PrivacyEvent
from skprivate.user_level._plan import (
    BudgetSplit,
    DescentPlan,
    Neighbours,
    decides,
    default_steps,
    noise_level,
    noisy_count,
    plan_descent,
    split_budget,
)
from skprivate.user_level._private_range import COARSE_SCALES, select_median_scale

FloatArray = npt.NDArray[np.float64]
Descend = Callable[[DescentPlan, float, Any], tuple[FloatArray, float]]

#: Projection radius in units of the private scale of the target.
RADIUS_FACTOR = 2.0
#: First step in units of the projection radius, and its length where there is none.
FIRST_STEP = 0.15
FIRST_STEP_UNBOUNDED = 0.5
#: Above this noise level a projection radius that is a default, not a bound, shrinks, down to a quarter.
SHRINK_LEVEL = 0.15
SHRINK_MOST = 0.25


@dataclass(frozen=True)
class DescentSettings:
    """Public settings of a descent.

    Attributes
    ----------
    epsilon, delta : float
    neighbours : Neighbours
    n_users : int or None
        Public number of users; None to release it with noise.
    n_steps : int or None
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

    epsilon: float
    delta: float
    neighbours: Neighbours
    n_users: int | None
    n_steps: int | None
    most_steps: int
    select_clip: bool
    clip_factor: float
    clip_radius: float
    select_scale: bool
    radius: float
    shrink_radius: bool


@dataclass(frozen=True)
class DescentResult:
    """What a descent released."""

    coef: FloatArray
    n_users: float
    n_steps: int
    radius: float
    clip_radius: float
    noise_level: float
    scale_found: bool


class PreparedDescent:
    """A descent whose budget is divided and whose events are known, before anything is drawn.

    Parameters
    ----------
    settings : DescentSettings
    n_coef : int

    Attributes
    ----------
    events, descent_events : list of (PrivacyEvent, int)
        Everything that `run` may draw, and the Gaussian sums among it.
    """

    def __init__(self, settings: DescentSettings, n_coef: int) -> None:
        self.settings = settings
        self.n_coef = n_coef
        most = settings.n_steps or settings.most_steps
        self.split: BudgetSplit = split_budget(
            settings.epsilon,
            settings.delta,
            settings.neighbours,
            n_users=settings.n_users,
            n_numbers=n_coef * most,
            scales=int(settings.select_scale),
            clip=settings.select_clip,
        )
        if settings.n_steps is not None:
            self.n_steps = settings.n_steps
        elif settings.n_users is None:
            self.n_steps = (
                settings.most_steps
            )  # events have to be known before the number of users is released
        else:
            self.n_steps = default_steps(self.level(settings.n_users), settings.most_steps)
        plan = self._plan(float(settings.n_users or 1), settings.radius)
        self.descent_events: list[tuple[PrivacyEvent, int]] = plan.events(n_coef)
        self.events: list[tuple[PrivacyEvent, int]] = [*self.split.other, *self.descent_events]

    def level(self, n_users: float) -> float:
        """Norm of all the noise, where a unanimous vote of the users has norm 1."""
        return noise_level(self.split, self.settings.neighbours, n_users, self.n_coef)

    def run(
        self, descend: Descend, exact_users: int, magnitudes: FloatArray | None, release: Any
    ) -> DescentResult:
        """Draw: the number of users, a scale of the target, the descent.

        Parameters
        ----------
        descend : callable
            From the plan, the noise level and the release to coefficients and clipping radius.
        exact_users : int
            Private number of users, for its noisy release where ``n_users`` is None.
        magnitudes : ndarray of shape (n_users,) or None
            Size of each user's target, for ``select_scale``.
        release : Release
        """
        settings = self.settings
        n_users = float(settings.n_users or noisy_count(exact_users, self.split, release))
        level = self.level(n_users)
        radius = settings.radius
        scale_found = False
        scale_epsilon = self.split.scale_epsilon
        if scale_epsilon is not None and magnitudes is not None:
            # Drawn in any case: which events are drawn must not depend on a released number of users.
            scale = select_median_scale(
                magnitudes,
                epsilon=scale_epsilon,
                release=release,
                monotone=settings.neighbours.monotone,
                scales=COARSE_SCALES,
            )
            surely = self.split.at_least(n_users)
            scale_found = decides(scale_epsilon, surely, settings.neighbours, len(COARSE_SCALES))
            radius = RADIUS_FACTOR * scale if scale_found else radius
        if settings.shrink_radius:
            radius *= min(1.0, max(SHRINK_LEVEL / level, SHRINK_MOST))
        plan = self._plan(n_users, radius)
        coef, clip_radius = descend(plan, level, release)
        return DescentResult(coef, n_users, plan.n_steps, radius, clip_radius, level, scale_found)

    def _plan(self, n_users: float, radius: float) -> DescentPlan:
        return plan_descent(
            self.split,
            self.settings.neighbours,
            n_users=n_users,
            n_steps=self.n_steps,
            n_coef=self.n_coef,
            clip_factor=self.settings.clip_factor,
            clip_radius=self.settings.clip_radius,
            radius=radius,
            first_step=FIRST_STEP * radius if math.isfinite(radius) else FIRST_STEP_UNBOUNDED,
        )
