"""Finite metric spaces and mechanisms on them as matrices.

Everything here depends on public geometry alone; `Release.channel` measures the cost of a matrix before it draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from skprivate.privacy import draws
from skprivate.privacy.noise import FloatArray, IntArray

#: Share of the uniform law that a channel has at least.
_LEAST_MIXING = 2.0**-40


def distance_matrix(space: ArrayLike) -> FloatArray:
    """Copy a matrix of distances; refuse one that is no (pseudo)metric, naming the entry or triangle that fails."""
    matrix = np.array(space, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"distances must be a square matrix, got shape {matrix.shape}.")
    if not np.all(np.isfinite(matrix)):
        raise ValueError("distances must be finite.")
    scale = float(matrix.max())
    slack = 1e-9 * abs(scale)
    if (bad := np.argwhere(np.abs(np.diag(matrix)) > 0)).size:
        i = int(bad[0, 0])
        raise ValueError(f"distances must be zero on the diagonal, but entry ({i}, {i}) is {matrix[i, i]:g}.")
    if (bad := np.argwhere(matrix < 0)).size:
        i, j = (int(k) for k in bad[0])
        raise ValueError(f"distances must not be negative, but entry ({i}, {j}) is {matrix[i, j]:g}.")
    if (bad := np.argwhere(np.abs(matrix - matrix.T) > slack)).size:
        i, j = (int(k) for k in bad[0])
        raise ValueError(
            f"distances must be symmetric, but entry ({i}, {j}) is {matrix[i, j]:g} and ({j}, {i}) is {matrix[j, i]:g}."
        )
    for k in range(matrix.shape[0]):
        with np.errstate(over="ignore"):
            excess = matrix - (matrix[:, k][:, None] + matrix[k][None, :])
        if excess.max() > slack:
            i, j = (int(index) for index in np.unravel_index(int(excess.argmax()), excess.shape))
            raise ValueError(
                f"distances must satisfy the triangle inequality, but d({i}, {j}) = {matrix[i, j]:g} > d({i}, {k}) + "
                f"d({k}, {j}) = {matrix[i, k] + matrix[k, j]:g}."
            )
    return matrix


def separated_net(matrix: FloatArray, scale: float) -> IntArray:
    """Find a maximal subset with pairwise distances (or losses) > ``scale``, greedily in the order of the points.

    Every point is within ``scale`` of it (Fact 2.1).
    """
    near = np.zeros(matrix.shape[0], dtype=bool)
    net = []
    for point in range(matrix.shape[0]):
        if not near[point]:
            net.append(point)
            near |= matrix[:, point] <= scale
    return np.array(net, dtype=np.int64)


def tree_distances(parents: Mapping[Any, Any], leaves: Sequence[Any], *, base: float = 2.0) -> FloatArray:
    """Compute the ultrametric of a rooted tree: the height of the lowest common ancestor.

    Two different codes whose common path from the root has k edges are at distance ``base ** -k``, so codes of
    different chapters are at distance 1.

    Parameters
    ----------
    parents : mapping
        Parent of every node; a root's parent is missing or None. Several roots count as children of one more node.
    leaves : sequence of n nodes
        The points. One may be an ancestor of another.
    base : float > 1, default=2.0

    Returns
    -------
    ndarray of shape (n, n)

    See Also
    --------
    load_icd10 : Loads a tree of diagnoses.
    MetricPrivatizer : Randomises codes by these distances.
    """
    if not base > 1:
        raise ValueError(f"base must be above 1, got {base!r}.")
    paths = []
    for leaf in leaves:
        path, node = [leaf], leaf
        while (node := parents.get(node)) is not None:
            if node in path:
                raise ValueError(f"parents must form a tree, but {node!r} is its own ancestor.")
            path.append(node)
        paths.append(path[::-1])
    depth = max(len(path) for path in paths)
    numbers: dict[Any, int] = {}
    table = np.full((len(paths), depth), -1, dtype=np.int64)
    for row, path in enumerate(paths):
        for level, node in enumerate(path):
            table[row, level] = numbers.setdefault(node, len(numbers))
    common = np.zeros((len(paths),) * 2, dtype=np.int64)
    alike = np.ones((len(paths),) * 2, dtype=bool)
    for level in range(depth):
        alike &= (table[:, level][:, None] == table[:, level][None, :]) & (table[:, level] >= 0)[:, None]
        common += alike
    # The number of edges is that of common nodes minus one; several roots have one more common node.
    roots = {node for node, parent in parents.items() if parent is None}
    roots |= {parent for parent in parents.values() if parent is not None and parent not in parents}
    edges = common - (1 if len(roots) == 1 else 0)
    distances: FloatArray = np.power(float(base), -edges.astype(np.float64))
    distances[(table[:, None, :] == table[None, :, :]).all(axis=2)] = 0.0
    return distances


def make_affordable(channel: FloatArray, distances: FloatArray, epsilon: float) -> FloatArray:
    """Mix a channel with the uniform law on its outputs, by as little as makes its integers cost at most ``epsilon``.

    If p ≤ e^{ερ}·p′ then p + u ≤ e^{ερ}·(p′ + u), and the difference between both sides grows by u·(e^{ερ} − 1): a
    margin for rounding to integers, probabilities below the least float64 and a solver's tolerance. States at distance
    0 get the row of the first of them. The uniform channel itself costs nothing, so a mixture always exists.
    """
    channel = channel[representatives(distances)]
    used = (channel > 0).any(axis=0)
    uniform = used / np.count_nonzero(used)
    mixing = _LEAST_MIXING
    while mixing < 1:
        mixed: FloatArray = (1 - mixing) * channel + mixing * uniform
        if draws.channel_cost(draws.quantise_channel(mixed), distances) <= epsilon:
            return mixed
        mixing *= 4
    return np.tile(uniform, (channel.shape[0], 1))


def representatives(distances: FloatArray) -> IntArray:
    """Find for each state the first one at distance 0 from it, directly or by others."""
    alike = connected_components(csr_array(distances == 0), directed=False)[1]
    first: IntArray = np.unique(alike, return_index=True)[1][alike]
    return first


def worst_error(channel: FloatArray, accuracy: FloatArray) -> float:
    """Compute the largest expected distance between state and output."""
    return float((channel * accuracy).sum(axis=1).max())


def expected_loss(channel: FloatArray, loss: FloatArray, prior: FloatArray | None = None) -> float:
    """Compute the expected loss under a prior (uniform by default)."""
    losses = (channel * loss).sum(axis=1)
    return float(losses.mean() if prior is None else losses @ prior)


def remap(channel: FloatArray, loss: FloatArray, prior: FloatArray | None = None) -> FloatArray:
    """Follow a channel by the best answer to each output under a prior: post-processing."""
    weights = np.full(channel.shape[0], 1 / channel.shape[0]) if prior is None else prior
    answers = ((channel * weights[:, None]).T @ loss).argmin(axis=1)
    result = np.zeros_like(loss)
    for output, answer in enumerate(answers):
        result[:, answer] += channel[:, output]
    return result
