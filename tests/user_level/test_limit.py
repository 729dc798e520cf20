"""Without noise to speak of a fit is that of scikit-learn: on collinear, skewed and rare features and weak effects."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import public_generator
from skprivate.user_level.descent._descent import QuasiNewton

EPSILONS = (1e4, 1e6)


def rare_indicators(rng):
    """Indicators of 1 row in 500 to 1 in 3, some of them exclusive, standardised, beside numbers."""
    rates = np.geomspace(2e-3, 0.3, 16)
    group = np.eye(5)[rng.choice(5, p=[0.5, 0.3, 0.15, 0.04, 0.01], size=6000)]
    X = np.column_stack([rng.normal(size=(6000, 4)), rng.random((6000, 16)) < rates, group])
    return StandardScaler().fit_transform(X), X @ rng.normal(size=25) - 0.5


def weak_effects(rng):
    """Skewed columns in their own units, and one row in eleven positive."""
    Z = np.column_stack([rng.normal(size=(6000, 5)), rng.exponential(size=(6000, 5))])
    return Z * np.geomspace(0.1, 100.0, 10) + 3.0, Z @ rng.normal(size=10) * 0.15 - 2.4


def opposed(rng):
    """Distance and time in the air: all but alike, and of opposite effects."""
    base = rng.normal(size=6000)
    pair = base[:, None] + 0.1 * rng.normal(size=(6000, 2))
    return np.column_stack([pair, rng.normal(size=(6000, 2))]), 2.0 * (pair[:, 0] - pair[:, 1]) - 2.0


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("features", [rare_indicators, weak_effects, opposed])
def test_a_classifier_is_that_without_privacy(features, epsilon):
    rng = np.random.default_rng(3)
    X, logits = features(rng)
    y = (rng.random(len(X)) < expit(logits)).astype(int)
    model = UserLevelSGDClassifier(epsilon, random_state=0).fit(X, y)
    Z = StandardScaler().fit(X)
    without = LogisticRegression(max_iter=5000).fit(Z.transform(X), y)
    loss, least = log_loss(y, model.predict_proba(X)), log_loss(y, without.predict_proba(Z.transform(X)))
    assert loss < least + 1e-4
    odds = without.decision_function(Z.transform(X))
    assert np.corrcoef(model.decision_function(X), odds)[0, 1] > 0.999


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("skewed", [False, True])
def test_a_regression_is_that_without_privacy(epsilon, skewed):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 10)) @ (np.eye(10) + rng.normal(size=(10, 10)) / np.sqrt(10.0))
    X = np.exp(0.7 * X / X.std(axis=0)) if skewed else X
    y = X @ rng.normal(size=10) + 2.0 * rng.normal(size=300)
    without = LinearRegression().fit(X, y)
    lost = []
    for seed in range(3):
        model = UserLevelSGDRegressor(epsilon, random_state=seed).fit(X, y)
        lost.append(without.score(X, y) - model.score(X, y))
    assert np.mean(lost) < 5e-4


@pytest.mark.parametrize("epsilon", [1e3, 1e5])
def test_a_regression_of_targets_that_are_mostly_one_value(epsilon):
    """Hours a week: half of them are 40. The median gradient is then small against those of rare features."""
    rng = np.random.default_rng(5)
    X, logits = rare_indicators(rng)
    y = np.where(rng.random(len(X)) < 0.5, 40.0, 40.0 + 3.0 * logits + 12.0 * rng.normal(size=len(X)))
    without = LinearRegression().fit(X, y)
    for seed in range(3):
        model = UserLevelSGDRegressor(epsilon, random_state=seed).fit(X, y)
        assert model.score(X, y) > without.score(X, y) - 5e-3


def test_steps_minimise_a_quadratic_and_a_saturating_function():
    """In as many steps as there are curvatures, about, and without the values of the function."""
    rng = np.random.default_rng(5)
    curvatures, target = np.geomspace(1e-2, 1.0, 6), rng.normal(size=6)
    for gradient in (lambda w: curvatures * (w - target), lambda w: curvatures * np.tanh(w - target)):
        w, newton = np.zeros(6), QuasiNewton(0.1)
        for _ in range(40):
            w = newton.step(w, gradient(w), 1e-12)
        np.testing.assert_allclose(w, target, atol=1e-4)


def test_steps_from_noise_alone_stay_finite():
    rng = np.random.default_rng(6)
    w, newton = np.zeros(3), QuasiNewton(0.1)
    for _ in range(60):
        w = newton.step(w, 1e-3 * rng.normal(size=3), 1e-3)
    assert np.isfinite(w).all()
    assert np.isfinite(QuasiNewton(1.0).step(np.zeros(2), np.zeros(2), 0.0)).all()


@pytest.mark.parametrize("aggregation", ["auto", "mean"])
def test_a_skewed_target_is_regressed_without_bias(aggregation):
    """A clip of three medians at any n and ε left R² .028 below least squares."""
    x = public_generator(0).normal(size=(40_000, 1))
    y = 10 * np.exp(0.5 * x[:, 0] + 0.5 * public_generator(1).normal(size=len(x)))
    model = UserLevelSGDRegressor(1.0, aggregation=aggregation, random_state=0).fit(x, y)
    assert model.score(x, y) > LinearRegression().fit(x, y).score(x, y) - 0.005
