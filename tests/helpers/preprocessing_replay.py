"""Runs a fit again with the released values frozen, and compares what was drawn."""

from fractions import Fraction

import numpy as np

from skprivate.privacy._events import run_tape


class Recording:
    """Keeps draws; replays results."""

    def __init__(self, results=None):
        self.draws, self.results, self._given = [], [], results

    def draw(self, draw, sample):
        self.draws.append(draw)
        self.results.append(sample() if self._given is None else self._given[len(self.draws) - 1])
        return self.results[-1]


def fit_twice(make, first, second):
    """Draws of a fit on ``first`` and of one on ``second`` that gets the same results."""
    tapes, results = [], None
    for X, user_ids in (first, second):
        tapes.append(Recording(results))
        with run_tape(tapes[-1]):
            make().fit(X, user_ids=user_ids)
        results = tapes[0].results
    return tapes[0].draws, tapes[1].draws


def scores(draw):
    """Ends of runs and their scores."""
    counts = draw.options.get("multiplicity")
    if counts is None:
        counts = np.ones(draw.statistic.size, dtype=np.int64)
    return np.cumsum(np.array(counts, dtype=object)), draw.statistic


def share(a, b):
    """Change of the statistic of two draws in units of the sensitivity, exactly."""
    assert (a.kind, a.sensitivity, a.events, a.step, a.norm) == (b.kind, b.sensitivity, b.events, b.step, b.norm)
    if a.kind.startswith("select"):
        (ends, first), (other_ends, second) = scores(a), scores(b)
        assert ends[-1] == other_ends[-1]
        points = sorted({*ends.tolist(), *other_ends.tolist()})
        i, j = np.searchsorted(ends, points), np.searchsorted(other_ends, points)
        steps = [int(y) - int(x) for x, y in zip(first[i], second[j], strict=True)]
        if a.options["monotone"]:
            assert not min(steps) < 0 < max(steps)
        return Fraction(max(map(abs, steps))) / Fraction(a.sensitivity)
    steps = [int(y) - int(x) for x, y in zip(np.ravel(a.statistic), np.ravel(b.statistic), strict=True)]
    if a.norm == "l1":
        return Fraction(sum(map(abs, steps))) / Fraction(a.sensitivity)
    square = Fraction(sum(step * step for step in steps)) / Fraction(a.sensitivity) ** 2
    return Fraction(1) if square == 1 else Fraction(float(square) ** 0.5) if square < 1 else square
