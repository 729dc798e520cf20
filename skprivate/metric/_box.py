"""Public bounds: the box in which rows live, and what happens to rows outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skprivate._bounds import check_bounds

FloatArray = NDArray[np.float64]
OutOfBounds: TypeAlias = Literal["clip", "raise"]
Norm: TypeAlias = Literal["l1", "l2", "linf"]


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

    def nearest(self, X: FloatArray) -> FloatArray:
        """The nearest points of the box: in all three norms, column by column."""
        return np.clip(X, self.lower, self.upper)

    def inward(self, X: FloatArray, metric: Norm, epsilon: float) -> FloatArray:
        """Rows brought in by a map of each alone that lengthens no distance: clipping, in all three norms."""
        return np.clip(X, self.lower, self.upper)

    def diameter(
        self, metric: Norm, out_of_bounds: OutOfBounds = "clip", epsilon: float | None = None
    ) -> float:
        """Largest distance between two rows after they were brought in."""
        length = {"l1": np.add, "l2": np.hypot, "linf": np.maximum}[metric].reduce(self.widths)
        return float(length) * (1 + 2.0**-40)

    def confined(self, weights: FloatArray, kind: Literal["cells", "nodes"], metric: Norm) -> FloatArray:
        """Weights without those where no row can be: in a box, all of them."""
        return weights

    def to_unit(
        self, X: FloatArray, out_of_bounds: OutOfBounds = "clip", metric: Norm | None = None
    ) -> FloatArray:
        """Scale rows to the unit cube, each by itself; its corners are 0 and 1 exactly."""
        if out_of_bounds == "raise":
            self.refuse_outside(X)
        # Clipped first, no difference overflows and no quotient exceeds 1.
        return (np.clip(X, self.lower, self.upper) - self.lower) / self.widths

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Scale points of the unit cube back to the box."""
        return np.clip(self.lower + unit * self.widths, self.lower, self.upper)


def check_box(bounds: Any, columns: int | Sequence[int], names: Any = None) -> Box:
    """Turn a parameter ``bounds``, not None, into a `Box`; see `check_bounds`."""
    pairs = check_bounds(bounds, columns, names)
    lower, upper = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return Box(lower.copy(), upper.copy())


def block_to_unit(block: Any, box: Box, ground: Any, grouped: bool) -> Any:
    """Scale the numeric rows of a block to the unit cube."""
    rows = box.to_unit(block[0], metric=ground)
    return (rows, block[1]) if grouped else rows


def block_inside(block: Any, box: Box) -> Any:
    """Refuse a block with rows outside the box."""
    box.refuse_outside(block[0])
    return block
