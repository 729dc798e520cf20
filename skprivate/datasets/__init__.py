"""Small embedded data sets and generators."""

from skprivate.datasets._credit import load_credit_default
from skprivate.datasets._flights import load_flights

__all__ = ["load_credit_default", "load_flights"]
