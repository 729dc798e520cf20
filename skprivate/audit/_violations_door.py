"""How far the statistics behind the noise move between two inputs, where every draw passes one door to watch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from skprivate.privacy._tape import run_tape
except ImportError:  # a floor without a tape: nothing is seen at the door
    run_tape = None  # type: ignore[assignment]


class _Other(Exception):
    """The second run draws something else than the first."""


class _Record:
    def __init__(self) -> None:
        self.draws: list[tuple[Any, Any, Any]] = []

    def draw(self, draw: Any, sample: Callable[[], Any]) -> Any:
        statistic = np.array(draw.statistic, copy=True)
        output = sample()
        self.draws.append((draw, statistic, copy.deepcopy(output)))
        return output


class _Replay:
    """Returns what was released on the first input, and measures what the second would have added noise to."""

    def __init__(self, record: _Record, distance: float) -> None:
        self.record, self.distance = record, distance
        self.count = 0
        self.worst = 0.0

    def draw(self, draw: Any, sample: Callable[[], Any]) -> Any:
        if self.count >= len(self.record.draws):
            raise _Other
        first, statistic, output = self.record.draws[self.count]
        self.count += 1
        same = first.kind == draw.kind and first.norm == draw.norm and first.events == draw.events
        if same and draw.options.get("multiplicity") is not None:
            return copy.deepcopy(output)  # candidates pooled by score: other pools are no other candidates
        if not same or statistic.shape != np.shape(draw.statistic) or first.step != draw.step:
            raise _Other
        if draw.norm in ("l1", "l2", "linf") and np.ndim(draw.sensitivity) == 0 and draw.sensitivity > 0:
            share = _norm(statistic, draw.statistic, draw.norm) / float(draw.sensitivity)
            self.worst = max(self.worst, share / self.distance if self.distance else share)
        return copy.deepcopy(output)


def _norm(first: Any, second: Any, norm: str) -> float:
    """Exact for integers of any size, as long as the difference is a float."""
    pairs = zip(np.ravel(first).tolist(), np.ravel(second).tolist(), strict=True)
    gaps = [abs(float(b - a)) for a, b in pairs if a != b]
    if not gaps:
        return 0.0
    return math.fsum(gaps) if norm == "l1" else math.hypot(*gaps) if norm == "l2" else max(gaps)


def door_share(run: Callable[[Any], Any], first: Any, second: Any, distance: float | None) -> float | None:
    """The largest move of a statistic between two inputs as a share of its sensitivity, the releases being the same.

    Parameters
    ----------
    run : callable
        Fits on one input with a fixed seed.
    first, second : Any
        The inputs.
    distance : float or None
        Under a metric, the sensitivity is per unit of it.

    Returns
    -------
    float or None
        Above 1 a draw has less noise than this pair needs; ``inf`` if the second input leads to other draws, which a
        sound release never does. None where there is no door, or nothing was drawn.
    """
    if run_tape is None:
        return None
    record = _Record()
    with run_tape(record):
        run(first)
    if not record.draws:
        return None
    replay = _Replay(record, 1.0 if distance is None else distance)
    try:
        with run_tape(replay):
            run(second)
    except _Other:
        return math.inf
    return replay.worst if replay.count == len(record.draws) else math.inf
