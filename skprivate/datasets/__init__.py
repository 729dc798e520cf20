"""Small embedded data sets and generators."""

from skprivate.datasets._adult import load_adult
from skprivate.datasets._credit import load_credit_default
from skprivate.datasets._flights import load_flights
from skprivate.datasets._hospital import load_hospital
from skprivate.datasets._icd10 import load_icd10
from skprivate.datasets._locations import load_locations

__all__ = [
    "load_adult",
    "load_credit_default",
    "load_flights",
    "load_hospital",
    "load_icd10",
    "load_locations",
]
