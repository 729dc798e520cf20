"""The course of an audit: fits, learning from them, bets, and when to stop."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.parallel import Parallel, delayed

from skprivate.audit._coins import Design
from skprivate.audit._forecasts import N_EXPERTS, Forecaster
from skprivate.audit._redraws import Redraws
from skprivate.audit._released import Observer, stack_released
from skprivate.audit._wagers import Wagers, claimed_curve, family, ratios
from skprivate.privacy import GaussianEvent, ZeroConcentratedEvent

__all__ = ["Fits", "Game", "Stated", "choose_players"]

#: Fits of one coin from which a pair is learned before the first bet.
_PILOT = 64
#: Coins that are enough to learn a score from.
_ENOUGH = 8000
#: Rounds of draws made again: before the first bet, and between two looks.
_PRACTICE, _BLOCK = 400, 200


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
        return self.made >= self.n_runs or (
            self.max_seconds is not None and self.seconds() >= self.max_seconds
        )

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

    def record(self, players) -> None:
        """Note the wealth of the bets: the average of the players' wealths, each of whom has an equal share."""
        wealth = logsumexp([player.log_wealth() for player in players], axis=0) - math.log(len(players))
        self._peaks = np.maximum(self._peaks, wealth)

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
    """Learns from the coins of one design, forecasts those to come, and bets. Subclasses know how to toss them."""

    #: Whether the coins of one toss decide one fit.
    of_one_fit = False

    def __init__(self, fits: Fits, game: Game, name: str, n_coins: int):
        self.fits, self.game, self.name, self.n_coins = fits, game, name, n_coins
        self.spent = 0.0
        self._features: list[Any] = []
        self._coins: list[Any] = []
        self._known = self._learned = 0
        self._forecaster: Any = None
        self._wagers = Wagers(game.claims, game.at, N_EXPERTS)

    def prepare(self) -> bool:
        """Before the first toss; whether the design shows anything."""
        return True

    def toss(self, first: bool) -> tuple[Any, Any]:
        """Coins and their features: rows of coins that belong to one another, and as many arrays (n_coins, p)."""
        raise NotImplementedError

    def practise(self) -> float:
        """Tosses that only teach. Returns how fast bets against half the claim would have grown, by the second."""
        start = self.fits.seconds()
        if not self.prepare():
            return -math.inf
        before = self.fits.seconds()
        tosses, features = self.toss(first=True)
        cost = max(self.fits.seconds() - before, 1e-9)
        self._remember(tosses, features)
        half = self.game.claims[10]
        trial = Wagers([half], self.game.at, N_EXPERTS)
        self._bet(trial, self._forecaster.practice, tosses)
        self.spent = self.fits.seconds() - start
        return float(trial.log_wealth()[0]) / cost

    def play(self) -> None:
        """A few tosses, and the bets on them."""
        start = self.fits.seconds()
        tosses, features = self.toss(first=False)
        self._bet(self._wagers, self._forecaster(np.vstack(features)), tosses)
        self._remember(tosses, features)
        self.spent += self.fits.seconds() - start

    def log_wealth(self):
        return self._wagers.log_wealth()

    def _bet(self, wagers: Wagers, forecast, tosses) -> None:
        if not self.of_one_fit:
            wagers.settle(forecast, np.concatenate(tosses), of_one_fit=False)
            return
        m = self.n_coins
        for k, coins in enumerate(tosses):
            own = slice(k * m, (k + 1) * m)
            wagers.settle(forecast._replace(heads=forecast.heads[:, own]), coins, of_one_fit=True)

    def _remember(self, tosses, features) -> None:
        if self._learned >= _ENOUGH:
            return
        self._features += list(features)
        self._coins += list(tosses)
        self._known += len(tosses) * self.n_coins
        if self._known >= 1.6 * self._learned:
            rows, coins = np.vstack(self._features), np.concatenate(self._coins)
            self._forecaster = Forecaster(rows, coins, np.exp(self.game.at), self.game.rng)
            self._learned = self._known


class FitPlayer(Player):
    """Every toss is a fit."""

    def __init__(self, design: Design, fits: Fits, game: Game):
        super().__init__(fits, game, design.name, design.n_coins)
        self.design, self.of_one_fit = design, design.n_coins > 1
        self._layout: Any = None

    def prepare(self) -> bool:
        if self.n_coins == 1:
            return True
        codes = self.design.codes()
        seeds = [int(self.fits.rng.integers(2**31 - 1))] * len(codes)
        return self.design.trace(self.fits.look(self.design, codes, seeds=seeds)) > 0

    def toss(self, first: bool) -> tuple[Any, Any]:
        if first:
            rounds = max(2, -(-min(_PILOT, max(20, self.fits.n_runs // 10)) // self.n_coins))
        else:
            rounds = 1 if self.n_coins > 1 else 8
            rounds = min(
                rounds * (1 if self.fits.n_jobs in (None, 1) else 8), self.fits.n_runs - self.fits.made
            )
        tosses = self.game.rng.random((rounds, self.n_coins)) < 0.5
        return tosses, self._read(self.fits.look(self.design, tosses))

    def _read(self, runs):
        if self.n_coins == 1:
            block, self._layout = stack_released(runs, self._layout)
            return list(block[:, None, :])
        parts = [self.design.features(run) for run in runs]
        if self._layout is None:
            self._layout = sorted(set.intersection(*(set(part) for part in parts)))
        nothing = np.zeros(self.n_coins)
        return [
            np.stack([*(part.get(name, nothing) for name in self._layout), nothing], axis=1) for part in parts
        ]


class RedrawPlayer(Player):
    """Every toss draws afresh what two fits asked for."""

    def __init__(self, pair: Design, fits: Fits, game: Game):
        super().__init__(fits, game, "draws", 1)
        self.pair = pair

    def prepare(self) -> bool:
        self.fits.made += 2
        self.redraws = Redraws(self.fits.observer, self.pair, self.fits.seed())
        return bool(self.redraws.steps)

    def toss(self, first: bool) -> tuple[Any, Any]:
        tosses = self.game.rng.random((_PRACTICE if first else _BLOCK, 1)) < 0.5
        return tosses, self.redraws.features(tosses[:, 0])[:, None, :]


def choose_players(options: list[Design], fits: Fits, game: Game, observable: Any) -> list[Player]:
    """Whose practice suggests that bets grow fastest, none of whom has bet yet: of fits, and of draws made again.

    Pairs, which need many more fits to learn from, are tried where no design of many coins shows anything.
    """
    failures: list[Exception] = []

    def best(players):
        ranked = [(-math.inf, None)]
        for player in players:
            try:
                ranked.append((player.practise(), player))
            except ValueError as failure:  # not a valid input for this estimator, as a class without rows
                failures.append(failure)
        return max(ranked, key=lambda each: each[0])

    pairs = [design for design in options if design.n_coins == 1]
    again, rival = -math.inf, None
    if observable in ("all", "mechanism"):
        again, rival = best([RedrawPlayer(pair, fits, game) for pair in pairs])
    growth, player = best([FitPlayer(design, fits, game) for design in options if design.n_coins > 1])
    if not growth > 0.0 and (rival is None or observable == "all"):
        growth, player = max(
            (growth, player),
            best([FitPlayer(design, fits, game) for design in pairs]),
            key=lambda each: each[0],
        )
    players = [each for each in (player, rival) if each is not None]
    if observable == "mechanism":  # both look at the same draws
        players = [rival if again > growth else player]
    if not any(players):
        message = "No design makes a valid input for this estimator; pass neighbour= explicitly."
        raise ValueError(message) from (failures[-1] if failures else None)
    return players
