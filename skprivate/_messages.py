"""Errors and warnings: their words, their classes, and the switch that forbids simulated noise."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

import skprivate

Member = TypeVar("Member", bound=StrEnum)
#: From here on a budget can be divided among draws, without a distance to divide it by.
LEAST_EPSILON = 1e-12
#: Frames of these packages are not the caller's.
_OURS = ("skprivate", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent", "numpy")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: Set to anything but "" or "0", this environment variable forbids simulated noise in the whole process.
FORBID_VARIABLE = "SKPRIVATE_FORBID_SIMULATED_NOISE"
#: The blocks that are running, in any thread: ensembles fit their members in others.
_FORBIDDING: list[object] = []
_KEY = "_skprivate_version"
#: Names of classes and texts of the warnings of the fit under way here, which a report shows; None outside of fits.
WARNED: ContextVar[list[tuple[str, str]] | None] = ContextVar("skprivate_warned", default=None)


def must_be(name: str, allowed: str, got: Any, advice: str = "") -> str:
    """Make a message; ``got`` is public: a parameter, a type or a shape, and never a value of private rows."""
    shown = type(got).__name__ if hasattr(got, "shape") else repr(got)  # a table in the wrong place
    return f"{name} must be {allowed}, got {shown}." + (f" {advice}" if advice else "")


def one_of(values: Iterable[Any]) -> str:
    """List allowed values in words."""
    return "one of " + ", ".join(repr(str(value)) for value in values)


def member(kind: type[Member], name: str, value: Any) -> Member:
    """Find a member of an enumeration by its value, or raise an error that lists them."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(must_be(name, one_of(kind), value)) from None


def number(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    """Convert to a finite float for which ``holds``, or raise an error that says what is allowed."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(must_be(name, allowed, value))
    result = float(value)
    if isinstance(value, Decimal | Fraction) and math.isfinite(result) and Fraction(repr(result)) > value:
        result = math.nextafter(result, -math.inf)  # a budget is never more than was stated
    if not (math.isfinite(result) and holds(result)):
        raise ValueError(must_be(name, allowed, value))
    return result + 0.0  # no negative zero


def at_least(name: str, value: Any, least: float) -> None:
    """Refuse numbers below ``least``; infinity is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(must_be(name, f"a number >= {least}", value))
    if not float(value) >= least:
        raise ValueError(must_be(name, f"at least {least}", value))


def whole_number(name: str, value: Any) -> None:
    """Refuse what is no integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(must_be(name, "an integer >= 1", type(value).__name__))
    at_least(name, value, 1)


def positive(name: str, value: Any) -> float:
    """Convert to a positive finite number."""
    return number(name, value, "a positive finite number", lambda result: result > 0)


def epsilon_number(value: Any) -> float:
    """Convert ε of an estimator to a number that can be divided."""
    allowed = f"a positive finite number, at least {LEAST_EPSILON:g}"
    return number("epsilon", value, allowed, lambda result: result >= LEAST_EPSILON)


def delta_number(value: Any, name: str = "delta") -> float:
    """Convert to a number in [0, 1)."""
    return number(name, value, "a number in [0, 1)", lambda result: 0 <= result < 1)


def rounded_up(value: float, digits: int = 6) -> str:
    """Show a cost in few digits, rounded up."""
    if not math.isfinite(value):
        return str(value)
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))
    # A subnormal float has fewer digits, and would print as less than it is.
    return f"{float(shown):.{digits}g}" if float(shown) > 1e-300 or shown == 0 else f"{shown:g}"


def small(value: float, rounded: Callable[[float, int], str] = rounded_up) -> str:
    """Show a δ in three digits, as people write it."""
    shown = rounded(value, 3)
    mantissa, _, exponent = shown.partition("e")
    if not exponent:
        return shown
    power = str(int(exponent)).translate(_RAISED)
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"


def rounded_down(value: float, digits: int = 6) -> str:
    """Show a number in few digits, rounded down."""
    if not math.isfinite(value):
        return str(value)
    shown = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(float(value))))
    return f"{float(shown):.{digits}g}"


def visible(text: str) -> str:
    """Replace control characters, such as marks of the direction of text, by their numbers."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def pyplot() -> Any:
    """Import matplotlib.pyplot, or raise an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'skprivate[plot]'.") from None
    return plt


class LargeDeltaWarning(UserWarning):
    """δ is at least one over the number of units: it may be spent on publishing one of them as it is."""


class LedgerUnitWarning(UserWarning):
    """A ledger took its unit of account from a release that protects less than a row."""


class UncountedScoresWarning(UserWarning):
    """Scores without noise of private models on rows held out: no guarantee and no ledger counts what they tell."""


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
    if (warned := WARNED.get()) is not None:
        warned.append((category.__name__, message))
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def unheard() -> Iterator[None]:
    """Suppress warnings of code that sees private rows: they would reveal something about them."""
    warned = WARNED.get()
    WARNED.set(None)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        WARNED.set(warned)


def warn_if_large(delta: float, n_units: int, unit: str, label: str = "") -> None:
    """Warn if δ is at least 1/n, where n is public."""
    if delta * n_units >= 1:
        who = f"{label}: " if label else ""
        warn_caller(
            f"{who}delta must be far below 1/n to protect each {unit}, got delta = {delta:g} with n = {n_units}: a "
            f"mechanism that publishes one {unit} picked at random as it is would be allowed. Use a delta below "
            f"1/n^1.1 = {n_units**-1.1:.1g}.",
            LargeDeltaWarning,
        )


def warn_if_too_few(
    n_units: float | None, needed: float, unit: str, name: str, n_columns: int, *, bounds_help: bool
) -> None:
    """Warn if fewer units than ``needed`` are there, by a public number or a released one; None does not warn."""
    if n_units is not None and n_units < needed:
        about = "about " if isinstance(n_units, float) else ""
        warn_caller(
            f"{about}{round(n_units)} {unit}s are too few: {name} needs about {math.ceil(needed)} for {n_columns} "
            "column(s) at this budget, and what it released hardly depends on the data. Raise epsilon, or take fewer "
            "columns" + (", or pass public bounds (bounds=)." if bounds_help else "."),
            TooFewUnitsWarning,
        )


class BudgetExceededError(ValueError):
    """A draw or a release does not fit in what is left of its budget.

    Raised before anything is drawn or written: the budget is as it was.

    Parameters
    ----------
    message : str
        What was asked, what is left, and what to do.
    required, remaining : tuple of (epsilon, delta), optional
        The cost that was refused and what was left, for programs that catch the error.

    Attributes
    ----------
    required, remaining : tuple of (float, float) or None
        As given.

    See Also
    --------
    PrivacyLedger : Keeps the budget.
    quote : Computes a cost before it is charged.
    """

    def __init__(
        self, message: str, *, required: tuple[float, float] | None = None, remaining: tuple[float, float] | None = None
    ) -> None:
        super().__init__(message)
        self.required = required
        self.remaining = remaining


class SimulatedNoiseWarning(UserWarning):
    """A seed was given: the release carries simulated noise and protects nobody.

    See Also
    --------
    forbid_simulated_noise : Makes an error of it.
    """


# Every release says it, not the first of a loop only; a filter that the user sets comes before this one.
warnings.filterwarnings("always", category=SimulatedNoiseWarning, append=True)


class SimulatedNoiseError(ValueError):
    """A seed was given where simulated noise is forbidden."""


@contextmanager
def forbid_simulated_noise() -> Iterator[None]:
    """Refuse every release with seeded noise while the block runs, in all threads of the process.

    Not in worker processes, which joblib starts for ``n_jobs`` other than 1: there, only the environment variable
    ``SKPRIVATE_FORBID_SIMULATED_NOISE=1`` does the same. It holds for a whole process and for the processes that it
    starts afterwards. Meta-estimators of scikit-learn (bagging, boosting) overwrite every parameter
    named ``random_state`` with an integer, which makes the noise of their members reproducible: with this switch such
    a fit fails before it draws.

    Raises
    ------
    SimulatedNoiseError
        From any fit inside the block that would draw seeded noise; nothing is drawn or charged.

    See Also
    --------
    SimulatedNoiseWarning : Warns of it by default.

    Examples
    --------
    >>> from skprivate.privacy import SimulatedNoiseError, forbid_simulated_noise, open_release
    >>> with forbid_simulated_noise():
    ...     try:
    ...         open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=0)
    ...     except SimulatedNoiseError:
    ...         print("refused")
    refused
    """
    block = object()
    _FORBIDDING.append(block)
    try:
        yield
    finally:
        _FORBIDDING.remove(block)


def announce_simulation(label: str, *, dry_run: bool = False) -> None:
    """Warn that a release draws seeded noise, or refuse it where that is forbidden; dry runs were asked for by name."""
    if _FORBIDDING or os.environ.get(FORBID_VARIABLE, "0") not in ("", "0"):
        raise SimulatedNoiseError(
            "random_state is not None, but simulated noise is forbidden here (forbid_simulated_noise, or the "
            f"environment variable {FORBID_VARIABLE}). Use random_state=None; scikit-learn's ensembles set the "
            "random_state of their members to integers."
            if not dry_run
            else f"{label}: ledger must be one for releases where simulated noise is forbidden (forbid_simulated_noise "
            f"or {FORBID_VARIABLE}), got one for dry runs. skprivate.inspection.quote computes costs here, too. "
            "Nothing was drawn or spent."
        )
    if dry_run:
        return
    who = f"{label}: " if label else ""
    warn_caller(
        f"{who}random_state is not None (set by you, or by a meta-estimator such as bagging): simulated noise that "
        "anyone can reproduce. Use random_state=None before anything is released.",
        SimulatedNoiseWarning,
    )


class OtherVersionWarning(UserWarning):
    """An object was unpickled that another version of skprivate had pickled: its guarantee may mean something else."""


class Versioned:
    """Mixin: pickles carry the version of this package, and warn where another version reads them."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), _KEY: skprivate.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {name: value for name, value in state.items() if name != _KEY}
        getattr(super(), "__setstate__", self.__dict__.update)(own)
        if (written := state.get(_KEY, "(unknown version)")) != skprivate.__version__:
            warn_caller(
                f"{type(self).__name__} was pickled by skprivate {written} and is read by {skprivate.__version__}: "
                "what it does and what its guarantee means may have changed. Fit it again, or read it with the version "
                "that wrote it.",
                OtherVersionWarning,
            )
