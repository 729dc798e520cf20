"""Variants pass scikit-learn's common checks and ours, none expected to fail; `test_common.py` has the defaults."""

from __future__ import annotations

import pytest
from helpers.common_checks import parametrize_variants
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from skprivate.user_level import UserLevelMean, UserLevelSelector, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.utils.estimator_checks import parametrize_with_privacy_checks

# The suite's data sets have a handful of users, which is exactly what this warning is about.
pytestmark = pytest.mark.filterwarnings("ignore:.*are too few to:skprivate.user_level.TooFewUsersWarning")

CONSTANTS = [
    (f"constant {value}", FrozenEstimator(DummyRegressor(strategy="constant", constant=value).fit([[0.0]], [0.0])))
    for value in (0.0, 1.0)
]
ESTIMATORS = [
    UserLevelSelector(CONSTANTS, rule="means"),
    UserLevelSGDRegressor(solver="sgd", adjacency="add-remove"),
    UserLevelSGDRegressor(adjacency="add-remove", aggregation="mean", loss="huber"),
    UserLevelSGDClassifier(loss="smoothed_hinge", adjacency="add-remove"),
    UserLevelMean(adjacency="add-remove", aggregation="robust"),
]


@pytest.mark.take_turns(9)
@parametrize_variants(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.take_turns(9)
@parametrize_with_privacy_checks(ESTIMATORS)
def test_privacy_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_column_names_are_checked(estimator):
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)
