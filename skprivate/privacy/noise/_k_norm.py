"""K-norm noise on a lattice: P(z) ∝ exp(−‖z‖/scale) for whole vectors z.

For ℓ1 and ℓ∞ the law is drawn exactly. For ℓ2 the draw is a mixture of discrete Gaussian laws whose log-probability
is a function of ‖z‖ with a slope of at most (1 + 2⁻²⁶)/scale. Rows are rounded to a public lattice. The proofs and the
cost of rounding are in docs/theory/metric.md (Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy import _contributions
from skprivate.privacy._contributions import FloatArray, IntArray, Lattice
from skprivate.privacy.noise import _samplers
from skprivate.privacy.noise._bits import BitSource

Norm: TypeAlias = Literal["l1", "l2", "linf"]

NORMS: tuple[Norm, ...] = ("l1", "l2", "linf")
MAX_DIMENSION = 2**18
#: Noise is this much wider than 1/ε: it pays for rounding to the lattice at distances above 2⁻¹¹/ε.
ROUNDED = 1 + Fraction(1, 2**20)
# The lattice is this much finer than the noise (a power of two), and than the diameter of a cell as long as there
# are bits for it, with as much as the second number left of it in the highest dimension.
_FINE_BITS, _LEAST_FINE_BITS = 40, 32
# Standard deviations of the mixture are multiples of a unit that makes the scale about 2^50, from the least multiple
# and four lattice steps on.
_SCALE_BITS = 50
_LEAST_MULTIPLE = 2**30
_LEAST_DEVIATION = 4
_INTEGER_LIMIT = 2**61
# Coordinates drawn at a time.
_BLOCK = 1 << 16


def cell_diameter(norm: Norm, d: int) -> int:
    """Round the norm of (1, …, 1) up to an integer."""
    return {"l1": d, "l2": math.isqrt(d - 1) + 1, "linf": 1}[norm]


def norm_lattice(norm: Norm, d: int, epsilon: float) -> Lattice:
    """Compute step g and scale (1 + 2⁻²⁰)/(ε·g): a cell has a diameter of at most 2⁻³²/ε."""
    if d > MAX_DIMENSION:
        raise ValueError(f"rows must have at most {MAX_DIMENSION} columns for K-norm noise, got {d}.")
    cell = (cell_diameter(norm, d) - 1).bit_length()
    # Draws of ten times their usual size stay below 2^58 steps.
    room = {"l1": 50, "l2": 52 - cell, "linf": 56 - d.bit_length()}[norm]
    bits = min(_FINE_BITS + cell, room)
    assert bits - cell >= _LEAST_FINE_BITS
    step = lattice_step(epsilon, bits)
    return Lattice(step, ROUNDED / (_contributions.rational(epsilon) * Fraction(step)))


def lattice_step(epsilon: float, bits: int) -> float:
    """Compute the largest power of two up to 2^-bits/ε."""
    if not 2.0**-900 <= epsilon <= 2.0**900:
        raise ValueError(f"epsilon must be between 2**-900 and 2**900, got {epsilon!r}.")
    return math.ldexp(1.0, -math.frexp(epsilon)[1] - bits)


def add_on_lattice(array: FloatArray, noise: IntArray, step: float) -> FloatArray:
    """Round to multiples of ``step``, add ``noise`` steps exactly, and round the sum once to float64."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.rint(array / step)
    fits = (np.abs(rounded) < _INTEGER_LIMIT) & (np.abs(noise) < _INTEGER_LIMIT)
    # int64 → float64 rounds correctly, and a power of two changes the exponent only.
    with np.errstate(over="ignore"):
        result: FloatArray = (np.where(fits, rounded, 0.0).astype(np.int64) + noise).astype(np.float64) * step
    for place in zip(*np.nonzero(~fits), strict=True):
        total = round(Fraction(float(array[place])) / Fraction(step)) + int(noise[place])
        try:
            result[place] = float(total * Fraction(step))
        except OverflowError:
            result[place] = math.copysign(math.inf, total)
    return result


def k_norm_noise(n: int, d: int, norm: Norm, scale: Fraction, source: BitSource) -> IntArray:
    """Draw ``n`` integer vectors with P(z) ∝ exp(−‖z‖/scale), for "l2" in the sense of docs/theory/metric.md.

    For "l2" with d > 1 the scale is from 8 to 2^49.
    """
    if norm == "l1" or d == 1:
        return _samplers.integer_noise("laplace", scale, (n, d), source)
    return _cube_noise(n, d, scale, source) if norm == "linf" else _ball_noise(n, d, scale, source)


def _ball_noise(n: int, d: int, scale: Fraction, source: BitSource) -> IntArray:
    """Draw from Σ_m P(m)·N_ℤ(0, σ²)^d with σ = m·2^-b and P(m) ∝ m^d·e^{-d·m²/(2N²)}, N = ⌈2^b·scale·√d⌉."""
    if not 8 <= scale < 2 ** (_SCALE_BITS - 1):
        raise ValueError(f"scale must be between 8 and 2**{_SCALE_BITS - 1}, got {float(scale):g}.")
    unit_bits = _SCALE_BITS - int(scale).bit_length()
    least = max(_LEAST_MULTIPLE, _LEAST_DEVIATION << unit_bits)
    mode = _root_above(scale**2 * 4**unit_bits * d)
    multiples = np.empty(0, dtype=np.int64)
    while multiples.size < n:
        more = _chi_candidates(math.ceil((n - multiples.size) * 1.5), d, mode, least, source)
        multiples = np.concatenate([multiples, more])
    return _samplers.discrete_gaussians(multiples[:n], unit_bits, d, source)


def _root_above(square: Fraction) -> int:
    return math.isqrt(math.ceil(square) - 1) + 1


def _chi_candidates(size: int, d: int, mode: int, least: int, source: BitSource) -> IntArray:
    """Draw ``size`` candidates for P(m) ∝ m^d·e^{-d·m²/(2·mode²)}, m ≥ least, and keep the accepted ones.

    m = mode + k with k discrete Gaussian of deviation t ≥ mode/√d; log(1 + x) ≤ x for x = k/mode makes
    (1 + x)^d·e^{-d·x - (k²/2)·(d/mode² - 1/t²)} at most 1.
    """
    t = _root_above(Fraction(mode * mode, d))
    curvature = Fraction(d, mode * mode) - Fraction(1, t * t)
    k = _samplers.integer_noise("gaussian", t, size, source)
    k = k[k >= least - mode]
    x = k.astype(np.float64) * (1.0 / mode)
    log = np.log1p(x)
    square = k.astype(np.float64) ** 2 * (0.5 * float(curvature))
    minus_gamma = d * (log - x) - square
    # x errs by 2^-51 of itself, which log(1 + x) − x passes on by −x/(1 + x), log by four units in the last place.
    error = d * 2.0**-49 * (np.abs(x) + np.abs(log) + x * x / (1.0 + x)) + 2.0**-45 * square + 2.0**-50

    def enclosure(lane: int, bits: int) -> tuple[int, int]:
        place = int(k[lane])
        gamma = Fraction(d * place, mode) + Fraction(place * place, 2) * curvature
        return _samplers.enclose_power_exp(Fraction(mode + place, mode), d, gamma, bits)

    low = np.exp(np.minimum(minus_gamma - error, 0.0))
    high = np.exp(np.minimum(minus_gamma + error, 0.0))
    return k[_accept(low, high, enclosure, source)] + mode


def _accept(
    low: FloatArray, high: FloatArray, enclosure: Callable[[int, int], tuple[int, int]], source: BitSource
) -> NDArray[np.bool_]:
    """Draw exact Bernoulli variables whose probabilities are between ``low`` and ``high`` up to 2^-49 of themselves.

    ``enclosure(lane, bits)`` encloses 2^bits times the probability of a lane.
    """
    digits = (source.words(low.size) >> np.uint64(11)).view(np.int64)
    accept: NDArray[np.bool_] = digits + 1 <= low * (2.0**53 * (1.0 - 2.0**-48))
    unsure = ~accept & (digits < high * (2.0**53 * (1.0 + 2.0**-48)))
    for lane in np.flatnonzero(unsure).tolist():

        def of_lane(bits: int, lane: int = lane) -> tuple[int, int]:
            return enclosure(lane, bits)

        accept[lane] = _samplers.below(int(digits[lane]), 53, of_lane, source)
    return accept


def _cube_noise(n: int, d: int, scale: Fraction, source: BitSource) -> IntArray:
    """Draw P(z) ∝ exp(−max|z_i| / scale): a uniform point of a cube of random half-width R.

    Σ_{R ≥ ‖z‖} e^{−R/scale} ∝ e^{−‖z‖/scale}, so P(R) ∝ (2R + 1)^d e^{−R/scale} is what R needs: the sum of d + 1
    geometric variables has C(R + d, d) in the place of (2R + 1)^d and is accepted with probability
    ∏ (R + ½)/(R + i), which is nearly one on a fine lattice.
    """
    radii = np.empty(0, dtype=np.int64)
    while radii.size < n:
        missing = n - radii.size
        draws = _geometric(scale, missing * (d + 1), source).reshape(missing, d + 1).sum(axis=1)
        radii = np.concatenate([radii, draws[_accept_radii(draws, d, source)]])
    points = np.empty((n, d), dtype=np.int64)
    block = max(1, _BLOCK // d)
    for start in range(0, n, block):
        radius = np.repeat(radii[start : start + block], d)
        points[start : start + block] = (_uniform_below(2 * radius + 1, source) - radius).reshape(-1, d)
    return points


def _accept_radii(radii: IntArray, d: int, source: BitSource) -> NDArray[np.bool_]:
    # 1 − Σ (i − ½)/(R + i) ≥ 1 − d²/(2R + 2) settles almost all lanes of a fine lattice.
    low = np.maximum(1.0 - d * d / (2.0 * radii + 2.0) - 2.0**-50, 0.0)
    high = np.ones(radii.size)
    coarse = np.flatnonzero(low < 0.999)
    if coarse.size:
        half = radii[coarse] + 0.5
        product = np.ones(coarse.size)
        for i in range(1, d + 1):
            product *= half / (half + (i - 0.5))
        low[coarse] = product * (1.0 - d * 2.0**-50)
        high[coarse] = product * (1.0 + d * 2.0**-50)

    def enclosure(lane: int, bits: int) -> tuple[int, int]:
        twice = 2 * int(radii[lane])
        return _samplers.enclose_product(twice + 1, range(twice + 2, twice + 2 * d + 1, 2), bits)

    return _accept(low, high, enclosure, source)


def _geometric(scale: Fraction, size: int, source: BitSource) -> IntArray:
    """Draw P(k) ∝ exp(−k / scale), k ≥ 0."""
    result = np.empty(0, dtype=np.int64)
    while result.size < size:
        draws = _samplers.integer_noise("laplace", scale, size - result.size, source)
        # Given that it is not zero, |X| − 1 is geometric.
        result = np.concatenate([result, np.abs(draws[draws != 0]) - 1])
    return result


def _uniform_below(widths: IntArray, source: BitSource) -> IntArray:
    """Draw exactly uniform integers below each of ``widths`` (< 2⁶²), by rejection."""
    if widths.size and not (widths.min() >= 1 and widths.max() < 2**62):
        raise ValueError("widths must be between 1 and 2**62.")
    result = np.zeros(widths.shape, dtype=np.int64)
    # 2^bits > width, whichever way the logarithm was rounded.
    shift = np.uint64(64) - np.frexp(widths.astype(np.float64))[1].astype(np.uint64)
    waiting = np.arange(widths.size)
    while waiting.size:
        words = (source.words(waiting.size) >> shift[waiting]).view(np.int64)
        done = words < widths[waiting]
        result[waiting[done]] = words[done]
        waiting = waiting[~done]
    return result
