"""Parts and misuse of an additive pipeline: what has both steps divides one budget, and what cannot says so unpaid."""

import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler

from skprivate import (
    NoGuaranteeError,
    PrivacyLedger,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
)
from skprivate.preprocessing import PrivateStandardScaler, make_additive_pipeline
from skprivate.preprocessing._private_pipeline import KNOTS_SHARE
from skprivate.privacy import BudgetExceededError, SimulatedNoiseWarning


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


@pytest.mark.parametrize("step", ["passthrough", None])
def test_without_a_private_step_before_it_the_model_has_all_of_the_budget(step):
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0)).set_params(splines=step)
    X, y = data()
    alone = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), alone.predict(X))
    assert guarantee_of(model).epsilon == alone.privacy_guarantee_.epsilon


def test_a_step_that_looks_at_rows_is_named():
    model = make_additive_pipeline(UserLevelSGDRegressor(random_state=0)).set_params(splines=StandardScaler())
    assert "'splines' (StandardScaler)" in check_pipeline(model).problems[0][0]
    with pytest.raises(NoGuaranteeError, match="'splines'"):
        guarantee_of(model.fit(*data()))


def test_what_is_refused_is_refused_before_it_is_paid_for():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row", simulation=True)
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, ledger=ledger, random_state=0), n_knots=5)
    X, y = data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:5])
    with pytest.raises(ValueError, match="adjacency of all private steps must be the same"):
        clone(model).set_params(model__adjacency="add-remove").fit(X, y)
    with pytest.raises(ValueError, match="max_iter"):
        model.set_params(model__max_iter=-1).fit(X, y)
    with pytest.raises(ValueError, match="missing labels"):
        model.set_params(model__max_iter=None).fit(X, np.where(y > 0.9, np.nan, y))
    with pytest.raises(ValueError, match=r"Complex data not supported\.$"):
        model.fit(X, y.astype(complex))
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
    # Once to see whether anything is wrong, and once to learn.
    assert [pair[:2] for pair in seen] == [(pytest.approx(0.7), 1.0)] * 2
    assert model["model"].coef_.ndim == 1 and "_prepared_features" not in vars(model["model"])


def test_a_ledger_of_the_splines_alone_adds_budgets_up():
    """What the model plans for may then follow from what the ledger had released before."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row", simulation=True)
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5)
    model.set_params(splines__ledger=ledger).fit(*data())
    assert model["model"].privacy_guarantee_.epsilon <= 0.7


class Clusters(UserLevelSGDRegressor):
    def fit_predict(self, X, y=None):
        return self.fit(X, y).predict(X)


def test_every_method_that_fits_divides_the_budget():
    X, y = data()
    model = make_additive_pipeline(Clusters(1.0, random_state=0), n_knots=5)
    found = model.fit_predict(X, y)
    np.testing.assert_array_equal(found, model.predict(X))
    assert model["model"].privacy_guarantee_.epsilon <= 0.7
    assert not hasattr(make_additive_pipeline(UserLevelSGDRegressor()), "fit_predict")


def test_a_model_that_does_not_transform_is_not_fitted_to_transform():
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5)
    with pytest.raises(AttributeError, match="has no attribute 'fit_transform'"):
        model.fit_transform(*data())
    assert not hasattr(model["splines"], "privacy_guarantee_")
    assert hasattr(make_additive_pipeline(PrivateStandardScaler()), "fit_transform")


@pytest.mark.parametrize("columns", [[], [False]])
def test_splines_of_no_columns_leave_the_model_all_of_the_budget(columns):
    X, y = data()
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), columns=columns).fit(X, y)
    alone = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    assert guarantee_of(model).epsilon == alone.privacy_guarantee_.epsilon


def test_splines_and_model_do_not_share_simulated_noise():
    seed = np.random.RandomState(0)
    model = make_additive_pipeline(UserLevelSGDRegressor(random_state=seed))
    expected = np.random.RandomState(0).randint(2**31)
    assert model["model"].random_state.randint(2**31) == seed.randint(2**31) == expected
    assert isinstance(model["splines"].random_state, int)


def test_columns_without_splines_are_standardised_and_functions_are_not():
    """Functions stand between the columns that have them and the others."""
    X, y = data()
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5, columns=[0])
    model.fit(np.column_stack([X, 1e3 * X[::-1]]), y)
    scales = model["model"].feature_scale_
    assert (scales[1:5] == 1.0).all() and scales[0] > 1.5 and scales[5] > 1e3


@pytest.mark.parametrize("basis", ["smooth", "b-spline"])
def test_gaps_of_columns_that_pass_are_where_a_line_is_zero_or_medians_and_rows_have_no_bound(basis):
    X, y = data()
    splines = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5, basis=basis).fit(X, y)[0]
    fill = splines.transform([[np.nan]])[0, 0]
    if basis == "smooth":
        assert splines.transform([[fill]])[0, 1] == pytest.approx(0.0, abs=1e-12)
        assert splines.knots_[0][1] < fill < splines.knots_[0][-2]
    else:
        assert fill == np.median(splines.knots_[0][1:-1]) != 0.0
    assert splines.row_bound_ == np.inf


@pytest.mark.parametrize("columns", [None, [0]])
def test_the_sum_of_budgets_is_that_of_the_model(columns):
    report = check_pipeline(make_additive_pipeline(UserLevelSGDRegressor(0.7), columns=columns))
    assert report.could_hold and report.epsilon == 0.7
    assert [step.within for step in report.steps if step.role == "private"] == ["model", ""]


def test_a_model_does_not_stay_beside_functions_that_it_has_not_seen(monkeypatch):
    X, y = data()
    model = make_additive_pipeline(UserLevelSGDClassifier(1.0, random_state=0), n_knots=5).fit(X, y > 0)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(len(y)))  # refused before there are other functions
    np.testing.assert_array_equal(model.predict_proba(X), before)
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-3, unit="row", simulation=True)  # enough for knots
    with pytest.raises(BudgetExceededError):
        model.set_params(splines__ledger=ledger, model__ledger=ledger).fit(X, y > 0)
    assert not ledger.entries()
    np.testing.assert_array_equal(model.predict_proba(X), before)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("skprivate.preprocessing._private_pipeline._take_rest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(splines__ledger=None, model__ledger=None).fit(X, y > 0)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_model_from_elsewhere_needs_a_budget_and_nothing_else():
    class Elsewhere(BaseEstimator):
        def __init__(self, epsilon=1.0, delta=1e-6):
            self.epsilon, self.delta = epsilon, delta

        def fit(self, X, y):
            self.seen_ = self.epsilon, self.delta, X.shape[1]
            return self

    with pytest.warns(SimulatedNoiseWarning):
        model = make_additive_pipeline(Elsewhere(2.0), n_knots=5).set_params(splines__random_state=0).fit(*data())
    assert model["model"].seen_[:2] == (2.0 * (1.0 - KNOTS_SHARE), 5e-7)
    assert model["model"].get_params() == {"epsilon": 2.0, "delta": 1e-6}
