"""Rows in blocks: the same fit to the last bit, nothing spent on bad rows, no row outside the workers."""

import gc
import logging
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import MetricPrivateSynthesizer
from skprivate.partitions import Blocks, InMemory, as_partitions, is_partitioned
from skprivate.partitions._partitions import block_size
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
]
RNG = public_generator(0)
ROWS = pd.DataFrame(
    {
        "a": RNG.normal(size=997) * 10.0 ** RNG.integers(-200, 200, size=997),
        "b": RNG.normal(size=997),
        "c": RNG.integers(-3, 4, size=997),
    }
)
MIXED = ROWS[["b", "c"]].assign(colour=np.where(ROWS.a > 0, "red", "blue"))
SETTINGS = {
    "flow": {"metric": "wasserstein", "bounds": {"a": (-1e10, 1e10), "b": (-3, 3), "c": (-3, 3)}},
    "private bounds": {},
    "public bounds": {"bounds": (-3, 3)},
    "a given grid": {"bounds": (-3, 3), "resolution": 4},
}


def arrow_files(rows, folder, n_files):
    for k in range(n_files):
        pq.write_table(pa.Table.from_pandas(rows.iloc[k::n_files], preserve_index=False), folder / f"{k}.parquet")
    return ds.dataset(folder)


def in_blocks(rows, n_blocks):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


BACKENDS = {
    "7 blocks": lambda rows, folder: Blocks(in_blocks(rows, 7)),
    "1 000 blocks": lambda rows, folder: Blocks(lambda: iter(in_blocks(rows, 1000))),  # some of them empty
    "rows in another order": lambda rows, folder: Blocks([rows.iloc[::-2], rows.iloc[-2::-2]]),
    "files": lambda rows, folder: arrow_files(rows, folder, 5),
    "Dask": lambda rows, folder: dd.from_pandas(rows, npartitions=6),
}

EVERY = [pytest.param(name, marks=pytest.mark.slow if name == "1 000 blocks" else ()) for name in BACKENDS]


def fitted(X, **parameters):
    return MetricPrivateSynthesizer(5.0, random_state=3, **parameters).fit(X)


def assert_same(model, other):
    assert np.array_equal(model.measure_.weights, other.measure_.weights)
    assert np.array_equal(model.bounds_, other.bounds_)
    assert model.privacy_guarantee_ == other.privacy_guarantee_
    assert model.n_features_in_ == other.n_features_in_
    assert np.array_equal(model.feature_names_in_, other.feature_names_in_)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_measure_to_the_last_bit(setting, backend, tmp_path):
    X = BACKENDS[backend](ROWS, tmp_path)
    assert is_partitioned(X)
    model = fitted(X, **SETTINGS[setting])
    assert_same(model, fitted(ROWS, **SETTINGS[setting]))
    assert list(model.sample(2).__dataframe__().column_names() if backend == "files" else model.sample(2)) == [*"abc"]


@pytest.mark.parametrize("backend", EVERY)
def test_the_same_with_categories(backend, tmp_path):
    categories = {"colour": ["red", "blue", "green"]}
    model = fitted(BACKENDS[backend](MIXED, tmp_path), categories=categories)
    assert_same(model, fitted(MIXED, categories=categories))


@given(
    cuts=st.lists(st.integers(0, 40), max_size=12),
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=40, max_size=40),
)
@settings(deadline=None, max_examples=25)
def test_any_cuts_of_any_rows(cuts, values):
    rows = np.reshape(values, (-1, 1))
    parts = Blocks(np.split(rows, sorted(cuts)))
    for parameters in ({}, {"metric": "wasserstein", "bounds": (-1.0, 1e100)}):
        model, other = fitted(parts, **parameters), fitted(rows, **parameters)
        assert np.array_equal(model.measure_.weights, other.measure_.weights)
        assert np.array_equal(model.bounds_, other.bounds_)


def test_an_array_of_dask_without_names():
    rows = ROWS[["b", "c"]].to_numpy()
    model = fitted(da.from_array(rows, chunks=(100, 2)))
    assert np.array_equal(model.measure_.weights, fitted(rows).measure_.weights)
    assert isinstance(model.sample(2), np.ndarray) and not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("backend", ["7 blocks", "files", "Dask"])
@pytest.mark.parametrize("fault", ["NaN", "other columns", "outside", "strings"])
def test_bad_rows_are_refused_before_anything_is_spent(fault, backend, tmp_path, caplog):
    rows, parameters = ROWS.copy(), {}
    if fault == "NaN":
        rows.iloc[900, 1] = np.nan
    if fault == "strings":
        rows["b"] = rows["b"].map(lambda value: f"text {value:.17g}")
    if fault == "outside":
        parameters = {"bounds": (-3, 3), "out_of_bounds": "raise"}
    X = BACKENDS[backend](rows, tmp_path)
    if fault == "other columns":
        if backend != "7 blocks":
            pytest.skip("frames of one file or collection have the same columns")
        X = Blocks([*in_blocks(rows, 3), rows.rename(columns={"b": "z"})])
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError) as caught:
        fitted(X, ledger=ledger, **parameters)
    assert len(ledger.entries()) == 0
    secrets = [f"{value:.6g}"[:8] for value in ROWS["a"].iloc[900:905]]
    # The chain of an error shows arguments of no task, and no log does.
    told = str(caught.value) + caplog.text
    assert not any(secret in told for secret in secrets)
    wanted = {
        "NaN": "NaN in column",
        "other columns": "columns of the first one",
        "outside": "outside bounds",
        "strings": "numbers",
    }
    assert wanted[fault] in str(caught.value)


def test_a_source_is_read_again_and_again():
    with pytest.raises(TypeError, match="only once"):
        Blocks(iter([ROWS]))
    with pytest.raises(TypeError, match="got one DataFrame"):
        Blocks(ROWS)
    with pytest.raises(ValueError, match="no block"):
        _ = Blocks([]).empty
    sizes = iter([5, 5, 4, 4])
    changing = Blocks(lambda: iter([np.zeros((next(sizes), 1))]))
    assert changing.n_rows == 5
    with pytest.raises(RuntimeError, match="another number of rows"):
        for _ in range(3):
            changing.map(np.abs).sum(lambda block: np.array([len(block)]))


def test_a_collection_keeps_its_number_of_rows():
    frame, sizes = ROWS[["b"]], iter([5, 5, 4])
    rows = dd.from_map(lambda _: frame.iloc[: next(sizes)], [0], meta=frame.iloc[:0])
    with dask.config.set(scheduler="synchronous"):
        changing = as_partitions(rows)
        assert changing.n_rows == 5
        assert changing.map(np.abs).sum(block_size)[0] == 5
        with pytest.raises(RuntimeError, match="another number of rows"):
            changing.map(np.abs).sum(block_size)


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: rows.set_axis([0, 1, 2], axis=1)[[1, 0, 2]],
        lambda rows: rows.set_axis([0, 1, 7], axis=1),
        lambda rows: rows.to_numpy(),
    ],
    ids=["another order", "another name", "no names"],
)
def test_columns_of_blocks_do_not_change_places(other):
    """Names that are no text too, which scikit-learn compares with none."""
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    with pytest.raises(ValueError, match="columns of the first one"):
        fitted(Blocks([ROWS.set_axis([0, 1, 2], axis=1), other(ROWS)]), ledger=ledger)
    assert len(ledger.entries()) == 0


def _decode(block):
    raise UnicodeDecodeError("utf-8", b"\xffsecret", 0, 1, "of somebody")


def test_errors_in_blocks_of_which_nobody_knows_what_they_say():
    rows = as_partitions(da.from_array(np.ones((4, 2)), chunks=(2, 2))).map(_decode)
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(RuntimeError, match=r"could not be read: UnicodeDecodeError\.$"),
    ):
        rows.sum(block_size)


def test_columns_of_dask_arrays_lie_together():
    with pytest.raises(TypeError, match="rechunk"):
        as_partitions(da.zeros((10, 4), chunks=(5, 2)))
    with pytest.raises(TypeError, match="two-dimensional"):
        as_partitions(da.zeros(10))
    with pytest.raises(TypeError, match="Dask Series"):
        as_partitions(dd.from_pandas(ROWS, npartitions=2)["a"])


def test_sums_are_exact_beyond_int64():
    big = np.full((4, 1), 2**62, dtype=np.int64)
    parts = {
        "memory": InMemory(np.concatenate([big, big])),
        "blocks": Blocks([big, big]),
        "Dask": as_partitions(da.from_array(np.concatenate([big, big]), chunks=(4, 1))),
    }
    for name, rows in parts.items():
        assert rows.sum(lambda block: np.array([sum(block[:, 0].tolist())], dtype=object))[0] == 8 * 2**62, name


@pytest.mark.slow
def test_blocks_hold_one_block_at_a_time():
    alive = []

    class Counted(np.ndarray):
        def __array_finalize__(self, obj):
            pass

        def __del__(self):
            alive.remove(1)

    def read():
        for _ in range(6):
            block = np.ones((10, 1)).view(Counted)
            alive.append(1)
            yield block
            del block
            gc.collect()
            assert len(alive) <= 1  # what the reader still holds

    assert Blocks(read).sum(lambda block: np.array([np.asarray(block).size])).tolist() == [60]


@pytest.mark.parametrize(("n_rows", "epsilon", "message"), [(0, 1.0, "no rows"), (50, 1e-15, "too small")])
def test_nothing_is_spent_on_no_rows_or_on_no_budget(n_rows, epsilon, message):
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    parameters = {"metric": "wasserstein", "bounds": (0, 1), "ledger": ledger}
    with pytest.raises(ValueError, match=message):
        MetricPrivateSynthesizer(epsilon, random_state=3, **parameters).fit(Blocks([np.full((n_rows, 2), 0.5)]))
    assert len(ledger.entries()) == 0
