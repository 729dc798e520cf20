"""Public bounds: the box in which rows live, and what happens to rows outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
OutOfBounds: TypeAlias = Literal["clip", "raise"]


@dataclass(frozen=True)
class Box:
    """A box given by public bounds.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_features,)
    """

    lower: FloatArray
    upper: FloatArray

    @property
    def widths(self) -> FloatArray:
        return self.upper - self.lower

    def refuse_outside(self, X: FloatArray) -> None:
        """Raise ValueError if a value lies outside; how many and where is private, and not said."""
        if bool(np.any((self.lower > X) | (self.upper < X))):
            raise ValueError(
                "X has values outside bounds and out_of_bounds='raise'; widen the bounds or use out_of_bounds='clip'."
            )

    def to_unit(self, X: FloatArray, out_of_bounds: OutOfBounds = "clip") -> FloatArray:
        """Scale rows to the unit cube, each by itself; its corners are 0 and 1 exactly."""
        if out_of_bounds == "raise":
            self.refuse_outside(X)
        # Clipped first, no difference overflows and no quotient exceeds 1.
        return (np.clip(X, self.lower, self.upper) - self.lower) / self.widths

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Scale points of the unit cube back to the box."""
        return np.clip(self.lower + unit * self.widths, self.lower, self.upper)


def check_bounds(bounds: Any, n_features: int, *, name: str = "bounds") -> Box:
    """Turn a parameter ``bounds`` into a `Box`.

    Parameters
    ----------
    bounds : pair (lower, upper)
        Numbers, or one number per feature.
    n_features : int

    Raises
    ------
    ValueError
        If missing, of the wrong shape, not finite, or if a lower bound is not below its upper bound.
    """
    if bounds is None:
        raise ValueError(
            f"{name} must be given: the range of the columns decides the noise and must be public. Pass "
            f"{name}=(lower, upper), with numbers or one number per column, from what is known about the data; taking "
            "them from the data itself would release its extremes."
        )
    try:
        lower, upper = (np.asarray(side, dtype=np.float64) for side in bounds)
        lower, upper = (np.array(np.broadcast_to(side, (n_features,))) for side in (lower, upper))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a pair (lower, upper) of numbers or of arrays with one number per column ({n_features}), "
            f"got {bounds!r}."
        ) from None
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper))):
        raise ValueError(f"{name} must be finite, got {bounds!r}.")
    degenerate = np.flatnonzero(~(upper - lower > 0) | ~np.isfinite(upper - lower))
    if degenerate.size:
        column = int(degenerate[0])
        raise ValueError(
            f"{name} must have lower < upper for every column; column {column} has [{lower[column]:g}, "
            f"{upper[column]:g}]."
        )
    return Box(lower, upper)
