"""Bag tables from GROUP BY tables, and back: counts, label sums and what was said about their noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from skprivate.aggregate._bag_table import BagTable
from skprivate.aggregate._columns import UNKNOWN, BinnedColumn, Column
from skprivate.aggregate._group_tables import (
    GroupTable,
    SumColumns,
    code_group_tables,
    join_names,
    read_group_tables,
)
from skprivate.aggregate._losses import FloatArray

BACKENDS = ("pandas", "polars", "pyarrow")
#: Columns of a long frame, besides keys and sums.
TABLE, RARE, COUNT, SUM, NOISE = "table", "rare", "count", "label_sum", "noise_variance"
#: Sums of the same labels in another order differ by rounding only.
_ROUNDING = 1e-9


def frames_to_tables(
    tables: Any,
    sums: SumColumns,
    *,
    count: str,
    noise_variance: Any,
    table: str | None,
    rare: str | None,
    columns: Sequence[Column] | None,
    bin_edges: Mapping[str, Sequence[float]] | None,
) -> tuple[tuple[Column, ...], tuple[BagTable, ...]]:
    """Columns and bag tables; see `CuratedBags.from_frames`."""
    others = [*sums.names, *([noise_variance] if isinstance(noise_variance, str) else [])]
    groups = read_group_tables(tables, count=count, others=others, table=table, rare=rare)
    coding, keys, orders = code_group_tables(groups, columns, bin_edges)
    noise = _noise_of(noise_variance, groups)
    found = []
    for group, key, order, own in zip(groups, keys, orders, noise, strict=True):
        values = {name: _sums(group, name)[order] for name in sums.names}
        counts = group.counts[order]
        if own == 0.0 and sums.classes is not None:
            _check_class_counts(group, values, counts[:, np.newaxis], sums)
        kept = np.stack([values[name] for name in sums.used], axis=1)
        found.append(BagTable(group.feature_set, key, counts, kept, own))
    _check_totals(groups, found, sums)
    return coding, tuple(found)


def tables_to_frame(
    columns: Sequence[Column], tables: Sequence[BagTable], classes: tuple[Any, ...] | None, backend: Any
) -> Any:
    """One long frame of all bags; see `CuratedBags.to_frame`."""
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}.")
    sums = sum_names(tables[0].label_sums.shape[1], classes)
    used = [column for column in columns if any(column.name in table.feature_set for table in tables)]
    names = [TABLE, *(column.name for column in used), RARE, COUNT, *sums, NOISE]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"to_frame writes columns {', '.join(map(repr, twice))} of its own, and X or classes have such names too: "
            "rename those, or use to_dict()."
        )
    data: dict[str, list[Any]] = {name: [] for name in names}
    for table in tables:
        rest = table.keys[:, 0] == UNKNOWN
        data[TABLE] += [join_names(table.feature_set)] * table.n_bags
        for column in used:
            if column.name in table.feature_set:
                codes = table.keys[:, table.feature_set.index(column.name)].tolist()
                data[column.name] += [None if code == UNKNOWN else _key(column, code) for code in codes]
            else:
                data[column.name] += [None] * table.n_bags
        data[RARE] += rest.tolist()
        data[COUNT] += table.counts.tolist()
        for name, values in zip(sums, table.label_sums.T, strict=True):
            data[name] += values.tolist()
        data[NOISE] += [float(table.noise_variance)] * table.n_bags
    schema = {TABLE: nw.String(), RARE: nw.Boolean(), COUNT: nw.Int64(), NOISE: nw.Float64()}
    schema |= {name: nw.Float64() for name in sums}
    schema |= {column.name: _key_type(column) for column in used}
    if backend == "pandas":
        # Its integers know no missing value: keys stay what they are.
        keys = {column.name for column in used}
        arrays = {name: _as_objects(data[name]) if name in keys else np.array(data[name]) for name in names}
        arrays[TABLE] = _as_objects(data[TABLE])
        return nw.from_dict(arrays, backend=backend).to_native()
    return nw.from_dict(data, schema={name: schema[name] for name in names}, backend=backend).to_native()


def sum_names(n_outputs: int, classes: tuple[Any, ...] | None) -> list[str]:
    """Names of the columns of sums in a long frame: one, or one for each of several classes."""
    return [SUM] if n_outputs == 1 or classes is None else [f"{SUM}_{label}" for label in classes]


def _key(column: Column, code: int) -> Any:
    """A value that has the code: the category, or the lower end of the bin."""
    if not isinstance(column, BinnedColumn):
        return column.categories[code]
    if code == len(column.edges) + 1:
        return None
    return column.edges[code - 1] if code else -math.inf


def _key_type(column: Column) -> Any:
    if isinstance(column, BinnedColumn):
        return nw.Float64()
    types = {type(value) for value in column.categories if value is not None}
    for plain, kind in ((str, nw.String()), (bool, nw.Boolean()), (int, nw.Int64()), (float, nw.Float64())):
        if types <= {plain} and not (
            plain is int and any(abs(v) >= 2**63 for v in column.categories if v is not None)
        ):
            return kind
    raise ValueError(
        f"column {column.name!r} holds values that one column of a frame cannot hold "
        f"({', '.join(sorted(kind.__name__ for kind in types))}): use to_dict()."
    )


def _as_objects(values: Sequence[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _noise_of(said: Any, groups: Sequence[GroupTable]) -> list[float]:
    if isinstance(said, str):
        each = []
        for group in groups:
            distinct = set(group.frame[said].to_list())
            if len(distinct) != 1:
                raise ValueError(
                    f"{group.title}: column {said!r} must hold one noise variance per table, got {len(distinct)}."
                )
            each.append(distinct.pop())
    elif np.ndim(said) == 0:
        each = [said] * len(groups)
    else:
        each = list(said)
        if len(each) != len(groups):
            raise ValueError(f"noise_variance has {len(each)} numbers for {len(groups)} tables.")
    try:
        numbers = [float(one) for one in each]
    except (TypeError, ValueError):
        numbers = [math.nan]
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError(
            "noise_variance must be the variance of the noise in each sum, finite and at least 0 (2b² of Laplace noise "
            f"of scale b, σ² of Gaussian noise, 0 of exact sums), got {said!r}."
        )
    return numbers


def _sums(group: GroupTable, name: str) -> FloatArray:
    values = group.frame[name].to_numpy()
    try:
        numbers = np.asarray([np.nan if v is None else float(v) for v in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{group.title}: column {name!r} must hold numbers, the sums of labels.") from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"{group.title}: column {name!r} is NULL, NaN or infinite for {int(np.sum(~np.isfinite(numbers)))} groups "
            "with rows. SUM is NULL where all labels are: keep rows with a label only, in counts and sums alike."
        )
    return numbers


def _check_class_counts(group: GroupTable, values: Any, counts: Any, sums: SumColumns) -> None:
    found = np.stack([values[name] for name in sums.names], axis=1)
    advice = "Exact sums of 0/1 labels do; for noisy ones state noise_variance=, for numbers leave classes at None."
    if np.any(found < 0) or np.any(found > counts) or np.any(found != np.floor(found)):
        raise ValueError(
            f"{group.title}: {_said(sums.names)} must hold whole numbers between 0 and the group's count. {advice}"
        )
    if len(sums.names) > 1 and np.any(found.sum(axis=1) != counts[:, 0]):
        raise ValueError(f"{group.title}: {_said(sums.names)} must add up to the group's count. {advice}")


def _check_totals(groups: Sequence[GroupTable], tables: Sequence[BagTable], sums: SumColumns) -> None:
    exact = [(group, table) for group, table in zip(groups, tables, strict=True) if not table.noise_variance]
    totals = np.array([table.label_sums.sum(axis=0) for _, table in exact])
    scale = np.array([np.abs(table.label_sums).sum() for _, table in exact])
    if totals.size and np.any(np.ptp(totals, axis=0) > _ROUNDING * scale.max()):
        raise ValueError(
            f"{' and '.join(group.title for group, _ in exact)}: {_said(sums.used)} add up to different totals, though "
            "the tables group the same rows. For noisy sums state noise_variance=."
        )


def _said(names: Sequence[str]) -> str:
    return f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"
