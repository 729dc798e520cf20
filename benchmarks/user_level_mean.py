"""`UserLevelMean`: error against the number of users, bias for skewed users, prediction, speed.

Errors in standard deviations of the users' means, ε = 1, δ = 1e-6, replace-one; medians over seeds.

    python benchmarks/user_level_mean.py [--seeds 12]
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
from _common import parse_args, write_table

from skprivate import UserLevelMean
from skprivate.user_level import user_level_mean_errors

USERS = [400, 500, 550, 700, 1000, 2000, 4000]
SKEWED = [700, 2000, 8000, 40_000]
DEVIATION = math.sqrt((math.e - 1.0) * math.e)  # of a log-normal number


def main():
    args = parse_args(__doc__, seeds=12)
    warnings.simplefilter("ignore")
    table = []
    for n in USERS:
        errors = []
        for seed in range(args.seeds):
            X = np.random.default_rng([seed, n, 5]).normal(size=(n, 5))
            errors.append(np.linalg.norm(UserLevelMean(random_state=seed).fit(X).mean_ - X.mean(axis=0)))
        predicted = user_level_mean_errors(n, 5, epsilon=1.0).privacy
        table.append(["normal, d = 5", n, "privacy error", float(np.median(errors)), predicted])
        print(table[-1], flush=True)
    for d in (1, 5):
        for n in SKEWED:
            bias = []
            for seed in range(args.seeds):
                X = np.exp(np.random.default_rng([seed, n]).normal(size=(n, d)))
                mean = UserLevelMean(random_state=seed).fit(X).mean_
                bias.append((mean - math.exp(0.5)).mean() / DEVIATION)
            table.append([f"log-normal, d = {d}", n, "bias", float(np.mean(bias)), ""])
            print(table[-1], flush=True)
    for d in (5, 20, 80):
        X = np.random.default_rng(0).normal(size=(10_000, d)) * 1e3
        start = time.process_time()
        UserLevelMean(random_state=0).fit(X)
        table.append([f"normal, d = {d}", 10_000, "CPU seconds", time.process_time() - start, ""])
    write_table("user_level_mean", ["users", "n", "what", "measured", "predicted"], table)


if __name__ == "__main__":
    main()
