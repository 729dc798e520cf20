"""Answers to a number of means that is fixed beforehand: Algorithm 2 for each, composed at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import InMemory
from skprivate.privacy import (
    CONTRIBUTION_BITS,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    Mechanism,
    PrivacyEvent,
    gaussian_noise_multiplier,
)
from skprivate.user_level._plan import WIDER
from skprivate.user_level._private_range import n_bins, selection_epsilon
from skprivate.user_level._winsorized_mean import clipped_means, clipped_step, clipped_sum, private_middles

FloatArray = npt.NDArray[np.float64]

#: Largest share of the budget for finding where answers lie; the rest is for the answers themselves.
_MOST_FOR_RANGES = 0.5
#: Prices are smaller by this much, so that rounded sums of them never overrun the budget.
_WITHIN = 1.0 - 1e-12


@dataclass(frozen=True)
class WinsorizedAnswers(Mechanism):
    """K means over users, each clipped to an interval that is found privately; under replacement of one user.

    A range costs what decides it, an answer 1/K of what is left: with Gaussian noise, or Laplace noise where δ is 0.

    Attributes
    ----------
    epsilon, delta : float
        The budget of all answers together.
    n_users, n_queries : int
        Public.
    bins : int
        Most bins among which an interval is searched. One: there is nothing to search, and nothing is drawn for it.
    """

    epsilon: float
    delta: float
    n_users: int
    n_queries: int
    bins: int
    theorem = "Algorithm 2 and Theorem 3 (arXiv 2102.11845), composed by the events drawn"

    def __post_init__(self) -> None:
        if self.range_epsilon is not None and self.n_users < self._needed:
            raise ValueError(
                f"n = {self.n_users} users at epsilon = {self.epsilon:g} are too few to find where n_queries = "
                f"{self.n_queries} answers lie: {self._needed} are needed. Ask less, or give a smaller bound or a "
                "larger tau; with tau=None nothing has to be found."
            )

    @cached_property
    def range_epsilon(self) -> float | None:
        """Price of one range; None where there is one bin only."""
        if self.bins == 1:
            return None
        return selection_epsilon(self.n_users, self.bins, monotone=False)

    @property
    def _needed(self) -> int:
        """Number of users whose ranges take no more than their share of the budget."""
        exponent = selection_epsilon(1.0, self.bins, monotone=False)
        if self.delta == 0.0:
            affordable = _MOST_FOR_RANGES * self.epsilon / self.n_queries
        else:
            rho = 0.5 / gaussian_noise_multiplier(self.epsilon, self.delta) ** 2
            affordable = math.sqrt(8.0 * _MOST_FOR_RANGES * rho / self.n_queries)
        return math.ceil(exponent / affordable)

    @cached_property
    def _ranges(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        if self.range_epsilon is None:
            return ()
        return ((BoundedRangeEvent(self.range_epsilon), self.n_queries),)

    @cached_property
    def noise(self) -> LaplaceEvent | GaussianEvent:
        """What one answer costs."""
        if self.delta == 0.0:
            left = self.epsilon / self.n_queries * _WITHIN - (self.range_epsilon or 0.0)
            return LaplaceEvent(left)
        z = gaussian_noise_multiplier(self.epsilon, self.delta, n_draws=self.n_queries, other=self._ranges)
        return GaussianEvent(z * WIDER)

    @property
    def relative_noise(self) -> float:
        """Standard deviation of the noise of one answer, as a part of the length of its interval."""
        scale = (
            math.sqrt(2.0) / self.noise.epsilon
            if isinstance(self.noise, LaplaceEvent)
            else self.noise.noise_multiplier
        )
        return scale / self.n_users

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [*self._ranges, (self.noise, self.n_queries)]

    def half(self, tau: float, bound: float) -> float:
        """Half the length of the interval that answers are clipped to."""
        return bound if n_bins(bound, tau) == 1 else 2.0 * tau

    def answer(self, values: FloatArray, tau: float, bound: float, release: Any) -> float:
        """One mean of a number for each user; at most ``bins`` bins of width 2τ may cover [−B, B]."""
        middle, half, rows = 0.0, self.half(tau, bound), InMemory(values[None])
        if n_bins(bound, tau) > 1:
            assert self.range_epsilon is not None
            (middle,) = private_middles(
                rows, epsilon=self.range_epsilon, tau=tau, bound=bound, release=release
            )
        if isinstance(self.noise, LaplaceEvent):
            (mean,) = clipped_means(
                rows, len(values), [middle], half, epsilon=self.noise.epsilon, release=release
            )
            return mean
        total, z = clipped_sum(values, middle, half), self.noise.noise_multiplier
        noisy = release.gaussian(total, sensitivity=2**CONTRIBUTION_BITS, noise_multiplier=z)
        return middle + float(noisy) * clipped_step(half) / len(values)

    def run(self, data: Iterable[tuple[FloatArray, float, float]], release: Any) -> list[float]:
        """Answer all queries: numbers of the users, τ and B of each; later ones may depend on earlier answers."""
        return [self.answer(values, tau, bound, release) for values, tau, bound in data]
