"""Means of features by one sum, for rows whose second moments are too noisy to whiten them.

Medians make good scales possible; a descent wants means. A classifier's first gradients tell what features have in
common with the common class, and that is the mean: where it is far from 0, which it is in skewed columns, it hides the
classes' difference until the intercept has been found.

Where columns have no centres of their own, an offset (pixels, counts, indicators are not negative) lengthens the rows,
whose votes all have norm 1: the longer a row, the less of its vote is what tells rows apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions
from skprivate.privacy import ball_contributions, exact_sum
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData

FloatArray = npt.NDArray[np.float64]

#: Share of the Gaussian budget.
MEANS_SHARE = 0.05
#: Noise levels up to which means are released: with two classes, and with more. At the origin the residuals of two
#: classes have opposite signs, so that their gradients differ by the mean where they differ in number; those of many
#: classes add up to 0.
MOST_LEVEL_TWO, MOST_LEVEL = 0.15, 0.05
#: The same for the common mean of all columns, where columns have no centres.
MOST_COMMON_LEVEL = 0.06
#: Deviations of noise that do not count as a mean.
NOISE_DEVIATIONS = 2.0
#: Least part of a row's mean square without the means.
LEAST_LEFT = 0.1


def can_estimate_common_mean(terms: Terms) -> bool:
    """Return True if users are enough to estimate what all columns have in common."""
    alone = terms.sum_sensitivity * terms.multiplier
    return terms.n_users is not None and alone <= MOST_COMMON_LEVEL * terms.n_users


def row_means(
    rows: Partitions,
    n_features: int,
    *,
    row_norm: float,
    multiplier: float,
    n_users: float,
    terms: Terms,
    release: Any,
) -> FloatArray:
    """Release the means of features, shrunk by their noise.

    A user contributes x̄/max(‖x̄‖, r) with x̄ the mean of the user's rows and r the typical norm of a row: a vector of
    norm at most 1, so that the sum has the sensitivity of any vote.
    """
    total = rows.sum(partial(_sum_of_means, n_features=n_features, radius=row_norm))
    unit = row_norm / n_users
    means = np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64) * unit
    noise = (terms.sum_sensitivity * multiplier * unit) ** 2
    # The common mean is visible where those of single columns are lost in noise.
    common = np.full(n_features, means.mean())
    return _shrunk(common, noise, 1) + _shrunk(means - common, noise, n_features - 1)


def norm_without(row_norm: float, means: FloatArray) -> float:
    """Return the typical norm of rows less their means."""
    return math.sqrt(max(row_norm**2 - float(means @ means), LEAST_LEFT * row_norm**2))


def _shrunk(means: FloatArray, noise: float, dimensions: int) -> FloatArray:
    """Shrink a noisy vector with this variance in each of the ``dimensions`` (James and Stein).

    It is 0 where noise alone may be as long: features that were centred by public numbers are left alone.
    """
    square, expected = float(means @ means), dimensions * noise
    if square <= expected + NOISE_DEVIATIONS * noise * math.sqrt(2.0 * dimensions):
        return np.zeros_like(means)
    return means * (1.0 - expected / square)


def _sum_of_means(data: UserData, n_features: int, radius: float) -> npt.NDArray[Any]:
    """Sum the users' contributions exactly."""
    groups = data.groups
    columns = groups.columns(data.X)
    total: npt.NDArray[Any] = np.zeros(n_features, dtype=np.int64)
    for users, own in groups.blocks():
        means = groups.block_means(columns[:, own], users)
        total = total + exact_sum(ball_contributions(means, radius, weights=groups.weights[users]))
    return total


def shifted(data: UserData, centres: FloatArray) -> UserData:
    """Subtract centres from rows."""
    store = data.writable(data.X.shape[1])
    columns = store[: data.X.shape[1]]
    np.subtract(data.groups.columns(data.X), centres[:, None], out=columns)
    return replace(data, X=columns.T, store=store)
