"""Means are removed and long rows weigh less: what a user contributes, what noise leaves, and what it is good for."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from skprivate import UserLevelSGDClassifier
from skprivate.partitions import InMemory
from skprivate.privacy import CONTRIBUTION_STEP, Adjacency, public_generator
from skprivate.user_level._losses import LogisticLoss
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import Objective, UserData, UserGroups
from skprivate.user_level.scaling._frame import _sum_of_means, norm_without, row_means, shifted

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

EXTREMES = [0.0, -0.0, 1.0, 1 / 3, 5e-324, 1e154, -1e160, 1.7e308]


class Exact:
    def gaussian(self, total, *, step, **_):
        return np.asarray(total, dtype=float) * step


def data(X, codes, y=None):
    y = np.ones(len(X)) if y is None else y
    return UserData(np.asfortranarray(X), y, UserGroups(codes), np.arange(codes.max() + 1))


@pytest.mark.parametrize("seed", range(4))
def test_every_user_contributes_alone_and_at_most_one(seed, monkeypatch):
    monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", [8192, 4][seed % 2])
    rng = public_generator(seed)
    codes = np.repeat(np.arange(7), [1, 300, 2, 1, 5, 1, 40])
    X = rng.choice(EXTREMES, size=(len(codes), 5)) if seed < 2 else rng.normal(size=(len(codes), 5))
    y = rng.choice([-1.0, 1.0], size=len(codes))
    objective = Objective(LogisticLoss(), 5, 1, True, max_norm=1.5)
    w = rng.normal(size=6)

    def sums(X, codes, y):
        rows = data(X, codes, y)
        weighed = objective.problem(rows).contribution_sum(w, 0.5)
        return np.concatenate([_sum_of_means(rows, 5, 1.5), weighed])

    with np.errstate(all="ignore"):
        whole = sums(X, codes, y)
        alone = [sums(X[codes == u], np.zeros((codes == u).sum(), dtype=int), y[codes == u]) for u in range(7)]
    assert np.array_equal(whole, np.sum(alone, axis=0))
    for each in alone:
        for part in (each[:5], each[5:]):
            assert sum(int(v) ** 2 for v in part) * CONTRIBUTION_STEP**2 <= 1.0


@pytest.mark.parametrize(("size", "multiplier", "kept"), [(0.3, 1e-6, 1.0), (0.06, 3.0, 0.937), (0.01, 3.0, 0.0)])
def test_means_shrink_by_what_noise_alone_would_be(size, multiplier, kept):
    n = 2000
    X = np.tile([size, -size], (n, 1))
    rows = InMemory(data(X, np.arange(n)))
    terms = Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n)
    means = row_means(rows, 2, row_norm=5.0 / 3.0, multiplier=3 * multiplier, n_users=n, terms=terms, release=Exact())
    noise = (2.0 * 3 * multiplier * 5.0 / 3.0 / n) ** 2
    factor = max(0.0, 1.0 - noise / size**2)
    np.testing.assert_allclose(means, factor * X[0] * (kept > 0.0), atol=1e-8)
    assert kept == pytest.approx(factor * (kept > 0.0), abs=1e-3)
    np.testing.assert_allclose(shifted(data(X, np.arange(n)), X[0]).X, 0.0)


def pixels(seed, n=1200, d=64, classes=10):
    """Grey values about a dark picture of each class, of which no column tells more than another."""
    rng = public_generator(seed)
    y = rng.integers(classes, size=n + 2000)
    X = np.clip(0.4 + 0.25 * public_generator(99).normal(size=(classes, d))[y], 0, 1)
    X = np.clip(X + 0.3 * rng.normal(size=X.shape), 0.0, 1.0)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.9), (0.15, 0.6)])
@pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning")
def test_an_offset_does_not_drown_classes_in_loud_noise(epsilon, least):
    areas = []
    for seed in range(3):
        X, y, X_test, y_test = pixels(seed)
        model = UserLevelSGDClassifier(epsilon, classes=range(10), random_state=seed).fit(2 * X, y)
        scores = model.decision_function(2 * X_test)
        areas.append(np.mean([roc_auc_score(y_test == k, scores[:, k]) for k in range(10)]))
    assert np.mean(areas) > least, areas


def test_the_typical_norm_is_that_of_rows_without_their_means():
    X = public_generator(5).normal(size=(4000, 9)) + 2.0
    norm, left = (np.sqrt(np.square(Z).sum(axis=1).mean()) for Z in (X, X - 2.0))
    assert norm_without(norm, np.full(9, 2.0)) == pytest.approx(left, rel=0.02)
    assert norm_without(1.0, np.full(9, 5.0)) > 0.3  # noise may be longer than rows


def test_long_rows_weigh_less_and_others_as_ever():
    rows = data(np.array([[0.0, 0.5], [3.0, 4.0]]), np.arange(2))
    plain, weighed = (
        Objective(LogisticLoss(), 2, 1, False, max_norm=reach).problem(rows).user_gradients(np.zeros(2))
        for reach in (np.inf, 2.0)
    )
    np.testing.assert_allclose(weighed, plain * [[1.0], [0.4]], rtol=1e-14)


def counts(seed, n=14_000, d=12):
    """Skewed counts and indicators, each with a weak positive effect on a rare class."""
    rng = public_generator(seed)
    hidden = 0.85 * rng.normal(size=(n + 4000, d)) + 0.5 * rng.normal(size=(n + 4000, 1))
    X = hidden.copy()
    X[:, ::3] = rng.poisson(np.exp(0.8 * hidden[:, ::3]))
    X[:, 1::3] = hidden[:, 1::3] > 0.7
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    f = standard @ np.abs(rng.normal(size=d))
    y = (rng.uniform(size=len(f)) < expit(0.4 * f / f.std() - 2.4)).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def test_weak_effects_of_skewed_features_on_a_rare_class_are_not_reversed():
    """What features share with the common class is their mean, which hid the effects: mean AUC .53, .57 now."""
    areas = []
    for seed in range(4):
        X, y, X_test, y_test = counts(seed)
        model = UserLevelSGDClassifier(0.3, classes=[0, 1], random_state=seed).fit(X, y)
        areas.append(roc_auc_score(y_test, model.decision_function(X_test)))
    assert np.mean(areas) > 0.55, areas


def test_an_intercept_takes_up_the_means_that_were_removed():
    """The two orders of terms would be off by twice the means' logit, here about 1.5."""
    rng = public_generator(0)
    X = rng.exponential(size=(8000, 20))
    y = (0.25 * (X - 1.0).sum(axis=1) + rng.logistic(size=8000) > 0).astype(int)
    model = UserLevelSGDClassifier(0.3, classes=[0, 1], random_state=0).fit(X, y)
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.1
