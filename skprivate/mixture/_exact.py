"""Algorithms 1 and 2: one exact draw from all intersections of halfspaces supported by public points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from skprivate.mixture._cuts import CutCandidates, point_cuts
from skprivate.mixture._families import cuts_of, family_of, pairs_of
from skprivate.mixture._geometry import count_supporting_pairs, products, supporting_pairs
from skprivate.mixture._intersections import count_intersections
from skprivate.mixture._problem import DrawRecord, Hypothesis, Problem
from skprivate.mixture._selection import draw_hypothesis, selection_event
from skprivate.privacy import Mechanism, Release, SelectionRule
from skprivate.privacy._events import Events

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
