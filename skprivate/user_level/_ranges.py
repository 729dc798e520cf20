"""Private ranges and quantiles, and clipping radii that grow as noise falls.

A ball of a fixed number of median distances bounds the noise. For skewed users it leaves a bias that no number of users
removes. A radius that grows more slowly than the noise level ν falls leaves neither in the limit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import chi

from skprivate.privacy import Branch, Release

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Counts = tuple[IntArray, IntArray]

#: Share of a pure budget for a quantile of the users' numbers.
QUANTILE_SHARE = 0.125
#: Largest part of the users beyond a selected distance that still shows how their tail goes on.
MOST_TAIL = 0.12
#: Candidates of a private scale: every power of √2 from 2⁻⁵⁰ to 2⁵⁰, so that no unit has to be guessed.
SCALES: FloatArray = 2.0 ** np.arange(-50.0, 50.25, 0.5)
#: Candidates of an upper quantile: every power of 2^¼.
FINE_SCALES: FloatArray = 2.0 ** np.arange(-50.0, 50.125, 0.25)
#: Candidates of a distance: every power of 2^⅛, beyond all scales of a histogram.
FINEST_SCALES: FloatArray = 2.0 ** np.arange(-66.0, 66.0625, 0.125)
#: Candidates where the order of magnitude is enough: every power of 4 from 2⁻⁴⁰ to 2⁴⁰.
COARSE_SCALES: FloatArray = 2.0 ** np.arange(-40.0, 41.0, 2.0)
#: Octaves above a released scale from which on a larger one is less likely, by e for each, as far as this factor goes
#: again: a selection that fails should not end at 2⁵⁰, and one of a distant tail should not miss it.
FAR = 7.0
#: Bound of penalties, ranks and users, so that costs stay far from overflow, however small ε is.
MANY = 2.0**40
#: Noise level below which noise is hardly felt: bounds grow as its root falls, steps are quasi-Newton, and no tail of
#: fewer users is looked for.
QUIET_LEVEL = 1.6e-3
#: Largest factor of that level where the tail is heavier than that of normal users.
MOST_HEAVY = 4.0
#: Largest noise of a ball of gradients over their sampling noise: their median is as good a centre as their mean unless
#: they have a tail.
NOISE_PART = 0.5
#: Least index of a tail: that of a law which just has no variance.
LEAST_INDEX = 2.0


def n_bins(bound: float, tau: float) -> int:
    """Count the bins of width 2τ that cover [−B, B]; refuses what float64 and int64 cannot number."""
    if not (0.0 < tau <= 2.0**1000 and 0.0 < bound <= 2.0**1000):  # what is computed from them stays finite
        raise ValueError(f"radius and bound must be positive and at most 2**1000, got {tau!r} and {bound!r}.")
    if not bound / tau <= 2.0**62:  # numbers of bins are int64
        raise ValueError(f"the bound may be at most 2**62 times the radius, got {bound!r} and {tau!r}.")
    return max(1, math.ceil(bound / tau))


def snap(x: FloatArray, tau: float, bound: float) -> npt.NDArray[np.int64]:
    """Return the index of the bin of width 2τ on [−B, B] with the nearest midpoint; values outside go to the end bins.

    Each index is a function of one value, and rises with it; NaN counts as 0.
    """
    last = n_bins(bound, tau) - 1
    with np.errstate(all="ignore"):  # a warning about somebody's number would say something about it
        clipped = np.clip(np.nan_to_num(x, nan=0.0), -bound, bound)
        index = np.floor((clipped + bound) / (2.0 * tau)).astype(np.int64)
    return np.clip(index, 0, last)


def select_middle(
    counts: Counts, *, epsilon: float, tau: float, bound: float, release: Release | Branch, monotone: bool = False
) -> float:
    """Select the middle of the interval of `private_range` from the occupied bins (`snap`) and their counts."""
    starts, lengths, costs = _runs(*counts, n_bins(bound, tau))
    chosen = release.select(
        -costs,
        sensitivity=1,
        epsilon=epsilon,
        monotone=monotone,
        multiplicity=lengths,
        locate=lambda run, member: int(starts[run]) + member,
    )
    return float(min(-bound + (2.0 * chosen + 1.0) * tau, bound))


def _runs(
    occupied: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], total: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return first bin, number of bins and cost of every run of bins of equal cost, from left to right."""
    n = int(counts.sum())
    below = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])  # values below occupied bin i; last: n
    # An occupied bin is a run of its own; before each and after the last is a gap.
    starts, ends, costs = np.empty((3, 2 * len(occupied) + 1), dtype=np.int64)
    starts[1::2], ends[1::2] = occupied, occupied + 1
    starts[0], starts[2::2] = 0, occupied + 1
    ends[:-1:2], ends[-1] = occupied, total
    costs[::2] = np.maximum(below, n - below)
    costs[1::2] = np.maximum(below[:-1], n - below[1:])
    nonempty = ends > starts
    return starts[nonempty], (ends - starts)[nonempty], costs[nonempty]


def scale_counts(magnitudes: FloatArray, scales: FloatArray = SCALES) -> IntArray:
    """Count non-negative numbers, one per user, by the nearest scale (in the logarithm)."""
    midpoints = np.sqrt(scales[1:] * scales[:-1])
    snapped = np.searchsorted(midpoints, np.nan_to_num(magnitudes, nan=np.inf))
    return np.bincount(snapped, minlength=len(scales)).astype(np.int64)


def select_median_scale(
    counts: IntArray, *, epsilon: float, release: Release, monotone: bool, scales: FloatArray = SCALES
) -> float:
    """Select the scale nearest to the median of non-negative numbers, one per user, from their `scale_counts`.

    The exponential mechanism's cost is, as in PrivateRange, the larger of the numbers of users below and above a scale.
    """
    below = np.cumsum(counts) - counts
    costs = np.maximum(below, counts.sum() - below - counts)
    index = release.select(-costs, sensitivity=1, epsilon=epsilon, monotone=monotone)
    return float(scales[int(index)])


def select_upper_scale(
    counts: IntArray, rank: int, *, epsilon: float, release: Release, scales: FloatArray, near: float
) -> float:
    """Select a scale that about ``rank`` of non-negative numbers, one per user, exceed, from their `scale_counts`.

    A scale costs what its number of users above exceeds ``rank`` by, or what its number of users at or above falls
    short of it. Replacing, adding or removing a user moves every cost by at most 1, some up and some down. Scales far
    above ``near``, a released one, are less likely a priori.
    """
    reached = np.cumsum(counts[::-1])[::-1]
    costs = np.maximum(np.maximum(reached - counts - rank, rank - reached), 0)
    octaves = np.clip(np.log2(scales) - math.log2(near) - FAR, 0.0, FAR)
    costs = costs + np.ceil(octaves * min(2.0 / epsilon, MANY)).astype(np.int64)
    return float(scales[int(release.select(-costs, sensitivity=1, epsilon=epsilon))])


def quantile_counts(magnitudes: FloatArray) -> IntArray:
    """Count non-negative numbers by scale, as `select_quantiles` needs them."""
    return np.concatenate([scale_counts(magnitudes, SCALES), scale_counts(magnitudes, FINE_SCALES)])


def select_quantiles(
    counts: IntArray, *, epsilon: float, upper_epsilon: float | None, release: Release, monotone: bool
) -> tuple[float, float, int]:
    """Select a median and an upper quantile; returns both and the rank of the latter, 0 where it is not selected."""
    counts, fine_counts = np.split(counts, [len(SCALES)])
    median = select_median_scale(counts, epsilon=epsilon, release=release, monotone=monotone)
    if upper_epsilon is None:
        return median, 0.0, 0
    rank = tail_rank(upper_epsilon, len(FINE_SCALES))
    upper = select_upper_scale(
        fine_counts, rank, epsilon=upper_epsilon, release=release, scales=FINE_SCALES, near=median
    )
    return median, upper, rank


def selection_epsilon(n_users: float, n_candidates: float, *, monotone: bool, log_failure: float = 9.0) -> float:
    """Return the cost at which a median selection succeeds when the candidates split the users cleanly.

    A candidate below or above everybody costs n against n/2 for the median. With exponent ε·n/2 (``monotone``) or ε·n/4
    the chance of any of K such candidates is at most K·exp(−exponent); the cost makes that exp(−log_failure).
    """
    exponent = np.log(max(n_candidates, 2.0)) + log_failure
    return float((2.0 if monotone else 4.0) * exponent / max(n_users, 1.0))


def slow_growth(level: float) -> float:
    """Return the factor by which what clips at noise level ν is wider: noise and bias vanish together."""
    return math.sqrt(max(1.0, QUIET_LEVEL / level)) if level > 0.0 else math.inf


def quiet_growth(level: float, n_users: float, part: float) -> float:
    """Return the radius in median distances at which the noise is ``part`` of the sampling noise.

    At noise level ν a ball of c median distances r leaves noise of norm c·ν·r on a mean, and the users themselves leave
    about r/√n. So c = part/(ν√n), from public numbers alone, costs at most part² of the risk without privacy, whatever
    the users are like.
    """
    return part / (level * math.sqrt(n_users)) if level > 0.0 else math.inf


def heaviness(median: float, upper: float, n_features: int, beyond: float) -> float:
    """Compare two quantiles with normal vectors: their squared ratio over the normal one, between 1 and 4.

    ``beyond`` is the share of the users above ``upper``. A heavy tail has more bias to lose than it costs noise.
    """
    if not 0.0 < beyond < 0.5 or not upper > median > 0.0:
        return 1.0
    normal = float(chi.isf(beyond, n_features) / chi.median(n_features))
    return min(MOST_HEAVY, max(1.0, (upper / median / normal) ** 2))


def tail_factor(median: float, upper: float, growth: float, beyond: float) -> float:
    """Compute a radius in medians of gradient norms, from two released quantiles of the norms.

    It is ``upper`` times the root of `heaviness`, at most `heaviness` times ``growth`` (`quiet_growth`). Users without
    a tail are clipped at their median as long as there is noise to save. Gradients are compared with normal numbers,
    not vectors, because one feature may be larger than all others. Where most targets are predicted exactly, the median
    reveals nothing about the others: their mean square is at least ``beyond`` times ``upper``², so that their sampling
    noise is that of normal numbers of a median of .67·√beyond·upper.
    """
    if not upper > median > 0.0:
        return min(1.0, growth)
    heavy = heaviness(median, upper, 1, beyond)
    others = _median_of_others(upper, beyond) / median
    return min(upper / median * math.sqrt(heavy), max(heavy, others) * growth)


def _median_of_others(upper: float, beyond: float) -> float:
    """Return the median of normal numbers whose mean square is the least one with this share beyond ``upper``."""
    return float(ndtri(0.75)) * math.sqrt(beyond) * upper


def balanced_radius(median: float, upper: float, growth: float, level: float, n_features: int, beyond: float) -> float:
    """Compute the radius about which a mean's bias by a tail is as large as its noise, from two released quantiles.

    Beyond ``upper``, which a share p of the users exceed, the share falls as (C/upper)^−a with the mean index a between
    the median and ``upper``. So a ball of radius C moves the mean by at most p·C/(a − 1)·(C/upper)^−a. Its noise is νC:
    C = upper·(p/((a − 1)ν))^(1/a). As p and ν are of order 1/n, C grows as ``upper`` does, and the noise falls as 1/n
    where users are bounded. It is limited as in `tail_factor`, unless ``upper`` is farther.
    """
    if not upper > median:
        return upper
    share = min(beyond, 0.5)
    index = max(LEAST_INDEX, math.log(0.5 / share) / math.log(upper / median))
    balanced = upper * math.pow(share / ((index - 1.0) * level), 1.0 / index)
    heavy = heaviness(median, upper, n_features, beyond) * median
    most = growth * max(heavy, _median_of_others(upper, share))
    return min(balanced, max(upper, most))


def tail_radius(median: float, upper: float, growth: float) -> float:
    """Compute a radius from two released quantiles of the users' distances: ``upper``²/``median``, within limits.

    The ratio of the quantiles measures the tail, and the ball goes as far again. It is at least ``upper``, so that the
    bias vanishes as the rank does, and at most ``growth`` (`quiet_growth`) medians unless ``upper`` is.
    """
    return max(upper, median, min(upper * (upper / median), growth * median))


def tail_rank(epsilon: float, n_candidates: float) -> int:
    """Return the number of users above the upper quantile that a selection at this cost decides.

    A candidate beyond all users costs as much as the rank, against nothing for the right one; the exponent of the
    mechanism is half of the cost times that.
    """
    # A median of n users costs n/2 less than a candidate beyond all: the same as a rank of n/2.
    return max(1, math.ceil(0.5 * selection_epsilon(1.0, n_candidates, monotone=False) / epsilon))
