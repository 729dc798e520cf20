"""Claims: audits of stated guarantees, and a search for neighbours that break them."""

from skprivate.audit.claims._audit import BlackBoxEvidence, EstimatorAudit, audit_estimator
from skprivate.audit.claims._replay import ReplayEvidence
from skprivate.audit.claims._violation import ViolationReport, find_violation

__all__ = [
    "BlackBoxEvidence",
    "EstimatorAudit",
    "ReplayEvidence",
    "ViolationReport",
    "audit_estimator",
    "find_violation",
]
