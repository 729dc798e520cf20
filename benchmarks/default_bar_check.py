"""The bar's defaults on data that they were not chosen by: other targets of real tables, few rows and many.

    python benchmarks/default_bar_check.py --data DIR [--seeds 6] [--rows 300 1500 6000] [--eps 1 3 10 10000]

Each task predicts another column of a table than the bar does, or has another table. All methods get features that are
standardised by the training rows, and a target that is, at no charge. DP-GD is the bar's recipe. One row is a unit
(replace-one, δ = 1e-6). Noise is simulated. Scores are R² (at least −1) and AUC, means over splits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from _common import parse_args, require_data, write_table
from _default_bar_peer import score
from default_bar import NoisyGradientDescent
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.datasets import load_adult
from skprivate.preprocessing import make_additive_pipeline

#: Rows to test on, at most.
TEST_ROWS = 4000
METHODS = ("ours", "ours, splines", "DP-GD", "non-private")


def tasks(args: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and target of every task."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    cards = pd.read_parquet(require_data(args, "taiwan_credit_default.parquet")).astype(float)
    cards = cards.drop(columns="ID")
    money = cards.drop(columns=["Default", "LIMIT_BAL"])
    found["credit: log limit"] = (np.log1p(money.clip(lower=0)).to_numpy(), np.log(cards["LIMIT_BAL"]).to_numpy())
    bill = next(name for name in cards if "BILL" in name.upper())
    found["credit: a bill"] = cards.drop(columns=["Default", bill]).to_numpy(), cards[bill].to_numpy()
    sex = next(name for name in cards if name.upper() == "SEX")
    found["credit: sex"] = cards.drop(columns=sex).to_numpy(), (cards[sex] == 1).to_numpy(int)

    visits = pd.read_parquet(require_data(args, "diabetes130_hospital.parquet")).drop_duplicates("patient_nbr")
    counts = ["num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses"]
    counts += ["number_outpatient", "number_emergency", "number_inpatient"]
    age = visits["age"].astype(str).str.extract(r"(\d+)")[0].to_numpy(float)
    of_visits = np.column_stack([visits[counts].to_numpy(float), age])
    found["hospital: days"] = of_visits, visits["time_in_hospital"].to_numpy(float)
    found["hospital: readmitted at all"] = of_visits, (visits["readmitted"] != "NO").to_numpy(int)
    found["hospital: insulin"] = of_visits, (visits["insulin"] != "No").to_numpy(int)

    people = pd.get_dummies(load_adult(as_frame=True).data, dtype=float)
    for name in ("hours", "age"):
        column = next(each for each in people if each.startswith(name))
        found[f"adult: {name}"] = (people.drop(columns=column).iloc[:, :40].to_numpy(), people[column].to_numpy())
    column = next(each for each in people if "Female" in each)
    others = [each for each in people if not each.startswith(column.split("_")[0])]
    found["adult: sex"] = people[others].to_numpy(), people[column].to_numpy(int)

    houses = pd.read_parquet(require_data(args, "california_housing.parquet")).astype(float)
    found["california: income"] = houses.drop(columns="MedInc").to_numpy(), houses["MedInc"].to_numpy()
    value = houses["MedHouseVal"]
    found["california: dear"] = houses.drop(columns="MedHouseVal").to_numpy(), (value > 3.5).to_numpy(int)
    corner = (houses["Latitude"] > 36).astype(int) + 2 * (houses["Longitude"] > -119.5).astype(int)
    found["california: corner"] = (houses.drop(columns=["Latitude", "Longitude"]).to_numpy(), corner.to_numpy(int))

    columns = ["distance", "dep_delay", "hour", "month", "air_time", "arr_delay"]
    trips = pd.read_parquet(require_data(args, "nycflights13.parquet"), columns=columns).dropna()
    found["flights: air time"] = (trips.drop(columns="air_time").to_numpy(float), trips["air_time"].to_numpy(float))
    plan = trips[["distance", "hour", "month", "air_time"]].to_numpy(float)
    found["flights: late"] = plan, (trips["arr_delay"] > 30).to_numpy(int)

    clicks = pd.read_parquet(require_data(args, "criteo_encoded_20k.parquet"))
    numbers = clicks[[name for name in clicks if name.startswith("I")]].astype(float)
    found["criteo: click"] = np.log1p(numbers.clip(lower=0)).to_numpy(), clicks["label"].to_numpy(int)
    cells = load_breast_cancer(return_X_y=True)[0]
    found["breast_cancer: concavity"] = np.delete(cells, 6, axis=1), cells[:, 6]
    return found


def fitted_score(method: str, data: tuple[np.ndarray, ...], epsilon: float, seed: int) -> float:
    """Score on the test rows."""
    X, y, X_test, y_test = data
    regression = y.dtype.kind == "f"
    if method == "DP-GD":
        return score(y_test, *NoisyGradientDescent(epsilon, seed).fit(X, y).scores(X_test))[0]
    if method == "non-private":
        model: Any = Ridge() if regression else LogisticRegression(max_iter=2000)
    else:
        model = (UserLevelSGDRegressor if regression else UserLevelSGDClassifier)(epsilon, random_state=seed)
        model = make_additive_pipeline(model) if method == "ours, splines" else model
    model.fit(X, y)
    if regression:
        return score(y_test, model.predict(X_test))[0]
    decide = model.predict_proba if len(np.unique(y)) > 2 else model.decision_function
    return score(y_test, decide(X_test), model.predict(X_test))[0]


def of_split(X: np.ndarray, y: np.ndarray, n: int, epsilons: list[float], seed: int) -> list[list[Any]]:
    """Scores of all methods on one split."""
    warnings.simplefilter("ignore")
    rows = np.random.default_rng(seed).permutation(len(y))
    n = min(n, int(0.7 * len(y)))
    train, test = rows[:n], rows[n : n + TEST_ROWS]
    scaler = StandardScaler().fit(X[train])
    if y.dtype.kind == "f":
        y = (y - y[train].mean()) / y[train].std()
    data = scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]
    return [
        [epsilon, method, max(fitted_score(method, data, epsilon, seed), -1.0)]
        for epsilon in epsilons
        for method in METHODS
    ]


def main() -> None:
    args = parse_args(
        __doc__ or "",
        seeds=6,
        rows={"type": int, "nargs": "+", "default": [300, 1500, 6000]},
        eps={"type": float, "nargs": "+", "default": [1.0, 3.0, 10.0, 1e4]},
    )
    runs: list[list[Any]] = []
    for name, (X, y) in tasks(args).items():
        for n in args.rows:
            if n > 0.7 * len(y) and n != args.rows[0]:
                continue
            parts = Parallel(n_jobs=2)(delayed(of_split)(X, y, n, args.eps, seed) for seed in range(args.seeds))
            metric = "R2" if y.dtype.kind == "f" else "AUC"
            runs += [[f"{name} ({metric})", n, *row, seed] for seed, part in enumerate(parts) for row in part]
    frame = pd.DataFrame(runs, columns=["task", "n", "epsilon", "method", "score", "seed"])
    means = frame.pivot_table("score", ["task", "n", "epsilon"], "method", sort=False)[list(METHODS)]
    write_table(
        "default_bar_check",
        ["task", "n", "epsilon", *METHODS],
        [[*k, *map(float, v)] for k, v in zip(means.index, means.to_numpy(), strict=True)],
    )
    over = means.groupby(["n", "epsilon"]).mean()
    write_table(
        "default_bar_check_means",
        ["n", "epsilon", *METHODS],
        [[*k, *map(float, v)] for k, v in zip(over.index, over.to_numpy(), strict=True)],
    )
    regression = means.index.get_level_values("task").str.endswith("(R2)")
    loss = (means["non-private"] - means["ours"])[means.index.get_level_values("epsilon") == max(args.eps)]
    print("largest loss at the largest ε:\n", loss.sort_values().tail(4))
    for kind, chosen in (("R2", regression), ("AUC", ~regression)):
        ahead = means[chosen]["ours"] - means[chosen]["DP-GD"]
        print(kind, "cells:", len(ahead), "ours at or above DP-GD less .005:", int((ahead > -0.005).sum()))


if __name__ == "__main__":
    main()
