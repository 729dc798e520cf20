"""One bar for all: our defaults beside re-measured peers on twelve data sets, one row a unit, from ε = 0.1 to 10 000.

    python benchmarks/default_bar.py --data DIR [--seeds 3] [--case adult …] [--eps 1 3 …] [--peer DIR] [--render]

Every method sees the same 70/30 splits. Ours has its defaults and features as the case states (raw, or prepared by
public numbers). The peers get features standardised by the training rows' own mean and deviation, and bounds from the
data, at no charge; diffprivlib also gets the best of its settings, chosen on the test rows. They run in an environment
of their own, made on the first call (``--peer`` says where).

Every run is appended to ``benchmarks/results/default_bar_runs.csv`` and not repeated; ``--render`` makes
``default_bar.csv``, the table and the picture from what is there. Noise is simulated.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import DIFFPRIVLIB, INTERPRET, RESULTS, ROOT, parse_args, peer_python, record_environment, require_data
from _default_bar_peer import DELTA, FOREST, LINEAR, LOGISTIC, score
from _default_bar_render import GAM, LIMIT, OPEN, OURS, SAME, SPLINES, render
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    make_private_pipeline,
)
from skprivate.datasets import load_adult, load_credit_default
from skprivate.preprocessing import make_additive_pipeline

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0, LIMIT)
MOST_ROWS = 20_000
HELD_OUT = 0.3
GD = "DP-GD"
LINEAR_PEER, FOREST_PEER, EBM = "linear", "forest", "DP-EBM"
COLUMNS = ("case", "epsilon", "seed", "method", "config", "score", "balanced", "cpu_seconds")
RUNS = RESULTS / "default_bar_runs.csv"
#: Additive models with more columns than this are not run, for time.
MOST_GAM_COLUMNS = 100
#: Steps and clipping norm of DP-GD; the rest of its recipe follows from them.
STEPS, CLIP = 50, 1.0


@dataclass
class Case:
    """Features as they come, target, what is hard about them, and a frame with categories for models that take one."""

    X: np.ndarray
    y: np.ndarray
    kind: str
    frame: pd.DataFrame | None = None

    @property
    def metric(self) -> str:
        return "R2" if self.y.dtype.kind == "f" else "AUC"

    def rows(self, chosen: np.ndarray) -> Case:
        frame = None if self.frame is None else self.frame.iloc[chosen].reset_index(drop=True)
        return Case(self.X[chosen], self.y[chosen], self.kind, frame)


def breast_cancer(args: Any) -> Case:
    X, y = load_breast_cancer(return_X_y=True)
    return Case(StandardScaler().fit_transform(X), y, "prepared, few rows")


def digits(args: Any) -> Case:
    X, y = load_digits(return_X_y=True)
    return Case(X / 8.0 - 1.0, y, "prepared, 10 classes")  # grey values 0 … 16


def adult(args: Any) -> Case:
    bunch = load_adult(as_frame=True)
    X = pd.get_dummies(bunch.data, dtype=float).to_numpy(float)
    return Case(X, (bunch.target == ">50K").to_numpy(int), "raw, skewed, one-hot", bunch.data)


def credit(args: Any) -> Case:
    X, y = load_credit_default(return_X_y=True)
    return Case(np.asarray(X, dtype=float), np.asarray(y, dtype=int), "raw, skewed, correlated")


def hospital(args: Any) -> Case:
    frame = pd.read_parquet(require_data(args, "diabetes130_hospital.parquet"))
    frame = frame.drop_duplicates("patient_nbr")  # one row a patient
    names = ["time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses"]
    visits = np.log1p(frame[["number_outpatient", "number_emergency", "number_inpatient"]].to_numpy(float))
    age = frame["age"].astype(str).str.extract(r"(\d+)")[0].to_numpy(float) / 16.0 - 4.0
    flags = [frame["discharge_disposition_id"] != 1, frame["insulin"] != "No", frame["diabetesMed"] == "Yes"]
    counts = (frame[names].to_numpy(float) - [4, 43, 1, 16, 7]) / [3, 20, 1.7, 8, 2]
    X = np.column_stack([counts, visits * 2.0, age, *(2.0 * flag.to_numpy(float) for flag in flags)])
    return Case(X, (frame["readmitted"] == "<30").to_numpy(int), "prepared, 9 % positives")


def rare(args: Any) -> Case:
    X, y = make_classification(
        10_000, 20, n_informative=8, n_redundant=6, weights=[0.97], class_sep=1.2, flip_y=0.01, random_state=12
    )
    return Case(StandardScaler().fit_transform(X), y, "prepared, 3 % positives")


def six_classes(args: Any) -> Case:
    X, y = make_classification(
        8_000, 15, n_informative=8, n_redundant=4, n_classes=6, n_clusters_per_class=1, random_state=13
    )
    return Case(X * np.geomspace(0.1, 1000, 15) + 20.0, y, "raw, 6 classes, correlated")


def diabetes(args: Any) -> Case:
    X, y = load_diabetes(return_X_y=True)
    return Case(StandardScaler().fit_transform(X), (y - 150.0) / 80.0, "prepared, few rows")


def california(args: Any) -> Case:
    frame = pd.read_parquet(require_data(args, "california_housing.parquet")).astype(float)
    y = frame.pop("MedHouseVal").to_numpy()
    return Case(frame.to_numpy(), y, "raw, skewed, correlated")


def flights(args: Any) -> Case:
    columns = ["distance", "dep_delay", "hour", "month", "air_time"]
    frame = pd.read_parquet(require_data(args, "nycflights13.parquet"), columns=[*columns, "arr_delay"]).dropna()
    X = (frame[columns].to_numpy(float) - [1000, 0, 13, 6.5, 150]) / [700, 40, 5, 3.5, 95]
    return Case(X, frame["arr_delay"].to_numpy(float), "prepared, target raw and skewed")


def taxi(args: Any) -> Case:
    frame = pd.read_parquet(require_data(args, "nyc_taxi_10k.parquet"))
    frame = frame[frame["trip_duration"].between(60, 7200)]  # the others are meters left on
    start, end = (frame[[f"{k}_longitude", f"{k}_latitude"]].to_numpy(float) for k in ("pickup", "dropoff"))
    when = pd.to_datetime(frame["pickup_datetime"])
    clock = [when.dt.hour, when.dt.dayofweek, when.dt.month, frame["passenger_count"]]
    across, along = np.abs(end - start).T * [[84_000.0], [111_000.0]]  # metres
    X = np.column_stack([start, end, across, along, np.hypot(across, along), *clock]).astype(float)
    return Case(X, frame["trip_duration"].to_numpy(float), "raw, target raw and skewed")


def units(args: Any) -> Case:
    rng = np.random.default_rng(14)
    mix = np.eye(12) + 0.5 * rng.normal(size=(12, 12)) / np.sqrt(12)
    Z = rng.normal(size=(9000, 12)) @ mix
    y = 1e4 + 50.0 * (Z @ rng.normal(size=12) + np.exp(rng.normal(size=9000)))
    return Case(Z * np.geomspace(1e-3, 1e3, 12) + 10.0, y, "raw, scales 1e-3 … 1e3, skewed noise")


CASES = {
    make.__name__: make
    for make in (
        breast_cancer,
        digits,
        adult,
        credit,
        hospital,
        rare,
        six_classes,
        diabetes,
        california,
        flights,
        taxi,
        units,
    )
}


def split(name: str, args: Any, seed: int) -> tuple[Case, Case]:
    """Training and test rows, the same in every call; the first ``MOST_ROWS`` of a shuffle where there are more."""
    case = CASES[name](args)
    rows = np.random.default_rng(seed).permutation(len(case.y))[: args.rows]
    strata = case.y[rows] if case.metric == "AUC" else None
    train, test = train_test_split(rows, test_size=HELD_OUT, random_state=seed, stratify=strata)
    return case.rows(train), case.rows(test)


class NoisyGradientDescent:
    """Full-batch DP-GD, one recipe: 50 steps of one over the smoothness, rows' gradients clipped to 1, replace-one.

    Features are standardised and divided by √(d + 1), the target is standardised, the last 25 iterates are averaged.
    """

    def __init__(self, epsilon: float, seed: int) -> None:
        # T Gaussian releases are as one with a deviation smaller by √T; exchanging a row moves a sum by 2·CLIP.
        guarantee = DifferentialPrivacyParameters(epsilon, DELTA)
        one = GaussianPrivacyLoss.from_privacy_guarantee(guarantee).standard_deviation
        self.noise, self.rng = 2.0 * CLIP * one * np.sqrt(STEPS), np.random.default_rng(seed)

    def features(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.ones((len(X), 1))]) / np.sqrt(X.shape[1] + 1)

    def fit(self, X: np.ndarray, y: np.ndarray) -> NoisyGradientDescent:
        Z = self.features(X)
        if y.dtype.kind == "f":
            self.center, self.scale = y.mean(), y.std()
            target, rate, link = ((y - self.center) / self.scale)[:, None], 1.0, lambda s: s
        else:
            self.classes = np.unique(y)
            many = len(self.classes) > 2
            target = (y[:, None] == (self.classes if many else self.classes[1:])).astype(float)
            rate, link = (2.0, lambda s: softmax(s, axis=1)) if many else (4.0, expit)
        coef, total = np.zeros((Z.shape[1], target.shape[1])), 0.0
        rows = np.linalg.norm(Z, axis=1)
        for step in range(STEPS):
            residual = link(Z @ coef) - target
            norms = rows * np.linalg.norm(residual, axis=1)
            clip = np.minimum(1.0, CLIP / np.maximum(norms, 1e-12))[:, None]
            noise = self.noise * self.rng.normal(size=coef.shape)
            coef = coef - rate * (Z.T @ (residual * clip) + noise) / len(Z)
            total = total + coef * (step >= STEPS // 2)
        self.coef = total / (STEPS - STEPS // 2)
        return self

    def scores(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Decision values or probabilities and predicted labels; for a regression the prediction alone."""
        s = self.features(X) @ self.coef
        if hasattr(self, "scale"):
            return self.center + self.scale * s[:, 0], None
        binary = s.shape[1] == 1
        return (s[:, 0] if binary else softmax(s, axis=1)), self.classes[
            (s[:, 0] > 0).astype(int) if binary else s.argmax(axis=1)
        ]


def run_here(method: str, epsilon: float, seed: int, train: Case, test: Case) -> tuple[float, float]:
    """Score and balanced accuracy of one of our models, DP-GD or the model without privacy."""
    regression = train.metric == "R2"
    X, X_test = train.X, test.X
    if method in (GD, OPEN, SAME):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    if method == GD:
        return score(test.y, *NoisyGradientDescent(epsilon, seed).fit(X, train.y).scores(X_test))
    if method == OPEN:
        model: Any = Ridge() if regression else LogisticRegression(max_iter=2000)
    elif method == GAM:
        Model: Any = CuratedBagGAMRegressor if regression else CuratedBagGAMClassifier
        model = Model(epsilon, random_state=seed)
        X, X_test = (c.X if c.frame is None else c.frame for c in (train, test))
    else:
        Model = UserLevelSGDRegressor if regression else UserLevelSGDClassifier
        model = Model(epsilon, random_state=seed)
        if method == SPLINES:
            model = make_additive_pipeline(model)
            if train.frame is not None:  # types say which columns are categories
                model, X, X_test = make_private_pipeline(model), train.frame, test.frame
    model.fit(X, train.y)
    if regression:
        return score(test.y, model.predict(X_test))
    decide = getattr(model, "decision_function", None) if len(np.unique(train.y)) == 2 else None
    return score(test.y, (decide or model.predict_proba)(X_test), model.predict(X_test))


def run_peers(jobs: list[list[Any]], seed: int, train: Case, test: Case, folder: Path) -> Iterator[list[Any]]:
    """Results of jobs [method, config, ε], one after the other, from the peers' environment."""
    scaler = StandardScaler().fit(train.X)
    arrays = {"X": scaler.transform(train.X), "X_test": scaler.transform(test.X), "y": train.y, "y_test": test.y}
    if train.frame is not None:  # trees get a category as one column of codes
        for name, frame in (("tree", train.frame), ("tree_test", test.frame)):
            codes = [c.cat.codes if isinstance(c.dtype, pd.CategoricalDtype) else c for _, c in frame.items()]
            arrays[name] = np.column_stack(codes).astype(float)
        arrays["nominal"] = np.array([isinstance(t, pd.CategoricalDtype) for t in train.frame.dtypes])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "split.npz"
        np.savez(path, **arrays)
        script = ROOT / "benchmarks" / "_default_bar_peer.py"
        command = [
            str(peer_python(folder, *DIFFPRIVLIB, INTERPRET)),
            str(script),
            str(path),
            json.dumps(jobs),
            str(seed),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                yield json.loads(line)
        if process.returncode:
            print("the peers' process ended with", process.returncode, file=sys.stderr)


def jobs_of(case: Case, epsilons: tuple[float, ...]) -> list[list[Any]]:
    """Every (method, config, ε) of a case, cheap ones first."""
    regression, binary = case.metric == "R2", len(np.unique(case.y)) == 2
    jobs: list[list[Any]] = [[OPEN, "", LIMIT]]
    for method in (OURS, SPLINES, SAME, GD):
        jobs += [[method, "", epsilon] for epsilon in epsilons]
    configs = LINEAR if regression else LOGISTIC
    jobs += [[LINEAR_PEER, config, epsilon] for epsilon in epsilons for config in configs]
    if regression or binary:  # interpret's has two classes at most
        jobs += [[EBM, "", epsilon] for epsilon in epsilons]
    if not regression:  # diffprivlib has no regression forest
        jobs += [[FOREST_PEER, config, epsilon] for epsilon in epsilons for config in FOREST]
    if (case.X if case.frame is None else case.frame).shape[1] <= MOST_GAM_COLUMNS:
        jobs += [[GAM, "", epsilon] for epsilon in epsilons]
    return jobs


def read_runs() -> pd.DataFrame:
    if not RUNS.exists():
        return pd.DataFrame(columns=list(COLUMNS))
    frame = pd.read_csv(RUNS, keep_default_na=False, na_values=["nan"], dtype={"config": str})
    return frame.drop_duplicates(["case", "epsilon", "seed", "method", "config"], keep="last")


def run(args: Any) -> None:
    frame = read_runs()
    keys = frame[["case", "epsilon", "seed", "method", "config"]]
    done = set() if args.again else set(keys.itertuples(index=False, name=None))
    fresh = not RUNS.exists()
    RESULTS.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * args.minutes
    with open(RUNS, "a", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)

        def keep(name: str, seed: int, result: list[Any]) -> None:
            method, config, epsilon, value, balanced, seconds = result
            row = [name, epsilon, seed, method, config, f"{value:.5g}", f"{balanced:.4f}", f"{seconds:.3f}"]
            writer.writerow(row)
            handle.flush()
            record_environment(RUNS.stem, runs=True)
            print(*row, flush=True)

        for seed in range(args.seeds):
            for name in args.case:
                train, test = split(name, args, seed)
                jobs = [
                    job
                    for job in jobs_of(train, tuple(args.eps))
                    if (name, job[2], seed, job[0], job[1]) not in done and job[0] in args.methods
                ]
                here = [job for job in jobs if job[0] in (OPEN, OURS, SPLINES, SAME, GD, GAM)]
                for method, config, epsilon in here:
                    if time.monotonic() > deadline:
                        return
                    start = time.process_time()
                    values = run_here(method, epsilon, seed, train, test)
                    keep(name, seed, [method, config, epsilon, *values, time.process_time() - start])
                there = [job for job in jobs if job not in here]
                if there:
                    for result in run_peers(there, seed, train, test, args.peer):
                        keep(name, seed, result)
                        if time.monotonic() > deadline:
                            return


def main() -> None:
    every = [OPEN, OURS, SPLINES, SAME, GD, LINEAR_PEER, EBM, FOREST_PEER, GAM]
    args = parse_args(
        __doc__ or "",
        seeds=3,
        case={"nargs": "+", "choices": list(CASES), "default": list(CASES)},
        eps={"nargs": "+", "type": float, "default": list(EPSILONS)},
        methods={"nargs": "+", "choices": every, "default": every},
        rows={"type": int, "default": MOST_ROWS},
        minutes={"type": float, "default": 1e6, "help": "start nothing new after so long"},
        peer={"type": Path, "default": ROOT / ".venv-default-bar"},
        again={"action": "store_true", "help": "repeat what is there; the last run counts"},
        render={"action": "store_true"},
    )
    warnings.simplefilter("ignore")
    if args.render:
        render(read_runs(), {name: CASES[name](args) for name in CASES})
    else:
        run(args)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
