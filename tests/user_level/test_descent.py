"""The plan of a descent, what it draws, and what it finds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.papers.user_level import Plan, winsorized_descent
from skprivate.privacy import (
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    compose_epsilon,
    gaussian_noise_multiplier,
    open_release,
)
from skprivate.privacy._events import run_tape
from skprivate.user_level import TooFewUsersWarning, UserLevelSGDRegressor, _ranges
from skprivate.user_level._losses import SquaredLoss
from skprivate.user_level._plan import DescentPlan, Terms, split_budget
from skprivate.user_level._problems import MeanProblem, Objective, UserData, UserGroups
from skprivate.user_level.descent._descent import adaptive_descent, project
from skprivate.user_level.descent._linear import Descent
from skprivate.user_level.descent._rules import Bounds, Clipping, Penalty
from skprivate.user_level.means._user_mean import UserMean

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class Centre:
    """The objective whose minimiser is the mean of the users' vectors."""

    n_coef: int
    alpha: float = 0.0
    metric: object = None
    loss = None
    n_outputs = 1
    fit_intercept = False

    @property
    def n_features(self):
        return self.n_coef

    def problem(self, data):
        return MeanProblem(np.ascontiguousarray(data.X.T), data.groups)


def descent(adjacency=REPLACE, n_users=2000, n_coef=5, epsilon=1.0, delta=1e-6, kind=Descent, **options):
    select, scale = options.pop("select_clip", True), options.pop("select_scale", True)
    options = {
        "objective": Centre(n_coef),
        "penalty": Penalty(given=0.0),
        "given_steps": options.pop("given_steps", None),
        "clipping": Clipping(select=select, radius=options.pop("clip_radius", 0.0)),
        "bounds": Bounds(radius=options.pop("radius", 2.0), select_scale=scale),
        **options,
    }
    return kind(terms=Terms(epsilon, delta, adjacency, n_users), **options)


def data_of(vectors):
    n = len(vectors)
    return UserData(vectors, np.linalg.norm(vectors, axis=1), UserGroups(np.arange(n)), np.arange(n))


class Recorder:
    """Keeps all draws; gives them the results of an earlier run where there is one."""

    def __init__(self, earlier=None):
        self.draws, self.results, self.earlier = [], [], earlier

    def draw(self, draw, sample):
        self.draws.append(draw)
        self.results.append(self.earlier.results[len(self.results)] if self.earlier else sample())
        return self.results[-1]


def run_on(mechanism, data, terms, earlier=None):
    tape = Recorder(earlier)
    with (
        run_tape(tape),
        open_release(
            epsilon=terms.epsilon,
            delta=terms.delta,
            unit="user",
            adjacency=terms.adjacency,
            random_state=0,
            plan=mechanism.events,
        ) as release,
    ):
        result = mechanism.run(data, release)
    return result, tape


@settings(deadline=None, max_examples=8)
@given(
    st.sampled_from([0.1, 1.0, 8.0]),
    st.sampled_from([1e-5, 1e-8]),
    st.sampled_from([REPLACE, ADD]),
    st.sampled_from([None, 50, 100_000]),
    st.booleans(),
)
def test_everything_planned_fits_the_budget_and_uses_it(epsilon, delta, adjacency, n_users, clip):
    spent = compose_epsilon(descent(adjacency, n_users, epsilon=epsilon, delta=delta, select_clip=clip).events, delta)
    assert spent <= epsilon * (1 + 2.0**-40)
    assert spent > 0.995 * epsilon


def test_selections_are_planned_only_where_users_can_decide_them():
    assert any(isinstance(event, BoundedRangeEvent) for event, _ in descent(n_users=5000).events)
    few = descent(n_users=30)
    assert all(isinstance(event, GaussianEvent) for event, _ in few.events)
    mu = math.sqrt(sum(count / event.noise_multiplier**2 for event, count in few.events))
    assert 1 / mu == pytest.approx(gaussian_noise_multiplier(1.0, 1e-6), rel=1e-6)


def test_sensitivities_of_both_relations():
    replace, add, public = (Terms(1.0, 1e-6, *pair) for pair in ((REPLACE, 99), (ADD, None), (ADD, 99)))
    assert replace.sum_sensitivity == 2.0 and not replace.monotone
    assert add.sum_sensitivity == 1.0 and add.monotone
    assert split_budget(add, n_numbers=10).count_multiplier
    assert split_budget(public, n_numbers=10).count_multiplier is None


@pytest.fixture
def quasi_newton(monkeypatch):
    """Steps with a public clipping radius are quasi-Newton, whatever the noise."""
    monkeypatch.setattr(_ranges, "QUIET_LEVEL", math.inf)


def mechanisms(terms):
    """Every mechanism, with data for n users."""
    linear = Objective(SquaredLoss(), 2, 1, True)

    def rows(n):
        X = np.random.default_rng(0).normal(size=(2 * n, 2))
        return UserData(X, X[:, 0] + 1.0, UserGroups(np.arange(2 * n) // 2), np.arange(n))

    options = {"adjacency": terms.adjacency, "n_users": terms.n_users, "given_steps": 4}
    yield descent(objective=linear, **options), rows
    yield descent(objective=linear, select_clip=False, select_scale=False, **options), rows
    quiet = {"select_clip": False, "select_scale": False, "clip_radius": 0.5, "given_steps": 8}
    yield descent(objective=linear, **{**options, **quiet}), rows
    yield UserMean(terms, 2, True, bound=1e9), lambda n: (rows(n).X, rows(n).groups)
    yield UserMean(terms, 2, True, tau=0.5), lambda n: (rows(n).X, rows(n).groups)


@pytest.mark.parametrize(("adjacency", "n_users"), [(REPLACE, 3), (REPLACE, 3000), (ADD, 3), (ADD, 3000), (ADD, None)])
@pytest.mark.usefixtures("quasi_newton")
def test_a_run_draws_exactly_its_plan(adjacency, n_users):
    """Also where the number of users is released: what is drawn must not depend on it."""
    terms = Terms(1.0, 1e-6, adjacency, n_users)
    for mechanism, rows in mechanisms(terms):
        for exact in (3, 3000) if adjacency is ADD else (n_users,):
            _, tape = run_on(mechanism, rows(exact), terms)
            drawn, planned = Counter(), Counter()
            for draw in tape.draws:
                drawn.update(draw.events)
            for event, count in mechanism.events:
                planned[event] += count
            assert drawn == planned, type(mechanism).__name__


@pytest.mark.usefixtures("quasi_newton")
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_every_draw_of_a_run_has_the_stated_sensitivity(adjacency):
    """Replay a run on a neighbour with the same released values: all sums are integers, and none moves too far."""
    moved = 0.0
    for number, (mechanism, rows) in enumerate(mechanisms(Terms(1.0, 1e-6, adjacency, 300))):
        data = rows(300)
        X, groups = (data.X, data.groups) if isinstance(data, UserData) else data
        if adjacency is REPLACE:
            other = np.concatenate([X[:-2], [[1e6, -1e6], [1e-9, 3.0]]])
            kept = groups
        else:
            other, kept = X[:-2], UserGroups(np.arange(598) // 2)
        changed = (
            UserData(other, other[:, 0] + 1.0, kept, np.arange(kept.n_users))
            if isinstance(data, UserData)
            else (other, kept)
        )
        terms = Terms(1.0, 1e-6, adjacency, 300)
        _, first = run_on(mechanism, data, terms)
        _, second = run_on(mechanism, changed, terms, earlier=first)
        for a, b in zip(first.draws, second.draws, strict=True):
            change = (np.asarray(a.statistic) - np.asarray(b.statistic)).astype(object)
            assert np.asarray(a.statistic).dtype.kind in "iO", (number, a.kind)
            if a.kind == "gaussian":
                assert (change**2).sum() <= Fraction(a.sensitivity) ** 2
                moved = max(moved, float((change**2).sum()) ** 0.5 * a.step)
            else:
                assert abs(change).max() <= 1
                assert not a.options["monotone"] or (change.min() >= -1 and change.max() <= 0)
    assert moved > (1.0 if adjacency is REPLACE else 0.99)  # a sensitivity of 1 would be wrong under replacement


@pytest.mark.parametrize("seed", range(5))
def test_descent_finds_the_spatial_centre_without_any_scale(seed, recording_release):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-3, 4)
    vectors = scale * (3.0 + rng.normal(size=(5000, 4)) * 0.2)
    mechanism = descent(ADD, 5000, n_coef=4, radius=math.inf)
    result = mechanism.run(data_of(vectors), recording_release(seed))
    assert np.linalg.norm(result.coef - vectors.mean(axis=0)) < 0.05 * scale
    assert 0.2 * scale < result.clip_radius < 0.8 * scale


def test_projection():
    np.testing.assert_allclose(project(np.array([3.0, 4.0]), 1.0), [0.6, 0.8])
    np.testing.assert_allclose(project(np.array([3.0, 4.0]), math.inf), [3.0, 4.0])


def test_algorithm_4_prices():
    plan = Plan(1.0, 1e-6, 10, 1.0, 10.0, 0.05, 0.5, math.inf, "convex")
    assert plan.step_epsilon == pytest.approx(1.0 / (2 * math.sqrt(20 * math.log(2e6))))
    assert plan.step_delta == pytest.approx(1e-6 / 20)
    (selection, n_selections), (laplace, n_laplace) = plan.events(5)
    assert n_selections == n_laplace == 10 * 8
    assert selection.epsilon == laplace.epsilon
    # The published composition is valid, and far from tight.
    assert compose_epsilon(plan.events(5), 1e-6) < 0.1


@pytest.mark.parametrize("convexity", ["convex", "strongly-convex", "non-convex"])
def test_algorithm_4_minimises(convexity, recording_release):
    vectors = 1.0 + 0.1 * np.random.default_rng(0).normal(size=(500, 3))
    plan = Plan(1e9, 1e-6, 40, 1.0, 100.0, 0.05, 0.5, 10.0, convexity)
    release = recording_release(1, noise=0.0)
    coef = winsorized_descent(MeanProblem(vectors.T.copy(), UserGroups(np.arange(500))), plan, 3, release)
    # A random iterate may be an early one; the others converge.
    limit = 1.8 if convexity == "non-convex" else 0.1
    assert np.linalg.norm(coef - vectors.mean(axis=0)) < limit


def test_the_limit_of_few_users_is_said_with_the_number():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 3)), rng.normal(size=5000)
    with pytest.warns(TooFewUsersWarning, match=r"n = 10 users at epsilon = 1 \(n·ε = 10\).*About \d+ users"):
        UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=np.arange(5000) % 10)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_search_and_refinement_are_one_sum_with_all_the_budget(adjacency):
    split = split_budget(Terms(1.0, 1e-6, adjacency, 1000), n_numbers=400)
    plan = DescentPlan(split, 1000, 40, 10, 1.0, 0.1)
    parts = plan.search_steps / plan.search_multiplier**2 + plan.refine_steps / plan.refine_multiplier**2
    assert parts == pytest.approx(1.0 / split.multiplier**2)


@pytest.mark.parametrize("n_users", [50, 300, 1000, 3000, 100_000])
def test_steps_are_as_many_as_leave_a_signal_in_each(n_users):
    mechanism = descent(n_users=n_users)
    # Of one step with an equal part of all of the budget, against a unanimous vote.
    noise = mechanism.split.level(n_users, 5) * np.sqrt([mechanism.n_steps - 1, mechanism.n_steps + 1])
    assert mechanism.n_steps == {50: 10, 100_000: 50}.get(n_users, mechanism.n_steps)
    assert mechanism.n_steps in (10, 50) or noise[0] < 0.1**0.5 < noise[1]


def test_steps_of_an_unknown_number_of_users():
    assert descent(n_users=None).n_steps == 50
    assert descent(n_users=None, given_steps=7).n_steps == 7


@pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning")
def test_few_rows_keep_what_they_say():
    """With 20 to 50 steps and a penalty of 3 d ν² it was .54 ± .017, now .64 ± .02."""
    rng = np.random.default_rng(3)
    scores = []
    for seed in range(20):
        X = rng.normal(size=(2300, 10))
        y = X[:, :5].sum(axis=1) / 5**0.5 + 0.4 * rng.normal(size=2300)
        model = UserLevelSGDRegressor(1.0, random_state=seed, standardize=False).fit(X[:300], y[:300])
        scores.append(model.score(X[300:], y[300:]))
    assert np.mean(scores) > 0.59


@pytest.mark.slow
def test_normal_users_are_clipped_no_farther_out_than_pays():
    """The radius was 0.3 ν^(−1/2) medians whatever the users were like, twice to four times the risk of this."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000 * 10, 10))
    users = np.repeat(np.arange(2000), 10)
    truth = np.full(10, 0.3)
    risks = []
    for seed in range(12):
        y = X @ truth + 0.5 * rng.normal(size=len(X))
        model = UserLevelSGDRegressor(1.0, fit_intercept=False, random_state=seed).fit(X, y, user_ids=users)
        risks.append(0.5 * np.sum((model.coef_ - truth) ** 2))
    # About 1.1e-4 (2.7e-4 before), with a deviation of 4e-5 for one: 1.9e-4 is seven standard errors of the mean.
    assert np.mean(risks) < 1.9e-4


def test_a_step_grows_where_all_directions_agree():
    seen = []

    class Watched(MeanProblem):
        def contribution_sum(self, w, radius):
            seen.append(w[0])
            return np.zeros(4, dtype=np.int64)

    class Agreeing:
        def gaussian(self, *_, **__):
            return np.full(4, -1e6)

    split = split_budget(Terms(1.0, 1e-6, REPLACE, 100), n_numbers=80)
    plan = DescentPlan(split, 100.0, 20, 4, math.inf, 1e-3)
    adaptive_descent(Watched(np.zeros((4, 1)), UserGroups(np.zeros(1, dtype=int))), plan, Agreeing())
    steps = np.diff(seen[: plan.search_steps + 1])
    np.testing.assert_allclose(steps[1:] / steps[:-1], math.exp(0.3), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::skprivate.user_level.UnscaledFeaturesWarning")
@pytest.mark.parametrize("alpha", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("epsilon", [3.0, 1e4])
def test_a_penalty_in_original_units_does_not_throw_the_iterates_about(alpha, epsilon):
    """The penalties of standardised coefficients differ by 10¹²: no ridge solution is longer than least squares."""
    rng = np.random.default_rng(0)
    scales, truth = np.geomspace(1e-3, 1e3, 5), np.array([1.0, -1.0, 0.5, 0.2, 0.0])
    Z = rng.normal(size=(20_000, 5))
    model = UserLevelSGDRegressor(epsilon, alpha=alpha, random_state=0)
    model.fit(Z * scales, Z @ truth + rng.normal(size=20_000))
    assert np.linalg.norm(model.coef_ * scales) <= 1.05 * np.linalg.norm(truth)
