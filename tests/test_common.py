"""Every public estimator passes scikit-learn's common checks and ours: whatever is added is found here.

No expected failures. Variants of an estimator are checked in the tests of its package.
"""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skprivate.utils.discovery import all_estimators
from skprivate.utils.estimator_checks import parametrize_with_privacy_checks

# What an estimator says about data that are too few is about the checks' data, not about the estimator.
pytestmark = pytest.mark.filterwarnings("ignore:.*too few:UserWarning")


#: What cannot be guessed: arguments of estimators that have required ones.
ARGUMENTS = {
    "estimator": DecisionTreeClassifier(max_depth=2),  # fits references of one class, too
    "estimators": [
        (
            f"constant {value}",
            FrozenEstimator(DummyRegressor(strategy="constant", constant=value).fit([[0]], [0])),
        )
        for value in (0.0, 1.0)
    ],
}
#: Public knowledge without which an estimator refuses to fit.
NEEDED = {
    "PublicOneHotEncoder": {"categories": [0, 1, 2]},
    "PublicOrdinalEncoder": {"categories": [0, 1, 2]},
}


def _instance(estimator_class):
    parameters = inspect.signature(estimator_class).parameters.values()
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    needed = NEEDED.get(estimator_class.__name__, {})
    return estimator_class(**{name: ARGUMENTS[name] for name in required}, **needed)


ESTIMATORS = [_instance(estimator_class) for _, estimator_class in all_estimators()]


def test_estimators_are_found():
    names = dict(all_estimators())
    assert {"PublicScaler", "UserLevelSGDRegressor"} <= set(names)
    assert all(issubclass(estimator_class, BaseEstimator) for estimator_class in names.values())


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", [check_param_validation, check_dataframe_column_names_consistency])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_outside_the_suite(estimator, check):
    check(type(estimator).__name__, estimator)


@parametrize_with_privacy_checks(ESTIMATORS)
def test_privacy(estimator, check):
    check(estimator)
