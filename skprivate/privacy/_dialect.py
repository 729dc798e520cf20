"""How errors and prices are worded: which parameter, what is allowed, what was got, what to do; never less."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Real
from typing import Any, TypeVar

Member = TypeVar("Member", bound=StrEnum)


def must_be(name: str, allowed: str, got: Any, advice: str = "") -> str:
    """A message; ``got`` is public: a parameter, a type or a shape, and never a value of private rows."""
    return f"{name} must be {allowed}, got {got!r}." + (f" {advice}" if advice else "")


def one_of(values: Iterable[Any]) -> str:
    """Allowed values in words."""
    return "one of " + ", ".join(repr(str(value)) for value in values)


def member(kind: type[Member], name: str, value: Any) -> Member:
    """A member of an enumeration by its value, or an error that lists them."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(must_be(name, one_of(kind), value)) from None


def number(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    """A finite float for which ``holds``, or an error that says what is allowed."""
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


def positive(name: str, value: Any) -> float:
    """A positive finite number."""
    return number(name, value, "a positive finite number", lambda result: result > 0)


def delta_number(value: Any, name: str = "delta") -> float:
    """A number in [0, 1)."""
    return number(name, value, "a number in [0, 1)", lambda result: 0 <= result < 1)


def rounded_up(value: float, digits: int = 6) -> str:
    """A price in few digits, at least what it is."""
    if not math.isfinite(value):
        return str(value)
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))
    # A subnormal float has fewer digits, and would print as less than it is.
    return f"{float(shown):.{digits}g}" if float(shown) > 1e-300 or shown == 0 else f"{shown:g}"
