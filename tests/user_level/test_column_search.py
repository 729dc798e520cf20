"""Joint histograms of all columns: what one user moves, and that centres and scales far apart are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skprivate import UserLevelSGDRegressor
from skprivate.partitions import InMemory
from skprivate.privacy import Adjacency, public_generator
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData, UserGroups
from skprivate.user_level.scaling._column_search import MAGNITUDES, _counts, _posterior, plan_search


def data_of(X, codes):
    groups = UserGroups(codes)
    data = UserData(X, np.zeros(len(X)), groups, np.arange(groups.n_users))
    return UserData(groups.columns(X).T, data.y, groups.sorted(), data.names)


@pytest.mark.parametrize("folded", [True, False])
def test_a_user_moves_histograms_by_what_is_promised(folded, monkeypatch):
    """Not negative, at most total a column, and the same whoever else is there; a gap is in no cell, or its own."""
    monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", 4)
    rng = public_generator(0)
    codes = rng.permutation(np.repeat(np.arange(6), [1, 300, 2, 3, 1, 17]))
    extremes = [0.0, -0.0, 5e-324, 1.5, -1.5, 1.7e308, -1.7e308, 2.0**-1.5, np.nan, np.inf, -np.inf]
    X = rng.choice(extremes, size=(len(codes), 3))
    sought = np.array([True, False, True])
    total = math.isqrt((1 << 60) // 2)
    edges = np.tile(MAGNITUDES if folded else np.linspace(-1.5, 8.0, 20), (3, 1))
    options = {"edges": edges, "sought": sought, "total": total, "folded": folded}
    whole = _counts(data_of(X, codes), **options)
    for user in range(6):
        own = codes == user
        alone = _counts(data_of(X[own], np.zeros(own.sum(), np.int64)), **options)
        assert (alone >= 0).all() and (alone.sum(axis=1) <= total * sought).all()
        full = ~np.isnan(X[own]).any(axis=0) | folded
        assert (alone.sum(axis=1)[full] == (total * sought)[full]).all()
        if folded:
            np.testing.assert_array_equal(alone[:, -1] > 0, np.isnan(X[own]).any(axis=0) & sought)
        assert sum(int(v) ** 2 for v in alone.ravel()) <= 1 << 60
        whole = whole - alone
    assert not whole.any()


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_what_is_drawn_is_what_was_planned_whatever_the_data(adjacency, recording_release):
    search = plan_search(Terms(0.3, 1e-6, adjacency, 3000), n_columns=5, centred=True)
    root = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    rng = public_generator(1)
    for X in (np.zeros((3000, 5)), rng.normal(size=(3000, 5)) + np.array([0.0, 0.0, 50.0, -1e200, 1e30])):
        release = recording_release()
        found = search.run(InMemory(data_of(X, np.arange(3000))), 3000.0, release)
        assert np.isfinite(found).all()
        drawn = [(draw["value"].size, draw["sensitivity"]) for draw in release.draws]
        sizes = [event.size for event, _ in search.events]
        assert [size for size, _ in drawn] == sizes
        assert all(root <= (sensitivity * 2.0**-30) ** 2 < root * (1 + 1e-12) for _, sensitivity in drawn)


def test_a_column_that_may_be_standardised_is_taken_to_be(recording_release):
    """What a search finds is off by half a deviation here: a target that somebody had scaled lost .2 R² by it."""
    terms = Terms(0.5, 1e-6, Adjacency.REPLACE_ONE, 309)
    search = plan_search(terms, n_columns=1, centred=True, assume_standard=True)
    assert not search.decides_all(309)
    found = 0
    for seed in range(20):
        release = recording_release(seed)
        z = public_generator(seed).normal(size=(309, 1))
        here = [
            tuple(float(v[0]) for v in search.run(InMemory(data_of(X, np.arange(309))), 309.0, release)[:2])
            for X in (1.2 * z + 0.3, 50.0 * z + 150.0, 0.0 * z)
        ]
        assert here[0] == (0.0, 1.0) and np.isfinite(here[2]).all()
        found += abs(here[1][0] - 150.0) < 100.0 and 5.0 < here[1][1] < 200.0
    assert found >= 17  # a search with so little misses one in twenty


def test_columns_far_from_zero_are_found_at_a_small_price():
    """Selections one by one put 60 of these 160 columns a scale off their centre, or scaled them wrongly by 4."""
    wrong = 0
    for seed in range(8):
        rng = public_generator(seed)
        sizes = 10.0 ** rng.uniform(-2.0, 2.0, size=20)
        centres = np.where(np.arange(20) % 2, 20.0, 0.0) * sizes
        X = rng.normal(size=(6000, 20)) * sizes + centres
        y = 10.0 + X @ (rng.normal(size=20) / sizes) + rng.normal(size=len(X))
        model = UserLevelSGDRegressor(0.12, random_state=seed).fit(X, y)
        scales = np.broadcast_to(model.feature_scale_, 20)
        far = np.abs(model.feature_center_ - centres) > np.maximum(scales, sizes)
        wrong += int((far | (np.abs(np.log2(scales / sizes)) > 2.0)).sum())
    assert wrong < 16


def test_a_column_as_narrow_as_degrees_of_longitude_in_a_town_is_found(recording_release):
    """Offsets of 4000 and 7400 deviations: four histograms took all of these 80 scales ten times too wide or more."""
    wide = 0
    for seed in range(8):
        terms = Terms(0.3, 1e-6, Adjacency.REPLACE_ONE, 6000)
        search = plan_search(terms, n_columns=10, centred=True)
        rng = public_generator(seed)
        X = rng.normal(size=(6000, 10)) * 0.01 + rng.choice([-73.97, 40.75], size=10)
        _, scales, *_ = search.run(InMemory(data_of(X, np.arange(6000))), 6000.0, recording_release(seed))
        wide += int((scales > 0.1).sum())
    assert wide < 8


def test_a_column_of_two_values_gets_the_spread_of_both(recording_release):
    """Scales were .008 to .3: one of the values with a cell about it."""
    search = plan_search(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 20_000), n_columns=8, centred=True)
    rng = public_generator(4)
    X = np.concatenate([rng.normal(size=(20_000, 4)), np.sign(rng.normal(size=(20_000, 4)))], axis=1)
    found = search.run(InMemory(data_of(X, np.arange(20_000))), 20_000.0, recording_release())
    assert (np.abs(np.log2(found.scales)) < 1.0).all()
    assert (np.abs(found.centres) < 1.0).all()


def test_a_column_that_seems_like_no_other_takes_none_with_it(recording_release):
    """Chance gave one column of 20 a magnitude of its own, and each that leaned towards it followed: 45 % of fits."""
    n_users, wrong = 400, 0
    search = plan_search(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n_users), n_columns=20, centred=True)
    for seed in range(40):
        X = public_generator(seed).normal(size=(n_users, 20))
        found = search.run(InMemory(data_of(X, np.arange(n_users))), float(n_users), recording_release(seed))
        wrong += (np.abs(np.log2(found.sizes)) > 6.0).any()
    assert wrong <= 4


def test_a_column_is_like_the_others_without_the_one_that_says_it_loudest():
    """Of three columns, the prior of a silent one is the quieter of the other two."""
    support = np.array([[0.0, 0.0], [0.0, -30.0], [-30.0, 0.0]])
    first, second, third = _posterior(support, np.ones(2))
    assert first == pytest.approx([0.5, 0.5], abs=0.01)
    assert second[0] > 0.999 and third[1] > 0.999
