"""Second moments of rows and target, released once: where preconditioned steps start, and the metric that they have.

All of this is post-processing of one noisy matrix. A model of two classes is that of normal features with these moments
(Stein's lemma): its slopes have the direction of least squares, and its Hessian follows by quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from skprivate.partitions import Partitions
from skprivate.privacy import GaussianEvent, Release
from skprivate.user_level._losses import normal_quadrature
from skprivate.user_level._plan import CLEAR_DEVIATIONS, SMALL_SHARE, WIDER, BudgetSplit
from skprivate.user_level.descent._scaled_rows import largest_moment, moment_sum, row_unit
from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]

#: Spectral noise of the moments that is wanted, in average eigenvalues, and their largest share of the Gaussian budget.
WANTED_NOISE, MOST_SHARE = 0.05, 0.4
#: Largest target in its scales, and growth of squared norms that comes before a smaller share.
MOST_TARGET, MOST_GROWTH = 3.0, 4.0
#: Least eigenvalue over their average, and least variance of residuals over that of the target.
LEAST_EIGENVALUE, LEAST_LEFT = 1e-9, 0.01
#: Least rate of one of two classes, about the least curvature of a score, too, and the largest deviation of scores.
LEAST_RATE, MOST_DEVIATION = 0.05, 6.0


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Plan of the release for ``n_coef`` coefficients, from public numbers."""

    split: BudgetSplit
    n_users: float
    n_coef: int
    constant: bool
    n_targets: int = 1

    @property
    def width(self) -> int:
        """Numbers of a row with its target."""
        return self.n_coef + self.n_targets

    @property
    def _most_target(self) -> float:
        """Norm of the largest target: several are 1 for one class."""
        return MOST_TARGET if self.n_targets == 1 else 1.0

    @property
    def _most_share(self) -> float:
        """Largest share: steps of several classes have more noise."""
        return MOST_SHARE if self.n_targets == 1 else SMALL_SHARE

    @property
    def _squared_radius(self) -> float:
        """Squared norm that few rows of independent normal numbers exceed."""
        return self.n_coef + 2.0 * math.sqrt(2.0 * self.n_coef)

    def _noise(self, share: float) -> float:
        """Return the spectral norm of the noise for rows of this norm and units of 1.

        A symmetric matrix of numbers of noise s on either half has norm √(2·width)·s.
        """
        square = self._squared_radius + self._most_target**2
        deviation = self.split.terms.acute_sensitivity * self.split.multiplier / math.sqrt(share)
        return deviation * square / self.n_users * math.sqrt(2.0 * self.width)

    @property
    def _room(self) -> float:
        return WANTED_NOISE / self._noise(self._most_share)

    @property
    def _growth(self) -> float:
        """Growth of squared norms: where noise is below what is wanted, longer rows count in full first."""
        return min(max(1.0, self._room), MOST_GROWTH)

    @cached_property
    def share(self) -> float:
        """Share of the Gaussian budget."""
        return min(self._most_share, max(SMALL_SHARE, self._most_share * (self._growth / self._room) ** 2))

    @property
    def noise(self) -> float:
        """Least spectral norm of the noise in average eigenvalues: the public number that decides.

        Steps of K classes have the noise of K − 1 times as many coefficients.
        """
        return self._noise(MOST_SHARE) * math.sqrt(max(self.n_targets - 1, 1))

    @property
    def radius(self) -> float:
        """Norm from which rows count in part."""
        return math.sqrt(self._squared_radius * self._growth)

    @property
    def multiplier(self) -> float:
        """Noise multiplier."""
        return self.split.multiplier / math.sqrt(self.share) * WIDER

    @property
    def event(self) -> GaussianEvent:
        """The draw."""
        return GaussianEvent(self.multiplier, self.width**2)

    def run(self, rows: Partitions, frame: Frame, release: Release) -> Gram:
        """Release the moments; entries off the diagonal, which tend to be alike, are shrunk by their noise."""
        k, unit, most_target = self.width, row_unit(frame), self._most_target * math.sqrt(self._growth)
        bound = largest_moment(frame, self.radius, most_target)
        noisy = release.gaussian(
            rows.sum(partial(moment_sum, most_target=most_target)).ravel(),
            sensitivity=math.nextafter(self.split.terms.acute_sensitivity * bound, math.inf),
            noise_multiplier=self.multiplier,
            step=1.0,
        )
        scale = unit**2 / self.n_users
        second = np.asarray(noisy, dtype=np.float64).reshape(k, k) * scale
        second = 0.5 * (second + second.T)
        # The mean of two entries with the noise of one each.
        entry = self.split.terms.acute_sensitivity * self.multiplier * bound * scale / math.sqrt(2.0)
        d, inner = self.n_coef, self.n_coef - self.constant
        moments = second[:d, :d].copy()
        upper, kept = np.triu_indices(inner, 1), 1.0
        if len(upper[0]):
            own = max(0.0, float(np.mean(np.square(moments[upper]))) - entry**2)
            kept = own / (own + entry**2)
            block = moments[:inner, :inner]
            block[~np.eye(inner, dtype=bool)] *= kept
        noise = 2.0 * entry * max(1.0, math.sqrt(kept * d))
        if self.n_targets > 1:
            return Gram(moments, second[:d, d:], second[d:, d:], noise, entry)
        return Gram(moments, second[:-1, -1].copy(), float(second[-1, -1]), noise, entry)


class Gram:
    """Released moments: zzᵀ in ``metric``, with eigenvalues raised by the noise, zy in ``cross``, y² in ``target``.

    Several classes have a column of ``cross`` each, and a matrix ``target``. Entries of ``cross`` have this ``error``.
    """

    def __init__(self, moments: FloatArray, cross: FloatArray, target: Any, noise: float, error: float = 0.0) -> None:
        self.moments, self.cross, self.target, self.error = moments, cross, target, error
        values, vectors = np.linalg.eigh(moments)
        self.least = least = max(noise, LEAST_EIGENVALUE * float(np.trace(moments)) / len(moments), LEAST_EIGENVALUE)
        self.values, self.vectors = np.maximum(values, 0.0) + least, vectors
        self.metric: FloatArray = (vectors * self.values) @ vectors.T

    def hidden(self) -> tuple[int, ...]:
        """List classes whose released rates noise alone explains."""
        if np.ndim(self.target):
            rates, error = np.diag(self.target), math.sqrt(2.0) * self.error
        else:
            rates, error = 0.5 + 0.5 * self.cross[-1] * np.array([-1.0, 1.0]), 0.5 * self.error
        return tuple(np.flatnonzero(rates <= CLEAR_DEVIATIONS * error).tolist())

    def least_squares(self) -> tuple[FloatArray, float]:
        """Solve for coefficients; returns the deviation of residuals, too."""
        coef = np.linalg.solve(self.metric, self.cross)
        left = self.target - 2.0 * coef @ self.cross + coef @ self.moments @ coef
        least = max(LEAST_LEFT * self.target, LEAST_EIGENVALUE)
        return np.asarray(coef), math.sqrt(min(max(float(left), least), max(self.target, least)))

    @property
    def _covariance(self) -> FloatArray:
        """Covariance of the features beside a constant."""
        mean = self.moments[:-1, -1]
        return np.asarray(self.metric[:-1, :-1] - np.outer(mean, mean))

    def logistic(self) -> tuple[FloatArray, float]:
        """Find the model of two classes of normal features; returns the deviation of residuals, too."""
        mean, covariance = self.moments[:-1, -1], self._covariance
        rate = min(max(0.5 + 0.5 * float(self.cross[-1]), LEAST_RATE), 1.0 - LEAST_RATE)
        joint = 0.5 * self.cross[:-1] - mean * (rate - 0.5)
        slopes = np.linalg.solve(covariance, joint)
        explained = math.sqrt(max(float(slopes @ joint), 0.0))
        # The deviation of scores times their mean curvature is that of the explained part of the class.
        points, shares = normal_quadrature()
        deviation, middle, curvature = 0.0, math.log(rate / (1.0 - rate)), 1.0
        for _ in range(60):
            chances = expit(middle + deviation * points)
            curvature = max(float((chances - chances**2) @ shares), LEAST_RATE)
            middle += (rate - float(chances @ shares)) / curvature
            deviation += 0.5 * (min(explained / curvature, MOST_DEVIATION) - deviation)
        coef = slopes / curvature
        coef *= min(1.0, MOST_DEVIATION * curvature / max(explained, LEAST_EIGENVALUE))
        return np.append(coef, middle - coef @ mean), math.sqrt(curvature)

    def logistic_hessian(self, coef: FloatArray) -> tuple[FloatArray, float]:
        """Compute the Hessian of the logistic loss for normal features; returns the mean curvature, too."""
        mean, covariance, slopes = self.moments[:-1, -1], self._covariance, coef[:-1]
        points, shares = normal_quadrature()
        deviation = math.sqrt(max(float(slopes @ covariance @ slopes), LEAST_EIGENVALUE))
        chances = expit(coef[-1] + slopes @ mean + deviation * points)
        parts = (chances - chances**2) * shares
        zero, one, two = (float(parts @ points**k) for k in range(3))
        along, constant = np.append(covariance @ slopes / deviation, 0.0), np.append(mean, 1.0)
        result = zero * (np.outer(constant, constant) - np.outer(along, along))
        result[:-1, :-1] += zero * covariance
        mixed = one * np.outer(constant, along)
        result += mixed + mixed.T + two * np.outer(along, along) + LEAST_RATE**2 * self.metric
        return np.asarray(result), zero

    def softmax(self) -> tuple[FloatArray, FloatArray]:
        """Find the model of several classes of normal features, with a row each; returns the mean curvature, too.

        That is the covariance of what least squares leaves of the classes, and 1 for a common change of scores. With it
        slopes are those of linear discriminant analysis.
        """
        linear = np.linalg.solve(self.metric, self.cross)
        counts, fit = np.diag(self.target), linear.T @ self.cross
        left = np.diag(counts) - fit - fit.T + linear.T @ self.moments @ linear
        same = np.full(left.shape, 1.0 / len(left))
        other = np.eye(len(left)) - same
        values, vectors = np.linalg.eigh(other @ left @ other + same)
        least = 2.0 * LEAST_RATE / len(left)
        values = np.maximum(values, max(least, self.least))
        curvature = (vectors * values) @ vectors.T
        slopes = np.linalg.solve(curvature, linear[:-1].T)
        middle = np.log(np.maximum(counts, least)) - slopes @ self.moments[:-1, -1]
        return np.column_stack([slopes, middle]), curvature
