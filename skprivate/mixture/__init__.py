"""Learning from mixtures of private and public populations."""

from skprivate.mixture._planning import ppm_sample_size
from skprivate.mixture._ppm_halfspace_classifier import PPMHalfspaceClassifier, export_text
from skprivate.mixture._roles import ProtectedLabelWarning

__all__ = [
    "PPMHalfspaceClassifier",
    "ProtectedLabelWarning",
    "export_text",
    "ppm_sample_size",
]
