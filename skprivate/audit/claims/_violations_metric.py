"""Public parameters that a claim should survive, and rows that move under a metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from skprivate.audit.claims._violations_pairs import Pair, Surroundings, box_of, random_size
from skprivate.audit.claims._violations_target import Claim, Inputs


def setting_variants(subject: Any, parameters: dict[str, Any], metric: bool) -> list[dict[str, Any]]:
    """Settings of public parameters that a claim should survive; the first is what was given.

    Bounds are shifted far away and made narrow or wide; switches are turned, and options of
    scikit-learn's own kind gone through. Under a metric ε times the width of bounds is kept.
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
            out.append({**given, **extra, name: _as_given(low * scale, (low + width) * scale)})
        for power in (40,) if metric else (30, 40, 44, 48, 52):
            far = width * 2.0**power * 1.234567
            out.append({**given, name: _as_given(low + far, low + far + width)})
    constraints = getattr(subject, "_parameter_constraints", {})
    for name, value in parameters.items():
        if isinstance(value, bool | np.bool_):
            out.append({**given, name: not value})
        elif name == "alpha":
            out.append({**given, name: 0.0})
        elif isinstance(value, str) and name not in ("metric", "adjacency"):
            for rule in constraints.get(name, []):
                for option in sorted(getattr(rule, "options", ())):
                    if option != value:
                        out.append({**given, name: option})
        if name == "adjacency" and value in ("replace-one", "add-remove"):
            pass  # another adjacency is another claim: searched for on its own
    return out


def _as_given(low: Any, high: Any) -> tuple[Any, Any]:
    return (float(low), float(high)) if low.ndim == 0 else (low.tolist(), high.tolist())


def names_norm(metric: str) -> bool:
    """Whether distances of rows can be told from a metric's name."""
    return any(norm in metric for norm in ("l1", "l2", "linf"))


def norm_of(metric: str, difference: Any) -> float:
    """Distance of two rows in the norm that a metric names."""
    gap = np.abs(np.asarray(difference, dtype=np.float64)).ravel()
    if "linf" in metric:
        return float(gap.max(initial=0.0))
    return float(math.hypot(*gap)) if "l2" in metric else float(gap.sum())


def metric_pair(place: Surroundings, settings: dict[str, Any], row_wise: bool, rng: Any) -> Pair:
    """One row, alone or among others, and where it moves to; its distance is yet to be measured.

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
        X = start
        moved = start.copy()
        moved[0, int(rng.integers(d))] += move
        whole_words: dict[str, Any] = {"start": int(start.ravel()[0]), "move": move}
        return Pair(Inputs(X), Inputs(moved), settings, 0.0, whole_words)
    width = np.ones(d) if box is None else box[1] - box[0]
    base = np.zeros(d) if box is None else box[0]
    share = {"corner": np.zeros(d), "centre": np.full(d, 0.5)}.get(kind, rng.random(d))
    size = 1.0 if box is not None or rng.random() < 0.6 else random_size(rng)
    X = base + width * rng.random((n, d)) * size
    X[0] = base + width * share * size
    step = float(10.0 ** rng.uniform(-9, 0))
    how = str(rng.choice(("along an axis", "in all directions", "across")))
    direction = np.eye(1, d)[0] if how == "along an axis" else rng.normal(size=d)
    end = (
        base + width * (1.0 - share)
        if how == "across" and box is not None
        else X[0] + width * step * direction
    )
    moved = X.copy()
    moved[0] = end if box is None else np.clip(end, *box)
    words = {"rows": n, "columns": d, "start": kind, "move": how, "size": float(step * size)}
    return Pair(Inputs(X), Inputs(moved), settings, 0.0, words)


def with_distance(pair: Pair, claim: Claim, distance: Any) -> Pair:
    """The pair with its distance, rounded up for the arithmetic that computes it."""
    if distance is not None:
        return replace(pair, distance=float(distance(pair.first, pair.second)))
    gap = np.asarray(pair.second.X, dtype=np.float64) - np.asarray(pair.first.X, dtype=np.float64)
    if np.asarray(pair.first.X).dtype.kind in "iu":
        gap = np.asarray(pair.second.X) - np.asarray(pair.first.X)  # exact
    if "fractions of the bounds" in claim.metric and (
        box := box_of(pair.settings.get("bounds"), gap.shape[1])
    ):
        gap = gap / (box[1] - box[0])
    rho = norm_of(claim.metric, gap) * (1.0 + 2.0**-40)
    return replace(pair, distance=rho / (len(gap) if claim.unit == "data set" else 1))


def halves(pair: Pair, claim: Claim, distance: Any) -> list[Pair]:
    """The way from one input to the other in two steps; none if nothing lies between, or it is unknown how far."""
    a, b = np.asarray(pair.first.X), np.asarray(pair.second.X)
    if a.dtype.kind not in "fiu" or a.shape != b.shape or (distance is None and not names_norm(claim.metric)):
        return []
    middle = a + (b - a) // 2 if a.dtype.kind in "iu" else a + (b - a) / 2.0
    if np.array_equal(middle, a) or np.array_equal(middle, b):
        return []
    between = Inputs(middle, pair.first.y, pair.first.params)
    steps = (replace(pair, second=between), replace(pair, first=between))
    return [with_distance(step, claim, distance) for step in steps]


def pairs_of_the_caller(
    pairs: Iterable[Any], settings: dict[str, Any], claim: Claim, distance: Any
) -> list[Pair]:
    """Pairs as they were given, checked, and under a metric with their distances.

    Raises
    ------
    ValueError
        If an item is no pair of inputs, its distance is no finite number, there is none where the metric names no norm
        of rows, or there is one where the claim knows of none.
    """
    metric = claim.adjacency == "metric"
    found = []
    for item in pairs:
        if len(item) not in (2, 3) or not all(isinstance(side, tuple | Inputs) for side in item[:2]):
            raise ValueError(
                "pairs must hold two tuples (X, y, params) each, under a metric followed by their distance, got "
                f"{[type(part).__name__ for part in item]}."
            )
        one, other = (side if isinstance(side, Inputs) else Inputs(*side) for side in item[:2])
        if len(item) == 3 and not metric:
            raise ValueError(
                f"pairs must come without distances where the claim is {claim.adjacency}, got {item[2]!r}. Pass "
                "adjacency='metric' for a claim per unit of distance."
            )
        pair = Pair(one, other, settings, None, {"given": "by the caller"})
        if len(item) == 3:
            if not (isinstance(item[2], Real) and 0.0 <= float(item[2]) < math.inf):
                raise ValueError(f"The distance of pairs must be a finite number >= 0, got {item[2]!r}.")
            pair = replace(pair, distance=float(item[2]))
        elif metric:
            if distance is None and not names_norm(claim.metric):
                raise ValueError(f"{_no_norm(claim)} give each of pairs its distance, or pass distance=.")
            pair = with_distance(pair, claim, distance)
        found.append(pair)
    return found


def _no_norm(claim: Claim) -> str:
    return f"The metric {claim.metric!r} names no norm of rows:"


def check_source(claim: Claim, distance: Any, pairs: list[Pair]) -> bool:
    """Whether pairs can be built under this claim; raises ValueError where there are none at all."""
    if claim.adjacency != "metric" or distance is not None or names_norm(claim.metric):
        return True
    if not pairs:
        raise ValueError(f"{_no_norm(claim)} pass distance= (and pairs= where rows are not numbers).")
    return False
