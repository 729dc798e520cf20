"""Errors of `UserLevelMean` before any data are seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scipy import integrate
from scipy.stats import chi

from skprivate._messages import member, must_be, number, positive, whole_number
from skprivate.privacy import Adjacency
from skprivate.user_level import _plan, _ranges
from skprivate.user_level.means import _user_mean

Aggregation = Literal["mean", "robust"]


@dataclass(frozen=True)
class MeanErrors:
    """Predicted errors of `UserLevelMean`, as root mean squares of Euclidean distances.

    Attributes
    ----------
    privacy : float
        Distance from the users' plain mean.
    sampling : float
        Distance of the plain mean from the expectation.
    """

    privacy: float
    sampling: float

    @property
    def total(self) -> float:
        """Distance from the expectation."""
        return math.hypot(self.privacy, self.sampling)


def user_level_mean_errors(
    n_users: int,
    n_features: int = 1,
    *,
    epsilon: float,
    delta: float = 1e-6,
    deviation: float = 1.0,
    aggregation: Aggregation = "mean",
    adjacency: str = "replace-one",
) -> MeanErrors:
    r"""Errors to expect of `UserLevelMean` with its defaults, from public numbers.

    Parameters
    ----------
    n_users : int >= 1
        Public number of users n.
    n_features : int >= 1, default=1
        Dimension d.
    epsilon : float > 0
        Privacy budget ε.
    delta : float in (0, 1), default=1e-6
        Privacy budget δ.
    deviation : float > 0, default=1.0
        Standard deviation σ of the users' means in one feature. With m rows a user, deviation s between users and r
        among one user's rows it is √(s² + r²/m).
    aggregation : {"mean", "robust"}, default="mean"
        As in `UserLevelMean`.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        As in `UserLevelMean`, with ``n_users`` given.

    Returns
    -------
    errors : MeanErrors
        In the units of ``deviation``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type or outside its range.

    See Also
    --------
    user_level_sample_size : Computes how many users are enough.
    skprivate.papers.user_level_bounds.lower_bound : Bounds the error of every private method.

    Notes
    -----
    A model, no bound: users' means are taken as normal with covariance σ²I, the private selections as exact. With noise
    level ν (all noise as a part of a unanimous vote) and the Jacobian J of a ball of radius C at its centre, a centre
    found with the share c of the budget is off by :math:`C\nu / (J \sqrt c)`. What lies the part c of the way from a
    sum about it back to it has an error whose square is :math:`C^2 \nu^2 ((1 - J (1 - c))^2 / (J^2 c) + 1 - c)`.
    Simulated errors are within a factor of two.

    Examples
    --------
    >>> from skprivate.user_level import user_level_mean_errors
    >>> errors = user_level_mean_errors(5000, 10, epsilon=1.0)
    >>> round(errors.privacy, 3), round(errors.sampling, 3)
    (0.027, 0.045)
    """
    _check(n_features, epsilon, delta, deviation, aggregation)
    whole_number("n_users", n_users)
    privacy = _privacy_error(
        int(n_users),
        int(n_features),
        float(epsilon),
        float(delta),
        aggregation,
        member(Adjacency, "adjacency", adjacency),
    )
    return MeanErrors(deviation * privacy, deviation * math.sqrt(n_features / n_users))


def user_level_sample_size(
    error: float,
    n_features: int = 1,
    *,
    epsilon: float,
    delta: float = 1e-6,
    deviation: float = 1.0,
    aggregation: Aggregation = "mean",
    adjacency: str = "replace-one",
) -> int:
    """Number of users from which on `UserLevelMean` is expected to err by at most ``error``.

    Parameters
    ----------
    error : float > 0
        Root mean square of the Euclidean distance from the expectation, sampling included.
    n_features, epsilon, delta, deviation, aggregation, adjacency
        As in `user_level_mean_errors`.

    Returns
    -------
    int
        The least number of users, as far as the predicted error falls with it.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type or outside its range, or 10¹² users are not enough.

    See Also
    --------
    user_level_mean_errors : Predicts the errors.
    skprivate.papers.user_level_bounds.lower_bound : Bounds the error of every private method.

    Examples
    --------
    >>> from skprivate.user_level import user_level_sample_size
    >>> user_level_sample_size(0.1, 10, epsilon=1.0)
    1863
    """
    positive("error", error)
    _check(n_features, epsilon, delta, deviation, aggregation)

    def enough(n: int) -> bool:
        errors = user_level_mean_errors(
            n,
            n_features,
            epsilon=epsilon,
            delta=delta,
            deviation=deviation,
            aggregation=aggregation,
            adjacency=adjacency,
        )
        return errors.total <= error

    high = max(1, math.ceil(n_features * (deviation / error) ** 2) - 1)  # what sampling alone demands
    if high <= _ranges.MANY and enough(high):
        return high
    while not enough(high):
        if high > _ranges.MANY:
            raise ValueError(f"error={error!r} asks for more than {_ranges.MANY:.0e} users; allow a larger one.")
        high *= 2
    low = high // 2
    while high - low > max(1, low >> 10):  # to a thousandth: the prediction is no finer
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def _privacy_error(n: int, d: int, epsilon: float, delta: float, aggregation: str, adjacency: Adjacency) -> float:
    """Predict the privacy error in deviations of normal users."""
    plan = _user_mean.UserMean(_plan.Terms(epsilon, delta, adjacency, n), d, aggregation == "mean", bound=1e9)
    upper, beyond = 0.0, None
    if plan.split.tail_epsilon is not None:
        beyond = _ranges.tail_rank(plan.split.tail_epsilon, len(_ranges.FINE_SCALES)) / n
        upper = float(chi.isf(beyond, d))
    radius = plan.radius(float(chi.isf(_user_mean.BEYOND, d)), n, upper, beyond)
    outside = integrate.quad(lambda x: chi.pdf(x, d) / x, radius, math.inf)[0] if d > 1 else 0.0
    jacobian = float(chi.cdf(radius, d)) + radius * (1.0 - 1.0 / d) * outside
    # The mean is the centre's part of the way from the sum back to the centre.
    part = _user_mean.CENTRE_PART
    error = math.hypot((part + (1.0 - part) * (1.0 - jacobian)) / jacobian / math.sqrt(part), math.sqrt(1.0 - part))
    side = _user_mean.draw_side(plan.terms.sum_sensitivity * plan.split.multiplier / n)
    length = math.sqrt(1.0 - side**2)
    return plan.split.level(n, d) * radius * error / length / math.sqrt(1.0 - _plan.SMALL_SHARE)


def _check(n_features: int, epsilon: float, delta: float, deviation: float, aggregation: str) -> None:
    whole_number("n_features", n_features)
    positive("epsilon", epsilon)
    number("delta", delta, "a number in (0, 1)", lambda value: 0 < value < 1)
    positive("deviation", deviation)
    if aggregation not in ("mean", "robust"):
        raise ValueError(must_be("aggregation", "'mean' or 'robust'", repr(aggregation)))
