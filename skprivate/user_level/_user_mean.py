"""Mean of one vector per user: a private centre, a private radius, and one Gaussian sum of what lies within.

The improvements over Algorithm 3 are derived in docs/user_level.md: one ℓ2 ball about a private centre in place of an
interval per rotated coordinate, Gaussian in place of Laplace noise, and a radius that is found privately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, norm

from skprivate.privacy import GaussianEvent, PrivacyEvent
from skprivate.user_level._descent import adaptive_descent
from skprivate.user_level._plan import (
    MEDIAN_BITS,
    WIDER,
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
from skprivate.user_level._private_range import COARSE_SCALES, private_range, select_median_scale
from skprivate.user_level._problems import MeanProblem, unit_scale
from skprivate.user_level._users import UserGroups

FloatArray = npt.NDArray[np.float64]

#: Share of the Gaussian budget that finds the centre before the sum about it.
CENTRE_SHARE = 0.2
CENTRE_STEPS = 25


def clip_factor(aggregation: str, n_features: int) -> float:
    """Radius of the ball about the private centre, in units of the private median distance.

    Distances of Gaussian vectors are within 1 + 3/√d medians but for 4 standard deviations; at least 2 leaves room for
    users with fewer rows than others.
    """
    return 1.0 if aggregation == "robust" else max(2.0, 1.0 + 3.0 / math.sqrt(n_features))


@dataclass(frozen=True)
class MeanSettings:
    """Public settings of a private mean.

    Attributes
    ----------
    epsilon, delta : float
    neighbours : Neighbours
    n_users : int or None
        Public number of users; None to release it with noise.
    tau : float or None
        Public radius about their centre in which the users' means lie; None to select it privately.
    clip_factor : float
        Radius of the ball in units of the median distance from the centre.
    bound : float or None
        Public range [−B, B] in which the centre's coordinates are searched; None if it is near the origin anyway.
    n_scales : int
        Number of scales that are selected; more than that of the vectors if the caller needs others.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    n_users: int | None
    tau: float | None
    clip_factor: float
    bound: float | None
    n_scales: int = 1


@dataclass(frozen=True)
class MeanResult:
    """What a private mean released.

    ``winsorised`` tells whether the mean is that of the vectors pulled into the ball of ``clip_radius`` about the
    centre; otherwise there were too few users to find a radius, and the mean is the centre itself.
    """

    mean: FloatArray
    n_users: float
    clip_radius: float
    noise_scale: float
    offset: float
    winsorised: bool
    noise_level: float
    count_noise: float

    def confidence_radius(self, beta: float) -> float:
        """Radius about ``mean`` that holds the expectation of a user's (winsorised) vector with probability 1 − β.

        Privacy noise: a χ quantile. Sampling: independent users in a ball of radius C deviate by at most
        2C√(2 ln(2/β')/n) (Pinelis 1994, theorem 3.5). A noisy number of users: its relative error times the distance
        of the mean from the centre. Each gets β/3. ``inf`` where no radius was found.
        """
        if not self.winsorised:
            return math.inf
        part = beta / 3.0
        noise = self.noise_scale * math.sqrt(float(chi2.isf(part, len(self.mean))))
        sampling = 2.0 * self.clip_radius * math.sqrt(2.0 * math.log(2.0 / part) / self.n_users)
        error = self.count_noise * float(norm.isf(part / 2.0)) / self.n_users
        return noise + sampling + (self.offset * error / (1.0 - error) if error < 1.0 else math.inf)


class PreparedMean:
    """A private mean whose budget is divided and whose events are known, before anything is drawn."""

    def __init__(self, settings: MeanSettings, n_features: int) -> None:
        self.settings = settings
        self.n_features = n_features
        self.split: BudgetSplit = split_budget(
            settings.epsilon,
            settings.delta,
            settings.neighbours,
            n_users=settings.n_users,
            n_numbers=n_features * (CENTRE_STEPS + 1),
            scales=settings.n_scales,
            clip=settings.tau is None,
            medians=0 if settings.bound is None else n_features,
        )
        # Where it is known that no radius can be found, all goes into the centre.
        self.sums = settings.tau is not None or self.split.clip_epsilon is not None
        self.centre_share = CENTRE_SHARE if self.sums else 1.0
        if settings.n_users is None:
            self.n_steps = CENTRE_STEPS
        else:
            self.n_steps = default_steps(
                self.level(settings.n_users) / math.sqrt(self.centre_share), CENTRE_STEPS
            )
        self.sum_multiplier = self.split.multiplier / math.sqrt(1.0 - CENTRE_SHARE) * WIDER
        plan = self._centre_plan(float(settings.n_users or 1), math.inf)
        self.events: list[tuple[PrivacyEvent, int]] = [
            *self.split.other,
            *plan.events(n_features),
            *([(GaussianEvent(self.sum_multiplier, n_features), 1)] if self.sums else []),
        ]

    def level(self, n_users: float) -> float:
        """Norm of all the noise, where a unanimous vote of the users has norm 1."""
        return noise_level(self.split, self.settings.neighbours, n_users, self.n_features)

    def count(self, exact_users: int, release: Any) -> float:
        """The public number of users, or their private number released with noise."""
        return float(self.settings.n_users or noisy_count(exact_users, self.split, release))

    def run(self, vectors: FloatArray, groups: UserGroups, n_users: float, release: Any) -> MeanResult:
        """Draw: the users' scale, the centre, the radius, the sum about the centre."""
        settings = self.settings
        monotone = settings.neighbours.monotone
        start = self._medians(vectors, n_users, release)
        vectors = vectors - start
        scale = math.inf
        if self.split.scale_epsilon is not None:
            # As every selection here it is drawn in any case: which events are drawn must not depend on a released
            # number of users.
            found = select_median_scale(
                np.linalg.norm(vectors, axis=1),
                epsilon=self.split.scale_epsilon,
                release=release,
                monotone=monotone,
                scales=COARSE_SCALES,
            )
            if decides(
                self.split.scale_epsilon,
                self.split.at_least(n_users),
                settings.neighbours,
                len(COARSE_SCALES),
            ):
                scale = found
        problem = MeanProblem(vectors, groups)
        centre, _ = adaptive_descent(problem, self._centre_plan(n_users, scale), release)
        distances = problem.gradient_norms(centre)
        radius = self._radius(distances, n_users, release)
        if radius is None:
            if self.sums:
                self._sum(np.zeros(self.n_features), release)  # drawn in any case, see above
            return MeanResult(
                start + centre, n_users, 0.0, math.nan, 0.0, False, self.level(n_users), self._count_noise
            )
        # Σ weight·(x − centre)·C/max(‖x − centre‖, C), in units of C.
        scaled = unit_scale(distances, radius) * groups.weights
        inside = np.where(np.isfinite(distances)[:, None], vectors - centre, 0.0)
        noisy_sum = release.gaussian(
            scaled @ inside,
            sensitivity=settings.neighbours.sum_sensitivity,
            noise_multiplier=self.sum_multiplier,
        )
        offset = noisy_sum * (radius / n_users)
        noise_scale = settings.neighbours.sum_sensitivity * self.sum_multiplier * radius / n_users
        return MeanResult(
            mean=start + centre + offset,
            n_users=n_users,
            clip_radius=radius,
            noise_scale=noise_scale,
            offset=float(np.linalg.norm(offset)),
            winsorised=True,
            noise_level=self.level(n_users),
            count_noise=self._count_noise,
        )

    def _medians(self, vectors: FloatArray, n_users: float, release: Any) -> FloatArray:
        """Private median of every coordinate, or the origin where there are too few users for that."""
        price = self.split.median_epsilon
        neighbours = self.settings.neighbours
        bound = self.settings.bound
        if price is None or bound is None:
            return np.zeros(self.n_features)
        tau = bound * 2.0 ** (1 - MEDIAN_BITS)
        intervals = [
            private_range(
                column, epsilon=price, tau=tau, bound=bound, release=release, monotone=neighbours.monotone
            )
            for column in vectors.T
        ]
        if not decides(price, self.split.at_least(n_users), neighbours, 2.0**MEDIAN_BITS):
            return np.zeros(self.n_features)
        return np.array([0.5 * (low + high) for low, high in intervals])

    def _sum(self, value: FloatArray, release: Any) -> FloatArray:
        """The sum about the centre, with its noise."""
        return np.asarray(
            release.gaussian(
                value,
                sensitivity=self.settings.neighbours.sum_sensitivity,
                noise_multiplier=self.sum_multiplier,
            )
        )

    def _radius(self, distances: FloatArray, n_users: float, release: Any) -> float | None:
        if self.settings.tau is not None:
            return 2.0 * self.settings.tau
        price = self.split.clip_epsilon
        if price is None:
            return None
        median = select_median_scale(
            distances, epsilon=price, release=release, monotone=self.settings.neighbours.monotone
        )
        if not decides(price, self.split.at_least(n_users), self.settings.neighbours):
            return None
        return self.settings.clip_factor * median

    @property
    def _count_noise(self) -> float:
        return self.split.count_multiplier or 0.0

    def _centre_plan(self, n_users: float, scale: float) -> DescentPlan:
        # The centre's descent gets its share of the Gaussian budget: its multipliers are widened by 1/√share.
        share = BudgetSplit(None, None, None, None, 0, self.split.multiplier / math.sqrt(self.centre_share))
        return plan_descent(
            share,
            self.settings.neighbours,
            n_users=n_users,
            n_steps=self.n_steps,
            n_coef=self.n_features,
            clip_factor=1.0,
            clip_radius=0.0,
            radius=math.inf,
            first_step=0.5 * scale if math.isfinite(scale) else 0.5,
        )
