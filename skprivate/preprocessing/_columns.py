"""Private columns with missing values, and the units that their rows belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone

from skprivate import _validation
from skprivate.partitions import Partitions, as_partitions, is_partitioned
from skprivate.privacy import draws, encode_identifiers
from skprivate.privacy.noise import FloatArray, IntArray

#: A table in memory, or the tables of many blocks.
Rows: TypeAlias = "Columns | Partitions"


class Column(NamedTuple):
    """The values of a column that are not missing, and the unit of each (None: each row is one)."""

    values: Any
    units: IntArray | None


@dataclass(frozen=True, eq=False)
class Columns:
    """A table whose rows belong to units."""

    table: Any
    missing: Any
    units: IntArray | None
    n_units: int
    #: Identifiers of the users, where there are any.
    users: Any = None

    def __len__(self) -> int:
        return len(self.table)

    def column(self, j: int) -> Column:
        """Select the values of column j that are not missing; rows without one contribute nothing."""
        present = ~self.missing[:, j]
        if present.all():
            return Column(np.ascontiguousarray(self.table[:, j]), self.units)
        units = None if self.units is None else self.units[present]
        return Column(np.ascontiguousarray(self.table[present, j]), units)


def column_cells(data: Rows, cells: Callable[[FloatArray, int], IntArray], total: int) -> list[draws.WeightedCells]:
    """Sum the weights in the cells of every column, in one pass.

    ``cells`` maps the values of a column and its number to cells, and holds public and released numbers only. A unit
    has the weight ``total``.
    """
    return as_partitions(data).gather(partial(_block_cells, cells=cells, total=total), _merge_columns)


def _block_cells(block: Columns, cells: Callable[[FloatArray, int], IntArray], total: int) -> list[draws.WeightedCells]:
    columns = map(block.column, range(block.table.shape[1]))
    return [draws.weigh(cells(column.values, j), column.units, total) for j, column in enumerate(columns)]


def _merge_columns(parts: Any) -> list[draws.WeightedCells]:
    return [draws.merge_cells(column) for column in zip(*parts, strict=True)]


def read_columns(
    estimator: BaseEstimator, X: Any, user_ids: Any, read: Callable[..., Any], check_types: Callable[..., None]
) -> Rows:
    """Validate columns in memory or in blocks; the estimator learns their names and number.

    All blocks are read once, so that errors show before anything is spent. ``check_types(X, entry_types=)`` gets the
    table, or a block without rows, before blocks are read.
    """
    if not is_partitioned(X):
        table = read(estimator, X, reset=True)
        check_types(X, entry_types=True)
        return _with_units(table, user_ids)
    name = type(estimator).__name__
    if user_ids is not None:
        raise ValueError(
            f"user_ids must be None if X is in blocks: {name} spreads the weight of a user over the user's rows, "
            "which may be in several blocks. Pass a table in memory, or protect rows."
        )
    source = as_partitions(X)
    blank, names = _validation.learn_columns(estimator, source.empty)
    check_types(source.empty, entry_types=False)
    rows = source.map(partial(_read_block, blank=blank, read=read, names=names))
    if rows.n_rows == 0:
        raise ValueError(f"X has no rows in its blocks; {name} needs at least 1.")
    return rows


def _read_block(block: Any, blank: BaseEstimator, read: Callable[..., Any], names: Any) -> Columns:
    _validation.refuse_other_columns(block, names)
    if block.shape[0] == 0:
        table: Any = np.empty((0, blank.n_features_in_))
    else:
        table = read(blank, block, reset=False)
    return _with_units(table, None)


def _with_units(table: Any, user_ids: Any) -> Columns:
    missing = _validation.missing_mask(table)
    if user_ids is None:
        return Columns(table, missing, None, len(table))
    codes, names = encode_identifiers(user_ids, len(table))
    return Columns(table, missing, codes, len(names), names)


def public_count(data: Rows, adjacency: str) -> int | None:
    """Count the units under replace-one; otherwise their number is private: None."""
    if adjacency != "replace-one":
        return None
    return data.n_units if isinstance(data, Columns) else data.n_rows


def numeric_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> FloatArray:
    """Validate a table of numbers with NaN where they are missing; errors name the column."""
    options = {"dtype": np.float64, "ensure_all_finite": False, "reset": reset}
    return finite_or_missing(estimator, _validation.validate_data(estimator, _with_nan(X), **options))


def finite_or_missing(estimator: BaseEstimator, table: FloatArray) -> FloatArray:
    """Refuse infinite numbers of a table that was validated."""
    infinite = np.flatnonzero(np.isinf(table).any(axis=0))
    if infinite.size and get_config()["assume_finite"]:
        # Steps before this one may overflow under this setting, for which no row is to be refused.
        table = np.where(np.isinf(table), np.nan, table)
    elif infinite.size:
        label = _validation.column_label(int(infinite[0]), getattr(estimator, "feature_names_in_", None))
        raise ValueError(
            f"Input X contains infinity in column {label}; only finite numbers and missing values (NaN) are allowed."
        )
    return table


def by_position(estimator: BaseEstimator, X: Any) -> FloatArray:
    """Validate a result of `transform`: its columns are known by position, since their names may be lost."""
    options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    table: FloatArray = _validation.validate_data(clone(estimator), X, **options)
    n_columns = getattr(estimator, "n_features_in_", table.shape[1])
    if table.shape[1] != n_columns:
        raise ValueError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting {n_columns} features as "
            "input."
        )
    return table


def clip_overflow(table: FloatArray) -> FloatArray:
    """Replace infinite numbers by the largest one, in place: the next step would refuse, and so reveal, the row."""
    largest = np.finfo(np.float64).max
    return np.clip(table, -largest, largest, out=table)


def _with_nan(X: Any) -> Any:
    """Replace missing values that have no float by NaN."""
    if _validation.is_frame(X) and hasattr(X, "isna") and any(str(kind) == "object" for kind in X.dtypes):
        return X.where(~X.isna(), np.nan)
    if isinstance(X, np.ndarray) and X.dtype == object:
        missing = [_validation.plain_entry(value) is None for value in X.ravel().tolist()]
        return np.where(np.reshape(missing, X.shape), np.nan, X)
    return X
