"""Which strategy a problem is solved by, and its mechanism: decided by public numbers alone."""

from __future__ import annotations

import numpy as np

from skprivate.mixture._cuts import KEPT_FRACTIONS, quantile_cuts, without_repetition
from skprivate.mixture._descent import Coordinates, LogisticDescent, plan_descent, principal_coordinates
from skprivate.mixture._exact import MOST_PAIRS, MOST_WORK, ExactDraw, count_exact_hypotheses
from skprivate.mixture._problem import Problem
from skprivate.mixture._search import (
    CUT_POINTS,
    GUIDE_KEPT_FRACTIONS,
    HalfspaceSearch,
    plan_search,
    public_directions,
    selection_events,
)
from skprivate.privacy import SelectionRule
from skprivate.privacy._events import Events
from skprivate.privacy._selection import MAX_FLIPS

#: Strategies that descend and need δ > 0.
WITH_DESCENT = ("gradient", "guided")
#: Part of ε that the selections of "guided" have.
SELECTION_SHARE = 0.4


def choose_strategy(
    problem: Problem,
    strategy: str,
    *,
    delta: float,
    max_halfspaces: int | None,
    max_candidates: int,
    selection: SelectionRule,
) -> str:
    """Resolve "auto", and refuse an exact strategy that is too large or a descent without δ."""
    if strategy in WITH_DESCENT and not delta:
        raise ValueError(
            f"strategy={strategy!r} adds Gaussian noise and needs delta > 0, got delta=0.0: pass for example "
            "delta=1e-6, or use strategy='greedy', which needs none."
        )
    n_points = problem.n_public
    if n_points <= MOST_PAIRS:
        n_points = len(np.unique(problem.public, axis=0))
    dimension = problem.frame.dimension
    largest = dimension if max_halfspaces is None else max_halfspaces
    n_hypotheses, n_pairs = count_exact_hypotheses(n_points, dimension, largest)
    pairs_fit = dimension == 1 or n_pairs <= MOST_PAIRS
    fits = n_hypotheses <= max_candidates and pairs_fit
    if selection == "permute-and-flip":
        fits = fits and n_hypotheses <= MAX_FLIPS
    if strategy == "exact" and not fits:
        raise ValueError(
            f"strategy='exact' would compare up to {n_hypotheses:.3g} hypotheses from {2 * n_pairs:.3g} "
            f"halfspaces, more than max_candidates={max_candidates} (and {2 * MOST_PAIRS} halfspaces) "
            "allow. Use strategy='greedy' or 'thinned', or lower max_halfspaces, or use fewer public rows; "
            "raise max_candidates where only that is in the way."
        )
    if strategy != "auto":
        return strategy
    quick = dimension <= 1 or n_hypotheses * problem.planning_rows <= MOST_WORK
    if fits and quick:
        return "exact"
    return "guided" if delta else "greedy"


def make_search(
    problem: Problem,
    strategy: str,
    epsilon: float,
    delta: float,
    *,
    other: Events = (),
    max_halfspaces: int | None,
    max_candidates: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    rule: SelectionRule,
    monotone: bool,
) -> ExactDraw | HalfspaceSearch | LogisticDescent:
    """What draws the halfspaces; ``rng`` is public, and ``other`` is drawn from the same δ and further ε."""
    if strategy == "exact":
        size = problem.frame.dimension if max_halfspaces is None else max_halfspaces
        return ExactDraw(epsilon, size, rule, monotone, n_jobs)
    guided = strategy == "guided"
    if strategy == "gradient":
        return _descent(problem, epsilon, delta, other)
    public = problem.some_public(CUT_POINTS, rng)
    candidates = quantile_cuts(public, public_directions(public, rng), KEPT_FRACTIONS, problem.frame.slack)
    candidates = without_repetition(candidates, public)
    n_cuts, selecting = candidates.n_cuts, epsilon
    if guided:
        n_cuts, selecting = (*n_cuts, len(GUIDE_KEPT_FRACTIONS) + 1), SELECTION_SHARE * epsilon
        max_candidates = max(1, max_candidates // 2)
    plan = plan_search(
        n_cuts,
        problem,
        epsilon=selecting,
        max_halfspaces=5 if max_halfspaces is None else max_halfspaces,
        max_candidates=max_candidates,
        moves=strategy != "thinned",
        monotone=monotone,
    )
    guide = _descent(problem, epsilon, delta, [*other, *selection_events(plan, rule)]) if guided else None
    return HalfspaceSearch(plan, candidates, rule, monotone, guide)


def _descent(problem: Problem, epsilon: float, delta: float, other: Events) -> LogisticDescent:
    """A descent on what the other events leave of (ε, δ)."""
    coordinates, variances = principal_coordinates(problem)
    n_private = problem.effective_rows if problem.n_private is None else problem.n_private
    plan = plan_descent(
        variances,
        n_private,
        epsilon=epsilon,
        delta=delta,
        other=other,
        size_is_public=problem.n_private is not None,
    )
    used = Coordinates(*(part[: plan.n_coordinates] for part in coordinates))
    return LogisticDescent(plan, used, problem.weights, problem.n_private, epsilon)
