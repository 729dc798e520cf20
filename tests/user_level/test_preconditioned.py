"""Preconditioned steps: what one row contributes, where they are taken, and what comes out."""

import math
import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.partitions import Blocks, InMemory
from skprivate.privacy import Adjacency, public_generator
from skprivate.privacy._events import run_tape
from skprivate.user_level._losses import HuberLoss, LogisticLoss, SquaredLoss
from skprivate.user_level._plan import Terms, split_budget
from skprivate.user_level._problems import UserData, UserGroups
from skprivate.user_level.descent import _preconditioned, _scaled_rows
from skprivate.user_level.descent._preconditioned import Metric, PreconditionedDescent, Steps
from skprivate.user_level.descent._scaled_rows import (
    UserMeans,
    class_gradient_sum,
    class_slope_sum,
    gradient_sum,
    largest_moment,
    moment_sum,
    scale_rows,
    slope_sum,
    with_limits,
)
from skprivate.user_level.descent._second_moments import Gram, Moments
from skprivate.user_level.scaling import _sample
from skprivate.user_level.scaling._frame import Frame
from skprivate.user_level.scaling._sample import row_places, sampled, user_places, users_at
from skprivate.utils._replay import Recording, Replay, excess

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
D = 4
FRAME = Frame(np.full(D, 0.1), np.full(D, 1.3), 0.2, 1.7, True, 9.0, np.full(D, 5.0), 6.0)
RADIUS, MOST_TARGET = 3.0, 2.0
COEF = np.linspace(-1.0, 1.0, D + 1)
MATRIX = np.rint(500.0 * np.random.default_rng(0).normal(size=(D + 1, D + 1)))
EXTREMES = [0.0, 1.0, 1 / 3, 5e-324, 1.5e-162, 1e3, 1e154, -1e160, 1e300, -1.7e308]


def extreme_rows(seed, n=60):
    rng = public_generator(seed)
    if seed % 2:
        return rng.choice(EXTREMES, size=(n, D)), rng.choice(EXTREMES, size=n)
    return rng.standard_t(2, size=(n, D)), 10.0 * rng.standard_t(2, size=n)


def sums(X, y, *, loss, steps=2.0**30, matrix=None):
    """All sums over rows, as Python integers."""
    own = np.arange(len(X))
    with np.errstate(all="ignore"):
        data = UserData(X, y, UserGroups.of_sizes(np.ones_like(own)), own)
        rows = scale_rows(data, FRAME, RADIUS, True, not isinstance(loss, LogisticLoss))
        sized = with_limits(rows, np.ones(D + 1) if matrix is None else matrix, steps)
        gradient = gradient_sum(sized, COEF, loss, 0.5 * steps * rows.unit)
    return [
        moment_sum(rows, MOST_TARGET).astype(object),
        gradient.astype(object),
        slope_sum(rows, COEF, loss, 1.5).astype(object),
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.5), LogisticLoss()], ids=["l2", "huber", "log"])
def test_a_sum_is_that_of_rows_alone_whatever_their_order_layout_and_blocks(seed, loss, monkeypatch):
    X, y = extreme_rows(seed)
    if isinstance(loss, LogisticLoss):
        y = np.sign(y + 0.5).astype(np.int8)
    together = sums(X, y, loss=loss)
    monkeypatch.setattr(_scaled_rows, "BLOCK_NUMBERS", 3 * D)
    order = public_generator(seed).permutation(len(X))
    for other in (sums(np.asfortranarray(X)[order], y[order], loss=loss), sums(X, y, loss=loss)):
        assert all((a == b).all() for a, b in zip(together, other, strict=True))
    alone = [sums(X[[i]], y[[i]], loss=loss) for i in range(len(X))]
    for k, total in enumerate(together):
        assert (sum(each[k] for each in alone) == total).all()


@pytest.mark.parametrize("matrix", [None, np.arange(1.0, D + 2), MATRIX], ids=["plain", "diagonal", "full"])
def test_contributions_have_the_norms_that_are_stated_and_some_reach_them(matrix):
    full = np.eye(D + 1) if matrix is None else np.diag(matrix) if matrix.ndim == 1 else matrix
    steps = 2.0**44 if matrix is not None and matrix.ndim == 2 else 2.0**32
    longest = np.zeros(3)
    for seed in range(2):
        X, y = extreme_rows(seed, 150)
        for i in range(len(X)):
            moments, gradient, slope = sums(X[[i]], y[[i]], loss=SquaredLoss(), steps=steps, matrix=matrix)
            mapped = full.T.astype(np.int64).astype(object) @ gradient
            squares = (
                sum(int(v) ** 2 for v in moments.ravel()) / int(largest_moment(FRAME, RADIUS, MOST_TARGET)) ** 2,
                sum(int(v) ** 2 for v in mapped) / int(steps) ** 2,
                int(slope[0]) ** 2 / 2**60,
            )
            assert max(squares) <= 1
            longest = np.maximum(longest, squares)
    assert (longest > 0.99).all()


def test_moments_of_two_rows_are_at_no_obtuse_angle():
    X, y = extreme_rows(0, 20)
    matrices = [sums(X[[i]], y[[i]], loss=SquaredLoss())[0] for i in range(20)]
    assert all((a * b).sum() >= 0 for a in matrices for b in matrices)


def test_an_exchange_moves_moments_by_the_root_of_2_bounds_at_most_and_nearly_by_that():
    bound = int(largest_moment(FRAME, RADIUS, MOST_TARGET))
    X, y = 1e3 * np.concatenate([np.eye(D), -np.eye(D)]), np.tile([1e3, -1e3], D)
    each = [sums(X[[i]], y[[i]], loss=SquaredLoss())[0] for i in range(len(X))]
    squares = [((a - b) ** 2).sum() for a in each for b in each]
    assert 1.7 * bound**2 < max(squares) <= 2 * bound**2


def rows(seed, n, d=3, noise=0.5):
    rng = public_generator(seed)
    X = rng.normal(size=(n, d)) * np.arange(1.0, d + 1) + np.arange(d)
    scores = X @ np.linspace(1.0, -0.5, d)
    labels = (rng.random(n) < expit(scores - scores.mean())).astype(int)
    return X, scores + noise * rng.normal(size=n) + 3.0, labels


MODELS = {
    "squared": UserLevelSGDRegressor(),
    "huber": UserLevelSGDRegressor(loss="huber"),
    "no intercept": UserLevelSGDRegressor(fit_intercept=False),
    "classes": UserLevelSGDClassifier(classes=[0, 1]),
}


def mechanism(model, n, d=3, several=False):
    terms = model._terms(n)
    if isinstance(model, UserLevelSGDRegressor):
        return model._mechanism(d, terms, not several)
    model.n_features_in_ = d
    return model._mechanism([0, 1], 1, terms, own_rows=not several)


def moments_of_users(X, y, sizes):
    data = UserData(X, y, UserGroups.of_sizes(np.array(sizes)), np.arange(len(sizes)))
    with np.errstate(all="ignore"):
        return moment_sum(scale_rows(data, FRAME, RADIUS, True, True), MOST_TARGET).astype(object)


@pytest.mark.parametrize("seed", range(4))
def test_moments_of_a_user_are_a_mean_and_no_larger_than_those_of_a_row(seed):
    bound = int(largest_moment(FRAME, RADIUS, MOST_TARGET))
    sizes = [1, 2, 7, 50]
    X, y = extreme_rows(seed, sum(sizes))
    ends = np.cumsum(sizes)
    alone = [
        moments_of_users(X[end - m : end], y[end - m : end], [m]) for m, end in zip(sizes, ends.tolist(), strict=True)
    ]
    assert (moments_of_users(X, y, sizes) == sum(alone)).all()
    assert all(sum(int(v) ** 2 for v in each.ravel()) <= bound**2 for each in alone)
    same = moments_of_users(np.full((50, D), 1e3), np.full(50, 1e3), [50])
    assert 0.99 * bound < sum(float(v) ** 2 for v in same.ravel()) ** 0.5 <= bound


def sums_of_users(X, y, sizes, *, loss, matrix, radius=1.0):
    """All sums over users in steps, as Python integers."""
    data = UserData(X, y, UserGroups.of_sizes(np.array(sizes)), np.arange(len(sizes)))
    with np.errstate(all="ignore"):
        rows = scale_rows(data, FRAME, RADIUS, True, not isinstance(loss, LogisticLoss))
        means = UserMeans(coef=COEF, loss=loss, most=1.0, matrix=matrix)
        found = [means.contribution_sum(rows, radius), means.slope_sum(rows), means.norm_counts(rows)]
    return [each.astype(object) for each in found]


#: Users of one row, of a few, and of more than a block of products.
SIZES = [1, 2, 1, 7, 50, 20_000, 1, 3]


@pytest.mark.parametrize("own", [np.ones(D + 1), np.arange(1.0, D + 2), MATRIX], ids=["plain", "diagonal", "full"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.5), LogisticLoss()], ids=["l2", "huber", "log"])
def test_a_sum_of_users_is_that_of_users_alone_and_none_is_longer_than_1(seed, loss, own, monkeypatch):
    X, y = extreme_rows(seed, sum(SIZES))
    if isinstance(loss, LogisticLoss):
        y = np.sign(y + 0.5).astype(np.int8)
    X[::7, 1] = np.nan
    ends = np.cumsum(SIZES)
    parts = [slice(end - m, end) for m, end in zip(SIZES, ends.tolist(), strict=True)]
    together = sums_of_users(X, y, SIZES, loss=loss, matrix=own)
    monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", 5)
    order = [5, 3, 0, 7, 6, 1, 4, 2]
    rows_of = np.concatenate([np.arange(len(X))[parts[i]] for i in order])
    others = sums_of_users(np.asfortranarray(X)[rows_of], y[rows_of], np.array(SIZES)[order], loss=loss, matrix=own)
    alone = [sums_of_users(X[part], y[part], [part.stop - part.start], loss=loss, matrix=own) for part in parts]
    for k, total in enumerate(together):
        assert (others[k] == total).all()
        assert (sum(each[k] for each in alone) == total).all()
    squares = [[sum(int(v) ** 2 for v in sums) for sums in each[:2]] for each in alone]
    assert np.max(squares) <= 2**60
    assert np.max(squares, axis=0)[0] > 0.99 * 2**60
    slopes = [abs(int(each[1][0])) / 2**30 for each in alone]
    assert max(slopes) > (0.9 if isinstance(loss, SquaredLoss) else 0.45)


def test_vectors_of_users_are_their_mean_gradients():
    rng = public_generator(3)
    sizes = np.array(SIZES[:5])
    X, y = 0.3 * rng.normal(size=(61, D)), rng.normal(size=61)
    data = UserData(X, y, UserGroups.of_sizes(sizes), np.arange(5))
    rows = scale_rows(data, FRAME, RADIUS, True, True)
    z = np.column_stack([(X - FRAME.centres) / FRAME.scales, np.ones(61)])
    gradients = (z @ COEF - (y - FRAME.target_centre) / FRAME.target_scale)[:, None] * z
    expected = np.add.reduceat(gradients, data.groups.starts[:-1]) / sizes[:, None] @ MATRIX
    means = UserMeans(coef=COEF, loss=SquaredLoss(), most=100.0, matrix=MATRIX)
    found = np.concatenate([vectors for _, vectors in means.vectors(rows)], axis=1).T * means.unit(rows)
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max() / 100.0)


#: Rows of the one who is exchanged: the first is replaced by its opposite and by others at right angles.
FAR = np.array([[9.0, 0, -3.0], [-9.0, 0, 3.0], [1e3, -1e3, 1e3], [-1e3, 1e3, -1e3], [0, 1e3, 0], [0, 0, 1e3]])


def nearly_met(run, data, others, *, exchange, classes):
    """No draw moves by more than its sensitivity; in an exchange moments, steps and the mean slope by about that."""
    recording = Recording(run, data)
    worst = np.zeros(len(recording.draws))
    for other in others:
        again = Replay(recording, run, other)
        assert not again.faults(), again.faults()
        pairs = zip(recording.draws, again.draws, strict=True)
        worst = np.maximum(worst, [excess(*pair, None)[0] for pair in pairs])
    assert 0.6 < worst.max() <= 1.0
    if exchange:
        sizes = [draw.statistic.size for draw in recording.draws]
        moments = max(k for k, size in enumerate(sizes) if size in (16, 25))  # of three features and a target
        assert worst[moments] > (0.5 if classes else 0.72)  # classes are at most 1 of MOST_TARGET
        assert worst[-1] > (0.65 if classes else 0.72) and (worst[moments:] > (0.15 if classes else 0.72)).all()


K = 3
CLASS_COEF = np.linspace(-2.0, 3.0, K * (D + 1)).reshape(K, D + 1)


def sums_of_classes(X, codes, *, steps=2.0**30, matrix=None):
    """All sums over rows of several classes, as Python integers."""
    own = np.arange(len(X))
    with np.errstate(all="ignore"):
        data = UserData(X, np.eye(K)[codes], UserGroups.of_sizes(np.ones_like(own)), own)
        found = scale_rows(data, FRAME, RADIUS, True, False)
        sized = with_limits(found, np.ones(D + 1) if matrix is None else matrix, steps)
    return [
        moment_sum(found, 1.0).astype(object),
        class_gradient_sum(sized, CLASS_COEF, 0.3 * steps * found.unit).astype(object),
        class_slope_sum(found, CLASS_COEF).astype(object),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_several_classes_are_those_of_rows_alone(seed, monkeypatch):
    X, _ = extreme_rows(seed)
    codes = np.arange(len(X)) % K
    together = sums_of_classes(X, codes)
    monkeypatch.setattr(_scaled_rows, "BLOCK_NUMBERS", 3 * D)
    order = public_generator(seed).permutation(len(X))
    again = sums_of_classes(np.asfortranarray(X)[order], codes[order])
    alone = [sums_of_classes(X[[i]], codes[[i]]) for i in range(len(X))]
    for k, total in enumerate(together):
        assert (again[k] == total).all() and (sum(each[k] for each in alone) == total).all()


@pytest.mark.parametrize("matrix", [None, np.arange(1.0, D + 2), MATRIX], ids=["plain", "diagonal", "full"])
def test_rows_of_several_classes_have_the_norms_that_are_stated_and_some_reach_them(matrix):
    full = np.eye(D + 1) if matrix is None else np.diag(matrix) if matrix.ndim == 1 else matrix
    steps = 2.0**44 if matrix is not None and matrix.ndim == 2 else 2.0**32
    bounds = np.array([float(largest_moment(FRAME, RADIUS, 1.0)), steps, 2.0**30])
    longest, spread = np.zeros(3), np.zeros(3)
    X, _ = extreme_rows(0, 60)
    for row in 1e3 * X:
        both = []
        for sign, code in ((1.0, 0), (-1.0, K - 1)):
            moments, gradient, slope = sums_of_classes(sign * row[None], np.array([code]), steps=steps, matrix=matrix)
            mapped = full.T.astype(np.int64).astype(object) @ gradient.T
            both.append([moments, mapped, slope])
        for k, pair in enumerate(zip(*both, strict=True)):
            norms = [
                math.sqrt(sum(int(v) ** 2 for v in each.ravel())) / bounds[k] for each in (*pair, pair[0] - pair[1])
            ]
            longest[k], spread[k] = max(longest[k], *norms[:2]), max(spread[k], norms[2])
    assert (longest <= 1.0).all() and (longest > [0.9, 0.98, 0.98]).all()  # a long row counts in part, its 1 too
    assert spread[0] <= math.sqrt(2.0) and spread[2] > 1.9 and (spread <= 2.0).all()


def test_slopes_of_classes_that_are_not_numbers_count_as_0():
    X, _ = extreme_rows(0, 60)
    data = UserData(X, np.eye(K)[np.arange(60) % K], UserGroups.of_sizes(np.ones(60, dtype=int)), np.arange(60))
    sized = with_limits(scale_rows(data, FRAME, RADIUS, True, False), np.ones(D + 1), 2.0**30)
    beyond = np.full((K, D + 1), np.nan)
    assert not class_gradient_sum(sized, beyond, 2.0**20).any() and not class_slope_sum(sized, beyond).any()


def test_the_start_of_several_classes_is_linear_discriminant_analysis():
    rng = public_generator(2)
    codes = rng.choice(3, size=200_000, p=[0.6, 0.3, 0.1])
    means = np.array([[0.5, 0.0], [-0.5, 0.4], [0.3, -0.6]])
    X = np.column_stack([means[codes] + rng.normal(size=(200_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]], np.ones(200_000)])
    classes = np.eye(3)[codes]
    coef, curvature = Gram(X.T @ X / 2e5, X.T @ classes / 2e5, classes.T @ classes / 2e5, 0.0).softmax()
    there = LogisticRegression(C=np.inf).fit(X[:, :2], codes)
    slopes = coef[:, :2] - coef[:, :2].mean(axis=0)
    assert slopes == pytest.approx(there.coef_ - there.coef_.mean(axis=0), abs=0.03)
    chances = there.predict_proba(X[:, :2])
    mean = np.diag(chances.mean(axis=0)) - chances.T @ chances / 2e5
    assert curvature - 1 / 3 == pytest.approx(mean, abs=0.01)


def rows_of_classes(seed, n):
    rng = public_generator(seed)
    X, _, _ = rows(seed, n)
    scores = X @ np.array([[1.0, 0.0, -0.5], [-0.5, 0.5, 0.3], [0.0, -0.5, 0.2]]) + [0.0, 0.5, -1.0]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def mechanism_of_classes(model, n, several=False):
    model.n_features_in_ = 3
    return model._mechanism([0, 1, 2], 3, model._terms(n), own_rows=not several)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_replayed_fits_of_several_classes_stay_within_sensitivities_that_are_nearly_met(adjacency):
    X, y = rows_of_classes(0, 40)
    model = UserLevelSGDClassifier(3e3, classes=[0, 1, 2], adjacency=adjacency, n_users=40, random_state=0)
    assert isinstance(mechanism_of_classes(model, 40), PreconditionedDescent)
    others = [(np.concatenate([row[None], X[1:]]), np.r_[end, y[1:]]) for row, end in product(FAR, (0, 1, 2))]
    base = others[0]
    if adjacency == "add-remove":
        base, others = (X, y), [(X[1:], y[1:]), *((np.r_[a[:1], X], np.r_[b[0], y]) for a, b in others)]
    recording = Recording(lambda data: model.fit(*data), base)
    worst = np.zeros(len(recording.draws))
    for other in others:
        again = Replay(recording, lambda data: model.fit(*data), other)
        assert not again.faults(), again.faults()
        worst = np.maximum(worst, [excess(*each, None)[0] for each in zip(recording.draws, again.draws, strict=True)])
    assert 0.6 < worst.max() <= 1.0 and (worst[-11:] > 0.25).all(), worst


def test_no_class_is_taken_for_rarer_than_a_twentieth():
    """A rarer one has a score as steep as that, and its intercept."""
    grams = [Gram(np.eye(2), np.array([0.0, 2.0 * rate - 1.0]), 1.0, 0.0) for rate in (0.0, 0.01, 0.05, 0.1, 0.95, 1.0)]
    starts, deviations = zip(*(gram.logistic() for gram in grams), strict=True)
    odds = np.exp(np.array(starts)[:, 1])
    np.testing.assert_allclose(odds / (1.0 + odds), [0.05, 0.05, 0.05, 0.1, 0.95, 0.95], rtol=0.05)
    assert min(deviations) >= math.sqrt(0.05)


def test_classes_need_moments_twice_as_quiet_as_numbers():
    classifier, regressor = UserLevelSGDClassifier(1.0, classes=[0, 1]), UserLevelSGDRegressor(1.0)
    assert isinstance(made := mechanism(regressor, 8_000), PreconditionedDescent)
    assert 0.05 < made.moments.noise <= 0.1
    assert not isinstance(mechanism(classifier, 8_000), PreconditionedDescent)
    assert isinstance(made := mechanism(classifier, 12_000), PreconditionedDescent)
    assert made.moments.noise <= 0.05


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_fit_of_several_classes_draws_exactly_its_plan(adjacency):
    X, y = rows_of_classes(1, 4000)
    model = UserLevelSGDClassifier(5.0, classes=[0, 1, 2], adjacency=adjacency, n_users=4000, random_state=0)
    with run_tape(tape := Tape()):
        model.fit(X, y)
    made = mechanism_of_classes(model, 4000)
    assert isinstance(made, PreconditionedDescent)
    planned = [event for event, count in made.events for _ in range(count)]
    assert Counter(map(str, tape.events)) == Counter(map(str, planned))
    assert not isinstance(mechanism_of_classes(model, 4000, several=True), PreconditionedDescent)


def test_several_classes_are_near_scikit_learn_wherever_rows_are():
    X, y = rows_of_classes(2, 6000)
    model = UserLevelSGDClassifier(100.0, classes=[0, 1, 2], random_state=0)
    assert isinstance(mechanism_of_classes(model, 6000), PreconditionedDescent)
    model.fit(X, y)
    bits = model.coef_.copy()
    there = LogisticRegression(C=np.inf).fit(X, y)
    assert np.abs(model.predict_proba(X) - there.predict_proba(X)).mean() < 0.01
    table = np.column_stack([X, y])
    for blocks in (Blocks(np.split(table, [1, 17, 800, 800, 1700])), Blocks([table])):
        assert (model.fit(blocks, 3).coef_ == bits).all()
    da = pytest.importorskip("dask.array")
    assert (model.fit(da.from_array(table, chunks=(700, -1)), 3).coef_ == bits).all()


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", MODELS)
def test_replayed_fits_of_users_stay_within_sensitivities_that_are_nearly_met(kind, adjacency):
    X, y, labels = rows(0, 160)
    users, target = np.arange(160) % 40, labels if kind == "classes" else y
    users[-8:] = 100 + np.arange(8)
    sizes = len(np.unique(users))
    model = MODELS[kind].set_params(epsilon=3e3, adjacency=adjacency, n_users=sizes, random_state=0)
    assert isinstance(mechanism(model, sizes, several=True), PreconditionedDescent)
    own, others = users == 0, []
    for row, end in product(FAR, (0, 1) if kind == "classes" else (-1e6, 1e6)):
        new_X, new_y = X.copy(), target.copy()
        new_X[own], new_y[own] = row, end
        others.append((new_X, new_y, users))
    others.append((np.concatenate([X, X[:20]]), np.r_[target, target[:20]], np.r_[users, np.zeros(20, int)]))
    base = others[0]
    if adjacency == "add-remove":
        others, base = [(a[~own], b[~own], c[~own]) for a, b, c in others[:1]], (X, target, users)
        others += [(np.concatenate([X, X[:9] * 50]), np.r_[target, target[:9]], np.r_[users, np.full(9, 999)])]
    nearly_met(
        lambda data: model.fit(data[0], data[1], user_ids=data[2]),
        base,
        others,
        exchange=adjacency == "replace-one",
        classes=kind == "classes",
    )


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", MODELS)
def test_replayed_fits_stay_within_sensitivities_that_are_nearly_met(kind, adjacency):
    X, y, labels = rows(0, 40)
    target = labels if kind == "classes" else y
    model = MODELS[kind].set_params(epsilon=3e3, adjacency=adjacency, n_users=40, random_state=0)
    assert isinstance(mechanism(model, 40), PreconditionedDescent)
    ends = (0, 1) if kind == "classes" else (-1e6, 1e6)
    others = [(np.concatenate([row[None], X[1:]]), np.r_[end, target[1:]]) for row, end in product(FAR, ends)]
    if adjacency == "add-remove":
        others = [(X[1:], target[1:]), *((np.concatenate([a[:1], X]), np.r_[b[0], target]) for a, b in others)]
        base = X, target
    else:
        base = others[0]
    nearly_met(
        lambda data: model.fit(*data), base, others, exchange=adjacency == "replace-one", classes=kind == "classes"
    )


class Tape:
    def __init__(self):
        self.events = []

    def draw(self, draw, sample):
        self.events += draw.events
        return sample()


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_draws_exactly_its_plan(kind, several, adjacency):
    X, y, labels = rows(1, 4000)
    model = MODELS[kind].set_params(epsilon=5.0, adjacency=adjacency, n_users=4000, random_state=0)
    with run_tape(tape := Tape()):
        model.fit(X, labels if kind == "classes" else y, user_ids=np.arange(4000) if several else None)
    made = mechanism(model, 4000, several=several)
    assert isinstance(made, PreconditionedDescent)
    planned = [event for event, count in made.events for _ in range(count)]
    assert Counter(map(str, tape.events)) == Counter(map(str, planned))
    assert model.privacy_guarantee_.epsilon <= 5.0


@pytest.mark.parametrize("several", [False, True])
def test_nobody_hears_of_the_overflow_of_one(several):
    X, y, _ = rows(1, 4000)
    X[:2], y[:2] = [[1.7e308] * 3, [-1.7e308, 1.7e308, 0.0]], [1.7e308, -1.7e308]
    model = UserLevelSGDRegressor(10.0, random_state=0)
    n_users = 2000 if several else 4000
    assert isinstance(mechanism(model, n_users, several=several), PreconditionedDescent)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        model.fit(X, y, user_ids=np.arange(4000) // 2 if several else None)
    assert np.isfinite(model.coef_).all()


def test_steps_share_the_budget_that_moments_leave():
    split = split_budget(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 10_000), n_numbers=100)
    for count in (1, 2, 5, 12):
        steps = Steps(split=split, count=count, share=0.7)
        assert len(steps.multipliers) == count
        assert sum(z**-2 for z in steps.multipliers) <= 0.7 * split.multiplier**-2
        assert 1 <= steps.averaged <= count


def test_moments_get_the_share_that_public_numbers_ask_for():
    def plan(n):
        split = split_budget(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n), n_numbers=100)
        return Moments(split=split, n_users=float(n), n_coef=11, constant=True)

    loud, quiet, silent = plan(500), plan(300_000), plan(10**7)
    assert loud.share == 0.4 and loud.noise > 0.75
    assert 0.05 < quiet.share < 0.3 and quiet._noise(quiet.share) * quiet._growth == pytest.approx(0.05)
    assert silent.share == 0.05 and silent.noise < 0.05


def test_normal_features_give_the_logistic_model_that_made_them():
    rng = public_generator(1)
    X = np.column_stack([rng.normal(size=(200_000, 3)) @ np.triu(np.ones((3, 3))) + 0.5, np.ones(200_000)])
    coef = np.array([0.8, -0.5, 0.3, -1.0])
    y = 2.0 * (rng.random(200_000) < expit(X @ coef)) - 1.0
    gram = Gram(X.T @ X / 2e5, X.T @ y / 2e5, 1.0, 0.0)
    found, deviation = gram.logistic()
    assert found == pytest.approx(coef, abs=0.05)
    chances = expit(X @ coef)
    curvature = chances - chances**2
    assert deviation**2 == pytest.approx(curvature.mean(), abs=0.01)
    hessian, mean = gram.logistic_hessian(coef)
    assert mean == pytest.approx(curvature.mean(), abs=0.01)
    np.testing.assert_allclose(hessian, (X.T * curvature) @ X / 2e5, atol=0.02)


def test_the_simplest_metric_that_is_as_good_is_taken():
    def metric(moments):
        return Metric(Gram(moments, np.zeros(3), 1.0, 0.0))

    assert (metric(np.diag([1.0, 1.1, 0.9])).own == 1.0).all()
    diagonal = metric(np.diag([1.0, 4.0, 0.01]))
    assert diagonal.own.tolist() == [8.0, 4.0, 80.0]
    full = metric(np.full((3, 3), 0.99) + 0.01 * np.eye(3))
    assert full.own.shape == (3, 3)
    total = np.array([2**60, -3, 5], dtype=object)
    expected = full.matrix.T.astype(int).astype(object) @ total
    assert (full.mapped(total) == expected).all()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_with_little_noise_the_result_is_that_of_the_loss(kind, several):
    X, y, labels = rows(2, 3000)
    users, n_users = (np.arange(3000) // 2, 1500) if several else (None, 3000)
    y[::50] += 8.0
    model = MODELS[kind].set_params(epsilon=100.0, adjacency="replace-one", n_users=None, random_state=0)
    target = labels if kind == "classes" else y
    assert isinstance(mechanism(model, n_users, several=several), PreconditionedDescent)
    model.fit(X, target, user_ids=users)
    if kind == "classes":
        plain = LogisticRegression(C=np.inf).fit(X, labels)
    elif kind == "huber":
        plain = None
        residuals = np.clip(model.predict(X) - y, -1.35, 1.35)
        slopes = np.column_stack([X, np.ones(len(X))]).T @ residuals / len(X)
        assert np.abs(slopes).max() < 0.02
    else:
        plain = LinearRegression(fit_intercept=kind == "squared").fit(X, y)
    if plain is not None:
        assert np.ravel(model.coef_) == pytest.approx(np.ravel(plain.coef_), abs=0.05)
        assert np.ravel(model.intercept_) == pytest.approx(np.ravel(plain.intercept_), abs=0.15)


def test_where_moments_are_loud_or_not_covered_the_descent_is_the_plain_one():
    plain = {"solver": "sgd"}
    regressor, classifier = UserLevelSGDRegressor(), UserLevelSGDClassifier(classes=[0, 1])
    assert isinstance(mechanism(regressor, 50_000), PreconditionedDescent)
    assert isinstance(mechanism(classifier, 50_000), PreconditionedDescent)
    for model in (regressor, classifier):
        assert not isinstance(mechanism(model, 300, several=True), PreconditionedDescent)
        for options in (plain, {"aggregation": "robust"}, {"weight_cap": 2}, {"radius": 1.0}, {"standardize": False}):
            other = type(model)(**{**model.get_params(), **options})
            assert not isinstance(mechanism(other, 50_000), PreconditionedDescent), options
        assert not isinstance(mechanism(model, 300), PreconditionedDescent)
        private = type(model)(**{**model.get_params(), "adjacency": "add-remove"})
        assert not isinstance(mechanism(private, 50_000), PreconditionedDescent)
    weighted = UserLevelSGDClassifier(classes=[0, 1], class_weight={1: 2.0})
    assert not isinstance(mechanism(weighted, 50_000), PreconditionedDescent)
    X, y, _ = rows(3, 300)
    with pytest.warns(Warning):
        loud, same = (UserLevelSGDRegressor(0.3, solver=solver, random_state=0).fit(X, y) for solver in ("auto", "sgd"))
    assert (loud.coef_ == same.coef_).all()


def test_places_are_a_simple_random_sample():
    for n, m in ((100, 7), (41, 40), (10**7, 20_000)):
        found = row_places(n, m, 3)
        assert len(found) == m and (np.diff(found) > 0).all() and found[0] >= 0 and found[-1] < n
        assert (found == row_places(n, m, 3)).all()
    # All 10 pairs of 5 rows are equally likely: chi-square of 2 000 draws, fails with probability 1e-6.
    pairs = [tuple(row_places(5, 2, seed)) for seed in range(2000)]
    counts = np.unique(pairs, axis=0, return_counts=True)[1]
    assert len(counts) == 10 and chisquare(counts).pvalue > 1e-6


def test_no_sample_is_drawn_where_one_row_more_would_move_the_others():
    for adjacency in Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE:
        terms = Terms(1.0, 1e-6, adjacency, 10**6)
        assert (_preconditioned.sample_size(terms, D) < 10**6) == (adjacency is Adjacency.REPLACE_ONE)


def test_every_secure_fit_samples_anew():
    seeds = {mechanism(UserLevelSGDRegressor(), 10**6).scaling.seed for _ in range(3)}
    assert len(seeds) == 3
    assert len({mechanism(UserLevelSGDRegressor(random_state=1), 10**6).scaling.seed for _ in range(3)}) == 1


def sample_of_users(users, n_sample, seed, X):
    known = np.unique(users)
    names = public_generator(len(users)).permutation(known)  # in an order of their own
    codes = np.argsort(names)[np.searchsorted(known, users)]
    data = UserData(X, X[:, 0], UserGroups(codes), names)
    found = users_at(data, user_places(InMemory(data), n_sample, seed), 0)
    own = np.split(found.X, found.groups.starts[1:-1])
    return dict(zip(found.names.tolist(), [each.tolist() for each in own], strict=True))


@pytest.mark.parametrize("alike", [False, True])
def test_an_exchange_of_a_user_exchanges_one_of_the_sample_at_most_whatever_the_key(alike, monkeypatch):
    if alike:  # hashes that are equal for many
        monkeypatch.setattr(_sample, "mix_tags", lambda tags, salt: (tags[:, 0] * np.uint64(salt + 1)) % np.uint64(3))
    rng = public_generator(0)
    users, X = rng.integers(0, 40, 150), rng.normal(size=(150, 2))
    # 13 or 14 of 40 have the least of these hashes: with one less the next ones are needed.
    for seed, n_sample in product(range(8), (10, 13, 14)):
        before = sample_of_users(users, n_sample, seed, X)
        assert len(before) == n_sample
        for user in range(5):
            for new in (user, 1000 + seed):
                own = users == user
                ids = np.concatenate([users[~own], np.full(4, new)])
                after = sample_of_users(ids, n_sample, seed, np.concatenate([X[~own], np.full((4, 2), 9.0)]))
                assert len(after) == n_sample
                changed = [key for key in before if key not in after or before[key] != after[key]]
                assert len(changed) <= 1 and set(changed) <= {*before}


def test_samples_of_users_are_even():
    users, hits = np.repeat(np.arange(50), 4), Counter()
    for seed in range(1000):
        hits.update(list(sample_of_users(users, 10, int(public_generator(seed).integers(2**63)), np.zeros((200, 1)))))
    assert chisquare(list(hits.values())).pvalue > 1e-6 and len(hits) == 50


@pytest.mark.parametrize("kind", ["squared", "classes"])
def test_half_the_sensitivity_is_seen_in_sums_of_users(kind, monkeypatch):
    X, y, labels = rows(0, 4000)
    users, target = np.arange(4000) % 1000, labels if kind == "classes" else y
    model = MODELS[kind].set_params(epsilon=30.0, adjacency="replace-one", n_users=1000, random_state=0)
    own = users == 0
    data = []
    for row, end in product(FAR[:4], (0, 1) if kind == "classes" else (-1e6, 1e6)):
        new_X, new_y = X.copy(), target.copy()
        new_X[own], new_y[own] = row, end
        data.append((new_X, new_y))
    monkeypatch.setattr(Terms, "sum_sensitivity", 1.0)
    recording = Recording(run := lambda pair: model.fit(*pair, user_ids=users), data[0])
    seen = Counter()
    for other in data[1:]:
        pairs = zip(recording.draws, Replay(recording, run, other).draws, strict=True)
        seen.update(k for k, pair in enumerate(pairs) if excess(*pair, None)[0] > 1.0)
    assert model.n_iter_ == 10
    steps = 10 + (kind == "classes")  # and the mean slope
    last = range(len(recording.draws) - steps, len(recording.draws))
    assert sum(k in seen for k in last) > 0.7 * steps


@pytest.mark.parametrize("kind", ["squared", "classes"])
def test_bits_of_users_do_not_depend_on_where_rows_are(kind, monkeypatch):
    monkeypatch.setattr(_preconditioned, "LEAST_SAMPLE", 100)
    monkeypatch.setattr(_preconditioned, "SIGNAL", 1.0)
    X, y, labels = rows(4, 6000)
    users = public_generator(0).integers(0, 1500, 6000)
    n_users = len(np.unique(users))
    target = labels if kind == "classes" else y
    model = MODELS[kind].set_params(epsilon=30.0, adjacency="replace-one", n_users=None, random_state=0)
    made = mechanism(model, n_users, several=True)
    assert isinstance(made, PreconditionedDescent) and made.scaling.n_sample == 100
    bits = model.fit(X, target, user_ids=users).coef_.copy()
    assert (model.fit(np.asfortranarray(X), target, user_ids=users).coef_ == bits).all()
    assert (model.fit(X, target, user_ids=list(map(int, users))).coef_ == bits).all()
    table = pd.DataFrame(X, columns=list("abc")).assign(y=target, user=users)
    cuts = [table[first:end] for first, end in pairwise([0, 1, 17, 800, 1700, 6000])]
    for blocks in (Blocks(cuts), Blocks([table])):
        assert (model.fit(blocks, "y", user_ids="user").coef_ == bits).all()
    dd = pytest.importorskip("dask.dataframe")
    assert (model.fit(dd.from_pandas(table, npartitions=3), "y", user_ids="user").coef_ == bits).all()


@pytest.mark.parametrize("kind", ["squared", "classes"])
def test_bits_do_not_depend_on_where_rows_are(kind, monkeypatch):
    monkeypatch.setattr(_preconditioned, "LEAST_SAMPLE", 100)
    monkeypatch.setattr(_preconditioned, "SIGNAL", 1.0)
    X, y, labels = rows(4, 2000)
    target = labels if kind == "classes" else y
    model = MODELS[kind].set_params(epsilon=30.0, adjacency="replace-one", n_users=None, random_state=0)
    made = mechanism(model, 2000)
    assert isinstance(made, PreconditionedDescent) and made.scaling.n_sample == 100
    bits = model.fit(X, target).coef_.copy()
    scales = model.feature_scale_.copy()
    table = np.column_stack([X, target])
    cuts = np.split(table, [1, 17, 800, 800, 1700])
    for blocks in (Blocks(cuts), Blocks([table])):
        assert (model.fit(blocks, 3).coef_ == bits).all()
        assert (model.feature_scale_ == scales).all()
    assert (model.fit(np.asfortranarray(X), target).coef_ == bits).all()
    da = pytest.importorskip("dask.array")
    assert (model.fit(da.from_array(table, chunks=(700, -1)), 3).coef_ == bits).all()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["squared", "classes"])
def test_a_fit_with_a_sample_draws_what_was_reserved_and_keeps_no_seed(kind, several, monkeypatch):
    monkeypatch.setattr(_preconditioned, "LEAST_SAMPLE", 100)
    monkeypatch.setattr(_preconditioned, "SIGNAL", 1.0)
    mechanisms, run = [], PreconditionedDescent.run

    def watched(self, rows, release):
        mechanisms.append(self)
        return run(self, rows, release)

    monkeypatch.setattr(PreconditionedDescent, "run", watched)
    X, y, labels = rows(4, 4000)
    options = {"epsilon": 20.0, "inference": True}
    classes = UserLevelSGDClassifier(**options, classes=[0, 1])
    model, target = (classes, labels) if kind == "classes" else (UserLevelSGDRegressor(**options), y)
    with run_tape(tape := Tape()):
        model.fit(X, target, user_ids=np.arange(4000) // 2 if several else None)
    (made,) = mechanisms
    assert made.scaling.n_sample == 100
    planned = [event for event, count in made.events for _ in range(count)]
    assert Counter(map(str, tape.events)) == Counter(map(str, planned))
    seed = made.scaling.seed
    stored = pickle.dumps(model)
    assert seed > 2**64 and seed.to_bytes(17, "little")[:15] not in stored and str(seed).encode() not in stored


def test_bounds_are_those_of_all_rows_not_of_the_sample():
    model = UserLevelSGDRegressor()
    made = mechanism(model, 10**6)
    assert isinstance(made, PreconditionedDescent) and made.scaling.n_sample < 10**5
    search = made.scaling.search
    assert search.all_users == 1e6
    assert search._level(20_000.0) == search._level(1e6) < replace(search, all_users=None)._level(20_000.0)


def test_a_sample_holds_the_rows_at_its_places():
    X, y, _ = rows(5, 1000)
    own = np.arange(1000)
    data = UserData(X, y, UserGroups(own), own)
    places = row_places(1000, 50, 9)
    found = sampled(Blocks([data.X]).map(lambda X: data), places)
    total = found.sum(lambda block: np.rint(block.X.sum(axis=0)[None] * 2**20).astype(np.int64))
    assert (total == np.rint(X[places].sum(axis=0) * 2**20)).all()


def test_huber_is_near_scikit_learn():
    X, y, _ = rows(6, 4000)
    y[::10] += 50.0
    model = UserLevelSGDRegressor(30.0, loss="huber", random_state=0).fit(X, y)
    there = HuberRegressor(alpha=0.0).fit(X, y)
    assert model.coef_ == pytest.approx(there.coef_, abs=0.1)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("threshold", [0.3, 1e-3, 5e-324])
def test_noise_is_that_of_slopes_however_small_their_bound(threshold, several):
    """Clipped to deviations of residuals, slopes of a thousandth of that left coefficients of 1 an error of 5."""
    rng = public_generator(7)
    X = rng.normal(size=(20_000, 3))
    y = X.sum(axis=1) + rng.normal(size=20_000)
    model = UserLevelSGDRegressor(2.0, loss="huber", huber_threshold=threshold, random_state=0)
    users = np.arange(20_000) // 2 if several else None
    assert isinstance(mechanism(model, 20_000 // (1 + several), several=several), PreconditionedDescent)
    missed = np.linalg.norm(model.fit(X, y, user_ids=users).coef_ - 1.0)
    assert missed < (0.05 if threshold > 1e-9 else 2.0)  # next to such slopes a penalty is all


def test_long_rows_and_collinear_features_are_fitted_as_by_many_steps():
    """Two steps with the curvature of clipped rows missed .05 of R² on delays of flights, and ranges clipped them."""
    lost = []
    for seed in range(3):
        rng = public_generator(seed)
        near = rng.normal(size=14_000)
        tail = rng.lognormal(0.0, 1.5, size=14_000)
        X = np.column_stack([near, near + 0.2 * rng.normal(size=14_000), tail, rng.normal(size=14_000)])
        y = X @ [-5.0, 5.0, 1.0, 0.2] + 2.0 * rng.normal(size=14_000)
        model = UserLevelSGDRegressor(3.0, random_state=seed)
        assert isinstance(mechanism(model, 14_000, 4), PreconditionedDescent)
        plain = UserLevelSGDRegressor(3.0, solver="sgd", random_state=seed)
        lost.append(plain.fit(X, y).score(X, y) - model.fit(X, y).score(X, y))
    assert np.median(lost) < 0.01, lost


def test_users_of_a_rare_class_are_not_clipped_to_what_the_others_say():
    """The median gradient is that of the common class: multiples of it left log losses of 1.2 to 17 constants'."""
    rng = np.random.default_rng(0)
    n_rows = 180_000
    X = rng.exponential(size=(n_rows, 10)) - 1.0
    y = (rng.random(n_rows) < expit(X @ np.tile([0.7, -0.7, 0.3, 0.0, 0.2], 2) - 4.0)).astype(int)
    model = UserLevelSGDClassifier(0.5, classes=[0, 1], random_state=0).fit(X, y, user_ids=np.arange(n_rows) // 3)
    assert model.n_iter_ == 10
    assert log_loss(y, model.predict_proba(X)[:, 1]) < 0.9 * log_loss(y, np.full(len(y), y.mean()))
