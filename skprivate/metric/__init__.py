"""Metric privacy: synthetic data, row-wise randomisation, and the geometry that limits both."""

from skprivate.metric._grid_measure import GridMeasure
from skprivate.metric._synthesizer import MetricPrivateSynthesizer

__all__ = ["GridMeasure", "MetricPrivateSynthesizer"]
