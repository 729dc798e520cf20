"""A ledger's journal and what it adds up to: every change is one checked transaction."""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from skprivate.privacy._dialect import positive
from skprivate.privacy._events import PrivacyEvent
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy._ledger_entries import RESERVATION
from skprivate.privacy._ledger_journal import (
    CHECKPOINT_EVERY,
    DamagedLedgerError,
    Record,
    follow,
    is_checkpoint,
    record,
)
from skprivate.privacy._ledger_rules import Price
from skprivate.privacy._ledger_state import LedgerState
from skprivate.privacy._ledger_store import FileJournal, FileStore, MemoryJournal, MemoryStore
from skprivate.privacy._ledger_terms import now, require_noise
from skprivate.privacy._ledger_units import Account, conversion, converted, stays_apart
from skprivate.privacy._random_stopping import _MECHANISM

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
