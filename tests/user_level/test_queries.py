"""Adaptive queries: prices, sensitivities, answers, and what is refused before anything is spent."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from helpers.frozen_draws import FrozenDraws
from scipy.stats import kstest, norm

from skprivate.privacy import BudgetExceededError, PrivacyLedger, compose_epsilon
from skprivate.privacy._events import run_tape
from skprivate.user_level import UserLevelQueries
from skprivate.user_level._queries import WinsorizedAnswers
from skprivate.utils._replay import replay
from skprivate.utils.estimator_checks import check_mechanism

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
N = 3000
#: One query, with a range to be found; pure; and many where nothing has to be found.
PLANS = [(1.0, 1e-6, N, 1, 1000), (2.0, 0.0, N, 5, 40), (0.5, 1e-7, N, 200, 1), (0.5, 0.0, N, 3, 1)]


def users(n_users=N, each=3, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(n_users), each))
    return 20.0 + rng.normal(size=(len(ids), 2)), ids


def make(X, ids, **options):
    options = {"n_queries": 4, "bound": 1000.0, "tau": 4.0, "random_state": 0} | options
    return UserLevelQueries(X, user_ids=ids, **options)


def session(data):
    """Adaptive: the third query asks about the answers to the first two; τ and B differ."""
    with make(*data) as queries:
        first = queries.mean(lambda rows: rows[:, 0].mean())
        size = queries.mean(len, bound=100.0, tau=1.0)
        third = queries.mean(lambda rows: np.median(rows[:, 1]) - first, tau=500.0, bound=500.0)
        return [first, size, third, queries.n_left, queries.noise()]


@pytest.mark.parametrize("plan", PLANS)
def test_all_answers_fit_the_budget_and_use_it(plan):
    mechanism = WinsorizedAnswers(*plan)
    price = compose_epsilon(mechanism.events, plan[1])
    assert 0.999 * plan[0] <= price <= plan[0]
    if plan[4] == 1:
        assert len(mechanism.events) == 1


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("plan", PLANS)
def test_answers_draw_what_they_price_with_the_stated_sensitivity(plan):
    bound, tau = 2.0 * plan[4], 2.0
    rng = np.random.default_rng(0)
    data = np.column_stack([rng.normal(size=N) for _ in range(plan[3])])

    def neighbours(rows):
        for value in (np.inf, -1e300, np.nan, 1.0):
            other = rows.copy()
            other[7] = value
            yield other

    class Columns(WinsorizedAnswers):
        def run(self, data, release):
            return super().run(((column, tau, bound) for column in data.T), release)

    check_mechanism(Columns(*plan), [data], neighbours=neighbours, unit="user")


def test_neighbours_take_the_same_course_with_statistics_as_near_as_priced():
    X, ids = users(400)

    def neighbours():
        for change in (1e308, -1e308, 0.0, 5e-324):
            other = X.copy()
            other[ids == 3] = change
            yield other, ids
        yield np.vstack([X, np.zeros((5, 2))]), np.append(ids, [3] * 5)  # user 3 has other rows, and more
        kept = (ids != 3) | (np.cumsum(ids == 3) == 1)
        yield X[kept], ids[kept]

    report = replay(session, (X, ids), neighbours())
    assert report.failures == ()
    assert report.n_draws == 5  # the third query needs no range
    assert 0.0 < max(report.worst.values()) <= 1.0


def test_answers_are_means_over_users_without_noise():
    X, ids = users(300, each=4)
    weights = np.random.default_rng(1).integers(1, 5, size=300)
    keep = np.concatenate([np.flatnonzero(ids == u)[: weights[u]] for u in range(300)])
    X, ids = X[keep], ids[keep]
    tape = FrozenDraws()
    with run_tape(tape):
        queries = make(X, ids, tau=1000.0)
        found = queries.mean(lambda rows: rows[:, 0].max() - len(rows))
    expected = np.mean([X[ids == u, 0].max() - weights[u] for u in range(300)])
    assert found == pytest.approx(expected, abs=1e-4)
    assert [draw.kind for draw in tape.draws] == ["gaussian"]


def test_intervals_are_those_of_algorithm_2():
    """Two radii on both sides of what was found, and all of the range where nothing has to be found."""
    X = np.repeat([-5.0, 1.0, 7.0, 300.0], [1, 600, 1, 1])[:, None]
    tape = FrozenDraws()
    with run_tape(tape):
        narrow = make(X, None, bound=100.0, tau=2.0)
        found = narrow.mean(lambda rows: rows[0, 0])
        wide = make(X, None, bound=6.0, tau=None)
        whole = wide.mean(lambda rows: rows[0, 0])
    position = [draw for draw in tape.draws if draw.kind == "select"]
    assert len(position) == 1
    middles = -100.0 + (2.0 * np.arange(50) + 1.0) * 2.0
    means = np.array([np.clip(X[:, 0], middle - 4.0, middle + 4.0).mean() for middle in middles])
    assert np.abs(means - found).min() < 1e-6
    assert whole == pytest.approx(np.clip(X[:, 0], -6.0, 6.0).mean(), abs=1e-6)
    assert narrow.noise() / wide.noise() > 4.0 / 6.0  # ranges take their share


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_stated_noise_is_the_noise(delta):
    X, ids = users(300, each=1)
    errors = []
    queries = make(X, ids, n_queries=300, bound=30.0, tau=30.0, delta=delta, epsilon=30.0)
    scale = queries.noise()
    for _ in range(300):
        errors.append(queries.mean(lambda rows: rows[0, 0]) - X[:, 0].mean())
    assert np.std(errors) == pytest.approx(scale, rel=0.35)  # a relative deviation below 0.09 each
    if delta:
        assert kstest(np.array(errors) / scale, norm.cdf).pvalue > 1e-7
    assert queries.noise(tau=15.0, bound=15.0) == pytest.approx(scale / 2)


def test_strong_composition_of_the_paper_needs_several_times_the_noise():
    n_queries, epsilon, delta = 100, 1.0, 1e-6
    mechanism = WinsorizedAnswers(epsilon, delta, 20_000, n_queries, 10**6)
    each = epsilon / math.sqrt(8.0 * n_queries * math.log(2.0 / delta))
    as_published = math.sqrt(2.0) / (each / 2.0) / 20_000
    assert as_published / mechanism.relative_noise > 6.0


def test_hidden_ranges_are_found_and_later_queries_use_earlier_answers():
    X, ids = users()
    for seed in range(5):
        with make(X + 700.0, ids, random_state=seed) as queries:
            centre = queries.mean(lambda rows: rows.mean())
            spread = queries.mean(lambda rows, c=centre: ((rows - c) ** 2).mean())
        assert abs(centre - 720.0) < 0.2 and abs(spread - 1.0) < 0.2


def test_what_fails_for_somebody_is_not_said():
    X, ids = users(500, each=1)
    X[3] = 77.0

    def query(rows):
        if rows[0, 0] == 77.0:
            raise RuntimeError(f"look who is here: {rows}")
        np.log(-np.abs(rows))  # warns of everybody
        return rows[0, 1] if rows[0, 0] != 20.5 else "many"

    queries = make(X, ids)
    assert abs(queries.mean(query) - 20.0) < 1.0
    with pytest.raises(RuntimeError, match="public"):
        queries.mean(lambda rows: (_ for _ in ()).throw(RuntimeError("public")))
    assert queries.n_left == 3


def test_a_query_cannot_change_rows_for_the_next():
    X, ids = users(500)

    def spoil(rows):
        rows[:] = -1000.0
        return 0.0

    with run_tape(FrozenDraws()):
        queries = make(X, ids, tau=1000.0)
        queries.mean(spoil)
        assert queries.mean(lambda rows: rows[:, 0].mean()) > 15.0


def test_what_is_wrong_is_refused_before_anything_is_spent():
    X, ids = users(500)
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="user")
    for options, error, message in [
        ({"n_queries": 0}, ValueError, "n_queries"),
        ({"n_queries": 1.5}, TypeError, "n_queries"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"tau": 2000.0}, ValueError, "tau must be at most bound"),
        ({"bound": -1.0}, ValueError, "bound"),
        ({"bound": 1e300, "tau": 1e-3}, ValueError, "2\\*\\*62"),
        ({"n_queries": 10_000}, ValueError, "500 users at epsilon = 1 are too few.* are needed"),
        ({"n_queries": 100, "delta": 0.0}, ValueError, "are too few"),
    ]:
        with pytest.raises(error, match=message):
            make(X, ids, ledger=ledger, **options)
    assert ledger.spent[0] == 0.0
    queries = make(X, ids, ledger=ledger)
    paid = ledger.spent
    assert 0.5 < paid[0] <= 1.0  # at the ledger's δ
    for query, options, error, message in [
        ("mean", {}, TypeError, "query must be a function"),
        (lambda rows: rows[0], {}, TypeError, "one number for one user's rows, got 1 dim"),
        (lambda rows: "many", {}, TypeError, "one number"),
        (len, {"tau": 0.001}, ValueError, "bound must be at most 250 times tau"),
        (len, {"tau": 1e5}, ValueError, "tau must be at most bound"),
    ]:
        with pytest.raises(error, match=message):
            queries.mean(query, **options)
    assert queries.n_left == 4
    for _ in range(4):
        queries.mean(len)
    with pytest.raises(BudgetExceededError, match="all queries"):
        queries.mean(len)
    assert ledger.spent == paid


def test_too_few_users_are_told_how_many_are_needed():
    for delta in (0.0, 1e-6):
        for n_queries in (1, 50):
            with pytest.raises(ValueError, match="are needed") as error:
                WinsorizedAnswers(1.0, delta, 5, n_queries, 1000)
            needed = int(str(error.value).split(": ")[1].split()[0])
            WinsorizedAnswers(1.0, delta, needed, n_queries, 1000).events  # noqa: B018
            with pytest.raises(ValueError, match="are needed"):
                WinsorizedAnswers(1.0, delta, needed - 1, n_queries, 1000)


def test_the_end():
    X, ids = users(500)
    queries = make(X, ids)
    assert repr(queries) == "<UserLevelQueries: 4 of 4 left>"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(queries)
    guarantee = queries.close()
    assert (guarantee.unit, guarantee.adjacency) == ("user", "replace-one")
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(RuntimeError, match="closed"):
        queries.mean(len)
    assert X.tobytes() not in pickle.dumps({k: v for k, v in vars(queries).items() if k != "_release"})
    assert make(X, None).close().unit == "row"
