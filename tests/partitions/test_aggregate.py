"""Labels in aggregate of rows in blocks: the same bags and models to the last bit, nothing spent on bad rows."""

import pickle
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    RandomBagClassifier,
    RandomBagRegressor,
    make_curated_bags,
    make_random_bags,
)
from skprivate.aggregate.tables import _blocks as _block_columns
from skprivate.aggregate.tables._blocks import learn_column
from skprivate.aggregate.tables._columns import QuantileSketch
from skprivate.partitions import Blocks
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
RNG = public_generator(0)
N = 800
ROWS = pd.DataFrame(
    {
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(40, 10, size=N)),
        "income": np.where(RNG.random(N) < 0.6, -0.0, RNG.exponential(size=N) * 1e5),
        "few": RNG.integers(0, 4, size=N),
        "place": RNG.choice(["a", "b'", None], size=N),
        "flag": RNG.random(N) < 0.3,
        "id": RNG.permutation(N) * 7,
        "answer": RNG.choice(["no", "yes", "perhaps"], size=N),
        "price": RNG.normal(size=N) * 10.0 ** RNG.integers(-3, 4, size=N),
        "sick": RNG.integers(0, 2, size=N),
    }
)
FEATURES = list(ROWS)[:5]
NUMBERS = ["age", "income", "few"]
LABELS = ["answer", "price", "sick"]


def in_blocks(rows, n_blocks):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


def some_empty(rows):
    parts = in_blocks(rows, 200)
    return [rows[:0], *parts[:100], *[rows[5:5]] * 8, *parts[100:], rows[:0]]


def arrow_files(rows, folder):
    for k, part in enumerate(in_blocks(rows, 5)):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"{k}.parquet")
    return ds.dataset(folder)


BACKENDS = {
    "7 blocks": lambda rows, folder: Blocks(in_blocks(rows, 7)),
    "blocks of polars": lambda rows, folder: Blocks([pl.from_pandas(part) for part in in_blocks(rows, 3)]),
    "210 blocks, some empty": lambda rows, folder: Blocks(some_empty(rows)),
    "files": lambda rows, folder: arrow_files(rows, folder),
    "Dask": lambda rows, folder: dd.from_pandas(rows, npartitions=6, sort=False),
}
EVERY = pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=pytest.mark.slow if "210" in name else ()) for name in BACKENDS]
)


def blocks_of(backend, label, folder, features=FEATURES, rows=ROWS, more=()):
    return BACKENDS[backend](rows[[*features, *more, label]], folder)


def public_state(model):
    state = {name: value for name, value in vars(model).items() if name.endswith("_") and name != "bags_"}
    return {**state, "bags_": model.bags_.to_dict()}


def assert_same(model, other):
    first, second = public_state(model), public_state(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, list):
            assert all(np.array_equal(a, b) for a, b in zip(value, second[name], strict=True)), name
        elif isinstance(value, (np.ndarray, float)):
            assert np.array_equal(value, second[name]), name
        else:
            assert value == second[name], name


@EVERY
@pytest.mark.parametrize(
    ("label", "terms"),
    [
        ("answer", {"epsilon": 0.5, "feature_sets": 4, "min_size": 5}),
        ("answer", {"epsilon": 1.0, "delta": 1e-6, "classes": ["no", "yes"], "n_bins": 5}),
        (
            "sick",
            {"epsilon": None, "feature_sets": [("age",), FEATURES], "categorical_features": ["few", "place", "flag"]},
        ),
        ("price", {"epsilon": 1.0, "label_bounds": (-10, 1e3), "bin_edges": {"age": [20.0, 50.0]}}),
        ("price", {"epsilon": 2.0, "feature_sets": "singles"}),
        ("price", {"epsilon": None, "feature_sets": "singles"}),
    ],
    ids=["entropy", "classes", "exact", "bounds", "range found", "exact numbers"],
)
def test_the_same_curated_bags(label, terms, backend, tmp_path):
    terms = {**terms, "random_state": None if terms["epsilon"] is None else 4}
    found = make_curated_bags(blocks_of(backend, label, tmp_path), label, **terms)
    assert found.to_dict() == make_curated_bags(ROWS[FEATURES], ROWS[label], **terms).to_dict()


@pytest.mark.slow
def test_many_blocks():
    X = blocks_of("210 blocks, some empty", "answer", None, ["few", "flag"])
    found = make_curated_bags(X, "answer", epsilon=1.0, random_state=0)
    assert (
        found.to_dict() == make_curated_bags(ROWS[["few", "flag"]], ROWS.answer, epsilon=1.0, random_state=0).to_dict()
    )


@EVERY
@pytest.mark.parametrize(
    ("model", "label"),
    [
        (CuratedBagGAMClassifier(2.0, random_state=1), "answer"),
        (CuratedBagGAMClassifier(None, feature_sets="pairs"), "sick"),
        (CuratedBagGAMRegressor(5.0, random_state=1), "price"),
    ],
    ids=["classes", "exact", "numbers"],
)
def test_the_same_additive_model(model, label, backend, tmp_path):
    X, y = ROWS[FEATURES], ROWS[label]
    expected = public_state(model.fit(X, y)), model.predict(X)
    there = type(model)(**model.get_params()).fit(blocks_of(backend, label, tmp_path), label)
    assert_same(there, model)
    assert np.array_equal(there.predict(X), expected[1])


@pytest.mark.take_turns(9)
@EVERY
@pytest.mark.parametrize("keys", [None, "id"])
@pytest.mark.parametrize(
    ("model", "label"),
    [
        (RandomBagClassifier(2.0, random_state=1), "answer"),
        (RandomBagClassifier(None, bag_size=3, n_bags=500, disjoint=False, random_state=2), "sick"),
        (RandomBagRegressor(5.0, random_state=1), "price"),
        (RandomBagRegressor(None, bag_size=2, random_state=1), "price"),
    ],
    ids=["classes", "exact", "numbers", "exact numbers"],
)
def test_the_same_linear_model(model, label, keys, backend, tmp_path):
    rows = ROWS.fillna({"age": 0.0})
    model.fit(rows[NUMBERS], rows[label], row_keys=None if keys is None else rows[keys])
    more = () if keys is None else (keys,)
    X = blocks_of(backend, label, tmp_path, NUMBERS, rows, more)
    assert_same(type(model)(**model.get_params()).fit(X, label, row_keys=keys), model)


@EVERY
@pytest.mark.parametrize("terms", [{}, {"numbers": True, "label_bounds": (0, 1)}, {"disjoint": True}], ids=str)
def test_the_same_random_bags(terms, backend, tmp_path):
    terms = {"bag_size": 5, "epsilon": 1.0, "random_state": 3, **terms}
    found = make_random_bags(blocks_of(backend, "sick", tmp_path), "sick", **terms)
    assert found.to_dict() == make_random_bags(ROWS[FEATURES], ROWS.sick, **terms).to_dict()


def test_an_array_of_dask_with_numbers_of_columns():
    table = ROWS[[*NUMBERS, "sick"]].to_numpy()
    X = da.from_array(table, chunks=(100, 4))
    model = CuratedBagGAMClassifier(2.0, classes=(0.0, 1.0), random_state=1)
    there = CuratedBagGAMClassifier(2.0, classes=(0.0, 1.0), random_state=1).fit(X, 3)
    assert_same(there, model.fit(table[:, :3], table[:, 3]))
    assert not hasattr(there, "feature_names_in_") and there.n_features_in_ == 3


@pytest.mark.parametrize("model", [RandomBagClassifier, RandomBagRegressor])
def test_bags_by_identifiers_do_not_depend_on_the_order_of_rows(model):
    rows = ROWS.fillna({"age": 0.0})
    shuffled = rows.iloc[RNG.permutation(N)]
    fits = [
        model(2.0, bag_size=4, random_state=1).fit(one[NUMBERS], one.sick, row_keys=one.id) for one in (rows, shuffled)
    ]
    fits.append(
        model(2.0, bag_size=4, random_state=1).fit(
            Blocks(in_blocks(shuffled[[*NUMBERS, "id", "sick"]], 9)), "sick", row_keys="id"
        )
    )
    for one, order in zip(fits[1:], (shuffled, shuffled), strict=True):
        assert np.array_equal(one.coef_, fits[0].coef_) and np.array_equal(one.intercept_, fits[0].intercept_)
        assert np.array_equal(one.bags_.label_sums, fits[0].bags_.label_sums)
        # The members are numbers of rows: other numbers, the same rows.
        assert np.array_equal(order.id.to_numpy()[one.bags_.members], rows.id.to_numpy()[fits[0].bags_.members])
    by_number = model(2.0, bag_size=4, random_state=1).fit(shuffled[NUMBERS], shuffled.sick)
    assert not np.array_equal(by_number.bags_.label_sums, fits[0].bags_.label_sums)


@pytest.mark.slow
def test_bags_by_identifiers_are_uniform():
    """Two given rows share a bag of two with probability 1/(n − 1), whatever their identifiers."""
    n, trials = 10, 4000
    keys = [f"{k}" * (k + 1) for k in range(n)]
    together = 0
    for seed in range(trials):
        bags = make_random_bags([[0]] * n, [0] * n, 2, disjoint=True, row_keys=keys, random_state=seed)
        together += any({0, 1} == set(pair) for pair in bags.members.reshape(-1, 2).tolist())
    p = 1 / (n - 1)
    # 5 standard deviations: fails with probability 6e-7.
    assert abs(together / trials - p) < 5 * np.sqrt(p * (1 - p) / trials)


def test_labels_do_not_move_bags():
    """Membership is a function of identifiers and seed alone."""
    X, keys = ROWS[NUMBERS].fillna(0.0), ROWS.id
    first, second = (make_random_bags(X, y, 5, row_keys=keys, random_state=1) for y in (ROWS.sick, 1 - ROWS.sick))
    assert np.array_equal(first.members, second.members)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.arange(N) // 2, "distinct"),
        (np.arange(N - 1), "one identifier for each"),
        (np.append(np.arange(N - 1.0), np.nan), "none may be missing"),
        (np.append(np.arange(N - 1.0), np.nan).astype(object), "none may be missing"),
        (np.append(np.arange(N - 1), np.iinfo(np.int64).min).astype("M8[D]"), "none may be missing"),
        (np.array([*range(N - 1), "x"], dtype=object), "all of them text"),
    ],
)
def test_bad_identifiers(keys, message):
    ledger = PrivacyLedger(epsilon=5.0, unit="label", simulation=True)
    for release in (
        lambda: make_random_bags(
            ROWS[NUMBERS], ROWS.sick, 5, epsilon=1.0, row_keys=keys, random_state=0, ledger=ledger
        ),
        lambda: RandomBagClassifier(1.0, random_state=0, ledger=ledger).fit(
            ROWS[NUMBERS].fillna(0.0), ROWS.sick, row_keys=keys
        ),
    ):
        with pytest.raises(ValueError, match=message):
            release()
    assert not ledger.entries()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.floats(), st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308])
        ),
        min_size=1,
        max_size=120,
    ),
    st.lists(st.integers(0, 120), max_size=6),
    st.integers(2, 9),
    st.integers(1, 4),
)
def test_bins_of_any_numbers_in_any_blocks(values, cuts, n_bins, room):
    """Cells are too few here to hold all numbers, so that they are looked at again."""
    values = np.array(values)
    column = learn_column(values, "v", categorical=False, n_bins=n_bins)
    parts = np.split(values, sorted(min(cut, values.size) for cut in cuts))
    most = n_bins + room
    spread = QuantileSketch.merge([QuantileSketch.from_numbers(part).compress(most) for part in parts], most)
    assert spread.counts.sum() == np.isfinite(values).sum() and spread.keys.size <= most
    while not isinstance(found := spread.edges(n_bins), tuple):
        within = spread.intervals(found)
        finer = QuantileSketch.merge([QuantileSketch.from_numbers(part, within).compress(most) for part in parts], most)
        spread = spread.refine(found, finer)
    assert found == column.edges


@pytest.mark.parametrize("n_bins", [2, 16])
def test_bins_where_not_all_numbers_are_held(n_bins, monkeypatch):
    monkeypatch.setattr("skprivate.aggregate.tables._columns.MAX_CELLS", 20)
    passes = []
    closer = _block_columns._sketch_within
    monkeypatch.setattr(_block_columns, "_sketch_within", lambda *a, **k: passes.append(1) or closer(*a, **k))
    X = blocks_of("7 blocks", "sick", None)
    found = make_curated_bags(X, "sick", "singles", n_bins=n_bins)
    assert found.to_dict() == make_curated_bags(ROWS[FEATURES], ROWS.sick, "singles", n_bins=n_bins).to_dict()
    assert len(passes) >= 7


@pytest.mark.parametrize("taken", ["from_dtype", "all"])
def test_types_that_differ_from_block_to_block(taken):
    """What a column holds is known once all of it is seen."""
    rows = pd.DataFrame({"v": np.array([1, 2, 3, 4, "b", None, 2, 1], dtype=object), "y": [0, 1] * 4})
    numbers = pd.DataFrame({"v": np.array([5, 6, 7, None, 5, 6], dtype=object), "y": [0, 1] * 3})
    for table in (rows, numbers):
        parts = [table[:2].astype({"v": int}), table[2:3], table[3:]]
        found = make_curated_bags(Blocks(parts), "y", "singles", categorical_features=taken)
        there = make_curated_bags(table[["v"]], table.y, "singles", categorical_features=taken)
        assert found.to_dict() == there.to_dict()
        assert str(found.columns) == str(there.columns)


def test_zeros_of_both_signs_are_one_number():
    values = np.array([0.0, -0.0, 1.0, -1.0] * 3)
    for order in (values, values[::-1]):
        column = learn_column(order, "v", categorical=False, n_bins=2)
        assert str(column.edges) == str((0.0, 1.0)) and np.unique(column.encode(order)).size == 3


def test_integers_that_floats_do_not_tell_apart():
    rows = pd.DataFrame({"v": 2**60 + np.arange(8) % 4, "y": [0, 1] * 4})
    found = make_curated_bags(Blocks([rows[:3], rows[3:]]), "y", "singles", categorical_features="all")
    assert found.to_dict() == make_curated_bags(rows[["v"]], rows.y, "singles", categorical_features="all").to_dict()
    assert found.tables[0].counts.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("backend", ["7 blocks", "files", "Dask"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "y must name the column"),
        ({"y": "nothing"}, "no column 'nothing'"),
        ({"y": np.zeros(N)}, "must name a column"),
        ({"bad": True}, "NaN"),
        ({"row_keys": "few"}, "distinct"),
    ],
    ids=["none", "absent", "values", "NaN", "keys"],
)
def test_refusals_spend_nothing(backend, change, message, tmp_path):
    rows = ROWS.fillna({"age": 0.0}).astype({"sick": float})
    if change.get("bad"):
        rows.loc[700, "sick"] = np.nan
    X = BACKENDS[backend](rows[[*NUMBERS, "sick"]], tmp_path)
    ledger = PrivacyLedger(epsilon=50.0, unit="label", simulation=True)
    keys = {"row_keys": change["row_keys"]} if "row_keys" in change else {}
    models = [RandomBagClassifier, RandomBagRegressor]
    for model in models if keys else [*models, CuratedBagGAMClassifier, CuratedBagGAMRegressor]:
        with pytest.raises((ValueError, TypeError), match=message):
            model(1.0, ledger=ledger, random_state=0).fit(X, change.get("y", "sick"), **keys)
    if not keys:
        with pytest.raises((ValueError, TypeError), match=message):
            make_curated_bags(X, change.get("y", "sick"), epsilon=1.0, ledger=ledger, random_state=0)
    assert not ledger.entries()


@pytest.mark.parametrize("change", ["fewer rows", "other blocks"])
def test_a_source_that_changes_is_noticed(change):
    parts = in_blocks(ROWS[[*NUMBERS, "sick"]].fillna(0.0), 4)
    other = parts[:3] if change == "fewer rows" else [parts[0][:-1], pd.concat([parts[0][-1:], parts[1]]), *parts[2:]]
    passes = []

    def read():
        passes.append(1)
        return parts if len(passes) < 3 else other

    with pytest.raises(RuntimeError, match="another number of rows"):
        make_random_bags(Blocks(read), "sick", 4)
    if change == "fewer rows":
        passes.clear()
        with pytest.raises(RuntimeError, match="another number of rows"):
            make_curated_bags(Blocks(read), "sick", "singles")


def test_what_travels_holds_no_ledger():
    """A ledger cannot be pickled; what workers get can be, whatever the estimator has."""
    ledger = PrivacyLedger(epsilon=50.0, unit="label", simulation=True)
    sent = []

    class Sending(Blocks):
        def gather(self, form, combine, *, beside=None):
            sent.append(len(pickle.dumps((self._functions, form, combine))))
            return super().gather(form, combine, beside=beside)

        def sum(self, contribution):
            sent.append(len(pickle.dumps((self._functions, contribution))))
            return super().sum(contribution)

    X = Sending(in_blocks(ROWS.fillna({"age": 0.0})[[*NUMBERS, "sick"]], 3))
    for model in (CuratedBagGAMClassifier, RandomBagClassifier, CuratedBagGAMRegressor, RandomBagRegressor):
        model(1.0, ledger=ledger, random_state=0).fit(X, "sick")
    assert len(sent) >= 10 and len(ledger.entries()) == 4
