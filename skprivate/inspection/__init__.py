"""Whole models: what a pipeline or an ensemble promises, which of its steps would leak, and a report on it."""

from skprivate.inspection._check_pipeline import PipelineReport, StepReport, check_pipeline
from skprivate.inspection._guarantee_of import NoGuaranteeError, count, guarantee_of, to_release, walk
from skprivate.inspection._quote import charged_to, quote
from skprivate.inspection._single import is_private, maps_by_row, releases_when_transforming
from skprivate.inspection._steps import Place, Role, Step, check_widths, objects_in

__all__ = ["NoGuaranteeError", "PipelineReport", "StepReport", "check_pipeline", "guarantee_of", "quote", "to_release"]
