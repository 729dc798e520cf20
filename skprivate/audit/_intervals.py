"""Exact confidence intervals for the figures of an attack."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv
from scipy.stats import rankdata

Array = npt.NDArray[np.float64]


def clopper_pearson(successes: int, trials: int, confidence: float, *, side: str = "two-sided") -> tuple[float, float]:
    """Compute an exact interval for a binomial probability (Clopper and Pearson 1934), "two-sided", "lower" or "upper".

    One-sided intervals spend all of the failure probability on one end; the other end is 0 or 1.
    """
    alpha = 1.0 - confidence
    if side == "two-sided":
        alpha /= 2.0
    low = float(betaincinv(successes, trials - successes + 1, alpha)) if successes > 0 else 0.0
    high = float(betainccinv(successes + 1, trials - successes, alpha)) if successes < trials else 1.0
    if side == "lower":
        high = 1.0
    elif side == "upper":
        low = 0.0
    return low, high


def quantile_rate_interval(rank: int, n: int, confidence: float) -> tuple[float, float]:
    """Exact interval for ``P(score > threshold)`` when the threshold is itself an order statistic.

    With the threshold at the ``rank``-th largest of n independent scores (so that rank − 1 scores lie above
    it), the probability of exceeding it is Beta(rank, n − rank + 1) distributed for a continuous law; ties
    only lower it.
    """
    alpha = (1.0 - confidence) / 2.0
    return float(betaincinv(rank, n - rank + 1, alpha)), float(betainccinv(rank, n - rank + 1, alpha))


def roc_auc(scores: Array, membership: npt.NDArray[np.bool_]) -> float:
    """Area under the ROC curve, ties counted half."""
    ranks = rankdata(scores)
    n_in = int(membership.sum())
    n_out = membership.size - n_in
    return float((ranks[membership].sum() - n_in * (n_in + 1) / 2.0) / (n_in * n_out))


def auc_interval(auc: float, n_in: int, n_out: int, confidence: float) -> tuple[float, float]:
    """Distribution-free interval for the AUC: ``± √(ln(2/α) (n_in + n_out) / (2 n_in n_out))``.

    McDiarmid's inequality: one member's score moves the AUC by at most 1/n_in, one non-member's by 1/n_out
    (Agarwal et al. 2005). Valid for every sample size, wider than asymptotic intervals.
    """
    width = math.sqrt(math.log(2.0 / (1.0 - confidence)) * (n_in + n_out) / (2.0 * n_in * n_out))
    return max(0.0, auc - width), min(1.0, auc + width)
