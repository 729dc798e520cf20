"""The public plan of a fit: how the budget is divided, how many steps, how much noise. Never looks at data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from skprivate.privacy import (
    CONTRIBUTION_STEP,
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    PrivacyEvent,
    Whole,
    compose_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.user_level._ranges import COARSE_SCALES, FINE_SCALES, SCALES, selection_epsilon, tail_rank

#: Largest shares of the budget (in zCDP, where they add up).
COUNT_SHARE = 0.03
SCALE_SHARE = 0.12
CLIP_SHARE = 0.05
TAIL_SHARE = 0.05
MEDIANS_SHARE = 0.15
#: Medians of coordinates are searched among B·2⁻⁴³ wide bins of [−B, B].
MEDIAN_BITS = 44
#: Least share of the Gaussian budget spent on finding the neighbourhood of the solution.
SEARCH_SHARE = 0.1
#: Part of the steps that does so, and the largest share.
SEARCH_PART = 0.25
#: Noise of a single step against a unanimous vote. Many steps that only follow the noise end farther from the solution
#: than few.
STEP_NOISE = 0.1**0.5
#: That are there, it is hoped, where nobody may know how many users there are.
FEW_USERS = 100
#: Largest momentum of the refinement.
MOST_MOMENTUM = 0.8
#: Noise of a step of the search, against a unanimous vote, from which on a step of a known length is held.
HELD_NOISE = 0.01
#: The same from which on the step of a known length is shorter, and the least part of it.
LOUD_NOISE, LEAST_PART = 0.5, 0.5
#: Largest steps of an intercept, in those of slopes, and those at a noise level of 1.
MOST_INTERCEPT, INTERCEPT_NOISE = 4.0, 0.03
#: Coefficients for whose noise the search's share is chosen.
FEW_COEF = 5
#: Momentum given up per noise level of one step.
MOMENTUM_LOSS = 2.0
#: A Gaussian sum that needs so many times the noise that zCDP foretells is not worth what is selected beside it.
MOST_WIDENED = 100.0
#: Multipliers are widened by this much so that shares rounded in floating point never overrun the budget.
WIDER = 1.0 + 1e-9


@dataclass(frozen=True)
class Terms:
    """What a fit promises, and what is public about its users.

    Attributes
    ----------
    epsilon, delta : float
    adjacency : Adjacency
    n_users : int or None
        Public number of users; None to release it with noise.
    earlier : tuple of (PrivacyEvent, int)
        What is drawn before from the same budget.
    whole : Whole or None
        What all draws have to fit into as well, with those of others.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    n_users: int | None
    earlier: tuple[tuple[PrivacyEvent, int], ...] = ()
    whole: Whole | None = None

    @property
    def sum_sensitivity(self) -> float:
        """ℓ2 change of a sum of vectors of norm at most 1: one more or less, or one exchanged for another."""
        return 2.0 if self.adjacency is Adjacency.REPLACE_ONE else 1.0

    @property
    def monotone(self) -> bool:
        """Adding a user moves every count the same way; exchanging one does not."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def release_sum(self, contributions: Any, noise_multiplier: float, release: Any) -> Any:
        """Exact sum of the users' integer contributions, released in units of a contribution of norm 1."""
        return release.gaussian(
            contributions,
            sensitivity=self.sum_sensitivity / CONTRIBUTION_STEP,
            noise_multiplier=noise_multiplier,
            step=CONTRIBUTION_STEP,
        )

    def decides(self, epsilon: float, n_users: float, n_candidates: float = len(SCALES)) -> bool:
        """Whether so many users decide the selection of a median among so many candidates at this price."""
        return epsilon * (1.0 + 1e-12) >= selection_epsilon(n_users, n_candidates, monotone=self.monotone)


@dataclass(frozen=True)
class BudgetSplit:
    """How a budget is divided between a count, selections and Gaussian sums.

    Attributes
    ----------
    terms : Terms
    multiplier : float
        z such that one Gaussian sum with this multiplier uses up all that the other draws leave. Sums with z/√share_i
        use it up together if the shares add up to 1: Gaussians of any multipliers compose to exactly one with
        1/z² = Σ 1/z_i², also if shares are chosen after looking at earlier results.
    count_multiplier : float or None
        Noise multiplier of the number of users, None where that is public.
    scale_epsilon, clip_epsilon : float or None
        Prices of the selections of a target scale, of which ``n_scales`` are made, and of a clipping radius; None if
        they are not made.
    tail_epsilon : float or None
        Price of the selection of an upper quantile beside the clipping radius.
    median_epsilon : float or None
        Price of the median of one coordinate, of which ``n_medians`` are found.
    """

    terms: Terms
    multiplier: float
    count_multiplier: float | None = None
    scale_epsilon: float | None = None
    clip_epsilon: float | None = None
    tail_epsilon: float | None = None
    median_epsilon: float | None = None
    n_scales: int = 1
    n_medians: int = 0

    def at_least(self, n_users: float) -> float:
        """Number of users that a selection may count on: three standard deviations below a noisy one."""
        return n_users - 3.0 * (self.count_multiplier or 0.0)

    @property
    def other(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """Events beside the Gaussian sums."""
        events: list[tuple[PrivacyEvent, int]] = [*self.terms.earlier]
        if self.count_multiplier is not None:
            events.append((GaussianEvent(self.count_multiplier), 1))
        if self.scale_epsilon is not None:
            events.append((BoundedRangeEvent(self.scale_epsilon), self.n_scales))
        if self.clip_epsilon is not None:
            events.append((BoundedRangeEvent(self.clip_epsilon), 1))
        if self.tail_epsilon is not None:
            events.append((BoundedRangeEvent(self.tail_epsilon), 1))
        if self.median_epsilon is not None:
            events.append((BoundedRangeEvent(self.median_epsilon), self.n_medians))
        return tuple(events)

    def level(self, n_users: float, n_coef: int) -> float:
        """ν = Δ z √d / n: norm of all the noise together, where a unanimous vote of the users has norm 1."""
        return self.terms.sum_sensitivity * self.multiplier * math.sqrt(n_coef) / n_users

    def count(self, n_users: int, release: Any) -> float:
        """The public number of users, or their private number with noise, at least its deviation and 1."""
        if self.terms.n_users is not None:
            return float(self.terms.n_users)
        assert self.count_multiplier is not None
        noisy = release.gaussian(int(n_users), sensitivity=1, noise_multiplier=self.count_multiplier)
        return max(float(noisy), self.count_multiplier, 1.0)


def split_budget(
    terms: Terms,
    *,
    n_numbers: int,
    scales: int = 0,
    clip: bool = False,
    tail: bool = False,
    medians: int = 0,
    private_shares: float = 1.0,
) -> BudgetSplit:
    """Divide a budget by public numbers alone.

    Parameters
    ----------
    terms : Terms
        Where the number of users is public, a selection that so few users cannot decide is left out.
    n_numbers : int
        Numbers released by all Gaussian sums together (matters for the lattice only).
    scales : int
        Number of scales that are to be selected.
    clip : bool
        Whether a clipping radius is to be selected.
    tail : bool
        Whether an upper quantile is to be selected, beside it if it is selected, if there are users for that.
    medians : int
        Number of coordinates whose medians are wanted.
    private_shares : float
        What is left of the shares of selections where the number of users is private, and nobody knows whether they
        will be of use.
    """
    alone = gaussian_noise_multiplier(terms.epsilon, terms.delta)
    rho = 0.5 / alone**2

    def price(share: float, count: int, n_candidates: float = len(SCALES)) -> float | None:
        if not count:
            return None
        if terms.n_users is None:
            return math.sqrt(8.0 * private_shares * share * rho / count)
        affordable = math.sqrt(8.0 * share * rho / count)
        needed = selection_epsilon(terms.n_users, n_candidates, monotone=terms.monotone)
        return needed if needed <= affordable else None

    clip_epsilon = price(CLIP_SHARE, int(clip))
    tail_epsilon = None
    if tail and (clip_epsilon is not None or not clip):
        tail_epsilon = math.sqrt(8.0 * TAIL_SHARE * rho * (private_shares if terms.n_users is None else 1.0))
        if terms.n_users is not None and terms.n_users <= 2 * tail_rank(tail_epsilon, len(FINE_SCALES)):
            tail_epsilon = None
    draft = BudgetSplit(
        terms,
        alone,
        count_multiplier=alone / math.sqrt(COUNT_SHARE) if terms.n_users is None else None,
        scale_epsilon=price(SCALE_SHARE, scales, len(COARSE_SCALES)),
        clip_epsilon=clip_epsilon,
        tail_epsilon=tail_epsilon,
        median_epsilon=price(MEDIANS_SHARE, medians, 2.0**MEDIAN_BITS),
        n_scales=scales,
        n_medians=medians,
    )
    # Selections of one user's say cost more than zCDP tells where δ is large against ε: those that do not fit are left
    # out, dearest to do without last.
    for left_out in (None, "tail_epsilon", "clip_epsilon", "scale_epsilon", "median_epsilon"):
        fewer: dict[str, Any] = {} if left_out is None else {left_out: None}
        draft = replace(draft, **fewer)
        z = remaining_multiplier(terms.epsilon, terms.delta, alone, draft.other, n_numbers, terms.whole)
        if math.isfinite(z):
            return replace(draft, multiplier=z * WIDER)
    raise ValueError(
        f"delta = {terms.delta:g} is too large for epsilon = {terms.epsilon:g}: what is selected leaves nothing. "
        "Choose a delta well below one over the number of users."
    )


@lru_cache(maxsize=256)
def remaining_multiplier(
    epsilon: float,
    delta: float,
    alone: float,
    other: tuple[tuple[PrivacyEvent, int], ...],
    n_numbers: int,
    whole: Whole | None = None,
) -> float:
    """Multiplier of one Gaussian sum that fits into (ε, δ) beside ``other``, and into a whole if there is one.

    Starts from the split in zCDP, which is off by about one per cent, and widens until the accountant agrees: two or
    three evaluations instead of a root finder's dozens. Infinite where ``other`` leaves nothing worth having.
    """
    left = 0.5 / alone**2 - sum(event.rho * count for event, count in other)
    if left <= 0.0:
        return math.inf
    z, widening = math.sqrt(0.5 / left), 1e-4
    most, patience = MOST_WIDENED * z, 8
    while z <= most:
        draws = [(GaussianEvent(z, n_numbers), 1), *other]
        spent = [(compose_epsilon(draws, delta), epsilon)]
        if whole is not None:
            spent.append((compose_epsilon([*draws, *whole.others], whole.delta), whole.epsilon))
        if all(needed <= most_epsilon for needed, most_epsilon in spent):
            return z
        patience -= 1
        # Where the rest of the budget is about gone hardly anything is won by a step in proportion.
        widening *= 2.0 if patience < 0 else 1.0
        excess = max(needed / most_epsilon for needed, most_epsilon in spent)
        z *= min(excess, 2.0) * (1.0 + widening)
    return math.inf


def default_steps(split: BudgetSplit, n_coef: int, noise: float, least: int, most: int) -> int:
    """As many steps as leave each of them this noise against a unanimous vote, between ``least`` and ``most``."""
    level = split.level(split.terms.n_users or FEW_USERS, n_coef)
    return int(min(most, max(least, round((noise / level) ** 2))))


@dataclass(frozen=True)
class DescentPlan:
    """Noise and steps of a descent that uses up what ``split`` left for Gaussian sums.

    Attributes
    ----------
    split : BudgetSplit
        Its ``clip_epsilon`` is the price of the selection of the clipping radius between search and refinement.
    n_users : float
        Public or released number of users: the sum of contributions is divided by it.
    n_steps, n_coef : int
    radius : float
        Iterates are projected to this ball (``inf``: not at all).
    first_step : float
        Length of the first step where noise is not loud (`start_step`).
    clip_factor : float
        Clipping radius in units of the selected median gradient norm.
    clip_radius : float
        Clipping radius before or without a selection.
    most_momentum : float
    growth : float
        Clipping radius in the same units where that is larger; with a tail that was selected `tail_factor` of it.
    quiet : bool
        Whether steps are `QuasiNewton`.
    hold_step : bool
        Whether the first step is about as long as the curvature allows, so that noise does not have to tell.
    intercept : bool
        Whether the last coefficient is an intercept, of curvature ¼ at most, beside features that are about centred.
    """

    split: BudgetSplit
    n_users: float
    n_steps: int
    n_coef: int
    radius: float
    first_step: float
    clip_factor: float = 1.0
    clip_radius: float = 0.0
    most_momentum: float = MOST_MOMENTUM
    growth: float = 0.0
    quiet: bool = False
    hold_step: bool = False
    intercept: bool = False

    @property
    def search_steps(self) -> int:
        return max(1, round(SEARCH_PART * self.n_steps)) if self.n_steps > 1 else 0

    @property
    def refine_steps(self) -> int:
        return self.n_steps - self.search_steps

    @property
    def search_share(self) -> float:
        """Share of the search: a step of it has at most the noise of a unanimous vote, if its part of the steps allows.

        With more noise the search would only walk away from the start. From public numbers, as all multipliers; not
        from the number of coefficients, which a step before may have released: noise is that of a few.
        """
        n_users = self.split.terms.n_users
        if n_users is None:
            return SEARCH_SHARE
        quiet = self.search_steps * self.split.level(n_users, FEW_COEF) ** 2
        return min(SEARCH_PART, max(SEARCH_SHARE, quiet))

    @property
    def search_multiplier(self) -> float:
        """Noise multiplier of one step of the search."""
        return self.split.multiplier * math.sqrt(self.search_steps / self.search_share) * WIDER

    @property
    def search_gain(self) -> float:
        """How much of their growth and decay the search's steps have.

        What the search's noise moved coefficients by is forgotten as fast as curvatures allow: hardly where a class is
        rare, whose intercept has far to go and lengthens the steps of all. A first step that is about right is held
        instead, as far as noise is loud.
        """
        if not self.hold_step:
            return 1.0
        return min(1.0, HELD_NOISE / self._search_noise)

    @property
    def start_step(self) -> float:
        """Length of the first step that is taken.

        One that is held does not shrink where it only follows the noise: where that is about as large as a unanimous
        vote it is shorter from the start.
        """
        if not self.hold_step or not self.search_steps:
            return self.first_step
        return self.first_step * min(1.0, max(LEAST_PART, LOUD_NOISE / self._search_noise))

    @property
    def _search_noise(self) -> float:
        """Norm of the noise of a step of the search, where a unanimous vote has norm 1."""
        sensitivity = self.split.terms.sum_sensitivity
        return sensitivity * self.search_multiplier * math.sqrt(self.n_coef) / self.n_users

    @property
    def intercept_gain(self) -> float:
        """Steps of the intercept in those of slopes, which are one over the largest curvature of *all* coefficients.

        A rare class's intercept has far to go, and until it is there slopes follow means of features. Steps of k times
        that length are stable up to k = d: a row of norm √d with the intercept's √k beside it has squared norm d + k.
        The noise of the intercept is as much louder.
        """
        if not self.intercept:
            return 1.0
        level = self.split.level(self.n_users, self.n_coef)
        return max(1.0, min(MOST_INTERCEPT, INTERCEPT_NOISE / level, 0.5 * (self.n_coef - 1)))

    @property
    def refine_multiplier(self) -> float:
        """Noise multiplier of one step of the refinement."""
        share = self.search_share if self.search_steps else 0.0
        return self.split.multiplier * math.sqrt(self.refine_steps / (1.0 - share)) * WIDER

    @property
    def momentum(self) -> float:
        """Of the refinement: it speeds up directions of little curvature, but spreads the iterates by 1/(1 − β)."""
        level = (
            self.split.terms.sum_sensitivity * self.refine_multiplier * math.sqrt(self.n_coef) / self.n_users
        )
        return min(self.most_momentum, max(0.0, 1.0 - MOMENTUM_LOSS * level))

    @property
    def clip_decides(self) -> bool:
        """Whether the users are enough for the selection of the clipping radius to mean anything.

        It is drawn in any case: which events are drawn must not depend on a released number of users.
        """
        price = self.split.clip_epsilon
        return price is not None and self.split.terms.decides(price, self.split.at_least(self.n_users))

    @property
    def sums(self) -> list[tuple[PrivacyEvent, int]]:
        """Gaussian sums of the descent."""
        refine = (GaussianEvent(self.refine_multiplier, self.n_coef), self.refine_steps)
        if not self.search_steps:
            return [refine]
        return [(GaussianEvent(self.search_multiplier, self.n_coef), self.search_steps), refine]
