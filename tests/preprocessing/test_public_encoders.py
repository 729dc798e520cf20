"""Encoders by public categories: they look at no data."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from skprivate.preprocessing import PublicOneHotEncoder, PublicOrdinalEncoder

VALUES = st.sampled_from(["a", "b", "c", "d", "", "rest"])


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_as_scikit_learn_with_the_rest_beside_it(values):
    X = np.array(values, dtype=object)[:, None]
    known = ["b", "a", "c"]
    mine = PublicOneHotEncoder(known).fit_transform(X)
    theirs = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False).fit_transform(X)
    np.testing.assert_array_equal(mine[:, :3], theirs)
    np.testing.assert_array_equal(mine.sum(axis=1), 1)
    np.testing.assert_array_equal(PublicOneHotEncoder(known, handle_unknown="ignore").fit_transform(X), theirs)
    ordinal = OrdinalEncoder(categories=[known], handle_unknown="use_encoded_value", unknown_value=3)
    np.testing.assert_array_equal(PublicOrdinalEncoder(known).fit_transform(X), ordinal.fit_transform(X))


@given(st.lists(VALUES, min_size=2, max_size=10), st.integers(0, 9))
def test_a_row_is_encoded_by_itself(values, i):
    X = np.array(values, dtype=object)[:, None]
    i %= len(values)
    for encoder in (PublicOneHotEncoder(["a", "b"]), PublicOrdinalEncoder(["a", "b"])):
        np.testing.assert_array_equal(encoder.fit_transform(X)[i], encoder.fit(X[i : i + 1]).transform(X[i : i + 1])[0])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, ["unhashable"]])
def test_whatever_is_no_category_is_the_rest(missing):
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = ["a", 0]
    X[1, 0] = missing
    encoder = PublicOneHotEncoder(["a"])
    np.testing.assert_array_equal(encoder.fit_transform(X), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(PublicOrdinalEncoder(["a"]).fit_transform(X), [[0], [1]])


def test_numbers_are_categories_too():
    X = np.array([[1.0], [2.0], [3.5]])
    assert PublicOrdinalEncoder([1, 2]).fit_transform(X).ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_and_names(frame):
    X = frame({"job": ["x", "z"], "day": ["mon", "tue"]})
    library = "pandas" if frame is pd.DataFrame else "polars"
    encoder = PublicOneHotEncoder({"day": ["mon"], "job": ["x", "y"]}).set_output(transform=library).fit(X)
    encoded = encoder.transform(X)
    assert list(encoded.columns) == ["job_x", "job_y", "job_rest", "day_mon", "day_rest"]
    assert list(encoder.get_feature_names_out()) == list(encoded.columns)
    with pytest.raises(ValueError, match="none for 'day'"):
        PublicOrdinalEncoder({"job": ["x"]}).fit(X)
    assert PublicOneHotEncoder(["x"], sparse_output=True).fit_transform(X).shape == (2, 4)


def test_nothing_is_learned():
    one, other = (PublicOneHotEncoder(["a"]).fit(np.array([[v]], dtype=object)) for v in ("a", "b"))
    assert vars(one) == vars(other)
    with pytest.raises(ValueError, match="categories must be given"):
        PublicOneHotEncoder(None).fit([["a"]])


def test_one_string_in_a_list_makes_no_strings_of_numbers():
    for odd in ("x", b"x", None, 2.5, 2**64):
        rows = [[1], [2**53 + 1], [odd]]
        codes = PublicOrdinalEncoder(categories=[1, 2**53 + 1]).fit(rows).transform(rows)
        assert codes.ravel().tolist() == [0.0, 1.0, 2.0]
        assert PublicOneHotEncoder(categories=[1, 2**53 + 1]).fit_transform(rows).argmax(axis=1).tolist() == [0, 1, 2]
