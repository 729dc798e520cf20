"""A private range of the columns: exact privacy, recovery, refusals."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric.grid._bounds import (
    _EDGES,
    _FIRSTS,
    CENTRES,
    OFFSETS,
    PrivateBounds,
    centre_costs,
    centre_counts,
    distance_counts,
    median_costs,
    offset_costs,
    offset_counts,
)
from skprivate.metric.grid._hierarchy import RANGE_SHARE, BinaryHierarchy
from skprivate.preprocessing import TooFewUnitsWarning
from skprivate.privacy import PrivacyLedger, open_release, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


def log_law(costs, price, multiplicity=None):
    """Log-probabilities of the exponential mechanism with a monotone score, one per category member."""
    logits = -price * np.asarray(costs, dtype=float)
    weights = np.ones(len(logits)) if multiplicity is None else np.array(multiplicity, dtype=float)
    return logits - np.log(weights @ np.exp(logits - logits.max())) - logits.max()


def all_centre_costs(column):
    costs, multiplicity, first = centre_costs(centre_counts(column[:, np.newaxis])[0])
    assert sum(multiplicity) == CENTRES.size and first[0] == 0
    return np.repeat(costs, multiplicity)


def costs_about(column, middle, price):
    """Costs of the scale and of the reach below and above a middle."""
    sides = offset_counts(column[:, np.newaxis], centres=np.array([middle]), least=OFFSETS[:1])
    below, above = sides
    return (median_costs(distance_counts(sides)[0]), offset_costs(below[0], 0, price), offset_costs(above[0], 0, price))


def worst_ratio(column, price):
    """Largest log-ratio of the law of one column's range when any row is removed or one is added."""
    worst = 0.0
    neighbours = [np.delete(column, i) for i in range(len(column))]
    neighbours += [np.append(column, value) for value in (-1e30, -3.0, 0.0, 0.7, 1e-20, 2.5e6, 1e30)]
    centre = log_law(all_centre_costs(column), price)
    for other in neighbours:
        worst = max(worst, np.abs(centre - log_law(all_centre_costs(other), price)).max())
        for middle in (-2.0, 0.0, 1.0, 1e6):
            for first, second in zip(*(costs_about(x, middle, price) for x in (column, other)), strict=True):
                worst = max(worst, np.abs(log_law(first, price) - log_law(second, price)).max())
    return worst


@pytest.mark.parametrize("price", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_row_changes_the_law_of_each_selection_by_its_price(price, seed):
    rng = public_generator(seed)
    column = np.round(rng.normal(size=9) * 10.0 ** rng.integers(-2, 4), 2)
    assert worst_ratio(column, price) <= price * (1 + 1e-9)
    # A cost that counts a row twice is seen.
    assert worst_ratio(np.zeros(3), 2 * price) > 1.5 * price


@pytest.mark.parametrize("centre", [0.0, 1.5, -3e4, 2.0**40])
def test_counts_about_a_centre_are_those_of_a_search(centre):
    rng = public_generator(1)
    column = centre + rng.normal(size=999) * 10.0 ** rng.integers(-12, 14, size=999)
    column[:3] = centre, np.nextafter(centre, 1e99), 1e300
    offsets = np.maximum(OFFSETS, abs(centre) * 2.0**-30)
    sides = offset_counts(column[:, np.newaxis], np.array([centre]), offsets[:1])
    expected = [
        np.bincount(np.searchsorted(offsets, offset), minlength=OFFSETS.size + 1)
        for offset in (centre - column, column - centre)
    ]
    assert np.array_equal(sides[:, 0], expected)
    distance = np.minimum(np.searchsorted(offsets, np.abs(column - centre)), OFFSETS.size - 1)
    assert np.array_equal(distance_counts(sides)[0], np.bincount(distance, minlength=OFFSETS.size))


def test_snapped_costs_by_hand():
    costs = all_centre_costs(np.array([-1.0, 2.0, 2.0, 1e300]))
    cost = dict(zip(CENTRES.tolist(), costs.tolist(), strict=True))
    assert cost[-2.0] == 4 and cost[-1.0] == 3 and cost[0.0] == 3 and cost[2.0] == 1 and cost[4.0] == 3
    assert costs[-1] == 3  # values beyond the last candidate are snapped to it
    penalty = np.arange(OFFSETS.size) * 5
    beyond = costs_about(np.array([-7.0, 1.0, 1.1]), 0.0, 0.1)[2] - penalty
    assert beyond[OFFSETS < 1].min() == 2 and beyond[OFFSETS == 1.0] == 1 and beyond[OFFSETS > 1.2].max() == 0
    # One row at 0 and one at −1 (below), one at 3 (above): places 0, 1 and 3 of four offsets.
    counts = distance_counts(np.array([[[2, 1, 0, 0, 0]], [[2, 0, 0, 1, 0]]]))
    assert counts.tolist() == [[1, 1, 0, 1]]
    assert median_costs(counts[0]).tolist() == [2, 1, 2, 2]
    assert distance_counts(np.array([[[1, 0, 2]], [[3, 0, 0]]])).tolist() == [[1, 2]]
    # From a scale on, offsets below it are out of the question.
    assert offset_costs(np.array([5, 4, 3, 2, 1]), 1, 100.0).tolist() == [6, 3 + 1, 1 + 2]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("law", ["normal", "lognormal", "far"])
def test_the_range_is_found_at_every_scale(scale, law):
    # Every seed must hold: a selection fails with probability below e^−100 for 40000 rows at a price of 1/4.
    rng = public_generator(0)
    column = rng.lognormal(size=40_000) if law == "lognormal" else rng.normal(size=40_000)
    column = scale * (column + (500 if law == "far" else 0))
    low, high = np.quantile(column, [0.005, 0.995])
    widths = []
    for seed in range(5):
        release = open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=seed)
        box = PrivateBounds(1.0, 1).run(column[:, np.newaxis], release)
        assert release.close().epsilon == pytest.approx(1.0)
        assert box.lower[0] < low and box.upper[0] > high
        # Reaching t doublings beyond all rows has a probability of at most about e^−2t: 10 of them, 1e-8.
        assert box.widths[0] < 2**11 * (high - low)
        widths.append(box.widths[0] / (high - low))
    assert np.median(widths) < 8


@pytest.mark.parametrize("value", [0.0, 1.0, -3.3, 1e9, -1e15, 1e-30])
def test_constant_columns_have_a_box(value):
    release = open_release(epsilon=1e4, unit="row", adjacency="add-remove", random_state=0)
    box = PrivateBounds(1e4, 1).run(np.full((1000, 1), value), release)
    assert box.lower[0] < box.upper[0]
    if abs(value) < 1e12:
        assert box.lower[0] <= value <= box.upper[0]
        assert box.widths[0] <= 1e-2 * max(abs(value), 1e-6)


def test_the_plan_adds_up_and_is_the_same_for_all_data():
    assert sum(event.epsilon * n for event, n in PrivateBounds(0.3, 4).events) == pytest.approx(0.3)
    rng = public_generator(0)
    spent = []
    for X in (rng.normal(size=(3000, 2)), np.full((3000, 2), 7e5)):
        ledger = PrivacyLedger(epsilon=1.0, unit="row")
        model = MetricPrivateSynthesizer(1.0, metric="rows", bounds="private", ledger=ledger).fit(X)
        guarantee = model.privacy_guarantee_
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9) and guarantee.epsilon <= 1.0
        assert "bounds are public" not in guarantee.assumptions
        spent.append([entry.epsilon for entry in ledger.entries()])
    assert spent[0] == spent[1]


def test_synthetic_rows_have_the_scale_of_the_real_ones():
    rng = public_generator(1)
    X = rng.normal(size=(50_000, 2)) * [1e-3, 1e5] + [0, 3e5]
    model = MetricPrivateSynthesizer(1.0, metric="rows", bounds="private", random_state=0).fit(X)
    drawn = model.sample(20_000, random_state=0)
    np.testing.assert_allclose(np.median(drawn, axis=0) / [1e-3, 1e5], [0, 3], atol=0.1)
    np.testing.assert_allclose(drawn.std(axis=0), X.std(axis=0), rtol=0.2)
    assert model.bounds_[0].shape == model.bounds_[1].shape == (2,)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bounds": None}, "'bounds' parameter"),
        ({"metric": "wasserstein"}, "needs metric='rows'"),
        ({"out_of_bounds": "raise"}, "out_of_bounds='clip'"),
        ({"bounds": "auto"}, "bounds"),
    ],
)
def test_refusals(keywords, message):
    model = MetricPrivateSynthesizer(**{"metric": "rows", "bounds": "private", **keywords})
    with pytest.raises(ValueError, match=message):
        model.fit(np.ones((10, 2)))


def test_the_share_is_fixed():
    assert 0 < RANGE_SHARE < 0.5
    assert [count for _, count in PrivateBounds(RANGE_SHARE, 1).events] == [1, 4]


def said_of_rows(model, X):
    """What a fit warns of too few rows."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X)
    return [str(one.message) for one in seen if issubclass(one.category, TooFewUnitsWarning)]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("options", [{}, {"resolution": 8}, {"epsilon": 0.3}, {"categories": {0: (0, 1)}}])
@pytest.mark.parametrize("d", [1, 3])
def test_few_rows_invent_no_magnitudes_and_say_that_they_are_too_few(d, options):
    epsilon = options.get("epsilon", 1.0)
    for share in (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.2):
        n = round(1000 * share * d / epsilon)
        for seed in range(3):
            X = public_generator(seed).normal(40, 5, size=(n, d))
            if "categories" in options:
                X = np.c_[np.arange(n) % 2, X]
            model = MetricPrivateSynthesizer(**{"epsilon": epsilon, "random_state": seed, **options})
            said = said_of_rows(model, X)
            assert bool(said) is (share < 1), (n, said)
            off = model.sample(300, random_state=0)[:, -d:] - 40
            wrong = (abs(np.median(off, axis=0)) > 15).any() or (np.mean(abs(off) > 80, axis=0) > 0.05).any()
            assert said or not wrong
            # Even then nothing is made up: 16 doublings beyond what is there have a probability below e^−32.
            assert (abs(off) < 2**22).all()
    assert f"for {d} column(s)" in said_of_rows(model.set_params(epsilon=1e-3), X)[0]
    assert not said_of_rows(MetricPrivateSynthesizer(bounds=(0, 100), random_state=0), X[:20, -d:])


@pytest.mark.parametrize(("n", "found"), [(3000, 10.4), (10, 3000.0), (10, 0.0)])
def test_what_is_said_of_rows_is_made_from_released_numbers(n, found, monkeypatch):
    """The number of rows is private: what decides, and is shown, is what the noisy counts add up to."""
    run = BinaryHierarchy.run
    monkeypatch.setattr(BinaryHierarchy, "run", lambda *args: (run(*args)[0], found))
    model = MetricPrivateSynthesizer(1.0, random_state=0)
    said = said_of_rows(model, public_generator(0).normal(40, 5, size=(n, 1)))
    least = PrivateBounds(RANGE_SHARE, 1).least_rows
    assert bool(said) is (found < least or n < least) and 850 < least < 1000
    for text in said:
        assert text.startswith(f"about {found:.0f} rows are too few: MetricPrivateSynthesizer needs about 888 for")
        assert "bounds=" in text and (found == n or f"{n} rows" not in text)


@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_no_value_is_beyond_what_rows_explain_without_a_word(n, d):
    for seed in range(4):
        X = pd.DataFrame(public_generator(seed).normal(40, 5, size=(n, d))).add_prefix("c")
        model = MetricPrivateSynthesizer(1.0, random_state=seed)
        said = said_of_rows(model, X)
        assert said or abs(model.sample(1000, random_state=0).to_numpy()).max() < 120
        assert np.abs(model.bounds_).max() < 2**22
        if n < 100 * d:
            assert "'c0'" in said[0] and "bounds=" in said[0]


def test_octaves_hold_the_candidates_of_their_magnitude():
    """One row adds 1 to one octave of each column."""
    ends = np.append(_FIRSTS, CENTRES.size)
    for first, last, edge in zip(ends[:-1], ends[1:], _EDGES, strict=True):
        sizes = np.abs(CENTRES[first:last])
        assert sizes.max() <= edge and (edge == 0 or sizes.min() >= edge / 2)
        assert len(set(np.sign(CENTRES[first:last]))) == 1
    rng = public_generator(0)
    for column in rng.normal(size=(50, 1)) * 10.0 ** rng.integers(-15, 15, size=(50, 1)):
        assert np.add.reduceat(centre_counts(column[:, np.newaxis]), _FIRSTS, axis=1).sum() == 1


@pytest.mark.parametrize("size", [1e12, 1e13, 1e15])
def test_rows_beyond_all_candidates_are_taken_for_the_largest(size):
    """A scale among candidates that none of the rows explains would be a random one."""
    X = public_generator(0).normal(scale=size, size=(2000, 1))
    model = MetricPrivateSynthesizer(50.0, random_state=0).fit(X)
    assert 2**40 <= np.abs(model.bounds_).max() <= 2**43
