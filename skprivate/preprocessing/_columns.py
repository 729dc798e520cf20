"""Private columns with missing values, and the units that their rows belong to."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from skprivate._identifiers import encode_identifiers
from skprivate._sklearn import Interval
from skprivate.privacy._lattice import FloatArray, IntArray

#: Constraint of ``delta`` where 0 is pure privacy.
DELTA_OR_ZERO: dict[str, list[Any]] = {"delta": [Interval(Real, 0, 1, closed="left")]}


class Column(NamedTuple):
    """The values of a column that are not missing, and the unit of each (None: each row is one)."""

    values: Any
    units: IntArray | None


@dataclass(frozen=True, eq=False)
class Columns:
    """A table whose rows belong to units.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_columns)
    missing : ndarray of bool, same shape
    units : ndarray of shape (n_rows,), int64, or None
    n_units : int
    """

    table: Any
    missing: Any
    units: IntArray | None
    n_units: int

    def column(self, j: int) -> Column:
        """The values of column j that are there; rows without one contribute nothing."""
        present = ~self.missing[:, j]
        units = None if self.units is None else self.units[present]
        return Column(np.ascontiguousarray(self.table[present, j]), units)


def columns_of(table: Any, missing: Any, user_ids: Any) -> Columns:
    """Columns whose unit is the row, or the user where ``user_ids`` are given."""
    if user_ids is None:
        return Columns(table, missing, None, len(table))
    codes, names = encode_identifiers(user_ids, len(table))
    return Columns(table, missing, codes, len(names))


def unit_name(user_ids: Any) -> str:
    """The unit of privacy that a fit protects."""
    return "row" if user_ids is None else "user"


def numeric_table(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Validate a table of numbers that may be missing; errors name the column.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_rows, n_columns)
    reset : bool
        As in `sklearn.utils.validation.validate_data`.

    Returns
    -------
    ndarray of shape (n_rows, n_columns), float64
        NaN where missing.
    """
    _refuse_dates(X)
    try:
        table: FloatArray = validate_data(
            estimator, _with_nan(X), dtype=np.float64, ensure_all_finite=False, reset=reset
        )
    except (TypeError, ValueError) as error:
        of_entries = "could not convert" in str(error) or "float()" in str(error)
        culprit = _not_numeric(X) if of_entries else None
        if culprit is None:
            raise
        raise type(error)(
            f"column {culprit} of X holds values that are not numbers: could not convert to float, the argument must "
            "be a string that reads as a number, or a number. Encode such columns first (PublicOneHotEncoder) or leave "
            "them out with a ColumnTransformer."
        ) from None
    infinite = np.flatnonzero(np.isinf(table).any(axis=0))
    if infinite.size:
        raise ValueError(
            f"Input X contains infinity in column {column_name(estimator, int(infinite[0]))}; only finite numbers "
            "and missing values (NaN) are allowed."
        )
    return table


def column_name(estimator: Any, j: int) -> str:
    """How messages call a column: by its name, or by its position."""
    names = getattr(estimator, "feature_names_in_", None)
    return repr(str(names[j])) if names is not None else str(j)


def missing_mask(values: Any) -> Any:
    """Which entries are None, NaN, NaT or pandas.NA.

    Parameters
    ----------
    values : ndarray

    Returns
    -------
    ndarray of bool, same shape
    """
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind == "M":
        return np.isnat(values)
    if values.dtype != object:
        return np.zeros(values.shape, dtype=bool)
    flat = [
        value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)
        for value in values.ravel().tolist()
    ]
    return np.array(flat, dtype=bool).reshape(values.shape)


def as_entries(X: Any) -> Any:
    """Nested lists as an array of their entries as they are.

    NumPy would find one type for all: a single string makes strings of everybody's numbers.
    """
    return np.array(X, dtype=object) if isinstance(X, list | tuple) else X


def _names(X: Any) -> list[str] | None:
    return None if getattr(X, "columns", None) is None else [repr(str(name)) for name in X.columns]


def _refuse_dates(X: Any) -> None:
    names, kinds = _names(X), getattr(X, "dtypes", None)
    if names is None or kinds is None:
        return
    for name, kind in zip(names, list(kinds), strict=False):
        if str(kind).lower().startswith(("datetime", "date", "timedelta", "duration")):
            raise TypeError(
                f"column {name} of X holds dates, got dtype {kind}; convert them to numbers in a unit of your choice."
            )


def _with_nan(X: Any) -> Any:
    """Missing values that have no float as NaN."""
    if hasattr(X, "isna") and hasattr(X, "where") and any(str(kind) == "object" for kind in X.dtypes):
        return X.where(~X.isna(), np.nan)
    if isinstance(X, np.ndarray) and X.dtype == object:
        return np.where(missing_mask(X), np.nan, X)
    return X


def _not_numeric(X: Any) -> str | None:
    """The first column that does not turn into floats, as messages call it."""
    table = np.asarray(_with_nan(X), dtype=object)
    if table.ndim != 2:
        return None
    names = _names(X)
    for j in range(table.shape[1]):
        try:
            table[:, j].astype(np.float64)
        except (TypeError, ValueError):
            return names[j] if names is not None else str(j)
    return None


def public_count(data: Columns, adjacency: str) -> int | None:
    """The number of units, where it is public."""
    return data.n_units if adjacency == "replace-one" else None


def unit_assumptions(
    user_ids: Any, adjacency: str, bounds: Any = None, categories: Any = None
) -> tuple[str, ...]:
    """What has to be true outside the code."""
    unit = unit_name(user_ids)
    return (
        *((f"the number of {unit}s is public",) if adjacency == "replace-one" else ()),
        *(("bounds are public",) if bounds is not None else ()),
        *(("categories are public",) if categories is not None else ()),
    )
