"""Draw a private search: the best of a secret number of evaluations of random candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skprivate.privacy import _events, _release
from skprivate.privacy.search._stopping import SearchPlan, holds


class Selected(NamedTuple):
    """The best evaluation of a private search: all that may be released of it. A NaN score counts as the least."""

    candidate: int
    score: float
    result: Any


def select_repeatedly(
    release: _release.Release, evaluate: Callable[[int, _release.Branch], tuple[float, Any]], search: SearchPlan
) -> Selected:
    """Keep the best among a random number of evaluations of random candidates.

    Parameters
    ----------
    release : Release
        Pays the total of ``search``, once: ``search.events``.
    evaluate : callable
        From the number of a candidate and a branch to a noisy score, larger is better, and all else that is to be kept
        of the evaluation if it wins (a fitted model, say). The branch may draw that candidate's plan, and is closed
        when ``evaluate`` returns. It sees the data through that branch alone, and nothing of it may depend on or change
        what other evaluations see. Of those that do not win nothing may be kept, their number included: the duration of
        a search and its logs reveal it.
    search : SearchPlan
        From `plan_search`.

    Returns
    -------
    Selected
        ``candidate``, ``score`` and ``result``; of equal scores the first.

    Raises
    ------
    ValueError
        If the plan states less than `search_epsilon` proves; nothing is drawn.

    See Also
    --------
    plan_search : Makes the plan.
    """
    if not holds(search):
        raise ValueError(
            f"search must state at least what it costs, got epsilon = {search.epsilon!r} at delta = "
            f"{search.delta!r}, which is less than search_epsilon: make it by plan_search. Nothing was drawn."
        )
    plans = [_events.count_events(plan) for plan in search.plans]

    def sample(_: object) -> list[int]:
        # Their number hides which of them won: it is drawn like noise, exactly and from the noise's source.
        source = release._source
        return [source.integer_below(len(plans)) for _ in range(search.repetitions.sample(source))]

    public = {"plans": search.plans, "repetitions": search.repetitions}
    nothing, events = np.zeros(0, dtype=np.int64), _events.count_events(search.events)
    draw = _events.Draw("repetitions", nothing, 0, "l1", events, options=public)
    best: Selected | None = None
    for candidate in release._perform(draw, sample):
        with _release.Branch(release, plans[candidate]) as branch:
            score, result = evaluate(candidate, branch)
        score = -math.inf if math.isnan(score) else float(score)  # the theorem needs a total order
        if best is None or score > best.score:
            best = Selected(candidate, score, result)
    assert best is not None
    return best
