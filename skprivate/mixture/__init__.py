"""Learning from mixtures of private and public populations."""

from skprivate.mixture._geometry import count_supporting_pairs, products
from skprivate.mixture._ppm_halfspace_classifier import PPMHalfspaceClassifier, export_text
from skprivate.mixture._problem import selection_loss
from skprivate.mixture._roles import ProtectedLabelWarning

__all__ = ["PPMHalfspaceClassifier", "ProtectedLabelWarning", "export_text"]
