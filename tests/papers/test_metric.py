"""Geometry: brackets against brute force, predictions against mechanisms, closed forms against matrices."""

import itertools
import math

import numpy as np
import pytest
from helpers.linear_programme import programme
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.metric import distance_matrix, tree_distances, worst_error
from skprivate.papers.metric import (
    Bracket,
    accuracy_lower_bound,
    boolean_cube_accuracy,
    diametric_scale,
    doubling_scale,
    entropic_scale,
    exponential_mechanism,
    is_ultrametric,
    lipschitz_functions_accuracy,
    lipschitz_mechanism,
    measures_accuracy,
    norm_ball_accuracy,
    outer_scale,
    packing_number,
    predicted_accuracy,
    ultrametric_sequences_scale,
)
from skprivate.privacy import public_generator


def random_metric(seed, n):
    """Shortest paths of a random graph."""
    matrix = np.triu(public_generator(seed).exponential(size=(n, n)), 1)
    matrix += matrix.T
    for k in range(n):
        matrix = np.minimum(matrix, matrix[:, k][:, None] + matrix[k][None, :])
    return matrix


def exact_packing(matrix, scale):
    n = len(matrix)
    for size in range(n, 0, -1):
        for subset in itertools.combinations(range(n), size):
            if all(matrix[i, j] > scale for i, j in itertools.combinations(subset, 2)):
                return size
    return 0


def exact_entropic(first, second, epsilon):
    """The largest s at which some ball holds too many separated points."""
    worst = 0.0
    for s in np.unique(second):
        below = np.nextafter(s, -1) if s > 0 else 0.0
        for x in range(len(first)):
            for r in np.unique(first[x]):
                ball = first[x] <= r
                if math.log(exact_packing(second[np.ix_(ball, ball)], below)) > epsilon * r * (1 + 1e-9):
                    worst = max(worst, s)
    return worst


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 7), st.floats(0.1, 5))
def test_brackets_contain_brute_force(seed, n, epsilon):
    first, second = random_metric(seed, n), random_metric(seed + 1, n)
    for scale in (0.0, 0.4, 1.1):
        assert exact_packing(first, scale) in packing_number(first, scale)
    tolerance = 2e-6 * second.max()
    bracket = entropic_scale(first, epsilon, accuracy=second)
    exact = exact_entropic(first, second, epsilon)
    assert bracket.lower - tolerance <= exact <= bracket.upper + tolerance
    assert diametric_scale(first, epsilon, accuracy=second) == max(
        second[y, z]
        for x in range(n)
        for y in range(n)
        for z in range(n)
        if max(first[x, y], first[x, z]) <= 1 / epsilon
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 7), st.floats(0.1, 8))
def test_no_mechanism_beats_the_lower_bound(seed, n, epsilon):
    distances = random_metric(seed, n)
    bracket = predicted_accuracy(distances, epsilon)
    assert bracket.lower <= bracket.upper * (1 + 1e-9)
    assert worst_error(programme(distances, epsilon), distances) >= bracket.lower * (1 - 1e-6)
    assert bracket.lower >= accuracy_lower_bound(distances, epsilon) - 1e-15


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("epsilon", [2.0, 8.0, 30.0])
def test_realised_accuracy_of_lemma_4_1_is_within_constants_of_the_entropic_scale(n, epsilon):
    # An interval, as a fine path: lower bound of the proof of theorem 3.1, upper bound 8·s(ε/4) (docs/theory).
    path = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (n - 1)
    realised = worst_error(exponential_mechanism(path, epsilon), path)
    assert realised <= 8 * entropic_scale(path, epsilon / 4).upper
    assert realised >= accuracy_lower_bound(path, epsilon)
    assert realised >= entropic_scale(path, 2 * epsilon).lower / 8


@pytest.mark.slow
def test_doubling_and_outer_scale_of_an_interval():
    path = np.abs(np.subtract.outer(np.arange(100), np.arange(100))) / 99
    # N(B(x, 2s), s) is 4 or 5 well inside: e^{2εs} reaches it at s = ln(4..5)/(2ε); outer: (1/s + 1) = e^{εs}.
    epsilon = 20.0
    bracket = doubling_scale(path, epsilon)
    assert bracket.lower <= math.log(5) / (2 * epsilon) * 1.1
    assert bracket.upper >= math.log(3) / (2 * epsilon) * 0.9
    outer = outer_scale(path, epsilon)
    assert outer.lower <= outer.upper
    s = 0.5 * (outer.lower + outer.upper)
    assert 0.3 < math.log(1 / s + 1) / (epsilon * s) < 3


@pytest.mark.slow
def test_ultrametric_sequences():
    n = 6
    points = list(itertools.product((0, 1), repeat=n))

    def first_difference(x, y):
        return next((k for k in range(n) if x[k] != y[k]), None)

    a, b = 2.0 ** -np.arange(n), 3.0 ** -np.arange(n)
    first, second = (
        distance_matrix([[0.0 if x == y else c[first_difference(x, y)] for y in points] for x in points])
        for c in (a, b)
    )
    assert is_ultrametric(first) and is_ultrametric(second)
    for epsilon in (0.2, 1.0, 3.0, 10.0, 30.0, 100.0):
        entropic, diametric = ultrametric_sequences_scale(a, b, epsilon)
        assert diametric_scale(first, epsilon, accuracy=second) == pytest.approx(diametric)
        bracket = entropic_scale(first, epsilon, accuracy=second)
        assert bracket.lower - 1e-5 <= entropic <= bracket.upper + 1e-5
        # Theorem 1.7 with the realised error of the relaxed mechanism.
        channel = exponential_mechanism(first, epsilon, accuracy=second, relaxed=True)
        realised = worst_error(channel, second)
        assert accuracy_lower_bound(first, epsilon, accuracy=second) <= realised
        quarter = ultrametric_sequences_scale(a, b, epsilon / 4)
        assert realised <= 4 * sum(quarter)


def test_boolean_cube_is_randomised_response():
    n, epsilon = 4, 1.3
    points = np.array(list(itertools.product((0, 1), repeat=n)))
    hamming = np.abs(points[:, None] - points[None]).sum(axis=2).astype(float)
    channel = np.exp(-epsilon * hamming) / (1 + np.exp(-epsilon)) ** n
    assert worst_error(channel, hamming) == pytest.approx(boolean_cube_accuracy(n, epsilon))
    optimum = programme(hamming, epsilon)
    assert worst_error(optimum, hamming) >= boolean_cube_accuracy(n, epsilon) * (1 - 1e-5)


def test_closed_forms():
    assert norm_ball_accuracy(3, 30) == pytest.approx(0.1)
    assert norm_ball_accuracy(3, 1) == 1
    assert measures_accuracy(2, 1e6) == pytest.approx(1e-2)
    assert lipschitz_functions_accuracy(1, 1e4) == pytest.approx(1e-2)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1, 5], [1, 0, 1], [5, 1, 0]], r"d\(0, 2\) = 5 > d\(0, 1\) \+ d\(1, 2\) = 2"),
        ([[0, 1], [2, 0]], r"symmetric, but entry \(0, 1\) is 1 and \(1, 0\) is 2"),
        ([[1, 1], [1, 0]], r"zero on the diagonal, but entry \(0, 0\) is 1"),
        ([[0, -1], [-1, 0]], r"negative, but entry \(0, 1\) is -1"),
        ([[0, np.inf], [np.inf, 0]], "finite"),
        ([[0, 1]], "square"),
    ],
)
def test_what_is_no_metric_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        diametric_scale(matrix, 1.0)


def test_trees():
    parents = {"root": None, "a": "root", "b": "root", "a1": "a", "a2": "a"}
    matrix = tree_distances(parents, ["a1", "a2", "b", "a"])
    np.testing.assert_array_equal(matrix, [[0, 0.5, 1, 0.5], [0.5, 0, 1, 0.5], [1, 1, 0, 1], [0.5, 0.5, 1, 0]])
    assert is_ultrametric(matrix)
    forest = tree_distances({"a": None, "b": None, "a1": "a", "a2": "a"}, ["a1", "a2", "b"])
    np.testing.assert_array_equal(forest, [[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])
    with pytest.raises(ValueError, match="its own ancestor"):
        tree_distances({"a": "b", "b": "a"}, ["a", "b"])
    with pytest.raises(ValueError, match="base"):
        tree_distances(parents, ["a1"], base=1.0)


def test_bracket():
    assert 1.0 in Bracket(1.0, 2.0)
    assert 2.1 not in Bracket(1.0, 2.0)


@pytest.mark.parametrize(("d", "epsilon"), [(1, 1e2), (1, 1e4), (2, 1e3), (2, 1e5)])
def test_lipschitz_functions_are_released_at_the_rate_of_theorem_6_3(d, epsilon):
    points = np.random.default_rng(0).uniform(size=(400, d))

    def function(x):
        return np.abs(x - 0.3).max(axis=1)

    errors = []
    for seed in range(9):
        released = lipschitz_mechanism(function, d, epsilon, random_state=seed)
        assert released.guarantee.epsilon == epsilon and released.guarantee.metric == "sup norm"
        values = released(points)
        distances = np.abs(points[:, None] - points[None]).max(axis=2)
        assert (np.abs(values[:, None] - values[None]) <= distances + 1e-9).all()
        errors.append(np.abs(values - function(points)).max())
    assert np.median(errors) < 2.5 * lipschitz_functions_accuracy(d, epsilon)


def test_a_lipschitz_function_costs_its_distance_whatever_it_is():
    """The values at the nodes are the only thing that is drawn on; they need not be Lipschitz, or finite noise."""
    rough = lipschitz_mechanism(lambda x: np.sign(x[:, 0] - 0.5) * 1e6, 1, 10.0, random_state=0)
    grid = np.linspace(0, 1, 50)[:, None]
    values = rough(grid)
    assert (np.abs(np.diff(values)) <= np.diff(grid[:, 0]) + 1e-9).all()
    with pytest.raises(ValueError, match="epsilon must be a positive"):
        lipschitz_mechanism(lambda x: x[:, 0], 1, 0.0)
