"""Whole models: what a pipeline or an ensemble promises, and which of its steps would leak."""

from skprivate.inspection._guarantee_of import NoGuaranteeError, guarantee_of
from skprivate.inspection._report import PipelineReport, StepReport, check_pipeline
from skprivate.inspection._without_ledger import without_ledger

__all__ = [
    "NoGuaranteeError",
    "PipelineReport",
    "StepReport",
    "check_pipeline",
    "guarantee_of",
    "without_ledger",
]
