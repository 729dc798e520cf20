"""Variants of the four estimators pass the common checks too; the defaults are in `tests/test_common.py`."""

from importlib.util import find_spec

import numpy as np
import pytest
from helpers.common_checks import parametrize_variants

from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor
from skprivate.utils.estimator_checks import CheckData, default_data, parametrize_with_privacy_checks

VARIANTS = [
    CuratedBagGAMClassifier(delta=0.0, categorical_features=[]),
    CuratedBagGAMRegressor(loss="poisson", penalty=(1.0, 10.0), feature_sets="singles"),
    CuratedBagGAMRegressor(epsilon=None, feature_sets="singles"),
    CuratedBagGAMClassifier(submodel="factors"),
    CuratedBagGAMRegressor(submodel="factors", feature_sets="pairs", label_bounds=(-2, 2)),
    RandomBagClassifier(loss="debiased"),
    RandomBagRegressor(epsilon=None, label_release="mean", disjoint=False, bag_size=2),
]
_FEW = {"epochs": 10, "folds": 2, "hidden": (8,), "learning_rate": 0.1}
NETWORKS = (
    [
        RandomBagClassifier(submodel="mlp", submodel_options=_FEW),
        RandomBagRegressor(submodel="mlp", submodel_options=_FEW, bag_size=3, label_bounds=(-2, 2)),
        CuratedBagGAMClassifier(submodel="mlp", submodel_options={"epochs": 10}),
        CuratedBagGAMRegressor(submodel="mlp", submodel_options={"epochs": 10}, label_bounds=(-2, 2)),
    ]
    if find_spec("torch")
    else []
)
CHECKED = NETWORKS and [
    RandomBagClassifier(submodel="mlp"),
    RandomBagClassifier(epsilon=None, submodel="mlp", submodel_options=_FEW),
    RandomBagRegressor(submodel="mlp"),
    NETWORKS[1],
]


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
# At the default budget a network of few passes is no match for the 300 rows on which a classifier must be right: it
# has all its passes here, or exact sums.
@pytest.mark.take_turns(9)
@parametrize_variants([*VARIANTS, *CHECKED])
def test_scikit_learn(estimator, check):
    check(estimator)


def positive(estimator, rng, n_rows):
    data = default_data(estimator, rng, n_rows)
    return CheckData(data.X, np.exp(data.y) if data.y.dtype.kind == "f" else data.y, data.metadata)


@pytest.mark.take_turns(9)
@parametrize_with_privacy_checks(
    [
        CuratedBagGAMClassifier(mechanism="discrete_gaussian", penalty=1.0, feature_sets="singles"),
        CuratedBagGAMRegressor(mechanism="gaussian", label_bounds=(-2, 2)),
        CuratedBagGAMRegressor(loss="poisson", delta=0.0),
        CuratedBagGAMClassifier(submodel="factors", feature_sets="pairs"),
        RandomBagClassifier(disjoint=False, bag_size=3),
        RandomBagRegressor(label_bounds=(-2, 2), bag_size=3, loss="squared"),
        *NETWORKS,
    ],
    make_data=positive,
)
def test_privacy(estimator, check):
    check(estimator)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_no_label_survives_aggregation(epsilon):
    """Labels that are irregular numbers are found nowhere in a fitted model, only sums of at least ten."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(200, 2)), rng.normal(size=200)
    model = CuratedBagGAMRegressor(epsilon=epsilon, categorical_features="all").fit(X, y)
    assert min(table.counts.min() for table in model.bags_.tables) >= 10
    kept = np.concatenate([table.label_sums.ravel() for table in model.bags_.tables])
    assert not np.any(np.isin(kept, y))
    assert all(not np.any(np.isin(np.asarray(v, dtype=float), y)) for v in (*model.tables_, model.intercept_))
