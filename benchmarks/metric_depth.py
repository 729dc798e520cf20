"""How deep the binary hierarchy should go: W1 without a grid, on data of several kinds.

The automatic depth is a constant plus what a released pilot says of the rows' concentration; here with constants from
the former one (−0.7 for two columns, 0.65 for more) upwards. Exact transport between 1 000 synthetic rows and
1 000 of the fitted ones; "bootstrap" takes fitted rows, drawn with replacement, for the synthetic ones.

    python benchmarks/metric_depth.py --data DIR [--seeds 2]        # needs POT (pip install pot)
"""

from __future__ import annotations

import math
import statistics

import numpy as np
from _common import parse_args, require_data, write_table

from skprivate.datasets import load_locations
from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric.grid._hierarchy import FURTHER_SPLITS

SHIFTS = (0.0, 0.7, 1.2, 1.7, 2.2)
ROWS = 1000


def fraction(rows: np.ndarray, lower: list[float], upper: list[float]) -> np.ndarray:
    return np.clip((rows - np.array(lower)) / (np.array(upper) - np.array(lower)), 0, 1)


def data_sets(args, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows in the unit cube, boxes as public knowledge would give them."""
    import pyarrow.parquet as pq

    houses = pq.read_table(require_data(args, "california_housing.parquet")).to_pandas()
    place = houses[["Longitude", "Latitude"]].to_numpy()
    more = houses[["MedInc", "HouseAge", "MedHouseVal"]].to_numpy()
    california = fraction(place, [-124.5, 32.5], [-114.1, 42.1])
    five = np.hstack([california, fraction(more, [0, 0, 0], [15, 60, 5.1])])
    angle, centre = rng.uniform(0, 2 * math.pi, 40_000), rng.choice(4, 40_000)
    middles = np.array([[0.25, 0.3, 0.5], [0.7, 0.25, 0.2], [0.35, 0.75, 0.7], [0.75, 0.7, 0.4]])
    mixture = np.clip(middles[centre] + 0.08 * rng.normal(size=(40_000, 3)), 0, 1)
    ring = 0.5 + 0.35 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.01 * rng.normal(size=(40_000, 2))
    return {
        "pickups, 2": fraction(load_locations().data[:, :2], [-74.26, 40.49], [-73.70, 40.92]),
        "California, 2": california,
        "mixture, 2": mixture[:, :2],
        "uniform, 2": rng.random((40_000, 2)),
        "ring, 2": np.clip(ring, 0, 1),
        "California, 3": five[:, [0, 1, 4]],
        "mixture, 3": mixture,
        "California, 5": five,
        "beta, 4": rng.beta(2, 5, size=(40_000, 4)),
    }


def transport(first: np.ndarray, second: np.ndarray) -> float:
    import ot

    cost = np.sqrt(((first[:, None] - second[None]) ** 2).sum(axis=2))
    return float(ot.emd2(np.full(len(first), 1 / len(first)), np.full(len(second), 1 / len(second)), cost, 10**7))


def main() -> None:
    args = parse_args(__doc__, seeds=2)
    rows = []
    for name, points in data_sets(args, np.random.default_rng(0)).items():
        for n in (1000, 8000):
            for epsilon in (0.5, 2.0):
                found = {shift: [] for shift in SHIFTS}
                floor = []
                for seed in range(args.seeds):
                    rng = np.random.default_rng(seed)
                    order = rng.permutation(len(points))
                    train = points[order[:n]]
                    held = train[:ROWS]
                    floor.append(transport(train[rng.integers(len(train), size=ROWS)], held))
                    for shift in SHIFTS:
                        FURTHER_SPLITS.update({2: -0.7 + shift, 3: 0.65 + shift})
                        model = MetricPrivateSynthesizer(epsilon, bounds=(0, 1)).fit(train)
                        found[shift].append(transport(model.sample(ROWS, random_state=seed), held))
                rows.append(
                    [name, len(train), epsilon, round(statistics.mean(floor), 4)]
                    + [round(statistics.mean(values), 4) for values in found.values()]
                )
                print(rows[-1], flush=True)
    table = np.array([row[4:] for row in rows])
    ratios = np.exp(np.log(table / table[:, :1]).mean(axis=0))
    rows.append(["geometric mean of ratios", "", "", "", *ratios.round(3)])
    write_table("metric_depth", ["rows, columns", "n", "epsilon", "bootstrap", *(f"+{s:g}" for s in SHIFTS)], rows)


if __name__ == "__main__":
    main()
