"""Warnings at the caller's line."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: Frames of these packages are not the caller's.
_OURS = ("skprivate", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent")


class LargeDeltaWarning(UserWarning):
    """δ is at least one over the number of units: it may be spent on publishing one of them as it is."""


class LedgerUnitWarning(UserWarning):
    """A ledger took its unit of account from a release that protects less than a row."""


class TooFewUnitsWarning(UserWarning):
    """There are too few rows or users for the budget: what was released hardly depends on the data."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package and scikit-learn: the user's.

    Parameters
    ----------
    message : str
        Made from public numbers and released values only.
    category : type
        A subclass of Warning.

    Examples
    --------
    >>> import warnings
    >>> from skprivate.privacy import warn_caller
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_caller("too few users", UserWarning)
    >>> str(seen[0].message)
    'too few users'
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def unheard() -> Iterator[None]:
    """Show no warnings of code that sees private rows: they would say something about whoever has them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def warn_if_large(delta: float, n_units: int | None, unit: str, label: str = "") -> None:
    """Warn where δ is at least 1/n; ``n_units`` is None where that number is private, and nothing is said then."""
    if n_units is not None and delta * n_units >= 1:
        who = f"{label}: " if label else ""
        warn_caller(
            f"{who}delta must be far below 1/n to protect each {unit}, got delta = {delta:g} with n = {n_units}: a "
            f"mechanism that publishes one {unit} picked at random as it is would be allowed. Use a delta below "
            f"1/n^1.1 = {n_units**-1.1:.1g}.",
            LargeDeltaWarning,
        )


def warn_if_too_few(n_units: float | None, needed: float, unit: str, name: str, n_columns: int) -> None:
    """Warn if fewer units than ``needed`` are there, by a public number or a released one; None says nothing."""
    if n_units is not None and n_units < needed:
        found = f"{'about ' if isinstance(n_units, float) else ''}{round(n_units)} {unit}s"
        warn_caller(
            f"{found} are too few: {name} needs about {math.ceil(needed)} for {n_columns} column(s) at this budget, "
            "and what it released hardly depends on the data. Raise epsilon, take fewer columns, or pass public bounds "
            "(bounds=).",
            TooFewUnitsWarning,
        )
