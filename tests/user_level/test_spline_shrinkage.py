"""What a fit tells the rule about functions, against the same numbers from its plan and its objective."""

import math
import warnings

import numpy as np
import pytest

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.preprocessing import PrivateSplineTransformer
from skprivate.privacy import open_release
from skprivate.user_level._plan import DescentPlan, Terms, split_budget
from skprivate.user_level._problems import MeanProblem, UserGroups
from skprivate.user_level._ranges import tail_factor
from skprivate.user_level.descent import _descent, _rules
from skprivate.user_level.descent import _linear as _linear_descent
from skprivate.user_level.descent._descent import adaptive_descent
from skprivate.user_level.scaling import _frame

FUNCTIONS = (None, None, (0, 0.5), (0, 1 / 3), (1, 0.5), (1, 1 / 3))


@pytest.fixture
def seen(monkeypatch):
    """Plan, objective and course of a descent, the matrix of its whitening, and what the rule was told."""
    found = {}
    problems, rule = _linear_descent.problems, _rules.shrink_functions
    descend, whitening = _descent.adaptive_descent, _frame.whitening

    def forming(objective, rows):
        found["objective"] = objective
        return problems(objective, rows)

    def descending(data, plan, release, **options):
        found.update(plan=plan, course=descend(data, plan, release, **options))
        return found["course"]

    def whitened(*args, **kwargs):
        found["matrix"], norm = whitening(*args, **kwargs)
        return found["matrix"], norm

    def told(coef, functions, estimate):
        found.update(functions=functions, estimate=estimate)
        return rule(coef, functions, estimate)

    monkeypatch.setattr(_linear_descent, "problems", forming)
    monkeypatch.setattr(_descent, "adaptive_descent", descending)
    monkeypatch.setattr(_frame, "whitening", whitened)
    monkeypatch.setattr(_rules, "shrink_functions", told)
    return found


def rows(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)) * [1.0, 1.0, 0.5, 1 / 3, 0.5, 1 / 3]
    return X, X @ [1.0, -1.0, 1.0, 0.0, 0.0, 0.0] + rng.normal(size=n)


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [UserLevelSGDClassifier, UserLevelSGDRegressor])
def test_the_rule_is_told_what_was_drawn(seen, kind, weighted, epsilon):
    X, y = rows(6000)
    y = (y > 1.5).astype(int) if kind is UserLevelSGDClassifier else y
    options = {"class_weight": {0: 1.0, 1: 4.0}} if weighted and kind is UserLevelSGDClassifier else {}
    model = kind(epsilon, random_state=0, **options)
    model._prepared_features = FUNCTIONS
    model.fit(X, y)
    estimate, plan, course, objective = (seen[k] for k in ("estimate", "plan", "course", "objective"))
    steps = len(course.directions)
    # Steps of the refinement, each with a noise of its own; the first quarter is not averaged.
    assert plan.refine_steps == steps and len(course.times) == steps - steps // 4
    noise = 2.0 * plan.refine_multiplier / 6000.0
    assert estimate.noise == pytest.approx(course.clip_radius * noise / math.sqrt(steps))
    np.testing.assert_allclose(estimate.times * course.clip_radius, course.times)
    assert np.isinf(estimate.times).all() == (epsilon == 1e5)
    assert estimate.n_users == 6000 and len(seen["functions"]) == 6
    matrix = seen.get("matrix")
    if matrix is None:
        assert estimate.spreads is None
        metric = objective.metric
    else:
        np.testing.assert_allclose(estimate.spreads, np.diag(matrix @ matrix.T))
        inverse = np.linalg.inv(matrix)
        metric = inverse.T @ objective.metric @ inverse
    np.testing.assert_allclose(estimate.penalties, objective.alpha * np.diag(metric), atol=1e-12)
    if kind is UserLevelSGDRegressor:
        assert estimate.curvature.tolist() == [1.0]
    else:
        chance = model.predict_proba(X)[:, 1]
        weights = np.where(y, 1.0, 0.25) if options else 1.0
        # Scores are not quite normal, nor the second class what the intercept says of it.
        assert estimate.curvature[0] == pytest.approx(np.mean(weights * chance * (1 - chance)), rel=0.3)


def test_whitening_is_seen(seen):
    """The test above looks at both ways."""
    ways = set()
    for epsilon in (0.5, 5.0, 1e5):
        for kind in (UserLevelSGDClassifier, UserLevelSGDRegressor):
            seen.clear()
            X, y = rows(6000)
            model = kind(epsilon, random_state=0)
            model._prepared_features = FUNCTIONS
            model.fit(X, y > 1.5 if kind is UserLevelSGDClassifier else y)
            ways.add("matrix" in seen)
            # Without noise to speak of a classifier does not whiten, a regression does.
            assert epsilon < 1e5 or ("matrix" in seen) == (kind is UserLevelSGDRegressor)
    assert ways == {False, True}


def test_times_are_the_way_along_a_steady_direction():
    """Users who are all on one side and far off: the iterate has gone as far as its steps add up to."""
    n = 4000
    split = split_budget(Terms(1e4, 1e-6, "replace-one", n), n_numbers=200)
    plan = DescentPlan(split, float(n), 80, 2, math.inf, 1e-3)
    problem = MeanProblem(np.full((2, n), 1e6), UserGroups(np.arange(n)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_release(
            epsilon=1e4, delta=1e-6, unit="row", adjacency="replace-one", random_state=0, plan=plan.sums
        ) as release:
            course = adaptive_descent(problem, plan, release)

    # Momentum takes some steps to build up.
    assert 0.8 < np.linalg.norm(course.coef) / course.times.mean() < 1.02


def test_clipping_where_most_are_predicted_exactly():
    # A median of next to nothing: what sampling leaves is at least √.1·20, a normal median of .6745 of that.
    assert tail_factor(0.01, 20.0, 2.0, 0.1) * 0.01 == pytest.approx(2.0 * 0.67449 * math.sqrt(0.1) * 20.0, rel=1e-4)
    assert tail_factor(1.0, 2.44, 3.0, 0.1) == pytest.approx(2.44, rel=0.01)  # normal numbers


def test_which_columns_are_said_to_be_functions():
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside, alone, plain = (
            PrivateSplineTransformer(3.0, n_knots=5, random_state=0, **options).fit(X)._prepared_outputs
            for options in ({"passthrough": True}, {}, {"basis": "b-spline", "passthrough": True})
        )
    deviations = [0.0, 1 / 2, 1 / 3, 1 / 4]  # of a line none is said
    assert beside[:2] == (None, None) and [each[0] for each in beside[2:]] == [0] * 4 + [1] * 4
    np.testing.assert_allclose([each[1] for each in beside[2:]], deviations * 2)
    assert not any(each[1] for each in alone)
    assert beside[:2] == plain[:2] and not any(each[1] for each in plain[2:])


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("radius", [1e-3, 1.0])
@pytest.mark.parametrize("max_iter", [1500, 2000])
def test_a_radius_that_is_met_keeps_its_direction(radius, max_iter):
    """At the surface no curvature was seen, and steps doubled until they were infinite."""
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = X @ [100.0, 200.0, 300.0]
    model = UserLevelSGDRegressor(1e5, radius=radius, max_iter=max_iter, solver="sgd", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coef = model.fit(X, y).coef_
    assert coef @ [1, 2, 3] / np.linalg.norm(coef) > 0.99 * math.sqrt(14)
