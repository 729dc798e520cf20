"""How the budget of a fit is divided over columns and stages; public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from skprivate.privacy import BoundedRangeEvent, GaussianEvent, PrivacyEvent, PureEvent, compose_epsilon

Plan = tuple[tuple[PrivacyEvent, int], ...]

#: Sums get one part in four of ρ, and of a pure budget as much as each selection: it is the selections that fail where
#: units are few.
_SUMS = 0.25
#: A selection at ε needs about this many units times 1/ε, the sums this many standard deviations.
_PER_SELECTION, _PER_NOISE = 55.0, 4.0


class Prices(NamedTuple):
    """What the draws of every column cost.

    Parameters
    ----------
    selection : float
        ε of each selection.
    laplace : float or None
        ε of the sums, with Laplace noise.
    noise_multiplier : float or None
        Of the sums, with Gaussian noise.
    """

    selection: float
    laplace: float | None = None
    noise_multiplier: float | None = None


@lru_cache(maxsize=256)
def selection_price(count: int, epsilon: float, delta: float) -> float:
    """Largest ε of each of so many selections by the exponential mechanism.

    Parameters
    ----------
    count : int
    epsilon, delta : float
        The budget; with δ > 0, many selections cost less than their sum.
    """
    pure = epsilon / count
    if delta == 0:
        return pure
    start = math.sqrt(8 * _rho(epsilon, delta) / count)
    return max(pure, _largest(lambda e: ((BoundedRangeEvent(e), count),), start, epsilon, delta))


@lru_cache(maxsize=256)
def moment_prices(
    n_columns: int, n_selections: int, sensitivities: tuple[float, float], epsilon: float, delta: float
) -> Prices:
    """Prices of ``n_selections`` selections and one vector of noisy sums for every column.

    Parameters
    ----------
    n_columns, n_selections : int
    sensitivities : (float, float)
        ℓ1 and ℓ2 sensitivity of the sums, in units.
    epsilon, delta : float

    Returns
    -------
    Prices
        Those with which fewer units suffice.
    """
    per_column = epsilon / n_columns
    each_share = per_column / (n_selections + 1)
    pure = Prices(each_share, laplace=each_share)
    if delta == 0:
        return pure
    share = _SUMS if n_selections else 1.0

    def prices(root: float) -> Prices:
        each = math.sqrt(8 * (1 - share) / max(n_selections, 1)) * root
        return Prices(each, noise_multiplier=1 / (math.sqrt(2 * share) * root))

    def plan(root: float) -> Plan:
        return moment_events(prices(root), n_columns, n_selections)

    start = math.sqrt(_rho(epsilon, delta) / n_columns)
    approximate = prices(_largest(plan, start, epsilon, delta))
    assert approximate.noise_multiplier is not None

    def needed(found: Prices, noise: float) -> float:
        return max(_PER_SELECTION / found.selection if n_selections else 0.0, _PER_NOISE * noise)

    with_laplace = needed(pure, math.sqrt(2) * sensitivities[0] / each_share)
    with_gaussian = needed(approximate, sensitivities[1] * approximate.noise_multiplier)
    return approximate if with_gaussian < with_laplace else pure


def moment_events(prices: Prices, n_columns: int, n_selections: int) -> Plan:
    """Events of `moment_prices` for all columns."""
    noise: PrivacyEvent
    if prices.laplace is not None:
        noise = PureEvent(prices.laplace, "Laplace")
    else:
        assert prices.noise_multiplier is not None
        noise = GaussianEvent(prices.noise_multiplier, 3)
    events: Plan = ((noise, n_columns),)
    if n_selections:
        events = ((BoundedRangeEvent(prices.selection), n_selections * n_columns), *events)
    return events


def _rho(epsilon: float, delta: float) -> float:
    """About the ρ of zCDP that (ε, δ) buys: a place to start from."""
    root = math.sqrt(math.log(1 / delta))
    return (math.sqrt(root * root + epsilon) - root) ** 2


def _largest(plan: Callable[[float], Plan], start: float, epsilon: float, delta: float) -> float:
    """A scale at which the composed price of a plan is just within the budget."""
    scale, within, beyond = start, 0.0, math.inf
    for _ in range(40):
        spent = compose_epsilon(plan(scale), delta)
        if spent <= epsilon:
            within = max(within, scale)
            if spent > 0.995 * epsilon:
                break
        else:
            beyond = min(beyond, scale)
        # In proportion; but a large δ pays for a small scale alone, and beyond it the price rises steeply.
        scale *= 0.998 * epsilon / max(spent, epsilon / 2)
        if not within < scale < beyond:
            scale = (within + beyond) / 2
    return within
