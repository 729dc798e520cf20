"""ε in words: never below the best attack, and reached by it."""

import math
from functools import cache, partial

import numpy as np
import pytest
from helpers.exact_losses import compose, exact_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

from skprivate import UserLevelSGDRegressor
from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PureEvent,
    SimulatedNoiseWarning,
    compose_epsilon,
    epsilon_of_risk,
    open_release,
)
from skprivate.privacy.noise._bits import public_generator

RATES = np.array([1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999])


def guarantee(events, epsilon=math.inf, delta=0.9, **terms):
    return PrivacyGuarantee(epsilon, delta, "row", "replace-one", events=tuple(events), **terms)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
def test_gaussian_noise_has_its_closed_form(mu):
    said = guarantee([(GaussianEvent(2 / mu), 4)])
    exact = norm.sf(norm.isf(RATES) - mu)
    found = said.trade_off(RATES)
    assert (found >= exact * (1 - 1e-12)).all()
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-9)
    assert said.risk().advantage == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-9)
    # The Bayes test at a prior of 0.1 has its threshold at ln 9.
    cut = math.log(9) / mu + mu / 2
    exact = 0.9 * norm.cdf(cut) + 0.1 * norm.sf(cut - mu)
    assert exact <= said.risk(0.1).best_guess <= exact + 1e-9
    assert said.risk(0.9).best_guess == said.risk(0.1).best_guess


def best_test(log_ratios, weights, rate):
    """Neyman and Pearson's: the largest true positive rate of any test at that false positive rate."""
    order = np.argsort(-log_ratios)
    other = weights[order] * np.exp(-log_ratios[order])
    caught, wrong = np.cumsum(weights[order]), np.cumsum(other)
    return np.interp(rate, np.concatenate([[0.0], wrong]), np.concatenate([[0.0], caught]))


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (0.1, 30), (0.5, 7), (3.0, 2)])
def test_randomised_responses_are_attacked_as_well_as_the_bound_says(epsilon, count):
    truths = np.arange(count + 1)
    log_ratios = epsilon * (2 * truths - count)
    weights = binom.pmf(truths, count, 1 / (1 + math.exp(-epsilon)))
    found = guarantee([(PureEvent(epsilon), count)]).trade_off(RATES)
    exact = best_test(log_ratios, weights, RATES)
    assert (found >= exact * (1 - 1e-12)).all()
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "events",
    [
        [(LaplaceEvent(0.5), 10)],
        [(LaplaceEvent(0.2), 5), (GaussianEvent(3.0), 4)],
        [(LaplaceEvent(2.0), 1), (GaussianEvent(1.0), 1)],
    ],
)
def test_against_an_independent_accountant(events):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    composed = None
    for event, count in events:
        make = (
            pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=1e-4)
            if isinstance(event, LaplaceEvent)
            else pld.from_gaussian_mechanism(event.noise_multiplier, value_discretization_interval=1e-4)
        )
        part = make.self_compose(count)
        composed = part if composed is None else composed.compose(part)
    risk = guarantee(events).risk()
    # That accountant rounds losses up by one step a draw, so it lies above by a little itself.
    assert risk.advantage == pytest.approx(composed.get_delta_for_epsilon(0.0), abs=1e-3)
    assert risk.advantage <= composed.get_delta_for_epsilon(0.0) + 1e-6
    grid = np.linspace(0, 12, 601)
    deltas = np.array([composed.get_delta_for_epsilon(float(e)) for e in grid])
    other = np.minimum(np.exp(grid) * 0.01 + deltas, 1 - np.exp(-grid) * (0.99 - deltas)).min()
    assert other - 2e-3 <= risk.tpr <= other + 1e-6


# To a millionth -----------------------------------------------------------------------------------------------------


def mean_over_losses(event, function):
    """E[function(loss)] under the dominating pair of one event, by quadrature."""
    epsilon = event.epsilon
    if isinstance(event, PureEvent):
        truth = 1 / (1 + math.exp(-epsilon))
        return truth * function(epsilon) + (1 - truth) * function(-epsilon)
    if isinstance(event, LaplaceEvent):
        ends = 0.5 * function(epsilon) + 0.5 * math.exp(-epsilon) * function(-epsilon)
        inside = 0.25
        scale = math.exp(-epsilon / 2)
    else:
        ends, inside, scale = 0.0, 1 / (4 * math.sinh(epsilon / 2)), 1.0
    terms = {"epsabs": 1e-10, "epsrel": 1e-10, "limit": 100}
    total, _ = quad(lambda x: inside * scale * math.exp(x / 2) * function(x), -epsilon, epsilon, **terms)
    return ends + total


def beside_a_gaussian(events, mu, epsilon):
    """δ(ε) without any grid: the Gaussian's closed form, averaged over the losses of the others one by one."""

    def gaussian(x):
        return float(norm.cdf(mu / 2 - x / mu) - math.exp(x) * norm.cdf(-mu / 2 - x / mu))

    function = gaussian
    for event in events:
        function = partial(lambda inner, event, x: mean_over_losses(event, lambda y: inner(x - y)), function, event)
    return function(epsilon)


def check_to_a_millionth(events, exact):
    """The rates that follow from an independent curve δ(ε), by Neyman and Pearson's duality."""
    said = guarantee(events)
    assert exact(0.0) - 1e-12 <= said.risk().advantage <= exact(0.0) + 1e-6
    best = 0.8 + 0.2 * exact(math.log(4))
    assert best - 1e-12 <= said.risk(prior=0.2).best_guess <= best + 1e-6
    for rate in (0.01, 0.2):
        grid = np.linspace(0, min(compose_epsilon(events, 1e-9), 8.0), 60)

        def bound(epsilon, rate=rate):
            delta = exact(epsilon)
            return min(math.exp(epsilon) * rate + delta, 1 - math.exp(-epsilon) * (1 - delta - rate))

        place = int(np.argmin([bound(epsilon) for epsilon in grid]))
        ends = grid[max(place - 1, 0)], grid[min(place + 1, 59)]
        fine = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-10})
        other = min(float(fine.fun), bound(grid[place]))
        assert other - 1e-9 <= said.risk(fpr=rate).tpr <= other + 1e-6


@pytest.mark.take_turns(3)
@pytest.mark.parametrize(
    ("events", "mu"),
    [
        ([LaplaceEvent(2.0)], 1.0),
        ([LaplaceEvent(0.5)], 0.3),
        pytest.param([LaplaceEvent(5.0)], 0.1, marks=pytest.mark.slow),
        ([BoundedRangeEvent(1.5)], 0.5),
        ([PureEvent(0.5), PureEvent(0.3001)], 0.5),
    ],
)
def test_to_a_millionth_beside_a_gaussian(events, mu):
    every = [(event, 1) for event in events] + [(GaussianEvent(1 / mu), 1)]
    check_to_a_millionth(every, cache(lambda epsilon: beside_a_gaussian(events, mu, epsilon)))


@pytest.mark.take_turns(3)
@pytest.mark.parametrize(
    "events",
    [
        [(LaplaceEvent(2.0), 1)],
        pytest.param([(LaplaceEvent(0.5), 1), (LaplaceEvent(0.3), 1)], marks=pytest.mark.slow),
        pytest.param([(PureEvent(0.5), 1), (PureEvent(0.3001), 1)], marks=pytest.mark.slow),
        pytest.param([(LaplaceEvent(0.5), 3), (PureEvent(0.31), 2)], marks=pytest.mark.slow),
        [(BoundedRangeEvent(1.0), 2), (LaplaceEvent(0.7), 2)],
    ],
)
def test_to_a_millionth_in_high_precision(events):
    """Corners of the curve included, which a grid would round where it misses the atoms of a loss."""
    law = compose(events)
    check_to_a_millionth(events, cache(lambda epsilon: float(exact_delta(events, epsilon, law))))


# Attackers ----------------------------------------------------------------------------------------------------------

#: Hoeffding: a rate over so many trials is off by more with probability 1e-9; 48 rates are looked at.
TRIALS = 200_000
SLACK = math.sqrt(math.log(2e9) / (2 * TRIALS))


def log_ratios(event, present, seed):
    """What an attacker sees of ``TRIALS`` draws of the real mechanism, as ln(likelihood ratio)."""
    total = np.full(TRIALS, int(present), dtype=np.int64)
    terms = {"epsilon": 1e6 * TRIALS, "delta": 0.5, "unit": "row", "adjacency": "add-remove"}
    with pytest.warns(SimulatedNoiseWarning), open_release(**terms, random_state=seed) as release:
        if isinstance(event, GaussianEvent):
            step = 1.0
            seen = release.gaussian(total, sensitivity=1, noise_multiplier=event.noise_multiplier, step=step)
            return (seen - 0.5) / event.noise_multiplier**2
        seen = release.laplace(total.astype(float), sensitivity=1.0, epsilon=event.epsilon)
    return event.epsilon * (np.abs(seen) - np.abs(seen - 1))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "events",
    [
        [(LaplaceEvent(1.0), 1)],
        [(GaussianEvent(1.5), 1)],
        [(LaplaceEvent(0.5), 4), (GaussianEvent(2.0), 2)],
        "user-level descent",
    ],
    ids=["laplace", "gaussian", "composition", "descent"],
)
def test_optimal_attackers_reach_the_bound_and_do_not_exceed_it(events, seed):
    """Likelihood-ratio tests on the library's own noise; failure probability below 1e-6 over all cases."""
    if events == "user-level descent":
        rng = public_generator(seed)
        X = rng.uniform(-1, 1, size=(300, 2))
        model = UserLevelSGDRegressor(epsilon=3.0, radius=5.0, n_users=300, max_iter=4).fit(X, X[:, 0])
        events = [pair for pair in model.privacy_guarantee_.events if isinstance(pair[0], GaussianEvent)]
        whole = model.privacy_guarantee_
        assert events
    else:
        whole = None
    found = [
        sum(
            log_ratios(event, present, 1000 * seed + 100 * present + 10 * k + j)
            for k, (event, count) in enumerate(events)
            for j in range(count)
        )
        for present in (False, True)
    ]
    said = guarantee(events)
    for cut in (0.0, 1.0):
        wrong, caught = (float(np.mean(ratios > cut)) for ratios in found)
        ceiling, floor = said.trade_off([min(wrong + SLACK, 1.0), max(wrong - SLACK, 0.0)])
        assert floor - SLACK <= caught <= ceiling + SLACK
        assert caught - wrong <= said.risk().advantage + 2 * SLACK
        if whole is not None:
            assert caught <= whole.trade_off([min(wrong + SLACK, 1.0)])[0] + SLACK
    best = float(np.mean(found[1] > 0) - np.mean(found[0] > 0))
    assert best >= said.risk().advantage - 2 * SLACK


def test_user_level_descent_at_epsilon_one():
    rng = public_generator(0)
    X = rng.uniform(-1, 1, size=(500, 2))
    said = UserLevelSGDRegressor(epsilon=1.0, radius=5.0).fit(X, X[:, 0]).privacy_guarantee_
    assert said.risk().advantage <= 0.0944
    assert guarantee([], said.epsilon, said.delta).risk().advantage > 0.46


@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-3, 20), delta=st.floats(0, 0.5), fpr=st.floats(1e-6, 0.5), prior=st.floats(1e-6, 1 - 1e-6))
def test_a_bare_guarantee_has_the_risk_of_its_worst_mechanism(epsilon, delta, fpr, prior):
    """With probability δ all is revealed, else the response is randomised."""
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    outcomes = np.array([math.inf, epsilon, -epsilon, -math.inf])
    ones, others = (np.array([delta, truth, 1 - delta - truth, 0.0]), np.array([0.0, 1 - delta - truth, truth, delta]))
    caught, wrong = np.cumsum(ones), np.cumsum(others)
    exact = np.interp(fpr, np.concatenate([[0.0], wrong]), np.concatenate([[delta], caught]))
    risk = guarantee([], epsilon, delta).risk(prior, fpr)
    assert len(outcomes) == 4
    assert exact * (1 - 1e-9) <= risk.tpr <= exact + 1e-6 * (1 + exact)
    best = np.maximum(prior * ones, (1 - prior) * others).sum()
    assert best * (1 - 1e-9) <= risk.best_guess <= best + 1e-9
    assert risk.posterior == pytest.approx(prior * risk.tpr / (prior * risk.tpr + (1 - prior) * fpr), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(tpr=st.floats(1e-4, 0.999), share=st.floats(1e-3, 0.999), delta=st.sampled_from([0.0, 1e-9, 1e-5]))
def test_a_budget_stated_as_a_risk_keeps_to_it(tpr, share, delta):
    fpr = share * tpr
    try:
        epsilon = epsilon_of_risk(tpr=tpr, fpr=fpr, delta=delta)
    except ValueError:
        assert delta > 0 or share > 1 - 1e-9
        return
    assert guarantee([], epsilon, delta).risk(fpr=fpr).tpr <= tpr * (1 + 1e-9)
    assert guarantee([], epsilon * 1.01, delta).risk(fpr=fpr).tpr > tpr * (1 - 1e-9)


def test_events_say_more_than_their_epsilon_and_delta():
    events = [(GaussianEvent(10.0), 4)]
    epsilon = compose_epsilon(events, 1e-6)
    stated = guarantee([], epsilon, 1e-6).risk()
    drawn = guarantee(events, epsilon, 1e-6).risk()
    assert drawn.advantage < 0.25 * stated.advantage
    # Draws chosen on the way compose otherwise: their events say nothing more.
    assert guarantee(events, epsilon, 1e-6, adaptive=True).risk() == stated


def test_draws_are_read_from_a_release():
    with open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=0) as release:
        release.discrete_laplace([3], sensitivity=1, epsilon=1.0)
    assert release.close().risk(fpr=0.01).tpr == pytest.approx(0.01 * math.e, rel=1e-9)


def test_a_risk_is_shown_in_words():
    with open_release(epsilon=1.0, unit="row", adjacency="add-remove") as release:
        release.discrete_laplace([120, 80], sensitivity=1, epsilon=1.0)
    assert " ".join(str(release.close().risk(prior=0.1, fpr=0.01)).split()) == (
        "Of those who took part at most 2.72 % are recognised where 1 % of the others are accused falsely; such an "
        "accusation is true with probability 23.2 % at most. A guess that is right with probability 90 % becomes "
        "right with probability 90 % at most. No test is right more often about the ones than wrong about the others "
        "by more than 46.3 percentage points."
    )


def test_distances():
    said = PrivacyGuarantee(0.5, 0.0, "row", "metric", metric="kilometres", events=((PureEvent(0.5), 1),))
    assert said.risk(distance=2.0).tpr == pytest.approx(0.01 * math.e, rel=1e-9)
    assert said.risk(distance=0.0).advantage == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="distance must be a number"):
        said.risk()
    with pytest.raises(ValueError, match="distance must be None"):
        guarantee([(PureEvent(0.5), 1)]).risk(distance=1.0)


def test_nothing_is_promised_where_nothing_is():
    risk = guarantee([], math.inf, 0.0).risk()
    assert (risk.tpr, risk.advantage, risk.best_guess) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("terms", [{"prior": 0.0}, {"prior": 1.0}, {"fpr": 0.0}, {"fpr": math.nan}])
def test_rates_out_of_range(terms):
    with pytest.raises(ValueError, match=next(iter(terms))):
        guarantee([], 1.0, 0.0).risk(**terms)


def test_percentages_are_never_rounded_down():
    text = str(guarantee([(BoundedRangeEvent(0.5), 10)], 5.0, 0.0).risk(prior=0.1, fpr=0.001))
    assert "0.1 % of the" in text and "90 %" in text
    assert "100.0" not in str(guarantee([], math.inf, 0.0).risk())
    assert "1e-20 %" in str(guarantee([], 1.0, 0.0).risk(fpr=1e-22))
