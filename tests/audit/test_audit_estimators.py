"""Claims against repeated fits: the sound are left alone, the broken are found, in every unit."""

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator

from skprivate.audit import audit_estimator
from skprivate.audit.claims._bets import Bets, Claim, claimed_curve, delta_of_group, of_group
from skprivate.audit.claims._neighbours import group_size, opposite_pairs
from skprivate.audit.claims._runs import Subject, last_digit, layout_of, numbers_of
from skprivate.privacy import (
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PrivacyUnit,
    PureEvent,
    ZeroConcentratedEvent,
)
from skprivate.utils import CheckData

#: Multiples of the ε of a claim at which its curve is bet on.
AT = np.array([0.0, 0.25, 0.5, 1.0])


def on_grid(noise):
    """Round noise to a grid: sums of floats and finer noise give the floats away by their last digits."""
    return float(np.rint(noise * 2**20) / 2**20)


def black_box(estimator, X, y=None, **options):
    return audit_estimator(estimator, X, y, method="black-box", **options)


class LaplaceSum(BaseEstimator):
    """Sum of clipped rows with Laplace noise; ``noise=0.5`` adds half of what the claim needs."""

    def __init__(self, epsilon=1.0, noise=1.0, unit="row", adjacency="add-remove", random_state=None):
        self.epsilon = epsilon
        self.noise = noise
        self.unit = unit
        self.adjacency = adjacency
        self.random_state = random_state

    def fit(self, X, y=None, user_ids=None, private=None):
        rng = np.random.default_rng(self.random_state)
        values = np.clip(np.asarray(X)[:, 0], 0.0, 1.0)
        if private is not None:
            values = values[np.asarray(private)]
        if self.unit == "label":
            values = np.asarray(y, dtype=float)
        if user_ids is not None:
            values = np.array([np.clip(values[user_ids == u].sum(), 0.0, 1.0) for u in np.unique(user_ids)])
        self.total_ = on_grid(values.sum() + rng.laplace(scale=self.noise / self.epsilon))
        self.privacy_guarantee_ = PrivacyGuarantee(self.epsilon, 0.0, PrivacyUnit(self.unit), Adjacency(self.adjacency))
        return self

    def predict(self, X):
        return np.full(len(X), self.total_)


class Stated(BaseEstimator):
    """A diffprivlib-like object: a parameter epsilon and no guarantee."""

    def __init__(self, epsilon=1.0, random_state=None):
        self.epsilon = epsilon
        self.random_state = random_state

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        self.coef_ = np.array([np.sum(y) + rng.laplace(scale=0.05 / self.epsilon)])
        return self


def data(n=20):
    X = np.linspace(0.0, 1.0, n)[:, None]
    return X, np.arange(n) % 2


SETTINGS = [
    ({"unit": "row", "adjacency": "add-remove"}, {}),
    ({"unit": "row", "adjacency": "replace-one"}, {}),
    ({"unit": "label", "adjacency": "replace-one"}, {}),
    ({"unit": "user", "adjacency": "add-remove"}, {"user_ids": np.repeat(np.arange(10), 2)}),
    ({"unit": "private row", "adjacency": "add-remove"}, {"private": np.arange(20) % 4 == 3}),
]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("claim", "params"), SETTINGS, ids=lambda v: " ".join(map(str, v.values()))[:24])
def test_sound_and_broken_in_every_unit(claim, params):
    X, y = data()
    options = {"fit_params": params, "n_runs": 1200, "simulate": True, "random_state": 0, "confidence": 0.95}
    sound = black_box(LaplaceSum(1.0, **claim), X, y, **options)
    broken = black_box(LaplaceSum(1.0, noise=0.4, **claim), X, y, **options)
    assert {"unit": sound.unit, "adjacency": sound.adjacency} == claim
    assert sound.claimed_epsilon == 1.0
    assert not sound.violated and broken.violated
    assert broken.evidence.n_runs < sound.evidence.n_runs <= 1200  # it stops as soon as the claim is refuted
    assert "VIOLATED" in str(broken) and "not refuted" in str(sound)


@pytest.mark.slow
def test_false_alarms_are_nominal():
    X, y = data()
    alarms = sum(
        black_box(LaplaceSum(), X, y, n_runs=40, confidence=0.8, random_state=seed).violated for seed in range(25)
    )
    assert alarms <= 17  # binomial(25, .2) exceeds it with probability below 1e-6


def outputs_of(kind, sides, rng):
    """Answer as a mechanism that just keeps its claim: all odds, or all of δ, are attained."""
    if kind == "cheat":  # now and then it gives all away, else nothing: (0, .05)-private
        return np.where(rng.random(sides.size) < 0.05, sides, rng.random(sides.size) < 0.5)
    return sides ^ (rng.random(sides.size) > 1.0 / (1.0 + np.exp(-1.0)))  # randomised response, ε = 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["response", "cheat"])
def test_false_alarms_in_many_null_bets(kind):
    """Bets of any size, tied scores, sides of unequal size, and a look after every round."""
    rng = np.random.default_rng(5)
    curve = claimed_curve(Claim(*((1.0, 0.0) if kind == "response" else (1e-9, 0.05))), AT)
    alpha, alarms = 0.2, 0
    for _ in range(400):
        bets, peak = Bets([curve], AT), 0.0
        for _ in range(4):
            sides = rng.random(40) < 0.5
            q = rng.choice([0.6, 0.75, 0.9, 0.99])
            bets.settle(np.where(outputs_of(kind, sides, rng), q, 1 - q), sides)
            peak = max(peak, bets.log_wealth()[0])
        alarms += peak >= -np.log(alpha)
    assert alarms <= 120  # binomial(400, .2) exceeds it with probability below 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.05), (1e-9, 0.05)])
def test_a_bet_has_expectation_one_at_most_exactly(epsilon, delta):
    """Over the two bits and all answers of the worst (ε, δ) pair, for every bet that a forecast can make."""
    curve, keep = claimed_curve(Claim(epsilon, delta), AT), 1.0 / (1.0 + np.exp(-epsilon))
    laws = {  # probability of each answer under the first and the second input
        "first, for certain": (delta, 0.0),
        "second, for certain": (0.0, delta),
        "first": ((1 - delta) * keep, (1 - delta) * (1 - keep)),
        "second": ((1 - delta) * (1 - keep), (1 - delta) * keep),
    }
    for q in (0.5, 0.51, 0.7, 0.9, 0.999):
        forecasts = {"first, for certain": 0.001, "second, for certain": 0.999, "first": 1 - q, "second": q}
        expected = 0.0
        for answer, law in laws.items():
            for side, probability in enumerate(law):
                bets = Bets([curve], AT)
                bets.settle(np.array([forecasts[answer]]), np.array([bool(side)]))
                expected = expected + 0.5 * probability * np.exp(bets.all)
        assert (expected <= 1.0 + 1e-12).all()


def test_bets_double_on_what_breaks_the_claim():
    rng = np.random.default_rng(0)
    bets = Bets([claimed_curve(Claim(1.0), AT)], AT)
    sides = rng.random(500) < 0.5
    q = 1.0 / (1.0 + np.exp(-2.0))
    shown = sides ^ (rng.random(500) > q)
    bets.settle(np.where(shown, q, 1 - q), sides)
    assert bets.log_wealth()[0] > np.log(1e6)


class GaussianSum(BaseEstimator):
    """Sum of clipped rows with Gaussian noise; ``noise=0.5`` adds half of what the claim needs."""

    def __init__(self, noise=1.0, random_state=None):
        self.noise = noise
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        self.total_ = on_grid(np.clip(X[:, 0], 0.0, 1.0).sum() + rng.normal(scale=self.noise * 8.0577))
        return self


def test_a_claim_for_one_unit_is_tested_on_groups():
    """μ = .124 of one row against .248 takes thousands of fits; 16 rows at once need a hundred."""
    X = np.linspace(0.0, 1.0, 60)[:, None]
    guarantee = PrivacyGuarantee(
        0.5, 1e-6, PrivacyUnit.ROW, Adjacency.REPLACE_ONE, events=((GaussianEvent(8.0577), 1),)
    )
    options = {"guarantee": guarantee, "confidence": 0.999, "n_runs": 800, "random_state": 0}
    sound, broken = (black_box(GaussianSum(noise), X, simulate=True, **options) for noise in (1.0, 0.5))
    assert broken.violated and broken.evidence.n_units > 8 and broken.evidence.family == "gaussian"
    assert not sound.violated and sound.claimed_epsilon == 0.5


@pytest.mark.parametrize("units", [1, 2, 7])
def test_claims_for_groups(units):
    at = np.array([0.0, 0.3, 2.0])
    mu = units / 5.0
    exact = norm.cdf(-at / mu + mu / 2) - np.exp(at) * norm.cdf(-at / mu - mu / 2)
    claim = claimed_curve(Claim(9.0, 1e-3, events=((GaussianEvent(5.0), 1),)), at, units)
    np.testing.assert_allclose(claim, exact, rtol=1e-9, atol=1e-20)
    assert of_group(ZeroConcentratedEvent(0.1), units).rho == pytest.approx(0.1 * units**2)
    for event in (LaplaceEvent(0.2), PureEvent(0.2), BoundedRangeEvent(0.2)):
        assert of_group(event, units).pure_epsilon == pytest.approx(0.2 * units)
    # Randomised response with a leak, applied along a chain of inputs, attains no more than the sum of δe^{jε}.
    assert delta_of_group(0.5, 1e-3, units) == pytest.approx(1e-3 * np.expm1(0.5 * units) / np.expm1(0.5))
    pure = claimed_curve(Claim(0.2), at, units)
    np.testing.assert_allclose(pure[0], np.tanh(0.1 * units))
    assert claimed_curve(Claim(0.2), np.array([0.2 * units]), units)[0] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "private row", "user", "label"])
def test_groups_are_as_many_units_apart_as_they_say(unit, adjacency):
    X, y = np.random.default_rng(0).normal(size=(24, 3)), np.arange(24) % 3
    users = np.repeat(np.arange(8), 3)
    params = {"user_ids": users, "private": np.arange(24) < 9}
    if unit == "row":
        del params["user_ids"]
    data = CheckData(X, y, params)
    assert group_size(data, unit, 3) == 3 and group_size(data, unit, 100) <= 12
    for one, other in opposite_pairs(data, unit, adjacency, 3):
        if len(one.X) == len(other.X):
            changed = np.flatnonzero((one.X != other.X).any(axis=1) | (one.y != other.y))
        else:
            assert adjacency == "add-remove" and unit != "label"
            changed = {"row": np.arange(21, 24), "private row": np.arange(6, 9), "user": np.arange(15, 24)}[unit]
            np.testing.assert_array_equal(one.X, np.delete(X, changed, axis=0))
            np.testing.assert_array_equal(np.delete(other.X, changed, axis=0), one.X)
        units = np.unique(users[changed]) if unit == "user" else changed
        assert units.size == 3
        assert unit != "private row" or params["private"][changed].all()


def test_objects_that_only_have_a_parameter():
    X, y = data()
    audit = black_box(Stated(), X, y, n_runs=200, random_state=0)
    assert audit.violated and audit.unit == "row"
    with pytest.raises(ValueError, match="claims nothing"):
        black_box(LaplaceSumWithoutClaim(), X, y, n_runs=20)


class LaplaceSumWithoutClaim(BaseEstimator):
    def fit(self, X, y=None):
        return self


def test_own_neighbour_statistic_and_distance():
    X, y = data()
    other = X.copy()
    other[-1] = 0.0
    options = {"neighbours": (other, y), "observable": lambda model: model.total_, "random_state": 0}
    metric = options | {"adjacency": "metric", "distance": 2.0, "n_runs": 400}
    audit = black_box(LaplaceSum(noise=0.2), X, y, **metric)
    assert audit.claimed_epsilon == 2.0
    assert audit.violated


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_no_distance_widens_a_claim_that_knows_none(distance):
    X, y = data()
    for claim in ({}, {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "replace-one"}):
        with pytest.raises(ValueError, match="distance must be given with neighbours"):
            black_box(LaplaceSum(noise=0.2), X, y, distance=distance, n_runs=40, **claim)


def test_a_metric_claim_is_audited_at_a_stated_distance():
    X, y = data()
    with pytest.raises(ValueError, match="distance must be given with neighbours under adjacency 'metric'.* got None"):
        black_box(LaplaceSum(), X, y, neighbours=(X[::-1], y), adjacency="metric")
    with pytest.raises(ValueError, match="neighbours must be given under adjacency 'metric'"):
        black_box(LaplaceSum(), X, y, adjacency="metric")
    assert black_box(LaplaceSum(), X, y, distance=None, n_runs=40, random_state=0).claimed_epsilon == 1.0
    with pytest.raises(TypeError, match="distance must be a positive finite number"):
        black_box(LaplaceSum(), X, y, neighbours=(X[::-1], y), adjacency="metric", distance="near")


def test_fixed_seeds_do_not_hide_the_noise():
    X, y = data()
    audit = black_box(LaplaceSum(random_state=3), X, y, n_runs=200, random_state=0)
    assert not audit.violated  # with one and the same noise every coin would be guessed


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "private row", "user", "label"])
def test_neighbours_differ_in_one_unit(unit, adjacency):
    X, y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    params = {"user_ids": np.repeat(np.arange(4), 3), "private": np.arange(12) < 5, "other": 7}
    for one, other in opposite_pairs(CheckData(X, y, params), unit, adjacency):
        if adjacency == "add-remove" and unit != "label":
            kept = np.isin(np.arange(12), [11] if unit == "row" else [4] if unit == "private row" else [9, 10, 11])
            np.testing.assert_array_equal(one.X, X[~kept])
            np.testing.assert_array_equal(one.metadata["user_ids"], params["user_ids"][~kept])
            one, other = CheckData(X[~kept], y[~kept], {}), other.take(np.flatnonzero(~kept))
            np.testing.assert_array_equal(one.X, other.X)
        else:
            changed = np.flatnonzero((one.X != other.X).any(axis=1) | (one.y != other.y))
            units = params["user_ids"][changed] if unit == "user" else changed
            assert np.unique(units).size == 1
            if unit == "private row":
                assert params["private"][changed].all()
            if unit == "label":
                np.testing.assert_array_equal(one.X, other.X)
        assert one.metadata == {} or one.metadata["other"] == 7


def test_units_that_need_help():
    X, y = data()
    with pytest.raises(ValueError, match="private"):
        opposite_pairs(CheckData(X, y, {}), "private row", "add-remove")
    with pytest.raises(ValueError, match="neighbour"):
        opposite_pairs(CheckData(X, y, {}), "data set", "metric")
    for bad in ({"n_runs": 5}, {"confidence": 1.0}, {"distance": 0.0}, {"max_seconds": 0.0}, {"observable": "x"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            black_box(LaplaceSum(), X, y, **bad)


def test_released_numbers_are_all_that_a_reader_sees():
    X = data()[0]
    values = Subject(LaplaceSum()).released(CheckData(X), {}, 0, X[:3])
    assert set(values) == {"total_", "predict"}
    ragged = [{"a": np.ones(2)}, {"a": np.ones(3)}, {"a": np.ones(2)}]
    assert layout_of(ragged) == [("a", -1)]
    assert numbers_of(ragged, [("a", -1)]).shape == (3, 6)
    assert numbers_of(ragged, [("a", 2)], digits=True).shape == (3, 9)


def test_last_digits():
    assert last_digit(np.array([1.0, 3.0, 0.75, 2.0**-1074, 0.0])).tolist() == [0, 0, -2, -1074, 2000]


def test_numbers_inside_released_objects_are_seen():
    from skprivate import CuratedBagGAMClassifier, MetricPrivateSynthesizer, RandomBagClassifier

    X, y = np.random.default_rng(0).random((30, 1)), np.arange(30) % 2
    for estimator, name in (
        (CuratedBagGAMClassifier(feature_sets="singles", classes=[0, 1]), "bags_.tables.0.label_sums"),
        (RandomBagClassifier(classes=[0, 1]), "bags_.label_sums"),
        (MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)), "measure_.weights"),
    ):
        values = Subject(estimator).released(CheckData(X, y if "bags" in name else None), {}, None)
        assert name in values, (name, sorted(values))


@pytest.mark.slow
def test_false_alarms_in_many_null_audits_of_an_estimator():
    X, y = data()
    options = {"n_runs": 100, "confidence": 0.8, "simulate": True}
    alarms = sum(black_box(LaplaceSum(), X, y, random_state=seed, **options).violated for seed in range(200))
    assert alarms <= binom.isf(1e-6, 200, 0.2)


def test_a_ledger_is_not_charged():
    from skprivate import PrivacyLedger, UserLevelMean

    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    X = np.random.default_rng(0).normal(size=(20, 1))
    for method in ("replay", "black-box"):
        model = UserLevelMean(epsilon=1.0, delta=1e-6, tau=1.0, ledger=ledger)
        audit_estimator(model, X, method=method, n_runs=20, n_neighbours=1, random_state=0)
    assert ledger.entries() == () or not ledger.entries()
