"""scikit-learn compatible estimators with privacy guarantees computed from what was drawn."""

__version__ = "0.1.0"

from skprivate import displays, model_selection, preprocessing  # noqa: F401 - reached as attributes
from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    CuratedBags,
    RandomBagClassifier,
    RandomBagRegressor,
    make_curated_bags,
    make_random_bags,
)
from skprivate.audit import (
    FiniteAdversaryAuditor,
    attack_report,
    audit_estimator,
    epsilon_lower_bound,
)
from skprivate.inspection import NoGuaranteeError, check_pipeline, guarantee_of
from skprivate.metric import (
    MetricPrivateSynthesizer,
    MetricPrivatizer,
)
from skprivate.mixture import PPMHalfspaceClassifier
from skprivate.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
    SimulatedNoiseWarning,
    open_release,
)
from skprivate.user_level import (
    TooFewUsersWarning,
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
)

__all__ = [
    "BudgetExceededError",
    "CuratedBagGAMClassifier",
    "CuratedBagGAMRegressor",
    "CuratedBags",
    "FiniteAdversaryAuditor",
    "MetricPrivateSynthesizer",
    "MetricPrivatizer",
    "NoGuaranteeError",
    "PPMHalfspaceClassifier",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "RandomBagClassifier",
    "RandomBagRegressor",
    "SimulatedNoiseWarning",
    "TooFewUsersWarning",
    "UserLevelMean",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
    "attack_report",
    "audit_estimator",
    "check_pipeline",
    "epsilon_lower_bound",
    "guarantee_of",
    "make_curated_bags",
    "make_random_bags",
    "open_release",
]
