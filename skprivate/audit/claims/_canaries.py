"""Neighbouring inputs that differ in one unit of a guarantee, chosen to make the unit's influence large."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skprivate._sklearn import _num_samples, _safe_indexing
from skprivate.privacy import encode_identifiers

__all__ = ["FitInput", "canary_pairs", "opposite_targets"]


class FitInput(NamedTuple):
    """What is handed to ``fit``: X, y (or None) and the per-row fit parameters."""

    X: Any
    y: Any
    params: dict[str, Any]

    def take(self, rows):
        """The input restricted to some rows."""
        n = _num_samples(self.X)
        params = {k: _safe_indexing(v, rows) if _is_per_row(v, n) else v for k, v in self.params.items()}
        y = None if self.y is None else _safe_indexing(self.y, rows)
        return FitInput(_safe_indexing(self.X, rows), y, params)

    def with_rows(self, rows, x=None, y=None):
        """A copy in which some rows have new features and (or) a new target."""
        X, target = self.X, self.y
        if x is not None:
            X = X.copy() if hasattr(X, "copy") else np.array(X)
            if hasattr(X, "iloc"):
                X.iloc[rows] = x
            else:
                X[rows] = x
        if y is not None:
            target = np.array(target)
            target[rows] = y
        return FitInput(X, target, self.params)


def _is_per_row(value, n):
    return value is not None and not isinstance(value, str | dict) and np.ndim(value) >= 1 and len(value) == n


def opposite_targets(y):
    """Two values of y as far apart as the data allow."""
    values = np.asarray(y)
    if values.ndim > 1:
        return values.max(axis=0), values.min(axis=0)
    if values.dtype.kind in "fiu" and type_of_target(values).startswith("continuous"):
        return values.max(), values.min()
    classes, counts = np.unique(values, return_counts=True)
    if classes.size < 2:
        return classes[0], classes[0]
    order = np.argsort(counts, kind="stable")
    return classes[order[0]], classes[order[-1]]


def _extreme_rows(X):
    """Feature vectors at opposite ends of the data, as (one, other) pairs; existing rows of a data frame."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        n = _num_samples(X)
        return [(_safe_indexing(X, 0), _safe_indexing(X, n - 1))]
    low, high = X.min(axis=0), X.max(axis=0)
    centred = X - np.median(X, axis=0)
    norms = np.linalg.norm(centred.reshape(len(X), -1), axis=1)
    far = X[int(np.argmax(norms))]
    opposite = X[int(np.argmin((centred @ (far - np.median(X, axis=0))) if X.ndim == 2 else norms))]
    same = {(high.tobytes(), low.tobytes()), (low.tobytes(), high.tobytes())}
    return [(high, low)] + [(far, opposite)] * ((far.tobytes(), opposite.tobytes()) not in same)


def canary_pairs(
    data: FitInput, unit: str, adjacency: str, n_units: int = 1
) -> list[tuple[FitInput, FitInput]]:
    """Candidate pairs of neighbouring inputs, or of inputs so many units apart, all of which change alike.

    Parameters
    ----------
    data : FitInput
        The audited data; neighbours differ from it in one unit.
    unit : {"row", "private row", "user", "label"}
    adjacency : {"replace-one", "add-remove"}
    n_units : int
        At most half of the units are changed together.

    Returns
    -------
    list of (FitInput, FitInput)
        Without and with the canary (add-remove), or with the one and the other (replace-one).

    Raises
    ------
    ValueError
        If the unit cannot be read off the fit parameters, or needs an explicit neighbour.
    """
    n = _num_samples(data.X)
    if unit == "label":
        one, other = opposite_targets(data.y)
        positions = [np.arange(n_units)]
        if n_units == 1:
            positions.append(np.array([int(np.argmax(_distance_from_centre(data.X)))]))
        return [(data.with_rows(r, y=one), data.with_rows(r, y=other)) for r in positions]
    if unit == "row":
        rows = np.arange(n - n_units, n)
    elif unit == "private row":
        private = data.params.get("private")
        if private is None:
            raise ValueError(
                "The unit is a private row: pass fit_params={'private': mask} so that the canary is a "
                "private row, or "
                "neighbour= explicitly."
            )
        rows = np.flatnonzero(np.asarray(private, dtype=bool))[-n_units:]
        if rows.size == 0:
            raise ValueError("fit_params['private'] marks no private row: there is nothing to audit.")
    elif unit == "user":
        users = data.params.get("user_ids")
        codes = np.arange(n) if users is None else encode_identifiers(users, n)[0]
        last = np.unique(codes[::-1], return_index=True)[1].argsort()[:n_units]
        rows = np.flatnonzero(np.isin(codes, np.unique(codes)[last]))
    else:
        raise ValueError(
            f"For unit {unit!r} pass neighbour= explicitly (and distance=, for a metric guarantee)."
        )
    pairs = []
    rest = np.setdiff1d(np.arange(n), rows)
    for high, low in _extreme_rows(data.X):
        targets = (None, None) if data.y is None else opposite_targets(data.y)
        if unit == "private row":  # the label can decide what is private: keep it
            targets = (None, None)
        one = data.with_rows(rows, x=high, y=targets[1])
        if adjacency == "add-remove":
            pairs.append((data.take(rest), one))
        elif data.y is None or unit == "private row":
            pairs.append((data.with_rows(rows, x=low), one))
        else:
            pairs.append((data.with_rows(rows, x=high, y=targets[0]), one))
            pairs.append((data.with_rows(rows, x=low, y=targets[1]), one))
    return pairs


def _distance_from_centre(X):
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        return np.arange(_num_samples(X), dtype=float)
    return np.linalg.norm((X - X.mean(axis=0)).reshape(len(X), -1), axis=1)
