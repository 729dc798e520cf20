"""Accuracy of metric privacy in closed form, up to constants: the examples of section 6.

"Up to constants" means: the best accuracy lies between c and C times the value, with constants that depend on the
dimension at most. `skprivate.metric.predicted_accuracy` gives brackets without unknown constants for finite spaces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def norm_ball_accuracy(n_features: int, epsilon: float) -> float:
    """Unit ball of a norm in d dimensions: min(1, d/ε) (Theorem 6.1).

    The K-norm mechanism has the expected error d/ε exactly before it projects to the ball.

    Parameters
    ----------
    n_features : int
    epsilon : float

    Returns
    -------
    float
    """
    _check(n_features, epsilon)
    return min(1.0, n_features / epsilon)


def measures_accuracy(n_features: int, epsilon: float) -> float:
    """Probability measures on [0, 1]^d with Wasserstein-1 over ℓ∞: min(1, ε^(−1/(d+1))) (Theorem 6.2).

    Parameters
    ----------
    n_features : int
    epsilon : float

    Returns
    -------
    float
    """
    _check(n_features, epsilon)
    return min(1.0, math.pow(epsilon, -1 / (n_features + 1)))


def lipschitz_functions_accuracy(n_features: int, epsilon: float) -> float:
    """1-Lipschitz functions on [0, 1]^d with the sup norm: min(1, ε^(−1/(d+1))) (Theorem 6.3).

    Parameters
    ----------
    n_features : int
    epsilon : float

    Returns
    -------
    float
    """
    return measures_accuracy(n_features, epsilon)


def boolean_cube_accuracy(n_bits: int, epsilon: float) -> float:
    """Expected Hamming error of ε-private randomised response on {0, 1}^n: n/(1 + e^ε).

    Hamming metric for privacy and accuracy. Each bit is flipped with probability 1/(1 + e^ε); that is exactly ε
    per unit of distance, and no mechanism has a smaller worst-case error (every bit alone is a two-point space).

    Parameters
    ----------
    n_bits : int
    epsilon : float

    Returns
    -------
    float
    """
    _check(n_bits, epsilon)
    return n_bits * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def ultrametric_sequences_scale(
    a: Sequence[float], b: Sequence[float], epsilon: float
) -> tuple[float, float]:
    """Entropic and diametric scale of bit sequences with two ultrametrics (equations 6.2 and 6.3).

    Sequences that first differ in place k are at ρ1-distance a_k and at ρ2-distance b_k. A ball of radius r holds the
    sequences that agree before the first k with a_k ≤ r; its s-packing number is 2^(m−k), m being the first place
    with b_m ≤ s. So the condition on s is (m − k) ln 2 ≤ ε a_k for all k < m.

    Parameters
    ----------
    a, b : sequences of the same length
        Strictly decreasing and positive.
    epsilon : float

    Returns
    -------
    entropic, diametric : float
        By Theorem 1.7 the best accuracy is their sum, up to constants.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    for name, values in (("a", first), ("b", second)):
        if values.ndim != 1 or values.size == 0 or not np.all(values > 0) or np.any(np.diff(values) >= 0):
            raise ValueError(f"{name} must be a strictly decreasing sequence of positive numbers.")
    if first.size != second.size:
        raise ValueError(f"a and b must have the same length, got {first.size} and {second.size}.")
    _check(1, epsilon)
    n = first.size
    entropic = 0.0
    # The largest m allowed gives the smallest s = b_m; m = n separates all sequences (s = 0).
    for m in range(n, -1, -1):
        if all((m - k) * math.log(2) <= epsilon * first[k] for k in range(m)):
            entropic = 0.0 if m == n else float(second[m])
            break
    inside = np.flatnonzero(first <= 1 / epsilon)
    return entropic, float(second[inside[0]]) if inside.size else 0.0


def _check(n_features: int, epsilon: float) -> None:
    if n_features < 1:
        raise ValueError(f"the dimension must be at least 1, got {n_features!r}.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive finite number, got {epsilon!r}.")
