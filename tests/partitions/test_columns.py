"""Columns of rows in blocks are found by what they are for."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skprivate.partitions import Blocks, split_columns

TABLE = {"height": [1.0, 2.0, 3.0], "income": [10.0, 20.0, 30.0], "who": ["ann", "bob", "ann"]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_roles_of_frames(make):
    seen = []

    def look(block):
        seen.append(block)
        return np.zeros(1, dtype=int)

    table = make(TABLE)
    split_columns(Blocks([table[:2], table[2:]]), y="income", user_ids="who", private=None).sum(look)
    assert [block.of["user_ids"].tolist() for block in seen] == [["ann", "bob"], ["ann"]]
    assert [block.of["y"].tolist() for block in seen] == [[10.0, 20.0], [30.0]]
    assert all(set(block.of) == {"y", "user_ids"} for block in seen)
    names = [getattr(block.X, "column_names", None) or list(block.X.columns) for block in seen]
    assert names == [["height"]] * 2 and type(seen[0].X) is type(table)


def test_numbers_of_array_columns():
    rows = split_columns(Blocks([np.arange(6).reshape(2, 3)]), y=1)
    assert rows.sum(lambda block: np.r_[block.X.sum(axis=0), block.of["y"].sum()]).tolist() == [3, 7, 5]


@pytest.mark.parametrize(
    ("roles", "error", "words"),
    [
        ({"y": [1, 2, 3]}, TypeError, "y must name a column of X"),
        ({"y": "wage"}, ValueError, "X has no column 'wage'"),
        ({"y": "income", "user_ids": "income"}, ValueError, "a column of its own"),
        ({"y": "income", "user_ids": "who", "private": "height"}, ValueError, "no column of X is left"),
    ],
)
def test_what_is_no_column(roles, error, words):
    with pytest.raises(error, match=words):
        split_columns(Blocks([pd.DataFrame(TABLE)]), **roles)


def test_blocks_without_the_column():
    parts = [pd.DataFrame(TABLE), pd.DataFrame(TABLE).drop(columns="income")]
    with pytest.raises(ValueError, match="one has no column 'income'"):
        split_columns(Blocks(parts), y="income").n_rows  # noqa: B018
