"""Per-user gradients against a loop, and derivatives of losses against their values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.every import every
from scipy.optimize import check_grad
from scipy.special import log_softmax

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import CONTRIBUTION_STEP, PrivacyLedger
from skprivate.user_level._losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    PinballLoss,
    SmoothedHingeLoss,
    SquaredLoss,
    check_custom_loss,
    mean_curvature,
)
from skprivate.user_level._problems import MeanProblem, Objective, UserData, UserGroups


class SquaredRows:
    def gradient(self, X, y, coef):
        return (X @ coef - y)[:, None] * X


def huber(residual, threshold=0.7):
    small = np.minimum(np.abs(residual), threshold)
    return small * (np.abs(residual) - 0.5 * small)


def smoothed_hinge(margin, width=0.5):
    slack = 1.0 - margin + 0.5 * width
    small = np.clip(slack, 0.0, width)
    return small * (slack - 0.5 * small) / width


#: Each loss with its value, which the package does not need.
VALUES = {
    SquaredLoss(): lambda f, y: 0.5 * (f - y) ** 2,
    HuberLoss(0.7): lambda f, y: huber(f - y),
    PinballLoss(0.3, 0.7): lambda f, y: np.where(f < y, 0.3 * (y - f), 0.7 * (f - y)),
    PinballLoss(1.0, 1.0): lambda f, y: np.abs(f - y),
    LogisticLoss(): lambda f, y: np.logaddexp(0.0, -y * f),
    SmoothedHingeLoss(): lambda f, y: smoothed_hinge(y * f),
}
MULTICLASS = {
    MultinomialLoss(): (lambda f, y: -(log_softmax(f) * y).sum(), np.array([0.0, 1.0, 0.0])),
    LogisticLoss(): (lambda f, y: np.logaddexp(0.0, -y * f).sum(), np.array([-1.0, 1.0, -1.0])),
}


def make(seed, n_rows=60, n_features=3, n_users=12):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_users), rng.integers(n_users, size=n_rows - n_users)])
    return rng.normal(size=(n_rows, n_features)), rng.normal(size=n_rows), UserGroups(codes), codes


def problem_of(X, y, groups, loss, *, fit_intercept=True, alpha=0.0):
    n_outputs = 1 if y.ndim == 1 else y.shape[1]
    data = UserData(X, y, groups, np.arange(groups.n_users))
    return Objective(loss, X.shape[1], n_outputs, fit_intercept, alpha).problem(data)


def rounded(X, codes, fit_intercept):
    """Rows with 15 bits below the largest entry of their user."""
    Z = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    peak = np.array([np.abs(Z[codes == u]).max() for u in range(codes.max() + 1)])[codes]
    unit = 2.0 ** (np.floor(np.log2(peak)) + 1 - 15)[:, None]
    return np.minimum(np.rint(Z / unit), 2**15 - 1) * unit


def by_hand(Z, y, codes, loss, w):
    targets = y.reshape(len(y), -1)
    coef = w.reshape(targets.shape[1], -1)
    slopes = loss.derivative(np.ascontiguousarray((Z @ coef.T).T), np.ascontiguousarray(targets.T))
    rows = np.concatenate([slope[:, None] * Z for slope in slopes], axis=1)
    return np.array([rows[codes == u].mean(axis=0) for u in range(codes.max() + 1)])


@pytest.mark.parametrize("fit_intercept", [True, False])
@every("users", ["one row", "few rows", "mixed", "many rows"])
@pytest.mark.parametrize("loss", [*VALUES, MultinomialLoss(), SquaredRows()])
def test_gradients_match_a_loop(loss, users, fit_intercept):
    X, y, _, codes = make(0)
    if users == "one row":
        codes = np.random.default_rng(5).permutation(60)
    if users == "mixed":
        codes = np.where(np.arange(60) % 3 == 0, 0, codes)
    if users == "many rows":
        codes = np.arange(60) % 3
    y = np.sign(y) if not isinstance(loss, MultinomialLoss) else np.eye(3)[(y > 0) + 1 * (y > 1)]
    groups = UserGroups(codes)
    w = np.random.default_rng(1).normal(size=(1 if y.ndim == 1 else 3) * (3 + fit_intercept))
    problem = problem_of(X, y, groups, loss, fit_intercept=fit_intercept)
    if isinstance(loss, SquaredRows):
        plain, Z = SquaredLoss(), np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    else:
        plain, Z = loss, rounded(X, codes, fit_intercept)
    expected = by_hand(Z, y, codes, plain, w)
    np.testing.assert_allclose(problem.user_gradients(w), expected, rtol=1e-6, atol=1e-7)
    norms = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(problem.gradient_norms(w), norms, rtol=1e-6, atol=1e-7)
    for radius in (0.0, 0.4):
        sums = (expected / np.maximum(norms, max(radius, 1e-300))[:, None]).sum(axis=0)
        found = problem.contribution_sum(w, radius)
        assert found.dtype == np.int64
        # The factor of a user's only row is rounded.
        np.testing.assert_allclose(found * CONTRIBUTION_STEP, sums, atol=groups.n_users * 2.0**-14)


@pytest.mark.parametrize("loss", VALUES)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_derivatives_of_scalar_losses(loss, y):
    target = np.array([[y]])
    for f in np.linspace(-3, 3, 61) + 0.017:
        error = check_grad(
            lambda z: float(VALUES[loss](z[0], y)), lambda z: loss.derivative(z[None], target)[0], np.array([f])
        )
        assert error < 1e-6
    f = np.linspace(-3, 3, 2001)
    slope = np.diff(loss.derivative(f[None], np.full((1, 2001), y))[0]) / np.diff(f)
    assert slope.min() >= -1e-12


@pytest.mark.parametrize("n_outputs", [1, 3, 5])
def test_curvature_at_the_origin_is_that_of_the_loss(n_outputs):
    loss = LogisticLoss() if n_outputs == 1 else MultinomialLoss()
    scores, targets = np.zeros((n_outputs, 2)), np.zeros((n_outputs, 2))
    scores[0] = -1e-6, 1e-6
    targets[-1] = 1.0
    slope = np.diff(loss.derivative(scores, targets)[0]) / 2e-6
    assert slope == pytest.approx(2.0 * mean_curvature(loss, n_outputs), rel=1e-6)


def test_logistic_derivatives_are_the_quotient_to_the_last_bit():
    f = np.random.default_rng(0).normal(scale=100.0, size=(1, 999))
    f[0, :4] = 0.0, -0.0, 1e4, -1e4
    y = np.where(np.arange(999) % 2, 1.0, -1.0)[None]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(LogisticLoss().derivative(f, y), -y / (1.0 + np.exp(y * f)))


@pytest.mark.parametrize("loss", MULTICLASS)
def test_derivatives_of_multiclass_losses(loss):
    value, y = MULTICLASS[loss]
    rng = np.random.default_rng(0)
    for _ in range(20):
        error = check_grad(
            lambda z: float(value(z, y)), lambda z: loss.derivative(z[:, None], y[:, None])[:, 0], rng.normal(size=3)
        )
        assert error < 1e-6


def test_weights_are_capped():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    groups = UserGroups(np.array([0] * 100 + [1]), weight_cap=4)
    total = MeanProblem(vectors, groups).contribution_sum(np.zeros(2), 0.0)
    np.testing.assert_allclose(total * CONTRIBUTION_STEP, [-1.0, -0.25], rtol=1e-8)


def test_custom_losses_are_checked():
    check_custom_loss(SquaredRows(), 4, (1.0, 2.0))
    bad = SquaredRows()
    for found in (np.ones(2), np.full((2, 4), np.nan), np.full((2, 4), "1")):
        bad.gradient = lambda X, y, coef, found=found: found
        with pytest.raises(ValueError, match=r"must return finite numbers of shape .* = \(2, 4\)"):
            check_custom_loss(bad, 4, (1.0, 2.0))


def without_sign(rows):
    if (rows[:, 0] < 0).any():
        raise ValueError(f"negative: {rows[:, 0]}")
    return rows


@pytest.mark.parametrize(
    ("gradient", "got"),
    [
        (lambda rows: rows[:, :1], r"float64 \(2, 1\)"),
        (lambda rows: rows[0], r"float64 \(4,\)"),
        (lambda rows: None, r"object \(\)"),
        (lambda rows: rows.astype(str), r"<U\d+ \(2, 4\)"),
        (lambda rows: rows + 1j, r"complex128 \(2, 4\)"),
        (lambda rows: rows * np.nan, "NaN or infinity"),
        (lambda rows: rows * np.inf, "NaN or infinity"),
    ],
)
def test_a_gradient_is_asked_for_made_up_rows_before_anything_is_paid_for(gradient, got):
    class Wrong(SquaredRows):
        def gradient(self, X, y, coef):
            return gradient(X)

    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    for model in (UserLevelSGDRegressor, UserLevelSGDClassifier):
        with pytest.raises(ValueError, match=rf"loss\.gradient must return finite numbers .*, got {got}\."):
            model(loss=Wrong(), ledger=ledger).fit(np.ones((6, 3)), np.arange(6) % 2)
    assert not ledger.entries()


@pytest.mark.parametrize("shape", ["raises", "too few", "no numbers"])
def test_whoever_has_rows_for_which_a_loss_fails_counts_for_nothing_and_nothing_is_said(shape):
    class Fails(SquaredRows):
        def gradient(self, X, y, coef):
            rows = X * (sum(X[:, j] * coef[j] for j in range(X.shape[1])) - y)[:, None]
            if shape == "raises":
                return without_sign(X) * 0 + rows
            if shape == "too few":
                return rows[X[:, 0] >= 0]
            warnings.warn(f"seen {X[0]}", stacklevel=1)
            return np.where(X[:, :1] < 0, np.nan, rows)

    rng = np.random.default_rng(0)
    X, y, ids = np.abs(rng.normal(size=(40, 3))), rng.normal(size=40), np.arange(40) // 2
    groups, w = UserGroups(ids), rng.normal(size=4)
    expected = problem_of(X, y, groups, Fails()).contribution_sum(w, 1.0)
    X[6, 0] *= -1.0  # of the fourth user
    others = np.delete(np.arange(40), [6, 7])
    without = problem_of(X[others], y[others], UserGroups(np.arange(38) // 2), Fails()).contribution_sum(w, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = problem_of(X, y, groups, Fails()).contribution_sum(w, 1.0)
    np.testing.assert_array_equal(found, without)
    assert (found != expected).any()


@pytest.mark.slow
@pytest.mark.parametrize("n_outputs", [1, 40])
def test_the_bits_of_rows_coefficients_and_factors_suffice(n_outputs):
    """The longest rows, coefficients and slopes: scores and sums are those of Python's integers, norms at most 2³⁰."""
    rng = np.random.default_rng(0)
    n_rows, width = 40, 3000
    X = np.where(rng.random((n_rows, width)) < 0.5, -1.0, 1.0) * (1.0 - 2.0**-16)
    X[1::2] *= rng.random((n_rows // 2, width))
    loss = LogisticLoss() if n_outputs == 1 else MultinomialLoss()
    y = np.ones(n_rows) if n_outputs == 1 else np.eye(n_outputs)[np.arange(n_rows) % n_outputs]
    w = np.where(rng.random(n_outputs * width) < 0.5, -1.0, 1.0) * (1.0 - 2.0**-30)
    problem = problem_of(X, y, UserGroups(np.arange(n_rows)), loss, fit_intercept=False)
    rows = problem.rows.astype(object)
    assert abs(rows).max() <= 2**15
    bits = 53 - 1 - 15 - width.bit_length()
    whole = np.rint(w * 2.0**bits).astype(object).reshape(n_outputs, -1)
    exact = (whole @ rows.T).astype(float) * problem.units * 2.0**-bits
    target = np.ascontiguousarray(y.reshape(n_rows, -1).T)
    slopes, _ = problem._slopes(w, slice(0, n_rows))
    np.testing.assert_array_equal(slopes, loss.derivative(exact, target))
    total = problem.contribution_sum(w, 0.0)
    rest = total.astype(object)
    for i in range(n_rows):
        alone = problem_of(X[[i]], y[[i]], UserGroups(np.zeros(1, int)), loss, fit_intercept=False)
        own = alone.contribution_sum(w, 0.0)
        assert sum(int(entry) ** 2 for entry in own) <= 4**30
        rest -= own.astype(object)
    assert not rest.any()


@every("radius", [0.0, 1e-300, 1e-170])
@every("size", [1e-250, 1.5e-162, 1e-161, 1e-150])
@pytest.mark.parametrize("n_outputs", [2, 1000])
def test_slopes_whose_squares_underflow_count_for_no_more_than_others(n_outputs, size, radius):
    y = np.full((3, n_outputs), size)
    y[0, 0] *= 1.15
    y[2] = 1.0
    total = np.zeros(n_outputs, dtype=object)
    for rows in ([0], [1], [2]):
        problem = problem_of(np.ones((1, 1)), y[rows], UserGroups(np.zeros(1, int)), SquaredLoss(), fit_intercept=False)
        own = problem.contribution_sum(np.zeros(n_outputs), radius)
        norm = np.sqrt(float(sum(int(entry) ** 2 for entry in own))) * CONTRIBUTION_STEP
        assert sum(int(entry) ** 2 for entry in own) <= 4**30
        length = np.linalg.norm(y[rows] / y[rows].max()) * y[rows].max()
        assert norm == pytest.approx(length / max(length, radius), abs=1e-3)  # factors are rounded
        assert problem.gradient_norms(np.zeros(n_outputs)) == pytest.approx([length], rel=1e-9, abs=0.0)
        total += own.astype(object)
    together = problem_of(np.ones((3, 1)), y, UserGroups(np.arange(3)), SquaredLoss(), fit_intercept=False)
    np.testing.assert_array_equal(together.contribution_sum(np.zeros(n_outputs), radius).astype(object), total)


def test_a_row_of_any_size_that_is_weighted_down_keeps_its_norm():
    for exponent in (0, 520, 540, 600, 990):
        X, y = np.full((1, 1), 2.0**exponent), np.eye(3)[[0]]
        data = UserData(X, y, UserGroups(np.zeros(1, int)), np.arange(1))
        problem = Objective(MultinomialLoss(), 1, 3, False, max_norm=10.0).problem(data)
        own = problem.contribution_sum(np.zeros(3), 0.5)
        assert sum(int(entry) ** 2 for entry in own) <= 4**30
