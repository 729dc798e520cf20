"""Variants pass scikit-learn's common checks and ours, none expected to fail; `test_common.py` has the defaults."""

import pytest
from helpers.common_checks import parametrize_variants
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from skprivate.metric import MetricPrivateSynthesizer, MetricPrivatizer
from skprivate.utils.estimator_checks import parametrize_with_privacy_checks

# What is said about epsilon and the number of columns is about the checks' data.
pytestmark = pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning")

ESTIMATORS = [
    MetricPrivateSynthesizer(epsilon=100.0, metric="wasserstein", bounds=(-10, 10), random_state=0),
    MetricPrivateSynthesizer(metric="rows", bounds=(0, 1), random_state=0),
    MetricPrivatizer(metric="l1", bounds=(-10, 10), random_state=0),
]


@pytest.mark.take_turns(9)
@parametrize_variants(ESTIMATORS)
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.take_turns(9)
@parametrize_with_privacy_checks(ESTIMATORS)
def test_privacy(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_column_names_are_checked(estimator):
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)
