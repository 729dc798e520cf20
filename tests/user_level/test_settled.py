"""Whether a descent has settled: told from released directions, and rarely wrong."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom, norm

from skprivate.privacy import SimulatedNoiseWarning, public_generator
from skprivate.privacy._events import run_tape
from skprivate.user_level import (
    TooFewUsersWarning,
    UnscaledFeaturesWarning,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
)
from skprivate.user_level.descent._descent import FALSE_ALARM, LEAST_STEPS, SMALL_VOTE, Course


def test_drift_is_the_mean_direction_in_units_of_its_noise():
    directions = np.tile([[0.3, 0.1], [0.3, -0.1]], (8, 1))
    threshold = 0.02 * norm.ppf(1 - FALSE_ALARM / 4) / 4
    course = Course(np.array([1.0, 0.0]), 1.0, directions, 0.02)
    assert course.drift() == pytest.approx(0.3 / threshold)
    assert Course(course.coef, 1.0, directions - [0.3, 0.0], 0.02).drift() == pytest.approx(0.0)
    # Too few steps, or a vote too small to matter.
    assert Course(course.coef, 1.0, directions[: LEAST_STEPS - 1], 0.02).drift() == 0.0
    assert Course(course.coef, 1.0, directions * (0.99 * SMALL_VOTE / 0.3), 1e-9).drift() == 0.0
    # What is left of the start: the second half says less.
    fading = Course(course.coef, 1.0, directions * np.repeat([1.0, 0.2], 8)[:, None], 0.02)
    assert fading.drift() == pytest.approx(2**0.5 * 0.06 / threshold)
    # What has come to rest in the second half has settled.
    directions[8:] = 0.0
    assert Course(course.coef, 1.0, directions, 0.02).drift() == 0.0


def test_a_descent_that_rests_at_its_bound_has_settled():
    course = Course(np.array([3.0, 0.0]), 1.0, np.tile([-0.3, 0.0], (20, 1)), 0.02)
    assert course.drift() > 1.0  # wants to go on
    assert course.drift(bound=3.0) == 0.0  # and may not
    inwards = Course(course.coef, 1.0, -course.directions, 0.02)
    assert inwards.drift(bound=3.0) == inwards.drift() > 1.0
    along = Course(course.coef, 1.0, course.directions[:, ::-1], 0.02)
    assert along.drift(bound=3.0) == along.drift() > 1.0


@pytest.mark.parametrize("n_coef", [1, 11, 60])
def test_noise_alone_is_hardly_ever_a_false_alarm(n_coef):
    rng = public_generator(n_coef)
    noise, repetitions = 1.0, 2000
    alarms = sum(
        Course(np.zeros(n_coef), 1.0, rng.normal(scale=noise, size=(20, n_coef)), noise).drift() > 1.0
        for _ in range(repetitions)
    )
    # Failure probability 1e-6 on each side.
    assert alarms <= binom.isf(1e-6, repetitions, FALSE_ALARM)
    slack = sum(
        Course(np.zeros(n_coef), 1.0, rng.normal(scale=1.5 * noise, size=(20, n_coef)), noise).drift() > 1.0
        for _ in range(repetitions)
    )
    assert slack > alarms


def rows(kind, seed, n_users=1500, rows_each=4, d=6):
    rng = public_generator(seed)
    X = rng.normal(size=(n_users * rows_each, d))
    f = X @ (np.arange(d) / d - 0.3)
    y = f + 0.5 * rng.normal(size=len(f))
    if kind == "scales":
        X = X * np.logspace(1, -1, d)
    elif kind == "far":
        X = X + 10.0
    elif kind == "small":
        X = 0.05 * X
    elif kind == "other units":
        X, y = 1e4 * X, 1e-3 * y
    return X, y, (f + rng.logistic(size=len(f)) > 0).astype(int), np.repeat(np.arange(n_users), rows_each)


def warned(model, X, y, users):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, user_ids=users)
    kinds = {w.category for w in caught} - {SimulatedNoiseWarning}
    assert TooFewUsersWarning not in kinds
    return UnscaledFeaturesWarning in kinds


@pytest.mark.parametrize("kind", ["plain", "other units", "scales", "far", "small"])
def test_badly_scaled_features_are_noticed_and_good_ones_are_not(kind):
    for seed, adjacency in enumerate(("replace-one", "add-remove")):
        X, y, labels, users = rows(kind, seed)
        regressor = UserLevelSGDRegressor(3.0, standardize=False, adjacency=adjacency, random_state=seed)
        assert warned(regressor, X, y, users) == (kind in ("scales", "far", "small"))
        classifier = UserLevelSGDClassifier(10.0, standardize=False, classes=[0, 1], random_state=seed)
        # The classifier's radius does not come from the data, and its intercept has a scale of its own.
        if kind not in ("small", "other units"):
            assert warned(classifier, X, labels, users) == (kind in ("scales", "far"))


def test_the_message_says_what_to_do():
    X, y, _, users = rows("far", 0)
    with pytest.warns(UnscaledFeaturesWarning, match=r"not converge.*PublicScaler\.from_bounds.*PrivateStandardScaler"):
        UserLevelSGDRegressor(3.0, standardize=False, random_state=0).fit(X, y, user_ids=users)
    X, y, _, users = rows("plain", 0)
    model = UserLevelSGDRegressor(3.0, standardize=False, random_state=0)
    with pytest.warns(UnscaledFeaturesWarning, match=r"at their bound .* most targets are 0.* given as radius"):
        model.fit(X, (y > 0) * 1.0, user_ids=np.arange(len(y)))
    assert not warned(model.set_params(radius=3.0), X, (y > 0) * 1.0, np.arange(len(y)))


class Replay:
    """Releases what was released before."""

    def __init__(self, results=None):
        self.results, self.given = [], results

    def draw(self, draw, sample):
        result = sample() if self.given is None else self.given[len(self.results)]
        self.results.append(result)
        return result


def test_the_warning_depends_on_released_numbers_alone():
    X, y, _, users = rows("far", 0)
    first = Replay()
    model = UserLevelSGDRegressor(3.0, standardize=False, random_state=0)
    with run_tape(first):
        assert warned(model, X, y, users)
    with run_tape(Replay(first.results)):
        assert warned(model, *rows("plain", 1)[:2], users)  # other rows, the same releases
