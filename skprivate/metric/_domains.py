"""Where rows live: boxes, balls, and longitude and latitude as kilometres.

A place is a unit vector u. Its chord to another is no longer than the great circle between them, and a linear
projection to a plane does not lengthen it: both u itself (in space) and the orthographic map around a public centre are
1-Lipschitz on the whole sphere, so that ε per kilometre after the map is ε per kilometre of great circle before it, at
the poles and across the dateline as well (docs/metric.md, theorem 8).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from skprivate._validation import WIDEST, check_bounds, column_label

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


#: Mean radius of the Earth in km (IUGG).
EARTH_RADIUS = 6371.0088
#: Up to this angle from its centre the flat map lengthens noise, on the way back, by 1.16 on average; the third
#: dimension of space costs 3π/8 = 1.18.
_FLAT = math.radians(40.0)

_LATITUDE, _LONGITUDE = ("lat", "latitude"), ("lon", "long", "lng", "longitude")
METRIC = "great-circle distance in km"


def looks_like(name: Any, words: tuple[str, ...]) -> bool:
    """Whether a column's name has one of the words in it: pickup_longitude, "Lat", stop.lng."""
    return any(piece in words for piece in re.split(r"[^a-z]+", str(name).lower()))


def degree_columns(names: Any) -> tuple[list[int], list[int]]:
    """Positions of the columns that are called latitude, and longitude."""
    found = [
        [j for j, name in enumerate(names) if looks_like(name, words)] for words in (_LATITUDE, _LONGITUDE)
    ]
    return found[0], found[1]


def latitude_column(coordinates: str, n_features: int, names: Any) -> int:
    """Position of the latitude among two columns; nothing is guessed."""
    if n_features != 2:
        raise ValueError(
            f"metric='haversine' needs two columns, a latitude and a longitude, got {n_features}; randomise each place "
            "of a row on its own, for example with a ColumnTransformer, and add up their epsilons."
        )
    latitudes, longitudes = ([], []) if names is None else degree_columns(names)
    named = latitudes[0] if len(latitudes) == len(longitudes) == 1 and latitudes != longitudes else None
    if coordinates == "auto":
        if named is None:
            raise ValueError(
                "metric='haversine' must know which column is the latitude. Call the columns 'latitude' and "
                "'longitude' ('lat', 'lon', 'lng' and 'long' will do), or set coordinates='latitude-longitude' or "
                "'longitude-latitude'."
            )
        return named
    told = 0 if coordinates == "latitude-longitude" else 1
    if named not in (None, told):
        raise ValueError(
            f"coordinates={coordinates!r} contradicts the columns' names, {', '.join(repr(str(n)) for n in names)}."
        )
    return told


@dataclass(frozen=True)
class SphereMap:
    """A 1-Lipschitz map of the sphere to a plane or to space, in km, and the way back to degrees.

    Parameters
    ----------
    latitude : {0, 1}
        Position of the latitude.
    axes : ndarray of shape (2 or 3, 3)
        Orthonormal rows: what the unit vectors are projected to.
    upwards : ndarray of shape (3,)
        The centre of the map; what lies before and behind the plane.
    middle : float
        Longitudes come back within 180° of it.
    box : Box or None
        Public range of the columns, in degrees.
    """

    latitude: int
    axes: FloatArray
    upwards: FloatArray
    middle: float
    box: Box | None

    def to_kilometres(self, X: FloatArray) -> FloatArray:
        """Rows in degrees as points of the plane or of space; each by itself, to the last bit."""
        vectors = _unit_vectors(X[:, self.latitude], X[:, 1 - self.latitude])
        columns = [(x * a + y * b + z * c) * EARTH_RADIUS for a, b, c in self.axes for x, y, z in [vectors]]
        return np.column_stack(columns)

    def to_degrees(self, points: FloatArray) -> FloatArray:
        """The place nearest to each point, as degrees; within the box, if there is one."""
        flat = points / EARTH_RADIUS
        length = np.sqrt(np.square(flat).sum(axis=1))
        vectors = (flat / np.maximum(length, 1.0)[:, None]) @ self.axes
        if len(self.axes) == 2:
            height = np.sqrt(np.maximum(1.0 - np.minimum(length, 1.0) ** 2, 0.0))
            vectors = vectors + height[:, None] * self.upwards
        x, y, z = vectors.T
        latitude = np.rad2deg(np.arctan2(z, np.hypot(x, y)))
        longitude = np.rad2deg(np.arctan2(y, x))
        longitude = self.middle + np.remainder(longitude - self.middle + 180.0, 360.0) - 180.0
        degrees = np.column_stack([latitude, longitude] if self.latitude == 0 else [longitude, latitude])
        return degrees if self.box is None else np.clip(degrees, self.box.lower, self.box.upper)

    def check(self, X: FloatArray, out_of_bounds: OutOfBounds) -> None:
        """With ``out_of_bounds="raise"``, refuse what is no place on Earth or outside of the box."""
        if out_of_bounds == "clip":
            return
        turned = X.copy()
        longitude = turned[:, 1 - self.latitude]
        longitude[:] = self.middle + np.remainder(longitude - self.middle + 180.0, 360.0) - 180.0
        everywhere = np.array([90.0, np.inf]) if self.latitude == 0 else np.array([np.inf, 90.0])
        (Box(-everywhere, everywhere) if self.box is None else self.box).refuse_outside(turned)


def sphere_map(latitude: int, bounds: Any, names: Any) -> SphereMap:
    """The map for a public range in degrees: flat where it is small, in space where it is wide or not given."""
    if bounds is None:
        return SphereMap(latitude, np.eye(3), np.zeros(3), 0.0, None)
    box = check_box(bounds, 2, names)
    low, high = box.lower[latitude], box.upper[latitude]
    west, east = box.lower[1 - latitude], box.upper[1 - latitude]
    if low < -90 or high > 90:
        raise ValueError(
            f"bounds of column {column_label(latitude, names)} must be latitudes from -90 to 90, got "
            f"({low:g}, {high:g})."
        )
    if west < -360 or east > 360 or east - west > 360:
        raise ValueError(
            f"bounds of column {column_label(1 - latitude, names)} must be longitudes from -360 to 360, at most 360 "
            f"apart (across the dateline from 170 to 190, say), got ({west:g}, {east:g})."
        )
    centre = np.array([(low + high) / 2]), np.array([(west + east) / 2])
    edge = np.linspace(low, high, 181)
    up = np.concatenate(_unit_vectors(*centre))
    farthest = min(
        float((np.column_stack(_unit_vectors(edge, np.full_like(edge, side))) @ up).min())
        for side in (west, east)
    )
    middle = float(centre[1][0])
    if farthest < math.cos(_FLAT):
        return SphereMap(latitude, np.eye(3), np.zeros(3), middle, box)
    phi, lam = np.deg2rad(centre[0][0]), np.deg2rad(middle)
    east_axis = [-np.sin(lam), np.cos(lam), 0.0]
    north_axis = [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)]
    return SphereMap(latitude, np.array([east_axis, north_axis]), up, middle, box)


def _unit_vectors(latitude: FloatArray, longitude: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coordinates of places; latitudes beyond a pole are cut off there, longitudes turn."""
    phi = np.deg2rad(np.clip(np.ascontiguousarray(latitude), -90.0, 90.0))
    lam = np.deg2rad(np.fmod(np.ascontiguousarray(longitude), 360.0))
    ring = np.cos(phi)
    return ring * np.cos(lam), ring * np.sin(lam), np.sin(phi)
