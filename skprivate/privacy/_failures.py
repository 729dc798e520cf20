"""Composition of mechanisms that reveal everything with some probability: what (ε, δ) alone allows.

A mechanism of which nothing but (ε, δ) is known is dominated by one that reveals everything with probability δ and is
randomised response of ε otherwise (Kairouz, Oh and Viswanath 2015). Of several, none reveals everything
with probability Π(1 − δᵢ), whatever the others draw. So, with R the events where each such event is its randomised
response,

    δ(ε) = 1 − Π(1 − δᵢ) + Π(1 − δᵢ) · δ_R(ε),

exactly for that pair. The probability of a failure is rounded up, what it leaves is rounded down.
"""

from __future__ import annotations

import math
from fractions import Fraction

from skprivate.privacy._events import ApproximateEvent, Events, PrivacyEvent, PureEvent, count_events

_ULP = 2.0**-50


def split_failures(events: Events) -> tuple[float, dict[PrivacyEvent, int]]:
    """The probability that something is revealed, rounded up, and the events where nothing is."""
    counts = count_events(events)
    failing = {
        event: count
        for event, count in counts.items()
        if isinstance(event, ApproximateEvent) and event.delta > 0
    }
    if not failing:
        return 0.0, counts
    rest = [(event, count) for event, count in counts.items() if event not in failing]
    rest += [(PureEvent(event.epsilon), count) for event, count in failing.items() if event.epsilon > 0]
    if len(failing) == 1 and sum(failing.values()) == 1:
        (event,) = failing
        return event.delta, count_events(rest)
    logs = [count * math.log1p(-event.delta) for event, count in failing.items()]
    failure = -math.expm1(math.fsum(logs) * (1 + _ULP)) * (1 + _ULP)
    union = sum(Fraction(event.delta) * count for event, count in failing.items())
    # Two tiny δ must not cost more than their sum: the sum is exact, the product is not.
    bound = float(union) if Fraction(float(union)) >= union else math.nextafter(float(union), math.inf)
    return min(max(failure, 5e-324), bound, 1.0), count_events(rest)


def delta_beside(failure: float, delta: float) -> float:
    """δ_R at which the whole has ``delta``, rounded down; negative if the failures alone have more."""
    if failure in (0.0, delta):
        return delta - failure
    left = (delta - failure) * (1 - _ULP) if delta > failure else -1.0
    return left if failure < 1 else -1.0


def delta_with(failure: float, delta: float) -> float:
    """δ of the whole where the rest has ``delta``, rounded up."""
    if failure == 0 or delta == 0:
        return failure + delta
    return min((failure + (1 - failure) * delta) * (1 + _ULP), 1.0)
