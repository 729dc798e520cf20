"""Whole games against mechanisms of known laws: learning, favoured bets, many coins in a fit, groups, many looks."""

import numpy as np
import pytest
from scipy.stats import binom

from skprivate.audit.claims._coins import Design
from skprivate.audit.claims._forecasts import N_EXPERTS, Forecaster, _steps
from skprivate.audit.claims._game import Fits, Game, Player, Stated
from skprivate.audit.claims._wagers import Forecast, Wagers, claimed_curve, ratios
from skprivate.privacy import GaussianEvent, PureEvent
from skprivate.privacy.accounting._gaussian import gaussian_delta

MU, DELTA = 0.3, 0.05


def respond(coins, epsilon, rng):
    """Randomised response, which attains ε at every coin."""
    return coins ^ (rng.random(coins.shape) > 1.0 / (1.0 + np.exp(-epsilon)))


def leak(coins, rng, together):
    """The worst (1, δ)-private answers: all or none of a fit's coins are given away, or each by itself."""
    gives = rng.random((len(coins), 1) if together else coins.shape) < DELTA
    told = np.where(gives, coins, respond(coins, 1.0, rng))
    return np.stack([told, np.broadcast_to(gives, coins.shape)], axis=-1).astype(float)


def shifted(coins, mu, rng):
    return (rng.normal(size=coins.shape) + mu * (coins - 0.5))[..., None]


#: Claim, units and coins a fit, and a mechanism that uses up the claim.
NULLS = {
    "pure": (
        Stated(1.0, 0.0, (), "row", "replace-one"),
        1,
        1,
        lambda c, rng: respond(c, 1.0, rng)[..., None],
    ),
    "pure, event, group": (
        Stated(0.5, 0.0, ((PureEvent(0.5, "response"), 1),), "row", "replace-one"),
        4,
        1,
        lambda c, rng: respond(c, 2.0, rng)[..., None],
    ),
    "pure, many coins": (
        Stated(1.0, 0.0, (), "label", "replace-one"),
        1,
        40,
        lambda c, rng: respond(c, 1.0, rng)[..., None],
    ),
    "approximate": (Stated(1.0, DELTA, (), "row", "replace-one"), 1, 1, lambda c, rng: leak(c, rng, False)),
    "approximate, many coins": (
        Stated(1.0, DELTA, (), "row", "replace-one"),
        1,
        40,
        lambda c, rng: leak(c, rng, False),
    ),
    "approximate, all coins at once": (
        Stated(1.0, DELTA, (), "row", "replace-one"),
        1,
        40,
        lambda c, rng: leak(c, rng, True),
    ),
    "approximate, a few coins at once": (
        Stated(1.0, DELTA, (), "row", "replace-one"),
        1,
        10,
        lambda c, rng: leak(c, rng, True),
    ),
    "gaussian, group": (
        Stated(1.0, gaussian_delta(MU, 1.0), ((GaussianEvent(1 / MU), 1),), "row", "replace-one"),
        6,
        1,
        lambda c, rng: shifted(c, 6 * MU, rng),
    ),
    "gaussian, many coins": (
        Stated(1.0, gaussian_delta(MU, 1.0), ((GaussianEvent(1 / MU), 1),), "row", "replace-one"),
        1,
        40,
        lambda c, rng: shifted(c, MU, rng),
    ),
}


class Known(Player):
    """Fits of a mechanism whose law is known."""

    def __init__(self, game, mechanism, n_coins, n_units, rng):
        super().__init__(
            Fits(None, True, rng, None, 10**9, None), game, Design("known", n_coins, None, None, n_units)
        )
        self.of_one_fit = n_coins > 1
        self.mechanism, self.rng = mechanism, rng

    def toss(self, rounds):
        coins = self.rng.random((rounds, self.n_coins)) < 0.5
        shown = np.asarray(self.mechanism(coins, self.rng), dtype=float)
        return coins, list(np.concatenate([shown, np.zeros((*coins.shape, 1))], axis=-1))

    def rehearsal(self, fits):
        return (64, 64) if self.n_coins == 1 else (8, 8)

    def rounds(self):
        return 8 if self.n_coins == 1 else 1


def play(game, mechanism, n_coins, n_units, rng, looks):
    """Whether, and after how many fits, the claim is refuted."""
    game._peaks = np.zeros_like(game._peaks)
    player = Known(game, mechanism, n_coins, n_units, rng)
    player.practise(np.inf, np.inf)
    fits = player.rehearsal(np.inf)[0]
    for _ in range(looks):
        player.play()
        fits += player.rounds()
        game.record([player])
        if game.refuted:
            return fits
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_false_alarms_in_many_null_audits(name):
    claim, n_units, n_coins, mechanism = NULLS[name]
    rng = np.random.default_rng(7)
    game = Game(claim, 0.8, rng)
    alarms = sum(play(game, mechanism, n_coins, n_units, rng, looks=5) is not None for _ in range(400))
    assert alarms <= binom.isf(1e-6, 400, 0.2)


def test_a_claim_is_told_from_one_twice_as_large_in_few_fits():
    """A Gaussian pair at μ = 2.2 with too little noise: with its law known 160 fits would do, and 64 are practice."""
    mu = 2.2 / 8
    claim = Stated(1.0, gaussian_delta(mu, 1.0), ((GaussianEvent(1 / mu), 1),), "row", "replace-one")
    fits = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        game = Game(claim, 0.999, rng)
        fits.append(play(game, lambda c, rng: shifted(c, 1.75 * 2.2, rng), 1, 8, rng, looks=100) or 10**4)
    assert np.mean(fits) < 250  # about 190, with a standard error of 12


@pytest.mark.parametrize("side", [1, -1])
def test_steps_are_where_the_coins_change_sides(side):
    scores = np.repeat(np.arange(50.0), 2)
    coins = side * scores >= side * 35
    forecast = _steps(scores, coins)
    np.testing.assert_array_equal(forecast(scores) > 0.5, coins)
    assert forecast(np.array([-1e9, 1e9])).tolist() == [forecast(scores)[0], forecast(scores)[-1]]
    assert np.unique(_steps(np.zeros(9), np.arange(9) < 6)(np.zeros(2))).tolist() == [0.65]


@pytest.mark.parametrize("epsilon_delta", [(1.0, 0.0), (1.0, 1e-3)])
def test_wealth_is_an_average_before_and_after_practice(epsilon_delta):
    at = ratios(1.0)
    claims = [claimed_curve(*epsilon_delta, (), at), claimed_curve(0.5, 0.0, (), at)]
    rng = np.random.default_rng(0)
    coins = rng.random(60) < 0.5
    heads = np.tile(np.where(coins, 0.95, 0.05), (N_EXPERTS, 1))
    practice, favoured, even = (Wagers(claims, at, N_EXPERTS) for _ in range(3))
    practice.settle(Forecast(heads, np.ones(at.size)), coins, of_one_fit=False)
    favoured.favour(practice)
    for wagers in (even, favoured):
        np.testing.assert_allclose(wagers.log_wealth(), 0.0, atol=1e-12)
    for wagers in (even, favoured):
        wagers.settle(Forecast(heads, np.ones(at.size)), coins, of_one_fit=False)
    gained = favoured.log_wealth() - even.log_wealth()
    assert (gained > 0.5).all() and (gained <= np.log(100)).all()
    # at least half of what the best bet of practice wins
    best = np.maximum(favoured.on_curve.max(axis=(1, 2)), favoured.on_odds.max(axis=1))
    assert (favoured.log_wealth() >= best - np.log(2 * 2 * 29)).all()


def test_practice_is_scored_by_what_did_not_see_it():
    """Noise alone: whoever is asked about the coins that were learned from would seem to know them."""
    won = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        coins = rng.random(64) < 0.5
        told = Forecaster(rng.normal(size=(64, 3)), coins, np.ones(1), rng).practice.heads[-1]
        won.append(np.log(2.0 * np.where(coins, told, 1.0 - told)).mean())
    assert np.mean(won) < 0.0
