"""Draws for metric privacy: noise shaped by a norm, a channel on finitely many states, noise that moves mass.

All act on lattices with integer arithmetic, as the draws of `Release` do; the derivations stand in docs/metric.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy import _samplers
from skprivate.privacy._events import PrivacyEvent, PureEvent
from skprivate.privacy._lattice import (
    WIDER,
    FloatArray,
    IntArray,
    Lattice,
    check_positive,
    finite,
    integers,
    laplace_lattice,
    snap,
)
from skprivate.privacy._randomness import BitSource
from skprivate.privacy._tape import Draw

Norm: TypeAlias = Literal["l1", "l2", "linf"]

#: Total weight of every row of a channel, as an integer.
_CHANNEL_BITS = 62
#: Channels may cost this much more per unit of distance than asked for, relative; the true price is charged.
_CHANNEL_SLACK = 2.0**-40
#: Largest dimension in which ℓ2-shaped noise is drawn by rejection from the cube.
_MAX_REJECTION = 6
_MAX_DIRECTION_SCALE = 2**40


def quantise_channel(channel: ArrayLike) -> NDArray[np.int64]:
    """Integer weights of every row, adding up to 2⁶² exactly: what `MetricDraws.channel` draws from.

    A probability that is zero stays zero, any other becomes at least one.
    """
    matrix = finite(channel)
    if matrix.ndim != 2 or 0 in matrix.shape or np.any(matrix < 0):
        raise ValueError(
            "channel must be a matrix of nonnegative probabilities, shape (n_states, n_outputs)."
        )
    sums = matrix.sum(axis=1)
    if np.any(np.abs(sums - 1) > 1e-6):
        raise ValueError("every row of channel must add up to 1.")
    total = 1 << _CHANNEL_BITS
    # 2^62·p below 2^61 first, so that no row overflows before its largest weight takes the rest.
    weights = np.rint(matrix / sums[:, None] * float(total) * 0.5).astype(np.int64) * 2
    weights = np.where((matrix > 0) & (weights == 0), 1, weights)
    largest = weights.argmax(axis=1)
    rows = np.arange(weights.shape[0])
    weights[rows, largest] = 0
    weights[rows, largest] = total - weights.sum(axis=1)
    return weights


def channel_price(weights: NDArray[np.int64], distances: ArrayLike) -> float:
    """Largest |log P(y|x) − log P(y|x′)| / ρ(x, x′): the ε per unit of distance of a channel (``inf`` if none).

    States at distance 0 must have the same row.
    """
    rho = np.asarray(distances, dtype=np.float64)
    if rho.shape != (weights.shape[0],) * 2:
        raise ValueError(f"distances must have shape {(weights.shape[0],) * 2}, got {rho.shape}.")
    used = weights.max(axis=0) > 0
    with np.errstate(divide="ignore"):
        logs = np.log(weights[:, used].astype(np.float64))
    price = 0.0
    for x in range(weights.shape[0]):
        with np.errstate(invalid="ignore"):
            gaps = np.abs(logs - logs[x])
        gaps[np.isnan(gaps)] = 0.0  # both probabilities are zero
        worst = gaps.max(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(worst > 0, worst / rho[x], 0.0)
        price = max(price, float(ratio.max()))
    return price


class MetricDraws:
    """Further draws of a `Release`, for metric privacy."""

    if TYPE_CHECKING:
        _source: BitSource

        def _perform(self, draw: Draw, sample: Callable[[], Any]) -> Any: ...

    def k_norm(self, rows: ArrayLike, *, norm: Norm, epsilon: float) -> FloatArray:
        """Add noise with density ∝ exp(−ε‖z‖) to every row: ε-metric privacy for one row under ``norm``.

        The K-norm mechanism of Hardt and Talwar (2010); in the plane with "l2" the planar Laplace mechanism of
        Andrés et al. (2013). Valid where row i is the data of unit i alone (the local model), so it is charged once.

        Parameters
        ----------
        rows : array-like of shape (n_units, n_features)
        norm : {"l1", "l2", "linf"}
        epsilon : float
            Price per unit of distance.

        Returns
        -------
        ndarray of float64, same shape
            On a lattice 2³² times finer than the noise.
        """
        array = finite(rows)
        check_positive(epsilon=epsilon)
        if array.ndim != 2 or array.shape[1] == 0:
            raise ValueError(f"rows must have shape (n_units, n_features), got {array.shape}.")
        if norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}.")
        lattice = laplace_lattice(1.0, epsilon, array.shape[1])
        events: dict[PrivacyEvent, int] = {PureEvent(epsilon, "K-norm"): 1}

        def sample() -> FloatArray:
            noise = _k_norm_noise(array.shape[0], array.shape[1], norm, lattice.scale, self._source)
            return snap(array, lattice.step) + noise * lattice.step

        noisy: FloatArray = self._perform(
            Draw("k_norm", array, 1, "unit", events, None, {"norm": norm}), sample
        )
        return noisy

    def channel(
        self, states: ArrayLike, *, channel: ArrayLike, distances: ArrayLike, epsilon: float
    ) -> IntArray:
        """Send every state through a channel, after measuring what the channel costs.

        The price is the largest log-ratio per unit of distance of the integer weights that are drawn from, computed
        here; it must not exceed ``epsilon``. Valid where state i is the data of unit i alone: charged once.

        Parameters
        ----------
        states : array-like of int, shape (n_units,)
            Row numbers of ``channel``.
        channel : array-like of shape (n_states, n_outputs)
            Probabilities; each row adds up to 1.
        distances : array-like of shape (n_states, n_states)
            The metric.
        epsilon : float
            Largest price per unit of distance.

        Returns
        -------
        ndarray of int64, shape (n_units,)
            Column numbers.

        Raises
        ------
        ValueError
            If the channel costs more than ``epsilon``; nothing is drawn.
        """
        index = integers(states)
        check_positive(epsilon=epsilon)
        weights = quantise_channel(channel)
        if index.ndim != 1 or (index.size and not (index.min() >= 0 and index.max() < weights.shape[0])):
            raise ValueError(f"states must be row numbers below {weights.shape[0]}.")
        price = channel_price(weights, distances)
        if not price <= epsilon * (1 + _CHANNEL_SLACK):
            raise ValueError(
                f"channel is not private enough: it needs epsilon = {price:.6g} per unit of distance, got {epsilon:g}."
            )
        # A channel that ignores its input costs nothing, but an event has a positive price.
        events: dict[PrivacyEvent, int] = {
            PureEvent(min(max(price, np.finfo(float).tiny), epsilon), "channel"): 1
        }

        def sample() -> IntArray:
            drawn = np.empty(index.shape, dtype=np.int64)
            words = (self._source.words(index.size) >> np.uint64(64 - _CHANNEL_BITS)).astype(np.int64)
            order = np.argsort(index, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(index[order])) + 1):
                if rows.size:
                    ends = np.cumsum(weights[index[rows[0]]])
                    drawn[rows] = np.searchsorted(ends, words[rows], side="right")
            return drawn

        public = {"weights": weights, "distances": np.asarray(distances, dtype=np.float64)}
        chosen: IntArray = self._perform(Draw("channel", index, 1, "unit", events, None, public), sample)
        return chosen

    def flow_laplace(self, mass: ArrayLike, *, length: float, epsilon: float) -> FloatArray:
        """Add to a mass distribution on a grid the divergence of a Laplace flow along the grid's edges.

        If ν = μ + div f for a flow f of cost ``length`` · ‖f‖₁, then ν + div Z = μ + div(Z + f) and the law of the
        flow Z changes by at most exp(ε · cost): ε-metric privacy for the transport cost over the edges.

        Parameters
        ----------
        mass : array-like of shape (k_1, …, k_d)
            A probability measure on the nodes of a grid; neighbours along an axis are joined by edges.
        length : float
            Distance by which one unit of mass moves along one edge.
        epsilon : float
            Price per unit of distance.

        Returns
        -------
        ndarray of float64, same shape
            Adds up to 1; may be negative.
        """
        array = finite(mass)
        check_positive(length=length, epsilon=epsilon)
        if array.ndim == 0 or abs(array.sum() - 1) > 1e-6:
            raise ValueError("mass must be an array that adds up to 1.")
        # Rounding the cumulated mass displaces at most one step of it from every node to the next in memory order,
        # which is at most d edges away on average.
        lattice = _mass_lattice(length, epsilon, array.size * array.ndim)
        events: dict[PrivacyEvent, int] = {PureEvent(epsilon, "Laplace flow"): 1}

        def sample() -> FloatArray:
            cumulated = np.rint(np.cumsum(array.ravel()) / lattice.step).astype(np.int64)
            cumulated[-1] = round(1.0 / lattice.step)
            noisy = np.diff(cumulated, prepend=np.int64(0)).reshape(array.shape)
            for axis, size in enumerate(array.shape):
                edges = list(array.shape)
                edges[axis] = size - 1
                flow = _samplers.integer_noise("laplace", lattice.scale, math.prod(edges), self._source)
                flow = np.moveaxis(flow.reshape(edges), axis, 0)
                target = np.moveaxis(noisy, axis, 0)
                target[:-1] -= flow
                target[1:] += flow
            return noisy * lattice.step

        result: FloatArray = self._perform(Draw("flow_laplace", array, 1 / length, "flow", events), sample)
        return result


def _mass_lattice(length: float, epsilon: float, coordinates: int) -> Lattice:
    """As `laplace_lattice`, with a step that divides a total mass of 1 and leaves room for the noise in 64 bits."""
    step = min(max(laplace_lattice(1.0 / length, epsilon, coordinates).step, 2.0**-50), 2.0**-20)
    steps = 1 / (Fraction(length) * Fraction(step)) + 2 * coordinates + 2
    scale = steps / Fraction(epsilon) * WIDER
    if scale > 2**47:
        raise ValueError(f"epsilon={epsilon:g} is too small: the noise exceeds the whole mass 2**27 times.")
    return Lattice(step, max(scale, Fraction(1)))


def _k_norm_noise(n: int, d: int, norm: Norm, scale: Fraction, source: BitSource) -> NDArray[Any]:
    """Draw ``n`` lattice points with P(z) ∝ exp(−‖z‖ / scale)."""
    if norm == "l1" or d == 1:
        return _samplers.integer_noise("laplace", scale, n * d, source).reshape(n, d)
    if norm == "linf":
        return _cube_noise(n, d, scale, source)
    if d > _MAX_REJECTION:
        return _radial_noise(n, d, scale, source)
    kept: list[NDArray[np.int64]] = []
    missing = n
    while missing:
        points = _cube_noise(missing, d, scale, source)
        z = points.astype(np.float64)
        excess = np.sqrt(np.einsum("ij,ij->i", z, z)) - np.abs(z).max(axis=1)
        accepted = points[_accept(np.exp(-excess / float(scale)), source)]
        kept.append(accepted)
        missing -= accepted.shape[0]
    return np.concatenate(kept) if kept else np.zeros((0, d), dtype=np.int64)


def _accept(probability: FloatArray, source: BitSource) -> NDArray[np.bool_]:
    digits = (source.words(probability.size) >> np.uint64(11)).astype(np.float64)
    return digits < probability * 2.0**53


def _geometric(scale: Fraction, size: int, source: BitSource) -> NDArray[np.int64]:
    """P(k) ∝ exp(−k / scale), k ≥ 0."""
    result = np.empty(0, dtype=np.int64)
    while result.size < size:
        draws = _samplers.integer_noise("laplace", scale, size - result.size, source)
        # Given that it is not zero, |X| − 1 is geometric.
        result = np.concatenate([result, np.abs(draws[draws != 0]) - 1])
    return result


def _cube_noise(n: int, d: int, scale: Fraction, source: BitSource) -> NDArray[np.int64]:
    """Draw P(z) ∝ exp(−max|z_i| / scale): a uniform point of a cube of random half-width R.

    P(R) ∝ (2R + 1)^d e^{−R/scale}: the sum of d + 1 geometric variables has C(R + d, d) in the place of (2R + 1)^d
    and is accepted with probability ∏ (R + ½)/(R + i) · const, which is nearly one on a fine lattice.
    """
    radii = np.empty(0, dtype=np.int64)
    while radii.size < n:
        missing = n - radii.size
        draws = _geometric(scale, missing * (d + 1), source).reshape(missing, d + 1).sum(axis=1)
        # ∏ (R + ½)/(R + i) rises to 1 in R for i ≥ 1.
        ratio = np.prod([(draws + 0.5) / (draws + float(i)) for i in range(1, d + 1)], axis=0)
        radii = np.concatenate([radii, draws[_accept(ratio, source)]])
    points = np.empty((n, d), dtype=np.int64)
    width = 2 * radii + 1
    for column in range(d):
        points[:, column] = _uniform_below(width, source) - radii
    return points


def _uniform_below(widths: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
    """Exactly uniform integers below each of ``widths`` (< 2⁶²), by rejection."""
    result = np.zeros(widths.shape, dtype=np.int64)
    bits = np.ceil(np.log2(widths.astype(np.float64) + 1.0)).astype(np.uint64) + np.uint64(1)
    open_ = np.arange(widths.size)
    while open_.size:
        words = (source.words(open_.size) >> (np.uint64(64) - bits[open_])).astype(np.int64)
        done = words < widths[open_]
        result[open_[done]] = words[done]
        open_ = open_[~done]
    return result


def _radial_noise(n: int, d: int, scale: Fraction, source: BitSource) -> FloatArray:
    """Round a continuous draw to the lattice (post-processing): Gamma(d) radius, Gaussian direction."""
    radius = _geometric(scale, n * d, source).reshape(n, d).sum(axis=1).astype(np.float64)
    direction = _samplers.integer_noise("gaussian", _MAX_DIRECTION_SCALE, n * d, source).reshape(n, d)
    unit = direction / np.linalg.norm(direction.astype(np.float64), axis=1, keepdims=True)
    noise: FloatArray = np.rint(radius[:, None] * unit)
    return noise


__all__ = ["MetricDraws", "Norm", "channel_price", "quantise_channel"]
