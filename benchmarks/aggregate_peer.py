"""interpret's explainable boosting machine on the same tables, individual labels, all 28 pairs.

    python -m benchmarks aggregate_peer -- --data DIR

Runs without this package, in an environment that the runner makes: it reads ``adult.parquet`` and
``criteo_encoded_20k.parquet`` and splits them alike.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import pandas as pd
from interpret.glassbox import ExplainableBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

ADULT = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "gender", "native-country"]
CRITEO = ["C1", "C5", "C6", "C8", "C9", "C14", "C17", "C20"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    frame = pd.read_parquet(args.data / "adult.parquet")
    y = (frame["income"] == ">50K").to_numpy().astype(int)
    adult = train_test_split(frame[ADULT], y, test_size=1 / 3, random_state=0, stratify=y)
    frame = pd.read_parquet(args.data / "criteo_encoded_20k.parquet")
    X, y, train = frame[CRITEO].astype(str), frame["label"].to_numpy(), (frame["split"] == "train").to_numpy()
    criteo = X[train], X[~train], y[train], y[~train]
    for name, (X, X_test, y, y_test) in {"criteo": criteo, "adult": adult}.items():
        if args.only and name != args.only:
            continue
        model = ExplainableBoostingClassifier(
            feature_types=["nominal"] * 8,
            interactions=list(itertools.combinations(range(8), 2)),
            n_jobs=1,
            random_state=0,
        )
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        p = model.predict_proba(X_test)[:, 1]
        print(
            f"{name}: log loss {log_loss(y_test, p):.4f}, AUC {roc_auc_score(y_test, p):.4f}, {seconds:.0f} s",
            flush=True,
        )
        assert np.all(np.isfinite(p))


if __name__ == "__main__":
    main()
