"""Auditing: certificates for every adversary, attacks for what does leak."""

from skprivate.audit._auditor import AuditReport, FiniteAdversaryAuditor
from skprivate.audit._class_outputs import output_summary
from skprivate.audit._epsilon import epsilon_lower_bound
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit.attacks._attacks import LiRAAttack, LossThresholdAttack, RMIAAttack
from skprivate.audit.attacks._attribute import AttributeInferenceAttack, AttributeReport
from skprivate.audit.attacks._membership import MembershipAttack
from skprivate.audit.attacks._probabilities import attack_probabilities
from skprivate.audit.attacks._report import AttackReport, RateAtThreshold, attack_report
from skprivate.audit.certificates._theory import (
    TheoremBound,
    barron_constant,
    gaussian_mixture_barron_constant,
    gaussian_mixture_loss,
    theorem1_gap,
    theorem2_gap,
    theorem3_gap,
    theorem_bound,
)
from skprivate.audit.claims import EstimatorAudit, ViolationReport, audit_estimator, find_violation

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
    "TheoremBound",
    "ViolationReport",
    "attack_probabilities",
    "attack_report",
    "audit_estimator",
    "barron_constant",
    "clopper_pearson",
    "epsilon_lower_bound",
    "find_violation",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "output_summary",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
    "theorem_bound",
]
