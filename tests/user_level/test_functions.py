"""How much of a feature's functions is more than error: a rule on released numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from scipy.special import expit

from skprivate.user_level.descent._rules import (
    PRIOR,
    PRIOR_COUNT,
    Estimate,
    Function,
    _errors,
    curvatures,
    shrink_functions,
)

DEVIATIONS = (0.5, 1 / 3, 0.25, 0.2)


def of_features(n_features):
    """A line of each feature, functions of each, and a last column that is none."""
    bends = [Function(j, each) for j in range(n_features) for each in DEVIATIONS]
    return (*(None,) * n_features, *bends, None)


def estimate(n_coef, *, n_outputs=1, noise=0.0, n_users=4000.0, penalty=0.0, times=(np.inf,), spreads=None, h=1.0):
    return Estimate(np.full(n_outputs, h), noise, n_users, np.full(n_coef, penalty), np.array(times), spreads)


@given(
    arrays(np.float64, (2, 12), elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(0.0, 1e300),
    st.sampled_from([0.0, 5e-324, 1e-3, 1e300]),
    st.sampled_from([(np.inf,), (0.0,), (1e-3, 1.0)]),
    st.sampled_from([5e-324, 1e-300, 0.25]),
)
def test_nothing_grows_or_turns_and_only_functions_change(coef, noise, penalty, times, h):
    functions = of_features(2)
    with np.errstate(all="ignore"):
        known = estimate(12, n_outputs=2, noise=noise, penalty=penalty, times=times, h=h)
        result = shrink_functions(coef, functions, known)
    assert (np.abs(result) <= np.abs(coef)).all() and (result * np.sign(coef) >= 0.0).all()
    others = [0, 1, 10, 11]
    np.testing.assert_array_equal(result[:, others], coef[:, others])


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_is_the_likeliest(seed):
    """By minimising minus the logarithm of a density: that of estimates times the prior's part of a coefficient."""
    rng = np.random.default_rng(seed)
    n_users, squares = 2000.0, np.array(DEVIATIONS) ** 2
    errors = 1.0 / (squares * n_users)
    found = rng.normal(size=4) * np.sqrt(0.02 + errors)

    def cost(log):
        variance = np.exp(log)
        own = PRIOR_COUNT * (PRIOR / variance + log)
        return own + np.sum(found**2 / (variance + errors) + np.log(variance + errors))

    best = np.exp(minimize_scalar(cost, bounds=(np.log(1e-9), np.log(10.0)), method="bounded").x)
    coef = np.array([[1.0, *found, 7.0, 2.0]])
    result = shrink_functions(coef, of_features(1), estimate(7, n_users=n_users))
    np.testing.assert_allclose(result[0, 1:5], found * best / (best + errors), rtol=2e-3)


def test_outputs_of_a_feature_share_their_evidence_and_features_do_not():
    """A feature whose functions matter for one class lets those of another class be."""
    functions = of_features(2)
    coef = np.full((2, 12), 0.03)
    alone = shrink_functions(coef, functions, estimate(12, n_outputs=2, n_users=1000.0))
    coef[0, 2:6] = 1.0
    beside = shrink_functions(coef, functions, estimate(12, n_outputs=2, n_users=1000.0))
    assert (beside[1, 2:6] > 2.0 * alone[1, 2:6]).all()
    np.testing.assert_array_equal(beside[:, 6:10], alone[:, 6:10])


@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("deviation", [0.5, 0.2])
@pytest.mark.parametrize("steps", [10, 40])
def test_errors_are_those_of_noisy_steps(steps, deviation, whitened):
    """Of 20 000 descents on a quadratic function: where they end without noise, and how noise spreads them.

    Neighbouring iterates share noise, and where steps have arrived in part only there is less of it than the formula
    says: .57 to .90 of it here.
    """
    rng = np.random.default_rng(0)
    truth, h, alpha, step, noise = 0.7, 0.3, 0.02, 0.5, 0.01
    # Whitened, the coordinate is the coefficient times the column's deviation: noise is alike in all of these.
    unit = deviation if whitened else 1.0
    curvature, ridge = h * (deviation / unit) ** 2, alpha / unit**2
    moves = np.zeros((steps, 20_001))  # the last one without noise
    iterate = np.zeros(20_001)
    for t in range(steps):
        drawn = np.append(noise * np.sqrt(steps // 2) * rng.normal(size=20_000), 0.0)
        iterate = iterate - step * (curvature * (iterate - truth * unit) + ridge * iterate + drawn)
        moves[t] = iterate
    found = moves[steps // 2 :].mean(axis=0) / unit
    known = Estimate(
        np.array([h]),
        noise,
        np.inf,
        np.array([alpha]),
        step * np.arange(steps // 2 + 1, steps + 1),
        np.array([deviation**-2]) if whitened else None,
    )
    part, errors = _errors(np.array([deviation**2]), np.array([0]), known)
    assert part.item() == pytest.approx(found[-1] / truth, rel=0.1)
    ratio = found[:-1].var() / part.item() ** 2 / errors.item()
    assert 0.5 < ratio < 1.1


@pytest.mark.parametrize("base", [0.0, -2.5])
def test_curvature_is_that_of_normal_scores(base):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400_000, 2)) * [1.0, 0.5]
    scores = X @ [0.8, -1.0] + base
    chance = expit(scores)
    found = curvatures(np.array([[0.8, -1.0, base]]), np.array([1.0, 0.5]))
    assert found[0] == pytest.approx(np.mean(chance * (1 - chance)), rel=0.01)


def test_curvatures_of_several_classes_are_those_of_one_against_the_rest():
    found = curvatures(np.log([[0.7], [0.2], [0.1]]) + 5.0, np.empty(0))
    np.testing.assert_allclose(found, [0.7 * 0.3, 0.2 * 0.8, 0.1 * 0.9])


@pytest.mark.parametrize("weights", [(1.0, 0.02), (0.04, 1.0)])
def test_curvature_of_weighted_classes(weights):
    """A weighted model of normal rows of which 2 % are of the second class, whose logits have a slope of .6."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=1_000_000)
    y = rng.random(len(x)) < expit(0.6 * x - 4.1)
    weight = np.where(y, weights[1], weights[0])
    base = -4.1 + np.log(weights[1] / weights[0])  # of the weighted model, whose slope is the same
    chance = expit(0.6 * x + base)
    expected = np.mean(weight * chance * (1.0 - chance))
    found = curvatures(np.array([[0.6, base]]), np.array([1.0]), np.array(weights))
    assert found[0] == pytest.approx(expected, rel=0.1)


def test_curvature_without_an_intercept_is_that_of_scores_about_0():
    with_one = curvatures(np.array([[0.8, -1.0, 0.0]]), np.array([1.0, 0.5]))
    assert curvatures(np.array([[0.8, -1.0]]), np.array([1.0, 0.5])) == with_one


def test_without_a_deviation_nothing_is_known():
    coef = np.array([[1.0, 2.0, 3.0]])
    functions = (None, Function(0, 0.0))
    assert shrink_functions(coef, functions, estimate(3)) is coef
