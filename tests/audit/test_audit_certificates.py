"""The certificate: exact minima, valid tail bounds, and nothing above the truth."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from helpers.audit_laws import SCALAR_LAWS
from helpers.every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

from skprivate.audit import FiniteAdversaryAuditor
from skprivate.audit.certificates import _halfplanes
from skprivate.audit.certificates._concentration import (
    LN2,
    bernstein_lower_bound,
    binary_entropy,
    chernoff_entropy_lower_bound,
    hoeffding_lower_bound,
    inverse_binary_entropy,
    squared_loss_lower_bound,
)
from skprivate.audit.certificates._halfplanes import (
    ExactTurns,
    TurningLine,
    best_offset,
    largest_halfspace_sum,
    power_of_two_scale,
)
from skprivate.audit.certificates._halfspaces import fit_halfspaces
from skprivate.audit.certificates._variation import fit_bounded_variation, fit_bounded_variation_log, group_ties


def weighted(n, rng):
    w = rng.uniform(0.2, 1.0, size=n)
    return w / w.sum()


def variation(f):
    return np.abs(np.diff(f)).sum()


# -- minima over bounded variation --------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 9), st.floats(0.0, 3.0), st.integers(0, 10**6))
def test_bounded_variation_against_a_general_solver(n, bound, seed):
    rng = np.random.default_rng(seed)
    y, w = rng.uniform(-1, 1, size=n), weighted(n, rng)
    fit = fit_bounded_variation(y, w, bound)
    # f = c + cumulative sum of (up − down), up, down ≥ 0, total ≤ bound
    lower = np.tril(np.ones((n, n)))[:, 1:]
    basis = np.column_stack([np.ones(n), lower, -lower])
    problem = minimize(
        lambda x: w @ (y - basis @ x) ** 2,
        np.concatenate([[w @ y], np.full(2 * (n - 1), 1e-3)]),
        jac=lambda x: -2 * basis.T @ (w * (y - basis @ x)),
        bounds=[(None, None)] + [(0, None)] * (2 * (n - 1)),
        constraints={
            "type": "ineq",
            "fun": lambda x: bound - x[1:].sum(),
            "jac": lambda x: -np.r_[0.0, np.ones(2 * (n - 1))],
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert variation(fit.values) <= bound + 1e-9
    assert fit.loss == pytest.approx(w @ (y - fit.values) ** 2, abs=1e-12)
    assert fit.lower_bound <= problem.fun + 1e-7
    assert fit.loss <= problem.fun + 1e-6
    assert fit.loss - fit.lower_bound < 1e-8


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 400), st.floats(0.0, 8.0), st.integers(0, 10**6))
def test_duality_gap_closes_and_no_member_of_the_class_is_better(n, bound, seed):
    rng = np.random.default_rng(seed)
    y, w = rng.choice([-1.0, 1.0], size=n), weighted(n, rng)
    for fit in (fit_bounded_variation(y, w, bound), fit_bounded_variation_log(y, w, bound)):
        assert fit.lower_bound <= fit.loss + 1e-12
    squared, log = fit_bounded_variation(y, w, bound), fit_bounded_variation_log(y, w, bound)
    assert squared.loss - squared.lower_bound < 1e-8
    for _ in range(5):
        rival = np.cumsum(rng.normal(size=n) * (rng.random(n) < 0.2))
        rival *= bound / max(variation(rival), 1e-12)
        rival = np.clip(rival - rival.mean(), -0.999, 0.999)
        assert w @ (y - rival) ** 2 >= squared.lower_bound - 1e-12
        assert w @ -np.log((1 + y * rival) / 2) >= log.lower_bound - 1e-12


def test_log_loss_minimum_is_certified_tightly():
    rng = np.random.default_rng(0)
    for name in ("bump", "slope"):
        law = SCALAR_LAWS[name]
        t, s = law.sample(3000, rng)
        _, y, w = group_ties(t, s)
        fit = fit_bounded_variation_log(y, w, law.variation)
        assert fit.loss - fit.lower_bound < 1e-6
        assert variation(fit.values) <= law.variation + 1e-8


def test_monotone_class_lies_inside_the_default_variation():
    rng = np.random.default_rng(1)
    t, s = SCALAR_LAWS["slope"].sample(2000, rng)
    monotone = FiniteAdversaryAuditor(assumption="monotone").fit(t[:, None], s)
    wider = FiniteAdversaryAuditor(total_variation=2.0).fit(t[:, None], s)
    assert wider.loss_lower_bound_ <= monotone.loss_lower_bound_ + 1e-9


# -- minima over half-spaces --------------------


def largest_by_enumeration(points, r):
    """Every line through two distinct points, in rational arithmetic; those on it go with either end."""
    exact = [tuple(map(Fraction, point)) for point in points.tolist()]
    best = abs(r.sum())
    for x, y in exact:
        for to_x, to_y in set(exact) - {(x, y)}:
            dx, dy = to_x - x, to_y - y
            turns = [dx * (b - y) - dy * (a - x) for a, b in exact]
            along = [dx * (a - x) + dy * (b - y) for a, b in exact]
            left, on = np.array([t > 0 for t in turns]), np.array([t == 0 for t in turns])
            for mark in (0, dx * dx + dy * dy):
                for mask in ([a >= mark for a in along], [a > mark for a in along]):
                    for chosen in (left | (on & mask), left | (on & ~np.array(mask))):
                        best = max(best, abs(r[chosen].sum()), abs(r[~chosen].sum()))
    return best


def degenerate(kind, n, rng):
    x = rng.random(n)
    return {
        "general": rng.normal(size=(n, 2)),
        "a grid": rng.integers(0, 4, size=(n, 2)).astype(float),
        "a line and others": np.column_stack([x, np.where(rng.random(n) < 0.7, x, rng.random(n))]),
        "a sloping line": np.column_stack([x, 0.1 * x]),
        "decimals": np.round(rng.random((n, 2)), 1),
        "nearly a line": np.column_stack([x * 1e-3, x * 1e-4 + rng.integers(-1, 2, n) * 1e-19]) + 0.3,
        "two probabilities": np.column_stack([x, 1 - x]),
        "near overflow": rng.choice([1.7e308, -1.7e308, 3e307, 1.0, 0.0], size=(n, 2)),
        "subnormal": rng.integers(-3, 4, size=(n, 2)) * 5e-324,
        "powers of two": 2.0 ** rng.integers(-500, 501, size=(n, 2)),
        "last digits": 1.0 + rng.integers(0, 3, size=(n, 2)) * 2.0**-52,
        "subnormal and large": rng.normal(size=(n, 2)) * np.array([5e-324, 1e150]) * 3,
    }[kind]


KINDS = ("general", "a grid", "a line and others", "a sloping line", "decimals", "nearly a line", "subnormal and large")
EXTREME = ("two probabilities", "near overflow", "subnormal", "powers of two", "last digits")


@pytest.mark.parametrize("kind", KINDS)
@every("seed", range(4))
def test_turning_line_finds_the_best_half_plane(kind, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 16))
    points, r = degenerate(kind, n, rng), rng.normal(size=n)
    if seed % 2:
        r -= r.mean()
    best = largest_by_enumeration(points, r)
    value, upper, (normal,) = TurningLine(points).largest(r)
    assert value == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert best <= upper <= best + 1e-12
    if kind in ("general", "a grid", "decimals") and seed % 2:  # elsewhere float64 has no such direction
        assert best_offset(points @ normal, r)[1] == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS + EXTREME), st.integers(1, 12), st.integers(0, 10**6))
def test_turning_line_is_exact_for_integer_masses(kind, n, seed):
    rng = np.random.default_rng(seed)
    points, r = degenerate(kind, n, rng), rng.integers(-4, 5, size=n).astype(float)
    value, _, normals = TurningLine(points).largest(r, 3)
    assert value == largest_by_enumeration(points, r)
    assert np.isfinite(normals).all()


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(("nearly a line", "two probabilities", "powers of two", "last digits")), st.integers(0, 10**6))
def test_directions_are_ordered_as_in_rational_arithmetic(kind, seed):
    """All points around one of them as a single run: their order and which of them are equal."""
    rng = np.random.default_rng(seed)
    points = np.unique(power_of_two_scale(degenerate(kind, 12, rng))[0], axis=0)
    pivot = int(rng.integers(len(points)))
    exact = [tuple(map(Fraction, point)) for point in points.tolist()]
    away = [(x - exact[pivot][0], y - exact[pivot][1]) for x, y in exact]
    # A run spans a right angle at most.
    quadrant = [k for k, (dx, dy) in enumerate(away) if (dx > 0 and dy >= 0) or (dx < 0 and dy <= 0)]
    if not quadrant:
        return
    others = rng.permutation(quadrant)
    above = np.array([away[k] > (0, 0) for k in others])
    zeros = np.zeros(others.size, dtype=int)
    order, together = ExactTurns(points).order(zeros + pivot, others, above, zeros)
    # dy/dx rises with the direction from 0 to a right angle.
    slopes = [away[k][1] / away[k][0] for k in others[order]]
    assert slopes == sorted(slopes)
    assert together.tolist() == [a == b for a, b in itertools.pairwise(slopes)]


def test_scales_that_float64_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="within a factor of 2"):
        TurningLine(np.array([[1e308, 0.0], [5e-324, 1.0]]))
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(200, 2))
    s = np.where(points[:, 0] > 0, 1.0, -1.0)
    plain = fit_halfspaces(points, s, 2.0, rng)
    for scale in (2.0**1023, 2.0**-1000):
        scaled = fit_halfspaces(points * scale, s, 2.0, rng)
        assert scaled.lower_bound == plain.lower_bound and scaled.loss == plain.loss
        assert (scaled.predict(points * scale) == plain.predict(points)).all()
    assert np.isfinite(scaled.predict(np.full((1, 2), 1e308))).all()


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("kind", KINDS)
def test_bound_on_half_spaces_holds_and_closes_in_general_position(kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        points, r = degenerate(kind, 14, rng), rng.normal(size=14)
        r -= r.mean()
        best = largest_by_enumeration(points, r)
        found = largest_halfspace_sum(points, r, max_nodes=3000)
        assert found.upper >= best - 1e-12
        assert abs(r[points @ found.direction >= found.offset].sum()) == pytest.approx(found.value, abs=1e-12)
        if kind == "general":  # elsewhere rounded projections may part points that no line parts
            assert found.value <= best + 1e-12
            assert found.upper == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("q", (3, 4))
def test_bound_on_half_spaces_in_space(q):
    rng = np.random.default_rng(q)
    points, r = rng.normal(size=(12, q)), rng.normal(size=12)
    r -= r.mean()
    best = 0.0
    for chosen in itertools.combinations(range(12), q):  # planes through q points, each of them on either side
        normal = np.linalg.svd(np.diff(points[list(chosen)], axis=0))[2][-1]
        side = (points - points[chosen[0]]) @ normal > 0
        side[list(chosen)] = False
        for extra in itertools.product((False, True), repeat=q):
            side[list(chosen)] = extra
            best = max(best, abs(r[side].sum()))
    found = largest_halfspace_sum(points, r, max_nodes=30_000)
    assert found.upper == pytest.approx(best, rel=1e-9) and found.value == pytest.approx(best, rel=1e-9)
    early = largest_halfspace_sum(points, r, max_nodes=10)
    assert early.upper >= best - 1e-12


@pytest.mark.parametrize("kind", ["general", "grid", "one column is constant"])
def test_bins_bound_what_every_half_space_holds(monkeypatch, kind):
    """Bins err upwards, and every half-space with a normal in the box is below the bound."""
    rng = np.random.default_rng(4)
    points, r = rng.normal(size=(400, 3)), rng.normal(size=400)
    if kind == "grid":
        points = np.round(points)
    elif kind != "general":
        points[:, 1] = 1.0
    r -= r.mean()
    boxes = _halfplanes._Boxes(points, r)
    for size in (0.5, 0.1, 0.02):
        centres, halves = rng.uniform(-1, 1, size=(6, 3)), rng.uniform(0, size, size=(6, 3))
        monkeypatch.setattr(_halfplanes, "_COARSE", 0.0)
        binned = boxes.bound(centres, halves)[0]
        monkeypatch.setattr(_halfplanes, "_COARSE", np.inf)
        ordered = boxes.bound(centres, halves)[0]
        assert (binned >= ordered - 1e-9).all() and (binned <= ordered + 0.1 * np.abs(r).sum()).all()
        for box in range(6):
            normals = centres[box] + halves[box] * rng.uniform(-1, 1, size=(200, 3))
            held = max(best_offset((points * boxes.scale) @ normal, r)[1] for normal in normals)
            assert held <= binned[box]


@pytest.mark.slow
def test_certificate_in_five_dimensions():
    """2 000 rows of a ball: without bins the gap is .24."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(2000, 5))
    points *= rng.random((2000, 1)) ** 0.2 / np.linalg.norm(points, axis=1, keepdims=True)
    eta = np.sin(0.4 * points[:, 0])  # varies by .78
    s = np.where(rng.random(2000) < (1 + eta) / 2, 1.0, -1.0)
    auditor = FiniteAdversaryAuditor(total_variation=0.8, random_state=0).fit(points, s)
    assert 0.0 < auditor.duality_gap_ < 0.12
    assert 0.75 < auditor.loss_lower_bound_ < 1 - np.mean(eta**2)
    assert auditor.empirical_loss_ - auditor.duality_gap_ <= np.mean((s - eta) ** 2)


def test_half_space_search_stops_where_it_is_told():
    rng = np.random.default_rng(3)
    points, r = rng.normal(size=(300, 2)), rng.normal(size=300)
    r -= r.mean()
    exact = TurningLine(points).largest(r)[0]
    assert exact <= largest_halfspace_sum(points, r, enough=1.5 * exact).upper <= 1.5 * exact
    stopped = largest_halfspace_sum(points, r, refuted=0.5 * exact)
    assert stopped.value > 0.5 * exact and stopped.upper >= exact


@pytest.mark.parametrize("q", (2, 3))
def test_halfspace_certificate_is_below_every_member_of_the_class(q):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(400, q))
    slope = np.array([1.0, 0.5, 0.2])[:q]
    s = np.where(rng.random(400) < 0.5 * (1 + np.tanh(points @ slope)), 1.0, -1.0)
    fit = fit_halfspaces(points, s, 2.0, rng)
    assert fit.lower_bound <= fit.loss
    assert fit.loss - fit.lower_bound < {2: 0.002, 3: 0.1}[q]
    assert np.abs(fit.masses).sum() <= 2.0 + 1e-9
    np.testing.assert_allclose(fit.predict(points), fit.values, atol=1e-9)
    assert fit.loss == pytest.approx(np.mean((s - fit.values) ** 2))
    # tanh of a projection is a mixture of half-spaces with mass 2
    assert np.mean((s - np.tanh(points @ slope)) ** 2) >= fit.lower_bound


def test_columns_that_do_not_vary_cost_nothing():
    rng = np.random.default_rng(6)
    points, s = rng.normal(size=(300, 2)), rng.choice([-1.0, 1.0], size=300)
    plain = fit_halfspaces(points, s, 1.0, np.random.default_rng(0))
    wider = np.column_stack([np.zeros(300), points[:, 0], np.full(300, 7.5), points[:, 1]])
    fit = fit_halfspaces(wider, s, 1.0, np.random.default_rng(0))
    assert (fit.loss, fit.lower_bound) == (plain.loss, plain.lower_bound)
    wider[:, 2] = np.inf  # whatever it becomes
    np.testing.assert_array_equal(fit.predict(wider), plain.predict(points))


def test_certificate_of_tied_and_collinear_outputs_is_tight():
    # Own probability and largest probability: equal wherever the model is right.
    rng = np.random.default_rng(0)
    largest = np.round(rng.beta(2, 1, size=600), 2)
    own = np.where(rng.random(600) < 0.7, largest, np.round(largest * rng.random(600), 2))
    points = np.column_stack([own, largest])
    s = np.where(rng.random(600) < own, 1.0, -1.0)
    fit = fit_halfspaces(points, s, 2.0, rng)
    assert fit.loss - fit.lower_bound < 0.002


# -- tail bounds --------------------


def test_second_moment_that_bernstein_relies_on():
    for eta in np.linspace(-1, 1, 21):
        p = (1 + eta) / 2
        v = 1 - eta**2
        assert p * (1 - eta) ** 2 + (1 - p) * (1 + eta) ** 2 == pytest.approx(v, abs=1e-12)
        assert p * (1 - eta) ** 4 + (1 - p) * (1 + eta) ** 4 == pytest.approx(4 * v - 3 * v**2, abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.floats(0.0, 1.0), st.integers(2, 10**6), st.floats(0.5, 0.9999))
def test_bernstein_bound_inverts_its_tail(loss, n, confidence):
    bound = bernstein_lower_bound(loss, n, confidence)
    x = -np.log1p(-confidence) / n

    def upper(l):
        return l + 4 * x / 3 + np.sqrt((4 * x / 3) ** 2 + 8 * l * (1 - l) * x)

    assert 0.0 <= bound <= loss
    if bound > 0:
        assert upper(bound) == pytest.approx(loss, abs=1e-9)
        assert np.all(upper(np.linspace(0, bound, 50)) <= loss + 1e-9)
    assert hoeffding_lower_bound(loss, n, confidence) <= loss
    assert squared_loss_lower_bound(loss, n, confidence) >= bound


@pytest.mark.parametrize("p", [0.5, 0.45, 0.2, 0.03])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_tail_bounds_cover_a_binary_channel(p, loss):
    """The worst case of the bounds: |η| constant. Exact coverage from the binomial law, no simulation."""
    n, confidence = 400, 0.95
    k = np.arange(n + 1)  # how often S differs from its likelier value
    if loss == "squared":
        eta = 1 - 2 * p
        empirical = ((n - k) * (1 - eta) ** 2 + k * (1 + eta) ** 2) / n
        truth = 1 - eta**2
        bounds = np.array([squared_loss_lower_bound(min(r, 1.0), n, confidence) for r in empirical])
    else:
        empirical = (-(n - k) * np.log(1 - p) - k * np.log(p)) / n
        truth = binary_entropy(p)
        bounds = np.array([chernoff_entropy_lower_bound(r, n, confidence) for r in empirical])
    failure = binom.pmf(k, n, p)[bounds > truth + 1e-12].sum()
    assert failure <= 0.05
    if p < 0.4:
        assert failure > 1e-5  # and the bound is not empty talk


@settings(deadline=None, max_examples=60)
@given(st.floats(0.01, 0.99), st.lists(st.floats(0.0, 0.5), min_size=2, max_size=4))
def test_exponential_moment_of_the_log_loss_is_concave_in_the_entropy(lam, ps):
    g = lambda p: p ** (1 - lam) + (1 - p) ** (1 - lam)  # noqa: E731
    mean_entropy = np.mean([binary_entropy(p) for p in ps])
    worst = inverse_binary_entropy(mean_entropy)
    assert np.mean([g(p) for p in ps]) <= g(worst) + 1e-9


@given(st.floats(0.0, 0.5))
def test_inverse_entropy(p):
    assert inverse_binary_entropy(binary_entropy(p)) == pytest.approx(p, abs=1e-6)
    assert binary_entropy(p) >= 4 * p * (1 - p) * LN2 - 1e-12
    assert binary_entropy(p) <= LN2 * (4 * p * (1 - p)) ** (1 / np.log(4)) + 1e-12


# -- validity --------------------


def allowed(runs, level):
    """Most failures of probability ``level`` in ``runs`` a valid bound has but with probability 1e-6."""
    return binom.isf(1e-6, runs, level)


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("name", list(SCALAR_LAWS))
def test_certificate_never_exceeds_the_truth_scalar(name, loss):
    law, rng = SCALAR_LAWS[name], np.random.default_rng(17)
    truth = law.mse if loss == "squared" else law.entropy
    assumptions = [{"assumption": "total_variation", "total_variation": law.variation}]
    if law.monotone:
        assumptions.append({"assumption": "monotone"})
    runs, failures = 20, 0
    for _ in range(runs):
        t, s = law.sample(int(rng.choice([500, 1000, 2000])), rng)
        if np.unique(s).size < 2:
            continue
        for parameters in assumptions:
            auditor = FiniteAdversaryAuditor(loss=loss, confidence=0.95, **parameters).fit(t[:, None], s)
            failures += auditor.loss_lower_bound_ > truth + 1e-9
    assert failures <= allowed(runs * len(assumptions), 0.05)


def test_failure_rate_is_nominal_where_nothing_is_overfitted():
    """A two-valued T leaves no slack in the class: only the tail bound stands between R and the truth."""
    rng = np.random.default_rng(4)
    runs, failures, unprotected = 600, 0, 0
    for _ in range(runs):
        t = rng.integers(0, 2, size=500)
        s = np.where(rng.random(500) < np.where(t == 1, 0.7, 0.4), 1, -1)
        auditor = FiniteAdversaryAuditor(confidence=0.9).fit(t, s)
        truth = 1 - (0.4**2 + 0.2**2) / 2
        failures += auditor.loss_lower_bound_ > truth
        unprotected += auditor.empirical_loss_ > truth
    assert failures <= allowed(runs, 0.1)
    assert unprotected > 0.25 * runs


@pytest.mark.slow
def test_certificate_never_exceeds_the_truth_in_the_plane():
    rng = np.random.default_rng(23)
    runs, failures = 18, 0
    for run in range(runs):
        n = 500
        points = rng.uniform(-1, 1, size=(n, 2))
        slope = np.array([1.0, 0.6]) * (run % 3)
        big = rng.uniform(-1, 1, size=(200_000, 2))
        truth = 1 - np.mean(np.tanh(big @ slope) ** 2)
        s = np.where(rng.random(n) < 0.5 * (1 + np.tanh(points @ slope)), 1, -1)
        auditor = FiniteAdversaryAuditor(confidence=0.95, total_variation=2.0).fit(points, s)
        failures += auditor.loss_lower_bound_ > truth + 0.003
    assert failures <= allowed(runs, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5000, 20_000])
def test_certificate_never_exceeds_the_truth_large(n):
    rng = np.random.default_rng(29)
    runs, failures = 0, 0
    for law in SCALAR_LAWS.values():
        for _ in range(15):
            t, s = law.sample(n, rng)
            auditor = FiniteAdversaryAuditor(confidence=0.95, total_variation=law.variation).fit(t[:, None], s)
            failures += auditor.loss_lower_bound_ > law.mse + 1e-9
            runs += 1
    assert failures <= allowed(runs, 0.05)
