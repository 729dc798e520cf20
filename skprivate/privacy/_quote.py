"""A price before the draw: fit a copy with simulated noise on a dry run of the ledger, and forget it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from skprivate.privacy._ledger_quote import Quote
from skprivate.privacy._ledger_rules import NOTHING

if TYPE_CHECKING:
    from skprivate.privacy._ledger import PrivacyLedger

#: Nothing is refused in a dry run.
_PLENTY, _MOST_DELTA = 1e300, 1.0 - 2.0**-53


def quote_of(ledger: PrivacyLedger, estimator: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> Quote:
    """What `PrivacyLedger.quote` returns."""
    terms = ledger._terms
    with tempfile.TemporaryDirectory() as folder:
        dry = type(ledger)(
            Path(folder) / "dry.ledger",  # a file, so that worker processes share it
            epsilon=_PLENTY,
            delta=_MOST_DELTA,
            unit=ledger.unit,
            adjacency=ledger.adjacency,
            composition="basic",
            rows_per_user=terms.rows_per_user,
            public_features=terms.public_features,
            dry_run=True,
        )
        dry._book.store.forgotten = (
            True  # nothing of the trial is seen: it runs where simulated noise is forbidden
        )
        trial = charged_to(clone(estimator), ledger, dry)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself will say it again
            trial.fit(X, y, **fit_params) if y is not None else trial.fit(X, **fit_params)
        entries = tuple(dry.entries())
        with dry._book.transaction(write=False) as (_, state):
            total = state.totals[None].price()
        unit, adjacency = dry.unit, dry.adjacency
    with ledger._book.transaction(write=False) as (_, state):
        then = state.totals[None]
        admitted = True
        for entry in entries:  # one by one: the first release of a ledger may decide how it adds up
            then = then.changed(NOTHING, entry.price)
        rule = state.rule
        if not state.entries and entries:
            first = type(then)().changed(NOTHING, entries[0].price)
            rule = rule if rule.fits(first) else rule.sums_only(terms.composition)
        admitted = rule.fits(then)
        spent = rule.spent(then)
    return Quote(
        epsilon=total.epsilon,
        delta=total.delta,
        rho=total.rho or 0.0,
        rho_delta=total.rho_delta,
        unit=unit,
        adjacency=adjacency,
        admitted=admitted,
        spent=spent,
        entries=entries,
    )


def charged_to(estimator: Any, ledger: PrivacyLedger, other: PrivacyLedger) -> Any:
    """The estimator, with ``other`` in the place of ``ledger`` and of no ledger."""
    found = estimator.get_params(deep=True)
    names = [name for name in found if name.split("__")[-1] == "ledger"]
    if others := [name for name in names if found[name] is not None and found[name] != ledger]:
        raise ValueError(
            f"{', '.join(others)} must be None or the ledger that is asked for a quote, got another one, which a trial "
            "would spend. Set it to None. Nothing was drawn or spent."
        )
    return estimator.set_params(**dict.fromkeys(names, other))
