"""A price before the draw: fit a copy with simulated noise on a dry run of the ledger, and forget it."""

from __future__ import annotations

import operator
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

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
        then, rule = state.totals[None], state.rule
        if not state.count and entries:  # the first release of a ledger may decide how it adds up
            first = then.changed(NOTHING, entries[0].price)
            rule = rule if rule.fits(first) else rule.sums_only(terms.composition)
        for entry in entries:
            then = then.changed(NOTHING, entry.price)
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


def charged_to(part: Any, ledger: PrivacyLedger, other: PrivacyLedger, name: str = "") -> Any:
    """The part, with every ledger that is missing or ``ledger`` exchanged for another one.

    Candidates of a search stand in lists and mappings, so these are looked through as well.

    Raises
    ------
    ValueError
        If a part has a third ledger, to which it would be charged in earnest.
    """
    if isinstance(part, type(ledger)):
        if part not in (ledger, other):
            raise ValueError(
                f"estimator must have no other ledger than the one that is asked, got {part!r} in {name!r}: a quote "
                "would be charged to it. Ask each ledger for its own part. Nothing was drawn or spent."
            )
        return other
    if part is None:
        return other if name.split("__")[-1] == "ledger" else None
    if isinstance(part, Mapping):
        changed = {key: charged_to(value, ledger, other, str(key)) for key, value in part.items()}
        same = all(changed[key] is part[key] for key in part)
        return part if same else changed
    if isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
        values = [charged_to(value, ledger, other, name) for value in part]
        return part if all(map(operator.is_, values, part)) else type(part)(values)
    if isinstance(part, np.ndarray) and part.dtype == object:
        for place, value in enumerate(part.flat):
            part.flat[place] = charged_to(value, ledger, other, name)
        return part
    if isinstance(part, (type, FrozenEstimator)) or not hasattr(part, "set_params"):
        return part  # what is frozen is fitted, and no copy
    found = part.get_params(deep=False)
    new = {key: charged_to(value, ledger, other, key) for key, value in found.items()}
    return part.set_params(**{key: value for key, value in new.items() if value is not found[key]})
