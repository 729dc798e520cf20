"""No fit is worse than the constant model by more than its noise explains, unless it warns: tables of mixed units."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import Adjacency
from skprivate.user_level import TooFewUsersWarning
from skprivate.user_level._plan import Terms
from skprivate.user_level.descent._rules import ClassCounts

EPSILONS = [0.1, 0.5, 1.0, 3.0]
SEEDS = range(4)


def mixed(n, d, seed):
    """Amounts, years, degrees, counts that are mostly 0, and indicators; a score that some of them make."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    numbers = [
        5000.0 * np.exp(0.6 * z[:, 0]),
        2010.0 + 4.0 * z[:, 1],
        -73.97 + 0.03 * z[:, 2],
        np.where(z[:, 3] > 1.4, np.exp(6.0 + z[:, 4]), 0.0),
    ]
    flags = rng.random((n, d)) < rng.choice([0.02, 0.1, 0.3, 0.5], size=d)
    score = z[:, 0] + 0.5 * z[:, 1] - 0.5 * z[:, 2] + (flags - flags.mean(axis=0)) @ rng.normal(size=d)
    return np.column_stack([*numbers, flags]), score, rng


def fitted(model, X, y):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    return any(issubclass(each.category, TooFewUsersWarning) for each in seen)


def noise(n, d, epsilon):
    """Return the noise of a fit's votes, where a unanimous one has norm 1."""
    return Terms(epsilon, 1e-6, Adjacency.REPLACE_ONE, n).level(n, d + 5)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(500, 8), (500, 60), (3000, 20), (15_000, 60)])
@pytest.mark.parametrize("share", [0.5, 0.06])
def test_log_loss_of_mixed_units_is_at_most_that_of_a_constant(n, d, share):
    """One scale for all columns cost .1 to .6 with 500 rows, in silence."""
    for epsilon in EPSILONS:
        excess = []
        for seed in SEEDS:
            X, score, rng = mixed(n + 3000, d, seed)
            y = score + rng.logistic(size=len(score)) > np.quantile(score, 1.0 - share)
            model = UserLevelSGDClassifier(epsilon, classes=[False, True], random_state=seed)
            if not fitted(model, X[:n], y[:n]):
                constant = np.full(3000, y[:n].mean())
                excess.append(log_loss(y[n:], model.predict_proba(X[n:])[:, 1]) - log_loss(y[n:], constant))
        assert np.mean(excess or [0.0]) < 0.02 + 0.25 * noise(n, d, epsilon), (epsilon, excess)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(500, 8), (500, 60), (3000, 20), (15_000, 60)])
def test_squared_error_of_mixed_units_is_at_most_that_of_a_constant(n, d):
    for epsilon in EPSILONS:
        scores = []
        for seed in SEEDS:
            X, score, rng = mixed(n + 3000, d, seed)
            y = 1e4 + 300.0 * (score + rng.normal(size=len(score)))
            model = UserLevelSGDRegressor(epsilon, random_state=seed)
            if not fitted(model, X[:n], y[:n]):
                scores.append(r2_score(y[n:], model.predict(X[n:])))
        assert np.mean(scores or [0.0]) > -0.05, (epsilon, scores)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("n", "d", "epsilon"), [(500, 8, 0.5), (700, 60, 0.5), (1500, 60, 0.5), (3000, 20, 0.1)])
def test_a_rare_class_without_signal_has_its_chance(n, d, epsilon):
    """The intercept stayed where it began: log loss .68 for a constant's .23."""
    excess = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n + 3000, d)), rng.random(n + 3000) < 0.06
        model = UserLevelSGDClassifier(epsilon, classes=[False, True], random_state=seed)
        fitted(model, X[:n], y[:n])
        constant = np.full(3000, y[:n].mean())
        excess.append(log_loss(y[n:], model.predict_proba(X[n:])[:, 1]) - log_loss(y[n:], constant))
    assert np.mean(excess) < 0.06, excess


def test_a_class_count_that_is_all_noise_changes_nothing():
    counts = ClassCounts(Terms(0.1, 1e-6, Adjacency.REPLACE_ONE, 40), 2, signed=True, balanced=False)
    assert counts.noise > 40
    for found in ([500.0, -700.0], [-300.0, 20.0], [0.0, 0.0]):
        assert counts.intercept(np.array(found), 40.0) == 0.0
    few = ClassCounts(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 3000), 2, signed=True, balanced=False)
    assert few.intercept(np.array([2850.0, 150.0]), 3000.0) == pytest.approx(np.log(150 / 2850))
    assert few.intercept(np.array([150.0, 2850.0]), 3000.0) == pytest.approx(np.log(2850 / 150))
    assert few.intercept(np.array([2000.0, 1000.0]), 3000.0) == 0.0
