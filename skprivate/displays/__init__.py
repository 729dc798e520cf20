"""Pictures of what estimators promise and what audits find; matplotlib is imported when something is drawn."""

from skprivate.displays._audit import AuditDisplay
from skprivate.displays._cells import LargestCellsDisplay

__all__ = ["AuditDisplay", "LargestCellsDisplay"]
