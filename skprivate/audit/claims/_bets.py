"""Test a claim by bets on which of two inputs a run had: e-values that hold at any time and after any choice.

A fair bit that the auditor draws decides the input of each run. From what a run releases the auditor forecasts its bit,
bets on it against the claim, and learns. Whatever is bet may depend on former runs and on the clock. A wealth that
starts at 1 and is a nonnegative supermartingale under the claim exceeds 1/α at any time with probability at most α
(Ville's inequality); so does an average of such wealths by weights that are fixed before the first bet.

A claim is a curve δ(·), that of (ε, δ) or of its events. A guess of the bit, or none, pays Y = 1 if right and −λ if
wrong, λ = e^{ε'}. The curve allows E[Y] ≤ δ(ε'), since guessing is an attack on this pair. So 1 + c(Y − δ) with
0 ≤ c ≤ 1/(λ + δ) has expectation at most 1. At ε' = ε and δ = 0 that is a bet on the odds of the bit, which are within
e^±ε given the output.

One bit may decide several units at once: a claim for one unit is a claim for groups of them, larger and
therefore distinguished from its double in fewer runs (μ = 0.12 needs thousands of runs, 17μ = 2 a hundred).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.isotonic import isotonic_regression

from skprivate import privacy
from skprivate.audit._epsilon import _gaussian_parameter
from skprivate.audit.claims._runs import Claim, Runs
from skprivate.privacy import ApproximateEvent, GaussianEvent, PrivacyEvent, ZeroConcentratedEvent, accounting

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Score = Callable[[Array], Array]
#: Shares of the largest stake that bets on a curve use.
_STAKES = np.array([0.03, 0.1, 0.3, 0.9])
#: ε' of the curve bets, as shares of ε.
_AT = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
#: Runs that are enough to learn a score from, and columns.
_ENOUGH, _MOST_COLUMNS = 8000, 400
#: Folds of the practice, and groups of equal size by which scores are compared.
_FOLDS, _GROUPS = 4, 14
#: Place of the claim of half the ε among the claims that are bet against, after the stated one.
_HALF = 10
#: Total variation at which few runs tell the claim from one twice as large, and the largest group.
_APART, _LARGEST_GROUP = 0.8, 64


# --- claims --------------------------------------------------------------------------------------------------------


def of_group(event: PrivacyEvent, units: int) -> PrivacyEvent:
    """Scale an event to inputs that differ in several units, changed one at a time.

    Privacy losses along the chain of inputs add up, and so do the lengths of their ranges. Gaussian trade-off curves
    add up μ (Dong, Roth, Su 2022, theorem 2.14), and zCDP costs the square.
    """
    if units == 1:
        return event
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / units, event.size)
    if isinstance(event, ZeroConcentratedEvent):
        return ZeroConcentratedEvent(event.rho * units**2, event.mechanism)
    if isinstance(event, ApproximateEvent):
        delta = min(delta_of_group(event.epsilon, event.delta, units), 1.0 - 2.0**-50)
        return ApproximateEvent(event.epsilon * units, delta, event.mechanism)
    return replace(event, epsilon=event.pure_epsilon * units)  # type: ignore[call-arg]


def delta_of_group(epsilon: float, delta: float, units: int) -> float:
    """Compute δ of a group at ``units·ε``: Σ_j δe^{jε}."""
    return min(1.0, delta * sum(math.exp(min(j * epsilon, 700.0)) for j in range(units)))


def claimed_curve(claim: Claim, at: Array, units: int = 1) -> Array:
    """Evaluate a claim for a group at ε': (ε, δ), and the privacy profile of its events where they are known."""
    epsilon, delta = units * claim.epsilon, delta_of_group(claim.epsilon, claim.delta, units)
    # The worst (ε, δ) pair reveals all with probability δ, and is randomised response else.
    leak = -np.expm1(np.minimum(at - epsilon, 0.0)) / (1.0 + math.exp(-epsilon))
    deltas = delta + (1.0 - delta) * leak
    if claim.events:
        together = [(of_group(event, units), count) for event, count in claim.events]
        deltas = np.minimum(deltas, [privacy.compose_delta(together, float(x)) for x in at])
    return np.asarray(deltas)


def curves_of_family(name: str, epsilons: Array, delta: float, at: Array, units: int = 1) -> list[Array]:
    """Evaluate claims of growing ε at one δ, of any mechanism or of Gaussian noise."""
    if name != "gaussian":
        return [claimed_curve(Claim(float(epsilon), delta), at, units) for epsilon in epsilons]
    means = [units * _gaussian_parameter(float(epsilon), delta) for epsilon in epsilons]
    return [np.array([accounting.gaussian_delta(mu, float(x)) for x in at]) for mu in means]


def units_apart(claim: Claim) -> int:
    """Find how many units make the claimed total variation large; 1 where claims for groups are unknown."""
    try:
        for event, _ in claim.events:
            of_group(event, 2)
    except TypeError:
        return 1
    apart = claimed_curve(claim, np.zeros(1))[0]
    return int(np.clip(round(_APART / max(float(apart), 1e-9)), 1, _LARGEST_GROUP))


# --- bets ----------------------------------------------------------------------------------------------------------


class Bets:
    """The logarithms of all wealths of the bets against a list of claims, by claim, ε' and stake."""

    def __init__(self, curves: list[Array], at: Array):
        self.deltas, self.ratio = np.array(curves), np.exp(at)
        self.all = np.zeros((len(curves), at.size, _STAKES.size))
        # Half on guesses of every bit, which tell most of Gaussian noise.
        weights = np.where(np.arange(at.size) == 0, 0.5, 0.5 / max(at.size - 1, 1)) / _STAKES.size
        self._weights = np.broadcast_to(weights[:, None], self.all.shape)

    def favour(self, practice: Bets) -> None:
        """Move half of the wealth, before the first bet, to where it would have been after practice."""
        won = logsumexp(practice.all, axis=(1, 2), keepdims=True)
        self._weights = 0.5 * self._weights + 0.5 * np.exp(practice.all - won)

    def settle(self, forecast: Array, sides: Mask) -> None:
        """Bet on runs by the probabilities of their bits, and look at these."""
        sure, right = np.maximum(forecast, 1.0 - forecast), (forecast > 0.5) == sides
        for k, ratio in enumerate(self.ratio):
            delta = self.deltas[:, k, None]
            stake = 0.999 * _STAKES / (ratio + delta)
            guessed = sure > ratio / (1.0 + ratio)
            won, lost = int((guessed & right).sum()), int((guessed & ~right).sum())
            gain = won * np.log1p(stake * (1.0 - delta)) + lost * np.log1p(stake * (-ratio - delta))
            self.all[:, k] += gain + (sides.size - won - lost) * np.log1p(-stake * delta)

    def log_wealth(self) -> Array:
        """Average the wealths of each claim by their weights."""
        return np.asarray(logsumexp(self.all, axis=(1, 2), b=self._weights))


class Game:
    """Bets on the runs of one pair of inputs."""

    def __init__(self, runs: Runs, sample: Any, claim: Claim, n_units: int, rng: np.random.Generator):
        self.runs, self.sample, self.claim, self.n_units, self.rng = runs, sample, claim, n_units, rng
        at = n_units * claim.epsilon * _AT
        steps = claim.epsilon * np.concatenate([np.arange(1, 30) / 20, np.geomspace(1.5, 12.0, 20)])
        beyond = np.geomspace(0.01, 12.0, 30)  # a tiny claim may be missed by far
        self.epsilons = np.concatenate([steps, beyond[beyond > 12.0 * claim.epsilon]])
        others = curves_of_family(claim.family, self.epsilons, claim.delta, at, n_units)
        self._curves, self._at = [claimed_curve(claim, at, n_units), *others], at
        self._bets = Bets(self._curves, at)
        self._peaks = np.zeros(len(self._curves))
        self._rows: list[Array] = []
        self._sides: list[Mask] = []
        self._learned = 0
        self._cost = 0.0
        self._forecaster: Any = None

    def practise(self, n: int, block: int, seconds: float) -> float:
        """Learn from runs without bets; return the growth per second of bets against half the claim."""
        start, made = self.runs.seconds(), 0
        while made < n and (not made or self.runs.seconds() - start < seconds):
            sides = self.rng.random(min(block, n - made)) < 0.5
            self._remember(self.sample(sides), sides)
            made += sides.size
        cost = max(self.runs.seconds() - start, 1e-9)
        self._cost = cost / made
        self._learn()
        rehearsed = Bets(self._curves, self._at)
        rehearsed.settle(self._forecaster.practice, np.concatenate(self._sides))
        self._bets.favour(rehearsed)
        return float(rehearsed.log_wealth()[_HALF]) / cost

    def play(self, n: int) -> None:
        """Run and bet n times, or less often where there is no time."""
        affordable = self.runs.left() / max(self._cost, 1e-9)
        sides = self.rng.random(max(1, n if affordable > n else int(affordable))) < 0.5
        rows = self.sample(sides)
        self._bets.settle(self._forecaster(rows), sides)
        self._peaks = np.maximum(self._peaks, self._bets.log_wealth())
        self._remember(rows, sides)
        if sum(map(len, self._sides)) >= 1.6 * self._learned:
            self._learn()

    def _remember(self, rows: Array, sides: Mask) -> None:
        if self._learned < _ENOUGH:
            self._rows.append(rows)
            self._sides.append(sides)

    def _learn(self) -> None:
        rows, sides = np.vstack(self._rows), np.concatenate(self._sides)
        self._forecaster, self._learned = Forecaster(rows, sides, self.rng), sides.size

    @property
    def log_wealth(self) -> float:
        """Show the present wealth against the stated claim."""
        return float(self._bets.log_wealth()[0])

    @property
    def p_value(self) -> float:
        return math.exp(-self._peaks[0])

    def epsilon_lower_bound(self, level: float) -> float:
        """Find the largest ε of the family up to which all are refuted at the level.

        What refutes the claim refutes every stronger one.
        """
        stronger = (self._bets.deltas[1:] <= self._bets.deltas[0] * (1.0 + 1e-9)).all(axis=1)
        peaks = np.where(stronger, np.maximum(self._peaks[1:], self._peaks[0]), self._peaks[1:])
        standing = np.flatnonzero(peaks < -math.log(level))
        first = standing[0] if standing.size else self.epsilons.size
        return float(self.epsilons[first - 1]) if first else 0.0


# --- forecasts -----------------------------------------------------------------------------------------------------


class Forecaster:
    """Learns a scalar score of what runs release, and how often runs of such a score had the second input.

    ``practice`` holds forecasts of the known runs by scores that did not see them.
    """

    def __init__(self, rows: Array, sides: Mask, rng: np.random.Generator):
        prepare = _prepared(rows)
        z = prepare(rows)
        if min(sides.sum(), (~sides).sum()) < 2 * _FOLDS:
            z = z[:, :0]  # too few to learn from: no opinion
        fold = np.zeros(sides.size, dtype=int)
        for side in (np.flatnonzero(sides), np.flatnonzero(~sides)):
            fold[rng.permutation(side)] = np.arange(side.size) % _FOLDS
        best: Any = None
        for learn in _views(z, sides):
            scores = np.empty(sides.size)
            for f in range(_FOLDS):
                inside = fold != f
                scores[~inside] = learn(z[inside], sides[inside])(z[~inside])
            second = _histogram(scores, sides)(scores)
            loss = float(-np.log(np.where(sides, second, 1.0 - second)).mean())
            if best is None or loss < best[0]:
                best = loss, learn, scores
        _, learn, scores = best
        score = learn(z, sides)
        self._score: Score = lambda new: score(prepare(new))
        self._chance = _steps(scores, sides)
        self.practice = np.empty(sides.size)
        for f in range(_FOLDS):
            inside = fold != f
            self.practice[~inside] = _steps(scores[inside], sides[inside])(scores[~inside])

    def __call__(self, rows: Array) -> Array:
        """Forecast the bits of new runs."""
        return self._chance(self._score(rows))


def _prepared(rows: Array) -> Score:
    """Select the coordinates that vary most, and put them on one scale."""
    centre = np.median(rows, axis=0)
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.nan_to_num(rows.std(axis=0), nan=1e300, posinf=1e300)
    keep = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
    if keep.size > _MOST_COLUMNS:
        keep = np.sort(keep[np.argsort(spread[keep])[-_MOST_COLUMNS:]])
    scale = np.where(high > low, high - low, np.where(spread > 0, spread, 1.0))

    def prepare(new: Array) -> Array:
        with np.errstate(over="ignore"):  # at a jump from tiny numbers to infinite ones; clipped
            return np.asarray(np.clip((new[:, keep] - centre[keep]) / scale[keep], -1e12, 1e12))

    return prepare


def _histogram(scores: Array, sides: Mask) -> Score:
    """Count second inputs among scores alike; one more on each side keeps the share from 0 and 1."""
    groups = int(np.clip(scores.size // 25, 2, _GROUPS))
    edges = np.unique(np.quantile(scores, np.arange(1, groups) / groups, method="nearest"))
    group = np.searchsorted(edges, scores, side="left")
    total = np.bincount(group, minlength=edges.size + 1)
    second = (np.bincount(group, sides, edges.size + 1) + 0.5) / (total + 1.0)
    return lambda new: second[np.searchsorted(edges, new, side="left")]


def _steps(scores: Array, sides: Mask) -> Score:
    """Fit monotone steps (isotonic regression), whose edges are where the sides change."""
    values, place = np.unique(scores, return_inverse=True)
    total, second = np.bincount(place), np.bincount(place, sides)
    ranks = (np.cumsum(total) - 0.5 * total)[place]
    rising = ranks[sides].mean() >= ranks[~sides].mean() if 0 < sides.sum() < sides.size else True
    level = isotonic_regression(second / total, sample_weight=total, increasing=bool(rising))
    block = np.concatenate([[0], np.cumsum(np.diff(level) != 0.0)])
    shares = (np.bincount(block, second) + 0.5) / (np.bincount(block, total) + 1.0)
    last = np.flatnonzero(np.diff(block))
    edges = 0.5 * (values[last] + values[last + 1])
    return lambda new: shares[np.searchsorted(edges, new, side="left")]


def _views(z: Array, sides: Mask) -> list[Callable[[Array, Mask], Score]]:
    """List ways to learn a score: discriminants, likelihood ratios of Laplace noise, single coordinates."""
    p = z.shape[1]
    if p == 0:
        return [lambda rows, side: lambda new: np.zeros(len(new))]  # no opinion
    ways: list[Callable[[Array, Mask], Score]] = []
    if p > 1:
        ways += [lambda rows, side: lambda new: new.mean(axis=1)]
        ways += [partial(_discriminant, ridge=ridge) for ridge in (1e-2, 1.0, np.inf)]
        sizes = sorted({min(k, p) for k in (3, 10, 40)})
        ways += [partial(_laplace_ratio, k=k) for k in sizes]
    spread = z.std(axis=0)
    gap = np.abs(z[sides].mean(axis=0) - z[~sides].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return ways + [partial(_coordinate, j=int(j)) for j in np.argsort(gap)[::-1][:5]]


def _coordinate(z: Array, sides: Mask, j: int) -> Score:
    return lambda new: new[:, j]


def _both(z: Array) -> Array:
    """Add magnitudes to the coordinates, which tell wide laws from narrow ones."""
    squashed = np.arcsinh(z)
    return np.hstack([squashed, np.abs(squashed)])


def _discriminant(z: Array, sides: Mask, ridge: float) -> Score:
    """Find a linear discriminant of coordinates and magnitudes."""
    z = _both(z)
    z = z / np.maximum(z.std(axis=0), 1e-9) if np.isinf(ridge) else z
    difference = z[sides].mean(axis=0) - z[~sides].mean(axis=0)
    within = np.vstack([z[sides] - z[sides].mean(axis=0), z[~sides] - z[~sides].mean(axis=0)])
    n, p = within.shape
    if np.isinf(ridge):
        direction = difference
    elif p <= n:
        direction = np.linalg.solve(within.T @ within / n + ridge * np.eye(p), difference)
    else:
        gram = within @ within.T / n + ridge * np.eye(n)
        direction = (difference - within.T @ np.linalg.solve(gram, within @ difference) / n) / ridge
    norm = float(np.linalg.norm(direction))
    direction = direction / norm if norm > 0 else direction
    return lambda new: np.asarray(_both(new) @ direction)


def _laplace_ratio(z: Array, sides: Mask, k: int) -> Score:
    """Sum ``(|x_j − a_j| − |x_j − b_j|)/s_j`` with a and b the medians of the two sides, over the k clearest j."""
    a, b = np.median(z[~sides], axis=0), np.median(z[sides], axis=0)
    scale = 0.5 * (np.abs(z[~sides] - a).mean(axis=0) + np.abs(z[sides] - b).mean(axis=0))
    scale = np.where(scale > 0.0, scale, np.inf)
    j = np.argsort(np.abs(a - b) / scale)[::-1][:k]
    return lambda new: np.asarray(((np.abs(new[:, j] - a[j]) - np.abs(new[:, j] - b[j])) / scale[j]).sum(axis=1))
