"""Fits work through rows in blocks, on one copy of them: no release and no row of the caller shows it."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy.draws._quantiles import FINE, WeightedCells, median_costs
from skprivate.privacy.noise._bits import SeededBitSource
from skprivate.privacy.noise._selection import exponential_select, permute_and_flip_select
from skprivate.user_level._losses import LogisticLoss
from skprivate.user_level._problems import Objective, UserData, UserGroups, user_magnitudes
from skprivate.user_level.scaling._frame import identity, whiten
from skprivate.user_level.scaling._standardise import clip_data, clip_rows, mapped_rows

N_USERS = 150


def rows(seed=0):
    """Users with one row, a few and many, and columns of different sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.where(np.arange(N_USERS) % 3, rng.integers(2, 12, size=N_USERS), 1)
    sizes[7] = 300
    users = np.repeat(np.arange(N_USERS), sizes)
    X = rng.normal(size=(len(users), 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, 1.0]
    y = X @ [1.0, 0.05, 3.0] + rng.normal(size=len(users))
    return X, y, users


def fitted(kind, X, y, users, epsilon=2000.0, **options):
    target = (y > 3.0).astype(int) if kind is UserLevelSGDClassifier else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(epsilon, random_state=0, **options).fit(X, target, user_ids=users)
    released = (model.coef_, model.intercept_, model.clip_radius_, model.feature_center_, model.feature_scale_)
    return np.concatenate([np.ravel(each) for each in released])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"standardize": False}, {"epsilon": 6.0}], ids=["default", "as given", "joint histograms"]
)
@pytest.mark.parametrize("kind", [UserLevelSGDClassifier, UserLevelSGDRegressor])
def test_no_digit_depends_on_the_size_of_blocks_or_the_layout(kind, options, monkeypatch):
    X, y, users = rows()
    expected = fitted(kind, X, y, users, **options)
    np.testing.assert_array_equal(fitted(kind, np.asfortranarray(X), y, users, **options), expected)
    for block in (5, 100):
        monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", block)
        # Users one after the other, and their rows among those of others.
        order = np.argsort(np.random.default_rng(block).random(len(users)))
        for user in range(N_USERS):
            own = np.flatnonzero(users[order] == user)
            order[own] = np.sort(order[own])
        for chosen in (np.arange(len(users)), order):
            found = fitted(kind, X[chosen], y[chosen], users[chosen], **options)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("kind", [UserLevelSGDClassifier, UserLevelSGDRegressor])
def test_rows_of_the_caller_are_left_alone(kind, layout):
    X, y, users = rows(1)
    given = np.asarray(X, order=layout)
    given.flags.writeable = False
    first = fitted(kind, given, y, users)
    assert (first[-3:] != 1.0).any()  # features were scaled, on a copy
    np.testing.assert_array_equal(fitted(kind, given, y, users), first)
    np.testing.assert_array_equal(given, X)


def test_maps_write_over_a_store_alone():
    """Rows of partitions have none: a map is then made anew in every pass, of rows that must be as they came."""
    X, y, users = rows(3)
    given = UserData(np.asfortranarray(X), y, UserGroups(users), np.arange(N_USERS))
    frame = identity(3)._replace(centres=np.ones(3), scales=np.full(3, 2.0), row_bound=0.5)
    matrix = np.eye(4) + 0.1
    maps = (
        partial(mapped_rows, frame=frame, target=True),
        partial(clip_rows, bound=0.5),
        partial(clip_data, frame=frame),
        partial(whiten, matrix=matrix, constant=True),
    )
    for each in maps:
        own = given.copied_in_order()
        fresh, over = each(given), each(own)
        np.testing.assert_array_equal(given.X, X)
        np.testing.assert_array_equal(fresh.X, over.X)
        assert np.shares_memory(over.X, own.store) and not np.array_equal(own.X, X)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_users_are_sorted_stably_and_their_codes_come_back(ids):
    codes = np.unique(ids, return_inverse=True)[1]
    groups = UserGroups(codes.copy())
    np.testing.assert_array_equal(groups.order, np.argsort(codes, kind="stable"))
    np.testing.assert_array_equal(groups.codes, codes)
    np.testing.assert_array_equal(groups.sorted().codes, np.sort(codes))
    assert groups.sorted().starts.tolist() == groups.starts.tolist()


def test_an_infinite_distance_is_the_same_beside_whomever():
    """Users of one row each are not summed; a distance that overflows must come out as it does beside longer users."""
    values = np.array([1.7e308, -0.0, 5e-324, 3.0])
    with np.errstate(all="ignore"):
        alone = user_magnitudes(values, UserGroups(np.arange(4)), -1.7e308)
        beside = user_magnitudes(np.append(values, [1.0, 1.0]), UserGroups(np.array([0, 1, 2, 3, 4, 4])), -1.7e308)
    np.testing.assert_array_equal(alone, beside[:4])


def test_slopes_of_the_logistic_loss():
    f = np.concatenate([np.linspace(-40.0, 40.0, 4001), [-1e300, -800.0, 800.0, 1e300, np.inf, -np.inf]])[None]
    for y in (np.ones_like(f), -np.ones_like(f)):
        slope = LogisticLoss().derivative(f, y)
        np.testing.assert_allclose(slope, -y * expit(-y * f), rtol=1e-13, atol=1e-300)
        for first in range(0, 40, 7):  # remainders and offsets of vector instructions
            for size in (1, 3, 8, 13):
                part = slice(first, first + size)
                np.testing.assert_array_equal(
                    LogisticLoss().derivative(f[:, part].copy(), y[:, part].copy()), slope[:, part]
                )


def test_vectors_and_sums_do_not_depend_on_blocks(monkeypatch):
    X, y, users = rows(2)
    data = UserData(X, np.sign(y).astype(np.int8), UserGroups(users), np.arange(N_USERS))
    problem = Objective(LogisticLoss(), 3, 1, True, 0.1).problem
    w = np.array([0.1, -0.2, 0.3, 0.4])
    whole, total = problem(data).user_gradients(w), problem(data).contribution_sum(w, 0.1)
    floats = UserData(X, np.sign(y), data.groups, data.names)
    np.testing.assert_array_equal(problem(floats).user_gradients(w), whole)
    for module in ("_problems",):
        monkeypatch.setattr(f"skprivate.user_level.{module}.BLOCK_ROWS", 64)
    assert len(list(problem(data).gradient_blocks(w))) > 10
    np.testing.assert_array_equal(problem(data).user_gradients(w), whole)
    np.testing.assert_array_equal(problem(data).contribution_sum(w, 0.1), total)


@pytest.mark.parametrize("shuffled", [True, False])
def test_a_fit_allocates_as_much_as_it_was_given(shuffled):
    rng = np.random.default_rng(0)
    n_rows, n_users = 100_000, 2_000
    X, users = rng.normal(size=(n_rows, 20)), np.arange(n_rows) * n_users // n_rows
    y = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(int)
    users = rng.permutation(users) if shuffled else users
    model = UserLevelSGDClassifier(5.0, max_iter=3, random_state=0)
    model.fit(X[:500], y[:500], user_ids=np.arange(500))  # what is calibrated once
    tracemalloc.start()
    try:
        model.fit(X, y, user_ids=users)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    blocks = 10 << 20  # that are worked on, however many rows there are
    # Rows of integers take a quarter of the others.
    assert peak < 1.35 * (X.nbytes + y.nbytes + users.nbytes) + blocks


@pytest.mark.parametrize("select", [exponential_select, permute_and_flip_select])
def test_multiplicities_may_be_arrays(select):
    rng = np.random.default_rng(0)
    costs, counts = rng.integers(0, 50, size=40), rng.integers(0, 6, size=40)
    for seed in range(20):
        drawn = [
            select(costs, 0.1, SeededBitSource(seed), each) for each in (counts, counts.tolist(), counts.astype(object))
        ]
        assert drawn[0] == drawn[1] == drawn[2]
    for wrong in (np.zeros(40, np.int64), np.where(np.arange(40) == 3, -1, counts), counts[1:]):
        with pytest.raises(ValueError, match="multiplicity must"):
            select(costs, 0.1, SeededBitSource(0), wrong)
    # Their sum is no int64.
    huge = np.full(40, 2**60)
    if select is exponential_select:
        drawn = [select(costs, 0.1, SeededBitSource(1), each) for each in (huge, huge.tolist())]
        assert drawn[0] == drawn[1]


def test_cells_beyond_the_range_of_a_median_are_merged():
    data = WeightedCells(np.array([-9, -5, 0, 2, 5, 7]), np.array([1, 2, 4, 8, 16, 32]))
    runs = median_costs(data, -5, 5)
    weights = {-5: 3, 0: 4, 2: 8, 5: 48}
    found = {}
    for start, length, cost in zip(*(each.tolist() for each in runs), strict=True):
        found |= dict.fromkeys(range(start, start + length), cost)
    assert list(found) == list(range(-5, 6))
    for cell, cost in found.items():
        below, above = (sum(w for c, w in weights.items() if sign * c > sign * cell) for sign in (-1, 1))
        assert cost == max(below, above)
    prior = FINE.prior(np.array([-2, -1, 0, 1]))
    assert [int(FINE.prior(k)) for k in (-2, -1, 0, 1)] == prior.tolist()
