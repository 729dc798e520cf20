"""Whole tables: sensitivities by replay, exact cells, raking, and frames that come back as they were."""

from __future__ import annotations

import datetime
import functools
import warnings
from decimal import Decimal

import matplotlib.pyplot
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.every import every
from hypothesis import given
from hypothesis import strategies as st

from skprivate import PrivateTableSynthesizer
from skprivate._messages import TooFewUnitsWarning
from skprivate.metric.grid._measure import even_draws
from skprivate.metric.tables import _mechanism as module
from skprivate.metric.tables._candidates import Candidates, Released, draw_cells, posterior
from skprivate.metric.tables._cells import (
    ColumnSpec,
    empty_tails,
    list_cells,
    merge_rare,
    number_cells,
    on_steps,
    seen_range,
)
from skprivate.metric.tables._costs import events_of
from skprivate.metric.tables._mechanism import TableMechanism, first_step, with_sum
from skprivate.metric.tables._quality import table_quality
from skprivate.partitions import Blocks
from skprivate.privacy import Mechanism, compose_epsilon, open_release, public_generator
from skprivate.privacy.draws import UNIT_WEIGHT
from skprivate.utils import _checks_draws
from skprivate.utils._neighbours import EXTREMES
from skprivate.utils.estimator_checks import check_epsilon_lower_bound, check_mechanism

pytestmark = pytest.mark.filterwarnings("ignore:.*(too few|simulated|[Ss]imulat).*")
STEPS = (1.0, 0.1)
COLUMNS = (
    ColumnSpec(steps=STEPS),
    ColumnSpec(n_values=3),
    ColumnSpec(steps=STEPS, bounds=(0.0, 1.0)),
    ColumnSpec(n_values=2),
)


def mechanism(columns=COLUMNS, target=3, epsilon=1.0):
    return TableMechanism(columns=columns, target=target, epsilon=epsilon, delta=1e-6)


def rows(n, seed=0):
    rng = public_generator(seed)
    table = np.column_stack([rng.normal(40, 5, n), rng.integers(0, 3, n), rng.random(n), rng.integers(0, 2, n)])
    table[rng.random(table.shape) < 0.1] = np.nan
    return table


def worst_rows():
    rng = public_generator(1)
    finite = [value for value in EXTREMES if np.isfinite(value)]
    for value in [*finite, np.nan]:
        yield np.array([value, rng.integers(0, 3), rng.choice(finite), rng.integers(0, 2)])
    yield np.full(4, np.nan)


def row_neighbours(table):
    for k in (0, len(table) // 2):
        yield np.delete(table, k, axis=0)
    for row in list(worst_rows())[::3]:
        yield np.insert(table, 1, row, axis=0)


def user_neighbours(data):
    table, units = data
    kept = units != units[0]
    yield table[kept], np.unique(units[kept], return_inverse=True)[1]
    for m in (1, 3, 50):
        more = np.array(list(worst_rows()) * 50)[:m]
        yield np.concatenate([table, more]), np.append(units, np.full(m, units.max() + 1))


@pytest.fixture
def noise_elsewhere(monkeypatch):
    """With rows of classes alone it is seen how wide the noise of the same draws is: that takes thousands of draws."""
    monkeypatch.setattr(_checks_draws, "too_little_noise", lambda run, data: [])


def test_draws_of_rows_are_planned_and_within_their_sensitivities():
    check_mechanism(mechanism(), [rows(12)], neighbours=row_neighbours, adjacency="add-remove")


def test_draws_without_a_target_are_planned_and_within_their_sensitivities(noise_elsewhere):
    check_mechanism(mechanism(target=None), [rows(12)], neighbours=row_neighbours, adjacency="add-remove")


def test_draws_of_users_are_planned_and_within_their_sensitivities(noise_elsewhere):
    units = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5])
    check_mechanism(mechanism(), [(rows(12), units)], neighbours=user_neighbours, unit="user", adjacency="add-remove")


def _twice_the_scores(monkeypatch):
    choose = module._Tables.choose
    monkeypatch.setattr(
        module._Tables, "choose", lambda self, scores, weight: choose(self, [2 * s for s in scores], weight)
    )


def _half_the_noise(monkeypatch):
    noisy = TableMechanism._noisy
    monkeypatch.setattr(
        TableMechanism, "_noisy", lambda self, rows, sums, n, *more: noisy(self, rows, sums, n / 4, *more)
    )


def _all_rows_weigh_one(monkeypatch):
    def of(data):
        return module.Rows(*data, np.full(len(data[1]), float(UNIT_WEIGHT)), UNIT_WEIGHT)

    monkeypatch.setattr(module.Rows, "of", of)


@pytest.mark.parametrize("wrong", [_twice_the_scores, _half_the_noise, _all_rows_weigh_one])
def test_half_of_a_sensitivity_is_noticed(wrong, monkeypatch):
    data, around, unit = rows(12), row_neighbours, "row"
    if wrong is _all_rows_weigh_one:
        data, around, unit = (data, np.arange(12) // 2), user_neighbours, "user"
    wrong(monkeypatch)
    with pytest.raises(AssertionError, match="sensitivity"):
        check_mechanism(mechanism(), [data], neighbours=around, unit=unit, adjacency="add-remove")


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:1], COLUMNS[1:2], COLUMNS[:2]])
@every("target", [None, 0])
@every("epsilon", [0.1, 1.0, 30.0])
def test_all_of_the_budget_is_planned(columns, target, epsilon):
    made = mechanism(columns, target, epsilon)
    spent = compose_epsilon(made.events, 1e-6)
    assert isinstance(made, Mechanism)
    assert events_of(made.stages) == made.events
    assert 0.99 * epsilon < spent <= epsilon


# Cells ------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=15, max_size=15),
    st.sampled_from([0.0, 1.0, 0.1, 60.0]),
    st.lists(st.floats(-1e9, 1e9) | st.just(float("nan")), min_size=1, max_size=20),
)
def test_every_number_has_a_cell_and_every_cell_a_number_within_the_range(quantiles, step, values):
    within = (-2e6, 3e6)
    cells = number_cells(np.sort(quantiles), within, step)
    assert (np.diff(cells.edges) > 0).all() and len(cells.edges) == cells.n_cells
    assert cells.n_cells <= 2 * 160
    codes = cells.code(np.array(values))
    assert ((codes >= 0) & (codes < cells.n_cells)).all()
    assert ((codes == cells.n_cells - 1) == np.isnan(values)).all()
    back = cells.decode(codes, public_generator(0))
    present = ~np.isnan(values)
    assert ((back[present] >= within[0] - step) & (back[present] <= within[1] + step)).all()
    again = cells.code(back)
    if step:
        assert (np.abs(back[present] / step - np.rint(back[present] / step)) < 1e-6).all()
    else:
        assert (np.abs(again - codes)[present] <= 1).all()


def test_what_repeats_is_an_atom():
    cells = number_cells(np.repeat([0.0, 7.0], [12, 3]), (0.0, 64.0), 1.0)
    assert cells.bins[cells.code(np.array([0.0]))] != cells.bins[cells.code(np.array([1.0]))]
    zeros = cells.decode(np.repeat(cells.code(np.array([0.0])), 9), public_generator(0))
    assert (zeros == 0).all()


def test_steps():
    values = np.array([3.0, 0.3, 0.25, -1.1, 0.0, 1e300, 0.1 + 0.2])
    assert first_step(values, (1.0, 0.1)).tolist() == [0, 1, 2, 1, 0, 0, 2]
    assert on_steps(np.array([0.31, -0.04]), 0.1).tolist() == [0.3, 0.0]
    assert not np.signbit(on_steps(np.array([-0.2]), 1.0)).any()


def test_range_is_that_of_octaves_with_rows():
    spec = np.zeros(257)
    assert seen_range(spec, 10.0, 50.0) is None
    spec[128 + 70] = 900.0  # 2^5 and around
    assert seen_range(spec, 10.0, 50.0) == (0.0, 48.0)
    spec[128 + 71] = 31.0
    assert seen_range(spec, 10.0, 50.0) == (0.0, 96.0)
    spec[128 + 100] = 49.0
    assert seen_range(spec, 10.0, 50.0) == (0.0, 96.0)
    spec[128 - 68] = 60.0
    assert seen_range(spec, 10.0, 50.0) == (-12.0, 96.0)


def test_cells_of_tails_that_noise_explains_are_empty():
    cells = number_cells(np.arange(1.0, 16.0), (0.0, 4096.0), 0.0)
    counts = np.where(cells.tail == 0, 100.0, 5.0)
    found = empty_tails(cells, counts, 10.0, 4.0)
    beyond = np.flatnonzero(cells.tail == 1)
    assert (found[cells.tail == 0] == 100.0).all()
    assert found[beyond].sum() <= counts[beyond].sum() + 1e-9
    counts[beyond[-1]] = 4000.0
    assert empty_tails(cells, counts, 10.0, 4.0)[beyond[-1]] == 4000.0


def test_rare_values_are_one_bin():
    cells = merge_rare(list_cells(5), np.array([900.0, 3.0, 800.0, 2.0, 1.0, 0.0]), 1706.0, 50.0, target=False)
    assert cells.bins[0] != cells.bins[2]
    assert len({int(cells.bins[k]) for k in (1, 3, 4, 5)}) == 1
    assert cells.n_bins == 3


@given(st.lists(st.floats(-100, 1000), min_size=2, max_size=20), st.floats(1, 5000))
def test_counts_get_a_sum(counts, total):
    found = with_sum(np.array(counts), total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total)


# Candidates -------------------------------------------------------------------------------------------------


def test_raking_gives_candidates_tables_without_noise():
    rng = public_generator(0)
    codes = rng.integers(0, 3, (3, 20_000)).astype(np.uint8)
    pair, other = rng.random((3, 3)) + 0.2, rng.random((3, 3)) + 0.2
    other *= pair.sum(0)[:, None] / other.sum(1)[:, None]  # they agree on the column they share
    candidates = Candidates(codes, (3, 3, 3), float(pair.sum()))
    candidates.rake({(0, 1): Released(pair.ravel(), 1e-9), (1, 2): Released(other.ravel(), 1e-9)}, 60)
    np.testing.assert_allclose(candidates.table((0, 1)), pair.ravel(), rtol=1e-3)
    np.testing.assert_allclose(candidates.table((1, 2)), other.ravel(), rtol=1e-3)


def test_posterior_is_the_model_where_noise_explains_all_and_the_counts_where_it_is_none():
    model, noisy = np.array([10.0, 20.0, 30.0]), np.array([12.0, 18.0, 31.0])
    assert posterior(model, noisy, 100.0).tolist() == model.tolist()
    np.testing.assert_allclose(posterior(model, noisy, 1e-6), noisy)


def test_even_draws_are_in_proportion():
    weights = np.array([1.0, 0.0, 3.0])
    found = np.bincount(even_draws(weights, 4000, public_generator(0)), minlength=3)
    assert abs(found - np.array([1000, 0, 3000])).max() <= 1
    cells = draw_cells(np.repeat([0, 1], 5000), np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), public_generator(0))
    assert (cells[5000:] == 2).all()
    assert abs((cells[:5000] == 1).mean() - 0.75) < 0.05


# Frames -----------------------------------------------------------------------------------------------------

SAID = {"ward": ["east", "west", "roof"], "class": ["a", "b", "c"]}


@functools.cache
def frame(n=3000):
    rng = public_generator(0)
    ward = rng.choice(["east", "west"], n, p=[0.7, 0.3])
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, n), unit="h")
    table = pd.DataFrame({"age": rng.integers(18, 90, n), "ward": ward, "temp": np.round(rng.normal(37, 1, n), 1)})
    table["when"], table["ok"] = when, rng.random(n) < np.where(ward == "east", 0.8, 0.2)
    table["gap"] = np.where(rng.random(n) < 0.3, np.nan, rng.gamma(2, 10, n))
    table["n"] = pd.array(np.where(rng.random(n) < 0.3, None, rng.poisson(4, n)), dtype="Int64")
    table["class"] = pd.Categorical(rng.choice(list("abc"), n), categories=list("abc"), ordered=True)
    return table


@functools.cache
def fitted(library=None):
    X = frame() if library is None else library(frame())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PrivateTableSynthesizer(20.0, schema=SAID, target="ok", random_state=0).fit(X)


def test_pandas_frames_come_back():
    model = fitted()
    S = model.sample(2000, random_state=1)
    assert S.dtypes.tolist() == frame().dtypes.tolist()
    assert list(S.columns) == list(frame().columns)
    assert S["age"].between(18, 90).mean() > 0.97
    assert abs(S["gap"].isna().mean() - 0.3) < 0.05 and abs(S["n"].isna().mean() - 0.3) < 0.05
    assert (np.abs(S["temp"] * 10 - np.rint(S["temp"] * 10)) < 1e-9).all()
    assert (S["when"].dt.minute == 0).all() and (S["when"].dt.year == 2020).mean() > 0.95
    assert (S["gap"].dropna() >= 0).all()
    assert not S["ward"].eq("roof").any()
    rate = S.groupby("ward")["ok"].mean()
    assert rate["east"] > 0.7 and rate["west"] < 0.3
    assert model.gaps_[5] == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_other_libraries_come_back(library):
    X = library(frame())
    S = fitted(library).sample(50, random_state=1)
    assert type(S) is type(X)
    for name in frame().columns.drop("class"):  # a dictionary or an enumeration of other values
        found, wanted = (S.schema.field(name).type if library is not pl.from_pandas else S.schema[name], X.schema)
        assert found == (wanted.field(name).type if library is not pl.from_pandas else wanted[name]), name


def test_types_of_dates_decimals_and_zones_come_back():
    n = 800
    days = [datetime.date(2021, 3, 1) + datetime.timedelta(days=k % 90) for k in range(n)]
    X = pl.DataFrame(
        {
            "day": days,
            "euro": pl.Series([Decimal(k % 50) / 4 for k in range(n)], dtype=pl.Decimal(10, 2)),
            "zone": pl.Series([datetime.datetime(2021, 1, 1 + k % 28, 5) for k in range(n)]).dt.replace_time_zone(
                "Asia/Tokyo"
            ),
            "small": pl.Series([k % 7 for k in range(n)], dtype=pl.UInt8),
        }
    )
    S = PrivateTableSynthesizer(50.0, random_state=0).fit(X).sample(200, random_state=0)
    assert S.schema == X.schema
    assert S["day"].min() >= datetime.date(2021, 2, 1) and S["day"].max() <= datetime.date(2021, 7, 1)
    assert S["small"].max() <= 7


def test_a_gap_of_one_row_changes_no_type():
    X = frame()[["age", "temp"]].assign(ward=np.arange(3000) % 3)
    Y = X.copy()
    Y.loc[3, ["age", "ward"]] = np.nan  # pandas makes floats of all
    assert Y["age"].dtype == Y["ward"].dtype == float
    for said in ([0, 1, 2], "category"):
        model = PrivateTableSynthesizer(schema={"ward": said}, random_state=0)
        one, two = (model.fit(Z).sample(99, random_state=0) for Z in (X, Y))
        assert one.dtypes.astype(str).tolist() == ["int64", "float64", "int64"]
        assert two.dtypes.tolist() == one.dtypes.tolist()


def test_a_gap_of_one_row_makes_no_objects_of_booleans():
    X = frame()[["ok"]]
    Y = X.astype(object)
    Y.loc[3, "ok"] = None
    model = PrivateTableSynthesizer(schema={"ok": [False, True]}, random_state=0)
    assert [model.fit(Z).sample(99, random_state=0)["ok"].dtype for Z in (X, Y)] == [bool, bool]


def test_arrays_come_back():
    X = np.column_stack([frame()["age"], frame()["temp"]])
    assert PrivateTableSynthesizer(random_state=0).fit(X).sample(5).dtype == np.float64
    assert PrivateTableSynthesizer(random_state=0).fit(X[:, :1].astype(int)).sample(5).dtype == np.int64
    mixed = np.column_stack([X[:, 0].astype(object), np.array(frame()["ward"], dtype=object)])
    S = PrivateTableSynthesizer(schema={1: ["east", "west"]}, random_state=0).fit(mixed).sample(50, random_state=0)
    assert S.dtype == object and set(S[:, 1]) <= {"east", "west", None}


def test_conditions_are_met():
    S = fitted().sample(300, condition={"ward": "west", "age": (30, 40), "class": ["a", "b"]}, random_state=0)
    assert S["ward"].eq("west").all() and S["age"].between(30, 40).all() and S["class"].isin(["a", "b"]).all()
    assert S["ok"].mean() < 0.4
    for wrong in ({"ward": "moon"}, {"age": 3}, {"height": (1, 2)}, {"age": (40, 30)}):
        with pytest.raises(ValueError, match="condition"):
            fitted().sample(3, condition=wrong)


def test_conditions_take_any_name_and_positions():
    X = pd.DataFrame({"'quoted'": [1, 2] * 500, "car's": ["a", "b"] * 500})
    model = PrivateTableSynthesizer(9.0, schema={1: ["a", "b"]}, random_state=0).fit(X)
    assert set(model.sample(50, condition={"'quoted'": (2, 2), "car's": "b"})["'quoted'"]) == {2}
    assert set(model.sample(50, condition={0: (1, 1), 1: "a"})["car's"]) == {"a"}
    for wrong in ({0: ("a", "b")}, {0: (None, 1)}, {0: (0, np.inf)}, {0: (1,)}, {1: [["a"]]}, {0: ("a", 1)}):
        with pytest.raises(ValueError, match=r"condition\["):
            model.sample(3, condition=wrong)


def test_conditions_between_two_steps_have_the_multiples_inside():
    X = pd.DataFrame({"whole": np.arange(3000) % 9, "tenth": np.arange(3000) % 10 / 10})
    model = PrivateTableSynthesizer(9.0, random_state=0).fit(X)
    assert set(model.sample(300, condition={"whole": (0.5, 1.5)})["whole"]) == {1}
    assert set(model.sample(300, condition={"tenth": (0.25, 0.7)})["tenth"]) == {0.3, 0.4, 0.5, 0.6, 0.7}
    with pytest.raises(ValueError, match="condition must be met"):
        model.sample(3, condition={"whole": (0.5, 0.7)})


def test_conditions_on_times_are_dates_or_instants_of_any_zone():
    days = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(np.arange(3000) % 300, unit="D")
    X = pd.DataFrame({"day": days, "tokyo": days.tz_localize("Asia/Tokyo")})
    model = PrivateTableSynthesizer(9.0, random_state=0).fit(X)
    S = model.sample(99, condition={"day": (datetime.date(2020, 2, 1), datetime.date(2020, 3, 1))})
    assert S["day"].between("2020-02-01", "2020-03-01").all() and S["day"].nunique() > 9
    ends = [pd.Timestamp(2020, 2, 1, hour, tz="Asia/Tokyo") for hour in (0, 23)]
    assert model.sample(99, condition={"tokyo": tuple(ends)})["tokyo"].between(*ends).all()


def test_dates_among_objects_come_back_in_their_years():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k % 300) for k in range(3000)]
    X = pd.DataFrame({"day": pd.Series(days, dtype=object)})
    S = PrivateTableSynthesizer(9.0, schema={"day": "date"}, random_state=0).fit(X).sample(99, random_state=0)
    assert {value.year for value in S["day"]} == {2020}


def test_numbers_beyond_64_bits_stay_floats_and_listed_integers_exact():
    X = pd.DataFrame({"far": [1e19, -1e19] * 1000, "listed": [2**60 + 1, 3] * 1000})
    X["unsigned"] = np.array([2**63 + 2**12, 1] * 1000, dtype=np.uint64)
    two = {"listed": {"values": [2**60 + 1, 3]}, "unsigned": {"values": [2**63 + 2**12, 1]}}
    schema = {"far": (-3e19, 3e19), **two}
    S = PrivateTableSynthesizer(9.0, schema=schema, random_state=0).fit(X).sample(99)
    assert S["far"].abs().max() > 9e18 and set(S["listed"]) == {2**60 + 1, 3}
    assert set(S["unsigned"]) == {2**63 + 2**12, 1}


def test_columns_are_left_out_and_limits_kept():
    X = frame()[["age", "ward", "temp"]]
    model = PrivateTableSynthesizer(schema={"ward": "drop", "age": (0, 60)}, random_state=0).fit(X)
    S = model.sample(500, random_state=0)
    assert list(S.columns) == ["age", "temp"]
    assert S["age"].between(0, 60).all()


@pytest.mark.parametrize(
    ("columns", "target", "said"),
    [
        (None, None, "'ward' of X holds, .* a list of values"),
        ({"ward": ["east"], "house": "number"}, None, "schema must have no 'house', which X does not have"),
        ({"ward": "free text"}, None, "limits .* a list of different values or one of"),
        ({"ward": (1, 2)}, None, "'ward'"),
        ({"ward": [1, 2]}, None, "'ward'|ward.*numbers"),
        ({"ward": ["east", "east"]}, None, "different"),
        ({"ward": ["east", "west"]}, "house", "target must be a column"),
        ({**dict.fromkeys(["age", "ward"], "drop")}, None, "must leave a column"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(columns, target, said):
    model = PrivateTableSynthesizer(schema=columns, target=target)
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        model.fit(frame()[["age", "ward"]])
    assert "east" not in str(caught.value).replace("['east', 'east']", "")
    assert not hasattr(model, "privacy_guarantee_")


def test_plan_looks_at_types_alone():
    model = PrivateTableSynthesizer(schema=SAID, target="ok")
    assert model.plan(frame(), 5000) == model.plan(frame().iloc[:0], 5000)
    assert model.plan(frame(), 5000)["tables"] == 2 * 21 + 7


def test_values_that_nobody_listed_are_found():
    X = frame()[["age", "ward"]].copy()
    X.loc[5, "ward"] = "attic"
    for Y in (X, pl.from_pandas(X), Blocks([X[:1000], X[1000:]])):
        model = PrivateTableSynthesizer(5.0, schema={"ward": "category"}, random_state=0).fit(Y)
        S = model.sample(2000, random_state=0)
        shares = pd.Series(list(S["ward"])).value_counts(normalize=True)
        assert set(shares.index) == {"east", "west"}
        assert shares["east"] == pytest.approx(0.7, abs=0.05)
    assert set(model.sample(20, condition={"ward": "west"})["ward"]) == {"west"}
    users = np.arange(len(X)) // 3
    model = PrivateTableSynthesizer(5.0, schema={"ward": "category"}, random_state=0).fit(X, user_ids=users)
    assert set(model.sample(200, random_state=0)["ward"].dropna()) == {"east", "west"}
    X["ward"] = X["ward"].astype(object)
    X.loc[5, "ward"] = 3
    with pytest.raises(TypeError, match="'ward' of X must be of one kind"):
        PrivateTableSynthesizer(schema={"ward": "category"}).fit(X)


def test_draws_that_find_values_are_planned_and_within_their_sensitivities(noise_elsewhere):
    names = np.array(list("aabbbbabbaab"), dtype=object)
    made = mechanism((ColumnSpec(n_values=5, found=True), *COLUMNS[1:]))

    def around(data):
        table, _, (texts,) = data
        for value in ("a", "c", None):
            more = np.empty(len(texts) + 1, dtype=object)
            more[:] = [*texts, value]
            yield np.concatenate([table, table[:1]]), None, (more,)
        yield table[1:], None, (texts[1:],)

    check_mechanism(made, [(rows(12), None, (names,))], neighbours=around, adjacency="add-remove")
    assert 0.99 < compose_epsilon(made.events, 1e-6) <= 1.0


# Few rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 3, 20])
@pytest.mark.parametrize("n", [30, 300, 3000])
def test_no_magnitude_comes_from_nowhere(n, n_columns):
    X = public_generator(n).normal(40, 5, (n, n_columns))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        S = PrivateTableSynthesizer(random_state=0).fit(X).sample(n, random_state=0)
    assert np.max(np.abs(S)) <= 120  # and no gap
    few = [str(item.message) for item in caught if item.category is TooFewUnitsWarning]
    if (S == 0).all(axis=0).any():
        assert few and "schema={" in few[0] and "saw no magnitude of column" in few[0]


def test_magnitudes_of_few_rows_are_moved_to_those_of_many():
    X = frame()[["age"]].copy().astype(float)
    X.iloc[:5] = 1e15
    S = PrivateTableSynthesizer(random_state=0).fit(X).sample(3000, random_state=0)
    assert S["age"].max() < 1000


def test_users_weigh_one_together():
    X = frame()[["age", "ward"]]
    users = np.arange(len(X)) // 3
    model = PrivateTableSynthesizer(5.0, schema={"ward": SAID["ward"]}, random_state=0).fit(X, user_ids=users)
    assert model.n_units_ == pytest.approx(1000, abs=100)
    assert model.privacy_guarantee_.unit == "user"


# Quality --------------------------------------------------------------------------------------------------


def test_quality_is_that_of_both_tables():
    real = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 2.0], [1.0, 1.0, 4.0], [0.0, 0.0, 6.0]])
    same = table_quality(("a", "b", "c"), (True, True, False), real, real[::-1], None, None)
    assert not same.two_way.any()
    assert same.distance[2] == 0 and np.isnan(same.distance[:2]).all()
    other = real.copy()
    other[:, 0] = 1.0
    found = table_quality(("a", "b", "c"), (True, True, False), real, other, None, None)
    assert found.two_way[0, 0] == 0.5 and found.two_way[0, 1] == 0.5 and found.two_way[1, 1] == 0
    assert "not for publication" in str(found)


def test_quality_of_a_model():
    train, test = frame()[:2000], frame()[2000:]
    quality = fitted().quality(train, test, random_state=0)
    assert quality.score_of_real > 0.75 and quality.score > 0.7
    assert np.diag(quality.two_way).mean() < 0.1
    drawn = quality.plot()
    assert drawn.images[0].zorder > 0.5  # above the grid of a style
    matplotlib.pyplot.close("all")
    numbers = PrivateTableSynthesizer(20.0, target="temp", schema=SAID, random_state=0).fit(train)
    assert numbers.quality(train, test, random_state=0).score < 0.5


# Attack ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_row_is_not_told_from_none():
    """The row of a value that nobody else has, by the count of that value."""
    made = TableMechanism(columns=(ColumnSpec(n_values=2),), target=None, epsilon=1.0, delta=0.05)
    terms = {"epsilon": 1.0, "delta": 0.05, "unit": "row", "adjacency": "add-remove", "plan": made.events}

    def draw(table):
        with open_release(**terms) as release:
            model = made.run(table, release)
        return float(model.counts[0][1])

    without = np.zeros((20, 1))
    check_epsilon_lower_bound(
        draw, (np.append(without, [[1.0]], axis=0), without), epsilon=1.0, delta=0.05, n_runs=8000
    )
