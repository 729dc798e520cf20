"""PrivateRange, the Hadamard rotation and the winsorised means."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from scipy.stats import chisquare

from skprivate.privacy import open_release
from skprivate.user_level._private_range import (
    SCALES,
    _runs,
    n_bins,
    private_range,
    select_median_scale,
    selection_epsilon,
    snap,
)
from skprivate.user_level._winsorized_mean import (
    RandomRotation,
    coordinate_epsilon,
    hadamard_transform,
    rotated_radius,
    winsorized_mean,
    winsorized_mean_1d,
)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-20, 20), min_size=1, max_size=15), st.floats(0.3, 3.0))
def test_runs_of_bins_have_the_cost_of_algorithm_1(x, tau):
    bound = 10.0
    x = np.array(x)
    total = n_bins(bound, tau)
    midpoints = -bound + (2 * np.arange(total) + 1) * tau
    snapped = midpoints[snap(x, tau, bound)]
    direct = np.array([max((snapped < c).sum(), (snapped > c).sum()) for c in midpoints])
    occupied, counts = np.unique(snap(x, tau, bound), return_counts=True)
    grouped = np.full(total, -1)
    for start, length, cost in zip(*_runs(occupied, counts, total), strict=True):
        assert (grouped[start : start + length] == -1).all()
        grouped[start : start + length] = cost
    np.testing.assert_array_equal(grouped, direct)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12), st.floats(-20, 20), st.integers(0, 11))
def test_replacing_one_value_moves_every_cost_by_at_most_one(x, value, position):
    def costs(values):
        snapped = snap(np.array(values), 0.5, 10.0)
        bins = np.arange(n_bins(10.0, 0.5))
        return np.maximum((snapped[:, None] < bins).sum(0), (snapped[:, None] > bins).sum(0))

    neighbour = list(x)
    neighbour[position % len(x)] = value
    assert np.abs(costs(x) - costs(neighbour)).max() <= 1
    larger = costs([*x, value]) - costs(x)
    assert larger.min() >= 0 and larger.max() <= 1


def test_private_range_draws_the_exponential_mechanism():
    # 4 bins, values in two of them: the exact distribution is known.
    x = np.array([-3.5, -3.5, -3.5, 0.5, 0.5])
    tau, bound, epsilon, n_draws = 1.0, 4.0, 1.0, 4000
    midpoints = np.array([-3.0, -1.0, 1.0, 3.0])
    costs = np.array([max(0, 2), max(3, 2), max(3, 0), max(5, 0)])
    probabilities = np.exp(-epsilon * costs / 2)
    probabilities /= probabilities.sum()
    for seed in (0, 1):
        release = open_release(
            epsilon=n_draws * epsilon * 1.01, unit="user", adjacency="replace-one", random_state=seed
        )
        found = np.zeros(4)
        for _ in range(n_draws):
            low, high = private_range(x, epsilon=epsilon, tau=tau, bound=bound, release=release)
            assert high - low == pytest.approx(4 * tau)
            found[np.argmin(np.abs(midpoints - (low + high) / 2))] += 1
        assert chisquare(found, probabilities * n_draws).pvalue > 1e-7


def test_private_range_finds_a_narrow_spot_in_a_range_of_1e9_in_no_time():
    rng = np.random.default_rng(0)
    x = 123_456_789.0 + rng.normal(scale=1e-3, size=1000)
    release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", random_state=0)
    start = time.perf_counter()
    low, high = private_range(x, epsilon=1.0, tau=1e-2, bound=1e9, release=release)
    assert time.perf_counter() - start < 5.0  # a loop over 1e11 bins would never end
    assert low <= 123_456_789.0 <= high


def test_median_scale_is_found_and_ties_cost_nothing(recording_release):
    release = recording_release(0)
    everybody_alike = np.full(1000, 3.0)
    scale = select_median_scale(everybody_alike, epsilon=0.2, release=release, monotone=False)
    assert abs(math.log2(scale / 3.0)) <= 0.25
    assert release.draws[0]["value"].max() == 0
    spread = np.exp(np.random.default_rng(1).normal(size=4000))
    for seed in range(5):
        scale = select_median_scale(
            spread,
            epsilon=selection_epsilon(4000, len(SCALES), monotone=False),
            release=recording_release(seed),
            monotone=False,
        )
        assert 0.3 < scale < 3.0


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_fast_transform_is_the_hadamard_matrix(d):
    x = np.random.default_rng(d).normal(size=(3, d))
    np.testing.assert_allclose(hadamard_transform(x.copy()), x @ hadamard(d) / math.sqrt(d), atol=1e-12)


def test_fast_transform_refuses_other_lengths():
    with pytest.raises(ValueError, match="power of two"):
        hadamard_transform(np.ones(3))


@pytest.mark.parametrize("d", [1, 3, 8, 100])
def test_rotation_preserves_norms_and_inverts(d):
    rotation = RandomRotation(d, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(5, d))
    y = rotation.forward(x)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    np.testing.assert_allclose(rotation.backward(y), x, atol=1e-12)


def test_rotation_spreads_a_single_coordinate():
    x = np.zeros((1, 256))
    x[0, 17] = 1.0
    np.testing.assert_allclose(np.abs(RandomRotation(256, np.random.default_rng(0)).forward(x)), 1 / 16)


def test_algorithm_2_clips_and_draws_what_the_paper_says(recording_release):
    x = np.random.default_rng(0).normal(scale=0.1, size=500)
    x[0] = 1e8
    release = recording_release(0, noise=0.0)
    mean = winsorized_mean_1d(x, epsilon=2.0, tau=0.5, bound=1e9, release=release)
    selection, laplace = release.draws
    assert selection["epsilon"] == 1.0
    # Lap(8τ/(nε)): sensitivity 4τ/n at ε/2.
    assert laplace["sensitivity"] / laplace["epsilon"] == pytest.approx(8 * 0.5 / (500 * 2.0))
    assert abs(mean - x[1:].mean()) < 2 * 0.5 * 3 / 500


def test_algorithm_3_matches_the_plain_mean_on_concentrated_data(recording_release):
    x = 5.0 + np.random.default_rng(0).normal(scale=0.1, size=(800, 6))
    mean = winsorized_mean(
        x, epsilon=200.0, delta=1e-6, tau=1.0, bound=1e6, gamma=0.05, release=recording_release(0, noise=0.0)
    )
    np.testing.assert_allclose(mean, x.mean(axis=0), atol=1e-9)


def test_paper_constants():
    assert coordinate_epsilon(1.0, 1e-6, 16) == pytest.approx(1.0 / math.sqrt(8 * 16 * math.log(1e6)))
    assert rotated_radius(2.0, 16, 100, 0.1) == pytest.approx(10 * 2.0 * math.sqrt(math.log(16_000) / 16))


def test_one_user_moves_the_winsorised_mean_by_at_most_its_sensitivity(recording_release):
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    neighbour = x.copy()
    neighbour[3] = 1e12
    values = []
    for data in (x, neighbour):
        release = recording_release(5, noise=0.0)
        winsorized_mean_1d(data, epsilon=50.0, tau=4.0, bound=1e9, release=release)
        values.append(release.draws[-1])
    assert abs(values[0]["value"] - values[1]["value"]) <= values[0]["sensitivity"] + 1e-12
