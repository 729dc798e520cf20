"""Per-user gradients: every fast path against a loop, and the sensitivity of what leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from skprivate.user_level._losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    OneVersusRestLoss,
    SmoothedHingeLoss,
    SquaredLoss,
    check_custom_loss,
)
from skprivate.user_level._problems import CustomProblem, GramProblem, LinearProblem, MeanProblem
from skprivate.user_level._users import UserGroups


class SquaredRows:
    lipschitz = 1.0
    smoothness = 1.0

    def gradient(self, X, y, coef):
        return (X @ coef - y)[:, None] * X


def make(seed, n_rows=60, n_features=3, n_users=12):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_users), rng.integers(n_users, size=n_rows - n_users)])
    return rng.normal(size=(n_rows, n_features)), rng.normal(size=n_rows), UserGroups(codes), codes


def by_hand(X, y, codes, loss, w, fit_intercept, alpha):
    Z = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    rows = loss.derivative(Z @ w, y)[:, None] * Z
    penalty = alpha * w
    if fit_intercept:
        penalty[-1] = 0.0
    return np.array([rows[codes == u].mean(axis=0) for u in range(codes.max() + 1)]) + penalty


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.7), LogisticLoss(), SmoothedHingeLoss()])
def test_linear_gradients_match_a_loop(loss, fit_intercept, alpha):
    X, y, groups, codes = make(0)
    y = np.sign(y)
    w = np.random.default_rng(1).normal(size=3 + fit_intercept)
    problem = LinearProblem(X, y, groups, loss, fit_intercept=fit_intercept, alpha=alpha)
    expected = by_hand(X, y, codes, loss, w, fit_intercept, alpha)
    np.testing.assert_allclose(problem.user_gradients(w), expected, atol=1e-12)
    norms = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(problem.gradient_norms(w), norms)
    for radius in (0.0, 0.4):
        sums = (expected / np.maximum(norms, radius)[:, None]).sum(axis=0)
        np.testing.assert_allclose(problem.contribution_sum(w, radius), sums, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_gram_and_custom_problems_agree_with_the_linear_one(alpha):
    X, y, groups, _ = make(2)
    w = np.random.default_rng(3).normal(size=4)
    options = {"fit_intercept": True, "alpha": alpha}
    expected = LinearProblem(X, y, groups, SquaredLoss(), **options).user_gradients(w)
    np.testing.assert_allclose(GramProblem(X, y, groups, **options).user_gradients(w), expected, atol=1e-12)
    custom = CustomProblem(X, y, groups, SquaredRows(), **options)
    np.testing.assert_allclose(custom.user_gradients(w), expected, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_a_user_needs_no_matrix_of_gradients(alpha, n_outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    if n_outputs == 1:
        y, loss = np.sign(rng.normal(size=40)), LogisticLoss()
    else:
        y, loss = np.eye(3)[rng.integers(3, size=40)], MultinomialLoss()
    w = rng.normal(size=6 * n_outputs)
    fast = LinearProblem(X, y, UserGroups(np.arange(40)), loss, fit_intercept=True, alpha=alpha)
    assert fast.groups.singletons
    expected = fast.user_gradients(w)
    norms = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(fast.gradient_norms(w), norms)
    sums = (expected / np.maximum(norms, 0.5)[:, None]).sum(axis=0)
    np.testing.assert_allclose(fast.contribution_sum(w, 0.5), sums, atol=1e-12)


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.7), LogisticLoss(), SmoothedHingeLoss()])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_derivatives_of_scalar_losses(loss, y):
    for f in np.linspace(-3, 3, 61) + 0.017:
        error = check_grad(
            lambda z: float(loss.value(z, np.array([y]))[0]),
            lambda z: loss.derivative(z, np.array([y])),
            np.array([f]),
        )
        assert error < 1e-6
    f = np.linspace(-3, 3, 2001)
    slope = np.diff(loss.derivative(f, np.full_like(f, y))) / np.diff(f)
    assert slope.max() <= loss.smoothness + 1e-9 and slope.min() >= -1e-12


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (MultinomialLoss(), np.array([[0.0, 1.0, 0.0]])),
        (OneVersusRestLoss(LogisticLoss()), np.array([[-1.0, 1.0, -1.0]])),
    ],
)
def test_derivatives_of_multiclass_losses(loss, y):
    rng = np.random.default_rng(0)
    for _ in range(20):
        error = check_grad(
            lambda z: float(loss.value(z[None], y)[0]),
            lambda z: loss.derivative(z[None], y)[0],
            rng.normal(size=3),
        )
        assert error < 1e-6


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.floats(0.0, 5.0),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 1e150, 1e308, np.inf, np.nan]),
)
def test_no_user_moves_the_sum_by_more_than_one(seed, radius, cap, extreme):
    """Whatever a user's rows are and however many, adding the user moves the sum by a vector of norm at most 1."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(5), rng.integers(5, size=10), np.full(rng.integers(1, 50), 5)])
    X = rng.normal(size=(len(codes), 2))
    y = rng.normal(size=len(codes))
    X[codes == 5] *= 1e5
    y[codes == 5] = extreme if np.isfinite(extreme) else 1.0
    w = rng.normal(size=3) * (1.0 if np.isfinite(extreme) else 1e307)
    sums = []
    for keep in (codes <= 5, codes < 5):
        groups = UserGroups(codes[keep], cap)
        problem = LinearProblem(X[keep], y[keep], groups, SquaredLoss(), fit_intercept=True, alpha=0.0)
        with np.errstate(all="ignore"):
            sums.append(problem.contribution_sum(w, radius))
    assert np.isfinite(sums).all()
    assert np.linalg.norm(sums[0] - sums[1]) <= 1.0 + 1e-9


def test_weights_are_capped():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    groups = UserGroups(np.array([0] * 100 + [1]), weight_cap=4)
    total = MeanProblem(vectors, groups).contribution_sum(np.zeros(2), 0.0)
    np.testing.assert_allclose(total, [-1.0, -0.25])


def test_custom_losses_are_checked():
    with pytest.raises(TypeError, match=r"missing: gradient, lipschitz, smoothness"):
        check_custom_loss(object())
    bad = SquaredRows()
    bad.smoothness = -1.0
    with pytest.raises(ValueError, match=r"loss\.smoothness must be a positive"):
        check_custom_loss(bad)

    class Wrong(SquaredRows):
        def gradient(self, X, y, coef):
            return X[:, :1]

    X, y, groups, _ = make(0)
    problem = CustomProblem(X, y, groups, Wrong(), fit_intercept=True, alpha=0.0)
    with pytest.raises(ValueError, match="must return an array of shape"):
        problem.user_gradients(np.zeros(4))
