"""A privacy report: one dictionary of facts, and the page made of it."""

from skprivate._report._privacy_report import PrivacyReport, make_report
from skprivate._report._schema import REPORT_SCHEMA

__all__ = ["REPORT_SCHEMA", "PrivacyReport", "make_report"]
