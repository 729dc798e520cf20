"""Metric geometry of the trade-off between privacy and accuracy: Boedihardjo, Strohmer, Vershynin 2024.

Scales of a finite space, bounds on every mechanism, the mechanisms of Lemma 4.1, Theorem 5.1 and Theorem 6.3, and the
closed forms of Section 6 (arXiv:2405.00329). Two metrics on one space: ρ1 for privacy, ρ2 for accuracy, the same by
default. ε is per unit of ρ1. Closed forms are "up to constants" that depend on the dimension at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate import metric
from skprivate._messages import positive
from skprivate.privacy import PrivacyGuarantee, RandomStateLike, open_release

__all__ = [
    "Bracket",
    "LipschitzFunction",
    "accuracy_lower_bound",
    "boolean_cube_accuracy",
    "diametric_scale",
    "doubling_scale",
    "entropic_scale",
    "exponential_mechanism",
    "is_ultrametric",
    "lipschitz_functions_accuracy",
    "lipschitz_mechanism",
    "measures_accuracy",
    "norm_ball_accuracy",
    "outer_scale",
    "packing_number",
    "predicted_accuracy",
    "ultrametric_sequences_scale",
]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bracket:
    """Lower and upper bound of a number.

    Attributes
    ----------
    lower, upper : float
    """

    lower: float
    upper: float

    def __contains__(self, value: float) -> bool:
        slack = 1e-9 * max(abs(self.upper), 1e-300)
        return bool(self.lower - slack <= value <= self.upper + slack)


# Scales ------------------------------------------------------------------------------------------------------


def packing_number(space: ArrayLike, scale: float) -> Bracket:
    """Packing number N(Z, s): the largest set with pairwise distances above s (Definition 1.3).

    Parameters
    ----------
    space : array-like of shape (n, n)
        Distances.
    scale : float
        s.

    Returns
    -------
    Bracket
        Greedy maximal packings at s and s/2: the points of the first are an s-cover, so every 2s-separated set is no
        larger.

    See Also
    --------
    entropic_scale : Compares packing numbers of balls with their radii.
    """
    matrix = metric.distance_matrix(space)
    return Bracket(metric.separated_net(matrix, scale).size, metric.separated_net(matrix, scale / 2).size)


def entropic_scale(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> Bracket:
    """Entropic scale: the least s with N₂(B₁(x, r), s) ≤ e^{ε r} for all x and r > 0 (Definition 1.4).

    By Theorem 3.1 no ε-metrically private mechanism has a smaller expected error than a constant times this.

    Parameters
    ----------
    space : array-like of shape (n, n)
        Distances in ρ1.
    epsilon : float > 0
        Per unit of ρ1.
    accuracy : array-like of shape (n, n), optional
        Distances in ρ2, ρ1 by default.

    Returns
    -------
    Bracket
        The packing numbers inside are bracketed by greedy packings, which factor 2 in s separates.

    See Also
    --------
    predicted_accuracy : Brackets the best error with explicit constants.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.metric import entropic_scale
    >>> path = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    >>> 1.0 in entropic_scale(path, 1.0)
    True
    """
    first, second = _two_metrics(space, accuracy)
    positive("epsilon", epsilon)
    # If a greedy s-packing is too large, so is the packing number, at every smaller scale too.
    low = _bisect(second, lambda s: _entropic_holds(first, second, epsilon, s, 1.0), 1.0)[0]
    high = _bisect(second, lambda s: _entropic_holds(first, second, epsilon, s, 0.5), 0.5)[1]
    return Bracket(low, high)


def diametric_scale(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> float:
    """Diametric scale: the largest ρ2-diameter of a ρ1-ball of radius 1/ε (Definition 1.6), exactly.

    Parameters
    ----------
    space, epsilon, accuracy
        As in `entropic_scale`.

    Returns
    -------
    float

    See Also
    --------
    entropic_scale : Is the other part of Theorem 1.7.
    """
    first, second = _two_metrics(space, accuracy)
    positive("epsilon", epsilon)
    balls = first <= 1 / epsilon
    return max(float(second[np.ix_(ball, ball)].max()) for ball in balls)


def doubling_scale(space: ArrayLike, epsilon: float) -> Bracket:
    """Doubling scale: N(B(x, 2s), s) ≤ e^{2εs} for all x (Definition 2.8).

    Parameters
    ----------
    space, epsilon
        As in `entropic_scale`.

    Returns
    -------
    Bracket
        In a finite space the condition holds trivially below the least distance and is not monotone in s; this is of
        the largest of 400 scales, evenly spaced in logarithm, at which it fails.

    See Also
    --------
    outer_scale : Looks at the whole space.
    """
    matrix = metric.distance_matrix(space)
    positive("epsilon", epsilon)
    diameter = float(matrix.max())
    if diameter == 0:
        return Bracket(0.0, 0.0)
    scales = np.geomspace(2 * diameter, float(matrix[matrix > 0].min()) / 4, 400)

    def largest_failure(shrink: float) -> float:
        for s in scales:
            for ball in matrix <= 2 * s:
                size = metric.separated_net(matrix[np.ix_(ball, ball)], s * shrink).size
                if math.log(size) > 2 * epsilon * s:
                    return float(s)
        return 0.0

    return Bracket(largest_failure(1.0), largest_failure(0.5) * float(scales[0] / scales[1]))


def outer_scale(space: ArrayLike, epsilon: float) -> Bracket:
    """Outer scale: the least s with N(Z, s) ≤ e^{εs} (Definition 2.10).

    Parameters
    ----------
    space, epsilon
        As in `entropic_scale`.

    Returns
    -------
    Bracket

    See Also
    --------
    doubling_scale : Looks at balls of radius 2s.
    """
    matrix = metric.distance_matrix(space)
    positive("epsilon", epsilon)

    def holds(shrink: float) -> Callable[[float], bool]:
        return lambda s: math.log(metric.separated_net(matrix, s * shrink).size) <= epsilon * s * (1 + 1e-12)

    return Bracket(_bisect(matrix, holds(1.0), 1.0)[0], _bisect(matrix, holds(0.5), 0.5)[1])


def is_ultrametric(space: ArrayLike) -> bool:
    """Test d(x, z) ≤ max(d(x, y), d(y, z)) for all triples.

    Parameters
    ----------
    space : array-like of shape (n, n)

    Returns
    -------
    bool

    See Also
    --------
    exponential_mechanism : Has a relaxed form for ultrametrics.
    """
    matrix = np.asarray(space, dtype=np.float64)
    slack = 1e-9 * float(matrix.max(initial=0.0))
    return all(
        bool(np.all(matrix <= np.maximum(matrix[:, k][:, None], matrix[k][None, :]) + slack))
        for k in range(matrix.shape[0])
    )


# Bounds and mechanisms ---------------------------------------------------------------------------------------


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
    skprivate.MetricPrivatizer : Randomises rows of such a space.
    skprivate.metric.tree_distances : Makes the space of a taxonomy.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.metric import predicted_accuracy
    >>> best = predicted_accuracy(np.abs(np.subtract.outer(np.arange(9), np.arange(9))), 1.0)
    >>> round(best.lower, 2), round(best.upper, 2)
    (0.27, 0.84)
    """
    first, second = _two_metrics(space, accuracy)
    positive("epsilon", epsilon)
    trivial = float(second.max(axis=0).min())
    best = metric.worst_error(exponential_mechanism(first, epsilon, accuracy=second), second)
    return Bracket(accuracy_lower_bound(first, epsilon, accuracy=second), min(trivial, best))


def accuracy_lower_bound(space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None) -> float:
    """Bound the accuracy of every mechanism from below, by separated sets and by pairs (Theorems 3.1 and 3.2).

    Parameters
    ----------
    space, epsilon, accuracy
        As in `entropic_scale`.

    Returns
    -------
    float

    See Also
    --------
    predicted_accuracy : Adds a bound from above.

    Notes
    -----
    Let y_1, y_2, … be s-separated in ρ2 at ρ1-distances r_i from x, and the expected error at most A everywhere.
    The balls of radius s/2 around them are disjoint, M(y_i) is in the i-th one with probability ≥ 1 − 2A/s
    (Markov), hence M(x) with probability ≥ e^{−εr_i}(1 − 2A/s), and these add up to at most 1: A ≥ (s/2)(1 − 1/Σ
    e^{−εr_i}). For two states at distances r in ρ1 and s in ρ2 an output is ≥ s/2 away from one of them; balancing
    the two gives A ≥ (s/2)/(1 + e^{εr}).
    """
    first, second = _two_metrics(space, accuracy)
    positive("epsilon", epsilon)
    best = float((second / (2 * (1 + np.exp(np.minimum(epsilon * first, 700.0))))).max())
    scales = np.unique(second[second > 0])
    scales = scales[:: max(scales.size // 40, 1)] * (1 - 1e-9)
    for x in range(first.shape[0]):
        order = np.argsort(first[x], kind="stable")
        for s in scales:
            net = order[metric.separated_net(second[np.ix_(order, order)], float(s))]
            best = max(best, 0.5 * float(s) * (1 - 1 / float(np.exp(-epsilon * first[x][net]).sum())))
    return best


def exponential_mechanism(
    space: ArrayLike, epsilon: float, *, accuracy: ArrayLike | None = None, relaxed: bool = False
) -> FloatArray:
    """Exponential mechanism on a net (Lemma 4.1), or with relaxed distances (Theorem 5.1), as a matrix.

    Parameters
    ----------
    space, epsilon, accuracy
        As in `entropic_scale`.
    relaxed : bool, default=False
        ρ̃(x, y), the ρ1-distance from x to the ρ2-ball about y, in place of ρ1(x, y): for ultrametrics ρ2.

    Returns
    -------
    ndarray of shape (n, n)
        Row x is the law of the output. The net's scale and the exponent's factor are searched for the least worst
        error, not set to the lemma's constants.

    See Also
    --------
    skprivate.MetricPrivatizer : Draws from it.
    """
    first, second = _two_metrics(space, accuracy)
    positive("epsilon", epsilon)
    return metric.best_exponential_channel(first, epsilon, accuracy=second, relaxed=relaxed)


@dataclass(frozen=True, eq=False)
class LipschitzFunction:
    """Released 1-Lipschitz function on [0, 1]^d.

    Attributes
    ----------
    nodes : ndarray of shape (k, d)
        Centres of the cells of a grid.
    values : ndarray of shape (k,)
        Released values there.
    guarantee : PrivacyGuarantee
    """

    nodes: FloatArray
    values: FloatArray
    guarantee: PrivacyGuarantee

    def __call__(self, points: ArrayLike) -> FloatArray:
        """Evaluate the function half way between the least and the largest extension of the released values.

        Parameters
        ----------
        points : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        points = np.asarray(points, dtype=np.float64)
        distances = np.abs(points[:, None] - self.nodes[None]).max(axis=2)
        above, below = (self.values - distances).max(axis=1), (self.values + distances).min(axis=1)
        return np.asarray(0.5 * (above + below))


def lipschitz_mechanism(
    function: Callable[[FloatArray], ArrayLike],
    n_features: int,
    epsilon: float,
    *,
    random_state: RandomStateLike = None,
) -> LipschitzFunction:
    """Release a 1-Lipschitz function on [0, 1]^d with the exponent of Theorem 6.3.

    Parameters
    ----------
    function : callable
        From points of shape (k, d) to values of shape (k,); 1-Lipschitz in ℓ∞. It is private.
    n_features : int
        d.
    epsilon : float > 0
        Per unit of sup-norm distance between functions.
    random_state : int or None, default=None
        None: secure noise. An integer simulates noise that is not valid for release.

    Returns
    -------
    LipschitzFunction
        1-Lipschitz, whatever ``function`` is.

    See Also
    --------
    lipschitz_functions_accuracy : Gives the best error, up to constants.

    Notes
    -----
    *Guarantee.* ε-metrically private for the sup norm, for all functions. Values at the k centres of a grid of spacing
    h are a point of ℝᵏ, and move in ℓ∞ by at most the distance of two functions; they get K-norm noise, of ℓ∞
    norm k/ε on average. If all values are off by at most t and the function is 1-Lipschitz, both extensions are
    within t + h of it everywhere, and so is their middle. With h = (1/ε)^{1/(d+1)} both terms are of the order of the
    theorem. The paper's net of functions is exponentially large; this is not.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.metric import lipschitz_mechanism
    >>> released = lipschitz_mechanism(lambda x: np.abs(x[:, 0] - 0.3), 1, epsilon=1e4)
    >>> bool(np.abs(released([[0.3], [0.9]]) - [0.0, 0.6]).max() < 0.2)
    True
    """
    positive("epsilon", epsilon)
    per_axis = max(1, round(epsilon ** (1 / (n_features + 1))))
    axis = (np.arange(per_axis) + 0.5) / per_axis
    nodes = np.stack(np.meshgrid(*[axis] * n_features, indexing="ij"), axis=-1).reshape(-1, n_features)
    with open_release(
        epsilon=epsilon, unit="data set", adjacency="metric", metric="sup norm", random_state=random_state
    ) as release:
        values = release.k_norm(np.asarray(function(nodes))[None], norm="linf", epsilon=epsilon)[0]
    return LipschitzFunction(nodes, values, release.close())


# Closed forms of Section 6 -----------------------------------------------------------------------------------


def norm_ball_accuracy(n_features: int, epsilon: float) -> float:
    """Accuracy of the unit ball of a norm in d dimensions: min(1, d/ε) (Theorem 6.1).

    Parameters
    ----------
    n_features : int
        d.
    epsilon : float

    Returns
    -------
    float
        The K-norm mechanism has the expected error d/ε exactly before it projects to the ball.

    See Also
    --------
    measures_accuracy : Is about measures on a cube.
    """
    return min(1.0, n_features / epsilon)


def measures_accuracy(n_features: int, epsilon: float) -> float:
    """Accuracy of measures on [0, 1]^d with Wasserstein-1 over ℓ∞: min(1, ε^(−1/(d+1))) (Theorem 6.2).

    Parameters
    ----------
    n_features : int
        d.
    epsilon : float

    Returns
    -------
    float

    See Also
    --------
    skprivate.MetricPrivateSynthesizer : Attains it with ``metric="wasserstein"``.
    """
    return min(1.0, math.pow(epsilon, -1 / (n_features + 1)))


def lipschitz_functions_accuracy(n_features: int, epsilon: float) -> float:
    """Accuracy of 1-Lipschitz functions on [0, 1]^d with the sup norm: min(1, ε^(−1/(d+1))) (Theorem 6.3).

    Parameters
    ----------
    n_features : int
        d.
    epsilon : float

    Returns
    -------
    float

    See Also
    --------
    lipschitz_mechanism : Attains it.
    """
    return measures_accuracy(n_features, epsilon)


def boolean_cube_accuracy(n_bits: int, epsilon: float) -> float:
    """Hamming error of ε-private randomised response on {0, 1}^n: n/(1 + e^ε) (Section 6).

    Parameters
    ----------
    n_bits : int
        n.
    epsilon : float

    Returns
    -------
    float
        Each bit is flipped with probability 1/(1 + e^ε); that is exactly ε per unit of distance, and no mechanism has
        a smaller worst-case error, as every bit alone is a two-point space.

    See Also
    --------
    predicted_accuracy : Brackets the error of any finite space.
    """
    return n_bits * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def ultrametric_sequences_scale(a: Sequence[float], b: Sequence[float], epsilon: float) -> tuple[float, float]:
    """Entropic and diametric scale of bit sequences with two ultrametrics, equations (6.2) and (6.3).

    Parameters
    ----------
    a, b : sequence of float
        Sequences that first differ in place k are at ρ1-distance a_k and at ρ2-distance b_k; both decrease.
    epsilon : float

    Returns
    -------
    entropic, diametric : float
        By Theorem 1.7 the best accuracy is their sum, up to constants.

    See Also
    --------
    exponential_mechanism : Attains it with ``relaxed=True``.

    Notes
    -----
    A ball of radius r holds the sequences that agree before the first k with a_k ≤ r; its s-packing number is
    2^(m−k), m being the first place with b_m ≤ s. So the condition on s is (m − k) ln 2 ≤ ε a_k for all k < m.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n = first.size
    entropic = 0.0
    # The largest m allowed gives the smallest s = b_m; m = n separates all sequences (s = 0).
    for m in range(n, -1, -1):
        if all((m - k) * math.log(2) <= epsilon * first[k] for k in range(m)):
            entropic = 0.0 if m == n else float(second[m])
            break
    inside = np.flatnonzero(first <= 1 / epsilon)
    return entropic, float(second[inside[0]]) if inside.size else 0.0


def _entropic_holds(first: FloatArray, second: FloatArray, epsilon: float, s: float, shrink: float) -> bool:
    for x in range(first.shape[0]):
        order = np.argsort(first[x], kind="stable")
        net = order[metric.separated_net(second[np.ix_(order, order)], s * shrink)]
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
    first = metric.distance_matrix(space)
    second = first if accuracy is None else metric.distance_matrix(accuracy)
    if first.shape != second.shape:
        raise ValueError(f"accuracy must have shape {first.shape}, got {second.shape}.")
    return first, second
