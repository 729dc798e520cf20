"""The private imputer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer

from skprivate.preprocessing import PrivateImputer, TooFewUnitsWarning
from skprivate.preprocessing._mechanisms import ColumnModes

SEEDS = range(5)


@pytest.mark.parametrize("strategy", ["median", "mean"])
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers(strategy, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal([1e5, -3.0], [10.0, 0.5], (5000, 2))
    X[rng.random(X.shape) < 0.2] = np.nan
    model = PrivateImputer(1.0, strategy=strategy, random_state=seed).fit(X)
    assert np.all(np.abs(model.statistics_ - [1e5, -3]) < [3, 0.15])
    filled = model.transform(X)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_array_equal(filled[np.isnan(X[:, 0]), 0], model.statistics_[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_texts(seed):
    """The runner-up has 400 rows fewer: chosen with probability below e^-100."""
    values = np.array(["a"] * 1000 + ["b"] * 600 + ["secret"] * 5000, dtype=object)[:, None]
    values[::7] = None
    model = PrivateImputer(1.0, strategy="most_frequent", categories=["a", "b", "c"], random_state=seed).fit(values)
    assert model.statistics_.tolist() == ["a"]
    assert None not in model.transform(values)


def test_modes_count_users_once():
    values = np.array(["a"] * 5000 + ["b"] * 300, dtype=object)[:, None]
    users = np.concatenate([np.zeros(5000, int), np.arange(1, 301)])
    arguments = {"strategy": "most_frequent", "categories": ["a", "b"], "random_state": 0}
    assert PrivateImputer(1.0, **arguments).fit(values, user_ids=users).statistics_.tolist() == ["b"]
    assert PrivateImputer(1.0, **arguments).fit(values).statistics_.tolist() == ["a"]


def test_categories_are_needed_and_checked():
    X = np.array([["a"], ["b"]], dtype=object)
    for categories, message in (
        (None, "categories must be given"),
        ([], "at least one value"),
        (["a", "a"], "must differ"),
        ([["a"], ["b"]], "one list for each of the 1 columns"),
        ({"x": ["a"]}, "column 'x', which X does not have"),
    ):
        model = PrivateImputer(strategy="most_frequent", categories=categories, random_state=0)
        with pytest.raises(ValueError, match=message):
            model.fit(X)
        assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_all_columns_stay():
    X = np.full((20, 2), np.nan)
    model = PrivateImputer(random_state=0, add_indicator=True).fit(X)
    filled = model.transform(X)
    assert filled.shape == (20, 4) and np.all(np.isfinite(filled)) and np.all(filled[:, 2:] == 1)
    assert list(model.get_feature_names_out()) == ["x0", "x1", "missingindicator_x0", "missingindicator_x1"]


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    X = frame({"age": [30.0, None, 50.0], "job": ["x", None, "y"]})
    library = "pandas" if frame is pd.DataFrame else "polars"
    model = make_column_transformer(
        (PrivateImputer(random_state=0), ["age"]),
        (PrivateImputer(strategy="most_frequent", categories={"job": ["x", "y"]}, random_state=0), ["job"]),
        verbose_feature_names_out=False,
    ).set_output(transform=library)
    filled = model.fit_transform(X)
    assert isinstance(filled, frame) and list(filled.columns) == ["age", "job"]
    assert filled["job"][1] in ("x", "y") and filled["job"][0] == "x"


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_missing_is_missing_in_every_form():
    for missing in (None, np.nan, pd.NA):
        X = pd.DataFrame({"job": pd.Series(["x", missing, "x"], dtype=object)})
        model = PrivateImputer(5.0, strategy="most_frequent", categories=["x", "y"], random_state=0).fit(X)
        assert model.transform(X)[1, 0] in ("x", "y")


def test_bounds_are_advised_only_where_they_lower_the_need():
    X = np.random.default_rng(0).integers(0, 5, size=(300, 5)).astype(float)
    with pytest.warns(TooFewUnitsWarning, match="take fewer columns.$"):
        PrivateImputer(0.1, bounds=(0, 4)).fit(X)
    with pytest.warns(TooFewUnitsWarning, match="or pass public bounds"):
        PrivateImputer(0.1, strategy="mean").fit(X)


def test_modes_are_found_among_categories_only():
    mechanism = ColumnModes(1, 1.0, 0.0, "replace-one", categories=(("a",),))
    assert len(mechanism.events) == 1


@pytest.mark.parametrize("odd", ["x", b"x", None, 2.5, 2**64])
def test_one_odd_entry_in_a_list_changes_no_other_vote(odd):
    # The mode is missed with probability below e⁻⁴⁰⁰; where nobody has a category, all are right with 3⁻⁵.
    for seed in SEEDS:
        imputer = PrivateImputer(epsilon=1.0, strategy="most_frequent", categories=[1, 2, 3], random_state=seed)
        assert imputer.fit([[1]] * 1000 + [[odd]]).statistics_.tolist() == [1]
