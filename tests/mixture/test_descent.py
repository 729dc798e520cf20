"""The descent: exact contributions of single rows, plans from public numbers, and what it finds."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from helpers.families import build_problem
from scipy.linalg import null_space
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skprivate.mixture import PPMHalfspaceClassifier
from skprivate.mixture._descent import (
    Coordinates,
    contribution_sum,
    make_descent,
    number_of_private_rows,
    plan_descent,
    principal_coordinates,
    private_rows,
    public_gradient,
)
from skprivate.mixture._ppm_halfspace_classifier import make_mechanism
from skprivate.mixture._problem import ErrorWeights, MixtureRows
from skprivate.mixture._roles import read_problem
from skprivate.privacy import Adjacency, PrivacyLedger, open_release
from skprivate.utils.estimator_checks import check_mechanism

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
PLAIN = ErrorWeights(1, 1, 1)
BOUND = 2**30


def make_rows(seed=0, n_public=300, n_private=200, d=4):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(n_public, d)), rng.normal(size=(n_private, d)) + 1.0])
    X[:, 0] = X[:, 0] > 0.5  # two values
    return X, np.arange(len(X)) >= n_public


def make_problem(X, private, label=None, weights=PLAIN, size_is_public=True):
    return build_problem(
        X,
        private=private,
        has_private_label=private if label is None else label,
        weights=weights,
        size_is_public=size_is_public,
    )


def test_coordinates_are_uncorrelated_on_public_rows():
    X, private = make_rows()
    problem = make_problem(X, private)
    coordinates, shares = principal_coordinates(problem)
    values = coordinates.clipped(problem.public, 1e9)
    np.testing.assert_allclose(np.cov(values[:-1], bias=True), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(values[:-1].mean(axis=1), 0.0, atol=1e-9)
    assert (values[-1] == 1.0).all()
    assert shares.sum() == pytest.approx(1.0) and (np.diff(shares) <= 0).all()
    by_blas, before, after = coordinates.of_public(problem.public, 1.0)
    np.testing.assert_allclose(by_blas, coordinates.clipped(problem.public, 1.0), atol=1e-12)
    norms = np.linalg.norm(by_blas[:-1], axis=0)
    assert norms.max() <= 1.0 + 1e-12
    assert before == pytest.approx(4 * 300) and after == pytest.approx((norms**2).sum())


def test_coordinates_do_not_see_private_rows():
    X, private = make_rows()
    other = X.copy()
    other[private] = 1e9
    (one, first), (two, second) = (principal_coordinates(make_problem(rows, private)) for rows in (X, other))
    assert np.array_equal(one.matrix, two.matrix) and np.array_equal(first, second)


def test_rare_categories_have_little_variance():
    """Two-valued columns count by their range, others by two deviations: 1/4 each."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=10_000) * 1e6, rng.random(10_000) < 0.01])
    _, shares = principal_coordinates(make_problem(X, np.zeros(10_000, dtype=bool), size_is_public=False))
    rare = X[:, 1].var()
    assert shares[1] == pytest.approx(rare / (0.25 + rare), rel=1e-3)


WORST = [0.0, 5e-324, -5e-324, 1e-310, 1e-160, 1.0, -1.0, 1e160, -1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("weights", [PLAIN, ErrorWeights(2, 7, 7), ErrorWeights(1000, 1, 1000)])
def test_no_row_adds_more_than_the_bound(weights):
    """Whatever a private row holds, of either label, at any iterate: an integer vector of norm at most 2³⁰."""
    X, private = make_rows()
    problem = make_problem(X, private)
    coordinates, _ = principal_coordinates(problem)
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.choice(WORST, size=(300, 4)), rng.normal(size=(100, 4)) * 1e3])
    label = rng.random(400) < 0.5 if weights.sensitivity > weights.private_label else np.ones(400, dtype=bool)
    options = {"frame": problem.frame, "coordinates": coordinates, "radius": 1.3, "weights": weights}
    largest = 0
    for scale in (0.0, 1.0, 1e6, 1e300):
        w = rng.normal(size=5) * scale
        for x, has_private_label in zip(rows, label, strict=True):
            one = MixtureRows(x[None], np.array([True]), np.array([has_private_label]))
            parts = contribution_sum(private_rows(one, **options), w, 0.5 * math.sqrt(1 + 1.3**2))
            square = sum(int(part) ** 2 for part in parts)
            assert square <= BOUND**2
            largest = max(largest, square)
    assert largest > 0.99 * BOUND**2


def test_contributions_add_up_whatever_the_order_and_the_blocks(monkeypatch):
    X, private = make_rows(n_public=50, n_private=701)
    problem = make_problem(X, private)
    coordinates, _ = principal_coordinates(problem)
    options = {"frame": problem.frame, "coordinates": coordinates, "radius": 1.0, "weights": PLAIN}
    w = np.array([0.3, -1.0, 0.2, 0.5, 0.1])

    def total(order):
        rows = MixtureRows(X[order], private[order], private[order])
        return contribution_sum(private_rows(rows, **options), w, 0.7)

    whole = total(np.arange(751))
    monkeypatch.setattr("skprivate.mixture._descent.ROWS", 17)
    assert np.array_equal(total(np.random.default_rng(0).permutation(751)), whole)
    assert np.array_equal(sum(total(np.array([row])) for row in range(751)), whole)


def test_contributions_are_gradients_of_the_logistic_loss():
    X, private = make_rows()
    problem = make_problem(X, private, weights=ErrorWeights(1, 3, 3))
    coordinates, _ = principal_coordinates(problem)
    options = {"frame": problem.frame, "coordinates": coordinates, "radius": 1e6, "weights": problem.weights}
    rows = private_rows(MixtureRows(X, private, private), **options)
    w = np.array([0.3, -1.0, 0.2, 0.5, 0.1])
    found = contribution_sum(rows, w, 100.0) * 100.0 / BOUND
    values = coordinates.clipped(problem.frame.scaled(X[private]), 1e6)
    np.testing.assert_allclose(found, -values @ expit(-(w @ values)), rtol=1e-5, atol=1e-3)
    public = coordinates.clipped(problem.public, 1e6)
    expected = public @ expit(w @ public)
    np.testing.assert_allclose(public_gradient([(public, -1.0, 1)], w), expected, rtol=1e-12)


@pytest.mark.parametrize("size_is_public", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_plans_keep_to_the_budget(epsilon, size_is_public):
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    sizes = []
    for n_private in (1, 30, 1000, 10**6):
        plan = plan_descent(shares, n_private, epsilon=epsilon, delta=1e-6, size_is_public=size_is_public)
        sizes.append(plan.n_coordinates)
        assert 4 <= plan.n_steps <= 64 and 0.5 <= plan.clip <= 4.0
        assert (plan.count_multiplier is None) == size_is_public
    assert sizes == sorted(sizes) and sizes[0] >= 1 and sizes[-1] == 4
    noise = [plan_descent(shares, 1000, epsilon=e, delta=1e-6, size_is_public=True).loss for e in (0.1, 1, 10)]
    assert noise == sorted(noise, reverse=True)
    assert plan_descent(np.zeros(0), 10, epsilon=1.0, delta=1e-6, size_is_public=True).n_coordinates == 0


@pytest.mark.parametrize("size_is_public", [True, False])
@pytest.mark.parametrize(("n_public", "n_private"), [(0, 5), (1, 5), (2, 5), (60, 0), (60, 40)])
def test_a_descent_draws_its_events_whatever_the_rows(n_public, n_private, size_is_public):
    if size_is_public and not n_private:
        pytest.skip("replace-one needs a private row")
    X, private = make_rows(n_public=n_public, n_private=n_private)
    problem = make_problem(X, private, size_is_public=size_is_public)
    mechanism = make_descent(problem, 1.0, 1e-6)
    adjacency = "replace-one" if size_is_public else "add-remove"
    with open_release(
        epsilon=1.0, delta=1e-6, unit="private row", adjacency=adjacency, random_state=0, plan=mechanism.events
    ) as release:
        hypothesis, records = mechanism.run(problem, release)
    guarantee = release.close()
    assert 0.9 < guarantee.epsilon <= 1.0 and guarantee.delta == 1e-6
    assert records[0].name == "descent" and hypothesis.normals.shape[1] == 4
    assert hypothesis.all_private or len(hypothesis.intercepts) <= 1
    if not n_public:
        assert hypothesis.all_private


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_limit_is_logistic_regression(adjacency):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) @ np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 9.0]]) + 50.0
    y = (rng.random(4000) < expit(X @ [0.6, -0.5, 0.1] - 10.0)).astype(int)
    model = PPMHalfspaceClassifier(
        1e5, delta=1e-6, strategy="gradient", private_label=1, adjacency=adjacency, classes=[0, 1], random_state=0
    ).fit(X, y)
    exact = LogisticRegression(C=np.inf).fit(X, y)
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.97
    coefficients = -model.halfspaces_.coefficients[0]
    cosine = coefficients @ exact.coef_[0] / np.linalg.norm(coefficients) / np.linalg.norm(exact.coef_)
    assert cosine > 0.995


def test_private_rows_off_the_span_do_not_matter():
    X, private = make_rows()
    X = np.column_stack([X, np.zeros(len(X))])
    X[-50:, 4] = np.random.default_rng(0).normal(size=50)
    options = {"delta": 1e-6, "strategy": "gradient", "private_label": 1, "random_state": 0}
    model = PPMHalfspaceClassifier(**options).fit(X, private.astype(int))
    other = X.copy()
    other[-50:, :4] *= 1e9
    again = PPMHalfspaceClassifier(**options).fit(other, private.astype(int))
    assert np.array_equal(model.halfspaces_.coefficients, again.halfspaces_.coefficients)
    assert (model.predict(X[-50:]) == 1).all()


def test_a_mask_lets_public_rows_carry_either_label():
    """Public rows of the private label pull as the others do."""
    X, label = make_rows(n_public=400, n_private=400)
    X[label, 1] += 3.0
    private = label & (np.arange(800) % 40 == 0)
    model = PPMHalfspaceClassifier(0.5, delta=1e-6, strategy="gradient", private_label=1, random_state=0)
    model.fit(X, label.astype(int), private=private)
    assert np.mean(model.predict(X) == label) > 0.9


def test_auto_descends_only_with_delta_where_public_rows_are_wide():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [3000, 1500])
    wide = rng.normal(size=(4500, 30)) + 0.2 * y[:, None]
    narrow = wide[:, :1] + 0.01 * wide
    options = {"private_label": 1, "random_state": 0, "max_candidates": 1000}

    def chosen(X, **parameters):
        return PPMHalfspaceClassifier(**options, **parameters).fit(X, y).strategy_

    assert chosen(wide, delta=1e-6) == "gradient"
    assert chosen(wide) == "greedy"
    assert chosen(narrow, delta=1e-6) == "greedy"
    assert chosen(wide, delta=1e-6, epsilon=0.001) == "greedy"
    assert chosen(wide, delta=1e-6, max_halfspaces=25) == "greedy"


def test_auto_descends_in_many_rare_categories():
    """A descent sees a part of them only, but a search sees less."""
    rng = np.random.default_rng(0)
    codes = rng.geometric(0.2, size=(3000, 12)).clip(1, 8)
    X = (codes[:, :, None] == np.arange(1, 9)).reshape(3000, -1).astype(float)
    y = (rng.random(3000) < 0.1).astype(int)
    model = PPMHalfspaceClassifier(
        1.0, delta=1e-6, private_label=1, class_weight="balanced", max_candidates=1000, random_state=0
    )
    assert model.fit(X, y).strategy_ == "gradient"


def test_the_guarantee_and_what_a_descent_does_not_have():
    X, private = make_rows()
    y = private.astype(int)
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5, unit="private row")
    with pytest.raises(ValueError, match="needs delta > 0, got delta=0.0"):
        PPMHalfspaceClassifier(strategy="gradient", private_label=1, ledger=ledger).fit(X, y)
    assert not ledger.entries()
    model = PPMHalfspaceClassifier(
        2.0, delta=1e-6, strategy="gradient", private_label=1, calibration_fraction=0.3, random_state=0
    ).fit(X, y)
    guarantee = model.privacy_guarantee_
    assert 1.9 < guarantee.epsilon <= 2.0 and guarantee.delta == 1e-6
    assert "Lemma" not in guarantee.theorem
    assert model.n_hypotheses_ == 0 and model.log_n_hypotheses_ == -math.inf
    assert model.predict_proba(X).shape == (500, 2)
    with pytest.raises(ValueError, match="no bound"):
        model.utility_bound()


def test_the_mechanism_keeps_its_contract():
    X, private = make_rows(n_public=60, n_private=40)
    problem = make_problem(X, private)
    other = X.copy()
    other[-1] = [1e9, -1e9, 0.0, 5e-324]

    def neighbours(data):
        for row, values in ((99, 0.0), (60, 1.7e308), (75, 5e-324), (80, -1e9)):
            changed = data.rows.block.X.copy()
            changed[row] = values
            yield make_problem(changed, private)

    check_mechanism(
        make_descent(problem, 1.0, 1e-6),
        [problem, make_problem(other, private)],
        neighbours=neighbours,
        unit="private row",
    )
    assert problem.rows.sum(partial(number_of_private_rows))[0] == 40
    assert isinstance(make_descent(problem, 1.0, 1e-6).coordinates, Coordinates)


def test_the_mechanism_keeps_its_contract_where_the_number_of_private_rows_is_not_public():
    """One private row more: all that is drawn is drawn, and the result follows from what was released."""
    X, private = make_rows(n_public=60, n_private=40)
    problem = make_problem(X, private, size_is_public=False)

    def neighbours(data):
        for position, value in ((0, 0.0), (70, 1.7e308), (100, -1e9)):
            more = np.insert(X, position, value, axis=0)
            yield make_problem(more, np.insert(private, position, True), size_is_public=False)
        yield make_problem(X[:-1], private[:-1], size_is_public=False)

    mechanism = make_descent(problem, 1.0, 1e-6)
    for other in neighbours(problem):
        assert make_descent(other, 1.0, 1e-6).plan == mechanism.plan
    check_mechanism(mechanism, [problem], neighbours=neighbours, unit="private row", adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_whole_fit_keeps_the_contract_of_its_mechanism(adjacency, masked):
    """With probabilities, under both adjacencies: a neighbour may change the label of a row that a mask protects."""
    X, private = make_rows(n_public=60, n_private=40)
    label = private.copy()
    if masked:
        label[[3, 8, 63, 71]] ^= True
    model = PPMHalfspaceClassifier(
        1.0,
        delta=1e-6,
        strategy="gradient",
        private_label=1,
        calibration_fraction=0.3,
        adjacency=adjacency,
        classes=[0, 1],
        random_state=0,
    )

    def read(X, label, private):
        return read_problem(model, X, label.astype(int), private if masked else None)

    def neighbours(data):
        for row, values in ((99, 0.0), (60, 1.7e308), (75, -1e9)):
            if adjacency == "replace-one":
                x, y = X.copy(), label.copy()
                x[row], y[row] = values, masked ^ label[row]
                yield read(x, y, private)[0]
            else:
                y = np.insert(label, row, not masked or row == 75)
                yield read(np.insert(X, row, values, axis=0), y, np.insert(private, row, True))[0]

    problem, roles = read(X, label, private)
    _, mechanism = make_mechanism(model, problem, roles)
    check_mechanism(mechanism, [problem], neighbours=neighbours, unit="private row", adjacency=adjacency)


def test_many_coordinates_round_the_same_wherever_a_row_stands():
    """At iterates where nothing but rounding is left of a row's logit."""
    X, private = make_rows(n_public=200, n_private=30, d=40)
    problem = make_problem(X, private)
    coordinates, _ = principal_coordinates(problem)
    options = {"frame": problem.frame, "coordinates": coordinates, "radius": 3.0, "weights": PLAIN}
    values = private_rows(MixtureRows(X, private, private), **options).values
    w = null_space(values.T)[:, 0] * 1e17
    assert np.abs(values.T @ w).max() < 1e4

    def total(order):
        rows = MixtureRows(X[order], private[order], private[order])
        return contribution_sum(private_rows(rows, **options), w, 1.5)

    whole = total(np.arange(230))
    assert np.array_equal(sum(total(np.array([row])) for row in range(230)), whole)
    assert np.array_equal(sum(total(np.arange(k, 230, 7)) for k in range(7)), whole)


def test_no_floating_point_flag_tells_of_a_private_row():
    X, private = make_rows()
    X[:, 1] = np.where(np.arange(len(X)) % 2, 2.0, -2.0)  # about 0, where small numbers stay small
    problem = make_problem(X, private)
    assert problem.frame.center[1] == 0.0
    coordinates, _ = principal_coordinates(problem)
    rows = np.random.default_rng(1).choice(WORST, size=(300, 4))
    options = {"frame": problem.frame, "coordinates": coordinates, "radius": 1.3, "weights": PLAIN}
    marks = np.ones(300, dtype=bool)
    with np.errstate(all="raise"):
        values = private_rows(MixtureRows(rows, marks, marks), **options)
        for scale in (0.0, 5e-324, 1.0, 1e308):
            contribution_sum(values, np.array([1.0, -1.0, 1.0, 1.0, -1.0]) * scale, 0.8)
