"""Seconds and memory of `MetricPrivateSynthesizer.fit` on many rows.

python benchmarks/metric_speed.py
"""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np
from _common import parse_args, write_table

from skprivate.metric import MetricPrivateSynthesizer, MetricPrivatizer


def main() -> None:
    args = parse_args(__doc__, seeds=3)
    rows = []
    for n in (10**5, 10**6, 10**7):
        X = np.random.default_rng(0).beta(2, 5, size=(n, 2))
        models = {
            "rows, ε = 1": MetricPrivateSynthesizer(1.0, metric="rows", bounds=(0, 1)),
            "wasserstein, ε = n": MetricPrivateSynthesizer(float(n), metric="wasserstein", bounds=(0, 1)),
        }
        for name, model in models.items():
            seconds = []
            for _ in range(args.seeds if n < 10**7 else 1):
                start = time.perf_counter()
                model.fit(X)
                seconds.append(time.perf_counter() - start)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            rows.append(
                [f"{n:.0e}", name, round(statistics.median(seconds), 3), round(peak, 2), str(model.measure_.shape)]
            )
            print(rows[-1], flush=True)
        if n <= 10**6:
            model = MetricPrivatizer(1.0).fit(X)
            start = time.perf_counter()
            model.transform(X)
            rows.append([f"{n:.0e}", "privatizer, planar Laplace", round(time.perf_counter() - start, 3), "", ""])
            print(rows[-1], flush=True)
    write_table("metric_speed", ["n", "model", "seconds", "peak GB so far", "weights"], rows)


if __name__ == "__main__":
    main()
