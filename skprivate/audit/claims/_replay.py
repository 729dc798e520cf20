"""Audit an estimator at its release: replay it on neighbours, and test the laws of its draws."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skprivate import utils
from skprivate.audit.claims._runs import Claim
from skprivate.privacy import GaussianEvent, PrivacyEvent, PrivacyGuarantee, ZeroConcentratedEvent, accounting
from skprivate.privacy.draws import Draw, run_tape
from skprivate.utils import CheckData, LawTape, LawTest, Neighbour, Recording, Replay

#: Relative rounding of a composed ε.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ReplayEvidence:
    """Findings of an audit at the release.

    Attributes
    ----------
    n_draws, n_neighbours : int
        Draws of one fit, and neighbours on which it was replayed.
    largest_share : float
        Largest change of a statistic as a share of its declared sensitivity.
    law_tests : tuple of LawTest
        Tests of the results of draws against their declared laws, least p-value first.
    untested : tuple of str
        Kinds of draws whose law was not tested.
    failures : tuple of str
        All that was wrong.
    own_guarantee : bool
        False if the claim is a guarantee that was passed: the data that it was made on may be others.
    """

    n_draws: int
    n_neighbours: int
    largest_share: float
    law_tests: tuple[LawTest, ...] = field(repr=False)
    untested: tuple[str, ...]
    failures: tuple[str, ...]
    own_guarantee: bool = True

    def __str__(self) -> str:
        worst = f"{self.law_tests[0]} of {len(self.law_tests)}" if self.law_tests else "none"
        lines = [
            f"  {self.n_draws} draws replayed on {self.n_neighbours} neighbours; largest share of a sensitivity: "
            f"{self.largest_share:.4g}",
            f"  worst test of a law: {worst}",
            *(f"  WRONG: {text}" for text in self.failures),
            *([f"  law not tested: {', '.join(self.untested)}"] if self.untested else []),
            "  not seen here: noise drawn elsewhere, time, files, logs, errors, other neighbours (method='black-box')",
        ]
        return "\n".join(lines)


def audit_by_replay(
    run: Callable[..., Any],
    data: CheckData,
    recording: Recording,
    neighbours: Sequence[Neighbour],
    claim: Claim,
    stated: PrivacyGuarantee | None,
    *,
    own: bool,
    level: float,
    secure: bool,
    rng: np.random.Generator,
) -> tuple[float, float, ReplayEvidence]:
    """Compare draws on neighbours and with their laws: the attained ε, the p-value of the laws, the evidence.

    ``run(data, seed=…)`` collects all that a fit leaves, with the seed of the recording if none is given. ``stated`` is
    what this fit states; the claim is about it if it is its ``own``. ``secure`` draws again from the operating system's
    entropy.
    """
    failures, most = [], claim.epsilon * (1 + _ROUNDING)
    # The guarantee of a fit on other data need not cover what this fit states; what its draws attain counts.
    if own and stated is not None and stated.delta <= claim.delta and stated.epsilon > most:
        failures.append(f"the fit itself states epsilon {stated.epsilon:.4g}, but {claim.epsilon:.4g} is claimed")
    # What counts as paid is what this fit charged.
    charged = claim.events if stated is None else stated.events
    pairs = []
    for other in neighbours:
        again = Replay(recording, run, other.data)
        pair = pair_loss(recording.draws, again.draws, recording.outputs, other.distance, claim.delta)
        found = list(pair.complaints)
        found += again.faults() if again.failure or not found else []
        if pair.epsilon > most:
            found.append(f"its draws together attain epsilon {pair.epsilon:.4g}, above the {claim.epsilon:.4g} claimed")
        unpaid = Counter(pair.differing) - Counter(dict(charged))
        if charged and unpaid:
            found.append(f"these draws depend on the unit, but are not paid for: {dict(unpaid)}")
        pairs.append(pair)
        failures += [f"on {other.name}, {text}" for text in found]
    failures += _unpaid_kinds(recording.draws, {event for event, _ in charged})
    tape = LawTape(rng)
    with run_tape(tape):
        run(data, seed=None if secure else int(rng.integers(2**31 - 1)))
    tests = sorted([*tape.tests, *_whole_transcript(recording, rng)], key=lambda test: test.p_value)
    p_value = min(1.0, tests[0].p_value * len(tests)) if tests else 1.0
    if p_value < level:
        failures.append(f"the results of draws do not have the declared law: {tests[0]}")
    evidence = ReplayEvidence(
        n_draws=len(recording.draws),
        n_neighbours=len(pairs),
        largest_share=max((pair.share for pair in pairs), default=0.0),
        law_tests=tuple(tests),
        untested=tuple(sorted(tape.untested - {test.draw for test in tests})),
        failures=tuple(failures),
    )
    return max((pair.epsilon for pair in pairs), default=0.0), p_value, evidence


def _unpaid_kinds(draws: Sequence[Draw], paid: set[PrivacyEvent]) -> list[str]:
    """Find draws of an event that was never charged, whatever the neighbours show of them."""
    inside = any(draw.kind == "repetitions" for draw in draws)
    unpaid = {event for draw in draws for event in draw.events} - paid
    if inside or not paid or not unpaid:
        return []
    return [f"these draws are not paid for: {sorted(map(str, unpaid))}"]


# --- losses --------------------------------------------------------------------------------------------------------


class PairLoss(NamedTuple):
    """The draws of two runs with the same results.

    ``epsilon`` is the worst case over all results at the δ asked for: the events, each at the share of its sensitivity
    that this pair attains, composed. ``differing`` counts the events of draws whose statistics differ.
    """

    epsilon: float
    share: float
    differing: dict[PrivacyEvent, int]
    complaints: tuple[str, ...]


def pair_loss(
    first: Sequence[Draw], second: Sequence[Draw], results: Sequence[Any], distance: float | None, delta: float
) -> PairLoss:
    """Compose the losses of the draws that two runs have in common."""
    largest, length = 0.0, 1.0 if distance is None else distance
    attained: Counter[PrivacyEvent] = Counter()
    differing: Counter[PrivacyEvent] = Counter()
    complaints = []
    evaluations = _Evaluations()
    for number, (one, other, result) in enumerate(zip(first, second, results, strict=False)):
        share, complaint = utils.excess(one, other, distance)
        if complaint:
            complaints.append(f"draw {number} ({one.kind}) is not private: {complaint}")
        largest = max(largest, share)
        if evaluations.pays_for(one, result, share):
            continue
        if share > 0:
            differing.update(one.events)
            for event, count in one.events.items():
                attained.update({at_share(event, share * length): count} if share < math.inf else {})
    attained.update(evaluations.attained)
    differing.update(evaluations.attained)
    # At this distance, and only then per unit of it: under a δ the one is not a multiple of the other.
    epsilon = accounting.compose_epsilon(attained, delta) / length if attained else 0.0
    return PairLoss(math.inf if largest == math.inf else epsilon, largest, dict(differing), tuple(complaints))


class _Evaluations:
    """Private selection from private candidates: the cost of the repetitions covers what its evaluations draw."""

    def __init__(self) -> None:
        self.attained: Counter[PrivacyEvent] = Counter()
        self._event: PrivacyEvent | None = None
        self._planned: set[PrivacyEvent] = set()
        self._left: Counter[PrivacyEvent] = Counter()

    def pays_for(self, draw: Draw, result: Any, share: float) -> bool:
        """Decide whether the draw belongs to repetitions, or is them, by the plans of the evaluated candidates.

        An evaluation may fit models that draw from releases of their own, which check what they draw themselves: what
        is in no plan counts as theirs.
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
    """Scale the event of a draw to a statistic that moves by a share of its sensitivity."""
    if isinstance(event, GaussianEvent):
        return dataclasses.replace(event, noise_multiplier=event.noise_multiplier / share)
    if isinstance(event, ZeroConcentratedEvent):
        return dataclasses.replace(event, rho_=event.rho * share * share)
    return dataclasses.replace(event, epsilon=event.pure_epsilon * share)  # type: ignore[call-arg]


# --- laws ----------------------------------------------------------------------------------------------------------


def _whole_transcript(recording: Recording, rng: np.random.Generator) -> list[LawTest]:
    """Test one number for each noisy number of the recorded fit, whatever draw it came from."""
    numbers = []
    for draw, output in zip(recording.draws, recording.outputs, strict=True):
        result = utils.categories_of(draw, output) if draw.kind.startswith("select") else output
        if result is not None:
            numbers += [part.ravel() for part in utils.uniforms(draw, [result], rng)[:1]]
    parts = [np.concatenate(numbers)[None, :]] if numbers else []
    return utils.law_tests_of("the whole transcript", parts, repeated=False)
