"""How far from their centre users may lie before they are pulled in: radii that grow with what the noise allows.

A ball of a fixed number of median distances bounds the noise and leaves a bias, for skewed users, that no number of
users removes. A radius that grows, slower than the noise level ν falls, leaves neither in the limit.
"""

from __future__ import annotations

import math

from scipy.stats import chi

from skprivate.user_level._private_range import selection_epsilon

#: The ball may grow from a noise level of √d/96 on, where sums about a centre are in full use.
_ONSET = 96.0
#: Where the tail is heavier than that of normal users it may do so this many times as early.
_EARLIEST = 4.0


def clip_factor(level: float, least: float = 1.0) -> float:
    """Radius in units of the median distance, max(``least``, ν^−½), for mean-targeting sums at noise level ν.

    The noise of the mean is then about ν^½ median distances and vanishes with the number of users, as does the bias of
    any law with a finite mean. Where the tail can be looked at, `tail_radius` is better.
    """
    return max(least, 1.0 / math.sqrt(level)) if level > 0.0 else math.inf


def tail_radius(
    median: float, upper: float, level: float, n_features: int, beyond: float | None = None
) -> float:
    """Radius from two released quantiles of the users' distances: ``upper``²/``median``, within limits.

    The ratio of the quantiles is what the tail looks like so far, and the ball reaches as far again: 8 medians for
    normal numbers whose upper twentieth was found, 2 for normal vectors of ten, 40 for log-normal numbers. It is
    at least ``upper``, so that the bias vanishes as the rank does; and at most min(ν^−½, h√d/(96ν)) medians unless
    ``upper`` is: the second keeps the noise, radius times ν, from growing with the number of users. There h is 1, but
    where the share ``beyond`` of the users above ``upper`` is given the squared ratio of the quantiles to that of
    normal vectors, between 1 and 4: a heavy tail has more bias to lose than it costs noise.
    """
    heaviness = 1.0
    if beyond is not None and 0.0 < beyond < 0.5 and upper > median:
        normal = float(chi.isf(beyond, n_features) / chi.median(n_features))
        heaviness = min(_EARLIEST, max(1.0, (upper / median / normal) ** 2))
    most = max(1.0, min(clip_factor(level), heaviness * math.sqrt(n_features) / (_ONSET * level)))
    return max(upper, median, min(upper * (upper / median), most * median))


def tail_rank(epsilon: float, n_candidates: float) -> int:
    """Number of users above the upper quantile that a selection at this price decides.

    A candidate beyond all users costs as much as the rank, against nothing for the right one; the exponent of the
    mechanism is half of the price times that.
    """
    # A median of n users costs n/2 less than a candidate beyond all: the same as a rank of n/2.
    return max(1, math.ceil(0.5 * selection_epsilon(1.0, n_candidates, monotone=False) / epsilon))
