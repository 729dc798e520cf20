"""The search for violations: it finds planted faults, leaves sound mechanisms alone, and its figures are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator
from skprivate.audit.claims._violations_laws import (
    _lattice_step,
    epsilon_bound,
    event_p_value,
    row_features,
    separation,
)
from skprivate.audit.claims._violations_metric import halves, setting_variants, with_distance
from skprivate.audit.claims._violations_pairs import Pair, Recipes, Surroundings
from skprivate.audit.claims._violations_target import Claim, Inputs, Target, table

from skprivate.audit import find_violation


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
        self.sum_ = total + rng.laplace(scale=self.sensitivity / self.epsilon)
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
    assert report.epsilon_lower_bound > report.claimed_epsilon
    assert "VIOLATED" in str(report)


def test_a_switch_by_the_number_of_rows_is_found():
    report = find_violation(
        SwitchesByRows(adjacency="add-remove"), unit="row", max_seconds=30, max_pairs=400, random_state=0
    )
    assert report.violated
    assert abs(len(report.first.X) - len(report.second.X)) == 1


def test_a_sound_mechanism_is_left_alone():
    report = find_violation(Sums(), max_pairs=60, random_state=1)
    assert not report.violated
    assert "no violation found" in str(report)
    assert report.n_pairs >= 60


def test_what_one_input_alone_is_refused_for_is_listed():
    report = find_violation(Refuses(), max_pairs=120, random_state=0)
    assert report.n_refused > 0
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
    assert report.n_pairs == 1


def test_integers_that_pass_through_floats_are_found_by_halving():
    def shifted(X, random_state=None):
        rng = np.random.default_rng(random_state)
        return np.asarray(X, dtype=np.float64)[0, 0] + np.rint(rng.laplace())

    claim = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1"}
    report = find_violation(shifted, np.array([[0]]), max_seconds=30, random_state=0, **claim)
    assert report.violated
    assert abs(int(report.first.X[0, 0])) >= 2**53


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


def test_a_jump_of_a_randomiser_is_found_by_halving():
    claim = {"delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1", "settings": [{}]}
    report = find_violation(
        RowNoise(10.0, steps=4), np.zeros((2, 1)), max_seconds=30, random_state=0, **claim
    )
    assert report.violated
    assert report.distance < 0.25
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
    assert reports[0].how == reports[1].how


class RowsPerUser(BaseEstimator):
    """A sum over users that is turned round when the number of rows, which is a user's secret, is odd."""

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y=None, user_ids=None):
        ids = np.arange(len(X)) if user_ids is None else np.asarray([repr(who) for who in user_ids])
        firsts = np.unique(ids, return_index=True)[1]
        total = np.clip(np.nan_to_num(X[firsts, 0]), -1.0, 1.0).sum() * (-1) ** len(X)
        self.sum_ = total + np.random.default_rng(self.random_state).laplace(scale=2.0 / self.epsilon)
        return self


def test_users_numbers_of_rows_are_searched_wherever_identifiers_are_taken():
    """The estimator says nothing of users: without identifiers, each row is one."""
    report = find_violation(RowsPerUser(), max_seconds=30, max_pairs=400, random_state=0)
    assert report.violated
    assert report.unit == "user"
    assert len(report.first.X) != len(report.second.X)
    rows = find_violation(RowsPerUser(), unit="row", max_pairs=20, random_state=0)
    assert not rows.violated
    assert rows.unit == "row"


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


def test_false_alarms_are_nominal():
    """At the boundary of the claim; 40 searches at a nominal 20 %: more than 24 with probability below 1e-7."""
    assert _false_alarms(40, 0.8) <= 24


@pytest.mark.slow
def test_false_alarms_in_many_null_searches():
    assert _false_alarms(400, 0.9) <= binom.isf(1e-6, 400, 0.1)


def test_p_values_hold_exactly():
    """P(p ≤ a) ≤ a over the exact law of the counts, at the boundary of the claim."""
    epsilon, n = 0.7, 25
    for q in (0.02, 0.2, 0.45):
        p = math.exp(epsilon) * q
        for level in (0.3, 0.05, 1e-3):
            total = 0.0
            for j in range(n + 1):
                for k in range(n + 1):
                    if event_p_value(j, n, k, n, epsilon, 0.0) <= level:
                        total += binom.pmf(j, n, p) * binom.pmf(k, n, q)
            assert total <= level


def test_p_values_and_bounds_agree():
    for counts in ((60, 67, 2, 67), (300, 300, 0, 300), (600, 600, 0, 600)):
        p_value = event_p_value(*counts, 1.0, 1e-6)
        assert (
            epsilon_bound(*counts, 1e-6, p_value * 1.01) >= 1.0 >= epsilon_bound(*counts, 1e-6, p_value * 0.5)
        )
    assert event_p_value(10, 100, 10, 100, 1.0, 0.0) == 1.0


# --- parts ----------------------------------------------------------------------------------------------------------


def test_separation_is_that_of_the_means():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 3))
    assert separation(noise, noise, True) == 0.0
    assert 1.6 < separation(noise, noise + np.array([2.0, 0.0, 0.0]), True) < 2.4
    assert separation(np.zeros((8, 1)), np.ones((8, 1)), True) > 1e9


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["row", "user", "label", "private row"])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_pairs_differ_in_one_unit(unit, adjacency):
    rng = np.random.default_rng(0)
    labels = np.array([0, 1]) if unit in ("label", "private row") else None
    place = Surroundings(
        Claim(1.0, 0.0, unit, adjacency), Inputs(None), labels, True, unit == "user", unit == "private row"
    )
    recipes = Recipes(place, [{}], rng)
    for _ in range(300):
        recipe = recipes.draw()
        pair = recipes.build(recipes.change(recipe))
        again = recipes.build({**pair.genes, "settings": 0})
        np.testing.assert_array_equal(pair.first.X, again.first.X)
        if unit == "user" and "user_ids" in pair.first.params:
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
    rows = zip(inputs.params["user_ids"], inputs.X.tolist(), inputs.y.tolist(), strict=True)
    for who, x, target in rows:
        users.setdefault(str(type(who)) + str(who), []).append(str((x, target)))
    return {who: sorted(rows) for who, rows in users.items()}


def test_halves_lie_between_and_add_up():
    claim = Claim(1.0, 0.0, "row", "metric", "l2")
    pair = with_distance(Pair(Inputs(np.zeros((1, 2))), Inputs(np.array([[3.0, 4.0]]))), claim, None)
    assert pair.distance == pytest.approx(5.0)
    steps = halves(pair, claim, None)
    assert sum(step.distance for step in steps) == pytest.approx(5.0)
    whole = Pair(Inputs(np.array([[2**61]])), Inputs(np.array([[2**61 + 1]])))
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

    target = Target(lambda X: Result())
    found = target.released(Inputs(np.zeros((1, 1))), {}, None)
    assert set(found) == {"value.table.a", "value.table.name"}
    values, names = table([found, {**found, "value.table.a": np.array([1.0])}])
    assert values.shape == (2, len(names))
    assert "size of value.table.a" in names


def test_the_lattice_of_an_output_is_seen():
    assert _lattice_step(np.array([0.75, 1.5, -3.0])) == 0.25
    values = np.array([[0.6, 0.8], [0.5, 0.0]])
    features, names = row_features(values, np.zeros((1, 2)), np.ones((1, 2)))
    assert features.shape == (2, len(names))
