"""The affine span of the public points and the halfspaces that they support.

Everything here is computed from public rows. Private rows only ever pass through functions that map each row by itself,
by the same floating-point operations wherever it is. A private row then changes its own memberships and no other row's,
not even in the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Relative rank tolerance of the affine span, and relative slack of every closed halfspace.
SPAN_TOLERANCE = 1e-9
BOUNDARY_TOLERANCE = 1e-9
#: Scaled features are clipped to ± this value, so that no finite input overflows.
LARGEST_COORDINATE = 1e12
#: Number of public rows whose span is found at a time.
BLOCK = 2**14
#: Number of rows that are stored column by column at a time, within the cache.
TURNED = 2**8
#: Number of columns of public rows that are copied at a time.
GATHERED = 32


def products(directions: Floats, rows: Floats) -> Floats:
    """Compute inner products of shape (n_directions, n_rows), each from one fixed sequence of operations.

    A BLAS product may round the same row differently at different positions of a block.
    """
    columns = np.ascontiguousarray(rows.T)
    result = np.zeros((directions.shape[0], rows.shape[0]))
    for j, column in enumerate(columns):
        used = np.flatnonzero(directions[:, j])
        if used.size == directions.shape[0]:
            result += directions[:, j, None] * column
        elif used.size:
            result[used] += directions[used, j, None] * column
    return result


@dataclass(frozen=True, eq=False)
class PublicFrame:
    """Coordinates inside the affine span V of the public points, which is empty without any.

    ``scale`` is the distance between the 10 % and 90 % quantiles of public rows; where that is zero, the standard
    deviation, and one for constant columns. ``basis`` has orthonormal rows that span V - center in scaled units,
    ``complement`` such rows orthogonal to V. ``radius`` is the largest norm of a scaled public row, at least one: the
    unit of the tolerances.
    """

    center: Floats
    scale: Floats
    basis: Floats
    complement: Floats
    radius: float
    empty: bool

    @property
    def dimension(self) -> int:
        """Dimension of V; zero for a point and for the empty set."""
        return int(self.basis.shape[0])

    @property
    def slack(self) -> float:
        """Distance by which closed halfspaces extend over their bounding hyperplane."""
        return BOUNDARY_TOLERANCE * self.radius

    def scaled(self, X: Floats) -> Floats:
        """Center and scale rows, each by itself; the result is stored column by column, for `products` and cuts."""
        columns = np.empty(X.shape[::-1])
        center, scale = self.center[:, None], self.scale[:, None]
        with np.errstate(over="ignore"):
            for low in range(0, X.shape[0], TURNED):
                block = X[low : low + TURNED].T.copy()
                block -= center
                block /= scale
                np.clip(block, -LARGEST_COORDINATE, LARGEST_COORDINATE, out=columns[:, low : low + TURNED])
        return columns.T

    def distance(self, scaled: Floats) -> Floats:
        """Compute distances of scaled rows to V."""
        if self.empty:
            return np.full(scaled.shape[0], np.inf)
        total = np.zeros(scaled.shape[0])
        for product in products(self.complement, scaled):
            total += product**2
        return np.sqrt(total)

    def in_feature_space(self, normals: Floats, intercepts: Floats) -> tuple[Floats, Floats]:
        """Rewrite ``normals @ scaled(x) + intercepts`` as ``coefficients @ x + intercepts``."""
        coefficients = normals / self.scale
        return coefficients, intercepts - coefficients @ self.center


def public_frame(points: Floats) -> PublicFrame:
    """Find center, scale and affine span of the public points, rows of a contiguous array."""
    n_points, n_features = points.shape
    if n_points == 0:
        nothing = np.zeros(n_features)
        return PublicFrame(
            nothing, nothing + 1.0, np.zeros((0, n_features)), np.eye(n_features), radius=1.0, empty=True
        )
    columns = np.array([_column_scale(column) for column in _columns(points)]).reshape(n_features, 4)
    center, deviation, spread, largest = columns.T
    if not np.isfinite(columns).all():
        raise ValueError("The public rows of X are too large: their mean or standard deviation overflows.")
    # A spread at the level of rounding is a constant column: dividing by it would magnify rounding to a feature.
    noise = 1e-12 * largest
    constant = deviation <= noise
    scale = np.where(constant, 1.0, np.where(spread > noise, spread, deviation))

    def centered(low: int, size: int) -> Floats:
        return np.where(constant, 0.0, (points[low : low + size] - center) / scale)

    small = range(0, n_points, TURNED)  # a row's norm is its own
    radius = max(1.0, *(float(np.sqrt((centered(low, TURNED) ** 2).sum(axis=1).max())) for low in small))
    negligible = SPAN_TOLERANCE * radius * np.sqrt(n_points)
    triangle: Any = np.zeros((0, n_features))
    for low in range(0, n_points, BLOCK):
        # R of a QR has the singular values and right singular vectors of the tall matrix, block by block.
        triangle = np.concatenate([triangle, centered(low, BLOCK)])
        if len(triangle) > n_features:
            triangle = np.linalg.qr(triangle, mode="r")
        _, singular, right = np.linalg.svd(triangle, full_matrices=True)
        rank = int((singular > negligible).sum())
        if rank == n_features:  # further rows make no singular value smaller
            break
    return PublicFrame(center.copy(), scale, right[:rank], right[rank:], radius, empty=False)


def _columns(X: Floats) -> Iterator[Floats]:
    """Yield copies of columns; a few are gathered at a time, as neighbours share a line of the cache."""
    for left in range(0, X.shape[1], GATHERED):
        yield from X[:, left : left + GATHERED].T.copy()


def _column_scale(column: Floats) -> tuple[float, float, float, float]:
    """Compute mean, standard deviation, distance of the 10 % and 90 % quantiles, largest absolute value."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation, largest = column.mean(), column.std(), max(column.max(), -column.min())
        column.sort()  # a vectorised sort of all is faster than a partition at four places
        low, high = np.quantile(column, [0.1, 0.9], overwrite_input=True)
        return mean, deviation, high - low, largest


@dataclass(frozen=True, eq=False)
class HalfspacePairs:
    """Pairs of opposite closed halfspaces {±(⟨normal, z⟩ − offset) ≥ −slack}, normals of unit length."""

    normals: Floats
    offsets: Floats
    slack: float

    def __len__(self) -> int:
        return int(self.offsets.shape[0])

    def memberships(self, coordinates: Floats) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Compute memberships of n rows in the m positive and the m negative sides, each of shape (n, m), 0 or 1."""
        positive = np.empty((coordinates.shape[0], len(self)), dtype=np.uint8)
        negative = np.empty_like(positive)
        step = max(1, 2**20 // max(1, len(self)))
        for low in range(0, coordinates.shape[0], step):
            margin = products(self.normals, coordinates[low : low + step]).T - self.offsets
            positive[low : low + step] = margin >= -self.slack
            negative[low : low + step] = margin <= self.slack
        return positive, negative

    def sides(self, chosen: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return normals and intercepts of halfspaces: 2 t is the positive side of pair t, 2 t + 1 the negative."""
        index = np.array(chosen, dtype=np.intp)
        sign = np.where(index % 2 == 0, 1.0, -1.0)
        return sign[:, None] * self.normals[index // 2], self.slack - sign * self.offsets[index // 2]


def count_supporting_pairs(n_points: int, dimension: int) -> int:
    """Return the largest number of pairs of opposite halfspaces that at most ``dimension`` of the points support."""
    return sum(comb(n_points, size) for size in range(1, dimension + 1))


def supporting_pairs(points: Floats, slack: float) -> HalfspacePairs:
    """Make one pair of opposite halfspaces for every set of at most ``dimension`` points (Algorithm 1).

    ``points`` are in the coordinates of their own affine span. Affinely dependent sets are passed over, because an
    independent subset of each supports the same flat and is in the list. An independent set of ``dimension`` points
    supports one hyperplane of the span. For smaller sets, where the algorithm leaves the choice open, the hyperplane is
    the one whose normal, among those orthogonal to the set, is nearest to the direction from the points' mean to the
    set's mean: it faces outward. Equal hyperplanes are kept once.
    """
    distinct = np.unique(points, axis=0)
    n_points, dimension = distinct.shape
    if dimension == 0:
        return HalfspacePairs(np.zeros((0, 0)), np.zeros(0), slack)
    middle = distinct.mean(axis=0)
    normals, offsets = [], []
    for size in range(1, min(dimension, n_points) + 1):
        subsets = np.array(list(combinations(range(n_points), size)), dtype=np.intp)
        corners = distinct[subsets]
        edges = corners[:, 1:] - corners[:, :1]
        means = corners.mean(axis=1)
        if size > 1:
            _, singular, right = np.linalg.svd(edges, full_matrices=True)
            independent = singular[:, -1] > SPAN_TOLERANCE * np.maximum(singular[:, 0], slack)
            right, means = right[independent], means[independent]
        else:
            right = np.broadcast_to(np.eye(dimension), (len(subsets), dimension, dimension))
        free = right[:, size - 1 :]
        if size == dimension:
            direction = free[:, 0]
        else:
            along = np.einsum("tij,tj->ti", free, means - middle)
            # A set centered on the mean has no outward direction: take the first free one.
            along[np.linalg.norm(along, axis=1) <= slack, 0] += 1.0
            direction = np.einsum("ti,tij->tj", along, free)
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        normals.append(direction)
        offsets.append(np.einsum("tj,tj->t", direction, means))
    return _distinct_pairs(np.concatenate(normals), np.concatenate(offsets), slack)


def _distinct_pairs(normals: Floats, offsets: Floats, slack: float) -> HalfspacePairs:
    """Keep one of several equal hyperplanes, equal to about nine digits, in the order of first appearance."""
    leading = np.argmax(np.abs(normals) > 1e-6, axis=1)
    sign = np.sign(np.take_along_axis(normals, leading[:, None], axis=1))
    normals, offsets = normals * sign, offsets * sign[:, 0]
    keys = np.round(np.column_stack([normals, offsets]), 9) + 0.0
    _, first = np.unique(keys, axis=0, return_index=True)
    first.sort()
    return HalfspacePairs(normals[first], offsets[first], slack)
