"""Tables of label sums: Adult and Criteo, against individual labels, under label privacy, and the paper's figure 3.

    python benchmarks/aggregate_curated.py [--data DIR] [--seeds 5] [--part table|figure|factors] [--only NAME]

Eight categorical columns and their 28 pairs. With ``--data``, ``criteo_encoded_20k.parquet`` is used too. Networks need
torch. The peer (interpret's boosting machine) runs in an environment of its own: ``aggregate_peer.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from _aggregate_data import adult, criteo
from _common import parse_args, read_table, require_data, save_figure, write_table
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skprivate import CuratedBagGAMClassifier, RandomBagClassifier
from skprivate.privacy import SimulatedNoiseWarning, public_generator

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
        rows.append([name, label, f"{np.mean(losses):.4f}", f"{np.mean(aucs):.4f}", f"{np.median(seconds):.1f}"])
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


NETWORKS = {"shared_embeddings": True, "epochs": 80, "learning_rate": 0.02}


def network_twin(model, X, y, X_test, y_test):
    """The same networks, from the same first weights, by individual labels: every row evaluated, no sum over bags."""
    import torch

    from skprivate.aggregate._networks import CURATED_DEFAULTS, make_submodels

    options = {**CURATED_DEFAULTS, **NETWORKS}
    seed = int(public_generator(model.random_state).integers(2**31))
    torch.manual_seed(int(public_generator(seed).integers(2**62)))
    modules = make_submodels(model._indexes, 1, "mlp", options)
    keys = [torch.as_tensor(index.keys.astype(np.int64) + 1) for index in model._indexes]
    rows = [key[torch.as_tensor(cells)] for key, cells in zip(keys, model._locate(X), strict=True)]
    labels = torch.as_tensor(np.asarray(y, dtype=float))
    intercept = torch.nn.Parameter(torch.logit(labels.mean()).reshape(1))
    parameters = list(modules.parameters())
    optimiser = torch.optim.Adam([*parameters, intercept], lr=options["learning_rate"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options["epochs"])
    for _ in range(options["epochs"]):
        optimiser.zero_grad()
        scores = intercept + sum(module(row)[:, 0] for module, row in zip(modules, rows, strict=True))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum")
        penalty = sum((p**2).sum() for p in parameters)
        ((loss + 0.5 * options["weight_decay"] * penalty) / len(y)).backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        scores = np.full(len(y_test), float(intercept))
        for module, key, cells in zip(modules, keys, model._locate(X_test), strict=True):
            scores += np.append(module(key).numpy()[:, 0], 0.0)[cells]
    return log_loss(y_test, 1 / (1 + np.exp(-scores)))


def generated(n=42_000, n_columns=6, n_codes=40):
    """Skewed categories whose pairs add products of three hidden numbers of each: structure that tables must find cell
    by cell. (X_train, X_test, y_train, y_test): five sixths and a sixth of n rows."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, n_codes + 1) ** 0.7
    X = rng.choice(n_codes, size=(n, n_columns), p=shares / shares.sum())
    hidden = rng.normal(size=(n_columns, n_codes, 3))
    score = sum(hidden[c, X[:, c], 0] for c in range(n_columns)) * 0.3 - 1.5
    for c in range(n_columns):
        for d in range(c):
            score = score + 0.25 * np.sum(hidden[c, X[:, c]] * hidden[d, X[:, d]], axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    frame = pd.DataFrame({f"c{c}": X[:, c].astype(str) for c in range(n_columns)})
    cut = 5 * n // 6
    return frame[:cut], frame[cut:].reset_index(drop=True), y[:cut], y[cut:]


def figure(name, data, seeds):
    """Loss against number of submodels, label epsilon, and bag size."""
    X, X_test, y, y_test = data
    columns = X.shape[1]
    most = columns * (columns - 1) // 2
    rows = []

    def add(picture, x, label, *values):
        rows.append([name, picture, x, label, f"{float(np.mean(values)):.4f}"])
        print(rows[-1], flush=True)

    def loss(model, X=X, X_test=X_test):
        return score(model.fit(X, y), X_test, y_test)[0]

    for q in (0, most // 7, most // 3, most):
        model = CuratedBagGAMClassifier(epsilon=None, feature_sets=q).fit(X, y)
        twin, _ = individual_twin(model, X, y)
        net = CuratedBagGAMClassifier(
            epsilon=None, feature_sets=q, random_state=0, submodel="mlp", submodel_options=NETWORKS
        ).fit(X, y)
        crossed = CuratedBagGAMClassifier(None, feature_sets=q, submodel="factors", random_state=0)
        add("submodels", columns + q, "factors, aggregates", loss(crossed))
        add("submodels", columns + q, "tables, aggregates", score(model, X_test, y_test)[0])
        add("submodels", columns + q, "tables, individual labels", score_twin(twin, model, X_test, y_test)[0])
        add("submodels", columns + q, "networks, aggregates", score(net, X_test, y_test)[0])
        add("submodels", columns + q, "networks, individual labels", network_twin(net, X, y, X_test, y_test))
    for q, submodel in ((0, "crosses"), (most, "crosses"), (most, "factors")):
        known = {"feature_sets": q, "submodel": submodel}
        label = f"{columns + q} submodels" + (", factors" if submodel == "factors" else "")
        for epsilon in (0.1, 0.5, 2.0, 8.0):
            models = (CuratedBagGAMClassifier(epsilon, random_state=s, **known) for s in range(seeds))
            add("label epsilon", epsilon, label, *map(loss, models))
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False).fit(X)
    Z, Z_test = encoder.transform(X), encoder.transform(X_test)
    for submodel, label in (("linear", "random bags, linear"), ("mlp", "random bags, networks")):
        for size in (1, 4, 16, 64, 256):
            known = {"bag_size": size, "submodel": submodel, "buckets": False}
            models = (RandomBagClassifier(epsilon=None, random_state=s, **known) for s in range(seeds))
            add("bag size", size, label, *(loss(model, Z, Z_test) for model in models))
    return rows


STYLES = {
    "tables, individual labels": "kx",
    "networks, individual labels": "k+",
    "networks, aggregates": "s-",
    "random bags, networks": "s-",
    "factors, aggregates": "^-",
}


def draw(name):
    """Draw the three pictures of what `figure` measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read_table(f"aggregate_figure3_{name}")

    fig, axes = plt.subplots(1, 3, figsize=(11.5, 3.4))
    pictures = {"submodels": axes[0], "label epsilon": axes[1], "bag size": axes[2]}
    curves: dict = {}
    for _, picture, x, label, value in rows:
        curves.setdefault((picture, label), []).append((float(x), float(value)))
    for (picture, label), points in curves.items():
        style = STYLES.get(label, "^-" if "factors" in label else "o-")
        pictures[picture].plot(*zip(*points, strict=True), style, label=label)
    best = curves["submodels", "tables, aggregates"][-1][1]
    axes[2].axhline(best, color="k", linestyle="--", label="curated bags")
    axes[0].set(xlabel="number of submodels", ylabel="test log loss", title="(a) no noise")
    axes[1].set(xscale="log", xlabel="ε for a label (δ = 1e-6)", title="(b) label privacy")
    axes[2].set(xscale="log", xlabel="rows per random bag", title="(c) random bags")
    for ax in axes:
        ax.legend(fontsize=7)
    fig.suptitle(name.capitalize(), y=1.04)
    save_figure(fig, f"aggregate_figure3_{name}")


def factors(name, data, seeds):
    """Tables of pairs against factors of them."""
    X, X_test, y, y_test = data
    rows = []
    for epsilon in (None, 8.0, 2.0, 1.0, 0.5):
        for submodel in ("crosses", "factors"):
            losses, seconds = [], []
            for seed in range(seeds if epsilon else 1):
                start = time.process_time()
                model = CuratedBagGAMClassifier(
                    epsilon, feature_sets="pairs", submodel=submodel, classes=[0, 1], random_state=seed
                )
                losses.append(log_loss(y_test, model.fit(X, y).predict_proba(X_test)[:, 1]))
                seconds.append(time.process_time() - start)
            rows.append([name, epsilon, submodel, f"{np.median(losses):.4f}", f"{np.median(seconds):.1f}"])
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    args = parse_args(
        __doc__, seeds=5, part={"choices": ["table", "figure", "factors"], "default": "table"}, only={"default": ""}
    )
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    sets = {"adult": adult}
    if args.data:
        sets["criteo"] = lambda: criteo(require_data(args, "criteo_encoded_20k.parquet"))
    if args.part != "table":
        sets["generated"] = generated
    for name, load in sets.items():
        if args.only and name != args.only:
            continue
        if args.part == "table":
            columns = ["data", "model", "log loss", "AUC", "seconds"]
            write_table(f"aggregate_curated_{name}", columns, table(name, load(), args.seeds))
        elif args.part == "factors":
            columns = ["data", "label epsilon", "submodel", "log loss", "CPU seconds"]
            write_table(f"aggregate_factors_{name}", columns, factors(name, load(), args.seeds))
        else:
            columns = ["data", "picture", "x", "model", "log loss"]
            write_table(f"aggregate_figure3_{name}", columns, figure(name, load(), args.seeds))
            draw(name)


if __name__ == "__main__":
    main()
