"""No price is below the truth, at any δ: the accountant against exact sums in 100 digits."""

import itertools
import json
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from helpers.every import every
from helpers.exact_losses import binomial_delta, compose, exact_delta, gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZeroConcentratedEvent,
    compose_delta,
    compose_epsilon,
    epsilon_of_rho,
    filter_epsilon,
    gaussian_noise_multiplier,
    open_release,
    rho_of_epsilon,
)
from skprivate.privacy.accounting import _composition as _accounting
from skprivate.privacy.accounting import _gaussian as _gaussian_curve
from skprivate.privacy.accounting import _loss_distribution, _zcdp

DELTAS = [1e-3, 1e-9, 1e-12, 1e-15, 1e-20, 1e-100, 1e-300]
small_deltas = st.floats(-300, -0.5).map(lambda x: 10.0**x)


def responses(n, step):
    """Exact δ of n-fold randomised response."""
    step = mp.mpf(step)
    return lambda epsilon: binomial_delta(n, step, -step, 1 / (1 + mp.exp(-step)), epsilon)


@every("delta", DELTAS)
@pytest.mark.parametrize("n, step", [(1000, 0.003), (1000, 0.01), (300, 0.1)])
def test_randomised_response_at_every_delta(n, step, delta):
    exact, epsilon = responses(n, step), compose_epsilon([(PureEvent(step), n)], delta)
    assert exact(epsilon) <= delta
    assert epsilon == n * step or exact(epsilon * (1 - 1e-5)) > delta
    some = 0.9 * epsilon
    assert exact(some) <= compose_delta([(PureEvent(step), n)], some) <= exact(some) * (1 + mp.mpf("1e-5"))


@pytest.mark.parametrize("kind", [LaplaceEvent, PureEvent])
def test_the_last_bits_before_the_sum(kind):
    for epsilon, count in ((1.0, 3), (0.1, 7), (0.37, 2)):
        law, some = compose([(kind(epsilon), count)]), compose_epsilon([(kind(epsilon), count)])
        for _ in range(4):
            some = math.nextafter(some, 0)
            assert exact_delta([(kind(epsilon), count)], some, law) <= compose_delta([(kind(epsilon), count)], some)


def test_delta_is_never_negative():
    assert 0 < responses(1000, 0.003)(1.5) <= compose_delta([(PureEvent(0.003), 1000)], 1.5) < 1e-60


def test_a_release_states_no_less_than_a_thousand_draws_cost():
    # The price was 0.6727, the truth for a mechanism that attains it is 0.8304.
    plan = [(PureEvent(0.003), 1000)]
    release = open_release(epsilon=2.0, delta=1e-20, unit="row", adjacency="add-remove", random_state=0, plan=plan)
    guarantee = release.close()
    assert responses(1000, 0.003)(guarantee.epsilon) <= guarantee.delta == 1e-20


kinds = st.tuples(
    st.sampled_from([LaplaceEvent, PureEvent]), st.floats(-4, 1.3).map(lambda x: 10.0**x), st.integers(1, 4)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.lists(kinds, min_size=1, max_size=3), small_deltas, st.floats(0, 0.999))
def test_any_pure_events_against_the_exact_law(kinds, delta, share):
    events = [(kind(epsilon), count) for kind, epsilon, count in kinds]
    law = compose(events)
    epsilon = compose_epsilon(events, delta)
    assert exact_delta(events, epsilon, law) <= delta
    if epsilon > 0:
        assert exact_delta(events, epsilon * (1 - 1e-4), law) > delta
    some = share * math.fsum(event.epsilon * count for event, count in events)
    exact = exact_delta(events, some, law)
    assert exact <= compose_delta(events, some) <= exact * mp.mpf("1.001") + mp.mpf("1e-320")


@every("delta", DELTAS)
@pytest.mark.parametrize("n, eta", [(1, 0.4), (40, 0.3), (400, 0.01)])
def test_selection_is_never_below_any_pair_at_any_delta(n, eta, delta):
    epsilon = compose_epsilon([(BoundedRangeEvent(eta), n)], delta)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        eta_, t = mp.mpf(eta), mp.mpf(eta) * share
        p = mp.exp(t) * (1 - mp.exp(t - eta_)) / (mp.exp(t) - mp.exp(t - eta_))
        assert binomial_delta(n, t, t - eta_, p, epsilon) <= delta


@pytest.mark.parametrize("delta", [1e-6, 1e-15, 1e-30, 1e-200])
@pytest.mark.parametrize("z, steps", [(5.0, (1.0, 0.5)), (0.3, (0.01, 0.02)), (80.0, (0.2, 0.2))])
def test_a_gaussian_beside_pure_events_at_small_delta(z, steps, delta):
    events = [(GaussianEvent(z), 1), *((PureEvent(step, str(i)), 1) for i, step in enumerate(steps))]

    def exact(epsilon):
        total = 0
        for signs in itertools.product((1, -1), repeat=len(steps)):
            losses = [mp.mpf(sign) * step for sign, step in zip(signs, steps, strict=True)]
            total += mp.fprod(1 / (1 + mp.exp(-x)) for x in losses) * gaussian_delta(
                1 / mp.mpf(z), epsilon - mp.fsum(losses)
            )
        return total

    epsilon = compose_epsilon(events, delta)
    assert exact(epsilon) <= delta
    if delta > 1e-15:  # below, the lattice of the noise weighs more than δ and the bound is one of moments
        assert exact(epsilon * (1 - 1e-4)) > delta
    else:
        assert exact(epsilon * 0.85) > delta


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.floats(-9, 3), st.floats(-3, 37), st.booleans())
def test_gaussian_tails_to_full_precision(log_mu, place, mirrored):
    mu = 10.0**log_mu
    epsilon = mu * max(place + mu / 2, 0.0) * (-1 if mirrored and place < 3 else 1)
    bound, exact = _gaussian_curve.gaussian_delta(mu, epsilon), gaussian_delta(mu, epsilon)
    assert exact <= bound <= exact * (1 + mp.mpf("1e-9"))


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.floats(-9, 3), small_deltas)
def test_gaussian_epsilon_never_misses_its_delta(log_mu, delta):
    mu = 10.0**log_mu
    epsilon = _gaussian_curve.gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert epsilon == 0 or gaussian_delta(mu, epsilon * (1 - 1e-8)) > delta


# --- every number gets an answer -------------------------------------------------------------------------------------

EXTREMES = [1e-12, 1e-3, 1.0, 1e3, 1e6]


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.999])
@every("epsilon", EXTREMES)
@pytest.mark.parametrize("kind", [LaplaceEvent, BoundedRangeEvent, PureEvent])
def test_pure_events_of_any_size(kind, epsilon, delta):
    for count in (1, 10**4, 10**15):
        price = compose_epsilon([(kind(epsilon), count)], delta)
        assert 0 <= price <= epsilon * count * (1 + 1e-12)
        beside = compose_epsilon([(kind(epsilon), count), (GaussianEvent(1.0), 1)], delta)
        assert price * (1 - 1e-4) <= beside < math.inf
        assert 0 <= compose_delta([(kind(epsilon), count), (GaussianEvent(1.0), 1)], epsilon) <= 1


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.999])
@every("epsilon", EXTREMES)
def test_noise_multipliers_of_any_size(epsilon, delta):
    for other in ((), ((LaplaceEvent(epsilon / 2), 1),), ((BoundedRangeEvent(epsilon / 100), 50),)):
        z = gaussian_noise_multiplier(epsilon, delta, 3, other=other)
        assert 0 < z < math.inf
        assert compose_epsilon([(GaussianEvent(z), 3), *other], delta) <= epsilon


def test_numbers_at_the_ends_of_float64():
    for events in ([(GaussianEvent(1e-200), 1)], [(PureEvent(1e200), 1)], [(GaussianEvent(1e200), 1)]):
        assert compose_epsilon(events, 1e-6) >= 0
        assert 0 <= compose_delta(events, 1.0) <= 1
    assert compose_epsilon([(PureEvent(1e308), 10**400)], 0.5) == math.inf


def test_sums_are_rounded_up():
    for value, count in ((0.1, 10), (0.3, 7), (1e-12, 12345)):
        assert Fraction(compose_epsilon([(PureEvent(value), count)])) >= Fraction(value) * count
    assert compose_epsilon([(PureEvent(0.25), 4)]) == 1.0


# --- ρ and (ε, δ) ----------------------------------------------------------------------------------------------------


def best_order(rho, delta):
    """Proposition 12 of Canonne, Kamath and Steinke at the best order, by bisection in 100 digits."""
    rho, log_inverse = mp.mpf(rho), -mp.log(mp.mpf(delta))
    low, high = mp.mpf(10) ** -310, mp.mpf(10) ** 310
    for _ in range(200):
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if rho * middle**2 + mp.log1p(middle) < log_inverse else (low, middle)
    order = low + 1
    return rho * order + (log_inverse + (order - 1) * mp.log(1 - 1 / order) - mp.log(order)) / (order - 1)


@settings(deadline=None, max_examples=60)
@given(st.floats(-12, 6), small_deltas)
def test_epsilon_of_rho_is_the_best_order_rounded_up(log_rho, delta):
    rho = 10.0**log_rho
    epsilon, exact = epsilon_of_rho(rho, delta), best_order(rho, delta)
    if epsilon > 0:
        assert exact <= epsilon <= exact + (abs(exact) + mp.mpf(rho) + 1) * mp.mpf("1e-13")
    else:
        # Total variation: Pinsker, or Bretagnolle and Huber.
        assert exact < 0 or delta >= math.sqrt(min(rho / 2, -math.expm1(-rho))) * (1 - 1e-12)
    some = max(epsilon, 1e-12)
    assert _zcdp.delta_of_rho(rho, some) <= delta * (1 + 1e-6)


@settings(deadline=None, max_examples=300)
@given(st.floats(-12, 6), st.floats(-300, -0.001))
def test_rho_of_epsilon_is_the_inverse(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(rho * (1 + 1e-9), delta)
    assert compose_epsilon([(ZeroConcentratedEvent(rho), 1)], delta) <= epsilon


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1, 0.9])
def test_the_converter_is_as_tight_as_a_grid_of_orders(delta):
    accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = 1 + np.logspace(-4, 6, 400)
    for rho in np.logspace(-10, 4, 40):
        other = max(0.0, float(accountant.compute_epsilon(orders, orders * rho, delta)[0]))
        assert epsilon_of_rho(float(rho), delta) <= other * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize(
    "call",
    [
        lambda: epsilon_of_rho(-1.0, 0.1),
        lambda: epsilon_of_rho(math.nan, 0.1),
        lambda: epsilon_of_rho(1.0, 1.0),
        lambda: rho_of_epsilon(0.0, 0.1),
        lambda: rho_of_epsilon(1.0, 0.0),
        lambda: rho_of_epsilon(math.inf, 0.1),
        lambda: filter_epsilon([], 1.0),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call()


# --- what holds where draws depend on results ------------------------------------------------------------------------


def worst_adaptive_delta(price, steps, epsilon, delta, most):
    """Largest δ of an analyst who sees every result and draws any of the randomised responses that ``price`` admits."""

    def best(loss, counts):
        value = max(0.0, -math.expm1(epsilon - loss))
        if sum(counts) == most:
            return value
        for i, step in enumerate(steps):
            after = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            if admitted(after):
                up = 1 / (1 + math.exp(-step))
                value = max(value, up * seen(loss + step, after) + (1 - up) * seen(loss - step, after))
        return value

    cache, allowed = {}, {}

    def admitted(counts):
        if counts not in allowed:
            events = [(PureEvent(step), n) for step, n in zip(steps, counts, strict=True) if n]
            allowed[counts] = price(events, delta) <= epsilon
        return allowed[counts]

    def seen(loss, counts):
        key = round(loss, 9), counts
        if key not in cache:
            cache[key] = best(loss, counts)
        return cache[key]

    return best(0.0, (0,) * len(steps))


@pytest.mark.parametrize(
    "steps, epsilon, delta", [((0.4, 0.1), 1.2, 0.2), ((0.9, 0.3), 1.9, 0.05), ((0.25, 0.05), 0.5, 0.3)]
)
def test_a_filter_bounds_every_adaptive_analyst(steps, epsilon, delta):
    assert worst_adaptive_delta(filter_epsilon, steps, epsilon, delta, 22) <= delta


def test_composition_of_fixed_plans_is_no_filter():
    worst = max(
        worst_adaptive_delta(compose_epsilon, steps, epsilon, delta, 22) / delta
        for steps, epsilon, delta in [((0.9, 0.3), 1.0, 0.2), ((1.5, 0.3), 1.2, 0.3), ((0.9, 0.1), 0.5, 0.3)]
    )
    assert worst > 1.001


def test_ends_likelier_than_the_tail_are_within_every_bound(monkeypatch):
    """What is known of the window without looking for it is what would be found."""
    cases = itertools.product(
        ((LaplaceEvent, 1.0), (PureEvent, 0.3), (BoundedRangeEvent, 2.0)), (1, 7, 15, 30, 60), (0.01, 1.0, 6.0)
    )
    ends = []
    for (kind, epsilon), count, tilt in cases:
        laws, counts, step = [_loss_distribution._law(kind(epsilon), epsilon / 2100)], [count], epsilon / 2100
        tilted = [_loss_distribution._tilt(law, step, tilt) for law in laws]
        terms = laws, tilted, counts, step, tilt, laws[0].size // 2 * count
        window = _loss_distribution._window(*terms)
        with monkeypatch.context() as patch:
            patch.setattr(_loss_distribution, "_log_corner", lambda *_: -math.inf)
            assert _loss_distribution._window(*terms) == window
        corners = [_loss_distribution._log_corner(tilted, counts, end) > -45 for end in (0, -1)]
        ends.append((*corners, window == (-terms[-1], terms[-1])))
    # Both ends are known, one, or none; and some windows are narrower.
    assert {(low, high) for low, high, _ in ends} >= {(True, True), (False, True), (False, False)}
    assert not all(whole for *_, whole in ends)


def test_a_filter_is_the_smaller_of_two_sums():
    events = [(LaplaceEvent(0.05), 40), (GaussianEvent(20.0), 3)]
    assert filter_epsilon(events) == math.inf
    rho = 40 * 0.05**2 / 2 + 3 / 800
    assert filter_epsilon(events, 1e-6) == pytest.approx(epsilon_of_rho(rho, 1e-6))
    assert filter_epsilon(events[:1], 1e-300) == pytest.approx(2.0)
    assert compose_epsilon(events, 1e-6) < filter_epsilon(events, 1e-6)


def test_the_cheap_questions_agree_with_the_dear_one():
    for events in ([(LaplaceEvent(0.1), 5)], [(GaussianEvent(5.0), 2), (PureEvent(0.3), 1)]):
        dear = compose_epsilon(events, 1e-6)
        assert _accounting._cheap_epsilon(frozenset(events), 1e-6) >= dear
        assert _accounting.within_budget(events, dear, 1e-6)
        assert not _accounting.within_budget(events, dear * (1 - 1e-9), 1e-6)


def test_events_survive_json():
    for event in (
        LaplaceEvent(0.1),
        PureEvent(0.2, "vector"),
        BoundedRangeEvent(1e-9),
        GaussianEvent(3.0, 7),
        ZeroConcentratedEvent(0.3),
    ):
        assert type(event).from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_the_delta_of_a_small_rho_is_its_total_variation():
    assert _zcdp.delta_of_rho(1e-4, 0.0) == pytest.approx(math.sqrt(1e-4 / 2), rel=1e-12)


def test_no_event_has_no_delta():
    assert _zcdp.delta_of_rho(0.0, 0.0) == _zcdp.delta_of_rho(0.0, 1.0) == 0.0


@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_every_factor_of_a_composition_may_err(count):
    """The normalisation of each law errs by its exponents and its sum: the error grows with the number of factors."""
    loss = _loss_distribution.tilted_loss([(PureEvent(1e-3), count)], 0.0, 1.0, 0.1)
    assert loss.relative >= 16 * count * 2.0**-52


def test_the_window_of_a_composition_is_that_of_its_variance():
    assert _loss_distribution._variance(np.array([0.25, 0.5, 0.25])) == 0.5


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_merged_gaussians_are_rounded_up(count):
    for multiplier in np.linspace(0.1, 30.0, 50).tolist():
        mu = _accounting._gaussian_mu(frozenset({(GaussianEvent(multiplier), count)}))
        assert Fraction(mu) ** 2 >= count / Fraction(multiplier) ** 2


def test_renyi_moments_beside_pure_events_are_those_of_a_gaussian_not_below(monkeypatch):
    """ρ-zCDP counts as μ² = 2ρ, rounded up, whichever way its root is rounded."""
    seen = []
    monkeypatch.setattr(_accounting, "chernoff", lambda kinds, mu: (seen.append(mu), (np.ones(1), np.ones(1)))[1])
    rhos = np.linspace(0.01, 2.0, 60).tolist()
    for rho in rhos:
        _accounting._chernoff.__wrapped__(frozenset({(ZeroConcentratedEvent(rho), 1), (PureEvent(1.0), 1)}))
    assert all(Fraction(mu) ** 2 >= 2 * Fraction(rho) for mu, rho in zip(seen, rhos, strict=True))
