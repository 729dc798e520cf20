"""Neighbouring inputs: opposite ends of given data, rows that move under a metric, and settings of a claim."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skprivate._sklearn import _num_samples, _safe_indexing
from skprivate.audit.claims._runs import Claim
from skprivate.privacy import encode_identifiers
from skprivate.utils import EXTREMES, ROUNDED_UP, CheckData, norm_of

# --- pairs from given data -----------------------------------------------------------------------------------------


def opposite_targets(y: Any) -> tuple[Any, Any]:
    """Choose two values of y as far apart as the data allow."""
    values = np.asarray(y)
    if values.ndim > 1:
        return values.max(axis=0), values.min(axis=0)
    if values.dtype.kind in "fiu" and type_of_target(values).startswith("continuous"):
        return values.max(), values.min()
    classes, counts = np.unique(values, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return classes[order[0]], classes[order[-1]]


def _extreme_rows(X: Any) -> list[tuple[Any, Any]]:
    """Choose features at opposite ends of the data, as (one, other) pairs; existing rows of a data frame."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu":
        return [(_safe_indexing(X, 0), _safe_indexing(X, _num_samples(X) - 1))]
    low, high = X.min(axis=0), X.max(axis=0)
    centre = np.median(X, axis=0)
    norms = np.linalg.norm((X - centre).reshape(len(X), -1), axis=1)
    far = X[int(np.argmax(norms))]
    opposite = X[int(np.argmin(((X - centre) @ (far - centre)) if X.ndim == 2 else norms))]
    same = {(high.tobytes(), low.tobytes()), (low.tobytes(), high.tobytes())}
    return [(high, low)] + [(far, opposite)] * ((far.tobytes(), opposite.tobytes()) not in same)


def _units(data: CheckData, unit: str) -> list[Any]:
    """List the rows of each unit, in the order of the data."""
    n = _num_samples(data.X)
    if unit == "private row":
        private = data.metadata.get("private")
        if private is None:
            raise ValueError(
                "The unit is a private row: pass fit_params={'private': mask} so that a private row can change, or "
                "neighbours= explicitly."
            )
        rows = np.flatnonzero(np.asarray(private, dtype=bool))
        if rows.size == 0:
            raise ValueError("fit_params['private'] marks no private row: there is nothing to audit.")
        return [[row] for row in rows]
    if unit == "user" and data.metadata.get("user_ids") is not None:
        codes = np.asarray(encode_identifiers(data.metadata["user_ids"], n)[0])
        return [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    if unit in ("row", "user", "label"):
        return [[row] for row in range(n)]
    raise ValueError(f"For unit {unit!r} pass neighbours= explicitly (and distance=, for a metric guarantee).")


def group_size(data: CheckData, unit: str, wanted: int) -> int:
    """Limit a group to half of the units there are."""
    return max(1, min(wanted, len(_units(data, unit)) // 2))


def opposite_pairs(data: CheckData, unit: str, adjacency: str, n_units: int = 1) -> list[tuple[CheckData, CheckData]]:
    """Build pairs of inputs that differ in n units, which all change alike.

    Under add-remove the first input lacks the units, else they have opposite values.
    """
    units = _units(data, unit)
    if unit == "label":
        one, other = opposite_targets(data.y)
        positions = [np.arange(n_units)]
        if n_units == 1 and isinstance(data.X, np.ndarray) and data.X.dtype.kind in "fiu":
            far = np.linalg.norm((data.X - data.X.mean(axis=0)).reshape(len(data.X), -1), axis=1)
            positions.append(np.array([int(np.argmax(far))]))
        return [(data.with_rows(r, y=one), data.with_rows(r, y=other)) for r in positions]
    rows = np.sort(np.concatenate(units[-n_units:]))
    rest = np.setdiff1d(np.arange(_num_samples(data.X)), rows)
    # The label can decide what is private: it is kept there.
    has_targets = data.y is not None and unit != "private row"
    targets = opposite_targets(data.y) if has_targets else (None, None)
    pairs = []
    for high, low in _extreme_rows(data.X):
        one = data.with_rows(rows, x=high, y=targets[1])
        if adjacency == "add-remove":
            pairs.append((data.take(rest), one))
        elif not has_targets:
            pairs.append((data.with_rows(rows, x=low), one))
        else:
            pairs.append((data.with_rows(rows, x=high, y=targets[0]), one))
            pairs.append((data.with_rows(rows, x=low, y=targets[1]), one))
    return pairs


def probes_of(data: CheckData) -> Any:
    """Choose rows at which predictions are looked at."""
    n = _num_samples(data.X)
    return data.take(np.unique(np.clip([0, 1, 2, n // 2, n - 3, n - 2, n - 1], 0, n - 1))).X


# --- pairs of a search ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pair:
    """Two inputs that differ in one unit, the public settings of their runs, and how they were made."""

    first: CheckData
    second: CheckData
    settings: dict[str, Any] = field(default_factory=dict)
    distance: float | None = None
    made: str = "as given"

    def __str__(self) -> str:
        return self.made + (f"; {self.settings}" if self.settings else "")


@dataclass
class Surroundings:
    """Public facts that pairs are built for.

    ``labels`` holds the classes, None for numbers; ``make_data(rng, n)`` returns ``(X, y)`` or ``(X, y, params)``.
    """

    claim: Claim
    example: CheckData
    labels: Any
    has_target: bool
    has_users: bool
    has_private: bool
    several_outputs: bool = False
    make_data: Any = None


def box_of(bounds: Any, d: int) -> tuple[Any, Any] | None:
    """Read bounds as two arrays; None where they are not stated in numbers."""
    if bounds is None or isinstance(bounds, str):
        return None
    low, high = (np.broadcast_to(np.asarray(v, dtype=float), (d,)) for v in getattr(bounds, "cube", bounds))
    return low, high


def random_size(rng: np.random.Generator) -> float:
    """Draw a limit of arithmetic, a number within a factor of ten of one, or any size."""
    if rng.random() < 0.7:
        factor = 2.0 ** rng.uniform(-3, 3) if rng.random() < 0.6 else 1.0
        return float(min(abs(float(rng.choice(EXTREMES))) * factor, 1.7e308))
    return float(10.0 ** (rng.uniform(-3, 3) if rng.random() < 0.3 else rng.uniform(-320, 308)))


def setting_variants(subject: object, parameters: dict[str, Any], metric: bool) -> list[dict[str, Any]]:
    """List settings of public parameters that a claim should survive; the first is the given one.

    Bounds are shifted far away and made narrow or wide, switches are turned, and options of scikit-learn's own kind
    gone through. Under a metric ε times the width of bounds is kept.
    """
    given = {k: parameters[k] for k in ("bounds", "label_bounds") if parameters.get(k) is not None}
    out = [dict(given)]
    for name, value in given.items():
        if isinstance(value, str) or np.size(value) < 2:
            continue
        low, high = (np.asarray(side, dtype=float) for side in value)
        width = high - low
        for scale in (1e-6, 1e-3, 1e6):
            extra = {}
            if metric and name == "bounds" and parameters.get("epsilon") is not None:
                extra["epsilon"] = float(parameters["epsilon"]) / scale
            out.append({**given, **extra, name: _plain(low * scale, (low + width) * scale)})
        for power in (40,) if metric else (30, 40, 44, 48, 52):
            far = width * 2.0**power * 1.234567
            out.append({**given, name: _plain(low + far, low + far + width)})
    constraints = getattr(subject, "_parameter_constraints", {})
    for name, value in parameters.items():
        if isinstance(value, bool | np.bool_):
            out.append({**given, name: not value})
        elif name == "alpha":
            out.append({**given, name: 0.0})
        elif isinstance(value, str) and name not in ("metric", "adjacency"):  # those are other claims
            options = {option for rule in constraints.get(name, []) for option in getattr(rule, "options", ())}
            out += [{**given, name: option} for option in sorted(options - {value})]
    return out


def _plain(low: Any, high: Any) -> tuple[Any, Any]:
    return (float(low), float(high)) if low.ndim == 0 else (low.tolist(), high.tolist())


def names_norm(metric: str) -> bool:
    """Check that a metric's name tells the distance of rows."""
    return any(norm in metric for norm in ("l1", "l2", "linf"))


def metric_pair(place: Surroundings, settings: dict[str, Any], row_wise: bool, rng: np.random.Generator) -> Pair:
    """Move one row, alone or among others; the distance is yet to be measured.

    Places are corners, the centre and any point of the bounds, or of any size; integers stay integers.
    """
    example = place.example.X
    whole = example is not None and np.asarray(example).dtype.kind in "iu"
    dims = (1, 1, 2, 3, 7, 10, 20, 100, 1000)
    d = int(np.shape(example)[1]) if example is not None else int(rng.choice(dims))
    n = 1 if row_wise or whole else int(rng.choice((1, 2, 5, 30)))
    box = box_of(settings.get("bounds"), d)
    kind = str(rng.choice(("corner", "centre", "anywhere")))
    if whole:
        start = np.asarray(example)[:1].copy()
        start[0] = int(rng.choice([0, 1, -1])) * int(2 ** int(rng.integers(1, 62)))
        move = int(2 ** int(rng.integers(0, 30)))
        moved = start.copy()
        moved[0, int(rng.integers(d))] += move
        return Pair(CheckData(start), CheckData(moved), settings, 0.0, f"start {start.ravel()[0]}, move {move}")
    width = np.ones(d) if box is None else box[1] - box[0]
    base = np.zeros(d) if box is None else box[0]
    share = {"corner": np.zeros(d), "centre": np.full(d, 0.5)}.get(kind, rng.random(d))
    size = 1.0 if box is not None or rng.random() < 0.6 else random_size(rng)
    X = base + width * rng.random((n, d)) * size
    X[0] = base + width * share * size
    step = float(10.0 ** rng.uniform(-9, 0))
    how = str(rng.choice(("along an axis", "in all directions", "across")))
    direction = np.eye(1, d)[0] if how == "along an axis" else rng.normal(size=d)
    across = how == "across" and box is not None
    end = base + width * (1.0 - share) if across else X[0] + width * step * direction
    moved = X.copy()
    moved[0] = end if box is None else np.clip(end, *box)
    made = f"rows {n}, columns {d}, start {kind}, move {how}, size {step * size:.4g}"
    return Pair(CheckData(X), CheckData(moved), settings, 0.0, made)


def with_distance(pair: Pair, claim: Claim, distance: Any) -> Pair:
    """Measure the distance of a pair, rounded up for the arithmetic that computes it."""
    if distance is not None:
        return replace(pair, distance=float(distance(pair.first, pair.second)))
    if np.asarray(pair.first.X).dtype.kind in "iu":
        gap = np.asarray(pair.second.X) - np.asarray(pair.first.X)  # exact
    else:
        gap = np.asarray(pair.second.X, dtype=np.float64) - np.asarray(pair.first.X, dtype=np.float64)
    box = box_of(pair.settings.get("bounds"), gap.shape[1])
    if "fractions of the bounds" in claim.metric and box is not None:
        gap = gap / (box[1] - box[0])
    rho = norm_of(claim.metric, np.abs(np.asarray(gap, dtype=np.float64)).ravel()) * ROUNDED_UP
    return replace(pair, distance=rho / (len(gap) if claim.unit == "data set" else 1))


def halves(pair: Pair, claim: Claim, distance: object) -> list[Pair]:
    """Split the way between two inputs in two; none if nothing is between, or distances are unknown."""
    a, b = np.asarray(pair.first.X), np.asarray(pair.second.X)
    if a.dtype.kind not in "fiu" or a.shape != b.shape or (distance is None and not names_norm(claim.metric)):
        return []
    middle = a + (b - a) // 2 if a.dtype.kind in "iu" else a + (b - a) / 2.0
    if np.array_equal(middle, a) or np.array_equal(middle, b):
        return []
    between = replace(pair.first, X=middle)
    steps = (replace(pair, second=between), replace(pair, first=between))
    return [with_distance(step, claim, distance) for step in steps]


def read_pairs(pairs: Iterable[Any]) -> list[Pair]:
    """Read the caller's pairs of inputs, some of them with a distance."""
    found = []
    for item in pairs:
        if len(item) not in (2, 3) or not all(isinstance(side, tuple | CheckData) for side in item[:2]):
            raise ValueError(
                "pairs must hold two tuples (X, y, params) each, under a metric followed by their distance, got "
                f"{[type(part).__name__ for part in item]}."
            )
        one, other = (side if isinstance(side, CheckData) else CheckData(*side) for side in item[:2])
        found.append(Pair(one, other, {}, item[2] if len(item) == 3 else None, "given by the caller"))
    return found


def measured(pair: Pair, claim: Claim, distance: object) -> Pair:
    """Check the distance of a pair of the caller, or measure it; pairs have one under a metric only."""
    if claim.adjacency != "metric":
        if pair.distance is not None:
            raise ValueError(
                f"pairs must come without distances where the claim is {claim.adjacency}, got {pair.distance!r}. Pass "
                "adjacency='metric' for a claim per unit of distance."
            )
        return pair
    if pair.distance is not None:
        if not (isinstance(pair.distance, Real) and 0.0 <= float(pair.distance) < math.inf):
            raise ValueError(f"The distance of pairs must be a finite number >= 0, got {pair.distance!r}.")
        return replace(pair, distance=float(pair.distance))
    if distance is None and not names_norm(claim.metric):
        raise ValueError(
            f"The metric {claim.metric!r} names no norm of rows: give each of pairs its distance, or pass distance=."
        )
    return with_distance(pair, claim, distance)
