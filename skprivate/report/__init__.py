"""Reports and figures: what a guarantee, a ledger or an audit says, as a page, as JSON, as a figure."""

from skprivate.report._audit_page import audit_page
from skprivate.report._bands import BandDisplay
from skprivate.report._displays import GuaranteeDisplay, LedgerDisplay, PrivacyUtilityDisplay
from skprivate.report._privacy_report import REPORT_SCHEMA, PrivacyReport, privacy_report

__all__ = [
    "REPORT_SCHEMA",
    "BandDisplay",
    "GuaranteeDisplay",
    "LedgerDisplay",
    "PrivacyReport",
    "PrivacyUtilityDisplay",
    "audit_page",
    "privacy_report",
]
