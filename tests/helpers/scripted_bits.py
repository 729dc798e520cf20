"""A source of bits that plays back what a test wrote down, and decimal arithmetic to write it down with."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from skprivate.privacy.noise._bits import BitSource

CONTEXT = Context(prec=120, Emin=-(10**9), Emax=10**9)


class ScriptedSource(BitSource):
    """Plays back ``words`` of 64 bits, ``further`` digits after a tie and ``points`` below a bound, in order."""

    def __init__(self, words=(), further=(), points=()):
        self._words = np.array(words, dtype=np.uint64)
        self.further = list(further)
        self.points = list(points)

    def words(self, n):
        block, self._words = self._words[:n], self._words[n:]
        assert block.size == n, "the sampler reads more words than the script has"
        return block

    def bits(self, n):
        value = self.further.pop(0)
        assert 0 <= value < 2**n
        return value

    def integer_below(self, n):
        value = self.points.pop(0)
        assert 0 <= value < n
        return value

    @property
    def used_up(self):
        return not self._words.size and not self.further and not self.points


def exp(gamma):
    """e^{-gamma} to 120 digits, as a rational number."""
    exponent = CONTEXT.divide(Decimal(-gamma.numerator), Decimal(gamma.denominator))
    return Fraction(CONTEXT.exp(exponent))


def floor(value, bits):
    return int(value * 2**bits)


def next_digits(value, bits, further):
    """Binary digits bits + 1, …, bits + further of ``value``."""
    return floor(value, bits + further) - (floor(value, bits) << further)
