"""What guesses of labels prove about a release, if the law of the labels is known.

Let the labels y_1 … y_n be independent given the features, y_i with the law Q_i, and let the release o be
(ε, δ)-differentially private in each label. An adversary names a label g_i(o) of some rows. Given o and all labels
before the i-th, Bayes' rule gives the odds of ``y_i = g`` as at most e^ε q/(1 − q), q = Q_i(g), up to an event of
probability δ: on the outputs where the adversary says u, the part of P(o | y_i = u) that exceeds
e^ε P(o | y_i ≠ u) has a mass of at most δ, by the definition of differential privacy for the mixture of the other
labels. So the number of right guesses is, outside of an event of probability nδ, stochastically at most a sum of
independent coins with the probabilities p_i = e^ε q_i / (1 + (e^ε − 1) q_i). The guess of row i may look at the labels
before it: whoever orders the rows so that those that nobody guesses come first lets the adversary know them.

If only ``|ln P_i(y)/Q_i(y)| ≤ γ`` is known of the true law P_i, then P_i(g) ≤ min(e^γ q, 1 − e^{−γ}(1 − q)) takes
the place of q.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom

from skprivate.audit._epsilon import _largest_refuted

__all__ = ["allowed_accuracy", "label_epsilon_bound", "label_p_value", "reconstruction_limit"]

Array = npt.NDArray[np.float64]
#: Rounding errors of the transforms in a tail probability.
_ROUNDING = 1e-12


def allowed_accuracy(epsilon: float, prior: Array, law_error: float = 0.0) -> Array:
    """Largest probability of a right guess of a label whose own probability is ``prior``, for δ = 0."""
    q = np.minimum(math.exp(law_error) * prior, 1.0 - math.exp(-law_error) * (1.0 - prior))
    return np.asarray(q / (q + math.exp(-epsilon) * (1.0 - q)))


def reconstruction_limit(epsilon: float, delta: float, law: Array) -> Array:
    """Largest expected share of right guesses of each label under (ε, δ) and the laws ``law`` (n, k); attained.

    With a_u = P(guess u | u), differential privacy says ``a_v + e^{−ε} Σ_{u≠v} a_u ≤ 1``; of the vertices of this
    polytope that is randomised response among the j likeliest labels: the maximum over j of
    ``(q_(1) + … + q_(j)) e^ε / (e^ε + j − 1)``. δ adds at most itself.
    """
    mass = np.cumsum(-np.sort(-law, axis=1), axis=1)
    ranks = np.arange(law.shape[1])
    return np.asarray(np.minimum((mass / (1.0 + ranks * math.exp(-epsilon))).max(axis=1) + delta, 1.0))


def label_p_value(right: npt.NDArray[np.bool_], p: Array) -> float:
    """Probability that independent coins ``p`` give as many successes as ``right`` has."""
    count = int(right.sum())
    if count == 0:
        return 1.0
    if np.ptp(p) == 0.0:
        return float(binom.sf(count - 1, p.size, p[0]))
    return min(1.0, float(_sum_of_coins(p)[count:].sum()) + _ROUNDING)


def label_epsilon_bound(
    right: npt.NDArray[np.bool_],
    prior: Array,
    *,
    delta: float,
    confidence: float,
    law_error: float = 0.0,
    claim: float | None = None,
) -> float:
    """Lower confidence bound on ε from guesses of labels.

    Parameters
    ----------
    right : ndarray of bool, shape (n,)
        Which guesses are right, in an order that does not depend on this: the most confident first.
    prior : ndarray of shape (n,)
        Probability of the guessed label under its known law.
    delta : float
        δ of the claim. nδ of the failure probability goes to it.
    confidence : float
    law_error : float
        γ, largest difference between the logarithms of the assumed and the true probabilities.
    claim : float or None
        Test this ε only: the result is ``claim`` if it is refuted, else 0.

    Returns
    -------
    float
        0 if nothing is refuted. Prefixes of n, n/2, n/4, … guesses share the failure probability.
    """
    sizes: list[int] = []
    size = right.size
    while size >= 10 or not sizes:
        sizes.append(size)
        size //= 2
    alpha = (1.0 - confidence - right.size * delta) / len(sizes)
    if alpha <= _ROUNDING or right.size == 0:
        return 0.0

    def refuted(epsilon: float) -> bool:
        p = allowed_accuracy(epsilon, prior, law_error)
        return any(label_p_value(right[:size], p[:size]) < alpha for size in sizes)

    if claim is not None:
        return claim if refuted(claim) else 0.0
    return _largest_refuted(refuted)


def _sum_of_coins(p: Array) -> Array:
    """Law of the number of successes of independent coins: their polynomials multiplied in pairs."""
    count = 1 << max(p.size - 1, 0).bit_length()
    coins = np.zeros((count, 2))
    coins[:, 0] = 1.0
    coins[: p.size, 0], coins[: p.size, 1] = 1.0 - p, p
    while coins.shape[0] > 1:
        width = 2 * coins.shape[1] - 1
        length = next_fast_len(width, real=True)
        product = rfft(coins[0::2], length, axis=1) * rfft(coins[1::2], length, axis=1)
        coins = np.maximum(irfft(product, length, axis=1)[:, :width], 0.0)
    return np.asarray(coins[0, : p.size + 1])
