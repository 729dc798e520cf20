"""Linear models on splines with private knots, beside linear models on the features as they come and DP-EBM.

    python benchmarks/spline.py --data DIR [--seeds 2] [--case credit …] [--eps 1 …] [--minutes 3] [--render]

Splits, scores and the scores of DP-EBM are those of ``default_bar.py``; two more data sets are generated, one of
waves and one that is linear. Splines get .4 ε, the model .85 ε and each half of δ, which compose to less than (ε, δ)
(checked). Every run is appended to ``benchmarks/results/spline_runs.csv`` and not repeated; ``--render`` makes
``spline.csv``, the table and the picture.
"""

from __future__ import annotations

import csv
import time
import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _common import RESULTS, parse_args, record_environment, save_figure, write_table
from _default_bar_peer import DELTA, score
from default_bar import CASES, EBM, MOST_ROWS, Case, read_runs, split
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.inspection import guarantee_of
from skprivate.preprocessing import PrivateSplineTransformer

LINEAR, SPLINES, OPEN_LINEAR, OPEN_SPLINES = ("linear", "splines", "linear, not private", "splines, not private")
EPSILONS = (0.5, 1.0, 3.0, 10.0)
KNOTS, MODEL = 0.4, 0.85
#: Columns that are numbers, where others are indicators of categories.
NUMBERS = {"adult": 6}
RUNS = RESULTS / "spline_runs.csv"
COLUMNS = ("case", "epsilon", "seed", "method", "score", "cpu_seconds")


def waves(args: Any) -> Case:
    rng = np.random.default_rng(15)
    X = np.column_stack([rng.normal(size=15_000), rng.lognormal(size=15_000), rng.uniform(0, 10, 15_000)])
    X = np.hstack([X, rng.normal(size=(15_000, 3))])
    logit = np.sin(2 * X[:, 0]) + np.abs(np.log(X[:, 1])) - (X[:, 2] - 5) ** 2 / 8 + X[:, 3] + 1.3
    return Case(X, (logit + rng.logistic(size=15_000) > 0).astype(int), "not linear")


def straight(args: Any) -> Case:
    rng = np.random.default_rng(16)
    X = rng.normal(size=(15_000, 10))
    return Case(X, X @ rng.normal(size=10) + 2.0 * rng.normal(size=15_000), "linear")


CHOSEN = ("credit", "taxi", "california", "adult", "waves", "straight")
CASES.update(waves=waves, straight=straight)


def model_of(method: str, epsilon: float, seed: int, name: str, train: Case) -> Any:
    """A method's model, not fitted."""
    regression = train.metric == "R2"
    if method in (OPEN_LINEAR, OPEN_SPLINES):
        model: Any = Ridge() if regression else LogisticRegression(max_iter=2000)
        splines: Any = SplineTransformer(9, knots="quantile") if name != "adult" else SplineTransformer(9)
    else:
        share, delta = (MODEL, DELTA / 2) if method == SPLINES else (1.0, DELTA)
        kind = UserLevelSGDRegressor if regression else UserLevelSGDClassifier
        # Noise that is simulated from one seed twice would be the same noise.
        model = kind(share * epsilon, delta=delta, random_state=seed + 1000)
        splines = PrivateSplineTransformer(KNOTS * epsilon, delta=delta, random_state=seed)
    if method == OPEN_LINEAR:
        return make_pipeline(StandardScaler(), model)
    if method == LINEAR:
        return model
    chosen = slice(0, NUMBERS.get(name, train.X.shape[1]))
    return make_pipeline(make_column_transformer((splines, chosen), remainder="passthrough"), model)


def run(args: Any) -> None:
    done = set()
    if RUNS.exists():
        done = set(pd.read_csv(RUNS)[["case", "epsilon", "seed", "method"]].itertuples(index=False, name=None))
    deadline = time.monotonic() + 60 * args.minutes
    with open(RUNS, "a", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        if not handle.tell():
            writer.writerow(COLUMNS)
        for seed in range(args.seeds):
            for name in args.case:
                train, test = split(name, args, seed)
                jobs = [(method, epsilon) for epsilon in args.eps for method in (LINEAR, SPLINES)]
                for method, epsilon in [(OPEN_LINEAR, np.inf), (OPEN_SPLINES, np.inf), *jobs]:
                    if (name, epsilon, seed, method) in done:
                        continue
                    if time.monotonic() > deadline:
                        return
                    start = time.process_time()
                    model = model_of(method, epsilon, seed, name, train).fit(train.X, train.y)
                    if method in (LINEAR, SPLINES):
                        spent = guarantee_of(model)
                        assert spent.epsilon <= epsilon and spent.delta <= DELTA
                    if train.metric == "R2":
                        value = score(test.y, model.predict(test.X))[0]
                    else:
                        value = score(test.y, model.decision_function(test.X), model.predict(test.X))[0]
                    seconds = time.process_time() - start
                    row = [name, epsilon, seed, method, f"{value:.5g}", f"{seconds:.2f}"]
                    writer.writerow(row)
                    handle.flush()
                    record_environment(RUNS.stem, runs=True)
                    print(*row, flush=True)


def render() -> None:
    runs = pd.read_csv(RUNS)
    bar = read_runs()
    bar = bar[(bar["method"] == EBM) & bar["case"].isin(CHOSEN) & bar["seed"].isin(runs["seed"].unique())]
    scores = pd.concat([runs, bar[["case", "epsilon", "seed", "method", "score"]]])
    means = scores.groupby(["case", "method", "epsilon"])["score"].mean()
    n_seeds = scores.groupby(["case", "method"])["seed"].nunique()

    def mean(name: str, method: str, epsilon: float) -> Any:
        value = means.get((name, method, epsilon))
        return "–" if value is None else f"{value:.3f}"

    rows = []
    figure, axes = plt.subplots(2, 3, figsize=(9.6, 5.0), layout="constrained")
    for axis, name in zip(axes.flat, CHOSEN, strict=True):
        metric = "AUC" if name in ("credit", "adult", "waves") else "R2"
        for epsilon in EPSILONS:
            private = [mean(name, method, epsilon) for method in (LINEAR, SPLINES, EBM)]
            without = [mean(name, method, np.inf) for method in (OPEN_LINEAR, OPEN_SPLINES)]
            rows.append([f"{name} ({metric})", f"{epsilon:g}", *private, *without, n_seeds[name, SPLINES]])
        for method, colour in ((LINEAR, "C0"), (SPLINES, "C2"), (EBM, "C1")):
            found = [means.get((name, method, epsilon), np.nan) for epsilon in EPSILONS]
            axis.plot(EPSILONS, found, "o-", color=colour, label=method)
        for method, line in ((OPEN_LINEAR, ":"), (OPEN_SPLINES, "--")):
            axis.axhline(means[name, method, np.inf], color="black", lw=0.8, ls=line, label=method)
        top = means[name, OPEN_SPLINES, np.inf]
        axis.set(title=f"{name}, {metric.replace('R2', 'R²')}", xscale="log", xticks=EPSILONS, xticklabels=EPSILONS)
        axis.set_ylim(bottom=max(axis.get_ylim()[0], top - (0.15 if metric == "AUC" else 0.4)))
        axis.minorticks_off()
    axes[0, 0].legend(fontsize=7)
    for axis in axes[1]:
        axis.set_xlabel("ε")
    save_figure(figure, "spline")
    write_table("spline", ["data", "ε", LINEAR, SPLINES, EBM, OPEN_LINEAR, OPEN_SPLINES, "seeds"], rows)


def main() -> None:
    args = parse_args(
        __doc__ or "",
        seeds=2,
        case={"nargs": "+", "choices": list(CHOSEN), "default": list(CHOSEN)},
        eps={"nargs": "+", "type": float, "default": list(EPSILONS)},
        rows={"type": int, "default": MOST_ROWS},
        minutes={"type": float, "default": 1e6, "help": "start nothing new after so long"},
        render={"action": "store_true"},
    )
    warnings.simplefilter("ignore")
    if args.render:
        render()
    else:
        run(args)


if __name__ == "__main__":
    main()
