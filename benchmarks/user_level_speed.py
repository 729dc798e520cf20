"""A private fit against the non-private gradient loop of as many iterations: CPU time and memory.

1e6 rows × 50 features × 1e4 users. The loop is ``w -= s * X.T @ (X @ w - y) / n``; the private fit has the same number
of iterations, and one vector a user in each. One cold fit, CPU seconds of one thread; the loop is the faster of two.

    python benchmarks/user_level_speed.py [--rows 1000000] [--features 50] [--users 10000] [--only classification]
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


def cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def peak_bytes(call):
    """Most that is allocated at once."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main():
    args = parse_args(
        __doc__,
        rows={"type": int, "default": 1_000_000},
        features={"type": int, "default": 50},
        users={"type": int, "default": 10_000},
        only={"default": "", "help": "cases whose names contain this"},
    )
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(args.rows, args.features))
    y = X @ rng.normal(size=args.features) + rng.normal(size=args.rows)
    labels = (y > 0).astype(int)
    table = []
    for name, model, target, users in (
        ("regression, sorted users", UserLevelSGDRegressor(), y, np.arange(args.rows) * args.users // args.rows),
        ("regression, users in any order", UserLevelSGDRegressor(), y, rng.integers(args.users, size=args.rows)),
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
        if args.only not in name:
            continue
        fit = partial(model.fit, X, target, user_ids=users)
        private = cpu_seconds(fit)
        plain = min(cpu_seconds(partial(loop, X, target, model.n_iter_, "class" in name)) for _ in range(2))
        given = X.nbytes + target.nbytes + (0 if users is None else users.nbytes)
        extra = peak_bytes(fit) / given
        table.append([name, model.n_iter_, plain, private, private / plain, 1.0 + extra])
        print(table[-1], flush=True)
    print("peak resident MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    columns = ["case", "iterations", "loop, s", "private fit, s", "ratio", "memory / data"]
    size = f"_{args.rows:.0e}x{args.features}" if args.rows != 1_000_000 or args.features != 50 else ""
    write_table(f"user_level_speed{size.replace('e+0', 'e')}", columns, table)


if __name__ == "__main__":
    main()
