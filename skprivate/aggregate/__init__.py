"""Learning from aggregated labels (Chen, Fu, Karbasi, Mirrokni 2023)."""

from skprivate.aggregate._bag_losses import bag_score
from skprivate.aggregate._gam_classifier import CuratedBagGAMClassifier
from skprivate.aggregate._gam_regressor import CuratedBagGAMRegressor
from skprivate.aggregate._random_bag_classifier import RandomBagClassifier
from skprivate.aggregate._random_bag_regressor import RandomBagRegressor
from skprivate.aggregate.counts._private_counts import PrivateCounts, private_counts
from skprivate.aggregate.random._bags import RandomBags, make_random_bags
from skprivate.aggregate.random._quadratic import debiasing
from skprivate.aggregate.sources._release_frames import release_frames
from skprivate.aggregate.sources._sql import bags_from_sql
from skprivate.aggregate.tables._aggregation import make_curated_bags
from skprivate.aggregate.tables._curated_bags import CuratedBags

__all__ = [
    "CuratedBagGAMClassifier",
    "CuratedBagGAMRegressor",
    "CuratedBags",
    "PrivateCounts",
    "RandomBagClassifier",
    "RandomBagRegressor",
    "RandomBags",
    "bag_score",
    "bags_from_sql",
    "make_curated_bags",
    "make_random_bags",
    "private_counts",
    "release_frames",
]
