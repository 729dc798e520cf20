"""Exact δ of compositions of pure events in high precision: no grid, no transform, no float64.

The loss of the dominating pair has, up to a factor e^{x/2}, a symmetric law of two atoms and a constant density
between them. As functions, both are sums of truncated powers (x − c)₊^{j−1}/(j − 1)! (j = 0: an atom at c), which
convolve by adding c and j. So a composition is a finite sum of such terms, integrated in closed form.
"""

import mpmath as mp

from skprivate.privacy import BoundedRangeEvent, LaplaceEvent

mp.mp.dps = 100


def _terms(event):
    epsilon = mp.mpf(event.epsilon)
    if isinstance(event, LaplaceEvent):
        atom, density = mp.exp(-epsilon / 2) / 2, mp.exp(-epsilon / 2) / 4
    elif isinstance(event, BoundedRangeEvent):
        atom, density = 0, 1 / (4 * mp.sinh(epsilon / 2))
    else:
        atom, density = 1 / (2 * mp.cosh(epsilon / 2)), 0
    return [(1, 0, atom), (-1, 0, atom), (-1, 1, density), (1, 1, -density)]


def compose(events):
    """{(place, order): coefficient} of all events together."""
    law = {(mp.mpf(0), 0): mp.mpf(1)}
    for event, count in events:
        power = {(0, 0): mp.mpf(1)}
        for _ in range(count):
            longer = {}
            for (place, order), weight in power.items():
                for sign, step, factor in _terms(event):
                    key = place + sign, order + step
                    longer[key] = longer.get(key, 0) + weight * factor
            power = {key: weight for key, weight in longer.items() if weight}
        joint = {}
        for (place, order), weight in law.items():
            for (steps, more), factor in power.items():
                key = place + steps * mp.mpf(event.epsilon), order + more
                joint[key] = joint.get(key, 0) + weight * factor
        law = joint
    return law


def _integral(place, order, rate, low, high):
    def primitive(x):
        return mp.exp(rate * x) * sum(
            (-1) ** m * (x - place) ** (order - 1 - m) / (mp.factorial(order - 1 - m) * rate ** (m + 1))
            for m in range(order)
        )

    return primitive(high) - primitive(low)


def exact_delta(events, epsilon, law=None):
    """δ(ε) of the dominating pair of pure events."""
    law = compose(events) if law is None else law
    epsilon, half = mp.mpf(epsilon), mp.mpf(1) / 2
    top = sum(mp.mpf(event.epsilon) * count for event, count in events)
    total = mp.mpf(0)
    for (place, order), weight in law.items():
        if order == 0 and place > epsilon:
            total += weight * (mp.exp(place / 2) - mp.exp(epsilon - place / 2))
        elif order > 0 and (low := max(epsilon, place)) < top:
            total += weight * (
                _integral(place, order, half, low, top) - mp.exp(epsilon) * _integral(place, order, -half, low, top)
            )
    return total


def binomial_delta(n, up, down, probability, epsilon):
    """δ(ε) of n losses that are ``up`` with that probability and else ``down`` (as `mpmath.mpf`)."""
    epsilon, total = mp.mpf(epsilon), mp.mpf(0)
    odds, term = (1 - probability) / probability, probability**n
    factor, growth = mp.exp(epsilon - n * up), mp.exp(up - down)
    for k in range(n, -1, -1):
        if factor >= 1:
            break
        total += term * (1 - factor)
        term, factor = term * k / (n - k + 1) * odds, factor * growth
    return total


def gaussian_delta(mu, epsilon):
    """δ(ε) of N(0, 1) against N(μ, 1)."""
    with mp.workdps(450):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
