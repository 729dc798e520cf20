"""Auditing: certificates for every adversary, attacks for what does leak."""

from skprivate.audit._auditor import FiniteAdversaryAuditor
from skprivate.audit._intervals import clopper_pearson
from skprivate.audit._report import AuditReport
from skprivate.audit._theorems import (
    barron_constant,
    gaussian_mixture_barron_constant,
    gaussian_mixture_loss,
    theorem1_gap,
    theorem2_gap,
    theorem3_gap,
)

__all__ = [
    "AuditReport",
    "FiniteAdversaryAuditor",
    "barron_constant",
    "clopper_pearson",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
]
