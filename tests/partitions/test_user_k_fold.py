"""Folds of rows in blocks: the same users as in memory, wherever their rows lie."""

import uuid
from itertools import chain, pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import UserLevelSGDRegressor
from skprivate.model_selection import PrivateSearchCV, UserKFold
from skprivate.partitions import Blocks, as_partitions
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import public_generator

RNG = public_generator(0)
ROWS = pd.DataFrame(
    {"person": [f"p{k}" for k in RNG.integers(0, 80, size=400)], "number": np.arange(400), "cost": RNG.normal(size=400)}
)


def cut(rows, n_blocks):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


BACKENDS = {
    "7 blocks": lambda rows: Blocks(cut(rows, 7)),
    "200 blocks": lambda rows: Blocks([rows[:0], *cut(rows, 200), rows[:0]]),
    "polars": lambda rows: Blocks([pl.from_pandas(block) for block in cut(rows, 5)]),
    "arrow": lambda rows: ds.dataset([pa.Table.from_pandas(b, preserve_index=False) for b in cut(rows, 4)]),
    "Dask": lambda rows: dd.from_pandas(rows, npartitions=6),
}


def collected(rows, column):
    """A column of all rows, in the order of the source."""
    return np.concatenate(rows.gather(lambda block: [np.asarray(block[column])], lambda parts: list(chain(*parts))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "n_splits", "key"),
    [*((name, 2 if "200" in name else 4, None) for name in BACKENDS), ("7 blocks", 3, "another")],
)
def test_the_same_users_in_the_same_folds(backend, n_splits, key):
    cv = UserKFold(n_splits, key=key)
    with dask.config.set(scheduler="synchronous"):
        parts = list(cv.partition(BACKENDS[backend](ROWS), user_ids="person"))
        for (train, test), (first, second) in zip(parts, cv.split(ROWS, groups=ROWS["person"]), strict=True):
            assert collected(train, "number").tolist() == first.tolist()
            assert collected(test, "number").tolist() == second.tolist()
            assert (train.n_rows, test.n_rows) == (len(first), len(second))


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), min_size=1, max_size=20)
    | st.lists(st.text(max_size=3), min_size=1, max_size=20),
    st.lists(st.integers(0, 20), max_size=5),
)
def test_any_identifiers_in_any_blocks(ids, cuts):
    ids = [*ids, *([2**62 + k for k in range(3)] if isinstance(ids[0], int) else ["user a", "user b", "user c"])]
    rows = pd.DataFrame({"who": ids, "number": np.arange(len(ids))})
    ends = [0, *sorted(min(c, len(ids)) for c in cuts), len(ids)]
    blocks = Blocks([rows.iloc[a:b] for a, b in pairwise(ends)])
    cv = UserKFold(3)
    for (train, test), expected in zip(cv.partition(blocks, user_ids="who"), cv.split(rows, user_ids=ids), strict=True):
        for part, indices in zip((train, test), expected, strict=True):
            assert collected(part, "number").tolist() == indices.tolist()


def test_columns_of_arrays():
    rows = np.column_stack([np.arange(60) % 13, np.arange(60)])
    X = da.from_array(rows, chunks=(7, 2))
    with dask.config.set(scheduler="synchronous"):
        parts = list(UserKFold(3).partition(X, user_ids=0))
        for (_, test), (_, expected) in zip(parts, UserKFold(3).split(rows, user_ids=rows[:, 0]), strict=True):
            found = test.gather(lambda block: block[:, 1], np.concatenate)
            assert found.tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
@pytest.mark.filterwarnings("ignore::skprivate.preprocessing.TooFewUnitsWarning")
def test_a_fold_is_fitted_like_its_rows():
    rows = ROWS.drop(columns="person")
    for (train, _), (first, _) in zip(
        UserKFold(3).partition(Blocks(cut(rows, 9)), user_ids="number"),
        UserKFold(3).split(rows, user_ids=rows["number"]),
        strict=True,
    ):
        found = PrivateStandardScaler(random_state=0).fit(train)
        assert np.array_equal(found.mean_, PrivateStandardScaler(random_state=0).fit(rows.iloc[first]).mean_)


def test_the_number_of_all_rows_is_not_that_of_a_fold():
    blocks = as_partitions(Blocks(cut(ROWS, 3)))
    assert blocks.n_rows == 400
    for train, test in UserKFold(2).partition(blocks, user_ids="person"):
        assert 0 < test.n_rows < 400 and train.n_rows + test.n_rows == 400


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        ("cost", TypeError, "user_ids must hold integers"),
        ("nobody", ValueError, "no column 'nobody'"),
        (None, ValueError, "user_ids must name the column"),
        (ROWS["person"], TypeError, "user_ids must name a column"),
    ],
)
def test_what_names_no_users_is_refused(column, error, words):
    with pytest.raises(error, match=words):
        next(UserKFold().partition(Blocks(cut(ROWS, 3)), user_ids=column))


def test_blocks_of_other_identifiers_are_refused():
    ids = [5, "5", uuid.UUID(int=5), b"5", np.datetime64("2020-01-01")]
    for k, one in enumerate(ids):
        for other in ids[k + 1 :]:
            blocks = [pd.DataFrame({"who": [i], "cost": [1.0]}) for i in (one, other)]
            with pytest.raises(TypeError, match="of one kind"):
                next(UserKFold().partition(Blocks(blocks), user_ids="who"))
            assert len(list(UserKFold().partition(Blocks([blocks[0]] * 2), user_ids="who"))) == 5
    missing = Blocks([ROWS, ROWS.assign(person=None)])
    with pytest.raises(ValueError, match="missing entries"):
        next(UserKFold().partition(missing, user_ids="person"))


def test_tables_and_blocks_are_not_mistaken_for_each_other():
    with pytest.raises(TypeError, match=r"UserKFold.partition\(X, user_ids=column\)"):
        next(UserKFold().split(Blocks([ROWS]), user_ids="person"))
    with pytest.raises(TypeError, match="X must be rows in blocks, got DataFrame"):
        next(UserKFold().partition(ROWS, user_ids="person"))


def test_searches_refuse_blocks():
    search = PrivateSearchCV(UserLevelSGDRegressor(radius=5.0), {"radius": [1.0, 2.0]})
    with pytest.raises(TypeError, match="X must be a table in memory"):
        search.fit(Blocks([ROWS]), "cost")
