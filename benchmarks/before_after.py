"""Defaults in two checkouts on the same rows and seeds: what became of the cases that once failed.

    git worktree add BEFORE 7074212
    python benchmarks/before_after.py --before BEFORE [--data DIR] [--seeds 5] [--only NAME]

Every case runs in a process of its own for each checkout (by PYTHONPATH), one thread, and prints one number for each
seed; the median counts. With ``--data``, California and credit are used too. Writes ``results/before_after.csv``; a run
with ``--only`` replaces those cases, and one without ``--before`` keeps what was measured there.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

from _common import RESULTS, parse_args

HERE = Path(__file__).resolve().parent

SETUP = """
import json, sys, time, warnings
import numpy as np
import pandas as pd
warnings.simplefilter("ignore")
import skprivate as sp
import skprivate.datasets
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
n_seeds, data = int(sys.argv[1]), sys.argv[2]

def emit(job):
    print(json.dumps([float(job(seed)) for seed in range(n_seeds)]))

def split(X, y, seed):
    return train_test_split(X, y, test_size=0.3, random_state=seed)

def auc(X, y, epsilon, seed):
    X, X_test, y, y_test = split(X, y, seed)
    model = sp.UserLevelSGDClassifier(epsilon, random_state=seed).fit(X, y)
    return roc_auc_score(y_test, model.decision_function(X_test))

def adult():
    X, y = sp.datasets.load_adult(return_X_y=True, as_frame=True)
    numeric = X.select_dtypes("number").astype(float)
    one_hot = pd.get_dummies(X.drop(columns=numeric.columns), dtype=float)
    return np.hstack([StandardScaler().fit_transform(numeric), one_hot]), (y == y.max()).astype(int)

def california():
    table = pd.read_parquet(data + "/california_housing.parquet").astype(float)
    y = table.pop("MedHouseVal").to_numpy()
    return StandardScaler().fit_transform(table), y

def excess_risk(seed, n=2000, epsilon=1.0, scale=False, shift=0.0, offset=0.0):
    rng = np.random.default_rng(seed)
    d, m = 10, 50
    scales = np.logspace(-1, 1, d) if scale else np.ones(d)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    def rows(k):
        Z = rng.normal(size=(k, d))
        return Z * scales + shift, Z @ w + offset
    X, f = rows(n * m)
    y = f + 0.5 * rng.normal(size=n * m)
    model = sp.UserLevelSGDRegressor(epsilon, random_state=seed).fit(X, y, user_ids=np.repeat(np.arange(n), m))
    X, f = rows(20_000)
    return 0.5 * np.mean((model.predict(X) - f) ** 2)

def flagged(seed, **keywords):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        excess_risk(seed, **keywords)
    names = [type(one.message).__name__ for one in caught]
    return any(name in ("ConvergenceWarning", "UnscaledFeaturesWarning") for name in names)

def clip_loss(seed, n, skewed):
    # Explained variance that is lost against least squares, on the rows without noise.
    rng = np.random.default_rng(seed)
    m, d = 10, 5
    X = rng.normal(size=(n * m, d))
    f = X @ np.full(d, 0.5)
    noise = np.exp(rng.normal(size=n * m)) - np.exp(0.5) if skewed else rng.normal(size=n * m)
    y, users = f + noise, np.repeat(np.arange(n), m)
    model = sp.UserLevelSGDRegressor(1.0, random_state=seed).fit(X, y, user_ids=users)
    best = np.linalg.lstsq(np.c_[X, np.ones(len(X))], y, rcond=None)[0]
    X = rng.normal(size=(20_000, d))
    truth = X @ np.full(d, 0.5)
    error = lambda p: np.mean((p - truth) ** 2)
    return (error(model.predict(X)) - error(np.c_[X, np.ones(len(X))] @ best)) / (np.var(y))

def mean_error(seed, n, d=5):
    rng = np.random.default_rng(seed)
    X, users = rng.normal(size=(n * 10, d)), np.repeat(np.arange(n), 10)
    return np.linalg.norm(sp.UserLevelMean(1.0, random_state=seed).fit(X, user_ids=users).mean_)

def rare(seed, **keywords):
    X, y = adult()
    rng = np.random.default_rng(seed)
    keep = (y == 0) | (rng.random(len(y)) < 0.19)
    X, X_test, y, y_test = split(X[keep], y[keep], seed)
    model = sp.UserLevelSGDClassifier(1.0, random_state=seed, **keywords).fit(X, y)
    return balanced_accuracy_score(y_test, model.predict(X_test))

def curated(seed, epsilon, **keywords):
    X, y = sp.datasets.load_adult(return_X_y=True, as_frame=True)
    y = (y == y.max()).astype(int)
    X, X_test, y, y_test = split(X, y, seed)
    model = sp.CuratedBagGAMClassifier(epsilon, random_state=seed, **keywords).fit(X, y)
    return log_loss(y_test, model.predict_proba(X_test)[:, 1])

def curated_r2(seed, **keywords):
    # Hours a week from eight columns.
    X, _ = sp.datasets.load_adult(return_X_y=True, as_frame=True)
    name = next(c for c in X.columns if "hours" in c)
    y = X.pop(name).to_numpy(float)
    X, X_test, y, y_test = split(X.iloc[:, :8], y, seed)
    model = sp.CuratedBagGAMRegressor(1.56, feature_sets="pairs", random_state=seed, **keywords).fit(X, y)
    return np.clip(r2_score(y_test, model.predict(X_test)), -1e6, 1)

def random_bags_r2(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40_000, 8))
    y = np.clip(26 + 20 * np.tanh(X @ np.full(8, 0.35)) + 4 * rng.normal(size=len(X)), 0, 52)
    X, X_test, y, y_test = split(X, y, seed)
    model = sp.RandomBagRegressor(1.0, bag_size=16, random_state=seed).fit(X, y)
    return r2_score(y_test, model.predict(X_test))

def channel(distances, epsilon):
    from skprivate.metric.net._spaces import worst_error
    try:
        from skprivate.metric.net._exponential import best_exponential_channel
        return worst_error(best_exponential_channel(distances, epsilon), distances)
    except ImportError:
        states, known = np.arange(len(distances)), {"metric": "precomputed", "mechanism": "exponential"}
        model = sp.MetricPrivatizer(epsilon, states=states, distances=distances, random_state=0, **known)
        model.fit(states[:, None])
        return worst_error(model.channel_, distances)

def synthetic(seed, n):
    # Exact transport between rows and as many synthetic ones, ground distance linf.
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist
    rng = np.random.default_rng(seed)
    middles = rng.random((4, 2))
    X = np.clip(middles[rng.integers(4, size=n)] + 0.05 * rng.normal(size=(n, 2)), 0, 1)
    model = sp.MetricPrivateSynthesizer(1.0, metric=ROWS, bounds=(0, 1), random_state=seed).fit(X)
    cost = cdist(X, np.asarray(model.sample(n, random_state=seed)), "chebyshev")
    return cost[linear_sum_assignment(cost)].mean()

ROWS = "hamming" if "bounds=None" in str(__import__("inspect").signature(sp.MetricPrivateSynthesizer)) else "rows"
"""

#: Group, name, what is measured, code.
CASES = [
    *(
        ("limit", f"Adult, ε = {e:g}", "AUC", f"X, y = adult(); emit(lambda s: auc(X, y, {e}, s))")
        for e in (0.5, 1.0, 3.0)
    ),
    (
        "limit",
        "breast_cancer, ε = 0.5",
        "AUC",
        "X, y = load_breast_cancer(return_X_y=True); X = StandardScaler().fit_transform(X)\n"
        "emit(lambda s: auc(X, y, 0.5, s))",
    ),
    (
        "limit",
        "California, ε = 1",
        "R²",
        "X, y = california()\ndef job(s):\n    A, B, a, b = split(X, y, s)\n"
        "    return sp.UserLevelSGDRegressor(1.0, random_state=s).fit(A, a).score(B, b)\nemit(job)",
    ),
    *(
        (
            "raw",
            f"{name}, n = {n}, ε = {e:g}",
            "excess risk",
            f"emit(lambda s: excess_risk(s, {n}, {e}{given}))",
        )
        for n, e in ((2000, 1.0), (500, 1.0), (500, 3.0))
        for name, given in (
            ("clean", ""),
            ("scales 0.1 to 10", ", scale=True"),
            ("means 10", ", shift=10.0"),
            ("y around 1e4", ", offset=1e4"),
        )
    ),
    *(
        (
            "raw",
            f"{name}, n = 500, ε = 1, fits that warn",
            "share",
            f"emit(lambda s: flagged(s, n=500, epsilon=1.0{given}))",
        )
        for name, given in (
            ("clean", ""),
            ("scales 0.1 to 10", ", scale=True"),
            ("means 10", ", shift=10.0"),
        )
    ),
    *(
        (
            "mean",
            f"{'skewed' if skewed else 'normal'} noise, n = {n}",
            "R² lost",
            f"emit(lambda s: clip_loss(s, {n}, {skewed}))",
        )
        for skewed in (True, False)
        for n in (2000, 8000)
    ),
    *(
        ("mean", f"mean, d = 5, n = {n}", "error", f"emit(lambda s: mean_error(s, {n}))")
        for n in (500, 700, 1000)
    ),
    (
        "mean",
        "mean, 10 000 users, d = 80",
        "CPU s",
        "def job(s):\n    rng = np.random.default_rng(s)\n"
        "    X = np.exp(3 * rng.normal(size=(10_000, 1))) * rng.normal(size=(10_000, 80))\n"
        "    start = time.process_time(); sp.UserLevelMean(1.0, random_state=s).fit(X)\n"
        "    return time.process_time() - start\nn_seeds = min(n_seeds, 2); emit(job)",
    ),
    ("classes", "Adult thinned to 6 % positives, ε = 1", "balanced accuracy", "emit(rare)"),
    (
        "classes",
        'the same, class_weight="balanced"',
        "balanced accuracy",
        'emit(lambda s: rare(s, class_weight="balanced"))',
    ),
    (
        "classes",
        "digits, ten classes, ε = 10 000",
        "accuracy",
        "X, y = load_digits(return_X_y=True); X = StandardScaler().fit_transform(X)\ndef job(s):\n"
        "    A, B, a, b = split(X, y, s)\n"
        "    return sp.UserLevelSGDClassifier(1e4, random_state=s).fit(A, a).score(B, b)\nemit(job)",
    ),
    *(
        (
            "channels",
            f"{name}, ε = {e:g}",
            "worst mean error",
            code + f"\nn_seeds = 1; emit(lambda s: channel(D, {e}))",
        )
        for name, code, budgets in (
            (
                "ICD-10, 60 codes",
                "from skprivate.metric import tree_distances\nfrom skprivate.metric._tables import leaves_of\n"
                "parents = sp.datasets.load_icd10().parents; leaves = leaves_of(parents)\n"
                "chosen = sorted(np.random.default_rng(0).choice(len(leaves), 60, replace=False))\n"
                "D = tree_distances(parents, [leaves[i] for i in chosen])",
                (8.0, 20.0),
            ),
            (
                "6 × 6 map",
                "P = np.stack(np.meshgrid(range(6), range(6)), -1).reshape(-1, 2).astype(float)\n"
                "D = np.linalg.norm(P[:, None] - P[None], axis=2)",
                (2.0,),
            ),
        )
        for e in budgets
    ),
    *(
        ("labels", f"Adult, 12 columns, {name}", "log loss", f"emit(lambda s: curated(s, {given}))")
        for name, given in (
            ("all defaults (ε = 1)", "1.0"),
            ("ε = 8", "8.0"),
            ("no noise", "None"),
            ("no noise, 64 bins, single columns", 'None, n_bins=64, feature_sets="singles"'),
        )
    ),
    ("labels", "Adult, hours from 8 columns, pairs, ε = 1.56", "R²", "emit(curated_r2)"),
    ("labels", "the same, Poisson", "R²", 'emit(lambda s: curated_r2(s, loss="poisson"))'),
    ("labels", "labels in [0, 52], bags of 16, ε = 1, no bounds", "R²", "emit(random_bags_r2)"),
    *(
        ("synthetic rows", f"four groups, d = 2, n = {n}, ε = 1", "W1", f"emit(lambda s: synthetic(s, {n}))")
        for n in (1000, 3000)
    ),
]


def run(checkout: str, code: str, measured: str, seeds: int, data: str) -> str:
    """Median over seeds, or a share of them, in one fresh process, or why there is none."""
    environment = {**os.environ, "PYTHONPATH": checkout}
    environment.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, str(seeds), data],
        env=environment,
        capture_output=True,
        text=True,
        cwd="/",
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:120]
    found = json.loads(done.stdout.splitlines()[-1])
    return f"{(statistics.mean if measured == 'share' else statistics.median)(found):.3g}"


def main() -> None:
    """Run the cases and write the table."""
    args = parse_args(__doc__, seeds=5, before={"help": "the other checkout"}, only={"default": ""})
    path, columns = RESULTS / "before_after.csv", ["about", "case", "measured", "before", "now"]
    known = {}
    if path.exists():
        with path.open() as file:
            known = {row["case"]: row for row in csv.DictReader(file)}
    for about, case, measured, code in CASES:
        if args.only not in case or ("california" in code and not args.data):
            continue
        checked = partial(run, code=code, measured=measured, seeds=args.seeds, data=str(args.data))
        before = checked(args.before) if args.before else known[case]["before"]
        now = checked(str(HERE.parent))
        known[case] = dict(zip(columns, (about, case, measured, before, now), strict=True))
        print("  ".join(known[case].values()), flush=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(known[case] for _, case, _, _ in CASES if case in known)


if __name__ == "__main__":
    main()
