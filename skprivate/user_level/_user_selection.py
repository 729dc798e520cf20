"""Pure-DP choice among K candidates from every user's mean losses (section 6)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.privacy import BoundedRangeEvent, LaplaceEvent, PureEvent, select_repeatedly
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


def vote_events(epsilon: float) -> list[Any]:
    """What `select_by_votes` draws."""
    return [(PureEvent(epsilon, "permute-and-flip"), 1)]


def select_by_votes(losses: FloatArray, *, epsilon: float, monotone: bool, release: Any) -> int:
    """Candidate that a majority of users prefers to any other, by permute-and-flip: ε-DP, no bound on losses."""
    return int(
        release.select(
            vote_scores(losses), sensitivity=1, epsilon=epsilon, rule="permute-and-flip", monotone=monotone
        )
    )


def select_by_means(losses: FloatArray, *, epsilon: float, tau: float, bound: float, release: Any) -> int:
    """Candidate of least winsorised mean loss, by Liu and Talwar's selection with ε/3 an evaluation.

    Each evaluation is WinsorizedMean1D of the users' losses. Its excess loss is of order τ ln(K)/(nε), with τ of order
    1/√m (section 6).
    """
    share = epsilon / 3.0 * (1.0 - 2.0**-40)
    n_candidates = losses.shape[1]

    def evaluate(candidate: int, branch: Any) -> float:
        return -winsorized_mean_1d(losses[:, candidate], epsilon=share, tau=tau, bound=bound, release=branch)

    return select_repeatedly(
        release,
        evaluate,
        n_candidates,
        plan=[(BoundedRangeEvent(share / 2.0), 1), (LaplaceEvent(share / 2.0), 1)],
        mean_repetitions=REPETITIONS_EACH * n_candidates * max(1.0, math.log(n_candidates)),
    )
