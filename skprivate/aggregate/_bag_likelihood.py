"""Likelihoods of a bag's label count under a logistic model of its rows.

Rows of a bag have probabilities p_j = σ(η_j); what is seen is c, the number of positive labels, or c plus noise.

* `mean_cross_entropy`: −c log p̄ − (m − c) log(1 − p̄) with the mean probability p̄, the usual bag-level log loss. It
  treats the count as binomial, the largest variance that the mean allows.
* `count_likelihood`: −log P(c) of the Poisson-binomial distribution of the count, by its recursion over the rows of a
  bag, with the gradient from the recursion run backwards. It is the individual log loss for bags of one row.
* `noisy_count_likelihood`: normal with mean Σp_j and variance Σp_j(1 − p_j) + noise; for noisy counts, and for exact
  counts of large bags with the variance 1/12 of rounding to integers.

Each returns the sum over bags and its gradient in the scores of the memberships.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from skprivate.aggregate._bag_sums import BagSums
from skprivate.aggregate._losses import FloatArray

_FLOOR = 1e-12
_SMALLEST_PROBABILITY = 1e-4


def mean_cross_entropy(
    bags: BagSums, scores: FloatArray, counts: FloatArray, trials: FloatArray
) -> tuple[float, FloatArray]:
    """Cross-entropy of the bag mean times the number of trials.

    Parameters
    ----------
    bags : BagSums
    scores : ndarray, shape (n_memberships,)
        η of every membership.
    counts : ndarray, shape (n_bags,)
        Positive labels, between 0 and ``trials``.
    trials : ndarray, shape (n_bags,)
        Bag sizes for counts; ones for bits.

    Returns
    -------
    value : float
    gradient : ndarray, shape (n_memberships,)
    """
    positive = expit(scores)
    mean = np.clip(bags.add(positive) / bags.sizes, _FLOOR, 1 - _FLOOR)
    missing = trials - counts
    value = -float(counts @ np.log(mean) + missing @ np.log1p(-mean))
    slope = (missing / (1 - mean) - counts / mean) / bags.sizes
    return value, slope[bags.bag_of_member] * positive * (1 - positive)


def count_likelihood(bags: BagSums, scores: FloatArray, counts: FloatArray) -> tuple[float, FloatArray]:
    """−log P(count), exactly.

    Parameters
    ----------
    bags, scores, counts
        As in `mean_cross_entropy`; counts must be integers in [0, m].
    """
    plain = expit(scores)
    # Clipped so that the product over a bag cannot underflow; beyond, the gradient still points inwards.
    positive = np.clip(plain, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
    longest = int(bags.sizes.max())
    # Short bags are padded with rows of probability 0, which change no count.
    padded = np.zeros((longest, bags.n_bags))
    position = np.arange(bags.members.size) - bags.starts[bags.bag_of_member]
    padded[position, bags.bag_of_member] = positive
    forward = np.zeros((longest + 1, longest + 2, bags.n_bags))
    forward[0, 0] = 1.0
    for j in range(longest):
        p = padded[j]
        np.multiply(forward[j], 1 - p, out=forward[j + 1])
        forward[j + 1, 1:] += forward[j, :-1] * p
    place = (counts.astype(np.int64), np.arange(bags.n_bags))
    likelihood = forward[longest][place]
    backward = np.zeros((longest + 2, bags.n_bags))
    backward[place] = 1.0
    slope = np.empty_like(padded)
    for j in range(longest - 1, -1, -1):
        p = padded[j]
        rise = backward[1:] - backward[:-1]
        slope[j] = np.einsum("sb,sb->b", forward[j, :-1], rise)
        backward[:-1] += p * rise
        backward[-1] *= 1 - p
    member_slope = slope[position, bags.bag_of_member] / likelihood[bags.bag_of_member]
    return -float(np.sum(np.log(likelihood))), -member_slope * positive * (1 - positive)


def noisy_count_likelihood(
    bags: BagSums, scores: FloatArray, counts: FloatArray, noise: float
) -> tuple[float, FloatArray]:
    """−log density of a noisy count under the normal approximation.

    Parameters
    ----------
    bags, scores, counts
        As in `mean_cross_entropy`; counts may be any number.
    noise : float
        Variance of the noise in each count.
    """
    positive = expit(scores)
    spread = positive * (1 - positive)
    residual = counts - bags.add(positive)
    total = np.maximum(bags.add(spread) + noise, _FLOOR)
    value = 0.5 * float(np.sum(np.log(total) + residual**2 / total))
    by_mean = -residual / total
    by_variance = 0.5 * (1 / total - (residual / total) ** 2)
    member = bags.bag_of_member
    return value, spread * (by_mean[member] + by_variance[member] * (1 - 2 * positive))
