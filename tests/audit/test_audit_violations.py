"""The search for violations: it finds planted faults, leaves sound mechanisms alone, and its figures are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

from skprivate import MetricPrivatizer, PPMHalfspaceClassifier
from skprivate.audit import find_violation
from skprivate.audit.claims._neighbours import Pair, Surroundings, halves, setting_variants, with_distance
from skprivate.audit.claims._recipes import Recipes
from skprivate.audit.claims._runs import Claim, Subject, _lattice_step, layout_of, numbers_of, row_features
from skprivate.audit.claims._violation import Search, largest_share, separation
from skprivate.privacy import open_release
from skprivate.utils import CheckData

GIVEN = ("epsilon", "delta", "unit", "adjacency", "metric")


def on_grid(number):
    """Round to a grid: sums of floats and finer noise give the floats away by their last digits."""
    return float(np.rint(number * 2**20) / 2**20)


class Sums(BaseEstimator):
    """Sums of clipped rows with Laplace noise; subclasses plant faults."""

    def __init__(self, epsilon=1.0, adjacency="replace-one", random_state=None):
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.random_state = random_state

    def contributions(self, X, y):
        return np.clip(np.nan_to_num(X[:, 0]), -1.0, 1.0)

    sensitivity = 2.0

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        total = math.fsum(self.contributions(np.asarray(X, dtype=float), y))
        self.sum_ = on_grid(total + rng.laplace(scale=self.sensitivity / self.epsilon))
        return self


class HalfTheNoise(Sums):
    sensitivity = 0.5


class Underflows(Sums):
    def contributions(self, X, y):
        with np.errstate(all="ignore"):
            square = (X**2).sum(axis=1)
            unit = X / np.sqrt(np.maximum(square, 1e-323))[:, None]
        return np.clip(np.nan_to_num(unit).sum(axis=1) / X.shape[1] ** 0.5, -100, 100)


class SwitchesByRows(Sums):
    """Other arithmetic for an odd number of rows."""

    sensitivity = 1.0

    def contributions(self, X, y):
        sign = 1.0 if len(X) % 2 else -1.0
        return sign * np.clip(np.nan_to_num(X[:, 0]), -1.0, 1.0)


class Refuses(Sums):
    def fit(self, X, y=None):
        if np.abs(X).max() > 1e100:
            raise ValueError("too large")
        return super().fit(X, y)


@pytest.mark.parametrize("fault", [HalfTheNoise, Underflows])
def test_planted_faults_are_found(fault):
    report = find_violation(fault(), max_seconds=30, max_pairs=400, random_state=0)
    assert report.violated
    assert report.p_value <= 1e-3
    assert report.epsilon_lower_bound >= report.claimed_epsilon * (1 - 1e-9)
    assert "VIOLATED" in str(report)


def test_a_switch_by_the_number_of_rows_is_found():
    report = find_violation(
        SwitchesByRows(adjacency="add-remove"), unit="row", max_seconds=30, max_pairs=400, random_state=0
    )
    assert report.violated
    assert abs(len(report.pair.first.X) - len(report.pair.second.X)) == 1


def test_a_sound_mechanism_is_left_alone():
    report = find_violation(Sums(), max_pairs=60, random_state=1)
    assert not report.violated
    assert "no violation found" in str(report)
    assert report.counts.n_pairs >= 60


def test_what_one_input_alone_is_refused_for_is_listed():
    report = find_violation(Refuses(), max_pairs=120, random_state=0)
    assert report.counts.n_refused > 0
    assert any("ValueError on one input" in text for text in report.one_sided_refusals)


def test_functions_users_and_pairs_of_ones_own():
    def counts(X, user_ids=None, random_state=None):
        rng = np.random.default_rng(random_state)
        return len(X) + rng.laplace(scale=1.0)  # rows, where users are claimed to be protected

    claim = {"epsilon": 1.0, "delta": 0.0, "unit": "user", "adjacency": "replace-one"}
    assert find_violation(counts, max_seconds=30, max_pairs=300, random_state=0, **claim).violated
    one, other = np.zeros((3, 1)), np.zeros((9, 1))
    pair = ((one, None, {"user_ids": [0, 1, 2]}), (other, None, {"user_ids": [0] * 7 + [1, 2]}))
    report = find_violation(counts, pairs=[pair], max_pairs=1, random_state=0, **claim)
    assert report.violated
    assert report.counts.n_pairs == 1


@pytest.mark.slow
def test_integers_that_pass_through_floats_are_found_by_halving():
    def shifted(X, random_state=None):
        rng = np.random.default_rng(random_state)
        return np.asarray(X, dtype=np.float64)[0, 0] + np.rint(rng.laplace())

    claim = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1"}
    report = find_violation(shifted, np.array([[0]]), max_seconds=30, random_state=0, **claim)
    assert report.violated
    assert abs(int(report.pair.first.X[0, 0])) >= 2**53


class RowNoise(BaseEstimator):
    """Every row with Laplace noise; rounded scores make it jump where ``steps`` is set."""

    releases_in = "transform"

    def __init__(self, epsilon=1.0, steps=None, bounds=(0.0, 1.0), random_state=None):
        self.epsilon = epsilon
        self.steps = steps
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        rng = np.random.default_rng(self.random_state)
        X = np.asarray(X, dtype=float)
        places = X if self.steps is None else np.floor(X * self.steps) / self.steps
        return places + rng.laplace(scale=1.0 / self.epsilon, size=X.shape)


class Coins(RowNoise):
    """A coin for every number, whose chances are 3/8 to 5/8: log P changes by less than ε per distance.

    Unlike the sum of a float and noise, it takes no last digits that give the float away.
    """

    def transform(self, X):
        rng = np.random.default_rng(self.random_state)
        chance = 0.5 + 0.25 * self.epsilon * (np.clip(np.asarray(X, dtype=float), 0.0, 1.0) - 0.5)
        return (rng.random(np.shape(X)) < chance).astype(float)


@pytest.mark.slow
def test_a_jump_of_a_randomiser_is_found_by_halving():
    claim = {"delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1", "settings": [{}]}
    report = find_violation(RowNoise(10.0, steps=4), np.zeros((2, 1)), max_seconds=30, random_state=0, **claim)
    assert report.violated
    assert report.pair.distance < 0.25
    assert not find_violation(Coins(), np.zeros((2, 1)), max_pairs=40, random_state=0, **claim).violated


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="confidence"):
        find_violation(Sums(), confidence=1.0)
    with pytest.raises(ValueError, match="max_seconds"):
        find_violation(Sums(), max_seconds=0)
    with pytest.raises(ValueError, match="claims nothing"):
        find_violation(lambda X: 0.0)
    with pytest.raises(ValueError, match="names no norm"):
        find_violation(Sums(), adjacency="metric", metric="tree")


def test_a_search_repeats_itself():
    reports = [find_violation(Sums(), max_pairs=20, simulate=True, random_state=3) for _ in range(2)]
    assert reports[0].p_value == reports[1].p_value
    assert str(reports[0].pair) == str(reports[1].pair)


class RowsPerUser(BaseEstimator):
    """A sum over users that is turned round when the number of rows, which is a user's secret, is odd."""

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y=None, user_ids=None):
        ids = np.arange(len(X)) if user_ids is None else np.asarray([repr(who) for who in user_ids])
        firsts = np.unique(ids, return_index=True)[1]
        total = np.clip(np.nan_to_num(X[firsts, 0]), -1.0, 1.0).sum() * (-1) ** len(X)
        noise = np.random.default_rng(self.random_state).laplace(scale=2.0 / self.epsilon)
        self.sum_ = on_grid(total + noise)
        return self


@pytest.mark.slow
def test_users_numbers_of_rows_are_searched_wherever_identifiers_are_taken():
    """The estimator says nothing of users: without identifiers, each row is one."""
    report = find_violation(RowsPerUser(), max_seconds=30, max_pairs=400, random_state=0)
    assert report.violated
    assert report.claim.unit == "user"
    assert len(report.pair.first.X) != len(report.pair.second.X)
    rows = find_violation(RowsPerUser(), unit="row", max_pairs=20, random_state=0)
    assert not rows.violated
    assert rows.claim.unit == "row"


# --- validity ------------------------------------------------------------------------------------------------------


class RandomisedResponse(BaseEstimator):
    """A bit of the first row, at exactly the claimed ε: the search tests it hard, and must not be misled."""

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        keep = rng.random() < 1.0 / (1.0 + math.exp(-self.epsilon))
        self.bit_ = float((X[0, 0] > 0.0) == keep)
        return self


def _false_alarms(n_searches, confidence):
    return sum(
        find_violation(
            RandomisedResponse(), max_pairs=12, confidence=confidence, simulate=True, random_state=seed
        ).violated
        for seed in range(n_searches)
    )


@pytest.mark.slow
def test_false_alarms_are_nominal():
    """At the boundary of the claim; 40 searches at a nominal 20 %: more than 24 with probability below 1e-7."""
    assert _false_alarms(40, 0.8) <= 24


@pytest.mark.slow
def test_false_alarms_in_many_null_searches():
    assert _false_alarms(400, 0.9) <= binom.isf(1e-6, 400, 0.1)


# --- parts ----------------------------------------------------------------------------------------------------------


def test_separation_is_that_of_the_means():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 3))
    assert separation(noise, noise, True) == 0.0
    assert 1.6 < separation(noise, noise + np.array([2.0, 0.0, 0.0]), True) < 2.4
    assert separation(np.zeros((8, 1)), np.ones((8, 1)), True) > 1e9


def test_separation_of_outputs_that_are_as_large_as_floats_warns_of_nothing():
    huge = np.random.default_rng(0).laplace(size=(16, 1)) * 1e300
    assert separation(huge, 2 * huge, True) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["row", "user", "label", "private row"])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_pairs_differ_in_one_unit(unit, adjacency):
    rng = np.random.default_rng(0)
    labels = np.array([0, 1]) if unit in ("label", "private row") else None
    place = Surroundings(
        Claim(1.0, 0.0, unit, adjacency), CheckData(None), labels, True, unit == "user", unit == "private row"
    )
    recipes = Recipes(place, [{}], rng)
    for _ in range(300):
        pair = recipes.pair()
        if unit == "user" and "user_ids" in pair.first.metadata:
            one, other = (_by_user(side) for side in (pair.first, pair.second))
            assert sum(one.get(key) != other.get(key) for key in one.keys() | other.keys()) <= 1
            continue
        one, other = pair.first, pair.second
        assert abs(len(one.X) - len(other.X)) == (adjacency == "add-remove" and unit != "label")
        if len(one.X) == len(other.X):
            moved = (one.X != other.X).any(axis=1)
            assert moved.sum() <= (unit != "label")
            if unit != "private row":
                assert (np.reshape(one.y != other.y, (len(one.X), -1)).any(axis=1) | moved).sum() <= 1


def _by_user(inputs):
    users = {}
    rows = zip(inputs.metadata["user_ids"], inputs.X.tolist(), inputs.y.tolist(), strict=True)
    for who, x, target in rows:
        users.setdefault(str(type(who)) + str(who), []).append(str((x, target)))
    return {who: sorted(rows) for who, rows in users.items()}


def test_halves_lie_between_and_add_up():
    claim = Claim(1.0, 0.0, "row", "metric", "l2")
    pair = with_distance(Pair(CheckData(np.zeros((1, 2))), CheckData(np.array([[3.0, 4.0]]))), claim, None)
    assert pair.distance == pytest.approx(5.0)
    steps = halves(pair, claim, None)
    assert sum(step.distance for step in steps) == pytest.approx(5.0)
    whole = Pair(CheckData(np.array([[2**61]])), CheckData(np.array([[2**61 + 1]])))
    assert halves(whole, claim, None) == []


def test_settings_keep_the_reach_of_a_metric_claim():
    parameters = {"epsilon": 2.0, "bounds": (0.0, 1.0), "flag": True}
    variants = setting_variants(None, parameters, metric=True)
    assert {"bounds": (0.0, 1e-6), "epsilon": pytest.approx(2e6)} in variants
    assert variants[0] == {"bounds": (0.0, 1.0)}
    assert any(variant.get("flag") is False for variant in variants)


def test_all_that_is_numeric_is_seen():
    class Result:
        def __init__(self):
            self.table = {"a": [1.0, 2.0], "name": "x"}
            self._hidden = 7.0

    found = Subject(lambda X: Result()).released(CheckData(np.zeros((1, 1))), {}, None)
    assert set(found) == {"value.table.a", "value.table.name"}
    runs = [found, {**found, "value.table.a": np.array([1.0])}]
    values = numbers_of(runs, layout_of(runs))
    assert values.shape == (2, 7) and values[:, 0].tolist() == [2.0, 1.0]  # the size of the table first


def test_the_lattice_of_an_output_is_seen():
    assert _lattice_step(np.array([0.75, 1.5, -3.0])) == 0.25
    values = np.array([[0.6, 0.8], [0.5, 0.0]])
    assert row_features(values, np.zeros((1, 2)), np.ones((1, 2))).shape == (2, 14)


# --- others' releases -----------------------------------------------------------------------------------------------


class Laplace:
    """A function of one number with Laplace noise on a fine grid, or unchanged."""

    def __init__(self, scale=1.0, grid=True, seed=0):
        self.scale, self.grid, self.rng = scale, grid, np.random.default_rng(seed)

    def __call__(self, x):
        noisy = x + self.rng.laplace(scale=self.scale)
        return on_grid(noisy) if self.grid else noisy


class Peer:
    """Has fit and an epsilon, and nothing else of scikit-learn."""

    def __init__(self, epsilon, noise=1.0):
        self.epsilon, self.noise = epsilon, noise

    def fit(self, X, y):
        self.total_ = on_grid(np.sum(y) + np.random.default_rng().laplace(scale=self.noise / self.epsilon))


ZERO_OR_ONE = {"pairs": [((0.0,), (1.0,))], "max_pairs": 1, "random_state": 0}


@pytest.mark.slow
def test_sound_and_broken_functions():
    assert not find_violation(Laplace(), epsilon=1.0, **ZERO_OR_ONE).violated
    found = find_violation(Laplace(0.4), epsilon=1.0, **ZERO_OR_ONE)
    assert found.violated and 1.0 <= found.epsilon_lower_bound < 2.5 and found.counts.n_tested == 1


def test_floating_point_noise_is_found_by_its_holes():
    assert find_violation(Laplace(grid=False), epsilon=1.0, **ZERO_OR_ONE).violated


def test_objects_with_fit_and_an_epsilon():
    X, y, other = np.zeros((5, 1)), np.zeros(5), np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    options = {"pairs": [((X, y), (X, other))], "max_pairs": 1, "random_state": 0}
    # Its noise is not seeded: refuted by chance once in a million searches.
    sound = find_violation(Peer(1.0), confidence=1 - 1e-6, **options)
    assert not sound.violated and sound.claimed_epsilon == 1.0 and sound.name == "Peer"
    assert find_violation(Peer(1.0, noise=0.2), **options).violated


@pytest.mark.parametrize("kind", ["mapping", "length", "words", "not finite"])
def test_recorded_outputs_of_any_shape(kind):
    rng = np.random.default_rng(0)
    make = {
        "mapping": lambda s: {"a": [1.0, 2.0], "b": on_grid(rng.normal()) + 9.0 * s},
        "length": lambda s: np.zeros(3 + s),
        "words": lambda s: "yes" if s else "no",
        "not finite": lambda s: np.nan if s else 0.0,
    }[kind]
    left = [iter([make(s) for _ in range(200)]) for s in (0, 1)]
    options = {"pairs": [((0,), (1,))], "max_pairs": 1, "random_state": 0}
    assert find_violation(lambda s: next(left[s]), epsilon=1.0, **options).violated


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.2, pytest.param(0.05, marks=pytest.mark.slow)])
def test_false_alarms_with_recorded_outputs(level):
    """Randomised response, which attains ε = 1, among other numbers; one side is used up in the end."""
    n, alarms = (40 if level == 0.2 else 400), 0
    for run in range(n):
        rng = np.random.default_rng(run)
        flips = rng.random((2, 150)) < 1 / (1 + np.e)
        left = [iter((s ^ flips[s]).astype(float)) for s in (0, 1)]
        options = {"pairs": [((0,), (1,))], "max_pairs": 1, "random_state": run, "confidence": 1 - level}
        found = find_violation(lambda s, left=left, rng=rng: [next(left[s]), rng.integers(3)], epsilon=1.0, **options)
        alarms += found.violated
    assert alarms <= binom.isf(1e-7, n, level)


# --- at the release -------------------------------------------------------------------------------------------------

ROWS = np.array([[0.1], [0.4], [0.4], [0.9], [0.6], [0.1]])


class _Draws(BaseEstimator):
    """Draws one statistic of the rows, with ``share`` of the sensitivity that it has."""

    unit, adjacency = "row", "replace-one"

    def __init__(self, epsilon=1.0, share=1.0, random_state=None):
        self.epsilon = epsilon
        self.share = share
        self.random_state = random_state

    def fit(self, X, y=None):
        place = np.nan_to_num(np.asarray(X, dtype=float)[:, 0], nan=0.0, posinf=1.0, neginf=0.0)
        options = {} if self.adjacency != "metric" else {"metric": "wasserstein-1, l1"}
        with open_release(
            epsilon=self.epsilon, unit=self.unit, adjacency=self.adjacency, random_state=self.random_state, **options
        ) as release:
            self.drawn_ = self.draw(release, np.clip(place, 0.0, 1.0))
        return self


class Choice(_Draws):
    """The more frequent of three thirds of the unit interval: one row changes each count by one."""

    def draw(self, release, place):
        counts = np.bincount(np.minimum((place * 3).astype(int), 2), minlength=3)
        return release.select(counts, sensitivity=self.share, epsilon=self.epsilon)


class PooledChoice(_Draws):
    """The same, by the number of candidates that share a count."""

    def draw(self, release, place):
        scores, sizes = np.unique(np.bincount(np.minimum((place * 3).astype(int), 2), minlength=3), return_counts=True)
        category, _ = release.select(scores, sensitivity=self.share, epsilon=self.epsilon, multiplicity=sizes.tolist())
        return float(category >= 0)  # which pool it is in would tell of others


class Histogram(_Draws):
    """One row leaves a cell and enters another one."""

    def draw(self, release, place):
        counts = np.bincount(np.minimum((place * 4).astype(int), 3), minlength=4)
        return release.discrete_laplace(counts, sensitivity=max(1, int(2 * self.share)), epsilon=self.epsilon)


class Flow(_Draws):
    """Mass of 2¹⁶ steps a row, split between the two nearest of nine points; a mean distance of 1 moves 8 edges."""

    unit, adjacency = "data set", "metric"

    def draw(self, release, place):
        steps = np.floor(place * 8 * 2**16).astype(np.int64)
        cell, part = np.divmod(steps, 2**16)
        mass = np.zeros(10, dtype=np.int64)
        np.add.at(mass, cell, 2**16 - part)
        np.add.at(mass, cell + 1, part)
        sensitivity = self.share * 8 * 2**16 * len(place)
        return release.flow_laplace(mass, sensitivity=sensitivity, epsilon=self.epsilon).astype(float)


def search(subject, **options):
    metric = "l1" if subject.adjacency == "metric" else None
    claim = {"epsilon": 1.0, "delta": 0.0, "unit": subject.unit, "adjacency": subject.adjacency, "metric": metric}
    settings = [{"bounds": (0.0, 1.0)}] if metric else [{}]
    return find_violation(subject, ROWS, settings=settings, random_state=0, **claim, **options)


@pytest.mark.slow
@pytest.mark.parametrize("subject", [Choice, PooledChoice, Histogram, Flow])
def test_half_the_sensitivity_is_found_by_replay(subject):
    exact, halved = (search(subject(share=share), max_pairs=25) for share in (1.0, 0.5))
    assert exact.counts.n_replayed >= 5
    assert 0.0 < exact.largest_share <= 1.0
    assert halved.largest_share == pytest.approx(2 * exact.largest_share, rel=0.02)
    assert halved.largest_share > 1.0
    assert "of a sensitivity" in str(halved)


def test_pooled_candidates_do_not_pass_for_other_candidates():
    """Errors that tie are one pool: how many pools there are tells nothing of how many candidates there are."""
    X, y = np.zeros((8, 2)), np.arange(8) % 2
    far = X.copy()
    far[-1, 0] = 1.0
    classifier = PPMHalfspaceClassifier(random_state=0)
    share = largest_share(lambda rows: classifier.fit(rows, y, private=y == 1), X, far, None)
    assert 0.0 <= share <= 1.0


class LeavesItsRows(Histogram):
    """A draw, and beside it a number of the rows."""

    def draw(self, release, place):
        return [super().draw(release, place), place.sum()]


class DrawsByTheRows(Histogram):
    """One draw more if the rows say so."""

    def draw(self, release, place):
        half = place.sum() > 3.0
        parts = [release.discrete_laplace(len(place), sensitivity=1, epsilon=0.5)] if half else []
        return [*parts, release.discrete_laplace(len(place), sensitivity=1, epsilon=0.5)]


@pytest.mark.parametrize("fault", [LeavesItsRows, DrawsByTheRows])
def test_other_results_of_the_same_draws_are_seen(fault):
    report = search(fault(), max_pairs=60)  # few pairs are on both sides of the switch
    assert report.largest_share == math.inf


@pytest.mark.slow
def test_rows_that_are_randomised_in_transform_are_watched():
    report = find_violation(MetricPrivatizer(), max_pairs=12, max_seconds=60, random_state=0)
    assert report.counts.n_replayed > 0
    assert 0.0 < report.largest_share <= 1.0


def test_what_draws_nowhere_is_not_measured():
    class Plain(BaseEstimator):
        def __init__(self, epsilon=1.0, random_state=None):
            self.epsilon = epsilon
            self.random_state = random_state

        def fit(self, X, y=None):
            self.sum_ = np.random.default_rng(self.random_state).laplace()
            return self

    report = find_violation(Plain(), max_pairs=3, random_state=0)
    assert report.largest_share is None
    assert report.counts.n_replayed == 0


def test_fits_too_slow_to_be_repeated_are_still_watched():
    report = search(Choice(share=0.5), max_pairs=6, max_seconds=0.2)
    assert report.counts.n_replayed > 0


# --- which pairs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["row", "user", "label", "private row"])
def test_pairs_have_the_columns_of_the_rows_they_are_made_of(unit):
    """Given rows have their own number of columns, whatever the recipe says; so has the victim."""
    labels = np.array([0, 1]) if unit in ("label", "private row") else None
    example = CheckData(np.linspace(0.0, 1.0, 16)[:, None], np.arange(16) % 2)
    place = Surroundings(
        Claim(1.0, 0.0, unit, "add-remove"), example, labels, True, unit == "user", unit == "private row"
    )
    recipes = Recipes(place, [{"bounds": (0.0, 1.0)}], np.random.default_rng(1))
    for _ in range(300):
        pair = recipes.pair(rows="given")
        assert pair.first.X.shape[1] == pair.second.X.shape[1] == 1


class Names(BaseEstimator):
    """One of a thousand rare names, or the commonest; more of the commonest where the first number is positive."""

    releases_in = "transform"

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        rng = np.random.default_rng(self.random_state)
        common = rng.random(len(X)) < 0.5
        return np.where(common, "common", rng.integers(10**6, 10**6 + 1000, len(X)).astype(str))[:, None]


def test_a_name_is_the_same_number_in_every_sample():
    """If names were numbered within a sample, whether a rare one turns up would renumber all others."""
    target = Subject(Names(random_state=0))
    row = np.zeros((1, 1))
    few, many = (target.many_rows(row, n, {}, 1).ravel() for n in (50, 4000))
    assert np.unique(few).size < np.unique(many).size
    model = Names(random_state=1)
    for n, codes in ((50, few), (4000, many)):
        names = model.transform(np.zeros((n, 1))).ravel()
        known = codes[np.flatnonzero(names == "common")[0]]
        np.testing.assert_array_equal(codes == known, names == "common")
        assert known == np.unique(many)[np.argmax(np.unique(many, return_counts=True)[1])]


class Gauss(BaseEstimator):
    """The first number with Gaussian noise: whether (ε, δ) holds at a distance is known exactly."""

    def __init__(self, epsilon=1.0, delta=1e-2, scale=1.0, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.scale = scale
        self.random_state = random_state

    def fit(self, X, y=None):
        noise = np.random.default_rng(self.random_state).normal(scale=self.scale)
        self.number_ = on_grid(float(X[0, 0]) + noise)
        return self


def _gaussian_delta(move, epsilon):
    """The least δ of Gaussian noise of scale 1 at this ε (Balle and Wang 2018, Theorem 8)."""
    return norm.cdf(move / 2 - epsilon / move) - math.exp(epsilon) * norm.cdf(-move / 2 - epsilon / move)


METRIC = {"unit": "row", "adjacency": "metric"}


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("metric", ["l1", "tree"])
def test_pairs_with_a_distance_and_a_delta(rho, metric):
    """P(A) ≤ exp(ε ρ) P(B) + δ: ε grows with the distance, δ does not."""
    pair = ((np.zeros((1, 1)),), (np.full((1, 1), rho),), rho)
    for factor, violated in ((1.0, False), (5.0 / min(rho, 1.0), True)):
        epsilon = 1.0 if violated else 2.0
        delta = 1e-2 if violated else 1.01 * max(_gaussian_delta(rho, epsilon * rho), 1e-6)
        subject = Gauss(epsilon, delta, scale=1.0 / factor)
        report = find_violation(
            subject, pairs=[pair], metric=metric, max_pairs=1, random_state=0, simulate=True, **METRIC
        )
        assert report.violated == violated
        if report.counts.n_tested:
            assert report.claimed_epsilon == pytest.approx(epsilon * rho)
            assert report.claimed_delta == delta
            assert report.pair.distance == rho


@pytest.mark.parametrize("rho", [-1.0, math.nan, math.inf, "near"])
def test_a_distance_is_a_finite_number(rho):
    pair = ((np.zeros((1, 1)),), (np.ones((1, 1)),), rho)
    with pytest.raises(ValueError, match="distance of pairs must be a finite number >= 0"):
        find_violation(Gauss(), pairs=[pair], metric="l1", **METRIC)


def test_pairs_that_do_not_fit_the_claim_are_refused():
    one, other = np.zeros((1, 1)), np.ones((1, 1))
    with pytest.raises(ValueError, match="without distances where the claim is replace-one"):
        find_violation(Gauss(), pairs=[((one,), (other,), 3.0)])
    with pytest.raises(ValueError, match="two tuples"):
        find_violation(Gauss(), pairs=[(one, other)])
    with pytest.raises(ValueError, match="give each of pairs its distance"):
        find_violation(Gauss(), pairs=[((one,), (other,))], metric="tree", **METRIC)


def test_pairs_of_words_under_a_metric():
    """Nothing lies between two words, and no others are made: the search ends with the pairs."""
    pairs = [((np.array([["a"]]),), (np.array([["b"]]),), 1.0)]
    report = find_violation(Names(), pairs=pairs, metric="tree", max_seconds=30, random_state=0, **METRIC)
    assert not report.violated
    assert report.counts.n_pairs == 1


class Grounds(BaseEstimator):
    """Rows in a norm of one's choice, which the guarantee names: options change the distance that a claim is about."""

    _parameter_constraints = {"ground": [StrOptions({"l1", "linf"})]}  # noqa: RUF012

    def __init__(self, epsilon=1.0, ground="linf", random_state=None):
        self.epsilon = epsilon
        self.ground = ground
        self.random_state = random_state

    def fit(self, X, y=None):
        X = np.asarray(X)
        if X.shape[1] != 10:
            raise ValueError("ten columns")
        rng = np.random.default_rng(self.random_state)
        shares = np.clip(X[0], 0.0, 1.0)
        share = shares.sum() / 2 if self.ground == "l1" else shares.max()
        self.coin_ = float(rng.random() < 0.25 + 0.5 * min(max(share / 2, 0.0), 1.0))
        self.privacy_guarantee_ = Claim(2.0 * self.epsilon, 0.0, "row", "metric", self.ground)
        return self


def test_distances_are_those_of_the_settings_of_a_pair():
    example = np.zeros((1, 10))
    search = Search(Subject(Grounds()), dict.fromkeys(GIVEN), None, 0.9, 10.0, None, 0)
    search.prepare(CheckData(example), None, None, [])
    assert {"ground": "l1"} in search.settings
    for _ in range(200):
        pair = search._propose()
        moves = np.abs(pair.second.X - pair.first.X)
        rho = moves.sum() if pair.settings.get("ground") == "l1" else moves.max()
        assert pair.distance == pytest.approx(rho, rel=1e-9)


class Total(BaseEstimator):
    """A noisy sum of the first column."""

    def __init__(self, epsilon=1.0, adjacency="replace-one", random_state=None):
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.random_state = random_state

    def fit(self, X, y=None):
        self.sum_ = X[:, 0].sum() + np.random.default_rng(self.random_state).laplace(scale=1 / self.epsilon)
        return self


def test_options_that_protect_something_else_are_not_held_to_the_claim():
    search = Search(Subject(Total()), dict.fromkeys(GIVEN), None, 0.9, 10.0, None, 0)
    search.prepare(CheckData(None), None, [{}, {"adjacency": "add-remove"}], [])
    rows = np.zeros((3, 1))
    one, other = CheckData(rows), CheckData(rows + 1.0)
    assert search.look(Pair(one, other, search.settings[0]), 4) is not None
    assert search.look(Pair(one, other, search.settings[1]), 4) is None


@pytest.mark.slow
def test_the_claim_is_read_from_a_run_on_the_pairs_of_the_caller():
    """An estimator of words takes no artificial numbers, and only a fit states what it protects."""
    states = {"metric": "precomputed", "distances": [[0, 1], [1, 0]], "states": ["a", "b"]}
    a, b = (np.array([[word]], dtype=object) for word in "ab")
    report = find_violation(
        MetricPrivatizer(**states), pairs=[((a,), (b,), 1.0)], settings=[{}], max_seconds=5, random_state=0
    )
    assert report.claim.adjacency == "metric" and not report.violated
    assert report.counts.n_tested == 1 and report.largest_share == pytest.approx(1.0)
