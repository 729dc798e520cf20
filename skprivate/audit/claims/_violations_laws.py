"""How far two laws lie apart: views learned on some runs, and an exact test of one event on others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from skprivate.audit._intervals import clopper_pearson

Array = npt.NDArray[np.float64]
_LIMIT = 1e12
#: Sums and differences of many such numbers are finite.
_LARGEST = 1e250


@dataclass(frozen=True)
class Event:
    """An event: a view of what is released exceeds a threshold.

    Attributes
    ----------
    name : str
    view : callable
        From released numbers, one row a run, to one number a run.
    threshold : float
    above : bool
    swapped : bool
        Whether the event is rarer on the first input.
    """

    name: str
    view: Callable[[Array], Array]
    threshold: float
    above: bool
    swapped: bool

    def holds(self, values: Array) -> npt.NDArray[np.bool_]:
        scores = self.view(values)
        return np.asarray(scores > self.threshold if self.above else scores <= self.threshold)

    def __str__(self) -> str:
        return f"{self.name} {'>' if self.above else '<='} {self.threshold:.6g}"


class Views:
    """Scalar views of released numbers, learned on runs of both inputs.

    Parameters
    ----------
    first, second : array of shape (n, p)
        Runs with the same seeds, row by row, if ``paired``.
    paired : bool
        Whether rows belong together: then noise cancels in their differences.
    names : list of str or None
    whole : Views or None
        Where centres and scales come from: None, from these runs.
    """

    def __init__(
        self,
        first: Array,
        second: Array,
        paired: bool,
        names: list[str] | None = None,
        whole: Views | None = None,
    ) -> None:
        both = np.vstack([first, second])
        self.centre = np.median(both, axis=0)
        within = np.hypot(first.std(axis=0), second.std(axis=0)) / math.sqrt(2.0)
        gap = np.abs(np.median(second, axis=0) - np.median(first, axis=0))
        self.noisy = within > 0.0
        # Where nothing is noisy, whatever moves moves infinitely far; it is bounded so that sums remain finite.
        self.scale = np.where(within > 0.0, within, np.where(gap > 0.0, gap / _LIMIT, 1.0))
        if whole is not None:  # a few runs say too little of their spread
            self.centre, self.scale, self.noisy = whole.centre, whole.scale, whole.noisy
        self.names = names or [f"coordinate {k}" for k in range(both.shape[1])]
        a, b = self.standard(first), self.standard(second)
        move = np.median(b - a, axis=0) if paired else np.median(b, axis=0) - np.median(a, axis=0)
        mean = (b - a).mean(axis=0)
        self.directions: list[tuple[str, Array]] = []
        for label, delta in (("median", move), ("mean", mean)):
            for power, kind in ((0.0, "likelihood direction"), (1.0, "direction of the move")):
                weights = delta * self.scale**power if power else delta
                norm = float(np.abs(weights).max(initial=0.0))
                if norm > 0.0 and math.isfinite(norm):
                    self.directions.append((f"{kind} ({label})", weights / norm))
        strongest = np.argsort(-np.abs(mean), kind="stable")[:4]
        for k in strongest:
            if mean[k] != 0.0:
                self.directions.append((self.names[int(k)], np.eye(1, mean.size, int(k))[0]))

    def standard(self, values: Array) -> Array:
        return np.asarray(np.clip((values - self.centre) / self.scale, -_LIMIT, _LIMIT))

    def all(self) -> list[tuple[str, Callable[[Array], Array]]]:
        def view(weights: Array) -> Callable[[Array], Array]:
            used = np.flatnonzero(weights)
            return lambda values: np.asarray(self.standard(values)[:, used] @ weights[used])

        return [(name, view(weights)) for name, weights in self.directions]


def separation(first: Array, second: Array, paired: bool) -> float:
    """How many standard deviations of the noise two laws lie apart, cross-fitted on a handful of runs.

    Views are learned on half of the runs and read on the other half, both ways. Zero where nothing moves,
    ``inf`` where something moves and nothing is noisy.
    """
    n = min(len(first), len(second))
    halves = np.arange(n) % 2 == 0
    whole = Views(first[:n], second[:n], paired)
    scores: dict[str, list[float]] = {}
    for half in (halves, ~halves):
        views = Views(first[:n][half], second[:n][half], paired, whole=whole)
        a, b = views.standard(first[:n][~half]), views.standard(second[:n][~half])
        for k, (name, weights) in enumerate(views.directions):
            s, t = a @ weights, b @ weights
            # A few runs say little of a spread: it is hardly below what independent coordinates would have.
            alone = 0.7 * float(np.sqrt(np.sum((weights * views.noisy) ** 2)))
            spread = math.sqrt((s.var(ddof=1) + t.var(ddof=1)) / 2.0) if len(s) > 1 else 0.0
            move = float(t.mean() - s.mean()) / max(spread, alone, 1e-12)
            scores.setdefault(name if k < 4 else f"strongest {k}", []).append(move)
    # Seen in both halves, and by the smaller of both: what a single run shows is chance.
    return max([min(values) for values in scores.values() if len(values) == 2] + [0.0])


def allowed_separation(epsilon: float, delta: float) -> float:
    """Distance of two unit normal laws with the largest total variation that (ε, δ) allows."""
    total = min(math.tanh(epsilon / 2.0) + delta, 1.0 - 1e-15)
    return float(2.0 * ndtri((1.0 + total) / 2.0))


def best_event(
    views: list[tuple[str, Callable[[Array], Array]]],
    first: Array,
    second: Array,
    epsilon: float,
    delta: float,
) -> tuple[float, Event | None]:
    """The event whose excess over the claim is the most significant on these runs, and by how many deviations."""
    best: tuple[float, Event | None] = (-math.inf, None)
    factor = math.exp(min(epsilon, 300.0))
    for name, view in views:
        a, b = view(first), view(second)
        values = np.unique(np.concatenate([a, b]))
        if values.size < 2:
            continue
        cuts = values[:-1] / 2 + values[1:] / 2
        cuts = np.where(cuts >= values[1:], values[:-1], cuts)
        if cuts.size > 200:
            cuts = cuts[np.linspace(0, cuts.size - 1, 200).astype(int)]
        below_a = np.searchsorted(np.sort(a), cuts, side="right")
        below_b = np.searchsorted(np.sort(b), cuts, side="right")
        for above in (False, True):
            counts = (a.size - below_a, b.size - below_b) if above else (below_a, below_b)
            for swapped in (False, True):
                often, rare = counts[::-1] if swapped else counts
                sizes = (b.size, a.size) if swapped else (a.size, b.size)
                p, q = (often + 0.5) / (sizes[0] + 1.0), (rare + 0.5) / (sizes[1] + 1.0)
                spread = np.sqrt(p * (1 - p) / sizes[0] + factor**2 * q * (1 - q) / sizes[1])
                excess = (p - factor * q - delta) / spread
                k = int(np.argmax(excess))
                if excess[k] > best[0]:
                    best = float(excess[k]), Event(name, view, float(cuts[k]), above, swapped)
    return best


def event_p_value(often: int, n_often: int, rare: int, n_rare: int, epsilon: float, delta: float) -> float:
    """An exact p-value of P(event | one) ≤ exp(ε) P(event | other) + δ from binomial counts.

    The smallest level at which one-sided Clopper-Pearson bounds, half of the level each, contradict the claim.

    Parameters
    ----------
    often, n_often, rare, n_rare : int
        Counts and runs on the input where the event is common, and on the other.
    epsilon, delta : float
        The claim.
    """
    if often / n_often <= math.exp(min(epsilon, 300.0)) * rare / n_rare + delta:
        return 1.0
    low, high = -300.0 * math.log(10.0), 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if _contradicts(often, n_often, rare, n_rare, epsilon, delta, math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def _contradicts(
    often: int, n_often: int, rare: int, n_rare: int, epsilon: float, delta: float, level: float
) -> bool:
    at_least = _bound(often, n_often, level / 2.0, lower=True)
    at_most = _bound(rare, n_rare, level / 2.0, lower=False)
    return at_least > math.exp(min(epsilon, 300.0)) * at_most + delta


def _bound(count: int, n: int, level: float, *, lower: bool) -> float:
    """Clopper-Pearson at a level that 1 − level may not resolve: by its complement where the tail is tiny."""
    if level > 1e-13:
        interval = clopper_pearson(count, n, 1.0 - level, side="lower" if lower else "upper")
        return interval[0] if lower else interval[1]
    # Below the resolution of 1 − level: the Chernoff bound is exact enough, and on the safe side.
    share, limit = count / n, -math.log(level) / n
    outside, inside = (0.0, share) if lower else (1.0, share)
    for _ in range(80):
        middle = (outside + inside) / 2.0
        far = _divergence(share, middle) > limit
        outside, inside = (middle, inside) if far else (outside, middle)
    return outside


def _divergence(p: float, q: float) -> float:
    def part(x: float, y: float) -> float:
        return 0.0 if x == 0.0 else (math.inf if y <= 0.0 else x * math.log(x / y))

    return part(p, q) + part(1.0 - p, 1.0 - q)


def epsilon_bound(often: int, n_often: int, rare: int, n_rare: int, delta: float, level: float) -> float:
    """A lower bound on ε from the counts of one event that holds at this level."""
    at_least = _bound(often, n_often, level / 2.0, lower=True) - delta
    at_most = _bound(rare, n_rare, level / 2.0, lower=False)
    return max(0.0, math.log(at_least / at_most)) if at_least > 0.0 else 0.0


def row_features(values: Array, first: Any, second: Any) -> tuple[Array, list[str]]:
    """What tells releases of one row from those of another: coordinates, values taken, distances to both rows, and
    where the distances lie between points of the output's own lattice.

    Parameters
    ----------
    values : array of shape (n, d)
        Releases of either row.
    first, second : array of shape (1, d)
    """
    columns, names = [values[:, :50]], [f"coordinate {k}" for k in range(min(50, values.shape[1]))]
    step = _lattice_step(values[:200])
    for which, row in (("the first", first), ("the second", second)):
        if np.asarray(row).dtype.kind not in "fiu":
            continue
        with np.errstate(all="ignore"):
            lattice = np.rint((values - np.asarray(row, dtype=np.float64)) / step)
        lattice = np.clip(np.nan_to_num(lattice), -_LARGEST, _LARGEST)
        for norm, size in (("l1", np.abs(lattice).sum(axis=1)), ("linf", np.abs(lattice).max(axis=1))):
            columns.append(np.stack([size, np.mod(size, 2.0)], axis=1))
            names += [f"{norm} distance to {which}", f"parity of the {norm} distance to {which}"]
        if 1 < values.shape[1] <= 40:
            columns.append(_radius(lattice))
            names += [f"l2 distance to {which}", f"l2 distance to {which} modulo the lattice"]
    return np.hstack(columns), names


def _radius(lattice: Array) -> Array:
    """Euclidean norms of vectors of large integers, and the cosine of their fraction, in exact arithmetic."""
    whole, fraction = np.empty(len(lattice)), np.empty(len(lattice))
    for k, row in enumerate(lattice.tolist()):
        root = math.isqrt(sum(int(x) ** 2 for x in row) << 40)
        whole[k], fraction[k] = float(root >> 20), (root & (2**20 - 1)) / 2**20
    return np.stack([whole, np.cos(2 * np.pi * fraction)], axis=1)


def row_views(
    one: Any, other: Any, first: Array, second: Array, learn: int
) -> tuple[list[tuple[str, Callable[..., Array]]], Array, Array]:
    """Views of releases of two rows, and these with all their features.

    Parameters
    ----------
    one, other : array of shape (1, d)
    first, second : array of shape (n, d)
        Releases of each.
    learn : int
        The views are learned on so many first ones of each side.
    """
    features, names = row_features(np.vstack([first, second]), one, other)
    a, b = features[: len(first)], features[len(first) :]
    views = Views(a[:learn], b[:learn], False, names).all()
    views += [(name, partial(_column, k=k)) for k, name in enumerate(names)]
    return views + value_indicators(np.vstack([a[:learn], b[:learn]])), a, b


def _column(values: Array, k: int) -> Array:
    return values[:, k]


def _lattice_step(values: Array) -> float:
    """The largest power of two that divides all of these numbers."""
    mantissa, exponent = np.frexp(values[values != 0.0])
    if mantissa.size == 0:
        return 1.0
    digits = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    lowest = (digits & -digits).astype(np.float64)
    return float(2.0 ** np.clip(np.min(exponent - 53 + np.log2(lowest)), -1000, 1000))


def value_indicators(values: Array) -> list[tuple[str, Callable[..., Array]]]:
    """Views of releases that take few values: each single one of them."""
    out: list[tuple[str, Callable[..., Array]]] = []
    for k in range(min(values.shape[1], 3)):
        taken = np.unique(values[:, k])
        if 2 < taken.size <= 300:
            for value in taken:
                out.append(
                    (
                        f"whether coordinate {k} is {value:.6g}",
                        lambda v, k=k, value=value: (v[:, k] == value).astype(np.float64),
                    )
                )
    return out
