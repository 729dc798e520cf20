"""Draws for metric privacy: K-norm noise, nets, channels, and flows along the edges of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy import _contributions, _guarantee
from skprivate.privacy._contributions import FloatArray, IntArray, Lattice, finite
from skprivate.privacy._events import BoundedRangeEvent, Draw, PureEvent
from skprivate.privacy.draws._draws import Draws
from skprivate.privacy.noise import _k_norm, _samplers, _selection
from skprivate.privacy.noise._k_norm import NORMS, Norm

_NET_BITS = 32
#: Bits of a coordinate, chosen so that squares are good in float64 and costs stay in int64.
_COORDINATE_BITS = 48
_MAX_COLUMNS = 2**12
#: Scores under ℓ2 are counted in this fraction of a step.
_SIXTEENTH = 16
# Scores held at a time by the draws from a net.
_DRAWN_AT_ONCE = 1 << 20
#: Total weight of every row of a channel, as an integer.
CHANNEL_BITS = 62
# A log-ratio per distance takes seven operations in float64, each good to four units in the last place: 28·2⁻⁵³.
_ROUNDED_UP = 1.0 + 2.0**-48
# Bound of the error of a difference of two logarithms in float64 of integers below 2⁶².
_SLACK = 2.0**-44
_BLOCK = 1 << 15


def net_lattice(norm: Norm, lower: FloatArray, upper: FloatArray, epsilon: float) -> Lattice:
    """Compute step g of the coordinates, and the number of score units over which P falls by a factor e.

    g is a power of two up to 2⁻³²/(ε·A), with A·g the distance that rounding may add, or, if the box has more than
    2⁴⁸ of these, up to 2⁻⁴⁷ of its width.
    """
    if lower.size > _MAX_COLUMNS:
        raise ValueError(f"rows must have at most {_MAX_COLUMNS} columns for a net, got {lower.size}.")
    extra = _rounding_steps(norm, lower.size)
    step = _k_norm.lattice_step(epsilon, _NET_BITS + (extra - 1).bit_length())
    width = float((upper - lower).max(initial=0.0))
    if not math.isfinite(width):
        raise ValueError(f"bounds must have finite widths, got {width!r} for the widest.")
    step = max(step, math.ldexp(1.0, math.frexp(width)[1] - _COORDINATE_BITS))
    units = _SIXTEENTH if norm == "l2" else 1
    return Lattice(step, 2 * units * _k_norm.ROUNDED / (_contributions.rational(epsilon) * Fraction(step)))


def net_costs(rows: FloatArray, points: FloatArray, lower: FloatArray, norm: Norm, lattice: Lattice) -> IntArray:
    """Compute distances of rows from points: in steps, or in sixteenths of a step for "l2"; shape (n, m).

    The distance of one row does not depend on the others: elementwise arithmetic, column by column.
    """
    shape = (rows.shape[0], points.shape[0])
    total: IntArray = np.zeros(shape, dtype=np.int64)
    squares: FloatArray = np.zeros(shape if norm == "l2" else 0)
    for column in range(rows.shape[1]):
        x, p = (
            np.rint((values[:, column] - lower[column]) / lattice.step).astype(np.int64) for values in (rows, points)
        )
        gap = np.abs(x[:, None] - p[None, :])
        if norm == "linf":
            np.maximum(total, gap, out=total)
        elif norm == "l1":
            total += gap
        else:
            real = gap.astype(np.float64)
            real *= real
            squares += real
    if norm == "l2":
        np.sqrt(squares, out=squares)
        squares *= float(_SIXTEENTH)
        total = np.rint(squares).astype(np.int64)
    return total


def _rounding_steps(norm: Norm, d: int) -> int:
    """Bound A, the steps that rounding may add to the distance of two rows.

    x − lower is rounded to float64, by an eighth of a step at most, and to the lattice, by a half: two rows move by
    5/4 of a step along each axis. Under ℓ2 both costs err in float64, by less than (d + 3)·2⁻⁵⁴ of ⌈√d⌉·2⁴⁸ steps, and
    by 1/32 from rounding to sixteenths.
    """
    cell = _k_norm.cell_diameter(norm, d)
    return 2 * cell + (cell * (d + 3) // 16 + 2 if norm == "l2" else 0)


def quantise_channel(channel: ArrayLike) -> IntArray:
    """Round every row to integer weights that add up to 2⁶² exactly: what `MetricDraws.channel` draws from.

    A probability that is zero stays zero, any other becomes at least one.
    """
    matrix = finite(channel)
    if matrix.ndim != 2 or 0 in matrix.shape or np.any(matrix < 0):
        raise ValueError(
            f"channel must be a matrix of nonnegative probabilities, shape (n_states, n_outputs), got shape "
            f"{matrix.shape}, least entry {matrix.min(initial=0.0):g}."
        )
    sums = matrix.sum(axis=1)
    if np.any(np.abs(sums - 1) > 1e-6):
        raise ValueError(f"every row of channel must add up to 1, got sums from {sums.min():.9g} to {sums.max():.9g}.")
    total = 1 << CHANNEL_BITS
    # 2^62·p below 2^61 first, so that no row overflows before its largest weight takes the rest.
    weights = np.rint(matrix / sums[:, None] * float(total) * 0.5).astype(np.int64) * 2
    weights = np.where((matrix > 0) & (weights == 0), 1, weights)
    largest = weights.argmax(axis=1)
    rows = np.arange(weights.shape[0])
    weights[rows, largest] = 0
    weights[rows, largest] = total - weights.sum(axis=1)
    return weights


def channel_cost(weights: IntArray, distances: ArrayLike) -> float:
    """Bound max |log P(y|x) − log P(y|x′)| / ρ(x, x′) from above: the ε per unit of distance of a channel.

    The bound exceeds the maximum by less than 2⁻⁴⁷ of it. It is ``inf`` where there is none: where an output is
    possible in one state only, or where states at distance 0 have different rows. Every row of ``weights`` has the same
    sum.
    """
    rho = _check_distances(distances, weights.shape[0])
    weights = np.ascontiguousarray(weights[:, weights.max(axis=0) > 0])
    weights, rho = _different_rows(weights, rho)
    if weights.min() == 0:
        return math.inf  # possible here, impossible there, at a finite distance
    logs = np.log(weights.astype(np.float64))
    cost = 0.0
    step = max(1, _BLOCK // logs.shape[1])
    for x in range(1, weights.shape[0]):
        for start in range(0, x, step):
            others = np.arange(start, min(start + step, x))
            about = np.abs(logs[others] - logs[x])
            worst = about.max(axis=1)
            # Logarithms up to 43 err by less than 2⁻⁴⁵: computed exactly are pairs and outputs that may matter.
            with np.errstate(divide="ignore", over="ignore"):
                pairs = np.flatnonzero((worst + _SLACK) / rho[x, others] * _ROUNDED_UP >= cost)
            if pairs.size:
                pair, output = np.nonzero(about[pairs] >= worst[pairs, None] - 2 * _SLACK)
                other = others[pairs[pair]]
                cost = max(cost, _exact_cost(weights[x, output], weights[other, output], rho[x, other]))
    return cost


def _exact_cost(first: IntArray, second: IntArray, rho: NDArray[np.float64]) -> float:
    """Compute the largest |log(first/second)|/ρ of pairs of positive weights, rounded up."""
    # log(a/b) = log1p((a − b)/b) with a − b exact: small ratios keep their digits.
    losses = np.log1p(np.abs(first - second) / np.minimum(first, second).astype(np.float64))
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        ratios = np.where(losses > 0, np.nextafter(losses / rho * _ROUNDED_UP, np.inf), 0.0)
    return float(ratios.max())


def _different_rows(weights: IntArray, rho: NDArray[np.float64]) -> tuple[IntArray, NDArray[np.float64]]:
    """Drop repeated rows, and keep the least distance between the states that have them."""
    rows, labels = np.unique(weights, axis=0, return_inverse=True)
    if rows.shape[0] == weights.shape[0]:
        return weights, rho
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    rho = np.minimum.reduceat(rho[order], starts, axis=0)
    return rows, np.minimum.reduceat(rho[:, order], starts, axis=1)


def _check_distances(distances: ArrayLike, n: int) -> NDArray[np.float64]:
    rho = np.asarray(distances, dtype=np.float64)
    if rho.shape != (n, n):
        raise ValueError(f"distances must have shape {(n, n)}, got {rho.shape}.")
    for allowed, what in (
        (np.isfinite(rho), "finite"),
        (rho >= 0, "nonnegative"),
        ((rho == 0) | ~np.eye(n, dtype=bool), "0 on the diagonal"),
        (rho == rho.T, "symmetric"),
    ):
        bad = np.argwhere(~allowed)
        if bad.size:
            i, j = (int(k) for k in bad[0])
            raise ValueError(f"distances must be {what}, but entry ({i}, {j}) is {rho[i, j]:g}.")
    return rho


class MetricDraws(Draws):
    """All draws: those of `Draws`, and those for metric privacy."""

    adjacency: _guarantee.Adjacency
    _metric: str | None

    def _require_metric(self, what: str, norm: str | None = None) -> None:
        """Refuse a draw whose cost means nothing for the neighbours of this release."""
        if self.adjacency is not _guarantee.Adjacency.METRIC:
            raise ValueError(
                f"{what} needs adjacency='metric', its cost is per unit of distance; the release has "
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
        most e^{ερ + 2⁻³²} (docs/theory/metric.md, Theorem 5).

        Parameters
        ----------
        rows : array-like of shape (n_units, n_features)
            Finite, at most 2¹⁸ columns.
        norm : {"l1", "l2", "linf"}
            The metric of the release, if that is one of them.
        epsilon : float
            Cost per unit of distance, from 2⁻⁹⁰⁰ to 2⁹⁰⁰.

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
        _contributions.check_positive(epsilon=epsilon)
        lattice = _k_norm.norm_lattice(norm, array.shape[1], epsilon)

        def sample(rows: FloatArray) -> FloatArray:
            noise = _k_norm.k_norm_noise(rows.shape[0], rows.shape[1], norm, lattice.scale, self._source)
            return _k_norm.add_on_lattice(rows, noise, lattice.step)

        draw = Draw("k_norm", array, 1.0, "unit", {PureEvent(epsilon, "K-norm"): 1}, options={"norm": norm})
        return self._perform(draw, sample)

    def nearest(
        self, rows: ArrayLike, *, points: ArrayLike, bounds: tuple[ArrayLike, ArrayLike], norm: Norm, epsilon: float
    ) -> IntArray:
        """Choose a point near every row by the exponential mechanism: P(point) ∝ exp(−(ε/2)·‖row − point‖).

        Valid where row i is the data of unit i alone (the local model), so it is charged once. Rows are rounded to a
        lattice: the log-ratio of rows at distance ρ is at most ε(ρ + a)/(1 + 2⁻²⁰), a ≤ 2⁻³²/ε for boxes up to a
        thousand times 1/ε (docs/theory/metric.md, Theorem 6).

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
            Cost per unit of distance, from 2⁻⁹⁰⁰ to 2⁹⁰⁰.

        Returns
        -------
        ndarray of int64, shape (n_units,)
            Row numbers of ``points``.
        """
        self._require_metric("nearest", norm)
        array, net = _rows(rows), _rows(points, "points")
        _contributions.check_positive(epsilon=epsilon)
        lower, upper = (_contributions.finite(end) for end in bounds)
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
            block = max(1, _DRAWN_AT_ONCE // net.shape[0])
            for start in range(0, drawn.size, block):
                costs = net_costs(np.clip(rows[start : start + block], lower, upper), net, lower, norm, lattice)
                drawn[start : start + block] = _selection.exponential_select_rows(
                    costs, 1 / lattice.scale, self._source
                )
            return drawn

        options = {"norm": norm, "points": net, "bounds": (lower, upper)}
        draw = Draw("nearest", array, 1.0, "unit", {BoundedRangeEvent(epsilon): 1}, options=options)
        return self._perform(draw, sample)

    def channel(self, states: ArrayLike, *, channel: ArrayLike, distances: ArrayLike, epsilon: float) -> IntArray:
        """Send every state through a channel, after measuring what the channel costs.

        The cost is the largest log-ratio per unit of distance of the integer weights that are drawn from, computed
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
            Largest cost per unit of distance.

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
        index = _contributions.integers(states)
        _contributions.check_positive(epsilon=epsilon)
        weights = quantise_channel(channel)
        if index.ndim != 1 or (index.size and not (index.min() >= 0 and index.max() < weights.shape[0])):
            raise ValueError(f"states must be row numbers below {weights.shape[0]}.")
        cost = channel_cost(weights, distances)
        if not cost <= epsilon:
            raise ValueError(
                f"channel is not private enough: it needs epsilon = {cost:.6g} per unit of distance, got {epsilon:g}."
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

        # A channel that ignores its input costs nothing, but an event has a positive cost.
        cost = min(max(cost, float(np.finfo(float).tiny)), epsilon)
        options = {"weights": weights, "distances": np.asarray(distances, dtype=np.float64)}
        draw = Draw("channel", index, 1.0, "unit", {PureEvent(cost, "channel"): 1}, options=options)
        return self._perform(draw, sample)

    def flow_laplace(
        self, mass: ArrayLike, *, sensitivity: float, epsilon: float, stars: Sequence[Fraction | int] = ()
    ) -> IntArray:
        """Add to integer masses on a grid the divergence of a discrete Laplace flow along the grid's edges.

        If ν = μ + div f for an integer flow f, then ν + div Z = μ + div(Z + f), and the law of the flow Z changes by
        at most exp(‖f‖₁ / scale): ε-metric privacy for any distance of which ‖f‖₁ is at most ``sensitivity`` times
        (docs/theory/metric.md, proposition 1).

        Parameters
        ----------
        mass : array-like of int, shape (k_1, …, k_d)
            Exact sums of integer contributions; neighbours along an axis are joined by edges. The total is the same
            for all neighbouring data sets, and stays as it is.
        stars : sequence of positive Fraction or int, default=()
            For the first axes, whose entries have no order: each is joined to the first one, and ``sensitivity`` along
            these edges is this one. A flow f costs ‖f‖₁ along each kind of edges over its sensitivity, in all at most
            1 per unit of distance (docs/theory/metric.md, Theorem 11).
        sensitivity : float
            Largest ‖f‖₁ of a least flow between neighbours, per unit of distance: steps of mass times edges.
        epsilon : float
            Cost per unit of distance.

        Returns
        -------
        ndarray of int64, same shape
            Python integers where int64 does not hold them. May be negative.
        """
        array = _contributions.integers(mass)
        _contributions.check_positive(sensitivity=sensitivity, epsilon=epsilon)
        self._require_metric("flow_laplace")
        if len(stars) > array.ndim or not all(isinstance(star, Fraction | int) and star > 0 for star in stars):
            raise ValueError(
                f"stars must be positive rational numbers, one for each of the first axes of mass ({array.ndim}), got "
                f"{stars!r}."
            )
        if array.size == 0 or array.ndim == 0:
            raise ValueError(f"mass must have one axis per dimension of the grid, got shape {array.shape}.")
        kinds = [*stars, *[sensitivity] * (array.ndim - len(stars))]
        scales = [
            _samplers.drawable(_contributions.rational(kind) / _contributions.rational(epsilon) * _contributions.WIDER)
            for kind in kinds
        ]

        def sample(total: NDArray[Any]) -> NDArray[Any]:
            for axis, size in enumerate(array.shape):
                edges = (*array.shape[:axis], size - 1, *array.shape[axis + 1 :])
                noise = _samplers.integer_noise("laplace", scales[axis], math.prod(edges), self._source)
                flow = noise.reshape(edges)
                if axis < len(stars):
                    moved = np.moveaxis(flow, axis, 0)
                    first = reduce(_contributions.add_exactly, moved, np.zeros(moved.shape[1:], dtype=np.int64))
                    change = np.concatenate([-first[np.newaxis], moved])
                    total = _contributions.add_exactly(total, np.moveaxis(change, 0, axis))
                    continue
                ends = [(0, 0)] * array.ndim
                ends[axis] = (1, 1)
                total = _contributions.add_exactly(total, -np.diff(np.pad(flow, ends), axis=axis))
            return total

        options = {"stars": tuple(Fraction(star) for star in stars)} if stars else {}
        event = PureEvent(epsilon, "Laplace flow")
        draw = Draw("flow_laplace", array, sensitivity, "flow", {event: 1}, 1.0, options=options)
        return self._perform(draw, sample)


def _rows(rows: ArrayLike, name: str = "rows") -> FloatArray:
    array = _contributions.finite(rows)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n_units, n_features), got {array.shape}.")
    return array
