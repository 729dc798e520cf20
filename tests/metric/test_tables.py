"""Synthetic rows come back in the kind of table that was given, and no type tells of the rows."""

import pickle
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skprivate.metric import MetricPrivateSynthesizer, PrivateTableSynthesizer
from skprivate.metric._tables import TableKind, TableSchema
from skprivate.partitions import Blocks
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
        assert b"secret" not in pickle.dumps(TableKind.of(frame))


@pytest.mark.parametrize("kind", ["U", "S"])
def test_the_schema_does_not_know_how_long_texts_are(kind):
    """The type of an array of texts is as wide as the longest: one row would widen it for all."""
    short, long = (np.array([["0.5"], [text]]).astype(kind) for text in ("0.25", "0.25000000000001"))
    assert pickle.dumps(TableKind.of(short)) == pickle.dumps(TableKind.of(long))


def test_lists_of_texts_and_numbers_come_back_as_objects():
    drawn = sampled([["a", 0.5], ["b", 0.25]] * 50, bounds={1: (0, 1)}, categories={0: ["a", "b"]})
    assert drawn.dtype == object and set(drawn[:, 0]) == {"a", "b"} and drawn[:, 1].min() >= 0


MESSAGES = [
    ({"age": [1.0, np.nan], "dose": [1.0, 2.0]}, {}, ValueError, "NaN in column 'age'"),
    ({"age": [1.0, 2.0], "dose": [np.inf, 2.0]}, {}, ValueError, "infinity in column 'dose'"),
    ({"age": [1.0, 2.0], "dose": ["high", "low"]}, {}, ValueError, "column 'dose' of X must hold numbers, got str"),
    ({"age": ["a", None], "dose": [1.0, 2.0]}, {"age": ["a"]}, ValueError, r"column 'age' .* missing or not among cat"),
    (
        {"age": ["a", "high"], "dose": [1.0, 2.0]},
        {"age": ["a"]},
        ValueError,
        r"column 'age' .* among categories\['age'",
    ),
    ({"age": ["a", "a"], "dose": [1.0, np.nan]}, {"age": ["a"]}, ValueError, "NaN in column 'dose'"),
    ({"age": ["a", "a"], "dose": [1.0, "high"]}, {"age": ["a"]}, ValueError, "column 'dose' of X holds values"),
    ({"age": ["a", "a"], "dose": [1.0, 2.0]}, {"wrong": ["a"]}, ValueError, "'wrong'.* the columns are 'age', 'dose'"),
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


PRICES = [Decimal(k).scaleb(-2) for k in range(600)]
DECIMALS = {
    "polars": pl.DataFrame({"price": pl.Series(PRICES, dtype=pl.Decimal(10, 2))}),
    "polars, narrow": pl.DataFrame({"price": pl.Series(PRICES, dtype=pl.Decimal(3, 2))}),
    "pyarrow": pa.table({"price": pa.array(PRICES, pa.decimal128(12, 2))}),
    "pyarrow, wide": pa.table({"price": pa.array(PRICES, pa.decimal256(60, 2))}),
    "pandas": pd.DataFrame({"price": pd.Series(PRICES, dtype=pd.ArrowDtype(pa.decimal128(10, 2)))}),
}


@pytest.mark.parametrize("bounds", [{"price": (0, 20)}, "private"], ids=str)
@pytest.mark.parametrize("frame", DECIMALS.values(), ids=DECIMALS)
def test_decimals_come_back_in_their_digits(frame, bounds):
    drawn = sampled(frame, bounds)
    types = [frame.dtypes, drawn.dtypes] if isinstance(frame, pd.DataFrame) else [frame.schema, drawn.schema]
    assert list(types[0]) == list(types[1])
    prices = nw.from_native(drawn, eager_only=True)["price"].to_list()
    assert len(set(prices)) > 100 and all(p == round(p, 2) and 0 <= p <= Decimal("9.99") for p in prices)


@pytest.mark.parametrize("fit", [{"price": (0, 20)}, "private"], ids=str)
def test_a_type_that_cannot_come_back_is_refused_before_the_charge(monkeypatch, fit):
    def fails(*_):
        raise RuntimeError("no such type")

    monkeypatch.setattr("skprivate.metric._tables._column", fails)
    ledger = PrivacyLedger(epsilon=5.0, unit="row", delta=0)
    with pytest.raises(TypeError, match="types that synthetic rows can have, got Decimal.*no such type"):
        MetricPrivateSynthesizer(1.0, bounds=fit, ledger=ledger).fit(DECIMALS["polars"])
    assert not ledger.entries()


def test_types_that_declare_values_are_categories():
    """Booleans, categories of pandas and enumerations, in memory and in blocks; bounds make numbers of them."""
    n = 900
    t, g = np.arange(n) % 2 == 0, np.array(["p", "q", "r"])[np.arange(n) % 3]
    pandas = pd.DataFrame({"f": np.linspace(0, 1, n), "t": t, "g": pd.Categorical(g)})
    polars = pl.DataFrame({"f": pandas.f.to_numpy(), "t": t, "g": pl.Series(g, dtype=pl.Enum(["p", "q", "r"]))})
    for X, empty in ((pandas, pandas), (polars, polars), (Blocks([pandas[:500], pandas[500:]]), pandas)):
        model = MetricPrivateSynthesizer(20.0, bounds={"f": (0, 1)}, random_state=0).fit(X)
        drawn = model.sample(600, random_state=0)
        assert type(drawn) is type(empty)
        assert list(drawn.dtypes) == list(empty.dtypes)
        assert model.measure_.columns.values == {1: (False, True), 2: ("p", "q", "r")}
        assert any("types of columns declare" in one for one in model.privacy_guarantee_.assumptions)
        assert model.score(empty) > -0.3
        listed = MetricPrivateSynthesizer(
            20.0, bounds={"f": (0, 1)}, categories={"t": [False, True], "g": ["p", "q", "r"]}, random_state=0
        ).fit(X)
        assert np.array_equal(listed.measure_.weights, model.measure_.weights)
        assert not any("declare" in one for one in listed.privacy_guarantee_.assumptions)
    numbers = MetricPrivateSynthesizer(20.0, bounds={"f": (0, 1), "t": (0, 1)}, random_state=0).fit(pandas)
    assert list(numbers.measure_.columns.values) == [2]


@pytest.mark.parametrize("beside", [{}, {"t": [True, False] * 20}], ids=["alone", "beside a boolean"])
@pytest.mark.parametrize(
    "text",
    [
        pd.Series(["p", "q"] * 20),
        pd.Series(["p", "q"] * 20, dtype=object),
        pd.Series(["p", "q"] * 20, dtype="string"),
        pl.Series(["p", "q"] * 20),
        pl.Series(["p", "q"] * 20, dtype=pl.Categorical),
        pa.array(["p", "q"] * 20),
        pa.array(["p", "q"] * 20).dictionary_encode(),
    ],
    ids=lambda text: f"{type(text).__module__} {getattr(text, 'dtype', getattr(text, 'type', None))}",
)
def test_text_without_a_list_names_categories(text, beside):
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[type(text).__module__.split(".")[0]]
    X = make({"f": [0.5] * 40, **beside, "g": text})
    ledger = PrivacyLedger(epsilon=5.0, unit="row", delta=0)
    with pytest.raises((ValueError, TypeError), match=r"column 'g' .*categories=\{"):
        MetricPrivateSynthesizer(1.0, bounds={"f": (0, 1)}, ledger=ledger).fit(X)
    assert not ledger.entries()


@pytest.mark.parametrize("metric", ["rows", "wasserstein"])
@pytest.mark.parametrize("more", [{}, {"categories": {0: [0, 1]}}], ids=str)
def test_more_columns_than_arrays_have_axes(metric, more):
    ledger = PrivacyLedger(epsilon=1e9)
    X = np.zeros((50, 63 + len(more)))
    terms = {"bounds": (0, 1), "ledger": ledger, "metric": metric, **more}
    with pytest.raises(ValueError, match="X must have at most 62 columns of numbers, got 63"):
        MetricPrivateSynthesizer(**terms).fit(X)
    assert not ledger.entries()
    if metric == "rows":
        assert MetricPrivateSynthesizer(**terms).fit(X[:, :-1]).sample(3).shape == (3, X.shape[1] - 1)


@pytest.mark.parametrize("numbers", [[0, 1, 2], [0.0, 0.5, 1.0], ["p", "q", "r"]])
def test_dictionaries_of_arrow_come_back(numbers):
    column = pa.array([numbers[k % 3] for k in range(60)]).dictionary_encode()
    X = pa.table({"a": column, "z": np.linspace(0.0, 1.0, 60)})
    measure = MetricPrivateSynthesizer(30.0, bounds={"z": (0, 1)}, categories={"a": numbers}, random_state=0)
    table = PrivateTableSynthesizer(3.0, schema={"a": {"values": numbers}}, random_state=0)
    for model in (measure, table):
        drawn = model.fit(X).sample(20, random_state=0)
        assert drawn.schema == X.schema
        assert set(drawn["a"].to_pylist()) <= {*numbers, None}


OLD_KINDS = {  # what version 0.2.0 kept of a table
    "array": (np.linspace(0, 9, 60).reshape(30, 2), None, None, (np.dtype(np.float64),)),
    "pandas": (
        pd.DataFrame({"a": np.arange(30) % 2, "b": pd.Categorical(["p", "q"] * 15, ordered=True)}),
        "pandas",
        ("a", "b"),
        (np.dtype(np.int64), "ordered categories"),
    ),
    "polars": (
        pl.DataFrame(
            {"a": pl.Series([0, 1] * 15, dtype=pl.Int8), "b": pl.Series(["p", "q"] * 15, dtype=pl.Categorical)}
        ),
        "polars",
        ("a", "b"),
        (nw.Int8(), "categories"),
    ),
    "pyarrow": (
        pa.table({"a": pa.array([0, 1] * 15, pa.int16()), "b": ["p", "q"] * 15}),
        "pyarrow",
        ("a", "b"),
        (nw.Int16(), nw.String()),
    ),
}


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_pickles_of_version_0_2_0_give_the_same_rows(kind):
    X, *fields = OLD_KINDS[kind]
    numbers = {0: (0, 9), 1: (0, 9)} if kind == "array" else {"a": (0, 9)}
    listed = {} if kind == "array" else {"categories": {"b": ["p", "q"]}}
    model = MetricPrivateSynthesizer(30.0, bounds=numbers, random_state=0, **listed).fit(X)
    old = TableSchema()
    old.library, old.names, old.dtypes = fields
    before, model._schema = model._schema, old
    read = pickle.loads(pickle.dumps(model))
    assert read._schema.dtypes == before.dtypes
    drawn = read.sample(9, random_state=0)
    read._schema = before
    assert str(drawn) == str(read.sample(9, random_state=0))
