"""Centre and spread of one vector per user at once: a clipped descent whose clip follows a quantile of the distances.

A user's contribution to a step is its clipped offset, and in one coordinate beside it on which side of the distance
that is followed it lies: a vector of norm at most 1 as ever. So nothing has to be selected, no number of users is too
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
from skprivate.privacy import CONTRIBUTION_BITS, ball_contributions, exact_sum
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import MeanProblem, vector_norms

FloatArray = npt.NDArray[np.float64]

#: Draws of a mean, and those at the beginning that may go as far as the clip.
DRAWS, TRAVEL = 20, 5
#: Part of the users beyond the distance that is followed.
BEYOND = 0.4
#: Length of the coordinate that tells the side, in the beginning and at most.
TRAVEL_SIDE, MOST_SIDE, LEAST_SIDE = 0.4, 0.35, 0.02
#: Noise of the part of users beyond, in one draw with all of the budget, that is small enough.
SIDE_NOISE = 0.1
#: Clip in units of the distance that is followed, on the way and in one dimension more than in many.
LEAST_CLIP, ONE_DIMENSION = 0.8, 0.4
#: Noise of a step, in units of its clip, from which on steps are shortened.
STEP_NOISE = 0.5
#: Steps after the travel are this over their number: as an average, a little faster.
AVERAGING = 1.2
#: Change of the part beyond with the logarithm of the distance: .54 for normal numbers, more for vectors.
SLOPE = 0.7
#: Variance of the logarithm of the distance: at first, and what a step adds on the way and after.
FIRST_VARIANCE, TRAVEL_VARIANCE, LATE_VARIANCE = 1.0, 0.01, 0.001


def least_clip(n_features: int) -> float:
    """Clip in units of the distance that is followed: about the users' deviation, more than once with few features.

    For normal users it has up to 1.3 times the noise of the best clip with one feature, 1.1 times with ten.
    """
    return LEAST_CLIP + ONE_DIMENSION / math.sqrt(n_features)


def median_part(n_features: int) -> float:
    """The median distance over the one that is followed, for normal vectors."""
    return float(chi.median(n_features) / chi.isf(BEYOND, n_features))


def draw_side(noise: float) -> float:
    """Length of the coordinate that tells the side: as short as the noise of all draws together allows."""
    return min(MOST_SIDE, max(LEAST_SIDE, noise / SIDE_NOISE))


def _with_side(users: MeanProblem, w: FloatArray, clip: float, reach: float, side: float) -> npt.NDArray[Any]:
    """Σ_u weight_u·(√(1 − side²)·(x_u − w)/max(‖x_u − w‖, clip), ±side), the sign telling whether it is beyond; without
    the last where side is 0."""

    n_numbers = users.n_coef + (side > 0.0)

    def contributions() -> Iterator[FloatArray]:
        yield np.zeros((n_numbers, 0))
        for of, offsets in users.gradient_blocks(w):
            norms = vector_norms(offsets)
            vectors = np.empty((n_numbers, offsets.shape[1]))
            length = -math.sqrt(1.0 - side * side)
            divisor = np.maximum(norms, clip)
            for row, offset in zip(vectors, offsets, strict=False):
                np.divide(offset, divisor, out=row)
                row *= length
            if side:
                vectors[-1] = np.where(norms > reach, side, -side * BEYOND / (1.0 - BEYOND))
            yield ball_contributions(vectors, 1.0, weights=users.groups.weights[of], out=vectors)

    return exact_sum(contributions(), bound=2**CONTRIBUTION_BITS)


@dataclass
class TrackedCentre:
    """State of the descent: what was released so far.

    Attributes
    ----------
    terms : Terms
    n_users : float
        Public or released.
    multiplier : float
        Noise multiplier of one draw.
    w : ndarray of shape (n_features,)
        Centre.
    reach : float
        Distance that is followed.
    known : float or None
        Public clip; the distance is not followed then.
    variance : float
        Of the logarithm of ``reach``.
    n_steps : int
    """

    terms: Terms
    n_users: float
    multiplier: float
    w: FloatArray
    reach: float
    known: float | None = None
    variance: float = FIRST_VARIANCE
    n_steps: int = 0

    @property
    def noise(self) -> float:
        """Standard deviation of a draw in each coordinate, a unanimous vote being 1."""
        return self.terms.sum_sensitivity * self.multiplier / self.n_users

    @property
    def side(self) -> float:
        """Length of the coordinate that tells the side in this draw; 0 where there is none."""
        if self.known is not None:
            return 0.0
        if self.n_steps < TRAVEL:
            return TRAVEL_SIDE
        return draw_side(self.noise / math.sqrt(DRAWS))

    def total(self, users: Partitions, clip: float) -> npt.NDArray[Any]:
        """Exact sum of the users' contributions at the centre."""
        return users.sum(partial(_with_side, w=self.w, clip=clip, reach=self.reach, side=self.side))

    def draw(self, total: npt.NDArray[Any], release: Any) -> FloatArray:
        """That sum with noise, as a mean of votes of the users."""
        return np.asarray(self.terms.release_sum(total, self.multiplier, release) / self.n_users)

    def step(self, users: Partitions, clip: float, release: Any) -> None:
        """One draw: the centre moves towards the users, and the distance towards its quantile."""
        side = self.side
        vote = self.draw(self.total(users, clip), release)
        if self.known is None:
            self._follow(vote[-1] * (1.0 - BEYOND) / side, self.noise * (1.0 - BEYOND) / side)
        vote = vote[: len(self.w)] / math.sqrt(1.0 - side * side)
        # No mean of votes is longer than one of them.
        vote /= max(1.0, float(np.linalg.norm(vote)))
        level = self.noise * math.sqrt(len(self.w))
        rate = min(1.0, STEP_NOISE / level)
        if self.n_steps >= TRAVEL:
            rate = min(rate, AVERAGING / (1 + self.n_steps - TRAVEL))
        self.w = self.w + rate * clip * vote
        self.n_steps += 1

    def _follow(self, excess: float, noise: float) -> None:
        """Kalman step of the logarithm of the distance, ``excess`` the part beyond less what it should be."""
        slope = min(SLOPE, 0.5 / math.sqrt(self.variance))
        gain = self.variance * slope / (slope * slope * self.variance + noise * noise)
        self.reach = min(
            max(self.reach * math.exp(gain * min(1.0 - BEYOND, max(-BEYOND, excess))), 1e-280), 1e280
        )
        self.variance *= 1.0 - gain * slope
        self.variance += TRAVEL_VARIANCE if self.n_steps < TRAVEL else LATE_VARIANCE
