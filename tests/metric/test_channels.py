"""Exact privacy of every finite mechanism, and how good they are."""

import itertools

import numpy as np
import pytest
from helpers.linear_programme import programme
from helpers.measure_net import exponential_on_measures
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.metric import MetricPrivatizer, tree_distances
from skprivate.metric.net._exponential import (
    NetMechanism,
    best_exponential_channel,
    exponential_channel,
    relaxed_distances,
)
from skprivate.metric.net._spaces import distance_matrix, expected_loss, separated_net, worst_error
from skprivate.papers.metric import boolean_cube_accuracy, is_ultrametric
from skprivate.privacy import public_generator


def random_metric(seed, n):
    """Shortest paths of a random graph."""
    rng = public_generator(seed)
    matrix = np.triu(rng.exponential(size=(n, n)), 1)
    matrix += matrix.T
    for k in range(n):
        matrix = np.minimum(matrix, matrix[:, k][:, None] + matrix[k][None, :])
    return distance_matrix(matrix)


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


@pytest.mark.slow
def test_lemma_4_1_on_all_measures():
    # Four points on a line, data sets of four rows: 35 measures.
    points = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3
    errors = []
    for epsilon in (1.0, 10.0, 50.0):
        measures, wasserstein, channel = exponential_on_measures(points, 4, epsilon)
        assert measures.shape == (35, 4)
        np.testing.assert_allclose(
            wasserstein, np.abs(np.cumsum(measures[:, None] - measures[None], axis=2)[..., :-1]).sum(axis=2) / 3
        )
        assert price(channel, wasserstein) <= epsilon
        errors.append(worst_error(channel, wasserstein))
    assert errors[0] > errors[1] > errors[2]


GRID = np.array(list(itertools.product(range(4), range(4))), dtype=float)
CUBE = np.array(list(itertools.product(range(2), repeat=3)), dtype=float)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(0.1, 15.0), st.booleans())
def test_exponent_is_as_steep_as_its_price_allows(seed, n, epsilon, tree):
    distances = random_tree(seed, n) if tree else random_metric(seed, n)
    channel = best_exponential_channel(distances, epsilon, relaxed=tree)
    paid = price(channel, distances)
    assert paid <= epsilon
    # The normaliser of a tree can be levelled out: nothing of ε is left, unless one answer fits all states.
    if tree and np.count_nonzero(channel.max(axis=0) > 1e-9) > 1:
        assert paid >= epsilon * (1 - 1e-6)
    for scale in (0.0, float(np.median(distances))):
        published = exponential_channel(distances, separated_net(distances, scale), epsilon)
        assert worst_error(channel, distances) <= worst_error(published, distances) + 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_levelled_channel_of_the_cube_is_randomised_response(epsilon):
    hamming = np.abs(CUBE[:, None] - CUBE[None]).sum(axis=2)
    best = boolean_cube_accuracy(3, epsilon)
    assert worst_error(best_exponential_channel(hamming, epsilon), hamming) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("distances", "epsilon"), [(np.linalg.norm(GRID[:, None] - GRID[None], axis=2), 4.0), (random_tree(3, 18), 12.0)]
)
def test_levelled_channel_is_the_optimum_of_the_linear_programme(distances, epsilon):
    channel = best_exponential_channel(distances, epsilon)
    optimum = expected_loss(programme(distances, epsilon), distances)
    assert expected_loss(channel, distances) == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize("relaxed", [False, True])
def test_price_in_the_search_is_the_price_of_the_channel(relaxed):
    first, second = random_metric(5, 9), random_tree(5, 9)
    exponents = relaxed_distances(first, second, 0.25) if relaxed else first
    mechanism = NetMechanism.on(exponents, separated_net(second, 0.25), first)
    for slope in (0.3, 2.0):
        for weights in (mechanism.equal_weights(slope), mechanism.levelling_weights(slope)):
            channel = exponential_channel(exponents, mechanism.net, slope, factor=1.0, weights=weights)
            exact = price(channel, first)
            assert mechanism.refine().cost(slope, weights) == pytest.approx(exact, rel=1e-9)
            assert mechanism.cost(slope, weights) >= exact * (1 - 1e-9)


def test_mutated_mechanism_is_found_out():
    distances = random_metric(1, 6)
    cheat = exponential_channel(distances, separated_net(distances, 0.0), 2.5)
    assert price(cheat, distances) > 1.0


MECHANISMS = ["exponential", "relaxed", "optimal"]
#: Two classes of two labels; every two labels are at distance 1 for privacy.
HAMMING, CLASSES = 1.0 - np.eye(4), np.kron(1.0 - np.eye(2), np.ones((2, 2)))


def privatizer(epsilon, distances, **options):
    return MetricPrivatizer(epsilon, metric="precomputed", distances=distances, **options).fit([[0]])


@pytest.mark.parametrize("mechanism", ["auto", "optimal"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_labels_of_one_class_are_one_answer(mechanism, epsilon):
    """The least loss is that of randomised response on two classes, 1/(1 + e^ε), not on four labels."""
    model = privatizer(epsilon, HAMMING, loss=CLASSES, mechanism=mechanism)
    least = 1 / (1 + np.exp(epsilon))
    assert model.expected_loss_ == pytest.approx(least, rel=1e-3)
    assert expected_loss(privatizer(epsilon, HAMMING, mechanism=mechanism).channel_, CLASSES) > 1.1 * least
    assert price(model.channel_, HAMMING) <= epsilon * (1 + 1e-9)
    if mechanism == "optimal":
        assert model.least_loss_ == pytest.approx(least, rel=1e-3) and model.least_loss_ <= model.expected_loss_


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(0.1, 8.0), st.sampled_from(["tree", "costs"]))
def test_privacy_is_by_the_distances_and_accuracy_by_the_losses(seed, n, epsilon, kind):
    distances, rng = random_metric(seed, n), public_generator(seed)
    losses = random_tree(seed, n) if kind == "tree" else rng.exponential(size=(n, n)) * (1 - np.eye(n))
    prior = rng.dirichlet(np.ones(n))
    models = {
        mechanism: privatizer(epsilon, distances, loss=losses, prior=prior, mechanism=mechanism)
        for mechanism in MECHANISMS
    }
    for model in models.values():
        assert price(model.channel_, distances) <= epsilon * (1 + 1e-9)
        assert model.expected_loss_ == pytest.approx(expected_loss(model.channel_, losses, prior), rel=1e-12)
        assert model.privacy_guarantee_.metric == privatizer(1.0, distances).privacy_guarantee_.metric
    best = models["optimal"]
    assert best.least_loss_ <= best.expected_loss_ * (1 + 1e-9)
    assert best.expected_loss_ <= models["exponential"].expected_loss_ * (1 + 1e-9) + 1e-9
    assert best.expected_loss_ <= (prior @ losses).min() * (1 + 1e-9)
    for mechanism in ("exponential", "relaxed"):
        assert worst_error(models[mechanism].channel_, losses) <= losses.max(axis=0).min() * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_optimal_is_the_optimum_of_the_linear_programme(seed):
    distances, rng = random_metric(seed, 6), public_generator(seed)
    losses = rng.exponential(size=(6, 6)) * (1 - np.eye(6))
    model = privatizer(1.5, distances, loss=losses, mechanism="optimal")
    exact = expected_loss(programme(distances, 1.5, loss=losses), losses)
    assert model.expected_loss_ == pytest.approx(exact, rel=1e-3)
    assert model.least_loss_ <= exact * (1 + 1e-7)


def test_a_tree_of_losses_beside_kilometres():
    parents = {"north": None, "south": None, "a": "north", "b": "north", "c": "south", "d": "south"}
    places, states = np.array([0.0, 9.0, 10.0, 19.0]), ["a", "b", "c", "d"]
    kilometres = np.abs(np.subtract.outer(places, places))
    model = MetricPrivatizer(
        0.5, metric="precomputed", distances=kilometres, states=states, loss=parents, mechanism="optimal"
    ).fit([["a"]])
    assert model.transform([["a"], ["d"]]).shape == (2, 1)
    losses = np.array([[0, 0.5, 1, 1], [0.5, 0, 1, 1], [1, 1, 0, 0.5], [1, 1, 0.5, 0]])
    as_matrix = model.get_params() | {"loss": losses}
    again = MetricPrivatizer(**as_matrix).fit([["a"]])
    np.testing.assert_array_equal(model.channel_, again.channel_)
    with pytest.raises(ValueError, match="loss changed since fit"):
        model.set_params(loss=losses).transform([["a"]])


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (np.zeros((3, 3)), r"loss must have shape \(4, 4\)"),
        (-HAMMING, "loss must be nonnegative"),
        (np.full((4, 4), np.inf), "loss must be nonnegative and finite"),
        (np.ones((4, 4)), "0 on the diagonal"),
    ],
)
def test_refused_losses(loss, message):
    with pytest.raises(ValueError, match=message):
        privatizer(1.0, HAMMING, loss=loss)


def test_norms_have_no_losses():
    with pytest.raises(ValueError, match="loss needs metric='precomputed' or 'tree', got metric='l2'"):
        MetricPrivatizer(loss=HAMMING).fit([[0.0, 0.0]])
