"""Private selection from private candidates (Liu and Talwar 2019).

A random candidate is evaluated privately, a geometric number of times, and the best result is kept. If every
evaluation is ε-DP the winner is 3ε-DP however many candidates there are (theorem 3.2 with the threshold removed and no
bound on the repetitions; Papernot and Steinke 2022, theorem 2 with η = 1, give 2 + η = 3 as well).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from skprivate.privacy._branches import Branch
from skprivate.privacy._events import Events, PureEvent, count_events
from skprivate.privacy._release import Release


def select_repeatedly(
    release: Release,
    evaluate: Callable[[int, Branch], float],
    n_candidates: int,
    *,
    plan: Events,
    mean_repetitions: float,
) -> int:
    """Candidate with the highest noisy score among a geometric number of evaluations of random candidates.

    Parameters
    ----------
    release : Release
        Pays three times the pure price of ``plan``, once.
    evaluate : callable
        From a candidate and a branch that may draw ``plan`` to a noisy score; sees the data through that branch alone.
    n_candidates : int
    plan : mapping or iterable of (PrivacyEvent, int)
        What one evaluation draws; pure events only.
    mean_repetitions : float >= 1
        Mean of the geometric number of evaluations. That number is not released.

    Returns
    -------
    int
    """
    events = count_events(plan)
    price = sum(event.pure_epsilon * count for event, count in events.items())
    if not mean_repetitions >= 1.0:
        raise ValueError(f"mean_repetitions must be at least 1, got {mean_repetitions!r}.")
    # ε > 0 is checked by the event; an infinite price (a draw that needs δ) is refused there as well.
    release._charge({PureEvent(3.0 * price, "private selection"): 1})
    # The number of repetitions hides which of them won: it is drawn like noise, exactly and from the noise's source.
    mean = Fraction(mean_repetitions)
    best, best_score = -1, float("-inf")
    while True:
        candidate = release._source.integer_below(n_candidates)
        score = evaluate(candidate, Branch(release, events))
        if best < 0 or score > best_score:
            best, best_score = candidate, score
        if release._source.integer_below(mean.numerator) < mean.denominator:
            return best
