"""GROUP BY tables as data frames of any library: read, checked and coded."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skprivate._messages import must_be
from skprivate._validation import check_classes, frame_columns, refuse_elsewhere
from skprivate.aggregate import _losses
from skprivate.aggregate.tables import _blocks, _cells, _columns, _labels
from skprivate.aggregate.tables._columns import CodeArray, Column


@dataclass(frozen=True)
class SumColumns:
    """Names of the columns of label sums, and their classes; None for numbers, (0, 1) for each of several labels."""

    names: tuple[str, ...]
    classes: tuple[Any, ...] | None

    @property
    def used(self) -> tuple[str, ...]:
        """Columns that a report keeps: of two classes that of the second."""
        two = self.classes is not None and len(self.classes) == 2 and not _labels.are_labels(self.classes)
        return self.names[-1:] if two else self.names

    @property
    def moved(self) -> int:
        """Count the sums of a table that the label, or labels, of one row may move."""
        several = self.classes is None or _labels.are_labels(self.classes)
        return len(self.used) if several else min(len(self.used), 2)

    @classmethod
    def of(cls, sums: Any, classes: Any) -> SumColumns:
        """Read names and classes from a name, a sequence of names, or {class: name}."""
        if isinstance(sums, Mapping):
            summed = check_classes(sums)
            if classes is not None and (named := check_classes(classes)) != summed:
                raise ValueError(f"sums has columns for the classes {summed}, but classes is {named}.")
            return cls(tuple(str(sums[c]) for c in summed), tuple(summed))
        names = (sums,) if isinstance(sums, str) else tuple(sums)
        if classes is None:
            return cls(names, None)
        classes = tuple(classes)
        if len(names) == len(classes) and not _labels.are_labels(classes):
            return cls.of(dict(zip(classes, names, strict=True)), classes)
        order = check_sum_classes(classes)
        if len(names) != len(order) and not (len(names) == 1 and len(order) == 2 and not _labels.are_labels(order)):
            raise ValueError(
                f"sums names {len(names)} columns, {list(names)}, for the {len(order)} classes {list(order)}: give one "
                "for each class, or for two classes the one with the rows of the second."
            )
        return cls(names, order)


def check_sum_classes(classes: Any) -> tuple[Any, ...]:
    """Check class labels, in the order of label sums, or (0, 1) for each of several labels."""
    classes = tuple(classes)
    if not _labels.are_labels(classes):
        if (order := check_classes(classes)) != list(classes):
            advice = "Label sums are in that order, and those of one column count the last class."
            raise ValueError(must_be("classes", f"in order, {order}", list(classes), advice))
        return tuple(order)
    if any(list(pair) != [0, 1] for pair in classes):
        raise ValueError(f"classes must be (0, 1) for each of several labels, got {classes!r}.")
    return ((0, 1),) * len(classes)


@dataclass(frozen=True, eq=False)
class GroupTable:
    """GROUP BY table without its empty groups.

    ``title`` names it in messages, ``rest`` marks the group of all rare combinations, ``frame`` holds the sums.
    """

    title: str
    feature_set: tuple[str, ...]
    keys: list[NDArray[Any]]
    rest: NDArray[np.bool_]
    counts: _cells.IntArray
    frame: Any


@dataclass(frozen=True, eq=False)
class CodedGroups:
    """Group tables with coded keys, increasing and the rest last; ``orders`` are the groups of the keys."""

    tables: Sequence[GroupTable]
    columns: tuple[Column, ...]
    keys: list[CodeArray]
    orders: list[NDArray[np.intp]]

    @property
    def n_rows(self) -> int:
        return int(self.tables[0].counts.sum())

    def stack(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Stack the values of all tables' groups in the order of the keys."""
        return np.concatenate([of_table[order] for of_table, order in zip(values, self.orders, strict=True)])

    @property
    def counts(self) -> _cells.IntArray:
        return self.stack([table.counts for table in self.tables])

    def bags(self, sums: _losses.FloatArray, noise_variances: Sequence[float]) -> tuple[_cells.BagTable, ...]:
        """Make bag tables of the stacked sums of all groups."""
        ends = np.cumsum([table.counts.size for table in self.tables])[:-1]
        parts = zip(self.tables, self.keys, self.orders, np.split(sums, ends), noise_variances, strict=True)
        return tuple(
            _cells.BagTable(table.feature_set, key, table.counts[order], part, noise)
            for table, key, order, part, noise in parts
        )


def read_group_tables(
    tables: object,
    *,
    count: str,
    others: Iterable[str],
    table: str | None = None,
    rare: str | None = None,
    keys: Sequence[str] | None = None,
) -> list[GroupTable]:
    """Read tables from one frame, several, or one long frame whose column ``table`` names the grouping columns.

    ``others`` are columns that hold neither keys nor counts. ``keys`` are the grouping columns of all tables; columns
    that nothing names are then left out.
    """
    apart = [count, *others, *([rare] if rare else []), *([table] if table else [])]
    groups = []
    frames = _named_frames(tables)
    unknown = sorted(set(keys or ()) - {name for _, frame in frames for name in frame.columns})
    if unknown or (keys and set(keys) & set(apart)):
        raise ValueError(
            f"keys must be grouping columns of the tables, and no column of counts or sums, got {list(keys or ())}."
        )
    for title, frame in frames:
        absent = [name for name in dict.fromkeys(apart) if name not in frame.columns]
        if absent:
            raise ValueError(
                f"{title} has no column {', '.join(map(repr, absent))}; its columns are {list(frame.columns)}. Name "
                "them by count=, sums=, table=, rare= and noise_variance=."
            )
        own = [name for name in frame.columns if name not in apart and (keys is None or name in keys)]
        if table is None:
            groups.append(_read_group_table(title, frame, own, count, rare))
            continue
        for name in dict.fromkeys(frame[table].to_list()):
            columns = _split_names(name, own, f"{title}: column {table!r}")
            part = frame.filter(nw.col(table) == name)
            groups.append(_read_group_table(f"{title}, {name!r}", part, columns, count, rare))
    if not groups:
        raise ValueError("tables holds no table: give at least one GROUP BY table.")
    _check_together(groups)
    return groups


def code_group_tables(
    tables: Sequence[GroupTable],
    columns: Sequence[Column] | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
) -> CodedGroups:
    """Encode the keys; by default the values that occur are the categories."""
    names = list(dict.fromkeys(name for table in tables for name in table.feature_set))
    codes: dict[tuple[int, str], CodeArray] = {}
    given = _given_columns(columns, names, bin_edges)
    coding = dict(given or {})
    for name in names:
        places = [j for j, table in enumerate(tables) if name in table.feature_set]
        parts = [tables[j].keys[tables[j].feature_set.index(name)][~tables[j].rest].astype(object) for j in places]
        values = np.concatenate(parts)
        if given is None:
            edges = (bin_edges or {}).get(name)
            learned = _blocks.learn_column(values, name, categorical=edges is None, n_bins=2, edges=edges)
            coding[name] = learned
            kinds = {isinstance(value, str) for value in getattr(learned, "categories", ()) if value is not None}
            if len(kinds) > 1:
                raise ValueError(f"column {name!r} holds text in some groups and numbers in others: use one type.")
        (part_codes,) = _columns.encode_columns([values], [coding[name]])
        if np.any(part_codes < 0):
            unknown = sorted({repr(v) for v in values[part_codes < 0].tolist()})[:5]
            raise ValueError(
                f"tables have values of column {name!r} that its coding in columns= does not know: "
                f"{', '.join(unknown)}."
            )
        ends = np.cumsum([part.size for part in parts])[:-1]
        codes.update({(j, name): part for j, part in zip(places, np.split(part_codes, ends), strict=True)})
    all_keys, orders = [], []
    for j, table in enumerate(tables):
        keys = np.full((table.counts.size, len(table.feature_set)), _columns.UNKNOWN, dtype=np.int32)
        keys[~table.rest] = np.stack([codes[j, name] for name in table.feature_set], axis=1)
        # The rest, of codes -1, is last.
        order = np.lexsort([*keys.T[::-1], table.rest])
        _check_distinct(table, keys[order], order)
        all_keys.append(keys[order])
        orders.append(order)
    kept = tuple(coding[name] for name in names) if columns is None else tuple(columns)
    return CodedGroups(tables, kept, all_keys, orders)


def floats(frame: Any, name: str) -> _losses.FloatArray | None:
    """Read a column of numbers, NaN where one is missing; None where something else is in it."""
    try:
        return np.array([np.nan if v is None else float(v) for v in frame[name].to_numpy().tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def whole_numbers(frame: Any, name: str, title: str) -> _cells.IntArray:
    """Read a column of public whole numbers of at least 0."""
    values, numbers = frame[name].to_numpy(), floats(frame, name)
    numbers = np.full(len(values), np.nan) if numbers is None else numbers
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 2**53))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{title}: column {name!r} must hold numbers of rows, whole and at least 0, got {values[row]!r} in row "
            f"{row}. Counts are public and exact; noise belongs on the sums only."
        )
    return numbers.astype(np.int64)


def flags(frame: Any, name: str, title: str) -> NDArray[np.bool_]:
    values = frame[name].to_list()
    if any(not isinstance(value, (bool, np.bool_)) for value in values):
        raise ValueError(f"{title}: column {name!r} must hold true or false in every row.")
    return np.array(values, dtype=bool)


def join_names(feature_set: Sequence[str]) -> str:
    """Join names of columns; a name with a comma is quoted, as in a CSV file."""
    return ",".join(
        f'"{name.replace(chr(34), chr(34) * 2)}"' if any(c in name for c in ',"\r\n') or not name else name
        for name in feature_set
    )


def _split_names(joined: object, known: Sequence[str], where: str) -> list[str]:
    names = next(csv.reader([joined], strict=True), []) if isinstance(joined, str) else []
    if not names or any(name not in known for name in names):
        raise ValueError(
            f"{where} must name the grouping columns of each row's table, separated by commas, got {joined!r}; the "
            f"columns are {list(known)}."
        )
    return names


def _named_frames(tables: object) -> list[tuple[str, Any]]:
    if (alone := _frame(tables, "tables")) is not None:
        return [("tables", alone)]
    titled: list[tuple[str, object]] = [("tables", tables)]
    if isinstance(tables, Mapping):
        titled = [(f"tables[{name!r}]", table) for name, table in tables.items()]
    elif isinstance(tables, Iterable) and not isinstance(tables, (str, bytes)):
        titled = [(f"tables[{j}]", table) for j, table in enumerate(tables)]
    frames = []
    for title, table in titled:
        frame = _frame(table, title)
        if frame is None:
            raise TypeError(
                f"{title} must be a pandas, polars or pyarrow table with one row per group, got {type(table).__name__}."
            )
        frames.append((title, frame))
    return frames


def _frame(table: object, title: str) -> Any:
    if nw.dependencies.is_pandas_dataframe(table) and any(name is not None for name in table.index.names):
        table = table.reset_index()  # the keys of groupby(...).agg(...)
    if type(table).__name__ == "RecordBatchReader" and hasattr(table, "read_all"):  # of pyarrow, DuckDB's .arrow()
        table = table.read_all()
    refuse_elsewhere(table, title)
    frame = nw.from_native(table, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _read_group_table(title: str, frame: Any, keys: Sequence[str], count: str, rare: str | None) -> GroupTable:
    if not keys:
        raise ValueError(
            f"{title} has no grouping column: besides the columns of counts and sums it must have those of GROUP BY."
        )
    counts = whole_numbers(frame, count, title)
    if not counts.any():
        raise ValueError(f"{title} has no rows: column {count!r} is 0 throughout, or the table is empty.")
    # A combination that no row has is not there in GROUP BY, and needs no bag where a join lists it.
    frame = frame.filter((counts > 0).tolist())
    rest = np.zeros(int(np.sum(counts > 0)), dtype=bool) if rare is None else flags(frame, rare, title)
    if rest.sum() > 1:
        raise ValueError(f"{title}: column {rare!r} marks {int(rest.sum())} groups, at most one is the rest.")
    if rest.all():
        raise ValueError(f"{title} has no group but the rest.")
    values = frame_columns(frame.select(keys).to_native())
    return GroupTable(title, tuple(keys), values, rest, counts[counts > 0], frame)


def _check_together(tables: Sequence[GroupTable]) -> None:
    totals = {table.title: int(table.counts.sum()) for table in tables}
    if len(set(totals.values())) > 1:
        listed = ", ".join(f"{title}: {total}" for title, total in totals.items())
        raise ValueError(
            f"tables count different numbers of rows ({listed}). They must group the same rows: the same WHERE, NULL "
            "as a group of its own, and groups that were left out for their size as one more row (rare=)."
        )
    sets = [frozenset(table.feature_set) for table in tables]
    twice = next((table for table in tables if sets.count(frozenset(table.feature_set)) > 1), None)
    if twice is not None:
        raise ValueError(f"tables holds two tables grouped by {list(twice.feature_set)}: give each once.")


def _given_columns(
    columns: Sequence[Column] | None, names: Sequence[str], bin_edges: Mapping[str, Any] | None
) -> dict[str, Column] | None:
    unknown = sorted(set(bin_edges or {}) - set(names))
    if unknown:
        raise ValueError(
            f"bin_edges names columns that no table groups by: {unknown}; grouping columns are {list(names)}."
        )
    if columns is None:
        return None
    if bin_edges:
        raise ValueError("columns and bin_edges both say how keys are coded: give one of them.")
    given = {column.name: column for column in columns}
    absent = [name for name in names if name not in given]
    if absent:
        raise ValueError(f"columns has no coding of {absent}; it has {list(given)}.")
    return given


def _check_distinct(table: GroupTable, keys: CodeArray, order: NDArray[np.intp]) -> None:
    repeated = np.flatnonzero(np.all(keys[1:] == keys[:-1], axis=1))
    if repeated.size:
        group = int(order[repeated[0]])
        listed = ", ".join(
            f"{n}={v[group].item() if isinstance(v[group], np.generic) else v[group]!r}"
            for n, v in zip(table.feature_set, table.keys, strict=True)
        )
        raise ValueError(
            f"{table.title} lists the group {listed} more than once: group by {list(table.feature_set)} alone, and "
            "give numbers that are cut by bin_edges one row per bin."
        )
