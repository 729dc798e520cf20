"""Metric privacy: synthetic data, row-wise randomisation, and the geometry that limits both."""

from skprivate.metric._ball import Ball
from skprivate.metric._closed_forms import (
    boolean_cube_accuracy,
    lipschitz_functions_accuracy,
    measures_accuracy,
    norm_ball_accuracy,
    ultrametric_sequences_scale,
)
from skprivate.metric._finite_metric import distance_matrix, is_ultrametric, tree_distances
from skprivate.metric._grid_measure import GridMeasure
from skprivate.metric._privatizer import MetricPrivatizer
from skprivate.metric._scales import (
    Bracket,
    diametric_scale,
    doubling_scale,
    entropic_scale,
    outer_scale,
    packing_number,
    predicted_accuracy,
)
from skprivate.metric._synthesizer import MetricPrivateSynthesizer
from skprivate.metric._warnings import DegreesWarning, NoiseFillsBoxWarning

__all__ = [
    "Ball",
    "Bracket",
    "DegreesWarning",
    "GridMeasure",
    "MetricPrivateSynthesizer",
    "MetricPrivatizer",
    "NoiseFillsBoxWarning",
    "boolean_cube_accuracy",
    "diametric_scale",
    "distance_matrix",
    "doubling_scale",
    "entropic_scale",
    "is_ultrametric",
    "lipschitz_functions_accuracy",
    "measures_accuracy",
    "norm_ball_accuracy",
    "outer_scale",
    "packing_number",
    "predicted_accuracy",
    "tree_distances",
    "ultrametric_sequences_scale",
]
