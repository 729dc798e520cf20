"""Predictions beside simulations, lower bounds beside exact computations."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from skprivate import UserLevelMean
from skprivate.papers.user_level_bounds import _moved, lower_bound
from skprivate.privacy import open_release
from skprivate.user_level import user_level_mean_errors, user_level_sample_size
from skprivate.user_level._selection import DifferenceSelection, VoteSelection


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(
    ("d", "n", "epsilon", "aggregation"),
    [(5, 300, 1.0, "mean"), (5, 700, 1.0, "mean"), (10, 2000, 1.0, "robust"), (40, 3000, 1.0, "mean")],
)
def test_predicted_errors_are_within_a_factor_of_two(d, n, epsilon, aggregation):
    """Root mean squares of 16 simulated errors of d ≥ 5 numbers: they stray by about 8 %."""
    predicted = user_level_mean_errors(n, d, epsilon=epsilon, deviation=3.0, aggregation=aggregation)
    squares = []
    for seed in range(16):
        X = 3.0 * np.random.default_rng([seed, n, d]).normal(size=(n, d))
        model = UserLevelMean(epsilon, aggregation=aggregation, random_state=seed).fit(X)
        squares.append(np.sum((model.mean_ - X.mean(axis=0)) ** 2))
    measured = math.sqrt(np.mean(squares))
    assert predicted.privacy / 2 < measured < 2 * predicted.privacy
    assert predicted.sampling == pytest.approx(3.0 * math.sqrt(d / n))
    assert predicted.total == math.hypot(predicted.privacy, predicted.sampling)


def test_enough_users_are_enough_and_hardly_fewer():
    for error, d in ((0.1, 10), (0.5, 2), (5.0, 1)):
        n = user_level_sample_size(error, d, epsilon=0.7)
        assert user_level_mean_errors(n, d, epsilon=0.7).total <= error
        if n > 1:
            assert user_level_mean_errors(max(1, int(0.99 * n)), d, epsilon=0.7).total > error
    # Without privacy to speak of, sampling alone decides.
    assert user_level_sample_size(0.1, 4, epsilon=1e5) <= 1.05 * 400
    # Twice the deviation and twice the error is the same question.
    assert user_level_sample_size(0.2, 3, epsilon=1.0, deviation=2.0) == user_level_sample_size(0.1, 3, epsilon=1.0)
    with pytest.raises(ValueError, match="allow a larger one"):
        user_level_sample_size(1e-7, 3, epsilon=1.0)


@pytest.mark.slow
def test_no_prediction_is_below_what_is_possible():
    for d, n, epsilon in [(1, 100, 0.1), (3, 1000, 1.0), (10, 50_000, 0.05), (2, 10, 3.0)]:
        bound = lower_bound(n, 1, d, epsilon=epsilon, delta=1e-6, radius=1.0)
        assert bound < user_level_mean_errors(n, d, epsilon=epsilon).total


def test_lower_bound_by_hand():
    """Three users, known exactly, signs ±1: outputs move by tanh(3ε/2)."""
    for d in (1, 4):
        bound = lower_bound(3, math.inf, d, epsilon=0.8, radius=2.0)
        assert bound == pytest.approx(2.0 * math.sqrt(d * (1 - math.tanh(1.2)) / 2))
    # δ: three exchanges of (ε, δ) are (3ε, δ(1 + e^ε + e^2ε)).
    move = math.exp(0.8)
    group = 1e-3 * (1 + move + move**2)
    moved = (move**3 - 1 + 2 * group) / (move**3 + 1)
    bound = lower_bound(3, math.inf, epsilon=0.8, delta=1e-3, radius=1.0)
    assert bound == pytest.approx(math.sqrt((1 - moved) / 2))
    # Exchanging is a removal and an addition.
    assert lower_bound(3, math.inf, epsilon=0.4, radius=1.0, adjacency="add-remove") == pytest.approx(
        lower_bound(3, math.inf, epsilon=0.8, radius=1.0)
    )


@pytest.mark.parametrize(("n", "m", "epsilon", "radius"), [(5, 1, 0.3, 2.0), (400, 9, 0.1, 3.0), (200, 9, 1.0, 9.0)])
def test_lower_bound_by_enumeration(n, m, epsilon, radius):
    """The sum over K written out, and the largest of many sizes of the signs."""
    best, k = 0.0, np.arange(n + 1)
    for size in radius * np.geomspace(1e-4, 1, 400):
        one = 2 * norm.cdf(size * math.sqrt(m)) - 1
        moved = float(binom.pmf(k, n, one) @ np.tanh(k * epsilon / 2))
        plain = 2 * norm.cdf(size * math.sqrt(m * n)) - 1
        best = max(best, size * math.sqrt((1 - min(moved, plain)) / 2))
    bound = lower_bound(n, m, 7, epsilon=epsilon, radius=radius)
    assert bound == pytest.approx(math.sqrt(7) * best, rel=2e-3)


@pytest.mark.slow
def test_lower_bound_has_the_rates_of_theorem_6():
    def bound(n, m, epsilon=0.001):
        return lower_bound(n, m, epsilon=epsilon, radius=10.0)

    n = 50_000
    assert bound(n, 1) / bound(2 * n, 1) == pytest.approx(2.0, rel=0.1)  # 1/n where privacy dominates
    assert bound(n, 1) / bound(n, 16) == pytest.approx(4.0, rel=1e-3)  # 1/√m
    assert bound(n, 1) / bound(n, 1, 0.002) == pytest.approx(2.0, rel=0.1)  # 1/ε
    assert bound(n, 4, 5.0) / bound(4 * n, 4, 5.0) == pytest.approx(2.0, rel=0.01)  # 1/√n elsewhere
    # Appendix A: for ever so many rows a term e^(−nε/2) stays.
    far = [lower_bound(n, math.inf, epsilon=1.0, radius=1.0) for n in (5, 10)]
    assert far[1] / far[0] == pytest.approx(math.exp(-2.5), rel=0.02)


@pytest.mark.parametrize(("n", "k", "epsilon"), [(1, 3, 0.7), (1, 5, 2.0), (2, 3, 0.4), (3, 2, 0.5)])
def test_lower_bound_of_a_choice_by_linear_programming(n, k, epsilon):
    """Users who are known exactly, each for one of k candidates: the best of all private choices, written out."""
    data = list(itertools.product(range(k), repeat=n))
    pairs = [(a, b) for a, b in itertools.permutations(range(len(data)), 2) if differ_in_one(data[a], data[b])]
    private = np.zeros((len(pairs) * k, len(data) * k))
    for row, ((a, b), chosen) in enumerate(itertools.product(pairs, range(k))):
        private[row, a * k + chosen], private[row, b * k + chosen] = 1.0, -math.exp(epsilon)
    agreed = np.zeros(len(data) * k)
    agreed[[data.index((v,) * n) * k + v for v in range(k)]] = -1.0 / k
    best = linprog(
        agreed,
        A_ub=private,
        b_ub=np.zeros(len(private)),
        A_eq=np.kron(np.eye(len(data)), np.ones(k)),
        b_eq=np.ones(len(data)),
    )
    bound = lower_bound(n, math.inf, epsilon=epsilon, radius=0.5, n_candidates=k)
    assert bound == pytest.approx((k - 1) / (math.exp(n * epsilon) + k - 1))
    if n == 1:  # randomised response
        assert 1.0 + best.fun == pytest.approx(bound, abs=1e-7)
    assert bound <= 1.0 + best.fun + 1e-7 < 1.3 * bound


def differ_in_one(one, other):
    return sum(a != b for a, b in zip(one, other, strict=True)) == 1


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "k"), [(50, 0.05, 0.0, 4), (50, 0.05, 1e-3, 4), (140, 5.0, 0.0, 16), (30, 0.3, 0.0, 2)]
)
def test_lower_bound_of_a_choice_by_enumeration(n, epsilon, delta, k):
    """All numbers of exchanges of many sizes; without privacy the least of k sums, by another integral."""
    best, exchanges = 0.0, np.arange(n + 1)
    factor = np.exp(np.minimum(exchanges * epsilon, 700.0))
    group = delta * np.array([sum(math.exp(j * epsilon) for j in range(i)) for i in exchanges])
    for size in np.geomspace(1e-3, 2.0, 300):
        one = 2 * norm.cdf(size / math.sqrt(2)) - 1
        wrong = ((k - 1) * (binom.cdf(exchanges, n, one) - group) / (factor + k - 1)).max()
        at = size * math.sqrt(n)
        x = np.linspace(at - 9, at + 9, 500)
        right = np.trapezoid(norm.pdf(x - at) * norm.cdf(x) ** (k - 1), x)
        best = max(best, size * max(wrong, 1 - right))
    bound = lower_bound(n, 1, epsilon=epsilon, delta=delta, radius=1.0, n_candidates=k)
    assert bound == pytest.approx(best, rel=2e-3)


@pytest.mark.slow
def test_lower_bound_of_a_choice_has_the_rates_of_section_6():
    def bound(n, epsilon, k, m=1):
        return lower_bound(n, m, epsilon=epsilon, radius=10.0, n_candidates=k)

    n = 50_000
    assert bound(n, 0.001, 64) / bound(2 * n, 0.001, 64) == pytest.approx(2.0, rel=0.1)
    assert bound(n, 0.001, 64) / bound(n, 0.002, 64) == pytest.approx(2.0, rel=0.1)
    assert bound(n, 0.001, 64) / bound(n, 0.001, 64, 16) == pytest.approx(4.0, rel=1e-3)
    assert bound(n, 0.02, 2**40) / bound(n, 0.02, 2**20) == pytest.approx(2.2, rel=0.1)  # ln K, less a few
    assert bound(n, 10.0, 2**24) / bound(n, 10.0, 2**12) == pytest.approx(1.6, rel=0.1)  # its root, likewise


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_selection_is_better_than_the_lower_bound(adjacency):
    """Candidates about as far apart as the bound has it; shares of 500 wrong choices, and five standard errors."""
    n, k, epsilon = 100, 4, 0.1
    bound = lower_bound(n, 1, epsilon=epsilon, radius=1.0, n_candidates=k, adjacency=adjacency)
    known = n if adjacency == "replace-one" else None
    rules = [VoteSelection(epsilon, known is None), DifferenceSelection(epsilon, k, known)]
    for rule in rules:
        worst = 0.0
        for size in (1.5 * bound, 2.5 * bound):
            wrong = 0
            for seed in range(500):
                losses = np.random.default_rng([seed, 0]).normal(size=(n, k))
                losses[:, seed % k] -= size
                release = open_release(
                    epsilon=epsilon, unit="user", adjacency=adjacency, random_state=seed, plan=rule.events
                )
                wrong += rule.run(losses, release) != seed % k
            worst = max(worst, size * (wrong / 500 + 5 * math.sqrt(0.25 / 500)))
        assert bound < worst < 4 * bound


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: user_level_mean_errors(0, epsilon=1.0), "n_users"),
        (lambda: user_level_mean_errors(10, epsilon=0.0), "epsilon"),
        (lambda: user_level_mean_errors(10, epsilon=1.0, delta=1.0), "delta"),
        (lambda: user_level_mean_errors(10, epsilon=1.0, aggregation="median"), "aggregation"),
        (lambda: user_level_mean_errors(10, epsilon=1.0, adjacency="row"), "adjacency"),
        (lambda: user_level_mean_errors(10, epsilon=1.0, deviation=-1.0), "deviation"),
        (lambda: user_level_sample_size(0.0, epsilon=1.0), "error"),
        (lambda: lower_bound(10, 0.5, epsilon=1.0, radius=1.0), "rows_per_user"),
        (lambda: lower_bound(10, 1, epsilon=1.0, radius=-1.0), "radius"),
        (lambda: lower_bound(10, 1, 0, epsilon=1.0, radius=1.0), "n_features"),
        (lambda: lower_bound(10, 1, epsilon=1.0, radius=1.0, n_candidates=1), "n_candidates"),
        (lambda: lower_bound(10, 1, 2, epsilon=1.0, radius=1.0, n_candidates=3), "n_features"),
    ],
)
def test_odd_parameters_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_counts_are_whole_numbers():
    with pytest.raises(TypeError, match="n_users"):
        user_level_mean_errors(10.5, epsilon=1.0)


@pytest.mark.parametrize(
    ("n", "probability", "epsilon", "delta"),
    [
        (300_000, 0.3, 1e-5, 0.0),  # more exchanges than blocks
        (300_000, 0.3, 1e-6, 1e-9),
        (10**6, 1e-8, 1e-4, 0.0),  # hardly one
        (200_000, 0.999, 3e-4, 1e-12),
        (50, 0.2, 0.3, 1e-6),
    ],
)
def test_blocks_of_exchanges_lose_next_to_nothing(n, probability, epsilon, delta):
    k = np.arange(n + 1)
    grown = np.minimum(k * epsilon, 700.0)
    moved = np.tanh(grown / 2) + 2 * delta * np.expm1(grown) / np.expm1(epsilon) / (np.exp(grown) + 1)
    exact = float(binom.pmf(k, n, probability) @ np.minimum(1.0, moved))
    found = _moved(n, probability, epsilon, delta)
    assert exact * (1 - 1e-9) <= found <= min(1.0, exact * (1 + 1e-3) + 1e-15)


@pytest.mark.slow
def test_memory_does_not_grow_with_users_or_one_over_epsilon():
    tracemalloc.start()
    bound = lower_bound(5 * 10**6, 1, epsilon=1e-7, radius=1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    assert 0.0 < bound < 1.0
