"""What a release calls: charge, charge more, close."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skprivate.privacy._guarantee import PrivacyUnit
from skprivate.privacy._ledger_book import remarks
from skprivate.privacy._ledger_rules import Price
from skprivate.privacy._ledger_terms import checked_relation
from skprivate.privacy._warnings import LedgerUnitWarning, warn_caller

#: Units that leave a part of a row, or other rows, unprotected.
_PARTS_OF_ROWS = (str(PrivacyUnit.LABEL), str(PrivacyUnit.PRIVATE_ROW))


#: While a price is asked for: the ledger that alone is charged.
_ONLY: contextvars.ContextVar[str | None] = contextvars.ContextVar("only ledger", default=None)


@contextmanager
def charged_only_to(identity: str) -> Iterator[None]:
    """Refuse charges to all other ledgers while the block runs: who asks for a price pays nothing.

    A part of a model may hold a ledger where nobody finds it. Threads and processes that the block starts are not
    seen to.
    """
    token = _ONLY.set(identity)
    try:
        yield
    finally:
        _ONLY.reset(token)


class LedgerDoor:
    """The side of a `PrivacyLedger` that `open_release` uses."""

    _book: Any
    _reservation: int | None
    _note: str
    _data: str
    _parts: tuple[int, ...]
    identity: Any
    unit: Any
    dry_run: Any

    def charge(
        self,
        label: str,
        *,
        epsilon: float,
        delta: float,
        rho: float | None,
        unit: str,
        adjacency: str,
        events: list[dict[str, Any]],
        simulated: bool,
        adaptive: bool = False,
        reach: float | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> int:
        """Charge the price of a release that is about to draw. `open_release` does it; few others need to.

        Parameters
        ----------
        label : str
            Who draws.
        epsilon, delta : float
            Price of what is about to be drawn, for the release's own unit.
        rho : float or None
            The same price in zero-concentrated differential privacy, if there is one.
        unit, adjacency : str
            Of the release. Where they are not the ledger's, the price is converted.
        events : list of dict
            What is about to be drawn, as plain values.
        simulated : bool
            Whether the noise comes from a seed.
        adaptive : bool, default=False
            Whether what is drawn depends on results, so that the composition of the events is no price.
        reach : float, optional
            Where ε is per unit of distance: the largest distance between inputs that differ in one row.
        parameters : mapping of str to str, optional
            Parameters of the estimator, to be shown.

        Returns
        -------
        entry : int
            Number of the new entry, for `increase` and `close_entry`.

        Raises
        ------
        BudgetExceededError
            The price does not fit; nothing was written.
        SimulatedNoiseError
            Seeded noise in a file for releases, or secure noise in a ledger for simulation.
        ValueError
            A release that has no price for the ledger's unit, or a price that is no price.
        """
        if (
            _ONLY.get() not in (None, self.identity) and not self.dry_run
        ):  # a dry run draws nothing in earnest
            raise ValueError(
                f"{label or 'a release'} would be charged to a ledger in earnest while its price is asked for: it is "
                "frozen, or its ledger stands where a quote does not find it. Fit it before, or give it no ledger. "
                "Nothing was drawn or spent."
            )
        if str(unit) in _PARTS_OF_ROWS and not self._book.store.forgotten and self.unit is None:
            warn_caller(
                f"{label or 'this release'} protects a {unit}, and the ledger has no unit yet: from now on it is a "
                f"budget per {unit}, which says nothing of whole rows or users. Say for whom a ledger is when it is "
                "created, PrivacyLedger(…, unit='user').",
                LedgerUnitWarning,
            )
        entry: int = self._book.charge(
            label,
            Price.checked(epsilon, delta, rho),
            unit=str(unit),  # members of enumerations are their values
            adjacency=checked_relation(str(adjacency)),
            events=events,
            simulated=simulated,
            adaptive=adaptive,
            reach=reach,
            reservation=self._reservation,
            parts=self._parts,
            remarks=remarks(self._note, self._data, dict(parameters or {})),
        )
        return entry

    def increase(
        self,
        entry: int,
        *,
        epsilon: float,
        delta: float,
        rho: float | None,
        events: list[dict[str, Any]],
        adaptive: bool = False,
        reach: float | None = None,
    ) -> None:
        """Charge an open release its new total price, before it draws more.

        Parameters
        ----------
        entry : int
            What `charge` returned.
        epsilon, delta, rho : float
            The new total, as in `charge`; no part of it is lower than before.
        events : list of dict
            All of its events, with those about to be drawn.
        adaptive, reach
            As in `charge`.

        Raises
        ------
        BudgetExceededError
            The new total does not fit; nothing was written.
        ValueError
            The entry does not exist or is closed, or the new total is lower.
        """
        price = Price.checked(epsilon, delta, rho)
        self._book.reprice(entry, price, events, adaptive, reach, close=False)

    def close_entry(
        self,
        entry: int,
        *,
        epsilon: float,
        delta: float,
        rho: float | None,
        events: list[dict[str, Any]],
        adaptive: bool = False,
        reach: float | None = None,
    ) -> None:
        """Close a release at its final price, lower than charged where less was drawn than reserved.

        Parameters
        ----------
        entry : int
            What `charge` returned.
        epsilon, delta, rho : float
            The final price, at most the charged one.
        events : list of dict
            What was drawn.
        adaptive, reach
            As in `charge`.

        Raises
        ------
        ValueError
            The entry does not exist or is closed, or the price is higher than the charged one.
        """
        price = Price.checked(epsilon, delta, rho)
        self._book.reprice(entry, price, events, adaptive, reach, close=True)

    def entry_name(self, entry: int) -> str:
        """The name of an entry outside its ledger.

        Parameters
        ----------
        entry : int
            What `charge` returned.

        Returns
        -------
        str
            The ledger's identity and the number.
        """
        return f"{self.identity}#{entry}"
