"""Least squares from the users' mean second moments, released once: no iterations on private data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.user_level._plan import Neighbours, decides
from skprivate.user_level._private_range import COARSE_SCALES, select_median_scale
from skprivate.user_level._problems import GramProblem
from skprivate.user_level._user_mean import MeanResult, PreparedMean
from skprivate.user_level._users import UserGroups, user_magnitudes

FloatArray = npt.NDArray[np.float64]

#: "auto" releases moments if their privacy noise is at most this part of the sampling noise.
NEGLIGIBLE = 0.05


def n_moments(n_coef: int) -> int:
    """Distinct numbers in (zzᵀ, zy)."""
    return n_coef * (n_coef + 3) // 2


def noise_is_negligible(multiplier: float, neighbours: Neighbours, n_users: int, n_coef: int) -> bool:
    """Whether moments of so many users carry hardly more privacy noise than sampling noise.

    In units of a user's spread the noise has norm Δ z √D/n, the sampling error 1/√n.
    """
    noise = neighbours.sum_sensitivity * multiplier * math.sqrt(n_moments(n_coef)) / n_users
    return noise <= NEGLIGIBLE / math.sqrt(n_users)


def moments_regression(
    X: FloatArray,
    y: FloatArray,
    groups: UserGroups,
    prepared: PreparedMean,
    *,
    fit_intercept: bool,
    alpha: float,
    release: Any,
) -> tuple[FloatArray, MeanResult]:
    """Coefficients from a winsorised mean of every user's (zzᵀ, zy), with z = (x, 1) if an intercept is fitted.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    groups : UserGroups
    prepared : PreparedMean
        For vectors of length `n_moments`, with two scales to select: that of y and that of the moments.
    fit_intercept : bool
    alpha : float
        Strength of the ℓ2 penalty, not on the intercept.
    release : Release

    Returns
    -------
    coef : ndarray of shape (n_features + fit_intercept,)
    result : MeanResult
    """
    settings = prepared.settings
    n_users = prepared.count(groups.n_users, release)
    scale, price = 1.0, prepared.split.scale_epsilon
    if price is not None:
        found = select_median_scale(
            user_magnitudes(y, groups),
            epsilon=price,
            release=release,
            monotone=settings.neighbours.monotone,
            scales=COARSE_SCALES,
        )
        if decides(price, prepared.split.at_least(n_users), settings.neighbours, len(COARSE_SCALES)):
            scale = found
    gram = GramProblem(X, y / scale, groups, fit_intercept=fit_intercept, alpha=0.0)
    d = gram.n_coef
    upper = np.triu_indices(d)
    vectors = np.concatenate([gram.gram[:, *upper], gram.moment], axis=1)
    result = prepared.run(vectors, groups, n_users, release)
    second = np.zeros((d, d))
    second[upper] = result.mean[: len(upper[0])]
    second = second + np.triu(second, 1).T
    # Noise moves the eigenvalues of a symmetric matrix by about √(2d) standard deviations: smaller ones say nothing.
    noise = result.noise_scale if result.winsorised else 1.0
    values, vectors_ = np.linalg.eigh(second)
    floor = max(noise * math.sqrt(2.0 * d), 1e-12)
    second = (vectors_ * np.maximum(values, floor)) @ vectors_.T
    penalty = np.full(d, alpha)
    if fit_intercept:
        penalty[-1] = 0.0
    coef = np.linalg.solve(second + np.diag(penalty), result.mean[len(upper[0]) :])
    return scale * coef, result
