"""Pure-DP choice of the candidate of least mean risk, by winsorised differences of the users' losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import (
    CONTRIBUTION_BITS,
    BoundedRangeEvent,
    Mechanism,
    PrivacyEvent,
    PureEvent,
    exact_sum,
    interval_contributions,
)
from skprivate.user_level._clipping import tail_radius, tail_rank
from skprivate.user_level._private_range import (
    FINE_SCALES,
    SCALES,
    scale_counts,
    select_median_scale,
    select_upper_scale,
    selection_epsilon,
)
from skprivate.user_level._user_selection import VoteSelection

FloatArray = npt.NDArray[np.float64]

#: Largest share of the budget for either of two quantiles of the users' differences.
_QUANTILE = 0.125
#: The parts are smaller by this much, so that rounded sums of them never overrun the budget.
_WITHIN = 1.0 - 1e-12


def difference_sums(losses: FloatArray, reach: float) -> npt.NDArray[np.int64]:
    """For each candidate and each opponent, the sum over users of what they lose less with the candidate.

    A user's difference is clipped to ± ``reach`` and counted in steps of reach·2⁻²⁹.

    Parameters
    ----------
    losses : ndarray of shape (n_users, n_candidates)
        A NaN counts as infinite. Users who lose infinitely much with both are undecided.
    reach : float > 0

    Returns
    -------
    sums : ndarray of shape (n_candidates, n_candidates), int64
        Adding a user moves every sum by at most 2²⁹, exchanging one by at most 2³⁰.
    """
    columns = [np.nan_to_num(column, nan=np.inf, posinf=np.inf, neginf=-np.inf) for column in losses.T]
    sums = np.zeros((len(columns), len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        for j, other in enumerate(columns[:k]):
            lead = interval_contributions(other - column, -reach, reach, bits=CONTRIBUTION_BITS)
            sums[k, j] = int(exact_sum(lead))
            sums[j, k] = -sums[k, j]
    return sums


def worst_of(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A candidate's score: its sum against the worst opponent."""
    if len(sums) == 1:
        return np.asarray(sums[0])
    others = ~np.eye(len(sums), dtype=bool)
    return np.asarray(sums[others].reshape(len(sums), -1).min(axis=1))


def loss_ranges(losses: FloatArray) -> FloatArray:
    """How far the candidates' losses lie apart for each user; NaN if not finite for one of them."""
    most, least = losses[:, 0].copy(), losses[:, 0].copy()
    for column in losses.T:
        np.maximum(most, column, out=most)
        np.minimum(least, column, out=least)
    return np.asarray(most - least)


def _range_counts(losses: FloatArray) -> npt.NDArray[np.int64]:
    """How many users have losses that lie about so far apart, on two scales."""
    ranges = loss_ranges(losses)
    return np.concatenate([scale_counts(ranges, SCALES), scale_counts(ranges, FINE_SCALES)])


@dataclass(frozen=True)
class DifferenceSelection(Mechanism):
    """Candidate whose winsorised mean loss is below that of every other one, by permute-and-flip: ε-DP.

    How far differences count follows from two quantiles of the users' ranges of losses, found by the exponential
    mechanism. Where a public number of users is too few for that, the candidates' signs alone count: votes.

    Attributes
    ----------
    epsilon : float
        Price, pure.
    n_candidates : int
    n_users : int or None
        Public number of users; None under add-remove.
    """

    epsilon: float
    n_candidates: int
    n_users: int | None
    theorem = "permute-and-flip on winsorised differences (docs/user_level.md)"

    @property
    def _monotone(self) -> bool:
        return self.n_users is None

    @property
    def _median_epsilon(self) -> float | None:
        if self.n_users is None:
            return _QUANTILE * self.epsilon
        needed = selection_epsilon(self.n_users, len(SCALES), monotone=False)
        return needed if needed <= _QUANTILE * self.epsilon else None

    @property
    def _upper_epsilon(self) -> float:
        return _QUANTILE * self.epsilon

    @property
    def _choice_epsilon(self) -> float:
        return (self.epsilon - (self._median_epsilon or 0.0) - self._upper_epsilon) * _WITHIN

    @property
    def _votes(self) -> VoteSelection:
        return VoteSelection(self.epsilon, self._monotone)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """Two quantiles and the choice; votes alone where users are too few."""
        if self._median_epsilon is None:
            return self._votes.events
        return [
            (BoundedRangeEvent(self._median_epsilon), 1),
            (BoundedRangeEvent(self._upper_epsilon), 1),
            (PureEvent(self._choice_epsilon, "permute-and-flip"), 1),
        ]

    @np.errstate(all="ignore")  # a warning about somebody's loss would say something about it
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
        if self._median_epsilon is None:
            return self._votes.run(data, release)
        rows = as_partitions(data)
        reach = self._reach(rows.sum(_range_counts), release)
        return int(
            release.select(
                worst_of(rows.sum(partial(difference_sums, reach=reach))),
                sensitivity=2 ** (CONTRIBUTION_BITS - self._monotone),
                epsilon=self._choice_epsilon,
                rule="permute-and-flip",
            )
        )

    def _reach(self, counts: npt.NDArray[np.int64], release: Any) -> float:
        """Where differences are clipped."""
        assert self._median_epsilon is not None
        counts, fine_counts = np.split(counts, [len(SCALES)])
        median = select_median_scale(
            counts, epsilon=self._median_epsilon, release=release, monotone=self._monotone
        )
        rank = tail_rank(self._upper_epsilon, len(FINE_SCALES))
        upper = select_upper_scale(
            fine_counts, rank, epsilon=self._upper_epsilon, release=release, scales=FINE_SCALES, near=median
        )
        if self.n_users is None:
            return max(median, upper)
        # What a choice may lose, in units of where differences are clipped.
        level = 4.0 * (1.0 + math.log(self.n_candidates)) / (self._choice_epsilon * self.n_users)
        return tail_radius(median, upper if self.n_users > 2 * rank else 0.0, level, 1)
