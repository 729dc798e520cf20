"""Choice by mean risk: winsorised differences of the users' losses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator

from skprivate import UserLevelSelector
from skprivate.privacy import open_release
from skprivate.user_level._selection import DifferenceSelection, VoteSelection, difference_sums, loss_ranges, worst_of

loss = st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0, math.inf, math.nan, 1e308, -1e308])


@settings(max_examples=100, deadline=None)
@given(data=st.data(), n=st.integers(1, 6), k=st.integers(1, 4), reach=st.sampled_from([1e-9, 1.0, 1e6]))
def test_one_user_moves_scores_by_the_stated_sensitivity(data, n, k, reach):
    rows = data.draw(st.lists(st.lists(loss, min_size=k, max_size=k), min_size=n + 1, max_size=n + 1))
    with np.errstate(all="ignore"):
        losses = np.array(rows)
        one, other, both = (
            worst_of(difference_sums(losses[rows_], reach))
            for rows_ in (np.arange(n), np.array([*range(n - 1), n]), np.arange(n + 1))
        )
    assert np.abs(one - other).max() <= 2**30
    assert np.abs(one - both).max() <= 2**29


def test_scores_are_leads_in_mean_loss_over_the_strongest_opponent():
    losses = np.random.default_rng(0).integers(0, 8, size=(50, 5)).astype(float)
    totals = losses.sum(axis=0)
    expected = [min(totals[j] - totals[k] for j in range(5) if j != k) for k in range(5)]
    np.testing.assert_array_equal(worst_of(difference_sums(losses, 8.0)), np.array(expected) * 2**26)
    np.testing.assert_array_equal(loss_ranges(losses), np.ptp(losses, axis=1))
    np.testing.assert_array_equal(worst_of(difference_sums(losses[:, :1], 8.0)), [0])


def constants():
    return [
        (str(value), FrozenEstimator(DummyRegressor(strategy="constant", constant=value).fit([[0.0]], [0.0])))
        for value in (0.0, 4.0)
    ]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_least_mean_risk_is_chosen_against_a_majority(adjacency):
    """Of 1000 users 60 % have the target 0, the others 10: mean losses are 40 and 24, but the majority prefers 0."""
    y = np.where(np.arange(1000) % 5 < 3, 0.0, 10.0)
    X = np.zeros((1000, 1))
    for seed in range(5):
        chosen = UserLevelSelector(constants(), adjacency=adjacency, random_state=seed).fit(X, y)
        assert chosen.best_name_ == "4.0"
        voted = UserLevelSelector(constants(), rule="votes", adjacency=adjacency, random_state=seed).fit(X, y)
        assert voted.best_name_ == "0.0"


def test_few_users_vote():
    few = DifferenceSelection(1.0, 3, 300)
    assert few.events == VoteSelection(1.0, monotone=False).events
    losses = np.random.default_rng(0).random((300, 3)) + 0.5 * np.arange(3)
    release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", random_state=0, plan=few.events)
    assert few.run(losses, release) == 0


@pytest.mark.parametrize("n_users", [2000, None])
def test_a_choice_spends_its_budget_and_no_more(n_users):
    mechanism = DifferenceSelection(0.7, 4, n_users)
    adjacency = "add-remove" if n_users is None else "replace-one"
    losses = np.random.default_rng(0).random((2000, 4)) + 0.2 * np.arange(4)
    with open_release(epsilon=0.7, unit="user", adjacency=adjacency, random_state=0, plan=mechanism.events) as release:
        assert mechanism.run(losses, release) == 0
    guarantee = release.close()
    assert guarantee.delta == 0
    assert 0.699 < guarantee.epsilon <= 0.7


def test_many_candidates_lose_little():
    """64 candidates whose risks lie evenly in [0, 1], 2000 users: the chosen one is among the best five of them."""
    rng = np.random.default_rng(0)
    truth = np.linspace(0.0, 1.0, 64)
    losses = truth + rng.normal(size=(2000, 1)) + 0.3 * rng.normal(size=(2000, 64))
    mechanism = DifferenceSelection(1.0, 64, 2000)
    for seed in range(5):
        release = open_release(
            epsilon=1.0, unit="user", adjacency="replace-one", random_state=seed, plan=mechanism.events
        )
        assert truth[mechanism.run(losses, release)] < 0.08
