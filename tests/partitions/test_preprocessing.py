"""Private preprocessing of rows in blocks: the same constants to the last bit, nothing spent on bad rows."""

from itertools import chain, pairwise

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from helpers.real_cluster import losing_one, real_cluster, slowly
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import PrivacyLedger
from skprivate.partitions import Blocks, as_partitions
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateOneHotEncoder,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skprivate.privacy import public_generator
from skprivate.privacy.draws._quantiles import WeightedCells, merge_cells, weigh

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.preprocessing.TooFewUnitsWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.privacy.LargeDeltaWarning"),
]
RNG = public_generator(0)
N = 911
ROWS = pd.DataFrame(
    {
        "wide": RNG.normal(size=N) * 10.0 ** RNG.integers(-200, 200, size=N),
        "plain": RNG.normal(70.0, 5.0, size=N),
        "few": RNG.integers(0, 3, size=N).astype(float),
    }
)
ROWS.iloc[::9, 1] = np.nan
ROWS.iloc[5::7, 2] = np.nan
TEXTS = pd.DataFrame({"site": RNG.choice(["a", "b", "c"], size=N), "grade": RNG.integers(0, 4, size=N)})
TEXTS.iloc[::11, 0] = None
BOUNDS = {"wide": (-10, 10), "plain": (40, 100), "few": (0, 2)}
MODELS = {
    "scaler": PrivateStandardScaler(3.0),
    "scaler, many columns' noise": PrivateStandardScaler(3.0, delta=0.01, adjacency="add-remove"),
    "scaler, bounds": PrivateStandardScaler(3.0, bounds=BOUNDS),
    "quantiles": PrivateQuantileTransformer(3.0, n_quantiles=9),
    "quantiles, bounds": PrivateQuantileTransformer(3.0, n_quantiles=9, bounds=BOUNDS, adjacency="add-remove"),
    "bins": PrivateKBinsDiscretizer(3.0, n_bins=[2, 5, 3]),
    "splines": PrivateSplineTransformer(3.0, n_knots=9),
    "splines, bounds": PrivateSplineTransformer(3.0, bounds=BOUNDS, basis="b-spline", adjacency="add-remove"),
    "medians": PrivateImputer(3.0),
    "medians, bounds": PrivateImputer(3.0, bounds=BOUNDS, adjacency="add-remove"),
    "means": PrivateImputer(3.0, strategy="mean"),
    "categories": PrivateOneHotEncoder(3.0, delta=0.01),
    "modes": PrivateImputer(3.0, strategy="most_frequent", categories=[["a", "b", "z"], [0, 1, 2, 3]]),
}


def cut(rows, n_blocks):
    """Blocks of all sizes, some of them empty."""
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    ends[1:-1] += public_generator(n_blocks).integers(-2, 3, size=n_blocks - 1)
    ends = np.sort(np.clip(ends, 0, len(rows)))
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


BACKENDS = {
    "7 blocks": lambda rows: Blocks(cut(rows, 7)),
    "300 blocks": lambda rows: Blocks(lambda: iter(cut(rows, 300))),
    "empty blocks": lambda rows: Blocks([rows[:0], *cut(rows, 2), rows[:0], rows[:0]]),
    "rows in another order": lambda rows: Blocks([rows.iloc[::-2], rows.iloc[-2::-2]]),
    "polars": lambda rows: Blocks([pl.from_pandas(block) for block in cut(rows, 5)]),
    "arrow": lambda rows: ds.dataset([pa.Table.from_pandas(b, preserve_index=False) for b in cut(rows, 4)]),
    "Dask": lambda rows: dd.from_pandas(rows, npartitions=6),
}


def rows_of(name):
    return TEXTS if name in ("categories", "modes") else ROWS


def fitted(name, X, **parameters):
    return type(MODELS[name])(**{**MODELS[name].get_params(), "random_state": 3, **parameters}).fit(X)


def facts(model):
    """All that was fitted."""
    return {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}


def assert_same(model, other):
    assert facts(model).keys() == facts(other).keys()
    for key, value in facts(model).items():
        np.testing.assert_equal(value, facts(other)[key], err_msg=key)


@pytest.mark.take_turns(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_constants_to_the_last_bit(name, backend):
    rows = rows_of(name)
    with dask.config.set(scheduler="synchronous"):
        assert_same(fitted(name, BACKENDS[backend](rows)), fitted(name, rows))


def test_arrays_without_names():
    rows = ROWS.to_numpy()
    model = fitted("scaler", Blocks(np.array_split(rows, 9)))
    assert_same(model, fitted("scaler", rows))
    assert not hasattr(model, "feature_names_in_")


@given(
    cuts=st.lists(st.integers(0, 30), max_size=9),
    values=st.lists(st.floats(allow_infinity=False), min_size=30, max_size=30),
)
@settings(deadline=None, max_examples=20)
def test_any_cuts_of_any_rows(cuts, values):
    rows = np.reshape(values, (-1, 1))
    parts = Blocks(np.split(rows, sorted(cuts)))
    for kind in (PrivateStandardScaler, PrivateQuantileTransformer):
        assert_same(kind(9.0, random_state=1).fit(parts), kind(9.0, random_state=1).fit(rows))


@given(st.lists(st.lists(st.integers(-5, 5), max_size=8), min_size=1, max_size=6))
def test_merged_cells_are_those_of_all_rows(parts):
    merged = merge_cells([weigh(np.array(part, dtype=np.int64), None, 1 << 20) for part in parts])
    whole = weigh(np.array(list(chain(*parts)), dtype=np.int64), None, 1 << 20)
    assert merged.cells.tolist() == whole.cells.tolist() and merged.weights.tolist() == whole.weights.tolist()
    big = merge_cells([WeightedCells(np.array([4]), np.array([2**60]))] * 3)
    assert big.weights.tolist() == [3 * 2**60]


@pytest.mark.parametrize(("name", "passes"), [("scaler", 4), ("scaler, bounds", 2), ("bins", 3), ("modes", 2)])
def test_passes_do_not_grow_with_the_columns(name, passes):
    seen = []

    def read():
        seen.append(1)
        return iter(cut(rows_of(name), 3))

    blocks = Blocks(read)
    _ = blocks.empty
    seen.clear()
    fitted(name, blocks)
    assert len(seen) == passes


@pytest.mark.parametrize("backend", ["7 blocks", "arrow", "Dask"])
@pytest.mark.parametrize("fault", ["infinity", "texts", "another column"])
def test_bad_rows_are_refused_before_anything_is_spent(fault, backend):
    rows = ROWS.copy()
    if fault == "infinity":
        rows.iloc[900, 1] = np.inf
    if fault == "texts":
        rows["plain"] = rows["plain"].map(lambda value: f"secret {value:.3f}")
    X = BACKENDS[backend](rows)
    if fault == "another column":
        X = Blocks([*cut(rows, 2), rows.rename(columns={"plain": "other"})])
    ledger = PrivacyLedger(epsilon=10.0, delta=0.1, simulation=True)
    words = {"infinity": "infinity in column 'plain'", "texts": "'plain'", "another column": "blocks must all"}
    for adjacency in ("replace-one", "add-remove"):
        with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=words[fault]) as caught:
            fitted("scaler", X, ledger=ledger, adjacency=adjacency)
        assert "secret" not in str(caught.value)
    assert len(ledger.entries()) == 0


def test_no_rows_and_users_in_blocks_are_refused():
    ledger = PrivacyLedger(epsilon=10.0, delta=0.1, simulation=True)
    for model in MODELS.values():
        model = type(model)(**{**model.get_params(), "ledger": ledger})
        with pytest.raises(ValueError, match="user_ids must be None if X is in blocks"):
            model.fit(Blocks([ROWS]), user_ids="few")
        with pytest.raises(ValueError, match="no rows in its blocks|one list for each of the 3 columns"):
            model.fit(Blocks([ROWS[:0], ROWS[:0]]))
    assert len(ledger.entries()) == 0


# --- a real cluster --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n_workers", [1, 4])
def test_the_same_on_a_cluster_that_loses_a_worker(n_workers):
    with real_cluster(n_workers) as client:
        for name in ("scaler", "quantiles", "modes"):
            rows = rows_of(name)
            X = as_partitions(dd.from_pandas(rows, npartitions=20)).map(slowly)
            with losing_one(client):
                model = fitted(name, X)
            assert_same(model, fitted(name, rows))
