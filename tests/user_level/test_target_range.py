"""How far predictions of a regression go: as far as its targets, which a released scale and a released tail tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.every import every
from scipy import stats
from sklearn.linear_model import LinearRegression

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import Adjacency
from skprivate.user_level._plan import Terms
from skprivate.user_level._ranges import FINEST_SCALES, scale_counts
from skprivate.user_level.scaling._frame import TARGET_RANGE
from skprivate.user_level.scaling._standardise import TARGET_NOISE, plan_standardisation, select_distance


@pytest.mark.parametrize("n_users", [6_300_000, 50_000_000])
@pytest.mark.parametrize("excess", [1.0, 3.0, 2.0**40, 2.0**92])
def test_a_tail_of_any_weight_has_an_end(n_users, excess):
    """The power of the rank was no float, and the fit ended in an error that told of the data."""
    terms = Terms(1e-4, 1e-6, Adjacency.REPLACE_ONE, n_users)
    plan = plan_standardisation(terms, n_features=1, centred=True, target=True)
    reach = plan._target_range(excess, n_users)
    assert TARGET_RANGE <= reach <= max(TARGET_RANGE, TARGET_NOISE / plan._level(n_users))
    assert (reach > TARGET_RANGE) == (excess > 1.0)


@every("excess", [1.05, 1.2, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("n_users", [3_000, 10_000, 10**8])
def test_rows_go_as_far_as_predictions_but_where_no_target_goes_far(excess, n_users):
    plan = plan_standardisation(
        Terms(3.0, 1e-6, Adjacency.REPLACE_ONE, n_users), n_features=4, centred=True, target=True
    )
    share = 2.0 * (np.log(14.0) + 9.0) / (plan.tail_epsilon * n_users)
    power = np.log(max(excess / 1.1, 1.0)) / np.log(0.35 / share)
    reach = 6.0 * excess * (share * n_users) ** power if excess > 1.1 else 6.0
    assert plan._target_range(excess, n_users) == pytest.approx(reach, rel=1e-9)
    light = max(0.0, 1.0 - (reach - 6.0) / 3.0)
    far = 2.0 * np.sqrt(max(1.0, 1.6e-3 / plan._level(n_users)))
    assert plan._row_bound(reach, n_users) == pytest.approx(max(reach - 3.0 * light, far), rel=1e-9)
    assert replace(plan, tail_epsilon=None)._row_bound(reach, n_users) == max(reach, far), "nobody looked"


@pytest.mark.parametrize("law", [stats.gamma(2.0), stats.lognorm(0.8)], ids=["gamma", "lognormal"])
def test_predictions_of_a_skewed_target_end_beyond_it_by_degrees(law):
    """Two reaches on a grid of half octaves said for half of the seeds 6 scales and for the others 23 of a gamma law,
    and a single long row could cost more than all that was explained."""
    last = law.ppf(1.0 - 1.0 / 6_000) - law.median()
    ends, reaches = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = UserLevelSGDRegressor(1.0, random_state=seed)
        frame = model.fit(rng.normal(size=(6_000, 3)), law.rvs(6_000, random_state=rng))._frame
        ends.append(frame.target_range * frame.target_scale / last)
        reaches.append(frame.target_range)
    assert min(ends) > 0.55 and max(ends) < 4.0, ends
    assert len(np.unique(reaches)) >= 5, reaches


@pytest.mark.parametrize("n_users", [6_000, 800])
def test_rows_end_at_three_norms_where_the_tail_is_light(n_users):
    """Rows of six typical norms had the say of many where no target goes as far, and their noise. Columns end where
    predictions do: a row of d of them is as long as one that goes √d times as far alone."""
    rng = np.random.default_rng(0)
    X = 50.0 + 10.0 * rng.normal(size=(n_users, 4))
    y = 0.1 * (X - 50.0) @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n_users)
    model = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    low, high = model.feature_range_
    plan = model._mechanism(4, model._terms(n_users), True).standardisation
    np.testing.assert_allclose((high - low) / model.feature_scale_, 2.0 * TARGET_RANGE)
    typical = np.sqrt(5.0)  # of four columns of deviation 1 and a constant
    reach = 6.0 if plan.tail_epsilon is None else 3.0
    assert reach * 0.99 < model.row_bound_ / typical < reach * 1.2
    labels = UserLevelSGDClassifier(1.0, random_state=0).fit(X, y > 0)
    assert labels.row_bound_ == pytest.approx(2.0 * typical)
    assert np.ptp(labels.feature_range_, axis=0) / labels.feature_scale_ == pytest.approx(12.0)


@pytest.mark.parametrize("epsilon", [1e4, 1e6])
def test_without_noise_rows_and_predictions_go_as_far_as_they_like(epsilon):
    """Features of infinite variance: a bound that noise asks for may not stay when there is none (R² −.037)."""
    losses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2.0, size=(300, 4))
        y = X @ [1.0, -1.0, 0.5, 0.2] + 0.5 * rng.normal(size=300)
        model = UserLevelSGDRegressor(epsilon, random_state=seed).fit(X, y)
        losses.append(LinearRegression().fit(X, y).score(X, y) - model.score(X, y))
    assert np.mean(losses) < (0.006 if epsilon == 1e4 else 0.001), losses


class Likeliest:
    """Takes the likeliest."""

    def select(self, utilities, **_):
        return int(np.argmax(utilities))


def test_a_constant_target_is_predicted():
    """All distances from its centre are errors of a grid."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = np.full(2_000, 10.0 ** rng.uniform(-6.0, 6.0))
        model = UserLevelSGDRegressor(1.0, random_state=seed).fit(rng.normal(size=(2_000, 3)), y)
        assert model.predict(np.zeros((1, 3))) == pytest.approx(y[:1], rel=0.2, abs=1e-4)


def test_a_reach_is_found_to_an_eighth_of_an_octave():
    """Exact where noise decides nothing, from 2⁻²⁰ to 2²⁰."""

    for octave in np.linspace(-20.0, 20.0, 81):
        distances = 2.0**octave * np.linspace(0.0, 1.0, 2_001)
        counts = scale_counts(distances, FINEST_SCALES)
        reach = select_distance(counts, 0.0, 700.0, 1.0, Likeliest(), near=2.0**-20)
        assert reach == pytest.approx(0.65 * 2.0**octave, rel=0.06)


def test_rows_end_at_two_norms_where_no_feature_is_scaled():
    """The target's range says nothing of features that are left as they are."""
    terms = Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 150)
    plan = plan_standardisation(terms, n_features=3, centred=True, target=True, prepared=(True,) * 3)
    assert plan.target is not None and plan.features is None
    assert plan._row_bound(100.0, 150) == 2.0
