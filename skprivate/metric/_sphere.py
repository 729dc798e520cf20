"""Longitude and latitude as kilometres, by a map that never makes two places further apart than they are.

A place is a unit vector u. Its chord to another is no longer than the great circle between them, and a linear
projection to a plane does not lengthen it: both u itself (in space) and the orthographic map around a public centre are
1-Lipschitz on the whole sphere, so that ε per kilometre after the map is ε per kilometre of great circle before it, at
the poles and across the dateline as well (docs/metric.md, theorem 8).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._bounds import column_label
from skprivate.metric._box import Box, OutOfBounds, check_box

FloatArray = NDArray[np.float64]

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
