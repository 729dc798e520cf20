"""Algorithm 4 as a mechanism: its price, and users who keep to themselves."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from _frozen_draws import FrozenDraws
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.privacy import open_release
from skprivate.privacy.draws._tape import run_tape
from skprivate.user_level.theory._published import PaperDescent, PaperPlan


class Distances:
    """Half the squared distance from one vector per user."""

    def __init__(self, vectors):
        self.vectors = np.array(vectors)
        self.n_coef = self.vectors.shape[1]

    def user_gradients(self, w):
        return 4.0 * (w - self.vectors) * 0.25  # overflows for large entries, as other problems do


def descent(n_coef, n_steps=2, *, epsilon=1.0, tau=1.0, bound=1e6, convexity="convex"):
    plan = PaperPlan(epsilon, 1e-6, n_steps, tau, bound, 0.05, 0.5, 1e9, convexity)
    return PaperDescent(plan, n_coef)


def opened(mechanism, **parameters):
    return open_release(
        epsilon=1.0, delta=1e-6, unit="user", adjacency="replace-one", plan=mechanism.events, **parameters
    )


def frozen_run(mechanism, vectors, tape=None):
    tape = FrozenDraws() if tape is None else tape
    with run_tape(tape):
        release = opened(mechanism, random_state=0)  # public rotations alike
    return mechanism.run(Distances(vectors), release), tape.draws


@pytest.mark.parametrize("convexity", ["convex", "strongly-convex", "non-convex"])
@pytest.mark.parametrize("n_coef", [1, 3])
def test_algorithm_4_draws_what_it_prices(convexity, n_coef):
    mechanism = descent(n_coef, n_steps=3, convexity=convexity)
    for vectors in (np.ones((5, n_coef)), np.full((1, n_coef), np.nan), np.full((2, n_coef), 1e308)):
        release = opened(mechanism)
        assert mechanism.run(Distances(vectors), release).shape == (n_coef,)
        assert set(release._planned.values()) == {0}
        guarantee = release.close()
        assert guarantee.events == tuple(mechanism.events)
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
    mechanism = descent(3)
    _, draws = frozen_run(mechanism, vectors, FrozenDraws(seed))
    _, replayed = frozen_run(mechanism, [other, *vectors[1:]], Replay(seed, draws))
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
