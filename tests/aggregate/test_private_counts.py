"""Counts by group: the same for all libraries, private for whole users, true within their intervals."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.every import every

from skprivate import PrivacyLedger, private_counts
from skprivate.aggregate.counts import _private_counts as module
from skprivate.aggregate.counts._groups import read_groups
from skprivate.partitions import Blocks
from skprivate.privacy import chosen_keys
from skprivate.utils.estimator_checks import replay

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def frame(n=6000, users=900, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "place": rng.choice(["a", "b", "c", "d", "é"], n, p=[0.5, 0.3, 0.15, 0.049, 0.001]),
        "kind": rng.integers(0, 3, n),
        "delay": rng.normal(10.0, 20.0, n),
        "who": rng.integers(0, users, n),
    })  # fmt: skip


def plain(table):
    """The columns as lists, from any library; None where missing."""
    if isinstance(table, pd.DataFrame):
        table = table.astype(object).where(table.notna(), None)
        return {name: table[name].tolist() for name in table}
    found = table.to_pydict() if isinstance(table, pa.Table) else table.to_dict(as_series=False)
    return {name: [None if v != v else v for v in column] for name, column in found.items()}


@pytest.mark.parametrize("user", [None, "who"])
def test_any_library_order_or_block_gives_the_same(user):
    duckdb = pytest.importorskip("duckdb")
    X = frame()
    shuffled = X.sample(frac=1.0, random_state=1)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    tables = {
        "pandas": X,
        "shuffled": shuffled,
        "polars": pl.from_pandas(X),
        "pyarrow": arrow,
        "duckdb": duckdb.connect().from_arrow(arrow),
        "blocks": Blocks([X.iloc[:100], X.iloc[100:4000], X.iloc[4000:]]),
    }
    found = {
        name: private_counts(table, ["place", "kind"], values={"delay": (-60, 180)}, user_ids=user, **BUDGET)
        for name, table in tables.items()
    }
    first = found["pandas"]
    assert len(first.table) >= 5 and first.guarantee.epsilon <= 1.0
    for name, counts in found.items():
        assert plain(counts.table) == plain(first.table), name
        assert (counts.noise, counts.threshold, counts.max_groups, counts.lost) == (
            first.noise, first.threshold, first.max_groups, first.lost
        )  # fmt: skip
    assert isinstance(found["polars"].table, pl.DataFrame) and isinstance(found["pyarrow"].table, pa.Table)


def without(X, who):
    return X[X["who"] != who]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("options", [{}, {"max_groups": 2}, {"max_groups": 30}, {"keys": ["a", "b", "z"]}])
def test_a_user_moves_every_draw_by_its_sensitivity_at_most(adjacency, options):
    X = frame(400, 40)
    alone = pd.DataFrame({"place": [f"only {i}" for i in range(50)], "kind": 0, "delay": 1e300, "who": 3})
    heavy = pd.concat([without(X, 3), alone])
    other = [heavy] if adjacency == "replace-one" else [without(X, 3), pd.concat([X, alone.assign(who=99)])]

    def run(rows):
        counts = private_counts(
            rows, "place", values={"delay": (-60, 180)}, user_ids="who", adjacency=adjacency, **options, **BUDGET
        )
        return {**plain(counts.table), "lost": counts.lost}

    report = replay(run, X, other)
    assert not report.failures, report.failures
    kind = "threshold_counts" if "keys" not in options else None
    assert kind is None or 0.0 < report.worst[kind] <= 1.0


def test_half_of_the_sensitivity_is_seen(monkeypatch):
    whole = module.GroupCounts._sensitivity
    monkeypatch.setattr(module.GroupCounts, "_sensitivity", lambda *options: 0.5 * whole(*options))
    X = frame(400, 400)
    both = pd.concat([without(X, 3), pd.DataFrame({"place": ["a", "b"], "kind": 0, "delay": 180.0, "who": 3})])

    def run(rows):
        return plain(
            private_counts(rows, "place", user_ids="who", max_groups=2, adjacency="add-remove", **BUDGET).table
        )

    assert "times its sensitivity" in replay(run, both, [without(X, 3)]).failures[0]


def test_rows_are_units_without_users():
    X = frame(300)
    run = lambda rows: plain(private_counts(rows, "place", values={"delay": (0, 1)}, **BUDGET).table)  # noqa: E731
    other = X.copy()
    other.loc[5, ["place", "delay"]] = ["somewhere new", -1e9]
    assert not replay(run, X, [other]).failures


def bounded(groups, most, salt):
    return chosen_keys(groups.tags, groups.unit, groups.keys, groups.group, most=most, salt=salt)


def test_which_groups_of_a_user_count_depends_on_nobody_else():
    X = frame(2000, 100)
    types = {name: X[name].dtype for name in ("place", "kind")}
    groups, fewer = (read_groups(rows, types, {}, "who") for rows in (X, without(X, 7)))

    def kept(found):
        chosen = bounded(found, 2, 5)
        names = found.tags[:, 0]
        return {(int(names[u]), found.keys[g]) for u, g, c in zip(found.unit, found.group, chosen, strict=True) if c}

    assert kept(fewer) == {pair for pair in kept(groups) if pair[0] != 7}
    assert max(np.bincount([user for user, _ in kept(groups)])) == 2


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), None])
def test_which_of_two_long_decimals_counts_depends_on_nobody_else(kind):
    """Beyond 28 digits and as objects, the choice is that of the value, and not of the row that comes first."""
    first, last = (Decimal(f"1234567890123456789012345678901234567{digit}") for digit in ("1", "2" if kind else "1.0"))

    def kept(before):
        values, who = [*before, first, last], [*range(9, 9 + len(before)), 1, 1]
        table = (
            pa.table({"k": pa.array(values, kind), "who": who})
            if kind
            else pd.DataFrame({"k": pd.Series(values, dtype=object), "who": who})
        )
        groups = read_groups(table, {"k": kind or np.dtype(object)}, {}, "who")
        own = groups.tags[groups.unit, 0] == 1
        return [[groups.keys[k] for k in groups.group[own & bounded(groups, 1, salt)]] for salt in range(8)]

    assert repr(kept([first])) == repr(kept([last]))


HUGE = {"int": 10**5000, "large": Decimal("1E+9999999"), "small": Decimal("-1E-9999999"), "sNaN": Decimal("sNaN")}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("user", [None, "who"])
def test_no_entry_of_a_column_of_objects_is_an_error(name, user):
    """An error would say, unpaid, that somebody has such an entry."""
    X = pd.DataFrame({"k": pd.Series(["a"] * 2999 + [HUGE[name]], dtype=object), "who": np.arange(3000) // 2})
    found = private_counts(X, "k", user_ids=user, max_groups=2 if user else "auto", **BUDGET)
    assert found.table["k"].tolist() == ["a"]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_beside_laplace_noise_cover_as_they_say(level):
    """3 000 known groups: within four standard errors of the level, or above it."""
    X = pd.DataFrame({"place": np.repeat(np.arange(3000), 60), "delay": 15.0})
    table = private_counts(
        X, "place", keys=range(3000), values={"delay": (0, 20)}, epsilon=0.5, delta=0.0, level=level, random_state=1
    ).table
    for name, truth in (("count", 60), ("delay_mean", 15.0)):
        covered = np.mean((table[f"{name}_low"] <= truth) & (truth <= table[f"{name}_high"]))
        assert covered > level - 4 * np.sqrt(level * (1 - level) / 3000), name


def test_intervals_cover_as_they_say():
    """200 places of 30 to 4 000 rows, five releases; 95 % within 1.5 % (over four standard errors)."""
    rng = np.random.default_rng(0)
    sizes = np.geomspace(60, 4000, 200).astype(int)
    X = pd.DataFrame({"place": np.repeat(np.arange(200), sizes), "delay": 0.0})
    X["delay"] = rng.uniform(0, 10, len(X))
    truth, means = X.groupby("place").size(), X.groupby("place")["delay"].mean()
    covered, averaged = [], []
    for seed in range(10):
        counts = private_counts(X, "place", values={"delay": (0, 20)}, epsilon=0.5, delta=1e-6, random_state=seed)
        table = counts.table[~counts.table["near_threshold"]].set_index("place")
        assert len(table) > 50
        covered += list((table["count_low"] <= truth[table.index]) & (truth[table.index] <= table["count_high"]))
        inside = (table["delay_mean_low"] <= means[table.index]) & (means[table.index] <= table["delay_mean_high"])
        averaged += list(inside)
    assert 0.93 < np.mean(covered) < 0.98 and 0.92 < np.mean(averaged) < 0.99


def test_given_keys_are_all_shown_and_no_others():
    counts = private_counts(frame(), "place", keys=["z", "a"], epsilon=1.0, delta=0.0, random_state=0)
    assert counts.table["place"].tolist() == ["z", "a"] and counts.threshold is None
    assert counts.table["count"][0] < 30 < counts.table["count"][1]
    assert "near_threshold" not in counts.table and counts.guarantee.delta == 0.0
    single = private_counts(frame(), "place", keys=["a"], epsilon=1.0, delta=0.0, random_state=0)
    assert len(single.table) == 1


def test_types_of_groups_come_back():
    n = 3000
    day = datetime.date(2024, 5, 17)
    columns = {
        "text": pl.Series(["x", None, "y"] * (n // 3)),
        "flag": pl.Series([True, False] * (n // 2)),
        "day": pl.Series([day] * n),
        "price": pl.Series([Decimal("1.50"), Decimal("2.25")] * (n // 2), dtype=pl.Decimal(10, 2)),
        "code": pl.Series([7, None, 8] * (n // 3), dtype=pl.Int16),
    }
    X = pl.DataFrame(columns)
    for name, values in columns.items():
        table = private_counts(X, name, **BUDGET).table
        assert table.schema[name] == X.schema[name]
        assert set(table[name]) == set(values)
    gaps = X.select("code").to_pandas()
    assert gaps["code"].dtype == float  # one gap made all of them floats
    assert plain(private_counts(gaps, "code", **BUDGET).table)["code"] == [7, 8, None]
    category = pd.DataFrame({"c": pd.Categorical(["u", "v"] * 500, categories=["u", "v", "w"])})
    assert private_counts(category, "c", **BUDGET).table["c"].dtype == category["c"].dtype


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [True, 1, 1.5, "1", b"1", None],
        [datetime.date(2024, 5, 17), datetime.datetime(2024, 5, 17), "may"],
        [Decimal("1.5"), Decimal(-2)],
    ],
)
def test_objects_and_categories_of_any_kind_are_groups(values):
    """Values of kinds that cannot be sorted together, in which one row would decide on an error after payment."""
    column = pd.Series(values * (3000 // len(values)), dtype=object)
    category = column[column.notna()].astype("category")
    for X, found in ((column, values), (category, category.cat.categories)):
        table = private_counts(X.to_frame("k"), "k", **BUDGET).table
        assert sorted(map(repr, plain(table)["k"])) == sorted(map(repr, found))


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.date64(), pa.decimal128(38, 3), pa.timestamp("s")],
)
def test_types_of_arrow_come_back(kind):
    of = {pa.date64(): datetime.date(2024, 5, 17), pa.decimal128(38, 3): Decimal("1.500")}
    value = of.get(kind, datetime.datetime(2024, 5, 17, 1) if pa.types.is_timestamp(kind) else "a")
    X = pa.table({"k": pa.array([value, None] * 500, kind)})
    table = private_counts(X, "k", **BUDGET).table
    assert table["k"].type == kind and table["k"].to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pl.Series([0.1, 0.2] * 500, dtype=pl.Float32), [0.1, 0.2]),
        (pl.Series([Decimal("0.1"), Decimal("0.2")] * 500, dtype=pl.Decimal(5, 2)), [0.1, 0.2]),
        (pl.Series([True, False] * 500), [1, 0]),
        (pl.Series([1, 2] * 500), [1.0, np.float32(2)]),
        (pl.Series([2**63 + 1, 2] * 500, dtype=pl.UInt64), np.array([2**63 + 1, 2], dtype=np.uint64)),
        (pl.Series(["a", "b"] * 500), pa.array(["a", "b"])),
    ],
)
def test_given_groups_are_converted_to_the_type_of_their_column(column, keys):
    counts = private_counts(column.to_frame("k"), "k", keys=keys, epsilon=1.0, delta=0.0, random_state=0)
    assert (counts.table["count"] > 400).all()


def test_max_groups_is_found_and_what_it_leaves_out_is_released():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"who": np.repeat(np.arange(4000), 12), "place": rng.integers(0, 40, 48_000).astype(str)})
    found = private_counts(X, "place", user_ids="who", **BUDGET)
    assert 8 <= found.max_groups <= 24 and found.lost < 0.05
    few = private_counts(X, "place", user_ids="who", max_groups=9, epsilon=1.0, delta=1e-6, random_state=0)
    truth = 1 - 9 / X.groupby("who")["place"].nunique().mean()
    assert few.lost is not None and few.lost == pytest.approx(truth, abs=0.05)


@every(
    ("wrong", "message"),
    [
        ({"by": "nowhere"}, "by must be names, as text, among the columns"),
        ({"by": []}, "by must be at least one column"),
        ({"by": {"place"}}, "by must be names, as text"),
        ({"X": frame().assign(place=pd.Timedelta(1, "h"))}, "'place'.* must be a column of text.*timedelta"),
        ({"X": frame().assign(place=pd.cut(frame()["delay"], 3))}, "'place'.* must be a column of text"),
        ({"X": frame().rename(columns={"place": "count"}), "by": "count"}, "rename columns called like a result"),
        ({"X": {"place": ["a"]}}, "X must be a table"),
        ({"X": Blocks([frame(), frame().assign(place=1)])}, "of type str in all blocks|of type object in all"),
        ({"values": [("delay", 0, 1)]}, "values must be a mapping"),
        ({"values": {"delay": (-1e308, 1e308)}}, "up to 1e.150"),
        ({"epsilon": 1e-300}, "epsilon must be a positive finite number, at least"),
        ({"delta": 1e-300}, "delta must be 0 or at least"),
        ({"max_groups": 2**21}, "max_groups must be at most"),
        ({"keys": [1, 2]}, "keys of column 'place' are numbers"),
        ({"keys": "ab"}, "keys must be a list"),
        ({"keys": ["a", 1.5], "by": "kind"}, "keys"),
        ({"keys": [1, None], "by": "kind"}, "by and keys must be what a table"),
        ({"X": frame().astype({"place": "category"}), "keys": ["a", "z"]}, "that their column declares"),
        ({"values": {"place": (0, 1)}}, "values.'place'. must be a column of numbers|different columns"),
        ({"values": {"delay": (1, 1)}}, "limits with low < high"),
        ({"values": {"delay": (0, None)}}, "values.'delay'. must be finite limits"),
        ({"user_ids": "nobody"}, "user_ids must be identifiers, or one of"),
        ({"max_groups": 0}, "max_groups must be at least 1"),
        ({"delta": 0.0}, "delta must be positive"),
        ({"keys": [("a", "b")]}, "keys must be values of 1 columns"),
        ({"keys": ["a", "a"]}, "keys must be different groups"),
        ({"X": np.zeros((3, 2))}, "X must be a table"),
        ({"user_ids": pd.Series(np.arange(6000), index=np.arange(6000)[::-1])}, "same index"),
    ],
)
def test_wrong_parameters_cost_nothing(wrong, message):
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
    options = {"X": frame(), "by": "place", "epsilon": 1.0, "delta": 1e-6, "ledger": ledger, **wrong}
    with pytest.raises((TypeError, ValueError), match=message):
        private_counts(**options)
    assert ledger.spent == (0.0, 0.0)


def test_a_hidden_group_is_in_nothing_that_is_shown():
    X = frame()
    X.loc[0, "place"] = "the secret place"
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
    counts = private_counts(X, "place", epsilon=1.0, delta=1e-6, ledger=ledger, random_state=None)
    assert "secret" not in repr((counts, plain(counts.table), ledger.entries))
