"""Speed of the strategies: the exact draw in two dimensions against BLAS and a loop, and large data.

    python benchmarks/mixture_speed.py

100 public and 900 private rows in the plane make 5.1e7 hypotheses. "Bare product" multiplies the 0/1 membership
matrix of all 10 100 candidates by its weighted transpose in blocks of rows and throws the result away: what any
method that multiplies all pairs out pays at least. Every row of the table is a process of its own, so that its
peak memory is its own; it holds the interpreter and the data. Seconds are of processor time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from itertools import combinations, islice
from statistics import median

import numpy as np
from _common import parse_args, write_table

from skprivate import PPMHalfspaceClassifier
from skprivate.mixture._geometry import supporting_pairs
from skprivate.mixture._intersections import Intersections
from skprivate.privacy import SimulatedNoiseWarning


def median_seconds(call, repeats=5):
    """Median processor time of ``call()`` after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return median(times)


def plane(n_public=100, n_private=900):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n_public, 2)), rng.normal([1.0, 0.5], size=(n_private, 2))])
    return X, np.repeat([0, 1], [n_public, n_private])


def memberships():
    X, y = plane()
    positive, negative = supporting_pairs(X[y == 0], 1e-9).memberships(X)
    return positive, negative, np.where(y == 1, 1, -1)


def bare_product():
    positive, negative, weights = memberships()
    members = np.concatenate([positive, negative], axis=1).astype(np.float32).T.copy()
    weighted = np.ascontiguousarray((members * weights.astype(np.float32)).T)
    block = np.empty((512, len(members)), dtype=np.float32)

    def run():
        for low in range(0, len(members), 512):
            part = members[low : low + 512]
            np.matmul(part, weighted, out=block[: len(part)])

    return median_seconds(run, repeats=5), len(members) * (len(members) - 1) // 2


def streamed():
    positive, negative, weights = memberships()
    family = Intersections(positive, negative, weights, 2)
    return median_seconds(family.histogram, repeats=5), len(family)


def full_fit():
    X, y = plane()
    model = PPMHalfspaceClassifier(private_label=1, strategy="exact", random_state=0)
    seconds = median_seconds(lambda: model.fit(X, y), repeats=5)
    return seconds, model.n_hypotheses_


def naive_loop(n_pairs=20_000):
    """One NumPy operation per pair, timed on some pairs and scaled to all."""
    positive, negative, weights = memberships()
    members = np.concatenate([positive, negative], axis=1).astype(bool).T.copy()
    pairs = list(islice(combinations(range(len(members)), 2), n_pairs))
    start = time.process_time()
    for i, j in pairs:
        weights[members[i] & members[j]].sum()
    total = len(members) * (len(members) - 1) // 2
    return (time.process_time() - start) * total / n_pairs, total


def search(X, y):
    model = PPMHalfspaceClassifier(private_label=1, strategy="greedy", class_weight="balanced", random_state=0)
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return seconds, sum(draw.n_hypotheses for draw in model.draws_)


def large(n_rows, n_features):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = (X[:, :3].max(axis=1) + 0.3 * rng.normal(size=n_rows) > 1.5).astype(int)
    return search(X, y)


def categories(n_rows, sizes=(10, 12, 8)):
    """One-hot columns of three categories that follow one latent number."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=n_rows)
    columns = []
    for size in sizes:
        utilities = rng.normal(size=(n_rows, size)) + latent[:, None] * np.linspace(-0.5, 0.5, size)
        columns.append(utilities.argmax(axis=1)[:, None] == np.arange(size))
    y = (latent + 0.5 * rng.normal(size=n_rows) > 1.3).astype(int)
    return search(np.concatenate(columns, axis=1).astype(float), y)


CASES = {
    "2-D, 100 + 900 rows: bare float32 product": bare_product,
    "2-D, 100 + 900 rows: streamed histogram (pass 1)": streamed,
    "2-D, 100 + 900 rows: whole fit, both passes and draw": full_fit,
    "2-D, 100 + 900 rows: loop over pairs (scaled up)": naive_loop,
    "greedy, 20 000 rows × 30 one-hot columns": lambda: categories(20_000),
    "greedy, 30 000 rows × 23": lambda: large(30_000, 23),
    "greedy, 1 000 000 rows × 10": lambda: large(1_000_000, 10),
    "greedy, 1 000 000 rows × 50": lambda: large(1_000_000, 50),
}


def main():
    args = parse_args(
        __doc__,
        case={"default": None, "help": "run one case and print it as JSON"},
        skip={"default": "", "help": "skip cases that contain this text"},
    )
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    if args.case is not None:
        seconds, n_hypotheses = CASES[args.case]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([seconds, n_hypotheses, peak]))
        return
    rows, product = [], None
    for case in CASES:
        if args.skip and args.skip in case:
            continue
        command = [sys.executable, __file__, "--case", case]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, n_hypotheses, peak = json.loads(output.splitlines()[-1])
        product = product or seconds
        relative = round(seconds / product, 2) if case.startswith("2-D") else ""
        rows.append([case, f"{n_hypotheses:.2e}", seconds, relative, round(peak)])
    write_table("mixture_speed", ["case", "hypotheses", "CPU seconds", "over the bare product", "peak MiB"], rows)


if __name__ == "__main__":
    main()
