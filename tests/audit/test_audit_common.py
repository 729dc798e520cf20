"""scikit-learn's common checks, none of them expected to fail."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skprivate.audit import (
    AttributeInferenceAttack,
    FiniteAdversaryAuditor,
    LiRAAttack,
    LossThresholdAttack,
    RMIAAttack,
)

INSTANCES = [
    FiniteAdversaryAuditor(),
    FiniteAdversaryAuditor(loss="log"),
    FiniteAdversaryAuditor(certificate="paper", n_neurons=8, n_restarts=2),
    FiniteAdversaryAuditor(assumption="barron", barron_constant=1.0, support=1e6),
    LossThresholdAttack(),
    RMIAAttack(LogisticRegression()),
    RMIAAttack(Ridge()),
    LiRAAttack(LogisticRegression(), n_references=4),
    AttributeInferenceAttack(imputer=DecisionTreeClassifier()),
]


@parametrize_with_checks(INSTANCES)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", INSTANCES, ids=repr)
@pytest.mark.parametrize("check", [check_param_validation, check_dataframe_column_names_consistency])
def test_further_checks(estimator, check):
    check(type(estimator).__name__, estimator)
