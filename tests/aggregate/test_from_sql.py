"""Bags of a table in DuckDB: those of the same rows in memory, to the last bit, and no private value in a message."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from skprivate import CuratedBags, make_curated_bags
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
@pytest.mark.parametrize(
    "feature_sets", ["singles", "pairs", 3, [("age", "flag"), ("few",), FEATURES]], ids=str
)
def test_the_bags_of_the_same_rows_in_memory(connection, feature_sets, classes, epsilon):
    terms = {"epsilon": epsilon, "classes": classes, "random_state": None if epsilon is None else 4}
    # In memory, exact sums refuse a label outside the classes.
    table, rows = "rows", ROWS
    if epsilon is None and len(classes) == 2:
        table, rows = "(SELECT * FROM rows WHERE answer <> 'perhaps')", ROWS[ROWS.answer != "perhaps"]
    found = CuratedBags.from_sql(connection, table, FEATURES, "answer", feature_sets, **terms)
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
    found = CuratedBags.from_sql(
        connection, f"read_parquet('{path}')", ["age", "few", "flag"], "answer", **terms
    )
    terms["categorical_features"] = ["few", "flag"]
    there = make_curated_bags(ROWS[["age", "few", "flag"]], ROWS.answer, **terms)
    assert [table.to_dict() for table in found.tables] == [table.to_dict() for table in there.tables]
    assert found.columns == there.columns


def test_whole_numbers(connection):
    bounds = (0, 500)
    found = CuratedBags.from_sql(connection, "rows", ["flag"], "cents", label_bounds=bounds)
    wanted = ROWS.cents.clip(*bounds).groupby(ROWS.flag).sum()
    assert found.tables[0].label_sums[:, 0].tolist() == wanted.tolist()
    noisy = CuratedBags.from_sql(
        connection, "rows", ["flag", "few"], "cents", label_bounds=bounds, epsilon=1.0, random_state=0
    )
    # Three sets of columns, each moved by 500 at most: discrete Laplace noise of scale 1 500.
    assert noisy.tables[0].noise_variance == pytest.approx(2 * 1500.0**2, rel=1e-3)
    assert np.abs(noisy.tables[1].label_sums - 0).max() > 0 and noisy.guarantee.epsilon == pytest.approx(1.0)


def test_missing_labels_count_as_none(connection):
    connection.execute(
        "CREATE TABLE few AS SELECT * FROM (VALUES (1, NULL, NULL), (1, 'yes', 7), (1, 'x', -9)) t(k, a, b)"
    )
    by_class = CuratedBags.from_sql(connection, "few", ["k"], "a", classes=("no", "yes"))
    assert by_class.tables[0].label_sums.tolist() == [[1.0]] and by_class.tables[0].counts.tolist() == [3]
    numbers = CuratedBags.from_sql(connection, "few", ["k"], "b", label_bounds=(-3, 5))
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
        CuratedBags.from_sql(connection, **terms)
    assert len(ledger.entries()) == 0
    connection.execute("BEGIN TRANSACTION")  # none is left open
    connection.execute("ROLLBACK")


def test_an_open_transaction_stays_open(connection):
    connection.execute("BEGIN TRANSACTION")
    connection.execute("CREATE TABLE mine AS SELECT * FROM rows")
    CuratedBags.from_sql(connection, "mine", ["few"], "answer", classes=("no", "yes"))
    connection.execute("COMMIT")
    assert connection.execute("SELECT COUNT(*) FROM mine").fetchone() == (N,)
