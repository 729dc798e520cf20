"""scikit-learn compatible estimators with privacy guarantees computed from what was drawn."""

__version__ = "0.1.0"

from skprivate.user_level import (
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
)

__all__ = ["UserLevelMean", "UserLevelSGDClassifier", "UserLevelSGDRegressor", "UserLevelSelector"]
