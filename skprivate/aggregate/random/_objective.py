"""What scores of rows lose by the released aggregates of random bags: any model can descend on it.

Every loss is worth as many observations as there are bags, so that a penalty means the same for all of them: a bag
tells as much as one row, less what the noise of its sum hides.

Let u and v be numbers of rows, and P the mean of u·v over all ordered pairs of different rows, R that over rows
with themselves. Rows are put into the places of the bags at random. A product of two bag means, weighted by the
bags' sizes and averaged, has the mean νR + (1 − ν)P, with ν = bags/memberships: that share of the pairs of
places which it averages is of one row. The product of the two means over all bags has ρR + (1 − ρ)P, ρ = Σ
(bags of a row)²/memberships². Hence

    R = E[A + κV],   A = Σ w ū v̄,   V = Σ w (ū − mean)(v̄ − mean),   κ = (1 − ν)/(ν − ρ),

exactly, for bags that share rows or do not, of any sizes, and for some of the bags as for all of them. With u =
v = h − y that is the debiased square loss (for equal bags Theorem 2's, with the bias of ‖r̄‖² taken out); with
u = y and v the slope of a loss ℓ(y, f) = a(f) + y·d(f) in the label it is EasyLLP with both factors centred,
which changes nothing on average and leaves much less noise in a batch of few bags (Busa-Fekete and others,
2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.random._bags import RandomBags
from skprivate.aggregate.random._fit import CountLoss, binary_entropy
from skprivate.aggregate.random._quadratic import mean_label
from skprivate.aggregate.random._sums import BagSums, IntArray


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Mean products of rows, from bag means: each bag's share of all memberships, and κ (0 where bags do not tell)."""

    weight: FloatArray
    excess: float

    @classmethod
    def of(cls, bags: BagSums) -> RowProducts:
        """For bags no row of which is twice in one."""
        total = bags.members.size
        _, appearances = np.unique(bags.members, return_counts=True)
        same = bags.n_bags / total
        same_of_all = float(np.sum(appearances.astype(np.float64) ** 2)) / total**2
        between = same - same_of_all
        excess = (1.0 - same) / between if between > 1e-12 * same else 0.0
        return cls(bags.sizes / total, excess)

    def values(self, u: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Contributions of the bags (n_bags,) to the mean product, and its gradient in v."""
        slope = self.weight * (u + self.excess * (u - self.weight @ u))
        about = v - self.weight @ v
        return self.weight * (u * v + self.excess * (u - self.weight @ u) * about), slope


def square_loss(
    bags: BagSums, predicted: FloatArray, labels: FloatArray, *, debiased: bool
) -> tuple[FloatArray, FloatArray]:
    """½(prediction − label)² of bag means, or debiased to rows: its parts by bag, and the gradient in each member.

    Noise on the labels adds its variance to the value, and nothing to the gradient, on average.
    """
    products = RowProducts.of(bags) if debiased else RowProducts(bags.sizes / bags.members.size, 0.0)
    residual = bags.add(predicted) / bags.sizes - labels
    values, slope = products.values(residual, residual)
    return 0.5 * values, (slope / bags.sizes)[bags.bag_of_member]


def easy_loss(
    bags: BagSums, scores: FloatArray, labels: FloatArray, *, logistic: bool
) -> tuple[FloatArray, FloatArray]:
    """Mean of a(f) − y·f over rows, a = log(1 + eᶠ) or ½f²: its parts by bag, and the gradient in each member.

    Unbiased noise on the labels leaves everything unbiased.
    """
    total = bags.members.size
    if logistic:
        free, mean = np.logaddexp(0.0, scores), np.exp(-np.logaddexp(0.0, -scores))
    else:
        free, mean = 0.5 * scores**2, scores
    values, slope = RowProducts.of(bags).values(labels, bags.add(scores) / bags.sizes)
    return bags.add(free) / total - values, mean / total - (slope / bags.sizes)[bags.bag_of_member]


BagLossName = Literal["likelihood", "log", "squared", "debiased", "easyllp"]
#: Labels vary by no less than this share of what bag means vary by, most of which may be noise.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class OutputLoss:
    """Loss of one output's scores.

    Parameters
    ----------
    kind : {"likelihood", "log", "squared", "debiased", "easyllp"}
    labels : ndarray of shape (n_bags,)
        Mean label of every bag.
    worth : float
        What the loss of `square_loss` or `easy_loss` is multiplied with.
    start : float
        Score of the constant model.
    most : float
        By how much any scores can be better than that, in all.
    counts : CountLoss or None
        For the likelihoods.
    logistic : bool
        Whether scores are log-odds.
    """

    kind: BagLossName
    labels: FloatArray
    worth: float
    start: float
    most: float
    counts: CountLoss | None
    logistic: bool

    def values(self, bags: BagSums, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each bag adds to the loss per membership, and the gradient of that in the scores of memberships."""
        if self.counts is not None:
            values, slope = self.counts.values(bags, scores)
            return values / bags.members.size, slope / bags.members.size
        if self.kind == "easyllp":
            values, slope = easy_loss(bags, scores, self.labels, logistic=self.logistic)
        else:
            predicted = expit(scores) if self.logistic else scores
            values, slope = square_loss(bags, predicted, self.labels, debiased=self.kind == "debiased")
            if self.logistic:
                slope = slope * predicted * (1 - predicted)
        return self.worth * values, self.worth * slope

    def take(self, which: IntArray) -> OutputLoss:
        """Of some bags."""
        counts = None if self.counts is None else self.counts.take(which)
        return replace(self, labels=self.labels[which], counts=counts)


@dataclass(frozen=True, eq=False)
class BagObjective:
    """Loss of scores of shape (n_memberships, n_outputs): a sum over outputs.

    Parameters
    ----------
    bags : BagSums
    outputs : tuple of OutputLoss
    """

    bags: BagSums
    outputs: tuple[OutputLoss, ...]

    @property
    def start(self) -> FloatArray:
        return np.array([output.start for output in self.outputs])

    @property
    def most(self) -> float:
        return sum(output.most for output in self.outputs)

    def values(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each bag adds to the loss per membership (n_bags,), and its gradient (n_memberships, n_outputs)."""
        parts = [
            output.values(self.bags, np.ascontiguousarray(scores[:, k]))
            for k, output in enumerate(self.outputs)
        ]
        return np.sum([values for values, _ in parts], axis=0), np.stack(
            [slope for _, slope in parts], axis=1
        )

    def take(self, which: IntArray) -> tuple[BagObjective, IntArray]:
        """Of some bags, and which memberships theirs are."""
        bags, places = self.bags.take(which)
        return BagObjective(bags, tuple(output.take(which) for output in self.outputs)), places


def class_objective(bags: RandomBags, loss: BagLossName) -> BagObjective:
    """Of log-odds of each output, one against the rest.

    Parameters
    ----------
    bags : RandomBags
        Sums of 0/1 labels, or bits.
    loss : {"likelihood", "log", "squared", "debiased", "easyllp"}
        "squared" and "debiased" are of probabilities, the others as in `fit_likelihood`.
    """
    total = float(bags.sizes.sum())
    size = total / bags.n_bags
    outputs = []
    for k, labels in enumerate(bags.means().T):
        error = math.sqrt(bags.n_bags * bags.noise_variance) / total + 0.5 / total
        share = float(np.clip(bags.sizes @ labels / total, min(error, 0.5), 1 - min(error, 0.5)))
        counts = None
        variance = share * (1 - share)
        told = _told(bags, variance, variance)
        most = bags.n_bags * told * (binary_entropy(share) if loss == "easyllp" else 0.5)
        if loss in ("likelihood", "log"):
            counts = CountLoss.of(bags, k, of_mean=loss == "log", tempered=True)
            most = counts.most(share)
        worth = told * {"squared": 1 / variance, "debiased": 1 / variance / size}.get(loss, 1 / size)
        outputs.append(OutputLoss(loss, labels, worth, math.log(share / (1 - share)), most, counts, True))
    return BagObjective(bags.structure, tuple(outputs))


def number_objective(
    bags: RandomBags, loss: BagLossName, label_bounds: tuple[float, float] | None
) -> tuple[BagObjective, FloatArray, FloatArray]:
    """Of numbers in units of their own: where labels are and how much they vary, as released, changes nothing.

    Parameters
    ----------
    bags : RandomBags
    loss : {"squared", "debiased", "easyllp"}
    label_bounds : (float, float) or None
        Interval of the labels.

    Returns
    -------
    objective : BagObjective
    centre, scale : ndarray of shape (n_outputs,)
        A label is the centre and a number times the scale.
    """
    size = float(bags.sizes.mean())
    means = bags.means()
    found = bags.sizes @ means / float(bags.sizes.sum())
    centre = mean_label(bags, found, label_bounds)
    about = means - found
    # Of one row, as the means of bags vary: labels of rows that have nothing to do with each other, and noise.
    rows = bags.sizes if bags.label_release != "bernoulli" else np.ones(bags.n_bags)
    seen = rows @ about**2 / max(bags.n_bags - 1, 1)
    variance = np.maximum(seen - bags.noise_variance * float(np.mean(1 / bags.sizes)), _LEAST_SHARE * seen)
    if label_bounds is not None:
        variance = np.minimum(variance, ((label_bounds[1] - label_bounds[0]) / 2) ** 2)
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    outputs = []
    for k, unit in enumerate(scale):
        told = _told(bags, float(unit**2), float(unit**2))
        worth = told if loss == "squared" else told / size
        labels = (means[:, k] - centre[k]) / unit
        outputs.append(OutputLoss(loss, labels, worth, 0.0, 0.5 * bags.n_bags * told, None, False))
    return BagObjective(bags.structure, tuple(outputs)), centre, scale


def _told(bags: RandomBags, variance: float, bit_variance: float) -> float:
    """Share of what a bag's mean varies by that its rows' labels make."""
    size = float(bags.sizes.mean())
    noise = bags.noise_variance / size
    if bags.label_release == "bernoulli":
        noise = size * bit_variance
    return variance / (variance + noise)
