"""Columns of any type as dense integer codes, by public rules only.

Features are public in the aggregated-label model, so categories and bin edges may depend on them. Labels are never
used.

Edges are exact: cells of the quantile sketch that hold a wanted number are refined in one more pass over the rows.
Numbers are ordered as unsigned integers, their keys; a cell of width w is 2ʷ keys. The width is the least that keeps
the number of cells within its bound, a function of the numbers alone: any blocks, merged in any order, give the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import entries

#: Cells of the sketch of one column.
MAX_CELLS = 1 << 16
_SIGN = np.uint64(1 << 63)

KeyArray = NDArray[np.uint64]
Interval = tuple[KeyArray, KeyArray]
CodeArray = NDArray[np.int32]
#: Code of a value that was not there when the column was learned.
UNKNOWN = -1
_EXACT_TYPES = (str, bool, int, float, type(None))


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Mergeable quantile sketch: a histogram of keys whose cells are powers of two wide.

    ``keys`` are the lowest keys of the cells, increasing. ``widths`` are the binary logarithms of the numbers of keys
    per cell; 0 is a single number.
    """

    keys: KeyArray
    counts: NDArray[np.int64]
    widths: NDArray[np.uint8]

    @classmethod
    def from_numbers(cls, numbers: NDArray[np.float64], within: Interval | None = None) -> QuantileSketch:
        """Sketch the finite numbers, or those within closed intervals of keys."""
        # -0.0 is 0.0.
        bits = (numbers[np.isfinite(numbers)] + 0.0).view(np.uint64)
        keys = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        if within is not None:
            place = np.searchsorted(within[0], keys, side="right") - 1
            keys = keys[(place >= 0) & (keys <= within[1][place])]
        keys, counts = np.unique(keys, return_counts=True)
        return cls(keys, counts.astype(np.int64), np.zeros(keys.size, dtype=np.uint8))

    def compress(self, max_cells: int) -> QuantileSketch:
        """Compress cells of one width to at most ``max_cells`` of one width."""
        keys, counts = self.keys, self.counts
        width = int(self.widths.max(initial=0))
        if keys.size > max_cells:
            # Neighbours share a cell if they differ in its lowest bits only; max_cells - 1 pairs may differ in others.
            apart = keys[1:] ^ keys[:-1]
            width = int(np.partition(apart, apart.size - max_cells)[apart.size - max_cells]).bit_length()
            keys, counts = _merge_cells(keys, counts, width)
        return QuantileSketch(keys, counts, np.full(keys.size, width, dtype=np.uint8))

    @staticmethod
    def merge(parts: Sequence[QuantileSketch], max_cells: int) -> QuantileSketch:
        width = max(int(part.widths.max(initial=0)) for part in parts)
        keys = np.concatenate([part.keys for part in parts])
        order = np.argsort(keys, kind="stable")
        counts = np.concatenate([part.counts for part in parts])[order]
        keys, counts = _merge_cells(keys[order], counts, width)
        return QuantileSketch(keys, counts, np.full(keys.size, width, dtype=np.uint8)).compress(max_cells)

    def intervals(self, which: NDArray[np.bool_]) -> Interval:
        first = self.keys[which]
        return first, first | ((np.uint64(1) << self.widths[which].astype(np.uint64)) - np.uint64(1))

    def refine(self, which: NDArray[np.bool_], finer: QuantileSketch) -> QuantileSketch:
        """Replace some cells by a finer sketch of their numbers."""
        joined = [
            np.concatenate([old[~which], new])
            for old, new in ((self.keys, finer.keys), (self.counts, finer.counts), (self.widths, finer.widths))
        ]
        order = np.argsort(joined[0], kind="stable")
        return QuantileSketch(*(array[order] for array in joined))

    def edges(self, n_bins: int) -> tuple[float, ...] | NDArray[np.bool_]:
        """Cut the numbers into about ``n_bins`` bins, or mark the cells to refine first.

        Distinct numbers are cut between each other if there are at most ``n_bins``. Else each number that at least
        one in ``n_bins`` rows has is a bin of its own, and the others are cut at their quantiles.
        """
        n = self.keys.size
        if n <= 1 and not self.widths.any():
            return ()
        if n <= n_bins and not self.widths.any():
            distinct = _numbers(self.keys)
            # Halving first keeps the midpoint of two huge numbers finite. That of neighbours may be the lower one.
            middle = distinct[1:] / 2 + distinct[:-1] / 2
            return tuple(np.where(middle > distinct[:-1], middle, distinct[1:]).tolist())
        # A number of many rows is a bin of its own: quantiles alone put a column that is mostly zero into one bin.
        heavy: NDArray[np.bool_] = self.counts * n_bins >= self.counts.sum()
        unclear: NDArray[np.bool_] = heavy & (self.widths > 0)
        if unclear.any():
            return unclear
        wanted = heavy.copy()
        wanted[1:] |= heavy[:-1]
        others = np.cumsum(np.where(heavy, 0, self.counts))
        if others[-1]:
            n_cuts = max(n_bins - int(heavy.sum()), n_bins // 2)
            ranks = np.floor((others[-1] - 1) * np.linspace(0, 1, n_cuts + 1)[1:-1]).astype(np.int64)
            wanted[np.searchsorted(others, ranks, side="right")] = True
        unclear = wanted & (self.widths > 0)
        if unclear.any():
            return unclear
        # An edge at the least number would leave the first bin empty.
        wanted[0] = False
        return tuple(_numbers(self.keys[wanted]).tolist())


def _merge_cells(keys: KeyArray, counts: NDArray[np.int64], width: int) -> tuple[KeyArray, NDArray[np.int64]]:
    if keys.size == 0:
        return keys, counts
    coarse = keys & ~((np.uint64(1) << np.uint64(width)) - np.uint64(1))
    first = np.flatnonzero(np.append(True, coarse[1:] != coarse[:-1]))
    return coarse[first], np.add.reduceat(counts, first)


def _numbers(keys: KeyArray) -> NDArray[np.float64]:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


@dataclass(frozen=True)
class CategoricalColumn:
    """Column whose values are categories, in code order; ``None`` is a missing value."""

    name: str
    categories: tuple[Any, ...]

    @property
    def n_codes(self) -> int:
        return len(self.categories)

    def encode(self, values: NDArray[Any]) -> CodeArray:
        """Encode ``values``; -1 where a value is unknown."""
        if values.dtype.kind in "biuf" and not any(isinstance(c, str) for c in self.categories):
            return self._encode_numbers(values)
        index = {category: code for code, category in enumerate(self.categories)}
        plain = plain_values(values)
        return np.fromiter((index.get(value, UNKNOWN) for value in plain), np.int32, len(plain))

    def _encode_numbers(self, values: NDArray[Any]) -> CodeArray:
        codes = np.array([i for i, c in enumerate(self.categories) if c is not None], dtype=np.int32)
        known = np.array([self.categories[i] for i in codes])
        missing = self.categories.index(None) if None in self.categories else UNKNOWN
        # Integers may be beyond what floats tell apart.
        if values.dtype.kind not in "iu" or known.dtype.kind not in "iu":
            known, values = known.astype(np.float64), values.astype(np.float64)
        if not known.size:
            return np.where(np.isnan(values), missing, UNKNOWN).astype(np.int32)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], values), known.size - 1)
        hit = order[place]
        found = np.where(known[hit] == values, codes[hit], UNKNOWN)
        return np.where(np.isnan(values), missing, found).astype(np.int32)

    def label_of(self, code: int) -> str:
        return "missing" if self.categories[code] is None else str(self.categories[code])


@dataclass(frozen=True)
class BinnedColumn:
    """Numeric column cut at increasing public edges: code i holds ``edges[i-1] <= value < edges[i]``.

    The last code, ``len(edges) + 1``, holds missing values.
    """

    name: str
    edges: tuple[float, ...]

    @property
    def n_codes(self) -> int:
        return len(self.edges) + 2

    def encode(self, values: NDArray[Any]) -> CodeArray:
        """Encode ``values``; every number has a code."""
        numbers = np.asarray(values, dtype=np.float64)
        codes = np.searchsorted(np.array(self.edges, dtype=np.float64), numbers, side="right")
        return np.where(np.isnan(numbers), len(self.edges) + 1, codes).astype(np.int32)

    def label_of(self, code: int) -> str:
        if code == len(self.edges) + 1:
            return "missing"
        low = f"{self.edges[code - 1]:.4g}" if code else "-inf"
        high = f"{self.edges[code]:.4g}" if code < len(self.edges) else "inf"
        return f"[{low}, {high})"


Column = CategoricalColumn | BinnedColumn


def default_bins(n_samples: int) -> int:
    """Choose the number of bins of a numeric column: the cube root of the number of rows, between 2 and 16."""
    return int(np.clip(round(n_samples ** (1 / 3)), 2, 16))


def checked_bins(
    names: Sequence[str], n_bins: object, bin_edges: Mapping[str, Sequence[float]] | None
) -> dict[str, tuple[float, ...]]:
    """Check the edges that were given, by column, and the number of bins."""
    if not isinstance(n_bins, (int, np.integer)) or isinstance(n_bins, bool) or n_bins < 2:
        raise ValueError(f"n_bins must be an int of at least 2, got {n_bins!r}.")
    given = dict(bin_edges or {})
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(f"bin_edges names columns that X does not have: {unknown}; columns are {list(names)}.")
    return {name: _checked_edges(edges, name) for name, edges in given.items()}


def encode_columns(values: Sequence[NDArray[Any]], columns: Sequence[Column]) -> list[CodeArray]:
    """Encode columns with codes learned before."""
    return [
        column.encode(as_numbers(v, column.name) if isinstance(column, BinnedColumn) else v)
        for v, column in zip(values, columns, strict=True)
    ]


def encode_known(values: Sequence[NDArray[Any]], columns: Sequence[Column]) -> list[CodeArray]:
    """Encode columns with codes learned before, and refuse unknown values."""
    all_codes = encode_columns(values, columns)
    for column, codes in zip(columns, all_codes, strict=True):
        if np.any(codes < 0):
            raise ValueError(
                f"column {column.name!r} of X has values that were not among the categories that it was read for at "
                f"first, in {int(np.sum(codes < 0))} rows."
            )
    return all_codes


def column_to_dict(column: Column) -> dict[str, Any]:
    """Convert a column to its plain form for JSON."""
    if isinstance(column, BinnedColumn):
        return {"name": column.name, "edges": list(column.edges)}
    return {"name": column.name, "categories": list(column.categories)}


def column_from_dict(plain: Mapping[str, Any]) -> Column:
    if "edges" in plain:
        return BinnedColumn(plain["name"], tuple(float(edge) for edge in plain["edges"]))
    return CategoricalColumn(plain["name"], tuple(plain["categories"]))


def is_numeric(values: NDArray[Any]) -> bool:
    """Check that a column holds numbers (booleans count as categories)."""
    if values.dtype.kind in "iuf":
        return True
    if values.dtype.kind != "O":
        return False
    return all(
        value is None or (isinstance(value, (int, float, np.number)) and not isinstance(value, bool))
        for value in values
    )


def in_order(values: Iterable[Any]) -> list[Any]:
    """Sort categories independently of the rows: by type first, missing values last."""
    return sorted(values, key=lambda v: (v is None, isinstance(v, str), v if v is not None else 0))


def plain_values(values: NDArray[Any]) -> list[Any]:
    """Convert to hashable Python values; a missing value becomes None, a value of another type its repr."""
    if values.dtype.kind == "f":
        return [None if value != value else value for value in values.tolist()]
    return [value if isinstance(value, _EXACT_TYPES) else _text(value) for value in entries(values).tolist()]


def _text(value: object) -> str:
    """Write a value of another type as text; a date is the midnight that it begins at, as in SQL."""
    if type(value) is datetime.date:
        value = datetime.datetime(value.year, value.month, value.day)
    return repr(value)


def as_numbers(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        return np.asarray([np.nan if v is None else v for v in values] if values.dtype == object else values, float)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} was to be cut into bins but holds values that are not numbers; declare it in "
            "categorical_features."
        ) from None


def _checked_edges(edges: Sequence[float], name: str) -> tuple[float, ...]:
    array = np.asarray(edges, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise ValueError(f"bin_edges[{name!r}] must be finite and increasing, got {edges!r}.")
    return tuple(array.tolist())
