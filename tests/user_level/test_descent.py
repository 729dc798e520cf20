"""The plan of a descent, what it draws, and what it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.privacy import (
    Adjacency,
    BoundedRangeEvent,
    GaussianEvent,
    compose_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.user_level import TooFewUsersWarning, UserLevelSGDRegressor
from skprivate.user_level._descent import adaptive_descent, project
from skprivate.user_level._fit import DescentSettings, PreparedDescent
from skprivate.user_level._paper import PaperPlan, winsorized_descent
from skprivate.user_level._phased import assign_phases, n_phases
from skprivate.user_level._plan import Neighbours, split_budget
from skprivate.user_level._problems import MeanProblem
from skprivate.user_level._users import UserGroups

REPLACE = Neighbours(Adjacency.REPLACE_ONE)
ADD = Neighbours(Adjacency.ADD_REMOVE)


def prepare(neighbours=REPLACE, n_users=2000, n_coef=5, **options):
    options = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "n_steps": None,
        "most_steps": 50,
        "select_clip": True,
        "clip_factor": 1.0,
        "clip_radius": 0.0,
        "select_scale": True,
        "radius": 2.0,
        "shrink_radius": False,
        **options,
    }
    return PreparedDescent(DescentSettings(neighbours=neighbours, n_users=n_users, **options), n_coef)


@settings(deadline=None, max_examples=8)
@given(
    st.sampled_from([0.1, 1.0, 8.0]),
    st.sampled_from([1e-5, 1e-8]),
    st.sampled_from([REPLACE, ADD]),
    st.sampled_from([None, 50, 100_000]),
    st.booleans(),
)
def test_everything_planned_fits_the_budget_and_uses_it(epsilon, delta, neighbours, n_users, clip):
    prepared = prepare(neighbours, n_users, epsilon=epsilon, delta=delta, select_clip=clip)
    spent = compose_epsilon(prepared.events, delta)
    assert spent <= epsilon * (1 + 2.0**-40)
    assert spent > 0.995 * epsilon


def test_selections_are_planned_only_where_users_can_decide_them():
    assert any(isinstance(event, BoundedRangeEvent) for event, _ in prepare(n_users=5000).events)
    few = prepare(n_users=30)
    assert all(isinstance(event, GaussianEvent) for event, _ in few.events)
    mu = math.sqrt(sum(count / event.noise_multiplier**2 for event, count in few.events))
    assert 1 / mu == pytest.approx(gaussian_noise_multiplier(1.0, 1e-6), rel=1e-6)


def test_sensitivities_of_both_relations():
    assert REPLACE.sum_sensitivity == 2.0 and not REPLACE.monotone
    assert ADD.sum_sensitivity == 1.0 and ADD.monotone
    assert split_budget(1.0, 1e-6, ADD, n_users=None, n_numbers=10, scales=0, clip=False).count_multiplier
    assert (
        split_budget(1.0, 1e-6, ADD, n_users=99, n_numbers=10, scales=0, clip=False).count_multiplier is None
    )


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("n_users", [None, 3, 3000])
def test_a_run_draws_exactly_its_plan(neighbours, n_users, recording_release):
    """Also where the number of users is released: what is drawn must not depend on it."""
    for exact in (3, 3000):
        prepared = prepare(neighbours, n_users)
        vectors = np.random.default_rng(0).normal(size=(exact, 5))
        problem = MeanProblem(vectors, UserGroups(np.arange(exact)))
        release = recording_release(0)
        prepared.run(
            lambda plan, level, rel, problem=problem: adaptive_descent(problem, plan, rel),
            exact,
            np.ones(exact),
            release,
        )
        drawn: dict = {}
        for draw in release.draws:
            if draw["kind"] == "gaussian":
                event = GaussianEvent(draw["multiplier"], draw["value"].size)
            else:
                event = BoundedRangeEvent(draw["epsilon"])
            drawn[event] = drawn.get(event, 0) + 1
        planned: dict = {}
        for event, count in prepared.events:
            planned[event] = planned.get(event, 0) + count
        assert drawn == planned


def test_every_sum_of_a_run_has_the_stated_sensitivity(recording_release):
    """Replay a run on a neighbour with the same released values: no sum moves by more than its sensitivity."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 4))
    other = vectors.copy()
    other[7] = 1e6
    prepared = prepare(REPLACE, 300, n_coef=4)

    class Replay(recording_release):
        def __init__(self, answers):
            super().__init__(1)
            self.answers = answers

        def gaussian(self, value, **options):
            super().gaussian(value, **options)
            return self.answers[len(self.draws) - 1]

        def select(self, scores, **options):
            super().select(scores, **options)
            return self.answers[len(self.draws) - 1]

    class Recorder(recording_release):
        def __init__(self):
            super().__init__(1)
            self.answers = []

        def gaussian(self, value, **options):
            self.answers.append(super().gaussian(value, **options))
            return self.answers[-1]

        def select(self, scores, **options):
            self.answers.append(super().select(scores, **options))
            return self.answers[-1]

    first = Recorder()
    runs = []
    for data, release in ((vectors, first), (other, None)):
        release = release or Replay(first.answers)
        problem = MeanProblem(data, UserGroups(np.arange(300)))
        prepared.run(
            lambda plan, level, rel, problem=problem: adaptive_descent(problem, plan, rel),
            300,
            np.linalg.norm(data, axis=1),
            release,
        )
        runs.append(release.draws)
    assert len(runs[0]) == len(runs[1])
    moved = 0.0
    for a, b in zip(*runs, strict=True):
        if a["kind"] == "gaussian":
            change = np.linalg.norm(a["value"] - b["value"])
            assert change <= a["sensitivity"] + 1e-9
            moved = max(moved, change)
        else:
            assert np.abs(a["value"] - b["value"]).max() <= 1
    assert moved > 1.0  # a sensitivity of 1 would be wrong under replacement


@pytest.mark.parametrize("seed", range(5))
def test_descent_finds_the_spatial_centre_without_any_scale(seed, recording_release):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-3, 4)
    vectors = scale * (3.0 + rng.normal(size=(5000, 4)) * 0.2)
    prepared = prepare(ADD, 5000, n_coef=4, radius=math.inf)
    problem = MeanProblem(vectors, UserGroups(np.arange(5000)))
    result = prepared.run(
        lambda plan, level, rel: adaptive_descent(problem, plan, rel),
        5000,
        np.linalg.norm(vectors, axis=1),
        recording_release(seed),
    )
    assert np.linalg.norm(result.coef - vectors.mean(axis=0)) < 0.05 * scale
    assert 0.2 * scale < result.clip_radius < 0.8 * scale


def test_projection():
    np.testing.assert_allclose(project(np.array([3.0, 4.0]), 1.0), [0.6, 0.8])
    np.testing.assert_allclose(project(np.array([3.0, 4.0]), math.inf), [3.0, 4.0])


def test_algorithm_4_prices():
    plan = PaperPlan(1.0, 1e-6, 10, 1.0, 10.0, 0.05, 0.5, math.inf, "convex")
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
    plan = PaperPlan(1e9, 1e-6, 40, 1.0, 100.0, 0.05, 0.5, 10.0, convexity)
    release = recording_release(1, noise=0.0)
    coef = winsorized_descent(MeanProblem(vectors, UserGroups(np.arange(500))), plan, release)
    # A random iterate may be an early one; the others converge.
    limit = 1.8 if convexity == "non-convex" else 0.1
    assert np.linalg.norm(coef - vectors.mean(axis=0)) < limit


def test_phases_halve_and_depend_on_a_user_alone():
    rng = np.random.default_rng
    names = np.array([f"user {i}" for i in range(20_000)])
    phases = assign_phases(names, 4, rng(0))
    counts = np.bincount(phases) / len(names)
    # Hoeffding: each within 0.02 but for probability 2 exp(−16) = 2e-7.
    np.testing.assert_allclose(counts, [0.5, 0.25, 0.125, 0.125], atol=0.02)
    np.testing.assert_array_equal(assign_phases(names[5:], 4, rng(0)), phases[5:])
    assert n_phases(0.6) == 1 and n_phases(0.01) == 5


def test_phased_fit_costs_what_one_phase_costs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=20_000)
    users = np.arange(20_000) // 10
    model = UserLevelSGDRegressor(solver="phased", random_state=0).fit(X, y, user_ids=users)
    assert 0.99 < model.privacy_guarantee_.epsilon <= 1.0
    assert "keeps its identifier" in " ".join(model.privacy_guarantee_.assumptions)
    np.testing.assert_allclose(model.coef_, [1.0, -1.0, 0.5], atol=0.1)


def test_the_limit_of_few_users_is_said_with_the_number():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 3)), rng.normal(size=5000)
    with pytest.warns(TooFewUsersWarning, match=r"n = 10 users at epsilon = 1 \(n·ε = 10\).*About \d+ users"):
        UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=np.arange(5000) % 10)
