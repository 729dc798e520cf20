"""What a lower bound on the best loss means for an attacker.

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

from skprivate.audit._concentration import LN2, binary_entropy, inverse_binary_entropy

__all__ = [
    "accuracy_upper_bound",
    "advantage_upper_bound",
    "mse_from_entropy",
    "mutual_information_upper_bound",
]


def accuracy_upper_bound(loss_lower_bound: float, loss: str = "squared") -> float:
    """Largest accuracy of any attack, from a lower bound on the squared (S = ±1) or log loss."""
    if loss == "log":
        return 1.0 - inverse_binary_entropy(loss_lower_bound) + 1e-12
    return 0.5 * (1.0 + math.sqrt(max(0.0, 1.0 - min(loss_lower_bound, 1.0))))


def mse_from_entropy(entropy_lower_bound: float) -> float:
    """Lower bound on the minimum mean squared error implied by one on H(S|T).

    ``h_b(p) ≤ (4p(1−p))^{1/ln 4} ln 2`` (Topsøe 2001), a concave function of ``4p(1−p)``, so by Jensen
    ``L ≥ (H(S|T)/ln 2)^{ln 4}``.
    """
    return float((max(entropy_lower_bound, 0.0) / LN2) ** math.log(4.0))


def advantage_upper_bound(mse_lower_bound: float, prior_low: float, prior_high: float) -> float:
    """Largest true minus false positive rate of any attack, for every prior in an interval.

    Parameters
    ----------
    mse_lower_bound : float
        Lower bound L on the minimum mean squared error of S = ±1.
    prior_low, prior_high : float
        Interval that holds P(S = 1).

    Returns
    -------
    float
        ``max_v √(v − L)/v`` over the variances ``v = 4λ(1−λ)`` of the interval, at most 1. The function rises
        up to ``v = 2L`` and falls after it.
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
