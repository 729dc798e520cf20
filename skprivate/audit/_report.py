"""The findings of an audit, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from skprivate.audit._audit_page import Shown

__all__ = ["AuditReport"]


@dataclass(frozen=True)
class AuditReport(Shown):
    """Both sides of an audit: what the fitted attack achieved, and what no adversary can exceed.

    Attributes
    ----------
    loss : str
        ``"squared"`` (S = ±1) or ``"log"`` (nats).
    n : int
        Audited rows.
    confidence : float
        Probability with which the bounds hold.
    assumption : str
        What was assumed of E[S | T], in words.
    empirical_loss, loss_lower_bound : float
        Loss of the attack on the audited rows; bound on every adversary's expected loss.
    empirical_accuracy : float
        Share of audited rows the attack guesses right; fitted on the same rows, so not itself a held-out
        figure.
    accuracy_upper_bound, advantage_upper_bound, mutual_information_upper_bound : float
        Bounds on every adversary.
    caveats : tuple of str
        Reservations.
    """

    loss: str
    n: int
    confidence: float
    assumption: str
    empirical_loss: float
    loss_lower_bound: float
    empirical_accuracy: float
    accuracy_upper_bound: float
    advantage_upper_bound: float
    mutual_information_upper_bound: float
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        unit = " nats" if self.loss == "log" else ""
        lines = [
            f"Audit of {self.n} pairs; what is said of every attack is proven, with confidence {self.confidence:g}",
            f"  assumption                    {self.assumption}",
            f"  this attack: {self.loss + ' loss':<17}{self.empirical_loss:.4f}{unit}",
            f"  this attack: accuracy         {self.empirical_accuracy:.4f} (on the rows it was fitted on)",
            f"  every attack: loss at least   {self.loss_lower_bound:.4f}{unit}",
            f"  every attack: accuracy up to  {self.accuracy_upper_bound:.4f}",
            f"  every attack: advantage up to {self.advantage_upper_bound:.4f}",
            f"  information I(S;T) up to      {self.mutual_information_upper_bound:.4f} nats",
        ]
        return "\n".join(lines + [f"  note: {caveat}" for caveat in self.caveats])
