"""Claims against repeated fits: the sound are left alone, the broken are found, in every unit."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skprivate.audit import audit_estimator
from skprivate.audit._canaries import FitInput, canary_pairs
from skprivate.audit._released import released_values, stack_released
from skprivate.displays import AuditDisplay
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit


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


def sound_and_broken(epsilon, claim, params, n_runs):
    X, y = data()
    options = {"fit_params": params, "n_runs": n_runs, "simulate": True, "random_state": 0}
    sound = audit_estimator(LaplaceSum(epsilon, **claim), X, y, **options)
    broken = audit_estimator(LaplaceSum(epsilon, noise=0.5, **claim), X, y, **options)
    assert {"unit": sound.unit, "adjacency": sound.adjacency} == claim
    assert sound.claimed_epsilon == epsilon
    assert not sound.violated and broken.violated
    assert "VIOLATED" in str(broken) and "not refuted" in str(sound)


@pytest.mark.parametrize(("claim", "params"), SETTINGS, ids=lambda v: " ".join(map(str, v.values()))[:24])
def test_sound_and_broken_in_every_unit(claim, params):
    sound_and_broken(1.0, claim, params, 800)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_sound_and_broken_at_other_budgets(epsilon):
    sound_and_broken(epsilon, *SETTINGS[0], 3000)


def test_false_alarms_are_nominal():
    X, y = data()
    alarms = sum(
        audit_estimator(LaplaceSum(), X, y, n_runs=40, confidence=0.8, random_state=seed).violated
        for seed in range(40)
    )
    assert alarms <= 22  # binomial(40, .2) exceeds it with probability below 1e-6


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
    audit = audit_estimator(
        LaplaceSum(noise=0.2),
        X,
        y,
        neighbour=(other, y),
        statistic=lambda model: model.total_,
        distance=2.0,
        n_runs=400,
        random_state=0,
    )
    assert audit.claimed_epsilon == 2.0
    assert audit.violated


def test_fixed_seeds_do_not_hide_the_noise():
    X, y = data()
    audit = audit_estimator(LaplaceSum(random_state=3), X, y, n_runs=100, simulate=True, random_state=0)
    assert np.unique(audit.scores).size > 2
    assert not audit.violated


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
    for bad in ({"n_runs": 5}, {"confidence": 1.0}, {"distance": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            audit_estimator(LaplaceSum(), X, y, **bad)


def test_released_values_hold_what_a_reader_sees():
    X = data()[0]
    model = LaplaceSum().fit(X)
    values = released_values(model, X[:3])
    assert set(values) == {"total_", "predict"}
    ragged = [{"a": np.ones(2)}, {"a": np.ones(3)}, {"a": np.ones(2)}]
    assert stack_released(ragged, np.array([True, True, True])).shape == (3, 2)
    assert stack_released(ragged, np.array([True, False, True])).shape == (3, 2)


def test_display():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = data()
    audits = [audit_estimator(LaplaceSum(noise=n), X, y, n_runs=500, random_state=0) for n in (1.0, 0.2)]
    display = AuditDisplay.from_audits(audits)
    assert display.ax_.get_xlabel() == "ε"
    assert "claim refuted" in [text.get_text() for text in display.ax_.get_legend().get_texts()]
    plt.close(display.figure_)
