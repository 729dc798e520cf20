"""Small embedded data sets and generators."""

from skprivate.datasets._loaders import (
    load_adult,
    load_credit_default,
    load_flights,
    load_hospital,
    load_icd10,
    load_locations,
)

__all__ = ["load_adult", "load_credit_default", "load_flights", "load_hospital", "load_icd10", "load_locations"]
