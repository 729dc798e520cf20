"""Hat moments, flows and the two Wasserstein mechanisms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.hat_measures import HatMoments, fit_moments, hat_sensitivity, level_budgets, prolong, restrict
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from skprivate.metric.grid._flows import (
    LaplaceFlow,
    choose_cells,
    graph_laplacian,
    hat_bits,
    hat_sums,
    nearest_measure,
    steps_per_distance,
)
from skprivate.privacy import open_release, public_generator
from skprivate.privacy._events import run_tape


def release(epsilon, seed=0, **keywords):
    return open_release(
        epsilon=epsilon, unit="data set", adjacency="metric", metric="W1", random_state=seed, **keywords
    )


def hat_moments(rows, cells):
    """Mean of the hat functions, in steps of 2^−36."""
    return hat_sums(rows, cells, 36) / (len(rows) * 2.0**36)


def flow_measure(rows, opened, *, epsilon, ground, cells=None):
    cells = choose_cells(epsilon, rows.shape[1], ground) if cells is None else cells
    return LaplaceFlow(epsilon, *rows.shape, ground, cells).run((rows, None), opened)


def hat_measure(rows, opened, *, epsilon, ground, levels):
    return HatMoments(epsilon, *rows.shape, ground, levels).run(rows, opened)


def incidence(shape):
    """Edges of the grid graph as columns: −1 at the tail, +1 at the head."""
    index = np.arange(math.prod(shape)).reshape(shape)
    columns = []
    for axis in range(len(shape)):
        tails = np.delete(index, -1, axis=axis).ravel()
        heads = np.delete(index, 0, axis=axis).ravel()
        for tail, head in zip(tails, heads, strict=True):
            column = np.zeros(index.size)
            column[tail], column[head] = -1, 1
            columns.append(column)
    return np.array(columns).T


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 5))
def test_hats_are_a_partition_of_unity_with_the_right_mean(seed, d, cells):
    rows = public_generator(seed).uniform(size=(20, d))
    rows[0], rows[1] = 0, 1
    moments = hat_moments(rows, cells)
    assert moments.shape == (cells + 1,) * d
    assert moments.min() >= 0 and moments.sum() == pytest.approx(1)
    nodes = np.indices(moments.shape).reshape(d, -1) / cells
    np.testing.assert_allclose(nodes @ moments.ravel(), rows.mean(axis=0))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 2))
def test_coarser_levels_are_linear_images(seed, d, level):
    rows = public_generator(seed).uniform(size=(20, d))
    fine = hat_moments(rows, 2 ** (level + 1))
    np.testing.assert_allclose(0.5 * restrict(fine), hat_moments(rows, 2**level), atol=1e-12)
    # In integers exactly, each level in steps of its own.
    exact = restrict(hat_sums(rows, 2 ** (level + 1), 5))
    assert exact.dtype == np.int64 and np.array_equal(exact, hat_sums(rows, 2**level, 6))
    values = public_generator(seed).normal(size=(2**level + 1,) * d)
    assert (restrict(fine) * values).sum() == pytest.approx((fine * prolong(values)).sum())


def contributions(d, cells, bits):
    """Integer hats of every point of a lattice, shape (side + 1,) * d + (n_nodes,)."""
    side = cells << bits
    points = np.indices((side + 1,) * d).reshape(d, -1).T
    rows = [hat_sums(point[np.newaxis] / side, cells, bits).ravel() for point in points]
    return points, np.array(rows)


@pytest.mark.parametrize(("d", "cells", "bits"), [(1, 5, 3), (2, 3, 2), (2, 1, 3), (3, 1, 2), (3, 2, 1), (4, 1, 1)])
def test_a_step_of_a_row_moves_one_step_of_mass_along_one_edge(d, cells, bits):
    # The whole of proposition 1 for one row, exactly: every point of the lattice, every direction.
    points, hats = contributions(d, cells, bits)
    assert hats.min() == 0 and np.all(hats.sum(axis=1) == 1 << bits)
    nodes = np.indices((cells + 1,) * d).reshape(d, -1).T << bits
    np.testing.assert_array_equal(hats @ nodes, points << bits)  # the mean is the row
    grid = hats.reshape(*((cells << bits) + 1,) * d, *(cells + 1,) * d)
    for axis in range(d):
        change = np.diff(grid, axis=axis).reshape(-1, *(cells + 1,) * d)
        assert set(np.unique(change)) <= {-1, 0, 1} and np.all(np.abs(change).sum(axis=tuple(range(1, d + 1))) == 2)
        # Seen along the axis alone it is a flow over one edge: the cumulated change is one step at one place.
        flow = -np.cumsum(change, axis=1 + axis).reshape(len(change), -1)
        assert np.all(flow.sum(axis=1) == 1) and np.all(np.abs(flow).sum(axis=1) == 1)


@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
@pytest.mark.parametrize(("d", "cells", "bits"), [(1, 3, 3), (2, 2, 2), (3, 1, 2)])
def test_constants_hold_for_all_pairs_and_are_attained(ground, d, cells, bits):
    points, hats = contributions(d, cells, bits)
    gaps = np.abs(points[:, np.newaxis] - points)
    order = {"l1": gaps.sum(axis=2) ** 2, "l2": (gaps**2).sum(axis=2), "linf": gaps.max(axis=2) ** 2}[ground]
    moved = np.abs(hats[:, np.newaxis] - hats).sum(axis=2) ** 2
    square = {"l1": 1, "l2": d, "linf": d * d}[ground]
    assert np.all(moved <= 4 * square * order)
    assert np.any((moved == 4 * square * order) & (order > 0))
    side = cells << bits
    assert hat_sensitivity(0, d, ground) ** 2 == pytest.approx(4 * square)
    assert (steps_per_distance(7, side, d, ground) - 1) ** 2 < square * (7 * side) ** 2
    assert steps_per_distance(7, side, d, ground) ** 2 >= square * (7 * side) ** 2


class Listening:
    """Keeps the draws of a release."""

    def __init__(self):
        self.draws = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        return sample()


def drawn_by(mechanism, rows):
    tape = Listening()
    with run_tape(tape), release(mechanism.epsilon, plan=mechanism.events) as opened:
        mechanism.run((rows, None) if isinstance(mechanism, LaplaceFlow) else rows, opened)
    return tape.draws


@pytest.mark.parametrize("mechanism", [LaplaceFlow(50.0, 6, 1, "l1", 5), HatMoments(50.0, 6, 1, "l2", 2)])
def test_whole_data_sets_move_their_statistics_by_at_most_the_sensitivity(mechanism):
    # On a line transport is explicit: W1 is that of the sorted rows, and the least flow is the cumulated difference.
    # All in integers: rows are snapped by the mechanism's own lattice.
    side = (mechanism.cells if isinstance(mechanism, LaplaceFlow) else 1 << mechanism.levels) << mechanism.bits
    rng = public_generator(0)
    attained = False
    pairs = [rng.uniform(size=(2, 6, 1)) for _ in range(8)]
    pairs += [(x, x + 2.0 ** -rng.integers(3, 50)) for x in rng.uniform(high=0.8, size=(8, 6, 1))]
    pairs += [(np.full((6, 1), 0.01), np.full((6, 1), 0.1)), (np.zeros((6, 1)), np.ones((6, 1)))]
    for x, y in pairs:
        distance = Fraction(
            sum(
                abs(int(a) - int(b))
                for a, b in zip(*(np.sort(np.rint(rows[:, 0] * side)) for rows in (x, y)), strict=True)
            ),
            6 * side,
        )
        for first, second in zip(drawn_by(mechanism, x), drawn_by(mechanism, y), strict=True):
            change = [int(a) - int(b) for a, b in zip(first.statistic, second.statistic, strict=True)]
            moved = sum(map(abs, itertools.accumulate(change) if first.norm == "flow" else change))
            assert moved <= first.sensitivity * distance
            attained |= moved == first.sensitivity * distance > 0
    assert attained


def test_the_lattice_is_as_fine_as_the_numbers_allow():
    for n_rows, cells, d, epsilon in itertools.product((1, 10**3, 10**8), (1, 50, 2**17), (1, 3), (1e-3, 1.0, 1e12)):
        bits = hat_bits(n_rows, cells, d, "linf", epsilon)
        assert 0 <= bits <= 36 and n_rows * cells << bits <= 2**60 and cells << bits <= 2**50
        assert bits == 0 or n_rows * (cells << bits) * d / epsilon <= 2**46
        assert bits == 36 or (
            n_rows * cells << bits + 1 > 2**60
            or cells << bits + 1 > 2**50
            or n_rows * (cells << bits + 1) * d / epsilon > 2**46
        )
    with pytest.raises(ValueError, match="epsilon=1e-12 is too small"):
        LaplaceFlow(1e-12, 10**6, 2, "linf", 1)


def test_flow_mechanism_exact_log_ratio_on_a_path():
    # On a path the flow is determined by the cumulated mass, so the log-density ratio is known in closed form:
    # Σ_e (|F_e − z_e| − |G_e − z_e|)·ε·length ≤ ε·W1. Checked at many points z for random pairs of data sets.
    rng = public_generator(5)
    cells, epsilon = 6, 3.0
    for _ in range(50):
        x, y = rng.uniform(size=(2, 8, 1))
        f, g = (np.cumsum(hat_moments(rows, cells))[:-1] for rows in (x, y))
        w1 = np.abs(np.sort(x[:, 0]) - np.sort(y[:, 0])).mean()
        z = rng.normal(size=(2000, cells)) + 0.5
        log_ratio = (np.abs(z - g).sum(axis=1) - np.abs(z - f).sum(axis=1)) * epsilon / cells
        assert np.abs(log_ratio).max() <= epsilon * w1 * (1 + 1e-9)
        # Half of the noise (double ε) breaks it for monotone pairs.
    x, y = np.full((4, 1), 0.2), np.full((4, 1), 0.9)
    f, g = (np.cumsum(hat_moments(rows, cells))[:-1] for rows in (x, y))
    assert np.abs(f - g).sum() * epsilon / cells == pytest.approx(epsilon * 0.7)


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 3, 2)])
def test_graph_laplacian(shape):
    edges = incidence(shape)
    values = public_generator(0).normal(size=shape)
    np.testing.assert_allclose(graph_laplacian(values).ravel(), edges @ edges.T @ values.ravel(), atol=1e-12)


@pytest.mark.parametrize("shape", [(9,), (4, 5), (3, 3, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_nearest_measure_is_the_least_flow(shape, seed):
    rng = public_generator(seed)
    signed = rng.normal(size=shape)
    signed += (1 - signed.sum()) / signed.size
    measure = nearest_measure(signed)
    assert measure.min() >= 0 and measure.sum() == pytest.approx(1)
    # Independent: p = signed + D z, minimise ‖z‖² + big·‖min(p, 0)‖² as bounded least squares in (z, p).
    edges = incidence(shape)
    n, m = edges.shape[1], signed.size
    big = 1e4
    system = np.block([[np.eye(n), np.zeros((n, m))], [big * edges, -big * np.eye(m)]])
    target = np.concatenate([np.zeros(n), -big * signed.ravel()])
    bounds = (np.concatenate([np.full(n, -np.inf), np.zeros(m)]), np.inf)
    expected = lsq_linear(system, target, bounds, tol=1e-13).x[n:]
    np.testing.assert_allclose(measure.ravel(), expected, atol=2e-3)


def test_measures_are_left_alone():
    measure = public_generator(0).dirichlet(np.ones(16)).reshape(4, 4)
    np.testing.assert_allclose(nearest_measure(measure), measure, atol=1e-12)


def test_plans_are_public_and_priced():
    assert choose_cells(1e-3, 2, "linf") == 1
    assert choose_cells(1e6, 2, "linf") == 55
    assert choose_cells(1e6, 2, "l1") > choose_cells(1e6, 2, "l2") > choose_cells(1e6, 2, "linf")
    assert (choose_cells(1e300, 6, "l1") + 1) ** 6 <= 1 << 18
    for d, levels in itertools.product((1, 2, 3), (0, 1, 4)):
        budgets = level_budgets(levels + 1, 0.3, d)
        assert math.fsum(budgets) == pytest.approx(0.3, rel=1e-15) and min(budgets) > 0
        assert math.fsum(
            event.epsilon * count for event, count in HatMoments(0.3, 10, d, "l1", levels).events
        ) <= 0.3 * (1 + 1e-15)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_whole_releases_cost_epsilon(d):
    rows = public_generator(0).uniform(size=(100, d))
    for epsilon in (0.5, 500.0):
        opened = release(epsilon)
        weights = flow_measure(rows, opened, epsilon=epsilon, ground="linf")
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert opened.close().epsilon == epsilon
        opened = release(epsilon, plan=HatMoments(epsilon, 100, d, "l2", 2).events)
        weights = hat_measure(rows, opened, epsilon=epsilon, ground="l2", levels=2)
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert opened.close().epsilon == pytest.approx(epsilon, rel=1e-12)


def test_ample_budgets_reproduce_the_moments():
    rows = public_generator(1).beta(2, 4, size=(200, 2))
    exact = hat_moments(rows, 4)
    np.testing.assert_allclose(flow_measure(rows, release(1e9), epsilon=1e9, ground="linf", cells=4), exact, atol=1e-6)
    np.testing.assert_allclose(hat_measure(rows, release(1e9), epsilon=1e9, ground="linf", levels=2), exact, atol=1e-3)
    np.testing.assert_allclose(fit_moments([0.5 * restrict(exact), exact], [1.0, 1.0]), exact, atol=1e-3)


@pytest.mark.parametrize("d", [1, 2])
def test_flow_beats_hats(d):
    from skprivate.metric.grid._measure import wasserstein_grid

    rows = public_generator(2).beta(2, 4, size=(500, d))
    errors = {"flow": [], "hats": []}
    exact = hat_moments(rows, 8)
    for seed in range(12):
        epsilon = 300.0 if d == 1 else 3000.0
        flow = flow_measure(rows, release(epsilon, seed), epsilon=epsilon, ground="linf", cells=8)
        hats = hat_measure(rows, release(epsilon, seed), epsilon=epsilon, ground="linf", levels=3)
        errors["flow"].append(wasserstein_grid(flow, exact))
        errors["hats"].append(wasserstein_grid(hats, exact))
    assert np.mean(errors["flow"]) < 0.8 * np.mean(errors["hats"])
