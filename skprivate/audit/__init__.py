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
from skprivate.audit.claims._draw_audit import DrawAudit, audit_draws
from skprivate.audit.claims._draw_laws import LawTest
from skprivate.audit.claims._estimator_audit import audit_estimator
from skprivate.audit.claims._estimator_report import EstimatorAudit
from skprivate.audit.claims._function_audit import ReleaseAudit, audit_function, audit_outputs
from skprivate.audit.claims._label_audit import LabelAudit, audit_labels
from skprivate.audit.claims._violations import ViolationReport, find_violation

__all__ = [
    "AttackReport",
    "AttributeInferenceAttack",
    "AttributeReport",
    "AuditReport",
    "DrawAudit",
    "EstimatorAudit",
    "FiniteAdversaryAuditor",
    "LabelAudit",
    "LawTest",
    "LiRAAttack",
    "LossThresholdAttack",
    "MembershipAttack",
    "RMIAAttack",
    "RateAtThreshold",
    "ReleaseAudit",
    "TheoremBound",
    "ViolationReport",
    "attack_probabilities",
    "attack_report",
    "audit_draws",
    "audit_estimator",
    "audit_function",
    "audit_labels",
    "audit_outputs",
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
