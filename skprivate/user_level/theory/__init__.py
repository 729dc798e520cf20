"""Theory: bounds, covers and algorithms as they are published."""

from skprivate.user_level._ranges import private_range
from skprivate.user_level.means._winsorized import winsorized_mean_1d
from skprivate.user_level.theory._bounds import (
    MeanErrors,
    user_level_lower_bound,
    user_level_mean_errors,
    user_level_risk_bound,
    user_level_sample_size,
)
from skprivate.user_level.theory._parameter_cover import parameter_cover
from skprivate.user_level.theory._published import (
    PaperPlan,
    phased_descent,
    winsorized_descent,
    winsorized_mean,
)
