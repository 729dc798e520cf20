"""Learning with user-level privacy (Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh 2021)."""

from skprivate.user_level._classifier import UserLevelSGDClassifier
from skprivate.user_level._losses import CustomLoss
from skprivate.user_level._mean import UserLevelMean
from skprivate.user_level._queries import UserLevelQueries
from skprivate.user_level._regressor import UserLevelSGDRegressor
from skprivate.user_level._selector import UserLevelSelector
from skprivate.user_level._sgd import TooFewUsersWarning
from skprivate.user_level.descent._descent import UnscaledFeaturesWarning
from skprivate.user_level.theory import (
    parameter_cover,
    user_level_lower_bound,
    user_level_mean_errors,
    user_level_risk_bound,
    user_level_sample_size,
)

__all__ = [
    "CustomLoss",
    "TooFewUsersWarning",
    "UnscaledFeaturesWarning",
    "UserLevelMean",
    "UserLevelQueries",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
    "parameter_cover",
    "user_level_lower_bound",
    "user_level_mean_errors",
    "user_level_risk_bound",
    "user_level_sample_size",
]
