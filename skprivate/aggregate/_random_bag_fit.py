"""Linear models from random bags: least squares in bag means, and likelihoods of bag counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

from skprivate._progress import Step, steps
from skprivate.aggregate._bag_likelihood import count_likelihood, mean_cross_entropy, noisy_count_likelihood
from skprivate.aggregate._bag_sums import BagSums
from skprivate.aggregate._filter import intercept_prior
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate._random_bags import RandomBags

Quadratic = Literal["squared", "debiased"]
Likelihood = Literal["likelihood", "log"]
#: Bags up to this size use the exact distribution of the count; the normal one is as good beyond and much cheaper.
_EXACT_SIZE = 64
#: Updates of the penalty by marginal likelihood.
_PENALTY_UPDATES = 6
_LARGEST_ALPHA = 1e6
#: Prior log-odds of standard deviation 3, in place of a free intercept where the labels are noisy.
_NOISY_INTERCEPT_PENALTY = 1 / 9


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Coefficients (n_outputs, n_features), intercepts, penalty per output, condition number and evaluations."""

    coef: FloatArray
    intercept: FloatArray
    alpha: FloatArray
    condition: float
    n_iter: int


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public centring and scaling of features: unit variance, except for columns of two values 0 and 1."""

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray) -> Scaling:
        """Scaling of the columns of X.

        Indicators keep their scale: a ridge on standardised indicators would let rare categories vary most.
        """
        scale = X.std(axis=0)
        indicator = np.all((X == 0) | (X == 1), axis=0)
        return cls(X.mean(axis=0), np.where(indicator | ~(scale > 0), 1.0, scale))

    def apply(self, X: FloatArray) -> FloatArray:
        return (X - self.centre) / self.scale

    def undo(self, fit: LinearFit, fit_intercept: bool) -> LinearFit:
        """The same model in terms of the original features."""
        coef = fit.coef / self.scale
        shift = coef @ self.centre if fit_intercept else 0.0
        return LinearFit(coef, fit.intercept - shift, fit.alpha, fit.condition, fit.n_iter)


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
    widest = math.inf if prior is None else prior[1] / X.shape[1]
    known = bags.noise_variance / float(structure.sizes.mean()) ** 2
    alphas = np.array(
        [
            alpha
            if alpha is not None
            else _ridge_evidence(values, rotated[:, k], float(energy[k]), structure.n_bags, known, widest)
            for k in range(labels.shape[1])
        ]
    )
    coef = np.stack([vectors @ (rotated[:, k] / (values + max(a, floor))) for k, a in enumerate(alphas)])
    intercept = np.zeros(labels.shape[1])
    if fit_intercept:
        intercept = _mean_label(bags, label_centre, label_bounds) - coef @ centre
    smallest = float(values[0]) + max(float(alphas.min()), floor)
    return LinearFit(coef, intercept, alphas, (float(values[-1]) + float(alphas.max())) / smallest, 1)


def _mean_label(bags: RandomBags, found: FloatArray, label_bounds: tuple[float, float] | None) -> FloatArray:
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
    n: int,
    known: float = 0.0,
    widest: float = math.inf,
) -> float:
    """λ = noise variance / prior variance by MacKay's fixed point, in the eigenbasis of the Gram matrix.

    The noise is at least the ``known`` one where the prior is as wide as it may be (``widest``): a fit to noise alone
    finds a prior that explains it now and then.
    """
    least = 1e-8 if math.isinf(widest) else max(1e-8, known / widest)
    if not np.any(rotated):
        return _LARGEST_ALPHA
    ratio = max(1.0, least)
    for _ in range(200):
        coef = rotated / (values + ratio)
        effective = float(np.sum(values / (values + ratio)))
        residual = max(energy - 2 * float(coef @ rotated) + float(values @ coef**2), 1e-12 * energy)
        noise = residual / max(n - effective, 0.05 * n)
        prior = max(float(coef @ coef), 1e-300) / max(effective, 1e-12)
        new = float(np.clip(noise / prior, least, max(least, _LARGEST_ALPHA)))
        if abs(math.log(new / ratio)) < 1e-4:
            return new
        ratio = new
    return ratio


def fit_likelihood(
    bags: RandomBags,
    X: FloatArray,
    *,
    loss: Likelihood,
    alpha: float | None,
    tol: float = 1e-5,
    max_iter: int = 200,
) -> LinearFit:
    """Logistic model of the rows by the likelihood of the bags, one output after the other.

    "likelihood" is that of what was released: the count's exact distribution (normal for bags of more than 64 rows),
    a noisy count's normal one, or a bit's. "log" is the cross-entropy of the bag mean for all of them.

    Parameters
    ----------
    bags : RandomBags
    X : ndarray, shape (n_samples, n_features)
    loss : {"likelihood", "log"}
    alpha : float or None
        None maximises the marginal likelihood.
    """
    n_outputs = bags.label_sums.shape[1]
    n_updates = _PENALTY_UPDATES if alpha is None else 2
    with steps("likelihood", n_outputs * n_updates) as step:
        fits = [
            _fit_output(bags, X, k, loss, alpha, tol, max_iter, n_updates, step) for k in range(n_outputs)
        ]
    return LinearFit(
        np.stack([fit[0][:-1] for fit in fits]),
        np.array([fit[0][-1] for fit in fits]),
        np.array([fit[1] for fit in fits]),
        max(fit[2] for fit in fits),
        sum(fit[3] for fit in fits),
    )


def _fit_output(
    bags: RandomBags,
    X: FloatArray,
    k: int,
    loss: Likelihood,
    alpha: float | None,
    tol: float,
    max_iter: int,
    n_updates: int,
    step: Step,
) -> tuple[FloatArray, float, float, int]:
    structure = bags.structure
    used, where = np.unique(structure.members, return_inverse=True)
    structure = BagSums(where.astype(np.int64), structure.sizes, used.size)
    problem = _Problem(
        bags, structure, np.column_stack([X[used], np.ones(used.size)]), k, loss, alpha is None
    )
    w = np.zeros(X.shape[1] + 1)
    w[-1] = problem.start
    ridge = 3.0 if alpha is None else alpha
    evaluations, condition = 0, 1.0
    for update in range(n_updates):
        last = update == n_updates - 1
        information = problem.information(w)
        w, spent, factor = _descend(problem, information, w, ridge, tol, max_iter if last else 15)
        evaluations += spent
        diagonal = np.diag(factor)
        condition = float((diagonal.max() / diagonal.min()) ** 2)
        if alpha is None and not last:
            inverse = solve_triangular(factor, np.eye(w.size), check_finite=False)
            spread = np.einsum("ij,ij->i", inverse, inverse)[:-1]
            effective = max(w.size - 1 - ridge * float(spread.sum()), 0.0)
            # One pseudo-coefficient of the starting size keeps little data from an extreme penalty.
            ridge = float(np.clip((effective + 1) / (float(w[:-1] @ w[:-1]) + 1 / 3), 1e-3, _LARGEST_ALPHA))
        step()
    return w, ridge, condition, evaluations


class _Problem:
    """Value, gradient and expected information of one output's bag likelihood; the last column of X is ones."""

    def __init__(
        self, bags: RandomBags, structure: BagSums, X: FloatArray, k: int, loss: Likelihood, tempered: bool
    ) -> None:
        self.structure = structure
        self.X = X
        self.sums = bags.label_sums[:, k]
        self.noise = bags.noise_variance
        if bags.label_release == "bernoulli":
            self.kind = "mean"
            self.trials = np.ones(structure.n_bags)
        elif loss == "log" or (self.noise == 0 and structure.sizes.max() == 1):
            self.kind = "mean"
            self.trials = structure.sizes.astype(np.float64)
            self.sums = np.clip(self.sums, 0.0, self.trials)
            if tempered:  # a noisy count says as much as fewer trials
                told = self.trials / (self.trials + 4.0 * self.noise)
                self.trials, self.sums = self.trials * told, self.sums * told
        else:
            self.kind = "exact" if self.noise == 0 and structure.sizes.max() <= _EXACT_SIZE else "normal"
            self.trials = structure.sizes.astype(np.float64)
            if self.noise == 0:
                self.noise = 1 / 12
        # A noisy total may lie outside what any probability can give; exact labels leave the intercept free.
        self.intercept_penalty = _NOISY_INTERCEPT_PENALTY if bags.noise_variance > 0 else 0.0
        share = float(np.clip(self.sums.sum() / self.trials.sum(), 0.01, 0.99))
        self.start = math.log(share / (1 - share))

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        scores = (self.X @ w)[self.structure.members]
        if self.kind == "mean":
            value, slope = mean_cross_entropy(self.structure, scores, self.sums, self.trials)
        elif self.kind == "exact":
            value, slope = count_likelihood(self.structure, scores, self.sums)
        else:
            value, slope = noisy_count_likelihood(self.structure, scores, self.sums, self.noise)
        return value, self.structure.scatter(slope) @ self.X

    def information(self, w: FloatArray) -> FloatArray:
        """Expected information of the bag counts, by the variance of each and its slope in w."""
        positive = expit(self.X @ w)
        spread = positive * (1 - positive)
        sizes = self.structure.sizes
        slope = self.structure.means(self.X * spread[:, np.newaxis]) * sizes[:, np.newaxis]
        if self.kind == "mean":
            mean = np.clip(self.structure.add(positive[self.structure.members]) / sizes, 1e-9, 1 - 1e-9)
            variance = sizes**2 * mean * (1 - mean) / self.trials
        else:
            noise = 0.0 if self.kind == "exact" else self.noise
            variance = self.structure.add(spread[self.structure.members]) + noise
        scaled = slope / np.sqrt(np.maximum(variance, 1e-12))[:, np.newaxis]
        return scaled.T @ scaled


def _descend(
    problem: _Problem, information: FloatArray, start: FloatArray, ridge: float, tol: float, max_iter: int
) -> tuple[FloatArray, int, FloatArray]:
    """Penalised minimum by L-BFGS in the variables that whiten the information."""
    penalty = np.append(np.full(start.size - 1, ridge), problem.intercept_penalty)
    floor = 1e-8 * max(float(np.trace(information)) / start.size, 1e-3)
    hessian = information + np.diag(penalty + floor)
    try:
        factor = cholesky(hessian, check_finite=False)
    except LinAlgError:
        factor = np.diag(np.sqrt(np.diag(hessian)))
    n = float(problem.trials.sum())

    def objective(u: FloatArray) -> tuple[float, FloatArray]:
        w = start + solve_triangular(factor, u, check_finite=False)
        value, gradient = problem.value_and_gradient(w)
        value += 0.5 * float(penalty @ w**2)
        gradient = gradient + penalty * w
        return value / n, solve_triangular(factor, gradient, trans="T", check_finite=False) / n

    options: Any = {
        "maxiter": max_iter,
        "maxfun": 2 * max_iter,
        "gtol": tol / math.sqrt(n),
        "ftol": 1e-10,
        "maxcor": 15,
    }
    result = minimize(objective, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    return start + solve_triangular(factor, result.x, check_finite=False), int(result.nfev), factor
