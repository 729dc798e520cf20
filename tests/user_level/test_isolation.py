"""What one user contributes is bounded, and does not depend on anybody else, to the last bit.

A sum over users has the sensitivity that is stated for it only if exchanging one user leaves what all others
contribute as it was. So: the sum over any users equals, as integers, the sum of what each contributes *alone*,
whatever the values, the order, the numbers of rows and the size of blocks; and what each contributes alone is an
integer vector of norm at most 2³⁰.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from helpers.every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.user_level import TooFewUsersWarning, UnscaledFeaturesWarning
from skprivate.user_level._losses import (
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    PinballLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)
from skprivate.user_level._problems import MeanProblem, Objective, UserData, UserGroups, user_magnitudes

UNIT = 2**30
#: Rows whose gradient at the origin is a rounding error, of either sign according to the order of operations.
ROUNDING = (
    [0.7384246619250295, 0.5405353283126229, 0.7879376091567507, 0.538545852255305, 0.6510767178748567],
    [1.1912538387920154e24, 1.093256663821938e24, 1.0110522076219652e24, 1.0803877539875164e24, -4.375950464223435e24],
)


class RowwiseSquares:
    """A custom loss that keeps its promise: every row by itself, column by column."""

    def gradient(self, X, y, coef):
        residual = -y
        for column, weight in zip(np.ascontiguousarray(X.T), coef, strict=True):
            residual = residual + column * weight
        return residual[:, None] * X


LOSSES = {
    "squared": (SquaredLoss(), 1),
    "huber": (HuberLoss(0.7), 1),
    "pinball": (PinballLoss(0.3, 0.7), 1),
    "logistic": (LogisticLoss(), 1),
    "hinge": (SmoothedHingeLoss(), 1),
    "multinomial": (MultinomialLoss(), 3),
    "one against the rest": (LogisticLoss(), 3),
    "custom": (RowwiseSquares(), 1),
    "mean": (None, 1),
}
#: Where float64 goes wrong: subnormal numbers, squares that underflow or overflow, sums that overflow, ties.
VALUES = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 5e-324, 1e-310, 1.5e-162, 2.3e-162, 1e-300, 1e154, -1e160, 1e300, 1.7e308]
values = st.one_of(st.sampled_from(VALUES), st.floats(-1e3, 1e3, allow_subnormal=True))
users_rows = st.lists(st.integers(0, 5), min_size=1, max_size=40)


def problem_of(loss, X, y, codes, fit_intercept, alpha, cap=1):
    """The problem of a subset of users, renumbered, and the numbers that its parts have there."""
    codes = np.unique(codes, return_inverse=True)[1]
    groups = UserGroups(codes, cap)
    kernel, n_outputs = LOSSES[loss]
    if kernel is None:
        return MeanProblem(groups.mean(X), groups)
    if loss == "multinomial":
        y = np.eye(3)[(np.nan_to_num(y) > 0) + (np.nan_to_num(y) > 1).astype(int)]
    elif n_outputs == 3:
        y = np.column_stack([np.sign(y), -np.sign(y), np.ones(len(y))])
    data = UserData(X, y, groups, np.arange(groups.n_users))
    return Objective(kernel, X.shape[1], n_outputs, fit_intercept, alpha).problem(data)


def assert_isolated(loss, X, y, codes, w, radius, *, fit_intercept=True, alpha=0.0, cap=1):
    """The assertion of this file's first paragraph; returns the largest norm of a contribution."""
    together = problem_of(loss, X, y, codes, fit_intercept, alpha, cap)
    total = together.contribution_sum(w, radius)
    norms, gradients = together.gradient_norms(w), together.user_gradients(w)
    rest, longest = total.copy(), 0
    for number, user in enumerate(np.unique(codes)):
        own = codes == user
        alone = problem_of(loss, X[own], y[own], codes[own], fit_intercept, alpha, cap)
        contribution = alone.contribution_sum(w, radius)
        assert contribution.dtype == np.int64
        square = sum(int(entry) ** 2 for entry in contribution)
        assert square <= UNIT**2
        longest = max(longest, math.isqrt(square))
        rest -= contribution
        np.testing.assert_array_equal(alone.gradient_norms(w), norms[number : number + 1])
        np.testing.assert_array_equal(alone.user_gradients(w)[0], gradients[number])
    assert (rest == 0).all()
    return longest


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("loss", LOSSES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_the_sum_is_what_each_user_contributes_alone(loss, data):
    codes = np.array(data.draw(users_rows))
    d = data.draw(st.integers(1, 3))
    draw = lambda size: np.array(data.draw(st.lists(values, min_size=size, max_size=size)))  # noqa: E731
    X, y = draw(len(codes) * d).reshape(len(codes), d), draw(len(codes))
    if data.draw(st.booleans()):  # everybody has the same rows
        X[:], y[:] = X[0], y[0]
    fit_intercept = data.draw(st.booleans())
    n_coef = d if loss == "mean" else LOSSES[loss][1] * (d + fit_intercept)
    radius = data.draw(st.sampled_from([0.0, 1e-200, 0.3, 1e200]))
    alpha = data.draw(st.sampled_from([0.0, 0.3]))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for module in ("_problems",):
            block = data.draw(st.sampled_from([4, 5, 16, 8192]))  # a quarter of it holds users
            patch.setattr(f"skprivate.user_level.{module}.BLOCK_ROWS", block)
        assert_isolated(
            loss,
            X,
            y,
            codes,
            draw(n_coef),
            radius,
            fit_intercept=fit_intercept,
            alpha=alpha,
            cap=data.draw(st.integers(1, 3)),
        )


@pytest.mark.parametrize("loss", LOSSES)
@every("n_rows", [1, 7, 203])
def test_kernels_and_tails_of_vector_instructions_agree(loss, n_rows):
    """Ordinary values, so many rows that vector instructions are used, and every possible remainder."""
    rng = np.random.default_rng(n_rows)
    for codes in (np.arange(n_rows), np.sort(rng.integers(max(1, n_rows // 10), size=n_rows)), np.arange(n_rows) % 5):
        X, y = rng.normal(size=(n_rows, 5)), rng.normal(size=n_rows)
        w = rng.normal(size=5 if loss == "mean" else 6 * LOSSES[loss][1])
        longest = assert_isolated(loss, X, y, codes, w, 1e-3, alpha=0.1)
        assert longest > 0.99 * UNIT


@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_rows_and_users_and_one_row_more_elsewhere(loss):
    """Others' contributions stay where a user's rows become one, two or many, and where rows are dealt anew."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(30), rng.integers(1, 12, size=30))
    X, y = rng.normal(size=(len(codes), 2)), rng.normal(size=len(codes))
    w = rng.normal(size=2 if loss == "mean" else 3 * LOSSES[loss][1])
    total = problem_of(loss, X, y, codes, True, 0.0).contribution_sum(w, 0.1)
    # Users in another order, their rows among each other, each user's own rows in their own order.
    order, names = rng.permutation(len(codes)), rng.permutation(30)
    for user in range(30):
        own = codes[order] == user
        order[own] = np.sort(order[own])
    shuffled = problem_of(loss, X[order], y[order], names[codes[order]], True, 0.0)
    np.testing.assert_array_equal(shuffled.contribution_sum(w, 0.1), total)
    for m in (1, 2, 40):
        X_more = np.concatenate([X, rng.normal(size=(m, 2))])
        y_more, codes_more = np.concatenate([y, rng.normal(size=m)]), np.concatenate([codes, np.full(m, 30)])
        more = problem_of(loss, X_more, y_more, codes_more, True, 0.0).contribution_sum(w, 0.1)
        assert sum(int(entry) ** 2 for entry in more - total) <= UNIT**2


def test_means_and_magnitudes_are_a_user_s_own():
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(30), rng.integers(30, size=171)])
    X, y = rng.normal(size=(201, 3)), rng.normal(size=201)
    groups = UserGroups(codes)
    for statistic in (lambda X, y, groups: groups.mean(X), lambda X, y, groups: user_magnitudes(y, groups)[None]):
        together = statistic(X, y, groups)
        for user in range(30):
            own = codes == user
            alone = statistic(X[own], y[own], UserGroups(np.zeros(own.sum(), np.int64)))
            np.testing.assert_array_equal(alone[:, 0], together[:, user])


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("n_coordinates", [10, 1000])
@pytest.mark.parametrize("loss", ["mean", "squared"])
def test_contributions_keep_their_bound_where_squares_underflow(loss, n_coordinates):
    """Squares of 1.5e-162 are the least number or nothing: the norm is √1000 times too small if taken naively."""
    X = np.full((40, n_coordinates), 1.5e-162)
    X[:, 0] = 2.3e-162
    for codes in (np.arange(40), np.arange(40) // 2, np.zeros(40, int)):
        w = np.zeros(n_coordinates)
        longest = assert_isolated(loss, X, np.ones(40), codes, w, 0.0, fit_intercept=False)
        assert longest > 0.99 * UNIT


def test_the_number_of_blas_threads_does_not_matter():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 64)), rng.normal(size=3000)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found += [
                problem_of(loss, X, y, codes, True, 0.1).contribution_sum(np.linspace(-1, 1, 65 * LOSSES[loss][1]), 0.1)
                for loss in ("squared", "multinomial")
                for codes in (np.arange(3000), np.arange(3000) // 300)
            ]
    for first, second in zip(found[:4], found[4:], strict=True):
        np.testing.assert_array_equal(first, second)


# The attacks that told neighbouring data sets apart ------------------------------------------------------------


def fits(make, data, neighbour, seeds=3):
    """Coefficients on neighbouring data sets with the same simulated noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewUsersWarning)
        warnings.simplefilter("ignore", UnscaledFeaturesWarning)
        return [[make(seed).fit(X, y, user_ids=ids).coef_ for seed in range(seeds)] for X, y, ids in (data, neighbour)]


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"epsilon": 0.1}])
def test_a_second_row_does_not_change_the_arithmetic_of_others(options):
    """One user's second row made the rows of all pass a threshold, and all other votes changed their sign."""
    x, y = ROUNDING
    K, m = 200, len(x)
    singles = (m - 2) * K
    data = []
    for extra in (1, 2):
        ids = np.concatenate([np.zeros(extra, int), 1 + np.repeat(np.arange(K), m), 1 + K + np.arange(singles)])
        features = np.concatenate([np.zeros(extra), np.tile(x, K), np.zeros(singles)])[:, None]
        data.append((features, np.concatenate([np.zeros(extra), np.tile(y, K), np.zeros(singles)]), ids))
    first, second = fits(lambda seed: UserLevelSGDRegressor(random_state=seed, **options), *data)
    # The vote of the user with another row is rounded differently; that of no other changes.
    np.testing.assert_allclose(first, second, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"adjacency": "add-remove", "n_users": 400}, {"epsilon": 0.1}])
def test_a_second_row_does_not_turn_others_on(options):
    """With one row a user norms overflowed elsewhere than with two: all votes were 0, or unit vectors."""
    data = []
    for extra in (1, 2):
        ids = np.concatenate([np.zeros(extra, int), np.arange(1, 400)])
        X, y = np.full((len(ids), 1), 6.507176164585076), np.full(len(ids), 2.036557068641906e153)
        X[:extra], y[:extra] = 0.0, 0.0
        data.append((X, y, ids))
    first, second = fits(lambda seed: UserLevelSGDRegressor(random_state=seed, **options), *data)
    # The vote of the user with another row is rounded differently; that of no other changes.
    np.testing.assert_allclose(first, second, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"classes": [0, 1, 2]}])
def test_a_second_row_does_not_turn_the_votes_of_a_classifier_on(options):
    data = []
    for extra in (1, 2):
        ids = np.concatenate([np.zeros(extra, int), np.arange(1, 500)])
        X, y = np.full((len(ids), 1), 1.6e154), np.ones(len(ids), int)
        X[:extra], y[:extra] = 0.0, 0
        data.append((X, y, ids))
    options = {"classes": [0, 1], "max_iter": 8, **options}
    first, second = fits(lambda seed: UserLevelSGDClassifier(random_state=seed, **options), *data)
    # The vote of the user with another row is rounded differently; that of no other changes.
    np.testing.assert_allclose(first, second, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        UserLevelSGDRegressor(random_state=0, max_iter=3),
        UserLevelSGDRegressor(random_state=0, max_iter=3, loss="huber", alpha=1.0),
        UserLevelSGDClassifier(random_state=0, max_iter=3, classes=[0, 1]),
        UserLevelSGDClassifier(random_state=0, max_iter=3, classes=[0, 1, 2]),
        UserLevelSGDClassifier(random_state=0, max_iter=3, classes=[0, 1, 2], loss="smoothed_hinge"),
        UserLevelMean(random_state=0),
    ],
)
def test_no_value_makes_a_fit_warn(model):
    """A warning about somebody's overflow would say something about them. (Warnings are errors in these tests.)"""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.7e308, 1.7e308, 1e160, 5e-324, 0.0], size=(3000, 2))
    y = rng.integers(2, size=3000) if hasattr(model, "classes") else rng.choice(X.ravel(), size=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewUsersWarning)
        model.fit(X, y, user_ids=np.arange(3000) % 1500)
