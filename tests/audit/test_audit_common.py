"""Variants pass scikit-learn's common checks, none expected to fail; `tests/test_common.py` has the defaults."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)

from skprivate.audit import (
    FiniteAdversaryAuditor,
    LiRAAttack,
    RMIAAttack,
)

INSTANCES = [
    FiniteAdversaryAuditor(loss="log"),
    FiniteAdversaryAuditor(assumption="barron", barron_constant=1.0, support=1e6),
    RMIAAttack(Ridge()),
    LiRAAttack(LogisticRegression(), n_references=4),
]


@parametrize_with_checks(INSTANCES)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", INSTANCES, ids=repr)
@pytest.mark.parametrize("check", [check_param_validation, check_dataframe_column_names_consistency])
def test_further_checks(estimator, check):
    check(type(estimator).__name__, estimator)
