"""Likelihoods of a bag's label count under a logistic model of its rows.

Rows of a bag have probabilities p_j = σ(η_j); what is seen is c, the number of positive labels, or c plus noise.

* `mean_cross_entropy`: −c log p̄ − (m − c) log(1 − p̄) with the mean probability p̄, the usual bag-level log loss. It
  treats the count as binomial, the largest variance that the mean allows.
* `count_likelihood`: −log P(c) of the Poisson-binomial distribution of the count, by its recursion over the rows of a
  bag, with the gradient from the recursion run backwards. It is the individual log loss for bags of one row.
* `noisy_count_likelihood`: normal with mean Σp_j and variance Σp_j(1 − p_j) + noise; for noisy counts, and for exact
  counts of large bags with the variance 1/12 of rounding to integers.

Each returns the value of every bag, and the gradient of their sum in the scores of the memberships. `CountLoss` is the
one that suits what was released.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from skprivate.aggregate._bag_sums import BagSums, IntArray
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate._random_bags import RandomBags

_FLOOR = 1e-12
_SMALLEST_PROBABILITY = 1e-4
#: Bags up to this size use the exact distribution of the count; the normal one is as good beyond and much cheaper.
_EXACT_SIZE = 64
#: Variance of rounding to whole numbers: counts with less noise than that are as good as exact.
_ROUNDING = 1 / 12


@dataclass(frozen=True, eq=False)
class CountLoss:
    """What one output's released aggregates say of scores.

    Parameters
    ----------
    kind : {"mean", "exact", "normal"}
        `mean_cross_entropy`, `count_likelihood` or `noisy_count_likelihood`.
    sums, trials : ndarray of shape (n_bags,)
        Positive labels, and of how many.
    noise : float
        Variance of the noise in each sum.
    """

    kind: Literal["mean", "exact", "normal"]
    sums: FloatArray
    trials: FloatArray
    noise: float

    @classmethod
    def of(cls, bags: RandomBags, k: int, *, of_mean: bool, tempered: bool) -> CountLoss:
        """For the aggregates of output ``k``.

        Parameters
        ----------
        bags : RandomBags
        k : int
        of_mean : bool
            Whether to take the cross-entropy of the bag mean for counts, too.
        tempered : bool
            Whether a noisy count says as much as fewer trials in that cross-entropy.
        """
        sums, trials, noise = bags.label_sums[:, k], bags.sizes.astype(np.float64), bags.noise_variance
        if bags.label_release == "bernoulli":
            return cls("mean", sums, np.ones(sums.size), noise)
        if of_mean or (noise == 0 and bags.sizes.max() == 1):
            sums = np.clip(sums, 0.0, trials)
            told = trials / (trials + 4.0 * noise) if tempered else np.ones(sums.size)
            return cls("mean", sums * told, trials * told, noise)
        # Next to no noise a normal density has peaks where counts are whole: theirs is that of rounding.
        if bags.sizes.max() <= _EXACT_SIZE and noise <= _ROUNDING:
            return cls("exact", np.clip(np.rint(sums), 0.0, trials), trials, _ROUNDING)
        return cls("normal", sums, trials, max(noise, _ROUNDING))

    def values(self, bags: BagSums, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value of every bag (n_bags,) and gradient (n_memberships,) of their sum."""
        if self.kind == "mean":
            return mean_cross_entropy(bags, scores, self.sums, self.trials)
        if self.kind == "exact":
            return count_likelihood(bags, scores, self.sums)
        return noisy_count_likelihood(bags, scores, self.sums, self.noise)

    def take(self, which: IntArray) -> CountLoss:
        """Of some bags."""
        return replace(self, sums=self.sums[which], trials=self.trials[which])

    def most(self, share: float) -> float:
        """By how much any scores can be likelier than that of a constant probability."""
        if self.kind == "mean":
            return binary_entropy(share) * float(self.trials.sum())
        told = share * (1 - share) * self.trials / self.noise
        return 0.5 * float(np.sum(told + np.log1p(told)))


def binary_entropy(share: float) -> float:
    """Of one label, in nats; ``share`` is neither 0 nor 1."""
    return float(-share * np.log(share) - (1 - share) * np.log1p(-share))


def mean_cross_entropy(
    bags: BagSums, scores: FloatArray, counts: FloatArray, trials: FloatArray
) -> tuple[FloatArray, FloatArray]:
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
    values : ndarray, shape (n_bags,)
    gradient : ndarray, shape (n_memberships,)
    """
    positive = expit(scores)
    mean = np.clip(bags.add(positive) / bags.sizes, _FLOOR, 1 - _FLOOR)
    missing = trials - counts
    values = -(counts * np.log(mean) + missing * np.log1p(-mean))
    slope = (missing / (1 - mean) - counts / mean) / bags.sizes
    return values, slope[bags.bag_of_member] * positive * (1 - positive)


def count_likelihood(bags: BagSums, scores: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
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
    return -np.log(likelihood), -member_slope * positive * (1 - positive)


def noisy_count_likelihood(
    bags: BagSums, scores: FloatArray, counts: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
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
    values = 0.5 * (np.log(total) + residual**2 / total)
    by_mean = -residual / total
    by_variance = 0.5 * (1 / total - (residual / total) ** 2)
    member = bags.bag_of_member
    return values, spread * (by_mean[member] + by_variance[member] * (1 - 2 * positive))
