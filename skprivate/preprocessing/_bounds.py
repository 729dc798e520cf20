"""Public ranges of columns, as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def check_bounds(bounds: Any, n_columns: int, names: Any) -> tuple[tuple[float, float], ...] | None:
    """Ranges of all columns.

    Parameters
    ----------
    bounds : None, mapping {column: (low, high)}, or pair (lower, upper)
        Columns of a mapping are names or positions; lower and upper are numbers, or have one number per column.
    n_columns : int
    names : sequence of str or None
        Names of the columns.

    Returns
    -------
    tuple of (float, float), or None

    Raises
    ------
    ValueError
        Naming the column that has no range, or none with low < high.
    """
    if bounds is None:
        return None
    known = [str(j) for j in range(n_columns)] if names is None else [str(name) for name in names]
    if isinstance(bounds, Mapping):
        given = {_key(key, known): pair for key, pair in bounds.items()}
        missing = [known[j] for j in range(n_columns) if j not in given]
        if missing:
            raise ValueError(
                f"bounds must have a pair (low, high) for every column, got none for {missing[0]!r}."
            )
        try:
            pairs = [(float(low), float(high)) for low, high in (given[j] for j in range(n_columns))]
        except (TypeError, ValueError):
            raise ValueError("bounds must map every column to a pair (low, high) of numbers.") from None
    else:
        try:
            lower, upper = (np.broadcast_to(np.asarray(side, dtype=np.float64), n_columns) for side in bounds)
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds must be a mapping from columns to (low, high), or a pair (lower, upper) of numbers or of "
                f"arrays with one number for each of the {n_columns} columns, got {bounds!r}."
            ) from None
        pairs = list(zip(lower.tolist(), upper.tolist(), strict=True))
    for name, (low, high) in zip(known, pairs, strict=True):
        # The squared range is a float, too.
        if not (low < high and np.isfinite(low) and np.isfinite(high) and high - low < 1e150):
            raise ValueError(
                f"bounds of column {name} must be finite with low < high, got ({low:g}, {high:g})."
            )
    return tuple(pairs)


def _key(key: Any, known: list[str]) -> int:
    if isinstance(key, int) and 0 <= key < len(known):
        return key
    if str(key) in known:
        return known.index(str(key))
    raise ValueError(f"bounds has the column {key!r}, which X does not have.")
