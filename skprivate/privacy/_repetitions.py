"""How often a search evaluates: laws of a secret number, and their exact sampler.

With u the chance that one evaluation beats a given result, the winner's density is that of one evaluation times
f′(1 − u), f(x) = E[x^K] (docs/private_search_cost.md). For both laws f′(1 − u) = E[K]·w(u):

* truncated negative binomial of η > −1 (geometric for η = 1, logarithmic for η = 0): w(u) = (1 + κu)^{−(η+1)};
* Poisson, truncated to K ≥ 1 (its limit η → ∞): w(u) = e^{−κu}.

Both are at least 1, so that a search always has a result. The rate κ is the float that makes E[K] the stated mean up to
rounding; K is drawn from the law of exactly that κ, and what rounding does to E[K] is part of the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq

from skprivate.privacy._dialect import must_be, number, one_of
from skprivate.privacy._randomness import BitSource

Family = Literal["poisson", "negative-binomial"]
FloatArray = NDArray[np.float64]

_FAMILIES = ("poisson", "negative-binomial")
#: A search that evaluates more often than this on average is not meant.
_MOST = 1e6


@dataclass(frozen=True)
class Repetitions:
    """Law of the number of evaluations of a private search; the number itself is a secret.

    Parameters
    ----------
    family : {"poisson", "negative-binomial"}
        Poisson, given that it is at least 1; or the truncated negative binomial.
    mean : float in [1, 1e6]
        Mean number of evaluations. With 1 there is exactly one.
    eta : float in [-0.9, 100], optional
        Shape of the negative binomial: 1 is the geometric law, 0 the logarithmic one; at least 1e-6 in size otherwise.
        None with "poisson".

    Notes
    -----
    The laws of [1]_. The larger η, the more the number is concentrated, and the dearer the search.

    References
    ----------
    .. [1] N. Papernot and T. Steinke (2022), "Hyperparameter tuning with Rényi differential privacy".

    Examples
    --------
    >>> from skprivate.privacy import Repetitions
    >>> Repetitions("negative-binomial", mean=10.0, eta=1.0).rate
    9.0
    """

    family: Family
    mean: float
    eta: float | None = None

    def __post_init__(self) -> None:
        if self.family not in _FAMILIES:
            raise ValueError(must_be("family", one_of(_FAMILIES), self.family))
        number("mean", self.mean, "a number in [1, 1e6]", lambda value: 1 <= value <= _MOST)
        if self.family == "poisson":
            if self.eta is not None:
                raise ValueError(must_be("eta", "None with family='poisson'", self.eta))
        else:
            allowed = "0, or a number in [-0.9, 100] of size 1e-6 at least"
            number(
                "eta", self.eta, allowed, lambda eta: -0.9 <= eta <= 100 and (eta == 0 or abs(eta) >= 1e-6)
            )

    @cached_property
    def rate(self) -> float:
        """κ of the law, the parameter that is drawn with; 0 where there is one evaluation."""
        if self.mean == 1:
            return 0.0
        if self.eta == 1:
            return self.mean - 1
        top = 2.0
        while self._mean_of(top) < self.mean:
            top *= 2
        return float(
            brentq(lambda rate: self._mean_of(rate) - self.mean, 1e-300, top, rtol=1e-14, xtol=1e-300)
        )

    @property
    def largest_mean(self) -> float:
        """The mean of the law that is drawn from, rounded up."""
        return self._mean_of(self.rate) * (1 + 2.0**-40)

    @cached_property
    def expected_rank(self) -> float:
        """Of the best of K evaluations among all that could be made, from 0 (worst) to 1 (best): E[K/(K+1)].

        What a search is worth where evaluations are exact. With u as above it is the mean of 1 − u over the winner.
        """
        if self.rate == 0:
            return 0.5
        ends = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 4) / max(self.rate, 1.0), [1.0]])
        parts = (
            quad(lambda u: (1 - u) * math.exp(float(self.log_weight(np.asarray(u)))), left, right)[0]
            for left, right in pairwise(ends.tolist())
        )
        return self.mean * math.fsum(parts)

    def _mean_of(self, rate: float) -> float:
        if rate == 0:
            return 1.0
        if self.eta is None:
            return rate / -math.expm1(-rate)
        log = math.log1p(rate)
        return rate / log if self.eta == 0 else self.eta * rate / -math.expm1(-self.eta * log)

    def log_weight(self, beaten: FloatArray) -> FloatArray:
        """ln w(u) for chances u of being beaten, in [0, 1]; 0 at 0, and decreasing."""
        if self.eta is None:
            return np.asarray(-self.rate * beaten)
        return np.asarray(-(self.eta + 1) * np.log1p(self.rate * beaten))

    def beaten(self, log_weight: FloatArray) -> FloatArray:
        """The chances at which `log_weight` has these values."""
        if self.eta is None:
            return np.asarray(-log_weight / self.rate)
        return np.asarray(np.expm1(-log_weight / (self.eta + 1)) / self.rate)

    def log_slope(self, beaten: FloatArray) -> FloatArray:
        """The logarithm of the size of w′(u), up to a constant."""
        if self.eta is None:
            return self.log_weight(beaten)
        return np.asarray(-(self.eta + 2) * np.log1p(self.rate * beaten))

    def sample(self, source: BitSource) -> int:
        """Draw K, exactly.

        Inverts the distribution function at a uniform number of which ever more digits are drawn, until all numbers
        with these digits lead to the same K. The function is enclosed by decimal arithmetic of growing precision.
        """
        if self.rate == 0:
            return 1
        prefix, bits = source.bits(64), 64
        while (drawn := self._quantile(prefix, bits)) is None:
            prefix, bits = (prefix << 64) | source.bits(64), bits + 64
        return drawn

    def _quantile(self, prefix: int, bits: int) -> int | None:
        """The K of all numbers that begin with these digits, or None where there are two."""
        context = Context(prec=math.ceil(0.302 * bits) + 60, Emin=-(10**15), Emax=10**15)
        multiply, divide, add = context.multiply, context.divide, context.add
        rate, one = Decimal(self.rate), Decimal(1)
        shape = None if self.eta is None else Decimal(self.eta)
        # Weights of P(K = 1) = 1, and their sum.
        if shape is None:
            total = divide(context.subtract(context.exp(rate), one), rate)
            ratio = rate
        else:
            full = add(one, rate)
            log = context.ln(full)
            grown = (
                log if shape == 0 else divide(context.subtract(context.exp(multiply(shape, log)), one), shape)
            )
            total = multiply(grown, divide(full, rate))
            ratio = divide(rate, full)
        ends = [divide(multiply(total, Decimal(end)), Decimal(1 << bits)) for end in (prefix, prefix + 1)]
        # Each weight errs by four units in the last place more than the one before. In the total, where κ ≥ 10⁻¹⁶ and
        # |η| ≥ 10⁻⁶, 23 digits cancel at most.
        unit = Decimal(10) ** (2 - context.prec)
        weight = reached = one
        k = 1
        while True:
            error = multiply(unit, Decimal(10**26 + k))
            if multiply(reached, add(one, error)) > ends[0]:
                return k if multiply(reached, context.subtract(one, error)) >= ends[1] else None
            k += 1
            growth = ratio if shape is None else multiply(ratio, add(Decimal(k - 1), shape))
            weight = divide(multiply(weight, growth), Decimal(k))
            reached = add(reached, weight)
