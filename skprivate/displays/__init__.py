"""Pictures of what estimators promise and what audits find; matplotlib is imported when something is drawn."""

from skprivate.displays._audit import AuditDisplay
from skprivate.displays._guarantee import GuaranteeDisplay
from skprivate.displays._ledger import LedgerDisplay
from skprivate.displays._utility import PrivacyUtilityDisplay

__all__ = [
    "AuditDisplay",
    "GuaranteeDisplay",
    "LedgerDisplay",
    "PrivacyUtilityDisplay",
]
