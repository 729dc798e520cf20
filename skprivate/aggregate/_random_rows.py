"""What is public of the rows that random bags are drawn from: their features, order, identifiers, and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate._labels import together
from skprivate.aggregate._bag_sums import BagSums, IntArray
from skprivate.aggregate._input import label_column
from skprivate.aggregate._label_sums import Labelled
from skprivate.aggregate._losses import FloatArray
from skprivate.partitions import Partitions, Roles


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Rows that bags are drawn from.

    Parameters
    ----------
    sizes : tuple of int
        Rows of each block.
    X : ndarray of shape (n_rows, n_features) or None
        None where features are not asked for.
    keys : ndarray of shape (n_rows,) or None
        Identifiers.
    labels : sequence
        Distinct ones, where classes are to be found.
    """

    sizes: tuple[int, ...]
    X: FloatArray | None = None
    keys: NDArray[Any] | None = None
    labels: Sequence[Any] = ()

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def order(self) -> IntArray | None:
        """Rows by increasing identifier, an order that does not depend on where rows are; None without identifiers."""
        if self.keys is None:
            return None
        keys = self.keys
        if keys.shape != (self.n_rows,):
            raise ValueError(
                f"row_keys must hold one identifier for each of the {self.n_rows} rows, got shape {keys.shape}."
            )
        try:
            if np.any(keys != keys):  # NaN and NaT, in a column of objects too, have no place in an order
                raise TypeError
            order = np.argsort(keys, kind="stable")
        except TypeError:
            raise ValueError(
                "row_keys must be numbers, or all of them text, and none may be missing."
            ) from None
        ordered = keys[order]
        if np.any(ordered[1:] == ordered[:-1]):
            raise ValueError("row_keys must be distinct: an identifier names one row.")
        return order

    def bags(self, members: IntArray, sizes: IntArray) -> BagSums:
        """Bags of the rows of these numbers."""
        return BagSums(members, sizes, self.n_rows, self.sizes)


class NumberTable(NamedTuple):
    """A block of rows of numbers.

    Attributes
    ----------
    size : range
        As long as there are rows.
    X : ndarray of shape (n_rows, n_features) or None
    labels : ndarray of shape (n_rows,)
    keys : ndarray of shape (n_rows,) or None
    """

    size: range
    X: FloatArray | None
    labels: NDArray[Any]
    keys: NDArray[Any] | None


def number_blocks(
    X: Any,
    y: Any,
    row_keys: Any,
    *,
    read: Callable[[Any], FloatArray] | None,
    read_labels: Callable[[Any], NDArray[Any]],
) -> Partitions:
    """Rows in blocks as `NumberTable`.

    Parameters
    ----------
    X : Partitions, Dask array or DataFrame, pyarrow dataset
    y, row_keys : str, int or None
        Columns of labels and of identifiers.
    read : callable or None
        From the features of a block to checked numbers; None leaves them out.
    read_labels : callable
        From the labels of a block to checked ones.
    """
    rows = label_column(X, y, row_keys=row_keys)
    return rows.map(partial(_read_block, read=read, read_labels=read_labels))


def gather_rows(rows: Partitions, look_at_labels: Callable[[NDArray[Any]], list[Any]]) -> PublicRows:
    """What is public of all rows, in their order, and what is asked of labels."""
    public: PublicRows = rows.gather(partial(_gather, look_at_labels=look_at_labels), _together)
    return public


def labelled_blocks(rows: Partitions, targets: Callable[[NDArray[Any]], NDArray[Any]]) -> Partitions:
    """Blocks that are `NumberTable` as `Labelled`; ``targets`` is from labels to what is added up."""
    return rows.map(partial(_label, targets=targets))


def no_labels(labels: NDArray[Any]) -> list[Any]:
    """Nothing of the labels."""
    return []


def _read_block(
    block: Roles,
    *,
    read: Callable[[Any], FloatArray] | None,
    read_labels: Callable[[Any], NDArray[Any]],
) -> NumberTable:
    labels = np.asarray(block.of["y"])
    keys = block.of.get("row_keys")
    keys = None if keys is None else np.asarray(keys)
    size = range(labels.size)
    if not size:  # types of nothing are anything
        return NumberTable(size, None if read is None else np.empty((0, block.X.shape[1])), labels, keys)
    return NumberTable(size, None if read is None else read(block.X), read_labels(labels), keys)


def _gather(block: NumberTable, *, look_at_labels: Callable[[NDArray[Any]], list[Any]]) -> PublicRows:
    return PublicRows((len(block.size),), block.X, block.keys, look_at_labels(block.labels))


def _together(parts: Sequence[PublicRows]) -> PublicRows:
    filled = [part for part in parts if part.n_rows] or list(parts[:1])
    X = [part.X for part in filled if part.X is not None]
    keys = [part.keys for part in filled if part.keys is not None]
    return PublicRows(
        tuple(size for part in parts for size in part.sizes),
        np.concatenate(X) if X else None,
        np.concatenate(keys) if keys else None,
        together(part.labels for part in parts),
    )


def _label(block: NumberTable, *, targets: Callable[[NDArray[Any]], NDArray[Any]]) -> Labelled:
    return Labelled(block.size, targets(block.labels))
