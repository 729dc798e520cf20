"""Few private rows: balanced accuracy and AUC over ε of the search and the descent, on four data sets.

    python benchmarks/mixture_few.py [--only adult] [--seeds 3]

Adult and credit default are thinned to 20 000 rows of which 1 200 are private (6 %); breast cancer and hospital stay as
they are (hospital: 15 000 rows). Categories are one-hot columns. Each seed is a stratified 70/30 split. Raw numbers are
collected in ``results/mixture_few_seeds.csv``, so that data sets may be run in several calls.
"""

from __future__ import annotations

import csv
import warnings
from collections import defaultdict
from statistics import mean

import numpy as np
import pandas as pd
from _common import RESULTS, parse_args, record_environment, write_table
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skprivate import PPMHalfspaceClassifier
from skprivate.datasets import load_adult, load_credit_default, load_hospital
from skprivate.privacy import SimulatedNoiseWarning

EPSILONS = (0.1, 0.5, 1.0, 3.0, 1e5)
RAW = RESULTS / "mixture_few_seeds.csv"


def one_hot(frame):
    texts = [name for name in frame if frame[name].dtype.kind not in "iufb"]
    return pd.get_dummies(frame, columns=texts, dtype=float).astype(float).to_numpy()


def thinned(X, y, n_private, n_rows):
    rng = np.random.default_rng(7)
    private = rng.permutation(np.flatnonzero(y == 1))[:n_private]
    public = rng.permutation(np.flatnonzero(y == 0))[: n_rows - n_private]
    rows = np.concatenate([public, private])
    return X[rows], y[rows]


def adult():
    bunch = load_adult(as_frame=True)
    y = (bunch.target == np.unique(bunch.target)[1]).to_numpy().astype(int)
    return thinned(one_hot(bunch.data), y, 1200, 20_000)


def credit():
    return thinned(*load_credit_default(return_X_y=True), 1200, 20_000)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X, 1 - y


def hospital():
    bunch = load_hospital(as_frame=True)
    y = (np.asarray(bunch.target) == "<30").astype(int)
    frame = bunch.data[[name for name in bunch.data if bunch.data[name].nunique() <= 30]]
    rows = np.random.default_rng(7).permutation(len(y))[:15_000]
    return np.nan_to_num(one_hot(frame.iloc[rows])), y[rows]


DATA = {"adult": adult, "credit": credit, "cancer": cancer, "hospital": hospital}


def one_seed(load, seed):
    """(method, ε or "", balanced accuracy, AUC) of one split."""
    X, y = load()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)

    def scores(model):
        margin = model.decision_function(X_test)
        return balanced_accuracy_score(y_test, model.predict(X_test)), roc_auc_score(y_test, margin)

    logistic = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    yield "logistic regression, not private", "", *scores(logistic.fit(X, y))
    options = {"private_label": 1, "class_weight": "balanced", "random_state": seed}
    for epsilon in EPSILONS:
        model = PPMHalfspaceClassifier(epsilon, delta=1e-6, strategy="gradient", **options)
        yield "gradient, delta = 1e-6", epsilon, *scores(model.fit(X, y))
        model = PPMHalfspaceClassifier(epsilon, strategy="greedy", max_candidates=200_000, **options)
        yield "greedy", epsilon, *scores(model.fit(X, y))


def report():
    values = defaultdict(list)
    with open(RAW, newline="") as handle:
        for row in csv.DictReader(handle):
            key = row["data"], row["method"]
            values[(*key, row["epsilon"])].append((float(row["balanced"]), float(row["auc"])))
    keys = [str(epsilon) for epsilon in EPSILONS]
    rows = []
    for data, method in dict.fromkeys(key[:2] for key in values):
        cells = []
        for epsilon in keys:
            found = values[(data, method, epsilon)] or values[(data, method, "")]
            cells.append("{:.3f} / {:.3f}".format(*map(mean, zip(*found, strict=True))) if found else "")
        rows.append([data, method, *cells])
    write_table("mixture_few", ["data", "balanced accuracy / AUC", *(f"ε = {k}" for k in keys)], rows)


def main():
    args = parse_args(__doc__, seeds=3, only={"default": "", "help": "data sets, separated by commas"})
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = set()
    if RAW.exists():
        with open(RAW, newline="") as handle:
            done = {(row["data"], int(row["seed"])) for row in csv.DictReader(handle)}
    for data in args.only.split(",") if args.only else DATA:
        for seed in range(args.seeds):
            if (data, seed) in done:
                continue
            rows = [(data, seed, m, e, f"{b:.5f}", f"{a:.5f}") for m, e, b, a in one_seed(DATA[data], seed)]
            new = not RAW.exists()
            with open(RAW, "a", newline="") as handle:
                writer = csv.writer(handle, lineterminator="\n")
                if new:
                    writer.writerow(["data", "seed", "method", "epsilon", "balanced", "auc"])
                writer.writerows(rows)
            record_environment(RAW.stem, runs=True)
            print(f"{data}, seed {seed} done", flush=True)
    report()


if __name__ == "__main__":
    main()
