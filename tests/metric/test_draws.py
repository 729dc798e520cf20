"""Draws for metric privacy: laws, prices, refusals."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every
from helpers.scripted_bits import CONTEXT
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skprivate.privacy import BudgetExceededError, open_release, public_generator
from skprivate.privacy.draws._metric import channel_cost, net_costs, net_lattice, quantise_channel


def release(epsilon, seed=None):
    return open_release(epsilon=epsilon, unit="row", adjacency="metric", metric="test", random_state=seed)


@pytest.mark.parametrize("d", [2, 6, 30])
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


def release_of(adjacency, metric=None):
    return open_release(epsilon=1.0, unit="row", adjacency=adjacency, metric=metric, random_state=None)


DRAWS = {
    "k_norm": lambda r, norm="l2": r.k_norm([[0.0], [1000.0]], norm=norm, epsilon=1.0),
    "nearest": lambda r, norm="l2": r.nearest(
        [[0.3]], points=[[0.0], [1.0]], bounds=([0.0], [1.0]), norm=norm, epsilon=1.0
    ),
    "channel": lambda r: r.channel([0], channel=[[0.5, 0.5]], distances=[[0]], epsilon=1.0),
    "flow_laplace": lambda r: r.flow_laplace([1, 1], sensitivity=1.0, epsilon=1.0),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_draws_of_metric_privacy_need_a_metric_release(draw, adjacency):
    opened = release_of(adjacency)
    with pytest.raises(ValueError, match=f"{draw} needs adjacency='metric'.*adjacency='{adjacency}'"):
        DRAWS[draw](opened)
    assert opened.close().events == ()
    DRAWS[draw](release_of("metric", "l2"))


@pytest.mark.parametrize("draw", ["k_norm", "nearest"])
def test_norm_is_the_metric_of_the_release(draw):
    opened = release_of("metric", "l2")
    with pytest.raises(ValueError, match="metric of the release, 'l2', got 'linf'"):
        DRAWS[draw](opened, "linf")
    assert opened.close().events == ()


@pytest.mark.parametrize("epsilon", [1e-300, 1e300, math.nan, -1.0])
@pytest.mark.parametrize("draw", ["k_norm", "nearest"])
def test_nothing_is_spent_on_parameters_out_of_range(draw, epsilon):
    opened = open_release(epsilon=1e301, unit="row", adjacency="metric", metric="l2")
    keywords = {"norm": "l2", "epsilon": epsilon}
    if draw == "nearest":
        keywords |= {"points": [[0.5]], "bounds": ([0.0], [1.0])}
    with pytest.raises(ValueError, match="epsilon must"):
        getattr(opened, draw)([[0.0]], **keywords)
    assert opened.close().events == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": [[2.0, 0.0]]}, "inside of bounds"),
        ({"points": [[0.5]]}, "same number of columns"),
        ({"points": np.zeros((0, 2))}, "one to 2\\*\\*20 points"),
        ({"bounds": ([0.0], [1.0])}, "same number of columns"),
        ({"rows": [0.0]}, "rows must have shape"),
        ({"norm": "l3"}, "norm must be"),
    ],
)
def test_refusals_of_draws_from_a_net(change, message):
    keywords = {"rows": [[0.1, 0.2]], "points": [[0.5, 0.5]], "bounds": ([0.0, 0.0], [1.0, 1.0]), "norm": "l1"}
    opened = release(1.0)
    with pytest.raises(ValueError, match=message):
        opened.nearest(**(keywords | change), epsilon=1.0)
    assert opened.close().events == ()


@settings(deadline=None, max_examples=200)
@given(
    norm=st.sampled_from(["l1", "l2", "linf"]),
    d=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    scale=st.integers(-40, 40),
    epsilon=st.sampled_from([1e-3, 1.0, 17.0, 1e5]),
    near=st.floats(-18, 0),
)
def test_price_of_draws_from_a_net_at_every_distance(norm, d, seed, scale, epsilon, near):
    # The theorem from the costs that are drawn with: log-ratio ≤ 2·rate·max |difference| ≤ ε(ρ + a)/(1 + 2^-20).
    rng = public_generator(seed)
    epsilon = epsilon * 2.0**-scale
    lower = rng.normal(size=d) * rng.choice([0.0, 1.0, 1e6]) * 2.0**scale
    upper = lower + 2.0**scale
    points = np.clip(lower + rng.random((5, d)) * 2.0**scale, lower, upper)
    x = np.clip(lower + rng.random((40, d)) * 2.0**scale, lower, upper)
    other = np.clip(x + 10.0**near * rng.normal(size=x.shape) * 2.0**scale, lower, upper)
    lattice = net_lattice(norm, lower, upper, epsilon)
    costs = [net_costs(rows, points, lower, norm, lattice) for rows in (x, other)]
    loss = [2 * int(gap) / lattice.scale for gap in np.abs(costs[0] - costs[1]).max(axis=1)]
    most = max(Fraction(1, 2**32) / Fraction(epsilon), Fraction(2.0**scale) * (6 * d * d) / 2**46)
    for row, price in zip(range(len(loss)), loss, strict=True):
        gaps = [abs(Fraction(a) - Fraction(b)) for a, b in zip(x[row].tolist(), other[row].tolist(), strict=True)]
        if norm == "l2":
            square = sum(gap * gap for gap in gaps)
            bits = 2 ** max(0, 2 * (square.denominator.bit_length() - square.numerator.bit_length()) + 200)
            rho = Fraction(math.isqrt(int(square * bits * bits)) + 1, bits)
        else:
            rho = sum(gaps) if norm == "l1" else max(gaps)
        assert price <= Fraction(epsilon) * (rho + most) / (1 + Fraction(1, 2**20))
    # The row alone decides.
    assert np.array_equal(net_costs(x[:1], points, lower, norm, lattice), costs[0][:1])
    assert np.array_equal(net_costs(x[::-1].copy(order="F"), points, lower, norm, lattice)[::-1], costs[0])


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d", [1, 2, 5, 12])
@every("epsilon", [1e-6, 1.0, 300.0])
def test_rows_on_both_sides_of_a_corner_of_the_lattice(norm, d, epsilon):
    # All coordinates are rounded apart, at a distance of next to nothing: what that costs is within 2^-32.
    lower, upper = np.zeros(d), np.ones(d)
    lattice = net_lattice(norm, lower, upper, epsilon)
    middle = (math.floor(0.5 / lattice.step) + 0.5) * lattice.step
    rows = np.array([np.full(d, middle - 2.0**-50), np.full(d, middle + 2.0**-50)])
    points = np.array([lower, upper, np.full(d, 0.25)])
    below, above = net_costs(rows, points, lower, norm, lattice)
    assert np.abs(below - above).max() >= 1
    rho = 2.0**-49 * d
    assert 2 * int(np.abs(below - above).max()) / lattice.scale <= Fraction(epsilon) * Fraction(rho) + Fraction(
        1, 2**32
    )


def log(value):
    return CONTEXT.ln(Decimal(value.numerator)) - CONTEXT.ln(Decimal(value.denominator))


@every("gap", [1e-15, 1e-13, 1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("distance", [1.0, 0.3, 1e-300, 1e9])
def test_channel_price_is_right_to_the_last_digit_upwards(gap, distance):
    weights = quantise_channel([[0.5 + gap / 4, 0.5 - gap / 4], [0.5 - gap / 4, 0.5 + gap / 4], [0.5, 0.5]])
    distances = distance * (1 - np.eye(3))
    with localcontext(CONTEXT):
        exact = max(
            Fraction(abs(log(Fraction(int(a), int(b))))) / Fraction(distance)
            for row, other in itertools.combinations(weights, 2)
            for a, b in zip(row, other, strict=True)
        )
    price = Fraction(channel_cost(weights, distances))
    assert exact <= price <= exact * (1 + Fraction(1, 2**47))


@every(
    ("distances", "message"),
    [
        ([[0, math.nan], [math.nan, 0]], "finite"),
        ([[math.nan, 1], [1, math.nan]], "finite"),
        ([[0, math.inf], [math.inf, 0]], "finite"),
        ([[0, -1], [-1, 0]], "nonnegative"),
        ([[0, 1], [2, 0]], "symmetric"),
        ([[1, 1], [1, 1]], "0 on the diagonal"),
        ([[0, 1, 1], [1, 0, 1]], "shape"),
    ],
)
@pytest.mark.parametrize("matrix", [np.eye(2), np.full((2, 2), 0.5)])
def test_channel_refuses_what_is_no_metric(distances, message, matrix):
    opened = release(1.0)
    with pytest.raises(ValueError, match=message):
        opened.channel([0], channel=matrix, distances=distances, epsilon=1.0)
    assert opened.close().events == ()


def test_channel_price_is_the_exact_log_ratio():
    weights = quantise_channel([[0.75, 0.25], [0.25, 0.75]])
    assert weights.sum(axis=1).tolist() == [2**62, 2**62]
    assert channel_cost(weights, [[0, 2], [2, 0]]) == pytest.approx(math.log(3) / 2, rel=1e-12)
    assert channel_cost(quantise_channel([[1, 0], [0, 1]]), [[0, 1], [1, 0]]) == math.inf
    assert channel_cost(quantise_channel([[1, 0], [1, 0]]), [[0, 1], [1, 0]]) == 0.0
    assert channel_cost(quantise_channel([[0.6, 0.4], [0.5, 0.5]]), np.zeros((2, 2))) == math.inf


def exact_price(weights, distances):
    """By definition, pair by pair, in 60 digits."""
    worst = Fraction(0)
    for (row, x), (other, y) in itertools.combinations(zip(weights, itertools.count()), 2):
        for a, b in zip(row, other, strict=True):
            if a != b:
                worst = max(worst, Fraction(abs(log(Fraction(int(a), int(b))))) / Fraction(distances[x, y]))
    return worst


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 5), st.sampled_from([1.0, 1e-7, 1e-13]))
def test_channel_price_of_rows_that_repeat_and_nearly_tie(seed, n, m, gap):
    rng = public_generator(seed)
    matrix = (0.5 + gap * rng.random((4, m)))[rng.integers(4, size=n)]
    matrix = np.column_stack([matrix, matrix[:, ::-1]])
    weights = quantise_channel(matrix / matrix.sum(axis=1, keepdims=True))
    points = rng.random(n)
    distances = np.abs(points[:, None] - points) + 0.1 * (1 - np.eye(n))
    with localcontext(CONTEXT):
        exact = exact_price(weights, distances)
    assert exact <= Fraction(channel_cost(weights, distances)) <= exact * (1 + Fraction(1, 2**47))


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
