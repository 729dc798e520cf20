"""Numbers as people read them: bounds rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal

from skprivate._messages import rounded_up

__all__ = ["rounded_down", "small"]


def small(value: float, rounded: Callable[[float, int], str] = rounded_up) -> str:
    """A δ in three digits, as people write it."""
    shown = rounded(value, 3)
    mantissa, _, exponent = shown.partition("e")
    if not exponent:
        return shown
    power = str(int(exponent)).translate(_RAISED)
    return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def rounded_down(value: float, digits: int = 6) -> str:
    """A number in few digits, at most what it is."""
    if not math.isfinite(value):
        return str(value)
    shown = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(float(value))))
    return f"{float(shown):.{digits}g}"
