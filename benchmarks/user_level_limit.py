"""One default from small to unlimited budgets, on prepared and on raw features.

Every data set is split 70/30 by users, δ = 1e-6, all settings at their defaults. "prepared" features have about mean
0 and deviation 1 by numbers taken as public; "raw" ones are as the data come. Scores on the test part: AUC (one class
against the rest for several classes) and R². The reference is scikit-learn's LogisticRegression or LinearRegression on
prepared features, on the same split.

    python benchmarks/user_level_limit.py --data DIR [--seeds 3] [--only NAME …]

DIR holds adult.parquet, california_housing.parquet and taiwan_credit_default.parquet; sets without a file are left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from _common import write_table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor

EPSILONS = [0.1, 0.5, 1.0, 3.0, 10.0, 1e4]


def generated_rows(n_users, rows_each, d, seed, correlation=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_users * rows_each, d))
    if correlation:
        X = np.sqrt(1 - correlation) * X + np.sqrt(correlation) * rng.normal(size=(len(X), 1))
    w = rng.normal(size=d) / np.sqrt(d)
    return X, w, np.repeat(np.arange(n_users), rows_each), rng


def frame(path, name):
    import pandas as pd

    return pd.read_parquet(Path(path) / f"{name}.parquet")


def adult(path):
    import pandas as pd

    table = frame(path, "adult")
    y = (table.pop("income").str.startswith(">")).astype(int).to_numpy()
    numeric = table.select_dtypes("number").astype(float)
    one_hot = pd.get_dummies(table.drop(columns=numeric.columns), dtype=float)
    return numeric.to_numpy(), one_hot.to_numpy(), y


def classification(path):
    numeric, one_hot, y = adult(path)
    yield "adult, one-hot", np.hstack([StandardScaler().fit_transform(numeric), one_hot]), y, None
    yield "adult, one-hot, raw", np.hstack([numeric, one_hot]), y, None
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast_cancer", StandardScaler().fit_transform(X), y, None
    yield "breast_cancer, raw", X, y, None
    X, y = load_digits(return_X_y=True)
    yield "digits, 10 classes", StandardScaler().fit_transform(X), y, None
    table = frame(path, "taiwan_credit_default").astype(float)
    y = table.pop("Default").to_numpy().astype(int)
    X = table.drop(columns=["ID"]).to_numpy()
    yield "credit", StandardScaler().fit_transform(X), y, None
    yield "credit, raw", X, y, None
    for name, n, m, d, correlation, shift in (
        ("g: 500 rows, d=10", 500, 1, 10, 0.0, 0.0),
        ("g: 3000 rows, d=20, correlated", 3000, 1, 20, 0.9, 0.0),
        ("g: 2000 users x 10, d=10", 2000, 10, 10, 0.0, 0.0),
        ("g: 20000 rows, d=10, 5 %", 20000, 1, 10, 0.0, -4.0),
    ):
        X, w, users, rng = generated_rows(n, m, d, 5, correlation)
        y = (2.0 * X @ w + shift + rng.logistic(size=len(X)) > 0).astype(int)
        yield name, X, y, users
    X, w, users, rng = generated_rows(2000, 10, 10, 6)
    y = (2.0 * X @ w + rng.logistic(size=len(X)) > 0).astype(int)
    yield "g: 2000 users x 10, scales .1-10", X * np.logspace(-1, 1, 10), y, users
    yield "g: 2000 users x 10, mean 10", X + 10.0, y, users
    X, _, users, rng = generated_rows(8000, 1, 12, 7)
    scores = 1.5 * X @ rng.normal(size=(12, 4)) / np.sqrt(3.0) + rng.gumbel(size=(len(X), 4))
    yield "g: 8000 rows, 4 classes", X, scores.argmax(axis=1), users


def regression(path):
    table = frame(path, "california_housing").astype(float)
    y = table.pop("MedHouseVal").to_numpy()
    X = table.to_numpy()
    yield "california", StandardScaler().fit_transform(X), y, None
    yield "california, raw", X, y, None
    for name, n, m, d, correlation in (
        ("g: 500 users x 50, d=10", 500, 50, 10, 0.0),
        ("g: 2000 users x 50, d=10", 2000, 50, 10, 0.0),
        ("g: 2000 users x 50, correlated", 2000, 50, 10, 0.9),
        ("g: 5000 rows, d=10", 5000, 1, 10, 0.0),
        ("g: 20000 rows, d=30", 20000, 1, 30, 0.0),
    ):
        X, w, users, rng = generated_rows(n, m, d, 8, correlation)
        yield name, X, X @ w + 0.5 * rng.normal(size=len(X)), users
    for n in (500, 2000):
        X, w, users, rng = generated_rows(n, 50, 10, 9)
        y = X @ w + 0.5 * rng.normal(size=len(X))
        yield f"g: {n} users x 50, scales .1-10", X * np.logspace(-1, 1, 10), y, users
        yield f"g: {n} users x 50, scales .001-1000", X * np.logspace(-3, 3, 10), y, users
        yield f"g: {n} users x 50, mean 10", X + 10.0, y, users
        yield f"g: {n} users x 50, y about 1e4", X, y + 1e4, users
    X, w, users, rng = generated_rows(4000, 1, 10, 10)
    yield "g: 4000 rows, skewed noise", X, X @ w + rng.exponential(size=len(X)) ** 2, users


def split(n_rows, users, seed):
    rng = np.random.default_rng(seed)
    users = np.arange(n_rows) if users is None else users
    names = np.unique(users)
    test = np.isin(users, rng.permutation(names)[: int(0.3 * len(names))])
    return ~test, test


def auc(model, X, y):
    p = model.predict_proba(X)
    return roc_auc_score(y, p[:, 1]) if p.shape[1] == 2 else roc_auc_score(y, p, multi_class="ovr")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--adjacencies", nargs="*", default=["replace-one", "add-remove"])
    parser.add_argument("--name", default="user_level_limit")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    kinds = [(UserLevelSGDClassifier, row) for row in classification(args.data)]
    kinds += [(UserLevelSGDRegressor, row) for row in regression(args.data)]
    for Model, (name, X, y, users) in kinds:
        if args.only and not any(part in name for part in args.only):
            continue
        classifies = Model is UserLevelSGDClassifier
        splits = [split(len(X), users, s) for s in range(args.seeds)]
        prepared = StandardScaler().fit_transform(X)
        plain = LogisticRegression(max_iter=2000) if classifies else LinearRegression()
        reference, balanced = [], []
        for train, test in splits:
            plain.fit(prepared[train], y[train])
            predicted = plain.predict(prepared[test])
            reference.append(
                auc(plain, prepared[test], y[test]) if classifies else r2_score(y[test], predicted)
            )
            balanced.append(balanced_accuracy_score(y[test], predicted) if classifies else np.nan)
        row = [name, "non-private", *[f"{np.median(reference):.4f}"] * len(args.epsilons), "", ""]
        table.append(row)
        print(*row, sep="\t", flush=True)
        for adjacency in args.adjacencies:
            row, seconds, worst = [], [], np.inf
            for epsilon in args.epsilons:
                scores = []
                for seed, (train, test) in enumerate(splits):
                    model = Model(epsilon, adjacency=adjacency, random_state=seed)
                    start = time.perf_counter()
                    model.fit(X[train], y[train], user_ids=None if users is None else users[train])
                    seconds.append(time.perf_counter() - start)
                    scores.append(
                        auc(model, X[test], y[test])
                        if classifies
                        else r2_score(y[test], model.predict(X[test]))
                    )
                row.append(f"{np.median(scores):.4f}")
                worst = min(worst, min(scores)) if epsilon == 1.0 else worst
            row = [name, adjacency, *row, f"{worst:.4f}", f"{np.median(seconds):.2f}"]
            table.append(row)
            print(*row, sep="\t", flush=True)
    header = ["data", "model", *[f"ε = {e:g}" for e in args.epsilons], "worst at 1", "seconds"]
    write_table(args.name, header, table)


if __name__ == "__main__":
    main()
