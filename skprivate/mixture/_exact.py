"""Algorithms 1 and 2: one exact draw from all intersections of halfspaces supported by public points."""

from __future__ import annotations

import numpy as np

from skprivate.mixture._cuts import CutIntersections, point_cuts
from skprivate.mixture._geometry import Floats, count_supporting_pairs, products, supporting_pairs
from skprivate.mixture._intersections import Intersections, count_intersections
from skprivate.mixture._problem import DrawRecord, Hypothesis, Problem
from skprivate.mixture._selection import draw_hypothesis
from skprivate.privacy import Release, SelectionRule

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


def on_basis(problem: Problem, scaled: Floats) -> Floats:
    """Coordinates of scaled rows within the span."""
    return products(problem.frame.basis, scaled).T


def draw_exact(
    problem: Problem,
    release: Release,
    *,
    epsilon: float,
    max_halfspaces: int,
    rule: SelectionRule,
    monotone: bool,
    n_jobs: int | None,
) -> tuple[Hypothesis, DrawRecord]:
    """Draw the hypothesis.

    As many halfspaces as the span has dimensions are enough for Lemma 4.5: within the span V, the convex sets
    are the candidates' traces and the best halfspace's, and Helly's theorem in dimension dim V needs dim V +
    1 of them.
    """
    frame = problem.frame
    size = min(max_halfspaces, frame.dimension)
    public = on_basis(problem, problem.public)
    family: Intersections | CutIntersections | None
    if frame.empty:
        family = None
    elif frame.dimension == 1:
        # On a line the errors of all halfspaces are cumulative sums.
        cuts = point_cuts(public, frame.slack)
        family = CutIntersections(
            cuts.bins(on_basis(problem, problem.scaled)),
            cuts.n_cuts,
            problem.signed,
            size,
            offset=problem.offset,
            resolution=problem.unit,
        )
    else:
        pairs = supporting_pairs(public, frame.slack)
        positive, negative = pairs.memberships(on_basis(problem, problem.scaled))
        family = Intersections(
            positive, negative, problem.signed, size, offset=problem.offset, resolution=problem.unit
        )
    record = DrawRecord("exact", 1 if family is None else len(family) + 1, epsilon)
    chosen = draw_hypothesis(
        family,
        problem.offset // problem.unit,
        release,
        epsilon=epsilon,
        sensitivity=problem.sensitivity,
        rule=rule,
        monotone=monotone,
        n_jobs=n_jobs,
    )
    if chosen is None:
        return Hypothesis.calling_all_private(problem.scaled.shape[1]), record
    if isinstance(family, CutIntersections):
        sides = [cuts.halfspace(*pair) for pair in zip(chosen[0::2], chosen[1::2], strict=True)]
        normals = np.array([normal for normal, _ in sides]).reshape(-1, 1)
        intercepts = np.array([intercept for _, intercept in sides])
    else:
        normals, intercepts = pairs.sides(chosen)
    return Hypothesis(normals @ frame.basis, intercepts), record
