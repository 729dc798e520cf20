"""Exact integer samplers on random bits.

Every sampler inverts a distribution function or accepts a candidate by comparing a uniform number with a
probability. The comparison is made for whole blocks in float64, with an error margin that float64 arithmetic
provably stays within; the few lanes whose answer the margin leaves open are settled in `_exact` with decimal
arithmetic of growing precision and further random digits. So each law is exact: nothing is truncated.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy._exact import as_fraction, below_exp, geometric_quantile
from skprivate.privacy._randomness import BitSource
from skprivate.privacy._selection import (
    binomial_exp,
    exponential_select,
    exponential_select_rows,
    permute_and_flip_select,
)

__all__ = [
    "binomial_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_select",
    "exponential_select_rows",
    "integer_noise",
    "permute_and_flip_select",
    "uniform_below",
]

#: Lanes handled at a time: the working arrays of a block stay in the second-level cache.
_BLOCK = 1 << 14
#: Scales up to here are inverted in one step; larger ones split off their low binary digits.
_DIRECT = 2**30
_MAX_SCALE = 2**47
_MIN_SCALE = Fraction(1, 2**20)

Int64Array = NDArray[np.int64]


def _check_scale(value: float | int | Fraction, name: str) -> Fraction:
    scale = as_fraction(value, name)
    if not _MIN_SCALE <= scale <= _MAX_SCALE:
        raise ValueError(f"{name} must lie between 2**-20 and 2**47, got {value!r}.")
    return scale


def _check_size(size: int) -> int:
    if size < 0:
        raise ValueError(f"size must be an integer >= 0, got {size!r}.")
    return int(size)


def _quantiles(words: NDArray[np.uint64], scale: Fraction, two_sided: bool, source: BitSource) -> Int64Array:
    """Invert the upper tail at the numbers X whose first 63 binary digits are ``words`` (see `_exact`)."""
    s = float(scale)
    shift = float(np.log(2.0 / (1.0 + np.exp(-1.0 / s)))) if two_sided else 0.0
    x = words.astype(np.float64)
    x += 0.5
    log = np.log(x)
    log -= 63.0 * np.log(2.0)
    y = (shift - log) * s
    # |float64 error of y| ≤ s·(2^-62/X [digits not drawn] + 2^-47 + 2^-49·|log X|): numpy's log is good to
    # 4 units in the last place of numbers up to 44, and every constant and operation to one.
    margin = np.divide(2.0, x)
    margin += 2.0**-46
    margin -= log * 2.0**-48
    margin *= s
    result = np.floor(y)
    y -= result
    y -= 0.5
    np.abs(y, out=y)
    undecided = y >= 0.5 - margin
    values = np.maximum(result, 0.0).astype(np.int64)
    for lane in np.flatnonzero(undecided):
        values[lane] = geometric_quantile(int(words[lane]), 63, scale, two_sided, source)
    return values


def _bernoulli_exp(
    gamma: NDArray[np.float64],
    margin: NDArray[np.float64] | float,
    exact: Callable[[int], Fraction],
    source: BitSource,
) -> NDArray[np.bool_]:
    """Draw exact Bernoulli(e^{-γ}) variables.

    ``gamma`` holds γ up to the absolute error ``margin`` (≤ 1); ``exact(i)`` is the γ of lane ``i``.
    """
    digits = source.words(gamma.size) >> np.uint64(11)
    x = digits.astype(np.float64)
    p = np.exp(-gamma)
    p *= 2.0**53
    slack = p * (2.0 * margin + 2.0**-48)  # e^m - 1 ≤ 2m, and exp is good to 4 units in the last place
    accept: NDArray[np.bool_] = x + 1.0 <= p - slack
    p += slack
    p += 2.0**-20
    for lane in np.flatnonzero(~accept & (x < p)):
        accept[lane] = below_exp(int(digits[lane]), 53, exact(int(lane)), source)
    return accept


def _laplace_block(scale: Fraction, size: int, source: BitSource) -> Int64Array:
    """At most ``size`` discrete Laplace draws (fewer where a candidate was rejected)."""
    words = source.words(size)
    negative = words >> np.uint64(63) == 1
    words = words & np.uint64(2**63 - 1)
    if scale <= _DIRECT:
        values = _quantiles(words, scale, True, source)
        return np.where(negative, -values, values)
    # G = 2^m·H + L with H geometric for the scale s/2^m and P(L) ∝ q^L on 0, …, 2^m - 1, independent.
    m = (int(scale) >> 20).bit_length() - 1
    values = _quantiles(words, scale / 2**m, False, source)
    low = (source.words(size) >> np.uint64(64 - m)).astype(np.int64)
    accept = _bernoulli_exp(
        low / float(scale), 2.0**-50, lambda lane: Fraction(int(low[lane])) / scale, source
    )
    values <<= m
    values += low
    accept &= ~(negative & (values == 0))  # zero has one sign
    return np.where(negative, -values, values)[accept]


def _fill(size: int, block: Callable[[int], Int64Array]) -> Int64Array:
    """Concatenate what ``block(at_most)`` yields until ``size`` values are there."""
    result = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        values = block(min(_BLOCK, size - filled))
        result[filled : filled + values.size] = values
        filled += values.size
    return result


def discrete_laplace(scale: float | int | Fraction, size: int, source: BitSource) -> Int64Array:
    """Draw from the discrete Laplace law, P(k) ∝ exp(-|k|/scale), exactly.

    Parameters
    ----------
    scale : float, int or Fraction
        From 2**-20 to 2**47; a float is the exact rational that it is.
    size : int
        Number of draws.
    source : BitSource
        Random bits.

    Returns
    -------
    ndarray of shape (size,), int64
    """
    exact = _check_scale(scale, "scale")
    return _fill(_check_size(size), lambda n: _laplace_block(exact, n, source))


def _gaussian_block(sigma: Fraction, size: int, source: BitSource) -> Int64Array:
    t = int(sigma) + 1
    candidates = discrete_laplace(t, size, source)
    s = float(sigma)
    centre = sigma * sigma / t
    z = np.abs(candidates).astype(np.float64)
    z -= float(centre)
    z /= s
    gamma = 0.5 * z * z
    # |Y| is exact below 2^53; z errs by 2^-51·(|z| + 2), hence γ = z²/2 by less than 2^-50·(|z| + 2)².
    margin = np.abs(z)
    margin += 3.0
    margin *= margin
    margin *= 2.0**-49
    np.minimum(margin, 1.0, out=margin)

    def exact(lane: int) -> Fraction:
        return (abs(int(candidates[lane])) - centre) ** 2 / (2 * sigma * sigma)

    return candidates[_bernoulli_exp(gamma, margin, exact, source)]


def discrete_gaussian(sigma: float | int | Fraction, size: int, source: BitSource) -> Int64Array:
    """Draw from the discrete Gaussian law, P(k) ∝ exp(-k²/(2·sigma²)), exactly.

    Rejection from the discrete Laplace law of scale ⌊sigma⌋ + 1 [1]_.

    Parameters
    ----------
    sigma : float, int or Fraction
        From 2**-20 to 2**47; a float is the exact rational that it is.
    size : int
        Number of draws.
    source : BitSource
        Random bits.

    Returns
    -------
    ndarray of shape (size,), int64

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
       Algorithm 3.
    """
    exact = _check_scale(sigma, "sigma")
    return _fill(_check_size(size), lambda n: _gaussian_block(exact, n, source))


def uniform_below(n: int, size: int, source: BitSource) -> Int64Array:
    """Draw ``size`` exactly uniform integers of 0, …, n - 1 (1 <= n <= 2**63)."""
    if not 1 <= n <= 2**63:
        raise ValueError(f"n must lie between 1 and 2**63, got {n!r}.")
    drop = np.uint64(64 - max((n - 1).bit_length(), 1))

    def block(at_most: int) -> Int64Array:
        values = source.words(at_most) >> drop
        return values[values < n].astype(np.int64)

    return _fill(_check_size(size), block)


def integer_noise(kind: str, scale: float | int | Fraction, size: int, source: BitSource) -> Int64Array:
    """Draw integer noise of ``kind`` "laplace" or "gaussian" and the given ``scale``."""
    if kind == "laplace":
        return discrete_laplace(scale, size, source)
    if kind == "gaussian":
        return discrete_gaussian(scale, size, source)
    raise ValueError(f"kind must be 'laplace' or 'gaussian', got {kind!r}.")
