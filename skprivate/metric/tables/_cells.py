"""Cells of a column: fine ones that numbers and gaps are counted and decoded in, and coarser bins of them.

All of it is public or released; no private row is looked at here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skprivate.privacy import draws
from skprivate.privacy.noise import FloatArray, IntArray

#: Magnitudes of numbers: cells at ±2^e that end at ¾ and 3/2 of that, and one at 0.
OCTAVES = draws.Grid(0)
N_OCTAVES = 2 * OCTAVES.last + 1
#: Quantile bins of numbers, fine cells in each of them, cells of an octave of the tails beyond.
N_BINS, PER_BIN, PER_OCTAVE = 16, 4, 4
#: Octaves of a tail, in steps or in 1/256 of the distance of the outer quantiles; most bins made of a tail.
_TAIL_OCTAVES, _TAIL_BINS = 24, 8
#: Noise that an octave beside one that is seen must exceed.
_BESIDE = 3.0
#: Most fine cells of a column of numbers, gap included, by these constants.
MOST_CELLS = 2 * (PER_BIN * 2 * N_BINS + PER_OCTAVE * _TAIL_OCTAVES + 2)
#: Most bins of a column: of a list of more values the rarest are one bin.
MOST_BINS = 64
#: A bin of a tail holds this share of the rows at least, and a bin of a target of numbers that of `TARGET_BINS`.
_TAIL_SHARE, TARGET_BINS = 1 / 80, 8


@dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """Public facts of a column: the number of listed values, or limits and the steps that numbers may have.

    ``n_values`` is 0 for numbers, and the most that there may be where values are ``found`` privately. ``bounds`` is
    None where magnitudes are. ``steps`` are sorted, the widest first.
    """

    n_values: int = 0
    found: bool = False
    bounds: tuple[float, float] | None = None
    steps: tuple[float, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.n_values == 0

    @property
    def most_cells(self) -> int:
        """Bound the number of fine cells."""
        return MOST_CELLS if self.is_number else self.n_values + 1

    @property
    def range_cells(self) -> int:
        """Count the cells of the first draw: steps of numbers and, without limits, magnitudes."""
        return len(self.steps) + 1 + N_OCTAVES * (self.bounds is None) if self.is_number else 0


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Fine cells of a column, with one for gaps at the end, and the bin of each.

    Numbers x with ``edges[k] ≤ x < edges[k+1]`` are in cell k, those beyond in the outermost ones; codes of listed
    values are cells (no ``edges``). ``tail`` is −1 and 1 for cells below and above all quantiles. ``step`` is that of
    the numbers, 0 for none.
    """

    edges: FloatArray
    bins: IntArray
    tail: IntArray
    step: float = 0.0

    @property
    def n_cells(self) -> int:
        return len(self.bins)

    @property
    def n_bins(self) -> int:
        return int(self.bins.max()) + 1

    def limited(self, low: float, high: float) -> Cells:
        """Cut the cells at limits, which are multiples of the step."""
        return replace(self, edges=np.clip(self.edges, low - 0.5 * self.step, high + 0.5 * self.step))

    def code(self, values: FloatArray) -> IntArray:
        """Find the cell of each number, or code of a listed value; NaN is a gap."""
        gap = np.isnan(values)
        if not self.edges.size:
            return np.where(gap, self.n_cells - 1, values).astype(np.int64)
        found = np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, self.n_cells - 2)
        return np.where(gap, self.n_cells - 1, found)

    def decode(self, cells: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw a number in each cell, or return the code of its value; NaN for a gap."""
        gap = cells == self.n_cells - 1
        if not self.edges.size:
            return np.where(gap, np.nan, cells)
        cells = np.where(gap, 0, cells)
        low, high = self.edges[cells], self.edges[cells + 1]
        values = low + (high - low) * rng.random(len(cells))
        if self.step:
            values = on_steps(values, self.step)
        return np.where(gap, np.nan, values)


def on_steps(values: FloatArray, step: float) -> FloatArray:
    """Round to multiples of a step, in the form in which decimal numbers are written."""
    if step < 1:
        per_one = round(1 / step)
        return np.rint(values * per_one) / per_one + 0.0  # no −0
    return np.rint(values / step) * step + 0.0


def seen_range(counts: FloatArray, noise: float, threshold: float) -> tuple[float, float] | None:
    """Find the range of 0 and the octaves whose released counts exceed a threshold; None if there is none.

    Next to these, octaves count that exceed `_BESIDE` times the noise: at worst the range is twice as wide.
    """
    seen = np.flatnonzero(counts > threshold)
    if not seen.size:
        return None
    first, last = int(seen[0]), int(seen[-1])
    while first > 0 and counts[first - 1] > _BESIDE * noise:
        first -= 1
    while last < len(counts) - 1 and counts[last + 1] > _BESIDE * noise:
        last += 1
    low, high = OCTAVES.value(first - OCTAVES.last), OCTAVES.value(last - OCTAVES.last)
    return 1.5 * min(low, 0.0), 1.5 * max(high, 0.0)


def list_cells(n_values: int) -> Cells:
    """Make the cells of a list of values, each a bin."""
    nowhere = np.zeros(n_values + 1, dtype=np.int64)
    return Cells(edges=np.empty(0), bins=np.arange(n_values + 1), tail=nowhere)


def number_cells(quantiles: FloatArray, within: tuple[float, float], step: float) -> Cells:
    """Make fine cells around released quantiles, within a range; what repeats is an atom with a bin of its own."""
    if step:
        quantiles = on_steps(quantiles, step)
    found, times = np.unique(quantiles, return_counts=True)
    atoms = found[times > 1]
    half = 0.5 * step or np.maximum(np.abs(atoms), within[1] - within[0]) * 2.0**-40
    cuts = np.unique(np.concatenate([found + 0.5 * step if step else found, atoms - half, atoms + half]))
    low, high = within
    if step:
        low, high = float(on_steps(np.array([low]), step)[0]), float(on_steps(np.array([high]), step)[0])
    low, high = min(low - 0.5 * step, cuts[0]), max(high + 0.5 * step, cuts[-1])
    inner = np.concatenate([np.linspace(a, b, PER_BIN + 1)[:-1] for a, b in itertools.pairwise(cuts)] + [cuts[-1:]])
    unit = step or np.ptp(cuts) / 256 or (high - low) / 256 or 1.0
    distances = unit * 2.0 ** (np.arange(PER_OCTAVE * _TAIL_OCTAVES + 1) / PER_OCTAVE)
    edges = np.concatenate([[low], cuts[0] - distances[::-1], inner, cuts[-1] + distances, [high]])
    if step:
        edges = (np.floor(edges / step + 2.0**-20) + 0.5) * step
    edges = np.unique(np.clip(edges, low, high))
    if len(edges) == 1:
        edges = np.array([edges[0], np.nextafter(edges[0], np.inf)])
    middles = 0.5 * (edges[1:] + edges[:-1])
    bins = np.append(np.searchsorted(cuts, middles, side="right"), 0)
    tail = np.where(bins == 0, -1, np.where(bins == len(cuts), 1, 0))
    tail[-1] = 0
    bins[-1] = bins.max() + 1
    return Cells(edges=edges, bins=bins, tail=tail, step=step)


def constant_cells() -> Cells:
    """Make the cell of a column without a magnitude that is seen: 0."""
    return Cells(edges=np.array([-0.5, 0.5]), bins=np.array([0, 1]), tail=np.array([0, 0]), step=1.0)


def merge_rare(cells: Cells, counts: FloatArray, n_rows: float, least: float, *, target: bool) -> Cells:
    """Merge bins until each holds about ``least`` released rows, and those of tails their share."""
    gap_seen = counts[-1] >= least
    if not cells.edges.size:
        common = np.argsort(-counts[:-1], kind="stable")[: MOST_BINS - 2]
        kept = common if target else common[counts[common] >= least]
        bins = np.full(cells.n_cells, cells.n_cells)
        bins[kept] = kept
    else:
        share = n_rows / TARGET_BINS if target else 0.0
        bins = _merged_numbers(cells, counts, max(least, share), max(least, share, n_rows * _TAIL_SHARE))
    bins[-1] = bins[:-1].max() + 1 if gap_seen else bins[:-1].max()
    return Cells(edges=cells.edges, bins=np.unique(bins, return_inverse=True)[1], tail=cells.tail, step=cells.step)


def _merged_numbers(cells: Cells, counts: FloatArray, least: float, of_tail: float) -> IntArray:
    """Number bins of cells in the order of their values: those of tails from the middle outwards."""
    bins = np.zeros(cells.n_cells, dtype=np.int64)
    below, above = (np.flatnonzero(cells.tail == side) for side in (-1, 1))
    middle = np.flatnonzero(cells.tail[:-1] == 0)
    groups = np.split(middle, np.flatnonzero(np.diff(cells.bins[middle])) + 1) if middle.size else []
    for n, part in enumerate(_groups(groups, counts, least)):
        bins[part] = n
    last = int(bins.max())
    for n, part in enumerate(_groups(list(above[:, None]), counts, of_tail)):
        bins[part] = last + 1 + min(n, _TAIL_BINS - 1)
    for n, part in enumerate(_groups(list(below[::-1, None]), counts, of_tail)):
        bins[part] = -1 - min(n, _TAIL_BINS - 1)
    bins[-1] = 0
    bins -= bins.min()
    return bins


def empty_tails(cells: Cells, counts: FloatArray, noise: float, deviations: float) -> FloatArray:
    """Empty the cells of tails that noise explains: counts below some deviations.

    Cells between two that stay are taken together, from the middle outwards, until noise does not explain their sum,
    which they share.
    """
    found = counts.copy()
    for side in (-1, 1):
        waiting: list[int] = []
        for k in np.flatnonzero(cells.tail == side)[::side].tolist():
            alone = counts[k] >= deviations * noise
            waiting = [] if alone else [*waiting, k]
            if waiting and counts[waiting].sum() >= deviations * noise * len(waiting) ** 0.5:
                found[waiting] = counts[waiting].sum() / len(waiting)
                waiting = []
            elif not alone:
                found[k] = 0.0
    return found


def _groups(parts: Sequence[IntArray], counts: FloatArray, least: float) -> list[IntArray]:
    """Put neighbouring parts together until each group has ``least``; the last one takes what is left."""
    found: list[list[IntArray]] = []
    total, left = np.inf, sum(float(counts[part].sum()) for part in parts)
    for part in parts:
        if total >= least and (left >= least or not found):
            found.append([])
            total = 0.0
        found[-1].append(part)
        own = float(counts[part].sum())
        total, left = total + own, left - own
    return [np.concatenate(group) for group in found]
