"""A ledger's journal and what it adds up to: every change is one checked transaction."""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from skprivate._messages import BudgetExceededError, must_be, positive
from skprivate.privacy import _events, _guarantee
from skprivate.privacy.ledger import _costs, _entries, _store
from skprivate.privacy.ledger._costs import Account, Cost, Rule, Totals
from skprivate.privacy.ledger._entries import RESERVATION, Charge, Claim, LedgerEntry, Origin, Terms
from skprivate.privacy.ledger._store import DamagedLedgerError, FileJournal, FileStore, MemoryStore, Record

#: The ledger itself, a reservation, or one of the disjoint parts of a reservation.
Scope = int | tuple[int, int] | None
#: Earlier versions wrote what the records add up to as every thousandth record; it is passed over.
_CHECKPOINT_EVERY = 1000
Events = Sequence[dict[str, Any]]
Journal = FileJournal | _store.MemoryJournal


class Spending(NamedTuple):
    """Cost of a release for its own unit, and what decides its cost for the ledger's."""

    own: Cost
    unit: str
    adjacency: str
    events: Events
    adaptive: bool = False
    diameter: float | None = None


class LedgerState:
    """Terms, entries and totals after some records; the unit of account is None until the first release sets it."""

    def __init__(self) -> None:
        self.last: Record | None = None
        self.complete = True
        self.entries: dict[int, LedgerEntry] = {}
        self.totals: dict[Scope, Totals] = {None: Totals()}

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.entries)

    def apply(self, record: Record) -> None:
        """Take in the next record."""
        self.complete = False  # who is interrupted in here must begin anew
        try:
            self._apply(record)
        except DamagedLedgerError:
            raise
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            raise _damaged(record.number, f"is no record of a ledger ({error!r})") from error
        self.last = record
        self.complete = True

    def _apply(self, record: Record) -> None:
        content = json.loads(record.text)
        # Earlier versions wrote the time of day as well.
        content |= {name: content[name][:10] for name in ("opened", "closed") if name in content}
        kind = content.pop("kind")
        if (record.number == 0) != (kind == "terms"):
            raise _damaged(record.number, f"must not be of the kind {kind!r}")
        if kind == "terms":
            self.terms = Terms.read(content)
            self.unit, self.adjacency = self.terms.account[:2]
            self.rule = self.rule_for(self.adjacency)
        elif kind == "open":
            self.unit, self.adjacency = content.pop("account")
            if content.pop("sums_only") or _is_per_distance(self.adjacency):
                self.rule = self._sums
            self._enter(_costs.NOTHING, LedgerEntry.read(content))
        elif kind != "checkpoint" or record.number % _CHECKPOINT_EVERY:
            self._change(content)

    def _change(self, content: dict[str, Any]) -> None:
        old = self.entries[content["id"]]
        parts = tuple(content["parts"])
        if (old.cost, old.reservation, old.parts) != (Cost(*content["before"]), content["reservation"], parts):
            raise ValueError("the cost before is another")
        cost = Cost(*(content[name] for name in Cost._fields))
        new = replace(
            old,
            claim=old.claim._replace(epsilon=content["own_epsilon"], delta=content["own_delta"]),
            charge=old.charge._replace(cost=cost),
            events=tuple(content["events"]),
            closed=content.get("closed", old.closed),
        )
        self._enter(old.cost, new)

    def _enter(self, old: Cost, entry: LedgerEntry) -> None:
        self.entries[entry.id] = entry
        for scope in _scopes(entry.reservation, entry.parts):
            self.totals[scope] = self.totals.get(scope, Totals()).changed(old, entry.cost)

    def spent_of(self, reservation: int) -> Cost:
        """Sum what a reservation has paid for; of disjoint parts, the most of each kind of cost that one has paid."""
        spent = _costs.NOTHING
        for scope in _scopes(reservation, self.entry(reservation).parts):
            if scope in self.totals:
                spent = self.totals[scope].cost().no_lower_than(spent)
        return spent

    def holds(self, cost: Cost, reservation: int, parts: tuple[int, ...]) -> bool:
        """Check that a reservation has enough left for a cost, in those of its parts."""
        reserved = self.entry(reservation)
        scopes = _scopes(reservation, parts or reserved.parts)
        totals = [self.totals.get(scope, Totals()).changed(_costs.NOTHING, cost) for scope in scopes]
        return reserved.closed is None and all(total.within(reserved.cost) for total in totals)

    @property
    def _sums(self) -> Rule:
        return Rule.of("basic", self.terms.epsilon, self.terms.delta)

    def rule_for(self, adjacency: str | None) -> Rule:
        """Return the filters in force once the account has this relation."""
        if self.count:
            return self.rule
        composition = "basic" if _is_per_distance(adjacency) else self.terms.composition
        return Rule.of(composition, self.terms.epsilon, self.terms.delta)

    def account(self, unit: str, adjacency: str) -> Account:
        """Return the account of the ledger; where it has none, that of a release of this unit and adjacency."""
        return self.terms.account._replace(unit=self.unit or unit, adjacency=self.adjacency or adjacency)

    def require_budget(
        self, label: str, charge: Charge, old: LedgerEntry | None = None, *, adjacency: str | None = None
    ) -> bool:
        """Refuse a cost that does not fit; true where the ledger must from now on count sums only."""
        rule, sums = self.rule_for(self.adjacency or adjacency), self._sums
        new, reservation = charge.cost, charge.reservation
        before = _costs.NOTHING if old is None else old.cost
        scopes = _scopes(reservation, charge.parts)
        totals = [self.totals.get(scope, Totals()).changed(before, new) for scope in scopes]
        total = totals[0]
        if reservation is not None:
            reserved = self.entry(reservation)
            if reserved.closed is not None:
                raise ValueError(f"reservation {reservation} is closed.")
            if all(one.within(reserved.cost) for one in totals):
                return False
            budget, left = str(reserved.cost), reserved.cost
            kind = f"the reservation {reservation}"
        else:
            if rule.fits(total):
                return False
            if not self.count and self.terms.composition == "filter" and sums.fits(total):
                # The first release decides for a ledger that admits what either filter admits: no result is seen yet.
                return True
            budget = f"epsilon={self.terms.epsilon:g}, delta={self.terms.delta:g}"
            left = rule.remaining(self.totals[None])
            kind = "this ledger"
        charged = f" ({before} of it was charged already)" if old is not None else ""
        hint = (
            " This ledger was made without delta, which the release needs: PrivacyLedger(epsilon=…, delta=…)."
            if reservation is None and self.terms.delta == 0 and new.delta > 0
            else " Plain sums would admit it: PrivacyLedger(composition='basic')."
            if reservation is None and self.terms.composition != "basic" and sums.fits(total)
            else " With composition='zcdp' a release that needs δ must have a ρ (rho=)."
            if rule.sum_delta is None and new.concentrated[1] > 0
            else ""
        )
        raise BudgetExceededError(
            f"{label} needs {new}{charged}, but {kind} has {left} left of {budget}. Nothing was drawn or spent. Ask "
            f"for no more than what is left, make fewer releases, or agree on a larger budget, in a new ledger, "
            f"before the data is used again.{hint}",
            required=new[:2],
            remaining=left[:2],
        )

    def entry(self, number: Any) -> LedgerEntry:
        """Find an entry by its number."""
        entry = self.entries.get(number)
        if entry is None:
            raise ValueError(must_be("entry", "the number of an entry of this ledger", number))
        return entry


def _damaged(number: int, why: str) -> DamagedLedgerError:
    return DamagedLedgerError(
        f"The privacy ledger is damaged: record {number} {why}. What was spent is not known for certain, so nothing is "
        "released."
    )


def _is_per_distance(adjacency: str | None) -> bool:
    """Check that ε is per unit of distance: at a distance d it is dε, but ρ is d²ρ, so that only sums of ε scale."""
    return adjacency is not None and adjacency.startswith(f"{_guarantee.Adjacency.METRIC}:")


def _scopes(reservation: int | None, parts: tuple[int, ...]) -> list[Scope]:
    """List the sums that a release is added to: one, or those of all parts of a reservation that it sees."""
    return [reservation] if reservation is None or not parts else [(reservation, part) for part in parts]


class Book:
    """The records of one ledger as one process sees them; ``seen`` is a record that must be among them."""

    def __init__(self, store: FileStore | MemoryStore, seen: Record | None = None) -> None:
        self.store = store
        self._seen = seen
        self.state = LedgerState()
        # One for each process: a fork may copy a lock that a thread of the parent holds.
        self._locks: dict[int, Any] = {}
        self._writing: int | None = None  # the process that writes
        with self.transaction(write=False) as (_, state):
            self.terms = state.terms  # also while another thread begins to read anew

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.store, MemoryStore):
            raise TypeError(
                "A PrivacyLedger without a path lives in the memory of one process and cannot be "
                "pickled, which joblib does for its worker processes. Give it a path, "
                "PrivacyLedger('study.ledger', …), so that all processes share one budget; or set the "
                "estimator's ledger=None before saving it."
            )
        return LazyBook, (self.store, self._newest())

    def _newest(self) -> Record | None:
        """Return the newest record that was seen, also where a reading was begun anew and broke off."""
        last, seen = self.state.last, self._seen
        return seen if last is None or (seen is not None and seen.number > last.number) else last

    def dry_copy(self) -> Book:
        """Copy all records into memory, for a dry run."""
        with self.transaction(write=False) as (journal, _):
            terms, *rest = [json.loads(one.text) for one in journal.since(0)]
        records = [_store.record(None, terms | {"dry_run": True})]
        for content in rest:
            records.append(_store.record(records[-1], content))
        return Book(MemoryStore(*records))

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[tuple[Journal, LedgerState]]:
        """Open the journal, with the state after all of its records; what is written counts when it is on the disk."""
        process = os.getpid()
        with self._locks.setdefault(process, threading.RLock()):
            # The lock is this thread's, so that whoever writes already is what it has interrupted. A file has locks.
            if write and self._writing == process and self.store.path is None:
                raise RuntimeError(
                    "a privacy ledger cannot be charged by what interrupts a charge to it (a signal handler, a "
                    "finalizer): the budget would be looked at before the other cost is in it. Nothing was spent."
                )
            before = self._writing
            try:
                self._writing = process if write else before
                with self.store.transaction(write=write) as journal:
                    self._read(journal)
                    yield journal, self.state
                for written in journal.written:
                    last = self.state.last
                    if last is None or written.number > last.number:  # else what interrupted this has read it
                        self.state.apply(written)
            finally:
                self._writing = before

    def _read(self, journal: Journal) -> None:
        if not self.state.complete:
            self._seen, self.state = self._newest(), LedgerState()
        where = repr(self.store.path)
        last = self.state.last
        records = journal.since(0 if last is None else last.number)
        if last is not None:
            if not records or records[0] != last:
                first = journal.since(0)
                if first and json.loads(first[0].text).get("identity") != self.state.terms.identity:
                    raise ValueError(
                        f"The file {where} now holds another privacy ledger than the one this handle is for."
                    )
                raise DamagedLedgerError(
                    f"The privacy ledger {where} has lost records that it had, or has others: it is an older copy, "
                    "goes on from one, was cut or changed. What was spent is not known for certain, so nothing is "
                    "released. Restore the newest file."
                )
            records = records[1:]
        elif not records:
            raise DamagedLedgerError(f"The privacy ledger {where} is damaged: it has no records.")
        seen = self._seen
        for record in _store.follow(last, records, where):
            if seen is not None and record.number == seen.number and record != seen:
                raise DamagedLedgerError(
                    f"The privacy ledger {where} is another one than this handle is for, or goes on from an older copy."
                )
            self.state.apply(record)
            last = record
        if seen is not None and (last is None or last.number < seen.number):
            raise DamagedLedgerError(f"The privacy ledger {where} is an older copy of the one this handle is for.")

    def charge(
        self,
        label: str,
        spending: Spending,
        *,
        simulated: bool,
        reservation: int | None,
        parts: tuple[int, ...],
        origin: Origin,
    ) -> int:
        """Write a new entry, and return its number."""
        with self.transaction(write=True) as (journal, state):
            _entries.require_noise(state.terms, self.store.path, label, simulated=simulated)
            account, cost, text = _counted(state, label, spending)
            # Only the parts that it sees are charged, where that is enough.
            apart = _costs.stays_apart(spending.unit, spending.adjacency, account.unit, account.adjacency)
            if not (parts and apart):
                parts = () if reservation is None else state.entry(reservation).parts
            charge = Charge(cost, text, reservation, parts)
            return _open(journal, state, label, account, spending, charge, simulated=simulated, origin=origin)

    def change_cost(
        self,
        entry: int,
        *,
        close: bool,
        epsilon: float,
        delta: float,
        rho: float | None,
        events: Events,
        adaptive: bool = False,
        diameter: float | None = None,
    ) -> None:
        """Change the cost of an open entry, upwards or at its end downwards."""
        own = Cost.checked(epsilon, delta, rho)
        with self.transaction(write=True) as (journal, state):
            old = state.entry(entry)
            if old.closed is not None:
                raise ValueError(f"entry={entry!r}: this release is closed and draws no more.")
            if old.label == RESERVATION and not old.events:
                raise ValueError(must_be("entry", "the number of a release", entry, "It is a reservation."))
            spending = Spending(own, old.unit, old.adjacency, events, adaptive, diameter)
            _, cost, _ = _counted(state, old.label, spending)
            if not close:
                if (
                    old.own_epsilon > own.epsilon
                    or old.own_delta > own.delta
                    or (not old.converted and old.cost.exceeds(own))
                ):
                    charged = str(old.cost) if not old.converted else f"epsilon={old.own_epsilon!r}"
                    raise ValueError(
                        f"entry {entry} ({old.label}) must cost at least what was charged for it ({charged}) until it "
                        f"is closed, got {own}: more draws cost no less."
                    )
                # In another unit, draws on the way are converted otherwise than a plan: by other numbers, not lower.
                cost = cost.no_lower_than(old.cost)
                state.require_budget(old.label, old.charge._replace(cost=cost), old)
            elif cost.exceeds(old.cost):
                raise ValueError(f"Entry {entry} ({old.label}) cannot close at {cost}: only {old.cost} was charged.")
            _change(journal, state, old, cost, spending, close=close)

    def reserve(
        self, cost: Cost, unit: str | None, adjacency: str | None, parts: tuple[int, ...], origin: Origin
    ) -> int:
        """Write a reservation, for disjoint parts if there are any, and return its number."""
        with self.transaction(write=True) as (journal, state):
            unit, adjacency = state.unit or unit, state.adjacency or adjacency
            if unit is None or adjacency is None:
                raise ValueError(
                    "a reservation needs to know for whom: create the ledger with unit= and adjacency=, or reserve "
                    "after the first release."
                )
            account, spending = state.account(unit, adjacency), Spending(cost, unit, adjacency, [])
            charge = Charge(cost, "", None, parts)
            return _open(journal, state, RESERVATION, account, spending, charge, simulated=False, origin=origin)

    def settle(self, entry: int) -> None:
        """Close a reservation at what was spent of it."""
        with self.transaction(write=True) as (journal, state):
            old, spent = state.entry(entry), state.spent_of(entry)
            _change(journal, state, old, spent, Spending(spent, old.unit, old.adjacency, []), close=True)


class LazyBook:
    """A book that another process handed on; its file is read only when it is used."""

    def __init__(self, store: FileStore, seen: Record | None) -> None:
        self.store = store
        self._arguments = (store, seen)
        self._book: Book | None = None
        self._making: dict[int, threading.Lock] = {}  # one for each process, as there

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._making.setdefault(os.getpid(), threading.Lock()):
            if self._book is None:
                self._book = Book(*self._arguments)
        return getattr(self._book, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyBook, self._arguments if self._book is None else (self.store, self._book._newest())


def origin(note: str, data: str, parameters: dict[str, str]) -> Origin:
    """Describe where and for what a release is made."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this account
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    return Origin(note, data, parameters, user, platform.node(), os.getpid())


def _counted(state: LedgerState, label: str, spending: Spending) -> tuple[Account, Cost, str]:
    """Find the account that a release is counted for, its cost there, and the reason."""
    cost, unit, adjacency, events, adaptive, diameter = spending
    metric = _is_per_distance(adjacency)
    natural = str(_guarantee.Adjacency.REPLACE_ONE) if metric and state.unit not in (None, unit) else adjacency
    account = state.account(unit, natural)
    if (unit, adjacency) == (account.unit, account.adjacency):
        return account, cost, ""
    reasons, protected = [], f"{unit} ({adjacency})"
    if metric and diameter is not None:
        reasons = [f"inputs that differ in one row are at most {diameter:g} apart"]
        cost = Cost(cost.epsilon * positive("diameter", diameter) * (1 + 2.0**-50), 0.0)
        unit, adjacency, events = str(_guarantee.PrivacyUnit.ROW), str(_guarantee.Adjacency.REPLACE_ONE), []
    try:
        steps, text = _costs.conversion(unit, adjacency, account)
        pairs = _events.events_of_plain(events) if steps > 1 else []
        cost = Cost.checked(*_costs.converted(cost, pairs, steps, adaptive=adaptive))
    except ValueError as reason:
        raise ValueError(
            f"{label} protects a {protected}, but this ledger is a budget per {account.unit} "
            f"({account.adjacency}), and the release has no cost there: {reason}. Use a second PrivacyLedger for it. "
            "Nothing was drawn or spent."
        ) from None
    return account, cost, "; ".join([*reasons, text] if text else reasons)


def _open(
    journal: Journal,
    state: LedgerState,
    label: str,
    account: Account,
    spending: Spending,
    charge: Charge,
    *,
    simulated: bool,
    origin: Origin,
) -> int:
    """Write a new entry, and return its number."""
    sums_only = state.require_budget(label, charge, adjacency=account.adjacency)
    entry = LedgerEntry(
        id=state.count + 1,
        label=label,
        claim=Claim(spending.unit, spending.adjacency, *spending.own[:2]),
        charge=charge,
        events=tuple(spending.events),
        opened=_entries.today(),
        closed=None,
        simulated=simulated,
        origin=origin,
    ).to_dict()
    del entry["closed"]
    kept = {"kind": "open", "account": [account.unit, account.adjacency], "sums_only": sums_only}
    journal.append(_store.record(state.last, {**kept, **entry}))
    return int(entry["id"])


def _change(
    journal: Journal, state: LedgerState, old: LedgerEntry, cost: Cost, spending: Spending, *, close: bool
) -> None:
    """Write a new cost of an entry."""
    content = {
        "kind": "close" if close else "charge",
        "id": old.id,
        # Whoever reads it compares these with the entry.
        "before": list(old.cost),
        "reservation": old.reservation,
        "parts": old.parts,
        **cost._asdict(),
        "own_epsilon": spending.own.epsilon,
        "own_delta": spending.own.delta,
        "events": list(spending.events),
    }
    if close:
        content["closed"] = old.opened
    journal.append(_store.record(state.last, content))
