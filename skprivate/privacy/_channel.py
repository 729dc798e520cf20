"""Channels on finitely many states as integers, and what they cost: an upper bound that holds to the last digit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy._lattice import finite

Int64Array = NDArray[np.int64]

#: Total weight of every row of a channel, as an integer.
CHANNEL_BITS = 62
# A log-ratio per distance takes seven operations in float64, each good to four units in the last place: 28·2⁻⁵³.
_ROUNDED_UP = 1.0 + 2.0**-48


def quantise_channel(channel: ArrayLike) -> Int64Array:
    """Integer weights of every row, adding up to 2⁶² exactly: what `MetricDraws.channel` draws from.

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
    """Upper bound on max |log P(y|x) − log P(y|x′)| / ρ(x, x′), the ε per unit of distance of a channel.

    It exceeds the maximum by less than 2⁻⁴⁷ of it, and is ``inf`` where there is none: where an output is possible
    in one state only, or where states at distance 0 have different rows.

    Parameters
    ----------
    weights : ndarray of int64, shape (n_states, n_outputs)
        Every row has the same sum.
    distances : array-like of shape (n_states, n_states)

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If ``distances`` are not finite, nonnegative, symmetric and zero on the diagonal.
    """
    rho = _check_distances(distances, weights.shape[0])
    weights = np.ascontiguousarray(weights[:, weights.max(axis=0) > 0])
    real = weights.astype(np.float64)
    price = 0.0
    for x in range(1, weights.shape[0]):
        # log(a/b) = log1p((a − b)/b) with a − b exact: small ratios keep their digits.
        gap = np.abs(weights[:x] - weights[x])
        excess = np.zeros(gap.shape)
        with np.errstate(divide="ignore"):
            np.divide(gap, np.minimum(real[:x], real[x]), out=excess, where=gap > 0)
        worst = np.log1p(excess.max(axis=1))
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            ratios = np.where(worst > 0, np.nextafter(worst / rho[x, :x] * _ROUNDED_UP, np.inf), 0.0)
        price = max(price, float(ratios.max()))
    return price


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


__all__ = ["CHANNEL_BITS", "channel_price", "quantise_channel"]
