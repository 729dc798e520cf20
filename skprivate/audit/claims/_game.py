"""The course of an audit: fits, learning from them, bets, and when to stop."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.parallel import Parallel, delayed

from skprivate.audit.claims._coins import Design
from skprivate.audit.claims._forecasts import N_EXPERTS, Forecaster
from skprivate.audit.claims._redraws import Redraws
from skprivate.audit.claims._released import Observer, stack_released
from skprivate.audit.claims._wagers import Claim, Wagers, claimed_curve, family, of_group, ratios
from skprivate.privacy import GaussianEvent, ZeroConcentratedEvent

__all__ = ["Fits", "Game", "Stated", "choose_players"]

#: Fits of one coin from which a pair is learned before the first bet.
_PILOT = 64
#: Coins that are enough to learn a score from.
_ENOUGH = 8000
#: Rounds of draws made again: before the first bet, and between two looks.
_PRACTICE, _BLOCK = 400, 200
#: Shares of the time and of the fits after which practice ends: of draws, of designs of many coins, of pairs.
_UNTIL = (0.2, 0.3, 0.4)
#: Place of the claim of half the ε among the claims that are bet against, after the stated one.
_HALF = 10
#: By how much a later design must seem faster: practice is short, and groups come first.
_CLEARLY = 1.3
#: Total variation at which few rounds tell the claim from one twice as large, and the largest group tried.
_APART, _LARGEST = 0.8, 64


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

    def left(self, share: float = 1.0) -> float:
        """Seconds until so much of the time is used."""
        return math.inf if self.max_seconds is None else share * self.max_seconds - self.seconds()

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


class Book(NamedTuple):
    """The claims that are bet against where one coin decides so many units, and the ε' of the bets."""

    at: Any
    claims: list[Claim]


class Game:
    """The wealth of the bets against the claim and against a family of other claims.

    A claim for one unit is a claim for groups of them, larger and therefore told apart from its double in fewer rounds:
    μ = .12 needs thousands of coins, 17μ = 2 a hundred.
    """

    def __init__(self, claim: Stated, confidence: float, rng):
        self.stated, self.rng = claim, rng
        self._goal = -math.log1p(-confidence)
        gaussian = any(isinstance(event, GaussianEvent | ZeroConcentratedEvent) for event, _ in claim.events)
        self.family = "pure" if claim.delta == 0.0 else "gaussian" if gaussian else "approximate"
        steps = np.concatenate([np.arange(1, 30) / 20, np.geomspace(1.5, 12.0, 20)])
        self.epsilons = claim.epsilon * steps
        self._books: dict[int, Book] = {}
        self._peaks = np.zeros(1 + self.epsilons.size)

    def book(self, n_units: int) -> Book:
        """The claims for so many units."""
        if n_units not in self._books:
            claim = self.stated
            at = ratios(n_units * claim.epsilon)
            stated = claimed_curve(claim.epsilon, claim.delta, claim.events, at, n_units)
            others = family(self.family, self.epsilons, claim.delta, at, n_units)
            self._books[n_units] = Book(at, [stated, *others])
        return self._books[n_units]

    @property
    def units_apart(self) -> int:
        """How many units make the claimed total variation large; 1 where that of one is, or groups are unknown."""
        try:
            for event, _ in self.stated.events:
                of_group(event, 2)
        except TypeError:
            return 1
        return int(np.clip(round(_APART / max(self.book(1).claims[0].deltas[0], 1e-9)), 1, _LARGEST))

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

    def __init__(self, fits: Fits, game: Game, design: Design, name: str = ""):
        self.fits, self.game, self.design = fits, game, design
        self.name, self.n_coins, self.n_units = name or design.name, design.n_coins, design.n_units
        self.book = game.book(design.n_units)
        self.spent = 0.0
        self._cost = 0.0
        self._features: list[Any] = []
        self._coins: list[Any] = []
        self._known = self._learned = 0
        self._forecaster: Any = None
        self._wagers = Wagers(self.book.claims, self.book.at, N_EXPERTS)

    def prepare(self, seconds: float) -> bool:
        """Before the first toss; whether the design shows anything, and in so little time."""
        return True

    def toss(self, rounds: int) -> tuple[Any, Any]:
        """Coins and their features: rows of coins that belong to one another, and as many arrays (n_coins, p)."""
        raise NotImplementedError

    def rehearsal(self, fits: float) -> tuple[int, int]:
        """Rounds of practice, where so many fits are left for it; and how many of them at a time."""
        raise NotImplementedError

    def practise(self, seconds: float, fits: float) -> float:
        """Tosses that only teach. Returns how fast bets against half the claim would have grown, by the second."""
        start = self.fits.seconds()
        if not self.prepare(seconds):
            return -math.inf
        before = self.fits.seconds()
        rounds, block = self.rehearsal(fits)
        tosses, features = [], []
        while len(tosses) < rounds and (not tosses or self.fits.seconds() - start < seconds):
            coins, shown = self.toss(min(block, rounds - len(tosses)))
            tosses += list(coins)
            features += list(shown)
        cost = max(self.fits.seconds() - before, 1e-9)
        self._cost = cost / len(tosses)
        self._remember(tosses, features)
        rehearsed = Wagers(self.book.claims, self.book.at, N_EXPERTS)
        self._bet(rehearsed, self._forecaster.practice, tosses)
        self._wagers.favour(rehearsed)
        self.spent = self.fits.seconds() - start
        return float(rehearsed.log_wealth()[_HALF]) / cost

    def affordable(self, rounds: int) -> int:
        """At most so many rounds, and no more than there is time for."""
        left = self.fits.left() / max(self._cost, 1e-9)
        return max(1, rounds if left > rounds else int(left))

    def play(self) -> None:
        """A few tosses, and the bets on them."""
        start = self.fits.seconds()
        tosses, features = self.toss(self.rounds())
        self._bet(self._wagers, self._forecaster(np.vstack(features)), tosses)
        self._remember(tosses, features)
        self.spent += self.fits.seconds() - start

    def rounds(self) -> int:
        """Rounds between two looks."""
        raise NotImplementedError

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
            self._forecaster = Forecaster(rows, coins, np.exp(self.book.at), self.game.rng)
            self._learned = self._known


class FitPlayer(Player):
    """Every toss is a fit."""

    def __init__(self, design: Design, fits: Fits, game: Game):
        super().__init__(fits, game, design)
        self.of_one_fit = design.n_coins > 1
        self._layout: Any = None

    def prepare(self, seconds: float) -> bool:
        if self.n_coins == 1:
            return True
        codes = self.design.codes()
        seeds = [int(self.fits.rng.integers(2**31 - 1))] * len(codes)
        runs, before = self.fits.look(self.design, codes[:1], seeds=seeds[:1]), self.fits.seconds()
        runs += self.fits.look(self.design, codes[1:2], seeds=seeds[1:2])
        if (self.fits.seconds() - before) * len(codes) > seconds:
            return False
        runs += self.fits.look(self.design, codes[2:], seeds=seeds[2:])
        return self.design.trace(runs) > 0

    def rehearsal(self, fits: float) -> tuple[int, int]:
        rounds = max(2, -(-min(_PILOT, max(20, self.fits.n_runs // 10)) // self.n_coins))
        rounds = int(max(2 if self.n_coins > 1 else 8, min(rounds, fits)))
        return rounds, 1 if self.n_coins > 1 else 8 if self.fits.n_jobs in (None, 1) else rounds

    def rounds(self) -> int:
        rounds = (1 if self.n_coins > 1 else 8) * (1 if self.fits.n_jobs in (None, 1) else 8)
        return self.affordable(max(1, min(rounds, self.fits.n_runs - self.fits.made)))

    def toss(self, rounds: int) -> tuple[Any, Any]:
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
        super().__init__(fits, game, pair, "draws")

    def prepare(self, seconds: float) -> bool:
        self.fits.made += 3
        self.redraws = Redraws(self.fits.observer, self.design, self.fits.seed())
        return bool(self.redraws.steps)

    def rehearsal(self, fits: float) -> tuple[int, int]:
        return _PRACTICE, _PRACTICE // 16

    def rounds(self) -> int:
        return self.affordable(_BLOCK)

    def toss(self, rounds: int) -> tuple[Any, Any]:
        tosses = self.game.rng.random((rounds, 1)) < 0.5
        return tosses, self.redraws.features(tosses[:, 0])[:, None, :]


def choose_players(options: list[Design], fits: Fits, game: Game, observable: Any) -> list[Player]:
    """Whose practice suggests that bets grow fastest, none of whom has bet yet: of fits, and of draws made again.

    Pairs, which need many more fits to learn from, are tried where no design of many coins shows anything, those of one
    unit where no group does.
    """
    failures: list[Exception] = []

    def best(players, share):
        found: tuple[float, Any] = (-math.inf, None)
        for k, player in enumerate(players):
            waiting = len(players) - k
            seconds, runs = fits.left(share) / waiting, (share * fits.n_runs - fits.made) / waiting
            if found[1] and min(seconds, runs) <= 0.0:
                break  # the later ones are not known to be better
            try:
                growth = player.practise(seconds, runs)
                if growth > (-math.inf if found[1] is None else _CLEARLY * max(found[0], 0.0)):
                    found = growth, player
            except ValueError as failure:  # not a valid input for this estimator, as a class without rows
                failures.append(failure)
        return found

    pairs = [design for design in options if design.n_coins == 1]
    singles = [design for design in pairs if design.n_units == 1]
    groups = [design for design in pairs if design.n_units > 1]
    again, rival = -math.inf, None
    if observable in ("all", "mechanism"):
        again, rival = best([RedrawPlayer(pair, fits, game) for pair in groups or singles], _UNTIL[0])
    growth, player = best(
        [FitPlayer(design, fits, game) for design in options if design.n_coins > 1], _UNTIL[1]
    )
    for alike in (groups, singles):
        if alike and not growth > 0.0 and (rival is None or observable == "all"):
            found = best([FitPlayer(design, fits, game) for design in alike], _UNTIL[2])
            if player is None or found[0] > max(growth, 0.0):  # a pair that shows nothing either is no better
                growth, player = found
    players = [each for each in (player, rival) if each is not None]
    if observable == "mechanism":  # both look at the same draws
        players = [rival if again > growth else player]
    if not any(players):
        message = "No design makes a valid input for this estimator; pass neighbour= explicitly."
        raise ValueError(message) from (failures[-1] if failures else None)
    return players
