"""Mean of one vector per user: a private centre, a private radius, and one Gaussian sum of offsets within the ball.

Derived in docs/theory/user_level.md. One ℓ2 ball about a private centre takes the place of Algorithm 3's intervals per
rotated coordinate, Gaussian that of Laplace noise, and the radius is found privately.

Centre and spread are found together, by a clipped descent whose clip tracks a quantile of the distances. A user
contributes its clipped offset and one more coordinate, the sign of its distance less the tracked quantile: together a
vector of norm at most 1. So no number of users is too small to begin with, and the spread is known as well as the noise
allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi, chi2, norm

from skprivate import privacy
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, GaussianEvent, LaplaceEvent, PrivacyEvent, Release
from skprivate.user_level import _ranges
from skprivate.user_level._plan import MEDIAN_BITS, SEARCH_PART, SMALL_SHARE, WIDER, BudgetSplit, Terms, split_budget
from skprivate.user_level._problems import MeanProblem, UserGroups, count_users, vector_norms
from skprivate.user_level._ranges import QUANTILE_SHARE
from skprivate.user_level.means._winsorized import clipped_means, private_middles, winsorized_means

FloatArray = npt.NDArray[np.float64]

#: Draws of a mean, and the first of them, whose steps are as long as the clip, for `SMALL_SHARE` of the budget.
DRAWS = 20
TRAVEL = round(SEARCH_PART * DRAWS)
#: Draws that find the centre, and their part of the budget after the travel; the others are one sum about it. The mean
#: is that part of the way from the sum back to the centre.
CENTRE_DRAWS = (DRAWS + TRAVEL) // 2
CENTRE_PART = (CENTRE_DRAWS - TRAVEL) / (DRAWS - TRAVEL)
#: Part of the users beyond the tracked distance, clip in such distances during the travel, and what one dimension adds.
BEYOND, LEAST_CLIP, ONE_DIMENSION = 0.4, 0.8, 0.4
#: Largest length of the sign coordinate, as in the travel.
MOST_SIDE = 0.4
#: Sufficient noise of the part of users beyond the distance, in one draw with all of the budget.
SIDE_NOISE = 0.1
#: Change of the part beyond the distance with its logarithm: .54 for normal numbers, more for vectors.
SLOPE = 0.7
#: Variance that a step adds to the logarithm of the distance, which has 1 at first.
DRIFT = 0.003
#: Power of a distance in the exponent of a tail below which the tail may be heavy.
LIGHT = 1.2
#: Rows and their users.
UserRows = tuple[FloatArray, UserGroups]


def least_clip(n_features: int) -> float:
    """Return the clip in tracked distances: about the users' deviation, more than once with few features."""
    return LEAST_CLIP + ONE_DIMENSION / math.sqrt(n_features)


def draw_side(noise: float) -> float:
    """Return the length of the sign coordinate after the travel: as short as the noise of all draws together allows."""
    return min(MOST_SIDE, noise / SIDE_NOISE)


def draw_multipliers(multiplier: float) -> tuple[float, float]:
    """Return noise multipliers of an early and of a late draw, all together as much as one with ``multiplier``.

    Gaussians of any multipliers compose to exactly one with 1/z² = Σ 1/z_i².
    """
    return multiplier * math.sqrt(TRAVEL / SMALL_SHARE), multiplier * math.sqrt((DRAWS - TRAVEL) / (1.0 - SMALL_SHARE))


def draw_events(multiplier: float, n_numbers: int) -> list[tuple[PrivacyEvent, int]]:
    """List all draws of ``n_numbers`` numbers."""
    first, later = draw_multipliers(multiplier)
    return [(GaussianEvent(first, n_numbers), TRAVEL), (GaussianEvent(later, n_numbers), DRAWS - TRAVEL)]


def _with_side(users: MeanProblem, w: FloatArray, clip: float, distance: float, side: float | None) -> npt.NDArray[Any]:
    """Sum weight_u·(√(1 − side²)·(x_u − w)/max(‖x_u − w‖, clip), ±side) over users; without the sign if it is None.

    The sign is positive for users beyond the distance. The side of the others is so much shorter that all add up to 0
    where the part beyond is as it should be.
    """
    n_numbers = users.n_coef + (side is not None)

    def contributions() -> Iterator[FloatArray]:
        yield np.zeros((n_numbers, 0))
        for of, offsets in users.gradient_blocks(w):
            norms = vector_norms(offsets)
            vectors = np.empty((n_numbers, offsets.shape[1]))
            length = -math.sqrt(1.0 - (side or 0.0) ** 2)
            divisor = np.maximum(norms, clip)
            for row, offset in zip(vectors, offsets, strict=False):
                np.divide(offset, divisor, out=row)
                row *= length
            if side is not None:
                vectors[-1] = np.where(norms > distance, side, -side * BEYOND / (1.0 - BEYOND))
            yield privacy.ball_contributions(vectors, 1.0, weights=users.groups.weights[of], out=vectors)

    return privacy.exact_sum(contributions(), bound=2**privacy.CONTRIBUTION_BITS)


@dataclass
class TrackedQuantile:
    """Tracked quantile: logarithm of a distance that a part of the users exceed, by a Kalman filter of one number."""

    distance: float
    variance: float = 1.0

    def observe(self, excess: float, noise: float, drift: float) -> None:
        """Update by one step; ``excess`` is the observed part beyond less its target."""
        slope = min(SLOPE, 0.5 / math.sqrt(self.variance))
        gain = self.variance * slope / (slope * slope * self.variance + noise * noise)
        # Limits are equal above and below: noise cut on one side only would push the distance to the other.
        most = max(BEYOND, 1.0 - BEYOND)
        excess = min(most, max(-most, excess))
        self.distance = min(max(self.distance * math.exp(gain * excess), 1e-280), 1e280)
        self.variance *= 1.0 - gain * slope
        self.variance += drift


@dataclass
class TrackedCentre:
    """State of the descent: all that was released so far.

    ``multiplier`` is that of one draw with all of the budget. ``near`` is None where the clip is public.
    """

    terms: Terms
    n_users: float
    multiplier: float
    w: FloatArray
    near: TrackedQuantile | None
    uses_side: bool = True
    n_steps: int = 0

    @property
    def distance(self) -> float:
        """The tracked distance."""
        return math.inf if self.near is None else self.near.distance

    @property
    def draw_multiplier(self) -> float:
        """Noise multiplier of this draw."""
        return draw_multipliers(self.multiplier)[self.n_steps >= TRAVEL]

    @property
    def noise(self) -> float:
        """Standard deviation of this draw in each coordinate, a unanimous vote being 1."""
        return self.terms.sum_sensitivity * self.draw_multiplier / self.n_users

    @property
    def side(self) -> float | None:
        """Length of the sign coordinate in this draw, 0 where the sign is not used, None where there is none."""
        if self.near is None:
            return None
        if not self.uses_side:
            return 0.0
        return (
            MOST_SIDE
            if self.n_steps < TRAVEL
            else draw_side(self.terms.sum_sensitivity * self.multiplier / self.n_users)
        )

    def total(self, users: Partitions, clip: float) -> npt.NDArray[Any]:
        """Sum the users' contributions at the centre, exactly."""
        return users.sum(partial(_with_side, w=self.w, clip=clip, distance=self.distance, side=self.side))

    def draw(self, total: npt.NDArray[Any], release: Release) -> FloatArray:
        """Release that sum as a mean of the users' votes, and update the distance by the sign coordinate."""
        noisy = np.asarray(self.terms.release_sum(total, self.draw_multiplier, release) / self.n_users)
        side = self.side or 0.0
        if self.near is not None and side > 0.0:
            unit = (1.0 - BEYOND) / side
            self.near.observe(noisy[-1] * unit, self.noise * unit, DRIFT)
        return noisy[: len(self.w)] / math.sqrt(1.0 - side * side)

    def step(self, users: Partitions, clip: float, release: Release) -> None:
        """Move the centre towards the users, and the distances towards their quantiles, by one draw."""
        vote = self.draw(self.total(users, clip), release)
        # No mean of votes is longer than one of them.
        vote /= max(1.0, float(np.linalg.norm(vote)))
        # Shorter where noise is as loud as half a vote.
        rate = min(1.0, 0.5 / (self.noise * math.sqrt(len(self.w))))
        if self.n_steps >= TRAVEL:
            rate = min(rate, 1.0 / (1 + self.n_steps - TRAVEL))
        self.w = self.w + rate * clip * vote
        self.n_steps += 1


@dataclass(frozen=True)
class MeanResult:
    """Released mean: a private centre and part of the offset of a sum about it."""

    mean: FloatArray
    n_users: float
    clip_radius: float
    noise_scale: float
    offset: float
    noise_level: float
    count_noise: float
    spread: float = math.nan
    lost: float = 0.0

    def confidence_radius(self, beta: float) -> float:
        """Return a radius about ``mean`` that holds the expectation of a user's vector with chance 1 − β.

        Gaussian noise, sampling error of variance ``spread``²/n, which is largest if it is all in one direction, and
        ``lost``, what clipping may have taken. A noisy number of users is the least likely one, and its relative error
        counts times the offset. NaN where users were too few for a tail.
        """
        d, part = len(self.mean), 1.0 if self.count_noise == 0.0 else 0.5
        error = self.count_noise * float(norm.isf(0.25 * beta)) / self.n_users
        if error >= 1.0:
            return math.nan
        noise = self.noise_scale**2 * (1.0 - CENTRE_PART) * float(chi2.isf(part * beta, d))
        sampling = self.spread**2 / (self.n_users * (1.0 - error)) * float(chi2.isf(part * beta, 1))
        return math.sqrt(noise + sampling) + self.lost + self.offset * error / (1.0 - error)


@dataclass(frozen=True)
class Tail:
    """Tail of the users by two released distances: the part `BEYOND` exceeds ``distance``, ``beyond`` ``upper``.

    The part beyond t is exp(−(t/s)^k) through both. Where k shows that the tail may be heavy it is a power of t beyond
    ``upper``, as in `balanced_radius`. Distances too far apart for such a power are of two groups of users, such as
    zeros and ones: then all of `BEYOND` may be as far as ``upper``.
    """

    distance: float
    upper: float
    beyond: float

    @property
    def _ratio(self) -> float:
        return math.log(self.upper / self.distance)

    @property
    def power(self) -> float:
        """The power k."""
        return math.log(math.log(self.beyond) / math.log(BEYOND)) / self._ratio

    @property
    def _found(self) -> float:
        """The index of a power through both distances."""
        return math.log(BEYOND / self.beyond) / self._ratio

    @property
    def index(self) -> float:
        """The index of a heavy tail."""
        return max(_ranges.LEAST_INDEX, self._found)

    def spread(self, radius: float) -> float:
        """Return the root mean square distance of users clipped to a ball."""
        t = np.linspace(0.0, radius, 2001)[1:]
        share = np.exp(math.log(BEYOND) * (t / self.distance) ** self.power)
        if self.power < LIGHT:
            nearer = np.maximum(share, BEYOND) if self._found < _ranges.LEAST_INDEX else share
            share = np.where(t > self.upper, self.beyond * (t / self.upper) ** -self.index, nearer)
        return math.sqrt(float((2.0 * t * share).sum()) * radius / len(t))

    def lost(self, radius: float, clip: float, shift: float) -> float:
        """Return how far clipping to a ball moves a mean that is ``shift`` from the one with a smaller ``clip``.

        What lies beyond t and is cut off falls as t^(1 − a) for a tail of index a. With index 2 it is the shift over
        radius/clip − 1; a symmetric tail shifts nothing. Where the tail is light it explains no shift: then few users
        far away do, of whom the ball may hold no more than it cuts off.
        """
        if self.power >= LIGHT:
            return shift
        cut = self.beyond * radius / (self.index - 1.0) * math.pow(radius / self.upper, -self.index)
        return 2.0 * min(cut, shift / max(radius / clip - 1.0, 1.0))


def mean_rows(rows: UserRows) -> MeanProblem:
    """Average each user's rows."""
    X, groups = rows
    return MeanProblem(groups.mean(X), groups)


def _about(users: MeanProblem, start: FloatArray) -> MeanProblem:
    return MeanProblem(users.vectors - start[:, None], users.groups)


def _vectors(users: MeanProblem) -> FloatArray:
    return users.vectors


def _norm_counts(users: MeanProblem, w: FloatArray, scales: FloatArray) -> npt.NDArray[np.int64]:
    """Count users by their distance from ``w``."""
    return _ranges.scale_counts(users.gradient_norms(w), scales)


@dataclass(frozen=True)
class UserMean(privacy.Mechanism):
    """Mean of one vector per user by a tracked centre and a sum about it.

    With ``follows_tail`` the ball covers the tail of the users (`balanced_radius`). ``tau`` is a public radius of the
    users' means about their centre, None to select it. ``bound`` is a public range [−B, B] of the centre, None if that
    is near the origin. ``least_radius`` is in units of the users' median distance.
    """

    terms: Terms
    n_features: int
    follows_tail: bool
    tau: float | None = None
    bound: float | None = None
    n_scales: int = 1
    least_radius: float = 1.0
    theorem = "winsorised mean about a private centre, docs/theory/user_level.md"

    def __post_init__(self) -> None:
        # Refused before anything is paid for: computed numbers stay finite, and bins have a width.
        for name, value in (("tau", self.tau), ("bound", self.bound)):
            if value is not None and not 2.0**-900 <= value <= 2.0**900:
                raise ValueError(f"{name} must be between 2**-900 and 2**900, got {value!r}.")

    @cached_property
    def split(self) -> BudgetSplit:
        return split_budget(
            self.terms,
            n_numbers=self.n_drawn * DRAWS,
            scales=self.n_scales,
            tail=self.tau is None and self.follows_tail,
            medians=0 if self.bound is None else self.n_features,
        )

    @property
    def n_drawn(self) -> int:
        """Numbers of one draw: a vector, and the sign of the distance unless the radius is known."""
        return self.n_features + (self.tau is None)

    @property
    def multiplier(self) -> float:
        """Noise multiplier of one draw with all of the budget."""
        return self.split.multiplier * WIDER

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [*self.split.other, *draw_events(self.multiplier, self.n_drawn)]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserRows, release: Release) -> MeanResult:
        """Release the mean of the users' mean rows; ``data`` is (X, groups), or such pairs in blocks."""
        means = as_partitions(data).map(mean_rows).persisted()
        n_users = self.split.count(count_users(means, self.terms.n_users), release)
        return self.mean_of_vectors(means, n_users, release)

    def mean_of_vectors(self, users: Partitions, n_users: float, release: Release) -> MeanResult:
        """Release medians, the users' scale, the centre with their spread, and the sum about the centre."""
        split = self.split
        start = self._medians(users, n_users, release)
        users = users.map(partial(_about, start=start))
        zero = np.zeros(self.n_features)
        scale = split.select_scale(users, partial(_norm_counts, w=zero), n_users, release) or 1.0
        known = None if self.tau is None else 2.0 * self.tau
        near = None if known else TrackedQuantile(scale)
        centre = TrackedCentre(self.terms, n_users, self.multiplier, zero, near)
        while centre.n_steps < TRAVEL:
            centre.step(users, known or LEAST_CLIP * centre.distance, release)
        early, early_clip = centre.w, LEAST_CLIP * centre.distance
        early_noise = self.terms.sum_sensitivity * draw_multipliers(self.multiplier)[0] / n_users * early_clip
        tail = self._tail(users, centre, n_users, release)
        while centre.n_steps < CENTRE_DRAWS:
            centre.step(users, known or self.radius(centre.distance, n_users, *tail), release)
        radius = known or self.radius(centre.distance, n_users, *tail)
        # One sum, drawn as often as there are steps left.
        centre.uses_side = False
        total, n_left = centre.total(users, radius), DRAWS - CENTRE_DRAWS
        offset = np.mean([centre.draw(total, release) for _ in range(n_left)], axis=0) * radius
        found = centre.w + (1.0 - CENTRE_PART) * offset
        spread, lost = (math.nan if self.tau is None else self.tau), 0.0
        upper, beyond = tail
        if beyond is not None and beyond <= _ranges.MOST_TAIL and upper > centre.distance:
            users_tail = Tail(centre.distance, upper, beyond)
            spread = users_tail.spread(radius)
            # Shifts that noise and sampling explain are none.
            usual = self.n_features * early_noise**2 + spread**2 / n_users
            shift = math.sqrt(max(0.0, float(np.square(found - early).sum()) - usual))
            lost = users_tail.lost(radius, early_clip, shift)
        return MeanResult(
            mean=start + found,
            n_users=n_users,
            clip_radius=radius,
            noise_scale=centre.noise / math.sqrt(n_left) * radius,
            offset=float(np.linalg.norm(offset)),
            noise_level=split.level(n_users, self.n_features),
            count_noise=split.count_multiplier or 0.0,
            spread=spread,
            lost=lost,
        )

    def _medians(self, users: Partitions, n_users: float, release: Release) -> FloatArray:
        """Select the median of every coordinate; the origin where users are too few for that."""
        cost = self.split.median_epsilon
        if cost is None or self.bound is None:
            return np.zeros(self.n_features)
        middles = private_middles(
            users.map(_vectors),
            epsilon=cost,
            tau=self.bound * 2.0 ** (1 - MEDIAN_BITS),
            bound=self.bound,
            release=release,
            monotone=self.terms.monotone,
        )
        if not self.terms.decides(cost, self.split.at_least(n_users), 2.0**MEDIAN_BITS):
            return np.zeros(self.n_features)
        return np.array(middles)

    def _tail(
        self, users: Partitions, centre: TrackedCentre, n_users: float, release: Release
    ) -> tuple[float, float | None]:
        """Select a distance that few users exceed, and return their part; 0 and None where users are too few."""
        cost = self.split.tail_epsilon
        if cost is None:
            return 0.0, None
        rank = _ranges.tail_rank(cost, len(_ranges.FINE_SCALES))
        counts = users.sum(partial(_norm_counts, w=centre.w, scales=_ranges.FINE_SCALES))
        found = _ranges.select_upper_scale(
            counts, rank, epsilon=cost, release=release, scales=_ranges.FINE_SCALES, near=centre.distance
        )
        return (found, rank / n_users) if self.split.at_least(n_users) > 2 * rank else (0.0, None)

    def radius(self, distance: float, n_users: float, upper: float = 0.0, beyond: float | None = None) -> float:
        """Compute the radius of the ball from the tracked distance, and a selected one with the part beyond it."""
        d = self.n_features
        median = float(chi.median(d) / chi.isf(BEYOND, d)) * distance  # of normal vectors
        least = self.least_radius * median
        if not self.follows_tail:
            return least
        level = self.split.level(n_users, d)
        growth = _ranges.quiet_growth(level, n_users, 1.0)
        radius = growth * median
        if beyond is not None:
            radius = _ranges.balanced_radius(median, upper, growth, level, d, beyond)
        return max(radius, least_clip(d) * distance, least)


class PureMeanResult(MeanResult):
    """Users' vectors clipped to a cube of half side ``clip_radius``, with Laplace noise on every coordinate."""

    def confidence_radius(self, beta: float) -> float:
        """Return a radius about ``mean`` that holds the expectation of a user's clipped vector with chance 1 − β.

        A Laplace variable of deviation s exceeds (s/√2) ln(d/β') with probability β'/d; users in the cube deviate as in
        a ball of √d times its half side. Each gets β/2.
        """
        d, part = len(self.mean), beta / 2.0
        noise = math.sqrt(0.5 * d) * self.noise_scale * math.log(d / part)
        return noise + 2.0 * self.clip_radius * math.sqrt(2.0 * d * math.log(2.0 / part) / self.n_users)


def _distance_counts(vectors: FloatArray, middles: list[float]) -> npt.NDArray[np.int64]:
    """Count users by their largest distance from the middles of the coordinates, on two scales."""
    distances = np.zeros(vectors.shape[1])
    for x, middle in zip(vectors, middles, strict=True):
        np.maximum(distances, np.abs(x - middle), out=distances)
    return _ranges.quantile_counts(distances)


@dataclass(frozen=True)
class PureUserMean(privacy.Mechanism):
    """Mean of one vector per user, ε-DP under replacement of one user; their number is public.

    With a radius τ every coordinate is a mean by Algorithm 2 at ε/d. Without, Algorithm 1 finds medians, and two
    quantiles of the users' distances from them the half side of one cube; with ``follows_tail`` it covers the tail
    (`tail_radius`).
    """

    epsilon: float
    n_users: int
    n_features: int
    follows_tail: bool
    tau: float | None
    bound: float
    theorem = "Algorithm 2 and Theorem 1 (arXiv 2102.11845) for every coordinate"

    def __post_init__(self) -> None:
        if self.tau is not None:
            _ranges.n_bins(max(self.bound, self.tau), self.tau)
            return
        _ranges.n_bins(self.bound, self._bin)
        needed = math.ceil(
            max(
                _ranges.selection_epsilon(1.0, 2.0**MEDIAN_BITS, monotone=False) / self._median_epsilon,
                _ranges.selection_epsilon(1.0, len(_ranges.SCALES), monotone=False) / self._quantile_epsilon,
            )
        )
        if self.n_users < needed:
            raise ValueError(
                f"n = {self.n_users} users at epsilon = {self.epsilon:g} are too few to find the range of "
                f"{self.n_features} features with delta=0: {needed} are needed. Give tau and bound, or delta > 0."
            )

    @property
    def _bin(self) -> float:
        return self.bound * 2.0 ** (1 - MEDIAN_BITS)

    def _share(self, share: float) -> float:
        """Return the cost of one coordinate of a part of the budget."""
        return share * self.epsilon / self.n_features / WIDER

    @property
    def _median_epsilon(self) -> float:
        """Cost of the median of a coordinate: of all as much as two quantiles of the distances."""
        return self._share(2.0 * QUANTILE_SHARE)

    @property
    def _quantile_epsilon(self) -> float:
        """Cost of a quantile of the distances."""
        return QUANTILE_SHARE * self.epsilon / WIDER

    @property
    def _rank(self) -> int | None:
        """Rank of the upper quantile, None where the users are too few for one above the median."""
        rank = _ranges.tail_rank(self._quantile_epsilon, len(_ranges.FINE_SCALES))
        return rank if self.follows_tail and self.n_users > 2 * rank else None

    @property
    def _sum_share(self) -> float:
        return 1.0 - QUANTILE_SHARE * (3 if self._rank is None else 4)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        d = self.n_features
        if self.tau is not None:
            half = self._share(1.0) / 2.0
            return [(BoundedRangeEvent(half), d), (LaplaceEvent(half), d)]
        quantile = BoundedRangeEvent(self._quantile_epsilon)
        return [
            (BoundedRangeEvent(self._median_epsilon), d),
            (quantile, 1 if self._rank is None else 2),
            (LaplaceEvent(self._share(self._sum_share)), d),
        ]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserRows, release: Release) -> PureMeanResult:
        """Release the mean of the users' mean rows; ``data`` is (X, groups), or such pairs in blocks."""
        rows = as_partitions(data).map(mean_rows).map(_vectors).persisted()
        if self.tau is not None:
            epsilon = self._share(1.0)
            bound = max(self.bound, self.tau)
            means = winsorized_means(rows, self.n_users, epsilon=epsilon, tau=self.tau, bound=bound, release=release)
            return self._result(means, 2.0 * self.tau, epsilon / 2.0)
        medians = private_middles(rows, epsilon=self._median_epsilon, tau=self._bin, bound=self.bound, release=release)
        half = self._half_side(rows.sum(partial(_distance_counts, middles=medians)), release)
        epsilon = self._share(self._sum_share)
        means = clipped_means(rows, self.n_users, medians, half, epsilon=epsilon, release=release)
        return self._result(means, half, epsilon)

    def _half_side(self, counts: npt.NDArray[np.int64], release: Release) -> float:
        epsilon = self._quantile_epsilon
        upper_epsilon = None if self._rank is None else epsilon
        median, upper, _ = _ranges.select_quantiles(
            counts, epsilon=epsilon, upper_epsilon=upper_epsilon, release=release, monotone=False
        )
        if self._rank is None:
            return median
        level = self._level(self._share(self._sum_share))
        return _ranges.tail_radius(median, upper, _ranges.quiet_growth(level, self.n_users, 1.0))

    def _level(self, epsilon: float) -> float:
        """Return the norm of all noise at this cost of a coordinate; users all at one corner of the cube have √d."""
        return math.sqrt(2.0 * self.n_features) * 2.0 / (epsilon * self.n_users)

    def _result(self, means: list[float], half: float, epsilon: float) -> PureMeanResult:
        return PureMeanResult(
            mean=np.array(means),
            n_users=float(self.n_users),
            clip_radius=half,
            noise_scale=math.sqrt(2.0) * 2.0 * half / (epsilon * self.n_users),
            offset=0.0,
            noise_level=self._level(epsilon),
            count_noise=0.0,
        )
