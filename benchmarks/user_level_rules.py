"""Two checkouts side by side on generated data: what a change of the rules of `skprivate.user_level` wins and loses.

Each checkout runs in a process of its own, with the same data and seeds. Scores are R² of numbers, minus the log loss
of classes, and minus the logarithm of the error of means; differences are those of equal seeds. Larger is better.

    python benchmarks/user_level_rules.py --old DIR [--seeds 4] [--only "few rows"]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from _common import ROOT, parse_args, write_table

HELD_OUT = 4000
EPSILONS = (0.2, 0.5, 3.0)


def features(rng, n, d, shape="normal"):
    """Correlated columns, half of which are skewed, heavy-tailed, or divided by deviations that a few rows inflate."""
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))
    if shape == "skewed":
        X[:, ::2] = np.exp(X[:, ::2])
    elif shape == "heavy":
        X[:, ::2] = np.sinh(1.5 * X[:, ::2])
    elif shape == "inflated":
        X[:, ::2] *= np.where(rng.random(X[:, ::2].shape) < 1e-3, 300.0, 1.0)
        X /= X.std(axis=0)
    return X


def numbers(rng, epsilon, *, n, d, shape="normal", rows=1, skewed=False, additive=False, **options):
    """R² of a regression, of ``rows`` rows a user."""
    from skprivate import UserLevelSGDRegressor

    X = features(rng, n + HELD_OUT, d, shape)
    signal = np.arcsinh(X) @ rng.normal(size=d) if shape == "heavy" else X @ rng.normal(size=d)
    if shape == "inflated":  # what is far out has no effect
        signal = np.clip(X / np.median(np.abs(X), axis=0), -5.0, 5.0) @ rng.normal(size=d)
    if additive:
        signal = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2]
    noise = np.exp(rng.normal(size=len(X))) if skewed else rng.normal(size=len(X))
    y = 10.0 + signal / signal.std() + noise / noise.std()
    model = UserLevelSGDRegressor(epsilon, random_state=int(rng.integers(2**31)), **options)
    if additive:
        model = with_curves(epsilon, model)
    users = {"user_ids": np.arange(n) // rows} if rows > 1 else {}
    return float(model.fit(X[:n], y[:n], **users).score(X[n:], y[n:]))


def classes(rng, epsilon, *, n, d, k=2, rate=0.5, shape="normal", rows=1, additive=False, **options):
    """Minus the log loss of ``k`` classes, the last of two at this rate."""
    from sklearn.metrics import log_loss

    from skprivate import UserLevelSGDClassifier

    X = features(rng, n + HELD_OUT, d, shape)
    signal = np.arcsinh(X) @ rng.normal(size=(d, k))
    if additive:
        signal = np.stack([np.zeros(len(X)), np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2]], axis=1)
    scores = 1.5 * (signal - signal.mean(axis=0)) / signal.std() + rng.gumbel(size=(len(X), k))
    if k == 2:
        margin = scores[:, 1] - scores[:, 0]
        y = (margin > np.quantile(margin, 1.0 - rate)).astype(int)
    else:
        y = scores.argmax(axis=1)
    model = UserLevelSGDClassifier(epsilon, classes=range(k), random_state=int(rng.integers(2**31)), **options)
    if additive:
        model = with_curves(epsilon, model)
    users = {"user_ids": np.arange(n) // rows} if rows > 1 else {}
    return -float(log_loss(y[n:], model.fit(X[:n], y[:n], **users).predict_proba(X[n:]), labels=range(k)))


def with_curves(epsilon, model):
    """An additive model in its pipeline."""
    from skprivate.preprocessing import make_additive_pipeline

    return make_additive_pipeline(model, epsilon=epsilon)


def means(rng, epsilon, *, n, d, law="normal", **options):
    """Minus the logarithm of the distance of a mean from the expectation, in deviations."""
    from skprivate import UserLevelMean

    laws = {
        "normal": (rng.normal(size=(n, d)), 0.0, 1.0),
        "skewed": (np.exp(rng.normal(size=(n, d))), np.exp(0.5), np.sqrt((np.e - 1.0) * np.e)),
        "heavy": (rng.standard_t(3, size=(n, d)), 0.0, np.sqrt(3.0)),
    }
    X, expectation, deviation = laws[law]
    found = UserLevelMean(epsilon, random_state=int(rng.integers(2**31)), **options).fit(X).mean_
    return -float(np.log(np.linalg.norm(found - expectation) / deviation))


CELLS: dict[str, Callable[..., float]] = {
    "rows": partial(numbers, n=3000, d=10),
    "rows, few": partial(numbers, n=500, d=8),
    "rows, many": partial(numbers, n=50_000, d=10),
    "rows, skewed features and errors": partial(numbers, n=4000, d=8, shape="skewed", skewed=True),
    "rows, many skewed": partial(numbers, n=50_000, d=30, shape="skewed"),
    "rows, heavy tails": partial(numbers, n=4000, d=8, shape="heavy"),
    "rows, inflated deviations": partial(numbers, n=14_000, d=8, shape="inflated"),
    "rows, radius given": partial(numbers, n=3000, d=5, radius=20.0),
    "rows, median": partial(numbers, n=10_000, d=5, loss="absolute_error"),
    "rows, additive": partial(numbers, n=5000, d=3, additive=True),
    "rows, private number": partial(numbers, n=3000, d=8, adjacency="add-remove"),
    "users of five rows": partial(numbers, n=10_000, d=6, rows=5),
    "users of five rows, skewed": partial(numbers, n=20_000, d=6, rows=5, shape="skewed", skewed=True),
    "two classes": partial(classes, n=3000, d=8),
    "two classes, few": partial(classes, n=500, d=8),
    "two classes, many": partial(classes, n=50_000, d=10),
    "two classes, rare": partial(classes, n=4000, d=6, rate=0.04),
    "two classes, few and rare": partial(classes, n=1000, d=6, rate=0.04),
    "two classes, heavy": partial(classes, n=3000, d=8, shape="heavy"),
    "two classes, heavy, norm given": partial(classes, n=3000, d=8, shape="heavy", feature_norm=5.0),
    "two classes, additive": partial(classes, n=5000, d=3, additive=True),
    "two classes, private number": partial(classes, n=3000, d=8, adjacency="add-remove"),
    "two classes, users of five rows": partial(classes, n=10_000, d=6, rows=5),
    "three classes": partial(classes, n=4000, d=6, k=3),
    "three classes, few": partial(classes, n=500, d=4, k=3),
    "six classes": partial(classes, n=6000, d=8, k=6),
    "six classes, many": partial(classes, n=50_000, d=8, k=6),
    "mean": partial(means, n=1000, d=5),
    "mean, few": partial(means, n=200, d=2),
    "mean, one number": partial(means, n=2000, d=1),
    "mean, skewed": partial(means, n=5000, d=3, law="skewed"),
    "mean, heavy tails": partial(means, n=5000, d=5, law="heavy"),
    "mean, private number": partial(means, n=1000, d=5, adjacency="add-remove"),
    "pure mean, skewed": partial(means, n=8000, d=2, law="skewed", delta=0.0, bound=100.0),
    "pure mean": partial(means, n=8000, d=2, delta=0.0, bound=100.0),
}


def scores(seeds: int, only: str) -> list[list[object]]:
    """Print cell, ε, seed and score, one a line."""
    warnings.simplefilter("ignore")
    for number, (name, cell) in enumerate(CELLS.items()):
        for epsilon in EPSILONS if only in f"{name};" else ():
            for seed in range(seeds):
                print(
                    json.dumps([name, epsilon, seed, cell(np.random.default_rng([seed, number]), epsilon)]), flush=True
                )


def run(checkout: Path, seeds: int, only: str) -> dict[tuple[str, float], np.ndarray]:
    """Scores of a checkout, from a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--old", "", "--seeds", str(seeds), "--only", only]
    lines = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
    found: dict[tuple[str, float], list[float]] = {}
    for name, epsilon, _, score in map(json.loads, lines):
        found.setdefault((name, epsilon), []).append(score)
    return {key: np.array(values) for key, values in found.items()}


def main() -> None:
    args = parse_args(__doc__, seeds=4, old={"required": True, "help": "frozen checkout"}, only={"default": ""})
    if not args.old:
        scores(args.seeds, args.only)
        return
    old, new = (run(Path(each), args.seeds, args.only) for each in (args.old, ROOT))
    table = []
    for (name, epsilon), after in new.items():
        before = old[name, epsilon]
        error = float((after - before).std(ddof=1)) / np.sqrt(len(after))
        change = f"{(after - before).mean():+.3f} ± {error:.3f}"
        table.append([name, epsilon, len(after), float(before.mean()), float(after.mean()), change])
    write_table("user_level_rules", ["cell", "ε", "seeds", "old", "new", "difference"], table)


if __name__ == "__main__":
    main()
