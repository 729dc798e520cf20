"""Accuracy of metric privacy: scales of a metric space, and bounds for every mechanism.

Two metrics on one space: ρ1 for privacy, ρ2 for accuracy (the same by default). Section and theorem numbers are those
of Boedihardjo, Strohmer and Vershynin (arXiv:2405.00329).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skprivate.metric.net._exponential import best_exponential_channel
from skprivate.metric.net._spaces import distance_matrix, separated_net, worst_error
from skprivate.privacy.noise import FloatArray


@dataclass(frozen=True)
class Bracket:
    """Lower and upper bound of a number."""

    lower: float
    upper: float

    def __contains__(self, value: float) -> bool:
        slack = 1e-9 * max(abs(self.upper), 1e-300)
        return bool(self.lower - slack <= value <= self.upper + slack)


def entropic_scale(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> Bracket:
    """Bracket the entropic scale: the least s with N₂(B₁(x, r), s) ≤ e^{ε r} for all x and r > 0 (Definition 1.4).

    The packing numbers inside are bracketed by greedy packings, which factor 2 in s separates.

    By Theorem 3.1 no ε-metrically private mechanism has a smaller expected error than a constant times this.
    """
    first, second = _two_metrics(space, accuracy)
    _check_positive(epsilon)
    # If a greedy s-packing is too large, so is the packing number, at every smaller scale too.
    low = _bisect(second, lambda s: _entropic_holds(first, second, epsilon, s, 1.0), 1.0)[0]
    high = _bisect(second, lambda s: _entropic_holds(first, second, epsilon, s, 0.5), 0.5)[1]
    return Bracket(low, high)


def diametric_scale(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> float:
    """Compute the largest ρ2-diameter of a ρ1-ball of radius 1/ε (Definition 1.6), exactly."""
    first, second = _two_metrics(space, accuracy)
    _check_positive(epsilon)
    balls = first <= 1 / epsilon
    return max(float(second[np.ix_(ball, ball)].max()) for ball in balls)


def predicted_accuracy(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> Bracket:
    """Bracket the best expected worst-case error of an ε-metrically private mechanism.

    Lower end: Theorems 3.1 and 3.2 with explicit constants. Upper end: the smaller of the radius of the space (constant
    mechanism) and the exact worst-case error of the exponential mechanism on the best net (Lemma 4.1).

    Parameters
    ----------
    space : array-like of shape (n, n)
        Distances in the privacy metric ρ1.
    epsilon : float > 0
        Per unit of ρ1.
    accuracy : array-like of shape (n, n), optional
        Distances in the accuracy metric ρ2, ρ1 by default.

    Returns
    -------
    Bracket
        With ``lower`` and ``upper``.

    See Also
    --------
    MetricPrivatizer : Randomises rows of such a space.
    tree_distances : Makes the space of a taxonomy.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.metric import predicted_accuracy
    >>> best = predicted_accuracy(np.abs(np.subtract.outer(np.arange(9), np.arange(9))), 1.0)
    >>> round(best.lower, 2), round(best.upper, 2)
    (0.27, 0.84)
    """
    first, second = _two_metrics(space, accuracy)
    _check_positive(epsilon)
    trivial = float(second.max(axis=0).min())
    best = worst_error(best_exponential_channel(first, epsilon, accuracy=second), second)
    return Bracket(lower_bound(first, second, epsilon), min(trivial, best))


def lower_bound(first: FloatArray, second: FloatArray, epsilon: float) -> float:
    """Bound the accuracy from below by separated sets and by pairs, with explicit constants.

    Let y_1, y_2, … be s-separated in ρ2 at ρ1-distances r_i from x, and the expected error at most A everywhere.
    The balls of radius s/2 around them are disjoint, M(y_i) is in the i-th one with probability ≥ 1 − 2A/s
    (Markov), hence M(x) with probability ≥ e^{−εr_i}(1 − 2A/s), and these add up to at most 1: A ≥ (s/2)(1 − 1/Σ
    e^{−εr_i}) (proof of Theorem 3.1). For two states at distances r in ρ1 and s in ρ2 an output is ≥ s/2 away from
    one of them; balancing the two gives A ≥ (s/2)/(1 + e^{εr}) (Theorem 3.2).
    """
    best = float((second / (2 * (1 + np.exp(np.minimum(epsilon * first, 700.0))))).max())
    scales = np.unique(second[second > 0])
    scales = scales[:: max(scales.size // 40, 1)] * (1 - 1e-9)
    for x in range(first.shape[0]):
        order = np.argsort(first[x], kind="stable")
        for s in scales:
            net = order[separated_net(second[np.ix_(order, order)], float(s))]
            best = max(best, 0.5 * float(s) * (1 - 1 / float(np.exp(-epsilon * first[x][net]).sum())))
    return best


def _entropic_holds(first: FloatArray, second: FloatArray, epsilon: float, s: float, shrink: float) -> bool:
    for x in range(first.shape[0]):
        order = np.argsort(first[x], kind="stable")
        net = order[separated_net(second[np.ix_(order, order)], s * shrink)]
        # In the order of the distance from x, the first k points of a greedy packing are one of the ball they fill.
        if np.any(np.log(np.arange(1, net.size + 1)) > epsilon * first[x][net] * (1 + 1e-12)):
            return False
    return True


def _bisect(matrix: FloatArray, holds: Callable[[float], bool], shrink: float) -> tuple[float, float]:
    """Find neighbouring scales, 1e-6 diameters apart, at which the condition fails and holds."""
    diameter = float(matrix.max())
    low, high = 0.0, diameter / shrink
    if diameter == 0:
        return 0.0, 0.0
    while high - low > 1e-6 * diameter:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def _two_metrics(space: ArrayLike, accuracy: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    first = distance_matrix(space)
    second = first if accuracy is None else distance_matrix(accuracy)
    if first.shape != second.shape:
        raise ValueError(f"accuracy must have shape {first.shape}, got {second.shape}.")
    return first, second


def _check_positive(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive finite number, got {epsilon!r}.")
