"""The estimators end to end: what they learn, what they promise, what they refuse."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skprivate.model_selection import UserKFold
from skprivate.privacy import GaussianEvent, PrivacyLedger, open_branches, open_release
from skprivate.user_level import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.utils.estimator_checks import epsilon_lower_bound


def regression(seed=0, n_users=2000, m=20, d=4, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_users * m, d))
    w = np.linspace(-1.0, 1.0, d)
    return X, X @ w + noise * rng.normal(size=len(X)), np.arange(len(X)) // m, w


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("aggregation", ["robust", "mean"])
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_regression_recovers_coefficients_in_any_unit(adjacency, aggregation, loss):
    X, y, users, w = regression()
    for scale in (1e-3, 1.0, 1e5):
        if loss == "huber" and scale != 1.0:
            continue
        model = UserLevelSGDRegressor(adjacency=adjacency, aggregation=aggregation, loss=loss, random_state=1)
        model.fit(X, scale * (y + 2.0), user_ids=users)
        np.testing.assert_allclose(model.coef_ / scale, w, atol=0.05)
        assert model.intercept_ / scale == pytest.approx(2.0, abs=0.05)
        assert 0.0 < model.privacy_guarantee_.epsilon <= 1.0
        assert model.privacy_guarantee_.unit == "user"


def quantile_rows(seed, n=5000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, 50.0 + 10.0 * (X @ [1.0, -2.0, 0.5, 0.0, 1.0] + rng.normal(size=n))


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_share_of_the_targets_is_below_their_quantile(quantile):
    for seed in range(3):
        X, y = quantile_rows(seed)
        model = UserLevelSGDRegressor(loss="quantile", quantile=quantile, random_state=seed).fit(X, y)
        assert np.mean(y <= model.predict(X)) == pytest.approx(quantile, abs=0.04)


def test_absolute_error_is_for_the_median():
    X, y = quantile_rows(0)
    fits = [
        UserLevelSGDRegressor(alpha=0.0, random_state=0, **options).fit(X, y)
        for options in ({"loss": "absolute_error"}, {"loss": "quantile", "quantile": 0.5})
    ]
    # Twice the slopes, clipped at twice the radius.
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9)
    assert fits[0].clip_radius_ == 2.0 * fits[1].clip_radius_


def test_a_penalty_of_quantiles_has_the_units_of_the_target():
    X, y = quantile_rows(0)
    rows, alpha, quantile = np.column_stack([X, np.ones(len(X))]), 0.05, 0.3
    weights = np.minimum(1.0, math.sqrt(6.0) / np.linalg.norm(rows, axis=1))

    def objective(w):
        residual = y - rows @ w
        loss = np.maximum(quantile * residual, (quantile - 1.0) * residual)
        return (weights * loss).mean() + 0.5 * alpha * np.sum(w[:-1] ** 2)

    best = minimize(objective, np.zeros(6), method="Powell").x
    model = UserLevelSGDRegressor(1e3, loss="quantile", quantile=quantile, alpha=alpha, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, best[:-1], atol=0.1)
    assert np.abs(best[:-1]).max() < 15.0  # of 20: the penalty matters


def test_a_quantile_has_to_be_named():
    with pytest.raises(ValueError, match=r"quantile must be a number in \(0, 1\) where loss='quantile', got None"):
        UserLevelSGDRegressor(loss="quantile").fit(*quantile_rows(0, n=20))


@pytest.mark.parametrize(
    "model",
    [UserLevelSGDRegressor(random_state=0), UserLevelSGDClassifier(random_state=0), UserLevelMean(random_state=0)],
)
def test_without_users_the_unit_is_a_row(model):
    X, y, users, _ = regression(m=2)
    y = (y > 0) + 1
    assert model.fit(X, y).privacy_guarantee_.unit == "row"
    assert model.fit(X, y, user_ids=users).privacy_guarantee_.unit == "user"


def test_solvers_agree():
    X, y, _, w = regression(n_users=50_000, m=1)
    for solver in ("auto", "sgd"):
        model = UserLevelSGDRegressor(3.0, solver=solver, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.coef_, w, atol=0.1, err_msg=solver)


def test_a_heavy_user_moves_nothing():
    X, y, users, w = regression()
    rng = np.random.default_rng(5)
    heavy = 100_000
    X_heavy = np.concatenate([X, rng.normal(size=(heavy, 4))])
    y_heavy = np.concatenate([y, np.full(heavy, 1e6)])
    users_heavy = np.concatenate([users, np.full(heavy, -1)])
    for model in (UserLevelSGDRegressor(random_state=0), UserLevelSGDRegressor(weight_cap=50, random_state=0)):
        model.fit(X_heavy, y_heavy, user_ids=users_heavy)
        np.testing.assert_allclose(model.coef_, w, atol=0.05)


def test_order_of_rows_and_names_of_users_do_not_matter():
    X, y, users, _ = regression(n_users=1500, m=3)
    order = np.random.default_rng(0).permutation(len(X))
    plain = UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=users)
    names = np.array([f"u{u:04d}" for u in users])
    shuffled = UserLevelSGDRegressor(random_state=0).fit(X[order], y[order], user_ids=names[order])
    np.testing.assert_allclose(plain.coef_, shuffled.coef_, atol=1e-6)


def test_custom_loss_equals_the_built_in_one():
    class Squared:
        def gradient(self, X, y, coef):
            return (X @ coef - y)[:, None] * X

    X, y, users, _ = regression(n_users=1500, m=3)
    # A loss of one's own means the features as they are.
    built_in = UserLevelSGDRegressor(standardize=False, random_state=0).fit(X, y, user_ids=users)
    custom = UserLevelSGDRegressor(loss=Squared(), random_state=0).fit(X, y, user_ids=users)
    np.testing.assert_allclose(custom.coef_, built_in.coef_, atol=1e-6)


def test_classification_beats_chance_by_far():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for loss in ("log_loss", "smoothed_hinge"):
        model = UserLevelSGDClassifier(loss=loss, classes=[0, 1], random_state=0).fit(X, y)
        assert model.score(X, y) > 0.88
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))


def test_multiclass():
    X, y = load_iris(return_X_y=True)
    X, y = np.tile(StandardScaler().fit_transform(X), (20, 1)), np.tile(y, 20)
    names = np.array(["a", "b", "c"])[y]
    for loss in ("log_loss", "smoothed_hinge"):
        model = UserLevelSGDClassifier(3.0, loss=loss, random_state=0).fit(X, names)
        assert model.coef_.shape == (3, 4)
        assert model.score(X, names) > 0.8


def test_labels_outside_the_public_set_are_refused():
    X, y = load_iris(return_X_y=True)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3, unit="user")
    with pytest.raises(ValueError, match="labels that are not in classes"):
        UserLevelSGDClassifier(classes=[0, 1], random_state=0, ledger=ledger).fit(X, y, user_ids=np.arange(150))
    assert ledger.entries() == []
    with pytest.raises(ValueError, match="'Yes' and 'yes' are two labels: spell them alike first"):
        UserLevelSGDClassifier(classes=["No", "Yes"], ledger=ledger).fit(X[:4], ["No", "Yes", "yes", "no"])
    assert ledger.entries() == []


def test_grid_search_over_epsilon_with_one_ledger():
    X, y, users, _ = regression(n_users=200, m=5)
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3, unit="user")
    pipeline = make_pipeline(FunctionTransformer(), UserLevelSGDRegressor(ledger=ledger, random_state=0, radius=2.0))
    grid = GridSearchCV(pipeline, {"userlevelsgdregressor__epsilon": [1.0, 4.0]}, cv=UserKFold(3))
    grid.fit(X, y, groups=users, userlevelsgdregressor__user_ids=users)
    assert len(ledger.entries()) == 7


@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("offset", [0.0, 1e7])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_mean_is_found_at_any_offset(d, offset, adjacency):
    n, m = 4000, 10
    rng = np.random.default_rng(0)
    X = offset + rng.normal(size=(n * m, d))
    for seed in range(3):
        model = UserLevelMean(adjacency=adjacency, random_state=seed).fit(X, user_ids=np.arange(n * m) // m)
        error = np.linalg.norm(model.mean_ - X.mean(axis=0))
        # Six standard deviations of the noise and a little clipping.
        assert error < 6.0 * model.noise_scale_ * math.sqrt(d) + 0.02
        assert model.noise_scale_ < 0.05
        assert np.linalg.norm(model.mean_ - offset) < model.confidence_radius_ < 1.0


def test_mean_noise_falls_with_rows_per_user():
    rng = np.random.default_rng(0)
    scales = []
    for m in (4, 64):
        X = rng.normal(size=(3000 * m, 2))
        model = UserLevelMean(random_state=0).fit(X, user_ids=np.arange(len(X)) // m)
        scales.append(model.noise_scale_)
    assert scales[0] / scales[1] == pytest.approx(4.0, rel=0.5)


@pytest.mark.parametrize(
    ("adjacency", "fixed", "times"), [("add-remove", False, 1), ("replace-one", True, 1), ("replace-one", False, 2)]
)
def test_branches_pay_for_the_units_that_may_change_them(adjacency, fixed, times):
    release = open_release(epsilon=1.0, delta=1e-6, unit="user", adjacency=adjacency, random_state=0)
    plan = [(GaussianEvent(10.0), 2)]
    for branch in open_branches(release, 3, plan, fixed_assignment=fixed):
        for _ in range(2):
            branch.gaussian(0.0, sensitivity=1.0, noise_multiplier=10.0)
        with pytest.raises(RuntimeError, match="not in the plan"):
            branch.gaussian(0.0, sensitivity=1.0, noise_multiplier=10.0)
    assert release.close().events == ((GaussianEvent(10.0), 2 * times),)


def test_no_user_id_is_kept():
    X, y, users, _ = regression(n_users=1500, m=3)
    names = np.array([f"secret-{u}" for u in users])
    for model in (UserLevelSGDRegressor(random_state=0), UserLevelMean(random_state=0)):
        assert b"secret-" not in pickle.dumps(model.fit(X, y, user_ids=names))


def means_with(extreme, n_runs, first):
    """Mean of one number with one extreme user, many times."""
    data = np.zeros((40, 1))
    data[0] = extreme
    return [
        float(UserLevelMean(2.0, delta=1e-3, tau=0.5, random_state=first + seed).fit(data).mean_[0])
        for seed in range(n_runs)
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*too few:skprivate.user_level.TooFewUsersWarning")
def test_lower_bound_on_epsilon_of_the_mean_stays_below_the_claim():
    # A false alarm has probability 1e-6.
    found = epsilon_lower_bound(means_with(-1e9, 3000, 0), means_with(1e9, 3000, 3000), delta=1e-3)
    assert 0.15 < found <= 2.0
