"""Least squares over waves of bounded mass: the bound on all waves, and what follows from it."""

import math

import numpy as np
import pytest

from skprivate.audit import FiniteAdversaryAuditor
from skprivate.audit.certificates._barron import Correlations, fit_barron


def residual(q, n=40, seed=0):
    rng = np.random.default_rng([q, seed])
    r = rng.normal(size=n)
    return rng.normal(size=(n, q)) * np.arange(1, q + 1), (r - r.mean()) / n


def correlation(points, r, frequencies):
    sums = (np.exp(1j * frequencies @ points.T) - 1.0) @ r
    return np.abs(sums) / np.linalg.norm(frequencies, axis=1)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_every_wave_of_a_box_is_below_its_bound(q):
    points, r = residual(q)
    at, rng = Correlations(points, r), np.random.default_rng(1)
    half = np.geomspace(1e-4, 3.0, 200)[:, None] * rng.random((200, q))
    centre = rng.normal(size=(200, q)) * np.geomspace(1e-3, 10.0, 200)[rng.permutation(200), None]
    centre[:20] = half[:20]  # corners at 0
    highest = np.zeros(200)
    for floor in (0.02, 0.1, 0.5):
        here, bound = at.boxes(centre, half, floor)
        np.testing.assert_allclose(here, correlation(points, r, centre), rtol=1e-7)
        for _ in range(50):
            inside = centre + half * rng.uniform(-1.0, 1.0, size=(200, q))
            ends = rng.random(200) < 0.5  # corners, where the expansion is worst
            inside[ends] = (centre + half * rng.choice([-1.0, 1.0], size=(200, q)))[ends]
            inside[(inside == 0.0).all(axis=1)] = 1e-9
            highest = np.maximum(highest, correlation(points, r, inside) / bound)
        assert highest.max() <= 1.0 + 1e-6
    assert np.median(highest) > 0.6


def test_remainders_of_the_expansions_are_attained():
    for angle in (0.0, 0.7):  # axes too short of a diagonal would be seen
        direction = np.array([[math.cos(angle), math.sin(angle)]])
        w = 0.01 * direction
        # 2(cos(w·t) − 1): all of it is remainder of first order, and of second order at 0.
        at = Correlations(np.vstack([direction, -direction]), np.ones(2))
        value, _ = at.sums(w)
        assert 0.99 < abs(value[0]) / at.rest(np.abs(w))[0] <= 1.0
        assert 0.99 < abs(value[0]) / 0.01 / at.near_zero(np.array([0.01]))[0] <= 1.0
    # Odd: no second order, and a third order that lengthens the first.
    at = Correlations(np.array([[1.0], [-1.0], [2.0], [-2.0]]), np.array([4.0, -4.0, -1.0, 1.0]))
    value, _ = at.sums(np.array([[0.1]]))
    excess = abs(value[0]) / 0.1 - 4.0
    assert 0.3 < excess / (at.near_zero(np.array([0.1]))[0] - 4.0) <= 1.0


@pytest.mark.parametrize("q", [2, 3])
def test_the_largest_wave_is_bounded_from_both_sides(q):
    points, r = residual(q, seed=1)
    at = Correlations(points, r)
    best, upper, where = at.largest(0.0, math.inf, 20_000)
    assert upper <= best * 1.02
    tried = np.random.default_rng(2).normal(size=(5000, q)) * np.geomspace(0.01, 5.0, 5000)[:, None]
    assert correlation(points, r, tried).max() <= upper
    assert correlation(points, r, where[None])[0] == pytest.approx(best)
    assert at.largest(0.0, math.inf, 600)[1] >= upper  # stopped early: still a bound
    assert at.largest(2.0 * best, math.inf, 20_000)[1] == pytest.approx(2.0 * best)
    found, unknown, where = at.largest(0.0, 0.5 * best, 20_000)
    assert found > 0.5 * best and unknown == math.inf


def pairs(q, n=300):
    rng = np.random.default_rng(q)
    points, slope = rng.normal(size=(n, q)), np.full(q, 0.5 / math.sqrt(q))
    eta = np.tanh(points @ slope)  # the transform of its derivative is positive: its Barron constant is 0.5
    return points, np.where(rng.random(n) < 0.5 * (1.0 + eta), 1.0, -1.0), eta


@pytest.mark.parametrize("q", [2, 3])
def test_the_certificate_is_below_every_function_of_the_class(q):
    points, s, eta = pairs(q)
    fit = fit_barron(points, s, 0.5, np.random.default_rng(0), tol=0.01, max_boxes=10_000)
    assert fit.lower_bound <= fit.loss == pytest.approx(np.mean((s - fit.values) ** 2))
    assert fit.loss - fit.lower_bound < {2: 0.012, 3: 0.06}[q]
    assert np.abs(fit.masses).sum() <= 0.5 + 1e-9
    np.testing.assert_allclose(fit.predict(points), fit.values, atol=1e-9)
    assert np.mean((s - eta) ** 2) >= fit.lower_bound
    rng = np.random.default_rng(1)
    for _ in range(50):
        w = rng.normal(size=q) * rng.choice([0.1, 1.0, 3.0])
        wave = np.cos(points @ w + rng.uniform(0.0, 2.0 * np.pi)) / np.linalg.norm(w)
        member = 0.5 * (wave - wave.mean()) * np.sign((wave - wave.mean()) @ s) + s.mean()
        assert np.mean((s - member) ** 2) >= fit.lower_bound


def test_units_places_and_columns_that_do_not_vary_change_nothing():
    points, s, _ = pairs(2, 60)
    options = {"tol": 0.1, "max_boxes": 1000}
    plain = fit_barron(points, s, 0.5, np.random.default_rng(0), **options)
    wider = np.column_stack([np.full(60, 7.5), points[:, 0], np.zeros(60), points[:, 1]])
    for other, constant in ((wider, 0.5), (points * 2.0**200, 0.5 / 2.0**200), (points + 64.0, 0.5)):
        fit = fit_barron(other, s, constant, np.random.default_rng(0), **options)
        assert (fit.loss, fit.lower_bound) == pytest.approx((plain.loss, plain.lower_bound), abs=1e-6)
        np.testing.assert_allclose(fit.predict(other), fit.values, atol=1e-9)
    for other, constant in ((points, 0.0), (np.ones((60, 2)), 0.5)):
        fit = fit_barron(other, s, constant, np.random.default_rng(0), **options)
        assert fit.lower_bound == fit.loss == pytest.approx(s.var())


@pytest.mark.slow
def test_an_audit_by_a_barron_constant_in_three_dimensions_is_tight():
    points, s, eta = pairs(3, 300)
    auditor = FiniteAdversaryAuditor(assumption="barron", barron_constant=0.5, support=8.0).fit(points, s)
    assert auditor.duality_gap_ < 0.03
    assert 0.6 < auditor.loss_lower_bound_ <= 1.0 - np.mean(eta**2)


def test_equal_labels_are_a_constant():
    points = np.random.default_rng(0).normal(size=(5, 3))
    fit = fit_barron(points, np.ones(5), 1.0, np.random.default_rng(0))
    assert fit.loss == fit.lower_bound == 0.0 and (fit.predict(points) == 1.0).all()
