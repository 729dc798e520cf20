"""Whole games against mechanisms of known laws: learning, favoured bets, groups, many looks."""

import numpy as np
import pytest
from scipy.stats import binom

from skprivate.audit.claims._bets import Bets, Claim, Forecaster, Game, _steps, _views, claimed_curve
from skprivate.audit.claims._runs import Runs, Subject
from skprivate.privacy import GaussianEvent, PureEvent, public_generator
from skprivate.privacy.accounting._gaussian import gaussian_delta

AT = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
MU, DELTA = 0.3, 0.05


def respond(coins, epsilon, rng):
    """Randomised response, which attains ε at every coin."""
    return coins ^ (rng.random(coins.shape) > 1.0 / (1.0 + np.exp(-epsilon)))


def leak(sides, rng):
    """The worst (1, δ)-private answers: given away, or randomised."""
    gives = rng.random(sides.shape) < DELTA
    answer = np.where(gives, sides, respond(sides, 1.0, rng))
    return np.stack([answer, gives], axis=-1).astype(float)


def shifted(sides, mu, rng):
    return (rng.normal(size=sides.shape) + mu * (sides - 0.5))[..., None]


GAUSSIAN = Claim(1.0, gaussian_delta(MU, 1.0), events=((GaussianEvent(1 / MU), 1),))
#: Claim, units that a bit decides, and a mechanism that uses up the claim.
NULLS = {
    "pure": (Claim(1.0), 1, lambda s, rng: respond(s, 1.0, rng)[..., None]),
    "pure, event, group": (
        Claim(0.5, events=((PureEvent(0.5, "response"), 1),)),
        4,
        lambda s, rng: respond(s, 2.0, rng)[..., None],
    ),
    "approximate": (Claim(1.0, DELTA), 1, leak),
    "gaussian, group": (GAUSSIAN, 6, lambda s, rng: shifted(s, 6 * MU, rng)),
}


def play(claim, mechanism, n_units, rng, looks):
    """Runs after which the claim is refuted at 0.2 or 0.001; None if it is not."""
    runs = Runs(Subject(lambda X: X), rng, None, 10**9, None)

    def sample(sides):
        shown = np.asarray(mechanism(sides, rng), dtype=float)
        return np.concatenate([shown, np.zeros((len(sides), 1))], axis=1)

    game = Game(runs, sample, claim, n_units, rng)
    game.practise(64, 64, np.inf)
    refuted = {}
    for look in range(looks):
        game.play(8)
        for level in (0.2, 0.001):
            if game.p_value <= level:
                refuted.setdefault(level, 64 + 8 * (look + 1))
    return refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_false_alarms_in_many_null_audits(name):
    claim, n_units, mechanism = NULLS[name]
    rng = np.random.default_rng(7)
    alarms = sum(0.2 in play(claim, mechanism, n_units, rng, looks=5) for _ in range(400))
    assert alarms <= binom.isf(1e-6, 400, 0.2)


@pytest.mark.slow
def test_a_claim_is_told_from_one_twice_as_large_in_few_fits():
    """A Gaussian pair at μ = 2.2 with too little noise: with its law known 160 fits would do, and 64 are practice."""
    mu = 2.2 / 8
    claim = Claim(1.0, gaussian_delta(mu, 1.0), events=((GaussianEvent(1 / mu), 1),))
    fits = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = play(claim, lambda s, rng: shifted(s, 1.75 * 2.2, rng), 8, rng, looks=100)
        fits.append(found.get(0.001, 10**4))
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
    curves = [claimed_curve(Claim(*epsilon_delta), AT), claimed_curve(Claim(0.5), AT)]
    rng = np.random.default_rng(0)
    coins = rng.random(60) < 0.5
    heads = np.where(coins, 0.95, 0.05)
    practice, favoured, even = (Bets(curves, AT) for _ in range(3))
    practice.settle(heads, coins)
    favoured.favour(practice)
    for bets in (even, favoured):
        np.testing.assert_allclose(bets.log_wealth(), 0.0, atol=1e-12)
    for bets in (even, favoured):
        bets.settle(heads, coins)
    gained = favoured.log_wealth() - even.log_wealth()
    assert (gained > 0.5).all() and (gained <= np.log(100)).all()
    # at least half of what the best bet of practice wins
    best = favoured.all.max(axis=(1, 2))
    assert (favoured.log_wealth() >= best - np.log(2 * 2 * 29)).all()


def test_practice_is_scored_by_what_did_not_see_it():
    """Noise alone: whoever is asked about the coins that were learned from would seem to know them."""
    won = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        coins = rng.random(64) < 0.5
        told = Forecaster(rng.normal(size=(64, 3)), coins, rng).practice
        won.append(np.log(2.0 * np.where(coins, told, 1.0 - told)).mean())
    assert np.mean(won) < 0.0


def test_a_number_that_never_changes_reveals_nothing_and_breaks_nothing():
    rng = public_generator(0)
    z, sides = rng.normal(size=(20, 3)), np.arange(20) % 2 == 0
    z[:, 1] = 0.0
    z[sides, 2] += 9.0
    scores = [learn(z, sides)(z) for learn in _views(z, sides)[-3:]]  # single numbers, the best of them first
    np.testing.assert_array_equal(scores[0], z[:, 2])
    np.testing.assert_array_equal(scores[2], z[:, 1])


def test_forecasts_stand_a_jump_from_tiny_numbers_to_infinite_ones():
    """An infinite number comes as ±1e250; most runs release about 1e-200."""
    rng, sides = public_generator(0), np.arange(40) % 2 == 0
    rows = 1e-200 * rng.normal(size=(40, 1))
    rows[::8] = 1e250
    assert np.isfinite(Forecaster(rows, sides, rng)(rows)).all()
