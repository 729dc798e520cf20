"""Least squares from the users' mean second moments, released once: no iterations on private data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Mechanism, PrivacyEvent
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import MeanProblem, UserData, count_users, second_moments, target_counts
from skprivate.user_level.descent._descent import LinearResult, project
from skprivate.user_level.means._user_mean import MeanResult, UserMean
from skprivate.user_level.scaling._frame import identity
from skprivate.user_level.scaling._standardise import Standardisation

FloatArray = npt.NDArray[np.float64]

#: "auto" releases moments if their privacy noise is at most this part of the sampling noise.
NEGLIGIBLE = 0.05
#: "auto" forms at most this many numbers of all users' moments.
MOST_NUMBERS = 1 << 26
#: Radius of the ball about the private centre in median distances, and the same times the root of the noise level.
LEAST_CLIP = 1.0
CLIP_GROWTH = 0.3


def n_moments(n_coef: int) -> int:
    """Count the distinct numbers in (zzᵀ, zy)."""
    return n_coef * (n_coef + 3) // 2


def noise_is_negligible(terms: Terms, n_coef: int) -> bool:
    """Return True if moments of a public number of users have hardly more privacy noise than sampling noise.

    In units of a user's spread the noise has norm Δ z √D/n, the sampling error 1/√n.
    """
    if terms.n_users is None:
        return False
    return terms.level(terms.n_users, n_moments(n_coef)) <= NEGLIGIBLE / math.sqrt(terms.n_users)


def _moments(data: UserData, scale: float, constant: bool) -> MeanProblem:
    """Compute each user's moments, with targets in units of ``scale``."""
    return MeanProblem(second_moments(data.X, data.y / scale, data.groups, constant), data.groups)


@dataclass(frozen=True)
class MomentsRegression(Mechanism):
    """Coefficients from a winsorised mean of every user's (zzᵀ, zy), with z = (x, 1) if an intercept is fitted."""

    terms: Terms
    n_features: int
    fit_intercept: bool
    alpha: float
    aggregation: str
    radius: float = math.inf
    standardisation: Standardisation | None = None
    n_steps = 1
    theorem = "winsorised mean of second moments, docs/theory/user_level.md"

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return n_moments(self.n_features + self.fit_intercept)

    @cached_property
    def mean(self) -> UserMean:
        """Mean of the moments, with two scales to select: that of y and that of the moments."""
        return UserMean(
            self.terms,
            self.size,
            self.aggregation == "mean" or (self.aggregation == "auto" and self.terms.n_users is None),
            least_radius=self._least_radius,
            n_scales=2 if self.standardisation is None else 1,
        )

    @property
    def _least_radius(self) -> float:
        """Radius about the private centre in median distances."""
        if self.aggregation != "auto" or self.terms.n_users is None:
            return LEAST_CLIP
        return max(LEAST_CLIP, CLIP_GROWTH / math.sqrt(self.terms.level(self.terms.n_users, self.size)))

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return self.mean.events

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserData, release: Any) -> LinearResult:
        """Release the scale of the target and the moments."""
        split, rows = self.mean.split, as_partitions(data)
        n_users = split.count(count_users(rows, self.terms.n_users), release)
        scale, frame = 1.0, identity(self.n_features)
        if self.standardisation is not None:
            rows, frame = self.standardisation.run(rows, split.at_least(n_users), release)
        else:
            scale = split.select_scale(rows, target_counts, n_users, release) or 1.0
        moments = rows.map(partial(_moments, scale=scale, constant=self.fit_intercept)).persisted()
        result = self.mean.mean_of_vectors(moments, n_users, release)
        # A given penalty is on the coefficients of the original features.
        solved = self._solve(result, self.alpha / frame.scales**2)
        found = frame.coefficients(scale * solved[None], self.fit_intercept)[0]
        coef = project(found, self.radius)
        return LinearResult(
            coef,
            n_users,
            self.radius,
            result.clip_radius,
            result.noise_level,
            target_range=frame.target_range(result.noise_level),
            alpha=self.alpha,
            frame=frame,
        )

    def _solve(self, result: MeanResult, penalty: FloatArray) -> FloatArray:
        """Solve for coefficients from released moments, with a penalty of each but the intercept."""
        d = self.n_features + self.fit_intercept
        upper = np.triu_indices(d)
        second = np.zeros((d, d))
        second[upper] = result.mean[: len(upper[0])]
        second = second + np.triu(second, 1).T
        # Noise moves the eigenvalues of a symmetric matrix by about √(2d) standard deviations: smaller ones are lost in
        # it.
        noise = result.noise_scale if result.winsorised else 1.0
        values, vectors = np.linalg.eigh(second)
        floor = max(noise * math.sqrt(2.0 * d), 1e-12)
        second = (vectors * np.maximum(values, floor)) @ vectors.T
        second[np.arange(self.n_features), np.arange(self.n_features)] += penalty
        return np.asarray(np.linalg.solve(second, result.mean[len(upper[0]) :]))
