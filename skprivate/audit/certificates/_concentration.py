"""From an empirical loss to a lower confidence bound on the best possible loss.

Let ``S`` be ±1 and ``p(t) = P(S = 1 | T = t)``, ``η = 2p − 1``. The best possible adversary under the squared
loss is η itself, under the log loss p itself; call its loss on one observation ``Z``, so that ``E Z = L`` is
the quantity to bound. η is one *fixed* function: no complexity of any class enters. If a class contains η,
the class's smallest empirical loss R satisfies ``R ≤ mean(Z)``, and an upper tail bound for ``mean(Z)`` gives
a lower bound for ``L``.

Every tail bound here has the form ``P(mean(Z) > u(L)) ≤ 1 − confidence`` with a *deterministic* function u;
the lower confidence bound is ``inf{l : u(l) ≥ R}``. For the same reason the smaller of two such functions is
again one, so taking the tighter of two bounds costs no failure probability.

With ``η = E[S | T]`` for S = ±1, ``L = 1 − E η²`` (squared loss) or ``L = H(S|T)`` (log loss, nats):

* The best accuracy is ``E[(1 + |η|)/2]``. By Jensen it is at most ``(1 + √(1 − L))/2``, and by concavity of
  the binary entropy at most ``1 − h_b^{-1}(L)`` for the log loss (Fano). Both hold for *every* prior, for the
  accuracy under that prior; with unequal priors they include what is won by always guessing the commoner
  value.
* The best advantage, true minus false positive rate, is the total variation distance between the two
  conditional laws of T; with ``v = Var S = 4 P(S=1) P(S=−1)`` it equals ``E|η − E S|/v``, hence is at most
  ``√(v − L)/v``. For prior ½ that is ``√(1 − L)``. It does not depend on the prior, so it is the figure to
  compare across priors.
* ``I(S; T) = H(S) − H(S|T)``, and ``h_b(p) ≥ 4p(1−p) ln 2`` gives ``H(S|T) ≥ L ln 2`` from the squared loss.
  With prior ½ the bound is ``(1 − L) ln 2``; the expression ``H(S) − L`` is right for the log loss only.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

LN2 = math.log(2.0)


def hoeffding_lower_bound(empirical_loss: float, n: int, confidence: float) -> float:
    """Lower bound on the minimum mean squared error by Hoeffding's inequality.

    The squared loss of η lies in [0, 4], hence ``L ≥ R − 4 √(ln(1/α) / (2n))`` with ``α = 1 − confidence``.
    """
    return max(0.0, empirical_loss - 4.0 * math.sqrt(-math.log1p(-confidence) / (2.0 * n)))


def bernstein_lower_bound(empirical_loss: float, n: int, confidence: float) -> float:
    """Lower bound on the minimum mean squared error by Bernstein's inequality with the implied variance.

    Given ``T``, ``Z`` is ``(1 − η)²`` with probability ``(1 + η)/2`` and ``(1 + η)²`` otherwise. With ``v = 1
    − η²``, ``E[Z | T] = v`` and ``E[Z² | T] = 4v − 3v²``, which is concave in v; by Jensen ``Var(Z) ≤ 4L −
    3L² − L² = 4L(1 − L)``. No variance has to be estimated (an empirical variance would be that of the
    unknown η). Bernstein: ``mean(Z) ≤ u(L) = L + 4x/3 + √((4x/3)² + 8 L(1 − L) x)``, ``x = ln(1/α)/n``. u is
    concave, so ``{l : u(l) ≥ R}`` is an interval; its left end is the smaller root of a quadratic.
    """
    x = -math.log1p(-confidence) / n
    c = 4.0 * x / 3.0
    gap = empirical_loss - c
    if gap <= c:  # u(0) = 2c already reaches R
        return 0.0
    # (gap − l)² = c² + 8x l(1 − l)
    a, half_b, const = 1.0 + 8.0 * x, gap + 4.0 * x, gap * gap - c * c
    root = math.sqrt(max(half_b * half_b - a * const, 0.0))
    return max(0.0, const / (half_b + root))


def squared_loss_lower_bound(empirical_loss: float, n: int, confidence: float, method: str = "auto") -> float:
    """Compute the requested bound on the minimum mean squared error; ``"auto"`` is the larger of the two."""
    bounds = {"hoeffding": hoeffding_lower_bound, "bernstein": bernstein_lower_bound}
    chosen = bounds.values() if method == "auto" else [bounds[method]]
    return max(bound(empirical_loss, n, confidence) for bound in chosen)


def binary_entropy(p: float) -> float:
    """Entropy of a Bernoulli(p) variable, in nats."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


def inverse_binary_entropy(entropy: float) -> float:
    """Find p in [0, 1/2] whose binary entropy (nats) is ``entropy``, rounded up by less than 1e-12."""
    if entropy <= 0.0:
        return 0.0
    if entropy >= LN2:
        return 0.5
    root = brentq(lambda p: binary_entropy(p) - entropy, 0.0, 0.5, xtol=1e-15)
    return float(min(0.5, root + 5e-13))


def _bernoulli_divergence(a: float, p: float) -> float:
    """Kullback–Leibler divergence of Bernoulli(a) from Bernoulli(p)."""
    first = a * math.log(a / p) if a > 0.0 else 0.0
    second = (1.0 - a) * math.log((1.0 - a) / (1.0 - p)) if a < 1.0 else 0.0
    return first + second


def chernoff_entropy_lower_bound(empirical_loss: float, n: int, confidence: float) -> float:
    """Lower bound on the conditional entropy H(S|T) (nats) from an empirical log loss.

    ``Z = −ln P(S | T)`` is unbounded, yet for 0 < λ < 1 ``E[e^{λZ} | T] = p^{1−λ} + (1−p)^{1−λ}`` is finite
    and a concave function of the binary entropy ``h(p)``: along ``u = ln((1−p)/p)`` its slope is
    ``(1−λ)(1+e^u)^λ (1−e^{−λu})/u``, whose logarithm has derivative ``λσ(u) + λ/(e^{λu}−1) − 1/u ≥ λ(σ(u) −
    1/2) ≥ 0``, while h falls in u. By Jensen the worst case with ``E h(p(T)) = L`` is a constant p with
    ``h(p) = L``, that is a binary symmetric channel, whose Z takes two values. Its Chernoff bound is
    ``P(mean(Z) ≥ R) ≤ exp(−n KL(β ‖ p))``, ``β = (R + ln(1−p)) / ln((1−p)/p)``; the optimal λ is below 1
    because R ≤ ln 2 means β ≤ 1/2. No bound on η and no alphabet size enters.
    """
    loss = min(empirical_loss, LN2)
    target = -math.log1p(-confidence) / n
    top = inverse_binary_entropy(loss)
    if top <= 0.0:
        return 0.0

    def excess(p: float) -> float:
        beta = min((loss + math.log1p(-p)) / math.log((1.0 - p) / p), 0.5)
        return _bernoulli_divergence(beta, p) - target

    # At p = top, beta = p and the divergence is 0; it grows as p falls. The smallest p that is not rejected:
    low, high = 1e-300, min(top, 0.5 - 1e-12)
    if excess(low) <= 0.0:
        return 0.0
    if excess(high) >= 0.0:  # only by rounding, for enormous n
        return binary_entropy(high)
    for _ in range(200):
        middle = math.sqrt(low * high) if high > 4.0 * low else 0.5 * (low + high)
        if not low < middle < high:
            break
        if excess(middle) > 0.0:
            low = middle
        else:
            high = middle
    return min(binary_entropy(low), loss)


def accuracy_upper_bound(loss_lower_bound: float, loss: str = "squared") -> float:
    """Largest accuracy of any attack, from a lower bound on the squared (S = ±1) or log loss."""
    if loss == "log":
        return 1.0 - inverse_binary_entropy(loss_lower_bound) + 1e-12
    return 0.5 * (1.0 + math.sqrt(max(0.0, 1.0 - min(loss_lower_bound, 1.0))))


def accuracy_among_several(mse_lower_bounds: list[float]) -> float:
    """Largest accuracy of guessing one of K values, from the squared losses L_k of each against the rest.

    With ``p_k = P(S = k | T)``, ``Σ p_k² = 1 − Σ (1 − η_k²)/4``, whose mean is ``1 − Σ L_k/4``. The largest of them, m,
    leaves 1 − m to the others: ``m² + (1 − m)²/(K − 1) ≤ Σ p_k²``, so ``m ≤ (1 + √((K − 1)(K Σ p_k² − 1)))/K``. That is
    concave in ``Σ p_k²``: by Jensen its mean is at most the value at the mean. For K = 2 it is `accuracy_upper_bound`.
    """
    k = len(mse_lower_bounds)
    excess = max(k * (1.0 - sum(mse_lower_bounds) / 4.0) - 1.0, 0.0)
    return min((1.0 + math.sqrt((k - 1.0) * excess)) / k, 1.0)


def mse_from_entropy(entropy_lower_bound: float) -> float:
    """Lower bound on the minimum mean squared error implied by one on H(S|T).

    ``h_b(p) ≤ (4p(1−p))^{1/ln 4} ln 2`` (Topsøe 2001), a concave function of ``4p(1−p)``, so by Jensen
    ``L ≥ (H(S|T)/ln 2)^{ln 4}``.
    """
    return float((max(entropy_lower_bound, 0.0) / LN2) ** math.log(4.0))


def advantage_upper_bound(mse_lower_bound: float, prior_low: float, prior_high: float) -> float:
    """Bound the true minus false positive rate of any attack, for every prior in an interval.

    That is ``max_v √(v − L)/v`` over the variances ``v = 4λ(1−λ)`` of the interval, which rises up to ``v = 2L`` and
    falls after it.
    """
    ends = [4.0 * p * (1.0 - p) for p in (prior_low, prior_high)]
    low, high = min(ends), (1.0 if prior_low <= 0.5 <= prior_high else max(ends))
    if high <= 0.0:
        return 1.0
    peak = float(np.clip(2.0 * mse_lower_bound, max(low, 1e-300), high))
    candidates = [v for v in (low, high, peak) if v > 0.0]
    return min(1.0, max(math.sqrt(max(0.0, v - mse_lower_bound)) / v for v in candidates))


def mutual_information_upper_bound(
    loss_lower_bound: float, prior_low: float, prior_high: float, loss: str = "squared"
) -> float:
    """Largest mutual information I(S; T) in nats, for every prior in an interval."""
    entropy = binary_entropy(min(max(0.5, prior_low), prior_high))  # largest over the interval
    remaining = loss_lower_bound if loss == "log" else loss_lower_bound * LN2
    return max(0.0, entropy - remaining)
