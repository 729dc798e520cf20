"""Centre and spread of one vector per user at once: a clipped descent whose clip follows quantiles of the distances.

A user's contribution to a step is its clipped offset, and in two coordinates beside it on which side of two distances
that are followed it lies: a vector of norm at most 1 as ever. So nothing has to be selected, no number of users is too
small to begin with, and what is known of the spread is known as well as the noise allows. Derivation in
docs/user_level.md.
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

#: Draws of a mean, and those at the beginning that may go as far as the clip; part of the budget of all of these.
DRAWS, TRAVEL = 20, 5
TRAVEL_SHARE = 0.1
#: Part of the users beyond the two distances that are followed.
PARTS = BEYOND, FAR_BEYOND = 0.4, 0.1
#: Length of the coordinate that tells the side, in the beginning and at most.
TRAVEL_SIDE, MOST_SIDE, LEAST_SIDE = 0.4, 0.35, 0.02
#: Noise of the part of users beyond either distance, in one draw with all of the budget, that is small enough.
SIDE_NOISE, FAR_NOISE = 0.1, 0.03
#: Clip in units of the distance that is followed, on the way and in one dimension more than in many.
LEAST_CLIP, ONE_DIMENSION = 0.8, 0.4
#: Noise of a step, in units of its clip, from which on steps are shortened.
STEP_NOISE = 0.5
#: Steps after the travel are this over their number: as an average, a little faster.
AVERAGING = 1.2
#: Change of the part beyond the nearer distance with its logarithm: .54 for normal numbers, more for vectors. For the
#: farther one it is part of that of normal vectors.
SLOPE, FAR_SLOPE = 0.7, 0.8
#: Variance of the logarithm of the distance: at first, and what a step adds on the way and after; of the farther one's
#: ratio to it at first.
FIRST_VARIANCE, TRAVEL_VARIANCE, LATE_VARIANCE = 1.0, 0.01, 0.001
FAR_VARIANCE = 0.16


def least_clip(n_features: int) -> float:
    """Clip in units of the distance that is followed: about the users' deviation, more than once with few features.

    For normal users it has up to 1.3 times the noise of the best clip with one feature, 1.1 times with ten.
    """
    return LEAST_CLIP + ONE_DIMENSION / math.sqrt(n_features)


def median_part(n_features: int) -> float:
    """The median distance over the one that is followed, for normal vectors."""
    return float(chi.median(n_features) / chi.isf(BEYOND, n_features))


def far_ratio(n_features: int) -> float:
    """The farther distance over the nearer one, for normal vectors."""
    return float(chi.isf(FAR_BEYOND, n_features) / chi.isf(BEYOND, n_features))


def _normal_slope(beyond: float, n_features: int) -> float:
    """Change of the part of normal vectors beyond a distance with its logarithm."""
    distance = chi.isf(beyond, n_features)
    return float(distance * chi.pdf(distance, n_features))


def draw_side(noise: float, enough: float = SIDE_NOISE) -> float:
    """Length of the coordinate that tells a side: as short as the noise of all draws together allows."""
    return min(MOST_SIDE, max(LEAST_SIDE, noise / enough))


def draw_multipliers(multiplier: float) -> tuple[float, float]:
    """Noise multipliers of a draw on the way and of one after, together as much as one draw with ``multiplier``.

    Gaussians of any multipliers compose to exactly one with 1/z² = Σ 1/z_i².
    """
    return multiplier * math.sqrt(TRAVEL / TRAVEL_SHARE), multiplier * math.sqrt(
        (DRAWS - TRAVEL) / (1.0 - TRAVEL_SHARE)
    )


def draw_events(multiplier: float, n_numbers: int) -> list[tuple[PrivacyEvent, int]]:
    """What all draws of ``n_numbers`` numbers cost."""
    first, later = draw_multipliers(multiplier)
    return [(GaussianEvent(first, n_numbers), TRAVEL), (GaussianEvent(later, n_numbers), DRAWS - TRAVEL)]


def _with_sides(
    users: MeanProblem,
    w: FloatArray,
    clip: float,
    reaches: tuple[float, ...],
    sides: tuple[float, ...],
) -> npt.NDArray[Any]:
    """Σ_u weight_u·(√(1 − Σ side²)·(x_u − w)/max(‖x_u − w‖, clip), ±side, …).

    A sign tells whether the user is beyond that reach; the side of those that are not is so much shorter that all add
    up to 0 where the part beyond is as it should be.
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
            for k, (reach, side, part) in enumerate(zip(reaches, sides, PARTS, strict=False)):
                vectors[users.n_coef + k] = np.where(norms > reach, side, -side * part / (1.0 - part))
            yield ball_contributions(vectors, 1.0, weights=users.groups.weights[of], out=vectors)

    return exact_sum(contributions(), bound=2**CONTRIBUTION_BITS)


@dataclass
class Followed:
    """The logarithm of a distance that a part of the users exceed, and its variance: a Kalman filter of one number."""

    reach: float
    variance: float
    part: float
    slope: float

    def observe(self, excess: float, noise: float, drift: float) -> None:
        """One step, ``excess`` the part beyond less what it should be."""
        slope = min(self.slope, 0.5 / math.sqrt(self.variance))
        gain = self.variance * slope / (slope * slope * self.variance + noise * noise)
        # The same limit above and below: noise that is cut on one side only would push the distance to the other.
        most = max(self.part, 1.0 - self.part)
        excess = min(most, max(-most, excess))
        self.reach = min(max(self.reach * math.exp(gain * excess), 1e-280), 1e280)
        self.variance *= 1.0 - gain * slope
        self.variance += drift


@dataclass
class TrackedCentre:
    """State of the descent: what was released so far.

    Attributes
    ----------
    terms : Terms
    n_users : float
        Public or released.
    multiplier : float
        Noise multiplier of one draw with all of the budget.
    w : ndarray of shape (n_features,)
        Centre.
    near : Followed or None
        Distance that is followed; None where the clip is public.
    far : Followed or None
        A farther one, after the way and where it is wanted.
    telling : bool
        Whether draws tell on which side of the distances users are.
    n_steps : int
    """

    terms: Terms
    n_users: float
    multiplier: float
    w: FloatArray
    near: Followed | None
    far: Followed | None = None
    telling: bool = True
    n_steps: int = 0

    @property
    def reach(self) -> float:
        """The nearer distance."""
        return math.inf if self.near is None else self.near.reach

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
        """Lengths of the coordinates that tell the sides in this draw, 0 where there is nothing to tell."""
        if self.near is None:
            return ()
        if not self.telling:
            return 0.0, 0.0
        if self.n_steps < TRAVEL:
            return TRAVEL_SIDE, 0.0
        noise = self.terms.sum_sensitivity * self.multiplier / self.n_users
        return draw_side(noise), draw_side(noise, FAR_NOISE) if self.far else 0.0

    def begin_far(self, upper: float, beyond: float | None) -> None:
        """Follow the farther distance, at first as if users were normal.

        Or from ``upper`` on where so large a part is beyond that the distance is no nearer.
        """
        if self.near is not None:
            d = len(self.w)
            slope = FAR_SLOPE * _normal_slope(FAR_BEYOND, d)
            first = self.near.reach * far_ratio(d)
            if beyond is not None and beyond >= FAR_BEYOND:
                first = max(first, upper)
            self.far = Followed(first, self.near.variance + FAR_VARIANCE, FAR_BEYOND, slope)

    def total(self, users: Partitions, clip: float) -> npt.NDArray[Any]:
        """Exact sum of the users' contributions at the centre."""
        reaches = self.reach, math.inf if self.far is None else self.far.reach
        return users.sum(partial(_with_sides, w=self.w, clip=clip, reaches=reaches, sides=self.sides))

    def draw(self, total: npt.NDArray[Any], release: Any) -> FloatArray:
        """That sum with noise, as a mean of votes of the users, and what it tells of the sides."""
        noisy = np.asarray(self.terms.release_sum(total, self.draw_multiplier, release) / self.n_users)
        sides = self.sides
        drift = TRAVEL_VARIANCE if self.n_steps < TRAVEL else LATE_VARIANCE
        for k, (each, side) in enumerate(zip((self.near, self.far), sides, strict=False)):
            if each is not None and side > 0.0:
                unit = (1.0 - each.part) / side
                each.observe(noisy[len(self.w) + k] * unit, self.noise * unit, drift)
        return noisy[: len(self.w)] / math.sqrt(1.0 - sum(side * side for side in sides))

    def step(self, users: Partitions, clip: float, release: Any) -> None:
        """One draw: the centre moves towards the users, and the distances towards their quantiles."""
        vote = self.draw(self.total(users, clip), release)
        # No mean of votes is longer than one of them.
        vote /= max(1.0, float(np.linalg.norm(vote)))
        level = self.noise * math.sqrt(len(self.w))
        rate = min(1.0, STEP_NOISE / level)
        if self.n_steps >= TRAVEL:
            rate = min(rate, AVERAGING / (1 + self.n_steps - TRAVEL))
        self.w = self.w + rate * clip * vote
        self.n_steps += 1
