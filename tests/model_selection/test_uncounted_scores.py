"""Searches of scikit-learn score private models without noise: each of them is warned of once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor, make_private_pipeline, privacy_report
from skprivate.inspection import quote, to_release
from skprivate.model_selection import PrivateSearchCV
from skprivate.privacy import SEARCHED, PrivacyLedger, UncountedScoresWarning

X = np.linspace(0, 1, 120).reshape(60, 2)
Y = X[:, 0]
LABELS = np.arange(60) % 2
GRID = {"epsilon": [0.5, 1.0]}
FOLDS = KFold(2)


def warned(run):
    """Texts of the warnings of a run about scores, however often one line gives them."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UncountedScoresWarning)
        run()
    assert all(each.filename == __file__ for each in seen if each.category is UncountedScoresWarning)
    return [str(each.message) for each in seen if each.category is UncountedScoresWarning]


def regressor(**parameters):
    return UserLevelSGDRegressor(max_iter=2, **parameters)


def search(model=None, **options):
    return GridSearchCV(regressor() if model is None else model, GRID, cv=FOLDS, **options)


SEARCHES = {
    "GridSearchCV": lambda: search().fit(X, Y),
    "HalvingGridSearchCV": lambda: HalvingGridSearchCV(regressor(), GRID, cv=FOLDS, min_resources=20).fit(X, Y),
    "cross_val_score": lambda: cross_val_score(make_pipeline(FunctionTransformer(), regressor()), X, Y, cv=FOLDS),
    "learning_curve": lambda: learning_curve(regressor(), X, Y, cv=FOLDS, train_sizes=[0.5, 1.0]),
    "validation_curve": lambda: validation_curve(
        regressor(), X, Y, param_name="epsilon", param_range=[0.5, 1.0], cv=FOLDS
    ),
    "permutation_test_score": lambda: permutation_test_score(regressor(), X, Y, cv=FOLDS, n_permutations=2),
    "RFECV": lambda: RFECV(regressor(), cv=FOLDS).fit(X, Y),
    "SequentialFeatureSelector": lambda: SequentialFeatureSelector(regressor(), n_features_to_select=1, cv=FOLDS).fit(
        X, Y
    ),
    "TunedThresholdClassifierCV": lambda: TunedThresholdClassifierCV(
        UserLevelSGDClassifier(classes=[0, 1]), cv=FOLDS
    ).fit(X, LABELS),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_warned_of_once(name):
    (text,) = warned(SEARCHES[name])
    assert text.startswith(f"{name} scores fits of UserLevelSGD") and "no ledger" in text


def test_each_search_is_warned_of_and_one_within_another_is_not():
    model = regressor()
    assert len(warned(lambda: [cross_val_score(model, X, Y, cv=FOLDS) for _ in range(3)])) == 3
    assert len(warned(lambda: [search(model).fit(X, Y) for _ in range(2)])) == 2
    (text,) = warned(lambda: cross_val_score(search(), X, Y, cv=FOLDS))
    assert text.startswith("cross_val_score")
    members = VotingRegressor([("a", regressor()), ("b", regressor())])
    assert len(warned(lambda: cross_val_score(members, X, Y, cv=FOLDS))) == 1


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_do_not_warn_again(backend):
    with parallel_config(backend=backend):
        assert len(warned(lambda: search(n_jobs=2).fit(X, Y))) == 1


SILENT = {
    "a simulation": lambda: search(regressor(random_state=0)).fit(X, Y),
    "a dry run": lambda: search(regressor(ledger=PrivacyLedger(epsilon=9, delta=0.1, dry_run=True))).fit(X, Y),
    "a quote": lambda: quote(search(refit=False), X, Y, ledger=PrivacyLedger(epsilon=9, delta=0.1)),
    "a search of this package": lambda: PrivateSearchCV(regressor(), GRID, score_bounds=(-1.0, 0.0)).fit(X, Y),
    "no private model": lambda: cross_val_score(LinearRegression(), X, Y, cv=FOLDS),
    "no search": lambda: clone(make_private_pipeline(regressor())).fit(X, Y),
    "predictions": lambda: cross_val_predict(regressor(), X, Y, cv=FOLDS),
    "a given threshold": lambda: FixedThresholdClassifier(UserLevelSGDClassifier(classes=[0, 1])).fit(X, LABELS),
    "a frozen model": lambda: cross_val_score(FrozenEstimator(regressor().fit(X, Y)), X, Y, cv=FOLDS),
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_else_is_warned_of(name):
    assert warned(SILENT[name]) == []


@pytest.mark.filterwarnings("ignore")
def test_what_a_search_made_is_told_by_fact():
    best = search().fit(X, Y).best_estimator_
    assert SEARCHED in best.privacy_guarantee_.assumptions
    report = privacy_report(best)
    assert any("A search among models" in text for text in report.findings)
    assert SEARCHED not in report.to_dict()["assumptions"]
    with pytest.warns(UncountedScoresWarning, match="a search of scikit-learn made this fit"):
        published = to_release(best)
    assert SEARCHED in published.privacy_guarantee_.assumptions
    again = best.fit(X, Y)
    assert SEARCHED not in again.privacy_guarantee_.assumptions
    assert warned(lambda: to_release(again)) == []
