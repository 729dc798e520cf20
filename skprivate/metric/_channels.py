"""Mechanisms on finite metric spaces as matrices: rows are states, columns outputs, entries probabilities.

Everything here depends on public geometry alone; `Release.channel` measures the price of a matrix before it draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, kron
from scipy.sparse.csgraph import connected_components

from skprivate.metric._tree_channels import MARGIN
from skprivate.privacy._channel import channel_price, quantise_channel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Largest number of states of the linear programme.
MAX_LP_STATES = 64
#: Share of the uniform law that a channel has at least.
_LEAST_MIXING = 2.0**-40


def optimal_channel(
    distances: FloatArray, epsilon: float, *, prior: FloatArray | None = None, loss: FloatArray | None = None
) -> FloatArray:
    """The ε-metrically private channel with the smallest expected loss, by linear programming (Bordenabe et al. 2014).

    Constraints that follow from two others along a shortest path are left out; what the solver's tolerance leaves
    of a violation is removed by mixing with the uniform channel.

    Parameters
    ----------
    distances : ndarray of shape (n, n)
    epsilon : float
    prior : ndarray of shape (n,), optional
        Public distribution of the states; uniform by default.
    loss : ndarray of shape (n, n), optional
        Loss of answering y in state x; ``distances`` by default.

    Returns
    -------
    ndarray of shape (n, n)
    """
    n = distances.shape[0]
    if n > MAX_LP_STATES:
        raise ValueError(
            f"mechanism='optimal' solves a linear programme in {n}² unknowns; at most {MAX_LP_STATES} states are "
            "allowed unless they lie on a line or on the leaves of a tree. Use mechanism='exponential'."
        )
    weights = np.full(n, 1 / n) if prior is None else prior
    cost = (weights[:, None] * (distances if loss is None else loss)).ravel()
    pairs = essential_pairs(distances)
    factor = np.exp(np.minimum(epsilon * (1 - MARGIN) * distances[pairs[:, 0], pairs[:, 1]], 600.0))
    row = np.arange(len(pairs))
    # e^{−ερ} P(y|x) − P(y|x′) ≤ 0 for every y: written on rows of P, then repeated for the outputs.
    relation = coo_array(
        (
            np.concatenate([1 / factor, -np.ones(len(pairs))]),
            (np.concatenate([row, row]), np.concatenate([pairs[:, 0], pairs[:, 1]])),
        ),
        shape=(len(pairs), n),
    )
    found: Any = linprog(  # type: ignore[call-overload]
        cost,
        A_ub=csr_array(kron(relation, eye_array(n))),
        b_ub=np.zeros(len(pairs) * n),
        A_eq=csr_array(kron(eye_array(n), np.ones((1, n)))),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    solution = np.maximum(found.x.reshape(n, n), 0.0)
    solution /= solution.sum(axis=1, keepdims=True)
    return affordable(solution, distances, epsilon)


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


def essential_pairs(distances: FloatArray) -> IntArray:
    """Ordered pairs with no state between them: d(x, z) + d(z, x′) > d(x, x′) for every other z."""
    n = distances.shape[0]
    slack = 1e-12 * float(distances.max(initial=0.0))
    pairs = []
    for x in range(n):
        for other in range(n):
            if x == other:
                continue
            through = distances[x] + distances[:, other]
            through[[x, other]] = np.inf
            if through.min(initial=np.inf) > distances[x, other] + slack or distances[x, other] == 0:
                pairs.append((x, other))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


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
