"""All intersections of halfspaces that public points support: one exact draw (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np

from skprivate._progress import steps
from skprivate.mixture._cuts import CutCandidates, CutIntersections, point_cuts
from skprivate.mixture._geometry import (
    Floats,
    HalfspacePairs,
    count_supporting_pairs,
    products,
    supporting_pairs,
)
from skprivate.mixture._intersections import Intersections, count_intersections
from skprivate.mixture._problem import DrawRecord, Hypothesis, Problem, SpanRows
from skprivate.mixture._selection import (
    Integers,
    draw_hypothesis,
    merge_occurrences,
    occurrences,
    selection_event,
)
from skprivate.partitions import InMemory
from skprivate.privacy import Events, Mechanism, Release, SelectionRule

#: Hypotheses whose errors are added up in one pass: 16 MiB from every block.
MOST_SUMS = 2**21
#: Memberships, or cuts, of the rows of a block that are held at a time.
MOST_ENTRIES = 2**26


class Family(Protocol):
    """A family over rows in memory, whose enumeration comes in parts that do not depend on the rows."""

    def __len__(self) -> int: ...

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]: ...

    def locate(self, errors: int, member: int) -> tuple[int, ...]: ...

    @property
    def part_sizes(self) -> list[int]: ...

    def sums(self, parts: slice) -> Integers: ...

    def describe(self, part: int, position: int) -> tuple[int, ...]: ...


def cuts_of(
    rows: SpanRows,
    cuts: CutCandidates,
    max_size: int,
    basis: Floats | None = None,
    *,
    offset: int = 0,
    resolution: int = 1,
) -> CutIntersections:
    """Intersections of cuts, over some rows; in coordinates along ``basis``, where given."""
    coordinates = rows.scaled if basis is None else products(basis, rows.scaled).T
    return CutIntersections(
        cuts.bins(coordinates), cuts.n_cuts, rows.signed, max_size, offset=offset, resolution=resolution
    )


def pairs_of(
    rows: SpanRows,
    pairs: HalfspacePairs,
    max_size: int,
    basis: Floats,
    *,
    offset: int = 0,
    resolution: int = 1,
) -> Intersections:
    """Intersections of supported halfspaces, over some rows."""
    sides = pairs.memberships(products(basis, rows.scaled).T)
    return Intersections(*sides, rows.signed, max_size, offset=offset, resolution=resolution)


def family_of(problem: Problem, make: Callable[..., Family]) -> Family | StreamedFamily:
    """The family that ``make`` makes of a problem's rows, wherever they are."""
    rows = problem.on_span
    if isinstance(rows, InMemory):  # one block: its sums are the sums
        return make(rows.block, offset=problem.offset, resolution=problem.unit)
    return StreamedFamily(problem, make)


class StreamedFamily:
    """The same family over rows in blocks, with the same hypotheses in the same order.

    Every block counts the errors of a stretch of the hypotheses, the counts are added up, and only how often each sum
    occurs is kept; the stretch that holds what was drawn is counted once more.

    Parameters
    ----------
    problem : Problem
    make : callable
        From `SpanRows` to a `Family`; holds public numbers only.
    """

    def __init__(self, problem: Problem, make: Callable[..., Family]) -> None:
        self._rows, self._make = problem.on_span, make
        self._offset, self._resolution = problem.offset, problem.unit
        # Which hypotheses there are, and in which order, is known without any row.
        self._blank = make(SpanRows(np.empty((0, problem.n_features)), np.empty(0, dtype=np.int64)))
        self._sizes = self._blank.part_sizes
        self._stretches = list(_stretches(self._sizes))
        self._counted: list[tuple[slice, Integers, Integers]] = []
        self._latest: tuple[slice, Integers] | None = None

    def __len__(self) -> int:
        return len(self._blank)

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]:
        """Numbers of errors that occur, ascending, and how many hypotheses make each: a pass for each stretch."""
        self._counted = []
        with steps("hypotheses", len(self._stretches)) as step:
            for parts in self._stretches:
                self._counted.append((parts, *occurrences(self._errors(parts))))
                step()
        return merge_occurrences([(errors, counts) for _, errors, counts in self._counted])

    def locate(self, errors: int, member: int) -> tuple[int, ...]:
        """The ``member``-th hypothesis (from zero) that makes ``errors`` errors."""
        if not self._counted:
            self.histogram()
        for parts, present, counts in self._counted:
            held = int(counts[present == errors].sum())
            if member < held:
                position = int(np.flatnonzero(self._errors(parts) == errors)[member])
                sizes = self._sizes[parts]
                part = next(k for k, end in enumerate(accumulate(sizes)) if position < end)
                return self._blank.describe(parts.start + part, position - sum(sizes[:part]))
            member -= held
        raise IndexError(f"Fewer hypotheses make {errors} errors.")

    def _errors(self, parts: slice) -> Integers:
        if self._latest is None or self._latest[0] != parts:
            size = sum(self._sizes[parts])
            sums = self._rows.sum(partial(part_sums, make=self._make, parts=parts, size=size))
            self._latest = parts, (sums + self._offset) // self._resolution
        return self._latest[1]


def part_sums(rows: SpanRows, make: Callable[..., Family], parts: slice, size: int) -> Integers:
    """What the rows of a block add to the errors of the hypotheses of some parts, in order."""
    totals = np.zeros(size, dtype=np.int64)
    step = max(1, MOST_ENTRIES // max(1, _width(make)))
    for low in range(0, len(rows.signed), step):
        some = SpanRows(rows.scaled[low : low + step], rows.signed[low : low + step])
        totals += make(some).sums(parts)
    return totals


def _width(make: Callable[..., Family]) -> int:
    """Candidates that each row is compared with."""
    options = make.keywords  # type: ignore[attr-defined]
    return len(options["pairs"]) if "pairs" in options else len(options["cuts"].thresholds)


def _stretches(sizes: list[int]) -> list[slice]:
    """Neighbouring parts that have at most `MOST_SUMS` hypotheses, or are one."""
    found, start, held = [], 0, 0
    for part, size in enumerate(sizes):
        if held and held + size > MOST_SUMS:
            found.append(slice(start, part))
            start, held = part, 0
        held += size
    return [*found, slice(start, len(sizes))]


#: Pairs of opposite halfspaces whose memberships are kept in memory.
MOST_PAIRS = 20_000
#: Hypotheses times rows that strategy "auto" takes on.
MOST_WORK = 10**12


def count_exact_hypotheses(n_points: int, dimension: int, max_halfspaces: int) -> tuple[int, int]:
    """Largest possible |H| for that many public points in a span of that dimension, and the pairs it is built from."""
    if n_points == 0:
        return 1, 0
    pairs = count_supporting_pairs(n_points, dimension)
    return count_intersections(2 * pairs, min(max_halfspaces, dimension)) + 1, pairs


@dataclass(frozen=True)
class ExactDraw(Mechanism):
    """One draw from all intersections of at most ``max_halfspaces`` supported halfspaces.

    As many halfspaces as the span has dimensions are enough for Lemma 4.5: within the span V, the convex sets
    are the candidates' traces and the best halfspace's, and Helly's theorem in dimension dim V needs dim V +
    1 of them.

    Parameters
    ----------
    epsilon : float
    max_halfspaces : int
    rule, monotone
        As in `Release.select`.
    n_jobs : int, optional
        Threads.
    """

    epsilon: float
    max_halfspaces: int
    rule: SelectionRule = "exponential"
    monotone: bool = False
    n_jobs: int | None = None
    theorem = "Bassily, Moran, Nandi 2020, Lemma 4.1"

    @property
    def events(self) -> Events:
        return [(selection_event(self.rule, self.epsilon), 1)]

    def run(self, data: Problem, release: Release) -> tuple[Hypothesis, tuple[DrawRecord, ...]]:
        """The drawn hypothesis, and what it was drawn from."""
        problem = data
        frame = problem.frame
        size = min(self.max_halfspaces, frame.dimension)
        # Coordinates within the span.
        public = products(frame.basis, problem.public).T
        cuts: CutCandidates | None = None
        family = None
        if frame.empty:
            pass
        elif frame.dimension == 1:
            # On a line the errors of all halfspaces are cumulative sums.
            cuts = point_cuts(public, frame.slack)
            family = family_of(problem, partial(cuts_of, cuts=cuts, max_size=size, basis=frame.basis))
        else:
            pairs = supporting_pairs(public, frame.slack)
            family = family_of(problem, partial(pairs_of, pairs=pairs, max_size=size, basis=frame.basis))
        record = DrawRecord("exact", 1 if family is None else len(family) + 1, self.epsilon)
        chosen = draw_hypothesis(
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
        if cuts is not None:
            sides = [cuts.halfspace(*pair) for pair in zip(chosen[0::2], chosen[1::2], strict=True)]
            normals = np.array([normal for normal, _ in sides]).reshape(-1, 1)
            intercepts = np.array([intercept for _, intercept in sides])
        else:
            normals, intercepts = pairs.sides(chosen)
        return Hypothesis(normals @ frame.basis, intercepts), (record,)
