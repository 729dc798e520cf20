"""Exact private selection on random bits: the exponential mechanism and permute-and-flip.

Costs are integers (score of the best candidate minus score, on the caller's lattice), the rate is rational:
the probabilities e^{-rate·cost} are well-defined numbers and are met exactly, not up to rounding.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy._contributions import IntArray, largest
from skprivate.privacy.noise._bits import BitSource
from skprivate.privacy.noise._samplers import as_fraction, below_exp, exp_floor, share_below_exp

Counts = list[int] | IntArray
T = TypeVar("T", int, NDArray[np.int64])

#: Binary digits of the integer weights in the exponential mechanism.
_WEIGHT_BITS = 52
_MAX_COST = 2**62
#: With fewer members the weights are summed in int64, with at least 33 binary digits each.
_VECTORISED = 1 << 28
#: Binary digits of all weights together where each is that of a whole category.
_MASS_BITS = 60
#: Larger categories leave the range of float64.
_HUGE = 1 << 900
#: Members of smaller categories are drawn one by one.
_FEW = 1 << 10
#: Elements handled at a time where one array of all of them would be large.
_BLOCK = 1 << 17
#: Total multiplicity that permute-and-flip takes on (its time is linear in it).
MAX_FLIPS = 2 * 10**10


def check_selection(costs: IntArray, multiplicity: Sequence[int] | NDArray[Any] | None, rule: str) -> None:
    """Refuse what a selection cannot be drawn from, before it is paid for."""
    if multiplicity is None:
        return
    total = _total(_check_multiplicity(multiplicity, costs.size))
    if rule == "permute-and-flip" and total > MAX_FLIPS:
        raise ValueError(
            f"multiplicity adds up to {total} members; permute-and-flip takes time linear in that and allows "
            f"{MAX_FLIPS}. Use rule='exponential'."
        )


def _check_costs(costs: ArrayLike, ndim: int) -> IntArray:
    array = np.asarray(costs)
    if array.ndim != ndim or array.dtype.kind not in "iu" or array.shape[-1] == 0:
        raise ValueError(
            f"costs must be a non-empty integer array of {ndim} dimension(s), got dtype {array.dtype} "
            f"and shape {array.shape}."
        )
    if array.min(initial=0) < 0 or array.max(initial=0) > _MAX_COST:
        raise ValueError("costs must be between 0 and 2**62.")
    return array.astype(np.int64, copy=False)


def _check_multiplicity(multiplicity: Sequence[int] | NDArray[Any], n: int) -> Counts:
    """Check numbers of members: an array of int64 stays one if their sum is an int64, others become Python integers."""
    if len(multiplicity) != n:
        raise ValueError(f"multiplicity must have one entry per cost ({n}), got {len(multiplicity)}.")
    counts: Counts = (
        multiplicity
        if isinstance(multiplicity, np.ndarray)
        and multiplicity.dtype == np.int64
        and 0 <= largest(multiplicity) * n < _MAX_COST
        else list(map(operator.index, multiplicity))
    )
    least, most = (counts.min(), counts.max()) if isinstance(counts, np.ndarray) else (min(counts), max(counts))
    if least < 0 or most == 0:
        raise ValueError("multiplicity must hold integers >= 0, not all 0.")
    return counts


def _total(counts: Counts) -> int:
    return int(counts.sum()) if isinstance(counts, np.ndarray) else sum(counts)


def _from_best(cost: IntArray, counts: Counts) -> IntArray:
    """Subtract the cost of the best category that has members; those without get cost 0 or more."""
    members = counts > 0 if isinstance(counts, np.ndarray) else np.array([count > 0 for count in counts])
    present = int(cost[members].min())
    against_best: IntArray = np.maximum(cost, present) - present
    return against_best


def _upper(costs: IntArray, rate: Fraction, bits: int) -> IntArray:
    """Return integers above 2^bits·e^{-rate·cost}, by no more than 1 and 2^-39 of it.

    float64 errs by at most 3 units of 2^-53 in γ = rate·cost, relatively, and by 4 units in the last place in
    exp: for γ ≤ 700 less than 2^-41 of the weight in all. Beyond that (bits ≤ 52) the weight is below 1.
    """
    gamma = costs * -float(min(rate, Fraction(1000)))
    weight = np.exp(np.maximum(gamma, -700.0, out=gamma), out=gamma)
    weight *= 2.0**bits * (1.0 + 2.0**-40)
    weight += 1.0
    upper: IntArray = weight.astype(np.int64)
    return upper


def _lower(upper: T) -> T:
    """Return integers that 2^bits·e^{-rate·cost} exceeds by 1 at least, given those of `_upper`."""
    return upper - (upper >> 39) - 3


def exponential_select(
    costs: ArrayLike,
    rate: float | int | Fraction,
    source: BitSource,
    multiplicity: Sequence[int] | NDArray[Any] | None = None,
) -> tuple[int, int]:
    """Draw from the exponential mechanism exactly: P(member j of category e) ∝ exp(-rate·costs[e]).

    Integers C_e above 2^b·e^{-rate·cost} carve a line into segments of multiplicity_e pieces of length C_e. A uniform
    point of the line falls into one piece and is accepted if it is below 2^b·e^{-rate·cost} there. Float64 bounds
    decide that almost always, exact arithmetic with further digits otherwise. Where members are many the pieces of a
    category are one, and its member is drawn afterwards. Returns the category and a uniform one of its members.
    """
    cost = _check_costs(costs, 1)
    exact_rate = as_fraction(rate, "rate")
    counts = None if multiplicity is None else _check_multiplicity(multiplicity, cost.size)
    n_members = cost.size if counts is None else _total(counts)
    cost = cost - cost.min() if counts is None else _from_best(cost, counts)
    if n_members < _VECTORISED:
        return _select_vectorised(cost, exact_rate, counts, n_members, source)
    assert counts is not None
    counts = counts.tolist() if isinstance(counts, np.ndarray) else counts
    if max(counts) < _HUGE:
        return _select_by_mass(cost, exact_rate, counts, source)
    # The slack of one unit for each member must stay small against 2^bits.
    bits = _WEIGHT_BITS + n_members.bit_length()
    uppers = [exp_floor(exact_rate * c, bits) + 1 for c in cost.tolist()]
    ends = list(accumulate(map(operator.mul, counts, uppers)))
    while True:
        point = source.integer_below(ends[-1])
        category = bisect_right(ends, point)
        member, rest = divmod(point - (ends[category - 1] if category else 0), uppers[category])
        if below_exp(rest, bits, exact_rate * int(cost[category]), source):
            return category, member


def _select_vectorised(
    cost: IntArray, rate: Fraction, counts: Counts | None, n_members: int, source: BitSource
) -> tuple[int, int]:
    bits = min(_WEIGHT_BITS, 61 - n_members.bit_length())  # the sum of all weights stays below 2^62
    upper = _upper(cost, rate, bits)
    ends = np.cumsum(upper if counts is None else upper * np.asarray(counts, dtype=np.int64))
    total = int(ends[-1])
    while True:
        point = source.integer_below(total)
        category = int(np.searchsorted(ends, point, side="right"))
        height = int(upper[category])
        member, rest = divmod(point - (int(ends[category - 1]) if category else 0), height)
        gamma = rate * int(cost[category])
        if rest < _lower(height) or below_exp(rest, bits, gamma, source):
            return category, member


def _masses(cost: IntArray, rate: Fraction, counts: list[int]) -> tuple[IntArray, int]:
    """Compute integers M_e > 2^s·c_e·e^{-γ_e}, by no more than 1 and 2^-39 of it, for γ_e = rate·cost_e, and s.

    Proof, with u = 2^-53, for 0 < γ ≤ 700. float64 rounds cost (below 2^63), rate and their product by a
    relative u each, so γ' = γ(1 + θ) with |θ| ≤ 3.01u, and |γ' - γ| ≤ 2108u < 2^-41.9. An exponential function
    whose relative error is below 2^-44, 500 units in the last place (libraries promise 4 at most), returns e^{-γ}
    times a factor within 1 ± 2^-41.5. c_e, its product with that, and the product with 1 + 2^-40 are rounded by
    u each, the addition of 1 by u again; scaling by 2^s is exact or, below 2^-1022, covered by the 1 that is
    added. In all the factor is between (1 - 2^-41.4)(1 + 2^-40) > 1 + 2^-41 and (1 + 2^-41.4)(1 + 2^-40) <
    1 + 2^-39. Rounding down what exceeds x + 1 leaves more than x. Rates so small that float64 rounds them by
    more make γ itself below 2^-900. For γ > 700 the weight is taken at 700 (more than the truth): less than
    2^-49 before the addition, as e^-700 < 2^-1009, c_e < 2^900 and s ≤ 60. The sum of all float64 masses is below
    2^60·(1 + 2^-39), so that of the integers is below 2^61 for fewer than 2^59 categories.
    """
    gamma = np.minimum(cost * float(min(rate, Fraction(1000))), 700.0)
    mass = np.exp(-gamma) * np.array(counts, dtype=np.float64)
    scale = _MASS_BITS - math.frexp(float(mass.sum()))[1]
    integers: IntArray = (np.ldexp(mass, scale) * (1.0 + 2.0**-40) + 1.0).astype(np.int64)
    integers[mass == 0.0] = 0  # nobody: a member's weight is at least e^{-700}
    return integers, scale


def _select_by_mass(cost: IntArray, rate: Fraction, counts: list[int], source: BitSource) -> tuple[int, int]:
    """Draw a category in proportion to count·e^{-rate·cost} by rejection under `_masses`, and one of its members."""
    masses, scale = _masses(cost, rate, counts)
    ends = np.cumsum(masses)
    while True:
        point = source.integer_below(int(ends[-1]))
        category = int(np.searchsorted(ends, point, side="right"))
        height = int(masses[category])
        rest = point - (int(ends[category]) - height)
        if rest < _lower(height) or share_below_exp(rest, scale, counts[category], rate * int(cost[category]), source):
            return category, source.integer_below(counts[category])


def exponential_select_rows(costs: ArrayLike, rate: float | int | Fraction, source: BitSource) -> IntArray:
    """Draw one index per row, independently: P(e in row i) ∝ exp(-rate·costs[i, e]), exactly, of 2**20 at most."""
    cost = _check_costs(costs, 2)
    exact_rate = as_fraction(rate, "rate")
    n_rows, n_candidates = cost.shape
    if n_candidates > 2**20:
        raise ValueError(f"costs must have at most 2**20 columns, got {n_candidates}.")
    bits = min(_WEIGHT_BITS, 61 - n_candidates.bit_length())
    result = np.empty(n_rows, dtype=np.int64)
    step = max(1, _BLOCK // n_candidates)
    for start in range(0, n_rows, step):
        chunk = cost[start : start + step]
        chunk = chunk - chunk.min(axis=1, keepdims=True)
        ends = _upper(chunk, exact_rate, bits)
        np.cumsum(ends, axis=1, out=ends)
        total = ends[:, -1]
        shift = 64 - np.frexp(total.astype(np.float64))[1].astype(np.uint64)
        rows = np.arange(chunk.shape[0])  # those still without an accepted index
        while rows.size:
            point = (source.words(rows.size) >> shift[rows]).view(np.int64)
            index = np.count_nonzero(ends[rows] <= point[:, None], axis=1)
            accept = index < n_candidates
            index[~accept] = 0
            first = np.where(index > 0, ends[rows, index - 1], 0)
            rest = point - first
            height = ends[rows, index] - first
            unsure = accept & (rest >= _lower(height))
            for lane in np.flatnonzero(unsure).tolist():
                gamma = exact_rate * int(chunk[rows[lane], index[lane]])
                accept[lane] = below_exp(int(rest[lane]), bits, gamma, source)
            result[start + rows[accept]] = index[accept]
            rows = rows[~accept]
    return result


def _half_binomial(n: int, source: BitSource) -> int:
    """Draw the number of ones among ``n`` fair bits."""
    ones = 0
    while n:
        take = min(n, 1 << 23)
        packed = source.bytes(-(-take // 8))
        full = take // 8
        words = full // 8 * 8
        ones += int(np.bitwise_count(packed[:words].view(np.uint64)).sum(dtype=np.int64))
        ones += int(np.bitwise_count(packed[words:full]).sum(dtype=np.int64))
        if take % 8:
            ones += (int(packed[full]) & ((1 << take % 8) - 1)).bit_count()
        n -= take
    return ones


def binomial_exp(n: int, gamma: Fraction, source: BitSource) -> int:
    """Draw from Binomial(n, e^{-gamma}) exactly, in time linear in n.

    n uniform numbers are compared with p = e^{-gamma} binary digit by digit, all at once: of the T that agree
    with p so far, a Binomial(T, 1/2) number have the digit 0. Where the digit of p is 1, those are below p
    for good; where it is 0, the others are above p for good.
    """
    if gamma == 0:
        return n
    tied, below, bits, position = n, 0, 64, 0
    digits = exp_floor(gamma, bits)
    while tied:
        if position == bits:
            bits *= 2
            digits = exp_floor(gamma, bits)
        position += 1
        zeros = _half_binomial(tied, source)
        if digits >> (bits - position) & 1:
            below += zeros
            tied -= zeros
        else:
            tied = zeros
    return below


def _flip(cost: IntArray, rate: Fraction, source: BitSource) -> NDArray[np.bool_]:
    """Draw independent exact Bernoulli(e^{-rate·cost}) variables."""
    upper = _upper(cost, rate, _WEIGHT_BITS)
    digits = (source.words(cost.size) >> np.uint64(64 - _WEIGHT_BITS)).view(np.int64)
    accept: NDArray[np.bool_] = digits < upper
    for lane in np.flatnonzero(accept & (digits >= _lower(upper))).tolist():
        accept[lane] = below_exp(int(digits[lane]), _WEIGHT_BITS, rate * int(cost[lane]), source)
    return accept


def permute_and_flip_select(
    costs: ArrayLike,
    rate: float | int | Fraction,
    source: BitSource,
    multiplicity: Sequence[int] | NDArray[Any] | None = None,
) -> tuple[int, int]:
    """Draw from permute-and-flip (McKenna and Sheldon 2020) exactly.

    The mechanism walks through the candidates in random order, draws a bit with probability exp(-rate·cost) for each,
    and returns the first candidate whose bit is 1. The bits are independent of the order, so all may be drawn first.
    The first one in a uniform order is then a uniform element of the set of ones, which holds the best candidate.
    Within a category of m equal candidates the number of ones is Binomial(m, p), and every member is equally likely to
    be the chosen one.
    """
    cost = _check_costs(costs, 1)
    exact_rate = as_fraction(rate, "rate")
    if multiplicity is None:
        ones = np.flatnonzero(_flip(cost - cost.min(), exact_rate, source))
        return int(ones[source.integer_below(ones.size)]), 0
    counts = _check_multiplicity(multiplicity, cost.size)
    check_selection(cost, multiplicity, "permute-and-flip")
    members = np.asarray(counts, dtype=np.int64)
    cost = _from_best(cost, counts)
    n_ones = np.zeros(cost.size, dtype=np.int64)
    small = members <= _FEW
    for large in np.flatnonzero(~small):
        n_ones[large] = binomial_exp(int(counts[large]), exact_rate * int(cost[large]), source)
    rest = np.flatnonzero(small & (members > 0))
    blocks = np.cumsum(members[rest]) // _BLOCK  # about _BLOCK members each
    for chunk in np.split(rest, np.flatnonzero(np.diff(blocks)) + 1):
        member_of = np.repeat(np.arange(chunk.size), members[chunk])
        drawn = _flip(cost[chunk][member_of], exact_rate, source)
        n_ones[chunk] = np.bincount(member_of[drawn], minlength=chunk.size)
    point = source.integer_below(int(n_ones.sum()))
    category = int(np.searchsorted(np.cumsum(n_ones), point, side="right"))
    return category, source.integer_below(int(counts[category]))
