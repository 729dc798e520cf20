"""Bags of a table in DuckDB: those of the same rows in memory, to the last bit, and no private value in a message."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from skprivate import make_curated_bags
from skprivate.aggregate import bags_from_sql
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
RNG = public_generator(0)
N = 2000
ROWS = pd.DataFrame(
    {
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(40, 10, size=N)),
        "income": np.where(RNG.random(N) < 0.6, 0.0, RNG.exponential(size=N) * 1e5),
        "few": RNG.integers(0, 4, size=N),
        'odd "name",': RNG.choice(["a", "b'", 'c "x"'], size=N),
        "flag": RNG.random(N) < 0.3,
        "answer": RNG.choice(["no", "yes", "perhaps"], size=N),
        "cents": RNG.integers(-50, 1000, size=N),
    }
)
FEATURES = list(ROWS)[:5]


@pytest.fixture
def connection():
    with duckdb.connect() as connection:
        connection.register("rows", ROWS)
        yield connection


@pytest.mark.parametrize("epsilon", [None, 0.5])
@pytest.mark.parametrize("classes", [("no", "yes"), ("no", "yes", "perhaps")])
@pytest.mark.parametrize("feature_sets", ["singles", "pairs", 3, [("age", "flag"), ("few",), FEATURES]], ids=str)
def test_the_bags_of_the_same_rows_in_memory(connection, feature_sets, classes, epsilon):
    terms = {"epsilon": epsilon, "classes": classes, "random_state": None if epsilon is None else 4}
    # In memory, exact sums refuse a label outside the classes.
    table, rows = "rows", ROWS
    if epsilon is None and len(classes) == 2:
        table, rows = "(SELECT * FROM rows WHERE answer <> 'perhaps')", ROWS[ROWS.answer != "perhaps"]
    found = bags_from_sql(connection, table, FEATURES, "answer", feature_sets, **terms)
    there = make_curated_bags(rows[FEATURES], rows.answer, feature_sets, **terms)
    assert sorted(map(str, found.columns)) == sorted(map(str, there.columns))
    assert [table.to_dict() for table in found.tables] == [table.to_dict() for table in there.tables]
    assert (found.n_samples, found.classes) == (there.n_samples, there.classes)
    for name in ("epsilon", "delta", "unit", "adjacency"):
        assert getattr(found.guarantee, name) == getattr(there.guarantee, name)


def test_given_edges_categories_and_files(connection, tmp_path):
    path = tmp_path / "rows.parquet"
    connection.execute(f"COPY rows TO '{path}'")
    terms = {
        "epsilon": 1.0,
        "classes": ("no", "yes"),
        "random_state": 0,
        "bin_edges": {"age": [30.0, 0.1 + 50.2]},
        "categorical_features": ["few"],
        "feature_sets": [("age",), ("few", "flag")],
    }
    found = bags_from_sql(connection, f"read_parquet('{path}')", ["age", "few", "flag"], "answer", **terms)
    terms["categorical_features"] = ["few", "flag"]
    there = make_curated_bags(ROWS[["age", "few", "flag"]], ROWS.answer, **terms)
    assert [table.to_dict() for table in found.tables] == [table.to_dict() for table in there.tables]
    assert found.columns == there.columns


def test_whole_numbers(connection):
    bounds = (0, 500)
    found = bags_from_sql(connection, "rows", ["flag"], "cents", label_bounds=bounds)
    wanted = ROWS.cents.clip(*bounds).groupby(ROWS.flag).sum()
    assert found.tables[0].label_sums[:, 0].tolist() == wanted.tolist()
    noisy = bags_from_sql(
        connection, "rows", ["flag", "few"], "cents", label_bounds=bounds, epsilon=1.0, random_state=0
    )
    # Three sets of columns, each moved by 500 at most: discrete Laplace noise of scale 1 500.
    assert noisy.tables[0].noise_variance == pytest.approx(2 * 1500.0**2, rel=1e-3)
    assert np.abs(noisy.tables[1].label_sums - 0).max() > 0 and noisy.guarantee.epsilon == pytest.approx(1.0)


def test_missing_labels_count_as_none(connection):
    connection.execute(
        "CREATE TABLE few AS SELECT * FROM (VALUES (1, NULL, NULL), (1, 'yes', 7), (1, 'x', -9)) t(k, a, b)"
    )
    by_class = bags_from_sql(connection, "few", ["k"], "a", classes=("no", "yes"))
    assert by_class.tables[0].label_sums.tolist() == [[1.0]] and by_class.tables[0].counts.tolist() == [3]
    numbers = bags_from_sql(connection, "few", ["k"], "b", label_bounds=(-3, 5))
    assert numbers.tables[0].label_sums.tolist() == [[5.0 - 3.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "nothing"}, "no column 'nothing'"),
        ({"columns": ["age", "age"]}, "distinct features"),
        ({"columns": "age"}, "list of names"),
        ({"table": "elsewhere"}, "CatalogException"),
        ({"classes": (0, 1)}, "must be of one type with all classes"),
        ({"classes": (True, False)}, "must be BOOLEAN"),
        ({"classes": None}, "label_bounds must be two integers"),
        ({"classes": None, "label_bounds": (0, 10), "label": "income"}, "integer type"),
        ({"bin_edges": {"answer": [1.0]}}, "no features"),
        ({"table": "(SELECT * FROM rows WHERE age > 1000)"}, "no rows"),
        ({"epsilon": -1.0}, "epsilon must be"),
    ],
    ids=lambda value: None,
)
def test_refusals_spend_nothing(connection, change, message):
    ledger = PrivacyLedger(epsilon=5.0, simulation=True)
    terms = {
        "table": "rows", "columns": ["age", "few"], "label": "answer", "classes": ("no", "yes"), "epsilon": 1.0,
        "ledger": ledger, "random_state": 0, **change,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        bags_from_sql(connection, **terms)
    assert len(ledger.entries()) == 0
    connection.execute("BEGIN TRANSACTION")  # none is left open
    connection.execute("ROLLBACK")


def test_an_open_transaction_stays_open(connection):
    connection.execute("BEGIN TRANSACTION")
    connection.execute("CREATE TABLE mine AS SELECT * FROM rows")
    bags_from_sql(connection, "mine", ["few"], "answer", classes=("no", "yes"))
    connection.execute("COMMIT")
    assert connection.execute("SELECT COUNT(*) FROM mine").fetchone() == (N,)


@pytest.mark.parametrize(
    ("kind", "labels", "classes", "counted"),
    [
        ("VARCHAR COLLATE NOCASE", "'a', 'A', 'b'", ("A", "a", "b"), [2, 0, 1]),
        ("DOUBLE", "9007199254740992, 9007199254740993, 1", (1, 2**53, 2**53 + 1), [1, 2, 0]),
        ("FLOAT", "16777216, 16777217, 1", (1, 2**24, 2**24 + 1), [1, 2, 0]),
        ("BIGINT", "9007199254740993, 9007199254740992, 1", (1, 2.0**53, 2**53 + 1), [1, 2, 0]),
        ("HUGEINT", "9007199254740993, 9007199254740992, 1", (2**53, 2**53 + 1, 1), [1, 1, 1]),
        ("FLOAT", "0.1, 0.2, 'nan'", (0.1, 0.2, 0.3), [1, 1, 0]),
        ("DECIMAL(18, 3)", "0.1, 0.2, NULL", (0.1, 0.2, 0.3), [1, 1, 0]),
        ("BIGINT", "9007199254740993, 9007199254740992, 1", (2.0**53, 2**53 + 1), [0]),
    ],
    ids=str,
)
def test_a_label_counts_for_one_class(connection, kind, labels, classes, counted):
    """What the noise is for, whatever the database takes for equal."""
    connection.execute(f"CREATE TABLE odd (k INTEGER, y {kind})")
    connection.execute("INSERT INTO odd VALUES " + ", ".join(f"(1, {label})" for label in labels.split(", ")))
    bags = bags_from_sql(connection, "odd", ["k"], "y", classes=classes)
    assert bags.tables[0].label_sums.tolist() == [counted]


@pytest.mark.parametrize("labels", ["(1.5)", "(1.5), (0.5)"])
def test_a_class_that_the_type_cannot_hold_is_refused_whatever_the_labels_are(connection, labels):
    connection.execute("CREATE TABLE narrow (y DECIMAL(38, 30))")
    connection.execute(f"INSERT INTO narrow VALUES {labels}")
    table = "(SELECT 1 AS k, y FROM narrow)"
    with pytest.raises(ValueError, match="refused the query"):
        bags_from_sql(connection, table, ["k"], "y", classes=(1.5, 10**9))


def test_columns_may_have_any_names(connection):
    """Those of the query itself among them, in any case."""
    names = ["S0", "s1", "key0", "KEY1", "value", "coded"]
    columns = ", ".join(f'i % {j + 2} AS "{name}"' for j, name in enumerate(names))
    connection.execute(f"CREATE TABLE named AS SELECT {columns}, i % 7 = 0 AS answer FROM range(840) r(i)")
    terms = {"classes": (False, True), "feature_sets": "singles", "categorical_features": names}
    found = bags_from_sql(connection, "named", names, "answer", **terms)
    frame = connection.execute("SELECT * FROM named").df()
    there = make_curated_bags(frame[names], frame.answer, **terms)
    assert [table.to_dict() for table in found.tables] == [table.to_dict() for table in there.tables]


@pytest.mark.parametrize(
    ("y", "terms"),
    [
        ("CASE WHEN random() < 0.4 THEN 'a' WHEN random() < 0.6 THEN 'b' ELSE 'c' END", {"classes": ("a", "b", "c")}),
        ("CAST(floor(random() * 10) AS BIGINT)", {"label_bounds": (0, 9)}),
    ],
)  # fmt: skip
def test_rows_that_differ_from_query_to_query_are_in_one_group_of_each_table(connection, y, terms):
    connection.execute(f"CREATE VIEW drawn AS SELECT few, flag, random() AS x, {y} AS y FROM rows")
    sets = [("few",), ("x",), ("few", "flag", "x")]
    bags = bags_from_sql(connection, "drawn", ["few", "flag", "x"], "y", feature_sets=sets, **terms)
    sums = [table.label_sums.sum(axis=0).tolist() for table in bags.tables]
    assert sums[0] == sums[1] == sums[2]
    if "classes" in terms:
        assert all((table.label_sums.sum(axis=1) == table.counts).all() for table in bags.tables)


@pytest.mark.parametrize("feature_sets", ["singles", [["c0", "c69"], [f"c{j}" for j in range(66)], ["c1"]]])
def test_more_columns_than_a_query_can_tell_apart(feature_sets):
    """GROUPING_ID is a number of 64 bits."""
    columns = ", ".join(f"((range * {j + 3}) % 11) % 3 = 1 AS c{j}" for j in range(70))
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE wide AS SELECT {columns}, range % 2 AS y FROM range(300)")
        found = bags_from_sql(connection, "wide", None, "y", feature_sets, classes=(0, 1), epsilon=1.0, random_state=0)
        rows = connection.execute("SELECT * FROM wide").df()
    assert [table.feature_set for table in found.tables][-1] in [("c69",), ("c1",)]
    if feature_sets == "singles":
        there = make_curated_bags(
            rows.drop(columns="y"), rows.y, feature_sets, classes=(0, 1), epsilon=1.0, random_state=0
        )
        assert [table.to_dict() for table in found.tables] == [table.to_dict() for table in there.tables]
    else:
        names = [f"c{j}" for j in range(66)]
        assert found.tables[1].counts.tolist() == rows.groupby(names).size().tolist()


@pytest.mark.parametrize("n_bins", [0, 1])
def test_fewer_than_two_bins_are_refused(connection, n_bins):
    with pytest.raises(ValueError, match="n_bins must be an int of at least 2"):
        bags_from_sql(connection, "rows", ["age"], "answer", classes=("no", "yes"), n_bins=n_bins)
