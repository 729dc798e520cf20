"""Tables of users, checked column by column, and synthetic rows in the same kind of table.

The schema of a table, names and types of columns, is public. Values that a type lists (the categories of a pandas or
polars column, the longest string of a NumPy array) may come from the rows and are forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skprivate import _validation
from skprivate._sklearn import _MISSING
from skprivate._validation import entries
from skprivate.metric.net import tree_distances
from skprivate.partitions import InMemory, Partitions, as_partitions, is_partitioned
from skprivate.privacy.noise import FloatArray

#: Replacements of types that list values.
_CATEGORICAL, _ORDERED, _ENUM = "categories", "ordered categories", "enumeration"
LIST_ADVICE = (
    "List the public values of text, categories={column: [value, ...]}, turn numbers written as text into numbers "
    "(pandas.to_numeric), leave out free text and identifiers"
)
_AS_NUMBERS = (
    "convert them to numbers in a unit and from an origin that are public, such as days since 2020-01-01, with bounds "
    "in that unit, or to text that categories list."
)


@dataclass(frozen=True)
class TableSchema:
    """Kind of a table: library and names of a data frame (None for arrays), and types of its columns."""

    library: str | None
    names: tuple[Any, ...] | None
    dtypes: tuple[Any, ...]

    def rows(self, columns: list[NDArray[Any]], values: dict[int, tuple[Any, ...]]) -> Any:
        """Make a table of this kind of columns: float64, or objects for those with public ``values``."""
        if self.names is None:
            return self._array(columns, values)
        if self.library == "pandas":
            import pandas as pd

            series = [
                _pandas_column(column, dtype, values.get(j))
                for j, (column, dtype) in enumerate(zip(columns, self.dtypes, strict=True))
            ]
            return pd.concat(series, axis=1, keys=range(len(series))).set_axis(list(self.names), axis=1)
        cast = {
            str(name): _column(str(name), column, dtype, values.get(j), self.library)
            for j, (name, column, dtype) in enumerate(zip(self.names, columns, self.dtypes, strict=True))
        }
        return nw.from_dict(cast).to_native()

    def refuse_other_types(self, columns: list[NDArray[Any]], values: dict[int, tuple[Any, ...]]) -> None:
        """Refuse types that synthetic rows cannot have, by making some rows of public values."""
        try:
            self.rows(columns, values)
        except Exception as error:  # of whatever library
            types = ", ".join(dict.fromkeys(map(str, self.dtypes)))
            raise TypeError(
                f"X must have columns of types that synthetic rows can have, got {types}: {error}. Convert them, to "
                "float64 for example."
            ) from None

    def _array(self, columns: list[NDArray[Any]], values: dict[int, tuple[Any, ...]]) -> NDArray[Any]:
        (dtype,) = self.dtypes
        listed = [value for column in values.values() for value in column]
        if listed and (dtype.kind not in "iufb" or not all(isinstance(value, Real | np.bool_) for value in listed)):
            table = np.empty((len(columns[0]), len(columns)), dtype=object)
            for j, column in enumerate(columns):
                table[:, j] = column
            return table
        return np.column_stack([_as_dtype(column.astype(np.float64), dtype) for column in columns])


def schema_of(X: Any) -> TableSchema:
    """Find the schema of a table, without any value that its types list."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        dtype = getattr(X, "dtype", np.dtype(np.float64))
        # A type of texts has the length of the longest one.
        numeric = isinstance(dtype, np.dtype) and dtype.kind in "iufb"
        return TableSchema(None, None, (dtype if numeric else np.dtype(object),))
    library = frame.implementation.value
    if library == "pandas":
        return TableSchema(library, tuple(X.columns), tuple(_unlisted_pandas(dtype) for dtype in X.dtypes))
    return TableSchema(library, tuple(frame.columns), tuple(map(_unlisted, frame.iter_columns())))


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


def read_tables(estimator: BaseEstimator, X: Any, read: Callable[..., NDArray[Any]]) -> tuple[TableSchema, Partitions]:
    """Read the schema of a table and its checked rows, in memory or in blocks; the estimator learns its columns."""
    if not is_partitioned(X):
        return schema_of(X), InMemory(read(estimator, X, reset=True))
    source = as_partitions(X)
    blank, names = _validation.learn_columns(estimator, source.empty)
    return schema_of(source.empty), source.map(partial(_read_block, blank=blank, read=read, names=names))


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


def _unlisted(column: nw.Series[Any]) -> Any:
    """Find the type of a column, without the values that it lists; of decimals with its digits."""
    dtype: Any = column.dtype
    native: Any = column.to_native()
    own = getattr(native, "type", None) or native.dtype
    if _is_decimal(own):
        return own
    return _ENUM if isinstance(dtype, nw.Enum) else _CATEGORICAL if isinstance(dtype, nw.Categorical) else dtype


def _unlisted_pandas(dtype: Any) -> Any:
    if hasattr(dtype, "categories"):
        return _ORDERED if dtype.ordered else _CATEGORICAL
    return dtype


def _as_dtype(column: FloatArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert floats to a numeric type; for integers and booleans to the nearest value that the type holds."""
    if dtype.kind == "f":
        return column.astype(dtype)
    if dtype.kind not in "iub":
        return column
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    highest = float(high) if int(float(high)) <= high else float(np.nextafter(float(high), 0.0))
    return np.clip(np.rint(column), float(low), highest).astype(dtype)


def _numpy_twin(dtype: object) -> np.dtype[Any]:
    """Find NumPy's type for a numeric type of any library; float64 for others."""
    name = str(dtype).lower().removesuffix("[pyarrow]").replace("boolean", "bool").replace("double", "float64")
    name = "float32" if name == "float" else name
    try:
        twin = np.dtype(name)
    except (TypeError, ValueError):
        return np.dtype(np.float64)
    return twin if twin.kind in "iufb" else np.dtype(np.float64)


def _is_decimal(dtype: object) -> bool:
    return not isinstance(dtype, str) and str(dtype).lower().startswith("decimal")


def decimals(column: NDArray[Any], dtype: object) -> list[Any]:
    """Round floats to the decimals of a type, whose digits are public."""
    precision, scale = map(int, re.findall(r"-?\d+", str(dtype))[-2:])
    context, unit = Context(prec=400), Decimal(1).scaleb(-scale)
    most = (10**precision - 1) * unit
    return [min(max(Decimal(x), -most), most).quantize(unit, context=context) for x in column.tolist()]


def _pandas_column(column: NDArray[Any], dtype: object, listed: tuple[Any, ...] | None) -> Any:
    import pandas as pd

    if listed is None and _is_decimal(dtype):
        return pd.Series(decimals(column, dtype), dtype=dtype)
    if listed is None:
        twin = _as_dtype(column, _numpy_twin(dtype))
        numeric = pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
        return pd.Series(twin).astype(dtype) if numeric else pd.Series(twin)
    if isinstance(dtype, str):  # a type that listed values lists the public ones
        return pd.Series(pd.Categorical(column.tolist(), categories=list(listed), ordered=dtype == _ORDERED))
    try:
        return pd.Series(column, dtype=object).astype(dtype)
    except (TypeError, ValueError):  # decided by the listed values and the type, both public
        return pd.Series(column, dtype=object)


def _column(name: str, column: NDArray[Any], dtype: Any, listed: tuple[Any, ...] | None, library: str | None) -> Any:
    """Make a column of a library other than pandas."""
    backend: Any = library
    if _is_decimal(dtype):
        entries = decimals(column, dtype) if listed is None else column.tolist()
        return nw.from_native(nw.new_series(name, entries, backend=backend).to_native().cast(dtype), series_only=True)
    if listed is None:
        twin = _as_dtype(column, _numpy_twin(dtype))
        series = nw.new_series(name, twin, backend=backend)
        return series.cast(dtype) if not isinstance(dtype, str) and dtype.is_numeric() else series
    if not isinstance(dtype, str):
        return nw.new_series(name, column.tolist(), dtype, backend=backend)
    series = nw.new_series(name, column.tolist(), backend=backend)
    if not all(isinstance(value, str) for value in listed):
        return series
    return series.cast(nw.Enum(listed) if dtype == _ENUM else nw.Categorical())


def leaves_of(parents: Mapping[Any, Any]) -> list[Any]:
    """List nodes that are nobody's parent, in the order of the mapping."""
    inner = set(parents.values())
    leaves = [node for node in parents if node not in inner]
    if not leaves:
        raise ValueError("parents must form a tree with at least one leaf.")
    return leaves


def state_numbers(values: NDArray[Any], states: NDArray[Any]) -> NDArray[np.int64]:
    """Number each value by ``states``; refuse others without quoting them."""
    numbers = _validation.code_numbers(entries(values), list(states))
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
