"""What one run can show: tests of ε on the number of guesses that were right.

``one-run``
    m records, each put into one training run by a coin; the attacker names the membership of some of them. Steinke,
    Nasr and Jagielski (2023): with W* ~ Binomial(r, e^ε/(1 + e^ε)), ``P(correct ≥ v) ≤ P(W* ≥ v) + 2 m δ max_i
    P(v > W* ≥ v − i)/i``.
``one-run-fdp``
    The same game under a trade-off curve f (Mahloujifar, Melis and Chaudhuri 2024). For record j let the
    other guesses contain at least c − 1 correct ones. Conditionally on the other coins the outputs under the
    two values of coin j are f-indistinguishable, so ``P(j correct, …) ≤ F(P(j wrong, …))``, ``F(x) = 1 −
    f(x)``. Averaging over j (F is concave) with ``p_i = P(i correct)``: ``Σ_{i ≥ c} (i/m) p_i ≤ F(Σ_{i ≥ c−1}
    ((r − i)/m) p_i)``. Whether ``P(correct ≥ v) = τ`` is possible at all is decided by building the p_i
    downwards from v with as little mass as the constraints allow; mass in excess can always be moved one step
    down, which relaxes every later constraint, so this construction is optimal.

**Coins of probability p.** Given the output and the other coins, the odds of coin j are p/(1 − p) times a ratio of
probabilities of at most e^ε. Under pure ε-DP the name "member" is right with probability at most q₊ = σ(ε + ln(p/(1 −
p))), and "non-member" with at most q₋ = σ(ε − ln(p/(1 − p))), whatever was guessed before. With r₊ and r₋ names of
each kind, fixed beforehand, the number of right ones is dominated by Binomial(r₊, q₊) + Binomial(r₋, q₋). Under δ or a
curve, records of the likelier kind are dropped with probability 1 − min(p, 1 − p)/max(p, 1 − p), by coins of the
auditor: given which are left, and the membership of the others, those left are fair coins, and all of the above holds.

The guesses may depend on the scores in any way, but not on the membership; the *number* of guesses must be fixed
beforehand, be chosen on other data, or be paid for by a union bound. Ties are broken by lot.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_MAX_EPSILON = 50.0


def _unfair_p_value(epsilon: float, coin: float, guesses: tuple[int, int], correct: int) -> float:
    """Largest probability of ``correct`` or more right guesses under pure ε-DP, by coins of probability ``coin``."""
    logit = math.log(coin / (1.0 - coin))
    first = np.arange(guesses[0] + 1)
    chances = binom.pmf(first, guesses[0], expit(epsilon + logit))
    # P(first + second ≥ correct), summed over the first: all terms are positive.
    tails = binom.sf(correct - 1 - first, guesses[1], expit(epsilon - logit))
    return min(1.0, float(np.sum(chances * tails)))


def _fair_part(member: Mask, coin: float, rng: np.random.Generator) -> Mask:
    """Which records to keep so that those left are fair coins."""
    likely = member if coin > 0.5 else ~member
    keep = min(coin, 1.0 - coin) / max(coin, 1.0 - coin)
    return ~likely | (rng.random(member.size) < keep)


def _one_run_p_value(epsilon: float, delta: float, m: int, guesses: int, correct: int) -> float:
    """Largest probability of ``correct`` or more right guesses under (ε, δ)-DP."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, q))
    if delta == 0.0 or correct == 0:
        return min(tail, 1.0)
    i = np.arange(1, correct + 1)
    extra = float(((binom.sf(correct - i - 1, guesses, q) - tail) / i).max())
    return min(1.0, tail + 2.0 * m * delta * max(extra, 0.0))


def _gaussian_parameter(epsilon: float, delta: float) -> float:
    """The μ of the Gaussian trade-off curve that is exactly (ε, δ)-DP."""

    def excess(mu: float) -> float:
        tail = math.exp(min(epsilon, 700.0)) * float(ndtr(-epsilon / mu - mu / 2.0))
        return float(ndtr(-epsilon / mu + mu / 2.0)) - tail - delta

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(brentq(excess, 1e-9, high, xtol=1e-12))


def _inverse_blow_up(epsilon: float, delta: float, trade_off: str) -> Callable[[float], float]:
    """``F^{-1}``: the smallest probability of the wrong event that allows probability y of the right one."""
    if trade_off == "gaussian":
        mu = _gaussian_parameter(epsilon, delta)
        return lambda y: float(ndtr(ndtri(min(y, 1.0)) - mu)) if y > 0.0 else 0.0
    grow = math.exp(epsilon)
    return lambda y: max(0.0, (y - delta) / grow, 1.0 - delta - grow * (1.0 - min(y, 1.0)))


def _fdp_is_refuted(
    epsilon: float, delta: float, trade_off: str, m: int, guesses: int, correct: int, alpha: float
) -> bool:
    """Whether ``P(correct guesses ≥ correct) ≥ alpha`` is impossible under the trade-off curve."""
    inverse = _inverse_blow_up(epsilon, delta, trade_off)
    right, wrong = alpha * correct / m, alpha * (guesses - correct) / m
    total = guesses / m
    for i in range(correct - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:
            return False  # nothing forces further mass: feasible
        right += (needed - wrong) * i / (guesses - i)
        wrong = needed
        if right + wrong > total:
            return True
    return right + wrong > total


def _largest_refuted(refuted: Callable[[float], bool]) -> float:
    """Largest ε that is refuted, by bisection from below; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MAX_EPSILON and refuted(high):
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low
