"""Mean of one vector per user: a private centre, a private radius, and one Gaussian sum of what lies within.

The improvements over Algorithm 3 are derived in docs/user_level.md: one ℓ2 ball about a private centre in place of an
interval per rotated coordinate, Gaussian in place of Laplace noise, and a radius that is found privately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, norm

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import GaussianEvent, Mechanism, PrivacyEvent, gaussian_noise_multiplier
from skprivate.user_level._clipping import MEAN_NOISE_PART, quiet_growth, tail_radius, tail_rank
from skprivate.user_level._descent import adaptive_descent
from skprivate.user_level._plan import (
    MEDIAN_BITS,
    WIDER,
    BudgetSplit,
    DescentPlan,
    Terms,
    default_steps,
    split_budget,
)
from skprivate.user_level._private_range import (
    COARSE_SCALES,
    FINE_SCALES,
    SCALES,
    scale_counts,
    select_median_scale,
    select_upper_scale,
)
from skprivate.user_level._problems import MeanProblem, count_users
from skprivate.user_level._users import UserGroups
from skprivate.user_level._winsorized_mean import private_middles

FloatArray = npt.NDArray[np.float64]

#: Share of the Gaussian budget that finds the centre before the sum about it.
CENTRE_SHARE = 0.2
#: A sum about the centre is taken from so many users on, per noise multiplier and sensitivity: where they decide the
#: selection of its radius.
FEWEST = 32.0
#: Largest share of the budget for the selection of its radius where the number of users is public: what so few users
#: decide. It falls as the square of their number.
RADIUS_SHARE = 0.2
CENTRE_STEPS = 25
#: Public radii and ranges lie between these.
_LEAST, _MOST = 2.0**-900, 2.0**900


@dataclass(frozen=True)
class MeanResult:
    """What a private mean released.

    ``winsorised`` tells whether the mean is that of the vectors pulled into the ball of ``clip_radius`` about the
    centre; otherwise there were too few users to find a radius, and the mean is the centre itself or on the way from
    there.
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


#: Rows of users, and whose they are.
UserRows = tuple[FloatArray, UserGroups]


def mean_rows(rows: UserRows) -> MeanProblem:
    """The users' mean rows."""
    X, groups = rows
    return MeanProblem(groups.mean(X), groups)


def _about(users: MeanProblem, start: FloatArray) -> MeanProblem:
    return MeanProblem(users.vectors - start[:, None], users.groups)


def _vectors(users: MeanProblem) -> FloatArray:
    return users.vectors


def _norm_counts(users: MeanProblem, w: FloatArray, scales: tuple[FloatArray, ...]) -> npt.NDArray[np.int64]:
    """How many users have about each distance from ``w``, on some scales one after the other."""
    norms = users.gradient_norms(w)
    return np.concatenate([scale_counts(norms, each) for each in scales])


@dataclass(frozen=True)
class UserMean(Mechanism):
    """Mean of one vector per user.

    Attributes
    ----------
    terms : Terms
    n_features : int
    reach : bool
        Whether the ball about the centre reaches over the tail of the users (`tail_radius`).
    tau : float or None
        Public radius about their centre in which the users' means lie; None to select it privately.
    bound : float or None
        Public range [−B, B] in which the centre's coordinates are searched; None if it is near the origin anyway.
    n_scales : int
        Number of scales that are selected; more than that of the vectors if the caller needs others.
    least_radius : float, default=1.0
        Least radius of the ball, in units of the users' median distance; the radius itself where it does not reach
        further.
    """

    terms: Terms
    n_features: int
    reach: bool
    tau: float | None = None
    bound: float | None = None
    n_scales: int = 1
    least_radius: float = 1.0
    theorem = "winsorised mean about a private centre, docs/user_level.md"

    def __post_init__(self) -> None:
        # Refused before anything is paid for. What is computed from them stays finite, and bins have a width.
        for name, value in (("tau", self.tau), ("bound", self.bound)):
            if value is not None and not _LEAST <= value <= _MOST:
                raise ValueError(f"{name} must lie between 2**-900 and 2**900, got {value!r}.")

    @cached_property
    def weight(self) -> float:
        """Weight of the sum about the centre: from 0 to 1 while users grow from `FEWEST` by half.

        The centre estimates a spatial median, with less noise than any sum. Going over to the sum at once would make
        more users a worse answer.
        """
        if self.tau is not None or self.terms.n_users is None:
            return 1.0
        multiplier = gaussian_noise_multiplier(self.terms.epsilon, self.terms.delta)
        users = self.terms.n_users / (FEWEST * self.terms.sum_sensitivity * multiplier)
        return min(1.0, max(0.0, 2.0 * (users - 1.0)))

    @property
    def centre_share(self) -> float:
        """Share of the Gaussian budget that finds the centre."""
        return 1.0 - (1.0 - CENTRE_SHARE) * self.weight if self.sums else 1.0

    @cached_property
    def split(self) -> BudgetSplit:
        return split_budget(
            self.terms,
            n_numbers=self.n_features * (CENTRE_STEPS + 1),
            scales=self.n_scales,
            clip=self.tau is None and self.weight > 0.0,
            tail=self.tau is None and self.reach,
            medians=0 if self.bound is None else self.n_features,
            clip_share=RADIUS_SHARE,
        )

    @property
    def sums(self) -> bool:
        """Whether a sum about the centre is drawn. Where it is known that no radius can be found, it is not."""
        return self.tau is not None or self.split.clip_epsilon is not None

    @property
    def sum_multiplier(self) -> float:
        """Noise multiplier of the sum about the centre."""
        return self.split.multiplier / math.sqrt((1.0 - CENTRE_SHARE) * self.weight) * WIDER

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        sums = [(GaussianEvent(self.sum_multiplier, self.n_features), 1)] if self.sums else []
        return [*self.split.other, *self._centre_plan(float(self.terms.n_users or 1), 1.0).sums, *sums]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserRows, release: Any) -> MeanResult:
        """Draw the mean of the users' mean rows; ``data`` is (X, groups), or such pairs in blocks."""
        means = as_partitions(data).map(mean_rows).persisted()
        n_users = self.split.count(count_users(means, self.terms.n_users), release)
        return self.mean_of_vectors(means, n_users, release)

    def mean_of_vectors(self, users: Partitions, n_users: float, release: Any) -> MeanResult:
        """Draw: medians, the users' scale, the centre, the radius, the sum about the centre.

        Parameters
        ----------
        users : Partitions
            Of `MeanProblem`.
        n_users : float
            Public or released.
        release : Release
        """
        split = self.split
        start = self._medians(users, n_users, release)
        users = users.map(partial(_about, start=start))
        scale = 1.0
        if split.scale_epsilon is not None:
            # As every selection here it is drawn in any case: which events are drawn must not depend on a released
            # number of users.
            found = select_median_scale(
                users.sum(partial(_norm_counts, w=np.zeros(self.n_features), scales=(COARSE_SCALES,))),
                epsilon=split.scale_epsilon,
                release=release,
                monotone=self.terms.monotone,
                scales=COARSE_SCALES,
            )
            if self.terms.decides(split.scale_epsilon, split.at_least(n_users), len(COARSE_SCALES)):
                scale = found
        centre = adaptive_descent(users, self._centre_plan(n_users, scale), release).coef
        radius = self._radius(users, centre, n_users, release)
        offset, noise_scale = np.zeros(self.n_features), math.nan
        if self.sums:  # drawn in any case, see above; the gradient at the centre is centre − x
            total = users.sum(methodcaller("contribution_sum", centre, radius or 0.0))
            noisy = self.terms.release_sum(total, self.sum_multiplier, release)
            if radius is not None:
                offset = noisy * (-self.weight * radius / n_users)
                noise_scale = self.terms.sum_sensitivity * self.sum_multiplier * radius / n_users
        return MeanResult(
            mean=start + centre + offset,
            n_users=n_users,
            clip_radius=radius or 0.0,
            noise_scale=noise_scale,
            offset=float(np.linalg.norm(offset)),
            winsorised=radius is not None and self.weight == 1.0,
            noise_level=split.level(n_users, self.n_features),
            count_noise=split.count_multiplier or 0.0,
        )

    def _medians(self, users: Partitions, n_users: float, release: Any) -> FloatArray:
        """Private median of every coordinate, or the origin where there are too few users for that."""
        price = self.split.median_epsilon
        if price is None or self.bound is None:
            return np.zeros(self.n_features)
        middles = private_middles(
            users.map(_vectors),
            epsilon=price,
            tau=self.bound * 2.0 ** (1 - MEDIAN_BITS),
            bound=self.bound,
            release=release,
            monotone=self.terms.monotone,
        )
        if not self.terms.decides(price, self.split.at_least(n_users), 2.0**MEDIAN_BITS):
            return np.zeros(self.n_features)
        return np.array(middles)

    def _radius(self, users: Partitions, centre: FloatArray, n_users: float, release: Any) -> float | None:
        if self.tau is not None:
            return 2.0 * self.tau
        price = self.split.clip_epsilon
        if price is None:
            return None
        distances = partial(_norm_counts, w=centre, scales=(SCALES, FINE_SCALES))
        counts, fine_counts = np.split(users.sum(distances), [len(SCALES)])
        median = select_median_scale(counts, epsilon=price, release=release, monotone=self.terms.monotone)
        tail, upper, beyond = self.split.tail_epsilon, 0.0, None
        if tail is not None:
            rank = tail_rank(tail, len(FINE_SCALES))
            found = select_upper_scale(fine_counts, rank, epsilon=tail, release=release, scales=FINE_SCALES)
            if self.split.at_least(n_users) > 2 * rank:
                upper, beyond = found, rank / n_users
        if not self.terms.decides(price, self.split.at_least(n_users)):
            return None
        level = self.split.level(n_users, self.n_features)
        quiet = quiet_growth(level, n_users, MEAN_NOISE_PART) if self.reach else 0.0
        found = tail_radius(median, upper, level, self.n_features, beyond, quiet)
        return max(found, self.least_radius * median)

    def _centre_plan(self, n_users: float, scale: float) -> DescentPlan:
        # The centre's descent gets its share of the Gaussian budget: its multipliers are widened by 1/√share.
        share = BudgetSplit(self.terms, self.split.multiplier / math.sqrt(self.centre_share))
        steps = CENTRE_STEPS
        if self.terms.n_users is not None:
            steps = default_steps(share.level(self.terms.n_users, self.n_features), CENTRE_STEPS)
        return DescentPlan(share, n_users, steps, self.n_features, math.inf, 0.5 * scale)
