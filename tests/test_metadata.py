"""Metadata of rows: by keyword only, and in the order of the rows."""

from __future__ import annotations

import inspect
import io
import pickle
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.every import every
from helpers.pairwise import pairwise
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_common import ESTIMATORS

from skprivate import (
    CuratedBagGAMClassifier,
    UserLevelSGDRegressor,
    make_curated_bags,
    make_private_pipeline,
    make_random_bags,
)
from skprivate.inspection import quote, to_release
from skprivate.model_selection import PrivateSearchCV, UserKFold, fit_folds
from skprivate.preprocessing import PrivatePipeline, PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.user_level import UserLevelQueries
from skprivate.utils.estimator_checks import default_data

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*[Ss]imulat"),
    pytest.mark.filterwarnings("ignore:private_label is None:UserWarning"),
]
N = 60
#: Arguments of ``fit`` that have one entry a row.
METADATA = ("user_ids", "private", "row_keys")
TAKERS = [
    pytest.param(estimator, name, id=f"{type(estimator).__name__}-{name}")
    for estimator in ESTIMATORS
    for name in METADATA
    if name in inspect.signature(estimator.fit).parameters
]
#: Other public functions and methods that take users.
FUNCTIONS = [fit_folds, UserKFold.split, UserKFold.partition, UserKFold.get_n_splits, UserLevelQueries]


def frame(index=None):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, 3))
    X = pd.DataFrame(rows, columns=["a", "b", "c"], index=index)
    return X, pd.Series(rows[:, 0], index=index), pd.Series(np.arange(N) // 3, index=index)


#: Index of X, and one of another order or of other labels.
INDICES = {
    "reversed": (None, np.arange(N)[::-1]),
    "shifted": (None, np.arange(N) + 1),
    "reset": (np.arange(N)[::-1], np.arange(N)),
    "one label": (None, np.r_[np.arange(N - 1), -1]),
    "dates": (pd.date_range("2020", periods=N), pd.date_range("2021", periods=N)),
    "time zone": (pd.date_range("2020", periods=N, tz="UTC"), pd.date_range("2020", periods=N)),
    "text": ([f"row {i}" for i in range(N)], [f"row {N - 1 - i}" for i in range(N)]),
    "levels": (
        pd.MultiIndex.from_arrays([np.arange(N) // 2, np.arange(N) % 2]),
        pd.MultiIndex.from_arrays([np.arange(N) % 2, np.arange(N) // 2]),
    ),
    "duplicates": (np.arange(N) // 2, np.arange(N) // 2 + 1),
}


@every(("estimator", "name"), [case.values for case in TAKERS])
def test_metadata_of_fit_have_names(estimator, name):
    ledger = PrivacyLedger(epsilon=100.0, delta=0.1)
    model = clone(estimator).set_params(ledger=ledger, random_state=0)
    data = default_data(model, public_generator(0), N)
    assert inspect.signature(model.fit).parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match="positional argument"):
        model.fit(data.X, data.y, np.ones(N, dtype=int))
    assert not ledger.entries()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__qualname__)
def test_metadata_of_other_functions_have_names(function):
    assert inspect.signature(function).parameters["user_ids"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(("estimator", "name"), TAKERS)
@every("other", ["reversed", "shifted"])
def test_metadata_of_another_index_are_refused_before_a_charge(estimator, name, other):
    ledger = PrivacyLedger(epsilon=100.0, delta=0.1)
    model = clone(estimator).set_params(ledger=ledger, random_state=0)
    data = default_data(model, public_generator(0), N)
    X = pd.DataFrame(data.X)
    values = data.metadata[name] if name in data.metadata else np.arange(N)
    values = pd.Series(np.asarray(values), index=INDICES[other][1])
    with pytest.raises(ValueError, match=rf"{name} and X must have the same index.*{name}\.to_numpy\(\)"):
        model.fit(X, data.y, **{name: values})
    assert not ledger.entries()


#: Arguments of any function of rows that have one entry a row.
PER_ROW = ("y", "groups", "labels", "membership", "sample_weight", *METADATA)
#: `UserKFold.get_n_splits` and `UserKFold.partition` read none of them, or names of columns.
_NOT_OF_ROWS = ("get_n_splits", "partition")


def _functions_of_rows():
    """List public functions and methods that take X beside something with one entry a row."""
    kinds = [*map(type, ESTIMATORS), UserKFold, PrivatePipeline]
    named = {(kind, name) for kind in kinds for name in dir(kind) if not name.startswith(("_", "set_"))}
    found = {
        (getattr(kind, name), kind, name, argument)
        for kind, name in named
        if name not in _NOT_OF_ROWS and callable(getattr(kind, name, None))
        for argument, parameter in inspect.signature(getattr(kind, name)).parameters.items()
        if argument in PER_ROW and "X" in inspect.signature(getattr(kind, name)).parameters
    }
    of_pipeline = ["model__user_ids", "columns__private", "user_ids", "private"]
    found |= {(PrivatePipeline.fit, PrivatePipeline, "fit", argument) for argument in of_pipeline}
    found |= {(each, None, "", argument) for each in (quote, fit_folds) for argument in ("y", "user_ids")}
    found |= {(UserLevelQueries, None, "", "user_ids")}
    found |= {(each, None, "", "y") for each in (make_curated_bags, make_random_bags)}
    cases = {}
    for function, kind, name, argument in found:  # what several classes inherit, once
        cases.setdefault((function.__qualname__, argument), (kind, name or function.__name__, argument, function))
    return [case for _, case in sorted(cases.items())]


@every(("kind", "name", "argument", "function"), _functions_of_rows())
def test_every_function_of_rows_refuses_what_is_in_another_order(kind, name, argument, function):
    """Before anything else: also where the object is not fitted, or other arguments are missing or wrong."""
    X, y, users = frame()
    given = {"X": X, "y": y, argument: users[::-1]}
    if kind is PrivatePipeline:
        bound = getattr(PrivatePipeline([("columns", PublicScaler()), ("model", _Everything())], epsilon=1.0), name)
    elif kind is not None:
        bound = getattr(next((each for each in ESTIMATORS if type(each) is kind), UserKFold(2)), name)
    else:
        bound = function
    parameters = inspect.signature(bound).parameters
    public = {"model": None, "estimator": PublicScaler(), "ledger": PrivacyLedger(epsilon=1.0), "constants": None}
    public |= {"n_queries": 1, "bag_size": 4, "user_ids": users, "membership": y}
    needed = {
        key for key, each in parameters.items() if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    arguments = {**{key: public[key] for key in needed & public.keys()}, **given}
    if "y" not in parameters and argument != "y":
        del arguments["y"]
    with pytest.raises(ValueError, match=rf"{argument} and [Xy] must have the same index"):
        found = bound(**arguments)
        next(found)  # of a generator


class _Everything(UserLevelSGDRegressor):
    """A last step of a pipeline that has every method which a pipeline may have."""

    def transform(self, X):
        return X

    def fit_predict(self, X, y=None):
        return y


@pytest.mark.parametrize("columns", [None, {"a": "number", "b": (-4, 4), "c": "number"}])
def test_a_pipeline_with_one_budget_keeps_rows_together(columns):
    """Its columns become arrays on the way, so that no step can see the order any more."""
    X, y, users = frame()
    ledger = PrivacyLedger(epsilon=100.0, delta=0.1, simulation=True)
    model = make_private_pipeline(UserLevelSGDRegressor(random_state=0), columns, epsilon=1.0, ledger=ledger)
    for given in ({"user_ids": users[::-1]}, {"model__user_ids": users[::-1], "columns__user_ids": users}):
        with pytest.raises(ValueError, match=r"user_ids and X must have the same index"):
            model.fit(X, y.to_numpy(), **given)
    with pytest.raises(ValueError, match="y and X must have the same index"):
        model.fit(X, y[::-1])
    assert not ledger.entries()
    found = model.fit(X, y, user_ids=users)["model"].coef_
    order = np.random.default_rng(1).permutation(N)
    again = model.fit(X.iloc[order], y.iloc[order], user_ids=users.iloc[order])["model"].coef_
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("index", INDICES)
def test_kinds_of_indices(index):
    own, other = INDICES[index]
    X, y, users = frame(own)
    model = UserLevelSGDRegressor(random_state=0)
    expected = model.fit(X, y, user_ids=users).coef_
    users.index = other
    for call in (
        lambda: model.fit(X, y, user_ids=users),
        lambda: next(UserKFold(2).split(X, y, groups=users)),
        lambda: next(UserKFold(2).split(X, y, user_ids=users)),
        lambda: UserLevelQueries(X, user_ids=users, n_queries=1),
        lambda: fit_folds(model, X, y, user_ids=users, ledger=PrivacyLedger(epsilon=1.0), cv=UserKFold(2)),
        lambda: PrivateSearchCV(model, {"alpha": [0.1]}, n_iter=1).fit(X, y, user_ids=users),
    ):
        with pytest.raises(ValueError, match="X must have the same index where both are pandas objects"):
            call()
    for values in (users.to_numpy(), users.to_list(), users.array, pl.Series(users.to_numpy()), pa.array(users)):
        np.testing.assert_array_equal(model.fit(X, y, user_ids=values).coef_, expected)


def test_targets_and_metadata_in_another_order_are_refused():
    X, y, users = frame()
    model = UserLevelSGDRegressor(random_state=0)
    with pytest.raises(ValueError, match=r"y and X must have the same index.*y\.loc\[X\.index\]"):
        model.fit(X, y[::-1], user_ids=users.to_numpy())
    with pytest.raises(ValueError, match="user_ids and y must have the same index"):
        model.fit(X.to_numpy(), y, user_ids=users[::-1])  # as behind a step that returns arrays
    with pytest.raises(ValueError, match="user_ids and y must have the same index"):
        make_pipeline(PublicScaler(), model).fit(X, y, userlevelsgdregressor__user_ids=users[::-1])
    labels = pd.Series(np.arange(N) % 2)
    for make in (lambda X, y: make_curated_bags(X, y, "singles"), lambda X, y: make_random_bags(X, y, 4)):
        make(X, labels)
        with pytest.raises(ValueError, match="y and X must have the same index"):
            make(X, labels[::-1])
    with pytest.raises(ValueError, match="y and X must have the same index"):
        CuratedBagGAMClassifier(None).fit(X, labels[::-1])


def test_targets_that_share_some_labels_are_refused_before_the_first_fold():
    """A search cuts X and y into parts by position: their labels then agree in part."""
    X, y, _ = frame()
    shuffled = y.sample(frac=1.0, random_state=0)
    model = UserLevelSGDRegressor(random_state=0)
    with pytest.raises(ValueError, match="y and X must have the same index"):
        model.fit(X[10:50], shuffled[10:50])
    model.fit(X[10:50].reset_index(drop=True), y[10:50])  # a step has made a new frame


def test_the_message_shows_no_label():
    X, y, users = frame([f"patient {i}" for i in range(N)])
    with pytest.raises(ValueError) as caught:
        UserLevelSGDRegressor().fit(X, y, user_ids=users[::-1])
    assert "patient" not in str(caught.value)


COMPOSITES = {
    "new frame": lambda model: (make_pipeline(FunctionTransformer(lambda X: pd.DataFrame(np.array(X))), model), False),
    "pandas output": lambda model: (make_pipeline(PublicScaler().set_output(transform="pandas"), model), True),
    "columns": lambda model: (
        make_pipeline(ColumnTransformer([("s", PublicScaler(), ["a", "b"])]).set_output(transform="pandas"), model),
        True,
    ),
    "target": lambda model: (TransformedTargetRegressor(model, transformer=PublicScaler(scale=2.0)), True),
    "search": lambda model: (GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=UserKFold(2)), True),
    "voting": lambda model: (VotingRegressor([("m", model), ("n", clone(model))]), True),
    "stacking": lambda model: (StackingRegressor([("m", model)], LinearRegression(), cv=2), False),
}


@pytest.mark.parametrize(
    ("composite", "output", "first"),
    pairwise(
        case
        for case in product(COMPOSITES, ["default", "pandas"], [0, 5])
        if case[0] != "new frame" or case[2]  # 0 are the same labels in another order, by a step of one's own
    ),
)
def test_what_composites_hand_on_is_taken(composite, output, first):
    X, y, users = frame(np.random.default_rng(1).permutation(N) + first)
    with config_context(enable_metadata_routing=True, transform_output=output):
        model, named = COMPOSITES[composite](UserLevelSGDRegressor(random_state=0))
        model.fit(X, y, **({"user_ids": users} if named else {}))
    assert len(model.predict(X)) == N


def test_cross_validation_hands_on_pandas_objects():
    X, y, users = frame(np.arange(N)[::-1])
    model = make_pipeline(PrivateStandardScaler(random_state=0), UserLevelSGDRegressor(random_state=0))
    with config_context(enable_metadata_routing=True):
        result = cross_validate(model, X, y, cv=UserKFold(2), params={"user_ids": users}, error_score="raise")
        plain = cross_validate(model, X, y, cv=UserKFold(2), params={"user_ids": users.to_numpy()}, error_score="raise")
        cross_val_predict(model, X, y, cv=UserKFold(2), params={"user_ids": users})
    np.testing.assert_array_equal(result["test_score"], plain["test_score"])


# Versions -----------------------------------------------------------------------------------------------------------


def version_of_pickle(monkeypatch, thing, version):
    import skprivate

    with monkeypatch.context() as patch:
        patch.setattr(skprivate, "__version__", version)
        return pickle.dumps(thing)


@pytest.mark.filterwarnings("ignore::skprivate.privacy.OtherVersionWarning")  # of its parts
@pytest.mark.parametrize(
    "estimator",
    [one for one in ESTIMATORS if hasattr(one, "releases_in") or type(one).__name__.startswith("Public")],
    ids=lambda e: type(e).__name__,
)
def test_pickles_of_another_version_warn(estimator, monkeypatch):
    from skprivate.privacy import OtherVersionWarning

    model = clone(estimator)
    same = pickle.loads(pickle.dumps(model))
    assert vars(same).keys() == vars(model).keys()
    for version in ("0.0.1", "99.0"):
        data = version_of_pickle(monkeypatch, model, version)
        with pytest.warns(OtherVersionWarning, match=rf"{type(model).__name__} was pickled by skprivate {version}"):
            pickle.loads(data)


@pytest.mark.filterwarnings("ignore::skprivate.privacy.OtherVersionWarning")
def test_what_models_hold_has_a_version_too(monkeypatch):
    from skprivate.metric import MetricPrivateSynthesizer
    from skprivate.privacy import OtherVersionWarning

    X, y, _ = frame()
    labels = (y > 0).astype(int)
    fitted = MetricPrivateSynthesizer(random_state=0, bounds=(-4, 4)).fit(X)
    for thing in (
        fitted.privacy_guarantee_,
        fitted.measure_,
        make_curated_bags(X, labels, "singles"),
        make_random_bags(X, labels, 4),
    ):
        assert repr(pickle.loads(pickle.dumps(thing))) == repr(thing)
        with pytest.warns(OtherVersionWarning, match=f"{type(thing).__name__} was pickled by skprivate 99.0"):
            pickle.loads(version_of_pickle(monkeypatch, thing, "99.0"))


def test_a_pickle_without_a_version_is_an_old_one():
    from skprivate.privacy import OtherVersionWarning

    model = PublicScaler()
    with pytest.warns(OtherVersionWarning, match="by skprivate .unknown version. and"):
        model.__setstate__({"center": 1.0})
    assert model.center == 1.0


def test_other_formats_are_told_of_to_release(tmp_path):
    X, y, _ = frame()
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=5.0, delta=1e-4, unit="row")
    model = UserLevelSGDRegressor(ledger=ledger).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).ledger == ledger
    with pytest.raises(TypeError, match=r"save\s+skprivate.inspection.to_release\(model\)"):
        ledger.__getstate__()
    sio = pytest.importorskip("skops.io")
    with pytest.raises(TypeError, match="to_release"):
        sio.dumps(model)
    file = io.BytesIO()
    sio.dump(to_release(model), file)
    data = file.getvalue()
    found = sio.loads(data, trusted=sio.get_untrusted_types(data=data))
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert found.privacy_guarantee_ == model.privacy_guarantee_


# Predictions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [e for e in ESTIMATORS if hasattr(e, "releases_in") and hasattr(type(e), "predict_proba")],
    ids=lambda e: type(e).__name__,
)
def test_logarithms_of_probabilities(estimator):
    model = clone(estimator).set_params(random_state=0)
    if type(model).__name__ == "PPMHalfspaceClassifier":
        assert not hasattr(model, "predict_log_proba")  # as it has no probabilities
        model.set_params(calibration_fraction=0.3)
    if type(model).__name__ in ("PrivateSearchCV", "UserLevelSelector") and not hasattr(model, "predict_proba"):
        pytest.skip("its candidates have no probabilities")
    data = default_data(model, public_generator(0), N)
    model.fit(data.X, data.y, **data.metadata)
    with np.errstate(divide="ignore"):
        expected = np.log(model.predict_proba(data.X))
    np.testing.assert_array_equal(model.predict_log_proba(data.X), expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "inverse_transform")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_inverse_transform_takes_what_transform_gives(estimator, output):
    model = clone(estimator)
    X, _, _ = frame()
    if hasattr(model, "random_state"):
        with pytest.warns(UserWarning, match="simulated"):
            model.set_params(random_state=0, epsilon=50.0).fit(X)
    else:
        model.fit(X)
    rows = model.transform(X) if output == "default" else model.set_output(transform=output).transform(X)
    expected = model.inverse_transform(np.asarray(rows))
    np.testing.assert_array_equal(np.asarray(model.inverse_transform(rows)), np.asarray(expected))
    if type(model).__name__ in ("PublicScaler", "PrivateStandardScaler", "PrivateQuantileTransformer"):
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3 features"):
            model.inverse_transform(np.zeros((4, 2)))
        with pytest.raises(ValueError, match="contains infinity"):
            model.inverse_transform(np.full((4, 3), np.inf))
        assert np.isnan(model.inverse_transform(np.full((4, 3), np.nan))).all()
