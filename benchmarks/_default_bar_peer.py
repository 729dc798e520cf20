"""diffprivlib and interpret's DP-EBM on one split; the scores that ``default_bar.py`` uses for every method.

    PEER/bin/python benchmarks/_default_bar_peer.py split.npz '[["forest", "10 trees, depth 5", 1.0], …]' SEED

``default_bar.py`` starts it, in an environment of its own. It prints one line of JSON for each job, and runs without
this package. Features come standardised. The bounds that the peers ask for are taken from the data, at no charge.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

DELTA = 1e-6
#: Row norms (over √d, that of a typical row) and C of diffprivlib's logistic regression.
LOGISTIC = [f"norm {norm:g}, C {c:g}" for norm in (0.5, 1.0) for c in (0.01, 1.0, 100.0)]
#: Bounds of features (in deviations) and of the target (range, or its quantiles .01 and .99) for linear regression.
LINEAR = [f"features {z:g}, target {bounds}" for z in (1.5, 3.0) for bounds in ("range", "98 %")]
FOREST = [f"{trees} trees, depth {depth}" for trees in (5, 20) for depth in (4, 8)]


def score(y, output, predicted=None):
    """AUC (classes one against the rest, averaged) and balanced accuracy; R² where ``predicted`` is None.

    Several classes are ranked by their probabilities, as scikit-learn's "roc_auc_ovr" does: scores of a multinomial
    model say nothing of one class against the rest before the others' are known.
    """
    output = np.asarray(output, dtype=float)
    if predicted is None:
        return r2_score(y, output), float("nan")
    labels = np.unique(y)
    if output.ndim == 2 and output.shape[1] == 2:
        output = output[:, 1]
    if output.ndim == 1:
        auc = roc_auc_score(y == labels[1], output)
    else:
        auc = np.mean([roc_auc_score(y == label, output[:, k]) for k, label in enumerate(labels)])
    return float(auc), balanced_accuracy_score(y, predicted)


def clipped(X, norm):
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.minimum(1.0, norm / np.maximum(length, 1e-12))


def run(method, config, epsilon, data, seed):
    X, y, X_test, y_test = (data[name] for name in ("X", "y", "X_test", "y_test"))
    if method in ("DP-EBM", "forest") and "tree" in data:
        X, X_test = data["tree"], data["tree_test"]
    low, high = X.min(axis=0), X.max(axis=0)
    if method == "DP-EBM":
        from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

        nominal = data.get("nominal", np.zeros(X.shape[1], bool))
        shared = {
            "epsilon": epsilon,
            "delta": DELTA,
            "random_state": seed,
            "n_jobs": 1,
            "privacy_bounds": np.column_stack([low, np.maximum(high, low + 1e-9)]),
            "feature_types": ["nominal" if c else "continuous" for c in nominal],
        }
        if y.dtype.kind == "f":
            model = DPExplainableBoostingRegressor(privacy_target_min=y.min(), privacy_target_max=y.max(), **shared)
            return score(y_test, model.fit(X, y).predict(X_test))
        model = DPExplainableBoostingClassifier(**shared).fit(X, y)
        return score(y_test, model.predict_proba(X_test), model.predict(X_test))
    from diffprivlib import models

    if method == "forest":
        trees, depth = (int(part.split()[-1 if "depth" in part else 0]) for part in config.split(", "))
        model = models.RandomForestClassifier(
            n_estimators=trees,
            max_depth=depth,
            epsilon=epsilon,
            bounds=(low, high),
            classes=np.unique(y),
            random_state=seed,
        )
        model.fit(X, y)
        return score(y_test, model.predict_proba(X_test), model.predict(X_test))
    first, second = (part.split(" ", 1)[1] for part in config.split(", "))
    if y.dtype.kind == "f":
        bounds = (y.min(), y.max()) if second == "range" else tuple(np.quantile(y, [0.01, 0.99]))
        z = float(first)
        model = models.LinearRegression(epsilon=epsilon, bounds_X=(-z, z), bounds_y=bounds, random_state=seed)
        model.fit(np.clip(X, -z, z), np.clip(y, *bounds))
        return score(y_test, model.predict(np.clip(X_test, -z, z)))
    norm = float(first) * np.sqrt(X.shape[1])
    model = models.LogisticRegression(epsilon=epsilon, data_norm=norm, C=float(second), random_state=seed)
    model.fit(clipped(X, norm), y)
    Z = clipped(X_test, norm)
    # It fits one class against the rest: by its scores or by its probabilities, whichever ranks better.
    ranked = [score(y_test, output(Z), model.predict(Z)) for output in (model.decision_function, model.predict_proba)]
    return max(ranked)


def main():
    warnings.simplefilter("ignore")
    data, seed = dict(np.load(sys.argv[1])), int(sys.argv[3])
    for method, config, epsilon in json.loads(sys.argv[2]):
        start = time.process_time()
        try:
            values = [float(value) for value in run(method, config, epsilon, data, seed)]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            values = [float("nan")] * 2
            print(method, config, epsilon, type(error).__name__, error, file=sys.stderr)
        seconds = time.process_time() - start
        print(json.dumps([method, config, epsilon, *values, seconds]), flush=True)


if __name__ == "__main__":
    main()
