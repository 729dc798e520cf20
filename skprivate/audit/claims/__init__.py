"""Claims: audits of stated guarantees, and a search for neighbours that break them."""

from skprivate.audit.claims._audit import BlackBoxEvidence as BlackBoxEvidence
from skprivate.audit.claims._audit import EstimatorAudit as EstimatorAudit
from skprivate.audit.claims._audit import audit_estimator as audit_estimator
from skprivate.audit.claims._replay import ReplayEvidence as ReplayEvidence
from skprivate.audit.claims._violation import ViolationReport as ViolationReport
from skprivate.audit.claims._violation import find_violation as find_violation
