"""Learning from mixtures of private and public populations."""

from skprivate.mixture._planning import ppm_sample_size
from skprivate.mixture._ppm_halfspace_classifier import PPMHalfspaceClassifier

__all__ = ["PPMHalfspaceClassifier", "ppm_sample_size"]
