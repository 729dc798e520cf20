"""Label sums: integers that one label moves by no more than stated, whatever the labels and their order."""

import dataclasses
import datetime
import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    RandomBagClassifier,
    RandomBagRegressor,
    make_curated_bags,
    make_random_bags,
)
from skprivate.aggregate.tables import _sums as sums_module
from skprivate.aggregate.tables._labels import (
    LABEL_STEPS,
    check_bounds,
    encode_classes,
    number_contributions,
    one_hot,
    square_contributions,
)
from skprivate.privacy import PrivacyLedger, compose_epsilon, open_release

ROWS = 12
FEATURES = np.column_stack([np.arange(ROWS) % 2, np.arange(ROWS) % 3])


class Recorder:
    """Sees all draws; repeats released values, so that what depends on them may be compared."""

    def __init__(self, results=()):
        self.draws, self.results, self._given = [], [], list(results)

    def draw(self, draw, sample):
        result = self._given[len(self.draws)] if self._given else sample()
        self.draws.append(draw)
        self.results.append(result)
        return result


def record(release, labels, results=()):
    from skprivate.privacy._events import run_tape

    recorder = Recorder(results)
    with run_tape(recorder):
        bags = release(labels)
    return recorder, bags


def curated(**options):
    return lambda y: make_curated_bags(
        FEATURES, y, [(0,), (1,), (0, 1)], categorical_features="all", epsilon=1.0, random_state=0, **options
    )


def at_random(**options):
    return lambda y: make_random_bags(FEATURES, y, bag_size=3, n_bags=9, epsilon=1.0, random_state=3, **options)


def moves(release, labels, changed):
    """Per draw: how far the integers move, in the draw's norm, and the sensitivity that it was priced for."""
    first, _ = record(release, labels)
    second, _ = record(release, changed, first.results)
    assert len(first.draws) == len(second.draws)
    for one, other in zip(first.draws, second.draws, strict=True):
        assert one.statistic.dtype == np.int64 and one.sensitivity == other.sensitivity
        difference = [int(d) for d in (one.statistic - other.statistic).ravel()]
        if one.norm == "l1":
            yield Fraction(sum(abs(d) for d in difference)), Fraction(one.sensitivity)
        else:
            yield Fraction(sum(d * d for d in difference)), Fraction(one.sensitivity) ** 2


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, 1e15, -2.0, 3.0, 1.0, 2.9999999999999996]),
)
CASES = {
    "curated": curated(classes=None, label_bounds=(-2.0, 3.0)),
    "curated, range found": curated(classes=None),
    "curated, Gaussian": curated(classes=None, label_bounds=(1e15, 1e15 + 1), delta=1e-6, mechanism="gaussian"),
    "curated, range, discrete Gaussian": curated(classes=None, delta=1e-6, mechanism="discrete_gaussian"),
    "random": at_random(numbers=True, label_bounds=(-2.0, 3.0)),
    "random, three outputs": at_random(numbers=True, label_bounds=(-2.0, 3.0)),
    "random, three outputs, range found": at_random(numbers=True),
    "random, disjoint": lambda y: make_random_bags(
        FEATURES, y, 3, disjoint=True, epsilon=1.0, numbers=True, random_state=0
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_label_moves_integer_sums_by_at_most_the_sensitivity(case):
    outputs = 3 if "three" in case else 1
    values = st.lists(NUMBERS, min_size=ROWS * outputs, max_size=ROWS * outputs)

    @settings(deadline=None, max_examples=25)
    @given(values, st.lists(NUMBERS, min_size=outputs, max_size=outputs), st.integers(0, ROWS - 1))
    def check(values, other, row):
        labels = np.array(values).reshape(ROWS, outputs).squeeze()
        changed = labels.copy()
        changed[row] = np.array(other).squeeze()
        for moved, allowed in moves(CASES[case], labels, changed):
            assert moved <= allowed

    check()


@pytest.mark.parametrize("case", CASES)
def test_the_sensitivity_is_attained(case):
    """No noise is wasted: some row moves the sums as far as stated, going from one end of the interval to the other."""
    outputs = 3 if "three" in case else 1
    range_found = "range" in case or "disjoint" in case
    worst = {}
    for row in range(ROWS):
        labels = np.full((ROWS, outputs), -1e300).squeeze()
        changed = labels.copy()
        changed[row] = np.float64(0.25) if range_found else 1e300
        for draw, (moved, allowed) in enumerate(moves(CASES[case], labels, changed)):
            worst[draw] = max(worst.get(draw, 0), moved / allowed)
    if range_found:
        assert worst[0] == pytest.approx(1.0, abs=1e-12)  # counts of the range
    elif "curated" in case:
        assert worst[0] == pytest.approx(0.75, abs=1e-12)  # of 3 sums and the squares, which both ends share
    else:
        assert worst[0] == 1


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS), st.integers(0, ROWS - 1), st.integers(-1, 3))
def test_one_class_label_moves_counts_by_at_most_the_sensitivity(labels, row, other):
    labels = np.array(labels)
    changed = labels.copy()
    changed[row] = other
    gaussian = curated(classes=[0, 1, 2], delta=1e-6, mechanism="gaussian")
    for release in (curated(classes=[0, 1, 2]), curated(classes=[0, 1]), gaussian):
        for moved, allowed in moves(release, labels, changed):
            assert moved <= allowed
            if {int(labels[row]), other} == {0, 1}:
                assert float(moved) == pytest.approx(float(allowed))


@pytest.mark.parametrize("disjoint", [True, False])
def test_all_indicators_of_a_row_may_change(disjoint):
    release = lambda y: make_random_bags(  # noqa: E731
        FEATURES, y, 3, disjoint=disjoint, epsilon=1.0, random_state=0
    )
    rows = []
    for row in range(ROWS):
        changed = np.zeros((ROWS, 4))
        changed[row] = 1
        rows += list(moves(release, np.zeros((ROWS, 4)), changed))
    assert max(moved / allowed for moved, allowed in rows) == 1


def test_other_labels_do_not_matter_to_the_last_bit():
    """The contribution of a label is the difference of integer sums, with any other labels and in any order."""
    rng = np.random.default_rng(0)
    release = curated(classes=None, label_bounds=(1.7e18, 1.7e18 + 1e6))
    labels = 1.7e18 + rng.uniform(0, 1e6, size=(20, ROWS))
    found = set()
    for others in labels:
        pair = []
        for value in (1.7e18 + 5, 1.7e18 + 9e5):
            others[4] = value
            pair.append(record(release, others)[0].draws[0].statistic)
        found.add(tuple((pair[1] - pair[0]).tolist()))
    assert len(found) == 1
    order = rng.permutation(ROWS)
    shuffled, _ = record(
        lambda y: make_curated_bags(
            FEATURES[order],
            y,
            [(0,), (1,), (0, 1)],
            categorical_features="all",
            classes=None,
            epsilon=1.0,
            random_state=0,
            label_bounds=(1.7e18, 1.7e18 + 1e6),
        ),
        others[order],
    )
    np.testing.assert_array_equal(shuffled.draws[0].statistic, pair[1])


ESTIMATORS = [
    (CuratedBagGAMClassifier(random_state=0, categorical_features="all"), False),
    (CuratedBagGAMClassifier(random_state=0, delta=0.0, classes=[0, 1, 2]), False),
    (CuratedBagGAMRegressor(random_state=0), True),
    (CuratedBagGAMRegressor(random_state=0, label_bounds=(0, 1), mechanism="discrete_gaussian"), True),
    (CuratedBagGAMRegressor(random_state=0, loss="poisson"), True),
    (RandomBagClassifier(random_state=0), False),
    (RandomBagRegressor(random_state=0), True),
    (RandomBagRegressor(random_state=0, label_bounds=(0, 1), disjoint=False), True),
]


@pytest.mark.parametrize(("estimator", "numbers"), ESTIMATORS)
def test_fits_draw_on_integers_alone_and_what_they_planned(estimator, numbers):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(300, 2))
    y = rng.random(300) if numbers else rng.integers(0, 2, 300)
    recorder, model = record(lambda y: estimator.fit(X, y), y)
    assert {draw.statistic.dtype for draw in recorder.draws} == {np.dtype(np.int64)}
    drawn = {}
    for draw in recorder.draws:
        for event, count in draw.events.items():
            drawn[event] = drawn.get(event, 0) + count
    assert drawn == dict(model.privacy_guarantee_.events)
    assert compose_epsilon(model.privacy_guarantee_.events, model.privacy_guarantee_.delta) <= 1.0


# What was wrong once ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noise_covers_all_numbers_of_a_row():
    outputs, runs = 30, 400
    X, zeros = np.zeros((100, 1)), np.zeros((100, outputs))
    ones = zeros.copy()
    ones[0] = 1.0

    def attack(y, seed):
        bags = make_random_bags(
            X, y, 1, disjoint=True, epsilon=1.0, numbers=True, label_bounds=(0, 1), random_state=seed
        )
        return bags.label_sums[int(np.flatnonzero(bags.members == 0)[0])].sum() > outputs / 2 + 6

    true = np.mean([attack(ones, seed) for seed in range(runs)])
    false = np.mean([attack(zeros, seed + runs) for seed in range(runs)])
    slack = math.sqrt(math.log(2e6) / (2 * runs))  # Hoeffding, 1e-6
    assert math.log(max(true - slack, 1e-9) / (false + slack)) <= 1.0
    for appearances, disjoint in ((1, True), (None, False)):
        bags = make_random_bags(
            X, zeros, 3, disjoint=disjoint, epsilon=1.0, numbers=True, label_bounds=(-1, 4), random_state=0
        )
        most = appearances or bags.structure.appearances()
        assert bags.noise_variance == pytest.approx(2 * (5 * outputs * most) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("fit", [False, True])
def test_bounds_far_from_zero_keep_the_noise(fit):
    """In float64 one label of 20 000 moved the sum of an interval of length 1 at 10¹⁵ by 4096."""
    runs = 60 if fit else 300
    low, n = 1e15 + 2047.5, 20_000
    X = np.zeros((n, 1))

    def sums(last, seeds):
        y = np.full(n, low)
        y[-1] = last
        for seed in seeds:
            if fit:
                arguments = {"epsilon": 0.2, "delta": 0.0, "label_bounds": (low, low + 1)}
                yield CuratedBagGAMRegressor(random_state=seed, **arguments).fit(X, y).bags_
            else:
                yield make_curated_bags(
                    X, y, [(0,)], epsilon=0.2, classes=None, label_bounds=(low, low + 1), random_state=seed
                )

    first = {float(b.tables[0].label_sums[0, 0]) for b in sums(low, range(runs))}
    second = {float(b.tables[0].label_sums[0, 0]) for b in sums(low + 1, range(runs, 2 * runs))}
    # Disjoint outcomes would have a probability of less than e^-100 under ε = 0.2.
    assert first & second


def test_bounds_that_cannot_be_used_cost_nothing():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, unit="label")
    X, y = np.zeros((50, 1)), np.arange(50.0)
    for bounds in ((-1.5e308, 1.5e308), (0, 10**400), (0.0, 1e-200)):
        for run in (
            lambda b: make_curated_bags(X, y, [(0,)], epsilon=1.0, classes=None, label_bounds=b, ledger=ledger),
            lambda b: make_random_bags(X, y, 5, epsilon=1.0, numbers=True, label_bounds=b, ledger=ledger),
            lambda b: CuratedBagGAMRegressor(label_bounds=b, ledger=ledger).fit(X, y),
            lambda b: RandomBagRegressor(label_bounds=b, ledger=ledger).fit(X, y),
        ):
            with pytest.raises(ValueError, match="label_bounds must be"):
                run(bounds)
    assert ledger.spent == (0.0, 0.0) and not ledger.entries()
    assert check_bounds((np.int64(2**62), 2**62 + 1)) == (2**62, 2**62 + 1)


@pytest.mark.parametrize("scale", [1e50, 1e-49])
@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_extreme_bounds_fit(scale, loss):
    X, y = np.arange(400)[:, None] % 4, (np.arange(400) % 4) * scale / 4
    CuratedBagGAMRegressor(label_bounds=(0, scale), loss=loss, random_state=0).fit(X, y)
    RandomBagRegressor(label_bounds=(0, scale), random_state=0).fit(X, y)


def test_labels_outside_the_classes_count_as_none_of_them():
    """An error would tell that somebody's label is outside."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(300, 2)), rng.integers(0, 3, 300)
    for bad in (7, -1, 0.5):
        outside = y.astype(float)
        outside[5] = bad
        for model in (CuratedBagGAMClassifier, RandomBagClassifier):
            recorder, fitted = record(lambda y: model(classes=[0, 1, 2], random_state=0).fit(X, y), outside)  # noqa: B023
            exact, _ = record(lambda y: model(classes=[0, 1, 2], random_state=0).fit(X, y), y)  # noqa: B023
            difference = exact.draws[0].statistic - recorder.draws[0].statistic
            bags = len(fitted.feature_sets_) if model is CuratedBagGAMClassifier else 1
            assert np.abs(difference).sum() == difference.sum() == bags
            assert list(fitted.classes_) == [0, 1, 2]
    with pytest.raises(ValueError, match="labels that are not in classes"):
        CuratedBagGAMClassifier(epsilon=None, classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="labels that are not in classes"):
        RandomBagClassifier(epsilon=None, classes=[0, 1]).fit(X, y)


@pytest.mark.parametrize("other", [[100_000, 0], [-7, 1], [0.5, 2]])
def test_entries_of_several_columns_that_are_no_indicators_count_as_zero(other):
    """Two distinct numbers look like indicators to scikit-learn, whatever they are."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.zeros((60, 2))
    y[5] = [1, 1]
    counts = []
    for row in ([0, 0], other):
        y[0] = row
        recorder, _ = record(lambda y: RandomBagClassifier(classes=[0, 1], random_state=0).fit(X, y), y)
        counts.append(recorder.draws[0])
    assert np.abs(counts[0].statistic - counts[1].statistic).sum() <= counts[0].sensitivity
    assert np.abs(counts[0].statistic - counts[1].statistic).sum() == sum(v == 1 for v in other)
    y[0] = other
    with pytest.raises(ValueError, match="0 and 1 only|Unknown label type"):
        RandomBagClassifier(epsilon=None).fit(X, y)


@pytest.mark.parametrize("bad", [7, 0.5, 2**64, Fraction(1, 3)])
def test_a_number_of_another_type_in_a_list_leaves_the_others_as_they_are(bad):
    """An array of integers and one fraction is an array of floats."""
    X, y = np.arange(60)[:, np.newaxis] % 3, [0, 1, 2**53 + 1] * 20
    for fit in (
        lambda y: CuratedBagGAMClassifier(classes=[0, 1, 2**53 + 1], random_state=0).fit(X, y),
        lambda y: RandomBagClassifier(classes=[0, 1, 2**53 + 1], random_state=0).fit(X, y),
        lambda y: make_curated_bags(X, y, [(0,)], classes=[0, 1, 2**53 + 1], epsilon=1.0),
    ):
        before, after = (record(fit, labels)[0].draws[0].statistic for labels in (y, [*y[:-1], bad]))
        assert np.abs(before - after).sum() == (before - after).sum() == 1


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-(2**40), 2**40),
    st.sampled_from([0.0, 0.1, 1 / 3, 1 - 2**-13]),
    st.floats(2**-12, 2**41),
    st.lists(st.integers(-(2**41), 2**41), min_size=1, max_size=5),
)
@example(0, 0.0, 2.0**80, [2**53, 0, 5])
def test_integers_and_floats_have_the_same_contributions(whole, part, width, labels):
    """One fraction among integers makes floats of the labels of all."""
    bounds = (whole + part, whole + part + width)
    labels = np.array([*labels, whole, whole + 1, whole + min(int(width / 2), 2**41)])
    as_floats = number_contributions(labels.astype(np.float64), *bounds)
    np.testing.assert_array_equal(number_contributions(labels, *bounds), as_floats)
    if labels.min() >= 0:
        np.testing.assert_array_equal(number_contributions(labels.astype(np.uint64), *bounds), as_floats)


def test_negative_counts_are_clipped():
    X, y = np.arange(300)[:, None] % 3, np.arange(300) % 5
    below = np.where(y == 0, -7, y)
    for bounds in (None, (0, 4)):
        fits = [
            CuratedBagGAMRegressor(loss="poisson", label_bounds=bounds, random_state=0).fit(X, labels)
            for labels in (y, below)
        ]
        if bounds is not None:
            first, second = (fit.bags_.tables[0].label_sums for fit in fits)
            np.testing.assert_array_equal(first, second)


# Exact arithmetic ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64), st.lists(st.integers(-(2**63), 2**63 - 1)))
@example(-(2**63), 2**64, [2**63 - 1, -(2**63), 0])
@example(1_700_000_000_000_000_000, 10**6, [1_700_000_000_000_500_000, 1_700_000_000_000_500_001])
def test_integer_labels_are_not_cast_to_float_first(low, width, labels):
    values = np.array([*labels, *(min(max(low + o, -(2**63)), 2**63 - 1) for o in (0, 1, width // 2, width))])
    high = low + width
    found = number_contributions(values, low, high)
    middle, half = Fraction(low + high, 2), Fraction(width, 2)
    for value, steps in zip(values.tolist(), found, strict=True):
        exact = (min(max(value, low), high) - middle) / half * (LABEL_STEPS // 2)
        assert abs(Fraction(steps) - exact) <= 1 + Fraction(1, 2**20)
        assert steps == int(steps) and abs(steps) <= LABEL_STEPS // 2


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64, bool, np.float32])
def test_dtypes_agree(dtype):
    values = np.array([0, 1, 1, 0]) if dtype is bool else np.array([0, 1, 5, 100])
    for low, high in ((0, 100), (0.25, 0.75), (-1e3, 1e3), (200, 1e6), (-5.5, 99.5), (-1e90, 1e90)):
        expected = number_contributions(values.astype(np.float64), low, high)
        found = number_contributions(values.astype(dtype), low, high)
        assert np.max(np.abs(found - expected)) <= 1
    large = number_contributions(np.array([2**64 - 1, 2**64 - 1001], dtype=np.uint64), 2**64 - 1001, 2**64 - 1)
    np.testing.assert_array_equal(large, [LABEL_STEPS // 2, -LABEL_STEPS // 2])


def test_squares_are_in_steps_of_the_largest_one():
    ends = np.array([-LABEL_STEPS // 2, LABEL_STEPS // 2, 0, LABEL_STEPS // 4], dtype=float)
    np.testing.assert_array_equal(square_contributions(ends), [LABEL_STEPS, LABEL_STEPS, 0, LABEL_STEPS // 4])


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_sums_over_bags_are_exact_in_blocks(monkeypatch, block):
    monkeypatch.setattr(sums_module, "_EXACT_ROWS", block)
    rng = np.random.default_rng(0)
    bag = rng.integers(0, 3, 100)
    steps = rng.integers(-(2**30), 2**30 + 1, 100)
    found = sums_module.add_integers(bag, steps.astype(float), 4)
    assert found.dtype == np.int64
    assert found.tolist() == [sum(int(s) for s, b in zip(steps, bag, strict=True) if b == k) for k in range(4)]


def test_the_largest_block_is_exact():
    """2²² odd integers next to 2³⁰ add up to an odd number of 52 bits, which float64 still holds."""
    n = sums_module._EXACT_ROWS
    assert n * LABEL_STEPS < 2**53
    steps = np.full(n, LABEL_STEPS - 1.0)
    steps[0] -= 1
    assert sums_module.add_integers(np.zeros(n, dtype=int), steps, 1)[0] == n * (LABEL_STEPS - 1) - 1


def test_codes_of_any_dtype():
    for labels, classes in (
        (np.array(["b", "a", "z"]), ["a", "b"]),
        (np.array([1, 0, 9]), [0, 1]),
        (np.array([1.0, 0.0, np.nan]), [0, 1]),
        (np.array(["b", "a", None], dtype=object), ["a", "b"]),
    ):
        codes = encode_classes(labels, classes, strict=False)
        assert codes.tolist() == [1, 0, -1]
        np.testing.assert_array_equal(one_hot(codes, 2), [[1, 0, 0]])
        np.testing.assert_array_equal(one_hot(codes, 3)[:2], [[0, 1, 0], [1, 0, 0]])


# Noise --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "discrete_gaussian"])
def test_sums_of_numbers_are_unbiased_with_the_stated_variance(mechanism):
    rng = np.random.default_rng(0)
    y = rng.uniform(90, 110, ROWS)
    options = {"classes": None, "label_bounds": (80, 130), "categorical_features": "all"}
    exact = make_curated_bags(FEATURES, y, "pairs", **options)
    expected = np.concatenate([t.label_sums for t in exact.tables])
    residuals = []
    for seed in range(300):
        bags = make_curated_bags(
            FEATURES, y, "pairs", epsilon=2.0, delta=1e-6, mechanism=mechanism, random_state=seed, **options
        )
        residuals.append(np.concatenate([t.label_sums for t in bags.tables]) - expected)
    residuals = np.array(residuals).ravel() / math.sqrt(bags.tables[0].noise_variance)
    # Laplace noise has kurtosis 6: 5.2 deviations of mean and variance, failing with probability below 1e-6.
    assert abs(residuals.mean()) < 5.2 / math.sqrt(residuals.size)
    spread = 5.2 * math.sqrt(5.2 / residuals.size)
    assert abs(np.mean(residuals**2) - 1) < spread < abs(np.mean(residuals**2) / 2 - 1)


def test_the_sum_of_squares_is_unbiased():
    y = np.linspace(95, 105, ROWS)
    found = [
        make_curated_bags(FEATURES, y, [(0,)], epsilon=50.0, classes=None, label_bounds=(80, 130), random_state=s)
        for s in range(200)
    ]
    # Σ(y − 105)² has noise of scale 2·25²/50, Σy² adds 2·105·(two sums of scale 2·50/50, averaged).
    deviation = math.sqrt(2 * (2 * 25**2 / 50) ** 2 + (2 * 105) ** 2 * 2 * 2 * 2**2)
    error = np.mean([bags.square_sum for bags in found]) - np.sum(y**2)
    assert abs(error) < 5.2 * deviation / math.sqrt(len(found))


def test_mechanisms_are_frozen_and_know_their_price():
    made, given = [], []

    def keep(self, data, release, run=sums_module.NumberSums.run):
        made.append(self)
        given.append(data)
        return run(self, data, release)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums_module.NumberSums, "run", keep)
        curated(classes=None)(np.arange(ROWS) / 3)
    (mechanism,) = made
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.noise = None
    with open_release(epsilon=1.0, unit="label", adjacency="replace-one", plan=mechanism.events) as release:
        mechanism.run(given[0], release)
    assert sorted(map(str, dict(release.close().events))) == sorted(str(event) for event, _ in mechanism.events)


@every(
    ("labels", "got"),
    [
        (np.array([1j] * ROWS), "complex128"),
        ([1j, 0] * (ROWS // 2), "complex"),
        (np.arange(ROWS).astype("M8[D]"), "datetime64"),
        (np.arange(ROWS).astype("m8[s]"), "timedelta64"),
        ([datetime.date(2020, 1, 1 + i % 2) for i in range(ROWS)], "date"),
    ],
)
@pytest.mark.parametrize("door", ["classes", "numbers", "random", "GAMs", "random models"])
def test_complex_labels_and_times_are_refused_before_the_charge(labels, got, door):
    ledger = PrivacyLedger(epsilon=100, unit="label")
    calls = {
        "classes": [lambda: make_curated_bags(FEATURES, labels, epsilon=1.0, ledger=ledger)],
        "numbers": [lambda: make_curated_bags(FEATURES, labels, classes=None, epsilon=1.0, ledger=ledger)],
        "random": [lambda: make_random_bags(FEATURES, labels, 2, epsilon=1.0, numbers=True, ledger=ledger)],
        "GAMs": [
            lambda kind=kind: kind(delta=0.0, ledger=ledger).fit(FEATURES, labels)
            for kind in (CuratedBagGAMClassifier, CuratedBagGAMRegressor)
        ],
        "random models": [
            lambda kind=kind: kind(ledger=ledger).fit(FEATURES, labels)
            for kind in (RandomBagClassifier, RandomBagRegressor)
        ],
    }
    for call in calls[door]:
        with pytest.raises((TypeError, ValueError), match=rf"y must hold .* class labels .* got (.*, )?{got}"):
            call()
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("labels", [[10**400] + [1] * (ROWS - 1), ["1", "0"] * (ROWS // 2)])
def test_numbers_beyond_float64_and_text_are_refused_before_the_charge(labels):
    ledger = PrivacyLedger(epsilon=100, unit="label")
    for call in (
        lambda: make_curated_bags(FEATURES, labels, classes=None, epsilon=1.0, ledger=ledger),
        lambda: make_random_bags(FEATURES, labels, 2, epsilon=1.0, numbers=True, ledger=ledger),
        lambda: CuratedBagGAMRegressor(delta=0.0, ledger=ledger).fit(FEATURES, labels),
        lambda: RandomBagRegressor(ledger=ledger).fit(FEATURES, labels),
    ):
        with pytest.raises(ValueError, match="y must hold numbers"):
            call()
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 15.0, 20.0, 25.0, 40.0])
def test_an_interval_and_the_sums_share_any_budget(epsilon):
    """The lattice of Gaussian noise costs a part of delta for each number, which counts where epsilon is large."""
    model = CuratedBagGAMRegressor(epsilon, mechanism="gaussian", delta=1e-6, random_state=0)
    model.fit(FEATURES, np.linspace(0.0, 1.0, ROWS))
    assert 0.99 * epsilon < model.privacy_guarantee_.epsilon <= epsilon
