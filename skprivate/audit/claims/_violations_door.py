"""How far the statistics behind the noise move between two inputs, where every draw passes one door to watch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

try:
    from skprivate.utils import Recording, Replay, differing_results, excess
except ImportError:  # a floor without a tape: nothing is seen at the door
    Recording = None  # type: ignore[assignment, misc]


def door_share(run: Callable[[Any], Any], first: Any, second: Any, distance: float | None) -> float | None:
    """The largest move of a statistic between two inputs as a share of its sensitivity, the releases being the same.

    Every kind of draw is measured, in exact arithmetic: sums, histograms, flows, choices and channels.

    Parameters
    ----------
    run : callable
        Fits on one input with a fixed seed, and returns all that is released.
    first, second : Any
        The inputs.
    distance : float or None
        Under a metric, the sensitivity is per unit of it.

    Returns
    -------
    float or None
        Above 1 a draw has less noise than this pair needs; ``inf`` if the second input leads to other draws, or to
        another result of the same draws, which a sound release never does. 0 if no statistic moves. None where there
        is no door, or nothing was drawn.
    """
    if Recording is None:
        return None
    recording = Recording(run, first)
    if not recording.draws:
        return None
    again = Replay(recording, run, second)
    if again.failure or differing_results(recording.result, again.result):
        return math.inf
    return max(
        excess(one, other, distance)[0] for one, other in zip(recording.draws, again.draws, strict=True)
    )
