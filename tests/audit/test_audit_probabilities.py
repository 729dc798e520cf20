"""Outputs as models give them: class probabilities with true labels, Series, text."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from skprivate.audit import (
    FiniteAdversaryAuditor,
    LossThresholdAttack,
    RMIAAttack,
    attack_probabilities,
    attack_report,
    output_summary,
)
from skprivate.audit._class_outputs import as_labels, is_labels
from skprivate.audit.attacks._report import clopper_pearson

P = np.array([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    member = np.random.default_rng(0).random(len(y)) < 0.5
    model = RandomForestClassifier(20, random_state=0).fit(X[member], y[member])
    return X, y, member, model


# -- class probabilities --------------------


def test_summary_is_the_own_probability_and_the_largest():
    expected = [[0.7, 0.7, 0.2], [0.25, 0.5, 0.25], [1.0, 1.0, 0.0]]
    assert_array_equal(output_summary(P, [1, 2, 2], classes=[0, 1, 2], n_top=2), expected)
    assert_array_equal(output_summary(P, ["b", "c", "c"], classes=["a", "b", "c"], n_top=2), expected)
    # columns in any order; a label that the model never saw has probability 0
    assert_array_equal(output_summary(P, ["b", "c", "?"], classes=["c", "b", "a"], n_top=0)[:, 0], [0.7, 0.5, 0.0])
    assert output_summary(P, [0, 1, 2], n_top=9).shape == (3, 4)
    assert_array_equal(output_summary(P, [10, 20, 30], n_top=0)[:, 0], [0.2, 0.25, 1.0])


@pytest.mark.parametrize(
    ("outputs", "labels", "keywords", "error", "message"),
    [
        (P, [0, 1, 1], {}, ValueError, "labels must be 3 distinct ones.*classes=model.classes_"),
        (P, [0, 1, 2], {"classes": [0, 1]}, ValueError, "classes must be 3 distinct ones"),
        (P, [0, 1], {"classes": [0, 1, 2]}, ValueError, "labels must be one label for each of the 3 rows"),
        (P, ["a", "b", "c"], {"classes": [0, 1, 2]}, TypeError, "one type, got text and numbers"),
        (10 * P, [0, 1, 2], {}, ValueError, "outputs must be class probabilities"),
        (P - 0.5, [0, 1, 2], {}, ValueError, "outputs must be class probabilities"),
        (P[:, 0], [0, 1, 2], {}, ValueError, r"got 'shape \(3,\)'"),
        (np.where(P == 1, np.nan, P), [0, 1, 2], {}, ValueError, "missing or infinite"),
        ([["a", "b"]], [0], {}, TypeError, "outputs must be class probabilities"),
        (P, [0, 1, 2], {"n_top": -1}, ValueError, "n_top must be an integer >= 0"),
    ],
)
def test_what_is_no_probability_or_fits_no_label_is_refused(outputs, labels, keywords, error, message):
    with pytest.raises(error, match=message):
        output_summary(outputs, labels, **keywords)


@pytest.mark.slow
def test_auditor_takes_probabilities_with_labels(digits):
    X, y, member, model = digits
    p = model.predict_proba(X)
    auditor = FiniteAdversaryAuditor(random_state=0).fit(p, member, y)
    by_hand = FiniteAdversaryAuditor(random_state=0).fit(output_summary(p, y), member)
    assert auditor.loss_lower_bound_ == by_hand.loss_lower_bound_
    assert_array_equal(auditor.decision_function(p, y), by_hand.decision_function(output_summary(p, y)))
    assert auditor.n_features_in_ == 10 and auditor.score(p, member, labels=y) > 0.65
    assert auditor.predict_proba(p, y).shape == (len(y), 2)
    # one row alone: its columns are those of the fit
    assert auditor.decision_function(p[:1], y[:1])[0] == pytest.approx(auditor.decision_function(p, y)[0])
    with pytest.raises(ValueError, match="labels must be given if, and only if, fit had them"):
        auditor.predict(p)
    with pytest.raises(ValueError, match="fitted without labels"):
        FiniteAdversaryAuditor().fit(p[:, :1], member).predict(p[:, :1], y)


@pytest.mark.slow
def test_attack_on_outputs_is_held_out(digits):
    _, y, member, _ = digits
    rng = np.random.default_rng(1)
    # Outputs that say nothing: what is fitted on one half must find nothing on the other.
    alarms = 0
    for seed in range(40):
        p = rng.dirichlet(np.ones(10), size=400)
        report = attack_probabilities(p, member[:400], y[:400], random_state=seed)
        alarms += report.accuracy_interval[0] > 0.5 + abs(member[:400].mean() - 0.5)
    assert alarms <= 8  # 1 expected at 2.5 %; P(more than 8) < 1e-6
    assert report.n_members + report.n_nonmembers == pytest.approx(200, abs=1)


def test_attack_on_outputs_finds_what_one_number_hides():
    """The own probability says nothing of membership, the second largest says all."""
    rng = np.random.default_rng(2)
    member = np.arange(1200) % 2 == 0
    own, second = np.full(1200, 0.6), np.where(member, 0.4, 0.2)
    p = np.column_stack([own, second, 0.4 - second])
    y, classes = np.zeros(1200, dtype=int), [0, 1, 2]
    order = rng.permutation(1200)
    found = attack_probabilities(p[order], member[order], y, classes=classes, random_state=0)
    blind = attack_probabilities(p[order], member[order], y, classes=classes, n_top=1, random_state=0)
    assert found.accuracy == 1.0 and found.accuracy_interval == clopper_pearson(600, 600, 0.95)
    assert blind.auc == pytest.approx(0.5)
    forest = attack_probabilities(
        p, member, y, classes=classes, estimator=RandomForestClassifier(5), random_state=0, train_size=0.25
    )
    assert forest.accuracy == 1.0 and forest.n_members == 450
    with pytest.raises(ValueError, match="leaves a part without members"):
        attack_probabilities(p, np.arange(1200) < 1, y, classes=classes)


def test_recorded_outputs_stand_for_the_model(digits):
    X, y, _, model = digits
    p = model.predict_proba(X)
    threshold = LossThresholdAttack().fit(X, y)
    assert_array_equal(threshold.membership_scores(p, X, y), threshold.membership_scores(model, X, y))
    rmia = RMIAAttack(LogisticRegression(max_iter=20, tol=1.0), n_references=2, random_state=0).fit(X[:200], y[:200])
    assert_array_equal(
        rmia.membership_scores(p[:200], X[:200], y[:200]), rmia.membership_scores(model, X[:200], y[:200])
    )


def test_report_has_the_accuracy_of_a_given_threshold():
    member = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    scores = np.array([3.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    report = attack_report(scores, member, threshold=1.5)
    assert report.accuracy == 7 / 8 and report.accuracy_interval == clopper_pearson(7, 8, 0.95)
    assert "accuracy 0.875" in str(report) and "up to 1.000%" in str(report)
    assert attack_report(scores, member).accuracy is None


# -- labels --------------------


def test_labels_of_every_container_are_the_same():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    names = ["b", "a", "b", "c"] * 10
    numbers = [2, 1, 2, 3] * 10
    s = np.arange(40) % 2
    text = [
        names,
        tuple(names),
        np.array(names),
        np.array(names, dtype=object),
        np.array(names)[:, None],
        pd.Series(names),
        pd.Series(names, dtype="category"),
        pd.Series(names, dtype="string"),
        pl.Series(names),
        pl.Series(names, dtype=pl.Categorical),
    ]
    whole = [numbers, np.array(numbers), pd.Series(numbers), pd.Series(numbers, dtype="Int64"), pl.Series(numbers)]
    whole.append(pd.Series(numbers, dtype="category"))
    for outputs, expected in [*((each, names) for each in text), *((each, numbers) for each in whole)]:
        auditor = FiniteAdversaryAuditor().fit(outputs, s)
        assert auditor.setting_ == "classification"
        assert_array_equal(auditor.values_, np.unique(expected))
        assert_array_equal(
            auditor.predict(outputs), FiniteAdversaryAuditor().fit(np.array(expected), s).predict(expected)
        )
    flags = pd.Series([True, False] * 20)
    assert FiniteAdversaryAuditor().fit(flags, s).empirical_accuracy_ == 1.0


def test_a_series_of_scores_is_one_column():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng = np.random.default_rng(3)
    s = rng.integers(0, 2, 200)
    t = rng.normal(size=200) + s
    by_hand = FiniteAdversaryAuditor().fit(t[:, None], s)
    for series in (pd.Series(t, name="score"), pl.Series("score", t)):
        auditor = FiniteAdversaryAuditor().fit(series, s)
        assert auditor.setting_ == "representation" and list(auditor.feature_names_in_) == ["score"]
        assert auditor.loss_lower_bound_ == by_hand.loss_lower_bound_
        assert_array_equal(auditor.decision_function(series), by_hand.decision_function(t[:, None]))


@pytest.mark.parametrize(
    ("outputs", "error", "message"),
    [
        (["a", None, "b"], ValueError, "X must hold a label in every row, got missing values"),
        (["a", float("nan"), "b"], ValueError, "missing values"),
        ([1, None, 2], ValueError, "missing values"),
        (["a", 1, "b"], TypeError, "X must hold labels of one type, got numbers and text"),
        ([True, "a", "b"], TypeError, "got booleans and text"),
        (np.array(["a", 1, True], dtype=object), TypeError, "got booleans and numbers and text"),
    ],
)
def test_mixed_and_missing_labels_are_refused(outputs, error, message):
    with pytest.raises(error, match=message):
        FiniteAdversaryAuditor().fit(outputs, [0, 1, 0])


def test_missing_labels_in_series_are_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for gappy in (
        pd.Series(["a", None, "b"]),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"], dtype="category"),
        pl.Series(["a", None, "b"]),
        pl.Series([1, None, 2]),
    ):
        with pytest.raises(ValueError, match="missing values"):
            FiniteAdversaryAuditor().fit(gappy, [0, 1, 0])


def test_what_counts_as_labels():
    assert is_labels([1, 2]) and is_labels(["a"]) and is_labels(np.array([["a"], ["b"]]))
    assert not is_labels([[1], [2]]) and not is_labels([0.5, 1.5]) and not is_labels(np.ones((2, 2)))
    assert as_labels(np.array([b"a", b"b"], dtype=object)).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        as_labels(np.ones((2, 2)))
