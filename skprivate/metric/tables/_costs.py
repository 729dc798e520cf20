"""Split the budget of a table: one noise for each stage, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from skprivate.metric.tables._cells import N_BINS, ColumnSpec
from skprivate.privacy import BoundedRangeEvent, Events, GaussianEvent, PrivacyEvent, compose_epsilon, draws

#: Shares of the squared noise precision: values that nobody listed, magnitudes, quantiles, fine counts, tables with
#: the target, selections, the tables of the tree and those of the rounds.
_SHARES = {
    "values": 0.06,
    "ranges": 0.015,
    "bins": 0.04,
    "cells": 0.14,
    "pairs": 0.14,
    "choices": 0.12,
    "tree": 0.28,
    "rounds": 0.27,
}
#: Most cells of a table, and most rounds.
MOST_TABLE, MOST_ROUNDS = 8192, 16
_LEVELS = draws.quantile_levels(N_BINS)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Equal draws: how many, how many numbers each has at most, ε of a selection or the multiplier of noise.

    ``threshold_delta`` is that of a draw that finds values.
    """

    times: int
    size: int
    level: float
    threshold_delta: float | None = None

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        if not self.times:
            return []
        if self.threshold_delta is not None:
            hidden = self.threshold_delta
            return list(draws.count_events_of("gaussian", self.level, size=self.size, threshold_delta=hidden).items())
        return [(GaussianEvent(self.level, self.size) if self.size else BoundedRangeEvent(self.level), self.times)]


@lru_cache(maxsize=256)
def stages_of(columns: tuple[ColumnSpec, ...], target: int | None, epsilon: float, delta: float) -> dict[str, Stage]:
    """Find the stages whose composed cost is just within the budget."""
    numbers, n = [column for column in columns if column.is_number], len(columns)
    others = n if target is None else n - 1
    pairs = others * (others - 1) // 2
    n_tables = pairs if target is None else 2 * pairs + others
    n_tree, n_rounds = max(others - 1, 0), min(MOST_ROUNDS, n_tables)
    n_found = sum(column.found for column in columns)
    shapes = {
        "values": (min(n_found, 1), 2 * n_found),
        "ranges": (min(len(numbers), 1), sum(column.range_cells for column in columns)),
        "bins": (len(numbers) * _LEVELS, 0),
        "cells": (1, sum(column.most_cells for column in columns)),
        "pairs": (int(target is not None and others > 0), others * MOST_TABLE),
        "choices": (n_tree + n_rounds, 0),
        "tree": (n_tree, MOST_TABLE),
        "rounds": (n_rounds, MOST_TABLE),
    }
    shares = {name: _SHARES[name] for name, (times, _) in shapes.items() if times}
    whole = sum(shares.values())

    def stages(scale: float) -> dict[str, Stage]:
        found = {}
        for name, (times, size) in shapes.items():
            each = scale * math.sqrt(shares.get(name, 0.0) / whole / max(times, 1))
            # A selection of ε composes like noise of the multiplier 2/ε.
            level = 0.0 if not each else 1 / each if size else 2 * each
            hidden = draws.THRESHOLD_PART * delta if name == "values" else None
            found[name] = Stage(times=times, size=size, level=level, threshold_delta=hidden)
        return found

    low, high = 1e-9, 2.0 * (1.0 + epsilon)
    for _ in range(60):
        middle = math.sqrt(low * high)
        if compose_epsilon(events_of(stages(middle)), delta) <= epsilon:
            low = middle
        else:
            high = middle
        if high < low * (1 + 1e-6):
            break
    return stages(low)


def events_of(stages: dict[str, Stage]) -> Events:
    """List what all stages cost."""
    return [event for stage in stages.values() for event in stage.events]
