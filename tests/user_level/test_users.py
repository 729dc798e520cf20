"""Grouping of rows by user."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.user_level._problems import UserGroups, encode_users, user_magnitudes


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 5), st.integers(1, 20))
def test_means_match_a_loop_over_users(ids, cap, block):
    rows = np.random.default_rng(len(ids)).normal(size=(len(ids), 3))
    codes, _ = encode_users(ids, len(ids))
    groups = UserGroups(codes, cap)
    expected = np.array([rows[codes == u].mean(axis=0) for u in range(groups.n_users)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skprivate.user_level._problems.BLOCK_ROWS", block)
        np.testing.assert_allclose(groups.mean(rows), expected.T, atol=1e-12)
        np.testing.assert_allclose(groups.mean(rows[:, 0]), expected[:, 0], atol=1e-12)
    np.testing.assert_allclose(groups.weights, np.minimum(groups.sizes, cap) / cap)
    rms = np.array([np.sqrt((rows[codes == u, 0] ** 2).mean()) for u in range(groups.n_users)])
    np.testing.assert_allclose(user_magnitudes(rows[:, 0], groups), rms)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 20))
def test_blocks_hold_every_row_of_every_user_once(ids, max_rows):
    codes, _ = encode_users(ids, len(ids))
    groups = UserGroups(codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skprivate.user_level._problems.BLOCK_ROWS", max_rows)
        blocks = list(groups.blocks())
        columns = groups.columns(np.column_stack([np.arange(len(ids)), codes]).astype(float))
    assert [users.start for users, _ in blocks] == [0, *(users.stop for users, _ in blocks[:-1])]
    assert blocks[-1][0].stop == groups.n_users
    for users, rows in blocks:
        numbers = groups.order[rows]
        np.testing.assert_array_equal(
            codes[numbers], np.repeat(np.arange(users.start, users.stop), groups.sizes[users])
        )
        np.testing.assert_array_equal(columns[:, rows], [numbers, codes[numbers]])
        assert len(numbers) <= max_rows or users.stop - users.start == 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.data())
def test_a_subset_keeps_its_rows(ids, data):
    codes, _ = encode_users(ids, len(ids))
    groups = UserGroups(codes)
    users = np.array(sorted(data.draw(st.sets(st.integers(0, groups.n_users - 1)))), dtype=np.int64)
    rows, chosen = groups.subset(users)
    assert chosen.n_users == len(users) and chosen.in_order
    np.testing.assert_array_equal(codes[rows], np.repeat(users, groups.sizes[users]))


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda X: X.repeat(2, axis=1)[:, ::2]])
def test_rows_are_sorted_from_any_layout(layout):
    X = np.random.default_rng(0).normal(size=(40, 3))
    codes = np.arange(40) * 7 % 5
    groups = UserGroups(codes)
    expected = X[np.argsort(codes, kind="stable")]
    np.testing.assert_array_equal(groups.sorted_rows(layout(X), slice(3, 30)), expected[3:30])
    np.testing.assert_array_equal(groups.columns(layout(X), spare=1)[:-1], expected.T)


def test_magnitudes_keep_numbers_whose_squares_do_not_exist():
    groups = UserGroups(np.array([0, 0, 1, 2, 2, 3]))
    found = user_magnitudes(np.array([1e-200, 1e-200, -1e300, 3e200, 4e200, 0.0]), groups)
    np.testing.assert_allclose(found, [1e-200, 1e300, np.sqrt(12.5) * 1e200, 0.0])


def test_absent_user_ids_make_every_row_its_own_user():
    groups = UserGroups(encode_users(None, 5)[0])
    assert groups.in_order and groups.n_users == 5


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
