"""Theorems 4 and 5 with constants: units, rates, noise as drawn, and nothing below what is possible."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skprivate.papers.user_level import Plan, rotated_radius
from skprivate.papers.user_level_bounds import Smooth, lower_bound, risk_bound
from skprivate.privacy import LaplaceEvent

PROBLEM = {"radius": 1.0, "deviation": 1.0, "lipschitz": 3.0, "smoothness": 1.0}
BUDGET = {"epsilon": 1.0, "delta": 1e-9}


def bound(n=10**8, m=1000, d=5, **options):
    return risk_bound(n, m, d, **(BUDGET | PROBLEM | options))


@pytest.mark.slow
@pytest.mark.parametrize("risk", ["empirical", "population"])
def test_units(risk):
    base = bound(risk=risk)
    assert 0.0 < base < 6.0
    # A loss in other units, and parameters in other units.
    loss = bound(deviation=7.0, lipschitz=21.0, smoothness=7.0, risk=risk)
    assert loss == pytest.approx(7.0 * base)
    parameters = bound(radius=5.0, deviation=0.2, lipschitz=0.6, smoothness=0.04, risk=risk)
    assert parameters == pytest.approx(base)
    # Nothing is worse than the worst point of the ball.
    assert bound(n=2, risk=risk) == 2.0 * 3.0 * 1.0


@pytest.mark.slow
@pytest.mark.parametrize("risk", ["empirical", "population"])
def test_risk_bounds_have_the_rates_of_theorems_4_and_5(risk):
    """Rσd/(nε√m), and GR/√(mn) beside it for the population, up to logarithms."""
    many = {"n": 10**9, "risk": risk}
    base = bound(**many)
    assert 7.0 < base / bound(**(many | {"n": 10**10})) < 10.5
    assert 6.0 < base / bound(**many, m=100_000) < 10.5
    assert 1.6 < base / bound(**many, epsilon=2.0) < 2.5
    assert base < bound(**many, d=10) < 6.0 * base
    assert bound(**many) <= bound(**many, delta=1e-12)
    # Past the logarithm of 2/δ the published composition buys nothing more.
    assert bound(**many, epsilon=30.0) == bound(**many, epsilon=300.0)


@pytest.mark.slow
def test_without_privacy_to_speak_of_sampling_is_left():
    """GR/√(mn) with constants: many users, few rows, so that privacy is negligible."""
    wide = bound(n=10**13, m=1, lipschitz=100.0)
    assert 1.0 < wide / (100.0 / math.sqrt(10**13)) < 12.0
    assert bound(n=10**13, m=1, lipschitz=200.0) > 1.5 * wide
    assert bound(n=10**13, m=1, risk="empirical") < wide


@pytest.mark.parametrize("n_steps", [4, 64])
def test_noise_of_the_bound_is_that_of_the_algorithm(n_steps):
    """From the price list of Algorithm 4: every Laplace draw has the scale of its sensitivity over its price."""
    n, gamma, d = 10**6, 1e-3, 6
    problem = Smooth(n, 100, d, 1.0, 1e-9, 1.0, 1.0, 3.0, 1.0)
    tau = problem.concentration(n, gamma)
    plan = Plan(1.0, 1e-9, n_steps, tau, 3.0, gamma / n_steps, 0.1, 1.0, "convex")
    ((event, draws),) = [(e, k) for e, k in plan.events(d) if isinstance(e, LaplaceEvent)]
    assert draws == n_steps * 8
    half = 2.0 * rotated_radius(tau, 8, n, gamma / n_steps)
    scale = 2.0 * half / (n * event.epsilon)
    each = math.sqrt(8 * 2.0 * scale**2)  # eight coordinates of a padded vector
    assert problem.noise(n, n_steps, gamma)[0] == pytest.approx(each / math.sqrt(n_steps))


def test_gradients_of_all_users_are_concentrated():
    """Proposition 1 on the loss ½‖θ − x‖²: at most one run in 1/γ strays; none of 40 does."""
    n, m, d, gamma = 300, 20, 4, 1e-7
    problem = Smooth(n, m, d, 1.0, 1e-9, 1.0, 1.0, 3.0, 1.0)
    for seed in range(40):
        means = np.random.default_rng(seed).normal(size=(n, d)) / math.sqrt(m)
        assert np.linalg.norm(means, axis=1).max() < problem.concentration(n, gamma)
    assert problem.concentration(n, gamma) < 40.0 / math.sqrt(m)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_descents_keep_to_the_bounds_they_are_priced_by(noise):
    """HR²/2T + Rν/√T for the averaged iterate, and the distance of the last one with a penalty; 200 descents each."""
    rng, T, R, H, d = np.random.default_rng(0), 60, 1.0, 2.0, 3
    scales = np.array([H, 0.3, 0.0])
    best = np.array([0.6, -0.6, 0.5])
    excess, squares, q, penalty = [], [], 4.0, 0.5
    s = R / (noise * math.sqrt(T))
    for _ in range(200):
        x, total = np.zeros(d), np.zeros(d)
        z = np.zeros(d)
        for _ in range(T):
            x = x - (scales * (x - best) + noise * rng.normal(size=d) / math.sqrt(d)) / (H + 1 / s)
            x /= max(1.0, np.linalg.norm(x) / R)
            total += x / T
            step = 1.0 / (H + penalty + penalty * T / q)
            z = z - step * (scales * (z - best) + penalty * z + noise * rng.normal(size=d) / math.sqrt(d))
        excess.append(0.5 * scales @ (total - best) ** 2)
        squares.append(np.sum((z - scales * best / (scales + penalty)) ** 2))
    assert np.mean(excess) <= H * R**2 / (2 * T) + R * noise / math.sqrt(T)
    decay = math.exp(-2 * penalty * T / (H + penalty * (2 + T / q)))
    assert np.mean(squares) <= 4 * R**2 * decay + q * noise**2 / T / (2 * penalty**2)


@pytest.mark.slow
def test_no_bound_is_below_what_is_possible():
    """½‖θ − x‖² has the excess risk ½‖θ − μ‖², so the lower bound for means is one for it."""
    for n, m, d in [(10**7, 100, 1), (10**9, 1000, 5), (10**6, 1, 2)]:
        least = lower_bound(n, m, d, **BUDGET, radius=1.0 / math.sqrt(d))
        assert 0.5 * least**2 < bound(n, m, d)


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"n": 1.5}, TypeError, "n_users"),
        ({"m": 0}, ValueError, "rows_per_user"),
        ({"d": True}, TypeError, "n_features"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"radius": math.inf}, ValueError, "radius"),
        ({"deviation": 0.0}, ValueError, "deviation"),
        ({"lipschitz": 0.0}, ValueError, "lipschitz"),
        ({"smoothness": math.nan}, ValueError, "smoothness"),
        ({"risk": "mean"}, ValueError, "risk must be one of"),
    ],
)
def test_parameters_out_of_range(options, error, name):
    with pytest.raises(error, match=name):
        bound(**options)
