"""A grid search over ε with worker processes and one ledger: every fit of every worker is charged."""

import os
import pickle
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skprivate import (
    CuratedBagGAMClassifier,
    FiniteAdversaryAuditor,
    MetricPrivateSynthesizer,
    PPMHalfspaceClassifier,
    RandomBagRegressor,
    UserLevelSGDRegressor,
)
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import PublicScaler
from skprivate.privacy import BudgetExceededError, PrivacyLedger, public_generator

EPSILONS = [0.5, 1.0, 2.0]
FOLDS = 3


@pytest.fixture
def data():
    rng = public_generator(0)
    X = rng.normal(size=(600, 2))
    return X, X @ [1.0, -1.0], np.arange(600) % 200


def search(ledger, **options):
    # The workers' warnings of few users concern this little data set.
    regressor = UserLevelSGDRegressor(ledger=ledger, radius=3.0, random_state=0)
    options = {"cv": UserKFold(FOLDS), "error_score": "raise", **options}
    return GridSearchCV(regressor, {"epsilon": EPSILONS}, **options)


@pytest.mark.slow
def test_every_fit_of_every_worker_is_charged(tmp_path, data):
    X, y, users = data
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=100.0, delta=1e-3, composition="basic", simulation=True)
    grid = search(ledger, n_jobs=2).fit(X, y, groups=users, user_ids=users)
    entries = ledger.entries()
    assert len(entries) == FOLDS * len(EPSILONS) + 1  # and the final fit
    assert all(entry.closed and entry.label == "UserLevelSGDRegressor" and entry.simulated for entry in entries)
    charged = Counter(round(entry.epsilon, 2) for entry in entries)
    best = grid.best_params_["epsilon"]
    assert charged == {epsilon: FOLDS + (epsilon == best) for epsilon in EPSILONS}
    workers = {entry.process_id for entry in entries[:-1]}
    assert os.getpid() not in workers and entries[-1].process_id == os.getpid()
    total = FOLDS * sum(EPSILONS) + best
    assert total * 0.99 < ledger.spent[0] <= total
    assert ledger == pickle.loads(pickle.dumps(grid)).estimator.ledger


def test_a_budget_that_ends_stops_the_search(tmp_path, data):
    X, y, users = data
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=2.0, delta=1e-3, unit="user", simulation=True)
    with pytest.raises(BudgetExceededError, match="Nothing was drawn or spent"):
        search(ledger, n_jobs=2).fit(X, y, groups=users, user_ids=users)
    assert ledger.spent[0] <= 2.0


def test_memory_serves_threads_and_refuses_processes(data):
    import joblib

    X, y, users = data
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3, unit="user")
    with joblib.parallel_backend("threading"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search(ledger, n_jobs=2).fit(X, y, groups=users, user_ids=users)
    assert len(ledger.entries()) == FOLDS * len(EPSILONS) + 1
    with pytest.raises(pickle.PicklingError):
        search(ledger, n_jobs=2).fit(X, y, groups=users, user_ids=users)


def test_routing_in_a_pipeline_with_disjoint_users(data):
    X, y, users = data
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3, unit="user")
    pipeline = make_pipeline(PublicScaler(), UserLevelSGDRegressor(ledger=ledger, radius=3.0, random_state=0))
    with config_context(enable_metadata_routing=True):
        result = cross_validate(pipeline, X, y, cv=UserKFold(FOLDS), params={"user_ids": users}, return_estimator=True)
    direct = UserLevelSGDRegressor(radius=3.0, random_state=0)
    for estimator, (train, _) in zip(result["estimator"], UserKFold(FOLDS).split(X, user_ids=users), strict=True):
        direct.fit(X[train], y[train], user_ids=users[train])
        np.testing.assert_array_equal(estimator[-1].coef_, direct.coef_)
    assert len(ledger.entries()) == FOLDS


def row(kind, values):
    return {"numpy": np.asarray, "pandas": pd.Series, "polars": pl.Series}[kind](values)


def table(kind, X):
    if kind == "numpy":
        return X
    columns = {f"column {j}": X[:, j] for j in range(X.shape[1])}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind](columns)


#: The six estimators, the name of the target, and the grid.
SIX = {
    "mixture": (PPMHalfspaceClassifier(private_label=1), "label", {"epsilon": [0.5, 8.0]}),
    "user level": (UserLevelSGDRegressor(), "score", {"epsilon": [0.5, 8.0]}),
    "curated bags": (CuratedBagGAMClassifier(classes=[0, 1]), "label", {"epsilon": [0.5, 8.0]}),
    "random bags": (RandomBagRegressor(bag_size=2), "score", {"epsilon": [0.5, 8.0]}),
    "metric": (MetricPrivateSynthesizer(), None, {"epsilon": [0.5, 8.0]}),
    "audit": (FiniteAdversaryAuditor(), "label", {"confidence": [0.9, 0.99]}),
}


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("way", ["plain", "ledger", "routing"])
@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
@pytest.mark.filterwarnings(
    "ignore:labels between .* may spread much less:UserWarning"
)  # three hundred rows, by chance
@pytest.mark.filterwarnings("ignore::skprivate.privacy.LedgerUnitWarning")
def test_a_pipeline_in_a_grid_search(tmp_path, name, kind, way):
    """All six estimators, three kinds of tables: plain, with a ledger on disk, and with metadata routing."""
    estimator, target, grid = SIX[name]
    rng = public_generator(0)
    X = rng.integers(0, 4, size=(300, 1 if name == "audit" else 3)).astype(float)
    score = X.sum(axis=1) + rng.normal(size=300)
    y = {"label": row(kind, (score > np.median(score)).astype(int)), "score": row(kind, score), None: None}[target]
    model, ledger = clone(estimator), None
    if way == "ledger" and "ledger" in model.get_params():
        ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=100.0, delta=1e-2)
        model.set_params(ledger=ledger)
    pipeline = make_pipeline(FunctionTransformer(), model)
    grid = {f"{pipeline.steps[-1][0]}__{parameter}": values for parameter, values in grid.items()}
    users = {"user_ids": row(kind, np.arange(300) // 3)} if name == "user level" else {}
    if way == "routing":
        search = GridSearchCV(pipeline, grid, cv=UserKFold(2) if users else KFold(2), error_score="raise")
        with config_context(enable_metadata_routing=True):
            search.fit(table(kind, X), y, **users)
    else:
        search = GridSearchCV(pipeline, grid, cv=KFold(2), error_score="raise")
        search.fit(table(kind, X), y, **{f"{pipeline.steps[-1][0]}__{key}": ids for key, ids in users.items()})
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    if ledger is not None:
        assert len(ledger.entries()) == 2 * 2 + 1
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    if name != "metric":
        rows = table(kind, X)
        np.testing.assert_array_equal(again.predict(rows), search.predict(rows))
