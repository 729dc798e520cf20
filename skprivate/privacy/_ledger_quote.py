"""What several releases will cost together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from skprivate.privacy._dialect import rounded_up
from skprivate.privacy._ledger_entries import LedgerEntry
from skprivate.privacy._ledger_rules import NOTHING, Price, Totals
from skprivate.privacy._ledger_units import stays_apart


@dataclass(frozen=True)
class Quote:
    """What a fit or a search will cost, made by `skprivate.inspection.quote`.

    Parameters
    ----------
    epsilon, delta : float
        Plain sums over all releases, in the ledger's unit of account.
    rho, rho_delta : float
        Sums in zero-concentrated privacy, and the δ of releases that have no such price.
    unit, adjacency : str or None
        The unit of account.
    admitted : bool
        Whether the ledger would admit all of them now.
    spent : tuple of (float, float)
        (ε, δ) that the ledger would count then.
    entries : tuple of LedgerEntry
        The releases one by one, as they would be entered.
    exact : bool
        Whether the price is known to the last bit. False where candidates of a search cost differently: which of them
        go on, or are fitted to all data, depends on their scores. The numbers are then those of the dearest, a bound.
    """

    epsilon: float
    delta: float
    rho: float
    rho_delta: float
    unit: str | None
    adjacency: str | None
    admitted: bool
    spent: tuple[float, float]
    entries: tuple[LedgerEntry, ...] = field(repr=False)
    exact: bool = True

    @property
    def price(self) -> Price:
        """What a reservation holds."""
        return Price(self.epsilon, self.delta, self.rho, self.rho_delta)

    def __str__(self) -> str:
        count = len(self.entries)
        then = (
            f"the ledger would then count epsilon {rounded_up(self.spent[0])}, delta {rounded_up(self.spent[1])}"
            if self.admitted
            else "more than the ledger has left"
        )
        most = "" if self.exact else "at most "
        return (
            f"{count} release{'s' * (count != 1)} for one {self.unit} ({self.adjacency}), {most}epsilon "
            f"{rounded_up(self.epsilon)} and delta {rounded_up(self.delta)} as a sum: {then}."
        )


def dearest_part(quotes: Sequence[Quote], *, left_out: bool) -> Quote:
    """What the units of one part pay at most, where each quoted fit sees one part, or all parts but one.

    Parameters
    ----------
    quotes : sequence of Quote
        The k-th for the fit that belongs to the k-th part.
    left_out : bool
        Whether that fit sees all parts but the k-th; else the k-th only.

    Returns
    -------
    Quote
        With the largest sum for each kind of price.
    """
    price = NOTHING
    for k in range(len(quotes)):
        total = Totals()
        for j, quote in enumerate(quotes):
            apart = all(
                stays_apart(entry.unit, entry.adjacency, quote.unit, quote.adjacency)
                for entry in quote.entries
            )
            if (j != k) == left_out or not apart:
                total = total.changed(NOTHING, quote.price)
        price = total.price().no_lower_than(price)
    return replace(
        quotes[0],
        epsilon=price.epsilon,
        delta=price.delta,
        rho=price.rho or 0.0,
        rho_delta=price.rho_delta,
        entries=tuple(entry for quote in quotes for entry in quote.entries),
        exact=all(quote.exact for quote in quotes),
    )
