"""Private choice among fitted models: votes, winsorised means, and losses that keep to themselves."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from helpers.frozen_draws import FrozenDraws
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skprivate.privacy import PrivacyLedger, PureEvent, open_release
from skprivate.privacy._events import run_tape
from skprivate.user_level import UserLevelSelector
from skprivate.user_level._selection import MeanSelection, VoteSelection, user_losses, vote_counts
from skprivate.utils.estimator_checks import epsilon_lower_bound, half_noise


def test_votes_have_sensitivity_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        losses = rng.integers(4, size=(12, 3)).astype(float)
        other = losses.copy()
        other[rng.integers(12)] = rng.integers(4, size=3)
        assert np.abs(vote_counts(losses).min(axis=1) - vote_counts(other).min(axis=1)).max() <= 1
        more = vote_counts(np.concatenate([losses, rng.integers(4, size=(1, 3))])).min(axis=1) - vote_counts(
            losses
        ).min(axis=1)
        assert more.min() >= 0 and more.max() <= 1


def test_selector_chooses_the_better_model():
    rng = np.random.default_rng(0)
    X, w, users = rng.normal(size=(2500, 4)), np.linspace(-1.0, 1.0, 4), np.arange(2500) // 5
    y = X @ w + 0.5 * rng.normal(size=2500)
    models = [(str(k), FrozenEstimator(LinearRegression().fit(X[:200], X[:200] @ (w + k)))) for k in (2.0, 0.0, -1.0)]
    for rule in ("differences", "votes", "means"):
        selector = UserLevelSelector(models, rule=rule, tau=5.0, random_state=0).fit(X, y, user_ids=users)
        assert selector.best_name_ == "0.0"
        assert selector.privacy_guarantee_.epsilon <= 1.0 and selector.privacy_guarantee_.delta == 0.0
        assert selector.score(X, y) > 0.5


def test_a_mean_selection_charges_a_third_at_most_and_no_more_than_planned():
    mechanism = MeanSelection(0.3, 1.0, 1.0, 3)
    search = mechanism._search
    assert 0.1 <= search.each_epsilon <= 0.15 and search.repetitions.eta == 1.0
    with open_release(epsilon=0.3, unit="user", adjacency="replace-one", random_state=0) as release:
        mechanism.run(np.zeros((40, 3)), release)
    ((event, count),) = release.close().events
    assert isinstance(event, PureEvent) and event.epsilon == pytest.approx(0.3, rel=1e-4) and count == 1


def choices_with(first_loss, n_runs, first):
    """Which of two constants is chosen, with one user's target replaced."""
    models = [
        (str(c), FrozenEstimator(DummyRegressor(strategy="constant", constant=c).fit([[0.0]], [0.0])))
        for c in (0.0, 1.0)
    ]
    y = np.array([first_loss, 0.0, 0.0, 1.0, 1.0, 1.0])
    X = np.zeros((6, 1))
    return [
        UserLevelSelector(models, epsilon=1.0, rule="votes", random_state=first + seed).fit(X, y).best_index_
        for seed in range(n_runs)
    ]


@pytest.mark.slow
def test_lower_bound_on_epsilon_of_the_choice_catches_half_the_noise():
    # Each assertion fails by chance with probability 1e-6 at most.
    runs = 2000
    assert epsilon_lower_bound(choices_with(0.0, runs, 0), choices_with(1.0, runs, runs)) <= 1.0
    with half_noise():
        found = epsilon_lower_bound(choices_with(0.0, runs, 0), choices_with(1.0, runs, runs))
    assert found > 1.0


def test_dummy_models_can_be_chosen():
    model = FrozenEstimator(DummyRegressor().fit([[0.0]], [1.0]))
    selector = UserLevelSelector([("only", model)], random_state=0).fit([[1.0], [2.0]], [1.0, 1.0])
    np.testing.assert_allclose(selector.predict([[0.0]]), [1.0])


class Coupled(RegressorMixin, BaseEstimator):
    """Predicts zero, give or take a bit that depends on where a row stands and how many there are, as BLAS does."""

    def __init__(self, sign=1.0):
        self.sign = sign

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        tail = np.arange(len(X)) >= len(X) - len(X) % 4
        return self.sign * 2.0**-40 * np.where(tail, 1.0, -1.0)


@st.composite
def grouped_rows(draw):
    n_users = draw(st.integers(1, 5))
    codes = np.array(draw(st.permutations([*range(n_users), *draw(st.lists(st.integers(0, n_users - 1)))])))
    values = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3)
    rows = np.array(draw(st.lists(values, min_size=len(codes), max_size=len(codes))))
    return codes, rows[:, :2].copy(), rows[:, 2].copy()


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(grouped_rows(), st.sampled_from(["squared_error", "absolute_error", "zero_one"]))
def test_losses_of_a_user_are_those_that_it_has_alone(data, loss):
    codes, X, y = data
    linear = LinearRegression()
    linear.coef_, linear.intercept_ = np.array([0.1, 1 / 3]), 0.7
    for model in (Coupled(), linear):
        losses = user_losses(model, X, y, codes, loss, by_user=True)
        for user in range(len(losses)):
            own = codes == user
            alone = user_losses(model, X[own], y[own], np.zeros(own.sum(), np.int64), loss, by_user=True)
            np.testing.assert_array_equal(losses[user], alone[0])


def scores_of(models, X, y, **parameters):
    """What the vote of a fit is drawn from."""
    tape = FrozenDraws()
    with run_tape(tape):
        UserLevelSelector(models, rule="votes", adjacency="add-remove", **parameters).fit(X, y)
    return tape.kinds("select")[0].statistic


def tied_models():
    """Two linear models and a row that both predict alike, but for the rounding of sums in different orders."""
    rng = np.random.default_rng(0)
    for _ in range(4000):
        half, w = rng.normal(size=8), rng.normal(size=8)
        row = np.concatenate([half, half])
        models = []
        for parts in ((0.3, 0.7), (0.7, 0.3)):
            model = LinearRegression(fit_intercept=False)
            model.coef_, model.intercept_ = np.concatenate([parts[0] * w, parts[1] * w]), 0.0
            models.append(model)
        target = float(row @ models[0].coef_) + 1.0
        order = []
        for n_rows in (3, 8):
            first, second = (np.square(m.predict(np.tile(row, (n_rows, 1))) - target) for m in models)
            order.append(np.sign(first - second))
        if (order[0] > 0).all() and (order[1] < 0).all():
            return models, row, target
    pytest.skip("this machine's BLAS rounds all rows alike.")


def test_another_row_does_not_break_anybodys_tie():
    models, row, target = tied_models()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 16))
    X = np.concatenate([X, X, np.tile(row, (3, 1))])
    y = np.concatenate([X[:50] @ models[0].coef_, X[:50] @ models[1].coef_, np.full(3, target)])
    named = [("a", models[0]), ("b", models[1])]
    alone = scores_of(named, X, y)
    more = scores_of(named, np.concatenate([X[:1], X]), np.concatenate([y[:1], y])) - alone
    assert more.min() >= 0 and more.max() <= 1


@pytest.mark.parametrize("n_rows", range(5, 9))
def test_votes_of_coupled_models_move_by_one_vote(n_rows):
    named = [("a", Coupled(1.0)), ("b", Coupled(-1.0))]
    X, y = np.zeros((n_rows + 1, 1)), np.ones(n_rows + 1)
    more = scores_of(named, X, y) - scores_of(named, X[1:], y[1:])
    assert more.min() >= 0 and more.max() <= 1


def test_in_a_batch_the_guarantee_assumes_that_rows_keep_to_themselves():
    models = [(str(c), DummyRegressor(strategy="constant", constant=c).fit([[0.0]], [c])) for c in (0.0, 1.0)]
    X, y = np.zeros((9, 1)), np.repeat([0.0, 1.0, 1.0], 3)
    by_user, batch = (UserLevelSelector(models, predict_by=how, random_state=0).fit(X, y) for how in ("user", "batch"))
    assert by_user.best_index_ == batch.best_index_
    np.testing.assert_array_equal(*(scores_of(models, X, y, predict_by=how) for how in ("user", "batch")))
    assert "candidates and loss treat every row by itself, to the last bit" in (batch.privacy_guarantee_.assumptions)
    assert not any("last bit" in text for text in by_user.privacy_guarantee_.assumptions)


def test_the_unit_is_what_was_told_apart():
    models = [("zero", DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0]))]
    X, y = np.zeros((6, 1)), np.zeros(6)
    assert UserLevelSelector(models, random_state=0).fit(X, y).privacy_guarantee_.unit == "row"
    users = np.arange(6) // 2
    assert UserLevelSelector(models, random_state=0).fit(X, y, user_ids=users).privacy_guarantee_.unit == "user"


def test_models_and_losses_see_one_user_at_a_time():
    seen = []

    def loss(y, predicted):
        seen.append((y.tolist(), predicted.tolist()))
        return np.abs(y - predicted)

    models = [("zero", DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0]))]
    X, y = np.zeros((5, 1)), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    UserLevelSelector(models, loss=loss, random_state=0).fit(X, y, user_ids=["b", "a", "b", "c", "a"])
    made_up, *seen = seen
    assert made_up == ([0.0], [0.0])
    assert sorted(seen) == [([1.0, 3.0], [0.0, 0.0]), ([2.0, 5.0], [0.0, 0.0]), ([4.0], [0.0])]


def test_integer_targets_compare_alike_whatever_the_others_are():
    model = DummyClassifier(strategy="constant", constant=2**53 + 1).fit([[0.0]], [2**53 + 1])
    code = np.zeros(1, np.int64)
    integer = user_losses(model, np.zeros((1, 1)), np.array([2**53]), code, "zero_one", by_user=True)
    real = user_losses(model, np.zeros((1, 1)), np.array([2.0**53]), code, "zero_one", by_user=True)
    assert integer == real


@pytest.mark.parametrize("rule", ["votes", "means"])
def test_nobodys_overflow_shows_as_a_warning(rule):
    linear = LinearRegression()
    linear.coef_, linear.intercept_ = np.array([1e300]), 0.0
    X, y = np.array([[1e300], [-1e300], [1.0]]), np.array([-1.7e308, 1.7e308, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*simulated noise")
        UserLevelSelector([("a", linear), ("b", linear)], rule=rule, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"loss": "squared_error"}, ["secret"] * 3, "y must hold numbers"),
        ({}, ["secret", 1.0, 2.0], "all strings or all numbers"),
        ({"loss": lambda y, p: np.ones((3, 2))}, [0.0] * 3, "loss must return one number a row"),
        ({"rule": "means", "bound": 1e300}, [0.0] * 3, r"2\*\*62 times the radius"),
        ({"rule": "means", "adjacency": "add-remove"}, [0.0] * 3, "needs adjacency='replace-one'"),
        ({"estimators": []}, [0.0] * 3, "at least one"),
    ],
)
def test_refusals_cost_nothing_and_show_nothing(parameters, y, message):
    models = [("zero", DummyRegressor(strategy="constant", constant=0.0).fit([[0.0]], [0.0]))]
    ledger = PrivacyLedger(epsilon=10.0, unit="row")
    selector = UserLevelSelector(models, ledger=ledger).set_params(**parameters)
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        selector.fit(np.zeros((3, 1)), y)
    assert "secret" not in str(caught.value)
    assert ledger.entries() == [] and not hasattr(selector, "privacy_guarantee_")


@pytest.mark.parametrize(
    "mechanism", [VoteSelection(0.7, monotone=False), VoteSelection(0.7, True), MeanSelection(0.7, 1.0, 1e6, 3)]
)
def test_mechanisms_draw_what_they_price(mechanism):
    rng = np.random.default_rng(0)
    for losses in (rng.normal(size=(40, 3)), np.full((4, 3), np.nan), np.array([[np.inf, -1e308, 0.0]])):
        release = open_release(epsilon=0.7, unit="user", adjacency="replace-one", plan=mechanism.events)
        assert mechanism.run(losses, release) in range(3)
        assert release._planned == {event: 0 for event, _ in mechanism.events}
        guarantee = release.close()
        assert guarantee.events == tuple(mechanism.events)
        assert guarantee.epsilon == pytest.approx(0.7, rel=1e-4) and guarantee.epsilon <= 0.7


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.floats(), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.floats(), min_size=3, max_size=3),
    st.integers(0, 2**16),
)
def test_neighbours_take_the_same_course_with_statistics_as_near_as_priced(rows, other, seed):
    losses = np.array(rows)
    neighbour = losses.copy()
    neighbour[0] = other
    tapes = []
    for data in (losses, neighbour):
        tape = FrozenDraws(seed)
        mechanism = MeanSelection(1.0, 1e-3, 1e3, 3)
        with run_tape(tape):
            release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", plan=mechanism.events)
        mechanism.run(data, release)
        tapes.append(tape.draws)
    assert [draw.kind for draw in tapes[0]] == [draw.kind for draw in tapes[1]]
    for a, b in zip(*tapes, strict=True):
        assert a.events == b.events
        if a.kind == "laplace":
            assert abs(int(a.statistic) - int(b.statistic)) <= a.sensitivity == b.sensitivity


def test_a_candidate_without_a_loss_is_the_worst():
    losses = np.column_stack([np.full(2000, np.nan), np.full(2000, 0.5)])
    # A seed with which both candidates are evaluated.
    for mechanism in (VoteSelection(1.0, monotone=False), MeanSelection(1.0, 1.0, 1e3, 2)):
        release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", plan=mechanism.events, random_state=2)
        assert mechanism.run(losses, release) == 1


def test_a_mean_selection_refuses_losses_that_it_cannot_number():
    with pytest.raises(ValueError, match="radius and bound"):
        MeanSelection(1.0, 1.0, math.inf, 2)
