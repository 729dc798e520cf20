"""Draws that only large budgets or many users reach: farther distances, tails, sums about a centre, quiet steps."""

import math

import numpy as np
import pytest
from scipy.stats import chi, chi2, norm

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import public_generator
from skprivate.user_level.descent import _descent
from skprivate.user_level.descent._descent import QuasiNewton
from skprivate.user_level.means import _user_mean
from skprivate.user_level.means._user_mean import BEYOND, CENTRE_PART, LIGHT, MeanResult, Tail, TrackedCentre
from skprivate.utils._replay import Recording
from skprivate.utils.estimator_checks import isolation_failures, replay_estimator

QUIET = {"epsilon": 1e7, "classes": [0, 1], "max_iter": 6}
PRECISE = [
    UserLevelMean(1e4),
    UserLevelMean(1e4, adjacency="add-remove", weight_cap=3),
    UserLevelSGDClassifier(**QUIET),
    UserLevelSGDClassifier(**QUIET, class_weight="balanced", adjacency="add-remove", standardize=False),
    UserLevelSGDRegressor(1e4, max_iter=4),
    UserLevelSGDRegressor(160.0, max_iter=2),  # joint histograms
    UserLevelSGDRegressor(100.0, max_iter=2),  # and those of the target
]


@pytest.fixture
def reached(monkeypatch):
    """What the runs came by."""
    seen = set()

    class Watched(TrackedCentre):
        def draw(self, total, release):
            seen.add("way" if self.uses_side else "sum")
            return super().draw(total, release)

    class Watching(QuasiNewton):
        def step(self, *terms):
            seen.add("curved" if self._moves else "straight")
            return super().step(*terms)

    monkeypatch.setattr(_user_mean, "TrackedCentre", Watched)
    monkeypatch.setattr(_descent, "QuasiNewton", Watching)
    return seen


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", PRECISE)
def test_paths_of_little_noise_look_at_nothing_but_what_was_released(estimator, reached):
    replay_estimator(estimator, n_rows=24, n_units=1, at_most=6).raise_failures(repr(estimator))
    assert not isolation_failures(estimator, n_rows=12, n_units=1, at_most=1)
    paths = {UserLevelMean: {"way", "sum"}, UserLevelSGDClassifier: {"straight", "curved"}}
    assert reached == paths.get(type(estimator), set())


SELECTING = [
    UserLevelMean(1e3),
    UserLevelSGDRegressor(1e3, inference=True),
    UserLevelSGDRegressor(1e3, inference=True, solver="sgd"),
    UserLevelSGDClassifier(1e3, inference=True, classes=[0, 1]),
    UserLevelSGDRegressor(1e3, standardize=False),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("users", [None, np.arange(400) // 2])
@pytest.mark.parametrize("estimator", SELECTING)
def test_no_selection_is_monotone_where_users_are_exchanged(estimator, users):
    """One who comes raises costs and one who leaves lowers others: half the noise would be too little."""
    X = public_generator(0).normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    found = {}
    for adjacency in ("replace-one", "add-remove"):
        model = estimator.set_params(adjacency=adjacency, random_state=0)
        draws = Recording(lambda rows, model=model: model.fit(*rows, user_ids=users), (X, y)).draws
        found[adjacency] = [bool(draw.options["monotone"]) for draw in draws if draw.kind == "select"]
    assert not any(found["replace-one"])
    # Slopes of single rows of classes are bounded already.
    selects = users is not None or not isinstance(estimator, UserLevelSGDClassifier)
    assert any(found["add-remove"]) == bool(found["replace-one"]) == selects


def mean_result(mean, n_users, noise_scale, **other):
    numbers = {"clip_radius": 1.0, "offset": 0.0, "noise_level": 0.01, "count_noise": 0.0, **other}
    return MeanResult(mean=mean, n_users=n_users, noise_scale=noise_scale, **numbers)


@pytest.mark.parametrize("beta", [0.01, 0.5])
@pytest.mark.parametrize("count_noise", [0.0, 20.0])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 50.0])
def test_a_confidence_radius_holds_noise_sampling_and_a_count(beta, count_noise, spread):
    """Fewer users than were released, and noise that hides their sum: the sum is larger than its noisy mean tells."""
    n, d, sigma, part = 100.0, 3, 2.0, beta / 2.0 if count_noise else beta
    left = 1.0 - count_noise * norm.isf(beta / 4.0) / n
    noise = (1.0 - CENTRE_PART) * sigma**2 * chi2.isf(part, d)
    sampling = spread**2 * chi2.isf(part, 1) / (n * left)
    result = mean_result(np.zeros(d), n, sigma, offset=0.7, count_noise=count_noise, spread=spread, lost=0.3)
    wanted = math.sqrt(noise + sampling) + 0.3 + 0.7 * (1.0 - left) / left
    assert result.confidence_radius(beta) == pytest.approx(wanted)


def test_no_confidence_where_nothing_is_known():
    uncounted = mean_result(np.zeros(2), 30.0, 1.0, count_noise=20.0, spread=1.0)
    tailless = mean_result(np.zeros(2), 5000.0, 0.1)
    for result in (uncounted, tailless):
        assert math.isnan(result.confidence_radius(0.05))


@pytest.mark.parametrize(("n_features", "beyond"), [(1, 0.05), (1, 0.1), (5, 0.1)])
def test_the_tail_of_normal_users_has_their_spread_and_takes_nothing(n_features, beyond):
    tail = Tail(chi.isf(BEYOND, n_features), chi.isf(beyond, n_features), beyond)
    assert tail.spread(6.0) == pytest.approx(math.sqrt(n_features), rel=0.06)
    assert tail.power > LIGHT and tail.lost(6.0, 1.0, 0.0) == 0.0


@pytest.mark.parametrize("distance", [1e-4, 0.05])
@pytest.mark.parametrize("share", [0.05, 0.2, BEYOND])
def test_zeros_and_ones_have_no_more_spread_than_is_said(distance, share):
    """Of 20 000 users 5 % were ones: the radius of their mean held it in 21 of 100 fits."""
    assert Tail(distance, 1.0, 0.0142).spread(1.3) >= math.sqrt(share)


def test_a_heavy_tail_takes_no_more_than_it_shifts():
    """Of Pareto users of index 2 beyond 1, clipping to 10 takes 1/10; twice that is counted."""
    tail = Tail(BEYOND**-0.5, 0.02**-0.5, 0.02)
    assert tail.index == pytest.approx(2.0) and tail.power < LIGHT
    assert tail.lost(10.0, 1.0, 1e9) == pytest.approx(2.0 / 10.0)
    assert tail.lost(10.0, 1.0, 0.9) == pytest.approx(2.0 * 0.9 / 9.0)
    assert tail.lost(10.0, 1.0, 0.0) == 0.0


def test_steps_remember_no_more_than_they_need():
    """Of 1500 steps of a fit each went through all before: 18 seconds where a first-order step takes none."""
    curvatures = np.geomspace(1e-6, 1.0, 300)
    w, newton = np.zeros(300), QuasiNewton(0.1)
    for _ in range(300):
        w = newton.step(w, curvatures * (w - 1.0), 1e-15)
    assert 0 < len(newton._moves) == len(newton._changes) <= 100
    # Near enough where curvature is a thousandth of the largest or more.
    np.testing.assert_allclose(w[150:], 1.0, atol=0.05)
