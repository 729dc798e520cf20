"""Locations one by one: planar Laplace, remapping and the optimal mechanism on a 6 × 6 map of New York taxi pickups.

python benchmarks/metric_local.py
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from _common import parse_args, read_table, save_figure, write_table

from skprivate.datasets import load_locations
from skprivate.metric import MetricPrivatizer
from skprivate.metric.net._exponential import best_exponential_channel
from skprivate.metric.net._interior_point import optimal_channel
from skprivate.metric.net._spaces import expected_loss, remap


def pickups() -> np.ndarray:
    """Pickups in kilometres, in Manhattan and around: 6 × 6 cells of 2 km."""
    place = (load_locations().data[:, :2] - [-74.02, 40.70]) * [84.3, 111.2]
    return place[((place >= 0) & (place < 12)).all(axis=1)]


def main() -> None:
    parse_args(__doc__, seeds=1)
    cell = np.floor(pickups() / 2).astype(int)
    prior = np.bincount(cell[:, 0] * 6 + cell[:, 1], minlength=36) + 1.0
    prior /= prior.sum()
    centres = 2.0 * np.array(list(itertools.product(range(6), range(6)))) + 1
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    rows = []
    for epsilon in (0.25, 0.5, 1.0, 2.0):
        draws = 20_000
        noisy = MetricPrivatizer(epsilon).fit(centres).transform(np.repeat(centres, draws, axis=0))
        radius = np.linalg.norm(noisy - np.repeat(centres, draws, axis=0), axis=1).mean()
        fine = np.clip(np.floor(noisy).astype(int) + 6, 0, 23)
        planar = np.array(
            [np.bincount(part[:, 0] * 24 + part[:, 1], minlength=576) / draws for part in np.split(fine, 36)]
        )
        answers = ((planar * prior[:, None]).T @ distances).argmin(axis=1)
        nearest = np.clip(np.floor(noisy / 2).astype(int), 0, 5)
        plain = distances[np.repeat(np.arange(36), draws), nearest[:, 0] * 6 + nearest[:, 1]]
        start = time.perf_counter()
        exponential = best_exponential_channel(distances, epsilon)
        optimum = optimal_channel(distances, distances * prior[:, None], epsilon, exponential)[0]
        seconds = time.perf_counter() - start
        found = {
            "planar Laplace, nearest cell": float(prior @ plain.reshape(36, draws).mean(axis=1)),
            "planar Laplace, remapped": float(prior @ np.array([planar[x] @ distances[x, answers] for x in range(36)])),
            "exponential, remapped": expected_loss(remap(exponential, distances, prior), distances, prior),
            "optimal": expected_loss(optimum, distances, prior),
        }
        rows.append([epsilon, round(radius, 4), 2 / epsilon, *(round(v, 3) for v in found.values()), round(seconds, 2)])
        print(rows[-1], flush=True)
    write_table("metric_local", ["epsilon per km", "mean radius", "2/epsilon", *found, "its seconds"], rows)
    draw()


def draw() -> None:
    """Draw the losses against ε, and pickups beside randomised ones."""
    import matplotlib.pyplot as plt

    losses = {
        float(epsilon): [float(loss) for loss in found[:4]] for epsilon, _, _, *found in read_table("metric_local")
    }
    names = ("planar Laplace, nearest cell", "planar Laplace, remapped", "exponential, remapped", "optimal")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for k, name in enumerate(names):
        axes[0].plot(list(losses), [found[k] for found in losses.values()], "o-", ms=3, label=name)
    axes[0].set(xscale="log", xlabel="ε per km", ylabel="mean error, km", ylim=(0, None), title="Error of the place")
    axes[0].set_xticks(list(losses), [f"{e:g}" for e in losses])
    axes[0].minorticks_off()
    axes[0].legend(frameon=False, fontsize=8)
    shown = pickups()[:800]
    noisy = MetricPrivatizer(2.0).fit(shown).transform(shown)
    axes[1].scatter(*noisy.T, s=2, color="C1", label="ε = 2 per km")
    axes[1].scatter(*shown.T, s=2, color="black", label="pickups")
    axes[1].set(
        xlabel="km east", ylabel="km north", aspect="equal", xlim=(-2, 14), ylim=(-2, 14), title="Pickups in New York"
    )
    axes[1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    save_figure(figure, "metric_local")


if __name__ == "__main__":
    main()
