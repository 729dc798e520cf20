"""Pictures of guarantees, ledgers and the price of utility; matplotlib is imported when something is drawn."""

from skprivate.displays._guarantee import GuaranteeDisplay
from skprivate.displays._ledger import LedgerDisplay
from skprivate.displays._utility import PrivacyUtilityDisplay

__all__ = [
    "GuaranteeDisplay",
    "LedgerDisplay",
    "PrivacyUtilityDisplay",
]
