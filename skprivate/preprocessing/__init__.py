"""Transformers from a data frame to input of a private estimator, with public constants or private ones."""

from skprivate._messages import TooFewUnitsWarning
from skprivate.preprocessing._additive_pipeline import make_additive_pipeline
from skprivate.preprocessing._curves import CurveBands
from skprivate.preprocessing._learning import (
    FEATURES_ONLY,
    NO_DATA,
    inner_models,
    needs_fit,
    speaks_of_rows,
    why_it_learns,
)
from skprivate.preprocessing._make_private_pipeline import make_private_pipeline
from skprivate.preprocessing._private_imputer import PrivateImputer
from skprivate.preprocessing._private_k_bins_discretizer import PrivateKBinsDiscretizer
from skprivate.preprocessing._private_one_hot_encoder import PrivateOneHotEncoder
from skprivate.preprocessing._private_pipeline import PrivatePipeline, cost_of_finding, states_budget
from skprivate.preprocessing._private_quantile_transformer import PrivateQuantileTransformer
from skprivate.preprocessing._private_spline_transformer import PrivateSplineTransformer
from skprivate.preprocessing._private_standard_scaler import PrivateStandardScaler
from skprivate.preprocessing._public_encoders import (
    PublicCalendar,
    PublicNumbers,
    PublicOneHotEncoder,
    PublicOrdinalEncoder,
)
from skprivate.preprocessing._public_scaler import PublicScaler
from skprivate.preprocessing._row_by_row import RowByRow

__all__ = [
    "CurveBands",
    "PrivateImputer",
    "PrivateKBinsDiscretizer",
    "PrivateOneHotEncoder",
    "PrivateQuantileTransformer",
    "PrivateSplineTransformer",
    "PrivateStandardScaler",
    "PublicOneHotEncoder",
    "PublicOrdinalEncoder",
    "PublicScaler",
    "RowByRow",
    "make_additive_pipeline",
]
