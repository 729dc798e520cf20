"""Learning with user-level privacy (Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh 2021)."""

from skprivate.user_level._classifier import UserLevelSGDClassifier
from skprivate.user_level._inference import CoefSummary
from skprivate.user_level._losses import CustomLoss, HuberLoss, LogisticLoss, SquaredLoss
from skprivate.user_level._mean import UserLevelMean
from skprivate.user_level._parameter_cover import parameter_cover
from skprivate.user_level._planning import user_level_mean_errors, user_level_sample_size
from skprivate.user_level._problems import Objective, UserData, UserGroups, UserProblem, encode_users, number_of_users
from skprivate.user_level._queries import UserLevelQueries
from skprivate.user_level._ranges import n_bins, select_middle, snap
from skprivate.user_level._regressor import UserLevelSGDRegressor
from skprivate.user_level._selector import UserLevelSelector
from skprivate.user_level._sgd import TooFewUsersWarning
from skprivate.user_level.descent._descent import UnscaledFeaturesWarning, project
from skprivate.user_level.means._winsorized import winsorized_means

__all__ = [
    "CoefSummary",
    "CustomLoss",
    "TooFewUsersWarning",
    "UnscaledFeaturesWarning",
    "UserLevelMean",
    "UserLevelQueries",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
    "parameter_cover",
    "user_level_mean_errors",
    "user_level_sample_size",
]
