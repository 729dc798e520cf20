"""Transformations whose constants are public."""

from skprivate.preprocessing._public_scaler import PublicScaler

__all__ = ["PublicScaler"]
