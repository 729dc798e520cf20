"""Feature sets, their cells, and the bags of one set: counts and label sums by key.

A feature set is a tuple of columns; its cells are the value combinations that occur. Rare cells are merged into one
rest cell by their public counts. Nothing here sees a label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables._columns import UNKNOWN, CodeArray

IntArray = NDArray[np.int64]
#: Packed keys up to this range may be looked up in a dense array, beyond it by bisection.
_DENSE_LOOKUP = 1 << 22
_LARGEST_KEY = 1 << 62


@dataclass(frozen=True, eq=False)
class CellIndex:
    """Cells of one feature set.

    ``radices`` is the number of codes of each column. ``keys`` holds the codes of each cell in increasing order; a
    last row of -1 is the rest cell.
    """

    columns: tuple[int, ...]
    radices: tuple[int, ...]
    keys: CodeArray

    @property
    def n_cells(self) -> int:
        return int(self.keys.shape[0])

    @property
    def has_rest(self) -> bool:
        return self.n_cells > 0 and bool(self.keys[-1, 0] == UNKNOWN)

    def locate(self, codes: Sequence[CodeArray] | Mapping[int, CodeArray]) -> CodeArray:
        """Find the cell of every row from the codes of the columns, by position.

        A combination without a cell of its own is in the rest cell. It is -1 where there is none, or a value is
        unknown.
        """
        packed = pack_codes([codes[c] for c in self.columns], self.radices)
        n_keys = self.n_cells - self.has_rest
        known_keys = pack_codes(list(self.keys[:n_keys].T), self.radices)
        other = n_keys if self.has_rest else UNKNOWN
        span = math.prod(self.radices)
        if _is_small(span, packed.size):
            lookup = np.full(span + 1, other, dtype=np.int32)
            lookup[known_keys] = np.arange(n_keys, dtype=np.int32)
            lookup[span] = UNKNOWN
            packed[packed < 0] = span
            return lookup[packed]
        place = np.minimum(np.searchsorted(known_keys, packed), max(n_keys - 1, 0))
        hit = known_keys[place] == packed if n_keys else np.zeros(packed.shape, dtype=bool)
        return np.where(packed < 0, UNKNOWN, np.where(hit, place, other)).astype(np.int32)


class KeyCounts(NamedTuple):
    """Value combinations of a feature set that occur, packed and increasing, and the number of rows of each."""

    keys: IntArray
    counts: IntArray


def count_keys(codes: Sequence[CodeArray], n_codes: Sequence[int], columns: tuple[int, ...]) -> KeyCounts:
    radices = tuple(n_codes[c] for c in columns)
    packed = pack_codes([codes[c] for c in columns], radices)
    span = math.prod(radices)
    if _is_small(span, packed.size):
        all_counts = np.bincount(packed, minlength=span)
        keys = np.flatnonzero(all_counts)
        return KeyCounts(keys, all_counts[keys].astype(np.int64, copy=False))
    keys, counts = np.unique(packed, return_counts=True)
    return KeyCounts(keys, counts.astype(np.int64, copy=False))


def add_key_counts(parts: Sequence[KeyCounts]) -> KeyCounts:
    keys, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
    counts = np.zeros(keys.size, dtype=np.int64)
    np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
    return KeyCounts(keys, counts)


def make_cells(
    occurring: KeyCounts, n_codes: Sequence[int], columns: tuple[int, ...], *, min_size: int = 1, drop: bool = False
) -> tuple[CellIndex, IntArray]:
    """Make the cells of a feature set, and count their rows.

    Cells of fewer than ``min_size`` rows are merged into the rest cell, and the smallest others until that one has
    ``min_size`` rows. There are no cells if all rows would be in it. ``drop`` leaves them out instead.
    """
    radices = tuple(n_codes[c] for c in columns)
    keys, counts = _unpack(occurring.keys, radices), occurring.counts
    keep = counts >= min_size if drop else _cells_to_keep(counts, min_size)
    if drop or keep.all() or not keep.any():
        return CellIndex(columns, radices, keys[keep]), counts[keep]
    rest_key = np.full((1, len(columns)), UNKNOWN, dtype=np.int32)
    merged = np.append(counts[keep], counts[~keep].sum())
    return CellIndex(columns, radices, np.concatenate([keys[keep], rest_key])), merged


def resolve_feature_sets(
    feature_sets: object, names: Sequence[str], count: Callable[[list[tuple[int, ...]]], Sequence[IntArray]]
) -> tuple[list[tuple[int, ...]], bool]:
    """Resolve feature sets to tuples of column positions, and whether the caller listed them.

    An int q takes every column and q pairs: those of the largest entropy whose average bag keeps ten rows, then the
    coarsest of the others. ``count`` maps single columns to the rows of each of their cells.
    """
    singles: list[tuple[int, ...]] = [(j,) for j in range(len(names))]
    if isinstance(feature_sets, str):
        if feature_sets == "singles":
            return singles, False
        if feature_sets == "pairs":
            return singles + list(combinations(range(len(names)), 2)), False
        raise ValueError(f"feature_sets must be 'singles', 'pairs', an int or a list of sets, got {feature_sets!r}.")
    if isinstance(feature_sets, (int, np.integer)) and not isinstance(feature_sets, bool):
        return singles + _widest_pairs(int(feature_sets), len(names), count), False
    if not isinstance(feature_sets, Iterable):
        raise ValueError(f"feature_sets must be 'singles', 'pairs', an int or a list of sets, got {feature_sets!r}.")
    sets = [_positions(columns, names) for columns in feature_sets]
    if not sets:
        raise ValueError("feature_sets is empty: give at least one set of columns.")
    if len(set(sets)) < len(sets):
        raise ValueError("feature_sets lists the same set of columns twice.")
    return sets, True


def _positions(columns: Any, names: Sequence[str]) -> tuple[int, ...]:
    members = [columns] if isinstance(columns, (str, int, np.integer)) else list(columns)
    positions = []
    for member in members:
        if isinstance(member, (int, np.integer)) and not isinstance(member, bool):
            if not -len(names) <= member < len(names):
                raise ValueError(f"feature_sets names column {member}, but X has {len(names)} columns.")
            positions.append(int(member) % len(names))
        elif member in names:
            positions.append(list(names).index(str(member)))
        else:
            raise ValueError(f"feature_sets names column {member!r}, but X has the columns {list(names)}.")
    if not positions or len(set(positions)) < len(positions):
        raise ValueError(f"feature_sets must hold sets of distinct columns, got {columns!r}.")
    return tuple(sorted(positions))


def _widest_pairs(
    q: int, n_columns: int, count: Callable[[list[tuple[int, ...]]], Sequence[IntArray]]
) -> list[tuple[int, ...]]:
    pairs = list(combinations(range(n_columns), 2))
    if q < 0 or q > len(pairs):
        raise ValueError(f"feature_sets={q} pairs were asked for, but there are {len(pairs)}.")
    if not pairs:
        return []
    counts = count([(j,) for j in range(n_columns)])
    shares = [sizes[sizes > 0] / max(int(sizes.sum()), 1) for sizes in counts]
    entropy = [float(-np.sum(share * np.log(share))) for share in shares]
    limit = math.log(max(int(counts[0].sum()) / 10, 1))
    width = {pair: entropy[pair[0]] + entropy[pair[1]] for pair in pairs}

    def preference(pair: tuple[int, int]) -> tuple[bool, float, tuple[int, int]]:
        fits = width[pair] <= limit
        return (not fits, -width[pair] if fits else width[pair], pair)

    return sorted(sorted(pairs, key=preference)[:q])


def _is_small(span: int, n_rows: int) -> bool:
    """Decide between a dense lookup array and bisection; the result is the same."""
    return span <= min(_DENSE_LOOKUP, max(1 << 14, 4 * n_rows))


def _cells_to_keep(counts: IntArray, min_size: int) -> NDArray[np.bool_]:
    keep = counts >= min_size
    missing = min_size - int(counts[~keep].sum())
    if keep.all() or missing <= 0:
        return keep
    # The rest cell is itself too small: it takes the smallest kept cells until it is not.
    for cell in np.argsort(np.where(keep, counts, np.iinfo(np.int64).max), kind="stable"):
        if missing <= 0 or not keep[cell]:
            break
        keep[cell] = False
        missing -= int(counts[cell])
    return keep


def pack_codes(codes: Sequence[CodeArray], radices: Sequence[int]) -> IntArray:
    """Pack the codes of several columns into one integer per row; `UNKNOWN` where one of them is."""
    if math.prod(radices) >= _LARGEST_KEY:
        raise ValueError(f"a feature set with {radices} values per column has too many combinations to index.")
    packed = codes[0].astype(np.int64)
    unknown = codes[0] < 0
    for column_codes, radix in zip(codes[1:], radices[1:], strict=True):
        packed *= radix
        packed += column_codes
        unknown = unknown | (column_codes < 0)
    if unknown.any():
        packed[unknown] = UNKNOWN
    return packed


def _unpack(packed: IntArray, radices: Sequence[int]) -> CodeArray:
    columns = []
    rest = packed
    for radix in reversed(radices[1:]):
        rest, code = np.divmod(rest, radix)
        columns.append(code)
    columns.append(rest)
    return np.stack(columns[::-1], axis=1).astype(np.int32)


def as_list(value: object) -> Any:
    """Convert tuples, nested ones too, to lists as in JSON."""
    return list(map(as_list, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True, eq=False)
class BagTable:
    """The bags of one feature set.

    Parameters
    ----------
    feature_set : tuple of str
        Names of the columns.
    keys : ndarray of int32, shape (n_bags, len(feature_set))
        Codes of the column values that the bag's rows share (their meaning is in `CuratedBags.columns`), in
        increasing order. A last row of -1 is the bag of all rare combinations.
    counts : ndarray of int64, shape (n_bags,)
        Rows per bag; public.
    label_sums : ndarray of float64, shape (n_bags, n_outputs)
        Sum of the labels: of the positive class of two, per class of several, or of numbers.
    noise_variance : float, or tuple with one for each output
        Variance of the label-privacy noise in each sum.
    """

    feature_set: tuple[str, ...]
    keys: CodeArray
    counts: IntArray
    label_sums: FloatArray
    noise_variance: float | tuple[float, ...] = 0.0

    @property
    def n_bags(self) -> int:
        return int(self.counts.size)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain lists and numbers, ready for JSON."""
        return {
            "feature_set": list(self.feature_set),
            "keys": self.keys.tolist(),
            "counts": self.counts.tolist(),
            "label_sums": self.label_sums.tolist(),
            "noise_variance": as_list(self.noise_variance),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BagTable:
        name = tuple(str(column) for column in plain["feature_set"])
        counts = np.asarray(plain["counts"], dtype=np.int64).reshape(-1)
        keys = np.asarray(plain["keys"], dtype=np.int32)
        sums = np.asarray(plain["label_sums"], dtype=np.float64)
        sums = sums[:, np.newaxis] if sums.ndim == 1 else sums
        if keys.shape != (counts.size, len(name)) or sums.shape[0] != counts.size:
            raise ValueError(
                f"bag table {name}: keys {keys.shape}, counts {counts.shape} and label_sums {sums.shape} do not fit "
                "together."
            )
        if not np.all(np.isfinite(sums)):
            raise ValueError(f"bag table {name}: label_sums must be finite.")
        noise = plain.get("noise_variance", 0.0)
        return cls(name, keys, counts, sums, tuple(map(float, noise)) if np.ndim(noise) else float(noise))
