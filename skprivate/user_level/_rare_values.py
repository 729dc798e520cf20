"""Scales of columns that are one value for most users, indicators above all: their mean squares, by one sum.

The say of a rare category should not vanish with its rate. A selection sees nothing of what fewer than a share β of the
users have; the mean square of the distance to the centre is seen as soon as noise allows, and one sum over all such
columns costs little, since a row has few rare values at a time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions
from skprivate.privacy import ball_contributions, exact_sum
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData

FloatArray = npt.NDArray[np.float64]

#: Share of the budget (in zCDP).
RARE_SHARE = 0.03
#: A priori this part of the largest possible rate.
RATE_PART = 0.25
#: Squares are summed as far as their range goes if the noise of a mean square, for units of 1, is no more than this.
QUIET_NOISE = 0.01


def rare_scales(
    rows: Partitions,
    rare: npt.NDArray[np.bool_],
    most: float,
    largest: float = 1.0,
    *,
    multiplier: float,
    n_users: float,
    terms: Terms,
    release: Any,
) -> FloatArray:
    """Draw the mean squares of these columns; 1 for the others.

    Parameters
    ----------
    rows : Partitions
        Of `UserData` in order, centred and clipped.
    rare : ndarray of shape (n_features,)
        Columns whose scales are sought.
    most : float
        Largest share of the users who differ from the centre of such a column.
    largest : float
        Largest square of such a column.
    multiplier : float
        Noise multiplier.
    n_users : float
        Public, or a lower bound that was released.
    terms : Terms
    release : Release

    Returns
    -------
    ndarray of shape (n_features,)
        Roots of the mean squares; of one deviation of the noise where they are less.
    """
    # The squares of so many rare values of unit size, each as often as is assumed, have about this norm together.
    radius = math.sqrt(max(1.0, RATE_PART * most * int(rare.sum())))
    # A rare column that was standardised has squares of one over its rate: cut at 1 it would seem far too small.
    radius = max(radius, min(largest, QUIET_NOISE * n_users / (terms.sum_sensitivity * multiplier)))
    total = rows.sum(partial(_mean_squares, rare=rare, radius=radius))
    unit = radius / n_users
    squares = np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64) * unit
    least = min(1.0, terms.sum_sensitivity * multiplier * unit)
    return np.where(rare, np.sqrt(np.clip(squares, least, max(1.0, radius))), 1.0)


def _mean_squares(data: UserData, rare: npt.NDArray[np.bool_], radius: float) -> npt.NDArray[Any]:
    """Sum of the users' mean squares of the rare columns, 0 for the others."""
    groups = data.groups
    total: npt.NDArray[Any] = np.zeros(len(rare), dtype=np.int64)
    for users, own in groups.blocks():
        values = np.zeros((len(rare), users.stop - users.start))
        columns = np.ascontiguousarray(data.X[own].T[rare])
        values[rare] = groups.block_means(columns * columns, users)
        total = total + exact_sum(ball_contributions(values, radius, weights=groups.weights[users]))
    return total
