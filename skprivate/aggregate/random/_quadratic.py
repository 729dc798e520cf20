"""Linear models from random bags by least squares, and the features they are linear in.

Features are public, so their choice costs nothing. The marginal likelihood of the released aggregates chooses among
them, which is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from skprivate.aggregate._losses import FloatArray, SquaredLoss
from skprivate.aggregate.additive import _constant
from skprivate.aggregate.random import _bags, _fit
from skprivate.aggregate.tables._columns import QuantileSketch

Quadratic = Literal["squared", "debiased"]
#: Buckets of a column, about.
_N_BUCKETS = 16
#: Buckets are tried where all columns together, and all their numbers, are no more than this.
_MOST_BUCKET_COLUMNS = 600
_MOST_BUCKET_NUMBERS = 5e7
#: Directions of less than this share of the largest variance are left out of the prior that follows variance.
_LEAST_VARIANCE_SHARE = 1e-9


def debiasing(sizes: ArrayLike, n_samples: int) -> FloatArray:
    """Compute c = (m − 1)N / (m(N − 1)) of Theorem 2, for every bag size; below 1 for m < N."""
    if n_samples <= 1:
        return np.zeros_like(np.asarray(sizes, dtype=np.float64))
    m: FloatArray = np.asarray(sizes, dtype=np.float64)
    return (m - 1) * n_samples / (m * (n_samples - 1))


def fit_quadratic(
    bags: _bags.RandomBags,
    X: FloatArray,
    *,
    loss: Quadratic,
    alpha: float | None,
    fit_intercept: bool,
    label_bounds: tuple[float, float] | None = None,
) -> _fit.LinearFit:
    """Minimise Σ_i (m_i/m̄)‖r_i‖² − c n‖r̄‖² + α‖w‖² over linear h, r_i = mean of h over bag i − aggregate label.

    c is 0 for "squared", `debiasing` for "debiased". With a free intercept both have the same minimiser: the
    intercept makes r̄ zero, whatever its weight. The quadratic is positive semidefinite, as ‖r̄‖² ≤ mean ‖r_i‖² and c
    < 1. ``alpha=None`` maximises the marginal likelihood of each output.
    """
    structure = bags.structure
    means, labels = structure.means(X), bags.means()
    weight = structure.sizes / structure.sizes.mean()
    n = float(weight.sum())
    centre, label_centre = weight @ means / n, weight @ labels / n
    if fit_intercept:
        correction = 1.0
    else:
        correction = 0.0 if loss == "squared" else float(weight @ debiasing(structure.sizes, bags.n_samples)) / n
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
    prior = SquaredLoss().intercept_prior(label_bounds)
    widest = math.inf if prior is None else prior[1] / max(float(X.var(axis=0).sum()), 1e-300)
    known = bags.noise_variance / float(structure.sizes.mean()) ** 2
    # Centring takes one. Counted as free, it lets more features than bags explain everything with a narrow prior.
    freedom = max(structure.n_bags - (1 if fit_intercept else 0), 1)
    fits, alphas = [], np.empty(labels.shape[1])
    for k in range(labels.shape[1]):
        fit = _Ridge(values, rotated[:, k], float(energy[k]), freedom, known, 1.0)
        alphas[k] = fit.best_alpha(widest) if alpha is None else alpha
        fits.append(replace(fit, alpha=max(float(alphas[k]), floor)))
    coef = np.stack([vectors @ fit.coef for fit in fits])
    if known > 0.0:
        margin = _constant.ESTIMATED_PENALTY_MARGIN if alpha is None else _constant.GIVEN_PENALTY_MARGIN
        gain = math.inf if prior is None else 4.0 * prior[1] * structure.n_bags / float(structure.sizes.mean())
        coef = np.stack([fit.share(gain, margin) * of_fit for fit, of_fit in zip(fits, coef, strict=True)])
    intercept = np.zeros(labels.shape[1])
    if fit_intercept:
        intercept = mean_label(bags, label_centre, label_bounds) - coef @ centre
    condition = (float(values[-1]) + float(alphas.max())) / (float(values[0]) + max(float(alphas.min()), floor))
    return _fit.LinearFit(coef, intercept, alphas, condition, 1, sum(fit.evidence() for fit in fits))


def mean_label(bags: _bags.RandomBags, mean: FloatArray, label_bounds: tuple[float, float] | None) -> FloatArray:
    """Shrink the mean label, where it is noisy, towards the middle of the interval by its prior variance."""
    prior = SquaredLoss().intercept_prior(label_bounds)
    noise = bags.structure.n_bags * bags.noise_variance / float(bags.sizes.sum()) ** 2
    if prior is None or noise == 0.0:
        return mean
    middle, variance = prior
    return np.asarray(middle + (mean - middle) * (variance / (variance + noise)))


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Ridge fit in the eigenbasis of the Gram matrix of bags.

    ``freedom`` counts degrees of freedom before the fit, ``known_noise`` is the variance that the release added.
    """

    values: FloatArray
    rotated: FloatArray
    energy: float
    freedom: int
    known_noise: float
    alpha: float

    @property
    def coef(self) -> FloatArray:
        return self.rotated / (self.values + self.alpha)

    def best_alpha(self, widest: float) -> float:
        """Estimate noise variance / prior variance by MacKay's fixed point.

        The noise is at least the known one where the prior has its largest width (``widest``). A fit to noise alone
        may otherwise find a prior that explains it.
        """
        least = 1e-8 if math.isinf(widest) else max(1e-8, self.known_noise / widest)
        if not np.any(self.rotated):
            return _fit.LARGEST_ALPHA
        values, ratio = self.values, max(1.0, least)
        for _ in range(200):
            coef = self.rotated / (values + ratio)
            effective = float(np.sum(values / (values + ratio)))
            residual = self.energy - 2 * float(coef @ self.rotated) + float(values @ coef**2)
            residual = max(residual, 1e-12 * self.energy)
            noise = max(residual / max(self.freedom - effective, 1e-6 * self.freedom), self.known_noise)
            prior = max(float(coef @ coef), 1e-300) / max(effective, 1e-12)
            new = float(np.clip(noise / prior, least, max(least, _fit.LARGEST_ALPHA)))
            if abs(math.log(new / ratio)) < 1e-4:
                return new
            ratio = new
        return ratio

    def evidence(self) -> float:
        """Compute the log marginal likelihood, up to a constant of all features."""
        squares = max(self.energy - float(self.rotated @ self.coef), 1e-12 * self.energy)
        noise = max(squares / self.freedom, self.known_noise, 1e-300)
        volume = float(np.sum(np.log1p(self.values / self.alpha)))
        return -0.5 * (self.freedom * math.log(noise) + volume + squares / noise)

    def share(self, gain: float, margin: float) -> float:
        """Choose the step from the constant, 0, to the fit, 1; ``gain`` bounds the energy that any model explains."""
        coef = self.coef
        explained, pull = float(self.values @ coef**2), float(coef @ self.rotated)
        effective = float(np.sum(self.values / (self.values + self.alpha)))
        residual = max(self.energy - 2.0 * pull + explained, 0.0)
        noise = max(residual / max(self.freedom - effective, 0.05 * self.freedom), self.known_noise)
        optimism = 2.0 * noise * effective

        def estimate(share: float) -> float:
            return share**2 * explained + share * (optimism - 2.0 * pull)

        error = 2.0 * math.sqrt(noise) * math.sqrt(explained + optimism)
        advice = "use a larger epsilon, more bags, label_bounds or a stronger penalty."
        return _constant.share_to_keep(estimate, error, gain, margin=margin, advice=advice)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public centring and scaling of features: unit variance, except for columns of two values 0 and 1."""

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray) -> Scaling:
        """Scale the columns of X, except indicators.

        A ridge on standardised indicators would let rare categories vary most.
        """
        scale = X.std(axis=0)
        indicator = np.all((X == 0) | (X == 1), axis=0)
        return cls(X.mean(axis=0), np.where(indicator | ~(scale > 0), 1.0, scale))

    def apply(self, X: FloatArray) -> FloatArray:
        return (X - self.centre) / self.scale


@dataclass(frozen=True, eq=False)
class BagFeatures:
    """Features of a fit: bin edges per column (empty: not binned), scaling, and rotation to the fitted directions."""

    edges: tuple[FloatArray, ...]
    scaling: Scaling
    turn: FloatArray | None = None

    def coef(self, fitted: FloatArray) -> FloatArray:
        """Transform fitted coefficients to those (n_outputs, n_expanded) of columns and indicators."""
        scaled = fitted if self.turn is None else fitted @ self.turn.T
        return np.asarray(scaled / self.scaling.scale)


def with_buckets(X: FloatArray, edges: tuple[FloatArray, ...]) -> FloatArray:
    """Append indicators of the buckets of the binned columns to the columns of X."""
    parts = [X]
    for column, cuts in zip(X.T, edges, strict=True):
        if cuts.size:
            place = np.searchsorted(cuts, column, side="right")
            parts.append((place[:, np.newaxis] == np.arange(cuts.size + 1)).astype(np.float64))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def bucket_edges(X: FloatArray) -> tuple[FloatArray, ...]:
    """Cut each column into buckets of like frequency; a column of one or two numbers is not cut."""
    sketches = [QuantileSketch.from_numbers(np.ascontiguousarray(column)) for column in X.T]
    edges = [np.asarray(sketch.edges(_N_BUCKETS), dtype=np.float64) for sketch in sketches]
    return tuple(cuts if cuts.size > 1 else np.empty(0) for cuts in edges)


def candidates(
    X: FloatArray, *, buckets: bool | None, prior: str | None, centred: bool
) -> Iterator[tuple[BagFeatures, FloatArray]]:
    """Generate the features to compare, and X in each; ``None`` for buckets or prior tries both."""
    plain = tuple(np.empty(0) for _ in range(X.shape[1]))
    choices = [plain]
    if buckets is not False:
        cut = bucket_edges(X)
        width = X.shape[1] + sum(edges.size + 1 for edges in cut if edges.size)
        if buckets:
            choices = [cut]
        elif X.shape[1] < width <= _MOST_BUCKET_COLUMNS and width * X.shape[0] <= _MOST_BUCKET_NUMBERS:
            choices.append(cut)
    for edges in choices:
        wide = with_buckets(X, edges)
        scaling = Scaling.of(wide)
        if not centred:
            scaling = Scaling(np.zeros(wide.shape[1]), scaling.scale)
        scaled = scaling.apply(wide)
        if prior != "spread":
            yield BagFeatures(edges, scaling), scaled
        if prior != "ridge":
            turn = _spread_root(scaled)
            yield BagFeatures(edges, scaling, turn), scaled @ turn


def _spread_root(scaled: FloatArray) -> FloatArray:
    """Compute Σ^(1/4) up to a rotation: independent coefficients in these directions have the covariance Σ^(1/2)."""
    values, vectors = np.linalg.eigh(scaled.T @ scaled / max(len(scaled), 1))
    kept = values > _LEAST_VARIANCE_SHARE * max(float(values[-1]), 1e-300)
    kept[-1] = True  # constant columns alone have no direction
    values = np.maximum(values, 0.0)
    root: FloatArray = vectors[:, kept] * values[kept] ** 0.25
    return root
