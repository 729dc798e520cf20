"""Variants pass scikit-learn's common checks, none expected to fail; `tests/test_common.py` has the defaults."""

import pytest
from helpers.common_checks import parametrize_variants
from sklearn.linear_model import LogisticRegression, Ridge

from skprivate.audit import FiniteAdversaryAuditor, LiRAAttack, RMIAAttack

INSTANCES = [
    FiniteAdversaryAuditor(loss="log"),
    FiniteAdversaryAuditor(assumption="barron", barron_constant=1.0, support=1e6),
    RMIAAttack(Ridge()),
    LiRAAttack(LogisticRegression(), n_references=4),
]


@pytest.mark.take_turns(9)
@parametrize_variants(INSTANCES)
def test_common_checks(estimator, check):
    check(estimator)
