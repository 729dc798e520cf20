"""What several releases will cost together."""

from __future__ import annotations

from dataclasses import dataclass, field

from skprivate.privacy._dialect import rounded_up
from skprivate.privacy._ledger_entries import LedgerEntry
from skprivate.privacy._ledger_rules import Price


@dataclass(frozen=True)
class Quote:
    """What a fit or a search will cost, made by `PrivacyLedger.quote`.

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
