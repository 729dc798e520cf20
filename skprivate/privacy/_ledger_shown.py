"""An estimator's parameters as its ledger keeps them: what was asked for, and nothing that could be data.

Parameters are public by contract, but nobody looks through them before they are written down for years, and people do
pass rows: as bounds, as first centres, as a list of categories. A few numbers and short strings are kept, since without
them an entry does not say what was done. Of everything that can hold rows only the kind and the size are, from
five numbers on and for every collection of text; a pair of bounds or the widths of layers has at most four.
"""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

_MOST_NUMBERS, _LONGEST_STRING, _LONGEST = 4, 40, 200


def shown_parameters(estimator: Any) -> dict[str, str]:
    """The parameters of an estimator but its ledger."""
    found = estimator.get_params(deep=False)
    return {name: shown(value) for name, value in found.items() if name != "ledger"}


def shown(value: Any) -> str:
    """One parameter.

    Parameters
    ----------
    value : object
        Numbers, strings and small collections of numbers are kept, estimators with their own parameters, functions and
        classes by name; of everything else only the type and size are.

    Returns
    -------
    str
        At most 200 characters.
    """
    text = _shown(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _shown(value: Any) -> str:
    kind = type(value).__name__
    if (number := _number(value)) is not None:
        return number
    if isinstance(value, str):
        # A plain string: the representation of a member of an enumeration is its own.
        return repr(str(value)) if len(value) <= _LONGEST_STRING else f"{kind} of length {len(value)}"
    if isinstance(shape := getattr(value, "shape", None), tuple):
        return f"{kind} of shape {shape}"
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(value.__qualname__)
    if hasattr(value, "get_params"):
        return f"{kind}({', '.join(f'{name}={text}' for name, text in shown_parameters(value).items())})"
    if isinstance(value, (tuple, list)) and 0 < len(value) <= _MOST_NUMBERS:
        numbers = [_number(item) for item in value]
        if None not in numbers:
            left, right = "()" if isinstance(value, tuple) else "[]"
            comma = "," if left == "(" and len(value) == 1 else ""
            return f"{left}{', '.join(map(str, numbers))}{comma}{right}"
    if isinstance(value, Collection):
        return f"{kind} of length {len(value)}"
    return kind


def _number(value: Any) -> str | None:
    """The text of a number, True, False or None; None where it is none of these."""
    if value is None or isinstance(value, bool):
        return str(value)
    if hasattr(value, "shape"):
        scalar = value.shape == () and hasattr(value, "item") and not hasattr(value, "__array_finalize__")
        return _number(value.item()) if scalar else None
    if isinstance(value, Integral):
        return f"{int(value)}" if abs(int(value)) < 10**40 else None
    return repr(float(value)) if isinstance(value, Real) else None
