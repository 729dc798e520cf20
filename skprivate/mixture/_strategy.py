"""Strategy and mechanism of a problem, by public numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np

from skprivate.mixture._calibration import CalibratedDraw, count_event
from skprivate.mixture._cuts import KEPT_FRACTIONS, quantile_cuts, without_repetition
from skprivate.mixture._descent import LogisticDescent, make_descent
from skprivate.mixture._exact import MOST_PAIRS, MOST_WORK, ExactDraw, count_exact_hypotheses
from skprivate.mixture._problem import Problem
from skprivate.mixture._roles import Roles
from skprivate.mixture._search import CUT_POINTS, HalfspaceSearch, plan_search, public_directions
from skprivate.privacy import Mechanism, public_generator
from skprivate.privacy.noise import MAX_FLIPS

#: Default number of halfspaces of a search.
MOST_HALFSPACES = 5
#: "auto" takes a descent if the largest principal variances, as many as a search has halfspaces, hold less than the
#: first part of all, and if it loses less than the second part of the others.
SEEN, LOST = 0.5, 0.5


def make_mechanism(estimator: Any, problem: Problem, roles: Roles) -> tuple[str, CalibratedDraw]:
    """Choose the strategy of a `PPMHalfspaceClassifier`, and make its mechanism from public numbers."""
    epsilon, counting = float(estimator.epsilon), None
    if estimator.calibration_fraction is not None:
        counting = float(estimator.epsilon * estimator.calibration_fraction)
    descent = None
    if estimator.delta:
        other = [] if counting is None else [count_event(counting)]
        # "auto" asks for it twice.
        descent = cache(partial(make_descent, problem, epsilon, float(estimator.delta), other))
    strategy = choose_strategy(estimator, problem, descent)
    search: Mechanism
    if strategy == "gradient" and descent is not None:
        search = descent()
    else:
        search = make_search(estimator, problem, strategy, epsilon - (counting or 0.0))
    return strategy, CalibratedDraw(
        search,
        counting,
        sensitivity=1 if estimator.adjacency == "add-remove" else 2,
        labels_are_private=not roles.label_determined,
    )


def choose_strategy(estimator: Any, problem: Problem, descent: Callable[[], LogisticDescent] | None) -> str:
    """Resolve "auto", and refuse an exact strategy that is too large or a descent without δ (``descent`` is None)."""
    strategy, most = estimator.strategy, estimator.max_halfspaces
    if strategy == "gradient" and descent is None:
        raise ValueError(
            "strategy='gradient' adds Gaussian noise and needs delta > 0, got delta=0.0: pass for example "
            "delta=1e-6, or use strategy='greedy', which needs none."
        )
    n_points = problem.n_public
    if n_points <= MOST_PAIRS:
        n_points = len(np.unique(problem.public, axis=0))
    dimension = problem.frame.dimension
    n_hypotheses, n_pairs = count_exact_hypotheses(n_points, dimension, dimension if most is None else most)
    fits = n_hypotheses <= estimator.max_candidates and (dimension == 1 or n_pairs <= MOST_PAIRS)
    if estimator.selection == "permute-and-flip":
        fits = fits and n_hypotheses <= MAX_FLIPS
    if strategy == "exact" and not fits:
        raise ValueError(
            f"strategy='exact' would compare up to {_about(n_hypotheses)} hypotheses from {_about(2 * n_pairs)} "
            f"halfspaces, more than max_candidates={estimator.max_candidates} (and {2 * MOST_PAIRS} halfspaces) "
            "allow. Use strategy='greedy' or 'thinned', or lower max_halfspaces, or use fewer public rows; "
            "raise max_candidates where only that is in the way."
        )
    if strategy != "auto":
        return str(strategy)
    if fits and (dimension <= 1 or n_hypotheses * problem.planning_rows <= MOST_WORK):
        return "exact"
    if descent is not None and _is_wide(descent(), most or MOST_HALFSPACES):
        return "gradient"
    return "greedy"


def _about(count: int) -> str:
    """Write a count to three digits; it may be too large for a float."""
    return f"{count:.3g}" if count < 10**300 else f"{Decimal(count):.3g}"


def _is_wide(descent: LogisticDescent, n_halfspaces: int) -> bool:
    """Return True if public points vary in more directions than a few halfspaces can have, and a descent can."""
    unseen = 1.0 - float(descent.shares[:n_halfspaces].sum())
    return unseen > 1.0 - SEEN and descent.plan.loss < LOST * unseen


def make_search(
    estimator: Any, problem: Problem, strategy: str, epsilon: float
) -> ExactDraw | HalfspaceSearch:
    """Make the mechanism that draws the halfspaces."""
    rule, monotone = estimator.selection, estimator.adjacency == "add-remove"
    if strategy == "exact":
        most = estimator.max_halfspaces
        size = problem.frame.dimension if most is None else most
        return ExactDraw(epsilon, size, rule, monotone, estimator.n_jobs)
    rng = public_generator(0)  # the same directions each time, so that a quote is the price of a fit
    public = problem.some_public(CUT_POINTS, rng)
    candidates = quantile_cuts(public, public_directions(public, rng), KEPT_FRACTIONS, problem.frame.slack)
    candidates = without_repetition(candidates, public)
    plan = plan_search(
        candidates.n_cuts,
        problem,
        epsilon=epsilon,
        max_halfspaces=estimator.max_halfspaces or MOST_HALFSPACES,
        max_candidates=estimator.max_candidates,
        moves=strategy == "greedy",
        monotone=monotone,
    )
    return HalfspaceSearch(plan, candidates, rule, monotone)
