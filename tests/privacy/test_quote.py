"""What a quote says is what the ledger then shows; a dry run draws nothing real."""

from __future__ import annotations

from collections import UserList, deque
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, RandomizedSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline

import skprivate as sp
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.inspection import quote
from skprivate.inspection._quote import charged_to
from skprivate.metric import MetricPrivatizer
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import (
    BoundedRangeEvent,
    BudgetExceededError,
    LaplaceEvent,
    PrivacyLedger,
    SimulatedNoiseError,
    SimulatedNoiseWarning,
    forbid_simulated_noise,
    open_release,
)
from skprivate.privacy.noise._bits import public_generator

RNG = public_generator(1)
X = RNG.uniform(-1, 1, size=(480, 2))
Y = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=480)
USERS = np.repeat(np.arange(240), 2)


def searches(grid):
    model = sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0)
    yield GridSearchCV(model, grid, cv=UserKFold(3), error_score="raise")
    yield GridSearchCV(model, grid, cv=UserKFold(2), refit=False, n_jobs=2, error_score="raise")
    yield RandomizedSearchCV(model, grid, n_iter=1, cv=UserKFold(2), random_state=0, error_score="raise")
    yield HalvingGridSearchCV(
        model, grid, cv=UserKFold(2), resource="max_iter", max_resources=8, factor=2, error_score="raise"
    )


def shown(entries):
    return sorted((e.label, e.epsilon, e.delta, e.rho or 0.0, e.unit, e.adjacency, str(e.events)) for e in entries)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("composition", ["filter", "basic"])
def test_a_search_costs_what_was_quoted(k, composition, tmp_path):
    """Candidates of one price: to the last bit, refit and halving included."""
    search = list(searches({"alpha": [0.01, 0.1, 1.0]}))[k]
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=20.0, delta=1e-3, composition=composition)
    quoted = quote(search, X, Y, groups=USERS, user_ids=USERS, ledger=ledger)
    assert ledger.entries() == [] and quoted.admitted and quoted.exact
    search.estimator.set_params(ledger=ledger)
    search.fit(X, Y, groups=USERS, user_ids=USERS)
    assert quoted.spent == ledger.spent
    assert shown(quoted.entries) == shown(ledger.entries())
    assert str(quoted).startswith(f"{len(quoted.entries)} releases for one user (replace-one), epsilon ")


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("dearest_first", [False, True])
def test_whichever_candidate_wins_a_search_costs_no_more_than_was_quoted(k, dearest_first):
    """Which candidate is refitted, or goes on, depends on scores: the quote is for the dearest, in every part."""
    grid = {"epsilon": [0.5, 1.0, 2.0], "delta": [1e-8, 1e-7]}
    quotes, spent = [], []
    for sign in (1, -1):
        search = list(searches(grid))[k]
        ledger = PrivacyLedger(epsilon=100.0, delta=1e-3, composition="basic")
        quotes.append(quote(search, X, Y, groups=USERS, user_ids=USERS, ledger=ledger))

        def score(model, X, y, sign=sign):
            return sign * model.get_params()["epsilon"] - 1e8 * sign * model.get_params()["delta"] * dearest_first

        search.set_params(scoring=score)
        search.estimator.set_params(ledger=ledger)
        search.fit(X, Y, groups=USERS, user_ids=USERS)
        spent.append(ledger.spent)
    assert quotes[0].cost == quotes[1].cost and not quotes[0].exact and "at most" in str(quotes[0])
    for epsilon, delta in spent:
        assert epsilon <= quotes[0].epsilon and delta <= quotes[0].delta
    # The bound is one: some order of the scores costs that much.
    if k == 0 and not dearest_first:
        assert max(spent)[0] == quotes[0].epsilon


@pytest.mark.slow
def test_a_grid_without_a_last_fit_costs_what_was_quoted_whatever_its_scores():
    search = GridSearchCV(
        sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0), {"epsilon": [0.5, 2.0]}, cv=UserKFold(2), refit=False
    )
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-3)
    quoted = quote(search, X, Y, groups=USERS, user_ids=USERS, ledger=ledger)
    search.set_params(error_score="raise", estimator__ledger=ledger).fit(X, Y, groups=USERS, user_ids=USERS)
    assert quoted.exact and quoted.spent == ledger.spent
    assert shown(quoted.entries) == shown(ledger.entries())
    search.set_params(cv=2, refit=True, estimator__ledger=None)
    nested = GridSearchCV(search, {"cv": [2]}, cv=2, refit=False)
    assert not quote(nested, X, Y, ledger=PrivacyLedger(epsilon=20.0, delta=1e-3)).exact


@pytest.mark.slow
def test_a_search_in_a_pipeline_in_a_cross_validation():
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-2, composition="basic")
    inner = GridSearchCV(sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0, max_iter=3), {"alpha": [0.1, 1.0]}, cv=2)
    steps = [("scale", PrivateStandardScaler(bounds=(-1, 1), epsilon=0.5)), ("search", inner)]
    outer = GridSearchCV(Pipeline(steps), {"scale__bounds": [(-1, 1), (-2, 2)]}, cv=2, error_score="raise")
    quoted = quote(outer, X, Y, ledger=ledger)
    assert len(quoted.entries) == 5 * (1 + 2 * 2 + 1) and quoted.exact
    outer.set_params(estimator__scale__ledger=ledger, estimator__search__estimator__ledger=ledger).fit(X, Y)
    assert shown(quoted.entries) == shown(ledger.entries()) and quoted.spent == ledger.spent
    outer.set_params(param_grid={"scale__epsilon": [0.5, 0.25]}, estimator__search__param_grid={"epsilon": [1, 2]})
    dear = quote(outer, X, Y, ledger=ledger)
    assert not dear.exact and dear.epsilon == pytest.approx(4 * 6 + 2 * 0.75 + 5 * 2 + 0.5 + 6, rel=1e-4)


def test_a_cross_validation_costs_what_its_search_without_refit_costs():
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-2)
    model = make_pipeline(
        PrivateStandardScaler(bounds=(-1, 1), epsilon=0.5), sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0)
    )
    quoted = quote(GridSearchCV(model, [{}], cv=KFold(3), refit=False, error_score="raise"), X, Y, ledger=ledger)
    model.set_params(**{f"{name}__ledger": ledger for name, _ in model.steps})
    cross_validate(model, X, Y, cv=KFold(3), error_score="raise")
    assert quoted.exact and quoted.spent == ledger.spent
    assert shown(quoted.entries) == shown(ledger.entries())


def test_a_reserved_search_is_all_or_nothing(tmp_path):
    search = next(searches({"alpha": [0.1, 1.0]}))
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=4.0, delta=1e-3, composition="basic")
    quoted = quote(search, X, Y, groups=USERS, user_ids=USERS, ledger=ledger)
    assert not quoted.admitted and "more than the ledger has left" in str(quoted)
    with pytest.raises(BudgetExceededError), ledger.reserve(quoted):
        raise AssertionError
    assert ledger.entries() == []
    ledger = PrivacyLedger(tmp_path / "b.ledger", epsilon=8.0, delta=1e-3, composition="basic")
    with ledger.reserve(quoted) as part:
        search.estimator.set_params(ledger=part)
        search.fit(X, Y, groups=USERS, user_ids=USERS)
    assert ledger.spent == quoted.spent
    assert search.best_estimator_.privacy_guarantee_.valid_for_release


def test_a_pipeline_with_private_preprocessing():
    model = make_pipeline(PrivateStandardScaler(bounds=(-1, 1), epsilon=0.5), sp.UserLevelSGDRegressor(radius=5.0))
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    quoted = quote(model, X, Y, ledger=ledger)
    assert [entry.label for entry in quoted.entries] == ["PrivateStandardScaler", "UserLevelSGDRegressor"]
    assert all(step.ledger is None for _, step in model.steps)
    model.set_params(privatestandardscaler__ledger=ledger, userlevelsgdregressor__ledger=ledger).fit(X, Y)
    assert quoted.spent == ledger.spent


def test_a_dry_run_draws_simulated_noise_and_says_so():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3, dry_run=True)
    models = [sp.UserLevelSGDRegressor(radius=5.0, ledger=ledger).fit(X, Y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not models[0].privacy_guarantee_.valid_for_release
    assert all(entry.simulated for entry in ledger.entries()) and "dry run" in repr(ledger)


def test_a_dry_run_warns_of_nothing(recwarn):
    ledger = PrivacyLedger(epsilon=2.0, dry_run=True)
    with open_release(epsilon=1.0, unit="row", adjacency="add-remove", ledger=ledger) as release:
        release.laplace(1.0, sensitivity=1.0, epsilon=1.0)
    assert not [w for w in recwarn if issubclass(w.category, SimulatedNoiseWarning)]
    assert not release.close().valid_for_release


def candidates(ledger):
    model = sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0)
    mine = sp.UserLevelSGDRegressor(delta=1e-7, radius=5.0, ledger=ledger)
    several = np.array([mine, None], dtype=object)[:1]
    yield model, {"ledger": [ledger]}
    yield model, [{"ledger": (ledger,)}]
    yield make_pipeline(model), {"userlevelsgdregressor": [mine]}
    yield make_pipeline(model), {"userlevelsgdregressor": several}
    yield make_pipeline(make_pipeline(mine)), {"pipeline__userlevelsgdregressor__epsilon": [0.5]}


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_no_candidate_of_a_search_is_charged_in_earnest(k, kind):
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-3)
    model, grid = list(candidates(ledger))[k]
    more = {} if kind is GridSearchCV else {"n_iter": 1, "random_state": 0}
    quoted = quote(kind(model, grid, cv=2, error_score="raise", **more), X, Y, ledger=ledger)
    assert len(quoted.entries) == 3 and ledger.entries() == []
    # What was asked about is as it was.
    assert list(candidates(ledger))[k][0].get_params().keys() == model.get_params().keys()


def test_a_third_ledger_is_refused_before_anything_is_charged_to_it():
    ledger, other = PrivacyLedger(epsilon=2.0, delta=1e-3), PrivacyLedger(epsilon=3.0, delta=1e-3)
    model = sp.UserLevelSGDRegressor(radius=5.0, ledger=other)
    for asked in (model, make_pipeline(model), GridSearchCV(model, {"epsilon": [1.0]}, cv=2)):
        with pytest.raises(ValueError, match="no other ledger than the one that is asked"):
            quote(asked, X, Y, ledger=ledger)
    with pytest.raises(ValueError, match="no other ledger"):
        quote(GridSearchCV(sp.UserLevelSGDRegressor(), {"ledger": [other]}, cv=2), X, Y, ledger=ledger)
    assert ledger.entries() == other.entries() == []
    assert model.ledger is other


def test_what_is_frozen_keeps_its_ledger():
    ledger, other = PrivacyLedger(epsilon=2.0, delta=1e-3), PrivacyLedger(epsilon=3.0, delta=1e-3)
    scaler = PrivateStandardScaler(bounds=(-1, 1), epsilon=0.5, ledger=other).fit(X)
    model = make_pipeline(FrozenEstimator(scaler), sp.UserLevelSGDRegressor(radius=5.0))
    assert [entry.label for entry in quote(model, X, Y, ledger=ledger).entries] == ["UserLevelSGDRegressor"]
    assert scaler.ledger is other and len(other.entries()) == 1


@pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning")
def test_what_is_frozen_and_draws_is_not_quoted():
    ledger = PrivacyLedger(epsilon=2000.0, delta=1e-3, unit="row", adjacency="replace-one")
    noise = MetricPrivatizer(epsilon=1.0, bounds=(-1.0, 1.0), ledger=ledger).fit(X)
    model = make_pipeline(FrozenEstimator(noise), sp.UserLevelSGDRegressor(radius=5.0))
    before = ledger.entries()
    with pytest.raises(ValueError, match="would really be charged to a ledger.*Nothing was drawn"):
        quote(model, X, Y, ledger=ledger)
    assert ledger.entries() == before
    noise.transform(X)
    assert len(ledger.entries()) == len(before) + 1


class Step(NamedTuple):
    """A step whose parts have names."""

    name: str
    model: object


class Hides(BaseEstimator):
    """Says that it is private, and has an estimator where nobody looks."""

    def __init__(self, make=None, epsilon=1.0, ledger=None):
        self.make, self.epsilon, self.ledger = make, epsilon, ledger

    def fit(self, X, y=None):
        """Fit it."""
        self.make().fit(X, y)
        return self


def test_ledgers_in_unusual_places():
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-3)
    model = Sum(ledger=ledger)
    assert len(quote(Pipeline([Step("m", model)]), X, Y, ledger=ledger).entries) == 1
    for box in (UserList, deque, tuple):
        search = GridSearchCV(Sum(), {"ledger": UserList([ledger])}, cv=2, scoring=prefer(Sum()))
        assert len(quote(search, X, Y, ledger=ledger).entries) == 3
        assert charged_to(box([Step("m", model), 1]), ledger, "other", searches=[])[0].model.ledger == "other"
        model.ledger = ledger
    with pytest.raises(ValueError, match="would really be charged to a ledger.*Nothing was drawn"):
        quote(Hides(partial(Sum, ledger=ledger)), X, Y, ledger=ledger)
    assert ledger.entries() == []


class Paid:
    """A mechanism of one event."""

    theorem, n_draws = "", 1

    def __init__(self, event):
        self.events = ((event, 1),)


class Sum(PrivateEstimatorMixin, BaseEstimator):
    """Pays for one draw."""

    _parameter_constraints = PRIVACY_CONSTRAINTS

    def __init__(self, epsilon=1.0, *, event=LaplaceEvent, adjacency="replace-one", random_state=None, ledger=None):
        self.epsilon, self.event, self.adjacency = epsilon, event, adjacency
        self.random_state, self.ledger = random_state, ledger

    @fit_context()
    def fit(self, X, y=None):
        """Pay."""
        with self._releasing(Paid(self.event(self.epsilon)), unit="row", adjacency=self.adjacency):
            return self


def prefer(parameters):
    """A score by which one candidate wins."""

    def score(estimator, X, y=None):
        found = getattr(estimator, "best_estimator_", estimator)
        return float(all(getattr(found, name) == value for name, (value,) in parameters.items()))

    return score if isinstance(parameters, dict) else lambda *_: 0.0


CANDIDATES = {
    "same epsilon": [{"event": [BoundedRangeEvent]}, {"event": [LaplaceEvent]}],  # and four times the ρ
    "other units": [
        {"epsilon": [0.75], "adjacency": ["replace-one"]},
        {"epsilon": [0.625], "adjacency": ["add-remove"]},  # counts twice
    ],
}


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("winner", [0, 1])
@pytest.mark.parametrize("kind", CANDIDATES)
def test_no_candidate_is_dearer_than_the_quote_in_any_part(kind, winner, nested):
    grid, scoring = CANDIDATES[kind], prefer(CANDIDATES[kind][winner])
    terms = {"unit": "row", "adjacency": "replace-one", "composition": "basic"}
    ledger = PrivacyLedger(epsilon=200.0, delta=1e-2, **terms)
    model = Sum(ledger=ledger)
    search = GridSearchCV(model, grid, cv=2, scoring=scoring, error_score="raise")
    if nested:
        search = GridSearchCV(search, {"param_grid": grid}, cv=2, scoring=scoring, error_score="raise")
    quoted = quote(search, X, Y, ledger=ledger)
    with ledger.reserve(quoted):  # all or nothing
        pass
    search.fit(X, Y)
    cost = ledger._book.state.totals[None]
    assert cost.within(quoted.cost) and not quoted.exact
    assert (cost.cost() == quoted.cost) == (winner == 1)  # the dearest of them is met exactly


def test_a_reservation_quotes_what_it_has_room_for():
    ledger = PrivacyLedger(epsilon=9.0, unit="row", adjacency="replace-one", composition="basic")
    with ledger.reserve(0.5) as part:
        assert not quote(Sum(), X, ledger=part).admitted
    with ledger.reserve(8.5) as part:
        assert quote(Sum(), X, ledger=part).admitted and quote(Sum(), X, ledger=part).spent == ledger.spent == (
            8.5,
            0.0,
        )
        assert not quote(Sum(), X, ledger=ledger).admitted
    assert not quote(Sum(), X, ledger=part).admitted  # it has ended
    with ledger.parallel(1.5, n_parts=2, because="dealt by an identifier that stays") as parts:
        Sum(ledger=parts.only(0)).fit(X)
        assert not quote(Sum(), X, ledger=parts.only(0)).admitted and quote(Sum(), X, ledger=parts.only(1)).admitted
        assert not quote(Sum(0.5, adjacency="add-remove"), X, ledger=parts.only(1)).admitted  # of all parts


def test_a_quote_spends_no_other_ledger():
    ledger, other = (PrivacyLedger(epsilon=2.0, delta=1e-3) for _ in range(2))
    model = make_pipeline(
        PrivateStandardScaler(bounds=(-1, 1), epsilon=0.5), sp.UserLevelSGDRegressor(radius=5.0, ledger=other)
    )
    with pytest.raises(ValueError, match="no other ledger than the one that is asked"):
        quote(model, X, Y, ledger=ledger)
    assert ledger.entries() == other.entries() == []


def test_where_simulated_noise_is_forbidden_quotes_go_on_and_dry_runs_do_not(tmp_path, monkeypatch):
    dry = PrivacyLedger(epsilon=2.0, delta=1e-3, dry_run=True)
    model = sp.UserLevelSGDRegressor(radius=5.0)
    with forbid_simulated_noise(), pytest.raises(SimulatedNoiseError, match="one for dry runs.*Nothing was"):
        model.set_params(ledger=dry).fit(X, Y)
    assert dry.entries() == []
    monkeypatch.setenv("SKPRIVATE_FORBID_SIMULATED_NOISE", "1")
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=2.0, delta=1e-3)
    # In this process: pooled ones would keep the variable, and other tests would get them.
    search = list(searches({"epsilon": [0.5]}))[1].set_params(n_jobs=None)
    quoted = quote(search, X, Y, groups=USERS, user_ids=USERS, ledger=ledger)
    assert len(quoted.entries) == 2 and ledger.entries() == []
