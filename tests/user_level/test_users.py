"""Grouping of rows by user."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.user_level._users import UserGroups, encode_users


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 5))
def test_means_match_a_loop_over_users(ids, cap):
    rng = np.random.default_rng(len(ids))
    rows, factor = rng.normal(size=(len(ids), 3)), rng.normal(size=len(ids))
    codes, _ = encode_users(ids, len(ids))
    groups = UserGroups(codes, cap)
    expected = np.array([(rows * factor[:, None])[codes == u].mean(axis=0) for u in range(groups.n_users)])
    np.testing.assert_allclose(groups.mean(rows, factor), expected, atol=1e-12)
    expected = np.array([rows[codes == u, 0].mean() for u in range(groups.n_users)])
    np.testing.assert_allclose(groups.mean(rows[:, 0]), expected, atol=1e-12)
    assert groups.weights.max() <= 1.0
    np.testing.assert_allclose(groups.weights, np.minimum(groups.sizes, cap) / cap)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 20))
def test_batches_hold_every_row_of_every_user_once(ids, max_rows):
    codes, _ = encode_users(ids, len(ids))
    groups = UserGroups(codes)
    seen_users, seen_rows = [], []
    for users, rows in groups.batches_of_equal_size(max_rows):
        assert rows.shape == (len(users), groups.sizes[users[0]])
        assert (codes[rows] == users[:, None]).all()
        assert rows.size <= max(max_rows, rows.shape[1])
        seen_users.extend(users)
        seen_rows.extend(rows.ravel())
    assert sorted(seen_users) == list(range(groups.n_users))
    assert sorted(seen_rows) == list(range(len(ids)))


def test_absent_user_ids_make_every_row_its_own_user():
    groups = UserGroups(encode_users(None, 5)[0])
    assert groups.singletons and groups.n_users == 5


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        ([1, 2], ValueError, "2 entries for 3 rows"),
        ([[1], [2], [3]], ValueError, "one-dimensional"),
        ([1.0, np.nan, 2.0], ValueError, "missing"),
        (["a", None, "b"], ValueError, "missing"),
        (np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"), ValueError, "missing"),
        (np.array([1, "b", 2.5], dtype=object), TypeError, "float and int and str"),
    ],
)
def test_bad_user_ids_are_refused_without_showing_them(ids, error, text):
    with pytest.raises(error, match=text):
        encode_users(ids, 3)
