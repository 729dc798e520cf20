"""Public schemas: what the columns of a table hold, as users say it or as types do; no entry is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from skprivate._validation import _arrays, _tables

#: What a schema may say of a column beside limits and a list of values.
WORDS = NUMBER, DATE, CATEGORY, DROP = ("number", "date", "category", "drop")
NOTHING_LEFT = 'schema must leave a column, got "drop" for all of them.'
_IN_WORDS = ", ".join(map(repr, WORDS))
_WORD_OF_KIND = {"numbers": NUMBER, **dict.fromkeys(_tables.TIME_KINDS - {"durations", "times of day"}, DATE)}
#: What to do with columns of other types, by their kinds.
_ADVICE = {
    "": "Convert first (pandas.to_numeric, pandas.to_datetime), or say what they hold.",
    "text": "Cut currency and the like beforehand: errors='coerce' makes a gap of '€1,200'.",
    "durations": "Make numbers of durations, in a public unit (.dt.total_seconds()).",
}


def read_schema(schema: Any) -> dict[Any, Any]:
    """Check what a schema says of each column: a tuple of limits, a list of values or a word."""
    if not isinstance(schema, Mapping) or not schema:
        raise TypeError(
            f"schema must map names of columns to limits (low, high), lists of values or one of {_IN_WORDS}, or be "
            f"None; got {type(schema).__name__}."
        )
    return {name: _read_entry(name, entry) for name, entry in schema.items()}


def _read_entry(name: object, entry: Any) -> Any:
    if isinstance(entry, str) and entry in WORDS:
        return entry
    spelled = isinstance(entry, Mapping) and len(entry) == 1
    kind, given = next(iter(entry.items())) if spelled else ("", entry)
    values = _tables.public_values(given) if kind in ("", "limits", "values") else None
    plain = list(map(_tables.plain_entry, values or ()))
    pair = len(plain) == 2 and all(value is None or _is_number(value) for value in plain)
    if kind == "limits" or (pair and not kind and isinstance(entry, tuple)):
        return _arrays.check_bounds({0: given}, 1, [name], parameter="limits")[0]
    if pair and not kind:
        raise ValueError(
            f"schema must say if the two numbers of {str(name)!r} are limits or values, got {entry!r}. Write the "
            f'tuple {tuple(plain)!r} or {{"limits": {plain!r}}} for limits, {{"values": {plain!r}}} for values.'
        )
    if isinstance(entry, tuple) and len(plain) == 2 and all(isinstance(v, date | np.datetime64) for v in plain):
        raise ValueError(
            f'schema must have "date" for {str(name)!r}, got limits {entry!r}. Dates need none; two dates that are '
            "values go in a list."
        )
    options = isinstance(entry, tuple) and any(isinstance(value, str) and value in WORDS for value in plain)
    if options or (spelled and kind in WORDS):
        raise ValueError(
            f"schema must have limits (low, high), a list of values or one of {_IN_WORDS} alone for {str(name)!r}, got "
            f"{entry!r}. A word takes no options here, neither as ('category', 50) nor as {{'category': 50}}; "
            "PrivateOneHotEncoder(max_categories=50) does. Values that are called so go in a list."
        )
    if not values or not _tables.all_differ(values):
        got = repr(entry) if isinstance(entry, str | tuple | Real | None) else type(entry).__name__
        raise ValueError(
            f"schema must have limits (low, high), a list of different values or one of {_IN_WORDS} for "
            f"{str(name)!r}, got {got}. Write list(...) for a set."
        )
    return values


def _is_number(value: object) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def type_words(X: Any) -> list[str]:
    """Find the word of a schema for the type of each column; other kinds as messages call them, or ""."""
    kinds, declared = _tables.column_kinds(X), _tables.declared_values(X)
    kinds = kinds * len(declared) if len(kinds) < len(declared) else kinds
    words = [_WORD_OF_KIND.get(kind or "", kind or "") for kind in kinds]
    return [word if values is None else CATEGORY for word, values in zip(words, declared, strict=True)]


def refuse_other_names(schema: Mapping[Any, Any], names: Mapping[Any, Any], *, every: bool) -> None:
    """Refuse a schema with columns that a table does not have, or, where it must say ``every`` one, without some."""
    more = [name for name in names if name not in schema] if every else []
    missing = [name for name in schema if name not in names]
    if more or missing:
        halves = [f'say what {_listed(more)} of X holds, or "drop" to leave it out'] * bool(more)
        halves += [f"have no {_listed(missing)}, which X does not have"] * bool(missing)
        raise ValueError(f"schema must {', and '.join(halves)}.")


def refuse_other_types(schema: Mapping[Any, Any], words: Mapping[Any, str]) -> None:
    """Refuse numbers and dates in a schema for columns whose types, as `type_words` has them, say otherwise."""
    others: dict[tuple[str, str], list[Any]] = {}
    for name, entry in schema.items():
        wanted, word = NUMBER if isinstance(entry, tuple) else entry, words[name]
        counts = word in (NUMBER, CATEGORY)  # booleans
        if word and ((wanted == DATE and word != DATE) or (wanted == NUMBER and not counts)):
            others.setdefault((wanted, word), []).append(name)
    if others:
        wrong = [f"{w}s for {_listed(names)}, of the type {word}" for (w, word), names in others.items()]
        got = {word for _, word in others}
        advice = [text for word, text in _ADVICE.items() if word in got or not word]
        raise TypeError(f"schema says {'; '.join(wrong)}. {' '.join(advice)}")


def refuse_unclear(names: list[Any]) -> None:
    """Refuse columns that neither a schema nor their types say the content of."""
    if names:
        raise TypeError(
            f"schema must say what {_listed(names)} of X holds, because the type does not: a list of values that is "
            'known without looking, "category" for values to be found privately, "number", or "drop" for free text and '
            "identifiers."
        )


def _listed(names: list[Any]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(repr(name if isinstance(name, int) else str(name)) for name in names[:5]) + more
