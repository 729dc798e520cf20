"""Attacks: the quantities they are made of, their independence of the target's membership, and power."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skprivate.audit import (
    AttributeInferenceAttack,
    LiRAAttack,
    LossThresholdAttack,
    RMIAAttack,
    attack_report,
    epsilon_lower_bound,
)
from skprivate.audit.attacks._membership import true_label_probability


def split(n, seed=0):
    return np.random.default_rng(seed).random(n) < 0.5


@pytest.fixture(scope="module")
def digits_target():
    X, y = load_digits(return_X_y=True)
    member = split(len(y))
    model = RandomForestClassifier(60, random_state=1).fit(X[member], y[member])
    return X, y, member, model


def test_true_label_probability_of_any_classifier():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    X = (X - X.mean(0)) / X.std(0)
    model = LogisticRegression().fit(X, names)
    p = true_label_probability(model, X, names)
    np.testing.assert_allclose(
        p, [model.predict_proba(X)[i, list(model.classes_).index(v)] for i, v in enumerate(names)]
    )
    assert true_label_probability(model, X[:2], ["benign", "unheard of"])[1] == 0.0
    svc = LinearSVC().fit(X, names)
    np.testing.assert_allclose(true_label_probability(svc, X, names) > 0.5, svc.predict(X) == names)
    ridge = RidgeClassifier().fit(X, y)
    assert set(np.unique(true_label_probability(ridge, X, y) > 0.5)) <= {False, True}


def test_references_are_balanced_and_fitted_without_stale_caches(digits_target):
    X, y, _, _ = digits_target
    tree = DecisionTreeClassifier()
    attack = RMIAAttack(tree, n_references=6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(attack.reference_membership_.sum(axis=0), 3)
    first = attack.reference_signals_.copy()
    # Same shape and number of references, other labels: everything is fitted again.
    attack.fit(X, np.random.default_rng(0).permutation(y))
    assert not np.array_equal(attack.reference_signals_, first)
    again = RMIAAttack(tree, n_references=6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.reference_signals_, first)


def test_membership_is_never_looked_at(digits_target):
    X, y, member, model = digits_target
    for attack in (LossThresholdAttack(), RMIAAttack(DecisionTreeClassifier(), random_state=0)):
        scores = attack.fit(X, y).membership_scores(model, X, y)
        shuffled = np.random.default_rng(0).permutation(member)
        low, high = attack_report(scores, shuffled, confidence=1 - 1e-6).auc_interval
        assert low < 0.5 < high


@pytest.mark.slow
def test_power_of_rmia_with_four_references(digits_target):
    X, y, member, model = digits_target
    attack = RMIAAttack(RandomForestClassifier(60), random_state=0).fit(X, y)
    report = attack.evaluate(model, X, y, member)
    loss = LossThresholdAttack().fit(X, y).evaluate(model, X, y, member)
    assert report.auc > 0.92 > loss.auc > 0.6
    assert report.rates[0].tpr > 0.35
    calibration = attack.score_reference(0)
    scores = attack.membership_scores(model, X, y)
    bound = epsilon_lower_bound(
        scores, member, method="one-run-fdp", delta=1e-5, trade_off="gaussian", calibration=calibration
    )
    assert bound > 4.5
    assert "AUC" in str(report)


@pytest.mark.slow
def test_lira_and_offline_scores():
    X, y = load_breast_cancer(return_X_y=True)
    member = split(len(y), 2)
    forest = RandomForestClassifier(30, random_state=0)
    model = forest.fit(X[member], y[member])
    attack = LiRAAttack(RandomForestClassifier(30), n_references=8, random_state=0).fit(X, y)
    assert attack.evaluate(model, X, y, member).auc > 0.65
    # Records outside the pool: the references are outsiders to all of them.
    half = LiRAAttack(RandomForestClassifier(30), n_references=4, random_state=0).fit(X[:300], y[:300])
    scores = half.membership_scores(model, X[300:], y[300:])
    assert scores.shape == (len(y) - 300,) and np.isfinite(scores).all()
    by_record = LiRAAttack(RandomForestClassifier(10), n_references=8, variance="record", random_state=0)
    assert np.isfinite(by_record.fit(X, y).membership_scores(model, X, y)).all()


@pytest.mark.slow
def test_regression_targets():
    X, y = load_diabetes(return_X_y=True)
    member = split(len(y), 3)
    model = RandomForestRegressor(30, random_state=0).fit(X[member], y[member])
    for attack in (
        LossThresholdAttack(),
        RMIAAttack(RandomForestRegressor(30), random_state=0),
        LiRAAttack(RandomForestRegressor(30), n_references=8, random_state=0),
    ):
        assert attack.fit(X, y).evaluate(model, X, y, member).auc > 0.75


def test_data_frames_with_text_columns():
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": rng.choice(["x", "y", "z"], 200), "b": rng.normal(size=200)})
    y = (X["a"] == "x").to_numpy() ^ (rng.random(200) < 0.3)
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["a"]), remainder="passthrough")
    model = make_pipeline(encode, DecisionTreeClassifier())
    member = split(200, 4)
    attack = RMIAAttack(model, random_state=0).fit(X, y)
    target = model.fit(X[member], y[member])
    assert attack.evaluate(target, X, y, member).auc > 0.6
    assert LossThresholdAttack().fit(X, y).evaluate(target, X, y, member).auc > 0.6


def test_rates_at_low_false_positive_rates():
    member = np.repeat([True, False], 1000)
    scores = np.concatenate([np.linspace(0, 1, 1000) + 0.5, np.linspace(0, 1, 1000)])
    rate = attack_report(scores, member).rates[0]
    assert rate.fpr == pytest.approx(0.01)
    assert rate.tpr == pytest.approx(np.mean(scores[:1000] > rate.threshold))
    low = rate.tpr_interval[0]
    hits = round(rate.tpr * 1000)
    assert binom.sf(hits - 1, 1000, low) == pytest.approx(0.025)
    assert rate.fpr_interval[0] < 0.01 < rate.fpr_interval[1]
    with pytest.raises(ValueError, match="fpr"):
        attack_report(scores, member, fpr=[1.0])


def test_attribute_inference_with_and_without_the_model():
    rng = np.random.default_rng(0)
    n = 1200
    secret = rng.integers(0, 3, size=n)
    X = np.column_stack([secret, rng.normal(size=(n, 3))]).astype(float)
    y = (secret + (rng.random(n) < 0.1)) % 3
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X[600:], y[600:])
    attack = AttributeInferenceAttack(0, imputer=DecisionTreeClassifier(max_depth=3), random_state=0)
    report = attack.fit(X[:600], y[:600]).evaluate(model, X[600:], y[600:])
    assert report.accuracy > 0.75
    assert report.accuracy_interval[0] < report.accuracy < report.accuracy_interval[1]
    hidden = X[600:].copy()
    hidden[:, 0] = rng.permutation(hidden[:, 0])
    np.testing.assert_array_equal(attack.infer(model, hidden, y[600:]), attack.infer(model, X[600:], y[600:]))
    blind = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[600:, 1:], y[600:])

    class Blind:
        classes_ = blind.classes_

        def predict_proba(self, rows):
            return blind.predict_proba(rows[:, 1:])

    assert attack.evaluate(Blind(), X[600:], y[600:]).accuracy < 0.5


def test_a_feature_of_many_values_is_cut_into_as_many_bins_as_asked_for():
    X = np.column_stack([np.arange(90.0), np.arange(90) % 2])
    attack = AttributeInferenceAttack(0, imputer=DecisionTreeClassifier(), max_values=3)
    attack.fit(X, np.arange(90) % 2)
    assert attack.values_.tolist() == [15.0, 45.0, 74.5]


def test_attribute_inference_refuses_regressors_in_words():
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)]), rng.normal(size=60)
    attack = AttributeInferenceAttack(imputer=DecisionTreeClassifier())
    with pytest.raises(ValueError, match="y must hold class labels, got continuous numbers.*for a regressor, attack"):
        attack.fit(X, y)
    assert not hasattr(attack, "imputer_")
    model = DecisionTreeRegressor().fit(X, y)
    attack.fit(X, y > 0)
    for ask in (attack.infer, attack.evaluate):
        with pytest.raises(ValueError, match="must be a fitted classifier, got DecisionTreeRegressor"):
            ask(model, X, y > 0)


class Columns:
    """A model whose ``predict_proba`` gives some of the columns, as networks with one output do."""

    def __init__(self, model, columns, flat=False):
        self.model, self.columns, self.flat = model, columns, flat
        self.classes_ = model.classes_

    def predict_proba(self, X):
        rows = self.model.predict_proba(X)[:, self.columns]
        return rows.ravel() if self.flat else rows


@pytest.mark.parametrize(
    "attack",
    [
        LossThresholdAttack(),
        RMIAAttack(DecisionTreeClassifier(max_depth=3), n_references=2, random_state=0),
        LiRAAttack(DecisionTreeClassifier(max_depth=3), n_references=2, random_state=0),
    ],
    ids=lambda attack: type(attack).__name__,
)
def test_one_column_of_probabilities_is_that_of_the_second_class(attack):
    X, y = load_breast_cancer(return_X_y=True)
    X, labels = X[:200], np.array(["benign", "malign"])[y[:200]]
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[::2], labels[::2])
    attack = attack.fit(X, labels)
    expected = attack.membership_scores(model, X, labels)
    for flat in (False, True):
        np.testing.assert_allclose(attack.membership_scores(Columns(model, [1], flat), X, labels), expected)
    with pytest.raises(ValueError, match="predict_proba of the model must have one column for each of its 2 classes"):
        attack.membership_scores(Columns(model, [0, 1, 1]), X, labels)


def test_one_column_for_several_classes_is_refused(digits_target):
    X, y, _, model = digits_target
    with pytest.raises(ValueError, match="each of its 10 classes, got 1"):
        true_label_probability(Columns(model, [1]), X, y)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (AttributeInferenceAttack(feature=7), "feature"),
        (RMIAAttack(DecisionTreeClassifier(), n_references=1), "n_references"),
        (LiRAAttack(DecisionTreeClassifier(), smoothing=0.0), "smoothing"),
    ],
)
def test_bad_parameters(attack, message):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        attack.fit(X[:40, :3], y[:40])
