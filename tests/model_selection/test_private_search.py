"""Searches within one budget: the price, the deal of the rows, the scores, what is released, what is refused."""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skprivate import (
    CuratedBagGAMClassifier,
    MetricPrivatizer,
    PPMHalfspaceClassifier,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    guarantee_of,
)
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.inspection import quote
from skprivate.model_selection import PrivateSearchCV
from skprivate.model_selection._candidates import Candidate, draw_candidates
from skprivate.model_selection._inside import CandidateCosts, with_budget
from skprivate.model_selection._scoring import PrivateScore, Rows, deal
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler, make_private_pipeline
from skprivate.privacy import (
    Adjacency,
    BudgetExceededError,
    LaplaceEvent,
    Mechanism,
    PrivacyLedger,
    PureEvent,
    SimulatedNoiseError,
    SimulatedNoiseWarning,
    compose_epsilon,
    forbid_simulated_noise,
    open_release,
    public_generator,
    search_epsilon,
)
from skprivate.utils._data import leaves

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

RNG = public_generator(0)
X = RNG.normal(size=(240, 3))
Y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
USERS = np.arange(240) // 3
PLAIN = UserLevelSGDClassifier(classes=[0, 1], max_iter=2)


@fit_context()
def _fit(self, X, y):
    """Fit of `Constant`."""
    values = np.asarray(y)
    if self.fails == "always" or (self.fails == "in earnest" and not (self.ledger and self.ledger.dry_run)):
        raise FloatingPointError("no convergence")
    epsilon = self.epsilon
    if self.price == "of the data":
        epsilon = epsilon * (0.5 if values.sum() % 2 else 0.25)
    count = Count(epsilon, 2 if self.price == "more" else 1)
    with self._releasing(count, unit="row", adjacency=self.adjacency) as release:
        self.count_ = count.run(values, release)
        if self.price == "beside the plan":
            release.discrete_laplace([1], sensitivity=1, epsilon=1e-3)
    self.classes_ = np.array([0, 1])
    return self


class Count(Mechanism):
    """A noisy number of rows, so often."""

    theorem = "Laplace"

    def __init__(self, epsilon, times=1):
        self.epsilon, self.times = epsilon, times

    @property
    def events(self):
        return [(PureEvent(self.epsilon / self.times, "discrete Laplace"), self.times)]

    def run(self, data, release):
        each = self.epsilon / self.times
        return [int(release.discrete_laplace([len(data)], sensitivity=1, epsilon=each)[0]) for _ in range(self.times)]


class Constant(PrivateEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Predicts what it is told to, and draws one number."""

    _parameter_constraints = PRIVACY_CONSTRAINTS

    def __init__(
        self, value=0, *, epsilon=1.0, adjacency="replace-one", price="", fails="", random_state=None, ledger=None
    ):
        self.value = value
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.price = price
        self.fails = fails
        self.random_state = random_state
        self.ledger = ledger

    fit = _fit

    def predict(self, X):
        return np.full(len(X), self.value)


def searched(estimator=PLAIN, grid=None, *, data=(X, Y), user_ids=USERS, fit=None, **options):
    options = {"epsilon": 4.0, "n_iter": 2, "random_state": 0, **options}
    search = PrivateSearchCV(estimator, {"alpha": [0.0, 1.0]} if grid is None else grid, **options)
    return search.fit(*data, user_ids=user_ids, **(fit or {}))


# The price ----------------------------------------------------------------------------------------------------------


def laws_price(each, law):
    """Largest ε of pure ε-DP evaluations, by brute force over the testing region of randomised response.

    The winner's factor is E[K] w(u): its log-ratio between neighbours, plus that of one evaluation.
    """
    u = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 400_001)])
    other = np.minimum(np.exp(each) * u, 1 - np.exp(-each) * (1 - u))
    return each + float(np.max(law.log_weight(u) - law.log_weight(other)))


@pytest.mark.parametrize("total", [0.5, 3.0])
def test_the_total_is_an_independent_computation(total):
    search = searched(Constant(), {"value": [0, 1]}, user_ids=None, epsilon=total, delta=0.0)
    plan = search.search_plan_
    price = laws_price(plan.each_epsilon, plan.repetitions)
    assert price <= search.privacy_guarantee_.epsilon <= total
    assert search.privacy_guarantee_.epsilon == pytest.approx(price, rel=1e-4)
    assert search.privacy_guarantee_.epsilon > 0.999 * total  # the budget is used
    assert search.privacy_guarantee_.delta == 0


def test_fits_and_scores_are_priced_by_themselves_and_the_dearer_counts():
    search = PrivateSearchCV(PLAIN, {"alpha": [0.0, 1.0]}, epsilon=2.0, n_iter=3, random_state=0)
    kept = {}
    mechanism_of = search._mechanism
    search._mechanism = lambda *terms: kept.setdefault("made", mechanism_of(*terms))
    search.fit(X, Y, user_ids=USERS)
    plan, scores = kept["made"][0].plan, kept["made"][0].scores
    assert search_epsilon(plan.plans, plan.repetitions, plan.delta) <= plan.epsilon * (1 + 1e-8)
    assert plan.epsilon <= 2.0
    assert search_epsilon(scores.plans, scores.repetitions, 0.0) <= plan.epsilon
    assert scores.repetitions == plan.repetitions
    # What the fits draw is what one fit at the budget of an evaluation says that it draws, no score beside it.
    assert all(not isinstance(event, LaplaceEvent) for each in plan.plans for event, _ in each)
    assert scores.plans == (((LaplaceEvent(scores.each_epsilon), 1),),)


def test_a_refit_is_paid_from_the_same_total():
    search = searched(Constant(), {"value": [0, 1]}, user_ids=None, delta=0.0, refit=0.25)
    assert search.privacy_guarantee_.epsilon <= 4.0
    assert search.search_plan_.epsilon <= 3.0
    assert search.best_estimator_.epsilon == 1.0
    assert len(search.privacy_guarantee_.events) == 2
    approximate = searched(refit=0.25).privacy_guarantee_
    assert approximate.epsilon <= 4.0 and approximate.delta <= 1e-6
    assert compose_epsilon(approximate.events, approximate.delta) <= 4.0


@pytest.mark.parametrize(("estimator", "options"), [(PLAIN, {}), (PLAIN, {"refit": 0.5}), (Constant(), {"delta": 0.0})])
@pytest.mark.parametrize("random_state", [None, 0])
def test_it_costs_what_was_quoted_in_one_entry(estimator, options, random_state):
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    grid = {"value": [0, 1]} if isinstance(estimator, Constant) else {"alpha": [0.0, 1.0]}
    search = PrivateSearchCV(
        estimator, grid, epsilon=4.0, n_iter=2, ledger=ledger, random_state=random_state, **options
    )
    quoted = quote(search, X, Y, user_ids=USERS, ledger=ledger)
    assert not ledger.entries() and quoted.admitted
    search.fit(X, Y, user_ids=USERS)
    (entry,) = ledger.entries()
    assert ledger.spent == quoted.spent
    assert (entry.epsilon, entry.delta) == (search.privacy_guarantee_.epsilon, search.privacy_guarantee_.delta)


def test_nothing_is_drawn_that_the_ledger_does_not_admit():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    search = PrivateSearchCV(PLAIN, {}, epsilon=4.0, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        search.fit(X, Y, user_ids=USERS)
    assert not ledger.entries() and not hasattr(search, "best_estimator_")


def test_steps_share_the_budget_as_they_state_theirs():
    model = make_pipeline(
        PrivateStandardScaler(0.5, delta=0.0), UserLevelSGDClassifier(1.5, classes=[0, 1], max_iter=2)
    )
    search = searched(model, {"userlevelsgdclassifier__alpha": [0.0, 1.0]})
    scaler, last = search.best_estimator_[0], search.best_estimator_[1]
    assert last.epsilon / scaler.epsilon == pytest.approx(3.0)
    assert scaler.epsilon + last.epsilon == pytest.approx(search.search_plan_.each_epsilon)
    assert scaler.delta == 0 and last.delta == search.search_plan_.each_delta
    assert search.privacy_guarantee_.epsilon <= 4.0


def test_members_share_the_budget_as_often_as_they_are_fitted():
    labels = np.arange(240) % 3
    search = searched(OneVsRestClassifier(PLAIN), {}, data=(X, labels))
    assert len(search.best_estimator_.estimators_) == 3
    assert 3 * search.best_estimator_.estimators_[0].epsilon == pytest.approx(search.search_plan_.each_epsilon)


def test_candidates_that_stop_costing_the_same_are_asked_themselves():
    """One is asked for all that drew the same at first; the last word is everybody's."""
    priced = CandidateCosts(
        draw_candidates(PLAIN, {"max_iter": [2, 3, 2]}, None, 9, 0), Rows(X, Y, {}), np.array([0, 1])
    )
    first = priced.plans(1.0, 1e-6)
    assert priced._like == [0, 1, 0] and first[0] == first[2] != first[1]
    assert priced.confirmed(1.0, 1e-6)
    priced._like = [0, 0, 0]
    assert not priced.confirmed(1.0, 1e-6) and priced._like == [0, 1, 2]


# The parts ----------------------------------------------------------------------------------------------------------


def rows_of(parts):
    return {tuple(row) for row in parts.train.X}, {tuple(row) for row in parts.held_out.X}


def test_no_user_is_in_both_parts_or_moved_by_another():
    parts = deal(Rows(X, Y, {"user_ids": USERS}), USERS, 0.25, 0, by_user=True)
    train, out = rows_of(parts)
    assert not train & out and len(train | out) == 240
    assert not set(parts.train.metadata["user_ids"]) & set(parts.held_out.metadata["user_ids"])
    assert parts.sizes.sum() == len(parts.held_out.y) and 5 < parts.n_held_out < 40
    for user in range(80):
        others = user != USERS
        fewer = deal(Rows(X[others], Y[others], {}), USERS[others], 0.25, 0, by_user=True)
        own = {tuple(row) for row in X[~others]}
        assert rows_of(fewer) == (train - own, out - own)


def test_positions_are_dealt_whatever_the_rows_hold():
    one = deal(Rows(X, Y, {}), None, 0.25, 0, by_user=False)
    other = deal(Rows(-X, 1 - Y, {}), None, 0.25, 0, by_user=False)
    assert np.array_equal(one.train.X, -other.train.X) and one.n_held_out == 60
    assert not np.array_equal(one.train.X, deal(Rows(X, Y, {}), None, 0.25, 1, by_user=False).train.X)


def test_rows_that_come_and_go_need_identifiers():
    model = UserLevelSGDClassifier(classes=[0, 1], max_iter=2, adjacency="add-remove")
    with pytest.raises(ValueError, match=r"user_ids must be given .*add-remove"):
        searched(model, user_ids=None)
    assert searched(model, user_ids=np.arange(240)).privacy_guarantee_.adjacency is Adjacency.ADD_REMOVE


def test_users_who_all_fall_into_one_part_are_refused():
    with pytest.raises(ValueError, match="two parts"):
        searched(user_ids=np.zeros(240, dtype=int))
    for adjacency in ("replace-one", "add-remove"):
        model = UserLevelSGDClassifier(classes=[0, 1], max_iter=2, adjacency=adjacency)
        ledger = PrivacyLedger(epsilon=9.0)
        with pytest.raises(ValueError, match=r"two parts: nobody is in the part to fit on.*Nothing was drawn") as error:
            searched(model, validation_fraction=1 - 1e-15, ledger=ledger)
        assert not ledger.entries() and not hasattr(error.value, "__notes__")
    with pytest.raises(ValueError, match="two rows"):
        searched(data=(X[:1], Y[:1]), user_ids=None)


def test_identifiers_deal_rows_of_estimators_that_take_none():
    search = searched(CuratedBagGAMClassifier(epsilon=1.0, max_iter=5), {"n_bins": [2, 3]}, delta=1e-6)
    assert search.privacy_guarantee_.unit == "label"
    assert any("keeps its identifier" in text for text in search.privacy_guarantee_.assumptions)


# The score ----------------------------------------------------------------------------------------------------------


class Recorder:
    """A branch that keeps what it is asked to release, and adds no noise."""

    def laplace(self, value, *, sensitivity, epsilon):
        self.value, self.sensitivity = value, sensitivity
        return float(value) if np.ndim(value) == 0 else np.asarray(value, dtype=float)


class Fixed(ClassifierMixin, BaseEstimator):
    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - p, p])


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize("batch", [True, False])
def test_without_noise_it_is_the_mean_of_the_users_means(adjacency, batch):
    parts = deal(Rows(X, Y.astype(float), {}), USERS, 0.4, 0, by_user=True)
    model, p = Fixed(), Fixed().predict_proba(parts.held_out.X)
    y = parts.held_out.y.astype(int)
    users = np.repeat(np.arange(parts.n_held_out), parts.sizes)
    own = p[np.arange(len(y)), y]
    expected = {
        "accuracy": (p.argmax(axis=1) == y).astype(float),
        "neg_log_loss": np.clip(np.log(own), -0.5, 0.0),
        "neg_brier_score": -2 * (1 - own) ** 2,
        "neg_mean_squared_error": -((p.argmax(axis=1) - y) ** 2.0),
        "neg_mean_absolute_error": -np.abs(p.argmax(axis=1) - y),
    }
    for name, rows in expected.items():
        low, high = (0.0, 1.0) if name == "accuracy" else (-0.5, 0.0) if name == "neg_log_loss" else (-2.0, 0.0)
        means = [rows[users == user].mean() for user in range(parts.n_held_out)]
        recorder = Recorder()
        score = PrivateScore(name, low, high, adjacency, batch).draw(model, parts, 1.0, recorder)
        assert score == pytest.approx(np.mean(means), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_one_user_moves_the_score_by_its_sensitivity_at_most_and_by_as_much(adjacency):
    """Worst cases reach the sensitivity, exactly."""
    score = PrivateScore(lambda y, p: y * 1e9, -1.0, 3.0, adjacency, False)
    y = np.where(RNG.random(240) < 0.5, -1.0, 1.0)

    def released(y, keep=slice(None)):
        recorder = Recorder()
        parts = deal(Rows(X[keep], y[keep], {}), USERS[keep], 0.4, 0, by_user=True)
        score.draw(Fixed(), parts, 1.0, recorder)
        return np.atleast_1d(recorder.value), recorder.sensitivity

    first, sensitivity = released(y)
    worst = 0
    for user in range(80):
        for value in (-1.0, 1.0, math.nan, 5e-324):
            changed = np.where(user == USERS, value, y)
            keep = user != USERS if adjacency is Adjacency.ADD_REMOVE else slice(None)
            moved = np.abs(released(changed, keep)[0].astype(object) - first.astype(object)).sum()
            worst = max(worst, Fraction(int(moved), int(sensitivity)))
    assert worst == 1


@pytest.mark.slow
def test_the_noise_of_the_score_is_that_of_its_price():
    """400 scores of one candidate: the mean size of the noise is within six of its standard errors (1e-8)."""
    score = PrivateScore("accuracy", 0.0, 1.0, Adjacency.REPLACE_ONE, False)
    parts = deal(Rows(X, Y, {}), None, 0.25, 0, by_user=False)
    exact = float(np.mean(Fixed().predict(parts.held_out.X) == parts.held_out.y))
    with open_release(
        epsilon=80.0, unit="row", adjacency="replace-one", random_state=3, plan=[(LaplaceEvent(0.2), 400)]
    ) as release:
        noise = [abs(score.draw(Fixed(), parts, 0.2, release) - exact) for _ in range(400)]
    scale = 1 / (0.2 * 60)
    assert abs(np.mean(noise) - scale) < 6 * scale / 20


def test_numbers_need_bounds():
    for bounds in (None, (1.0, 1.0), (0.0, math.inf), (0.0,), ["a", "b"], (math.nan, 1.0)):
        with pytest.raises(ValueError, match="score_bounds must be two"):
            searched(UserLevelSGDRegressor(max_iter=2), {}, data=(X, X[:, 0]), score_bounds=bounds)
    with pytest.raises(ValueError, match="scoring must be a score of numbers"):
        searched(UserLevelSGDRegressor(max_iter=2), {}, data=(X, X[:, 0]), scoring="accuracy")


def test_a_callable_sees_one_unit_at_a_time_however_it_is_predicted():
    """Where labels are private all rows are predicted at once, and a score that is relative to the others' labels
    would move with each of them."""
    seen = []

    def relative(y, predicted):
        seen.append(len(y))
        return predicted - y.mean()

    model = CuratedBagGAMClassifier(epsilon=1.0, max_iter=5)
    search = searched(model, {}, user_ids=None, delta=1e-6, scoring=relative, score_bounds=(-1.0, 1.0), random_state=3)
    assert seen[0] == 2 and set(seen[1:]) == {1}  # made-up rows first
    assert "scoring keeps nothing from one call to the next" in search.privacy_guarantee_.assumptions
    seen.clear()
    searched(PLAIN, {}, scoring=relative, score_bounds=(-1.0, 1.0), predict_by="batch")
    assert seen[0] == 2 and set(seen[1:]) == {3}


def test_where_classes_are_stated_no_label_is_read_for_them():
    def score(y, predicted):  # a KeyError would quote the label
        return np.array([-{"no": 1.0, "yes": 5.0}[label] for label in y]) * (y != predicted)

    X = np.linspace(0.0, 1.0, 60)[:, None]
    y = np.array(["no", "yes"] * 30, dtype=object)
    y[7] = "a private text"
    model = CuratedBagGAMClassifier(classes=["no", "yes"], delta=0.0)
    search = PrivateSearchCV(
        model, {"n_bins": [2, 3]}, epsilon=3.0, n_iter=1, scoring=score, score_bounds=(-5, 0), random_state=0
    )
    assert search.fit(X, y).classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("predict_by", ["unit", "batch"])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_brier_score", lambda y, p: 1.0 * (y == p)])
def test_that_nobody_is_held_out_is_no_error_where_users_come_and_go(predict_by, scoring):
    model = UserLevelSGDClassifier(classes=[0, 1], max_iter=2, adjacency="add-remove")
    options = {"scoring": scoring, "score_bounds": (-2.0, 1.0), "predict_by": predict_by}
    assert math.isfinite(searched(model, {}, validation_fraction=1e-15, **options).best_score_)


# Candidates ---------------------------------------------------------------------------------------------------------


def test_a_small_grid_is_the_candidates_and_a_large_one_is_drawn_from():
    grid = {"alpha": [0.0, 1.0], "max_iter": [2, 3]}
    assert [c.params for c in draw_candidates(PLAIN, grid, None, 2, 0)] == list(ParameterGrid(grid))
    assert len(draw_candidates(PLAIN, grid, 3, 2, 0)) == 3
    drawn = draw_candidates(PLAIN, {"alpha": uniform(0, 1)}, None, 2, 5)
    assert [c.params for c in drawn] == [c.params for c in draw_candidates(PLAIN, {"alpha": uniform(0, 1)}, None, 2, 5)]
    assert len(drawn) == 6 and len({c.params["alpha"] for c in drawn}) == 6


@pytest.mark.slow
def test_which_estimator_is_searched_too():
    several = [("one", Constant(0)), ("two", Constant(1)), ("three", PLAIN)]
    search = searched(
        several, {"three": {"alpha": [0.0, 1.0]}}, user_ids=None, n_iter=3, data=(X, np.ones(240, int) - (X[:, 0] > 2))
    )
    assert [c["estimator"] for c in search.candidates_] == ["one", "two", "three", "three"]
    assert search.best_params_ == search.candidates_[search.best_index_]


@pytest.mark.slow
def test_the_best_of_many_wins():
    """At an ε at which scores hardly err the worse of two wins only where it is drawn each time.

    With K geometric, logarithmic or Poisson of mean 8 that happens with probability E[2⁻ᴷ] < 0.27 (logarithmic);
    in 14 or more of 15 searches, then, with probability below 1e-6.
    """
    options = {"user_ids": None, "data": (X, np.ones(240, int)), "n_iter": 8, "epsilon": 50.0, "delta": 0.0}
    won = [searched(Constant(), {"value": [0, 1]}, random_state=seed, **options) for seed in range(15)]
    assert sum(search.best_params_["value"] == 1 for search in won) > 1
    assert all(search.best_score_ > 0.5 for search in won if search.best_params_["value"] == 1)


@pytest.mark.parametrize(
    ("estimator", "grid", "message"),
    [
        (LogisticRegression(), {}, "learns from private rows without a guarantee"),
        (make_pipeline(PublicScaler(), LogisticRegression()), {}, "no guarantee could hold"),
        (make_pipeline(MetricPrivatizer(), Constant()), {}, "spends in transform"),
        (PLAIN, {"alpha": []}, "param_distributions must hold"),
        (PLAIN, {"alpha": "abc"}, "param_distributions must hold"),
        (PLAIN, {"alpha": [-1.0]}, "'alpha' parameter"),
        (PLAIN, {"nonsense": [1]}, "Invalid parameter 'nonsense'"),
        ([("a", PLAIN), ("a", PLAIN)], {}, "different names"),
        ([], {}, "list of"),
        ([("a", PLAIN)], {"b": {}}, "must map names"),
        (Constant(epsilon=None), {}, "must state a positive finite epsilon"),
        ([("row", Constant()), ("label", CuratedBagGAMClassifier(epsilon=1.0))], {}, "protect the same"),
        (UserLevelSGDClassifier(ledger=PrivacyLedger(epsilon=1.0)), {}, "no ledger of its own"),
        (UserLevelSGDClassifier, {}, "estimator"),
    ],
)
def test_what_cannot_be_private_is_refused_before_anything_is_spent(estimator, grid, message):
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises((ValueError, TypeError), match=message):
        searched(estimator, grid, user_ids=None, ledger=ledger, random_state=None)
    assert not ledger.entries()


# Containment --------------------------------------------------------------------------------------------------------


def test_a_price_that_depends_on_the_data_is_noticed(monkeypatch):
    """In a trial and in earnest the labels are the same; here they are not."""
    from skprivate.model_selection import _inside as _contained

    real = _contained.fit_on

    def other_rows(model, rows):
        earnest = not (model.ledger and model.ledger.dry_run)
        y = np.append(rows.y[:-1], 1 - rows.y[-1]) if earnest else rows.y
        return real(model, Rows(rows.X, y, rows.metadata))

    monkeypatch.setattr(_contained, "fit_on", other_rows)
    search = PrivateSearchCV(Constant(price="of the data"), {}, epsilon=4.0, n_iter=2, delta=0.0)
    with pytest.raises((RuntimeError, BudgetExceededError)):
        search.fit(X, Y)
    assert not hasattr(search, "best_estimator_")


def test_draws_beside_the_plan_find_no_budget():
    search = PrivateSearchCV(Constant(price="beside the plan"), {}, epsilon=4.0, n_iter=2, delta=0.0)
    with pytest.raises(BudgetExceededError, match="more than its budget"):
        search.fit(X, Y)


def test_a_failure_leaves_it_unfitted_and_the_price_paid():
    ledger = PrivacyLedger(epsilon=9.0)
    search = PrivateSearchCV(Constant(fails="in earnest"), {}, epsilon=4.0, n_iter=2, delta=0.0, ledger=ledger)
    with pytest.raises(FloatingPointError):
        search.fit(X, Y)
    assert not hasattr(search, "best_estimator_") and not hasattr(search, "privacy_guarantee_")
    assert ledger.spent[0] > 3.9
    with pytest.raises(FloatingPointError, match="no convergence") as failure:  # in the trial nothing is spent
        PrivateSearchCV(Constant(fails="always"), {}, ledger=ledger).fit(X, Y)
    assert "trial of the candidate {}" in failure.value.__notes__[0] and len(ledger.entries()) == 1


def test_a_failure_may_lose_instead():
    grid = {"fails": ["in earnest", ""]}
    for seed in range(4):
        search = searched(
            Constant(), grid, user_ids=None, delta=0.0, n_iter=30, error_score=math.nan, random_state=seed
        )
        assert search.best_params_ == {"fails": ""}
        assert any("evaluations fail" in text for text in search.privacy_guarantee_.assumptions)
    with pytest.raises(RuntimeError, match="every evaluation"):
        searched(Constant(fails="in earnest"), {}, user_ids=None, delta=0.0, error_score=math.nan)
    with pytest.raises(ValueError, match="error_score must be 'raise' or nan"):
        searched(error_score=0.0)


def test_members_in_other_processes_are_contained():
    model = VotingClassifier([("a", PLAIN), ("b", PLAIN)], n_jobs=2)
    search = searched(model, {}, random_state=None)
    assert search.privacy_guarantee_.valid_for_release
    assert sum(member.epsilon for member in search.best_estimator_.estimators_) == pytest.approx(
        search.search_plan_.each_epsilon
    )


@pytest.mark.slow
def test_noise_is_secure_throughout_or_simulated_throughout_and_said_once():
    with forbid_simulated_noise():
        search = searched(UserLevelSGDClassifier(classes=[0, 1], max_iter=2, random_state=3), random_state=None)
        assert search.privacy_guarantee_.valid_for_release and search.best_estimator_.random_state is None
        with pytest.raises(SimulatedNoiseError):
            searched(random_state=0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        simulated = searched(n_iter=6)
    assert [item.category for item in seen] == [SimulatedNoiseWarning]
    assert not simulated.privacy_guarantee_.valid_for_release
    assert np.array_equal(searched(n_iter=6).best_estimator_.coef_, simulated.best_estimator_.coef_)


# What is released ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [PLAIN, make_pipeline(PrivateStandardScaler(0.5), PLAIN), OneVsRestClassifier(PLAIN)])
def test_the_best_model_states_the_total_and_keeps_nothing_of_the_inside(model):
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    search = searched(model, {}, ledger=ledger, random_state=None)
    total = search.privacy_guarantee_
    assert guarantee_of(search) == total
    whole = guarantee_of(search.best_estimator_)
    assert (whole.epsilon, whole.delta) == (total.epsilon, total.delta)
    search.ledger = None
    found = leaves(search)
    assert not [path for path in found if "_book" in path]
    assert len([path for path in found if path.endswith("guarantee_.epsilon")]) >= 2
    assert {value for path, value in found.items() if path.endswith("guarantee_.epsilon")} == {total.epsilon}
    public = {"best_estimator_", "best_index_", "best_params_", "best_score_", "candidates_", "classes_"}
    public |= {"n_features_in_", "privacy_guarantee_", "search_plan_"}
    assert {name for name in vars(search) if name.endswith("_")} == public
    assert not hasattr(search, "cv_results_")


def test_no_private_number_is_in_its_pickle():
    search = searched(random_state=None)
    blob = pickle.dumps(search)
    assert not any(value.tobytes() in blob for value in X.ravel())
    assert np.array_equal(pickle.loads(blob).predict(X), search.predict(X))


@pytest.mark.slow
def test_the_number_of_evaluations_shows_nowhere():
    """Two searches that differ in it have the same guarantee, plan, ledger entry and sizes."""
    found = []
    for seed in range(6):
        ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
        search = searched(n_iter=4, ledger=ledger, random_state=seed)
        (entry,) = ledger.entries()
        found.append((search.privacy_guarantee_.epsilon, search.search_plan_, entry.events, entry.label))
    assert len(set(map(repr, found))) == 1


def test_it_is_a_step_of_pipelines_and_takes_metadata_by_routing():
    plain = make_pipeline(PublicScaler(), PrivateSearchCV(PLAIN, {}, n_iter=2, random_state=0))
    plain.fit(X, Y, privatesearchcv__user_ids=USERS)
    assert guarantee_of(plain).unit == "user"
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(PublicScaler(), PrivateSearchCV(PLAIN, {}, n_iter=2, random_state=0))
        routed.fit(X, Y, user_ids=USERS)
    assert np.array_equal(plain[-1].best_estimator_.coef_, routed[-1].best_estimator_.coef_)
    assert "PrivateSearchCV" in plain._repr_html_()


def test_rows_that_are_private_alone_are_told_by_a_mask():
    private = (Y == 1) & (X[:, 0] > 0)
    model = PPMHalfspaceClassifier(private_label=1, strategy="greedy")
    search = searched(model, {"max_halfspaces": [1, 2]}, user_ids=None, delta=0.0, fit={"private": private})
    assert search.privacy_guarantee_.unit == "private row"
    with pytest.raises(ValueError, match="private must have one entry per row"):
        searched(model, {}, user_ids=None, fit={"private": private[:-1]})


# Evaluations that know nothing of each other -------------------------------------------------------------------------


def doubled(X):
    """Works in place, as steps with ``copy=False`` do."""
    X *= 2
    return X


@pytest.mark.slow
@pytest.mark.parametrize("predict_by", ["unit", "batch"])
@pytest.mark.parametrize("frame", [False, True])
def test_a_step_that_works_in_place_leaves_nothing_for_the_next_evaluation(predict_by, frame):
    """Rows that double in each fit would tell the last one how many there were before."""
    seen = set()

    def noted(X):
        if len(X) > 3:  # the rows of one user are scored one by one
            seen.add((len(X), float(np.abs(np.asarray(X)).max())))
        return doubled(X)

    given = pd.DataFrame(X.copy()) if frame else X.copy()
    model = make_pipeline(FunctionTransformer(noted), PLAIN)
    searched(model, {}, data=(given, Y), n_iter=4, refit=0.2, predict_by=predict_by)
    assert np.array_equal(np.asarray(given), X)
    # The trial and the fits on one part, the refit, and the batch of held-out rows.
    assert len(seen) == (3 if predict_by == "batch" else 2)


def test_a_cache_of_rows_and_of_losing_evaluations_is_refused(tmp_path):
    model = Pipeline([("scale", PrivateStandardScaler(0.5)), ("model", PLAIN)], memory=str(tmp_path))
    with pytest.raises(ValueError, match="its cache keeps private rows, and repeats noise"):
        searched(model, {})
    with pytest.raises(ValueError, match="its cache keeps private rows"):
        searched(OneVsRestClassifier(model), {})
    assert not any(tmp_path.iterdir())


def test_simulated_steps_have_noise_of_their_own():
    """One seed for all steps would give them the same bits."""
    candidate = Candidate(make_pipeline(PrivateStandardScaler(0.5), PLAIN), {})
    model = with_budget(candidate, (1, 1), 1.0, 1e-6, 7, None)
    assert model[0].random_state != model[1].random_state


def test_another_public_seed_draws_other_candidates():
    drawn = [searched(PLAIN, {"alpha": list(range(1, 50))}, n_candidates=3, public_seed=seed) for seed in (0, 0, 1)]
    first, again, other = ([one["alpha"] for one in search.candidates_] for search in drawn)
    assert first == again != other


@pytest.mark.slow
def test_a_search_inside_a_search_holds_out_others():
    """With the same public seed it would hold out those who are held out already: nobody."""
    inner = PrivateSearchCV(PrivateSearchCV(Constant(), {}), {})
    search = searched(inner, {}, delta=0.0, n_iter=1)
    middle = search.best_estimator_
    assert 0 < search.public_seed + 1 == middle.public_seed < middle.best_estimator_.public_seed


class Overdraws(Constant):
    """Pays three times what it is given."""

    @fit_context()
    def fit(self, X, y):
        stated, self.epsilon = self.epsilon, 3 * self.epsilon
        try:
            return _fit.__wrapped__(self, X, y)
        finally:
            self.epsilon = stated


def test_a_refit_that_draws_more_than_its_share_is_refused():
    """The search prices what its fits draw; the refit is priced by its share, and must keep to that."""
    ledger = PrivacyLedger(epsilon=9.0)
    found = searched(Overdraws(), {}, user_ids=None, delta=0.0, ledger=ledger)
    assert 3 * found.best_estimator_.epsilon <= found.privacy_guarantee_.epsilon <= 4.0
    with pytest.raises(ValueError, match="must keep to its epsilon and delta, got Overdraws"):
        searched(Overdraws(), {}, user_ids=None, delta=0.0, refit=0.25, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_labels_that_the_search_takes_from_the_data_are_assumed_public():
    model = PPMHalfspaceClassifier(private_label=1, strategy="greedy")
    private = Y == 1
    options = {"user_ids": None, "delta": 0.0, "fit": {"private": private}, "n_iter": 1}
    assert "the set of labels is public" in searched(model, {}, **options).privacy_guarantee_.assumptions
    told = searched(OneVsRestClassifier(PLAIN), {}, data=(X, np.arange(240) % 3), n_iter=1)
    assert "the set of labels in each part of the data is public" in told.privacy_guarantee_.assumptions
    plain = searched(PLAIN, {}, n_iter=1)
    assert "the set of labels in each part of the data is public" not in plain.privacy_guarantee_.assumptions


def _fitted_pipeline(*first):
    table = pd.DataFrame({"a": np.where(X[:, 0] > 0.9, np.nan, X[:, 0]), "b": X[:, 1], "g": np.where(Y, "p", "q")})
    model = make_private_pipeline(
        UserLevelSGDClassifier(classes=[0, 1], max_iter=2), {"a": (0, 1), "b": "number", "g": ["p"]}
    )
    model = model.set_params(epsilon=100.0, model__random_state=0).fit(table, Y)
    model.steps[:0] = first
    return model, deal(Rows(table, Y, {}), USERS, 0.4, 0, by_user=True)


def test_steps_that_go_by_rows_prepare_all_of_them_in_one_call(monkeypatch):
    """The score of every unit is that of its rows alone, to the last bit."""
    model, parts = _fitted_pipeline()
    score = PrivateScore("neg_log_loss", -9.0, 0.0, Adjacency.REPLACE_ONE, False)
    calls = []
    transform = type(model[0]).transform
    monkeypatch.setattr(type(model[0]), "transform", lambda self, X: calls.append(len(X)) or transform(self, X))
    together = score.of_units(model, parts)
    assert calls == [len(parts.held_out.y)]
    monkeypatch.setattr("skprivate.model_selection._scoring.maps_by_row", lambda steps: False)
    assert np.array_equal(together, score.of_units(model, parts))
    assert len(calls) == 1 + parts.n_held_out


@pytest.mark.parametrize("first", [[], [("none", "passthrough")]])
def test_a_pipeline_that_prepares_nothing_is_scored_as_its_model(first):
    parts = deal(Rows(X, Y, {}), USERS, 0.4, 0, by_user=True)
    score = PrivateScore("neg_log_loss", -9.0, 0.0, Adjacency.REPLACE_ONE, False)
    model = UserLevelSGDClassifier(classes=[0, 1], max_iter=2, random_state=0).fit(X, Y)
    found = score.of_units(Pipeline([*first, ("model", model)]), parts)
    assert np.array_equal(found, score.of_units(model, parts)) and found.min() > -9.0


def test_a_row_for_which_a_step_fails_moves_nobody_elses_score(monkeypatch):
    class Picky(FunctionTransformer):
        def transform(self, X):
            if (X["b"] == 99.0).any():
                raise ValueError("99")
            return X

    monkeypatch.setattr("skprivate.model_selection._scoring.maps_by_row", lambda steps: True)
    score = PrivateScore("neg_log_loss", -9.0, 0.0, Adjacency.REPLACE_ONE, False)
    model, parts = _fitted_pipeline(("picky", Picky()))
    before = score.of_units(model, parts)
    parts.held_out.X.iloc[0, 1] = 99.0
    after = score.of_units(model, parts)
    assert after[0] == -9.0 and np.array_equal(after[1:], before[1:])
