"""Train on synthetic rows of real locations, test on real ones; and what they look like.

California housing (longitude, latitude, median value; ``--data`` with california_housing.parquet) for the model, the
embedded taxi pickups for the picture.

    python benchmarks/metric_utility.py --data DIR
"""

from __future__ import annotations

import statistics
import warnings

import numpy as np
from _common import parse_args, require_data, save_figure, write_table

from skprivate.datasets import load_locations
from skprivate.metric import MetricPrivateSynthesizer

# The state's limits and the survey's top code: public knowledge.
BOUNDS = (np.array([-124.5, 32.5, 0.0]), np.array([-114.0, 42.0, 5.0]))
CITY = (np.array([-74.03, 40.63]), np.array([-73.75, 40.88]))


def main() -> None:
    args = parse_args(__doc__, seeds=5)
    warnings.simplefilter("ignore")
    import pandas as pd
    from sklearn.metrics import r2_score
    from sklearn.neighbors import KNeighborsRegressor

    frame = pd.read_parquet(require_data(args, "california_housing.parquet"))
    rows = frame[["Longitude", "Latitude", "MedHouseVal"]].to_numpy()

    def r2(train, test):
        widths = (BOUNDS[1] - BOUNDS[0])[:2]
        model = KNeighborsRegressor(25).fit(train[:, :2] / widths, train[:, 2])
        return r2_score(test[:, 2], model.predict(test[:, :2] / widths))

    table = []
    settings = [("real rows", None, None)]
    settings += [("rows", epsilon, {"metric": "rows"}) for epsilon in (0.5, 1.0, 3.0, 10.0)]
    settings += [("wasserstein", epsilon, {"metric": "wasserstein"}) for epsilon in (1e4, 1e5, 1e6)]
    for name, epsilon, keywords in settings:
        scores, distances = [], []
        for seed in range(args.seeds):
            order = np.random.default_rng(seed).permutation(len(rows))
            train, test = rows[order[:14_448]], rows[order[14_448:]]
            if keywords is not None:
                model = MetricPrivateSynthesizer(epsilon, bounds=BOUNDS, random_state=seed, **keywords).fit(train)
                train = model.sample(len(train), random_state=seed)
                distances.append(-model.score(test))
            scores.append(r2(train, test))
        table.append(
            [
                name,
                epsilon or "",
                round(statistics.median(scores), 3),
                round(statistics.median(distances), 4) if distances else "",
            ]
        )
        print(table[-1], flush=True)
    write_table("metric_utility", ["training rows", "epsilon", "R² on real rows", "W1 to held-out rows"], table)

    draw()


def draw() -> None:
    """Draw real and synthetic pickups."""
    import matplotlib.pyplot as plt

    pickups = load_locations().data[:, :2]
    pickups = pickups[((pickups > CITY[0]) & (pickups < CITY[1])).all(axis=1)]
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), sharex=True, sharey=True)
    axes[0].scatter(*pickups.T, s=0.5, color="black")
    axes[0].set_title("taxi pickups (real)")
    for ax, (metric, epsilon) in zip(axes[1:], (("rows", 0.5), ("rows", 5.0), ("wasserstein", 1e5)), strict=True):
        model = MetricPrivateSynthesizer(epsilon, metric=metric, bounds=CITY, random_state=0).fit(pickups)
        ax.scatter(*model.sample(len(pickups), random_state=0).T, s=0.5, color="C0")
        ax.set_title(f"{metric}, ε = {epsilon:g}")
    figure.tight_layout()
    save_figure(figure, "metric_locations")


if __name__ == "__main__":
    main()
