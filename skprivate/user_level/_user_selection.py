"""Pure-DP choice among K candidates from every user's mean losses (section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import (
    BoundedRangeEvent,
    LaplaceEvent,
    Mechanism,
    PrivacyEvent,
    PureEvent,
    Repetitions,
    SearchPlan,
    plan_search,
    select_repeatedly,
)
from skprivate.user_level._private_range import n_bins
from skprivate.user_level._winsorized_mean import winsorized_means

FloatArray = npt.NDArray[np.float64]

#: Mean evaluations of each candidate under repeated selection.
REPETITIONS_EACH = 5.0


def vote_counts(losses: FloatArray) -> npt.NDArray[np.int64]:
    """For each candidate and each opponent, the number of users who lose no more with the candidate.

    Parameters
    ----------
    losses : ndarray of shape (n_users, n_candidates)

    Returns
    -------
    counts : ndarray of shape (n_candidates, n_candidates), int64
        One user more adds 0 or 1 to every count, and so to the least of a candidate, its score; one user exchanged
        moves them by at most 1.
    """
    comparable = np.nan_to_num(losses, nan=np.inf, posinf=np.inf)
    n_candidates = comparable.shape[1]
    return np.array([(comparable[:, [k]] <= comparable).sum(axis=0) for k in range(n_candidates)])


def number_of_users(losses: FloatArray) -> npt.NDArray[np.int64]:
    """Users of a block."""
    return np.array([len(losses)], dtype=np.int64)


def _losses_with(losses: FloatArray, candidate: int) -> FloatArray:
    column = losses[:, candidate]
    return np.where(np.isnan(column), np.inf, column)[None]


@dataclass(frozen=True)
class VoteSelection(Mechanism):
    """Candidate that a majority of users prefers to any other, by permute-and-flip: ε-DP, no bound on losses.

    Attributes
    ----------
    epsilon : float
        Price, pure.
    monotone : bool
        Neighbours differ by one added user rather than a replaced one.
    """

    epsilon: float
    monotone: bool
    theorem = "permute-and-flip on votes (docs/user_level.md)"

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """One selection."""
        return [(PureEvent(self.epsilon, "permute-and-flip"), 1)]

    def run(self, data: Partitions | FloatArray, release: Any) -> int:
        """Choose.

        Parameters
        ----------
        data : ndarray of shape (n_users, n_candidates), or Partitions of them
            Mean losses; a row is a function of that user's rows alone.
        release : Release

        Returns
        -------
        int
        """
        return int(
            release.select(
                as_partitions(data).sum(vote_counts).min(axis=1),
                sensitivity=1,
                epsilon=self.epsilon,
                rule="permute-and-flip",
                monotone=self.monotone,
            )
        )


@dataclass(frozen=True)
class MeanSelection(Mechanism):
    """Candidate of least winsorised mean loss, by a geometric number of private evaluations of random candidates.

    Each evaluation is WinsorizedMean1D of the users' losses, with a third of ε or a little more. Its excess loss is of
    order τ ln(K)/(nε), with τ of order 1/√m (section 6).

    Attributes
    ----------
    epsilon : float
        Price, pure, under replacement of one user.
    tau, bound : float
        Public concentration radius and bound of the losses; ``bound / tau`` at most 2⁶².
    n_candidates : int
    """

    epsilon: float
    tau: float
    bound: float
    n_candidates: int
    theorem = "section 6 (arXiv 2102.11845) with private selection (docs/private_search_cost.md)"

    def __post_init__(self) -> None:
        n_bins(self.bound, self.tau)

    @cached_property
    def _search(self) -> SearchPlan:
        mean = REPETITIONS_EACH * self.n_candidates * max(1.0, math.log(self.n_candidates))

        def plans_of(epsilon: float, _: float) -> list[list[tuple[PrivacyEvent, int]]]:
            return [[(BoundedRangeEvent(epsilon / 2), 1), (LaplaceEvent(epsilon / 2), 1)]] * self.n_candidates

        return plan_search(
            plans_of,
            epsilon=self.epsilon,
            mean_repetitions=mean,
            laws=[Repetitions("negative-binomial", mean, eta=1.0)],
        )

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """One search, however often it evaluates."""
        return self._search.events

    def run(self, data: Partitions | FloatArray, release: Any) -> int:
        """Choose.

        Parameters
        ----------
        data : ndarray of shape (n_users, n_candidates), or Partitions of them
            Mean losses; a row is a function of that user's rows alone. NaN counts as infinite.
        release : Release

        Returns
        -------
        int
        """
        rows = as_partitions(data)
        n_users = int(rows.sum(number_of_users)[0])
        share = self._search.each_epsilon

        def evaluate(candidate: int, branch: Any) -> tuple[float, None]:
            (mean,) = winsorized_means(
                rows.map(partial(_losses_with, candidate=candidate)),
                n_users,
                epsilon=share,
                tau=self.tau,
                bound=self.bound,
                release=branch,
            )
            return -mean, None

        return select_repeatedly(release, evaluate, self._search).candidate
