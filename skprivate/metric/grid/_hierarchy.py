"""Counts on a binary hierarchy of boxes, and how their budget is split.

Level j of the hierarchy splits coordinate j mod d of every box in two, so that level r has 2^r boxes. Levels are
counted with discrete Laplace noise, made consistent by weighted least squares and turned into a nonnegative measure.
The budget split is optimised for the error in W1 rather than fixed: see `split_budget`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate.metric._domains import Box, block_to_unit
from skprivate.metric.grid._bounds import PrivateBounds
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Events, Mechanism, PureEvent, Release
from skprivate.privacy.noise import FloatArray, IntArray

#: No hierarchy is deeper: 2^22 boxes.
MAX_DEPTH = 22
#: Splits added to the depth for data in one, two, and more columns (benchmarks/metric_depth.py, metric_mixed.py).
FURTHER_SPLITS = {1: -0.7, 2: 1.0, 3: 2.35}
#: Depth added for every split of the list of combinations of categories.
GROUP_SHARE = 0.3
#: Levels with a smaller share of the budget than this are not counted at all.
_LEAST_SHARE = 0.02
#: About the sum of the integer weights of all levels.
_WEIGHTS = 1000
_BLOCK = 1 << 18
#: Share of the budget for private bounds.
RANGE_SHARE = 0.1
#: Share of the budget for the number of rows, which sets the depth and scales nothing else.
SIZE_SHARE = 0.05
#: Share of the budget for coarse counts, which estimate how much of the cube the rows fill.
PILOT_SHARE = 0.1
#: Below this cost the noise, about 1200/epsilon in units of a weighted count, would pass 2⁵².
LEAST_EPSILON = 2.0**-41


@dataclass(frozen=True)
class HierarchyPlan:
    """Public plan of one release: the boxes and the weights of the levels.

    The first ``group_bits`` of ``depth`` splits halve the list of 2**group_bits combinations of categories instead of a
    coordinate.
    """

    n_features: int
    depth: int
    group_bits: int = 0

    @property
    def weights(self) -> tuple[int, ...]:
        """Integer weights of the levels 0 … depth (`split_budget`)."""
        return split_budget(self.depth, self.n_features, self.group_bits)

    @property
    def shape(self) -> tuple[int, ...]:
        """Leaf boxes per coordinate."""
        splits = self.depth - self.group_bits + self.n_features - 1
        return tuple(1 << ((splits - i) // self.n_features) for i in range(self.n_features))

    def count(self, unit_rows: FloatArray, groups: IntArray | None = None) -> IntArray:
        """Count the rows in every leaf box; with ``groups``, the combination comes first."""
        if groups is None:
            return leaf_counts(unit_rows, self.shape)
        size = 1 << self.group_bits
        return leaf_counts(np.column_stack([(groups + 0.5) / size, unit_rows]), (size, *self.shape))

    def flatten(self, counts: IntArray) -> IntArray:
        """Put counts in tree order."""
        parts = counts.reshape(1 << self.group_bits, *self.shape)
        return np.concatenate([np.asarray(to_tree_order(part), dtype=np.int64) for part in parts])

    def unflatten(self, flat: FloatArray) -> FloatArray:
        """Invert `flatten`, with the combination first."""
        parts = flat.reshape(1 << self.group_bits, -1)
        return np.stack([from_tree_order(part, self.shape) for part in parts])


def choose_depth(n_rows: float, epsilon: float, n_features: int) -> int:
    """Choose the largest depth r with r · 2^r ≤ n_rows · epsilon · √2, at which the mean leaf count exceeds its noise.

    ``n_rows`` is a *released* number of rows.
    """
    budget = max(float(n_rows), 0.0) * epsilon * math.sqrt(2)
    depth = 1
    while depth < MAX_DEPTH and (depth + 1) * 2.0 ** (depth + 1) <= budget:
        depth += 1
    return depth


@functools.lru_cache(maxsize=256)
def split_budget(depth: int, n_features: int, group_bits: int = 0) -> tuple[int, ...]:
    """Choose integer weights of the levels 0 … depth that nearly minimise the predicted W1 error.

    A split of a level-(j−1) box misplaces the error of its two counts by one box diameter, 2^(−(j−1)/d). With the
    standard deviation sd_j of that split after weighted least squares over the whole tree the error is
    Σ_j 2^(j−1) 2^(−(j−1)/d) sd_j; sd_j follows from the weights in closed form. Few levels are worth counting: in the
    best splits the finest one and another every four to eight levels. The first ``group_bits`` splits leave the
    diameter at 1.
    """
    if depth == 0:
        return (1,)
    level = np.arange(depth)
    cost = 2.0 ** (level - np.maximum(level - group_bits, 0) / max(n_features, 1))

    def log_error(logits: FloatArray) -> float:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        return float(np.log(cost @ np.sqrt(combined_variances(2 / shares**2)[1:])))

    best = (math.inf, np.zeros(depth + 1))
    for gap in sorted({max(depth // parts, 1) for parts in range(1, 5)} | {depth + 1}):
        start = np.full(depth + 1, -5.0)
        start[depth::-gap] = 0.0
        found = minimize(
            log_error, start, method="L-BFGS-B", bounds=[(-10.0, 3.0)] * (depth + 1), options={"maxiter": 40}
        )
        best = min(best, (float(found.fun), found.x), key=lambda pair: pair[0])
    shares = np.exp(best[1] - best[1].max())
    shares[shares < _LEAST_SHARE * shares.sum()] = 0.0
    weights = [round(float(share)) for share in shares / shares.sum() * _WEIGHTS]
    return tuple(weights) if sum(map(bool, weights)) > 1 else (0,) * depth + (1,)


def combined_variances(variances: FloatArray) -> FloatArray:
    """Compute the variance of each level's counts combined with everything below (``inf``: not counted)."""
    combined = np.array(variances, dtype=np.float64)
    for level in range(combined.size - 2, -1, -1):
        below = 2 * combined[level + 1]
        own = combined[level]
        combined[level] = below if math.isinf(own) or own + below == 0 else own * below / (own + below)
    return combined


def leaf_counts(unit_rows: FloatArray, shape: tuple[int, ...]) -> IntArray:
    """Count the rows of the unit cube in every leaf box; 1.0 belongs to the last one."""
    total = math.prod(shape)
    counts = np.zeros(total, dtype=np.int64)
    for start in range(0, unit_rows.shape[0], _BLOCK):
        block = unit_rows[start : start + _BLOCK]
        index = np.zeros(block.shape[0], dtype=np.int64)
        for column, size in enumerate(shape):
            if size > 1:
                box = np.minimum((block[:, column] * size).astype(np.int64), size - 1)
                index = index * size + box
        counts += np.bincount(index, minlength=total)
    return counts.reshape(shape)


def to_tree_order(grid: NDArray[np.generic]) -> NDArray[np.generic]:
    """Flatten a leaf grid so that siblings at every level are neighbours (bits of the coordinates interleaved)."""
    order = _bit_order(grid.shape)
    return np.transpose(grid.reshape((2,) * len(order)), order).ravel()


def from_tree_order(flat: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Invert `to_tree_order`."""
    order = _bit_order(shape)
    bits = flat.reshape((2,) * len(order))
    return np.transpose(bits, np.argsort(order)).reshape(shape)


def _bit_order(shape: tuple[int, ...]) -> list[int]:
    """List axes of the binary array in the order of the levels that split them."""
    bits = [size.bit_length() - 1 for size in shape]
    first = np.concatenate([[0], np.cumsum(bits)[:-1]]).astype(int)
    order = []
    for depth in range(max(bits, default=0)):
        order += [int(first[i] + depth) for i in range(len(shape)) if depth < bits[i]]
    return order


def release_counts(
    counts: IntArray, plan: HierarchyPlan, release: Release, *, epsilon: float
) -> list[FloatArray | None]:
    """Release counts of the levels that have a weight, in one draw.

    Counts of level j are multiplied by the weight w_j, put side by side and released with discrete Laplace noise
    of ℓ1 sensitivity Σ w_j: one row more or less changes one count of every level by 1. The noise of level j is that
    of a budget ε w_j / Σ w_i for it alone, and the shares add up to ε exactly.
    """
    level = plan.flatten(counts)
    levels = [level]
    for _ in range(plan.depth):
        level = level.reshape(-1, 2).sum(axis=1)
        levels.append(level)
    levels.reverse()
    counted = [j for j, weight in enumerate(plan.weights) if weight]
    flat = np.concatenate([plan.weights[j] * levels[j] for j in counted])
    noisy = release.discrete_laplace(flat, sensitivity=sum(plan.weights), epsilon=epsilon)
    result: list[FloatArray | None] = [None] * (plan.depth + 1)
    for j, own in zip(counted, np.split(noisy, np.cumsum([levels[j].size for j in counted])[:-1]), strict=True):
        result[j] = own / plan.weights[j]
    return result


def level_variances(plan: HierarchyPlan, epsilon: float) -> FloatArray:
    """Compute the noise variance of the counts of each level (``inf``: not counted)."""
    total = sum(plan.weights)
    lattice = discrete_laplace_variance(epsilon / total)
    return np.array([lattice / weight**2 if weight else math.inf for weight in plan.weights])


def discrete_laplace_variance(epsilon: float) -> float:
    """Compute the variance of P(k) ∝ exp(−ε|k|)."""
    sinh = math.sinh(min(0.5 * epsilon, 700.0))
    return 0.5 / sinh / sinh  # its square alone would overflow


def consistent_leaves(
    noisy: list[FloatArray | None], variances: FloatArray, *, n_leaves: int | None = None
) -> FloatArray:
    """Find the leaf values closest to all noisy counts in weighted least squares, in two passes over the tree.

    Upwards, each count is averaged with the sum of its children; downwards, the children's excess over their parent is
    split evenly (Hay et al. 2010; exact for level-wise variances), and every pair of children is projected onto
    {a + b = parent, a, b ≥ 0}. Counts are in tree order, None for a level without; leaves from ``n_leaves`` on do not
    exist and get 0.
    """
    depth = len(noisy) - 1
    combined = combined_variances(
        np.array([v if y is not None else math.inf for v, y in zip(variances, noisy, strict=True)])
    )
    leaves = noisy[depth]
    assert leaves is not None
    upward = [leaves]
    for level in range(depth - 1, -1, -1):
        own, below = noisy[level], upward[-1].reshape(-1, 2).sum(axis=1)
        if own is not None:
            # Weight of the level's own count; two exact values need no averaging.
            spread = 2 * combined[level + 1] + variances[level]
            weight = 2 * combined[level + 1] / spread if spread > 0 else 0.5
            below = weight * own + (1 - weight) * below
        upward.append(below)
    values = np.maximum(upward.pop(), 0.0)
    while upward:
        children = upward.pop().reshape(-1, 2)
        first = np.clip(0.5 * (values + children[:, 0] - children[:, 1]), 0.0, values)
        if n_leaves is not None:
            leaves_below = leaves.size // children.size
            absent = (2 * np.arange(first.size) + 1) * leaves_below >= n_leaves
            first = np.where(absent, values, first)
        values = np.stack([first, values - first], axis=1).ravel()
    return values


def extra_depth(pilot: FloatArray, n_features: int, group_bits: int = 0) -> int:
    """Choose further splits for concentrated data, from a released pilot measure (leaf values of a coarse hierarchy).

    `choose_depth` assumes data that fill the cube. Real rows fill a part of it: with D bits of entropy less than the
    uniform measure has on the pilot's boxes, nonnegativity removes empty boxes, and the others deserve finer ones.
    Splits of categories use depth that the numeric columns need as well. The result is
    0.6·D + c + `GROUP_SHARE`·``group_bits``, rounded, at least 0, with c from `FURTHER_SPLITS`.
    """
    total = float(pilot.sum())
    if total <= 0:
        return 0
    share = pilot[pilot > 0] / total
    deficit = math.log2(pilot.size) + float(share @ np.log2(share))
    constant = FURTHER_SPLITS[min(max(n_features, 1), 3)] + GROUP_SHARE * group_bits
    return max(round(0.6 * deficit + constant), 0)


@dataclass(frozen=True)
class BinaryHierarchy(Mechanism):
    """ε-differentially private measure on the boxes of a binary hierarchy of the unit cube, for one row more or less.

    Without ``depth``, the number of rows and a coarse pilot are released first; they choose the depth, and the pilot's
    counts take part in the least squares. The three epsilons are fixed shares of ``epsilon``. With ``n_groups``
    combinations of categories, these are split first.
    """

    epsilon: float
    n_features: int
    depth: int | None = None
    n_groups: int | None = None
    theorem = "discrete Laplace noise on the counts of a binary hierarchy (docs/theory/metric.md, proposition 3)"

    def __post_init__(self) -> None:
        # Refused before payment: the sampler could not draw it.
        if self.epsilon < LEAST_EPSILON:
            raise ValueError(
                f"epsilon must leave at least {LEAST_EPSILON:.3g} for the counts, got {self.epsilon:.3g}: more noise "
                "than that cannot be drawn."
            )

    @property
    def epsilons(self) -> list[float]:
        """ε of the number of rows, the pilot and the counts; of the counts alone if the depth is given."""
        if self.depth is not None:
            return [self.epsilon]
        size, pilot = SIZE_SHARE * self.epsilon, PILOT_SHARE * self.epsilon
        return [size, pilot, self.epsilon - size - pilot]

    @property
    def events(self) -> Events:
        return [(PureEvent(cost, "discrete Laplace"), 1) for cost in self.epsilons]

    @property
    def bits(self) -> int:
        """Splits of the list of combinations."""
        return ((self.n_groups or 1) - 1).bit_length()

    def run(self, data: tuple[FloatArray, IntArray | None] | Partitions, release: Release) -> tuple[FloatArray, float]:
        """Release probabilities of the leaf boxes, and the number of rows by the noisy counts.

        Data are (rows in the unit cube, number of the combination of each or None), or blocks of such pairs. The
        measure has one axis per coordinate, after one for the combination if there are groups.
        """
        rows = as_partitions(data)
        pilot, depth = (None, self.depth) if self.depth is not None else self._pilot(rows, release)
        plan = HierarchyPlan(self.n_features, depth, self.bits)
        cost = self.epsilons[-1]
        noisy = release_counts(rows.sum(partial(_count, plan=plan)), plan, release, epsilon=cost)
        variances = level_variances(plan, cost)
        if pilot is not None:
            # Average the pilot with the counts of its level.
            level, variance = pilot.size.bit_length() - 1, discrete_laplace_variance(self.epsilons[1])
            own = noisy[level]
            if own is None:
                noisy[level], variances[level] = pilot, variance
            elif variances[level] + variance > 0:
                share = variance / (variances[level] + variance)
                noisy[level] = share * own + (1 - share) * pilot
                variances[level] *= share
        n_leaves = self._n_leaves(depth)
        leaves = consistent_leaves(noisy, variances, n_leaves=n_leaves)
        total = float(leaves.sum())
        weights = leaves / total if total > 0 else (np.arange(leaves.size) < n_leaves) / n_leaves
        grid = plan.unflatten(weights)
        return grid[0] if self.n_groups is None else grid[: self.n_groups], total

    def _pilot(self, rows: Partitions, release: Release) -> tuple[FloatArray, int]:
        """Release counts of coarse boxes, and choose the depth by them and by the noisy number of rows."""
        size_epsilon, pilot_epsilon, rest = self.epsilons
        size = float(release.discrete_laplace([rows.n_rows], sensitivity=1, epsilon=size_epsilon)[0])
        pilot_depth = max(choose_depth(size, pilot_epsilon, self.n_features), self.bits)
        plan = HierarchyPlan(self.n_features, pilot_depth, self.bits)
        boxes = plan.flatten(rows.sum(partial(_count, plan=plan)))
        pilot = release.discrete_laplace(boxes, sensitivity=1, epsilon=pilot_epsilon).astype(np.float64)
        coarse = consistent_leaves(
            [*[None] * pilot_depth, pilot], np.full(pilot_depth + 1, 1.0), n_leaves=self._n_leaves(pilot_depth)
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
        """Release the box, the measure in it and the number of rows."""
        rows = as_partitions(data)
        box = self.box.run(rows.map(itemgetter(0)), release) if isinstance(self.box, PrivateBounds) else self.box
        return box, *self.hierarchy.run(rows.map(partial(block_to_unit, box=box)), release)


def _count(block: tuple[FloatArray, IntArray | None], plan: HierarchyPlan) -> IntArray:
    return plan.count(*block)
