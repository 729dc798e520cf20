"""Channels on finite metric spaces: what Lemma 4.1 leaves of epsilon, and what is won by taking it.

Worst-case expected error of the best net with half of ε in the exponent, as published, and of the channel that is as
steep as its measured price allows; beside them the mean error of that channel, of the one with the least mean error
(linear programme), and the bound that no channel is below.

    python benchmarks/metric_channels.py
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from _common import parse_args, write_table

from skprivate.datasets import load_icd10
from skprivate.metric import tree_distances
from skprivate.metric._tables import leaves_of
from skprivate.metric.net._exponential import best_exponential_channel, exponential_channel, net_scales
from skprivate.metric.net._interior_point import optimal_channel
from skprivate.metric.net._spaces import expected_loss, separated_net, worst_error
from skprivate.privacy.draws._metric import channel_cost, quantise_channel


def main() -> None:
    parse_args(__doc__, seeds=1)
    parents = load_icd10().parents
    leaves = leaves_of(parents)
    order = np.random.default_rng(0)
    codes = {n: [leaves[i] for i in sorted(order.choice(len(leaves), n, replace=False))] for n in (60, 20, 200)}
    spaces = {
        "ICD-10, 200 codes": (tree_distances(parents, codes[200]), (2.0, 8.0)),
        "ICD-10, 60 codes": (tree_distances(parents, codes[60]), (2.0, 8.0, 20.0)),
        "ICD-10, 20 codes": (tree_distances(parents, codes[20]), (8.0, 20.0)),
        "6 × 6 map": (_map(6), (0.5, 2.0)),
        "12 × 12 map": (_map(12), (0.3, 0.7, 2.0)),
        "15 × 15 map": (_map(15), (0.7,)),
        "line of 20": (np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0))), (0.5, 2.0)),
    }
    rows = []
    for name, (distances, budgets) in spaces.items():
        for epsilon in budgets:
            nets = [separated_net(distances, float(scale)) for scale in net_scales(distances)]
            published = min(
                (exponential_channel(distances, net, epsilon) for net in nets),
                key=lambda channel: worst_error(channel, distances),
            )
            start = time.process_time()
            channel = best_exponential_channel(distances, epsilon)
            seconds = time.process_time() - start
            n, start = len(distances), time.process_time()
            optimum, bound = optimal_channel(distances, distances / n, epsilon, channel)
            seconds_optimal = time.process_time() - start
            rows.append(
                [
                    name,
                    epsilon,
                    worst_error(published, distances),
                    channel_cost(quantise_channel(published), distances),
                    worst_error(channel, distances),
                    channel_cost(quantise_channel(channel), distances),
                    round(seconds, 2),
                    expected_loss(channel, distances),
                    expected_loss(optimum, distances),
                    bound,
                    round(seconds_optimal, 2),
                ]
            )
            print(rows[-1], flush=True)
    columns = [
        "space",
        "epsilon",
        "published: error",
        "its price",
        "ours: error",
        "our price",
        "CPU s",
        "our mean error",
        "least mean error",
        "bound",
        "its CPU s",
    ]
    write_table("metric_channels", columns, rows)


def _map(side: int) -> np.ndarray:
    cells = np.array(list(itertools.product(range(side), range(side))), dtype=float)
    return np.linalg.norm(cells[:, None] - cells[None], axis=2)


if __name__ == "__main__":
    main()
