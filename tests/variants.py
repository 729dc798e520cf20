"""Every way in which the private estimators may be set up, with data that suit it: what the long replay goes through.

A new estimator, or a new option that changes what is drawn, belongs in here.
"""

import dataclasses
from itertools import cycle, islice, product

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

import skprivate as sp
from skprivate.privacy import public_generator
from skprivate.user_level import CustomLoss
from skprivate.utils._neighbours import EXTREMES
from skprivate.utils.estimator_checks import CheckData, default_data

BOTH = ("replace-one", "add-remove")

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

    lipschitz = smoothness = 1.0

    def gradient(self, X, y, coef):
        f = np.zeros(len(X))
        for column, weight in zip(X.T, coef, strict=True):
            f += np.ascontiguousarray(column) * weight
        return X * np.sign(f - y)[:, None]


assert isinstance(AbsoluteLoss(), CustomLoss)


def quartic(y, predicted):
    """A loss of the user's own that overflows."""
    with np.errstate(all="ignore"):
        return (y - predicted) ** 4


def _linear():
    """Three regressors, two of which tie."""
    rng = public_generator(0)
    X = rng.normal(size=(50, 2))
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] + rng.normal(size=50)
    one, two, three = (LinearRegression().fit(X, y) for _ in range(3))
    two.coef_ = one.coef_[[2, 1, 0]]
    three.coef_ = np.zeros(3)
    return [(name, FrozenEstimator(m)) for name, m in (("one", one), ("two", two), ("three", three))]


def _columnwise():
    weights = ((1.0, -0.5, 0.25), (0.25, -0.5, 1.0), (0.0, 0.0, 0.0))
    X = np.zeros((2, 3))
    return [(str(w), FrozenEstimator(Columnwise(w).fit(X, None))) for w in weights]


def _constant_classes():
    X = np.zeros((4, 3))
    return [
        (
            f"always {k}",
            FrozenEstimator(DummyClassifier(strategy="constant", constant=k).fit(X, [0, 1, 0, 1])),
        )
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
    y = (
        data.y
        if data.y is None or data.y.dtype.kind != "f"
        else rng.choice([0.0, 1.0, -1e9, 1e300], size=n_rows)
    )
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


# The table -------------------------------------------------------------------------------------------------------

_USER_DATA = (
    default_data,
    users_of_many_rows,
    rows_of_one_user_each,
    ties_and_extremes,
    wide_rows,
)


def modes(kind, *, fixed=None, **options):
    """An instance for every combination of options."""
    return [
        kind(**(fixed or {}), **dict(zip(options, values, strict=True)))
        for values in product(*options.values())
    ]


def spread(instances, makers, each):
    """Every instance with some of the makers in turn, so that each maker meets about as many instances.

    Five or seven makers meet every value of options that have two or three.
    """
    turns = cycle(makers)
    return [(instance, tuple(islice(turns, each))) for instance in instances]


def _user_level_means():
    kind = sp.UserLevelMean
    plain = modes(kind, adjacency=BOTH, aggregation=("mean", "robust"), weight_cap=(1, 3))
    known = modes(kind, adjacency=BOTH, tau=(0.5,), bound=(1e9, 10.0), n_users=(None, 8))
    wild = modes(kind, adjacency=BOTH, bound=(1e-3, 1e12), epsilon=(0.1, 20.0), delta=(1e-9,))
    return (
        spread(plain, (*_USER_DATA, names_of_users, far_rows), 3)
        + spread(known, _USER_DATA, 2)
        + spread(wild, _USER_DATA, 1)
    )


def _user_level_regressors():
    kind = sp.UserLevelSGDRegressor
    descents = modes(
        kind,
        fixed={"max_iter": 3},
        solver=("sgd", "phased"),
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("squared_error", "huber", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    moments = modes(kind, solver=("moments",), adjacency=BOTH, weight_cap=(1, 3), fit_intercept=(True, False))
    known = modes(kind, adjacency=BOTH, n_users=(8,), solver=("sgd", "moments"), alpha=(None, 0.0, 0.5))
    chosen = modes(kind, adjacency=BOTH, radius=(None, 2.0), fit_intercept=(True, False), epsilon=(0.2, 2.0))
    paper = modes(
        kind,
        fixed={"accounting": "paper", "max_iter": 3},
        loss=("squared_error", "huber", AbsoluteLoss()),
        convexity=("convex", "strongly-convex", "non-convex"),
    )
    # Options of the gradients first meet all data; what goes through the same sums meets some.
    return (
        spread(descents, _USER_DATA, 1)
        + spread(chosen, _USER_DATA, 1)
        + spread(moments + known + paper, (*_USER_DATA[:4], names_of_users), 1)
    )


def _user_level_classifiers():
    kind = sp.UserLevelSGDClassifier
    two = modes(
        kind,
        fixed={"classes": [0, 1], "max_iter": 3},
        solver=("sgd", "phased"),
        adjacency=BOTH,
        aggregation=("mean", "robust"),
        loss=("log_loss", "smoothed_hinge", AbsoluteLoss()),
        weight_cap=(1, 3),
    )
    three = modes(
        kind,
        fixed={"classes": [0, 1, 2], "max_iter": 3},
        adjacency=BOTH,
        loss=("log_loss", "smoothed_hinge"),
        solver=("sgd", "phased"),
    )
    known = modes(
        kind,
        fixed={"classes": [0, 1]},
        adjacency=BOTH,
        n_users=(8,),
        alpha=(0.0, 0.1),
        feature_norm=(None, 3),
    )
    paper = modes(
        kind,
        fixed={"accounting": "paper", "max_iter": 3, "classes": [0, 1]},
        loss=("log_loss", "smoothed_hinge"),
        convexity=("convex", "strongly-convex", "non-convex"),
    )
    return (
        spread(two, _USER_DATA, 1)
        + [(each, (three_classes,)) for each in three]
        + spread(known + paper, (*_USER_DATA[:4], names_of_users), 1)
    )


def _selectors():
    kind, data = sp.UserLevelSelector, (*_USER_DATA[:4], names_of_users)
    linear, columnwise, constant = _linear(), _columnwise(), _constant_classes()
    losses = ("squared_error", "absolute_error", quartic)
    votes = modes(kind, estimators=(linear, columnwise), adjacency=BOTH, loss=losses)
    means = modes(kind, estimators=(columnwise,), rule=("means",), loss=losses, tau=(1.0, 0.01))
    ranges = modes(kind, estimators=(linear,), rule=("means",), bound=(2.0, 1e12), epsilon=(0.3, 10.0))
    batch = modes(kind, estimators=(columnwise,), predict_by=("batch",), adjacency=BOTH, loss=losses)
    batch += modes(kind, estimators=(columnwise,), predict_by=("batch",), rule=("means",), loss=losses)
    classes = modes(
        kind, estimators=(constant,), adjacency=BOTH, predict_by=("user", "batch"), loss=("auto", "zero_one")
    )
    return spread(votes + means + ranges + batch + classes, data, 2)


def _gam_classifiers():
    kind, noise = sp.CuratedBagGAMClassifier, ("laplace", "gaussian", "discrete_gaussian", "auto")
    sets = ("pairs", "singles", [(0,), (0, 1), (1, 2)])
    two = modes(kind, fixed={"classes": [0, 1], "n_bins": 4}, mechanism=noise, feature_sets=sets)
    three = modes(kind, fixed={"classes": [0, 1, 2], "n_bins": 4}, mechanism=noise, min_size=(None, 2))
    return [(each, (default_data,)) for each in two] + [(each, (three_classes,)) for each in three]


def _gam_regressors():
    kind, noise = sp.CuratedBagGAMRegressor, ("laplace", "gaussian", "discrete_gaussian", "auto")
    bounds = (None, (-2, 3), (1.7e18, 1.7e18 + 1e6), (1e15 + 2047.5, 1e15 + 2048.5), (-1e-50, 1e-50))
    squared = modes(kind, fixed={"n_bins": 4}, mechanism=noise, label_bounds=bounds)
    squared += modes(
        kind, mechanism=("laplace", "gaussian"), feature_sets=("singles",), label_bounds=(None, (0, 1))
    )
    poisson = modes(
        kind, fixed={"n_bins": 4, "loss": "poisson"}, mechanism=noise, label_bounds=(None, (0, 9))
    )
    return [(each, (default_data, extreme_labels)) for each in squared] + [
        (each, (counts, extreme_labels)) for each in poisson
    ]


def _random_bags():
    bounds = (None, (-2, 3), (1.7e18, 1.7e18 + 1e6), (1e15 + 2047.5, 1e15 + 2048.5), (-1e-50, 1e-50))
    losses = {
        "loss": ("likelihood", "log", "squared", "debiased"),
        "bag_size": (1, 3),
        "disjoint": (True, False),
    }
    return {
        sp.RandomBagClassifier: [
            (each, (default_data,)) for each in modes(sp.RandomBagClassifier, classes=([0, 1],), **losses)
        ]
        + [
            (each, (three_classes,)) for each in modes(sp.RandomBagClassifier, classes=([0, 1, 2],), **losses)
        ],
        sp.RandomBagRegressor: [
            (each, (default_data, extreme_labels))
            for each in modes(
                sp.RandomBagRegressor,
                disjoint=(True, False),
                bag_size=(1, 3),
                loss=("squared", "debiased"),
                label_bounds=bounds,
            )
        ],
    }


def _halfspaces():
    kind = sp.PPMHalfspaceClassifier
    plain = modes(
        kind,
        fixed={"classes": [0, 1]},
        strategy=("exact", "thinned", "greedy", "auto"),
        selection=("exponential", "permute-and-flip"),
        adjacency=BOTH,
    )
    weighted = modes(
        kind,
        fixed={"classes": [0, 1]},
        strategy=("exact", "greedy"),
        adjacency=BOTH,
        class_weight=({0: 1.0, 1: 3.7}, {0: 40.0, 1: 1.0}),
        private_label=(0, 1),
    )
    balanced = modes(kind, strategy=("thinned", "greedy"), class_weight=("balanced",), max_halfspaces=(1, 3))
    return [(each, (default_data, private_by_label, tied_rows)) for each in plain] + spread(
        weighted + balanced, (default_data, tied_rows), 1
    )


def _synthesizers():
    kind = sp.MetricPrivateSynthesizer
    ways = {"mechanism": ("flow", "hats"), "ground": ("l1", "l2", "linf")}
    flows = modes(kind, bounds=((0, 1),), epsilon=(5.0, 200.0), **ways)
    flows += modes(kind, bounds=((-10, 10),), epsilon=(50.0,), resolution=(4,), **ways)
    hamming = modes(
        kind, metric=("hamming",), bounds=((0, 1), "private", (-1e9, 1e9)), resolution=("auto", 4)
    )
    mixed = modes(
        kind,
        metric=("hamming",),
        bounds=((0, 1), "private"),
        categories=({0: ["a", "b", "c"]},),
        epsilon=(0.5, 2.0),
    )
    plain = modes(
        kind, metric=("hamming",), categories=({0: ["a", "b", "c"], 1: ["a", "b", "c"]},), epsilon=(0.5, 2.0)
    )
    return (
        [(each, (default_data, one_column)) for each in flows]
        + [(each, (default_data, one_column, far_rows)) for each in hamming]
        + [(each, (category_rows,)) for each in mixed]
        + [(each, (only_categories,)) for each in plain]
    )


def _privatizers():
    kind, norms = sp.MetricPrivatizer, ("l1", "l2", "linf")
    rows = modes(
        kind, metric=norms, mechanism=("k-norm", "exponential"), bounds=((0, 1), (-1e6, 1e6)), resolution=(4,)
    )
    rows += modes(kind, metric=norms, epsilon=(1e-3, 1.0, 1e3))
    tree = {"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"}
    distances = [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]]
    finite = modes(
        kind,
        metric=("precomputed",),
        mechanism=("optimal", "exponential", "auto"),
        distances=(distances,),
        epsilon=(0.5, 3.0),
    )
    finite += modes(
        kind,
        metric=("precomputed",),
        mechanism=("optimal",),
        distances=(distances,),
        prior=([0.7, 0.2, 0.1],),
    )
    finite += modes(
        kind,
        metric=("tree",),
        mechanism=("relaxed", "exponential", "optimal", "auto"),
        parents=(tree,),
        states=(["a", "b", "c"],),
        epsilon=(0.5, 3.0),
    )
    return [(each, (default_data, one_column)) for each in rows] + [(each, (states,)) for each in finite]


_PREPROCESSOR_DATA = (
    users_of_many_rows,
    rows_of_one_user_each,
    ties_and_extremes,
    missing_values,
    names_of_users,
    rows_with_gaps,
    far_rows,
)


def _preprocessors():
    ways = {"adjacency": BOTH, "delta": (0.0, 1e-6), "bounds": (None, (-2.0, 3.0))}
    imputers = spread(
        modes(sp.PrivateImputer, strategy=("median", "mean"), **ways), _PREPROCESSOR_DATA, 3
    ) + [
        (each, (colours, rows_of_colours))
        for each in modes(
            sp.PrivateImputer,
            strategy=("most_frequent",),
            categories=(["red", "green", "blue"],),
            add_indicator=(True,),
            adjacency=BOTH,
            delta=(0.0, 1e-6),
        )
    ]
    scalers = modes(sp.PrivateStandardScaler, **ways)
    scalers += modes(sp.PrivateStandardScaler, with_mean=(False,), with_std=(True, False), adjacency=BOTH)
    bins = modes(sp.PrivateKBinsDiscretizer, n_bins=(2, 5), **ways)
    bins += modes(sp.PrivateKBinsDiscretizer, n_bins=(7,), encode=("ordinal", "onehot"), adjacency=BOTH)
    quantiles = modes(sp.PrivateQuantileTransformer, n_quantiles=(3, 33), **ways)
    return {
        sp.PrivateImputer: imputers,
        sp.PrivateStandardScaler: spread(scalers, _PREPROCESSOR_DATA, 4),
        sp.PrivateKBinsDiscretizer: spread(bins, _PREPROCESSOR_DATA, 2),
        sp.PrivateQuantileTransformer: spread(quantiles, _PREPROCESSOR_DATA, 2),
    }


#: {class: [(instance, makers of data)]}
VARIANTS = {
    sp.UserLevelMean: _user_level_means(),
    sp.UserLevelSGDRegressor: _user_level_regressors(),
    sp.UserLevelSGDClassifier: _user_level_classifiers(),
    sp.UserLevelSelector: _selectors(),
    sp.CuratedBagGAMClassifier: _gam_classifiers(),
    sp.CuratedBagGAMRegressor: _gam_regressors(),
    **_random_bags(),
    sp.PPMHalfspaceClassifier: _halfspaces(),
    sp.MetricPrivateSynthesizer: _synthesizers(),
    sp.MetricPrivatizer: _privatizers(),
    **_preprocessors(),
}
