"""Real data with many rows per user: flights by aircraft, hospital encounters by patient; and the bias of robustness.

Compared with the non-private model and with item-level privacy plus group privacy (at most k rows a user, each row its
own unit at ε/k and δ/k·…), on user-disjoint 70/30 splits.

    python benchmarks/user_level_real.py --data DIR [--seeds 5]
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
from _common import parse_args, require_data, save_figure, write_table
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor

EPSILONS = [0.1, 0.3, 1.0, 3.0]
GROUP = 4


def flights(args):
    frame = pd.read_parquet(require_data(args, "nycflights13.parquet"))
    frame = frame.dropna(subset=["tailnum", "arr_delay", "dep_delay", "air_time"])
    columns = ["distance", "dep_delay", "hour", "month", "air_time"]
    # Public ranges: standard scales of the quantities, not of this data set.
    centre, scale = [1000.0, 0.0, 13.0, 6.5, 150.0], [700.0, 40.0, 5.0, 3.5, 95.0]
    X = (frame[columns].to_numpy(float) - centre) / scale
    return X, frame["arr_delay"].to_numpy(float), frame["tailnum"].to_numpy()


def hospital(args):
    frame = pd.read_parquet(require_data(args, "diabetes130_hospital.parquet"))
    counts = ["time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"]
    logs = ["number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"]
    age = frame["age"].astype(str).str.extract(r"(\d+)")[0].astype(float).to_numpy() / 10.0 - 6.5
    X = np.column_stack(
        [
            (frame[counts].to_numpy(float) - [4.0, 43.0, 1.0, 16.0]) / [3.0, 20.0, 1.7, 8.0],
            np.log1p(frame[logs].to_numpy(float)) / [0.5, 0.4, 0.6, 2.0],
            age / 1.6,
            (frame["discharge_disposition_id"].to_numpy() != 1) * 2.0,
            (frame["insulin"] != "No").to_numpy() * 2.0,
            (frame["diabetesMed"] == "Yes").to_numpy() * 2.0,
        ]
    )
    return X, (frame["readmitted"] == "<30").to_numpy(int), frame["patient_nbr"].to_numpy()


def at_most(users, k, rng):
    """Rows of a random choice of at most k rows a user."""
    order = rng.permutation(len(users))
    rank = pd.Series(users[order]).groupby(users[order]).cumcount().to_numpy()
    return order[rank < k]


def group_budget(epsilon, delta, k):
    """(ε, δ) of one row such that k rows together have (ε, δ)."""
    return epsilon / k, delta * math.expm1(epsilon / k) / math.expm1(epsilon)


def main():
    args = parse_args(__doc__, seeds=5)
    warnings.simplefilter("ignore")
    table, curves = [], {}
    for name, load, Model in (
        ("flights, R2", flights, UserLevelSGDRegressor),
        ("hospital, AUC", hospital, UserLevelSGDClassifier),
    ):
        X, y, users = load(args)
        classify = Model is UserLevelSGDClassifier

        def score(model, X, y, classify=classify):
            return roc_auc_score(y, model.decision_function(X)) if classify else model.score(X, y)

        results = {}
        for seed in range(args.seeds):
            train, test = next(GroupShuffleSplit(1, test_size=0.3, random_state=seed).split(X, y, users))
            plain = LogisticRegression(max_iter=1000) if classify else LinearRegression()
            open_score = score(plain.fit(X[train], y[train]), X[test], y[test])
            few = train[at_most(users[train], GROUP, np.random.default_rng(seed))]
            for epsilon in EPSILONS:
                results.setdefault(("non-private", epsilon), []).append(open_score)
                for label, options in (("ours, default", {}), ("ours, mean", {"aggregation": "mean"})):
                    model = Model(epsilon, random_state=seed, **options)
                    model.fit(X[train], y[train], user_ids=users[train])
                    results.setdefault((label, epsilon), []).append(score(model, X[test], y[test]))
                row_epsilon, row_delta = group_budget(epsilon, 1e-6, GROUP)
                model = Model(row_epsilon, delta=row_delta, random_state=seed).fit(X[few], y[few])
                label = f"item level, {GROUP} rows a user"
                results.setdefault((label, epsilon), []).append(score(model, X[test], y[test]))
        labels = list(dict.fromkeys(label for label, _ in results))
        for label in labels:
            medians = [float(np.median(results[label, epsilon])) for epsilon in EPSILONS]
            curves.setdefault(name, {})[label] = medians
            table.append([name, label, *[f"{value:.4f}" for value in medians]])
            print(table[-1], flush=True)

    # Bias: users' means of a skewed quantity, and of real arrival delays.
    rng = np.random.default_rng(0)
    skewed = rng.lognormal(sigma=1.0, size=5000)
    X, y, users = flights(args)
    delays = pd.Series(y).groupby(users).mean().to_numpy()
    for name, values in (("log-normal users", skewed), ("mean delay by aircraft", delays)):
        truth, spread = values.mean(), values.std()
        for aggregation in ("mean", "robust"):
            errors = [
                float(UserLevelMean(1.0, aggregation=aggregation, random_state=s).fit(values[:, None]).mean_[0]) - truth
                for s in range(20)
            ]
            bias, deviation = np.mean(errors) / spread, np.std(errors) / spread
            table.append(
                [f"bias/deviation in users' sd: {name}", aggregation, f"{bias:.4f}", f"{deviation:.4f}", "", ""]
            )
            print(table[-1], flush=True)
    write_table("user_level_real", ["data", "model", *[f"ε = {e:g}" for e in EPSILONS]], table)
    draw(curves)


def draw(curves):
    """Draw the scores against ε, one panel a data set."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2))
    for axis, (name, lines) in zip(axes, curves.items(), strict=True):
        for label, medians in lines.items():
            shown = [max(value, -0.2) for value in medians]
            style = "k--" if label == "non-private" else "o-"
            axis.semilogx(EPSILONS, shown, style, label=label.replace("ours", "skprivate"))
        axis.set_title(name.replace("R2", "R²"))
        axis.set_xlabel("ε for one user")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
    axes[0].legend(loc="lower right", fontsize="small")
    save_figure(figure, "user_level_real")


if __name__ == "__main__":
    main()
