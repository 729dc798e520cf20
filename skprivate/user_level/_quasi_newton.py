"""Steps of a descent with hardly any noise: quasi-Newton, from released directions alone.

A first-order step that stands any noise needs many steps where curvatures differ; forty of them do not lead to the
model without privacy. Released directions tell the curvature along the way as well, as far as it is more than noise
(L-BFGS). Values of the objective are not released, but of a convex one the slopes at both ends of a step
tell whether it went too far.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: A product of a move with directions says something if it is so many standard deviations of its noise.
SURE = 2.0
#: A move has gone too far if the slope at its end is uphill and more than this part of that at its start.
OVERSHOT = 0.5
#: Least part of a move that went too far which is kept.
LEAST_PART = 0.1
#: Pairs of a move and the change of directions along it that are kept: more than the steps of a fit by default. Each
#: step goes through all of them.
MOST_PAIRS = 100


@dataclass
class QuasiNewton:
    """L-BFGS on a field of noisy directions.

    Attributes
    ----------
    length : float
        Length of the first move; twice that of the one before as long as no curvature was seen.
    most : float
        No such move is longer: at the surface of a ball there may be no curvature to be seen.
    """

    length: float
    most: float = math.inf
    _moves: deque[FloatArray] = field(default_factory=partial(deque, maxlen=MOST_PAIRS))
    _changes: deque[FloatArray] = field(default_factory=partial(deque, maxlen=MOST_PAIRS))
    _base: tuple[FloatArray, FloatArray] | None = None

    def step(self, w: FloatArray, direction: FloatArray, noise: float) -> FloatArray:
        """The next iterate.

        Parameters
        ----------
        w : ndarray of shape (n_coef,)
            The last one.
        direction : ndarray of shape (n_coef,)
            Uphill there, as released.
        noise : float
            Standard deviation of each of its entries.
        """
        if self._base is not None:
            start, before = self._base
            move, change = w - start, direction - before
            sure = SURE * noise * float(np.linalg.norm(move))
            if float(move @ change) > sure:
                self._moves.append(move)
                self._changes.append(change)
            uphill, downhill = float(move @ direction), -float(move @ before)
            if downhill > 0.0 and uphill > max(OVERSHOT * downhill, sure):
                # As far as the slope would be 0 if it were linear between.
                return start + max(downhill / (downhill + uphill), LEAST_PART) * move
        self._base = w, direction
        return w - self._newton(direction)

    def _newton(self, direction: FloatArray) -> FloatArray:
        """The inverse curvature times a direction, by the two-loop recursion."""
        if not self._moves:
            size = float(np.linalg.norm(direction))
            move = direction * (self.length / size) if size else direction
            self.length = min(2.0 * self.length, self.most)
            return move
        pairs = [(s, y, float(s @ y)) for s, y in zip(self._moves, self._changes, strict=True)]
        result, parts = direction, []
        for s, y, curvature in reversed(pairs):
            parts.append(float(s @ result) / curvature)
            result = result - parts[-1] * y
        s, y, curvature = pairs[-1]
        result = result * (curvature / float(y @ y))
        for (s, y, curvature), part in zip(pairs, reversed(parts), strict=True):
            result = result + (part - float(y @ result) / curvature) * s
        return result
