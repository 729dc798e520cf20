"""What a schema says is read in one way, or refused by name before a row is read."""

import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.every import every
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from skprivate import (
    CuratedBagGAMClassifier,
    PrivacyLedger,
    PrivateTableSynthesizer,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    make_private_pipeline,
)
from skprivate._validation import read_schema
from skprivate.preprocessing import PublicOneHotEncoder
from skprivate.preprocessing._public_encoders import PublicCalendar

NUMBERS = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6),
    st.decimals(-1000, 1000, places=2),
    st.integers(-1000, 1000).map(np.int64),
    st.floats(-100, 100, width=32).map(np.float32),
)
NO_LIMIT = st.sampled_from([None, float("nan"), float("inf"), np.nan, pd.NA, Decimal("NaN"), Decimal("Infinity")])
#: Sequences as libraries hold them.
HOLDERS = [
    list,
    np.array,
    pd.Index,
    pd.Series,
    pl.Series,
    pa.array,
    lambda values: pa.chunked_array([values]),
    lambda values: pd.Series(values).unique(),
    lambda values: pd.Series(values).astype("category").cat.categories,
    lambda values: dict.fromkeys(values).keys(),
    lambda values: dict(enumerate(values)).values(),
]


def read(said):
    return read_schema({"a": said, "other": "number"})["a"]


@given(NUMBERS, NUMBERS)
def test_two_numbers_are_limits_in_a_tuple_and_an_error_elsewhere(low, high):
    if not float(low) < float(high):
        with pytest.raises(ValueError, match="^limits of column 'a' must be finite with low < high"):
            read((low, high))
        return
    expected = (float(low), float(high))
    assert read((low, high)) == read({"limits": [low, high]}) == read({"limits": np.array([low, high])}) == expected
    for hold in (list, np.array, lambda pair: dict.fromkeys(pair).keys()):
        with pytest.raises(ValueError, match="of 'a' are limits or values.*limits\": .*values\": "):
            read(hold([low, high]))
    assert read({"values": [low, high]}) == [low, high]


@given(NUMBERS, NO_LIMIT, st.booleans())
def test_what_is_no_limit_makes_no_categories_of_a_pair(number, other, swapped):
    pair = (other, number) if swapped else (number, other)
    with pytest.raises(ValueError, match="^limits of column 'a' must be (finite|a pair)"):
        read(pair)
    with pytest.raises(ValueError, match="^schema must say if"):
        read(list(pair))


def test_a_schema_survives_json_or_is_refused():
    schema = {
        "limits": (0, 9),
        "spelled": {"limits": [0, 9]},
        "values": {"values": [0, 1]},
        "flag": [False, True],
        "words": ["a", "b"],
        "three": [1, 2, 3],
        "day": "date",
        "other": "drop",
    }
    there = {name: json.loads(json.dumps(said)) for name, said in schema.items()}
    with pytest.raises(ValueError, match="of 'limits' are limits or values"):
        read_schema(there)
    del schema["limits"], there["limits"]
    assert read_schema(there) == read_schema(schema)


@pytest.mark.parametrize("hold", HOLDERS)
@every("values", [["p", "q"], [1, 2, 3], [0.5, 1.5, 2.5]])
def test_lists_of_values_are_taken_as_libraries_hold_them(hold, values):
    assert read(hold(values)) == values
    assert (
        PublicOneHotEncoder({"a": hold(values)})
        .fit(pd.DataFrame({"a": values}))
        .transform(pd.DataFrame({"a": values}))
        .tolist()
        == np.eye(len(values) + 1)[:-1].tolist()
    )


@pytest.mark.parametrize(
    "said",
    [{"p", "q"}, frozenset("pq"), {"p": 1, "q": 2}, [["p"], ["q"]], ["p", "p"], "pq", pd.DataFrame({"a": ["p"]}), 7],
)
def test_what_is_no_list_of_values_is_refused_at_construction(said):
    with pytest.raises(ValueError, match="must have limits .*for 'a'.*list") as caught:
        read(said)
    assert "p  " not in str(caught.value)
    if not isinstance(said, str | int):
        with pytest.raises(ValueError, match="categories of column a must"):
            PublicOneHotEncoder({"a": said}).fit(pd.DataFrame({"a": ["p"]}))


@every("entry", [("category", 50), ("number", 0, 1), ("p", "drop"), ("date",), {"category": 50}, {"date": None}])
def test_words_of_a_schema_stand_alone(entry):
    """A word beside a number is no list of two values; in a list it is a value that is called so."""
    with pytest.raises(ValueError, match=r"one of 'number', .*alone for 'a', got .*go in a list") as caught:
        read(entry)
    assert all(text in str(caught.value) for text in (repr(entry), "('category', 50)", "{'category': 50}"))
    assert read(list(entry)) == list(entry)


def model(columns=None, kind=UserLevelSGDClassifier, **options):
    options = {"classes": [0, 1], **options} if kind is not UserLevelSGDRegressor else options
    return make_private_pipeline(kind(random_state=0, **options), columns, epsilon=3.0)


def table(n=2000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    return X, (X["a"] > 0).astype(int)


SIMULATED = pytest.mark.filterwarnings("ignore::UserWarning")


@SIMULATED
def test_limits_of_any_number_type_are_the_same_limits():
    X, y = table()
    found = [
        model({"a": pair, "b": "number"}).fit(X, y)["model"].coef_
        for pair in ((-4, 4), (Decimal(-4), Decimal("4.0")), (np.float32(-4), np.int8(4)), {"limits": [-4, 4]})
    ]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def refused(columns, X, y, error, match, **options):
    """The message of a fit that is refused, before anything is charged."""
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-3)
    with pytest.raises(error, match=match) as caught:
        model(columns, **options).set_params(ledger=ledger).fit(X, y)
    assert not ledger.entries()
    return str(caught.value)


NO_TABLES = {
    "a column": lambda X: X["a"],
    "an array of one dimension": lambda X: X["a"].to_numpy(),
    "a cube": lambda X: np.zeros((len(X), 2, 2)),
    "a number": lambda X: np.array(12.34567),
    "a dict": lambda X: {"a": X["a"], "b": X["b"]},
    "records": lambda X: X.to_records(),
    "an index": lambda X: pd.Index(X["a"]),
    "a polars series": lambda X: pl.Series(X["a"]),
    "no columns": lambda X: X[[]],
    "an array without columns": lambda X: np.zeros((len(X), 0)),
    "names twice": lambda X: X.set_axis(["a", "a"], axis=1),
    "names twice in arrow": lambda X: pa.table([pa.array(X["a"])] * 2, names=["a", "a"]),
}


@SIMULATED
@pytest.mark.parametrize("kind", NO_TABLES)
@every("columns", [None, {"a": "number", "b": "number"}])
def test_what_is_no_table_is_refused_in_one_message_everywhere(kind, columns):
    X, y = table(50)
    X = NO_TABLES[kind](X)
    said = refused(columns, X, y, (TypeError, ValueError), "^X must (have|be) ")
    assert not any(digits in said for digits in ("12.3", "0.12"))
    for alone in (UserLevelSGDClassifier(), PublicOneHotEncoder([1, 2])):
        with pytest.raises((TypeError, ValueError)) as caught:
            alone.fit(X, y)
        assert str(caught.value) == said


@SIMULATED
def test_a_target_that_is_no_column_is_refused():
    X, _ = table(50)
    for y in ("b", {"b"}, 3.0):
        for kind in (UserLevelSGDClassifier, UserLevelSGDRegressor):
            said = refused(
                {"a": "number", "b": "number"}, X, y, TypeError, "^y must hold one .* for each row", kind=kind
            )
            assert "3" not in said


def test_nothing_left_is_refused_at_construction():
    with pytest.raises(ValueError, match="^schema must leave"):
        model({"a": "drop", "b": "drop"})


@SIMULATED
def test_errors_of_a_schema_say_both_halves_and_what_helps():
    X, y = table(200)
    said = refused({"Age": "number", "b": "number"}, X.set_axis(["Age ", "b"], axis=1), y, ValueError, "^schema must ")
    assert "'Age '" in said and "'Age'" in said
    said = refused({"0": "number", 1: "number"}, X.to_numpy(), y, ValueError, "^schema must ")
    assert "what 0 of X" in said and "no '0'" in said
    waits = X.assign(wait=pd.to_timedelta(X["a"].abs(), unit="h"))
    said = refused({"a": "number", "b": "number", "wait": "number"}, waits, y, TypeError, "of the type durations")
    assert "total_seconds" in said
    X.loc[5, "b"] = np.inf
    for kind in (UserLevelSGDClassifier, CuratedBagGAMClassifier):
        for columns in (None, {"a": "number", "b": (0, 1)}):
            refused(columns, X, y, ValueError, "^Input X contains infinity in column 'b'", kind=kind)
    y = y.astype(float).where(X.index != 3)
    refused(None, X[["a"]], y, ValueError, "^y has missing labels or numbers", kind=UserLevelSGDRegressor)


@SIMULATED
@pytest.mark.parametrize(
    ("schema", "make"),
    [
        ({"sex": ["f", "m"], "sex_f": (-1, 1)}, lambda n: {"sex": ["f", "m"] * n, "sex_f": [0.5, 1] * n}),
        (
            {"at": "date", "at_day_sin": "number"},
            lambda n: {"at": pd.Timestamp(2020, 1, 1), "at_day_sin": [0.5, 1] * n},
        ),
        ({"w": "category", "w_x": "number"}, lambda n: {"w": ["x", "y"] * n, "w_x": [0.5, 1] * n}),
        ({"w": "category", "w_0": "number"}, lambda n: {"w": ["x", "y"] * n, "w_0": [0.5, 1] * n}),
        (
            {"w": "category", "w_x": "category"},
            lambda n: {"w": pd.Categorical(["x_y", "y"] * n), "w_x": ["y", "z"] * n},
        ),
        ({"g": ["x", "rest"], "b": "number"}, lambda n: {"g": ["x", "rest"] * n, "b": [0.5, 1] * n}),
    ],
)
def test_features_have_different_names(schema, make):
    X = pd.DataFrame(make(1000))
    fitted = model(schema).set_output(transform="pandas").fit(X, [0, 1] * 1000)
    names = list(fitted[:-1].get_feature_names_out())
    assert len(set(names)) == len(names) == fitted["model"].coef_.size
    assert list(fitted[:-1].transform(X).columns) == names


def test_a_time_has_a_place_in_the_day_and_midnight_none():
    hours = pd.date_range("2024-03-01", periods=48, freq="30min")
    found = PublicCalendar().fit_transform(pd.DataFrame({"t": hours}))[:, 4:]
    turn = 2 * np.pi * np.arange(48) / 48
    np.testing.assert_allclose(found, np.column_stack([np.sin(turn), np.cos(turn) - 1]), atol=1e-12)
    days = pl.DataFrame({"t": hours.date})
    assert not PublicCalendar().fit_transform(days)[:, 4:].any()
    assert not PublicCalendar().fit_transform(pd.DataFrame({"t": [pd.NaT, pd.NaT]})).any()


@SIMULATED
def test_the_hour_is_learnt_and_the_report_says_what_a_date_becomes():
    rng = np.random.default_rng(0)
    minutes = rng.integers(0, 1440, 4000)
    X = pd.DataFrame({"t": pd.Timestamp("2024-01-01") + pd.to_timedelta(minutes, unit="min")})
    y = np.cos(2 * np.pi * minutes / 1440)
    fitted = model({"t": "date"}, kind=UserLevelSGDRegressor).fit(X, y)
    assert fitted.score(X, y) > 0.9
    assert "places in the week, the year and the day" in str(check_pipeline(fitted))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_warnings_say_nothing_about_narrow_types(frame):
    """Public numbers that a type cannot hold are found nowhere, without a word about rows."""
    X = frame({"a": np.array([0.1, 2.0, np.nan], np.float32)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes = PublicOneHotEncoder({"a": [0.1, 1e300, 10**400]}).fit_transform(X)
    assert codes.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_the_columns_left_out_do_not_show_the_whole_schema():
    values = [f"listed {k}" for k in range(500)]
    model = make_private_pipeline(UserLevelSGDRegressor(), schema={"text": values, "dose": (0, 1), "name": "drop"})
    assert model._repr_html_().count("listed 499") <= 1
    assert "listed" not in repr(model.steps[0][1].transformers[0]) and "_Others(['name'])" in repr(model)


@pytest.mark.filterwarnings("ignore")
def test_user_ids_may_be_the_name_of_a_column():
    X = pd.DataFrame({"a": np.linspace(0, 1, 60), "person": np.arange(60) // 2})
    fitted = model({"a": (0, 1), "person": "drop"}, UserLevelSGDRegressor)
    by_name = clone(fitted).fit(X, X["a"], user_ids="person")
    assert (by_name.predict(X) == fitted.fit(X, X["a"], user_ids=X["person"]).predict(X)).all()
    assert by_name[-1].privacy_guarantee_.unit == "user"
    with pytest.raises(ValueError, match="user_ids must be identifiers, or the name of a column of X, got 'name'"):
        fitted.fit(X, X["a"], user_ids="name")
    with pytest.raises(TypeError, match=r"Pass the column itself: X\['name'\]"):
        UserLevelSGDRegressor().fit(X, X["a"], user_ids="person")


TYPED = pd.DataFrame(
    {
        "a": [0.5, 1.5],
        "w": ["p", "q"],
        "d": pd.to_datetime(["2020-01-01", "2021-01-01"]),
        "b": [True, False],
        "c": pd.Categorical(["p", "q"]),
    }
)
DAYS = (pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01"))
ENTRIES = [
    *("number", "date", "category", "drop", "text", "", None, 7, {}, {"p", "q"}, DAYS, ["p", "p"], [], (0, 9), (9, 0)),
    *((0, None), [0, 9], {"limits": [0, 9]}, {"limits": (0, None)}, {"limit": [0, 9]}),
]
#: Values of the column's own kind: others are refused where they are looked for.
VALUES = {"a": [{"values": [0]}, [1, 2, 3]], "w": [("p", "q"), ["p"]], "b": [[False, True]], "c": [("p", "q")], "d": []}


def outcome(read):
    try:
        read()
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return None


def read_by_both(schema):
    def read_by_pipeline():
        columns = make_private_pipeline(UserLevelSGDRegressor(), schema).named_steps["columns"]
        columns.transformers[0][2](TYPED)

    return outcome(lambda: PrivateTableSynthesizer(schema=schema).plan(TYPED)), outcome(read_by_pipeline)


@pytest.mark.parametrize("name", TYPED)
def test_pipelines_and_synthesizers_read_one_schema(name):
    """Whatever is accepted by one is by the other, or both refuse it in the same words."""
    fine = {"a": "number", "w": "category", "d": "date", "b": "category", "c": "category"}
    found = {str(entry): read_by_both({**fine, name: entry}) for entry in ENTRIES + VALUES[name]}
    assert not {entry: both for entry, both in found.items() if both[0] != both[1]}
    assert {refused is None for refused, _ in found.values()} == {True, False}
    for schema in ({**fine, "q": "number"}, dict.fromkeys(TYPED, "drop")):
        refused, also = read_by_both(schema)
        assert refused == also is not None
