"""Exact privacy of every finite mechanism, and how good they are."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.metric import tree_distances
from skprivate.metric._channels import (
    best_exponential_channel,
    essential_pairs,
    expected_loss,
    exponential_channel,
    optimal_channel,
    relaxed_distances,
    remapped,
    worst_error,
)
from skprivate.metric._finite_metric import check_metric, is_ultrametric, separated_net
from skprivate.metric._measure_net import exponential_on_measures
from skprivate.privacy import public_generator


def random_metric(seed, n):
    """Shortest paths of a random graph."""
    rng = public_generator(seed)
    matrix = np.triu(rng.exponential(size=(n, n)), 1)
    matrix += matrix.T
    for k in range(n):
        matrix = np.minimum(matrix, matrix[:, k][:, None] + matrix[k][None, :])
    check_metric(matrix)
    return matrix


def random_tree(seed, n):
    rng = public_generator(seed)
    parents = {0: None, **{node: int(rng.integers(node)) for node in range(1, n)}}
    return tree_distances(parents, list(range(n)))


def price(channel, distances):
    """max |log P(y|x) − log P(y|x′)| / ρ(x, x′), by definition."""
    worst = 0.0
    for x, other in itertools.combinations(range(len(distances)), 2):
        p, q = channel[x], channel[other]
        assert np.array_equal(p > 0, q > 0)
        ratio = np.abs(np.log(p[p > 0] / q[p > 0])).max()
        worst = max(worst, ratio / distances[x, other])
    return worst


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(0.05, 8.0))
def test_exponential_mechanism_is_exactly_private(seed, n, epsilon):
    distances = random_metric(seed, n)
    for scale in (0.0, 0.3, 1.0):
        channel = exponential_channel(distances, separated_net(distances, scale), epsilon)
        assert price(channel, distances) <= epsilon * (1 + 1e-9)
    assert price(best_exponential_channel(distances, epsilon), distances) <= epsilon


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(0.05, 8.0))
def test_relaxed_mechanism_is_exactly_private_for_the_first_metric(seed, n, epsilon):
    first, second = random_metric(seed, n), random_tree(seed, n)
    assert is_ultrametric(second)
    channel = best_exponential_channel(first, epsilon, accuracy=second, relaxed=True)
    assert price(channel, first) <= epsilon
    # The relaxed distance is 1-Lipschitz in x.
    relaxed = relaxed_distances(first, second, 0.25)
    assert np.all(np.abs(relaxed[:, None] - relaxed[None]) <= first[:, :, None] + 1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_optimal_mechanism_is_private_and_not_beaten(seed, epsilon):
    distances = random_metric(seed, 7)
    channel = optimal_channel(distances, epsilon)
    assert price(channel, distances) <= epsilon * (1 + 1e-12)
    rival = best_exponential_channel(distances, epsilon)
    for other in (rival, remapped(rival, distances)):
        assert expected_loss(channel, distances) <= expected_loss(other, distances) + 1e-6


def test_optimal_mechanism_of_two_states_is_randomised_response():
    channel = optimal_channel(np.array([[0.0, 2.0], [2.0, 0.0]]), 0.5)
    assert channel[0, 0] == pytest.approx(np.e / (1 + np.e), abs=1e-5)


def test_essential_pairs_of_a_path_are_its_edges():
    path = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    assert {tuple(pair) for pair in essential_pairs(path)} == {
        (i, j) for i in range(6) for j in range(6) if abs(i - j) == 1
    }


def test_lemma_4_1_on_all_measures():
    # Four points on a line, data sets of four rows: 35 measures.
    points = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3
    errors = []
    for epsilon in (1.0, 10.0, 50.0):
        measures, wasserstein, channel = exponential_on_measures(points, 4, epsilon)
        assert measures.shape == (35, 4)
        np.testing.assert_allclose(
            wasserstein,
            np.abs(np.cumsum(measures[:, None] - measures[None], axis=2)[..., :-1]).sum(axis=2) / 3,
        )
        assert price(channel, wasserstein) <= epsilon
        errors.append(worst_error(channel, wasserstein))
    assert errors[0] > errors[1] > errors[2]


def test_mutated_mechanism_is_found_out():
    distances = random_metric(1, 6)
    cheat = exponential_channel(distances, separated_net(distances, 0.0), 2.5)
    assert price(cheat, distances) > 1.0
