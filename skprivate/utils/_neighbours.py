"""Data that differ in one unit, by the worst that one unit can do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skprivate._validation import check_bounds
from skprivate.privacy import KEEPS_IDENTIFIER, Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.utils._data import CheckData, private_rows

#: For the arithmetic that computes a distance.
ROUNDED_UP = 1.0 + 2.0**-40
_MOST = float(np.finfo(np.float64).max)
#: Where float64 arithmetic breaks first: zeros of both signs, subnormals, squares that underflow or overflow, sums
#: that lose their small terms, ties, the ends of the range.
EXTREMES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, -5e-324, 1e-310, 1.5e-162, -1e-162, 1e-300, 1e-9, 1e9, -1e9, 2.0**53,
    1.6e154, -1.4e154, 1e300, -1e300, _MOST, -_MOST, math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A change of one unit.

    ``rows`` are those of the unit before the change, the same in all data that it is applied to. ``moves_rows``: rows
    come, go or change places, rather than values; few such changes exist, and all are tried. ``renames``: the unit gets
    another identifier.
    """

    name: str
    rows: np.ndarray
    apply: Callable[[CheckData], CheckData]
    distance: float | None = None
    moves_rows: bool = False
    renames: bool = False


def random_floats(rng: np.random.Generator, size: object) -> np.ndarray:
    """Draw floats of all magnitudes: random signs, exponents and digits, none of them infinite or NaN."""
    words = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    values = words.view(np.float64)
    return np.where(np.isfinite(values), values, 0.0)


def norm_of(metric: str, gap: np.ndarray) -> float:
    """Compute the norm of a vector of magnitudes that a metric names; the sum where it names none."""
    if "linf" in metric:
        return float(gap.max(initial=0.0))
    return math.hypot(*gap.tolist()) if "l2" in metric else float(gap.sum())


def _great_circle(here: np.ndarray, there: np.ndarray, latitude_first: bool) -> float:
    """Compute kilometres between two places in degrees, rounded up, latitudes clipped to the poles."""
    (a, b), (c, d) = (
        (math.radians(min(max(x, -90.0), 90.0)), math.radians(math.fmod(y, 360.0)))
        for x, y in (place if latitude_first else place[::-1] for place in (here.tolist(), there.tolist()))
    )
    share = math.sin((a - c) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((b - d) / 2) ** 2
    return 2 * 6371.0088 * math.asin(math.sqrt(min(share, 1.0))) + 2e-10


def changes(
    estimator: BaseEstimator, data: CheckData, guarantee: PrivacyGuarantee, rng: np.random.Generator, n_units: int = 2
) -> Iterator[Change]:
    """Yield changes of ``n_units`` single units, worst cases first, as the guarantee's unit and adjacency allow them.

    ``bounds`` of the estimator are used where distances are in fractions of them.
    """
    unit, adjacency = guarantee.unit, guarantee.adjacency
    allowed = _private_places(data, unit)
    users = data.metadata.get("user_ids") if unit is PrivacyUnit.USER else None
    for k in range(n_units):
        rows = np.array([rng.choice(allowed)])
        if users is not None:
            rows = np.flatnonzero(users == users[rows[0]])
        if adjacency is Adjacency.METRIC:
            yield from _moves(estimator, data, guarantee, int(rows[0]), rng)
        elif adjacency is Adjacency.ADD_REMOVE and unit is not PrivacyUnit.LABEL:
            yield from _additions(data, unit, rows, rng, first=k == 0)
        else:
            named = KEEPS_IDENTIFIER in guarantee.assumptions
            for change in _replacements(data, unit, rows, rng):
                if not (named and change.renames):
                    yield change


def evenly(steps: Iterator[Change], at_most: int | None, begin: float = 0.0) -> list[Change]:
    """List all changes that move rows, and at most ``at_most`` of the others, of all kinds.

    They are at even distances, the first of them ``begin`` (in [0, 1)) of a distance from the first of all.
    """
    all_steps = list(steps)
    moves = [step for step in all_steps if step.moves_rows]
    others = [step for step in all_steps if not step.moves_rows]
    if at_most is not None and len(others) > at_most:
        others = [others[int((k + begin) * len(others) / at_most)] for k in range(at_most)]
    return moves + others


def environments(data: CheckData, unit: PrivacyUnit, kept: np.ndarray, rng: np.random.Generator) -> Iterator[CheckData]:
    """Yield data in which everything private but the rows ``kept`` is another, in the same places."""
    n = len(data.X)
    others = np.setdiff1d(_private_places(data, unit), kept)
    if others.size == 0:
        return
    order = np.arange(n)
    order[others] = rng.permutation(others)
    yield _rows_from(data, order, unit)
    order = np.arange(n)
    order[others] = others[0]
    yield _rows_from(data, order, unit, labels=unit is not PrivacyUnit.LABEL and _is_numeric(data.y))
    if unit is not PrivacyUnit.LABEL and data.X.dtype.kind == "f":
        X = data.X.copy()
        X[others] = rng.choice(EXTREMES, size=X[others].shape)
        yield dataclasses.replace(data, X=X)
    if _is_numeric(data.y):
        y = data.y.copy()
        y[others] = rng.choice(EXTREMES, size=y[others].shape)
        yield dataclasses.replace(data, y=y)


# --- one unit's rows ------------------------------------------------------------------------------------------------


def _private_places(data: CheckData, unit: PrivacyUnit) -> np.ndarray:
    if unit is PrivacyUnit.PRIVATE_ROW and "private" not in data.metadata:  # the label tells
        return np.flatnonzero(data.y == np.unique(data.y)[-1])
    return np.flatnonzero(private_rows(data, unit))


def _is_numeric(y: Any) -> bool:
    return y is not None and y.dtype.kind == "f"


def _rows_from(data: CheckData, order: np.ndarray, unit: PrivacyUnit, labels: bool = True) -> CheckData:
    """Make data whose rows come from others; ids and roles stay where they are."""
    X = data.X if unit is PrivacyUnit.LABEL else data.X[order]
    y = data.y if data.y is None or not labels or unit is PrivacyUnit.PRIVATE_ROW else data.y[order]
    return dataclasses.replace(data, X=X, y=y)


def _rows_values(data: CheckData, rows: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    shape = (rows.size, data.X.shape[1])
    if data.X.dtype.kind != "f":  # categories: what others have, and any numbers among them
        for _ in range(4):
            yield "a category", np.stack([rng.choice(column, rows.size) for column in data.X.T], axis=1)
        numeric = [all(isinstance(value, float) for value in column) for column in data.X.T]
        for value in EXTREMES if any(numeric) else ():
            yield f"numbers {value!r}", np.where(numeric, np.full(shape, value, dtype=object), data.X[rows])
        return
    for value in EXTREMES:
        yield f"all {value!r}", np.full(shape, value)
    yield "extremes", rng.choice(EXTREMES, size=shape)
    yield "any floats", random_floats(rng, shape)
    yield "the values of another row", data.X[rng.integers(len(data.X), size=rows.size)]
    yield "the other sign", -data.X[rows]
    # Towards zero where numbers are large: the largest float would become infinite, which may be refused.
    yield "a last bit", np.nextafter(data.X[rows], np.where(np.abs(data.X[rows]) > 1.0, 0.0, np.inf))
    one = np.zeros(shape)
    one[:, 0] = 1.5e-162
    yield "one coordinate", one
    if np.isnan(data.X).any():
        yield "all missing", np.full(shape, np.nan)
        yield "some missing", np.where(rng.random(shape) < 0.5, np.nan, data.X[rows])


def _labels(data: CheckData, rows: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    if data.y is None:
        return
    if _is_numeric(data.y):
        another = data.y[rng.integers(len(data.y))].tolist()
        for value in (*EXTREMES, another, float(random_floats(rng, 1)[0])):
            yield f"y = {value!r}", value
        if data.y.ndim == 2:
            yield "several extreme labels", rng.choice(EXTREMES, size=data.y.shape[1])
        return
    for label in np.unique(data.y):
        yield f"y = {label!r}", label


def _replacements(data: CheckData, unit: PrivacyUnit, rows: np.ndarray, rng: np.random.Generator) -> Iterator[Change]:
    who = f"{unit} at row {rows[0]}"
    labels = list(_labels(data, rows, rng)) if unit is not PrivacyUnit.PRIVATE_ROW else []
    if unit is not PrivacyUnit.LABEL:
        for k, (name, X) in enumerate(_rows_values(data, rows, rng)):
            text, y = labels[k % len(labels)] if labels else ("", None)
            yield Change(
                f"{who} with {name} {text}".rstrip(), rows, lambda other, X=X, y=y: other.with_rows(rows, X, y)
            )
    for text, y in labels:
        yield Change(f"{who} with {text}", rows, lambda other, y=y: other.with_rows(rows, y=y))
    if unit is PrivacyUnit.USER and "user_ids" in data.metadata:
        yield from _other_rows_of_a_user(data, rows, who)


def _renamed(ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Exchange the identifiers of some rows for one that nobody has."""
    wide = ids.copy() if ids.dtype.kind in "iu" else ids.astype("U64")
    wide[rows] = np.max(ids) + 1 if ids.dtype.kind in "iu" else "someone who was not there before"
    return wide


def _other_rows_of_a_user(data: CheckData, rows: np.ndarray, who: str) -> Iterator[Change]:
    """Yield one row, two rows, many rows; rows at the end; the same rows in another order; under another name."""

    def select(order: Callable[[int], np.ndarray]) -> Callable[[CheckData], CheckData]:
        return lambda other: other.take(order(len(other.X)))

    def rename(other: CheckData) -> CheckData:
        ids = _renamed(other.metadata["user_ids"], rows)
        return dataclasses.replace(other, metadata={**other.metadata, "user_ids": ids})

    cases = {
        "one row": lambda n: np.setdiff1d(np.arange(n), rows[1:]),
        "one row twice": lambda n: np.append(np.setdiff1d(np.arange(n), rows[1:]), rows[0]),
        "a further row": lambda n: np.append(np.arange(n), rows[0]),
        "three times the rows of all": lambda n: np.append(np.arange(n), np.resize(rows, 3 * n)),
        "its rows at the end": lambda n: np.append(np.setdiff1d(np.arange(n), rows), rows),
        "its rows at the beginning, reversed": lambda n: np.append(rows[::-1], np.setdiff1d(np.arange(n), rows)),
    }
    for name, order in cases.items():
        yield Change(f"{who} with {name}", rows, select(order), moves_rows=True)
    yield Change(f"{who} under another name", rows, rename, moves_rows=True, renames=True)


def _additions(
    data: CheckData, unit: PrivacyUnit, rows: np.ndarray, rng: np.random.Generator, *, first: bool
) -> Iterator[Change]:
    who = f"{unit} at row {rows[0]}"
    yield Change(
        f"{who} removed", rows, lambda other: other.take(np.setdiff1d(np.arange(len(other.X)), rows)), moves_rows=True
    )
    if not first:
        return
    none = np.zeros(0, dtype=np.int64)
    labels = list(_labels(data, rows, rng)) if unit is not PrivacyUnit.PRIVATE_ROW else []
    single = rows[:1]

    def added(X: Any, y: Any, times: int, front: bool) -> Callable[[CheckData], CheckData]:
        def apply(other: CheckData) -> CheckData:
            n = len(other.X)
            # What is not given is that of a row of the first data: the same in all environments.
            order = np.append(np.arange(n), np.repeat(single, times))
            more = other.take(order)
            new = np.arange(n, n + times)
            own_y = data.y[single[0]] if y is None and data.y is not None else y
            more = more.with_rows(new, data.X[single] if X is None else X, own_y)
            if "user_ids" in more.metadata and unit is PrivacyUnit.USER:
                more.metadata["user_ids"] = _renamed(more.metadata["user_ids"], new)
            return more.take(np.roll(np.arange(n + times), times)) if front else more

        return apply

    for k, (name, X) in enumerate(_rows_values(data, single, rng)):
        text, y = labels[k % len(labels)] if labels else ("", None)
        times = (1, 2, 7)[k % 3] if unit is PrivacyUnit.USER and "user_ids" in data.metadata else 1
        yield Change(f"a further {unit} ({times} rows) with {name} {text}", none, added(X, y, times, k % 2 == 1))
    for text, y in labels:
        yield Change(f"a further {unit} with {text}", none, added(None, y, 1, False))


def _mixed_moves(
    estimator: BaseEstimator, data: CheckData, guarantee: PrivacyGuarantee, row: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Move one row to other categories, in its numbers, or both."""
    listed = {int(column): values for column, values in estimator.categories.items()}
    numeric = [j for j in range(data.X.shape[1]) if j not in listed]
    pairs = check_bounds(getattr(estimator.bounds, "cube", estimator.bounds), numeric) if numeric else ()
    rows = np.array([row])
    for scale in (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0):
        for column in (None, *listed, "all"):
            moved = data.X[row].copy()
            gap = np.zeros(len(numeric))
            for k, j in enumerate(numeric):
                moved[j] = float(moved[j]) + scale * float(rng.normal())
                gap[k] = abs(moved[j] - float(data.X[row, j])) / (pairs[k][1] - pairs[k][0])
            differs = 0
            for j, values in listed.items():
                if column in (j, "all"):
                    moved[j] = values[int(rng.integers(len(values)))]
                    differs += moved[j] != data.X[row, j]
            norm = norm_of(str(guarantee.metric), gap) + estimator.category_weight * differs
            yield Change(
                f"row {row} moved by {norm:.3g}, {differs} categories with it",
                rows,
                lambda other, moved=moved: other.with_rows(rows, moved),
                float(norm) * ROUNDED_UP / len(data.X),
            )


def _moves(
    estimator: BaseEstimator, data: CheckData, guarantee: PrivacyGuarantee, row: int, rng: np.random.Generator
) -> Iterator[Change]:
    """Move one row: near, far, along an axis, out of the bounds."""
    rows = np.array([row])
    if getattr(estimator, "categories", None):
        yield from _mixed_moves(estimator, data, guarantee, row, rng)
        return
    if data.X.dtype.kind != "f":
        for value in np.unique(data.X[:, 0]):
            yield Change(
                f"state {value!r} at row {row}", rows, lambda other, value=value: other.with_rows(rows, value), 0.0
            )
        return
    metric = str(guarantee.metric)
    width = np.ones(data.X.shape[1])
    if "fractions of the bounds" in metric:
        pairs = check_bounds(getattr(estimator.bounds, "cube", estimator.bounds), width.size) or ()
        width = np.array([high - low for low, high in pairs])
    share = len(data.X) if guarantee.unit is PrivacyUnit.DATASET else 1
    for scale in (5e-324, 1e-300, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 7.0, 1e6):
        for axis in (None, 0):
            step = rng.normal(size=width.shape) * scale
            if axis is not None:
                step = np.where(np.arange(width.size) == axis, scale, 0.0)
            moved = data.X[row] + step
            with np.errstate(over="ignore"):
                gap = np.abs(moved - data.X[row]) / width
            norm = norm_of(metric, gap)
            if "great-circle" in metric:
                norm = _great_circle(data.X[row], moved, estimator.coordinates == "latitude-longitude")
            if not math.isfinite(norm):  # in bounds of a few subnormals; nothing is promised at such a distance
                continue
            yield Change(
                f"row {row} moved by {norm:.3g}",
                rows,
                lambda other, moved=moved: other.with_rows(rows, moved),
                float(norm) * ROUNDED_UP / share,
            )
