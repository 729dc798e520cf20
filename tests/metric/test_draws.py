"""Draws for metric privacy: laws, prices, refusals."""

import math

import numpy as np
import pytest
from scipy import stats

from skprivate.privacy import BudgetExceededError, open_release, public_generator
from skprivate.privacy._metric_draws import channel_price, quantise_channel


def release(epsilon, seed=None):
    return open_release(epsilon=epsilon, unit="row", adjacency="metric", metric="test", random_state=seed)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_k_norm_radius_is_gamma(norm, d):
    # Kolmogorov-Smirnov at level 1e-7 for each of 12 cases.
    rows = np.full((20_000, d), 3.0)
    noise = release(0.5).k_norm(rows, norm=norm, epsilon=0.5) - rows
    radius = {
        "l1": np.abs(noise).sum(axis=1),
        "l2": np.sqrt((noise**2).sum(axis=1)),
        "linf": np.abs(noise).max(axis=1),
    }[norm]
    assert stats.kstest(radius, stats.gamma(d, scale=2.0).cdf).pvalue > 1e-7
    # Directions: every coordinate is symmetric, and all have the same law.
    assert stats.binomtest(int((noise[:, 0] > 0).sum()), 20_000).pvalue > 1e-7
    assert stats.ks_2samp(noise[:, 0], noise[:, -1]).pvalue > 1e-7 or d == 1


@pytest.mark.parametrize("d", [2, 6])
def test_cube_and_ball_directions(d):
    noise = release(1.0).k_norm(np.zeros((20_000, d)), norm="linf", epsilon=1.0)
    unit = noise / np.abs(noise).max(axis=1, keepdims=True)
    inner = unit[np.abs(unit) < 1]  # on a face of the cube the other coordinates are uniform
    assert stats.kstest(inner, stats.uniform(-1, 2).cdf).pvalue > 1e-7
    noise = release(1.0).k_norm(np.zeros((20_000, d)), norm="l2", epsilon=1.0)
    unit = noise / np.sqrt((noise**2).sum(axis=1, keepdims=True))
    squares = unit[:, 0] ** 2
    assert stats.kstest(squares, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-7


def test_geo_indistinguishability_mean_radius():
    # Planar Laplace: E|z| = 2/ε, sd √2/ε; five standard errors are exceeded with probability below 1e-6.
    n, epsilon = 50_000, 0.25
    noise = release(epsilon).k_norm(np.zeros((n, 2)), norm="l2", epsilon=epsilon)
    mean = np.hypot(*noise.T).mean()
    assert abs(mean - 2 / epsilon) < 5 * math.sqrt(2) / epsilon / math.sqrt(n)


def test_k_norm_is_priced_and_refused():
    opened = release(1.0, 0)
    opened.k_norm([[0.0, 1.0]], norm="l2", epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        opened.k_norm([[0.0, 1.0]], norm="l2", epsilon=0.1)
    assert opened.close().epsilon == 1.0
    with pytest.raises(ValueError, match="norm must be"):
        release(1.0, 0).k_norm([[0.0]], norm="l3", epsilon=1.0)
    with pytest.raises(ValueError, match="rows must have shape"):
        release(1.0, 0).k_norm([0.0], norm="l2", epsilon=1.0)


def test_channel_price_is_the_exact_log_ratio():
    weights = quantise_channel([[0.75, 0.25], [0.25, 0.75]])
    assert weights.sum(axis=1).tolist() == [2**62, 2**62]
    assert channel_price(weights, [[0, 2], [2, 0]]) == pytest.approx(math.log(3) / 2, rel=1e-12)
    assert channel_price(quantise_channel([[1, 0], [0, 1]]), [[0, 1], [1, 0]]) == math.inf
    assert channel_price(quantise_channel([[1, 0], [1, 0]]), [[0, 1], [1, 0]]) == 0.0
    assert channel_price(quantise_channel([[0.6, 0.4], [0.5, 0.5]]), np.zeros((2, 2))) == math.inf


def test_channel_draws_its_probabilities():
    rng = public_generator(0)
    matrix = rng.dirichlet(np.ones(5), size=3)
    states = rng.integers(3, size=60_000)
    distances = 50.0 * (1 - np.eye(3))
    drawn = release(1.0).channel(states, channel=matrix, distances=distances, epsilon=1.0)
    for state in range(3):
        counts = np.bincount(drawn[states == state], minlength=5)
        assert stats.chisquare(counts, matrix[state] * counts.sum()).pvalue > 1e-7


def test_channel_refuses_what_costs_too_much():
    opened = release(10.0, 0)
    with pytest.raises(ValueError, match="not private enough: it needs epsilon = 1.09861"):
        opened.channel([0], channel=[[0.75, 0.25], [0.25, 0.75]], distances=[[0, 1], [1, 0]], epsilon=1.0)
    with pytest.raises(ValueError, match="states must be"):
        opened.channel([2], channel=[[0.5, 0.5], [0.5, 0.5]], distances=[[0, 1], [1, 0]], epsilon=1.0)
    with pytest.raises(ValueError, match="add up to 1"):
        opened.channel([0], channel=[[0.5, 0.4]], distances=[[0]], epsilon=1.0)
    assert opened.close().epsilon == 0.0
