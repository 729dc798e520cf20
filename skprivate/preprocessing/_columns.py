"""Private columns with missing values, and the units that their rows belong to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.base import clone

from skprivate._sklearn import Interval
from skprivate._validation import (
    learn_columns,
    missing_mask,
    plain_entry,
    refuse_other_columns,
    validate_data,
)
from skprivate.partitions import Partitions, as_partitions, is_partitioned
from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    PrivacyEvent,
    PureEvent,
    compose_epsilon,
    encode_identifiers,
)
from skprivate.privacy.draws import WeightedCells, merge_cells, weigh
from skprivate.privacy.noise import FloatArray, IntArray

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

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.table)

    def column(self, j: int) -> Column:
        """The values of column j that are there; rows without one contribute nothing."""
        present = ~self.missing[:, j]
        if present.all():
            return Column(np.ascontiguousarray(self.table[:, j]), self.units)
        units = None if self.units is None else self.units[present]
        return Column(np.ascontiguousarray(self.table[present, j]), units)


#: A table in memory, or the tables of many blocks.
Rows: TypeAlias = Columns | Partitions


def column_cells(data: Rows, cells: Callable[[FloatArray, int], IntArray], total: int) -> list[WeightedCells]:
    """Weights in the cells of every column: one pass.

    Parameters
    ----------
    data : Columns or Partitions of Columns
    cells : callable
        From the values of a column and its number to their cells; holds public and released numbers only.
    total : int
        Weight of a unit.
    """
    return as_partitions(data).gather(partial(_cells_of, cells=cells, total=total), _merge_columns)


def _cells_of(
    block: Columns, cells: Callable[[FloatArray, int], IntArray], total: int
) -> list[WeightedCells]:
    columns = map(block.column, range(block.table.shape[1]))
    return [weigh(cells(column.values, j), column.units, total) for j, column in enumerate(columns)]


def _merge_columns(parts: Any) -> list[WeightedCells]:
    return [merge_cells(column) for column in zip(*parts, strict=True)]


def read_columns(
    estimator: Any,
    X: Any,
    user_ids: Any,
    read: Callable[..., Any],
    check: Callable[[Any], None] | None = None,
) -> Rows:
    """Validated columns, in memory or in blocks; the estimator learns their names and number.

    Parameters
    ----------
    estimator : estimator
    X : table, or rows in blocks
        All blocks are read once, so that errors show before anything is spent.
    user_ids : array-like of shape (n_rows,), or None
    read : callable
        `numeric_table` or `any_table`.
    check : callable, optional
        From the table, or a block without rows, before blocks are read: refuses what does not go with its types.
    """
    if not is_partitioned(X):
        table = read(estimator, X, reset=True)
        if check is not None:
            check(X)
        return columns_of(table, missing_mask(table), user_ids)
    name = type(estimator).__name__
    if user_ids is not None:
        raise ValueError(
            f"user_ids must be None where X lies in blocks: {name} spreads the weight of a user over the user's rows, "
            "which may lie in several blocks. Pass a table in memory, or protect rows."
        )
    source = as_partitions(X)
    blank, names = learn_columns(estimator, source.empty)
    if check is not None:
        check(source.empty)
    rows = source.map(partial(_read_block, blank=blank, read=read, names=names))
    if rows.n_rows == 0:
        raise ValueError(f"X has no rows in its blocks; {name} needs at least 1.")
    return rows


def _read_block(block: Any, blank: Any, read: Callable[..., Any], names: Any) -> Columns:
    refuse_other_columns(block, names)
    if block.shape[0] == 0:
        table: Any = np.empty((0, blank.n_features_in_))
    else:
        table = read(blank, block, reset=False)
    return columns_of(table, missing_mask(table), None)


def count_units(data: Rows) -> int:
    """Number of units."""
    return data.n_units if isinstance(data, Columns) else data.n_rows


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


def by_position(estimator: Any, X: Any, *, finite: bool = False) -> FloatArray:
    """Validate what `transform` returned: columns are known by their places, since their names may be lost."""
    table: FloatArray = validate_data(
        clone(estimator), X, dtype=np.float64, ensure_all_finite=finite or "allow-nan"
    )
    n_columns = getattr(estimator, "n_features_in_", table.shape[1])
    if table.shape[1] != n_columns:
        raise ValueError(
            f"X has {table.shape[1]} features, but {type(estimator).__name__} is expecting {n_columns} features as "
            "input."
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


def _with_nan(X: Any) -> Any:
    """Missing values that have no float as NaN."""
    if hasattr(X, "isna") and hasattr(X, "where") and any(str(kind) == "object" for kind in X.dtypes):
        return X.where(~X.isna(), np.nan)
    if isinstance(X, np.ndarray) and X.dtype == object:
        missing = [plain_entry(value) is None for value in X.ravel().tolist()]
        return np.where(np.reshape(missing, X.shape), np.nan, X)
    return X


def public_count(data: Rows, adjacency: str) -> int | None:
    """The number of units, where it is public."""
    return count_units(data) if adjacency == "replace-one" else None


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


Plan = tuple[tuple[PrivacyEvent, int], ...]

#: Sums get one part in four of ρ, and of a pure budget as much as each selection: it is the selections that fail where
#: units are few.
_SUMS = 0.25
#: A selection at ε needs about this many units times 1/ε, the sums this many standard deviations.
_PER_SELECTION, _PER_NOISE = 55.0, 4.0


class Prices(NamedTuple):
    """What the draws of every column cost.

    Parameters
    ----------
    selection : float
        ε of each selection.
    laplace : float or None
        ε of the sums, with Laplace noise.
    noise_multiplier : float or None
        Of the sums, with Gaussian noise.
    """

    selection: float
    laplace: float | None = None
    noise_multiplier: float | None = None


@lru_cache(maxsize=256)
def selection_price(count: int, epsilon: float, delta: float) -> float:
    """Largest ε of each of so many selections by the exponential mechanism.

    Parameters
    ----------
    count : int
    epsilon, delta : float
        The budget; with δ > 0, many selections cost less than their sum.
    """
    pure = epsilon / count
    if delta == 0:
        return pure
    start = math.sqrt(8 * _rho(epsilon, delta) / count)
    return max(pure, _largest(lambda e: ((BoundedRangeEvent(e), count),), start, epsilon, delta))


@lru_cache(maxsize=256)
def moment_prices(
    n_columns: int, n_selections: int, sensitivities: tuple[float, float], epsilon: float, delta: float
) -> Prices:
    """Prices of ``n_selections`` selections and one vector of noisy sums for every column.

    Parameters
    ----------
    n_columns, n_selections : int
    sensitivities : (float, float)
        ℓ1 and ℓ2 sensitivity of the sums, in units.
    epsilon, delta : float

    Returns
    -------
    Prices
        Those with which fewer units suffice.
    """
    per_column = epsilon / n_columns
    each_share = per_column / (n_selections + 1)
    pure = Prices(each_share, laplace=each_share)
    if delta == 0:
        return pure
    share = _SUMS if n_selections else 1.0

    def prices(root: float) -> Prices:
        each = math.sqrt(8 * (1 - share) / max(n_selections, 1)) * root
        return Prices(each, noise_multiplier=1 / (math.sqrt(2 * share) * root))

    def plan(root: float) -> Plan:
        return moment_events(prices(root), n_columns, n_selections)

    start = math.sqrt(_rho(epsilon, delta) / n_columns)
    approximate = prices(_largest(plan, start, epsilon, delta))
    assert approximate.noise_multiplier is not None

    def needed(found: Prices, noise: float) -> float:
        return max(_PER_SELECTION / found.selection if n_selections else 0.0, _PER_NOISE * noise)

    with_laplace = needed(pure, math.sqrt(2) * sensitivities[0] / each_share)
    with_gaussian = needed(approximate, sensitivities[1] * approximate.noise_multiplier)
    return approximate if with_gaussian < with_laplace else pure


def moment_events(prices: Prices, n_columns: int, n_selections: int) -> Plan:
    """Events of `moment_prices` for all columns."""
    noise: PrivacyEvent
    if prices.laplace is not None:
        noise = PureEvent(prices.laplace, "Laplace")
    else:
        assert prices.noise_multiplier is not None
        noise = GaussianEvent(prices.noise_multiplier, 3)
    events: Plan = ((noise, n_columns),)
    if n_selections:
        events = ((BoundedRangeEvent(prices.selection), n_selections * n_columns), *events)
    return events


def _rho(epsilon: float, delta: float) -> float:
    """About the ρ of zCDP that (ε, δ) buys: a place to start from."""
    root = math.sqrt(math.log(1 / delta))
    return (math.sqrt(root * root + epsilon) - root) ** 2


def _largest(plan: Callable[[float], Plan], start: float, epsilon: float, delta: float) -> float:
    """A scale at which the composed price of a plan is just within the budget."""
    scale, within, beyond = start, 0.0, math.inf
    for _ in range(40):
        spent = compose_epsilon(plan(scale), delta)
        if spent <= epsilon:
            within = max(within, scale)
            if spent > 0.995 * epsilon:
                break
        else:
            beyond = min(beyond, scale)
        # In proportion; but a large δ pays for a small scale alone, and beyond it the price rises steeply.
        scale *= 0.998 * epsilon / max(spent, epsilon / 2)
        if not within < scale < beyond:
            scale = (within + beyond) / 2
    return within
