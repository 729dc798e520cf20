"""Time of the main jobs in two checkouts, side by side in one run.

    python benchmarks/compare_checkouts.py --old DIR [--rows 1000000] [--repeats 3] [--only regression]

Each case runs in processes of its own that alternate between the two checkouts (by PYTHONPATH), one thread each, so
that a busy machine slows both alike. Writes ``results/compare_checkouts.csv``: medians, peak memory and their ratios.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from _common import RESULTS, record_environment

HERE = Path(__file__).resolve().parent

SETUP = """
import json, resource, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import skprivate as sp
from skprivate.privacy import open_release
n = int(sys.argv[1])
rng = np.random.default_rng(0)
def data(d=10):
    X = rng.normal(size=(n, d)); return X, X @ rng.normal(size=d) + rng.normal(size=n)
def ids(users):
    return rng.integers(users, size=n)
def emit(job, warm=True):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter(); job(); seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "peak_mib": peak / 1024}))
"""

CASES = {
    "regression, one row a user": """
X, y = data(); emit(lambda: sp.UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=np.arange(n)))""",
    "regression, ten rows a user": """
X, y = data(); u = ids(n // 10); emit(lambda: sp.UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=u))""",
    "regression, hundred rows a user": """
X, y = data(); u = ids(n // 100); emit(lambda: sp.UserLevelSGDRegressor(random_state=0).fit(X, y, user_ids=u))""",
    "classification, one row a user": """
X, y = data(); emit(lambda: sp.UserLevelSGDClassifier(random_state=0).fit(X, y > 0, user_ids=np.arange(n)))""",
    "classification, ten rows a user": """
X, y = data(); u = ids(n // 10); emit(lambda: sp.UserLevelSGDClassifier(random_state=0).fit(X, y > 0, user_ids=u))""",
    "classification, hundred rows a user": """
X, y = data(); u = ids(n // 100); emit(lambda: sp.UserLevelSGDClassifier(random_state=0).fit(X, y > 0, user_ids=u))""",
    "three classes, ten rows a user": """
X, y = data(); u = ids(n // 10); c = np.digitize(y, [-1, 1])
emit(lambda: sp.UserLevelSGDClassifier(random_state=0).fit(X, c, user_ids=u))""",
    "user mean, ten rows a user": """
X, y = data(); u = ids(n // 10); emit(lambda: sp.UserLevelMean(random_state=0).fit(X, user_ids=u))""",
    "curated bags, pairs of classes": """
X, y = data(6); emit(lambda: sp.make_curated_bags(X, (y > 0).astype(int), "pairs", epsilon=1.0, random_state=0))""",
    "curated bags, pairs of numbers": """
X, y = data(6); emit(lambda: sp.make_curated_bags(X, y, "pairs", epsilon=1.0, label_bounds=(-9, 9), random_state=0))""",
    "random bags of 16": """
X, y = data(); emit(lambda: sp.make_random_bags(X, (y > 0).astype(int), bag_size=16, epsilon=1.0, random_state=0))""",
    "synthesizer, one row more or less": """
X = rng.beta(2, 5, size=(n, 2))
emit(lambda: sp.MetricPrivateSynthesizer(1.0, metric="rows", bounds=(0, 1), random_state=0).fit(X))""",
    "synthesizer, W1": """
X = rng.beta(2, 5, size=(n, 2))
emit(lambda: sp.MetricPrivateSynthesizer(1e4, metric="wasserstein", bounds=(0, 1), random_state=0).fit(X))""",
    "mixture, exact in the plane": """
m = 150; X = rng.normal(size=(m, 2)); y = (X.sum(axis=1) + rng.normal(size=m) > 0).astype(int)
emit(lambda: sp.PPMHalfspaceClassifier(1.0, private_label=1, strategy="exact", random_state=0).fit(X, y))""",
    "scalar draw at delta > 0, times 1000": """
r = open_release(epsilon=1e6, delta=1e-6, unit="row", adjacency="add-remove")
for _ in range(50): r.laplace(0.5, sensitivity=1.0, epsilon=0.01)
emit(lambda: [r.laplace(0.5, sensitivity=1.0, epsilon=0.01) for _ in range(1000)])""",
}


def run(checkout: str, code: str, rows: int) -> dict[str, float]:
    """One fresh process; the last line of its output is the measurement."""
    environment = {**os.environ, "PYTHONPATH": checkout}
    environment.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, str(rows)], env=environment, capture_output=True, text=True, cwd="/"
    )
    if done.returncode:
        raise RuntimeError(f"in {checkout}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run the cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="the other checkout")
    parser.add_argument("--new", default=str(HERE.parent), help="by default this one")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    table = []
    for name, code in CASES.items():
        if options.only not in name:
            continue
        seen: dict[str, list[dict[str, float]]] = {options.old: [], options.new: []}
        for _ in range(options.repeats):
            for checkout, measured in seen.items():
                measured.append(run(checkout, code, options.rows))
        old, new = (
            {key: statistics.median(one[key] for one in measured) for key in measured[0]} for measured in seen.values()
        )
        row = {
            "case": name,
            "old seconds": f"{old['seconds']:.3f}",
            "new seconds": f"{new['seconds']:.3f}",
            "ratio": f"{new['seconds'] / old['seconds']:.2f}",
            "old MiB": f"{old['peak_mib']:.0f}",
            "new MiB": f"{new['peak_mib']:.0f}",
        }
        table.append(row)
        print("  ".join(row.values()), flush=True)
    with (RESULTS / "compare_checkouts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)
    record_environment("compare_checkouts")


if __name__ == "__main__":
    main()
