"""Curated bags of a table in a database, which groups and adds up; rows never leave it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._validation import check_classes
from skprivate.aggregate.sources import _release_frames
from skprivate.aggregate.tables import _blocks, _cells, _columns, _curated_bags, _group_tables, _labels
from skprivate.privacy import PrivacyLedger, RandomStateLike

#: Types of columns in DuckDB that are cut into bins.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_REALS = ("FLOAT", "DOUBLE", "REAL", "DECIMAL")
#: Columns of one query that tells its sets apart: GROUPING_ID is a number of 64 bits.
_MOST_KEYS = 60


@dataclass(frozen=True)
class Query:
    """One SELECT that groups a table by several sets of columns.

    ``value`` is the SQL of a row's label, ``sums`` that of the integers to sum, as functions of ``value``.
    """

    table: str
    keys: Mapping[str, str]
    value: str
    sums: Sequence[str]
    sets: Sequence[tuple[str, ...]]

    @property
    def used(self) -> list[str]:
        """Grouping columns of some set."""
        return list(dict.fromkeys(chain.from_iterable(self.sets)))

    def __str__(self) -> str:
        # Own names: those of a table may be any, and its columns are looked up in it first.
        key = {name: f"key{j}" for j, name in enumerate(self.used)}
        coded = [*(f"{self.keys[name]} AS {key[name]}" for name in self.used), f"{self.value} AS value"]
        keys = ", ".join(key.values())
        sets = ", ".join("(" + ", ".join(key[name] for name in columns) + ")" for columns in self.sets)
        totals = ", ".join(f"SUM({sql})" for sql in self.sums)
        mark = f"GROUPING_ID({keys})" if len(self.sets) > 1 else "0"
        return (
            f"SELECT {mark}, {keys}, COUNT(*), {totals} FROM "
            f"(SELECT {', '.join(coded)} FROM {self.table}) AS coded GROUP BY GROUPING SETS ({sets})"
        )

    def marks(self) -> dict[int, int]:
        """Map each GROUPING_ID to its set: a bit is 1 where a column is not grouped by."""
        used = self.used
        return {
            sum(1 << (len(used) - 1 - j) for j, name in enumerate(used) if name not in columns): k
            for k, columns in enumerate(self.sets)
        }


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Write a public value as SQL; floats by digits that round-trip."""
    if isinstance(value, (bool, np.bool_)):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    return "'" + str(value).replace("'", "''") + "'"


def bin_key(name: str, edges: Sequence[float]) -> str:
    """Write the SQL of the lower edge of a number's bin, −∞ for the first; NULL for missing values."""
    number = f"CAST({quoted(name)} AS DOUBLE)"
    lower = [-math.inf, *edges]
    steps = "".join(
        f" WHEN {number} < {literal(edge)} THEN {literal(low)}" for low, edge in zip(lower, edges, strict=False)
    )
    return f"CASE WHEN {number} IS NULL OR isnan({number}) THEN NULL{steps} ELSE {literal(lower[-1])} END"


@contextmanager
def _quiet() -> Iterator[None]:
    """Replace the messages of a database, which quote values."""
    try:
        yield
    except (ValueError, TypeError):
        raise
    except Exception as error:
        raise ValueError(
            f"the database refused the query ({type(error).__name__}): check the names of table and columns, and that "
            "the label is of the type of classes, or a whole number within label_bounds."
        ) from None


@dataclass(frozen=True)
class _Source:
    """Connection to a database, and the SQL of a table in it."""

    connection: Any
    table: str

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with _quiet():
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return rows

    def types(self) -> dict[str, str]:
        return {str(row[0]): str(row[1]).upper() for row in self.fetch(f"DESCRIBE SELECT * FROM {self.table}")}

    def n_rows(self) -> int:
        """Count the rows, and refuse a table without any."""
        n_rows = int(self.fetch(f"SELECT COUNT(*) FROM {self.table}")[0][0])
        if n_rows == 0:
            raise ValueError("the table has no rows.")
        return n_rows

    def numbers(self, name: str) -> NDArray[Any]:
        """Read a column as float64, NaN where one is missing."""
        with _quiet():
            column = self.connection.execute(f"SELECT CAST({quoted(name)} AS DOUBLE) AS x FROM {self.table}")
            numbers = column.fetchnumpy()["x"]
        return np.ma.filled(numbers.astype(np.float64), np.nan)

    def group_sizes(self, key: str) -> NDArray[np.int64]:
        """Count the rows of each value of a key."""
        rows = self.fetch(f"SELECT COUNT(*) FROM {self.table} GROUP BY {key} ORDER BY {key}")
        return np.array([row[0] for row in rows], dtype=np.int64)


@contextmanager
def _snapshot(connection: Any) -> Iterator[None]:
    """Run all queries in one transaction, so that concurrent inserts are in all tables or in none."""
    with _quiet():
        first, second = (connection.execute("SELECT txid_current()").fetchone() for _ in range(2))
    if first == second:  # the caller's own transaction is one
        yield
        return
    connection.execute("BEGIN TRANSACTION")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def bags_from_sql(
    connection: Any,
    table: str,
    columns: Sequence[str] | None,
    label: str,
    feature_sets: object = "pairs",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    classes: Sequence[Any] | None = None,
    label_bounds: tuple[int, int] | None = None,
    categorical_features: Sequence[str] | None = None,
    n_bins: int | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
    mechanism: _labels.NoiseName = "auto",
    random_state: RandomStateLike = None,
    ledger: PrivacyLedger | None = None,
) -> _curated_bags.CuratedBags:
    """Group and add up in DuckDB, and release the sums with noise: `make_curated_bags` of a table of any size.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    table : str
        What may stand after FROM: a table, a view, ``read_parquet('folder/*.parquet')``.
    columns : sequence of str or None
        Public features. None: all columns but the label.
    label : str
        Column of the labels; private.
    feature_sets : {"singles", "pairs"}, int, or iterable, default="pairs"
        As in `make_curated_bags`.
    epsilon : float or None, default=None
        Privacy loss bound of the label of one row, for all tables together. None adds no noise.
    delta : float, default=0.0
        With ``delta > 0``, Gaussian noise may be used.
    classes : sequence, optional
        Public class labels; a label outside counts as none of them. None: whole numbers, with ``label_bounds``.
    label_bounds : (int, int), optional
        For numbers: public interval that they are clipped to; what is missing counts as 0.
    categorical_features : sequence of str, optional
        Numeric columns that are taken as they are; columns of other types always are.
    n_bins : int, optional
        As in `make_curated_bags`. A column that is cut is read once, alone: 8 bytes a row.
    bin_edges : mapping from column name to increasing floats, optional
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
    random_state : None, int or RandomState
        Not None: simulated noise, not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    CuratedBags
        Those of `make_curated_bags` for classes; with the same ``random_state``, to the last bit.

    Raises
    ------
    ValueError
        If columns are not there, classes and label_bounds are both missing, or the database refuses a query. No
        message quotes a value, and nothing is spent.

    See Also
    --------
    make_curated_bags : Groups rows in memory or in blocks.
    release_frames : Takes tables that are grouped already.

    Notes
    -----
    (ε, δ)-label differential privacy, replace-one, as in `make_curated_bags`. The sums that the database adds up
    are of integers, hence exact, and all come from one snapshot.

    Examples
    --------
    >>> import duckdb  # doctest: +SKIP
    >>> from skprivate.aggregate import bags_from_sql
    >>> with duckdb.connect() as connection:  # doctest: +SKIP
    ...     visits = "read_parquet('visits/*.parquet')"
    ...     bags = bags_from_sql(connection, visits, ["age", "site"], "ill", classes=(0, 1), epsilon=1.0)
    """
    _labels.check_label_privacy(epsilon, delta)
    if not isinstance(label, str):
        raise ValueError(
            f"label must be the name of one column, got {label!r}. For several labels a row group in the database and "
            "pass the tables to release_frames."
        )
    known = None if classes is None else tuple(check_classes(classes))
    sums = _group_tables.SumColumns(("label",) if known is None or len(known) == 2 else tuple(map(str, known)), known)
    bounds = _release_frames.label_interval(label_bounds, sums)
    source = _Source(connection, table)
    with _snapshot(connection):
        types = source.types()
        names = _checked_names(types, columns, label)
        _check_label_type(label, types[label], known)
        n_rows = source.n_rows()
        if epsilon is not None:  # before the database converts what does not fit
            _release_frames.check_largest_sum(bounds, n_rows)
        n_cuts = _columns.default_bins(n_rows) if n_bins is None else n_bins
        edges = _edges(source, {name: types[name] for name in names}, categorical_features, n_cuts, bin_edges)
        keys = {name: bin_key(name, edges[name]) if name in edges else quoted(name) for name in names}
        sizes = partial(_sizes_of_singles, source, list(keys.values()))
        sets, _ = _cells.resolve_feature_sets(feature_sets, names, sizes)
        value, summed = _contributions(label, types[label], known, bounds)
        batches = _batches([tuple(names[j] for j in columns) for columns in sets])
        groups, totals = _read_groups(source, [Query(table, keys, value, summed, batch) for batch in batches])
    used = {names[j] for columns in sets for j in columns}
    coded = _group_tables.code_group_tables(groups, None, {name: edges[name] for name in edges if name in used})
    exact = coded.stack(totals)
    if epsilon is None:
        promise = _curated_bags.no_privacy(_curated_bags.assumptions_of(known))
        return _release_frames.report_groups(coded, exact.astype(np.float64), 0.0, sums, bounds, promise)
    return _release_frames.release_groups(
        coded,
        exact,
        sums,
        bounds,
        assumption="one row of the table holds one label; labels outside classes count as none, others are clipped",
        noise={"epsilon": epsilon, "delta": delta, "mechanism": mechanism},
        release={"random_state": random_state, "ledger": ledger, "label": "CuratedBags.from_sql"},
    )


def _checked_names(types: Mapping[str, str], columns: Sequence[str] | None, label: str) -> list[str]:
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got the string {columns!r}.")
    asked = [name for name in types if name != label] if columns is None else list(columns)
    absent = [name for name in [*asked, label] if name not in types]
    if absent:
        raise ValueError(f"the table has no column {', '.join(map(repr, absent))}; its columns are {list(types)}.")
    if label in asked or len(set(asked)) < len(asked) or not asked:
        raise ValueError(f"columns must be distinct features, at least one, without the label {label!r}; got {asked}.")
    return asked


def _check_label_type(label: str, kind: str, classes: tuple[Any, ...] | None) -> None:
    """Refuse a label type other than that of the classes.

    Types are public. Where they differ, the database would convert labels one by one and fail at one of them.
    """
    if classes is None:
        fits, wanted = (kind in _WHOLE, "of an integer type, as of CAST(ROUND(100 * price) AS BIGINT) in a view")
    elif all(isinstance(value, str) for value in classes):
        fits, wanted = kind.startswith(("VARCHAR", "ENUM")), "text, as the classes are"
    elif all(isinstance(value, (bool, np.bool_)) for value in classes):
        fits, wanted = kind == "BOOLEAN", "BOOLEAN, as the classes are"
    else:
        numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in classes)
        fits, wanted = numbers and kind.startswith((*_WHOLE, *_REALS)), "of one type with all classes"
    if not fits:
        raise ValueError(f"the label {label!r} must be {wanted}; it is of type {kind}, classes is {classes!r}.")


def _edges(
    source: _Source,
    types: Mapping[str, str],
    categorical_features: Iterable[str] | None,
    n_bins: int,
    bin_edges: Mapping[str, Sequence[float]] | None,
) -> dict[str, tuple[float, ...]]:
    """Find the edges of the binned columns: those given, and those learned from the column, read alone."""
    given, categorical = dict(bin_edges or {}), list(categorical_features or ())
    unknown = sorted({*given, *categorical} - set(types))
    if unknown:
        raise ValueError(f"bin_edges and categorical_features name columns that are no features: {unknown}.")
    edges = {}
    for name, kind in types.items():
        if name not in given and (name in categorical or not kind.startswith((*_WHOLE, *_REALS))):
            continue
        column = np.zeros(0) if name in given else source.numbers(name)
        learned = _blocks.learn_column(column, name, categorical=False, n_bins=n_bins, edges=given.get(name))
        assert isinstance(learned, _columns.BinnedColumn)
        edges[name] = learned.edges
    return edges


def _sizes_of_singles(source: _Source, keys: list[str], sets: list[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    return [source.group_sizes(keys[j]) for (j,) in sets]


def _batches(sets: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    """Split the sets, in their order, into batches whose columns one query can mark."""
    batches: list[list[tuple[str, ...]]] = []
    used: set[str] = set()
    for feature_set in sets:
        if not batches or len(used | set(feature_set)) > _MOST_KEYS:
            batches.append([])
            used = set()
        batches[-1].append(feature_set)
        used |= set(feature_set)
    return batches


def _contributions(
    label: str, kind: str, classes: tuple[Any, ...] | None, bounds: tuple[int, int]
) -> tuple[str, list[str]]:
    """Write the SQL of a label's value and of the integers that one row contributes, functions of that value alone.

    The value is the number of the first class that the label equals, or none. A collation, or a type that rounds, may
    make a label equal to several classes, and it still counts once. For numbers the value is the clipped number.
    """
    name = quoted(label)
    if classes is None:
        low, high = bounds
        clipped = f"LEAST(GREATEST({name}, {literal(low)}), {literal(high)})"
        missing = literal(min(max(0, low), high))
        return f"CAST(CASE WHEN {name} IS NULL THEN {missing} ELSE {clipped} END AS BIGINT)", ["value"]
    written = list(map(literal, classes))
    if kind == "FLOAT":  # in the precision of the label
        written = [f"CAST({sql} AS FLOAT)" for sql in written]
    # A list forms all comparisons for every row, so that one that fails does so whatever the labels are.
    value = f"list_position([{', '.join(f'{name} = {sql}' for sql in written)}], TRUE)"
    counted = range(1 if len(classes) == 2 else 0, len(classes))
    return value, [f"CASE WHEN value = {j + 1} THEN 1 ELSE 0 END" for j in counted]


def _read_groups(
    source: _Source, queries: Sequence[Query]
) -> tuple[list[_group_tables.GroupTable], list[NDArray[Any]]]:
    """Read the groups of each set of the queries, and their sums."""
    groups, totals = [], []
    for query in queries:
        marks, used = query.marks(), query.used
        parts: list[list[tuple[Any, ...]]] = [[] for _ in query.sets]
        for row in source.fetch(str(query)):
            parts[marks[int(row[0])]].append(row)
        for columns, part in zip(query.sets, parts, strict=True):
            keys = [_curated_bags.as_objects([row[1 + used.index(name)] for row in part]) for name in columns]
            counts = np.array([row[1 + len(used)] for row in part], dtype=np.int64)
            rest = np.zeros(len(part), dtype=bool)
            groups.append(_group_tables.GroupTable(f"the groups of {list(columns)}", columns, keys, rest, counts, None))
            totals.append(np.array([row[2 + len(used) :] for row in part], dtype=object))
    return groups, totals
