"""Private search: its price against exact output laws, against published bounds, and the law of its length."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from helpers.every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chisquare

from skprivate.privacy import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    Repetitions,
    ZeroConcentratedEvent,
    compose_delta,
    compose_epsilon,
    gaussian_noise_multiplier,
    open_release,
    plan_search,
    search_epsilon,
    select_repeatedly,
)
from skprivate.privacy.noise._bits import bit_source
from skprivate.privacy.search._curve import evaluation_of, search_curve

LAWS = [
    Repetitions("poisson", 1.3),
    Repetitions("poisson", 8.0),
    Repetitions("negative-binomial", 3.0, -0.5),
    Repetitions("negative-binomial", 10.0, 0.0),
    Repetitions("negative-binomial", 5.0, 1.0),
    Repetitions("negative-binomial", 30.0, 2.5),
]
GEOMETRIC = Repetitions("negative-binomial", 10.0, 1.0)


def name(law):
    return f"{law.family}-{law.mean}-{law.eta}"


def generating(law, x):
    """E[x^K] as in the literature, in γ = 1/(1 + κ)."""
    if law.eta is None:
        return np.expm1(law.rate * x) / math.expm1(law.rate)
    gamma = 1 / (1 + law.rate)
    rest = 1 - (1 - gamma) * x
    if law.eta == 0:
        return np.log(rest) / math.log(gamma)
    return (rest**-law.eta - 1) / (gamma**-law.eta - 1)


def winner(law, probabilities, scores):
    """Law of the best of K, with the first of equal scores."""
    _, group = np.unique(scores, return_inverse=True)
    total = np.bincount(group, probabilities)
    reached = np.minimum(np.cumsum(total), 1.0)
    won = np.diff(generating(law, np.insert(reached, 0, 0.0)))
    return won[group] * probabilities / np.maximum(total[group], 1e-300)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@st.composite
def outcomes(draw, epsilon):
    """A finite ε-DP pair: a mixture of randomised responses, so that many likelihood ratios occur."""
    n = draw(st.integers(2, 6))
    weights = np.array(draw(st.lists(st.floats(1e-3, 1.0), min_size=n, max_size=n)))
    ratios = np.array(draw(st.lists(st.floats(-epsilon, epsilon), min_size=n, max_size=n)))
    p = weights / weights.sum()
    q = p * np.exp(-ratios)
    # One outcome more makes both sum up to one, within the ratio where it can.
    p, q = np.append(p, 0.0), np.append(q, 0.0)
    p[-1] = q[-1] = 1.0
    scale = 1 / max(p.sum(), q.sum())
    p, q = p * scale, q * scale
    p[-1] += 1 - p.sum()
    q[-1] += 1 - q.sum()
    return p, q


@pytest.mark.parametrize("law", LAWS, ids=name)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), epsilon=st.sampled_from([0.1, 0.7, 2.0]))
def test_no_finite_mechanism_exceeds_the_price(law, data, epsilon):
    p, q = data.draw(outcomes(epsilon))
    if np.abs(np.log(p / q)).max() > epsilon:
        return
    scores = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(p), max_size=len(p))))
    curve = search_curve(evaluation_of([[(PureEvent(epsilon), 1)]]), law)
    first, second = winner(law, p, scores), winner(law, q, scores)
    assert first.sum() == pytest.approx(1)
    assert np.abs(np.log(first / second)).max() <= curve.pure_epsilon + 1e-9
    for share in (0.2, 0.5, 0.9):
        at = share * curve.pure_epsilon
        assert max(hockey_stick(first, second, at), hockey_stick(second, first, at)) <= curve.delta(at) + 1e-13


@pytest.mark.parametrize("law", LAWS, ids=name)
@every("epsilon", [0.1, 1.0, 3.0])
def test_the_pure_price_is_attained(law, epsilon):
    # Randomised response; a thin slice of the likelier outcome scores just below the other outcome.
    likely, rare, thin = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon)), 1e-5
    p = np.array([rare, thin * likely, (1 - thin) * likely])
    q = np.array([likely, thin * rare, (1 - thin) * rare])
    scores = np.array([2, 1, 0])
    first, second = winner(law, p, scores), winner(law, q, scores)
    found, bound = math.log(first[1] / second[1]), search_epsilon([[(PureEvent(epsilon), 1)]], law)
    assert found <= bound <= found + 1e-3
    eta = math.inf if law.eta is None else law.eta
    assert bound < (2 + eta) * epsilon  # theorem 2 of Papernot and Steinke: the limit of large means


@pytest.mark.parametrize("mean", [1.5, 10.0])
@every("mu", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("eta", [None, 0.0, 1.0])
def test_the_price_of_gaussians_is_nearly_attained(mean, mu, eta):
    law = Repetitions("poisson" if eta is None else "negative-binomial", mean, eta)
    curve = search_curve(evaluation_of([[(GaussianEvent(1 / mu), 1)]]), law)
    # Outcomes are cells of N(0, 1) and of N(μ, 1). The upper ones score best; then those that speak for the first.
    edges = np.concatenate([[-np.inf], np.linspace(-9, 9 + mu, 3000), [np.inf]])
    p, q = np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))
    p, q = np.maximum(p, 1e-300), np.maximum(q, 1e-300)
    order = np.arange(len(p), dtype=float)
    best = 0.0
    epsilon = curve.epsilon(1e-6)
    for beaten in np.geomspace(1e-3, 0.9, 40):
        cut = -float(ndtri(beaten))
        scores = np.where(edges[:-1] >= cut, 2e6 + order, -order)
        first, second = winner(law, p, scores), winner(law, q, scores)
        found = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
        assert found <= curve.delta(epsilon)
        best = max(best, found)
    # A factor of δ is a small difference of ε.
    assert best >= curve.delta(epsilon) / 3
    assert epsilon - curve.epsilon(3e-6) < 0.13 * epsilon


def test_candidates_with_different_plans_cost_the_mean_of_their_curves():
    law = Repetitions("negative-binomial", 5.0, 1.0)
    epsilons = (0.2, 1.0, 1.0)
    curve = search_curve(evaluation_of([[(PureEvent(e), 1)] for e in epsilons]), law)
    rng = np.random.default_rng(0)
    worst = search_curve(evaluation_of([[(PureEvent(1.0), 1)]]), law)
    for _ in range(300):
        # Both answers of each candidate's randomised response, in slices, at arbitrary scores.
        p, q = [], []
        for e in epsilons:
            slices = rng.dirichlet(np.ones(3), size=2)
            swap = rng.permutation(2)
            likely = np.array([1 / (1 + math.exp(-e)), 1 / (1 + math.exp(e))])[swap]
            p += list(np.repeat(likely, 3) * slices.ravel() / len(epsilons))
            q += list(np.repeat(likely[::-1], 3) * slices.ravel() / len(epsilons))
        scores = rng.permutation(len(p))
        first, second = winner(law, np.array(p), scores), winner(law, np.array(q), scores)
        assert np.abs(np.log(first / second)).max() <= curve.pure_epsilon
        for at in (0.0, 0.3, 0.8, 1.5):
            assert hockey_stick(first, second, at) <= curve.delta(at) <= 1.001 * worst.delta(at)
    assert curve.delta(1.8) < 0.8 * worst.delta(1.8) < 0.5 and curve.pure_epsilon < worst.pure_epsilon


def test_what_all_candidates_may_fail_is_taken_from_delta():
    # One of two candidates reveals everything with probability 0.01: the others cannot mend that.
    law = Repetitions("negative-binomial", 3.0, 1.0)
    plans = [[(ApproximateEvent(0.5, 0.01), 1)], [(PureEvent(0.5), 1)]]
    curve = search_curve(evaluation_of(plans), law)
    p = np.array([0.005, 0.0, *[0.995 / 2 / (1 + math.exp(e)) * 2 for e in (0.5, -0.5)]])
    q = np.array([0.0, 0.005, *[0.995 / 2 / (1 + math.exp(e)) * 2 for e in (-0.5, 0.5)]])
    for scores in ([3, 2, 1, 0], [3, 2, 0, 1], [0, 1, 2, 3], [3, 0, 2, 1]):
        first, second = (winner(law, each, np.array(scores)) for each in (p, q))
        for at in (0.0, 0.5, 1.0, 5.0):
            assert hockey_stick(first, second, at) <= curve.delta(at)
    assert 0.005 * 2.9 < curve.delta(5.0) < 0.005 * 3.3  # the mean number of evaluations times
    assert search_epsilon(plans, law, 0.014) == math.inf and search_epsilon(plans, law, 0.02) < 2


def best_order(function):
    return min(function(1 + float(order)) for order in np.geomspace(1e-2, 1e3, 250))


def papernot_steinke(mu, law, delta):
    """Theorems 2 and 6 for μ²/2·order Rényi bounds, converted by proposition 12 of Canonne, Kamath and Steinke."""
    with mpmath.workdps(30):
        rho, mean = mpmath.mpf(mu) ** 2 / 2, mpmath.mpf(law.largest_mean)

        def convert(order, divergence):
            log = mpmath.log
            return divergence + log((order - 1) / order) - (log(delta) + log(order)) / (order - 1)

        def total(order):
            order = mpmath.mpf(order)
            if law.eta is None:
                failing = compose_delta([(GaussianEvent(1 / mu), 1)], float(mpmath.log1p(1 / (order - 1))))
                # The law without 0 has the rate in the exponent and its own mean as the factor.
                extra = law.rate * failing + mpmath.log(mean) / (order - 1)
            else:
                gamma = 1 / (1 + mpmath.mpf(law.rate))
                other = max(mpmath.sqrt(mpmath.log(1 / gamma) / rho), mpmath.mpf("1.0001"))
                shape = 1 + mpmath.mpf(law.eta)
                extra = shape * ((1 - 1 / other) * rho * other + mpmath.log(1 / gamma) / other)
                extra += mpmath.log(mean) / (order - 1)
            return convert(order, rho * order + extra)

        return float(best_order(total))


def koskela(mu, law, delta):
    """δ(ε) ≤ E[K]·δ₁(ε − gain), with e^{gain} from one line of the testing region for all ranks."""
    plan = [(GaussianEvent(1 / mu), 1)]
    best = math.inf
    for at in np.linspace(0, 3 * mu, 60):
        failing = compose_delta(plan, at)
        if law.eta is None:
            gain = law.rate * (math.expm1(at) + failing)
        else:
            gain = (law.eta + 1) * math.log(math.exp(at) + law.rate * failing)
        best = min(best, gain)
    return best + compose_epsilon(plan, delta / law.largest_mean)


@pytest.mark.take_turns(3)
@pytest.mark.parametrize("law", LAWS, ids=name)
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
@every("delta", [1e-9, 1e-5])
def test_published_bounds_are_never_better(law, mu, delta):
    found = search_epsilon([[(GaussianEvent(1 / mu), 1)]], law, delta)
    assert compose_epsilon([(GaussianEvent(1 / mu), 1)], delta) <= found
    assert found <= min(papernot_steinke(mu, law, delta), koskela(mu, law, delta))


PLANS = [
    [(GaussianEvent(3.0), 1)],
    [(LaplaceEvent(0.2), 4)],
    [(GaussianEvent(5.0), 2), (LaplaceEvent(0.1), 3)],
    [(ZeroConcentratedEvent(0.02), 3)],
    [(ApproximateEvent(0.4, 1e-8), 2)],
]


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_the_price_grows_with_everything(plan):
    tolerance = 1 + 5e-3  # of the corners chosen, which differ from law to law

    @cache
    def price(law, delta=1e-6, count=1):
        return search_epsilon([[(event, count * n) for event, n in plan]], law, delta)

    def laws(mean):
        return [Repetitions("negative-binomial", mean, e) for e in (-0.5, 1.0)] + [Repetitions("poisson", mean)]

    for mean in (5.0,):
        prices = [price(law) for law in laws(mean)]
        assert all(a <= b * tolerance for a, b in pairwise(prices))
        more = [price(law) for law in laws(2 * mean)]
        assert all(a <= b * tolerance for a, b in zip(prices, more, strict=True))
        assert all(a <= price(law, count=2) for a, law in zip(prices, laws(mean), strict=True))
        assert all(a >= price(law, delta=1e-5) for a, law in zip(prices, laws(mean), strict=True))
    assert price(Repetitions("poisson", 1.0)) == pytest.approx(compose_epsilon(plan, 1e-6))
    assert price(Repetitions("negative-binomial", 1 + 1e-12, 1.0)) == pytest.approx(
        compose_epsilon(plan, 1e-6), rel=1e-3
    )


def test_curve_and_its_inverse_agree_and_a_better_candidate_never_costs():
    good, bad = [(GaussianEvent(6.0), 1)], [(GaussianEvent(3.0), 1)]
    curve = search_curve(evaluation_of([bad, bad]), GEOMETRIC)
    for delta in (1e-12, 1e-6, 1e-2):
        assert 0.999 * delta <= curve.delta(curve.epsilon(delta)) <= delta
    prices = [search_epsilon(plans, GEOMETRIC, 1e-6) for plans in ([good], [good, bad], [bad])]
    assert prices == sorted(prices) and prices[0] < prices[2]
    assert search_epsilon([good, bad], GEOMETRIC, 1e-6) == search_epsilon([bad, good], GEOMETRIC, 1e-6)
    assert search_epsilon([bad], GEOMETRIC) == math.inf
    assert curve.delta(0.0) <= 1


@pytest.mark.take_turns(4)
@pytest.mark.parametrize("law", [*LAWS, Repetitions("poisson", 50.0)], ids=name)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_number_of_evaluations_has_the_law_that_is_priced(law, seed):
    # p < 1e-8 in one of 21 cases: 2.1e-7 in all.
    n, source = 4000, bit_source(seed)
    counts = np.array([law.sample(source) for _ in range(n)])
    # Coefficients of the generating function, by Cauchy's integral.
    size = 1 << 14
    points = 0.999 * np.exp(2j * np.pi * np.arange(size) / size)
    probabilities = np.fft.fft(generating(law, points)).real / size / 0.999 ** np.arange(size)
    probabilities = probabilities[:3000]
    assert abs(probabilities[0]) < 1e-9
    mean = float(probabilities @ np.arange(3000))
    assert mean == pytest.approx(law.mean, rel=1e-3) and law.largest_mean >= law.mean * (1 - 1e-12)
    rank = float(probabilities @ (np.arange(3000) / (1 + np.arange(3000))))
    assert law.expected_rank == pytest.approx(rank, abs=1e-6)
    cuts, reached = [], 0.0
    for k in range(1, 3000):
        reached += probabilities[k]
        if reached * n > 20 and probabilities[k + 1 :].sum() * n > 20:
            cuts, reached = [*cuts, k + 1], 0.0
    expected = np.add.reduceat(probabilities, [0, *cuts]) * n
    found = np.bincount(np.searchsorted(cuts, counts, side="right"), minlength=len(expected))
    expected[-1] += n - expected.sum()
    assert len(expected) >= 2 and chisquare(found, expected).pvalue > 1e-8


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_the_distribution_function_is_inverted_to_the_last_digit(law):
    with mpmath.workdps(60):
        rate = mpmath.mpf(law.rate)

        def at_most(k):
            if law.eta is None:
                terms = [rate**j / mpmath.factorial(j) for j in range(1, k + 1)]
                return mpmath.fsum(terms) / mpmath.expm1(rate)
            eta, share = mpmath.mpf(law.eta), rate / (1 + rate)
            terms = [share**j * mpmath.rf(eta + 1, j - 1) / mpmath.factorial(j) for j in range(1, k + 1)]
            full = mpmath.log1p(rate) if eta == 0 else ((1 + rate) ** eta - 1) / eta
            return mpmath.fsum(terms) / full

        for k in (1, 2, 3, 7):
            for bits in (64, 128):
                place = int(mpmath.floor(at_most(k) * 2**bits))
                assert law._quantile(place - 1, bits) == k
                assert law._quantile(place, bits) is None  # both k and k + 1 begin with these digits
                assert law._quantile(place + 1, bits) == k + 1
    assert law._quantile(0, 64) == 1 and law._quantile(2**64 - 1, 64) is None


@pytest.mark.slow
def test_the_best_candidate_wins_as_often_as_its_law_says():
    search = plan_search(lambda e, _: [[(LaplaceEvent(e), 1)]] * 3, epsilon=1.0, mean_repetitions=2.0)
    law, n = search.repetitions, 3000
    won = np.zeros(3)
    for seed in range(n):
        with open_release(epsilon=1.0, unit="row", adjacency="replace-one", random_state=seed) as release:
            won[select_repeatedly(release, lambda k, b: (float(k), None), search).candidate] += 1
    for k in range(3):
        share = generating(law, (k + 1) / 3) - generating(law, k / 3)
        assert binom.cdf(won[k], n, share) > 1e-8 and binom.sf(won[k] - 1, n, share) > 1e-8


@pytest.mark.slow
def test_a_plan_spends_its_budget_and_no_more():
    noise = gaussian_noise_multiplier

    def laplace(epsilon, delta):
        return [[(LaplaceEvent(epsilon / 3), 3)]] * 4

    def gauss(epsilon, delta):
        return [[(GaussianEvent(noise(epsilon, delta)), 1)], [(GaussianEvent(noise(epsilon, delta, 4)), 4)]]

    def jumps(epsilon, delta):
        return [[(LaplaceEvent(0.01), max(math.floor(epsilon / 0.01), 1))]]

    for plans_of, delta in ((laplace, 0.0), (laplace, 1e-6), (gauss, 1e-6), (jumps, 0.0), (jumps, 1e-6)):
        for mean in (1, 6.0):
            plan = plan_search(plans_of, epsilon=0.9, delta=delta, mean_repetitions=mean)
            assert plan.epsilon <= 0.9 and plan.delta in (0.0, delta)
            assert plan.epsilon >= search_epsilon(plan.plans, plan.repetitions, plan.delta)
            assert [dict(each) for each in plan.plans] == [
                dict(each) for each in plans_of(plan.each_epsilon, plan.each_delta)
            ]
            if plan.each_epsilon < 0.9:
                more = plans_of(plan.each_epsilon + 0.011, plan.each_delta)
                assert search_epsilon(more, plan.repetitions, delta) > 0.9
            ((event, count),) = plan.events
            assert count == 1 and compose_epsilon(plan.events, plan.delta) == plan.epsilon
            assert isinstance(event, ApproximateEvent if plan.delta else PureEvent)


def test_the_law_that_is_chosen_is_the_best_by_budget_and_rank():
    def plans_of(epsilon, delta):
        return [[(GaussianEvent(gaussian_noise_multiplier(epsilon, delta)), 1)]]

    budget = {"epsilon": 1.0, "delta": 1e-6, "mean_repetitions": 10}
    laws = [
        Repetitions("poisson", 10),
        Repetitions("negative-binomial", 10, 0.0),
        Repetitions("negative-binomial", 10, 1.0),
    ]
    worth = [plan_search(plans_of, **budget, laws=[law]).each_epsilon * law.expected_rank for law in laws]
    chosen = plan_search(plans_of, **budget)
    assert chosen.repetitions == laws[int(np.argmax(worth))]
    assert chosen.each_epsilon * chosen.repetitions.expected_rank == pytest.approx(max(worth), rel=1e-3)


@every(
    ("call", "message"),
    [
        (lambda: Repetitions("binomial", 3.0), "family must be"),
        (lambda: Repetitions("poisson", 0.5), "mean must be"),
        (lambda: Repetitions("poisson", math.inf), "mean must be"),
        (lambda: Repetitions("poisson", 3.0, 1.0), "eta must be None"),
        (lambda: Repetitions("negative-binomial", 3.0, -1.0), "eta must be"),
        (lambda: Repetitions("negative-binomial", 3.0, 1e-9), "eta must be"),
        (lambda: search_epsilon([], GEOMETRIC, 1e-6), "plans must hold"),
        (lambda: search_epsilon([[]], GEOMETRIC, 1e-6), "plans must hold"),
        (lambda: search_epsilon(PLANS, GEOMETRIC, 1.0), "delta must be"),
        (lambda: plan_search(lambda e, d: PLANS, epsilon=0.0, mean_repetitions=2), "epsilon must be"),
        (lambda: plan_search(lambda e, d: PLANS, epsilon=1.0, mean_repetitions=0.5), "mean_repetitions must be"),
        (lambda: plan_search(lambda e, d: PLANS, epsilon=1.0, mean_repetitions=2, laws=[]), "laws must be"),
        (lambda: plan_search(lambda e, d: PLANS, epsilon=1.0, mean_repetitions=2), "leaves nothing"),
    ],
)
def test_bad_numbers_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_number_that_is_none_is_refused():
    with pytest.raises(TypeError, match="eta must be"):
        Repetitions("negative-binomial", 3.0)
    with pytest.raises(TypeError, match="mean must be"):
        replace(GEOMETRIC, mean="10")
