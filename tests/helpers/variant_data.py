"""Data, models and losses of the variants: what is hard on one estimator or another."""

import dataclasses

import numpy as np
from scipy.special import i0e, i1e
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skprivate.privacy import public_generator
from skprivate.user_level import CustomLoss
from skprivate.utils._neighbours import EXTREMES
from skprivate.utils.estimator_checks import CheckData, default_data

# Models and losses -----------------------------------------------------------------------------------------------


class Columnwise(RegressorMixin, BaseEstimator):
    """A linear model that treats every row by itself, to the last bit."""

    def __init__(self, weights=(1.0, 0.0, 0.0)):
        self.weights = weights

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        total = np.zeros(len(X))
        for column, weight in zip(np.asarray(X).T, self.weights, strict=True):
            total += np.ascontiguousarray(column) * weight
        return total


class AbsoluteLoss:
    """|x·w − y|, row by row: a loss of the user's own."""

    def gradient(self, X, y, coef):
        f = np.zeros(len(X))
        for column, weight in zip(X.T, coef, strict=True):
            f += np.ascontiguousarray(column) * weight
        return X * np.sign(f - y)[:, None]


assert isinstance(AbsoluteLoss(), CustomLoss)


class Directions:
    """Angles: b(s) = log I₀(‖s‖), T = (cos y, sin y). It fails for large ones."""

    def statistics(self, y):
        if np.any(np.abs(y) > 1e300):
            raise ValueError(f"{y}")
        return np.column_stack([np.cos(y), np.sin(y)])

    def potential(self, scores):
        size = np.sqrt(np.sum(scores**2, axis=1))
        return size + np.log(i0e(size))

    def gradient(self, scores):
        size = np.sqrt(np.sum(scores**2, axis=1, keepdims=True)) + 1e-12
        return scores / size * i1e(size) / i0e(size)


class NegativeBinomial:
    """Counts with r failures and means up to ``most``, beyond which the potential is a parabola."""

    def __init__(self, r=2.0, most=60.0):
        self.r, self.most = r, most

    def statistics(self, y):
        return y

    def potential(self, scores):
        e, mean, bend, beyond = self._parts(scores)
        return -self.r * np.log1p(-e) + mean * beyond + bend * beyond**2 / 2

    def gradient(self, scores):
        _, mean, bend, beyond = self._parts(scores)
        return mean + bend * beyond

    def _parts(self, scores):
        known = np.minimum(scores, np.log(self.most / (self.most + self.r)))
        e = np.exp(known)
        mean = self.r * e / (1 - e)
        return e, mean, mean / (1 - e), scores - known


def quartic(y, predicted):
    """A loss of the user's own that overflows."""
    with np.errstate(all="ignore"):
        return (y - predicted) ** 4


def lost(y, predicted):
    """A score of the user's own that overflows."""
    return -quartic(y, predicted)


def linear_candidates():
    """Three regressors, two of which tie."""
    rng = public_generator(0)
    X = rng.normal(size=(50, 2))
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] + rng.normal(size=50)
    one, two, three = (LinearRegression().fit(X, y) for _ in range(3))
    two.coef_ = one.coef_[[2, 1, 0]]
    three.coef_ = np.zeros(3)
    return [(name, FrozenEstimator(m)) for name, m in (("one", one), ("two", two), ("three", three))]


def columnwise_candidates():
    weights = ((1.0, -0.5, 0.25), (0.25, -0.5, 1.0), (0.0, 0.0, 0.0))
    X = np.zeros((2, 3))
    return [(str(w), FrozenEstimator(Columnwise(w).fit(X, None))) for w in weights]


def constant_candidates():
    X = np.zeros((4, 3))
    return [
        (f"always {k}", FrozenEstimator(DummyClassifier(strategy="constant", constant=k).fit(X, [0, 1, 0, 1])))
        for k in (0, 1)
    ]


# Data ------------------------------------------------------------------------------------------------------------


def users_of_many_rows(estimator, rng, n_rows):
    """A third of the users has one row, some have many."""
    data = default_data(estimator, rng, n_rows)
    users = np.sort(rng.integers(0, max(2, n_rows // 4), n_rows))
    users[: n_rows // 3] = 1000 + np.arange(n_rows // 3)
    return dataclasses.replace(data, metadata={"user_ids": rng.permutation(users)})


def rows_of_one_user_each(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return CheckData(data.X, data.y)


def names_of_users(estimator, rng, n_rows):
    data = users_of_many_rows(estimator, rng, n_rows)
    names = np.array([f"user {k:04d}" for k in data.metadata["user_ids"]])
    return dataclasses.replace(data, metadata={"user_ids": names})


def ties_and_extremes(estimator, rng, n_rows):
    """All rows alike or extreme, and users of one row beside users of many."""
    data = users_of_many_rows(estimator, rng, n_rows)
    X = rng.choice([0.0, 1.0, -1.0, 5e-324, 1.5e-162, 1.6e154, 1e300], size=data.X.shape)
    y = data.y if data.y is None or data.y.dtype.kind != "f" else rng.choice([0.0, 1.0, -1e9, 1e300], size=n_rows)
    return dataclasses.replace(data, X=X, y=y)


def wide_rows(estimator, rng, n_rows):
    """Many columns: where every square underflows, a norm of all of them is far from what it should be."""
    data = users_of_many_rows(estimator, rng, n_rows)
    return dataclasses.replace(data, X=rng.normal(size=(n_rows, 60)))


def missing_values(estimator, rng, n_rows):
    data = users_of_many_rows(estimator, rng, n_rows)
    X = np.where(rng.random(data.X.shape) < 0.3, np.nan, data.X)
    return dataclasses.replace(data, X=X)


def rows_with_gaps(estimator, rng, n_rows):
    return CheckData(missing_values(estimator, rng, n_rows).X)


def three_classes(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=rng.permutation(np.arange(n_rows) % 3))


def several_labels(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=rng.integers(0, 2, size=(n_rows, 3)))


def several_numbers(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=np.abs(rng.normal(size=(n_rows, 2)) * [1.0, 1e6]))


def several_extremes(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=rng.choice(EXTREMES, (n_rows, 2)))


def counts(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=rng.poisson(2.0, n_rows).astype(float))


def extreme_labels(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, y=rng.choice(EXTREMES, n_rows))


def private_by_label(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return CheckData(data.X, data.y)


def tied_rows(estimator, rng, n_rows):
    """Rows on a small grid: most of them lie on a boundary."""
    data = default_data(estimator, rng, n_rows)
    return dataclasses.replace(data, X=rng.choice([0.0, 0.5, 1.0], size=(n_rows, 2)))


def category_rows(estimator, rng, n_rows):
    X = np.empty((n_rows, 2), dtype=object)
    X[:, 0] = rng.choice(["a", "b", "c"], n_rows)
    X[:, 1] = rng.uniform(size=n_rows)
    return CheckData(X)


def only_categories(estimator, rng, n_rows):
    X = np.empty((n_rows, 2), dtype=object)
    for j in range(2):
        X[:, j] = rng.choice(["a", "b", "c"], n_rows)
    return CheckData(X)


def colours(estimator, rng, n_rows):
    """Names, some missing and some in no list."""
    X = rng.choice(np.array(["red", "green", "blue", "none of these", None], dtype=object), size=(n_rows, 2))
    users = users_of_many_rows(estimator, rng, n_rows).metadata
    return CheckData(X, None, users)


def rows_of_colours(estimator, rng, n_rows):
    return CheckData(colours(estimator, rng, n_rows).X)


def states(estimator, rng, n_rows):
    values = np.arange(3) if estimator.states is None else np.asarray(estimator.states)
    return CheckData(rng.choice(values, size=(n_rows, 1)).astype(object))


def one_column(estimator, rng, n_rows):
    return CheckData(rng.uniform(size=(n_rows, 1)))


def far_rows(estimator, rng, n_rows):
    """Rows of all magnitudes."""
    return CheckData(rng.choice(EXTREMES[:-6], size=(n_rows, 3)))


def places_in_degrees(estimator, rng, n_rows):
    """Places everywhere, some at the poles and at the dateline."""
    degrees = rng.uniform([-90.0, -180.0], [90.0, 180.0], size=(n_rows, 2))
    degrees[: n_rows // 2] = rng.choice([-90.0, -60.0, 0.0, 60.0, 90.0, -180.0, 180.0], size=(n_rows // 2, 2))
    return CheckData(degrees if estimator.coordinates == "latitude-longitude" else degrees[:, ::-1].copy())
