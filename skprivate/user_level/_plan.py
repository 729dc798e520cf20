"""Public plan of a fit: division of the budget, number of steps, noise. No function here sees data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from skprivate import privacy
from skprivate.privacy import Adjacency, BoundedRangeEvent, GaussianEvent, PrivacyEvent, Release, SharedBudget
from skprivate.user_level import _ranges

#: Largest shares of a budget (in zCDP, where they add up) of draws beside the steps: of those that need little, and of
#: those that much depends on.
SMALL_SHARE, LARGE_SHARE = 0.05, 0.2
#: Noise level ν above which noise is loud: means are not worth their share, and a radius that is not given shrinks as
#: 1/ν. Above the second a fit learns next to nothing, and warns.
LOUD_LEVEL, MAX_NOISE_LEVEL = 0.15, 0.5
#: Deviations of noise from which on a number is clear of it.
CLEAR_DEVIATIONS = 3.0
#: Medians of coordinates are searched among B·2⁻⁴³ wide bins of [−B, B].
MEDIAN_BITS = 44
#: Part of the steps that find the neighbourhood of the solution, for half of `LARGE_SHARE` of the Gaussian budget.
SEARCH_PART = 0.25
#: Momentum of the others: faster in directions of little curvature, with iterates spread by 1/(1 − β).
MOMENTUM = 0.6
#: Factor on multipliers and divisor of costs, so that shares rounded in floating point never exceed the budget.
WIDER = 1.0 + 1e-9


@dataclass(frozen=True)
class Terms:
    """Budget of a fit, and what is public about its users.

    ``n_users`` is None where the number of users is released with noise. ``earlier`` events use the same budget;
    ``whole`` is a larger budget that holds these draws and others.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    n_users: int | None
    earlier: tuple[tuple[PrivacyEvent, int], ...] = ()
    whole: SharedBudget | None = None

    @property
    def sum_sensitivity(self) -> float:
        """ℓ2 change of a sum of vectors of norm at most 1: 1 for a user more or less, 2 for an exchange."""
        return 2.0 if self.adjacency is Adjacency.REPLACE_ONE else 1.0

    @property
    def acute_sensitivity(self) -> float:
        """ℓ2 change where no two vectors are at an obtuse angle, as counts and matrices zzᵀ are: √2 for an exchange."""
        return privacy.upper_root(2) if self.adjacency is Adjacency.REPLACE_ONE else 1.0

    @property
    def multiplier(self) -> float:
        """Noise multiplier of one Gaussian sum with all the budget."""
        return privacy.gaussian_noise_multiplier(self.epsilon, self.delta)

    @property
    def rho(self) -> float:
        """The budget in zCDP, roughly."""
        return 0.5 / self.multiplier**2

    def level(self, n_users: float, size: int) -> float:
        """Return the noise level Δ z √size / n of a fit with all the budget."""
        return self.sum_sensitivity * self.multiplier * math.sqrt(size) / n_users

    @property
    def monotone(self) -> bool:
        """True under add-remove, where a user more moves every count the same way."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def release_sum(self, contributions: Any, noise_multiplier: float, release: Release) -> Any:
        """Release the exact sum of integer contributions, in units of a contribution of norm 1."""
        return release.gaussian(
            contributions,
            sensitivity=self.sum_sensitivity / privacy.CONTRIBUTION_STEP,
            noise_multiplier=noise_multiplier,
            step=privacy.CONTRIBUTION_STEP,
        )

    def decides(self, epsilon: float, n_users: float, n_candidates: float = len(_ranges.SCALES)) -> bool:
        """Return True if ``n_users`` decide the selection of a median among ``n_candidates`` at this cost."""
        return epsilon * (1.0 + 1e-12) >= _ranges.selection_epsilon(n_users, n_candidates, monotone=self.monotone)


@dataclass(frozen=True)
class BudgetSplit:
    """Division of a budget between a count, selections and Gaussian sums.

    One Gaussian sum with the noise multiplier z = ``multiplier`` uses up all that the other draws leave. Sums with
    z/√share_i use it up together if the shares add up to 1: Gaussians of any multipliers compose to exactly one with
    1/z² = Σ 1/z_i², also if shares are chosen after looking at earlier results. ``n_scales`` selections cost
    ``scale_epsilon`` each, ``n_medians`` cost ``median_epsilon`` each. None is a draw that is not made.
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
        """Return three standard deviations below a noisy number of users, on which a selection may count."""
        return n_users - CLEAR_DEVIATIONS * (self.count_multiplier or 0.0)

    @property
    def other(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """Events beside the Gaussian sums."""
        events: list[tuple[PrivacyEvent, int]] = [*self.terms.earlier]
        if self.count_multiplier is not None:
            events.append((GaussianEvent(self.count_multiplier), 1))
        for cost, count in (
            (self.scale_epsilon, self.n_scales),
            (self.clip_epsilon, 1),
            (self.tail_epsilon, 1),
            (self.median_epsilon, self.n_medians),
        ):
            if cost is not None:
                events.append((BoundedRangeEvent(cost), count))
        return tuple(events)

    def level(self, n_users: float, n_coef: int) -> float:
        """Return the noise level ν = Δ z √d / n: the norm of all noise together, where a unanimous vote has norm 1."""
        return self.terms.sum_sensitivity * self.multiplier * math.sqrt(n_coef) / n_users

    def select_scale(self, rows: Any, counts: Any, n_users: float, release: Release) -> float | None:
        """Select the median of the users' numbers up to a power of 4; None where none is planned or users are too few.

        It is drawn in any case: which events are drawn must not depend on a released number of users. ``counts``
        counts the users of a block by scale.
        """
        if self.scale_epsilon is None:
            return None
        scale = _ranges.select_median_scale(
            rows.sum(partial(counts, scales=_ranges.COARSE_SCALES)),
            epsilon=self.scale_epsilon,
            release=release,
            monotone=self.terms.monotone,
            scales=_ranges.COARSE_SCALES,
        )
        decided = self.terms.decides(self.scale_epsilon, self.at_least(n_users), len(_ranges.COARSE_SCALES))
        return scale if decided else None

    def count(self, n_users: int, release: Release) -> float:
        """Return the public number of users, or release it with noise; at least the noise's deviation and 1."""
        if self.terms.n_users is not None:
            return float(self.terms.n_users)
        assert self.count_multiplier is not None
        noisy = release.gaussian(int(n_users), sensitivity=1, noise_multiplier=self.count_multiplier)
        return max(float(noisy), self.count_multiplier, 1.0)


def split_budget(
    terms: Terms, *, n_numbers: int, scales: int = 0, clip: bool = False, tail: bool = False, medians: int = 0
) -> BudgetSplit:
    """Divide a budget by public numbers alone.

    A selection that a public number of users cannot decide is left out.
    """
    alone, rho = terms.multiplier, terms.rho

    def cost(share: float, count: int, n_candidates: float = len(_ranges.SCALES)) -> float | None:
        if not count:
            return None
        if terms.n_users is None:  # nobody knows if they are enough
            return math.sqrt(8.0 * SMALL_SHARE * rho / count)
        affordable = math.sqrt(8.0 * share * rho / count)
        needed = _ranges.selection_epsilon(terms.n_users, n_candidates, monotone=terms.monotone)
        return needed if needed <= affordable else None

    clip_epsilon = cost(SMALL_SHARE, int(clip))
    tail_epsilon = None
    if tail and (clip_epsilon is not None or not clip):
        tail_epsilon = math.sqrt(8.0 * SMALL_SHARE * rho)
        if terms.n_users is not None and terms.n_users <= 2 * _ranges.tail_rank(tail_epsilon, len(_ranges.FINE_SCALES)):
            tail_epsilon = None
    draft = BudgetSplit(
        terms,
        alone,
        count_multiplier=alone / math.sqrt(SMALL_SHARE) if terms.n_users is None else None,
        scale_epsilon=cost(LARGE_SHARE, scales, len(_ranges.COARSE_SCALES)),
        clip_epsilon=clip_epsilon,
        tail_epsilon=tail_epsilon,
        median_epsilon=cost(LARGE_SHARE, medians, 2.0**MEDIAN_BITS),
        n_scales=scales,
        n_medians=medians,
    )
    # Selections cost more than zCDP shows where δ is large against ε. Those that do not fit are left out, in this
    # order.
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
    whole: SharedBudget | None = None,
) -> float:
    """Find the multiplier of one Gaussian sum that fits into (ε, δ) beside ``other``, and into a ``whole``.

    Starts from the split in zCDP, which is off by about one per cent, and widens until the accountant agrees. Infinite
    where ``other`` leaves less than a small share of what the split leaves.
    """
    left = 0.5 / alone**2 - sum(event.rho * count for event, count in other)
    if left <= 0.0:
        return math.inf
    z, widening = math.sqrt(0.5 / left), 1e-4
    most, patience = z / SMALL_SHARE, 8
    while z <= most:
        draws = [(GaussianEvent(z, n_numbers), 1), *other]
        spent = [(privacy.compose_epsilon(draws, delta), epsilon)]
        if whole is not None:
            spent.append((privacy.compose_epsilon([*draws, *whole.others], whole.delta), whole.epsilon))
        if all(needed <= most_epsilon for needed, most_epsilon in spent):
            return z
        patience -= 1
        # Near the end of the budget a step in proportion gains hardly anything.
        widening *= 2.0 if patience < 0 else 1.0
        excess = max(needed / most_epsilon for needed, most_epsilon in spent)
        z *= min(excess, 2.0) * (1.0 + widening)
    return math.inf


@dataclass(frozen=True)
class DescentPlan:
    """Noise and steps of a descent that uses up what ``split`` left for Gaussian sums.

    The clipping radius is ``clip_radius`` before or without a selection; after it the larger of ``clip_factor`` and
    ``growth`` times the selected median gradient norm. ``n_users`` is public or released, ``radius`` that of the
    projection.
    """

    split: BudgetSplit
    n_users: float
    n_steps: int
    n_coef: int
    radius: float
    first_step: float
    clip_factor: float = 1.0
    clip_radius: float = 0.0
    growth: float = 0.0
    quiet: bool = False

    @property
    def search_steps(self) -> int:
        return max(1, round(SEARCH_PART * self.n_steps)) if self.n_steps > 1 else 0

    @property
    def refine_steps(self) -> int:
        return self.n_steps - self.search_steps

    @property
    def search_multiplier(self) -> float:
        """Noise multiplier of one step of the search."""
        return self.split.multiplier * math.sqrt(2.0 * self.search_steps / LARGE_SHARE) * WIDER

    @property
    def refine_multiplier(self) -> float:
        """Noise multiplier of one step of the refinement."""
        share = 0.5 * LARGE_SHARE if self.search_steps else 0.0
        return self.split.multiplier * math.sqrt(self.refine_steps / (1.0 - share)) * WIDER

    @property
    def clip_decides(self) -> bool:
        """True if the users are enough to select a clipping radius.

        The selection is drawn in any case: which events are drawn must not depend on a released number of users.
        """
        cost = self.split.clip_epsilon
        return cost is not None and self.split.terms.decides(cost, self.split.at_least(self.n_users))

    @property
    def sums(self) -> list[tuple[PrivacyEvent, int]]:
        """Gaussian sums of the descent."""
        refine = (GaussianEvent(self.refine_multiplier, self.n_coef), self.refine_steps)
        if not self.search_steps:
            return [refine]
        return [(GaussianEvent(self.search_multiplier, self.n_coef), self.search_steps), refine]
