"""Synthetic rows come back in the kind of table that was given, and no type tells of the rows."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric._tables import schema_of
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

BOUNDS = {"age": (0, 120), "dose": (0.0, 1.0), "old": (0, 1)}


def people(n=600):
    rng = public_generator(0)
    age = rng.integers(20, 90, n)
    return {"age": age, "dose": rng.beta(2, 5, n), "old": age > 60}


def sampled(X, bounds=BOUNDS, n=400, **keywords):
    model = MetricPrivateSynthesizer(20.0, bounds=bounds, random_state=0, **keywords).fit(X)
    return pickle.loads(pickle.dumps(model)).sample(n, random_state=1)


@pytest.mark.parametrize(
    "types",
    [
        {"age": "int64", "dose": "float64", "old": "bool"},
        {"age": "uint8", "dose": "float32", "old": "boolean"},
        {"age": "Int16", "dose": "Float32", "old": "int8"},
        {"age": "int32[pyarrow]", "dose": "double[pyarrow]", "old": "bool[pyarrow]"},
    ],
)
def test_pandas(types):
    frame = pd.DataFrame(people()).astype(types)
    drawn = sampled(frame)
    assert list(drawn.columns) == list(frame.columns)
    assert drawn.dtypes.tolist() == frame.dtypes.tolist()
    assert drawn.index.equals(pd.RangeIndex(400))
    assert set(drawn["old"].astype(int)) == {0, 1}
    assert drawn["age"].astype(float).between(0, 120).all() and drawn["age"].nunique() > 20
    older = drawn["age"].astype(float) > 60
    assert (older == drawn["old"].astype(bool)).mean() > 0.7


@pytest.mark.parametrize("types", [{}, {"age": pl.UInt8, "dose": pl.Float32, "old": pl.Int8}])
def test_polars(types):
    frame = pl.DataFrame(people()).cast(types)
    drawn = sampled(frame)
    assert isinstance(drawn, pl.DataFrame) and drawn.schema == frame.schema and drawn.height == 400
    assert drawn["age"].min() >= 0 and drawn["age"].n_unique() > 20


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "int64", "bool"])
def test_arrays(dtype):
    X = np.column_stack(list(people().values())).astype(dtype)
    drawn = sampled(X, bounds=(np.zeros(3), np.array([120, 1, 1])))
    assert type(drawn) is np.ndarray and drawn.dtype == X.dtype and drawn.shape == (400, 3)


def test_lists_come_back_as_an_array():
    assert sampled([[0.1], [0.2]], bounds=(0, 1)).dtype == np.float64


def test_integers_are_rounded_into_their_type():
    X = np.array([[0], [255]] * 50, dtype=np.uint8)
    drawn = sampled(X, bounds=(-1000, 1000))
    assert drawn.dtype == np.uint8 and set(np.unique(drawn)) >= {0, 255}
    big = np.array([[-(2**63)], [2**63 - 1]] * 50)
    assert sampled(big, bounds=(-1e19, 1e19)).max() > 2**62


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_categories_come_back_in_their_type_without_what_was_seen(library):
    colours = ["red", "green", "blue"]
    seen = public_generator(0).choice(["red", "green"], 600)
    bounds = {key: BOUNDS[key] for key in ("age", "dose")}
    frame = pd.DataFrame({**people(), "old": seen})
    if library == "pandas":
        frame["old"] = frame["old"].astype("category")
        drawn = sampled(frame, bounds, categories={"old": colours})
        # Not the two values that the rows happen to have.
        assert drawn["old"].cat.categories.tolist() == colours and not drawn["old"].cat.ordered
        assert drawn.dtypes[["age", "dose"]].equals(frame.dtypes[["age", "dose"]])
        ordered = frame.assign(old=frame["old"].cat.as_ordered())
        assert sampled(ordered, bounds, categories={"old": colours})["old"].cat.ordered
        strings = sampled(frame.astype({"old": "string"}), bounds, categories={"old": colours})
        assert strings["old"].dtype == "string"
    else:
        for given, expected in (
            (pl.String, pl.String),
            (pl.Enum(["red", "green"]), pl.Enum(colours)),
            (pl.Categorical, pl.Categorical),
        ):
            table = pl.from_pandas(frame).cast({"old": given})
            drawn = sampled(table, bounds, categories={"old": colours})
            assert drawn.schema["old"] == expected and drawn.schema["age"] == table.schema["age"]
            assert set(drawn["old"].cast(pl.String)) <= set(colours)


def test_categories_in_arrays():
    X = np.column_stack([people()["age"], people()["old"]])
    drawn = sampled(X, bounds=(0, 120), categories={1: [0, 1]})
    assert drawn.dtype == X.dtype and set(drawn[:, 1]) == {0, 1}
    text = sampled(X.astype(str), bounds=(0, 120), categories={1: ["0", "1", "much longer"]})
    assert text.dtype == object and isinstance(text[0, 0], float)


def test_the_schema_knows_no_values():
    for frame in (
        pd.DataFrame({"a": pd.Categorical(["secret"]), "b": [1.0]}),
        pl.DataFrame({"a": pl.Series(["secret"], dtype=pl.Enum(["secret"])), "b": [1.0]}),
        np.array([["secret", "b"]]),
    ):
        assert b"secret" not in pickle.dumps(schema_of(frame))


MESSAGES = [
    ({"age": [1.0, np.nan], "dose": [1.0, 2.0]}, {}, ValueError, "NaN in column 'age'"),
    ({"age": [1.0, 2.0], "dose": [np.inf, 2.0]}, {}, ValueError, "infinity in column 'dose'"),
    (
        {"age": [1.0, 2.0], "dose": ["high", "low"]},
        {},
        ValueError,
        "column 'dose' of X must hold numbers, got str",
    ),
    (
        {"age": ["a", None], "dose": [1.0, 2.0]},
        {"age": ["a"]},
        ValueError,
        r"column 'age' .* missing or not among cat",
    ),
    (
        {"age": ["a", "high"], "dose": [1.0, 2.0]},
        {"age": ["a"]},
        ValueError,
        r"column 'age' .* among categories\['age'",
    ),
    ({"age": ["a", "a"], "dose": [1.0, np.nan]}, {"age": ["a"]}, ValueError, "NaN in column 'dose'"),
    (
        {"age": ["a", "a"], "dose": [1.0, "high"]},
        {"age": ["a"]},
        ValueError,
        "column 'dose' of X holds values",
    ),
    (
        {"age": ["a", "a"], "dose": [1.0, 2.0]},
        {"wrong": ["a"]},
        ValueError,
        "'wrong'.* the columns are 'age', 'dose'",
    ),
]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(("columns", "categories", "error", "message"), MESSAGES)
def test_messages_name_the_column(library, columns, categories, error, message):
    if library == "polars" and columns["dose"] == [1.0, "high"]:
        pytest.skip("a polars column has one type")
    frame = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    ledger = PrivacyLedger(epsilon=1.0, unit="row")
    model = MetricPrivateSynthesizer(bounds=(0, 1), categories=categories or None, ledger=ledger)
    with pytest.raises(error, match=message) as caught:
        model.fit(frame)
    assert "high" not in str(caught.value).replace("low < high", "")
    assert not ledger.entries() and not hasattr(model, "measure_")


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
def test_dates_are_refused_by_name(library):
    days = pd.date_range("2020-01-01", periods=4)
    frame = pd.DataFrame({"dose": [0.1, 0.2, 0.3, 0.4], "day": days})
    X = {"pandas": frame, "polars": pl.from_pandas(frame), "numpy": days.to_numpy()[:, None]}[library]
    where = "X" if library == "numpy" else "column 'day' of X"
    message = f"{where} (holds dates .* convert them|must hold numbers, got .*[dD]atetime)"
    for categories in (None, {0: [0.1, 0.2, 0.3, 0.4]}, {0 if library == "numpy" else "day": list(days)}):
        with pytest.raises(TypeError, match=message):
            MetricPrivateSynthesizer(bounds=(0, 1), categories=categories).fit(X)
