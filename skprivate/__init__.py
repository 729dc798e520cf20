"""scikit-learn compatible estimators with privacy guarantees computed from what was drawn.

Names are imported when they are first used: a command that reads a ledger does not wait for all estimators.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from skprivate.aggregate import (
        CuratedBagGAMClassifier,
        CuratedBagGAMRegressor,
        CuratedBags,
        RandomBagClassifier,
        RandomBagRegressor,
        make_curated_bags,
        make_random_bags,
        private_counts,
    )
    from skprivate.audit import FiniteAdversaryAuditor, audit_estimator
    from skprivate.inspection import NoGuaranteeError, check_pipeline, guarantee_of, to_release
    from skprivate.metric import MetricPrivateSynthesizer, MetricPrivatizer, PrivateTableSynthesizer
    from skprivate.mixture import PPMHalfspaceClassifier
    from skprivate.model_selection import PrivateSearchCV
    from skprivate.preprocessing import make_private_pipeline
    from skprivate.privacy import BudgetExceededError, PrivacyGuarantee, PrivacyLedger, SimulatedNoiseWarning
    from skprivate.report import privacy_report
    from skprivate.user_level import UserLevelMean, UserLevelSelector, UserLevelSGDClassifier, UserLevelSGDRegressor

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
    "PrivateSearchCV",
    "PrivateTableSynthesizer",
    "RandomBagClassifier",
    "RandomBagRegressor",
    "SimulatedNoiseWarning",
    "UserLevelMean",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
    "audit_estimator",
    "check_pipeline",
    "guarantee_of",
    "make_curated_bags",
    "make_private_pipeline",
    "make_random_bags",
    "privacy_report",
    "private_counts",
    "to_release",
]

#: Where each name is.
_PLACES = {
    "BudgetExceededError": "privacy",
    "CuratedBagGAMClassifier": "aggregate",
    "CuratedBagGAMRegressor": "aggregate",
    "CuratedBags": "aggregate",
    "FiniteAdversaryAuditor": "audit",
    "MetricPrivateSynthesizer": "metric",
    "MetricPrivatizer": "metric",
    "NoGuaranteeError": "inspection",
    "PPMHalfspaceClassifier": "mixture",
    "PrivacyGuarantee": "privacy",
    "PrivacyLedger": "privacy",
    "PrivateSearchCV": "model_selection",
    "PrivateTableSynthesizer": "metric",
    "RandomBagClassifier": "aggregate",
    "RandomBagRegressor": "aggregate",
    "SimulatedNoiseWarning": "privacy",
    "UserLevelMean": "user_level",
    "UserLevelSGDClassifier": "user_level",
    "UserLevelSGDRegressor": "user_level",
    "UserLevelSelector": "user_level",
    "audit_estimator": "audit",
    "check_pipeline": "inspection",
    "guarantee_of": "inspection",
    "make_curated_bags": "aggregate",
    "make_private_pipeline": "preprocessing",
    "make_random_bags": "aggregate",
    "privacy_report": "report",
    "private_counts": "aggregate",
    "to_release": "inspection",
}
#: Packages and modules that are reached as attributes.
_MODULES = {*_PLACES.values(), "datasets", "papers", "partitions", "preprocessing", "utils"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(import_module(f"skprivate.{_PLACES[name]}"), name)
        globals()[name] = value  # not asked for again
        return value
    if name in _MODULES:
        return import_module(f"skprivate.{name}")
    raise AttributeError(f"module 'skprivate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
