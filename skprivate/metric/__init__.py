"""Metric privacy: synthetic data, row-wise randomisation, and the geometry that limits both."""

from skprivate.metric._domains import Ball, DegreesWarning
from skprivate.metric._privatizer import MetricPrivatizer
from skprivate.metric._synthesizer import MetricPrivateSynthesizer
from skprivate.metric._table_synthesizer import PrivateTableSynthesizer
from skprivate.metric.grid._flows import NoiseFillsBoxWarning
from skprivate.metric.grid._measure import GridMeasure
from skprivate.metric.net import best_exponential_channel, distance_matrix, separated_net, tree_distances, worst_error
from skprivate.metric.tables._quality import TableQuality

__all__ = [
    "Ball",
    "DegreesWarning",
    "MetricPrivateSynthesizer",
    "MetricPrivatizer",
    "NoiseFillsBoxWarning",
    "PrivateTableSynthesizer",
    "TableQuality",
    "tree_distances",
]
