"""ε lower bounds: right closed forms, nominal false alarms, power where something leaks."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, norm

from skprivate.audit import epsilon_lower_bound
from skprivate.audit._epsilon import (
    _fdp_is_refuted,
    _gaussian_parameter,
    _inverse_blow_up,
    _one_run_p_value,
    _unfair_p_value,
)
from skprivate.audit.attacks._report import auc_interval, clopper_pearson, quantile_rate_interval, roc_auc


def coins(m, rng):
    return rng.random(m) < 0.5


def randomized_response(member, epsilon, rng):
    """The mechanism that is tight for pure ε: the coin, flipped with probability 1/(1+e^ε)."""
    flip = rng.random(member.size) < 1 / (1 + np.exp(epsilon))
    return (member ^ flip) + 1e-3 * rng.random(member.size)


# -- building blocks --------------------


def test_clopper_pearson_is_exact():
    for n, k in [(20, 0), (20, 3), (20, 20), (7, 5)]:
        low, high = clopper_pearson(k, n, 0.9)
        if k > 0:
            assert binom.sf(k - 1, n, low) == pytest.approx(0.05)
        else:
            assert low == 0.0
        if k < n:
            assert binom.cdf(k, n, high) == pytest.approx(0.05)
        else:
            assert high == 1.0


def test_quantile_rate_interval_covers():
    rng = np.random.default_rng(0)
    low, high = quantile_rate_interval(3, 100, 0.9)
    # the third largest of 100 uniforms; P(score > it) = 1 − it
    exceed = 1 - np.sort(rng.random((4000, 100)), axis=1)[:, -3]
    inside = np.mean((exceed >= low) & (exceed <= high))
    assert abs(inside - 0.9) < 5 * np.sqrt(0.09 / 4000)


def test_auc_and_its_interval():
    rng = np.random.default_rng(1)
    member = coins(60, rng)
    scores = np.round(rng.normal(size=60) + member, 1)
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[member] for b in scores[~member]]
    assert roc_auc(scores, member) == pytest.approx(np.mean(pairs))
    low, high = auc_interval(0.6, 50, 70, 0.95)
    width = np.sqrt(np.log(40) * 120 / (2 * 3500))
    assert (low, high) == pytest.approx((0.6 - width, 0.6 + width))


def test_one_run_p_value_for_pure_privacy_is_the_binomial_tail():
    assert _one_run_p_value(1.0, 0.0, 50, 30, 25) == pytest.approx(binom.sf(24, 30, np.e / (1 + np.e)))
    assert _one_run_p_value(1.0, 1e-3, 50, 30, 25) > _one_run_p_value(1.0, 0.0, 50, 30, 25)


def test_gaussian_curve_is_calibrated():
    mu = _gaussian_parameter(2.0, 1e-5)
    delta = norm.cdf(-2 / mu + mu / 2) - np.exp(2) * norm.cdf(-2 / mu - mu / 2)
    assert delta == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize("trade_off", ["approximate", "gaussian"])
def test_inverse_blow_up_inverts_the_trade_off_curve(trade_off):
    epsilon, delta = 1.3, 1e-2
    inverse = _inverse_blow_up(epsilon, delta, trade_off)
    mu = _gaussian_parameter(epsilon, delta)
    for y in np.linspace(0.02, 0.99, 40):
        x = inverse(y)
        if trade_off == "gaussian":
            blown = norm.cdf(norm.ppf(x) + mu)
        else:
            blown = min(1.0, delta + np.exp(epsilon) * x, 1 - np.exp(-epsilon) * (1 - delta - x))
        assert blown == pytest.approx(y, abs=1e-9)


def test_fdp_test_never_refutes_the_truth_exactly():
    """Randomized response on m guessed coins: P(correct ≥ v) is binomial and must not be refuted."""
    for m, epsilon in itertools.product([6, 20], [0.3, 1.0, 2.0]):
        q = 1 / (1 + np.exp(-epsilon))
        for v in range(m + 1):
            tail = binom.sf(v - 1, m, q)
            if 1e-12 < tail < 1.0:
                assert not _fdp_is_refuted(epsilon + 1e-9, 0.0, "approximate", m, m, v, tail * (1 - 1e-9))


# -- nominal level --------------------

METHODS = [
    {"method": "clopper-pearson"},
    {"method": "clopper-pearson", "threshold": 0.0},
    {"method": "one-run"},
    {"method": "one-run", "n_guesses": 60},
    {"method": "one-run-fdp", "n_guesses": 60},
    {"method": "one-run-fdp", "delta": 1e-5, "trade_off": "gaussian", "n_guesses": 60},
]


@pytest.mark.parametrize("parameters", METHODS, ids=str)
def test_false_alarms_at_zero_privacy_loss(parameters):
    rng = np.random.default_rng(11)
    runs, alarms = 250, 0
    for run in range(runs):
        member = coins(200, rng)
        scores = rng.normal(size=200)
        alarms += epsilon_lower_bound(scores, member, confidence=0.9, random_state=run, **parameters) > 0
    assert alarms <= binom.isf(1e-6, runs, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", METHODS, ids=str)
def test_false_alarms_in_many_null_runs(parameters):
    rng = np.random.default_rng(12)
    runs, alarms = 400, 0
    for run in range(runs):
        member = coins(200, rng)
        bound = epsilon_lower_bound(rng.normal(size=200), member, confidence=0.95, random_state=run, **parameters)
        alarms += bound > 0
    assert alarms <= binom.isf(1e-6, runs, 0.05)


@pytest.mark.parametrize("parameters", METHODS[2:5], ids=str)
def test_bound_stays_below_a_true_epsilon_where_the_mechanism_is_tight(parameters):
    rng = np.random.default_rng(13)
    runs, failures = 150, 0
    for run in range(runs):
        member = coins(200, rng)
        scores = randomized_response(member, 1.0, rng)
        failures += epsilon_lower_bound(scores, member, confidence=0.9, random_state=run, **parameters) > 1.0
    assert failures <= binom.isf(1e-6, runs, 0.1)


@pytest.mark.slow
def test_choosing_the_threshold_on_the_tested_scores_would_cheat():
    """Why scores are split: calibrating on the tested scores themselves raises false alarms above nominal."""
    rng = np.random.default_rng(14)
    runs, alarms = 400, 0
    for _ in range(runs):
        member, scores = coins(400, rng), rng.normal(size=400)
        alarms += (
            epsilon_lower_bound(scores, member, confidence=0.8, calibration=(scores, member), method="clopper-pearson")
            > 0
        )
    assert alarms > binom.isf(1e-6, runs, 0.2)


# Unfair coins, ties in files that list members first, groups of unequal size.
NULLS = {
    "ties": ({"method": "one-run"}, 0.5, True),
    "ties, independent": ({"method": "clopper-pearson"}, 0.5, True),
    "few members": ({"method": "one-run", "p_member": 0.1}, 0.1, False),
    "many members": ({"method": "one-run", "p_member": 0.9, "n_guesses": (100, 10)}, 0.9, True),
    "unfair coins, delta": ({"method": "one-run", "p_member": 0.7, "delta": 1e-5, "n_guesses": (30, 30)}, 0.7, False),
    "unfair coins, curve": ({"method": "one-run-fdp", "p_member": 0.3, "n_guesses": 60}, 0.3, True),
    "unequal groups": ({"method": "clopper-pearson"}, 0.05, False),
}


def null_alarms(case, runs, confidence, seed):
    parameters, coin, ties = NULLS[case]
    rng = np.random.default_rng(seed)
    alarms = 0
    for run in range(runs):
        member = rng.random(200) < coin
        if not 0 < member.sum() < 200:
            continue
        if ties:
            member = np.sort(member)[::-1] if run % 2 else np.sort(member)
        scores = rng.integers(0, 3, size=200).astype(float) if ties else rng.normal(size=200)
        bound = epsilon_lower_bound(scores, member, confidence=confidence, random_state=run, **parameters)
        alarms += bound > 0
    return alarms


@pytest.mark.parametrize("case", NULLS)
def test_false_alarms_with_ties_unfair_coins_and_unequal_groups(case):
    assert null_alarms(case, 150, 0.9, 21) <= binom.isf(1e-7, 150, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("case", NULLS)
def test_false_alarms_with_ties_and_unfair_coins_in_many_null_runs(case):
    assert null_alarms(case, 400, 0.95, 22) <= binom.isf(1e-7, 400, 0.05)


@pytest.mark.slow
def test_bound_stays_below_a_true_epsilon_under_unfair_coins():
    """Randomized response is the worst case of each guess; claims of ε = 1 are true."""
    rng = np.random.default_rng(23)
    for coin, guesses in ((0.8, (160, 40)), (0.2, (20, 20)), (0.8, (0, 40))):
        failures = 0
        for run in range(150):
            member = rng.random(200) < coin
            scores = randomized_response(member, 1.0, rng)
            failures += (
                epsilon_lower_bound(
                    scores, member, method="one-run", p_member=coin, n_guesses=guesses, confidence=0.9, random_state=run
                )
                > 1.0
            )
        assert failures <= binom.isf(1e-7, 150, 0.1)


def test_unfair_p_value_is_the_fair_one_for_fair_coins_and_exact_by_enumeration():
    assert _unfair_p_value(1.3, 0.5, (12, 8), 15) == pytest.approx(_one_run_p_value(1.3, 0.0, 20, 20, 15))
    odds = 0.8 / 0.2
    yes, no = odds * np.e / (1 + odds * np.e), np.e / (np.e + odds)
    exact = sum(binom.pmf(i, 3, yes) * binom.pmf(j, 2, no) for i in range(4) for j in range(3) if i + j >= 4)
    assert _unfair_p_value(1.0, 0.8, (3, 2), 4) == pytest.approx(exact)


def test_unfair_coins_still_show_a_leak():
    rng = np.random.default_rng(24)
    member = rng.random(4000) < 0.8
    scores = randomized_response(member, 3.0, rng)
    options = {"method": "one-run", "p_member": 0.8, "random_state": 0}
    assert 1.5 < epsilon_lower_bound(scores, member, n_guesses=(3000, 600), **options) < 3.0
    assert 1.0 < epsilon_lower_bound(scores, member, n_guesses=(1500, 1500), delta=1e-6, **options) < 3.0
    with pytest.raises(ValueError, match="p_member must be the probability"):
        epsilon_lower_bound(scores, member, method="one-run")


# -- power --------------------


def test_power_on_a_known_mechanism():
    rng = np.random.default_rng(15)
    member = coins(4000, rng)
    bound = epsilon_lower_bound(rng.laplace(size=4000) + 2 * member, member, method="clopper-pearson", random_state=0)
    assert 1.5 < bound < 2.0
    scores = randomized_response(member, 2.0, rng)
    for method in ("one-run", "one-run-fdp"):
        assert 1.6 < epsilon_lower_bound(scores, member, method=method, n_guesses=4000) < 2.05


def test_gaussian_curve_gives_more_than_any_curve():
    rng = np.random.default_rng(16)
    member = coins(1000, rng)
    scores = member + 0.2 * rng.normal(size=1000)
    options = {"method": "one-run-fdp", "delta": 1e-5, "n_guesses": 200}
    assert epsilon_lower_bound(scores, member, trade_off="gaussian", **options) > epsilon_lower_bound(
        scores, member, **options
    )


def test_number_of_guesses_from_calibration_data():
    rng = np.random.default_rng(17)
    member, other = coins(800, rng), coins(800, rng)
    scores, reference = member + 0.4 * rng.normal(size=800), other + 0.4 * rng.normal(size=800)
    bound = epsilon_lower_bound(scores, member, method="one-run", calibration=(reference, other))
    assert bound > 2.0
    assert epsilon_lower_bound(scores, member, method="one-run") > 2.0


# -- errors --------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delta": 1.0}, "delta"),
        ({"confidence": 0.0}, "confidence"),
        ({"method": "magic"}, "method"),
        ({"method": None}, "method must be stated: 'clopper-pearson' if each"),
        ({"n_guesses": 3}, "n_guesses"),
        ({"p_member": 0.3}, "p_member belongs"),
        ({"method": "one-run", "p_member": 1.0}, "p_member"),
        ({"method": "one-run", "threshold": 0.0}, "threshold"),
        ({"method": "one-run", "n_guesses": 11}, "n_guesses"),
        ({"method": "one-run-fdp", "trade_off": "gaussian"}, "delta"),
    ],
)
def test_bad_arguments(parameters, message):
    with pytest.raises(ValueError, match=message):
        epsilon_lower_bound(np.arange(10.0), np.arange(10) % 2, **{"method": "clopper-pearson", **parameters})


@pytest.mark.parametrize(
    ("scores", "membership", "message"),
    [
        (np.zeros((3, 2)), [0, 1, 1], "one-dimensional"),
        ([0.0, np.nan], [0, 1], "finite"),
        ([0.0, 1.0], [0, 2], "0/1"),
        ([0.0, 1.0], [1, 1], "both"),
    ],
)
def test_bad_data(scores, membership, message):
    with pytest.raises(ValueError, match=message):
        epsilon_lower_bound(scores, membership, method="one-run")
