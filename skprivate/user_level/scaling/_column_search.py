"""Coarse centres and scales of many columns at once, by a few joint histograms that zoom in.

Counts of all columns in one vector, with Gaussian noise, cost in proportion to the logarithm of what is told apart, and
logarithms of likelihoods add up over columns that are alike.

The first histogram has cells of `FOLD` octaves of magnitude. The next has cells of equal width up to that magnitude on
both sides of 0. A third looks within the cell of those columns that are in one cell almost entirely. Then all columns
are refined once, and at last those that are still narrow, such as degrees of longitude in a town. A column whose own
cells are lost in noise is taken to be like most others.

Columns that are one value for most users, such as 0 in a rare category, have no scale. The mean square of the other
values shows it as soon as noise allows, and one sum over all such columns costs little, because a row has few rare
values at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skprivate import privacy
from skprivate.partitions import Partitions
from skprivate.privacy import Adjacency, GaussianEvent, PrivacyEvent, Release
from skprivate.user_level import _plan, _problems
from skprivate.user_level.scaling._frame import TARGET_RANGE

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
#: Public limits of a column.
Box: TypeAlias = tuple[float, float] | None

#: Octaves of a cell of the first histogram, and where its cells end.
FOLD = 3
MAGNITUDES: FloatArray = 2.0 ** (FOLD * np.arange(-20.0, 22.0) - 1.5)
#: Middles of its cells, on a logarithmic scale.
UNITS: FloatArray = np.exp2(FOLD * np.arange(-20.0, 21.0))
#: Cells of the other histograms, and division of the budget between all.
CELLS = (8, 24, 24, 24)
PARTS = (0.3, 0.25, 0.12, 0.25, 0.08)
#: Candidate deviations in cells; numbers within one cell have the first, and about an edge no more than the second.
DEVIATIONS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Half length of the next histogram about the centre of a narrow column, in cells; others go as far as predictions.
ZOOM = 1.25
#: Part of the prior that columns do not share.
OWN_PRIOR = 0.03
#: ρ n² for each column: below the first a search costs more than it finds, above the last its histograms can be taken
#: at their word. Above the second nothing is missed, and of all columns together their common scale is not.
LEAST_SIGNAL, ENOUGH_SIGNAL, PLENTY_OF_SIGNAL = 5.0, 200.0, 2000.0
#: Rates of other values than 0 in columns without a scale, and how much less likely their units are a priori unless
#: they are 1.
RATES, UNIT_PRIOR = (0.5, 0.25, 0.08, 0.02), 1e-6
#: Log-likelihood ratio that is evidence.
LEAST_EVIDENCE = 6.0
#: Deviations within this factor of 1, and centres of at most half its size, pass for 1 and 0.
STANDARD_FACTOR = 3.0
#: Largest doubt to tell numbers from none.
MOST_DOUBT = 0.1
#: Noise of a mean square, for units of 1, up to which squares are summed over their whole range.
QUIET_NOISE = 0.01
#: Largest part of the users who differ from the centre of a feature without a scale, and who are beyond the scale of a
#: target that has one.
MOST_BEYOND = 0.35


class Shapes(NamedTuple):
    """Hypotheses about a first histogram: shares of its cells, and the distance from 0 that holds about all numbers.

    Those that are seldom another than 0 have distance 0, and a unit.
    """

    shares: FloatArray
    distances: FloatArray
    units: FloatArray


class Columns(NamedTuple):
    """Centres and scales of columns; where the scale is 0, most values are the centre and others of order ``units``.

    Units that are not ``known`` are 1. Columns that seem ``one_value`` other than 0 differ by less than can be seen.
    ``empty`` ones seem to be but gaps. Numbers are about ``middles``, also where centres are 0 by choice.
    """

    centres: FloatArray
    scales: FloatArray
    units: FloatArray
    known: npt.NDArray[np.bool_]
    one_value: npt.NDArray[np.bool_]
    empty: npt.NDArray[np.bool_]
    middles: FloatArray

    @property
    def sizes(self) -> FloatArray:
        """Scales, or units where there is none."""
        return np.where(self.scales == 0.0, self.units, self.scales)


class Histogram(NamedTuple):
    """Noisy shares of the users in the cells between edges, and beyond them: one row a column.

    Shares add up to about those ``present``, who are no gaps.
    """

    edges: FloatArray
    shares: FloatArray
    noise: float
    sought: npt.NDArray[np.bool_]
    folded: bool
    present: FloatArray

    def support(self, expected: FloatArray, column: int | slice | IntArray = slice(None)) -> FloatArray:
        """Compute the log-likelihood of expected shares, up to a constant of each column."""
        present, own = self.present[column], self.shares[column] @ expected.T
        gain: FloatArray = (own.T * present).T - 0.5 * np.multiply.outer(present**2, (expected**2).sum(axis=1))
        return gain / self.noise**2

    def quantiles(self, column: int) -> tuple[float, float]:
        """Return the median and half the distance of the quantiles one deviation from that of normal numbers."""
        below = np.maximum.accumulate(np.cumsum(self.shares[column]))[:-1]
        low, middle, high = np.interp(ndtr([-1.0, 0.0, 1.0]), below, self.edges[column]).tolist()
        return middle, max(0.5 * (high - low), DEVIATIONS[0] * float(self.edges[column, 1] - self.edges[column, 0]))

    def beyond(self, column: int) -> float:
        """Return the share of the users beyond the outermost edges."""
        return float(self.shares[column, [0, -1]].sum())

    def of(self, column: int, centres: FloatArray, deviations: FloatArray) -> FloatArray:
        """Compute the log-likelihood of normal numbers with these centres and deviations."""
        if not self.sought[column]:
            return np.zeros(len(centres))
        return self.support(_normal(self.edges[column], centres, deviations, self.folded), column)


class Zoom:
    """State of the histograms of columns: middles and half lengths of the next ones, scales and units.

    ``scaled`` columns have a scale; ``narrow`` ones are in one cell almost entirely.
    """

    def __init__(self, first: Histogram, boxes: tuple[Box, ...] = ()) -> None:
        d, shapes = len(first.edges), _magnitudes()
        prior = np.where(shapes.units == 1.0, 1.0, UNIT_PRIOR)
        support = first.support(shapes.shares)
        best = _posterior(support, prior).argmax(axis=1)
        # Columns that hardly differ from 0 must not borrow a unit from each other.
        support -= support[:, shapes.shares[:, 0] == 1.0]
        self.unclear = support[np.arange(d), best] < -math.log(UNIT_PRIOR)
        self.units: FloatArray = np.where(self.unclear, 1.0, shapes.units[best])
        self.halves: FloatArray = shapes.distances[best].copy()
        self.scaled = self.halves > 0.0
        self.middles, self.scales = np.zeros((2, d))
        self.narrow, self.constant, self.finest = np.zeros((3, d), dtype=bool)
        self.seen = [first]
        for j, box in enumerate(boxes):
            if box is not None:
                self._enter(j, *box)

    def _enter(self, column: int, low: float, high: float) -> None:
        """Look for a column within public limits that exclude 0: others lose where a column is skewed."""
        half = float(self.halves[column])
        if low > 0.0 or high < 0.0:
            ends = max(low, -half), min(high, half)
            least, most = ends if ends[0] < ends[1] else (low, high)
            self.middles[column], self.halves[column] = 0.5 * (least + most), 0.5 * (most - least)
            self.scaled[column] = True

    @property
    def edges(self) -> FloatArray:
        """Edges of the cells of the next histogram."""
        count = CELLS[len(self.seen) - 1]
        return self.middles[:, None] + self.halves[:, None] * np.linspace(-1.0, 1.0, count + 1)

    @property
    def sought(self) -> npt.NDArray[np.bool_]:
        """Columns of the next histogram: every other one is for narrow columns alone."""
        return self.narrow if len(self.seen) % 2 == 0 else self.scaled

    def refine(self, histogram: Histogram) -> None:
        """Average hypotheses about centres and deviations by all histograms, this one included."""
        chosen, earlier = np.flatnonzero(self.sought), self.seen.copy()
        self.seen.append(histogram)
        if not len(chosen):
            return
        count = histogram.edges.shape[1] - 1
        widths = 2.0 * self.halves[chosen] / count
        centres, deviations = _hypotheses(count)
        # In widths of its cells, the last histogram is alike for all columns.
        cells = count * np.linspace(-0.5, 0.5, count + 1)
        support = histogram.support(_normal(cells, centres, deviations, folded=False), chosen)
        for each, j, middle, width in zip(support, chosen.tolist(), self.middles[chosen], widths, strict=True):
            for seen in earlier:
                each += seen.of(j, middle + width * centres, width * deviations)
        narrow = deviations <= DEVIATIONS[1]
        # At first a column is centred at 0, or else in one cell.
        likely = ~narrow & (np.abs(centres) <= 0.5 * deviations) if len(self.seen) == 2 else ~narrow
        chances = _posterior(support, np.where(likely, 1.0 / likely.sum(), 1.0 / (~likely).sum()))
        within = chances[:, narrow].sum(axis=1) > 0.5
        # Average over the likelier kind alone: values between the two kinds are neither.
        chances[within[:, None] != narrow] = 0.0
        chances /= chances.sum(axis=1, keepdims=True)
        self.middles[chosen] += widths * (chances @ centres)
        # Where the centre is uncertain, so is the distance from it.
        squares = chances @ (deviations**2 + centres**2) - np.square(chances @ centres)
        self.scales[chosen] = widths * np.sqrt(np.maximum(squares, DEVIATIONS[0] ** 2))
        self.finest[chosen] = squares <= 2.0 * DEVIATIONS[0] ** 2
        self.halves[chosen] = np.where(within, ZOOM * widths, TARGET_RANGE * self.scales[chosen])
        self.narrow[chosen] = within
        # As narrow as the finest cells, and others far away for certain: one value and some exceptions.
        least = 2.0 * math.sqrt(LEAST_EVIDENCE) * histogram.noise
        self.constant[chosen] = within & [histogram.beyond(j) > least for j in chosen.tolist()]

    def take_quantiles(self) -> None:
        """Replace centres and scales of columns that are not narrow by quantiles of their last histogram."""
        for j in np.flatnonzero(self.scaled & ~self.narrow).tolist():
            self.middles[j], self.scales[j] = [each for each in self.seen if each.sought[j]][-1].quantiles(j)

    def take_standard(self) -> None:
        """Take centre 0 and deviation 1 for columns that do not reject them."""
        for j in np.flatnonzero(self.scales > 0.0).tolist():
            centres, deviations = np.array([[0.0] * 3 + [self.middles[j]], [0.7, 1.0, 1.4, self.scales[j]]])
            support = np.sum([each.of(j, centres, deviations) for each in self.seen], axis=0)
            near = abs(self.middles[j]) <= 0.5 * STANDARD_FACTOR
            near &= 1.0 / STANDARD_FACTOR <= self.scales[j] <= STANDARD_FACTOR
            if near or support[-1] <= support[:-1].max() + LEAST_EVIDENCE:
                self.middles[j], self.scales[j] = 0.0, 1.0

    def take_spread(self) -> None:
        """Replace centres and scales of columns of several values: a histogram about one loses too many users, and the
        one before it shows them.
        """
        for j in np.flatnonzero(self.scaled & ~self.constant).tolist():
            own = [each for each in self.seen[1:] if each.sought[j]]
            for before, each in pairwise(own):
                if each.beyond(j) > MOST_BEYOND + _plan.CLEAR_DEVIATIONS * each.noise:
                    self.middles[j], self.scales[j] = before.quantiles(j)
                    self.narrow[j] = False
                    break

    def take_exceptions(self) -> None:
        """Take away the scale of columns that are one value with exceptions, and find the unit of these."""
        self.scales[self.constant] = 0.0
        for j in np.flatnonzero(self.constant).tolist():
            self.units[j] = self._distance_of_exceptions(j)

    def _distance_of_exceptions(self, column: int) -> float:
        """Return the order of magnitude of the distance between a column's value and exceptions from it.

        It is the half length of the finest histogram that holds half of the exceptions, or else their magnitude, if
        that is certain.
        """
        first, *others = [each for each in self.seen if each.sought[column]]
        half_lengths = [0.5 * float(each.edges[column, -1] - each.edges[column, 0]) for each in others]
        for each, half_length in zip(others[::-1], half_lengths[::-1], strict=True):
            if each.beyond(column) < 0.5 * others[-1].beyond(column):
                return half_length
        above = np.where(half_lengths[0] < UNITS, first.shares[column, 1:-1], 0.0)
        certain = above.max() > math.sqrt(2.0 * LEAST_EVIDENCE) * first.noise
        return float(UNITS[above.argmax()]) if certain else half_lengths[0]


@dataclass(frozen=True)
class ColumnSearch:
    """Joint histograms of all columns for a share of the budget (in zCDP).

    Unless ``centred``, centres are 0 and scales are distances from there. With ``assume_standard`` a column that
    may well have centre 0 and deviation 1 is taken to have them, unless users are more than enough.
    """

    terms: _plan.Terms
    n_columns: int
    centred: bool
    share: float
    assume_standard: bool = False
    boxes: tuple[Box, ...] = ()

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Noise multipliers of the histograms."""
        return tuple(self.terms.multiplier / math.sqrt(self.share * part) for part in PARTS)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """All draws of `run`."""
        cells = (len(MAGNITUDES) + 2, *(count + 2 for count in CELLS))
        return [
            (GaussianEvent(multiplier, self.n_columns * count), 1)
            for multiplier, count in zip(self.multipliers, cells, strict=True)
        ]

    def decides(self, n_users: float) -> bool:
        """Return True if ``n_users`` are enough to tell columns from noise, at least all together."""
        # A target that may well be standardised is not taken for anything else.
        least = max(LEAST_SIGNAL, ENOUGH_SIGNAL / self.n_columns * (0.5 if self.assume_standard else 1.0))
        return self.share * signal(self.terms, n_users, self.n_columns) * (1.0 + 1e-12) >= least

    def decides_all(self, n_users: float) -> bool:
        """Return True if ``n_users`` are more than enough to tell every column from noise."""
        return self.share * signal(self.terms, n_users, self.n_columns) > PLENTY_OF_SIGNAL

    def run(self, rows: Partitions, n_users: float, release: Release) -> Columns:
        """Release centres and scales of the columns."""
        edges = np.broadcast_to(MAGNITUDES, (self.n_columns, len(MAGNITUDES)))
        multiplier, *others = self.multipliers
        first = self._histogram(rows, edges, None, multiplier, n_users, release)
        # The last cell is that of gaps.
        gaps, doubt = first.shares[:, -1], _plan.CLEAR_DEVIATIONS * first.noise
        present = np.where(gaps > doubt, np.clip(1.0 - gaps, first.noise, 1.0), 1.0)
        empty = (1.0 - gaps < doubt) & (doubt < MOST_DOUBT)
        zoom = Zoom(first._replace(shares=first.shares[:, :-1], present=present), self.boxes)
        for multiplier in others:
            found = self._histogram(rows, zoom.edges, zoom.sought, multiplier, n_users, release)
            zoom.refine(found._replace(present=present))
        if self.assume_standard and self.decides_all(n_users):
            zoom.take_quantiles()
        elif self.assume_standard:
            zoom.take_standard()
        elif self.centred:
            zoom.take_spread()
            zoom.take_exceptions()
        centres, scales = zoom.middles, zoom.scales
        one_value = zoom.narrow & ~zoom.constant & zoom.finest & (np.abs(centres) > scales)
        if not self.centred:
            centres, scales = np.zeros(self.n_columns), np.hypot(centres, scales)
        return Columns(
            centres=centres,
            scales=scales,
            units=zoom.units,
            known=zoom.constant | ~zoom.unclear,
            one_value=one_value,
            empty=empty,
            middles=zoom.middles,
        )

    def _histogram(
        self,
        rows: Partitions,
        edges: FloatArray,
        sought: npt.NDArray[np.bool_] | None,
        multiplier: float,
        n_users: float,
        release: Release,
    ) -> Histogram:
        """Release the shares of the users in the cells of the sought columns; None: in octaves and gaps of all.

        A user contributes non-negative integers that add up to `total` in a column, so they have that norm at most. All
        columns together have norm 2³⁰ steps, whatever their number is: the sensitivity is the same in every case.
        """
        folded, sought = sought is None, np.ones(self.n_columns, dtype=bool) if sought is None else sought
        n_sought = int(sought.sum())
        total = math.isqrt((1 << 2 * privacy.CONTRIBUTION_BITS) // max(n_sought, 1))
        counts = rows.sum(partial(_counts, edges=edges, sought=sought, total=total, folded=folded))
        noisy = release.gaussian(
            counts.ravel(),
            sensitivity=self.terms.acute_sensitivity / privacy.CONTRIBUTION_STEP,
            noise_multiplier=multiplier,
            step=privacy.CONTRIBUTION_STEP,
        )
        unit = n_users * total * privacy.CONTRIBUTION_STEP
        shares = np.asarray(noisy, dtype=np.float64).reshape(counts.shape) / unit
        noise = multiplier * self.terms.acute_sensitivity / unit
        return Histogram(edges, shares, noise, sought, folded, np.ones(self.n_columns))


def signal(terms: _plan.Terms, n_users: float, n_columns: int) -> float:
    """Return ρ n² for each column with all the budget."""
    factor = 1.0 if terms.adjacency is Adjacency.REPLACE_ONE else 2.0
    return factor * terms.rho * n_users**2 / n_columns


def plan_search(
    terms: _plan.Terms, *, n_columns: int, centred: bool, assume_standard: bool = False, boxes: tuple[Box, ...] = ()
) -> ColumnSearch | None:
    """Plan a search; None where a public number of users shows nothing."""
    share = _plan.SMALL_SHARE
    if terms.n_users is not None:
        needed = ENOUGH_SIGNAL / signal(terms, float(terms.n_users), n_columns)
        share = min(_plan.LARGE_SHARE, max(share, needed))
    search = ColumnSearch(terms, n_columns, centred, share, assume_standard, boxes)
    return search if terms.n_users is None or search.decides(terms.n_users) else None


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def _counts(
    data: _problems.UserData, edges: FloatArray, sought: npt.NDArray[np.bool_], total: int, folded: bool
) -> IntArray:
    """Sum over users the shares of their rows, by cell: shape (n_columns, n_cells).

    The i-th of a user's m rows has ⌊(i+1)·total/m⌋ − ⌊i·total/m⌋, in their own order: they add up to the total. A gap
    has a cell of its own, the last one, in octaves, and else none: then they add up to less.
    """
    groups, n_cells = data.groups, edges.shape[1] + 1 + folded
    counts = np.zeros((len(edges), n_cells), dtype=np.int64)
    for users, rows in groups.blocks():
        sizes = groups.sizes[users]
        weights = None
        if len(sizes) < rows.stop - rows.start:
            begins = groups.starts[users] - rows.start
            place = np.arange(rows.stop - rows.start, dtype=np.int64) - np.repeat(begins, sizes)
            size = np.repeat(sizes, sizes)
            # At most 2⁶¹ for up to 2³¹ rows of a user; sums of a block stay below 2⁵³ and are exact.
            weights = (place + 1) * total // size - place * total // size
        for j in np.flatnonzero(sought).tolist():
            column = data.X[rows, j]
            cells = _octaves(column) if folded else _equal_cells(column, edges[j])
            cells[np.isnan(column)] = n_cells - folded
            found = np.bincount(cells, weights, minlength=n_cells + 1)[:n_cells].astype(np.int64)
            counts[j] += found * total if weights is None else found
    return counts


def _octaves(column: FloatArray) -> IntArray:
    """Find the cells of the first histogram."""
    _, exponents = np.frexp(np.minimum(np.abs(column), 2.0**1000) * 2.0 ** (0.5 * FOLD))
    cells: IntArray = np.clip((exponents - 1) // FOLD + len(MAGNITUDES) // 2, 0, len(MAGNITUDES))
    cells[column == 0.0] = 0
    return cells


def _equal_cells(column: FloatArray, edges: FloatArray) -> IntArray:
    """Find the cells between equidistant edges, and beyond them; what is not a number is below."""
    count = len(edges) - 1
    places: FloatArray = (column - edges[0]) / ((edges[-1] - edges[0]) / count)
    np.fmin(np.fmax(np.floor(places, out=places), -1.0, out=places), count, out=places)
    return places.astype(np.int64) + 1


def _posterior(support: FloatArray, prior: FloatArray) -> FloatArray:
    """Compute chances of the hypotheses for each column; columns tend to be alike.

    Most of a column's prior is what the others are: at first the one hypothesis that explains all of them best. What a
    column's own cells suggest is no evidence for itself, and what a single other one's do would let chance spread.
    """
    likelihood = np.exp(support - support.max(axis=1, keepdims=True))
    own = prior / prior.sum()
    chances: FloatArray = likelihood
    shared = np.zeros((1, len(own)))
    alike = (1.0 - OWN_PRIOR) * likelihood + OWN_PRIOR * (likelihood @ own)[:, None]
    shared[0, (np.log(alike).sum(axis=0) + np.log(own)).argmax()] = 1.0
    for _ in range(8):
        chances = likelihood * (OWN_PRIOR * own + (1.0 - OWN_PRIOR) * shared)
        chances /= chances.sum(axis=1, keepdims=True)
        if len(chances) > 2:
            second, first = np.sort(chances, axis=0)[-2:]
            shared = (chances.sum(axis=0) - chances - np.where(chances == first, second, first)) / (len(chances) - 2)
    return chances


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
    """List shapes of orders of magnitude: normal numbers about 0, one cell, two cells, zeros, zeros beside one cell."""
    tops = MAGNITUDES[1:]
    deviations = np.exp2(np.arange(-1.0, 2.0) + FOLD * np.arange(-20.0, 21.0)[:, None]).ravel()
    one = np.eye(len(MAGNITUDES) + 1)
    parts = [
        (_normal(MAGNITUDES, np.zeros(len(deviations)), deviations, folded=True), 2.5 * deviations),
        (one[1:-1], tops),
        (0.5 * (one[1:-2] + one[2:-1]), 2.0 * tops[:-1]),
        (one[:1], np.zeros(1)),
    ]
    units = [np.ones(sum(len(distances) for _, distances in parts))]
    for rate in RATES:
        parts.append(((1.0 - rate) * one[:1] + rate * one[1:-1], np.zeros(len(tops))))
        units.append(UNITS)
    shares, distances = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return Shapes(shares, distances, np.concatenate(units))


def rare_scales(
    rows: Partitions,
    rare: npt.NDArray[np.bool_],
    most: float,
    largest: float = 1.0,
    *,
    multiplier: float,
    n_users: float,
    terms: _plan.Terms,
    release: Release,
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Release root mean squares of the ``rare`` columns, at least one deviation of the noise; 1 for the others.

    Returns flags of those that noise alone explains, too.

    Rows are centred and clipped: ``largest`` is the largest square, ``most`` the largest share of users that differ
    from the centre of such a column.
    """
    # The squares of rare values of unit size, each at a quarter of the largest rate, have about this norm together.
    radius = math.sqrt(max(1.0, most * int(rare.sum()) / 4.0))
    # A rare column that was standardised has squares of one over its rate: clipped at 1 it would seem far too small.
    radius = max(radius, min(largest, QUIET_NOISE * n_users / (terms.sum_sensitivity * multiplier)))
    total = rows.sum(partial(_mean_squares, rare=rare, radius=radius))
    unit = radius / n_users
    squares = np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64) * unit
    noise = terms.sum_sensitivity * multiplier * unit
    scales = np.where(rare, np.sqrt(np.clip(squares, min(1.0, noise), max(1.0, radius))), 1.0)
    return scales, rare & (squares <= _plan.CLEAR_DEVIATIONS * noise)


def _mean_squares(data: _problems.UserData, rare: npt.NDArray[np.bool_], radius: float) -> npt.NDArray[Any]:
    """Sum the users' mean squares of the rare columns, 0 for the others."""
    groups = data.groups
    total: npt.NDArray[Any] = np.zeros(len(rare), dtype=np.int64)
    for users, own in groups.blocks() if rare.any() else ():
        columns = np.ascontiguousarray(data.X[own].T[rare])
        squares = groups.block_means(np.square(columns, out=columns), users)
        block = np.zeros(len(rare), dtype=np.int64)
        block[rare] = privacy.exact_sum(privacy.ball_contributions(squares, radius, weights=groups.weights[users]))
        total = total + block
    return total
