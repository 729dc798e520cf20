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
MOST_HEAVY = 4.0
#: Part of the sampling noise that the noise of a ball may have: of gradients, whose median is as good a centre as their
#: mean unless they have a tail, and of a mean that is meant to be one.
GRADIENT_NOISE_PART, MEAN_NOISE_PART = 0.5, 1.0
#: A ratio of distances that were found with noise, less about half its deviation.
SURELY = 0.9
#: Beyond this the nearer distance is as good as 0.
MOST_RATIO = 1e30
#: Median of the absolute value of a normal number.
NORMAL_MEDIAN = float(chi.median(1))
#: How far beyond the tail, towards what noise allows.
TOWARDS_QUIET = 0.6


def clip_factor(level: float, least: float = 1.0) -> float:
    """Radius in units of the median distance, max(``least``, ν^−½), for mean-targeting sums at noise level ν.

    The noise of the mean is then about ν^½ median distances and vanishes with the number of users, as does the bias of
    any law with a finite mean. Where the tail can be looked at, `tail_radius` is better.
    """
    return max(least, 1.0 / math.sqrt(level)) if level > 0.0 else math.inf


def quiet_growth(level: float, n_users: float, part: float) -> float:
    """Radius in units of the median distance at which the noise is ``part`` of the sampling noise.

    At noise level ν a ball of c median distances r leaves noise of norm c·ν·r on a mean, and the users themselves leave
    about r/√n. So c = part/(ν√n), from public numbers alone, costs at most part² of the risk that is there
    without privacy, whatever the users are like.
    """
    return part / (level * math.sqrt(n_users)) if level > 0.0 else math.inf


def heaviness(median: float, upper: float, n_features: int, beyond: float) -> float:
    """Squared ratio of two quantiles to that of normal vectors, ``beyond`` the share of the users above ``upper``.

    Between 1 and 4. A heavy tail has more bias to lose than it costs noise.
    """
    if not 0.0 < beyond < 0.5 or not upper > median > 0.0:
        return 1.0
    normal = float(chi.isf(beyond, n_features) / chi.median(n_features))
    return min(MOST_HEAVY, max(1.0, (upper / median / normal) ** 2))


def tail_factor(median: float, upper: float, growth: float, beyond: float) -> float:
    """Radius in units of the median of gradients, from two released quantiles of their norms.

    As far as ``upper``, and beyond it by as much as its ratio to the median exceeds that of normal numbers; at most
    `heaviness` times ``growth`` (`quiet_growth`). Users without a tail are clipped at their median as long as there is
    noise to save. Gradients are compared with normal numbers, not vectors: one feature may be larger than all others.
    Where most targets are predicted exactly the median says nothing of the others: their mean square is at least
    ``beyond`` times ``upper``², so that sampling noise is that of normal numbers of a median of .67·√beyond·upper.
    """
    if not upper > median > 0.0:
        return min(1.0, growth)
    heavy = heaviness(median, upper, 1, beyond)
    others = NORMAL_MEDIAN * math.sqrt(beyond) * upper / median
    return min(upper / median * math.sqrt(heavy), max(heavy, others) * growth)


def followed_radius(usual: float, far: float, quiet: float) -> float:
    """Radius from the distance ``far`` that a tenth of the users exceed, ``usual`` if they were normal.

    A tail is heavy by h = (.9 far/usual)², between 1 and 4. The ball holds √h times ``far``, or h times ``quiet``,
    whose noise is no louder than sampling, if that is nearer; and goes on from there towards what is quiet
    by the power .6, so that neither noise nor bias is left in the limit. Where most users are at one place, h is as
    large as .9 far/usual: then sampling is that of the others.
    """
    ratio = min(SURELY * far / usual, MOST_RATIO)
    heavy = min(MOST_HEAVY, max(1.0, ratio * ratio))
    tail, allowed = far * math.sqrt(heavy), quiet * max(heavy, ratio)
    return allowed if allowed <= tail else tail * (allowed / tail) ** TOWARDS_QUIET


def tail_radius(
    median: float,
    upper: float,
    level: float,
    n_features: int,
    beyond: float | None = None,
    quiet: float = 0.0,
) -> float:
    """Radius from two released quantiles of the users' distances: ``upper``²/``median``, within limits.

    The ratio of the quantiles is what the tail looks like so far, and the ball reaches as far again: 8 medians for
    normal numbers whose upper twentieth was found, 2 for normal vectors of ten, 40 for log-normal numbers. It is
    at least ``upper``, so that the bias vanishes as the rank does; and at most min(ν^−½, h√d/(96ν)) medians unless
    ``upper`` is: the second keeps the noise, radius times ν, from growing with the number of users. There h is 1, but
    where the share ``beyond`` of the users above ``upper`` is given the squared ratio of the quantiles to that of
    normal vectors, between 1 and 4: a heavy tail has more bias to lose than it costs noise.
    ``quiet`` medians (`quiet_growth`) are allowed in any case, and are the radius where no upper quantile was
    found, which ``upper`` = 0 says.
    """
    heavy = 1.0 if beyond is None else heaviness(median, upper, n_features, beyond)
    most = max(1.0, quiet, min(clip_factor(level), heavy * math.sqrt(n_features) / (_ONSET * level)))
    if upper == 0.0:
        return median * max(1.0, quiet)
    return max(upper, median, min(upper * (upper / median), most * median))


def tail_rank(epsilon: float, n_candidates: float) -> int:
    """Number of users above the upper quantile that a selection at this price decides.

    A candidate beyond all users costs as much as the rank, against nothing for the right one; the exponent of the
    mechanism is half of the price times that.
    """
    # A median of n users costs n/2 less than a candidate beyond all: the same as a rank of n/2.
    return max(1, math.ceil(0.5 * selection_epsilon(1.0, n_candidates, monotone=False) / epsilon))
