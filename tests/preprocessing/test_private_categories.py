"""Categories that nobody listed: found privately, in any library, and the same model as with a list."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skprivate import (
    CuratedBagGAMClassifier,
    PrivacyLedger,
    RandomBagClassifier,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
    make_private_pipeline,
)
from skprivate.inspection import quote
from skprivate.partitions import Blocks
from skprivate.preprocessing import PrivateOneHotEncoder, make_additive_pipeline
from skprivate.privacy._events import run_tape
from skprivate.utils.estimator_checks import replay

SECRET = "zzz-secret"
FAST = {"epsilon": 3.0, "delta": 1e-3, "random_state": 0}
SIMULATED = pytest.mark.filterwarnings("ignore::UserWarning")
pytestmark = SIMULATED


def visits(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({
        "age": rng.uniform(20, 80, n),
        "ward": rng.choice(["east", "west", "roof"], n, p=[0.6, 0.39, 0.01]),
        "floor": rng.integers(0, 3, n),
    })  # fmt: skip
    X.loc[::10, "ward"] = None
    return X, X.age + 20.0 * (X.ward == "east") - 15.0 * (X.floor == 1) + rng.normal(size=n)


SCHEMA = {"age": (0, 110), "ward": "category", "floor": "category"}
LISTS = {"age": (0, 110), "ward": ["east", "west", "roof"], "floor": [0, 1, 2]}


def test_finds_values_of_many_rows_and_keeps_the_rest_together():
    X, _ = visits()
    encoder = PrivateOneHotEncoder(max_categories=3, epsilon=1.0, random_state=0).fit(X[["ward", "floor"]])
    assert [list(found) for found in encoder.categories_] == [["east", "west"], [0, 1, 2]]
    rows = pd.DataFrame({"ward": ["west", "roof", None, "new", ""], "floor": [0, 1, 2, 3, -1]})
    assert encoder.transform(rows).tolist() == [
        [0, 1, 0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
    ]
    names = encoder.get_feature_names_out().tolist()
    assert names[:5] == ["ward_east", "ward_west", "ward_unused0", "ward_missing", "ward_rest"]


COLUMNS = {
    "text": ["a", "b", None, "é"],
    "whole numbers": [3, -1, 2**60, 7],
    "numbers with gaps": [3, None, 7, 1],
    "booleans": [True, False, True, True],
    "booleans with gaps": [True, None, False, True],
    "dates": [datetime.date(2020, 1, d) for d in (1, 2, 3, 4)],
}
LIBRARIES = {
    "polars": lambda values: pl.DataFrame({"c": values}),
    "pyarrow": lambda values: pa.table({"c": values}),
    "pandas": lambda values: pd.DataFrame({"c": values}),
    "objects": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    "lists": lambda values: [[value] for value in values],
    "blocks": lambda values: Blocks([pl.DataFrame({"c": values[:150]}), pl.DataFrame({"c": values[150:]})]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_any_library_has_the_same_categories(name):
    values = COLUMNS[name] * 100
    found = [list(PrivateOneHotEncoder(**FAST).fit(made(values)).categories_[0]) for made in LIBRARIES.values()]
    kinds = {value for value in COLUMNS[name] if value is not None}
    assert all(one == sorted(kinds) for one in found), found


@pytest.mark.parametrize("name", COLUMNS)
def test_every_found_value_has_its_column(name):
    values = COLUMNS[name] * 100
    for made in (LIBRARIES["polars"], LIBRARIES["pandas"], LIBRARIES["objects"]):
        encoded = PrivateOneHotEncoder(**FAST).fit(made(values)).transform(made(values))
        assert encoded[:, -1].sum() == 0 and encoded[:, -2].sum() == values.count(None)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_neighbours_differ_in_keys_kinds_and_gaps(adjacency):
    """One row more or less, or another: a key of its own, a gap, what is no value, a number among objects."""
    X = pd.DataFrame({"a": ["x"] * 40 + ["y"] * 3, "b": [1.0] * 30 + [2.0] * 13}, dtype=object)
    run = lambda rows: PrivateOneHotEncoder(adjacency=adjacency, **FAST).fit(rows).categories_  # noqa: E731
    rows = [(SECRET, 1e300), (None, float("nan")), ("x", 10**400), ("y", float("inf")), ("", Decimal("nan"))]
    others = []
    for row in rows:
        other = pd.concat([X, pd.DataFrame([row], columns=["a", "b"], dtype=object)], ignore_index=True)
        others.append(other if adjacency == "add-remove" else other.drop(index=3))
    assert not replay(run, X, others).failures


def test_a_user_with_many_values_changes_two_keys_a_column_at_most():
    rng = np.random.default_rng(0)
    users = rng.integers(0, 40, 300)
    X = pd.DataFrame({"a": rng.choice(list("abc"), 300), "b": rng.integers(0, 2, 300)})
    other = X.copy()
    mine = users == 7
    other.loc[mine, "a"] = [f"{SECRET} {i}" for i in range(mine.sum())]
    run = lambda rows: PrivateOneHotEncoder(**FAST).fit(rows, user_ids=users).categories_  # noqa: E731
    assert not replay(run, X, [other]).failures


def test_which_value_of_a_user_counts_depends_on_nobody_else():
    """The statistic without user 7 differs by one in one key of each column."""
    rng = np.random.default_rng(1)
    users = rng.integers(0, 30, 200)
    X = pd.DataFrame({"a": rng.choice(list("abcdef"), 200), "b": rng.integers(0, 9, 200)})

    def counts(kept):
        drawn = []

        class Tape:
            def draw(self, draw, sample):
                drawn.append(dict(zip(draw.keys, draw.statistic[:, 0].tolist(), strict=True)))
                return sample()

        with run_tape(Tape()):
            PrivateOneHotEncoder(adjacency="add-remove", **FAST).fit(X[kept], user_ids=users[kept])
        return drawn[0]

    whole, rest = counts(users >= 0), counts(users != 7)
    changes = {key: whole.get(key, 0) - rest.get(key, 0) for key in whole | rest}
    assert sorted(changes.values()) == [0] * (len(changes) - 2) + [1, 1]
    assert sorted(key[0] for key, change in changes.items() if change) == [0, 1]


def test_a_hundred_thousand_keys():
    n = 100_000
    X = pd.DataFrame({"key": [f"key {i}" for i in range(n)] + ["often"] * 1000})
    encoder = PrivateOneHotEncoder(max_categories=5, random_state=0).fit(X)
    assert list(encoder.categories_[0]) == ["often"]
    assert encoder.transform(X.tail(2)).tolist() == [[1, 0, 0, 0, 0, 0, 0]] * 2


def test_values_called_like_other_columns_have_names_of_their_own():
    X = pd.DataFrame({"c": ["rest", "missing", "unused0"] * 100})
    names = PrivateOneHotEncoder(max_categories=4, **FAST).fit(X).get_feature_names_out()
    assert len(set(names)) == len(names) == 6


@pytest.mark.parametrize("rows", [lambda X: X, lambda X: Blocks([X.iloc[:50], X.iloc[50:]])])
def test_kinds_that_do_not_go_together_are_refused_before_payment(rows):
    X = pd.DataFrame({"c": [SECRET] * 99 + [1]}, dtype=object)
    ledger = PrivacyLedger(epsilon=9.0, delta=0.1)
    with pytest.raises(
        TypeError, match=r"column 'c' of X must be of one kind of values, got .*number and str"
    ) as error:
        PrivateOneHotEncoder(ledger=ledger).fit(rows(X))
    assert SECRET not in str(error.value) and ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("delta", [0.0, 1e-300])
def test_without_a_delta_nothing_is_found(delta):
    X, y = visits()
    ledger = PrivacyLedger(epsilon=9.0, delta=0.1)
    for model in (
        make_private_pipeline(UserLevelSGDRegressor(), SCHEMA, epsilon=1.0, delta=delta, ledger=ledger),
        make_private_pipeline(make_additive_pipeline(UserLevelSGDRegressor()), SCHEMA, epsilon=1.0, delta=delta,
                              ledger=ledger),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="delta must be (positive|larger)"):
            model.fit(X, y)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("made", [lambda X: X, pl.from_pandas])
def test_the_model_is_nearly_that_of_lists_and_costs_its_budget(additive, made):
    X, y = visits(4000)
    scores = []
    for schema in (SCHEMA, LISTS):
        model = UserLevelSGDRegressor(random_state=0)
        model = make_additive_pipeline(model) if additive else model
        model = make_private_pipeline(model, schema, epsilon=2.0, delta=1e-5).fit(made(X), y)
        scores.append(model.score(made(X), y))
        whole = guarantee_of(model)
        assert whole.epsilon <= 2.0 and whole.delta <= 1e-5
    assert whole.epsilon > 0.9 * 2.0
    assert scores[0] > scores[1] - 0.02 and scores[0] > 0.9


@pytest.mark.filterwarnings("ignore")
def test_splines_that_rows_are_too_few_for_leave_a_total_within_the_budget():
    X, y = visits(100)
    model = make_additive_pipeline(UserLevelSGDRegressor(random_state=0))
    model = make_private_pipeline(model, SCHEMA, epsilon=0.1, delta=1e-5).fit(X, y)
    assert 0.09 < guarantee_of(model).epsilon <= 0.1


def test_users_are_protected_by_all_steps():
    X, y = visits()
    users = np.arange(1200) // 2
    model = make_private_pipeline(UserLevelSGDRegressor(random_state=0), SCHEMA, epsilon=3.0)
    assert str(guarantee_of(model.fit(X, y, user_ids=users)).unit) == "user"


def test_a_quote_is_what_is_charged_whatever_is_found():
    ledger = PrivacyLedger(epsilon=9.0, delta=0.1)
    X, y = visits()
    model = make_private_pipeline(UserLevelSGDRegressor(max_iter=2), SCHEMA, epsilon=1.0)
    prices = [quote(model, rows, y, ledger=ledger).epsilon for rows in (X, X.assign(ward=X.age.map(str)))]
    assert prices[0] == prices[1]
    model.set_params(ledger=ledger).fit(X, y)
    assert ledger.spent[0] == prices[0]


def test_columns_that_declare_their_values_need_no_budget_for_finding():
    X, y = visits()
    typed = X.assign(ward=X.ward.astype("category"), floor=X.floor == 1)
    model = make_private_pipeline(UserLevelSGDRegressor(random_state=0, delta=1e-6), SCHEMA, epsilon=1.0)
    found = model.fit(typed, y).steps[0][1].named_transformers_["found"]
    assert not hasattr(found, "categories_")
    assert model[-1].epsilon == 1.0
    # On other types the same pipeline finds values.
    assert [len(found) for found in model.fit(X, y).steps[0][1].named_transformers_["found"].categories_] == [2, 3]


@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, RandomBagClassifier])
@pytest.mark.parametrize("made", [lambda X: X, pl.from_pandas])
def test_where_labels_are_private_values_are_read_off_the_features(kind, made):
    X, y = visits(2000)
    model = make_private_pipeline(kind(classes=[0, 1], epsilon=3.0, random_state=0), SCHEMA)
    assert check_pipeline(model).could_hold
    assert model.fit(made(X), (y > 55).astype(int)).score(made(X), (y > 55).astype(int)) > 0.6
    assert str(guarantee_of(model).unit) == "label"


def test_the_check_says_what_finding_costs_and_whom_it_finds():
    model = make_private_pipeline(UserLevelSGDClassifier(), SCHEMA, epsilon=1.0, delta=1e-6)
    text = str(check_pipeline(model))
    assert "finds values that about 208·√k rows or users have, in k columns, for ε = 0.2, δ = 5e-07" in text
    model.set_params(delta=0.0)
    assert "only with a positive delta" in str(check_pipeline(model))
    assert "in k columns, for ε = 1, δ = 1e-06" in str(check_pipeline(PrivateOneHotEncoder()))


def test_messages_and_fitted_attributes_hold_nothing_that_was_not_found():
    X, y = visits()
    X.loc[5, "ward"] = SECRET
    model = make_private_pipeline(UserLevelSGDRegressor(random_state=0), SCHEMA, epsilon=1.0).fit(X, y)
    assert SECRET.encode() not in pickle.dumps(model)
    assert SECRET not in repr(vars(model.steps[0][1].named_transformers_["found"]))


@pytest.mark.parametrize("X", [[1, 2, 3], None, "x", np.zeros(3), [[1, 2], [3]]])
def test_what_is_no_table_is_refused_in_words(X):
    with pytest.raises(ValueError, match="2D|two dimensions"):
        make_private_pipeline(UserLevelSGDRegressor(), {0: "number", 1: "category"}).fit(X, [1, 2, 3])
