"""Finite covers of a ball: near every point, within the ball, and candidates that are functions of single rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from sklearn.base import clone, is_classifier, is_regressor

from skprivate import UserLevelSelector
from skprivate.user_level import parameter_cover
from skprivate.user_level._parameter_cover import ball_cover

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 4), share=st.floats(0.3, 1.0), radius=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
def test_every_point_of_the_ball_is_near_a_candidate(size, share, radius, seed):
    found = ball_cover(size, radius, share * radius, 10**5)
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3000, size))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    points[1000:] *= rng.random((2000, 1)) ** (1.0 / size)
    assert cKDTree(found).query(points)[0].max() <= share * radius * (1 + 1e-12)
    assert np.linalg.norm(found, axis=1).max() <= radius * (1 + 1e-12)
    assert len(np.unique(found, axis=0)) == len(found)
    # The grid has not many more points than the volume of a ball that is a diagonal larger asks for.
    volume = math.pi ** (size / 2) / math.gamma(size / 2 + 1)
    assert share == 1.0 or len(found) <= volume * (math.sqrt(size) * (1 / share + 2) / 2 * (1 + 1e-6)) ** size


def test_one_parameter_by_hand():
    np.testing.assert_allclose(ball_cover(1, 1.0, 0.25, 9)[:, 0], [-1.0, -0.5, 0.0, 0.5, 1.0])
    np.testing.assert_array_equal(ball_cover(3, 1.0, 1.0, 9), np.zeros((1, 3)))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_finest_cover_that_is_allowed(size):
    cover = parameter_cover(size, 2.0, fit_intercept=False)
    assert 100 < len(cover) <= 200
    assert len(parameter_cover(size, 2.0, resolution=2.0)) == 1


def test_candidates_are_models_about_the_centre():
    cover = parameter_cover(2, 0.5, resolution=0.3, centre=[3.0, -1.0, 7.0])
    points = np.array([[*model.coef_, model.intercept_] for _, model in cover])
    assert np.linalg.norm(points - [3.0, -1.0, 7.0], axis=1).max() <= 0.5 + 1e-12
    assert np.ptp(points, axis=0).min() > 0.5
    assert len({name for name, _ in cover}) == len(cover)
    X = np.random.default_rng(0).normal(size=(50, 2))
    for _, model in cover[::7]:
        assert is_regressor(model) and not is_classifier(model)
        np.testing.assert_allclose(clone(model).predict(X), X @ model.coef_ + model.intercept_)
        alone = np.concatenate([model.predict(X[[k]]) for k in range(50)])
        np.testing.assert_array_equal(model.predict(np.asfortranarray(X)), alone)  # to the last bit
    two = parameter_cover(2, 1.0, classes=["no", "yes"])[3][1]
    assert is_classifier(two) and not is_regressor(two)
    np.testing.assert_array_equal(two.predict(X) == "yes", two.predict_proba(X)[:, 1] > 0.5)
    np.testing.assert_array_equal(two.decision_function(X) > 0, two.predict(X) == "yes")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((0, 1.0), {}, ValueError, "n_features"),
        ((1.5, 1.0), {}, TypeError, "n_features"),
        ((2, 0.0), {}, ValueError, "radius"),
        ((2, 1.0), {"resolution": 1.5}, ValueError, "resolution must be at most radius"),
        ((2, 1.0), {"resolution": 0.01}, ValueError, "200 candidates cover 3 parameters in a ball of radius 1"),
        ((40, 1.0), {}, ValueError, r"max_candidates must be at least 3\*\*41 to cover 41 parameters"),
        ((2, 1.0), {"max_candidates": 0}, ValueError, "max_candidates"),
        ((2, 1.0), {"centre": [0.0, 0.0]}, ValueError, "centre must be 3 finite numbers"),
        ((2, 1.0), {"centre": [0.0, 0.0, np.nan]}, ValueError, "centre"),
        ((2, 1.0), {"classes": [1, 1]}, ValueError, "two different labels"),
    ],
)
def test_what_cannot_be_covered_is_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        parameter_cover(*arguments, **options)


def test_users_choose_a_classifier_near_the_best():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    y = np.where(X @ [1.0, -0.5] + 0.2 > 0, "yes", "no")
    cover = parameter_cover(2, 1.0, classes=["no", "yes"], max_candidates=60)
    for seed in range(3):
        selector = UserLevelSelector(cover, epsilon=1.0, predict_by="batch", random_state=seed)
        selector.fit(X, y, user_ids=np.arange(6000) // 3)
        assert selector.score(X, y) > 0.8


def test_the_type_of_a_number_makes_no_other_cover():
    one, other = (parameter_cover(2, 1.0, resolution=r) for r in (float(np.float16(0.3)), np.float16(0.3)))
    for (_, a), (_, b) in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.coef_, b.coef_)
