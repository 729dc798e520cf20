"""The one door: noise has the scale that was paid for, and nothing is drawn unpaid."""

import math
import warnings

import numpy as np
import pytest
from helpers.every import every
from scipy import stats

from skprivate.privacy import (
    BoundedRangeEvent,
    BudgetExceededError,
    GaussianEvent,
    LaplaceEvent,
    PrivacyLedger,
    PureEvent,
    SimulatedNoiseWarning,
    ZeroConcentratedEvent,
    compose_epsilon,
    cost_of_plan,
    open_release,
)

#: Each distribution test below fails for correct code with at most this probability.
FAILURE = 1e-7


def release(**changes):
    values = {"epsilon": 1e6, "delta": 1e-6, "unit": "row", "adjacency": "add-remove", "random_state": 0}
    return open_release(**{**values, **changes})


@pytest.mark.parametrize("random_state", [None, 0, 1])
@pytest.mark.parametrize("sensitivity, epsilon", [(1.0, 1.0), (1e-7, 0.3), (4e8, 12.0)])
def test_laplace_has_the_scale_it_was_paid_for(random_state, sensitivity, epsilon):
    noise = release(random_state=random_state).laplace(
        np.zeros(40_000), sensitivity=sensitivity, epsilon=epsilon, norm="linf"
    )
    scale = sensitivity / epsilon
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > FAILURE
    # the test can see a wrong scale
    assert stats.kstest(noise * 0.85, stats.laplace(scale=scale).cdf).pvalue < FAILURE


@pytest.mark.parametrize("random_state", [None, 0, 1])
@pytest.mark.parametrize("sensitivity, multiplier", [(1.0, 1.0), (1e-9, 30.0), (1e6, 0.4)])
def test_gaussian_has_the_scale_it_was_paid_for(random_state, sensitivity, multiplier):
    noise = release(random_state=random_state).gaussian(
        np.zeros(40_000), sensitivity=sensitivity, noise_multiplier=multiplier
    )
    assert stats.kstest(noise, stats.norm(scale=sensitivity * multiplier).cdf).pvalue > FAILURE
    assert stats.kstest(noise * 0.88, stats.norm(scale=sensitivity * multiplier).cdf).pvalue < FAILURE


@pytest.mark.parametrize("random_state", [None, 0, 1])
def test_discrete_noise_has_the_scale_it_was_paid_for(random_state):
    one = release(random_state=random_state)
    laplace = one.discrete_laplace(np.zeros(50_000, int), sensitivity=3, epsilon=1.0)
    q = math.exp(-1 / 3)
    assert np.mean(np.abs(laplace)) == pytest.approx(2 * q / (1 - q * q), rel=0.04)
    gaussian = one.discrete_gaussian(np.zeros(50_000, int), sensitivity=2.0, rho=0.02)
    assert np.var(gaussian) == pytest.approx(4 / 0.04, rel=0.05)
    assert laplace.dtype == gaussian.dtype == np.int64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "random_state"),
    [
        ("exponential", 3),
        ("permute-and-flip", None),
        pytest.param("exponential", None, marks=pytest.mark.slow),
        pytest.param("permute-and-flip", 3, marks=pytest.mark.slow),
    ],
)
def test_selection_has_the_probabilities_it_was_paid_for(rule, random_state):
    scores, n, epsilon = np.array([0, -1, -1, -4]), 20_000, 1.2
    weights = np.exp(epsilon / 2 * scores)
    if rule == "exponential":
        expected = weights / weights.sum()
    else:  # P(i) = w_i ∫ ∏_{j≠i} (1 − w_j t) dt
        expected = [
            w * math.prod(np.polynomial.Polynomial([1, -v]) for j, v in enumerate(weights) if j != i).integ()(1)
            for i, w in enumerate(weights)
        ]
    one = release(random_state=random_state, epsilon=1e7)
    if random_state is None:
        n = 4000
    drawn = [one.select(scores, sensitivity=1, epsilon=epsilon, rule=rule) for _ in range(n)]
    observed = np.bincount(drawn, minlength=4)
    assert stats.chisquare(observed, np.asarray(expected) * n).pvalue > FAILURE


@pytest.mark.slow
def test_select_monotone_doubles_the_exponent_and_real_scores_are_rounded_towards_safety():
    one = release(epsilon=1e7)
    drawn = [one.select([0.0, -1.0], sensitivity=1.0, epsilon=1.0, monotone=True) for _ in range(8000)]
    assert np.mean(drawn) == pytest.approx(1 / (1 + math.e), abs=0.027)


def test_select_with_multiplicity_reaches_huge_categories():
    one = release()
    category, member = one.select([0, -3], sensitivity=1, epsilon=1.0, multiplicity=[10**30, 10**30])
    assert category in (0, 1)
    assert 0 <= member < 10**30


def test_the_guarantee_lists_what_was_drawn():
    one = release(epsilon=5.0)
    one.laplace(0.0, sensitivity=1.0, epsilon=0.1)
    one.laplace([0.0, 1.0], sensitivity=1.0, epsilon=0.1)
    one.laplace([0.0, 1.0], sensitivity=1.0, epsilon=0.1, norm="linf")
    one.gaussian([0.0, 1.0, 2.0], sensitivity=1.0, noise_multiplier=7.0)
    one.discrete_gaussian([0], sensitivity=1.0, rho=0.01)
    one.select([1, 2], sensitivity=1, epsilon=0.2)
    one.select([1, 2], sensitivity=1, epsilon=0.2, rule="permute-and-flip")
    guarantee = one.close()
    assert dict(guarantee.events) == {
        LaplaceEvent(0.1): 3,
        PureEvent(0.1, "Laplace"): 1,
        GaussianEvent(7.0, 3): 1,
        ZeroConcentratedEvent(0.01, "discrete Gaussian"): 1,
        BoundedRangeEvent(0.2): 1,
        PureEvent(0.2, "permute-and-flip"): 1,
    }
    assert (guarantee.epsilon, guarantee.delta) == (5.0, 1e-6)  # neither planned nor pure: all of it
    assert guarantee.delta == 1e-6


def test_pure_releases_report_delta_zero():
    for changes in ({"delta": 0.0}, {"plan": [(LaplaceEvent(0.5), 1)]}):
        one = release(epsilon=1.0, **changes)
        one.laplace(0.0, sensitivity=1.0, epsilon=0.5)
        assert (one.close().epsilon, one.close().delta) == (0.5, 0.0)


def test_delta_is_the_same_on_every_path():
    """Who gets δ back after seeing a result spends it elsewhere: the two paths fail with δ each."""
    free = {"epsilon": 0.5, "delta": 1e-6, "unit": "row", "adjacency": "add-remove"}
    gaussian, pure = (GaussianEvent(20.0), 1), (LaplaceEvent(0.1), 5)
    for plan, paths in [((), [0, 1, 6]), ([gaussian], [0, 1, 2]), ([pure], [0])]:
        found = set()
        for extra in paths:
            ledger = PrivacyLedger(epsilon=2.0, delta=1e-6, composition="basic")
            with open_release(**free, plan=plan, ledger=ledger, random_state=0) as one:
                for _ in range(extra or (not plan)):
                    one.laplace(0.0, sensitivity=1.0, epsilon=0.01)
            found |= {one.close().delta, ledger.spent[1]}
        assert found == {0.0 if plan == [pure] else 1e-6}
    # A plan that was paid for without δ cannot ask for it later.
    one = open_release(**free, plan=[(LaplaceEvent(0.01), 1)], random_state=0)
    one.laplace(0.0, sensitivity=1.0, epsilon=0.02)
    with pytest.raises(BudgetExceededError):
        one.gaussian(0.0, sensitivity=1.0, noise_multiplier=1e3)


def test_a_budget_split_in_floating_point_fits():
    one = release(epsilon=0.3, delta=0.0)
    for _ in range(3):
        one.laplace(0.0, sensitivity=1.0, epsilon=0.1)  # 0.1 + 0.1 + 0.1 > 0.3 in floating point
    assert one.close().epsilon == 0.3


def test_nothing_is_drawn_over_budget(monkeypatch):
    from skprivate.privacy.noise import _samplers, _selection

    one = release(epsilon=1.0)
    one.laplace(0.0, sensitivity=1.0, epsilon=0.9)
    for module, name in ((_samplers, "integer_noise"), (_selection, "exponential_select")):
        monkeypatch.setattr(module, name, lambda *args: pytest.fail("drew noise that does not fit"))
    with pytest.raises(BudgetExceededError, match="budget epsilon = 1"):
        one.laplace(0.0, sensitivity=1.0, epsilon=0.9)
    with pytest.raises(BudgetExceededError):
        one.gaussian([0.0], sensitivity=1.0, noise_multiplier=0.5)
    with pytest.raises(BudgetExceededError):
        one.select([0, 1], sensitivity=1, epsilon=5.0)
    assert one.close().epsilon == 0.9


def test_a_plan_is_paid_once_and_more_than_planned_is_refused():
    plan = [(GaussianEvent(20.0, 2), 10), (BoundedRangeEvent(0.1), 1)]
    cost = compose_epsilon(plan, 1e-6)
    with pytest.raises(BudgetExceededError):
        release(epsilon=0.99 * cost, plan=plan)
    one = release(epsilon=cost, plan=plan)
    one.select([0, 1], sensitivity=1, epsilon=0.1)
    for _ in range(10):
        one.gaussian([0.0, 0.0], sensitivity=3.0, noise_multiplier=20.0)
    with pytest.raises(BudgetExceededError):
        one.gaussian([0.0, 0.0], sensitivity=3.0, noise_multiplier=20.0)
    assert one.close().epsilon == cost
    # what was planned and not drawn counts: it might have been drawn on another path
    lazy = release(epsilon=cost, plan=plan)
    lazy.select([0, 1], sensitivity=1, epsilon=0.1)
    assert lazy.close().epsilon == cost


def test_ledger_is_charged_before_the_draw(monkeypatch):
    from skprivate.privacy.noise import _samplers

    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6, unit="row")
    seen = []
    draw = _samplers.integer_noise

    def spy(*args):
        seen.append(ledger.spent[0])
        return draw(*args)

    monkeypatch.setattr(_samplers, "integer_noise", spy)
    one = release(epsilon=1.0, ledger=ledger, label="spy")
    one.laplace(0.0, sensitivity=1.0, epsilon=0.25)
    one.laplace(0.0, sensitivity=1.0, epsilon=0.25)
    assert seen == [0.25, 0.5]
    one.close()
    two = release(epsilon=1.0, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        two.laplace(0.0, sensitivity=1.0, epsilon=0.75)
    assert len(seen) == 2
    assert ledger.spent[0] == 0.5


def test_metric_privacy_admits_pure_events_only():
    one = open_release(epsilon=2.0, unit="data set", adjacency="metric", metric="W1", random_state=0)
    one.laplace([0.0, 1.0], sensitivity=3.0, epsilon=2.0)
    assert str(one.close()).startswith("2-metric privacy for one data set (W1")
    two = open_release(epsilon=2.0, delta=1e-6, unit="data set", adjacency="metric", metric="W1", random_state=0)
    with pytest.raises(ValueError, match="pure events only"):
        two.gaussian([0.0], sensitivity=1.0, noise_multiplier=5.0)


def test_an_integer_seed_is_a_simulation_and_says_so_once():
    with pytest.warns(SimulatedNoiseWarning) as caught:
        one = release(random_state=7)
        first = one.laplace(np.zeros(5), sensitivity=1.0, epsilon=1.0)
        one.laplace(0.0, sensitivity=1.0, epsilon=1.0)
    assert len(caught) == 1
    assert not one.close().valid_for_release
    assert np.array_equal(first, release(random_state=7).laplace(np.zeros(5), sensitivity=1.0, epsilon=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        secure = release(random_state=None)
    fresh = [secure.laplace(0.0, sensitivity=1.0, epsilon=1.0) for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert secure.close().valid_for_release


def test_public_randomness_is_another_stream():
    one = release(random_state=0)
    assert np.array_equal(one.public_rng.random(4), release(random_state=0).public_rng.random(4))


def test_values_are_snapped_to_the_lattice_of_the_noise():
    # With the same noise, two values within one lattice step give results that are equal or one step apart:
    # no low-order bits of the value survive.
    a = release(random_state=5).laplace(0.1, sensitivity=1.0, epsilon=1.0)
    b = release(random_state=5).laplace(math.nextafter(0.1, 1), sensitivity=1.0, epsilon=1.0)
    step = 2.0**-33
    assert a == b
    assert (a / step).is_integer() or (2 * a / step).is_integer()


@pytest.mark.parametrize("value", [1e300, -1e300, 0.0])
def test_extreme_values_stay_finite(value):
    assert math.isfinite(release().laplace(value, sensitivity=1e-3, epsilon=1.0))
    assert release().select([value, 0.0], sensitivity=1e-3, epsilon=1.0) in (0, 1)


@every(
    "call",
    [
        lambda r: r.laplace(math.nan, sensitivity=1.0, epsilon=1.0),
        lambda r: r.laplace(0.0, sensitivity=0.0, epsilon=1.0),
        lambda r: r.laplace(0.0, sensitivity=1.0, epsilon=-1.0),
        lambda r: r.laplace(0.0, sensitivity=1.0, epsilon=1.0, norm="l2"),
        lambda r: r.gaussian([math.inf], sensitivity=1.0, noise_multiplier=1.0),
        lambda r: r.discrete_laplace([1.5], sensitivity=1, epsilon=1.0),
        lambda r: r.select([], sensitivity=1, epsilon=1.0),
        lambda r: r.select([0, 1], sensitivity=1, epsilon=1.0, rule="best"),
        lambda r: r.select([0, 1], sensitivity=1, epsilon=1.0, multiplicity=[1]),
        lambda r: open_release(epsilon=0, unit="row", adjacency="add-remove"),
        lambda r: open_release(epsilon=1, delta=1, unit="row", adjacency="add-remove"),
        lambda r: open_release(epsilon=1, unit="row", adjacency="metric"),
        lambda r: open_release(epsilon=1, unit="row", adjacency="nearby"),
    ],
)
def test_bad_input_is_refused_and_costs_nothing(call):
    one = release()
    with pytest.raises((ValueError, TypeError)):
        call(one)
    assert one.close().events == ()


def test_pure_budget_refuses_gaussian_noise_in_words():
    with pytest.raises(ValueError, match="needs delta > 0"):
        release(delta=0.0).gaussian(0.0, sensitivity=1.0, noise_multiplier=1.0)


def test_a_closed_release_draws_no_more():
    one = release()
    one.close()
    with pytest.raises(RuntimeError, match="closed"):
        one.laplace(0.0, sensitivity=1.0, epsilon=1.0)


def test_integer_scores_at_the_end_of_their_range_are_refused_nothing():
    scores = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, 0])
    assert release().select(scores, sensitivity=1, epsilon=1.0) == 0


def test_a_huge_epsilon_means_no_noise():
    counts = np.arange(5)
    assert np.array_equal(release(epsilon=1e12).discrete_laplace(counts, sensitivity=1, epsilon=1e11), counts)


def test_a_plan_whose_pure_sum_exceeds_the_budget_needs_its_delta():
    """The pure sum of 3 is within 1 % of what δ needs, and not within ε = 2.99."""
    plan = [(LaplaceEvent(3.0), 1)]
    needed = compose_epsilon(plan, 0.01)
    assert needed < 2.99 < 3.0 < 1.01 * needed
    assert cost_of_plan(plan, 2.99, 0.01) == (needed, 0.01)
    assert cost_of_plan(plan, 3.0, 0.01) == (3.0, 0.0)


def test_what_is_drawn_beside_a_pure_plan_is_added_to_its_pure_sum():
    """δ was not paid for with the plan, so the smaller ε that needs it is not that of the plan."""
    plan = [(LaplaceEvent(3.0), 1)]
    one = release(epsilon=3.5, delta=0.01, plan=plan)
    one.laplace(0.0, sensitivity=1.0, epsilon=3.0)
    one.laplace(0.0, sensitivity=1.0, epsilon=0.5)
    found = one.close()
    assert (found.epsilon, found.delta) == (3.5, 0.0)
    tight = release(epsilon=3.495, delta=0.01, plan=plan)
    assert compose_epsilon(plan, 0.01) + 0.5 < 3.495
    with pytest.raises(BudgetExceededError):
        tight.laplace(0.0, sensitivity=1.0, epsilon=0.5)


def test_the_ledger_gets_the_rho_of_a_release_unless_epsilon_is_per_unit_of_distance():
    rows = PrivacyLedger(epsilon=10.0, delta=1e-4, unit="row", adjacency="add-remove")
    release(epsilon=1.0, ledger=rows, plan=[(GaussianEvent(10.0), 1)]).close()
    assert rows.entries()[0].rho == GaussianEvent(10.0).rho
    distances = PrivacyLedger(epsilon=10.0, adjacency="metric: any")
    metric = {"unit": "data set", "adjacency": "metric", "metric": "any", "delta": 0.0}
    release(epsilon=1.0, ledger=distances, plan=[(PureEvent(1.0), 1)], **metric).close()
    assert distances.entries()[0].rho is None


def test_a_plan_with_less_than_the_least_epsilon_is_refused():
    least = 2.0**-32
    release(epsilon=least, plan=[(PureEvent(least), 1)])
    with pytest.raises(ValueError, match="epsilon must be large enough"):
        release(epsilon=least, plan=[(PureEvent(math.nextafter(least, 0)), 1)])
