"""Contributions of units to groups: from rows in any table or block to integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from skprivate._messages import must_be
from skprivate._validation import column_array, entries
from skprivate.privacy import draws, encode_identifiers, identifier_tags

#: Steps of a contribution: a count of 1, or a value at the end of its limits.
ONE = 2**20
Key = tuple[draws.Entry, ...]


@dataclass(frozen=True)
class Groups:
    """Numbers of rows and sums of values, one line for each unit and group that occur together.

    ``keys`` are the groups; ``group`` and ``unit`` say which each line is of; ``numbers``, of shape (n_lines, 1 +
    n_values), hold its rows and the sums of their values in steps. ``tags`` identify users by 256 bits each; None where
    rows are units.
    """

    keys: list[Key]
    group: NDArray[np.int64]
    unit: NDArray[np.int64]
    numbers: NDArray[np.int64]
    tags: NDArray[np.uint64] | None


def read_groups(block: Any, by: Mapping[str, Any], values: Mapping[str, tuple[float, float]], user: object) -> Groups:
    """Read the groups of a block; ``by`` has types of columns, ``user`` is a column, or identifiers, or None."""
    frame = nw.from_native(block, eager_only=True)
    for name, kind in by.items():
        if (own_type := native_type(frame[name])) != kind:
            raise TypeError(must_be(f"by[{name!r}]", f"of type {kind} in all blocks", str(own_type)))
    keys, group = _number(list(zip(*(_entries(frame[name]) for name in by), strict=True)))
    n_rows = len(frame)
    numbers = np.ones((n_rows, 1 + len(values)), dtype=np.int64)
    for j, (name, (low, high)) in enumerate(values.items(), 1):
        numbers[:, j] = _steps(column_array(frame[name]), low, high)
    if user is None:
        return Groups(keys, group, np.arange(n_rows), numbers, None)
    ids = frame[user].to_native() if isinstance(user, str) and user in frame.columns else user
    codes, names = encode_identifiers(ids, n_rows)
    return _merged(keys, group, codes, numbers, identifier_tags(names))


def merge_groups(parts: list[Groups]) -> Groups:
    if len(parts) == 1:
        return parts[0]
    keys, renumbered = _number([key for part in parts for key in part.keys])
    starts = np.cumsum([0, *(len(part.keys) for part in parts)])
    group = np.concatenate([renumbered[start:][part.group] for start, part in zip(starts, parts, strict=False)])
    numbers = np.concatenate([part.numbers for part in parts])
    if parts[0].tags is None:
        return Groups(keys, group, np.arange(len(group)), numbers, None)
    tags, codes = np.unique(np.concatenate([part.tags for part in parts]), axis=0, return_inverse=True)
    starts = np.cumsum([0, *(len(part.tags) for part in parts if part.tags is not None)])
    unit = np.concatenate([codes.ravel()[start:][part.unit] for start, part in zip(starts, parts, strict=False)])
    return _merged(keys, group, unit, numbers, tags)


def contributions(groups: Groups) -> NDArray[np.int64]:
    """Compute what each line adds to its group: a count of `ONE`, and the mean of its values, rounded to 0."""
    sums, rows = groups.numbers[:, 1:], groups.numbers[:, :1]
    means = np.sign(sums) * (np.abs(sums) // rows)
    return np.concatenate([np.full_like(rows, ONE), means], axis=1)


def _merged(
    keys: list[Key],
    group: NDArray[np.int64],
    unit: NDArray[np.int64],
    numbers: NDArray[np.int64],
    tags: NDArray[np.uint64],
) -> Groups:
    """Add up the lines of the same unit and group."""
    pairs, inverse = np.unique(unit * max(len(keys), 1) + group, return_inverse=True)
    total = np.zeros((len(pairs), numbers.shape[1]), dtype=np.int64)
    np.add.at(total, inverse.ravel(), numbers)
    return Groups(keys, pairs % max(len(keys), 1), pairs // max(len(keys), 1), total, tags)


def _number(keys: list[Key]) -> tuple[list[Key], NDArray[np.int64]]:
    """List different keys, and the number of each key in that list."""
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, keys), np.int64, len(keys))


def native_type(column: nw.Series[Any]) -> Any:
    native = column.to_native()
    return native.dtype if hasattr(native, "dtype") else native.type


def _entries(column: nw.Series[Any]) -> list[draws.Entry]:
    has_zone = getattr(column.dtype, "time_zone", None) is not None
    return list(map(draws.entry_of, entries(column_array(column), has_zone).tolist()))


def _steps(values: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
    """Round values to steps between the ends of their limits, which are ± `ONE`; a gap is the middle."""
    numbers = np.array([np.nan if v is None else float(v) for v in values.tolist()], dtype=np.float64)
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    with np.errstate(all="ignore"):
        scaled = np.clip((numbers - middle) / half, -1.0, 1.0)
    return np.asarray(np.rint(np.where(np.isnan(scaled), 0.0, scaled) * ONE), dtype=np.int64)
