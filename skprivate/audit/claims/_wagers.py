"""Bets against a claim: what a gambler wins whose claim is true can be bounded, at any time and after any choice.

Every fit draws fair coins s₁, …, s_m; coin i decides one unit of its input. The auditor sees the output t and, for each
coin in turn, all coins before it; so whatever it bets may depend on these, on former fits and on the clock. A
wealth that
starts at 1 and is a nonnegative supermartingale under the claim exceeds 1/α at any time with probability at most α
(Ville's inequality); so does the average of several such wealths.

``ε, δ = 0``
    Given t and the coins before it, coin i has odds within e^±ε (Bayes' rule on neighbouring inputs, then
    averaging over
    the later coins). A bet that a coin falls on one side multiplies the wealth by q/p if it does and by (1 − q)/(1 − p)
    otherwise, with p = e^ε/(1 + e^ε) and any q ≥ p: its expectation is at most 1. All coins of a fit can be bet on, one
    after the other.

a curve ``δ(·)``
    A guess of coin i, or none, pays Y = 1 if right and −λ if wrong, λ = e^{ε'}. With z = E[Y | t, earlier coins], the
    curve allows E[z⁺] ≤ δ(ε'): guessing where z > 0 is an attack on coin i alone. For one coin a fit, 1 + c(Y
    − δ) with 0 ≤ c ≤
    1/(λ + δ) has expectation ≤ 1. For many, the average Z of Y over the coins exceeds the average of z⁺ only by a
    martingale's last value M, and E[M⁺] = E|M|/2 ≤ (1 + λ)√r/(4m) = ν for r guesses. So E[Z⁺] ≤ δ + ν, and 1 − κ +
    κ Z⁺/(δ + ν) has expectation ≤ 1. Nothing is assumed about the noise of different coordinates: a mechanism may well
    give away all coins of a few fits and nothing in the others, so that many coins in *one* fit prove little
    about δ > 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from skprivate.audit._epsilon import _gaussian_parameter
from skprivate.privacy import (
    ApproximateEvent,
    GaussianEvent,
    PrivacyEvent,
    ZeroConcentratedEvent,
    compose_delta,
)
from skprivate.privacy.accounting import gaussian_delta

__all__ = ["Claim", "Forecast", "Wagers", "claimed_curve", "delta_of_group", "family", "of_group"]

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_KELLY = np.array([0.03, 0.1, 0.3, 0.9])
#: From so many coins a fit, their average says more than a single payment.
_MANY = 32


class Claim(NamedTuple):
    """What one coin may give away.

    Attributes
    ----------
    epsilon : float
        Where δ is 0: bound on the odds of a coin. Infinite otherwise.
    deltas : ndarray
        The curve δ(ε') at the ε' of the bets.
    """

    epsilon: float
    deltas: Array


def _approximate(epsilon: float, delta: float, at: float) -> float:
    """The worst (ε, δ)-DP pair: all is revealed with probability δ, else randomised response."""
    if at >= epsilon:
        return delta
    return delta + (1.0 - delta) * -math.expm1(at - epsilon) / (1.0 + math.exp(-epsilon))


def ratios(epsilon: float) -> Array:
    """The ε' at which curves are tested."""
    return epsilon * np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])


def of_group(event: PrivacyEvent, units: int) -> PrivacyEvent:
    """What an event claims of two inputs that differ in so many units, each of which changes one at a time.

    Privacy losses along the chain of inputs add up, and so do the lengths of their ranges; trade-off curves are
    applied one after the other, which for Gaussians adds up μ (Dong, Roth, Su 2022, theorem 2.14), and in zCDP
    costs the square.
    """
    if units == 1:
        return event
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / units, event.size)
    if isinstance(event, ZeroConcentratedEvent):
        return ZeroConcentratedEvent(event.rho * units**2, event.mechanism)
    if isinstance(event, ApproximateEvent):
        delta = min(delta_of_group(event.epsilon, event.delta, units), 1.0 - 2.0**-50)
        return ApproximateEvent(event.epsilon * units, delta, event.mechanism)
    return replace(event, epsilon=event.pure_epsilon * units)  # type: ignore[call-arg]


def delta_of_group(epsilon: float, delta: float, units: int) -> float:
    """δ at ``units·ε``: Σ_j δe^{jε}."""
    return min(1.0, delta * sum(math.exp(min(j * epsilon, 700.0)) for j in range(units)))


def claimed_curve(epsilon: float, delta: float, events: Any, at: Array, units: int = 1) -> Claim:
    """The claim itself for so many units: (ε, δ), and the privacy profile of its events where they are known."""
    delta = delta_of_group(epsilon, delta, units)
    curve = [_approximate(units * epsilon, delta, float(x)) for x in at]
    if events:
        together = [(of_group(event, units), count) for event, count in events]
        curve = [min(y, compose_delta(together, float(x))) for x, y in zip(at, curve, strict=True)]
    return Claim(units * epsilon if delta == 0.0 else math.inf, np.array(curve))


def family(name: str, epsilons: Array, delta: float, at: Array, units: int = 1) -> list[Claim]:
    """Claims of growing ε at one δ: any mechanism ("pure", "approximate"), or Gaussian noise."""
    claims = []
    for epsilon in epsilons:
        if name == "gaussian":
            mu = units * _gaussian_parameter(float(epsilon), delta)
            claims.append(Claim(math.inf, np.array([gaussian_delta(mu, float(x)) for x in at])))
        else:
            claims.append(claimed_curve(float(epsilon), delta, (), at, units))
    return claims


class Forecast(NamedTuple):
    """What is believed of the coins of one fit: an expert a row, the probability that a coin shows heads."""

    heads: Array
    #: For each ε' of the curve: which share of the coins is worth a guess; learned beforehand.
    shares: Array


class Wagers:
    """The logarithms of all wealths of one design, for a list of claims."""

    def __init__(self, claims: list[Claim], at: Array, n_experts: int):
        self.odds = np.array([claim.epsilon for claim in claims])
        self.deltas = np.array([claim.deltas for claim in claims])
        self.ratio = np.exp(at)
        self.on_odds = np.zeros((len(claims), n_experts))
        self.on_curve = np.zeros((len(claims), at.size, _KELLY.size))
        # Half on guesses of every coin, which tell most of Gaussian noise; half on odds, where the claim bounds them.
        weights = np.where(np.arange(at.size) == 0, 0.5, 0.5 / max(at.size - 1, 1)) / _KELLY.size
        curve = np.repeat(weights, _KELLY.size) * np.where(np.isinf(self.odds), 1.0, 0.5)[:, None]
        odds = np.repeat(np.where(np.isinf(self.odds), 0.0, 0.5 / n_experts)[:, None], n_experts, axis=1)
        self._weights = np.hstack([odds, curve])

    def favour(self, practice: Wagers) -> None:
        """Before the first bet: half of the wealth goes to where it would have been after practice."""
        after = np.where(self._weights > 0.0, practice._all(), -np.inf)
        self._weights = 0.5 * self._weights + 0.5 * np.exp(after - logsumexp(after, axis=1, keepdims=True))

    def _all(self) -> Array:
        return np.hstack([self.on_odds, self.on_curve.reshape(len(self.odds), -1)])

    def settle(self, forecast: Forecast, coins: Mask, *, of_one_fit: bool) -> None:
        """Bet on coins, all of one fit or each of a fit of its own, and look at them."""
        sure = np.maximum(forecast.heads, 1.0 - forecast.heads)
        right = (forecast.heads > 0.5) == coins
        self._settle_odds(sure, right)
        if of_one_fit and coins.size >= _MANY:
            self._settle_averages(sure[-1], right[-1], forecast.shares)
        else:
            self._settle_payments(sure[-1], right[-1], of_one_fit and coins.size > 1)

    def _settle_odds(self, sure: Array, right: Mask) -> None:
        p = 1.0 / (1.0 + np.exp(-self.odds))
        live = np.flatnonzero(p < 1.0)
        for expert, (belief, hit) in enumerate(zip(sure, right, strict=True)):
            q, place = np.unique(belief, return_inverse=True)
            hits = np.bincount(place, hit, q.size)
            misses = np.bincount(place, ~hit, q.size)
            with np.errstate(divide="ignore"):
                gain = hits * np.log(q / p[live, None]) + misses * np.log((1.0 - q) / (1.0 - p[live, None]))
            self.on_odds[live, expert] += np.where(q > p[live, None], gain, 0.0).sum(axis=1)

    def _settle_payments(self, sure: Array, right: Mask, together: bool) -> None:
        """1 + c(Y − δ), for each coin or for the average of a few."""
        for k, ratio in enumerate(self.ratio):
            delta = self.deltas[:, k, None]
            stake = 0.999 * _KELLY / (ratio + delta)
            guessed = sure > ratio / (1.0 + ratio)
            hits, misses = int((guessed & right).sum()), int((guessed & ~right).sum())
            if together:
                self.on_curve[:, k] += np.log1p(stake * ((hits - ratio * misses) / sure.size - delta))
                continue
            self.on_curve[:, k] += hits * np.log1p(stake * (1.0 - delta))
            self.on_curve[:, k] += misses * np.log1p(stake * (-ratio - delta))
            self.on_curve[:, k] += (sure.size - hits - misses) * np.log1p(-stake * delta)

    def _settle_averages(self, sure: Array, right: Mask, shares: Array) -> None:
        """1 − κ + κ Z⁺/(δ + ν): many coins."""
        m = sure.size
        order = np.argsort(-sure, kind="stable")
        for k, ratio in enumerate(self.ratio):
            r = round(shares[k] * m)
            if r == 0:
                continue
            hit = right[order[:r]]
            mean = max(0.0, (hit.sum() - ratio * (~hit).sum()) / m)
            slack = (1.0 + ratio) * math.sqrt(r) / (4.0 * m)
            self.on_curve[:, k] += np.log1p(_KELLY * (mean / (self.deltas[:, k, None] + slack) - 1.0))

    def log_wealth(self) -> Array:
        """For each claim: the average of all wealths, by weights that were fixed before the first bet."""
        return np.asarray(logsumexp(self._all(), axis=1, b=self._weights))
