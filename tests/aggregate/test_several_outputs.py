"""Several columns of labels, and losses of the user's own, from curated bags."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from helpers.variant_data import Directions, NegativeBinomial
from sklearn.base import clone
from sklearn.metrics import log_loss

from skprivate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, CuratedBags, PrivacyLedger, make_curated_bags
from skprivate.aggregate import bag_score, bags_from_sql, release_frames
from skprivate.aggregate._losses import BUILT_IN, OwnLoss, own_statistics
from skprivate.inspection import quote
from skprivate.partitions import Blocks

KNOWN = {"categorical_features": "all", "feature_sets": [(0,), (1,), (0, 1)]}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, k, 1200) for k in (3, 4)])
    score = X[:, 0] - 1 + 0.4 * X[:, 1] * (X[:, 0] == 2)
    labels = rng.random((1200, 3)) < 1 / (1 + np.exp(-np.column_stack([score, -score, score / 2])))
    numbers = np.column_stack([score, 1000 * X[:, 1]]) + rng.normal(size=(1200, 2)) * [1.0, 1000.0]
    return X, labels.astype(int), numbers, rng.poisson(np.exp(score[:, np.newaxis] / [2.0, 4.0]))


# Each column as by itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("submodel", ["crosses", "factors"])
@pytest.mark.parametrize("loss", ["log", "squared", "poisson"])
def test_exact_columns_are_fitted_as_each_alone(rows, loss, submodel):
    X, labels, numbers, counts = rows
    if loss == "log":
        model, y = CuratedBagGAMClassifier(None, submodel=submodel, random_state=0, **KNOWN), labels
    else:
        model = CuratedBagGAMRegressor(None, loss=loss, submodel=submodel, random_state=0, **KNOWN)
        y = numbers if loss == "squared" else counts
    found = model.fit(X, y)
    predict = "predict_proba" if loss == "log" else "predict"
    together = getattr(found, predict)(X)
    alone = [getattr(clone(model).fit(X, column), predict)(X) for column in y.T]
    alone = [one[:, 1] for one in alone] if loss == "log" else alone
    np.testing.assert_array_equal(together, np.stack(alone, axis=1))
    assert found.contributions(X).shape == (1200, 3, y.shape[1]) and found.intercept_.shape == (y.shape[1],)
    assert submodel == "factors" or found.penalties_.shape == (3, y.shape[1])


def test_networks_take_several_columns(rows):
    pytest.importorskip("torch")
    X, labels, numbers, _ = rows
    options = {"submodel": "mlp", "submodel_options": {"epochs": 60}, "random_state": 0}
    assert CuratedBagGAMRegressor(None, **options, **KNOWN).fit(X, numbers).score(X, numbers) > 0.4
    found = CuratedBagGAMClassifier(4.0, **options, **KNOWN).fit(X, labels).predict_proba(X)
    assert found.shape == (1200, 3) and log_loss(labels[:, 0], found[:, 0]) < 0.62


def test_multilabel_conventions_are_those_of_scikit_learn(rows):
    X, labels, _, _ = rows
    model = CuratedBagGAMClassifier(3.0, random_state=0, **KNOWN).fit(pd.DataFrame(X), pd.DataFrame(labels))
    assert [list(own) for own in model.classes_] == [[0, 1]] * 3
    assert model.predict(X).shape == model.predict_proba(X).shape == model.decision_function(X).shape == (1200, 3)
    assert set(np.unique(model.predict(X))) <= {0, 1} and 0.0 < model.score(X, labels) < 1.0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_a_label_that_nobody_has_and_many_labels(rows):
    X, labels, _, _ = rows
    wide = np.column_stack([np.zeros(1200, dtype=int), np.ones(1200, dtype=int), *[labels[:, 0]] * 58])
    exact = CuratedBagGAMClassifier(None, **KNOWN).fit(X, wide).predict_proba(X)
    assert np.all(exact[:, 0] < 0.01) and np.all(exact[:, 1] > 0.99)
    # A release for 60 labels is mostly noise, which must not leave the probabilities.
    noisy = CuratedBagGAMClassifier(1.0, random_state=0, **KNOWN).fit(X, wide).predict_proba(X)
    assert np.all((noisy > 0) & (noisy < 1)) and np.all(noisy[:, 0] < 0.2)


def test_a_single_column_is_flattened(rows):
    X, labels, numbers, _ = rows
    for model, y in [
        (CuratedBagGAMClassifier(None, **KNOWN), labels[:, :1]),
        (CuratedBagGAMRegressor(None, **KNOWN), numbers[:, :1]),
    ]:
        with pytest.warns(UserWarning, match="A column-vector y was passed"):
            found = model.fit(X, y).predict(X)
        np.testing.assert_array_equal(found, clone(model).fit(X, y[:, 0]).predict(X))


# Sensitivity, cost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("n_outputs", [1, 2, 7])
@pytest.mark.parametrize("numbers", [False, True])
def test_all_labels_of_a_row_move_the_sums_by_the_sensitivity(monkeypatch, numbers, n_outputs, mechanism):
    seen = []

    def record(self, sums, release):
        seen.append((self.sensitivity, np.asarray(sums).astype(object).ravel()))
        return np.asarray(sums, dtype=float)

    monkeypatch.setattr("skprivate.aggregate.tables._labels.LabelNoise.draw", record)
    X, low, high = np.arange(12)[:, np.newaxis] % [2, 3], -3.0, 1e6
    for label in (0, 1):
        if numbers:
            y = np.where(np.arange(12)[:, np.newaxis] == 5, [low, high][label] * 2, np.ones((12, n_outputs)))
        else:
            y = np.zeros((12, n_outputs), dtype=int)
            y[5] = label
        kind = {"classes": None, "label_bounds": (low, high)} if numbers else {"classes": (0, 1)}
        noise = {"epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism}
        make_curated_bags(X, y, [(0,), (1,), (0, 1)], **kind, **noise, random_state=0)
    (sensitivity, first), (_, second) = seen
    moved = [abs(a - b) for a, b in zip(first, second, strict=True)]
    # One sum of each of three tables; numbers reach all of their interval, and half of it from its middle has a square.
    steps = 2**30 if numbers else 1
    assert sum(moved) <= sensitivity.l1 == (3 + numbers) * n_outputs * steps
    assert sum(moved) == 3 * n_outputs * steps
    assert math.sqrt(sum(one**2 for one in moved)) <= sensitivity.l2


def test_squares_reach_their_sensitivity(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "skprivate.aggregate.tables._labels.LabelNoise.draw",
        lambda self, sums, release: seen.append((self.sensitivity, np.asarray(sums))) or np.asarray(sums, float),
    )
    for label in (0.0, 1.0):
        make_curated_bags(
            [[0]] * 3,
            [[label] * 2] * 3,
            [(0,)],
            classes=None,
            label_bounds=[(-1, 1), (0, 2)],
            epsilon=1.0,
            random_state=0,
        )
    moved = np.abs(seen[1][1] - seen[0][1])
    # 0 is the middle of the first interval and the end of the second.
    assert moved.tolist() == [3 * 2**29, 3 * 2**29, 3 * 2**30, 3 * 2**30]
    assert moved.sum() / 3 <= seen[0][0].l1 == 4 * 2**30


@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, CuratedBagGAMRegressor])
def test_one_release_for_all_columns(rows, kind):
    X, labels, numbers, _ = rows
    y = labels if kind is CuratedBagGAMClassifier else numbers
    ledger = PrivacyLedger(epsilon=2.0, delta=0.0, unit="label")
    model = kind(1.5, delta=0.0, ledger=ledger, random_state=0, **KNOWN)
    asked = quote(model, X, y, ledger=ledger)
    assert asked.admitted and not ledger.entries()
    model.fit(X, y)
    (entry,) = ledger.entries()
    assert 1.4999 < entry.epsilon == asked.epsilon <= 1.5
    assert 1.4999 < model.privacy_guarantee_.epsilon <= 1.5


def test_each_column_has_an_interval_of_its_own(rows):
    X, _, numbers, _ = rows
    model = CuratedBagGAMRegressor(4.0, random_state=0, **KNOWN).fit(X, numbers)
    (low, high), (least, most) = model.bags_.label_bounds
    assert -16 <= low < -1 and 1 < high <= 16 and least >= -8192 and 2000 < most <= 8192
    first, second = model.bags_.tables[0].noise_variance
    assert second / first == pytest.approx(((most - least) / (high - low)) ** 2)
    given = CuratedBagGAMRegressor(4.0, label_bounds=[(-5, 5), (-4000, 8000)], random_state=0, **KNOWN)
    assert given.fit(X, numbers).bags_.label_bounds == ((-5.0, 5.0), (-4000.0, 8000.0))
    alone = [
        CuratedBagGAMRegressor(4.0, random_state=0, **KNOWN).fit(X, column).score(X, column) for column in numbers.T
    ]
    assert given.score(X, numbers) > np.mean(alone) - 0.1


def test_what_is_refused_spends_nothing(rows):
    X, labels, numbers, counts = rows
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="label")

    def refused(match, model, y, error=ValueError):
        with pytest.raises(error, match=match):
            model.set_params(ledger=ledger, **KNOWN).fit(X, y)
        assert not ledger.entries()

    gam, regressor = CuratedBagGAMClassifier, CuratedBagGAMRegressor
    refused(r"for each of 2 outputs, got 3 pairs", regressor(label_bounds=[(0, 1)] * 3), numbers)
    refused(r"finite with low < high", regressor(label_bounds=[(0, 1), (1, 1)]), numbers)
    refused(r"not go below 0 for loss='poisson'", regressor(loss="poisson", label_bounds=[(0, 1), (-1, 1)]), counts)
    refused("contains infinity", regressor(), np.where(numbers > 0, np.inf, numbers))
    refused("must hold numbers", gam(), np.where(labels == 1, "a", "b"))
    refused("must hold 0 and 1 only", gam(None), labels + 1)
    refused("inconsistent numbers of samples", gam(), labels[1:])
    with pytest.raises(ValueError, match="label must be the name of one column"):
        bags_from_sql(None, "t", None, ["a", "b"], epsilon=1.0, ledger=ledger)
    for classes in [(0, 2), [(0, 1)] * 2]:
        with pytest.raises(ValueError, match=r"classes must be \(0, 1\), or None for numbers, for 3 columns"):
            make_curated_bags(X, labels, classes=classes, epsilon=1.0, ledger=ledger)
    assert not ledger.entries()


def test_entries_of_an_indicator_matrix_that_are_neither_count_as_0(rows):
    X, labels, _, _ = rows
    odd = np.where(labels == 1, 1.0, -7.5)
    first, second = (
        CuratedBagGAMClassifier(2.0, random_state=0, **KNOWN).fit(X, y).predict_proba(X) for y in (labels, odd)
    )
    np.testing.assert_array_equal(first, second)


# Reports and tables --------------------------------------------------------------------------------------------------


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("numbers", [False, True])
def test_reports_of_several_columns_are_learned_from(rows, numbers, epsilon):
    X, labels, values, _ = rows
    y, kind = (values, CuratedBagGAMRegressor) if numbers else (labels, CuratedBagGAMClassifier)
    fit = {"epsilon": epsilon, "delta": 1e-6, "random_state": 0}
    model = kind(min_size=1, **fit, **KNOWN).fit(X, y)
    classes = {"classes": None if numbers else "auto"}
    bags = make_curated_bags(X, y, KNOWN["feature_sets"], categorical_features="all", **fit, **classes)
    assert ("numbers" if numbers else "3 labels") in repr(bags)
    for report in (bags, bags.to_dict(), json.loads(json.dumps(bags.to_dict())), model.bags_):
        found = kind().fit_bags(X, report)
        np.testing.assert_array_equal(found.predict(X), model.predict(X))
    if numbers and epsilon:
        with pytest.raises(ValueError, match=r"outputs differ in it: use to_dict"):
            bags.to_frame()
    else:
        again = CuratedBags.from_frames(bags.to_frame(), **bags.terms)
        np.testing.assert_array_equal(kind().fit_bags(X, again).predict(X), model.predict(X))
    other = CuratedBagGAMClassifier if numbers else CuratedBagGAMRegressor
    with pytest.raises(ValueError, match=f"use {kind.__name__}"):
        other().fit_bags(X, bags)


def test_group_by_tables_of_several_labels(rows):
    X, labels, _, _ = rows
    frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(n=1, a=labels[:, 0], b=labels[:, 1])
    tables = [frame.groupby(keys, as_index=False).sum()[[*keys, "n", "a", "b"]] for keys in (["x0"], ["x1"])]
    names = {"count": "n", "sums": ["a", "b"]}
    exact = CuratedBags.from_frames(tables, **names, classes=[(0, 1), (0, 1)])
    found = CuratedBagGAMClassifier().fit_bags(frame[["x0", "x1"]], exact)
    fitted = CuratedBagGAMClassifier(None, feature_sets="singles", categorical_features="all", min_size=1).fit(
        X, labels[:, :2]
    )
    np.testing.assert_allclose(found.predict_proba(frame[["x0", "x1"]]), fitted.predict_proba(X), rtol=1e-9)
    # Of numbers without bounds on each label nothing can be released.
    noisy = release_frames(tables, **names, classes=[(0, 1), (0, 1)], epsilon=1.0, random_state=0)
    counted = release_frames(tables, **names, label_bounds=(0, 1), epsilon=1.0, random_state=0)
    # Two labels in two tables: the discrete Laplace distribution of scale 4.
    scale = math.exp(-1 / 4)
    assert noisy.tables[0].noise_variance == pytest.approx(2 * scale / (1 - scale) ** 2)
    assert counted.tables[0].noise_variance == noisy.tables[0].noise_variance
    assert counted.label_bounds == ((0.0, 1.0), (0.0, 1.0)) and noisy.classes == ((0, 1), (0, 1))
    with pytest.raises(ValueError, match="whole numbers between 0 and the group's count"):
        CuratedBags.from_frames([table.assign(a=table.n + 1) for table in tables], **names, classes=[(0, 1), (0, 1)])


def test_scores_against_sums_of_several_labels(rows):
    X, labels, numbers, _ = rows
    model = CuratedBagGAMClassifier(None, **KNOWN).fit(X, labels)
    held = make_curated_bags(X, labels, [(0, 1)], categorical_features="all")
    probabilities = model.predict_proba(X)
    expected = sum(log_loss(y, p) for y, p in zip(labels.T, probabilities.T, strict=True))
    assert -bag_score(model, X, held, level="rows") == pytest.approx(expected)
    assert -bag_score(model, X, held) == pytest.approx(expected)
    line = CuratedBagGAMRegressor(None, **KNOWN).fit(X, numbers)
    sums = make_curated_bags(X, numbers, [(0, 1)], classes=None, categorical_features="all")
    squares = np.sum((numbers - line.predict(X)) ** 2 - numbers**2) / len(X)
    assert -bag_score(line, X, sums, level="rows") == pytest.approx(squares)


# Losses of one's own -------------------------------------------------------------------------------------------------


class Known:
    """A loss that is built in, as one of the user's own."""

    def __init__(self, name):
        self.name = name

    def statistics(self, y):
        return y

    def potential(self, scores):
        return BUILT_IN[self.name].partition(scores[np.newaxis])[0]

    def gradient(self, scores):
        return BUILT_IN[self.name].partition(scores[np.newaxis])[1][0]


@pytest.mark.parametrize("penalty", ["evidence", 2.0])
@pytest.mark.parametrize("epsilon", [None, 6.0])
def test_a_known_loss_given_as_ones_own(rows, epsilon, penalty):
    X, _, _, counts = rows
    fit = {"epsilon": epsilon, "label_bounds": (0, 12), "penalty": penalty, "random_state": 0, **KNOWN}
    known = CuratedBagGAMRegressor(loss="poisson", **fit).fit(X, counts[:, 0]).predict(X)
    own = CuratedBagGAMRegressor(loss=Known("poisson"), **fit).fit(X, counts[:, 0]).predict(X)
    np.testing.assert_allclose(own, known, rtol=1e-3)


def test_several_statistics_have_the_gradients_of_individual_labels(rows):
    """Theorem 1: at the minimum the gradients of individual labels add up to minus the penalty's, in every bag."""
    X, _, numbers, _ = rows
    loss, angles = Directions(), numbers[:, 0]
    model = CuratedBagGAMRegressor(None, loss=loss, penalty=2.0, min_size=1, tol=1e-9, **KNOWN).fit(X, angles)
    residual = loss.statistics(angles) - model.predict(X)
    for table, bags in zip(model.tables_, model.bags_.tables, strict=True):
        keys = X[:, [int(name[1:]) for name in bags.feature_set]]
        for key, coef in zip(bags.keys, table, strict=True):
            pull = residual[np.all(keys == key, axis=1)].sum(axis=0)
            np.testing.assert_allclose(pull, 2.0 * coef, atol=1e-4)
    np.testing.assert_allclose(residual.sum(axis=0), 0.0, atol=1e-4)


@pytest.mark.parametrize("loss", [NegativeBinomial(), Directions()])
def test_own_losses_from_noisy_sums_and_reports(rows, loss):
    X, _, numbers, counts = rows
    several = isinstance(loss, Directions)
    y, bounds = (numbers[:, 0], (-1, 1)) if several else (counts[:, 0], (0, 30))
    for submodel in ("crosses", "factors"):
        fit = {"loss": loss, "label_bounds": bounds, "submodel": submodel, **KNOWN}
        exact = CuratedBagGAMRegressor(None, **fit).fit(X, y).predict(X)
        noisy = CuratedBagGAMRegressor(20.0, random_state=0, **fit).fit(X, y)
        far = np.mean((noisy.predict(X) - exact) ** 2) / np.mean((exact - exact.mean(axis=0)) ** 2)
        assert far < 0.25
    sums = make_curated_bags(X, loss.statistics(y), KNOWN["feature_sets"], classes=None, categorical_features="all")
    again = CuratedBagGAMRegressor(**{**fit, "submodel": "crosses"}).fit_bags(X, sums).predict(X)
    crosses = CuratedBagGAMRegressor(None, min_size=1, **{**fit, "submodel": "crosses"}).fit(X, y).predict(X)
    np.testing.assert_allclose(again, crosses, atol=1e-6)
    assert clone(noisy).loss is not None and "loss" in "".join(noisy.privacy_guarantee_.assumptions)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(noisy)).predict(X), noisy.predict(X))


def test_statistics_of_a_label_do_not_see_other_labels():
    class Centred:
        seen = 0

        def statistics(self, y):
            self.seen += 1
            if self.seen > 1:
                raise AssertionError("another label was seen before")
            return y - y.mean() + np.exp(y) if y[0] < 5 else 1 / (y - y)

    labels = np.array([0.0, -0.0, 1.0, 1.0, 7.0, -900.0])
    loss = Centred()
    found = own_statistics(labels, given=loss, n_outputs=1, strict=False)
    assert loss.seen == 0  # no label stays in a parameter of the model
    assert found.tolist() == [[1.0, 1.0, math.e, math.e, 0.0, 0.0]]  # 7 fails
    with pytest.raises(ValueError, match=r"loss\.statistics must be finite for all labels"):
        own_statistics(labels, given=Centred(), n_outputs=1, strict=True)


class Changed(Known):
    """Mistakes in a loss."""

    def __init__(self, **wrong):
        super().__init__("squared")
        self.__dict__.update(wrong)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"statistics": lambda y: y[:, np.newaxis]}, r"loss\.statistics must return .* got float64 \(2, 1\)"),
        ({"statistics": lambda y: "a"}, r"loss\.statistics must return numbers"),
        ({"statistics": lambda y: y[:1]}, r"loss\.statistics must return numbers"),
        ({"potential": lambda s: s.sum()}, r"loss\.potential must return shape \(n_rows,\)"),
        ({"gradient": lambda s: s[:3]}, r"loss\.gradient \(n_rows,\)"),
        ({"potential": lambda s: -np.log(-s)}, "must be finite for all scores"),
        ({"gradient": lambda s: 2 * s}, "must be the derivative"),
        ({"potential": lambda s: -(s**2), "gradient": lambda s: -2 * s}, "must be convex"),
    ],
)
def test_losses_that_are_none_are_refused_before_anything_is_spent(rows, wrong, match):
    X, _, numbers, _ = rows
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="label")
    model = CuratedBagGAMRegressor(loss=Changed(**wrong), ledger=ledger, **KNOWN)
    with pytest.raises(ValueError, match=match):
        model.fit(X, numbers[:, 0])
    assert not ledger.entries()
    if "statistics" not in wrong:
        with pytest.raises(ValueError, match=match):
            model.fit_bags(X, make_curated_bags(X, numbers[:, 0], [(0,)], categorical_features="all"))
    with pytest.raises(ValueError, match="'loss' parameter"):
        CuratedBagGAMRegressor(loss=object()).fit(X, numbers[:, 0])


def test_second_derivatives_of_own_losses():
    scores = np.random.default_rng(0).normal(size=(1, 50))
    own, known = OwnLoss(Known("log"), 1), BUILT_IN["log"]
    np.testing.assert_allclose(own.moments(scores)[1], known.moments(scores)[1], rtol=1e-6)
    np.testing.assert_allclose(own.link(np.array([0.2])), known.link(np.array([0.2])), rtol=1e-4)
    # A mean that no score has
    assert np.isfinite(own.link(np.array([1.2]))).all()


def test_rows_in_blocks_have_own_losses(rows):
    X, _, _, counts = rows
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": counts[:, 0]})
    fit = {"loss": NegativeBinomial(), "label_bounds": (0, 30), "random_state": 0}
    fit |= {"categorical_features": "all", "feature_sets": "singles"}
    blocks = Blocks([table[:500], table[500:]])
    found = CuratedBagGAMRegressor(2.0, **fit).fit(blocks, "y")
    memory = CuratedBagGAMRegressor(2.0, **fit).fit(table[["a", "b"]], table.y)
    np.testing.assert_array_equal(found.predict(table[["a", "b"]]), memory.predict(table[["a", "b"]]))
    with pytest.raises(TypeError, match="y must name a column"):
        CuratedBagGAMRegressor(2.0, **fit).fit(blocks, ["a", "y"])
