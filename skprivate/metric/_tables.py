"""Tables of users, checked column by column, and synthetic rows in the same kind of table.

The schema of a table, names and types of columns, is public. Values that a type lists (the categories of a pandas or
polars column, the longest string of a NumPy array) may come from the rows and are forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from numbers import Real
from typing import Any, cast

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skprivate import _validation
from skprivate._sklearn import _MISSING
from skprivate.metric.net import tree_distances
from skprivate.partitions import InMemory, Partitions, as_partitions, is_partitioned
from skprivate.privacy.noise import FloatArray

#: Replacements of types that list values.
_LISTED, _ORDERED = "listed values", "ordered values"
LIST_ADVICE = (
    "List the public values of text, categories={column: [value, ...]}, turn numbers written as text into numbers "
    "(pandas.to_numeric), leave out free text and identifiers"
)
_AS_NUMBERS = (
    "convert them to numbers in a unit and from an origin that are public, such as days since 2020-01-01, with bounds "
    "in that unit, or to text that categories list."
)


@dataclass(frozen=True)
class TableKind:
    """Kind of a table: library (None for arrays), names and types of its columns, without values that types list."""

    library: str | None
    names: tuple[Any, ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any) -> TableKind:
        """Find the kind of a table; no entry is looked at."""
        names = tuple(_validation.column_names(X))
        if not _validation.is_frame(X):
            dtype = getattr(X, "dtype", np.dtype(np.float64))
            # A type of texts has the length of the longest one.
            numeric = isinstance(dtype, np.dtype) and dtype.kind in "iufb"
            return cls(None, names, (dtype if numeric else np.dtype(object),) * len(names))
        frame = nw.from_native(X, eager_only=True)
        if (library := frame.implementation.value) == "pandas":
            dtypes = list(X.dtypes)
        else:
            natives = [column.to_native() for column in frame.iter_columns()]
            dtypes = [native.dtype if hasattr(native, "dtype") else native.type for native in natives]
        return cls(library, names, tuple(map(_without_values, dtypes)))

    def table(self, columns: Sequence[Any], listed: Sequence[tuple[Any, ...] | None]) -> Any:
        """Make a table of this kind of columns: arrays of numbers, or lists with None for gaps; and their values."""
        if self.library is None:
            if all(isinstance(column, np.ndarray) for column in columns):
                return np.column_stack(columns)
            table = np.empty((len(columns[0]), len(columns)), dtype=object)
            for j, column in enumerate(columns):
                table[:, j] = column
            return table
        typed = zip(columns, self.dtypes, listed, strict=True)
        if self.library == "pandas":
            import pandas as pd

            parts = [_pandas_column(*column) for column in typed]
            return pd.concat(parts, axis=1, keys=range(len(parts))).set_axis(list(self.names), axis=1)
        series = [_column(str(name), *column) for name, column in zip(self.names, typed, strict=True)]
        return nw.concat([one.to_frame() for one in series], how="horizontal").to_native()

    def rows(self, columns: list[NDArray[Any]], values: Mapping[int, tuple[Any, ...]]) -> Any:
        """Make a table of columns of float64 without gaps, in their types, or of objects for those with ``values``."""
        listed = [value for column in values.values() for value in column]
        plain = (
            self.library is None
            and self.dtypes[0].kind in "iufb"
            and all(isinstance(value, Real | np.bool_) for value in listed)
        )
        found: list[Any] = []
        for j, (column, dtype) in enumerate(zip(columns, self.dtypes, strict=True)):
            if j in values and not plain:
                found.append(column.tolist())
            elif not isinstance(dtype, str) and str(dtype).lower().startswith("decimal"):
                found.append(decimals(column, dtype))
            else:
                found.append(as_dtype(column.astype(np.float64), numpy_twin(dtype)))
        return self.table(found, [values.get(j) for j in range(len(columns))])

    def refuse_other_types(self, columns: list[NDArray[Any]], values: Mapping[int, tuple[Any, ...]]) -> None:
        """Refuse types that synthetic rows cannot have, by making some rows of public values."""
        try:
            self.rows(columns, values)
        except Exception as error:  # of whatever library
            types = ", ".join(dict.fromkeys(map(str, self.dtypes)))
            raise TypeError(
                f"X must have columns of types that synthetic rows can have, got {types}: {error}. Convert them, to "
                "float64 for example."
            ) from None


class TableSchema:
    """Kind of a table as pickles of earlier versions have it."""

    library: str | None
    names: tuple[Any, ...] | None
    dtypes: tuple[Any, ...]

    def kind(self, n_columns: int) -> TableKind:
        """Convert to what this version knows."""
        if self.names is None:
            return TableKind(None, tuple(range(n_columns)), self.dtypes * n_columns)
        return TableKind(self.library, self.names, tuple(map(self._own_type, self.dtypes)))

    def _own_type(self, dtype: Any) -> Any:
        if dtype == "categories" and self.library != "pandas":
            dtype = nw.Categorical()
        elif isinstance(dtype, str):
            return _ORDERED if dtype == "ordered categories" else _LISTED
        if not isinstance(dtype, nw.dtypes.DType):
            return dtype
        native: Any = nw.new_series("column", [], dtype, backend=cast(Any, self.library)).to_native()
        return getattr(native, "dtype", None) or native.type


def numeric_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> FloatArray:
    """Validate rows of finite float64; errors name the column."""
    try:
        table: FloatArray = _validation.validate_data(
            estimator, X, dtype=np.float64, ensure_all_finite=False, reset=reset
        )
    except (TypeError, ValueError) as error:
        if not hasattr(estimator, "categories") or _validation.TEXT_ADVICE not in str(error):
            raise
        raise type(error)(str(error).replace(_validation.TEXT_ADVICE, LIST_ADVICE)) from None
    refuse_missing(table, getattr(estimator, "feature_names_in_", None), type(estimator).__name__)
    return table


def mixed_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray[Any]:
    """Validate rows of any entries but dates."""
    refuse_dates(X)
    return _validation.any_table(estimator, X, reset=reset)


def read_tables(estimator: BaseEstimator, X: Any, read: Callable[..., NDArray[Any]]) -> tuple[TableKind, Partitions]:
    """Read the kind of a table and its checked rows, in memory or in blocks; the estimator learns its columns."""
    if not is_partitioned(X):
        rows = InMemory(read(estimator, X, reset=True))
        return TableKind.of(X), rows
    source = as_partitions(X)
    blank, names = _validation.learn_columns(estimator, source.empty)
    return TableKind.of(source.empty), source.map(partial(_read_block, blank=blank, read=read, names=names))


def _read_block(
    block: Any, blank: BaseEstimator, read: Callable[..., NDArray[Any]], names: tuple[Any, ...] | None
) -> NDArray[Any]:
    if block.shape[0] == 0:
        return np.empty((0, blank.n_features_in_), dtype=np.float64 if read is numeric_table else object)
    _validation.refuse_other_columns(block, names)
    return read(blank, block, reset=False)


def numbers(cells: NDArray[Any], label: str) -> FloatArray:
    """Convert the entries of a column to float64."""
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"column {label} of X holds values that are missing or not numbers: could not convert to float, the "
            f"argument must be a string that reads as a number, or a number. {LIST_ADVICE}."
        ) from None


def refuse_missing(table: FloatArray, names: Any, who: str, positions: Any = None) -> None:
    """Refuse NaN and infinity, naming the column."""
    for j in range(table.shape[1]):
        if not bool(np.isfinite(table[:, j]).all()):
            label = _validation.column_label(j if positions is None else positions[j], names)
            if bool(np.isnan(table[:, j]).any()):
                raise ValueError(f"Input X contains NaN in column {label}.\n{who} {_MISSING}")
            raise ValueError(f"Input X contains infinity in column {label}; only finite numbers are allowed.")


def refuse_dates(X: Any) -> None:
    """Refuse columns of dates: their unit and origin would have to be guessed."""
    for j, kind in enumerate(_validation.column_kinds(X)):
        if kind in _validation.TIME_KINDS:
            where = f"{_validation.columns_in_words(X, [j])} of X" if _validation.is_frame(X) else "X"
            raise TypeError(f"{where} holds dates or times ({kind}); {_AS_NUMBERS}")


def _without_values(dtype: Any) -> Any:
    """Replace a type that lists values: the public ones are listed in their place."""
    if not hasattr(dtype, "categories"):
        return dtype
    if type(dtype).__name__ == "Categorical":  # of polars, which lists what it reads
        return type(dtype)()
    return _ORDERED if getattr(dtype, "ordered", False) else _LISTED


def as_dtype(column: FloatArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert floats to a numeric type; for integers and booleans to the nearest value that the type holds."""
    if dtype.kind == "f":
        return column.astype(dtype)
    if dtype.kind not in "iub":
        return column
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    highest = float(high) if int(float(high)) <= high else float(np.nextafter(float(high), 0.0))
    return np.clip(np.rint(column), float(low), highest).astype(dtype)


def numpy_twin(dtype: object) -> np.dtype[Any]:
    """Find NumPy's type for a numeric type of any library; float64 for others."""
    name = str(dtype).lower().removesuffix("[pyarrow]").replace("boolean", "bool").replace("double", "float64")
    name = {"float": "float32", "halffloat": "float16"}.get(name, name)
    try:
        twin = np.dtype(name)
    except (TypeError, ValueError):
        return np.dtype(np.float64)
    return twin if twin.kind in "iufb" else np.dtype(np.float64)


def decimals(column: NDArray[Any], dtype: object) -> list[Any]:
    """Round floats to the decimals of a type, whose digits are public."""
    precision, scale = map(int, re.findall(r"-?\d+", str(dtype))[-2:])
    context, unit = Context(prec=400), Decimal(1).scaleb(-scale)
    most = (10**precision - 1) * unit
    return [min(max(Decimal(x), -most), most).quantize(unit, context=context) for x in column.tolist()]


def _pandas_column(entries: Any, dtype: Any, listed: tuple[Any, ...] | None) -> Any:
    import pandas as pd

    if isinstance(entries, np.ndarray):
        extends = isinstance(dtype, pd.api.extensions.ExtensionDtype)
        numeric = extends and (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))
        return pd.Series(entries).astype(dtype) if numeric else pd.Series(entries)
    if isinstance(dtype, str):
        return pd.Series(pd.Categorical(entries, categories=list(listed or ()), ordered=dtype == _ORDERED))
    if dtype == np.bool_ and None in entries:
        return pd.Series(entries, dtype=object)
    try:
        return pd.Series(entries, dtype=dtype)
    except (TypeError, ValueError):  # decided by the listed values and the type, both public
        return pd.Series(entries, dtype=object)


def _column(name: str, entries: Any, dtype: Any, listed: tuple[Any, ...] | None) -> nw.Series[Any]:
    """Make a column of pyarrow, or of polars."""
    if type(dtype).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa  # type: ignore[import-untyped]

        plain = getattr(dtype, "value_type", dtype)
        array = pa.array(entries).cast(plain) if isinstance(entries, np.ndarray) else pa.array(entries, plain)
        array = array if plain is dtype else array.dictionary_encode()
        arrow: nw.Series[Any] = nw.from_native(pa.chunked_array([array]), series_only=True)
        return arrow.alias(name)
    import polars as pl

    zone = getattr(dtype, "time_zone", None)
    if isinstance(entries, np.ndarray):
        series = pl.Series(name, entries)
        series = series.cast(dtype) if not isinstance(dtype, str) and dtype.is_numeric() else series
    elif isinstance(dtype, str):
        series = pl.Series(name, entries, pl.Enum(list(listed or ())))
    elif zone:
        series = pl.Series(name, entries, pl.Datetime(dtype.time_unit, "UTC")).dt.convert_time_zone(zone)
    else:
        series = pl.Series(name, entries, dtype)
    return nw.from_native(series, series_only=True)


def leaves_of(parents: Mapping[Any, Any]) -> list[Any]:
    """List nodes that are nobody's parent, in the order of the mapping."""
    inner = set(parents.values())
    leaves = [node for node in parents if node not in inner]
    if not leaves:
        raise ValueError("parents must form a tree with at least one leaf.")
    return leaves


def state_numbers(values: NDArray[Any], states: NDArray[Any]) -> NDArray[np.int64]:
    """Number each value by ``states``; refuse others without quoting them."""
    numbers = _validation.code_numbers(_validation.entries(values), list(states))
    if (numbers == len(states)).any():
        raise ValueError(
            f"X has values that are not among the {len(states)} states; the public list of states must hold every "
            "value that may occur."
        )
    return numbers


def check_loss(loss: ArrayLike | Mapping[Any, Any] | None, states: NDArray[Any], distances: FloatArray) -> FloatArray:
    """Make a matrix of losses, of states by answers; the distances by default."""
    if loss is None:
        return distances
    matrix = tree_distances(loss, list(states)) if isinstance(loss, Mapping) else np.array(loss, np.float64)
    if matrix.shape != distances.shape:
        raise ValueError(f"loss must have shape {distances.shape}, as distances, got {matrix.shape}.")
    if not (np.isfinite(matrix).all() and matrix.min() >= 0) or np.diag(matrix).any():
        raise ValueError("loss must be nonnegative and finite, and 0 on the diagonal.")
    return matrix


def check_prior(prior: ArrayLike | str | None, n_states: int) -> NDArray[np.float64] | None:
    """Normalise the prior; None, or a name, is the uniform one."""
    if prior is None or isinstance(prior, str):
        return None
    array = np.asarray(prior, dtype=np.float64)
    if array.shape != (n_states,) or np.any(array < 0) or not np.isfinite(array).all() or not array.any():
        raise ValueError(f"prior must be nonnegative numbers, one per state ({n_states}), got shape {array.shape}.")
    array = array / array.max()  # the sum of huge weights overflows
    result: NDArray[np.float64] = array / array.sum()
    return result
