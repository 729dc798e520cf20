"""Two parts of the rows that share no unit: one to fit on, one to score on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._folds import key_bytes
from skprivate._sklearn import _safe_indexing
from skprivate.privacy import public_generator
from skprivate.privacy._identifiers import encode_identifiers, hash_identifiers

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with what belongs to them.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    metadata : dict of str to array-like
        Further arguments of ``fit``, one entry a row.
    """

    X: Any
    y: NDArray[Any]
    metadata: dict[str, Any]

    def take(self, rows: IntArray) -> Rows:
        """Some of the rows."""
        metadata = {name: _safe_indexing(values, rows) for name, values in self.metadata.items()}
        return Rows(_safe_indexing(self.X, rows), self.y[rows], metadata)

    def copied(self) -> Rows:
        """The same rows in arrays of their own, for whoever may write into them."""
        return self.take(np.arange(len(self.y)))


@dataclass(frozen=True, eq=False)
class Parts:
    """A deal of the rows.

    Parameters
    ----------
    train : Rows
    held_out : Rows
        Brought together unit by unit; those of one unit in their own order.
    sizes : ndarray of int64
        How many rows each held-out unit has.
    by_identifier : bool
        Whether a hash of the unit's own identifier deals it, rather than its position.
    n_units : int
        Units of both parts.
    """

    train: Rows
    held_out: Rows
    sizes: IntArray
    by_identifier: bool
    n_units: int

    @property
    def n_held_out(self) -> int:
        """Held-out units."""
        return len(self.sizes)

    def units(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """X and y of each held-out unit, in arrays of their own."""
        ends = np.cumsum(self.sizes)
        X, y = self.held_out.X, self.held_out.y
        for start, end in zip((ends - self.sizes).tolist(), ends.tolist(), strict=True):
            rows = (
                X.iloc[start:end].copy() if hasattr(X, "iloc") else _safe_indexing(X, np.arange(start, end))
            )
            yield rows, y[start:end].copy()


def deal(rows: Rows, ids: Any, fraction: float, seed: int, *, by_user: bool) -> Parts:
    """Deal rows to the two parts, by public numbers alone.

    Parameters
    ----------
    rows : Rows
    ids : array-like or None
        Identifiers of users: a keyed hash of its own identifier deals each. None: positions are dealt.
    fraction : float in (0, 1)
        Of the units, to be held out: of each with this probability, or of so many positions.
    seed : int
        Public.
    by_user : bool
        Whether a held-out unit is a user, rather than a row.

    Raises
    ------
    ValueError
        If there are not two rows.
    """
    n = len(rows.y)
    if n < 2:
        raise ValueError(
            f"X must hold at least two rows, one to fit on and one to score on, got n_samples={n}."
        )
    if ids is None:
        codes = np.arange(n, dtype=np.int64)
        count = min(max(1, round(fraction * n)), n - 1)
        out = np.zeros(n, dtype=bool)
        out[public_generator(seed).permutation(n)[:count]] = True
    else:
        codes, names = encode_identifiers(ids, n)
        limit = np.uint64(math.floor(fraction * 2.0**64))
        out = (hash_identifiers(names, key_bytes(f"PrivateSearchCV {seed}")) < limit)[codes]
    train, held_out = np.flatnonzero(~out), np.flatnonzero(out)
    if by_user:
        held_out = held_out[np.argsort(codes[held_out], kind="stable")]
        sizes = np.unique(codes[held_out], return_counts=True)[1].astype(np.int64)
    else:
        sizes = np.ones(len(held_out), dtype=np.int64)
    return Parts(
        rows.take(train), rows.take(held_out), sizes, ids is not None, int(codes.max()) + 1 if by_user else n
    )
