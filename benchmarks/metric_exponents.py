"""W1 error against ε: `MetricPrivateSynthesizer` under Wasserstein privacy, beside hats, smooth and rough data.

Also the prototype's numbers for a mixture of two Betas (d = 1) and of four Gaussians (d = 2, ℓ∞ transport), and plain
differential privacy (d = 2) against n·ε.

    python benchmarks/metric_exponents.py [--seeds 3]     # needs POT (pip install pot)
"""

from __future__ import annotations

import statistics
import sys
import warnings
from pathlib import Path

import numpy as np
from _common import parse_args, read_table, save_figure, write_table
from metric_square import make_points
from scipy.stats import wasserstein_distance

from skprivate.metric import GridMeasure, MetricPrivateSynthesizer
from skprivate.privacy import open_release

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.hat_measures import HatMoments, choose_levels

GRIDS = {1: 1024, 2: 64, 3: 14}
EPSILONS = {1: [1e2, 1e3, 1e4, 1e5], 2: [1e3, 1e4, 1e5, 1e6], 3: [1e4, 1e5, 1e6]}


def transport(p: np.ndarray, q: np.ndarray) -> float:
    """W1 with ℓ∞ ground distance between measures on a grid of the unit cube: exact."""
    if p.ndim == 1:
        centres = (np.arange(p.size) + 0.5) / p.size
        return float(wasserstein_distance(centres, centres, p, q))
    import ot

    difference = (p - q).ravel()
    source, target = np.flatnonzero(difference > 1e-13), np.flatnonzero(difference < -1e-13)
    nodes = np.stack(np.unravel_index(np.arange(p.size), p.shape), axis=1) / p.shape[0]
    cost = np.abs(nodes[source][:, None] - nodes[target][None]).max(axis=2)
    mass = difference[source].sum()
    give, take = difference[source] / mass, -difference[target]
    return float(ot.emd2(give, take / take.sum(), cost, numItermax=10**7)) * mass


def flow(data: np.ndarray, epsilon: float, seed: int) -> GridMeasure:
    model = MetricPrivateSynthesizer(epsilon, metric="wasserstein", bounds=(0, 1), random_state=seed)
    return model.fit(data).measure_


def hats(data: np.ndarray, epsilon: float, seed: int) -> GridMeasure:
    """The hierarchy of hat functions, which the estimator does not offer."""
    n, d = data.shape
    mechanism = HatMoments(epsilon, n, d, "linf", choose_levels(epsilon, d, "linf"))
    release = open_release(
        epsilon=epsilon, unit="data set", adjacency="metric", metric="W1", random_state=seed, plan=mechanism.events
    )
    return GridMeasure(np.zeros(d), np.ones(d), mechanism.run(data, release), "nodes")


def smooth(d: int, rng: np.random.Generator) -> np.ndarray:
    n = 20_000
    if d == 2:
        return make_points(n, rng)
    first = rng.random(n) < 0.5
    return np.where(first[:, None], rng.beta(2, 8, (n, d)), rng.beta(9, 3, (n, d)))


def rough(d: int, rng: np.random.Generator) -> np.ndarray:
    """Singular at every scale: each coordinate a random cascade, unrelated between the halves of every interval."""
    m = GRIDS[d]
    mass = np.ones(1)
    bits = int(np.log2(m)) * d if d < 3 else 12
    while mass.size < 2**bits:
        share = rng.beta(0.35, 0.35, mass.size)
        mass = np.stack([mass * share, mass * (1 - share)], axis=1).ravel()
    from skprivate.metric.grid._hierarchy import HierarchyPlan, from_tree_order

    shape = HierarchyPlan(d, bits).shape
    return GridMeasure(np.zeros(d), np.ones(d), from_tree_order(mass, shape), "cells").sample(20_000, rng)


def main() -> None:
    args = parse_args(__doc__, seeds=3)
    warnings.simplefilter("ignore")
    rows = []
    for d, epsilons in EPSILONS.items():
        for name, make in (("smooth", smooth), ("rough", rough)):
            data = make(d, np.random.default_rng(1))
            truth = np.histogramdd(data, bins=GRIDS[d], range=[(0, 1)] * d)[0] / len(data)
            for mechanism in (flow, hats):
                if mechanism is hats and (name == "rough" or d == 3):
                    continue
                errors = []
                for epsilon in epsilons:
                    found = [
                        transport(mechanism(data, epsilon, seed).on_cells(GRIDS[d]), truth)
                        for seed in range(args.seeds)
                    ]
                    errors.append(statistics.median(found))
                slope = float(np.polyfit(np.log(epsilons), np.log(errors), 1)[0])
                shown = [round(error, 5) for error in errors] + [""] * (4 - len(errors))
                rows.append([d, name, mechanism.__name__, *shown, round(slope, 3), round(-1 / (d + 1), 3)])
                print(rows[-1], flush=True)
    sizes, errors = [1e3, 1e4, 1e5], []
    for n in sizes:
        data = make_points(int(n), np.random.default_rng(2))
        truth = np.histogramdd(data, bins=64, range=[(0, 1)] * 2)[0] / len(data)
        model = MetricPrivateSynthesizer(1.0, metric="rows", bounds=(0, 1))
        errors.append(
            statistics.median(
                transport(model.set_params(random_state=s).fit(data).measure_.on_cells(64), truth)
                for s in range(args.seeds)
            )
        )
    slope = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    rows.append([2, "smooth", "rows, n = 1e3 …", *(round(e, 5) for e in errors), "", round(slope, 3), -0.5])
    write_table(
        "metric_exponents",
        ["d", "data", "mechanism", "error 1", "error 2", "error 3", "error 4", "slope", "worst case"],
        rows,
    )
    draw()


def draw() -> None:
    """Draw the errors against ε, one panel a dimension."""
    import matplotlib.pyplot as plt

    curves = {}
    for d, name, mechanism, *errors in read_table("metric_exponents"):
        if mechanism in ("flow", "hats"):
            curves[int(d), name, mechanism] = (EPSILONS[int(d)], [float(error) for error in errors[:4] if error])
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    for d, ax in zip((1, 2, 3), axes, strict=True):
        for (dimension, name, mechanism), (epsilons, found) in curves.items():
            if dimension == d:
                ax.loglog(epsilons, found, "o-", ms=3, label=f"{mechanism}, {name} data")
        band = np.array(EPSILONS[d]) ** (-1 / (d + 1))
        ax.fill_between(
            EPSILONS[d], 0.1 * band, band, color="0.9", label=rf"0.1 to 1 times $\varepsilon^{{-1/{d + 1}}}$"
        )
        ax.set(title=f"d = {d}", xlabel="ε per unit of $W_1$")
        ax.legend(frameon=False, fontsize=7)
    axes[0].set_ylabel("$W_1$ to the data")
    figure.tight_layout()
    save_figure(figure, "metric_exponents")


if __name__ == "__main__":
    main()
