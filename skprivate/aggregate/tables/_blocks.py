"""Tables of any kind, in memory or in blocks, as columns and their codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from skprivate._validation import entries, frame_columns, is_frame, refuse_elsewhere
from skprivate._validation import learn_columns as learn_column_names
from skprivate.aggregate.tables import _columns, _sums
from skprivate.aggregate.tables._columns import BinnedColumn, CodeArray, Column, Interval, QuantileSketch
from skprivate.partitions import OTHER_ROWS, InMemory, Partitions, Roles, split_columns


class Table(NamedTuple):
    """Block of rows: ``size`` has its length, ``X`` is an array, a list of columns or None, ``keys`` may be None."""

    size: range
    X: Any
    labels: NDArray[Any]
    keys: NDArray[Any] | None = None


def label_column(X: Any, y: Any, **roles: object) -> Partitions:
    """Split rows in blocks from their column of labels (and others); see `split_columns`."""
    if y is None:
        raise ValueError("y must name the column of X that holds the labels, got None.")
    return split_columns(X, y=y, **roles)


def learn_names(estimator: BaseEstimator, X: Any, y: Any, **roles: object) -> Any:
    """Let an estimator learn names and number of the features; returns a copy without other state, for workers."""
    return learn_column_names(estimator, label_column(X, y, **roles).empty_block.X)[0]


def table_blocks(
    X: Any, y: Any, read: Callable[[Any], tuple[list[str], list[NDArray[Any]]]], read_labels: Callable[[Any], Any]
) -> tuple[list[str], Partitions]:
    """Read the names of the features, and rows in blocks as `Table` of columns."""
    rows = label_column(X, y)
    names, _ = read_columns(rows.empty_block.X, tighten=False)
    return names, read_blocks(
        rows, partial(_read_named, names=names, read=read), read_labels, [np.zeros(0)] * len(names)
    )


def _read_named(
    X: Any, *, names: list[str], read: Callable[[Any], tuple[list[str], list[NDArray[Any]]]]
) -> list[NDArray[Any]]:
    block_names, values = read(X)
    if block_names != names:
        raise ValueError("blocks must all have the columns of the first one, in its order and by the same names.")
    return values


def read_blocks(
    rows: Partitions, read: Callable[[Any], Any] | None, read_labels: Callable[[Any], Any], no_rows: object
) -> Partitions:
    """Read blocks of `label_column` as `Table`, with features ``no_rows`` where there are none to read."""
    return rows.map(partial(_read_block, read=read, read_labels=read_labels, no_rows=no_rows))


def _read_block(
    block: Roles, *, read: Callable[[Any], Any] | None, read_labels: Callable[[Any], Any], no_rows: object
) -> Table:
    labels, keys = np.asarray(block.of["y"]), block.of.get("row_keys")
    keys = None if keys is None else np.asarray(keys)
    if labels.size == 0:  # types of nothing are anything
        return Table(range(0), no_rows, labels, keys)
    X = no_rows if read is None else read(block.X)
    return Table(range(labels.size), X, read_labels(labels), keys)


def read_columns(X: Any, *, tighten: bool = True) -> tuple[list[str], list[NDArray[Any]]]:
    """Read names and columns of a pandas, polars or pyarrow table, an array, or a list of rows.

    Names are "x0", "x1", … where X has none. ``tighten`` converts a column of objects that are all numbers, which may
    hold for one block only.
    """
    refuse_elsewhere(X)
    if is_frame(X):
        columns, names = frame_columns(X), getattr(X, "column_names", X.columns)
    else:
        array = entries(np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X))
        if array.ndim != 2:
            raise ValueError(f"X must be two-dimensional, got shape {array.shape}. Reshape your data.")
        columns, names = list(array.T), [f"x{j}" for j in range(array.shape[1])]
    return list(map(str, names)), [_tighten(column) for column in columns] if tighten else columns


def categorical_mask(categorical_features: Any, names: Sequence[str]) -> list[bool]:
    """Decide which columns are categorical, if that does not depend on their types."""
    if isinstance(categorical_features, str):
        if categorical_features == "all":
            return [True] * len(names)
        raise ValueError(
            f"categorical_features must be 'from_dtype', 'all' or a list of columns, got {categorical_features!r}."
        )
    chosen = np.asarray(list(categorical_features))
    if chosen.dtype == bool:
        if chosen.size != len(names):
            raise ValueError(f"categorical_features is a mask of length {chosen.size}, X has {len(names)} columns.")
        return [bool(flag) for flag in chosen]
    mask = [False] * len(names)
    for column in chosen.tolist():
        if isinstance(column, str) and column in names:
            mask[list(names).index(column)] = True
        elif isinstance(column, int) and 0 <= column < len(names):
            mask[column] = True
        else:
            raise ValueError(f"categorical_features names column {column!r}; X has the columns {list(names)}.")
    return mask


def _tighten(column: NDArray[Any]) -> NDArray[Any]:
    """Convert objects that are floats, or integers with none missing, to numbers."""
    if column.dtype != object or not _columns.is_numeric(column):
        return column
    if any(isinstance(value, float) for value in column):
        return column.astype(np.float64)
    try:
        return column if any(value is None for value in column) else column.astype(np.int64)
    except OverflowError:
        return column


@dataclass(frozen=True, eq=False)
class _Part:
    """Summary of one column over some blocks: its distinct values, a sketch of its quantiles, or neither."""

    numeric: bool = True
    floats: bool = False
    values: dict[Any, None] | None = None
    sketch: QuantileSketch | None = None


def learn_blocks(
    rows: Partitions,
    names: Sequence[str],
    *,
    categorical_features: object,
    n_bins: int | None,
    bin_edges: Mapping[str, Sequence[float]] | None,
    summarise_labels: Callable[[NDArray[Any]], Any],
    merge_labels: Callable[[list[Any]], Any],
) -> tuple[tuple[Column, ...], int, Any]:
    """Learn columns from one pass over the rows; numbers may need a few more.

    Numeric columns are cut at their ``bin_edges``, else by `QuantileSketch.edges`. ``summarise_labels`` and
    ``merge_labels`` summarise the labels of one block, and of several. Returns columns, number of rows, and summary.
    """
    given = _columns.checked_bins(names, 2 if n_bins is None else n_bins, bin_edges)
    # Numbers that are in memory anyway need no second look.
    max_cells = sys.maxsize if isinstance(rows, InMemory) else max(_columns.MAX_CELLS, 8 * (n_bins or 0))
    mask: list[bool | None] = [None] * len(names)
    if not (isinstance(categorical_features, str) and categorical_features == "from_dtype"):
        mask = list(categorical_mask(categorical_features, names))
    summarise = partial(_summarise_columns, names=names, given=tuple(given), max_cells=max_cells)
    merge = partial(merge_each, merge=partial(_merge_parts, max_cells=max_cells))
    parts, n_rows, labels = rows.gather(
        partial(_summarise_block, summarise=partial(summarise, mask=mask), summarise_labels=summarise_labels),
        partial(_merge_blocks, merge=merge, merge_labels=merge_labels),
    )
    mask = [
        bool(name not in given and not part.numeric) if known is None else known
        for name, part, known in zip(names, parts, mask, strict=True)
    ]
    if any(part.sketch is not None and categorical for part, categorical in zip(parts, mask, strict=True)):
        # Numbers in some blocks, something else in others.
        parts = rows.gather(partial(summarise, mask=mask), merge)
    cuts = {name: part.sketch for name, part in zip(names, parts, strict=True) if part.sketch is not None}
    edges = given | _edges(rows, names, cuts, _columns.default_bins(n_rows) if n_bins is None else n_bins, max_cells)
    columns = tuple(
        BinnedColumn(name, edges.get(name, ()))
        if name in given or not categorical
        else _columns.CategoricalColumn(name, _categories(part))
        for name, part, categorical in zip(names, parts, mask, strict=True)
    )
    return columns, n_rows, labels


def learn_column(
    values: NDArray[Any], name: str, *, categorical: bool, n_bins: int, edges: Sequence[float] | None = None
) -> Column:
    (column,), _, _ = learn_blocks(
        InMemory(Table(range(len(values)), [values], values)),
        [name],
        categorical_features="all" if categorical else (),
        n_bins=n_bins,
        bin_edges=None if edges is None else {name: edges},
        summarise_labels=len,
        merge_labels=sum,
    )
    return column


def encode_blocks(
    rows: Partitions, columns: tuple[Column, ...], targets: Callable[[NDArray[Any]], NDArray[Any]]
) -> Partitions:
    """Encode blocks of `Table` as `Labelled`; ``targets`` maps labels to what is summed."""
    return rows.map(partial(_encode, columns=columns, targets=targets))


def gather_codes(rows: Partitions, columns: tuple[Column, ...]) -> list[CodeArray]:
    """Gather the codes of all columns, which are public, in the order of the rows, in the narrowest type."""
    dtypes = [np.min_scalar_type(max(column.n_codes - 1, 0)) for column in columns]
    narrow, join = partial(_narrow_codes, dtypes=dtypes), partial(merge_each, merge=np.concatenate)
    codes: list[CodeArray] = rows.gather(narrow, join)
    return codes


def merge_each(blocks: list[list[Any]], *, merge: Callable[[Any], Any]) -> list[Any]:
    """Merge what several blocks have of each column or feature set."""
    return [merge(parts) for parts in zip(*blocks, strict=True)]


def _encode(
    block: Table, *, columns: tuple[Column, ...], targets: Callable[[NDArray[Any]], NDArray[Any]]
) -> _sums.Labelled:
    return _sums.Labelled(block.size, targets(block.labels), _columns.encode_known(block.X, columns))


def _narrow_codes(block: _sums.Labelled, *, dtypes: Sequence[np.dtype[Any]]) -> list[NDArray[Any]]:
    return [codes.astype(dtype) for codes, dtype in zip(block.codes, dtypes, strict=True)]


def _summarise_block(
    block: Table, *, summarise: Callable[[Table], list[_Part]], summarise_labels: Callable[[NDArray[Any]], Any]
) -> tuple[list[_Part], int, Any]:
    return summarise(block), len(block.size), summarise_labels(block.labels)


def _merge_blocks(
    blocks: list[tuple[list[_Part], int, Any]],
    *,
    merge: Callable[[list[list[_Part]]], list[_Part]],
    merge_labels: Callable[[list[Any]], Any],
) -> tuple[list[_Part], int, Any]:
    parts, sizes, labels = zip(*blocks, strict=True)
    return merge(list(parts)), sum(sizes), merge_labels(list(labels))


def _summarise_columns(
    block: Table, *, names: Sequence[str], given: tuple[str, ...], mask: Sequence[bool | None], max_cells: int
) -> list[_Part]:
    if not block.size:
        return [_Part()] * len(names)
    parts = []
    for name, values, categorical in zip(names, block.X, mask, strict=True):
        numeric = _columns.is_numeric(values)
        floats = values.dtype.kind == "f" or (
            values.dtype == object and any(isinstance(value, float) for value in values)
        )
        distinct = sketch = None
        if name in given:
            pass
        elif not numeric if categorical is None else categorical:
            distinct = dict.fromkeys(_columns.plain_values(values if values.dtype == object else np.unique(values)))
        else:
            sketch = QuantileSketch.from_numbers(_columns.as_numbers(values, name)).compress(max_cells)
        parts.append(_Part(numeric, floats, distinct, sketch))
    return parts


def _merge_parts(parts: Sequence[_Part], *, max_cells: int) -> _Part:
    values = [part.values for part in parts if part.values is not None]
    sketches = [part.sketch for part in parts if part.sketch is not None]
    return _Part(
        all(part.numeric for part in parts),
        any(part.floats for part in parts),
        dict.fromkeys(chain.from_iterable(values)) if values else None,
        QuantileSketch.merge(sketches, max_cells) if sketches else None,
    )


def _categories(part: _Part) -> tuple[Any, ...]:
    values = list(part.values or {})
    if part.numeric and part.floats:  # a whole column of numbers would be one of floats
        values = [None if value is None else float(value) for value in values]
    return tuple(_columns.in_order(dict.fromkeys(values)))


def _edges(
    rows: Partitions, names: Sequence[str], sketches: dict[str, QuantileSketch], n_bins: int, max_cells: int
) -> dict[str, tuple[float, ...]]:
    """Find the edges of columns, with as many passes as the wanted numbers need."""
    edges: dict[str, tuple[float, ...]] = {}
    while True:
        cuts = {name: sketch.edges(n_bins) for name, sketch in sketches.items()}
        edges |= {name: cut for name, cut in cuts.items() if isinstance(cut, tuple)}
        unclear = {name: cut for name, cut in cuts.items() if not isinstance(cut, tuple)}
        sketches = {name: sketches[name] for name in unclear}
        if not unclear:
            break
        within = {names.index(name): sketches[name].intervals(which) for name, which in unclear.items()}
        finer = rows.gather(
            partial(_sketch_within, names=names, within=within, max_cells=max_cells),
            partial(merge_each, merge=partial(QuantileSketch.merge, max_cells=max_cells)),
        )
        for (name, which), sketch in zip(unclear.items(), finer, strict=True):
            if sketch.counts.sum() != sketches[name].counts[which].sum():
                raise RuntimeError(OTHER_ROWS)
            sketches[name] = sketches[name].refine(which, sketch)
    return edges


def _sketch_within(
    block: Table, *, names: Sequence[str], within: dict[int, Interval], max_cells: int
) -> list[QuantileSketch]:
    return [
        QuantileSketch.from_numbers(_columns.as_numbers(block.X[j], names[j]), interval).compress(max_cells)
        for j, interval in within.items()
    ]
