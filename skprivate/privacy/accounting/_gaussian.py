"""The exact privacy curve of the Gaussian mechanism, without cancellation.

δ(ε) of N(0, 1) against N(μ, 1) is Φ(−a) − e^ε Φ(−b) with a = ε/μ − μ/2 and b = ε/μ + μ/2 (Balle and Wang 2018,
theorem 8). As e^ε φ(b) = φ(a), it is φ(a)(R(a) − R(b)) with Mills' ratio R(x) = Φ(−x)/φ(x). Where μ is small the two
ratios agree in most digits; there R(a) − R(b) = ∫ₐᵇ (1 − xR(x)) dx, whose integrand is positive and smooth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from skprivate.privacy._contributions import FloatArray
from skprivate.privacy.accounting._zcdp import rho_of_epsilon

#: Below this μ the difference is integrated; four nodes leave an error of order μ⁸.
_SMALL = 0.01
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_ULP = 2.0**-50
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Compute δ(ε) of the Gaussian mechanism with ℓ2 sensitivity / σ = μ > 0, rounded up; in (0, 1]."""
    value = math.exp(float(log_gaussian_delta(mu, np.array([epsilon]))[0]))
    return min(math.nextafter(value, math.inf), 1.0)  # subnormal numbers have fewer digits


def log_gaussian_delta(mu: float, epsilon: ArrayLike) -> FloatArray:
    """Compute ln δ(ε) for an array of ε of either sign, rounded up by more than the float64 error; at most 0."""
    epsilon = np.asarray(epsilon, dtype=np.float64)
    positive = np.abs(epsilon)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        centre = np.minimum(positive / mu, 1e150)
        a = centre - mu / 2
        near = np.maximum(a, 0.0)  # the Mills ratio is used right of 0 only
        if mu < _SMALL:
            nodes = centre[..., np.newaxis] + mu / 2 * _NODES
            difference = mu / 2 * ((1 - nodes * _mills(nodes)) @ _WEIGHTS)
            # 1 − xR(x) is 1/x² to first order: beyond this, where δ has long underflowed, an upper bound does.
            difference = np.where(a > 1e3, mu / np.square(near), difference)
            error = _ULP * (32 + 8 * np.square(a) + near * centre)
            logs = -np.square(a) / 2 - _LOG_ROOT + np.log(difference)
        else:
            b = centre + mu / 2
            ratio, density = _mills(near), -np.square(a) / 2 - _LOG_ROOT
            # Where the ratios of a long tail agree to all digits, Φ(−a) alone is a bound.
            logs = density + np.log(ratio - np.where(near > 1e3, 0.0, _mills(b)))
            if (a <= 0).any():
                logs = np.where(a <= 0, np.log(ndtr(-a) - np.exp(density) * _mills(b)), logs)
            error = _ULP * (32 + np.square(near) + near * (centre + mu) + (near + 1) / min(mu, 1.0))
        logs = logs + error
        if (epsilon < 0).any():
            # δ(−ε) = 1 − e^{−ε} + e^{−ε} δ(ε), by the symmetry of the pair.
            mirrored = np.log(-np.expm1(-positive) + np.exp(logs - positive))
            logs = np.where(epsilon < 0, mirrored + _ULP * (4 + np.abs(mirrored)), logs)
        return np.asarray(np.minimum(logs, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Find the smallest ε with `gaussian_delta` at most δ > 0."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # δ(ε) ≤ Φ(−a) ≤ e^{−a²/2}/2 for a ≥ 0.
    tail = math.sqrt(2 * max(-math.log(2 * delta), 0.0))
    upper = (mu * mu / 2 + mu * tail) * (1 + 1e-9)
    if not upper < math.inf:
        return math.inf
    goal = math.log(delta)

    def excess(epsilon: float) -> float:
        return max(float(log_gaussian_delta(mu, np.array([epsilon]))[0]), -1e9) - goal

    while excess(upper) > 0:
        upper *= 1 + 1e-6
    epsilon = float(brentq(excess, 0.0, upper, xtol=1e-15 * mu, rtol=1e-14))
    step = 1e-15
    while gaussian_delta(mu, epsilon) > delta:
        epsilon += step * (epsilon + mu)
        step *= 2
    return epsilon


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Find the largest μ whose `gaussian_delta` at ε is at most δ."""
    # The Gaussian is μ²/2-zCDP, so this one is within the budget.
    lower = math.sqrt(2 * rho_of_epsilon(epsilon, delta))
    while gaussian_delta(lower, epsilon) > delta:
        lower *= 0.999
    upper = 2 * lower
    while gaussian_delta(upper, epsilon) <= delta:
        lower, upper = upper, 2 * upper
    goal = math.log(delta)

    def excess(mu: float) -> float:
        return float(log_gaussian_delta(mu, np.array([epsilon]))[0]) - goal

    mu = float(brentq(excess, lower, upper, xtol=1e-300, rtol=1e-14)) if excess(lower) < 0 else lower
    step = 1e-15
    while gaussian_delta(mu, epsilon) > delta:
        mu *= 1 - step
        step = min(2 * step, 0.5)
    return mu


def _mills(x: FloatArray) -> FloatArray:
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
