"""Mechanisms that release moments, fill values and quantiles of every column, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skprivate import privacy
from skprivate._validation import code_numbers
from skprivate.partitions import as_partitions
from skprivate.preprocessing._columns import Column, Columns, Rows, column_cells
from skprivate.privacy import Adjacency, BoundedRangeEvent, GaussianEvent, Mechanism, PureEvent, Release, draws
from skprivate.privacy.noise import FloatArray, IntArray

Plan: TypeAlias = tuple[tuple[privacy.PrivacyEvent, int], ...]
#: Public range of every column, with None where it is not known; or None for all.
Bounds: TypeAlias = tuple[tuple[float, float] | None, ...] | None

#: Share of ρ of the sums. Selections get the rest: they are what fails if units are few.
_SUMS_SHARE = 0.25
#: A selection at ε needs about this many units times 1/ε, the sums this many standard deviations of noise.
_UNITS_PER_SELECTION, _UNITS_PER_NOISE = 55.0, 4.0
#: One in steps of contributions, 2⁻³⁰.
ONE = 1 << privacy.CONTRIBUTION_BITS
#: Numbers are clipped at twice the released radius: normal ones hardly ever, and long tails where few are left.
_RADIUS_FACTOR = 2.0


class Costs(NamedTuple):
    """ε of each selection, and Laplace or Gaussian noise on the three sums of a column."""

    selection: float
    noise: PureEvent | GaussianEvent


@lru_cache(maxsize=256)
def selection_cost(count: int, epsilon: float, delta: float) -> float:
    """Find the largest ε of each of ``count`` exponential mechanisms; with δ > 0 many cost less than their sum."""
    pure = epsilon / count
    if delta == 0:
        return pure
    start = math.sqrt(8 * _rho(epsilon, delta) / count)
    return max(pure, _largest(lambda e: ((BoundedRangeEvent(e), count),), start, epsilon, delta))


@lru_cache(maxsize=256)
def moment_costs(
    n_columns: int, n_selections: int, sensitivities: tuple[float, float], epsilon: float, delta: float
) -> Costs:
    """Divide a budget between ``n_selections`` selections and one vector of noisy sums for every column.

    ``sensitivities`` are the ℓ1 and ℓ2 ones of the sums, in units. Laplace or Gaussian noise is chosen such that fewer
    units suffice.
    """
    per_column = epsilon / n_columns
    each_share = per_column / (n_selections + 1)
    pure = Costs(each_share, PureEvent(each_share, "Laplace"))
    if delta == 0:
        return pure
    share = _SUMS_SHARE if n_selections else 1.0

    def costs(root: float) -> Costs:
        each = math.sqrt(8 * (1 - share) / max(n_selections, 1)) * root
        return Costs(each, GaussianEvent(1 / (math.sqrt(2 * share) * root), 3))

    def plan(root: float) -> Plan:
        return moment_events(costs(root), n_columns, n_selections)

    start = math.sqrt(_rho(epsilon, delta) / n_columns)
    approximate = costs(_largest(plan, start, epsilon, delta))

    def needed(found: Costs) -> float:
        selected = _UNITS_PER_SELECTION / found.selection if n_selections else 0.0
        return max(selected, _UNITS_PER_NOISE * noise_deviation(found.noise, *sensitivities))

    return approximate if needed(approximate) < needed(pure) else pure


def noise_deviation(noise: PureEvent | GaussianEvent, l1: float, l2: float) -> float:
    """Compute the standard deviation of noise for the ℓ1 and ℓ2 sensitivity, in the same unit."""
    if isinstance(noise, PureEvent):
        return math.sqrt(2) * l1 / noise.epsilon
    return l2 * noise.noise_multiplier


def moment_events(costs: Costs, n_columns: int, n_selections: int) -> Plan:
    """List the events of `moment_costs` for all columns."""
    selections: Plan = ((BoundedRangeEvent(costs.selection), n_selections * n_columns),) if n_selections else ()
    return (*selections, (costs.noise, n_columns))


def _rho(epsilon: float, delta: float) -> float:
    """Approximate the ρ of zCDP that (ε, δ) buys, to start a search."""
    root = math.sqrt(math.log(1 / delta))
    return (math.sqrt(root * root + epsilon) - root) ** 2


def _largest(plan: Callable[[float], Plan], start: float, epsilon: float, delta: float) -> float:
    """Find a scale at which the composed cost of a plan is just within the budget."""
    scale, within, beyond = start, 0.0, math.inf
    for _ in range(40):
        spent = privacy.compose_epsilon(plan(scale), delta)
        if spent <= epsilon:
            within = max(within, scale)
            if spent > 0.995 * epsilon:
                break
        else:
            beyond = min(beyond, scale)
        # In proportion; but a large δ pays for a small scale alone, and beyond it the cost rises steeply.
        scale *= 0.998 * epsilon / max(spent, epsilon / 2)
        if not within < scale < beyond:
            scale = (within + beyond) / 2
    return within


def fine_cells(values: FloatArray, j: int, bounds: Bounds = None) -> IntArray:
    """Assign values of column j, clipped to its bounds, to cells."""
    return draws.FINE.cells(_within(values, j, bounds))


def _within(values: FloatArray, j: int, bounds: Bounds) -> FloatArray:
    limits = None if bounds is None else bounds[j]
    return values if limits is None else np.clip(values, *limits)


def offset_cells(values: FloatArray, j: int, bounds: Bounds, centres: list[float]) -> IntArray:
    """Assign distances of values of column j, clipped to its bounds, from its centre to signed cells."""
    with np.errstate(over="ignore"):
        return draws.COARSE.cells(_within(values, j, bounds) - centres[j])


def distance_cells(values: FloatArray, j: int, centres: Sequence[float]) -> IntArray:
    """Assign absolute distances of values of column j from its centre to cells."""
    with np.errstate(over="ignore"):
        return draws.OCTAVES.cells(np.abs(values - centres[j]))


@dataclass(frozen=True)
class ColumnQuantiles(Mechanism):
    """Quantiles that split the units of every column into ``n_bins[j]`` equal parts; none for an empty ``n_bins``."""

    n_bins: tuple[int, ...]
    epsilon: float
    delta: float
    adjacency: Adjacency
    bounds: Bounds = None
    theorem = (
        "quantiles by recursive exponential mechanisms (Kaplan, Schnapp and Stemmer 2022), docs/guide/preprocessing.md"
    )

    @property
    def n_selections(self) -> int:
        return sum(map(draws.quantile_levels, self.n_bins))

    @property
    def cost(self) -> float:
        """ε of each selection."""
        return selection_cost(self.n_selections, self.epsilon, self.delta)

    @property
    def events(self) -> Plan:
        return ((BoundedRangeEvent(self.cost), self.n_selections),) if self.n_bins else ()

    @property
    def least_units(self) -> float:
        """Number of units that a median needs to depend on the data."""
        return draws.units_for_median(self.cost, self.adjacency)

    def run(self, data: Rows, release: Release) -> list[FloatArray]:
        """Release the inner edges of all columns, arrays of shape (n_bins[j] - 1,)."""
        if not self.n_bins:
            return []
        selection: dict[str, Any] = {"epsilon": self.cost, "adjacency": self.adjacency, "release": release}
        bounds = self.bounds or (None,) * len(self.n_bins)
        values = column_cells(data, partial(fine_cells, bounds=self.bounds), draws.UNIT_WEIGHT)
        centres = [
            draws.private_centre(cells, bounds=limits, **selection)
            for cells, limits in zip(values, bounds, strict=True)
        ]
        # Users are in memory.
        by_row = not isinstance(data, Columns) or data.units is None
        total = draws.ROW_WEIGHT if by_row else draws.USER_WEIGHT
        offsets = column_cells(data, partial(offset_cells, bounds=self.bounds, centres=centres), total)
        return [
            draws.private_quantiles(cells, centre, total=total, n_bins=n_bins, bounds=limits, **selection)
            for cells, centre, n_bins, limits in zip(offsets, centres, self.n_bins, bounds, strict=True)
        ]

    def with_ends(self, released: list[FloatArray]) -> list[FloatArray]:
        """Add an outer edge on each side of the released ones of every column."""
        return [outer_edges(*pair) for pair in zip(released, self.bounds or (None,) * len(self.n_bins), strict=True)]


def outer_edges(inner: FloatArray, bounds: tuple[float, float] | None) -> FloatArray:
    """Add an outer edge on each side: the public bounds, or as far out as the next bin is wide."""
    if bounds is not None:
        low, high = bounds
    else:
        width = inner[-1] - inner[0]
        gaps = np.diff(inner)
        # The mean width where neighbours coincide; beside a single edge its own size.
        spare = width / max(len(gaps), 1) or max(abs(float(inner[0])), 1.0)
        low = inner[0] - (float(gaps[0]) if gaps.size and gaps[0] > 0 else spare)
        high = inner[-1] + (float(gaps[-1]) if gaps.size and gaps[-1] > 0 else spare)
    return np.concatenate([[low], inner, [high]])


def contributions(column: Column, centre: float, radius: float, n_units: int) -> Any:
    """Compute what each unit adds to the three sums of a column: integers, of shape (3, n_units).

    With z the mean of the unit's (x − centre)/radius, clipped to [−1, 1], and t that of the squares, it is
    (z, t − ½, ½) in steps of 2⁻³⁰, and 0 for a unit without values. Rounding keeps z² ≤ t ≤ 1.
    """
    with np.errstate(over="ignore"):
        relative = np.clip((column.values - centre) / radius, -1.0, 1.0)
    z = np.trunc(relative * ONE).astype(np.int64)
    first, sizes = draws.unit_means(z, column.units, n_units)
    second, _ = draws.unit_means((z * z) >> privacy.CONTRIBUTION_BITS, column.units, n_units)
    second = np.maximum(second, -((-first * first) >> privacy.CONTRIBUTION_BITS))
    present = sizes > 0
    return np.stack([first, np.where(present, second - ONE // 2, 0), np.where(present, ONE // 2, 0)])


def moment_sums(block: Columns, centres: Sequence[float], radii: Sequence[float]) -> Any:
    """Sum `contributions` over the units of a block, into shape (n_columns, 3)."""
    return np.stack(
        [
            privacy.exact_sum(contributions(block.column(j), centre, radius or 1.0, block.n_units))
            for j, (centre, radius) in enumerate(zip(centres, radii, strict=True))
        ]
    )


def sum_sensitivities(adjacency: Adjacency) -> tuple[int, float]:
    """Bound the ℓ1 and ℓ2 sensitivity of the sums of `contributions`, in steps.

    Contributions are in the convex hull of the curve (z, z² − ½, ½), or 0. Norms are convex, so the largest
    distances are those between ends of the curve: with d = z − z′ and s = z + z′, |d| ≤ 2 − |s|, the squared ℓ2
    distance d²(1 + s²) is at most 4 (s = 0), the ℓ1 distance |d|(1 + |s|) at most 9/4 (s = ½). From 0 they are
    at most 3/2 and 2.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return 9 * ONE // 4, float(2 * ONE)
    return 2 * ONE, privacy.upper_root(3 * ONE * ONE // 2)


class Moments(NamedTuple):
    """Released numbers of all columns."""

    means: Any
    scales: Any
    counts: Any


@dataclass(frozen=True)
class ColumnMoments(Mechanism):
    """Noisy mean and scale of every column.

    Two selections find a centre (a median) and a radius of every column unless ``bounds`` are public; exact sums about
    the centre are released with noise. ``n_units`` is public under replace-one, otherwise None.
    """

    n_columns: int
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_units: int | None = None
    bounds: tuple[tuple[float, float], ...] | None = None
    theorem = "clipped moments about a private centre, docs/guide/preprocessing.md"

    @property
    def n_selections(self) -> int:
        return 0 if self.bounds is not None else 2

    @property
    def bounds_help(self) -> bool:
        """Tell if fewer units would be needed with bounds."""
        return self.bounds is None

    @property
    def costs(self) -> Costs:
        l1, l2 = sum_sensitivities(self.adjacency)
        return moment_costs(self.n_columns, self.n_selections, (l1 / ONE, l2 / ONE), self.epsilon, self.delta)

    @property
    def events(self) -> Plan:
        return moment_events(self.costs, self.n_columns, self.n_selections)

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise on a sum, in units."""
        return noise_deviation(self.costs.noise, *sum_sensitivities(self.adjacency)) * privacy.CONTRIBUTION_STEP

    @property
    def least_units(self) -> float:
        """Number of units that a centre (up to e⁻³) and its sums need to depend on the data."""
        if not self.n_selections:
            return 4 * self.noise_scale
        cost = self.costs.selection
        return max(draws.units_for_median(cost, self.adjacency), 3.0 * draws.units_beyond(cost), 4 * self.noise_scale)

    def run(self, data: Rows, release: Release) -> Moments:
        """Release the moments of all columns."""
        centres, radii = self._ranges(data, release)
        totals = as_partitions(data).sum(partial(moment_sums, centres=centres, radii=radii))
        columns = [
            self._column(total, centre, radius, release)
            for total, centre, radius in zip(totals, centres, radii, strict=True)
        ]
        return Moments(*(np.array(numbers) for numbers in zip(*columns, strict=True)))

    def _column(self, total: Any, centre: float, radius: float, release: Release) -> tuple[float, float, float]:
        noise, (l1, l2), step = self.costs.noise, sum_sensitivities(self.adjacency), privacy.CONTRIBUTION_STEP
        if isinstance(noise, PureEvent):
            noisy = release.laplace(total, sensitivity=l1, epsilon=noise.epsilon, step=step)
        else:
            noisy = release.gaussian(total, sensitivity=l2, noise_multiplier=noise.noise_multiplier, step=step)
        first, second, half = noisy.tolist()
        most = math.inf if self.n_units is None else float(self.n_units)
        count = min(max(2 * half, 1.0), most)
        mean = min(max(first / count, -1.0), 1.0)
        # No variance below what the noise can tell from 0.
        least = min(self.noise_scale / count, 1.0)
        variance = min(max(second / count + 0.5 - mean * mean, least), 1.0)
        if radius == 0.0:  # a constant column
            return centre, 1.0, count
        return centre + radius * mean, radius * math.sqrt(variance), count

    def _ranges(self, data: Rows, release: Release) -> tuple[list[float], list[float]]:
        """Find the centre and the radius of every column."""
        if self.bounds is not None:
            halves = [0.5 * high - 0.5 * low for low, high in self.bounds]
            return [low + half for (low, _), half in zip(self.bounds, halves, strict=True)], halves
        cost = self.costs.selection
        centres = [
            draws.private_centre(cells, epsilon=cost, adjacency=self.adjacency, release=release)
            for cells in column_cells(data, fine_cells, draws.UNIT_WEIGHT)
        ]
        radii = [
            draws.private_extent(cells, epsilon=cost, release=release)
            for cells in column_cells(data, partial(distance_cells, centres=centres), draws.UNIT_WEIGHT)
        ]
        # The centre itself is no finer than that.
        return centres, [
            max(_RADIUS_FACTOR * radius, abs(centre) * 2.0**-16) for centre, radius in zip(centres, radii, strict=True)
        ]


@dataclass(frozen=True)
class _OneSelection(Mechanism):
    """One selection by the exponential mechanism for every column."""

    n_columns: int
    epsilon: float
    delta: float
    adjacency: Adjacency

    @property
    def cost(self) -> float:
        """ε of each selection."""
        return selection_cost(self.n_columns, self.epsilon, self.delta)

    @property
    def events(self) -> Plan:
        return ((BoundedRangeEvent(self.cost), self.n_columns),)


@dataclass(frozen=True)
class ColumnMedians(_OneSelection):
    """Median of every column."""

    bounds: Bounds = None
    theorem = "median by the exponential mechanism, docs/guide/preprocessing.md"

    @property
    def least_units(self) -> float:
        """Number of units that a median needs to depend on the data."""
        return draws.units_for_median(self.cost, self.adjacency)

    def run(self, data: Rows, release: Release) -> list[float]:
        """Release the medians."""
        columns = column_cells(data, partial(fine_cells, bounds=self.bounds), draws.UNIT_WEIGHT)
        return [
            draws.private_centre(cells, epsilon=self.cost, adjacency=self.adjacency, release=release, bounds=bounds)
            for cells, bounds in zip(columns, self.bounds or (None,) * self.n_columns, strict=True)
        ]


@dataclass(frozen=True)
class ColumnModes(_OneSelection):
    """Mode of every column among its public categories."""

    categories: tuple[tuple[Any, ...], ...] = ()
    theorem = "mode by the exponential mechanism, docs/guide/preprocessing.md"

    @property
    def least_units(self) -> float:
        """Number of units that a selection needs to depend on the data."""
        factor = 4 if self.adjacency is Adjacency.REPLACE_ONE else 2
        return factor * (math.log(max(map(len, self.categories))) + 3) / self.cost

    def run(self, data: Rows, release: Release) -> list[Any]:
        """Release the modes."""
        sums = as_partitions(data).sum(partial(category_weights, categories=self.categories))
        modes = []
        for weights, values in zip(sums, self.categories, strict=True):
            chosen = release.select(
                weights[: len(values)],
                sensitivity=draws.UNIT_WEIGHT,
                epsilon=self.cost,
                monotone=self.adjacency is Adjacency.ADD_REMOVE,
            )
            modes.append(values[int(chosen)])
        return modes


def category_weights(block: Columns, categories: tuple[tuple[Any, ...], ...]) -> IntArray:
    """Sum the weights of the categories of every column in a block, into shape (n_columns, most categories + 1).

    The entry behind the last category of a column is for other values; it is not released.
    """
    weights = np.zeros((len(categories), max(map(len, categories)) + 1), dtype=np.int64)
    for j, values in enumerate(categories):
        column = block.column(j)
        found = draws.weigh(code_numbers(column.values, values), column.units, draws.UNIT_WEIGHT)
        weights[j, found.cells] = found.weights
    return weights
