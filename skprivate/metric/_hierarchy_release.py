"""The private measure on a binary hierarchy: how the budget is split, what is drawn, in a public or a private box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from skprivate.metric._binary_hierarchy import (
    MAX_DEPTH,
    HierarchyPlan,
    choose_depth,
    consistent_leaves,
    discrete_laplace_variance,
    extra_depth,
    level_variances,
    release_counts,
)
from skprivate.metric._box import Box
from skprivate.metric._private_bounds import PrivateBounds
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Mechanism, PureEvent, Release
from skprivate.privacy._events import Events

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Share of the budget for the bounds, where they are private.
RANGE_SHARE = 0.1
#: Share of the budget for the number of rows, which sets the depth and scales nothing else.
SIZE_SHARE = 0.05
#: Share of the budget for coarse counts, which tell how much of the cube the rows fill.
PILOT_SHARE = 0.1
#: Below this price the noise, about 1200/epsilon in units of a weighted count, would pass 2⁵².
LEAST_EPSILON = 2.0**-41


@dataclass(frozen=True)
class BinaryHierarchy(Mechanism):
    """ε-differentially private measure on the boxes of a binary hierarchy of the unit cube, for one row more or less.

    Without ``depth``, the number of rows and a coarse pilot are released first; they choose the depth, and the pilot's
    counts take part in the least squares. The three prices are fixed shares of ``epsilon``.

    Parameters
    ----------
    epsilon : float
        Price of everything drawn.
    n_features : int
    depth : int, optional
        Number of splits.
    n_groups : int, optional
        Number of combinations of categories, which are split first.
    """

    epsilon: float
    n_features: int
    depth: int | None = None
    n_groups: int | None = None
    theorem = "discrete Laplace noise on the counts of a binary hierarchy (docs/metric.md, proposition 3)"

    def __post_init__(self) -> None:
        # What the sampler cannot draw is refused before anything is paid for.
        if self.epsilon < LEAST_EPSILON:
            raise ValueError(
                f"epsilon must leave at least {LEAST_EPSILON:.3g} for the counts, got {self.epsilon:.3g}: more noise "
                "than that cannot be drawn."
            )

    @property
    def prices(self) -> list[float]:
        """Of the number of rows, the pilot and the counts; of the counts alone if the depth is given."""
        if self.depth is not None:
            return [self.epsilon]
        size, pilot = SIZE_SHARE * self.epsilon, PILOT_SHARE * self.epsilon
        return [size, pilot, self.epsilon - size - pilot]

    @property
    def events(self) -> Events:
        return [(PureEvent(price, "discrete Laplace"), 1) for price in self.prices]

    @property
    def bits(self) -> int:
        """Splits of the list of combinations."""
        return ((self.n_groups or 1) - 1).bit_length()

    def run(self, data: tuple[FloatArray, IntArray | None] | Partitions, release: Release) -> FloatArray:
        """The measure of `measure_and_size` alone."""
        return self.measure_and_size(data, release)[0]

    def measure_and_size(
        self, data: tuple[FloatArray, IntArray | None] | Partitions, release: Release
    ) -> tuple[FloatArray, float]:
        """Measure of (rows in the unit cube, number of the combination of each or None), or of blocks of such pairs.

        Returns
        -------
        ndarray
            Probability per leaf box, one axis per coordinate, after one for the combination if there are groups.
        float
            Number of rows by the noisy counts.
        """
        rows = as_partitions(data)
        pilot, depth = (None, self.depth) if self.depth is not None else self._pilot(rows, release)
        plan = HierarchyPlan(self.n_features, depth, self.bits)
        price = self.prices[-1]
        noisy = release_counts(rows.sum(partial(_count, plan=plan)), plan, release, epsilon=price)
        variances = level_variances(plan, price)
        if pilot is not None:
            variance = discrete_laplace_variance(self.prices[1])
            _add_counts(noisy, variances, pilot.size.bit_length() - 1, pilot, variance)
        n_leaves = self._n_leaves(depth)
        leaves = consistent_leaves(noisy, variances, n_leaves=n_leaves)
        total = float(leaves.sum())
        weights = leaves / total if total > 0 else (np.arange(leaves.size) < n_leaves) / n_leaves
        grid = plan.unflatten(weights)
        return grid[0] if self.n_groups is None else grid[: self.n_groups], total

    def _pilot(self, rows: Partitions, release: Release) -> tuple[FloatArray, int]:
        """Noisy counts of coarse boxes, and the depth that they and the noisy number of rows speak for."""
        size_price, pilot_price, rest = self.prices
        size = float(release.discrete_laplace([rows.n_rows], sensitivity=1, epsilon=size_price)[0])
        pilot_depth = max(choose_depth(size, pilot_price, self.n_features), self.bits)
        plan = HierarchyPlan(self.n_features, pilot_depth, self.bits)
        boxes = plan.flatten(rows.sum(partial(_count, plan=plan)))
        pilot = release.discrete_laplace(boxes, sensitivity=1, epsilon=pilot_price).astype(np.float64)
        coarse = consistent_leaves(
            [*[None] * pilot_depth, pilot],
            np.full(pilot_depth + 1, 1.0),
            n_leaves=self._n_leaves(pilot_depth),
        )
        further = extra_depth(coarse, self.n_features, self.bits)
        depth = min(choose_depth(size, rest, self.n_features) + further, MAX_DEPTH)
        return pilot, depth if self.n_groups is None else max(depth, pilot_depth)

    def _n_leaves(self, depth: int) -> int:
        return (self.n_groups or 1) << (depth - self.bits)


@dataclass(frozen=True)
class BoxedHierarchy(Mechanism):
    """A binary hierarchy of the rows' box, which is public or found by `PrivateBounds`."""

    box: Box | PrivateBounds
    hierarchy: BinaryHierarchy

    @property
    def theorem(self) -> str:  # type: ignore[override]
        after = f" after {self.box.theorem}" if isinstance(self.box, PrivateBounds) else ""
        return self.hierarchy.theorem + after

    @property
    def events(self) -> Events:
        first = self.box.events if isinstance(self.box, PrivateBounds) else ()
        return [*first, *self.hierarchy.events]

    def run(
        self, data: tuple[FloatArray, IntArray | None] | Partitions, release: Release
    ) -> tuple[Box, FloatArray, float]:
        """Box, measure in it and noisy size of (rows, number of the combination of categories of each or None)."""
        rows = as_partitions(data)
        box = (
            self.box.run(rows.map(itemgetter(0)), release)
            if isinstance(self.box, PrivateBounds)
            else self.box
        )
        return box, *self.hierarchy.measure_and_size(rows.map(partial(_in_box, box=box)), release)


def _in_box(block: tuple[FloatArray, IntArray | None], box: Box) -> tuple[FloatArray, IntArray | None]:
    return box.to_unit(block[0]), block[1]


def _count(block: tuple[FloatArray, IntArray | None], plan: HierarchyPlan) -> IntArray:
    return plan.count(*block)


def _add_counts(
    noisy: list[FloatArray | None], variances: FloatArray, level: int, counts: FloatArray, variance: float
) -> None:
    """Let further counts of a level take part, averaged with those that are there."""
    own = noisy[level]
    if own is None:
        noisy[level], variances[level] = counts, variance
    elif variances[level] + variance > 0:
        share = variance / (variances[level] + variance)
        noisy[level] = share * own + (1 - share) * counts
        variances[level] *= share
