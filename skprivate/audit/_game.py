"""The course of an audit: fits, learning from them, bets, and when to stop."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skprivate.audit._coins import Design
from skprivate.audit._forecasts import Forecaster
from skprivate.audit._released import Observer, stack_released
from skprivate.audit._wagers import Wagers, claimed_curve, family, ratios
from skprivate.privacy import GaussianEvent, ZeroConcentratedEvent

__all__ = ["Fits", "Game", "Player", "Stated", "best_player"]

#: Fits of one coin from which a pair is learned before the first bet.
_PILOT = 64
#: Coins that are enough to learn a score from.
_ENOUGH = 8000


class Stated(NamedTuple):
    """A claim as it was stated; ``events`` is empty where only the numbers count."""

    epsilon: float
    delta: float
    events: Any
    unit: str
    adjacency: str


class Fits:
    """Makes fits as long as the budget lasts."""

    def __init__(self, observer: Observer, simulate, rng, n_jobs, n_runs, max_seconds):
        self.observer, self.simulate, self.rng, self.n_jobs = observer, simulate, rng, n_jobs
        self.n_runs, self.max_seconds, self.made = n_runs, max_seconds, 0
        # Other processes' time is not in ours.
        self._clock = time.process_time if n_jobs in (None, 1) else time.monotonic
        self._start = self._clock()

    def seconds(self) -> float:
        return self._clock() - self._start

    def over(self) -> bool:
        return self.made >= self.n_runs or (self.max_seconds is not None and self.seconds() >= self.max_seconds)

    def look(self, design: Design, tosses, *, seeds=None):
        """What fits on these tosses give away, one dictionary a fit."""
        if seeds is None:
            seeds = [self.seed() for _ in tosses]
        self.made += len(tosses)
        look = self.observer.look
        if self.n_jobs in (None, 1):
            return [look(design.make(c), s, design.probes) for c, s in zip(tosses, seeds, strict=True)]
        return Parallel(n_jobs=self.n_jobs)(
            delayed(look)(design.make(c), s, design.probes) for c, s in zip(tosses, seeds, strict=True)
        )

    def seed(self):
        return int(self.rng.integers(2**31 - 1)) if self.simulate else None


class Game:
    """The wealth of the bets against the claim and against a family of other claims."""

    def __init__(self, claim: Stated, confidence: float, rng):
        self.at, self.rng = ratios(claim.epsilon), rng
        self._goal = -math.log1p(-confidence)
        gaussian = any(isinstance(event, GaussianEvent | ZeroConcentratedEvent) for event, _ in claim.events)
        self.family = "pure" if claim.delta == 0.0 else "gaussian" if gaussian else "approximate"
        steps = np.concatenate([np.arange(1, 30) / 20, np.geomspace(1.5, 12.0, 20)])
        self.epsilons = claim.epsilon * steps
        stated = claimed_curve(claim.epsilon, claim.delta, claim.events, self.at)
        self.claims = [stated, *family(self.family, self.epsilons, claim.delta, self.at)]
        self._peaks = np.zeros(len(self.claims))

    def record(self, log_wealth) -> None:
        self._peaks = np.maximum(self._peaks, log_wealth)

    @property
    def refuted(self) -> bool:
        return bool(self._peaks[0] >= self._goal)

    @property
    def p_value(self) -> float:
        return math.exp(-self._peaks[0])

    @property
    def epsilon_lower_bound(self) -> float:
        """The largest ε of the family up to which all are refuted."""
        standing = np.flatnonzero(self._peaks[1:] < self._goal)
        first = standing[0] if standing.size else self.epsilons.size
        return float(self.epsilons[first - 1]) if first else 0.0


class Player:
    """One design: learns from its fits, forecasts the coins of the next one, and bets."""

    def __init__(self, design: Design, fits: Fits, game: Game):
        self.design, self.fits, self.game = design, fits, game
        self._layout: Any = None
        self._features: list[Any] = []
        self._coins: list[Any] = []
        self._learned = 0
        self._forecaster: Any = None
        self._wagers = Wagers(game.claims, game.at, 4)

    def practise(self) -> float:
        """Fits that only teach. Returns how fast they suggest that bets against half the claim grow, by the second."""
        start, made = self.fits.seconds(), self.fits.made
        design, fits = self.design, self.fits
        if design.n_coins > 1:
            codes = design.codes()
            seeds = [int(fits.rng.integers(2**31 - 1))] * len(codes)
            if design.trace(fits.look(design, codes, seeds=seeds)) == 0:
                return -math.inf
            before, made = fits.seconds(), fits.made
        else:
            before = start
        rounds = max(2, -(-min(_PILOT, max(10, fits.n_runs // 10)) // design.n_coins))
        tosses = self._toss(rounds)
        runs = fits.look(design, tosses)
        features = self._read(runs)
        self._remember(features, tosses)
        cost = (fits.seconds() - before) / (fits.made - made)
        half = claimed_curve(self.game.epsilons[9], 0.0, (), self.game.at)
        if math.isinf(self.game.claims[0].epsilon):
            half = half._replace(epsilon=math.inf, deltas=self.game.claims[10].deltas)
        trial = Wagers([half], self.game.at, 4)
        practice = self._forecaster.practice
        for k in range(rounds):
            own = slice(k * design.n_coins, (k + 1) * design.n_coins)
            trial.settle(practice._replace(heads=practice.heads[:, own]), tosses[k])
        return float(trial.log_wealth()[0]) / rounds / max(cost, 1e-9)

    def play(self) -> None:
        """A few fits, and the bets on them one by one."""
        block = 1 if self.design.n_coins > 1 else 8
        if self.fits.n_jobs not in (None, 1):
            block *= 8
        tosses = self._toss(min(block, self.fits.n_runs - self.fits.made))
        features = self._read(self.fits.look(self.design, tosses))
        m = self.design.n_coins
        forecast = self._forecaster(np.vstack(features))
        for k, coins in enumerate(tosses):
            own = slice(k * m, (k + 1) * m)
            self._wagers.settle(forecast._replace(heads=forecast.heads[:, own]), coins)
            self.game.record(self._wagers.log_wealth())
        self._remember(features, tosses)

    def _toss(self, n):
        return self.game.rng.random((n, self.design.n_coins)) < 0.5

    def _read(self, runs):
        """One array (n_coins, p) a fit."""
        if self.design.n_coins == 1:
            block, self._layout = stack_released(runs, self._layout)
            return list(block[:, None, :])
        parts = [self.design.features(run) for run in runs]
        if self._layout is None:
            self._layout = sorted(set.intersection(*(set(part) for part in parts)))
        nothing = np.zeros(self.design.n_coins)
        return [np.stack([part.get(name, nothing) for name in self._layout] + [nothing], axis=1) for part in parts]

    def _remember(self, features, tosses) -> None:
        if self._learned >= _ENOUGH:
            return
        self._features += features
        self._coins += list(tosses)
        known = len(self._coins) * self.design.n_coins
        if known >= 1.6 * self._learned:
            features, coins = np.vstack(self._features), np.concatenate(self._coins)
            self._forecaster = Forecaster(features, coins, np.exp(self.game.at), self.game.rng)
            self._learned = known


def best_player(options: list[Design], fits: Fits, game: Game) -> Player:
    """The design whose practice suggests that bets grow fastest; none has bet yet.

    Pairs, which need many more fits to learn from, are tried where no design of many coins shows anything.
    """
    best, error = None, None
    for many in (True, False):
        for design in options:
            if (design.n_coins > 1) != many:
                continue
            player = Player(design, fits, game)
            try:
                growth = player.practise()
            except ValueError as failure:  # not a valid input for this estimator, as a class without rows
                error = failure
                continue
            if growth > -math.inf and (best is None or growth > best[0]):
                best = growth, player
        if best is not None and best[0] > 0.0:
            break
    if best is None:
        raise ValueError(
            "No design makes a valid input for this estimator; pass neighbour= explicitly."
        ) from error
    return best[1]
