"""The private search: its plan, its moves and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.families import all_errors, build_problem

from skprivate.mixture import PPMHalfspaceClassifier, _search
from skprivate.mixture._cuts import (
    KEPT_FRACTIONS,
    CutIntersections,
    count_cut_intersections,
    quantile_cuts,
)
from skprivate.mixture._exact import ExactDraw
from skprivate.mixture._problem import ErrorWeights, Hypothesis, selection_event
from skprivate.mixture._search import (
    HalfspaceSearch,
    SearchPlan,
    neighbouring_directions,
    plan_search,
    public_directions,
)
from skprivate.privacy import open_release
from skprivate.privacy._events import count_events, run_tape

PLAIN = ErrorWeights(1, 1, 1)


def make_problem(seed=0, n_public=300, n_private=200, d=3, weights=PLAIN, **keywords):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(n_public, d)), rng.normal(size=(n_private, d)) + 1.5])
    private = np.arange(len(X)) >= n_public
    keywords = {"private": private, "has_private_label": private, "size_is_public": True, **keywords}
    return X, build_problem(X, weights=weights, **keywords)


def candidates_of(problem):
    directions = public_directions(problem.public, np.random.default_rng(0))
    return quantile_cuts(problem.public, directions, KEPT_FRACTIONS, problem.frame.slack)


def errors_of(problem, hypothesis):
    if hypothesis.all_private:
        return problem.offset
    return problem.offset + int(
        problem.on_span.block.signed[hypothesis.contain(problem.on_span.block.scaled).all(axis=0)].sum()
    )


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.1, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("moves", [False, True])
def test_the_plan_spends_epsilon(epsilon, monotone, moves):
    _, problem = make_problem()
    plan = plan_search(
        candidates_of(problem).n_cuts,
        problem,
        epsilon=epsilon,
        max_halfspaces=5,
        max_candidates=10**8,
        moves=moves,
        monotone=monotone,
    )
    assert plan.joint_epsilon + plan.n_moves * plan.move_epsilon == pytest.approx(epsilon, rel=1e-12)
    assert 1 <= plan.joint_size <= 3
    assert moves or plan.n_moves == 0


def test_the_plan_follows_public_numbers_only():
    """Private rows may be anything: the plan stays the same."""
    X, _ = make_problem()
    private = np.arange(500) >= 300

    def plan(rows, size_is_public, private=private):
        changed = build_problem(
            rows,
            private=private,
            has_private_label=private,
            weights=ErrorWeights(1, 1, 1),
            size_is_public=size_is_public,
        )
        candidates = candidates_of(changed)
        plan = plan_search(
            candidates.n_cuts,
            changed,
            epsilon=1.0,
            max_halfspaces=5,
            max_candidates=10**8,
            moves=True,
            monotone=not size_is_public,
        )
        numbers = (changed.unit, changed.sensitivity, changed.planning_rows, changed.effective_rows)
        return candidates.thresholds, (plan, numbers)

    other = X.copy()
    other[300:] = np.random.default_rng(5).normal(size=(200, 3)) * 1e6
    for size_is_public in (True, False):
        before, after = plan(X, size_is_public), plan(other, size_is_public)
        assert before[1] == after[1]
        for a, b in zip(before[0], after[0], strict=True):
            np.testing.assert_array_equal(a, b)
    # Under add-remove not even their number matters.
    assert plan(X[:301], False, private[:301])[1] == plan(X, False)[1]
    assert plan(X[:300], False, private[:300])[1] == plan(X, False)[1]


def test_caps_limit_the_joint_draw():
    _, problem = make_problem(d=10)
    candidates = candidates_of(problem)
    options = {"epsilon": 100.0, "max_halfspaces": 5, "moves": False, "monotone": False}
    sizes = []
    for cap in (1, 10**4, 10**8):
        plan = plan_search(candidates.n_cuts, problem, max_candidates=cap, **options)
        sizes.append(plan.joint_size)
        assert plan.joint_size == 1 or count_cut_intersections(candidates.n_cuts, plan.joint_size) <= cap
    assert sizes == [1, 1, 3] or sizes == [1, 2, 3]
    assert (
        plan_search(
            candidates.n_cuts, problem, max_candidates=10**8, **{**options, "max_halfspaces": 1}
        ).joint_size
        == 1
    )


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_price_is_the_sum_of_the_draws(rule, monotone):
    _, problem = make_problem()
    candidates = candidates_of(problem)
    adjacency = "add-remove" if monotone else "replace-one"
    release = open_release(epsilon=2.0, unit="private row", adjacency=adjacency, random_state=0)
    search = HalfspaceSearch(SearchPlan(2, 0.8, 3, 0.4, 4), candidates, rule=rule, monotone=monotone)
    _, draws = search.run(problem, release)
    assert [draw.name for draw in draws] == ["joint", "move", "move", "move"]
    assert sum(draw.epsilon for draw in draws) == pytest.approx(2.0)
    assert release.close().epsilon == pytest.approx(2.0)


class Counting:
    """Adds up the prices of the draws."""

    def __init__(self):
        self.events = []

    def draw(self, draw, sample):
        self.events += draw.events.items()
        return sample()


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("n_public", "n_private"), [(0, 5), (1, 5), (2, 5), (60, 0), (60, 40)])
def test_a_run_draws_its_events_whatever_the_rows(n_public, n_private, epsilon, rule, monkeypatch):
    # No branch ends early: not without candidates, nor after drawing "all private", nor where nothing is left to add.
    monkeypatch.setattr(_search, "MOVE_DIRECTIONS", 12)
    _, problem = make_problem(n_public=n_public, n_private=n_private, size_is_public=False)
    plan = SearchPlan(1, 0.1 * epsilon, 3, 0.3 * epsilon, 1 if n_public == 2 else 3)
    for mechanism in (
        HalfspaceSearch(plan, candidates_of(problem), rule),
        ExactDraw(epsilon, 1 if rule == "exponential" else 0, rule),
    ):
        tape = Counting()
        with run_tape(tape):
            release = open_release(
                epsilon=epsilon,
                unit="private row",
                adjacency="replace-one",
                random_state=0,
                plan=mechanism.events,
            )
            _, records = mechanism.run(problem, release)
        assert count_events(tape.events) == count_events(mechanism.events)
        assert dict(release.close().events) == count_events(mechanism.events)
        assert count_events((selection_event(rule, record.epsilon), 1) for record in records) == count_events(
            mechanism.events
        )


def test_with_a_huge_epsilon_moves_never_lose_and_the_joint_draw_is_optimal():
    _, problem = make_problem()
    candidates = candidates_of(problem)
    release = open_release(epsilon=1e9, unit="private row", adjacency="replace-one", random_state=0)
    search = HalfspaceSearch(SearchPlan(2, 1e8, 4, 1e8, 4), candidates)
    present, _ = search.joint(problem, release)
    bins = candidates.bins(problem.on_span.block.scaled)
    family = CutIntersections(bins, candidates.n_cuts, problem.on_span.block.signed, 2, offset=problem.offset)
    assert errors_of(problem, present) == min(errors for _, errors in all_errors(family))
    errors = [errors_of(problem, present)]
    for _ in range(4):
        present, _ = search.move(present, problem, release)
        errors.append(errors_of(problem, present))
        assert len(present.intercepts) <= 4
        np.testing.assert_allclose(np.linalg.norm(present.normals, axis=1), 1)
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[0]


class ListingRelease:
    """Offers a chosen answer and keeps the scores."""

    def __init__(self, answer):
        self.answer = answer
        self.public_rng = np.random.default_rng(0)

    def select(self, scores, **keywords):
        self.scores = np.asarray(scores)
        return self.answer


@pytest.mark.parametrize("start", ["two", "none", "all private"])
def test_every_option_of_a_move_has_the_errors_it_was_offered_with(start, monkeypatch):
    monkeypatch.setattr(_search, "MOVE_DIRECTIONS", 30)
    _, problem = make_problem(weights=ErrorWeights(2, 3, 3))
    candidates = candidates_of(problem)
    present = {
        "two": Hypothesis(-np.eye(3)[:2], np.array([1.0, 0.5])),
        "none": Hypothesis(np.zeros((0, 3)), np.zeros(0)),
        "all private": Hypothesis.calling_all_private(3),
    }[start]
    plan = SearchPlan(2, 1.0, 1, 1.0, 3)

    def moved(answer):
        release = ListingRelease(answer)
        return HalfspaceSearch(plan, candidates).move(present, problem, release)[0], release.scores

    unchanged, scores = moved(0)
    assert unchanged is present and -scores[0] == errors_of(problem, present)
    lengths = set()
    for answer in range(1, len(scores), 7):
        hypothesis, _ = moved(answer)
        lengths.add(len(hypothesis.intercepts))
        assert errors_of(problem, hypothesis) == -scores[answer]
    assert lengths == {"two": {2, 3}, "none": {1}, "all private": {1}}[start]


def test_scores_of_a_move_change_by_at_most_the_sensitivity():
    """Any private row, moved anywhere, between the same options."""
    rng = np.random.default_rng(0)
    for weights in (ErrorWeights(1, 1, 1), ErrorWeights(2, 7, 7)):
        X, problem = make_problem(n_public=60, n_private=40, weights=weights)
        present = Hypothesis(-np.eye(3)[:2], np.array([1.0, 0.5]))
        plan = SearchPlan(2, 1.0, 1, 1.0, 3)

        def scores(rows, weights=weights, present=present, plan=plan):
            private = np.arange(100) >= 60
            changed = build_problem(
                rows, private=private, has_private_label=private, weights=weights, size_is_public=True
            )
            release = ListingRelease(0)
            HalfspaceSearch(plan, candidates_of(changed)).move(present, changed, release)
            return release.scores, changed

        before, problem = scores(X)
        largest = 0
        for row in range(60, 70):
            other = X.copy()
            other[row] = rng.normal(size=3) * rng.choice([1, 100])
            largest = max(largest, np.abs(scores(other)[0] - before).max())
        assert largest == problem.sensitivity


def test_directions_are_public_and_complete():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 20):
        directions = public_directions(rng.normal(size=(50, d)), rng)
        assert len(directions) >= min(2 * d, 2) and directions.shape[1] == d
        for axis in range(d):
            for sign in (1, -1):
                assert any(np.array_equal(sign * np.eye(d)[axis], u) for u in directions)
        assert (np.linalg.norm(directions, axis=1) > 0).all()
    assert public_directions(np.zeros((0, 2)), rng).shape == (32, 2)


def test_a_fit_with_secure_noise_pays_the_same_each_time():
    """Few features are filled up with random directions. Equal public rows have as many cuts as fall between them, so
    other directions would change the number of hypotheses, and with it the split of the budget."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 3, size=(20, 2)), np.repeat([0, 1], [12, 8])
    model = PPMHalfspaceClassifier(
        300.0,
        private_label=1,
        classes=[0, 1],
        strategy="greedy",
        adjacency="add-remove",
        calibration_fraction=0.3,
        max_candidates=20_000,
    )
    fits = [model.fit(X, y).privacy_guarantee_.events for _ in range(8)]
    assert len(set(map(tuple, fits))) == 1 and len(fits[0]) > 2


def test_neighbours_change_one_coordinate():
    direction = np.array([0.0, 0.6, -0.8])
    neighbours = neighbouring_directions(direction, 100)
    assert np.array_equal(neighbours[0], direction) and len(neighbours) <= 1 + 3 * 2 * 3
    assert ((neighbours != direction).sum(axis=1) <= 1).all()
    assert (np.abs(neighbours).max(axis=1) > 0).all()
    assert len(neighbouring_directions(direction, 3)) == 3


def test_samples_of_public_rows():
    rng = np.random.default_rng(0)
    _, problem = make_problem(n_public=20, n_private=30)
    everything = {tuple(row) for row in problem.public}
    assert np.array_equal(problem.some_public(20, rng), problem.public)
    sample = {tuple(row) for row in problem.some_public(7, rng)}
    assert len(sample) == 7 and sample < everything and problem.n_public == len(everything) == 20


def test_effective_rows():
    _, problem = make_problem(n_public=300, n_private=200)
    assert problem.effective_rows == 200
    _, balanced = make_problem(n_public=300, n_private=200, weights=ErrorWeights(2, 3, 3))
    assert balanced.effective_rows == 200
    _, hidden = make_problem(n_public=300, n_private=200, size_is_public=False)
    assert hidden.effective_rows == 300 and hidden.planning_rows == 300
