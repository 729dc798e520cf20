"""Domains of rows: boxes, balls, and longitude and latitude as kilometres.

A place is a unit vector u. Its chord to another is no longer than the great circle between them, and a linear
projection to a plane does not lengthen it: both u itself (in space) and the orthographic map around a public centre are
1-Lipschitz on the whole sphere, so that ε per kilometre after the map is ε per kilometre of great circle before it, at
the poles and across the dateline as well (docs/theory/metric.md, theorem 8).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from skprivate._validation import WIDEST, check_bounds, column_label
from skprivate.privacy import warn_caller
from skprivate.privacy.noise import FloatArray

OutOfBounds: TypeAlias = Literal["clip", "raise"]
Norm: TypeAlias = Literal["l1", "l2", "linf"]
_ORDER: dict[str, float] = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
# Rounding may move a projected row outside by this factor; it is not refused.
_EDGE_FACTOR = 1 + 2.0**-40
# Beyond this error over ε rows are clipped, not projected (docs/theory/metric.md, Theorem 10).
_MOST_ERROR = 2.0**-33
#: Mean radius of the Earth in km (IUGG).
EARTH_RADIUS = 6371.0088
#: Up to this angle from its centre the flat map lengthens noise, on the way back, less than the third dimension of
#: space, which costs 3π/8 = 1.18.
_MAX_FLAT_ANGLE = math.radians(40.0)
_LATITUDE, _LONGITUDE = {"lat", "latitude"}, {"lon", "long", "lng", "longitude"}
METRIC = "great-circle distance in km"


def lengths(X: FloatArray, norm: Norm) -> FloatArray:
    """Compute the norm of every row."""
    together: Any = {"l1": np.add, "l2": np.hypot, "linf": np.maximum}[norm]
    return np.asarray(together.reduce(np.abs(X), axis=-1))


@dataclass(frozen=True)
class Box:
    """A box given by public bounds."""

    lower: FloatArray
    upper: FloatArray

    @property
    def widths(self) -> FloatArray:
        return self.upper - self.lower

    def refuse_outside(self, X: FloatArray) -> None:
        """Refuse values outside; the message reveals neither their number nor their place."""
        if bool(np.any((self.lower > X) | (self.upper < X))):
            raise ValueError(
                "X has values outside bounds and out_of_bounds='raise'; widen the bounds or use out_of_bounds='clip'."
            )

    def nearest(self, X: FloatArray) -> FloatArray:
        """Project rows to the box, in all three norms."""
        return np.clip(X, self.lower, self.upper)

    def inward(self, X: FloatArray, metric: Norm, epsilon: float) -> FloatArray:
        """Map each row by itself into the domain without lengthening a distance: clipping, in all three norms."""
        return self.nearest(X)

    def diameter(self, metric: Norm, out_of_bounds: OutOfBounds, epsilon: float) -> float:
        """Bound the distance between two rows after `inward`."""
        return float(lengths(self.widths, metric)) * (1 + 2.0**-40)

    def to_unit(self, X: FloatArray) -> FloatArray:
        """Scale rows to the unit cube, each by itself; its corners are 0 and 1 exactly."""
        # Clipped first, no difference overflows and no quotient exceeds 1.
        return (np.clip(X, self.lower, self.upper) - self.lower) / self.widths

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Scale points of the unit cube back to the box."""
        return np.clip(self.lower + unit * self.widths, self.lower, self.upper)


def block_to_unit(block: tuple[FloatArray, Any], box: Box) -> tuple[FloatArray, Any]:
    """Scale the numeric rows of a block to the unit cube."""
    return box.to_unit(block[0]), block[1]


@dataclass(frozen=True)
class Ball:
    """The rows within a public radius of a public centre, to pass to `MetricPrivatizer` as ``bounds``.

    Parameters
    ----------
    center : float or array-like of shape (n_features,)
        One number for all columns, or one per column.
    radius : float > 0
        In the unit that all columns share; from 10⁻¹⁵⁰ to 5·10¹⁴⁹.
    norm : {"l2", "l1", "linf"}, default="l2"
        Norm of the distance to the center.

    Raises
    ------
    ValueError
        If a center is not finite or beyond 10¹⁵⁰, the radius is outside its range, or the norm is another.

    Notes
    -----
    Rows outside are moved inside by a rule that lengthens no distance: to the nearest point if norm and distance are
    both "l2". Otherwise rows are clipped to the cube around the ball, and results are projected to the ball
    (docs/theory/metric.md, Theorem 10).

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
        if not (isinstance(self.radius, int | float | np.number) and 1 / WIDEST <= float(self.radius) <= WIDEST / 2):
            raise ValueError(f"radius must be a number from {1 / WIDEST:g} to {WIDEST / 2:g}, got {self.radius!r}.")
        if self.norm not in _ORDER:
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {self.norm!r}.")
        # Comparable and immutable.
        object.__setattr__(self, "center", float(center) if center.ndim == 0 else tuple(center.tolist()))

    @property
    def cube(self) -> tuple[Any, Any]:
        """Lower and upper ends of the cube around the ball."""
        center = np.asarray(self.center)
        return center - self.radius, center + self.radius


@dataclass(frozen=True)
class BallBox(Box):
    """A ball of "l1" or "l2"; the box is the cube around it."""

    center: FloatArray = field(default_factory=lambda: np.empty(0))
    radius: float = 1.0
    norm: Norm = "l2"

    def refuse_outside(self, X: FloatArray) -> None:
        largest, length = self._length(X - self.center)
        # A product of both might overflow.
        if bool(np.any(length > self.radius * _EDGE_FACTOR / np.maximum(largest, self.radius * 2.0**-60))):
            raise ValueError(
                "X has rows outside bounds and out_of_bounds='raise'; widen the ball or use out_of_bounds='clip'."
            )

    def nearest(self, X: FloatArray) -> FloatArray:
        """Project rows to the ball in the Euclidean distance; rows inside do not change."""
        moved, radius = X - self.center, self.radius
        largest, length = self._length(moved)
        least = np.maximum(largest, radius * 2.0**-60)  # shorter rows are inside; no quotient overflows
        if self.norm == "l2":
            shrunk = moved / least[:, None] * (radius / np.maximum(length, 1.0))[:, None]
        else:
            # Entries lose the same amount, at least the excess of the largest one; so only differences count.
            rest = np.maximum(radius - (largest[:, None] - np.abs(moved)), 0.0)
            descending = -np.sort(-rest, axis=1)
            total, loss = np.zeros(moved.shape[0]), np.zeros(moved.shape[0])
            for k in range(moved.shape[1]):
                total = total + descending[:, k]
                np.maximum(loss, (total - radius) / (k + 1), out=loss)
            shrunk = np.copysign(np.maximum(rest - loss[:, None], 0.0), moved)
        return np.where((length <= radius / least)[:, None], X, shrunk + self.center)

    def inward(self, X: FloatArray, metric: Norm, epsilon: float) -> FloatArray:
        """Map each row by itself into the ball or the cube without lengthening a distance."""
        return self.nearest(X) if self.projects(metric, epsilon) else super().nearest(X)

    def projects(self, metric: Norm, epsilon: float) -> bool:
        """Check that `nearest` lengthens no distance, but for rounding."""
        error = (self.center.size + 8) * self.radius + float(np.hypot.reduce(self.center))
        return self.norm == metric == "l2" and error * 2.0**-52 * epsilon <= _MOST_ERROR

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Map points of the unit cube to the ball."""
        return self.nearest(super().from_unit(unit))

    def diameter(self, metric: Norm, out_of_bounds: OutOfBounds, epsilon: float) -> float:
        """Bound the distance between two rows after `inward`."""
        if out_of_bounds == "clip" and not self.projects(metric, epsilon):
            return super().diameter(metric, out_of_bounds, epsilon)
        exponent = 1 / _ORDER[metric] - 1 / _ORDER[self.norm]
        return float(2 * self.radius * max(1.0, self.center.size**exponent) * (1 + 2.0**-38))

    def _length(self, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the largest absolute entry of every row, and the norm of the row divided by it (0 for zeros)."""
        largest = np.zeros(moved.shape[0])
        for j in range(moved.shape[1]):
            np.maximum(largest, np.abs(moved[:, j]), out=largest)
        unit = np.where(largest > 0, largest, 1.0)
        length = np.zeros(moved.shape[0])
        for j in range(moved.shape[1]):
            part = np.abs(np.ascontiguousarray(moved[:, j])) / unit
            length += part * part if self.norm == "l2" else part
        return largest, np.sqrt(length) if self.norm == "l2" else length


def check_domain(bounds: object, columns: int | Sequence[int], names: object = None) -> Box:
    """Turn a parameter ``bounds``, not None, into a `Box`, or a `Ball` into a `BallBox`."""
    if not isinstance(bounds, Ball):
        pairs = check_bounds(bounds, columns, names)
        lower, upper = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return Box(lower.copy(), upper.copy())
    d = columns if isinstance(columns, int) else len(columns)
    center = np.asarray(bounds.center, dtype=np.float64)
    if center.ndim and center.size != d:
        raise ValueError(f"bounds must have a center with one number per column ({d}), got {center.size}.")
    center, radius = np.full(d, center), float(bounds.radius)
    lower, upper = center - radius, center + radius
    if not bool(np.all((lower < center) & (center < upper))):
        raise ValueError(f"the radius of bounds, {radius:g}, is lost beside its center in float64.")
    return Box(lower, upper) if bounds.norm == "linf" else BallBox(lower, upper, center, radius, bounds.norm)


class DegreesWarning(UserWarning):
    """Columns look like longitude and latitude, and ε is counted per degree, which is no distance.

    See Also
    --------
    MetricPrivatizer : Measures kilometres with ``metric="haversine"``.
    """


def degree_columns(names: Any) -> tuple[list[int], list[int]]:
    """Find the columns called latitude and longitude, by words such as in pickup_longitude, "Lat", stop.lng."""
    words = [] if names is None else [set(re.split(r"[^a-z]+", str(name).lower())) for name in names]
    latitudes, longitudes = ([j for j, found in enumerate(words) if found & known] for known in (_LATITUDE, _LONGITUDE))
    return latitudes, longitudes


def warn_of_degrees(names: Any, metric: str, epsilon: float) -> None:
    """Warn if ε is counted per degree, whose length depends on the place and the direction."""
    latitudes, longitudes = degree_columns(names)
    if latitudes and longitudes:
        found = ", ".join(repr(str(names[j])) for j in sorted({*latitudes, *longitudes}))
        warn_caller(
            f"columns {found} look like degrees, and metric={metric!r} counts epsilon = {epsilon:g} per unit of the "
            "columns, which is no distance between places. For two columns in degrees use metric='haversine' (epsilon "
            "per kilometre of great circle); if these are kilometres already, call the columns something else, say x "
            "and y.",
            DegreesWarning,
        )


def latitude_column(coordinates: str, n_features: int, names: Any) -> int:
    """Find the latitude among two columns; nothing is guessed."""
    if n_features != 2:
        raise ValueError(
            f"metric='haversine' needs two columns, a latitude and a longitude, got {n_features}; randomise each place "
            "of a row on its own, for example with a ColumnTransformer, and add up their epsilons."
        )
    latitudes, longitudes = degree_columns(names)
    named = latitudes[0] if len(latitudes) == len(longitudes) == 1 and latitudes != longitudes else None
    if coordinates == "auto":
        if named is None:
            raise ValueError(
                "metric='haversine' must know which column is the latitude. Call the columns 'latitude' and "
                "'longitude' ('lat', 'lon', 'lng' and 'long' will do), or set coordinates='latitude-longitude' or "
                "'longitude-latitude'."
            )
        return named
    given = 0 if coordinates == "latitude-longitude" else 1
    if named not in (None, given):
        raise ValueError(
            f"coordinates={coordinates!r} contradicts the columns' names, {', '.join(repr(str(n)) for n in names)}."
        )
    return given


@dataclass(frozen=True)
class SphereMap:
    """A 1-Lipschitz map of the sphere to a plane or to space, in km, and its inverse to degrees.

    Unit vectors are projected to the orthonormal rows of ``axes``; ``upwards`` is the centre of the map. Longitudes
    come back within 180° of ``middle``, and in the public ``box`` of degrees, if there is one, which has no place
    farther than ``radius`` km from the centre.
    """

    latitude: int
    axes: FloatArray
    upwards: FloatArray
    middle: float
    box: Box | None
    radius: float = math.pi * EARTH_RADIUS

    def to_kilometres(self, X: FloatArray) -> FloatArray:
        """Map rows in degrees to the plane or to space; each by itself, to the last bit."""
        vectors = _unit_vectors(X[:, self.latitude], X[:, 1 - self.latitude])
        columns = [(x * a + y * b + z * c) * EARTH_RADIUS for a, b, c in self.axes for x, y, z in [vectors]]
        return np.column_stack(columns)

    def to_degrees(self, points: FloatArray) -> FloatArray:
        """Find the place nearest to each point, in degrees, and clip it to the box."""
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

    def distances(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Compute the great circles between places in degrees, row by row, in km."""
        here, there = (_unit_vectors(rows[:, self.latitude], rows[:, 1 - self.latitude]) for rows in (X, Y))
        chord = np.sqrt(sum(np.square(a - b) for a, b in zip(here, there, strict=True)))
        return 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1.0))

    def check(self, X: FloatArray, out_of_bounds: OutOfBounds) -> None:
        """Refuse places outside the box or beyond the poles, with ``out_of_bounds="raise"``."""
        if out_of_bounds == "clip":
            return
        turned = X.copy()
        longitude = turned[:, 1 - self.latitude]
        longitude[:] = self.middle + np.remainder(longitude - self.middle + 180.0, 360.0) - 180.0
        everywhere = np.array([90.0, np.inf]) if self.latitude == 0 else np.array([np.inf, 90.0])
        (Box(-everywhere, everywhere) if self.box is None else self.box).refuse_outside(turned)


def sphere_map(latitude: int, bounds: object, names: object) -> SphereMap:
    """Choose the map for a public range in degrees: flat if it is small, in space if it is wide or not given."""
    if bounds is None:
        return SphereMap(latitude, np.eye(3), np.zeros(3), 0.0, None)
    box = check_domain(bounds, 2, names)
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
    least_cosine = min(
        float((np.column_stack(_unit_vectors(edge, np.full_like(edge, side))) @ up).min()) for side in (west, east)
    )
    middle = float(centre[1][0])
    radius = EARTH_RADIUS * math.acos(max(min(least_cosine, 1.0), -1.0))
    if least_cosine < math.cos(_MAX_FLAT_ANGLE):
        return SphereMap(latitude, np.eye(3), np.zeros(3), middle, box, radius)
    phi, lam = np.deg2rad(centre[0][0]), np.deg2rad(middle)
    east_axis = [-np.sin(lam), np.cos(lam), 0.0]
    north_axis = [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)]
    return SphereMap(latitude, np.array([east_axis, north_axis]), up, middle, box, radius)


def _unit_vectors(latitude: FloatArray, longitude: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute unit vectors of places; latitudes are clipped at the poles, longitudes are periodic."""
    phi = np.deg2rad(np.clip(np.ascontiguousarray(latitude), -90.0, 90.0))
    lam = np.deg2rad(np.fmod(np.ascontiguousarray(longitude), 360.0))
    ring = np.cos(phi)
    return ring * np.cos(lam), ring * np.sin(lam), np.sin(phi)
