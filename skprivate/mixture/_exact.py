"""All intersections of halfspaces that public points support: one exact draw (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from skprivate.mixture import _geometry, _intersections, _problem
from skprivate.mixture._cuts import CutCandidates, CutIntersections, point_cuts
from skprivate.mixture._problem import Block, DrawRecord, Hypothesis, Integers, Problem, SpanRows
from skprivate.partitions import InMemory
from skprivate.privacy import Events, Mechanism, Release, SelectionRule

#: Largest number of memberships, or cuts, of the rows of a block that are held at a time.
MOST_ENTRIES = 2**26
#: What families are made of.
Candidates: TypeAlias = CutCandidates | _geometry.HalfspacePairs
#: A family over rows in memory, whose enumeration comes in parts that do not depend on the rows.
Family: TypeAlias = CutIntersections | _intersections.Intersections
#: Largest number of pairs of opposite halfspaces whose memberships are kept in memory.
MOST_PAIRS = 20_000
#: Largest number of hypotheses times rows for strategy "auto".
MOST_WORK = 10**12


def family_over(
    rows: SpanRows,
    candidates: Candidates,
    max_size: int,
    basis: _geometry.Floats | None = None,
    *,
    offset: int = 0,
    resolution: int = 1,
) -> Family:
    """Make intersections of cuts or of supported halfspaces over some rows; in coordinates along ``basis``, if any."""
    coordinates = rows.scaled if basis is None else _geometry.products(basis, rows.scaled).T
    if isinstance(candidates, CutCandidates):
        bins = candidates.bins(coordinates)
        return CutIntersections(bins, candidates.n_cuts, rows.signed, max_size, offset=offset, resolution=resolution)
    sides = candidates.memberships(coordinates)
    return _intersections.Intersections(*sides, rows.signed, max_size, offset=offset, resolution=resolution)


def family_of(problem: Problem, make: partial[Family]) -> Family | StreamedFamily:
    """Make the family of a problem's rows, in memory or in blocks."""
    rows = problem.on_span
    if isinstance(rows, InMemory):  # one block: its sums are the sums
        return make(rows.block, offset=problem.offset, resolution=problem.unit)
    return StreamedFamily(problem, make)


class StreamedFamily(_problem.Enumeration):
    """Family over rows in blocks, with the hypotheses of one in memory, in the same order.

    Every block counts the errors of a stretch of the hypotheses, the counts are added up, and only how often each sum
    occurs is kept; the stretch that holds the drawn one is counted once more. ``make`` maps `SpanRows` to a `Family`,
    and holds public numbers only.
    """

    def __init__(self, problem: Problem, make: partial[Family]) -> None:
        super().__init__(problem.offset, problem.unit)
        self._rows, self._make = problem.on_span, make
        # The hypotheses and their order do not depend on rows.
        self._blank = make(SpanRows(np.empty((0, problem.n_features)), np.empty(0, dtype=np.int64)))
        self._latest: tuple[slice, Integers] | None = None

    def __len__(self) -> int:
        return len(self._blank)

    @property
    def part_sizes(self) -> list[int]:
        return self._blank.part_sizes

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]:
        """Count hypotheses by their number of errors; the rows are counted wherever they are."""
        return super().histogram(1)

    def _blocks(self, parts: slice) -> Iterator[Block]:
        def describe(position: int) -> tuple[int, ...]:
            for sums, own in self._blank.errors(parts):
                if position < sums.size:
                    return own(position)
                position -= sums.size
            raise IndexError("The parts have fewer hypotheses.")

        if self._latest is None or self._latest[0] != parts:
            size = sum(self.part_sizes[parts])
            sums = self._rows.sum(partial(part_sums, make=self._make, parts=parts, size=size))
            self._latest = parts, sums
        yield self._latest[1], describe


def part_sums(rows: SpanRows, make: partial[Family], parts: slice, size: int) -> Integers:
    """Sum what the rows of a block add to the errors of the hypotheses of some parts, in order."""
    totals = np.zeros(size, dtype=np.int64)
    step = max(1, MOST_ENTRIES // max(1, len(make.keywords["candidates"])))
    for low in range(0, len(rows.signed), step):
        some = SpanRows(rows.scaled[low : low + step], rows.signed[low : low + step])
        totals += np.concatenate([sums for sums, _ in make(some).errors(parts)])
    return totals


def count_exact_hypotheses(n_points: int, dimension: int, max_halfspaces: int) -> tuple[int, int]:
    """Return the largest possible |H| for that many public points in such a span, and the pairs it is built from."""
    if n_points == 0:
        return 1, 0
    pairs = _geometry.count_supporting_pairs(n_points, dimension)
    return _intersections.count_intersections(2 * pairs, min(max_halfspaces, dimension)) + 1, pairs


@dataclass(frozen=True)
class ExactDraw(Mechanism):
    """One draw from all intersections of at most ``max_halfspaces`` supported halfspaces.

    As many halfspaces as the span has dimensions are enough for Lemma 4.5: within the span V, the convex sets are the
    candidates' traces and the best halfspace's, and Helly's theorem in dimension dim V needs dim V + 1 of them.
    """

    epsilon: float
    max_halfspaces: int
    rule: SelectionRule = "exponential"
    monotone: bool = False
    n_jobs: int | None = None
    theorem = "Bassily, Moran, Nandi 2020, Lemma 4.1"

    @property
    def events(self) -> Events:
        return [(_problem.selection_event(self.rule, self.epsilon), 1)]

    def run(self, data: Problem, release: Release) -> tuple[Hypothesis, tuple[DrawRecord, ...]]:
        """Draw a hypothesis, and record what it was drawn from."""
        problem, frame = data, data.frame
        size = min(self.max_halfspaces, frame.dimension)
        # Coordinates within the span.
        public = _geometry.products(frame.basis, problem.public).T
        # On a line the errors of all halfspaces are cumulative sums.
        list_candidates = point_cuts if frame.dimension == 1 else _geometry.supporting_pairs
        candidates: Candidates = list_candidates(public, frame.slack)
        make = partial(family_over, candidates=candidates, max_size=size, basis=frame.basis)
        family = None if frame.empty else family_of(problem, make)
        record = DrawRecord("exact", 1 if family is None else len(family) + 1, self.epsilon)
        chosen = _problem.draw_hypothesis(
            family,
            problem.offset // problem.unit,
            release,
            epsilon=self.epsilon,
            sensitivity=problem.sensitivity,
            rule=self.rule,
            monotone=self.monotone,
            n_jobs=self.n_jobs,
        )
        if chosen is None:
            return Hypothesis.calling_all_private(problem.n_features), (record,)
        normals, intercepts = candidates.sides(chosen)
        return Hypothesis(normals @ frame.basis, intercepts), (record,)
