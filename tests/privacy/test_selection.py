"""Private selection: every point of the sampler's line enumerated, laws by chi-square, and OpenDP beside them."""

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from helpers.every import every
from helpers.scripted_bits import ScriptedSource, exp, floor
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skprivate.privacy.noise import _selection
from skprivate.privacy.noise._bits import bit_source
from skprivate.privacy.noise._selection import (
    binomial_exp,
    exponential_select,
    exponential_select_rows,
    permute_and_flip_select,
)

# A statistical test below fails by chance with this probability; there are fewer than 100 of them.
P_FALSE = 1e-8
COSTS = np.array([3, 0, 1, 8, 0, 2])
RATE = Fraction(2, 5)


def chi_square(counts, probabilities):
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    assert not counts[probabilities == 0].any()
    kept = probabilities > 0
    return stats.chisquare(counts[kept], probabilities[kept] / probabilities.sum() * counts.sum()).pvalue


def exponential_law(costs, rate, multiplicity=None):
    weights = [exp(rate * int(c)) * (1 if multiplicity is None else multiplicity[i]) for i, c in enumerate(costs)]
    return [float(weight / sum(weights)) for weight in weights]


def flips_law(costs, rate):
    """Permute-and-flip from its definition: all orders, and the product of the failures before the success."""
    p = [exp(rate * int(c)) for c in costs]
    law = [Fraction(0)] * len(p)
    for order in permutations(range(len(p))):
        reached = Fraction(1)
        for item in order:
            law[item] += reached * p[item]
            reached *= 1 - p[item]
    return [value / math.factorial(len(p)) for value in law]


# --- the bounds of the weights ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(
    cost=st.integers(0, 2**62) | st.integers(0, 100),
    rate=st.fractions(0, 50, max_denominator=10**9) | st.floats(0, 2.0**-40).map(Fraction) | st.just(Fraction(10**400)),
    bits=st.integers(20, 52),
)
def test_weights_bracket_the_truth(cost, rate, bits):
    truth = exp(rate * cost) * 2**bits if rate * cost < 10**6 else Fraction(1, 10**9)
    upper = int(_selection._upper(np.array([cost]), rate, bits)[0])
    assert truth < upper <= truth * (1 + Fraction(1, 2**39)) + 2
    assert _selection._lower(upper) + 1 <= truth


# --- every point of the line --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("multiplicity", [None, [1, 1, 4, 2, 0, 3], [5, 0, 3, 1, 0, 2]])
@pytest.mark.parametrize("way", ["vectorised", "exact"])
def test_exponential_mechanism_by_enumeration(monkeypatch, multiplicity, way):
    """With weights of 6 digits the line is short: each member's accepted part is 2^6·e^{-rate·cost}, exactly."""
    if multiplicity is None and way == "exact":
        multiplicity = [1] * 6
    monkeypatch.setattr(_selection, "_WEIGHT_BITS", 6)
    monkeypatch.setattr(_selection, "_VECTORISED", 1 << 28 if way == "vectorised" else 0)
    monkeypatch.setattr(_selection, "_HUGE", 0)
    counts = multiplicity or [1] * 6
    bits = 6 if way == "vectorised" else 6 + sum(counts).bit_length()
    best = min(c for c, m in zip(COSTS, counts, strict=True) if m)
    p = [exp(RATE * int(c - best)) if m else 0 for c, m in zip(COSTS, counts, strict=True)]
    for tie, extra in [(0, 1), (2**64 - 1, 0)]:  # a tie is settled by 64 further digits
        accepted = {}
        for point in range(sum(counts) * (2**bits + 2)):
            source = ScriptedSource(further=[tie], points=[point])
            try:
                choice = exponential_select(COSTS, RATE, source, multiplicity)
            except AssertionError:  # beyond the end of the line
                break
            except IndexError:  # refused: another point was asked for
                continue
            accepted[choice] = accepted.get(choice, 0) + 1
        for category, count in enumerate(counts):
            for member in range(count):
                whole = floor(p[category], bits)
                assert accepted.pop((category, member), 0) == whole + (0 if p[category] == 1 else extra)
        assert not accepted


@pytest.mark.parametrize("counts", [[1, 1, 4, 2, 0, 3], [5, 0, 3, 1, 0, 2], [300, 7, 2000, 10**4, 0, 1]])
@pytest.mark.parametrize("bits", [4, 7, 11])
def test_masses_by_enumeration(monkeypatch, counts, bits):
    """The accepted part of a category is 2^s·count·e^{-rate·cost}, exactly, whether 2^s is above or below 1."""
    monkeypatch.setattr(_selection, "_VECTORISED", 0)
    monkeypatch.setattr(_selection, "_MASS_BITS", bits)
    best = min(c for c, m in zip(COSTS, counts, strict=True) if m)
    weights = [m * exp(RATE * int(c - best)) for c, m in zip(COSTS, counts, strict=True)]
    masses, scale = _selection._masses(COSTS - best, RATE, counts)
    assert 2 ** (bits - 2) < sum(weights) * Fraction(2) ** scale < 2**bits
    line = int(masses.sum())
    assert line not in counts

    class Line(ScriptedSource):
        def integer_below(self, n):
            return 0 if n != line else self.points.pop()  # a second point of the line is not there

    coarse = max(0, -scale)  # digits of a point that are drawn in any case where members outnumber the line
    for tie, extra in [(0, 1), (2**64 - 1, 0)]:
        accepted = np.zeros(6, dtype=int)
        for first, point in product(range(2**coarse), range(line)):
            source = Line(further=[first] * bool(coarse) + [tie], points=[point])
            try:
                accepted[exponential_select(COSTS, RATE, source, counts)[0]] += 1
            except IndexError:  # refused
                continue
        for category, weight in enumerate(weights):
            whole = floor(weight, scale + coarse)
            exact = weight == int(weight)
            assert accepted[category] == whole + (0 if exact else extra)


@settings(deadline=None, max_examples=150)
@given(
    costs=st.lists(st.integers(0, 2**62) | st.integers(0, 1000), min_size=1, max_size=5),
    counts=st.lists(st.integers(1, 2**62) | st.integers(1, 2**899), min_size=5, max_size=5),
    rate=st.fractions(0, 50, max_denominator=10**9) | st.floats(0, 2.0**-40).map(Fraction) | st.just(Fraction(10**400)),
)
def test_masses_bracket_the_truth(costs, counts, rate):
    cost = np.array(costs) - min(costs)
    masses, scale = _selection._masses(cost, rate, counts[: len(costs)])
    for mass, c, count in zip(masses.tolist(), cost.tolist(), counts, strict=False):
        gamma = rate * c
        truth = count * Fraction(2) ** scale * (exp(gamma) if gamma < 10**6 else Fraction(1, 2**2000))
        assert truth < mass <= truth * (1 + Fraction(1, 2**39)) + 2
        assert mass < 3 or _selection._lower(mass) + 1 <= truth or gamma > 700
    assert int(masses.sum()) < 2**61


def test_rows_by_enumeration(monkeypatch):
    monkeypatch.setattr(_selection, "_WEIGHT_BITS", 6)
    p = [exp(RATE * int(c)) for c in COSTS]
    upper = _selection._upper(COSTS, RATE, 6)
    total = int(upper.sum())
    shift = 64 - total.bit_length()
    for tie, extra in [(0, 1), (2**64 - 1, 0)]:
        accepted = np.zeros(6, dtype=int)
        refused = 0
        for point in range(1 << total.bit_length()):
            try:
                source = ScriptedSource([point << shift], [tie])
                (choice,) = exponential_select_rows(COSTS[None, :], RATE, source)
                accepted[choice] += 1
            except AssertionError:  # refused: another word was asked for
                refused += 1
        np.testing.assert_array_equal(accepted, [floor(q, 6) + (0 if q == 1 else extra) for q in p])
        assert refused == (1 << total.bit_length()) - accepted.sum()


@pytest.mark.parametrize("cost", [0, 1, 3, 40])
def test_coins_are_exact(cost):
    p = exp(RATE * cost)
    tie = floor(p, 52)
    for x in {0, tie - 9, tie - 1, tie, tie + 1, tie + 9, 2**52 - 1}:
        if 0 <= x < 2**52:
            for further, heads in [(0, True), (2**64 - 1, False)]:
                source = ScriptedSource([x << 12], [further] * (x == tie))
                (came_up,) = _selection._flip(np.array([cost]), RATE, source)
                assert came_up == (x < tie or (x == tie and heads)) and source.used_up


@pytest.mark.parametrize("costs", [[0, 1, 2], [0, 0, 3, 5], [0, 2, 2, 7, 1]])
def test_first_success_in_random_order_is_a_uniform_success(costs):
    """Permute-and-flip by its definition equals tossing all coins and choosing a uniform one of the heads."""
    rate = Fraction(1, 3)
    p = [exp(rate * c) for c in costs]
    law = [Fraction(0)] * len(p)
    for heads in product([0, 1], repeat=len(p)):
        weight = Fraction(1)
        for coin, q in zip(heads, p, strict=True):
            weight *= q if coin else 1 - q
        for item, coin in enumerate(heads):
            if coin:
                law[item] += weight / sum(heads)
    assert law == flips_law(costs, rate)


# --- binomials ----------------------------------------------------------------------------------------------


@every("n", [*range(1, 26), 63, 64, 65, 200, 1000])
def test_half_binomial_counts_ones(n):
    class Block:
        def bytes(self, n_bytes):
            return block[:n_bytes]

    for fill in (0x00, 0xFF, 0x5A):
        block = np.full(200, fill, dtype=np.uint8)
        assert _selection._half_binomial(n, Block()) == int(np.unpackbits(block, bitorder="little")[:n].sum())


def test_binomial_follows_the_digits(monkeypatch):
    """p = e^{-1/2} = 0.1001101…₂: after a digit 1 those with 0 are counted, after a 0 those with 1 are out."""
    zeros = iter([3, 2, 1, 1, 0])
    asked = []
    monkeypatch.setattr(_selection, "_half_binomial", lambda n, source: asked.append(n) or next(zeros))
    # 10 tied: 3 below, 7 tied; 2 tied, 5 above; 1 tied, 1 above; digit 1: 1 below, 0 tied.
    assert binomial_exp(10, Fraction(1, 2), ScriptedSource()) == 4
    assert asked == [10, 7, 2, 1]


@pytest.mark.take_turns(4)
@pytest.mark.parametrize("random_state", [None, 1])
@pytest.mark.parametrize("n, gamma", [(7, Fraction(1, 3)), (40, Fraction(3)), (20_000, Fraction(7, 10))])
def test_binomial_chi_square(n, gamma, random_state):
    source = bit_source(random_state)
    draws = np.array([binomial_exp(n, gamma, source) for _ in range(3000)])
    quantiles = stats.binom.cdf(draws - 1, n, math.exp(-gamma)) + np.random.default_rng(0).random(
        3000
    ) * stats.binom.pmf(draws, n, math.exp(-gamma))
    assert stats.kstest(quantiles, "uniform").pvalue > P_FALSE


def test_binomial_extremes():
    assert binomial_exp(10**9, Fraction(0), ScriptedSource()) == 10**9
    assert binomial_exp(10**5, Fraction(10**6), bit_source(0)) == 0
    assert binomial_exp(0, Fraction(1), ScriptedSource()) == 0
    assert abs(binomial_exp(10**7, Fraction(1, 10**5), bit_source(0)) - 10**7 + 100) < 70


# --- laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [None, 1])
@pytest.mark.parametrize("multiplicity", [None, [1, 1, 4, 20, 0, 3], [2**70, 1, 7, 2**80, 0, 1]])
def test_exponential_chi_square(multiplicity, random_state):
    source = bit_source(random_state)
    rate = Fraction(2, 5) if multiplicity is None or multiplicity[0] == 1 else Fraction(7, 5)
    draws = [exponential_select(COSTS, rate, source, multiplicity) for _ in range(4000)]
    counts = np.bincount([category for category, _ in draws], minlength=6)
    law = exponential_law(COSTS, rate, multiplicity)
    assert chi_square(counts, np.where(np.array(law) < 1e-9, 0, law)) > P_FALSE
    for category, member in draws:
        assert 0 <= member < (1 if multiplicity is None else multiplicity[category])
    if multiplicity and multiplicity[0] > 1:
        place = [member * 8 // multiplicity[category] for category, member in draws if multiplicity[category] > 7]
        assert stats.chisquare(np.bincount(place, minlength=8)).pvalue > P_FALSE


@pytest.mark.parametrize("random_state", [None, 1])
def test_rows_chi_square(random_state):
    costs = np.tile(COSTS, (60_000, 1))
    costs[1::2] = costs[1::2, ::-1]
    index = exponential_select_rows(costs, RATE, bit_source(random_state))
    law = exponential_law(COSTS, RATE)
    assert chi_square(np.bincount(index[::2], minlength=6), law) > P_FALSE
    assert chi_square(np.bincount(index[1::2], minlength=6), law[::-1]) > P_FALSE
    pairs = index[::2] * 6 + index[1::2]
    assert chi_square(np.bincount(pairs, minlength=36), np.outer(law, law[::-1]).ravel()) > P_FALSE


@pytest.mark.take_turns(12)
@pytest.mark.parametrize("random_state", [None, 1])
@pytest.mark.parametrize("few", [1 << 10, 1, 0])
def test_permute_and_flip_chi_square(monkeypatch, few, random_state):
    monkeypatch.setattr(_selection, "_FEW", few)
    source = bit_source(random_state)
    law = flips_law(COSTS, RATE)
    counts = np.bincount([permute_and_flip_select(COSTS, RATE, source)[0] for _ in range(4000)], minlength=6)
    assert chi_square(counts, law) > P_FALSE
    # Two zero costs and two eights, as categories of two members each.
    spread = flips_law([0, 0, 3, 8, 8], RATE)
    draws = [permute_and_flip_select([3, 9, 0, 8], RATE, source, [1, 0, 2, 2]) for _ in range(3000)]
    keys = {(2, 0): 0, (2, 1): 1, (0, 0): 2, (3, 0): 3, (3, 1): 4}
    counts = np.bincount([keys[draw] for draw in draws], minlength=5)
    assert chi_square(counts, spread) > P_FALSE


def test_permute_and_flip_of_many_members():
    source = bit_source(3)
    draws = [permute_and_flip_select([0, 4], Fraction(1), source, [1, 5000]) for _ in range(800)]
    # The best one is chosen with E[1/(1 + B)], B ~ Binomial(5000, e^-4): (1 - (1-p)^5001)/(5001 p).
    p = math.exp(-4)
    best = (1 - (1 - p) ** 5001) / (5001 * p)
    hits = sum(category == 0 for category, _ in draws)
    assert stats.binomtest(hits, 800, best).pvalue > P_FALSE
    place = [member * 5 // 5000 for category, member in draws if category == 1]
    assert stats.chisquare(np.bincount(place, minlength=5)).pvalue > P_FALSE


@pytest.mark.slow
def test_same_law_as_opendp():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    scores = [0.0, 1.0, 1.5, 3.0]
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    noisy_max = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=1.5)
    theirs = np.bincount([noisy_max(scores) for _ in range(8000)], minlength=4)
    source = bit_source(None)
    costs = (2 * (3.0 - np.array(scores))).astype(np.int64)
    ours = np.bincount([exponential_select(costs, Fraction(1, 3), source)[0] for _ in range(8000)], minlength=4)
    assert stats.chi2_contingency([theirs, ours]).pvalue > P_FALSE


# --- extremes -----------------------------------------------------------------------------------------------


def test_extreme_costs_and_rates():
    source = bit_source(0)
    costs = np.array([2**62, 0, 2**62 - 1])
    for draw in (exponential_select, permute_and_flip_select):
        assert draw(costs, Fraction(1), source) == (1, 0)
        assert draw(costs, 10.0**300, source) == (1, 0)
        assert {draw(costs, 0, source)[0] for _ in range(100)} == {0, 1, 2}
        assert {draw(costs, Fraction(1, 2**70), source)[0] for _ in range(100)} == {0, 1, 2}
        assert draw([5], 1, source) == (0, 0)
        assert draw([7, 3], 10**9, source) == (1, 0)
    rows = exponential_select_rows(np.array([[2**62, 0], [0, 2**62]]), Fraction(1), source)
    np.testing.assert_array_equal(rows, [1, 0])
    assert exponential_select_rows(np.zeros((0, 3), dtype=int), 1, source).shape == (0,)


def test_far_members_beyond_counting_do_not_stall():
    """2^200 members of weight e^-1000 each: the weights get as many digits as it takes."""
    assert exponential_select([0, 1000], Fraction(1), bit_source(0), [1, 2**200]) == (0, 0)
    category, member = exponential_select([0, 100], Fraction(1), bit_source(0), [1, 2**200])
    assert category == 1 and 0 <= member < 2**200


@pytest.mark.parametrize(
    "draw", [exponential_select, permute_and_flip_select, lambda c, r, s: exponential_select_rows([c], r, s)]
)
def test_bad_arguments(draw):
    source = bit_source(0)
    with pytest.raises(ValueError, match="costs must be a non-empty integer array"):
        draw([0.5, 1.0], 1, source)
    with pytest.raises(ValueError, match="costs must"):
        draw([], 1, source)
    with pytest.raises(ValueError, match="costs must be between"):
        draw([0, -1], 1, source)
    with pytest.raises(ValueError, match="costs must be between"):
        draw(np.array([0, 2**63 + 1], dtype=np.uint64), 1, source)
    with pytest.raises(ValueError, match="costs must be between"):
        draw([0, 2**62 + 1], 1, source)
    draw([0, 2**62], 1, source)
    for rate in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="rate must be a finite number"):
            draw([0, 1], rate, source)


@pytest.mark.parametrize("draw", [exponential_select, permute_and_flip_select])
def test_bad_multiplicities(draw):
    for bad in ([1], [0, 0], [1, -1]):
        with pytest.raises(ValueError, match="multiplicity must"):
            draw([0, 1], 1, bit_source(0), bad)
    with pytest.raises(TypeError):
        draw([0, 1], 1, bit_source(0), [1, 2.5])
    with pytest.raises(ValueError, match="multiplicity adds up"):
        permute_and_flip_select([0, 1], 1, bit_source(0), [1, _selection.MAX_FLIPS])


def test_too_many_candidates_per_row():
    with pytest.raises(ValueError, match="at most"):
        exponential_select_rows(np.zeros((1, 2**20 + 1), dtype=np.int64), 1, bit_source(0))
