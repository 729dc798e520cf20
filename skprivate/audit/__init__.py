"""Auditing: certificates for every adversary, attacks for what does leak."""

from skprivate.audit._attack_probabilities import attack_probabilities
from skprivate.audit._attack_report import AttackReport, RateAtThreshold, attack_report
from skprivate.audit._attribute import AttributeInferenceAttack, AttributeReport
from skprivate.audit._auditor import FiniteAdversaryAuditor
from skprivate.audit._class_outputs import output_summary
from skprivate.audit._draw_audit import DrawAudit, audit_draws
from skprivate.audit._draw_laws import LawTest
from skprivate.audit._epsilon import epsilon_lower_bound
from skprivate.audit._estimator_audit import audit_estimator
from skprivate.audit._estimator_report import EstimatorAudit
from skprivate.audit._function_audit import ReleaseAudit, audit_function, audit_outputs
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit._label_audit import LabelAudit, audit_labels
from skprivate.audit._lira import LiRAAttack
from skprivate.audit._loss_threshold import LossThresholdAttack
from skprivate.audit._membership import MembershipAttack
from skprivate.audit._report import AuditReport
from skprivate.audit._rmia import RMIAAttack
from skprivate.audit._theorem_bounds import TheoremBound, theorem_bound
from skprivate.audit._theorems import (
    barron_constant,
    gaussian_mixture_barron_constant,
    gaussian_mixture_loss,
    theorem1_gap,
    theorem2_gap,
    theorem3_gap,
)
from skprivate.audit._violations import ViolationReport, find_violation

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
