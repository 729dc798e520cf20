"""What a draw is, and a place from which all draws of a release can be watched and replayed.

Every draw of every release passes through `Draw` objects, so a test harness sees all of them without knowing any
estimator. While a tape runs, releases are marked as not valid for release: the tape sees private statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy._events import PrivacyEvent


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw, before its noise.

    Attributes
    ----------
    kind : str
        Name of the method of `skprivate.privacy.Release` that draws; or "toss" for a coin of a mechanism (a uniform
        integer below ``options["below"]``), which sees no data and has no price.
    statistic : ndarray
        The private statistic: integers in lattice steps where ``step`` is not None, otherwise float64.
    sensitivity : Any
        Largest change of the statistic between neighbours, in its own units.
    norm : str
        In which norm: "l1", "l2", "linf" (of all coordinates together, or of each score), "unit" where row i of the
        statistic belongs to unit i alone, or "flow" where a statistic changes by a flow along the edges of a grid.
    events : dict of PrivacyEvent to int
        The price.
    step : float or None
        Size of one lattice step.
    options : dict
        Everything public that decides the law of the draw besides: rule, monotone, multiplicity, ….
    """

    kind: str
    statistic: NDArray[Any]
    sensitivity: Any
    norm: str
    events: dict[PrivacyEvent, int]
    step: float | None = None
    options: dict[str, Any] = field(default_factory=dict)


class Tape(Protocol):
    """Sees every draw of the releases that are opened while it runs."""

    def draw(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        """Return the result of the draw: that of ``sample()``, or another one."""
        ...


_RUNNING: ContextVar[Tape | None] = ContextVar("skprivate_tape", default=None)


def running_tape() -> Tape | None:
    """The tape that watches releases opened now, if any."""
    return _RUNNING.get()


@contextmanager
def run_tape(tape: Tape) -> Iterator[None]:
    """Let ``tape`` see all draws of releases that are opened inside, in this thread."""
    token = _RUNNING.set(tape)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def same_statistic(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two statistics are equal to the last bit."""
    return first.shape == second.shape and bool(np.all(first == second))
