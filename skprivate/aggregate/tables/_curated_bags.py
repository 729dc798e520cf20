"""Curated bags (Algorithms 1 and 2): rows grouped by feature values, labels known as sums per bag."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from skprivate._validation import PUBLIC_LABELS
from skprivate.aggregate import _losses
from skprivate.aggregate.tables import _columns, _group_tables
from skprivate.aggregate.tables._cells import BagTable, as_list
from skprivate.aggregate.tables._columns import BinnedColumn, Column
from skprivate.aggregate.tables._group_tables import GroupTable, SumColumns
from skprivate.aggregate.tables._labels import are_labels, as_floats, bounds_of_outputs
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit, Versioned

BACKENDS = ("pandas", "polars", "pyarrow")
#: Columns of a long frame, besides keys and sums.
TABLE, RARE, COUNT, SUM, NOISE = "table", "rare", "count", "label_sum", "noise_variance"
#: Sums of the same labels in another order differ by rounding only.
_ROUNDING = 1e-9
NO_PRIVACY = "labels are released in aggregates without noise"
THEOREM = (
    "Chen, Fu, Karbasi and Mirrokni (2023), Algorithms 1 and 2, with noise on the label sums; fitting is "
    "post-processing of the bags (Theorem 1)"
)
STATED_ASSUMPTION = "the guarantee is stated by the supplier of the tables, not computed here"
NOTHING_STATED_ASSUMPTION = "the supplier of the tables stated no guarantee: none is promised"
ASSUMPTIONS = (
    "features, and with them bag membership and counts, are public",
    PUBLIC_LABELS,
    "labels of different rows belong to different people",
)
_FROM_FRAMES = "GROUP BY tables become bags by CuratedBags.from_frames(tables, count='...', sums='...', classes=...)."
#: Of numbers, which have no classes.
NUMBER_ASSUMPTIONS = (ASSUMPTIONS[0], ASSUMPTIONS[2])


def tables_to_frame(
    columns: Sequence[Column], tables: Sequence[BagTable], classes: tuple[Any, ...] | None, backend: Any
) -> Any:
    """Write all bags into one long frame; see `CuratedBags.to_frame`."""
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
    if any(isinstance(table.noise_variance, tuple) for table in tables):
        raise ValueError("to_frame has one column for the noise of all sums, and outputs differ in it: use to_dict().")
    data: dict[str, list[Any]] = {name: [] for name in names}
    for table in tables:
        data[TABLE] += [_group_tables.join_names(table.feature_set)] * table.n_bags
        for column in used:
            codes = [_columns.UNKNOWN] * table.n_bags
            if column.name in table.feature_set:
                codes = table.keys[:, table.feature_set.index(column.name)].tolist()
            data[column.name] += [_key(column, code) for code in codes]
        data[RARE] += (table.keys[:, 0] == _columns.UNKNOWN).tolist()
        data[COUNT] += table.counts.tolist()
        for name, values in zip(sums, table.label_sums.T, strict=True):
            data[name] += values.tolist()
        data[NOISE] += [table.noise_variance] * table.n_bags
    schema = {TABLE: nw.String(), RARE: nw.Boolean(), COUNT: nw.Int64(), NOISE: nw.Float64()}
    schema |= {name: nw.Float64() for name in sums}
    schema |= {column.name: _key_type(column) for column in used}
    if backend == "pandas":
        # Its integers know no missing value: keys stay what they are.
        keys = {column.name for column in used}
        arrays = {name: as_objects(data[name]) if name in keys else np.array(data[name]) for name in names}
        arrays[TABLE] = as_objects(data[TABLE])
        return nw.from_dict(arrays, backend=backend).to_native()
    return nw.from_dict(data, schema={name: schema[name] for name in names}, backend=backend).to_native()


def sum_names(n_outputs: int, classes: tuple[Any, ...] | None) -> list[str]:
    """Name the columns of sums in a long frame: one, or one for each of several classes or outputs."""
    if n_outputs == 1:
        return [SUM]
    suffixes = range(n_outputs) if classes is None or are_labels(classes) else classes
    return [f"{SUM}_{suffix}" for suffix in suffixes]


def _key(column: Column, code: int) -> Any:
    """Represent a code by a value: the category, or the lower edge of the bin."""
    if code == _columns.UNKNOWN:
        return None
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
        if types <= {plain} and not (plain is int and any(abs(v) >= 2**63 for v in column.categories if v is not None)):
            return kind
    raise ValueError(
        f"column {column.name!r} holds values that one column of a frame cannot hold "
        f"({', '.join(sorted(kind.__name__ for kind in types))}): use to_dict()."
    )


def as_objects(values: Sequence[Any]) -> Any:
    """Put values into an array of objects, sequences among them as they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _noise_of(given: Any, groups: Sequence[GroupTable]) -> list[float]:
    if isinstance(given, str):
        variances = []
        for group in groups:
            distinct = set(group.frame[given].to_list())
            if len(distinct) != 1:
                raise ValueError(
                    f"{group.title}: column {given!r} must hold one noise variance per table, got {len(distinct)}."
                )
            variances.append(distinct.pop())
    else:
        variances = [given] * len(groups) if np.ndim(given) == 0 else list(given)
        if len(variances) != len(groups):
            raise ValueError(f"noise_variance has {len(variances)} numbers for {len(groups)} tables.")
    try:
        numbers = list(map(float, variances))
    except (TypeError, ValueError):
        numbers = [math.nan]
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError(
            "noise_variance must be the variance of the noise in each sum, finite and at least 0 (2b² of Laplace noise "
            f"of scale b, σ² of Gaussian noise, 0 of exact sums), got {given!r}."
        )
    return numbers


def _sums(group: GroupTable, name: str) -> _losses.FloatArray:
    numbers = _group_tables.floats(group.frame, name)
    if numbers is None:
        raise ValueError(f"{group.title}: column {name!r} must hold numbers, the sums of labels.")
    if not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"{group.title}: column {name!r} is NULL, NaN or infinite for {int(np.sum(~np.isfinite(numbers)))} groups "
            "with rows. SUM is NULL where all labels are: keep rows with a label only, in counts and sums alike."
        )
    return numbers


def _check_class_counts(group: GroupTable, values: Mapping[str, _losses.FloatArray], sums: SumColumns) -> None:
    counts = group.counts[:, np.newaxis]
    by_class = np.stack([values[name] for name in sums.names], axis=1)
    advice = "Exact sums of 0/1 labels do; for noisy ones state noise_variance=, for numbers leave classes at None."
    if np.any(by_class < 0) or np.any(by_class > counts) or np.any(by_class != np.floor(by_class)):
        raise ValueError(
            f"{group.title}: {_describe(sums.names)} must hold whole numbers between 0 and the group's count. {advice}"
        )
    if len(sums.names) > 1 and not are_labels(sums.classes) and np.any(by_class.sum(axis=1) != counts[:, 0]):
        raise ValueError(f"{group.title}: {_describe(sums.names)} must add up to the group's count. {advice}")


def _check_totals(groups: Sequence[GroupTable], tables: Sequence[BagTable], sums: SumColumns) -> None:
    exact = [(group, table) for group, table in zip(groups, tables, strict=True) if not table.noise_variance]
    totals = np.array([table.label_sums.sum(axis=0) for _, table in exact])
    scale = np.array([np.abs(table.label_sums).sum() for _, table in exact])
    if totals.size and np.any(np.ptp(totals, axis=0) > _ROUNDING * scale.max()):
        raise ValueError(
            f"{' and '.join(group.title for group, _ in exact)}: {_describe(sums.used)} add up to different totals, "
            "though the tables group the same rows. For noisy sums state noise_variance=."
        )


def _describe(names: Sequence[str]) -> str:
    return f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"


def assumptions_of(classes: object) -> tuple[str, ...]:
    """Select the assumptions of bags of classes, or of numbers, which have none (None)."""
    return NUMBER_ASSUMPTIONS if classes is None else ASSUMPTIONS


def no_privacy(assumptions: tuple[str, ...] = ASSUMPTIONS, theorem: str = THEOREM) -> PrivacyGuarantee:
    """Make the guarantee of a release without noise, which promises nothing."""
    return PrivacyGuarantee(
        epsilon=np.inf,
        delta=0.0,
        unit=PrivacyUnit.LABEL,
        adjacency=Adjacency.REPLACE_ONE,
        assumptions=(*assumptions, NO_PRIVACY),
        theorem=theorem,
    )


def stated_guarantee(guarantee: PrivacyGuarantee | Mapping[str, Any] | None, classes: object) -> PrivacyGuarantee:
    """Mark a guarantee as stated by the supplier of the tables; None promises nothing."""
    assumptions = assumptions_of(classes)
    if guarantee is None:
        return replace(no_privacy(assumptions, ""), assumptions=(*assumptions, NOTHING_STATED_ASSUMPTION))
    if isinstance(guarantee, Mapping):
        guarantee = PrivacyGuarantee.from_dict(guarantee)
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(
            "guarantee must be a PrivacyGuarantee, its to_dict(), or None where none was stated, got "
            f"{type(guarantee).__name__}."
        )
    given = tuple(dict.fromkeys((*guarantee.assumptions, *assumptions, STATED_ASSUMPTION)))
    return replace(guarantee, stated=True, assumptions=given)


def _refuse_exact_sums(promise: PrivacyGuarantee, tables: Sequence[BagTable]) -> None:
    if np.isfinite(promise.epsilon) and any(np.any(np.equal(table.noise_variance, 0.0)) for table in tables):
        raise ValueError(
            f"guarantee promises ε = {promise.epsilon:.6g}, but noise_variance is 0: exact sums keep none. "
            "State the variance of the noise, or no guarantee."
        )


@dataclass(frozen=True, eq=False)
class CuratedBags(Versioned):
    """Labels as sums per bag, for several feature sets: all that a fit learns about the labels.

    Parameters
    ----------
    columns : tuple of Column
        What the codes in the keys mean: categories or bin edges of every column.
    tables : tuple of BagTable
    n_samples : int
    classes : tuple or None
        Class labels; None for numbers; ``((0, 1), (0, 1), …)`` for several 0/1 labels (multilabel).
    square_sum : float or None
        Sum of the squared numbers, if it was released; it estimates the residual variance.
    label_bounds : (float, float) or None
        Interval that numbers were clipped to. Of several numbers it and ``square_sum`` are tuples with one for each.
    guarantee : PrivacyGuarantee
        Of the release of all tables together.

    See Also
    --------
    make_curated_bags : Makes them from rows.
    release_frames : Makes them from GROUP BY tables.
    CuratedBagGAMClassifier, CuratedBagGAMRegressor : Learn from them.
    """

    columns: tuple[Column, ...]
    tables: tuple[BagTable, ...]
    n_samples: int
    classes: tuple[Any, ...] | None = None
    square_sum: Any = None
    label_bounds: Any = None
    guarantee: PrivacyGuarantee = field(default_factory=no_privacy)

    @property
    def n_outputs(self) -> int:
        return int(self.tables[0].label_sums.shape[1])

    def readable_keys(self, table: BagTable) -> list[tuple[str, ...]]:
        """Keys of a table with values or intervals in place of codes."""
        column = {c.name: c for c in self.columns}
        return [
            tuple(
                "(rare)" if code < 0 else column[name].label_of(int(code))
                for name, code in zip(table.feature_set, key, strict=True)
            )
            for key in table.keys
        ]

    @property
    def terms(self) -> dict[str, Any]:
        """All that `to_frame` leaves out, as keywords of `from_frames`."""
        return {
            "count": COUNT,
            "sums": sum_names(self.n_outputs, self.classes),
            "table": TABLE,
            "rare": RARE,
            "noise_variance": NOISE,
            "columns": self.columns,
            "classes": self.classes,
            "square_sum": self.square_sum,
            "label_bounds": self.label_bounds,
            "guarantee": self.guarantee,
        }

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Write all bags into one long frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            Library of the frame.

        Returns
        -------
        DataFrame or Table
            One row per bag. The columns are ``table`` (names of the grouping columns, separated by commas), one per
            grouping column, ``rare`` (whether it is the bag of all rare combinations), ``count``, ``label_sum`` (for
            several classes ``label_sum_…`` of each) and ``noise_variance``. A grouping column is missing where the
            table does not group by it; a bin is its lower edge, −∞ for the first. `from_frames` of the frame with
            ``**bags.terms`` is the same bags to the last bit, with a stated guarantee.

        Raises
        ------
        ValueError
            If a column of the features has one of these names, or holds values of several types.

        Examples
        --------
        >>> from skprivate import make_curated_bags
        >>> bags = make_curated_bags([["a", 0], ["b", 1], ["a", 1]], [0, 1, 1], [(0,)], categorical_features="all")
        >>> bags.to_frame("polars").columns
        ['table', 'x0', 'rare', 'count', 'label_sum', 'noise_variance']
        """
        return tables_to_frame(self.columns, self.tables, self.classes, backend)

    @classmethod
    def from_frames(
        cls,
        tables: object,
        *,
        count: str = COUNT,
        sums: str | Sequence[str] | Mapping[Any, str] = SUM,
        classes: Sequence[Any] | None = None,
        noise_variance: float | Sequence[float] | str = 0.0,
        guarantee: PrivacyGuarantee | Mapping[str, Any] | None = None,
        table: str | None = None,
        rare: str | None = None,
        columns: Sequence[Column] | None = None,
        bin_edges: Mapping[str, Sequence[float]] | None = None,
        label_bounds: object = None,
        square_sum: object = None,
    ) -> CuratedBags:
        """Bags of GROUP BY tables, as ``SELECT age, sex, COUNT(*), SUM(label) … GROUP BY age, sex`` gives them.

        Parameters
        ----------
        tables : pandas, polars or pyarrow table, or sequence or mapping of such
            One table per feature set, one row per group. Every column that no other parameter names is a grouping
            column; NULL is a group of its own, and a combination without a row is an empty bag.
        count : str, default="count"
            Column of the number of rows; public and exact.
        sums : str, sequence of str, or mapping from class to str, default="label_sum"
            Column of the label sums: of numbers, of 0/1 labels (with ``classes``), or one for each class or output.
        classes : sequence, optional
            Public class labels; None for numbers. The one column of two classes counts the second. ``[(0, 1), (0, 1)]``
            for two columns that sum two 0/1 labels (multilabel).
        noise_variance : float, sequence of float, or str, default=0.0
            Variance of the noise in each sum: 2b² of Laplace noise of scale b, σ² of Gaussian noise; one for all
            tables, one for each, or the column that holds it. 0: exact sums.
        guarantee : PrivacyGuarantee or mapping, optional
            What the supplier promises about the labels. It cannot be checked and is marked so
            (``guarantee.stated``). None: nothing is promised (ε = ∞).
        table : str, optional
            For one long frame (`to_frame`): column with the names of each row's grouping columns.
        rare : str, optional
            Column that is true for the one group of all combinations that have none of their own.
        columns : sequence of Column, optional
            A coding of the grouping columns, as `CuratedBags.columns`. By default the values that occur.
        bin_edges : mapping from str to increasing floats, optional
            Grouping columns whose number stands for a bin: any number in it, its lower edge say.
        label_bounds : (float, float), optional
            Interval of the numbers.
        square_sum : float, optional
            Sum of the squared numbers. Of several numbers, one for each.

        Returns
        -------
        CuratedBags
            For ``fit_bags(X, bags)`` with the rows X that were grouped. X must hold the grouping columns, in any order.

        Raises
        ------
        TypeError
            If a table is none, or not in memory.
        ValueError
            If a group is listed twice, counts are not whole numbers of at least 0, the tables count different rows,
            exact class counts are impossible, or a guarantee is stated for sums without noise.

        Notes
        -----
        Guarantee: what ``guarantee`` says, which is the supplier's. Counts are taken as public. Noise in counts is
        refused: rows in X would tell the exact ones anyway.

        See Also
        --------
        release_frames : Adds noise to exact tables.

        Examples
        --------
        >>> import pandas as pd
        >>> from skprivate import CuratedBags
        >>> by_age = pd.DataFrame({"age": ["old", "young"], "n": [3, 5], "bought": [2, 1]})
        >>> bags = CuratedBags.from_frames(by_age, count="n", sums="bought", classes=(0, 1))
        >>> bags
        CuratedBags(1 feature sets, 2 bags, 8 rows, 2 classes)
        >>> print(bags.guarantee)
        no privacy for a label
        """
        summed = SumColumns.of(sums, classes)
        others = [*summed.names, *([noise_variance] if isinstance(noise_variance, str) else [])]
        groups = _group_tables.read_group_tables(tables, count=count, others=others, table=table, rare=rare)
        coded = _group_tables.code_group_tables(groups, columns, bin_edges)
        noise = _noise_of(noise_variance, groups)
        sums_of = [{name: _sums(group, name) for name in summed.names} for group in groups]
        for group, values, variance in zip(groups, sums_of, noise, strict=True):
            if variance == 0.0 and summed.classes is not None:
                _check_class_counts(group, values, summed)
        kept = [np.stack([values[name] for name in summed.used], axis=1) for values in sums_of]
        parts = coded.bags(coded.stack(kept), noise)
        _check_totals(groups, parts, summed)
        promise = stated_guarantee(guarantee, summed.classes)
        _refuse_exact_sums(promise, parts)
        bounds = bounds_of_outputs(label_bounds, len(summed.used))
        return cls(
            columns=coded.columns,
            tables=parts,
            n_samples=coded.n_rows,
            classes=summed.classes,
            square_sum=as_floats(square_sum),
            label_bounds=None if bounds is None else as_floats(label_bounds),
            guarantee=promise,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings: ``json.dumps`` of it is a report that another process can learn from."""
        return {
            "columns": [_columns.column_to_dict(column) for column in self.columns],
            "tables": [table.to_dict() for table in self.tables],
            "n_samples": self.n_samples,
            "classes": None if self.classes is None else list(map(as_list, self.classes)),
            "square_sum": as_list(self.square_sum),
            "label_bounds": as_list(self.label_bounds),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> CuratedBags:
        """Inverse of `to_dict`; ``guarantee`` may be left out, and then nothing is promised.

        Raises
        ------
        ValueError
            If what is given is no such dict, or promises a finite ε for sums without noise.
        """
        absent = [key for key in ("columns", "tables", "n_samples") if key not in plain]
        if absent or not all(isinstance(table, Mapping) for table in plain["tables"]):
            wrong = f"without {', '.join(map(repr, absent))}" if absent else "whose 'tables' are no dicts"
            raise ValueError(f"bags must be CuratedBags or its to_dict(), got a dict {wrong}. {_FROM_FRAMES}")
        classes, given = plain.get("classes"), plain.get("guarantee")
        promise = stated_guarantee(None, classes) if given is None else PrivacyGuarantee.from_dict(given)
        tables = tuple(BagTable.from_dict(table) for table in plain["tables"])
        _refuse_exact_sums(promise, tables)
        return cls(
            columns=tuple(_columns.column_from_dict(column) for column in plain["columns"]),
            tables=tables,
            n_samples=int(plain["n_samples"]),
            classes=None if classes is None else _group_tables.check_sum_classes(classes),
            square_sum=as_floats(plain.get("square_sum")),
            label_bounds=as_floats(plain.get("label_bounds")),
            guarantee=promise,
        )

    def __repr__(self) -> str:
        several = "labels" if are_labels(self.classes) else "classes"
        kind = "numbers" if self.classes is None else f"{len(self.classes)} {several}"
        bags = sum(table.n_bags for table in self.tables)
        return f"CuratedBags({len(self.tables)} feature sets, {bags} bags, {self.n_samples} rows, {kind})"


def as_curated_bags(bags: object) -> CuratedBags:
    """Read a report given as `CuratedBags` or its plain form."""
    if isinstance(bags, Mapping):
        bags = CuratedBags.from_dict(bags)
    if not isinstance(bags, CuratedBags):
        members = f" of {type(bags[0]).__name__}" if isinstance(bags, Sequence) and bags else ""
        raise TypeError(
            f"bags must be CuratedBags or its to_dict(), got {type(bags).__name__}{members}. {_FROM_FRAMES}"
        )
    if not bags.tables:
        raise ValueError("bags holds no tables: give at least one.")
    return bags
