"""Parts of a budget that are set aside: for several releases, or for releases that see different units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

from skprivate.privacy._dialect import must_be
from skprivate.privacy._ledger_book import remarks
from skprivate.privacy._ledger_quote import Quote
from skprivate.privacy._ledger_rules import Price

if TYPE_CHECKING:
    from skprivate.privacy._ledger import PrivacyLedger


class DisjointParts:
    """Handles to a ledger for releases that see some parts of the units only; made by `PrivacyLedger.parallel`.

    Parameters
    ----------
    n_parts : int
        How many there are.
    handle : callable
        Makes a handle for the parts it is given.
    """

    def __init__(self, n_parts: int, handle: Callable[[tuple[int, ...]], PrivacyLedger]) -> None:
        self.n_parts = n_parts
        self._handle = handle

    def only(self, part: int) -> PrivacyLedger:
        """For releases that see the units of one part: a model of one fold, or a score on one.

        Parameters
        ----------
        part : int
            From 0.

        Returns
        -------
        ledger : PrivacyLedger
        """
        return self._handle((self._checked(part),))

    def without(self, part: int) -> PrivacyLedger:
        """For releases that see all units but those of one part: a fit of a cross-validation.

        Parameters
        ----------
        part : int
            From 0.

        Returns
        -------
        ledger : PrivacyLedger
        """
        out = self._checked(part)
        return self._handle(tuple(one for one in range(self.n_parts) if one != out))

    def _checked(self, part: Any) -> int:
        whole = isinstance(part, Integral) and not isinstance(part, bool)
        if not (whole and 0 <= int(part) < self.n_parts):
            raise ValueError(must_be("part", f"an integer from 0 to {self.n_parts - 1}", part))
        return int(part)


class Reserves:
    """The side of a `PrivacyLedger` that divides it."""

    _book: Any
    _reservation: int | None
    _note: str
    _data: str
    _part: Callable[..., PrivacyLedger]

    @contextmanager
    def reserve(
        self, epsilon: float | Quote, delta: float = 0.0, *, rho: float | None = None, rho_delta: float = 0.0
    ) -> Iterator[PrivacyLedger]:
        """Set a part of the budget aside for several releases: all of them, or none.

        Parameters
        ----------
        epsilon, delta : float
            Most that the releases may cost together, as plain sums; or, in place of all numbers, what `quote` said.
        rho, rho_delta : float, optional
            Most that they may cost together in zero-concentrated privacy, and the δ of those that have no such price,
            which only sums admit. Without it, ρ is ε²/2 and the latter δ.

        Yields
        ------
        part : PrivacyLedger
            A handle for the ``ledger`` parameter of the estimators. Its releases are paid by the reservation, which
            costs what they cost when the block ends.

        Raises
        ------
        BudgetExceededError
            So much is not left; nothing was written.
        ValueError
            The ledger has no unit of account yet.

        Examples
        --------
        >>> from skprivate.privacy import PrivacyLedger, open_release
        >>> ledger = PrivacyLedger(epsilon=2.0, unit="row", adjacency="add-remove")
        >>> with ledger.reserve(1.5) as part:
        ...     with open_release(epsilon=1.0, unit="row", adjacency="add-remove", ledger=part) as release:
        ...         noisy = release.laplace(0.5, sensitivity=1.0, epsilon=1.0)
        >>> ledger.remaining
        (1.0, 0.0)
        """
        if self._reservation is not None:
            raise ValueError("a reserved part of a ledger cannot be divided again; reserve from the whole.")
        unit = adjacency = None
        if isinstance(epsilon, Quote):
            price, unit, adjacency = epsilon.price, epsilon.unit, epsilon.adjacency
        else:
            price = Price.checked(epsilon, delta, rho, rho_delta)
        entry = self._book.reserve(price, unit, adjacency, remarks(self._note, self._data, {}))
        try:
            yield self._part(entry)
        finally:
            self._book.settle(entry)

    @contextmanager
    def parallel(
        self,
        epsilon: float | Quote,
        delta: float = 0.0,
        *,
        rho: float | None = None,
        rho_delta: float = 0.0,
        n_parts: int,
        because: str,
    ) -> Iterator[DisjointParts]:
        """Set a part of the budget aside for releases that see different units: nobody pays for what they are not in.

        Every unit is in one of ``n_parts`` parts, and every release says which parts it sees. What is charged is the
        most that any part pays: of K fits that leave out one fold each, those K − 1 that see the fold; of one model
        for each fold, one.

        `skprivate.model_selection.fit_folds` deals the data itself. Here you deal them, and the ledger cannot look:
        the entry keeps your reason.

        Parameters
        ----------
        epsilon, delta, rho, rho_delta : float
            Most that the releases may cost the units of any one part, as in `reserve`.
        n_parts : int
            Number of parts, at least 2.
        because : str
            Why a unit's part depends on that unit alone and on public numbers, and why no release sees, or depends on
            anything but released results of, parts that it does not name. Kept in the entry.

        Yields
        ------
        parts : DisjointParts
            ``parts.only(k)`` and ``parts.without(k)`` are handles for the ``ledger`` parameter of estimators.

        Raises
        ------
        BudgetExceededError
            So much is not left; nothing was written.
        ValueError
            The ledger has no unit of account yet, or there is no reason.

        Notes
        -----
        *Guarantee.* Let a unit u of part p be added or removed. Releases that do not see p have the same distribution
        given all earlier results, and the others are a sequence whose prices add up to what is charged for p: the
        filters hold for each part by itself, and the ledger counts the largest sum, for each of ε, δ and ρ. Under
        "replace-one" the same holds if the exchanged unit stays in its part, as where parts are dealt by a public
        identifier: that is an assumption, and ``because`` should say so. A release under "add-remove" in a ledger for
        "replace-one" is charged to all parts, since who replaces a unit may be in another one; so are releases for
        the whole data set, or for a distance.

        Examples
        --------
        >>> from skprivate.privacy import PrivacyLedger, open_release
        >>> ledger = PrivacyLedger(epsilon=2.0, unit="user", adjacency="add-remove")
        >>> with ledger.parallel(1.0, n_parts=3, because="dealt by a keyed hash of the user's name") as parts:
        ...     for k in range(3):
        ...         with open_release(
        ...             epsilon=0.5, unit="user", adjacency="add-remove", ledger=parts.without(k)
        ...         ) as release:
        ...             noisy = release.laplace(0.5, sensitivity=1.0, epsilon=0.5)
        >>> ledger.spent
        (1.0, 0.0)
        """
        if self._reservation is not None:
            raise ValueError("a reserved part of a ledger cannot be divided again; divide the whole.")
        if isinstance(n_parts, bool) or not isinstance(n_parts, Integral) or n_parts < 2:
            raise ValueError(must_be("n_parts", "an integer >= 2", n_parts))
        if not isinstance(because, str) or not because.strip():
            raise ValueError(must_be("because", "the reason why parts share no unit, in words", because))
        unit = adjacency = None
        if isinstance(epsilon, Quote):
            price, unit, adjacency = epsilon.price, epsilon.unit, epsilon.adjacency
        else:
            price = Price.checked(epsilon, delta, rho, rho_delta)
        said = remarks(self._note, self._data, {"disjoint parts": str(n_parts), "because": because})
        entry = self._book.reserve(price, unit, adjacency, said, parts=tuple(range(int(n_parts))))
        try:
            yield DisjointParts(int(n_parts), lambda parts: self._part(entry, parts))
        finally:
            self._book.settle(entry)
