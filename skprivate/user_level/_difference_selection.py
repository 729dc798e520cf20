"""Pure-DP choice of the candidate of least mean risk, by winsorised differences of the users' losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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


def difference_scores(losses: FloatArray, reach: float) -> npt.NDArray[np.int64]:
    """For each candidate, over the worst opponent, the sum over users of what they lose less with the candidate.

    A user's difference is clipped to ± ``reach`` and counted in steps of reach·2⁻²⁹.

    Parameters
    ----------
    losses : ndarray of shape (n_users, n_candidates)
        A NaN counts as infinite. Users who lose infinitely much with both are undecided.
    reach : float > 0

    Returns
    -------
    scores : ndarray of shape (n_candidates,), int64
        Adding a user moves every score by at most 2²⁹, exchanging one by at most 2³⁰.
    """
    columns = [np.nan_to_num(column, nan=np.inf, posinf=np.inf, neginf=-np.inf) for column in losses.T]
    sums = np.zeros((len(columns), len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        for j, other in enumerate(columns[:k]):
            lead = interval_contributions(other - column, -reach, reach, bits=CONTRIBUTION_BITS)
            sums[k, j] = int(exact_sum(lead))
            sums[j, k] = -sums[k, j]
    if len(columns) > 1:
        np.fill_diagonal(sums, np.iinfo(np.int64).max)
    return np.asarray(sums.min(axis=1))


def loss_ranges(losses: FloatArray) -> FloatArray:
    """How far the candidates' losses lie apart for each user; NaN if not finite for one of them."""
    most, least = losses[:, 0].copy(), losses[:, 0].copy()
    for column in losses.T:
        np.maximum(most, column, out=most)
        np.minimum(least, column, out=least)
    return np.asarray(most - least)


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
    def run(self, data: FloatArray, release: Any) -> int:
        """Choose.

        Parameters
        ----------
        data : ndarray of shape (n_users, n_candidates)
            Mean losses; a row is a function of that user's rows alone.
        release : Release

        Returns
        -------
        int
        """
        if self._median_epsilon is None:
            return self._votes.run(data, release)
        return int(
            release.select(
                difference_scores(data, self._reach(loss_ranges(data), release)),
                sensitivity=2 ** (CONTRIBUTION_BITS - self._monotone),
                epsilon=self._choice_epsilon,
                rule="permute-and-flip",
            )
        )

    def _reach(self, ranges: FloatArray, release: Any) -> float:
        """Where differences are clipped."""
        assert self._median_epsilon is not None
        median = select_median_scale(
            ranges, epsilon=self._median_epsilon, release=release, monotone=self._monotone
        )
        rank = tail_rank(self._upper_epsilon, len(FINE_SCALES))
        upper = select_upper_scale(
            ranges, rank, epsilon=self._upper_epsilon, release=release, scales=FINE_SCALES
        )
        if self.n_users is None:
            return max(median, upper)
        # What a choice may lose, in units of where differences are clipped.
        level = 4.0 * (1.0 + math.log(self.n_candidates)) / (self._choice_epsilon * self.n_users)
        return tail_radius(median, upper if self.n_users > 2 * rank else 0.0, level, 1)
