"""Small embedded data sets and generators."""

from skprivate.datasets._adult import load_adult
from skprivate.datasets._credit import load_credit_default
from skprivate.datasets._flights import load_flights

__all__ = ["load_adult", "load_credit_default", "load_flights"]
