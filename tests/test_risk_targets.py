"""Budgets stated as a risk: every private estimator keeps to them by its own events, and nothing else changes."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from variants import VARIANTS

import skprivate as sp
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.inspection import check_pipeline, guarantee_of
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import (
    Adjacency,
    BudgetExceededError,
    LaplaceEvent,
    PrivacyGuarantee,
    PrivacyLedger,
    RiskTarget,
    _risk,
    epsilon_of_risk,
    open_release,
    public_generator,
)
from skprivate.privacy._risk_target import _RUNNING

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore:private_label is None:UserWarning"),
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.privacy.LedgerUnitWarning"),
]

TARGET = RiskTarget(tpr=0.05, fpr=0.01)
X = public_generator(1).uniform(-1, 1, size=(400, 2))
Y = X @ [1.0, -2.0]


def bare(epsilon, delta=0.0):
    return PrivacyGuarantee(epsilon, delta, "row", "replace-one")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["tpr", "advantage", "posterior", "best_guess"]),
    st.floats(0.02, 0.95),
    st.floats(0.001, 0.9),
    st.floats(0.05, 0.95),
    st.sampled_from([0.0, 1e-9, 1e-5]),
)
def test_every_mechanism_keeps_to_the_epsilon_of_a_target(name, share, fpr, prior, delta):
    idle = {"tpr": fpr, "advantage": 0.0, "posterior": prior, "best_guess": max(prior, 1 - prior)}[name]
    target = RiskTarget(**{name: idle + share * (1 - idle)}, fpr=fpr, prior=prior)
    epsilon = target.epsilon(delta)
    assert target.met_by(bare(epsilon, delta))
    assert getattr(bare(epsilon, delta).risk(prior, fpr), name) <= getattr(target, name)
    # No more than a thousandth is given away.
    assert epsilon > 15 or not target.met_by(bare(epsilon * 1.002, delta))


def test_only_what_is_asked_for_is_computed(monkeypatch):
    """A search for a false positive rate takes dozens of values of the curve at each ε that is tried."""
    asked = []
    monkeypatch.setattr(_risk, "_largest_tpr", lambda *terms: asked.append(terms) or 0.04)
    assert RiskTarget(advantage=0.5).met_by(bare(0.5)) and RiskTarget(best_guess=0.9).met_by(bare(0.5))
    assert not asked
    assert RiskTarget(tpr=0.05, posterior=0.9, advantage=0.5).met_by(bare(0.5)) and len(asked) == 1


def test_closed_forms():
    assert TARGET.epsilon() == pytest.approx(math.log(5), rel=1.1e-3) and TARGET.epsilon() <= math.log(5)
    assert TARGET.epsilon(1e-6) <= epsilon_of_risk(tpr=0.05, fpr=0.01, delta=1e-6)
    advantage = RiskTarget(advantage=0.2).epsilon()
    assert advantage == pytest.approx(2 * math.atanh(0.2), rel=1.1e-3) and advantage <= 2 * math.atanh(0.2)
    # Of two targets the stricter one counts.
    assert RiskTarget(tpr=0.05, advantage=0.2).epsilon() == pytest.approx(advantage, rel=1.1e-3)


#: Left to the slow run.
LONG = {PrivateSearchCV, sp.CuratedBagGAMRegressor, sp.RandomBagRegressor, sp.UserLevelSelector}


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({}, "one of tpr, advantage, posterior, best_guess"),
        ({"tpr": 0.01}, r"tpr must be a number in \(0.01, 1\)"),
        ({"tpr": 1.0}, "tpr"),
        ({"advantage": 0.0}, "advantage"),
        ({"posterior": 0.5}, "posterior"),
        ({"best_guess": 0.6, "prior": 0.3}, r"best_guess must be a number in \(0.7, 1\)"),
        ({"tpr": 0.5, "fpr": 0.0}, "fpr"),
        ({"tpr": 0.5, "prior": math.nan}, "prior"),
    ],
)
def test_targets_that_say_nothing(terms, said):
    with pytest.raises(ValueError, match=said):
        RiskTarget(**terms)
    with pytest.raises(TypeError):
        RiskTarget(tpr="0.5")


def test_delta_alone_may_be_too_much():
    with pytest.raises(ValueError, match="delta must be small enough for RiskTarget"):
        RiskTarget(advantage=0.01).epsilon(0.02)


@pytest.mark.take_turns(3)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in LONG else ())
        for kind in sorted(VARIANTS, key=lambda kind: kind.__name__)
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_private_estimator_keeps_to_a_target(kind):
    every = VARIANTS[kind]
    for k in sorted({0, len(every) // 3, len(every) - 1}):
        instance, makers = every[k]
        data = makers[0](instance, public_generator(k), 30)
        ledger = PrivacyLedger(epsilon=100.0, delta=0.5, unit=None, composition="basic")
        model = clone(instance).set_params(epsilon=TARGET, ledger=ledger)
        if kind is sp.MetricPrivatizer or getattr(model, "metric", None) == "wasserstein":
            with pytest.raises(ValueError, match="epsilon must be a number"):
                model.fit(data.X, data.y, **data.metadata)
            assert ledger.entries() == []
            continue
        model.fit(data.X, data.y, **data.metadata)
        said = model.privacy_guarantee_
        assert said.risk(fpr=0.01).tpr <= 0.05 and TARGET.met_by(said)
        assert model.epsilon is TARGET and said.epsilon <= model.epsilon_ * (1 + 1e-9)
        assert model.epsilon_ >= TARGET.epsilon(said.delta) * (1 - 1e-3)
        [entry] = ledger.entries()
        assert entry.epsilon == said.epsilon and entry.closed
        assert "RiskTarget(tpr=0.05" in entry.parameters["epsilon"]


def test_events_buy_more_than_numbers():
    """User-level descent: an advantage of .094 is what its events hold at ε = 1, and (ε, δ) alone at ε = .19."""
    model = sp.UserLevelSGDRegressor(epsilon=RiskTarget(advantage=0.0944), radius=5.0)
    model.fit(X, Y)
    assert model.privacy_guarantee_.risk().advantage <= 0.0944
    assert 0.98 < model.epsilon_ < 1.02 and RiskTarget(advantage=0.0944).epsilon(1e-6) < 0.2
    plain = sp.UserLevelSGDRegressor(epsilon=model.epsilon_, radius=5.0).fit(X, Y)
    assert not hasattr(plain, "epsilon_")
    assert plain.privacy_guarantee_.events == model.privacy_guarantee_.events
    # A number again: the attribute of the earlier fit goes.
    assert not hasattr(model.set_params(epsilon=1.0).fit(X, Y), "epsilon_")


def test_a_target_is_a_value():
    assert pickle.loads(pickle.dumps(TARGET)) == TARGET and hash(TARGET) == hash(RiskTarget(tpr=0.05))
    model = sp.UserLevelMean(epsilon=TARGET)
    assert clone(model).epsilon == TARGET and model.get_params()["epsilon"] is TARGET
    assert "RiskTarget(tpr=0.05" in repr(model) and "RiskTarget" in model._repr_html_()
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert again.epsilon == TARGET and again.epsilon_ == model.epsilon_
    assert (
        PrivacyGuarantee.from_dict(model.privacy_guarantee_.to_dict()).risk()
        == model.privacy_guarantee_.risk()
    )


@pytest.mark.slow
def test_a_search_over_targets():
    search = GridSearchCV(
        sp.UserLevelSGDRegressor(radius=5.0),
        {"epsilon": [TARGET, RiskTarget(advantage=0.3), 0.5]},
        cv=2,
        error_score="raise",
    )
    ledger = PrivacyLedger(epsilon=100.0, delta=0.1, composition="basic")
    quote = ledger.quote(search, X, Y)
    search.estimator.set_params(ledger=ledger)
    search.fit(X, Y)
    assert len(ledger.entries()) == 7 and ledger.spent[0] <= quote.spent[0]
    assert ledger.quote(sp.UserLevelMean(epsilon=TARGET), X).exact


def test_a_whole_model():
    model = make_pipeline(
        PrivateStandardScaler(bounds=(-1, 1), epsilon=TARGET), sp.UserLevelSGDRegressor(radius=5.0)
    )
    assert "a budget of RiskTarget(tpr=0.05" in str(check_pipeline(model))
    model.fit(X, Y)
    assert guarantee_of(model).epsilon > 1.0


class Sum(PrivateEstimatorMixin, BaseEstimator):
    """An estimator of another package, set up to do wrong in one way or another."""

    _parameter_constraints = PRIVACY_CONSTRAINTS

    def __init__(self, epsilon=1.0, *, wrong="", random_state=None, ledger=None):
        self.epsilon, self.wrong, self.random_state, self.ledger = epsilon, wrong, random_state, ledger

    @fit_context()
    def fit(self, X, y=None):
        assert isinstance(self.epsilon, float)
        running = _RUNNING.get()
        later = self.wrong == "more later" and running is not None and not running.planning
        event = LaplaceEvent(self.epsilon * (10 if later else 1))
        if self.wrong == "nested":
            Sum(0.5, ledger=self.ledger).fit(X)
        if self.wrong == "nested target":
            Sum(TARGET, ledger=self.ledger).fit(X)
        if self.wrong == "another door":
            open_release(epsilon=1.0, unit="row", adjacency="add-remove", ledger=self.ledger)

        class Plan:
            events = ((event, 1),)
            theorem, n_draws = "", 1

        with self._releasing(Plan(), unit="row", adjacency=Adjacency.ADD_REMOVE) as release:
            self.sum_ = release.laplace(0.5, sensitivity=1.0, epsilon=event.epsilon)
            if self.wrong == "beside":
                release.laplace(0.5, sensitivity=1.0, epsilon=self.epsilon / 100)
            if (
                self.wrong == "beside by a hair"
            ):  # rounds to nothing, and is drawn on the way: its risk is ε's alone
                release.laplace(0.5, sensitivity=1.0, epsilon=1e-13)
        if self.wrong == "twice":
            with self._releasing(Plan(), unit="row", adjacency=Adjacency.ADD_REMOVE) as release:
                self.sum_ += release.laplace(0.5, sensitivity=1.0, epsilon=event.epsilon)
        return self


@pytest.mark.parametrize(
    ("wrong", "error", "entries"),
    [
        ("nested", RuntimeError, 0),
        ("nested target", RuntimeError, 0),
        ("another door", RuntimeError, 0),
        ("beside", BudgetExceededError, 1),
        ("beside by a hair", BudgetExceededError, 1),
        ("twice", RuntimeError, 1),
        ("more later", RuntimeError, 0),
    ],
)
def test_nothing_slips_past_a_target(wrong, error, entries):
    ledger = PrivacyLedger(epsilon=100.0)
    model = Sum(TARGET, wrong=wrong, ledger=ledger)
    with pytest.raises(error):
        model.fit(X)
    assert len(ledger.entries()) == entries and model.epsilon is TARGET
    assert not hasattr(model, "sum_") and not hasattr(model, "epsilon_")
    # Afterwards all is as it was.
    Sum(1.0, ledger=ledger).fit(X)


def test_what_is_wrong_with_data_is_said_as_ever():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        sp.UserLevelMean(epsilon=TARGET).fit([1.0])
    with pytest.raises(ValueError, match="delta must be small enough for RiskTarget"):
        sp.UserLevelMean(epsilon=RiskTarget(advantage=0.1), delta=0.2).fit(X)


def test_a_ledger_of_a_risk(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = PrivacyLedger(path, epsilon=TARGET, delta=1e-6, unit="row", adjacency="replace-one")
    assert ledger.epsilon == TARGET.epsilon(1e-6)
    assert PrivacyLedger(path, epsilon=TARGET, delta=1e-6).epsilon == ledger.epsilon
    assert TARGET.met_by(PrivacyGuarantee(ledger.epsilon, ledger.delta, ledger.unit, ledger.adjacency))
    with pytest.raises(ValueError, match="epsilon must be a number under metric privacy"):
        PrivacyLedger(epsilon=TARGET, unit="row", adjacency="metric: kilometres")


def test_nothing_of_the_search_depends_on_private_values():
    """The ε that is found is that of every data set with the same public numbers."""
    found = {
        sp.UserLevelMean(epsilon=TARGET, n_users=300, adjacency="add-remove").fit(rows).epsilon_
        for rows in (X, 1e6 * X[:37], np.zeros((500, 2)))
    }
    assert len(found) == 1
