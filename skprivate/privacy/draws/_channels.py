"""Channels on finitely many states, as integers, and what they cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy._contributions import IntArray, finite

#: Total weight of every row of a channel, as an integer.
CHANNEL_BITS = 62
# A log-ratio per distance takes seven operations in float64, each good to four units in the last place: 28·2⁻⁵³.
_ROUNDED_UP = 1.0 + 2.0**-48
# Bound of the error of a difference of two logarithms in float64 of integers below 2⁶².
_SLACK = 2.0**-44
_BLOCK = 1 << 15


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
