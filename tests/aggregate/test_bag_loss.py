"""Losses against label sums: by hand, against single labels, and what label noise does to them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error

from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    CuratedBags,
    RandomBagClassifier,
    RandomBagRegressor,
    bag_score,
    make_curated_bags,
    make_random_bags,
)
from skprivate.aggregate._bag_losses import bag_loss

X = pd.DataFrame({"a": list("uuvvvw"), "b": list("xyxyyx")})
Y = np.array([0, 1, 1, 1, 0, 0])
P = np.array([0.2, 0.4, 0.9, 0.6, 0.6, 0.3])


def perturbed(bags, noise):
    """Bags with other sums: noise of shape (n_bags,) is added to the first output of the first table."""
    table = bags.tables[0]
    sums = table.label_sums.copy()
    sums[:, 0] += noise
    return replace(bags, tables=(replace(table, label_sums=sums), *bags.tables[1:]))


def test_log_loss_by_hand():
    bags = make_curated_bags(X, Y, [("a",), ("b",)])
    by_a = -(math.log(0.3) + math.log(0.7) + 2 * math.log(0.7) + math.log(0.3) + math.log(0.7)) / 6
    x, y = (0.2 + 0.9 + 0.3) / 3, (0.4 + 0.6 + 0.6) / 3
    by_b = -(math.log(x) + 2 * math.log(1 - x) + 2 * math.log(y) + math.log(1 - y)) / 6
    assert bag_loss(bags, P, X) == pytest.approx((by_a + by_b) / 2, rel=1e-12)
    both = np.column_stack([1 - P, P])
    assert bag_loss(bags.to_dict(), both, X[["b", "a"]]) == pytest.approx(bag_loss(bags, P, X), rel=1e-12)


def test_squared_loss_by_hand():
    bags = make_curated_bags(X, Y * 2.0, [("a",)], classes=None)
    # Means of the labels 1, 4/3, 0 and of the predictions .3, .7, .3, of 2, 3 and 1 rows.
    expected = (2 * 0.7**2 + 3 * (4 / 3 - 0.7) ** 2 + 0.3**2) / 6
    assert bag_loss(bags, P, X) == pytest.approx(expected, rel=1e-12)
    noisy = replace(bags, tables=(replace(bags.tables[0], noise_variance=0.1),))
    assert bag_loss(noisy, P, X) == pytest.approx(expected - 0.1 * (1 / 2 + 1 / 3 + 1) / 6, rel=1e-12)


def test_bags_of_one_row_have_the_loss_of_their_labels():
    rng = np.random.default_rng(0)
    n = 50
    rows = np.arange(n)[:, np.newaxis]
    options = {"categorical_features": "all"}
    p = rng.dirichlet([1, 1, 1], n)
    y = rng.integers(0, 3, n)
    assert bag_loss(make_curated_bags(rows, y, **options), p, rows) == pytest.approx(log_loss(y, p), rel=1e-12)
    two = (y > 0).astype(int)
    random = make_random_bags(rows, two, 1, disjoint=True, random_state=0)
    assert bag_loss(random, p[:, 0], loss="log") == pytest.approx(log_loss(two, p[:, 0]), rel=1e-12)
    numbers, mean = rng.poisson(3, n) + 1, rng.uniform(1, 5, n)
    bags = make_curated_bags(rows, numbers, classes=None, **options)
    assert bag_loss(bags, mean, rows) == pytest.approx(mean_squared_error(numbers, mean), rel=1e-12)
    constant = np.mean(numbers - numbers * np.log(numbers))
    deviance = 2 * (bag_loss(bags, mean, rows, loss="poisson") - constant)
    assert deviance == pytest.approx(mean_poisson_deviance(numbers, mean), rel=1e-9)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(-50, 50), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 0.99), min_size=6, max_size=6),
    st.sampled_from(["log", "squared", "poisson"]),
)
def test_noise_of_mean_zero_leaves_the_loss_unbiased(noise, predictions, loss):
    """±noise with equal probability has mean zero: linear losses average to the exact one, squares after correction."""
    bags = make_curated_bags(X, Y, [("a",)])
    exact = bag_loss(bags, predictions, X, loss=loss)
    said = 0.0
    ends = []
    for sign in (1, -1):
        ends.append(bag_loss(perturbed(bags, sign * np.array(noise)), predictions, X, loss=loss))
    if loss == "squared":
        # Each bag's own variance noise²; the tables state one for all bags.
        said = float(np.sum(np.array(noise) ** 2 / bags.tables[0].counts)) / 6
    assert np.mean(ends) - said == pytest.approx(exact, abs=1e-9)


def test_one_noise_variance_is_taken_off_the_squares():
    """Both signs of noise √v in every bag: what is stated is what is taken off."""
    bags = make_curated_bags(X, Y, [("a",)], classes=None)
    exact = bag_loss(bags, P, X)
    noisy = replace(bags, tables=(replace(bags.tables[0], noise_variance=9.0),))
    ends = [bag_loss(perturbed(noisy, sign * 3.0), P, X) for sign in (1, -1)]
    assert np.mean(ends) == pytest.approx(exact, rel=1e-9)


def test_random_bags_by_hand():
    bags = make_random_bags(X, Y, 2, disjoint=True, random_state=0)
    members = bags.members.reshape(3, 2)
    s, p = Y[members].sum(axis=1), P[members].mean(axis=1)
    expected = -np.sum(s * np.log(p) + (2 - s) * np.log(1 - p)) / 6
    assert bag_loss(bags, P, loss="log") == pytest.approx(expected, rel=1e-12)
    assert bag_loss(bags, P) == pytest.approx(2 * np.sum((s / 2 - p) ** 2) / 6, rel=1e-12)
    bits = replace(bags, label_release="bernoulli", label_sums=np.array([[1.0], [0.0], [1.0]]))
    expected = -np.sum(np.log([p[0], 1 - p[1], p[2]])) * 2 / 6
    assert bag_loss(bits.to_dict(), P, loss="log") == pytest.approx(expected, rel=1e-12)
    both = make_random_bags(X, np.column_stack([Y, 1 - Y]), 2, disjoint=True, random_state=0)
    expected = 2 * bag_loss(bags, P, loss="log")
    assert bag_loss(both, np.column_stack([P, 1 - P]), loss="log") == pytest.approx(expected, rel=1e-12)


def test_scores_of_models():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.choice(list("uvw"), 400), "b": rng.choice(list("xy"), 400)})
    y = np.where(rng.random(400) < rows.a.map({"u": 0.1, "v": 0.5, "w": 0.9}), "yes", "no")
    bags = make_curated_bags(rows, y)
    model = CuratedBagGAMClassifier().fit_bags(rows, bags)
    assert bag_score(model, rows, bags) == -bag_loss(bags, model.predict_proba(rows), rows)
    # Classes in another order are the same classes.
    turned = make_curated_bags(rows, y, classes=["yes", "no"])
    assert bag_score(model, rows, turned) == pytest.approx(bag_score(model, rows, bags), rel=1e-12)
    number = (y == "yes") + 0.25
    regressor = CuratedBagGAMRegressor(epsilon=None).fit(rows, number)
    numbers = make_curated_bags(rows, number, classes=None)
    assert bag_score(regressor, rows, numbers) == -bag_loss(numbers, regressor.predict(rows), rows)
    Z = rng.normal(size=(400, 2))
    linear = RandomBagClassifier(epsilon=None, bag_size=2, random_state=0).fit(Z, Z[:, 0] > 0)
    assert bag_score(linear, Z, linear.bags_) > -math.log(2)
    several = RandomBagClassifier(epsilon=None, bag_size=2, random_state=0).fit(Z, (Z > 0).astype(int))
    assert bag_score(several, Z, several.bags_) > -2 * math.log(2)
    line = RandomBagRegressor(epsilon=None, bag_size=2, random_state=0).fit(Z, Z[:, 0])
    assert bag_score(line, Z, line.bags_) > -0.1
    with pytest.raises(ValueError, match=r"model knows the classes \['no', 'yes'\], bags count \['a', 'yes'\]"):
        bag_score(model, rows, replace(bags, classes=("a", "yes")))
    with pytest.raises(ValueError, match="predict_proba for bags of classes, got CuratedBagGAMRegressor"):
        bag_score(regressor, rows, bags)


def test_noisy_bags_of_other_rows_choose_the_model_that_labels_choose():
    """The better of two models has the better score, negative sums included."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.integers(0, 8, 4000), "b": rng.integers(0, 8, 4000)}).astype(str)
    chance = 0.02 + 0.4 * ((rows.a < "2") & (rows.b < "4"))
    y = (rng.random(4000) < chance).astype(int)
    train, test = slice(0, 2000), slice(2000, 4000)
    bags, held_out = (
        make_curated_bags(rows[part], y[part], epsilon=2.0, random_state=seed)
        for seed, part in enumerate((train, test))
    )
    assert min(table.label_sums.min() for table in held_out.tables) < 0
    pairs = CuratedBagGAMClassifier().fit_bags(rows[train], bags)
    wild = CuratedBagGAMClassifier(penalty=1e-3).fit_bags(rows[train], bags)
    predictions = [model.predict_proba(rows[test]) for model in (pairs, wild)]
    assert bag_score(pairs, rows[test], held_out) > bag_score(wild, rows[test], held_out)
    assert log_loss(y[test], predictions[0]) < log_loss(y[test], predictions[1])
    # Bags that a model learnt from flatter it.
    assert bag_score(wild, rows[train], bags) > bag_score(pairs, rows[train], bags)


def test_predictions_that_do_not_fit_are_refused():
    bags = make_curated_bags(X, Y, [("a",)])

    def refused(message, *arguments, error=ValueError, **other):
        with pytest.raises(error, match=message):
            bag_loss(*arguments, **other)

    refused("bags must be CuratedBags or its to_dict", X, P, X, error=TypeError)
    refused("X must be the rows that were aggregated, got None", bags, P)
    refused(r"each of the 6 rows of the bags and 1 columns, got shape \(5,\)", bags, P[:5], X)
    refused(r"between 0\.0 and 1\.0 for loss='log'", bags, P + 0.5, X)
    refused(r"finite numbers", bags, P * np.nan, X)
    refused(r"loss must be one of .* got 'zero_one'", bags, P, X, loss="zero_one")
    refused("counts disagree", bags, P, X.assign(a="u"))
    three = make_curated_bags(X, list("abcabc"), [("a",)])
    refused("add up to 1 in every row", three, np.full((6, 3), 0.5), X)
    assert isinstance(bags, CuratedBags)


@pytest.mark.parametrize("kind", ["two", "three", "squared", "poisson"])
def test_the_loss_over_rows_of_an_additive_model_is_that_of_its_labels(kind):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"a": rng.choice(list("uvw"), 300), "b": rng.choice(list("xyz"), 300)})
    train, test = rows[:150], rows[150:]
    if kind in ("two", "three"):
        y = rng.integers(0, 2 if kind == "two" else 3, 300)
        model = CuratedBagGAMClassifier(penalty=0.5).fit_bags(train, make_curated_bags(train, y[:150]))
        expected = log_loss(y[150:], model.predict_proba(test))
    else:
        y = rng.poisson(2.0, 300)
        bags = make_curated_bags(train, y[:150], classes=None)
        model = CuratedBagGAMRegressor(penalty=0.5, loss=kind).fit_bags(train, bags)
        mean = model.predict(test)
        expected = (
            mean_squared_error(y[150:], mean) - np.mean(y[150:] ** 2)
            if kind == "squared"
            else np.mean(mean - y[150:] * np.log(mean))
        )
    held_out = make_curated_bags(test, y[150:], classes="auto" if kind in ("two", "three") else None)
    assert bag_score(model, test, held_out, level="rows") == pytest.approx(-expected, rel=1e-9)
    # The finest table tells all; the coarser ones alone do not.
    finest = replace(held_out, tables=held_out.tables[2:])
    assert bag_score(model, test, finest, level="rows") == pytest.approx(-expected, rel=1e-9)
    with pytest.raises(ValueError, match=r"feature set \('a', 'b'\) has one coefficient.*level='bags'"):
        bag_score(model, test, replace(held_out, tables=held_out.tables[:2]), level="rows")
    with pytest.raises(ValueError, match=r"curated bags and additive models of them, got RandomBags"):
        bag_score(model, test, make_random_bags(test, y[150:] > 0, 2), level="rows")
    with pytest.raises(ValueError, match="level must be 'bags' or 'rows'"):
        bag_score(model, test, held_out, level="row")
