"""Balls with a public centre and radius: where rows live if their length is bounded, not every column by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from skprivate._bounds import WIDEST
from skprivate.metric._box import Box, OutOfBounds, check_box

FloatArray = NDArray[np.float64]
Norm: TypeAlias = Literal["l1", "l2", "linf"]

_ORDER: dict[str, float] = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
# What rounding may put outside: rows that were projected once are not refused.
_EDGE = 1 + 2.0**-40
# Projection may err by this much over ε before it gives way to clipping (docs/metric.md, Theorem 10).
_MOST_ERROR = 2.0**-33


@dataclass(frozen=True)
class Ball:
    """The rows within a public radius of a public centre, to pass as ``bounds``.

    Parameters
    ----------
    center : float or array-like of shape (n_features,)
        One number for all columns, or one per column.
    radius : float > 0
        In the columns' units, which are the same for all columns; from 10⁻¹⁵⁰ to 5·10¹⁴⁹.
    norm : {"l2", "l1", "linf"}, default="l2"
        In which distance: of Euclid, the sum of the columns' or the largest of them.

    Raises
    ------
    ValueError
        If a center is not finite or beyond 10¹⁵⁰, the radius is outside its range, or the norm is another.

    Notes
    -----
    Rows outside are brought in by a rule that keeps the guarantee. For one row more or less that is the nearest point
    of the ball. Where privacy counts distances it must not lengthen any: the nearest point does not if norm and
    distance are both "l2"; else rows are clipped to the cube around the ball, and what is released goes to the ball
    (docs/metric.md, Theorem 10).

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.metric import Ball, MetricPrivatizer
    >>> unit_vectors = np.array([[0.6, 0.8], [0.0, 1.0]])
    >>> privatizer = MetricPrivatizer(4.0, bounds=Ball(0.0, 1.0)).fit(unit_vectors)
    >>> bool(np.all(np.hypot(*privatizer.transform(unit_vectors).T) <= 1 + 1e-12))
    True
    """

    center: Any
    radius: float
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        center = np.asarray(self.center, dtype=np.float64)
        if center.ndim > 1 or center.size == 0 or not bool(np.all(np.abs(center) <= WIDEST)):
            raise ValueError(
                f"center must be a finite number, or one per column, up to {WIDEST:g}; got {self.center!r}."
            )
        if not (
            isinstance(self.radius, int | float | np.number)
            and 1 / WIDEST <= float(self.radius) <= WIDEST / 2
        ):
            raise ValueError(
                f"radius must be a number from {1 / WIDEST:g} to {WIDEST / 2:g}, got {self.radius!r}."
            )
        if self.norm not in _ORDER:
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {self.norm!r}.")
        # Numbers that compare, and that nobody can change.
        object.__setattr__(self, "center", float(center) if center.ndim == 0 else tuple(center.tolist()))

    @property
    def cube(self) -> tuple[Any, Any]:
        """Lower and upper ends of the cube around the ball: bounds that are a box."""
        center = np.asarray(self.center)
        return center - self.radius, center + self.radius


@dataclass(frozen=True)
class BallBox(Box):
    """A ball in the cube around it, which plays the part of the box.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_features,)
        Of the cube.
    center : ndarray of shape (n_features,)
    radius : float
    norm : {"l1", "l2", "linf"}
    """

    center: FloatArray = field(default_factory=lambda: np.empty(0))
    radius: float = 1.0
    norm: Norm = "l2"

    def refuse_outside(self, X: FloatArray) -> None:
        largest, length = self._length(X - self.center)
        # A product of both might overflow; every row compares by itself.
        if bool(np.any(length > self.radius * _EDGE / np.maximum(largest, self.radius * 2.0**-60))):
            raise ValueError(
                "X has rows outside bounds and out_of_bounds='raise'; widen the ball or use out_of_bounds='clip'."
            )

    def nearest(self, X: FloatArray) -> FloatArray:
        """The nearest points of the ball, in the distance of Euclid; rows inside stay as they are."""
        moved = X - self.center
        inside, shrunk = self._shrunk(moved)
        return np.where(inside[:, None], X, shrunk + self.center)

    def inward(self, X: FloatArray, metric: Norm, epsilon: float) -> FloatArray:
        """Rows brought in by a map of each alone that lengthens no distance: into the ball, or into the cube."""
        return self.nearest(X) if self.projects(metric, epsilon) else super().inward(X, metric, epsilon)

    def projects(self, metric: Norm, epsilon: float | None = None) -> bool:
        """Whether `inward` takes rows to the nearest point: if that lengthens no distance, but for rounding."""
        if self.norm != metric or metric != "l2":
            return False
        error = (self.center.size + 8) * self.radius + float(np.hypot.reduce(self.center))
        return epsilon is None or error * 2.0**-52 * epsilon <= _MOST_ERROR

    def to_unit(
        self, X: FloatArray, out_of_bounds: OutOfBounds = "clip", metric: Norm | None = None
    ) -> FloatArray:
        """Scale rows to the unit cube, the nearest point of the ball for those outside.

        With ``metric`` only where that does not lengthen distances; else rows are clipped to the cube.
        """
        if out_of_bounds == "raise":
            self.refuse_outside(X)
        if metric is not None and not self.projects(metric):
            return super().to_unit(X)
        moved = X - self.center
        inside, shrunk = self._shrunk(moved)
        return np.clip(0.5 + np.where(inside[:, None], moved, shrunk) / (2 * self.radius), 0.0, 1.0)

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Points of the ball, for those of the cube."""
        return self.nearest(super().from_unit(unit))

    def diameter(
        self, metric: Norm, out_of_bounds: OutOfBounds = "clip", epsilon: float | None = None
    ) -> float:
        """Largest distance between two rows after they were brought in."""
        if out_of_bounds == "clip" and not self.projects(metric, epsilon):
            return super().diameter(metric)
        exponent = 1 / _ORDER[metric] - 1 / _ORDER[self.norm]
        return float(2 * self.radius * max(1.0, self.center.size**exponent) * (1 + 2.0**-38))

    def confined(self, weights: FloatArray, kind: Literal["cells", "nodes"], metric: Norm) -> FloatArray:
        """Weights on a grid of the cube (the last axes) without those where no row of the ball can be: post-processing.

        What noise has put into cells outside is left out. On nodes, where mass is known to come from next door, it goes
        to the nearest node that a row of the ball can touch.
        """
        d = self.center.size
        shape = weights.shape[weights.ndim - d :]
        outside = ~self._touched(shape, kind)
        if not outside.any():
            return weights
        flat = weights.reshape(-1, outside.size).copy()
        away, kept = np.flatnonzero(outside), np.flatnonzero(~outside)
        if kind == "nodes":
            places = np.stack(np.unravel_index(np.arange(outside.size), shape), axis=1)
            goal = cKDTree(places[kept]).query(places[away], p=_ORDER[metric])[1]
            for group in flat:
                np.add.at(group, kept[goal], group[away])
        flat[:, away] = 0.0
        if flat.sum() <= 0:
            flat[:, kept] = 1.0
        flat /= flat.sum()
        return np.asarray(flat.reshape(weights.shape))

    def _touched(self, shape: tuple[int, ...], kind: Literal["cells", "nodes"]) -> NDArray[np.bool_]:
        """Cells that the ball meets, or nodes that are corners of such."""
        cells = [k if kind == "cells" else k - 1 for k in shape]
        total = np.zeros(cells)
        for axis, k in enumerate(cells):
            edges = np.linspace(-1.0, 1.0, k + 1)
            gap = np.maximum(np.maximum(edges[:-1], -edges[1:]), 0.0)
            gap = gap.reshape([-1 if j == axis else 1 for j in range(len(cells))])
            total = np.maximum(total, gap) if self.norm == "linf" else total + gap ** _ORDER[self.norm]
        met: NDArray[np.bool_] = total <= 1 + 1e-9
        if kind == "nodes":
            for axis in range(len(cells)):
                pad = [(0, 0)] * len(cells)
                pad[axis] = (1, 1)
                wide = np.moveaxis(np.pad(met, pad), axis, 0)
                met = np.moveaxis(wide[:-1] | wide[1:], 0, axis)
        return met

    def _length(self, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Largest absolute entry of every row, and the length of the row divided by it (0 where it is 0)."""
        largest = np.zeros(moved.shape[0])
        for j in range(moved.shape[1]):
            np.maximum(largest, np.abs(moved[:, j]), out=largest)
        unit = np.where(largest > 0, largest, 1.0)
        length = np.zeros(moved.shape[0])
        for j in range(moved.shape[1]):
            part = np.abs(np.ascontiguousarray(moved[:, j])) / unit
            if self.norm == "linf":
                np.maximum(length, part, out=length)
            else:
                length += part * part if self.norm == "l2" else part
        return largest, np.sqrt(length) if self.norm == "l2" else length

    def _shrunk(self, moved: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
        """Which rows (minus the centre) lie inside, and the nearest points of those that do not; rows by themselves."""
        largest, length = self._length(moved)
        least = np.maximum(largest, self.radius * 2.0**-60)  # shorter rows are inside; no quotient overflows
        inside = length <= self.radius / least
        radius = self.radius
        if self.norm == "linf":
            return inside, np.clip(moved, -radius, radius)
        if self.norm == "l2":
            factor = radius / np.maximum(length, 1.0)
            return inside, moved / least[:, None] * factor[:, None]
        # Entries lose the same amount, at least what the largest is beyond the radius; so only differences count.
        rest = np.maximum(radius - (largest[:, None] - np.abs(moved)), 0.0)
        descending = -np.sort(-rest, axis=1)
        total, loss = np.zeros(moved.shape[0]), np.zeros(moved.shape[0])
        for k in range(moved.shape[1]):
            total = total + descending[:, k]
            np.maximum(loss, (total - radius) / (k + 1), out=loss)
        return inside, np.copysign(np.maximum(rest - loss[:, None], 0.0), moved)


def check_domain(bounds: Any, columns: int | Sequence[int], names: Any = None) -> Box:
    """Turn a parameter ``bounds``, not None, into a `Box`, of a `Ball` into a `BallBox`."""
    if not isinstance(bounds, Ball):
        return check_box(bounds, columns, names)
    d = columns if isinstance(columns, int) else len(columns)
    center = np.asarray(bounds.center, dtype=np.float64)
    if center.ndim and center.size != d:
        raise ValueError(f"bounds must have a center with one number per column ({d}), got {center.size}.")
    center, radius = np.full(d, center), float(bounds.radius)
    lower, upper = center - radius, center + radius
    if not bool(np.all((lower < center) & (center < upper))):
        raise ValueError(f"the radius of bounds, {radius:g}, is lost beside its center in float64.")
    return BallBox(lower, upper, center, radius, bounds.norm)
