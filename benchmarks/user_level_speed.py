"""A private fit against the non-private gradient loop of as many iterations: time and memory.

1e6 rows × 50 features × 1e4 users. The loop is ``w -= s * X.T @ (X @ w - y) / n``; the private fit has the same number
of iterations, and one vector a user in each.

    python benchmarks/user_level_speed.py [--rows 1000000] [--features 50] [--users 10000]
"""

from __future__ import annotations

import resource
import time
import tracemalloc
import warnings
from functools import partial

import numpy as np
from _common import parse_args, write_table
from scipy.special import expit

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor


def loop(X, y, steps, logistic):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        f = X @ w
        residual = expit(f) - y if logistic else f - y
        w -= 0.1 * (X.T @ residual) / len(X)
    return w


def median_of(call, repeats=2):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main():
    args = parse_args(
        __doc__,
        rows={"type": int, "default": 1_000_000},
        features={"type": int, "default": 50},
        users={"type": int, "default": 10_000},
    )
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(args.rows, args.features))
    y = X @ rng.normal(size=args.features) + rng.normal(size=args.rows)
    labels = (y > 0).astype(int)
    table = []
    for name, model, target, users in (
        (
            "regression, sorted users",
            UserLevelSGDRegressor(),
            y,
            np.arange(args.rows) * args.users // args.rows,
        ),
        (
            "regression, users in any order",
            UserLevelSGDRegressor(),
            y,
            rng.integers(args.users, size=args.rows),
        ),
        (
            "classification, sorted users",
            UserLevelSGDClassifier(),
            labels,
            np.arange(args.rows) * args.users // args.rows,
        ),
        (
            "classification, users in any order",
            UserLevelSGDClassifier(),
            labels,
            rng.integers(args.users, size=args.rows),
        ),
        ("classification, each row a user", UserLevelSGDClassifier(), labels, None),
    ):
        model.fit(X, target, user_ids=users)  # warm-up: calibration is cached
        private = median_of(partial(model.fit, X, target, user_ids=users))
        plain = median_of(partial(loop, X, target, model.n_iter_, "class" in name))
        tracemalloc.start()
        model.fit(X, target, user_ids=users)
        extra = tracemalloc.get_traced_memory()[1] / X.nbytes
        tracemalloc.stop()
        table.append([name, model.n_iter_, plain, private, private / plain, 1.0 + extra])
        print(table[-1], flush=True)
    print("peak resident MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    columns = ["case", "iterations", "loop, s", "private fit, s", "ratio", "memory / data"]
    write_table("user_level_speed", columns, table)


if __name__ == "__main__":
    main()
