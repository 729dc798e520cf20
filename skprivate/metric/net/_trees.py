"""Optimal channels on trees and lines, with a certified bound of the loss of every channel.

A column of a channel, one output's probabilities over the states, is a p ≥ 0 with p(x) ≤ e^{ερ(x, x′)}·p(x′). If
distances are those along the edges of a tree, p extends to the inner nodes with a ratio of at most e^{ε·length} along
every edge: the linear programme needs two constraints per edge and output instead of one per pair of states. The best p
for given prices of the states is found from the leaves upwards, in one pass. It finds the outputs that are missing
from a programme with few of them, and bounds the loss of every channel from below (docs/metric.md, Theorem 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, kron
from scipy.spatial.distance import squareform

from skprivate.privacy.noise import FloatArray, IntArray

#: Relative gap between loss and bound at which the search ends.
GAP = 1e-5
#: Most unknowns (nodes × outputs) of a linear programme: some seconds.
MAX_UNKNOWNS = 20_000
#: Outputs of the first programme, and most programmes.
FIRST_OUTPUTS, MAX_ROUNDS = 16, 8
# A rarer output is left out of the next programme if it is too large.
_MIN_USE = 1e-6
#: ε is lowered by this share before a channel is designed, so that its price is at most ε after rounding.
MARGIN = 1e-7
# Relative error of distances of a tree or a line: the price of the channel is measured in the end.
_RELATIVE = 1e-12


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree with edge lengths, some of whose nodes are states of a space.

    Parents come before their children; the first node is the root, with parent -1. ``length`` is that of the edge to
    the parent, ``states`` the node of each state; several may share one.
    """

    parent: IntArray
    length: FloatArray
    states: IntArray

    @classmethod
    def of(cls, distances: FloatArray) -> Tree | None:
        """Find the tree with these distances, for points on a line and for ultrametrics; None for other spaces."""
        n = distances.shape[0]
        slack = _RELATIVE * float(distances.max(initial=0.0))
        along = distances[int(distances[0].argmax())]
        if np.all(np.abs(np.abs(along[:, None] - along[None, :]) - distances) <= slack):
            order = np.argsort(along, kind="stable")
            states = np.empty(n, dtype=np.int64)
            states[order] = np.arange(n)
            return cls(np.arange(-1, n - 1), np.diff(along[order], prepend=along[order[0]]), states)
        merges = linkage(squareform(distances, checks=False), "single")
        nodes = 2 * n - 1
        height, parent = np.zeros(nodes), np.full(nodes, -1, dtype=np.int64)
        common = np.zeros_like(distances)
        members: list[list[int]] = [[x] for x in range(n)]
        for i, (left, right, joined, _) in enumerate(merges):
            height[n + i] = joined
            parent[[int(left), int(right)]] = n + i
            first, second = members[int(left)], members[int(right)]
            common[np.ix_(first, second)] = joined
            common[np.ix_(second, first)] = joined
            members.append(first + second)
        if np.any(np.abs(common - distances) > slack):
            return None
        # Numbered from the root on; the path between two leaves is as long as the height of their ancestor.
        length = np.where(parent >= 0, 0.5 * (height[parent] - height), 0.0)[::-1]
        turned = np.where(parent[::-1] >= 0, nodes - 1 - parent[::-1], -1)
        return cls(turned, length, nodes - 1 - np.arange(n))

    @property
    def rounding(self) -> float:
        """Largest rounding error of ⟨costs, p⟩/Σp in `best_columns`, relative to the largest cost.

        Every term is rounded three times for each edge on its way up, and so are the sums whose signs are used.
        """
        depth = np.zeros(self.parent.size)
        for node in range(1, self.parent.size):
            depth[node] = depth[self.parent[node]] + 1
        return float((depth.max() + self.states.size) ** 2) * 2.0**-51

    def best_columns(self, costs: FloatArray, epsilon: float) -> FloatArray:
        """Find for every column of ``costs`` the p that minimises ⟨costs, p⟩, if that can be negative; largest entry 1.

        If the least sum below a node is W times the p of that node, an edge multiplies it by e^{−ε·length} if W is
        positive and by e^{ε·length} if it is negative; sums add up at the parent.
        """
        total = np.zeros((self.parent.size, costs.shape[1]))
        np.add.at(total, self.states, costs)
        steps = epsilon * self.length
        logs = np.empty_like(total)
        with np.errstate(over="ignore"):  # very negative numbers stay very negative
            for node in range(self.parent.size - 1, 0, -1):
                below = total[node] >= 0
                logs[node] = np.where(below, -steps[node], steps[node])
                total[self.parent[node]] += total[node] * np.exp(logs[node])
        logs[0] = 0.0
        for node in range(1, self.parent.size):
            logs[node] += logs[self.parent[node]]
        logs = logs[self.states]
        columns: FloatArray = np.exp(logs - logs.max(axis=0))
        return columns


def loss_bound(
    tree: Tree, losses: FloatArray, epsilon: float, prices: FloatArray
) -> tuple[float, FloatArray]:
    """Bound every channel's expected loss from below, by any prices of the states; return the lowered prices, too.

    Prices μ with ⟨losses(·, y) − μ, p⟩ ≥ 0 for every y and every admissible p are feasible for the dual linear
    programme, and Σ μ is a bound: for a channel Σ_{x,y} losses(x, y)·P(y|x) ≥ Σ_{x,y} μ(x)·P(y|x) = Σ μ. Prices
    are lowered by the same amount until they are.
    """
    while True:
        reduced = losses - prices[:, None]
        slack = tree.rounding * float(np.abs(reduced).max())
        # Lowered by the slack, prices must be feasible to the sign: a p whose ⟨a, p⟩ is negligible beside its Σp hides
        # others.
        reduced += slack
        columns = tree.best_columns(reduced, epsilon)
        missing = float((-(reduced * columns).sum(axis=0) / columns.sum(axis=0)).max())
        if missing <= 0:
            return float((prices - 2 * slack).sum()), prices
        prices = prices - max(missing, slack)


def optimal_tree_channel(
    tree: Tree, losses: FloatArray, epsilon: float, start: FloatArray
) -> tuple[FloatArray, float]:
    """Find a channel of small expected loss within `MAX_UNKNOWNS`, and a lower bound of the loss of every channel.

    The linear programme has one column p of probabilities, on all nodes of the tree, for every output, and two
    constraints for every edge. It begins with few outputs; those for which a column is worth its price are added
    until there are none (then loss and bound are the same) or the programme is too large. ``losses`` contain the prior;
    the result costs at most ``epsilon`` and is no worse than ``start``.
    """
    n = losses.shape[0]
    scale = float(losses.max()) or 1.0
    losses = losses / scale
    value, channel = float((losses * start).sum()), start
    tolerance = 4 * n * tree.rounding
    bound = max(loss_bound(tree, losses, epsilon, _levelled_prices(tree, losses, epsilon))[0], 0.0)
    most = min(max(MAX_UNKNOWNS // tree.parent.size, 1), n)
    outputs = np.unique(np.linspace(0, n - 1, min(most, FIRST_OUTPUTS)).astype(np.int64))
    for _ in range(MAX_ROUNDS):
        if value - bound <= GAP * value + tolerance:
            break
        found, prices, solution = _with_outputs(tree, losses, epsilon * (1 - MARGIN), outputs)
        if found < value:
            value, channel = found, np.zeros((n, n))
            channel[:, outputs] = solution / solution.sum(axis=1, keepdims=True)
        bound = max(bound, loss_bound(tree, losses, epsilon, prices)[0])
        reduced = losses - prices[:, None]
        worth = (reduced * tree.best_columns(reduced, epsilon)).sum(axis=0)
        worth[outputs] = 0.0
        kept = outputs if 2 * outputs.size <= most else outputs[solution.max(axis=0) > _MIN_USE]
        fresh = np.argsort(worth, kind="stable")[: min(outputs.size, most - kept.size)]
        fresh = fresh[worth[fresh] < 0]
        if not fresh.size:
            break
        outputs = np.sort(np.concatenate([kept, fresh]))
    return channel, min(bound, value) * scale


def _levelled_prices(tree: Tree, losses: FloatArray, epsilon: float) -> FloatArray:
    """Find prices at which every column e^{−ερ(·, y)} is worth 0: the optimal ones if all of them are used."""
    n = losses.shape[0]
    # The best p for a gain in one state falls off from it.
    kernel = tree.best_columns(np.eye(n) * -1.0, epsilon)
    try:
        prices = np.linalg.solve(kernel.T, (losses * kernel).sum(axis=0))
    except np.linalg.LinAlgError:
        return np.zeros(n)
    return prices if np.isfinite(prices).all() else np.zeros(n)


def _with_outputs(
    tree: Tree, losses: FloatArray, epsilon: float, outputs: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Minimise the loss over channels to some outputs; return it, prices of the states and the channel."""
    n, nodes, k = losses.shape[0], tree.parent.size, outputs.size
    child, edge = np.arange(1, nodes), np.arange(nodes - 1)
    least, ones = np.exp(-epsilon * tree.length[1:]), np.ones(nodes - 1)
    # e^{−ε·length}·p(child) ≤ p(parent) and the other way round, for every output.
    relation = coo_array(
        (
            np.concatenate([least, -ones, least, -ones]),
            (
                np.concatenate([edge, edge, edge + nodes - 1, edge + nodes - 1]),
                np.concatenate([child, tree.parent[1:], tree.parent[1:], child]),
            ),
        ),
        shape=(2 * (nodes - 1), nodes),
    )
    total = coo_array((np.ones(n), (np.arange(n), tree.states)), shape=(n, nodes))
    cost = np.zeros((nodes, k))
    np.add.at(cost, tree.states, losses[:, outputs])
    found: Any = linprog(  # type: ignore[call-overload]
        cost.ravel(),
        A_ub=csr_array(kron(relation, eye_array(k))),
        b_ub=np.zeros(2 * (nodes - 1) * k),
        A_eq=csr_array(kron(total, np.ones((1, k)))),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs-ipm",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    solution = np.maximum(found.x.reshape(nodes, k)[tree.states], 0.0)
    return float(found.fun), np.asarray(found.eqlin.marginals), solution
