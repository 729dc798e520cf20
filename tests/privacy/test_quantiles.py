"""Cells, weights and costs in exact integers; medians, reaches and quantiles."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skprivate.privacy import BoundedRangeEvent, BudgetExceededError, PrivacyLedger, open_release
from skprivate.privacy._events import run_tape
from skprivate.privacy.draws._quantiles import (
    COARSE,
    FINE,
    OCTAVES,
    POSITIONS,
    ROW_WEIGHT,
    UNIT_WEIGHT,
    USER_WEIGHT,
    Grid,
    WeightedCells,
    extent_costs,
    median_costs,
    private_centre,
    private_extent,
    private_median,
    private_quantiles,
    quantile_levels,
    split_costs,
    unit_means,
    units_beyond,
    units_for_median,
    weigh,
)

ANY = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 5e-324, 1e300, -1e300, 2.0**-64, 1.0, 1.0])


def release(epsilon=1e6, adjacency="replace-one", random_state=0, **kwargs):
    return open_release(epsilon=epsilon, unit="row", adjacency=adjacency, random_state=random_state, **kwargs)


def quantiles_of(values, units=None, *, bounds=None, n_bins, **draws):
    """The centre and then the quantiles, as one."""
    values = values if bounds is None else np.clip(values, *bounds)
    total = ROW_WEIGHT if units is None else USER_WEIGHT
    centre = private_centre(weigh(FINE.cells(values), units, UNIT_WEIGHT), bounds=bounds, **draws)
    with np.errstate(over="ignore"):
        cells = weigh(COARSE.cells(values - centre), units, total)
    return private_quantiles(cells, centre, total=total, n_bins=n_bins, bounds=bounds, **draws)


def reach_of(distances, **draws):
    return private_extent(weigh(OCTAVES.cells(distances), None, UNIT_WEIGHT), **draws)


# --- cells ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 1, 8, 16])
def test_cells_go_there_and_back(bits):
    grid = Grid(bits)
    rng = np.random.default_rng(bits)
    numbers = np.concatenate([np.arange(-5, 6), [grid.last, -grid.last], rng.integers(-grid.last, grid.last, 200)])
    values = np.array([grid.value(int(number)) for number in numbers])
    np.testing.assert_array_equal(grid.cells(values), numbers)
    assert np.all(np.diff(values[np.argsort(numbers)]) >= 0)


@given(st.lists(ANY, min_size=2, max_size=20), st.sampled_from([1, 8, 16]))
@example([math.inf, -math.inf, 1e300], 8)
def test_cells_keep_the_order_and_are_near(values, bits):
    grid = Grid(bits)
    values = np.sort(np.array(values))
    cells = grid.cells(values)
    assert np.all(np.diff(cells) >= 0)
    np.testing.assert_array_equal(cells, [grid.cells(np.array([value]))[0] for value in values])
    for value, cell in zip(values.tolist(), cells.tolist(), strict=True):
        if 2.0**-63 < abs(value) < 2.0**63:
            assert abs(grid.value(cell) - value) <= 2.0 ** -(bits + 1) * abs(value) * (1 + 1e-12)


# --- weights -------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 4)), min_size=1, max_size=25)


def as_counter(data):
    return Counter({int(c): int(w) for c, w in zip(data.cells, data.weights, strict=True) if w})


@pytest.mark.slow
@given(ROWS, st.sampled_from([1, 7, 2**10, UNIT_WEIGHT]), st.randoms())
def test_weights_are_sums_of_what_each_unit_alone_has(rows, total, random):
    cells, units = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    whole = as_counter(weigh(cells, units, total))
    alone = [as_counter(weigh(cells[units == u], units[units == u], total)) for u in set(units.tolist())]
    assert all(sum(counter.values()) == total for counter in alone)
    assert whole == sum(alone, Counter())
    order = list(range(len(rows)))
    random.shuffle(order)
    assert whole == as_counter(weigh(cells[order], units[order], total))


@pytest.mark.parametrize("far", [-3, -(2**40)])
def test_weights_of_rows_are_those_of_units_with_one_row(far):
    """Whether cells are counted or sorted."""
    cells = np.array([3, 1, 3, far, 1, 1])
    expected = {3: 10, 1: 15, far: 5}
    assert as_counter(weigh(cells, None, 5)) == as_counter(weigh(cells, np.arange(6), 5)) == expected
    assert not weigh(cells[:0], None, 5).cells.size


def test_a_units_share_is_in_proportion():
    data = weigh(np.array([0, 0, 9]), np.zeros(3, np.int64), UNIT_WEIGHT)
    assert data.weights.sum() == UNIT_WEIGHT and abs(data.weights[1] - UNIT_WEIGHT / 3) <= 1


@given(st.lists(st.tuples(st.integers(-(2**30), 2**30), st.integers(0, 3)), min_size=1, max_size=12))
def test_unit_means_round_towards_zero(rows):
    values, units = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    means, sizes = unit_means(values, units, 4)
    for u in range(4):
        own = [value for value, unit in rows if unit == u]
        assert sizes[u] == len(own)
        assert means[u] == (math.trunc(Fraction(sum(own), len(own))) if own else 0)


# --- costs ---------------------------------------------------------------------------------------------------------


def expand(runs):
    assert np.all(runs.lengths > 0)
    np.testing.assert_array_equal(runs.starts[1:], (runs.starts + runs.lengths)[:-1])
    return np.repeat(runs.costs, runs.lengths)


@given(ROWS)
def test_median_costs_by_counting(rows):
    cells, units = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    data = weigh(cells, units, 12)
    clipped = np.clip(data.cells, -3, 3)
    expected = [max(data.weights[clipped < c].sum(), data.weights[clipped > c].sum()) for c in range(-3, 4)]
    np.testing.assert_array_equal(expand(median_costs(data, -3, 3)), expected)
    twice = WeightedCells(np.repeat(clipped, 2), np.repeat(data.weights, 2))
    np.testing.assert_array_equal(expand(median_costs(twice, -3, 3)), 2 * np.array(expected))


@given(ROWS, st.integers(-5, 5), st.integers(0, 8), st.integers(1, 3), st.integers(1, 3))
def test_split_costs_by_counting(rows, low, width, left, right):
    cells, units = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    data = weigh(cells, units, 12)
    low, high = low * POSITIONS + 5, (low + width) * POSITIONS + 9
    positions = np.concatenate([np.arange(c * POSITIONS, (c + 1) * POSITIONS) for c in data.cells])
    weights = np.repeat(data.weights, POSITIONS)
    inside = (positions >= low) & (positions < high)
    expected = []
    for p in range(low, high + 1):
        below, above = weights[inside & (positions < p)].sum(), weights[inside & (positions >= p)].sum()
        expected.append(abs(right * below - left * above))
    runs = split_costs(data, low, high, left, left + right)
    np.testing.assert_array_equal(expand(runs), expected)
    assert runs.starts[0] == low


def test_reach_costs_nothing_where_the_number_sought_lies():
    data = WeightedCells(np.array([2, 5]), np.array([30, 10]))
    costs = extent_costs(data, target=4, penalty=0)
    assert costs[5] == 0 and list(costs[:8]) == [36, 36, 6, 6, 6, 0, 4, 4]
    assert np.array_equal(extent_costs(data, 4, 3) - costs, 3 * np.arange(OCTAVES.last + 1))


CHANGE = st.lists(st.integers(-4, 4), min_size=0, max_size=5)


def neighbouring(rows, old, new):
    """Data with a unit that has the rows ``old``, and with the rows ``new``."""
    made = []
    for own in (old, new):
        cells = np.array([c for c, _ in rows] + own, dtype=np.int64)
        units = np.array([u for _, u in rows] + [99] * len(own), dtype=np.int64)
        made.append((cells, units))
    return made


@given(ROWS, CHANGE, CHANGE)
@example([(0, 0)], [4], [-4])
def test_costs_keep_their_sensitivity(rows, old, new):
    """No cost moves by more than the weight of a unit, and all in one direction where a unit is added."""
    (a, b) = (weigh(*data, UNIT_WEIGHT) for data in neighbouring(rows, old, new))
    change = expand(median_costs(b, -5, 5)) - expand(median_costs(a, -5, 5))
    assert np.abs(change).max() <= UNIT_WEIGHT
    if not old:
        assert change.min() >= 0
    positive = [WeightedCells(data.cells + 4, data.weights) for data in (a, b)]
    for target in (0, UNIT_WEIGHT, 3 * UNIT_WEIGHT):
        before, after = (extent_costs(each, target, 7) for each in positive)
        assert np.abs(after - before).max() <= UNIT_WEIGHT


def test_the_sensitivity_of_a_median_is_attained():
    a, b = (weigh(np.array([0, 0, 0, x]), None, UNIT_WEIGHT) for x in (-1, 1))
    change = expand(median_costs(b, -2, 2)) - expand(median_costs(a, -2, 2))
    assert (change.min(), change.max()) == (-UNIT_WEIGHT, UNIT_WEIGHT)


# --- draws ---------------------------------------------------------------------------------------------------------


class Recording:
    """Keeps draws; replays results."""

    def __init__(self, results=None):
        self.draws, self.results = [], []
        self._given = results

    def draw(self, draw, sample):
        self.draws.append(draw)
        self.results.append(sample() if self._given is None else self._given[len(self.draws) - 1])
        return self.results[-1]


def recorded(results, cells, units, n_bins, adjacency):
    tape = Recording(results)
    with run_tape(tape), release(adjacency=adjacency) as opened:
        quantiles_of(
            np.array(cells, dtype=float), units, n_bins=n_bins, epsilon=1.0, adjacency=adjacency, release=opened
        )
    return tape


def score_changes(first, second):
    """Changes of the scores of all candidates, as a list of runs for each part."""
    tracks = []
    for draw in (first, second):
        ends = list(itertools.accumulate(draw.options["multiplicity"]))
        tracks.append((draw.statistic.tolist(), ends))
    (a, a_ends), (b, b_ends) = tracks
    assert a_ends[-1] == b_ends[-1]
    points = sorted({*a_ends, *b_ends})
    at = {draw: np.searchsorted(ends, points) for draw, ends in (("a", a_ends), ("b", b_ends))}
    return points, [b[j] - a[i] for i, j in zip(at["a"], at["b"], strict=True)]


@settings(deadline=None, max_examples=60)
@given(
    ROWS,
    CHANGE.filter(bool),
    CHANGE.filter(bool),
    st.sampled_from([2, 3, 5, 8]),
    st.booleans(),
    st.sampled_from(["replace-one", "add-remove"]),
)
def test_quantiles_keep_their_sensitivity(rows, old, new, n_bins, users, adjacency):
    """With the released values frozen, the scores of all parts of a level together move by what is paid for."""
    if not users:
        rows, old, new = [(c, i) for i, (c, _) in enumerate(rows)], old[:1], new[:1]
    first, second = neighbouring(rows, old if adjacency == "replace-one" else [], new)
    tapes, results = [], None
    for cells, units in (first, second):
        tapes.append(recorded(results, cells, units if users else None, n_bins, adjacency))
        results = tapes[0].results
    assert len(tapes[0].draws) == quantile_levels(n_bins)
    for a, b in zip(tapes[0].draws, tapes[1].draws, strict=True):
        assert (a.kind, a.sensitivity, a.events) == (b.kind, b.sensitivity, b.events)
        _, steps = score_changes(a, b)
        assert max(map(abs, steps)) <= a.sensitivity
        if a.kind == "select" and adjacency == "add-remove":
            assert max(steps) <= 0  # costs grow, scores fall


def test_a_unit_that_changes_sides_attains_the_sensitivity_of_a_level():
    # 4 bins; after the first split everything lies far from both sides' candidates.
    rows = [(-3, 0), (-3, 1), (3, 2), (3, 3)]
    (a, _), (b, _) = neighbouring(rows, [-4], [4])
    first = recorded(None, a, None, 4, "replace-one")
    second = recorded(first.results, b, None, 4, "replace-one")
    x, y = first.draws[2], second.draws[2]
    assert x.kind == "select_parts" and len(x.options["parts"]) == 2
    split = first.results[1][0]
    points, steps = score_changes(x, y)
    # Candidates of the first part end where its multiplicities do.
    low_count = split - (-Grid(8).last * POSITIONS) + 1
    parts = [[s for p, s in zip(points, steps, strict=True) if (p <= low_count) == side] for side in (True, False)]
    assert sum(max(map(abs, part)) for part in parts) == x.sensitivity


def test_events_are_those_drawn():
    for n_bins in (2, 3, 4, 5, 16, 33):
        plan = [(BoundedRangeEvent(0.25), quantile_levels(n_bins))]
        with release(epsilon=0.25 * quantile_levels(n_bins) * (1 + 1e-9), plan=plan) as opened:
            edges = quantiles_of(np.arange(100.0), n_bins=n_bins, epsilon=0.25, adjacency="replace-one", release=opened)
        assert edges.shape == (n_bins - 1,) and np.all(np.diff(edges) >= 0)
        assert opened.close().events == tuple(plan)


@pytest.mark.parametrize("bounds", [None, (0.0, 50.0), (-1e6, 1e9)])
@pytest.mark.parametrize("n_bins", [2, 3, 7, 16])
def test_quantiles_with_a_large_budget(n_bins, bounds):
    values = np.random.default_rng(0).permutation(np.arange(1001.0))
    with release() as opened:
        edges = quantiles_of(values, n_bins=n_bins, epsilon=50.0, adjacency="add-remove", release=opened, bounds=bounds)
    low, high = bounds or (-np.inf, np.inf)
    expected = np.clip(np.arange(1, n_bins) / n_bins * 1001, low, high)
    assert np.all(np.abs(edges - expected) <= 2 + 2.0**-8 * 500)
    assert np.all((edges >= low) & (edges <= high))


def test_equal_numbers_lie_on_both_sides():
    values = np.concatenate([np.zeros(800), np.arange(1.0, 201.0)])
    with release() as opened:
        edges = quantiles_of(values, n_bins=10, epsilon=20.0, adjacency="replace-one", release=opened)
    assert np.all(np.abs(edges[:7]) < 1e-9)
    assert abs(edges[8] - 100) < 5


@pytest.mark.parametrize(
    "values",
    [np.zeros(0), np.full(9, 1e300), np.full(9, -5e-324), np.array([np.finfo(float).max, np.finfo(float).min])],
)
def test_quantiles_of_any_numbers(values):
    with release() as opened:
        edges = quantiles_of(values, n_bins=4, epsilon=1.0, adjacency="replace-one", release=opened)
        reach_of(np.abs(values), epsilon=1.0, release=opened)
    assert np.all(np.isfinite(edges)) and np.all(np.diff(edges) >= 0)


def test_user_weights_do_not_follow_rows():
    """One user with 5000 rows counts once: the median is that of the users."""
    values = np.concatenate([np.full(5000, 7.0), np.linspace(100, 101, 60)])
    units = np.concatenate([np.zeros(5000, np.int64), np.arange(1, 61)])
    with release() as opened:
        edges = quantiles_of(values, units, n_bins=2, epsilon=20.0, adjacency="replace-one", release=opened)
    assert 99 < edges[0] < 102


def median_of(values, epsilon, adjacency, random_state=None):
    with open_release(epsilon=epsilon, unit="row", adjacency=adjacency, random_state=random_state) as opened:
        cell = private_median(
            weigh(FINE.cells(np.array(values)), None, UNIT_WEIGHT),
            epsilon=epsilon,
            adjacency=adjacency,
            release=opened,
            low=-1,
            high=1,
        )
    return cell


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_median_loses_no_more_than_its_price(adjacency):
    # Three candidates, about zero; half the noise must be noticed at the largest change.
    big = 1.0
    data = ([-big] * 4 + [big] * 3, [-big] * 3 + [big] * 4) if adjacency == "replace-one" else ([], [-big])
    law = {}
    for values in data:
        costs = expand(median_costs(weigh(FINE.cells(np.array(values)), None, UNIT_WEIGHT), -1, 1)) / UNIT_WEIGHT
        law[len(law)] = np.exp(-costs * 2.0 / (2 if adjacency == "replace-one" else 1))
        law[len(law) - 1] /= law[len(law) - 1].sum()
    loss = np.abs(np.log(law[0] / law[1]))
    assert loss.max() <= 2.0 + 1e-9
    counts = np.bincount([median_of(data[0], 2.0, adjacency) + 1 for _ in range(3000)], minlength=3)
    # Hoeffding: each share is off by more than .055 with probability below 1e-7.
    assert np.abs(counts / 3000 - law[0]).max() < 0.055


def test_a_reach_leaves_about_the_stated_number_of_units():
    """The cost of what is chosen exceeds the least one by ln(candidates/β)·2/ε at most; β = 1e-7."""
    rng = np.random.default_rng(1)
    for epsilon, n in ((0.5, 2000), (0.1, 20_000)):
        distances = np.abs(rng.standard_normal(n))
        with release(random_state=None) as opened:
            reach = reach_of(distances, epsilon=epsilon, release=opened)
        beyond = np.count_nonzero(distances > reach)
        assert beyond <= units_beyond(epsilon) + 2 * (math.log(257) + 16.2) / epsilon
        assert reach < 16


def test_a_reach_of_almost_only_zeros_is_zero():
    distances = np.zeros(5000)
    distances[:5] = 1e9
    with release() as opened:
        assert reach_of(distances, epsilon=1.0, release=opened) == 0.0


# --- several selections for one price --------------------------------------------------------------------------------


def test_parts_are_drawn_by_the_exponential_mechanism():
    scores = [np.array([0, -1]), np.array([-2, 0, 0])]
    counts = Counter()
    for seed in range(2000):
        with release(epsilon=2.0, random_state=None if seed % 2 else seed) as opened:
            chosen = opened.select_parts(
                scores,
                sensitivity=2,
                epsilon=2.0,
                multiplicity=[[1, 3], [1, 0, 2]],
                locate=lambda k, run, member: (run, member),
            )
        counts.update(enumerate(chosen))
    first = np.array([1.0] + [math.exp(-0.5)] * 3)
    second = np.array([math.exp(-1.0), 1.0, 1.0])
    expected = {
        **{(0, key): p for key, p in zip([(0, 0), (1, 0), (1, 1), (1, 2)], first / first.sum(), strict=True)},
        **{(1, key): p for key, p in zip([(0, 0), (2, 0), (2, 1)], second / second.sum(), strict=True)},
    }
    assert set(counts) <= set(expected)
    # Hoeffding: off by more than .07 with probability below 7e-9 each.
    assert all(abs(counts[key] / 2000 - p) < 0.07 for key, p in expected.items())


def test_parts_are_charged_once_and_first():
    arguments = {"sensitivity": 1, "multiplicity": [[1], [1]], "locate": lambda *found: found}
    scores = [np.array([0]), np.array([0])]
    with release(epsilon=1.0) as opened:
        opened.select_parts(scores, epsilon=1.0, **arguments)
    assert opened.close().events == ((BoundedRangeEvent(1.0), 1),)
    ledger = PrivacyLedger(epsilon=0.5, unit="row")
    with pytest.raises(BudgetExceededError), release(epsilon=1.0, ledger=ledger) as opened:
        opened.select_parts(scores, epsilon=1.0, **arguments)
    assert not ledger.entries()


def test_parts_refuse_what_they_cannot_draw():
    with release() as opened:
        arguments = {"sensitivity": 1, "epsilon": 1.0, "locate": lambda *found: found}
        with pytest.raises(ValueError, match="one entry for each part"):
            opened.select_parts([np.array([0])], multiplicity=[], **arguments)
        with pytest.raises(ValueError, match="one entry for each part"):
            opened.select_parts([], multiplicity=[], **arguments)
        with pytest.raises(TypeError, match="integers"):
            opened.select_parts([np.array([0.5])], multiplicity=[[1]], **arguments)
        with pytest.raises(ValueError, match="multiplicity must be given with locate"):
            opened.select([0], sensitivity=1, epsilon=1.0, locate=lambda run, member: run)
    assert opened.close().epsilon == 0


@pytest.mark.parametrize("bits", [0, 1, 4, 6])
def test_prior_weights_by_counting(bits):
    grid = Grid(bits)
    levels = sorted({*range(0, bits, 4), bits})

    def weight(cell):
        if cell == 0:
            return sum(1 << (bits - b) for b in levels)
        return sum(1 << (bits - b) for b in levels if (abs(cell) - 1) % (1 << (bits - b)) == 0)

    last = min(grid.last, 300)
    cells = np.arange(-last, last + 1)
    cumulative = grid.prior(cells)
    np.testing.assert_array_equal(np.diff(cumulative), [weight(int(cell)) for cell in cells[1:]])
    # Coarser grids have the same weight in all, up to the two cells at ±1.
    assert cumulative[cells == -1] == 0
    for k in (-last, -1, 0, 1, last):
        assert grid.prior(k) == cumulative[cells == k]
        assert grid.value(k) == Grid(bits + 4).value(math.copysign((abs(k) - 1) * 16 + 1, k) if k else 0)


def test_a_median_is_drawn_in_proportion_to_its_prior():
    """Without data the draw is the prior: the shares of cells −2 … 2; Hoeffding, 6e-9 each."""
    counts = Counter()
    for _ in range(2000):
        with release(epsilon=1.0, random_state=None) as opened:
            empty = WeightedCells(np.zeros(0, np.int64), np.zeros(0, np.int64))
            counts[
                private_median(
                    empty, grid=Grid(2), epsilon=1.0, adjacency="replace-one", release=opened, low=-2, high=2
                )
            ] += 1
    weights = {-2: 1, -1: 5, 0: 5, 1: 5, 2: 1}
    assert all(abs(counts[cell] / 2000 - weight / 17) < 0.07 for cell, weight in weights.items())


def test_a_median_needs_units_for_the_logarithm_of_its_cells():
    """A cell of 8 binary digits has a fifth of the prior share that it has among these cells alone."""
    enough = math.log(5 * 2 * COARSE.last) + 3
    assert units_for_median(1.0, "add-remove") == pytest.approx(2 * enough)
    assert units_for_median(0.5, "replace-one") == pytest.approx(8 * enough)
