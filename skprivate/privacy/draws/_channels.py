"""Channels on finitely many states, and flows along the edges of a grid, as integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy._contributions import (
    WIDER,
    IntArray,
    add_exactly,
    check_positive,
    finite,
    integers,
    rational,
)
from skprivate.privacy._events import Draw, PrivacyEvent, PureEvent
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy.noise import _samplers
from skprivate.privacy.noise._bits import BitSource

Int64Array = NDArray[np.int64]

#: Total weight of every row of a channel, as an integer.
CHANNEL_BITS = 62
# A log-ratio per distance takes seven operations in float64, each good to four units in the last place: 28·2⁻⁵³.
_ROUNDED_UP = 1.0 + 2.0**-48
# Bound of the error of a difference of two logarithms in float64 of integers below 2⁶².
_SLACK = 2.0**-44
_BLOCK = 1 << 15


def quantise_channel(channel: ArrayLike) -> Int64Array:
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
        raise ValueError(
            f"every row of channel must add up to 1, got sums from {sums.min():.9g} to {sums.max():.9g}."
        )
    total = 1 << CHANNEL_BITS
    # 2^62·p below 2^61 first, so that no row overflows before its largest weight takes the rest.
    weights = np.rint(matrix / sums[:, None] * float(total) * 0.5).astype(np.int64) * 2
    weights = np.where((matrix > 0) & (weights == 0), 1, weights)
    largest = weights.argmax(axis=1)
    rows = np.arange(weights.shape[0])
    weights[rows, largest] = 0
    weights[rows, largest] = total - weights.sum(axis=1)
    return weights


def channel_price(weights: Int64Array, distances: ArrayLike) -> float:
    """Bound max |log P(y|x) − log P(y|x′)| / ρ(x, x′) from above: the ε per unit of distance of a channel.

    The bound exceeds the maximum by less than 2⁻⁴⁷ of it. It is ``inf`` where there is none: where an output is
    possible in one state only, or where states at distance 0 have different rows. Every row of ``weights`` has the same
    sum.
    """
    rho = _check_distances(distances, weights.shape[0])
    weights = np.ascontiguousarray(weights[:, weights.max(axis=0) > 0])
    weights, rho = _different_rows(weights, rho)
    if weights.shape[0] > 1 and weights.min() == 0:
        return math.inf  # possible here, impossible there, at a finite distance
    logs = np.log(weights.astype(np.float64))
    price = 0.0
    step = max(1, _BLOCK // logs.shape[1])
    for x in range(1, weights.shape[0]):
        for start in range(0, x, step):
            others = np.arange(start, min(start + step, x))
            about = np.abs(logs[others] - logs[x])
            worst = about.max(axis=1)
            # Logarithms up to 43 err by less than 2⁻⁴⁵: exactly priced are pairs, and of them outputs, that may matter.
            with np.errstate(divide="ignore", over="ignore"):
                pairs = np.flatnonzero((worst + _SLACK) / rho[x, others] * _ROUNDED_UP >= price)
            if pairs.size:
                pair, output = np.nonzero(about[pairs] >= worst[pairs, None] - 2 * _SLACK)
                other = others[pairs[pair]]
                price = max(price, _exact_price(weights[x, output], weights[other, output], rho[x, other]))
    return price


def _exact_price(first: Int64Array, second: Int64Array, rho: NDArray[np.float64]) -> float:
    """Compute the largest |log(first/second)|/ρ of pairs of positive weights, rounded up."""
    # log(a/b) = log1p((a − b)/b) with a − b exact: small ratios keep their digits.
    losses = np.log1p(np.abs(first - second) / np.minimum(first, second).astype(np.float64))
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        ratios = np.where(losses > 0, np.nextafter(losses / rho * _ROUNDED_UP, np.inf), 0.0)
    return float(ratios.max())


def _different_rows(weights: Int64Array, rho: NDArray[np.float64]) -> tuple[Int64Array, NDArray[np.float64]]:
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


# Narrower noise is widened to this: it is 0 but for a probability of e^-1048576.
_LEAST_SCALE = Fraction(1, 2**20)


class FlowDraws:
    """The draw of a `Release` for measures on a grid."""

    if TYPE_CHECKING:
        _source: BitSource
        adjacency: Adjacency

        def _perform(self, draw: Draw, sample: Callable[[Any], Any]) -> Any: ...

    def flow_laplace(
        self, mass: ArrayLike, *, sensitivity: float, epsilon: float, stars: Sequence[Fraction | int] = ()
    ) -> IntArray:
        """Add to integer masses on a grid the divergence of a discrete Laplace flow along the grid's edges.

        If ν = μ + div f for an integer flow f, then ν + div Z = μ + div(Z + f), and the law of the flow Z changes by
        at most exp(‖f‖₁ / scale): ε-metric privacy for any distance of which ‖f‖₁ is at most ``sensitivity`` times
        (docs/metric.md, proposition 1).

        Parameters
        ----------
        mass : array-like of int, shape (k_1, …, k_d)
            Exact sums of integer contributions; neighbours along an axis are joined by edges. The total is the same
            for all neighbouring data sets, and stays as it is.
        stars : sequence of positive Fraction or int, default=()
            For the first axes, whose entries have no order: each is joined to the first one, and ``sensitivity`` along
            these edges is this one. A flow f costs ‖f‖₁ along each kind of edges over its sensitivity, in all at most
            1 per unit of distance (docs/metric.md, Theorem 11).
        sensitivity : float
            Largest ‖f‖₁ of a least flow between neighbours, per unit of distance: steps of mass times edges.
        epsilon : float
            Price per unit of distance.

        Returns
        -------
        ndarray of int64, same shape
            Python integers where int64 does not hold them. May be negative.
        """
        array = integers(mass)
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        if self.adjacency is not Adjacency.METRIC:
            raise ValueError(
                "flow_laplace needs adjacency='metric', its price is per unit of distance; the release has "
                f"adjacency={str(self.adjacency)!r}."
            )
        if len(stars) > array.ndim or not all(
            isinstance(star, Fraction | int) and star > 0 for star in stars
        ):
            raise ValueError(
                f"stars must be positive rational numbers, one for each of the first axes of mass ({array.ndim}), got "
                f"{stars!r}."
            )
        if array.size == 0 or array.ndim == 0:
            raise ValueError(f"mass must have one axis per dimension of the grid, got shape {array.shape}.")
        kinds = [*stars, *[sensitivity] * (array.ndim - len(stars))]
        scales = [max(rational(kind) / rational(epsilon) * WIDER, _LEAST_SCALE) for kind in kinds]
        for scale in scales:
            _samplers.check_scale(scale)
        events: dict[PrivacyEvent, int] = {PureEvent(epsilon, "Laplace flow"): 1}

        def sample(total: NDArray[Any]) -> NDArray[Any]:
            for axis, size in enumerate(array.shape):
                edges = (*array.shape[:axis], size - 1, *array.shape[axis + 1 :])
                noise = _samplers.integer_noise("laplace", scales[axis], math.prod(edges), self._source)
                flow = noise.reshape(edges)
                if axis < len(stars):
                    moved = np.moveaxis(flow, axis, 0)
                    first = reduce(add_exactly, moved, np.zeros(moved.shape[1:], dtype=np.int64))
                    change = np.concatenate([-first[np.newaxis], moved])
                    total = add_exactly(total, np.moveaxis(change, 0, axis))
                    continue
                ends = [(0, 0)] * array.ndim
                ends[axis] = (1, 1)
                total = add_exactly(total, -np.diff(np.pad(flow, ends), axis=axis))
            return total

        options = {"stars": tuple(Fraction(star) for star in stars)} if stars else {}
        draw = Draw("flow_laplace", array, sensitivity, "flow", events, 1.0, options)
        noisy: IntArray = self._perform(draw, sample)
        return noisy
