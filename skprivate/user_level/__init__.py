"""Learning with user-level privacy (Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh 2021)."""

from skprivate.user_level._classifier import UserLevelSGDClassifier
from skprivate.user_level._losses import CustomLoss
from skprivate.user_level._mean import UserLevelMean
from skprivate.user_level._regressor import UserLevelSGDRegressor
from skprivate.user_level._selector import UserLevelSelector
from skprivate.user_level._settled import UnscaledFeaturesWarning
from skprivate.user_level._sgd import TooFewUsersWarning

__all__ = [
    "CustomLoss",
    "TooFewUsersWarning",
    "UnscaledFeaturesWarning",
    "UserLevelMean",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
]
