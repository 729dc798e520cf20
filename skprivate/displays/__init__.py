"""Pictures of what estimators promise and what audits find; matplotlib is imported when something is drawn."""

from skprivate.displays._audit import AuditDisplay

__all__ = ["AuditDisplay"]
