"""Draws for metric privacy: noise shaped by a norm, a channel on finitely many states.

All act on lattices with integer arithmetic, as the draws of `Draws` do; the derivations stand in docs/metric.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skprivate.privacy import _selection
from skprivate.privacy._channel import CHANNEL_BITS, channel_price, quantise_channel
from skprivate.privacy._events import BoundedRangeEvent, PrivacyEvent, PureEvent
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy._k_norm import NORMS, Norm, add_on_lattice, k_norm_noise, norm_lattice
from skprivate.privacy._lattice import (
    FloatArray,
    IntArray,
    check_positive,
    finite,
    integers,
)
from skprivate.privacy._net import net_costs, net_lattice
from skprivate.privacy._randomness import BitSource
from skprivate.privacy._tape import Draw

# Scores held at a time by the draws from a net.
_BLOCK = 1 << 20


class MetricDraws:
    """Further draws of a `Release`, for metric privacy."""

    if TYPE_CHECKING:
        _source: BitSource
        _metric: str | None
        adjacency: Adjacency

        def _perform(self, draw: Draw, sample: Callable[[Any], Any]) -> Any: ...

    def _require_metric(self, what: str, norm: str | None = None) -> None:
        """Refuse a draw whose price means nothing for the neighbours of this release."""
        if self.adjacency is not Adjacency.METRIC:
            raise ValueError(
                f"{what} needs adjacency='metric', its price is per unit of distance; the release has "
                f"adjacency={str(self.adjacency)!r}."
            )
        if norm is None:
            return
        if norm not in NORMS:
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}.")
        if self._metric in NORMS and norm != self._metric:
            raise ValueError(f"norm must be the metric of the release, {self._metric!r}, got {norm!r}.")

    def k_norm(self, rows: ArrayLike, *, norm: Norm, epsilon: float) -> FloatArray:
        """Add noise with density ∝ exp(−ε‖z‖) to every row: ε-metric privacy for one row under ``norm``.

        The K-norm mechanism of Hardt and Talwar (2010); in the plane with "l2" the planar Laplace mechanism of
        Andrés et al. (2013). Valid where row i is the data of unit i alone (the local model), so it is charged once.
        Rows are rounded to a lattice first: rows at distance ρ ≥ 2⁻¹¹/ε differ by at most e^{ερ}, closer ones by at
        most e^{ερ + 2⁻³²} (docs/metric.md, Theorem 5).

        Parameters
        ----------
        rows : array-like of shape (n_units, n_features)
            Finite, at most 2¹⁸ columns.
        norm : {"l1", "l2", "linf"}
            The metric of the release, if that is one of them.
        epsilon : float
            Price per unit of distance, from 2⁻⁹⁰⁰ to 2⁹⁰⁰.

        Returns
        -------
        ndarray of float64, same shape
            On a lattice at least 2³² times finer than the noise.

        Raises
        ------
        ValueError
            If the release is not metric or has another norm as its metric, or for parameters outside of their range;
            nothing is spent.
        """
        self._require_metric("k_norm", norm)
        array = _rows(rows)
        check_positive(epsilon=epsilon)
        lattice = norm_lattice(norm, array.shape[1], epsilon)

        def sample(rows: FloatArray) -> FloatArray:
            noise = k_norm_noise(rows.shape[0], rows.shape[1], norm, lattice.scale, self._source)
            return add_on_lattice(rows, noise, lattice.step)

        events: dict[PrivacyEvent, int] = {PureEvent(epsilon, "K-norm"): 1}
        drawn: FloatArray = self._perform(
            Draw("k_norm", array, 1.0, "unit", events, None, {"norm": norm}), sample
        )
        return drawn

    def nearest(
        self,
        rows: ArrayLike,
        *,
        points: ArrayLike,
        bounds: tuple[ArrayLike, ArrayLike],
        norm: Norm,
        epsilon: float,
    ) -> IntArray:
        """Choose a point near every row by the exponential mechanism: P(point) ∝ exp(−(ε/2)·‖row − point‖).

        Valid where row i is the data of unit i alone (the local model), so it is charged once. Rows are rounded to a
        lattice: the log-ratio of rows at distance ρ is at most ε(ρ + a)/(1 + 2⁻²⁰), a ≤ 2⁻³²/ε for boxes up to a
        thousand times 1/ε (docs/metric.md, Theorem 6).

        Parameters
        ----------
        rows : array-like of shape (n_units, n_features)
            Clipped to ``bounds``.
        points : array-like of shape (n_points, n_features)
            The public net, inside of ``bounds``; at most 2²⁰ points.
        bounds : pair of array-like of shape (n_features,)
            Lower and upper ends of a public box.
        norm : {"l1", "l2", "linf"}
            The metric of the release, if that is one of them.
        epsilon : float
            Price per unit of distance, from 2⁻⁹⁰⁰ to 2⁹⁰⁰.

        Returns
        -------
        ndarray of int64, shape (n_units,)
            Row numbers of ``points``.
        """
        self._require_metric("nearest", norm)
        array, net = _rows(rows), _rows(points, "points")
        check_positive(epsilon=epsilon)
        lower, upper = (finite(end) for end in bounds)
        if not (array.shape[1] == net.shape[1] and lower.shape == upper.shape == array.shape[1:]):
            raise ValueError(
                f"rows, points and bounds must have the same number of columns, got {array.shape[1]}, {net.shape[1]} "
                f"and ends of shapes {lower.shape} and {upper.shape}."
            )
        if not 1 <= net.shape[0] <= 2**20 or np.any((net < lower) | (net > upper)):
            raise ValueError(
                f"points must be one to 2**20 points inside of bounds, got {len(net)} for bounds {lower} to {upper}."
            )
        lattice = net_lattice(norm, lower, upper, epsilon)

        def sample(rows: FloatArray) -> IntArray:
            drawn = np.empty(rows.shape[0], dtype=np.int64)
            block = max(1, _BLOCK // net.shape[0])
            for start in range(0, drawn.size, block):
                costs = net_costs(
                    np.clip(rows[start : start + block], lower, upper), net, lower, norm, lattice
                )
                drawn[start : start + block] = _selection.exponential_select_rows(
                    costs, 1 / lattice.scale, self._source
                )
            return drawn

        events: dict[PrivacyEvent, int] = {BoundedRangeEvent(epsilon): 1}
        options = {"norm": norm, "points": net, "bounds": (lower, upper)}
        chosen: IntArray = self._perform(Draw("nearest", array, 1.0, "unit", events, None, options), sample)
        return chosen

    def channel(
        self, states: ArrayLike, *, channel: ArrayLike, distances: ArrayLike, epsilon: float
    ) -> IntArray:
        """Send every state through a channel, after measuring what the channel costs.

        The price is the largest log-ratio per unit of distance of the integer weights that are drawn from, computed
        here and rounded up (by less than 2⁻⁴⁷ of it); it must not exceed ``epsilon``. Valid where state i is the data
        of unit i alone: charged once.

        Parameters
        ----------
        states : array-like of int, shape (n_units,)
            Row numbers of ``channel``.
        channel : array-like of shape (n_states, n_outputs)
            Probabilities; each row adds up to 1.
        distances : array-like of shape (n_states, n_states)
            The metric: finite, nonnegative, symmetric, 0 on the diagonal. States at distance 0 must have the same row.
        epsilon : float
            Largest price per unit of distance.

        Returns
        -------
        ndarray of int64, shape (n_units,)
            Column numbers.

        Raises
        ------
        ValueError
            If the release is not metric, or if the channel costs more than ``epsilon``; nothing is drawn or spent.
        """
        self._require_metric("channel")
        index = integers(states)
        check_positive(epsilon=epsilon)
        weights = quantise_channel(channel)
        if index.ndim != 1 or (index.size and not (index.min() >= 0 and index.max() < weights.shape[0])):
            raise ValueError(f"states must be row numbers below {weights.shape[0]}.")
        price = channel_price(weights, distances)
        if not price <= epsilon:
            raise ValueError(
                f"channel is not private enough: it needs epsilon = {price:.6g} per unit of distance, got {epsilon:g}."
            )

        def sample(index: IntArray) -> IntArray:
            drawn = np.empty(index.shape, dtype=np.int64)
            words = (self._source.words(index.size) >> np.uint64(64 - CHANNEL_BITS)).astype(np.int64)
            order = np.argsort(index, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(index[order])) + 1):
                if rows.size:
                    ends = np.cumsum(weights[index[rows[0]]])
                    drawn[rows] = np.searchsorted(ends, words[rows], side="right")
            return drawn

        # A channel that ignores its input costs nothing, but an event has a positive price.
        price = min(max(price, float(np.finfo(float).tiny)), epsilon)
        events: dict[PrivacyEvent, int] = {PureEvent(price, "channel"): 1}
        public = {"weights": weights, "distances": np.asarray(distances, dtype=np.float64)}
        chosen: IntArray = self._perform(Draw("channel", index, 1.0, "unit", events, None, public), sample)
        return chosen


def _rows(rows: ArrayLike, name: str = "rows") -> FloatArray:
    array = finite(rows)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n_units, n_features), got {array.shape}.")
    return array


__all__ = ["MetricDraws", "Norm"]
