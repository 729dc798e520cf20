"""Folds in which nobody moves anybody else."""

from __future__ import annotations

import copy
import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

from skprivate import PrivacyLedger, UserLevelMean, UserLevelSGDRegressor
from skprivate.model_selection import UserKFold
from skprivate.partitions import Blocks
from skprivate.preprocessing import PublicScaler

identifiers = st.one_of(
    st.lists(st.integers(-(2**65), 2**65) | st.integers(0, 5), min_size=1, max_size=25),
    st.lists(st.text(max_size=3), min_size=1, max_size=25),
    st.lists(st.uuids(), min_size=1, max_size=10),
)
keys = st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=80)


def fold_of_users(cv, ids):
    """Fold of each user in order of first appearance; checks that the splits are a partition by user."""
    folds = {}
    splits = list(cv.split(np.zeros((len(ids), 1)), user_ids=ids))
    assert len(splits) == cv.get_n_splits()
    held_out = []
    for number, (train, test) in enumerate(splits):
        assert sorted([*train, *test]) == list(range(len(ids)))
        assert {ids[i] for i in train}.isdisjoint(ids[i] for i in test)
        folds |= {ids[i]: number for i in test}
        held_out.extend(test)
    assert sorted(held_out) == list(range(len(ids)))
    return [folds[user] for user in dict.fromkeys(ids)]


@settings(deadline=None, max_examples=150)
@given(identifiers.flatmap(lambda ids: st.tuples(st.just(ids), st.permutations(ids), st.integers(0, len(ids) - 1))),
       st.integers(2, 7), keys)  # fmt: skip
def test_a_users_fold_depends_on_nobody_else(case, n_splits, key):
    ids, shuffled, i = case
    make = {int: lambda k: 2**66 + k, str: "user {}".format, uuid.UUID: lambda k: uuid.UUID(int=k)}[type(ids[0])]
    others = [make(k) for k in range(7)]  # fewer users than folds are refused
    cv = UserKFold(n_splits, key=key)
    folds = dict(zip(dict.fromkeys(ids + others), fold_of_users(cv, ids + others), strict=True))
    for changed in (ids[:i] + ids[i + 1 :], [*ids, ids[i]], [ids[i]] * 7 + ids, shuffled, [ids[i]]):
        found = fold_of_users(cv, others + changed)
        assert found == [folds[user] for user in dict.fromkeys(others + changed)]


def test_group_k_fold_fails_this():
    """The property above is one that can fail."""
    ids = np.repeat(np.arange(100), 5)
    more = np.insert(ids, 250, 50)
    folds = [
        {user: number for number, (_, test) in enumerate(GroupKFold(2).split(g, groups=g)) for user in g[test]}
        for g in (ids, more)
    ]
    assert sum(folds[0][user] != folds[1][user] for user in range(100)) > 10


@pytest.mark.parametrize(("splitter", "leaks"), [(UserKFold(2), False), (GroupKFold(2), True)], ids=["ours", "group"])
def test_one_row_more_of_one_user_changes_no_other_users_training_set(splitter, leaks):
    """An attack on the recipe: whoever controls the other users reads off one user's row count.

    The other users hold what tells their fold in one of the data sets. With UserKFold, the model of a fold sees the
    same others in both.
    """
    users, victim = 1000, 500
    sizes = np.full(users, 5)
    one = np.repeat(np.arange(users), sizes)
    sizes[victim] += 1
    other = np.repeat(np.arange(users), sizes)
    fold = np.empty(users, dtype=int)
    for number, (_, test) in enumerate(splitter.split(one, groups=one)):
        fold[one[test]] = number
    value = np.where(fold == 0, 1.0, -1.0)
    means = []
    for ids in (one, other):
        X = value[ids][:, None]
        train = next(splitter.split(X, groups=ids))[0]
        means.append(
            [
                float(UserLevelMean(epsilon=0.5, random_state=seed).fit(X[train], user_ids=ids[train]).mean_[0])
                for seed in range(3)
            ]
        )
    # Under D all users of the training set say −1, and the private mean finds that up to far less than 0.05. How many
    # say 1 under the other depends on how the machine sorts: scikit-learn 1.6 does not ask for a stable order.
    assert np.allclose(means[0], -1.0, atol=0.05)
    assert bool(np.abs(np.subtract(*means)).max() > 0.1) is leaks


@pytest.mark.parametrize("make", [int, str, lambda i: uuid.UUID(int=i), lambda i: b"%d" % i])
@pytest.mark.parametrize("n_splits", [2, 5, 7])
def test_folds_are_uniform_for_every_kind_and_key(make, n_splits):
    """Chi-square of 20 000 users, two keys; passes at 1e-9 each, a probability of failure of 2.4e-8 in all."""
    ids = [make(i) for i in range(20_000)]
    tables = []
    for key in (None, 1):
        folds = np.array(fold_of_users(UserKFold(n_splits, key=key), ids))
        assert stats.chisquare(np.bincount(folds, minlength=n_splits)).pvalue > 1e-9
        tables.append(folds)
    joint = np.zeros((n_splits, n_splits))
    np.add.at(joint, tuple(tables), 1)
    assert stats.chi2_contingency(joint).pvalue > 1e-9  # another key deals independently


def test_folds_are_the_same_in_every_version_and_for_every_width():
    """Recorded from the definition, written out with hashlib, so that a user stays where it was."""
    assert fold_of_users(UserKFold(5), list("abcdefghij")) == [1, 3, 2, 4, 1, 3, 2, 1, 3, 3]
    for stored in (list(range(10)), np.arange(10, dtype=np.uint8), np.arange(10, dtype=object)):
        assert fold_of_users(UserKFold(5, key="2024"), stored) == [0, 4, 2, 4, 3, 1, 1, 3, 1, 1]


def test_keys_of_different_types_differ():
    ids = list(range(200))
    tables = {tuple(fold_of_users(UserKFold(5, key=key), ids)) for key in (None, 1, "1", b"1", "", -1)}
    assert len(tables) == 6


def test_few_users_may_leave_folds_empty():
    splits = list(UserKFold(2).split(np.zeros((4, 1)), user_ids=[1, 2, 1, 1]))
    assert sorted(len(test) for _, test in splits) == [0, 4]
    assert sorted(len(train) for train, _ in splits) == [0, 4]


@pytest.mark.parametrize("outer", [2, 3, 4, 5])
@pytest.mark.parametrize("inner", [2, 3, 4, 5])
def test_folds_within_folds_are_folds_or_an_error_that_names_the_key(outer, inner):
    """In memory and in blocks; the same key and number of folds would leave an inner fold empty."""
    ids = np.arange(4000) % 1000
    rows = pd.DataFrame({"user": ids, "x": 0.0})
    blocks = Blocks([rows[:1500], rows[1500:]])
    within = {inner: None} if inner != outer else {inner: "inner"}
    for train, _ in UserKFold(outer).split(rows, groups=ids):
        for n_splits, key in within.items():
            sizes = [
                len(np.unique(ids[train][test]))
                for _, test in UserKFold(n_splits, key=key).split(rows.iloc[train], groups=ids[train])
            ]
            mean = 1000 * (1 - 1 / outer) / inner
            assert len(sizes) == inner and np.abs(np.array(sizes) - mean).max() < 7 * np.sqrt(mean)
        if inner == outer:
            with pytest.raises(ValueError, match=r"key must be another one.*got None.*key='inner'"):
                next(UserKFold(inner).split(rows.iloc[train], groups=ids[train]))
    train, _ = next(UserKFold(outer).partition(blocks, user_ids="user"))
    if inner == outer:
        with pytest.raises(ValueError, match="key must be another one"):
            next(UserKFold(inner).partition(train, user_ids="user"))
    else:
        assert all(test.n_rows for _, test in UserKFold(inner).partition(train, user_ids="user"))


@pytest.mark.parametrize(("n_users", "n_splits"), [(1, 2), (4, 5), (40, 50)])
def test_fewer_users_than_folds_are_refused(n_users, n_splits):
    ids = np.arange(300) % n_users
    for name in ("groups", "user_ids"):
        with pytest.raises(ValueError, match=f"n_splits must be at most the number of users.*got n_splits={n_splits}"):
            next(UserKFold(n_splits).split(np.zeros((300, 1)), **{name: ids}))


@pytest.mark.parametrize("n_splits", [1, 0, -3, 2.0, "5", True, None])
def test_bad_numbers_of_splits(n_splits):
    with pytest.raises(ValueError, match="n_splits must be an integer of at least 2"):
        UserKFold(n_splits)


@pytest.mark.parametrize("key", [1.5, True, ["a"]])
def test_bad_keys(key):
    with pytest.raises(TypeError, match="key must be a string, bytes, an integer or None"):
        UserKFold(key=key)


def test_identifiers_are_needed_and_checked():
    X = np.zeros((3, 1))
    for arguments, error, text in (
        ({}, ValueError, "pass groups=user_ids"),
        ({"groups": [1, 2, 3], "user_ids": [1, 2, 3]}, ValueError, "pass one"),
        ({"user_ids": [1, 2]}, ValueError, "2 entries for 3 rows"),
        ({"groups": [1, None, 2]}, ValueError, "missing"),
        ({"user_ids": [1.0, 2.0, 3.0]}, TypeError, "float"),
    ):
        with pytest.raises(error, match=text):
            list(UserKFold().split(X, **arguments))


def test_repr_and_copies():
    cv = UserKFold(3, key="a")
    assert repr(cv) == "UserKFold(key='a', n_splits=3)"
    for other in (copy.deepcopy(cv), clone(cv, safe=False)):
        assert (other.n_splits, other.key) == (3, "a")


# With scikit-learn ------------------------------------------------------------------------------------------


def problem():
    users = np.arange(900) % 300
    X = np.linspace(-1.0, 1.0, 900)[:, None] * [[1.0, 0.5]]
    # Without any noise in the target no descent comes to rest.
    return X, X @ [1.0, 2.0] + 0.3 * np.sin(7.0 * np.arange(900)), users


def regressor(**options):
    return UserLevelSGDRegressor(epsilon=3.0, radius=5.0, random_state=0, **options)


def stored_ids():
    _, _, users = problem()
    big = [2**63 + int(user) if user else -1 for user in users]
    return {"int": users, "list of big integers": big, "strings": [f"user {user}" for user in users]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", stored_ids())
def test_routing_needs_user_ids_once(kind):
    X, y, _ = problem()
    ids = stored_ids()[kind]
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3, unit="user")
    pipeline = make_pipeline(PublicScaler(), regressor(ledger=ledger))
    options = {"cv": UserKFold(3), "return_estimator": True, "return_indices": True, "error_score": "raise"}
    with config_context(enable_metadata_routing=True):
        routed = cross_validate(pipeline, X, y, params={"user_ids": ids}, **options)
        grid = GridSearchCV(regressor(), {"epsilon": [1.0, 3.0]}, cv=UserKFold(3), error_score="raise")
        grid.fit(X, y, user_ids=ids)
        cross_val_score(regressor(), X, y, cv=UserKFold(3), params={"user_ids": ids})
        cross_val_predict(regressor(), X, y, cv=UserKFold(3), params={"user_ids": ids})
        named = UserKFold(3).set_split_request(user_ids="people", groups=False)
        renamed = cross_validate(
            regressor().set_fit_request(user_ids="people"), X, y, params={"people": ids}, **{**options, "cv": named}
        )
    plain = cross_validate(regressor(), X, y, groups=ids, params={"user_ids": ids}, **options)
    expected = list(UserKFold(3).split(X, user_ids=ids))
    for result in (routed, plain, renamed):
        for number, (train, test) in enumerate(expected):
            np.testing.assert_array_equal(result["indices"]["train"][number], train)
            np.testing.assert_array_equal(result["indices"]["test"][number], test)
        np.testing.assert_array_equal(result["test_score"], routed["test_score"])
    for estimator, (train, _) in zip(plain["estimator"], expected, strict=True):
        direct = regressor().fit(X[train], y[train], user_ids=[ids[i] for i in train])
        np.testing.assert_array_equal(estimator.coef_, direct.coef_)
    assert len(ledger.entries()) == 3
    np.testing.assert_array_equal([grid.cv_results_[f"split{f}_test_score"][1] for f in range(3)], plain["test_score"])


def test_without_routing_the_splitter_says_what_it_needs():
    X, y, users = problem()
    with pytest.raises(ValueError, match="pass groups=user_ids"):
        cross_validate(regressor(), X, y, cv=UserKFold(3), params={"user_ids": users})
    grid = GridSearchCV(regressor(), {"epsilon": [3.0]}, cv=UserKFold(3), error_score="raise")
    assert grid.fit(X, y, groups=users, user_ids=users).best_params_ == {"epsilon": 3.0}
