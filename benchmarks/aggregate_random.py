"""Random bags on Adult (107 columns): what the evidence chooses, beside fixed features and other losses.

    python benchmarks/aggregate_random.py [--seeds 3] [--generated]     # the latter: figure 3's generated table instead

Bags are the same for all models: rows in the order of ``RandomState(seed).permutation``, as many bags as rows allow and
a last short one. "columns, ridge" is the model before features were chosen by evidence.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _aggregate_data import adult_numeric
from _common import parse_args, read_table, save_figure, write_table
from aggregate_curated import generated
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import OneHotEncoder

from skprivate import RandomBagClassifier
from skprivate.aggregate import RandomBags

SIZES = (4, 16, 64, 256)
#: Best of each column of earlier measurements of other methods on the same split (AUC, log loss).
RECORDED = {4: (0.9053, 0.3230), 16: (0.9048, 0.3268), 64: (0.8920, 0.3442), 256: (0.8793, 0.3688)}
PLAIN = {"buckets": False, "prior": "ridge"}
MODELS = {
    "likelihood, by evidence (default)": {},
    "likelihood, columns, ridge": PLAIN,
    "log loss of the mean, columns, ridge 1": {"loss": "log", "alpha": 1.0},
    "easyllp, columns, ridge": {"loss": "easyllp", **PLAIN},
    "debiased = squared, columns, ridge": {"loss": "debiased", **PLAIN},
}


def bags_of(y, size, seed, epsilon=None):
    """Bags of a permutation; with ``epsilon``, Laplace noise for the labels of one row (not for release)."""
    members = np.random.RandomState(seed).permutation(y.size)
    sizes = np.full(-(-y.size // size), size)
    sizes[-1] -= sizes.sum() - y.size
    sums = np.add.reduceat(y[members].astype(float), np.append(0, np.cumsum(sizes)[:-1]))[:, None]
    if epsilon is None:
        return RandomBags(members, sizes, sums, y.size, "mean", classes=(0, 1))
    noise = np.random.RandomState(seed + 1000).laplace(scale=1 / epsilon, size=sums.shape)
    return RandomBags(members, sizes, sums + noise, y.size, "laplace", 2 / epsilon**2, classes=(0, 1))


def main() -> None:
    args = parse_args(__doc__, seeds=3, generated={"action": "store_true"})
    warnings.simplefilter("ignore")
    private = [("label eps 1, by evidence", None), ("label eps 1, columns, ridge", PLAIN)]
    if args.generated:
        X, X_test, y, y_test = generated()
        encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False).fit(X)
        X, X_test, private = encoder.transform(X), encoder.transform(X_test), []
    else:
        X, X_test, y, y_test = adult_numeric()
    found: dict = {}
    for size in SIZES:
        for seed in range(args.seeds):
            for name, options in [*MODELS.items(), *private]:
                bags = bags_of(y, size, seed, 1.0 if name.startswith("label") else None)
                start = time.process_time()
                model = RandomBagClassifier(**(options or {})).fit_bags(X, bags)
                seconds = time.process_time() - start
                p = model.predict_proba(X_test)[:, 1]
                result = roc_auc_score(y_test, p), log_loss(y_test, p), seconds
                found.setdefault((size, name), []).append(result)
    rows = []
    for (size, name), results in found.items():
        auc, loss, seconds = np.mean(results, axis=0)
        best = [] if args.generated else ["{:.4f} / {:.4f}".format(*RECORDED[size])]
        rows.append([size, name, f"{auc:.4f}", f"{loss:.4f}", f"{seconds:.1f}", *best])
    header = ["bag size", "model", "AUC", "log loss", "CPU seconds", "best recorded AUC / log loss"]
    if args.generated:
        write_table("aggregate_random_generated", header[:-1], rows)
        return
    write_table("aggregate_random", header, rows)
    draw()


def draw():
    """Draw the losses against the size of bags."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {(int(size), name): float(loss) for size, name, _, loss, *_ in read_table("aggregate_random")}
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name in dict.fromkeys(name for _, name in found):
        values = [found[size, name] for size in SIZES]
        axes.plot(SIZES, values, ":s" if "eps" in name else "-o", label=name.replace("eps 1", "ε = 1"))
    axes.plot(SIZES, [RECORDED[size][1] for size in SIZES], "k--", label="best recorded")
    axes.set(xscale="log", xlabel="rows per bag", ylabel="log loss of new rows", ylim=(0.27, 0.55))
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.minorticks_off()
    axes.legend(fontsize=7)
    axes.set_title("Adult: random bags without noise, and with ε = 1 for a label")
    save_figure(figure, "aggregate_random")


if __name__ == "__main__":
    main()
