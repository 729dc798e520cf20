"""What a linear model by descent draws, and with how much noise: by public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from skprivate.privacy import GaussianEvent, Mechanism, PrivacyEvent, gaussian_noise_multiplier
from skprivate.user_level._class_weights import ClassCounts
from skprivate.user_level._clipping import GRADIENT_NOISE_PART, MOST_HEAVY, quiet_growth
from skprivate.user_level._functions import Function
from skprivate.user_level._noise_rules import LEAST_CLIP, MOST_CLIP, noise_penalty
from skprivate.user_level._plan import (
    MOST_MOMENTUM,
    WIDER,
    BudgetSplit,
    DescentPlan,
    Terms,
    default_steps,
    split_budget,
)
from skprivate.user_level._problems import Objective
from skprivate.user_level._row_means import MEANS_SHARE, MOST_LEVEL, MOST_LEVEL_TWO, sees_offset
from skprivate.user_level._standardise import Standardisation
from skprivate.user_level._whitening import n_moments, relative_noise

FloatArray = npt.NDArray[np.float64]

#: First step in units of the projection radius, and its length where there is none.
FIRST_STEP = 0.15
FIRST_STEP_UNBOUNDED = 0.5
#: Shares of the Gaussian sums for whitening; the first is taken whose relative noise is small, or the last.
WHITENING_SHARES = (0.02, 0.05, 0.1)
WHITENING_SHARE_PRIVATE_COUNT = 0.08
#: Relative noise of second moments that is small, and with which whitening is left out.
SMALL_NOISE, MOST_NOISE = 0.1, 0.2
#: Noise of a single step, against a unanimous vote, below which curvatures are read off the steps themselves.
QUIET_LEVEL = 1e-3
#: Second moments of more numbers than that take too long.
MOST_WHITENED = 200


@dataclass(frozen=True)
class DescentRules(Mechanism):
    """The number of users if it is private, centres and scales, moments or means, a scale of the target, the steps.

    Attributes
    ----------
    terms : Terms
        ``earlier`` holds the events of ``class_weights`` and ``standardisation``.
    objective : Objective
        Its ``alpha`` is replaced by `alpha`.
    given_alpha : float or None
        Strength of the penalty; None for (``record_ridge`` + ``clip_ridge``·c²)·d·ν² with the noise level ν of the fit
        and the clipping radius c in units of ``row_norm``, and ``user_ridge``/n.
    record_ridge, user_ridge, clip_ridge : float
    given_steps : int or None
        Number of steps; None to choose by public numbers, between ``least_steps`` and ``most_steps``: as many as leave
        a single one ``step_noise`` against a unanimous vote.
    least_steps, most_steps, usual_steps : int
        Where the number of users is private there are ``usual_steps`` at least, more if `FEW_USERS` would take more.
    step_noise : float
    select_clip : bool
        Select a clipping radius privately if there are enough users; otherwise ``clip_radius``.
    clip_factor : float
        Clipping radius in units of the median gradient norm.
    clip_radius : float
    clip_noise : float
        ``clip_radius`` is less where ν is larger than this over √d·``clip_radius``, down to `LEAST_CLIP`; 0 if it does
        not depend on ν.
    clip_growth : float
        Clipping radius in the same units over ν^(−1/2), where that is larger; 0 if it does not depend on ν.
    follow_tail : bool
        Let a selected clipping radius grow as noise falls, and as the tail of the gradient norms demands.
    select_scale : bool
        Find the projection radius from the users' magnitudes if there are enough users; otherwise ``radius``.
    radius : float
    shrink_radius : bool
        Whether ``radius`` is a default rather than a bound, to be shrunk where noise is large and to grow where it is
        small.
    row_norm : float or None
        Typical norm of a row, by which ``clip_radius`` is multiplied and ``radius`` divided; None if they are absolute.
    first_step : float
        Length of the first step in units of the projection radius.
    standardisation : Standardisation or None
        How features and target are centred and scaled first.
    row_bound : float
        Longer rows are drawn to this Euclidean norm where there is no ``standardisation``.
    whitening_floor : float >= 0
        Second moments below this part of their average are not whitened.
    class_weights : ndarray of shape (n_classes,), ClassCounts or None
        Weights of the rows by class: public, or from private counts, which are among the ``earlier`` events.
    classes : bool
        Whether targets are classes. Standardised rows longer than is typical, or than the clip, then weigh less; and
        standardised features that are not whitened have their means removed. (So have, in any case, features that
        have no scales of their own.)
    """

    terms: Terms
    objective: Objective
    given_alpha: float | None
    record_ridge: float
    given_steps: int | None
    least_steps: int
    most_steps: int
    usual_steps: int
    step_noise: float
    select_clip: bool
    clip_factor: float
    clip_radius: float
    select_scale: bool
    radius: float
    shrink_radius: bool
    clip_noise: float = 0.0
    clip_growth: float = 0.0
    follow_tail: bool = False
    user_ridge: float = 0.0
    clip_ridge: float = 0.0
    row_norm: float | None = None
    first_step: float = FIRST_STEP
    standardisation: Standardisation | None = None
    row_bound: float = math.inf
    whitening_floor: float = 0.0
    class_weights: FloatArray | ClassCounts | None = field(default=None, compare=False)
    classes: bool = False
    functions: tuple[Function | None, ...] = ()
    most_momentum: float = MOST_MOMENTUM

    @cached_property
    def split(self) -> BudgetSplit:
        return split_budget(
            self.terms,
            n_numbers=self.objective.n_coef * (self.given_steps or self.most_steps)
            + n_moments(self._n_whitened),
            scales=int(self.select_scale),
            clip=self.select_clip,
            tail=self.select_clip and self.follow_tail and self._tail_matters,
        )

    @property
    def _tail_matters(self) -> bool:
        """Whether any tail could change the clipping radius."""
        if self.terms.n_users is None:
            return True
        multiplier = gaussian_noise_multiplier(self.terms.epsilon, self.terms.delta)
        level = self.terms.sum_sensitivity * multiplier * math.sqrt(self.size) / self.terms.n_users
        growth = quiet_growth(level, self.terms.n_users, GRADIENT_NOISE_PART)
        return MOST_HEAVY * growth > self.clip_factor

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def two_classes(self) -> bool:
        """Whether targets are two classes, of which either may be rare."""
        return self.classes and self.objective.n_outputs == 1

    @property
    def _intercept_alone(self) -> bool:
        """Whether two classes have an intercept that whitening does not mix with slopes, and a loss that is known."""
        known = self.clip_ridge > 0.0
        return known and self.two_classes and self.objective.fit_intercept and not self.whitening_share

    @property
    def n_steps(self) -> int:
        """Number of steps. Events have to be known before a private number of users is released."""
        if self.given_steps is not None:
            return self.given_steps
        least = self.usual_steps if self.terms.n_users is None else self.least_steps
        return default_steps(self.split, self.objective.n_coef, self.step_noise, least, self.most_steps)

    def clip(self, n_users: float) -> float:
        """Clipping radius in units of ``row_norm``."""
        level = self.split.level(n_users, self.size)
        start = self.clip_radius
        if self.clip_noise:
            free = self.clip_noise / (math.sqrt(self.size) * level)
            start = max(min(start, max(LEAST_CLIP, free)), min(MOST_CLIP * start, 0.5 * free))
        return max(start, self.clip_growth / math.sqrt(level))

    def flat(self, n_users: float) -> bool:
        """Whether all users are clipped at the origin, so that a default penalty alone holds the intercept."""
        return self.given_alpha is None and self.clip_ridge > 0.0 and self.clip(n_users) < self.clip_radius

    def penalty(self, n_users: float) -> float:
        """Strength of the penalty for a public or released number of users."""
        if self.given_alpha is not None:
            return self.given_alpha
        level, clip = self.split.level(n_users, self.size), self.clip(n_users)
        noise = self.record_ridge * self.size * level**2
        if self.clip_ridge:
            width = self.size / self.objective.n_outputs
            noise += noise_penalty(self.clip_ridge, level, clip, width, self.size, self.flat(n_users))
        return noise + self.user_ridge / n_users

    def quiet(self, n_users: float) -> bool:
        """Whether there is so little noise that steps are quasi-Newton from where the clipping radius is fixed."""
        # Within a radius that is given, and may be met, curvatures beyond it say nothing.
        clips = self.shrink_radius if self.select_clip else self.clip_radius > 0.0
        known = clips and not hasattr(self.objective.loss, "gradient")
        return known and self.split.level(n_users, self.size) * math.sqrt(self.n_steps) <= QUIET_LEVEL

    @property
    def _n_whitened(self) -> int:
        return self.objective.n_features + self.objective.fit_intercept

    @cached_property
    def whitening_share(self) -> float:
        """Share of the Gaussian budget for second moments; 0 if none are released."""
        d = self._n_whitened
        if self.standardisation is None or self.standardisation.bare or d > MOST_WHITENED:
            return 0.0
        if self.terms.n_users is None:
            return WHITENING_SHARE_PRIVATE_COUNT
        if self.classes and self.quiet(self.terms.n_users):  # not needed, and lengthens rows of rare values
            return 0.0
        for share in WHITENING_SHARES:
            noise = relative_noise(
                self.terms, self.split.multiplier / math.sqrt(share), d, self.terms.n_users
            )
            if noise <= SMALL_NOISE:
                return share
        return share if noise <= MOST_NOISE else 0.0

    @property
    def whitening_multiplier(self) -> float:
        """Noise multiplier of the second moments."""
        return self.split.multiplier / math.sqrt(self.whitening_share) * WIDER

    @cached_property
    def means_share(self) -> float:
        """Share of the Gaussian budget for means; 0 if none are released. By public numbers, as that for whitening."""
        n_users = self.terms.n_users
        if self.standardisation is None or not self.objective.fit_intercept:
            return 0.0
        if n_users is None or self.whitening_share:
            return 0.0
        most = MOST_LEVEL_TWO if self.two_classes else MOST_LEVEL
        quiet = self.classes and self.split.level(n_users, self.size) <= most
        if not self.standardisation.by_column:
            quiet = sees_offset(self.terms)
        return MEANS_SHARE if quiet else 0.0

    @property
    def means_multiplier(self) -> float:
        """Noise multiplier of the means."""
        return self.split.multiplier / math.sqrt(self.means_share) * WIDER

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        moments: list[tuple[PrivacyEvent, int]] = []
        if self.whitening_share:
            moments = [(GaussianEvent(self.whitening_multiplier, n_moments(self._n_whitened)), 1)]
        elif self.means_share:
            moments = [(GaussianEvent(self.means_multiplier, self.objective.n_features), 1)]
        sums = self.plan(float(self.terms.n_users or 1), self.radius, self.radius, 1.0).sums
        return [*self.split.other, *moments, *sums]

    def plan(self, n_users: float, radius: float, reach: float, row_norm: float) -> DescentPlan:
        """The steps for so many users, within a radius, to a point that is probably not farther than ``reach``."""
        share = self.whitening_share + self.means_share
        left = replace(self.split, multiplier=self.split.multiplier / math.sqrt(1.0 - share) * WIDER)
        growth = quiet_growth(self.split.level(n_users, self.size), n_users, GRADIENT_NOISE_PART)
        return DescentPlan(
            left if share else self.split,
            n_users,
            self.n_steps,
            self.objective.n_coef,
            radius,
            self.first_step * reach if math.isfinite(reach) else FIRST_STEP_UNBOUNDED,
            self.clip_factor,
            0.0 if self.clip_radius == 0.0 else self.clip(n_users) * row_norm,
            most_momentum=self.most_momentum,
            growth=growth if self.follow_tail else 0.0,
            quiet=self.quiet(n_users),
            hold_step=self.two_classes,
            intercept=self._intercept_alone,
        )
