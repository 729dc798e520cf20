"""Small embedded data sets and generators."""

from skprivate.datasets._flights import load_flights

__all__ = ["load_flights"]
