"""Algorithms 4 and 5: their price, what they find, and users who keep to themselves."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from helpers.frozen_draws import FrozenDraws
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.papers.user_level import Plan, phased_descent, winsorized_descent
from skprivate.privacy import open_release
from skprivate.privacy._events import run_tape
from skprivate.user_level._losses import HuberLoss, LogisticLoss, SquaredLoss
from skprivate.user_level._problems import Objective, UserData, UserGroups


class Distances:
    """Half the squared distance from one vector per user."""

    def __init__(self, vectors):
        self.vectors = np.array(vectors)
        self.n_coef = self.vectors.shape[1]

    def user_gradients(self, w):
        return 4.0 * (w - self.vectors) * 0.25  # overflows for large entries, as other problems do


def descent(n_coef, n_steps=2, *, epsilon=1.0, tau=1.0, bound=1e6, convexity="convex"):
    plan = Plan(epsilon, 1e-6, n_steps, tau, bound, 0.05, 0.5, 1e9, convexity)
    return partial(winsorized_descent, plan=plan, n_coef=n_coef), plan.events(n_coef)


def opened(events, **parameters):
    return open_release(epsilon=1.0, delta=1e-6, unit="user", adjacency="replace-one", plan=events, **parameters)


def frozen_run(algorithm, vectors, tape=None):
    run, events = algorithm
    tape = FrozenDraws() if tape is None else tape
    with run_tape(tape):
        release = opened(events, random_state=0)  # public rotations alike
    return run(Distances(vectors), release=release), tape.draws


@pytest.mark.parametrize("convexity", ["convex", "strongly-convex", "non-convex"])
@pytest.mark.parametrize("n_coef", [1, 3])
def test_algorithm_4_draws_what_it_prices(convexity, n_coef):
    run, events = descent(n_coef, n_steps=3, convexity=convexity)
    for vectors in (np.ones((5, n_coef)), np.full((1, n_coef), np.nan), np.full((2, n_coef), 1e308)):
        release = opened(events)
        assert run(Distances(vectors), release=release).shape == (n_coef,)
        assert set(release._planned.values()) == {0}
        guarantee = release.close()
        assert guarantee.events == tuple(events)
        assert guarantee.epsilon < 1.0


numbers = st.floats(-5.0, 5.0) | st.floats()


class Replay(FrozenDraws):
    """Releases what the draws of another run released."""

    def __init__(self, seed, draws):
        super().__init__(seed)
        self.released = [float(draw.statistic) for draw in draws if draw.kind == "laplace"]

    def draw(self, draw, sample):
        result = super().draw(draw, sample)
        return self.released.pop(0) if draw.kind == "laplace" else result


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(numbers, min_size=3, max_size=3),
    st.integers(0, 2**16),
)
def test_one_user_moves_every_sum_of_a_run_by_at_most_its_sensitivity(vectors, other, seed):
    # Later draws depend on what earlier ones released: both runs are given the same.
    algorithm = descent(3)
    _, draws = frozen_run(algorithm, vectors, FrozenDraws(seed))
    _, replayed = frozen_run(algorithm, [other, *vectors[1:]], Replay(seed, draws))
    assert len(draws) == len(replayed) == 2 * 2 * 4
    for a, b in zip(draws, replayed, strict=True):
        assert a.kind == b.kind and a.events == b.events
        if a.kind == "laplace":
            assert abs(int(a.statistic) - int(b.statistic)) <= a.sensitivity == b.sensitivity


def test_the_order_of_users_changes_no_bit():
    vectors = np.random.default_rng(0).normal(size=(101, 5)) * np.logspace(-8, 8, 101)[:, None]
    coef, draws = frozen_run(descent(5), vectors)
    again, permuted = frozen_run(descent(5), vectors[::-1])
    np.testing.assert_array_equal(coef, again)
    assert [draw.statistic.tolist() for draw in draws] == [draw.statistic.tolist() for draw in permuted]


def test_no_warning_tells_of_somebodys_overflow():
    vectors = np.array([[1.7e308, -1.7e308, 1.7e308], [math.inf, math.nan, 0.0], [5e-324, 1.0, -1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*simulated noise")
        coef, _ = frozen_run(descent(3, n_steps=4), vectors)
    assert np.isfinite(coef).all()


def test_a_descent_refuses_ranges_that_it_cannot_number():
    with pytest.raises(ValueError, match="times the radius"):
        descent(3, tau=1e-12, bound=1e12)


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(1.35), LogisticLoss()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("convexity", ["convex", "strongly-convex", "non-convex"])
def test_one_user_of_a_linear_model_moves_every_sum_by_at_most_its_sensitivity(loss, convexity):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 2)), rng.choice([-1.0, 1.0], size=16)
    X[-2:] = [[1e200, -1e200], [np.nan, 0.0]]
    others = X[rng.integers(14, size=16)]
    plan = Plan(1.0, 1e-6, 3, 1.0, 1e6, 0.05, 0.5, 10.0, convexity)

    def run(last, tape):
        rows = np.concatenate([X[:14], last[14:]])
        data = UserData(rows, y, UserGroups(np.arange(16) // 2), np.arange(8))
        with run_tape(tape):
            release = opened(plan.events(3), random_state=0)
        winsorized_descent(Objective(loss, 2, 1, True).problem(data), plan, 3, release)
        return tape.draws

    draws = run(X, FrozenDraws(0))
    replayed = run(others, Replay(0, draws))
    for a, b in zip(draws, replayed, strict=True):
        if a.kind == "laplace":
            assert abs(int(a.statistic) - int(b.statistic)) <= a.sensitivity == b.sensitivity


def test_a_linear_model_is_learnt_with_a_known_concentration():
    rng = np.random.default_rng(0)
    w = np.array([0.5, -0.3, 0.2])
    X = rng.normal(size=(250_000, 3))
    y = X @ w + 0.5 * rng.normal(size=250_000)
    data = UserData(X, y, UserGroups(np.arange(250_000) // 50), np.arange(5000))
    plan = Plan(50.0, 1e-6, 5, 0.5, 10.0, 0.05, 1.0, math.inf, "convex")
    release = open_release(
        epsilon=50.0, delta=1e-6, unit="user", adjacency="replace-one", plan=plan.events(4), random_state=0
    )
    coef = winsorized_descent(Objective(SquaredLoss(), 3, 1, True).problem(data), plan, 4, release)
    assert release.close().epsilon < 50.0
    assert np.linalg.norm(coef[:3] - w) < 0.5


def phased_run(groups, tape=None, *, epsilon=1.0):
    plan = Plan(epsilon, 1e-6, 2, 3.0, 1e3, 0.05, 1.0, 1e9, "convex")
    with nullcontext() if tape is None else run_tape(tape):
        release = open_release(
            epsilon=epsilon, delta=1e-6, unit="user", adjacency="replace-one", plan=plan.events(3), random_state=0
        )
        coef = phased_descent([Distances(group) for group in groups], plan, 3, release, pull=0.5)
    return coef, tape and tape.draws, release.close(), plan


def groups_of(rng):
    return [rng.normal(size=(n, 3)) + 1.0 for n in (8, 4, 2)]


def test_algorithm_5_costs_what_one_phase_costs():
    coef, draws, guarantee, plan = phased_run(groups_of(np.random.default_rng(0)), FrozenDraws())
    assert coef.shape == (3,)
    assert guarantee.events == tuple(plan.events(3)) and guarantee.epsilon < 1.0
    assert len(draws) == 3 * sum(count for _, count in plan.events(3))


def test_algorithm_5_solves_its_problems():
    """Half squared distances: one step of 1/(1 + λ_s) solves a phase. Noise is next to nothing at this ε."""
    groups = [np.random.default_rng(s).normal(size=(n, 3)) + s for s, n in enumerate((400, 200, 100))]
    coef, *_ = phased_run(groups, epsilon=1e9)
    expected = np.zeros(3)
    for s, group in enumerate(groups, 1):
        strength = 0.5 * 4.0**s
        expected = (group.mean(axis=0) + strength * expected) / (1.0 + strength)
    np.testing.assert_allclose(coef, expected, atol=1e-3)


@pytest.mark.parametrize("other", [[5.0, -5.0, 0.0], [1e308, np.nan, -np.inf]])
def test_one_user_moves_the_sums_of_its_own_phase_alone(other):
    groups = groups_of(np.random.default_rng(1))
    _, draws, _, plan = phased_run(groups, FrozenDraws(3))
    groups[1][2] = other
    _, replayed, _, _ = phased_run(groups, Replay(3, draws))
    one = sum(count for _, count in plan.events(3))
    moved = set()
    for i, (a, b) in enumerate(zip(draws, replayed, strict=True)):
        assert a.kind == b.kind and a.events == b.events
        if a.kind == "laplace":
            assert abs(int(a.statistic) - int(b.statistic)) <= a.sensitivity == b.sensitivity
        if not np.array_equal(a.statistic, b.statistic):
            moved.add(i // one)
    assert moved == {1}
