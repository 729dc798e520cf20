"""Credit default, private label 1: balanced accuracy over ε against peers, baselines and a ceiling.

    python benchmarks/mixture_credit.py [--start 0] [--seeds 10]

The data are embedded in the package. Each seed is a stratified 70/30 split. Seeds may be run in several calls: the
raw numbers are collected in ``results/mixture_credit_seeds.csv`` and the table is made of all of them.
diffprivlib runs in an environment of its own with the scikit-learn that it supports (made on the first call).
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from _common import RESULTS, ROOT, parse_args, peer_python, record_environment, save_figure, write_table
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skprivate import PPMHalfspaceClassifier
from skprivate.datasets import load_credit_default
from skprivate.privacy import SimulatedNoiseWarning

EPSILONS = (0.1, 0.5, 1.0, 3.0)
RAW = RESULTS / "mixture_credit_seeds.csv"
PEER = ROOT / ".venv-diffprivlib"
NORMS = (2.0, 5.0)

PEER_SCRIPT = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
X, y, X_test = data["X"], data["y"], data["X_test"]
out = {}
for norm in json.loads(sys.argv[3]):
    def clip(Z):
        length = np.linalg.norm(Z, axis=1, keepdims=True)
        return Z * np.minimum(1, norm / np.maximum(length, 1e-12))
    for epsilon in json.loads(sys.argv[2]):
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=int(sys.argv[4]))
        model.fit(clip(X), y)
        # It has no class weights: cut the probability at the (public) share of the class instead of one half.
        out[f"{norm} {epsilon}"] = (model.predict_proba(clip(X_test))[:, 1] > y.mean()).astype(int).tolist()
print(json.dumps(out))
"""


def diffprivlib(X, y, X_test, seed):
    """Predictions for every norm and ε, all rows private, features scaled by public rows as ours are."""
    public = X[y == 0]
    center = public.mean(axis=0)
    spread = np.diff(np.quantile(public, [0.1, 0.9], axis=0), axis=0)[0]
    scale = np.where(spread > 0, spread, public.std(axis=0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=(X - center) / scale, y=y, X_test=(X_test - center) / scale)
        command = [
            str(peer_python(PEER)),
            "-c",
            PEER_SCRIPT,
            str(path),
            json.dumps(EPSILONS),
            json.dumps(NORMS),
            str(seed),
        ]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def prototype(X, y, X_test, epsilon, seed, r=3):
    """The greedy composition that the strategies grew out of: r selections at ε/r from 250 directions × 15 cuts."""
    rng = np.random.default_rng(seed)
    public = X[y == 0]
    center, scale = public.mean(axis=0), np.maximum(public.std(axis=0), 1e-9)
    Z, Z_test = (X - center) / scale, (X_test - center) / scale
    d = X.shape[1]
    axes = np.eye(d)
    directions = [*axes, *-axes]
    for _ in range(130):
        i, j = rng.choice(d, 2, replace=False)
        directions.append(rng.choice([-1, 1]) * axes[i] + rng.choice([-1, 1]) * axes[j])
    _, _, principal = np.linalg.svd(Z[y == 0], full_matrices=False)
    directions = np.array([*directions, *principal, *-principal, *rng.normal(size=(250 - 222, d))])
    kept = [0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99]
    projections, projections_test = Z @ directions.T, Z_test @ directions.T
    cuts = np.quantile(projections[y == 0], kept, axis=0)
    weights = np.where(y == 1, 1 / (y == 1).sum(), -1 / (y == 0).sum())
    alive, alive_test = np.ones(len(y), dtype=bool), np.ones(len(X_test), dtype=bool)
    for _ in range(r):
        gain = np.empty((len(directions), len(kept)))
        for k in range(len(directions)):
            bins = np.searchsorted(cuts[:, k], projections[alive, k])
            sums = np.bincount(bins, weights[alive], minlength=len(kept) + 1)
            gain[k] = sums.sum() - np.cumsum(sums[:-1])
        noisy = epsilon / r * gain / (2 * weights.max()) + rng.gumbel(size=gain.shape)
        k, cut = np.unravel_index(np.argmax(noisy), gain.shape)
        alive &= projections[:, k] <= cuts[cut, k]
        alive_test &= projections_test[:, k] <= cuts[cut, k]
    return ~alive_test


def one_seed(seed):
    """(method, ε or "", balanced accuracy) of one split."""
    X, y = load_credit_default(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)

    def score(labels):
        return balanced_accuracy_score(y_test, labels)

    logistic = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    yield "logistic regression, not private", "", score(logistic.fit(X, y).predict(X_test))
    boosted = HistGradientBoostingClassifier(
        class_weight="balanced", learning_rate=0.05, max_iter=150, random_state=seed
    )
    yield "boosted trees, not private (ceiling)", "", score(boosted.fit(X, y).predict(X_test))
    for share in (0.1, 0.2, 0.3):
        forest = IsolationForest(contamination=share, random_state=seed).fit(X[y == 0])
        yield f"isolation forest on public rows, {share:.0%} out", "", score(forest.predict(X_test) == -1)
    for name, labels in diffprivlib(X, y, X_test, seed).items():
        norm, epsilon = name.split()
        yield f"diffprivlib logistic regression, norm {norm}", float(epsilon), score(labels)
    for epsilon in EPSILONS:
        yield "greedy prototype", epsilon, score(prototype(X, y, X_test, epsilon, seed))
        for rule in ("exponential", "permute-and-flip"):
            model = PPMHalfspaceClassifier(
                epsilon, private_label=1, class_weight="balanced", selection=rule, random_state=seed
            )
            yield f"PPMHalfspaceClassifier, {rule}", epsilon, score(model.fit(X, y).predict(X_test))


def collect():
    """{method: {ε: [scores]}}, best configuration by mean for peers with several."""
    scores = defaultdict(lambda: defaultdict(list))
    with open(RAW, newline="") as handle:
        for row in csv.DictReader(handle):
            scores[row["method"]][row["epsilon"]].append(float(row["score"]))
    return scores


def report(scores):
    def cell(values):
        return f"{mean(values):.4f} ± {stdev(values) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""

    keys = [str(epsilon) for epsilon in EPSILONS]
    rows = []
    for method, by_epsilon in scores.items():
        if "" in by_epsilon:
            rows.append([method, *[cell(by_epsilon[""])] * len(keys)])
        else:
            rows.append([method, *(cell(by_epsilon[key]) for key in keys)])
    write_table("mixture_credit", ["balanced accuracy, mean ± standard error"] + [f"ε = {k}" for k in keys], rows)
    draw()


def draw():
    """Draw the scores against ε, all and closer."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def best(prefix):
        """The configuration of a peer with the highest mean over all ε."""
        names = [method for method in scores if method.startswith(prefix)]
        return max(names, key=lambda method: mean(value for v in scores[method].values() for value in v))

    scores, keys = collect(), [str(epsilon) for epsilon in EPSILONS]
    lines = [
        ("PPMHalfspaceClassifier, permute-and-flip", "C0", "o-"),
        ("PPMHalfspaceClassifier, exponential", "C3", "o-"),
        ("greedy prototype", "C2", "s--"),
        (best("diffprivlib"), "C1", "s--"),
    ]
    levels = [method for method in scores if "not private" in method] + [best("isolation forest")]
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.8))
    for axes in panels:
        for method, color, style in lines:
            values = [scores[method][key] for key in keys]
            axes.plot(EPSILONS, [mean(v) for v in values], style, color=color, label=method, lw=1.6, ms=4)
            if method.startswith("PPM"):
                error = [stdev(v) / len(v) ** 0.5 for v in values]
                axes.errorbar(EPSILONS, [mean(v) for v in values], error, color=color, lw=0, elinewidth=1)
        for method, shade in zip(levels, ["0.2", "0.45", "0.65"], strict=True):
            axes.axhline(mean(scores[method][""]), color=shade, ls=":", lw=1.4, label=method)
        axes.set(xscale="log", xlabel="ε")
        axes.set_xticks(EPSILONS, keys)
        axes.minorticks_off()
    panels[0].set(ylabel="balanced accuracy (mean of 10 splits)")
    panels[1].set(ylim=(0.665, 0.715), title="the same, closer")
    panels[0].set_title("Credit default: 6 636 private, 23 364 public clients", fontsize=10)
    panels[1].title.set_fontsize(10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7.5, ncol=3, loc="upper center", bbox_to_anchor=(0.5, 0.0))
    save_figure(figure, "mixture_credit")


def main():
    args = parse_args(__doc__, start={"type": int, "default": 0, "help": "first seed"})
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = set()
    if RAW.exists():
        with open(RAW, newline="") as handle:
            done = {int(row["seed"]) for row in csv.DictReader(handle)}
    for seed in range(args.start, args.start + args.seeds):
        if seed in done:
            continue
        rows = [(seed, method, epsilon, f"{score:.5f}") for method, epsilon, score in one_seed(seed)]
        new = not RAW.exists()
        with open(RAW, "a", newline="") as handle:
            writer = csv.writer(handle, lineterminator="\n")
            if new:
                writer.writerow(["seed", "method", "epsilon", "score"])
            writer.writerows(rows)
        record_environment(RAW.stem, runs=True)
        print(f"seed {seed} done", flush=True)
    report(collect())


if __name__ == "__main__":
    main()
