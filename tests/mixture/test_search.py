"""The private search: its plan, its moves and what they cost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every
from helpers.families import all_errors, build_problem

from skprivate.mixture import PPMHalfspaceClassifier, _search, _turns
from skprivate.mixture._cuts import KEPT_FRACTIONS, CutIntersections, count_cut_intersections, quantile_cuts
from skprivate.mixture._exact import ExactDraw
from skprivate.mixture._problem import ErrorWeights, Hypothesis, SpanRows, selection_event
from skprivate.mixture._search import (
    HalfspaceSearch,
    SearchPlan,
    neighbouring_directions,
    plan_search,
    public_directions,
)
from skprivate.mixture._turns import (
    ROW_BITS,
    Halfspaces,
    TurnPlan,
    centers,
    counts,
    rounded,
    row_units,
    turn_sums,
    turned,
)
from skprivate.privacy import open_release
from skprivate.privacy._events import count_events, run_tape

PLAIN = ErrorWeights(1, 1, 1)
NO_TURNS = TurnPlan((), 1.0, 0)
STARTS = {
    "two": Hypothesis(-np.eye(3)[:2], np.array([1.0, 0.5])),
    "none": Hypothesis(np.zeros((0, 3)), np.zeros(0)),
    "all private": Hypothesis.calling_all_private(3),
}


def make_problem(seed=0, n_public=300, n_private=200, d=3, weights=PLAIN, **keywords):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(n_public, d)), rng.normal(size=(n_private, d)) + 1.5])
    private = np.arange(len(X)) >= n_public
    keywords = {"private": private, "has_private_label": private, "size_is_public": True, **keywords}
    return X, build_problem(X, weights=weights, **keywords)


def candidates_of(problem):
    directions = public_directions(problem.public, np.random.default_rng(0))
    return quantile_cuts(problem.public, directions, KEPT_FRACTIONS, problem.frame.slack)


def search_of(problem, plan, **options):
    return HalfspaceSearch(plan, candidates_of(problem), row_units(problem.public), **options)


def errors_of(problem, hypothesis):
    if hypothesis.all_private:
        return problem.offset
    return problem.offset + int(
        problem.on_span.block.signed[hypothesis.contain(problem.on_span.block.scaled).all(axis=0)].sum()
    )


@pytest.mark.parametrize("monotone", [False, True])
@every("epsilon", [1e-4, 0.01, 0.1, 1.0, 10.0, 1e4])
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
    prices = [plan.joint_epsilon, *[plan.move_epsilon] * plan.n_moves, *plan.turns.epsilons]
    assert sum(prices) == pytest.approx(epsilon, rel=1e-12)
    assert 1 <= plan.joint_size <= 3
    assert moves or (plan.n_moves == 0 and not plan.turns.epsilons)
    assert sorted(plan.turns.epsilons) == list(plan.turns.epsilons)
    assert bool(plan.turns.epsilons) == (moves and epsilon >= 10)


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


@pytest.mark.parametrize("epsilon", [1.0, 300.0, 1e6])
def test_without_public_rows_the_plan_spends_epsilon_once(epsilon):
    """There is one hypothesis, and nothing to turn."""
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.ones(20, dtype=int)
    model = PPMHalfspaceClassifier(epsilon, private_label=1, classes=[0, 1], strategy="greedy", random_state=0)
    assert model.fit(X, y).privacy_guarantee_.epsilon == epsilon
    assert [draw.name for draw in model.draws_] == ["joint"] and model.all_private_


def test_caps_limit_the_joint_draw():
    _, problem = make_problem(d=10)
    candidates = candidates_of(problem)
    options = {"epsilon": 100.0, "max_halfspaces": 5, "moves": False, "monotone": False}
    sizes = []
    for cap in (1, 10**4, 10**8):
        plan = plan_search(candidates.n_cuts, problem, max_candidates=cap, **options)
        sizes.append(plan.joint_size)
        assert plan.joint_size == 1 or count_cut_intersections(candidates.n_cuts, plan.joint_size) <= cap
    assert sizes in ([1, 1, 3], [1, 2, 3])
    assert (
        plan_search(candidates.n_cuts, problem, max_candidates=10**8, **{**options, "max_halfspaces": 1}).joint_size
        == 1
    )


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_price_is_the_sum_of_the_draws(rule, monotone):
    _, problem = make_problem()
    adjacency = "add-remove" if monotone else "replace-one"
    release = open_release(epsilon=2.0, unit="private row", adjacency=adjacency, random_state=0)
    plan = SearchPlan(2, 0.4, 2, 0.4, TurnPlan((0.3, 0.5), 0.8, 20), 4)
    _, draws = search_of(problem, plan, rule=rule, monotone=monotone).run(problem, release)
    assert [draw.name for draw in draws] == ["joint", "move", "move", "turn", "turn"]
    assert sum(draw.epsilon for draw in draws) == pytest.approx(2.0)
    assert release.close().epsilon == pytest.approx(2.0)


class Counting:
    """Adds up the prices of the draws."""

    def __init__(self):
        self.events = []

    def draw(self, draw, sample):
        self.events += draw.events.items()
        return sample()


@every("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("n_public", "n_private"), [(0, 5), (1, 5), (2, 5), (60, 0), (60, 40)])
def test_a_run_draws_its_events_whatever_the_rows(n_public, n_private, epsilon, rule, monkeypatch):
    # No branch ends early: not without candidates, nor after drawing "all private", nor where nothing is left to add.
    monkeypatch.setattr(_search, "MOVE_DIRECTIONS", 12)
    _, problem = make_problem(n_public=n_public, n_private=n_private, size_is_public=False)
    turns = TurnPlan((0.1 * epsilon, 0.2 * epsilon), 0.8, 12)
    plan = SearchPlan(1, 0.1 * epsilon, 2, 0.3 * epsilon, turns, 1 if n_public == 2 else 3)
    for mechanism in (search_of(problem, plan, rule=rule), ExactDraw(epsilon, 1 if rule == "exponential" else 0, rule)):
        tape = Counting()
        with run_tape(tape):
            release = open_release(
                epsilon=epsilon, unit="private row", adjacency="replace-one", random_state=0, plan=mechanism.events
            )
            _, records = mechanism.run(problem, release)
        assert count_events(tape.events) == count_events(mechanism.events)
        assert dict(release.close().events) == count_events(mechanism.events)
        assert count_events((selection_event(rule, record.epsilon), 1) for record in records) == count_events(
            mechanism.events
        )


def test_with_a_huge_epsilon_no_draw_loses_and_the_joint_draw_is_optimal():
    _, problem = make_problem()
    candidates = candidates_of(problem)
    release = open_release(epsilon=1e9, unit="private row", adjacency="replace-one", random_state=0)
    search = search_of(problem, SearchPlan(2, 1e8, 4, 1e8, TurnPlan((1e8,) * 4, 0.7, 400), 4))
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
    drawn = present
    for number in range(4):
        present, _ = search.turn(number, present, drawn, problem, release)
        errors.append(errors_of(problem, present))
    assert errors == sorted(errors, reverse=True) and errors[4] < errors[0]


class ListingRelease:
    """Offers a chosen answer and keeps the scores and their sensitivity."""

    def __init__(self, answer):
        self.answer = answer
        self.public_rng = np.random.default_rng(0)

    def select(self, scores, *, sensitivity, **keywords):
        self.scores, self.sensitivity = np.asarray(scores), sensitivity
        return self.answer


@pytest.mark.parametrize("start", ["two", "none", "all private"])
def test_every_option_of_a_move_has_the_errors_it_was_offered_with(start, monkeypatch):
    monkeypatch.setattr(_search, "MOVE_DIRECTIONS", 30)
    _, problem = make_problem(weights=ErrorWeights(2, 3, 3))
    present = STARTS[start]
    plan = SearchPlan(2, 1.0, 1, 1.0, NO_TURNS, 3)

    def moved(answer):
        release = ListingRelease(answer)
        return search_of(problem, plan).move(present, problem, release)[0], release.scores

    unchanged, scores = moved(0)
    assert unchanged is present and -scores[0] == errors_of(problem, present)
    lengths = set()
    for answer in range(1, len(scores), 7):
        hypothesis, _ = moved(answer)
        lengths.add(len(hypothesis.intercepts))
        assert errors_of(problem, hypothesis) == -scores[answer]
    assert lengths == {"two": {2, 3}, "none": {1}, "all private": {1}}[start]


@pytest.mark.parametrize("start", ["two", "none", "all private"])
def test_every_option_of_a_turn_has_the_errors_it_was_offered_with(start):
    _, problem = make_problem(weights=ErrorWeights(2, 3, 3))
    present = STARTS[start]
    drawn = Hypothesis(np.eye(3)[:1], np.array([0.3]))
    plan = SearchPlan(2, 1.0, 0, 1.0, TurnPlan((1.0,), 0.7, 60), 3)

    def after(answer):
        release = ListingRelease((answer, 0))
        return search_of(problem, plan).turn(0, present, drawn, problem, release)[0], release.scores

    assert after(0)[0] is present and after(1)[0] is drawn
    for answer in range(62):
        hypothesis, scores = after(answer)
        assert len(hypothesis.intercepts) == 1 or hypothesis is present
        assert errors_of(problem, hypothesis) == -scores[answer]


def test_scores_of_a_move_or_a_turn_change_by_at_most_the_sensitivity():
    """Any private row, moved anywhere, between the same options."""
    rng = np.random.default_rng(0)
    for weights in (ErrorWeights(1, 1, 1), ErrorWeights(2, 7, 7)):
        X, _ = make_problem(n_public=60, n_private=40, weights=weights)
        present = STARTS["two"]
        plan = SearchPlan(2, 1.0, 1, 1.0, TurnPlan((1.0,), 0.7, 600), 3)

        def scores(rows, weights=weights, present=present, plan=plan):
            private = np.arange(100) >= 60
            changed = build_problem(
                rows, private=private, has_private_label=private, weights=weights, size_is_public=True
            )
            releases = ListingRelease(0), ListingRelease((0, 0))
            search_of(changed, plan).move(present, changed, releases[0])
            search_of(changed, plan).turn(0, present, present, changed, releases[1])
            return releases

        before = scores(X)
        largest = [0, 0]
        for row in range(60, 70):
            other = X.copy()
            other[row] = rng.normal(size=3) * rng.choice([1, 100])
            changes = [np.abs(a.scores - b.scores).max() for a, b in zip(scores(other), before, strict=True)]
            largest = np.maximum(largest, changes)
        assert largest.tolist() == [release.sensitivity for release in before]


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


def test_what_follows_from_all_halfspaces_is_turned_too():
    normals = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    corner = centers(Hypothesis(normals[:2], np.array([1.0, 2.0])))
    np.testing.assert_allclose(corner.normals, [[1, 0], [0, 1], [0.5**0.5, 0.5**0.5]])
    np.testing.assert_allclose(corner.intercepts, [1.0, 2.0, 3 * 0.5**0.5])
    strip = centers(Hypothesis(normals[[0, 2]], np.array([1.0, 2.0])))
    np.testing.assert_array_equal(strip.normals[2], [0.0, 0.0])  # every direction is around it
    assert len(centers(Hypothesis.calling_all_private(2)).normals) == 1


def test_turns_are_near():
    rng = np.random.default_rng(0)
    around = Halfspaces(np.array([[0.0, 0.6, -0.8, 0.0, 0.0]]), np.array([0.5]))
    normals, intercepts = turned(around, 0.01, 2000, np.full(5, 2.0**-20), rng)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-5)
    moved = np.abs(normals - around.normals).max(axis=1)
    far = np.arange(2000) % 8 == 0
    assert moved[~far].max() < 0.025 and 0.025 < moved[far].max() < 0.1
    assert 0 < np.abs(intercepts - 0.5).max() < 0.05


@pytest.mark.parametrize("d", [1, 7, 60])
def test_products_of_rounded_rows_and_halfspaces_are_exact(d, monkeypatch):
    """Against Python integers, at the corners of the range, in any order and number of rows."""
    rng = np.random.default_rng(d)
    public = rng.choice([-3.7, 0.1, 3.7], size=(40, d))
    units = row_units(public)
    rows = np.concatenate([public, public * 1e12, -public * 1e12, rng.normal(size=(21, d))])
    normals = np.concatenate([rng.normal(size=(8, d)), np.eye(d)[:1], np.full((1, d), d**-0.5)])
    halfspaces = rounded(Halfspaces(normals, rng.normal(size=len(normals))), units)
    far = [Fraction(2) ** max(0, int(np.frexp(np.abs(row / units).max())[1]) - ROW_BITS) for row in rows]
    assert 1 in far and max(far) > 2**30
    whole = [[round(Fraction(v) / unit) for v in row] for row, unit in zip(rows / units, far, strict=True)]
    assert max(abs(v) for row in whole for v in row) <= 2**ROW_BITS
    groups = np.array([np.arange(len(rows)) % 2 == 0, np.ones(len(rows), dtype=bool)])
    inside = np.zeros((len(rows), len(normals)), dtype=bool)
    for k, (weights, intercept) in enumerate(zip(halfspaces.normals * units, halfspaces.intercepts, strict=True)):
        exact = [Fraction(value) for value in weights]
        step = min(abs(value) for value in exact if value)
        assert max(abs(value) for value in exact) < step * 2**53
        for i, row in enumerate(whole):
            total = far[i] * sum(a * b for a, b in zip(exact, row, strict=True))
            inside[i, k] = total >= -Fraction(intercept)
    expected = groups @ inside.astype(int)
    np.testing.assert_array_equal(counts(rows, halfspaces, units, groups), expected)
    for size in (1, 50, 10**6):
        monkeypatch.setattr(_turns, "MOST_PRODUCTS", size)
        for order in (rng.permutation(len(rows)), np.arange(len(rows))):
            again = counts(rows[order], halfspaces, units, groups[:, order])
            np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e5, 1e12])
def test_rows_count_where_they_are_predicted_however_far_they_are(size):
    rng = np.random.default_rng(0)
    public = np.column_stack([rng.normal(size=(50, 3)), np.zeros(50)])  # the last column is constant
    rows = rng.normal(size=(200, 4)) * np.array([size, 1.0, 5.0, 1e-10])
    options = rounded(Halfspaces(rng.normal(size=(300, 4)), rng.normal(size=300)), row_units(public))
    expected = Hypothesis(*options).contain(rows).sum(axis=1)
    np.testing.assert_array_equal(counts(rows, options, row_units(public), np.ones((1, 200), bool))[0], expected)


@pytest.mark.slow
def test_far_private_rows_keep_turns_within_the_bound():
    """Each coordinate brought near public rows by itself, the rows (1000, 15) would be outside what they are in."""
    rng = np.random.default_rng(0)
    normal = np.array([0.4, -0.9]) / np.hypot(0.4, 0.9)
    public = rng.normal(size=(4000, 2))
    public = public[public @ normal > -2]
    near = rng.normal(size=(2000, 2))
    near -= np.outer(near @ normal + rng.uniform(2, 4, 2000), normal)
    far = np.array([1000.0, 15.0]) + rng.normal(size=(2000, 2)) * 0.1
    X = np.concatenate([public, near, far])
    y = np.arange(len(X)) >= len(public)
    options = {"epsilon": 1000.0, "private_label": True, "random_state": 0}
    thinned = PPMHalfspaceClassifier(strategy="thinned", **options).fit(X, y)
    greedy = PPMHalfspaceClassifier(strategy="greedy", **options).fit(X, y)
    assert greedy.draws_[-1].name == "turn"
    assert thinned.score(X, y) <= greedy.score(X, y) + greedy.utility_bound(1e-9)


def test_a_halfspace_holds_the_points_on_its_boundary():
    public = np.random.default_rng(0).normal(size=(50, 6)) * 3
    units = row_units(public)
    normals = public / np.linalg.norm(public, axis=1, keepdims=True)
    through = rounded(Halfspaces(normals, -np.einsum("ij,ij->i", normals, public)), units)
    inside = np.array([counts(public[[k]], through, units, np.ones((1, 1), bool))[0, k] for k in range(50)])
    assert inside.all()
    assert Hypothesis(*through).contain(public).diagonal().all()
    np.testing.assert_allclose(through.normals, normals, atol=1e-5)


def test_units_are_powers_of_two_beyond_every_public_row():
    largest = np.concatenate([np.ldexp(1.0, np.arange(-99, 40)), np.geomspace(1e-29, 1e12, 50)])
    units = row_units(np.stack([-largest, largest / 3]))
    assert (np.frexp(units)[0] == 0.5).all() and (largest <= units * 2.0 ** (ROW_BITS - 2)).all()


@pytest.mark.parametrize("size_is_public", [True, False])
@pytest.mark.parametrize("start", ["two", "none", "all private"])
def test_votes_in_a_turn_are_each_row_s_own(start, size_is_public):
    """A row's vote is 0 or its weight, alone as among others, in any layout and in blocks of one label."""
    rng = np.random.default_rng(0)
    d, n_public = 20, 60
    X = rng.normal(size=(100, d)) * 10.0 ** rng.integers(-8, 9, size=d)
    X[n_public : n_public + 20] = rng.choice([1e300, -1.7e308, 1e12, 0.0, 5e-324], size=(20, d))
    label = np.arange(100) % 3 == 0  # labels are private, too
    weights = ErrorWeights(3, 10**7, 10**7)
    problem = build_problem(
        X, private=np.arange(100) >= n_public, has_private_label=label, weights=weights, size_is_public=size_is_public
    )
    units = row_units(problem.public)
    normals = np.eye(d)[:2] if start == "two" else np.zeros((0, d))
    present = Hypothesis(normals, np.ones(len(normals)), all_private=start == "all private")
    options = turned(centers(present), 0.5, 90, units, rng)

    def sums(rows):
        part = SpanRows(scaled[rows], problem.on_span.block.signed[rows])
        return turn_sums(part, (present, present), options, units)

    scaled = problem.on_span.block.scaled
    alone = np.array([sums([row]) for row in range(len(scaled))])
    assert set(np.unique(alone)) == {-weights.public_label, 0, weights.private_label}
    for layout in (np.ascontiguousarray(scaled), np.repeat(scaled, 2, axis=1)[:, ::2]):
        scaled = layout
        for n_blocks in (1, 2, 7):
            for rows in np.array_split(rng.permutation(len(scaled)), n_blocks):
                np.testing.assert_array_equal(sums(rows), alone[rows].sum(axis=0))
    by_label = sums(label[: len(scaled)]) + sums(~label[: len(scaled)])
    np.testing.assert_array_equal(by_label, alone.sum(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "n", "most"), [(5, 4000, 0.01), (20, 4000, 0.05), (20, 40_000, 0.012)])
def test_the_error_of_a_halfspace_falls_with_rows(d, n, most):
    """No public direction is near it, and the error has no floor (it was .03 to .24, whatever n)."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng([d, seed])
        normal = rng.normal(size=d)
        normal /= np.linalg.norm(normal)
        X, new = rng.normal(size=(n, d)), rng.normal(size=(20_000, d))
        model = PPMHalfspaceClassifier(4.0, private_label=True, random_state=seed).fit(X, X @ normal > 0.2)
        assert model.strategy_ == "greedy"
        errors.append(np.mean(model.predict(new) != (new @ normal > 0.2)))
    assert np.median(errors) <= most


def test_a_bent_boundary_stays():
    """Turns of one halfspace may return to the intersection."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 4))
    bent = (X[:, :3] > 0.3).any(axis=1)
    model = PPMHalfspaceClassifier(4.0, private_label=True, random_state=0).fit(X, bent)
    assert sum(draw.name == "turn" for draw in model.draws_) > 5
    assert len(model.halfspaces_.intercepts) >= 3 and model.score(X, bent) > 0.95


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
