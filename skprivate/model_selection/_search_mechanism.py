"""The mechanism of a private search: evaluate random candidates a random number of times, keep the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from skprivate.model_selection._contained import Priced, fit_contained, with_budget
from skprivate.model_selection._parts import Parts
from skprivate.model_selection._scoring import PrivateScore
from skprivate.model_selection._stopping_stub import ApproximateEvent, SearchPlan, select_repeatedly
from skprivate.privacy import Mechanism, PrivacyEvent, PureEvent
from skprivate.privacy._events import count_events


class Searched(NamedTuple):
    """What a search releases.

    Parameters
    ----------
    number : int
        Of the candidate.
    model : estimator
        Fitted, of the best evaluation or on all rows.
    score : float
        The noisy score of the best evaluation.
    """

    number: int
    model: Any
    score: float


@dataclass(frozen=True, eq=False)
class PrivateSearch(Mechanism):
    """Random candidates, each fitted on one part and scored on the other, a secret number of times; the best result.

    Parameters
    ----------
    plan : SearchPlan
        The price of the search, and what each evaluation may spend.
    priced : Priced
        The candidates and what they draw on one part.
    again : Priced or None
        What they draw on all rows, where the best candidate is fitted once more.
    again_budget : (float, float)
        ε and δ of that fit.
    score : PrivateScore
    raises : bool
        Whether an evaluation that fails ends the search; it loses otherwise.
    random_state : object
        None for secure noise.
    dry_run : bool
        Whether all noise is simulated, for the sake of a price.
    """

    plan: SearchPlan
    priced: Priced
    again: Priced | None
    again_budget: tuple[float, float]
    score: PrivateScore
    raises: bool
    random_state: Any
    dry_run: bool

    @property
    def theorem(self) -> str:  # type: ignore[override]
        """Of random stopping, and what is beside it."""
        again = ", and one fit beside it (basic composition)" if self.again is not None else ""
        return f"{self.plan.theorem}; each unit enters the fit or the score of all evaluations, not both{again}"

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """The search as one event, and the fit on all rows."""
        return [*count_events(self.plan.events).items(), *self._again_events]

    @property
    def _again_events(self) -> list[tuple[PrivacyEvent, int]]:
        if self.again is None:
            return []
        epsilon, delta = self.again_budget
        event = ApproximateEvent(epsilon, delta) if delta > 0 else PureEvent(epsilon, "a fit on all rows")
        return [(event, 1)]

    def run(self, data: Parts, release: Any) -> Searched:
        """Search.

        Parameters
        ----------
        data : Parts
            The two parts; candidates are fitted on the rows for which they were priced.
        release : Release

        Returns
        -------
        Searched
        """
        each = self.plan.each_epsilon, self.plan.each_delta
        best: list[Searched] = []

        def evaluate(number: int, branch: Any) -> float:
            try:
                model = self._fit(self.priced, number, *each, release)
                score = self.score.draw(model, data, *each, branch)
            except Exception:
                if self.raises:
                    raise
                return -math.inf
            # The first of equals, as `select_repeatedly` has it.
            if not best or score > best[0].score:
                best[:] = [Searched(number, model, score)]
            return score

        scored = [self.score.events(*each)] * len(self.priced.candidates)
        select_repeatedly(
            release, evaluate, len(scored), plans=scored, repetitions=self.plan.repetitions
        )
        if not best:
            raise RuntimeError("every evaluation of the search failed; its budget is spent. Set error_score='raise'.")
        (found,) = best
        if self.again is None:
            return found
        release._charge(count_events(self._again_events))
        return found._replace(model=self._fit(self.again, found.number, *self.again_budget, release))

    def _fit(self, priced: Priced, number: int, epsilon: float, delta: float, release: Any) -> Any:
        simulated = self.random_state is not None
        seed = int(release.public_rng.integers(2**31)) if simulated else None
        candidate = priced.candidates[number]
        model = with_budget(candidate, priced.counts(number), epsilon, delta, seed, priced.labels)
        price = priced.price(number, epsilon, delta)
        return fit_contained(model, priced.rows, price, simulated=simulated, dry_run=self.dry_run)
