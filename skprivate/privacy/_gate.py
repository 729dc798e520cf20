"""Fits up to their payment: what they would refuse, they refuse, and nothing is paid or drawn."""

from __future__ import annotations

from typing import Any

from skprivate.privacy._ledger import PrivacyLedger


class PaymentIsNext(BaseException):
    """Ends a fit that has found nothing wrong, with the price that it would pay."""

    def __init__(self, label: str, terms: dict[str, Any]) -> None:
        super().__init__(label)
        self.label, self.terms = label, terms


class _Gate(PrivacyLedger):
    def charge(self, label: str, **terms: Any) -> int:
        raise PaymentIsNext(label, terms)


def payment_gate() -> PrivacyLedger:
    """A ledger that ends a fit with `PaymentIsNext` where it would be charged."""
    gate = _Gate(epsilon=1e300, delta=1.0 - 2.0**-53, dry_run=True)
    gate._book.store.forgotten = True  # whoever pays says that noise is simulated
    return gate
