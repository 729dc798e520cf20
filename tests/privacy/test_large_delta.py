"""δ of one over the number of units or more is said, once, where that number is public, before anything is spent."""

import inspect
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.base import PrivateEstimatorMixin
from skprivate.privacy import GaussianEvent, LargeDeltaWarning, Mechanism, PrivacyLedger, PureEvent, compose_epsilon
from skprivate.privacy._release import cost_of_plan
from skprivate.utils.discovery import all_estimators

X = np.linspace(-1, 1, 60)[:, None]
Y = X[:, 0]
USERS = np.arange(60) // 6


def said(model, *data, **metadata):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(*data, **metadata)
    return [w for w in seen if w.category is LargeDeltaWarning]


@pytest.mark.parametrize(
    ("options", "users", "loud"),
    [
        ({"delta": 1 / 60}, None, True),
        ({"delta": np.nextafter(1 / 60, 0)}, None, False),
        ({"delta": 1 / 30}, USERS, False),  # ten users
        ({"delta": 0.1}, USERS, True),
        ({"delta": 0.2, "adjacency": "add-remove"}, USERS, False),  # how many users there are is private
        ({"delta": 0.2, "adjacency": "add-remove", "n_users": 10}, USERS, True),
    ],
)
def test_one_over_the_number_of_units(options, users, loud):
    line = inspect.currentframe().f_lineno + 1
    found = said(UserLevelMean(**options, random_state=0), X, user_ids=users)
    assert len(found) == loud
    if loud:
        unit, n = ("row", 60) if users is None else ("user", 10)
        text = str(found[0].message)
        assert text.startswith(f"UserLevelMean: delta must be far below 1/n to protect each {unit}, got delta = ")
        assert f"n = {n}:" in text
        assert found[0].filename == inspect.getfile(said) and found[0].lineno < line


def test_nothing_private_decides_under_add_remove():
    """The same words, that is none, for any number of users."""
    for n in (2, 10, 60):
        assert not said(UserLevelMean(delta=0.5, adjacency="add-remove", random_state=0), X[:n])


def test_it_comes_before_anything_is_spent():
    ledger = PrivacyLedger(epsilon=10.0, delta=0.5)
    with warnings.catch_warnings(), pytest.raises(LargeDeltaWarning):
        warnings.simplefilter("error")
        UserLevelSGDRegressor(delta=0.1, ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


@pytest.mark.parametrize("events", [[(PureEvent(0.1), 3)], [(PureEvent(0.01), 90)], [(GaussianEvent(4.0), 1)]])
def test_a_delta_that_is_not_spent_needs_no_warning(events):
    """What is warned about is what the guarantee will state."""
    from skprivate.privacy import open_release

    epsilon, delta = cost_of_plan(events, 1.0, 1e-3)
    terms = {"epsilon": 1.0, "delta": 1e-3, "unit": "row", "adjacency": "replace-one"}
    stated = open_release(**terms, plan=events).close()
    assert (min(epsilon, 1.0), delta) == (stated.epsilon, stated.delta)
    assert epsilon >= compose_epsilon(events, delta) * (1 - 1e-12)


@dataclass(frozen=True)
class Plan(Mechanism):
    draws: tuple

    @property
    def events(self):
        return self.draws

    def run(self, data, release):
        return None


class Planned(PrivateEstimatorMixin, BaseEstimator):
    def __init__(self, events, *, epsilon=1.0, delta=0.5, random_state=None, ledger=None):
        self.events, self.epsilon, self.delta = events, epsilon, delta
        self.random_state, self.ledger = random_state, ledger

    def fit(self, X, y=None):
        plan = Plan(self.events)
        with self._releasing(plan, unit="row", adjacency="replace-one", n_units=len(X)) as release:
            plan.run(X, release)
        return self


@pytest.mark.parametrize(("events", "loud"), [(((PureEvent(1.0), 1),), False), (((GaussianEvent(4.0), 1),), True)])
def test_a_pure_plan_is_silent_whatever_its_delta(events, loud):
    model = Planned(events, delta=1e-3)
    assert len(said(model, np.zeros((2000, 1)))) == loud == (model.privacy_guarantee_.delta > 0)


DATA = pd.DataFrame(np.random.RandomState(0).uniform(size=(60, 2)), columns=["a", "b"])
#: Public knowledge without which these refuse to fit.
NEEDED = {
    "RandomBagClassifier": {"classes": [0, 1]},
    "CuratedBagGAMClassifier": {"classes": [0, 1]},
    "PrivateSearchCV": {
        "estimator": UserLevelSGDClassifier(classes=[0, 1]),
        "param_distributions": {"alpha": [0.0, 1.0]},
    },
}
WITH_DELTA = {
    name: cls for name, cls in all_estimators() if {"delta", "epsilon"} <= set(inspect.signature(cls).parameters)
}


@pytest.mark.parametrize("name", WITH_DELTA)
def test_every_estimator_that_spends_delta_says_it(name):
    """The door is one for all, but each has to say how many units there are."""
    parameters = inspect.signature(WITH_DELTA[name]).parameters
    options = {**NEEDED.get(name, {}), "delta": 0.5, "random_state": 0, "epsilon": 1.0}
    options |= {"mechanism": "gaussian"} if "mechanism" in parameters else {}
    options |= {"adjacency": "replace-one"} if "adjacency" in parameters else {}
    options |= {"n_quantiles": 100} if "n_quantiles" in parameters else {}
    options |= {"n_knots": 5} if "n_knots" in parameters else {}
    model = WITH_DELTA[name](**options)
    found = said(model, DATA, np.arange(60) % 2)
    assert len(found) == (model.privacy_guarantee_.delta > 0)
    assert model.privacy_guarantee_.delta > 0 or name in ("PrivateImputer",)
