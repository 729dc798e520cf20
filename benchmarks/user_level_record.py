"""Record level as the special case: each row its own user, one default setting, against recorded figures of peers.

70/30 splits, features standardised (taken as public), δ = 1e-6 (DP-EBM: 1e-5). The peers' medians are recorded
figures of diffprivlib (best configuration of its logistic or linear model, and its forest) and DP-EBM.

    python benchmarks/user_level_record.py [--seeds 10]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _common import parse_args, write_table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor

EPSILONS = [0.1, 0.5, 1.0, 3.0]
RECORDED = {
    "breast_cancer": {
        "diffprivlib linear": [0.64, 0.72, 0.74, 0.90],
        "diffprivlib forest": [0.74, 0.85, 0.85, 0.86],
        "DP-EBM": [0.59, 0.75, 0.82, 0.93],
    },
    "digits >= 5": {
        "diffprivlib linear": [0.49, 0.53, 0.55, 0.74],
        "diffprivlib forest": [0.59, 0.69, 0.70, 0.70],
        "DP-EBM": [0.51, 0.61, 0.71, 0.84],
    },
    "digits even": {
        "diffprivlib linear": [0.54, 0.61, 0.64, 0.80],
        "diffprivlib forest": [0.65, 0.71, 0.73, 0.74],
        "DP-EBM": [0.53, 0.68, 0.80, 0.86],
    },
    "diabetes (R2)": {"DP-EBM": [-2.6, -0.93, -0.42, 0.015]},
}


def data():
    digits = load_digits()
    yield "breast_cancer", *load_breast_cancer(return_X_y=True)
    yield "digits >= 5", digits.data, (digits.target >= 5).astype(int)
    yield "digits even", digits.data, (digits.target % 2 == 0).astype(int)
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes (R2)", X, (y - y.mean()) / y.std()


def main():
    args = parse_args(__doc__, seeds=10)
    warnings.simplefilter("ignore")
    table = []
    for name, X, y in data():
        X = StandardScaler().fit_transform(X)
        regression = name.startswith("diabetes")
        splits = [train_test_split(X, y, test_size=0.3, random_state=s) for s in range(args.seeds)]
        open_model = LinearRegression() if regression else LogisticRegression(max_iter=1000)
        plain = [open_model.fit(a, c).score(b, d) for a, b, c, d in splits]
        table.append([name, "non-private", *[f"{np.median(plain):.3f}"] * 4, ""])
        Model = UserLevelSGDRegressor if regression else UserLevelSGDClassifier
        for label, options in (("ours, add-remove, n public", {"adjacency": "add-remove"}), ("ours, replace-one", {})):
            row, seconds = [], []
            for epsilon in EPSILONS:
                scores = []
                for seed, (a, b, c, d) in enumerate(splits):
                    public = {"n_users": len(a)} if options else {}
                    model = Model(epsilon, random_state=seed, **options, **public)
                    start = time.perf_counter()
                    model.fit(a, c)
                    seconds.append(time.perf_counter() - start)
                    scores.append(model.score(b, d))
                row.append(f"{np.median(scores):.3f}")
            table.append([name, label, *row, f"{np.median(seconds):.3f}"])
        for peer, values in RECORDED[name].items():
            table.append([name, peer + " (recorded)", *[str(v) for v in values], ""])
    write_table("user_level_record", ["data", "model", *[f"ε = {e:g}" for e in EPSILONS], "seconds"], table)


if __name__ == "__main__":
    main()
