"""Exact comparisons of a lazily drawn uniform number with exponentials and logarithms.

A uniform real number X of [0, 1) is known through its first ``bits`` binary digits ``prefix``, that is
prefix ≤ 2^bits·X < prefix + 1. The samplers decide almost every lane in float64 with a rigorous error margin;
the rest comes here, where `decimal` (correctly rounded, any precision) settles it with as many further random
digits as it takes. Nothing is approximated: the loops end with probability 1 because e^{-γ} is irrational for
every rational γ ≠ 0.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction

from skprivate.privacy._lattice import rational
from skprivate.privacy._randomness import BitSource

#: Decimal digits that are computed and not trusted.
_GUARD = 20


def _context(digits: int) -> decimal.Context:
    return decimal.Context(
        prec=digits + _GUARD,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def as_fraction(value: float | int | Fraction, name: str) -> Fraction:
    """Return a positive finite number as the exact rational that it is."""
    try:
        exact = rational(value)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.") from None
    if exact <= 0:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    return exact


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

    ``bits`` may be negative. With f = ⌊2^k·e^{-gamma}⌋ the number 2^k·count·e^{-gamma} lies in
    [count·f, count·(f + 1)).
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
