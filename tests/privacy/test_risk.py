"""ε in words: never below the best attack, and reached by it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PureEvent,
    compose_epsilon,
    epsilon_of_risk,
    open_release,
)
from skprivate.privacy._randomness import public_generator

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
    assert risk.advantage <= composed.get_delta_for_epsilon(0.0) + 5e-6
    grid = np.linspace(0, 12, 601)
    deltas = np.array([composed.get_delta_for_epsilon(float(e)) for e in grid])
    other = np.minimum(np.exp(grid) * 0.01 + deltas, 1 - np.exp(-grid) * (0.99 - deltas)).min()
    assert other - 2e-3 <= risk.tpr <= other + 5e-6


def test_simulated_attackers_reach_the_bound_and_do_not_exceed_it():
    # Failure probability below 1e-6: five standard deviations, with 4e5 trials.
    rng, trials = public_generator(0), 400_000
    noise = rng.laplace(scale=2.0, size=(2, trials))
    said = guarantee([(LaplaceEvent(0.5), 1)]).risk(fpr=0.05)
    cut = np.quantile(noise[0], 0.95)
    caught = np.mean(noise[1] + 1 > cut)
    assert caught == pytest.approx(
        said.tpr, abs=5 * math.sqrt(said.tpr / trials) + 5 * math.sqrt(0.05 / trials) * 2
    )


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(1e-3, 20),
    delta=st.floats(0, 0.5),
    fpr=st.floats(1e-6, 0.5),
    prior=st.floats(1e-6, 1 - 1e-6),
)
def test_a_bare_guarantee_has_the_risk_of_its_worst_mechanism(epsilon, delta, fpr, prior):
    """With probability δ all is revealed, else the response is randomised."""
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    outcomes = np.array([math.inf, epsilon, -epsilon, -math.inf])
    ones, others = (
        np.array([delta, truth, 1 - delta - truth, 0.0]),
        np.array([0.0, 1 - delta - truth, truth, delta]),
    )
    caught, wrong = np.cumsum(ones), np.cumsum(others)
    exact = np.interp(fpr, np.concatenate([[0.0], wrong]), np.concatenate([[delta], caught]))
    risk = guarantee([], epsilon, delta).risk(prior, fpr)
    assert len(outcomes) == 4
    assert exact * (1 - 1e-9) <= risk.tpr <= exact + 1e-6 * (1 + exact)
    best = np.maximum(prior * ones, (1 - prior) * others).sum()
    assert best * (1 - 1e-9) <= risk.best_guess <= best + 1e-9
    assert risk.posterior == pytest.approx(
        prior * risk.tpr / (prior * risk.tpr + (1 - prior) * fpr), rel=1e-9
    )


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
