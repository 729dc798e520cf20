"""A warning that public numbers alone decide."""

from __future__ import annotations

import math

from skprivate.privacy import warn_caller


class TooFewUnitsWarning(UserWarning):
    """There are too few rows or users for the budget: what was released hardly depends on the data."""


def warn_if_too_few(n_units: int | None, needed: float, unit: str, name: str, n_columns: int) -> None:
    """Warn if a public number of units is below what the mechanism needs to find a column at all.

    Parameters
    ----------
    n_units : int or None
        None if it is not public; nothing is said then.
    needed : float
    unit, name : str
        "row" or "user"; the estimator.
    n_columns : int
    """
    if n_units is not None and n_units < needed:
        warn_caller(
            f"{n_units} {unit}s are too few: {name} needs about {math.ceil(needed)} for {n_columns} column(s) at this "
            "budget, and what it released hardly depends on the data. Raise epsilon, transform fewer columns, or "
            "pass public bounds.",
            TooFewUnitsWarning,
        )


def warn_that_columns_pass(n_units: int | None, unit: str, name: str, n_columns: int) -> None:
    """Warn that a public number of units was found too small to pay for anything."""
    warn_caller(
        f"{n_units} {unit}s are too few for knots of {n_columns} column(s) at this budget: {name} hands them on as "
        "they are and spends nothing. Raise epsilon, transform fewer columns, or set n_knots.",
        TooFewUnitsWarning,
    )
