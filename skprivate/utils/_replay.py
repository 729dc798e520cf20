"""Record the draws of a computation, and replay them on neighbouring data with the results frozen.

A draw is private if its law changes little between neighbours *given all that was released before*. So the second run
sees the released values of the first one; everything else that it does must then be the same: the same draws, with the
same public parameters, and the same result. What differs is the statistic of each draw, by no more than its
sensitivity. The idea is that of record/replay audits (arXiv 2602.17454); here no code is annotated, because every
draw passes one door, and distances are exact.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import accumulate
from typing import Any

import numpy as np

from skprivate.privacy.draws._tape import Draw, run_tape
from skprivate.utils._draw_distance import excess, public_difference
from skprivate.utils._leaves import equal_leaves, leaves


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
    """What a replay found.

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
    """The second run took another way than the first: replaying ends here."""


class Recording:
    """A tape that keeps every draw and its result.

    Attributes
    ----------
    draws : list of Draw
    outputs : list
    result : Any
        What the computation returned, as leaves, with what it warned of and printed.
    """

    def __init__(self, run: Callable[[Any], Any], data: Any) -> None:
        self.draws: list[Draw] = []
        self.outputs: list[Any] = []
        self.result = _leaves_of(run, data, self)

    def draw(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        output = sample()
        self.draws.append(_kept(draw))
        self.outputs.append(copy.deepcopy(output))
        return output


class Replay:
    """A tape that returns recorded results, and notes what the draws are this time."""

    def __init__(self, recording: Recording, run: Callable[[Any], Any], data: Any) -> None:
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


def replay(
    run: Callable[[Any], Any], data: Any, neighbours: Iterable[Any], *, name: str = "it"
) -> ReplayReport:
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


def _compare(
    recording: Recording, run: Callable[[Any], Any], other: Neighbour, worst: dict[str, float]
) -> list[str]:
    again = Replay(recording, run, other.data)
    found = []
    for number, (first, second) in enumerate(zip(recording.draws, again.draws, strict=False)):
        share, complaint = excess(first, second, other.distance)
        worst[first.kind] = max(worst.get(first.kind, 0.0), share)
        if complaint:
            found.append(f"draw {number} ({first.kind}) is not private: {complaint}")
    if again.failure:
        found.append(again.failure)
    elif not found:
        found += differing_results(recording.result, again.result)
    return found


def differing_results(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Complaints about results that are not the same although all draws were."""
    if first.keys() != second.keys():
        return [f"the result has other parts: {sorted(first.keys() ^ second.keys())[:5]}"]
    differ = [path for path in first if not np.all(equal_leaves(first[path], second[path]))]
    return [f"the result depends on the data in {differ[:5]} besides what was drawn"] if differ else []


def _leaves_of(run: Callable[[Any], Any], data: Any, tape: Any) -> dict[str, Any]:
    with (
        warnings.catch_warnings(record=True) as caught,
        redirect_stdout(StringIO()) as printed,
        run_tape(tape),
    ):
        warnings.simplefilter("always")
        result = run(data)
    said = [f"{item.category.__name__}: {item.message}" for item in caught]
    return {**leaves(result), "<warnings>": "\n".join(said), "<prints>": printed.getvalue()}


def _kept(draw: Draw) -> Draw:
    return dataclasses.replace(draw, statistic=np.array(draw.statistic, copy=True))


def _same_candidate(recorded: Draw, draw: Draw, output: tuple[int, int]) -> tuple[int, int]:
    """(category, member) of the candidate that was chosen, in the categories of another draw."""
    before, now = (
        list(accumulate(int(c) for c in each.options["multiplicity"])) for each in (recorded, draw)
    )
    category, member = output
    place = (before[category - 1] if category else 0) + member
    category = bisect_right(now, place)
    return category, place - (now[category - 1] if category else 0)
