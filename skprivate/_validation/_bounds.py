"""Public ranges of columns, in the shapes that users write them: one reading for the whole suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

Pairs: TypeAlias = tuple[tuple[float, float], ...]

#: No range is wider, so that its square is a float, too.
WIDEST = 1e150
#: What a parameter of this kind may be.
SHAPES = "a dict {column: (low, high)}, or a pair (lower, upper) of numbers or of arrays with one number per column"


def check_bounds(
    bounds: Any, columns: int | Sequence[int], names: Any = None, *, parameter: str = "bounds"
) -> Pairs | None:
    """Read ranges of columns, one pair a column.

    ``bounds`` is a mapping {column: (low, high)} by name or position, or a pair (lower, upper) of numbers, of arrays
    with one number a column, or of mappings (a pandas Series) from columns to numbers. A list of pairs is refused,
    because with two columns it may be (lower, upper). ``columns`` is the number of columns of X, or the positions of
    those that have bounds. Errors name the column that is missing, unknown or given twice, or whose range is not finite
    with low < high.

    >>> from skprivate._validation._bounds import check_bounds
    >>> check_bounds({"age": (0, 120), "pulse": (20, 250)}, 2, ["pulse", "age"])
    ((20.0, 250.0), (0.0, 120.0))
    >>> check_bounds((0, [120, 250]), 2)
    ((0.0, 120.0), (0.0, 250.0))
    """
    if bounds is None:
        return None
    positions = list(range(columns)) if isinstance(columns, int) else list(columns)
    read = _by_column if isinstance(bounds, Mapping) else _two_sides
    pairs = read(bounds, positions, names, parameter)
    labels = [column_label(j, names) for j in positions]
    for label, (low, high) in zip(labels, pairs, strict=True):
        if not _is_range(low, high):
            raise ValueError(
                f"{parameter} of column {label} must be finite with low < high and less than {WIDEST:g} apart, got "
                f"({low:g}, {high:g})."
            )
    return tuple(pairs)


def in_order(
    values: Mapping[Any, Any],
    columns: int | Sequence[int],
    names: Any = None,
    *,
    parameter: str,
    entry: str = "an entry",
) -> list[Any]:
    """List values of the columns in their order, from a mapping by name or position."""
    positions = list(range(columns)) if isinstance(columns, int) else list(columns)
    found: dict[int, Any] = {}
    for key, value in values.items():
        position = _position(key, positions, names, parameter)
        if position in found:
            raise ValueError(f"{parameter} has column {column_label(position, names)} twice.")
        found[position] = value
    missing = ", ".join(column_label(j, names) for j in positions if j not in found)
    if missing:
        raise ValueError(f"{parameter} must have {entry} for every column, got none for {missing}.")
    return [found[j] for j in positions]


def column_label(position: int, names: Any = None) -> str:
    """Name a column for messages: by its quoted name, or by its position."""
    return str(position) if names is None else repr(str(names[position]))


def _is_range(low: float, high: float) -> bool:
    return bool(np.isfinite(low) and np.isfinite(high) and low < high and high - low < WIDEST)


def _by_column(
    bounds: Mapping[Any, Any], positions: list[int], names: Any, parameter: str
) -> list[tuple[float, float]]:
    pairs = []
    found = in_order(bounds, positions, names, parameter=parameter, entry="a pair (low, high)")
    for position, pair in zip(positions, found, strict=True):
        try:
            low, high = pair
            pairs.append((float(low), float(high)))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"{parameter} of column {column_label(position, names)} must be a pair (low, high) of numbers, got "
                f"{pair!r}."
            ) from None
    return pairs


def _position(key: Any, positions: list[int], names: Any, parameter: str) -> int:
    position = -1
    if isinstance(key, Integral) and not isinstance(key, bool):
        position = int(key)
    elif isinstance(key, str) and names is not None and key in (known := [str(name) for name in names]):
        position = known.index(key)
    if position in positions:
        return position
    kind = "columns" if names is not None else "columns (X came without names)"
    # Outputs of pipeline steps have no names by default.
    advice = " Behind another step, call set_output(transform='pandas') on it." if names is None else ""
    labels = ", ".join(column_label(j, names) for j in positions) or "none"
    raise ValueError(f"{parameter} has the column {key!r}; the {kind} are {labels}.{advice}")


def _two_sides(bounds: Any, positions: list[int], names: Any, parameter: str) -> list[tuple[float, float]]:
    k = len(positions)
    sides = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    try:
        sides = list(sides)
        by_name = [side for side in sides if hasattr(side, "items")]
        if len(sides) == 2 and by_name:
            # One side of names goes with a number for all; with a list, positions would be taken for names.
            lower, upper = (
                dict(side.items())
                if hasattr(side, "items")
                else dict.fromkeys(by_name[0].keys(), float(side))
                for side in sides
            )
            both = {key: (lower.get(key, np.nan), upper.get(key, np.nan)) for key in {**lower, **upper}}
            return _by_column(both, positions, names, parameter)
        _refuse_pairs(sides, k, parameter)
        first, second = (np.broadcast_to(np.asarray(side, dtype=np.float64), k) for side in sides)
    except (TypeError, ValueError, OverflowError) as error:
        if str(error).startswith(parameter):
            raise
        labels = ", ".join(column_label(j, names) for j in positions)
        raise ValueError(f"{parameter} must be {SHAPES} ({labels}), got {bounds!r}.") from None
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _refuse_pairs(sides: list[Any], k: int, parameter: str) -> None:
    """Refuse a list of pairs where it is, or might be, one; arrays are lower and upper beyond doubt."""
    if any(not isinstance(side, list | tuple) or len(side) != 2 for side in sides) or len(sides) != k:
        return
    as_pairs = [(float(low), float(high)) for low, high in sides]
    if not all(_is_range(low, high) for low, high in as_pairs):
        return  # not pairs: the range of some column would be empty
    instead = f"Write a dict {{column: (low, high)}}, or {parameter}=(lower, upper) with NumPy arrays."
    as_sides = list(zip(*as_pairs, strict=True))
    if k == 2 and all(_is_range(low, high) for low, high in as_sides):
        first, second = (
            " and ".join(f"[{low:g}, {high:g}]" for low, high in way) for way in (as_pairs, as_sides)
        )
        raise ValueError(
            f"{parameter}={sides!r} can be read in two ways: as a pair (low, high) for each column, {first}, or as "
            f"(lower, upper), {second}. {instead}"
        )
    raise ValueError(f"{parameter}={sides!r} looks like a list of pairs (low, high). {instead}")
