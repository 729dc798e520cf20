"""scikit-learn's common checks and ours for the strategies, with no expected failure.

The default estimator is checked with all others in ``tests/test_common.py``.
"""

from __future__ import annotations

import pytest
from helpers.common_checks import parametrize_variants
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from skprivate.mixture import PPMHalfspaceClassifier
from skprivate.utils.estimator_checks import parametrize_with_privacy_checks

# scikit-learn's checks choose the labels: which of them is private cannot be said beforehand.
pytestmark = pytest.mark.filterwarnings("ignore:private_label is None:UserWarning")

ESTIMATORS = [
    PPMHalfspaceClassifier(epsilon=3.0, calibration_fraction=0.3, random_state=0),
    PPMHalfspaceClassifier(epsilon=3.0, strategy="greedy", selection="permute-and-flip", random_state=0),
    PPMHalfspaceClassifier(epsilon=3.0, strategy="thinned", class_weight="balanced", random_state=0),
    PPMHalfspaceClassifier(epsilon=3.0, delta=1e-6, strategy="gradient", random_state=0),
]


@pytest.mark.take_turns(9)
@parametrize_variants(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_column_names_are_checked():
    check_dataframe_column_names_consistency("PPMHalfspaceClassifier", ESTIMATORS[1])


@pytest.mark.take_turns(9)
@parametrize_with_privacy_checks(
    [
        PPMHalfspaceClassifier(strategy="greedy", calibration_fraction=0.3),
        PPMHalfspaceClassifier(delta=1e-6, strategy="gradient", calibration_fraction=0.3),
        PPMHalfspaceClassifier(
            strategy="thinned", selection="permute-and-flip", adjacency="add-remove", classes=[0, 1]
        ),
    ]
)
def test_privacy_checks(estimator, check):
    check(estimator)
