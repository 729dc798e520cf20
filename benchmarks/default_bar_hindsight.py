"""What a choice of settings on the test rows, as tuned peers have it, is worth where the bar falls short.

    python benchmarks/default_bar_hindsight.py --data DIR [--seeds 8]

Takes every cell of ``default_bar_runs.csv`` in which one default with splines is behind the best peer, and fits there
other settings, on raw features and on the peers' (standardised by the training rows, at no charge). Of each cell the
best mean on the test rows is shown, as the bar does for diffprivlib. No user has this choice: it says how much of what
falls short is the default's. Noise is simulated.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pandas as pd
from _common import parse_args, write_table
from default_bar import CASES, EPSILONS, MOST_ROWS, numbers, read_runs, split
from default_bar_peer import score
from default_bar_render import PEERS, SPLINES, behind, best, within_noise
from joblib import Parallel, delayed
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.preprocessing import make_additive_pipeline

#: Whether features (and targets) are the peers', parameters, and whether there are splines.
SETTINGS: dict[str, tuple[bool, dict[str, Any], bool]] = {
    "default": (False, {}, False),
    "splines": (False, {}, True),
    "peers' features": (True, {}, False),
    "peers' features, splines": (True, {}, True),
    "told": (True, {"standardize": False}, False),
    "told, alpha .03": (True, {"standardize": False, "alpha": 0.03}, False),
    "told, alpha .1": (True, {"standardize": False, "alpha": 0.1}, False),
    "told, alpha .3": (True, {"standardize": False, "alpha": 0.3}, False),
    "told, alpha 1": (True, {"standardize": False, "alpha": 1.0}, False),
}


def winner(runs: pd.DataFrame, cell: tuple[str, float]) -> tuple[str, pd.DataFrame]:
    """The best peer of a cell."""
    found = {peer: best(runs, cell, peer) for peer in PEERS}
    there = {peer: rows for peer, rows in found.items() if rows is not None}
    name = max(there, key=lambda peer: float(there[peer].score.mean()))
    return name, there[name]


def scores(name: str, epsilon: float, seed: int, args: Any) -> list[list[Any]]:
    """Of all settings on one split."""
    warnings.simplefilter("ignore")
    train, test = split(name, args, seed)
    regression, result = train.metric == "R2", []
    scaler = StandardScaler().fit(train.X)
    for setting, (prepared, parameters, splines) in SETTINGS.items():
        X, X_test, y = train.X, test.X, train.y
        centre, scale = 0.0, 1.0
        if prepared:
            X, X_test = scaler.transform(X), scaler.transform(X_test)
            if regression:
                centre, scale = y.mean(), y.std()
                y = (y - centre) / scale
        Model = UserLevelSGDRegressor if regression else UserLevelSGDClassifier
        model: Any = Model(epsilon, random_state=seed, **parameters)
        if splines:
            model = make_additive_pipeline(model, columns=numbers(train))
        model.fit(X, y)
        if regression:
            value = score(test.y, centre + scale * model.predict(X_test))[0]
        else:
            decide = model.predict_proba if len(np.unique(y)) > 2 else model.decision_function
            value = score(test.y, decide(X_test), model.predict(X_test))[0]
        result.append([setting, seed, value])
    return result


def main() -> None:
    args = parse_args(__doc__ or "", seeds=8, rows={"type": int, "default": MOST_ROWS})
    runs = read_runs().astype({"epsilon": float, "seed": int, "score": float, "balanced": float})
    table: list[list[Any]] = []
    cells, short = 0, 0
    for name, make in CASES.items():
        metric = make(args).metric
        for epsilon in EPSILONS:
            peer, theirs = winner(runs, (name, epsilon))
            default = best(runs, (name, epsilon), SPLINES)
            if default is None:
                continue
            cells += 1
            if (gap := within_noise(default, theirs, metric))[1]:
                continue
            parts = Parallel(n_jobs=2)(
                delayed(scores)(name, epsilon, seed, args) for seed in range(args.seeds)
            )
            frame = pd.DataFrame([row for part in parts for row in part], columns=["config", "seed", "score"])
            chosen = str(frame.groupby("config").score.mean().idxmax())
            ours = frame[frame.config == chosen].set_index("seed").sort_index()
            hindsight = within_noise(ours, theirs, metric)
            short += not hindsight[1]
            table.append(
                [
                    f"{name} ({metric})",
                    f"{epsilon:g}",
                    PEERS[peer],
                    f"{theirs.score.mean():.3f}",
                    behind(*gap),
                    chosen,
                    f"{ours.score.mean():.3f}",
                    behind(*hindsight),
                ]
            )
    columns = [
        "data",
        "ε",
        "best peer",
        "its score",
        "one default",
        "best setting",
        "its score ",
        "by hindsight",
    ]
    write_table("default_bar_hindsight", columns, table)
    print(f"one default: {cells - len(table)} of {cells} cells at or above; by hindsight {cells - short}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
