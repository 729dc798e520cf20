"""Indicators of rare categories get a scale: what a user contributes, what noise leaves, and what it is good for."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.partitions import InMemory
from skprivate.privacy import CONTRIBUTION_STEP, Adjacency, public_generator
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData, UserGroups
from skprivate.user_level.scaling._column_search import _mean_squares, rare_scales

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


class Exact:
    def gaussian(self, total, *, step, **_):
        return np.asarray(total, dtype=float) * step


def data(X, codes):
    return UserData(np.asfortranarray(X), np.zeros(len(X)), UserGroups(codes), np.arange(codes.max() + 1))


def test_scales_are_roots_of_mean_squares_but_for_the_noise():
    n = 10_000
    X = np.zeros((n, 4))
    X[: n // 4, 0], X[:100, 1], X[:, 2] = 1.0, 0.5, 7.0
    rare = np.array([True, True, False, True])
    terms = Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n)
    found, unseen = rare_scales(
        InMemory(data(X, np.arange(n))), rare, 0.3, multiplier=2.0, n_users=n, terms=terms, release=Exact()
    )
    # The floor is one deviation of the noise: 2·2/n.
    np.testing.assert_allclose(found, [0.5, 0.05, 1.0, np.sqrt(4.0 / n)], rtol=0.02)
    np.testing.assert_array_equal(unseen, [False, False, False, True])


@pytest.mark.parametrize("seed", range(4))
def test_every_user_contributes_alone_and_at_most_one(seed, monkeypatch):
    monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", [8192, 4][seed % 2])
    rng = public_generator(seed)
    codes = np.repeat(np.arange(7), [1, 300, 2, 1, 5, 1, 40])
    extremes = [0.0, -0.0, 1.0, 1 / 3, 5e-324, 1e154, -1e160, 1.7e308]
    X = rng.choice(extremes, size=(len(codes), 5)) if seed < 2 else rng.normal(size=(len(codes), 5))
    rare = np.array([True, False, True, True, False])
    with np.errstate(all="ignore"):
        whole = _mean_squares(data(X, codes), rare, 1.5)
        alone = [
            _mean_squares(data(X[codes == u], np.zeros((codes == u).sum(), dtype=int)), rare, 1.5) for u in range(7)
        ]
    assert np.array_equal(whole, np.sum(alone, axis=0)) and not whole[~rare].any()
    assert all(sum(int(v) ** 2 for v in each) * CONTRIBUTION_STEP**2 <= 1.0 for each in alone)


def test_rare_categories_have_their_say():
    """Thirty indicators of a fiftieth each beside a number in another unit: AUC .807, .789 without their scales."""
    rng = public_generator(3)
    n = 12_000
    X = np.column_stack([1e4 * rng.normal(size=n), (rng.uniform(size=(n, 30)) < 0.02)])
    effects = 4.0 * rng.choice([-1.0, 1.0], size=30)
    y = (X[:, 1:] @ effects + rng.logistic(size=n) > 0).astype(int)
    scores = []
    for seed in range(3):
        model = UserLevelSGDClassifier(0.3, random_state=seed).fit(X, y)
        assert model.feature_scale_[1:].max() < 0.5
        scores.append(roc_auc_score(y, model.decision_function(X)))
    assert np.mean(scores) > 0.8


def test_rare_values_in_large_units_are_scaled_beside_prepared_columns():
    """They kept their units, so that one such value was worth a thousand others."""
    rng = public_generator(4)
    n = 20_000
    X = np.column_stack([rng.normal(size=(n, 3)), np.where(rng.uniform(size=n) < 0.1, rng.exponential(1e3, n), 0.0)])
    y = X @ [0.6, -0.4, 0.2, 1e-3] + rng.normal(size=n)
    model = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    assert 100.0 < model.feature_scale_[3] < 2000.0
    assert model.score(X, y) > 0.3


def test_users_with_several_rows_keep_a_column_of_mostly_one_value():
    rng = np.random.default_rng(0)
    n_rows = 30_000
    X = np.column_stack([rng.normal(size=n_rows), rng.uniform(size=n_rows) < 0.2])
    y = X @ [0.5, 2.0] + 0.3 * rng.normal(size=n_rows)
    model = UserLevelSGDRegressor(epsilon=1.0, random_state=0).fit(X, y, user_ids=np.arange(n_rows) // 3)
    assert model.score(X, y) > 0.9
    assert model.coef_ == pytest.approx([0.5, 2.0], abs=0.1)


@pytest.mark.parametrize(("n_users", "m"), [(10_000, 3), (800, 10)], ids=["with a tail", "without"])
def test_users_with_several_rows_keep_a_target_of_mostly_zeros(n_users, m):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_users * m, 3))
    y = np.where(rng.random(len(X)) < 0.35, 1000.0 * (3.0 + X @ [1.0, -0.5, 0.2]), 0.0)
    model = UserLevelSGDRegressor(epsilon=1.0, random_state=0).fit(X, y, user_ids=np.arange(len(X)) // m)
    assert model.score(X, y) > 0.8 * LinearRegression().fit(X, y).score(X, y)
