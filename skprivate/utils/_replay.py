"""Record the draws of a computation, replay them on neighbouring data, and compare them exactly.

A draw is private if its law changes little between neighbours *given all that was released before*. So the second run
sees the released values of the first one. Everything else that it does must then be the same: the same draws, with the
same public parameters, and the same result. The statistic of each draw differs by at most its sensitivity. The idea is
that of record/replay audits (arXiv 2602.17454). No code is annotated, because every draw passes one tape, and distances
are exact.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from skprivate.privacy import noise
from skprivate.privacy.draws import Draw, run_tape
from skprivate.utils._data import equal_leaves, leaves, listening

#: Draws that add noise to a sum over units.
NOISE = ("laplace", "gaussian", "discrete_laplace", "discrete_gaussian")


def exact(statistic: object) -> tuple[np.ndarray, bool]:
    """Flatten a statistic to int64, Python integers or float64, and tell if it is one of integers."""
    whole = noise.as_integers(statistic)
    if whole is not None:
        return whole.ravel(), True
    return np.asarray(statistic, dtype=np.float64).ravel(), False


def change(first: object, second: object) -> dict[int, Fraction | int]:
    """Find the coordinates in which two statistics of one shape differ, and by how much, exactly."""
    (a, whole), (b, also_whole) = exact(first), exact(second)
    small = (
        object not in (a.dtype, b.dtype) and whole and also_whole and max(noise.largest(a), noise.largest(b)) < 2**62
    )
    if small:
        steps = b - a
        return {int(k): int(steps[k]) for k in np.flatnonzero(steps)}
    number = int if whole and also_whole else Fraction
    pairs = enumerate(zip(a.tolist(), b.tolist(), strict=True))
    return {k: number(there) - number(here) for k, (here, there) in pairs if here != there}


def expanded_change(first: Draw, second: Draw) -> list[tuple[int, Fraction | int]]:
    """Find changes of the scores of all candidates: the first candidate of each stretch with the same change, and it.

    Runs may be encoded in different ways in the two draws: the score as a function of the candidate counts.
    """
    tracks = []
    for draw in (first, second):
        scores, whole = exact(draw.statistic)
        number = int if whole else Fraction
        ends = list(accumulate(int(count) for count in draw.options["multiplicity"]))
        tracks.append(([number(score) for score in scores.tolist()], ends))
    (a, a_ends), (b, b_ends) = tracks
    found: list[tuple[int, Fraction | int]] = []
    i = j = at = 0
    while i < len(a) and j < len(b):
        end = min(a_ends[i], b_ends[j])
        if end > at:
            found.append((at, b[j] - a[i]))
            at = end
        i, j = i + (a_ends[i] == end), j + (b_ends[j] == end)
    return found


def public_difference(first: Draw, second: Draw) -> str | None:
    """Explain what differs in two draws besides the statistic; None if nothing."""
    for name in ("kind", "norm", "sensitivity", "step", "events"):
        if getattr(first, name) != getattr(second, name):
            return f"its {name} is {getattr(first, name)!r} on one and {getattr(second, name)!r} on the other"
    if exact(first.statistic)[1] != exact(second.statistic)[1]:
        return "its statistic is of integers on one and of floats on the other"
    runs = first.options.get("multiplicity") is not None
    if runs != (second.options.get("multiplicity") is not None):
        return "only one of them has multiplicities"
    if runs:
        totals = [sum(int(count) for count in draw.options["multiplicity"]) for draw in (first, second)]
        if totals[0] != totals[1]:
            return f"there are {totals[0]} and {totals[1]} candidates"
    elif first.keys is not None:  # how many there are is private
        if first.statistic.shape[1:] != second.statistic.shape[1:]:
            return "a key has other numbers of numbers"
    elif first.statistic.shape != second.statistic.shape:
        return f"its shape is {first.statistic.shape} on one and {second.statistic.shape} on the other"
    for name in sorted({*first.options, *second.options} - {"multiplicity"}):
        here, there = first.options.get(name), second.options.get(name)
        if not np.array_equal(np.asarray(here), np.asarray(there)):
            return f"its {name} differs"
    return None


def excess(first: Draw, second: Draw, distance: float | None) -> tuple[float, str | None]:
    """Compute the distance of two draws as a share of their sensitivity, and say what is wrong with it, if anything.

    The share is at most 1 if the draw keeps its sensitivity. Under metric adjacency ``distance`` is that of the
    neighbours; draws on real values may add 2⁻³² / ε to it, for their lattice, and those on integers one and a half
    steps along each axis.
    """
    if first.keys is not None:
        if complaint := _unhidden(first, second):
            return np.inf, complaint
        first, second = _aligned(first, second), _aligned(second, first)
    return _excess(first, second, distance)


def _excess(first: Draw, second: Draw, distance: float | None) -> tuple[float, str | None]:
    if first.options.get("multiplicity") is not None:
        stretches = expanded_change(first, second)
        steps = [step for _, step in stretches]
        coordinates: list[int] = []
    else:
        found = change(first.statistic, second.statistic)
        steps, coordinates = list(found.values()), list(found)
    steps = [step for step in steps if step != 0]
    if not steps:
        return 0.0, None
    norm = first.norm
    if norm == "unit":
        width = max(1, first.statistic.size // max(1, first.statistic.shape[0]))
        rows = {k // width for k in coordinates}
        if len(rows) > 1:
            return np.inf, f"the rows of {len(rows)} units differ, although one unit changed"
        norm = first.options.get("norm", "linf")
        if first.kind == "channel":
            moved, cost = _log_ratio(first, second, coordinates[0])
            share = float(moved / cost) if cost else float(np.inf if moved else 0.0)
            return share, f"two states differ by {share:.6g} times their cost" if moved > cost else None
    allowed = allowed_once = Fraction(first.sensitivity)
    if distance is not None:
        if exact(first.statistic)[1]:
            # The promise is about rows snapped to a lattice, to which half a step and a rounding lead on either side.
            # A step along an axis is one of mass along one edge: two in ℓ1.
            # Categories are what they are.
            edges = Fraction(3 * (first.statistic.ndim - len(first.options.get("stars", ()))), 2)
            allowed = allowed * Fraction(distance) + (edges if norm == "flow" else 2 * edges)
        else:
            pure = min(event.pure_epsilon for event in first.events)
            allowed = allowed * (Fraction(distance) + Fraction(1, 2**32) / Fraction(pure))
    if norm == "flow":
        stars = first.options.get("stars", ())
        if stars:
            found_cost = _transport_at_least(first.statistic, second.statistic, [allowed_once / s for s in stars])
        else:
            found_cost = Fraction(_transport(first.statistic, second.statistic))
    elif norm == "parts":
        found_cost = _largest_by_part(first.options["parts"], stretches)
    elif norm == "l1":
        found_cost = Fraction(sum(abs(step) for step in steps))
    elif norm == "l2":
        found_cost, allowed = Fraction(sum(step * step for step in steps)), allowed * allowed
    else:
        found_cost = Fraction(max(abs(step) for step in steps))
    share = float(found_cost / allowed) if allowed else np.inf
    share = share**0.5 if norm == "l2" else share
    if found_cost > allowed:
        over = float(found_cost / allowed - 1) if allowed else np.inf
        return max(share, np.nextafter(1.0, 2.0)), (
            f"it moved by {share:.6g} times its sensitivity"
            + (f" ({over:.2g} more than once, relative)" if over < 1e-3 else "")
        )
    if first.options.get("monotone") and min(steps) < 0 < max(steps):
        return np.inf, "it is declared monotone, but some scores rose and others fell"
    return share, None


def _aligned(draw: Draw, other: Draw) -> Draw:
    """Write the statistic of keyed numbers over the keys of two draws; a key that one lacks has zeros there."""
    keys = sorted({*(draw.keys or ()), *(other.keys or ())})
    rows = dict(zip(draw.keys or (), np.asarray(draw.statistic, dtype=object), strict=True))
    nothing = np.zeros(draw.statistic.shape[1:], dtype=object)
    stacked = [rows.get(key, nothing) for key in keys]
    statistic = np.array(stacked, dtype=object).reshape(len(keys), *nothing.shape)
    return dataclasses.replace(draw, statistic=statistic, keys=None)


def _unhidden(first: Draw, second: Draw) -> str | None:
    """Explain how keys that one of two neighbours lacks exceed what the threshold was computed for."""
    own, most = first.options["own"], first.options["most_keys"]
    for here, there in ((first, second), (second, first)):
        alone = set(here.keys or ()) - set(there.keys or ())
        counts = [int(row[0]) for key, row in zip(here.keys or (), here.statistic, strict=True) if key in alone]
        if len(counts) > most:
            return f"{len(counts)} keys are in one only, more than {most}"
        if max(counts, default=0) > own:
            return f"a key that is in one only has a count of {max(counts)} steps, more than {own}"
    return None


def _largest_by_part(sizes: list[int], stretches: list[tuple[int, Fraction | int]]) -> Fraction:
    """Sum over the parts the largest change of a score of their candidates."""
    ends = list(accumulate(sizes))
    most = [Fraction(0)] * len(ends)
    starts = [start for start, _ in stretches] + [ends[-1]]
    for (start, step), stop in zip(stretches, starts[1:], strict=True):
        for part in range(bisect_right(ends, start), bisect_right(ends, stop - 1) + 1):
            most[part] = max(most[part], Fraction(abs(step)))
    return sum(most, Fraction(0))


def _transport(first: np.ndarray, second: np.ndarray) -> int:
    """Find the least ℓ1 norm of a flow along the edges of the grid that turns one integer mass into the other, exactly.

    It is the largest Σ potential · change over potentials that differ by at most 1 along an edge. Linear programming
    finds the best one; all are integers at a vertex, so rounding leaves it unchanged, and the sum is one of integers.
    """
    changed = _changed(first, second)
    if first.ndim == 1:
        return sum(abs(flow) for flow in accumulate(changed))
    edges, costs = _edges(first.shape, [])
    potential = np.rint(_potentials(changed, edges, costs)).astype(np.int64)
    assert np.abs(potential[edges[:, 0]] - potential[edges[:, 1]]).max(initial=0) <= 1
    return sum(p * change for p, change in zip(potential.tolist(), changed, strict=True))


def _transport_at_least(first: np.ndarray, second: np.ndarray, stars: list[Fraction]) -> Fraction:
    """Bound the norm of a flow from below, with edges to the first entry along the first axes, at the costs ``stars``.

    Potentials of any kind bound the least cost once their largest slope, over the cost of its edge, is divided out.
    """
    changed = _changed(first, second)
    edges, costs = _edges(first.shape, [float(star) for star in stars])
    potential = _potentials(changed, edges, costs)
    steepest = float((np.abs(potential[edges[:, 0]] - potential[edges[:, 1]]) / costs).max(initial=1e-300))
    total = sum((Fraction(p) * change for p, change in zip(potential.tolist(), changed, strict=True)), Fraction(0))
    return abs(total) / Fraction(steepest) / (1 + Fraction(1, 2**48))


def _changed(first: np.ndarray, second: np.ndarray) -> list[int]:
    return [int(b) - int(a) for a, b in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)]


def _edges(shape: tuple[int, ...], stars: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """List the edges of a grid, with stars along the first axes, and the cost of a step along each."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    edges, costs = [], []
    for axis in range(len(shape)):
        to = np.delete(numbers, 0, axis)
        star = axis < len(stars)
        source = np.broadcast_to(np.take(numbers, [0], axis), to.shape) if star else np.delete(numbers, -1, axis)
        edges.append(np.stack([source.ravel(), to.ravel()], 1))
        costs.append(np.full(to.size, stars[axis] if star else 1.0))
    return np.concatenate(edges), np.concatenate(costs)


def _potentials(changed: list[int], edges: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Find the potentials with the largest Σ potential · change that differ by at most its cost along every edge."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    rows = np.repeat(np.arange(len(edges)), 2)
    shape = (len(edges), len(changed))
    slope = coo_array((np.tile([-1.0, 1.0], len(edges)), (rows, edges.ravel())), shape=shape).tocsr()
    net = np.array(changed, dtype=np.float64)
    # Solvers take what is below 1e-7 for nothing: in units of the cheapest edge no cost is.
    unit = costs.min()
    solved = linprog(
        -net / np.abs(net).max(),
        A_ub=vstack([slope, -slope]),
        b_ub=np.concatenate([costs, costs]) / unit,
        bounds=[(0, 0), *[(None, None)] * (len(changed) - 1)],
    )
    return np.asarray(solved.x) * unit


def _log_ratio(first: Draw, second: Draw, coordinate: int) -> tuple[Decimal, Decimal]:
    """Compute the largest log-ratio of the outputs of a channel for two states, and its limit."""
    here, there = (int(each.statistic.ravel()[coordinate]) for each in (first, second))
    (event,) = first.events
    with localcontext(prec=60):
        pairs = zip(first.options["weights"][here], first.options["weights"][there], strict=True)
        ratios = [
            Decimal("inf") if not (a and b) else abs((Decimal(int(a)) / Decimal(int(b))).ln())
            for a, b in pairs
            if a or b
        ]
        return max(ratios), Decimal(event.pure_epsilon) * Decimal(float(first.options["distances"][here, there]))


@dataclass(frozen=True)
class Neighbour:
    """Data that differ from others in one unit.

    Attributes
    ----------
    name : str
        How they differ, for messages.
    data : Any
        The data.
    distance : float or None
        Under metric adjacency, an upper bound on the distance.
    """

    name: str
    data: Any
    distance: float | None = None


@dataclass(frozen=True)
class ReplayReport:
    """Result of a replay.

    Attributes
    ----------
    n_draws, n_neighbours : int
    worst : dict of str to float
        For each kind of draw the largest change of its statistic, as a share of its sensitivity.
    failures : tuple of str
        What was wrong, with the neighbour it was wrong on.
    """

    n_draws: int
    n_neighbours: int
    worst: dict[str, float] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    def raise_failures(self, name: str) -> None:
        """Raise AssertionError with the first of the failures, if there are any."""
        if self.failures:
            raise AssertionError(f"{name}: {self.failures[0]} (1 of {len(self.failures)} failures.)")


class Diverged(Exception):
    """The second run differs from the first: replaying ends here."""


class Recording:
    """A tape that keeps every draw, its result, and the leaves of what the computation returned and wording."""

    def __init__(self, run: Callable[[Any], Any], data: object) -> None:
        self.draws: list[Draw] = []
        self.outputs: list[Any] = []
        self.result = _leaves_of(run, data, self)

    def draw(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        output = sample()
        self.draws.append(_kept(draw))
        self.outputs.append(copy.deepcopy(output))
        return output


class Replay:
    """A tape that returns recorded results, and keeps the draws of this run."""

    def __init__(self, recording: Recording, run: Callable[[Any], Any], data: object) -> None:
        self.recording = recording
        self.draws: list[Draw] = []
        self.failure: str | None = None
        self.result: dict[str, Any] = {}
        try:
            self.result = _leaves_of(run, data, self)
        except Diverged as way:
            self.failure = str(way)
        except Exception as error:
            self.failure = f"it fails on one of two neighbours only: {type(error).__name__}: {error}"
        if self.failure is None and len(self.draws) < len(recording.draws):
            missing = recording.draws[len(self.draws)]
            self.failure = (
                f"it makes {len(recording.draws)} draws on one and {len(self.draws)} on the other; the first that is "
                f"missing is {missing.kind}"
            )

    def faults(self) -> list[str]:
        """List what differs besides the statistics of draws."""
        return [self.failure] if self.failure else differing_results(self.recording.result, self.result)

    def draw(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        number = len(self.draws)
        if number >= len(self.recording.draws):
            raise Diverged(f"a draw more than {number} is made, {draw.kind}")
        recorded = self.recording.draws[number]
        if difference := public_difference(recorded, draw):
            raise Diverged(f"draw {number} ({recorded.kind}) is not the same: {difference}")
        self.draws.append(_kept(draw))
        output = copy.deepcopy(self.recording.outputs[number])
        if draw.options.get("multiplicity") is not None and not draw.options.get("located"):
            return _same_candidate(recorded, draw, output)
        return output


def replay(run: Callable[[Any], Any], data: object, neighbours: Iterable[Any], *, name: str = "it") -> ReplayReport:
    """Run a computation on data, and again on each neighbour with the released values of the first run.

    Parameters
    ----------
    run : callable
        ``run(data)`` opens its releases with a fixed ``random_state`` and returns what it releases.
    data : Any
        Passed to ``run``.
    neighbours : iterable
        Of data, or of `Neighbour` where messages shall name them or the adjacency is metric.
    name : str, default="it"
        Of the computation, for messages.

    Returns
    -------
    ReplayReport

    Examples
    --------
    A mean that forgets that one row more changes its divisor, too:

    >>> import numpy as np
    >>> from skprivate.privacy import open_release
    >>> from skprivate.utils.estimator_checks import replay
    >>> def mean(x):
    ...     with open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=0) as release:
    ...         return release.laplace(np.sum(x) / len(x), sensitivity=1 / len(x), epsilon=1.0)
    >>> x = np.array([0.25, 0.5, 1.0])
    >>> replay(mean, x, [x[:-1]]).failures[0][:73]
    'on neighbour 0, draw 0 (laplace) is not the same: its sensitivity is 0.33'
    """
    recording = Recording(run, data)
    worst: dict[str, float] = {}
    failures: list[str] = []
    count = 0
    for count, item in enumerate(neighbours, start=1):
        other = item if isinstance(item, Neighbour) else Neighbour(f"neighbour {count - 1}", item)
        failures += [f"on {other.name}, {text}" for text in _compare(recording, run, other, worst)]
    return ReplayReport(len(recording.draws), count, worst, tuple(failures))


def _compare(recording: Recording, run: Callable[[Any], Any], other: Neighbour, worst: dict[str, float]) -> list[str]:
    again = Replay(recording, run, other.data)
    found = []
    for number, (first, second) in enumerate(zip(recording.draws, again.draws, strict=False)):
        share, complaint = excess(first, second, other.distance)
        worst[first.kind] = max(worst.get(first.kind, 0.0), share)
        if complaint:
            found.append(f"draw {number} ({first.kind}) is not private: {complaint}")
    return found if found and not again.failure else found + again.faults()


def differing_results(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """List complaints about results that are not the same although all draws were."""
    if first.keys() != second.keys():
        return [f"the result has other parts: {sorted(first.keys() ^ second.keys())[:5]}"]
    differ = [path for path in first if not np.all(equal_leaves(first[path], second[path]))]
    return [f"the result depends on the data in {differ[:5]} besides what was drawn"] if differ else []


def _leaves_of(run: Callable[[Any], Any], data: object, tape: object) -> dict[str, Any]:
    with listening() as (caught, printed), run_tape(tape):
        result = run(data)
    wording = [f"{item.category.__name__}: {item.message}" for item in caught]
    return {**leaves(result), "<warnings>": "\n".join(wording), "<prints>": printed.getvalue()}


def _kept(draw: Draw) -> Draw:
    return dataclasses.replace(draw, statistic=np.array(draw.statistic, copy=True))


def _same_candidate(recorded: Draw, draw: Draw, output: tuple[int, int]) -> tuple[int, int]:
    """Find (category, member) of the candidate that was chosen, in the categories of another draw."""
    before, now = (list(accumulate(int(c) for c in each.options["multiplicity"])) for each in (recorded, draw))
    category, member = output
    place = (before[category - 1] if category else 0) + member
    category = bisect_right(now, place)
    return category, place - (now[category - 1] if category else 0)
