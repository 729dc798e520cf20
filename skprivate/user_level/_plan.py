"""The public plan of a descent: how many steps, how much noise, what is selected. Never looks at data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from skprivate.privacy import (
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    PrivacyEvent,
    compose_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.user_level._private_range import COARSE_SCALES, SCALES, selection_epsilon

#: Largest shares of the budget (in zCDP, where they add up).
COUNT_SHARE = 0.03
SCALE_SHARE = 0.12
CLIP_SHARE = 0.05
MEDIANS_SHARE = 0.15
#: Medians of coordinates are searched among B·2⁻⁴³ wide bins of [−B, B].
MEDIAN_BITS = 44
#: Share of the Gaussian budget spent on finding the neighbourhood of the solution.
SEARCH_SHARE = 0.1
#: Part of the steps that does so.
SEARCH_PART = 0.25
#: Largest momentum of the refinement.
MOST_MOMENTUM = 0.8
#: Momentum given up per noise level of one step.
MOMENTUM_LOSS = 2.0
#: Multipliers are widened by this much so that shares rounded in floating point never overrun the budget.
WIDER = 1.0 + 1e-9


@dataclass(frozen=True)
class Neighbours:
    """What the neighbouring relation means for sums over users of vectors of norm at most 1."""

    adjacency: Adjacency

    @property
    def sum_sensitivity(self) -> float:
        """ℓ2 change of the sum: a unit vector more or less, or one exchanged for another."""
        return 2.0 if self.adjacency is Adjacency.REPLACE_ONE else 1.0

    @property
    def monotone(self) -> bool:
        """Adding a user moves every count the same way; exchanging one does not."""
        return self.adjacency is Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class BudgetSplit:
    """How a budget is divided between a count, selections and Gaussian sums.

    Attributes
    ----------
    count_multiplier : float or None
        Noise multiplier of the number of users, None where that is public.
    scale_epsilon, clip_epsilon : float or None
        Prices of the selections of a target scale and of a clipping radius, None if they are not made.
    median_epsilon : float or None
        Price of the median of one coordinate, of which ``n_medians`` are found.
    multiplier : float
        z such that one Gaussian sum with this multiplier uses up all that is left. Sums with z/√share_i use it up
        together if the shares add up to 1: Gaussians of any multipliers compose to exactly one with
        1/z² = Σ 1/z_i², also if shares are chosen after looking at earlier results.
    """

    count_multiplier: float | None
    scale_epsilon: float | None
    clip_epsilon: float | None
    median_epsilon: float | None
    n_medians: int
    multiplier: float
    n_scales: int = 1

    def at_least(self, n_users: float) -> float:
        """Number of users that a selection may count on: three standard deviations below a noisy one."""
        return n_users - 3.0 * (self.count_multiplier or 0.0)

    @property
    def other(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """Events beside the Gaussian sums."""
        events: list[tuple[PrivacyEvent, int]] = []
        if self.count_multiplier is not None:
            events.append((GaussianEvent(self.count_multiplier), 1))
        if self.scale_epsilon is not None:
            events.append((BoundedRangeEvent(self.scale_epsilon), self.n_scales))
        if self.clip_epsilon is not None:
            events.append((BoundedRangeEvent(self.clip_epsilon), 1))
        if self.median_epsilon is not None:
            events.append((BoundedRangeEvent(self.median_epsilon), self.n_medians))
        return tuple(events)


def split_budget(
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    *,
    n_users: int | None,
    n_numbers: int,
    scales: int,
    clip: bool,
    medians: int = 0,
) -> BudgetSplit:
    """Divide a budget by public numbers alone.

    Parameters
    ----------
    epsilon, delta : float
    neighbours : Neighbours
    n_users : int or None
        Where public; a selection that so few users cannot decide is left out. None: released with noise.
    n_numbers : int
        Numbers released by all Gaussian sums together (matters for the lattice only).
    scales : int
        Number of scales that are to be selected.
    clip : bool
        Whether a clipping radius is to be selected.
    medians : int
        Number of coordinates whose medians are wanted.
    """
    alone = gaussian_noise_multiplier(epsilon, delta)
    rho = 0.5 / alone**2

    def price(share: float, count: int, n_candidates: float = len(SCALES)) -> float | None:
        if not count:
            return None
        affordable = math.sqrt(8.0 * share * rho / count)
        if n_users is None:
            return affordable
        needed = selection_epsilon(n_users, n_candidates, monotone=neighbours.monotone)
        return needed if needed <= affordable else None

    draft = BudgetSplit(
        count_multiplier=alone / math.sqrt(COUNT_SHARE) if n_users is None else None,
        scale_epsilon=price(SCALE_SHARE, scales, len(COARSE_SCALES)),
        clip_epsilon=price(CLIP_SHARE, int(clip)),
        median_epsilon=price(MEDIANS_SHARE, medians, 2.0**MEDIAN_BITS),
        n_scales=scales,
        n_medians=medians,
        multiplier=alone,
    )
    z = remaining_multiplier(epsilon, delta, alone, draft.other, n_numbers)
    return replace(draft, multiplier=z * WIDER)


@lru_cache(maxsize=256)
def remaining_multiplier(
    epsilon: float, delta: float, alone: float, other: tuple[tuple[PrivacyEvent, int], ...], n_numbers: int
) -> float:
    """Multiplier of one Gaussian sum that fits into (ε, δ) beside ``other``.

    Starts from the split in zCDP, which is off by about one per cent, and widens until the accountant agrees: two or
    three evaluations instead of a root finder's dozens.
    """
    left = 0.5 / alone**2 - sum(event.rho * count for event, count in other)
    z = math.sqrt(0.5 / left)
    while True:
        needed = compose_epsilon([(GaussianEvent(z, n_numbers), 1), *other], delta)
        if needed <= epsilon:
            return z
        z *= (needed / epsilon) * (1.0 + 1e-4)


def decides(
    epsilon: float, n_users: float, neighbours: Neighbours, n_candidates: float = len(SCALES)
) -> bool:
    """Whether so many users decide the selection of a median among so many candidates at this price."""
    return epsilon * (1.0 + 1e-12) >= selection_epsilon(n_users, n_candidates, monotone=neighbours.monotone)


@dataclass(frozen=True)
class DescentPlan:
    """Noise and steps of `skprivate.user_level._descent.adaptive_descent`.

    Attributes
    ----------
    n_users : float
        Public or released number of users: the sum of contributions is divided by it.
    sensitivity : float
        ℓ2 sensitivity of a sum of contributions.
    search_steps, refine_steps : int
    search_multiplier, refine_multiplier : float
        Noise multipliers of one step.
    clip_epsilon : float or None
        Price of the selection of the clipping radius between search and refinement.
    clip_decides : bool
        Whether the users are enough for that selection to mean anything. It is drawn in any case: which events are
        drawn must not depend on a released number of users.
    clip_factor : float
        Clipping radius in units of the selected median gradient norm.
    clip_radius : float
        Clipping radius before or without a selection.
    momentum : float
        Of the refinement.
    radius : float
        Iterates are projected to this ball (``inf``: not at all).
    first_step : float
        Length of the first step.
    """

    n_users: float
    sensitivity: float
    monotone: bool
    search_steps: int
    refine_steps: int
    search_multiplier: float
    refine_multiplier: float
    clip_epsilon: float | None
    clip_decides: bool
    clip_factor: float
    clip_radius: float
    radius: float
    first_step: float
    momentum: float

    @property
    def n_steps(self) -> int:
        return self.search_steps + self.refine_steps

    def events(self, n_coef: int) -> list[tuple[PrivacyEvent, int]]:
        """Gaussian sums of the descent."""
        return [
            (GaussianEvent(self.search_multiplier, n_coef), self.search_steps),
            (GaussianEvent(self.refine_multiplier, n_coef), self.refine_steps),
        ]


def noise_level(split: BudgetSplit, neighbours: Neighbours, n_users: float, n_coef: int) -> float:
    """ν = Δ z √d / n: norm of all the noise together, where a unanimous vote of the users has norm 1."""
    return neighbours.sum_sensitivity * split.multiplier * math.sqrt(n_coef) / n_users


def default_steps(level: float, most: int) -> int:
    """As many steps as leave the noise of a single one about as large as the signal, between 20 and ``most``."""
    return int(min(most, max(20, round(1.0 / level**2))))


def plan_descent(
    split: BudgetSplit,
    neighbours: Neighbours,
    *,
    n_users: float,
    n_steps: int,
    clip_factor: float,
    clip_radius: float,
    radius: float,
    first_step: float,
    n_coef: int,
) -> DescentPlan:
    """Noise of a descent that uses up what ``split`` left for Gaussian sums."""
    search = max(1, round(SEARCH_PART * n_steps)) if n_steps > 1 else 0
    refine = n_steps - search
    share = SEARCH_SHARE if search else 0.0
    refine_multiplier = split.multiplier * math.sqrt(refine / (1.0 - share)) * WIDER
    # Momentum speeds up directions of little curvature, but widens the spread of the iterates by 1/(1 − β).
    step_level = neighbours.sum_sensitivity * refine_multiplier * math.sqrt(n_coef) / n_users
    return DescentPlan(
        n_users=n_users,
        sensitivity=neighbours.sum_sensitivity,
        monotone=neighbours.monotone,
        search_steps=search,
        refine_steps=refine,
        search_multiplier=split.multiplier * math.sqrt(search / share) * WIDER if search else 1.0,
        refine_multiplier=refine_multiplier,
        clip_epsilon=split.clip_epsilon,
        clip_decides=split.clip_epsilon is not None
        and decides(split.clip_epsilon, split.at_least(n_users), neighbours),
        clip_factor=clip_factor,
        clip_radius=clip_radius,
        radius=radius,
        first_step=first_step,
        momentum=min(MOST_MOMENTUM, max(0.0, 1.0 - MOMENTUM_LOSS * step_level)),
    )


def noisy_count(n_users: int, split: BudgetSplit, release: Any) -> float:
    """Number of users released with noise, at least its standard deviation and 1."""
    if split.count_multiplier is None:
        raise ValueError("the number of users is public in this split.")
    noisy = release.gaussian(float(n_users), sensitivity=1.0, noise_multiplier=split.count_multiplier)
    return max(float(noisy), split.count_multiplier, 1.0)
