"""A tape for tests of mechanisms: no noise, public choices, and a record of every draw."""

from __future__ import annotations

import numpy as np


class FrozenDraws:
    """Returns statistics without noise; choices depend on nothing but the seed and public numbers.

    A selection takes a uniform member of the line of candidates (categories with a multiplicity are runs of it), so
    that two neighbouring data sets get the same one.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.draws: list = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        if draw.kind == "repetitions":
            return self.rng.integers(len(draw.options["plans"]), size=5).tolist()
        if draw.kind != "select":
            return np.asarray(draw.statistic, dtype=float) * (draw.step or 1.0)
        lengths = draw.options["multiplicity"]
        if lengths is None:
            return int(self.rng.integers(len(draw.statistic)))
        position = int(self.rng.integers(sum(int(length) for length in lengths)))
        if draw.options["located"]:
            return position
        category = 0
        while position >= lengths[category]:
            position -= int(lengths[category])
            category += 1
        return category, position

    def kinds(self, kind):
        """Draws of one kind."""
        return [draw for draw in self.draws if draw.kind == kind]
