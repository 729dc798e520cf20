"""Hat moments, flows and the two Wasserstein mechanisms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear, minimize

from skprivate.metric._grid_flows import (
    choose_cells,
    flow_measure,
    graph_laplacian,
    hat_moments,
    l1_factor,
    nearest_measure,
)
from skprivate.metric._hat_measures import (
    fit_moments,
    hat_events,
    hat_measure,
    hat_sensitivity,
    level_budgets,
    prolong,
    restrict,
)
from skprivate.privacy import open_release, public_generator


def release(epsilon, seed=0, **keywords):
    return open_release(
        epsilon=epsilon, unit="data set", adjacency="metric", metric="W1", random_state=seed, **keywords
    )


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


def edge_cost(difference):
    """Least ℓ1 flow along grid edges with the given divergence."""
    edges = incidence(difference.shape)
    n = edges.shape[1]
    found = linprog(np.ones(2 * n), A_eq=np.hstack([edges, -edges])[1:], b_eq=difference.ravel()[1:])
    assert found.status == 0
    return found.fun


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
    np.testing.assert_allclose(restrict(fine), hat_moments(rows, 2**level), atol=1e-12)
    values = public_generator(seed).normal(size=(2**level + 1,) * d)
    assert (restrict(fine) * values).sum() == pytest.approx((fine * prolong(values)).sum())


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
@pytest.mark.parametrize("cells", [1, 4])
def test_constants_hold_and_are_attained_by_optimisation_over_pairs(d, ground, cells):
    # Maximise ‖m(x) − m(y)‖₁/‖x − y‖ and the edge cost over pairs: random starts, then local search.
    order = {"l1": 1, "l2": 2, "linf": np.inf}[ground]
    rng = public_generator(10 * d + cells)
    constant = hat_sensitivity(int(math.log2(cells)), d, ground)

    def ratio(pair):
        x, y = np.clip(pair, 0, 1).reshape(2, 1, d)
        gap = np.linalg.norm(x - y, order) if d == 1 else np.linalg.norm((x - y)[0], order)
        if gap < 1e-9:
            return 0.0
        return -np.abs(hat_moments(x, cells) - hat_moments(y, cells)).sum() / gap

    best = 0.0
    for _ in range(12):
        x = rng.uniform(size=d)
        start = np.concatenate([x, np.clip(x + rng.normal(size=d) * 0.1 / cells, 0, 1)])
        best = min(best, minimize(ratio, start, method="Nelder-Mead", options={"maxiter": 150}).fun)
    # Corners of the grid, moving into the cell along the diagonal or an axis: where the bound is attained.
    for direction in (np.ones(d), np.eye(d)[0]):
        best = min(best, ratio(np.concatenate([np.zeros(d), direction * 1e-5 / cells])))
    assert -best <= constant * (1 + 1e-6)
    assert -best >= constant * (1 - 1e-3)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_moments_are_lipschitz_for_the_cost_along_edges(d):
    # Moving one row costs at most ‖x − y‖₁ along edges of length 1/cells; exactly that inside a cell along an axis.
    rng = public_generator(d)
    cells = 3 if d < 3 else 2
    for trial in range(25):
        x = rng.uniform(size=d)
        y = rng.uniform(size=d) if trial % 2 else np.clip(x + rng.normal(size=d) * 0.05, 0, 1)
        cost = edge_cost(hat_moments(y[None], cells) - hat_moments(x[None], cells)) / cells
        assert cost <= np.abs(x - y).sum() * (1 + 1e-9) + 1e-12
        for ground, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
            assert cost <= l1_factor(ground, d) * np.linalg.norm(x - y, order) * (1 + 1e-9) + 1e-12


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
        assert math.fsum(event.epsilon * count for event, count in hat_events(0.3, d, levels)) <= 0.3 * (
            1 + 1e-15
        )


@pytest.mark.parametrize("d", [1, 2, 3])
def test_whole_releases_cost_epsilon(d):
    rows = public_generator(0).uniform(size=(100, d))
    for epsilon in (0.5, 500.0):
        opened = release(epsilon)
        weights = flow_measure(rows, opened, epsilon=epsilon, ground="linf")
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert opened.close().epsilon == epsilon
        opened = release(epsilon, plan=hat_events(epsilon, d, 2))
        weights = hat_measure(rows, opened, epsilon=epsilon, ground="l2", levels=2)
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert opened.close().epsilon == pytest.approx(epsilon, rel=1e-12)


def test_ample_budgets_reproduce_the_moments():
    rows = public_generator(1).beta(2, 4, size=(200, 2))
    exact = hat_moments(rows, 4)
    np.testing.assert_allclose(
        flow_measure(rows, release(1e9), epsilon=1e9, ground="linf", cells=4), exact, atol=1e-6
    )
    np.testing.assert_allclose(
        hat_measure(rows, release(1e9), epsilon=1e9, ground="linf", levels=2), exact, atol=1e-3
    )
    np.testing.assert_allclose(fit_moments([restrict(exact), exact], [1.0, 1.0]), exact, atol=1e-3)


@pytest.mark.parametrize("d", [1, 2])
def test_flow_beats_hats(d):
    from skprivate.metric._transport import wasserstein_grid

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
