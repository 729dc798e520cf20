"""Losses of single rows from the means of random bags: exactly unbiased, with the gradients that they claim."""

import itertools

import numpy as np
import pytest

from skprivate.aggregate import RandomBags
from skprivate.aggregate._bag_losses import RowProducts, class_objective, easy_loss, number_objective, square_loss
from skprivate.aggregate.random._bags import BagSums
from skprivate.aggregate.random._fit import _Problem

N = 6
#: Places of rows in bags: disjoint ones of all rows and of some, of unequal sizes, and bags that share rows.
STRUCTURES = {
    "pairs": [(0, 1), (2, 3), (4, 5)],
    "triples": [(0, 1, 2), (3, 4, 5)],
    "rows": [(0,), (1,), (2,), (3,), (4,), (5,)],
    "some rows": [(0, 1), (2, 3)],
    "unequal": [(0,), (1, 2), (3, 4, 5)],
    "shared": [(0, 1, 2), (2, 3, 4), (1, 4, 5), (0, 3)],
}


def structure_of(bags, order=range(N)):
    order = np.asarray(list(order))
    sizes = np.array([len(bag) for bag in bags])
    return BagSums(order[np.concatenate(bags)].astype(np.int64), sizes, N)


def over_all_orders(bags, evaluate):
    """The expectation over random bags: rows are put into the places of the bags in each of the 720 orders once."""
    found = [evaluate(structure_of(bags, order)) for order in itertools.permutations(range(N))]
    return np.mean([value for value, _ in found]), np.mean([slope for _, slope in found], axis=0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return np.array([1.0, 0, 0, 1, 0, 0]), rng.normal(size=N)


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_debiased_square_is_that_of_rows(rows, name):
    y, h = rows

    def evaluate(bags):
        labels = bags.add(y[bags.members]) / bags.sizes
        values, slope = square_loss(bags, h[bags.members], labels, debiased=True)
        return values.sum(), bags.scatter(slope)

    value, slope = over_all_orders(STRUCTURES[name], evaluate)
    assert value == pytest.approx(0.5 * np.mean((h - y) ** 2), rel=1e-12)
    np.testing.assert_allclose(slope, (h - y) / N, atol=1e-14)


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("name", STRUCTURES)
def test_easyllp_is_the_loss_of_rows(rows, name, logistic):
    y, f = rows

    def evaluate(bags):
        labels = bags.add(y[bags.members]) / bags.sizes
        values, slope = easy_loss(bags, f[bags.members], labels, logistic=logistic)
        return values.sum(), bags.scatter(slope)

    value, slope = over_all_orders(STRUCTURES[name], evaluate)
    free, mean = (np.logaddexp(0, f), 1 / (1 + np.exp(-f))) if logistic else (f**2 / 2, f)
    assert value == pytest.approx(np.mean(free - y * f), rel=1e-12)
    np.testing.assert_allclose(slope, (mean - y) / N, atol=1e-14)


@pytest.mark.parametrize("debiased", [True, False])
def test_batches_of_bags_have_the_mean_of_all_bags(rows, debiased):
    """A batch is random bags as all of them are; without the correction it is the loss of bag means."""
    y, h = rows
    bags = structure_of(STRUCTURES["pairs"])
    labels = bags.add(y[bags.members]) / bags.sizes
    every, gradient = square_loss(bags, h[bags.members], labels, debiased=debiased)
    parts, slopes = [], []
    for which in itertools.combinations(range(3), 2):
        batch, places = bags.take(np.array(which))
        np.testing.assert_array_equal(batch.members, bags.members[places])
        values, slope = square_loss(batch, h[batch.members], labels[list(which)], debiased=debiased)
        parts.append(values.sum())
        slopes.append(np.bincount(places, slope, bags.members.size))
    assert np.mean(parts) == pytest.approx(every.sum(), rel=1e-12)
    np.testing.assert_allclose(np.mean(slopes, axis=0), gradient, atol=1e-14)


def test_one_bag_or_the_same_ones_tell_nothing_of_rows():
    for bags in ([(0, 1, 2)], [(0, 1), (0, 1)]):
        assert RowProducts.of(structure_of(bags)).excess == 0.0
    # Bags of one row are rows.
    assert RowProducts.of(structure_of(STRUCTURES["rows"])).excess == 0.0
    # κ of equal disjoint bags is (m − 1)·n/(n − 1): m times the squares of bags less m − 1 times those of pairs.
    assert RowProducts.of(structure_of(STRUCTURES["pairs"])).excess == pytest.approx(3 / 2)


def report(rng, release, noise, numbers=False):
    sizes = np.array([3, 4, 5, 4, 6])
    labels = rng.normal(size=(5, 2)) if numbers else rng.integers(0, 4, size=(5, 2)).astype(float)
    if release == "bernoulli":
        labels = (labels > 1).astype(float)
    return RandomBags(np.arange(22), sizes, labels, 22, release, noise)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        *[(loss, "classes") for loss in ("likelihood", "log", "squared", "debiased", "easyllp")],
        *[(loss, "numbers") for loss in ("squared", "debiased", "easyllp")],  # have no likelihood of counts
    ],
)
@pytest.mark.parametrize(("release", "noise"), [("mean", 0.0), ("laplace", 2.0), ("bernoulli", 0.0)])
def test_gradients_of_objectives(loss, release, noise, kind):
    rng = np.random.default_rng(1)
    bags = report(rng, release, noise, kind == "numbers" and release != "bernoulli")
    if kind == "classes":
        objective = class_objective(bags, loss)
    else:
        objective, _, _ = number_objective(bags, loss, None)
    scores = rng.normal(size=(22, 2))
    values, gradient = objective.values(scores)
    assert values.shape == (5,) and gradient.shape == (22, 2)
    step = 1e-6
    for place, k in [(0, 0), (5, 1), (21, 0), (11, 1)]:
        moved = scores.copy()
        moved[place, k] += step
        back = scores.copy()
        back[place, k] -= step
        slope = np.sum(objective.values(moved)[0] - objective.values(back)[0]) / (2 * step)
        assert gradient[place, k] == pytest.approx(slope, rel=1e-5, abs=1e-8)
    assert objective.gain > 0 and np.all(np.isfinite(objective.start))


def test_labels_are_seen_in_units_of_their_own():
    """Mean and spread of rows' labels from bags; more noise than labels vary by leaves a scale above 0."""
    rng = np.random.default_rng(2)
    y = 50.0 + 1000.0 * rng.normal(size=40_000)
    bags = BagSums(np.arange(y.size), np.full(y.size // 8, 8), y.size)
    for noise in (0.0, 2000.0):
        sums = bags.add(y) + noise * rng.normal(size=bags.n_bags)
        released = RandomBags(bags.members, bags.sizes, sums[:, None], y.size, "mean", noise**2)
        _, centre, scale = number_objective(released, "debiased", None)
        # 5000 bags: relative error of a variance √(2/5000) = 2 %, 1 % of the scale; 5 standard errors.
        assert abs(scale[0] / 1000 - 1) < (0.08 if noise else 0.05)
        assert abs(centre[0] - y.mean()) <= 6 * noise / np.sqrt(8 * y.size) + 1e-9
    released = RandomBags(bags.members, bags.sizes, sums[:, None], y.size, "laplace", 1e12)
    assert number_objective(released, "debiased", None)[2][0] > 0


def test_linear_easyllp_is_the_low_variance_estimator():
    """Applebaum and others (2025): both factors of the product of labels and scores are centred."""
    rng = np.random.default_rng(0)
    X, y, sizes = rng.normal(size=(24, 3)), rng.integers(0, 2, size=24), np.full(6, 4)
    members = rng.permutation(24)
    sums = y[members].reshape(6, 4).sum(axis=1, dtype=float)[:, None]
    bags = RandomBags(members, sizes, sums, 24, "mean", classes=(0, 1))
    problem = _Problem(bags, bags.structure, np.column_stack([X, np.ones(24)]), 0, "easyllp", True)
    w = rng.normal(size=4)
    scores = X @ w[:3] + w[3]
    within = scores[members].reshape(6, 4).mean(axis=1) - scores.mean()
    product = y.mean() * scores.mean() + np.mean(4 * (sums[:, 0] / 4 - y.mean()) * within)
    value, _ = problem.value_and_gradient(w)
    assert value / 24 == pytest.approx(np.logaddexp(0.0, scores).mean() - product)
