"""Parts and misuse of an additive pipeline: what has both steps divides one budget, and what cannot says so unpaid."""

import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from skprivate import PrivacyLedger, UserLevelSGDClassifier, UserLevelSGDRegressor, guarantee_of
from skprivate.preprocessing import make_additive_pipeline


def data(n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(n, 1))
    return X, np.sin(X[:, 0])


@pytest.mark.parametrize("part", [slice(None), slice(0, 2), slice(-2, None)])
def test_a_slice_with_both_steps_keeps_to_the_budget(part):
    model = make_additive_pipeline(UserLevelSGDRegressor(epsilon=1.0, delta=1e-6, random_state=0), n_knots=5)
    spent = guarantee_of(clone(model[part]).fit(*data()))
    assert 0.9 < spent.epsilon <= 1.0
    assert spent.delta <= 1e-6


@pytest.mark.parametrize("step", ["passthrough", StandardScaler(), None])
def test_a_first_step_that_has_no_budget_is_named(step):
    model = make_additive_pipeline(UserLevelSGDRegressor(random_state=0)).set_params(splines=step)
    with pytest.raises(
        TypeError, match="the first step of an additive pipeline must be a PrivateSplineTransformer"
    ):
        model.fit(*data())


def test_what_is_refused_is_refused_before_it_is_paid_for():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row", simulation=True)
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, ledger=ledger, random_state=0), n_knots=5)
    X, y = data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:5])
    with pytest.raises(ValueError, match="adjacency of splines and model must be the same"):
        clone(model).set_params(model__adjacency="add-remove").fit(X, y)
    assert not ledger.entries()


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = data()
    model = make_additive_pipeline(UserLevelSGDClassifier(1.0, random_state=0), n_knots=5)
    before = dict(vars(model["model"]))
    with pytest.raises(ValueError):
        model.fit(X, np.zeros(len(y)))  # one class
    assert vars(model["model"]) == before


def test_the_model_has_the_whole_budget_for_whoever_looks_while_it_is_fitted():
    """Two pipelines may share a model: what one fit had set, another took for the budget of all."""
    seen = []

    class Watched(UserLevelSGDRegressor):
        def fit(self, X, y, user_ids=None):
            seen.append((self.epsilon, model["model"].epsilon, threading.get_ident()))
            return super().fit(X, y, user_ids=user_ids)

    model = make_additive_pipeline(Watched(1.0, random_state=0), n_knots=5)
    model.fit(*data())
    assert [pair[:2] for pair in seen] == [(pytest.approx(0.7), 1.0)]
    assert model["model"].coef_.ndim == 1 and "_prepared_features" not in vars(model["model"])


def test_a_ledger_of_the_splines_alone_adds_budgets_up():
    """What the model plans for may then follow from what the ledger had released before."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row", simulation=True)
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5)
    model.set_params(splines__ledger=ledger).fit(*data())
    assert model["model"].privacy_guarantee_.epsilon <= 0.7
