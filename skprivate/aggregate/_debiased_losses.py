"""Losses of single rows estimated from the mean labels of random bags, without bias.

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

from dataclasses import dataclass

import numpy as np

from skprivate.aggregate._bag_sums import BagSums
from skprivate.aggregate._losses import FloatArray


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
