"""Conversion between ρ-zCDP and (ε, δ), in one place only.

ρ-zCDP bounds the Rényi divergence of every order α > 1 by ρα. With λ = α − 1, proposition 12 of Canonne, Kamath and
Steinke (2020), "The discrete Gaussian for differential privacy", then gives

    ln δ = λ(ρ(1 + λ) − ε) + λ ln(λ/(1 + λ)) − ln(1 + λ),

for *any* λ > 0, solved for ε or ρ where those are asked for. The best λ is the root of an increasing convex function,
so a few steps of Newton find it, and a root that is slightly off costs tightness only, never validity.
"""

from __future__ import annotations

import math

from skprivate._messages import at_least, delta_number, number, positive

#: Relative rounding error granted to a sum of terms, each from a handful of float64 operations.
_ROUNDING = 2.0**-49
#: Smallest positive float: what a positive probability that underflows is rounded up to.
TINY = 5e-324


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Compute an ε for which ρ-zCDP implies (ε, δ)-DP, rounded up; ``inf`` at δ = 0.

    It is 0 where the total variation, at most √min(ρ/2, 1 − e^{−ρ}) by Pinsker and by Bretagnolle and Huber, is within
    δ.

    >>> round(epsilon_of_rho(0.02, 1e-6), 4)
    0.8999
    """
    at_least("rho", rho, 0)
    delta_number(delta)
    if rho <= _free_rho(delta):
        return 0.0
    if delta == 0 or rho == math.inf:
        return math.inf
    return max(_epsilon(rho, -math.log(delta))[0], 0.0)


def rho_of_epsilon(epsilon: float, delta: float) -> float:
    """Find the largest ρ with ``epsilon_of_rho(ρ, delta) <= epsilon``, in float64 too, up to rounding.

    >>> rho = rho_of_epsilon(1.0, 1e-6)
    >>> epsilon_of_rho(rho, 1e-6) <= 1.0 < epsilon_of_rho(1.0001 * rho, 1e-6)
    True
    """
    positive("epsilon", epsilon)
    number("delta", delta, "a number in (0, 1)", lambda value: 0 < value < 1)
    free, log_inverse = _free_rho(delta), -math.log(delta)
    # ρ + 2√(ρ ln(1/δ)) ≥ ε(ρ): its root lies left of ours, and Newton on a concave function stays there.
    rho = (epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))) ** 2
    for _ in range(60):
        value, order = _epsilon(rho, log_inverse)
        step = (epsilon - value) / order
        if not step > 1e-15 * rho:
            break
        rho += step
    back = 2.0**-52
    while _epsilon(rho, log_inverse)[0] > epsilon and rho > free:
        rho *= 1 - min(back, 0.5)
        back *= 2
    return max(rho, free)


def delta_of_rho(rho: float, epsilon: float) -> float:
    """Compute a δ for which ρ-zCDP implies (ε, δ)-DP, rounded up: at most 1 and, for ρ > 0, never 0."""
    if rho == 0:
        return 0.0
    half = rho / 2 if rho > 1e-300 else rho  # half of the least float is 0
    variation = math.sqrt(min(half, -math.expm1(-rho))) * (1 + _ROUNDING)
    if not rho < math.inf:
        return 1.0
    # ρ(1 + 2λ) − ln(1 + 1/λ) = ε at the minimum; the left side increases, so halve in ln λ.
    low, high = -700.0, 700.0
    for _ in range(50):
        middle = (low + high) / 2
        order = math.exp(middle)
        low, high = (middle, high) if rho + 2 * rho * order - math.log1p(math.exp(-middle)) < epsilon else (low, middle)
    order = math.exp(low)
    terms = (
        order * rho,
        order * order * rho,
        -order * epsilon,
        -order * math.log1p(math.exp(-low)),
        -math.log1p(order),
    )
    size = sum(map(abs, terms))
    if not size < math.inf:
        return min(1.0, variation)
    exponent = math.fsum(terms) + _ROUNDING * (1 + size)
    return min(1.0, variation, max(math.exp(min(exponent, 0.0)) * (1 + _ROUNDING), TINY))


def _free_rho(delta: float) -> float:
    """Compute ρ whose total variation is at most δ, so that it needs no ε."""
    square = delta * delta
    if square < 1e-300:  # it has lost digits, and must not be rounded up
        return 0.0
    return max(2 * square, -math.log1p(-square)) * (1 - _ROUNDING)


def _epsilon(rho: float, log_inverse: float) -> tuple[float, float]:
    """Compute the bound for ρ > 0 at ln(1/δ), rounded up, and the order at which it is taken."""
    # ρλ² + ln(1 + λ) = ln(1/δ) at the minimum. In ln λ the left side is convex, so Newton from above stays above.
    order = math.sqrt(log_inverse / rho)
    if log_inverse < 700:
        order = min(order, math.expm1(log_inverse))
    order = min(max(order, 1e-300), 1e300)
    for _ in range(50):
        square = rho * order * order
        excess = square + math.log1p(order) - log_inverse
        step = excess / (2 * square + order / (1 + order))
        order *= math.exp(-min(step, 300.0))
        if step < 1e-7:
            break
    linear, tail, lift = rho * (1 + order), log_inverse / order, math.log1p(order) / order
    drop = math.log1p(1 / order)
    value = linear + (tail - lift - drop) + _ROUNDING * (linear + tail + lift + drop)
    return value, 1 + order
