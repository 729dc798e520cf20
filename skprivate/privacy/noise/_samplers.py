"""Exact integer samplers on random bits.

A uniform real number X of [0, 1) is known through its first ``bits`` binary digits ``prefix``, that is
prefix ≤ 2^bits·X < prefix + 1. Every sampler inverts a distribution function or accepts a candidate by comparing X with
a probability. Whole blocks are decided in float64, with an error margin that float64 arithmetic provably stays within.
The few lanes that the margin leaves open are settled by `decimal` arithmetic of growing precision (correctly rounded)
and further random digits. So each law is exact: nothing is truncated. The loops end with probability 1 because e^{-γ}
is irrational for every rational γ ≠ 0.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy._contributions import IntArray, rational
from skprivate.privacy.noise._bits import BitSource

#: Decimal digits that are computed and not trusted.
_GUARD = 20
#: Lanes handled at a time: the working arrays of a block stay in the second-level cache.
_BLOCK = 1 << 15
#: Scales up to here are inverted in one step; larger ones split off their low binary digits.
_DIRECT = 2**34
#: A draw at this scale leaves int64 with probability e^-2048.
_MAX_SCALE = 2**52
_MIN_SCALE = Fraction(1, 2**20)
_MASK_63 = np.uint64(2**63 - 1)
UInt64Array = NDArray[np.uint64]


def _context(digits: int) -> decimal.Context:
    return decimal.Context(
        prec=digits + _GUARD,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def as_fraction(value: float | int | Fraction, name: str) -> Fraction:
    """Return a finite number of at least 0 as the exact rational that it is."""
    with suppress(ValueError, OverflowError, TypeError):
        if (exact := rational(value)) >= 0:
            return exact
    raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")


def exp_floor(gamma: Fraction, bits: int) -> int:
    """Return ⌊2^bits·e^{-gamma}⌋ for a rational gamma ≥ 0, exactly."""
    if gamma == 0:
        return 1 << bits
    if gamma > bits:  # 2^bits·e^{-bits} < 1
        return 0
    digits = math.ceil(0.302 * bits) + 10
    while True:
        context = _context(digits)
        exponent = context.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator))
        value = context.multiply(context.exp(exponent), Decimal(1 << bits))
        # Relative error: (gamma + 2)·10^{-precision}; gamma ≤ bits < 10^(_GUARD - 5).
        margin = context.multiply(value, Decimal(10) ** (-digits - 4))
        low, high = int(context.subtract(value, margin)), int(context.add(value, margin))
        if low == high:
            return low
        digits *= 2


def below_exp(prefix: int, bits: int, gamma: Fraction, source: BitSource) -> bool:
    """Decide X < e^{-gamma} for X with the given first digits, drawing further digits on ties."""
    while True:
        floor = exp_floor(gamma, bits)
        if prefix < floor:
            return True
        if prefix > floor or gamma == 0:
            return False
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


def share_below_exp(prefix: int, bits: int, count: int, gamma: Fraction, source: BitSource) -> bool:
    """Decide prefix + V < 2^bits·count·e^{-gamma} for a uniform V of [0, 1), drawing its digits on ties.

    ``bits`` may be negative. With f = ⌊2^k·e^{-gamma}⌋ the number 2^k·count·e^{-gamma} is in [count·f, count·(f + 1)).
    """
    if bits < 0:
        prefix, bits = (prefix << -bits) | source.bits(-bits), 0
    while True:
        extra = count.bit_length() + 10
        while True:
            floor = exp_floor(gamma, bits + extra)
            low = count * floor >> extra
            if gamma == 0 or low == (count * (floor + 1) - 1) >> extra:
                break
            extra *= 2
        if prefix != low or gamma == 0:
            return prefix < low
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


def geometric_quantile(prefix: int, bits: int, scale: Fraction, two_sided: bool, source: BitSource) -> int:
    """Return the value whose upper tail probability X falls into, drawing further digits on ties.

    With q = e^{-1/scale}: the G with q^{G+1} ≤ X < q^G, geometric, P(G ≥ v) = q^v; or, for ``two_sided``, the
    magnitude M of the discrete Laplace law, P(M ≥ v) = 2q^v/(1+q) for v ≥ 1, that is
    M = max(0, ⌊scale·(log(2/(1+q)) − log X)⌋).
    """
    while True:
        if prefix:
            context = _context(math.ceil(0.302 * bits) + len(str(math.ceil(scale))) + 10)
            ratio = context.divide(Decimal(scale.numerator), Decimal(scale.denominator))
            shift = Decimal(0)
            if two_sided:
                q = context.exp(context.divide(Decimal(-scale.denominator), Decimal(scale.numerator)))
                shift = context.ln(context.divide(Decimal(2), context.add(Decimal(1), q)))
            ends = []
            for bound, sign in ((prefix + 1, -1), (prefix, 1)):
                log = context.ln(context.divide(Decimal(bound), Decimal(1 << bits)))
                value = context.multiply(ratio, context.subtract(shift, log))
                # Absolute error below scale·(|shift| + |log| + 3)·10^{1-precision} ≤ this margin.
                size = context.multiply(ratio, context.add(abs(log), Decimal(4)))
                margin = context.multiply(size, Decimal(10) ** (2 - context.prec))
                end = context.add(value, margin.copy_sign(Decimal(sign)))
                ends.append(max(0, int(end.to_integral_value(decimal.ROUND_FLOOR, context))))
            if ends[0] == ends[1]:
                return ends[0]
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


def below(prefix: int, bits: int, enclosure: Callable[[int], tuple[int, int]], source: BitSource) -> bool:
    """Decide X < p for X with the given first digits, drawing further digits on ties.

    ``enclosure(bits)`` returns integers around 2^bits·p, at a bounded distance from each other.
    """
    while True:
        low, high = enclosure(bits)
        if prefix < low:
            return True
        if prefix >= high:
            return False
        prefix, bits = (prefix << 64) | source.bits(64), bits + 64


def enclose_power_exp(ratio: Fraction, power: int, gamma: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits·ratio^power·e^{-gamma}, which is at most 2^bits; ``gamma`` may be negative, ``power`` < 2^30."""
    context = _context(math.ceil(0.302 * bits) + 10)
    log = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    slope = context.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    exponent = context.subtract(context.multiply(log, Decimal(power)), slope)
    if exponent < -bits:
        return 0, 1
    value = context.multiply(context.exp(exponent), Decimal(1 << bits))
    # The quotient errs by a unit of its last place, the logarithm of it by that and its own, ``power`` times; the
    # difference by what both terms do. e^x passes an absolute error on as a relative one.
    size = context.add(context.multiply(context.add(abs(log), Decimal(1)), Decimal(power)), abs(slope))
    relative = context.multiply(context.add(size, Decimal(4)), Decimal(10) ** (2 - context.prec))
    return _around(value, relative, context)


def enclose_product(numerator: int, denominators: Iterable[int], bits: int) -> tuple[int, int]:
    """Enclose 2^bits·∏ numerator/d over fewer than 2^30 denominators d, each at least ``numerator``."""
    context = _context(math.ceil(0.302 * bits) + 10)
    value = Decimal(1 << bits)
    for denominator in denominators:
        value = context.divide(context.multiply(value, Decimal(numerator)), Decimal(denominator))
    # Three roundings for each factor, each of a unit of the last place.
    return _around(value, Decimal(10) ** (14 - context.prec), context)


def _around(value: Decimal, relative: Decimal, context: decimal.Context) -> tuple[int, int]:
    margin = context.multiply(value, relative)
    return int(context.subtract(value, margin)), int(context.add(value, margin)) + 1


def drawable(scale: Fraction) -> Fraction:
    """Refuse noise too wide to draw, before it is paid for; widen noise that is not 0 with probability e^-1048576."""
    if scale > _MAX_SCALE:
        raise ValueError(
            f"the noise would have scale {_about(scale)} in lattice steps; allowed is up to 2**52. Use a "
            "larger epsilon or a coarser unit."
        )
    return max(scale, _MIN_SCALE)


def _about(scale: Fraction) -> str:
    bits = scale.numerator.bit_length() - scale.denominator.bit_length()
    return f"{float(scale):.3g}" if abs(bits) < 1000 else f"2**{bits}"


def _quantiles(words: UInt64Array, scale: Fraction, two_sided: bool, source: BitSource) -> IntArray:
    """Invert the upper tail at the X whose first 63 binary digits are those of ``words``, as `geometric_quantile` does.

    The result is ⌊y⌋, y = s·(shift − log X). What float64 makes of y errs by less than

        s·(2^-51 + 2^-49·shift + 2^-62/X + 3·2^-51·|log X|):

    2^-52 come from rounding 63 digits to 53, 2^-64/X from the digits not drawn, 4 units in the last place from
    log, 2^-50·shift from shift, and one unit from each operation.
    """
    s = float(scale)
    shift = -math.log1p(0.5 * math.expm1(-1.0 / s)) if two_sided else 0.0
    x = (words & _MASK_63).view(np.int64).astype(np.float64)
    x += 0.5
    x *= 2.0**-63
    y = np.log(x)
    y -= shift
    y *= -s
    result = np.floor(y)
    values: IntArray = result.astype(np.int64)
    result -= y
    result += 0.5
    distance = np.abs(result, out=result)  # from the middle of the unit interval, up to 2^-53
    # For X ≥ 2^-10 the error is below 2^-45·s; the other lanes are looked at again one by one.
    undecided = distance >= 0.5 - 2.0**-52 - 2.0**-45 * s
    undecided |= x < 2.0**-10
    lanes = np.flatnonzero(undecided)
    if lanes.size:
        x = x[lanes]
        margin = s * (2.0**-51 + 2.0**-49 * shift + 2.0**-62 / x - 3.0 * 2.0**-51 * np.log(x))
        near = (distance[lanes] >= 0.5 - 2.0**-52 - margin) | (x < 2.0**-63)
        for lane in lanes[near].tolist():
            prefix = int(words[lane]) & (2**63 - 1)
            values[lane] = geometric_quantile(prefix, 63, scale, two_sided, source)
    return values


def _bernoulli_exp(
    minus_gamma: NDArray[np.float64], margin: float, exact: Callable[[int], Fraction], source: BitSource
) -> NDArray[np.bool_]:
    """Draw exact Bernoulli(e^{-γ}) variables.

    ``minus_gamma`` (overwritten) holds -γ up to the absolute error ``margin`` (at most 1), at least where γ ≤ 100;
    ``exact(i)`` is the γ of lane i.
    """
    digits = source.words(minus_gamma.size) >> np.uint64(11)
    x = digits.view(np.int64).astype(np.float64)
    p = np.exp(minus_gamma, out=minus_gamma)
    p *= 2.0**53
    # X lies in [x, x + 1)·2^-53. e^m - 1 ≤ 2m for m ≤ 1, exp is good to 4 units in the last place, and p ≤ 2^53.
    slack = 2.0**53 * (2.0 * margin + 2.0**-48) + 1.0
    p -= x
    accept: NDArray[np.bool_] = p >= slack
    for lane in np.flatnonzero((p > -slack) ^ accept).tolist():
        accept[lane] = below_exp(int(digits[lane]), 53, exact(lane), source)
    return accept


def _signed(values: IntArray, words: UInt64Array) -> IntArray:
    """Negate ``values`` where the first bit of ``words`` is set, in place."""
    minus: IntArray = words.view(np.int64) >> 63
    values ^= minus
    values -= minus
    return values


@lru_cache(maxsize=64)
def _split(scale: Fraction) -> tuple[int, int]:
    """Return the number m of low digits split off a large scale, and ⌊2^(64-m)·e^{-2^m/scale}⌋."""
    m = (int(scale) >> 20).bit_length() - 1
    return m, exp_floor(2**m / scale, 64 - m)


def _laplace_block(scale: Fraction, size: int, source: BitSource) -> IntArray:
    """Draw at most ``size`` discrete Laplace numbers (fewer where a candidate was rejected)."""
    words = source.words(size)
    if scale <= _DIRECT:
        return _signed(_quantiles(words, scale, True, source), words)
    # G = 2^m·H + L with H geometric for the scale s/2^m and P(L) ∝ e^{-L/s} on 0, …, 2^m - 1, independent. L is
    # uniform, accepted with probability e^{-L/s} ≥ e^{-2^m/s} > 1 - 2^-20.
    m, surely = _split(scale)
    values = _quantiles(words, scale / 2**m, False, source)
    rest = source.words(size)
    low = (rest >> np.uint64(64 - m)).view(np.int64)
    values <<= m
    values += low
    rest = rest & np.uint64(2 ** (64 - m) - 1)
    accept = (words.view(np.int64) >= 0) | (values != 0)  # zero has one sign
    for lane in np.flatnonzero(rest >= surely).tolist():
        accept[lane] &= below_exp(int(rest[lane]), 64 - m, int(low[lane]) / scale, source)
    return _signed(values, words).compress(accept)


def _gaussian_block(sigma: Fraction, size: int, source: BitSource) -> IntArray:
    """Draw ``size`` discrete Laplace candidates, and keep those accepted for the discrete Gaussian law."""
    t = int(sigma) + 1
    candidates = _laplace_block(Fraction(t), size, source)
    centre = sigma * sigma / t
    z = np.abs(candidates).astype(np.float64)
    z -= float(centre)
    z *= 1.0 / float(sigma)
    # z errs by less than 2^-50·(|z| + 2), hence γ = z²/2 by less than 2^-49·(|z| + 2)² ≤ 2^-36 for |z| ≤ 88. Beyond,
    # e^{-γ} is below 2^-53 whatever the error.
    z *= z
    z *= -0.5

    def exact(lane: int) -> Fraction:
        return (abs(int(candidates[lane])) - centre) ** 2 / (2 * sigma * sigma)

    return candidates.compress(_bernoulli_exp(z, 2.0**-36, exact, source))


def _multiply_shift(words: UInt64Array, widths: UInt64Array) -> tuple[IntArray, NDArray[np.bool_]]:
    """Map the upper halves of words to integers below each width ≤ 2^32: uniform if accepted (Lemire 2019).

    The upper half of 32 bits times the width is uniform below the width, given that the lower half is not among the
    first 2^32 mod width values.
    """
    scaled = (words >> np.uint64(32)) * widths
    accepted = (scaled & np.uint64(2**32 - 1)) >= (np.uint64(2**32) - widths) % widths
    return (scaled >> np.uint64(32)).view(np.int64), accepted


def discrete_gaussians(multiples: IntArray, unit_bits: int, columns: int, source: BitSource) -> IntArray:
    """Draw ``columns`` discrete Gaussian numbers for each deviation σ = multiple·2^-unit_bits < 2^60.

    Rejection from cells of ℓ = ⌈σ/t⌉ neighbours, t a power of two: the number w of the cell is geometric,
    P(w) ∝ e^{-w/t}, the place in it uniform, and k = ℓw + place on the one side of zero, one more on the other. As
    k ≥ wσ/t, k²/(2σ²) exceeds w/t - 1/2 by at least (w/t - 1)²/2: the difference is the γ of the test.
    """
    largest = int(multiples.max(initial=1)) >> unit_bits
    if largest >= 2**60:
        raise ValueError("multiples must stay below 2**60 units of 2**unit_bits.")
    t_bits = largest.bit_length() // 2
    t = 1 << t_bits
    # ⌈σ/t⌉ ≤ 2^31
    cell = (-(-multiples >> min(unit_bits + t_bits, 63))).astype(np.uint64)
    sigma = np.ldexp(multiples.astype(np.float64), -unit_bits)
    result = np.empty(multiples.size * columns, dtype=np.int64)
    waiting, start = np.empty(0, dtype=np.int64), 0
    while start < result.size or waiting.size:
        stop = min(result.size, start + _BLOCK - waiting.size)
        lanes = np.concatenate([waiting, np.arange(start, stop)])
        start, rows = stop, lanes // columns
        words = source.words(lanes.size)
        w = _quantiles(words, Fraction(t), False, source)
        place, even = _multiply_shift(source.words(lanes.size), cell[rows])
        values = w * cell[rows].view(np.int64) + place
        minus = words.view(np.int64) >> 63
        values -= minus
        # γ ≤ 100 has w/t ≤ 16 and k²/(2σ²) ≤ 116, which errs by less than 2^-50 of itself.
        z = values / sigma[rows]
        z *= z
        z *= -0.5
        z += w * (1.0 / t) - 0.5

        def exact(lane: int, values=values, rows=rows, w=w) -> Fraction:  # type: ignore[no-untyped-def]
            square = Fraction(int(values[lane]) << unit_bits, int(multiples[rows[lane]])) ** 2
            return square / 2 - Fraction(int(w[lane]), t) + Fraction(1, 2)

        accept = _bernoulli_exp(z, 2.0**-40, exact, source)
        accept &= even
        values ^= minus
        values -= minus
        result[lanes[accept]] = values[accept]
        waiting = lanes[~accept]
    return result.reshape(multiples.size, columns)


def integer_noise(kind: str, scale: float | int | Fraction, size: int | tuple[int, ...], source: BitSource) -> IntArray:
    """Draw integers of a shape from a law of the given scale, exactly; the scale is from 2**-20 to 2**52.

    "laplace" is the discrete Laplace law, P(k) ∝ exp(−|k|/scale), "gaussian" the discrete Gaussian law,
    P(k) ∝ exp(−k²/(2·scale²)), by rejection from the former of scale ⌊scale⌋ + 1 (Canonne, Kamath and Steinke 2020,
    Algorithm 3).
    """
    if kind not in ("laplace", "gaussian"):
        raise ValueError(f"kind must be 'laplace' or 'gaussian', got {kind!r}.")
    exact = as_fraction(scale, "scale")
    if not _MIN_SCALE <= exact <= _MAX_SCALE:
        raise ValueError(f"scale must be between 2**-20 and 2**52, got {scale!r}.")
    missing = math.prod(size) if isinstance(size, tuple) else size
    if missing < 0:
        raise ValueError(f"size must be an integer >= 0, got {size!r}.")
    # Candidates for each missing number, and how a block of them is drawn.
    surplus, block = (1.0, _laplace_block) if kind == "laplace" else (1.5, _gaussian_block)
    result = np.empty(missing, dtype=np.int64)
    while missing:
        values = block(exact, min(_BLOCK, math.ceil(missing * surplus)), source)[:missing]
        start = result.size - missing
        result[start : start + values.size] = values
        missing -= values.size
    return result.reshape(size)
