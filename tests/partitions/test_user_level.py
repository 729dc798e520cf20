"""Users whose rows lie in many blocks: the same fit to the last bit, nothing spent on bad rows, no file left open."""

from collections import Counter
from functools import cache, partial
from itertools import pairwise
from uuid import UUID

import dask
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
from sklearn.linear_model import LinearRegression, LogisticRegression

from skprivate import UserLevelMean, UserLevelSelector, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.partitions import Blocks, InMemory, as_partitions
from skprivate.partitions import _blocks as spill_module
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.privacy._identifiers import identifier_tags
from skprivate.user_level._problems import UserGroups
from skprivate.user_level._rows import _of_users, by_user, numeric_target, read_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.UnscaledFeaturesWarning"),
]
FEATURES = ["a", "b", "c"]


def table(n_rows=900, n_users=90, seed=0):
    rng = public_generator(seed)
    rows = pd.DataFrame(rng.normal(size=(n_rows, 3)) * [1.0, 10.0, 1000.0] + [0.0, 50.0, 3.0], columns=FEATURES)
    rows["y"] = 3.0 * rows.a - rows.b + rng.normal(size=n_rows)
    rows["label"] = np.where(rows.a + rng.normal(size=n_rows) > 0, "yes", "no")
    rows["grade"] = np.digitize(rows.y, [-55, -45])
    rows["who"] = rng.integers(n_users, size=n_rows) * 7 - 100  # users of all sizes, scattered
    return rows


ROWS = table()
X = ROWS[FEATURES].to_numpy()
REGRESSIONS = [(f"r{k}", LinearRegression().fit(X[k::90], ROWS.y[k::90])) for k in range(3)]
CLASSIFIERS = [(f"c{k}", LogisticRegression().fit(X[k::90], ROWS.label[k::90])) for k in range(3)]


class Absolute:
    """A loss of somebody else's."""

    def gradient(self, X, y, coef):
        f = np.zeros(len(X))
        for j in range(X.shape[1]):
            f += X[:, j] * coef[j]
        return np.sign(f - y)[:, None] * X


regressor, classifier = UserLevelSGDRegressor, UserLevelSGDClassifier
CASES = {
    "regression": (regressor, "y", {}),
    "with little noise": (regressor, "y", {"epsilon": 60.0, "solver": "sgd"}),  # standardised, whitened
    "moments": (regressor, "y", {"epsilon": 3e3}),
    "Huber": (regressor, "y", {"loss": "huber", "epsilon": 60.0}),
    "a loss": (regressor, "y", {"loss": Absolute(), "max_iter": 5}),
    "private number": (regressor, "y", {"adjacency": "add-remove", "epsilon": 20.0}),
    "weights by rows": (regressor, "y", {"weight_cap": 8, "aggregation": "mean"}),
    "two classes": (classifier, "label", {"epsilon": 60.0}),
    "given classes": (classifier, "label", {"classes": ["no", "yes", "never"], "loss": "smoothed_hinge"}),
    "three classes": (classifier, "grade", {"class_weight": "balanced", "epsilon": 10.0}),
    "mean": (UserLevelMean, None, {"epsilon": 10.0}),
    "mean in a ball": (UserLevelMean, None, {"tau": 1e3, "bound": 1e6, "adjacency": "add-remove"}),
    "pure mean": (UserLevelMean, None, {"delta": 0, "epsilon": 100.0}),
    "pure mean in a cube": (UserLevelMean, None, {"delta": 0, "tau": 1e3, "bound": 1e6}),
    "differences": (partial(UserLevelSelector, REGRESSIONS), "y", {"epsilon": 20.0}),
    "votes": (partial(UserLevelSelector, CLASSIFIERS), "label", {"rule": "votes"}),
    "means": (partial(UserLevelSelector, REGRESSIONS), "y", {"rule": "means", "predict_by": "batch"}),
}


def model_of(case, **more):
    make, target, parameters = CASES[case]
    return make(random_state=5, **{**parameters, **more}), target


@cache
def in_memory(case):
    model, target = model_of(case)
    return fit_in_memory(model, ROWS, target)


def fit_in_memory(model, rows, target):
    y = () if target is None else (rows[target],)
    return model.fit(rows[FEATURES], *y, user_ids=rows["who"])


def fit_in_blocks(model, rows, target, user_ids="who"):
    y = () if target is None else (target,)
    with dask.config.set(scheduler="synchronous"):
        return model.fit(rows, *y, user_ids=user_ids)


def columns_for(rows, target):
    return rows[[*FEATURES, "who"] if target is None else [*FEATURES, target, "who"]]


def cut(rows, n_blocks):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


def arrow_files(rows, folder):
    for k in range(5):
        part = rows.iloc[k * 180 : (k + 1) * 180]
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"{k}.parquet")
    return ds.dataset(folder)


BACKENDS = {
    "7 blocks": lambda rows, folder: Blocks(cut(rows, 7)),
    "200 blocks": lambda rows, folder: Blocks(lambda: iter([rows[:0], *cut(rows, 200), rows[:0]])),
    "1 000 blocks": lambda rows, folder: Blocks(lambda: iter(cut(rows, 1000))),  # some of them empty
    "files": arrow_files,
    "Dask": lambda rows, folder: dd.from_pandas(rows, npartitions=6),
    "one block": lambda rows, folder: InMemory(rows),
}
FEW = ["with little noise", "three classes", "mean", "votes"]
EVERY = [
    *((case, "7 blocks") for case in CASES),
    *((case, backend) for case in FEW for backend in ("files", "Dask", "one block")),
    *((case, "200 blocks") for case in ("with little noise", "mean")),
    *(pytest.param(case, "1 000 blocks", marks=pytest.mark.slow) for case in FEW),
    ("a loss", "Dask"),
    ("moments", "Dask"),
    ("means", "Dask"),
]


def assert_same(model, other):
    names = {name for name in vars(other) if name.endswith("_") and not name.startswith("_")}
    assert names == {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    for name in names - {"best_estimator_"}:
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name, strict=True)
        elif isinstance(value, tuple):
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)
        else:
            np.testing.assert_equal(value, getattr(other, name), err_msg=name)  # a radius may be NaN


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("case", "backend"), EVERY)
def test_the_same_to_the_last_bit(case, backend, tmp_path):
    model, target = model_of(case)
    rows = BACKENDS[backend](columns_for(ROWS, target), tmp_path)
    assert_same(fit_in_blocks(model, rows, target), in_memory(case))


@pytest.mark.parametrize("case", ["with little noise", "three classes", "mean", "differences"])
@pytest.mark.parametrize("backend", ["7 blocks", "Dask"])
def test_rows_that_are_their_own_users(case, backend, tmp_path):
    model, target = model_of(case)
    few = ROWS.iloc[:150] if case == "differences" else ROWS
    rows = BACKENDS[backend](columns_for(few, target).drop(columns="who"), tmp_path)
    y = () if target is None else (few[target],)
    expected = model_of(case)[0].fit(few[FEATURES], *y)
    assert_same(fit_in_blocks(model, rows, target, user_ids=None), expected)


def test_parts_of_any_size(monkeypatch):
    """A part by itself, and all of them together."""
    monkeypatch.setattr(spill_module, "PARTS", 11)
    for size in (1, 1 << 12, 1 << 30):
        monkeypatch.setattr(spill_module, "READ_BYTES", size)
        model, target = model_of("with little noise")
        assert_same(
            fit_in_blocks(model, Blocks(cut(ROWS[[*FEATURES, "y", "who"]], 9)), target), in_memory("with little noise")
        )


def test_blocks_in_any_order():
    """A user's own rows count in the order in which they come."""
    blocks = cut(ROWS[[*FEATURES, "y", "who"]], 8)[::-1]
    model, target = model_of("with little noise")
    turned = fit_in_blocks(model, Blocks(blocks), target)
    assert_same(turned, fit_in_memory(model_of("with little noise")[0], pd.concat(blocks), target))
    # Where every user lies in one block, blocks may change places.
    blocks = [rows for _, rows in ROWS[[*FEATURES, "y", "who"]].groupby("who")][::-1]
    assert_same(fit_in_blocks(model_of("with little noise")[0], Blocks(blocks), target), in_memory("with little noise"))


@given(cuts=st.lists(st.integers(0, 60), max_size=9), users=st.lists(st.integers(-5, 5), min_size=60, max_size=60))
@settings(deadline=None, max_examples=15)
def test_any_cuts_and_any_users(cuts, users):
    rows = ROWS.iloc[:60].assign(who=users)
    ends = [0, *sorted(cuts), 60]
    parts = Blocks([rows[[*FEATURES, "y", "who"]].iloc[a:b] for a, b in pairwise(ends)])
    model = partial(UserLevelSGDRegressor, 1e4, random_state=0, max_iter=4)
    assert_same(fit_in_blocks(model(), parts, "y"), fit_in_memory(model(), rows, "y"))


def test_an_array_names_its_columns_by_number():
    rows = ROWS[[*FEATURES, "y"]].to_numpy()
    expected = UserLevelSGDRegressor(60.0, random_state=5).fit(rows[:, :3], rows[:, 3])
    blocks = da.from_array(rows, chunks=(200, 4))
    assert_same(fit_in_blocks(UserLevelSGDRegressor(60.0, random_state=5), blocks, 3, user_ids=None), expected)
    whole = np.rint(rows).astype(np.int64)
    expected = UserLevelSGDRegressor(60.0, random_state=5).fit(whole[:, [0, 2]], whole[:, 3], user_ids=whole[:, 1])
    blocks = da.from_array(whole, chunks=(200, 4))
    assert_same(fit_in_blocks(UserLevelSGDRegressor(60.0, random_state=5), blocks, 3, user_ids=1), expected)


# Who is the same user ------------------------------------------------------------------------------------------


def users_in(blocks):
    """Blocks of users as they are fitted: sizes of all users, and their tags."""
    rows = read_rows(
        UserLevelSGDRegressor(), Blocks(blocks), "who", numeric_target, blank=UserLevelSGDRegressor(), y="y"
    )
    users, n_users = by_user(rows, named=True)
    found = [
        (tuple(tag), size) for data in users for tag, size in zip(data.names.tolist(), data.groups.sizes, strict=True)
    ]
    users.close()
    assert len(found) == n_users == len({tag for tag, _ in found})  # nobody is in two blocks
    return sorted(found)


def frame(ids, make=pd.DataFrame):
    n = len(ids)
    return make({"x": np.arange(n, dtype=float), "y": np.ones(n), "who": ids})


INSTANTS = np.array(["2020-01-01", "2021-03-04", "2020-01-01"], dtype="datetime64[D]")
SAME = {
    "integers": [
        frame(np.array([1, 2, -3], dtype=np.int8)),
        frame(np.array([1, 2, 250], dtype=np.uint8)),
        frame(np.array([1, 2**63 + 5], dtype=np.uint64)),
        frame(pd.Series([1, 2, -3], dtype=object)),
        frame(pd.Series([2**63 + 5, -3, 2**70], dtype=object)),
        frame([1, 2], pa.table),
        frame(pd.Series([1, 2], dtype="Int64")),
    ],
    "strings": [
        frame(["ann", "bob", "a\0"]),
        frame(pd.Series(["bob", "ann", "ann"], dtype="category")),
        frame(["a", "bob"], pl.DataFrame),
        frame(pd.Series(["ann", "äöü"], dtype="string")),
    ],
    "instants": [frame(INSTANTS.astype(f"datetime64[{unit}]")) for unit in ("s", "ms", "us", "ns")],
    "bytes": [frame([b"x", b"y"]), frame([b"x\0", b"x"], pl.DataFrame)],
    "uuid": [frame([UUID(int=1), UUID(int=2)]), frame([UUID(int=2)])],
}


@pytest.mark.parametrize("kind", SAME)
def test_users_are_the_same_however_blocks_store_them(kind):
    """As if all identifiers lay in one list."""
    columns = [block["who"] for block in SAME[kind]]
    everybody = [
        value for ids in columns for value in (ids.to_pylist() if isinstance(ids, pa.ChunkedArray) else ids.to_list())
    ]
    if kind == "instants":
        everybody = [pd.Timestamp(value) for value in everybody]
    assert sorted(size for _, size in users_in(SAME[kind])) == sorted(Counter(everybody).values())


@pytest.mark.parametrize(
    ("blocks", "error", "words"),
    [
        ([frame([1, 2]), frame(["a", "b"])], TypeError, "got entries of type integer and string"),
        ([frame(["1"]), frame([1])], TypeError, "got entries of type integer and string"),
        ([frame([70]), frame([INSTANTS[0]])], TypeError, "integer and datetime64"),
        ([frame([1, 2]), frame([1.0, 2.0])], TypeError, "float64.*convert identifiers"),
        ([frame([1, 2]), frame([1.0, np.nan])], TypeError, "float64"),
        ([frame([1, 2]), frame(pd.Series([1, None], dtype="Int64"))], (TypeError, ValueError), "user_ids must"),
        ([frame(["a"]), frame(["a", None])], ValueError, "missing entries"),
        ([frame([True])], TypeError, "got entries of type bool"),
    ],
)
@pytest.mark.parametrize("backend", ["blocks", "Dask"])
def test_identifiers_of_other_kinds_are_refused(blocks, error, words, backend, spills):
    if backend == "Dask":
        rows = dd.from_map(lambda k: blocks[k], range(len(blocks)), meta=blocks[0][:0], enforce_metadata=False)
    else:
        rows = Blocks(blocks)
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    with pytest.raises(error, match=words):
        fit_in_blocks(UserLevelSGDRegressor(ledger=ledger, random_state=0), rows, "y")
    assert len(ledger.entries()) == 0 and all(spill.file.closed for spill in spills)


@given(st.lists(st.integers(-(2**70), 2**70) | st.integers(-3, 3), min_size=1, max_size=20))
def test_tags_tell_integers_apart(values):
    tags = identifier_tags(np.array(values, dtype=object))
    alike = (tags[:, None] == tags[None]).all(axis=2)
    # NumPy makes floats of a list of such integers.
    assert alike.tolist() == [[a == b for b in values] for a in values]
    small = [value for value in values if -(2**63) <= value < 2**63]
    np.testing.assert_array_equal(
        identifier_tags(np.array(small, dtype=np.int64)), identifier_tags(np.array(small, dtype=object))
    )


def test_users_whose_tags_begin_alike_stay_apart():
    tags = np.array([[5, 0, 0, 1], [5, 0, 0, 2], [5, 0, 0, 1], [4, 9, 9, 9]], dtype=np.uint64)
    data = _of_users((np.arange(4.0)[:, None], np.arange(4.0), tags), 1)
    assert data.groups.sizes.tolist() == [1, 2, 1] and data.X[:, 0].tolist() == [3.0, 0.0, 2.0, 1.0]
    assert isinstance(data.groups, UserGroups) and data.groups.in_order


@pytest.mark.parametrize("blocks", [False, True])
def test_a_message_about_arrow_rows_quotes_none_of_them(blocks):
    rows = pa.table({"height": [1.5, 123456.789, float("inf")], "y": [1.0, 2.0, 3.0]})
    source = (Blocks([rows]), "y") if blocks else (rows.select(["height"]), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="infinity in column 'height'") as caught:
        UserLevelSGDRegressor().fit(*source)
    assert "123456" not in str(caught.value)


# What is refused, and what is left ----------------------------------------------------------------------------


@pytest.fixture
def spills(monkeypatch):
    """All temporary files that are opened."""
    opened = []
    original = spill_module.Spill.__init__

    def recorded(self):
        original(self)
        opened.append(self)

    monkeypatch.setattr(spill_module.Spill, "__init__", recorded)
    return opened


def test_temporary_files_are_closed(spills):
    rows = Blocks(cut(ROWS[[*FEATURES, "y", "who"]], 5))
    model = UserLevelSGDRegressor(60.0, random_state=5)
    first = fit_in_blocks(model, rows, "y").coef_
    assert len(spills) >= 2 and all(spill.file.closed for spill in spills)
    np.testing.assert_array_equal(fit_in_blocks(model, rows, "y").coef_, first)  # the source is as it was
    before = len(spills)
    with pytest.raises(ValueError, match="labels that are not in classes"):
        fit_in_blocks(classifier(classes=[0, 1]), Blocks(cut(ROWS[[*FEATURES, "grade", "who"]], 5)), "grade")
    with pytest.raises(ZeroDivisionError):
        fit_in_blocks(UserLevelSGDRegressor(loss=Broken()), rows, "y")
    assert len(spills) > before and all(spill.file.closed for spill in spills)


class Broken(Absolute):
    def gradient(self, X, y, coef):
        raise ZeroDivisionError


@pytest.mark.parametrize("backend", ["7 blocks", "files", "Dask"])
@pytest.mark.parametrize(
    ("make", "change", "call", "words"),
    [
        (regressor, {}, {"y": None}, "y must name the column"),
        (regressor, {}, {"y": "wage"}, "no column 'wage'"),
        (regressor, {}, {"y": "y", "user_ids": "y"}, "a column of its own"),
        (regressor, {"b": np.inf}, {"y": "y"}, "infinity in column 'b'"),
        (regressor, {"y": np.inf}, {"y": "y"}, "y contains infinity"),
        (partial(classifier, classes=["yes", "never"]), {}, {"y": "label"}, "not in classes"),
        (classifier, {}, {"y": "y"}, "Unknown label type: continuous"),
        (classifier, {"label": "yes"}, {"y": "label"}, "only one class"),
        (partial(UserLevelSelector, REGRESSIONS), {}, {"y": "label"}, "y must hold numbers"),
        (partial(UserLevelSelector, CLASSIFIERS), {}, {"y": "y"}, "y must hold text, as .* does, got"),
    ],
)
def test_what_is_wrong_costs_nothing(make, change, call, words, backend, tmp_path):
    rows = ROWS.copy()
    for name, value in change.items():
        rows.loc[700 if name != "label" else rows.index, name] = value
    target = call["y"] if call["y"] in rows.columns else "y"
    source = BACKENDS[backend](columns_for(rows, target), tmp_path)
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    with pytest.raises((ValueError, TypeError), match=words) as caught, dask.config.set(scheduler="synchronous"):
        make(ledger=ledger, random_state=0).fit(source, **{"user_ids": "who", **call})
    assert len(ledger.entries()) == 0
    assert f"{ROWS.y[700]:.4g}" not in str(caught.value)


def test_no_rows_and_other_columns_are_refused():
    parts = cut(ROWS[[*FEATURES, "y", "who"]], 3)
    with pytest.raises(ValueError, match="no rows"):
        fit_in_blocks(UserLevelSGDRegressor(), Blocks([parts[0][:0], parts[0][:0]]), "y")
    with pytest.raises(ValueError, match="columns of the first one"):
        fit_in_blocks(UserLevelSGDRegressor(), Blocks([parts[0], parts[1].rename(columns={"b": "z"})]), "y")
    with pytest.raises(TypeError, match="several kinds"):
        fit_in_blocks(classifier(), Blocks([parts[0].assign(y="text"), parts[1].assign(y=1)]), "y")


# What blocks can do ---------------------------------------------------------------------------------------------


def arrays():
    rng = public_generator(3)
    places = rng.integers(0, 2**63, size=40).astype(np.uint64)
    which = rng.integers(40, size=700)
    return places[which], rng.normal(size=(700, 2)), np.arange(700)


@pytest.mark.parametrize(("backend", "count"), [("blocks", 1), ("blocks", 300), ("Dask", 1), ("Dask", 40)])
def test_shuffled_rows_of_a_place_lie_together_in_their_order(backend, count):
    places, values, numbers = arrays()
    parts = [(places[rows], values[rows], numbers[rows]) for rows in np.array_split(np.arange(700), count)]
    rows = Blocks(parts)
    if backend == "Dask":
        table_ = da.from_array(np.column_stack([numbers, values]), chunks=(-(-700 // count), 3))
        rows = as_partitions(table_).map(partial(with_place, places=places))
    with dask.config.set(scheduler="synchronous"):
        shuffled = rows.shuffle(first).persisted()
        (owners, times), (found, once) = shuffled.count(places_and_numbers)
        ordered = shuffled.sum(out_of_order)
        shuffled.close()
    assert (times == 1).all() and len(owners) == len(np.unique(places))  # each place in one block
    assert (once == 1).all() and found.tolist() == list(range(700))
    assert ordered.tolist() == [0]


def with_place(block, places):
    numbers = block[:, 0].astype(np.int64)
    return places[numbers], block[:, 1:], numbers


def first(block):
    return block[0]


def places_and_numbers(block):
    return np.unique(block[0]).view(np.int64), block[2]


def out_of_order(block):
    broken = 0
    for place in np.unique(block[0]):
        own = block[2][block[0] == place]
        broken += int((np.diff(own) < 0).sum())
    return np.array([broken])


@given(
    blocks=st.lists(st.lists(st.integers(-(2**62), 2**62) | st.integers(-2, 2), max_size=8), min_size=1, max_size=40)
)
@settings(deadline=None)
def test_counts_are_those_of_all_blocks_together(blocks):
    parts = Blocks([np.array(block, dtype=np.int64)[:, None] for block in blocks])
    ((keys, counts),) = parts.count(np.transpose)
    expected = np.unique(np.concatenate([np.array(block, dtype=np.int64) for block in blocks]), return_counts=True)
    np.testing.assert_array_equal(keys, expected[0])
    np.testing.assert_array_equal(counts, expected[1])


def test_a_source_that_changes_is_noticed_by_a_shuffle():
    sizes = iter([5, 4])
    rows = Blocks(lambda: iter([(np.zeros(next(sizes), dtype=np.uint64),)]))
    rows.n_rows  # noqa: B018
    with pytest.raises(RuntimeError, match="another number of rows"):
        rows.shuffle(first)
