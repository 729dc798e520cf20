"""Descriptions of draws, and tapes that watch and replay all draws of a release.

While a tape runs, releases are marked as not valid for release: the tape sees private statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from skprivate.privacy._events import PrivacyEvent


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw, before its noise.

    Attributes
    ----------
    kind : str
        Name of the method of `Release` that draws; or "repetitions", the candidates that `select_repeatedly` evaluates.
    statistic : ndarray
        The private statistic: integers in lattice steps where ``step`` is not None, otherwise float64.
    sensitivity : Any
        Largest change of the statistic between neighbours, in its own units.
    norm : str
        Norm of that change: "l1", "l2", "linf" (of all coordinates together, or of each score), "flow" (the ℓ1 norm of
        the least flow along the edges of the grid), "parts" (the sum over ``options["parts"]``, numbers of candidates,
        of the largest change of a score), or "unit" where row i of the statistic belongs to unit i alone.
    events : dict of PrivacyEvent to int
        The price.
    options : dict
        All else that is public and decides the law of the draw: rule, monotone, multiplicity, ….
    categories : callable or None
        Draws the category of a located candidate alone, one for each part, so that its law can be tested.
    """

    kind: str
    statistic: NDArray[Any]
    sensitivity: Any
    norm: str
    events: dict[PrivacyEvent, int]
    step: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    categories: Callable[[], list[int]] | None = None


#: Its method ``draw(draw, sample)`` returns the result of a draw: that of ``sample()``, or another one.
Tape = Any

_RUNNING: ContextVar[Tape | None] = ContextVar("skprivate_tape", default=None)


def running_tape() -> Tape | None:
    """Return the tape that watches releases opened now, if any."""
    return _RUNNING.get()


@contextmanager
def run_tape(tape: Tape) -> Iterator[None]:
    """Let ``tape`` see all draws of releases that are opened inside, in this thread."""
    token = _RUNNING.set(tape)
    try:
        yield
    finally:
        _RUNNING.reset(token)
