"""Whole models: what a pipeline or an ensemble promises, which of its steps would leak, and a report on it."""

from skprivate._report import REPORT_SCHEMA, PrivacyReport
from skprivate.inspection._check_pipeline import PipelineReport, StepReport, check_pipeline
from skprivate.inspection._guarantee_of import NoGuaranteeError, guarantee_of
from skprivate.inspection._privacy_report import privacy_report
from skprivate.inspection._quote import quote
from skprivate.inspection._to_release import to_release

__all__ = [
    "REPORT_SCHEMA",
    "NoGuaranteeError",
    "PipelineReport",
    "PrivacyReport",
    "StepReport",
    "check_pipeline",
    "guarantee_of",
    "privacy_report",
    "quote",
    "to_release",
]
