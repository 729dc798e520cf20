"""Pure-DP choice among K candidates from every user's mean losses (section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy import (
    BoundedRangeEvent,
    LaplaceEvent,
    Mechanism,
    PrivacyEvent,
    PureEvent,
    repeated_events,
    select_repeatedly,
)
from skprivate.user_level._private_range import n_bins
from skprivate.user_level._winsorized_mean import winsorized_mean_1d

FloatArray = npt.NDArray[np.float64]

#: Mean evaluations of each candidate under repeated selection.
REPETITIONS_EACH = 5.0


def vote_scores(losses: FloatArray) -> npt.NDArray[np.int64]:
    """For each candidate, over the worst opponent, the number of users who lose no more with the candidate.

    Parameters
    ----------
    losses : ndarray of shape (n_users, n_candidates)

    Returns
    -------
    scores : ndarray of shape (n_candidates,), int64
        One user more adds 0 or 1 to every score; one user exchanged moves it by at most 1.
    """
    comparable = np.nan_to_num(losses, nan=np.inf, posinf=np.inf)
    n_candidates = comparable.shape[1]
    scores = np.empty(n_candidates, dtype=np.int64)
    for k in range(n_candidates):
        scores[k] = (comparable[:, [k]] <= comparable).sum(axis=0).min()
    return scores


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
        scores = vote_scores(data)
        return int(
            release.select(
                scores,
                sensitivity=1,
                epsilon=self.epsilon,
                rule="permute-and-flip",
                monotone=self.monotone,
            )
        )


@dataclass(frozen=True)
class MeanSelection(Mechanism):
    """Candidate of least winsorised mean loss, by Liu and Talwar's selection with ε/3 an evaluation.

    Each evaluation is WinsorizedMean1D of the users' losses. Its excess loss is of order τ ln(K)/(nε), with τ of order
    1/√m (section 6).

    Attributes
    ----------
    epsilon : float
        Price, pure, under replacement of one user.
    tau, bound : float
        Public concentration radius and bound of the losses; ``bound / tau`` at most 2⁶².
    """

    epsilon: float
    tau: float
    bound: float
    theorem = "section 6 (arXiv 2102.11845) with Liu and Talwar 2019, theorem 3.2"

    def __post_init__(self) -> None:
        n_bins(self.bound, self.tau)

    @property
    def _share(self) -> float:
        """Price of one evaluation; three of them stay within ε in floating point."""
        return self.epsilon / 3.0 * (1.0 - 2.0**-40)

    @property
    def _evaluation(self) -> list[tuple[PrivacyEvent, int]]:
        return [(BoundedRangeEvent(self._share / 2.0), 1), (LaplaceEvent(self._share / 2.0), 1)]

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """Three evaluations, however many are made."""
        return repeated_events(self._evaluation)

    def run(self, data: FloatArray, release: Any) -> int:
        """Choose.

        Parameters
        ----------
        data : ndarray of shape (n_users, n_candidates)
            Mean losses; a row is a function of that user's rows alone. NaN counts as infinite.
        release : Release

        Returns
        -------
        int
        """
        columns = [np.where(np.isnan(column), np.inf, column) for column in data.T]

        def evaluate(candidate: int, branch: Any) -> float:
            return -winsorized_mean_1d(
                columns[candidate], epsilon=self._share, tau=self.tau, bound=self.bound, release=branch
            )

        return select_repeatedly(
            release,
            evaluate,
            len(columns),
            plan=self._evaluation,
            mean_repetitions=REPETITIONS_EACH * len(columns) * max(1.0, math.log(len(columns))),
        )
