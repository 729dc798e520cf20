"""scikit-learn compatible estimators with privacy guarantees computed from what was drawn."""

__version__ = "0.1.0"

from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    RandomBagClassifier,
    RandomBagRegressor,
    make_curated_bags,
    make_random_bags,
)
from skprivate.mixture import PPMHalfspaceClassifier, ppm_sample_size
from skprivate.user_level import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor

__all__ = [
    "CuratedBagGAMClassifier",
    "CuratedBagGAMRegressor",
    "PPMHalfspaceClassifier",
    "RandomBagClassifier",
    "RandomBagRegressor",
    "UserLevelMean",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "make_curated_bags",
    "make_random_bags",
    "ppm_sample_size",
]
