"""The accountant against arithmetic that shares no code with it; it may never be below an exact value."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZeroConcentratedEvent,
    compose_delta,
    compose_epsilon,
    epsilon_of_rho,
    gaussian_noise_multiplier,
)
from skprivate.privacy._events import GAUSSIAN_LATTICE_TV


def bounded_range_delta(eta, epsilon):
    """Largest hockey-stick divergence at ``epsilon`` of a mechanism whose losses span at most ``eta``.

    For losses in [t − η, t] it is (1 − e^{t−η})(1 − e^{ε−t})/(1 − e^{−η}); the maximum over t is at t = (ε + η)/2.
    """
    inside = np.square(np.expm1((np.minimum(epsilon, eta) - eta) / 2)) / -math.expm1(-eta)
    return np.where(epsilon < -eta, -np.expm1(np.minimum(epsilon, 0)), inside)


def hockey_stick(p, q, epsilon):
    """Exact δ(ε) of two probability vectors."""
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


def gaussian_delta_by_quadrature(sigma, epsilon):
    """∫ max(0, N(x; 1, σ) − e^ε N(x; 0, σ)) dx, integrated from where the integrand turns positive."""
    start = sigma**2 * epsilon + 0.5
    value, _ = integrate.quad(
        lambda x: stats.norm.pdf(x, 1, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0, sigma),
        start,
        start + 40 * sigma,
        epsabs=1e-14,
        epsrel=1e-10,
    )
    return value


@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0, 20.0])
def test_one_gaussian_equals_its_integral(sigma):
    epsilon = compose_epsilon([(GaussianEvent(sigma), 1)], 1e-6)
    assert gaussian_delta_by_quadrature(sigma, epsilon) == pytest.approx(1e-6, rel=1e-5)


def test_a_thousand_gaussians_are_one():
    thousand = compose_epsilon([(GaussianEvent(50.0), 1000)], 1e-6)
    assert thousand == pytest.approx(compose_epsilon([(GaussianEvent(50 / math.sqrt(1000)), 1)], 1e-6), rel=1e-9)
    assert gaussian_delta_by_quadrature(50 / math.sqrt(1000), thousand) <= 1e-6 * (1 + 1e-6)


def test_replace_one_is_in_the_sensitivity_and_is_not_doubled_again():
    # A sum of numbers in [−1, 1]: replacing one moves it by 2, so σ = 2 is noise multiplier 1, not ½.
    priced = compose_epsilon([(GaussianEvent(2.0 / 2.0), 1)], 1e-6)
    assert gaussian_delta_by_quadrature(1.0, priced) == pytest.approx(1e-6, rel=1e-5)
    assert priced == pytest.approx(4.8866, abs=1e-3)  # the doubled value would be 10.997


@pytest.mark.parametrize("n, step", [(1, 0.3), (10, 0.5), (1000, 0.1)])
def test_pure_events_against_the_exact_binomial_sum(n, step):
    # Composition of n randomised responses (Kairouz, Oh and Viswanath 2015), term by term in logarithms.
    epsilon = compose_epsilon([(PureEvent(step), n)], 1e-6)
    k = np.arange(n + 1)
    log_p = stats.binom.logpmf(k, n, 1 / (1 + math.exp(-step)))
    log_q = stats.binom.logpmf(k, n, 1 / (1 + math.exp(step)))

    def exact(e):
        return float(np.sum(np.exp(log_p) * np.maximum(0, -np.expm1(e + log_q - log_p))))

    assert exact(epsilon) <= 1e-6 * (1 + 1e-6)
    assert exact(epsilon * 0.995 - 1e-3) > 1e-6


@pytest.mark.parametrize("n, eta", [(1, 0.4), (7, 0.3), (1000, 0.1)])
def test_selection_is_never_priced_below_any_exact_bounded_range_pair(n, eta):
    epsilon = compose_epsilon([(BoundedRangeEvent(eta), n)], 1e-6)
    k = np.arange(n + 1)
    worst = 0.0
    for t in np.linspace(0.02, 0.98, 49) * eta:
        q = -math.expm1(t - eta) / (math.exp(t) - math.exp(t - eta))
        p = math.exp(t) * q
        log_p, log_q = stats.binom.logpmf(k, n, p), stats.binom.logpmf(k, n, q)
        terms = np.exp(log_p) * np.maximum(0, -np.expm1(np.minimum(epsilon + log_q - log_p, 0)))
        worst = max(worst, float(terms.sum()))
    assert worst <= 1e-6 * (1 + 1e-6)
    # and it pays: randomised response of the same ε costs more
    assert epsilon < compose_epsilon([(PureEvent(eta), n)], 1e-6)


def test_bounded_range_profile_is_the_maximum_over_all_pairs():
    for eta in (0.05, 0.7, 3.0):
        grid = np.linspace(-eta, eta, 41)
        t = np.linspace(0, eta, 20001)[:, None]
        pairs = -np.expm1(t - eta) * -np.expm1(grid - t) / -math.expm1(-eta)
        pairs[grid[None, :] > t] = 0
        pairs = np.where(grid[None, :] < t - eta, -np.expm1(grid)[None, :], pairs)
        assert bounded_range_delta(eta, grid) == pytest.approx(np.maximum(pairs.max(axis=0), 0), abs=1e-7)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=6),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=6, max_size=6),
    st.floats(0.1, 3),
    st.floats(0, 1),
)
def test_exponential_mechanism_stays_below_its_profile(scores, moves, eta, share):
    scores = np.array(scores, float)
    p = np.exp(eta / 2 * scores)
    q = np.exp(eta / 2 * (scores + moves[: len(scores)]))
    p, q = p / p.sum(), q / q.sum()
    assert hockey_stick(p, q, share * eta) <= bounded_range_delta(eta, np.array([share * eta]))[0] + 1e-12


def test_mixed_composition_against_nested_expectations():
    # δ of a product is E over the losses of one factor of δ(ε − loss) of the other.
    sigma, e_laplace, eta = 4.0, 0.3, 0.25
    events = [(GaussianEvent(sigma), 1), (LaplaceEvent(e_laplace), 1), (BoundedRangeEvent(eta), 1)]
    epsilon = compose_epsilon(events, 1e-5)

    def gaussian(e):
        mu = 1 / sigma
        return stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)

    def gaussian_and_laplace(e):
        b = 1 / e_laplace  # N.B. losses of Lap(b) at 0 against Lap(b) at 1
        middle, _ = integrate.quad(
            lambda x: math.exp(-x / b) / (2 * b) * gaussian(e - (1 - 2 * x) / b), 0, 1, epsabs=1e-16
        )
        return 0.5 * gaussian(e - 1 / b) + middle + 0.5 * math.exp(-1 / b) * gaussian(e + 1 / b)

    worst = 0.0
    for t in np.linspace(0.01, 0.99, 25) * eta:
        q = -math.expm1(t - eta) / (math.exp(t) - math.exp(t - eta))
        p = math.exp(t) * q
        worst = max(worst, p * gaussian_and_laplace(epsilon - t) + (1 - p) * gaussian_and_laplace(epsilon - t + eta))
    assert worst <= 1e-5
    assert worst > 0.5e-5  # and not far above the truth
    assert compose_delta(events, epsilon) <= 1e-5 * (1 + 1e-5)  # on another grid


@pytest.mark.parametrize("sigma, shift", [(0.8, 1), (3.0, 2), (10.0, 5)])
def test_zcdp_price_covers_the_exact_discrete_gaussian(sigma, shift):
    k = np.arange(-60 * math.ceil(sigma), 60 * math.ceil(sigma) + 1)
    p = np.exp(-((k - shift) ** 2) / (2 * sigma**2))
    q = np.exp(-(k**2) / (2 * sigma**2))
    event = ZeroConcentratedEvent(shift**2 / (2 * sigma**2))
    epsilon = compose_epsilon([(event, 1)], 1e-5)
    assert hockey_stick(p / p.sum(), q / q.sum(), epsilon) <= 1e-5


@pytest.mark.parametrize("steps, scale", [(1, 3.0), (5, 4.0), (40, 10.0)])
def test_discrete_laplace_is_dominated_by_the_continuous_one_two_steps_wider(steps, scale):
    k = np.arange(-800, 801)
    p, q = np.exp(-np.abs(k) / scale), np.exp(-np.abs(k - steps) / scale)
    for e in np.linspace(0, steps / scale, 37):
        continuous = -math.expm1((e - (steps + 2) / scale) / 2)
        assert hockey_stick(p / p.sum(), q / q.sum(), e) <= continuous + 1e-12
    # without the two steps it is not: the price would be too low between lattice points
    e = (steps - 1) / scale if steps > 1 else 0.3 / scale
    assert hockey_stick(p / p.sum(), q / q.sum(), e) > -math.expm1((e - steps / scale) / 2)


@pytest.mark.parametrize("sigma", [4.0, 16.0, 64.0])
def test_rounded_and_discrete_gaussians_are_as_close_as_charged(sigma):
    k = np.arange(-int(12 * sigma), int(12 * sigma) + 1)
    rounded = stats.norm.cdf((k + 0.5) / sigma) - stats.norm.cdf((k - 0.5) / sigma)
    discrete = np.exp(-(k**2) / (2 * sigma**2))
    distance = 0.5 * np.abs(rounded - discrete / discrete.sum()).sum()
    assert distance <= 2 / (8 * sigma**2) + 1e-14
    assert GAUSSIAN_LATTICE_TV >= 2 / (8 * 2.0**64)


@pytest.mark.parametrize("size", [1_679, 100_000, 400_000])
def test_the_price_of_lattices_falls_as_noise_grows(size):
    """What was held back of a small δ went from enough to twice as much: with .9 % more noise ε rose by .06, and a plan
    that had just fitted was over its budget."""
    others = [(BoundedRangeEvent(0.434), 1), (BoundedRangeEvent(0.6), 1)]
    multipliers = np.geomspace(0.6, 1.5, 100)
    prices, without = (
        np.array([compose_epsilon([(GaussianEvent(z, n), 1), *others], 1e-12) for z in multipliers]) for n in (size, 1)
    )
    assert (np.diff(prices) < 0.0).all()
    assert (prices >= without).all()


@pytest.mark.parametrize("size", [0, 1e-300, 0.5, -1, float("nan"), float("inf")])
def test_noise_is_on_one_number_at_least(size):
    """Less had hardly a lattice, and an ε whose part of δ was not certified."""
    with pytest.raises(ValueError, match="size must be "):
        GaussianEvent(0.024, size)


def test_lattice_slack_is_charged():
    plain = compose_epsilon([(GaussianEvent(1.0, 1), 1)], 1e-6)
    assert compose_epsilon([(GaussianEvent(1.0, 10**9), 1)], 1e-6) > plain
    # where the lattice would cost more than δ, the (exact) zCDP price of the discrete Gaussian is used
    lattice = compose_epsilon([(GaussianEvent(1.0, 10**9), 10**9)], 1e-6)
    assert lattice >= compose_epsilon([(GaussianEvent(1.0), 10**9)], 1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.floats(0.05, 8),
    st.sampled_from([1e-9, 1e-6, 1e-3]),
    st.integers(1, 200),
    st.lists(st.sampled_from([LaplaceEvent(0.01), BoundedRangeEvent(0.02), PureEvent(0.005)]), max_size=2),
)
def test_calibration_never_gives_less_privacy_than_asked(epsilon, delta, n_draws, extra):
    other = tuple((event, 1) for event in extra)
    z = gaussian_noise_multiplier(epsilon, delta, n_draws, other=other)
    assert compose_epsilon([(GaussianEvent(z), n_draws), *other], delta) <= epsilon
    assert compose_epsilon([(GaussianEvent(0.99 * z), n_draws), *other], delta) > epsilon


def test_more_events_never_cost_less():
    base = [(GaussianEvent(5.0), 10)]
    for extra in (LaplaceEvent(0.1), PureEvent(0.1), BoundedRangeEvent(0.1), ZeroConcentratedEvent(0.01)):
        assert compose_epsilon([*base, (extra, 1)], 1e-6) > compose_epsilon(base, 1e-6)


def test_delta_and_epsilon_are_inverse():
    for events in (
        [(GaussianEvent(3.0), 4)],
        [(LaplaceEvent(0.2), 30)],
        [(GaussianEvent(3.0), 2), (BoundedRangeEvent(0.5), 3), (PureEvent(0.1), 1)],
        [(ZeroConcentratedEvent(0.1), 2)],
    ):
        epsilon = compose_epsilon(events, 1e-6)
        assert compose_delta(events, epsilon) == pytest.approx(1e-6, rel=0.05)


def test_without_delta_only_pure_events_have_a_price():
    assert compose_epsilon([(LaplaceEvent(0.1), 3), (BoundedRangeEvent(0.2), 1)]) == pytest.approx(0.5)
    assert compose_epsilon([(GaussianEvent(1.0), 1)]) == math.inf
    assert compose_epsilon([]) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: LaplaceEvent(0),
        lambda: GaussianEvent(math.nan),
        lambda: BoundedRangeEvent(-1.0),
        lambda: compose_epsilon([(LaplaceEvent(1.0), 0)]),
        lambda: compose_epsilon([(LaplaceEvent(1.0), 1)], 1.0),
        lambda: compose_delta([(LaplaceEvent(1.0), 1)], -1.0),
        lambda: gaussian_noise_multiplier(0.0, 1e-6),
        lambda: gaussian_noise_multiplier(1.0, 1e-6, 0),
        lambda: gaussian_noise_multiplier(1.0, 1e-6, other=((PureEvent(2.0), 1),)),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(ValueError, match="must be|leave nothing"):
        call()


def test_prices_of_all_pairs_of_events_are_finite():
    kinds = [GaussianEvent(4.0), LaplaceEvent(0.2), PureEvent(0.2), BoundedRangeEvent(0.2), ZeroConcentratedEvent(0.02)]
    for first, second in itertools.product(kinds, kinds):
        assert 0 < compose_epsilon([(first, 2), (second, 3)], 1e-6) < 10


@pytest.mark.parametrize("kind", [LaplaceEvent, PureEvent, BoundedRangeEvent])
def test_events_whose_squares_underflow_have_a_price(kind):
    tiny = (kind(1e-300), 1000)
    assert compose_epsilon([tiny], 1e-6) <= 1e-297 * (1 + 1e-12)
    gaussian = (GaussianEvent(10.0), 7)
    assert compose_epsilon([gaussian, tiny], 1e-6) == pytest.approx(compose_epsilon([gaussian], 1e-6))
    assert compose_delta([gaussian, tiny], 0.5) == pytest.approx(compose_delta([gaussian], 0.5))


@pytest.mark.parametrize("event", [GaussianEvent(1e200), LaplaceEvent(1e-170), BoundedRangeEvent(1e-170)])
def test_no_event_is_free_because_its_square_underflows(event):
    """Its total variation, 4e-201 or 2.5e-171, is more than that δ."""
    assert event.rho > 0
    assert compose_epsilon([(event, 1)], 1e-300) >= 1e-171
    assert compose_delta([(event, 1)], 0.0) > 2.5e-171
    assert epsilon_of_rho(5e-324, 1.6e-162) > 0  # whose square is rounded up
