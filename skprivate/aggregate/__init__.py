"""Learning from aggregated labels (Chen, Fu, Karbasi, Mirrokni 2023)."""

from skprivate.aggregate._aggregation import make_curated_bags
from skprivate.aggregate._curated_bags import BagTable, CuratedBags
from skprivate.aggregate._gam_classifier import CuratedBagGAMClassifier
from skprivate.aggregate._gam_regressor import CuratedBagGAMRegressor

__all__ = [
    "BagTable",
    "CuratedBagGAMClassifier",
    "CuratedBagGAMRegressor",
    "CuratedBags",
    "make_curated_bags",
]
