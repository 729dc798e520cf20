"""Counts whose keys are private: what noise on each costs, and the threshold that hides the keys of few units.

The proof is in docs/theory/noise.md; `Draws.threshold_counts` draws.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from scipy.stats import norm

from skprivate.privacy import _contributions
from skprivate.privacy._contributions import IntegerLattice
from skprivate.privacy._events import ApproximateEvent, GaussianEvent, PrivacyEvent, PureEvent

CountNoise = Literal["gaussian", "laplace"]
#: Relative margin for the rounding of tails in float64.
_MARGIN = 1e-9
#: What float64 may round to 0.
_LEAST = 5e-324


def count_events_of(
    noise: CountNoise, level: float, *, size: int, threshold_delta: float | None
) -> dict[PrivacyEvent, int]:
    """List what a draw of counts costs: noise of ``size`` numbers, and the threshold, if there is one."""
    spent: PrivacyEvent = GaussianEvent(level, size) if noise == "gaussian" else PureEvent(level, "Laplace")
    if threshold_delta is None:
        return {spent: 1}
    return {spent: 1, ApproximateEvent(0.0, threshold_delta, "threshold"): 1}


def count_lattice(noise: CountNoise, sensitivity: float, level: float, size: int) -> IntegerLattice:
    """Compute the lattice of the noise; ``level`` is a noise multiplier, or ε."""
    make = _contributions.integer_gaussian_lattice if noise == "gaussian" else _contributions.integer_laplace_lattice
    return make(sensitivity, level, size)


def tail(noise: CountNoise, lattice: IntegerLattice, distance: Fraction) -> float:
    """Bound the probability from above that noise is at least ``distance`` steps."""
    points = math.ceil(distance * Fraction(2) ** lattice.shift)
    if points <= 0:
        return 1.0
    scale = float(lattice.scale)
    if noise == "gaussian":
        # The law at k is at most 1/(1 − 1/(8σ²)) times the normal one rounded to k, and σ is over 2³².
        return min(1.0, float(norm.sf(points / scale / (1 + _MARGIN))) * (1 + _MARGIN) + _LEAST)
    # P(Z ≥ m) = q^m/(1 + q) of the discrete Laplace law with q = e^(−1/scale).
    return math.exp(-points / scale / (1 + _MARGIN)) / (1.0 + math.exp(-1.0 / scale)) * (1 + _MARGIN) + _LEAST


def count_threshold(noise: CountNoise, lattice: IntegerLattice, *, own: int, most_keys: int, delta: float) -> int:
    """Find the least threshold, in steps, that keys of one unit pass with probability ``delta`` at most in all.

    The unit has up to ``most_keys`` keys alone, with a count of up to ``own`` steps in each.
    """
    of_one_key = -math.expm1(math.log1p(-delta) / most_keys) * (1 - _MARGIN)
    if of_one_key < 2.0**-1000:
        raise ValueError(f"delta must be larger for a threshold, got {delta!r}.")
    low, high = own, own + 1
    while tail(noise, lattice, Fraction(high - own)) > of_one_key:
        low, high = high, own + 2 * (high - own)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(noise, lattice, Fraction(middle - own)) <= of_one_key else (middle, high)
    return high
