"""Many draws of the statistics of one fit, without fitting again.

Both inputs of a pair are fitted once, the second one along the transcript of the first: every draw of the
second returns
what the first drew, so that both fits ask for the same noise on neighbouring statistics. A round then tosses a coin and
draws all of them afresh for the side that it shows. With the earlier results fixed these draws compose as they do in a
fit, at the same price; so a round is as indistinguishable between the two values of its coin as the guarantee says.
What bypasses the draws is not seen here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skprivate.audit.claims._coins import Design
from skprivate.audit.claims._released import Observer, as_numbers
from skprivate.privacy import GaussianEvent
from skprivate.privacy.draws import run_tape

__all__ = ["Redraws"]

#: Coordinates of a draw that are looked at, besides their combination along the difference of the two statistics.
_WIDEST = 4
#: Share of the Gaussian signal that is enough.
_ENOUGH = 0.75


class _Path:
    """A tape that keeps the means to draw again, and makes a second fit follow the first."""

    def __init__(self, path: list[Any] | None = None):
        self.path = [] if path is None else path
        self.follows = path is not None
        self.steps: list[tuple[Any, Any]] = []

    def draw(self, draw: Any, sample: Any) -> Any:
        k = len(self.steps)
        self.steps.append((draw, sample))
        if not self.follows:
            self.path.append(sample())
        elif k >= len(self.path):
            raise ValueError("the two fits do not ask for the same draws.")
        return self.path[k]


class Redraws:
    """Rounds of one coin each, from the draws of two fits.

    Parameters
    ----------
    observer : Observer
    pair : Design
        Of one coin.
    seed : int or None
        Of the two fits, where the noise is simulated.
    """

    def __init__(self, observer: Observer, pair: Design, seed: int | None):
        first = _Path()
        second, again = _Path(first.path), _Path(first.path)
        for coin, tape in ((False, first), (True, second), (False, again)):
            with run_tape(tape):
                data = pair.make(np.array([coin]))
                model = observer.fit(data, seed)
                if observer.local:
                    model.transform(data.X)
        if len(first.steps) != len(second.steps):
            raise ValueError("the two fits do not ask for the same draws.")
        # Public choices, as of the rows of a bag, are made afresh by each fit: then more than the units differs.
        for (draw, _), (same, _) in zip(first.steps, again.steps, strict=True):
            if not np.array_equal(draw.statistic, same.statistic):
                raise ValueError(
                    "fits on one input make different public choices; simulate=True repeats them."
                )
        self.steps: list[Any] = []
        self._choices: dict[str, int] = {}
        strength: list[float] = []
        for (draw, one), (other, two) in zip(first.steps, second.steps, strict=True):
            if draw.kind == "repetitions":  # a search: its price is that of the winner, all else stays secret
                break
            if draw.kind.startswith("select"):  # the scores may come in groups that depend on the data
                strength.append(math.inf)
                self.steps.append(((one, two), None, False))
                continue
            if draw.kind != other.kind or np.shape(draw.statistic) != np.shape(other.statistic):
                raise ValueError("the two fits do not ask for the same draws.")
            step = np.ravel(
                np.asarray(other.statistic, dtype=float) - np.asarray(draw.statistic, dtype=float)
            )
            if not np.any(step):
                continue
            noise = [event.noise_multiplier for event in draw.events if isinstance(event, GaussianEvent)]
            share = np.linalg.norm(step) / float(np.max(draw.sensitivity)) / noise[0] if noise else np.inf
            strength.append(float(share) ** 2)
            self.steps.append(((one, two), step / np.abs(step).max(), bool(noise)))
        # A part of the draws tells of the same coin; few Gaussian sums often hold nearly all of the signal.
        power = np.array(strength)
        order = np.argsort(-power, kind="stable")
        order = order[np.isfinite(power[order])]
        if order.size:
            enough = int(np.argmax(np.cumsum(power[order]) >= _ENOUGH * power[order].sum()))
            self.steps = [self.steps[k] for k in order[: enough + 1]]

    def features(self, coins: Any) -> Any:
        """One row a coin."""
        return np.array([self._round(int(coin)) for coin in coins])

    def _round(self, side: int) -> list[float]:
        row: list[float] = []
        for samples, step, gaussian in self.steps:
            result = samples[side]()
            if step is None:
                row.append(float(self._choices.setdefault(str(result), len(self._choices))))
                continue
            for part in result if isinstance(result, tuple) else (result,):
                numbers = as_numbers(part)
                if numbers is None:
                    continue
                if numbers.size != step.size:
                    row += numbers[:_WIDEST].tolist()
                    continue
                row.append(float(numbers @ step))
                if not gaussian and step.size > 1:
                    row += numbers[np.argsort(-np.abs(step), kind="stable")[:_WIDEST]].tolist()
        return row or [0.0]
