"""Input and output of all strategies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture._geometry import Floats, PublicFrame, products, public_frame
from skprivate.mixture._selection import ErrorWeights, Integers, coarsest_needed
from skprivate.partitions import InMemory, Partitions


class LinearConstraints(NamedTuple):
    """Rows of ``coefficients @ x + intercepts``, in the units of the input."""

    coefficients: Floats
    intercepts: Floats


class MixtureRows(NamedTuple):
    """Original rows of a block."""

    X: Floats
    private: NDArray[np.bool_]
    has_private_label: NDArray[np.bool_]

    @property
    def supports(self) -> NDArray[np.bool_]:
        """Mask of public points of the public label."""
        return ~self.private & ~self.has_private_label


class SpanRows(NamedTuple):
    """Rows of a block on the public points' affine span, in scaled units; all others are private in any case.

    ``signed`` is that of `ErrorWeights`.
    """

    scaled: Floats
    signed: Integers


def span_rows(rows: MixtureRows, frame: PublicFrame, weights: ErrorWeights) -> SpanRows:
    """Select the rows on the span, each by itself."""
    scaled = frame.scaled(rows.X)
    on_span = frame.distance(scaled) <= frame.slack
    signed = weights.signed(rows.has_private_label)
    if on_span.all():
        return SpanRows(scaled, signed)
    return SpanRows(np.compress(on_span, scaled.T, axis=1).T, signed[on_span])


def public_points(rows: MixtureRows) -> Floats:
    """Return the public points of a block, which may be collected."""
    return rows.X[rows.supports]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, weights and the public numbers that plans are made from.

    ``table`` holds the public points of the public label as its rows ``supports``. Errors are counted in ``unit``,
    rounded down; ``offset`` is that of calling every row private, ``sensitivity`` the largest change by one private
    row, in this unit. ``planning_rows`` are all rows where their number is public, else the public ones.
    ``effective_rows`` is the number of private rows whose errors weigh as much as all rows of the lighter class.
    """

    frame: PublicFrame
    rows: Partitions
    on_span: Partitions
    offset: int
    table: Floats
    supports: Integers
    unit: int
    sensitivity: int
    planning_rows: int
    effective_rows: float
    weights: ErrorWeights
    n_private: int | None

    @classmethod
    def build(
        cls,
        X: Floats,
        *,
        private: NDArray[np.bool_],
        has_private_label: NDArray[np.bool_],
        weights: ErrorWeights,
        size_is_public: bool,
    ) -> Problem:
        """Set up the problem from all rows; ``size_is_public`` under replace-one adjacency."""
        rows = MixtureRows(X, private, has_private_label)
        return cls.of(
            InMemory(rows),
            X,
            np.flatnonzero(rows.supports),
            n_rows=X.shape[0],
            n_public=int((~private).sum()),
            n_public_label=int((~has_private_label).sum()),
            weights=weights,
            size_is_public=size_is_public,
        )

    @classmethod
    def of(
        cls,
        rows: Partitions,
        table: Floats,
        supports: Integers,
        *,
        n_rows: int,
        n_public: int,
        n_public_label: int,
        weights: ErrorWeights,
        size_is_public: bool,
    ) -> Problem:
        """Set up the problem from rows in blocks and the positions of public points.

        ``n_public`` is the number of public rows, ``n_public_label`` that of rows with the public label.
        """
        frame = public_frame(table, supports)
        planning_rows = n_rows if size_is_public else n_public
        effective = supports.size * weights.public_label
        if size_is_public:
            effective = min(effective, (n_rows - supports.size) * weights.private_label)
        largest = planning_rows * max(weights.public_label, weights.private_label)
        unit = coarsest_needed(weights, largest)
        return cls(
            frame=frame,
            rows=rows,
            on_span=rows.map(partial(span_rows, frame=frame, weights=weights)),
            offset=n_public_label * weights.public_label,
            table=table,
            supports=supports,
            unit=unit,
            sensitivity=weights.sensitivity // unit,
            planning_rows=planning_rows,
            effective_rows=effective / weights.sensitivity,
            weights=weights,
            n_private=n_rows - n_public if size_is_public else None,
        )

    @property
    def n_public(self) -> int:
        return len(self.supports)

    @property
    def n_features(self) -> int:
        return int(self.frame.center.size)

    @property
    def public(self) -> Floats:
        """Public points of the public label, in scaled units."""
        return self._scaled(self.supports)

    def some_public(self, at_most: int, rng: np.random.Generator) -> Floats:
        """Return all of them, or a uniform sample."""
        chosen = self.supports
        if len(chosen) > at_most:
            chosen = chosen[rng.choice(len(chosen), at_most, replace=False)]
        return self._scaled(chosen)

    def _scaled(self, chosen: Integers) -> Floats:
        # Results from all public points may depend on their layout in memory.
        return self.frame.scaled(np.ascontiguousarray(self.table[chosen]))


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Rows of the span that all halfspaces {normals @ z + intercepts ≥ 0} contain are called public.

    Normals have unit length in scaled units. ``all_private`` is the hypothesis that calls every row private.
    """

    normals: Floats
    intercepts: Floats
    all_private: bool = False

    @classmethod
    def calling_all_private(cls, n_features: int) -> Hypothesis:
        return cls(np.zeros((0, n_features)), np.zeros(0), all_private=True)

    def contain(self, scaled: Floats) -> NDArray[np.bool_]:
        """Compute the membership of scaled rows in each halfspace, of shape (n_halfspaces, n)."""
        return np.array(products(self.normals, scaled) + self.intercepts[:, None] >= 0)


@dataclass(frozen=True)
class DrawRecord:
    """One draw by name ("exact", "joint", "move" or "descent"), its number of compared hypotheses, and its price."""

    name: str
    n_hypotheses: int
    epsilon: float


def margins(frame: PublicFrame, hypothesis: Hypothesis, X: Floats) -> Floats:
    """Compute the signed margin of each row, ≥ 0 where it is called public, in scaled units.

    It is the smallest distance to a bounding hyperplane, negative outside; minus the distance to the span for rows off
    it. Without halfspaces there is no boundary: the margin is then 1 on the span, and −1 everywhere for the hypothesis
    that calls every row private.
    """
    if hypothesis.all_private:
        return np.full(X.shape[0], -1.0)
    scaled = frame.scaled(X)
    margin = np.full(X.shape[0], 1.0)
    if hypothesis.intercepts.size:
        margin = (products(hypothesis.normals, scaled) + hypothesis.intercepts[:, None]).min(axis=0)
    if frame.complement.shape[0]:
        distance = frame.distance(scaled)
        margin = np.where(distance <= frame.slack, margin, np.minimum(margin, -distance))
    return margin
