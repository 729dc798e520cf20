"""Exact GROUP BY tables, released with noise on their label sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from skprivate._validation import plain_entry
from skprivate.aggregate import _losses
from skprivate.aggregate.tables import _cells, _columns, _curated_bags, _group_tables, _labels, _sums
from skprivate.aggregate.tables._group_tables import CodedGroups, GroupTable, SumColumns
from skprivate.privacy import Mechanism, PrivacyEvent, PrivacyGuarantee, PrivacyLedger, RandomStateLike, Release

#: Sums and noise stay within int64.
_LARGEST_SUM = 1 << 61


@dataclass(frozen=True, eq=False)
class TableSums(Mechanism):
    """Integer label sums of the groups of all tables, clipped to [lowest, highest] by their public counts."""

    lowest: _cells.IntArray
    highest: _cells.IntArray
    n_outputs: int
    noise: _labels.LabelNoise
    assumptions: tuple[str, ...] = ()
    theorem = _curated_bags.THEOREM

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [(self.noise.event(self.lowest.size * self.n_outputs), 1)]

    def run(self, sums: Any, release: Release) -> _losses.FloatArray:
        """Add noise to integer sums of shape (n_groups, n_outputs)."""
        # As Python integers: what does not fit int64 is clipped, not wrapped.
        clipped = np.minimum(np.maximum(sums.astype(object), self.lowest.astype(object)), self.highest)
        return self.noise.draw(clipped.astype(np.int64), release)


def release_frames(
    tables: object,
    *,
    epsilon: float,
    delta: float = 0.0,
    count: str = _curated_bags.COUNT,
    sums: str | Sequence[str] | Mapping[Any, str] = _curated_bags.SUM,
    classes: Sequence[Any] | None = None,
    label_bounds: tuple[int, int] | None = None,
    keys: Sequence[str] | None = None,
    mechanism: _labels.NoiseName = "auto",
    table: str | None = None,
    rare: str | None = None,
    columns: Sequence[_columns.Column] | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
    random_state: RandomStateLike = None,
    ledger: PrivacyLedger | None = None,
) -> _curated_bags.CuratedBags:
    """Add noise to the label sums of exact GROUP BY tables, all in one release.

    Parameters
    ----------
    tables : pandas, polars or pyarrow table, or sequence or mapping of such
        As in `CuratedBags.from_frames`; private are the sums and nothing else. All tables must group the same rows.
    epsilon : float
        Privacy loss bound, ε > 0, of the label of one row, for all tables together.
    delta : float, default=0.0
        With ``delta > 0``, Gaussian noise may be used.
    count : str, default="count"
    sums : str, sequence of str, or mapping from class to str, default="label_sum"
        Columns of an integer type. SUM in floating point is not exact, and its noise would not cover how it rounds.
        NULL, the SUM of a group without labels, is 0; pandas makes floats of integers beside it: COALESCE it there.
    classes : sequence, optional
        Public class labels of 0/1 sums; None for sums of whole numbers. ``[(0, 1), …]`` for several 0/1 labels a row.
    label_bounds : (int, int), optional
        For numbers: public interval that every label is in (clip the labels in the query), the same for all columns.
    keys : sequence of str, optional
        The grouping columns of all tables, whose values are released as they are; all other columns are left out. None
        takes every column that no other parameter names, and refuses tables in which one of them is determined by
        the others, as an average that the query computed from labels is.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
    table, rare, columns, bin_edges
        As in `CuratedBags.from_frames`.
    random_state : None, int or RandomState
        Not None: simulated noise, not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    CuratedBags

    Raises
    ------
    TypeError
        If a table is none, or not in memory.
    ValueError
        If keys or counts are refused by `CuratedBags.from_frames`, sums are no integers, ``label_bounds`` are
        missing or no integers, or it is in doubt which columns are keys or whether
        groups are subtotals of others. Messages do not depend on the sums, and
        nothing is spent.

    See Also
    --------
    make_curated_bags : Groups rows in memory or in blocks.
    bags_from_sql : Groups a table of a database.

    Notes
    -----
    (ε, δ)-label differential privacy, replace-one. A row is in one group of each of the k tables. Replacing its label
    moves one sum of each by at most 1 for two classes (ℓ1 = k, ℓ2 = √k), two by at most 1 for several (2k, √(2k)), and
    one by at most w = high − low for numbers (kw, √k·w). With K labels or numbers a row it moves K sums of each table
    so (ℓ1 K times, ℓ2 √K times as much). Sums are clipped to what their counts allow, which moves
    no two of them apart. That labels were within their bounds, and every row in one group of every table, cannot be
    seen in sums: it is an assumption.

    Examples
    --------
    >>> import pandas as pd
    >>> from skprivate.aggregate import release_frames
    >>> by_age = pd.DataFrame({"age": ["old", "young"], "n": [300, 500], "bought": [200, 100]})
    >>> by_site = pd.DataFrame({"site": ["a", "b"], "n": [350, 450], "bought": [120, 180]})
    >>> bags = release_frames(
    ...     [by_age, by_site], count="n", sums="bought", classes=(0, 1), epsilon=1.0, random_state=0
    ... )
    >>> round(bags.tables[0].noise_variance, 1)  # scale 2: two tables
    7.8
    """
    _labels.check_label_privacy(epsilon, delta)
    if epsilon is None:
        raise ValueError("epsilon must be a positive number, got None: from_frames takes exact tables as they are.")
    summed = SumColumns.of(sums, classes)
    bounds = label_interval(label_bounds, summed)
    groups = _group_tables.read_group_tables(
        tables, count=count, others=summed.names, table=table, rare=rare, keys=keys
    )
    coded = _group_tables.code_group_tables(groups, columns, bin_edges)
    if keys is None and columns is None:
        _refuse_results(coded)
    _refuse_subtotals(groups)
    exact = coded.stack([np.stack([_integers(group, name) for name in summed.used], axis=1) for group in groups])
    return release_groups(
        coded,
        exact,
        summed,
        bounds,
        assumption="every row is in one group of each table, and every sum adds up "
        + ("0/1 labels" if summed.classes is not None else f"whole numbers from {bounds[0]} to {bounds[1]}"),
        noise={"epsilon": epsilon, "delta": delta, "mechanism": mechanism},
        release={"random_state": random_state, "ledger": ledger, "label": "release_frames"},
    )


def release_groups(
    coded: CodedGroups,
    exact: Any,
    sums: SumColumns,
    bounds: tuple[int, int],
    *,
    assumption: str,
    noise: Mapping[str, Any],
    release: Mapping[str, Any],
) -> _curated_bags.CuratedBags:
    """Add noise to the stacked integer sums of coded groups (n_groups, n_outputs), all in one release.

    ``bounds`` are of one label. ``noise`` holds arguments of `plan_label_noise`, ``release`` of `release_sums`.
    """
    counts = coded.counts
    check_largest_sum(bounds, coded.n_rows)
    moved = len(coded.tables) * sums.moved
    mechanism = TableSums(
        counts[:, np.newaxis] * bounds[0],
        counts[:, np.newaxis] * bounds[1],
        len(sums.used),
        _labels.plan_label_noise(_labels.LabelSensitivity(moved, bounds[1] - bounds[0]), exact.size, **noise),
        assumptions=(
            *_curated_bags.assumptions_of(sums.classes),
            f"the grouping columns {', '.join(repr(column.name) for column in coded.columns)} are public",
            assumption,
        ),
    )
    noisy, guarantee = _sums.release_sums(mechanism, exact, epsilon=noise["epsilon"], delta=noise["delta"], **release)
    _labels.warn_of_absent(
        None if _labels.are_labels(sums.classes) else sums.classes, noisy, counts, mechanism.noise.variance
    )
    return report_groups(coded, noisy, mechanism.noise.variance, sums, bounds, guarantee)


def report_groups(
    coded: CodedGroups,
    sums: _losses.FloatArray,
    noise_variance: float,
    columns: SumColumns,
    bounds: tuple[int, int],
    guarantee: PrivacyGuarantee,
) -> _curated_bags.CuratedBags:
    """Report the stacked sums of coded groups as curated bags."""
    of_numbers = _sums.one_or_each([_labels.as_floats(bounds)] * len(columns.used)) if columns.classes is None else None
    return _curated_bags.CuratedBags(
        columns=coded.columns,
        tables=coded.bags(sums, [noise_variance] * len(coded.tables)),
        n_samples=coded.n_rows,
        classes=columns.classes,
        square_sum=None,
        label_bounds=of_numbers,
        guarantee=guarantee,
    )


def check_largest_sum(bounds: tuple[int, int], n_rows: int) -> None:
    """Refuse label bounds, by the public number of rows, whose sums and noise would leave int64."""
    if n_rows * max(abs(bounds[0]), abs(bounds[1])) > _LARGEST_SUM:
        raise ValueError(f"label_bounds={bounds} times the number of rows exceeds 2⁶¹: use other units.")


def _refuse_results(coded: CodedGroups) -> None:
    """Refuse a column that may be a result of the query: with or without it the groups are the same.

    True keys alone identify groups. So such a column is found whatever its values are, and the message does not
    depend on them.
    """
    for group, key, order in zip(coded.tables, coded.keys, coded.orders, strict=True):
        known = key[~group.rest[order]]
        others = [np.delete(known, j, axis=1) for j in range(known.shape[1])]
        if len(others) > 1 and any(len(np.unique(other, axis=0)) == len(known) for other in others):
            raise ValueError(
                f"{group.title}: are all of {list(group.feature_set)} grouping columns? One of them is determined by "
                "the others, as a result of the query is, an average say; it would be released as it is. Name the "
                "grouping columns by keys=[…]: other columns are left out."
            )


def _refuse_subtotals(groups: Sequence[GroupTable]) -> None:
    """Refuse GROUP BY ROLLUP and CUBE: their subtotals, with NULL for a key, count every row once more."""
    for group in groups:
        rows = [tuple(row) for row in zip(*(key.tolist() for key in group.keys), strict=True)]
        for j, name in enumerate(group.feature_set):
            inner: dict[tuple[Any, ...], int] = {}
            outer: dict[tuple[Any, ...], int] = {}
            for row, count, rest in zip(rows, group.counts.tolist(), group.rest.tolist(), strict=True):
                if rest:
                    continue
                # NaN is how pandas writes NULL, and is no other NaN.
                others = tuple(None if v is None or v != v else v for k, v in enumerate(row) if k != j)
                counted = outer if row[j] is None or row[j] != row[j] else inner
                counted[others] = counted.get(others, 0) + count
            both = inner.keys() & outer.keys()
            if both and all(inner[others] == outer[others] for others in both):
                raise ValueError(
                    f"{group.title}: where {name!r} is NULL, counts are those of all its other groups together, as in "
                    "ROLLUP and CUBE. A row must be in one group of each table: give each grouping as a table of its "
                    f"own. If NULL is a value here, name it: COALESCE({name}, 'missing')."
                )


def label_interval(label_bounds: object, sums: SumColumns) -> tuple[int, int]:
    """Check the public interval of one label: (0, 1) for classes, two integers for numbers."""
    if sums.classes is not None:
        if label_bounds is not None:
            raise ValueError("label_bounds are for numbers; labels of classes are 0 or 1. Leave out one of the two.")
        return 0, 1
    bounds = _labels.check_bounds(label_bounds)
    if bounds is None or not all(isinstance(bound, Integral) for bound in bounds):
        raise ValueError(
            "label_bounds must be two integers that every label is between: they are what one label can move a sum by, "
            f"and cannot be found in sums. Got {label_bounds!r}. For 0/1 labels pass classes."
        )
    return int(bounds[0]), int(bounds[1])


def _integers(group: GroupTable, name: str) -> Any:
    column = group.frame[name]
    kind = column.dtype
    if not (kind.is_integer() or (isinstance(kind, nw.Decimal) and getattr(kind, "scale", 1) == 0)):
        raise ValueError(
            f"{group.title}: column {name!r} must be of an integer type, got {kind}. In the query: "
            f"CAST(COALESCE(SUM(label), 0) AS BIGINT), of labels that are whole numbers (cents, not euros)."
        )
    return np.array([int(plain_entry(value) or 0) for value in column.to_list()], dtype=object)
