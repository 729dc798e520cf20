"""A ledger's journal and what it adds up to: every change is one checked transaction."""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from skprivate._messages import must_be, positive
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._events import PrivacyEvent
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy.ledger._entries import RESERVATION, LedgerEntry, Terms, now, require_noise
from skprivate.privacy.ledger._prices import (
    NOTHING,
    Account,
    Price,
    Rule,
    Totals,
    conversion,
    converted,
    stays_apart,
)
from skprivate.privacy.ledger._store import (
    CHECKPOINT_EVERY,
    DamagedLedgerError,
    FileJournal,
    FileStore,
    MemoryJournal,
    MemoryStore,
    Record,
    follow,
    is_checkpoint,
    record,
)
from skprivate.privacy.search._stopping import _MECHANISM

#: The ledger itself, a reservation, or one of the disjoint parts of a reservation.
Pot = int | tuple[int, int] | None


class LedgerState:
    """Terms, entries and totals after some records.

    Attributes
    ----------
    terms : Terms
    rule : Rule
    unit, adjacency : str or None
        The unit of account; None until the first release sets it.
    sums_only : bool
        Whether the first release has made the ledger "basic".
    count : int
        How many entries there are.
    entries : dict of int to LedgerEntry
        Those seen: all of them, or of those before the checkpoint that the fold began with only the open reservations.
    complete : bool
        Whether all entries were seen.
    totals : dict of (int, (int, int) or None) to Totals
        Of the ledger itself (None) and of what each reservation, or each part of one, has paid for.
    last : Record or None
        The last record seen.
    """

    def __init__(self) -> None:
        self.last: Record | None = None
        self.whole = self.complete = True
        self.sums_only = False
        self.count = 0
        self.entries: dict[int, LedgerEntry] = {}
        self.totals: dict[Pot, Totals] = {None: Totals()}

    def apply(self, found: Record) -> None:
        """Take in the next record."""
        self.whole = False  # who is interrupted in here must begin anew
        try:
            self._apply(found)
        except DamagedLedgerError:
            raise
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            raise _damaged(found.number, f"says nothing that a ledger says ({error!r})") from error
        self.last = found
        self.whole = True

    def _apply(self, found: Record) -> None:
        content = json.loads(found.text)
        kind = content.pop("kind")
        if is_checkpoint(found.number) != (kind == "checkpoint") or (found.number == 0) != (kind == "terms"):
            raise _damaged(found.number, f"must not be of the kind {kind!r}")
        if kind == "terms":
            self._begin(Terms(**content))
        elif kind == "checkpoint":
            if found != record(self.last, self.checkpoint()):
                raise _damaged(
                    found.number, "is a checkpoint, but the records before it add up to something else"
                )
        elif kind == "open":
            self.unit, self.adjacency = content.pop("account")
            if content.pop("sums_only"):
                self._count_sums_only()
            self.count += 1
            self._enter(NOTHING, _entry({**content, "closed": None}))
        else:
            self._change(content)

    def _change(self, content: dict[str, Any]) -> None:
        before, reservation = Price(*content.pop("before")), content.pop("reservation")
        parts = tuple(content.pop("parts"))
        old = self.entries.get(content["id"])
        if old is not None:
            if (old.price, old.reservation, old.parts) != (before, reservation, parts):
                raise ValueError("the price before is another")
            self._enter(before, replace(old, **{**content, "events": tuple(content["events"])}))
        elif not self.complete and 0 < content["id"] <= self.count:  # an entry from before the checkpoint
            self._add(reservation, parts, before, Price(*(content[name] for name in Price._fields)))
        else:
            raise KeyError("no such entry")

    def _begin(self, terms: Terms) -> None:
        self.terms = terms
        self.unit, self.adjacency = terms.unit, terms.adjacency
        self.rule = Rule.of(terms.composition, terms.epsilon, terms.delta)

    def _count_sums_only(self) -> None:
        self.sums_only, self.rule = True, Rule.of("basic", self.terms.epsilon, self.terms.delta)

    def _enter(self, old: Price, entry: LedgerEntry) -> None:
        self.entries[entry.id] = entry
        self._add(entry.reservation, entry.parts, old, entry.price)

    def _add(self, reservation: int | None, parts: tuple[int, ...], old: Price, new: Price) -> None:
        for pot in _pots(reservation, parts):
            self.totals[pot] = self.totals.get(pot, Totals()).changed(old, new)

    def spent_of(self, reservation: int) -> Price:
        """What a reservation has paid for; of disjoint parts, the most that one has paid, for each kind of price."""
        spent = NOTHING
        for pot in _pots(reservation, self.entry(reservation).parts):
            if pot in self.totals:
                spent = self.totals[pot].price().no_lower_than(spent)
        return spent

    def holds(self, price: Price, reservation: int, parts: tuple[int, ...]) -> bool:
        """Whether a reservation still has room for a price, in those of its parts."""
        reserved = self.entry(reservation)
        pots = _pots(reservation, parts or reserved.parts)
        totals = [self.totals.get(pot, Totals()).changed(NOTHING, price) for pot in pots]
        return reserved.closed is None and all(total.within(reserved.price) for total in totals)

    def checkpoint(self) -> dict[str, Any]:
        """What a record says from which the fold can go on."""
        reserved = [entry for entry in self.entries.values() if entry.is_open_reservation]
        return {
            "kind": "checkpoint",
            "terms": self.terms._asdict(),
            "account": [self.unit, self.adjacency],
            "sums_only": self.sums_only,
            "count": self.count,
            "totals": _written(self.totals[None]),
            "reservations": [
                [asdict(e), [_written(self.totals.get(pot, Totals())) for pot in _pots(e.id, e.parts)]]
                for e in reserved
            ],
        }

    @classmethod
    def after(cls, found: Record, terms: Terms) -> LedgerState:
        """The state after a checkpoint; its seal must have been checked."""
        state = cls()
        try:
            content = json.loads(found.text)
            if content["kind"] != "checkpoint" or Terms(**content["terms"]) != terms:
                raise _damaged(found.number, "is no checkpoint of this ledger")
            state._begin(terms)
            state.unit, state.adjacency = content["account"]
            if content["sums_only"]:
                state._count_sums_only()
            state.count, state.totals = content["count"], {None: _read(content["totals"])}
            for said, totals in content["reservations"]:
                entry = _entry(said)
                state.entries[entry.id] = entry
                pots = _pots(entry.id, entry.parts)
                state.totals |= {pot: _read(total) for pot, total in zip(pots, totals, strict=True)}
        except DamagedLedgerError:
            raise
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            raise _damaged(found.number, f"says nothing that a ledger says ({error!r})") from error
        state.last, state.complete = found, False
        return state

    def account(self, unit: str, adjacency: str) -> Account:
        """What the ledger counts for, where a release of that unit and adjacency would be the first."""
        return Account(
            self.unit or unit,
            self.adjacency or adjacency,
            self.terms.rows_per_user,
            self.terms.public_features,
        )

    def require_room(
        self,
        label: str,
        new: Price,
        old: LedgerEntry | None,
        reservation: int | None,
        parts: tuple[int, ...] = (),
    ) -> bool:
        """Whether the ledger must from now on count sums only; an error where the price does not fit."""
        before = NOTHING if old is None else old.price
        totals = [self.totals.get(pot, Totals()).changed(before, new) for pot in _pots(reservation, parts)]
        total = totals[0]
        sums = Rule.of("basic", self.terms.epsilon, self.terms.delta)
        if reservation is not None:
            reserved = self.entry(reservation)
            if reserved.closed is not None:
                raise ValueError(f"reservation {reservation} was closed at {reserved.closed}.")
            if all(one.within(reserved.price) for one in totals):
                return False
            budget, left = str(reserved.price), reserved.price
            kind = f"the reservation {reservation}"
        else:
            if self.rule.fits(total):
                return False
            if not self.count and self.terms.composition == "filter" and sums.fits(total):
                # The first release decides for a ledger that admits what either filter admits: no result is seen yet.
                return True
            budget = f"epsilon={self.terms.epsilon:g}, delta={self.terms.delta:g}"
            left = self.rule.remaining(self.totals[None])
            kind = "this ledger"
        charged = f" ({before} of it was charged already)" if old is not None else ""
        hint = (
            " Plain sums would admit it: PrivacyLedger(composition='basic')."
            if reservation is None and self.terms.composition != "basic" and sums.fits(total)
            else " With composition='zcdp' a release that needs δ must have a ρ (rho=)."
            if self.rule.sum_delta is None and new.concentrated[1] > 0
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
        """An entry by its number."""
        found = self.entries.get(number)
        if found is None:
            raise ValueError(must_be("entry", "the number of an entry of this ledger", number))
        return found

    def open_entry(self, number: Any) -> LedgerEntry:
        """An entry that is still open."""
        found = self.entry(number)
        if found.closed is not None:
            raise ValueError(
                f"entry={number!r}: this release was closed at {found.closed} and draws no more."
            )
        return found


def _damaged(number: int, why: str) -> DamagedLedgerError:
    return DamagedLedgerError(
        f"The privacy ledger is damaged: record {number} {why}. What was spent is not known for certain, so nothing is "
        "released."
    )


def _written(totals: Totals) -> list[str]:
    return [str(total) for total in totals]


def _read(totals: list[str]) -> Totals:
    return Totals(*map(Decimal, totals))


def _pots(reservation: int | None, parts: tuple[int, ...]) -> list[Pot]:
    """The sums that a release is added to: one, or those of all parts of a reservation that it sees."""
    return [reservation] if reservation is None or not parts else [(reservation, part) for part in parts]


def _entry(content: dict[str, Any]) -> LedgerEntry:
    return LedgerEntry(**{**content, "events": tuple(content["events"]), "parts": tuple(content["parts"])})


Events = Sequence[dict[str, Any]]
Journal = FileJournal | MemoryJournal


class Book:
    """The records of one ledger as one process sees them.

    Parameters
    ----------
    store : FileStore or MemoryStore
    seen : Record, optional
        A record that must be among them.
    """

    def __init__(self, store: FileStore | MemoryStore, seen: Record | None = None) -> None:
        self.store = store
        self._seen, self._wary = seen, False
        self.state = LedgerState()
        # One for each process: a fork may copy a lock that a thread of the parent holds.
        self._locks: dict[int, Any] = {}
        with self.transaction(write=False) as (_, state):
            self.terms = state.terms  # also while another thread begins to read anew

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.store, MemoryStore):
            raise TypeError(
                "A PrivacyLedger without a path lives in the memory of one process and cannot be "
                "pickled, which joblib does to reach its worker processes. Give it a path, "
                "PrivacyLedger('study.ledger', …), so that all processes share one budget; or set the "
                "estimator's ledger=None before saving it."
            )
        return LazyBook, (self.store, self._newest())

    def _newest(self) -> Record | None:
        """The newest record that was seen, also where a reading was begun anew and broke off."""
        last, seen = self.state.last, self._seen
        return seen if last is None or (seen is not None and seen.number > last.number) else last

    @contextmanager
    def transaction(
        self, *, write: bool, complete: bool = False, entry: int | None = None
    ) -> Iterator[tuple[Journal, LedgerState]]:
        """The journal and the state after all of its records; what is written counts when it is on the disk.

        Parameters
        ----------
        write : bool
        complete : bool, default=False
            Whether all records must have been read and checked, and not only those since a checkpoint.
        entry : int, optional
            An entry that must be known, if it exists.
        """
        with self._locks.setdefault(os.getpid(), threading.RLock()):
            with self.store.transaction(write=write) as journal:
                self._read(journal, complete)
                if entry is not None and entry not in self.state.entries and not self.state.complete:
                    self._read(journal, complete=True)
                yield journal, self.state
            for written in journal.written:
                self.state.apply(written)

    def _read(self, journal: Journal, complete: bool) -> None:
        complete = complete or self._wary
        if not self.state.whole or (complete and not self.state.complete):
            self._wary = complete  # until all is read and found whole, no checkpoint is trusted
            self._seen, self.state = self._newest(), LedgerState()
        where = repr(self.store.path)
        if self.state.last is None:
            self._begin(journal, complete, where)
        last = self.state.last
        records = journal.since(0 if last is None else last.number)
        if last is not None:
            if not records or records[0] != last:
                first = journal.at(0)
                if first and json.loads(first.text).get("identity") != self.state.terms.identity:
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
        for found in follow(last, records, where):
            self._compare(found, where)
            self.state.apply(found)
        if self._seen is not None and journal.last_number() < self._seen.number:
            raise DamagedLedgerError(
                f"The privacy ledger {where} is an older copy of the one this handle is for."
            )
        self._wary = False

    def _begin(self, journal: Journal, complete: bool, where: str) -> None:
        """Go to the last checkpoint, where there is one and not all records are wanted."""
        number = journal.last_number()
        number -= number % CHECKPOINT_EVERY
        if number <= 0 or complete:
            return
        # What is read of the records before it is checked as well: the terms, the seal that the checkpoint's own is
        # made from, and what this handle has seen. A record that is not read changes nothing.
        found = [journal.at(0), journal.at(number - 1), journal.at(number)]
        first, before, checkpoint = (Record(-1, "", "") if one is None else one for one in found)
        terms = LedgerState()
        for start, one in ((None, first), (before, checkpoint)):
            for checked in follow(start, [one], where):
                if start is None:
                    terms.apply(checked)
        if self._seen is not None and self._seen.number <= number:
            self._compare(journal.at(self._seen.number), where)
        self.state = LedgerState.after(checkpoint, terms.terms)

    def _compare(self, found: Record | None, where: str) -> None:
        """Compare a record with what this handle has seen in its place."""
        if (
            self._seen is not None
            and (found is None or found.number == self._seen.number)
            and found != self._seen
        ):
            raise DamagedLedgerError(
                f"The privacy ledger {where} is another one than this handle is for, or goes on from an older copy."
            )

    def charge(
        self,
        label: str,
        own: Price,
        *,
        unit: str,
        adjacency: str,
        events: Events,
        simulated: bool,
        adaptive: bool,
        reach: float | None,
        reservation: int | None,
        parts: tuple[int, ...],
        remarks: dict[str, Any],
    ) -> int:
        """Write a new entry; its number."""
        with self.transaction(write=True, entry=reservation) as (journal, state):
            require_noise(state.terms, self.store.path, label, simulated=simulated)
            account, price, text = _counted(state, label, own, unit, adjacency, events, adaptive, reach)
            return _open(
                journal,
                state,
                label,
                account,
                own,
                price,
                unit=unit,
                adjacency=adjacency,
                converted=text,
                events=list(events),
                simulated=bool(simulated),
                reservation=reservation,
                parts=_seen(state, reservation, parts, unit, adjacency, account),
                **remarks,
            )

    def reprice(
        self, entry: int, own: Price, events: Events, adaptive: bool, reach: float | None, *, close: bool
    ) -> None:
        """Change the price of an open entry, upwards or at its end downwards."""
        with self.transaction(write=True, entry=entry) as (journal, state):
            old = state.open_entry(entry)
            _, price, _ = _counted(state, old.label, own, old.unit, old.adjacency, events, adaptive, reach)
            if not close:
                if (
                    old.own_epsilon > own.epsilon
                    or old.own_delta > own.delta
                    or (not old.converted and old.price.exceeds(own))
                ):
                    charged = str(old.price) if not old.converted else f"epsilon={old.own_epsilon!r}"
                    raise ValueError(
                        f"entry {entry} ({old.label}) must cost at least what was charged for it ({charged}) until it "
                        f"is closed, got {own}: more draws cost no less."
                    )
                # In another unit, draws on the way are converted otherwise than a plan: by other numbers, not lower.
                price = price.no_lower_than(old.price)
                state.require_room(old.label, price, old, old.reservation, old.parts)
            elif price.exceeds(old.price):
                raise ValueError(
                    f"Entry {entry} ({old.label}) cannot close at {price}: only {old.price} was charged."
                )
            _change(journal, state, entry, price, own, list(events), close=close)

    def reserve(
        self,
        price: Price,
        unit: str | None,
        adjacency: str | None,
        remarks: dict[str, Any],
        *,
        parts: tuple[int, ...] = (),
    ) -> int:
        """Write a reservation, for disjoint parts if there are any; its number."""
        with self.transaction(write=True) as (journal, state):
            unit, adjacency = state.unit or unit, state.adjacency or adjacency
            if unit is None or adjacency is None:
                raise ValueError(
                    "a reservation needs to know for whom: create the ledger with unit= and adjacency=, or reserve "
                    "after the first release."
                )
            account = state.account(unit, adjacency)
            return _open(
                journal,
                state,
                RESERVATION,
                account,
                price,
                price,
                unit=account.unit,
                adjacency=account.adjacency,
                converted="",
                events=[],
                simulated=False,
                reservation=None,
                parts=parts,
                **remarks,
            )

    def settle(self, entry: int) -> None:
        """Close a reservation at what was spent of it."""
        with self.transaction(write=True, entry=entry) as (journal, state):
            spent = state.spent_of(entry)
            _change(journal, state, entry, spent, spent, [], close=True)


class LazyBook:
    """A book that another process handed on; its file is looked at only when it is used."""

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


def remarks(note: str, data: str, parameters: dict[str, str]) -> dict[str, Any]:
    """Who, where and what for."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this account
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    return {
        "note": note,
        "data": data,
        "parameters": parameters,
        "user": user,
        "host": platform.node(),
        "process_id": os.getpid(),
    }


def _counted(
    state: LedgerState,
    label: str,
    own: Price,
    unit: str,
    adjacency: str,
    events: Events,
    adaptive: bool,
    reach: float | None,
) -> tuple[Account, Price, str]:
    """The account that a release is counted for, its price there, and why."""
    metric = adjacency.startswith(f"{Adjacency.METRIC}:")
    natural = str(Adjacency.REPLACE_ONE) if metric and state.unit not in (None, unit) else adjacency
    account = state.account(unit, natural)
    if (unit, adjacency) == (account.unit, account.adjacency):
        return account, own, ""
    reasons, price, protected = [], own, f"{unit} ({adjacency})"
    if metric and reach is not None:
        reasons = [f"inputs that differ in one row are at most {reach:g} apart"]
        price = Price(own.epsilon * positive("reach", reach) * (1 + 2.0**-50), 0.0)
        unit, adjacency, events = str(PrivacyUnit.ROW), str(Adjacency.REPLACE_ONE), []
    try:
        steps, text = conversion(unit, adjacency, account)
        pairs = [
            (PrivacyEvent.from_dict({k: v for k, v in event.items() if k != "count"}), int(event["count"]))
            for event in (events if steps > 1 else ())
        ]
        price = Price.checked(*converted(price, pairs, steps, adaptive=adaptive))
    except ValueError as reason:
        raise ValueError(
            f"{label} protects a {protected}, but this ledger is a budget per {account.unit} "
            f"({account.adjacency}), and the release has no price there: {reason}. Use a second PrivacyLedger for it. "
            "Nothing was drawn or spent."
        ) from None
    return account, price, "; ".join([*reasons, text] if text else reasons)


def _seen(
    state: LedgerState,
    reservation: int | None,
    parts: tuple[int, ...],
    unit: str,
    adjacency: str,
    account: Account,
) -> tuple[int, ...]:
    """The parts of a reservation that a release is charged to: those it names, where that is enough."""
    every = () if reservation is None else state.entry(reservation).parts
    apart = stays_apart(unit, adjacency, account.unit, account.adjacency)
    return parts if parts and apart else every


def _open(
    journal: Journal,
    state: LedgerState,
    label: str,
    account: Account,
    own: Price,
    price: Price,
    **content: Any,
) -> int:
    sums_only = state.require_room(label, price, None, content["reservation"], content["parts"])
    entry = state.count + 1
    _append(
        journal,
        state,
        {
            "kind": "open",
            "account": [account.unit, account.adjacency],
            "sums_only": sums_only,
            "id": entry,
            "label": label,
            **price._asdict(),
            "own_epsilon": own.epsilon,
            "own_delta": own.delta,
            "opened": now(),
            **content,
        },
    )
    return entry


def _change(
    journal: Journal,
    state: LedgerState,
    entry: int,
    price: Price,
    own: Price,
    events: list[dict[str, Any]],
    *,
    close: bool,
) -> None:
    old = state.entry(entry)
    content = {
        "id": entry,
        # The sums go on from here without the entry itself, which may stand before a checkpoint.
        "before": list(old.price),
        "reservation": old.reservation,
        "parts": old.parts,
        **price._asdict(),
        "own_epsilon": own.epsilon,
        "own_delta": own.delta,
        "events": events,
    }
    if close:
        # How long a private search takes tells how often it evaluates, which is secret; a reservation may hold one.
        untimed = not events or any(event.get("mechanism") == _MECHANISM for event in events)
        content["closed"] = old.opened if untimed else now()
    _append(journal, state, {"kind": "close" if close else "charge", **content})


def _append(journal: Journal, state: LedgerState, content: dict[str, Any]) -> None:
    """Write a record, behind a checkpoint where one is due."""
    last = state.last
    if last is not None and is_checkpoint(last.number + 1):
        last = record(last, state.checkpoint())
        journal.append(last)
    journal.append(record(last, content))
