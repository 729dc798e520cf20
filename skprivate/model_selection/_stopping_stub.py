"""A stand-in until random stopping is there."""

from dataclasses import dataclass

import numpy as np

from skprivate.privacy import Branch, PureEvent, ZeroConcentratedEvent
from skprivate.privacy._events import count_events
from skprivate.privacy._lattice import rational
from skprivate.privacy._tape import Draw


@dataclass(frozen=True)
class Repetitions:
    family: str
    mean: float
    eta: float


@dataclass(frozen=True)
class SearchPlan:
    repetitions: Repetitions
    epsilon: float
    delta: float
    each_epsilon: float
    each_delta: float
    theorem: str
    events: tuple = ()


def plan_search(plans_of, *, epsilon, delta, mean_repetitions):
    each = (epsilon / 3 * (1 - 2**-40), delta / (3 * mean_repetitions))
    plans_of(*each)
    return SearchPlan(
        Repetitions("geometric", mean_repetitions, 1.0), epsilon, delta, *each, "theorem", ((PureEvent(epsilon, "search"), 1),)
    )


def ApproximateEvent(epsilon, delta):
    return PureEvent(epsilon, "approximate")


def select_repeatedly(release, evaluate, n_candidates, *, plans, repetitions):
    mean = rational(repetitions.mean)

    def sample():
        candidates = [release._source.integer_below(n_candidates)]
        while release._source.integer_below(mean.numerator) >= mean.denominator:
            candidates.append(release._source.integer_below(n_candidates))
        return candidates

    paid = {e: n for e, n in release._plan.items() if getattr(e, "mechanism", "") == "search"}
    draw = Draw("repetitions", np.zeros(0, dtype=np.int64), 0, "l1", paid, None, {})
    best, best_score = -1, -np.inf
    for candidate in release._perform(draw, sample):
        with Branch(release, count_events(plans[candidate])) as branch:
            score = evaluate(candidate, branch)
        if best < 0 or score > best_score:
            best, best_score = candidate, score
    return best
