"""Curated bags (Algorithms 1 and 2): rows grouped by feature values, labels known as sums per bag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skprivate.aggregate._bag_table import BagTable
from skprivate.aggregate._columns import Column, column_from_dict, column_to_dict
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit

NO_PRIVACY = "labels are released in aggregates without noise"
THEOREM = (
    "Chen, Fu, Karbasi and Mirrokni (2023), Algorithms 1 and 2, with noise on the label sums; fitting is "
    "post-processing of the bags (Theorem 1)"
)
ASSUMPTIONS = (
    "features, and with them bag membership and counts, are public",
    "the set of classes is public",
    "labels of different rows belong to different people",
)
#: Of numbers, which have no classes.
NUMBER_ASSUMPTIONS = (ASSUMPTIONS[0], ASSUMPTIONS[2])


def no_privacy(assumptions: tuple[str, ...] = ASSUMPTIONS, theorem: str = THEOREM) -> PrivacyGuarantee:
    """The guarantee of a release without noise: none, said plainly."""
    return PrivacyGuarantee(
        epsilon=np.inf,
        delta=0.0,
        unit=PrivacyUnit.LABEL,
        adjacency=Adjacency.REPLACE_ONE,
        assumptions=(*assumptions, NO_PRIVACY),
        theorem=theorem,
    )


@dataclass(frozen=True, eq=False)
class CuratedBags:
    """Labels as sums per bag, for several feature sets: all that a fit learns about the labels.

    Parameters
    ----------
    columns : tuple of Column
        What the codes in the keys mean: categories or bin edges of every column.
    tables : tuple of BagTable
    n_samples : int
    classes : tuple or None
        Class labels; None for numbers.
    square_sum : float or None
        Sum of the squared numbers, if it was released; it estimates the residual variance.
    label_bounds : (float, float) or None
        Interval that numbers were clipped to.
    guarantee : PrivacyGuarantee
        Of the release of all tables together.
    """

    columns: tuple[Column, ...]
    tables: tuple[BagTable, ...]
    n_samples: int
    classes: tuple[Any, ...] | None = None
    square_sum: float | None = None
    label_bounds: tuple[float, float] | None = None
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

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings: ``json.dumps`` of it is a report that another process can learn from."""
        return {
            "columns": [column_to_dict(column) for column in self.columns],
            "tables": [table.to_dict() for table in self.tables],
            "n_samples": self.n_samples,
            "classes": None if self.classes is None else list(self.classes),
            "square_sum": self.square_sum,
            "label_bounds": None if self.label_bounds is None else list(self.label_bounds),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> CuratedBags:
        """Inverse of `to_dict`."""
        classes, bounds = plain.get("classes"), plain.get("label_bounds")
        return cls(
            columns=tuple(column_from_dict(column) for column in plain["columns"]),
            tables=tuple(BagTable.from_dict(table) for table in plain["tables"]),
            n_samples=int(plain["n_samples"]),
            classes=None if classes is None else tuple(classes),
            square_sum=plain.get("square_sum"),
            label_bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
            guarantee=PrivacyGuarantee.from_dict(plain["guarantee"]),
        )

    def __repr__(self) -> str:
        kind = "numbers" if self.classes is None else f"{len(self.classes)} classes"
        bags = sum(table.n_bags for table in self.tables)
        return f"CuratedBags({len(self.tables)} feature sets, {bags} bags, {self.n_samples} rows, {kind})"
