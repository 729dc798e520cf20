"""What the records of a ledger add up to: a fold over the journal, from its beginning or from a checkpoint on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from skprivate.privacy._dialect import must_be
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._ledger_entries import LedgerEntry
from skprivate.privacy._ledger_journal import DamagedLedgerError, Record, is_checkpoint, record
from skprivate.privacy._ledger_rules import NOTHING, Price, Rule, Totals
from skprivate.privacy._ledger_terms import Terms
from skprivate.privacy._ledger_units import Account

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
