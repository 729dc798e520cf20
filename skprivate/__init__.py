"""scikit-learn compatible estimators with privacy guarantees computed from what was drawn."""

__version__ = "0.1.0"

from skprivate.mixture import PPMHalfspaceClassifier, ppm_sample_size
from skprivate.user_level import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor

__all__ = [
    "PPMHalfspaceClassifier",
    "UserLevelMean",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "ppm_sample_size",
]
