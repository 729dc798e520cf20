"""Candidate rows: drawn along a tree of released tables, then weighted until their own tables are the released ones.

Raking takes the place of a graphical model. Weights of rows satisfy tables of any columns, in any number, at a cost of
one pass over the rows for each (Deming and Stephan 1940). Nothing here looks at private rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy.noise import FloatArray, IntArray

#: Columns of a table.
Clique: TypeAlias = tuple[int, ...]
#: Largest factor of a weight in one step, so that a noisy table cannot empty its rows.
_MOST_FACTOR = 5.0
#: Least rows of the model in a cell, for the prior of its noisy count.
_LEAST_MODEL = 1e-3


def posterior(model: FloatArray, noisy: FloatArray, noise: float) -> FloatArray:
    """Shrink noisy counts to those of a model, whose errors have variances in proportion to its counts.

    The factor follows from the released numbers, by the method of moments.
    """
    residual = noisy - model
    factor = max(0.0, float(np.sum(residual * residual - noise * noise)) / max(float(model.sum()), 1e-9))
    variance = factor * np.maximum(model, _LEAST_MODEL)
    found: FloatArray = np.maximum(model + residual * variance / (variance + noise * noise), 0.0)
    return found


@dataclass(frozen=True)
class Released:
    """Noisy counts of a table, and the standard deviation of their noise."""

    counts: FloatArray
    noise: float

    def with_other(self, other: Released) -> Released:
        """Average two releases of a table by their precision."""
        mine, theirs = self.noise**-2.0, other.noise**-2.0
        counts = (self.counts * mine + other.counts * theirs) / (mine + theirs)
        return Released(counts, (mine + theirs) ** -0.5)


def place(codes: NDArray[np.integer], sizes: tuple[int, ...], clique: Clique) -> IntArray:
    """Number the cell of each row in the table of some columns; ``codes`` have one line a column."""
    cells = np.zeros(codes.shape[1], dtype=np.int64)
    for j in clique:
        cells *= sizes[j]
        cells += codes[j]
    return cells


def weighted_counts(places: NDArray[np.integer], weights: FloatArray, size: int) -> FloatArray:
    """Sum weights by place."""
    return np.bincount(places, weights, size).astype(np.float64, copy=False)


@dataclass(eq=False)
class Candidates:
    """Rows of bins, of shape (n_columns, n_rows), and a weight of each, which sum to ``total``."""

    codes: NDArray[np.uint8]
    sizes: tuple[int, ...]
    total: float
    weights: FloatArray = field(init=False)
    _places: dict[Clique, NDArray[np.int32]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        n_rows = self.codes.shape[1]
        self.weights = np.full(n_rows, self.total / n_rows)

    def size(self, clique: Clique) -> int:
        return math.prod(self.sizes[j] for j in clique)

    def table(self, clique: Clique) -> FloatArray:
        """Sum the weights by the cells of a table."""
        return weighted_counts(place(self.codes, self.sizes, clique), self.weights, self.size(clique))

    def rake(self, released: dict[Clique, Released], sweeps: int) -> None:
        """Weight rows until their tables are what is known of the released ones."""
        for _ in range(sweeps):
            for clique, table in released.items():
                if clique not in self._places:
                    self._places[clique] = place(self.codes, self.sizes, clique).astype(np.int32)
                places = self._places[clique]
                model = weighted_counts(places, self.weights, self.size(clique))
                goal = posterior(model, table.counts.ravel(), table.noise)
                factor = np.divide(goal, model, out=np.ones_like(goal), where=model > 0)
                self.weights *= np.clip(factor, 1 / _MOST_FACTOR, _MOST_FACTOR)[places]
            self.weights *= self.total / self.weights.sum()


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Laws that candidate rows are drawn from: counts of each column, and tables of the pairs in a tree.

    ``pairs[a, b]`` has shape (n_a, n_b), or (n_a, n_b, n_target) with a ``target``; ``of_target[j]`` has shape (n_j,
    n_target).
    """

    single: list[FloatArray]
    target: int | None
    of_target: dict[int, FloatArray]
    pairs: dict[tuple[int, int], FloatArray]

    def given_target(self, j: int) -> FloatArray:
        """Compute the law of a column for each value of the target, of shape (n_target, n_j)."""
        counts = self.single[j][None] if self.target is None else self.of_target[j].T
        laws: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return laws

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draw rows column by column, each given the target and its neighbour in the tree."""
        codes = np.zeros((len(self.single), n_rows), dtype=np.uint8)
        near: dict[int, list[int]] = {j: [] for j in range(len(self.single))}
        for a, b in self.pairs:
            near[a].append(b)
            near[b].append(a)
        goal = np.zeros(n_rows, dtype=np.int64)
        done = set()
        if self.target is not None:
            goal = _draw(self.single[self.target][None], goal, rng)
            codes[self.target] = goal
            done.add(self.target)
        for root in near:
            if root in done:
                continue
            codes[root] = _draw(self.given_target(root), goal, rng)
            done.add(root)
            waiting = [root]
            while waiting:
                a = waiting.pop()
                for b in near[a]:
                    if b not in done:
                        codes[b] = self._draw_next(a, b, codes[a].astype(np.int64), goal, rng)
                        done.add(b)
                        waiting.append(b)
        return codes

    def _draw_next(self, a: int, b: int, parent: IntArray, goal: IntArray, rng: np.random.Generator) -> IntArray:
        table = self.pairs[a, b] if (a, b) in self.pairs else np.swapaxes(self.pairs[b, a], 0, 1)
        table = table[:, :, None] if table.ndim == 2 else table
        prior = 1e-6 * self.given_target(b)  # where nothing is left of a table
        laws = np.moveaxis(table, 1, 2) + prior[None]
        return _draw(laws.reshape(-1, table.shape[1]), parent * table.shape[2] + goal, rng)


def _draw(laws: FloatArray, which: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a value for each row by the line of ``laws`` that it names; lines need not sum to 1."""
    upto = np.cumsum(laws, axis=1)
    upto /= upto[:, -1:]
    # One sorted list of all lines: line k lies between k and k + 1.
    flat = (upto + np.arange(len(laws))[:, None]).ravel()
    found = np.searchsorted(flat, which + rng.random(len(which)), side="right") - which * laws.shape[1]
    values: IntArray = np.clip(found, 0, laws.shape[1] - 1)
    return values


def draw_cells(bins: IntArray, own: FloatArray, of: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a fine cell in the bin of each row, in proportion to the counts ``own`` of cells, whose bins are ``of``."""
    order = np.argsort(of, kind="stable")
    sizes = np.bincount(of)
    laws = np.zeros((len(sizes), int(sizes.max())))
    firsts = np.cumsum(sizes) - sizes
    laws[of[order], np.arange(len(order)) - firsts[of[order]]] = np.maximum(own[order], 1e-9)
    cells: IntArray = order[firsts[bins] + np.minimum(_draw(laws, bins, rng), sizes[bins] - 1)]
    return cells
