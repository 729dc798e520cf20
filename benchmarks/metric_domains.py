"""W1 with categories, and balls: against what there was for such rows before.

Categories under Wasserstein distance: the measure with a grid for every combination, against a uniform one that has not
seen the rows and against metric="rows" at the ε per row that Wasserstein distance implies; the error is W1 with
categories, over linf. Balls: mean error of rows of unit length randomised under l2, with bounds=Ball and with the box
around it.

    python benchmarks/metric_domains.py --seeds 3
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from _common import parse_args, write_table

from skprivate.metric import Ball, MetricPrivateSynthesizer, MetricPrivatizer, NoiseFillsBoxWarning
from skprivate.metric.grid._mixed import MixedMeasure
from skprivate.privacy import SimulatedNoiseWarning


def people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Three regions and two sexes beside an age that depends on both."""
    region = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    woman = rng.random(n) < 0.5
    age = np.clip(rng.normal(35 + 12 * region + 4 * woman, 12), 0, 100)
    return pd.DataFrame({"region": np.array(["north", "south", "west"])[region], "woman": woman, "age": age})


def mixed(n: int, epsilon: float, weight: float, seed: int) -> list[float]:
    """Errors of "wasserstein", "rows" and the uniform measure."""
    table = people(n, np.random.default_rng(seed))
    public = {
        "bounds": {"age": (0, 100)},
        "categories": {"region": ["north", "south", "west"], "woman": [False, True]},
        "category_weight": weight,
        "random_state": seed,
    }
    flow = MetricPrivateSynthesizer(epsilon, metric="wasserstein", **public).fit(table)
    price = flow.row_guarantee(n).epsilon
    # One row replaced is one removed and one added.
    rows = MetricPrivateSynthesizer(price / 2, metric="rows", **public).fit(table)
    measure = rows.measure_
    blank = np.full_like(measure.weights, 1 / measure.weights.size)
    rows_score = -rows.score(table)
    rows.measure_ = MixedMeasure(measure.columns, measure.lower, measure.upper, blank, "cells")
    return [price, -flow.score(table), rows_score, -rows.score(table)]


def directions(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Embeddings: rows of length 1 around three directions."""
    middles = rng.normal(size=(3, d)) / np.sqrt(d)
    rows = middles[rng.integers(0, 3, n)] + 0.3 * rng.normal(size=(n, d)) / np.sqrt(d)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    args = parse_args(__doc__, seeds=3)
    warnings.simplefilter("ignore", NoiseFillsBoxWarning)
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    rows = []
    for n in (1000, 10_000):
        for share in (0.1, 1.0, 10.0):
            for weight in (0.1, 1.0):
                found = np.median([mixed(n, share * n, weight, seed) for seed in range(args.seeds)], axis=0)
                rows.append([n, share * n, weight, *(round(float(value), 4) for value in found)])
    write_table(
        "metric_categories",
        ["n", "epsilon", "category weight", "ε of a row", "W1: wasserstein", "W1: rows", "W1: uniform"],
        rows,
    )
    rows = []
    for d in (2, 8, 32):
        for epsilon in (1.0, 10.0, 100.0):
            errors: dict[str, list[float]] = {"box": [], "ball": []}
            for seed in range(args.seeds):
                X = directions(2000, d, np.random.default_rng(seed))
                for name, bounds in (("box", (-np.ones(d), np.ones(d))), ("ball", Ball(np.zeros(d), 1.0))):
                    model = MetricPrivatizer(epsilon, metric="l2", bounds=bounds, random_state=seed).fit(X)
                    errors[name].append(np.linalg.norm(model.transform(X) - X, axis=1).mean())
            rows.append([d, 2000, epsilon, *(round(float(np.median(found)), 4) for found in errors.values())])
    write_table("metric_balls", ["columns", "n", "epsilon", "box", "ball"], rows)


if __name__ == "__main__":
    main()
