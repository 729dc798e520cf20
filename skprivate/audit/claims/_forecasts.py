"""From what former fits gave away to a probability for each coin of the next one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from skprivate.audit.claims._wagers import Forecast

__all__ = ["N_EXPERTS", "Forecaster"]

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Score = Callable[[Array], Array]
_LIMIT = 400
_FOLDS = 4
#: Numbers of groups of equal size into which scores are sorted, one expert each; another finds the groups itself.
_GROUPS = (2, 5, 40, 14)
N_EXPERTS = len(_GROUPS) + 1


class Forecaster:
    """Learns one scalar score of the features of a coin, and how often coins of such a score show heads.

    Parameters
    ----------
    features : ndarray of shape (n, p)
        What is known of former coins.
    coins : ndarray of shape (n,)
    ratios : ndarray
        λ of the bets on a curve; for each, the share of coins that is worth a guess is learned too.
    rng : numpy.random.Generator
        Public randomness of the folds.

    Attributes
    ----------
    practice : Forecast
        Of the former coins themselves, from scores and shares that did not see them.
    """

    def __init__(self, features: Array, coins: Mask, ratios: Array, rng: np.random.Generator):
        prepare = _prepared(features)
        z = prepare(features)
        if min(coins.sum(), (~coins).sum()) < 2 * _FOLDS:
            z = z[:, :0]  # too few to learn from: no opinion
        fold = np.zeros(coins.size, dtype=int)
        for side in (np.flatnonzero(coins), np.flatnonzero(~coins)):
            fold[rng.permutation(side)] = np.arange(side.size) % _FOLDS
        best = None
        for learn in _views(z, coins):
            scores = np.empty(coins.size)
            for f in range(_FOLDS):
                inside = fold != f
                scores[~inside] = learn(z[inside], coins[inside])(z[~inside])
            loss = _loss(_histogram(scores, coins, 14)(scores), coins)
            if best is None or loss < best[0]:
                best = loss, learn, scores
        _, learn, scores = best
        score = learn(z, coins)
        self._score: Score = lambda rows: score(prepare(rows))
        self._heads = _experts(scores, coins)
        heads = np.empty((N_EXPERTS, coins.size))
        for f in range(_FOLDS):
            inside = fold != f
            heads[:, ~inside] = [
                expert(scores[~inside]) for expert in _experts(scores[inside], coins[inside])
            ]
        sure = np.maximum(heads[-1], 1.0 - heads[-1])
        self._shares = np.array([(sure > ratio / (1.0 + ratio)).mean() for ratio in ratios])
        self.practice = Forecast(heads, self._shares)

    def __call__(self, features: Array) -> Forecast:
        """A forecast for coins not yet seen."""
        scores = self._score(features)
        return Forecast(np.array([expert(scores) for expert in self._heads]), self._shares)


def _prepared(features: Array) -> Score:
    """Coordinates that vary, on one scale, with heavy tails drawn in."""
    centre = np.median(features, axis=0)
    low, high = np.quantile(features, [0.25, 0.75], axis=0)
    spread = features.std(axis=0)
    keep = np.flatnonzero(spread > 0)
    if keep.size > _LIMIT:
        keep = np.sort(keep[np.argsort(spread[keep])[-_LIMIT:]])
    scale = np.where(high > low, high - low, np.where(spread > 0, spread, 1.0))

    def prepare(rows: Array) -> Array:
        return np.asarray(np.clip((rows[:, keep] - centre[keep]) / scale[keep], -1e12, 1e12))

    return prepare


def _histogram(scores: Array, coins: Mask, groups: int) -> Score:
    """Share of heads among scores alike; a coin more on each side keeps it from 0 and 1."""
    groups = int(np.clip(scores.size // 25, 2, groups))
    edges = np.unique(np.quantile(scores, np.arange(1, groups) / groups, method="nearest"))
    group = np.searchsorted(edges, scores, side="left")
    total = np.bincount(group, minlength=edges.size + 1)
    heads = (np.bincount(group, coins, edges.size + 1) + 0.5) / (total + 1.0)
    return lambda new: heads[np.searchsorted(edges, new, side="left")]


def _experts(scores: Array, coins: Mask) -> list[Score]:
    """From a score to the probability of heads; the last one also guesses."""
    return [*(_histogram(scores, coins, groups) for groups in _GROUPS), _steps(scores, coins)]


def _steps(scores: Array, coins: Mask) -> Score:
    """The monotone steps that fit best (isotonic regression): their edges lie where the coins change sides.

    Groups of equal size have theirs where half of the coins lie, which is somewhere else whenever these are not half
    heads.
    """
    values, place = np.unique(scores, return_inverse=True)
    total = np.bincount(place)
    heads = np.bincount(place, coins)
    ranks = (np.cumsum(total) - 0.5 * total)[place]
    rising = ranks[coins].mean() >= ranks[~coins].mean() if 0 < coins.sum() < coins.size else True
    level = isotonic_regression(heads / total, sample_weight=total, increasing=bool(rising))
    block = np.concatenate([[0], np.cumsum(np.diff(level) != 0.0)])
    shares = (np.bincount(block, heads) + 0.5) / (np.bincount(block, total) + 1.0)
    last = np.flatnonzero(np.diff(block))
    edges = 0.5 * (values[last] + values[last + 1])
    return lambda new: shares[np.searchsorted(edges, new, side="left")]


def _loss(heads: Array, coins: Mask) -> float:
    return float(-np.log(np.where(coins, heads, 1.0 - heads)).mean())


def _views(z: Array, coins: Mask) -> list[Callable[[Array, Mask], Score]]:
    """Ways to learn a score: discriminant directions, log-likelihood ratios of Laplace noise, single coordinates."""
    if z.shape[1] == 0:
        return [lambda rows, side: lambda new: np.zeros(len(new))]  # no opinion
    ways: list[Callable[[Array, Mask], Score]] = []
    p = z.shape[1]
    if p > 1:
        ways += [lambda rows, side: lambda new: new.mean(axis=1)]
        ways += [lambda rows, side, r=ridge: _discriminant(rows, side, r) for ridge in (1e-2, 1.0, np.inf)]
        ways += [
            lambda rows, side, k=k: _laplace_ratio(rows, side, k)
            for k in sorted({min(k, p) for k in (3, 10, 40)})
        ]
    spread = z.std(axis=0)
    gap = np.abs(z[coins].mean(axis=0) - z[~coins].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    ways += [lambda rows, side, j=j: lambda new: new[:, j] for j in np.argsort(gap)[::-1][:5]]
    return ways


def _both(z: Array) -> Array:
    squashed = np.arcsinh(z)
    return np.hstack([squashed, np.abs(squashed)])


def _discriminant(z: Array, coins: Mask, ridge: float) -> Score:
    z = _both(z)
    z = z / np.maximum(z.std(axis=0), 1e-9) if np.isinf(ridge) else z
    difference = z[coins].mean(axis=0) - z[~coins].mean(axis=0)
    within = np.vstack([z[coins] - z[coins].mean(axis=0), z[~coins] - z[~coins].mean(axis=0)])
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


def _laplace_ratio(z: Array, coins: Mask, k: int) -> Score:
    """``Σ_j (|x_j − a_j| − |x_j − b_j|)/s_j`` with a and b the medians of the two sides, over the k clearest j."""
    a, b = np.median(z[~coins], axis=0), np.median(z[coins], axis=0)
    scale = 0.5 * (np.abs(z[~coins] - a).mean(axis=0) + np.abs(z[coins] - b).mean(axis=0))
    scale = np.where(scale > 0.0, scale, np.inf)
    j = np.argsort(np.abs(a - b) / scale)[::-1][:k]
    return lambda new: np.asarray(
        ((np.abs(new[:, j] - a[j]) - np.abs(new[:, j] - b[j])) / scale[j]).sum(axis=1)
    )
