"""From a frame with texts, gaps and dates to a private model, within one budget."""

import os
import pickle
import threading
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.utils.fixes import parse_version

from skprivate import (
    CuratedBagGAMClassifier,
    PPMHalfspaceClassifier,
    PrivacyLedger,
    PrivateSearchCV,
    RandomBagClassifier,
    UserLevelMean,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
    make_private_pipeline,
)
from skprivate.inspection import quote, to_release
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivatePipeline,
    PrivateStandardScaler,
    PublicOneHotEncoder,
    PublicScaler,
    RowByRow,
    make_additive_pipeline,
)
from skprivate.preprocessing._public_encoders import PublicCalendar, PublicNumbers
from skprivate.privacy import BudgetExceededError, SimulatedNoiseError
from skprivate.utils.estimator_checks import Neighbour, replay

#: scikit-learn chooses columns of an Arrow table since 1.7.
OTHERS = [pl.from_pandas]
if parse_version(sklearn.__version__) >= parse_version("1.7"):
    OTHERS.append(pa.Table.from_pandas)

SCHEMA = {"age": (0, 110), "weight": "number", "ward": ["a", "b"], "flag": "category", "day": "date", "name": "drop"}
SECRET = "zzz-secret"
SIMULATED = pytest.mark.filterwarnings("ignore::UserWarning")


def visits(n=3000, seed=0):
    """A frame with gaps in every column, a ward that is not listed, and a number to predict."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "weight": rng.normal(75, 14, n),
            "ward": rng.choice(["a", "b", SECRET, None], n),
            "flag": rng.random(n) > 0.5,
            "day": days,
            "name": [f"P{k}" for k in range(n)],
        }
    )
    y = 0.5 * frame["age"] + 0.3 * frame["weight"] + 9.0 * (frame["ward"] == "a") + rng.normal(0, 4, n)
    frame.loc[rng.random(n) < 0.1, "weight"] = np.nan
    frame.loc[::50, "day"] = pd.NaT
    return frame, y.to_numpy()


def regressor(epsilon=None, columns=SCHEMA, **options):
    given = {"random_state": 0, **options}
    return make_private_pipeline(UserLevelSGDRegressor(**given), columns, epsilon=epsilon)


def imputed(model, step=None):
    """Put a private step behind the numbers."""
    return model.set_params(columns__numbers=make_pipeline(PublicNumbers(), step or PrivateImputer(random_state=0)))


@SIMULATED
@pytest.mark.parametrize("kind", ["linear", "additive", "classes", "elsewhere"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-5), (1.0, 1e-6), (8.0, 1e-9), (1e3, 1e-3)])
def test_the_whole_is_the_budget_that_was_asked_for(epsilon, delta, kind):
    class Other(UserLevelSGDRegressor):
        """May draw anything, so that budgets add up."""

    X, y = visits()
    model = {
        "linear": UserLevelSGDRegressor(random_state=0),
        "additive": make_additive_pipeline(UserLevelSGDRegressor(random_state=0), n_knots=5),
        "classes": UserLevelSGDClassifier(random_state=0),
        "elsewhere": Other(random_state=0),
    }[kind]
    pipeline = make_private_pipeline(model, SCHEMA, epsilon=epsilon, delta=delta)
    assert check_pipeline(pipeline).epsilon == epsilon
    found = guarantee_of(pipeline.fit(X, y > y.mean() if kind == "classes" else y))
    assert found.epsilon <= epsilon and found.delta <= delta
    assert found.epsilon > (0.8 if kind == "elsewhere" else 0.9) * epsilon
    assert (pipeline["model"].epsilon, pipeline["model"].delta) == (1.0, 1e-6)


@SIMULATED
@pytest.mark.parametrize("delta", [1e-12, 1e-8, 1e-3])
def test_the_whole_is_the_budget_where_a_step_needs_no_delta(delta):
    X = pd.DataFrame({"age": np.arange(2000.0) % 90})
    model = make_pipeline(PrivateStandardScaler(random_state=0), UserLevelSGDRegressor(random_state=0))
    found = guarantee_of(make_private_pipeline(model, epsilon=1.0, delta=delta).fit(X, X["age"]))
    assert 0.9 < found.epsilon <= 1.0 and found.delta <= delta


def test_a_given_step_that_learns_from_private_rows_is_named():
    """Where features are public, or the step learns nothing, nothing is said."""
    schema = {"a": (0, 1)}
    with pytest.warns(UserWarning, match=r"step 'standardscaler' \(StandardScaler\) learns from private rows"):
        model = make_private_pipeline(make_pipeline(StandardScaler(), UserLevelSGDRegressor()), schema, epsilon=1.0)
    assert not check_pipeline(model).could_hold
    for inside in (FeatureUnion([("s", make_pipeline(MinMaxScaler()))]), RowByRow(MinMaxScaler()), SelectKBest()):
        with pytest.warns(UserWarning, match=r"\((MinMaxScaler|SelectKBest)\) learns from private rows"):
            make_private_pipeline(make_pipeline(inside, UserLevelSGDRegressor()), schema, epsilon=1.0)
    listed = OneHotEncoder(categories=[[0.0, 1.0]], handle_unknown="ignore")
    with pytest.warns(UserWarning, match="OneHotEncoder.*learns the categories that occur"):
        make_private_pipeline(make_pipeline(OneHotEncoder(), UserLevelSGDRegressor()), schema, epsilon=1.0)
    for silent in (
        PolynomialFeatures(),
        PublicScaler(),
        PrivateStandardScaler(),
        FrozenEstimator(MinMaxScaler()),
        listed,
    ):
        make_private_pipeline(make_pipeline(silent, UserLevelSGDRegressor()), schema, epsilon=1.0)
    make_private_pipeline(make_pipeline(StandardScaler(), RandomBagClassifier()), schema, epsilon=1.0)


@SIMULATED
@pytest.mark.parametrize("routed", [False, True])
def test_users_are_protected_with_and_without_routing(routed):
    X, y = visits()
    users = np.arange(len(X)) // 3
    with config_context(enable_metadata_routing=routed):
        found = guarantee_of(imputed(regressor(1.0)).fit(X, y, user_ids=users))
    assert str(found.unit) == "user" and 0.9 < found.epsilon <= 1.0
    assert "all steps were given the same user_ids" in found.assumptions


@SIMULATED
def test_frames_of_three_libraries_give_the_same_fit():
    X, y = visits()
    found = [regressor(1.0).fit(Z, y) for Z in (X, *(read(X) for read in OTHERS))]
    for model in found[1:]:
        np.testing.assert_array_equal(model["model"].coef_, found[0]["model"].coef_)
    columns = found[0][:-1]
    names = list(columns.get_feature_names_out())
    assert names[:4] == ["age", "weight", "day", "day_week_sin"]
    assert names[-6:] == ["ward_a", "ward_b", "ward_rest", "flag_False", "flag_True", "flag_rest"]
    assert found[0].score(X, y) > 0.6


@SIMULATED
def test_gaps_dates_and_values_that_are_not_listed():
    X, y = visits()
    columns = imputed(regressor(1.0)).fit(X, y)[:-1]
    days = [pd.Timestamp("2000-01-01 12:00"), pd.NaT, pd.Timestamp("2001-01-01")]
    rows = pd.DataFrame(
        {
            "age": [20.0, 30.0, np.nan],
            "weight": [np.nan, 80.0, 80.0],
            "ward": ["b", SECRET, None],
            "flag": [True, False, True],
            "day": days,
            "name": "x",
        }
    )
    Z = pd.DataFrame(columns.transform(rows), columns=columns.get_feature_names_out())
    assert 60 < Z["weight"][0] < 90 and 30 < Z["age"][2] < 80
    np.testing.assert_array_equal(Z[["ward_a", "ward_b", "ward_rest"]], [[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    assert Z["day"][0] == 0.5 and Z["day"][2] == 366.0
    circle = Z[["day_week_sin", "day_week_cos", "day_year_sin", "day_year_cos"]].to_numpy()
    np.testing.assert_allclose(circle[0], [0, 1, 0, 1])
    np.testing.assert_array_equal(circle[1], 0.0)
    # 366 days later: two days on in the week.
    np.testing.assert_allclose(circle[2][:2], [np.sin(4 * np.pi / 7), np.cos(4 * np.pi / 7)])


@SIMULATED
def test_without_a_schema_types_alone_tell():
    X, y = visits()
    ward = pd.Categorical(X["ward"].where(X["ward"] != SECRET), categories=["a", "b"])
    X = X.drop(columns="name").assign(ward=ward)
    pandas = regressor(1.0, None).fit(X, y)
    kinds = {"ward": pl.Enum(["a", "b"])}
    polars = regressor(1.0, None).fit(pl.from_pandas(X).with_columns(pl.col("ward").cast(kinds["ward"])), y)
    np.testing.assert_array_equal(pandas["model"].coef_, polars["model"].coef_)
    named = ["age", "weight", "day"]
    assert list(pandas[:-1].get_feature_names_out()[:3]) == named
    text = "the categories that types of columns declare are public, not found in private rows"
    assert text in guarantee_of(pandas).assumptions
    array = regressor(1.0, None).fit(X[["age", "weight"]].to_numpy(), y)
    assert array["model"].coef_.shape == (2,)


@SIMULATED
@pytest.mark.parametrize("kind", ["polars", "pyarrow", "text", "durations"])
def test_values_that_no_type_declares_are_asked_for(kind):
    """What a library collects while it reads rows is no part of a type."""
    X, y = visits(1000)
    X = X[["age", "ward"]]
    if kind == "polars":
        X = pl.from_pandas(X).with_columns(pl.col("ward").cast(pl.Categorical))
    elif kind == "pyarrow":
        X = pa.Table.from_pandas(X.astype({"ward": "category"}))
    elif kind == "durations":
        X = X.assign(ward=pd.Timedelta(1, "D"))
    _spent_nothing(regressor(1.0, None), X, y, TypeError, "what 'ward' of X holds")


def bag(n=3000):
    X, y = visits(n)
    return X, (y > y.mean()).astype(int)


@SIMULATED
@pytest.mark.parametrize("model", [CuratedBagGAMClassifier(random_state=0), RandomBagClassifier(random_state=0)])
def test_where_labels_are_protected_features_cost_nothing(model):
    X, y = bag()
    found = make_private_pipeline(model, SCHEMA, epsilon=2.0).fit(X, y)
    assert 1.9 < guarantee_of(found).epsilon <= 2.0 and str(guarantee_of(found).unit) == "label"
    assert check_pipeline(found).could_hold and found.score(X, y) > 0.65


@pytest.mark.slow
@SIMULATED
def test_where_rows_are_public_limits_scale():
    X, y = bag(400)
    model = PPMHalfspaceClassifier(random_state=0)
    schema = {"age": (0, 110), "weight": (0, 300), "day": "drop", "ward": "drop", "flag": "drop", "name": "drop"}
    found = make_private_pipeline(model, schema, epsilon=2.0).fit(X, y)
    assert guarantee_of(found).epsilon <= 2.0
    assert np.abs(found[:-1].transform(X)).max() <= 1.0
    some = clone(found).fit(X, y, private=np.arange(400) % 2 == 0)
    assert any("privacy mask" in text for text in guarantee_of(some).assumptions)


@SIMULATED
def test_steps_that_look_at_no_data_stand_inside():
    X, y = visits()
    inner = make_pipeline(PolynomialFeatures(2, include_bias=False), UserLevelSGDRegressor(random_state=0))
    found = make_private_pipeline(inner, {**SCHEMA, "day": "drop"}, epsilon=1.0).fit(X, y)
    assert [name for name, _ in found.steps] == ["columns", "polynomialfeatures", "model"]
    assert 0.9 < guarantee_of(found).epsilon <= 1.0


@SIMULATED
def test_a_step_whose_width_is_released_leaves_the_sum_of_budgets():
    """The model then plans by what was released."""
    X, y = visits()
    bins = PrivateKBinsDiscretizer(n_bins=4, encode="onehot-dense", random_state=1)
    found = imputed(regressor(1.0), bins).fit(X, y)
    total = guarantee_of(found)
    assert total.adaptive and total.epsilon <= 1.0
    assert found["model"].privacy_guarantee_.epsilon <= 0.9


@SIMULATED
def test_parts_that_are_not_known_after_a_fit_leave_the_sum_of_budgets():
    X, y = visits(1500)
    X = X[["age", "weight"]].fillna(50.0)

    class Own(PrivateStandardScaler):
        """May draw anything."""

    nested = make_additive_pipeline(PrivateStandardScaler(random_state=1), n_knots=3)
    for step in (Own(random_state=1), nested):
        model = PrivatePipeline([("first", step), ("model", UserLevelSGDRegressor(random_state=0))], epsilon=1.0)
        found = guarantee_of(model.fit(X, y))
        assert found.epsilon <= 1.0 and model["model"].privacy_guarantee_.epsilon <= 0.9
    beside = [("a", PrivateStandardScaler(random_state=1)), ("b", PrivateStandardScaler(random_state=2))]
    model.set_params(first=FeatureUnion(beside)).fit(X, y)
    assert 0.9 < guarantee_of(model).epsilon <= 1.0 and model["model"].privacy_guarantee_.epsilon > 0.9
    with pytest.raises(TypeError, match="private steps before the last one must transform"):
        model.set_params(first=SelectFromModel(UserLevelSGDRegressor())).fit(X, y)


@SIMULATED
def test_what_is_frozen_was_paid_for_before():
    X, y = visits(1500)
    X = X[["age", "weight"]].fillna(50.0)
    earlier = FrozenEstimator(PrivateStandardScaler(0.5, random_state=1).fit(X))
    model = PrivatePipeline([("first", earlier), ("model", UserLevelSGDRegressor(random_state=0))], epsilon=1.0)
    model.fit(X, y)
    assert earlier.estimator.epsilon == 0.5 and 0.99 < model["model"].privacy_guarantee_.epsilon <= 1.0
    assert 1.0 < guarantee_of(model).epsilon <= 1.5


@SIMULATED
def test_pickle_clone_release_and_pictures():
    X, y = visits(1000)
    model = regressor(2.0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    same = clone(model)
    assert same.get_params().keys() == model.get_params().keys() and same.epsilon == 2.0
    np.testing.assert_array_equal(same.fit(X, y).predict(X), model.predict(X))
    assert "PublicCalendar" in model._repr_html_() and "epsilon=2.0" in repr(model)
    for library in ("pandas", "polars"):
        named = clone(model).set_output(transform=library).fit(X, y)
        np.testing.assert_array_equal(named["model"].coef_, model["model"].coef_)
        assert type(named[:-1].transform(X)).__module__.startswith(library)


def test_a_published_model_has_no_ledger():
    X, y = visits(1000)
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_private_pipeline(
            make_additive_pipeline(UserLevelSGDRegressor(), n_knots=5), SCHEMA, epsilon=2.0, ledger=ledger
        ).fit(X, y)
    copy = to_release(model)
    assert copy.ledger is None and b"ledger" not in repr(copy.get_params()).replace("ledger': None", "").encode()
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert len(ledger.entries()) == 2 and ledger.spent[0] <= 2.0
    steps = [model["columns"].named_transformers_["numbers"][-1], model["model"]]
    assert [each.privacy_guarantee_.ledger_entry[-2:] for each in steps] == ["#1", "#2"]
    # The parameters of the steps are as they were: the whole decides in the next fit.
    numbers = next(step for name, step, _ in model["columns"].transformers if name == "numbers")
    assert numbers[-1].ledger is None is model["model"].ledger


@pytest.mark.slow
@SIMULATED
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_grid_over_the_budget_of_the_whole_is_charged(tmp_path, jobs):
    X, y = visits(900)
    users = np.arange(900) % 300
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=50.0, delta=1e-3, composition="basic", simulation=True)
    model = imputed(regressor(1.0)).set_params(ledger=ledger)
    epsilons = [0.5, 1.0, 2.0]
    grid = GridSearchCV(model, {"epsilon": epsilons}, cv=UserKFold(3), n_jobs=jobs, error_score="raise")
    with config_context(enable_metadata_routing=True):
        grid.fit(X, y, user_ids=users)
    entries = ledger.entries()
    best = grid.best_params_["epsilon"]
    labels = Counter(entry.label for entry in entries)
    assert labels == {"PrivateImputer": 10, "UserLevelSGDRegressor": 10}
    assert {entry.unit for entry in entries} == {"user"}
    total = 3 * sum(epsilons) + best
    assert 0.95 * total < ledger.spent[0] <= total
    alone = {entry.process_id for entry in entries} == {os.getpid()}
    assert alone is (jobs == 1)
    again = imputed(regressor(best))
    again.set_params(ledger=PrivacyLedger(epsilon=9.0, delta=1e-3)).fit(X, y, user_ids=users)
    np.testing.assert_array_equal(grid.best_estimator_.predict(X), again.predict(X))


@pytest.mark.slow
@SIMULATED
def test_a_private_search_has_one_budget_for_wholes():
    X, y = bag(1500)
    model = make_private_pipeline(UserLevelSGDClassifier(classes=[0, 1]), SCHEMA, epsilon=1.0)
    search = PrivateSearchCV(
        model, {"epsilon": [0.5, 1.0], "model__alpha": [0.0, 0.1]}, epsilon=4.0, n_iter=2, random_state=0
    )
    found = search.fit(X, y).privacy_guarantee_
    assert 1.0 < found.epsilon <= 4.0
    inside = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(ValueError, match="estimator must have no ledger of its own"):
        clone(search).set_params(estimator__ledger=inside).fit(X, y)
    assert not inside.entries()


@SIMULATED
def test_a_quote_is_the_price():
    X, y = visits(1000)
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    model = regressor(2.0).set_params(ledger=ledger)
    quoted = quote(model, X, y, ledger=ledger)
    model.fit(X, y)
    assert quoted.exact and quoted.spent == ledger.spent


@pytest.mark.slow
@SIMULATED
@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("additive", [False, True])
def test_one_unit_moves_each_draw_by_its_sensitivity_and_nothing_else(users, additive):
    X, y = visits(240, seed=1)
    ids = np.arange(len(X)) // 4 if users else None
    model = UserLevelSGDRegressor(random_state=0)
    model = make_additive_pipeline(model, n_knots=3) if additive else model

    def run(data):
        table, target = data
        fitted = make_private_pipeline(model, SCHEMA, epsilon=1.0).fit(table, target, user_ids=ids)
        return fitted["model"].coef_, fitted[:-1].transform(X)

    def changed(value, first):
        table, target = X.copy(), y.copy()
        rows = slice(4 * first, 4 * first + 4) if users else slice(first, first + 1)
        where = table.index[rows]
        table.loc[where, ["age", "weight"]] = value
        table.loc[where, "ward"] = "never seen before"
        table.loc[where, "day"] = pd.Timestamp("1900-02-03") if value == 0 else pd.NaT
        target[rows] = value
        return Neighbour(f"unit {first} has {value}", (table, target))

    numbers = (0.0, 1e9, -1e300)
    report = replay(run, (X, y), [changed(value, first) for value in numbers for first in (0, 7, 31)])
    report.raise_failures("a private pipeline")
    assert report.n_draws > 3 and max(report.worst.values()) <= 1.0


def _spent_nothing(model, X, y, error, match, **params):
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(error, match=match) as caught:
        model.set_params(ledger=ledger).fit(X, y, **params)
    assert not ledger.entries()
    assert SECRET not in str(caught.value) and "P17" not in str(caught.value)
    assert not hasattr(model["model"], "coef_")
    return str(caught.value)


@SIMULATED
@pytest.mark.parametrize("library", [lambda X: X, *OTHERS])
def test_what_a_fit_refuses_costs_nothing_and_quotes_nothing(library):
    frame, y = visits(1000)
    X = library(frame)
    # The type of pandas 2's texts is "object", which says nothing.
    said = "object" not in map(str, getattr(X, "dtypes", ()))
    texts = "; numbers for 'ward', 'name', of the type text.*€1,200" * said
    cases = [
        ({k: v for k, v in SCHEMA.items() if k != "name"}, ValueError, "what 'name' of X holds"),
        ({**SCHEMA, "agee": (0, 1)}, ValueError, "agee"),
        ({**SCHEMA, "ward": "number"}, TypeError, "'ward'"),
        ({**SCHEMA, "ward": "date"}, TypeError, "'ward'"),
        ({**SCHEMA, "age": "date"}, TypeError, "schema says dates for 'age', of the type number"),
        ({**SCHEMA, "day": (0, 9)}, TypeError, "schema says numbers for 'day', of the type"),
        (
            {**SCHEMA, "age": "date", "ward": (0, 9), "name": "number"},
            TypeError,
            f"schema says dates for 'age', of the type number{texts}",
        ),
        ({**SCHEMA, "age": ["a", "b"]}, TypeError, "age"),
        ({**SCHEMA, "ward": [1, 2, 3]}, TypeError, "ward"),
        (None, TypeError, "what 'ward', 'name' of X holds.*a list of values"),
    ]
    for columns, error, match in cases:
        _spent_nothing(regressor(1.0, columns), X, y, error, match)
    _spent_nothing(regressor(1.0), X, y[:5], ValueError, "inconsistent")
    _spent_nothing(regressor(1.0), X, np.where(y > 40, np.nan, y), ValueError, "NaN")
    _spent_nothing(regressor(-1.0), X, y, ValueError, "epsilon")
    _spent_nothing(regressor("a"), X, y, TypeError, "number for epsilon")
    _spent_nothing(regressor(1.0, adjacency="x"), X, y, ValueError, "adjacency")
    _spent_nothing(regressor(1.0), X, y, ValueError, "user_ids", user_ids=np.arange(3))


@SIMULATED
def test_names_that_could_be_positions_are_refused():
    X, y = visits(1000)
    X = X[["age", "weight"]].set_axis([1, 0], axis=1)
    _spent_nothing(regressor(1.0, {0: "number", 1: (0, 110)}), X, y, TypeError, "text for the names")


@SIMULATED
def test_frames_that_are_not_in_memory_are_refused_with_the_way_out():
    X, y = visits(1000)
    text = _spent_nothing(regressor(1.0), pl.from_pandas(X).lazy(), y, TypeError, "must be a table in memory")
    assert ".collect()" in text


@SIMULATED
def test_objects_that_are_no_numbers_are_not_shown():
    X, y = visits(1000)
    X["weight"] = X["weight"].astype(object)
    X.loc[17, "weight"] = SECRET
    _spent_nothing(regressor(1.0), X, y, TypeError, "'weight' of X must hold numbers or dates")


@SIMULATED
def test_a_ledger_that_ends_leaves_nothing_half_fitted():
    X, y = visits(1000)
    model = regressor(1.0).set_params(ledger=PrivacyLedger(epsilon=0.5, delta=1e-3)).set_params()
    with pytest.raises(BudgetExceededError):
        model.fit(X, y)
    assert not hasattr(model["model"], "coef_")


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        ({}, TypeError, "schema must map"),
        (["age"], TypeError, "schema must map"),
        (
            {"day": (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-12-31"))},
            ValueError,
            """schema must have "date" for 'day', got limits.*a list""",
        ),
        ({"age": (5, 1)}, ValueError, "low < high"),
        ({"age": (0, np.inf)}, ValueError, "finite"),
        ({"age": "numbers"}, ValueError, "'number', 'date', 'category', 'drop'"),
        ({"age": 3}, ValueError, "for 'age'"),
        ({"age": []}, ValueError, "for 'age'"),
    ],
)
def test_bad_schemas(columns, error, match):
    with pytest.raises(error, match=match):
        make_private_pipeline(UserLevelSGDRegressor(), columns)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (PrivateImputer(), "private classifier or regressor"),
        (UserLevelMean(), "private classifier or regressor"),
        (PolynomialFeatures(), "private classifier or regressor"),
        (make_additive_pipeline(UserLevelSGDRegressor(), columns=[0]), "without columns and bounds"),
        (make_additive_pipeline(UserLevelSGDRegressor(), bounds=([0], [1])), "without columns and bounds"),
    ],
)
def test_bad_models(model, match):
    with pytest.raises(TypeError, match=match):
        make_private_pipeline(model, SCHEMA)


_FAR = np.datetime64("20000-01-01")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (10**400, np.finfo(float).max),
        (-(10**400), -np.finfo(float).max),
        (Fraction(10**400), np.finfo(float).max),
        (Decimal("1e400"), np.finfo(float).max),
        (Decimal("sNaN"), np.nan),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), -730119.0),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))), 2921940.0),
        (_FAR, 6574365.0),
        (_FAR.astype("M8[s]"), 6574365.0),
        (np.datetime64("1678-01-01T00:00:00.000000001"), -117607.0),
        (np.datetime64(-(2**63) + 1, "s"), -(2**63) / 86400 - 10957),  # int64 would overflow
        (np.datetime64(-(2**62), "as"), -10957.0),
        (np.datetime64(2**40, "Y"), 2**40 * 365.2425 - 10957),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_entry_that_is_far_out_is_no_error(value, number):
    """An error or another unit of time would tell of the row."""
    column = np.array([[value], [None]], dtype=object)
    np.testing.assert_allclose(PublicNumbers().fit_transform(column), [[number], [np.nan]])
    assert np.isfinite(PublicCalendar().fit_transform(column)).all()
    column[1] = "a"
    np.testing.assert_array_equal(PublicOneHotEncoder([["a"]]).fit_transform(column), [[0.0, 1.0], [1.0, 0.0]])


def test_dates_of_years_that_python_does_not_have():
    days = pl.Series("day", [_FAR.astype(int), 10957, None]).cast(pl.Int32).cast(pl.Date)
    arrow = days.to_frame().to_arrow()
    tables = [arrow, arrow.cast(pa.schema([("day", pa.date64())]))]
    tables += [table.to_pandas(types_mapper=pd.ArrowDtype) for table in tables]
    for X in (days.to_frame(), days.cast(pl.Datetime("ms")).to_frame(), *tables):
        np.testing.assert_array_equal(PublicNumbers().fit_transform(X), [[6574365.0], [0.0], [np.nan]])


def test_no_place_in_the_year_without_a_day():
    np.testing.assert_array_equal(PublicCalendar().fit_transform(np.array([[np.inf], [-np.inf]])), 0.0)


@SIMULATED
@pytest.mark.parametrize("in_file", [False, True])
def test_a_ledger_that_pays_for_the_first_steps_alone_pays_nothing(tmp_path, in_file):
    X, y = visits(300)
    path = tmp_path / "study.ledger" if in_file else None
    terms = {"simulation": True, "composition": "basic", "unit": "user", "adjacency": "replace-one"}
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5, **terms)
    model = imputed(regressor(0.6)).set_params(ledger=ledger).fit(X, y, user_ids=np.arange(300))
    before, rows = len(ledger.entries()), model.predict(X)
    with pytest.raises(BudgetExceededError, match="Nothing was drawn or spent"):
        model.fit(X, y, user_ids=np.arange(300))
    assert len(ledger.entries()) == before == 2
    np.testing.assert_array_equal(model.predict(X), rows)
    with ledger.reserve(0.3, 1e-6) as part, pytest.raises(BudgetExceededError, match="the reservation"):
        clone(model).set_params(ledger=part, epsilon=0.32).fit(X, y, user_ids=np.arange(300))
    assert len(ledger.entries()) == before + 1 and ledger.entries()[-1].epsilon == 0.0
    with pytest.raises(ValueError, match="budget per user"):
        clone(model).set_params(ledger=ledger, epsilon=0.1).fit(X, y)
    assert len(ledger.entries()) == before + 1


@SIMULATED
def test_the_exact_budget_in_a_ledger_is_spent_or_refused_as_a_whole():
    X, y = visits(300)
    for epsilon, n_entries in ((0.001, 0), (0.7, 2)):
        ledger = PrivacyLedger(epsilon=epsilon, delta=1e-6)
        with suppress(BudgetExceededError):
            imputed(regressor(epsilon)).set_params(ledger=ledger).fit(X, y)
        assert len(ledger.entries()) == n_entries and ledger.spent[0] <= epsilon


@SIMULATED
def test_an_interrupted_fit_leaves_all_steps_of_the_fit_before(monkeypatch):
    X, y = visits(300)
    model = imputed(regressor(1.0)).fit(X, y)
    before, found = model.predict(X), guarantee_of(model)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("skprivate.preprocessing._private_pipeline._take_rest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X.assign(age=-X["age"]), y)
    np.testing.assert_array_equal(model.predict(X), before)
    assert guarantee_of(model) == found


@SIMULATED
@pytest.mark.parametrize("nested", [TransformedTargetRegressor, lambda model: PrivatePipeline([("m", model)])])
def test_a_last_step_that_has_no_budget_itself_is_refused(nested):
    """What is inside would spend its own budget, beside that of the whole."""
    X, y = visits(300)
    ledger = PrivacyLedger(epsilon=99.0, delta=1e-3)
    model = regressor(1.0).set_params(model=nested(UserLevelSGDRegressor(epsilon=50.0, ledger=ledger)), delta=1e-6)
    with pytest.raises(TypeError, match="must have epsilon itself"):
        model.fit(X, y)
    assert not ledger.entries()
    assert check_pipeline(model).epsilon >= 50.0


@pytest.mark.parametrize("simulation", [False, True])
def test_seeds_that_a_ledger_does_not_admit_cost_nothing(tmp_path, simulation):
    X, y = visits(300)
    terms = {"simulation": simulation, "unit": "row", "adjacency": "replace-one"}
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=9.0, delta=1e-3, **terms)
    model = regressor(1.0, random_state=None).set_params(ledger=ledger, model__random_state=0)
    imputed(model, PrivateImputer())
    with pytest.raises(SimulatedNoiseError):
        model.fit(X, y)
    assert not ledger.entries()


@SIMULATED
def test_columns_in_several_processes_are_charged_to_one_file(tmp_path):
    X, y = visits(300)
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=9.0, delta=1e-3, simulation=True)
    model = imputed(regressor(1.0)).set_params(columns__n_jobs=2)
    alone = clone(model).fit(X, y)
    assert guarantee_of(alone).epsilon <= 1.0
    model.set_params(ledger=ledger).fit(X, y)
    assert [entry.label for entry in ledger.entries()] == ["PrivateImputer", "UserLevelSGDRegressor"]


@SIMULATED
@pytest.mark.slow
def test_processes_that_a_caller_asks_for_are_those_of_the_fit(tmp_path):
    X, y = visits(300)
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=9.0, delta=1e-3, simulation=True)
    in_memory = PrivacyLedger(epsilon=9.0, delta=1e-3, simulation=True)  # which no other process has
    for each in (ledger, in_memory):
        with parallel_config(backend="loky", n_jobs=2):
            imputed(regressor(1.0)).set_params(ledger=each, columns__n_jobs=2).fit(X, y)
        assert len(each.entries()) == 2


class Staged(PrivateStandardScaler):
    """Scaler that calls a function before each fit which is to be paid for."""

    def fit(self, X, y=None, *, user_ids=None):
        if type(self.ledger) is PrivacyLedger:  # a rehearsal has a gate before it
            Staged.hook()
        return super().fit(X, y, user_ids=user_ids)

    def hook():
        """Do nothing."""


def scaled(epsilon=1.0, ledger=None, scaler=None):
    steps = [("scale", scaler or Staged(random_state=1)), ("model", UserLevelSGDRegressor(random_state=0))]
    return PrivatePipeline(steps, epsilon=epsilon, ledger=ledger)


def parameters(model):
    """Every parameter at any depth, with the class of those that are estimators."""
    return {
        name: type(value) if hasattr(value, "fit") else value
        for name, value in model.get_params().items()
        if not isinstance(value, list)
    }


def numbers(n=900):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, X[:, 0]


@SIMULATED
def test_two_threads_that_fit_one_pipeline_pay_for_every_draw(monkeypatch):
    """The second one begins its steps within those of the first, and draws after the end of the first."""
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, composition="basic", simulation=True)
    model = scaled(ledger=ledger)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def wait():
        if threading.current_thread().name == "first":
            first_is_in.set()
            assert second_is_in.wait(60)
        else:
            second_is_in.set()
            assert first_is_out.wait(60)

    def fit(after, then):
        assert after.wait(60)
        fitted.append(clone(model.fit(*numbers())))
        then.set()

    fitted, begin = [], threading.Event()
    begin.set()
    monkeypatch.setattr(Staged, "hook", wait)
    fits = [
        threading.Thread(target=fit, name="first", args=(begin, first_is_out)),
        threading.Thread(target=fit, name="second", args=(first_is_in, threading.Event())),
    ]
    for each in fits:
        each.start()
    for each in fits:
        each.join(120)
    assert len(fitted) == 2
    assert [entry.label for entry in ledger.entries()].count("Staged") == 2 == len(ledger.entries()) / 2
    assert model["scale"].privacy_guarantee_.ledger_entry and guarantee_of(model).epsilon <= 1.0


@SIMULATED
def test_a_hook_that_fits_the_same_pipeline_pays_for_every_draw(monkeypatch):
    X, y = numbers()
    model = scaled(ledger=PrivacyLedger(epsilon=9.0, delta=1e-3, composition="basic", simulation=True))

    def again():
        monkeypatch.setattr(Staged, "hook", lambda: None)
        model.set_params(epsilon=0.5).fit(2 * X, y)
        inside.append((guarantee_of(model), model["scale"].mean_))

    inside = []
    monkeypatch.setattr(Staged, "hook", again)
    model.fit(X, y)
    ((within, mean),) = inside
    assert within.epsilon <= 0.5 < guarantee_of(model).epsilon <= 1.0
    assert len(model.ledger.entries()) == 4 and not np.array_equal(mean, model["scale"].mean_)
    assert model.ledger.spent[0] <= 1.5


@SIMULATED
@pytest.mark.parametrize("fail", [None, "_rehearse", "_take_rest", "_tell_columns", "in a step", "in the model"])
def test_a_fit_changes_nobody_elses_object(monkeypatch, fail):
    """Another pipeline may have the same steps: it has its own fit and its own budget, whenever this one ends."""
    X, y = numbers()
    other = scaled(4.0, scaler=Staged(2.0, random_state=1))
    model = PrivatePipeline(list(other.steps), epsilon=0.5, ledger=PrivacyLedger(epsilon=9.0, delta=1e-3))
    given, states = parameters(model), [dict(vars(step)) for _, step in other.steps]
    steps = list(other.steps)

    def stop(*_, **__):
        raise KeyboardInterrupt

    if fail == "in a step":
        monkeypatch.setattr(Staged, "hook", stop)
    elif fail == "in the model":
        monkeypatch.setattr(UserLevelSGDRegressor, "_run", stop)
    elif fail:
        monkeypatch.setattr(f"skprivate.preprocessing._private_pipeline.{fail}", stop)
    with pytest.raises(KeyboardInterrupt) if fail else nullcontext():
        model.fit(X, y)
    monkeypatch.undo()
    assert parameters(model) == given
    assert [dict(vars(step)) for _, step in steps] == states
    before = guarantee_of(other.fit(X, y))
    found = other.predict(X)
    model.fit(X, y)
    assert parameters(model) == given
    assert guarantee_of(model).epsilon <= 0.5 and 3.0 < before.epsilon <= 4.0
    assert guarantee_of(other) == before
    np.testing.assert_array_equal(other.predict(X), found)


@SIMULATED
@pytest.mark.parametrize("prepared", [False, True])
def test_a_fit_leaves_every_parameter_as_it_was(prepared):
    X, y = visits(600)
    model = regressor(1.0)
    if not prepared:
        X = X[["age", "weight"]].fillna(70.0)
        model = make_additive_pipeline(UserLevelSGDRegressor(random_state=0), n_knots=5)
    given = parameters(model)
    assert parameters(model.fit(X, y)) == given and hasattr(model[-1], "coef_")
    assert parameters(model.fit(X, y)) == given
    assert not {"_whole", "_prepared_features"} & vars(model[-1]).keys()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_no_step_quotes_an_entry_in_whatever_process(n_jobs):
    """joblib raised another process's error as its own, with the words of scikit-learn."""
    encoder = OrdinalEncoder(categories=[["u", "v"]])
    columns = ColumnTransformer([("a", encoder, [0]), ("b", encoder, [1])], n_jobs=n_jobs)
    model = PrivatePipeline([("columns", columns), ("model", UserLevelSGDClassifier())])
    X = np.array([["u", "v"], [SECRET, "u"]] * 30)
    with pytest.raises(ValueError, match="unknown categories") as caught:
        model.fit(X, np.arange(60) % 2)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_no_warning_tells_of_a_row_with_which_a_step_cannot_calculate():
    X = np.linspace(1, 2, 120).reshape(60, 2)
    X[3, 1] = 0.0
    steps = [FunctionTransformer(np.log), FunctionTransformer(np.clip, kw_args={"a_min": -1.0, "a_max": 1.0})]
    model = PrivatePipeline([("before", make_pipeline(*steps)), ("model", UserLevelSGDClassifier())])
    model.fit(X, np.arange(60) % 2)
