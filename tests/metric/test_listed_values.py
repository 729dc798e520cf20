"""Listed values of a table and the types of their columns: what does not fit is refused before it is paid for."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skprivate import MetricPrivateSynthesizer, PrivateTableSynthesizer
from skprivate.privacy import PrivacyLedger

N = np.arange(200) % 2
HALVES = np.array([0.1, 0.2])[N]
DAYS_OF_ROWS = [datetime.date(2020, 1, 1 + k) for k in N.tolist()]
TYPED = {
    "polars, narrow": (pl.Series(HALVES, dtype=pl.Float32), [0.1, 0.2]),
    "pandas, narrow": (pd.Series(HALVES, dtype="float32"), [0.1, 0.2]),
    "pandas, half": (pd.Series(HALVES, dtype="float16"), [0.1, 0.2]),
    "pandas, nullable": (pd.Series(HALVES, dtype="Float32"), [0.1, 0.2]),
    "arrow, narrow": (pa.array(HALVES, pa.float32()), [0.1, 0.2]),
    "integers": (pl.Series(N, dtype=pl.Int8), [0, 1]),
    "booleans": (pl.Series(N.astype(bool)), [0, 1]),
    "an enumeration": (pl.Series(["ab"[k] for k in N], dtype=pl.Enum(["a", "b", "c"])), ["a", "b"]),
    "more than pandas saw": (pd.Series(["ab"[k] for k in N], dtype="category"), ["a", "b", "c"]),
    "dates": (pl.Series(DAYS_OF_ROWS), [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]),
}
UNFIT = {
    "beyond an enumeration": (pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), ["a", "b", "c"], "not declare: 'c'"),
    "no category": (pd.Series(["a", "b"], dtype="category"), ["x", "y"], "not declare: 'x', 'y'"),
    "a third boolean": (pl.Series([True, False]), [0, 1, 2], "not declare: 2"),
    "too large an integer": (pl.Series([0, 1], dtype=pl.Int8), [0, 1, 300], "Int8 cannot hold all of"),
    "a negative count": (pl.Series([0, 1], dtype=pl.UInt8), [0, 1, -1], "UInt8 cannot hold all of"),
    "a fraction": (pl.Series([0, 1]), [0, 1, 0.5], "Int64 cannot hold all of"),
    "too large a float": (pl.Series([0.5, 1.0], dtype=pl.Float32), [0.5, 1e300], "Float32 cannot hold all of"),
    "a number among text": (pl.Series(["a", "b"]), ["a", "b", 3], "String cannot hold all of"),
    "a time among dates": (
        pl.Series(DAYS_OF_ROWS),
        [*DAYS_OF_ROWS[:2], datetime.datetime(2020, 1, 3, 5)],
        "Date cannot hold all of",
    ),
    "dates of times": (
        pd.to_datetime(pd.Series(DAYS_OF_ROWS)),
        [DAYS_OF_ROWS[0], pd.Timestamp("2020-01-02")],
        "cannot hold all of",
    ),
    "arrow's integers": (pa.array([0, 1], pa.int8()), [0, 1, 300], "int8 cannot hold all of"),
}


def table_of(column):
    if isinstance(column, pa.Array):
        return pa.table({"v": column})
    return column.to_frame("v") if isinstance(column, pl.Series) else pd.DataFrame({"v": column})


@pytest.mark.parametrize("name", TYPED)
def test_listed_values_are_found_in_the_type_of_their_column(name):
    column, values = TYPED[name]
    X = table_of(column)
    model = PrivateTableSynthesizer(50.0, schema={"v": {"values": values}}, random_state=0).fit(X)
    made = model.sample(200)["v"]
    assert made.is_null().sum() == 0 if isinstance(X, pl.DataFrame) else pd.Series(made).isna().sum() == 0
    assert len(set(map(str, made.to_pylist() if isinstance(X, pa.Table) else made.to_list()))) == 2


@pytest.mark.parametrize("name", UNFIT)
def test_values_that_a_column_cannot_hold_are_refused_before_anything_is_spent(name):
    column, values, why = UNFIT[name]
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(TypeError, match=f"^schema lists for column 'v' what its type.*{why}"):
        PrivateTableSynthesizer(5.0, schema={"v": {"values": values}}, ledger=ledger).fit(table_of(column))
    assert ledger.spent == (0.0, 0.0)


def test_the_synthesizer_of_distances_lists_values_as_their_column_has_them():
    X = pl.DataFrame({"v": pl.Series(HALVES, dtype=pl.Float32), "w": HALVES})
    options = {"bounds": {"w": (0.0, 1.0)}, "metric": "wasserstein", "random_state": 0}
    model = MetricPrivateSynthesizer(50.0, categories={"v": [0.1, 0.2]}, **options).fit(X)
    assert set(model.sample(100)["v"]) == set(X["v"])
    ledger = PrivacyLedger(epsilon=99.0)
    flags = X.with_columns(v=pl.col("v") > 0.15)
    with pytest.raises(TypeError, match="types that synthetic rows can have"):
        MetricPrivateSynthesizer(50.0, categories={"v": [True, False, 2]}, ledger=ledger, **options).fit(flags)
    assert ledger.spent == (0.0, 0.0)
