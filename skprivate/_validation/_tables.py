"""Tables of any kind, read column by column and entry by entry: no entry depends on another row."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Hashable, KeysView, Mapping, Sequence, ValuesView
from decimal import Decimal
from fractions import Fraction
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from skprivate._validation._arrays import columns_in_words, is_frame, refuse_elsewhere, validate_data

_EXACT = {str, int, bool, bytes, type(None)}
#: What messages call the kinds of entries, by NumPy's letters; objects are looked at one by one.
_KINDS = {**dict.fromkeys("biufc", "numbers"), "U": "text", "S": "bytes", "m": "durations"}
_NAIVE, _ZONED = "times without a zone", "times with a zone"
#: Kinds that are no numbers without a unit and an origin.
TIME_KINDS = {"dates", "durations", "times of day", _NAIVE, _ZONED}
#: Midnight that dates are counted from, and in UTC where times have a zone; a Saturday.
ORIGIN = datetime.datetime(2000, 1, 1)
#: Days from NumPy's origin to ours, and days of its units; mean ones of the calendar, for years far away.
_EPOCH = (ORIGIN - datetime.datetime(1970, 1, 1)).days
_YEAR = Fraction(365.2425)
_DAYS = {"Y": _YEAR, "M": _YEAR / 12, "W": Fraction(7), "D": Fraction(1), "h": Fraction(1, 24), "m": Fraction(1, 1440)}
_DAYS |= {unit: Fraction(1, 86400 * 1000**k) for k, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))}


def any_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray[Any]:
    """Validate a table of entries of any kind, which may be missing: numbers of one type, or objects (`entries`)."""
    if not is_frame(X):
        rows = np.array(X, dtype=object) if isinstance(X, list | tuple) else X
        return entries(validate_data(estimator, rows, dtype=None, ensure_all_finite=False, reset=reset))
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    columns = frame_columns(X)
    types = {column.dtype for column in columns}
    table = np.empty(X.shape, dtype=types.pop() if len(types) == 1 else object, order="F")
    for j, column in enumerate(columns):
        table[:, j] = column
        if table.dtype == object and column.dtype.kind == "f":
            table[np.isnan(column), j] = None
    checked: NDArray[Any] = check_array(table, dtype=None, ensure_all_finite=False, estimator=estimator)
    return checked


def frame_columns(X: Any) -> list[NDArray[Any]]:
    """Read the columns of a frame, each by its own type, as `entries` does."""
    return [entries(column_array(column), _zone(column.dtype)) for column in _series(X)]


def column_array(column: nw.Series[Any]) -> NDArray[Any]:
    """Read a column in its own type; integers and booleans beside a null are Python objects, and the null is None."""
    dtype = column.dtype
    if dtype.is_float() or isinstance(dtype, nw.Datetime | nw.Duration):
        array = np.asarray(column.to_numpy())
        return array.astype(np.float64) if dtype.is_float() and array.dtype == object else array
    if (dtype.is_integer() and "128" not in str(dtype)) or dtype == nw.Boolean:
        missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
        kind = np.bool_ if dtype == nw.Boolean else np.dtype(str(dtype).lower())
        if not missing.any():
            return np.asarray(column.to_numpy(), dtype=kind)
        values = np.asarray(column.fill_null(False if dtype == nw.Boolean else 0).to_numpy()).astype(kind)
        array = values.astype(object)
        array[missing] = None
        return array
    if dtype == nw.Date or _has_date64(column):  # Python has fewer years
        return np.asarray(column.cast(nw.Datetime("ms")).to_numpy()).astype("M8[D]")
    array = np.empty(len(column), dtype=object)
    array[:] = column.to_list()
    return array


def _has_date64(column: nw.Series[Any]) -> bool:
    """Tell if a column has a type of pyarrow that narwhals does not know."""
    native = column.to_native()
    return str(getattr(native, "type", None) or getattr(native, "dtype", None)).startswith("date64[")


def entries(values: NDArray[Any], zone: bool = False) -> NDArray[Any]:
    """Convert all but numbers to plain Python objects: None where missing, times with a ``zone`` in UTC."""
    if values.dtype.kind in "biufc":
        return values
    plain = np.empty(values.size, dtype=object)
    if values.dtype.kind in "mM":
        plain[:] = _times(values.ravel())
        if zone:
            plain[:] = list(map(_in_utc, plain))
    else:
        plain[:] = list(map(plain_entry, values.ravel().tolist()))
    return plain.reshape(values.shape)


def plain_entry(value: object) -> Any:
    """Convert an entry to Python; None where it is missing (NaN, NaT, pandas.NA), UTC for a time with a zone."""
    if type(value) in _EXACT:
        return value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _times(np.array([value]))[0]
    if isinstance(value, np.generic):
        value = value.item()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Number):  # a signalling NaN cannot be compared
        nan = value.is_nan() if isinstance(value, Decimal) else value != value
        return None if nan else value
    if isinstance(value, datetime.datetime | datetime.timedelta) and hasattr(value, "to_numpy"):  # of pandas
        (plain,) = _times(np.array([value.to_numpy()]))
        return plain if getattr(value, "tzinfo", None) is None else _in_utc(plain)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(datetime.UTC)
        except OverflowError:  # next to the first or the last year
            return (datetime.datetime.min if value.year == 1 else datetime.datetime.max).replace(tzinfo=datetime.UTC)
    return value


def as_number(value: object, unit: datetime.timedelta) -> float:
    """Convert an entry as `entries` makes it: NaN for a gap, units since `ORIGIN` for dates and times; or refuse it."""
    if value is None:
        return math.nan
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - ORIGIN - (value.utcoffset() or datetime.timedelta(0))) / unit
    if isinstance(value, datetime.date):
        return (value - ORIGIN.date()) / unit
    if isinstance(value, np.datetime64):  # finer than Python's, or a year that those do not have
        name, count = np.datetime_data(value.dtype)
        # By Python's integers: NumPy's may overflow.
        return float((_DAYS[name] * count * int(value.astype(np.int64)) - _EPOCH) * (datetime.timedelta(1) // unit))
    if not isinstance(value, Number) or isinstance(value, np.timedelta64):
        raise TypeError
    # More than a float holds is the largest one: an error would tell of the row.
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max  # type: ignore[operator]
    cut = math.isinf(number) and value != number  # type: ignore[comparison-overlap]
    return math.copysign(sys.float_info.max, number) if cut else number


def _in_utc(value: object) -> Any:
    """Set the zone of NumPy's time in UTC; those finer than microseconds have none."""
    return value.replace(tzinfo=datetime.UTC) if isinstance(value, datetime.datetime) else value


def missing_mask(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark missing entries of an array as `entries` makes it."""
    if values.dtype != object:
        return np.asarray(values != values)
    return np.array([value is None for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def code_numbers(values: NDArray[Any], listed: Sequence[Any]) -> NDArray[np.int64]:
    """Find the position of each entry among public values, or their number; all that is missing is one value."""
    numbers = {form: k for k, value in enumerate(listed) for form in _forms(value)}
    rest = len(listed)

    def number(value: object) -> int:
        try:
            return numbers.get(value, rest)
        except TypeError:  # not hashable, hence not listed
            return rest

    different, places = np.unique(values, return_inverse=True) if values.dtype.kind in "biuf" else (values, ...)
    codes = np.fromiter(map(number, different.tolist()), np.int64, different.size)[places]
    if values.dtype.kind in "fc" and None in numbers:
        codes[np.isnan(values)] = numbers[None]
    return codes


def all_differ(listed: Sequence[Any]) -> bool:
    """Tell if public values differ from each other; all that is missing is one."""
    forms = [_forms(value) for value in listed]
    return len(set().union(*forms)) == sum(map(len, forms))


def _forms(value: object) -> set[Any]:
    """List what is one public value among objects: a float, and the decimal that is written like it."""
    value = plain_entry(value)
    if isinstance(value, float) and math.isfinite(value):
        return {value, Decimal(repr(value))}
    if isinstance(value, Decimal) and math.isfinite(value):
        return {value, float(value)}
    return {value}


def public_values(given: object) -> list[Any] | None:
    """List the values of a sequence of any library; None for text, sets, tables and what could not be an entry."""
    arrow, array = hasattr(given, "to_pylist"), hasattr(given, "__array__")
    in_order = isinstance(given, Sequence | KeysView | ValuesView) or arrow or array
    if isinstance(given, str | bytes) or not in_order or len(getattr(given, "shape", (0,))) != 1:
        return None
    values = given.to_pylist() if arrow else list(given)
    return values if all(isinstance(value, Hashable) for value in values) else None


def refuse_other_kinds(
    X: Any, listed: Mapping[int, Sequence[Any]], *, entry_types: bool = False, name: str = "categories"
) -> None:
    """Refuse public values of a kind that their column does not have, because no entry could match.

    Types of columns are public. Of columns of objects, those of the entries are, where ``entry_types`` is set.
    """
    kinds = column_kinds(X)
    table = None if any(kinds) or is_frame(X) or not entry_types else np.array(X, dtype=object)
    columns = _series(X) if is_frame(X) and entry_types else ()
    for j, values in listed.items():
        kind = kinds[j] if len(kinds) > 1 or is_frame(X) else kinds[0]
        found = {kind} if kind else set()
        if not kind and entry_types:
            objects = column_array(columns[j]) if columns else table[:, j]  # type: ignore[index]
            found = _kinds_of(objects)
        wanted = _kinds_of(values)
        if found and wanted and not found & wanted:
            raise TypeError(
                f"{name} of {columns_in_words(X, [j])} are {' and '.join(sorted(wanted))}, but the column holds "
                f"{' and '.join(sorted(found))}: no entry could be one of them. List values of the column's own kind, "
                "or convert the column first."
            )


def in_own_type(X: Any, listed: Mapping[int, Sequence[Any]], *, name: str = "categories") -> dict[int, list[Any]]:
    """Convert public numbers to the type of their column, a public one: a narrow float never equals 0.1."""
    if is_frame(X):
        types = [str(column.dtype).lower() for column in _series(X)]
    else:
        types = [str(getattr(X, "dtype", "object"))] * (1 + max(listed, default=0))
    converted = {j: [_in_type(plain_entry(value), types[j]) for value in values] for j, values in listed.items()}
    for j, values in converted.items():
        if not all_differ(values):
            raise ValueError(
                f"{name} of {columns_in_words(X, [j])} must differ from each other in the column's type {types[j]}, "
                f"got {list(listed[j])!r}."
            )
    return converted


@np.errstate(all="ignore")
def _in_type(value: object, dtype: str) -> Any:
    """Convert a number; what its column could not hold stays as it is, and is found nowhere."""
    if not isinstance(value, Number):
        return value
    try:
        if dtype.startswith("float"):
            converted = np.dtype(dtype).type(value).item()
            return converted if math.isfinite(converted) else value
        if dtype.startswith("decimal"):
            return value if isinstance(value, Decimal) else Decimal(repr(value))
        of_type = bool if dtype.startswith("bool") else int if dtype.lstrip("u").startswith("int") else None
        return of_type(value) if of_type and of_type(value) == value else value
    except (TypeError, ValueError, ArithmeticError):
        return value


def filled_frame(X: Any, fill: Sequence[Any]) -> Any:
    """Fill the gaps of a frame with one value for each column, in the column's own type."""
    frame = nw.from_native(X, eager_only=True)
    floats = [nw.col(name) for name, dtype in frame.schema.items() if dtype.is_float()]
    frame = frame.with_columns(*(nw.when(~column.is_nan()).then(column) for column in floats))
    columns = (column.fill_null(value) for column, value in zip(frame.iter_columns(), fill, strict=True))
    filled = frame.with_columns(*columns).to_native()
    return filled.cast(X.schema) if hasattr(X, "schema") else filled  # polars widens decimals


def _kinds_of(values: object) -> set[str]:
    """List kinds of the values that are not missing."""
    return {_kind(value) for value in values if plain_entry(value) is not None}


def _kind(value: object) -> str:
    if isinstance(value, np.datetime64):
        return _time_kind(value.dtype)
    if isinstance(value, datetime.datetime):
        return _ZONED if value.tzinfo is not None else _NAIVE
    known = {
        Number | np.bool_: "numbers",
        str: "text",
        bytes: "bytes",
        datetime.date: "dates",
        datetime.timedelta | np.timedelta64: "durations",
        datetime.time: "times of day",
    }
    return next((name for kind, name in known.items() if isinstance(value, kind)), type(value).__name__)


def _time_kind(dtype: object) -> str:
    return "dates" if np.datetime_data(dtype)[0] in "YMWD" else _NAIVE


def column_kinds(X: Any) -> list[str | None]:
    """Determine the kinds of columns of a frame by their types alone; of an array the only one. None for objects."""
    if is_frame(X):
        return [_type_kind(column) for column in _series(X)]
    dtype: Any = getattr(X, "dtype", np.dtype(object))
    if dtype.kind == "M":
        return [_time_kind(dtype)]
    return [_KINDS.get(dtype.kind)]


def declared_values(X: Any) -> list[list[Any] | None]:
    """List the values that the type of each column declares: of booleans, categories and enumerations; else None.

    Categories that polars or pyarrow collect while they read rows are no part of a type.
    """
    if not is_frame(X):
        is_bool = getattr(getattr(X, "dtype", None), "kind", "") == "b"
        return [[False, True] if is_bool else None] * np.shape(X)[1]
    return [_declared(column) for column in _series(X)]


def _declared(column: nw.Series[Any]) -> list[Any] | None:
    if column.dtype == nw.Boolean:
        return [False, True]
    categories = getattr(getattr(column.to_native(), "dtype", None), "categories", None)
    known = type(categories).__module__.partition(".")[0] == "pandas" or isinstance(column.dtype, nw.Enum)
    return [plain_entry(value) for value in categories] if known else None


def column_names(X: Any) -> list[Any]:
    """List names of the columns of a frame, or positions of those of an array."""
    if not is_frame(X):
        return list(range(np.shape(X)[1]))
    frame = nw.dependencies.is_pandas_dataframe(X)
    return list(X.columns) if frame else list(nw.from_native(X, eager_only=True).columns)


def _type_kind(column: nw.Series[Any]) -> str | None:
    if str(getattr(column.to_native(), "dtype", "")) == "object":  # narwhals looks at entries
        return None
    dtype = column.dtype
    if isinstance(dtype, nw.Datetime):
        return _ZONED if _zone(dtype) else _NAIVE
    known = {
        nw.Boolean: "numbers",
        nw.String: "text",
        nw.Date: "dates",
        nw.Duration: "durations",
        nw.Time: "times of day",
        nw.Binary: "bytes",
    }
    if dtype.is_numeric():
        return "numbers"
    if _has_date64(column):
        return "dates"
    return next((name for kind, name in known.items() if dtype == kind), None)


def _zone(dtype: object) -> bool:
    return getattr(dtype, "time_zone", None) is not None


def _series(X: Any) -> list[nw.Series[Any]]:
    """List columns of a frame; those of pandas may have any names, one of them several times."""
    refuse_elsewhere(X)
    if nw.dependencies.is_pandas_dataframe(X):
        return [nw.from_native(X.iloc[:, j], series_only=True) for j in range(X.shape[1])]
    return list(nw.from_native(X, eager_only=True).iter_columns())


def _times(values: NDArray[Any]) -> list[Any]:
    """Convert NumPy's times to Python's, exactly; those finer than microseconds, and of other years, stay."""
    unit = np.datetime_data(values.dtype)[0]
    if unit not in ("ns", "ps", "fs", "as"):
        plain = values.tolist()
        return [own if isinstance(one, int) else one for one, own in zip(plain, values, strict=True)]
    coarse = values.astype(f"{values.dtype.kind}8[us]")
    kept = (coarse == values) | np.isnat(values)
    return [one if same else value for one, same, value in zip(coarse.tolist(), kept, values, strict=True)]
