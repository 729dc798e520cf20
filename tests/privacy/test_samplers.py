"""Discrete Laplace and Gaussian noise: boundaries to the last digit, laws by chi-square, and OpenDP beside them."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers.every import every
from helpers.scripted_bits import CONTEXT, ScriptedSource, exp, floor, next_digits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skprivate.privacy.noise import _samplers
from skprivate.privacy.noise._bits import bit_source
from skprivate.privacy.noise._samplers import below_exp, exp_floor, geometric_quantile, integer_noise

# A statistical test below fails by chance with this probability; there are fewer than 100 of them.
P_FALSE = 1e-8
SOURCES = [None, 1, 2]
SAME = [0x9E3779B97F4A7C15] * 6


def laplace_tail(scale, v):
    """P(|K| ≥ v) for v ≥ 1 under P(K = k) ∝ e^{-|k|/scale}: twice q^v/(1 + q)."""
    q = exp(1 / Fraction(scale))
    return 2 * exp(v / Fraction(scale)) / (1 + q)


def pooled(draws, probabilities, first):
    """p-value of a chi-square test; ``probabilities`` belong to first, first + 1, …, tails are pooled."""
    expected = np.asarray(probabilities) * draws.size
    lowest, highest = np.flatnonzero(expected >= 20)[[0, -1]]
    edges = np.arange(first + lowest, first + highest + 1)
    inside = draws[(draws >= edges[0]) & (draws <= edges[-1])]
    observed = np.append(np.bincount(inside - edges[0], minlength=edges.size), draws.size - inside.size)
    wanted = np.append(expected[lowest : highest + 1], 0.0)
    wanted[-1] = draws.size - wanted.sum()
    if wanted[-1] < 20:
        observed[-2] += observed[-1]
        wanted[-2] += wanted[-1]
        observed, wanted = observed[:-1], wanted[:-1]
    return stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue


def integer_law(exponent, reach):
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-exponent(np.abs(k).astype(float)))
    return weights / weights.sum()


# --- exact arithmetic ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(gamma=st.fractions(0, 300, max_denominator=10**12), bits=st.integers(1, 300))
def test_exp_floor(gamma, bits):
    assert exp_floor(gamma, bits) == floor(exp(gamma), bits)


def test_exp_floor_extremes():
    assert exp_floor(Fraction(0), 52) == 2**52
    assert exp_floor(Fraction(1, 10**40), 52) == 2**52 - 1
    assert exp_floor(Fraction(10**30), 500) == 0
    # 2^1000·e^{-1/10^30} needs more digits than 1000 bits have, to see that it is not 2^1000.
    assert exp_floor(Fraction(1, 10**400), 1000) == 2**1000 - 1
    # Just below and just above log 2: 2^53·e^{-gamma} is 2^52 but for its 60th digit.
    below = Fraction(int(CONTEXT.scaleb(CONTEXT.ln(2), 60)), 10**60)
    assert exp_floor(below, 53) == 2**52
    assert exp_floor(below + Fraction(1, 10**60), 53) == 2**52 - 1


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(5), Fraction(40)])
@pytest.mark.parametrize("bits", [0, 1, 53, 64])
def test_below_exp_reads_on_after_a_tie_only(gamma, bits):
    p = exp(gamma)
    tie = floor(p, bits)
    if tie:
        assert below_exp(tie - 1, bits, gamma, ScriptedSource())
    assert not below_exp(tie + 1, bits, gamma, ScriptedSource())
    digits = next_digits(p, bits, 64)
    for further, answer in [(digits - 1, True), (digits + 1, False)]:
        if 0 <= further < 2**64:
            assert below_exp(tie, bits, gamma, ScriptedSource(further=[further])) is answer
    source = ScriptedSource(further=[digits, next_digits(p, bits + 64, 64) - 1])
    assert below_exp(tie, bits, gamma, source) and source.used_up


def test_below_exp_of_a_sure_thing():
    assert below_exp(2**52 - 1, 52, Fraction(0), ScriptedSource())
    assert not below_exp(2**52, 52, Fraction(0), ScriptedSource())
    assert not below_exp(2**52 + 9, 52, Fraction(1, 2), ScriptedSource())


def test_the_machine_keeps_the_assumed_precision():
    """The error bounds grant `np.log` and `np.exp` 4 units in the last place."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(1000), 2.0 ** -rng.uniform(0, 63, 1000), 1 - 2.0 ** -rng.uniform(1, 53, 1000)])
    gamma = np.concatenate([rng.uniform(0, 40, 1000), rng.uniform(0, 700, 1000), 2.0 ** -rng.uniform(0, 60, 1000)])
    for arguments, values, exact in [(x, np.log(x), CONTEXT.ln), (-gamma, np.exp(-gamma), CONTEXT.exp)]:
        for argument, value in zip(arguments.tolist(), values.tolist(), strict=True):
            error = CONTEXT.abs(CONTEXT.subtract(Decimal(value), exact(Decimal(argument))))
            assert error <= 4 * Decimal(math.ulp(value))


# --- discrete Laplace ---------------------------------------------------------------------------------------

SCALES = (0.01, 0.3, 1, 2.5, 7, Fraction(100, 3), 1e3, 1e4, 123456.789, 2**30, 2**32 + 0.5, 2**34)


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_boundaries_are_exact(scale):
    """|K| ≥ v exactly where X < P(|K| ≥ v): on both sides of the boundary, and on it, down to the 191st digit."""
    for v in {1, 2, 3, 7, int(2 * scale), int(9 * scale) + 1, int(30 * scale) + 1, int(43 * scale)}:
        if v >= 1 and laplace_tail(scale, v) > Fraction(1, 2**62):
            boundary_is_exact(scale, v)


def boundary_is_exact(scale, v):
    tail = laplace_tail(scale, v)
    cut = floor(tail, 63)
    offsets = [o for o in (-9, -5, -2, -1, 1, 2, 3, 5, 9) if 0 <= cut + o < 2**63]
    for offset in offsets:
        for sign in (0, 1):
            (value,) = integer_noise("laplace", scale, 1, ScriptedSource([(sign << 63) + cut + offset], SAME))
            assert (abs(value) >= v) == (offset < 0)
            assert value == 0 or (value < 0) == bool(sign)
    digits = next_digits(tail, 63, 64)
    later = next_digits(tail, 127, 64)
    for further, at_least in [([digits - 1], True), ([digits + 1], False), ([digits, later - 1], True)]:
        if 0 <= further[-1] < 2**64:
            (value,) = integer_noise("laplace", scale, 1, ScriptedSource([cut], further + SAME))
            assert (abs(value) >= v) == at_least


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.7])
def test_laplace_law_rebuilt_from_its_boundaries(scale):
    """The number of 63-digit prefixes that yield each value gives P(K = k) up to 2^-62."""
    q = exp(1 / Fraction(scale))
    z = (1 + q) / (1 - q)
    cuts = [2**63] + [floor(laplace_tail(scale, v), 63) for v in range(1, 30)]
    for v in range(28):
        words = [cuts[v + 1] + 1, cuts[v] - 1]
        if words[0] > words[1]:
            continue
        values = integer_noise("laplace", scale, 2, ScriptedSource(words))
        np.testing.assert_array_equal(values, [v, v])  # monotone, so everything between yields v as well
        mass = Fraction(cuts[v] - cuts[v + 1], 2**63) / (1 if v == 0 else 2)
        assert abs(mass - q**v / z) < Fraction(1, 2**61)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    scale=st.floats(2.0**-8, 2.0**34),
    words=st.lists(st.integers(0, 2**63 - 1) | st.integers(1, 2**20), min_size=1, max_size=20),
)
def test_float64_lanes_agree_with_decimal_arithmetic(scale, words):
    expected = [geometric_quantile(x, 63, Fraction(scale), True, ScriptedSource(further=SAME)) for x in words]
    drawn = integer_noise("laplace", scale, len(words), ScriptedSource(words, SAME * len(words)))
    np.testing.assert_array_equal(np.abs(drawn), expected)


def test_words_of_zeros_are_read_on():
    """X < 2^-63: the tail goes on beyond what 63 digits can tell."""
    for scale in (0.05, 1.0, 2.0**33):
        (value,) = integer_noise("laplace", scale, 1, ScriptedSource([0], [0, 0, 1, 2**63, 2**63]))
        expected = scale * (math.log(2 / (1 + math.exp(-1 / scale))) + (63 + 192) * math.log(2))
        assert expected - scale - 1 <= value <= expected + 1


@pytest.mark.parametrize("scale", [2**34 + 1, 2.0**40 * 1.7, Fraction(2**46 + 1, 3), 2**52])
def test_split_digits_are_exact(scale):
    """Above 2^34: K = ±(2^m·H + L), P(H ≥ h) = e^{-2^m·h/s}, L accepted with e^{-L/s}."""
    exact = Fraction(scale)
    m = (int(scale) >> 20).bit_length() - 1
    assert 2**20 <= exact / 2**m < 2**21 and 64 - m >= 32
    boundary = exp(2**m * 12345 / exact)
    for low in (0, 1, 2 ** (m - 1), 2**m - 1):
        for offset in (-3, 3):
            for sign in (0, 1):
                words = [(sign << 63) + floor(boundary, 63) + offset, low << (64 - m)]
                (value,) = integer_noise("laplace", scale, 1, ScriptedSource(words))
                high = 12345 if offset < 0 else 12344
                assert value == (-1 if sign else 1) * ((high << m) + low)
        # The acceptance bits: everything below the boundary of this L accepts, everything above refuses.
        p = exp(low / exact)
        tie = floor(p, 64 - m)
        for bits, accepted in [(tie - 1, True), (tie + 1, False)]:
            if bits < 2 ** (64 - m):
                source = ScriptedSource([2**62, (low << (64 - m)) + bits, 2**61, 0])
                (value,) = integer_noise("laplace", scale, 1, source)
                assert source.used_up is not accepted
                assert (value & (2**m - 1) == low) if accepted else (value >> m << m == value)
        if low:
            more = floor(p, 128 - m) - (tie << 64)
            for further, accepted in [(more - 1, True), (more + 1, False)]:
                source = ScriptedSource([2**62, (low << (64 - m)) + tie, 2**61, 0], [further])
                (value,) = integer_noise("laplace", scale, 1, source)
                assert source.used_up is not accepted and not source.further
    # Zero has one sign.
    source = ScriptedSource([2**64 - 1, 0, 2**61, 0])
    assert integer_noise("laplace", scale, 1, source)[0] > 0 and source.used_up
    assert integer_noise("laplace", scale, 1, ScriptedSource([2**63 - 1, 0]))[0] == 0


@pytest.mark.parametrize("random_state", SOURCES)
@pytest.mark.parametrize("scale", [0.3, 1, 10.5, 300])
def test_laplace_chi_square(scale, random_state):
    draws = integer_noise("laplace", scale, 200_000, bit_source(random_state))
    reach = int(25 * scale) + 3
    assert pooled(draws, integer_law(lambda k: k / scale, reach), -reach) > P_FALSE


@pytest.mark.parametrize("random_state", SOURCES)
@pytest.mark.parametrize("scale", [1e4, 2.0**32, 1.3 * 2.0**33, 2.0**34 * 1.0001, 2.0**45])
def test_large_laplace_scales(scale, random_state):
    draws = integer_noise("laplace", scale, 200_000, bit_source(random_state))
    # The distance of the laws, 1/scale, is far below what 2·10^5 draws can tell.
    assert stats.kstest(draws / scale, "laplace").pvalue > P_FALSE
    assert pooled(draws % 64, np.full(64, 1 / 64), 0) > P_FALSE


# --- discrete Gaussian --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(3, 2), Fraction(77), Fraction(10**9, 7)])
def test_gaussian_is_laplace_times_acceptance(sigma):
    """-log of the acceptance, added to |k|/t, is k²/(2σ²) and a constant: the identity behind the rejection."""
    t = int(sigma) + 1

    def gamma(k):
        return (abs(k) - sigma * sigma / t) ** 2 / (2 * sigma * sigma)

    constant = gamma(0)
    for k in (0, 1, -1, 2, -5, 1000, 10**9):
        assert gamma(k) >= 0
        assert gamma(k) + Fraction(abs(k), t) == Fraction(k * k) / (2 * sigma * sigma) + constant


@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.5, 40.25, 1e6 / 3, 2.0**33 + 0.5, 2.0**45 * 1.1])
@every("deviations", [0, 0.4, 1, 2.5, 6])
def test_gaussian_acceptance_is_exact(sigma, deviations):
    exact = Fraction(sigma)
    t = int(sigma) + 1
    k = int(deviations * sigma)
    gamma = (k - exact * exact / t) ** 2 / (2 * exact * exact)
    if t <= _samplers._DIRECT:
        # A word in the middle of those whose magnitude is k.
        upper = laplace_tail(t, k) if k else Fraction(1)
        candidate = [floor((upper + laplace_tail(t, k + 1)) / 2, 63)]
    else:
        m = (t >> 20).bit_length() - 1
        high, low = k >> m, k & (2**m - 1)
        middle = (exp(Fraction(2**m * high, t)) + exp(Fraction(2**m * (high + 1), t))) / 2
        candidate = [floor(middle, 63), low << (64 - m)]
    p = exp(gamma)
    tie = floor(p, 53)
    for x in {0, tie // 2, tie - 5, tie - 1, tie, tie + 1, tie + 5, 2**53 - 1}:
        if not 0 <= x < 2**53:
            continue
        digits = next_digits(p, 53, 64)
        for further, below in [(digits - 1, True), (digits + 1, False)]:
            if not 0 <= further < 2**64:
                continue
            source = ScriptedSource([*candidate, x << 11], [further] if x == tie else [])
            values = _samplers._gaussian_block(exact, 1, source)
            accepted = x < tie or (x == tie and below)
            assert values.tolist() == ([k] if accepted else [])
            assert source.used_up


@pytest.mark.parametrize("random_state", SOURCES)
@pytest.mark.parametrize("sigma", [0.25, 0.5, 1, 3.3, 50])
def test_gaussian_chi_square(sigma, random_state):
    draws = integer_noise("gaussian", sigma, 200_000, bit_source(random_state))
    reach = int(9 * sigma) + 3
    assert pooled(draws, integer_law(lambda k: 0.5 * (k / sigma) ** 2, reach), -reach) > P_FALSE


@pytest.mark.parametrize("random_state", SOURCES)
@pytest.mark.parametrize("sigma", [1e5, 2.0**33, 2.0**45])
def test_large_gaussian_scales(sigma, random_state):
    draws = integer_noise("gaussian", sigma, 200_000, bit_source(random_state))
    assert stats.kstest(draws / sigma, "norm").pvalue > P_FALSE
    assert pooled(draws % 64, np.full(64, 1 / 64), 0) > P_FALSE


# --- beside OpenDP ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.4, 6.0])
def test_same_law_as_opendp(kind, scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    make, metric = {
        "laplace": (dp.m.make_laplace, dp.l1_distance(T="i64")),
        "gaussian": (dp.m.make_gaussian, dp.l2_distance(T="i64")),
    }[kind]
    measure = make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)
    theirs = np.asarray(measure(np.zeros(30_000, dtype=np.int64)))
    ours = integer_noise(kind, scale, 300_000, bit_source(None))
    reach = int(4 * scale)
    counts = [np.bincount(np.clip(draws, -reach, reach) + reach) for draws in (theirs, ours)]
    table = np.array([np.pad(count, (0, 2 * reach + 1 - count.size)) for count in counts])
    assert stats.chi2_contingency(table[:, table.sum(axis=0) >= 100]).pvalue > P_FALSE


# --- the rest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [partial(integer_noise, kind) for kind in ("laplace", "gaussian")])
def test_sizes_and_reproducibility(draw):
    for size in (0, 1, 5, _samplers._BLOCK, _samplers._BLOCK + 1, 50_000):
        values = draw(3.5, size, bit_source(1))
        assert values.shape == (size,) and values.dtype == np.int64
    np.testing.assert_array_equal(draw(3.5, 999, bit_source(1)), draw(3.5, 999, bit_source(1)))
    # A float is the rational that it is: 0.1 and 1/10 are different scales, 0.5 and 1/2 the same.
    np.testing.assert_array_equal(draw(0.5, 99, bit_source(1)), draw(Fraction(1, 2), 99, bit_source(1)))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_bad_scales_and_sizes(kind):
    for bad in (0, -1, math.nan, math.inf, 2.0**-21, 2.0**53, "x"):
        with pytest.raises(ValueError, match="scale must"):
            integer_noise(kind, bad, 1, bit_source(0))
    with pytest.raises(ValueError, match="size must"):
        integer_noise(kind, 1.0, -1, bit_source(0))


def test_bad_kind():
    with pytest.raises(ValueError, match="kind must be"):
        integer_noise("cauchy", 1.0, 1, bit_source(0))


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**52])
def test_extreme_scales(scale):
    for draw in (partial(integer_noise, kind) for kind in ("laplace", "gaussian")):
        values = draw(scale, 1000, bit_source(2))
        assert (np.abs(values) <= 40 * scale).all()
        assert scale > 1 or not values.any()
