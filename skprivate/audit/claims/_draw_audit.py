"""Audit an estimator at the door through which all its draws pass: exact where it can be, statistical where it must."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from skprivate._messages import must_be, number, positive
from skprivate.audit.claims._draw_laws import LawTest, categories_of, law_tests_of, rare_values, uniforms
from skprivate.audit.claims._draw_loss import PairLoss, pair_loss
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit, public_generator
from skprivate.privacy.draws import Draw, run_tape
from skprivate.utils import (
    CheckData,
    Neighbour,
    Recording,
    Replay,
    changes,
    differing_results,
    evenly,
    fitted_leaves,
    leaves,
    releases_in_transform,
)

#: Relative rounding of a composed price.
_ROUNDING = 1e-9
#: Draws of one kind and price that are drawn again, how much more often where two looks are odd, what is odd, and
#: what is so odd that no further draw is looked at.
_EACH, _MORE, _ODD, _CERTAIN = 3, 4, 0.02, 1e-15
#: Choices tell less each than noisy numbers do, and are drawn so much more often.
_CHOICES = 5


@dataclass(frozen=True)
class DrawAudit:
    """What an audit at the door found.

    Attributes
    ----------
    name : str
        Class of the estimator.
    claimed_epsilon, claimed_delta : float
        The claim; under a metric, per unit of distance.
    unit, adjacency : str
    n_draws : int
        Draws of one fit.
    n_neighbours : int
        Neighbours on which it was replayed.
    epsilon_attained : float
        ε, at the claimed δ, that the worst of the neighbours attains if the draws have their declared laws: over all
        results that the mechanism might give. No statistics enter.
    largest_share : float
        Largest change of a statistic as a share of its declared sensitivity.
    transcript_losses : ndarray of shape (n_neighbours,)
        Exact log-likelihood ratios of the recorded results, data against neighbour, under the declared laws.
    transcripts_known : bool
        Whether these hold all draws; a candidate whose category is not recorded is left out.
    law_tests : tuple of LawTest
        Tests of what came out of the door against its declared law, least p-value first.
    law_p_value : float
        The least of them, times their number.
    untested : tuple of str
        Kinds of draws whose law was not tested.
    false_alarm : float
        Probability at most of which a sound estimator's laws are refuted.
    failures : tuple of str
        What was wrong.
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    unit: str
    adjacency: str
    n_draws: int
    n_neighbours: int
    epsilon_attained: float
    largest_share: float
    transcript_losses: npt.NDArray[np.float64] = field(repr=False, compare=False)
    transcripts_known: bool
    law_tests: tuple[LawTest, ...] = field(repr=False)
    law_p_value: float
    untested: tuple[str, ...]
    false_alarm: float
    failures: tuple[str, ...]

    @property
    def violated(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.failures)

    def __str__(self) -> str:
        delta = f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        loss = float(np.abs(self.transcript_losses).max(initial=0.0))
        worst = str(self.law_tests[0]) if self.law_tests else "none"
        lines = [
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g}{delta} for one {self.unit} ({self.adjacency}): "
            + ("VIOLATED at the door" if self.violated else "not refuted at the door"),
            f"  draws of one fit               {self.n_draws}",
            f"  neighbours replayed            {self.n_neighbours}",
            f"  epsilon attained, declared law {self.epsilon_attained:.4g} (largest share of a sensitivity "
            f"{self.largest_share:.4g})",
            f"  loss of the recorded results   up to {loss:.4g}"
            + ("" if self.transcripts_known else ", in part"),
            f"  law of the noise, worst test   {worst}; p = {min(self.law_p_value, 1.0):.2g} of all "
            f"{len(self.law_tests)} (false alarms: {self.false_alarm:g})",
            *(f"  WRONG: {text}" for text in self.failures),
            *([f"  not tested: the law of {', '.join(self.untested)}"] if self.untested else []),
            "  not seen from here: what leaves by no draw (time, files, logs, errors), noise that is drawn elsewhere, "
            "neighbours not tried. Audit the output as well: audit_estimator.",
        ]
        return "\n".join(lines)


def audit_draws(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    neighbours: Any = None,
    fit_params: dict[str, Any] | None = None,
    guarantee: PrivacyGuarantee | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    distance: float | None = None,
    n_neighbours: int = 20,
    n_repetitions: int = 300,
    false_alarm: float = 1e-6,
    random_state: Any = None,
) -> DrawAudit:
    """Audit the draws of an estimator that releases through `skprivate.privacy.open_release`.

    Three things are looked at, for the price of a few fits:

    * **replay**: the fit is recorded, and repeated on neighbouring data with the recorded results in the place of
      draws. It must then make the same draws for the same prices, all of them paid for, and end in the same state; only
      the statistics may differ, and each by no more than its sensitivity, in exact arithmetic. What they do differ by
      gives the exact privacy loss of the transcript, and the ε that this pair attains over all results;
    * **prices**: that ε, composed over all draws, must not exceed the claim;
    * **laws**: draws are drawn again, ``n_repetitions`` numbers each, and compared with the law that follows from their
      price and sensitivity: size, variance, centre, whole law, independence. Odd ones are looked at again, at last four
      times as long, on fresh draws that decide alone.

    A consistent price with half the sensitivity shows in the first only, half the noise at an honest price in the last
    only. What leaves by no draw shows in neither: that is left to `audit_estimator`.

    The fits are simulations that nobody may see, since the auditor sees private statistics; they spend nothing
    (``ledger`` is set to None).

    Parameters
    ----------
    estimator : estimator
        Not fitted.
    X : array-like of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or None
    neighbours : (X, y), (X, y, fit_params) or a list of them, default=None
        Data that differ in one unit. ``None``: what the guarantee's unit and adjacency allow, worst cases first
        (extreme values, ties, rows that come and go), for numeric arrays.
    fit_params : dict or None, default=None
        Further arguments of ``fit``.
    guarantee : PrivacyGuarantee or None, default=None
        The claim. ``None``: ``privacy_guarantee_`` of the fit.
    epsilon, delta : float or None, default=None
        The claim in numbers, where there is no guarantee or another one is to be tested.
    distance : float or None, default=None
        Between the data and ``neighbours``: needed under metric adjacency, refused elsewhere.
    n_neighbours : int, default=20
        Changes of values that are tried where ``neighbours`` is None.
    n_repetitions : int, default=300
        Noisy numbers that are drawn again for a draw.
    false_alarm : float, default=1e-6
        Probability at most of which the laws of a sound estimator are refuted, all tests together (Bonferroni). The
        replay refutes with certainty.
    random_state : int, RandomState or None, default=None
        ``None`` draws again from the operating system's entropy, as releases do; an integer from simulated noise.

    Returns
    -------
    DrawAudit

    Raises
    ------
    ValueError
        If nothing is drawn through a release, there is no claim, or a parameter is out of range or at odds with it.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.audit import audit_draws
    >>> X = np.random.default_rng(0).uniform(size=(40, 1))
    >>> audit = audit_draws(UserLevelMean(tau=1.0, delta=1e-6), X, random_state=0)
    >>> audit.violated, bool(audit.largest_share <= 1)
    (False, True)
    """
    number("n_neighbours", n_neighbours, "an integer >= 1", lambda n: n >= 1)
    number("n_repetitions", n_repetitions, "an integer >= 8", lambda n: n >= 8)
    number("false_alarm", false_alarm, "a number in (0, 1)", lambda p: 0 < p < 1)
    rng = public_generator(random_state)
    data = CheckData(_array(X), None if y is None else np.asarray(y), dict(fit_params or {}))
    seeded = _with(estimator, int(rng.integers(2**31 - 1)))
    recording = Recording(lambda each: _fit_and_release(seeded, each), data)
    if not recording.draws:
        raise ValueError(
            f"{type(estimator).__name__} draws nothing through a release: there is nothing to audit at the door. "
            "audit_estimator looks at outputs."
        )
    fitted = _fitted(seeded, data)
    claim = _claim(fitted, guarantee, epsilon, delta)
    failures = _stated_price(fitted, claim)
    pairs = []
    for other in _around(estimator, data, claim, neighbours, distance, n_neighbours, rng):
        pair, found = _replayed(recording, seeded, other, claim)
        pairs.append(pair)
        failures += [f"on {other.name}, {text}" for text in found]
    failures += _unpaid_kinds(recording.draws, claim)
    tests, untested = _laws(estimator, data, n_repetitions, random_state, rng)
    tests += _whole_transcript(recording, rng)
    tests.sort(key=lambda test: test.p_value)
    least = min(1.0, tests[0].p_value * len(tests)) if tests else 1.0
    if least < false_alarm:
        failures.append(f"what comes out of the door has not the declared law: {tests[0]}")
    return DrawAudit(
        name=type(estimator).__name__,
        claimed_epsilon=float(claim.epsilon),
        claimed_delta=float(claim.delta),
        unit=str(claim.unit),
        adjacency=str(claim.adjacency),
        n_draws=len(recording.draws),
        n_neighbours=len(pairs),
        epsilon_attained=max((pair.epsilon for pair in pairs), default=0.0),
        largest_share=max((pair.share for pair in pairs), default=0.0),
        transcript_losses=np.array([pair.realised for pair in pairs]),
        transcripts_known=all(pair.known for pair in pairs),
        law_tests=tuple(tests),
        law_p_value=least,
        untested=tuple(sorted(untested)),
        false_alarm=false_alarm,
        failures=tuple(failures),
    )


# --- fits -----------------------------------------------------------------------------------------------------------


def _array(X: Any) -> Any:
    return X if hasattr(X, "iloc") else np.asarray(X)


def _with(estimator: Any, seed: Any) -> Any:
    """A clone with all its seeds set, that pays from no ledger: nothing that an audit draws is released."""
    model = clone(estimator)
    names = model.get_params(deep=True)
    seeds = {name: seed for name in names if name.rpartition("__")[2] == "random_state"}
    ledgers = {name: None for name in names if name.rpartition("__")[2] == "ledger"}
    return model.set_params(**seeds, **ledgers)


def _fitted(estimator: Any, data: CheckData) -> Any:
    model = clone(estimator)
    targets = () if data.y is None else (data.y,)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        model.fit(data.X, *targets, **data.metadata)
    return model


def _fit_and_release(estimator: Any, data: CheckData) -> Any:
    model = _fitted(estimator, data)
    released = leaves(model.transform(data.X)) if releases_in_transform(model) else {}
    return {**fitted_leaves(model), **{f"transform{name}": value for name, value in released.items()}}


def _claim(
    model: Any, guarantee: PrivacyGuarantee | None, epsilon: float | None, delta: float | None
) -> PrivacyGuarantee:
    claim = guarantee if guarantee is not None else getattr(model, "privacy_guarantee_", None)
    if epsilon is None and delta is None and claim is not None:
        return claim
    known = model.get_params(deep=False)
    epsilon = epsilon if epsilon is not None else getattr(claim, "epsilon", known.get("epsilon"))
    if epsilon is None:
        raise ValueError(
            must_be("epsilon", "a positive finite number", None, f"{type(model).__name__} states no claim.")
        )
    delta = delta if delta is not None else getattr(claim, "delta", 0.0)
    adjacency = getattr(claim, "adjacency", "replace-one")
    return PrivacyGuarantee(
        epsilon=positive("epsilon", epsilon),
        delta=delta,
        unit=PrivacyUnit(getattr(claim, "unit", "row")),
        adjacency=Adjacency(adjacency),
        metric=getattr(claim, "metric", None),
    )


def _around(
    estimator: Any,
    data: CheckData,
    claim: PrivacyGuarantee,
    neighbours: Any,
    distance: float | None,
    at_most: int,
    rng: np.random.Generator,
) -> list[Neighbour]:
    if (claim.adjacency == Adjacency.METRIC and neighbours is not None) != (distance is not None):
        allowed = "given with neighbours under adjacency 'metric', and nowhere else"
        raise ValueError(must_be("distance", allowed, distance, f"This adjacency is {claim.adjacency}."))
    if distance is not None:
        positive("distance", distance)
    if neighbours is None:
        if not isinstance(data.X, np.ndarray):
            raise ValueError(must_be("neighbours", "given where X is no array of numbers", None))
        steps = evenly(changes(estimator, data, claim, rng, 1), at_most)
        return [Neighbour(step.name, step.apply(data), step.distance) for step in steps]
    single = isinstance(neighbours, tuple) and len(neighbours) in (2, 3)
    given: Sequence[Any] = [neighbours] if single else list(neighbours)
    if not given:
        raise ValueError(must_be("neighbours", "at least one pair (X, y)", neighbours))
    found = []
    for number_, item in enumerate(given):
        other = (*item, data.metadata) if len(item) == 2 else item
        targets = None if other[1] is None else np.asarray(other[1])
        found.append(
            Neighbour(f"neighbour {number_}", CheckData(_array(other[0]), targets, other[2]), distance)
        )
    return found


# --- replay ---------------------------------------------------------------------------------------------------------


def _replayed(
    recording: Recording, estimator: Any, other: Neighbour, claim: PrivacyGuarantee
) -> tuple[PairLoss, list[str]]:
    again = Replay(recording, lambda each: _fit_and_release(estimator, each), other.data)
    pair = pair_loss(recording.draws, again.draws, recording.outputs, other.distance, claim.delta)
    found = list(pair.complaints)
    if again.failure:
        found.append(again.failure)
    elif not found:
        found += differing_results(recording.result, again.result)
    if pair.epsilon > claim.epsilon * (1 + _ROUNDING):
        found.append(
            f"its draws together attain epsilon {pair.epsilon:.4g}, but {claim.epsilon:.4g} is claimed"
        )
    if claim.events:
        unpaid = Counter(pair.differing) - Counter(dict(claim.events))
        if unpaid:
            found.append(f"these draws depend on the unit, but are not paid for: {dict(unpaid)}")
    return pair, found


def _stated_price(fitted: Any, claim: PrivacyGuarantee) -> list[str]:
    """A fit that states a worse guarantee than the claim."""
    stated = getattr(fitted, "privacy_guarantee_", None)
    if stated is None or stated.delta > claim.delta or stated.epsilon <= claim.epsilon * (1 + _ROUNDING):
        return []
    return [f"the fit itself states epsilon {stated.epsilon:.4g}, but {claim.epsilon:.4g} is claimed"]


def _unpaid_kinds(draws: Sequence[Draw], claim: PrivacyGuarantee) -> list[str]:
    """Draws of a price that was never charged, whatever the neighbours show of them."""
    inside = any(draw.kind == "repetitions" for draw in draws)
    paid = {event for event, _ in claim.events}
    unpaid = {event for draw in draws for event in draw.events} - paid
    return (
        [f"these draws are not paid for: {sorted(map(str, unpaid))}"]
        if paid and unpaid and not inside
        else []
    )


# --- laws -----------------------------------------------------------------------------------------------------------


class _LawTape:
    """A tape that draws again what is drawn, and tests its law."""

    def __init__(self, n_numbers: int, rng: np.random.Generator) -> None:
        self.tests: list[LawTest] = []
        self.untested: set[str] = set()
        self._n, self._rng = n_numbers, rng
        self._conclusive = False
        self._seen: Counter[Any] = Counter()

    def draw(self, draw: Draw, sample: Any) -> Any:
        key = (draw.kind, repr(draw.sensitivity), repr(draw.events), draw.statistic.size)
        self._seen[key] += 1
        if self._seen[key] <= _EACH and not self._conclusive:
            self._look(draw, sample)
        return sample()

    def _look(self, draw: Draw, sample: Any) -> None:
        width = (
            1 if draw.kind.startswith("select") or draw.kind == "repetitions" else max(1, draw.statistic.size)
        )
        times = max(2, math.ceil(self._n * (_CHOICES if draw.kind.startswith("select") else 1) / width))
        tests = self._again(draw, sample, times)
        if not tests:
            self.untested.add(draw.kind)
            return
        # An odd first look does not count: fresh draws decide, at twice their p-values, for there are two more looks.
        for more in (1, _MORE):
            if min(test.p_value for test in tests) >= _ODD:
                break
            tests = [
                replace(test, p_value=min(1.0, 2.0 * test.p_value))
                for test in self._again(draw, sample, more * times)
            ]
            if min(test.p_value for test in tests) < _CERTAIN:
                self._conclusive = True
                break
        self.tests += tests

    def _again(self, draw: Draw, sample: Any, times: int) -> list[LawTest]:
        if draw.kind.startswith("select"):
            one = draw.categories if draw.categories is not None else lambda: categories_of(draw, sample())
            results = [one() for _ in range(times)]
        else:
            results = [sample() for _ in range(times)]
        numbers = uniforms(draw, results, self._rng)
        return law_tests_of(draw.kind, numbers, repeated=True, rare=rare_values(draw, results))


def _laws(
    estimator: Any, data: CheckData, n_numbers: int, random_state: Any, rng: np.random.Generator
) -> tuple[list[LawTest], set[str]]:
    """Draw every kind of draw of a fit again, from the noise that releases use."""
    tape = _LawTape(n_numbers, rng)
    seed = None if random_state is None else int(rng.integers(2**31 - 1))
    with run_tape(tape):
        _fit_and_release(_with(estimator, seed), data)
    return tape.tests, tape.untested - {test.draw for test in tape.tests}


def _whole_transcript(recording: Recording, rng: np.random.Generator) -> list[LawTest]:
    """One number for each noisy number of the recorded fit, whatever draw it came from."""
    numbers = []
    for draw, output in zip(recording.draws, recording.outputs, strict=True):
        result = categories_of(draw, output) if draw.kind.startswith("select") else output
        if result is not None:
            numbers += [part.ravel() for part in uniforms(draw, [result], rng)[:1]]
    return law_tests_of(
        "the whole transcript", [np.concatenate(numbers)[None, :]] if numbers else [], repeated=False
    )
