"""Linear models from random bags by least squares in bag means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from skprivate.aggregate._constant_check import ANY, ESTIMATED, share_to_keep
from skprivate.aggregate._filter import intercept_prior
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate._random_bag_fit import LARGEST_ALPHA, LinearFit
from skprivate.aggregate._random_bags import RandomBags

Quadratic = Literal["squared", "debiased"]


def debiasing(sizes: ArrayLike, n_samples: int) -> FloatArray:
    """c = (m − 1)N / (m(N − 1)) of Theorem 2, for every bag size; below 1 for m < N."""
    if n_samples <= 1:
        return np.zeros_like(np.asarray(sizes, dtype=np.float64))
    m: FloatArray = np.asarray(sizes, dtype=np.float64)
    return (m - 1) * n_samples / (m * (n_samples - 1))


def fit_quadratic(
    bags: RandomBags,
    X: FloatArray,
    *,
    loss: Quadratic,
    alpha: float | None,
    fit_intercept: bool,
    label_bounds: tuple[float, float] | None = None,
) -> LinearFit:
    """Minimise Σ_i (m_i/m̄)‖r_i‖² − c n‖r̄‖² + α‖w‖² over linear h, r_i = mean of h over bag i − aggregate label.

    c is 0 for "squared", `debiasing` for "debiased". With a free intercept both have the same minimiser: the intercept
    makes r̄ zero, whatever its weight. The quadratic is positive semidefinite, as ‖r̄‖² ≤ mean ‖r_i‖² and c < 1.

    Parameters
    ----------
    bags : RandomBags
    X : ndarray, shape (n_samples, n_features)
    loss : {"squared", "debiased"}
    alpha : float or None
        None maximises the marginal likelihood, for each output.
    fit_intercept : bool
    label_bounds : (float, float), optional
        Interval of the labels: noise does not place the intercept far outside.
    """
    structure = bags.structure
    means, labels = structure.means(X), bags.means()
    weight = structure.sizes / structure.sizes.mean()
    n = float(weight.sum())
    centre, label_centre = weight @ means / n, weight @ labels / n
    if fit_intercept:
        correction = 1.0
    else:
        correction = (
            0.0 if loss == "squared" else float(weight @ debiasing(structure.sizes, bags.n_samples)) / n
        )
    # Written around the centre for accuracy: Σr² − cn r̄² = Σ(r − r̄)² + (1 − c) n r̄².
    about, label_about = means - centre, labels - label_centre
    rest = (1.0 - correction) * n
    gram = (about * weight[:, np.newaxis]).T @ about + rest * np.outer(centre, centre)
    pull = (about * weight[:, np.newaxis]).T @ label_about + rest * np.outer(centre, label_centre)
    energy = weight @ label_about**2 + rest * label_centre**2
    values, vectors = eigh(gram)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ pull
    floor = 1e-10 * max(float(values[-1]), 1.0)
    # What labels of an interval leave for all coefficients of standardised features is known, as is their noise.
    prior = intercept_prior("squared", label_bounds)
    widest = math.inf if prior is None else prior[1] / max(float(X.var(axis=0).sum()), 1e-300)
    known = bags.noise_variance / float(structure.sizes.mean()) ** 2
    # Centring takes one. Counted as free, it lets more features than bags explain everything with a narrow prior.
    freedom = max(structure.n_bags - (1 if fit_intercept else 0), 1)
    alphas = np.array(
        [
            alpha
            if alpha is not None
            else _ridge_evidence(values, rotated[:, k], float(energy[k]), freedom, known, widest)
            for k in range(labels.shape[1])
        ]
    )
    fits = [
        _Ridge(values, rotated[:, k], float(energy[k]), freedom, known, max(float(a), floor))
        for k, a in enumerate(alphas)
    ]
    coef = np.stack([vectors @ fit.coef for fit in fits])
    if known > 0.0:
        most = (
            math.inf if prior is None else 4.0 * prior[1] * structure.n_bags / float(structure.sizes.mean())
        )
        coef = np.stack(
            [
                fit.share(most, ANY if alpha is not None else ESTIMATED) * own
                for fit, own in zip(fits, coef, strict=True)
            ]
        )
    intercept = np.zeros(labels.shape[1])
    if fit_intercept:
        intercept = mean_label(bags, label_centre, label_bounds) - coef @ centre
    smallest = float(values[0]) + max(float(alphas.min()), floor)
    return LinearFit(
        coef,
        intercept,
        alphas,
        (float(values[-1]) + float(alphas.max())) / smallest,
        1,
        sum(fit.evidence() for fit in fits),
    )


def mean_label(bags: RandomBags, found: FloatArray, label_bounds: tuple[float, float] | None) -> FloatArray:
    """Mean of the labels: as found, or with noise as far from where it is a priori as the noise allows."""
    prior = intercept_prior("squared", label_bounds)
    noise = bags.structure.n_bags * bags.noise_variance / float(bags.sizes.sum()) ** 2
    if prior is None or noise == 0.0:
        return found
    middle, variance = prior
    return np.asarray(middle + (found - middle) * (variance / (variance + noise)))


def _ridge_evidence(
    values: FloatArray,
    rotated: FloatArray,
    energy: float,
    freedom: int,
    known: float = 0.0,
    widest: float = math.inf,
) -> float:
    """λ = noise variance / prior variance by MacKay's fixed point, in the eigenbasis of the Gram matrix.

    The noise is at least the ``known`` one where the prior is as wide as it may be (``widest``): a fit to noise alone
    finds a prior that explains it now and then.
    """
    least = 1e-8 if math.isinf(widest) else max(1e-8, known / widest)
    if not np.any(rotated):
        return LARGEST_ALPHA
    ratio = max(1.0, least)
    for _ in range(200):
        coef = rotated / (values + ratio)
        effective = float(np.sum(values / (values + ratio)))
        residual = max(energy - 2 * float(coef @ rotated) + float(values @ coef**2), 1e-12 * energy)
        noise = max(residual / max(freedom - effective, 1e-6 * freedom), known)
        prior = max(float(coef @ coef), 1e-300) / max(effective, 1e-12)
        new = float(np.clip(noise / prior, least, max(least, LARGEST_ALPHA)))
        if abs(math.log(new / ratio)) < 1e-4:
            return new
        ratio = new
    return ratio


@dataclass(frozen=True, eq=False)
class _Ridge:
    """A ridge fit in the eigenbasis of the Gram matrix of bags, by their degrees of freedom before it, the variance of
    the known noise, and the penalty.
    """

    values: FloatArray
    rotated: FloatArray
    energy: float
    freedom: int
    known: float
    alpha: float

    @property
    def coef(self) -> FloatArray:
        return self.rotated / (self.values + self.alpha)

    def evidence(self) -> float:
        """Logarithm of the marginal likelihood, but for what all features share."""
        squares = max(self.energy - float(self.rotated @ self.coef), 1e-12 * self.energy)
        noise = max(squares / self.freedom, self.known, 1e-300)
        volume = float(np.sum(np.log1p(self.values / self.alpha)))
        return -0.5 * (self.freedom * math.log(noise) + volume + squares / noise)

    def share(self, most: float, doubt: float) -> float:
        """How far to go to the fit from the constant, 0; ``most`` is what any model may explain of the energy."""
        coef = self.coef
        explained, pull = float(self.values @ coef**2), float(coef @ self.rotated)
        effective = float(np.sum(self.values / (self.values + self.alpha)))
        residual = max(self.energy - 2.0 * pull + explained, 0.0)
        noise = max(residual / max(self.freedom - effective, 0.05 * self.freedom), self.known)
        flattery = 2.0 * noise * effective

        def estimate(share: float) -> float:
            return share**2 * explained + share * (flattery - 2.0 * pull)

        error = 2.0 * math.sqrt(noise) * math.sqrt(explained + flattery)
        advice = "use a larger epsilon, more bags, label_bounds or a stronger penalty."
        return share_to_keep(estimate, error, most, doubt=doubt, advice=advice)
