"""Blocks that lie in columns are read as they are in memory."""

from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from skprivate import MetricPrivateSynthesizer
from skprivate.metric._tables import numeric_table, read_tables
from skprivate.partitions import Blocks

COLUMNS = {
    "int8": pa.array([1, -2, 127], pa.int8()),
    "uint64": pa.array([0, 2**53 + 1, 2**64 - 1], pa.uint64()),
    "int64": pa.array([-(2**62) - 1, 2**53 + 1, 5], pa.int64()),
    "float32": pa.array([0.1, 1e-40, 3e38], pa.float32()),
    "float64": pa.array([0.1, 5e-324, 1e308], pa.float64()),
    "bool": pa.array([True, False, True]),
    "decimal": pa.array([Decimal("1.5"), Decimal("2.25"), Decimal("-3.5")]),
    "text": pa.array(["1.5", "2", "-3"]),
}


def as_blocks(table, kind):
    block = pl.from_arrow(table) if kind == "polars" else table
    return Blocks([block[:1], block[1:3], block[:0]])


def read(source):
    _, rows = read_tables(MetricPrivateSynthesizer(), source, numeric_table)
    parts = []
    for block in source:
        for function in rows._functions:
            block = function(block)
        parts.append(block)
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", ["arrow", "polars"])
@pytest.mark.parametrize("names", [[name] for name in COLUMNS] + [list(COLUMNS)[:5], list(COLUMNS)[:6]], ids="-".join)
def test_numbers_of_every_type(names, kind):
    table = pa.table({name: COLUMNS[name] for name in names})
    frame = pl.from_arrow(table) if kind == "polars" else table
    try:
        expected = numeric_table(MetricPrivateSynthesizer(), frame, reset=True)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            read(as_blocks(table, kind))
        return
    # Types next to each other may be joined first in memory, where blocks keep them apart; floats hold both.
    apart = np.column_stack(
        [
            numeric_table(
                MetricPrivateSynthesizer(), frame[[name]] if kind == "polars" else frame.select([name]), reset=True
            )
            for name in names
        ]
    )
    found = read(as_blocks(table, kind))
    assert np.array_equal(found, apart) and np.allclose(found, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_gaps_are_said_by_column(kind):
    table = pa.table({"a": [1, 2, 3], "b": [1, None, 3]})
    with pytest.raises(ValueError, match="NaN in column 'b'"):
        read(as_blocks(table, kind))


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_columns_do_not_change_places(kind):
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]})
    for other in (table.select(["b", "a"]), table.rename_columns(["a", "c"])):
        first, second = (pl.from_arrow(each) if kind == "polars" else each for each in (table, other))
        with pytest.raises(ValueError, match="columns of the first one"):
            read(Blocks([first, second]))
