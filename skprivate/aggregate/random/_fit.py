"""Linear classifiers from random bags, by the likelihood of bag counts.

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

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

from skprivate._sklearn import Step, steps
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.additive import _constant
from skprivate.aggregate.random._bags import BagSums, IntArray, RandomBags

_FLOOR = 1e-12
_SMALLEST_BAG_PROBABILITY = 1e-4
#: Bags up to this size use the exact distribution of the count; the normal one is as good beyond and much cheaper.
_EXACT_SIZE = 64
#: Variance of rounding to whole numbers: counts with less noise than that are as good as exact.
_ROUNDING = 1 / 12
Likelihood = Literal["likelihood", "log", "easyllp"]
#: Updates of the penalty by marginal likelihood.
_PENALTY_UPDATES = 6
LARGEST_ALPHA = 1e6
#: Prior log-odds of standard deviation 3, in place of a free intercept where the labels are noisy.
_NOISY_INTERCEPT_PENALTY = 1 / 9


@dataclass(frozen=True, eq=False)
class CountLoss:
    """Loss of one output's scores by the released aggregates: positive labels ``sums`` of ``trials`` per bag."""

    kind: Literal["mean", "exact", "normal"]
    sums: FloatArray
    trials: FloatArray
    noise: float

    @classmethod
    def of(cls, bags: RandomBags, k: int, *, of_mean: bool, tempered: bool) -> CountLoss:
        """Choose the loss for output ``k``; ``of_mean`` takes the cross-entropy of the bag mean for counts, too.

        ``tempered`` counts a noisy sum as fewer trials in that cross-entropy.
        """
        sums, trials, noise = bags.label_sums[:, k], bags.sizes.astype(np.float64), bags.noise_variance
        if bags.label_release == "bernoulli":
            return cls("mean", sums, np.ones(sums.size), noise)
        if of_mean or (noise == 0 and bags.sizes.max() == 1):
            sums = np.clip(sums, 0.0, trials)
            weight = trials / (trials + 4.0 * noise) if tempered else np.ones(sums.size)
            return cls("mean", sums * weight, trials * weight, noise)
        # Next to no noise a normal density has peaks where counts are whole: theirs is that of rounding.
        if bags.sizes.max() <= _EXACT_SIZE and noise <= _ROUNDING:
            return cls("exact", np.clip(np.rint(sums), 0.0, trials), trials, _ROUNDING)
        return cls("normal", sums, trials, max(noise, _ROUNDING))

    def values(self, bags: BagSums, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Evaluate every bag (n_bags,), and the gradient (n_memberships,) of the sum."""
        if self.kind == "mean":
            return mean_cross_entropy(bags, scores, self.sums, self.trials)
        if self.kind == "exact":
            return count_likelihood(bags, scores, self.sums)
        return noisy_count_likelihood(bags, scores, self.sums, self.noise)

    def take(self, which: IntArray) -> CountLoss:
        """Restrict the loss to some bags."""
        return replace(self, sums=self.sums[which], trials=self.trials[which])

    def gain(self, share: float) -> float:
        """Bound the gain of any scores over a constant probability."""
        if self.kind == "mean":
            return binary_entropy(share) * float(self.trials.sum())
        signal = share * (1 - share) * self.trials / self.noise
        return 0.5 * float(np.sum(signal + np.log1p(signal)))


def binary_entropy(share: float) -> float:
    """Compute the entropy of one label in nats; ``share`` is strictly between 0 and 1."""
    return float(-share * np.log(share) - (1 - share) * np.log1p(-share))


def mean_cross_entropy(
    bags: BagSums, scores: FloatArray, counts: FloatArray, trials: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute the cross-entropy of the bag mean times the number of trials (bag sizes for counts, ones for bits)."""
    positive = expit(scores)
    mean = np.clip(bags.add(positive) / bags.sizes, _FLOOR, 1 - _FLOOR)
    missing = trials - counts
    values = -(counts * np.log(mean) + missing * np.log1p(-mean))
    slope = (missing / (1 - mean) - counts / mean) / bags.sizes
    return values, slope[bags.bag_of_member] * positive * (1 - positive)


def count_likelihood(bags: BagSums, scores: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute −log P(count) exactly; counts must be integers in [0, m]."""
    plain = expit(scores)
    # Clipped so that the product over a bag cannot underflow; beyond, the gradient still points inwards.
    positive = np.clip(plain, _SMALLEST_BAG_PROBABILITY, 1 - _SMALLEST_BAG_PROBABILITY)
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
    """Compute −log density of a noisy count, any number, under the normal approximation."""
    positive = expit(scores)
    spread = positive * (1 - positive)
    residual = counts - bags.add(positive)
    total = np.maximum(bags.add(spread) + noise, _FLOOR)
    values = 0.5 * (np.log(total) + residual**2 / total)
    by_mean = -residual / total
    by_variance = 0.5 * (1 / total - (residual / total) ** 2)
    member = bags.bag_of_member
    return values, spread * (by_mean[member] + by_variance[member] * (1 - 2 * positive))


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Coefficients (n_outputs, n_features), intercepts, penalty per output, condition number and evaluations.

    ``evidence`` is the logarithm of the marginal likelihood, comparable between features of the same bags.
    """

    coef: FloatArray
    intercept: FloatArray
    alpha: FloatArray
    condition: float
    n_iter: int
    evidence: float = 0.0


def fit_likelihood(
    bags: RandomBags, X: FloatArray, *, loss: Likelihood, alpha: float | None, tol: float = 1e-5, max_iter: int = 200
) -> LinearFit:
    """Fit a logistic model of the rows by the likelihood of the bags, one output after the other.

    "likelihood" is that of the release: the count's exact distribution (normal for bags of more than 64 rows), a
    noisy count's normal one, or a bit's. "log" is the cross-entropy of the bag mean. "easyllp" is the log loss of
    rows with m·(mean of the bag) − (m − 1)·(mean of all) for a label, which has the label's mean (Busa-Fekete and
    others, 2023). ``alpha=None`` maximises the marginal likelihood; for "easyllp" it minimises Stein's estimate of
    the loss of rows.
    """
    n_outputs = bags.label_sums.shape[1]
    n_updates = _PENALTY_UPDATES if alpha is None and loss != "easyllp" else 2
    with steps("likelihood", n_outputs * n_updates) as step:
        fits = [
            _fit_output(bags, X, k, loss=loss, alpha=alpha, tol=tol, max_iter=max_iter, n_updates=n_updates, step=step)
            for k in range(n_outputs)
        ]
    solutions, alphas, conditions, n_iter, evidence = zip(*fits, strict=True)
    coef, intercept = np.stack([w[:-1] for w in solutions]), np.array([w[-1] for w in solutions])
    return LinearFit(coef, intercept, np.array(alphas), max(conditions), sum(n_iter), sum(evidence))


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
) -> tuple[FloatArray, float, float, int, float]:
    structure = bags.structure
    used, where = np.unique(structure.members, return_inverse=True)
    structure = BagSums(where.astype(np.int64), structure.sizes, used.size)
    problem = _Problem(bags, structure, np.column_stack([X[used], np.ones(used.size)]), k, loss, alpha is None)
    w = np.zeros(X.shape[1] + 1)
    w[-1] = problem.start
    easy = problem.kind == "easy"
    ridge = (problem.least_loss_ridge() if easy else 3.0) if alpha is None else alpha
    evaluations, condition = 0, 1.0
    for update in range(n_updates):
        last = update == n_updates - 1
        information = problem.information(w)
        w, spent, factor = _descend(problem, information, w, ridge, tol, max_iter if last else 15)
        evaluations += spent
        diagonal = np.diag(factor)
        condition = float((diagonal.max() / diagonal.min()) ** 2)
        if alpha is None and not last and not easy:
            inverse = solve_triangular(factor, np.eye(w.size), check_finite=False)
            spread = np.einsum("ij,ij->i", inverse, inverse)[:-1]
            effective = max(w.size - 1 - ridge * float(spread.sum()), 0.0)
            # One pseudo-coefficient of the starting size keeps little data from an extreme penalty.
            ridge = float(np.clip((effective + 1) / (float(w[:-1] @ w[:-1]) + 1 / 3), 1e-3, LARGEST_ALPHA))
        step()
    information = problem.information(w)
    evidence = problem.evidence(w, information, ridge)
    if bags.noise_variance > 0 and ridge < LARGEST_ALPHA:
        w = problem.no_worse_than_constant(w, information, ridge)
    return w, ridge, condition, evaluations, evidence


class _Problem:
    """Value, gradient and expected information of one output's bag likelihood; the last column of X is ones."""

    def __init__(
        self, bags: RandomBags, structure: BagSums, X: FloatArray, k: int, loss: Likelihood, tempered: bool
    ) -> None:
        self.structure = structure
        self.X = X
        self.noise = bags.noise_variance
        self.margin = _constant.ESTIMATED_PENALTY_MARGIN if tempered else _constant.GIVEN_PENALTY_MARGIN
        self.counts = CountLoss.of(bags, k, of_mean=loss == "log", tempered=tempered)
        if loss == "easyllp":
            self.kind = "easy"
            self.trials = structure.sizes.astype(np.float64)
            self.sums = self.trials * bags.means()[:, k]
        else:
            self.kind, self.noise = self.counts.kind, self.counts.noise
            self.sums, self.trials = self.counts.sums, self.counts.trials
        # A noisy total may lie outside what any probability can give; exact labels leave the intercept free.
        self.intercept_penalty = _NOISY_INTERCEPT_PENALTY if bags.noise_variance > 0 else 0.0
        share = float(np.clip(self.sums.sum() / self.trials.sum(), 0.01, 0.99))
        self.start = math.log(share / (1 - share))
        self.spread = self.trials * share * (1 - share) + self.noise
        # A label's estimate, the same for all rows of a bag.
        self.labels = self.sums - (self.trials - 1) * share

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        scores = (self.X @ w)[self.structure.members]
        if self.kind == "easy":
            labels = self.labels[self.structure.bag_of_member]
            value = float(np.sum(np.logaddexp(0.0, scores) - labels * scores))
            slope = expit(scores) - labels
        else:
            values, slope = self.counts.values(self.structure, scores)
            value = float(np.sum(values))
        return value, self.structure.scatter(slope) @ self.X

    def information(self, w: FloatArray) -> FloatArray:
        """Compute the expected information of the bag counts, from the variance and slope of each."""
        positive = expit(self.X @ w)
        spread = positive * (1 - positive)
        if self.kind == "easy":
            weight = spread * np.bincount(self.structure.members, minlength=spread.size)
            return (self.X * weight[:, np.newaxis]).T @ self.X
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

    def variance(self, information: FloatArray) -> FloatArray:
        """Compute the covariance of the gradient at the truth: the information, if the loss is a likelihood."""
        if self.kind != "easy":
            return information
        sums = self.structure.means(self.X) * np.sqrt(self.trials**2 * self.spread)[:, np.newaxis]
        return sums.T @ sums

    def least_loss_ridge(self) -> float:
        """Choose the penalty of the least estimated loss of rows, by the quadratic about the constant model."""
        w = self._constant(self.X.shape[1])
        information = self.information(w)
        _, gradient = self.value_and_gradient(w)
        values, vectors = np.linalg.eigh(information[:-1, :-1])
        pull, spread = vectors.T @ gradient[:-1], vectors.T @ self.variance(information)[:-1, :-1] @ vectors
        values, variances = np.maximum(values, 0.0), np.diag(spread)
        tried = np.geomspace(1e-3, LARGEST_ALPHA, 73)
        losses = [
            float(np.sum(0.5 * values * (pull / (values + a)) ** 2 - (pull**2 - variances) / (values + a)))
            for a in tried
        ]
        return float(tried[int(np.argmin(losses))])

    def evidence(self, w: FloatArray, information: FloatArray, ridge: float) -> float:
        """Approximate the log marginal likelihood by Laplace's method, up to a constant of all features.

        For "easyllp" it is minus the estimated loss of rows.
        """
        if ridge == 0.0:
            return -math.inf
        if self.kind == "easy":
            penalty = np.append(np.full(w.size - 1, ridge), 1e-6)
            solved = np.linalg.solve(information + np.diag(penalty), self.variance(information))
            return -self.value_and_gradient(w)[0] - float(np.trace(solved))
        penalty = np.append(np.full(w.size - 1, ridge), self.intercept_penalty + 1e-6)
        value, _ = self.value_and_gradient(w)
        _, volume = np.linalg.slogdet(information + np.diag(penalty))
        prior = (w.size - 1) * math.log(ridge) - ridge * float(w[:-1] @ w[:-1])
        return 0.5 * (prior - float(volume)) - value

    def no_worse_than_constant(self, w: FloatArray, information: FloatArray, ridge: float) -> FloatArray:
        """Shrink the fit towards the constant model where the likelihood does not support it.

        A fit flatters its own bags by its effective number of coefficients (Akaike). For a loss that is no likelihood
        it is Takeuchi's trace.
        """
        constant = self._constant(w.size)
        change = w - constant
        penalty = np.append(np.full(w.size - 1, ridge), self.intercept_penalty + 1e-6)
        # A column that is constant in every bag says nothing and moves nothing.
        flat = 1e-9 * float(np.max(np.diag(information))) + 1e-300
        spread = self.variance(information)
        solved = np.linalg.solve(information + np.diag(penalty + flat), spread)
        trace = float(np.trace(solved))
        optimism = trace if self.kind == "easy" else max(trace - 1.0, 0.0)
        error = math.sqrt(max(float(change @ spread @ change), 0.0) + 2.0 * float(np.sum(solved * solved.T)))

        def estimate(share: float) -> float:
            return self.value_and_gradient(constant + share * change)[0] + share * optimism

        advice = "use a larger epsilon, more bags or a stronger penalty."
        share = float(expit(constant[-1]))
        easy_gain = binary_entropy(share) * float(self.trials.sum())
        gain = easy_gain if self.kind == "easy" else self.counts.gain(share)
        share = _constant.share_to_keep(estimate, error, gain, margin=self.margin, advice=advice)
        return w if share == 1.0 else constant + share * change

    def _constant(self, size: int) -> FloatArray:
        """Fit the intercept alone, by Newton's steps."""
        w = np.zeros(size)
        w[-1] = self.start
        for _ in range(20):
            _, gradient = self.value_and_gradient(w)
            curvature = float(self.information(w)[-1, -1]) + self.intercept_penalty
            step = (float(gradient[-1]) + self.intercept_penalty * w[-1]) / max(curvature, 1e-12)
            w[-1] -= float(np.clip(step, -1.0, 1.0))
            if abs(step) < 1e-3:
                break
        return w


def _descend(
    problem: _Problem, information: FloatArray, start: FloatArray, ridge: float, tol: float, max_iter: int
) -> tuple[FloatArray, int, FloatArray]:
    """Minimise the penalised loss by L-BFGS in the variables that whiten the information."""
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

    gtol = tol / math.sqrt(n)
    options: Any = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": gtol, "ftol": 1e-10, "maxcor": 15}
    result = minimize(objective, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    return start + solve_triangular(factor, result.x, check_finite=False), int(result.nfev), factor
