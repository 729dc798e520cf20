"""Claims against repeated fits: the sound are left alone, the broken are found, in every unit."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator

from skprivate.audit import audit_estimator
from skprivate.audit.claims._canaries import FitInput, canary_pairs
from skprivate.audit.claims._coins import designs
from skprivate.audit.claims._forecasts import N_EXPERTS, _views
from skprivate.audit.claims._released import released_values, stack_released
from skprivate.audit.claims._wagers import Forecast, Wagers, claimed_curve, delta_of_group, of_group, ratios
from skprivate.privacy import (
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PrivacyUnit,
    PureEvent,
    ZeroConcentratedEvent,
    public_generator,
)


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
        self.total_ = values.sum() + rng.laplace(scale=self.noise / self.epsilon)
        self.privacy_guarantee_ = PrivacyGuarantee(
            self.epsilon, 0.0, PrivacyUnit(self.unit), Adjacency(self.adjacency)
        )
        return self

    def predict(self, X):
        return np.full(len(X), self.total_)


class Claim(BaseEstimator):
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


@pytest.mark.parametrize(("claim", "params"), SETTINGS, ids=lambda v: " ".join(map(str, v.values()))[:24])
def test_sound_and_broken_in_every_unit(claim, params):
    X, y = data()
    options = {"fit_params": params, "n_runs": 1200, "simulate": True, "random_state": 0, "confidence": 0.95}
    sound = audit_estimator(LaplaceSum(1.0, **claim), X, y, **options)
    broken = audit_estimator(LaplaceSum(1.0, noise=0.4, **claim), X, y, **options)
    assert {"unit": sound.unit, "adjacency": sound.adjacency} == claim
    assert sound.claimed_epsilon == 1.0
    assert not sound.violated and broken.violated
    assert broken.n_fits < sound.n_fits <= 1200  # it stops as soon as the claim is refuted
    assert "VIOLATED" in str(broken) and "not refuted" in str(sound)
    assert sound.to_frame().loc["LaplaceSum", "n_fits"] == sound.n_fits


def test_false_alarms_are_nominal():
    X, y = data()
    alarms = sum(
        audit_estimator(LaplaceSum(), X, y, n_runs=40, confidence=0.8, random_state=seed).violated
        for seed in range(25)
    )
    assert alarms <= 17  # binomial(25, .2) exceeds it with probability below 1e-6


@pytest.mark.slow
def test_thousands_of_canaries_in_one_fit():
    from skprivate import CuratedBagGAMClassifier

    X, y = np.arange(300)[:, None].astype(str), np.arange(300) % 2
    bags = {"feature_sets": "singles", "categorical_features": "all", "min_size": 1, "classes": [0, 1]}
    sound = CuratedBagGAMClassifier(epsilon=1.0, delta=0.0, **bags).fit(X, y).privacy_guarantee_
    options = {
        "n_runs": 40,
        "random_state": 0,
        "confidence": 0.999,
        "guarantee": sound,
        "observable": "released",
    }
    audits = [
        audit_estimator(CuratedBagGAMClassifier(epsilon=epsilon, delta=0.0, **bags), X, y, **options)
        for epsilon in (1.0, 2.0)
    ]
    assert [audit.violated for audit in audits] == [False, True]
    assert {(audit.design, audit.n_coins) for audit in audits} == {("labels", 300)}


def test_draws_made_again():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LinearRegression

    from skprivate import UserLevelSelector

    models = [(f"{w}", FrozenEstimator(LinearRegression().fit([[0.0], [1.0]], [0.0, w]))) for w in (1, -1)]
    X, y = np.ones((2, 1)), np.array([1.0, 1.0])
    options = {"neighbour": (X, np.array([1.0, -1.0])), "observable": "mechanism", "confidence": 0.999}
    options |= {"max_seconds": 5.0, "random_state": 0}
    guarantee = UserLevelSelector(models, epsilon=1.0).fit(X, y).privacy_guarantee_
    broken = audit_estimator(UserLevelSelector(models, epsilon=2.0), X, y, guarantee=guarantee, **options)
    assert broken.violated and broken.design == "draws" and broken.n_fits <= 6


def test_draws_are_made_again_only_where_nothing_but_the_units_differs():
    """Each fit puts other rows into its bags: sums of two fits differ by more than the label of one row."""
    from skprivate import RandomBagRegressor

    X, y = np.arange(200.0)[:, None], np.arange(200) % 2
    estimator = RandomBagRegressor(epsilon=1.0, bag_size=1, label_bounds=(0.0, 1.0))
    options = {"observable": "mechanism", "confidence": 0.999, "n_runs": 60, "random_state": 0}
    audit = audit_estimator(estimator, X, y, **options)
    assert not audit.violated and audit.design != "draws"


def outputs_of(kind, coins, together, rng):
    """What a mechanism shows that just keeps its claim: all odds, or all of δ, are attained."""
    if kind == "cheat":  # now and then it gives all away, else nothing: each coin is (0, .05)-private
        gives = rng.random(1 if together else coins.size) < 0.05
        return np.where(gives, coins, rng.random(coins.size) < 0.5)
    return coins ^ (rng.random(coins.size) > 1.0 / (1.0 + np.exp(-1.0)))  # randomised response, ε = 1


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("kind", ["response", "cheat"])
def test_false_alarms_in_many_null_games(kind, together):
    """Bets of any size, tied scores, sides of unequal size, and a look after every round."""
    rng = np.random.default_rng(5)
    epsilon, delta = (1.0, 0.0) if kind == "response" else (1e-9, 0.05)
    at = ratios(1.0)
    claim = claimed_curve(epsilon, delta, (), at)
    m, alpha, alarms = 40, 0.2, 0
    for _ in range(400):
        wagers, peak = Wagers([claim], at, N_EXPERTS), 0.0
        for _ in range(4):
            coins = rng.random(m) < 0.5
            shown = outputs_of(kind, coins, together, rng)
            q = rng.choice([0.6, 0.75, 0.9, 0.99], size=(N_EXPERTS, 1))
            forecast = Forecast(np.where(shown, q, 1 - q), np.full(at.size, rng.choice([0.1, 1.0])))
            wagers.settle(forecast, coins, of_one_fit=together)
            peak = max(peak, wagers.log_wealth()[0])
        alarms += peak >= -np.log(alpha)
    assert alarms <= 120  # binomial(400, .2) exceeds it with probability below 1e-6


def test_bets_double_on_what_breaks_the_claim():
    rng, at = np.random.default_rng(0), ratios(1.0)
    wagers = Wagers([claimed_curve(1.0, 0.0, (), at)], at, N_EXPERTS)
    coins = rng.random(500) < 0.5
    shown = coins ^ (rng.random(500) > 1.0 / (1.0 + np.exp(-2.0)))
    q = 1.0 / (1.0 + np.exp(-2.0))
    wagers.settle(
        Forecast(np.tile(np.where(shown, q, 1 - q), (N_EXPERTS, 1)), np.ones(at.size)), coins, of_one_fit=True
    )
    assert wagers.log_wealth()[0] > np.log(1e6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "label", "user"])
def test_one_coin_changes_one_unit(unit, adjacency):
    """Whatever the other coins show."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 12)), np.arange(40) % 2
    params = {"user_ids": np.repeat(np.arange(20), 2)} if unit == "user" else {}
    for design in designs(FitInput(X, y, params), None, unit, adjacency, False):
        coins = rng.random(design.n_coins) < 0.5
        for i in range(design.n_coins):
            flipped = coins.copy()
            flipped[i] ^= True
            one, other = (
                {(*x, label) for x, label in zip(each.X.tolist(), each.y.tolist(), strict=True)}
                for each in (design.make(coins), design.make(flipped))
            )
            users = 2 if unit == "user" else 1
            if adjacency == "add-remove" and unit != "label":
                assert 1 <= len(one ^ other) <= users and (one < other or other < one), design.name
            else:
                assert len(one - other) <= users and len(other - one) <= users, design.name


class GaussianSum(BaseEstimator):
    """Sum of clipped rows with Gaussian noise; ``noise=0.5`` adds half of what the claim needs."""

    def __init__(self, noise=1.0, random_state=None):
        self.noise = noise
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        self.total_ = np.clip(X[:, 0], 0.0, 1.0).sum() + rng.normal(scale=self.noise * 8.0577)
        return self


def test_a_claim_for_one_unit_is_tested_on_groups():
    """μ = .124 of one row against .248 takes thousands of fits; 16 rows at once need a hundred."""
    X = np.linspace(0.0, 1.0, 60)[:, None]
    guarantee = PrivacyGuarantee(
        0.5, 1e-6, PrivacyUnit.ROW, Adjacency.REPLACE_ONE, events=((GaussianEvent(8.0577), 1),)
    )
    options = {"guarantee": guarantee, "confidence": 0.999, "n_runs": 800, "random_state": 0}
    sound, broken = (audit_estimator(GaussianSum(noise), X, simulate=True, **options) for noise in (1.0, 0.5))
    assert broken.violated and broken.n_units > 8 and broken.family == "gaussian"
    assert not sound.violated and sound.claimed_epsilon == 0.5


@pytest.mark.parametrize("units", [1, 2, 7])
def test_claims_for_groups(units):
    at = np.array([0.0, 0.3, 2.0])
    mu = units / 5.0
    exact = norm.cdf(-at / mu + mu / 2) - np.exp(at) * norm.cdf(-at / mu - mu / 2)
    claim = claimed_curve(9.0, 1e-3, [(GaussianEvent(5.0), 1)], at, units)
    np.testing.assert_allclose(claim.deltas, exact, rtol=1e-9, atol=1e-20)
    assert of_group(ZeroConcentratedEvent(0.1), units).rho == pytest.approx(0.1 * units**2)
    for event in (LaplaceEvent(0.2), PureEvent(0.2), BoundedRangeEvent(0.2)):
        assert of_group(event, units).pure_epsilon == pytest.approx(0.2 * units)
    # Randomised response with a leak, applied along a chain of inputs, attains no more than the sum of δe^{jε}.
    assert delta_of_group(0.5, 1e-3, units) == pytest.approx(1e-3 * np.expm1(0.5 * units) / np.expm1(0.5))
    pure = claimed_curve(0.2, 0.0, (), at, units)
    assert pure.epsilon == pytest.approx(0.2 * units)
    np.testing.assert_allclose(pure.deltas[0], np.tanh(0.1 * units))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "private row", "user", "label"])
def test_groups_are_as_many_units_apart_as_they_say(unit, adjacency):
    X, y = np.random.default_rng(0).normal(size=(24, 3)), np.arange(24) % 3
    users = np.repeat(np.arange(8), 3)
    params = {"user_ids": users, "private": np.arange(24) < 9}
    if unit == "row":
        del params["user_ids"]
    for design in designs(FitInput(X, y, params), None, unit, adjacency, False, wanted=3):
        if design.n_coins > 1 or design.n_units == 1:
            continue
        one, other = (design.make(np.array([coin])) for coin in (False, True))
        if len(one.X) == len(other.X):
            changed = np.flatnonzero((one.X != other.X).any(axis=1) | (one.y != other.y))
        else:
            assert adjacency == "add-remove" and unit != "label"
            changed = {"row": np.arange(21, 24), "private row": np.arange(6, 9), "user": np.arange(15, 24)}[
                unit
            ]
            np.testing.assert_array_equal(one.X, np.delete(X, changed, axis=0))
            np.testing.assert_array_equal(np.delete(other.X, changed, axis=0), one.X)
        units = np.unique(users[changed]) if unit == "user" else changed
        assert units.size == design.n_units == 3
        assert unit != "private row" or params["private"][changed].all()


def test_objects_that_only_have_a_parameter():
    X, y = data()
    audit = audit_estimator(Claim(), X, y, n_runs=200, random_state=0)
    assert audit.violated and audit.unit == "row"
    with pytest.raises(ValueError, match="claims nothing"):
        audit_estimator(LaplaceSumWithoutClaim(), X, y, n_runs=20)


class LaplaceSumWithoutClaim(BaseEstimator):
    def fit(self, X, y=None):
        return self


def test_own_neighbour_statistic_and_distance():
    X, y = data()
    other = X.copy()
    other[-1] = 0.0
    options = {"neighbour": (other, y), "observable": lambda model: model.total_, "random_state": 0}
    metric = options | {"adjacency": "metric", "distance": 2.0, "n_runs": 400}
    audit = audit_estimator(LaplaceSum(noise=0.2), X, y, **metric)
    assert audit.claimed_epsilon == 2.0
    assert audit.violated


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_no_distance_widens_a_claim_that_knows_none(distance):
    X, y = data()
    for claim in ({}, {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "replace-one"}):
        with pytest.raises(ValueError, match=r"distance must be given under adjacency 'metric', and nowhere"):
            audit_estimator(LaplaceSum(noise=0.2), X, y, distance=distance, n_runs=40, **claim)


def test_a_metric_claim_is_audited_at_a_stated_distance():
    X, y = data()
    with pytest.raises(ValueError, match="distance must be given under adjacency 'metric'.* got None"):
        audit_estimator(LaplaceSum(), X, y, neighbour=(X[::-1], y), adjacency="metric")
    with pytest.raises(ValueError, match="neighbour must be given under adjacency 'metric'"):
        audit_estimator(LaplaceSum(), X, y, adjacency="metric", distance=1.0)
    assert (
        audit_estimator(LaplaceSum(), X, y, distance=None, n_runs=40, random_state=0).claimed_epsilon == 1.0
    )
    with pytest.raises(TypeError, match="distance must be a positive finite number"):
        audit_estimator(LaplaceSum(), X, y, neighbour=(X[::-1], y), adjacency="metric", distance="near")


def test_fixed_seeds_do_not_hide_the_noise():
    X, y = data()
    audit = audit_estimator(LaplaceSum(random_state=3), X, y, n_runs=200, random_state=0)
    assert not audit.violated  # with one and the same noise every coin would be guessed


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "private row", "user", "label"])
def test_neighbours_differ_in_one_unit(unit, adjacency):
    X, y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    params = {"user_ids": np.repeat(np.arange(4), 3), "private": np.arange(12) < 5, "other": 7}
    for one, other in canary_pairs(FitInput(X, y, params), unit, adjacency):
        if adjacency == "add-remove" and unit != "label":
            kept = np.isin(
                np.arange(12), [11] if unit == "row" else [4] if unit == "private row" else [9, 10, 11]
            )
            np.testing.assert_array_equal(one.X, X[~kept])
            np.testing.assert_array_equal(one.params["user_ids"], params["user_ids"][~kept])
            one, other = FitInput(X[~kept], y[~kept], {}), other.take(np.flatnonzero(~kept))
            np.testing.assert_array_equal(one.X, other.X)
        else:
            changed = np.flatnonzero((one.X != other.X).any(axis=1) | (one.y != other.y))
            units = params["user_ids"][changed] if unit == "user" else changed
            assert np.unique(units).size == 1
            if unit == "private row":
                assert params["private"][changed].all()
            if unit == "label":
                np.testing.assert_array_equal(one.X, other.X)
        assert one.params == {} or one.params["other"] == 7


def test_units_that_need_help():
    X, y = data()
    with pytest.raises(ValueError, match="private"):
        canary_pairs(FitInput(X, y, {}), "private row", "add-remove")
    with pytest.raises(ValueError, match="neighbour"):
        canary_pairs(FitInput(X, y, {}), "data set", "metric")
    for bad in (
        {"n_runs": 5},
        {"confidence": 1.0},
        {"distance": 0.0},
        {"max_seconds": 0.0},
        {"observable": "x"},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            audit_estimator(LaplaceSum(), X, y, **bad)


def test_released_values_hold_what_a_reader_sees():
    X = data()[0]
    model = LaplaceSum().fit(X)
    values = released_values(model, X[:3])
    assert set(values) == {"total_", "predict"}
    ragged = [{"a": np.ones(2)}, {"a": np.ones(3)}, {"a": np.ones(2)}]
    block, layout = stack_released(ragged)
    assert block.shape == (3, 3) and layout == {"a": -1}
    assert stack_released(ragged, {"a": 2})[0].shape == (3, 3)


def test_released_values_hold_what_is_inside_released_objects():
    from skprivate import CuratedBagGAMClassifier, MetricPrivateSynthesizer, RandomBagClassifier

    X, y = np.random.default_rng(0).random((30, 1)), np.arange(30) % 2
    for estimator, name in (
        (CuratedBagGAMClassifier(feature_sets="singles", classes=[0, 1]), "bags_.tables.0.label_sums"),
        (RandomBagClassifier(classes=[0, 1]), "bags_.label_sums"),
        (MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)), "measure_.weights"),
    ):
        values = released_values(estimator.fit(X, y) if "bags" in name else estimator.fit(X), None)
        assert name in values, (name, sorted(values))


def test_a_number_that_never_changes_tells_nothing_and_breaks_nothing():
    rng = public_generator(0)
    z, coins = rng.normal(size=(20, 3)), np.arange(20) % 2 == 0
    z[:, 1] = 0.0
    z[coins, 2] += 9.0
    told = [learn(z, coins)(z) for learn in _views(z, coins)[-3:]]  # single numbers, the best of them first
    np.testing.assert_array_equal(told[0], z[:, 2])
    np.testing.assert_array_equal(told[2], z[:, 1])
