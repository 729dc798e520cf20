"""Centre and spread of one vector per user at once: a clipped descent whose clip tracks quantiles of the distances.

A user contributes its clipped offset and two more coordinates, the signs of two distances less the tracked quantiles:
together a vector of norm at most 1. So nothing is selected, no number of users is too small to begin with, and the
spread is known as well as the noise allows. Derivation in docs/user_level.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi

from skprivate.partitions import Partitions
from skprivate.privacy import CONTRIBUTION_BITS, GaussianEvent, PrivacyEvent, ball_contributions, exact_sum
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import MeanProblem, vector_norms

FloatArray = npt.NDArray[np.float64]

#: Draws of a mean, and the first of them, whose steps are as long as the clip; part of the budget of the latter.
DRAWS, TRAVEL = 20, 5
TRAVEL_SHARE = 0.1
#: Parts of the users beyond the two tracked distances.
PARTS = BEYOND, FAR_BEYOND = 0.4, 0.1
#: Length of a sign coordinate during the travel, and at most and at least after.
TRAVEL_SIDE, MOST_SIDE, LEAST_SIDE = 0.4, 0.35, 0.02
#: Sufficient noise of the part of users beyond either distance, in one draw with all of the budget.
SIDE_NOISE, FAR_NOISE = 0.1, 0.03
#: Clip in tracked distances during the travel, and what one dimension adds to it.
LEAST_CLIP, ONE_DIMENSION = 0.8, 0.4
#: Noise of a step, in units of its clip, above which steps are shortened.
STEP_NOISE = 0.5
#: Factor on steps after the travel, which are one over their number as in an average.
AVERAGING = 1.2
#: Change of the part beyond the nearer distance with its logarithm: .54 for normal numbers, more for vectors. For the
#: farther one a factor on the change for normal vectors.
SLOPE, FAR_SLOPE = 0.7, 0.8
#: Variance of the logarithm of the distance: at first, and added by a step during and after the travel; at first of the
#: farther one over it.
FIRST_VARIANCE, TRAVEL_VARIANCE, LATE_VARIANCE = 1.0, 0.01, 0.001
FAR_VARIANCE = 0.16


def least_clip(n_features: int) -> float:
    """Return the clip in tracked distances: about the users' deviation, more than once with few features."""
    return LEAST_CLIP + ONE_DIMENSION / math.sqrt(n_features)


def median_part(n_features: int) -> float:
    """Return the median distance over the tracked one, for normal vectors."""
    return float(chi.median(n_features) / chi.isf(BEYOND, n_features))


def far_ratio(n_features: int) -> float:
    """Return the farther distance over the nearer one, for normal vectors."""
    return float(chi.isf(FAR_BEYOND, n_features) / chi.isf(BEYOND, n_features))


def _normal_slope(beyond: float, n_features: int) -> float:
    """Differentiate the part of normal vectors beyond a distance by its logarithm."""
    distance = chi.isf(beyond, n_features)
    return float(distance * chi.pdf(distance, n_features))


def draw_side(noise: float, enough: float = SIDE_NOISE) -> float:
    """Return the length of a sign coordinate: as short as the noise of all draws together allows."""
    return min(MOST_SIDE, max(LEAST_SIDE, noise / enough))


def draw_multipliers(multiplier: float) -> tuple[float, float]:
    """Return noise multipliers of an early and of a late draw, all together as much as one with ``multiplier``.

    Gaussians of any multipliers compose to exactly one with 1/z² = Σ 1/z_i².
    """
    return multiplier * math.sqrt(TRAVEL / TRAVEL_SHARE), multiplier * math.sqrt(
        (DRAWS - TRAVEL) / (1.0 - TRAVEL_SHARE)
    )


def draw_events(multiplier: float, n_numbers: int) -> list[tuple[PrivacyEvent, int]]:
    """List all draws of ``n_numbers`` numbers."""
    first, later = draw_multipliers(multiplier)
    return [(GaussianEvent(first, n_numbers), TRAVEL), (GaussianEvent(later, n_numbers), DRAWS - TRAVEL)]


def _with_sides(
    users: MeanProblem,
    w: FloatArray,
    clip: float,
    distances: tuple[float, ...],
    sides: tuple[float, ...],
) -> npt.NDArray[Any]:
    """Sum weight_u·(√(1 − Σ side²)·(x_u − w)/max(‖x_u − w‖, clip), ±side, …) over users.

    A sign is positive for users beyond that distance. The side of the others is so much shorter that all add up to 0
    where the part beyond is as it should be.
    """
    n_numbers = users.n_coef + len(sides)

    def contributions() -> Iterator[FloatArray]:
        yield np.zeros((n_numbers, 0))
        for of, offsets in users.gradient_blocks(w):
            norms = vector_norms(offsets)
            vectors = np.empty((n_numbers, offsets.shape[1]))
            length = -math.sqrt(1.0 - sum(side * side for side in sides))
            divisor = np.maximum(norms, clip)
            for row, offset in zip(vectors, offsets, strict=False):
                np.divide(offset, divisor, out=row)
                row *= length
            for k, (distance, side, part) in enumerate(zip(distances, sides, PARTS, strict=False)):
                vectors[users.n_coef + k] = np.where(norms > distance, side, -side * part / (1.0 - part))
            yield ball_contributions(vectors, 1.0, weights=users.groups.weights[of], out=vectors)

    return exact_sum(contributions(), bound=2**CONTRIBUTION_BITS)


@dataclass
class TrackedQuantile:
    """Tracked quantile: logarithm of a distance that a part of the users exceed, by a Kalman filter of one number."""

    distance: float
    variance: float
    part: float
    slope: float

    def observe(self, excess: float, noise: float, drift: float) -> None:
        """Update by one step; ``excess`` is the observed part beyond less its target."""
        slope = min(self.slope, 0.5 / math.sqrt(self.variance))
        gain = self.variance * slope / (slope * slope * self.variance + noise * noise)
        # Limits are equal above and below: noise cut on one side only would push the distance to the other.
        most = max(self.part, 1.0 - self.part)
        excess = min(most, max(-most, excess))
        self.distance = min(max(self.distance * math.exp(gain * excess), 1e-280), 1e280)
        self.variance *= 1.0 - gain * slope
        self.variance += drift


@dataclass
class TrackedCentre:
    """State of the descent: all that was released so far.

    ``multiplier`` is that of one draw with all of the budget. ``near`` is None where the clip is public; ``far`` is
    None during the travel, and where it is not wanted.
    """

    terms: Terms
    n_users: float
    multiplier: float
    w: FloatArray
    near: TrackedQuantile | None
    far: TrackedQuantile | None = None
    uses_sides: bool = True
    n_steps: int = 0

    @property
    def distance(self) -> float:
        """The nearer distance."""
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
    def sides(self) -> tuple[float, ...]:
        """Lengths of the sign coordinates in this draw, 0 where a sign is not used."""
        if self.near is None:
            return ()
        if not self.uses_sides:
            return 0.0, 0.0
        if self.n_steps < TRAVEL:
            return TRAVEL_SIDE, 0.0
        noise = self.terms.sum_sensitivity * self.multiplier / self.n_users
        return draw_side(noise), draw_side(noise, FAR_NOISE) if self.far else 0.0

    def begin_far(self, upper: float, beyond: float | None) -> None:
        """Track the farther distance, at first as if users were normal.

        It starts at ``upper`` if that is farther and at least the same part of the users is ``beyond``.
        """
        if self.near is not None:
            d = len(self.w)
            slope = FAR_SLOPE * _normal_slope(FAR_BEYOND, d)
            first = self.near.distance * far_ratio(d)
            if beyond is not None and beyond >= FAR_BEYOND:
                first = max(first, upper)
            self.far = TrackedQuantile(first, self.near.variance + FAR_VARIANCE, FAR_BEYOND, slope)

    def total(self, users: Partitions, clip: float) -> npt.NDArray[Any]:
        """Sum the users' contributions at the centre, exactly."""
        distances = self.distance, math.inf if self.far is None else self.far.distance
        return users.sum(partial(_with_sides, w=self.w, clip=clip, distances=distances, sides=self.sides))

    def draw(self, total: npt.NDArray[Any], release: Any) -> FloatArray:
        """Release that sum as a mean of the users' votes, and update the distances by the sign coordinates."""
        noisy = np.asarray(self.terms.release_sum(total, self.draw_multiplier, release) / self.n_users)
        sides = self.sides
        drift = TRAVEL_VARIANCE if self.n_steps < TRAVEL else LATE_VARIANCE
        for k, (each, side) in enumerate(zip((self.near, self.far), sides, strict=False)):
            if each is not None and side > 0.0:
                unit = (1.0 - each.part) / side
                each.observe(noisy[len(self.w) + k] * unit, self.noise * unit, drift)
        return noisy[: len(self.w)] / math.sqrt(1.0 - sum(side * side for side in sides))

    def step(self, users: Partitions, clip: float, release: Any) -> None:
        """Move the centre towards the users, and the distances towards their quantiles, by one draw."""
        vote = self.draw(self.total(users, clip), release)
        # No mean of votes is longer than one of them.
        vote /= max(1.0, float(np.linalg.norm(vote)))
        level = self.noise * math.sqrt(len(self.w))
        rate = min(1.0, STEP_NOISE / level)
        if self.n_steps >= TRAVEL:
            rate = min(rate, AVERAGING / (1 + self.n_steps - TRAVEL))
        self.w = self.w + rate * clip * vote
        self.n_steps += 1
