"""Taxi pickups in degrees, randomised per kilometre and, by mistake, per degree: how far they end up.

python benchmarks/metric_degrees.py
"""

from __future__ import annotations

import warnings

import numpy as np
from _common import parse_args, save_figure, write_table
from sklearn.metrics.pairwise import haversine_distances

from skprivate.datasets import load_locations
from skprivate.metric import DegreesWarning, MetricPrivatizer
from skprivate.metric._domains import EARTH_RADIUS


def kilometres(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Great-circle distances of rows (longitude, latitude)."""
    pairs = zip(np.radians(first[:, ::-1]), np.radians(second[:, ::-1]), strict=True)
    return np.array([EARTH_RADIUS * haversine_distances([a], [b])[0, 0] for a, b in pairs])


def main() -> None:
    parse_args(__doc__, seeds=1)
    trips = load_locations(as_frame=True)
    pickups = trips.data[["pickup_longitude", "pickup_latitude"]]
    lower, upper = (end[:2] for end in trips.feature_bounds)
    settings = {
        "haversine, bounds": {"metric": "haversine", "bounds": (lower, upper)},
        "haversine": {"metric": "haversine"},
        "l2 (per degree)": {"metric": "l2"},
    }
    table, drawn = [], {}
    for name, keywords in settings.items():
        for epsilon in (2.0, 10.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DegreesWarning)
                drawn[name, epsilon] = MetricPrivatizer(epsilon, **keywords).fit_transform(pickups)
            moved = kilometres(pickups.to_numpy(), drawn[name, epsilon])
            table.append([name, epsilon, round(float(np.median(moved)), 3), round(float(moved.mean()), 3)])
    write_table("metric_degrees", ["metric", "epsilon", "median km", "mean km"], table)

    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharex=True, sharey=True)
    shown = {
        "pickups": pickups.to_numpy(),
        "ε = 2 per km": drawn["haversine, bounds", 2.0],
        "ε = 2 per degree": drawn["l2 (per degree)", 2.0],
    }
    for ax, (name, points) in zip(axes, shown.items(), strict=True):
        ax.scatter(*points.T, s=1, alpha=0.3)
        ax.set(title=name, xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]), xlabel="longitude")
        ax.set_aspect(1 / np.cos(np.radians(40.7)))
    axes[0].set_ylabel("latitude")
    save_figure(figure, "metric_degrees")


if __name__ == "__main__":
    main()
