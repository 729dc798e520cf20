"""Frames in and out: from entries of any table to numbers and codes, and back to the types that came in.

Names and types of columns are public. A type that one gap changes is not looked at: pandas makes floats of integers for
it, so both come back as what released numbers say.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Number, Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skprivate import _validation
from skprivate._messages import must_be
from skprivate.metric._tables import decimals
from skprivate.metric.tables._cells import Cells, ColumnSpec
from skprivate.privacy import draws, noise

#: What a schema may say of a column beside limits and a list, in the words of `make_private_pipeline`.
WORDS = _NUMBER, _DATE, _CATEGORY, _DROP = ("number", "date", "category", "drop")
#: Above it no float64 is taken for an integer of 64 bits.
_MOST_WHOLE = 2.0**62
#: Most values that are found in a column.
_MOST_FOUND = 1000
#: Replacements of types that list values.
_LISTED, _ORDERED = "listed values", "ordered values"
#: Steps that numbers, days and seconds may be on, the widest first.
_STEPS = {_NUMBER: (1.0, 0.1, 0.01, 0.001), _DATE: (1.0,), "time": (86400.0, 3600.0, 60.0, 1.0)}
_ORIGIN = datetime.datetime(2000, 1, 1)
#: Seconds of a day, and from NumPy's origin to ours.
_DAY = 86400.0
_EPOCH = 86400 * (_ORIGIN - datetime.datetime(1970, 1, 1)).days
_LEAST_DAY, _MOST_DAY = (float((day - _ORIGIN.date()).days) for day in (datetime.date.min, datetime.date.max))


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
            codes = _validation.code_numbers(entries, list(self.values)).astype(np.float64)
            codes[codes == len(self.values)] = np.nan
            return codes
        if self.found:
            return np.full(len(entries), np.nan)
        if entries.dtype.kind in "biuf":
            found = entries.astype(np.float64)
        else:
            try:
                found = np.array([_number(value, self.kind) for value in entries.tolist()], dtype=np.float64)
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


@dataclass(frozen=True, kw_only=True)
class FrameSchema:
    """A kind of table: its library (None for an array), the names of its columns, and what they hold."""

    library: str | None
    names: tuple[Any, ...]
    columns: tuple[FrameColumn, ...]

    @classmethod
    def of(cls, X: Any, declaration: Mapping[Any, Any] | None) -> FrameSchema:
        """Read names and types of a table, and what is declaration of its columns; no entry is looked at."""
        names, frame = _validation.column_names(X), _validation.is_frame(X)
        kinds, types = _validation.column_kinds(X), _types(X)
        kinds = kinds * len(names) if len(kinds) < len(names) else kinds
        known = _by_position(declaration, names)
        columns = []
        for j, (kind, dtype, declared) in enumerate(zip(kinds, types, _validation.declared_values(X), strict=True)):
            found = known.get(j)
            label = _validation.column_label(j, names if frame else None)
            if found == _DROP:
                continue
            columns.append(_column(j, label, dtype, kind, declared, found if frame or kind or found else _NUMBER))
        if not columns:
            raise ValueError(must_be("schema", "something other than 'drop' for a column", "none"))
        listed = {own.position: own.values for own in columns if own.values is not None}
        _validation.refuse_other_kinds(X, listed, name="schema")
        _validation.in_own_type(X, listed, name="schema")
        library = nw.from_native(X, eager_only=True).implementation.value if frame else None
        return cls(library=library, names=tuple(names), columns=tuple(columns))

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

    def with_values(self, found: Mapping[int, tuple[Any, ...]]) -> FrameSchema:
        """Put in released values."""
        columns = [replace(own, values=found.get(j, own.values)) for j, own in enumerate(self.columns)]
        return replace(self, columns=tuple(columns))

    def write(self, columns: list[noise.FloatArray], cells: tuple[Cells, ...], gaps: tuple[bool, ...]) -> Any:
        """Make a table of numbers and codes; ``gaps`` says which columns have some by released counts."""
        made = [
            _entries(own, values, whole=not gap and (_is_whole(cell) or own.lists_integers))
            for own, values, cell, gap in zip(self.columns, columns, cells, gaps, strict=True)
        ]
        names = [self.names[own.position] for own in self.columns]
        if self.library is None:
            if all(isinstance(own, np.ndarray) for own in made):
                return np.column_stack(made)
            table = np.empty((len(columns[0]), len(made)), dtype=object)
            for j, own in enumerate(made):
                table[:, j] = own
            return table
        if self.library == "pandas":
            import pandas as pd

            parts = [_pandas(own, entries) for own, entries in zip(self.columns, made, strict=True)]
            return pd.concat(parts, axis=1, keys=range(len(parts))).set_axis(names, axis=1)
        series = [
            _series(str(name), own, entries, self.library)
            for name, own, entries in zip(names, self.columns, made, strict=True)
        ]
        return nw.concat([one.to_frame() for one in series], how="horizontal").to_native()


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


def _types(X: Any) -> list[Any]:
    """List types of columns in their own library, without the values that they list; of an array its own for each."""
    if nw.dependencies.is_pandas_dataframe(X):
        found = list(X.dtypes)
    elif not _validation.is_frame(X):
        dtype = getattr(X, "dtype", np.dtype(object))  # that of texts has the length of the longest one
        return [dtype if isinstance(dtype, np.dtype) and dtype.kind in "iufb" else np.dtype(object)] * np.shape(X)[1]
    else:
        natives = [column.to_native() for column in nw.from_native(X, eager_only=True).iter_columns()]
        found = [native.dtype if hasattr(native, "dtype") else native.type for native in natives]
    return [
        (_ORDERED if getattr(dtype, "ordered", False) else _LISTED) if hasattr(dtype, "categories") else dtype
        for dtype in found
    ]


def _by_position(declaration: Mapping[Any, Any] | None, names: list[Any]) -> dict[int, Any]:
    """Find the columns that a schema names, by name or position."""
    if declaration is None:
        return {}
    if not isinstance(declaration, Mapping):
        raise TypeError(must_be("schema", "a mapping of columns to what they hold", type(declaration).__name__))
    places = {name: j for j, name in enumerate(names)}
    other = [
        name for name in declaration if name not in places and not (isinstance(name, int) and 0 <= name < len(names))
    ]
    if other:
        raise ValueError(must_be("schema", f"names among {names[:20]}, or positions", other[0]))
    return {places.get(name, name): _read_entry(str(name), entry) for name, entry in declaration.items()}


def _read_entry(label: str, entry: Any) -> Any:
    """Read what is declaration of one column: a word, a pair of limits or a list of values."""
    if isinstance(entry, str) and entry in WORDS:
        return entry
    spelled = isinstance(entry, Mapping) and len(entry) == 1
    kind, given = next(iter(entry.items())) if spelled else ("", entry)
    values = _validation.public_values(given) if kind in ("", "limits", "values") else None
    if kind == "limits" or (not kind and isinstance(entry, tuple) and len(entry) == 2):
        return _validation.check_bounds({0: given}, 1, [label], parameter="schema")[0]
    if not values or not _validation.all_differ(values):
        allowed = f"limits (low, high), a list of different values or one of {', '.join(map(repr, WORDS))}"
        raise ValueError(must_be(f"schema[{label!r}]", allowed, type(entry).__name__))
    return [_validation.plain_entry(value) for value in values if _validation.plain_entry(value) is not None]


def _column(
    j: int, label: str, dtype: object, kind: str | None, declared: list[Any] | None, declaration: object
) -> FrameColumn:
    """Decide what a column holds, by its type and what is declaration of it."""
    made: dict[str, Any] = {"position": j, "label": label, "dtype": dtype}
    if isinstance(declaration, list):
        return FrameColumn(**made, kind=_CATEGORY, values=tuple(declaration))
    if declaration == _CATEGORY and declared is None and kind not in _validation.TIME_KINDS:
        return FrameColumn(**made, kind=_CATEGORY, found=True)
    if declared is not None and declaration in (None, _CATEGORY):
        values = tuple(value for value in declared if value is not None)
        if values:
            return FrameColumn(**made, kind=_CATEGORY, values=values)
    if kind in _validation.TIME_KINDS and kind not in ("durations", "times of day"):
        if isinstance(declaration, tuple):
            raise ValueError(
                must_be(f"schema[{label}]", "'date' or nothing, as dates need no limits", repr(declaration))
            )
        return FrameColumn(**made, kind=_DATE if kind == "dates" else "time")
    if kind == "numbers" or (kind is None and (declaration == _NUMBER or isinstance(declaration, tuple))):
        return FrameColumn(**made, kind=_NUMBER, bounds=declaration if isinstance(declaration, tuple) else None)
    if kind is None and declaration == _DATE:
        return FrameColumn(**made, kind="time")
    raise TypeError(
        must_be(
            f"schema[{label}]",
            "said where the type does not tell what a column holds",
            f"nothing for {kind or 'objects'}",
            "List its values, known without looking at the rows, say 'category' for values that are found privately, "
            "'number', or leave it out with 'drop'.",
        )
    )


def _number(value: object, kind: str) -> float:
    """Convert an entry to a number: dates and times to seconds since the year 2000 in UTC, or to days."""
    unit = 1.0 if kind == "time" else _DAY
    if value is None:
        return math.nan
    if isinstance(value, datetime.datetime):
        apart = value.replace(tzinfo=None) - _ORIGIN - (value.utcoffset() or datetime.timedelta(0))
        return apart.total_seconds() / unit
    if isinstance(value, datetime.date):
        return (value - _ORIGIN.date()).days * (_DAY / unit)
    if isinstance(value, np.datetime64):  # finer than Python's
        return float(value.astype("M8[s]").astype(np.int64) - _EPOCH) / unit
    if not isinstance(value, Number) or isinstance(value, np.timedelta64):
        raise TypeError
    try:
        found = float(value)  # type: ignore[arg-type]
    except OverflowError:
        found = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if math.isinf(found) and value != found:  # type: ignore[comparison-overlap]
        return math.copysign(sys.float_info.max, found)
    return found


def _entries(own: FrameColumn, values: noise.FloatArray, *, whole: bool) -> Any:
    """Make entries of a column: an array for numbers of NumPy's types, else a list with None for gaps."""
    gap = np.isnan(values)
    plain = isinstance(own.dtype, np.dtype) and own.dtype.kind in "iuf"
    if own.values is not None:
        if plain and all(isinstance(value, Real) for value in own.values):
            numbers = np.array([*own.values, 0 if whole else np.nan], dtype=np.int64 if whole else np.float64)
            return numbers[np.where(gap, len(own.values), values).astype(np.int64)]
        listed = [*own.values, None]
        return [listed[k] for k in np.where(gap, len(own.values), values).astype(np.int64).tolist()]
    safe = np.where(gap, 0.0, values)
    if own.kind == _NUMBER:
        kind = str(own.dtype).lower()
        if plain and kind not in ("float32", "float16"):
            return values.astype(np.int64) if whole else values
        if plain:
            return values.astype(own.dtype)
        if kind.startswith("decimal"):
            found: list[Any] = decimals(safe, own.dtype)
        elif "int" in kind:
            found = _integers(safe, kind)
        elif kind.startswith("bool"):
            found = (safe > 0.5).tolist()
        else:
            found = [int(value) for value in safe] if whole else safe.tolist()
    elif own.kind == _DATE:
        days = np.clip(np.rint(safe), _LEAST_DAY, _MOST_DAY).astype(int).tolist()
        found = [_ORIGIN.date() + datetime.timedelta(days=day) for day in days]
    else:
        zone = datetime.UTC if getattr(own.dtype, "tz", None) or getattr(own.dtype, "time_zone", None) else None
        seconds = np.clip(safe, (_LEAST_DAY + 1) * 86400, _MOST_DAY * 86400).tolist()
        found = [(_ORIGIN + datetime.timedelta(seconds=second)).replace(tzinfo=zone) for second in seconds]
    return [None if missing else value for missing, value in zip(gap.tolist(), found, strict=True)]


def _integers(values: noise.FloatArray, kind: str) -> list[int]:
    """Round to integers that a type holds."""
    digits = "".join(filter(str.isdigit, kind.split("[", maxsplit=1)[0])) or "64"
    bits, unsigned = min(int(digits), 64), "uint" in kind
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [min(max(round(value), low), high) for value in values.tolist()]


def _pandas(own: FrameColumn, entries: Any) -> Any:
    import pandas as pd

    if isinstance(entries, np.ndarray):
        return pd.Series(entries)
    if isinstance(own.dtype, str):
        categories = list(own.values or ())
        return pd.Series(pd.Categorical(entries, categories=categories, ordered=own.dtype == _ORDERED))
    if own.dtype == object and own.values and all(isinstance(value, bool) for value in own.values):
        own = replace(own, dtype=np.dtype(bool))  # pandas makes objects of them for a gap
    if own.dtype == np.bool_ and None in entries:
        return pd.Series(entries, dtype=object)
    try:
        return pd.Series(entries, dtype=own.dtype)
    except (TypeError, ValueError):  # listed values that their type does not hold
        return pd.Series(entries, dtype=object)


def _series(name: str, own: FrameColumn, entries: Any, library: str) -> nw.Series[Any]:
    if library == "pyarrow":
        import pyarrow as pa  # type: ignore[import-untyped]

        array = pa.array(entries, getattr(own.dtype, "value_type", own.dtype))
        arrow: nw.Series[Any] = nw.from_native(pa.chunked_array([array]), series_only=True)
        return arrow.cast(nw.Categorical()).alias(name) if hasattr(own.dtype, "value_type") else arrow.alias(name)
    import polars as pl

    if isinstance(own.dtype, str):
        return nw.from_native(pl.Series(name, entries, pl.Enum(list(own.values or ()))), series_only=True)
    if isinstance(own.dtype, pl.Datetime) and own.dtype.time_zone:
        plain = pl.Series(name, entries, pl.Datetime(own.dtype.time_unit, "UTC"))
        return nw.from_native(plain.dt.convert_time_zone(own.dtype.time_zone), series_only=True)
    return nw.from_native(pl.Series(name, entries, own.dtype), series_only=True)
