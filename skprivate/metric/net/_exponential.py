"""Exponential mechanisms on nets, as steep as their cost allows.

Lemma 4.1 takes half of ε for the exponent and leaves the other half for the normaliser. The cost of the normaliser is
public geometry and is computed here: the factor of the exponent is the largest one found at which the channel costs ε.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from skprivate.metric.net._spaces import make_affordable, representatives, separated_net, worst_error
from skprivate.privacy.noise import FloatArray, IntArray

#: Nets whose cost is computed from all outputs; the others are compared by an upper bound.
_FINALISTS = 3
#: Positive scales of nets that are compared.
_MOST_SCALES = 32
_COARSE_STEPS, _FINE_STEPS = 5, 20
# ε is lowered by this share before a channel is designed, so that its cost is at most ε after rounding.
_MARGIN = 1e-7


def exponential_channel(
    distances: FloatArray, net: IntArray, epsilon: float, *, factor: float = 0.5, weights: FloatArray | None = None
) -> FloatArray:
    """Make the channel P(y|x) ∝ w(y)·exp(−factor·ε·ρ(x, y)) for y in a net; zero outside of it.

    With the factor 1/2 it is ε-metrically private whatever the net (Lemma 4.1): the exponent changes by at most
    (ε/2) ρ(x, x′), and so does the logarithm of the normaliser. ``distances`` may be relaxed ones, 1-Lipschitz in x.
    """
    exponent = -factor * epsilon * distances[:, net]
    law = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    if weights is not None:
        law *= weights
    channel = np.zeros_like(distances)
    channel[:, net] = law / law.sum(axis=1, keepdims=True)
    return channel


def relaxed_distances(first: FloatArray, second: FloatArray, scale: float) -> FloatArray:
    """Compute ρ̃(x, y), the ρ1-distance from x to the states for which y has a loss up to ``scale`` (Theorem 5.1)."""
    relaxed = np.empty_like(first)
    # In an ultrametric the balls are a partition: few are different.
    columns: dict[bytes, FloatArray] = {}
    for y, ball in enumerate((second <= scale).T):
        key = np.packbits(ball).tobytes()
        if key not in columns:
            columns[key] = first[:, ball].min(axis=1)
        relaxed[:, y] = columns[key]
    return relaxed


def net_scales(distances: FloatArray) -> FloatArray:
    """List scales at which nets differ: 0 and some quantiles of the positive distances."""
    values = np.unique(distances[distances > 0])
    if values.size > _MOST_SCALES:
        values = values[np.linspace(0, values.size - 1, _MOST_SCALES).astype(int)]
    return np.concatenate([[0.0], values])


@dataclass(frozen=True, eq=False)
class NetMechanism:
    """Exponential mechanisms on one net, with one state for all that have the same law.

    ``exponents`` are the distances of the k different rows of states from the m points of the net, ``own`` the rows of
    the net's points. ``rho`` are the least distances between states with these rows (``inf`` on the diagonal), and
    ``gains`` bound max over y of ρ̃(x′, y) − ρ̃(x, y), as ρ(x, x′) does.
    """

    net: IntArray
    exponents: FloatArray
    own: IntArray
    rho: FloatArray
    gains: FloatArray

    @classmethod
    def on(cls, exponents: FloatArray, net: IntArray, distances: FloatArray) -> NetMechanism:
        """Make the mechanisms of a net; ``gains`` are the distances at first."""
        exponents = exponents[:, net][representatives(distances)]
        rows, labels = np.unique(exponents, axis=0, return_inverse=True)
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        gains = np.minimum.reduceat(distances[order], starts, axis=0)
        gains = np.minimum.reduceat(gains[:, order], starts, axis=1)
        rho = gains.copy()
        np.fill_diagonal(rho, np.inf)
        return cls(net, rows, labels[net], rho, gains)

    def refine(self) -> NetMechanism:
        """Replace ``gains`` by the smallest ones, in up to k²·m operations."""
        gains = self.gains.copy()
        point = dict(zip(self.own.tolist(), range(self.net.size), strict=True))
        for x, row in enumerate(self.exponents):
            # No output gains more than x itself, if that attains the bound.
            if x not in point or np.any(self.exponents[:, point[x]] < gains[x]):
                gains[x] = (self.exponents - row).max(axis=1)
        return replace(self, gains=gains)

    def equal_weights(self, slope: float) -> FloatArray:
        return np.ones(self.net.size)

    def levelling_weights(self, slope: float) -> FloatArray:
        """Find weights with which the normaliser is the same in all points of the net, and costs nothing there.

        They exist on a tree (inverses of ultrametric matrices are diagonally dominant), and elsewhere for steep
        exponents.
        """
        try:
            weights = np.linalg.solve(np.exp(-slope * self.exponents[self.own]), np.ones(self.net.size))
        except np.linalg.LinAlgError:
            return self.equal_weights(slope)
        weights = np.maximum(weights, 0.0)
        usable = np.isfinite(weights).all() and weights.max() > 0
        return np.asarray(weights / weights.max() if usable else self.equal_weights(slope))

    def cost(self, slope: float, weights: FloatArray) -> float:
        """Compute ε of the channel ∝ weights·exp(−slope·ρ̃) in float64, not rounded up: for searching only."""
        least = self.exponents.min(axis=1)
        law = np.exp(-slope * (self.exponents - least[:, None]))
        normaliser = np.log(law @ weights) - slope * least
        losses = slope * self.gains + normaliser - normaliser[:, None]
        return float((losses / self.rho).max(initial=0.0))

    def steepest(self, epsilon: float, weighting: Callable[[float], FloatArray], steps: int) -> float:
        """Find the largest factor of ε, by bisection, at which the cost is at most ``epsilon``."""

        def fits(factor: float) -> bool:
            slope = factor * epsilon
            return self.cost(slope, weighting(slope)) <= epsilon * (1 + 1e-12)

        if not fits(1.0):
            low, high = (0.5, 1.0) if fits(0.5) else (0.0, 0.5)
        elif not fits(1.0001):
            return 1.0
        else:  # only if accuracy has a metric of its own, or the net is a single point
            low = 1.0
            while low < 64 and fits(2 * low):
                low *= 2
            high = 2 * low
        for _ in range(steps):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


def best_exponential_channel(
    distances: FloatArray, epsilon: float, *, accuracy: FloatArray | None = None, relaxed: bool = False
) -> FloatArray:
    """Find the exponential mechanism with the smallest worst-case expected error, over nets, factors and weights.

    The scale Δ of the net is searched instead of set to the entropic scale with its constants: nets and errors are
    public geometry, and the choice can only improve on Lemma 4.1. ``accuracy`` is a second metric, or losses of states
    by answers, in which nets and errors are measured; ``relaxed`` uses ρ̃ in the exponent (Theorem 5.1).
    """
    second = distances if accuracy is None else accuracy
    budget = epsilon * (1 - _MARGIN)

    def candidates(mechanism: NetMechanism, exponents: FloatArray, steps: int) -> list[tuple[float, FloatArray]]:
        found = []
        for weighting in (mechanism.equal_weights, mechanism.levelling_weights):
            factor = mechanism.steepest(budget, weighting, steps)
            channel = exponential_channel(
                exponents, mechanism.net, budget, factor=factor, weights=weighting(factor * budget)
            )
            found.append((worst_error(channel, second), channel))
        return found

    coarse = []
    for scale in net_scales(second):
        net = separated_net(second, float(scale))
        exponents = relaxed_distances(distances, second, float(scale)) if relaxed else distances
        mechanism = NetMechanism.on(exponents, net, distances)
        error = min(error for error, _ in candidates(mechanism, exponents, _COARSE_STEPS))
        coarse.append((error, float(scale), mechanism))
    coarse.sort(key=lambda triple: triple[:2])
    # Where ε is small, the answer that is nearest to all states is better than a draw.
    blind = np.zeros(second.shape)
    blind[:, second.max(axis=0).argmin()] = 1.0
    best = (worst_error(blind, second), blind)
    for _, scale, mechanism in coarse[:_FINALISTS]:
        exponents = relaxed_distances(distances, second, scale) if relaxed else distances
        for error, channel in candidates(mechanism.refine(), exponents, _FINE_STEPS):
            if error < best[0]:
                best = (error, channel)
    return make_affordable(best[1], distances, epsilon)
