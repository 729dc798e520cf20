"""Every way in which the private estimators may be set up, with data that suit it: what the long replay goes through.

A new estimator, or a new option that changes what is drawn, belongs in here.
"""

import dataclasses

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

import skprivate as sp
from skprivate.privacy import public_generator
from skprivate.utils.estimator_checks import CheckData, default_data


def _candidates():
    """Three regressors, two of which tie."""
    rng = public_generator(0)
    X = rng.normal(size=(50, 2))
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] + rng.normal(size=50)
    one, two, three = (LinearRegression().fit(X, y) for _ in range(3))
    two.coef_ = one.coef_[[2, 1, 0]]
    three.coef_ = np.zeros(3)
    return [(name, FrozenEstimator(m)) for name, m in (("one", one), ("two", two), ("three", three))]


def _classifiers():
    X = np.zeros((4, 3))
    return [
        (
            f"always {k}",
            FrozenEstimator(DummyClassifier(strategy="constant", constant=k).fit(X, [0, 1, 0, 1])),
        )
        for k in (0, 1)
    ]


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
    names = data.metadata["user_ids"].astype(str)
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


def private_by_label(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return CheckData(data.X, data.y)


def category_rows(estimator, rng, n_rows):
    X = np.empty((n_rows, 2), dtype=object)
    X[:, 0] = rng.choice(["a", "b", "c"], n_rows)
    X[:, 1] = rng.uniform(size=n_rows)
    return CheckData(X)


def states(estimator, rng, n_rows):
    values = np.arange(3) if estimator.states is None else np.asarray(estimator.states)
    return CheckData(rng.choice(values, size=(n_rows, 1)).astype(object))


_USER_DATA = (default_data, users_of_many_rows, rows_of_one_user_each, ties_and_extremes, wide_rows)
_TREE = {"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"}
_DISTANCES = [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]]

#: {class: [(instance, makers of data)]}
VARIANTS = {
    sp.UserLevelMean: [
        (sp.UserLevelMean(adjacency=adjacency, aggregation=aggregation), _USER_DATA)
        for adjacency in ("replace-one", "add-remove")
        for aggregation in ("mean", "robust")
    ],
    sp.UserLevelSGDRegressor: [
        *(
            (sp.UserLevelSGDRegressor(adjacency=adjacency, aggregation=aggregation, loss=loss), _USER_DATA)
            for adjacency in ("replace-one", "add-remove")
            for aggregation in ("mean", "robust")
            for loss in ("squared_error", "huber")
        ),
        *(
            (sp.UserLevelSGDRegressor(adjacency=adjacency, solver=solver), _USER_DATA)
            for adjacency in ("replace-one", "add-remove")
            for solver in ("phased", "moments")
        ),
        (sp.UserLevelSGDRegressor(accounting="paper", max_iter=3), _USER_DATA),
        (sp.UserLevelSGDRegressor(alpha=0.0, fit_intercept=False), _USER_DATA),
    ],
    sp.UserLevelSGDClassifier: [
        (sp.UserLevelSGDClassifier(adjacency=adjacency, loss=loss, classes=[0, 1]), _USER_DATA)
        for adjacency in ("replace-one", "add-remove")
        for loss in ("log_loss", "smoothed_hinge")
    ],
    sp.UserLevelSelector: [
        *(
            (sp.UserLevelSelector(_candidates(), adjacency=a), _USER_DATA[:4])
            for a in ("replace-one", "add-remove")
        ),
        (sp.UserLevelSelector(_candidates(), rule="means"), _USER_DATA[:4]),
        (sp.UserLevelSelector(_classifiers()), _USER_DATA[:4]),
    ],
    sp.CuratedBagGAMClassifier: [
        (sp.CuratedBagGAMClassifier(mechanism=mechanism, classes=[0, 1], n_bins=4), (default_data,))
        for mechanism in ("laplace", "gaussian", "discrete_gaussian")
    ],
    sp.CuratedBagGAMRegressor: [
        (sp.CuratedBagGAMRegressor(mechanism=mechanism, label_bounds=bounds, n_bins=4), (default_data,))
        for mechanism in ("laplace", "gaussian")
        for bounds in (None, (-2, 3), (1.7e18, 1.7e18 + 1e6))
    ],
    sp.RandomBagClassifier: [
        (sp.RandomBagClassifier(disjoint=disjoint, bag_size=3, classes=[0, 1]), (default_data,))
        for disjoint in (True, False)
    ],
    sp.RandomBagRegressor: [
        (sp.RandomBagRegressor(disjoint=disjoint, bag_size=3, label_bounds=bounds), (default_data,))
        for disjoint in (True, False)
        for bounds in (None, (-2, 3), (1.7e18, 1.7e18 + 1e6))
    ],
    sp.PPMHalfspaceClassifier: [
        (
            sp.PPMHalfspaceClassifier(strategy=strategy, selection=rule, adjacency=adjacency, classes=[0, 1]),
            (default_data, private_by_label),
        )
        for strategy in ("exact", "thinned", "greedy")
        for rule in ("exponential", "permute-and-flip")
        for adjacency in ("replace-one", "add-remove")
    ],
    sp.MetricPrivateSynthesizer: [
        (sp.MetricPrivateSynthesizer(bounds=(0, 1), epsilon=50.0), (default_data,)),
        (sp.MetricPrivateSynthesizer(bounds=(-10, 10), ground="l1", epsilon=50.0), (default_data,)),
        (sp.MetricPrivateSynthesizer(bounds=(0, 1), mechanism="hats", epsilon=50.0), (default_data,)),
        (
            sp.MetricPrivateSynthesizer(bounds=(0, 1), mechanism="hats", ground="l1", epsilon=50.0),
            (default_data,),
        ),
        (sp.MetricPrivateSynthesizer(metric="hamming", bounds=(0, 1)), (default_data,)),
        (sp.MetricPrivateSynthesizer(metric="hamming", bounds="private"), (default_data,)),
        (
            sp.MetricPrivateSynthesizer(
                metric="hamming", bounds=(0, 1), categories={0: ["a", "b", "c"]}, epsilon=2.0
            ),
            (category_rows,),
        ),
    ],
    sp.MetricPrivatizer: [
        *(
            (
                sp.MetricPrivatizer(metric=metric, mechanism=mechanism, bounds=(0, 1), resolution=4),
                (default_data,),
            )
            for metric in ("l1", "l2", "linf")
            for mechanism in ("k-norm", "exponential")
        ),
        *((sp.MetricPrivatizer(metric=metric), (default_data,)) for metric in ("l1", "l2", "linf")),
        *(
            (sp.MetricPrivatizer(metric="precomputed", mechanism=mechanism, distances=_DISTANCES), (states,))
            for mechanism in ("optimal", "exponential")
        ),
        (
            sp.MetricPrivatizer(
                metric="tree",
                parents={"a": "r", "b": "r", "c": "s", "r": "t", "s": "t"},
                states=["a", "b", "c"],
            ),
            (states,),
        ),
    ],
}
