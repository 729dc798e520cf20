"""Balls as bounds: nearest points, what keeps distances, and estimators whose rows live in one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.every import every
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone

from skprivate.audit.claims._neighbours import box_of
from skprivate.metric import Ball, MetricPrivateSynthesizer, MetricPrivatizer
from skprivate.metric._domains import BallBox, check_domain
from skprivate.privacy import SimulatedNoiseWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
]

ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
NORMS = tuple(ORDER)


def domain(d, norm="l2", center=0.0, radius=1.0):
    return check_domain(Ball(center, radius, norm), d)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_nearest_points_solve_their_programme(norm, d):
    """⟨x − p, y − p⟩ ≤ 0 for all y of the ball: for the vertices, or the best y of a round one."""
    rng = np.random.default_rng(d)
    center, radius = rng.normal(size=d), 1.5
    X = center + rng.normal(size=(200, d)) * rng.choice([0.3, 2.0, 50.0], size=(200, 1))
    nearest = domain(d, norm, center, radius).nearest(X)
    inside = np.linalg.norm(X - center, ord=ORDER[norm], axis=1) <= radius
    assert np.array_equal(nearest[inside], X[inside])
    p = nearest - center
    np.testing.assert_array_less(np.linalg.norm(p, ord=ORDER[norm], axis=1), radius * (1 + 1e-12))
    away = X - nearest
    dual = {"l1": np.inf, "l2": 2, "linf": 1}[norm]
    best = radius * np.linalg.norm(away, ord=dual, axis=1)  # the largest ⟨x − p, y⟩
    assert np.all(best - (away * p).sum(axis=1) <= 1e-10 * (1 + np.abs(away).sum(axis=1)))


@pytest.mark.parametrize("norm", NORMS)
@every("scale", [1e-300, 1e-8, 1.0, 1e12, 1e300])
def test_lengths_of_every_size(norm, scale):
    X = np.array([[3.0, -4.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [5e-324, 0.0, 0.0]]) * scale
    found = domain(3, norm).nearest(X)
    assert np.isfinite(found).all()
    assert np.all(np.linalg.norm(found, ord=ORDER[norm], axis=1) <= 1 + 1e-12)
    assert np.all(np.sign(found) * np.sign(X) >= 0)
    if scale <= 1e-8:
        assert np.array_equal(found, X)
    huge = domain(3, norm, 0.0, 1e149).nearest(X)
    assert np.isfinite(huge).all() and (scale > 1e100 or np.array_equal(huge, X))


@given(st.sampled_from(NORMS), st.sampled_from(NORMS), st.integers(1, 6), st.integers(0, 10**6))
def test_rows_are_brought_in_without_lengthening_distances(norm, metric, d, seed):
    rng = np.random.default_rng(seed)
    center = rng.normal(size=d)
    box = domain(d, norm, center, rng.uniform(0.5, 2))
    X = center + rng.normal(size=(20, d)) * rng.choice([0.1, 1.0, 30.0], size=(20, 1))
    X[10:] = X[:10] + rng.normal(size=(10, d)) * rng.choice([1e-3, 1.0], size=(10, 1))
    inward = box.inward(X, metric, 1.0)
    for first, second in itertools.combinations(range(20), 2):
        before = np.linalg.norm(X[first] - X[second], ord=ORDER[metric])
        after = np.linalg.norm(inward[first] - inward[second], ord=ORDER[metric])
        assert after <= before + 1e-12
        assert after <= box.diameter(metric, "clip", 1.0) * (1 + 1e-12)


def test_no_retraction_to_the_l1_ball_keeps_distances():
    """The point of the proof, by search: whatever the image of one point is, some distance becomes longer."""
    h = 0.1
    start = np.full(3, 1 / 3)
    moved = start + h * np.eye(3)[0]
    stay = np.array([start, [1 / 3 + h, 2 / 3 - h, 0], [1 / 3 + h, 0, 2 / 3 - h]])
    allowed = np.abs(stay - moved).sum(axis=1)

    def worst(p):
        return max(np.max(np.abs(stay - p).sum(axis=1) - allowed), np.abs(p).sum() - 1)

    tries = [
        minimize(worst, start + np.random.default_rng(i).normal(size=3) * h, method="Nelder-Mead") for i in range(20)
    ]
    assert min(found.fun for found in tries) > 0.01
    nearest = domain(3, "l1").nearest(np.array([start, moved]))
    np.testing.assert_allclose(np.abs(nearest[1] - nearest[0]).sum(), 4 / 3 * h)  # so it is not used under "l1"


def test_float_error_of_a_far_centre_makes_way_for_clipping():
    box = domain(2, center=1e6)
    assert box.projects("l2", 1e-3) and not box.projects("l2", 1.0)
    X = np.array([[1e6 + 3.0, 1e6 + 0.5]])
    assert np.array_equal(box.inward(X, "l2", 1.0), [[1e6 + 1, 1e6 + 0.5]])
    assert box.diameter("l2", "clip", 1.0) > box.diameter("l2", "raise", 1.0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_enters_by_itself(norm):
    X = np.random.default_rng(0).normal(size=(1000, 7)) * 3
    box = domain(7, norm)
    for brought in (box.nearest, box.to_unit):
        whole = brought(X)
        for part in (slice(0, 1), slice(5, 6), slice(3, 500)):
            assert np.array_equal(brought(np.asfortranarray(X[part])), whole[part])


@pytest.mark.parametrize("metric", NORMS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("mechanism", ["k-norm", "exponential"])
def test_privatizer_answers_within_the_ball(metric, norm, mechanism):
    X = np.random.default_rng(0).normal(size=(300, 3)) * 3
    ball = Ball([1.0, 0.0, -1.0], 2.0, norm)
    model = clone(MetricPrivatizer(1.0, metric=metric, mechanism=mechanism, bounds=ball, random_state=0)).fit(X)
    with pytest.warns(SimulatedNoiseWarning):
        result = model.transform(X)
    assert np.all(np.linalg.norm(result - ball.center, ord=ORDER[norm], axis=1) <= 2 + 1e-9)
    # Nothing is lost by bringing rows in twice: the reach is what a ledger of rows counts.
    assert model._diameter() == pytest.approx(
        {("l2", "l2"): 4.0}.get((metric, norm), 4.0 * {"l1": 3, "l2": 3**0.5, "linf": 1}[metric])
    )
    model.set_params(out_of_bounds="raise").fit(X)
    with pytest.raises(ValueError, match="outside bounds"):
        model.transform(X)
    model.transform(result)  # what came out may go in again
    shape = max(1.0, 3 ** (1 / ORDER[metric] - 1 / ORDER[norm]))
    assert model._diameter() == pytest.approx(4 * shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.nan, 1.0), "center"),
        (([[0.0]], 1.0), "center"),
        ((0.0, 0.0), "radius"),
        ((0.0, np.inf), "radius"),
        ((0.0, 5e-324), "radius"),
        ((0.0, 1e-151), "radius"),
        ((0.0, 1.0, "l3"), "norm must be"),
    ],
)
def test_bad_balls(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ball(*arguments)


def test_searches_for_violations_look_inside_the_cube():
    low, high = box_of(Ball([0.0, 1.0], 2.0, "l1"), 2)
    assert low.tolist() == [-2.0, -1.0] and high.tolist() == [2.0, 3.0]
    assert np.array_equal(box_of(Ball(1.0, 2.0), 3), [[-1.0] * 3, [3.0] * 3])


def test_balls_that_do_not_fit():
    with pytest.raises(ValueError, match="one number per column"):
        MetricPrivatizer(bounds=Ball([0.0, 0.0], 1.0)).fit(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="lost beside its center"):
        MetricPrivatizer(bounds=Ball(1e20, 1.0)).fit(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="got a Ball"):
        MetricPrivatizer(metric="haversine", bounds=Ball(0.0, 1.0), coordinates="latitude-longitude").fit([[0, 0]])
    with pytest.raises(ValueError, match="bounds"):
        MetricPrivateSynthesizer(bounds=Ball(0.0, 1.0)).fit(np.ones((5, 2)))
    assert Ball([0, 1], 2) == Ball(np.array([0.0, 1.0]), 2.0)
    assert isinstance(domain(2), BallBox) and not isinstance(domain(2, "linf"), BallBox)
