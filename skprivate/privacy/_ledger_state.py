"""What the records of a ledger add up to: a fold over the journal, from any point on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from skprivate.privacy._dialect import must_be
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._ledger_entries import LedgerEntry
from skprivate.privacy._ledger_journal import Record
from skprivate.privacy._ledger_rules import NOTHING, Price, Rule, Totals
from skprivate.privacy._ledger_terms import Terms
from skprivate.privacy._ledger_units import Account

Pot = int | tuple[int, int] | None


class LedgerState:
    """Terms, entries and totals after some records.

    Attributes
    ----------
    terms : Terms
    rule : Rule
    unit, adjacency : str or None
        The unit of account; None until the first release sets it.
    entries : dict of int to LedgerEntry
    totals : dict of (int, (int, int) or None) to Totals
        Of the ledger itself (None) and of what each reservation, or each part of one, has paid for.
    last : Record or None
        The last record seen.
    """

    def __init__(self) -> None:
        self.last: Record | None = None
        self.whole = True
        self.entries: dict[int, LedgerEntry] = {}
        self.totals: dict[Pot, Totals] = {None: Totals()}

    def apply(self, record: Record) -> None:
        """Take in the next record."""
        self.whole = False  # who is interrupted in here must begin anew
        content = json.loads(record.text)
        kind = content.pop("kind")
        if kind == "terms":
            self.terms = Terms(**content)
            self.unit, self.adjacency = self.terms.unit, self.terms.adjacency
            self.rule = Rule.of(self.terms.composition, self.terms.epsilon, self.terms.delta)
        elif kind == "open":
            self.unit, self.adjacency = content.pop("account")
            if content.pop("sums_only"):
                self.rule = Rule.of("basic", self.terms.epsilon, self.terms.delta)
            content["parts"] = tuple(content.get("parts", ()))
            self._enter(
                NOTHING, LedgerEntry(**{**content, "events": tuple(content["events"]), "closed": None})
            )
        else:
            old = self.entries[content["id"]]
            self._enter(old.price, replace(old, **{**content, "events": tuple(content["events"])}))
        self.last = record
        self.whole = True

    def _enter(self, old: Price, entry: LedgerEntry) -> None:
        self.entries[entry.id] = entry
        for pot in self._pots(entry.reservation, entry.parts):
            self.totals[pot] = self.totals.get(pot, Totals()).changed(old, entry.price)

    def _pots(self, reservation: int | None, parts: tuple[int, ...]) -> list[Pot]:
        """The sums that a release is added to: one, or those of all parts that it sees."""
        if reservation is None or not self.entry(reservation).parts:
            return [reservation]
        return [(reservation, part) for part in parts]

    def spent_of(self, reservation: int) -> Price:
        """What a reservation has paid for; of disjoint parts, the most that one has paid, for each kind of price."""
        spent = NOTHING
        for pot in self._pots(reservation, self.entry(reservation).parts):
            if pot in self.totals:
                spent = self.totals[pot].price().no_lower_than(spent)
        return spent

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
        pots = self._pots(reservation, parts)
        totals = [self.totals.get(pot, Totals()).changed(before, new) for pot in pots]
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
            if not self.entries and self.terms.composition == "filter" and sums.fits(total):
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
