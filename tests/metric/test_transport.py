"""Transport distances against closed forms and against each other."""

import numpy as np
import pytest
from helpers.measure_net import wasserstein_matrix

from skprivate.metric.grid._measure import GridMeasure, assignment_cost, distance_to_rows, distances, wasserstein_grid
from skprivate.privacy import public_generator

ORDER = {"l1": 1, "l2": 2, "linf": np.inf}


@pytest.mark.parametrize("shape", [(9,), (5, 5), (3, 3, 3)])
@pytest.mark.parametrize("ground", ["l1", "linf"])
def test_grid_flow_is_exact_transport(shape, ground):
    rng = public_generator(0)
    p, q = rng.dirichlet(np.ones(np.prod(shape)), size=2)
    points = np.indices(shape).reshape(len(shape), -1).T / shape[0]
    distances = np.linalg.norm(points[:, None] - points[None], ORDER[ground], axis=2)
    expected = wasserstein_matrix(distances, p, q)
    assert wasserstein_grid(p.reshape(shape), q.reshape(shape), ground) == pytest.approx(expected, abs=1e-9)


def test_euclidean_grid_flow_is_at_most_8_percent_high():
    rng = public_generator(1)
    p, q = rng.dirichlet(np.full(49, 0.1), size=2)
    points = np.indices((7, 7)).reshape(2, -1).T / 7
    expected = wasserstein_matrix(np.linalg.norm(points[:, None] - points[None], axis=2), p, q)
    assert expected <= wasserstein_grid(p.reshape(7, 7), q.reshape(7, 7), "l2") * (1 + 1e-9)
    assert wasserstein_grid(p.reshape(7, 7), q.reshape(7, 7), "l2") <= 1.083 * expected


def test_line_samples_and_matrix_agree():
    rng = public_generator(2)
    x, y = rng.normal(size=(2, 30))
    sorted_distance = np.abs(np.sort(x) - np.sort(y)).mean()
    for ground in ORDER:
        assert assignment_cost(distances(x[:, None], y[:, None], ground)) == pytest.approx(sorted_distance)
    assert wasserstein_matrix(np.zeros((2, 2)), np.array([0.5, 0.5]), np.array([0.5, 0.5])) == 0


@pytest.mark.parametrize("kind", ["cells", "nodes"])
@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (2, 4)])
def test_samples_follow_the_measure(kind, shape):
    rng = public_generator(3)
    weights = rng.dirichlet(np.ones(np.prod(shape))).reshape(shape)
    measure = GridMeasure(np.full(len(shape), -1.0), np.full(len(shape), 3.0), weights, kind)
    cells = measure.on_cells(8)
    assert cells.sum() == pytest.approx(1)
    rows = measure.sample(100_000, rng)
    assert rows.min() >= -1 and rows.max() <= 3
    found = np.histogramdd(rows, bins=8, range=[(-1, 3)] * len(shape))[0] / len(rows)
    assert np.abs(found - cells).max() < 6 * np.sqrt(cells.max() / len(rows))
    if kind == "cells":
        np.testing.assert_allclose(measure.on_cells(int(np.prod(shape))).sum(), 1)
    assert "shape" in repr(measure)


def test_systematic_sampling_is_closer_than_independent_rows():
    rng = public_generator(4)
    measure = GridMeasure(np.zeros(2), np.ones(2), rng.dirichlet(np.ones(256)).reshape(16, 16), "cells")
    rows = measure.sample(400, rng)
    independent = measure.sample(200_000, rng)[rng.permutation(200_000)[:400]]
    assert distance_to_rows(measure, rows, "linf") < 0.7 * distance_to_rows(measure, independent, "linf")


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_score_of_the_right_and_of_a_wrong_measure(d):
    rng = public_generator(5)
    rows = rng.beta(2, 4, size=(3000, d))
    k = {1: 64, 2: 16, 3: 8, 4: 5}[d]
    weights = np.histogramdd(rows, bins=k, range=[(0, 1)] * d)[0] / len(rows)
    right = GridMeasure(np.zeros(d), np.ones(d), weights, "cells")
    wrong = GridMeasure(np.zeros(d), np.ones(d), np.full((k,) * d, float(k) ** -d), "cells")
    assert distance_to_rows(right, rows, "linf") < {1: 0.01, 2: 0.01, 3: 0.03, 4: 0.15}[d]
    assert distance_to_rows(wrong, rows, "linf") > 0.15


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_weight_counts_as_repeated_rows(d):
    rng = public_generator(6)
    rows, repeats = rng.beta(2, 4, size=(300, d)), rng.integers(0, 5, size=300)
    weights = rng.dirichlet(np.ones(3**d)).reshape((3,) * d)
    measure = GridMeasure(np.zeros(d), np.ones(d), weights, "cells")
    repeated = distance_to_rows(measure, np.repeat(rows, repeats, axis=0), "linf")
    weighted = distance_to_rows(measure, rows, "linf", repeats * 0.1)
    assert weighted == pytest.approx(repeated, rel=1e-6 if d < 4 else 0.2)
    assert abs(weighted - distance_to_rows(measure, rows, "linf")) > 1e-4
