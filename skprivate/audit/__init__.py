"""Auditing: certificates for every adversary, attacks for what does leak."""

from skprivate.audit._attack_outputs import attack_outputs
from skprivate.audit._attack_report import AttackReport, RateAtThreshold, attack_report
from skprivate.audit._attribute import AttributeInferenceAttack, AttributeReport
from skprivate.audit._auditor import FiniteAdversaryAuditor
from skprivate.audit._epsilon import epsilon_lower_bound
from skprivate.audit._estimator_audit import EstimatorAudit, audit_estimator
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit._label_audit import LabelAudit, audit_labels
from skprivate.audit._lira import LiRAAttack
from skprivate.audit._loss_threshold import LossThresholdAttack
from skprivate.audit._membership import MembershipAttack
from skprivate.audit._outputs import output_summary
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

__all__ = [
    "AttackReport",
    "AttributeInferenceAttack",
    "AttributeReport",
    "AuditReport",
    "EstimatorAudit",
    "FiniteAdversaryAuditor",
    "LabelAudit",
    "LiRAAttack",
    "LossThresholdAttack",
    "MembershipAttack",
    "RMIAAttack",
    "RateAtThreshold",
    "TheoremBound",
    "attack_outputs",
    "attack_report",
    "audit_estimator",
    "audit_labels",
    "barron_constant",
    "clopper_pearson",
    "epsilon_lower_bound",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "output_summary",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
    "theorem_bound",
]
