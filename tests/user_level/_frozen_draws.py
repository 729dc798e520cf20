"""A tape for tests of mechanisms: no noise, public choices, and a record of every draw."""

from __future__ import annotations

import numpy as np


class FrozenDraws:
    """Returns statistics without noise; selections and tosses depend on nothing but the seed and the public numbers.

    A selection takes a uniform member of the line of candidates (categories with a multiplicity are runs of it), so
    that two neighbouring data sets get the same one.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.draws: list = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        if draw.kind == "toss":
            return int(self.rng.integers(draw.options["below"]))
        if draw.kind != "select":
            return np.asarray(draw.statistic, dtype=float) * (draw.step or 1.0)
        lengths = draw.options["multiplicity"]
        lengths = np.ones(len(draw.statistic), dtype=int) if lengths is None else lengths
        position = int(self.rng.integers(sum(int(length) for length in lengths)))
        category = 0
        while position >= lengths[category]:
            position -= int(lengths[category])
            category += 1
        return category, position

    def kinds(self, kind):
        """Draws of one kind."""
        return [draw for draw in self.draws if draw.kind == kind]
