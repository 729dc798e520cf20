"""Mechanism of a private search: evaluate random candidates a random number of times, keep the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from skprivate import privacy
from skprivate._validation import PUBLIC_LABELS
from skprivate.inspection import check_pipeline
from skprivate.model_selection import _candidates, _scoring
from skprivate.model_selection._inside import CandidateCosts, FitCost, fit_contained, unseen, with_budget
from skprivate.privacy import Adjacency, Branch, Mechanism, PrivacyEvent, PrivacyUnit, Release, SearchPlan


class SearchResult(NamedTuple):
    """Released result of a search: the number of the candidate, its model and its noisy score."""

    number: int
    model: Any
    score: float


@dataclass(frozen=True, eq=False)
class PrivateSearch(Mechanism):
    """Random candidates, each fitted on one part and scored on the other, a secret number of times; the best result.

    ``plan`` is the cost to those who are in the fits, at least that of both; ``scores`` that to those who are in the
    scores. ``refit`` costs the fit of the best candidate on all rows with ``refit_budget``, where there is one.
    """

    plan: SearchPlan
    scores: SearchPlan
    candidate_costs: CandidateCosts
    refit: CandidateCosts | None
    refit_budget: tuple[float, float]
    score: _scoring.PrivateScore
    raises: bool
    random_state: Any
    dry_run: bool

    @property
    def theorem(self) -> str:  # type: ignore[override]
        """Theorem of random stopping, and of the composition beside it."""
        refit = ", and one fit beside it (basic composition)" if self.refit is not None else ""
        apart = "each unit is in the fits or in the scores, not in both (parallel composition)"
        return f"{self.plan.theorem}; {apart}{refit}"

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """The search as one event, and the fit on all rows."""
        return [*privacy.count_events(self.plan.events).items(), *self._refit_events]

    @property
    def _refit_events(self) -> list[tuple[PrivacyEvent, int]]:
        if self.refit is None:
            return []
        epsilon, delta = self.refit_budget
        if delta > 0:
            return [(privacy.ApproximateEvent(epsilon, delta), 1)]
        return [(privacy.PureEvent(epsilon, "a fit on all rows"), 1)]

    def run(self, data: _scoring.Parts, release: Release) -> SearchResult:
        """Search; candidates are fitted on the rows for which they were accounted."""
        budget = self.plan.each_epsilon, self.plan.each_delta

        def evaluate(number: int, branch: Branch) -> tuple[float, Any]:
            try:
                with unseen():
                    model = self._fit(self.candidate_costs, number, budget, release)
                    return self.score.draw(model, data, self.scores.each_epsilon, branch), model
            except Exception:
                if self.raises:
                    raise
                return -math.inf, None

        # The fits draw from ledgers of their own; what the branch of an evaluation may draw is its score.
        plans = self.scores.plans * len(self.candidate_costs.candidates)
        best = privacy.select_repeatedly(release, evaluate, replace(self.plan, plans=plans))
        if best.result is None:
            raise RuntimeError("every evaluation of the search failed; its budget is spent.")
        result = SearchResult(best.candidate, best.result, best.score)
        if self.refit is None:
            return result
        release._charge(privacy.count_events(self._refit_events))
        return result._replace(model=self._fit(self.refit, result.number, self.refit_budget, release))

    def _fit(self, costs: CandidateCosts, number: int, budget: tuple[float, float], release: Release) -> Any:
        """Fit a candidate, with what it may draw for a budget and nothing else."""
        simulated = self.random_state is not None
        seed = int(release.public_rng.integers(2**31)) if simulated else None
        model = with_budget(costs.candidates[number], costs.counts(number), *budget, seed, costs.labels)
        cost = costs.cost(number, *budget)
        return fit_contained(model, costs.rows, cost, budget, simulated=simulated, dry_run=self.dry_run)


def assumptions_of(search: PrivateSearch, cost: FitCost, parts: _scoring.Parts) -> tuple[str, ...]:
    """List what has to be true outside the code for the guarantee of a search to hold."""
    assumptions = [
        "candidates and their distributions were chosen without looking at private rows",
        "what the guarantees of the candidates assume",
    ]
    for candidate in search.candidate_costs.candidates:
        steps = check_pipeline(candidate.estimator).steps
        assumptions += [text for step in steps for text in step.conditions if privacy.TO_THE_LAST_BIT in text]
    if cost.adjacency is Adjacency.REPLACE_ONE or cost.unit is PrivacyUnit.LABEL:
        assumptions.append(privacy.KEEPS_IDENTIFIER if parts.by_identifier else privacy.KEEPS_PLACE)
    if cost.unit is not PrivacyUnit.LABEL:
        assumptions.append(
            "candidates and scoring treat every row by itself, to the last bit"
            if search.score.batch
            else "candidates and scoring keep nothing from one call to the next"
        )
    elif callable(search.score.score):
        assumptions.append("scoring keeps nothing from one call to the next")
    if search.candidate_costs.labels is not None:
        stated = [_candidates.stated_classes(candidate.estimator) for candidate in search.candidate_costs.candidates]
        if any(classes is None for each in stated for classes in each):
            assumptions.append(PUBLIC_LABELS)
        if not all(stated):
            assumptions.append("the set of labels in each part of the data is public")
    if not search.raises:
        assumptions.append("evaluations fail for public reasons, or by what they have released")
    return tuple(dict.fromkeys(assumptions))
