"""No measure is farther from the rows than one that has not seen them, by more than its noise explains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skprivate.metric import GridMeasure, MetricPrivateSynthesizer, MetricPrivatizer
from skprivate.metric.grid._measure import distance_to_rows, wasserstein_grid

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
    pytest.mark.filterwarnings("ignore:.*did not converge:sklearn.exceptions.ConvergenceWarning"),
]


def rows_of(kind, n, d, rng):
    if kind == "uniform":
        return rng.random((n, d))
    if kind == "one place":
        return np.tile(rng.random(d), (n, 1))
    if kind == "corner":
        return rng.random((n, d)) * 0.01
    return np.clip(rng.choice([0.2, 0.8], size=(n, 1)) + 0.05 * rng.normal(size=(n, d)), 0, 1)


def distance(measure, rows):
    """W1, for two columns and more on a coarse grid or between some rows."""
    if rows.shape[1] == 2:
        counts = np.histogramdd(rows, bins=8, range=[(0, 1)] * 2)[0]
        return wasserstein_grid(measure.on_cells(8), counts / counts.sum())
    return distance_to_rows(measure, rows[:80], "linf")


def uniform(d):
    side = 8 if d < 4 else 2
    return GridMeasure(np.zeros(d), np.ones(d), np.full((side,) * d, float(side) ** -d), "cells")


@pytest.mark.slow
@settings(deadline=None, max_examples=25, derandomize=True)  # noise may be larger than what is allowed
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 4, 6]),
    st.sampled_from([20, 300, 5000]),
    st.sampled_from([0.01, 0.3, 10.0, 300.0, 1e4]),
    st.sampled_from(["uniform", "one place", "corner", "two places"]),
    st.sampled_from(["wasserstein", "rows"]),
)
def test_never_much_worse_than_the_uniform_measure(seed, d, n, epsilon, kind, metric):
    """Allowed is half of the box where the noise fills it, and what an 8 × 8 grid or 80 rows resolve elsewhere.

    Noise moves mass by about d·2^d/ε under W1, and by 2^d·√2/(εn) under "rows", until it fills the box.
    """
    rows = rows_of(kind, n, d, np.random.default_rng(seed))
    model = MetricPrivateSynthesizer(epsilon, metric=metric, bounds=(0, 1), random_state=seed).fit(rows)
    noise = d * 2.0**d / epsilon if metric == "wasserstein" else 2.0**d * math.sqrt(2) / (epsilon * n)
    resolved = {1: 0.01, 2: 0.03}.get(d, 0.1)
    allowed = distance(uniform(d), rows) + resolved + 0.5 * min(noise, 1.0) ** 0.5
    assert distance(model.measure_, rows) <= allowed


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(0.01, 20.0), st.booleans())
@example(1129, 6, 0.0625, False)
def test_an_optimal_channel_is_never_worse_than_an_answer_without_looking(seed, n, epsilon, even):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    prior = np.full(n, 1 / n) if even else rng.dirichlet(np.full(n, 0.5))
    model = MetricPrivatizer(epsilon, metric="precomputed", mechanism="optimal", distances=distances, prior=prior)
    model.fit([[0]])
    blind = (prior @ distances).min()
    assert model.expected_loss_ <= blind * (1 + 1e-9)
    best = model.set_params(mechanism="exponential").fit([[0]]).channel_
    assert (best * distances).sum(axis=1).max() <= distances.max(axis=0).min() * (1 + 1e-6)
