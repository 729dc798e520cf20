"""From events to (ε, δ), and back: the composition of dp-accounting, fed with exact profiles.

Three valid bounds are computed where they apply and the smallest is reported:

* the sum of pure ε (always adaptive, δ = 0);
* the privacy loss distribution (PLD): Gaussians are merged into one in closed form, selection enters by the exact
  hockey-stick profile of bounded-range mechanisms, other pure mechanisms as randomised response;
* zero-concentrated DP: Σρ converted by dp-accounting's RDP accountant.

The neighbouring relation never enters here: noise is scaled to the sensitivity of the relation in force, so the
pair that dominates a Gaussian is always N(0, z²) against N(1, z²).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from skprivate.privacy._events import (
    BoundedRangeEvent,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    ZeroConcentratedEvent,
    count_events,
)

Counts = frozenset[tuple[PrivacyEvent, int]]

# Share of δ that may pay for the lattice of the discrete Gaussian; the smallest that suffices is used.
_LATTICE_SHARES = (0.0, 2.0**-20, 2.0**-10, 2.0**-4, 0.5)
_ORDERS = 1 + np.logspace(-4, 6, 400)


def compose_epsilon(events: Events, delta: float = 0.0) -> float:
    """Smallest proven ε of drawing all ``events``, at the given δ.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What is drawn, with multiplicities. The parameters are fixed beforehand; the data that each event sees may
        depend on earlier results.
    delta : float in [0, 1)
        Probability by which the bound may fail. With 0 only pure events have a finite price.

    Returns
    -------
    float
        An upper bound on the true ε, ``inf`` if none is known; never below it.

    Examples
    --------
    >>> from skprivate.privacy import GaussianEvent, compose_epsilon
    >>> round(compose_epsilon([(GaussianEvent(10.0), 100)], 1e-6), 3)
    4.887
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")
    return _compose_epsilon(frozenset(count_events(events).items()), float(delta))


def compose_delta(events: Events, epsilon: float) -> float:
    """Smallest proven δ of drawing all ``events``, at the given ε.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What is drawn, with multiplicities.
    epsilon : float >= 0
        The privacy loss whose excess δ bounds.

    Returns
    -------
    float
        An upper bound on the true δ, at most 1.

    Examples
    --------
    >>> from skprivate.privacy import LaplaceEvent, compose_delta
    >>> compose_delta([(LaplaceEvent(1.0), 1)], 1.0)
    0.0
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}.")
    counts = frozenset(count_events(events).items())
    if _pure_sum(counts) <= epsilon:
        return 0.0
    bounds = [1.0, _zcdp_delta(_rho_sum(counts), epsilon)]
    slack = (1 + math.exp(min(epsilon, 700.0))) * _total_variation(counts)
    if _only_gaussian(counts):
        bounds.append(_gaussian_delta(_gaussian_mu(counts), epsilon) * (1 + 1e-9) + slack)
    elif _has_pld(counts):
        bounds.append(float(_pld(counts).get_delta_for_epsilon(epsilon)) + slack)
    return min(bounds)


def upper_bound_epsilon(events: Events, delta: float) -> float:
    """The cheap bounds of `compose_epsilon` alone: the pure sum and zCDP, in microseconds."""
    counts = frozenset(count_events(events).items())
    return min(_pure_sum(counts), _zcdp_epsilon(_rho_sum(counts), delta))


def filter_epsilon(events: Events, delta: float) -> float:
    """Smallest ε proven for draws whose number and kind depend on earlier results.

    The sum of pure ε and zCDP are privacy filters: they stay valid where every next event is chosen after looking at
    results. So are Gaussians alone, whose squared inverse multipliers add up.

    Parameters
    ----------
    events : mapping or iterable of (PrivacyEvent, int)
        What has been drawn and what is asked for now.
    delta : float in [0, 1)

    Returns
    -------
    float

    Examples
    --------
    >>> from skprivate.privacy import PureEvent, filter_epsilon
    >>> filter_epsilon([(PureEvent(0.5), 2)], 1e-6)
    1.0
    """
    counts = frozenset(count_events(events).items())
    best = upper_bound_epsilon(events, delta)
    return min(best, _compose_epsilon(counts, delta)) if counts and _only_gaussian(counts) else best


def rho_total(events: Events) -> float:
    """Sum of the zCDP prices; ``inf`` if an event has none."""
    return _rho_sum(frozenset(count_events(events).items()))


@lru_cache(maxsize=256)
def gaussian_noise_multiplier(
    epsilon: float,
    delta: float,
    n_draws: int = 1,
    *,
    size: int = 1,
    other: tuple[tuple[PrivacyEvent, int], ...] = (),
) -> float:
    """Smallest noise multiplier for which Gaussian draws and other events stay within (ε, δ).

    Parameters
    ----------
    epsilon, delta : float
        The budget; ε > 0 and δ in (0, 1).
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

    Examples
    --------
    >>> from skprivate.privacy import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-6, 100), 2)
    42.25
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise ValueError(f"epsilon must be positive and delta in (0, 1), got {epsilon!r} and {delta!r}.")
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws!r}.")
    if other and compose_epsilon(other, delta) >= epsilon:
        raise ValueError(
            f"the other events leave nothing of the budget ({epsilon!r}, {delta!r}) for Gaussian noise."
        )

    def cost(multiplier: float) -> float:
        return compose_epsilon([(GaussianEvent(multiplier, size), n_draws), *other], delta)

    # The Gaussians alone need at least this much; other events only push upwards.
    share = (1 - 2.0**-20) * delta
    multiplier = math.sqrt(n_draws) / _gaussian_mu_for(epsilon, share)
    if other:
        upper = multiplier
        while cost(upper) > epsilon:
            upper *= 1.5
        if upper > multiplier:
            multiplier = math.exp(
                brentq(
                    lambda x: cost(math.exp(x)) - epsilon,
                    math.log(multiplier) - 0.01,
                    math.log(upper),
                    xtol=1e-4,
                )
            )
    # A root finder may stop on the wrong side: step upwards until the budget holds.
    step = 1e-12
    while cost(multiplier) > epsilon:
        multiplier *= 1 + step
        step *= 2
    return multiplier


@lru_cache(maxsize=512)
def _compose_epsilon(counts: Counts, delta: float) -> float:
    if not counts:
        return 0.0
    best = _pure_sum(counts)
    if delta == 0:
        return best
    best = min(best, _zcdp_epsilon(_rho_sum(counts), delta))
    if not (_only_gaussian(counts) or _has_pld(counts)):
        return best
    variation = _total_variation(counts)
    for share in _LATTICE_SHARES:
        target = (1 - share) * delta
        if _only_gaussian(counts):
            epsilon = _gaussian_epsilon(_gaussian_mu(counts), target)
        else:
            epsilon = max(0.0, float(_pld(counts).get_epsilon_for_delta(target)))
        # d_TV between drawn and priced mechanism: δ grows by (1 + e^ε)·d_TV.
        if (1 + math.exp(min(epsilon, 700.0))) * variation <= share * delta:
            return min(best, epsilon)
    return best


def _pure_sum(counts: Counts) -> float:
    return math.fsum(event.pure_epsilon * count for event, count in counts)


def _rho_sum(counts: Counts) -> float:
    return math.fsum(event.rho * count for event, count in counts)


def _total_variation(counts: Counts) -> float:
    return math.fsum(event.total_variation * count for event, count in counts)


def _zcdp_epsilon(rho: float, delta: float) -> float:
    if not math.isfinite(rho) or delta <= 0:
        return math.inf
    return max(0.0, float(rdp_privacy_accountant.compute_epsilon(_ORDERS, _ORDERS * rho, delta)[0]))


def _zcdp_delta(rho: float, epsilon: float) -> float:
    if not math.isfinite(rho):
        return 1.0
    return min(1.0, float(rdp_privacy_accountant.compute_delta(_ORDERS, _ORDERS * rho, epsilon)[0]))


# --- Gaussians: n draws with multipliers z_i are exactly one with 1/z² = Σ 1/z_i² ----------------------------------


def _only_gaussian(counts: Counts) -> bool:
    return all(isinstance(event, GaussianEvent) for event, _ in counts)


def _gaussian_mu(counts: Counts) -> float:
    return math.sqrt(
        math.fsum(
            count / event.noise_multiplier**2 for event, count in counts if isinstance(event, GaussianEvent)
        )
    )


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of N(0, 1) against N(μ, 1): Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Balle and Wang 2018, theorem 8)."""
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(log_first) * -math.expm1(min(0.0, log_second - log_first))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    if _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(2 / delta))
    epsilon = float(brentq(lambda e: _gaussian_delta(mu, e) - delta, 0.0, upper, xtol=1e-15, rtol=1e-14))
    step = 1e-14
    while _gaussian_delta(mu, epsilon) * (1 + 1e-9) > delta:
        epsilon = epsilon * (1 + step) + step * mu
        step *= 2
    return epsilon


def _gaussian_mu_for(epsilon: float, delta: float) -> float:
    upper = 1.0
    while _gaussian_delta(upper, epsilon) < delta:
        upper *= 2
    lower = upper
    while _gaussian_delta(lower, epsilon) > delta:
        lower /= 2
    if lower == upper:
        return lower
    return float(brentq(lambda mu: _gaussian_delta(mu, epsilon) - delta, lower, upper, rtol=1e-13))


# --- privacy loss distributions -------------------------------------------------------------------------------------


def _has_pld(counts: Counts) -> bool:
    return not any(isinstance(event, ZeroConcentratedEvent) for event, _ in counts)


@lru_cache(maxsize=64)
def _pld(counts: Counts) -> Any:
    """Composed pessimistic PLD; the interval follows the scale of the answer, not of the events."""
    scale = min(_pure_sum(counts), _zcdp_epsilon(_rho_sum(counts), 1e-6))
    interval = 10.0 ** math.floor(math.log10(min(max(scale, 1e-2) / 2e3, 1e-3)))
    composed = privacy_loss_distribution.identity(value_discretization_interval=interval)
    mu = _gaussian_mu(counts)
    if mu > 0:
        composed = composed.compose(
            privacy_loss_distribution.from_gaussian_mechanism(
                1 / mu, value_discretization_interval=interval, use_connect_dots=True
            )
        )
    for event, count in sorted(counts, key=lambda pair: repr(pair[0])):
        if isinstance(event, GaussianEvent):
            continue
        single = _single_pld(event, interval)
        composed = composed.compose(single.self_compose(count) if count > 1 else single)
    return composed


def _single_pld(event: PrivacyEvent, interval: float) -> Any:
    epsilon = event.pure_epsilon
    if isinstance(event, LaplaceEvent):
        return privacy_loss_distribution.from_laplace_mechanism(
            1 / epsilon, value_discretization_interval=interval, use_connect_dots=True
        )
    if isinstance(event, BoundedRangeEvent):
        return privacy_loss_distribution.PrivacyLossDistribution(_bounded_range_pmf(epsilon, interval))
    return privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=interval
    )


def bounded_range_delta(eta: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest hockey-stick divergence at ``epsilon`` of a mechanism whose losses span at most ``eta``.

    For losses in [t − η, t] it is (1 − e^{t−η})(1 − e^{ε−t})/(1 − e^{−η}); the maximum over t is at t = (ε + η)/2.

    Parameters
    ----------
    eta : float
        The range η > 0: largest loss minus smallest loss.
    epsilon : ndarray
        Where to evaluate.

    Returns
    -------
    delta : ndarray
        δ(ε), of the shape of ``epsilon``.
    """
    inside = np.square(np.expm1((np.minimum(epsilon, eta) - eta) / 2)) / -math.expm1(-eta)
    return np.where(epsilon < -eta, -np.expm1(np.minimum(epsilon, 0)), inside)


def _bounded_range_pmf(eta: float, interval: float) -> Any:
    steps = math.ceil(eta / interval)
    grid = np.arange(-steps, steps + 1)
    deltas = np.clip(bounded_range_delta(eta, np.asarray(grid * interval, dtype=np.float64)), 0.0, 1.0)
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, np.minimum.accumulate(deltas))
