"""Validation of data as scikit-learn does it, with errors that name columns and quote no entry of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data as _sklearn_validate_data

from skprivate._sklearn import in_public_words

#: Types of columns that NumPy turns into floats without a word.
_NO_NUMBERS = ("datetime", "date", "time", "duration", "period", "interval", "complex", "dictionary")
TEXT_ADVICE = (
    "Turn numbers written as text into numbers (pandas.to_numeric), encode categories by a public list "
    "(skprivate.preprocessing.PublicOneHotEncoder), leave out free text and identifiers"
)
DATES = "Turn dates and times into numbers by a public rule: time since a fixed date, in a unit of your choice"
#: Types of single entries that are times.
TIMES = {
    "date", "datetime", "time", "timedelta", "Timestamp", "Timedelta", "Period", "datetime64", "timedelta64",
}  # fmt: skip
_SHOWN = 5
Pairs: TypeAlias = tuple[tuple[float, float], ...]
#: No range is wider, so that its square is a float, too.
WIDEST = 1e150
#: Most columns of sparse rows that are made dense.
MOST_SPARSE = 10_000
#: What a parameter of this kind may be.
SHAPES = "a dict {column: (low, high)}, or a pair (lower, upper) of numbers or of arrays with one number per column"


class TakesSparse:
    """Mixin of estimators whose rows may be sparse: `validate_data` makes them dense.

    No draw, error or warning depends on which entries are stored, or how many: that is private. Indices outside of the
    shape are refused.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.input_tags.sparse = True
        return tags


def is_frame(X: Any) -> bool:
    """Tell if X is a data frame in memory: of pandas, polars, pyarrow or another library that narwhals knows."""
    return bool(nw.dependencies.is_into_dataframe(X))


def refuse_elsewhere(X: Any, name: str = "X") -> None:
    """Refuse rows that are not in memory: NumPy would compute them, or make one object of them."""
    names = _all_names(X) if is_frame(X) else None
    if names is not None and len(set(names)) < len(names):
        raise ValueError(
            f"{name} must have different names for its columns, got {repeated(names)} several times. Rename them, or "
            "keep one of each."
        )
    origin = {parent.__module__.partition(".")[0] for parent in type(X).__mro__}
    known = {"dask", "pyarrow", "skprivate"} & origin and (hasattr(X, "dask") or hasattr(X, "gather"))
    arrow = "pyarrow" in origin and type(X).__name__.endswith(("Dataset", "RecordBatchReader"))
    if known or arrow or isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(
            f"{name} must be a table in memory, got {type(X).__name__}. Fetch it first: .collect() (polars), "
            ".to_arrow_table(), .pl() or .df() (DuckDB), .read_all() (an Arrow reader), .compute() (Dask). Estimators "
            "that read rows in blocks take skprivate.partitions.Blocks, Dask collections and pyarrow datasets."
        )


def refuse_no_table(X: Any) -> None:
    """Refuse what is no table in memory, such as one column alone; lists of rows are looked at later."""
    refuse_elsewhere(X)
    shape, kind = getattr(X, "shape", None), type(X).__name__
    if (shape is None and isinstance(X, Mapping)) or getattr(getattr(X, "dtype", None), "names", None):
        raise TypeError(
            f"X must be a data frame, a two-dimensional array or a list of rows, got {kind}. Make a frame of it "
            "(pandas.DataFrame)."
        )
    if isinstance(shape, tuple) and len(shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, got {len(shape)} ({kind}). Reshape your data: one column "
            "of a frame is X[['name']], that of an array is X.reshape(-1, 1)."
        )
    if shape is not None and shape[1] == 0:
        raise ValueError(
            f"X must have columns, got 0 feature(s) (shape=({shape[0]}, 0)) while a minimum of 1 is required."
        )


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def validate_data(
    estimator: BaseEstimator, /, X: Any = "no_validation", y: Any = "no_validation", **options: Any
) -> Any:
    """Validate data as `sklearn.utils.validation.validate_data`, in the same words for all estimators here.

    Where numbers are asked for, dates, durations and complex numbers are refused instead of being read as floats.
    Messages name columns and types, no entry. Sparse rows are made dense for `TakesSparse`.
    """
    refuse_no_table(X)
    checked = not options.get("skip_check_array", False)
    if checked and issparse(X) and get_tags(estimator).input_tags.sparse:
        X = dense(X)
    numeric = checked and options.get("dtype", "numeric") is not None
    if numeric:
        _refuse_other_types(X)
        if options.get("ensure_all_finite") == "allow-nan":
            X = _gaps_as_nan(X)
    try:
        result = _sklearn_validate_data(estimator, X, y, **options)
    except Exception as error:
        own = in_public_words(error)
        has_target = not (y is None or isinstance(y, str))
        message = own and numeric and _with_columns(str(error), str(own), X, has_target)
        if not own:
            raise
        raise (type(own)(message) if message else own) from None
    # scikit-learn looks for missing targets before it makes numbers of objects: None is NaN only then.
    given = numeric and options.get("y_numeric") and not (y is None or isinstance(y, str))
    if given and result[1].dtype.kind == "f" and np.isnan(result[1]).any():
        raise ValueError("Input y contains NaN.")
    return result


def dense(X: Any) -> Any:
    """Make sparse rows dense, whose columns are few; others as they are. How many rows there are may be private."""
    rows: Any = X
    if not issparse(X) or len(rows.shape) != 2:
        return X
    if rows.shape[1] > MOST_SPARSE:
        raise ValueError(
            f"X must have at most {MOST_SPARSE} columns where it is sparse, because it is made dense, got "
            f"{rows.shape[1]}. Choose fewer by a public rule: hash words into fewer columns, X[:, listed]."
        )
    # Nobody has looked at the indices: outside of its row an entry would be in another's.
    try:
        if hasattr(rows, "indptr"):
            type(rows)((rows.data, rows.indices, rows.indptr), shape=rows.shape).check_format(full_check=True)
        else:
            if rows.format == "lil" and [*map(len, rows.rows)] != [*map(len, rows.data)]:
                raise IndexError  # entries of all rows below would move
            rows = rows.tocoo()
            rows = type(rows)((rows.data, (rows.row, rows.col)), shape=rows.shape)
    except (TypeError, ValueError, IndexError):
        raise ValueError(
            "X must have indices within its shape where it is sparse, got others: it was changed after it was made."
        ) from None
    try:
        return np.asarray(rows.toarray())
    except MemoryError:
        text = "X is sparse and too large to be made dense: give sparse rows in blocks (skprivate.partitions.Blocks)."
        raise MemoryError(text) from None


def learn_columns(estimator: BaseEstimator, empty: object) -> tuple[Any, tuple[Any, ...] | None]:
    """Let an estimator learn the columns of rows in blocks from a block without rows.

    Returns a blank estimator of its class that knows the columns alone, and travels to the blocks; and the names of the
    columns, text or not, None for an array.
    """
    validate_data(estimator, empty, skip_check_array=True)
    blank = type(estimator)()
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(blank, name, getattr(estimator, name))
    return blank, _all_names(empty)


def refuse_other_columns(block: object, names: tuple[Any, ...] | None) -> None:
    """Refuse a block whose columns are not those of the first one; scikit-learn compares names that are text."""
    if _all_names(block) != names:
        raise ValueError("blocks must all have the columns of the first one, in its order and by the same names.")


def _all_names(X: Any) -> tuple[Any, ...] | None:
    # What pyarrow calls columns are their entries.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else tuple(names)


def columns_in_words(X: Any, which: Iterable[int]) -> str:
    """Name columns for messages: by their names, or by their positions."""
    names, chosen = _names(X), list(which)
    shown = [str(j) if names is None else names[j] for j in chosen[:_SHOWN]]
    more = f" and {len(chosen) - _SHOWN} more" if len(chosen) > _SHOWN else ""
    return ("column " if len(chosen) == 1 else "columns ") + ", ".join(shown) + more


def repeated(names: Iterable[Any]) -> str:
    """Name, for messages, what a list has several times."""
    return ", ".join(repr(str(name)) for name, times in Counter(names).items() if times > 1)


def _names(X: Any) -> list[str] | None:
    names = _all_names(X)
    return None if names is None else [repr(str(name)) for name in names]


def _refuse_other_types(X: Any) -> None:
    """Refuse columns of dates, durations and the like; types of columns are public."""
    types = getattr(getattr(X, "schema", None), "types", None)  # of pyarrow
    kinds = getattr(X, "dtypes", types) if _names(X) is not None else None
    if kinds is None:
        if getattr(getattr(X, "dtype", None), "kind", "") in "mM" and isinstance(X, np.ndarray):
            raise TypeError(f"X must hold numbers, got dtype {X.dtype}. {DATES}.")
        return
    # Polars has dtypes as a list, pandas as a series.
    kinds = [str(kind) for kind in kinds]
    wrong = [j for j, kind in enumerate(kinds) if kind.lower().startswith(("timedelta", *_NO_NUMBERS))]
    if wrong:
        types_found = ", ".join(dict.fromkeys(kinds[j] for j in wrong))
        advice = "Complex data not supported" if types_found.lower().startswith("complex") else DATES
        if types_found.startswith("dictionary"):  # NumPy reads its missing entries as its last value
            advice = f"Decode it: column.cast(column.type.value_type). {TEXT_ADVICE}"
        error = ValueError if types_found.lower().startswith("complex") else TypeError
        raise error(f"{columns_in_words(X, wrong)} of X must hold numbers, got {types_found}. {advice}.")


def _with_columns(text: str, own: str, X: Any, has_target: bool) -> str | None:
    """Say which columns a message of scikit-learn or NumPy is about; ``own`` is what is shown of it else."""
    if "could not convert" in text or "float()" in text:
        wrong = {j: found for j, column in _columns(X) if (found := _no_floats(column))}
        of_strings = "could not convert" in text
        if not wrong:
            what = "could not convert a string to float" if of_strings else "got entries of another type"
            if not has_target or np.ndim(np.asarray(X, dtype=object)) != 2:
                got = type(X).__name__ + (f" of {type(X[0]).__name__}" if isinstance(X, list) else "")
                return (
                    f"X must be a table of numbers, a data frame, a two-dimensional array or a list of rows: {what} in "
                    f"a {got}."
                )
            return f"y must hold numbers: {what}."
        types = sorted(set().union(*wrong.values()))
        # scikit-learn's common checks ask for these words where an entry has no float at all.
        but = "" if of_strings else ", but an argument must be a string that reads as a number, or a number"
        advice = DATES if TIMES & set(types) else TEXT_ADVICE
        return f"{columns_in_words(X, wrong)} of X must hold numbers, got {', '.join(types)}{but}. {advice}."
    for what, holds in (("NaN", np.isnan), ("infinity", np.isinf)):
        if text.startswith(f"Input X contains {what}"):
            which = [j for j, column in _columns(X) if bool(holds(_floats(column)).any())]
            where = f" in {columns_in_words(X, which)}" if which else ""
            return own.replace(f"Input X contains {what}", f"Input X contains {what}{where}", 1)
    return None


def _columns(X: Any) -> Iterable[tuple[int, npt.NDArray[Any]]]:
    table = np.asarray(X, dtype=object)
    return ((j, table[:, j]) for j in range(table.shape[1])) if table.ndim == 2 else ()


def _floats(column: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert a column to floats; missing entries have no other float than NaN."""
    return _entries_or_nan(column).astype(np.float64)


def _entries_or_nan(objects: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace missing entries by NaN."""
    missing = [_is_missing(value) for value in objects.ravel().tolist()]
    return np.where(np.reshape(missing, objects.shape), np.nan, objects) if any(missing) else objects


def _is_missing(value: object) -> bool:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _gaps_as_nan(X: Any) -> Any:
    """Replace gaps among objects by NaN: NumPy and scikit-learn make no float of pandas.NA, and a number of NaT."""
    if isinstance(X, np.ndarray):
        return _entries_or_nan(X) if X.dtype == object else X
    kinds = list(getattr(X, "dtypes", ())) if hasattr(X, "isetitem") else []  # of pandas
    if objects := [j for j, kind in enumerate(kinds) if str(kind) == "object"]:
        X = X.copy(deep=False)
        for j in objects:
            X.isetitem(j, _entries_or_nan(X.iloc[:, j].to_numpy()))
    return X


def _no_floats(column: npt.NDArray[Any]) -> set[str]:
    """List types of the entries of a column that does not turn into floats, else nothing."""
    try:
        _floats(column)
    except (TypeError, ValueError):
        kinds = {type(value).__name__ for value in column.tolist()}
        return kinds - {"float", "int", "bool", "NoneType", "NAType"} or kinds
    return set()


def check_bounds(
    bounds: Any, columns: int | Sequence[int], names: Any = None, *, parameter: str = "bounds", partly: bool = False
) -> Any:
    """Read ranges of columns, one pair a column, from a mapping by name or position or from a pair (lower, upper).

    A side may be a number, an array or a mapping (a pandas Series). A list of pairs is refused, because with two
    columns it may be (lower, upper). ``columns`` is the number of columns of X, or the positions of those with bounds.
    With ``partly`` a mapping may have None for a column without a range.
    """
    if bounds is None:
        return None
    positions = list(range(columns)) if isinstance(columns, int) else list(columns)
    if partly and isinstance(bounds, Mapping):
        found = in_order(bounds, positions, names, parameter=parameter, entry="a pair (low, high) or None")
        given = {j: pair for j, pair in zip(positions, found, strict=True) if pair is not None}
        known = dict(zip(given, check_bounds(given, list(given), names, parameter=parameter), strict=True))
        return tuple(known.get(j) for j in positions) if known else None
    read = _by_column if isinstance(bounds, Mapping) else _two_sides
    pairs = read(bounds, positions, names, parameter)
    labels = [column_label(j, names) for j in positions]
    for label, (low, high) in zip(labels, pairs, strict=True):
        if not _is_range(low, high):
            raise ValueError(
                f"{parameter} of column {label} must be finite with low < high and less than {WIDEST:g} apart, got "
                f"({low:g}, {high:g})."
            )
    return tuple(pairs)


def in_order(
    values: Mapping[Any, Any],
    columns: int | Sequence[int],
    names: object = None,
    *,
    parameter: str,
    entry: str = "an entry",
) -> list[Any]:
    """List values of the columns in their order, from a mapping by name or position."""
    positions = list(range(columns)) if isinstance(columns, int) else list(columns)
    found: dict[int, Any] = {}
    for key, value in values.items():
        position = _position(key, positions, names, parameter)
        if position in found:
            raise ValueError(f"{parameter} has column {column_label(position, names)} twice.")
        found[position] = value
    missing = ", ".join(column_label(j, names) for j in positions if j not in found)
    if missing:
        raise ValueError(f"{parameter} must have {entry} for every column, got none for {missing}.")
    return [found[j] for j in positions]


def column_label(position: int, names: Any = None) -> str:
    """Name a column for messages: by its quoted name, or by its position."""
    return str(position) if names is None else repr(str(names[position]))


def _is_range(low: float, high: float) -> bool:
    return bool(np.isfinite(low) and np.isfinite(high) and low < high and high - low < WIDEST)


def _by_column(
    bounds: Mapping[Any, Any], positions: list[int], names: object, parameter: str
) -> list[tuple[float, float]]:
    pairs = []
    found = in_order(bounds, positions, names, parameter=parameter, entry="a pair (low, high)")
    for position, pair in zip(positions, found, strict=True):
        try:
            low, high = pair
            pairs.append((float(low), float(high)))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"{parameter} of column {column_label(position, names)} must be a pair (low, high) of numbers, got "
                f"{pair!r}."
            ) from None
    return pairs


def _position(key: Any, positions: list[int], names: Any, parameter: str) -> int:
    position = -1
    if isinstance(key, Integral) and not isinstance(key, bool):
        position = int(key)
    elif isinstance(key, str) and names is not None and key in (known := [str(name) for name in names]):
        position = known.index(key)
    if position in positions:
        return position
    kind = "columns" if names is not None else "columns (X came without names)"
    # Outputs of pipeline steps have no names by default.
    advice = " Behind another step, call set_output(transform='pandas') on it." if names is None else ""
    labels = ", ".join(column_label(j, names) for j in positions) or "none"
    raise ValueError(f"{parameter} has the column {key!r}; the {kind} are {labels}.{advice}")


def _two_sides(bounds: Any, positions: list[int], names: Any, parameter: str) -> list[tuple[float, float]]:
    k = len(positions)
    sides = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    try:
        sides = list(sides)
        by_name = [side for side in sides if hasattr(side, "items")]
        if len(sides) == 2 and by_name:
            # One side of names goes with a number for all; with a list, positions would be taken for names.
            lower, upper = (
                dict(side.items()) if hasattr(side, "items") else dict.fromkeys(by_name[0].keys(), float(side))
                for side in sides
            )
            both = {key: (lower.get(key, np.nan), upper.get(key, np.nan)) for key in {**lower, **upper}}
            return _by_column(both, positions, names, parameter)
        _refuse_pairs(sides, k, parameter)
        first, second = (np.broadcast_to(np.asarray(side, dtype=np.float64), k) for side in sides)
    except (TypeError, ValueError, OverflowError) as error:
        if str(error).startswith(parameter):
            raise
        labels = ", ".join(column_label(j, names) for j in positions)
        raise ValueError(f"{parameter} must be {SHAPES} ({labels}), got {bounds!r}.") from None
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _refuse_pairs(sides: list[Any], k: int, parameter: str) -> None:
    """Refuse a list of pairs where it is, or might be, one; arrays are lower and upper beyond doubt."""
    if any(not isinstance(side, list | tuple) or len(side) != 2 for side in sides) or len(sides) != k:
        return
    as_pairs = [(float(low), float(high)) for low, high in sides]
    if not all(_is_range(low, high) for low, high in as_pairs):
        return  # not pairs: the range of some column would be empty
    instead = f"Write a dict {{column: (low, high)}}, or {parameter}=(lower, upper) with NumPy arrays."
    as_sides = list(zip(*as_pairs, strict=True))
    if k == 2 and all(_is_range(low, high) for low, high in as_sides):
        first, second = (" and ".join(f"[{low:g}, {high:g}]" for low, high in way) for way in (as_pairs, as_sides))
        raise ValueError(
            f"{parameter}={sides!r} can be read in two ways: as a pair (low, high) for each column, {first}, or as "
            f"(lower, upper), {second}. {instead}"
        )
    raise ValueError(f"{parameter}={sides!r} looks like a list of pairs (low, high). {instead}")
