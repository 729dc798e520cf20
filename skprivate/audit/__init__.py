"""Auditing: certificates for every adversary, attacks for what does leak."""

from skprivate.audit._attack_report import AttackReport, RateAtThreshold, attack_report
from skprivate.audit._attribute import AttributeInferenceAttack, AttributeReport
from skprivate.audit._auditor import FiniteAdversaryAuditor
from skprivate.audit._epsilon import epsilon_lower_bound
from skprivate.audit._estimator_audit import audit_estimator
from skprivate.audit._estimator_report import EstimatorAudit
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit._lira import LiRAAttack
from skprivate.audit._loss_threshold import LossThresholdAttack
from skprivate.audit._membership import MembershipAttack
from skprivate.audit._report import AuditReport
from skprivate.audit._rmia import RMIAAttack
from skprivate.audit._theorems import (
    barron_constant,
    gaussian_mixture_barron_constant,
    gaussian_mixture_loss,
    theorem1_gap,
    theorem2_gap,
    theorem3_gap,
)

__all__ = [
    "AttackReport",
    "AttributeInferenceAttack",
    "AttributeReport",
    "AuditReport",
    "EstimatorAudit",
    "FiniteAdversaryAuditor",
    "LiRAAttack",
    "LossThresholdAttack",
    "MembershipAttack",
    "RMIAAttack",
    "RateAtThreshold",
    "attack_report",
    "audit_estimator",
    "barron_constant",
    "clopper_pearson",
    "epsilon_lower_bound",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
]
