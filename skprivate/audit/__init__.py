"""Auditing: certificates for every adversary, attacks for what does leak, audits of stated guarantees."""

from skprivate.audit._auditor import FiniteAdversaryAuditor
from skprivate.audit._class_outputs import as_labels, is_labels, output_summary
from skprivate.audit._epsilon import epsilon_lower_bound
from skprivate.audit.attacks._attacks import LiRAAttack, LossThresholdAttack, RMIAAttack, attack_probabilities
from skprivate.audit.attacks._attribute import AttributeInferenceAttack
from skprivate.audit.attacks._membership import MembershipAttack
from skprivate.audit.attacks._report import attack_report
from skprivate.audit.certificates import binary_entropy, certify_labels, inside_support, support_diameter
from skprivate.audit.claims import audit_estimator, find_violation

__all__ = [
    "AttributeInferenceAttack",
    "FiniteAdversaryAuditor",
    "LiRAAttack",
    "LossThresholdAttack",
    "MembershipAttack",
    "RMIAAttack",
    "attack_probabilities",
    "attack_report",
    "audit_estimator",
    "epsilon_lower_bound",
    "find_violation",
    "output_summary",
]
