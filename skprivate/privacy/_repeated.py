"""Private selection from private candidates (Liu and Talwar 2019).

A random candidate is evaluated privately, a geometric number of times, and the best result is kept. If every
evaluation is ε-DP the winner is 3ε-DP however many candidates there are (theorem 3.2 with the threshold removed and no
bound on the repetitions; Papernot and Steinke 2022, theorem 2 with η = 1, give 2 + η = 3 as well).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skprivate.privacy._branches import Branch
from skprivate.privacy._dialect import at_least
from skprivate.privacy._events import Events, PrivacyEvent, PureEvent, count_events
from skprivate.privacy._lattice import rational
from skprivate.privacy._release import Release
from skprivate.privacy._tape import Draw


def repeated_events(plan: Events) -> list[tuple[PrivacyEvent, int]]:
    """What `select_repeatedly` draws if one evaluation draws ``plan``.

    Parameters
    ----------
    plan : mapping or iterable of (PrivacyEvent, int)
        Pure events only.

    Returns
    -------
    list of (PrivacyEvent, int)
        One pure event of three times the price, for the plan of a release or the ``events`` of a mechanism.

    Examples
    --------
    >>> from skprivate.privacy import LaplaceEvent, repeated_events
    >>> ((event, count),) = repeated_events([(LaplaceEvent(0.5), 2)])
    >>> event.epsilon, count
    (3.0, 1)
    """
    price = sum(event.pure_epsilon * count for event, count in count_events(plan).items())
    # ε > 0 is checked by the event; an infinite price (a draw that needs δ) is refused there as well.
    return [(PureEvent(3.0 * price, "private selection"), 1)]


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
        Pays three times the pure price of ``plan``, once: `repeated_events`.
    evaluate : callable
        From a candidate and a branch that may draw ``plan`` to a noisy score; sees the data through that branch alone.
        The branch is closed when it returns.
    n_candidates : int >= 1
    plan : mapping or iterable of (PrivacyEvent, int)
        What one evaluation draws; pure events only.
    mean_repetitions : float >= 1
        Mean of the geometric number of evaluations. That number is not released.

    Returns
    -------
    int
    """
    events = count_events(plan)
    at_least("n_candidates", n_candidates, 1)
    at_least("mean_repetitions", mean_repetitions, 1)
    if not 1.0 <= mean_repetitions < math.inf:
        raise ValueError(f"mean_repetitions must be finite and at least 1, got {mean_repetitions!r}.")
    mean = rational(mean_repetitions)

    def sample() -> list[int]:
        # Their number hides which of them won: it is drawn like noise, exactly and from the noise's source.
        candidates = [release._source.integer_below(n_candidates)]
        while release._source.integer_below(mean.numerator) >= mean.denominator:
            candidates.append(release._source.integer_below(n_candidates))
        return candidates

    public = {"n_candidates": n_candidates, "mean_repetitions": mean_repetitions}
    paid = count_events(repeated_events(events))
    draw = Draw("repetitions", np.zeros(0, dtype=np.int64), 0, "l1", paid, None, public)
    best, best_score = -1, -math.inf
    for candidate in release._perform(draw, sample):
        with Branch(release, events) as branch:
            score = evaluate(candidate, branch)
        score = -math.inf if math.isnan(score) else score  # the theorem needs a total order
        if best < 0 or score > best_score:
            best, best_score = candidate, score
    return best
