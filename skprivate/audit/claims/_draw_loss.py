"""The privacy loss of a transcript: what recorded results say about which of two neighbours they came from.

All draws of two runs with the same results differ in their statistics alone. Under the declared laws that is an exact
number for the results that were recorded, and a worst case over all results that the mechanism might have given.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.audit.claims._draw_laws import Array, categories_of, selection_laws
from skprivate.privacy import GaussianEvent, PrivacyEvent, ZeroConcentratedEvent
from skprivate.privacy.accounting import compose_epsilon
from skprivate.privacy.draws import Draw
from skprivate.utils import NOISE, _size, change, exact, excess


@dataclass(frozen=True)
class PairLoss:
    """Two runs with the same results.

    Attributes
    ----------
    realised : float
        log P(results | first) − log P(results | second); draws whose law at the result is not known count 0.
    known : bool
        Whether all draws that differ are in it.
    epsilon : float
        Worst case over all results, at the δ that was asked for: the events, each at the share of its sensitivity
        that this pair attains, composed.
    share : float
        Largest change of a statistic as a share of its sensitivity.
    differing : dict of PrivacyEvent to int
        Events of the draws whose statistics differ.
    complaints : tuple of str
        What exceeds its sensitivity.
    """

    realised: float
    known: bool
    epsilon: float
    share: float
    differing: dict[PrivacyEvent, int]
    complaints: tuple[str, ...]


def pair_loss(
    first: Sequence[Draw],
    second: Sequence[Draw],
    results: Sequence[Any],
    distance: float | None,
    delta: float,
) -> PairLoss:
    """Loss of the draws that two runs have in common.

    Parameters
    ----------
    first, second : sequence of Draw
    results : sequence
        Of both.
    distance : float or None
        Of the data, under metric adjacency.
    delta : float
        For the composition of the worst case.
    """
    realised, known, largest = 0.0, True, 0.0
    attained: Counter[PrivacyEvent] = Counter()
    differing: Counter[PrivacyEvent] = Counter()
    complaints = []
    evaluations = _Evaluations()
    length = 1.0 if distance is None else distance
    for number, (one, other, result) in enumerate(zip(first, second, results, strict=False)):
        share, complaint = excess(one, other, distance)
        if complaint:
            complaints.append(f"draw {number} ({one.kind}) is not private: {complaint}")
        largest = max(largest, share)
        part = _realised(one, other, result) if share > 0 else 0.0
        realised, known = realised + (part or 0.0), known and part is not None
        if evaluations.pays_for(one, result, share):
            continue
        if share > 0:
            differing.update(one.events)
            for event, count in one.events.items():
                attained.update({at_share(event, share * length): count} if share < math.inf else {})
    attained.update(evaluations.attained)
    differing.update(evaluations.attained)
    endless = largest == math.inf
    # At this distance, and only then per unit of it: under a δ the one is not a multiple of the other.
    epsilon = math.inf if endless else compose_epsilon(attained, delta) / length if attained else 0.0
    return PairLoss(realised, known, epsilon, largest, dict(differing), tuple(complaints))


class _Evaluations:
    """Private selection from private candidates: what its evaluations draw is in the price of the repetitions."""

    def __init__(self) -> None:
        self.attained: Counter[PrivacyEvent] = Counter()
        self._event: PrivacyEvent | None = None
        self._planned: set[PrivacyEvent] = set()
        self._left: Counter[PrivacyEvent] = Counter()

    def pays_for(self, draw: Draw, result: Any, share: float) -> bool:
        """Whether the draw belongs to repetitions, or is them: the plans of the candidates that are evaluated.

        An evaluation may fit models that draw from releases of their own, which check what they draw themselves: what
        stands in no plan counts as theirs.
        """
        if draw.kind == "repetitions":
            (self._event,) = draw.events
            self._left = Counter()
            for candidate in result:
                self._left.update(dict(draw.options["plans"][candidate]))
            self._planned = set(self._left)
            return True
        if self._event is None or share == 0:
            return False
        planned = Counter({event: count for event, count in draw.events.items() if event in self._planned})
        if not planned <= self._left:
            return False
        self._left -= planned
        self.attained[self._event] = 1
        return True


def at_share(event: PrivacyEvent, share: float) -> PrivacyEvent:
    """The event of a draw whose statistic moves by a share of its sensitivity."""
    if isinstance(event, GaussianEvent):
        return dataclasses.replace(event, noise_multiplier=event.noise_multiplier / share)
    if isinstance(event, ZeroConcentratedEvent):
        return dataclasses.replace(event, rho_=event.rho * share * share)
    return dataclasses.replace(event, epsilon=event.pure_epsilon * share)  # type: ignore[call-arg]


def _realised(first: Draw, second: Draw, result: Any) -> float | None:
    """Log-likelihood ratio of a result under two statistics; None where it is not known."""
    if first.kind in NOISE:
        return _noise_loss(first, second, result)
    if first.kind in ("select", "select_parts"):
        chosen = categories_of(first, result)
        laws = selection_laws(first), selection_laws(second)
        if chosen is None or laws[0] is None or laws[1] is None or first.options["multiplicity"] is not None:
            return None
        return _logs(*(float(law[0][chosen[0]]) for law in laws))  # type: ignore[index]
    if first.kind == "channel":
        total = 0.0
        for place in change(first.statistic, second.statistic):
            rows = (first.options["weights"][int(each.statistic[place])] for each in (first, second))
            total += _logs(*(float(row[int(result[place])]) for row in rows))
        return total
    if first.kind == "k_norm":
        order = {"l1": 1, "l2": 2, "linf": np.inf}[first.options["norm"]]
        out = np.asarray(result, dtype=np.float64)
        lengths = [np.linalg.norm(out - each.statistic, ord=order, axis=1) for each in (first, second)]
        (event,) = first.events
        return float((lengths[1] - lengths[0]).sum() * event.pure_epsilon)
    return None


def _logs(here: float, there: float) -> float:
    if here == there:
        return 0.0
    return math.log(here / there) if here > 0 and there > 0 else math.inf if here > 0 else -math.inf


def _noise_loss(first: Draw, second: Draw, result: Any) -> float:
    values, whole = exact(first.statistic)
    steps = change(first.statistic, second.statistic)
    out = np.asarray(result).ravel()
    unit = first.step if whole and first.step is not None else 1.0
    scale = _size(first)
    total = 0.0
    for place, step in steps.items():
        value = out[place]
        rest = (
            float(int(value) - int(values[place]))
            if first.kind.startswith("discrete")
            else float(value) / unit - float(values[place])
        )
        moved = float(step)
        if first.kind.endswith("laplace"):
            total += (abs(rest - moved) - abs(rest)) / scale
        else:
            total += moved * (moved - 2.0 * rest) / (2.0 * scale * scale)
    return total


__all__ = ["Array", "PairLoss", "at_share", "pair_loss"]
