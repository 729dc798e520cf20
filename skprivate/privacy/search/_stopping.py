"""Private search by random stopping: its cost, and the budget of one evaluation that fits a total.

A random candidate is evaluated privately, a random number of times, and the best result is kept. The cost does not
grow with the number of candidates (Liu and Talwar 2019; Papernot and Steinke 2022; Koskela, Redberg and Wang 2024). The
bound is that of `SearchCurve`, derived in docs/theory/private_search_cost.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from skprivate._messages import delta_number, must_be, number, positive
from skprivate.privacy import _contributions, _events, _release
from skprivate.privacy._events import ApproximateEvent, Events, PrivacyEvent, PureEvent, count_events
from skprivate.privacy.search._curve import Repetitions, delta_of, epsilon_of, evaluation_of, pure_epsilon_of

#: The budget of one evaluation is sought up to this share of it.
_PRECISION = 2.0**-14
#: Least share of the whole budget that an evaluation is worth making with.
_LEAST = 2.0**-20
_MECHANISM = "private search"


@dataclass(frozen=True)
class SearchPlan:
    """A private search whose total cost is known before any data are seen; made by `plan_search`.

    ``epsilon`` and ``delta`` are those of the whole search, however often it evaluates, as `search_epsilon` proves;
    ``each_epsilon`` and ``each_delta`` the budget for which one evaluation (fit and score) was planned. ``plans`` hold
    what one evaluation of each candidate draws, ``repetitions`` is the law of the number of evaluations.
    """

    repetitions: Repetitions
    epsilon: float
    delta: float
    each_epsilon: float
    each_delta: float
    plans: tuple[tuple[tuple[PrivacyEvent, int], ...], ...]
    theorem: str = "best of a random number of evaluations (docs/theory/private_search_cost.md)"

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """Event of the whole search, which is its plan and is drawn by `select_repeatedly`."""
        if self.delta == 0:
            return ((PureEvent(self.epsilon, _MECHANISM), 1),)
        return ((ApproximateEvent(self.epsilon, self.delta, _MECHANISM), 1),)


def holds(search: SearchPlan) -> bool:
    """Check that the total that a plan states is proven; rounding is absorbed by the noise as in every budget."""
    curve = evaluation_of(search.plans), search.repetitions
    limit = search.epsilon * (1 + _contributions.ROUNDING)
    return pure_epsilon_of(*curve) <= limit or delta_of(*curve, limit) <= search.delta


def search_epsilon(plans: Sequence[Events], repetitions: Repetitions, delta: float = 0.0) -> float:
    """Compute the smallest proven ε of a private search, at the given δ; ``inf`` if none is known.

    The search evaluates a uniformly random candidate, independently, as often as ``repetitions`` says, and releases the
    best evaluation: its score, its candidate and all else that it drew. ``plans`` hold what one evaluation of each
    candidate draws; they may differ.

    For ε-DP evaluations and δ = 0 it is the smallest ε that holds for all of them: at most (2 + η)ε, the bound of
    Papernot and Steinke (2022), and less as the mean is finite. Otherwise the whole privacy curve of one evaluation is
    used, as in Koskela, Redberg and Wang (2024), "Privacy profiles for private selection", but for the whole testing
    region and for each rank of a result on its own.

    >>> from skprivate.privacy import GaussianEvent, compose_epsilon
    >>> fit = [(GaussianEvent(4.0), 1)]
    >>> round(compose_epsilon(fit, 1e-6), 3)
    1.061
    >>> round(search_epsilon([fit] * 20, Repetitions("negative-binomial", 10.0, eta=1.0), 1e-6), 2)
    1.56
    """
    delta_number(delta)
    return epsilon_of(evaluation_of(plans), repetitions, float(delta))


def plan_search(
    plans_of: Callable[[float, float], Sequence[Events]],
    *,
    epsilon: float,
    delta: float = 0.0,
    mean_repetitions: float,
    laws: Sequence[Repetitions] | None = None,
) -> SearchPlan:
    """Plan a private search: the law and the largest budget of one evaluation whose total is within (ε, δ).

    Parameters
    ----------
    plans_of : callable
        From the ε and δ of one evaluation to what it draws then, one plan for each candidate: a list of mappings or
        iterables of (PrivacyEvent, int). A function of public numbers alone.
    epsilon, delta : float
        Budget of the whole search: ε > 0, δ in [0, 1).
    mean_repetitions : float in [1, 1e6]
        Mean number of evaluations, over all candidates together.
    laws : sequence of Repetitions, optional
        Laws among which to choose; ``mean_repetitions`` is then not used. By default the Poisson law, the geometric and
        the logarithmic one, all of that mean. A more concentrated law costs more, and its best evaluation is better
        (`Repetitions.expected_rank`). The largest product of ``each_epsilon`` and that rank is chosen.

    Returns
    -------
    SearchPlan
        Its total, computed by `search_epsilon`, is at most (ε, δ); δ is 0 where none is needed.

    Raises
    ------
    ValueError
        If a number is out of range, or no budget of one evaluation fits.

    See Also
    --------
    select_repeatedly : Carries the plan out.
    PrivateSearchCV : Searches hyperparameters with such a plan.

    Examples
    --------
    >>> from skprivate.privacy import LaplaceEvent, plan_search
    >>> def plans_of(epsilon, delta):
    ...     return [[(LaplaceEvent(epsilon), 1)]] * 5
    >>> plan = plan_search(plans_of, epsilon=1.0, mean_repetitions=10)
    >>> plan.repetitions.eta, round(plan.each_epsilon, 2), plan.epsilon <= 1.0
    (0.0, 0.52, True)
    """
    positive("epsilon", epsilon)
    delta_number(delta)
    if laws is None:
        number("mean_repetitions", mean_repetitions, "a number in [1, 1e6]", lambda value: 1 <= value <= 1e6)
        mean = float(mean_repetitions)
        laws = [
            Repetitions("negative-binomial", mean, 0.0),
            Repetitions("negative-binomial", mean, 1.0),
            Repetitions("poisson", mean),
        ]
    if not laws:
        raise ValueError(must_be("laws", "at least one law", laws))
    best, found = 0.0, None  # best: product of budget and rank
    for law in laws:
        # A share of δ for the chance that an evaluation fails, times as many as there are.
        each_delta = delta / (2 * law.largest_mean)

        def excess(each: float, law: Repetitions = law, each_delta: float = each_delta) -> float:
            evaluation = evaluation_of(plans_of(each, each_delta))
            if delta == 0:
                return math.log(pure_epsilon_of(evaluation, law) / epsilon)
            return math.log(max(delta_of(evaluation, law, float(epsilon)), 5e-324) / delta)

        if (each := _largest(excess, best / law.expected_rank, epsilon)) > 0:
            best, found = each * law.expected_rank, (law, each, each_delta)
    if found is None:
        raise ValueError(
            f"the budget ({epsilon!r}, {delta!r}) leaves nothing for one evaluation; choose a larger epsilon or delta, "
            "or a smaller mean_repetitions."
        )
    law, each, each_delta = found
    plans = tuple(tuple(count_events(plan).items()) for plan in plans_of(each, each_delta))
    pure = search_epsilon(plans, law)
    total = (pure, 0.0) if pure <= epsilon else (min(search_epsilon(plans, law, delta), epsilon), float(delta))
    return SearchPlan(law, *total, each_epsilon=each, each_delta=each_delta, plans=plans)


def _largest(excess: Callable[[float], float], least: float, most: float) -> float:
    """Find the largest number in (least, most] without excess, nearly; 0 if none is found."""
    if least >= most:
        return 0.0
    if least > 0:
        if excess(low := min(least * (1 + _PRECISION), most)) > 0:
            return 0.0
        high = min(2 * low, most)
    else:
        low = high = most
        while excess(low) > 0:
            low, high = low / 2, low
            if low < _LEAST * most:
                return 0.0
    while low < high and excess(high) <= 0:
        if high == most:
            return most
        low, high = high, min(2 * high, most)
    if low == high:
        return low
    ends = math.log(low), math.log(high)
    # Plans may change in jumps, and where δ is not needed δ falls to 0 at once: what is found is looked at again.
    budget = math.exp(float(brentq(lambda log: excess(math.exp(log)), *ends, xtol=_PRECISION / 4)))
    step = _PRECISION
    while budget > low and excess(budget) > 0:
        budget *= 1 - step
        step *= 2
    return max(budget, low)


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
