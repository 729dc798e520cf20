"""Tables of label sums: Adult and Criteo, against individual labels, under label privacy, and the paper's figure 3.

    python benchmarks/aggregate_curated.py [--data DIR] [--seeds 5] [--part table|figure]

Eight categorical columns and their 28 pairs. With ``--data``, ``criteo_encoded_20k.parquet`` is used too. The peer
(interpret's boosting machine) runs in an environment of its own: ``aggregate_peer.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _aggregate_data import adult, criteo
from _common import parse_args, require_data, save_figure, write_table
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skprivate import CuratedBagGAMClassifier, RandomBagClassifier
from skprivate.privacy import SimulatedNoiseWarning

#: Earlier measurements: label epsilon -> log loss of a reference from tables, per data set.
REFERENCE = {
    "adult": {None: 0.3632, 6.1: 0.3656, 1.56: 0.3703, 0.49: 0.3792},
    "criteo": {None: 0.5465, 6.1: 0.5459, 1.56: 0.5473, 0.49: 0.5512},
}
EPSILONS = (None, 6.1, 1.56, 0.49)


def score(model, X, y):
    p = model.predict_proba(X)[:, 1]
    return log_loss(y, p), roc_auc_score(y, p)


def individual_twin(model, X, y):
    """The same model by scikit-learn on individual labels: one-hot cells scaled by their penalties."""
    design = one_hot(model, X)
    return LogisticRegression(C=1.0, solver="lbfgs", tol=1e-8, max_iter=5000).fit(design, y), design


def one_hot(model, X):
    cells = model._locate(X)
    rows, columns, values, offset = [], [], [], 0
    for where, table, penalty in zip(cells, model.tables_, model.penalties_, strict=True):
        hit = where >= 0
        rows.append(np.flatnonzero(hit))
        columns.append(where[hit] + offset)
        values.append(np.full(hit.sum(), 1 / np.sqrt(penalty)))
        offset += len(table)
    shape = (len(X), offset)
    return csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)


def table(name, data, seeds):
    X, X_test, y, y_test = data
    rows = []

    def add(label, losses, aucs, seconds):
        rows.append(
            [name, label, f"{np.mean(losses):.4f}", f"{np.mean(aucs):.4f}", f"{np.median(seconds):.1f}"]
        )
        print(rows[-1], flush=True)

    start = time.perf_counter()
    main = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=2000)).fit(X, y)
    add(
        "one-hot logistic, columns only, individual labels",
        *zip(score(main, X_test, y_test)),
        [time.perf_counter() - start],
    )
    for epsilon in EPSILONS:
        results = []
        for seed in range(seeds if epsilon else 1):
            start = time.perf_counter()
            model = CuratedBagGAMClassifier(epsilon=epsilon, random_state=seed).fit(X, y)
            results.append((*score(model, X_test, y_test), time.perf_counter() - start))
            if epsilon is None:
                start = time.perf_counter()
                twin, _ = individual_twin(model, X, y)
                add(
                    "the same model on individual labels",
                    *zip(score_twin(twin, model, X_test, y_test)),
                    [time.perf_counter() - start],
                )
        label = "from tables, no label privacy" if epsilon is None else f"from tables, label eps {epsilon}"
        add(f"{label} (reference {REFERENCE[name][epsilon]})", *zip(*results, strict=True))
    return rows


def score_twin(twin, model, X, y):
    p = twin.predict_proba(one_hot(model, X))[:, 1]
    return log_loss(y, p), roc_auc_score(y, p)


def figure(name, data, seeds):
    """Loss against number of submodels, label epsilon, and bag size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, X_test, y, y_test = data
    pairs = (0, 4, 10, 18, 28)
    rows = []
    fig, axes = plt.subplots(1, 3, figsize=(11.5, 3.2))
    curves: dict = {"crosses, aggregates": [], "crosses, individual labels": [], "networks, aggregates": []}
    networks = {"submodel": "mlp", "submodel_options": {"shared_embeddings": True, "epochs": 150}}
    for q in pairs:
        model = CuratedBagGAMClassifier(epsilon=None, feature_sets=q).fit(X, y)
        curves["crosses, aggregates"].append(score(model, X_test, y_test)[0])
        twin, _ = individual_twin(model, X, y)
        curves["crosses, individual labels"].append(score_twin(twin, model, X_test, y_test)[0])
        net = CuratedBagGAMClassifier(epsilon=None, feature_sets=q, random_state=0, **networks).fit(X, y)
        curves["networks, aggregates"].append(score(net, X_test, y_test)[0])
        for label, values in curves.items():
            rows.append([name, "submodels", 8 + q, label, f"{values[-1]:.4f}"])
    for (label, values), style in zip(curves.items(), ("o-", "x", "s-"), strict=True):
        axes[0].plot([8 + q for q in pairs], values, style, label=label)
    axes[0].set(xlabel="number of submodels", ylabel="test log loss", title="(a) no noise")
    epsilons = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    for q, label in ((0, "8 submodels"), (28, "36 submodels")):
        values = []
        for epsilon in epsilons:
            losses = [
                score(
                    CuratedBagGAMClassifier(epsilon=epsilon, feature_sets=q, random_state=s).fit(X, y),
                    X_test,
                    y_test,
                )[0]
                for s in range(seeds)
            ]
            values.append(float(np.mean(losses)))
            rows.append([name, "label epsilon", epsilon, label, f"{values[-1]:.4f}"])
        axes[1].plot(epsilons, values, "o-", label=label)
    axes[1].set(xscale="log", xlabel="label epsilon (delta = 1e-6)", title="(b) label privacy")
    sizes = (1, 4, 16, 64, 256)
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False).fit(X)
    Z, Z_test = encoder.transform(X), encoder.transform(X_test)
    for loss in ("likelihood", "debiased"):
        values = []
        for size in sizes:
            losses = [
                score(
                    RandomBagClassifier(epsilon=None, bag_size=size, loss=loss, random_state=s).fit(Z, y),
                    Z_test,
                    y_test,
                )[0]
                for s in range(seeds)
            ]
            values.append(float(np.mean(losses)))
            rows.append([name, "bag size", size, f"random bags, {loss}", f"{values[-1]:.4f}"])
        axes[2].plot(sizes, values, "o-", label=f"random bags, {loss}")
    axes[2].axhline(curves["crosses, aggregates"][-1], color="k", linestyle="--", label="curated bags")
    axes[2].set(xscale="log", xlabel="rows per random bag", title="(c) random bags")
    for ax in axes:
        ax.legend(fontsize=7)
    fig.suptitle(name.capitalize(), y=1.04)
    save_figure(fig, f"aggregate_figure3_{name}")
    return rows


def main() -> None:
    args = parse_args(
        __doc__, seeds=5, part={"choices": ["table", "figure"], "default": "table"}, only={"default": ""}
    )
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    sets = {"adult": adult}
    if args.data:
        sets["criteo"] = lambda: criteo(require_data(args, "criteo_encoded_20k.parquet"))
    for name, load in sets.items():
        if args.only and name != args.only:
            continue
        if args.part == "table":
            columns = ["data", "model", "log loss", "AUC", "seconds"]
            write_table(f"aggregate_curated_{name}", columns, table(name, load(), args.seeds))
        else:
            columns = ["data", "picture", "x", "model", "log loss"]
            write_table(f"aggregate_figure3_{name}", columns, figure(name, load(), args.seeds))


if __name__ == "__main__":
    main()
