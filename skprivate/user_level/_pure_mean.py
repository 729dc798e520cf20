"""Mean of one vector per user with pure differential privacy: Algorithm 2, a coordinate at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Adjacency, BoundedRangeEvent, LaplaceEvent, Mechanism, PrivacyEvent
from skprivate.user_level._clipping import tail_radius, tail_rank
from skprivate.user_level._plan import MEDIAN_BITS
from skprivate.user_level._private_range import (
    FINE_SCALES,
    SCALES,
    n_bins,
    scale_counts,
    select_median_scale,
    select_upper_scale,
    selection_epsilon,
)
from skprivate.user_level._user_mean import MeanResult, UserRows
from skprivate.user_level._winsorized_mean import clipped_means, private_middles, winsorized_means

FloatArray = npt.NDArray[np.float64]

#: Shares of the budget where the radius is not given: of the medians, and of each of two quantiles of the distances.
_MEDIANS, _QUANTILE = 0.25, 0.125
#: Shares are smaller by this much, so that rounded sums of them never overrun the budget.
_WITHIN = 1.0 - 1e-12


class PureMeanResult(MeanResult):
    """Users' vectors clipped to a cube of half side ``clip_radius``, with Laplace noise on every coordinate."""

    def confidence_radius(self, beta: float) -> float:
        """Radius about ``mean`` that holds the expectation of a user's clipped vector with probability 1 − β.

        A Laplace variable of deviation s exceeds (s/√2) ln(d/β') with probability β'/d; users in the cube deviate as
        in a ball of √d times its half side. Each gets β/2.
        """
        d, part = len(self.mean), beta / 2.0
        noise = math.sqrt(0.5 * d) * self.noise_scale * math.log(d / part)
        return noise + 2.0 * self.clip_radius * math.sqrt(2.0 * d * math.log(2.0 / part) / self.n_users)


def _mean_rows(rows: UserRows) -> FloatArray:
    X, groups = rows
    return groups.mean(X)


def _distance_counts(vectors: FloatArray, middles: list[float]) -> npt.NDArray[np.int64]:
    """How many users have about each largest distance from the middles of the coordinates, on two scales."""
    distances = np.zeros(vectors.shape[1])
    for x, middle in zip(vectors, middles, strict=True):
        np.maximum(distances, np.abs(x - middle), out=distances)
    return np.concatenate([scale_counts(distances, SCALES), scale_counts(distances, FINE_SCALES)])


@dataclass(frozen=True)
class PureUserMean(Mechanism):
    """Mean of one vector per user, ε-DP under replacement of one user; their number is public.

    With a radius τ every coordinate is a mean by Algorithm 2 at ε/d. Without, medians are found by Algorithm 1, and the
    half side of one cube from two quantiles of the users' distances from them.

    Attributes
    ----------
    epsilon : float
    n_users, n_features : int
    reach : bool
        Whether the cube reaches over the tail (`tail_radius`); otherwise its half side is the median distance.
    tau : float or None
        Public radius about their centre in which the users' means lie.
    bound : float
        Public range [−B, B] of the centre's coordinates.
    """

    epsilon: float
    n_users: int
    n_features: int
    reach: bool
    tau: float | None
    bound: float
    theorem = "Algorithm 2 and Theorem 1 (arXiv 2102.11845) for every coordinate"

    def __post_init__(self) -> None:
        if self.tau is not None:
            n_bins(max(self.bound, self.tau), self.tau)
            return
        n_bins(self.bound, self._bin)
        needed = math.ceil(
            max(
                selection_epsilon(1.0, 2.0**MEDIAN_BITS, monotone=False) / self._share(_MEDIANS),
                selection_epsilon(1.0, len(SCALES), monotone=False) / (_QUANTILE * self.epsilon * _WITHIN),
            )
        )
        if self.n_users < needed:
            raise ValueError(
                f"n = {self.n_users} users at epsilon = {self.epsilon:g} are too few to find where {self.n_features} "
                f"features lie with delta=0: {needed} are needed. Give tau and bound, or delta > 0."
            )

    @property
    def _bin(self) -> float:
        return self.bound * 2.0 ** (1 - MEDIAN_BITS)

    def _share(self, share: float) -> float:
        """Price of one coordinate of a part of the budget."""
        return share * self.epsilon / self.n_features * _WITHIN

    @property
    def _rank(self) -> int | None:
        """Rank of the upper quantile, None where the users are too few for one above the median."""
        rank = tail_rank(_QUANTILE * self.epsilon * _WITHIN, len(FINE_SCALES))
        return rank if self.reach and self.n_users > 2 * rank else None

    @property
    def _sum_share(self) -> float:
        return 1.0 - _MEDIANS - _QUANTILE * (1 if self._rank is None else 2)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        d = self.n_features
        if self.tau is not None:
            half = self._share(1.0) / 2.0
            return [(BoundedRangeEvent(half), d), (LaplaceEvent(half), d)]
        quantile = BoundedRangeEvent(_QUANTILE * self.epsilon * _WITHIN)
        return [
            (BoundedRangeEvent(self._share(_MEDIANS)), d),
            (quantile, 1 if self._rank is None else 2),
            (LaplaceEvent(self._share(self._sum_share)), d),
        ]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserRows, release: Any) -> PureMeanResult:
        """Draw the mean of the users' mean rows; ``data`` is (X, groups), or such pairs in blocks."""
        rows = as_partitions(data).map(_mean_rows).persisted()
        if self.tau is not None:
            epsilon = self._share(1.0)
            bound = max(self.bound, self.tau)
            means = winsorized_means(
                rows, self.n_users, epsilon=epsilon, tau=self.tau, bound=bound, release=release
            )
            return self._result(means, 2.0 * self.tau, epsilon / 2.0)
        medians = private_middles(
            rows, epsilon=self._share(_MEDIANS), tau=self._bin, bound=self.bound, release=release
        )
        half = self._half_side(rows.sum(partial(_distance_counts, middles=medians)), release)
        epsilon = self._share(self._sum_share)
        means = clipped_means(rows, self.n_users, medians, half, epsilon=epsilon, release=release)
        return self._result(means, half, epsilon)

    def _half_side(self, counts: npt.NDArray[np.int64], release: Any) -> float:
        epsilon = _QUANTILE * self.epsilon * _WITHIN
        counts, fine_counts = np.split(counts, [len(SCALES)])
        median = select_median_scale(counts, epsilon=epsilon, release=release, monotone=False)
        if self._rank is None:
            return median
        upper = select_upper_scale(
            fine_counts, self._rank, epsilon=epsilon, release=release, scales=FINE_SCALES, near=median
        )
        return tail_radius(median, upper, self._level(self._share(self._sum_share)), self.n_features)

    def _level(self, epsilon: float) -> float:
        """Norm of all the noise at this price of a coordinate, where users all at one corner of the cube have √d."""
        return math.sqrt(2.0 * self.n_features) * 2.0 / (epsilon * self.n_users)

    def _result(self, means: list[float], half: float, epsilon: float) -> PureMeanResult:
        return PureMeanResult(
            mean=np.array(means),
            n_users=float(self.n_users),
            clip_radius=half,
            noise_scale=math.sqrt(2.0) * 2.0 * half / (epsilon * self.n_users),
            offset=0.0,
            winsorised=True,
            noise_level=self._level(epsilon),
            count_noise=0.0,
        )


def pure_mean(
    epsilon: float,
    n_users: int,
    n_features: int,
    *,
    aggregation: str,
    tau: float | None,
    bound: float,
    adjacency: Adjacency,
    weight_cap: int,
) -> PureUserMean:
    """The mechanism for ``delta=0``; refuses what it cannot keep."""
    if adjacency is not Adjacency.REPLACE_ONE or weight_cap != 1:
        raise ValueError(
            "delta=0 is a mean over a public number of users that count the same: it needs "
            f"adjacency='replace-one' and weight_cap=1, got adjacency={adjacency.value!r} and "
            f"weight_cap={weight_cap!r}."
        )
    return PureUserMean(epsilon, n_users, n_features, aggregation == "mean", tau, bound)
