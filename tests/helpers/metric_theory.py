"""Packing numbers, the other scales of the paper, and its closed forms, for the tests of what is in the package.

Section and theorem numbers are those of Boedihardjo, Strohmer and Vershynin (arXiv:2405.00329). Closed forms are
"up to constants": the best accuracy lies between c and C times the value, with constants that depend on the dimension
at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from skprivate.metric.net._scales import Bracket, _bisect
from skprivate.metric.net._spaces import distance_matrix, separated_net

FloatArray = NDArray[np.float64]


def is_ultrametric(matrix: FloatArray) -> bool:
    """Test d(x, z) ≤ max(d(x, y), d(y, z)) for all triples."""
    slack = 1e-9 * float(matrix.max(initial=0.0))
    return all(
        bool(np.all(matrix <= np.maximum(matrix[:, k][:, None], matrix[k][None, :]) + slack))
        for k in range(matrix.shape[0])
    )


def packing_number(space: FloatArray, scale: float) -> Bracket:
    """Bracket of the packing number N(Z, s): the largest set with pairwise distances > s.

    A greedy maximal packing has at most N(Z, s) points; its points are an s-cover, so every 2s-separated set is no
    larger. Hence greedy(s) ≤ N(s) ≤ greedy(s/2).
    """
    matrix = distance_matrix(space)
    return Bracket(separated_net(matrix, scale).size, separated_net(matrix, scale / 2).size)


def doubling_scale(space: FloatArray, epsilon: float) -> Bracket:
    """Bracket of the doubling scale: N(B(x, 2s), s) ≤ e^{2εs} for all x (Definition 2.8).

    In a finite space the condition holds trivially below the least distance and is not monotone in s; what is
    bracketed is the largest of 400 scales, evenly spaced in logarithm, at which it fails.
    """
    matrix = distance_matrix(space)
    diameter = float(matrix.max())
    if diameter == 0:
        return Bracket(0.0, 0.0)
    scales = np.geomspace(2 * diameter, float(matrix[matrix > 0].min()) / 4, 400)

    def largest_failure(shrink: float) -> float:
        for s in scales:
            for ball in matrix <= 2 * s:
                size = separated_net(matrix[np.ix_(ball, ball)], s * shrink).size
                if math.log(size) > 2 * epsilon * s:
                    return float(s)
        return 0.0

    return Bracket(largest_failure(1.0), largest_failure(0.5) * float(scales[0] / scales[1]))


def outer_scale(space: FloatArray, epsilon: float) -> Bracket:
    """Bracket of the outer scale: the least s with N(Z, s) ≤ e^{εs} (Definition 2.10)."""
    matrix = distance_matrix(space)

    def holds(shrink: float) -> Callable[[float], bool]:
        return lambda s: math.log(separated_net(matrix, s * shrink).size) <= epsilon * s * (1 + 1e-12)

    return Bracket(_bisect(matrix, holds(1.0), 1.0)[0], _bisect(matrix, holds(0.5), 0.5)[1])


def norm_ball_accuracy(n_features: int, epsilon: float) -> float:
    """Unit ball of a norm in d dimensions: min(1, d/ε) (Theorem 6.1).

    The K-norm mechanism has the expected error d/ε exactly before it projects to the ball.
    """
    return min(1.0, n_features / epsilon)


def measures_accuracy(n_features: int, epsilon: float) -> float:
    """Probability measures on [0, 1]^d with Wasserstein-1 over ℓ∞: min(1, ε^(−1/(d+1))) (Theorem 6.2)."""
    return min(1.0, math.pow(epsilon, -1 / (n_features + 1)))


def lipschitz_functions_accuracy(n_features: int, epsilon: float) -> float:
    """1-Lipschitz functions on [0, 1]^d with the sup norm: min(1, ε^(−1/(d+1))) (Theorem 6.3)."""
    return measures_accuracy(n_features, epsilon)


def boolean_cube_accuracy(n_bits: int, epsilon: float) -> float:
    """Expected Hamming error of ε-private randomised response on {0, 1}^n: n/(1 + e^ε).

    Hamming metric for privacy and accuracy. Each bit is flipped with probability 1/(1 + e^ε); that is exactly ε
    per unit of distance, and no mechanism has a smaller worst-case error (every bit alone is a two-point space).
    """
    return n_bits * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def ultrametric_sequences_scale(
    a: Sequence[float], b: Sequence[float], epsilon: float
) -> tuple[float, float]:
    """Entropic and diametric scale of bit sequences with two ultrametrics (equations 6.2 and 6.3).

    By Theorem 1.7 the best accuracy is their sum, up to constants.

    Sequences that first differ in place k are at ρ1-distance a_k and at ρ2-distance b_k. A ball of radius r holds the
    sequences that agree before the first k with a_k ≤ r; its s-packing number is 2^(m−k), m being the first place
    with b_m ≤ s. So the condition on s is (m − k) ln 2 ≤ ε a_k for all k < m.
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
