"""From events to (ε, δ), and back. Every bound is an upper bound in float64, not only on paper.

The smallest of these is reported, where they apply:

* the sum of pure ε (always adaptive, δ = 0);
* the exact curve of the Gaussian mechanism, into which all Gaussians merge (`gaussian_epsilon`);
* the privacy loss distribution of pure events beside a Gaussian (`tilted_loss`);
* Rényi moments by Chernoff's bound, where ρ-zCDP counts as a Gaussian with μ² = 2ρ;
* zero-concentrated DP: Σρ, converted in `epsilon_of_rho`;
* the sum of pure ε of some events and one of the other bounds for the rest.

The neighbouring relation never enters here: noise is scaled to the sensitivity of the relation in force, so the
pair that dominates a Gaussian is always N(0, z²) against N(1, z²).

A mechanism of which nothing but (ε, δ) is known is dominated by one that reveals everything with probability δ and is
randomised response of ε otherwise (Kairouz, Oh and Viswanath 2015). Of several, none reveals everything
with probability Π(1 − δᵢ), whatever the others draw. So, with R the events where each such event is its randomised
response,

    δ(ε) = 1 − Π(1 − δᵢ) + Π(1 − δᵢ) · δ_R(ε),

exactly for that pair. The probability of a failure is rounded up, what it leaves is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from skprivate._messages import at_least, delta_number, number, positive
from skprivate.privacy import _events
from skprivate.privacy._contributions import FloatArray
from skprivate.privacy._events import ApproximateEvent, Events, GaussianEvent, PrivacyEvent, PureEvent
from skprivate.privacy.accounting import _gaussian, _zcdp
from skprivate.privacy.accounting._loss_distribution import LARGE, TiltedLoss, chernoff, tilted_loss, top_loss

_ULP = 2.0**-50
Counts = frozenset[tuple[PrivacyEvent, int]]
#: Events of smaller ε are added up beside the others.
_LEAST_EPSILON = 1e-100
#: Beyond that many events the rounding of a transform leaves nothing to gain over Rényi moments.
_MOST_EVENTS = 10**9
_LARGEST_MULTIPLIER = 1e150
#: A gain in ε below this share of it is not looked for.
_GAIN = 1e-6
#: How much more of δ is held back for the lattice than was needed last, and how often that is looked at.
_RESERVED, _RESERVES = 1.001, 40


def split_failures(events: Events) -> tuple[float, dict[PrivacyEvent, int]]:
    """Return the probability that something is revealed, rounded up, and the events where nothing is."""
    counts = _events.count_events(events)
    failing = {
        event: count for event, count in counts.items() if isinstance(event, ApproximateEvent) and event.delta > 0
    }
    if not failing:
        return 0.0, counts
    rest = [(event, count) for event, count in counts.items() if event not in failing]
    rest += [(PureEvent(event.epsilon), count) for event, count in failing.items() if event.epsilon > 0]
    if len(failing) == 1 and sum(failing.values()) == 1:
        (event,) = failing
        return event.delta, _events.count_events(rest)
    logs = [count * math.log1p(-event.delta) for event, count in failing.items()]
    failure = -math.expm1(math.fsum(logs) * (1 + _ULP)) * (1 + _ULP)
    union = sum(Fraction(event.delta) * count for event, count in failing.items())
    # Two tiny δ must not cost more than their sum: the sum is exact, the product is not.
    bound = float(union) if Fraction(float(union)) >= union else math.nextafter(float(union), math.inf)
    return min(max(failure, 5e-324), bound, 1.0), _events.count_events(rest)


def delta_beside(failure: float, delta: float) -> float:
    """Compute the δ_R at which the whole has ``delta``, rounded down; negative if the failures alone have more."""
    if failure in (0.0, delta):
        return delta - failure
    left = (delta - failure) * (1 - _ULP) if delta > failure else -1.0
    return left if failure < 1 else -1.0


def delta_with(failure: float, delta: float) -> float:
    """Compute δ of the whole where the rest has ``delta``, rounded up."""
    if failure == 0 or delta == 0:
        return failure + delta
    return min((failure + (1 - failure) * delta) * (1 + _ULP), 1.0)


def compose_epsilon(events: Events, delta: float = 0.0) -> float:
    """Compute the smallest proven ε of drawing all ``events``, at the given δ.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What is drawn, with multiplicities. All of it is fixed beforehand; the data that each event sees may depend on
        earlier results. Where the number or the kind of the draws depends on results, use `filter_epsilon`.
    delta : float in [0, 1)
        Probability by which the bound may fail. With 0 only pure events have a finite cost.

    Returns
    -------
    float
        An upper bound on the true ε, ``inf`` if none is known; never below it.

    See Also
    --------
    compose_delta : Computes δ at a given ε.
    filter_epsilon : Composes draws chosen on the way.
    gaussian_noise_multiplier : Finds the noise for a budget.

    Examples
    --------
    >>> from skprivate.privacy import GaussianEvent, compose_epsilon
    >>> round(compose_epsilon([(GaussianEvent(10.0), 100)], 1e-6), 3)
    4.887
    """
    delta_number(delta)
    return _compose_epsilon(_counts(events), float(delta))


def compose_delta(events: Events, epsilon: float) -> float:
    """Compute the smallest proven δ of drawing all ``events``, at the given ε.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What is drawn, with multiplicities, fixed beforehand as in `compose_epsilon`.
    epsilon : float >= 0
        The privacy loss whose excess δ bounds.

    Returns
    -------
    float
        An upper bound on the true δ, in [0, 1]; 0 only if the pure sum is at most ε.

    See Also
    --------
    compose_epsilon : Computes ε at a given δ.

    Examples
    --------
    >>> from skprivate.privacy import LaplaceEvent, compose_delta
    >>> compose_delta([(LaplaceEvent(1.0), 1)], 1.0)
    0.0
    """
    at_least("epsilon", epsilon, 0)
    return _compose_delta(_counts(events), float(epsilon), sharp=True)


def rough_delta(events: Events, epsilon: float) -> float:
    """Compute a bound up to 1e-5 above `compose_delta`, ten times as fast."""
    return _compose_delta(_counts(events), float(epsilon))


def within_budget(events: Events, epsilon: float, delta: float) -> bool:
    """Check that the ``events`` are proven to fit (ε, δ): `compose_epsilon` at most ε, cheapest bounds first."""
    counts = _counts(events)
    return (
        _pure_sum(counts) <= epsilon
        or _cheap_epsilon(counts, delta) <= epsilon
        or _compose_epsilon(counts, float(delta)) <= epsilon
    )


def filter_epsilon(events: Events, delta: float = 0.0) -> float:
    """Compute the ε to compare with a budget where the number, kind and parameters of draws depend on earlier results.

    An analyst who draws only while ``filter_epsilon(drawn so far and the next, delta) <= epsilon``, for ε and δ fixed
    beforehand, is (ε, δ)-DP. Σε is such a privacy filter trivially, and so is Σρ for zCDP, with no loss against
    composition that is fixed beforehand (theorem 1 of [1]_; [2]_). Their minimum is one as well: in outcomes that
    end with Σε ≤ ε the privacy loss does not exceed ε, and in all others Σρ kept within `rho_of_epsilon` throughout.
    The tighter bounds of `compose_epsilon` are no filters, and an event of which (ε, δ) alone is known has no cost:
    to choose between it and another use of δ on the way would use δ twice.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What was drawn and what is to be drawn next, with multiplicities.
    delta : float in [0, 1)
        δ of the budget.

    Returns
    -------
    float
        The smaller of the pure sum and the sum in zCDP at δ.

    See Also
    --------
    compose_epsilon : Composes a fixed plan, more tightly.
    PrivacyLedger : Keeps such a budget.

    References
    ----------
    .. [1] V. Feldman and T. Zrnic (2021), "Individual privacy accounting via a Rényi filter".
    .. [2] J. Whitehouse, A. Ramdas, R. Rogers and Z. S. Wu (2023), "Fully-adaptive composition in differential
       privacy".

    Examples
    --------
    >>> from skprivate.privacy import LaplaceEvent, filter_epsilon
    >>> filter_epsilon([(LaplaceEvent(0.25), 4)], 1e-6)
    1.0
    """
    delta_number(delta)
    counts = _counts(events)
    return min(_pure_sum(counts), _zcdp.epsilon_of_rho(_rho_sum(counts), delta))


def rho_total(events: Events) -> float:
    """Sum the zCDP costs; ``inf`` if an event has none."""
    return _rho_sum(_counts(events))


@lru_cache(maxsize=256)
def gaussian_noise_multiplier(
    epsilon: float, delta: float, n_draws: int = 1, *, size: int = 1, other: tuple[tuple[PrivacyEvent, int], ...] = ()
) -> float:
    """Find the smallest noise multiplier for which Gaussian draws and other events stay within (ε, δ).

    Parameters
    ----------
    epsilon, delta : float
        The budget; ε > 0 and finite, δ in (0, 1).
    n_draws : int
        Number of Gaussian draws.
    size : int
        Numbers noised by each draw (matters below 1e-10 only, for the lattice).
    other : tuple of (PrivacyEvent, int)
        Further events of the same release.

    Returns
    -------
    float
        z, the standard deviation per unit of ℓ2 sensitivity. `compose_epsilon` of the whole is at most ``epsilon``.

    Raises
    ------
    ValueError
        If the other events alone exceed the budget.

    See Also
    --------
    compose_epsilon : Computes the ε of given noise.

    Examples
    --------
    >>> from skprivate.privacy import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-6, 100), 2)
    42.25
    """
    positive("epsilon", epsilon)
    number("delta", delta, "a number in (0, 1)", lambda value: 0 < value < 1)
    at_least("n_draws", n_draws, 1)

    def counts(multiplier: float) -> Counts:
        return _counts([(GaussianEvent(multiplier, size), n_draws), *other])

    def fits(multiplier: float) -> bool:
        return _compose_epsilon.__wrapped__(counts(multiplier), delta) <= epsilon

    # The Gaussians alone need at least this much; other events only push upwards.
    lower = math.sqrt(n_draws) / _gaussian.gaussian_mu(epsilon, (1 - 2.0**-20) * delta) * (1 + 1e-12)
    if fits(lower):
        return lower
    if not fits(_LARGEST_MULTIPLIER):
        raise ValueError(
            f"other must leave something of the budget ({epsilon!r}, {delta!r}) for Gaussian noise, got events that "
            "leave nothing."
        )
    factor, upper = 1.5, lower * 1.5
    while not fits(upper):
        lower, factor = upper, factor**2
        upper = min(upper * factor, _LARGEST_MULTIPLIER)

    def excess(log_multiplier: float) -> float:
        return math.log(_compose_delta(counts(math.exp(log_multiplier)), epsilon) / delta)

    ends = math.log(lower), math.log(upper)
    if excess(ends[1]) > 0:
        return upper
    multiplier = math.exp(float(brentq(excess, *ends, xtol=1e-7))) if excess(ends[0]) > 0 else lower
    # A root finder may stop on the wrong side: step upwards until the budget holds.
    step = 1e-7
    while multiplier < upper and not fits(multiplier):
        multiplier *= 1 + step
        step *= 2
    return min(multiplier, upper)


@lru_cache(maxsize=512)
def _compose_epsilon(counts: Counts, delta: float) -> float:
    if not counts:
        return 0.0
    failure, unfailing = split_failures(counts)
    if failure > 0:
        left = delta_beside(failure, delta)
        return math.inf if left < 0 else _compose_epsilon(frozenset(unfailing.items()), left)
    best = _cheap_epsilon(counts, delta)
    if delta == 0 or best == 0:
        return best
    large, rest = _split(counts, LARGE)
    if not large < best:
        return best
    kinds, mu = _kinds(rest), _gaussian_mu(rest)
    loss: TiltedLoss | None = None
    if kinds:
        tilts, logs = _chernoff(rest)
        bounds = (logs - math.log(delta)) / tilts
        place = int(np.argmin(bounds))
        best = min(best, add_up([large, max(float(bounds[place]), 0.0) * (1 + 2.0**-48) + 1e-320]))
        if not _has_loss(rest) or not large < best:
            return best
        # The largest loss alone has a δ above the given one until ε is almost the sum: nothing can be gained.
        top = top_loss(kinds) if mu == 0 else -math.inf
        if top - math.log(delta) > 1 and -math.log1p(-math.exp(math.log(delta) - top)) < _GAIN * best:
            return best
        loss = tilted_loss(kinds, mu, float(tilts[place]), best - large)
        if loss is None:
            return best
    elif not (rest and _only_gaussian(rest) and mu > 0):
        return best

    def at(target: float) -> float:
        return loss.epsilon(target, best) if loss else _gaussian.gaussian_epsilon(mu, target)

    epsilon, variation = at(delta), _total_variation(rest)
    if variation > 0:
        # d_TV between drawn and accounted mechanism: δ grows by (1 + e^ε)·d_TV, which is taken from δ beforehand.
        reserve = 0.0
        for _ in range(_RESERVES):
            needed = (1 + math.exp(min(epsilon, 700.0))) * variation
            if needed <= reserve * (1 - 2.0**-50):
                break
            # With less of δ ε is larger, and takes more of it: the least that is enough, up to a little. What is held
            # back may be less than the rounding of δ.
            reserve = needed * _RESERVED
            if reserve >= delta:
                return best
            epsilon = at(math.nextafter(delta - reserve, 0.0))
        else:
            return best
    return min(best, add_up([large, epsilon]))


@lru_cache(maxsize=512)
def _compose_delta(counts: Counts, epsilon: float, *, sharp: bool = False) -> float:
    failure, unfailing = split_failures(counts)
    if failure > 0:
        return delta_with(failure, _compose_delta(frozenset(unfailing.items()), epsilon, sharp=sharp))
    if _pure_sum(counts) <= epsilon:
        return 0.0
    pure, rest = _split(counts, 0.0)
    bounds = [1.0, _zcdp.delta_of_rho(_rho_sum(counts), epsilon)]
    if pure > 0 and (left := _left(epsilon, pure)) > 0:
        bounds.append(_zcdp.delta_of_rho(_rho_sum(rest), left))
    large, rest = _split(counts, LARGE)
    if (left := _left(epsilon, large)) >= 0:
        slack = (1 + math.exp(min(left, 700.0))) * _total_variation(rest)
        mu = _gaussian_mu(rest)
        if _only_gaussian(rest):
            bounds.append(_gaussian.gaussian_delta(mu, left) * (1 + 2.0**-50) + slack if mu else slack)
        elif kinds := _kinds(rest):
            tilts, logs = _chernoff(rest)
            logs = logs - tilts * left
            best = int(np.argmin(logs))
            bounds.append(_exp_up(float(logs[best]) + 2.0**-48 * (1 + tilts[best] * left)))
            loss = tilted_loss(kinds, mu, float(tilts[best]), left, sharp=sharp) if _has_loss(rest) else None
            if loss:
                bounds.append(_exp_up(loss.log_delta(left)) + slack)
    return min(bounds)


def _counts(events: Events) -> Counts:
    return frozenset(_events.count_events(events).items())


def _cheap_epsilon(counts: Counts, delta: float) -> float:
    total = _pure_sum(counts)
    if delta == 0 or total == 0:
        return total
    best = min(total, _zcdp.epsilon_of_rho(_rho_sum(counts), delta))
    if total == math.inf:
        pure, rest = _split(counts, 0.0)
        if pure > 0:
            best = min(best, add_up([pure, _zcdp.epsilon_of_rho(_rho_sum(rest), delta)]))
    return best


def _split(counts: Counts, limit: float) -> tuple[float, Counts]:
    """Sum ε of pure events above ``limit``, or so small that their squares underflow, and return the others."""
    rest = frozenset(
        pair for pair in counts if _LEAST_EPSILON <= pair[0].pure_epsilon <= limit or math.isinf(pair[0].pure_epsilon)
    )
    return _pure_sum(counts - rest), rest


def _kinds(counts: Counts) -> list[tuple[PrivacyEvent, int]]:
    """List the pure events, in an order that does not depend on hashes."""
    kinds = [pair for pair in counts if math.isfinite(pair[0].pure_epsilon)]
    return sorted(kinds, key=lambda pair: repr(pair[0]))


def _has_loss(counts: Counts) -> bool:
    """Check that every event is pure or Gaussian, and that there are not too many to convolve."""
    known = all(not isinstance(event, _events.ZeroConcentratedEvent) for event, _ in counts)
    return known and sum(count for _, count in counts) <= _MOST_EVENTS


def _only_gaussian(counts: Counts) -> bool:
    return all(isinstance(event, GaussianEvent) for event, _ in counts)


def _gaussian_mu(counts: Counts) -> float:
    """Merge Gaussian draws: those with multipliers z are exactly one with μ² = Σ 1/z²."""
    terms = (math.sqrt(count) / event.noise_multiplier for event, count in counts if isinstance(event, GaussianEvent))
    return math.hypot(*terms) * (1 + 2.0**-50)


@lru_cache(maxsize=64)
def _chernoff(counts: Counts) -> tuple[FloatArray, FloatArray]:
    """Compute `chernoff` of the events, which a curve asks for at each of its points."""
    # The Rényi bounds of events that are not pure are those of a Gaussian of μ.
    rho = _rho_sum(frozenset(pair for pair in counts if math.isinf(pair[0].pure_epsilon)))
    tilts, logs = chernoff(_kinds(counts), math.sqrt(2 * rho) * (1 + 2.0**-50))
    tilts.flags.writeable = logs.flags.writeable = False
    return tilts, logs


def _pure_sum(counts: Counts) -> float:
    return _sum_up((event.pure_epsilon, count) for event, count in counts)


def _rho_sum(counts: Counts) -> float:
    return _sum_up((event.rho, count) for event, count in counts)


def _total_variation(counts: Counts) -> float:
    return _sum_up((event.total_variation, count) for event, count in counts)


def _sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """Sum value × count exactly, then round up."""
    terms = list(terms)
    if any(math.isinf(value) for value, _ in terms):
        return math.inf
    if all(count == 1 for _, count in terms):
        return add_up([value for value, _ in terms])
    # Denominators of floats are powers of two: the largest serves all. (Fractions do the same ten times slower.)
    ratios = [(value.as_integer_ratio(), count) for value, count in terms]
    denominator = max((ratio[1] for ratio, _ in ratios), default=1)
    exact = sum(ratio[0] * (denominator // ratio[1]) * count for ratio, count in ratios)
    try:
        total = exact / denominator
    except OverflowError:
        return math.inf
    above, below = total.as_integer_ratio()
    return math.nextafter(total, math.inf) if above * denominator < exact * below else total


def add_up(values: list[float]) -> float:
    """Sum numbers, rounded up."""
    if len(values) == 1:
        return values[0]
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    if math.isfinite(total) and math.fsum([*values, -total]) > 0:
        return math.nextafter(total, math.inf)
    return total


def _left(epsilon: float, spent: float) -> float:
    """Subtract ``spent`` from ε, rounded down; negative where nothing is left."""
    left = epsilon - spent
    if math.isfinite(left) and math.fsum([epsilon, -spent, -left]) < 0:
        return math.nextafter(left, -math.inf)
    return left


def _exp_up(logarithm: float) -> float:
    value = math.exp(min(logarithm, 0.0))
    return min(math.nextafter(value * (1 + 2.0**-48), math.inf), 1.0)
