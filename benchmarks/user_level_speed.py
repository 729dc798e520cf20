"""Private linear models against scikit-learn's without privacy: CPU time of one thread, and memory.

Ridge and LogisticRegression for models of rows; for users with several rows, the private model of as many rows. The
median of ``--fits`` turns, each of them a fit of every case.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/user_level_speed.py [--scale 1.0] [--fits 5]
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from functools import partial

import numpy as np
from _common import parse_args, write_table
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor

SIZES = [(200_000, 50), (1_000_000, 10), (1_000_000, 50)]
ROWS_OF_A_USER = 5


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


def cases(n, d):
    """Name fits of the same rows, each with the one that it is compared with."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d) / np.sqrt(d)
    y = scores + rng.normal(size=n)
    labels = (scores + rng.logistic(size=n) > 0).astype(int)
    many = np.digitize(y, [-1.5, -0.5, 0.5, 1.5])
    users = rng.permutation(n) // ROWS_OF_A_USER
    regressor, classifier = UserLevelSGDRegressor(epsilon=1.0), UserLevelSGDClassifier(epsilon=1.0)
    fits = {
        "Ridge": partial(Ridge().fit, X, y),
        "regression": partial(regressor.fit, X, y),
        "regression, users": partial(regressor.fit, X, y, user_ids=users),
        "LogisticRegression": partial(LogisticRegression().fit, X, labels),
        "two classes": partial(classifier.fit, X, labels),
        "two classes, users": partial(classifier.fit, X, labels, user_ids=users),
        "LogisticRegression, five classes": partial(LogisticRegression().fit, X, many),
        "five classes": partial(classifier.fit, X, many),
    }
    over = {
        "regression": "Ridge",
        "regression, users": "regression",
        "two classes": "LogisticRegression",
        "two classes, users": "two classes",
        "five classes": "LogisticRegression, five classes",
    }
    return fits, over, X.nbytes


def main():
    args = parse_args(
        __doc__,
        scale={"type": float, "default": 1.0, "help": "factor of the numbers of rows"},
        fits={"type": int, "default": 5},
    )
    warnings.simplefilter("ignore")
    table = []
    with threadpool_limits(1):
        for n, d in SIZES:
            n = int(args.scale * n)
            fits, over, size = cases(n, d)
            times = {name: [cpu_seconds(fit) for _ in range(args.fits)] for name, fit in fits.items()}
            middle = {name: float(np.median(each)) for name, each in times.items()}
            for name, other in over.items():
                memory = peak_bytes(fits[name]) / size
                table.append([n, d, name, other, middle[name], middle[name] / middle[other], memory])
                print(table[-1], flush=True)
    columns = ["rows", "features", "case", "over", "seconds", "ratio", "memory beyond X / X"]
    write_table("user_level_speed", columns, table)


if __name__ == "__main__":
    main()
