"""Mechanisms on finite metric spaces as matrices: rows are states, columns outputs, entries probabilities.

Everything here depends on public geometry alone; `Release.channel` measures the price of a matrix before it draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from skprivate.privacy.draws._channels import channel_price, quantise_channel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Share of the uniform law that a channel has at least.
_LEAST_MIXING = 2.0**-40


def affordable(channel: FloatArray, distances: FloatArray, epsilon: float) -> FloatArray:
    """Mix a channel with the uniform law on its outputs, by as little as makes its integers cost at most ``epsilon``.

    If p ≤ e^{ερ}·p′ then p + u ≤ e^{ερ}·(p′ + u), and the difference between both sides grows by u·(e^{ερ} − 1): room
    for what rounding to integers, a probability below the least float64 or a solver's tolerance has done. States at
    distance 0 get the row of the first of them. The uniform channel itself costs nothing, so there is always one.

    Parameters
    ----------
    channel : ndarray of shape (n, m)
    distances : ndarray of shape (n, n)
    epsilon : float

    Returns
    -------
    ndarray of shape (n, m)
    """
    channel = channel[representatives(distances)]
    used = (channel > 0).any(axis=0)
    uniform = used / np.count_nonzero(used)
    mixing = _LEAST_MIXING
    while mixing < 1:
        mixed: FloatArray = (1 - mixing) * channel + mixing * uniform
        if channel_price(quantise_channel(mixed), distances) <= epsilon:
            return mixed
        mixing *= 4
    return np.tile(uniform, (channel.shape[0], 1))


def representatives(distances: FloatArray) -> IntArray:
    """For each state the first one that is at distance 0 from it, directly or by others."""
    alike = connected_components(csr_array(distances == 0), directed=False)[1]
    first: IntArray = np.unique(alike, return_index=True)[1][alike]
    return first


def worst_error(channel: FloatArray, accuracy: FloatArray) -> float:
    """Largest expected distance between state and output."""
    return float((channel * accuracy).sum(axis=1).max())


def expected_loss(channel: FloatArray, loss: FloatArray, prior: FloatArray | None = None) -> float:
    """Expected loss under a prior (uniform by default)."""
    losses = (channel * loss).sum(axis=1)
    return float(losses.mean() if prior is None else losses @ prior)


def remapped(channel: FloatArray, loss: FloatArray, prior: FloatArray | None = None) -> FloatArray:
    """Follow a channel by the best answer to each output under a prior: post-processing."""
    weights = np.full(channel.shape[0], 1 / channel.shape[0]) if prior is None else prior
    answers = ((channel * weights[:, None]).T @ loss).argmin(axis=1)
    result = np.zeros_like(loss)
    for output, answer in enumerate(answers):
        result[:, answer] += channel[:, output]
    return result
