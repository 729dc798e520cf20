"""Metric privacy: synthetic data, row-wise randomisation, and the geometry that limits both."""

from skprivate.metric._ball import Ball
from skprivate.metric._finite_metric import distance_matrix, is_ultrametric, tree_distances
from skprivate.metric._grid_measure import GridMeasure
from skprivate.metric._privatizer import MetricPrivatizer
from skprivate.metric._scales import diametric_scale, entropic_scale, predicted_accuracy
from skprivate.metric._synthesizer import MetricPrivateSynthesizer
from skprivate.metric._warnings import DegreesWarning, NoiseFillsBoxWarning

__all__ = [
    "Ball",
    "DegreesWarning",
    "GridMeasure",
    "MetricPrivateSynthesizer",
    "MetricPrivatizer",
    "NoiseFillsBoxWarning",
    "diametric_scale",
    "distance_matrix",
    "entropic_scale",
    "is_ultrametric",
    "predicted_accuracy",
    "tree_distances",
]
