"""Synthetic points in the unit square: W1 of plain ε-differentially private synthesizers.

Ours beside the binary hierarchy with the published split of the budget (here with shares that add up to ε),
without and with weighted least squares, and stopped three levels early. AIM and MST are quoted from a recorded run
(δ = 1e-6, best of three binnings picked with the answer in hand). Distances are exact transport on a 64 × 64 grid
(Euclidean).

    python benchmarks/metric_square.py [--seeds 5]        # needs POT (pip install pot)
"""

from __future__ import annotations

import statistics
import time
import warnings

import numpy as np
from _common import parse_args, read_table, save_figure, write_table

from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric.grid._hierarchy import (
    HierarchyPlan,
    consistent_leaves,
    discrete_laplace_variance,
    from_tree_order,
    leaf_counts,
    to_tree_order,
)
from skprivate.metric.grid._measure import GridMeasure
from skprivate.privacy import open_release

CELLS = 64
RECORDED = {(1e3, 1): (0.0368, 0.0461), (1e4, 1): (0.0114, 0.0116), (1e5, 0.5): (0.0057, 0.0057),
            (1e5, 1): (0.0035, 0.0036), (1e5, 5): (0.0034, 0.0019)}  # fmt: skip
COMPARED = {"bootstrap": 2, "PMM": 3, "PMM + WLS, r−3": 5, "ours": 6}  # columns of the table
SETTINGS = [(1e3, 1.0), (1e4, 0.5), (1e4, 1.0), (1e5, 0.5), (1e5, 1.0), (1e5, 5.0)]


def make_points(n: int, rng: np.random.Generator) -> np.ndarray:
    """A mixture of four Gaussians in the unit square."""
    centres = np.array([[0.25, 0.3], [0.7, 0.25], [0.35, 0.75], [0.75, 0.7]])
    spread = np.array([0.06, 0.1, 0.08, 0.05])
    component = rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2])
    return np.clip(centres[component] + spread[component, None] * rng.normal(size=(n, 2)), 0, 1)


def histogram(points: np.ndarray) -> np.ndarray:
    return np.histogram2d(points[:, 0], points[:, 1], bins=CELLS, range=[[0, 1]] * 2)[0] / len(points)


def transport(p: np.ndarray, q: np.ndarray, ground: str = "l2") -> float:
    """Exact W1 on the grid, in units of the square's side."""
    import ot

    difference = (p - q).ravel()
    source, target = np.flatnonzero(difference > 1e-13), np.flatnonzero(difference < -1e-13)
    nodes = np.stack(np.unravel_index(np.arange(p.size), p.shape), axis=1) / p.shape[0]
    gaps = nodes[source][:, None] - nodes[target][None]
    cost = np.abs(gaps).max(axis=2) if ground == "linf" else np.sqrt((gaps**2).sum(axis=2))
    mass = difference[source].sum()
    give, take = difference[source] / mass, -difference[target]
    return float(ot.emd2(give, take / take.sum(), cost, numItermax=10**7)) * mass


def published_hierarchy(points, epsilon, depth, seed, *, least_squares):
    """Binary hierarchy with ε_j ∝ 2^(j/4), normalised; without least squares children are made consistent only."""
    shares = 2.0 ** (np.arange(depth + 1) / 4)
    budgets = epsilon * shares / shares.sum()
    release = open_release(epsilon=epsilon, unit="row", adjacency="add-remove", random_state=seed)
    plan = HierarchyPlan(2, depth)
    levels = [np.asarray(to_tree_order(leaf_counts(points, plan.shape)))]
    for _ in range(depth):
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    noisy = [
        release.discrete_laplace(level, sensitivity=1, epsilon=budget).astype(float)
        for level, budget in zip(levels, budgets, strict=True)
    ]
    if least_squares:
        variances = np.array([discrete_laplace_variance(budget) for budget in budgets])
        leaves = consistent_leaves(noisy, variances)
    else:
        leaves = np.maximum(noisy[0], 1)
        for level in noisy[1:]:
            pair = np.maximum(level, 0).reshape(-1, 2)
            first = np.clip(0.5 * (leaves + pair[:, 0] - pair[:, 1]), 0, leaves)
            leaves = np.stack([first, leaves - first], axis=1).ravel()
    weights = from_tree_order(leaves / leaves.sum(), plan.shape)
    return GridMeasure(np.zeros(2), np.ones(2), weights, "cells").on_cells(CELLS)


def main() -> None:
    args = parse_args(__doc__, seeds=5)
    warnings.simplefilter("ignore")
    rows = []
    for n, epsilon in SETTINGS:
        errors: dict[str, list[float]] = {}
        seconds = []
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            points = make_points(int(n), rng)
            truth = histogram(points)

            def note(name, measure, errors=errors, truth=truth):
                errors.setdefault(name, []).append(transport(measure, truth))

            note("bootstrap", histogram(points[rng.integers(int(n), size=int(n))]))
            depth = round(np.log2(n * epsilon))
            note("PMM", published_hierarchy(points, epsilon, depth, seed, least_squares=False))
            note("PMM + WLS", published_hierarchy(points, epsilon, depth, seed, least_squares=True))
            note("PMM + WLS, r−3", published_hierarchy(points, epsilon, depth - 3, seed, least_squares=True))
            start = time.perf_counter()
            model = MetricPrivateSynthesizer(epsilon, metric="rows", bounds=(0, 1)).fit(points)
            seconds.append(time.perf_counter() - start)
            note("ours", model.measure_.on_cells(CELLS))
            note("ours, n rows", histogram(model.sample(int(n), random_state=seed)))
        medians = {name: statistics.median(values) for name, values in errors.items()}
        recorded = RECORDED.get((n, epsilon), ("", ""))
        rows.append(
            [
                f"{n:.0e}",
                epsilon,
                *(round(float(value), 5) for value in medians.values()),
                *recorded,
                round(statistics.median(seconds), 3),
            ]
        )
        print(rows[-1], flush=True)
    columns = ["n", "epsilon", *medians, "AIM (recorded)", "MST (recorded)", "our seconds"]
    write_table("metric_square", columns, rows)
    draw()


def draw() -> None:
    """Draw the errors of each setting."""
    import matplotlib.pyplot as plt

    table = read_table("metric_square")
    figure, ax = plt.subplots(figsize=(7, 3.6))
    labels = [f"n = {int(n):,}\nε = {epsilon:g}".replace(",", " ") for n, epsilon in SETTINGS]
    series = {name: [float(row[k]) for row in table] for name, k in COMPARED.items()}
    for k, name in enumerate(series):
        label = "bootstrap (not private)" if name == "bootstrap" else name
        ax.bar(np.arange(len(labels)) + 0.2 * k, series[name], 0.2, label=label)
    ax.set(xticks=np.arange(len(labels)) + 0.3, xticklabels=labels, yscale="log", ylabel="$W_1$ to the data")
    ax.set_title("Distance of synthetic points to the data, unit square")
    ax.legend()
    figure.tight_layout()
    save_figure(figure, "metric_square")


if __name__ == "__main__":
    main()
