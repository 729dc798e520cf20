"""K-norm noise: the law that is drawn, the theorem behind it, its float64 steps, and the attack that it must stand."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every
from helpers.scripted_bits import CONTEXT, ScriptedSource, exp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import CubicSpline

from skprivate.privacy import open_release
from skprivate.privacy.draws._metric import net_lattice
from skprivate.privacy.noise import _k_norm as k_norm
from skprivate.privacy.noise._bits import bit_source
from skprivate.privacy.noise._samplers import below, discrete_gaussians, enclose_power_exp, enclose_product


def draw(rows, norm, epsilon):
    opened = open_release(epsilon=epsilon, unit="row", adjacency="metric", metric=norm)
    return opened.k_norm(rows, norm=norm, epsilon=epsilon)


def fine_radii(noise, step):
    """Fractional part of the ℓ2 norm in steps, from integers."""
    squares = (sum(int(k) ** 2 for k in row) for row in noise / step)
    return np.array([(math.isqrt(s << 40) & (2**20 - 1)) / 2**20 for s in squares])


@pytest.mark.parametrize(("d", "n"), [(2, 8000), (7, 8000), (20, 8000), (100, 4000)])
@pytest.mark.parametrize("epsilon", [0.01, 1e-4])
def test_lengths_do_not_tell_rows_apart_below_the_lattice(d, n, epsilon):
    # Noise on spheres of integer radius shows at the true row: cos(2π|y − x|/step) > 0 in 60 % of the draws, in 50 %
    # for another row. Metric privacy allows a difference of tanh(ε/2) at distance 1. Five standard errors of the
    # difference are passed with probability below 6e-7, in each of 8 cases.
    x, other = np.zeros((n, d)), np.zeros((n, d))
    other[:, 0] = 1.0
    near, far = draw(x, "l2", epsilon), draw(other, "l2", epsilon)
    step = 2.0 ** min(math.frexp(value)[1] - 53 for value in np.abs(near).ravel() if value)
    while np.all(near / (2 * step) == np.rint(near / (2 * step))):
        step *= 2
    hits = [float((np.cos(2 * np.pi * fine_radii(y, step)) > 0).mean()) for y in (near, far)]
    assert abs(hits[0] - hits[1]) < math.tanh(epsilon / 2) + 5 * math.sqrt(0.5 / n)


def mixture(squares, d, scale):
    """P(z) up to a factor by quadrature over standard deviations, for squared lengths ``squares``."""
    s = float(scale)
    # m = N·u with s = N/(√d·2^b): σ = s·√d·u. Four lattice steps are the least deviation.
    u = np.linspace(4.0 / (s * math.sqrt(d)), 12.0, 6001)
    sigma = s * math.sqrt(d) * u
    k = np.arange(-300, 301)[:, None]
    theta = np.exp(-(k**2) / (2 * np.minimum(sigma, 30.0) ** 2)).sum(axis=0)
    theta = np.where(sigma > 30.0, sigma * math.sqrt(2 * math.pi), theta)
    log_weight = d * np.log(u) - d * u**2 / 2 - d * np.log(theta)
    r = np.linspace(0.0, math.sqrt(max(squares)), 1500)
    density = np.exp(log_weight - log_weight.max() - r[:, None] ** 2 / (2 * sigma**2))
    return np.exp(CubicSpline(r, np.log(np.trapezoid(density, u, axis=1)))(np.sqrt(squares)))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "scale"), [(2, Fraction(8)), (2, Fraction(16)), (3, Fraction(17, 2))])
def test_ball_noise_has_the_law_of_the_theorem(d, scale):
    # Single cells around the origin, and spheres: chi-square at level 1e-7.
    n = 400_000
    points = k_norm.k_norm_noise(n, d, "l2", scale, bit_source(None))
    reach = int(40 * scale) if d == 2 else int(25 * scale)
    axis = np.arange(-reach, reach + 1) ** 2
    table = np.zeros(reach**2 + 1)
    squares = axis
    for _ in range(d - 1):
        squares = np.add.outer(squares, axis).ravel()
        squares = squares[squares <= reach**2]
    counts = np.bincount(squares, minlength=table.size)
    present = np.flatnonzero(counts)
    law = mixture(present, d, scale)
    total = (law * counts[present]).sum()
    # Every point with coordinates −1, 0, 1 …
    box = np.array(list(itertools.product([-1, 0, 1], repeat=d)))
    seen = np.array([(points == cell).all(axis=1).sum() for cell in box])
    probability = dict(zip(present.tolist(), (law / total).tolist(), strict=True))
    expected = np.array([probability[int((cell**2).sum())] for cell in box]) * n
    seen, expected = np.append(seen, n - seen.sum()), np.append(expected, n - expected.sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-7
    # … and shells of about one per cent each.
    length = (points**2).sum(axis=1)
    share = np.cumsum(law / total * counts[present])
    edges = np.unique(present[np.searchsorted(share, np.linspace(0, 1, 101)[1:-1])])
    seen = np.bincount(np.searchsorted(edges, length, side="left"), minlength=edges.size + 1)
    upto = share[np.searchsorted(present, edges)]
    expected = np.diff(np.concatenate([[0.0], upto, [1.0]])) * n
    assert stats.chisquare(seen, expected).pvalue > 1e-7
    # It is the K-norm law but for what lies within some steps of the origin.
    middle = (present > (2 * scale) ** 2) & (present < (8 * scale) ** 2)
    slope = np.diff(np.log(law[middle])) / np.diff(np.sqrt(present[middle]))
    np.testing.assert_allclose(slope, -1 / float(scale), rtol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("least", "tau"), [(100, 200.0), (100, 1000.0), (1000, 2500.0)])
def test_slope_of_the_mixture_is_bounded_as_proved(least, tau):
    # −d log P/db for sums Σ_{m ≥ n₀} e^{−m²/2τ² − b²/2m²}: at most (1 + 10/n₀)/τ for every b.
    m = np.arange(least, int(60 * tau), dtype=float)
    b = np.concatenate([[0.0], np.geomspace(1e-3, 1e3 * tau, 400)])[:, None]
    exponent = -(m**2) / (2 * tau**2) - b**2 / (2 * m**2)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    slope = b[:, 0] * (weight / m**2).sum(axis=1) / weight.sum(axis=1)
    assert slope.max() <= (1 + 10 / least) / tau
    assert slope.max() >= (1 - 1e-4) / tau  # the noise is not wider than it need be


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("d", [2, 3])
def test_cells_of_small_lattices(norm, d):
    n, scale = 200_000, Fraction(3, 2)
    points = k_norm.k_norm_noise(n, d, norm, scale, bit_source(None))
    grid = np.array(list(itertools.product(range(-30, 31), repeat=d)))
    length = np.abs(grid).sum(axis=1) if norm == "l1" else np.abs(grid).max(axis=1)
    law = np.exp(-length / 1.5)
    law /= law.sum()
    box = np.abs(grid).max(axis=1) <= 2
    expected = law[box] * n
    seen = np.array([(points == cell).all(axis=1).sum() for cell in grid[box]])
    seen, expected = np.append(seen, n - seen.sum()), np.append(expected, n - expected.sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-7


def test_gaussians_of_many_deviations():
    n = 100_000
    for unit_bits, multiple in ((3, 6), (3, 29), (5, 1300), (0, 300)):
        sigma = multiple / 2**unit_bits
        multiples = np.full(n, multiple)
        multiples[::2] = 5 * multiple  # each lane has its own deviation
        drawn = discrete_gaussians(multiples, unit_bits, 2, bit_source(None))[1::2].ravel()
        k = np.arange(-int(12 * sigma) - 1, int(12 * sigma) + 2)
        law = np.exp(-(k**2) / (2 * sigma**2))
        law /= law.sum()
        group = np.clip(np.rint(k / max(1.0, sigma / 9)), -27, 27).astype(int) + 27
        seen = np.bincount(group[drawn - k[0]], minlength=55)
        expected = np.bincount(group, weights=law, minlength=55) * drawn.size
        used = expected > 5
        assert stats.chisquare(
            np.append(seen[used], seen[~used].sum() + 1), np.append(expected[used], expected[~used].sum() + 1),
            sum_check=False,
        ).pvalue > 1e-7  # fmt: skip


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize(("d", "n"), [(1, 20_000), (2, 20_000), (5, 10_000), (40, 3000), (300, 600)])
def test_radius_is_gamma_in_every_dimension(norm, d, n):
    noise = draw(np.zeros((n, d)), norm, 2.0)
    radius = np.linalg.norm(noise, {"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=1)
    assert stats.kstest(radius, stats.gamma(d, scale=0.5).cdf).pvalue > 1e-7
    assert stats.ks_2samp(noise[: n // 2, 0], -noise[n // 2 :, -1]).pvalue > 1e-7


def test_cubes_of_many_dimensions():
    # With ε = 1 the half-width is d ± √d; widths above 2^62 steps once made it one-sided.
    d = 150_000
    noise = draw(np.zeros((1, d)), "linf", 1.0)[0]
    assert abs(np.abs(noise).max() - d) < 8 * math.sqrt(d)
    assert stats.kstest(noise, stats.uniform(-d, 2 * d).cdf).statistic < 0.03
    opened = open_release(epsilon=1.0, unit="row", adjacency="metric", metric="linf")
    with pytest.raises(ValueError, match="at most 262144 columns"):
        opened.k_norm(np.zeros((1, 2**18 + 1)), norm="linf", epsilon=1.0)
    assert opened.close().events == ()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@every("d", [1, 2, 3, 7, 300, 65_537, 2**18])
@every("epsilon", [2.0**-900, 1e-5, 0.3, 1.0, 7.0, 2.0**900])
def test_lattice_pays_for_its_rounding(norm, d, epsilon):
    step, scale = k_norm.norm_lattice(norm, d, epsilon)
    g, e = Fraction(step), Fraction(epsilon)
    cell = k_norm.cell_diameter(norm, d)
    assert cell >= {"l1": d, "l2": math.sqrt(d), "linf": 1}[norm]
    assert cell * g * e <= Fraction(1, 2**32)
    slope = (1 + Fraction(1, 2**26)) / scale
    rho = Fraction(1, 2**11) / e
    assert (rho / g + cell) * slope <= e * rho  # and then for every larger distance
    # Draws of many times their usual size stay in int64, and scales in what the samplers take.
    assert scale * {"l1": 1, "l2": cell, "linf": d}[norm] <= 2**58 and scale < 2**52
    if norm == "l2":
        assert 8 <= scale < 2**49


def test_float64_bounds_hold_the_probabilities(monkeypatch):
    # Every coin is decided between bounds that contain its probability; 200 digits say what that is.
    checked = []

    def spy(low, high, enclosure, source):
        for lane in {*range(min(low.size, 60)), int(np.argmin(low)), int(np.argmax(high - low))} if low.size else ():
            ends = [Fraction(end, 2**200) for end in enclosure(lane, 200)]
            assert Fraction(float(low[lane])) * (1 - Fraction(1, 2**49)) <= ends[1]
            assert Fraction(float(high[lane])) * (1 + Fraction(1, 2**49)) + Fraction(1, 2**1000) >= ends[0]
            checked.append(float(high[lane] - low[lane]))
        return np.ones(low.size, dtype=bool)

    monkeypatch.setattr(k_norm, "_accept", spy)
    for d in (2, 7, 300, 2**18):
        mode = k_norm._root_above(Fraction(2**100 * d))
        k_norm._chi_candidates(2000, d, mode, 2**30, bit_source(None))
    for d, radii in ((2, 2**40), (9, 50), (300, 2**20), (400, 10**6)):
        k_norm._accept_radii(np.array([radii, 0, 3, 17, 10**4]), d, bit_source(None))
    assert len(checked) > 200 and max(checked[:200]) < 1e-9


@settings(deadline=None, max_examples=60)
@given(st.integers(-1000, 1000), st.integers(1, 400), st.integers(60, 300))
def test_enclosures(k, power, bits):
    ratio = Fraction(1001 + k, 1001)
    gamma = Fraction(power * k, 1001) + Fraction(1, 7)
    low, high = enclose_power_exp(ratio, power, gamma, bits)
    value = CONTEXT.subtract(CONTEXT.ln(Decimal(ratio.numerator)), CONTEXT.ln(Decimal(ratio.denominator)))
    value = Fraction(value) * power - gamma
    exact = exp(-value) * 2**bits if value > -bits else Fraction(1, 2)
    assert low <= exact <= high and high - low <= 3
    low, high = enclose_product(7, range(7, 7 + power), bits)
    exact = Fraction(7**power * math.factorial(6), math.factorial(6 + power)) * 2**bits
    assert low <= exact <= high and high - low <= 3


def test_ties_take_further_digits():
    half = ScriptedSource(further=[0])
    assert not below(1, 1, lambda bits: (1 << bits - 1, 1 << bits - 1), half)
    third = [2**64 // 3 + 1]  # the next digits of 1/3 are at most this: 0101…
    assert not below(1, 2, lambda bits: (2**bits // 3, 2**bits // 3 + 1), ScriptedSource(further=third))
    assert below(1, 2, lambda bits: (2**bits // 3, 2**bits // 3 + 1), ScriptedSource(further=[2**64 // 3 - 1]))


@settings(deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70).map(float),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.integers(-940, 900) | st.just(0),
)
@example(2.0**66, 12345, 0)
@example(2.0**61, 2**62 + 1, 0)
def test_sums_are_rounded_once(value, noise, exponent):
    step = 2.0**exponent
    got = k_norm.add_on_lattice(np.array([[value]]), np.array([[noise]]), step)[0, 0]
    total = (round(Fraction(value) / Fraction(step)) + noise) * Fraction(step)
    if abs(total) < Fraction(2) ** 1023:
        assert got == float(total)
    else:
        assert abs(got) >= 2.0**1023


@pytest.mark.parametrize("norm", k_norm.NORMS)
@every("d", [1, 2, 4, 8, 100])
def test_rounding_to_a_net_lattice_costs_what_theorem_6_allows(norm, d):
    """Two rows move by 5/4 of a step along each axis, which is 2⁻³²/ε at most, also just below a power of two."""
    for epsilon in (1.0, math.nextafter(1.0, 0), 0.75, 0.1):
        step = net_lattice(norm, np.zeros(d), np.full(d, 1e-3), epsilon).step
        moved = Fraction(5, 4) * k_norm.cell_diameter(norm, d) * Fraction(step)
        assert moved * Fraction(epsilon) <= Fraction(1, 2**32)


def test_balls_are_drawn_at_scales_from_8_to_below_the_lattices_end():
    for scale in (Fraction(8), Fraction(2**49) - 1):
        assert k_norm.k_norm_noise(2, 3, "l2", scale, bit_source(0)).shape == (2, 3)
    for scale in (Fraction(8) - Fraction(1, 2**60), Fraction(2**49)):
        with pytest.raises(ValueError, match="scale must be between 8"):
            k_norm.k_norm_noise(2, 3, "l2", scale, bit_source(0))
