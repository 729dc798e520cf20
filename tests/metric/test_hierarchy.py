"""The binary hierarchy: boxes, budgets, least squares, privacy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skprivate import MetricPrivateSynthesizer
from skprivate.metric.grid._hierarchy import (
    PILOT_SHARE,
    SIZE_SHARE,
    BinaryHierarchy,
    HierarchyPlan,
    choose_depth,
    combined_variances,
    consistent_leaves,
    discrete_laplace_variance,
    extra_depth,
    from_tree_order,
    leaf_counts,
    level_variances,
    release_counts,
    split_budget,
    to_tree_order,
)
from skprivate.privacy import PrivacyLedger, open_release, public_generator


def release(epsilon, seed=0):
    return open_release(epsilon=epsilon, unit="row", adjacency="add-remove", random_state=seed)


@given(st.integers(1, 3), st.integers(1, 7))
def test_tree_order_puts_siblings_side_by_side(d, depth):
    shape = HierarchyPlan(d, depth).shape
    assert math.prod(shape) == 2**depth
    grid = np.arange(2**depth).reshape(shape)
    flat = to_tree_order(grid)
    assert np.array_equal(from_tree_order(flat.astype(float), shape), grid)
    # Every aligned block of 2^k leaves is a box.
    index = np.stack(np.unravel_index(flat, shape), axis=1)
    for level in range(depth + 1):
        for block in index.reshape(2**level, -1, d):
            extent = block.max(axis=0) - block.min(axis=0) + 1
            assert extent.prod() == len(block)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 6))
@settings(deadline=None)
def test_leaf_counts(seed, d, depth):
    rows = public_generator(seed).uniform(size=(50, d))
    rows[0] = 1.0
    shape = HierarchyPlan(d, depth).shape
    counts = leaf_counts(rows, shape)
    expected = np.histogramdd(rows, bins=shape, range=[(0, 1)] * d)[0]
    assert np.array_equal(counts, expected)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_least_squares_against_a_general_solver(d, depth):
    # Independent: all counts stacked with their weights, solved by lstsq.
    rng = public_generator(depth)
    counted = [True, *(rng.random(depth - 1) < 0.6), True]
    variances = rng.uniform(0.5, 3, size=depth + 1)
    noisy = [rng.normal(size=2**j) * 10 if use else None for j, use in enumerate(counted)]
    rows, targets = [], []
    for j, y in enumerate(noisy):
        if y is not None:
            block = np.kron(np.eye(2**j), np.ones((1, 2 ** (depth - j))))
            rows.append(block / math.sqrt(variances[j]))
            targets.append(y / math.sqrt(variances[j]))
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    # With more in every leaf no bound is active.
    more = [None if y is None else y + 100.0 * 2 ** (depth - j) for j, y in enumerate(noisy)]
    np.testing.assert_allclose(consistent_leaves(more, variances), expected + 100.0, atol=1e-9)
    leaves = consistent_leaves(noisy, variances)
    assert leaves.min() >= 0
    assert leaves.sum() == pytest.approx(max(expected.sum(), 0), abs=1e-9)


def test_exact_counts_are_kept():
    counts = public_generator(0).integers(0, 9, size=(4, 4))
    levels = [counts.reshape(-1).astype(float)]
    while levels[0].size > 1:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    np.testing.assert_allclose(consistent_leaves(levels, np.zeros(5)), levels[-1])


def test_combined_variances_of_a_uniform_tree():
    # Two levels with variance 1: the parent has its own count and the sum of two: 1·2/(1 + 2).
    np.testing.assert_allclose(combined_variances(np.array([1.0, 1.0])), [2 / 3, 1.0])
    np.testing.assert_allclose(combined_variances(np.array([np.inf, 1.0])), [2.0, 1.0])


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 5, 12, 22])
def test_budget_split(d, depth):
    weights = split_budget(depth, d)
    assert len(weights) == depth + 1
    assert weights[-1] > 0
    price = 2.0 ** (np.arange(depth) * (1 - 1 / d))

    def error(shares):
        shares = np.maximum(np.array(shares, dtype=float) / sum(shares), 1e-9)
        return price @ np.sqrt(combined_variances(2 / shares**2)[1:])

    published = 2.0 ** (0.5 * (1 - 1 / d) * np.arange(depth + 1))
    for rival in (published, np.ones(depth + 1), [0] * depth + [1]):
        assert error(weights) <= error(rival) * 1.01


def test_discrete_laplace_variance():
    for epsilon in (0.01, 0.7, 3.0):
        k = np.arange(-4000, 4001)
        p = np.exp(-epsilon * np.abs(k))
        assert discrete_laplace_variance(epsilon) == pytest.approx((k**2 * p).sum() / p.sum())
    assert discrete_laplace_variance(2000.0) == 0


def test_depth_depends_on_public_numbers_only():
    assert choose_depth(-5, 1.0, 2) == 1
    assert [choose_depth(n, 1.0, 2) for n in (1e3, 1e4, 1e5)] == [7, 10, 13]
    assert choose_depth(1e30, 1.0, 2) == 22


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_row_changes_the_weighted_counts_by_their_sensitivity(d):
    # What is released is Σ_j w_j · counts of level j; adding a row must change it by at most Σ w_j in ℓ1.
    plan = HierarchyPlan(d, 8)
    rng = public_generator(d)
    captured = []

    class Recorder:
        def discrete_laplace(self, counts, *, sensitivity, epsilon):
            captured.append((np.array(counts), sensitivity, epsilon))
            return np.array(counts)

    rows = rng.uniform(size=(30, d))
    for data in (rows, *(np.vstack([rows, extra]) for extra in rng.uniform(size=(20, 1, d)))):
        release_counts(leaf_counts(data, plan.shape), plan, Recorder(), epsilon=1.0)
    base, sensitivity, epsilon = captured[0]
    changes = {int(np.abs(counts - base).sum()) for counts, _, _ in captured[1:]}
    assert changes == {sensitivity}
    assert sensitivity == sum(plan.weights) and epsilon == 1.0


def test_noise_of_each_level_has_the_planned_variance():
    plan = HierarchyPlan(1, 12)
    assert sum(map(bool, plan.weights)) > 1
    variances = level_variances(plan, 1.0)
    noisy = release_counts(np.zeros(2**12, dtype=int), plan, release(1.0), epsilon=1.0)
    for level, variance in zip(noisy, variances, strict=True):
        assert (level is None) == math.isinf(variance)
        if level is not None:
            # Fourth moment of Laplace noise: kurtosis 6; six standard errors.
            assert abs((level**2).mean() / variance - 1) < 6 * math.sqrt(5 / level.size)


@pytest.mark.parametrize(("d", "depth"), [(1, None), (2, None), (3, None), (1, 6), (2, 5)])
def test_whole_release_costs_epsilon(d, depth):
    rows = public_generator(0).uniform(size=(500, d))
    mechanism = BinaryHierarchy(0.7, d, depth)
    opened = open_release(epsilon=0.7, unit="row", adjacency="add-remove", random_state=0, plan=mechanism.events)
    weights = mechanism.run((rows, None), opened)[0]
    guarantee = opened.close()
    assert guarantee.epsilon == pytest.approx(0.7, rel=1e-12) and guarantee.epsilon <= 0.7
    assert dict(guarantee.events) == dict(mechanism.events)
    assert weights.sum() == pytest.approx(1) and weights.min() >= 0


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_privacy_of_a_count_is_what_it_costs(share):
    # Log-ratio of the released count of one box, with one row and without, at ε = 1 (share = 1). With half of the noise
    # (share = 0.5: the budget is claimed, double of it is drawn) the same test has to fail.
    plan = HierarchyPlan(1, 1)
    n = 40_000
    outputs = []
    for rows in ([[0.2]], np.zeros((0, 1))):
        counts = leaf_counts(np.array(rows, dtype=float).reshape(-1, 1), plan.shape)
        draws = [
            release_counts(np.repeat(counts, 1), plan, opened, epsilon=1.0 / share)[1][0]
            for opened in [release(n / share, 1)]
            for _ in range(n // 20)
        ]
        outputs.append(np.array(draws))
    hits, misses = ((values >= 1).sum() for values in outputs)
    n = len(outputs[0])
    low = stats.beta.ppf(1e-4, hits, n - hits + 1)
    high = stats.beta.ppf(1 - 1e-4, misses + 1, n - misses)
    assert (math.log(low / high) > 1.0) == (share < 1)


def test_empty_and_constant_data():
    for rows in (np.zeros((0, 2)), np.zeros((1, 2)), np.ones((100, 2))):
        weights = BinaryHierarchy(1.0, 2).run((rows, None), release(1.0))[0]
        assert weights.sum() == pytest.approx(1)


def test_extra_depth_follows_the_entropy():
    assert [extra_depth(np.ones(128), d) for d in (0, 1, 2, 3, 8)] == [0, 0, 1, 2, 2]
    assert extra_depth(np.zeros(128), 2) == 0
    assert extra_depth(np.eye(256)[0], 2) == 6  # eight bits less than uniform
    assert extra_depth(np.ones(128), 2, group_bits=10) == 4
    prices = [event.epsilon for event, _ in BinaryHierarchy(1.0, 2).events]
    assert prices == pytest.approx([SIZE_SHARE, PILOT_SHARE, 1 - SIZE_SHARE - PILOT_SHARE])


def test_interleaving_of_uneven_shapes():
    assert HierarchyPlan(3, 4).shape == (4, 2, 2)
    order = to_tree_order(np.arange(16).reshape(4, 2, 2))
    expected = [4 * (2 * x1 + x2) + 2 * y + z for x1, y, z, x2 in itertools.product((0, 1), repeat=4)]
    assert order.tolist() == expected


@pytest.mark.parametrize("epsilon", [0.3, 100.0, 700.0, 711.0, 1000.0, 1399.0, 1401.0, 1e6, 1e12])
def test_the_variance_of_any_price(epsilon):
    share = math.exp(-epsilon)  # the variance is 2q/(1−q)²
    assert discrete_laplace_variance(epsilon) == pytest.approx(2 * share / (1 - share) ** 2, rel=1e-12, abs=1e-300)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("parameters", [{"bounds": (0, 1), "resolution": 4}, {"bounds": (0, 1)}, {}], ids=str)
@pytest.mark.parametrize("epsilon", [1e-7, 1e3, 3e3, 1e4, 1e6, 1e9])
def test_budgets_of_any_size(parameters, epsilon):
    rows = np.linspace(0.01, 0.99, 60).reshape(-1, 2)
    synthesizer = MetricPrivateSynthesizer(epsilon, **parameters).fit(rows)
    assert synthesizer.measure_.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("parameters", [{"bounds": (0, 1), "resolution": 4}, {"bounds": (0, 1)}, {}], ids=str)
@pytest.mark.parametrize("epsilon", [1e-13, 1e-18, 1e-30, 1e-300])
def test_a_budget_that_cannot_be_drawn_is_refused_before_it_is_paid(parameters, epsilon):
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon must leave at least 4.55e-13"):
        MetricPrivateSynthesizer(epsilon, ledger=ledger, **parameters).fit(np.zeros((60, 2)))
    assert len(ledger.entries()) == 0
