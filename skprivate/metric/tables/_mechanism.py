"""The mechanism of whole tables: magnitudes, quantiles, counts, a tree of tables, and rounds of what rows get wrong."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skprivate._validation import code_numbers
from skprivate.metric.tables import _cells
from skprivate.metric.tables._candidates import Candidates, Clique, Laws, Released, place, posterior
from skprivate.metric.tables._cells import Cells, ColumnSpec
from skprivate.metric.tables._costs import MOST_TABLE, Stage, events_of, stages_of
from skprivate.privacy import Adjacency, Events, Mechanism, Release, draws
from skprivate.privacy.noise import FloatArray, IntArray

#: Expected number of magnitudes that noise alone makes up in all columns, and of cells of tails that it fills.
_FALSE_RANGES, _FALSE_CELLS = 1e-5, 1.0
#: Standard deviations of noise that a cell exceeds at least, of however few.
_LEAST_DEVIATIONS = 3.0
#: A bin holds this many standard deviations of noise of released rows at least.
_BIN_NOISE = 4.0
#: L1 norm of noise, in standard deviations for each cell: what a score gains if its table is measured.
_MEAN_NOISE = 0.8
#: In the choice of rounds, the weight of tables with the target.
_TARGET_WEIGHT = 3
#: Candidate rows: few where rows are few, so that noise decides more than how many there are.
_CANDIDATES, _SQUARE = (4096, 100_000), 4096.0
#: Cells of all tables that are scored in one pass over candidates: with many columns several rounds share a pass.
_SCORED = 300
#: Seconds for a row in a table, on one core, roughly.
_SECONDS_PER_STEP = 4e-9


@dataclass(frozen=True)
class Rows:
    """Private rows: numbers, or codes of listed values, NaN for gaps; and the weight of each, of 1/``one``.

    The rows of a user weigh ⌊one/m⌋ each, whatever other users do. ``texts`` are the entries of columns whose values
    nobody listed, and ``tags`` are those of users.
    """

    table: FloatArray
    units: IntArray | None = None
    weights: FloatArray | None = None
    one: int = 1
    texts: tuple[NDArray[Any], ...] = ()
    tags: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, data: object) -> Rows:
        """Read a table; or a table, the user of each row or None, and maybe entries to be found and tags of users."""
        if not isinstance(data, tuple):
            return cls(np.asarray(data, np.float64))
        table, units, *more = data
        if units is None:
            return cls(table, None, None, 1, *more)
        weights = (draws.UNIT_WEIGHT // np.maximum(np.bincount(units), 1))[units].astype(np.float64)
        return cls(table, units, weights, draws.UNIT_WEIGHT, *more)

    def count(self, cells: IntArray, n_cells: int) -> IntArray:
        """Sum weights by cells: integers, which float64 adds exactly."""
        return np.bincount(cells, self.weights, n_cells).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class TableModel:
    """Released model: cells of each column and their counts, and weighted candidate rows of bins."""

    cells: tuple[Cells, ...]
    counts: tuple[FloatArray, ...]
    candidates: NDArray[np.uint8]
    weights: NDArray[np.float32]
    n_units: float
    unseen: tuple[int, ...]
    found: dict[int, tuple[Any, ...]]
    tables: tuple[Clique, ...]


@dataclass(frozen=True, kw_only=True)
class TableMechanism(Mechanism):
    """A model of whole rows, (ε, δ)-differentially private for one unit more or less.

    Each draw is a sum over units of integers, and a unit weighs W. It moves fine counts of d columns by W√d in ℓ2 (W in
    each column), a table of any columns by W, and a score, the ℓ1 distance of a table from a released one, by W.
    Selections of quantiles are those of `private_centre` and `private_quantiles`.
    """

    columns: tuple[ColumnSpec, ...]
    target: int | None
    epsilon: float
    delta: float
    theorem = "noisy tables of few columns, docs/theory/metric.md, proposition 13"

    @property
    def stages(self) -> dict[str, Stage]:
        return stages_of(self.columns, self.target, self.epsilon, self.delta)

    @property
    def events(self) -> Events:
        return events_of(self.stages)

    def noise(self, stage: str, sensitivity: float = 1.0) -> float:
        """Compute the standard deviation of the noise of a stage, in units."""
        return self.stages[stage].level * sensitivity

    @property
    def least_in_range(self) -> float:
        """Number of units in an octave of a column for its magnitude to be seen."""
        parts = sum(1 + (column.bounds is None) for column in self.columns if column.is_number)
        return self.noise("ranges", math.sqrt(parts)) * _deviations(_FALSE_RANGES, self.stages["ranges"].size)

    @property
    def least_units(self) -> float:
        """Number of units for two bins of a column."""
        return 2 * _BIN_NOISE * self.noise("cells", math.sqrt(len(self.columns)))

    @np.errstate(all="ignore")  # a warning would tell of a row that overflows
    def run(self, data: object, release: Release) -> TableModel:
        """Release what synthetic rows are drawn from."""
        rows, values = self._values(Rows.of(data), release)
        cells, unseen = self._cells(rows, values, release)
        cells, counts, n_units = self._counts(rows, cells, release)
        bins = [own.bins[own.code(column)] for own, column in zip(cells, rows.table.T, strict=True)]
        codes = np.stack(bins).astype(np.uint8)
        tables = _Tables(self, rows, codes, tuple(own.n_bins for own in cells), release)
        laws, released = tables.tree(self._single(cells, counts, n_units), n_units)
        drawn = laws.draw(_n_candidates(n_units), release.public_rng)
        candidates = Candidates(drawn, tables.sizes, n_units)
        tables.rounds(candidates, released)
        return TableModel(
            cells=tuple(cells),
            counts=tuple(counts),
            candidates=candidates.codes,
            weights=candidates.weights.astype(np.float32),
            n_units=n_units,
            unseen=unseen,
            found=values,
            tables=tuple(released),
        )

    def _values(self, rows: Rows, release: Release) -> tuple[Rows, dict[int, tuple[Any, ...]]]:
        """Find values that nobody listed, and the codes of all rows."""
        unlisted = [j for j, column in enumerate(self.columns) if column.found]
        if not unlisted:
            return rows, {}
        stage = self.stages["values"]
        draw = draws.CategoryDiscovery(
            n_columns=len(unlisted),
            noise_multiplier=stage.level,
            threshold_delta=stage.threshold_delta or 0.0,
            adjacency=Adjacency.ADD_REMOVE,
        )
        released = draw.run(draws.count_values(rows.texts, rows.units, rows.tags), release)
        table, values = rows.table.copy(), {}
        for j, texts, counts in zip(unlisted, rows.texts, released, strict=True):
            common = set(sorted(counts, key=counts.__getitem__, reverse=True)[: self.columns[j].n_values])
            values[j] = tuple(value for value in counts if value in common)
            codes = code_numbers(texts, values[j])
            table[:, j] = np.where(codes == len(values[j]), np.nan, codes)
        return replace(rows, table=table), values

    def _cells(
        self, rows: Rows, values: dict[int, tuple[Any, ...]], release: Release
    ) -> tuple[list[Cells], tuple[int, ...]]:
        """Find the fine cells of every column, and the columns of numbers without a magnitude that is seen."""
        found = [
            _cells.list_cells(max(len(values[j]), 1) if j in values else column.n_values)
            for j, column in enumerate(self.columns)
        ]
        numbers = [j for j, column in enumerate(self.columns) if column.is_number]
        unseen = []
        for j, (within, step) in zip(numbers, self._ranges(rows, numbers, release), strict=True):
            quantiles = self._quantiles(rows, j, within or (-0.5, 0.5), release)
            if within is None:
                unseen.append(j)
            found[j] = _cells.constant_cells() if within is None else _cells.number_cells(quantiles, within, step)
        return found, tuple(unseen)

    def _ranges(
        self, rows: Rows, numbers: list[int], release: Release
    ) -> list[tuple[tuple[float, float] | None, float]]:
        """Find the range of each column of numbers, by its octaves, and the widest step that its numbers are on."""
        if not numbers:
            return []
        parts = []
        for j in numbers:
            column, steps = rows.table[:, j], self.columns[j].steps
            gap = np.isnan(column)
            parts.append(rows.count(np.where(gap, len(steps) + 1, first_step(column, steps)), len(steps) + 2)[:-1])
            if self.columns[j].bounds is None:
                octaves = np.where(
                    gap, _cells.N_OCTAVES, _cells.OCTAVES.cells(np.where(gap, 0.0, column)) + _cells.OCTAVES.last
                )
                parts.append(rows.count(octaves, _cells.N_OCTAVES + 1)[:-1])
        noisy, noise = self._noisy(rows, np.concatenate(parts), len(parts), "ranges", release)
        least = noise * _deviations(_FALSE_RANGES, len(noisy))
        pieces = np.split(noisy, np.cumsum([self.columns[j].range_cells for j in numbers])[:-1])
        found = []
        for j, own in zip(numbers, pieces, strict=True):
            steps, bounds = self.columns[j].steps, self.columns[j].bounds
            needed = np.flatnonzero(own[: len(steps) + 1] > least)
            step = (*steps, 0.0)[int(needed[-1])] if needed.size else 0.0
            found.append((bounds or _cells.seen_range(own[len(steps) + 1 :], noise, least), step))
        return found

    def _quantiles(self, rows: Rows, j: int, within: tuple[float, float], release: Release) -> FloatArray:
        present = ~np.isnan(rows.table[:, j])
        units = None if rows.units is None else rows.units[present]
        selection: dict[str, Any] = {
            "epsilon": self.stages["bins"].level,
            "adjacency": Adjacency.ADD_REMOVE,
            "release": release,
            "bounds": within,
        }
        values = np.clip(rows.table[present, j], *within)
        centre = draws.private_centre(draws.weigh(draws.FINE.cells(values), units, draws.UNIT_WEIGHT), **selection)
        total = draws.ROW_WEIGHT if units is None else draws.USER_WEIGHT
        offsets = draws.weigh(draws.COARSE.cells(values - centre), units, total)
        return draws.private_quantiles(offsets, centre, total=total, n_bins=_cells.N_BINS, **selection)

    def _counts(self, rows: Rows, cells: list[Cells], release: Release) -> tuple[list[Cells], list[FloatArray], float]:
        """Count all columns by their fine cells, and merge bins of few rows."""
        parts = [rows.count(own.code(column), own.n_cells) for own, column in zip(cells, rows.table.T, strict=True)]
        noisy, noise = self._noisy(rows, np.concatenate(parts), len(parts), "cells", release)
        counts = np.split(noisy, np.cumsum([own.n_cells for own in cells])[:-1])
        precision = np.array([1.0 / own.n_cells for own in cells])
        n_units = max(float(precision @ [own.sum() for own in counts] / precision.sum()), 1.0)
        least, deviations = _BIN_NOISE * noise, _deviations(_FALSE_CELLS, len(noisy))
        merged, positive = [], []
        for j, (own, found) in enumerate(zip(cells, counts, strict=True)):
            found = _cells.empty_tails(own, found, noise, deviations)
            found[-1] *= found[-1] >= least  # no gaps where there are none
            bins = _cells.merge_rare(own, found, n_units, least, target=j == self.target)
            kept = with_sum(found, n_units)
            for k in np.flatnonzero(np.bincount(bins.bins, kept) <= 0):  # its cell nearest to the middle
                inside = np.flatnonzero(bins.bins == k)
                kept[inside[-1] if own.tail[inside[0]] < 0 else inside[0]] = 1e-3
            merged.append(bins)
            positive.append(kept)
        return merged, positive, n_units

    def _single(self, cells: list[Cells], counts: list[FloatArray], n_units: float) -> dict[Clique, Released]:
        """Sum fine counts to bins."""
        noise = self.noise("cells", math.sqrt(len(cells)))
        found: dict[Clique, Released] = {}
        for j, (own, fine) in enumerate(zip(cells, counts, strict=True)):
            bins = np.maximum(np.bincount(own.bins, fine, own.n_bins), 0.05)
            found[(j,)] = Released(bins * n_units / bins.sum(), noise)
        return found

    def _noisy(
        self, rows: Rows, sums: IntArray, n_parts: int, stage: str, release: Release
    ) -> tuple[FloatArray, float]:
        """Add noise to tables side by side; a unit has its weight once in each."""
        made = self.stages[stage]
        # √n·W, and a little for the rounding of the root.
        sensitivity = math.sqrt(n_parts) * rows.one * (1 + 2.0**-50 * (n_parts > 1))
        noisy = release.gaussian(
            sums, sensitivity=sensitivity, noise_multiplier=made.level, size=made.size, step=1 / rows.one
        )
        return noisy, made.level * math.sqrt(n_parts)


@dataclass(frozen=True)
class _Tables:
    """Tables of rows of bins: which are measured, and what is released of them."""

    mechanism: TableMechanism
    rows: Rows
    codes: NDArray[np.uint8]
    sizes: tuple[int, ...]
    release: Release

    def table(self, clique: Clique) -> IntArray:
        """Count private rows by bins of some columns."""
        return self.rows.count(place(self.codes, self.sizes, clique), self.size(clique))

    def size(self, clique: Clique) -> int:
        return math.prod(self.sizes[j] for j in clique)

    def measure(self, clique: Clique, stage: str) -> Released:
        noisy, noise = self.mechanism._noisy(self.rows, self.table(clique), 1, stage, self.release)
        return Released(noisy, noise)

    def distance(self, table: IntArray, model: FloatArray, stage: str) -> int:
        """Compute the L1 distance of a private table from one that is public, less the noise it would have."""
        one = self.rows.one
        apart = int(np.abs(table - np.rint(model.ravel() * one).astype(np.int64)).sum())
        return apart - int(_MEAN_NOISE * self.mechanism.noise(stage) * table.size) * one

    def choose(self, scores: list[int], weight: int) -> int:
        stage = self.mechanism.stages["choices"]
        integers = np.array(scores, dtype=np.int64)
        return int(self.release.select(integers, sensitivity=weight * self.rows.one, epsilon=stage.level))

    def tree(self, single: dict[Clique, Released], n_units: float) -> tuple[Laws, dict[Clique, Released]]:
        """Measure all tables with the target, and those of a tree that columns depend along."""
        target, released = self.mechanism.target, dict(single)
        counts = [single[(j,)].counts for j in range(len(self.sizes))]
        others = [j for j in range(len(self.sizes)) if j != target]
        of_target = {}
        if target is not None and others:
            of_target = self._of_target(others, target, counts, n_units)
            noise = self.mechanism.noise("pairs", math.sqrt(len(others)))
            released |= {(j, target): Released(table.ravel(), noise) for j, table in of_target.items()}
        laws = Laws(single=counts, target=target, of_target=of_target, pairs={})
        models = {
            (a, b): self._independent(laws, a, b, n_units)
            for a, b in itertools.combinations(others, 2)
            if self.size(self._with_target(a, b)) <= MOST_TABLE
        }
        scores = {
            pair: self.distance(self.table(self._with_target(*pair)), model, "tree") for pair, model in models.items()
        }
        part = {j: j for j in others}
        for _ in range(self.mechanism.stages["tree"].times):
            open_pairs = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
            if not open_pairs:  # released sizes leave none: draw what was planned
                self.choose([0], 1)
                self.measure((), "tree")
                continue
            a, b = open_pairs[self.choose([scores[pair] for pair in open_pairs], 1)]
            clique = self._with_target(a, b)
            released[clique] = self.measure(clique, "tree")
            model = models[a, b]
            found = posterior(model.ravel(), released[clique].counts, released[clique].noise)
            laws.pairs[a, b] = found.reshape(model.shape)
            part = {j: part[a] if p == part[b] else p for j, p in part.items()}
        return laws, released

    def _with_target(self, a: int, b: int) -> Clique:
        target = self.mechanism.target
        return (a, b) if target is None else (a, b, target)

    def _independent(self, laws: Laws, a: int, b: int, n_units: float) -> FloatArray:
        """Compute the table of two columns that are independent, given the target."""
        first, second = laws.given_target(a), laws.given_target(b)
        if laws.target is None:
            return np.outer(first[0], second[0]) * n_units
        model: FloatArray = np.einsum("ta,tb,t->abt", first, second, laws.single[laws.target])
        return model

    def _of_target(
        self, others: list[int], target: int, counts: list[FloatArray], n_units: float
    ) -> dict[int, FloatArray]:
        """Release the tables of all columns with the target in one draw, shrunk to independence."""
        tables = [self.table((j, target)) for j in others]
        noisy, noise = self.mechanism._noisy(self.rows, np.concatenate(tables), len(tables), "pairs", self.release)
        parts = np.split(noisy, np.cumsum([table.size for table in tables])[:-1])
        found = {}
        for j, part in zip(others, parts, strict=True):
            model = np.outer(counts[j], counts[target]) / n_units
            found[j] = posterior(model.ravel(), part, noise).reshape(model.shape) + 1e-9 * model
        return found

    def rounds(self, candidates: Candidates, released: dict[Clique, Released]) -> None:
        """Measure the tables that candidate rows get most wrong, one a round, and rake the rows to all tables."""
        target, times = self.mechanism.target, self.mechanism.stages["rounds"].times
        others = [j for j in range(len(self.sizes)) if j != target]
        cliques: list[Clique] = list(itertools.combinations(range(len(self.sizes)), 2))
        if target is not None:
            cliques += [(a, b, target) for a, b in itertools.combinations(others, 2)]
        if not times:
            return
        most = min(MOST_TABLE, candidates.total / (_MEAN_NOISE * self.mechanism.noise("rounds")))
        cliques = [clique for clique in cliques if self.size(clique) <= most]
        private = {clique: self.table(clique) for clique in cliques}
        candidates.rake(released, 2)
        per_pass = max(1, len(cliques) // _SCORED)
        scores: dict[Clique, int] = {(): 0}
        for k in range(times):
            if k % per_pass == 0 and cliques:
                scores = {
                    clique: (_TARGET_WEIGHT if len(clique) == 3 else 1)
                    * self.distance(private[clique], candidates.table(clique), "rounds")
                    for clique in cliques
                }
            chosen = list(scores)[self.choose(list(scores.values()), _TARGET_WEIGHT)]
            table = self.measure(chosen, "rounds")
            released[chosen] = released[chosen].with_other(table) if chosen in released else table
            candidates.rake({chosen: released[chosen]}, 1)
            candidates.rake(released, 1)
            if per_pass > 1:
                del scores[chosen]
        candidates.rake(released, 4)


def _deviations(expected: float, n_cells: int) -> float:
    """Find the standard deviations that noise exceeds in an expected number of cells."""
    return max(float(norm.isf(min(expected / max(n_cells, 1), 0.5))), _LEAST_DEVIATIONS)


def table_plan(mechanism: TableMechanism, n_rows: int) -> dict[str, float]:
    """Compute what a fit would measure and about what it would take, from public numbers."""
    d, rounds = len(mechanism.columns), mechanism.stages["rounds"].times
    others = d if mechanism.target is None else d - 1
    pairs = others * (others - 1) // 2
    n_tables = pairs if mechanism.target is None else 2 * pairs + others
    candidates = _n_candidates(n_rows)
    passes = math.ceil(rounds / max(1, n_tables // _SCORED))
    raked = (d + 2 * others + rounds / 2) * (6 + rounds) * candidates
    steps = n_tables * (2 * n_rows + passes * candidates) + raked + 40.0 * d * n_rows
    return {
        "tables": float(n_tables),
        "noise": mechanism.noise("rounds"),
        "least_units": mechanism.least_units,
        "least_in_range": mechanism.least_in_range,
        "candidates": float(candidates),
        "seconds": 0.5 + _SECONDS_PER_STEP * steps,
        "megabytes": (8.0 * d * n_rows + 4.0 * (d + 2 * others + rounds) * candidates + 4096.0 * n_tables) / 1e6,
    }


def _n_candidates(n_units: float) -> int:
    low, high = _CANDIDATES
    return int(np.clip(n_units**2 / _SQUARE, low, high))


def first_step(values: FloatArray, steps: tuple[float, ...]) -> IntArray:
    """Find the first of the steps that each number is a multiple of; their number for none."""
    found = np.full(len(values), len(steps), dtype=np.int64)
    for k in reversed(range(len(steps))):
        found[_cells.on_steps(values, steps[k]) == values] = k
    return found


def with_sum(counts: FloatArray, total: float) -> FloatArray:
    """Lower all counts by one number and cut them at 0, so that they have a sum; or scale them up to it."""
    positive: FloatArray = np.maximum(counts, 0.0)
    if not positive.any():
        positive[:-1] = 1.0  # no gaps
    if positive.sum() <= total:
        positive *= total / positive.sum()
        return positive
    order = np.sort(positive)[::-1]
    lower = (np.cumsum(order) - total) / np.arange(1, order.size + 1)
    last = int(np.flatnonzero(order > lower)[-1])
    cut: FloatArray = np.maximum(positive - lower[last], 0.0)
    return cut
