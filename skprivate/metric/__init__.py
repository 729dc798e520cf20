"""Metric privacy: synthetic data, row-wise randomisation, and the geometry that limits both."""

from skprivate.metric._domains import Ball
from skprivate.metric._privatizer import MetricPrivatizer
from skprivate.metric._synthesizer import MetricPrivateSynthesizer
from skprivate.metric._warnings import DegreesWarning, NoiseFillsBoxWarning
from skprivate.metric.grid._measure import GridMeasure
from skprivate.metric.net._scales import diametric_scale, entropic_scale, predicted_accuracy
from skprivate.metric.net._spaces import distance_matrix, is_ultrametric, tree_distances

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
