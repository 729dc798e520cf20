"""Wasserstein distance with categories: the flow along edges between them, its price, and fits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import linear_sum_assignment, linprog, minimize

from skprivate.metric import MetricPrivateSynthesizer, NoiseFillsBoxWarning
from skprivate.metric.grid._flows import (
    LaplaceFlow,
    category_sums,
    choose_cells,
    graph_laplacian,
    hat_sums,
    nearest_measure,
    steps_per_distance,
)
from skprivate.partitions import Blocks
from skprivate.privacy import PureEvent, open_release, public_generator
from skprivate.privacy._events import Draw, run_tape
from skprivate.utils._replay import _edges, _transport_at_least, excess
from skprivate.utils.estimator_checks import Neighbour, check_mechanism

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

NORMS = {"l1": 1, "l2": 2, "linf": np.inf}


def incidence(shape, n_stars):
    edges, _ = _edges(shape, [1.0] * n_stars)
    matrix = np.zeros((math.prod(shape), len(edges)))
    for k, (source, target) in enumerate(edges):
        matrix[source, k], matrix[target, k] = -1, 1
    return edges, matrix


def mixed_rows(rng, n, sizes, d, side):
    """Rows on the lattice, so that nothing is rounded, and numbers of their combinations."""
    return rng.integers(0, side + 1, size=(n, d)) / side, rng.integers(0, math.prod(sizes), n)


def product_distance(first, second, sizes, ground, weight):
    """W1 of two data sets under the product metric, by assignment: independent of the package."""
    (x, c), (y, e) = first, second
    cost = np.zeros((len(c), len(e)))
    for i, j in itertools.product(range(len(c)), range(len(e))):
        differ = np.array(np.unravel_index(c[i], sizes)) != np.array(np.unravel_index(e[j], sizes))
        cost[i, j] = (np.linalg.norm(x[i] - y[j], ord=NORMS[ground]) if x.shape[1] else 0) + weight * differ.sum()
    rows, columns = linear_sum_assignment(cost)
    return cost[rows, columns].mean()


@pytest.mark.parametrize("ground", NORMS)
@pytest.mark.parametrize(("sizes", "d"), [((2,), 1), ((3,), 2), ((2, 3), 1), ((4,), 0)])
def test_flows_cost_no_more_than_the_distance(ground, sizes, d):
    """The door: integer sums of any two data sets differ by a flow that the noise hides at ε times their distance."""
    rng = np.random.default_rng(3)
    tight = 0.0
    for trial in range(12):
        n, cells, weight = int(rng.integers(1, 5)), 2, float(rng.choice([0.25, 1.0, 3.0]))
        mechanism = LaplaceFlow(2.0, n, d, ground, cells, sizes, weight)
        side = cells << 3
        first, second = (mixed_rows(rng, n, sizes, d, side) for _ in range(2))
        if trial % 3 == 0:  # one row changes its category alone
            first[1][0] = math.prod(sizes) - 2
            second = (first[0], first[1].copy())
            second[1][0] += 1
        sums = [category_sums(each, cells, mechanism.bits, sizes) for each in (first, second)]
        assert sums[0].sum() == sums[1].sum() == n << mechanism.bits
        numeric = max(steps_per_distance(n, cells << mechanism.bits, d, ground), 1)
        edges, matrix = incidence(sums[0].shape, len(sizes))
        lengths = np.ones(len(edges)) / numeric
        for axis, star in enumerate(mechanism.stars):
            at = (
                np.unravel_index(edges[:, 0], sums[0].shape)[axis] != np.unravel_index(edges[:, 1], sums[0].shape)[axis]
            )
            lengths[at] = 1 / float(star)
        change = (sums[1] - sums[0]).ravel().astype(float)
        scale = np.abs(change).max() or 1.0
        unit = lengths.min()
        least = linprog(
            np.concatenate([lengths, lengths]) / unit, A_eq=np.hstack([matrix, -matrix]), b_eq=change / scale
        )
        cost = least.fun * scale * unit  # in units of ε
        distance = product_distance(first, second, sizes, ground, weight)
        assert cost <= distance * (1 + 1e-6)
        if distance:
            tight = max(tight, cost / distance)
            below = _transport_at_least(*sums, [Fraction(numeric) / star for star in mechanism.stars])
            assert float(below) / numeric == pytest.approx(cost, rel=1e-5)
    assert tight > 0.99


@pytest.mark.parametrize("weight", [0.5, 1e-9, 1e9])
@pytest.mark.parametrize("d", [0, 1])
@pytest.mark.parametrize("sizes", [(2,), (2, 2)])
def test_the_check_of_draws_finds_flows_that_cost_more_than_the_distance(sizes, d, weight):
    """Categories are not snapped to anything: a flow twice as dear as the distance is no rounding."""
    mechanism = LaplaceFlow(2e9, 4, d, "linf", 1, sizes, weight)
    rows = np.zeros((4, d))
    first, second = (
        Draw(
            "flow_laplace",
            category_sums((rows, np.array(groups)), 1, mechanism.bits, sizes),
            max(steps_per_distance(4, 1 << mechanism.bits, d, "linf"), 1),
            "flow",
            {PureEvent(2e9, "Laplace flow"): 1},
            1.0,
            {"stars": mechanism.stars},
        )
        for groups in ([0, 0, 0, 0], [math.prod(sizes) - 1, 0, 0, 0])
    )
    distance = weight * len(sizes) / 4
    assert excess(first, second, distance * (1 + 2.0**-40))[1] is None
    assert excess(first, second, distance / 2.01)[1] is not None


def test_a_change_of_category_moves_the_mass_of_one_row():
    rows, groups = np.array([[0.3, 0.8], [0.5, 0.5]]), np.array([4, 2])
    before = category_sums((rows, groups), 4, 10, (2, 3))
    after = category_sums((rows, np.array([1, 2])), 4, 10, (2, 3))
    alone = hat_sums(rows[:1], 4, 10)
    assert np.array_equal(before[1, 1] - after[1, 1], alone) and np.array_equal(after[0, 1] - before[0, 1], alone)
    assert np.count_nonzero((before - after).any(axis=(2, 3))) == 2


@pytest.mark.parametrize("kinds", [((3, 4), 1), ((3, 3, 2), 2), ((5,), 1), ((3, 4), 0)])
def test_laplacian_and_least_flow_with_stars(kinds):
    shape, n_stars = kinds
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.2, 3, n_stars)
    edges, matrix = incidence(shape, n_stars)
    conductance = np.ones(len(edges))
    for axis, weight in enumerate(weights):
        ends = [np.unravel_index(edges[:, k], shape)[axis] for k in (0, 1)]
        conductance[ends[0] != ends[1]] = weight
    values = rng.normal(size=shape)
    expected = matrix @ (conductance * (matrix.T @ values.ravel()))
    np.testing.assert_allclose(graph_laplacian(values, weights).ravel(), expected, atol=1e-12)
    signed = rng.normal(size=shape)
    signed += (1 - signed.sum()) / signed.size
    measure = nearest_measure(signed, weights)
    assert measure.min() >= 0 and measure.sum() == pytest.approx(1)
    flow = np.linalg.lstsq(matrix * np.sqrt(conductance), (measure - signed).ravel(), rcond=None)[0]
    least = minimize(
        lambda z: float(z @ z),
        flow,
        jac=lambda z: 2 * z,
        constraints={
            "type": "ineq",
            "fun": lambda z: signed.ravel() + matrix @ (np.sqrt(conductance) * z),
            "jac": lambda z: matrix * np.sqrt(conductance),
        },
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert float(flow @ flow) <= least.fun * (1 + 1e-4) + 1e-8


@pytest.mark.slow
def test_noise_along_stars_has_its_law():
    """On three categories: Laplace noise of scale stars/ε on two of them, what they gain the first one loses."""
    mass = np.array([5, 7, 9])
    noise = []
    for seed in range(3000):
        release = open_release(epsilon=2.0, unit="data set", adjacency="metric", metric="test", random_state=seed)
        noise.append(release.flow_laplace(mass, sensitivity=1, epsilon=2.0, stars=[Fraction(2**41)]) - mass)
    noise = np.array(noise)
    assert not noise.sum(axis=1).any()
    for column in (1, 2):  # the Kolmogorov-Smirnov test at level 1e-7
        assert stats.kstest(noise[:, column] / 2.0**40, stats.laplace.cdf).pvalue > 1e-7
    assert abs(np.corrcoef(noise[:, 1], noise[:, 2])[0, 1]) < 5 / np.sqrt(3000)


def test_bad_stars_are_refused_before_a_price_is_paid():
    release = open_release(epsilon=2.0, unit="data set", adjacency="metric", metric="test", random_state=0)
    for stars in ([1, 1], [0], [-1], [0.5]):
        with pytest.raises(ValueError, match="stars must be positive rational"):
            release.flow_laplace([1, 2], sensitivity=1, epsilon=2.0, stars=stars)
    with pytest.raises(ValueError, match="scale"):
        release.flow_laplace([1, 2], sensitivity=1, epsilon=2.0, stars=[2**70])
    assert release.close().events == ()


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    return pd.DataFrame({"kind": kind, "x": rng.beta(2, 5, n) + (kind == "b"), "smokes": rng.random(n) < 0.2})


KEYWORDS = {
    "metric": "wasserstein",
    "categories": {"kind": ["a", "b", "c"], "smokes": [False, True]},
    "bounds": {"x": (0, 2)},
    "random_state": 0,
}


@pytest.mark.parametrize("ground", NORMS)
def test_synthetic_rows_follow_numbers_and_categories(ground):
    frame = people(5000)
    model = MetricPrivateSynthesizer(20_000.0, ground=ground, **KEYWORDS).fit(frame)
    drawn = model.sample(4000, random_state=1)
    assert list(drawn.columns) == list(frame.columns) and (drawn.dtypes == frame.dtypes).all()
    for value in "abc":
        assert (drawn.kind == value).mean() == pytest.approx((frame.kind == value).mean(), abs=0.03)
    assert drawn.x[drawn.kind == "b"].mean() - drawn.x[drawn.kind == "a"].mean() == pytest.approx(1, abs=0.1)
    assert model.score(frame) > -0.1
    assert model.measure_.weights.sum() == pytest.approx(1) and model.measure_.kind == "nodes"
    assert "plus 1 for every category that differs" in str(model.privacy_guarantee_)


def test_more_budget_leads_to_the_rows():
    frame = people(2000)
    scores = [MetricPrivateSynthesizer(epsilon, **KEYWORDS).fit(frame).score(frame[:500]) for epsilon in (3e3, 1e6)]
    assert scores[0] < scores[-1] and scores[-1] > -0.08


def test_the_same_in_blocks_and_one_draw():
    frame = people(700)
    model = MetricPrivateSynthesizer(2000.0, **KEYWORDS).fit(frame)
    blocks = Blocks([frame[:1], frame[1:300], frame[300:300], frame[300:]])
    other = MetricPrivateSynthesizer(2000.0, **KEYWORDS).fit(blocks)
    assert np.array_equal(model.measure_.weights, other.measure_.weights)
    shuffled = frame.sample(frac=1, random_state=0)
    assert np.array_equal(
        MetricPrivateSynthesizer(2000.0, **KEYWORDS).fit(shuffled).measure_.weights, model.measure_.weights
    )
    (event,) = model.privacy_guarantee_.events
    assert event[0].pure_epsilon == 2000.0 and event[1] == 1


def test_a_row_counts_by_the_farthest_that_it_can_go():
    frame = people(100)
    model = MetricPrivateSynthesizer(1000.0, category_weight=0.5, ground="l2", **KEYWORDS).fit(frame)
    assert model.row_guarantee(100).epsilon == pytest.approx(10.0 * (1 + 2 * 0.5))
    only = MetricPrivateSynthesizer(
        1000.0, metric="wasserstein", categories={0: [0, 1], 1: ["x"]}, category_weight=2.0, random_state=0
    )
    X = np.array([[0, "x"], [1, "x"], [1, "x"]], dtype=object)
    assert only.fit(X).row_guarantee(100).epsilon == pytest.approx(10.0 * 2)  # where nothing differs, nothing counts
    assert only.measure_.weights.shape == (2,)
    assert only.measure_.weights == pytest.approx([1 / 3, 2 / 3], abs=0.05)


def test_weights_of_every_size():
    frame = people(50)
    for weight in (1e-9, 1e9, 1e300):
        model = MetricPrivateSynthesizer(1e4, category_weight=weight, resolution=2, **KEYWORDS)
        model.fit(frame)
        assert model.measure_.weights.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="too small"):
        MetricPrivateSynthesizer(1e4, category_weight=1e-300, **KEYWORDS).fit(frame)
    with pytest.raises(ValueError, match="category_weight"):
        MetricPrivateSynthesizer(1e4, category_weight=0.0, **KEYWORDS).fit(frame)
    with pytest.raises(ValueError, match="grid nodes"):
        MetricPrivateSynthesizer(1e4, resolution=100_000, **KEYWORDS).fit(frame)


def test_score_is_the_assignment_under_the_product_metric():
    frame = people(60)
    model = MetricPrivateSynthesizer(1e5, category_weight=0.7, ground="l1", **KEYWORDS).fit(frame)
    measure = model.measure_
    X = frame.to_numpy(dtype=object)
    numeric, groups = measure.columns.encode(X)
    drawn, there = measure.draw(60, public_generator(0))
    expected = product_distance((numeric / 2, groups), (drawn / 2, there), (3, 2), "l1", 0.7)
    assert model.score(frame) == pytest.approx(-expected)


def test_grids_become_coarser_with_categories():
    assert choose_cells(1e6, 2, "linf") == choose_cells(1e6, 2, "linf", (1,)) == 55
    assert choose_cells(1e6, 2, "linf", (2,)) < 55
    assert choose_cells(1e300, 2, "linf", (16,)) == 127  # 2^18 nodes in all
    assert choose_cells(1.0, 0, "linf", (5,)) == 1


def test_too_little_budget_is_said():
    with pytest.warns(NoiseFillsBoxWarning, match="too small"):
        MetricPrivateSynthesizer(1.0, **KEYWORDS).fit(people(50))


def test_what_is_drawn_for_neighbours_differs_by_one_row():
    """On the tape: the integers before the noise, with nothing of one row in what another adds."""
    frame = people(30)
    other = frame.copy()
    other.loc[7, "kind"] = "c" if frame.kind[7] != "c" else "a"

    def draws(table):
        seen = []

        class Recorder:
            def draw(self, draw, sample):
                seen.append(draw)
                return sample()

        with run_tape(Recorder()):
            MetricPrivateSynthesizer(500.0, resolution=3, **KEYWORDS).fit(table)
        return seen

    (first,), (second,) = draws(frame), draws(other)
    change = second.statistic - first.statistic
    assert np.abs(change).sum() == 2 * (first.statistic.sum() // 30)
    assert first.options == second.options and first.sensitivity == second.sensitivity


def test_the_mechanism_keeps_its_contract():
    """Noise as wide as the price says, and no flow dearer than the distance, on the tape."""
    sizes, weight, n = (3, 2), 0.3, 4
    mechanism = LaplaceFlow(4.0, n, 1, "linf", 2, sizes, weight)
    rng = np.random.default_rng(0)

    def neighbours(data):
        for moved, group in itertools.product((0.0, 0.37, 1.0), range(6)):
            rows, groups = data[0].copy(), data[1].copy()
            rows[1], groups[1] = moved, group
            distance = product_distance(data, (rows, groups), sizes, "linf", weight)
            yield Neighbour(f"({moved}, {group})", (rows, groups), distance * (1 + 2.0**-40))

    data = [(rng.random((n, 1)), rng.integers(0, 6, n)), (np.zeros((n, 1)), np.zeros(n, dtype=np.int64))]
    terms = {"unit": "data set", "adjacency": "metric", "metric": "test"}
    check_mechanism(mechanism, data, neighbours=neighbours, **terms)
    with pytest.raises(AssertionError, match="not private"):  # as if categories were farther apart than they are
        check_mechanism(LaplaceFlow(4.0, n, 1, "linf", 2, sizes, 0.6), data, neighbours=neighbours, **terms)
