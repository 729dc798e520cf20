"""What becomes of an entry of a table depends on that entry and on public types: one reader, in every container."""

import datetime as dt
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBags,
    MetricPrivateSynthesizer,
    MetricPrivatizer,
    UserLevelMean,
    UserLevelSGDRegressor,
    make_curated_bags,
)
from skprivate.aggregate import bags_from_sql, release_frames
from skprivate.model_selection import PrivateSearchCV
from skprivate.partitions import Blocks
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicOneHotEncoder,
    PublicOrdinalEncoder,
    PublicScaler,
)
from skprivate.privacy import PrivacyLedger
from skprivate.utils._replay import Neighbour, replay
from skprivate.utils.discovery import all_estimators

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

BERLIN = dt.timezone(dt.timedelta(hours=2))
#: Two public values of every kind, and one that nobody lists.
VALUES = {
    "integers": (2**60 + 1, 2**60 + 3, 2**60 + 5),
    "unsigned": (2**63 + 1, 2**63 + 3, 7),
    "floats": (0.5, 1.5, 2.5),
    "booleans": (False, True, True),
    "text": ("a", "b", "c"),
    "dates": (dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(1950, 1, 1)),
    "naive": (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 1), dt.datetime(1950, 1, 1)),
    "zoned": tuple(dt.datetime(2020, 1, 1, hour, tzinfo=BERLIN) for hour in (0, 1, 5)),
}
ARROW = {
    "integers": pa.int64(),
    "unsigned": pa.uint64(),
    "floats": pa.float64(),
    "booleans": pa.bool_(),
    "text": pa.string(),
    "dates": pa.date32(),
    "naive": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "Europe/Berlin"),
}
NULLABLE = {
    "integers": "Int64",
    "unsigned": "UInt64",
    "floats": "Float64",
    "booleans": "boolean",
    "text": "string",
    "naive": "datetime64[ns]",
    "zoned": "datetime64[us, Europe/Berlin]",
}


def arrow(kind, values):
    return pa.table({"v": pa.array(values, ARROW[kind]), "w": [1.5] * len(values), "flag": [True] * len(values)})


def polars(kind, values):
    return pl.from_arrow(arrow(kind, values))


def pandas_arrow(kind, values):
    return arrow(kind, values).to_pandas(types_mapper=pd.ArrowDtype)


def pandas_nullable(kind, values):
    column = pd.array(values, dtype=NULLABLE[kind])
    return pd.DataFrame({"v": column, "w": 1.5, "flag": True})


def pandas_category(kind, values):
    return pandas_nullable(kind, values).astype({"v": "category"})


def pandas_objects(kind, values):
    return pd.DataFrame({"v": pd.Series(values, dtype=object), "w": 1.5, "flag": True})


def lists(kind, values):
    return [[value, 1.5, True] for value in values]


def objects(kind, values):
    table = np.empty((len(values), 3), dtype=object)
    table[:] = lists(kind, values)
    return table


def blocks(make):
    def cut(kind, values):
        table = make(kind, values)
        return Blocks([table[:4], table[4:9], table[9:]])

    cut.__name__ = f"blocks_of_{make.__name__}"
    return cut


MAKERS = [arrow, polars, pandas_arrow, pandas_nullable, pandas_category, pandas_objects, lists, objects]
BLOCKS = [blocks(make) for make in (arrow, polars, pandas_arrow, pandas_nullable, objects)]
CONTAINERS = [
    pytest.param(kind, make, id=f"{kind}-{make.__name__}")
    for kind in VALUES
    for make in (*MAKERS, *BLOCKS)
    if kind in NULLABLE or ("nullable" not in make.__name__ and "category" not in make.__name__)
]
IN_MEMORY = [case for case in CONTAINERS if "blocks" not in case.id]
NUMBERS = [case for case in IN_MEMORY if case.values[0] in ("integers", "unsigned", "floats", "booleans")]


def listed(kind, make, missing=False):
    """Public lists of all columns, by name where there are names."""
    found = [[*VALUES[kind][:2], *([np.nan] if missing else [])], [1.5], [False, True]]
    named = "objects" not in make.__name__.split("_")[-1:] and make is not lists
    return dict(zip(("v", "w", "flag"), found, strict=True)) if named or make is pandas_objects else found


draws = st.lists(st.sampled_from([0, 1, 2]), min_size=12, max_size=12)


def neighbours(kind, numbers, place, missing=True):
    """Entries, and the same with another one in one place, none there, or one more at the end."""
    values = [VALUES[kind][number] for number in numbers]
    other = VALUES[kind][(numbers[place] + 1) % 3]
    found = [[*values[:place], other, *values[place + 1 :]], [*values, other]]
    return values, found + ([[*values[:place], None, *values[place + 1 :]]] if missing else [])


def same_but(place, first, second):
    """Whether all rows but one are the same, to the last bit and type."""
    keep = [i for i in range(12) if i != place]
    one, other = ([np.asarray(rows, dtype=object)[i].tolist() for i in keep] for rows in (first, second))
    return repr(one) == repr(other)


ENCODERS = [
    lambda kind, make: PublicOneHotEncoder(listed(kind, make)),
    lambda kind, make: PublicOneHotEncoder(listed(kind, make, missing=True), handle_unknown="ignore"),
    lambda kind, make: PublicOrdinalEncoder(listed(kind, make)),
]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("kind", "make"), IN_MEMORY)
@settings(deadline=None, max_examples=3)
@given(draws, st.integers(0, 11))
def test_public_encoders_encode_each_entry_by_itself(kind, make, numbers, place):
    values, changed = neighbours(kind, numbers, place)
    for encoder in ENCODERS:
        codes = encoder(kind, make).fit_transform(make(kind, values))
        # Not only the same for all: those that are listed are found.
        expected = np.minimum(numbers, 1) if kind == "booleans" else np.array(numbers)
        found = codes[:, 0] if codes.shape[1] == 3 else np.where(codes[:, :2].any(1), codes[:, 1], 2)
        np.testing.assert_array_equal(found, expected)
        for one in changed:
            assert same_but(place, codes, encoder(kind, make).fit_transform(make(kind, one)))


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("kind", "make"), IN_MEMORY)
def test_what_is_missing_is_one_thing(kind, make):
    table = make(kind, [VALUES[kind][0], None] * 6)
    for missing in (None, np.nan, pd.NA, pd.NaT, float("nan")):
        lists = listed(kind, make)
        first = lists["v"] if isinstance(lists, dict) else lists[0]
        first.append(missing)
        assert PublicOrdinalEncoder(lists).fit_transform(table)[:2, 0].tolist() == [0, 2]
        first.append(None)
        with pytest.raises(ValueError, match="differ"):
            PublicOrdinalEncoder(lists).fit(table)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("kind", "make"), IN_MEMORY)
@settings(deadline=None, max_examples=3)
@given(draws, st.integers(0, 11))
def test_what_is_filled_in_is_of_the_columns_own_type(kind, make, numbers, place):
    values, changed = neighbours(kind, numbers, place)
    model = PrivateImputer(1.0, strategy="most_frequent", categories=listed(kind, make), random_state=0).fit(
        make(kind, values)
    )
    filled = model.transform(make(kind, values))
    for one in changed:
        assert same_but(place, filled, model.transform(make(kind, one)))
    gap = model.transform(make(kind, [*values, None]))[:, 0].tolist()
    assert len(set(map(type, gap))) == 1
    assert gap[-1] in VALUES[kind][:2]  # beside a column of another type, too, a gap is a gap


NUMERIC = [
    lambda: PublicScaler(center=np.zeros(3), scale=np.ones(3)),
    lambda: PrivateImputer(random_state=0),
    lambda: PrivateStandardScaler(random_state=0),
    lambda: PrivateKBinsDiscretizer(random_state=0, encode="ordinal"),
    lambda: PrivateQuantileTransformer(random_state=0),
    lambda: PrivateSplineTransformer(random_state=0),
]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("kind", "make"), NUMBERS)
@pytest.mark.parametrize("which", range(len(NUMERIC)))
def test_numbers_are_read_one_by_one(kind, make, which):
    values, changed = neighbours(kind, [0, 1, 2] * 4, 5)
    model = NUMERIC[which]().fit(make(kind, values))
    rows = model.transform(make(kind, values))
    for one in changed:
        assert same_but(5, rows, model.transform(make(kind, one)))


@pytest.mark.parametrize("to", [lambda table: table, lambda table: table.to_pandas(types_mapper=pd.ArrowDtype)])
def test_dictionaries_are_no_numbers(to):
    """NumPy reads missing entries of a dictionary as its last value, which the last row brings with it."""
    for last in (1.0, -1.0):
        column = pa.array([0.0] * 5 + [None] * 5 + [last]).dictionary_encode()
        ledger, table = PrivacyLedger(epsilon=2.0, delta=1e-5), to(pa.table({"v": column, "w": [0.5] * 11}))
        for model in (UserLevelMean(ledger=ledger), PrivateImputer(ledger=ledger)):
            with pytest.raises(TypeError, match="column 'v' of X must hold numbers, got dictionary.*Decode it"):
                model.fit(table)
        assert not ledger.entries()
    decoded = pa.table({"v": column.cast(column.type.value_type), "w": [0.5] * 11})
    gap = PublicScaler(center=np.zeros(2), scale=np.ones(2)).fit(decoded).transform(decoded)[7, 0]
    assert np.isnan(gap)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32(), pa.duration("us"), pa.time64("us")])
def test_times_of_arrow_are_no_numbers(kind):
    table = pa.table({"v": pa.array([0, 1] * 9, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)})
    with pytest.raises(TypeError, match="column 'v' of X must hold numbers"):
        UserLevelMean().fit(table)


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA])
@pytest.mark.parametrize("make", [lists, objects, pandas_objects])
def test_a_search_hands_on_each_entry_as_it_is(make, missing):
    known = VALUES["integers"][:2]
    steps = make_pipeline(PublicOneHotEncoder([known, [1.5], [True]]), UserLevelSGDRegressor())
    search = PrivateSearchCV(steps, {"userlevelsgdregressor__max_iter": [2, 3]})
    for entry in (missing, 2.5, known[0]):
        rows = search._rows(make("integers", [*known * 5, entry]), np.zeros(11), None, None)
        codes = steps[0].fit_transform(rows.X)
        assert codes[:10, 0].tolist() == [1.0, 0.0] * 5


def fits(kind, make):
    """Private fits that read tables of any kind, as functions of the table."""
    categories = listed(kind, make)
    pipeline = make_pipeline(
        PublicOneHotEncoder(categories),
        UserLevelSGDRegressor(epsilon=1.0, standardize=False, max_iter=3, random_state=0),
    )
    imputer = PrivateImputer(1.0, strategy="most_frequent", categories=categories, random_state=0)
    return {"pipeline": lambda table: pipeline.fit(table, np.ones(12)), "imputer": imputer.fit}


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(
    ("kind", "make", "name"),
    [pytest.param(*case.values, "imputer", id=f"{case.id}-imputer") for case in CONTAINERS]
    + [pytest.param(*case.values, "pipeline", id=f"{case.id}-pipeline") for case in IN_MEMORY],  # encoders need tables
)
def test_a_neighbour_moves_every_statistic_by_its_own_entry_alone(kind, make, name):
    fit = fits(kind, make)[name]
    values, changed = neighbours(kind, [0, 1, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0], 7)
    # One row more is no neighbour where the number of rows is public.
    data = [Neighbour(str(i), make(kind, one)) for i, one in enumerate(changed) if len(one) == 12]
    report = replay(fit, make(kind, values), data)
    report.raise_failures(name)
    assert report.n_draws > 0


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(
    ("kind", "make"), [case for case in CONTAINERS if case.values[0] not in ("dates", "naive", "zoned")]
)
def test_a_synthesizer_reads_each_entry_by_itself(kind, make):
    names = listed(kind, make)
    names = dict(enumerate(names)) if isinstance(names, list) else names
    key = "v" if "v" in names else 0
    names[key] = list(dict.fromkeys(VALUES[kind]))
    model = MetricPrivateSynthesizer(5.0, categories=names, random_state=0)
    values, changed = neighbours(kind, [0, 1, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0], 7, missing=False)
    report = replay(model.fit, make(kind, values), [Neighbour("more", make(kind, changed[1]))])
    report.raise_failures("synthesizer")


@pytest.mark.parametrize("make", MAKERS)
def test_states_are_found_by_their_own_value(make):
    values = list(VALUES["integers"]) * 4
    table = make("integers", values)
    column = table.select(["v"]) if hasattr(table, "select") else table
    column = column[["v"]] if isinstance(table, pd.DataFrame) else column
    column = [row[:1] for row in table] if isinstance(table, list) else column
    column = table[:, :1] if isinstance(table, np.ndarray) else column
    model = MetricPrivatizer(80.0, metric="precomputed", distances=1 - np.eye(3), states=values[:3], random_state=0)
    assert model.fit_transform(column)[:, 0].tolist() == values


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("kind", "make"), IN_MEMORY)
def test_public_columns_of_bags_keep_every_value(kind, make):
    """A null in a column makes no floats of its integers."""
    values = [*VALUES[kind], None] * 3
    table = make(kind, values)
    categorical = [0] if isinstance(table, list | np.ndarray) else ["v"]
    bags = make_curated_bags(table, [0, 1] * 6, [(0,)], categorical_features=categorical, classes=[0, 1], min_size=1)
    found = bags.columns[0].categories
    assert len(found) == (3 if kind == "booleans" else 4) and found[-1] is None
    if kind in ("integers", "unsigned", "booleans", "text"):
        assert set(found[:-1]) == set(VALUES[kind])


WRONG = [
    ("integers", ["1", "2"], "text", "numbers"),
    ("floats", ["1.5"], "text", "numbers"),
    ("booleans", ["True"], "text", "numbers"),
    ("text", [1, 2], "numbers", "text"),
    ("naive", [VALUES["zoned"][0]], "times with a zone", "times without a zone"),
    ("zoned", [pd.Timestamp("2020-01-01")], "times without a zone", "times with a zone"),
    ("naive", [dt.date(2020, 1, 1)], "dates", "times without a zone"),
    ("dates", [dt.datetime(2020, 1, 1)], "times without a zone", "dates"),
    ("dates", ["2020-01-01"], "text", "dates"),
]


NARROW = {
    "pandas": lambda dtype: pd.DataFrame({"v": pd.Series([0.1, 0.2, None], dtype=dtype), "w": ["x"] * 3}),
    "nullable": lambda dtype: pd.DataFrame({"v": pd.array([0.1, 0.2, None], dtype=dtype.title()), "w": ["x"] * 3}),
    "polars": lambda dtype: pl.from_arrow(NARROW["arrow"](dtype)),
    "arrow": lambda dtype: pa.table({"v": pa.array([0.1, 0.2, None], dtype), "w": ["x"] * 3}),
    "array": lambda dtype: np.array([[0.1], [0.2], [np.nan]], dtype=dtype),
}
TENTHS = [0.1, Decimal("0.1"), Fraction(1, 10), np.float32(0.1), np.float64(0.1)]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("tenth", TENTHS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("make", NARROW)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_listed_numbers_are_found_in_columns_of_every_width(tenth, make, dtype):
    """The type of a column is public: what is listed is what the column makes of it."""
    if dtype == "float64" and type(tenth) is np.float32:
        pytest.skip("another number")
    X = NARROW[make](dtype)
    listed = [[tenth, 0.2]] if make == "array" else {"v": [tenth, 0.2], "w": ["x"]}
    assert PublicOrdinalEncoder(listed).fit(X).transform(X)[:, 0].tolist() == [0, 1, 2]
    imputer = PrivateImputer(50.0, strategy="most_frequent", categories=listed, random_state=0)
    filled = imputer.fit(X).transform(X)[:, 0].tolist()
    assert filled[2] in filled[:2] and {type(value) for value in filled} == {float}


@pytest.mark.parametrize(
    "make",
    [
        lambda column: pl.DataFrame({"v": pl.Series(column, dtype=pl.Decimal(10, 2))}),
        lambda column: pa.table({"v": pa.array(column, pa.decimal128(10, 2))}),
        lambda column: pd.DataFrame({"v": pd.array(column, pd.ArrowDtype(pa.decimal128(10, 2)))}),
        lambda column: pd.DataFrame({"v": pd.Series(column, dtype=object)}),
        lambda column: [[value] for value in column],
    ],
    ids=["polars", "arrow", "pandas on arrow", "objects", "lists"],
)
def test_listed_numbers_are_found_among_decimals(make):
    X = make([Decimal("0.10"), Decimal("0.2"), None, Decimal("3.00")])
    for listed in ([0.1, 0.2, 3], [Decimal("0.1"), Decimal("0.20"), 3.0]):
        assert PublicOrdinalEncoder([listed]).fit_transform(X).ravel().tolist() == [0, 1, 3, 2]
    with pytest.raises(ValueError, match="must differ"):
        PublicOrdinalEncoder([[0.1, Decimal("0.1")]]).fit(X)


def test_numbers_that_a_column_cannot_tell_apart_are_refused():
    X = pd.DataFrame({"v": np.array([2.0**24, 1.0], np.float32)})
    with pytest.raises(ValueError, match="^categories of column 'v' must differ .* type float32"):
        PublicOneHotEncoder([[2**24, 2**24 + 1]]).fit_transform(X)
    ledger = PrivacyLedger(epsilon=9.0)
    with pytest.raises(ValueError, match="must differ"):
        PrivateImputer(strategy="most_frequent", categories=[2**24, 2**24 + 1], ledger=ledger).fit(X)
    assert not ledger.entries()


def test_days_are_no_times_and_times_no_days():
    days = np.array(["2024-01-01", "2024-01-02"], "M8[D]")
    X = pd.DataFrame({"v": days.astype("M8[us]")})
    with pytest.raises(TypeError, match="are dates, but the column holds times without a zone"):
        PublicOneHotEncoder([list(days)]).fit(X)
    assert PublicOrdinalEncoder([list(X["v"])]).fit_transform(X).ravel().tolist() == [0, 1]
    assert PublicOrdinalEncoder([list(days)]).fit_transform(pl.DataFrame({"v": days})).ravel().tolist() == [0, 1]


FILLED = {
    "integers": (pd.array([1, None, 1], "Int64"), 1),
    "floats": ([1.5, None, 1.5], 1.5),
    "booleans": (pd.array([True, None, True]), True),
    "decimals": (pd.array([Decimal("1.10"), None], pd.ArrowDtype(pa.decimal128(10, 2))), Decimal("1.1")),
    "categories": (pd.Categorical(["a", None, "a"]), "a"),
    "times": (pd.to_datetime(["2024-01-01", None]), pd.Timestamp("2024-01-01")),
    "polars decimals": (pl.Series([Decimal("1.10"), None], dtype=pl.Decimal(10, 2)), 1.1),
    "polars floats": (pl.Series([0.5, None, float("nan")], dtype=pl.Float32), 0.5),
    "polars dates": (pl.Series([dt.date(2024, 1, 1), None]), dt.date(2024, 1, 1)),
}


@pytest.mark.parametrize("kind", FILLED)
def test_modes_beside_text_keep_the_types_of_the_columns(kind):
    column, mode = FILLED[kind]
    polars = isinstance(column, pl.Series)
    X = (pl.DataFrame if polars else pd.DataFrame)({"v": column, "w": ["x"] * len(column)})
    model = PrivateImputer(90.0, strategy="most_frequent", categories={"v": [mode], "w": ["x"]}, random_state=0)
    found = model.set_output(transform="polars" if polars else "pandas").fit(X).transform(X)
    assert [str(dtype) for dtype in found.dtypes] == [str(dtype) for dtype in X.dtypes]
    assert set(map(float, found["v"])) == {float(mode)} if "dec" in kind else set(found["v"]) == {mode}


class Unread(Blocks):
    """Blocks whose types are seen, and whose rows may not be."""

    def __iter__(self):
        raise AssertionError("rows were read")


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(
    ("make", "kind", "values", "theirs", "own"),
    [
        pytest.param(case.values[1], *wrong, id=f"{case.id}-{k}")
        for k, wrong in enumerate(WRONG)
        for case in CONTAINERS
        if case.values[0] == wrong[0] and case.values[1] is not BLOCKS[-1]  # types of objects are not seen unread
    ],
)
def test_lists_of_another_kind_are_refused_and_spend_nothing(make, kind, values, theirs, own):
    table = make(kind, [*VALUES[kind], None] * 3)
    if isinstance(table, Blocks):
        table = Unread(list(table))
    lists = listed(kind, make)
    lists["v" if isinstance(lists, dict) else 0] = values
    ledger = PrivacyLedger(epsilon=10.0, unit="row")
    models = [PrivateImputer(strategy="most_frequent", categories=lists, ledger=ledger)]
    if kind not in ("dates", "naive", "zoned"):
        places = dict(enumerate(lists)) if isinstance(lists, list) else lists
        models.append(MetricPrivateSynthesizer(categories=places, ledger=ledger))
    if not isinstance(table, Blocks):
        models += [PublicOneHotEncoder(lists), PublicOrdinalEncoder(lists)]
    for model in models:
        with pytest.raises(TypeError, match=f"^categories of column ('v'|0) are {theirs}, but .* {own}: "):
            model.fit(table)
    assert not ledger.entries() and ledger.spent == (0, 0)


def test_numbers_and_booleans_are_one_kind_and_nothing_has_none():
    for column, values in ((pd.array([True, None]), [0, 1]), (np.array([1.0, 2.0]), [1, 2])):
        PublicOneHotEncoder([values]).fit(pd.DataFrame({"v": column}))
    PublicOneHotEncoder([["a"]]).fit(pd.DataFrame({"v": pd.Series([None, None], dtype=object)}))
    PublicOneHotEncoder([["a"]]).fit(pd.DataFrame({"v": pd.Series(["a", 1], dtype=object)}))
    with pytest.raises(TypeError, match="are text, but the column holds numbers"):
        PublicOneHotEncoder(["a"]).fit(np.array([[1.0]]))


def elsewhere():
    """Tables that are not in memory."""
    frame = pl.DataFrame({"a": [0.5, 1.5] * 20, "b": [0.0, 1.0] * 20})
    yield frame.lazy()
    yield pa.RecordBatchReader.from_batches(frame.to_arrow().schema, frame.to_arrow().to_batches())
    duckdb = pytest.importorskip("duckdb")
    yield duckdb.connect().sql("SELECT 0.5 AS a, 1.0 AS b UNION ALL SELECT 1.5, 0.0")


@pytest.mark.parametrize(("name", "Estimator"), all_estimators())
def test_tables_elsewhere_are_refused_in_one_message(name, Estimator):
    options = {
        "PrivatePipeline": None,
        "PublicOneHotEncoder": {"categories": [0.5]},
        "PublicOrdinalEncoder": {"categories": [0.5]},
    }
    if options.get(name, {}) is None:
        pytest.skip("made by make_additive_pipeline")
    try:
        model = Estimator(**options.get(name, {}))
    except TypeError:
        pytest.skip("needs other estimators")
    y = np.array([0, 1] * 20)
    for table in elsewhere():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(TypeError, match=r"must be a table in memory, got .*collect\(\).*Blocks"):
                model.fit(table, y)


def test_what_is_no_table_is_said_of_X():
    X = np.linspace(0, 1, 40).reshape(20, 2)
    model = UserLevelSGDRegressor(random_state=0).fit(X, X[:, 0])
    for wrong in ([{"a": 1.0, "b": 2.0}], [{"a"}], [object()]):
        with pytest.raises((TypeError, ValueError), match="^X must be a table of numbers|Expected 2D"):
            model.predict(wrong)
        with pytest.raises((TypeError, ValueError), match="^X must be a table of numbers|Expected 2D"):
            model.fit(wrong, [1.0])
    with pytest.raises((TypeError, ValueError), match="^y must hold numbers"):
        model.fit(X, [{}] * 20)


@pytest.mark.parametrize("make", [lambda t: t, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize(
    "days",
    [
        pd.to_datetime([0, 1, 2] * 40, unit="D", utc=True),
        pd.to_datetime([0, 1, 2] * 40, unit="D").tz_localize("Europe/Berlin"),
        pd.to_datetime([0, 1, 2] * 40, unit="D").as_unit("ns"),
        pd.Series([dt.date(2020, 1, day) for day in (1, 2, 3)] * 40),
    ],
    ids=["utc", "berlin", "ns", "dates"],
)
def test_keys_of_every_library_match_the_same_rows(days, make):
    frame = pd.DataFrame({"day": days, "rich": [0, 1] * 60})
    groups = frame.groupby("day").rich.agg(n="size", rich="sum").reset_index()
    said = {"count": "n", "sums": "rich", "classes": (0, 1)}
    for other in (lambda t: t, pl.from_pandas, pa.Table.from_pandas):
        bags = CuratedBags.from_frames([make(groups)], **said)
        bags = CuratedBags.from_dict(bags.to_dict())
        X = other(frame[["day"]])
        assert CuratedBagGAMClassifier().fit_bags(X, bags).predict(X).shape == (120,)


def test_sums_of_no_labels_are_zero():
    """That all labels of a group are missing is private: it is no error."""
    groups = pa.table({"g": ["a", "b"], "n": [5, 5], "s": pa.array([3, 3])})
    gap = pa.table({"g": ["a", "b"], "n": [5, 5], "s": pa.array([3, None], pa.int64())})
    said = {"count": "n", "sums": "s", "classes": (0, 1), "epsilon": 50.0, "random_state": 0}
    found = [release_frames([table], **said).tables[0].label_sums.ravel() for table in (groups, gap)]
    assert found[0][0] == found[1][0] and round(found[1][1]) == 0


def test_bounds_that_no_sum_can_have_are_refused_before_the_query():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for label in ("1", "100000000000000000000000"):
        connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT 'x' AS a, CAST({label} AS HUGEINT) AS y FROM range(9)")
        with pytest.raises(ValueError, match="times the number of rows exceeds 2⁶¹"):
            bags_from_sql(connection, "t", ["a"], "y", epsilon=1.0, label_bounds=(0, 2**70), categorical_features=["a"])
