"""Private columns with missing values, and the units that their rows belong to."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config

from skprivate._identifiers import encode_identifiers
from skprivate._sklearn import Interval
from skprivate._validation import validate_data
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
    options = {"dtype": np.float64, "ensure_all_finite": False, "reset": reset}
    table: FloatArray = validate_data(estimator, _with_nan(X), **options)
    infinite = np.flatnonzero(np.isinf(table).any(axis=0))
    if infinite.size and get_config()["assume_finite"]:
        # Whoever says so lets steps before this one overflow, for which no row is to be refused.
        table = np.where(np.isinf(table), np.nan, table)
    elif infinite.size:
        raise ValueError(
            f"Input X contains infinity in column {column_name(estimator, int(infinite[0]))}; only finite numbers "
            "and missing values (NaN) are allowed."
        )
    return table


def kept_finite(table: FloatArray) -> FloatArray:
    """What overflowed becomes the largest number, in place: the next step would refuse the row, and tell of it."""
    largest = np.finfo(np.float64).max
    return np.clip(table, -largest, largest, out=table)


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


def _with_nan(X: Any) -> Any:
    """Missing values that have no float as NaN."""
    if hasattr(X, "isna") and hasattr(X, "where") and any(str(kind) == "object" for kind in X.dtypes):
        return X.where(~X.isna(), np.nan)
    if isinstance(X, np.ndarray) and X.dtype == object:
        return np.where(missing_mask(X), np.nan, X)
    return X


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
