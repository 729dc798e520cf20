"""Coarse centres and scales of many columns at once, by a few joint histograms that zoom in.

A selection for each column costs in proportion to the square of the logarithm of its candidates. Counts of all columns
in one vector, with Gaussian noise, cost in proportion to that logarithm, and logarithms of likelihoods add up over
columns that are alike.

The first histogram has cells of `FOLD` octaves of magnitude. The next has cells of equal width up to that magnitude on
both sides of 0. A third looks within the cell of those columns that are in one cell almost entirely. Then all columns
are refined once, and at last those that are still narrow, such as degrees of longitude in a town.

A selection misses what fewer than a share β of the users have, such as a rare category. The mean square of the distance
to the centre shows it as soon as noise allows, and one sum over all such columns costs little, because a row has few
rare values at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skprivate.partitions import Partitions
from skprivate.privacy import (
    CONTRIBUTION_BITS,
    CONTRIBUTION_STEP,
    Adjacency,
    GaussianEvent,
    PrivacyEvent,
    ball_contributions,
    exact_sum,
    upper_root,
)
from skprivate.privacy.draws import OCTAVES, UNIT_WEIGHT, Grid, WeightedCells, reach_costs
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Octaves of a cell of the first histogram, and where its cells end.
FOLD = 3
MAGNITUDES: FloatArray = 2.0 ** (FOLD * np.arange(-20.0, 22.0) - 1.5)
#: Cells of the other histograms, number of the one that refines all columns, and division of the budget. A single
#: column, the target, is refined four times, because an error costs more there.
CELLS = (8, 24, 24, 24)
REFINED_ROUND = 2
PARTS = (0.3, 0.25, 0.12, 0.25, 0.08)
PARTS_OF_ONE = (0.3, 0.25, 0.2, 0.25)
#: Candidate deviations in cells; the first is that of numbers within one cell.
DEVIATIONS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Largest deviation that counts as narrow: about an edge these are the same.
NARROW_DEVIATION = 0.5
#: Chance from which a column counts as narrow, before and after all have been refined.
NARROW_CHANCE, REFINED_CHANCE = 0.5, 0.95
#: Half length of the next histogram about a centre, in cells, for narrow columns.
ZOOM = 1.25
#: The same for the others, in scales.
REFINED_WIDTH = 6.0
#: Part of the prior that columns do not share, and iterations towards the shared one.
OWN_PRIOR, SHARED_STEPS = 0.1, 8
#: ρ n² for each column: below the first most columns are missed, above the second hardly one is.
LEAST_SIGNAL, ENOUGH_SIGNAL = 100.0, 200.0
#: Log-likelihood ratio that rejects centre 0 and deviations of about 1, and these deviations.
LEAST_EVIDENCE, UNIT_DEVIATIONS = 6.0, (0.7, 1.0, 1.4)
#: Centres and deviations that pass for 0 and 1: targets are not normal.
STANDARD_CENTRE, STANDARD_DEVIATIONS = 1.5, (0.25, 3.0)
#: Share of the budget that hardly matters; more is spent where it is needed.
LEAST_SHARE = 0.08


class Shapes(NamedTuple):
    """Hypotheses about a first histogram: shares of its cells, and the distance from 0 that holds about all numbers."""

    shares: FloatArray
    deviations: FloatArray


class Histogram(NamedTuple):
    """Noisy shares of the users in the cells between edges, and beyond them: one row a column."""

    edges: FloatArray
    shares: FloatArray
    noise: float
    sought: npt.NDArray[np.bool_]
    folded: bool

    def support(self, expected: FloatArray, column: int | slice = slice(None)) -> FloatArray:
        """Compute the log-likelihood of expected shares, up to a constant of each column."""
        gain: FloatArray = self.shares[column] @ expected.T - 0.5 * (expected**2).sum(axis=1)
        return gain / self.noise**2

    def of(self, column: int, centres: FloatArray, deviations: FloatArray) -> FloatArray:
        """Compute the log-likelihood of normal numbers with these centres and deviations."""
        if not self.sought[column]:
            return np.zeros(len(centres))
        return self.support(_normal(self.edges[column], centres, deviations, self.folded), column)


@dataclass(frozen=True)
class ColumnSearch:
    """Joint histograms of all columns, for a public number of users and a share of the budget (in zCDP).

    Unless ``centred``, centres are 0 and scales are distances from there. With ``assume_standard`` a column that
    may well have centre 0 and deviation 1 is taken to have them.
    """

    terms: Terms
    n_columns: int
    centred: bool
    share: float
    assume_standard: bool = False

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Noise multipliers of the histograms."""
        return tuple(self.terms.multiplier / math.sqrt(self.share * part) for part in self._parts)

    @property
    def _parts(self) -> tuple[float, ...]:
        return PARTS_OF_ONE if self.assume_standard else PARTS

    @property
    def _cells(self) -> tuple[int, ...]:
        return CELLS[: len(self._parts) - 1]

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """All draws of `run`."""
        cells = (len(MAGNITUDES) + 1, *(count + 2 for count in self._cells))
        return [
            (GaussianEvent(multiplier, self.n_columns * count), 1)
            for multiplier, count in zip(self.multipliers, cells, strict=True)
        ]

    def run(self, rows: Partitions, release: Any) -> tuple[FloatArray, FloatArray]:
        """Release centres and scales of the columns; the scale of a column that is 0 for most users is 0."""
        d = self.n_columns
        sought = np.ones(d, dtype=bool)
        edges = np.broadcast_to(MAGNITUDES, (d, len(MAGNITUDES)))
        seen = [self._histogram(rows, edges, sought, 0, release)]
        shapes = _magnitudes()
        support = seen[0].support(shapes.shares)
        best = _posterior(support, np.ones(support.shape[1])).argmax(axis=1)
        middles, halves, scales = np.zeros(d), shapes.deviations[best], np.zeros(d)
        sought = halves > 0.0
        for k, count in enumerate(self._cells):
            if k == REFINED_ROUND:
                sought = halves > 0.0
            edges = middles[:, None] + halves[:, None] * np.linspace(-1.0, 1.0, count + 1)
            seen.append(self._histogram(rows, edges, sought, k + 1, release))
            chosen = np.flatnonzero(sought)
            if not len(chosen):
                continue
            widths = 2.0 * halves[chosen] / count
            centres, deviations = _hypotheses(count)
            support = np.array(
                [
                    np.sum(
                        [each.of(j, middle + width * centres, width * deviations) for each in seen], axis=0
                    )
                    for j, middle, width in zip(chosen.tolist(), middles[chosen], widths, strict=True)
                ]
            )
            narrow = deviations <= NARROW_DEVIATION
            likely = ~narrow & (np.abs(centres) <= 0.5 * deviations) if k == 0 else ~narrow
            chances = _posterior(support, np.where(likely, 1.0 / likely.sum(), 1.0 / (~likely).sum()))
            within = chances[:, narrow].sum(axis=1) > (NARROW_CHANCE if k < REFINED_ROUND else REFINED_CHANCE)
            # Average over the likelier kind alone: values between the two kinds are neither.
            chances[within[:, None] != narrow] = 0.0
            chances /= chances.sum(axis=1, keepdims=True)
            middles[chosen] += widths * (chances @ centres)
            scales[chosen] = widths * np.exp2(chances @ np.log2(deviations))
            halves[chosen] = np.where(within, ZOOM * widths, REFINED_WIDTH * scales[chosen])
            sought[chosen] = within
        if self.assume_standard:
            kept = ~_rejects_standard(seen, middles, scales)
            middles[kept], scales[kept] = 0.0, 1.0
        return (middles, scales) if self.centred else (np.zeros(d), np.hypot(middles, scales))

    @property
    def _root(self) -> float:
        """ℓ2 sensitivity where a user's vector has norm 1.

        Shares are not negative, so the vectors of two users are at no obtuse angle: exchanging one for the other moves
        the sum by √2 at most, adding or removing one by 1.
        """
        return upper_root(2) if self.terms.adjacency is Adjacency.REPLACE_ONE else 1.0

    def _histogram(
        self, rows: Partitions, edges: FloatArray, sought: npt.NDArray[np.bool_], k: int, release: Any
    ) -> Histogram:
        """Release the shares of the users in the cells of the sought columns.

        A user contributes non-negative integers that add up to `total` in a column, so they have that norm at most. All
        columns together have norm 2³⁰ steps, whatever their number is: the sensitivity is the same in every case.
        """
        n_sought = int(sought.sum())
        total = math.isqrt((1 << 2 * CONTRIBUTION_BITS) // max(n_sought, 1))
        counts = rows.sum(partial(_counts, edges=edges, sought=sought, total=total, folded=k == 0))
        noisy = release.gaussian(
            counts.ravel(),
            sensitivity=self._root / CONTRIBUTION_STEP,
            noise_multiplier=self.multipliers[k],
            step=CONTRIBUTION_STEP,
        )
        unit = float(self.terms.n_users or 1) * total * CONTRIBUTION_STEP
        shares = np.asarray(noisy, dtype=np.float64).reshape(counts.shape) / unit
        return Histogram(edges, shares, self.multipliers[k] * self._root / unit, sought, k == 0)


def plan_search(
    terms: Terms,
    *,
    n_columns: int,
    centred: bool,
    most: float,
    assume_standard: bool = False,
) -> ColumnSearch | None:
    """Plan a search for at most this share of the budget; None where that shows too little."""
    if terms.n_users is None:
        return None
    factor = 1.0 if terms.adjacency is Adjacency.REPLACE_ONE else 0.5
    # The share at which ρ n² for each column is 1.
    one = factor * n_columns / (terms.rho * float(terms.n_users) ** 2)
    if LEAST_SIGNAL * one > most:
        return None
    return ColumnSearch(
        terms, n_columns, centred, min(most, max(LEAST_SHARE, ENOUGH_SIGNAL * one)), assume_standard
    )


def _counts(
    data: UserData, edges: FloatArray, sought: npt.NDArray[np.bool_], total: int, folded: bool
) -> IntArray:
    """Sum over users the shares of their rows, by cell: shape (n_columns, n_cells).

    The i-th of a user's m rows has ⌊(i+1)·total/m⌋ − ⌊i·total/m⌋, in their own order: they add up to the total.
    """
    groups, n_cells = data.groups, edges.shape[1] + 1
    counts = np.zeros((len(edges), n_cells), dtype=np.int64)
    for users, rows in groups.blocks():
        sizes = groups.sizes[users]
        begins = groups.starts[users] - rows.start
        place = np.arange(rows.stop - rows.start, dtype=np.int64) - np.repeat(begins, sizes)
        size = np.repeat(sizes, sizes)
        # At most 2⁶¹ for up to 2³¹ rows of a user; sums of a block stay below 2⁵³ and are exact.
        weights = (place + 1) * total // size - place * total // size
        for j in np.flatnonzero(sought).tolist():
            column = data.X[rows, j]
            cells = np.searchsorted(edges[j], np.abs(column) if folded else column)
            counts[j] += np.bincount(cells, weights, minlength=n_cells).astype(np.int64)
    return counts


def _posterior(support: FloatArray, prior: FloatArray) -> FloatArray:
    """Compute chances of the hypotheses for each column; columns tend to be alike, so they share a prior."""
    likelihood = np.exp(support - support.max(axis=1, keepdims=True))
    own = prior / prior.sum()
    shared = own
    for _ in range(SHARED_STEPS):
        chances = likelihood * shared
        chances /= chances.sum(axis=1, keepdims=True)
        shared = OWN_PRIOR * own + (1.0 - OWN_PRIOR) * chances.mean(axis=0)
    chances = likelihood * shared
    result: FloatArray = chances / chances.sum(axis=1, keepdims=True)
    return result


def _rejects_standard(
    seen: list[Histogram], centres: FloatArray, deviations: FloatArray
) -> npt.NDArray[np.bool_]:
    """Mark columns whose histograms reject centre 0 and deviations of about 1."""
    result: npt.NDArray[np.bool_] = deviations == 0.0  # hardly a number is another than 0
    near = (
        (np.abs(centres) <= STANDARD_CENTRE)
        & (STANDARD_DEVIATIONS[0] <= deviations)
        & (deviations <= STANDARD_DEVIATIONS[1])
    )
    for j in np.flatnonzero(~(result | near)).tolist():
        at = (
            np.array([0.0] * len(UNIT_DEVIATIONS) + [centres[j]]),
            np.array([*UNIT_DEVIATIONS, deviations[j]]),
        )
        support = np.sum([each.of(j, *at) for each in seen], axis=0)
        result[j] = support[-1] > support[:-1].max() + LEAST_EVIDENCE
    return result


def _normal(edges: FloatArray, centres: FloatArray, deviations: FloatArray, folded: bool) -> FloatArray:
    """Compute shares of normal numbers, or of their magnitudes, in cells: one row a centre."""
    below = ndtr((edges - centres[:, None]) / deviations[:, None])
    if folded:
        below -= ndtr((-edges - centres[:, None]) / deviations[:, None])
    ends = np.zeros((len(below), 1))
    return np.diff(np.hstack([ends, below, ends + 1.0]), axis=1)


def _hypotheses(count: int) -> tuple[FloatArray, FloatArray]:
    """List centres and deviations about the middle of ``count`` cells of width 1."""
    pairs = [
        (centre, deviation)
        for deviation in DEVIATIONS
        if 3.0 * deviation <= count
        for centre in np.arange(-0.5 * count, 0.5 * count + 0.25, max(0.5, 0.5 * deviation))
    ]
    centres, deviations = np.array(pairs).T
    return centres, deviations


def _magnitudes() -> Shapes:
    """List shapes of orders of magnitude: normal numbers about 0, one cell, two cells, half zeros, and zeros."""
    tops = MAGNITUDES[1:]
    deviations = np.exp2(np.arange(-1.0, 2.0) + FOLD * np.arange(-20.0, 21.0)[:, None]).ravel()
    one = np.eye(len(MAGNITUDES) + 1)
    shares = [_normal(MAGNITUDES, np.zeros(len(deviations)), deviations, folded=True), one[1:-1]]
    shares += [0.5 * (one[:1] + one[1:-1]), 0.5 * (one[1:-2] + one[2:-1]), one[:1]]
    distances = [2.5 * deviations, tops, tops, 2.0 * tops[:-1], np.zeros(1)]
    return Shapes(np.concatenate(shares), np.concatenate(distances))


#: Distances up to these, in units of the centre and in the column's own, count as 0. About the centre of a column that
#: is mostly one value, all distances are errors of the grid. And where about as many users as are sought have another
#: value than 0, every number between the two is as good a distance.
LEAST_RELATIVE, LEAST_DISTANCE = 2.0**-17, 2.0**-30
#: A priori the next larger distance is e^−DECAY times as likely.
DECAY = 1.0 / 24.0
#: A priori a distance k octaves from a released one, or from 1, is as likely as this power of 1 + k.
PRIOR_TAIL = 1.5
#: Largest number of users in targets and penalties: sums of costs stay far from overflow.
_MANY = 2.0**40


def last_zero_cell(centre: float, grid: Grid = OCTAVES) -> int:
    """Return the last cell of distances that count as 0 about this centre."""
    return int(grid.cells(np.array([max(LEAST_DISTANCE, LEAST_RELATIVE * abs(centre))]))[0])


def select_distance(
    cells: IntArray,
    least: int,
    n_beyond: float,
    epsilon: float,
    release: Any,
    known: list[int] | None = None,
    grid: Grid = OCTAVES,
) -> float:
    """Select the distance that ``n_beyond`` users exceed, from the users in each cell; 0 if in ``least`` or below.

    All cells up to ``least`` are one candidate. Distances near ``known`` ones, released cells, are likelier a priori:
    columns tend to be alike, and one that is not loses no more than by a prior of all scales. Without them a smaller
    distance is likelier than a larger one.
    """
    finer = 2.0 ** (grid.bits - OCTAVES.bits)
    counts = np.concatenate([cells[: least + 1].sum(keepdims=True), cells[least + 1 :]])
    occupied = np.flatnonzero(counts)
    scale = min(2.0 / epsilon, _MANY / grid.last) * UNIT_WEIGHT
    costs = reach_costs(
        WeightedCells(occupied, counts[occupied] * UNIT_WEIGHT),
        target=math.ceil(min(n_beyond, _MANY) * UNIT_WEIGHT),
        penalty=0 if known else math.ceil(DECAY / finer * scale),
        grid=grid,
    )
    if known:
        steps = np.abs(np.subtract.outer(np.arange(1, len(costs)) + least, known)) / finer
        likelihood = np.mean((1.0 + steps) ** -PRIOR_TAIL, axis=1)
        costs[1:] += np.ceil(-np.log(likelihood) * scale).astype(np.int64)
    # A positive distance is as likely as on the coarsest grid, however many there are to choose from.
    costs[1:] += math.ceil(math.log(finer) * scale)
    chosen = int(release.select(-costs[: len(counts)], sensitivity=UNIT_WEIGHT, epsilon=epsilon))
    return grid.value(least + chosen) if chosen else 0.0


#: Part of the price that decides the worst case, where the number of users is private. Usual columns need few digits
#: for their centres, and one that fails is clipped.
LEAST_PRICE = 0.45
#: Largest and smallest part of the users beyond a selected distance; the fewer, the larger the cost.
MOST_BEYOND, LEAST_BEYOND = 0.35, 0.01
#: Logarithms of the numbers of candidates, and of the chance that a selection fails.
MEDIAN_CANDIDATES = math.log(5 * 2 * 128 * 256)
LOG_MISS = 9.0
DISTANCE_CANDIDATES = math.log(1.0 / DECAY) + LOG_MISS


def median_price(terms: Terms, n_users: float) -> float:
    factor = 2.0 if terms.adjacency is Adjacency.ADD_REMOVE else 4.0
    return factor * (MEDIAN_CANDIDATES + LOG_MISS) / max(n_users, 1.0)


def distance_price(beyond: float, n_users: float) -> float:
    return 2.0 * DISTANCE_CANDIDATES / (beyond * max(n_users, 1.0))


def share_beyond(price: float, n_users: float) -> float:
    """Return the smallest tail that this price distinguishes from nobody, or the largest that is used."""
    return min(2.0 * DISTANCE_CANDIDATES / (price * n_users), MOST_BEYOND)


#: Share of the budget (in zCDP).
RARE_SHARE = 0.03
#: Part of the largest possible rate of rare values that is assumed.
RATE_PART = 0.25
#: Noise of a mean square, for units of 1, up to which squares are summed over their whole range.
QUIET_NOISE = 0.01


def rare_scales(
    rows: Partitions,
    rare: npt.NDArray[np.bool_],
    most: float,
    largest: float = 1.0,
    *,
    multiplier: float,
    n_users: float,
    terms: Terms,
    release: Any,
) -> FloatArray:
    """Release root mean squares of the ``rare`` columns, at least one deviation of the noise; 1 for the others.

    Rows are centred and clipped: ``largest`` is the largest square, ``most`` the largest share of users that differ
    from the centre of such a column.
    """
    # The squares of rare values of unit size, each at the assumed rate, have about this norm together.
    radius = math.sqrt(max(1.0, RATE_PART * most * int(rare.sum())))
    # A rare column that was standardised has squares of one over its rate: clipped at 1 it would seem far too small.
    radius = max(radius, min(largest, QUIET_NOISE * n_users / (terms.sum_sensitivity * multiplier)))
    total = rows.sum(partial(_mean_squares, rare=rare, radius=radius))
    unit = radius / n_users
    squares = np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64) * unit
    least = min(1.0, terms.sum_sensitivity * multiplier * unit)
    return np.where(rare, np.sqrt(np.clip(squares, least, max(1.0, radius))), 1.0)


def _mean_squares(data: UserData, rare: npt.NDArray[np.bool_], radius: float) -> npt.NDArray[Any]:
    """Sum the users' mean squares of the rare columns, 0 for the others."""
    groups = data.groups
    total: npt.NDArray[Any] = np.zeros(len(rare), dtype=np.int64)
    for users, own in groups.blocks():
        values = np.zeros((len(rare), users.stop - users.start))
        columns = np.ascontiguousarray(data.X[own].T[rare])
        values[rare] = groups.block_means(columns * columns, users)
        total = total + exact_sum(ball_contributions(values, radius, weights=groups.weights[users]))
    return total
