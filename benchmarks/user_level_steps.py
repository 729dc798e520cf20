"""How many steps a fit takes by itself, beside fixed numbers of them, on generated data.

Each data set has a law of its own: 3 to 40 features, independent or correlated, some of them indicators, skewed or
heavy-tailed, 10 to 80 per cent of the target explained, by all or few of them, normal or skewed errors. The noise level
ν = Δ z √d/n is drawn between .025 and .5, ε follows from it. Scores are on 3000 other rows.

    python benchmarks/user_level_steps.py [--seeds 60]
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from _common import parse_args, write_table
from sklearn.metrics import roc_auc_score

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.privacy import gaussian_noise_multiplier

DELTA = 1e-6
KINDS = ["regression, one row a user", "regression, 2 to 20 rows a user", "two classes", "six classes"]
BANDS = [(0.0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 1.0)]
STEPS = [10, 20, 50]
HELD_OUT = 3000


def features(rng, n, d):
    factors = rng.normal(size=(max(1, d // 4), d))
    share = rng.choice([0.0, 0.3, 0.8])
    X = math.sqrt(share) * rng.normal(size=(n, len(factors))) @ factors / math.sqrt(len(factors))
    X += math.sqrt(1.0 - share) * rng.normal(size=(n, d))
    shape, chosen = rng.integers(4), slice(None, None, 2)
    if shape == 1:
        X[:, chosen] = X[:, chosen] > rng.normal(size=X[:, chosen].shape[1])
    elif shape == 2:
        X[:, chosen] = np.exp(0.7 * X[:, chosen])
    elif shape == 3:
        X = np.sign(X) * np.abs(X) ** 1.5
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)


def target(rng, X, explained):
    coef = rng.normal(size=X.shape[1])
    if rng.random() < 0.4:
        coef[rng.permutation(len(coef))[max(1, len(coef) // 4) :]] = 0.0
    signal = X @ coef
    error = rng.normal(size=len(X)) if rng.random() < 0.5 else np.exp(0.8 * rng.normal(size=len(X)))
    error = (error - error.mean()) / error.std()
    return math.sqrt(explained) * signal / signal.std() + math.sqrt(1.0 - explained) * error


def scores(kind, seed):
    """Noise level, and the scores of the default and of fixed numbers of steps; None if ε is odd."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    classes = {"two classes": 2, "six classes": 6}.get(kind, 0)
    each = int(rng.choice([2, 5, 20])) if "2 to 20" in kind else 1
    d, n = int(rng.choice([3, 6, 12, 25, 40])), int(10 ** rng.uniform(2.5, 3.5 if each > 1 else 3.9))
    n_coef = (d + 1) * (classes if classes > 2 else 1)
    level = 10 ** rng.uniform(-1.6, -0.3)
    epsilon = 9.0 * math.sqrt(n_coef) / (n * level)  # z is about 4.5/ε
    if not 0.05 <= epsilon <= 12.0:
        return None
    level = 2.0 * gaussian_noise_multiplier(epsilon, DELTA) * math.sqrt(n_coef) / n
    X = features(rng, n * each + HELD_OUT, d)
    explained = float(rng.choice([0.1, 0.3, 0.5, 0.8]))
    if classes > 2:
        y = np.column_stack([target(rng, X, explained) for _ in range(classes)]).argmax(axis=1)
    else:
        y = target(rng, X, explained)
        y = (y > np.quantile(y, 1.0 - rng.choice([0.1, 0.3, 0.5]))).astype(int) if classes else y
    train, test = slice(0, n * each), slice(n * each, None)
    users = np.arange(n * each) // each if each > 1 else None

    def score(**options):
        Model = UserLevelSGDClassifier if classes else UserLevelSGDRegressor
        labels = {"classes": np.arange(classes)} if classes else {}
        model = Model(epsilon, delta=DELTA, random_state=seed, **labels, **options)
        model.fit(X[train], y[train], user_ids=users)
        if not classes:
            return model.score(X[test], y[test])
        chances = model.predict_proba(X[test])
        return roc_auc_score(y[test], chances[:, 1] if classes == 2 else chances, multi_class="ovr")

    return [level, score(), *(score(max_iter=steps) for steps in STEPS)]


def main() -> None:
    args = parse_args(__doc__ or "", seeds=60)
    warnings.simplefilter("ignore")
    table = []
    for kind in KINDS:
        found = [result for seed in range(args.seeds) if (result := scores(kind, seed))]
        runs = np.array(found)
        for low, high in BANDS:
            own = runs[(runs[:, 0] >= low) & (runs[:, 0] < high)]
            gain = own[:, 1:2] - own[:, 2:]
            cells = [
                f"{mean:+.3f} ± {error:.3f}"
                for mean, error in zip(gain.mean(axis=0), gain.std(axis=0, ddof=1) / math.sqrt(len(own)), strict=True)
            ]
            table.append([kind, f"{low:g} to {high:g}", len(own), float(own[:, 1].mean()), *cells])
    columns = ["kind", "noise level", "data sets", "R² or AUC"]
    write_table("user_level_steps", [*columns, *(f"over {steps} steps" for steps in STEPS)], table)


if __name__ == "__main__":
    main()
