"""Frames in and out: from entries of any table to numbers and codes, and back to the types that came in.

Names and types of columns are public. A type that one gap changes is not looked at: pandas makes floats of integers for
it, so both come back as what released numbers say.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skprivate import _validation
from skprivate._messages import must_be
from skprivate._validation import CATEGORY, DATE, DROP, NUMBER, ORIGIN
from skprivate.metric._tables import TableKind, as_dtype, decimals, numpy_twin
from skprivate.metric.tables._cells import Cells, ColumnSpec
from skprivate.privacy import draws, noise

#: What a column of times holds, beside the words of a schema.
_TIME = "time"
#: Above it no float64 is taken for an integer of 64 bits.
_MOST_WHOLE = 2.0**62
#: Most values that are found in a column.
_MOST_FOUND = 1000
#: Steps that numbers, days and seconds may be on, the widest first.
_STEPS = {NUMBER: (1.0, 0.1, 0.01, 0.001), DATE: (1.0,), _TIME: (86400.0, 3600.0, 60.0, 1.0)}
#: Units of numbers that dates and times become.
_UNITS = {NUMBER: datetime.timedelta(1), DATE: datetime.timedelta(1), _TIME: datetime.timedelta(seconds=1)}
_LEAST_DAY, _MOST_DAY = (float((day - ORIGIN.date()).days) for day in (datetime.date.min, datetime.date.max))


@dataclass(frozen=True, kw_only=True)
class FrameColumn:
    """A column of the frame: its position, label and type; what it holds, its listed values and limits."""

    position: int
    label: str
    dtype: Any
    kind: str
    values: tuple[Any, ...] | None = None
    bounds: tuple[float, float] | None = None
    found: bool = False

    @property
    def spec(self) -> ColumnSpec:
        if self.found:
            return ColumnSpec(n_values=_MOST_FOUND, found=True)
        if self.values is not None:
            return ColumnSpec(n_values=len(self.values))
        return ColumnSpec(bounds=self.bounds, steps=_STEPS[self.kind])

    @property
    def lists_integers(self) -> bool:
        """Tell if all listed values are whole numbers."""
        listed = self.values or ("",)
        return all(
            isinstance(value, Real) and abs(float(value)) <= _MOST_WHOLE and float(value).is_integer()
            for value in listed
        )

    def read(self, entries: NDArray[Any]) -> noise.FloatArray:
        """Convert entries, each by itself, to numbers or codes; NaN for gaps and values that are not listed."""
        if self.values is not None:
            codes = _validation.code_numbers(entries, self._listed).astype(np.float64)
            codes[codes == len(self.values)] = np.nan
            return codes
        if self.found:
            return np.full(len(entries), np.nan)
        if entries.dtype.kind in "biuf":
            found = entries.astype(np.float64)
        else:
            try:
                found = np.array([self._number(value) for value in entries.tolist()], dtype=np.float64)
            except (TypeError, ValueError):
                raise TypeError(
                    f"column {self.label} of X must hold numbers, dates or gaps, got others: could not convert to "
                    "float, the argument must be a string that schema={column: [value, ...]} lists, or a number."
                ) from None
        if np.isinf(found).any():
            raise ValueError(
                f"Input X contains infinity in column {self.label}; only finite numbers and gaps are allowed."
            )
        return found

    @property
    def _listed(self) -> list[Any]:
        """The listed values as the column has them: a narrow float never equals 0.1."""
        listed, narrow = list(self.values or ()), _narrow_float(self.dtype)
        if narrow is None:
            return listed
        with np.errstate(all="ignore"):
            typed = [narrow.type(value).item() if isinstance(value, Real) else value for value in listed]
        return [value if one in (math.inf, -math.inf) else one for value, one in zip(listed, typed, strict=True)]

    def _number(self, value: object) -> float:
        # Finer than Python's: whole seconds.
        value = value.astype("M8[s]") if isinstance(value, np.datetime64) else value
        return _validation.as_number(value, _UNITS[self.kind])

    @classmethod
    def of(
        cls, position: int, label: str, dtype: object, kind: str | None, declared: list[Any] | None, entry: object
    ) -> FrameColumn | None:
        """Decide what a column holds, by its type and its entry in the schema; None if neither says so."""
        listed = entry if isinstance(entry, list) else declared if entry in (None, CATEGORY) else None
        values = [value for value in map(_validation.plain_entry, listed or ()) if value is not None]
        holds = None
        if values or isinstance(entry, list):
            holds = CATEGORY
        elif kind in ("dates", "durations", "times of day"):
            holds = DATE if kind == "dates" else None
        elif kind in _validation.TIME_KINDS or (kind is None and entry == DATE):
            holds = _TIME
        elif entry == CATEGORY and declared is None:
            holds = CATEGORY
        elif kind == "numbers" or (kind is None and (entry == NUMBER or isinstance(entry, tuple))):
            holds = NUMBER
        if holds is None:
            return None
        own = cls(position=position, label=label, dtype=dtype, kind=holds)
        if holds == CATEGORY:
            return replace(own, values=tuple(values)) if listed else replace(own, found=True)
        return replace(own, bounds=entry if isinstance(entry, tuple) else None)


@dataclass(frozen=True, kw_only=True)
class FrameSchema:
    """A kind of table, and what its columns hold."""

    table: TableKind
    columns: tuple[FrameColumn, ...]

    @classmethod
    def of(cls, X: Any, schema: Mapping[Any, Any] | None) -> FrameSchema:
        """Read names and types of a table, and what a schema says of its columns, by name or position."""
        table, known = TableKind.of(X), _validation.read_schema(schema) if schema else {}
        n_columns = len(table.names)
        places: dict[Any, int] = {j: j for j in range(n_columns)} | {name: j for j, name in enumerate(table.names)}
        _validation.refuse_other_names(known, places, every=False)
        words = _validation.type_words(X)
        _validation.refuse_other_types(known, {name: words[j] for name, j in places.items()})
        entries = {places[name]: entry for name, entry in known.items()}
        kinds, frame = _validation.column_kinds(X), _validation.is_frame(X)
        kinds = kinds * n_columns if len(kinds) < n_columns else kinds
        columns, unclear = [], []
        types = zip(table.dtypes, kinds, _validation.declared_values(X), strict=True)
        for j, (dtype, kind, declared) in enumerate(types):
            entry = entries.get(j, None if frame or kind else NUMBER)
            if entry == DROP:
                continue
            label = _validation.column_label(j, table.names if frame else None)
            if (own := FrameColumn.of(j, label, dtype, kind, declared, entry)) is None:
                unclear.append(table.names[j])
            else:
                columns.append(own)
                if isinstance(entry, list) and declared:
                    _refuse_undeclared(own, declared, closed=kind == "numbers" or table.library != "pandas")
        _validation.refuse_unclear(unclear)
        if not columns:
            raise ValueError(_validation.NOTHING_LEFT)
        listed = {own.position: own.values for own in columns if own.values is not None}
        _validation.refuse_other_kinds(X, listed, name="schema")
        typed = _validation.in_own_type(X, listed, name="schema")
        # Narrow floats stay as they were written.
        columns = [
            own if own.values is None or _narrow_float(own.dtype) else replace(own, values=tuple(typed[own.position]))
            for own in columns
        ]
        made = cls(table=table, columns=tuple(columns))
        made._refuse_lists()
        return made

    def _refuse_lists(self) -> None:
        """Refuse listed values that would not read back as what they are from a column of its type."""
        for own in self.columns:
            if own.values is None:
                continue
            codes = np.arange(len(own.values), dtype=np.float64)
            kind = replace(self.table, names=("column",), dtypes=(own.dtype,))
            try:
                X = kind.table([_entries(own, codes, whole=own.lists_integers)], [own.values])
                columns = _validation.frame_columns(X) if _validation.is_frame(X) else _validation.entries(X).T
                fits = np.array_equal(own.read(columns[0]), codes)
            except Exception:  # of whatever library, about public values and types
                fits = False
            if not fits:
                raise _unfit(own, own.values, f"type {own.dtype} cannot hold all of")

    def read(self, X: Any) -> noise.FloatArray:
        """Convert the columns of a table that `validated` returns."""
        entries = list(X.T) if not _validation.is_frame(X) else _validation.frame_columns(X)
        return np.column_stack([own.read(entries[own.position]) for own in self.columns])

    def texts(self, X: Any) -> tuple[NDArray[Any], ...]:
        """Read the entries of columns whose values nobody listed; those of one column are of one kind."""
        columns = [own for own in self.columns if own.found]
        entries = (_validation.frame_columns(X) if _validation.is_frame(X) else list(X.T)) if columns else []
        for own in columns:
            kinds = sorted({draws.entry_of(value)[0] for value in entries[own.position].tolist()} - {draws.MISSING[0]})
            if len(kinds) > 1:
                got = " and ".join(kinds)
                raise TypeError(must_be(f"column {own.label} of X", "of one kind of values", got, "Convert it."))
        return tuple(entries[own.position] for own in columns)

    def place(self, key: object) -> int | None:
        """Find a column that is not left out, by its name or position."""
        position = self.table.names.index(key) if key in self.table.names else key
        return next((j for j, own in enumerate(self.columns) if own.position == position), None)

    def with_values(self, found: Mapping[int, tuple[Any, ...]]) -> FrameSchema:
        """Put in released values."""
        columns = [replace(own, values=found.get(j, own.values)) for j, own in enumerate(self.columns)]
        return replace(self, columns=tuple(columns))

    def write(self, columns: list[noise.FloatArray], cells: tuple[Cells, ...], gaps: tuple[bool, ...]) -> Any:
        """Make a table of numbers and codes; ``gaps`` says which columns have some by released counts."""
        made, dtypes = [], []
        for own, values, cell, gap in zip(self.columns, columns, cells, gaps, strict=True):
            made.append(_entries(own, values, whole=not gap and (_is_whole(cell) or own.lists_integers)))
            # pandas makes objects of booleans for a gap
            flags = own.values and own.dtype == object and all(isinstance(value, bool) for value in own.values)
            dtypes.append(np.dtype(bool) if flags else own.dtype)
        names = tuple(self.table.names[own.position] for own in self.columns)
        kind = replace(self.table, names=names, dtypes=tuple(dtypes))
        return kind.table(made, [own.values for own in self.columns])


def _refuse_undeclared(own: FrameColumn, declared: list[Any], *, closed: bool) -> None:
    """Refuse listed values if a type declares none of them; where it is ``closed``, any that it does not declare."""
    others = [value for value in own.values or () if value not in declared]
    if others and (closed or len(others) == len(own.values or ())):
        raise _unfit(own, others, "type does not declare")


def _unfit(own: FrameColumn, values: Sequence[Any], why: str) -> TypeError:
    shown = ", ".join(map(repr, values[:5])) + (", …" if len(values) > 5 else "")
    return TypeError(
        f"schema lists for column {own.label} what its {why}: {shown}. List values as the column has them, or convert "
        "the column first."
    )


def _narrow_float(dtype: object) -> np.dtype[Any] | None:
    """Find NumPy's type for floats of less than 64 bits."""
    twin = numpy_twin(dtype)
    return twin if twin.kind == "f" and twin.itemsize < 8 else None


def _is_whole(cells: Cells) -> bool:
    """Tell if all numbers in released cells are integers of 64 bits."""
    return cells.step >= 1 and bool(np.abs(cells.edges).max() <= _MOST_WHOLE)


def validated(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Validate a table; a frame stays one, all else becomes an array as `any_table` makes it."""
    if not _validation.is_frame(X):
        return _validation.any_table(estimator, X, reset=reset)
    _validation.validate_data(estimator, X, skip_check_array=True, reset=reset)
    if not len(X) or not X.shape[1]:
        what = "sample(s)" if not len(X) else "feature(s)"
        raise ValueError(
            f"Found array with 0 {what} (shape={X.shape}) while a minimum of 1 is required by "
            f"{type(estimator).__name__}."
        )
    return X


def _entries(own: FrameColumn, values: noise.FloatArray, *, whole: bool) -> Any:
    """Make entries of a column: an array for numbers of NumPy's types, else a list with None for gaps."""
    gap = np.isnan(values)
    plain = isinstance(own.dtype, np.dtype) and own.dtype.kind in "iuf"
    if own.values is not None:
        if plain and all(isinstance(value, Real) for value in own.values):
            kind = np.dtype(np.int64) if whole else _narrow_float(own.dtype) or np.dtype(np.float64)
            numbers = np.array([*own.values, 0 if whole else np.nan], dtype=kind)
            return numbers[np.where(gap, len(own.values), values).astype(np.int64)]
        listed = [*own.values, None]
        return [listed[k] for k in np.where(gap, len(own.values), values).astype(np.int64).tolist()]
    safe = np.where(gap, 0.0, values)
    if own.kind == NUMBER:
        name = str(own.dtype).lower()
        if plain and not _narrow_float(own.dtype):
            return values.astype(np.int64) if whole else values
        if plain:
            return values.astype(own.dtype)
        if name.startswith("decimal"):
            found: list[Any] = decimals(safe, own.dtype)
        elif "int" in name:
            twin = numpy_twin(own.dtype)
            found = as_dtype(safe, twin if twin.kind in "iu" else np.dtype(np.int64)).tolist()
        elif name.startswith("bool"):
            found = (safe > 0.5).tolist()
        else:
            found = [int(value) for value in safe] if whole else safe.tolist()
    elif own.kind == DATE:
        days = np.clip(np.rint(safe), _LEAST_DAY, _MOST_DAY).astype(int).tolist()
        found = [ORIGIN.date() + datetime.timedelta(days=day) for day in days]
    else:
        zone = datetime.UTC if getattr(own.dtype, "tz", None) or getattr(own.dtype, "time_zone", None) else None
        seconds = np.clip(safe, (_LEAST_DAY + 1) * 86400, _MOST_DAY * 86400).tolist()
        found = [(ORIGIN + datetime.timedelta(seconds=second)).replace(tzinfo=zone) for second in seconds]
    return [None if missing else value for missing, value in zip(gap.tolist(), found, strict=True)]
