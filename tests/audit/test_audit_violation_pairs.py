"""Which pairs a search for violations takes, builds and measures: words, distances, options, columns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import StrOptions
from skprivate.audit.claims._violations_pairs import Pair, Recipes, Surroundings
from skprivate.audit.claims._violations_search import Search
from skprivate.audit.claims._violations_target import Claim, Inputs, Target

from skprivate.audit import find_violation

GIVEN = ("epsilon", "delta", "unit", "adjacency", "metric")


@pytest.mark.parametrize("unit", ["row", "user", "label", "private row"])
def test_pairs_have_the_columns_of_the_rows_they_are_made_of(unit):
    """Given rows have their own number of columns, whatever the recipe says; so has the victim."""
    labels = np.array([0, 1]) if unit in ("label", "private row") else None
    example = Inputs(np.linspace(0.0, 1.0, 16)[:, None], np.arange(16) % 2)
    place = Surroundings(
        Claim(1.0, 0.0, unit, "add-remove"), example, labels, True, unit == "user", unit == "private row"
    )
    recipes = Recipes(place, [{"bounds": (0.0, 1.0)}], np.random.default_rng(1))
    for _ in range(300):
        recipe = recipes.draw() | {"rows": "given"}
        pair = recipes.build(recipe)
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
    target = Target(Names(random_state=0))
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
        self.number_ = float(X[0, 0]) + np.random.default_rng(self.random_state).normal(scale=self.scale)
        return self


def _gaussian_delta(move, epsilon):
    """The least δ of Gaussian noise of scale 1 at this ε (Balle and Wang 2018, Theorem 8)."""
    return norm.cdf(move / 2 - epsilon / move) - math.exp(epsilon) * norm.cdf(-move / 2 - epsilon / move)


METRIC = {"unit": "row", "adjacency": "metric"}


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
        if report.n_tested:
            assert report.claimed_epsilon == pytest.approx(epsilon * rho)
            assert report.claimed_delta == delta
            assert report.distance == rho


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
    assert report.n_pairs == 1


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
    search = Search(Target(Grounds()), dict.fromkeys(GIVEN), None, 0.9, 10.0, None, np.random.default_rng(0))
    search.prepare(Inputs(example), None, None)
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
    search = Search(Target(Total()), dict.fromkeys(GIVEN), None, 0.9, 10.0, None, np.random.default_rng(0))
    search.prepare(Inputs(None), None, [{}, {"adjacency": "add-remove"}])
    rows = np.zeros((3, 1))
    one, other = Inputs(rows), Inputs(rows + 1.0)
    assert search.look(Pair(one, other, search.settings[0]), 4) is not None
    assert search.look(Pair(one, other, search.settings[1]), 4) is None


class Regression(RegressorMixin, BaseEstimator):
    """The sum of targets with noise; notes every target's number of columns."""

    def __init__(self, epsilon=1.0, several=False, random_state=None):
        self.epsilon = epsilon
        self.several = several
        self.random_state = random_state

    def fit(self, X, y):
        y = np.asarray(y, dtype=float)
        SEEN.append(y.ndim)
        if y.ndim > 1 and not self.several:
            raise ValueError("one output only")
        rng = np.random.default_rng(self.random_state)
        self.sum_ = np.clip(y, 0.0, 1.0).reshape(len(y), -1)[:, 0].sum() + rng.laplace(
            scale=1.0 / self.epsilon
        )
        return self


SEEN: list[int] = []


@pytest.mark.parametrize("several", [False, True])
def test_several_outputs_are_proposed_to_those_who_take_them(several):
    SEEN.clear()
    report = find_violation(Regression(several=several), max_pairs=60, max_seconds=60.0, random_state=0)
    assert not report.violated
    asked = SEEN.count(2)
    assert asked > 10 if several else asked <= 4
    if not several:
        assert report.n_refused == 0
