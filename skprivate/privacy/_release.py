"""The release: every random draw on private data and its cost come from the same call.

A `Release` is a budget being spent. It knows the plan and the ledger; its draws (`Draws`) ask here first. Check, then
act: when `_charge` returns, the event is paid for and committed. One draw is paid for once: the release is locked while
it charges, and it cannot be copied, pickled or used by another process.

Branches: where the data of different units enter different computations only, neighbouring data sets that add or remove
a unit differ in one of them, so drawing the same events in each costs what drawing them in one costs (McSherry 2009,
theorem 4). A unit that is exchanged for another may leave one computation and enter another: then two differ, and both
are charged, unless the computation that a unit enters is the same in all neighbouring data sets. Later branches may
depend on what earlier ones released.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Self, SupportsIndex

from skprivate import _messages
from skprivate._messages import BudgetExceededError
from skprivate.privacy import _contributions
from skprivate.privacy._events import Events, PrivacyEvent, count_events, plain_events, running_tape
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy.accounting import _composition
from skprivate.privacy.draws._metric import MetricDraws
from skprivate.privacy.ledger import _entries
from skprivate.privacy.ledger._ledger import PrivacyLedger
from skprivate.privacy.noise._bits import RandomStateLike, bit_source, public_generator

#: Noise of a draw of less than ε = 2⁻³² is wider than what is drawn exactly.
_LEAST_RHO = 2.0**-65
#: A pure guarantee is reported if its ε is at most this multiple of the one that needs δ.
_PURE_PREFERENCE = 1.01
_FORKED = (
    "this release was opened by another process: after a fork each process could draw what was paid for once. Open "
    "one in the process that draws."
)


def cost_of_plan(
    events: Events, epsilon: float, delta: float, accounted_delta: float | None = None
) -> tuple[float, float]:
    """Compute (ε, δ) of events that were fixed before any result: pure where that is as good and within the budget."""
    counts = count_events(events)
    pure = _composition.compose_epsilon(counts)
    needed = _composition.compose_epsilon(counts, delta if accounted_delta is None else accounted_delta)
    if pure <= min(needed * _PURE_PREFERENCE, epsilon * (1 + _contributions.ROUNDING)):
        return pure, 0.0
    return needed, delta


class SharedBudget(NamedTuple):
    """A larger budget that a fit shares with what others draw, by public numbers, whatever it releases."""

    epsilon: float
    delta: float
    others: tuple[tuple[PrivacyEvent, int], ...]


class Release(MetricDraws):
    """A privacy budget being spent; made by `open_release`, ended by `close`.

    It is a context manager that closes itself. It cannot be copied, pickled or used after a fork, which would draw
    twice for one cost; threads may share it.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    unit : PrivacyUnit
    adjacency : Adjacency
    public_rng : numpy.random.Generator
        Randomness that may be published (rotations, subsampling of public rows), independent of all noise.
    """

    def __init__(
        self,
        budget: PrivacyGuarantee,
        plan: Events,
        *,
        random_state: RandomStateLike,
        ledger: PrivacyLedger | None,
        label: str,
        diameter: float | None,
        parameters: Mapping[str, str] | None,
    ) -> None:
        self._plan = count_events(plan)
        if budget.adjacency is not Adjacency.METRIC and any(event.rho < _LEAST_RHO for event in self._plan):
            allowed = "large enough to leave 2**-32 to every draw"
            raise ValueError(_messages.must_be("epsilon", allowed, budget.epsilon, "Nothing was spent."))
        self._budget = budget  # the most that `close` may state
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.unit, self.adjacency, self._metric = budget.unit, budget.adjacency, budget.metric
        self._label = label
        self._diameter = diameter
        self._parameters = parameters
        self.dry_run = ledger is not None and ledger.dry_run
        self._source = bit_source(0 if self.dry_run else random_state)
        self.public_rng = public_generator(random_state)
        self._ledger = ledger
        self._entry: int | None = None
        self._tape = running_tape()
        self._lock, self._is_taking = threading.RLock(), False
        self._process = os.getpid()
        self._paid: dict[PrivacyEvent, int] = {}
        self._planned: dict[PrivacyEvent, int] = {}  # the part of what is paid for that is still to be drawn
        self._closed = False
        if not self._source.secure and not (ledger is not None and ledger._book.store.forgotten):
            _messages.announce_simulation(label, dry_run=self.dry_run)
        if self._plan:
            self._pay(self._plan)
            self._planned = dict(self._plan)

    def close(self) -> PrivacyGuarantee:
        """End the release and state what it cost, computed from what was drawn or planned.

        A planned event that was not drawn counts: whether it is drawn may depend on results, and the guarantee is that
        of the mechanism, not of one path through it.

        Returns
        -------
        PrivacyGuarantee
            For a plan with δ = 0 where the pure sum is within the budget and as good as the bound that needs δ (within
            1 %); what is drawn beside it leaves δ as it is. Without a plan all of δ is spent, and ε is the pure sum
            where that is within the budget, else the whole budget's.
        """
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)
        with self._lock:
            cost = self._cost(self._paid)
            if self._ledger is not None and self._entry is not None and not self._closed:
                self._ledger.close_entry(self._entry, **cost, diameter=self._diameter)
            self._closed = True
        return replace(
            self._budget,
            epsilon=cost["epsilon"],
            delta=cost["delta"],
            events=tuple(self._paid.items()),
            valid_for_release=self._source.secure and self._tape is None,
            adaptive=cost["adaptive"],
            ledger_entry="" if self._ledger is None or self._entry is None else self._ledger.entry_name(self._entry),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # After an error the ledger keeps the reserved cost: what was drawn before it may have been seen.
        if error[0] is None and not self._closed:
            self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a release cannot be copied or pickled: each copy could draw what was paid for once. Open one where it "
            "is used."
        )

    def _charge(self, events: dict[PrivacyEvent, int], branch: Branch | None = None) -> None:
        """Take ``events`` out of the plan, or pay for them; nothing has been drawn before this returns.

        One draw at a time looks at what is left and takes its part; a draw of a branch takes it out of its plan.
        """
        if os.getpid() != self._process:  # before the lock: a fork may have copied one that is held
            raise RuntimeError(_FORKED)
        with self._lock:
            if self._closed:
                raise RuntimeError("the release is closed: open another one for further draws.")
            # The lock is this thread's, so that whoever takes already is what it has interrupted.
            if self._is_taking:
                raise RuntimeError(
                    "a release cannot draw in what interrupts one of its draws (a signal handler, a finalizer): both "
                    "would be paid for once. Nothing was drawn for it."
                )
            self._is_taking = True
            try:
                if branch is not None:
                    branch._take(events)
                elif all(self._planned.get(event, 0) >= count for event, count in events.items()):
                    for event, count in events.items():
                        self._planned[event] -= count
                else:
                    self._pay(count_events([*self._paid.items(), *events.items()]))
            finally:
                self._is_taking = False

    def _pay(self, total: dict[PrivacyEvent, int]) -> None:
        """Check that ``total`` fits the budget, then write its cost to the ledger."""
        if self.adjacency is Adjacency.METRIC and not all(math.isfinite(event.pure_epsilon) for event in total):
            kinds = ", ".join(sorted({type(event).__name__ for event in total if math.isinf(event.pure_epsilon)}))
            raise ValueError(
                f"with adjacency='metric' draws must be pure events only (Laplace noise, selection), got {kinds}."
            )
        limit, delta = self.epsilon * (1 + _contributions.ROUNDING), self._accounted_delta
        if not self._paid:
            # A plan, or a first draw: chosen before any result. Whoever draws more than a first draw stays within the
            # filter on every path, that of stopping after it included.
            if not (fits := _composition.within_budget(total, limit, delta)):
                needed = _composition.compose_epsilon(total, delta)
        else:
            needed = self._needed(total)
            fits = needed <= limit
        if not fits:
            raise BudgetExceededError(
                f"{self._label or 'this release'} needs epsilon = {needed:.6g} at delta = {self.delta:g}, more than "
                f"its budget epsilon = {self.epsilon:g}; nothing was drawn for it.",
                required=(needed, self.delta),
                remaining=(self.epsilon, self.delta),
            )
        if self._ledger is not None:
            self._enter(self._ledger, self._cost(total))
        self._paid = total

    def _needed(self, total: dict[PrivacyEvent, int]) -> float:
        """ε of more draws than the plan or the first one."""
        if self._plan and self._composed(self._plan)[1] == 0:
            # δ was not paid for with the plan. To want it after results were seen is another release.
            return _composition.compose_epsilon(total)
        if self._plan:
            # All of δ is spent on the plan. What a pure draw adds to its loss never exceeds its ε.
            beside = {event: n for event, count in total.items() if (n := count - self._plan.get(event, 0)) > 0}
            with_plan = _composition.add_up(
                [_composition.compose_epsilon(self._plan, self._accounted_delta), _composition.compose_epsilon(beside)]
            )
            return min(_composition.compose_epsilon(total), with_plan)
        pure = _composition.compose_epsilon(total)  # nearly always enough, and the cheapest to know
        return pure if pure <= self.epsilon else _composition.filter_epsilon(total, self._accounted_delta)

    def _enter(self, ledger: PrivacyLedger, cost: dict[str, Any]) -> None:
        if self._entry is None:
            self._entry = ledger.charge(
                self._label,
                unit=str(self.unit),
                # ε per unit of one distance does not add up with ε per unit of another.
                adjacency=f"{self.adjacency}: {self._metric}" if self._metric else str(self.adjacency),
                simulated=not self._source.secure,
                diameter=self._diameter,
                parameters=self._parameters,
                **cost,
            )
        else:
            ledger.increase(self._entry, **cost, diameter=self._diameter)

    @property
    def _accounted_delta(self) -> float:
        # ε per unit of distance scales only for pure events: no δ is spent there.
        return 0.0 if self.adjacency is Adjacency.METRIC else self.delta

    def _composed(self, events: dict[PrivacyEvent, int]) -> tuple[float, float]:
        """Compose ``events`` to (ε, δ): all paths through the release together fail with probability δ at most."""
        limit, delta = self.epsilon * (1 + _contributions.ROUNDING), self._accounted_delta
        if events == self._plan:
            epsilon, delta = cost_of_plan(events, self.epsilon, self.delta, delta)
        elif self._plan:
            # δ is the plan's on every path. Who were given it back where a pure sum is enough could fail elsewhere.
            epsilon, delta = self._needed(events), self._composed(self._plan)[1]
        else:
            # A filter bounds where the loss may end, not where it stands: who stops when the loss is high must not be
            # charged what was spent by then. The pure sum holds on its path; δ is paid for the others.
            pure = _composition.compose_epsilon(events)
            epsilon = pure if pure <= limit else self.epsilon
        # A sum of shares that exceeds the budget by rounding alone is truthfully within it (`WIDER`).
        return (min(epsilon, self.epsilon) if epsilon <= limit else epsilon), delta

    def _cost(self, events: dict[PrivacyEvent, int]) -> dict[str, Any]:
        epsilon, delta = self._composed(events)
        rho = _composition.rho_total(events)
        return {
            "epsilon": epsilon,
            "delta": delta,
            "rho": rho if math.isfinite(rho) and self.adjacency is not Adjacency.METRIC else None,
            "events": plain_events(events.items()),
            "adaptive": events != self._plan,
        }


def open_release(
    *,
    epsilon: float,
    delta: float = 0.0,
    unit: PrivacyUnit | str,
    adjacency: Adjacency | str,
    metric: str | None = None,
    random_state: RandomStateLike = None,
    ledger: PrivacyLedger | None = None,
    label: str = "",
    theorem: str = "",
    assumptions: tuple[str, ...] = (),
    plan: Events = (),
    diameter: float | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Release:
    """Open a release: the only way to draw noise on private data.

    Parameters
    ----------
    epsilon, delta : float
        The budget: ε > 0, δ in [0, 1).
    unit : PrivacyUnit or str
        What is protected: "row", "private row", "user", "label" or "data set".
    adjacency : Adjacency or str
        "replace-one", "add-remove" or "metric"; the sensitivities passed to the draws are those of this relation.
    metric : str, optional
        Name of the distance when ``adjacency="metric"``; ``epsilon`` is then per unit of distance and
        sensitivities are Lipschitz constants.
    random_state : None, int or RandomState
        None draws from the operating system's entropy. Anything else is a reproducible simulation that is not valid
        for release; one `SimulatedNoiseWarning` is given.
    ledger : PrivacyLedger, optional
        Budget of the data set; each cost is committed to it before anything is drawn.
    label : str
        Who draws, for the ledger and for errors.
    theorem, assumptions : str, tuple of str
        For the guarantee.
    plan : mapping or iterable of (PrivacyEvent, int)
        Events to pay for at once; draws that match need no further check. A plan is fixed before any result is
        seen, so it is accounted by its privacy loss distribution. Draws outside a plan may depend on results, in number
        and in kind. Without a plan they cost all of δ and, of ε, their pure sum where that is within the budget, else
        the whole, which holds as a filter (`filter_epsilon`). Beside a plan they must be pure and leave its δ.
    diameter : float, optional
        For a metric: the largest distance between inputs that differ in one row, by which a ledger of rows counts ε.
    parameters : mapping of str to str, optional
        What the ledger shows of who draws.

    Returns
    -------
    Release

    Raises
    ------
    BudgetExceededError
        If the plan does not fit the budget or the ledger. Nothing is drawn.
    SimulatedNoiseError
        If there is a seed where simulated noise is forbidden, or a ledger with a path is for releases.
    TypeError, ValueError
        If a parameter is out of range or of another type.

    See Also
    --------
    open_branches : Opens branches that share one plan.
    PrivateEstimatorMixin : Opens the release of an estimator.

    Examples
    --------
    >>> from skprivate.privacy import open_release
    >>> release = open_release(epsilon=1.0, unit="row", adjacency="replace-one")
    >>> noisy_mean = release.laplace(0.4, sensitivity=1 / 100, epsilon=1.0)
    >>> release.close().epsilon
    1.0
    """
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        kind = type(ledger).__name__
        raise TypeError(f"ledger must be a PrivacyLedger or None, got {kind}. PrivacyLedger(epsilon=…) makes one.")
    budget = PrivacyGuarantee(
        epsilon=_messages.positive("epsilon", epsilon),
        delta=_messages.delta_number(delta),
        unit=_messages.member(PrivacyUnit, "unit", unit),
        adjacency=_messages.member(Adjacency, "adjacency", adjacency),
        metric=metric,
        assumptions=tuple(assumptions),
        theorem=theorem,
    )
    return Release(
        budget,
        plan,
        random_state=random_state,
        ledger=ledger,
        label=label,
        diameter=None if diameter is None else _messages.positive("diameter", diameter),
        parameters=parameters,
    )


class Branch(MetricDraws):
    """Draws for one part of the units, inside the plan that a release paid for.

    Made by `open_branches`. Draws that the plan does not hold, and draws after `close` or after the release is closed,
    are refused with ``RuntimeError``.
    """

    def __init__(self, parent: Release, planned: dict[PrivacyEvent, int]) -> None:
        self._parent = parent
        self.epsilon = parent.epsilon
        self.delta = parent.delta
        self.unit = parent.unit
        self.adjacency = parent.adjacency
        self.public_rng = parent.public_rng
        self.dry_run = parent.dry_run
        self._metric = parent._metric
        self._source = parent._source
        self._tape = parent._tape
        self._planned = dict(planned)
        self._closed = False

    def close(self) -> None:
        """End the branch; the guarantee is the release's."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _charge(self, events: dict[PrivacyEvent, int]) -> None:
        self._parent._charge(events, self)

    def _take(self, events: dict[PrivacyEvent, int]) -> None:
        """Take ``events`` out of the plan of the branch; the release is locked."""
        if self._closed:
            raise RuntimeError("the branch is closed: nothing was drawn.")
        if any(self._planned.get(event, 0) < count for event, count in events.items()):
            raise RuntimeError("this draw is not in the plan of the branch: nothing was drawn.")
        for event, count in events.items():
            self._planned[event] -= count

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("a branch of a release cannot be copied or pickled.")


def open_branches(release: Release, n_branches: int, plan: Events, *, fixed_assignment: bool = False) -> list[Branch]:
    """Open ``n_branches`` branches that may each draw ``plan``, for the cost of drawing it once or twice.

    The guarantee rests on the caller: the data of one unit enter one branch only, and which one depends on nothing
    but that unit and public randomness.

    Parameters
    ----------
    release : Release
        Pays for the plan before this returns: twice under "replace-one" adjacency unless ``fixed_assignment``.
    n_branches : int
    plan : mapping or iterable of (PrivacyEvent, int)
    fixed_assignment : bool, default=False
        Whether an exchanged unit stays in its branch in all neighbouring data sets: for instance because branches
        are dealt by a public identifier that the exchanged unit keeps. State that among the release's assumptions.
        Otherwise a unit may leave one branch and enter another: the sensitivities of the draws must then bound a unit
        removed or added as well as one exchanged.

    Returns
    -------
    list of Branch

    See Also
    --------
    open_release : Opens one release.
    """
    planned = count_events(plan)
    twice = release.adjacency is not Adjacency.ADD_REMOVE and not fixed_assignment
    release._charge({event: (2 if twice else 1) * count for event, count in planned.items()})
    branches = [Branch(release, planned) for _ in range(n_branches)]
    for branch in branches:
        branch.after_draw = release.after_draw
    return branches


class PaymentIsNext(BaseException):
    """Ends a fit that has found nothing wrong, with the cost that it would pay."""

    def __init__(self, label: str, terms: dict[str, Any]) -> None:
        super().__init__(label)
        self.label, self.terms = label, terms


class _Gate(PrivacyLedger):
    def charge(self, label: str, **terms: Any) -> int:
        super().charge(label, **terms)
        raise PaymentIsNext(label, terms)


def payment_gate() -> PrivacyLedger:
    """Make a ledger that ends a fit with `PaymentIsNext` where it would be charged."""
    return Rehearsal().gate(None, None)


class Rehearsal:
    """Gates of several steps before their ledgers: dry copies, which are charged in place of them."""

    def __init__(self) -> None:
        self._books: dict[PrivacyLedger | None, Any] = {}

    def gate(self, estimator: object, ledger: PrivacyLedger | None) -> PrivacyLedger:
        """Make a gate for an estimator; where it has no ledger, one that admits all."""
        if ledger is not None:
            seeded = getattr(estimator, "random_state", None) is not None
            book = ledger._book
            _entries.require_noise(book.terms, book.store.path, type(estimator).__name__, simulated=seeded)
        if ledger not in self._books:
            endless = PrivacyLedger(epsilon=1e300, delta=1.0 - 2.0**-53, composition="basic", dry_run=True)
            self._books[ledger] = endless._book if ledger is None else ledger._book.dry_copy()
            self._books[ledger].store.forgotten = True  # whoever pays says that noise is simulated
        gate = object.__new__(_Gate)
        gate._bind(self._books[ledger], None if ledger is None else ledger._place._replace(note="", data=""))
        return gate
