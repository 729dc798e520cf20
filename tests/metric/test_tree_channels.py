"""Optimal channels on trees and lines: against the full linear programme, brute force, and each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.linear_programme import programme
from scipy.optimize import linprog

from skprivate.metric import MetricPrivatizer
from skprivate.metric.net._exponential import best_exponential_channel
from skprivate.metric.net._spaces import expected_loss, make_affordable
from skprivate.metric.net._trees import Tree, loss_bound, optimal_tree_channel
from skprivate.privacy.draws._channels import channel_price, quantise_channel


def ultrametric(rng, n):
    """Heights of lowest common ancestors of a random binary merging."""
    distances = np.zeros((n, n))
    groups = [[i] for i in range(n)]
    height = 0.0
    while len(groups) > 1:
        height += rng.exponential()
        i, j = sorted(rng.choice(len(groups), 2, replace=False))
        for x, y in itertools.product(groups[i], groups[j]):
            distances[x, y] = distances[y, x] = height
        groups[i] += groups.pop(j)
    return distances / height


def line(rng, n):
    places = rng.permutation(rng.exponential(size=n)) * 3
    return np.abs(places[:, None] - places[None])


def star(n):
    """All states at distance 1: an ultrametric whose merges all have one height."""
    return 1.0 - np.eye(n)


def path_lengths(tree):
    """Distances along the edges, the slow way."""
    up = []
    for node in tree.states:
        path, length = {int(node): 0.0}, 0.0
        while tree.parent[node] >= 0:
            length += tree.length[node]
            node = tree.parent[node]
            path[int(node)] = length
        up.append(path)
    return np.array([[min(a[k] + b[k] for k in a.keys() & b.keys()) for b in up] for a in up])


SPACES = {"ultrametric": ultrametric, "line": line, "star": lambda rng, n: star(n)}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_has_the_distances_of_the_space(space, seed):
    distances = SPACES[space](np.random.default_rng(seed), 9)
    tree = Tree.of(distances)
    np.testing.assert_allclose(path_lengths(tree), distances, atol=1e-12)
    assert tree.parent[0] == -1 and np.all(tree.parent[1:] < np.arange(1, tree.parent.size))


def test_other_spaces_are_no_trees():
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    assert Tree.of(np.abs(corners[:, None] - corners[None]).sum(axis=2)) is None
    bent = star(4)
    bent[0, 1] = bent[1, 0] = 1 - 1e-9  # still an ultrametric
    assert Tree.of(bent) is not None
    bent[0, 2] = bent[2, 0] = 1 - 2e-9  # not any more
    assert Tree.of(bent) is None


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("seed", range(4))
def test_best_columns_solve_their_linear_programme(space, seed):
    rng = np.random.default_rng(seed)
    distances, epsilon = SPACES[space](rng, 7), rng.choice([0.3, 1.0, 2.0])
    n = len(distances)
    costs = rng.normal(size=(n, 5))
    columns = Tree.of(distances).best_columns(costs, epsilon)
    factor = np.exp(epsilon * distances)
    assert np.all(columns[:, None] <= factor[:, :, None] * columns[None] * (1 + 1e-12))
    np.testing.assert_allclose(columns.max(axis=0), 1.0)
    pairs = [(x, y) for x, y in itertools.permutations(range(n), 2)]
    ratios = np.zeros((len(pairs), n))
    for row, (x, y) in zip(ratios, pairs, strict=True):
        row[x], row[y] = 1 / factor[x, y], -1.0
    for cost, column in zip(costs.T, columns.T, strict=True):
        # The sign of the least cost is what bounds rest on; where it is negative no p with Σp = 1 is better.
        least = linprog(cost, A_ub=ratios, b_ub=np.zeros(len(pairs)), A_eq=np.ones((1, n)), b_eq=[1.0])
        assert (cost @ column < -1e-9) == (least.fun < -1e-9)
        shifted = cost - least.fun  # now the least cost is 0 for every normalisation
        again = Tree.of(distances).best_columns(shifted[:, None] - 1e-3, epsilon)[:, 0]
        assert (shifted - 1e-3) @ again < 0
        assert shifted @ Tree.of(distances).best_columns(shifted[:, None] + 1e-9, epsilon)[:, 0] > -1e-7


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("seed", range(2))
def test_optimal_on_a_tree_is_the_optimum_of_the_full_programme(space, epsilon, seed):
    rng = np.random.default_rng(seed)
    distances = SPACES[space](rng, 12)
    prior = rng.dirichlet(np.ones(12))
    losses = distances * prior[:, None]
    start = best_exponential_channel(distances, epsilon)
    channel, bound = optimal_tree_channel(Tree.of(distances), losses, epsilon, start)
    channel = make_affordable(channel, distances, epsilon)
    assert channel_price(quantise_channel(channel), distances) <= epsilon
    full = expected_loss(programme(distances, epsilon, prior=prior), distances, prior)
    loss = expected_loss(channel, distances, prior)
    assert loss <= full * (1 + 1e-5) + 1e-9
    assert bound <= full * (1 + 1e-9) + 1e-12
    assert loss <= expected_loss(start, distances, prior) * (1 + 1e-9) + 1e-11
    assert loss - bound <= 3e-4 * loss + 1e-9  # prices are as good as the solver's tolerance


@pytest.mark.parametrize("space", SPACES)
def test_any_prices_give_a_bound(space):
    """Weak duality: no channel is below it, whatever the prices were."""
    rng = np.random.default_rng(5)
    distances, epsilon = SPACES[space](rng, 8), 1.5
    tree, losses = Tree.of(distances), distances / 8
    least = float((programme(distances, epsilon) * losses).sum())
    for scale in (0.0, 0.01, 0.1, 1.0, 100.0):
        bound, lowered = loss_bound(tree, losses, epsilon, scale * rng.normal(size=8))
        assert bound <= least * (1 + 1e-6)
        assert bound <= lowered.sum()


def test_a_programme_that_is_cut_short_keeps_its_bound_and_its_start(monkeypatch):
    rng = np.random.default_rng(0)
    distances, epsilon = line(rng, 40), 0.2
    tree, losses = Tree.of(distances), distances / 40
    start = best_exponential_channel(distances, epsilon)
    channel, bound = optimal_tree_channel(tree, losses, epsilon, start)
    assert (losses * channel).sum() - bound <= 3e-4 * bound
    for unknowns in (1, 100, 400, 800):
        monkeypatch.setattr("skprivate.metric.net._trees.MAX_UNKNOWNS", unknowns)
        short, below = optimal_tree_channel(tree, losses, epsilon, start)
        assert below <= (losses * channel).sum()
        assert (
            bound <= (losses * short).sum() * (1 + 1e-6) and (losses * short).sum() <= (losses * start).sum()
        )


def test_optimal_beyond_64_states_and_what_it_says_of_itself():
    places = np.arange(80.0)
    distances = np.abs(places[:, None] - places[None])
    model = MetricPrivatizer(1.0, metric="precomputed", mechanism="optimal", distances=distances)
    model.fit(places[:, None].astype(int))
    assert channel_price(quantise_channel(model.channel_), distances) <= 1.0
    assert model.expected_loss_ == expected_loss(model.channel_, distances)
    assert model.least_loss_ <= model.expected_loss_ <= model.least_loss_ * (1 + 3e-4)
    # Far from the ends it is two-sided geometric noise, whose expected size is 1/sinh(ε).
    inner = (model.channel_ * distances).sum(axis=1)[30:50]
    np.testing.assert_allclose(inner, 1 / np.sinh(1.0), rtol=1e-5)
    model.set_params(mechanism="exponential").fit([[0]])
    assert not hasattr(model, "least_loss_") and model.expected_loss_ > 0


def test_one_state_and_states_without_distance():
    for distances in (np.zeros((1, 1)), np.zeros((3, 3)), np.array([[0, 0, 1.0], [0, 0, 1], [1, 1, 0]])):
        model = MetricPrivatizer(2.0, metric="precomputed", mechanism="optimal", distances=distances)
        model.fit([[0]])
        assert channel_price(quantise_channel(model.channel_), distances) <= 2.0
        assert model.least_loss_ <= model.expected_loss_ + 1e-12


def test_no_state_that_never_occurs_hides_what_prices_miss():
    """A channel with a smaller loss than the bound would refute it: both states of a close pair give one answer."""
    places = np.array([4.64400293, 1.7187613, 1.72674081, 0.0])
    distances = np.abs(places[:, None] - places[None])
    prior = np.array([0.0, 6.43165920e-07, 5.28726316e-02, 0.947126723924])
    losses, epsilon = distances * prior[:, None], 22.29366619189114
    answers = np.eye(4)[[0, 2, 2, 3]]
    better = make_affordable((1 - 1e-11) * answers + 1e-11 / 4, distances, epsilon)
    start = best_exponential_channel(distances, epsilon)
    found, bound = optimal_tree_channel(Tree.of(distances), losses, epsilon, start)
    assert bound <= (losses * better).sum() < 1e-6
    assert (losses * found).sum() < 1e-6
