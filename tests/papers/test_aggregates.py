"""Theorem 1 against individual labels, Theorem 2 against its expectation, bound (6) by hand."""

import math

import numpy as np
import pytest
from scipy.special import expit

from skprivate import RandomBagRegressor
from skprivate.papers.aggregates import (
    bag_gradient,
    curated_bags,
    debiased_risk,
    empirical_rademacher,
    excess_risk_bound,
)


@pytest.mark.parametrize("mean", [lambda scores: scores, expit], ids=["squared", "log"])
def test_theorem_1_the_gradient_from_sums_is_that_from_labels(mean):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, size=(500, 3)), rng.integers(0, 2, size=(500, 1)).astype(float)
    sets = [(0,), (1, 2), (0, 1, 2)]
    bags = [curated_bags(X, C) for C in sets]
    tables = [rng.normal(size=(each.max() + 1, 1)) for each in bags]
    scores = sum(table[each] for table, each in zip(tables, bags, strict=True))
    for each, table in zip(bags, tables, strict=True):
        sums = np.zeros_like(table)
        np.add.at(sums, each, y)
        by_label = np.zeros_like(table)
        np.add.at(by_label, each, mean(scores) - y)
        np.testing.assert_allclose(bag_gradient(mean(scores), each, sums), by_label, atol=1e-12)


def test_rows_of_a_bag_agree_on_its_features():
    X = np.random.default_rng(0).integers(0, 4, size=(500, 3))
    bags = curated_bags(X, (1, 2))
    assert len(np.unique(bags)) == len(np.unique(X[:, 1:], axis=0)) == bags.max() + 1
    assert all(len(np.unique(X[bags == k, 1:], axis=0)) == 1 for k in range(bags.max() + 1))


def test_theorem_2_the_risk_is_minimised_by_the_regressor():
    """No neighbour of the fitted coefficients has a smaller risk; without noise and penalty."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=400)
    model = RandomBagRegressor(
        epsilon=None, bag_size=4, n_bags=300, disjoint=False, loss="debiased", alpha=0.0, random_state=0
    )
    model.fit(X, y)
    bags = np.asarray(model.bags_.members).reshape(model.bags_.n_bags, -1)
    labels = model.bags_.means().reshape(-1, 1)

    def risk(coef, intercept):
        return debiased_risk((X @ coef + intercept)[:, None], bags, labels, n_samples=400)

    best = risk(model.coef_, model.intercept_)
    for _ in range(50):
        step = 1e-2 * rng.normal(size=3)
        assert risk(model.coef_ + step[:2], model.intercept_ + step[2]) >= best - 1e-12


def test_theorem_2_the_risk_of_bags_is_that_of_rows_in_expectation():
    """m times the mean over many bags tells two constants apart as single rows do."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=(60, 1))
    bags = np.array([rng.choice(60, size=5, replace=False) for _ in range(20_000)])
    gaps = []
    for prediction in (np.zeros((60, 1)), 0.7 * y + 0.3 * rng.normal(size=(60, 1))):
        gaps.append((debiased_risk(prediction, bags, y[bags].mean(axis=1), n_samples=60), np.var(prediction - y)))
    (zero, zero_rows), (other, other_rows) = gaps
    assert 5 * (zero - other) * 59 / 55 == pytest.approx(zero_rows - other_rows, rel=0.05)


def test_excess_risk_bound():
    shared = {"n_samples": 1000, "n_bags": 500, "rademacher_bags": 0.02, "rademacher_samples": 0.01}
    # m = 1 by hand: the first term vanishes.
    delta = 0.05 / 4
    by_hand = 2 * (4 * math.sqrt(2) * 0.01 + math.sqrt(math.log(2 / delta) / 2000)) + 2 * (
        4 * math.sqrt(2) * 0.02 + math.sqrt(math.log(2 / delta) / 1000)
    )
    assert excess_risk_bound(bag_size=1, **shared) == pytest.approx(by_hand)
    values = [excess_risk_bound(bag_size=m, **shared) for m in (1, 2, 10, 100, 900)]
    assert values == sorted(values)
    with pytest.warns(UserWarning, match="nearly all rows"):
        assert excess_risk_bound(bag_size=999, **shared) > 100 * values[-1]
    assert excess_risk_bound(bag_size=1000, **shared) == math.inf
    for bad, message in [
        ({"bag_size": 0}, "bag_size"),
        ({"bag_size": 1, "beta": 1.0}, "beta"),
        ({"bag_size": 1, "n_outputs": 0}, "n_outputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            excess_risk_bound(**{**shared, **bad})


def test_empirical_rademacher_of_constant_rows():
    # E|Σσᵢ|/n of n signs is about √(2/(πn)).
    found = empirical_rademacher(np.ones((50, 1)), 400, 3.0, n_draws=4000)
    assert found == pytest.approx(3 * math.sqrt(2 / (math.pi * 400)), rel=0.1)


def test_the_bound_grows_with_the_size_of_bags():
    X = np.random.default_rng(3).normal(size=(1000, 2))
    small, large = (
        excess_risk_bound(
            n_samples=1000,
            n_bags=500,
            bag_size=m,
            rademacher_bags=empirical_rademacher(X, 500, 1.0),
            rademacher_samples=empirical_rademacher(X, 1000, 1.0),
        )
        for m in (2, 50)
    )
    assert 0 < small < large < math.inf
