"""Aggregated labels, columns and pairs: log loss of Adult and Criteo beside a constant, by epsilon.

    python benchmarks/aggregate_defaults.py [--data DIR] [--seeds 2]

With ``--data``, ``criteo_encoded_20k.parquet`` is used too.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _aggregate_data import adult, criteo
from _common import parse_args, require_data, write_table
from sklearn.metrics import log_loss

from skprivate import CuratedBagGAMClassifier
from skprivate.privacy import SimulatedNoiseWarning

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0, None)


def main() -> None:
    args = parse_args(__doc__, seeds=2)
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    sets = {"adult, 12 columns": lambda: adult(categories_only=False)}
    if args.data:
        sets["criteo, 8 columns"] = lambda: criteo(require_data(args, "criteo_encoded_20k.parquet"))
    rows = []
    for name, load in sets.items():
        X, X_test, y, y_test = load()
        rows.append([name, "constant", "", f"{log_loss(y_test, np.full(len(y_test), y.mean())):.4f}", "", ""])
        for epsilon in EPSILONS:
            for feature_sets in ("singles", "pairs"):
                losses, seconds = [], []
                for seed in range(args.seeds if epsilon else 1):
                    start = time.process_time()
                    model = CuratedBagGAMClassifier(epsilon=epsilon, feature_sets=feature_sets, random_state=seed).fit(
                        X, y
                    )
                    seconds.append(time.process_time() - start)
                    losses.append(log_loss(y_test, model.predict_proba(X_test)[:, 1]))
                rows.append(
                    [
                        name,
                        feature_sets,
                        "inf" if epsilon is None else epsilon,
                        f"{np.mean(losses):.4f}",
                        len(model.feature_sets_),
                        f"{np.median(seconds):.1f}",
                    ]
                )
                print(rows[-1], flush=True)
    write_table(
        "aggregate_defaults", ["data", "feature sets", "label epsilon", "log loss", "tables", "CPU seconds"], rows
    )


if __name__ == "__main__":
    main()
