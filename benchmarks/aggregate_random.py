"""Random bags on Adult (107 columns): bag sizes 1 to 256, and what a transformer before the model adds.

    python benchmarks/aggregate_random.py [--seeds 5]

Bags are disjoint, as many as rows allow. "debiased" is Theorem 2's risk; "squared" leaves its correction out, which
changes nothing when there is an intercept, so both are shown without one as well.
"""

from __future__ import annotations

import time

import numpy as np
from _aggregate_data import adult_numeric
from _common import parse_args, save_figure, write_table
from sklearn.compose import make_column_transformer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from skprivate import RandomBagClassifier, RandomBagRegressor

SIZES = (1, 4, 16, 64, 256)
#: Best of each column of earlier measurements of other methods on the same split (AUC, log loss).
RECORDED = {
    1: (0.9047, 0.3218),
    4: (0.9053, 0.3230),
    16: (0.9048, 0.3268),
    64: (0.8920, 0.3442),
    256: (0.8793, 0.3688),
}


def spread():
    """Numeric columns in buckets of their quantiles, beside the columns themselves."""
    buckets = KBinsDiscretizer(16, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    return make_column_transformer((buckets, list(range(5))), ("passthrough", list(range(107))))


def models(size, seed):
    shared = {"epsilon": None, "bag_size": size, "random_state": seed}
    yield "likelihood (default)", RandomBagClassifier(**shared)
    yield "log loss of the mean", RandomBagClassifier(loss="log", **shared)
    yield (
        "log loss of the mean, ridge 1 (reference re-measured)",
        RandomBagClassifier(loss="log", alpha=1.0, **shared),
    )
    yield "debiased = squared", RandomBagClassifier(loss="debiased", **shared)
    yield "buckets + likelihood", make_pipeline(spread(), RandomBagClassifier(**shared))
    yield "likelihood, label eps 1", RandomBagClassifier(**{**shared, "epsilon": 1.0})


def main() -> None:
    args = parse_args(__doc__, seeds=5)
    import warnings

    from skprivate.privacy import SimulatedNoiseWarning

    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    warnings.filterwarnings("ignore", message="Bins whose width")
    X, X_test, y, y_test = adult_numeric()
    found: dict = {}
    for size in SIZES:
        for seed in range(1 if size == 1 else args.seeds if size < 64 else 4 * args.seeds):
            for name, model in models(size, seed):
                start = time.perf_counter()
                model.fit(X, y)
                seconds = time.perf_counter() - start
                p = model.predict_proba(X_test)[:, 1]
                found.setdefault((size, name), []).append(
                    (roc_auc_score(y_test, p), log_loss(y_test, p), seconds)
                )
            for loss in ("debiased", "squared"):
                model = RandomBagRegressor(
                    epsilon=None,
                    bag_size=size,
                    loss=loss,
                    fit_intercept=False,
                    disjoint=False,
                    random_state=seed,
                )
                start = time.perf_counter()
                model.fit(X, y.astype(float))
                seconds = time.perf_counter() - start
                p = np.clip(model.predict(X_test), 1e-3, 1 - 1e-3)
                name = f"{loss}, no intercept"
                found.setdefault((size, name), []).append(
                    (roc_auc_score(y_test, p), log_loss(y_test, p), seconds)
                )
    rows = []
    for (size, name), results in found.items():
        auc, loss, seconds = np.median(results, axis=0)
        rows.append(
            [
                size,
                name,
                f"{auc:.4f}",
                f"{loss:.4f}",
                f"{seconds:.2f}",
                "{:.4f} / {:.4f}".format(*RECORDED[size]),
            ]
        )
    write_table(
        "aggregate_random",
        ["bag size", "model", "AUC", "log loss", "seconds", "best recorded AUC / log loss"],
        rows,
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 3.6))
    for name in dict.fromkeys(name for _, name in found):
        values = [np.median([loss for _, loss, _ in found[size, name]]) for size in SIZES]
        axes.plot(SIZES, values, marker="o", label=name)
    axes.plot(SIZES, [RECORDED[size][1] for size in SIZES], "k--", label="best recorded")
    axes.set(xscale="log", xlabel="rows per bag", ylabel="test log loss", ylim=(0.27, 0.5))
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.minorticks_off()
    axes.legend(fontsize=7)
    save_figure(figure, "aggregate_random")


if __name__ == "__main__":
    main()
