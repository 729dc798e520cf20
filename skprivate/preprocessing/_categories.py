"""Public categories of columns, as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skprivate._tables import distinct


def check_categories(categories: Any, n_columns: int, names: Any) -> list[list[Any]]:
    """Categories of all columns.

    Parameters
    ----------
    categories : sequence of values, sequence of sequences, or mapping {column: sequence}
        For all columns, for each column in order, or by name or position.
    n_columns : int
    names : sequence of str or None
        Names of the columns.

    Returns
    -------
    list of list

    Raises
    ------
    ValueError
        Naming the column that has no categories or repeated ones.
    """
    if categories is None:
        raise ValueError(
            "categories must be given: the values that occur in private columns are private themselves. Pass a "
            "list of values for all columns, one list for each column, or a mapping from columns to lists."
        )
    known = [str(j) for j in range(n_columns)] if names is None else [str(name) for name in names]
    if isinstance(categories, Mapping):
        strange = [key for key in categories if str(key) not in known and key not in range(n_columns)]
        if strange:
            raise ValueError(f"categories has the column {strange[0]!r}, which X does not have.")
        lists = []
        for j, name in enumerate(known):
            key = next((key for key in categories if str(key) == name or (names is None and key == j)), None)
            if key is None:
                raise ValueError(f"categories must have an entry for every column, got none for {name!r}.")
            lists.append(categories[key])
    else:
        entries = list(categories)
        nested = bool(entries) and all(_is_list(entry) for entry in entries)
        lists = entries if nested else [entries] * n_columns
        if len(lists) != n_columns:
            raise ValueError(
                f"categories must have one list for each of the {n_columns} columns, got {len(lists)}."
            )
    result = [list(entry) if _is_list(entry) else [] for entry in lists]
    for name, entry in zip(known, result, strict=True):
        if not entry:
            raise ValueError(f"categories of column {name} must be a list of at least one value.")
        if not distinct(entry):
            raise ValueError(f"categories of column {name} must differ from each other, got {entry!r}.")
    return result


def _is_list(entry: Any) -> bool:
    if isinstance(entry, str | bytes):
        return False
    return isinstance(entry, Sequence) or (hasattr(entry, "__array__") and getattr(entry, "ndim", 1) == 1)
