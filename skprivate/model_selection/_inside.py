"""Fits inside a search: their cost by a trial, a ledger that admits only that, and no output.

The search pays for everything beforehand. So each fit in it gets a ledger of its own, which admits the releases of the
trial and nothing else, and afterwards its entries must be those releases.
"""

from __future__ import annotations

import io
import logging
import math
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeVar

from joblib import parallel_config
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

from skprivate import privacy
from skprivate._messages import unheard
from skprivate._sklearn import listening
from skprivate.inspection import guarantee_of, objects_in
from skprivate.model_selection import _scoring
from skprivate.model_selection._candidates import Candidate, draws_adaptively, given_classes, private_steps
from skprivate.privacy import Adjacency, PrivacyEvent, PrivacyGuarantee, PrivacyLedger, PrivacyUnit, draws

#: Output, filters of warnings and records are of the whole process: two threads would give them back in disorder.
_ALONE = threading.RLock()
#: A budget that refuses nothing, for trials.
_UNBOUNDED = (1e300, 1.0 - 2.0**-53)
#: More than the rounding error of floating-point sums of a few costs.
_ROUNDING = 1 + 2.0**-40
_Ledger = TypeVar("_Ledger", bound=PrivacyLedger)


@dataclass(frozen=True)
class FitCost:
    """Cost of one fit: its releases (see `release_of`), sorted, their events and the sums of their costs.

    ``counts`` are the numbers of releases of each private step.
    """

    releases: tuple[Any, ...]
    events: dict[PrivacyEvent, int]
    epsilon: float
    delta: float
    unit: PrivacyUnit
    adjacency: Adjacency
    counts: tuple[int, ...]


class ContainedLedger(PrivacyLedger):
    """A ledger that admits the releases of a trial, each once, and nothing else.

    Its other handles do not see each other count: `fit_contained` compares all entries.
    """

    _left: Counter[Any]

    def admit(self, cost: FitCost) -> None:
        """Admit what was accounted."""
        self._left = Counter(cost.releases)

    def charge(self, label: str, **terms: Any) -> int:
        release = release_of(label, terms["unit"], terms["adjacency"], terms["events"])
        if terms.get("adaptive") or self._left[release] < 1:
            raise _not_as_in_the_trial(label)
        self._left[release] -= 1
        return super().charge(label, **terms)

    def increase(self, entry: int, **terms: object) -> None:
        raise _not_as_in_the_trial("A release")


def _not_as_in_the_trial(label: str) -> RuntimeError:
    return RuntimeError(
        f"{label} would draw something else than in its trial, for whose cost the search was planned: what it draws "
        "depends on the data, on chance, or on what a step before it released. Nothing was drawn for it."
    )


def release_of(label: str, unit: object, adjacency: object, events: Any) -> tuple[Any, ...]:
    """Reduce a release to what a trial and its fit are compared by."""
    counts = Counter[str]()
    for event in events:
        plain = {name: value for name, value in event.items() if name != "count"}
        counts[repr(sorted(plain.items()))] += event["count"]
    return label, str(unit), str(adjacency), tuple(sorted(counts.items()))


def fit_cost(
    paid: list[tuple[str, Any, Any, Any]], costs: list[tuple[float, float]], counts: tuple[int, ...]
) -> FitCost:
    """Sum the releases (label, unit, adjacency, events) of a fit and their (ε, δ)."""
    relations = sorted({(str(unit), str(adjacency)) for _, unit, adjacency, _ in paid})
    if len(relations) != 1:
        found = " and ".join(f"one {unit} ({adjacency})" for unit, adjacency in relations)
        raise ValueError(f"estimator must protect one unit under one adjacency, got {found or 'none'}.")
    unit, adjacency = relations[0]
    if adjacency not in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE):
        raise ValueError(
            f"estimator must have adjacency 'replace-one' or 'add-remove', got {adjacency!r}: a score has no cost per "
            "unit of distance."
        )
    events = privacy.count_events(pair for *_, plain in paid for pair in privacy.events_of_plain(plain))
    return FitCost(
        releases=tuple(sorted(release_of(*terms) for terms in paid)),
        events=events,
        epsilon=math.fsum(epsilon for epsilon, _ in costs),
        delta=math.fsum(delta for _, delta in costs),
        unit=PrivacyUnit(unit),
        adjacency=Adjacency(adjacency),
        counts=counts,
    )


class _Nowhere(io.TextIOBase):
    """A file that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def unseen() -> Iterator[None]:
    """Suppress output, warnings, log records and progress, and any process that could make some."""
    nowhere = _Nowhere()
    with (
        _ALONE,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(record=True),  # also of whoever sets other filters inside
        unheard(),
        listening(None),
        parallel_config(backend="sequential"),
    ):
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(before)


@dataclass
class CandidateCosts:
    """Costs of candidates at any budget, by fits of copies that look at zeros in place of private statistics.

    A copy with one private step ends where it would pay, before it draws. Others are fitted to their end. Candidates
    that cost the same are asked for by one of them, and all of them are asked again at the end.
    """

    candidates: list[Candidate]
    rows: _scoring.Rows
    labels: Any
    _known: dict[tuple[int, float, float], FitCost] = field(default_factory=dict)
    _counts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _like: list[int] = field(default_factory=list)

    def plans(self, epsilon: float, delta: float) -> list[dict[PrivacyEvent, int]]:
        """List the events of each candidate at a budget; one is asked for all that drew the same before."""
        if not self._like:
            first: dict[Any, int] = {}
            for number in range(len(self.candidates)):
                self._like.append(first.setdefault(self.cost(number, epsilon, delta).releases, number))
        return [self.cost(number, epsilon, delta).events for number in self._like]

    def confirmed(self, epsilon: float, delta: float) -> bool:
        """Tell if candidates that drew the same before still do at this budget; if not, all will be asked."""
        every = range(len(self.candidates))
        costs = [self.cost(number, epsilon, delta).releases for number in every]
        if all(costs[number] == costs[like] for number, like in zip(every, self._like, strict=True)):
            return True
        self._like = list(every)
        return False

    def cost(self, number: int, epsilon: float, delta: float) -> FitCost:
        """Cost a fit of one candidate at a budget."""
        key = (number, epsilon, delta)
        if key not in self._known:
            assumed, cost = self.counts(number), self._ask(number, epsilon, delta)
            if cost.counts != assumed:
                self._counts[number] = cost.counts
                cost = self._ask(number, epsilon, delta)
            self._known[key] = cost
        return self._known[key]

    def check_within(self, epsilon: float, delta: float) -> None:
        """Refuse candidates that draw more at a budget than that budget, whatever they state."""
        for number, candidate in enumerate(self.candidates):
            cost = self.cost(number, epsilon, delta)
            if cost.epsilon > epsilon * _ROUNDING or cost.delta > delta * _ROUNDING:
                raise ValueError(
                    f"estimator must keep to its epsilon and delta, got {type(candidate.estimator).__name__}, which "
                    f"would pay ({cost.epsilon!r}, {cost.delta!r}) for the refit with ({epsilon!r}, {delta!r})."
                )

    def counts(self, number: int) -> tuple[int, ...]:
        """Count the releases of each private step of a candidate; one each, unless a trial shows others."""
        if number not in self._counts:
            steps = private_steps(self.candidates[number].estimator)
            if all(step.place.copies.number == 1 for step in steps):
                self._counts[number] = (1,) * len(steps)
            else:
                self._counts[number] = self._fit_whole(clone(self.candidates[number].estimator)).counts
        return self._counts[number]

    def _ask(self, number: int, epsilon: float, delta: float) -> FitCost:
        candidate = self.candidates[number]
        try:
            model = with_budget(candidate, self.counts(number), epsilon, delta, None, self.labels)
            (step, *others) = private_steps(model)
            if others or step.place.copies.number != 1 or step.place.demands:
                return self._fit_whole(model)
            return self._fit_until_charged(model, step.model)
        except Exception as error:
            error.add_note(f"In a trial of the candidate {candidate.params}, before anything was drawn or spent.")
            raise

    def _fit_until_charged(self, model: BaseEstimator, part: Any) -> FitCost:
        part.set_params(ledger=privacy.payment_gate())
        try:
            fit_on(model, self.rows)
        except privacy.PaymentIsNext as payment:
            terms = payment.terms
            if terms["adaptive"]:
                raise _not_planned(payment.label) from None
            release = payment.label, terms["unit"], terms["adjacency"], terms["events"]
            return fit_cost([release], [(terms["epsilon"], terms["delta"])], (1,))
        raise ValueError("estimator must pay for what it draws from its ledger parameter; a trial paid nothing.")

    def _fit_whole(self, model: BaseEstimator) -> FitCost:
        ledger = _own_ledger(PrivacyLedger, *_UNBOUNDED, dry_run=True)
        steps = [step.model for step in private_steps(model)]
        for number, part in enumerate(steps):
            part.set_params(ledger=ledger.annotated(str(number)))
        with draws.run_tape(None):
            fit_on(model, self.rows)
        guarantee_of(model)  # or an error
        if draws_adaptively(model):
            raise _not_planned(type(model).__name__)
        entries = ledger.entries()
        paid = [(e.label, e.unit, e.adjacency, e.events) for e in entries]
        notes = Counter(entry.note for entry in entries)
        counts = tuple(notes[str(number)] for number in range(len(steps)))
        return fit_cost(paid, [(e.own_epsilon, e.own_delta) for e in entries], counts)


def _not_planned(label: str) -> ValueError:
    return ValueError(
        f"estimator must plan its draws ahead, got {label}, which decides about draws after seeing results: a search "
        "cannot plan for it."
    )


def with_budget(
    candidate: Candidate,
    counts: tuple[int, ...],
    epsilon: float,
    delta: float,
    random_state: int | None,
    labels: object,
) -> Any:
    """Copy a candidate with a budget, divided over its private steps in proportion to the budgets that they state.

    Steps that state no δ get none. Noise follows ``random_state``, whatever the candidate's own.
    """
    model = _silent(clone(candidate.estimator))
    given_classes(model, labels)
    steps = private_steps(model)
    for name, total in (("epsilon", epsilon), ("delta", delta)):
        # A step within the budget of another one has a part of that.
        stated = [0.0 if step.within else float(step.stated(name) or 0.0) for step in steps]
        all_stated = math.fsum(count * own for count, own in zip(counts, stated, strict=True))
        for step, own in zip(steps, stated, strict=True):
            if own > 0:
                step.holder(name).set_params(**{name: total * (own / all_stated)})
    for k, step in enumerate(steps):
        # One seed for all of them would give them the same noise.
        seed = random_state if random_state is None else random_state + k
        step.model.set_params(random_state=seed, ledger=None)
        step.holder("ledger").set_params(ledger=None)
    return model


def fit_on(model: BaseEstimator, rows: _scoring.Rows) -> Any:
    """Fit, with the arguments that the model or its steps ask for; composites route them.

    A step may hand on infinite values, which count for nothing in the next one, because a refusal would be seen. The
    rows are copies, because steps may work in place: the next fit must find no trace of a trial or of a losing
    evaluation.
    """
    rows = rows.copied()
    parts = [step.model for step in private_steps(model)]
    metadata = {
        name: values for name, values in rows.metadata.items() if any(has_fit_parameter(part, name) for part in parts)
    }
    routed = len(parts) > 1 or parts[0] is not model
    options = {"enable_metadata_routing": True, "assume_finite": True} if routed else {}
    with config_context(**options), unseen():
        return model.fit(rows.X, rows.y, **metadata)


def _own_ledger(kind: type[_Ledger], epsilon: float, delta: float, **options: Any) -> _Ledger:
    ledger = kind(epsilon=epsilon, delta=delta, composition="basic", **options)
    ledger._book.store.forgotten = True  # whoever pays says that noise is simulated
    return ledger


def _silent(model: BaseEstimator) -> Any:
    """Remove callbacks and verbosity from all parts of a candidate: both would count the evaluations."""
    for part in [one for one in objects_in(model) if hasattr(one, "get_params")]:
        vars(part).pop("_skl_callbacks", None)
        if isinstance(level := part.get_params(deep=False).get("verbose"), Real):
            part.set_params(verbose=False if isinstance(level, bool) else 0)
    return model


def fit_contained(
    model: BaseEstimator,
    rows: _scoring.Rows,
    cost: FitCost,
    budget: tuple[float, float],
    *,
    simulated: bool,
    dry_run: bool,
) -> Any:
    """Fit a model that must draw what ``cost`` says for ``budget``, all of it and nothing else."""
    terms = {"simulation": simulated and not dry_run, "dry_run": dry_run}
    # A model may state more than it is given, which the search pays for; more numbers to draw may state a little more.
    epsilon, delta = (max(pair) * _ROUNDING for pair in zip(budget, (cost.epsilon, cost.delta), strict=True))
    ledger = _own_ledger(ContainedLedger, epsilon, delta, **terms)
    ledger.admit(cost)
    for step in private_steps(model):
        step.model.set_params(ledger=ledger)
    fit_on(model, rows)
    entries = ledger.entries()
    drawn = tuple(sorted(release_of(e.label, e.unit, e.adjacency, e.events) for e in entries))
    promised = guarantee_of(model)
    relation = (cost.unit, cost.adjacency)
    if any(entry.simulated is not (simulated or dry_run) for entry in entries):
        raise RuntimeError(f"{type(model).__name__} draws other noise than its random_state says: nothing is released.")
    if drawn != cost.releases or (promised.unit, promised.adjacency) != relation or draws_adaptively(model):
        raise RuntimeError(
            f"{type(model).__name__} drew something else than in its trial: what it draws depends on the data or on "
            "chance, and a search cannot plan for it. Nothing is released."
        )
    return model


def released(model: BaseEstimator, guarantee: PrivacyGuarantee) -> Any:
    """Let a model state the search's guarantee throughout, and keep no ledger."""
    for part in objects_in(model):
        for name, value in vars(part).items():
            if isinstance(value, PrivacyLedger):
                vars(part)[name] = None
            elif isinstance(value, PrivacyGuarantee):
                vars(part)[name] = guarantee
    return model
