"""Which strategy a problem is solved by, and its mechanism: decided by public numbers alone."""

from __future__ import annotations

import numpy as np

from skprivate.mixture._cuts import KEPT_FRACTIONS, quantile_cuts, without_repetition
from skprivate.mixture._exact import MOST_PAIRS, MOST_WORK, ExactDraw, count_exact_hypotheses
from skprivate.mixture._problem import Problem
from skprivate.mixture._search import CUT_POINTS, HalfspaceSearch, plan_search, public_directions
from skprivate.privacy import SelectionRule
from skprivate.privacy._selection import MAX_FLIPS


def choose_strategy(
    problem: Problem,
    strategy: str,
    *,
    max_halfspaces: int | None,
    max_candidates: int,
    selection: SelectionRule,
) -> str:
    """Resolve "auto", and refuse an exact strategy that is too large."""
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
    return "exact" if fits and quick else "greedy"


def make_search(
    problem: Problem,
    strategy: str,
    epsilon: float,
    *,
    max_halfspaces: int | None,
    max_candidates: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    rule: SelectionRule,
    monotone: bool,
) -> ExactDraw | HalfspaceSearch:
    """What draws the halfspaces; ``rng`` is public."""
    if strategy == "exact":
        size = problem.frame.dimension if max_halfspaces is None else max_halfspaces
        return ExactDraw(epsilon, size, rule, monotone, n_jobs)
    public = problem.some_public(CUT_POINTS, rng)
    candidates = quantile_cuts(public, public_directions(public, rng), KEPT_FRACTIONS, problem.frame.slack)
    candidates = without_repetition(candidates, public)
    plan = plan_search(
        candidates.n_cuts,
        problem,
        epsilon=epsilon,
        max_halfspaces=5 if max_halfspaces is None else max_halfspaces,
        max_candidates=max_candidates,
        moves=strategy == "greedy",
        monotone=monotone,
    )
    return HalfspaceSearch(plan, candidates, rule, monotone)
