"""Rules for few users: what is standardised, how rows are bounded, how clipping and penalty follow the noise."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.metrics import log_loss, roc_auc_score

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import Adjacency, compose_epsilon, gaussian_noise_multiplier, public_generator
from skprivate.user_level._losses import (
    EXAGGERATION,
    LEAST_CLIP,
    LogisticLoss,
    MultinomialLoss,
    SmoothedHingeLoss,
    SquaredLoss,
    clip_noise,
    first_residual,
    noise_penalty,
    noise_ridge,
)
from skprivate.user_level._plan import Terms
from skprivate.user_level._ranges import FAR, FINEST_SCALES, scale_counts
from skprivate.user_level.scaling._column_search import MOST_BEYOND
from skprivate.user_level.scaling._frame import Frame, bounded_columns, public_bound
from skprivate.user_level.scaling._standardise import distance_cost, plan_standardisation, select_distance


def fitted(model, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **options)


EXTREMES = [0.0, -0.0, 1.0, 1 / 3, 5e-324, 1.5e-162, 1e154, -1e160, 1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bound", [1e-3, 2.0, 1e200])
def test_a_bounded_row_depends_on_itself_alone(seed, bound):
    rng = public_generator(seed)
    columns = rng.normal(size=(3, 40)) if seed % 2 else rng.choice(EXTREMES, size=(3, 40))
    whole = bounded_columns(columns, bound)
    for i in range(40):
        np.testing.assert_array_equal(
            bounded_columns(np.ascontiguousarray(columns[:, i : i + 1]), bound)[:, 0], whole[:, i]
        )
    peak = np.abs(whole).max(axis=0)
    norms = peak * np.linalg.norm(whole / np.where(peak > 0, peak, 1.0), axis=0)
    assert (norms <= bound * (1 + 1e-14)).all()
    short = np.abs(columns).max(axis=0) < bound / 2
    np.testing.assert_array_equal(whole[:, short], columns[:, short])
    assert bounded_columns(columns, math.inf) is columns
    far = bounded_columns(np.array([[np.inf], [1.0]]), bound)
    assert far[0, 0] == pytest.approx(bound) and 0.0 <= far[1, 0] <= bound


def test_predictions_look_at_rows_as_the_fit_did():
    rng = public_generator(0)
    frame = Frame(
        rng.normal(size=3),
        np.array([0.1, 1.0, 50.0]),
        0.0,
        1.0,
        row_bound=1.5,
        half_ranges=np.array([np.inf, 0.5, np.inf]),
    )
    X = rng.normal(size=(100, 3)) * [0.1, 1.0, 50.0] + frame.centres
    clipped = X.copy()
    clipped[:, 1] = np.clip(X[:, 1], frame.centres[1] - 0.5, frame.centres[1] + 0.5)
    mapped = (clipped - frame.centres) / frame.scales
    norms = np.linalg.norm(mapped, axis=1, keepdims=True)
    expected = mapped * np.minimum(1.0, 1.5 / norms) * frame.scales + frame.centres
    np.testing.assert_allclose(frame.bounded(X), expected)
    assert 0.1 < (norms > 1.5).mean() < 1.0


@pytest.mark.parametrize("target", [True, False])
def test_the_fewer_the_users_the_less_is_standardised(target):
    """The tail of the target is left out first, then features, and nothing is drawn of too few users at all."""
    rho = 0.5 / gaussian_noise_multiplier(1.0, 1e-6) ** 2
    seen = []
    for n in (20_000, 800, 300, 150, 30):
        plan = plan_standardisation(
            Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n), n_features=40, centred=True, target=target
        )
        if plan is None:
            seen.append(None)
            continue
        seen.append((plan.features is not None, plan.target is not None, plan.tail_epsilon is not None))
        assert sum(event.rho * count for event, count in plan.events) < 0.6 * rho
        assert plan.decides(n) and not plan.decides(n / 100)
        assert compose_epsilon(plan.events, 1e-6) < 1.0
    if target:
        assert seen == [(True, True, True), (True, True, False), (True, True, False), (False, True, False), None]
    else:
        assert seen == [(True, False, False)] * 3 + [None] * 2


@pytest.mark.parametrize("epsilon, least", [(0.5, -0.2), (1.0, 0.2)])
def test_a_target_far_from_zero_of_few_users(epsilon, least):
    """Selections of its centre and reach cost more than half of the budget: none was made, and R² was -3.9."""
    X, y = load_diabetes(return_X_y=True)
    train = np.arange(len(y)) % 4 > 0
    scores = [
        fitted(UserLevelSGDRegressor(epsilon, random_state=seed), X[train], y[train]).score(X[~train], y[~train])
        for seed in range(12)
    ]
    assert np.median(scores) > least


@pytest.mark.parametrize("kind", ["units", "far", "large target"])
def test_raw_features_of_few_users_do_no_harm(kind):
    """R² was -300 and -21 000."""
    rng = public_generator(1)
    n, d = 7000, 12
    Z = rng.normal(size=(2 * n, d))
    y = Z @ rng.normal(size=d) + rng.normal(size=2 * n)
    X = {"units": Z * np.geomspace(1e-3, 1e3, d), "far": 30.0 * Z + 1000.0, "large target": Z}[kind]
    y = 1e4 + 50.0 * y
    for seed in range(3):
        model = fitted(UserLevelSGDRegressor(0.1, random_state=seed), X[:n], y[:n])
        assert model.score(X[n:], y[n:]) > (0.6 if kind == "large target" else -0.05)
        assert np.isfinite(model.row_bound_) and model._frame.target_found


def test_features_that_are_meant_as_they_are_are_not_bounded():
    rng = public_generator(2)
    X = rng.normal(size=(200, 3))
    y = X[:, 0]
    for model in (
        UserLevelSGDRegressor(radius=2.0, random_state=0),
        UserLevelSGDRegressor(standardize=False, random_state=0),
        UserLevelSGDClassifier(feature_norm=2.0, random_state=0),
    ):
        assert fitted(model, X, y > 0 if hasattr(model, "feature_norm") else y).row_bound_ == np.inf
    assert fitted(UserLevelSGDRegressor(0.2, random_state=0), X, y).row_bound_ == public_bound(3)


def test_rare_large_values_of_a_column_without_a_scale_are_clipped():
    """One number in twelve, up to 100 000, drowned all others."""
    rng = public_generator(3)
    n, d = 12_000, 10
    X = rng.normal(size=(n, d))
    f = X[:, 1:5].sum(axis=1)
    gains = rng.uniform(size=n) < 0.08
    X[:, 0] = np.where(gains, np.exp(rng.normal(8, 1.5, size=n)), 0.0)
    X[:, 1:5] *= 30.0
    y = (f + 2.0 * gains + rng.logistic(size=n) > 0).astype(int)
    for seed in range(5):
        model = fitted(UserLevelSGDClassifier(0.5, random_state=seed), X, y)
        low, high = model.feature_range_
        assert -20_000.0 < low[0] < high[0] < 20_000.0
        assert (high - low > 6.0 * X.std(axis=0))[1:].all() and np.isfinite(model.row_bound_)
        assert roc_auc_score(y, model.decision_function(X)) > 0.85


def test_what_classes_share_is_dropped():
    rng = public_generator(4)
    X = rng.normal(size=(3000, 5))
    y = (X[:, :4] + rng.gumbel(size=(3000, 4))).argmax(axis=1)
    model = fitted(UserLevelSGDClassifier(1.0, random_state=0), X, y)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12)
    assert abs(model.intercept_.sum()) < 1e-12


def test_rules_of_the_noise_by_hand():
    assert first_residual(LogisticLoss(), 1) == 0.5
    assert first_residual(MultinomialLoss(), 4) == pytest.approx(np.linalg.norm([0.75, 0.25, 0.25, 0.25]))
    assert first_residual(SmoothedHingeLoss(), 1) == 1.0 and first_residual(SquaredLoss(), 1) == LEAST_CLIP
    # Two coefficients, noise of variance (c√δ·ν)²/d = c²ν² in each: ½·H·2·c²ν²/H² with H = 1/8.
    c_nu = clip_noise(LogisticLoss(), 1) / math.sqrt(2)
    assert 8.0 * c_nu**2 == pytest.approx(EXAGGERATION)
    # Coefficients of variance 1/δ and noise of variance c²ν²/H²: shrinkage H/(H + α).
    c, nu, width, curvature = 0.5, 0.01, 6, 0.125
    alpha = noise_penalty(noise_ridge(LogisticLoss(), 1), nu, c, width, width, False)
    signal, noise = 1.0 / width, (c * nu / curvature) ** 2
    assert curvature / (curvature + alpha) == pytest.approx(signal / (signal + noise))
    # Three outputs: noise is the same for each coefficient, δ·ν²/d with d = 3δ.
    curvature = 0.5 * (1 / 3) * (2 / 3)
    alpha = noise_penalty(noise_ridge(MultinomialLoss(), 3), nu, c, width, 3 * width, False)
    noise = (c * nu / curvature) ** 2 / 3
    assert curvature / (curvature + alpha) == pytest.approx(signal / (signal + noise))
    # Without curvature noise of norm c√δ·ν over α has norm √k.
    flat = noise_penalty(noise_ridge(MultinomialLoss(), 3), nu, c, width, 3 * width, True)
    assert c * math.sqrt(width) * nu / flat == pytest.approx(math.sqrt(3))


def test_a_penalty_follows_a_released_number_of_users():
    rng = public_generator(5)
    X = rng.normal(size=(1500, 4))
    y = (X[:, 0] + rng.logistic(size=1500) > 0).astype(int)
    model = fitted(UserLevelSGDClassifier(1e4, adjacency="add-remove", random_state=0), X, y)
    assert model.alpha_ == pytest.approx(1.0 / model.n_users_, rel=0.01)
    public = fitted(UserLevelSGDClassifier(0.5, n_users=1500, adjacency="add-remove", random_state=0), X, y)
    private = fitted(UserLevelSGDClassifier(0.5, adjacency="add-remove", random_state=0), X, y)
    assert 0.3 < private.alpha_ / public.alpha_ < 3.0


def test_weak_effects_are_not_exaggerated():
    """Clipping at a fifth gave logits of at least 1.4 whatever the effect: log loss .80 for a constant's .69."""
    rng = public_generator(6)
    X = rng.normal(size=(8000, 5))
    f = 0.4 * X[:, 0]
    y = (f + rng.logistic(size=8000) > 0).astype(int)
    for seed in range(3):
        p = fitted(UserLevelSGDClassifier(1.0, random_state=seed), X, y).predict_proba(X)[:, 1]
        assert -np.mean(np.where(y == 1, np.log(p), np.log1p(-p))) < np.log(2)


def test_features_of_fewer_users_get_scales_together():
    """Selections of all would have cost more than the whole budget."""
    terms = Terms(0.5, 1e-6, Adjacency.REPLACE_ONE, 1200)
    plan = plan_standardisation(terms, n_features=10, centred=True, target=False)
    share = sum(event.rho * count for event, count in plan.events) * 2.0 * gaussian_noise_multiplier(0.5, 1e-6) ** 2
    assert share < 0.3
    rng = public_generator(7)
    Z = rng.normal(size=(3200, 10))
    y = (Z @ rng.normal(size=10) + rng.logistic(size=3200) > 0).astype(int)
    X = Z * np.geomspace(0.03, 30.0, 10) + 1.0
    scores = []
    for seed in range(5):
        model = fitted(UserLevelSGDClassifier(0.5, random_state=seed), X[:1200], y[:1200])
        scores.append(roc_auc_score(y[1200:], model.decision_function(X[1200:])))
    assert np.median(scores) > 0.8  # before .57 to .63


def test_a_heavy_target_is_followed_as_far_as_noise_allows():
    """A slope that is known and a target that goes far: predictions were cut off at six scales."""
    rng = public_generator(8)
    X = rng.normal(size=(16_000, 4))
    X[:, 0] = np.exp(1.5 * X[:, 0])
    heavy = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=len(X))
    light = np.log(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X))
    for seed in range(2):
        model = fitted(UserLevelSGDRegressor(3.0, random_state=seed), X[:8000], heavy[:8000])
        assert model.score(X[8000:], heavy[8000:]) > 0.8  # before .52
        assert model._frame.target_range > 30.0
        model = fitted(UserLevelSGDRegressor(3.0, random_state=seed), X[:8000], light[:8000])
        frame = model._frame
        assert frame.target_range * frame.target_scale < 10.0 * light.std()


def test_a_target_that_is_often_one_number_has_a_scale():
    """Any number below the next value was as good a reach: no scale was found, nor a centre kept, and R² was -4.6."""
    rng = public_generator(9)
    X = rng.normal(size=(3000, 4))
    y = np.where(rng.uniform(size=3000) < 0.47, 40.0, np.round(40.0 + 12.0 * rng.normal(size=3000) + 2.0 * X[:, 0]))
    for seed in range(6):
        model = fitted(UserLevelSGDRegressor(1.0, random_state=seed), X[:1500], y[:1500])
        assert model._frame.target_found and model.score(X[1500:], y[1500:]) > -0.1


def test_a_narrow_column_far_from_zero_keeps_its_say():
    """A deviation of .01 about 30 was within the error of the centre's grid, and the column was left out."""
    rng = public_generator(10)
    Z = rng.normal(size=(6000, 6))
    y = Z @ np.array([3.0, 1.0, 1.0, 0.5, 0.5, 0.5]) + rng.normal(size=6000)
    X = Z * np.geomspace(1e-2, 1e3, 6) + 30.0
    for seed in range(3):
        model = fitted(UserLevelSGDRegressor(1.0, random_state=seed), X[:4000], y[:4000])
        assert model.feature_scale_[0] == pytest.approx(1e-2, rel=0.6)
        assert model.score(X[4000:], y[4000:]) > 0.85


def test_prepared_features_keep_their_scales_and_lose_their_means():
    rng = public_generator(11)
    X = rng.normal(size=(8000, 4)) + np.array([0.0, 1.0, -1.0, 0.5])
    y = (X[:, 0] + rng.logistic(size=8000) > 0).astype(int)
    model = fitted(UserLevelSGDClassifier(1.0, random_state=0), X, y)
    np.testing.assert_array_equal(model.feature_scale_, 1.0)
    np.testing.assert_allclose(model.feature_center_, [0.0, 1.0, -1.0, 0.5], atol=0.5)
    # One that is 0 for most seems to have no scale of its own; it is left as it came, too.
    X[:, 3] = np.arange(8000) % 50 == 0
    np.testing.assert_array_equal(fitted(model, X, y).feature_scale_, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_users", [5000, 20_000])
def test_rare_values_have_a_unit_of_their_own_only_if_that_is_certain(n_users):
    """Two indicators that hardly differ from 0 agreed on a unit of 1e-12: their coefficients were 1e11."""
    shares = np.array([0.01, 0.03, 0.08, 0.1, 0.2, 0.5])
    for seed in range(4):
        rng = public_generator(seed)
        X = (rng.random((n_users, 6)) < shares) * np.array([1.0, 1.0, 1.0, 1.0, 1000.0, 1.0])
        y = X @ np.array([1.0, 1.0, 1.0, 1.0, 1e-3, 1.0]) + rng.normal(size=n_users)
        model = fitted(UserLevelSGDRegressor(1.0, random_state=seed), X, y)
        assert (model.feature_scale_[:4] / np.sqrt(shares[:4]) > 0.3).all()
        assert (model.feature_scale_[:4] < 0.4).all() and np.abs(model.coef_).max() < 3
        assert model.feature_scale_[4] == pytest.approx(1000 * 0.2**0.5, rel=0.6)
        # Half of the values: it had the centre of some and the scale of none.
        assert model.feature_center_[5] == 0.0 and model.feature_scale_[5] == pytest.approx(0.5**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("value", "n_users", "epsilon", "low", "high"),
    [(-1.0, 5000, 1.0, 1.0, 400.0), (1e4, 500, 10.0, 1e4, 10_200.0), (20.0, 5000, 1.0, 5.0, 100.0)],
)
def test_exceptions_from_one_value_have_their_own_unit(value, n_users, epsilon, low, high):
    """It was the order of magnitude of the value: -1 beside hundreds of days, 10,001 beside other places."""
    for seed in range(4):
        rng = public_generator(seed)
        X = 9.0 * rng.normal(size=(n_users, 5)) + 50.0
        X[:, 0] = np.where(rng.random(n_users) < 0.75, value, rng.uniform(low, high, n_users))
        y = 3.0 * (X[:, 0] - value) / (high - low) + X[:, 1] / 9.0 + 0.3 * rng.normal(size=n_users)
        model = fitted(UserLevelSGDRegressor(epsilon, random_state=seed), X, y)
        assert model.feature_range_[0][0] < low + 1.0 and model.feature_range_[1][0] > high - 1.0
        assert 0.2 < model.feature_scale_[0] / (X[:, 0] - value).std() < 5.0
        assert model.score(X, y) > 0.85


@pytest.mark.parametrize("code", [0.0, -9999.0])
def test_a_few_codes_of_missing_places_do_not_decide_the_scale(code):
    """One user in a hundred without a place: a town's longitudes became one value, and those users its unit."""
    rng = public_generator(5)
    X = rng.normal(size=(50_000, 5))
    X[:, 0] = np.where(rng.random(50_000) < 0.01, code, 121.5 + 0.02 * X[:, 0])
    y = 50.0 * np.clip(X[:, 0] - 121.5, -0.05, 0.05) + X[:, 1] + 0.3 * rng.normal(size=50_000)
    model = fitted(UserLevelSGDRegressor(1.0, random_state=0), X, y)
    assert model.feature_scale_[0] < 0.5


def test_values_beside_zeros_keep_their_range_where_their_unit_is_known():
    """Sizes of order 1 beside as many zeros were clipped at 1.69, as indicators may be."""
    rng = public_generator(6)
    X = rng.normal(size=(5000, 5))
    X[:, 0] = np.where(rng.random(5000) < 0.5, 0.0, rng.lognormal(size=5000))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=5000)
    model = fitted(UserLevelSGDRegressor(0.3, random_state=0), X, y)
    assert model.feature_range_[1][0] > 5.0 and model.score(X, y) > 0.7


def test_prepared_features_do_not_take_the_error_of_a_search():
    """Its centres are off by half a deviation, and features that were centred had that for an offset afterwards."""
    rng = public_generator(12)
    areas = []
    for seed in range(3):
        X = rng.normal(size=(9000, 20))
        y = (0.6 * X[:, :10].sum(axis=1) + rng.logistic(size=9000) > 4.0).astype(int)
        model = fitted(UserLevelSGDClassifier(0.1, random_state=seed), X[:7000], y[:7000])
        np.testing.assert_array_equal(model.feature_center_, 0.0)
        np.testing.assert_array_equal(model.feature_scale_, 1.0)
        areas.append(roc_auc_score(y[7000:], model.decision_function(X[7000:])))
    assert np.mean(areas) > 0.6, areas


def test_several_outputs_are_centred_by_a_search():
    """An offset lengthens the rows of all of them."""
    rng = public_generator(12)
    X = rng.normal(size=(9000, 20)) + np.repeat([0.8, -0.8], 10)
    model = fitted(UserLevelSGDClassifier(0.1, random_state=0), X, np.arange(9000) % 3)
    assert (model.feature_center_ * np.repeat([1.0, -1.0], 10)).mean() > 0.4
    np.testing.assert_array_equal(model.feature_scale_, 1.0)


@pytest.mark.parametrize(("n_users", "classes", "share"), [(5000, 2, 0.05), (8000, 3, 0.05), (1000, 2, 0.0)])
def test_means_are_removed_where_noise_is_little(n_users, classes, share):
    model = UserLevelSGDClassifier(0.1)
    model.n_features_in_ = 20
    terms = Terms(0.1, 1e-6, Adjacency.REPLACE_ONE, n_users)
    mechanism = model._mechanism(np.arange(classes), 1 if classes == 2 else classes, terms)
    assert mechanism.means_share == share
    assert compose_epsilon(mechanism.events, 1e-6) <= 0.1


def test_weak_effects_on_a_rare_class_are_found_in_noise():
    """Steps that agreed on the intercept grew, and with them the noise of slopes: AUC .557, log loss .283."""
    rng = public_generator(13)
    areas, losses = [], []
    for seed in range(4):
        X = rng.exponential(size=(20_000, 10)) - 1.0
        y = (0.12 * X.sum(axis=1) + rng.logistic(size=20_000) > 2.5).astype(int)
        model = UserLevelSGDClassifier(0.5, standardize=False, random_state=seed)
        fitted(model, X[:14_000], y[:14_000])
        areas.append(roc_auc_score(y[14_000:], model.decision_function(X[14_000:])))
        losses.append(log_loss(y[14_000:], model.predict_proba(X[14_000:])))
    assert np.mean(areas) > 0.57, areas
    assert np.mean(losses) < 0.279, losses


def test_what_selections_leave_is_found_out_where_delta_is_large():
    """In zCDP .74 of the budget, by the accountant more than all: looking for what is left never came to an end."""
    terms = Terms(0.01, 0.1, Adjacency.REPLACE_ONE, 300)
    mechanism = UserLevelSGDRegressor(0.01, delta=0.1)._mechanism(1, terms, False)
    assert mechanism.split.tail_epsilon is None
    assert compose_epsilon(mechanism.events, 0.1) <= 0.01


@pytest.mark.parametrize("octave, times", [(-20.0, 16.0), (-3.0, 2.0), (0.0, 1.0), (3.0, 1.0), (20.0, 16.0)])
def test_a_distance_far_from_all_users_is_selected_as_seldom_as_said(octave, times):
    """One user-level fit of 200 scaled a normal column by 300 deviations."""
    n_users, chances = 1_600, []
    epsilon = distance_cost(MOST_BEYOND, n_users)

    class Chances:
        def select(self, utilities, *, epsilon, sensitivity):
            weights = np.exp(0.5 * epsilon / sensitivity * (utilities - utilities.max()))
            chances.append(weights / weights.sum())
            return 0

    distances = np.abs(np.random.default_rng(0).normal(size=n_users))
    select_distance(scale_counts(distances, FINEST_SCALES), 0.0, MOST_BEYOND * n_users, epsilon, Chances(), 2.0**octave)
    far = np.abs(np.log2(FINEST_SCALES)) > 2.0
    assert chances[0][far].sum() < times * math.exp(-9.0)


def test_a_distance_is_looked_for_from_its_own_column_s_scale(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "skprivate.user_level.scaling._standardise.select_distance", lambda *given: seen.append(given[-1]) or given[-1]
    )
    Z = np.random.default_rng(0).normal(size=(6_000, 3))
    model = UserLevelSGDRegressor(5.0, random_state=0)
    fitted(model, Z[:, :2] * [1e-6, 1e6], 1e3 * Z[:, 2], user_ids=np.repeat(np.arange(2_000), 3))
    assert len(seen) == 4, "scale and tail of the target, and two features"
    assert np.abs(np.log2(np.array(seen) / [1e3, 1e3, 1e-6, 1e6])).max() < 2.0


@pytest.mark.parametrize("near", [np.nan, 0.0, 5e-324, np.inf])
def test_a_released_scale_that_is_no_number_moves_no_cost(near):
    """Public limits a few subnormal numbers apart make one."""
    seen = []

    class Costs:
        def select(self, utilities, *, epsilon, sensitivity):
            seen.append(-utilities)
            return 0

    for n_far in (700, 701):
        counts = scale_counts(np.repeat([1.0, 4.0], [2_000 - n_far, n_far]), FINEST_SCALES)
        select_distance(counts, 0.0, 700.0, 0.03, Costs(), near)
    assert all((costs >= 0).all() for costs in seen)
    assert np.abs(seen[1] - seen[0]).max() <= 1


@pytest.mark.parametrize("scale", [1e-17, 1e17])
def test_users_with_several_rows_may_have_any_unit(scale):
    """Histograms find magnitudes from 2⁻⁶⁰ to 2⁶⁰; selected scales ended at 2⁻⁵⁰ and 2⁵⁰."""
    rng = np.random.default_rng(0)
    X = scale * rng.normal(size=(9_000, 1))
    y = X[:, 0] + 0.3 * scale * rng.normal(size=9_000)
    model = fitted(UserLevelSGDRegressor(5.0, random_state=0), X, y, user_ids=np.repeat(np.arange(3_000), 3))
    assert 0.7 < model.feature_scale_[0] / scale < 1.4
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("n_users", [1, 2, 3])
def test_a_target_range_of_hardly_any_users(n_users):
    plan = plan_standardisation(
        Terms(1e4, 1e-6, Adjacency.REPLACE_ONE, n_users), n_features=2, centred=True, target=True, several=True
    )
    assert np.isfinite(plan._target_range(10.0, n_users))


@pytest.mark.parametrize("centre, found", [(0.0, 1.0), (2.0**17 - 1.0, 1.0), (2.0**17, 0.0), (-(2.0**30), 0.0)])
def test_distances_that_rounding_of_the_centre_explains_are_none(centre, found):
    class Best:
        def select(self, utilities, *, epsilon, sensitivity):
            return utilities.argmax()

    counts = scale_counts(np.ones(100), FINEST_SCALES)
    assert select_distance(counts, centre, 35.0, 1.0, Best(), 1.0) == found
    assert select_distance(scale_counts(np.zeros(100), FINEST_SCALES), centre, 35.0, 1.0, Best(), 1.0) == 0.0


@pytest.mark.parametrize("n_users", [1e9, 1e13, 1e18, 1e300])
def test_costs_of_reaches_do_not_overflow(n_users):
    """A cost that wraps around moves by 2⁶⁴ when one user comes."""
    seen = []

    class Costs:
        def select(self, utilities, **_):
            seen.append(-utilities)
            return 0

    for n_far in (3, 4):
        counts = np.zeros(len(FINEST_SCALES), dtype=np.int64)
        counts[[0, -1]] = 10, n_far
        select_distance(counts, 0.0, 0.35 * n_users, 31.0 / n_users, Costs(), 1.0)
    assert all((costs >= 0).all() for costs in seen)
    steps = np.diff(seen[0][1:-1])
    octaves = np.log2(FINEST_SCALES[2:-1])
    assert (steps[(octaves > 0.0) & (octaves <= FAR)] > 0).all(), "every step costs more"
    assert np.abs(seen[1] - seen[0]).max() <= 1


@pytest.mark.parametrize("n_users", [200, 210, 220])
def test_a_plan_for_a_tiny_delta_is_within_its_budget(n_users):
    """Lattices take a part of so small a δ, which was once just enough and once twice that: ε = 10.05 of 10."""
    model = UserLevelSGDRegressor(10.0, delta=1e-12, random_state=0)
    fitted(model, np.zeros((n_users, 9)), np.arange(n_users))
    assert model.privacy_guarantee_.epsilon <= 10.0


@pytest.mark.parametrize("offset", [0.0, 3e3, 1e6, -1e8])
@pytest.mark.parametrize("model", [UserLevelSGDRegressor, UserLevelSGDClassifier])
def test_features_that_seem_one_value_are_warned_of(model, offset):
    """A search ends at cells far wider than the features where these are a million deviations from 0."""
    X = np.random.default_rng(0).normal(size=(3000, 3)) + offset
    y = (X[:, 0] > offset).astype(int)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model(random_state=0).fit(X, y)
    said = [str(each.message) for each in seen if "nearly all values look alike" in str(each.message)]
    assert bool(said) == (abs(offset) > 1e5) and all(text.startswith("Features 0, 1, 2: ") for text in said)


@pytest.mark.parametrize("seed", range(3))
def test_wide_tables_with_a_private_number_of_users_are_not_whitened_by_noise(seed):
    """Accuracy on the rows themselves was 0.59 with whitening, and 0.70 without."""
    rng = public_generator(seed)
    X = rng.normal(size=(3000, 300))
    y = (X[:, 0] + rng.normal(size=3000) > 0).astype(int)
    model = UserLevelSGDClassifier(1.0, adjacency="add-remove", classes=[0, 1], random_state=seed)
    assert fitted(model, X, y).score(X, y) > 0.65


def test_second_moments_that_are_noise_are_no_metric():
    """Those of a private number of users are released in any case: three fifths of all effects were lost to them."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        effects = rng.normal(size=50)
        effects /= np.linalg.norm(effects)
        X = rng.normal(size=(10_000, 50))
        y = X @ effects + 0.5 * rng.normal(size=10_000)
        model = UserLevelSGDRegressor(0.5, adjacency="add-remove", fit_intercept=False, random_state=seed)
        found = fitted(model, X, y, user_ids=np.repeat(np.arange(2_000), 5))
        assert np.sum((found.coef_ - effects) ** 2) < 0.05
